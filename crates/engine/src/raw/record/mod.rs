//! A stream of uncompressed video into a file.
//!
//! ```text
//!   Receiver ─► frames that wait, as many as its pool has ─► Writer ─► disk     (a thread of its own)
//! ```
//! A disk that stalls makes frames wait; once the pool is full whole frames are lost and counted, and no packet of others.

#[cfg(test)]
mod tests;
mod writer;

pub use writer::{Container, Raw, WriteError, Writer};

use super::receive::{Receiver, Report, Watch};
use glassline_media::{Stage, Stamps};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// How often a recording that nothing comes to looks at what it was told.
const PATIENCE: Duration = Duration::from_millis(100);
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

#[derive(Debug, Default)]
struct Counts {
    frames: AtomicU64,
    bytes: AtomicU64,
    nanos: AtomicU64,
    /// Of [`Progress::received_after`]; [`UNKNOWN`] where that is not known.
    received_after_nanos: AtomicU64,
}

const UNKNOWN: u64 = u64::MAX;

/// A recording that goes on.
pub struct Recording {
    watch: Watch,
    counts: Arc<Counts>,
    ended: mpsc::Receiver<io::Result<u64>>,
}

impl Recording {
    /// Writes what `receiver` gives until it is stopped, or `length` of it is there.
    ///
    /// # Errors
    /// Where there is no thread to be had.
    pub fn start(receiver: Receiver, writer: Writer, length: Option<Duration>) -> io::Result<Recording> {
        let received_after_nanos = AtomicU64::new(UNKNOWN);
        let counts = Arc::new(Counts { received_after_nanos, ..Counts::default() });
        let watch = receiver.watch();
        let (end, ended) = mpsc::channel();
        let in_thread = counts.clone();
        thread::Builder::new().name("recording".to_owned()).spawn(move || {
            let written = record(receiver, writer, length, &in_thread);
            // Nobody may wait for it any more.
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

    /// Waits for its end, for `timeout` at most; gives the file's bytes then.
    ///
    /// # Errors
    /// Why it has ended early: the disk's words, or the socket's.
    pub fn wait(&self, timeout: Duration) -> Option<io::Result<u64>> {
        match self.ended.recv_timeout(timeout) {
            Ok(ended) => Some(ended),
            Err(mpsc::RecvTimeoutError::Timeout) => None,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Some(Err(io::Error::other("the thread that writes has panicked")))
            }
        }
    }
}

fn record(
    mut receiver: Receiver,
    mut writer: Writer,
    length: Option<Duration>,
    counts: &Counts,
) -> io::Result<u64> {
    let mut media = MediaTime::default();
    loop {
        match receiver.next(PATIENCE) {
            Ok(None) => {}
            Ok(Some(frame)) => {
                let frame_time = writer.rate().time_of(1);
                let at = media.push(frame.timestamp, frame_time);
                // Half a frame's time less, for stamps are rounded.
                if length.is_some_and(|length| at + frame_time / 2 >= length && at > Duration::ZERO) {
                    break;
                }
                let stamps = Stamps::captured_at(frame.picture.captured).with(Stage::Received, frame.ended);
                let received_after = stamps.between(Stage::Captured, Stage::Received);
                let nanos = received_after
                    .filter(|_| frame.is_related)
                    .map_or(UNKNOWN, |after| after.as_nanos() as u64);
                counts.received_after_nanos.store(nanos, Ordering::Relaxed);
                writer.write(&frame.picture)?;
                counts.frames.fetch_add(1, Ordering::Relaxed);
                counts.bytes.store(writer.bytes(), Ordering::Relaxed);
                let nanos = (at + frame_time).as_nanos();
                counts.nanos.store(u64::try_from(nanos).unwrap_or(u64::MAX), Ordering::Relaxed);
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
    }
    receiver.stop();
    let bytes = writer.finish()?;
    counts.bytes.store(bytes, Ordering::Relaxed);
    Ok(bytes)
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
