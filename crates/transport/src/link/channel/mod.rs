//! Channels: each direction of each has its own trade of bandwidth, delay and reliability.
//!
//! * `send`: messages wait, begin, are cut into fragments, resent, cancelled.
//! * `compression`, `fec`: what makes messages smaller, or their loss harmless; `stamp`: the time that a message carries.
//! * `receive`: fragments become messages again, in order or not, each once; `assembly`: one message of which parts have
//!   come; `spares`: the memory that they stand in.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

mod assembly;
pub(crate) mod compression;
pub(crate) mod fec;
pub(crate) mod receive;
pub(crate) mod send;
mod spares;
pub(crate) mod stamp;

/// What a message takes at the receiver beside its bytes: its place in a queue, its allocation. Both ends count it for
/// windows and budgets, so that messages without bytes are bounded too.
pub(crate) const MESSAGE_COST: u64 = 128;

/// Of the window that is granted to a channel each has this share whatever the others of its link have.
pub(crate) const LEAST_SHARE: u64 = 64;

/// A length in 32 bits, which neither a message's bytes nor its shards exceed.
#[inline]
fn length_of<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}

/// The window of a channel with messages of at most `max_size` bytes, where `window` bytes are granted to each channel.
/// Both ends compute it like this: two messages of that size always have room.
pub(crate) fn window_for(window: u64, max_size: u32) -> u64 {
    window.max(u64::from(max_size).saturating_add(MESSAGE_COST).saturating_mul(2))
}
