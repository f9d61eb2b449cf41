//! What was encoded, how large it is, and how long it took.

use crate::durations::{Durations, Milliseconds};
use crate::output;
use anyhow::{Context, Result};
use glassline_studio::capture::Format;
use glassline_studio::output::Target;
use serde::Serialize;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// How often the progress line changes.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// What became of a picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coded {
    pub(super) bytes: usize,
    pub(super) key: bool,
    pub(super) quantizer: u8,
    /// It was encoded more than once: it was larger than there was room for.
    pub(super) again: bool,
    /// From picture to bytes.
    pub(super) took: Duration,
    /// Processor time for it, of all threads.
    pub(super) cpu: Duration,
}

/// Figures of a run.
pub(super) struct Report {
    output: String,
    format: Format,
    frames: u64,
    bytes: u64,
    key_frames: u64,
    again: u64,
    quantizers: u64,
    took: Duration,
    cpu: Duration,
    times: Durations,
    /// When the progress line was last written, on a terminal.
    shown: Option<Instant>,
}

/// What `--json` writes.
#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    output: &'a str,
    codec: &'static str,
    width: u32,
    height: u32,
    frame_rate: f64,
    frames: u64,
    bytes: u64,
    kbps: f64,
    key_frames: u64,
    mean_quantizer: Option<f64>,
    encoded_again: u64,
    late_frames: Option<u64>,
    encode_ms: Milliseconds,
    encode_s: f64,
    cpu_s: f64,
}

impl Report {
    pub(super) fn new(output: &Target, format: Format) -> Report {
        Report {
            output: output.to_string(),
            format,
            frames: 0,
            bytes: 0,
            key_frames: 0,
            again: 0,
            quantizers: 0,
            took: Duration::ZERO,
            cpu: Duration::ZERO,
            times: Durations::new(),
            shown: std::io::stderr().is_terminal().then(Instant::now),
        }
    }

    /// Pictures so far.
    pub(super) fn frames(&self) -> u64 {
        self.frames
    }

    pub(super) fn coded(&mut self, coded: &Coded) {
        self.frames += 1;
        self.bytes += coded.bytes as u64;
        self.key_frames += u64::from(coded.key);
        self.again += u64::from(coded.again);
        self.quantizers += u64::from(coded.quantizer);
        self.took += coded.took;
        self.cpu += coded.cpu;
        self.times.push(coded.took);
        if self.shown.is_some_and(|shown| shown.elapsed() >= PROGRESS_INTERVAL) {
            self.shown = Some(Instant::now());
            output::show_progress(&self.progress());
        }
    }

    fn progress(&self) -> String {
        format!("{} pictures, {:.0} kbit/s, {:.0} a second", self.frames, self.kbps(), self.frames_per_s())
    }

    /// Of the stream's own time; without the container.
    fn kbps(&self) -> f64 {
        let seconds = self.frames as f64 / self.format.rate.as_f64();
        if self.frames == 0 { 0.0 } else { self.bytes as f64 * 8.0 / 1000.0 / seconds }
    }

    fn frames_per_s(&self) -> f64 {
        let seconds = self.took.as_secs_f64();
        if seconds > 0.0 { self.frames as f64 / seconds } else { 0.0 }
    }

    /// For people: one line.
    pub(super) fn line(&mut self, late: Option<u64>) -> String {
        self.clear_progress();
        let late = late.filter(|&late| late > 0).map_or(String::new(), |late| {
            format!("; {late} too large for the buffer: the rate is too low for these pictures")
        });
        format!(
            "glassline: {} pictures of {} encoded in {:.2} s ({:.0} a second), {} kB, {:.1} kbit/s{late}\n",
            self.frames,
            self.format.size,
            self.took.as_secs_f64(),
            self.frames_per_s(),
            self.bytes.div_ceil(1000),
            self.kbps()
        )
    }

    /// For programs.
    pub(super) fn json(&mut self, late_frames: Option<u64>) -> Result<String> {
        self.clear_progress();
        let json = Json {
            schema: 1,
            output: &self.output,
            codec: "vp8",
            width: self.format.size.width,
            height: self.format.size.height,
            frame_rate: self.format.rate.as_f64(),
            frames: self.frames,
            bytes: self.bytes,
            kbps: self.kbps(),
            key_frames: self.key_frames,
            mean_quantizer: (self.frames > 0).then(|| self.quantizers as f64 / self.frames as f64),
            encoded_again: self.again,
            late_frames,
            encode_ms: self.times.milliseconds(),
            encode_s: self.took.as_secs_f64(),
            cpu_s: self.cpu.as_secs_f64(),
        };
        Ok(serde_json::to_string_pretty(&json).context("cannot write JSON")? + "\n")
    }

    fn clear_progress(&mut self) {
        if self.shown.take().is_some() {
            output::clear_progress();
        }
    }
}
