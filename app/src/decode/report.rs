//! What was decoded, and how long it took.

use crate::durations::{Durations, Milliseconds};
use anyhow::{Context, Result};
use glassline_codec::vp8::{self, Decoded};
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
    pub(super) losses: Losses,
}

/// What of a damaged file is not there, or not as it was.
#[derive(Debug, Default)]
pub(super) struct Losses {
    undecodable: u64,
    /// The number of the first of them, and why.
    first: Option<(u64, vp8::Error)>,
    /// Places where bytes are no frames, and how many these are.
    places: u64,
    bytes: u64,
    /// The file ends within a frame, of which so much is there.
    cut_bytes: Option<u64>,
    /// Shown pictures that are predicted from what is not as it was.
    affected: u64,
    /// Something was lost since the last key frame.
    is_affected: bool,
}

impl Losses {
    /// So many bytes are no frames.
    pub(super) fn passed_over(&mut self, bytes: u64) {
        self.places += 1;
        self.bytes += bytes;
        self.is_affected = true;
    }

    /// The file ends within a frame.
    pub(super) fn cut(&mut self, bytes: u64) {
        self.cut_bytes = Some(bytes);
    }

    /// What was lost, of so many frames; `None` where nothing was.
    pub(super) fn sentence(&self, frames: u64) -> Option<String> {
        let count = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let mut parts = Vec::new();
        if let Some((number, error)) = &self.first {
            parts.push(format!(
                "{} of {frames} could not be decoded (the first is frame {number}: {error})",
                count(self.undecodable, "frame")
            ));
        }
        if self.places > 0 {
            parts.push(format!(
                "frames are missing at {}, where {} are none",
                count(self.places, "place"),
                count(self.bytes, "byte")
            ));
        }
        if let Some(bytes) = self.cut_bytes {
            parts.push(format!(
                "the file is cut within its last frame, of which {} are there",
                count(bytes, "byte")
            ));
        }
        if self.affected > 0 {
            let pictures = count(self.affected, "picture");
            parts.push(format!("{pictures} behind that may show traces of it, up to the next key frame"));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
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
    /// Frames that could not be decoded, which `frames` counts too.
    undecodable_frames: u64,
    /// Places where the file has bytes that are no frames, its end within a frame too.
    damaged_places: u64,
    /// Shown pictures that are predicted from what was lost.
    affected_pictures: u64,
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
            losses: Losses::default(),
        }
    }

    pub(super) fn decoded(&mut self, decoded: &Decoded, bytes: usize, took: Duration) {
        self.frames += 1;
        self.bytes += bytes as u64;
        self.key_frames += u64::from(decoded.key);
        self.decoding += took;
        self.times.push(took);
        self.losses.is_affected &= !decoded.key;
        if let Some(picture) = &decoded.picture {
            self.shown += 1;
            self.losses.affected += u64::from(self.losses.is_affected);
            self.size = Some(picture.size());
        }
    }

    /// A frame could not be decoded.
    pub(super) fn undecodable(&mut self, error: &vp8::Error) {
        self.losses.first.get_or_insert_with(|| (self.frames, error.clone()));
        self.losses.undecodable += 1;
        self.losses.is_affected = true;
        self.frames += 1;
    }

    pub(super) fn finish(&mut self, now: Time) {
        self.total = now - self.started;
    }

    fn frames_per_s(&self) -> Option<f64> {
        let seconds = self.decoding.as_secs_f64();
        let decoded = self.frames - self.losses.undecodable;
        (seconds > 0.0 && decoded > 0).then(|| decoded as f64 / seconds)
    }

    /// For people: one line.
    pub(super) fn line(&self) -> String {
        let Some(rate) = self.frames_per_s() else { return "glassline: no frames\n".to_owned() };
        let size = self.size.map(|size| format!(" of {size}")).unwrap_or_default();
        format!(
            "glassline: {} frames{size} decoded in {:.2} s ({rate:.0} frames/s), {} shown\n",
            self.frames - self.losses.undecodable,
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
            undecodable_frames: self.losses.undecodable,
            damaged_places: self.losses.places + u64::from(self.losses.cut_bytes.is_some()),
            affected_pictures: self.losses.affected,
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
