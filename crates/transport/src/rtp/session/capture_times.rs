//! When units of a stream were captured, by what its pictures say.

use glassline_media::bitstream;
use glassline_media::{AccessUnit, Ticks, Utc};

/// How far from its anchor a time may be; then the next unit is the anchor.
const APART_MAX: i64 = 60 * 90_000;
/// A capture time that is further from our clock is believed no more, in nanoseconds.
const AGE_MAX: u64 = 3600 * 1_000_000_000;

/// The newest time of the stream that is known, and when it was captured.
#[derive(Clone, Copy, Debug, Default)]
pub struct CaptureTimes {
    anchor: Option<(Ticks, Utc)>,
}

impl CaptureTimes {
    /// When a unit was captured by what the stream says of its pictures, or when it came, by our wall clock `utc`, where it does not
    /// say it.
    pub fn of(&mut self, unit: &AccessUnit, utc: Utc) -> Utc {
        if let Some(said) = captured(unit) {
            self.anchor = Some((unit.pts, said));
        }
        let (at, anchor) = *self.anchor.get_or_insert((unit.pts, utc));
        let apart = unit.pts.0.saturating_sub(at.0);
        let captured = later(anchor, apart);
        let is_far = captured.as_nanos().abs_diff(utc.as_nanos()) > AGE_MAX;
        if is_far || apart.saturating_abs() > APART_MAX {
            self.anchor = Some((unit.pts, utc));
            return utc;
        }
        captured
    }
}

/// What a picture says of when it was captured.
fn captured(unit: &AccessUnit) -> Option<Utc> {
    let (mut head, _) = bitstream::head(unit.codec, &unit.data);
    unit.codec
        .is_video()
        .then(|| head.find_map(|nal| bitstream::messages(unit.codec, &nal)?.capture_utc()))?
}

fn later(utc: Utc, ticks: i64) -> Utc {
    let nanos = i128::from(ticks).saturating_mul(100_000) / 9;
    Utc::from_nanos(u64::try_from(i128::from(utc.as_nanos()).saturating_add(nanos)).unwrap_or(0))
}
