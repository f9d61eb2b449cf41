//! A stream that is read from an address of SRT, by a thread that waits for it.

use super::line::{Line, LineStatus, LineUse};
use glassline_io::clock::Clock;
use glassline_media::Time;
use glassline_transport::srt::{Address, Connection};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Bytes that wait to be read, at most: what comes after that is left out and counted.
const WAITING_MAX: usize = 32 << 20;

#[derive(Default)]
struct Waiting {
    bytes: VecDeque<u8>,
    left_out: u64,
    /// Why the connection has ended or did not come about; it is tried again.
    error: Option<String>,
    has_ended: bool,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    news: Condvar,
}

/// What comes from an address of SRT: one connection, which ends the stream when it ends.
pub struct SrtReader {
    shared: Arc<Shared>,
    line: Line,
}

struct Take(Arc<Shared>, bool);

impl LineUse for Take {
    fn begin(&mut self) {}

    fn work(&mut self, connection: &mut Connection, now: Time) -> Option<String> {
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let has_come = connection.deliver(now, |payload, _| {
            if waiting.bytes.len() + payload.len() <= WAITING_MAX {
                waiting.bytes.extend(payload);
            } else {
                waiting.left_out += 1;
            }
        });
        if has_come {
            self.0.news.notify_all();
        }
        None
    }

    fn end(&mut self, why: &str) {
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.error = Some(why.to_owned());
        waiting.has_ended = true;
        self.1 = true;
        self.0.news.notify_all();
    }

    fn is_finished(&self) -> bool {
        self.1
    }
}

impl SrtReader {
    /// Begins to connect.
    ///
    /// # Errors
    /// The system has no descriptors, or no thread.
    pub fn open(address: Address) -> io::Result<SrtReader> {
        let shared = Arc::new(Shared::default());
        let line = Line::start(address, |_| Take(Arc::clone(&shared), false))?;
        Ok(SrtReader { shared, line })
    }

    /// Reads some bytes; 0 at the end.
    ///
    /// # Errors
    /// `TimedOut` where nothing comes until `deadline`; `NotConnected`, with the reason in words, where there was no connection.
    pub fn read(&mut self, into: &mut [u8], deadline: Time) -> io::Result<usize> {
        let clock = Clock::new();
        let mut waiting = self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if !waiting.bytes.is_empty() {
                let count = into.len().min(waiting.bytes.len());
                for (byte, taken) in into.iter_mut().zip(waiting.bytes.drain(..count)) {
                    *byte = taken;
                }
                return Ok(count);
            }
            if waiting.has_ended {
                let had_connection = self.line.status().connections > 0;
                let why = waiting.error.clone().unwrap_or_default();
                return if had_connection {
                    Ok(0)
                } else {
                    Err(io::Error::new(io::ErrorKind::NotConnected, why))
                };
            }
            let now = clock.now();
            if now >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let waited = self.shared.news.wait_timeout(waiting, deadline.since(now));
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// How the connection does.
    pub fn status(&self) -> LineStatus {
        self.line.status()
    }

    /// Payloads that were left out, since they were not read in time.
    pub fn left_out(&self) -> u64 {
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner).left_out
    }
}
