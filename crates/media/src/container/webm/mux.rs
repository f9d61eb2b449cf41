//! AV1 and Opus into WebM (RFC 9559, and the WebM project's container guidelines): a file that grows, block by block.
//!
//! ```text
//! access units ─► wait for the first key frame and the first sound ─┬─ pictures ─┐
//!                                                                   └─ sound ────┴─ the earlier first ─► blocks
//! EBML │ Segment: room for SeekHead │ Info │ Tracks │ Cluster: time, blocks … │ Cluster: … │ … │ Cues
//! ```
//! * **While it grows** segment and cluster have unknown sizes (RFC 8794 §6.2), so that the file is good up to its last whole block
//!   wherever it is cut off.
//! * **Patches**: the size of a cluster is put in when it ends, and size, duration and the place of `Cues` in front when the file
//!   ends. A file without them, as through a pipe, plays too; players cannot seek in it by the list.
//! * **Times** are milliseconds from the first key frame, in each track later than those before. Of sound they are later by the
//!   pre-skip, which players take off again (`CodecDelay`, RFC 9559 §5.1.4.1.25).
//! * **Blocks** of AV1 hold a temporal unit in the low-overhead format without its delimiter; those that are marked as key frames
//!   begin with a sequence header ("AOM AV1 codec mapping in Matroska/WebM").

pub use crate::container::growing::Patch;

use super::demux::TIMESTAMP;
use super::ebml::{size_later, write_element_head, write_number, write_open, write_unsigned};
use super::write_head::{self, Av1, Opus, Places};
use super::{CLUSTER, KEY_FRAME, SIMPLE_BLOCK};
use crate::access_unit::{AccessUnit, Codec};
use crate::bitstream::{self, av1};
use crate::container::cmaf::{self, Media};
use crate::container::growing::Entries;
use crate::time::Ticks;
use std::collections::VecDeque;

const VIDEO: u8 = 1;
const SOUND: u8 = 2;
/// Of the sound's beginning, which no player plays: the look-ahead of libopus at most (6.5 ms at 48 kHz), in which its decoder starts
/// up.
const PRE_SKIP_SAMPLES: u16 = 312;
/// The same in ticks of 90 kHz.
const PRE_SKIP: Ticks = Ticks(PRE_SKIP_SAMPLES as i64 * 90 / 48);
/// Pictures wait this long for the first sound, which the file's beginning has to describe.
const SOUND_WAIT: i64 = 2 * Ticks::RATE as i64;
/// So many units wait for it at most, whatever their time stamps say.
const WAITING_MAX: usize = 1000;
/// So many units of sound wait for the first picture; of more the earliest are left out.
const EARLY_MAX: usize = 100;
/// Blocks of one track wait for those of the other that are earlier for so long at most, in milliseconds: what waits is lost in a
/// crash.
const HOLD_MAX_MS: i64 = 1000;
/// A cluster lasts so long at most, in milliseconds, and has so many bytes: RFC 9559 recommends both to those that write. The times
/// in it have room for 32.7 s.
const CLUSTER_MAX_MS: i64 = 5000;
const CLUSTER_MAX_BYTES: u64 = 5 << 20;
/// A time that is earlier than the one before it is set behind that; one that is earlier by more than this, in milliseconds, is of
/// another time.
const BACK_MAX_MS: i64 = 10_000;
/// So is one that is later by more than a day.
const AHEAD_MAX_MS: i64 = 86_400_000;
/// How long the only picture of a file lasts, in milliseconds, where nothing tells.
const PICTURE_MS: i64 = 40;

/// Why an access unit does not go into a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// WebM holds it, or not, but it is not written here.
    #[error("{} is not written to WebM; AV1 and Opus are", codec.name())]
    Codec {
        /// The codec.
        codec: Codec,
    },
    /// It does not say what has to be known of it, or is coded otherwise than the file's beginning says.
    #[error(transparent)]
    Unit(#[from] cmaf::Error),
    /// A time stamp far from the one before it.
    #[error("a unit of {} is {apart_ms} ms behind the last one, expected -{BACK_MAX_MS} to {AHEAD_MAX_MS}", codec.name())]
    Time {
        /// The codec.
        codec: Codec,
        /// By how many milliseconds it is later.
        apart_ms: i64,
    },
}

/// Makes a WebM file of pictures (AV1) and, perhaps, sound (Opus).
///
/// Bytes come out in the order of the file. Those that replace earlier ones are [patches](Recorder::poll_patch). Holds the blocks of
/// one track that wait for the other one's, a second's at most.
#[derive(Debug)]
pub struct Recorder {
    wants_sound: bool,
    stage: Stage,
    /// Bytes given out in earlier calls.
    written_bytes: u64,
    patches: VecDeque<Patch>,
}

#[derive(Debug)]
enum Stage {
    /// Units that wait until all tracks are known.
    Waiting(VecDeque<AccessUnit>),
    Recording(Box<Recording>),
    Over,
}

/// Where in the file the first byte of this call's output would lie; what the caller had there before may be more than the file has.
#[derive(Clone, Copy)]
struct Origin(u64);

impl Origin {
    /// Where in the file the end of `out` lies.
    fn end(self, out: &[u8]) -> u64 {
        self.0.wrapping_add(out.len() as u64)
    }
}

#[derive(Debug)]
struct Recording {
    zero: Ticks,
    video: Lane,
    sound: Option<Lane>,
    places: Places,
    cluster: Option<Cluster>,
    /// Key frames: their times in milliseconds, and the positions of their clusters in the segment.
    entries: Entries,
}

/// What one track has that is not written yet.
#[derive(Debug)]
struct Lane {
    number: u8,
    media: Media,
    /// What its times are later by.
    delay: Ticks,
    waiting: VecDeque<Block>,
    /// The time of the last block, in milliseconds.
    last: Option<i64>,
    /// How long the last block lasts, in milliseconds.
    lasts: i64,
}

#[derive(Debug)]
struct Block {
    track: u8,
    /// In milliseconds.
    at: i64,
    is_key: bool,
    data: Vec<u8>,
}

/// The cluster that grows.
#[derive(Debug)]
struct Cluster {
    /// In milliseconds.
    time: i64,
    /// Where its size stands.
    size_at: u64,
    /// Where its payload begins.
    payload_at: u64,
}

impl Recorder {
    /// A file of pictures and, if `with_sound`, of the sound that comes with them.
    pub fn new(with_sound: bool) -> Recorder {
        Recorder {
            wants_sound: with_sound,
            stage: Stage::Waiting(VecDeque::new()),
            written_bytes: 0,
            patches: VecDeque::new(),
        }
    }

    /// Takes a unit, and appends to `out` what can be written. What comes before the first key frame is left out. Times are those of
    /// presentation, and the units of each track come in their order.
    ///
    /// # Errors
    /// Why the unit is of no use. The file stays good, and other units may follow.
    pub fn push(&mut self, unit: &AccessUnit, out: &mut Vec<u8>) -> Result<(), Error> {
        let origin = Origin(self.written_bytes.wrapping_sub(out.len() as u64));
        let pushed = self.take(unit, origin, out);
        self.written_bytes = origin.end(out);
        pushed
    }

    /// Bytes to be put in the place of earlier ones, once what was written so far stands in the file. They may be left out where
    /// that cannot be sought.
    pub fn poll_patch(&mut self) -> Option<Patch> {
        self.patches.pop_front()
    }

    /// Ends the file: what waits, and the list of places to begin at. Patches say how long the file is. Nothing more is taken.
    ///
    /// # Errors
    /// As of [`push`](Recorder::push), of a unit that has waited. The file has ended well all the same.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        let origin = Origin(self.written_bytes.wrapping_sub(out.len() as u64));
        let begun = self.begin(origin, out);
        if let Stage::Recording(recording) = &mut self.stage {
            recording.finish(origin, &mut self.patches, out);
        }
        self.stage = Stage::Over;
        self.written_bytes = origin.end(out);
        begun
    }

    fn take(&mut self, unit: &AccessUnit, origin: Origin, out: &mut Vec<u8>) -> Result<(), Error> {
        match unit.codec {
            Codec::Av1 => {}
            Codec::Opus if self.wants_sound => {}
            codec if codec.is_video() || self.wants_sound => return Err(Error::Codec { codec }),
            _ => return Ok(()),
        }
        let waiting = match &mut self.stage {
            Stage::Recording(recording) => return recording.push(unit, origin, &mut self.patches, out),
            Stage::Waiting(waiting) => waiting,
            Stage::Over => return Ok(()),
        };
        let has_begun = waiting.iter().any(|unit| unit.codec.is_video());
        if unit.codec == Codec::Opus {
            Media::of(unit, false)?;
            // Sound may be ahead of the picture that it belongs to.
            if !has_begun && waiting.len() >= EARLY_MAX {
                waiting.pop_front();
            }
        } else if !has_begun && !begins(unit) {
            return Ok(());
        }
        waiting.push_back(unit.clone());
        let Some(first) = waiting.iter().find(|unit| unit.codec.is_video()) else { return Ok(()) };
        let lacks_sound = self.wants_sound && waiting.iter().all(|unit| unit.codec.is_video());
        let waited = (unit.pts - first.pts).0;
        if lacks_sound && (0..SOUND_WAIT).contains(&waited) && waiting.len() < WAITING_MAX {
            return Ok(());
        }
        self.begin(origin, out)
    }

    /// Writes the beginning and what has waited for it.
    fn begin(&mut self, origin: Origin, out: &mut Vec<u8>) -> Result<(), Error> {
        let Stage::Waiting(waiting) = &mut self.stage else { return Ok(()) };
        let waiting = std::mem::take(waiting);
        let Some(first) = waiting.iter().find(|unit| unit.codec.is_video()) else { return Ok(()) };
        let media = Media::of(first, false)?;
        let Media::Av1 { sequence, parsed, .. } = &media else {
            return Err(Error::Codec { codec: first.codec });
        };
        let sound = waiting.iter().find(|unit| unit.codec == Codec::Opus);
        let sound = sound.map(|unit| Media::of(unit, false)).transpose()?;
        let channels = sound.as_ref().and_then(Media::channels);
        let opus = channels.map(|channels| (SOUND, Opus { channels, pre_skip: PRE_SKIP_SAMPLES }));
        let places = write_head::write((VIDEO, &Av1 { sequence, parsed }), opus, out);
        let mut recording = Box::new(Recording {
            zero: first.pts,
            video: Lane::new(VIDEO, media, Ticks(0)),
            sound: sound.map(|media| Lane::new(SOUND, media, PRE_SKIP)),
            places,
            cluster: None,
            entries: Entries::default(),
        });
        // One that cannot be taken does not lose those behind it.
        let mut recorded = Ok(());
        for unit in &waiting {
            recorded = recording.push(unit, origin, &mut self.patches, out).and(recorded);
        }
        self.stage = Stage::Recording(recording);
        recorded
    }
}

/// Whether a file can begin with the unit: a key frame with its sequence header.
fn begins(unit: &AccessUnit) -> bool {
    unit.codec == Codec::Av1 && bitstream::is_key(unit.codec, &unit.data) && Media::of(unit, false).is_ok()
}

impl Lane {
    fn new(number: u8, media: Media, delay: Ticks) -> Lane {
        let rate = media.pictures().and_then(|pictures| pictures.frame_rate);
        let told = rate.map(|rate| 1000.0 / rate.as_f64());
        // Nothing is believed that is not of a film.
        let told = told.filter(|millis| (1.0..=10_000.0).contains(millis));
        #[expect(clippy::cast_possible_truncation, reason = "it is in that range")]
        let lasts = told.map_or(PICTURE_MS, |millis| millis.round() as i64);
        Lane { number, media, delay, waiting: VecDeque::new(), last: None, lasts }
    }

    fn push(&mut self, unit: &AccessUnit, zero: Ticks) -> Result<(), Error> {
        let mut data = Vec::with_capacity(unit.data.len().saturating_add(16));
        let is_key = !self.media.is_video() || bitstream::is_key(unit.codec, &unit.data);
        if let Media::Av1 { sequence, .. } = &self.media
            && is_key
            && av1::Head::of(&unit.data).sequence.is_none()
        {
            data.extend_from_slice(sequence);
        }
        self.media.write_sample(unit, &mut data)?;
        let is_whole = match unit.codec {
            Codec::Av1 => av1::obus(&data).any(|obu| obu.kind().begins_frame()),
            _ => !data.is_empty(),
        };
        if !is_whole {
            return Err(cmaf::Error::Configuration { codec: unit.codec, what: "frame" }.into());
        }
        let stamped = millis(unit.pts - zero + self.delay);
        let apart_ms = stamped.saturating_sub(self.last.unwrap_or(0));
        if !(-BACK_MAX_MS..=AHEAD_MAX_MS).contains(&apart_ms) {
            return Err(Error::Time { codec: unit.codec, apart_ms });
        }
        let at = stamped.max(self.last.map_or(0, |last| last.saturating_add(1)));
        match (self.media.sound_ticks(unit), self.last) {
            (Some(samples), _) => self.lasts = (i64::from(samples) / 48).max(1),
            // A picture is taken to last as long as the one before it did.
            (None, Some(last)) => self.lasts = at.saturating_sub(last),
            (None, None) => {}
        }
        self.last = Some(at);
        self.waiting.push_back(Block { track: self.number, at, is_key, data });
        Ok(())
    }

    /// Whether the first block that waits has waited for the other track for too long.
    fn is_overdue(&self) -> bool {
        let waits = |first: &Block| self.last.is_some_and(|last| last.saturating_sub(first.at) > HOLD_MAX_MS);
        self.waiting.front().is_some_and(waits)
    }

    /// When it ends, in milliseconds.
    fn end(&self) -> i64 {
        self.last.map_or(0, |last| last.saturating_add(self.lasts).saturating_sub(millis(self.delay)))
    }
}

/// To the nearest millisecond.
fn millis(time: Ticks) -> i64 {
    time.0.saturating_add(45).div_euclid(90)
}

impl Recording {
    fn push(
        &mut self,
        unit: &AccessUnit,
        origin: Origin,
        patches: &mut VecDeque<Patch>,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let lane = match &mut self.sound {
            _ if unit.codec == Codec::Av1 => &mut self.video,
            // What was before the pictures is not heard.
            Some(_) if unit.pts < self.zero => return Ok(()),
            Some(sound) => sound,
            None => return Ok(()),
        };
        lane.push(unit, self.zero)?;
        while let Some(block) = self.next(false) {
            self.write(&block, origin, patches, out);
        }
        Ok(())
    }

    /// The block that is written next: the earliest, once both tracks have one or were waited for.
    fn next(&mut self, is_last: bool) -> Option<Block> {
        let Some(sound) = &mut self.sound else { return self.video.waiting.pop_front() };
        let video = &mut self.video;
        let lane = match (video.waiting.front(), sound.waiting.front()) {
            (Some(picture), Some(heard)) if picture.at <= heard.at => video,
            (Some(_), Some(_)) => sound,
            (Some(_), None) if is_last || video.is_overdue() => video,
            (None, Some(_)) if is_last || sound.is_overdue() => sound,
            _ => return None,
        };
        lane.waiting.pop_front()
    }

    /// Appends a block (`SimpleBlock`, RFC 9559 §10.2), in a cluster of its own where the one before cannot take it.
    fn write(&mut self, block: &Block, origin: Origin, patches: &mut VecDeque<Patch>, out: &mut Vec<u8>) {
        let begins = block.track == VIDEO && block.is_key;
        let fits = |cluster: &&Cluster| {
            let bytes = origin.end(out).saturating_sub(cluster.payload_at);
            !begins && block.at.saturating_sub(cluster.time) < CLUSTER_MAX_MS && bytes < CLUSTER_MAX_BYTES
        };
        let time = match self.cluster.as_ref().filter(fits) {
            Some(cluster) => cluster.time,
            None => self.begin_cluster(block.at, begins, origin, patches, out),
        };
        // Sound that comes more than a second late lies before its cluster, by up to half a minute.
        let relative = i16::try_from(block.at.saturating_sub(time)).unwrap_or(i16::MIN);
        let size = 4usize.saturating_add(block.data.len());
        write_element_head(SIMPLE_BLOCK, size as u64, out);
        write_number(block.track.into(), out);
        out.extend_from_slice(&relative.to_be_bytes());
        out.push(if block.is_key { KEY_FRAME } else { 0 });
        out.extend_from_slice(&block.data);
    }

    /// Ends the cluster and begins another one for a block at this time; `is_entry`: with a key frame. Returns the cluster's time.
    fn begin_cluster(
        &mut self,
        at: i64,
        is_entry: bool,
        origin: Origin,
        patches: &mut VecDeque<Patch>,
        out: &mut Vec<u8>,
    ) -> i64 {
        let before = self.end_cluster(origin, patches, out);
        // None is before the one before it.
        let time = at.max(before.unwrap_or(0));
        let start = origin.end(out);
        if is_entry {
            self.entries.add(at.unsigned_abs(), start.saturating_sub(self.places.segment));
        }
        let size_at = origin.0.wrapping_add(write_open(CLUSTER, out) as u64);
        let payload_at = origin.end(out);
        write_unsigned(TIMESTAMP, time.unsigned_abs(), out);
        self.cluster = Some(Cluster { time, size_at, payload_at });
        time
    }

    /// Ends the cluster: its size is known. Returns its time.
    fn end_cluster(&mut self, origin: Origin, patches: &mut VecDeque<Patch>, out: &[u8]) -> Option<i64> {
        let cluster = self.cluster.take()?;
        let size = origin.end(out).saturating_sub(cluster.payload_at);
        patches.push_back(Patch { offset: cluster.size_at, bytes: size_later(size).to_vec() });
        Some(cluster.time)
    }

    fn finish(&mut self, origin: Origin, patches: &mut VecDeque<Patch>, out: &mut Vec<u8>) {
        while let Some(block) = self.next(true) {
            self.write(&block, origin, patches, out);
        }
        self.end_cluster(origin, patches, out);
        let Places { segment_size, segment, duration, .. } = self.places;
        let cues = origin.end(out);
        write_head::write_cues(VIDEO, &self.entries.take(), out);
        let size = origin.end(out).saturating_sub(segment);
        let end = self.sound.as_ref().map_or(0, Lane::end).max(self.video.end());
        #[expect(clippy::cast_precision_loss, reason = "no film lasts for 2⁵³ milliseconds")]
        let millis = end as f64;
        patches.extend([
            Patch { offset: segment, bytes: write_head::seek_head(&self.places, cues) },
            Patch { offset: duration, bytes: write_head::duration(millis) },
            // The last one: the size says that the file has ended well.
            Patch { offset: segment_size, bytes: size_later(size).to_vec() },
        ]);
    }
}

#[cfg(test)]
#[path = "mux_tests.rs"]
mod tests;
