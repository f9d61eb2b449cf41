//! Fragments, read: which samples lie where (ISO/IEC 14496-12 §8.8.4 to §8.8.12).

use super::body::Body;
use super::error::{FourCc, ReadError};
use super::init::{Defaults, Known};
use super::{SAMPLES_MAX, TIME_MAX};
use bytes::Bytes;
use std::ops::Range;

/// A sample as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadSample {
    /// When it is decoded, in ticks of its track; less than 2⁶³.
    pub decode_time: u64,
    /// How long it lasts, in ticks.
    pub duration: u32,
    /// From decoding to presentation, in ticks.
    pub composition_offset: i64,
    /// What depends on what (14496-12 §8.8.3.1).
    pub flags: u32,
    /// Its bytes, at least one; a view of all those of its chunk.
    pub data: Bytes,
}

impl ReadSample {
    /// Whether its flags say that decoding can begin with it. Muxers that leave the flags at 0 say that of all samples.
    pub fn is_sync(&self) -> bool {
        self.flags & 0x1_0000 == 0
    }
}

/// Samples of one track that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRun {
    /// The track's number.
    pub track_id: u32,
    /// When the first sample is decoded, in ticks of the track.
    pub decode_time: u64,
    /// At least one. Those without bytes are left out: they only take time.
    pub samples: Vec<ReadSample>,
}

/// What a `moof` says, before the samples' bytes have come.
#[derive(Clone, Debug)]
pub(super) struct Fragment {
    /// Where the `moof` begins.
    pub(super) at: u64,
    pub(super) sequence: u32,
    pub(super) runs: Vec<ReadRun>,
    /// Where the samples of all runs lie, one behind the other.
    pub(super) places: Vec<Range<u64>>,
    /// Samples that were told, those without bytes too.
    told: usize,
}

impl Fragment {
    /// Reads a `moof`, and takes the tracks on to where it ends.
    pub(super) fn parse(moof: Body<'_>, tracks: &mut [Known]) -> Result<Fragment, ReadError> {
        let mut header = moof.need(b"mfhd")?;
        header.version_and_flags()?;
        let sequence = header.u32("sequence_number")?;
        let mut fragment = Fragment { at: moof.at, sequence, runs: Vec::new(), places: Vec::new(), told: 0 };
        let (mut boxes, mut end) = (moof, moof.at);
        while let Some(traf) = boxes.next_box()? {
            if traf.is(b"traf") {
                end = fragment.parse_track(traf, end, tracks)?;
            }
        }
        Ok(fragment)
    }

    /// Reads a `traf`. Returns where its data end, which is where those of the next one begin if nothing else is said.
    fn parse_track(&mut self, traf: Body<'_>, end: u64, tracks: &mut [Known]) -> Result<u64, ReadError> {
        let (known, base, defaults) = self.parse_header(traf.need(b"tfhd")?, end, tracks)?;
        let mut decode_time = known.next;
        if let Some(mut tfdt) = traf.find(b"tfdt")? {
            let (version, _) = tfdt.version_and_flags()?;
            decode_time = tfdt.u32_or_u64(version, "baseMediaDecodeTime")?;
        }
        if decode_time > TIME_MAX {
            return Err(traf.unexpected("the decoding time", decode_time, "at most 2^62"));
        }
        let track_id = known.track.id;
        let mut run = ReadRun { track_id, decode_time, samples: Vec::new() };
        let mut cursor = Cursor { base, at: base, time: decode_time, defaults };
        let mut boxes = traf;
        while let Some(inner) = boxes.next_box()? {
            if inner.is(b"trun") {
                self.parse_run(inner, &mut cursor, &mut run)?;
            }
        }
        known.next = cursor.time;
        if let Some(first) = run.samples.first() {
            run.decode_time = first.decode_time;
            self.runs.push(run);
        }
        Ok(cursor.at)
    }

    /// Reads a `tfhd`: the track, where its data offsets count from, and its defaults.
    fn parse_header<'a>(
        &self,
        mut tfhd: Body<'_>,
        end: u64,
        tracks: &'a mut [Known],
    ) -> Result<(&'a mut Known, u64, Defaults), ReadError> {
        let (_, flags) = tfhd.version_and_flags()?;
        let id = tfhd.u32("track_ID")?;
        let unknown = tfhd.unexpected("track_ID", id.into(), "a track of the moov");
        let known = tracks.iter_mut().find(|known| known.track.id == id).ok_or(unknown)?;
        let mut defaults = known.defaults;
        let base = match flags {
            _ if flags & 0x1 != 0 => tfhd.u64("base_data_offset")?,
            _ if flags & 0x2_0000 != 0 => self.at,
            _ => end,
        };
        if flags & 0x2 != 0 {
            let index = tfhd.u32("sample_description_index")?;
            if index != 1 {
                return Err(tfhd.unexpected("sample_description_index", index.into(), "1"));
            }
        }
        for (flag, field, what) in [
            (0x08, &mut defaults.duration, "default_sample_duration"),
            (0x10, &mut defaults.bytes, "default_sample_size"),
            (0x20, &mut defaults.flags, "default_sample_flags"),
        ] {
            if flags & flag != 0 {
                *field = tfhd.u32(what)?;
            }
        }
        Ok((known, base, defaults))
    }

    /// Reads a `trun`.
    fn parse_run(
        &mut self,
        mut trun: Body<'_>,
        cursor: &mut Cursor,
        run: &mut ReadRun,
    ) -> Result<(), ReadError> {
        let (version, flags) = trun.version_and_flags()?;
        let count = trun.u32("sample_count")? as usize;
        self.told = self.told.saturating_add(count);
        if self.told > SAMPLES_MAX {
            return Err(trun.unexpected(
                "the number of samples",
                self.told as u64,
                "at most 16384 in a moof",
            ));
        }
        if flags & 0x1 != 0 {
            let offset = i64::from(trun.u32("data_offset")?.cast_signed());
            let inside = cursor.base.checked_add_signed(offset);
            cursor.at = inside.ok_or_else(|| {
                trun.unexpected("data_offset", offset.cast_unsigned(), "an offset inside of the stream")
            })?;
        }
        let first = if flags & 0x4 != 0 { Some(trun.u32("first_sample_flags")?) } else { None };
        for index in 0..count {
            let defaults = cursor.defaults;
            let mut field =
                |flag, default, what| if flags & flag != 0 { trun.u32(what) } else { Ok(default) };
            let duration = field(0x100, defaults.duration, "sample_duration")?;
            let bytes = field(0x200, defaults.bytes, "sample_size")?;
            let default_flags = first.filter(|_| index == 0).unwrap_or(defaults.flags);
            let sample_flags = field(0x400, default_flags, "sample_flags")?;
            let offset = field(0x800, 0, "sample_composition_time_offset")?;
            let signed = || i64::from(offset.cast_signed());
            let composition_offset = if version == 0 { i64::from(offset) } else { signed() };
            let beyond = trun.unexpected("sample_size", bytes.into(), "an end inside of the stream");
            let end = cursor.at.checked_add(bytes.into()).ok_or(beyond)?;
            if bytes > 0 {
                self.places.push(cursor.at..end);
                let (decode_time, flags, data) = (cursor.time, sample_flags, Bytes::new());
                run.samples.push(ReadSample { decode_time, duration, composition_offset, flags, data });
            }
            cursor.at = end;
            // Far below the end of 64 bits: the first is at most TIME_MAX, and samples have a bound.
            cursor.time = cursor.time.saturating_add(duration.into());
        }
        Ok(())
    }

    /// Bytes that its tables take.
    pub(super) fn held_bytes(&self) -> usize {
        const EACH: usize = size_of::<ReadSample>() + size_of::<Range<u64>>();
        self.places.len().saturating_mul(EACH)
    }

    /// Gives the samples their bytes, out of the content of an `mdat`, which begins at `data_at`.
    ///
    /// # Errors
    /// Where a sample lies outside of them, or samples together have more bytes than there are.
    pub(super) fn fill(&mut self, data_at: u64, data: &Bytes) -> Result<(), ReadError> {
        let wrong = |what, found, expected| ReadError::Unexpected {
            what,
            found,
            expected,
            kind: FourCc(*b"moof"),
            at: self.at,
        };
        let mut left = data.len();
        let samples = self.runs.iter_mut().flat_map(|run| &mut run.samples);
        for (sample, place) in samples.zip(&self.places) {
            let offset = |at: u64| at.checked_sub(data_at).and_then(|at| usize::try_from(at).ok());
            let inside = offset(place.start).zip(offset(place.end)).filter(|&(_, end)| end <= data.len());
            let expected = "one in the mdat that follows";
            let (start, end) = inside.ok_or_else(|| wrong("the place of a sample", place.start, expected))?;
            // Two samples may not share bytes: what is made of them would have no bound.
            let size = end.saturating_sub(start);
            let sum = data.len().saturating_sub(left).saturating_add(size);
            let wrong = || wrong("the sum of all samples' sizes", sum as u64, "as many as the mdat has");
            left = left.checked_sub(size).ok_or_else(wrong)?;
            sample.data = data.slice(start..end);
        }
        Ok(())
    }
}

/// Where a run is.
struct Cursor {
    /// Where data offsets count from.
    base: u64,
    /// Where the next sample's bytes lie.
    at: u64,
    /// When it is decoded.
    time: u64,
    defaults: Defaults,
}
