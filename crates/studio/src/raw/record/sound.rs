//! Sound of a session description (ST 2110-30, AES67) into a WAVE file: every channel, every bit.

use super::Reason;
use crate::raw::datagrams::Datagrams;
use crate::raw::described::{self, Options};
use crate::wav_writer::{WavFormat, WavWriter};
use glassline_io::clock::Clock;
use glassline_media::Time;
use glassline_transport::rtp;
use glassline_transport::rtp::pcm::{self, Block, Counters, Depacketizer, Depth};
use glassline_transport::rtp::source::Origin;
use glassline_transport::sdp::{Audio, Flow};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long missing packets are waited for, at most: what is complete does not wait.
const REORDER: Duration = Duration::from_millis(20);
/// How often it is looked whether the end was asked for.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Nothing has come for so long: the sender has stopped, as far as a recording's length goes.
const STOPPED: Duration = Duration::from_millis(500);
/// Room in the kernel for packets that were not read yet.
const SOCKET_BYTES: usize = 1 << 22;

/// How far a recording of sound is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoundProgress {
    /// What has come.
    pub counters: Counters,
    /// Samples of each channel that are in the file.
    pub samples: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// A recording of sound that goes on.
pub struct SoundRecording {
    datagrams: Datagrams,
    depacketizer: Depacketizer,
    clock: Clock,
    rate_hz: u32,
    file: SoundFile,
}

/// When a recording of sound ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoundLimits {
    /// After so much sound.
    pub length: Option<Duration>,
    /// After nothing has come for so long.
    pub silence: Option<Duration>,
}

impl SoundRecording {
    /// Opens the sockets of `flow`, and the file, which is emptied.
    ///
    /// # Errors
    /// The system's, of either; what the sound is like where it is none that is taken.
    pub fn open(flow: &Flow, audio: &Audio, options: &Options, path: &Path) -> io::Result<SoundRecording> {
        let depth = if audio.bits == 16 { Depth::L16 } else { Depth::L24 };
        let format = pcm::Format::new(depth, audio.channels, audio.rate_hz)
            .map_err(|error| io::Error::new(io::ErrorKind::Unsupported, error))?;
        let window = if flow.paths.len() > 1 { options.skew } else { REORDER };
        let reorder = rtp::Settings { window, ..rtp::Settings::default() };
        let settings = pcm::Settings { format, payload_type: flow.payload_type, reorder };
        Ok(SoundRecording {
            file: SoundFile::create(path, depth, audio)?,
            datagrams: Datagrams::open(&described::paths(flow, options, SOCKET_BYTES))?,
            depacketizer: Depacketizer::new(settings).with_lock(described::lock(flow)),
            clock: Clock::new(),
            rate_hz: audio.rate_hz,
        })
    }

    /// How far it is.
    pub fn progress(&self) -> SoundProgress {
        let counters = self.depacketizer.counters();
        SoundProgress { counters, samples: self.file.wav.frames(), bytes: self.file.wav.bytes() }
    }

    /// Records until `stop` says so or one of `limits` is reached; `tell` is called some times a second. The file is whole then,
    /// also where that fails: its head says what is there.
    ///
    /// # Errors
    /// The disk's or the socket's.
    pub fn run(
        &mut self,
        limits: SoundLimits,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(SoundProgress),
    ) -> io::Result<Reason> {
        let recorded = self.record(limits, stop, tell);
        let finished = self.file.wav.finish();
        let reason = recorded?;
        finished.map(|()| reason)
    }

    fn record(
        &mut self,
        limits: SoundLimits,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(SoundProgress),
    ) -> io::Result<Reason> {
        let most = limits.length.map(|length| {
            (length.as_nanos() * u128::from(self.rate_hz) / 1_000_000_000).min(u64::MAX.into()) as u64
        });
        let (began, mut newest, mut first) = (self.clock.now(), None::<Time>, None::<Time>);
        loop {
            if stop.load(Ordering::Relaxed) {
                return Ok(Reason::Stopped);
            }
            let before = self.file.wav.frames();
            self.take(most)?;
            let now = self.clock.now();
            if self.file.wav.frames() > before {
                newest = Some(now);
                first.get_or_insert(now);
            }
            tell(self.progress());
            if most.is_some_and(|most| self.file.wav.frames() >= most) {
                return Ok(Reason::Length);
            }
            let silent = now.since(newest.unwrap_or(began));
            if limits.silence.is_some_and(|silence| silent >= silence) {
                return Ok(Reason::Silence);
            }
            let is_over = first.zip(limits.length).is_some_and(|(first, length)| now.since(first) >= length);
            if is_over && silent >= STOPPED {
                return Ok(Reason::SenderStopped);
            }
        }
    }

    /// Takes what comes within a moment.
    fn take(&mut self, most: Option<u64>) -> io::Result<()> {
        let now = self.clock.now();
        let due = self.depacketizer.poll_timeout().map_or(STOP_CHECK_INTERVAL, |due| due.since(now));
        let SoundRecording { datagrams, depacketizer, file, .. } = self;
        let mut written = Ok(());
        let mut write = |block: Block| {
            if written.is_ok() {
                written = file.write(&block, most);
            }
        };
        datagrams.receive(due.min(STOP_CHECK_INTERVAL), &mut |path, datagram| {
            let origin = Origin { path, address: datagram.from };
            // What is refused is counted.
            let _ = depacketizer.handle_datagram(datagram.bytes, origin, datagram.at, &mut write);
        })?;
        let now = self.clock.now();
        if depacketizer.poll_timeout().is_some_and(|due| due <= now) {
            depacketizer.handle_timeout(now, &mut write);
        }
        written
    }
}

struct SoundFile {
    wav: WavWriter,
    depth: Depth,
    channels: u8,
    buffer: Vec<u8>,
}

impl SoundFile {
    fn create(path: &Path, depth: Depth, audio: &Audio) -> io::Result<SoundFile> {
        let (channels, rate_hz) = (audio.channels, audio.rate_hz);
        let format = WavFormat { rate_hz, channels, sample_bytes: depth.bytes() as u8 };
        Ok(SoundFile { wav: WavWriter::create(path, format)?, depth, channels, buffer: Vec::new() })
    }

    /// Appends a block, as far as `most` samples of each channel go.
    fn write(&mut self, block: &Block, most: Option<u64>) -> io::Result<()> {
        let room = most.map_or(u64::MAX, |most| most.saturating_sub(self.wav.frames()));
        let frames = (block.audio.frames() as u64).min(room);
        let samples = block.audio.samples.get(..frames as usize * usize::from(self.channels));
        self.buffer.clear();
        // As it comes in RTP, and the other way round: WAVE is little-endian.
        self.depth.encode(samples.unwrap_or_default(), &mut self.buffer);
        self.buffer.chunks_exact_mut(self.depth.bytes()).for_each(<[u8]>::reverse);
        self.wav.write(&self.buffer)
    }
}

#[cfg(test)]
#[path = "sound_tests.rs"]
mod tests;
