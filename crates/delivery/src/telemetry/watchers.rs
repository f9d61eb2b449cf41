//! Which addresses watch a stream, and so how much each may report about: seconds of the stream that went to an address and
//! that it has not reported about yet.
//!
//! ```text
//! join … leave    a viewer of the endless stream: a second each second
//! fetched         segments and parts: as long as they last
//! take            a report: about the ten seconds before it, or as many as there are
//! ```
//! Addresses are what the caller takes for one subscriber. What each has is bounded, and so is their number; they are kept for a
//! minute after the last byte.

use glassline_media::Time;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// What a report is about at most: a step, and how far it may be late.
pub const REPORTED_MAX: Duration = Duration::from_secs(12);
/// What a report is about at least; a viewer that has watched for a shorter time has nothing to tell yet.
const REPORTED_MIN: Duration = Duration::from_secs(2);
/// What a viewer may have unreported.
const UNREPORTED_MAX: Duration = Duration::from_secs(20);
/// Viewers behind one address that fetch objects, as far as they are told apart: what is fetched faster than this many would is
/// not counted.
const FETCHING_MAX: u32 = 10;
/// Addresses that are kept beside those with viewers of the endless stream.
const ADDRESSES_MAX: usize = 16_384;
/// How long an address is kept after the last byte.
const KEPT: Duration = Duration::from_secs(60);
/// With fewer addresses than this, old ones are not looked for.
const SWEPT_MIN: usize = 256;
/// How often the old ones of a full table are looked for: each object that is fetched would have all of it gone through.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// What becomes of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reportable {
    /// It is taken.
    Taken,
    /// What went to this address, and has not been reported about, is less.
    TooOften,
    /// Nothing of the stream goes to this address.
    NotWatching,
}

/// One address.
#[derive(Clone, Copy, Debug)]
struct Watcher {
    /// Viewers of the endless stream.
    viewers: u32,
    /// Up to when these are counted in `unreported`.
    counted: Time,
    unreported: Duration,
    /// What may be fetched before it is too much for the viewers that are taken to be there.
    fetchable: Duration,
    last_byte: Time,
}

/// The addresses to which a stream goes.
#[derive(Clone, Debug, Default)]
pub struct Watchers {
    by_address: BTreeMap<IpAddr, Watcher>,
    /// At so many addresses old ones are let go.
    sweep_at: usize,
    /// When that was done last.
    swept: Time,
}

impl Watcher {
    fn new(now: Time) -> Watcher {
        Watcher {
            viewers: 0,
            counted: now,
            unreported: Duration::ZERO,
            fetchable: UNREPORTED_MAX,
            last_byte: now,
        }
    }

    /// Counts what went by since it was last looked at.
    fn count(&mut self, now: Time) {
        let passed = now.since(self.counted);
        self.counted = self.counted.max(now);
        let watched = passed.saturating_mul(self.viewers);
        // What was fetched already is not taken away where it is more than its viewers may have.
        let most = UNREPORTED_MAX.saturating_mul(self.viewers.max(1)).max(self.unreported);
        self.unreported = self.unreported.saturating_add(watched).min(most);
        let fetchable = self.fetchable.saturating_add(passed.saturating_mul(FETCHING_MAX));
        self.fetchable = fetchable.min(UNREPORTED_MAX.saturating_mul(FETCHING_MAX));
        if self.viewers > 0 {
            self.last_byte = now;
        }
    }

    fn is_old(&self, now: Time) -> bool {
        self.viewers == 0 && now.since(self.last_byte) >= KEPT
    }
}

impl Watchers {
    /// A viewer at `address` begins to get the stream.
    pub fn join(&mut self, address: IpAddr, now: Time) {
        self.sweep(now);
        let watcher = self.by_address.entry(address).or_insert_with(|| Watcher::new(now));
        watcher.count(now);
        watcher.viewers = watcher.viewers.saturating_add(1);
    }

    /// A viewer at `address` gets no more of it.
    pub fn leave(&mut self, address: IpAddr, now: Time) {
        if let Some(watcher) = self.by_address.get_mut(&address) {
            watcher.count(now);
            watcher.viewers = watcher.viewers.saturating_sub(1);
        }
    }

    /// An object goes to `address` that has the pictures of `time`.
    pub fn fetched(&mut self, address: IpAddr, time: Duration, now: Time) {
        self.sweep(now);
        if self.by_address.len() >= ADDRESSES_MAX && !self.by_address.contains_key(&address) {
            return;
        }
        let watcher = self.by_address.entry(address).or_insert_with(|| Watcher::new(now));
        watcher.count(now);
        let taken = time.min(watcher.fetchable);
        watcher.fetchable = watcher.fetchable.saturating_sub(taken);
        let most = UNREPORTED_MAX.saturating_mul(FETCHING_MAX).max(watcher.unreported);
        watcher.unreported = watcher.unreported.saturating_add(taken).min(most);
        watcher.last_byte = now;
    }

    /// A viewer at `address` reports about pictures that take `least` at least. What went there and is not reported about yet, up
    /// to [`REPORTED_MAX`] or to `least` where that is longer, counts as reported about then.
    pub fn take(&mut self, address: IpAddr, least: Duration, now: Time) -> Reportable {
        let Some(watcher) = self.by_address.get_mut(&address) else { return Reportable::NotWatching };
        watcher.count(now);
        if watcher.is_old(now) {
            return Reportable::NotWatching;
        }
        if watcher.unreported < least.max(REPORTED_MIN) {
            return Reportable::TooOften;
        }
        let taken = watcher.unreported.min(REPORTED_MAX.max(least));
        watcher.unreported = watcher.unreported.saturating_sub(taken);
        Reportable::Taken
    }

    /// Lets go those to whom nothing goes any more, now and then.
    fn sweep(&mut self, now: Time) {
        let addresses = self.by_address.len();
        let is_too_soon = addresses >= ADDRESSES_MAX && now.since(self.swept) < SWEEP_PAUSE;
        if addresses >= self.sweep_at.max(SWEPT_MIN) && !is_too_soon {
            self.swept = now;
            self.by_address.retain(|_, watcher| !watcher.is_old(now));
            self.sweep_at = self.by_address.len().saturating_mul(2).min(ADDRESSES_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    fn at(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    /// What becomes of a report of this address about so many seconds.
    fn take(watchers: &mut Watchers, number: u32, secs: u64, at_ms: u64) -> Reportable {
        watchers.take(address(number), Duration::from_secs(secs), at(at_ms))
    }

    use Reportable::{NotWatching, Taken, TooOften};

    #[test]
    fn who_does_not_watch_reports_nothing() {
        let mut watchers = Watchers::default();
        watchers.join(address(1), at(0));
        assert_eq!(take(&mut watchers, 2, 0, 10_000), NotWatching);
        watchers.leave(address(1), at(10_000));
        assert_eq!(take(&mut watchers, 1, 11, 11_000), TooOften);
        assert_eq!(take(&mut watchers, 1, 10, 11_000), Taken, "what it has seen it may tell");
        assert_eq!(take(&mut watchers, 1, 0, 12_000), TooOften);
        assert_eq!(take(&mut watchers, 1, 0, 70_000), NotWatching);
    }

    #[test]
    fn a_viewer_reports_about_the_time_that_it_has_watched() {
        let mut watchers = Watchers::default();
        watchers.join(address(1), at(0));
        assert_eq!(take(&mut watchers, 1, 0, 1999), TooOften);
        assert_eq!(take(&mut watchers, 1, 0, 10_000), Taken);
        assert_eq!(take(&mut watchers, 1, 0, 10_100), TooOften, "once");
        // A second viewer behind the address has its own: 10 s of one, and 10 s of two.
        watchers.join(address(1), at(20_000));
        for (secs, becomes) in [(10, Taken), (10, Taken), (10, TooOften), (6, Taken), (0, TooOften)] {
            assert_eq!(take(&mut watchers, 1, secs, 30_000), becomes, "{secs} s");
        }
    }

    #[test]
    fn who_fetches_reports_about_what_it_has_fetched_and_no_faster_than_some_can_watch() {
        let mut watchers = Watchers::default();
        (0..50).for_each(|part| watchers.fetched(address(1), Duration::from_millis(200), at(part * 200)));
        assert_eq!(take(&mut watchers, 1, 10, 10_000), Taken);
        assert_eq!(take(&mut watchers, 1, 0, 10_000), TooOften);
        // The same segment over and over, for a second.
        let mut told = Duration::ZERO;
        for at_ms in 10_000..11_000 {
            watchers.fetched(address(2), Duration::from_secs(2), at(at_ms));
            if take(&mut watchers, 2, 2, at_ms) == Taken {
                told += Duration::from_secs(2);
            }
        }
        assert!(told <= UNREPORTED_MAX + Duration::from_secs(1) * FETCHING_MAX, "{told:?}");
    }

    #[test]
    fn addresses_do_not_pile_up() {
        let mut watchers = Watchers::default();
        for number in 0..100_000 {
            watchers.fetched(address(number), Duration::from_secs(2), at(u64::from(number)));
        }
        assert!(watchers.by_address.len() <= ADDRESSES_MAX, "{}", watchers.by_address.len());
        // A full table is not gone through for each object.
        let swept = watchers.swept;
        (1..=1000).for_each(|number| watchers.fetched(address(number), Duration::from_secs(2), swept));
        watchers.fetched(address(1), Duration::from_secs(2), swept + SWEEP_PAUSE / 2);
        assert_eq!((watchers.by_address.len(), watchers.swept), (ADDRESSES_MAX, swept));
        watchers.join(address(7_000_000), at(200_000));
        assert!(watchers.by_address.len() <= SWEPT_MIN, "{}", watchers.by_address.len());
        assert_eq!(take(&mut watchers, 7_000_000, 2, 202_000), Taken);
    }

    proptest! {
        /// Whatever comes in whatever order: an address reports about no more than went to it.
        #[test]
        fn nobody_reports_about_more_than_went_there(
            steps in prop::collection::vec((0u8..4, 0u64..4000), 1..200),
        ) {
            let (mut watchers, mut now, mut viewers) = (Watchers::default(), 0, 0u32);
            let (mut went, mut told) = (Duration::ZERO, Duration::ZERO);
            for (step, pause) in steps {
                now += pause;
                went += Duration::from_millis(pause) * viewers;
                match step {
                    0 => { watchers.join(address(1), at(now)); viewers += 1; }
                    1 if viewers > 0 => { watchers.leave(address(1), at(now)); viewers -= 1; }
                    2 => { watchers.fetched(address(1), Duration::from_millis(pause), at(now)); went += Duration::from_millis(pause); }
                    _ => {
                        let least = Duration::from_millis(pause * 3);
                        if watchers.take(address(1), least, at(now)) == Taken {
                            told += least.max(REPORTED_MIN);
                        }
                    }
                }
                prop_assert!(told <= went, "{:?} of {:?}", told, went);
            }
        }
    }
}
