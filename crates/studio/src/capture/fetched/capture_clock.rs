//! When pictures and sound of a fetched stream were captured, on the capture clock.
//!
//! A picture that says when it was captured (`docs/capture-utc.md`; of RTSP, by the camera's sender reports) is believed where that
//! is no later than now and was not older than [`AGE_MAX`] when it came: the clock of a camera that was never set is wrong by hours or years. All
//! others were captured when their first byte came. Sound lies beside the pictures as its time stamps say.

use glassline_media::{Ticks, Time, Utc};
use std::time::Duration;

/// A picture that says to have been older than this when it came is not believed.
const AGE_MAX: Duration = Duration::from_secs(5);
/// A clock that is ahead of ours by no more than this is set, and so is ours.
const AHEAD_MAX: Duration = Duration::from_millis(50);
/// For so long after a time that was not believed no other one is: times that are believed in turns would jump.
const DOUBT_TIME: Duration = Duration::from_secs(10);
/// How much later than its stamps say one picture makes those after it, at most: far more than clocks differ by.
const LATER_MAX: Duration = Duration::from_micros(200);
/// Sound with stamps that lie further from the pictures' than this was captured when it came.
const APART_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub(in crate::capture) struct CaptureClock {
    /// A stamp and its time, as of the pictures that were captured soonest: those that come late lie behind it.
    anchor: Option<(Ticks, Time)>,
    doubted_at: Option<Time>,
    doubt: Option<String>,
    has_told: bool,
}

impl CaptureClock {
    /// When a picture was captured of which the first byte came at `came`. `said`: what it says itself; `now` by both clocks.
    pub(in crate::capture) fn picture(
        &mut self,
        pts: Ticks,
        said: Option<Utc>,
        came: Time,
        now: (Time, Utc),
    ) -> Time {
        let captured = said.and_then(|said| self.believed(said, came, now)).unwrap_or(came).min(now.0);
        self.anchor = Some(match self.time_of(pts) {
            // A clock that runs slower than ours makes all pictures late.
            Some(due) if captured > due && captured.since(due) < APART_MAX => {
                (pts, due + captured.since(due).min(LATER_MAX))
            }
            _ => (pts, captured),
        });
        captured
    }

    /// When what has this stamp was captured, by the pictures.
    fn time_of(&self, pts: Ticks) -> Option<Time> {
        let (stamp, captured) = self.anchor?;
        let nanos = captured.as_nanos();
        Some(if pts >= stamp {
            captured + duration_of(pts - stamp)
        } else {
            Time::from_nanos(nanos.saturating_sub(duration_of(stamp - pts).as_nanos() as u64))
        })
    }

    fn believed(&mut self, said: Utc, came: Time, (now, utc): (Time, Utc)) -> Option<Time> {
        let age = Duration::from_nanos(utc.as_nanos().saturating_sub(said.as_nanos()));
        let ahead = Duration::from_nanos(said.as_nanos().saturating_sub(utc.as_nanos()));
        // What has waited here since is no fault of the camera's clock.
        let on_the_way = age.saturating_sub(now.since(came));
        if on_the_way > AGE_MAX || ahead > AHEAD_MAX {
            self.doubted_at = Some(now);
            if !std::mem::replace(&mut self.has_told, true) {
                let (off, by) =
                    if on_the_way > AGE_MAX { ("behind", on_the_way) } else { ("ahead of", ahead) };
                self.doubt = Some(format!(
                    "the camera's clock is {:.1} s {off} this machine's: the delay is told from when pictures come (set both \
                     by NTP to have it from their capture)",
                    by.as_secs_f64()
                ));
            }
            return None;
        }
        if self.doubted_at.is_some_and(|at| now.since(at) < DOUBT_TIME) {
            return None;
        }
        Some(Time::from_nanos(now.as_nanos().saturating_sub(age.as_nanos() as u64)))
    }

    /// Why times are not believed, in words, once.
    pub(in crate::capture) fn take_doubt(&mut self) -> Option<String> {
        self.doubt.take()
    }

    /// When the sound of this stamp was captured that has come now.
    pub(in crate::capture) fn sound(&self, pts: Ticks, now: Time) -> Time {
        let Some(time) = self.time_of(pts) else { return now };
        if now.since(time).max(time.since(now)) > APART_MAX { now } else { time.min(now) }
    }
}

fn duration_of(ticks: Ticks) -> Duration {
    Duration::from_nanos((ticks.0.max(0) as u64).saturating_mul(100_000) / 9)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UTC: u64 = 1_700_000_000_000_000_000;

    fn now(millis: u64) -> (Time, Utc) {
        (Time::from_millis(millis), Utc::from_nanos(UTC + millis * 1_000_000))
    }

    fn said(millis: i64) -> Option<Utc> {
        Some(Utc::from_nanos(UTC.saturating_add_signed(millis * 1_000_000)))
    }

    #[test]
    fn a_picture_was_captured_when_it_says_or_when_it_came() {
        let mut clock = CaptureClock::default();
        let mut picture = |said, came, at| {
            clock.picture(Ticks(0), said, Time::from_millis(came), now(at)).as_nanos() / 1_000_000
        };
        assert_eq!(picture(None, 9_990, 10_000), 9_990);
        assert_eq!(picture(said(9_800), 9_990, 10_000), 9_800);
        assert_eq!(picture(said(10_030), 9_990, 10_000), 10_000, "a little ahead is now");
        assert_eq!(picture(said(5_000), 9_990, 10_000), 5_000);
    }

    #[test]
    fn a_clock_that_was_never_set_is_told_of_once_and_not_believed_in_turns() {
        let mut clock = CaptureClock::default();
        let far = [said(-1_600_000_000_000), said(3_600_000), said(10_051), said(4_989)];
        for wrong in far {
            assert_eq!(
                clock.picture(Ticks(0), wrong, Time::from_millis(9_990), now(10_000)).as_nanos(),
                9_990_000_000
            );
        }
        assert!(clock.take_doubt().unwrap().contains("behind this machine's"));
        assert_eq!(clock.take_doubt(), None);
        let mut at = |millis: u64| {
            let came = Time::from_millis(millis - 1);
            clock.picture(Ticks(0), said(millis as i64 - 200), came, now(millis)) == came
        };
        assert!(at(10_100) && at(19_999) && !at(20_000));
    }

    #[test]
    fn a_picture_that_has_waited_here_raises_no_doubt() {
        let mut clock = CaptureClock::default();
        let captured = clock.picture(Ticks(0), said(1_900), Time::from_millis(2_000), now(10_000));
        assert_eq!((captured, clock.take_doubt()), (Time::from_millis(1_900), None));
    }

    #[test]
    fn sound_lies_beside_the_pictures_and_never_ahead_of_now() {
        let mut clock = CaptureClock::default();
        assert_eq!(
            clock.sound(Ticks(5), Time::from_millis(7)),
            Time::from_millis(7),
            "there is no picture yet"
        );
        clock.picture(Ticks(900_000), None, Time::from_millis(10_000), now(10_010));
        let sound = |millis: i64, now| {
            clock.sound(Ticks(900_000 + millis * 90), Time::from_millis(now)).as_nanos() / 1_000_000
        };
        assert_eq!(sound(-200, 10_020), 9_800);
        assert_eq!(sound(15, 10_020), 10_015);
        assert_eq!(sound(300, 10_020), 10_020);
        assert_eq!((sound(-6_000, 10_020), sound(9_000, 10_020)), (10_020, 10_020), "other clocks");
    }

    #[test]
    fn sound_lies_beside_the_pictures_that_come_soonest() {
        let mut clock = CaptureClock::default();
        let mut at = |late: u64, number: u64| {
            let came = Time::from_millis(10_000 + number * 40 + late);
            clock.picture(Ticks(900_000 + number as i64 * 3600), None, came, now(20_000));
            let due = Time::from_millis(10_000 + number * 40);
            clock
                .sound(Ticks(900_000 + number as i64 * 3600), Time::from_millis(15_000))
                .since(due)
                .as_micros()
        };
        assert_eq!((at(90, 0), at(0, 1)), (90_000, 0));
        // A key frame takes longer.
        assert_eq!((at(50, 2), at(0, 3)), (200, 0));
        assert_eq!((4..14).map(|number| at(30, number)).last(), Some(2_000));
    }
}
