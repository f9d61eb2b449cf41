//! Units of telemetry that wait for the picture of their time.

use super::TelemetryStatistics;
use bytes::Bytes;
use glassline_media::{Ticks, Time};
use std::collections::VecDeque;

/// Units that wait, at most: of ten a second those of some seconds.
const UNITS_MAX: usize = 64;
/// Bytes of them.
const BYTES_MAX: usize = 256 << 10;
/// A unit waits for its picture unless that is further off than this: then the two clocks do not agree. Of a unit that has a time
/// of its own, they do.
const AHEAD_STAMPED: Ticks = Ticks(5 * 90_000);
const AHEAD: Ticks = Ticks(90_000);
/// One that has a time of its own, and comes so long after its picture, belongs to none that is still to come: so does what waited
/// in an outage.
const LATE: Ticks = Ticks(2 * 90_000);

/// A set, or a message of KLV.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) data: Bytes,
    /// When it was read beside the vehicle, on our clock.
    pub(super) at: Time,
    /// That is by the clock that the pictures' times are of.
    pub(super) is_stamped: bool,
}

/// The units that wait. Bounded: the oldest leave first.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    units: VecDeque<Unit>,
    bytes: usize,
    statistics: TelemetryStatistics,
}

impl Waiting {
    pub(super) fn push(&mut self, unit: Unit) {
        self.bytes += unit.data.len();
        self.units.push_back(unit);
        while self.units.len() > UNITS_MAX || self.bytes > BYTES_MAX {
            self.pop();
            self.statistics.dropped += 1;
        }
    }

    /// The first unit that goes with a picture which was captured then, if there is one. Those of several channels stand in one row
    /// and have times by several clocks: one that waits holds up none behind it.
    pub(super) fn take_for(&mut self, captured: Ticks) -> Option<Bytes> {
        let mut index = 0;
        while let Some(unit) = self.units.get(index) {
            let ahead = Ticks::from_time(unit.at) - captured;
            let waits_at_most = if unit.is_stamped { AHEAD_STAMPED } else { AHEAD };
            if ahead > Ticks(0) && ahead <= waits_at_most {
                index += 1;
                continue;
            }
            let is_late = unit.is_stamped && ahead < Ticks(0) - LATE;
            let unit = self.units.remove(index)?;
            self.bytes -= unit.data.len();
            if !is_late {
                return Some(unit.data);
            }
            self.statistics.late += 1;
        }
        None
    }

    /// Counts units that were taken, so many bytes of them, by whether the output has them.
    pub(super) fn count(&mut self, units: u64, bytes: u64, are_written: bool) {
        let statistics = &mut self.statistics;
        if are_written {
            statistics.units += units;
            statistics.bytes += bytes;
        } else {
            statistics.dropped += units;
        }
    }

    /// Gives up what waits: there will be no picture.
    pub(super) fn clear(&mut self) {
        self.statistics.dropped += self.units.len() as u64;
        self.units.clear();
        self.bytes = 0;
    }

    /// What became of those that waited.
    pub(super) fn statistics(&self) -> TelemetryStatistics {
        self.statistics
    }

    fn pop(&mut self) -> Option<Unit> {
        let unit = self.units.pop_front()?;
        self.bytes -= unit.data.len();
        Some(unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(at_ms: u64, is_stamped: bool) -> Unit {
        Unit { data: Bytes::from(at_ms.to_string()), at: Time::from_millis(at_ms), is_stamped }
    }

    fn taken(waiting: &mut Waiting, captured_ms: u64) -> Vec<String> {
        let captured = Ticks::from_time(Time::from_millis(captured_ms));
        std::iter::from_fn(|| waiting.take_for(captured))
            .map(|data| String::from_utf8(data.to_vec()).unwrap())
            .collect()
    }

    #[test]
    fn a_unit_goes_with_the_first_picture_that_was_captured_then_or_later() {
        for is_stamped in [false, true] {
            let mut waiting = Waiting::default();
            [1_000, 1_010, 1_040, 1_041].into_iter().for_each(|at| waiting.push(unit(at, is_stamped)));
            assert!(taken(&mut waiting, 960).is_empty());
            assert_eq!(taken(&mut waiting, 1_000), ["1000"]);
            assert_eq!(taken(&mut waiting, 1_040), ["1010", "1040"]);
            assert_eq!(taken(&mut waiting, 1_080), ["1041"]);
            assert_eq!((waiting.units.len(), waiting.bytes), (0, 0));
        }
    }

    /// Where two wall clocks disagree, times of arrival say nothing of pictures' times of capture.
    #[test]
    fn a_unit_waits_for_no_picture_that_is_far_off() {
        let mut waiting = Waiting::default();
        waiting.push(unit(5_000, true));
        assert!(taken(&mut waiting, 1_000).is_empty());
        assert_eq!(taken(&mut waiting, 5_000), ["5000"]);
        waiting.push(unit(60_000, true));
        waiting.push(unit(8_000, false));
        assert_eq!(taken(&mut waiting, 6_000), ["60000", "8000"]);
    }

    /// One drone's clock is some seconds ahead, another channel has none.
    #[test]
    fn a_unit_that_waits_holds_up_none_of_another_channel() {
        let mut waiting = Waiting::default();
        waiting.push(unit(5_000, true));
        [1_000, 1_040].into_iter().for_each(|at| waiting.push(unit(at, false)));
        assert_eq!(taken(&mut waiting, 1_000), ["1000"]);
        assert_eq!(taken(&mut waiting, 1_040), ["1040"]);
        assert_eq!((waiting.units.len(), waiting.bytes), (1, 4));
        assert_eq!(taken(&mut waiting, 5_000), ["5000"]);
    }

    #[test]
    fn what_waited_in_an_outage_is_put_beside_no_other_picture() {
        let mut waiting = Waiting::default();
        [1_000, 7_900, 8_100, 10_000].into_iter().for_each(|at| waiting.push(unit(at, true)));
        assert_eq!(taken(&mut waiting, 10_000), ["8100", "10000"]);
        assert_eq!(waiting.statistics().late, 2);
        // Without a time of its own it is taken for new.
        waiting.push(unit(1_000, false));
        assert_eq!(taken(&mut waiting, 10_000), ["1000"]);
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut waiting = Waiting::default();
        (0..100).for_each(|at| waiting.push(unit(at, true)));
        assert_eq!((waiting.units.len(), waiting.statistics().dropped), (UNITS_MAX, 36));
        assert_eq!(waiting.units.front().map(|unit| unit.at), Some(Time::from_millis(36)));
        for at in 100..120 {
            waiting.push(Unit { data: vec![0; 60_000].into(), ..unit(at, true) });
        }
        assert!(waiting.bytes <= BYTES_MAX && waiting.units.len() == 4, "{}", waiting.bytes);
    }
}
