//! A load in this process, from the first viewer to the report, and how far it is meanwhile.

use crate::output;
use anyhow::Result;
use glassline_lab::load::{Load, Progress, Settings, Tally};
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a load goes on once all viewers have been asked to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Before figures count.
    pub(super) warm_up: Duration,
    /// While they do.
    pub(super) duration: Duration,
}

/// How soon a signal is heeded.
const STEP: Duration = Duration::from_millis(100);
/// How often the progress is told.
pub(super) const TELL: Duration = Duration::from_secs(1);

/// Lets the viewers come, watches them for as long as planned, or until `stop`, or until none is left. `tell` gets
/// the progress once a second.
pub(super) fn run(
    settings: Settings,
    plan: Plan,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<Tally> {
    let mut load = Load::new(settings)?;
    load.join();
    let mut told = Instant::now();
    let mut go_on = |load: &mut Load, time: Duration| -> Result<bool> {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(true);
            }
            load.run(left.min(STEP))?;
            if told.elapsed() >= TELL {
                told = Instant::now();
                tell(&load.progress())?;
            }
            if stop.load(Ordering::Relaxed) || load.is_over() {
                return Ok(false);
            }
        }
    };
    let mut on = true;
    while on && !load.has_joined() {
        on = go_on(&mut load, STEP)?;
    }
    if on && go_on(&mut load, plan.warm_up)? {
        load.begin_window();
        go_on(&mut load, plan.duration)?;
    }
    Ok(load.tally())
}

/// A line on standard error, written over once a second; only on a terminal.
pub(super) struct Line {
    shown: bool,
    began: Instant,
    bytes: u64,
    at: Instant,
}

impl Line {
    pub(super) fn new() -> Line {
        let now = Instant::now();
        Line { shown: io::stderr().is_terminal(), began: now, bytes: 0, at: now }
    }

    /// Tells how far it is.
    pub(super) fn show(&mut self, progress: &Progress) {
        if !self.shown {
            return;
        }
        let now = Instant::now();
        let seconds = (now - self.at).as_secs_f64().max(1e-3);
        let rate = progress.bytes.saturating_sub(self.bytes) as f64 * 8.0 / seconds / 1e6;
        (self.at, self.bytes) = (now, progress.bytes);
        let viewers = &progress.viewers;
        self.write(&format!(
            "{} viewers ({} waiting, {} refused, {} dropped), {rate:.1} Mbit/s, {} packets wrong",
            viewers.receiving, progress.waiting, viewers.refused, viewers.dropped, progress.errors
        ));
    }

    /// Shows how long it has been running, and `text`.
    pub(super) fn write(&mut self, text: &str) {
        if self.shown {
            output::show_progress(&format!("{:4} s: {text}", self.began.elapsed().as_secs()));
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.shown {
            output::clear_progress();
        }
    }
}
