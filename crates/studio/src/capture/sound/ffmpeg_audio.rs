//! The sound of a file that FFmpeg decodes.

use super::wav_file::Converter;
use crate::capture::ffmpeg::{FfmpegInput, FfmpegReader, Part};
use crate::capture::{Error, Result, SOUND_RATE_HZ as RATE_HZ};
use glassline_media::AudioBlock;
use glassline_media::samples::Format;
use std::io::Read;
use std::time::Duration;

const READ_BYTES: usize = 16 << 10;

/// Sound that is being decoded.
pub(super) struct FfmpegAudio {
    reader: FfmpegReader,
    format: Format,
    looped: bool,
    buffer: Vec<u8>,
    /// Bytes in front of the buffer that are no whole sample yet.
    left: usize,
    converter: Converter,
    /// Samples of each channel since the beginning.
    read: u64,
    ended: bool,
}

impl FfmpegAudio {
    /// Begins to decode a file's sound to so many channels.
    pub(super) fn open(file: &FfmpegInput, channels: u8) -> Result<FfmpegAudio> {
        let format = Format { rate_hz: RATE_HZ, channels };
        Ok(FfmpegAudio {
            reader: FfmpegReader::open(file, Part::Sound(channels))?,
            format,
            looped: false,
            buffer: vec![0; READ_BYTES],
            left: 0,
            converter: Converter::new(format)?,
            read: 0,
            ended: false,
        })
    }

    /// Channels of the sound.
    pub(super) fn channels(&self) -> u8 {
        self.format.channels
    }

    /// Whether [`FfmpegAudio::again`] will be called near its end.
    pub(super) fn will_begin_again(&mut self, looped: bool) {
        self.looped = looped;
    }

    /// Begins again.
    pub(super) fn again(&mut self) -> Result<()> {
        self.reader.again()?;
        (self.left, self.read, self.ended) = (0, 0, false);
        self.converter = Converter::new(self.format)?;
        Ok(())
    }

    /// The next block; its time counts from the file's first picture. `None` at the end, and where the sound cannot be
    /// decoded any further: pictures go on.
    pub(super) fn next_block(&mut self) -> Result<Option<AudioBlock>> {
        loop {
            if let Some(block) = self.converter.poll(self.ended) {
                return Ok(Some(block));
            }
            if self.ended {
                return Ok(None);
            }
            if let Err(error) = self.read() {
                tracing::error!("{}: its sound has ended: {error:#}", self.reader.file().name());
                self.ended = true;
            }
        }
    }

    fn read(&mut self) -> Result<()> {
        let read = self.reader.read(&mut self.buffer[self.left..]);
        let count = read.map_err(|error| Error::read(&self.reader.file().name())(error))?;
        if count == 0 {
            self.converter.finish()?;
            self.ended = true;
            return Ok(());
        }
        let filled = self.left + count;
        let frame_bytes = 4 * usize::from(self.format.channels);
        let whole = filled - filled % frame_bytes;
        let (words, _) = self.buffer[..whole].as_chunks::<4>();
        let samples: Vec<f32> = words.iter().map(|word| f32::from_le_bytes(*word)).collect();
        self.buffer.copy_within(whole..filled, 0);
        self.left = filled - whole;
        self.converter.push(&samples)?;
        self.read += (whole / frame_bytes) as u64;
        if self.looped {
            self.reader.approach(Duration::from_nanos(self.read * 1_000_000_000 / u64::from(RATE_HZ)));
        }
        Ok(())
    }
}
