//! Samples of a chunk as access units, and how long they last.

use super::capture;
use crate::assemble;
use glassline_media::container::cmaf::{Chunk, ReadRun, ReadSample, ReadTrack};
use glassline_media::{AccessUnit, Ticks};
use std::time::Duration;

/// The longest that a publisher may be silent by what it has sent.
pub(super) const QUIET_MAX: Duration = Duration::from_secs(30);

/// The access unit of a sample; where something in front of its chunk says when it was captured, with that.
pub(super) fn unit_of(sample: &ReadSample, track: &ReadTrack, chunk: &Chunk) -> Option<AccessUnit> {
    let unit = track.to_unit(sample).ok()?;
    let captured = chunk.producer_time.and_then(|said| capture::time_of(sample, track, &said));
    Some(captured.and_then(|captured| assemble::with_time(&unit, captured)).unwrap_or(unit))
}

/// How long a sample lasts, in ticks of 90 kHz.
pub(super) fn lasting(sample: &ReadSample, track: &ReadTrack) -> Ticks {
    let ticks = i64::from(sample.duration).saturating_mul(Ticks::RATE.into());
    Ticks(ticks.checked_div(track.timescale.into()).unwrap_or(0))
}

/// How long a run lasts, up to [`QUIET_MAX`].
pub(super) fn lasts(run: &ReadRun, track: &ReadTrack) -> Duration {
    let ticks = run.samples.iter().fold(0, |sum: u64, sample| sum.saturating_add(sample.duration.into()));
    let millis = ticks.saturating_mul(1000).checked_div(track.timescale.into());
    Duration::from_millis(millis.unwrap_or(0)).min(QUIET_MAX)
}

/// Ticks of 90 kHz as a duration; zero where they are below zero.
pub(super) fn duration(ticks: Ticks) -> Duration {
    Duration::from_micros(u64::try_from(ticks.0).unwrap_or(0).saturating_mul(100) / 9)
}
