//! What was decoded, and how long it took.

use crate::durations::{Durations, Milliseconds};
use anyhow::{Context, Result};
use glassline_codec::vp8::Decoded;
use glassline_io::clock::Clock;
use glassline_media::{Size, Time};
use serde::Serialize;
use std::time::Duration;

pub(super) struct Report {
    input: String,
    started: Time,
    /// From start to end, with reading and writing.
    total: Duration,
    /// Time in the decoder alone.
    decoding: Duration,
    times: Durations,
    pub(super) frames: u64,
    shown: u64,
    key_frames: u64,
    bytes: u64,
    size: Option<Size>,
}

/// What `--json` writes.
#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    input: &'a str,
    /// Of the last picture.
    width: Option<u32>,
    height: Option<u32>,
    frames: u64,
    shown: u64,
    key_frames: u64,
    bytes: u64,
    decode_s: f64,
    frames_per_s: Option<f64>,
    decode_ms: Milliseconds,
    total_s: f64,
}

impl Report {
    pub(super) fn new(input: &str) -> Report {
        Report {
            input: input.to_owned(),
            started: Clock.now(),
            total: Duration::ZERO,
            decoding: Duration::ZERO,
            times: Durations::new(),
            frames: 0,
            shown: 0,
            key_frames: 0,
            bytes: 0,
            size: None,
        }
    }

    pub(super) fn decoded(&mut self, decoded: &Decoded, bytes: usize, took: Duration) {
        self.frames += 1;
        self.bytes += bytes as u64;
        self.key_frames += u64::from(decoded.key);
        self.decoding += took;
        self.times.push(took);
        if let Some(picture) = &decoded.picture {
            self.shown += 1;
            self.size = Some(picture.size());
        }
    }

    pub(super) fn finish(&mut self, now: Time) {
        self.total = now - self.started;
    }

    fn frames_per_s(&self) -> Option<f64> {
        let seconds = self.decoding.as_secs_f64();
        (seconds > 0.0 && self.frames > 0).then(|| self.frames as f64 / seconds)
    }

    /// For people: one line.
    pub(super) fn line(&self) -> String {
        let Some(rate) = self.frames_per_s() else { return "glassline: no frames\n".to_owned() };
        let size = self.size.map(|size| format!(" of {size}")).unwrap_or_default();
        format!(
            "glassline: {} frames{size} decoded in {:.2} s ({rate:.0} frames/s), {} shown\n",
            self.frames,
            self.decoding.as_secs_f64(),
            self.shown
        )
    }

    pub(super) fn json(&self) -> Result<String> {
        let json = Json {
            schema: 1,
            input: &self.input,
            width: self.size.map(|size| size.width),
            height: self.size.map(|size| size.height),
            frames: self.frames,
            shown: self.shown,
            key_frames: self.key_frames,
            bytes: self.bytes,
            decode_s: self.decoding.as_secs_f64(),
            frames_per_s: self.frames_per_s(),
            decode_ms: self.times.milliseconds(),
            total_s: self.total.as_secs_f64(),
        };
        let mut text = serde_json::to_string_pretty(&json).context("cannot write JSON")?;
        text.push('\n');
        Ok(text)
    }
}
