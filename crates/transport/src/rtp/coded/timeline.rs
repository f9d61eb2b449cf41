//! The RTP clocks of a session's tracks on one timeline.
//!
//! ```text
//! first unit of a track ─► anchored where it arrives
//! reports of both tracks ─► sound is moved to where the sender's wall clock has it, once they are apart by more than a tolerance
//! time stamp that jumps  ─► anchored anew where it arrives
//! ```
//! A stream begins with its first unit and waits for no report. A sender's wall clock aligns its tracks whatever year it has;
//! as capture time it is believed only where it is near ours: cameras without a time server begin in 1970, or at their start.

use super::CodedUnit;
use crate::rtp::distance;
use crate::rtp::rtcp::{self, SenderReport};
use glassline_media::{AccessUnit, Stamps, Ticks, Time, Utc};
use std::time::Duration;

/// How far tracks may be apart from what reports say before one is moved: people notice 45 ms and more (ITU-R BT.1359).
const APART_MAX: i64 = 40 * 90;
/// At the first alignment, which nothing has been shown before, or little.
const APART_FIRST: i64 = 10 * 90;
/// Reports that are further apart are not of one wall clock.
const APART_ABSURD: i64 = 10 * 90_000;
/// A time stamp that is so much earlier than the one before is a jump; less is reordering. In ticks of 90 kHz.
const BACK_MAX: i64 = 90_000;
/// One that is so much later than time has passed is a jump.
const AHEAD_MAX: i64 = 10 * 90_000;
/// A wall clock that is so much behind ours, or ahead of it, gives no capture times.
const BEHIND_OURS: Duration = Duration::from_secs(10);
const AHEAD_OF_OURS: Duration = Duration::from_secs(1);

/// An access unit on the timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The unit; its times begin with that of its arrival.
    pub unit: AccessUnit,
    /// When the sender captured it, where its wall clock is believed.
    pub captured: Option<Utc>,
    /// Its track's times begin anew with it.
    pub jumps: bool,
}

#[derive(Clone, Copy, Debug)]
struct Report {
    timestamp: u64,
    ntp: u64,
    /// Its wall clock is near ours.
    is_believed: bool,
}

#[derive(Debug)]
struct Clock {
    rate_hz: u32,
    /// A time stamp, and its place.
    anchor: Option<(u64, Ticks)>,
    report: Option<Report>,
    is_aligned: bool,
    /// It was moved back: up to this time units are placed already.
    placed_until: Option<Ticks>,
    /// The newest unit: its time stamp, its decoding time, and when it came.
    newest: Option<(u64, Ticks, Time)>,
    /// The next unit is of another sender.
    restarts: bool,
}

impl Clock {
    /// Ticks of 90 kHz from one time stamp to another.
    fn ticks(&self, from: u64, to: u64) -> i64 {
        let stamps = i128::from(to).saturating_sub(i128::from(from));
        let ticks = stamps.saturating_mul(i128::from(Ticks::RATE)).checked_div(self.rate_hz.into());
        i64::try_from(ticks.unwrap_or(0)).unwrap_or(i64::MAX)
    }

    fn place(&self, timestamp: u64) -> Option<Ticks> {
        let (anchor, place) = self.anchor?;
        Some(place + Ticks(self.ticks(anchor, timestamp)))
    }

    /// The sender's wall clock less the timeline, in ticks.
    fn offset(&self) -> Option<i64> {
        let report = self.report?;
        let place = self.place(report.timestamp)?;
        let ticks = (u128::from(report.ntp).saturating_mul(Ticks::RATE.into())) >> 32;
        i64::try_from(ticks).ok()?.checked_sub(place.0)
    }
}

/// The timeline of a session. Track 0 leads: others are moved towards it.
#[derive(Debug)]
pub struct Timeline {
    clocks: Vec<Clock>,
    dropped: u64,
    moved: u64,
}

impl Timeline {
    /// Of tracks with these clocks, in ticks a second.
    pub fn new(rates_hz: &[u32]) -> Timeline {
        let clock = |rate_hz: &u32| Clock {
            rate_hz: *rate_hz,
            anchor: None,
            report: None,
            is_aligned: false,
            placed_until: None,
            newest: None,
            restarts: false,
        };
        Timeline { clocks: rates_hz.iter().map(clock).collect(), dropped: 0, moved: 0 }
    }

    /// Units that were dropped since their track's times were moved back.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Times that a track was moved to where reports have it.
    pub fn moved(&self) -> u64 {
        self.moved
    }

    /// Whether the sender's wall clock is believed, of the newest report; `None` before one.
    pub fn believes(&self) -> Option<bool> {
        self.clocks.iter().find_map(|clock| clock.report).map(|report| report.is_believed)
    }

    /// Whether a track has units, so that reports of it say something.
    pub fn has_begun(&self, track: usize) -> bool {
        self.clocks.get(track).is_some_and(|clock| clock.newest.is_some())
    }

    /// Another sender follows on a track: its next unit is anchored where it arrives, and reports from before count no more.
    pub fn restart(&mut self, track: usize) {
        if let Some(clock) = self.clocks.get_mut(track) {
            (clock.anchor, clock.report, clock.is_aligned) = (None, None, false);
            clock.restarts = true;
        }
    }

    /// A track's sender has reported, which came when our wall clock said `utc`.
    pub fn handle_report(&mut self, track: usize, report: &SenderReport, utc: Utc) {
        let Some(clock) = self.clocks.get_mut(track) else { return };
        // Zero says that there is no wall clock; and before the first unit a time stamp says nothing.
        let (true, Some((newest, _, _))) = (report.ntp > 0, clock.newest) else { return };
        let timestamp = newest.saturating_add_signed(distance(newest, report.timestamp.into(), 32));
        let is_believed = rtcp::utc_of(report.ntp).is_some_and(|said| is_near(said, utc));
        clock.report = Some(Report { timestamp, ntp: report.ntp, is_believed });
        self.align();
    }

    fn align(&mut self) {
        let Some((leader, others)) = self.clocks.split_first_mut() else { return };
        let Some(leading) = leader.offset() else { return };
        for clock in others {
            let Some(apart) = clock.offset().and_then(|offset| offset.checked_sub(leading)) else { continue };
            let tolerance = if clock.is_aligned { APART_MAX } else { APART_FIRST };
            if apart.saturating_abs() > APART_ABSURD {
                continue;
            }
            clock.is_aligned = true;
            if apart.saturating_abs() > tolerance
                && let Some((_, place)) = &mut clock.anchor
            {
                *place = *place + Ticks(apart);
                clock.placed_until = clock.newest.map(|(_, newest, _)| newest).filter(|_| apart < 0);
                self.moved = self.moved.saturating_add(1);
            }
        }
    }

    /// Places a unit that was whole at `now`, behind those of its track before it. `None` where its track was moved back and it lies
    /// before what is placed already: it is dropped and counted.
    pub fn place(&mut self, track: usize, unit: CodedUnit, now: Time) -> Option<Placed> {
        let clock = self.clocks.get_mut(track)?;
        let mut jumps = std::mem::take(&mut clock.restarts);
        if let Some((newest, _, came)) = clock.newest {
            let passed = Ticks::from_time(Time::ZERO + now.since(came)).0;
            let ahead = clock.ticks(newest, unit.timestamp);
            if ahead < BACK_MAX.saturating_neg() || ahead > passed.saturating_add(AHEAD_MAX) {
                // Reports from before are of another clock.
                (clock.anchor, clock.report, clock.is_aligned) = (None, None, false);
                jumps = true;
            }
        }
        if clock.anchor.is_none() {
            clock.anchor = Some((unit.decode_timestamp, Ticks::from_time(now)));
        }
        let (mut pts, mut dts) = (clock.place(unit.timestamp)?, clock.place(unit.decode_timestamp)?);
        if jumps {
            clock.placed_until = None;
        } else if clock.placed_until.is_some_and(|until| dts <= until) {
            self.dropped = self.dropped.saturating_add(1);
            return None;
        } else if let Some((_, newest, _)) = clock.newest.filter(|(_, newest, _)| dts <= *newest) {
            // A sender that repeats a stamp, or counts back a little.
            dts = newest + Ticks(1);
            pts = pts.max(dts);
        }
        clock.newest = Some((unit.timestamp, dts, now));
        let captured = clock.report.filter(|report| report.is_believed).and_then(|report| {
            let later = i128::from(unit.timestamp).checked_sub(report.timestamp.into())?;
            let nanos = later.checked_mul(1_000_000_000)?.checked_div(clock.rate_hz.into())?;
            let said = i128::from(rtcp::utc_of(report.ntp)?.as_nanos()).checked_add(nanos)?;
            u64::try_from(said).ok().map(Utc::from_nanos)
        });
        let CodedUnit { codec, data, random_access, .. } = unit;
        let stamps = Stamps::default();
        let unit = AccessUnit { codec, data, pts, dts, random_access, stamps };
        Some(Placed { unit, captured, jumps })
    }
}

fn is_near(said: Utc, ours: Utc) -> bool {
    let (said, ours) = (said.as_nanos(), ours.as_nanos());
    let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    ours.saturating_sub(said) <= nanos(BEHIND_OURS) && said.saturating_sub(ours) <= nanos(AHEAD_OF_OURS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use glassline_media::Codec;

    const NOW: Utc = Utc::from_nanos(1_700_000_000_000_000_000);

    fn unit(timestamp: u64) -> CodedUnit {
        let timestamp = timestamp + (1 << 32);
        let data = Bytes::new();
        CodedUnit { codec: Codec::H264, data, timestamp, decode_timestamp: timestamp, random_access: true }
    }

    fn report(timestamp: u32, ntp: u64) -> SenderReport {
        SenderReport { ssrc: 1, ntp, timestamp, packets: 0, bytes: 0 }
    }

    fn millis(timeline: &mut Timeline, track: usize, timestamp: u64, at_ms: u64) -> Option<i64> {
        let placed = timeline.place(track, unit(timestamp), Time::from_millis(at_ms))?;
        Some(placed.unit.dts.0 / 90)
    }

    #[test]
    fn tracks_begin_where_they_arrive_and_are_moved_where_reports_have_them() {
        let mut timeline = Timeline::new(&[90_000, 8_000]);
        assert_eq!(millis(&mut timeline, 0, 7_000, 1000), Some(1000));
        assert_eq!(millis(&mut timeline, 1, 900, 1200), Some(1200));
        // Both stamps are of one moment: the sound is 200 ms too late.
        let ntp = rtcp::ntp_of(NOW);
        timeline.handle_report(0, &report(7_000, ntp), NOW);
        timeline.handle_report(1, &report(900, ntp), NOW);
        assert_eq!((timeline.moved(), timeline.believes()), (1, Some(true)));
        assert_eq!(millis(&mut timeline, 1, 900 + 160, 1220), None, "what lies behind is dropped");
        assert_eq!(millis(&mut timeline, 1, 900 + 1680, 1410), Some(1210));
        assert_eq!(timeline.dropped(), 1);
        // A little is left alone from then on.
        timeline.handle_report(1, &report(900, ntp + (30 << 32) / 1000), NOW);
        assert_eq!(timeline.moved(), 1);
    }

    #[test]
    fn capture_time_is_what_a_wall_clock_near_ours_says() {
        let mut timeline = Timeline::new(&[90_000]);
        let first = timeline.place(0, unit(0), Time::ZERO).unwrap();
        assert_eq!(first.captured, None);
        timeline.handle_report(
            0,
            &report(0, rtcp::ntp_of(NOW)),
            Utc::from_nanos(NOW.as_nanos() + 50_000_000),
        );
        let placed = timeline.place(0, unit(4500), Time::from_millis(50)).unwrap();
        let captured = placed.captured.unwrap().as_nanos();
        assert!(captured.abs_diff(NOW.as_nanos() + 50_000_000) < 10, "{captured}");
    }

    #[test]
    fn a_camera_without_a_clock_aligns_its_tracks_and_gives_no_capture_time() {
        for boot in [3, 2_208_988_800 + 40, 2_208_988_800 + 4_000_000_000 - 1] {
            let mut timeline = Timeline::new(&[90_000, 90_000]);
            for track in 0..2 {
                timeline.place(track, unit(0), Time::from_millis(100 * track as u64)).unwrap();
                timeline.handle_report(track, &report(0, boot << 32), NOW);
            }
            assert_eq!((timeline.moved(), timeline.believes()), (1, Some(false)), "{boot}");
            assert_eq!(timeline.place(0, unit(3000), Time::from_millis(200)).unwrap().captured, None);
        }
        let mut timeline = Timeline::new(&[90_000]);
        timeline.place(0, unit(0), Time::ZERO).unwrap();
        timeline.handle_report(0, &report(0, 0), NOW);
        assert_eq!(timeline.believes(), None, "zero is no time");
    }

    #[test]
    fn stamps_that_do_not_grow_are_moved_on() {
        let mut timeline = Timeline::new(&[90_000]);
        let mut dts =
            |stamp, at_ms| timeline.place(0, unit(stamp), Time::from_millis(at_ms)).unwrap().unit.dts.0;
        assert_eq!(
            [dts(9000, 100), dts(9000, 140), dts(8000, 180), dts(18_000, 200)],
            [9000, 9001, 9002, 18_000]
        );
    }

    #[test]
    fn reports_of_different_wall_clocks_move_nothing() {
        let mut timeline = Timeline::new(&[90_000, 90_000]);
        for (track, seconds) in [(0, 5), (1, 50)] {
            timeline.place(track, unit(0), Time::ZERO).unwrap();
            timeline.handle_report(track, &report(0, seconds << 32), NOW);
        }
        assert_eq!(timeline.moved(), 0);
    }

    #[test]
    fn another_sender_begins_where_it_arrives_however_near_its_stamps_are() {
        let mut timeline = Timeline::new(&[90_000]);
        assert_eq!(millis(&mut timeline, 0, 90_000, 1000), Some(1000));
        let ntp = rtcp::ntp_of(NOW);
        timeline.handle_report(0, &report(90_000, ntp), NOW);
        timeline.restart(0);
        let placed = timeline.place(0, unit(90_000 + 4 * 90_000), Time::from_millis(1100)).unwrap();
        assert_eq!((placed.unit.dts.0 / 90, placed.jumps, placed.captured), (1100, true, None));
        assert_eq!(millis(&mut timeline, 0, 90_000 + 4 * 90_000 + 3600, 1140), Some(1140));
    }

    #[test]
    fn a_stamp_that_jumps_begins_anew_where_it_arrives() {
        let mut timeline = Timeline::new(&[90_000]);
        assert_eq!(millis(&mut timeline, 0, 1_000_000, 1000), Some(1000));
        for (stamp, at_ms) in [(10_000_000, 1040), (50_000, 1080)] {
            let placed = timeline.place(0, unit(stamp), Time::from_millis(at_ms)).unwrap();
            assert!(placed.jumps);
            assert_eq!(placed.unit.dts.0 / 90, at_ms as i64);
        }
        // A pause is none, and neither is what a stalled connection brings at once.
        assert_eq!(millis(&mut timeline, 0, 50_000 + 20 * 90_000, 21_080), Some(21_080));
        assert_eq!(millis(&mut timeline, 0, 50_000 + 21 * 90_000, 25_080), Some(22_080));
        assert_eq!(millis(&mut timeline, 0, 50_000 + 24 * 90_000, 25_081), Some(25_080));
    }
}
