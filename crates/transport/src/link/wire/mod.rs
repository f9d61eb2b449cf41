//! The wire format: what comes in are bytes, what goes out are values that borrow from them, and the other way round.
//! Nothing here knows a key or a state. docs/wire-link.md describes it for a second implementation.
//!
//! * [`varint`]: integers of variable length.
//! * [`packet`]: the outside of a datagram, readable without keys.
//! * [`frame`]: what a data packet holds once it is opened; [`row`]: of these, small messages in a row.
//! * [`parameters`]: what the two ends tell each other in the handshake.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

pub mod frame;
mod options;
pub mod packet;
pub mod parameters;
pub mod row;
pub mod varint;
