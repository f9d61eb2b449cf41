//! `glassline encode --codec vp8`: pictures in, VP8 in IVF out, one picture after the other.
//!
//! ```text
//! y4m, test pattern, ffmpeg ─► Pictures ─► vp8::Encoder ─► IVF
//! ```
//! Nothing is live here: a picture is read when the one before it is written, and time spent on reading and writing is
//! not the encoder's.

mod encoder;
mod output;
mod report;

use super::{Line, words};
use crate::{failure, output as stdout, stop};
use anyhow::{Context, Result};
use encoder::Encoder;
use glassline_codec::vp8::Denoise;
use glassline_io::process::processors;
use glassline_media::container::ivf::Header;
use glassline_media::quantity::Bitrate;
use glassline_studio::capture::{Input, Pictures};
use glassline_studio::output::Target;
pub(crate) use output::IvfOutput;
use report::Report;
use std::sync::atomic::Ordering;

/// Bits a second where nothing is said.
const BITRATE: Bitrate = Bitrate::from_bits_per_second(1_200_000);
/// Speed against quality where nothing is said: for calls.
const SPEED: u8 = 6;
/// Sides are 14 bits (RFC 6386 §9.1).
const MAX_SIDE: u32 = 16_383;
/// More threads than this bring nothing at 720p.
const MOST_THREADS: usize = 4;

/// What only VP8 has.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// VP8: speed against quality, from 0 (best) to 10 (fastest); 6 suits calls [default: 6]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=10))]
    speed: Option<u8>,
    /// VP8: one quantiser, from 0 (finest) to 127, instead of a bit rate; key frames and long-term references get a
    /// finer one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=127), conflicts_with_all = ["bitrate", "vbv"])]
    quantizer: Option<u8>,
    /// VP8: remove noise from the pictures first, from 1 (hardly visible) over 2 (visible) to 3 (a small camera in
    /// the dark); clean pictures are not changed [default: 0, off]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=3))]
    denoise: Option<u8>,
}

impl Options {
    /// How strongly noise is taken out, if at all.
    fn denoise(&self) -> Option<Denoise> {
        match self.denoise? {
            0 => None,
            1 => Some(Denoise::Light),
            2 => Some(Denoise::Medium),
            _ => Some(Denoise::Strong),
        }
    }
}

/// Options that H.264 does not take, as clap names them.
pub(super) const OWN_OPTIONS: [&str; 3] = ["speed", "quantizer", "denoise"];
/// All options that VP8 takes.
const KNOWN_OPTIONS: [&str; 16] = [
    "input",
    "outputs",
    "codec",
    "speed",
    "quantizer",
    "denoise",
    "bitrate",
    "vbv",
    "keyint",
    "threads",
    "limit",
    "duration",
    "looped",
    "deinterlace",
    "video_track",
    "json",
];

/// Encodes until the input ends, the limit is reached, or SIGINT or SIGTERM asks for the end.
pub(super) fn run(line: &Line, input: &Input) -> Result<()> {
    line.refuse_but(&KNOWN_OPTIONS, "belongs to H.264")?;
    let args = &line.args;
    let [target] = &args.outputs[..] else {
        return Err(failure::usage("VP8 goes to one output", "name one: FILE.ivf, - or null:"));
    };
    if !matches!(target, Target::Stdout | Target::Null) && !target.is_ivf() {
        let message = format_args!("{target} takes no VP8");
        return Err(failure::usage(message, "name FILE.ivf, - (standard output) or null:"));
    }
    let stop = stop::on_signal()?;
    let (looped, deinterlace) = (args.options.looped, args.options.deinterlace);
    let mut pictures = Pictures::open(input, looped, deinterlace, args.length()).map_err(words::input)?;
    let format = pictures.format();
    if format.size.width > MAX_SIDE || format.size.height > MAX_SIDE {
        let message = format_args!("pictures of {}: VP8 takes sides up to {MAX_SIDE}", format.size);
        return Err(failure::failed(message, "scale them before"));
    }
    let threads = match args.options.threads {
        0 => processors().min(MOST_THREADS),
        asked => asked as usize,
    };
    let mut encoder = Encoder::new(line, format, threads)?;
    // Last, so that nothing is overwritten where something is wrong.
    let mut output = IvfOutput::open(target, Header::VP8, format.size, format.rate)?;
    let mut report = Report::new(target, format);
    let children = pictures.children();
    while !stop.load(Ordering::Relaxed)
        && let Some(picture) = pictures.next_picture().map_err(words::input)?
    {
        let (bytes, coded) =
            encoder.encode(&picture).with_context(|| format!("picture {}", report.frames()))?;
        output.frame(bytes)?;
        report.coded(&coded);
    }
    if let Some(children) = children {
        children.end();
    }
    output.finish()?;
    let late = encoder.late();
    let text = if args.json { report.json(late)? } else { report.line(late) };
    if args.json && *target != Target::Stdout {
        return stdout::print(&text);
    }
    stdout::print_aside(&text)
}
