//! `glassline lab experiment`: direct video over an emulated network, in virtual time; [`super::real_time`] does the same in real time.

mod paper;
mod traces;

use super::lines::{self, percent};
use super::link::line::LineOptions;
use super::link::quantity::{self as link_quantity, Sided, Speed};
use super::real_time::{self, Experiment};
use super::slots::write_slots;
use super::stages::stages_table;
use crate::direct::{decision_line, speed_of};
use crate::encode::input_words;
use crate::link::{BondingArg, parse_parity};
use crate::{failure, logging, output};
use anyhow::{Context, Result};
use glassline_call::direct::{CodecMode, CodedSize, SenderSettings, VideoCodec};
use glassline_io::process::processors;
use glassline_lab::experiment::{Cost, Line, Outcome, Setup, SoundSummary, Summary, run as run_experiment};
use glassline_media::FrameRate;
use glassline_media::quantity::{self, Bitrate, ByteRate};
use glassline_studio::capture::{Deinterlace, Input, Length, Pictures};
use glassline_studio::parallel::Threads;
use glassline_transport::emulator::{LinkConfig, Loss, Outages, Queue, Reorder, Scale, Service};
use glassline_transport::link::{Bonding, Controller, Fec};
use serde_json::json;
use std::ffi::OsString;
use std::fmt;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  glassline lab experiment people.y4m --up ATT-LTE-driving.down --down ATT-LTE-driving.up --from 210s \\
      --delay 20ms --queue 256p --duration 60s
                                     a minute of a drive, sent as with `glassline send`
  glassline lab experiment people.y4m --up 6M --delay 20ms --queue 256p --loss up=5% --fec 25%
  glassline lab experiment people.y4m --up 3M --delay 20ms --outage once:20s/1s --slots slots.csv
                                     each picture's delay, for a plot
  glassline lab experiment people.y4m --line up=2M,delay=30ms,queue=256p \
      --line up=lte.down,down=lte.up,delay=80ms,queue=256p,outage=once:10s/5s
                                     a link with a path over each of two lines, of which one fails for 5 s
  glassline lab experiment people.y4m --up starlink.down --scale 1/30 --delay 20ms --queue 256p
                                     a recorded line with a thirtieth of its capacity
  glassline lab experiment people.y4m --up 6M --delay 20ms --conventional
                                     the encoder controlled once per second, in the conventional way
  glassline lab experiment --paper --results experiment && glassline lab report experiment
                                     the experiments of Salsify's paper, which take hours, and a page of them;
                                     after an interruption, finished experiments are not run again
  glassline lab experiment --paper --results experiment --only att,wifi-2c --duration 60s
  glassline lab experiment people.y4m --traces nyc --delay 10ms --queue 100p --beside salsify --svg nyc.svg
                                     each trace in a folder, with two controllers; medians, worst figures, and a picture
  glassline lab experiment people.y4m --up lte.down --down lte.up --delay 20ms --queue 256p --real-time
                                     the real programs, in real time, over a link like that of `lab link`
  glassline lab experiment people.y4m --line up=2M,delay=30ms,queue=256p --line up=3M,delay=80ms,queue=256p --real-time
                                     the same over two lines, with a path of the link over each
  glassline lab experiment people.y4m --up lte.down --down lte.up --delay 20ms --queue 256p --peer webrtc-vp8
                                     WebRTC between two browsers over the same link

Without --real-time the real send loop, link, codec and receiver run, but packets, clocks and processors are modelled, so that
a run can be repeated exactly and does not depend on the machine. Delay is from capture to display; a picture that was
never shown counts as shown with the next one that was (Fouladi et al., NSDI 2018). docs/direct.md has figures.";

/// Send video over an emulated network in virtual time, and measure its delay and quality
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The video: FILE.y4m or a file that FFmpeg can read, which starts again at its end, or test:WIDTHxHEIGHT@RATE
    #[arg(value_name = "INPUT", required_unless_present = "paper")]
    input: Option<Input>,
    /// Capacity in the direction of the video: a rate (5M), or a trace file in Mahimahi's format
    #[arg(long, value_name = "TRACE|RATE", required_unless_present_any = ["paper", "traces", "line"])]
    up: Option<Speed>,
    /// Capacity in the opposite direction
    #[arg(long, value_name = "TRACE|RATE", default_value = "unlimited")]
    down: Speed,
    /// Start at this time of the traces
    #[arg(long, value_name = "TIME", value_parser = link_quantity::duration)]
    from: Option<Duration>,
    /// How long pictures are sent [default: 60s]; with --paper an upper limit, since the traces set the length
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration)]
    duration: Option<Duration>,
    /// One-way delay; here and below, up= or down= before a value limits it to one direction
    #[arg(long, value_name = "[up=|down=]TIME", value_parser = super::link::sided_duration)]
    delay: Vec<Sided<Duration>>,
    /// The queue in front of the bottleneck: packets (256p), bytes (64k), both (256p+64k), drophead:…; infinite
    #[arg(long, value_name = "[up=|down=]QUEUE", value_parser = |text: &str| Sided::parse(text, link_quantity::queue))]
    queue: Vec<Sided<Queue>>,
    /// Packet loss: 2%, or in bursts ge:TO_BAD/TO_GOOD/LOSS_IN_BAD (Gilbert-Elliott)
    #[arg(long, value_name = "[up=|down=]LOSS", value_parser = |text: &str| Sided::parse(text, link_quantity::loss))]
    loss: Vec<Sided<Loss>>,
    /// Packets that are held back, so that others overtake them: 1%:10ms
    #[arg(long, value_name = "[up=|down=]SHARE:TIME", value_parser = |text: &str| Sided::parse(text, link_quantity::reorder))]
    reorder: Vec<Sided<Reorder>>,
    /// Outages of the link: random:ON/OFF (means), periodic:ON/OFF, once:AFTER/OFF; with ,hold packets wait until it
    /// is over
    #[arg(long, value_name = "[up=|down=]OUTAGE", value_parser = |text: &str| Sided::parse(text, link_quantity::outages))]
    outage: Vec<Sided<Outages>>,
    /// One of several lines, once for each, in place of the options above: their names as keys, up= required, such as
    /// up=2M,down=3M,delay=30ms,queue=256p. Each line is a path of the link
    #[arg(
        long,
        value_name = "KEY=VALUE,...",
        conflicts_with_all = [
            "up", "down", "delay", "queue", "loss", "reorder", "outage", "paper", "traces"
        ]
    )]
    line: Vec<LineOptions>,
    /// How several lines are used [default: sum]
    #[arg(long, value_enum, value_name = "HOW", requires = "line")]
    bonding: Option<BondingArg>,
    /// Scale the capacity of all traces: a fraction (1/30) or a decimal number, from 1/1000 to 100
    #[arg(long, value_name = "FACTOR", conflicts_with = "paper")]
    scale: Option<Scale>,
    /// Seed of all random numbers: the same seed gives the same losses
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Codec of the video
    #[arg(long, value_enum, value_name = "CODEC", default_value = "vp8")]
    codec: Codec,
    /// The encoder's speed against quality, from 0 (best) to 10 (fastest), with AV1 from 7; smaller pictures are coded
    /// with more effort [default: 4; with AV1 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=10))]
    pub(super) speed: Option<u8>,
    /// The size at which pictures are coded: smaller when the network carries little (auto), the source's size
    /// (source), or WxH
    #[arg(long, value_name = "auto|source|WxH", default_value_t)]
    pub(super) size: CodedSize,
    /// The number of qualities in which each picture is encoded
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=6))]
    pub(super) candidates: u8,
    /// Highest bit rate of the video
    #[arg(long, value_name = "RATE")]
    pub(super) bitrate: Option<Bitrate>,
    /// Sound beside the pictures at this bit rate, in packets of 10 ms, as `glassline send` has it where the source has
    /// sound [default: none]
    #[arg(long, value_name = "RATE")]
    audio_bitrate: Option<Bitrate>,
    /// Parity: a share while packets are being lost (25%), always (always:25%), or none
    #[arg(long, value_name = "SHARE", default_value = "25%", value_parser = parse_parity)]
    pub(super) fec: Fec,
    /// What determines the link's rate: adaptive (Glassline's own), salsify, salsify-no-grace, gcc, scream, dither, or a fixed rate
    #[arg(long, value_name = "WHICH", default_value = "adaptive")]
    controller: ControllerName,
    /// Padding with which the link measures the capacity of its path, in percent of its rate
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=50))]
    probing: u8,
    /// The receiver asks for a key frame this long after the last one, as `glassline receive` does where AV1 goes to viewers as it
    /// comes [default: never]
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration, conflicts_with_all = ["paper", "real_time", "peer"])]
    key_interval: Option<Duration>,
    /// Control the encoder in the conventional way: one quantiser for each second, and every picture is sent
    #[arg(long)]
    pub(super) conventional: bool,
    /// Processor time for coding, as a multiple of the modelled time
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    cost: f64,
    /// Write what happened to each picture as CSV: when it was captured and shown, its delay, bytes and SSIM
    #[arg(long, value_name = "FILE")]
    slots: Option<PathBuf>,
    /// Write the decision about each picture, one line of JSON each, as `glassline send --decisions` does
    #[arg(long, value_name = "FILE")]
    pub(super) decisions: Option<PathBuf>,
    /// Draw what each line let pass and carried, its queue and its delay, over time; with --traces delay against quality
    /// of all runs
    #[arg(long, value_name = "FILE.svg", conflicts_with = "paper")]
    svg: Option<PathBuf>,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    paper: paper::Request,
    #[command(flatten)]
    set: traces::SetRequest,
    #[command(flatten, next_help_heading = "In real time")]
    real_time: real_time::Options,
}

/// The codecs that an experiment can be made with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Codec {
    /// VP8, each picture in several qualities
    #[default]
    Vp8,
    /// AV1 by libaom
    #[cfg(feature = "av1")]
    Av1,
    /// AV1 or VP8, as a comparison of both tells
    #[cfg(feature = "av1")]
    Auto,
}

impl Codec {
    fn of_sender(self) -> VideoCodec {
        match self {
            Codec::Vp8 => VideoCodec::Vp8,
            #[cfg(feature = "av1")]
            Codec::Av1 => VideoCodec::Av1,
            #[cfg(feature = "av1")]
            Codec::Auto => VideoCodec::Auto,
        }
    }

    /// As `glassline send --codec` calls it.
    fn name(self) -> &'static str {
        self.of_sender().name()
    }
}

/// Which time `--svg` shows.
const DRAWN: &str = "the capture of the first picture to that of the last";
/// How long pictures are sent where nothing is said.
const DURATION: Duration = Duration::from_secs(60);

/// A controller on the command line.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ControllerName(Controller);

impl fmt::Display for ControllerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Controller::Adaptive => f.write_str("adaptive"),
            Controller::Salsify { grace_periods: true, .. } => f.write_str("salsify"),
            Controller::Salsify { grace_periods: false, .. } => f.write_str("salsify-no-grace"),
            Controller::Gcc => f.write_str("gcc"),
            Controller::Scream => f.write_str("scream"),
            Controller::Dither => f.write_str("dither"),
            Controller::Fixed(rate) => {
                write!(f, "{}", Bitrate::from_bits_per_second(rate.bytes_per_second() * 8))
            }
        }
    }
}

/// How long Salsify lets packets be under way.
const SALSIFY_DELAY: Duration = Duration::from_millis(100);

impl FromStr for ControllerName {
    type Err = String;
    fn from_str(text: &str) -> Result<ControllerName, String> {
        Ok(ControllerName(match text {
            "adaptive" => Controller::Adaptive,
            "salsify" => Controller::Salsify { delay: SALSIFY_DELAY, grace_periods: true },
            "salsify-no-grace" => Controller::Salsify { delay: SALSIFY_DELAY, grace_periods: false },
            "gcc" => Controller::Gcc,
            "scream" => Controller::Scream,
            "dither" => Controller::Dither,
            rate => {
                let rate = rate.parse::<Bitrate>().map_err(|_| {
                    format!(
                        "{text:?} is none of adaptive, salsify, salsify-no-grace, gcc, scream, dither and a rate (3M)"
                    )
                })?;
                Controller::Fixed(ByteRate::from_bytes_per_second(rate.bits_per_second() / 8))
            }
        }))
    }
}

impl Args {
    /// One line of these capacities, the rest of it from the options.
    fn line_of(&self, up: &Speed, down: &Speed) -> LineOptions {
        LineOptions {
            delay: self.delay.clone(),
            queue: self.queue.clone(),
            loss: self.loss.clone(),
            reorder: self.reorder.clone(),
            outage: self.outage.clone(),
            ..LineOptions::new(up.clone(), down.clone())
        }
    }

    /// The lines that are asked for.
    fn lines(&self) -> Result<Vec<LineOptions>> {
        let lines = match &self.up {
            Some(up) => vec![self.line_of(up, &self.down)],
            None if self.line.is_empty() => {
                return Err(failure::usage("there is no capacity", "give one: --up 5M, or a trace file"));
            }
            None => self.line.clone(),
        };
        let most = self.bonding().max_paths();
        if lines.len() > most {
            let found = format!("--line is given {} times", lines.len());
            return Err(failure::usage(found, format!("a link has up to {most} paths in this way")));
        }
        if self.bonding.is_some() && lines.len() < 2 {
            return Err(failure::usage("--bonding is about several lines", "give --line a second time"));
        }
        let has_trace = |line: &LineOptions| [&line.up, &line.down].into_iter().any(Speed::is_trace);
        if self.scale.is_some() && !lines.iter().any(has_trace) {
            return Err(failure::usage(
                "--scale has no trace to scale",
                "write the rate itself, such as --up 5M",
            ));
        }
        Ok(lines)
    }

    /// How several lines are used.
    fn bonding(&self) -> Bonding {
        self.bonding.map_or(Bonding::Sum, BondingArg::bonding)
    }

    /// A line as it is emulated.
    fn emulated(&self, line: &LineOptions) -> Result<Line> {
        Ok(Line { up: self.way(line, true)?, down: self.way(line, false)? })
    }

    /// A line in the direction of the video, or in the opposite one.
    fn way(&self, line: &LineOptions, is_up: bool) -> Result<LinkConfig> {
        let side = if is_up { "up" } else { "down" };
        let mut config = line.config(is_up, false);
        if let Service::Trace(trace) = &mut config.service {
            if let Some(from) = self.from {
                *trace = trace.from(from).into();
            }
            if let Some(scale) = self.scale {
                let scaled = trace.scaled(scale);
                *trace = scaled
                    .map_err(|error| failure::usage(format!("{side}: {error}"), "scale by less"))?
                    .into();
            }
        }
        config.check().map_err(|error| failure::usage(format!("{side}: {error}"), "see --help"))?;
        Ok(config)
    }
}

/// Runs the experiment, or those of the paper, to the end.
pub(super) fn run(args: &Args) -> Result<()> {
    if args.paper.is_asked_for() {
        return paper::run(args);
    }
    let Some(input) = &args.input else {
        return Err(failure::usage("there is no video", "name one, such as people.y4m"));
    };
    if args.set.is_asked_for() {
        return traces::run(args);
    }
    let lines = args.lines()?;
    let names: Vec<String> = lines.iter().map(|line| line.up.name()).collect();
    if args.real_time.is_asked() {
        let experiment = Experiment {
            input,
            lines: lines.iter().map(|line| args.emulated(line)).collect::<Result<_>>()?,
            names,
            seed: args.seed,
            duration: args.duration.unwrap_or(DURATION),
            sender: sender_options(args),
            slots: args.slots.as_deref(),
            svg: args.svg.as_deref(),
            json: args.json,
        };
        return real_time::run(&args.real_time, &experiment);
    }
    let mut pictures = open(input)?;
    let setup = setup_of(args, &lines, pictures.format().rate)?;
    let outcome = run_shown(&setup, &mut pictures, &threads()?, "")?;
    if let Some(path) = &args.slots {
        write_slots(path, &outcome)?;
    }
    if let Some(path) = &args.decisions {
        let lines: String =
            outcome.decisions.iter().map(|made| decision_line(made, Duration::ZERO) + "\n").collect();
        std::fs::write(path, lines).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let summary = outcome.summary();
    if let Some(path) = &args.svg {
        let drawn = lines::drawing(input, &names, DRAWN, &outcome, &summary);
        std::fs::write(path, drawn).with_context(|| format!("cannot write {}", path.display()))?;
    }
    output::print(&if args.json { json!(summary).to_string() + "\n" } else { table(&summary) })
}

/// One run in virtual time, over these lines.
fn setup_of(args: &Args, lines: &[LineOptions], rate: FrameRate) -> Result<Setup> {
    let sender = SenderSettings {
        speed: speed_of(args.speed, args.codec.of_sender())?,
        video_codec: args.codec.of_sender(),
        candidates: usize::from(args.candidates),
        bitrate_max: args.bitrate,
        size: args.size,
        codec: if args.conventional { CodecMode::Conventional } else { CodecMode::Functional },
        ..SenderSettings::new(1, rate)
    };
    Ok(Setup {
        lines: lines.iter().map(|line| args.emulated(line)).collect::<Result<_>>()?,
        bonding: args.bonding(),
        seed: args.seed,
        rate,
        duration: args.duration.unwrap_or(DURATION),
        sender,
        sound: args.audio_bitrate,
        controller: args.controller.0,
        parity: args.fec,
        probing_percent: args.probing,
        cost: Cost::default().scaled(args.cost),
        key_interval: args.key_interval,
    })
}

/// Takes away what a terminal shows of a run.
fn clear_progress() {
    if std::io::stderr().is_terminal() {
        logging::show("");
    }
}

/// Writes below what a terminal shows of a run.
fn tell(line: &str) {
    clear_progress();
    output::print_to_stderr(line);
}

/// The video, which begins again at its end if it is a file.
fn open(input: &Input) -> Result<Pictures> {
    let looped = input.path().is_some();
    Pictures::open(input, looped, Deinterlace::Auto, Length::default()).map_err(input_words)
}

fn threads() -> Result<Threads> {
    Threads::new(processors().min(4)).context("cannot start threads")
}

/// Runs an experiment and shows on a terminal how far it is, with `name` before it.
fn run_shown(setup: &Setup, pictures: &mut Pictures, threads: &Threads, name: &str) -> Result<Outcome> {
    let next = || match pictures.next_picture() {
        Ok(Some(picture)) => Ok(picture),
        Ok(None) => Err("the video ends before the experiment does: give a file, which begins again".into()),
        Err(error) => Err(error.into()),
    };
    let is_shown = std::io::stderr().is_terminal();
    let mut told = Instant::now();
    let outcome = run_experiment(setup, next, threads, |number, all| {
        if is_shown && told.elapsed() > Duration::from_secs(1) {
            told = Instant::now();
            logging::show(&format!("{name}picture {number} of {all}\n"));
        }
    });
    outcome.map_err(|error| failure::failed(error, "see glassline lab experiment --help"))
}

fn table(summary: &Summary) -> String {
    let decibels = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    let [finest, between, coarsest, none] = summary.chosen.map(percent);
    let stages = stages_table(&summary.stages);
    let lines = lines::rows(summary);
    let codecs: Vec<String> =
        summary.sent_by_codec.iter().map(|(codec, sent)| format!("{sent} in {codec}")).collect();
    let codecs = match codecs.is_empty() {
        true => String::new(),
        false => format!("sent                           {}\n", codecs.join(", ")),
    };
    let sound = summary.sound.map_or_else(String::new, |sound| {
        let SoundSummary { sent, arrived, delay_p95_ms } = sound;
        format!("sound                          {sent} messages sent, {arrived} arrived, p95 {delay_p95_ms:.1} ms\n")
    });
    format!(
        "delay from capture to display  p50 {:.1}  p95 {:.1}  p99 {:.1}  max {:.1} ms\n\
         quality of what was shown      SSIM of luma {} dB; as Daala's tools compute it {} dB\n\
         pictures                       {} captured, {} sent, {} shown ({:.1} a second), {} did not fit, {} lost, {} damaged, {} key frames\n\
         rate                           {:.2} Mbit/s of video; {} of what the way carries, packets and all\n\
         queue                          p50 {:.1}  p95 {:.1} ms; {} packets lost\n\
         {codecs}{lines}chosen                         finest {finest}, between {between}, coarsest {coarsest}, none {none}\n\
         states held                    sender {:.1} on average, {} at most; receiver {:.1} and {}\n\
         {sound}{stages}",
        summary.delay_p50_ms,
        summary.delay_p95_ms,
        summary.delay_p99_ms,
        summary.delay_max_ms,
        decibels(summary.ssim_y_db),
        decibels(summary.ssim_daala_db),
        summary.pictures,
        summary.sent,
        summary.shown,
        summary.shown_per_s,
        summary.skipped,
        summary.lost,
        summary.damaged.map_or_else(|| "-".to_owned(), |damaged| damaged.to_string()),
        summary.key,
        summary.bits_per_s / 1e6,
        summary.used.map_or_else(|| "an unknown share".to_owned(), percent),
        summary.queue_p50_ms,
        summary.queue_p95_ms,
        summary.dropped_packets,
        summary.sender_states.0,
        summary.sender_states.1,
        summary.receiver_states.0,
        summary.receiver_states.1,
    )
}

/// The sender's settings as `glassline send` takes them.
fn sender_options(args: &Args) -> Vec<OsString> {
    let parity = match args.fec {
        Fec::Never => "none".to_owned(),
        Fec::WhenLossy(percent) => format!("{percent}%"),
        Fec::Always(percent) => format!("always:{percent}%"),
    };
    let mut words: Vec<OsString> = vec![
        format!("--codec={}", args.codec.name()).into(),
        format!("--size={}", args.size).into(),
        format!("--candidates={}", args.candidates).into(),
        format!("--fec={parity}").into(),
    ];
    words.extend(args.speed.map(|speed| OsString::from(format!("--speed={speed}"))));
    words.extend(args.bitrate.map(|rate| OsString::from(format!("--bitrate={rate}"))));
    let bonding = (args.line.len() > 1).then(|| args.bonding.unwrap_or(BondingArg::Sum));
    words.extend(bonding.map(|bonding| OsString::from(format!("--bonding={}", bonding.name()))));
    words.extend(args.conventional.then(|| "--conventional".into()));
    let decisions = args.decisions.iter();
    words.extend(decisions.flat_map(|path| ["--decisions".into(), path.as_os_str().to_owned()]));
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, FromArgMatches};

    #[test]
    fn controllers_have_names() {
        let parse = |text: &str| text.parse::<ControllerName>().map(|name| name.0);
        assert_eq!(parse("adaptive"), Ok(Controller::Adaptive));
        assert!(matches!(parse("salsify-no-grace"), Ok(Controller::Salsify { grace_periods: false, .. })));
        assert!(matches!(parse("3M"), Ok(Controller::Fixed(_))));
        let rivals = ["gcc", "scream", "dither"].map(parse);
        assert_eq!(rivals, [Controller::Gcc, Controller::Scream, Controller::Dither].map(Ok));
        assert!(parse("bbr").unwrap_err().contains("salsify-no-grace, gcc"));
        // They are told as they are asked for.
        for name in ["adaptive", "salsify", "salsify-no-grace", "gcc", "scream", "dither", "3M"] {
            assert_eq!(name.parse::<ControllerName>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn the_sender_gets_what_the_experiment_was_told() {
        let words_of = |options: &str| {
            let command = Args::augment_args(clap::Command::new("experiment"));
            let line = format!("experiment people.y4m --real-time {options}");
            let matches = command.try_get_matches_from(line.split_whitespace()).unwrap();
            sender_options(&Args::from_arg_matches(&matches).unwrap())
        };
        let words = |options: &str| words_of(&format!("--up 3M {options}"));
        let expected = [
            "--codec=vp8",
            "--size=640x360",
            "--candidates=3",
            "--fec=always:25%",
            "--speed=6",
            "--bitrate=3M",
            "--conventional",
            "--decisions",
            "d.jsonl",
        ];
        let told = "--speed 6 --size 640x360 --candidates 3 --fec always:25% --bitrate 3M --conventional --decisions d.jsonl";
        assert_eq!(words(told), expected);
        assert_eq!(words("--fec none")[3], "--fec=none");
        let base = words("");
        let two = words_of("--line up=1M --line up=2M,delay=10ms");
        assert_eq!((two.len(), &two[base.len()]), (base.len() + 1, &OsString::from("--bonding=sum")));
        assert_eq!(words_of("--line up=1M --line up=2M --bonding both")[base.len()], "--bonding=both");
        assert_eq!(words_of("--line up=1M"), base, "a single line is no path that has to be chosen");
        assert_eq!(words("--fec 10%")[1..4], ["--size=auto", "--candidates=4", "--fec=10%"]);
    }
}
