//! Webhooks: events that go to receivers by `POST`, signed as [Standard Webhooks](https://www.standardwebhooks.com/) 1.0.0 has
//! it, so that any of its libraries verifies them. Pure: messages, answers and `now` come in, attempts and deadlines go out.
//!
//! ```text
//! event ─► Message { id, body } ─► Outbox (one a receiver) ─► attempt ─► POST, three fields ─► Outcome ─► Outbox
//!                                    │  bounded; the oldest is dropped      webhook-id: msg_…
//!                                    └─ again, ever later, a bounded        webhook-timestamp: 1674087231
//!                                       number of times                     webhook-signature: v1,BASE64
//! ```
//! * [`Message`] is a body and its name, the same at each attempt, so that a receiver can tell a repetition.
//! * [`Outbox`] decides which message goes to a receiver when, and when it is given up.
//! * [`AnswerReader`] makes an [`Outcome`] of what a receiver answers.
//! * [`WebhookSecret`] signs: `HMAC-SHA256(secret, id.timestamp.body)`.
//! * [`Destinations`] says which addresses may be connected to at all: none inside of a network that is not listed.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

mod answer;
mod destinations;
mod message;
mod outbox;
mod secret;

pub use answer::{ANSWER_BYTES_MAX, AnswerError, AnswerReader};
pub use destinations::Destinations;
pub use message::Message;
pub use outbox::{Counters, Outbox, Outcome, Policy, Verdict};
pub use secret::{SecretError, WebhookSecret};
