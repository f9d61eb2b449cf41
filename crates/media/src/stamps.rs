//! The latency stamps: when a picture passed each hop on its way from glass to glass.

use crate::time::Time;
use std::time::Duration;

/// A hop of a picture's way. The order is the order of the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Stage {
    /// The picture's own time: taken once, at capture.
    Captured,
    /// Handed to the encoder's queue.
    Queued,
    /// The encoder gave its last byte.
    Encoded,
    /// The container's last packet was written.
    Muxed,
    /// Handed to the kernel.
    Sent,
    /// The first byte came out of the network.
    Received,
    /// The last byte needed for decoding was there.
    Reassembled,
    /// The decoder gave the picture.
    Decoded,
    /// On the screen.
    Shown,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Stage; 9] = [
        Stage::Captured,
        Stage::Queued,
        Stage::Encoded,
        Stage::Muxed,
        Stage::Sent,
        Stage::Received,
        Stage::Reassembled,
        Stage::Decoded,
        Stage::Shown,
    ];

    /// The name that tables, metrics and JSON use.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Captured => "captured",
            Stage::Queued => "queued",
            Stage::Encoded => "encoded",
            Stage::Muxed => "muxed",
            Stage::Sent => "sent",
            Stage::Received => "received",
            Stage::Reassembled => "reassembled",
            Stage::Decoded => "decoded",
            Stage::Shown => "shown",
        }
    }
}

/// When a picture passed each [`Stage`], on one monotonic clock. 72 bytes, copied along with the picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps([Option<Time>; Stage::ALL.len()]);

impl Stamps {
    /// Stamps of a picture captured at `time`.
    pub fn captured_at(time: Time) -> Stamps {
        let mut stamps = Stamps::default();
        stamps.set(Stage::Captured, time);
        stamps
    }

    /// Writes down that `stage` was passed at `time`; a later call for the same stage wins.
    pub fn set(&mut self, stage: Stage, time: Time) {
        self.0[stage as usize] = Some(time);
    }

    /// When `stage` was passed, if it was.
    pub fn at(&self, stage: Stage) -> Option<Time> {
        self.0[stage as usize]
    }

    /// How long the way from one stage to another took, if both were passed.
    pub fn between(&self, from: Stage, to: Stage) -> Option<Duration> {
        Some(self.at(to)?.since(self.at(from)?))
    }

    /// The latency budget: each passed stage with the time since the passed stage before it.
    pub fn budget(&self) -> impl Iterator<Item = (Stage, Duration)> + '_ {
        let passed = || Stage::ALL.into_iter().filter_map(|stage| Some((stage, self.at(stage)?)));
        passed().skip(1).zip(passed()).map(|((stage, at), (_, before))| (stage, at.since(before)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_skips_stages_that_were_not_passed() {
        let mut stamps = Stamps::captured_at(Time::from_millis(10));
        stamps.set(Stage::Encoded, Time::from_millis(17));
        stamps.set(Stage::Sent, Time::from_millis(18));
        let budget: Vec<_> = stamps.budget().collect();
        let millis = Duration::from_millis;
        assert_eq!(budget, [(Stage::Encoded, millis(7)), (Stage::Sent, millis(1))]);
        assert_eq!(stamps.between(Stage::Captured, Stage::Sent), Some(millis(8)));
        assert_eq!(stamps.between(Stage::Captured, Stage::Shown), None);
    }
}
