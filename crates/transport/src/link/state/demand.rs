//! Whether the application sends what it is offered: one that fits each picture to its budget pauses because the budget is used
//! up, not because it has nothing to say.

use glassline_media::Time;
use std::time::Duration;

/// A message of this share of its budget fills it: encoders meet a size from below.
const FILLED: f64 = 0.5;
/// How long one such message tells of the application's wish.
const WISH_LASTS: Duration = Duration::from_millis(250);

/// What the application was told that it may send, and whether it does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    /// The channel that was asked about last, and what was told, bytes.
    offered: Option<(u8, u64)>,
    /// Until when it is known to want more.
    until: Time,
}

impl Demand {
    /// The application was told that a message on `channel` may have so many `bytes`, where a packet has `packet` of them.
    pub(super) fn handle_offer(&mut self, now: Time, channel: u8, bytes: u64, packet: usize) {
        self.offered = Some((channel, bytes));
        if bytes < packet as u64 {
            // An application that asks and is told that there is nothing would send more.
            self.until = now + WISH_LASTS;
        }
    }

    /// It sends a message of so many `bytes`.
    #[inline]
    pub(super) fn handle_message(&mut self, now: Time, channel: u8, bytes: usize) {
        if let Some((_, offered)) = self.offered.filter(|offered| offered.0 == channel)
            && bytes as f64 >= FILLED * offered as f64
        {
            self.until = now + WISH_LASTS;
        }
    }

    /// Whether it would send more if it were told that it may.
    pub(super) fn wants_more(&self, now: Time) -> bool {
        now < self.until
    }
}
