//! A segment of MPEG-TS of the CMAF segments of one time (RFC 8216 §3.2), for players that know no fragmented MP4.
//!
//! It begins with PAT and PMT, and its continuity counters with 0. Its clock is that of the epoch, so that segments of one epoch follow
//! each other without a discontinuity. It has pictures and one sound.

use bytes::Bytes;
use glassline_media::AccessUnit;
use glassline_media::container::cmaf::{Event, ReadError, ReadTrack, Reader};
use glassline_media::container::ts::{AudioFormat, Error as MuxError, MuxSettings, Muxer};

/// What a rendition has in the time of a segment.
#[derive(Clone, Debug)]
pub struct Ingredient {
    /// Its CMAF header.
    pub header: Bytes,
    /// Its segment; `None` where nothing of it came. The program has it all the same.
    pub segment: Option<Bytes>,
    /// The language of sound, of ISO 639-2.
    pub language: Option<[u8; 3]>,
}

/// Why there is no segment.
#[derive(Debug, thiserror::Error)]
pub enum NoSegment {
    /// A header or a segment cannot be read.
    #[error("it cannot be read: {0}")]
    Read(#[from] ReadError),
    /// A header has no track.
    #[error("a header has no track")]
    NoTrack,
    /// A codec that a transport stream has no place for.
    #[error("a transport stream cannot have this: {0}")]
    Mux(#[from] MuxError),
    /// A codec that no transport stream of this program has.
    #[error("a transport stream cannot have this codec")]
    Codec,
}

/// Muxes the segments of one time; of pictures and of sound the first one each is taken.
///
/// # Errors
/// [`NoSegment`].
pub fn segment(ingredients: &[Ingredient]) -> Result<Vec<u8>, NoSegment> {
    let mut settings = MuxSettings::default();
    let mut units: Vec<AccessUnit> = Vec::new();
    let mut bytes = 0usize;
    for Ingredient { header, segment, language } in ingredients {
        let mut reader = Reader::new();
        reader.push(header)?;
        let track = first_track(&mut reader).ok_or(NoSegment::NoTrack)?;
        let codec = track.codec().ok_or(NoSegment::Codec)?;
        if codec.is_video() {
            if settings.video.replace(codec).is_some() {
                return Err(NoSegment::Codec);
            }
        } else {
            let channels = track.channels().unwrap_or(2);
            let format = AudioFormat { codec, channels, language: *language, he_aac: track.he_aac() };
            if settings.audio.replace(format).is_some() {
                return Err(NoSegment::Codec);
            }
        }
        let Some(segment) = segment else { continue };
        bytes = bytes.saturating_add(segment.len());
        let mut reader = reader.of_segment();
        reader.push(segment)?;
        while let Some(event) = reader.poll() {
            let Event::Chunk(chunk) = event else { continue };
            for run in chunk.runs.iter().filter(|run| run.track_id == track.id) {
                for sample in &run.samples {
                    units.push(track.to_unit(sample)?);
                }
            }
        }
    }
    let mut muxer = Muxer::new(settings)?;
    // In the order of decoding; a picture before the sound of its time.
    units.sort_by_key(|unit| (unit.dts, !unit.codec.is_video()));
    let mut out = Vec::with_capacity(bytes.saturating_add(bytes / 8));
    for unit in &units {
        muxer.fill_up(unit.dts, &mut out);
        muxer.write(unit, &mut out)?;
    }
    muxer.finish(&mut out);
    Ok(out)
}

fn first_track(reader: &mut Reader) -> Option<ReadTrack> {
    std::iter::from_fn(|| reader.poll()).find_map(|event| match event {
        Event::Init(tracks) => tracks.into_iter().next(),
        _ => None,
    })
}

#[cfg(test)]
#[path = "mpeg_ts_tests.rs"]
mod tests;
