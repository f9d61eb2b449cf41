//! When a picture was captured, by what stands beside its chunk.

use glassline_media::Utc;
use glassline_media::container::cmaf::{ProducerTime, ReadSample, ReadTrack};

/// When the sample was captured, by what stands in front of its chunk. Pictures of one chunk are as far apart in capture as
/// in presentation.
pub(super) fn time_of(sample: &ReadSample, track: &ReadTrack, said: &ProducerTime) -> Option<Utc> {
    if !said.is_capture() || said.track_id != track.id {
        return None;
    }
    let presented = i128::from(sample.decode_time).checked_add(sample.composition_offset.into())?;
    let later = presented.checked_sub(said.media_time.into())?.checked_mul(1_000_000_000)?;
    let later = later.checked_div(track.timescale.into())?;
    u64::try_from(i128::from(said.utc.as_nanos()).checked_add(later)?).ok().map(Utc::from_nanos)
}
