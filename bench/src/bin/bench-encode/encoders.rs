//! Who encodes, each with all that is known to keep it from waiting.

use anyhow::Result;
use glassline_bench::machine;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

/// An encoder with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Ours: eight slices in one thread, each sent when it is done.
    Slices,
    /// Ours: two threads share the picture.
    Threads,
    /// Ours as it comes: a thread for each processor, each with several slices.
    Default,
    /// The same with x264's own rate control, as the peers have it: what is left is the pipeline's doing.
    X264Control,
    /// As many sliced threads as it chooses.
    Ffmpeg,
    /// One thread.
    FfmpegOneThread,
    /// As many sliced threads as it chooses.
    Gstreamer,
}

/// The order in which they take turns.
pub(crate) const ALL: [Who; 7] = [
    Who::Slices,
    Who::Ffmpeg,
    Who::Threads,
    Who::FfmpegOneThread,
    Who::Default,
    Who::X264Control,
    Who::Gstreamer,
];
/// Elements without which GStreamer is left out, and Debian's packages that have them.
const ELEMENTS: [(&str, &str); 5] = [
    ("fdsrc", "gstreamer1.0-tools"),
    ("y4mdec", "gstreamer1.0-plugins-bad"),
    ("x264enc", "gstreamer1.0-plugins-ugly"),
    ("mpegtsmux", "gstreamer1.0-plugins-bad"),
    ("udpsink", "gstreamer1.0-plugins-good"),
];

impl Who {
    /// What it is called in the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Who::Slices => "glassline 8 slices",
            Who::Threads => "glassline 2 threads",
            Who::Default => "glassline default",
            Who::X264Control => "glassline --rate-control x264",
            Who::Ffmpeg => "ffmpeg",
            Who::FfmpegOneThread => "ffmpeg 1 thread",
            Who::Gstreamer => "gstreamer",
        }
    }

    /// Whether it is none of ours.
    pub(crate) fn is_peer(self) -> bool {
        matches!(self, Who::Ffmpeg | Who::FfmpegOneThread | Who::Gstreamer)
    }

    /// Why it cannot be measured here, if it cannot.
    pub(crate) fn missing(self) -> Option<String> {
        match self {
            Who::Slices | Who::Threads | Who::Default | Who::X264Control => None,
            Who::Ffmpeg | Who::FfmpegOneThread => {
                (!runs("ffmpeg", "-version")).then(|| "it is not installed (apt install ffmpeg)".into())
            }
            Who::Gstreamer => ELEMENTS
                .iter()
                .find(|(element, _)| !runs("gst-inspect-1.0", element))
                .map(|(element, package)| format!("it has no {element} (apt install {package})")),
        }
    }

    /// The command that reads y4m on standard input and sends MPEG-TS to `to`.
    pub(crate) fn command(self, preset: &str, to: SocketAddr) -> Result<Command> {
        Ok(match self {
            Who::Slices => ours(preset, to, &["--slices", "8", "--threads", "1"])?,
            Who::Threads => ours(preset, to, &["--slices", "2", "--threads", "2"])?,
            Who::Default => ours(preset, to, &[])?,
            Who::X264Control => ours(preset, to, &["--rate-control", "x264"])?,
            Who::Ffmpeg => ffmpeg(preset, to, &[]),
            Who::FfmpegOneThread => ffmpeg(preset, to, &["-threads", "1"]),
            Who::Gstreamer => gstreamer(preset, to),
        })
    }
}

fn runs(program: &str, argument: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn ours(preset: &str, to: SocketAddr, how: &[&str]) -> Result<Command> {
    // The writer keeps the time: what comes is coded when it comes.
    encode(preset, to, &[&["--no-realtime"], how].concat())
}

/// Ours as it comes beside a camera: it finds out when pictures were captured, and tells what that cost.
pub(crate) fn live(preset: &str, to: SocketAddr) -> Result<Command> {
    encode(preset, to, &["--realtime", "--stats"])
}

fn encode(preset: &str, to: SocketAddr, how: &[&str]) -> Result<Command> {
    let mut command = Command::new(machine::glassline()?);
    command.args(["encode", "-", &format!("udp://{to}"), "--preset", preset]);
    command.args(["--bitrate", "5M", "--vbv", "1s", "--keyint", "1s"]).args(how);
    Ok(command)
}

/// With all that is known to keep it from waiting, but `-fflags nobuffer`: it loses the first picture.
fn ffmpeg(preset: &str, to: SocketAddr, how: &[&str]) -> Command {
    let mut command = Command::new("ffmpeg");
    command.args("-hide_banner -loglevel error -nostats -probesize 32 -analyzeduration 0".split(' '));
    command.args(
        "-f yuv4mpegpipe -i - -c:v libx264 -tune zerolatency -b:v 5M -maxrate 5M -bufsize 5M".split(' '),
    );
    command.args(["-preset", preset]).args(how);
    command.args("-g 50 -sc_threshold 0 -fps_mode passthrough".split(' '));
    command.args("-f mpegts -muxdelay 0 -muxpreload 0 -flush_packets 1".split(' '));
    command.arg(format!("udp://{to}?pkt_size=1316"));
    command
}

/// Datagrams of seven packets, as UDP is sent; without the alignment each packet would be a datagram of its own.
fn gstreamer(preset: &str, to: SocketAddr) -> Command {
    let mut command = Command::new("gst-launch-1.0");
    command.args("-q fdsrc fd=0 blocksize=1382406 ! y4mdec ! x264enc tune=zerolatency".split(' '));
    command.arg(format!("speed-preset={preset}"));
    command.args("bitrate=5000 vbv-buf-capacity=1000 key-int-max=50 option-string=scenecut=0".split(' '));
    command.args("! mpegtsmux alignment=7 ! udpsink sync=false".split(' '));
    command.args([format!("host={}", to.ip()), format!("port={}", to.port())]);
    command
}
