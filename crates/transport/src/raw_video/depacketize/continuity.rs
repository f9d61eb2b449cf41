//! How a stream goes on: its numbers and its time stamps together.
//!
//! A frame's first packet has a sequence number and a time stamp, and each tells how many frames after the last whole one it is.
//! Where the two do not agree, it is no packet of the stream: one with a stamp from the future would otherwise be the newest
//! frame of all, and all frames up to that stamp late. Frames that the sender leaves out move the stamp and not the number; so
//! does a pause, and both take their time.

use super::LATE_TICKS;
use glassline_media::Time;
use std::num::{NonZeroU32, NonZeroU64};

/// Ticks a second of video's RTP clock.
const TICKS: u64 = 90_000;
/// How much earlier a frame may come than the time that has passed tells, beside one frame: what senders and networks are
/// uneven by.
const UNEVEN_TICKS: u64 = TICKS / 50;

/// A frame that came whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole {
    /// The time stamp of its first field.
    pub(super) timestamp: u32,
    /// The sequence numbers of its first packet, and of the one behind its last.
    pub(super) first: u64,
    pub(super) next: u64,
    /// When its first packet came.
    pub(super) began: Time,
    /// Its fields have one time stamp.
    pub(super) has_one_stamp: bool,
}

/// The last frame that came whole, and from one to the next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Continuity {
    last: Option<Whole>,
    /// Ticks from a frame to the next, of two that followed each other.
    step: Option<NonZeroU32>,
}

impl Continuity {
    /// A frame came whole.
    pub(super) fn note(&mut self, whole: Whole) {
        let before = self.last.replace(whole).filter(|before| before.next == whole.first);
        let step = before.and_then(|before| NonZeroU32::new(whole.timestamp.wrapping_sub(before.timestamp)));
        self.step = step.filter(|step| step.get() <= LATE_TICKS).or(self.step);
    }

    /// Behind the last whole frame came packets without samples, up to the one before `next`.
    pub(super) fn extend(&mut self, next: u64) {
        if let Some(last) = &mut self.last {
            last.next = last.next.max(next);
        }
    }

    /// Whether a frame that is newer than all may begin with this packet. Before there were two whole frames in a row it may be
    /// a second ahead.
    pub(super) fn allows(&self, timestamp: u32, sequence: u64, at: Time) -> bool {
        let Some(last) = self.last else { return true };
        let ahead = u64::from(timestamp.wrapping_sub(last.timestamp));
        let passed = ticks(at.since(last.began));
        let Some(step) = self.step.map(NonZeroU64::from) else {
            return ahead <= passed.saturating_add(u64::from(LATE_TICKS));
        };
        let packets = NonZeroU64::new(last.next.saturating_sub(last.first)).unwrap_or(NonZeroU64::MIN);
        let skipped = sequence.saturating_sub(last.next);
        let by_number = (skipped / packets).saturating_add(1).saturating_mul(step.get());
        let uneven = step.get().saturating_add(UNEVEN_TICKS);
        let latest = by_number.saturating_add(passed).saturating_add(uneven);
        // A frame that is cut otherwise may have twice the packets.
        let most = (ahead / step).saturating_add(2).saturating_mul(packets.get().saturating_mul(2));
        ahead <= latest && skipped <= most
    }

    /// Whether the second field of a frame may have this stamp, which is later than the first one's.
    pub(super) fn allows_field(&self, first: u32, second: u32) -> bool {
        !self.last.is_some_and(|last| last.has_one_stamp)
            && self.step.is_none_or(|step| second.wrapping_sub(first) < step.get())
    }
}

fn ticks(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos().saturating_mul(u128::from(TICKS)) / 1_000_000_000).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    /// 25 frames a second of 100 packets, the last one of which began at 1 s.
    fn steady() -> Continuity {
        let mut continuity = Continuity::default();
        for number in 0..5u32 {
            let first = 1_000 + u64::from(number) * 100;
            let began = Time::from_millis(840 + u64::from(number) * 40);
            let timestamp = 0xFFFF_F000u32.wrapping_add(number * 3_600);
            continuity.note(Whole { timestamp, first, next: first + 100, began, has_one_stamp: false });
        }
        continuity
    }

    const LAST: u32 = 0xFFFF_F000u32.wrapping_add(4 * 3_600);

    #[test]
    fn a_stamp_from_the_future_is_none_of_the_streams() {
        let (continuity, at) = (steady(), Time::from_millis(1_020));
        assert!(continuity.allows(LAST.wrapping_add(3_600), 1_500, at));
        for ahead in [4 * 3_600, 90_000, 1 << 30, u32::MAX / 2] {
            assert!(!continuity.allows(LAST.wrapping_add(ahead), 1_500, at), "{ahead}");
        }
        assert!(!continuity.allows(LAST.wrapping_add(3_600), 1_500 + 10_000, at), "the number is ahead");
    }

    #[test]
    fn frames_that_were_lost_or_left_out_and_pauses_are_allowed() {
        let continuity = steady();
        let frames = |count: u32| LAST.wrapping_add(count * 3_600);
        // Lost ones move both, whatever time it is.
        assert!(continuity.allows(frames(1_000), 1_500 + 99_900, Time::from_millis(1_000)));
        // Those left out move the stamp alone, and take their time.
        assert!(continuity.allows(frames(10), 1_500, Time::from_millis(1_400)));
        assert!(!continuity.allows(frames(100), 1_500, Time::from_millis(1_400)));
        // A frame that is cut anew.
        assert!(continuity.allows(frames(2), 1_500 + 200, Time::from_millis(1_080)));
    }

    #[test]
    fn a_second_field_is_before_the_next_frame() {
        let continuity = steady();
        assert!(continuity.allows_field(LAST, LAST.wrapping_add(1_800)));
        assert!(!continuity.allows_field(LAST, LAST.wrapping_add(3_600)));
        assert!(Continuity::default().allows_field(0, 40_000));
    }

    proptest! {
        /// A stream at any rate, of any size of frames, that loses frames, pauses and comes unevenly, is followed.
        #[test]
        fn a_stream_is_allowed_to_go_on(
            step in 90u32..90_000, packets in 1u64..20_000, first: u32, base in 0u64..1 << 32,
            fates in prop::collection::vec((0u32..4, 0u64..30_000, any::<bool>()), 1..60),
        ) {
            let mut continuity = Continuity::default();
            let (mut frame, mut now) = (0u64, Time::from_millis(1_000));
            for (number, (lost, late_us, is_left_out)) in fates.into_iter().enumerate() {
                // The first two come whole: until then there is nothing to hold packets to.
                let lost = if number < 2 { 0 } else { u64::from(lost) };
                let passed = Duration::from_nanos(u64::from(step) * (1 + lost) * 1_000_000_000 / TICKS);
                now += passed;
                let sent = if is_left_out && number >= 2 { frame } else { frame + lost };
                let stamp = |frames: u64| first.wrapping_add((frames as u32).wrapping_mul(step));
                let at = now + Duration::from_micros(late_us);
                let sequence = base + sent * packets;
                let timestamp = if sent == frame { stamp(frame + lost) } else { stamp(sent) };
                prop_assert!(continuity.allows(timestamp, sequence, at), "{number} {continuity:?} {timestamp} {sequence}");
                if is_left_out && number >= 2 {
                    // From here on stamps are ahead of numbers; the count begins with this frame.
                    return Ok(());
                }
                continuity.note(Whole { timestamp, first: sequence, next: sequence + packets, began: at, has_one_stamp: false });
                frame = sent + 1;
            }
        }

        #[test]
        fn no_numbers_panic(
            wholes in prop::collection::vec((any::<u32>(), any::<u64>(), any::<u64>(), any::<u64>()), 0..5),
            timestamp: u32, sequence: u64, at: u64,
        ) {
            let mut continuity = Continuity::default();
            for (timestamp, first, packets, began) in wholes {
                let next = first.saturating_add(packets);
                continuity.note(Whole { timestamp, first, next, began: Time::from_nanos(began), has_one_stamp: false });
            }
            let _ = continuity.allows(timestamp, sequence, Time::from_nanos(at));
        }
    }
}
