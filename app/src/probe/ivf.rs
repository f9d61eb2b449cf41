//! What is in an IVF file: frames, key frames, sizes, rate. Of VP8, each frame's clear bytes are read; nothing is
//! decoded.

use super::source::Source;
use super::{Progress, READ_BYTES};
use crate::layout::{clean, facts, warnings};
use crate::{failure, output};
use anyhow::{Context, Result};
use glassline_codec::vp8::{FrameTag, KeyTag};
use glassline_inspect::transport_stream::SCHEMA;
use glassline_inspect::{Distribution, Samples};
use glassline_io::clock::Clock;
use glassline_media::Time;
use glassline_media::container::ivf::{Frame, Header, Reader};
use glassline_media::container::ivf_rate::{PictureRate, is_shown};
use serde::Serialize;
use std::io;

/// The report; `--json` writes exactly this.
#[derive(Clone, Debug, Serialize)]
pub(super) struct IvfReport {
    pub(super) schema: u32,
    pub(super) source: String,
    /// "ivf".
    pub(super) kind: &'static str,
    pub(super) bytes: u64,
    /// The codec's four characters.
    pub(super) codec: String,
    /// Of the newest key frame, or of the file's header.
    pub(super) width_px: u16,
    pub(super) height_px: u16,
    /// Time stamps a second, by the file's header.
    pub(super) declared_frame_rate_hz: f64,
    /// Pictures a second, by their time stamps.
    pub(super) frame_rate_hz: f64,
    pub(super) frames: u64,
    /// From the first time stamp to one picture behind the last.
    pub(super) duration_s: f64,
    pub(super) bitrate_bps: Option<f64>,
    pub(super) frame_bytes: Option<Distribution>,
    /// Of VP8 alone.
    pub(super) vp8: Option<Vp8Report>,
    pub(super) warnings: Vec<String>,
}

/// What the frames of VP8 say in clear.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Vp8Report {
    pub(super) key_frames: u64,
    pub(super) key_frame_interval_frames: Option<Distribution>,
    /// Frames that are not meant to be seen, and those that the encoder dropped.
    pub(super) hidden_frames: u64,
    pub(super) empty_frames: u64,
    /// Bitstream versions that occur: 0 to 3.
    pub(super) versions: Vec<u8>,
    /// How often a key frame has another size than the one before it.
    pub(super) size_changes: u64,
    /// 0 none, 1 by 5/4, 2 by 5/3, 3 by 2.
    pub(super) horizontal_scale: u8,
    pub(super) vertical_scale: u8,
    pub(super) damaged_frames: u64,
}

/// Reads to the end and prints the report.
pub(super) fn run(target: &str, mut source: Source, json: bool) -> Result<()> {
    let mut progress = Progress::new(&source);
    let mut reader = Reader::new();
    let mut analysis = Analysis::default();
    let mut buffer = vec![0; READ_BYTES];
    let no_ivf = |error| failure::failed(error, "is it whole, and IVF?");
    loop {
        let count = match source.reader.read(&mut buffer, Time::NEVER) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error).with_context(|| format!("cannot read {target}")),
        };
        if count == 0 {
            break;
        }
        analysis.bytes += count as u64;
        let mut rest = &buffer[..count];
        while let Some(frame) = reader.parse(&mut rest).map_err(no_ivf)? {
            analysis.push(&frame, reader.header().is_some_and(|header| header.codec == Header::VP8));
        }
        progress.update(analysis.bytes, Clock.now());
    }
    drop(progress);
    let Some(header) = reader.header() else {
        return Err(failure::failed(format!("{target} ends inside its header"), "is it whole?"));
    };
    let cut = reader.finish().err().map(|error| error.to_string());
    let report = analysis.report(target, header, cut);
    if json {
        let mut text = serde_json::to_string_pretty(&report).context("cannot write JSON")?;
        text.push('\n');
        return output::print(&text);
    }
    output::print(&table(&report))
}

#[derive(Default)]
struct Analysis {
    bytes: u64,
    frames: u64,
    frame_bytes: Samples,
    total_frame_bytes: u64,
    /// First and last time stamp.
    stamps: Option<(u64, u64)>,
    stamps_back: u64,
    /// Of shown pictures.
    rate: PictureRate,
    vp8: Vp8Report,
    key_intervals: Samples,
    last_key: Option<(u64, KeyTag)>,
}

impl Analysis {
    fn push(&mut self, frame: &Frame, is_vp8: bool) {
        let stamp = frame.time_stamp;
        let (first, last) = self.stamps.unwrap_or((stamp, stamp));
        self.stamps_back += u64::from(stamp < last);
        self.stamps = Some((first, last.max(stamp)));
        self.frame_bytes.push(frame.bytes.len() as f64);
        self.total_frame_bytes += frame.bytes.len() as u64;
        let number = self.frames;
        self.frames += 1;
        if !is_vp8 || is_shown(frame.bytes.first()) {
            self.rate.push(stamp);
        }
        if !is_vp8 {
            return;
        }
        if frame.bytes.is_empty() {
            self.vp8.empty_frames += 1;
            return;
        }
        let Ok(tag) = FrameTag::parse(&frame.bytes) else {
            self.vp8.damaged_frames += 1;
            return;
        };
        self.vp8.hidden_frames += u64::from(!tag.shown);
        if let Err(at) = self.vp8.versions.binary_search(&tag.version) {
            self.vp8.versions.insert(at, tag.version);
        }
        let Some(key) = tag.key else { return };
        self.vp8.key_frames += 1;
        if let Some((before, size)) = self.last_key {
            self.key_intervals.push((number - before) as f64);
            self.vp8.size_changes += u64::from((size.width, size.height) != (key.width, key.height));
        }
        (self.vp8.horizontal_scale, self.vp8.vertical_scale) = (key.horizontal_scale, key.vertical_scale);
        self.last_key = Some((number, key));
    }

    fn report(self, target: &str, header: &Header, cut: Option<String>) -> IvfReport {
        let (declared, rate) = (header.rate.as_f64(), self.rate.rate(header.rate).as_f64());
        let duration_s =
            self.stamps.map_or(0.0, |(first, last)| (last - first) as f64 / declared + 1.0 / rate);
        let mut vp8 = self.vp8;
        vp8.key_frame_interval_frames = self.key_intervals.distribution(|value| value);
        let mut warnings = Vec::from_iter(cut);
        if header.frames != 0 && u64::from(header.frames) != self.frames {
            warnings.push(format!("the header counts {} frames, there are {}", header.frames, self.frames));
        }
        if self.stamps_back > 0 {
            warnings.push(format!("time stamps go back {} times", self.stamps_back));
        }
        let is_vp8 = header.codec == Header::VP8;
        if is_vp8 && vp8.damaged_frames > 0 {
            warnings.push(format!("{} frames do not begin as VP8 does", vp8.damaged_frames));
        }
        if is_vp8 && self.frames > 0 && self.last_key.is_none() {
            warnings.push("there is no key frame: nothing can be decoded".to_owned());
        }
        let size = self.last_key.map(|(_, key)| (key.width, key.height));
        let (width_px, height_px) = size.unwrap_or((header.width, header.height));
        IvfReport {
            schema: SCHEMA,
            source: target.to_owned(),
            kind: "ivf",
            bytes: self.bytes,
            codec: header.codec.escape_ascii().to_string(),
            width_px,
            height_px,
            declared_frame_rate_hz: declared,
            frame_rate_hz: rate,
            frames: self.frames,
            duration_s,
            bitrate_bps: (duration_s > 0.0).then(|| self.total_frame_bytes as f64 * 8.0 / duration_s),
            frame_bytes: self.frame_bytes.distribution(|value| value),
            vp8: is_vp8.then_some(vp8),
            warnings,
        }
    }
}

fn table(report: &IvfReport) -> String {
    let mut lines = vec![
        ("Video", format!("{}, {}x{}", report.codec, report.width_px, report.height_px)),
        (
            "Frames",
            format!(
                "{}, {:.2} s at {} frames/s",
                report.frames,
                report.duration_s,
                (report.frame_rate_hz * 1e3).round() / 1e3
            ),
        ),
    ];
    if let Some(rate) = report.bitrate_bps {
        lines.push(("Bit rate", format!("{:.1} kb/s", rate / 1e3)));
    }
    if let Some(size) = &report.frame_bytes {
        let text =
            format!("p50 {:.0}, p95 {:.0}, p99 {:.0}, max {:.0}", size.p50, size.p95, size.p99, size.max);
        lines.push(("Frame bytes", text));
    }
    if let Some(vp8) = &report.vp8 {
        let interval =
            vp8.key_frame_interval_frames.map(|interval| format!(", one in {:.1} frames", interval.mean));
        lines.push(("Key frames", format!("{}{}", vp8.key_frames, interval.unwrap_or_default())));
        let versions: Vec<String> = vp8.versions.iter().map(ToString::to_string).collect();
        lines.push(("Version", versions.join(", ")));
        for (name, count) in [
            ("Hidden frames", vp8.hidden_frames),
            ("Empty frames", vp8.empty_frames),
            ("Size changes", vp8.size_changes),
        ] {
            if count > 0 {
                lines.push((name, count.to_string()));
            }
        }
        if (vp8.horizontal_scale, vp8.vertical_scale) != (0, 0) {
            let scale = |code: u8| ["1", "5/4", "5/3", "2"][usize::from(code & 3)];
            let (across, down) = (scale(vp8.horizontal_scale), scale(vp8.vertical_scale));
            lines.push(("To be shown", format!("enlarged by {across} x {down}")));
        }
    }
    format!("{}\n\n{}\n{}", clean(&report.source), facts(&lines), warnings(&report.warnings))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use glassline_media::FrameRate;

    /// A report of two key frames of different sizes and what lies between them.
    pub(in super::super) fn report() -> IvfReport {
        let key = |width: u8| vec![0x10, 0, 0, 0x9d, 1, 0x2a, width, 0x40, 16, 0];
        let header = Header {
            codec: Header::VP8,
            width: 9,
            height: 9,
            rate: FrameRate::new(30, 1).unwrap(),
            frames: 6,
        };
        let mut analysis = Analysis::default();
        let frames = [key(32), vec![0x11, 0, 0], vec![0x01, 0, 0], vec![], vec![0xff, 0, 0], key(48)];
        for (number, bytes) in frames.into_iter().enumerate() {
            analysis.push(&Frame { time_stamp: number as u64, bytes: bytes.into() }, true);
        }
        analysis.report("a.ivf", &header, None)
    }

    #[test]
    fn frames_are_counted_by_what_they_are() {
        let report = report();
        assert_eq!((report.width_px, report.height_px, report.frames), (48, 16, 6));
        assert!((report.duration_s - 0.2).abs() < 1e-9);
        let vp8 = report.vp8.as_ref().unwrap();
        assert_eq!((vp8.key_frames, vp8.hidden_frames, vp8.empty_frames), (2, 1, 1));
        assert_eq!((vp8.size_changes, vp8.damaged_frames, &vp8.versions[..]), (1, 1, &[0][..]));
        assert_eq!(vp8.key_frame_interval_frames.unwrap().mean, 5.0);
        assert_eq!(vp8.horizontal_scale, 1);
        assert_eq!(report.warnings, ["1 frames do not begin as VP8 does"]);
        let text = table(&report);
        assert!(text.contains("VP80, 48x16") && text.contains("enlarged by 5/4 x 1"), "{text}");
    }
}
