//! One elementary stream: its units, their sizes and times, and what its bitstream says.

use super::age::{Ages, WallClock};
use super::data::DataTrack;
use super::headers::Headers;
use super::report::{AudioReport, StreamReport, VideoReport};
use super::stages::Waiting;
use crate::samples::Samples;
use glassline_media::access_unit::{AccessUnit, Codec};
use glassline_media::bitstream::h264::{self, Join, NalType, Sei, SliceType};
use glassline_media::bitstream::{adts, opus, s302m};
use glassline_media::container::ts::{DataKind, DataUnit, ElementaryStream};
use glassline_media::time::{Ticks, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// As many pictures as H.264 lets come before one that is shown earlier.
const REORDER_MAX: usize = 16;
/// An interval of this many usual ones means that units are missing.
const GAP: f64 = 1.5;
/// A stamp this far behind the latest one is no reordering, but another run of the stream.
const BACKWARD_JUMP_TICKS: i64 = 90_000;
/// The same, ahead: nothing pauses that long within a run.
const FORWARD_JUMP_TICKS: i64 = 10 * 90_000;
const TICKS_PER_MS: f64 = 90.0;

/// Time stamps in the order of presentation, and the intervals between them.
#[derive(Clone, Debug, Default)]
struct Cadence {
    waiting: BinaryHeap<Reverse<i64>>,
    last: Option<i64>,
    /// The greatest stamp of this run.
    latest: Option<i64>,
    jumps: u64,
    intervals: Samples,
}

impl Cadence {
    /// Takes the next stamp; whether it begins another run, to which intervals are not counted.
    fn push(&mut self, pts: Ticks, depth: usize) -> bool {
        let jumped = self.latest.is_some_and(|latest| {
            pts.0 < latest - BACKWARD_JUMP_TICKS || pts.0 > latest + FORWARD_JUMP_TICKS
        });
        if jumped {
            while !self.waiting.is_empty() {
                self.pop();
            }
            (self.last, self.latest) = (None, None);
            self.jumps += 1;
        }
        self.latest = self.latest.max(Some(pts.0));
        self.waiting.push(Reverse(pts.0));
        if self.waiting.len() > depth {
            self.pop();
        }
        jumped
    }

    fn pop(&mut self) {
        let Some(Reverse(pts)) = self.waiting.pop() else { return };
        if let Some(last) = self.last.replace(pts) {
            self.intervals.push((pts - last) as f64);
        }
    }

    /// All intervals, those that wait included.
    fn whole(&self) -> Samples {
        let mut whole = self.clone();
        while !whole.waiting.is_empty() {
            whole.pop();
        }
        whole.intervals
    }
}

#[derive(Clone, Debug, Default)]
struct Pictures {
    headers: Option<Headers>,
    keys: u64,
    recovery_points: u64,
    settling_max: Option<u32>,
    ages: Ages,
    last_key: Option<(u64, Ticks)>,
    key_frames: Samples,
    key_ticks: Samples,
    i: u64,
    p: u64,
    b: u64,
    reordered: bool,
    last_pts: Option<Ticks>,
    reorder_ticks: i64,
    slices_max: u64,
}

impl Pictures {
    fn push(&mut self, unit: &AccessUnit, number: u64, arrival: Time) {
        if unit.random_access {
            if let Some((last, pts)) = self.last_key.replace((number, unit.pts)) {
                self.key_frames.push((number - last) as f64);
                self.key_ticks.push((unit.pts - pts).0 as f64);
            }
            match Some(unit).filter(|unit| unit.codec == Codec::H264).and_then(|unit| h264::join(&unit.data))
            {
                Some(Join::Recovery(point)) => {
                    self.recovery_points += 1;
                    self.settling_max = self.settling_max.max(Some(point.frames));
                }
                _ => self.keys += 1,
            }
        }
        if unit.random_access || self.headers.is_none() {
            self.headers = Headers::of(unit).or(self.headers.take());
        }
        self.reordered |= self.last_pts.is_some_and(|last| unit.pts < last);
        self.last_pts = Some(unit.pts);
        self.reorder_ticks = self.reorder_ticks.max((unit.pts - unit.dts).0);
        if unit.codec == Codec::H264 {
            self.parse_h264(&unit.data, arrival);
        } else if unit.codec == Codec::Av1
            && let Some(captured) = Waiting::of(unit.codec, &unit.data, arrival).captured
        {
            self.ages.push(captured, arrival);
        }
    }

    fn parse_h264(&mut self, data: &[u8], arrival: Time) {
        let mut slices = 0;
        for nal in h264::nals(data) {
            match nal.kind() {
                NalType::Sei => {
                    if let Some(captured) = Sei::parse(nal.payload()).capture_utc() {
                        self.ages.push(captured, arrival);
                    }
                }
                kind if kind.is_slice() => {
                    slices += 1;
                    if slices == 1 {
                        self.count(h264::slice_type(&nal));
                    }
                }
                _ => {}
            }
        }
        self.slices_max = self.slices_max.max(slices);
    }

    fn count(&mut self, kind: Option<SliceType>) {
        match kind {
            Some(SliceType::I | SliceType::Si) => self.i += 1,
            Some(SliceType::B) => self.b += 1,
            Some(_) => self.p += 1,
            None => {}
        }
    }

    fn report(&self, measured_frame_rate_hz: Option<f64>, clock: Option<&WallClock>) -> VideoReport {
        let headers = self.headers.as_ref();
        VideoReport {
            width_px: headers.map(|headers| headers.width_px),
            height_px: headers.map(|headers| headers.height_px),
            interlaced: headers.and_then(|headers| headers.interlaced),
            profile: headers.map(|headers| headers.profile.clone()),
            level: headers.map(|headers| headers.level.clone()),
            chroma: headers.map(|headers| headers.chroma),
            bit_depth: headers.map(|headers| headers.bit_depth),
            range: headers.map(|headers| headers.range.name()),
            codec_string: headers.map(|headers| headers.codec_string.clone()),
            declared_frame_rate_hz: headers.and_then(|headers| headers.frame_rate_hz),
            measured_frame_rate_hz,
            key_frames: self.keys,
            recovery_points: self.recovery_points,
            settling_frames_max: self.settling_max,
            key_frame_interval_frames: self.key_frames.distribution(|frames| frames),
            key_frame_interval_s: self.key_ticks.distribution(|ticks| ticks / f64::from(Ticks::RATE)),
            i_pictures: self.i,
            p_pictures: self.p,
            b_pictures: self.b,
            reordered: self.reordered || self.b > 0,
            reorder_delay_ms: self.reorder_ticks as f64 / TICKS_PER_MS,
            slices_per_picture_max: self.slices_max,
            capture_times: self.ages.count(),
            age: clock.and_then(|clock| self.ages.report(clock)),
        }
    }
}

/// Follows one elementary stream.
#[derive(Clone, Debug)]
pub(super) struct StreamTrack {
    pub(super) announced: ElementaryStream,
    units: u64,
    unit_bytes: Samples,
    cadence: Cadence,
    /// PTS less clock when the unit was complete, 90 kHz ticks.
    lead: Samples,
    pictures: Pictures,
    audio: AudioReport,
    data: DataTrack,
    pub(super) first_pts: Option<Ticks>,
    pub(super) last_pts: Option<Ticks>,
}

impl StreamTrack {
    pub(super) fn new(announced: ElementaryStream) -> StreamTrack {
        StreamTrack {
            announced,
            units: 0,
            unit_bytes: Samples::default(),
            cadence: Cadence::default(),
            lead: Samples::default(),
            pictures: Pictures::default(),
            audio: AudioReport { rate_hz: None, channels: None, profile: None },
            data: DataTrack::default(),
            first_pts: None,
            last_pts: None,
        }
    }

    /// Takes a unit that was complete at `arrival`; `lead` is its PTS less the clock then.
    pub(super) fn push(&mut self, unit: &AccessUnit, lead: Option<Ticks>, arrival: Time) {
        if unit.codec.is_video() {
            if self.cadence.push(unit.pts, REORDER_MAX) {
                (self.pictures.last_key, self.pictures.last_pts) = (None, None);
            }
            self.pictures.push(unit, self.units, arrival);
        } else {
            self.cadence.push(unit.pts, 0);
            self.learn_audio(unit);
        }
        self.units += 1;
        self.unit_bytes.push(unit.data.len() as f64);
        if let Some(lead) = lead {
            self.lead.push(lead.0 as f64);
        }
        // The first in time, not in order: with B-frames they differ.
        self.first_pts = Some(self.first_pts.map_or(unit.pts, |first| first.min(unit.pts)));
        self.last_pts = Some(self.last_pts.map_or(unit.pts, |last| last.max(unit.pts)));
    }

    /// Takes a unit of data that began with this packet.
    pub(super) fn push_data(&mut self, unit: &DataUnit, packet: u64) {
        self.units += 1;
        self.unit_bytes.push(unit.data.len() as f64);
        self.data.push(unit, packet);
    }

    fn learn_audio(&mut self, unit: &AccessUnit) {
        match unit.codec {
            Codec::Aac => {
                let Some(header) = adts::Header::parse(&unit.data) else { return };
                let profile = ["Main", "LC", "SSR", "LTP"].get(usize::from(header.object_type.max(1)) - 1);
                // Configuration 7 is 7.1.
                let channels = if header.channels == 7 { 8 } else { header.channels };
                let channels = (channels > 0).then_some(channels);
                self.audio =
                    AudioReport { rate_hz: Some(header.rate_hz), channels, profile: profile.copied() };
            }
            Codec::Opus => {
                let channels = self.announced.opus_channels;
                self.audio = AudioReport { rate_hz: Some(opus::RATE_HZ), channels, profile: None };
            }
            Codec::S302m => {
                let Ok(header) = s302m::Header::parse(&unit.data) else { return };
                self.audio = AudioReport {
                    rate_hz: Some(s302m::RATE_HZ),
                    channels: Some(header.channels),
                    profile: Some(header.depth.name()),
                };
            }
            _ => {}
        }
    }

    /// Whether this is the stream of data of this kind on `pid`.
    pub(super) fn is_data(&self, pid: u16, kind: DataKind) -> bool {
        self.announced.pid == pid && self.announced.data_kind() == Some(kind)
    }

    /// Pictures that say when they were captured.
    pub(super) fn capture_times(&self) -> u64 {
        self.pictures.ages.count()
    }

    /// The report of a stream that has lasted so many seconds; ages go by `clock`.
    pub(super) fn report(
        &self,
        bitrate_bps: Option<f64>,
        seconds: Option<f64>,
        clock: Option<&WallClock>,
    ) -> StreamReport {
        let intervals = self.cadence.whole();
        let usual = intervals.median();
        let is_gap = |interval: f64| usual.is_some_and(|usual| interval > GAP * usual.max(1.0));
        // Of a long stream, some intervals only stand for others.
        let weight = intervals.count() as f64 / intervals.kept().count().max(1) as f64;
        let gaps = intervals.kept().filter(|interval| is_gap(*interval)).count() as f64 * weight;
        let gapless: Samples = intervals.kept().filter(|interval| !is_gap(*interval)).collect();
        let mean = gapless.distribution(|ticks| ticks).map(|all| all.mean);
        // Stamps are rounded to ticks: what deviates by less than one is steady.
        let deviations: Samples =
            gapless.kept().filter_map(|ticks| Some(((ticks - mean?).abs() - 1.0).max(0.0))).collect();
        let frame_rate = mean.filter(|mean| *mean > 0.0).map(|mean| f64::from(Ticks::RATE) / mean);
        let (is_video, is_audio) = (self.announced.is_video(), self.announced.is_audio());
        let to_ms = |ticks: f64| ticks / TICKS_PER_MS;
        StreamReport {
            pid: self.announced.pid,
            stream_type: self.announced.stream_type,
            kind: if is_video {
                "video"
            } else if is_audio {
                "audio"
            } else {
                "data"
            },
            codec: self.announced.format_name(),
            language: self.announced.language.map(|code| String::from_utf8_lossy(&code).into_owned()),
            bitrate_bps,
            units: self.units,
            unit_bytes: self.unit_bytes.distribution(|bytes| bytes),
            pts_interval_ms: intervals.distribution(to_ms),
            pts_jitter_ms: deviations.distribution(to_ms),
            pts_gaps: gaps.round() as u64,
            pts_jumps: self.cadence.jumps,
            pts_minus_pcr_ms: self.lead.distribution(to_ms),
            video: is_video.then(|| self.pictures.report(frame_rate, clock)),
            audio: is_audio.then(|| self.audio.clone()),
            data: self.data.report(self.units, seconds),
        }
    }
}
