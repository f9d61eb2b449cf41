//! A serial line that may go away and come back: a plug that is pulled, a device that starts again.

use glassline_io::serial;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a line that has gone is tried.
const TRY_EVERY: Duration = Duration::from_millis(500);

/// A line that an input and an output may share.
#[derive(Debug)]
pub struct Line {
    device: PathBuf,
    baud: u32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// `None` while it is away.
    file: Option<Arc<File>>,
    /// How often it was opened, by which an older file is told from this one.
    opened: u64,
    tried_at: Instant,
    /// Messages that could not be written while it was away.
    dropped: u64,
}

/// The line as it was opened once.
#[derive(Clone, Debug)]
pub struct Opened {
    file: Arc<File>,
    number: u64,
}

impl Opened {
    /// What is written to and read from.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }
}

impl Line {
    /// Opens the line, which has to be there.
    ///
    /// # Errors
    /// As those of [`serial::open`].
    pub fn open(device: &Path, baud: u32) -> io::Result<Arc<Line>> {
        let file = Some(Arc::new(serial::open(device, baud)?));
        let state = State { file, opened: 1, tried_at: Instant::now(), dropped: 0 };
        Ok(Arc::new(Line { device: device.to_owned(), baud, state: Mutex::new(state) }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The line, opened again if it had gone and is back; `None` while it is away.
    pub fn opened(&self) -> Option<Opened> {
        let mut state = self.lock();
        if state.file.is_none() && state.tried_at.elapsed() >= TRY_EVERY {
            state.tried_at = Instant::now();
            // Whatever the reason is, it may pass: the device is not there yet, or not ours yet.
            if let Ok(file) = serial::open(&self.device, self.baud) {
                state.file = Some(Arc::new(file));
                state.opened += 1;
                let dropped = std::mem::take(&mut state.dropped);
                tracing::info!(dropped, "the serial line {} is back", self.device.display());
            }
        }
        Some(Opened { file: Arc::clone(state.file.as_ref()?), number: state.opened })
    }

    /// The line has gone, as reading or writing what was `opened` has told.
    pub fn handle_gone(&self, opened: &Opened) {
        let mut state = self.lock();
        if state.opened == opened.number && state.file.take().is_some() {
            state.tried_at = Instant::now();
            tracing::warn!(
                "the serial line {} has gone; it is opened again when it is back, and what comes for it until then is dropped",
                self.device.display()
            );
        }
    }

    /// A message could not be written.
    pub fn count_dropped(&self) {
        self.lock().dropped += 1;
    }
}

/// Reads a line until it goes away.
#[derive(Debug)]
pub struct LineReader {
    line: Arc<Line>,
    opened: Opened,
    has_gone: bool,
}

impl LineReader {
    /// A reader of the line; waits until it is there.
    pub fn new(line: &Arc<Line>) -> LineReader {
        loop {
            if let Some(opened) = line.opened() {
                return LineReader { line: Arc::clone(line), opened, has_gone: false };
            }
            std::thread::sleep(TRY_EVERY);
        }
    }

    /// Whether the line has gone since this reader was made.
    pub fn has_gone(&self) -> bool {
        self.has_gone
    }

    /// A reader of the same line once it is back.
    pub fn again(&self) -> LineReader {
        LineReader::new(&self.line)
    }
}

impl Read for LineReader {
    /// Nothing where the line has gone.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let has_gone = match (&*self.opened.file).read(into) {
            Ok(length) if length > 0 || into.is_empty() => return Ok(length),
            Ok(_) => true,
            Err(error) if serial::is_gone(&error) => true,
            Err(error) => return Err(error),
        };
        self.has_gone = has_gone;
        self.line.handle_gone(&self.opened);
        Ok(0)
    }
}

#[cfg(test)]
#[path = "serial_line_tests.rs"]
mod tests;
