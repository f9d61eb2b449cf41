//! A WAVE file that is written while sound comes. Whatever ends it, a full disk among that, its head says what is in it, which is
//! whole samples of every channel.

use glassline_media::container::wav;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

/// Bytes that are gathered before they are written.
const BUFFER_BYTES: usize = 1 << 18;

/// What samples are: little-endian integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WavFormat {
    /// Samples of a channel a second.
    pub rate_hz: u32,
    /// Channels.
    pub channels: u8,
    /// Bytes of a sample, 2 or 3.
    pub sample_bytes: u8,
}

impl WavFormat {
    fn frame_bytes(self) -> u64 {
        u64::from(self.channels.max(1)) * u64::from(self.sample_bytes.max(1))
    }
}

/// See the module.
#[derive(Debug)]
pub struct WavWriter {
    file: File,
    format: WavFormat,
    waiting: Vec<u8>,
    /// Bytes of samples that are in the file.
    written: u64,
}

impl WavWriter {
    /// Creates the file, or empties it, and writes a head for what is of unknown length.
    ///
    /// # Errors
    /// The system's.
    pub fn create(path: &Path, format: WavFormat) -> io::Result<WavWriter> {
        let mut writer = WavWriter { file: File::create(path)?, format, waiting: Vec::new(), written: 0 };
        writer.file.write_all(&writer.head(None))?;
        Ok(writer)
    }

    fn head(&self, data_bytes: Option<u32>) -> [u8; wav::HEAD_BYTES] {
        let WavFormat { rate_hz, channels, sample_bytes } = self.format;
        wav::head_of(rate_hz, channels, sample_bytes, data_bytes)
    }

    /// Samples of each channel that are in the file or about to be.
    pub fn frames(&self) -> u64 {
        (self.written + self.waiting.len() as u64) / self.format.frame_bytes()
    }

    /// Bytes of the file, once all is in it.
    pub fn bytes(&self) -> u64 {
        self.written + self.waiting.len() as u64 + wav::HEAD_BYTES as u64
    }

    /// Appends samples, all channels of one after the other.
    ///
    /// # Errors
    /// The system's: not all of it is in the file then, and nothing more goes in but by [`WavWriter::finish`].
    pub fn write(&mut self, samples: &[u8]) -> io::Result<()> {
        self.waiting.extend_from_slice(samples);
        if self.waiting.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut gone = 0;
        let flushed = loop {
            match self.file.write(&self.waiting[gone..]) {
                _ if gone == self.waiting.len() => break Ok(()),
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => gone += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.written += gone as u64;
        // What cannot be written is given up: it would keep what comes from its place.
        self.waiting.clear();
        flushed
    }

    /// Writes what waits, and says in the head how much there is; a file that is longer than its format can say goes until its end.
    /// Once; also behind an error, when what is there ends with a whole sample of every channel.
    ///
    /// # Errors
    /// The system's. The file is as whole as it can be also then.
    pub fn finish(&mut self) -> io::Result<()> {
        let flushed = self.flush();
        self.written -= self.written % self.format.frame_bytes();
        self.file.set_len(self.bytes())?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&self.head(u32::try_from(self.written).ok()))?;
        self.file.seek(SeekFrom::End(0))?;
        flushed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_test_support::program::Scratch;

    #[test]
    fn the_head_says_what_is_there() {
        let scratch = Scratch::new("wav-writer");
        let path = scratch.path().join("a.wav");
        let format = WavFormat { rate_hz: 48_000, channels: 2, sample_bytes: 3 };
        let mut writer = WavWriter::create(&path, format).unwrap();
        let samples: Vec<u8> = (0..100_000 * 6).map(|at| at as u8).collect();
        samples.chunks(7_777).for_each(|piece| writer.write(piece).unwrap());
        assert_eq!((writer.frames(), writer.bytes()), (100_000, 44 + 600_000));
        writer.finish().unwrap();
        let file = std::fs::read(&path).unwrap();
        assert_eq!((&file[44..], &file[40..44]), (&samples[..], &600_000u32.to_le_bytes()[..]));
        // Half a sample is none.
        let mut writer = WavWriter::create(&path, format).unwrap();
        writer.write(&samples[..600 * 6 + 4]).unwrap();
        writer.finish().unwrap();
        assert_eq!((std::fs::read(&path).unwrap().len(), writer.frames()), (44 + 3_600, 600));
    }
}
