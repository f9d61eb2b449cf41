//! Who encodes and decodes, with which settings.

use crate::clips::Clip;
use anyhow::Result;
use glassline_bench::machine;
use std::path::Path;
use std::process::{Command, Stdio};

/// An encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoder {
    /// Ours at a speed level.
    Ours(u8),
    /// `vpxenc --rt --cpu-used=-N`.
    Libvpx(u8),
    /// For orientation: H.264, by FFmpeg's libx264, `superfast` and `zerolatency`.
    X264,
}

/// How large or how good the stream is to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Aim {
    /// The `index`-th of four fixed quantisers.
    Quantizer(usize),
    /// Constant bit rate with a buffer of a second.
    Kilobits(u32),
}

/// Fixed quantisers as `vpxenc` counts them (0 to 63), the same as indices of the bitstream (libvpx's table
/// `q_trans`), and what is about as good in H.264.
const LIBVPX_QUANTIZERS: [u8; 4] = [12, 24, 36, 48];
pub(crate) const INDICES: [u8; 4] = [15, 29, 51, 82];
const X264_QUANTIZERS: [u8; 4] = [21, 26, 31, 36];
/// Of the aims by quantiser.
pub(crate) const QUANTIZERS: usize = 4;
/// Aims by bit rate.
pub(crate) const KILOBITS: [u32; 4] = [600, 1200, 2400, 4800];

impl Encoder {
    /// For the table: the program, and behind a blank its setting.
    pub(crate) fn name(self) -> String {
        match self {
            Encoder::Ours(speed) => format!("glassline speed {speed}"),
            Encoder::Libvpx(speed) => format!("libvpx -{speed}"),
            Encoder::X264 => "x264 superfast".to_owned(),
        }
    }

    /// Why it cannot be measured here, if it cannot.
    pub(crate) fn missing(self) -> Option<&'static str> {
        let (program, why) = match self {
            Encoder::Ours(_) => return None,
            Encoder::Libvpx(_) => ("vpxenc", "vpxenc is not installed (apt install vpx-tools)"),
            Encoder::X264 => ("ffmpeg", "ffmpeg is not installed"),
        };
        machine::find(program).is_none().then_some(why)
    }

    /// The ending of the files that it writes.
    pub(crate) fn extension(self) -> &'static str {
        if self == Encoder::X264 { "264" } else { "ivf" }
    }

    /// The command that encodes `clip` into `to`, in one thread.
    pub(crate) fn command(self, clip: &Clip, aim: Aim, to: &Path) -> Result<Command> {
        let mut command = match self {
            Encoder::Ours(speed) => {
                let mut command = Command::new(machine::glassline()?);
                command.arg("encode").arg(&clip.path).arg(to).args(["--codec", "vp8", "--threads", "1"]);
                command.args(["--speed", &speed.to_string(), "--keyint", "infinite"]);
                match aim {
                    Aim::Quantizer(index) => command.args(["--quantizer", &INDICES[index].to_string()]),
                    Aim::Kilobits(rate) => command.args(["--bitrate", &format!("{rate}k"), "--vbv", "1s"]),
                };
                command
            }
            Encoder::Libvpx(speed) => {
                let mut command = Command::new("vpxenc");
                command.args(["--codec=vp8", "--ivf", "--rt", "--threads=1", "--lag-in-frames=0"]);
                command.args(["--auto-alt-ref=0", "--kf-max-dist=9999", "--quiet", "-y"]);
                command.arg(format!("--cpu-used=-{speed}"));
                match aim {
                    Aim::Quantizer(index) => {
                        let quantizer = LIBVPX_QUANTIZERS[index];
                        command.args([format!("--min-q={quantizer}"), format!("--max-q={quantizer}")]);
                    }
                    Aim::Kilobits(rate) => {
                        command.args(["--end-usage=cbr", "--buf-sz=1000", "--buf-initial-sz=500"]);
                        command.args(["--buf-optimal-sz=600".to_owned(), format!("--target-bitrate={rate}")]);
                    }
                }
                command.arg("-o").arg(to).arg(&clip.path);
                command
            }
            Encoder::X264 => {
                let mut command = Command::new("ffmpeg");
                command.args(["-v", "error", "-y", "-threads", "1", "-i"]).arg(&clip.path);
                command
                    .args("-c:v libx264 -preset superfast -tune zerolatency -threads 1 -g 9999".split(' '));
                match aim {
                    Aim::Quantizer(index) => {
                        command.args(["-qp", &X264_QUANTIZERS[index].to_string()]);
                    }
                    Aim::Kilobits(rate) => {
                        let rate = format!("{rate}k");
                        command.args(["-b:v", &rate, "-maxrate", &rate, "-bufsize", &rate]);
                    }
                }
                command.args(["-f", "h264"]).arg(to);
                command
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        Ok(command)
    }
}

/// A decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decoder {
    /// Ours.
    Ours,
    /// `vpxdec`.
    Libvpx,
    /// FFmpeg's own.
    Ffmpeg,
}

impl Decoder {
    /// In the order in which they take turns.
    pub(crate) const ALL: [Decoder; 3] = [Decoder::Ours, Decoder::Libvpx, Decoder::Ffmpeg];

    /// For the table.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Decoder::Ours => "glassline",
            Decoder::Libvpx => "libvpx",
            Decoder::Ffmpeg => "ffmpeg",
        }
    }

    /// Why it cannot be measured here, if it cannot.
    pub(crate) fn missing(self) -> Option<&'static str> {
        let (program, why) = match self {
            Decoder::Ours => return None,
            Decoder::Libvpx => ("vpxdec", "vpxdec is not installed (apt install vpx-tools)"),
            Decoder::Ffmpeg => ("ffmpeg", "ffmpeg is not installed"),
        };
        machine::find(program).is_none().then_some(why)
    }

    /// The command that decodes `from` in one thread and writes nothing.
    pub(crate) fn command(self, from: &Path) -> Result<Command> {
        let mut command = match self {
            Decoder::Ours => {
                let mut command = Command::new(machine::glassline()?);
                command.arg("decode").arg(from).arg("null:");
                command
            }
            Decoder::Libvpx => {
                let mut command = Command::new("vpxdec");
                command.args(["--codec=vp8", "--noblit", "--threads=1"]).arg(from);
                command
            }
            Decoder::Ffmpeg => {
                let mut command = Command::new("ffmpeg");
                command.args(["-v", "error", "-threads", "1", "-c:v", "vp8", "-i"]).arg(from);
                command.args(["-threads", "1", "-f", "null", "-"]);
                command
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        Ok(command)
    }
}
