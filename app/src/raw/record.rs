//! `glassline record`.

use super::options::{ReceiveOptions, advice as advice_on, cannot_receive, describe, warn_of_machine};
use crate::stop::{Second, StopSignals};
use crate::{failure, output};
use anyhow::{Context, Result};
use glassline_io::clock::Clock;
use glassline_media::quantity;
use glassline_media::{Colour, FrameRate, Picture, Time};
use glassline_studio::raw::described::{self, PoolSize};
use glassline_studio::raw::look::Merged;
use glassline_studio::raw::receive::{
    PathNews, PathWatch, Receiver, Report, SILENCE, StreamNews, StreamWatch,
};
use glassline_studio::raw::record::{
    Container, Ended, Limits, Progress, Reason, Recording, WriteError, Writer,
};
use serde::Serialize;
use std::io::{self, IsTerminal};
use std::time::Duration;

/// How often the line is written.
const LINE_INTERVAL: Duration = Duration::from_secs(1);
/// The frame rate if neither the description nor an option gives one.
const USUAL_RATE: u32 = 60;
/// Frames in the pool if none is written to a disk.
const FRAMES_UNWRITTEN: usize = 24;

/// Record uncompressed video (RFC 4175, ST 2110-20) or audio (ST 2110-30) without losing a packet, and report losses
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to record: rtp:FILE.sdp, the session description of the stream; its first uncompressed video is recorded,
    /// over both paths if it has two (ST 2022-7)
    #[arg(value_name = "rtp:FILE.sdp")]
    pub(super) input: String,
    /// Where to write it: FILE.y4m (YCbCr, planar), FILE.yuv (only the samples, also RGB; their layout is printed),
    /// FILE.wav (the first audio in the description, all channels and bits), or null: (frames are received and
    /// counted)
    #[arg(value_name = "OUTPUT")]
    pub(super) output: String,
    /// Stop after this much of the stream, from its first frame on; if the sender has stopped, once this much time
    /// has passed
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration)]
    pub(super) duration: Option<Duration>,
    /// Stop if no frame arrives for this long. If none has arrived at all, the exit status is 1
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration)]
    pub(super) timeout: Option<Duration>,
    /// The frame rate, if the description does not give it
    #[arg(long, value_name = "FPS", value_parser = quantity::parse_frame_rate)]
    rate: Option<FrameRate>,
    /// How much video can wait in memory while the disk stalls; what arrives beyond that is lost in whole frames. At
    /// most half of the free memory is used
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = quantity::parse_duration)]
    pool: Duration,
    /// Print one line of JSON on standard output at the end
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten, next_help_heading = "How packets are received")]
    pub(super) receiving: ReceiveOptions,
}

const EXAMPLES: &str = "\
Examples:
  glassline send-raw test:1920x1080@50 rtp://239.1.1.1:5004 --sdp camera.sdp
                                                 makes a stream and its description, for the examples below
  glassline record rtp:camera.sdp take1.y4m --duration 10m
  glassline record rtp:camera.sdp take1.yuv      only the samples; prints an ffplay command for them
  glassline record rtp:sound.sdp take1.wav --duration 10m
                                                 audio (ST 2110-30, AES67), all channels
  glassline record rtp:camera.sdp null: --json   check for losses on the way to here
  glassline record rtp:camera.sdp take1.y4m --timeout 10s
                                                 until the sender stops; status 1 if it never sends
  glassline record rtp:both.sdp take1.y4m --interface eth1 --interface eth2
                                                 two paths, merged packet by packet

Video and audio are recorded; ancillary data (ST 2110-40: time code, captions) is not. Lost packets are counted, and their
part of the picture is taken from the frame before. Exit status: 0, even if packets were lost or the sender stopped early
(a message says so); 1 if recording cannot continue or, with --timeout, nothing arrived; 2 for wrong usage.";

/// Records until the end is asked for, or the length is there.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.output.to_ascii_lowercase().ends_with(".wav") {
        return super::record_sound::run(args);
    }
    let container = Container::of(&args.output).ok_or_else(|| {
        failure::usage(
            format!("{:?} is nothing to record to", args.output),
            "name FILE.y4m, FILE.yuv, FILE.wav (its sound) or null: (to encode instead: glassline encode rtp:FILE.sdp OUTPUT)",
        )
    })?;
    let description = describe(&args.input)?;
    let (flow, video) =
        described::video(&description).map_err(|error| failure::usage(error, "name another description"))?;
    let rate = rate(args, video.rate, container)?;
    let mut options = args.receiving.options()?;
    options.pool = pool(args, container);
    options.layout = container.layout(video.format.pixels());
    let settings = described::settings(&description, &options).map_err(|error| {
        let advice = advice_on(&error);
        failure::usage(error, advice)
    })?;
    let (pixels, size) = (video.format.pixels(), video.format.size());
    let mut example = Picture::new(pixels, size, Time::ZERO);
    (example.fields, example.colour) = (settings.fields, settings.colour);
    let writer = Writer::create(&args.output, container, &example, rate, video.pixel_aspect)
        .map_err(|error| cannot_write(error, args))?;
    let Colour { primaries, transfer, matrix, .. } = settings.colour;
    if container == Container::Y4m && [primaries, transfer, matrix] != [2; 3] {
        tracing::info!(
            "y4m cannot say primaries, curve and matrix; the description's are {primaries}, {transfer} and {matrix} (H.273)"
        );
    }
    if container == Container::Raw {
        tracing::info!(
            "to see it: ffplay -f rawvideo -pixel_format {} -video_size {size} -framerate {rate} {}",
            writer.raw().pix_fmt,
            args.output
        );
    }
    let addresses = described::addresses(flow);
    let signals = StopSignals::catch()?;
    let receiver =
        Receiver::start(&settings, Clock::new()).map_err(|error| cannot_receive(&error, &addresses))?;
    warn_of_machine(&receiver, &settings);
    let pool_frames = receiver.pool_frames();
    tracing::info!("receiving at {addresses}; {} frames may wait", pool_frames);
    let watch = receiver.watch();
    signals.call(Second::EndsProcess, move |_| watch.stop())?;
    let limits = Limits { length: args.duration, silence: args.timeout };
    let recording = Recording::start(receiver, writer, limits)?;
    let paths = described::path_addresses(flow);
    let mut lines = Lines::new(pool_frames, addresses.clone(), paths.clone());
    let ended = loop {
        match recording.wait(LINE_INTERVAL) {
            None => lines.show(&recording.progress()),
            Some(ended) => break ended,
        }
    };
    lines.clear();
    let progress = recording.progress();
    tell(&progress, ended.as_ref().ok().map(|ended| ended.reason), &paths, args)?;
    let Ended { reason, .. } = ended.map_err(|error| {
        let kept =
            format!("{} whole frames, {:.1} MB, are in it", progress.frames, progress.bytes as f64 / 1e6);
        failure::failed(format!("{}: {error}", args.output), kept)
    })?;
    if reason == Reason::Silence && progress.received.frames() == 0 {
        let timeout = args.timeout.unwrap_or_default();
        let (what, advice) = nothing_came(&progress.received, &addresses);
        return Err(failure::failed(format!("{what} within {timeout:?}"), advice));
    }
    Ok(())
}

/// What is wrong where there is no frame of a stream, and what to do about it.
fn nothing_came(received: &Report, addresses: &str) -> (String, &'static str) {
    match (received.counters.packets, received.counters.refused) {
        (0, 0) => (
            format!("nothing has come to {addresses}"),
            "is the sender on, does the group reach this interface (--interface), does a firewall drop it?",
        ),
        (0, refused) => (
            format!(
                "{refused} datagrams came to {addresses} that are not the stream of the description, and none that is"
            ),
            "compare its payload type, size, scan and depth with the sender's",
        ),
        (packets, _) => (
            format!("{packets} packets came to {addresses}, but no frame"),
            "compare the description's size, scan and depth with the sender's",
        ),
    }
}

fn rate(args: &Args, described: Option<FrameRate>, container: Container) -> Result<FrameRate> {
    match described.or(args.rate) {
        Some(rate) => Ok(rate),
        None if container == Container::Y4m => Err(failure::usage(
            "the description says no frame rate, which y4m needs",
            "say it with --rate 50",
        )),
        None => FrameRate::new(USUAL_RATE, 1).context("no rate"),
    }
}

fn pool(args: &Args, container: Container) -> PoolSize {
    if container == Container::Null {
        return PoolSize::Frames(FRAMES_UNWRITTEN);
    }
    PoolSize::Time(args.pool)
}

fn cannot_write(error: WriteError, args: &Args) -> anyhow::Error {
    match error {
        WriteError::Y4m(error) => {
            failure::usage(format!("{}: {error}", args.output), "record to FILE.yuv instead")
        }
        // It names the file.
        error => failure::usage(error, "name a file that can be written"),
    }
}

/// The line that changes, and what is said once.
struct Lines {
    is_shown: bool,
    pool_frames: usize,
    addresses: String,
    began: Time,
    stream: StreamWatch,
    paths: PathWatch,
    before: (Time, Progress),
}

impl Lines {
    fn new(pool_frames: usize, addresses: String, paths: Vec<String>) -> Lines {
        let now = Clock::new().now();
        let is_shown = io::stderr().is_terminal();
        let before = (now, Progress::default());
        let (stream, paths) = (StreamWatch::new(now), PathWatch::new(paths));
        Lines { is_shown, pool_frames, addresses, began: now, stream, paths, before }
    }

    fn show(&mut self, progress: &Progress) {
        let now = Clock::new().now();
        let counters = progress.received.counters;
        match self.stream.follow(counters.packets != self.before.1.received.counters.packets, now) {
            Some(StreamNews::Back) => tracing::info!("packets come to {} again", self.addresses),
            Some(StreamNews::Absent | StreamNews::Stopped) if progress.received.frames() == 0 => {
                let (what, advice) = nothing_came(&progress.received, &self.addresses);
                tracing::warn!("{what} yet: {advice}");
            }
            Some(StreamNews::Absent | StreamNews::Stopped) => {
                let so_far = progress.length.as_secs_f64();
                tracing::warn!(
                    "the sender has stopped after {so_far:.1} s: nothing has come to {} for {SILENCE:?}",
                    self.addresses
                );
            }
            None => {}
        }
        self.paths.follow(&counters, now).iter().for_each(PathNews::tell);
        if self.is_shown && counters.packets > 0 {
            let (then, before) = self.before;
            let text = line(progress, &before, now.since(then), self.pool_frames);
            output::show_progress(&format!("{:4} s  {text}", now.since(self.began).as_secs()));
        }
        self.before = (now, *progress);
    }

    fn clear(&self) {
        if self.is_shown {
            output::clear_progress();
        }
    }
}

/// What has come since `before`, which was so long ago.
fn line(progress: &Progress, before: &Progress, passed: Duration, pool_frames: usize) -> String {
    let seconds = passed.as_secs_f64().max(1e-3);
    let (now, then) = (&progress.received, &before.received);
    // The words are those of the latency budget.
    let received = progress
        .received_after
        .map_or(String::new(), |after| format!("  captured → received {:.1} ms", after.as_secs_f64() * 1e3));
    format!(
        "{:.1} frames/s  {:.2} Gbit/s  lost {}  reordered {}  kernel drops {}  dropped frames {}  queue {} of {}{received}",
        (now.frames() - then.frames()) as f64 / seconds,
        (now.bytes - then.bytes) as f64 * 8.0 / seconds / 1e9,
        now.counters.lost,
        now.counters.reordered,
        now.kernel_drops,
        now.counters.dropped,
        progress.queued,
        pool_frames
    )
}

/// The last line of `--json`.
#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    input: &'a str,
    output: &'a str,
    /// Frames that were output, with or without holes.
    frames: u64,
    /// Frames that were written.
    written_frames: u64,
    /// Frames with holes, which were concealed.
    incomplete_frames: u64,
    /// Frames that were lost as a whole, because they were not taken in time.
    dropped_frames: u64,
    #[serde(flatten)]
    packets: Merged,
    /// What each path brought of them.
    paths: Vec<PathJson<'a>>,
    /// Packets that the kernel has put in place.
    in_place: u64,
    received_bytes: u64,
    written_bytes: u64,
    seconds: f64,
    /// Why it has ended.
    ended: &'static str,
}

#[derive(Serialize)]
struct PathJson<'a> {
    address: &'a str,
    /// Packets of the stream on this path, including those that the other path brought, too.
    packets: u64,
    /// Packets that this path did not bring, whether the other path did or not.
    missing: u64,
}

/// What each path brought.
fn by_path<'a>(received: &Report, paths: &'a [String]) -> Vec<PathJson<'a>> {
    let counters = received.counters;
    let all = counters.packets + counters.closing + counters.lost;
    let path = |(address, packets): (&'a String, u64)| PathJson {
        address,
        packets,
        missing: all.saturating_sub(packets),
    };
    paths.iter().zip(counters.by_path).map(path).collect()
}

fn tell(progress: &Progress, reason: Option<Reason>, paths: &[String], args: &Args) -> Result<()> {
    let Report { counters, bytes, .. } = progress.received;
    tracing::info!("{}", summary(progress));
    let by_path = by_path(&progress.received, paths);
    if let [_, _] = &by_path[..] {
        for PathJson { address, packets, missing } in &by_path {
            tracing::info!("by {address}: {packets} packets, {missing} missing");
        }
    }
    if let Some(length) = args.duration
        && matches!(reason, Some(Reason::SenderStopped | Reason::Silence))
        && progress.received.frames() > 0
    {
        let seconds = progress.length.as_secs_f64();
        tracing::warn!("the sender has stopped: {seconds:.1} s of the {length:?} that were asked for came");
    }
    if let Some(advice) = advice(&progress.received) {
        tracing::warn!("{advice}");
    }
    if !args.json {
        return Ok(());
    }
    let json = Json {
        schema: 1,
        input: &args.input,
        output: &args.output,
        frames: progress.received.frames(),
        written_frames: progress.frames,
        incomplete_frames: counters.incomplete,
        dropped_frames: counters.dropped,
        packets: Merged::from(&progress.received),
        paths: by_path,
        in_place: counters.in_place,
        received_bytes: bytes,
        written_bytes: progress.bytes,
        seconds: progress.length.as_secs_f64(),
        ended: match reason {
            Some(Reason::Length) => "duration",
            Some(Reason::SenderStopped) => "sender_stopped",
            Some(Reason::Silence) => "timeout",
            Some(Reason::Stopped) => "signal",
            None => "error",
        },
    };
    let json = serde_json::to_string(&json).context("cannot write JSON")?;
    output::print(&format!("{json}\n"))
}

fn summary(progress: &Progress) -> String {
    let counters = progress.received.counters;
    format!(
        "{} frames in {:.1} s, {} of them with holes, {} dropped; {} packets, {} lost, {} reordered; {} frames, {:.1} MB written",
        progress.received.frames(),
        progress.length.as_secs_f64(),
        counters.incomplete,
        counters.dropped,
        counters.packets,
        counters.lost,
        counters.reordered,
        progress.frames,
        progress.bytes as f64 / 1e6
    )
}

/// What to do against what was lost.
fn advice(report: &Report) -> Option<&'static str> {
    if report.counters.dropped > 0 {
        Some(
            "whole frames were lost since the disk was too slow: a faster one, null:, or more memory (--pool)",
        )
    } else if report.kernel_drops > 0 {
        Some(
            "packets were lost in the socket: give it more room (--socket-buffer, sysctl net.core.rmem_max), or a core of \
              its own (--processor)",
        )
    } else if report.counters.lost > 0 {
        Some(
            "packets were lost before the socket: in the network, or in the device's ring (ethtool -g, ethtool -S)",
        )
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_transport::raw_video::Counters;

    #[test]
    fn the_line_has_the_figures_of_the_last_second() {
        let counters = Counters { frames: 160, lost: 3, dropped: 1, ..Counters::default() };
        let received = Report { counters, bytes: 1_500_000_000, ..Report::default() };
        let progress = Progress { received, frames: 150, queued: 10, ..Progress::default() };
        let then = Report {
            counters: Counters { frames: 100, ..Counters::default() },
            bytes: 1_250_000_000,
            ..Report::default()
        };
        let before = Progress { received: then, ..Progress::default() };
        assert_eq!(
            line(&progress, &before, Duration::from_secs(1), 120),
            "60.0 frames/s  2.00 Gbit/s  lost 3  reordered 0  kernel drops 0  dropped frames 1  queue 10 of 120"
        );
        let progress = Progress { received_after: Some(Duration::from_micros(17_340)), ..progress };
        let text = line(&progress, &before, Duration::from_secs(1), 120);
        assert!(text.ends_with("queue 10 of 120  captured → received 17.3 ms"), "{text}");
        assert!(advice(&received).unwrap().contains("--pool"));
        assert_eq!(advice(&Report::default()), None);
    }
}
