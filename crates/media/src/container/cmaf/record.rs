//! A file that grows: one fragment for each group of pictures.

use super::Error;
use super::boxes::{Fields, full, plain};
use super::chunk::{Run, Sample, write_chunk};
use super::init::{Brand, MOVIE_TIMESCALE, duration_box, write_init};
use super::timeline::{Timed, Timeline};
use super::track::{Media, Track};
use crate::access_unit::{AccessUnit, Codec};
use crate::bitstream;
use crate::container::growing::{Entries, Patch};
use crate::time::Ticks;
use std::collections::VecDeque;

const VIDEO: u32 = 1;
const SOUND: u32 = 2;
/// A fragment ends at a key frame or recovery point; where none comes, after this long: what is not written yet is lost in a
/// crash.
const FRAGMENT_MAX: i64 = Ticks::RATE as i64;
/// Pictures wait this long for the first sound, which the file's beginning has to describe.
const SOUND_WAIT: i64 = 2 * Ticks::RATE as i64;
/// So many units wait for it at most, whatever their time stamps say.
const WAITING_MAX: usize = 1000;
/// A fragment ends, too, when it has this many bytes.
const FRAGMENT_MAX_BYTES: usize = 64 << 20;

/// Makes a fragmented MP4 file of pictures and, perhaps, sound.
///
/// ```text
/// access units ─► wait for the first key frame and the first sound ─► ftyp moov │ moof mdat │ moof mdat │ … │ mfra
/// ```
/// A fragment is a group of pictures with the sound that came with it, at most about one second. The file plays from the
/// first fragment on and is good wherever it is cut between fragments. Holds one fragment in memory.
#[derive(Debug)]
pub struct Recorder {
    wants_sound: bool,
    stage: Stage,
    /// Bytes given out in earlier calls.
    written_bytes: u64,
    /// Where in the file the first byte of this call's output would lie; what the caller had there may be more than that.
    origin: u64,
    duration_at: u64,
    sequence: u32,
    /// Fragments that begin with a key frame.
    entries: Entries,
}

#[derive(Debug)]
enum Stage {
    /// Units that wait until all tracks are known.
    Waiting(VecDeque<AccessUnit>),
    Recording(Box<Recording>),
}

#[derive(Debug)]
struct Recording {
    zero: Ticks,
    video: Timeline,
    sound: Option<Timeline>,
    pictures: Fragment,
    sounds: Fragment,
    /// When pictures end, in ticks of their track.
    end: u64,
}

/// What one track has in the fragment that is being collected.
#[derive(Debug, Default)]
struct Fragment {
    decode_time: u64,
    samples: Vec<Sample>,
    data: Vec<u8>,
}

impl Fragment {
    fn push(&mut self, timed: Timed) {
        if self.samples.is_empty() {
            self.decode_time = timed.decode_time;
        }
        self.samples.push(timed.sample);
        self.data.extend_from_slice(&timed.data);
    }

    fn run(&self, track_id: u32) -> Option<Run<'_>> {
        let (samples, data) = (&self.samples[..], &self.data[..]);
        (!samples.is_empty()).then_some(Run { track_id, decode_time: self.decode_time, samples, data })
    }

    fn clear(&mut self) {
        self.samples.clear();
        self.data.clear();
    }
}

impl Recorder {
    /// A file of pictures and, if `with_sound`, of the sound that comes with them.
    pub fn new(with_sound: bool) -> Recorder {
        Recorder {
            wants_sound: with_sound,
            stage: Stage::Waiting(VecDeque::new()),
            written_bytes: 0,
            origin: 0,
            duration_at: 0,
            sequence: 0,
            entries: Entries::default(),
        }
    }

    /// Takes a unit, and appends to `out` what can be written. The units of each stream come in the order of decoding; what
    /// comes before the first key frame is left out.
    ///
    /// # Errors
    /// Why the unit is of no use. The file stays good, and other units may follow.
    pub fn push(&mut self, unit: &AccessUnit, out: &mut Vec<u8>) -> Result<(), Error> {
        self.origin = self.written_bytes.wrapping_sub(out.len() as u64);
        let pushed = self.take(unit, out);
        self.written_bytes = self.offset(out);
        pushed
    }

    /// Where in the file the end of `out` lies.
    fn offset(&self, out: &[u8]) -> u64 {
        self.origin.wrapping_add(out.len() as u64)
    }

    fn take(&mut self, unit: &AccessUnit, out: &mut Vec<u8>) -> Result<(), Error> {
        match unit.codec {
            Codec::Mpeg2Video | Codec::S302m => return Err(Error::Codec { codec: unit.codec }),
            codec if !codec.is_video() && !self.wants_sound => return Ok(()),
            _ => {}
        }
        let waiting = match &mut self.stage {
            Stage::Recording(_) => return self.record(unit, out),
            Stage::Waiting(waiting) => waiting,
        };
        // Sound that comes before the pictures begin is nowhere.
        if waiting.is_empty() && !super::begins(unit) {
            return Ok(());
        }
        if !unit.codec.is_video() {
            Media::of(unit, false)?;
        }
        waiting.push_back(unit.clone());
        let lacks_sound = self.wants_sound && waiting.iter().all(|unit| unit.codec.is_video());
        let waited = waiting.front().map_or(0, |first| (unit.dts - first.dts).0);
        if lacks_sound && (0..SOUND_WAIT).contains(&waited) && waiting.len() < WAITING_MAX {
            return Ok(());
        }
        self.begin(out)
    }

    /// Writes the beginning and what has waited for it.
    fn begin(&mut self, out: &mut Vec<u8>) -> Result<(), Error> {
        let Stage::Waiting(waiting) = &mut self.stage else { return Ok(()) };
        let waiting = std::mem::take(waiting);
        let Some(first) = waiting.front() else { return Ok(()) };
        let zero = first.dts;
        let video = Track { id: VIDEO, media: Media::of(first, false)? };
        let sound = waiting.iter().find(|unit| !unit.codec.is_video());
        let sound = sound.map(|unit| Media::of(unit, false)).transpose()?;
        let sound = sound.map(|media| Track { id: SOUND, media });
        let tracks: Vec<Track> = [Some(video.clone()), sound.clone()].into_iter().flatten().collect();
        let duration = write_init(Brand::File, &tracks, out);
        self.duration_at = self.origin.wrapping_add(duration.start as u64);
        self.stage = Stage::Recording(Box::new(Recording {
            zero,
            video: Timeline::new(video, zero),
            sound: sound.map(|track| Timeline::new(track, zero)),
            pictures: Fragment::default(),
            sounds: Fragment::default(),
            end: 0,
        }));
        // One that cannot be taken does not lose those behind it.
        let mut recorded = Ok(());
        for unit in &waiting {
            recorded = self.record(unit, out).and(recorded);
        }
        recorded
    }

    fn record(&mut self, unit: &AccessUnit, out: &mut Vec<u8>) -> Result<(), Error> {
        let Stage::Recording(recording) = &mut self.stage else { return Ok(()) };
        if !unit.codec.is_video() {
            let is_within = unit.dts >= recording.zero;
            if let Some(sound) = &mut recording.sound
                && is_within
                && let Some(timed) = sound.push(unit)?
            {
                recording.sounds.push(timed);
            }
            return Ok(());
        }
        if let Some(timed) = recording.video.push(unit)? {
            recording.take_picture(timed);
        }
        // The unit itself is held back: what is collected ends before it.
        if recording.is_due(bitstream::join(unit.codec, &unit.data).is_some()) {
            self.write_fragment(out);
        }
        Ok(())
    }

    fn write_fragment(&mut self, out: &mut Vec<u8>) {
        let Stage::Recording(recording) = &mut self.stage else { return };
        let runs: Vec<Run<'_>> =
            [recording.pictures.run(VIDEO), recording.sounds.run(SOUND)].into_iter().flatten().collect();
        if runs.is_empty() {
            return;
        }
        self.sequence += 1;
        if recording.pictures.samples.first().is_some_and(|sample| sample.is_sync) {
            self.entries.add(recording.pictures.decode_time, self.origin.wrapping_add(out.len() as u64));
        }
        write_chunk(self.sequence, None, &runs, out);
        recording.pictures.clear();
        recording.sounds.clear();
    }

    /// Ends the file: the last fragment, and the list of places to begin at. Returns bytes that the caller may put in
    /// the place of earlier ones, so that the file's beginning says how long it lasts; the file is valid without that
    /// too. `None` where nothing was written, for want of a key frame.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<Option<Patch>, Error> {
        self.origin = self.written_bytes.wrapping_sub(out.len() as u64);
        let begun = self.begin(out);
        if let Stage::Recording(recording) = &mut self.stage {
            let end = recording.finish();
            self.write_fragment(out);
            write_entries(&self.entries.take(), out);
            self.written_bytes = self.offset(out);
            begun.map(|()| Some(Patch { offset: self.duration_at, bytes: duration_box(end) }))
        } else {
            begun.map(|()| None)
        }
    }
}

impl Recording {
    fn take_picture(&mut self, timed: Timed) {
        self.end = timed.decode_time + u64::from(timed.sample.duration);
        self.pictures.push(timed);
    }

    /// Takes what the tracks still hold, and returns when all of it ends, in ticks of the movie.
    fn finish(&mut self) -> u64 {
        if let Some(last) = self.video.finish() {
            self.take_picture(last);
        }
        let mut end = self.end * u64::from(MOVIE_TIMESCALE) / u64::from(Ticks::RATE);
        if let Some(sound) = &mut self.sound
            && let Some(last) = sound.finish()
        {
            let ticks = last.decode_time + u64::from(last.sample.duration);
            let timescale = u64::from(sound.track().media.timescale());
            end = end.max(ticks * u64::from(MOVIE_TIMESCALE) / timescale);
            self.sounds.push(last);
        }
        end
    }

    /// Whether the fragment ends before a picture that is held back.
    fn is_due(&self, before_join: bool) -> bool {
        let lasts = (self.end - self.pictures.decode_time) as i64;
        let bytes = self.pictures.data.len() + self.sounds.data.len();
        !self.pictures.samples.is_empty()
            && (before_join || lasts >= FRAGMENT_MAX || bytes >= FRAGMENT_MAX_BYTES)
    }
}

/// Appends the list of fragments to begin at (14496-12 §8.8.9 to §8.8.11).
fn write_entries(entries: &[(u64, u64)], out: &mut Vec<u8>) {
    let start = out.len();
    plain(out, b"mfra", |out| {
        full(out, b"tfra", 1, 0, |out| {
            out.u32(VIDEO);
            // Numbers of traf, trun and sample take a byte each.
            out.u32(0);
            out.u32(entries.len() as u32);
            for (time, offset) in entries {
                out.u64(*time);
                out.u64(*offset);
                out.extend_from_slice(&[1, 1, 1]);
            }
        });
        // Its own length, by which a reader finds the list from the file's end.
        full(out, b"mfro", 0, 0, |out| out.u32((out.len() + 4 - start) as u32));
    });
}
