//! The programs on both sides, and what ends a run before its time.

use anyhow::{Context, Result, bail, ensure};
use glassline_io::child::{self, Signal, Signals};
use std::cell::Cell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// How often is looked whether something is there.
const STEP: Duration = Duration::from_millis(10);

/// A program that ends with this value at the latest, with all that it has started.
#[derive(Debug)]
pub(super) struct Program {
    name: &'static str,
    child: Child,
    errors: PathBuf,
}

impl Program {
    /// Starts it. What it says on standard error goes to `errors`.
    pub(super) fn start(name: &'static str, command: &mut Command, errors: PathBuf) -> Result<Program> {
        use std::os::unix::process::CommandExt;
        let file = File::create(&errors).with_context(|| format!("cannot write {}", errors.display()))?;
        command.stderr(Stdio::from(file)).process_group(0);
        let child = child::spawn_with_capabilities(command)
            .with_context(|| format!("cannot start {}", Path::new(command.get_program()).display()))?;
        Ok(Program { name, child, errors })
    }

    /// Its standard input, once.
    pub(super) fn input(&mut self) -> Result<ChildStdin> {
        self.child.stdin.take().with_context(|| format!("{} has no input", self.name))
    }

    /// Its standard output, once.
    pub(super) fn output(&mut self) -> Result<ChildStdout> {
        self.child.stdout.take().with_context(|| format!("{} has no output", self.name))
    }

    /// What it has said on standard error.
    pub(super) fn said(&self) -> String {
        std::fs::read(&self.errors)
            .map_or_else(|_| String::new(), |text| String::from_utf8_lossy(&text).into_owned())
    }

    /// An error where it has ended: it has to run until the caller ends it.
    pub(super) fn check(&mut self) -> Result<()> {
        match self.child.try_wait().context("cannot wait for a program")? {
            None => Ok(()),
            Some(status) => bail!("{} ended with {status}: {}", self.name, self.last_words()),
        }
    }

    /// The last line that it has said, which mostly tells why it ended.
    pub(super) fn last_words(&self) -> String {
        let said = self.said();
        said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").to_owned()
    }

    /// Asks it to end, as Ctrl+C does.
    pub(super) fn interrupt(&self) {
        child::send_to_group(&self.child, Signal::INT);
    }

    /// Waits for its end.
    pub(super) fn finish(&mut self, timeout: Duration, watch: &Watch<'_>) -> Result<()> {
        let until = Instant::now() + timeout;
        loop {
            if let Some(status) = self.child.try_wait().context("cannot wait for a program")? {
                ensure!(status.success(), "{} ended with {status}: {}", self.name, self.last_words());
                return Ok(());
            }
            ensure!(Instant::now() < until, "{} does not end", self.name);
            watch.pause(STEP)?;
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        child::send_to_group(&self.child, Signal::KILL);
        let _ = self.child.wait();
    }
}

/// What is looked at while something is waited for: signals that ask for the end.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    signals: &'a Signals,
    is_over: Cell<bool>,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(signals: &'a Signals) -> Watch<'a> {
        Watch { signals, is_over: Cell::new(false) }
    }

    /// Waits a moment.
    ///
    /// # Errors
    /// Where a signal asks for the end, or has done so before.
    pub(crate) fn pause(&self, time: Duration) -> Result<()> {
        std::thread::sleep(time);
        while let Some(caught) = self.signals.next() {
            if [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].contains(&caught.signal) {
                self.is_over.set(true);
            }
        }
        ensure!(!self.is_over.get(), "a signal ended the experiment");
        Ok(())
    }

    /// Waits until `found` gives something, which `what` names.
    ///
    /// # Errors
    /// Where that takes longer than `timeout`, where `found` fails, or a signal asks for the end.
    pub(crate) fn until<T>(
        &self,
        what: &str,
        timeout: Duration,
        mut found: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let until = Instant::now() + timeout;
        loop {
            if let Some(value) = found()? {
                return Ok(value);
            }
            ensure!(Instant::now() < until, "waited {} s in vain for {what}", timeout.as_secs());
            self.pause(STEP)?;
        }
    }
}
