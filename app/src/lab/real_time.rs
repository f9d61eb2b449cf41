//! `glassline lab experiment --real-time` and `--peer`: the programs themselves, or browsers, behind an emulated link.

use super::lines::{self, percent};
use super::link::no_network;
use super::slots::write_slots;
use super::stages::stages_table;
use crate::encode::input_words;
use crate::{failure, logging, output};
use anyhow::{Context, Result};
use clap::ValueEnum;
use glassline_io::child::Signals;
use glassline_lab::experiment::{Line, Summary};
use glassline_lab::link::Ends;
use glassline_lab::real_time::{Clip, Codec, Direct, Measured, RealTime, Scratch, Setup, Webrtc, Who};
use glassline_media::quantity;
use glassline_studio::capture::{Deinterlace, Input, Length, Pictures};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The largest packet of the line, as `lab link` has it without being told.
const MTU_BYTES: u32 = 1500;
/// The clip is longer than what is shown: connecting takes time, too.
const AHEAD: Duration = Duration::from_secs(10);
/// Which time `--svg` shows.
const DRAWN: &str = "the moment at which the first picture was shown";
/// What browsers are called, in the order in which they are looked for.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];

/// Options of runs in real time.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Run the real `glassline send` and `glassline receive`, in real time, with packets over an emulated link (as
    /// root, or where user namespaces are allowed)
    #[arg(long, conflicts_with_all = ["controller", "probing", "cost", "audio_bitrate"])]
    real_time: bool,
    /// Measure another system instead of Glassline, in real time: WebRTC between two browsers (Chromium) without
    /// windows
    #[arg(long, value_enum, value_name = "PEER", conflicts_with_all = [
        "controller", "probing", "cost", "audio_bitrate", "codec", "speed", "size", "candidates", "bitrate", "fec", "conventional",
        "decisions",
    ])]
    peer: Option<Peer>,
    /// The browser; without it $CHROMIUM, or the first of chromium, chromium-browser, google-chrome-stable and
    /// google-chrome that is found
    #[arg(long, value_name = "PROGRAM", requires = "peer")]
    browser: Option<PathBuf>,
    /// The layers in which the peer encodes, by WebRTC's names (L1T3); without it L3T3_KEY with VP9, and otherwise
    /// the browser's choice
    #[arg(long, value_name = "MODE", requires = "peer")]
    scalability_mode: Option<String>,
    /// Compare every N-th picture that the peer shows with the captured one; for Glassline all pictures are compared
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    judge_every: u32,
    /// How long to run the same without a network first, to measure the delay of the testbed itself: a time, or none
    #[arg(long, value_name = "TIME|none", default_value = "5s", value_parser = testbed)]
    testbed: TestbedTime,
}

/// The other systems that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Peer {
    /// VP8
    WebrtcVp8,
    /// VP9, in three spatial and three temporal layers (SVC)
    WebrtcVp9,
    /// AV1
    WebrtcAv1,
}

impl Peer {
    fn codec(self) -> Codec {
        match self {
            Peer::WebrtcVp8 => Codec::Vp8,
            Peer::WebrtcVp9 => Codec::Vp9,
            Peer::WebrtcAv1 => Codec::Av1,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Peer::WebrtcVp8 => "webrtc-vp8",
            Peer::WebrtcVp9 => "webrtc-vp9",
            Peer::WebrtcAv1 => "webrtc-av1",
        }
    }
}

/// How long the testbed is measured, if it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TestbedTime(Option<Duration>);

fn testbed(text: &str) -> Result<TestbedTime, String> {
    match text {
        "none" => Ok(TestbedTime(None)),
        _ => quantity::parse_duration(text)
            .map(|time| TestbedTime(Some(time)))
            .map_err(|error| format!("{error}, or none")),
    }
}

/// What an experiment in virtual time is told, too.
pub(super) struct Experiment<'a> {
    pub(super) input: &'a Input,
    /// Each is a path of the link.
    pub(super) lines: Vec<Line>,
    /// What each line's capacity in the direction of the video is called.
    pub(super) names: Vec<String>,
    pub(super) seed: u64,
    pub(super) duration: Duration,
    /// Options of `glassline send`.
    pub(super) sender: Vec<OsString>,
    pub(super) slots: Option<&'a Path>,
    pub(super) svg: Option<&'a Path>,
    pub(super) json: bool,
}

impl Options {
    /// Whether the experiment is one in real time.
    pub(super) fn is_asked(&self) -> bool {
        self.real_time || self.peer.is_some()
    }

    fn who(&self, experiment: &Experiment<'_>) -> Result<Who> {
        let Some(peer) = self.peer else {
            let program = std::env::current_exe().context("cannot find this program's own file")?;
            return Ok(Who::Direct(Direct { program, options: experiment.sender.clone() }));
        };
        Ok(Who::Webrtc(Webrtc {
            browser: self.browser()?,
            codec: peer.codec(),
            scalability_mode: self.scalability_mode.clone(),
            judged_every: self.judge_every,
        }))
    }

    fn browser(&self) -> Result<OsString> {
        browser(self.browser.as_deref())
    }
}

/// The browser: the one that is named, or `$CHROMIUM`, or the first that is found.
pub(super) fn browser(named: Option<&Path>) -> Result<OsString> {
    if let Some(named) = named.map(Into::into).or_else(|| std::env::var_os("CHROMIUM")) {
        return Ok(named);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let found = BROWSERS.iter().flat_map(|name| places.iter().map(move |place| place.join(name)));
    found.into_iter().find(|file| file.is_file()).map(PathBuf::into_os_string).ok_or_else(|| {
        failure::failed(
            format!("there is no browser here: none of {} is in PATH", BROWSERS.join(", ")),
            "install one (Debian: apt-get install chromium), or name it with --browser",
        )
    })
}

/// Runs the experiment to its end.
pub(super) fn run(options: &Options, experiment: &Experiment<'_>) -> Result<()> {
    let lines = experiment.lines.len();
    if options.peer.is_some() && lines > 1 {
        return Err(failure::usage(
            format!("--peer is measured over one line, and --line is given {lines} times"),
            "give one line: a browser's connection uses one path",
        ));
    }
    let who = options.who(experiment)?;
    // Networks and signals before there are other threads.
    let ends = Ends::make(MTU_BYTES, lines).map_err(no_network)?;
    let signals = Signals::block().context("cannot wait for signals")?;
    let scratch = Scratch::new()?;
    let is_shown = std::io::stderr().is_terminal();
    let show = |words: &str| {
        if is_shown {
            logging::show(&format!("{words}\n"));
        }
    };
    show("preparing the video");
    let clip = clip(experiment, &scratch)?;
    let Experiment { seed, duration, .. } = *experiment;
    let setup = Setup { lines: experiment.lines.clone(), seed, duration, testbed: options.testbed.0, who };
    let measured = glassline_lab::real_time::run(&setup, &clip, ends, &scratch, &signals, show)
        .map_err(|error| failure::failed(format!("{error:#}"), "see glassline lab experiment --help"))?;
    if let Some(path) = experiment.slots {
        write_slots(path, &measured.outcome)?;
    }
    if let Some(path) = experiment.svg {
        let Measured { outcome, summary, .. } = &measured;
        let drawn = lines::drawing(experiment.input, &experiment.names, DRAWN, outcome, summary);
        std::fs::write(path, drawn).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let who = options.peer.map_or("glassline", Peer::name);
    output::print(&if experiment.json {
        json(&measured, who).to_string() + "\n"
    } else {
        table(&measured, who)
    })
}

fn clip(experiment: &Experiment<'_>, scratch: &Scratch) -> Result<Clip> {
    let mut pictures =
        Pictures::open(experiment.input, false, Deinterlace::Auto, Length::default()).map_err(input_words)?;
    let rate = pictures.format().rate;
    let most = ((experiment.duration + AHEAD).as_secs_f64() * rate.as_f64()).ceil() as u64;
    Clip::write(scratch, rate, most, || Ok(pictures.next_picture()?))
}

/// The summary of virtual time, with what it cannot know as null.
fn json(measured: &Measured, who: &str) -> Value {
    let mut value = json!(measured.summary);
    let unknown: &[&str] = match measured.real_time.peer {
        None => &["sender_states", "receiver_states"],
        Some(_) => &["sender_states", "receiver_states", "chosen", "skipped", "lost"],
    };
    for key in unknown {
        value[key] = Value::Null;
    }
    value["who"] = who.into();
    value["real_time"] = json!(measured.real_time);
    value
}

fn table(measured: &Measured, who: &str) -> String {
    let Measured { summary, real_time, .. } = measured;
    let Summary { pictures, sent, shown, key, .. } = summary;
    let RealTime { judged, unread, .. } = real_time;
    let sizes: Vec<String> =
        real_time.sizes.iter().map(|(size, count)| format!("{count} of {size}")).collect();
    let mut text = format!(
        "{who}, in real time\n\
         delay from capture to display  p50 {:.1}  p95 {:.1}  p99 {:.1}  max {:.1} ms\n\
         quality of what was shown      SSIM of luma {} dB, of {judged} pictures\n\
         pictures                       {pictures} captured, {sent} sent, {shown} shown ({:.1} a second), {key} key frames; {unread} unreadable\n\
         sizes                          {}\n\
         rate                           {:.2} Mbit/s of video; {} of what the way carries, packets and all\n\
         queue                          p50 {:.1}  p95 {:.1} ms; {} packets lost\n\
         {}",
        summary.delay_p50_ms,
        summary.delay_p95_ms,
        summary.delay_p99_ms,
        summary.delay_max_ms,
        summary.ssim_y_db.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}")),
        summary.shown_per_s,
        sizes.join(", "),
        summary.bits_per_s / 1e6,
        summary.used.map_or_else(|| "an unknown share".to_owned(), percent),
        summary.queue_p50_ms,
        summary.queue_p95_ms,
        summary.dropped_packets,
        lines::rows(summary),
    );
    // Writing to a String does not fail.
    let _ = match &real_time.testbed {
        Some(testbed) => writeln!(
            text,
            "without a network              delay p50 {:.1}  p95 {:.1} ms, {:.1} pictures shown a second",
            testbed.delay_p50_ms, testbed.delay_p95_ms, testbed.shown_per_s
        ),
        None => Ok(()),
    };
    let _ = writeln!(
        text,
        "the testbed                    first picture after {:.2} s; packets handed on late by p99 {:.2} ms",
        real_time.connected_s, real_time.lateness_p99_ms
    );
    text + &stages_table(&summary.stages)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn the_testbed_is_measured_for_a_time_or_not() {
        assert_eq!(testbed("none"), Ok(TestbedTime(None)));
        assert_eq!(testbed("2s"), Ok(TestbedTime(Some(Duration::from_secs(2)))));
        assert!(testbed("long").unwrap_err().ends_with("or none"));
    }
}
