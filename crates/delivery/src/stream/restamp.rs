//! A publisher's packets on the clock of what was shown before it.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use glassline_media::container::ts::{PACKET_BYTES, Packet, Shifter};
use glassline_media::{Ticks, Time};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Sound that is older than what was heard is left out for so long: then its stamps are not what they should be.
const LEFT_OUT_MAX: Duration = Duration::from_secs(2);

/// Moves stamps by one distance, and leaves out what is older than what viewers have heard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restamp {
    shifter: Shifter,
    /// Packets on this PID are left out until a unit begins that is presented at this time or later, at this moment at the latest.
    left_out: Option<(u16, Ticks, Time)>,
}

impl Restamp {
    /// Moves all stamps by `distance`.
    pub fn by(distance: Ticks) -> Restamp {
        Restamp { shifter: Shifter::new(distance), left_out: None }
    }

    /// The same; the sound on `pid` begins with the first unit that is presented at `from` or later, by the stamps as they are then.
    #[must_use]
    pub fn with_sound_from(self, pid: u16, from: Ticks, now: Time) -> Restamp {
        let until = Time::from_nanos(now.as_nanos().saturating_add(duration_nanos(LEFT_OUT_MAX)));
        Restamp { left_out: Some((pid, from, until)), ..self }
    }

    /// The distance.
    pub fn distance(&self) -> Ticks {
        self.shifter.distance()
    }

    /// Moves the stamps of `packet`. Returns whether it belongs in the stream.
    pub(super) fn apply(&mut self, packet: &mut [u8; PACKET_BYTES], now: Time) -> bool {
        let header = self.shifter.shift(packet);
        let Some((pid, from, until)) = self.left_out else { return true };
        if Packet::parse(packet).map_or(true, |packet| packet.pid != pid) {
            return true;
        }
        let pts = header.and_then(|header| header.pts).map(|pts| Ticks::unwrap_near(pts, from));
        if now >= until || pts.is_some_and(|pts| pts >= from) {
            self.left_out = None;
            return true;
        }
        false
    }
}

fn duration_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
