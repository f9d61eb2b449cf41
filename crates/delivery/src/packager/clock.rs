//! Which wall-clock time belongs to which media time.

use glassline_media::{AccessUnit, Ticks, Utc, bitstream};

/// A capture time that is further from the time of arrival than this is not believed.
const CAPTURE_MAX_NANOS: u64 = 24 * 3600 * 1_000_000_000;

/// The newest pair of both: what the pictures say about their capture, or else when the epoch's first unit came in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pts: Ticks,
    utc: Utc,
    is_capture: bool,
}

/// What a picture says of its capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) utc: Utc,
    /// The same with the stages of its sender, as it stands in the picture's message; `None` where it says nothing of them.
    pub(super) message: Option<Vec<u8>>,
}

impl From<Utc> for Said {
    fn from(utc: Utc) -> Said {
        Said { utc, message: None }
    }
}

impl Clock {
    /// A unit of `pts` has come in at `arrived`.
    pub(super) fn new(pts: Ticks, arrived: Utc) -> Clock {
        Clock { pts, utc: arrived, is_capture: false }
    }

    /// When the unit was captured, if it says so; then that holds for what follows, too.
    pub(super) fn capture(&mut self, unit: &AccessUnit, now: Utc) -> Option<Said> {
        if !unit.codec.is_video() {
            return None;
        }
        let (mut head, _) = bitstream::head(unit.codec, &unit.data);
        let said = head.find_map(|nal| {
            let sei = bitstream::messages(unit.codec, &nal)?;
            let message = sei.capture_and_record().map(<[u8]>::to_vec);
            Some(Said { utc: sei.capture_utc()?, message })
        });
        let said = said.filter(|said| said.utc.as_nanos().abs_diff(now.as_nanos()) <= CAPTURE_MAX_NANOS)?;
        *self = Clock { pts: unit.pts, utc: said.utc, is_capture: true };
        Some(said)
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

/// From `before` to `after` by the wall clock, in ticks of 90 kHz.
pub(super) fn ticks_between(before: Utc, after: Utc) -> i64 {
    let nanos = i128::from(after.as_nanos()).saturating_sub(before.as_nanos().into());
    i64::try_from(nanos.saturating_mul(9).checked_div(100_000).unwrap_or(0)).unwrap_or(i64::MAX)
}
