//! When a stream's new bytes leave for its viewers.
//!
//! What a relay costs is the number of its sends: one for each viewer each time that bytes leave. What it adds to
//! the delay is how long bytes wait for the next leaving. A [`FlushPolicy`] chooses between the two. The moment is one
//! at which a picture is whole, wherever the source sends it in one go and time allows, so that no viewer waits for
//! a picture's rest.
//!
//! ```text
//! publisher   ▌▌▌      ▌▌       ▌▌▌      ▌▌       (bursts: a picture each)
//! frame          ▲       ▲         ▲       ▲
//! balanced               ▲                 ▲      the oldest byte waits at most about 30 ms
//! thrifty                                  ▲      … 100 ms
//! ```

use glassline_media::{Time, choice};
use serde::{Deserialize, Serialize};
use std::time::Duration;

choice! {
    /// When a stream's new bytes are sent: the trade between delay and cost.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub enum FlushPolicy {
        /// Each picture leaves when its burst has come: the least delay.
        Frame = "frame" as default,
        /// As many pictures together as keep the oldest byte waiting for at most about 30 ms.
        Balanced = "balanced",
        /// The same with 100 ms: the least cost.
        Thrifty = "thrifty",
    }
}

/// Bytes without a picture, sound mostly, wait this long for one that they can leave with.
const SOUND_WAITS: Duration = Duration::from_millis(10);
/// The longest that a byte waits under [`FlushPolicy::Frame`], whatever the source is like.
const FRAME_WAITS: Duration = Duration::from_millis(20);
/// A smooth source that pauses for this long has sent its picture.
const PICTURE_IS_OVER: Duration = Duration::from_millis(3);
/// More bursts than this for a picture: the source is smooth, as one is that paces its packets.
const BURSTS_OF_A_SMOOTH_PICTURE: u32 = 4;
/// Bytes that are enough to leave under [`FlushPolicy::Frame`], be the picture whole or not: a viewer's socket takes
/// few more at once.
const ENOUGH_BYTES: u64 = 64 << 10;
/// Pictures further apart than this say nothing about when the next one comes.
const LONGEST_INTERVAL: Duration = Duration::from_millis(500);

impl FlushPolicy {
    /// The longest that a byte waits for others to leave with.
    fn longest_wait(self) -> Duration {
        match self {
            FlushPolicy::Frame => FRAME_WAITS,
            FlushPolicy::Balanced => Duration::from_millis(30),
            FlushPolicy::Thrifty => Duration::from_millis(100),
        }
    }
}

/// What the bytes of a push were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Burst {
    /// A video access unit begins among them.
    pub(super) picture_starts: bool,
    /// Some of them are video.
    pub(super) video: bool,
}

/// Decides when to flush. Bytes go in by [`Flush::handle_bytes`], the publisher's pauses by
/// [`Flush::handle_pause`]; the caller flushes when told so and then says [`Flush::flushed`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Flush {
    policy: FlushPolicy,
    /// Since when the oldest byte waits.
    waiting_since: Option<Time>,
    waiting_bytes: u64,
    /// Bytes of earlier bursts are among what waits.
    holds_back: bool,
    burst: Burst,
    last_bytes: Time,
    pictures: Pictures,
}

/// How the source sends its pictures.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Pictures {
    last_start: Option<Time>,
    /// Time between bursts in which pictures begin; a running mean.
    interval: Option<Duration>,
    bursts_since_start: u32,
    /// Bursts of a picture, times 16; a running mean.
    bursts_16: u32,
}

impl Pictures {
    fn handle_burst(&mut self, burst: Burst, now: Time) {
        if burst.picture_starts {
            self.bursts_16 = self.bursts_16 - self.bursts_16 / 8 + self.bursts_since_start * 2;
            self.bursts_since_start = 0;
            let interval = self.last_start.map(|last| now.since(last)).filter(|&gap| gap < LONGEST_INTERVAL);
            self.interval = match (self.interval, interval) {
                (Some(mean), Some(new)) => Some((mean * 7 + new) / 8),
                (mean, new) => new.or(mean),
            };
            self.last_start = Some(now);
        }
        self.bursts_since_start += u32::from(burst.video);
    }

    fn are_smooth(&self) -> bool {
        self.bursts_16 > BURSTS_OF_A_SMOOTH_PICTURE * 16
    }

    /// When the next one is expected.
    fn next(&self) -> Option<Time> {
        Some(self.last_start? + self.interval?)
    }

    fn are_coming(&self, now: Time) -> bool {
        self.last_start.is_some_and(|last| now.since(last) < LONGEST_INTERVAL)
    }
}

impl Flush {
    pub(super) fn new(policy: FlushPolicy) -> Flush {
        Flush {
            policy,
            waiting_since: None,
            waiting_bytes: 0,
            holds_back: false,
            burst: Burst::default(),
            last_bytes: Time::ZERO,
            pictures: Pictures::default(),
        }
    }

    pub(super) fn policy(&self) -> FlushPolicy {
        self.policy
    }

    pub(super) fn reconfigure(&mut self, policy: FlushPolicy) {
        self.policy = policy;
    }

    /// Another publisher: what was learnt of the last one's ways is forgotten.
    pub(super) fn begin_session(&mut self) {
        self.pictures = Pictures::default();
    }

    /// Bytes came. Returns whether there are so many that they must leave.
    pub(super) fn handle_bytes(&mut self, bytes: u64, burst: Burst, now: Time) -> bool {
        if bytes > 0 {
            self.waiting_since.get_or_insert(now);
            self.waiting_bytes += bytes;
            self.last_bytes = now;
            self.burst.picture_starts |= burst.picture_starts;
            self.burst.video |= burst.video;
        }
        self.waiting_bytes >= ENOUGH_BYTES && self.policy == FlushPolicy::Frame
    }

    /// The publisher has sent nothing more so far. Returns whether what waits is to leave now.
    pub(super) fn handle_pause(&mut self, now: Time) -> bool {
        let burst = std::mem::take(&mut self.burst);
        self.pictures.handle_burst(burst, now);
        if self.waiting_since.is_none() {
            return false;
        }
        // Of a smooth source the next picture's start tells that the last one is whole.
        let smooth = self.pictures.are_smooth();
        let picture_is_whole = if smooth { burst.picture_starts && self.holds_back } else { burst.video };
        self.holds_back = self.waiting_since.is_some();
        let may_leave = picture_is_whole || !self.pictures.are_coming(now);
        let leaves = self.policy == FlushPolicy::Frame || self.is_late_by_the_next_picture();
        (may_leave && leaves) || self.is_due(now)
    }

    /// Whether the oldest byte cannot wait for the next picture too. The tenth part of its time is kept in hand:
    /// arrivals scatter, and a picture that comes too late to leave in time must not be waited for.
    fn is_late_by_the_next_picture(&self) -> bool {
        let (Some(since), Some(next)) = (self.waiting_since, self.pictures.next()) else { return false };
        next + self.policy.longest_wait() / 10 > since + self.policy.longest_wait()
    }

    /// By when what waits has to leave.
    fn latest(&self, now: Time) -> Option<Time> {
        let since = self.waiting_since?;
        let latest = since + self.policy.longest_wait();
        if self.policy != FlushPolicy::Frame {
            return Some(latest);
        }
        let sooner = if self.pictures.are_smooth() {
            self.last_bytes + PICTURE_IS_OVER
        } else if self.pictures.are_coming(now) {
            since + SOUND_WAITS
        } else {
            since
        };
        Some(latest.min(sooner))
    }

    /// When to ask [`Flush::is_due`], if nothing comes before.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.latest(self.last_bytes)
    }

    /// Whether what waits is to leave now, pause or not.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.poll_timeout().is_some_and(|latest| latest <= now)
    }

    /// All that came has left.
    pub(super) fn flushed(&mut self) {
        self.waiting_since = None;
        self.waiting_bytes = 0;
        self.holds_back = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PICTURE: Burst = Burst { picture_starts: true, video: true };
    const REST: Burst = Burst { picture_starts: false, video: true };
    const SOUND: Burst = Burst { picture_starts: false, video: false };

    fn ms(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    /// Plays bursts of (arrival in ms, bytes, what) in order, asks when it should, and gives the times in ms at
    /// which bytes left.
    fn play(policy: FlushPolicy, bursts: &[(u64, u64, Burst)]) -> Vec<u64> {
        let mut flush = Flush::new(policy);
        let mut left = Vec::new();
        let mut leave = |flush: &mut Flush, at: Time| {
            flush.flushed();
            left.push(at.as_nanos() / 1_000_000);
        };
        for &(at, bytes, burst) in bursts {
            while let Some(due) = flush.poll_timeout().filter(|&due| due < ms(at)) {
                assert!(flush.is_due(due));
                leave(&mut flush, due);
            }
            if flush.handle_bytes(bytes, burst, ms(at)) | flush.handle_pause(ms(at)) {
                leave(&mut flush, ms(at));
            }
        }
        if let Some(due) = flush.poll_timeout() {
            leave(&mut flush, due);
        }
        left
    }

    fn pictures(count: u64, interval: u64) -> Vec<(u64, u64, Burst)> {
        (1..=count).map(|number| (number * interval, 12_500, PICTURE)).collect()
    }

    #[test]
    fn each_picture_leaves_as_it_comes() {
        assert_eq!(play(FlushPolicy::Frame, &pictures(4, 20)), [20, 40, 60, 80]);
        // In two reads too.
        let halves = [(20, 9000, PICTURE), (21, 3500, REST), (40, 9000, PICTURE), (41, 3500, REST)];
        assert_eq!(play(FlushPolicy::Frame, &halves), [20, 21, 40, 41]);
    }

    #[test]
    fn balanced_and_thrifty_wait_for_as_many_pictures_as_their_time_allows() {
        let left = play(FlushPolicy::Balanced, &pictures(40, 20));
        assert_eq!(left[left.len() - 4..], [680, 720, 760, 800]);
        let left = play(FlushPolicy::Thrifty, &pictures(60, 20));
        assert!(left[2..].windows(2).all(|pair| pair[1] - pair[0] == 100), "{left:?}");
        // Pictures further apart than the policy's time leave each for itself.
        assert_eq!(play(FlushPolicy::Balanced, &pictures(4, 40))[1..], [80, 120, 160]);
    }

    #[test]
    fn sound_leaves_with_the_next_picture_or_after_a_moment() {
        let with_sound = [(20, 12_500, PICTURE), (30, 376, SOUND), (38, 12_500, PICTURE), (40, 376, SOUND)];
        assert_eq!(play(FlushPolicy::Frame, &with_sound), [20, 38, 50]);
        // Without pictures there is nothing to wait for.
        assert_eq!(play(FlushPolicy::Frame, &[(20, 376, SOUND), (30, 376, SOUND)]), [20, 30]);
    }

    #[test]
    fn a_smooth_source_is_coalesced_to_pictures() {
        // Twenty pictures of ten datagrams, one each 2 ms.
        let datagram =
            |number: u64| (10 + number * 2, 1316, if number.is_multiple_of(10) { PICTURE } else { REST });
        let left = play(FlushPolicy::Frame, &(0..200).map(datagram).collect::<Vec<_>>());
        let settled = &left[left.len() - 9..left.len() - 1];
        assert!(settled.windows(2).all(|pair| pair[1] - pair[0] == 20), "{left:?}");
        // One that sends a picture's datagrams quickly and then rests: the rest tells that it is whole.
        let datagram = |number: u64| {
            (10 + number / 8 * 40 + number % 8, 1316, if number.is_multiple_of(8) { PICTURE } else { REST })
        };
        let left = play(FlushPolicy::Frame, &(0..160).map(datagram).collect::<Vec<_>>());
        assert_eq!(left[left.len() - 3..], [690, 730, 770].map(|start| start + 7 + 3));
    }

    #[test]
    fn much_leaves_at_once() {
        let mut flush = Flush::new(FlushPolicy::Frame);
        assert!(!flush.handle_bytes(ENOUGH_BYTES - 1, PICTURE, ms(1)));
        assert!(flush.handle_bytes(1, REST, ms(1)));
    }

    fn burst() -> impl Strategy<Value = (u64, u64, Burst)> {
        let what = prop_oneof![Just(PICTURE), Just(REST), Just(SOUND)];
        (0..60u64, 1..40_000u64, what)
    }

    proptest! {
        #[test]
        fn no_byte_waits_longer_than_the_policy_says(gaps in prop::collection::vec(burst(), 1..80), which in 0..3usize) {
            let policy = [FlushPolicy::Frame, FlushPolicy::Balanced, FlushPolicy::Thrifty][which];
            let mut at = 0;
            let bursts: Vec<_> = gaps.into_iter().map(|(gap, bytes, burst)| { at += gap; (at, bytes, burst) }).collect();
            let left = play(policy, &bursts);
            let longest = policy.longest_wait().as_millis() as u64;
            for (came, ..) in bursts {
                let leaves = left.iter().find(|&&left| left >= came).expect("all of it leaves");
                prop_assert!(leaves - came <= longest, "{came} left at {leaves} of {left:?}");
            }
        }
    }
}
