//! Sound of a session description (ST 2110-30, AES67) into a WAVE file: every channel, every bit.

use super::Reason;
use crate::raw::datagrams::Datagrams;
use crate::raw::described::{self, Options};
use glassline_io::clock::Clock;
use glassline_media::Time;
use glassline_media::container::wav;
use glassline_transport::rtp;
use glassline_transport::rtp::pcm::{self, Block, Counters, Depacketizer, Depth};
use glassline_transport::rtp::source::Origin;
use glassline_transport::sdp::{Audio, Flow};
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long missing packets are waited for, at most: what is complete does not wait.
const REORDER: Duration = Duration::from_millis(20);
/// How often it is looked whether the end was asked for.
const PATIENCE: Duration = Duration::from_millis(100);
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
    file: WavWriter,
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
            file: WavWriter::create(path, depth, audio.channels, audio.rate_hz)?,
            datagrams: Datagrams::open(&described::paths(flow, options, SOCKET_BYTES))?,
            depacketizer: Depacketizer::new(settings).with_lock(described::lock(flow)),
            clock: Clock::new(),
            rate_hz: audio.rate_hz,
        })
    }

    /// How far it is.
    pub fn progress(&self) -> SoundProgress {
        let counters = self.depacketizer.counters();
        SoundProgress { counters, samples: self.file.samples, bytes: self.file.bytes() }
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
        let finished = self.file.finish();
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
            let before = self.file.samples;
            self.take(most)?;
            let now = self.clock.now();
            if self.file.samples > before {
                newest = Some(now);
                first.get_or_insert(now);
            }
            tell(self.progress());
            if most.is_some_and(|most| self.file.samples >= most) {
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
        let due = self.depacketizer.poll_timeout().map_or(PATIENCE, |due| due.since(now));
        let SoundRecording { datagrams, depacketizer, file, .. } = self;
        let mut written = Ok(());
        let mut write = |block: Block| {
            if written.is_ok() {
                written = file.write(&block, most);
            }
        };
        datagrams.receive(due.min(PATIENCE), &mut |path, datagram| {
            let origin = Origin { path, address: datagram.from };
            // What is refused is counted.
            let _ = depacketizer.handle_datagram(datagram.bytes, (origin, datagram.at), &mut write);
        })?;
        let now = self.clock.now();
        if depacketizer.poll_timeout().is_some_and(|due| due <= now) {
            depacketizer.handle_timeout(now, &mut write);
        }
        written
    }
}

struct WavWriter {
    file: BufWriter<File>,
    depth: Depth,
    channels: u8,
    rate_hz: u32,
    samples: u64,
    buffer: Vec<u8>,
}

impl WavWriter {
    fn create(path: &Path, depth: Depth, channels: u8, rate_hz: u32) -> io::Result<WavWriter> {
        let mut file = BufWriter::with_capacity(1 << 18, File::create(path)?);
        file.write_all(&wav::head_of(rate_hz, channels, depth.bytes() as u8, None))?;
        Ok(WavWriter { file, depth, channels, rate_hz, samples: 0, buffer: Vec::new() })
    }

    fn data_bytes(&self) -> u64 {
        self.samples * self.depth.bytes() as u64 * u64::from(self.channels)
    }

    fn bytes(&self) -> u64 {
        self.data_bytes() + wav::HEAD_BYTES as u64
    }

    /// Appends a block, as far as `most` samples of each channel go.
    fn write(&mut self, block: &Block, most: Option<u64>) -> io::Result<()> {
        let room = most.map_or(u64::MAX, |most| most.saturating_sub(self.samples));
        let frames = (block.audio.frames() as u64).min(room);
        let samples = block.audio.samples.get(..frames as usize * usize::from(self.channels));
        self.buffer.clear();
        // As it comes in RTP, and the other way round: WAVE is little-endian.
        self.depth.encode(samples.unwrap_or_default(), &mut self.buffer);
        self.buffer.chunks_exact_mut(self.depth.bytes()).for_each(<[u8]>::reverse);
        self.file.write_all(&self.buffer)?;
        self.samples += frames;
        Ok(())
    }

    /// Says in the head how much there is. A file that is longer than its format can say goes until its end.
    fn finish(&mut self) -> io::Result<()> {
        let bytes = u32::try_from(self.data_bytes()).ok();
        let flushed = self.file.flush();
        let file = self.file.get_mut();
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&wav::head_of(self.rate_hz, self.channels, self.depth.bytes() as u8, bytes))?;
        flushed
    }
}
