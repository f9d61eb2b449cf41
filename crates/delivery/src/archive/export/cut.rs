//! Where a file begins and ends, and how the times of runs become those of the file.

use super::{Exactness, ExportError, PlannedObject};
use crate::packager::RenditionName;
use bytes::Bytes;
use glassline_media::Utc;
use glassline_media::container::cmaf::{Event, ReadSample, ReadTrack, Reader};
use std::collections::BTreeMap;
use std::time::Duration;

/// The file's own begin in the times of its tracks: sound of before, which decoders need, has room in front of it.
pub(super) const BEGIN: Duration = Duration::from_secs(10);
/// The key frame before an exact begin lies no further back: there is room for so much in front of it.
const LEAD_MAX: Duration = Duration::from_secs(9);
/// What a time by the clock may be off by, since it is written in microseconds.
pub(super) const ROUNDED: Duration = Duration::from_micros(2);
/// A sample so far from where the index has its segment has a time that is none.
const ASTRAY_MAX: Duration = Duration::from_secs(3600);

/// A time of an epoch, and the wall clock's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Anchor {
    pub(super) utc: Utc,
    pub(super) time: Duration,
}

impl Anchor {
    /// The time of the epoch at `utc`.
    pub(super) fn time_at(self, utc: Utc) -> Duration {
        let ahead = utc.as_nanos().saturating_sub(self.utc.as_nanos());
        let behind = self.utc.as_nanos().saturating_sub(utc.as_nanos());
        self.time.saturating_add(Duration::from_nanos(ahead)).saturating_sub(Duration::from_nanos(behind))
    }

    /// The wall clock's time then.
    pub(super) fn utc_at(self, time: Duration) -> Utc {
        // Durations have less than 2⁹⁴ nanoseconds.
        let nanos = i128::from(self.utc.as_nanos()) + time.as_nanos() as i128 - self.time.as_nanos() as i128;
        Utc::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
    }
}

/// Where a run begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunCut {
    /// What was asked for, of the first run.
    pub(super) from: Option<Utc>,
    pub(super) anchor: Anchor,
}

/// What is cut out of the segments of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowCut<'a> {
    /// When they begin, and how long they last, by the epoch's time.
    pub(super) begins: Duration,
    pub(super) lasts: Duration,
    /// Where the wanted time ends in them, by the epoch's time.
    pub(super) end: Option<Duration>,
    /// Renditions of which a segment should be there and is not.
    pub(super) lacking: &'a [RenditionName],
}

/// A run that is being written: its tracks, and by how much its times are moved.
#[derive(Debug)]
pub(super) struct CurrentRun {
    cut: RunCut,
    readers: BTreeMap<RenditionName, Reader>,
    tracks: BTreeMap<RenditionName, ReadTrack>,
    /// Where it begins in the file.
    base: Duration,
    /// The time of the epoch that is there; known with the first key frame, or with sound where there is none.
    zero: Option<Duration>,
    /// It begins with any picture. Where that is no key frame, the key frame before it, in the epoch's time.
    is_exact: bool,
    lead: Option<Duration>,
    /// Pictures are decoded from there on, in the epoch's time; `None` until one has come that decoding can begin with.
    decodable_from: Option<Duration>,
    /// From when to when pictures were left out since none before was there that they need, in the epoch's time.
    undecodable: Option<(Duration, Duration)>,
}

/// Samples of one chunk of a segment.
struct CutChunk {
    rendition: RenditionName,
    timescale: u32,
    samples: Vec<ReadSample>,
    /// Its first sample is the first one of a segment that decoding can begin with.
    is_entry: bool,
}

/// A sample with its times in the file.
#[derive(Clone, Debug)]
pub(super) struct CutSample {
    pub(super) rendition: RenditionName,
    pub(super) sample: ReadSample,
    /// When it is decoded, in ticks of its track, in the file.
    pub(super) decode_time: u64,
    pub(super) timescale: u32,
    /// Decoding can begin with it: a key frame or a recovery point.
    pub(super) is_entry: bool,
}

impl CutSample {
    /// When it is decoded in the file.
    pub(super) fn decoded_at(&self) -> Duration {
        super::duration_of(self.decode_time, self.timescale)
    }

    /// When it is shown no longer, in the file.
    pub(super) fn shown_until(&self) -> Duration {
        let shown = i128::from(self.decode_time).saturating_add(self.sample.composition_offset.into());
        let ends = shown.saturating_add(self.sample.duration.into()).max(0);
        super::duration_of(u64::try_from(ends).unwrap_or(u64::MAX), self.timescale)
    }
}

impl CurrentRun {
    /// A run with these headers that begins in the file at `base`.
    pub(super) fn new(
        cut: RunCut,
        headers: &[(&PlannedObject, &Bytes)],
        base: Duration,
    ) -> Result<CurrentRun, ExportError> {
        let (readers, tracks) = Default::default();
        let (zero, decodable_from, undecodable) = (None, None, None);
        let (is_exact, lead) = (false, None);
        let mut run =
            CurrentRun { cut, readers, tracks, base, zero, is_exact, lead, decodable_from, undecodable };
        for (planned, bytes) in headers {
            let mut reader = Reader::new();
            let unread = |reason| ExportError::Object { object: planned.object.clone(), reason };
            reader.push(bytes).map_err(unread)?;
            while let Some(event) = reader.poll() {
                if let Event::Init(tracks) = event
                    && let Some(track) = tracks.into_iter().next()
                {
                    run.tracks.insert(planned.rendition, track);
                }
            }
            run.readers.insert(planned.rendition, reader);
        }
        Ok(run)
    }

    /// Has it begin with any picture, where a time was asked for.
    pub(super) fn begin_exactly(&mut self) {
        self.is_exact = self.cut.from.is_some();
    }

    /// Whether it begins within a group of pictures.
    pub(super) const fn begins_in_group(&self) -> bool {
        self.lead.is_some()
    }

    /// What a rendition is in it.
    pub(super) fn track(&self, rendition: RenditionName) -> Option<&ReadTrack> {
        self.tracks.get(&rendition)
    }

    /// Where the epoch's time `time` lies in the file; `None` before anything does.
    pub(super) fn in_file(&self, time: Duration) -> Option<Duration> {
        Some(self.base.saturating_add(time).saturating_sub(self.zero?))
    }

    /// When the run's first picture or sound was captured.
    pub(super) fn begun(&self) -> Option<Utc> {
        self.zero.map(|zero| self.cut.anchor.utc_at(zero))
    }

    /// When what lies there in the file was captured.
    pub(super) fn captured_at(&self, in_file: Duration) -> Option<Utc> {
        let time = self.zero?.saturating_add(in_file).saturating_sub(self.base);
        Some(self.cut.anchor.utc_at(time))
    }

    /// Whether all of it before is a first run: sound of before its begin is kept for decoders.
    const fn is_first(&self) -> bool {
        self.cut.from.is_some() || self.base.as_nanos() == BEGIN.as_nanos()
    }

    /// From when to when pictures were left out since the last call: the one that decoding could begin with was not there.
    pub(super) fn take_undecodable(&mut self) -> Option<(Utc, Utc)> {
        let (from, to) = self.undecodable.take()?;
        Some((self.cut.anchor.utc_at(from), self.cut.anchor.utc_at(to)))
    }

    /// The samples of a row's segments, by their times in the file, in chunks that follow each other in the order of decoding. What
    /// lies before the begin or behind the end is left out, and pictures which the one before them is missing of.
    pub(super) fn cut(
        &mut self,
        segments: &[(&PlannedObject, &Bytes)],
        row: RowCut<'_>,
    ) -> Result<Vec<Vec<CutSample>>, ExportError> {
        if row.lacking.contains(&RenditionName::Video) {
            self.decodable_from = None;
        }
        let chunks = self.read(segments, row)?;
        if self.zero.is_none() {
            self.zero = self.find_zero(&chunks, row);
            self.begin_in_group()?;
        }
        let Some(zero) = self.zero else {
            for chunk in chunks.iter().filter(|chunk| chunk.rendition.is_video()) {
                chunk.samples.iter().for_each(|sample| self.leave_out(sample, chunk.timescale));
            }
            return Ok(Vec::new());
        };
        let mut found: Vec<Vec<CutSample>> = Vec::new();
        for CutChunk { rendition, timescale, samples, is_entry } in chunks {
            let mut kept = Vec::new();
            for (sample, at) in samples.into_iter().zip(0usize..) {
                let decoded = super::duration_of(sample.decode_time, timescale);
                if row.end.is_some_and(|end| decoded >= end) {
                    continue;
                }
                let is_entry = sample.is_sync() || is_entry && at == 0;
                let is_wanted = if rendition.is_video() {
                    self.takes_picture(&sample, timescale, is_entry, zero)
                } else {
                    !self.is_early(timescale, &sample, zero)
                };
                if let Some(decode_time) = self.moved(sample.decode_time, timescale).filter(|_| is_wanted) {
                    kept.push(CutSample { rendition, sample, decode_time, timescale, is_entry });
                }
            }
            if !kept.is_empty() {
                found.push(kept);
            }
        }
        found.sort_by_key(|chunk| chunk.first().map(CutSample::decoded_at));
        Ok(found)
    }

    /// The chunks of a row's segments.
    fn read(
        &self,
        segments: &[(&PlannedObject, &Bytes)],
        row: RowCut<'_>,
    ) -> Result<Vec<CutChunk>, ExportError> {
        let near = row.begins.saturating_sub(ASTRAY_MAX)
            ..=row.begins.saturating_add(row.lasts).saturating_add(ASTRAY_MAX);
        let mut chunks: Vec<CutChunk> = Vec::new();
        for (planned, bytes) in segments {
            let Some(known) = self.readers.get(&planned.rendition) else { continue };
            let Some(track) = self.tracks.get(&planned.rendition) else { continue };
            let (rendition, timescale) = (planned.rendition, track.timescale);
            let mut reader = known.of_segment();
            let unread = |reason| ExportError::Object { object: planned.object.clone(), reason };
            reader.push(bytes).map_err(unread)?;
            let mut is_entry = planned.is_entry;
            while let Some(event) = reader.poll() {
                let Event::Chunk(chunk) = event else { continue };
                let runs = chunk.runs.into_iter().filter(|run| run.track_id == track.id);
                let samples: Vec<_> = runs.flat_map(|run| run.samples).collect();
                let mut times = samples.iter().map(|sample| presented(sample, timescale));
                if !times.all(|time| near.contains(&time)) {
                    return Err(ExportError::Astray { object: planned.object.clone() });
                }
                if !samples.is_empty() {
                    chunks.push(CutChunk { rendition, timescale, samples, is_entry });
                    is_entry = false;
                }
            }
        }
        Ok(chunks)
    }

    /// The epoch's time at which the run begins in the file: its last key frame before what was asked for, or its first one; where it
    /// has no pictures, or those of its first row are missing, the time itself. `None` where this row has no place to begin at.
    fn find_zero(&self, chunks: &[CutChunk], row: RowCut<'_>) -> Option<Duration> {
        let wanted = self.cut.from.map(|from| self.cut.anchor.time_at(from));
        let pictures = chunks.iter().filter(|chunk| chunk.rendition.is_video());
        let keys = pictures.clone().flat_map(|chunk| {
            let keys = chunk.samples.iter().filter(|sample| sample.is_sync());
            keys.map(|sample| presented(sample, chunk.timescale))
        });
        let mut keys: Vec<Duration> = keys.collect();
        if keys.is_empty() {
            // Intra refresh has no key frames: a segment that begins with a recovery point is decoded from there on.
            let entries = pictures.filter(|chunk| chunk.is_entry);
            keys.extend(entries.filter_map(|chunk| Some(presented(chunk.samples.first()?, chunk.timescale))));
        }
        // Times by the clock are rounded to the microsecond.
        let rounded = wanted.map(|wanted| wanted.saturating_add(ROUNDED));
        let before = keys.iter().filter(|key| rounded.is_some_and(|wanted| **key <= wanted)).max();
        if let Some(key) = before {
            return Some(*key);
        }
        let sounds = chunks.iter().filter(|chunk| !chunk.rendition.is_video());
        let first = sounds.filter_map(|chunk| Some(presented(chunk.samples.first()?, chunk.timescale))).min();
        let sound = first.map(|first| wanted.map_or(first, |wanted| wanted.max(first)));
        match (keys.iter().min().copied(), sound) {
            // Where pictures in front of the key frame are left out, the sound of their time is not.
            (Some(key), Some(sound)) if begins_undecodable(chunks) => Some(key.min(sound)),
            (Some(key), _) => Some(key),
            // Sound alone. What is asked for may come later, and a key frame with it.
            (None, sound) => sound.filter(|begins| *begins < row.begins.saturating_add(row.lasts)),
        }
    }

    /// Moves the begin from the key frame to the time that was asked for, where that is what is wanted and they differ.
    fn begin_in_group(&mut self) -> Result<(), ExportError> {
        let wanted = self.cut.from.filter(|_| self.is_exact).map(|from| self.cut.anchor.time_at(from));
        let Some((key, wanted)) = self.zero.zip(wanted) else { return Ok(()) };
        if wanted <= key.saturating_add(ROUNDED) {
            return Ok(());
        }
        if wanted.saturating_sub(key) > LEAD_MAX {
            return Err(ExportError::Exact(Exactness::LongGroup));
        }
        (self.zero, self.lead) = (Some(wanted), Some(key));
        Ok(())
    }

    /// Whether a picture is in the file: from the first one on that decoding can begin with, and what is shown behind that.
    fn takes_picture(&mut self, sample: &ReadSample, timescale: u32, is_entry: bool, zero: Duration) -> bool {
        let time = presented(sample, timescale);
        if self.decodable_from.is_none() && is_entry && time >= self.lead.unwrap_or(zero) {
            self.decodable_from = Some(time);
        }
        if self.decodable_from.is_none() {
            self.leave_out(sample, timescale);
        }
        self.decodable_from.is_some_and(|from| time >= from)
    }

    /// Notes a picture that is wanted, and cannot be decoded.
    fn leave_out(&mut self, sample: &ReadSample, timescale: u32) {
        let time = presented(sample, timescale);
        if self.cut.from.is_some_and(|from| time < self.cut.anchor.time_at(from)) {
            return;
        }
        let ends = time.saturating_add(super::duration_of(sample.duration.into(), timescale));
        let (from, to) = self.undecodable.unwrap_or((time, ends));
        self.undecodable = Some((from.min(time), to.max(ends)));
    }

    /// Whether sound lies before the run's begin. A frame more is kept in the first run: decoders need it to begin with.
    fn is_early(&self, timescale: u32, sample: &ReadSample, zero: Duration) -> bool {
        let time = presented(sample, timescale);
        let lasts = super::duration_of(sample.duration.into(), timescale);
        if self.is_first() {
            time.saturating_add(lasts).saturating_add(lasts) <= zero
        } else {
            time.saturating_add(lasts / 2) < zero
        }
    }

    /// A time of the epoch, in ticks, in the file's.
    fn moved(&self, ticks: u64, timescale: u32) -> Option<u64> {
        let of = |time: Duration| i128::from(crate::packager::ticks_of(time, timescale));
        let moved = i128::from(ticks) + of(self.base) - of(self.zero?);
        u64::try_from(moved).ok()
    }
}

/// Whether pictures begin with one that decoding cannot begin with.
fn begins_undecodable(chunks: &[CutChunk]) -> bool {
    let first = chunks.iter().find(|chunk| chunk.rendition.is_video());
    first.is_some_and(|chunk| !chunk.is_entry && chunk.samples.first().is_some_and(|first| !first.is_sync()))
}

/// When a sample is presented, in the time of its epoch.
fn presented(sample: &ReadSample, timescale: u32) -> Duration {
    let ticks = i128::from(sample.decode_time) + i128::from(sample.composition_offset);
    super::duration_of(u64::try_from(ticks.max(0)).unwrap_or(u64::MAX), timescale)
}
