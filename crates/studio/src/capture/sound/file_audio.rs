//! Sound of a file that goes along with pictures of a file: it is handed over as far as the pictures have come, so that the two
//! lie side by side in the stream, however fast it is made and whatever holds the pictures up, and begins again with them.

use super::ffmpeg_audio::FfmpegAudio;
use super::wav_file::WavFile;
use crate::capture::{Result, SOUND_RATE_HZ as RATE_HZ};
use glassline_media::{AudioBlock, Ticks, Time};
use std::time::Duration;

/// A picture that is later than this has been held up, and sound is with it: 20 ms.
const HELD_UP: Ticks = Ticks(1_800);

/// A hole or an overlap of more than this begins another run: coders follow it.
const APART: Duration = Duration::from_millis(20);
/// Samples that may be missing at the end of a run without a hole: as long.
const SILENCE: usize = 960;

/// Sound of a file.
pub(super) enum Track {
    /// A WAVE file.
    Wav(Box<WavFile>),
    /// Of a file that FFmpeg decodes.
    Ffmpeg(Box<FfmpegAudio>),
}

impl Track {
    /// Channels of the sound.
    pub(super) fn channels(&self) -> u8 {
        match self {
            Track::Wav(file) => file.channels(),
            Track::Ffmpeg(file) => file.channels(),
        }
    }

    /// The next block at 48 kHz; its time counts from the file's beginning. `None` at the end.
    pub(super) fn next_block(&mut self) -> Result<Option<AudioBlock>> {
        match self {
            Track::Wav(file) => file.next_block(),
            Track::Ffmpeg(file) => file.next_block(),
        }
    }

    /// Begins again.
    pub(super) fn again(&mut self) -> Result<()> {
        match self {
            Track::Wav(file) => file.again(),
            Track::Ffmpeg(file) => file.again(),
        }
    }
}

/// Sound of a file beside pictures of a file, handed over as far as the pictures have come. Pure but for reading the file.
pub struct FileAudio {
    track: Track,
    /// Time of a picture.
    interval: Ticks,
    /// Whether pictures come when their time has come: the sound beside a picture is then handed over right behind it, or it
    /// would come late by a picture's time. Otherwise sound comes before the picture that it is heard before.
    timed: bool,
    next: Option<AudioBlock>,
    /// The stamp of the sound's beginning.
    start: Option<Ticks>,
    /// That of the last picture.
    last: Option<Ticks>,
    /// When a run of sound began, and the samples of each channel that were handed over since, without a hole.
    handed: Option<(Time, u64)>,
}

impl std::fmt::Debug for FileAudio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileAudio").field("start", &self.start).finish_non_exhaustive()
    }
}

impl FileAudio {
    /// `looped`: it will begin again.
    pub(super) fn new(mut track: Track, interval: Duration, timed: bool, looped: bool) -> FileAudio {
        if let Track::Ffmpeg(file) = &mut track {
            file.will_begin_again(looped);
        }
        let interval = Ticks::from_time(Time::ZERO + interval);
        FileAudio { track, interval, timed, next: None, start: None, last: None, handed: None }
    }

    /// The picture of this stamp is about to be handed over.
    pub(crate) fn picture(&mut self, stamp: Ticks) {
        let start = self.start.get_or_insert(stamp);
        if let Some(last) = self.last.filter(|_| self.timed) {
            let late = stamp - (last + self.interval);
            if late > HELD_UP {
                *start = *start + late;
            }
        }
        self.last = Some(stamp);
    }

    /// The next block that goes before the picture.
    pub(crate) fn before(&mut self) -> Result<Option<AudioBlock>> {
        let Some(last) = self.last.filter(|_| !self.timed) else { return Ok(None) };
        self.next_if(|begin, _| begin < last)
    }

    /// The next block that goes right behind the picture.
    pub(crate) fn behind(&mut self) -> Result<Option<AudioBlock>> {
        let Some(last) = self.last.filter(|_| self.timed) else { return Ok(None) };
        let until = last + self.interval;
        self.next_if(|_, end| end <= until)
    }

    /// The next block that begins before the last picture ends.
    pub(crate) fn rest(&mut self) -> Result<Option<AudioBlock>> {
        let Some(last) = self.last else { return Ok(None) };
        let until = last + self.interval;
        self.next_if(|begin, _| begin < until)
    }

    /// The next block that is heard before `end`, and no more of it than that: there it begins again. A little that is missing
    /// until then is silence, so that no sample count parts from the pictures however often it begins again.
    pub(crate) fn cut(&mut self, end: Ticks) -> Result<Option<AudioBlock>> {
        let Some((anchor, handed)) = self.handed else { return Ok(None) };
        let whole = time_of(end).since(anchor).as_nanos() * u128::from(RATE_HZ) + 500_000_000;
        let left = ((whole / 1_000_000_000) as u64).saturating_sub(handed) as usize;
        if left == 0 {
            return Ok(None);
        }
        let channels = self.track.channels();
        let block = match self.next_if(|begin, _| begin < end)? {
            Some(mut block) => {
                let frames = block.frames();
                block.samples.truncate(left * usize::from(channels));
                self.handed = Some((anchor, handed + frames.min(left) as u64));
                block
            }
            None if left <= SILENCE => {
                self.handed = Some((anchor, handed + left as u64));
                let captured = anchor + duration_of(handed);
                AudioBlock {
                    samples: vec![0.0; left * usize::from(channels)],
                    channels,
                    rate_hz: RATE_HZ,
                    captured,
                }
            }
            None => return Ok(None),
        };
        Ok(Some(block))
    }

    /// Begins again with the picture of this stamp, which is about to be handed over.
    pub(crate) fn begin_again(&mut self, stamp: Ticks) -> Result<()> {
        self.next = None;
        self.start = Some(stamp);
        self.last = None;
        self.track.again()
    }

    /// The next block, on the stream's time, if it is `wanted` by the stamps of its beginning and end.
    fn next_if(&mut self, wanted: impl Fn(Ticks, Ticks) -> bool) -> Result<Option<AudioBlock>> {
        let Some(start) = self.start else { return Ok(None) };
        if self.next.is_none() {
            self.next = self.track.next_block()?;
        }
        let start = time_of(start).since(Time::ZERO);
        let is_wanted = |block: &mut AudioBlock| {
            let begin = block.captured + start;
            wanted(Ticks::from_time(begin), Ticks::from_time(begin + duration_of(block.frames() as u64)))
        };
        let Some(mut block) = self.next.take_if(is_wanted) else { return Ok(None) };
        block.captured += start;
        let (anchor, handed) = self.handed.unwrap_or((block.captured, 0));
        let expected = anchor + duration_of(handed);
        let apart = block.captured.since(expected).max(expected.since(block.captured));
        let (anchor, handed) = if apart > APART { (block.captured, 0) } else { (anchor, handed) };
        self.handed = Some((anchor, handed + block.frames() as u64));
        Ok(Some(block))
    }
}

/// How long so many samples last.
fn duration_of(frames: u64) -> Duration {
    Duration::from_nanos((u128::from(frames) * 1_000_000_000 / u128::from(RATE_HZ)) as u64)
}

fn time_of(stamp: Ticks) -> Time {
    Time::from_nanos((stamp.0.max(0) as u128 * 100_000 / 9) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::container::wav;
    use glassline_test_support::program::Scratch;

    const PICTURE: i64 = 3_600;

    /// Beside pictures of 40 ms, so much sound of one channel at 48 kHz, in blocks of 5 ms.
    fn sound(scratch: &Scratch, frames: usize, timed: bool) -> FileAudio {
        let head = wav::head_of(RATE_HZ, 1, 2, Some(2 * frames as u32));
        let samples = (0..frames).flat_map(|at| (at as i16 / 2).to_le_bytes());
        let path = scratch.write("a.wav", head.into_iter().chain(samples).collect::<Vec<u8>>());
        let track = Track::Wav(Box::new(WavFile::open(path.as_ref()).unwrap()));
        FileAudio::new(track, Duration::from_millis(40), timed, false)
    }

    /// When each block begins that is given, in milliseconds.
    fn begins(mut next: impl FnMut() -> Result<Option<AudioBlock>>) -> Vec<u128> {
        std::iter::from_fn(|| next().unwrap())
            .map(|block| block.captured.since(Time::ZERO).as_millis())
            .collect()
    }

    #[test]
    fn before_a_picture_of_a_file_comes_the_sound_that_begins_before_it() {
        let scratch = Scratch::new("sound-before");
        let mut sound = sound(&scratch, 48_000, false);
        sound.picture(Ticks(0));
        assert_eq!(begins(|| sound.before()), [0; 0]);
        sound.picture(Ticks(PICTURE));
        assert_eq!(begins(|| sound.before()), [0, 5, 10, 15, 20, 25, 30, 35]);
        assert_eq!(begins(|| sound.behind()), [0; 0], "that is for pictures by the clock");
    }

    #[test]
    fn behind_a_picture_by_the_clock_comes_the_sound_that_ends_with_it() {
        let scratch = Scratch::new("sound-behind");
        let mut sound = sound(&scratch, 48_000, true);
        sound.picture(Ticks(0));
        assert_eq!(begins(|| sound.before()), [0; 0]);
        assert_eq!(begins(|| sound.behind()), [0, 5, 10, 15, 20, 25, 30, 35]);
        sound.picture(Ticks(PICTURE));
        assert_eq!(begins(|| sound.behind()), [40, 45, 50, 55, 60, 65, 70, 75]);
    }

    #[test]
    fn without_a_picture_there_is_no_sound() {
        let scratch = Scratch::new("sound-alone");
        let mut sound = sound(&scratch, 480, false);
        assert_eq!([begins(|| sound.before()), begins(|| sound.rest())], [[0; 0]; 2]);
        assert!(sound.cut(Ticks(PICTURE)).unwrap().is_none());
    }

    #[test]
    fn the_rest_goes_no_further_than_the_last_picture() {
        let scratch = Scratch::new("sound-rest");
        let mut sound = sound(&scratch, 48_000, false);
        sound.picture(Ticks(0));
        assert_eq!(begins(|| sound.rest()), [0, 5, 10, 15, 20, 25, 30, 35]);
    }

    #[test]
    fn sound_begins_with_the_first_picture_whatever_its_stamp() {
        let scratch = Scratch::new("sound-stamp");
        let mut sound = sound(&scratch, 48_000, true);
        sound.picture(Ticks(90_000));
        assert_eq!(begins(|| sound.behind()).first(), Some(&1_000));
    }

    #[test]
    fn a_picture_that_was_held_up_holds_the_sound_up_and_a_little_jitter_does_not() {
        for (late, begin) in [(0, 40), (1_800, 40), (1_890, 61), (9_000, 140)] {
            let scratch = Scratch::new("sound-late");
            let mut sound = sound(&scratch, 48_000, true);
            sound.picture(Ticks(0));
            assert_eq!(begins(|| sound.behind()).len(), 8);
            sound.picture(Ticks(PICTURE + late));
            assert_eq!(begins(|| sound.behind()).first(), Some(&begin), "{late}");
        }
    }

    #[test]
    fn a_cut_gives_as_many_samples_as_there_is_time_and_fills_a_little_that_is_missing() {
        let scratch = Scratch::new("sound-cut");
        let cut = |frames, end| {
            let mut sound = sound(&scratch, frames, false);
            sound.picture(Ticks(0));
            sound.picture(Ticks(900));
            assert_eq!(begins(|| sound.before()), [0, 5]);
            let blocks: Vec<AudioBlock> = std::iter::from_fn(|| sound.cut(Ticks(end)).unwrap()).collect();
            let is_silent = |block: &AudioBlock| block.samples.iter().all(|sample| *sample == 0.0);
            blocks.iter().map(|block| (block.frames(), is_silent(block))).collect::<Vec<_>>()
        };
        // 18 ms are 864 samples, of which 480 were given.
        assert_eq!(cut(48_000, 1_620), [(240, false), (144, false)]);
        assert_eq!(cut(600, 1_620), [(120, false), (264, true)]);
        assert_eq!(cut(480, 900), []);
        // More than 20 ms that are missing are a hole, not silence.
        assert_eq!(cut(480, 2_700), [(960, true)]);
        assert_eq!(cut(480, 2_702), []);
    }

    #[test]
    fn sound_that_begins_again_begins_at_the_picture_s_stamp_with_its_first_sample() {
        let scratch = Scratch::new("sound-again");
        let mut sound = sound(&scratch, 48_000, false);
        sound.picture(Ticks(0));
        let first = sound.rest().unwrap().unwrap();
        sound.begin_again(Ticks(PICTURE)).unwrap();
        sound.picture(Ticks(PICTURE));
        let again = sound.rest().unwrap().unwrap();
        assert_eq!(again.samples, first.samples);
        assert_eq!(again.captured, first.captured + Duration::from_millis(40));
    }
}
