//! `glassline decode`: VP8 in IVF to uncompressed pictures, or to their checksums.

mod input;
mod output;
mod pictures;
mod report;

use crate::{failure, output as stdout};
use anyhow::{Context, Result};
use glassline_codec::vp8::{self, Decoded, Limits, State, Workspace, decode_in};
use glassline_io::clock::Clock;
use glassline_io::process::available_memory;
use glassline_media::container::ivf;
use glassline_media::container::ivf_salvage::Found;
use glassline_media::pixels::Scaler;
use glassline_media::quantity;
use glassline_media::{FrameRate, Size};
use input::{Damage, Input};
pub(crate) use output::PictureOutput;
pub(crate) use pictures::Pictures;
use report::Report;
use std::path::Path;

/// Decode VP8 (IVF) to uncompressed pictures (y4m) or to checksums
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to decode: an IVF file with VP8, or - for standard input
    #[arg(value_name = "INPUT")]
    input: String,
    /// Where the pictures go: FILE.y4m, - for standard output, or null: for nowhere (to measure the speed)
    #[arg(value_name = "OUTPUT", required_unless_present = "md5", conflicts_with = "md5")]
    output: Option<String>,
    /// Instead, print the MD5 of each shown picture's I420 bytes, like the VP8 test vectors
    #[arg(long)]
    md5: bool,
    /// Scale every picture to this size: for streams that change their size, which y4m cannot carry
    #[arg(long, value_name = "WxH", value_parser = quantity::parse_size)]
    scale: Option<Size>,
    /// Stop at the first damage, after decoding what comes before it. Otherwise decoding continues with the next
    /// frame that can be decoded, and a message at the end says what was lost
    #[arg(long)]
    strict: bool,
    /// The largest picture that is accepted, by its number of samples: this limits the memory that a file can demand
    /// [default: what fits into half of the free memory]
    #[arg(long, value_name = "WxH", value_parser = quantity::parse_size)]
    max_picture: Option<Size>,
    /// Print the report as JSON: on standard output, or on standard error if pictures or checksums go to standard
    /// output
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  glassline decode in.ivf out.y4m
  glassline decode in.ivf - | ffplay -          watch it
  glassline decode in.ivf --md5                 one line for each shown picture
  glassline decode in.ivf null: --json          measure the speed
  glassline decode in.ivf out.y4m --scale 1280x720
                                                for a stream with pictures of different sizes

Frames that cannot be decoded are skipped and reported, and the exit status is then 1. Nothing is concealed: pictures that
are predicted from lost ones are written as they are decoded, up to the next key frame. The frame rate in y4m comes from
the pictures' time stamps.";

/// Decodes to the end of the input.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut output = PictureOutput::open(args.output.as_deref(), &stem(&args.input))?;
    let damage = if args.strict { Damage::Ends } else { Damage::PassedOver };
    let mut input = Input::open(&args.input, damage, output.has_rate())?;
    let mut report = Report::new(&args.input);
    let limits = args.max_picture.map_or_else(default_limits, |size| Limits {
        // Sides are at most 16,384 samples.
        max_pixels: size.width * size.height,
    });
    let mut decoder = Decoder::new(limits);
    let mut scaler = args.scale.map(Scaler::new);
    let reads = || format!("cannot decode {}", args.input);
    while let Some(found) = input.next().with_context(reads)? {
        match found {
            Found::Frame(frame) => {
                let rate = input.rate().context("no header")?;
                let outlet = Outlet { output: &mut output, scaler: scaler.as_mut(), rate };
                decoder.frame(&frame, outlet, &mut report, args.strict).with_context(reads)?;
            }
            Found::Lost { bytes } => report.losses.passed_over(bytes),
            Found::Cut { bytes } => report.losses.cut(bytes),
        }
    }
    output.finish()?;
    report.finish(Clock.now());
    drop(input);
    let text = if args.json { report.json()? } else { report.line() };
    if args.json && !output.takes_stdout() {
        stdout::print(&text)?;
    } else {
        stdout::print_aside(&text)?;
    }
    match report.losses.sentence(report.frames) {
        None => Ok(()),
        Some(lost) => Err(failure::failed(
            format!("{}: {lost}", args.input),
            "all else was decoded; --strict ends at the first damage",
        )),
    }
}

/// All that the format has room for, as far as half of the free memory is enough for it.
fn default_limits() -> Limits {
    let most = available_memory().map_or(u64::MAX, |bytes| bytes / 2 / Limits::BYTES_A_PIXEL);
    let max_pixels = u32::try_from(most).unwrap_or(u32::MAX).min(Limits::FORMAT.max_pixels);
    Limits { max_pixels }
}

/// A stream's state, and the memory in which it goes on.
struct Decoder {
    state: State,
    workspace: Workspace,
    limits: Limits,
}

/// The way to the output.
struct Outlet<'a> {
    output: &'a mut PictureOutput,
    scaler: Option<&'a mut Scaler>,
    rate: FrameRate,
}

impl Decoder {
    fn new(limits: Limits) -> Decoder {
        Decoder { state: State::new(), workspace: Workspace::new(), limits }
    }

    /// Decodes the next frame.
    fn decode(&mut self, bytes: &[u8]) -> Result<Decoded, vp8::Error> {
        let decoded = decode_in(&self.state, bytes, &self.limits, &mut self.workspace)?;
        self.state.clone_from(&decoded.state);
        Ok(decoded)
    }

    fn frame(
        &mut self,
        frame: &ivf::Frame,
        outlet: Outlet<'_>,
        report: &mut Report,
        is_strict: bool,
    ) -> Result<()> {
        let before = Clock.now();
        let number = report.frames;
        let decoded = match self.decode(&frame.bytes) {
            Ok(decoded) => decoded,
            // It is whole: nothing is damaged, and behind it are more of that size.
            Err(error @ vp8::Error::TooLarge { .. }) => return Err(undecodable(number, &error)),
            Err(error) if is_strict => return Err(undecodable(number, &error)),
            Err(error) => {
                report.undecodable(&error);
                return Ok(());
            }
        };
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
    let advice = match error {
        vp8::Error::TooLarge { width, height, .. } => format!(
            "raise the limit with --max-picture {width}x{height}; it takes up to {} MB of memory",
            u64::from(*width) * u64::from(*height) * Limits::BYTES_A_PIXEL / 1_000_000
        ),
        _ => "the stream is damaged there, or no VP8; frames in front of it were decoded".to_owned(),
    };
    failure::failed(format!("frame {number}: {error}"), advice)
}

/// The input's name without folder and ending, for names of pictures.
fn stem(input: &str) -> String {
    let stem = Path::new(input).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    stem.filter(|_| input != "-").unwrap_or_else(|| "stdin".to_owned())
}
