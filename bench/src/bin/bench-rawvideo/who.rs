//! Who receives, and how each is started and asked what came.

use crate::case::Case;
use crate::counts::{self, Counts};
use crate::network::SOCKET_BYTES;
use anyhow::{Context, Result};
use clap::ValueEnum;
use glassline_bench::machine::{self, find};
use glassline_bench::report::OURS;
use glassline_transport::raw_video::Packing;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Who {
    /// `glassline record rtp:FILE.sdp null:`
    Ours,
    /// The library's receiver, and each frame brought into planes
    Planes,
    /// A bare loop that aims into the frame
    Aimed,
    /// A bare loop that copies
    Copy,
    /// A bare loop that unpacks 10 bits
    Unpack,
    /// A bare loop of `recv` and a copy
    Recv,
    /// FFmpeg, decoding
    Ffmpeg,
    /// GStreamer's `udpsrc ! rtpvrawdepay`
    Gstreamer,
}

/// How a receiver is started.
pub(crate) struct Start<'a> {
    pub(crate) case: &'a Case,
    pub(crate) to: &'a [SocketAddr],
    pub(crate) description: &'a Path,
    pub(crate) core: Option<usize>,
    /// Of the loop that copies: what each packet costs beside.
    pub(crate) work: Duration,
}

impl Who {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Who::Ours => OURS,
            Who::Planes => "glassline planes",
            Who::Aimed => "aimed loop",
            Who::Copy => "copy loop",
            Who::Unpack => "unpack loop",
            Who::Recv => "recv loop",
            Who::Ffmpeg => "FFmpeg",
            Who::Gstreamer => "GStreamer",
        }
    }

    /// The program that is needed and the package that has it.
    pub(crate) const fn needs(self) -> Option<(&'static str, &'static str)> {
        match self {
            Who::Ffmpeg => Some(("ffmpeg", "ffmpeg")),
            Who::Gstreamer => Some(("gst-launch-1.0", "gstreamer1.0-tools gstreamer1.0-plugins-good")),
            _ => None,
        }
    }

    /// Whether it is measured with that.
    pub(crate) fn takes(self, case: &Case) -> bool {
        match self {
            // It looks into no header, and block packing has headers of two lengths.
            Who::Aimed => case.has_gso && case.stream.packing == Packing::General,
            Who::Unpack => case.has_gso && case.stream.depth == 10,
            Who::Ours | Who::Recv => true,
            _ => case.has_gso,
        }
    }

    /// Whether it reads datagrams one by one, so that the kernel's count of them is that of packets.
    pub(crate) const fn reads_singly(self) -> bool {
        matches!(self, Who::Recv | Who::Ffmpeg | Who::Gstreamer)
    }

    /// Whether it ends by itself when nothing comes any more.
    pub(crate) const fn ends_itself(self) -> bool {
        !matches!(self, Who::Ours | Who::Ffmpeg | Who::Gstreamer)
    }

    /// The program and its arguments.
    pub(crate) fn command(self, start: &Start<'_>) -> Result<Vec<String>> {
        let description = start.description.to_str().context("the description's path is not UTF-8")?;
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let own = |path: std::path::PathBuf| path.to_str().map(str::to_owned).context("a path is not UTF-8");
        let core = start.core.unwrap_or(0).to_string();
        let program = || own(std::env::current_exe().context("cannot find this program")?);
        let peer = |name: &str| own(find(name).with_context(|| format!("{name} is not installed"))?);
        Ok(match self {
            Who::Ours => {
                let mut command = vec![own(machine::glassline()?)?];
                command.extend(["record".to_owned(), format!("rtp:{description}"), "null:".to_owned()]);
                command.extend(words("--json --processor"));
                command.push(core);
                command
            }
            Who::Planes => vec![program()?, "--be-planes".into(), description.into(), core],
            Who::Aimed | Who::Copy | Who::Unpack | Who::Recv => {
                let kind = match self {
                    Who::Aimed => "aimed",
                    Who::Copy => "copy",
                    Who::Unpack => "unpack",
                    _ => "recv",
                };
                let to = start.to.first().context("no address")?;
                let (stream, work) = (start.case.stream.to_string(), start.work.as_nanos().to_string());
                vec![program()?, "--be-loop".into(), kind.into(), stream, to.to_string(), work]
            }
            Who::Ffmpeg => {
                let mut command = vec![peer("ffmpeg")?];
                command.extend(words("-hide_banner -nostdin -stats -protocol_whitelist file,udp,rtp"));
                command.extend(["-buffer_size".to_owned(), SOCKET_BYTES.to_string()]);
                command.extend(["-i".to_owned(), description.to_owned()]);
                command.extend(words("-fps_mode passthrough -f null -"));
                command
            }
            Who::Gstreamer => {
                let (to, stream) = (start.to.first().context("no address")?, start.case.stream);
                let caps = format!(
                    "caps=application/x-rtp,media=(string)video,clock-rate=(int)90000,encoding-name=(string)RAW,\
                     sampling=(string)YCbCr-4:2:2,depth=(string){},width=(string){},height=(string){},\
                     colorimetry=(string)BT709-2,payload=(int)96",
                    stream.depth, stream.width, stream.height
                );
                let mut command = vec![peer("gst-launch-1.0")?];
                command.extend(words("-v udpsrc"));
                command.extend([format!("address={}", to.ip()), format!("port={}", to.port())]);
                command.extend([format!("buffer-size={SOCKET_BYTES}"), caps]);
                command.extend(words("! rtpvrawdepay ! fakesink sync=false silent=false"));
                command
            }
        })
    }

    /// What it says came.
    pub(crate) fn read(self, log: &str) -> Option<Counts> {
        match self {
            Who::Ffmpeg => counts::ffmpeg(log),
            Who::Gstreamer => counts::gstreamer(log),
            _ => counts::ours(log),
        }
    }
}
