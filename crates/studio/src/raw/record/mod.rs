//! A stream of uncompressed video into a file.
//!
//! ```text
//!   Receiver ─► frames that wait, as many as its pool has ─► Writer ─► disk     (a thread of its own)
//! ```
//! A disk that stalls makes frames wait; once the pool is full whole frames are lost and counted, and no packet of others.

mod sound;
#[cfg(test)]
mod tests;
mod writer;

pub use sound::{SoundLimits, SoundProgress, SoundRecording};
pub use writer::{Container, Kept, Raw, WriteError, Writer};

use super::receive::{Receiver, Report, Watch};
use glassline_media::{Stage, Stamps};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// How often a recording that nothing comes to looks at what it was told.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// A sender from which no frame has come for so long has stopped, as far as a recording's length goes: a frame of the slowest rate
/// there is for pictures that move, and what a receiver waits for the last packets of one.
const STOPPED: Duration = Duration::from_millis(500);
/// The clock of video (ST 2110-20 §6.1.3).
const TICKS_A_SECOND: u64 = 90_000;
/// A stream that was away for longer has begun anew.
const STEP_MAX_TICKS: u32 = 60 * TICKS_A_SECOND as u32;

/// How far a recording is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// What has come.
    pub received: Report,
    /// Frames that were written, or counted where nothing is written.
    pub frames: u64,
    /// Bytes in the file.
    pub bytes: u64,
    /// Frames that wait to be written.
    pub queued: u64,
    /// From the first frame's time stamp to the end of the newest one.
    pub length: Duration,
    /// From the newest frame's capture to when its last packet was here; `None` where its time stamp does not tell the capture, or
    /// the two machines' clocks make no sense of it.
    pub received_after: Option<Duration>,
}

/// When a recording ends by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// How long the recording becomes, from its first frame on: by the time stamps of the stream, and, where frames have
    /// stopped coming, by the time that has passed.
    pub length: Option<Duration>,
    /// It ends where no frame has come for so long, be it the first one or one more.
    pub silence: Option<Duration>,
}

/// Why a recording has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It has the length that was asked for.
    Length,
    /// The time that was asked for has passed, and the sender had stopped before.
    SenderStopped,
    /// No frame came for as long as [`Limits::silence`] says.
    Silence,
    /// It was [stopped](Recording::stop).
    Stopped,
}

/// How a recording has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Bytes in the file.
    pub bytes: u64,
    /// Why.
    pub reason: Reason,
}

#[derive(Debug, Default)]
struct Counts {
    frames: AtomicU64,
    bytes: AtomicU64,
    nanos: AtomicU64,
    /// Of [`Progress::received_after`]; [`UNKNOWN`] where that is not known.
    received_after_nanos: AtomicU64,
}

impl Counts {
    /// The disk has failed, and has this.
    fn keep(&self, kept: Kept, frame_time: Duration) {
        self.frames.store(kept.frames, Ordering::Relaxed);
        self.bytes.store(kept.bytes, Ordering::Relaxed);
        let nanos = frame_time.as_nanos().saturating_mul(kept.frames.into());
        self.nanos.store(u64::try_from(nanos).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

const UNKNOWN: u64 = u64::MAX;

/// A recording that goes on.
pub struct Recording {
    watch: Watch,
    counts: Arc<Counts>,
    ended: mpsc::Receiver<io::Result<Ended>>,
}

impl Recording {
    /// Writes what `receiver` gives until it is stopped, or one of `limits` is reached.
    ///
    /// # Errors
    /// Where there is no thread to be had.
    pub fn start(receiver: Receiver, writer: Writer, limits: Limits) -> io::Result<Recording> {
        let received_after_nanos = AtomicU64::new(UNKNOWN);
        let counts = Arc::new(Counts { received_after_nanos, ..Counts::default() });
        let watch = receiver.watch();
        let (end, ended) = mpsc::channel();
        let in_thread = counts.clone();
        thread::Builder::new().name("recording".to_owned()).spawn(move || {
            let written = record(receiver, writer, limits, &in_thread);
            // It fails where the recording was dropped, and the result is not needed.
            let _ = end.send(written);
        })?;
        Ok(Recording { watch, counts, ended })
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let received = self.watch.report();
        let frames = self.counts.frames.load(Ordering::Relaxed);
        let received_after = self.counts.received_after_nanos.load(Ordering::Relaxed);
        Progress {
            received,
            frames,
            bytes: self.counts.bytes.load(Ordering::Relaxed),
            queued: received.frames().saturating_sub(frames),
            length: Duration::from_nanos(self.counts.nanos.load(Ordering::Relaxed)),
            received_after: (received_after != UNKNOWN).then(|| Duration::from_nanos(received_after)),
        }
    }

    /// Tells it to end: what has come is still written.
    pub fn stop(&self) {
        self.watch.stop();
    }

    /// Waits for its end, for `timeout` at most; `None` where it goes on.
    ///
    /// # Errors
    /// Why it has ended early: the disk's words, or the socket's.
    pub fn wait(&self, timeout: Duration) -> Option<io::Result<Ended>> {
        match self.ended.recv_timeout(timeout) {
            Ok(ended) => Some(ended),
            Err(mpsc::RecvTimeoutError::Timeout) => None,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Some(Err(io::Error::other("the thread that writes has panicked")))
            }
        }
    }
}

fn record(mut receiver: Receiver, mut writer: Writer, limits: Limits, counts: &Counts) -> io::Result<Ended> {
    let mut media = MediaTime::default();
    let mut passed = Passed { began: Instant::now(), first: None, newest: None };
    let reason = loop {
        match receiver.next(passed.longest_wait(limits)) {
            Ok(None) => {
                if let Some(reason) = passed.end(limits, Instant::now()) {
                    break reason;
                }
            }
            Ok(Some(frame)) => {
                let frame_time = writer.rate().time_of(1);
                let at = media.push(frame.timestamp, frame_time);
                // Half a frame's time less, for stamps are rounded.
                let is_enough = |length: Duration| at + frame_time / 2 >= length && at > Duration::ZERO;
                if limits.length.is_some_and(is_enough) {
                    break Reason::Length;
                }
                let stamps = Stamps::captured_at(frame.picture.captured).with(Stage::Received, frame.ended);
                let received_after = stamps.between(Stage::Captured, Stage::Received);
                let nanos = received_after
                    .filter(|_| frame.is_related)
                    .map_or(UNKNOWN, |after| after.as_nanos() as u64);
                counts.received_after_nanos.store(nanos, Ordering::Relaxed);
                if let Err(error) = writer.write(&frame.picture) {
                    let frame_time = writer.rate().time_of(1);
                    counts.keep(writer.keep(), frame_time);
                    return Err(error);
                }
                counts.frames.fetch_add(1, Ordering::Relaxed);
                counts.bytes.store(writer.bytes(), Ordering::Relaxed);
                let nanos = (at + frame_time).as_nanos();
                counts.nanos.store(u64::try_from(nanos).unwrap_or(u64::MAX), Ordering::Relaxed);
                // After the disk has taken it: frames that waited meanwhile are there at the next call.
                passed.note(Instant::now());
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break Reason::Stopped,
            Err(error) => return Err(error),
        }
    };
    receiver.stop();
    let frame_time = writer.rate().time_of(1);
    let bytes = writer.finish().map_err(|(error, kept)| {
        counts.keep(kept, frame_time);
        error
    })?;
    counts.bytes.store(bytes, Ordering::Relaxed);
    Ok(Ended { bytes, reason })
}

/// Time as the machine has it, since a stream that has stopped has no time stamps any more.
struct Passed {
    began: Instant,
    /// When the first frame was there, and the newest one.
    first: Option<Instant>,
    newest: Option<Instant>,
}

impl Passed {
    fn note(&mut self, now: Instant) {
        self.first.get_or_insert(now);
        self.newest = Some(now);
    }

    /// How long a frame is waited for before the limits are looked at.
    fn longest_wait(&self, limits: Limits) -> Duration {
        let all = [limits.length.filter(|_| self.first.is_some()), limits.silence];
        all.into_iter().flatten().fold(STOP_CHECK_INTERVAL, Duration::min)
    }

    /// Whether a recording that no frame has come to ends now.
    fn end(&self, limits: Limits, now: Instant) -> Option<Reason> {
        let silent = now.duration_since(self.newest.unwrap_or(self.began));
        if limits.silence.is_some_and(|silence| silent >= silence) {
            return Some(Reason::Silence);
        }
        let passed = now.duration_since(self.first?);
        let is_over = limits.length.is_some_and(|length| passed >= length);
        (is_over && silent >= STOPPED).then_some(Reason::SenderStopped)
    }
}

/// Time since the first frame, by RTP time stamps.
#[derive(Debug, Default)]
struct MediaTime {
    last: Option<u32>,
    passed: Duration,
}

impl MediaTime {
    /// When the frame of a stamp is; one that is no later than the last, or much later, begins anew a frame's time behind it.
    fn push(&mut self, timestamp: u32, frame_time: Duration) -> Duration {
        if let Some(last) = self.last {
            let ticks = timestamp.wrapping_sub(last);
            let is_next = ticks > 0 && ticks <= STEP_MAX_TICKS;
            let step = Duration::from_nanos(u64::from(ticks) * 1_000_000_000 / TICKS_A_SECOND);
            self.passed += if is_next { step } else { frame_time };
        }
        self.last = Some(timestamp);
        self.passed
    }
}

#[cfg(test)]
#[path = "limits_tests.rs"]
mod limits_tests;
