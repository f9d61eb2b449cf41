//! Which wall-clock time belongs to which media time.

use glassline_media::bitstream::h264::{self, NalType, Sei};
use glassline_media::{AccessUnit, Codec, Ticks, Utc};

/// A capture time that is further from the time of arrival than this is not believed.
const CAPTURE_MAX_NANOS: u64 = 24 * 3600 * 1_000_000_000;

/// The newest pair of both: what the pictures say about their capture, or else when the epoch's first unit came in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pts: Ticks,
    utc: Utc,
    is_capture: bool,
}

impl Clock {
    /// A unit of `pts` has come in at `arrived`.
    pub(super) fn new(pts: Ticks, arrived: Utc) -> Clock {
        Clock { pts, utc: arrived, is_capture: false }
    }

    /// When the unit was captured, if it says so; then that holds for what follows, too.
    pub(super) fn capture(&mut self, unit: &AccessUnit, now: Utc) -> Option<Utc> {
        if unit.codec != Codec::H264 {
            return None;
        }
        let (mut head, _) = h264::head(&unit.data);
        let said = head.find_map(|nal| match nal.kind() {
            NalType::Sei => Sei::parse(nal.payload()).capture_utc(),
            _ => None,
        });
        let captured = said.filter(|said| said.as_nanos().abs_diff(now.as_nanos()) <= CAPTURE_MAX_NANOS)?;
        *self = Clock { pts: unit.pts, utc: captured, is_capture: true };
        Some(captured)
    }

    /// When what is presented at `pts` was captured, or came in.
    pub(super) fn date_of(&self, pts: Ticks) -> Date {
        let nanos = i128::from((pts - self.pts).0) * 100_000 / 9;
        let utc = i128::from(self.utc.as_nanos()) + nanos;
        let utc = Utc::from_nanos(utc.clamp(0, i128::from(u64::MAX)) as u64);
        Date { utc, is_capture: self.is_capture }
    }
}

/// A wall-clock time of media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Date {
    pub(super) utc: Utc,
    /// It is that of capture, by what the pictures say; otherwise of arrival.
    pub(super) is_capture: bool,
}
