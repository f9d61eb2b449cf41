//! Sound that is no live source: it keeps whatever pace it is read at, and its time is its count of samples.

use crate::capture::{Error, Result, SOUND_RATE_HZ as RATE_HZ};
use glassline_media::container::wav;
use glassline_media::samples::{Format, Resampler};
use glassline_media::{AudioBlock, Time};
use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How much sound a block holds: 5 ms.
const BLOCK_FRAMES: usize = 240;
const READ_BYTES: usize = 64 << 10;

/// Makes sound of any rate sound of 48 kHz, and cuts it into blocks. Sound that is of 48 kHz is left as it is, bit by
/// bit.
pub(super) struct Converter {
    format: Format,
    resampler: Option<Resampler>,
    /// Interleaved samples that leave next.
    ready: Vec<f32>,
    /// When the first of all samples that leave is due, and how many of each channel have left.
    offset: Duration,
    given: u64,
}

impl Converter {
    pub(super) fn new(format: Format) -> Result<Converter> {
        let step = f64::from(format.rate_hz) / f64::from(RATE_HZ);
        let resampler =
            (format.rate_hz != RATE_HZ).then(|| Resampler::new(format.channels, step, BLOCK_FRAMES));
        let resampler = resampler.transpose()?;
        Ok(Converter { format, resampler, ready: Vec::new(), offset: Duration::ZERO, given: 0 })
    }

    /// Takes interleaved samples.
    pub(super) fn push(&mut self, samples: &[f32]) -> Result<()> {
        let Some(resampler) = &mut self.resampler else {
            self.ready.extend_from_slice(samples);
            return Ok(());
        };
        resampler.push(samples);
        loop {
            let position = resampler.position();
            let start = self.ready.len();
            if !resampler.poll(&mut self.ready)? {
                return Ok(());
            }
            // What lies before the first sample is the filter's beginning, not sound.
            let step = f64::from(self.format.rate_hz) / f64::from(RATE_HZ);
            if position < 0.0 && self.given == 0 && start == 0 {
                let before = ((-position / step).ceil() as usize).min(BLOCK_FRAMES);
                self.ready.drain(..before * usize::from(self.format.channels));
                let first = position + before as f64 * step;
                self.offset = Duration::from_secs_f64(first.max(0.0) / f64::from(self.format.rate_hz));
            }
        }
    }

    /// No more samples come: brings out those inside.
    pub(super) fn finish(&mut self) -> Result<()> {
        let tail = self.resampler.as_ref().map_or(0, Resampler::tail);
        self.push(&vec![0.0; tail * usize::from(self.format.channels)])
    }

    /// The next block; its time counts from the first sample. A short one is given only where `last`.
    pub(super) fn poll(&mut self, last: bool) -> Option<AudioBlock> {
        let channels = usize::from(self.format.channels);
        let whole = self.ready.len() >= BLOCK_FRAMES * channels;
        if !whole && (!last || self.ready.is_empty()) {
            return None;
        }
        let count = self.ready.len().min(BLOCK_FRAMES * channels);
        let samples: Vec<f32> = self.ready.drain(..count).collect();
        let captured = Time::ZERO + self.offset + time_of(self.given);
        self.given += (count / channels) as u64;
        Some(AudioBlock { samples, channels: self.format.channels, rate_hz: RATE_HZ, captured })
    }
}

/// How long so many samples at 48 kHz last.
pub(super) fn time_of(samples: u64) -> Duration {
    Duration::from_nanos((u128::from(samples) * 1_000_000_000 / u128::from(RATE_HZ)) as u64)
}

/// A WAVE file; its header has been read.
pub(super) struct WavFile {
    path: PathBuf,
    file: File,
    reader: wav::Reader,
    buffer: Vec<u8>,
    /// Sound that came along with the header.
    early: VecDeque<AudioBlock>,
    header: wav::Header,
    converter: Converter,
    ended: bool,
}

impl WavFile {
    /// Opens the file and reads what it says about its sound.
    pub(super) fn open(path: &Path) -> Result<WavFile> {
        let name = path.display().to_string();
        let mut file = File::open(path).map_err(|error| Error::Open { name: name.clone(), error })?;
        let (mut reader, mut buffer) = (wav::Reader::new(), vec![0; READ_BYTES]);
        let mut early = VecDeque::new();
        let header = loop {
            if let Some(header) = reader.header() {
                break *header;
            }
            let length = file.read(&mut buffer).map_err(Error::read(&name))?;
            if length == 0 {
                reader.finish().map_err(Error::wav(&name))?;
            }
            let mut bytes = &buffer[..length];
            while let Some(block) = reader.parse(&mut bytes).map_err(Error::wav(&name))? {
                early.push_back(block);
            }
        };
        let converter = Converter::new(Format { rate_hz: header.rate_hz, channels: header.channels })?;
        Ok(WavFile { path: path.to_owned(), file, reader, buffer, early, header, converter, ended: false })
    }

    /// Channels of the sound.
    pub(super) fn channels(&self) -> u8 {
        self.header.channels
    }

    /// Begins again.
    ///
    /// # Errors
    /// The file's, and where it has become another one.
    pub(super) fn again(&mut self) -> Result<()> {
        let anew = WavFile::open(&self.path)?;
        if (anew.header.rate_hz, anew.header.channels) != (self.header.rate_hz, self.header.channels) {
            return Err(Error::Changed { name: self.path.display().to_string() });
        }
        *self = anew;
        Ok(())
    }

    /// The next block at 48 kHz; its time counts from the file's beginning. `None` at the end.
    pub(super) fn next_block(&mut self) -> Result<Option<AudioBlock>> {
        loop {
            if let Some(block) = self.converter.poll(self.ended) {
                return Ok(Some(block));
            }
            if self.ended {
                return Ok(None);
            }
            if let Some(block) = self.early.pop_front() {
                self.converter.push(&block.samples)?;
                continue;
            }
            let read = self.file.read(&mut self.buffer);
            let length = read.map_err(|error| Error::read(&self.path.display().to_string())(error))?;
            let mut bytes = &self.buffer[..length];
            let wrong = |error| Error::wav(&self.path.display().to_string())(error);
            while let Some(block) = self.reader.parse(&mut bytes).map_err(wrong)? {
                self.converter.push(&block.samples)?;
            }
            if length == 0 {
                self.converter.finish()?;
                self.ended = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_test_support::program::Scratch;

    fn file(rate_hz: u32, channels: u8, samples: &[i16]) -> Vec<u8> {
        let head = wav::head_of(rate_hz, channels, 2, Some(2 * samples.len() as u32));
        head.into_iter().chain(samples.iter().flat_map(|sample| sample.to_le_bytes())).collect()
    }

    fn all(file: &mut WavFile) -> Vec<AudioBlock> {
        std::iter::from_fn(|| file.next_block().unwrap()).collect()
    }

    fn refused(scratch: &Scratch, bytes: &[u8]) -> String {
        let path = scratch.write("wrong.wav", bytes);
        WavFile::open(path.as_ref()).err().unwrap().to_string()
    }

    #[test]
    fn sound_of_48_khz_comes_bit_by_bit_in_blocks_of_5_ms_and_a_short_one() {
        let scratch = Scratch::new("wav-48");
        let samples: Vec<i16> = (0..2 * 600).map(|at| at * 27 - 16_000).collect();
        let path = scratch.write("a.wav", file(48_000, 2, &samples));
        let mut opened = WavFile::open(path.as_ref()).unwrap();
        let blocks = all(&mut opened);
        assert_eq!(opened.channels(), 2);
        assert_eq!(blocks.iter().map(AudioBlock::frames).collect::<Vec<_>>(), [240, 240, 120]);
        let begins = blocks.iter().map(|block| block.captured.since(Time::ZERO).as_micros());
        assert_eq!(begins.collect::<Vec<_>>(), [0, 5_000, 10_000]);
        let read = blocks.iter().flat_map(|block| &block.samples).map(|sample| (sample * 32_768.0) as i16);
        assert_eq!(read.collect::<Vec<_>>(), samples);
    }

    #[test]
    fn sound_of_another_rate_lasts_as_long_at_48_khz() {
        let scratch = Scratch::new("wav-44");
        for (rate_hz, frames) in [(44_100, 44_100), (96_000, 96_000), (8_000, 8_000)] {
            let path = scratch.write("a.wav", file(rate_hz, 1, &vec![1_000; frames]));
            let blocks = all(&mut WavFile::open(path.as_ref()).unwrap());
            let given: usize = blocks.iter().map(AudioBlock::frames).sum();
            assert!(given.abs_diff(48_000) <= 2 * BLOCK_FRAMES, "{rate_hz}: {given}");
            assert!(blocks.windows(2).all(|pair| {
                let apart = pair[1].captured.since(pair[0].captured).as_nanos();
                apart.abs_diff(5_000_000) <= 1
            }));
        }
    }

    #[test]
    fn a_file_that_begins_again_gives_the_same_again() {
        let scratch = Scratch::new("wav-again");
        let samples: Vec<i16> = (0..700).collect();
        let path = scratch.write("a.wav", file(48_000, 1, &samples));
        let mut opened = WavFile::open(path.as_ref()).unwrap();
        let first = all(&mut opened);
        assert!(opened.next_block().unwrap().is_none(), "the end stays");
        opened.again().unwrap();
        assert_eq!(all(&mut opened), first);
    }

    #[test]
    fn a_file_that_has_become_another_one_does_not_begin_again() {
        let scratch = Scratch::new("wav-changed");
        for (rate_hz, channels) in [(48_000, 2), (44_100, 1)] {
            let path = scratch.write("a.wav", file(48_000, 1, &[0; 480]));
            let mut opened = WavFile::open(path.as_ref()).unwrap();
            scratch.write("a.wav", file(rate_hz, channels, &[0; 480]));
            assert!(matches!(opened.again(), Err(Error::Changed { .. })), "{rate_hz} {channels}");
        }
    }

    #[test]
    fn what_is_no_wave_file_is_refused_by_name() {
        let scratch = Scratch::new("wav-wrong");
        let whole = file(48_000, 1, &[0; 8]);
        for bytes in
            [&b""[..], b"RIFF", b"not a wave file at all, but long enough to look like one", &whole[..20]]
        {
            assert!(refused(&scratch, bytes).contains("wrong.wav"), "{bytes:?}");
        }
    }

    #[test]
    fn a_file_without_a_sample_has_no_block() {
        let scratch = Scratch::new("wav-empty");
        let path = scratch.write("a.wav", file(48_000, 2, &[]));
        assert_eq!(all(&mut WavFile::open(path.as_ref()).unwrap()), []);
    }
}
