//! What `send-raw` tells of a run: a line each second, and a report.

use crate::output;
use anyhow::{Context, Result};
use glassline_media::{Chroma, FrameRate, PixelFormat, Size};
use glassline_studio::raw::send::{CaptionStatistics, Class, Launch, Monitor, RawSender, Statistics};
use glassline_transport::raw_video::{Format, Scan};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often the line changes.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// What is known before anything is sent.
pub(super) struct Report {
    format: Format,
    rate: Option<FrameRate>,
    packets: usize,
    kept: Option<usize>,
    sound_channels: Option<u8>,
    has_time_code: bool,
    has_captions: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    width: u32,
    height: u32,
    format: String,
    scan: &'static str,
    frame_rate: Option<String>,
    frame_packets: usize,
    /// Frames that were sent from memory.
    kept_frames: Option<usize>,
    frames: u64,
    packets: u64,
    bytes: u64,
    seconds: f64,
    gbit_per_s: f64,
    frames_per_s: f64,
    late_packets: u64,
    late_us: Option<f64>,
    burst_packets: usize,
    burst_late_us: Option<Microseconds>,
    cinst: Option<u32>,
    vrx: Option<u32>,
    class: Option<&'static str>,
    late_frames: u64,
    dropped_frames: u64,
    full_sockets: u64,
    failed_packets: u64,
    failure: Option<String>,
    /// What could not be sent of the pictures, by path.
    paths: Vec<PathJson<'a>>,
    launch_times: Vec<LaunchJson<'a>>,
    launch_errors: u64,
    clock_steps: u64,
    is_real_time: bool,
    sound: Option<SoundJson<'a>>,
    ancillary: Option<AncillaryJson<'a>>,
}

#[derive(Serialize)]
struct PathJson<'a> {
    to: &'a str,
    failed_packets: u64,
    failure: Option<&'a str>,
}

#[derive(Serialize)]
struct SoundJson<'a> {
    channels: u8,
    packets: u64,
    bytes: u64,
    late_packets: u64,
    late_us: f64,
    dropped_samples: u64,
    failed_packets: u64,
    failure: Option<&'a str>,
}

#[derive(Serialize)]
struct AncillaryJson<'a> {
    packets: u64,
    failed_packets: u64,
    failure: Option<&'a str>,
    captions: Option<CaptionJson<'a>>,
}

#[derive(Serialize)]
struct CaptionJson<'a> {
    /// Those that had some.
    frames: u64,
    dropped_triplets: u64,
    failure: Option<&'a str>,
}

#[derive(Serialize)]
struct Microseconds {
    p50: f64,
    p99: f64,
    max: f64,
}

#[derive(Serialize)]
struct LaunchJson<'a> {
    used: bool,
    why: &'a str,
}

impl Report {
    pub(super) fn of(sender: &RawSender) -> Report {
        let (format, rate, packets, kept) = (sender.format(), sender.rate(), sender.packets(), sender.kept());
        let (sound_channels, has_time_code) = (sender.sound_channels(), sender.has_time_code());
        let has_captions = sender.has_captions();
        Report { format, rate, packets, kept, sound_channels, has_time_code, has_captions }
    }

    /// What is about to be sent, on one line.
    pub(super) fn begin(&self) -> String {
        let Size { width, height } = self.format.size();
        let rate = self.rate.map_or_else(
            || "as many frames as leave".to_owned(),
            |rate| format!("{} frames a second", shown(rate)),
        );
        let kept = self.kept.map(|kept| format!(", {kept} frames from memory")).unwrap_or_default();
        let (name, scan) = (name(self.format.pixels()), scan(self.format.scan()));
        let sound =
            self.sound_channels.map(|channels| format!(", sound of {} beside them", channels_of(channels)));
        let sound = sound.unwrap_or_default();
        let code = match (self.has_time_code, self.has_captions) {
            (false, false) => "",
            (true, false) => ", their time code too",
            (false, true) => ", their captions too",
            (true, true) => ", their time code and captions too",
        };
        format!(
            "sending {width}x{height} {name} {scan}, {rate}, {} packets a frame{kept}{sound}{code}",
            self.packets
        )
    }

    /// For people.
    pub(super) fn text(&self, statistics: &Statistics) -> String {
        let Statistics { frames, packets, duration, late_packets, .. } = statistics;
        let seconds = duration.as_secs_f64();
        let gbit = gbit_per_s(statistics);
        let mut text =
            format!("glassline: {frames} frames, {packets} packets in {seconds:.1} s, {gbit:.3} Gbit/s\n");
        if let Some(class) = statistics.class {
            let late = if *late_packets > 0 {
                format!("{late_packets} packets late, by up to {}", micros(statistics.latest))
            } else {
                "no packet late".to_owned()
            };
            let (p50, p99) = (statistics.bursts.quantile(0.5), statistics.bursts.quantile(0.99));
            let most = statistics.bursts.quantile(1.0);
            let _ = writeln!(
                text,
                "  schedule: {late}; bursts of up to {} packets left {} behind their time (p99 {}, at most {})",
                statistics.burst_packets,
                micros(p50),
                micros(p99),
                micros(most)
            );
            let (cinst, vrx) = (statistics.cinst, statistics.vrx);
            let _ = writeln!(text, "  class reached: {}; Cinst {cinst}, VRX {vrx} packets", sentence(class));
        }
        for (path, launch) in (1..).zip(&statistics.launches) {
            let Launch { is_used, reason } = launch;
            let path = if statistics.launches.len() > 1 { format!(" of path {path}") } else { String::new() };
            let used = if *is_used { "used" } else { "not used" };
            let _ = writeln!(text, "  launch times{path}: {used}: {reason}");
        }
        for (count, one, many) in [
            (
                statistics.late_frames,
                "frame was not there when it was due",
                "frames were not there when they were due",
            ),
            (
                statistics.dropped_frames,
                "picture was left out, since its source or we were late",
                "pictures were left out, since their source or we were late",
            ),
            (
                statistics.full_sockets,
                "time a socket was full and was waited for",
                "times a socket was full and was waited for",
            ),
            (
                statistics.launch_errors,
                "packet was not sent at its launch time",
                "packets were not sent at their launch time",
            ),
            (
                statistics.clock_steps,
                "time the wall clock was set, and time stamps with it",
                "times the wall clock was set, and time stamps with it",
            ),
        ] {
            if count > 0 {
                let _ = writeln!(text, "  {}", counted(count, one, many));
            }
        }
        if let Some(sound) = &statistics.sound {
            let late = if sound.late_packets > 0 {
                format!("{} late, by up to {}", sound.late_packets, micros(sound.latest))
            } else {
                "none late".to_owned()
            };
            let _ = writeln!(
                text,
                "  sound of {}: {} packets, {late}",
                channels_of(sound.channels),
                sound.packets
            );
            if sound.dropped_samples > 0 {
                let _ = writeln!(text, "  {} samples of sound were left out", sound.dropped_samples);
            }
        }
        if let Some(ancillary) = &statistics.ancillary {
            let _ = writeln!(text, "  {}: {} packets", ancillary.what(), ancillary.packets);
            ancillary.captions.iter().for_each(|captions| tell_captions(&mut text, captions));
        }
        let beside = [
            statistics.sound.as_ref().map(|it| ("sound", it.failed_packets, it.failure.as_deref())),
            statistics.ancillary.as_ref().map(|it| (it.what(), it.failed_packets, it.failure.as_deref())),
        ];
        for (what, count, why) in beside.into_iter().flatten().filter(|(_, count, _)| *count > 0) {
            let _ =
                writeln!(text, "  {count} packets of {what} could not be sent: {}", why.unwrap_or("unknown"));
        }
        for path in statistics.paths.iter().filter(|path| path.failed_packets > 0) {
            let (failed, why) = (path.failed_packets, path.failure.as_deref().unwrap_or("unknown"));
            let _ = writeln!(text, "  {failed} packets could not be sent to {}: {why}", path.to);
        }
        text
    }

    pub(super) fn json(&self, statistics: &Statistics) -> Result<String> {
        let us = |time: Duration| time.as_nanos() as f64 / 1e3;
        let quantile = |share| us(statistics.bursts.quantile(share));
        let has_schedule = statistics.class.is_some();
        let late = Microseconds { p50: quantile(0.5), p99: quantile(0.99), max: quantile(1.0) };
        let seconds = statistics.duration.as_secs_f64();
        let json = Json {
            schema: 1,
            width: self.format.size().width,
            height: self.format.size().height,
            format: name(self.format.pixels()),
            scan: scan(self.format.scan()),
            frame_rate: self.rate.map(|rate| rate.to_string()),
            frame_packets: self.packets,
            kept_frames: self.kept,
            frames: statistics.frames,
            packets: statistics.packets,
            bytes: statistics.bytes,
            seconds,
            gbit_per_s: gbit_per_s(statistics),
            frames_per_s: if seconds > 0.0 { statistics.frames as f64 / seconds } else { 0.0 },
            late_packets: statistics.late_packets,
            late_us: has_schedule.then(|| us(statistics.latest)),
            burst_packets: statistics.burst_packets,
            burst_late_us: has_schedule.then_some(late),
            cinst: has_schedule.then_some(statistics.cinst),
            vrx: has_schedule.then_some(statistics.vrx),
            class: statistics.class.map(class_name),
            late_frames: statistics.late_frames,
            dropped_frames: statistics.dropped_frames,
            full_sockets: statistics.full_sockets,
            failed_packets: statistics.failed_packets(),
            failure: statistics.failure(),
            paths: statistics
                .paths
                .iter()
                .map(|path| PathJson {
                    to: &path.to,
                    failed_packets: path.failed_packets,
                    failure: path.failure.as_deref(),
                })
                .collect(),
            launch_times: statistics
                .launches
                .iter()
                .map(|launch| LaunchJson { used: launch.is_used, why: &launch.reason })
                .collect(),
            launch_errors: statistics.launch_errors,
            clock_steps: statistics.clock_steps,
            is_real_time: statistics.is_real_time,
            sound: statistics.sound.as_ref().map(|sound| SoundJson {
                channels: sound.channels,
                packets: sound.packets,
                bytes: sound.bytes,
                late_packets: sound.late_packets,
                late_us: us(sound.latest),
                dropped_samples: sound.dropped_samples,
                failed_packets: sound.failed_packets,
                failure: sound.failure.as_deref(),
            }),
            ancillary: statistics.ancillary.as_ref().map(|ancillary| AncillaryJson {
                packets: ancillary.packets,
                failed_packets: ancillary.failed_packets,
                failure: ancillary.failure.as_deref(),
                captions: ancillary.captions.as_ref().map(|captions| CaptionJson {
                    frames: captions.frames,
                    dropped_triplets: captions.dropped,
                    failure: captions.failure.as_deref(),
                }),
            }),
        };
        let mut text = serde_json::to_string_pretty(&json).context("cannot write JSON")?;
        text.push('\n');
        Ok(text)
    }
}

/// What became of the captions.
fn tell_captions(text: &mut String, captions: &CaptionStatistics) {
    let _ = writeln!(text, "  captions: in {}", counted(captions.frames, "frame", "frames"));
    if captions.dropped > 0 {
        let dropped = counted(captions.dropped, "triplet of them was", "triplets of them were");
        let _ = writeln!(text, "  {dropped} left out: the film has more than frames have room for");
    }
    if let Some(why) = &captions.failure {
        let _ = writeln!(text, "  they were not sent any further: {why}");
    }
}

/// As `--format` has it.
fn name(pixels: PixelFormat) -> String {
    let components = match pixels.chroma {
        Chroma::Mono => "luma",
        Chroma::Yuv420 => "420",
        Chroma::Yuv411 => "411",
        Chroma::Yuv422 => "422",
        Chroma::Yuv444 => "444",
        Chroma::Rgb => "rgb",
    };
    format!("{components}-{}", pixels.depth_bits)
}

/// As `--scan` has it.
fn scan(scan: Scan) -> &'static str {
    match scan {
        Scan::Progressive => "progressive",
        Scan::Interlaced => "interlaced",
        Scan::Segmented => "psf",
    }
}

fn class_name(class: Class) -> &'static str {
    match class {
        Class::Narrow => "narrow",
        Class::Wide => "wide",
        Class::Beyond => "none",
    }
}

fn sentence(class: Class) -> &'static str {
    match class {
        Class::Narrow => "narrow",
        Class::Wide => "wide",
        Class::Beyond => "none of ST 2110-21",
    }
}

fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn channels_of(count: u8) -> String {
    counted(count.into(), "channel", "channels")
}

fn shown(rate: FrameRate) -> String {
    let text = format!("{:.3}", rate.as_f64());
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn micros(time: Duration) -> String {
    format!("{:.0} µs", time.as_nanos() as f64 / 1e3)
}

fn gbit_per_s(statistics: &Statistics) -> f64 {
    let seconds = statistics.duration.as_secs_f64();
    if seconds > 0.0 { statistics.bytes as f64 * 8.0 / seconds / 1e9 } else { 0.0 }
}

/// Says what changes while it is sent: a line each second on standard error, where that is a terminal, and paths that fail.
pub(super) struct Live(Sender<()>, JoinHandle<()>);

impl Live {
    pub(super) fn start(monitor: Monitor) -> Result<Live> {
        let is_shown = std::io::stderr().is_terminal();
        let (end, ended) = channel();
        let show = move || {
            let mut before = monitor.statistics();
            let mut failing = vec![false; before.paths.len()];
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(LINE_INTERVAL) {
                let now = monitor.statistics();
                tell_paths(&before, &now, &mut failing);
                if is_shown {
                    output::show_progress(&line(&before, &now));
                }
                before = now;
            }
            if is_shown {
                output::clear_progress();
            }
        };
        let thread = thread::Builder::new().name("progress".into()).spawn(show);
        Ok(Live(end, thread.context("cannot start the thread of the progress line")?))
    }

    /// Clears the line.
    pub(super) fn end(self) {
        let Live(end, thread) = self;
        drop(end);
        let _ = thread.join();
    }
}

/// Says which path has begun to fail, and which sends again. One of two that fails ends nothing.
fn tell_paths(before: &Statistics, now: &Statistics, failing: &mut [bool]) {
    let paths = before.paths.iter().zip(&now.paths).zip(failing);
    for ((before, now), was_failing) in paths {
        let is_failing = now.failed_packets > before.failed_packets;
        match (is_failing, *was_failing) {
            (true, false) => {
                let why = now.failure.as_deref().unwrap_or("unknown");
                tracing::warn!("packets to {} cannot be sent: {why}; it is tried on", now.to);
            }
            (false, true) => {
                let failed = now.failed_packets;
                tracing::info!("packets are sent to {} again; {failed} were not", now.to);
            }
            _ => {}
        }
        *was_failing = is_failing;
    }
}

/// What the last second was like.
fn line(before: &Statistics, now: &Statistics) -> String {
    let seconds = now.duration.saturating_sub(before.duration).as_secs_f64();
    let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    let class = now.class.map(|class| format!("  class {}", class_name(class))).unwrap_or_default();
    format!(
        "{:.0} s  {:.1} frames/s  {:.3} Gbit/s  {} packets late  {} frames late, {} left out{class}",
        now.duration.as_secs_f64(),
        per_second(now.frames - before.frames),
        per_second(now.bytes - before.bytes) * 8.0 / 1e9,
        now.late_packets,
        now.late_frames,
        now.dropped_frames,
    )
}
