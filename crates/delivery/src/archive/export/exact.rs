//! The first group of pictures coded anew, so that a file begins with any picture.
//!
//! ```text
//! key frame ── … ──── wanted ──── … ──── next key frame ── …
//! └ decoded alone ┘└─── coded anew ───┘└─ as it was recorded
//! ```
//! The group is held until its next key frame has come, or the end. What codes is handed in ([`Recoder`]): nothing is decoded here.

use super::cut::CutSample;
use super::{Exactness, ExportError};
use crate::packager::RenditionName;
use bytes::Bytes;
use glassline_media::container::cmaf::{
    Brand, Event, InitTrack, Media, ReadSample, ReadTrack, Reader, Track, write_init,
};
use glassline_media::{AccessUnit, FrameRate, Ticks};
use std::fmt;

/// What is held of a group at most.
const HELD_BYTES_MAX: usize = 64 << 20;
const HELD_SAMPLES_MAX: usize = 2000;
/// The rate of what is coded anew, to that of what was recorded: coded once more it takes more to look alike.
const RATE: u64 = 2;
const RATE_RANGE: (u64, u64) = (200_000, 100_000_000);
/// Flags of a sample that decoding cannot begin with (ISO/IEC 14496-12 §8.8.3.1).
const NOT_SYNC: u32 = 0x0101_0000;

/// A group of pictures of H.264 that is coded anew.
#[derive(Clone, Debug)]
pub struct Group {
    /// In the order of decoding, with a key frame first. `pts` are in ticks of the track, and `dts` do not count.
    pub units: Vec<AccessUnit>,
    /// Pictures that are shown before this are decoded alone.
    pub from: Ticks,
    /// About.
    pub frame_rate: FrameRate,
    /// Bits a second that the new pictures may have.
    pub bitrate_bps: u64,
}

/// Decodes a group and codes its pictures anew: units with the same `pts`, not reordered, the first one a key frame with its parameter
/// sets. Says in words why it cannot.
pub type Recoder = Box<dyn FnMut(&Group) -> Result<Vec<AccessUnit>, String> + Send>;

/// Where the exact begin of a file has come to.
pub(super) struct Exact {
    recoder: Recoder,
    /// The group that is not complete, in the order of decoding.
    held: Vec<CutSample>,
    held_bytes: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The group is not complete.
    Holding,
    /// The next key frame has come, which is shown then: pictures in front of it would need those that are coded anew.
    Behind(i128),
    Over,
}

/// A group that is complete, and the key frame behind it.
#[derive(Debug)]
pub(super) struct Complete {
    group: Vec<CutSample>,
    next: Option<CutSample>,
}

/// What takes the place of a group.
pub(super) struct Recoded {
    /// The header of the new pictures' track.
    pub(super) init: InitTrack,
    pub(super) samples: Vec<CutSample>,
}

impl fmt::Debug for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exact")
            .field("held", &self.held.len())
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// When a sample is shown, in ticks of its track, in the file.
fn shown(cut: &CutSample) -> i128 {
    i128::from(cut.decode_time).saturating_add(cut.sample.composition_offset.into())
}

fn error(reason: Exactness) -> ExportError {
    ExportError::Exact(reason)
}

impl Exact {
    pub(super) fn new(recoder: Recoder) -> Exact {
        Exact { recoder, held: Vec::new(), held_bytes: 0, state: State::Holding }
    }

    /// Takes pictures that follow each other. Returns the group, where it is complete by them, and those that stay as they are.
    pub(super) fn push(
        &mut self,
        pictures: Vec<CutSample>,
    ) -> Result<(Option<Complete>, Vec<CutSample>), ExportError> {
        let (mut complete, mut rest) = (None, Vec::new());
        for picture in pictures {
            match self.state {
                State::Holding if picture.sample.is_sync() && !self.held.is_empty() => {
                    self.state = State::Behind(shown(&picture));
                    complete =
                        Some(Complete { group: std::mem::take(&mut self.held), next: Some(picture.clone()) });
                    rest.push(picture);
                }
                State::Holding => self.hold(picture)?,
                State::Behind(next) if shown(&picture) < next => return Err(error(Exactness::OpenGroup)),
                State::Behind(_) => {
                    self.state = State::Over;
                    rest.push(picture);
                }
                State::Over => rest.push(picture),
            }
        }
        Ok((complete, rest))
    }

    fn hold(&mut self, picture: CutSample) -> Result<(), ExportError> {
        if self.held.is_empty() && !picture.sample.is_sync() {
            return Err(error(Exactness::NoKeyFrame));
        }
        self.held_bytes = self.held_bytes.saturating_add(picture.sample.data.len());
        if self.held.len() >= HELD_SAMPLES_MAX || self.held_bytes > HELD_BYTES_MAX {
            return Err(error(Exactness::LongGroup));
        }
        self.held.push(picture);
        Ok(())
    }

    /// No picture follows those that are held: what there is of the group.
    pub(super) fn end(&mut self) -> Option<Complete> {
        if self.state == State::Holding && !self.held.is_empty() {
            self.state = State::Over;
            return Some(Complete { group: std::mem::take(&mut self.held), next: None });
        }
        None
    }

    /// The pictures of a group of `track` that are shown at `from` or later, in ticks of the file, coded anew; `None` where there are
    /// none.
    pub(super) fn recode(
        &mut self,
        complete: &Complete,
        track: &ReadTrack,
        from: u64,
    ) -> Result<Option<Recoded>, ExportError> {
        let refused = |words: String| error(Exactness::Refused(words));
        let in_band = match &track.sample_entry.0 {
            b"avc1" => false,
            b"avc3" => true,
            other => return Err(error(Exactness::Codec(String::from_utf8_lossy(other).into_owned()))),
        };
        let group = complete.group_of(track, from)?;
        let units = (self.recoder)(&group).map_err(refused)?;
        let Some(first) = units.first() else { return Ok(None) };
        let media = Media::of(first, in_band).map_err(|error| refused(error.to_string()))?;
        let mut header = Vec::new();
        write_init(Brand::Cmaf, &[Track { id: 1, media: media.clone() }], &mut header);
        let told = InitTrack::read(&header).map_err(|error| refused(error.to_string()))?;
        let init = InitTrack { timescale: track.timescale, ..told };
        let own = track_of(&header).ok_or_else(|| refused("its header cannot be read".into()))?;
        let mut samples = complete.placed(&units, track.timescale);
        for (placed, unit) in samples.iter_mut().zip(&units) {
            let mut data = Vec::with_capacity(unit.data.len());
            media.write_sample(unit, &mut data).map_err(|error| refused(error.to_string()))?;
            // The track has two sample entries: players that read the first one alone find the sets here.
            let with_sets = if placed.is_entry { own.with_parameter_sets(&data) } else { None };
            placed.sample.data = with_sets.unwrap_or(data).into();
        }
        Ok(Some(Recoded { init, samples }))
    }
}

/// The track that a header tells of.
fn track_of(header: &[u8]) -> Option<ReadTrack> {
    let mut reader = Reader::new();
    reader.push(header).ok()?;
    match reader.poll()? {
        Event::Init(tracks) => tracks.into_iter().next(),
        _ => None,
    }
}

impl Recoded {
    /// When its first picture is shown, in ticks of the file.
    pub(super) fn first_shown(&self) -> Option<u64> {
        self.samples.first().and_then(|first| u64::try_from(shown(first)).ok())
    }
}

impl Complete {
    /// When the key frame behind the group is shown, in ticks of the file.
    pub(super) fn next_shown(&self) -> Option<u64> {
        self.next.as_ref().and_then(|next| u64::try_from(shown(next)).ok())
    }

    fn group_of(&self, track: &ReadTrack, from: u64) -> Result<Group, ExportError> {
        let mut units = Vec::with_capacity(self.group.len());
        let (mut ticks, mut bytes) = (0u64, 0u64);
        for cut in &self.group {
            let unit = track.to_unit(&cut.sample);
            let mut unit = unit.map_err(|reason| error(Exactness::Refused(reason.to_string())))?;
            unit.pts = Ticks(i64::try_from(shown(cut)).unwrap_or(0));
            units.push(unit);
            ticks = ticks.saturating_add(cut.sample.duration.into());
            bytes = bytes.saturating_add(cut.sample.data.len() as u64);
        }
        let count = u64::try_from(units.len()).unwrap_or(u64::MAX);
        // Of the usual length of a picture, in ticks.
        let each = u32::try_from(ticks.checked_div(count).unwrap_or(0)).unwrap_or(u32::MAX);
        let frame_rate = FrameRate::new(track.timescale, each).unwrap_or(FrameRate::USUAL[2]);
        let bits = bytes.saturating_mul(8).saturating_mul(track.timescale.into());
        let rate = bits.checked_div(ticks).unwrap_or(0).saturating_mul(RATE);
        let bitrate_bps = rate.clamp(RATE_RANGE.0, RATE_RANGE.1);
        let from = Ticks(i64::try_from(from).unwrap_or(i64::MAX));
        Ok(Group { units, from, frame_rate, bitrate_bps })
    }

    /// The places of what is coded anew, without its bytes. It is decoded so long before it is shown as what follows.
    fn placed(&self, units: &[AccessUnit], timescale: u32) -> Vec<CutSample> {
        let usual = self.group.first();
        let offset = self.next.as_ref().or(usual).map_or(0, |cut| cut.sample.composition_offset.max(0));
        let lasts = usual.map_or(1, |cut| i64::from(cut.sample.duration));
        let end = self.next_shown().and_then(|next| i64::try_from(next).ok());
        let following = units.iter().skip(1).map(|unit| Some(unit.pts.0)).chain([end]);
        let place = |(unit, following): (&AccessUnit, Option<i64>)| {
            let duration = following.map_or(lasts, |following| following.saturating_sub(unit.pts.0));
            let decode_time = u64::try_from(unit.pts.0.saturating_sub(offset)).unwrap_or(0);
            let sample = ReadSample {
                decode_time,
                duration: u32::try_from(duration).unwrap_or(0),
                composition_offset: offset,
                flags: if unit.random_access { 0 } else { NOT_SYNC },
                data: Bytes::new(),
            };
            let (rendition, is_entry) = (RenditionName::Video, unit.random_access);
            CutSample { rendition, sample, decode_time, timescale, is_entry }
        };
        units.iter().zip(following).map(place).collect()
    }
}
