//! Where received sound goes.

use super::sound_receive::{Heard, SoundSink};
use glassline_codec::audio::RATE_HZ;
use glassline_media::Time;
use glassline_media::container::wav;
use glassline_studio::capture::ParseError;
use glassline_studio::wav_writer::{WavFormat, WavWriter};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Of the sound that is played.
const CHANNELS: u8 = 2;
/// Bytes of a sample of each channel, as 16-bit integers.
const FRAME_BYTES: u64 = 2 * CHANNELS as u64;
/// A gap in the sound that is longer than this is silence in a file.
const GAP: Duration = Duration::from_millis(5);
/// A gap that is longer is of another run: it is left out.
const GAP_MAX: Duration = Duration::from_secs(600);

/// Where sound goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AudioOut {
    /// A WAVE file, 16 bits.
    Wav(PathBuf),
    /// Raw samples on an open file descriptor: s16le, 48 kHz, stereo.
    Fd(u32),
    /// An ALSA device.
    Alsa(String),
    /// Nowhere.
    Null,
}

impl FromStr for AudioOut {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<AudioOut, ParseError> {
        if text == "null:" {
            return Ok(AudioOut::Null);
        }
        if let Some(number) = text.strip_prefix("fd:") {
            let wrong = |_| ParseError::new(format!("{text:?}: fd: wants a number, as in fd:3"));
            return number.parse().map(AudioOut::Fd).map_err(wrong);
        }
        if let Some(device) = text.strip_prefix("alsa:") {
            if device.is_empty() || device.contains('\0') {
                return Err(ParseError::new(format!(
                    "{text:?} names no device; write alsa:default or alsa:hw:1,0 (aplay -L lists them)"
                )));
            }
            return Ok(AudioOut::Alsa(device.to_owned()));
        }
        let path = PathBuf::from(text);
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("wav")) {
            return Ok(AudioOut::Wav(path));
        }
        Err(ParseError::new(format!(
            "{text:?} is none of alsa:DEVICE, FILE.wav, fd:N (raw samples: s16le, 48 kHz, stereo) and null:"
        )))
    }
}

impl AudioOut {
    /// Opens it.
    ///
    /// # Errors
    /// The file's or the device's.
    pub fn open(&self) -> io::Result<Box<dyn SoundSink>> {
        Ok(match self {
            AudioOut::Null => Box::new(Null),
            AudioOut::Wav(path) => Box::new(Wav::create(path)?),
            AudioOut::Fd(1) => Box::new(Raw { output: Box::new(io::stdout()), bytes: Vec::new() }),
            AudioOut::Fd(number) => {
                let output = File::options().write(true).open(format!("/dev/fd/{number}"))?;
                Box::new(Raw { output: Box::new(output), bytes: Vec::new() })
            }
            AudioOut::Alsa(device) => {
                let device = device.clone();
                Box::new(Reopened::new(Box::new(move || open_alsa(&device)))?)
            }
        })
    }
}

/// From the failure of a device to the next try to open it again.
const AGAIN: Duration = Duration::from_secs(2);

/// What opens a sink again.
type Open = Box<dyn FnMut() -> io::Result<Box<dyn SoundSink>> + Send>;

/// A sink that is opened again where it fails: a device that was unplugged comes back.
struct Reopened {
    sink: Option<Box<dyn SoundSink>>,
    open: Open,
    /// When it is tried, by the sound's own time.
    again_at: Time,
    /// It was told that it cannot be opened.
    is_told: bool,
}

impl Reopened {
    fn new(mut open: Open) -> io::Result<Reopened> {
        Ok(Reopened { sink: Some(open()?), open, again_at: Time::ZERO, is_told: false })
    }

    fn try_open(&mut self, now: Time) {
        self.again_at = now + AGAIN;
        match (self.open)() {
            Ok(sink) => {
                tracing::info!("the sound device is there again");
                (self.sink, self.is_told) = (Some(sink), false);
            }
            Err(error) if !self.is_told => {
                self.is_told = true;
                tracing::warn!(%error, "the sound device does not open; trying on");
            }
            Err(_) => {}
        }
    }
}

impl SoundSink for Reopened {
    fn play(&mut self, heard: &Heard) -> io::Result<()> {
        let now = heard.block.captured;
        if self.sink.is_none() && now >= self.again_at {
            self.try_open(now);
        }
        let Some(sink) = &mut self.sink else { return Ok(()) };
        if let Err(error) = sink.play(heard) {
            tracing::warn!(%error, "the sound device has failed; it is opened again");
            (self.sink, self.again_at) = (None, now + AGAIN);
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.sink.as_mut().map_or(Ok(()), |sink| sink.finish())
    }
}

struct Null;

impl SoundSink for Null {
    fn play(&mut self, _: &Heard) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes samples when they are played.
struct Raw {
    output: Box<dyn Write + Send>,
    bytes: Vec<u8>,
}

impl SoundSink for Raw {
    fn play(&mut self, heard: &Heard) -> io::Result<()> {
        self.bytes.clear();
        wav::write_samples(&heard.block.samples, &mut self.bytes);
        self.output.write_all(&self.bytes)?;
        self.output.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Writes a WAVE file in which time passes as it did: where nothing was played there is silence.
struct Wav {
    file: WavWriter,
    /// When what follows is played.
    until: Option<Time>,
    bytes: Vec<u8>,
}

impl Wav {
    fn create(path: &Path) -> io::Result<Wav> {
        let format = WavFormat { rate_hz: RATE_HZ, channels: CHANNELS, sample_bytes: 2 };
        Ok(Wav { file: WavWriter::create(path, format)?, until: None, bytes: Vec::new() })
    }

    fn silence(&mut self, time: Duration) -> io::Result<()> {
        let frames = (time.as_nanos() * u128::from(RATE_HZ) / 1_000_000_000) as u64;
        let zeros = [0; 4096];
        let mut left = frames * FRAME_BYTES;
        while left > 0 {
            let part = left.min(zeros.len() as u64) as usize;
            self.file.write(zeros.get(..part).unwrap_or_default())?;
            left -= part as u64;
        }
        Ok(())
    }
}

impl SoundSink for Wav {
    fn play(&mut self, heard: &Heard) -> io::Result<()> {
        let block = &heard.block;
        if let Some(until) = self.until {
            let gap = block.captured.since(until);
            if gap > GAP && gap < GAP_MAX {
                self.silence(gap)?;
            }
        }
        let time = Duration::from_nanos(block.frames() as u64 * 1_000_000_000 / u64::from(RATE_HZ));
        self.until = Some(block.captured + time);
        self.bytes.clear();
        wav::write_samples(&block.samples, &mut self.bytes);
        self.file.write(&self.bytes)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.file.finish()
    }
}

#[cfg(feature = "alsa")]
fn open_alsa(device: &str) -> io::Result<Box<dyn SoundSink>> {
    struct Alsa(glassline_io::playback::Device);

    impl SoundSink for Alsa {
        fn play(&mut self, heard: &Heard) -> io::Result<()> {
            self.0.play(&heard.block.samples).map_err(io::Error::other)
        }

        fn finish(&mut self) -> io::Result<()> {
            let (ran_dry, left_out) = self.0.troubles();
            if ran_dry + left_out > 0 {
                tracing::info!(ran_dry, left_out, "the sound device and the sender differ in their clocks");
            }
            self.0.finish().map_err(io::Error::other)
        }
    }

    let device = glassline_io::playback::Device::open(device, RATE_HZ, CHANNELS).map_err(io::Error::other)?;
    Ok(Box::new(Alsa(device)))
}

#[cfg(not(feature = "alsa"))]
fn open_alsa(_: &str) -> io::Result<Box<dyn SoundSink>> {
    Err(io::Error::other(glassline_studio::capture::Error::AlsaNotBuiltIn))
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::AudioBlock;
    use glassline_media::container::wav::Reader;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn outputs_are_told_apart() {
        assert_eq!("fd:3".parse(), Ok(AudioOut::Fd(3)));
        assert_eq!("null:".parse(), Ok(AudioOut::Null));
        assert_eq!("alsa:default".parse(), Ok(AudioOut::Alsa("default".to_owned())));
        assert_eq!("a/b.WAV".parse(), Ok(AudioOut::Wav("a/b.WAV".into())));
        for (text, complaint) in
            [("fd:x", "number"), ("alsa:", "no device"), ("a.mp3", "none of"), ("-", "none of")]
        {
            let refused = text.parse::<AudioOut>().unwrap_err().to_string();
            assert!(refused.contains(complaint), "{refused}");
        }
    }

    #[test]
    fn a_device_that_fails_is_opened_again() {
        /// Plays so many blocks.
        struct Device(u32, Arc<AtomicU32>);

        impl SoundSink for Device {
            fn play(&mut self, _: &Heard) -> io::Result<()> {
                self.0 = self.0.checked_sub(1).ok_or_else(|| io::Error::other("unplugged"))?;
                self.1.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }

            fn finish(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        let (played, opened) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (count, tries) = (Arc::clone(&played), Arc::clone(&opened));
        let open: Open = Box::new(move || match tries.fetch_add(1, Ordering::Relaxed) {
            1 | 2 => Err(io::Error::other("not there")),
            _ => Ok(Box::new(Device(100, Arc::clone(&count)))),
        });
        let mut sink = Reopened::new(open).unwrap();
        // Ten seconds: one until it fails, tries after 2, 4 and 6 s, and the last works for a second again.
        for number in 0..800 {
            let at = Time::from_millis(10 * number);
            let block = AudioBlock { samples: vec![0.5; 960], channels: 2, rate_hz: RATE_HZ, captured: at };
            sink.play(&Heard { block, captured: at }).unwrap();
        }
        assert_eq!((opened.load(Ordering::Relaxed), played.load(Ordering::Relaxed)), (4, 200 - 100 + 100));
    }

    #[test]
    fn time_passes_in_a_file_as_it_did() {
        let path = std::env::temp_dir().join(format!("glassline-speaker-{}.wav", std::process::id()));
        let mut sink = AudioOut::Wav(path.clone()).open().unwrap();
        // 10 ms, 10 ms, a second of nothing, 10 ms.
        for millis in [0, 10, 1020] {
            let at = Time::from_millis(5_000 + millis);
            let block = AudioBlock { samples: vec![0.5; 960], channels: 2, rate_hz: RATE_HZ, captured: at };
            sink.play(&Heard { block, captured: at }).unwrap();
        }
        sink.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        let mut reader = Reader::new();
        let (mut rest, mut samples) = (&bytes[..], Vec::new());
        while let Some(block) = reader.parse(&mut rest).unwrap() {
            samples.extend(block.samples);
        }
        assert_eq!(samples.len(), 2 * 48 * 1030);
        assert_eq!(reader.header().unwrap().frames, Some(48 * 1030));
        assert!(samples[2 * 960] == 0.0 && samples[1900] > 0.4 && samples[2 * 48 * 1025] > 0.4);
    }

    fn heard(at: Time, frames: usize) -> Heard {
        let block =
            AudioBlock { samples: vec![0.5; 2 * frames], channels: 2, rate_hz: RATE_HZ, captured: at };
        Heard { block, captured: at }
    }

    /// The samples of each channel in a file of blocks of 10 ms that are played at these milliseconds.
    fn frames_of(millis: &[u64]) -> usize {
        let folder = glassline_test_support::program::Scratch::new("speaker");
        let path = PathBuf::from(folder.file("a.wav"));
        let mut sink = AudioOut::Wav(path.clone()).open().unwrap();
        for at in millis {
            sink.play(&heard(Time::from_millis(*at), 480)).unwrap();
        }
        sink.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let (mut reader, mut rest, mut samples) = (Reader::new(), &bytes[..], 0);
        while let Some(block) = reader.parse(&mut rest).unwrap() {
            samples += block.samples.len();
        }
        samples / 2
    }

    #[test]
    fn a_gap_is_silence_unless_it_is_too_short_to_be_one_or_of_another_run() {
        assert_eq!(frames_of(&[]), 0);
        assert_eq!(frames_of(&[0, 15]), 2 * 480, "5 ms are no gap");
        assert_eq!(frames_of(&[0, 16]), 2 * 480 + 6 * 48);
        assert_eq!(frames_of(&[0, 10 + 599_000]), 2 * 480 + 599 * 48_000);
        assert_eq!(frames_of(&[0, 10 + 600_000]), 2 * 480, "ten minutes are another run");
        assert_eq!(frames_of(&[1000, 0]), 2 * 480, "what was played before takes no time back");
    }

    #[test]
    fn raw_samples_are_16_bits_of_both_channels_as_they_are_played() {
        #[derive(Clone, Default)]
        struct Kept(Arc<std::sync::Mutex<Vec<u8>>>);

        impl Write for Kept {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap().write(bytes)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        let kept = Kept::default();
        let mut sink = Raw { output: Box::new(kept.clone()), bytes: Vec::new() };
        let mut block = heard(Time::ZERO, 2);
        block.block.samples = vec![0.0, 1.0, -1.0, 0.5];
        sink.play(&block).unwrap();
        sink.play(&heard(Time::ZERO, 0)).unwrap();
        sink.finish().unwrap();
        let bytes = kept.0.lock().unwrap().clone();
        let samples: Vec<i16> = bytes.chunks(2).map(|two| i16::from_le_bytes([two[0], two[1]])).collect();
        assert_eq!((samples.len(), samples[0]), (4, 0));
        assert!(
            samples[1] >= 32_766 && samples[2] <= -32_766 && (16_383..=16_384).contains(&samples[3]),
            "{samples:?}"
        );
    }

    #[test]
    fn what_cannot_be_opened_is_told() {
        assert!(AudioOut::Wav("/no/such/folder/a.wav".into()).open().is_err());
        assert!(AudioOut::Fd(9999).open().is_err());
        let mut nowhere = AudioOut::Null.open().unwrap();
        nowhere.play(&heard(Time::ZERO, 480)).unwrap();
        nowhere.finish().unwrap();
    }

    #[test]
    fn a_device_that_is_not_there_at_the_beginning_is_told_of() {
        assert!(Reopened::new(Box::new(|| Err(io::Error::other("not there")))).is_err());
        let mut away = Reopened::new(Box::new(|| Ok(Box::new(Null)))).unwrap();
        away.sink = None;
        away.again_at = Time::from_millis(10);
        away.play(&heard(Time::from_millis(9), 480)).unwrap();
        assert!(away.sink.is_none(), "its time has not come");
        away.finish().unwrap();
        away.play(&heard(Time::from_millis(10), 480)).unwrap();
        assert!(away.sink.is_some());
    }
}
