//! Where another version of the same capture is, so that the segments of both begin together and are numbered alike.
//!
//! The versions of a ladder have one clock and key frames in common, but their packagers begin at different pictures. One
//! that begins while another goes on counts its times from the other's zero and cuts by the other's grid.

use super::presentation::{Presentation, SegmentLength, ticks_of};
use super::{Epoch, Rendition, RenditionName};
use glassline_media::Ticks;
use std::time::Duration;

/// What is presented further than this behind the end of what another version has is on another clock.
const AHEAD_MAX: i64 = 10 * Ticks::RATE as i64;

/// Where a version's segments of its current epoch begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guide {
    epoch: Epoch,
    segment: Duration,
    /// Number and beginning of each segment, in ticks since the epoch's zero.
    segments: Vec<(u64, i64)>,
    /// Where what there is ends.
    end: i64,
}

/// How an epoch begins that follows a [`Guide`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The other's epoch, its zero on the clock of the one that begins.
    pub(super) epoch: Epoch,
    /// The number of the segment that the first picture is in.
    pub(super) number: u64,
}

/// Why there is no place for a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Displaced {
    /// It is before what the other version has, or far behind the beginning of a segment: a later one is to begin.
    Early,
    /// It is on another clock.
    Elsewhere,
}

impl Guide {
    /// Where the pictures of `presentation` are; `None` while there are none.
    pub fn of(presentation: &Presentation) -> Option<Guide> {
        let epoch = *presentation.current_epoch().filter(|_| !presentation.is_ended())?;
        let rendition = presentation.rendition(RenditionName::Video)?;
        let own = |rendition: &Rendition| {
            let mut own = rendition.segments.iter().filter(|segment| segment.epoch == epoch.number);
            let ticks = |time| ticks_of(time, Ticks::RATE) as i64;
            let segments = own.clone().map(|segment| (segment.number, ticks(segment.start_time()))).collect();
            let end = own.next_back().map(|last| ticks(last.start_time() + last.duration_time()));
            (segments, end)
        };
        let (segments, end) = own(rendition);
        Some(Guide { epoch, segment: presentation.settings().segment, segments, end: end? })
    }

    /// Where a key frame with these stamps belongs.
    pub(super) fn place(&self, pts: Ticks, dts: Ticks) -> Result<Place, Displaced> {
        // Stamps come round, and which round it is each demuxer reckons from where it began.
        let here = Ticks::unwrap_near(pts.wrapped(), self.epoch.zero + Ticks(self.end));
        let at = (here - self.epoch.zero).0;
        let zero = pts - Ticks(at);
        if at > self.end + AHEAD_MAX || at < -AHEAD_MAX {
            return Err(Displaced::Elsewhere);
        }
        let before = self.segments.iter().rev().find(|&&(_, start)| start <= at);
        let &(number, start) = before.filter(|_| dts >= zero).ok_or(Displaced::Early)?;
        let epoch = Epoch { zero, ..self.epoch };
        let length =
            epoch.segment_length.unwrap_or(SegmentLength::new(self.segment.as_millis() as u64, 1000));
        let segment = ticks_of(length.times(1), Ticks::RATE) as i64;
        if at - start <= segment / 2 {
            return Ok(Place { epoch, number });
        }
        // The other version has not come to where this one begins, and will cut there.
        let since = at - epoch.first_ticks as i64;
        let count = number.saturating_sub(epoch.first_segment).saturating_add(1);
        let due = ticks_of(length.times(count), Ticks::RATE) as i64;
        let is_next = at >= self.end && since >= due && at - start <= 2 * segment;
        if is_next { Ok(Place { epoch, number: number + 1 }) } else { Err(Displaced::Early) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 90_000;

    fn guide() -> Guide {
        let epoch = Epoch {
            number: 7,
            start: Duration::ZERO,
            zero: Ticks(1000 * SECOND),
            first_ticks: 3600,
            first_segment: 40,
            segment_length: None,
        };
        let segments = (0..5).map(|index| (40 + index as u64, 3600 + 2 * index * SECOND)).collect();
        Guide { epoch, segment: Duration::from_secs(2), segments, end: 3600 + 9 * SECOND }
    }

    fn place(pts: i64) -> Result<u64, Displaced> {
        guide().place(Ticks(pts), Ticks(pts - 3600)).map(|place| place.number)
    }

    #[test]
    fn a_picture_belongs_to_the_segment_that_begins_there() {
        let first = 1000 * SECOND + 3600;
        assert_eq!(place(first), Ok(40));
        assert_eq!(place(first + 2 * SECOND), Ok(41));
        assert_eq!(place(first + 3 * SECOND), Ok(41), "half of it is worth having");
        assert_eq!(place(first + 3 * SECOND + 3600), Err(Displaced::Early));
        assert_eq!(place(first + 10 * SECOND), Ok(45), "the next one's cut");
        assert_eq!(place(first - SECOND), Err(Displaced::Early));
        assert_eq!(place(first + 60 * SECOND), Err(Displaced::Elsewhere));
        assert_eq!(place(first - 60 * SECOND), Err(Displaced::Elsewhere));
    }

    #[test]
    fn rounds_of_the_stamps_do_not_matter() {
        let pts = 1000 * SECOND + 3600 + 2 * SECOND;
        for rounds in [-2, -1, 1, 3] {
            let moved = Ticks(pts + rounds * Ticks::WRAP);
            let place = guide().place(moved, moved).unwrap();
            assert_eq!((place.number, place.epoch.zero.0), (41, 1000 * SECOND + rounds * Ticks::WRAP));
        }
    }

    #[test]
    fn what_is_decoded_before_the_zero_does_not_begin() {
        assert_eq!(
            guide().place(Ticks(1000 * SECOND + 3600), Ticks(1000 * SECOND - 1)),
            Err(Displaced::Early)
        );
    }
}
