//! The initialisation, read: which tracks there are, and what holds for samples that do not say it themselves.

use super::body::Body;
use super::error::{FourCc, ReadError};
use super::sample_entry::{self, Form};
use super::{TIME_MAX, TRACKS_MAX};
use crate::container::cmaf::Media;

/// A track as an initialisation describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadTrack {
    /// Its number.
    pub id: u32,
    /// Ticks a second of its times; at least 1.
    pub timescale: u32,
    /// What its samples are called: `avc1`, `hvc1`, `mp4a`, `Opus`, or anything else.
    pub sample_entry: FourCc,
    /// What a decoder has to know; `None` where the codec is not read here, where parameter sets come in samples
    /// alone, and of frames that say it themselves.
    pub media: Option<Media>,
    /// The time of the track, in its ticks, that is presented at 0: what its edit list leaves out in front, less what it
    /// waits (ISO/IEC 14496-12 §8.6.6). 0 without one.
    pub presentation_start: i64,
    /// Bits a second of pictures, where it is said.
    pub bitrate_bps: Option<u32>,
    pub(super) form: Form,
}

/// What holds for the samples of a track where nothing else is said (`trex`, `tfhd`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Defaults {
    pub(super) duration: u32,
    pub(super) bytes: u32,
    pub(super) flags: u32,
}

/// A track, and where the reader is in it.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) track: ReadTrack,
    pub(super) defaults: Defaults,
    /// When the next sample is decoded if its fragment does not say.
    pub(super) next: u64,
}

/// Reads a `moov` (14496-12 §8.2.1).
pub(super) fn parse(moov: Body<'_>) -> Result<Vec<Known>, ReadError> {
    let movie_timescale = timescale(moov.need(b"mvhd")?)?;
    let mut known: Vec<Known> = Vec::new();
    let mut boxes = moov;
    while let Some(trak) = boxes.next_box()? {
        if !trak.is(b"trak") {
            continue;
        }
        let track = parse_track(trak, movie_timescale)?;
        if known.len() >= TRACKS_MAX {
            return Err(moov.unexpected(
                "the number of tracks",
                known.len().saturating_add(1) as u64,
                "at most 16",
            ));
        }
        if known.iter().any(|other| other.track.id == track.id) {
            return Err(trak.unexpected("track_ID", track.id.into(), "another one for each track"));
        }
        known.push(Known { track, defaults: Defaults::default(), next: 0 });
    }
    if known.is_empty() {
        return Err(ReadError::Missing { kind: moov.kind, expected: FourCc(*b"trak"), at: moov.at });
    }
    if let Some(mut mvex) = moov.find(b"mvex")? {
        while let Some(inner) = mvex.next_box()? {
            if inner.is(b"trex") {
                parse_defaults(inner, &mut known)?;
            }
        }
    }
    Ok(known)
}

fn parse_track(trak: Body<'_>, movie_timescale: u32) -> Result<ReadTrack, ReadError> {
    let mut header = trak.need(b"tkhd")?;
    let (version, _) = header.version_and_flags()?;
    header.take(if version == 0 { 8 } else { 16 }, "creation_time")?;
    let id = header.u32("track_ID")?;
    if id == 0 {
        return Err(header.unexpected("track_ID", 0, "1 or more"));
    }
    let mdia = trak.need(b"mdia")?;
    let timescale = timescale(mdia.need(b"mdhd")?)?;
    let mut table = mdia.need(b"minf")?.need(b"stbl")?.need(b"stsd")?;
    table.version_and_flags()?;
    table.u32("entry_count")?;
    let none = ReadError::Truncated { kind: table.kind, what: "its first entry", at: table.at };
    let entry = table.next_box()?.ok_or(none)?;
    let (form, media) = sample_entry::parse(entry)?;
    let bitrate_bps = sample_entry::bitrate_bps(entry);
    let edits = trak.find(b"edts")?.map(|edits| edits.find(b"elst")).transpose()?.flatten();
    let presentation_start =
        edits.map_or(Ok(0), |edits| presentation_start(edits, timescale, movie_timescale))?;
    Ok(ReadTrack { id, timescale, sample_entry: entry.kind, media, presentation_start, bitrate_bps, form })
}

/// Ticks a second, from `mvhd` or `mdhd`.
fn timescale(mut header: Body<'_>) -> Result<u32, ReadError> {
    let (version, _) = header.version_and_flags()?;
    header.take(if version == 0 { 8 } else { 16 }, "creation_time")?;
    match header.u32("timescale")? {
        0 => Err(header.unexpected("timescale", 0, "1 or more")),
        timescale => Ok(timescale),
    }
}

/// Reads an edit list up to the first edit that presents something: live, nothing comes behind that.
fn presentation_start(mut edits: Body<'_>, timescale: u32, movie_timescale: u32) -> Result<i64, ReadError> {
    let (version, _) = edits.version_and_flags()?;
    let mut delay = 0u64;
    for _ in 0..edits.u32("entry_count")? {
        let duration = edits.u32_or_u64(version, "segment_duration")?;
        let media_time = match version {
            0 => i64::from(edits.u32("media_time")?.cast_signed()),
            _ => edits.u64("media_time")?.cast_signed(),
        };
        edits.u32("media_rate")?;
        if media_time < 0 {
            // Nothing is presented for so long, which is said in ticks of the movie.
            delay = delay.saturating_add(duration);
            continue;
        }
        let delay = u128::from(delay).saturating_mul(timescale.into()).checked_div(movie_timescale.into());
        let delay = delay.and_then(|delay| u64::try_from(delay).ok()).filter(|delay| *delay <= TIME_MAX);
        let start = delay.filter(|_| media_time.unsigned_abs() <= TIME_MAX);
        let start = start.and_then(|delay| media_time.checked_sub_unsigned(delay));
        return start.ok_or_else(|| {
            edits.unexpected("media_time", media_time.unsigned_abs(), "times of less than 2^62 ticks")
        });
    }
    Ok(0)
}

fn parse_defaults(mut trex: Body<'_>, known: &mut [Known]) -> Result<(), ReadError> {
    trex.version_and_flags()?;
    let id = trex.u32("track_ID")?;
    trex.u32("default_sample_description_index")?;
    let duration = trex.u32("default_sample_duration")?;
    let bytes = trex.u32("default_sample_size")?;
    let flags = trex.u32("default_sample_flags")?;
    if let Some(known) = known.iter_mut().find(|known| known.track.id == id) {
        known.defaults = Defaults { duration, bytes, flags };
    }
    Ok(())
}
