//! VP8: our encoder and decoder beside libvpx, and x264 for orientation, all in one thread.
//!
//! Speed is frames by processor time, user and system, of the whole program, which reads y4m and writes IVF as the
//! others do; files lie in the page cache. Bits are compared at the same quality (BD-rate), over four fixed quantisers
//! or four bit rates with a buffer of a second. libvpx `--rt --cpu-used=-6` is the zero line. Programs take turns.
//!
//! What no command line shows, candidates and sizes, is asked of the crate itself ([`candidates`]).
//!

mod candidates;
mod clips;
mod codecs;
mod denoise;
mod measure;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use clips::{Clip, Content, Height};
use codecs::{Aim, Decoder, Encoder, KILOBITS, QUANTIZERS};
use glassline_bench::bd_rate::{Point, bd_rate};
use glassline_bench::process::Others;
use glassline_bench::report::Report;
use measure::{Quality, cpu_time, kilobits, quality};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Our VP8 beside libvpx and x264: speed by processor time, bits at the same quality
#[derive(Debug, Parser)]
struct Args {
    /// What the pictures show
    #[arg(long, value_enum, value_name = "CLIP,…", value_delimiter = ',', default_values = ["flower", "people"])]
    clips: Vec<Content>,
    /// How large they are
    #[arg(long, value_enum, value_name = "LINES,…", value_delimiter = ',', default_values = ["720", "360"])]
    heights: Vec<Height>,
    /// Frames of each clip
    #[arg(long, value_name = "N", default_value_t = 150, value_parser = clap::value_parser!(u32).range(4..=300))]
    frames: u32,
    /// Measurements of speed; sizes and quality are the same each time
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Speed levels of ours: the first is the one for calls, the second the slower one
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values = ["6", "5"],
          value_parser = clap::value_parser!(u8).range(0..=10))]
    speeds: Vec<u8>,
    /// Which parts to run; all by default
    #[arg(long, value_enum, value_name = "PART,…", value_delimiter = ',')]
    parts: Vec<Part>,
    /// One clip, few frames, one run: whether everything works, not what it is worth
    #[arg(long)]
    quick: bool,
    /// Folder for vp8.json, and for clips and streams
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    out: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Four fixed quantisers
    Fixed,
    /// Four bit rates with a buffer of a second
    Cbr,
    /// Decoders
    Decode,
    /// What a second and a fourth candidate cost, and the hash of a state
    Candidates,
    /// How well asked sizes are met
    Sizes,
    /// Noise that is taken out beforehand; 360 lines, 60 frames
    Denoise,
}

/// Frames of `--quick`.
const QUICK_FRAMES: u32 = 20;
/// Frames with noise.
const NOISY_FRAMES: u32 = 60;
/// Whose bits everybody's are compared with.
const ZERO_LINE: Encoder = Encoder::Libvpx(6);
const SPEED: &str = "speed by CPU time";
const FAST_LINE_SPEED: &str = "the same at 4800 kbit/s";
const BD_PSNR: &str = "BD-rate, PSNR of luma";
const BD_SSIM: &str = "BD-rate, SSIM of luma";

fn main() -> Result<()> {
    let mut args = Args::parse();
    if args.quick {
        args.clips.truncate(1);
        args.heights = vec![Height::P360];
        (args.frames, args.runs) = (QUICK_FRAMES, 1);
    }
    let wants = |part| args.parts.is_empty() || args.parts.contains(&part);
    let mut report = Report::new("vp8").beside("libvpx -6").onto_earlier(!args.parts.is_empty());
    report.note("one thread; libvpx -N is vpxenc --rt --cpu-used=-N");
    report.how(format!("{} frames of each clip, or all; sizes and quality of one run", args.frames));
    let folder = args.out.join("vp8");
    for content in &args.clips {
        for height in &args.heights {
            let clip = match Clip::make(*content, *height, args.frames, &folder)? {
                Ok(clip) => clip,
                Err(why) => {
                    report.note(format!("SKIPPED the clip {content}: {why}"));
                    continue;
                }
            };
            if wants(Part::Fixed) {
                let aims: Vec<Aim> = (0..QUANTIZERS).map(Aim::Quantizer).collect();
                encode(&clip, "fixed quantisers", &aims, &args, &folder, &mut report)?;
            }
            if wants(Part::Cbr) {
                let aims = KILOBITS.map(Aim::Kilobits);
                encode(&clip, "CBR, 1 s buffer", &aims, &args, &folder, &mut report)?;
            }
            if wants(Part::Decode) {
                decode(&clip, &args, &folder, &mut report)?;
            }
            let level = args.speeds.first().copied().unwrap_or_default();
            if wants(Part::Candidates) {
                candidates::candidates(&clip, level, args.runs, &mut report)?;
            }
            if wants(Part::Sizes) {
                candidates::sizes(&clip, level, &mut report)?;
            }
            if wants(Part::Denoise) && *height == Height::P360 {
                let frames = args.frames.min(NOISY_FRAMES);
                if let Ok(clip) = Clip::make(*content, *height, frames, &folder)? {
                    denoise::run(&clip, level, args.runs, &folder, &mut report)?;
                }
            }
        }
    }
    report.finish(&args.out)
}

/// What an encoder made of a clip.
#[derive(Debug, Default)]
struct Curve {
    psnr: Vec<Point>,
    ssim: Vec<Point>,
}

/// All encoders by turns.
fn encode(
    clip: &Clip,
    how: &str,
    aims: &[Aim],
    args: &Args,
    folder: &Path,
    report: &mut Report,
) -> Result<()> {
    let case = format!("{}, {how}", clip.name);
    let ours = args.speeds.iter().map(|&speed| Encoder::Ours(speed));
    let peers = [Encoder::Libvpx(4), ZERO_LINE, Encoder::Libvpx(8), Encoder::X264];
    let mut present = Vec::new();
    for who in ours.chain(peers) {
        match who.missing() {
            None => present.push(who),
            Some(why) => report.note(format!("SKIPPED {}: {why}", who.name())),
        }
    }
    let mut curves: BTreeMap<String, Curve> = BTreeMap::new();
    for run in 0..args.runs {
        let others = Others::begin()?;
        let mut seconds: BTreeMap<(usize, &str), (f64, u32)> = BTreeMap::new();
        // All encoders with one aim, then with the next, so that what disturbs one disturbs all.
        let turns = aims.iter().flat_map(|aim| present.iter().enumerate().map(move |who| (aim, who)));
        for (&aim, (at, who)) in turns {
            let stream = folder.join(format!("{}.{}", who.name().replace(' ', "-"), who.extension()));
            let took = cpu_time(&mut who.command(clip, aim, &stream)?)?.as_secs_f64();
            let (total, runs) = seconds.entry((at, speed_of(aim))).or_default();
            (*total, *runs) = (*total + took, *runs + 1);
            if run == 0 {
                let (rate, Quality { psnr_db, ssim_db }) =
                    (kilobits(clip, &stream)?, quality(clip, &stream)?);
                let curve = curves.entry(who.name()).or_default();
                curve.psnr.push(Point { rate, quality: psnr_db });
                curve.ssim.push(Point { rate, quality: ssim_db });
                if let Aim::Kilobits(asked) = aim {
                    let percent = rate / f64::from(asked) * 100.0;
                    report.add_context(&case, &who.name(), kept(asked), "%", percent);
                }
            }
            fs::remove_file(&stream).with_context(|| stream.display().to_string())?;
        }
        // Programs take turns with each aim, so that what others had concerns all of them.
        let others = others.share()?;
        for who in &present {
            report.disturbance(&case, &who.name(), others);
        }
        for ((at, metric), (seconds, runs)) in seconds {
            let frames = f64::from(clip.frames) * f64::from(runs);
            report.add(&case, &present[at].name(), metric, "frames/s", frames / seconds.max(0.01));
        }
    }
    compare(&case, &present, &curves, report);
    terms(&case, args, report);
    Ok(())
}

/// Where the speed with an aim belongs: what has to be held ends at 2400 kbit/s.
fn speed_of(aim: Aim) -> &'static str {
    match aim {
        Aim::Kilobits(2401..) => FAST_LINE_SPEED,
        Aim::Kilobits(_) | Aim::Quantizer(_) => SPEED,
    }
}

/// What the rate is by what it should be.
fn kept(kilobits: u32) -> &'static str {
    match kilobits {
        600 => "rate by 600 kbit/s",
        1200 => "rate by 1200 kbit/s",
        2400 => "rate by 2400 kbit/s",
        _ => "rate by 4800 kbit/s",
    }
}

/// Everybody's bits against the zero line's.
fn compare(case: &str, present: &[Encoder], curves: &BTreeMap<String, Curve>, report: &mut Report) {
    let Some(zero) = curves.get(&ZERO_LINE.name()) else { return };
    for who in present {
        let Some(curve) = curves.get(&who.name()) else { continue };
        for (metric, one, other) in [(BD_PSNR, &zero.psnr, &curve.psnr), (BD_SSIM, &zero.ssim, &curve.ssim)] {
            match bd_rate(one, other) {
                Some(percent) => report.add_context(case, &who.name(), metric, "%", percent),
                None => report.note(format!("{case}: no {metric} of {}: {other:?}", who.name())),
            }
        }
    }
}

/// What ours have to be: the first level as fast as libvpx −8 and no worse than −6, the second as fast as −4 and better
/// than it.
fn terms(case: &str, args: &Args, report: &mut Report) {
    let level = |at: usize| args.speeds.get(at).map(|&speed| Encoder::Ours(speed).name());
    let mut term = |who: &str, peer: &str, bits: &str| {
        if let Some((ours, theirs)) = report.value(case, who, SPEED).zip(report.value(case, peer, SPEED)) {
            report.term(format!("{case}: {who} speed by that of {peer}"), ours / theirs, 1.0, false);
        }
        if let Some((ours, theirs)) = report.value(case, who, BD_PSNR).zip(report.value(case, bits, BD_PSNR))
        {
            report.term(format!("{case}: {who} {BD_PSNR}, beside {bits}, %"), ours, theirs, true);
        }
    };
    if let Some(who) = level(0) {
        term(&who, "libvpx -8", "libvpx -6");
    }
    if let Some(who) = level(1) {
        term(&who, "libvpx -4", "libvpx -4");
    }
}

/// All decoders by turns, with a stream of libvpx and one of ours.
fn decode(clip: &Clip, args: &Args, folder: &Path, report: &mut Report) -> Result<()> {
    let ours = args.speeds.first().map(|&speed| Encoder::Ours(speed));
    for maker in [Some(ZERO_LINE), ours].into_iter().flatten().filter(|maker| maker.missing().is_none()) {
        let case = format!("{}, decoding {}", clip.name, maker.name());
        let stream = folder.join("decode.ivf");
        cpu_time(&mut maker.command(clip, Aim::Quantizer(2), &stream)?)?;
        for _ in 0..args.runs {
            // Several times by turns, so that steps of 10 ms count for little.
            let present = || Decoder::ALL.into_iter().filter(|who| who.missing().is_none());
            let others = Others::begin()?;
            let mut seconds = [0.0; Decoder::ALL.len()];
            for _ in 0..DECODE_TIMES {
                for (who, seconds) in present().zip(&mut seconds) {
                    *seconds += cpu_time(&mut who.command(&stream)?)?.as_secs_f64();
                }
            }
            let others = others.share()?;
            for (who, seconds) in present().zip(seconds) {
                report.disturbance(&case, who.name(), others);
                let frames = f64::from(clip.frames * DECODE_TIMES);
                report.add(&case, who.name(), SPEED, "frames/s", frames / seconds.max(0.01));
            }
        }
        if let Some((ours, theirs)) = report.value(&case, Decoder::Ours.name(), SPEED).zip(report.value(
            &case,
            Decoder::Libvpx.name(),
            SPEED,
        )) {
            report.term(format!("{case}: speed by libvpx's"), ours / theirs, 1.0, false);
        }
        fs::remove_file(&stream).with_context(|| stream.display().to_string())?;
    }
    Ok(())
}

const DECODE_TIMES: u32 = 8;
