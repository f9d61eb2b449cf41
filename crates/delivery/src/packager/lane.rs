//! One rendition in one epoch: samples become chunks, chunks parts, parts segments.
//!
//! ```text
//! mark ──────── the part's time ────────► part_start + part_ticks at most
//! │ part 0 │ part 1 │ part 2 (open: samples … end)
//! ```
//! The parts of a segment share its time without gap: each begins where the one before it was said to end, even where
//! the samples' stamps are a tick off.

use super::clock::{Date, Said};
use super::metadata::Held;
use super::output::{Output, World};
use super::presentation::{Kind, Segment, TrackInfo, duration_of, ticks_of};
use super::start::FirstTrack;
use super::{Event, RenditionName, Settings};
use bytes::Bytes;
use glassline_media::container::cmaf::{
    Brand, Captured, Error, EventMessage, LiveTimeline, Pictures, Run, Sample, SegmentKind, Timed, Track,
    write_chunk, write_event, write_init, write_segment_type,
};
use glassline_media::container::ts::DataUnit;
use glassline_media::time::FrameRate;
use glassline_media::{AccessUnit, Ticks};
use std::time::Duration;

/// Frames of sound go together in a chunk, up to this long: each chunk costs about 100 bytes.
const SOUND_CHUNK: Duration = Duration::from_millis(50);
/// A part ends, too, when it has this many bytes.
const PART_MAX_BYTES: u64 = 8 << 20;
/// The only track of its file.
const TRACK_ID: u32 = 1;

/// How a segment begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening {
    /// When, in ticks of decoding.
    pub(super) decode_time: u64,
    /// From decoding to presentation of its first sample, in ticks.
    pub(super) offset: u64,
    pub(super) date: Date,
    pub(super) independent: bool,
}

/// A rendition in an epoch.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) name: RenditionName,
    pub(super) timeline: LiveTimeline,
    pub(super) info: TrackInfo,
    /// The number of the open segment, or of the next one.
    pub(super) number: u64,
    is_open: bool,
    /// Nothing of the open segment has been given out: its type goes in front.
    is_untyped: bool,
    /// Where the last sample ends.
    end: u64,
    /// Where the open segment begins.
    segment_start: u64,
    /// Where the last part was said to end.
    mark: u64,
    /// Where the open part begins.
    part_start: Option<u64>,
    part_bytes: u64,
    run: Collected,
    /// Events that wait for a chunk.
    held: Held,
    sequence: u32,
}

/// Samples that become the next chunk.
#[derive(Debug, Default)]
struct Collected {
    decode_time: u64,
    samples: Vec<Sample>,
    data: Vec<u8>,
    captured: Option<Said>,
    key: bool,
}

impl Lane {
    pub(super) fn new(
        first: &FirstTrack,
        zero: Ticks,
        epoch: u32,
        number: u64,
        language: Option<[u8; 3]>,
        settings: Settings,
    ) -> Lane {
        let track = Track { id: TRACK_ID, media: first.media.clone() };
        let info = track_info(first, epoch, language, settings);
        Lane {
            name: first.name,
            timeline: LiveTimeline::new(track, zero),
            info,
            number,
            is_open: false,
            is_untyped: false,
            end: 0,
            segment_start: 0,
            mark: 0,
            part_start: None,
            part_bytes: 0,
            run: Collected::default(),
            held: Held::default(),
            sequence: 0,
        }
    }

    /// Says that the rendition begins, with segment `number`, and gives its CMAF header.
    pub(super) fn announce(&self, number: u64, world: &mut World<'_>) {
        world.presentation.begin_track(self.name, self.info.clone(), number, world.events);
        let mut bytes = Vec::new();
        write_init(Brand::Cmaf, std::slice::from_ref(self.timeline.track()), &mut bytes);
        let (rendition, number) = (self.name, self.info.epoch);
        world.events.push_back(Event::Init { rendition, number, bytes: Bytes::from(bytes) });
    }

    /// The unit as a sample of the track, to be given to [`Lane::add`].
    pub(super) fn sample(&mut self, unit: &AccessUnit) -> Result<Timed, Error> {
        self.timeline.push(unit)
    }

    /// Takes an event for the chunk that its time is in, or, of a cue, for the next one: see [`Held::push`].
    pub(super) fn hold(&mut self, event: EventMessage, cue: Option<(u16, DataUnit)>) -> u64 {
        self.held.push(event, cue)
    }

    /// Takes out the events that no chunk follows for: see [`Held::take_left`].
    pub(super) fn take_held(&mut self) -> (Vec<(u16, DataUnit)>, u64) {
        self.held.take_left()
    }

    /// Whether a segment is open.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// How long the open segment has lasted when a sample at `decode_time` comes.
    pub(super) fn elapsed(&self, decode_time: u64) -> Duration {
        duration_of(decode_time.saturating_sub(self.segment_start), self.info.timescale)
    }

    /// How long half a sample lasts: what stamps may be off.
    pub(super) fn half_sample(&self) -> Duration {
        duration_of(u64::from(self.info.sample_ticks), self.info.timescale) / 2
    }

    /// Where the last sample ends, in ticks of 90 kHz since the epoch's zero.
    pub(super) fn end_ticks(&self) -> i64 {
        ticks_of(duration_of(self.end, self.info.timescale), Ticks::RATE) as i64
    }

    /// A time since the epoch's zero in ticks of the track.
    pub(super) fn scaled(&self, ticks: Ticks) -> u64 {
        let ticks = u128::from(ticks.0.max(0) as u64) * u128::from(self.info.timescale);
        u64::try_from(ticks / u128::from(Ticks::RATE)).unwrap_or(u64::MAX)
    }

    pub(super) fn begin_segment(&mut self, opening: Opening, out: &mut Output<'_>) {
        let segment = self.segment(opening);
        out.rendition.begin_segment(segment, out.events);
        (self.is_open, self.is_untyped) = (true, true);
        (self.segment_start, self.mark, self.end) =
            (opening.decode_time, opening.decode_time, opening.decode_time);
    }

    fn segment(&self, opening: Opening) -> Segment {
        Segment {
            number: self.number,
            epoch: self.info.epoch,
            timescale: self.info.timescale,
            start: opening.decode_time.saturating_add(opening.offset),
            duration: 0,
            program_date_time: opening.date.utc,
            captured: opening.date.is_capture,
            independent: opening.independent,
            gap: false,
            complete: false,
            source: None,
            parts: Vec::new(),
            open_part: None,
            size_bytes: 0,
            key_frames: Vec::new(),
            first_key_frame: 0,
        }
    }

    /// Adds a sample to the open segment, and gives out what it completes.
    pub(super) fn add(
        &mut self,
        timed: &Timed,
        independent: bool,
        captured: Option<Said>,
        out: &mut Output<'_>,
    ) {
        let (from, to) = (timed.decode_time, timed.decode_time.saturating_add(timed.sample.duration.into()));
        if from != self.end {
            self.flush(out);
        }
        if self.part_start.is_some_and(|start| self.exceeds(start, to)) {
            self.end_part(from, out);
        }
        let start = *self.part_start.get_or_insert_with(|| {
            // Behind a hole in the stream a part begins where its first sample does.
            if to.saturating_sub(self.mark) > u64::from(self.info.part_ticks) { from } else { self.mark }
        });
        if self.part_bytes == 0 && self.run.samples.is_empty() {
            out.rendition.begin_part(independent, out.events);
        }
        self.run.push(timed, captured);
        self.end = to;
        out.rendition.lasts(to.saturating_sub(self.segment_start));
        let next = to.saturating_add(self.info.sample_ticks.into());
        let is_full = self.exceeds(start, next);
        let chunk = next.saturating_sub(self.run.decode_time);
        if is_full || self.name.is_video() || chunk > u64::from(self.info.chunk_ticks) {
            self.flush(out);
        }
        if is_full || self.part_bytes >= PART_MAX_BYTES {
            self.end_part(to, out);
        }
    }

    /// Whether a part from `start` on that ends at `end` is longer than a part may be, by more than stamps are off.
    fn exceeds(&self, start: u64, end: u64) -> bool {
        let most = u64::from(self.info.part_ticks) + u64::from(self.info.sample_ticks / 2);
        end.saturating_sub(start) > most
    }

    fn flush(&mut self, out: &mut Output<'_>) {
        if self.run.samples.is_empty() {
            return;
        }
        self.sequence = self.sequence.wrapping_add(1);
        if self.name.is_video()
            && let Some(newest) = self.run.samples.last_mut()
        {
            newest.duration = self.timeline.told(newest);
        }
        let run = &self.run;
        let first = &run.samples[0];
        let presented = run.decode_time.saturating_add_signed(first.composition_offset.into());
        let said = run.captured.as_ref();
        let captured = said.map(|said| Captured { track_id: TRACK_ID, utc: said.utc, media_time: presented });
        let mut bytes = Vec::with_capacity(run.data.len() + 320 + 16 * run.samples.len());
        if std::mem::take(&mut self.is_untyped) {
            write_segment_type(SegmentKind::Segment, &mut bytes);
        }
        if let Some(message) = said.and_then(|said| said.message.clone()) {
            let timescale = self.info.timescale;
            write_event(&EventMessage::capture(timescale, presented, self.sequence, message), &mut bytes);
        }
        let end = run.samples.iter().fold((run.decode_time, 0), |(start, end), sample| {
            let next = start.saturating_add(sample.duration.into());
            (next, next.saturating_add_signed(sample.composition_offset.into()).max(end))
        });
        self.held.take(end.1).iter().for_each(|event| write_event(event, &mut bytes));
        let whole =
            Run { track_id: TRACK_ID, decode_time: run.decode_time, samples: &run.samples, data: &run.data };
        write_chunk(self.sequence, captured, &[whole], &mut bytes);
        let key_frame = run.key.then(|| run.decode_time.saturating_sub(self.segment_start));
        self.part_bytes += bytes.len() as u64;
        out.rendition.add_chunk(Bytes::from(bytes), key_frame.filter(|_| self.name.is_video()), out.events);
        self.run.clear();
    }

    fn end_part(&mut self, at: u64, out: &mut Output<'_>) {
        self.flush(out);
        let Some(start) = self.part_start.take() else { return };
        let duration = at.saturating_sub(start).clamp(1, self.info.part_ticks.into());
        self.mark = start.saturating_add(duration);
        self.part_bytes = 0;
        out.rendition.end_part(duration, out.events);
    }

    /// Whether a part is open.
    pub(super) fn has_open_part(&self) -> bool {
        self.part_start.is_some()
    }

    /// Ends the open part where its last sample does: nothing comes that would.
    pub(super) fn end_open_part(&mut self, out: &mut Output<'_>) {
        if self.has_open_part() {
            self.end_part(self.end.max(self.mark.saturating_add(1)), out);
        }
    }

    /// Ends the open segment, if there is one. It lasts until `at`, where the next one begins, or as long as its
    /// samples do.
    pub(super) fn end_segment(&mut self, at: Option<u64>, out: &mut Output<'_>) {
        if !self.is_open {
            return;
        }
        let end = at.unwrap_or(self.end).max(self.segment_start.saturating_add(1));
        self.end_part(self.end.min(end).max(self.mark.saturating_add(1)), out);
        out.rendition.lasts(end.saturating_sub(self.segment_start));
        out.rendition.end_segment(out.events);
        self.end = end;
        self.is_open = false;
        self.number += 1;
    }

    /// Where a segment that is not open would begin if it followed what is there.
    pub(super) fn reached(&self) -> u64 {
        self.end
    }

    /// Where the segment begins that has its first sample at `decode_time`: where the one before it ended, if there was one.
    pub(super) fn begins_at(&self, decode_time: u64) -> u64 {
        if self.end == 0 { decode_time } else { self.end.min(decode_time) }
    }

    /// Adds a segment without samples, for the time up to `at` in which nothing came.
    pub(super) fn add_gap(&mut self, at: u64, date: Date, out: &mut Output<'_>) {
        let opening = Opening { decode_time: self.end, offset: 0, date, independent: true };
        let end = at.max(self.end.saturating_add(1));
        out.rendition.add_gap(Segment { duration: end - self.end, ..self.segment(opening) });
        self.end = end;
        self.number += 1;
    }
}

impl Collected {
    fn push(&mut self, timed: &Timed, captured: Option<Said>) {
        if self.samples.is_empty() {
            self.decode_time = timed.decode_time;
            self.captured = captured;
            self.key = timed.sample.is_sync;
        }
        self.samples.push(timed.sample);
        self.data.extend_from_slice(&timed.data);
    }

    fn clear(&mut self) {
        self.samples.clear();
        self.data.clear();
        self.captured = None;
    }
}

fn track_info(first: &FirstTrack, epoch: u32, language: Option<[u8; 3]>, settings: Settings) -> TrackInfo {
    let timescale = first.media.timescale();
    let sample = u64::from(first.sample_ticks.max(1));
    let ticks = |time: Duration| ticks_of(time, timescale);
    let whole = |samples: u64| u32::try_from(samples.max(1).saturating_mul(sample)).unwrap_or(u32::MAX);
    let (kind, chunk) = match first.media.pictures() {
        Some(pictures) => {
            let Pictures { width_px, height_px, sample_aspect, colour, .. } = pictures;
            let seen = u32::try_from(sample).ok();
            let stated = pictures.frame_rate;
            let frame_rate = stated.and_then(|_| FrameRate::believed(stated, seen));
            let range = pictures.range();
            (Kind::Video { width_px, height_px, frame_rate, sample_aspect, colour, range }, whole(1))
        }
        None => {
            let channels = first.media.channels().unwrap_or(0);
            (Kind::Audio { channels, rate_hz: timescale, language }, whole(ticks(SOUND_CHUNK) / sample))
        }
    };
    TrackInfo {
        epoch,
        codec: first.media.codec_string(),
        timescale,
        kind,
        sample_ticks: sample as u32,
        chunk_ticks: chunk,
        // The nearest whole number of samples: parts of a regular stream are then all as long as a part may be.
        part_ticks: whole((ticks(settings.part) + sample / 2) / sample),
    }
}
