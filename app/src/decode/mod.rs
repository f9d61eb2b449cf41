//! `glassline decode`: VP8 in IVF to uncompressed pictures, or to their checksums.

mod input;
mod output;
mod pictures;
mod report;

use crate::{failure, output as stdout};
use anyhow::{Context, Result};
use glassline_codec::vp8::{self, Decoded, Limits, State, Workspace, decode_in};
use glassline_io::clock::Clock;
use glassline_media::container::ivf;
use glassline_media::pixels::Scaler;
use glassline_media::quantity;
use glassline_media::{FrameRate, Size};
use input::Input;
pub(crate) use output::PictureOutput;
pub(crate) use pictures::Pictures;
use report::Report;
use std::path::Path;

/// Decode VP8 (IVF) to uncompressed pictures (y4m) or to checksums
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to decode: an IVF file with VP8 in it, or - for standard input
    #[arg(value_name = "INPUT")]
    input: String,
    /// Where the pictures go: FILE.y4m, - for standard output, or null: for nowhere, to measure
    #[arg(value_name = "OUTPUT", required_unless_present = "md5", conflicts_with = "md5")]
    output: Option<String>,
    /// Print the MD5 of each shown picture's I420 bytes instead, as the VP8 test vectors have it
    #[arg(long)]
    md5: bool,
    /// Bring every picture to this size: for streams that change theirs, which y4m cannot carry
    #[arg(long, value_name = "WxH", value_parser = quantity::parse_size)]
    scale: Option<Size>,
    /// Report as JSON: to standard output, or to standard error where pictures or checksums go there
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  glassline decode in.ivf out.y4m
  glassline decode in.ivf - | ffplay -          watch it
  glassline decode in.ivf --md5                 one line for each shown picture
  glassline decode in.ivf null: --json          how fast is it
  glassline decode in.ivf out.y4m --scale 1280x720
                                                of a stream whose pictures change their size

A frame that cannot be decoded ends the command with status 1: nothing is concealed.";

/// Decodes to the end of the input.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut input = Input::open(&args.input)?;
    let mut output = PictureOutput::open(args.output.as_deref(), &stem(&args.input))?;
    let mut report = Report::new(&args.input);
    let mut decoder = Decoder::new();
    let mut scaler = args.scale.map(Scaler::new);
    let reads = || format!("cannot decode {}", args.input);
    while let Some((frame, rate)) = input.frame().with_context(reads)? {
        let outlet = Outlet { output: &mut output, scaler: scaler.as_mut(), rate };
        decoder.frame(&frame, outlet, &mut report).with_context(reads)?;
    }
    output.finish()?;
    report.finish(Clock.now());
    drop(input);
    let text = if args.json { report.json()? } else { report.line() };
    if args.json && !output.takes_stdout() {
        return stdout::print(&text);
    }
    stdout::print_aside(&text)
}

/// A stream's state, and the memory in which it goes on.
struct Decoder {
    state: State,
    workspace: Workspace,
}

/// The way to the output.
struct Outlet<'a> {
    output: &'a mut PictureOutput,
    scaler: Option<&'a mut Scaler>,
    rate: FrameRate,
}

impl Decoder {
    fn new() -> Decoder {
        Decoder { state: State::new(), workspace: Workspace::new() }
    }

    /// Decodes the next frame.
    fn decode(&mut self, bytes: &[u8]) -> Result<Decoded, vp8::Error> {
        let decoded = decode_in(&self.state, bytes, &Limits::default(), &mut self.workspace)?;
        self.state.clone_from(&decoded.state);
        Ok(decoded)
    }

    fn frame(&mut self, frame: &ivf::Frame, outlet: Outlet<'_>, report: &mut Report) -> Result<()> {
        let before = Clock.now();
        let number = report.frames;
        let decoded = self.decode(&frame.bytes).map_err(|error| undecodable(number, &error))?;
        report.decoded(&decoded, frame.bytes.len(), Clock.now() - before);
        let Some(picture) = decoded.picture else { return Ok(()) };
        let picture = match outlet.scaler {
            Some(scaler) => scaler.scale(&picture),
            None => picture,
        };
        outlet.output.picture(&picture, outlet.rate, number + 1)
    }
}

fn undecodable(number: u64, error: &vp8::Error) -> anyhow::Error {
    failure::failed(
        format!("frame {number}: {error}"),
        "the stream is damaged there, or no VP8; frames in front of it were decoded",
    )
}

/// The input's name without folder and ending, for names of pictures.
fn stem(input: &str) -> String {
    let stem = Path::new(input).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    stem.filter(|_| input != "-").unwrap_or_else(|| "stdin".to_owned())
}
