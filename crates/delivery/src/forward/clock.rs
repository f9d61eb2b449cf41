//! The time of what is sent: milliseconds from 0 on, whatever the stream's clock does.
//!
//! ```text
//! stream:  95000 95040 95080 │ 12 52 92        another publisher, or the encoder was started again
//! sent:        0    40    80 │ 90 130 170      as much later as it came later
//! ```
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use glassline_media::{AccessUnit, Ticks, Time};
use std::time::Duration;

const TICKS_PER_MS: i64 = 90;
/// A unit that lies further before the newest one of all tracks, or further behind it, is of another clock. Tracks are interleaved by
/// less.
const BACK_MAX: i64 = 5 * Ticks::RATE as i64;
const FORWARD_MAX: i64 = 10 * Ticks::RATE as i64;
/// A track is decoded in its order: a unit that lies further before the track's own last one is of another clock.
const OWN_BACK_MAX: i64 = Ticks::RATE as i64 / 2;
/// Where a unit follows the track's last one of the clock before by no more than this, the track has not jumped yet.
const GOES_ON_MAX: i64 = Ticks::RATE as i64;
/// How long units of the clock before may still come.
const BEFORE_KEPT: Duration = Duration::from_secs(3);

/// Where a unit stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    /// When it is decoded, from the beginning of what is sent.
    pub(super) time_ms: i64,
    /// How much later it is presented.
    pub(super) composition_ms: i32,
}

/// A clock that the stream has had.
#[derive(Clone, Copy, Debug)]
struct Scale {
    /// What is added to its stamps.
    offset: i64,
    /// Its newest stamp.
    newest: i64,
    /// The last stamps of pictures and of sound.
    last: [Option<i64>; 2],
}

impl Scale {
    fn new(offset: i64, is_video: bool, dts: i64) -> Scale {
        let mut scale = Scale { offset, newest: dts, last: [None; 2] };
        scale.take(is_video, dts);
        scale
    }

    fn last(&self, is_video: bool) -> Option<i64> {
        let [video, audio] = self.last;
        if is_video { video } else { audio }
    }

    /// Whether a stamp is one of this clock.
    fn has(&self, is_video: bool, dts: i64) -> bool {
        let goes_back = |last: i64| dts.saturating_sub(last) < OWN_BACK_MAX.saturating_neg();
        let since = dts.saturating_sub(self.newest);
        (BACK_MAX.saturating_neg()..=FORWARD_MAX).contains(&since)
            && !self.last(is_video).is_some_and(goes_back)
    }

    /// Whether a stamp follows the last one of its track.
    fn goes_on(&self, is_video: bool, dts: i64) -> bool {
        let follows =
            |last: i64| (OWN_BACK_MAX.saturating_neg()..=GOES_ON_MAX).contains(&dts.saturating_sub(last));
        self.last(is_video).is_some_and(follows)
    }

    fn take(&mut self, is_video: bool, dts: i64) {
        self.newest = self.newest.max(dts);
        let [video, audio] = &mut self.last;
        *(if is_video { video } else { audio }) = Some(dts);
    }
}

/// Places units: see the module.
#[derive(Clone, Debug, Default)]
pub(super) struct ForwardClock {
    scale: Option<Scale>,
    /// The clock before the jump: a track's last unit may come behind the other track's first one of the new clock.
    before: Option<Scale>,
    /// When the jump was.
    jumped_at: Time,
    /// The latest time that was given, in ticks, and when that was.
    reached: i64,
    reached_at: Time,
    /// The last time of pictures and of sound.
    last_ms: [Option<i64>; 2],
    jumps: u64,
}

impl ForwardClock {
    /// Where `unit` stands, that came at `now`; `None` where that is before the beginning.
    pub(super) fn place(&mut self, is_video: bool, unit: &AccessUnit, now: Time) -> Option<Placed> {
        let Ticks(dts) = unit.dts;
        let offset = self.offset(is_video, dts, now);
        let ms = |stamp: Ticks| stamp.0.saturating_add(offset).div_euclid(TICKS_PER_MS);
        let at = dts.saturating_add(offset);
        if at < 0 {
            return None;
        }
        if at >= self.reached {
            (self.reached, self.reached_at) = (at, now);
        }
        let [video, audio] = &mut self.last_ms;
        let last = if is_video { video } else { audio };
        // Services end a stream with times that do not grow.
        let time_ms = ms(unit.dts).max(last.map_or(0, |last| last.saturating_add(1)));
        *last = Some(time_ms);
        let composition = ms(unit.pts).saturating_sub(time_ms);
        let composition_ms = i32::try_from(composition).unwrap_or(0);
        Some(Placed { time_ms, composition_ms })
    }

    /// Times that the stream's clock has jumped.
    pub(super) fn jumps(&self) -> u64 {
        self.jumps
    }

    /// What is added to a stamp.
    fn offset(&mut self, is_video: bool, dts: i64, now: Time) -> i64 {
        if now.since(self.jumped_at) >= BEFORE_KEPT {
            self.before = None;
        }
        let Some(scale) = &mut self.scale else {
            let offset = dts.saturating_neg();
            self.scale = Some(Scale::new(offset, is_video, dts));
            (self.reached, self.reached_at) = (0, now);
            return offset;
        };
        // A track that has not jumped yet is looked for in the clock before first: after a small jump its stamps would fit the new one.
        let has_jumped = scale.last(is_video).is_some();
        let before = self.before.as_mut().filter(|before| before.goes_on(is_video, dts));
        if let Some(before) = before
            && (!has_jumped || !scale.has(is_video, dts))
        {
            before.take(is_video, dts);
            return before.offset;
        }
        if scale.has(is_video, dts) {
            scale.take(is_video, dts);
            return scale.offset;
        }
        self.jumps = self.jumps.saturating_add(1);
        let waited = i64::try_from(now.since(self.reached_at).as_millis()).unwrap_or(i64::MAX).max(1);
        let at = self.reached.saturating_add(waited.saturating_mul(TICKS_PER_MS));
        let offset = at.saturating_sub(dts);
        self.before = self.scale.replace(Scale::new(offset, is_video, dts));
        self.jumped_at = now;
        offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use glassline_media::{Codec, Stamps};
    use proptest::prelude::*;

    fn unit(dts_ms: i64, composition_ms: i64) -> AccessUnit {
        let (dts, pts) = (Ticks(dts_ms * 90), Ticks((dts_ms + composition_ms) * 90));
        AccessUnit {
            codec: Codec::H264,
            data: Bytes::new(),
            pts,
            dts,
            random_access: false,
            stamps: Stamps::default(),
        }
    }

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn times_begin_at_zero_and_keep_the_order_of_presentation() {
        let mut clock = ForwardClock::default();
        let mut place = |is_video, dts, later, now| {
            clock
                .place(is_video, &unit(dts, later), at(now))
                .map(|placed| (placed.time_ms, placed.composition_ms))
        };
        assert_eq!(place(true, 95_000, 80, 0), Some((0, 80)));
        assert_eq!(place(false, 94_990, 0, 1), None, "sound from before the beginning");
        assert_eq!(place(false, 95_010, 0, 2), Some((10, 0)));
        assert_eq!(place(true, 95_040, 0, 40), Some((40, 0)));
        // The same stamp again: times grow, and what is presented when stays.
        assert_eq!(place(true, 95_040, 20, 41), Some((41, 19)));
    }

    #[test]
    fn a_jump_of_the_clock_goes_on_as_much_later_as_it_came() {
        for new in [12, 900_000] {
            let mut clock = ForwardClock::default();
            let mut place =
                |is_video, dts, now| clock.place(is_video, &unit(dts, 0), at(now)).map(|it| it.time_ms);
            assert_eq!(place(true, 95_000, 0), Some(0));
            assert_eq!(place(false, 95_020, 20), Some(20));
            assert_eq!(place(true, 95_040, 40), Some(40));
            // Three seconds without a publisher.
            assert_eq!(place(true, new, 3040), Some(3040));
            // The last unit of sound of before, which the demultiplexer had held, and the first of the new clock.
            assert_eq!(place(false, 95_041, 3041), Some(41));
            assert_eq!(place(false, new + 5, 3045), Some(3045));
            assert_eq!(place(true, new + 40, 3080), Some(3080));
            assert_eq!(clock.jumps(), 1);
        }
    }

    #[test]
    fn a_small_jump_back_is_one_and_pictures_go_on_at_once() {
        for back in [600, 3000, 4900] {
            let mut clock = ForwardClock::default();
            let mut place =
                |is_video, dts, now| clock.place(is_video, &unit(dts, 0), at(now)).map(|it| it.time_ms);
            assert_eq!(place(true, 95_000, 0), Some(0));
            for number in 1..250 {
                let now = number as u64 * 40;
                assert_eq!(place(true, 95_000 + number * 40, now), Some(number * 40));
                assert_eq!(place(false, 95_010 + number * 40, now), Some(number * 40 + 10));
            }
            let new = 95_000 + 249 * 40 - back;
            // 9970 was reached, at 9960.
            assert_eq!(place(true, new, 10_000), Some(10_010), "{back}");
            // Sound of before, then of the new clock.
            assert_eq!(place(false, 95_010 + 250 * 40, 10_001), Some(10_010));
            assert_eq!(place(false, new + 10, 10_002), Some(10_020));
            assert_eq!(place(true, new + 40, 10_040), Some(10_050));
            assert_eq!(clock.jumps(), 1);
        }
    }

    #[test]
    fn the_clock_before_is_forgotten_some_seconds_after_the_jump() {
        let mut clock = ForwardClock::default();
        let mut place = |dts, now| clock.place(true, &unit(dts, 0), at(now)).map(|it| it.time_ms);
        assert_eq!(place(95_000, 0), Some(0));
        assert_eq!(place(12, 1000), Some(1000));
        assert_eq!(place(4012, 5000), Some(5000));
        // Back on the first clock: another jump, not a time that stands still until the old one is caught up with.
        assert_eq!(place(95_040, 5040), Some(5040));
        assert_eq!(place(95_080, 5080), Some(5080));
        assert_eq!(clock.jumps(), 2);
    }

    proptest! {
        #[test]
        fn times_of_a_track_grow_whatever_comes(
            units in proptest::collection::vec((any::<bool>(), any::<i64>(), any::<i64>(), 0..100u64), 0..60),
            near in proptest::collection::vec((any::<bool>(), -9_000..9_000i64, -900..900i64, 0..100u64), 0..60),
        ) {
            let (mut clock, mut now) = (ForwardClock::default(), 0);
            let mut last = [-1; 2];
            for (is_video, dts, pts, wait) in units.into_iter().chain(near) {
                now += wait;
                let unit = AccessUnit { pts: Ticks(pts), dts: Ticks(dts), ..unit(0, 0) };
                if let Some(placed) = clock.place(is_video, &unit, at(now)) {
                    let last = &mut last[usize::from(is_video)];
                    prop_assert!(placed.time_ms > *last);
                    *last = placed.time_ms;
                }
            }
        }
    }
}
