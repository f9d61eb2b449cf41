//! A file that is not fragmented, made of CMAF: all samples are told in front of their bytes (ISO/IEC 14496-12 §8.2, §8.6, §8.7), so that
//! players begin before the file is there as a whole, and those play it that read no fragments.
//!
//! ```text
//! CMAF headers ─► InitTrack ─► Progressive::add_track, add_description ─┐
//! chunks ───────► samples ───► Progressive::push, their bytes go behind ┤
//!                                                                       ▼
//!                       ftyp moov(mvhd, trak(tkhd, edts, mdia)…) mdat │ the bytes, in the order in which they were pushed
//! ```
//! Sample entries are those of the CMAF headers, byte for byte. Each track has its own times, and an edit list that puts what is at
//! [`Progressive::finish`]'s `begin` at 0: a track that begins later waits, and of one that begins earlier the time before is not shown
//! (14496-12 §8.6.6), so that pictures and sound stay together to a tick.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::boxes::{Fields, full, plain};
use super::init::{MOVIE_TIMESCALE, write_matrix};
use super::read::{ReadError, SampleEntries, read_sample_entries};
use std::time::Duration;

/// Samples of a file: two days of pictures, 60 a second, with sound. Their tables take 300 MB.
const SAMPLES_MAX: usize = 1 << 24;

/// A track as a CMAF header has it, to be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitTrack {
    /// Pictures, and not sound.
    pub is_video: bool,
    /// Ticks a second.
    pub timescale: u32,
    /// Width and height as they are shown, in pixels times 2¹⁶ (`tkhd`).
    pub shown_size: (u32, u32),
    /// The sample entry, a whole box of `stsd`.
    pub sample_entry: Vec<u8>,
}

impl InitTrack {
    /// Reads a CMAF header: that of one track, or the first one of several.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn read(header: &[u8]) -> Result<InitTrack, ReadError> {
        let SampleEntries { is_video, timescale, shown_size, entry } = read_sample_entries(header)?;
        Ok(InitTrack { is_video, timescale, shown_size, sample_entry: entry.to_vec() })
    }
}

/// A sample of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedSample {
    /// Its bytes.
    pub bytes: u32,
    /// When it is decoded, in ticks of its track.
    pub decode_time: u64,
    /// Until the next one, where none follows.
    pub duration: u32,
    /// From decoding to presentation, the same.
    pub composition_offset: i32,
    /// Whether decoding can begin with it.
    pub is_sync: bool,
}

/// Why samples do not go into the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgressiveError {
    /// There is no such track or description.
    #[error("there is no track or description of this number")]
    Track,
    /// It would be decoded before the one in front of it.
    #[error("a sample at {found} ticks follows one at {last}")]
    Backwards {
        /// When it is decoded.
        found: u64,
        /// When the one in front of it is.
        last: u64,
    },
    /// A header of another kind or codec than the track's.
    #[error("a track of pictures cannot go on with sound, nor one codec with another")]
    Other,
    /// More samples than are told of in one file.
    #[error("a file has at most 16,777,216 samples: export a shorter time")]
    TooMany,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Progressive {
    tracks: Vec<Written>,
    /// Bytes behind the head.
    data_bytes: u64,
    samples: usize,
}

#[derive(Clone, Debug)]
struct Written {
    init: InitTrack,
    /// ISO 639-2, three lower-case letters.
    language: Option<[u8; 3]>,
    alternate_group: u16,
    is_enabled: bool,
    entries: Vec<Vec<u8>>,
    samples: Vec<PlacedSample>,
    chunks: Vec<DataChunk>,
}

/// Samples that lie one behind the other.
#[derive(Clone, Copy, Debug)]
struct DataChunk {
    /// Where, from the first byte behind the head.
    offset: u64,
    samples: u32,
    /// Which sample entry, from 1.
    description: u32,
}

impl Progressive {
    /// An empty file.
    pub fn new() -> Progressive {
        Progressive::default()
    }

    /// Adds a track. Returns its number, from 0; its first description has number 0.
    pub fn add_track(&mut self, init: &InitTrack, language: Option<[u8; 3]>) -> usize {
        let entries = vec![init.sample_entry.clone()];
        let (samples, chunks) = (Vec::new(), Vec::new());
        let (init, alternate_group, is_enabled) = (init.clone(), 1, true);
        self.tracks.push(Written { init, language, alternate_group, is_enabled, entries, samples, chunks });
        self.tracks.len().saturating_sub(1)
    }

    /// Of sound with one `group` one track alone is heard, at first that which is enabled (14496-12 §8.3.2); 1 and true by default.
    /// Pictures are alternatives to none.
    pub fn set_alternate(&mut self, track: usize, group: u16, is_enabled: bool) {
        if let Some(written) = self.tracks.get_mut(track) {
            (written.alternate_group, written.is_enabled) = (group, is_enabled);
        }
    }

    /// Whether a track has anything between these times, which [`Progressive::finish`] is given; one that has not is left out of the
    /// file.
    pub fn is_shown(&self, track: usize, begin: Duration, end: Option<Duration>) -> bool {
        self.tracks.get(track).is_some_and(|track| track.is_shown(Shown { begin, end }))
    }

    /// Another description of a track's samples, from the header of another epoch; the same one is there once. Returns its number.
    /// The header may have another time scale, as that of sound at another sampling rate: the times of samples are in ticks of the
    /// header that the track was added with ([`Progressive::timescale`]), since a track has one scale alone (14496-12 §8.4.2).
    ///
    /// # Errors
    /// [`ProgressiveError::Track`], [`ProgressiveError::Other`].
    pub fn add_description(&mut self, track: usize, init: &InitTrack) -> Result<usize, ProgressiveError> {
        let written = self.tracks.get_mut(track).ok_or(ProgressiveError::Track)?;
        // The type of a sample entry, behind its length, is its codec. Players open one decoder a track.
        if written.init.is_video != init.is_video
            || written.init.sample_entry.get(4..8) != init.sample_entry.get(4..8)
        {
            return Err(ProgressiveError::Other);
        }
        let known = written.entries.iter().position(|entry| *entry == init.sample_entry);
        Ok(known.unwrap_or_else(|| {
            written.entries.push(init.sample_entry.clone());
            written.entries.len().saturating_sub(1)
        }))
    }

    /// Adds samples of a track, in the order of decoding. Their bytes follow those of what was pushed before.
    ///
    /// # Errors
    /// [`ProgressiveError`]: none of them was added.
    pub fn push(
        &mut self,
        track: usize,
        description: usize,
        samples: &[PlacedSample],
    ) -> Result<(), ProgressiveError> {
        let written = self.tracks.get_mut(track).ok_or(ProgressiveError::Track)?;
        if description >= written.entries.len() {
            return Err(ProgressiveError::Track);
        }
        if self.samples.saturating_add(samples.len()) > SAMPLES_MAX {
            return Err(ProgressiveError::TooMany);
        }
        let mut last = written.samples.last().map(|last| last.decode_time);
        for sample in samples {
            if let Some(last) = last.filter(|last| sample.decode_time < *last) {
                return Err(ProgressiveError::Backwards { found: sample.decode_time, last });
            }
            last = Some(sample.decode_time);
        }
        let count = u32::try_from(samples.len()).unwrap_or(u32::MAX);
        if count > 0 {
            let description = u32::try_from(description).unwrap_or(u32::MAX).saturating_add(1);
            written.chunks.push(DataChunk { offset: self.data_bytes, samples: count, description });
        }
        written.samples.extend_from_slice(samples);
        self.samples = self.samples.saturating_add(samples.len());
        let bytes: u64 = samples.iter().map(|sample| u64::from(sample.bytes)).sum();
        self.data_bytes = self.data_bytes.saturating_add(bytes);
        Ok(())
    }

    /// Ticks a second of a track's times; `None` where there is no such track.
    pub fn timescale(&self, track: usize) -> Option<u32> {
        self.tracks.get(track).map(|track| track.init.timescale)
    }

    /// Bytes that belong behind the head.
    pub fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// When the last sample of a track ends, in its ticks; `None` where it has none.
    pub fn track_end(&self, track: usize) -> Option<u64> {
        let last = self.tracks.get(track)?.samples.last()?;
        Some(last.decode_time.saturating_add(last.duration.into()))
    }

    /// The head of the file: all that stands before the bytes of its samples. What is shown are the times of the tracks from `begin` to
    /// `end`, or to their own ends; what lies before `begin` is there for decoders alone.
    pub fn finish(&self, begin: Duration, end: Option<Duration>) -> Vec<u8> {
        // Places of 64 bits take more room in the head, which moves all places by as much.
        let is_large = self.data_bytes > u64::from(u32::MAX) / 2;
        let shown = Shown { begin, end };
        let measured = self.write_head(shown, is_large, 0).len() as u64;
        self.write_head(shown, is_large, measured)
    }

    fn write_head(&self, shown: Shown, is_large: bool, head_bytes: u64) -> Vec<u8> {
        let mut out = Vec::new();
        plain(&mut out, b"ftyp", |out| {
            out.extend_from_slice(b"isom");
            out.u32(512);
            // Offsets of either sign need `iso4` (14496-12 annex E).
            [b"isom", b"iso4", b"mp41", b"mp42"].iter().for_each(|brand| out.extend_from_slice(*brand));
        });
        let tracks = || self.tracks.iter().filter(|track| track.is_shown(shown));
        plain(&mut out, b"moov", |out| {
            let duration = tracks().map(|track| track.edits(shown).duration()).max().unwrap_or(0);
            write_movie_header(duration, u32::try_from(tracks().count()).unwrap_or(u32::MAX), out);
            for (track, id) in tracks().zip(1..) {
                plain(out, b"trak", |out| track.write(id, shown, Place { head_bytes, is_large }, out));
            }
        });
        let whole = self.data_bytes.saturating_add(8);
        match u32::try_from(whole) {
            Ok(bytes) if !is_large => {
                out.u32(bytes);
                out.extend_from_slice(b"mdat");
            }
            _ => {
                out.u32(1);
                out.extend_from_slice(b"mdat");
                out.u64(whole.saturating_add(8));
            }
        }
        out
    }
}

/// Where the bytes of samples begin, and whether places take 64 bits.
#[derive(Clone, Copy, Debug)]
struct Place {
    head_bytes: u64,
    is_large: bool,
}

/// Which times are shown.
#[derive(Clone, Copy, Debug)]
struct Shown {
    begin: Duration,
    end: Option<Duration>,
}

/// What a track shows when, in ticks of the movie but for the last.
#[derive(Clone, Copy, Debug)]
struct Edits {
    /// Nothing, for so long.
    wait: u64,
    /// Then what there is, for so long.
    shown: u64,
    /// From this time of the track on, in its ticks.
    from: u64,
}

impl Edits {
    fn duration(self) -> u64 {
        self.wait.saturating_add(self.shown)
    }
}

impl Written {
    /// Time 0 of the track in the file: when its first sample is decoded.
    fn zero(&self) -> u64 {
        self.samples.first().map_or(0, |first| first.decode_time)
    }

    fn is_shown(&self, shown: Shown) -> bool {
        // An edit of no length means one without an end to some players.
        !self.samples.is_empty() && self.edits(shown).shown > 0
    }

    fn edits(&self, shown: Shown) -> Edits {
        let scale = self.init.timescale;
        let presented = |sample: &PlacedSample| {
            i128::from(sample.decode_time).saturating_add(sample.composition_offset.into())
        };
        let first = self.samples.iter().map(presented).min().unwrap_or(0).max(0);
        let end = self.samples.iter().map(|sample| presented(sample).saturating_add(sample.duration.into()));
        let end = end.max().unwrap_or(0);
        let begin = i128::from(ticks(shown.begin, scale));
        let end = shown.end.map_or(end, |wanted| end.min(ticks(wanted, scale).into()));
        let from = first.max(begin);
        let to_movie = |own: i128| {
            let own = u64::try_from(own.max(0)).unwrap_or(u64::MAX);
            scaled(own, scale, MOVIE_TIMESCALE)
        };
        let zero = i128::from(self.zero());
        Edits {
            wait: to_movie(from.saturating_sub(begin)),
            shown: to_movie(end.saturating_sub(from)),
            from: u64::try_from(from.saturating_sub(zero).max(0)).unwrap_or(u64::MAX),
        }
    }

    /// Writes the content of its `trak`.
    fn write(&self, id: u32, shown: Shown, head: Place, out: &mut Vec<u8>) {
        let edits = self.edits(shown);
        full(out, b"tkhd", 1, if self.is_enabled { 3 } else { 2 }, |out| {
            out.zeros(16);
            out.u32(id);
            out.u32(0);
            out.u64(edits.duration());
            out.zeros(8);
            out.u16(0);
            out.u16(if self.init.is_video { 0 } else { self.alternate_group });
            out.u16(if self.init.is_video { 0 } else { 0x0100 });
            out.u16(0);
            write_matrix(out);
            out.u32(self.init.shown_size.0);
            out.u32(self.init.shown_size.1);
        });
        plain(out, b"edts", |out| {
            full(out, b"elst", 1, 0, |out| {
                out.u32(if edits.wait > 0 { 2 } else { 1 });
                if edits.wait > 0 {
                    out.u64(edits.wait);
                    out.u64(u64::MAX);
                    out.u32(0x0001_0000);
                }
                out.u64(edits.shown);
                out.u64(edits.from);
                out.u32(0x0001_0000);
            });
        });
        plain(out, b"mdia", |out| self.write_media(head, out));
    }

    fn write_media(&self, head: Place, out: &mut Vec<u8>) {
        let durations = self.durations();
        full(out, b"mdhd", 1, 0, |out| {
            out.zeros(16);
            out.u32(self.init.timescale);
            out.u64(
                durations.iter().map(|(count, each)| u64::from(*count).saturating_mul((*each).into())).sum(),
            );
            out.u16(packed_language(self.language));
            out.u16(0);
        });
        let is_video = self.init.is_video;
        full(out, b"hdlr", 0, 0, |out| {
            out.u32(0);
            out.extend_from_slice(if is_video { b"vide" } else { b"soun" });
            out.zeros(12);
            out.extend_from_slice(if is_video { b"video\0" } else { b"sound\0" });
        });
        plain(out, b"minf", |out| {
            if is_video {
                full(out, b"vmhd", 0, 1, |out| out.zeros(8));
            } else {
                full(out, b"smhd", 0, 0, |out| out.zeros(4));
            }
            plain(out, b"dinf", |out| {
                full(out, b"dref", 0, 0, |out| {
                    out.u32(1);
                    // The media is in this file.
                    full(out, b"url ", 0, 1, |_| {});
                });
            });
            plain(out, b"stbl", |out| self.write_table(&durations, head, out));
        });
    }

    /// How long samples last, as runs: until the next one, so that times stay those of the recording where something is missing.
    fn durations(&self) -> Vec<(u32, u32)> {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for (sample, at) in self.samples.iter().zip(1usize..) {
            let until = self.samples.get(at).map(|next| next.decode_time.saturating_sub(sample.decode_time));
            let lasts = until.map_or(sample.duration, |until| u32::try_from(until).unwrap_or(u32::MAX));
            match runs.last_mut() {
                Some((count, each)) if *each == lasts => *count = count.saturating_add(1),
                _ => runs.push((1, lasts)),
            }
        }
        runs
    }

    fn write_table(&self, durations: &[(u32, u32)], head: Place, out: &mut Vec<u8>) {
        full(out, b"stsd", 0, 0, |out| {
            out.u32(count(self.entries.len()));
            self.entries.iter().for_each(|entry| out.extend_from_slice(entry));
        });
        write_runs(b"stts", 0, durations.iter().copied(), out);
        if self.samples.iter().any(|sample| sample.composition_offset != 0) {
            let offsets = self.samples.iter().map(|sample| sample.composition_offset.cast_unsigned());
            write_runs(b"ctts", 1, runs_of(offsets).into_iter(), out);
        }
        // Without the table all samples are such.
        let is_entry = |(at, sample): &(usize, &PlacedSample)| *at == 0 || sample.is_sync;
        let entries: Vec<usize> =
            self.samples.iter().enumerate().filter(is_entry).map(|(at, _)| at).collect();
        if entries.len() < self.samples.len() {
            full(out, b"stss", 0, 0, |out| {
                out.u32(count(entries.len()));
                entries.iter().for_each(|at| out.u32(count(*at).saturating_add(1)));
            });
        }
        self.write_chunks(head, out);
    }

    fn write_chunks(&self, head: Place, out: &mut Vec<u8>) {
        full(out, b"stsc", 0, 0, |out| {
            let mut runs: Vec<(u32, u32, u32)> = Vec::new();
            for (chunk, number) in self.chunks.iter().zip(1u32..) {
                let is_same = |run: &&(u32, u32, u32)| (run.1, run.2) == (chunk.samples, chunk.description);
                if runs.last().filter(is_same).is_none() {
                    runs.push((number, chunk.samples, chunk.description));
                }
            }
            out.u32(count(runs.len()));
            for (first, samples, description) in runs {
                out.u32(first);
                out.u32(samples);
                out.u32(description);
            }
        });
        full(out, b"stsz", 0, 0, |out| {
            out.u32(0);
            out.u32(count(self.samples.len()));
            self.samples.iter().for_each(|sample| out.u32(sample.bytes));
        });
        let place = |chunk: &DataChunk| chunk.offset.saturating_add(head.head_bytes);
        full(out, if head.is_large { b"co64" } else { b"stco" }, 0, 0, |out| {
            out.u32(count(self.chunks.len()));
            for chunk in &self.chunks {
                if head.is_large {
                    out.u64(place(chunk));
                } else {
                    out.u32(u32::try_from(place(chunk)).unwrap_or(u32::MAX));
                }
            }
        });
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Values that follow each other, as runs of equal ones.
fn runs_of(values: impl Iterator<Item = u32>) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for value in values {
        match runs.last_mut() {
            Some((count, each)) if *each == value => *count = count.saturating_add(1),
            _ => runs.push((1, value)),
        }
    }
    runs
}

fn write_runs(
    kind: &[u8; 4],
    version: u8,
    runs: impl ExactSizeIterator<Item = (u32, u32)>,
    out: &mut Vec<u8>,
) {
    full(out, kind, version, 0, |out| {
        out.u32(count(runs.len()));
        for (count, value) in runs {
            out.u32(count);
            out.u32(value);
        }
    });
}

fn write_movie_header(duration: u64, tracks: u32, out: &mut Vec<u8>) {
    full(out, b"mvhd", 1, 0, |out| {
        out.zeros(16);
        out.u32(MOVIE_TIMESCALE);
        out.u64(duration);
        out.u32(0x0001_0000);
        out.u16(0x0100);
        out.zeros(10);
        write_matrix(out);
        out.zeros(24);
        out.u32(tracks.saturating_add(1));
    });
}

/// Three letters of 5 bits (14496-12 §8.4.2.3); `und` where none are known.
fn packed_language(language: Option<[u8; 3]>) -> u16 {
    let letters = language.filter(|letters| letters.iter().all(u8::is_ascii_lowercase)).unwrap_or(*b"und");
    letters.iter().fold(0, |packed, letter| packed << 5 | u16::from(letter.saturating_sub(0x60) & 0x1f))
}

/// `duration` in ticks, to the nearest.
fn ticks(duration: Duration, timescale: u32) -> u64 {
    let doubled = duration.as_nanos().saturating_mul(u128::from(timescale)).saturating_add(500_000_000);
    u64::try_from(doubled.checked_div(1_000_000_000).unwrap_or(0)).unwrap_or(u64::MAX)
}

/// Ticks of one scale in those of another, to the nearest.
fn scaled(ticks: u64, from: u32, to: u32) -> u64 {
    let half = u128::from(from / 2);
    let product = u128::from(ticks).saturating_mul(to.into()).saturating_add(half);
    u64::try_from(product.checked_div(from.into()).unwrap_or(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[path = "progressive_tests.rs"]
mod tests;
