//! A reader of a fetched stream: access units, each with when its first byte came.

use super::{Fetched, pauses::Pauses};
use glassline_io::clock::Clock;
use glassline_media::container::ts::Program;
use glassline_media::container::ts::demux::{Demuxer, Event, Follows};
use glassline_media::{AccessUnit, Ticks, Time};
use glassline_streams::{Entering, Read, Subscription};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
/// How often it is looked for a stream that has not begun.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How often in a row a stream may fail to be read: the system may have no memory for a moment.
const READ_TRIES: u32 = 10;
/// Units that are looked at as one burst at most, where a stream is entered.
const BURST_MAX: usize = 1 << 12;
/// A burst is no longer than this: times that lie further apart are of two clocks.
const BURST_MAX_TICKS: i64 = 60 * Ticks::RATE as i64;

/// What is next.
pub(in crate::capture) enum Next {
    /// The program is known, or another one than before.
    Program(Program),
    /// A unit.
    Unit {
        /// Its elementary stream.
        pid: u16,
        /// How it follows the one before it.
        follows: Follows,
        /// The unit, or the rest of one.
        unit: AccessUnit,
        /// When its first byte came; where the stream was entered further back, when it will have come by its time stamp.
        came: Time,
    },
    /// What follows is from another place of the stream, or from another session with the source.
    Gap,
    /// Nothing came for as long as the caller wanted to wait.
    Nothing,
}

/// Wakes the reading thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Made and used by one thread.
pub(in crate::capture) struct Reader {
    source: Arc<dyn Fetched>,
    clock: Clock,
    waker: Waker,
    subscription: Option<Subscription>,
    is_placed: bool,
    /// What was there already when the stream was entered is still being read.
    catches_up: bool,
    demuxer: Demuxer,
    buffer: Vec<u8>,
    found: VecDeque<Next>,
    pauses: Pauses,
    /// When the first byte came of the picture that has begun.
    began: Time,
    failures: u32,
    /// Where in the stream the last bytes stood that were read.
    read_from: u64,
}

impl Reader {
    /// Enters the stream at its newest key frame, once there is one.
    pub(in crate::capture) fn new(source: Arc<dyn Fetched>, clock: Clock) -> Reader {
        Reader {
            source,
            clock,
            waker: Waker::from(Arc::new(Unpark(thread::current()))),
            subscription: None,
            is_placed: false,
            catches_up: false,
            demuxer: Demuxer::new(),
            buffer: vec![0; READ_BYTES],
            found: VecDeque::new(),
            pauses: Pauses::default(),
            began: Time::ZERO,
            failures: 0,
            read_from: 0,
        }
    }

    /// Where in the stream what was given last has come from, at the latest.
    pub(in crate::capture) fn read_from(&self) -> u64 {
        self.read_from
    }

    /// How far the stream has been published.
    pub(in crate::capture) fn published(&self) -> u64 {
        let marks = self.subscription.as_ref().map(|it| it.live().marks());
        marks.and_then(|marks| marks.last().map(|mark| mark.offset)).unwrap_or_default()
    }

    /// Whether bytes have come, and no place to begin at.
    pub(in crate::capture) fn awaits_entry(&self) -> bool {
        !self.is_placed && self.subscription.as_ref().is_some_and(|it| it.live().bytes_in() > 0)
    }

    /// What is next. Waits for it, up to `patience`.
    ///
    /// # Errors
    /// The system cannot read memory that the stream is in.
    pub(in crate::capture) fn next(&mut self, patience: Duration) -> io::Result<Next> {
        let until = self.clock.now() + patience;
        loop {
            if self.catches_up && self.found.len() >= BURST_MAX {
                self.end_burst();
            }
            if !self.catches_up
                && let Some(next) = self.found.pop_front()
            {
                return Ok(next);
            }
            let Some(subscription) = &mut self.subscription else {
                let (streams, name) = (self.source.streams(), self.source.name());
                self.subscription = streams.subscribe(name, Entering::Newest, self.waker.clone());
                if self.subscription.is_none() && !self.wait(self.clock.now() + LOOK_AGAIN, until) {
                    return Ok(Next::Nothing);
                }
                continue;
            };
            let read = subscription.read(&mut self.buffer);
            let offset = subscription.offset();
            self.failures = if read.is_err() { self.failures + 1 } else { 0 };
            let has_caught_up = self.catches_up && !matches!(read, Ok(Read::Bytes(_) | Read::Entered { .. }));
            if has_caught_up {
                self.end_burst();
            }
            match read {
                Ok(Read::Entered { prelude, moved }) => {
                    self.is_placed = true;
                    self.catches_up = true;
                    if moved {
                        // Half a picture may be in it, which what comes now does not continue.
                        self.demuxer = Demuxer::new();
                    }
                    self.found.push_back(Next::Gap);
                    self.pauses.restart();
                    self.take(&prelude);
                }
                Ok(Read::Bytes(count)) => {
                    self.read_from = offset.saturating_sub(count as u64);
                    let buffer = std::mem::take(&mut self.buffer);
                    self.take(&buffer[..count]);
                    self.buffer = buffer;
                }
                Ok(Read::FellBehind) => self.is_placed = false,
                // What has been found goes first.
                Ok(Read::Pending) if has_caught_up => {}
                Ok(Read::Pending) => {
                    let whole_at = self.pauses.poll_timeout().filter(|_| self.demuxer.begun_bytes() > 0);
                    if whole_at.is_some_and(|at| at <= self.clock.now()) {
                        self.handle_pause();
                    } else if !self.wait(whole_at.unwrap_or(until), until) {
                        return Ok(Next::Nothing);
                    }
                }
                Ok(Read::Ended) => {
                    self.demuxer.finish();
                    self.gather(self.clock.now());
                    (self.subscription, self.is_placed) = (None, false);
                    self.demuxer = Demuxer::new();
                    self.found.push_back(Next::Gap);
                }
                Err(error) if self.failures >= READ_TRIES => return Err(error),
                Err(_) => {
                    if !self.wait(self.clock.now() + LOOK_AGAIN, until) {
                        return Ok(Next::Nothing);
                    }
                }
            }
        }
    }

    /// Waits for news, or until one of these times. Returns false at `until`.
    fn wait(&self, at: Time, until: Time) -> bool {
        let now = self.clock.now();
        if now >= until {
            return false;
        }
        thread::park_timeout(at.min(until).since(now));
        true
    }

    /// The source has paused for so long that the picture which has begun is whole by what is known of it.
    fn handle_pause(&mut self) {
        self.demuxer.pause();
        match self.gather(self.clock.now()) {
            (true, _) => {}
            (false, true) => self.pauses.handle_wrong_guess(),
            // What has begun is no picture yet.
            (false, false) => self.pauses.restart(),
        }
    }

    /// All has been read that was there when the stream was entered. It came in the course of its own time, and the last of it now.
    fn end_burst(&mut self) {
        self.catches_up = false;
        let now = self.clock.now();
        let decoded = |next: &Next| match next {
            Next::Unit { unit, .. } => Some(unit.dts),
            _ => None,
        };
        let Some(newest) = self.found.iter().filter_map(decoded).max() else { return };
        for next in &mut self.found {
            if let Next::Unit { unit, came, .. } = next {
                let ago = Some((newest - unit.dts).0).filter(|ticks| *ticks <= BURST_MAX_TICKS).unwrap_or(0);
                let ago = (ago as u64).saturating_mul(100_000) / 9;
                *came = Time::from_nanos(now.as_nanos().saturating_sub(ago));
            }
        }
    }

    /// Takes bytes that have come now.
    fn take(&mut self, bytes: &[u8]) {
        let now = self.clock.now();
        let before = self.demuxer.begun_bytes();
        let was_behind_pause = self.demuxer.is_behind_pause();
        if before == 0 || was_behind_pause {
            self.began = now;
        }
        self.demuxer.push(bytes);
        let (has_unit, has_rest) = self.gather(now);
        let begun = self.demuxer.begun_bytes();
        if has_rest {
            self.pauses.handle_wrong_guess();
        }
        let begins = if was_behind_pause {
            // Until another one begins, what comes is the rest of one that was taken for whole too early.
            !self.demuxer.is_behind_pause()
        } else if before > 0 {
            // One that began before has been given with the next one's first bytes.
            has_unit && begun > 0
        } else {
            has_unit || begun > 0
        };
        if begins && begun > 0 {
            self.began = now;
        }
        if !self.catches_up && (has_unit || has_rest || begun != before) {
            self.pauses.handle_bytes(begins, now);
        }
    }

    /// Gathers what the demuxer has found. Returns whether there are pictures, and whether there is the rest of one.
    fn gather(&mut self, now: Time) -> (bool, bool) {
        let (mut has_unit, mut has_rest) = (false, false);
        while let Some(event) = self.demuxer.poll() {
            self.found.push_back(match event {
                Event::Program(program) => Next::Program(program),
                Event::AccessUnit { pid, follows, unit, .. } if unit.codec.is_video() => {
                    // The first one that is given has begun before; those behind it have come just now.
                    let came = if has_unit { now } else { self.began };
                    has_rest |= follows == Follows::Rest;
                    has_unit |= follows != Follows::Rest;
                    Next::Unit { pid, follows, unit, came }
                }
                Event::AccessUnit { pid, follows, unit, .. } => Next::Unit { pid, follows, unit, came: now },
                Event::Data { .. } | Event::Pcr { .. } => continue,
            });
        }
        (has_unit, has_rest)
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
