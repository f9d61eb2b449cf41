//! `glassline lab load live`: viewers of segmented video, LL-HLS and LL-DASH.

use super::quantity::Ramp;
use super::session::{self, Line};
use super::{http, workers};
use crate::choice::choice;
use crate::trust::Trust;
use crate::{failure, output, stop};
use anyhow::{Context, Result};
use glassline_inspect::http::Response;
use glassline_io::clock::Clock;
use glassline_io::process::{raise_descriptor_limit, thread_cpu_time};
use glassline_io::tls::Connector;
use glassline_lab::load::exchange::{Ends, Exchange};
use glassline_lab::load::live::{
    Labels, LiveReport, LiveTally, Protocol, Settings, Viewers, upstream_fetches,
};
use glassline_lab::load::{Progress, Target, Viewers as Counts};
use glassline_lab::report::live as drawing;
use glassline_media::{Choice, quantity};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  glassline lab load live http://127.0.0.1:8080/live/demo/index.m3u8 --viewers 500
                                     LL-HLS: with blocking reloads, and parts requested in advance
  glassline lab load live http://127.0.0.1:8080/live/demo/manifest.mpd --duration 1m --json
                                     LL-DASH: segments that are still being written
  glassline lab load live URL --viewers 20000 --processes 4 --source 127.0.0.1,127.0.0.2
  glassline lab load live URL --report viewers.html
                                     a page with the delays; .svg gives only the drawing

A chunk's delay is the time from its capture, which its prft box gives by the wall clock of the
server's machine, to the arrival of its last byte: run both on one machine, or synchronise the
clocks. docs/lab.md explains this.

Exit status: 0 success, 1 if something failed or no viewer received anything, 2 wrong usage.";

/// Simulate viewers of LL-HLS or LL-DASH: how soon they start, how late chunks are, how many viewers stall
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The playlist (.m3u8) or manifest (.mpd)
    #[arg(value_name = "URL", value_parser = http::url)]
    url: String,
    /// Number of simultaneous viewers; each has up to four connections
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = http::viewers)]
    viewers: usize,
    /// The protocol, if the URL's ending does not tell
    #[arg(long, value_parser = choice::<Protocol>())]
    protocol: Option<Protocol>,
    /// How fast viewers join: a number per second, or all within a time (10s)
    #[arg(long, value_name = "RATE/s|TIME", default_value = "3s")]
    ramp: Ramp,
    /// How long to measure after all viewers have joined
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::parse_duration)]
    duration: Duration,
    /// How long all viewers watch before the measurement starts
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = quantity::parse_duration)]
    warm_up: Duration,
    /// How long after its capture everything is presented; a chunk that arrives later is a stall
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = quantity::parse_duration)]
    latency: Duration,
    /// A request without an answer after this time has failed
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::parse_duration)]
    timeout: Duration,
    /// Addresses of this machine to connect from, in turn: each has about 28,000 ports
    #[arg(long, visible_alias = "sources", value_name = "ADDR", value_delimiter = ',')]
    source: Vec<IpAddr>,
    #[command(flatten)]
    trust: Trust,
    /// Divide the viewers among this many processes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    processes: u16,
    /// Print the report as JSON; docs/lab.md explains each key
    #[arg(long)]
    json: bool,
    /// Write an HTML page, or a drawing if the name ends with .svg
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Run as one of several processes, and report to the process that started it
    #[arg(long, hide = true)]
    worker: bool,
}

/// Descriptors that are none of viewers.
const OTHER_DESCRIPTORS: usize = 32;
const STEP: Duration = Duration::from_millis(100);

/// Loads the server and prints the report.
pub(super) fn run(args: &Args) -> Result<()> {
    let resolved = Target::resolve(&args.url);
    let target = resolved.map_err(|error| failure::failed(format!("{error:#}"), "check the name"))?;
    let protocol = protocol(args, &target)?;
    let trust = target.url().tls().then(|| args.trust.connector()).transpose()?;
    let descriptors = raise_descriptor_limit();
    if args.worker {
        return workers::work(|stop, tell| watch(args, &target, protocol, trust, stop, tell));
    }
    check_room(args, descriptors)?;
    let stop = stop::on_signal()?;
    let fetched = fetches(&target, trust.as_ref());
    let mut line = Line::new();
    let tally: LiveTally = if args.processes > 1 {
        let arguments =
            (0..usize::from(args.processes)).map(|index| arguments(args, protocol, index)).collect();
        workers::run(arguments, &stop, &mut |progress| line.show(progress))?
    } else {
        let show = &mut |progress: &Progress| {
            line.show(progress);
            Ok(())
        };
        watch(args, &target, protocol, trust.clone(), &stop, show)?
    };
    drop(line);
    let upstream_fetches =
        fetches(&target, trust.as_ref()).zip(fetched).map(|(after, before)| after - before);
    let labels = Labels {
        url: target.to_string(),
        protocol: protocol.name(),
        wanted: args.viewers,
        latency: args.latency,
        upstream_fetches,
    };
    finish(args, &LiveReport::new(&tally, labels))
}

fn protocol(args: &Args, target: &Target) -> Result<Protocol> {
    args.protocol.or_else(|| Protocol::of(target.url())).ok_or_else(|| {
        failure::usage("the URL ends neither with .m3u8 nor with .mpd", "say --protocol hls, or dash")
    })
}

fn check_room(args: &Args, descriptors: u64) -> Result<()> {
    let processes = usize::from(args.processes);
    if args.viewers < processes {
        return Err(failure::usage("there are fewer viewers than processes", "use fewer --processes"));
    }
    let each = Viewers::connections(args.viewers.div_ceil(processes)) + OTHER_DESCRIPTORS;
    if each as u64 > descriptors {
        return Err(failure::usage(
            format!("{each} descriptors are needed in each process, which may open {descriptors} here"),
            "divide the viewers among more --processes, or raise the limit (ulimit -n)",
        ));
    }
    Ok(())
}

/// The requests of the server to its upstream so far, where its `/metrics` tell. A file of more than a megabyte is none.
fn fetches(target: &Target, trust: Option<&Connector>) -> Option<f64> {
    let deadline = Clock::new().now() + Duration::from_secs(2);
    let mut answer = Response::get(&target.url().at("/metrics"), trust, deadline).ok()?;
    let (mut text, mut room) = (Vec::new(), vec![0; 64 << 10]);
    while answer.head().status == 200 && text.len() < 1 << 20 {
        match answer.read(&mut room, deadline).ok()? {
            0 => return upstream_fetches(&String::from_utf8_lossy(&text)),
            count => text.extend_from_slice(&room[..count]),
        }
    }
    None
}

/// Lets the viewers come and watches them for as long as planned, or until `stop`.
fn watch(
    args: &Args,
    target: &Target,
    protocol: Protocol,
    trust: Option<Connector>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<LiveTally> {
    let ends = Ends { target: target.clone(), trust, sources: args.source.clone(), timeout: args.timeout };
    let ramp = args.ramp.rate(args.viewers).min(1e6);
    let settings =
        Settings { url: target.url().clone(), protocol, viewers: args.viewers, ramp, latency: args.latency };
    let viewers = Viewers::new(settings, Clock::new().now());
    let mut load = Exchange::new(viewers, ends, Viewers::connections(args.viewers))?;
    let coming = Duration::from_secs_f64(args.viewers as f64 / ramp);
    go_on(&mut load, coming + args.warm_up, stop, tell)?;
    load.crowd_mut().begin_window();
    let (began, cpu) = (Instant::now(), thread_cpu_time());
    go_on(&mut load, args.duration, stop, tell)?;
    let mut tally = load.crowd().tally();
    tally.seconds = began.elapsed().as_secs_f64();
    tally.run_seconds = tally.seconds;
    tally.cpu_seconds = thread_cpu_time().saturating_sub(cpu).as_secs_f64();
    Ok(tally)
}

fn go_on(
    load: &mut Exchange<Viewers>,
    time: Duration,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&Progress) -> Result<()>,
) -> Result<()> {
    let (end, mut told) = (Instant::now() + time, Instant::now());
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        load.run(left.min(STEP))?;
        if told.elapsed() >= session::TELL {
            told = Instant::now();
            tell(&progress(load.crowd().so_far()))?;
        }
    }
}

fn progress(tally: &LiveTally) -> Progress {
    let viewers =
        Counts { asked: tally.begun, receiving: tally.playing, dropped: tally.lost, ..Counts::default() };
    let waiting = tally.begun - tally.playing;
    Progress { viewers, waiting, bytes: tally.bytes, errors: tally.failures(), source: None }
}

/// The command line of the `index`-th process.
fn arguments(args: &Args, protocol: Protocol, index: usize) -> Vec<String> {
    let parts = usize::from(args.processes);
    let mut line: Vec<String> = ["lab", "load", "live", "--worker"].map(str::to_owned).to_vec();
    let mut add = |name: &str, value: String| line.push(format!("--{name}={value}"));
    let micros = |time: Duration| format!("{}us", time.as_micros());
    add("viewers", http::share(args.viewers, index, parts).to_string());
    add("protocol", protocol.name().to_owned());
    add("ramp", format!("{}/s", (args.ramp.rate(args.viewers) / parts as f64).min(1e6)));
    add("duration", micros(args.duration));
    add("warm-up", micros(args.warm_up));
    add("latency", micros(args.latency));
    add("timeout", micros(args.timeout));
    for source in &args.source {
        add("source", source.to_string());
    }
    if let Some(ca) = &args.trust.ca {
        line.push(format!("--ca={}", ca.display()));
    }
    line.extend(["--".to_owned(), args.url.clone()]);
    line
}

fn finish(args: &Args, report: &LiveReport) -> Result<()> {
    if let Some(file) = &args.report {
        let is_picture = file.extension().is_some_and(|ending| ending == "svg");
        let text = if is_picture { drawing::draw(report) } else { drawing::page(report) };
        std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let text = match args.json {
        true => serde_json::to_string_pretty(report).context("cannot write JSON")? + "\n",
        false => report.table(),
    };
    output::print(&text)?;
    let reason = report.failures.first().map_or("no chunk came", |failure| &failure.reason);
    if report.playing == 0 {
        let advice = "check the URL, and that the stream is there";
        return Err(failure::failed(format!("no viewer received anything: {reason}"), advice));
    }
    if !report.is_right() {
        let what = format!("{} of {} viewers play; {reason}", report.playing, report.wanted);
        return Err(failure::failed(what, "see the report, and the server's log"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn processes_share_the_viewers() {
        let words = "live http://127.0.0.1/x.mpd --viewers 1001 --processes 3 --sources 127.0.0.1,127.0.0.2 --latency 500ms";
        let args = Program::try_parse_from(words.split(' ')).unwrap().args;
        let target = Target::resolve(&args.url).unwrap();
        let protocol = protocol(&args, &target).unwrap();
        assert_eq!(protocol, Protocol::Dash);
        let workers = (0..3).map(|index| {
            let worker = Program::try_parse_from(&arguments(&args, protocol, index)[2..]).unwrap().args;
            assert!(worker.worker && worker.source == args.source && worker.latency == args.latency);
            worker.viewers
        });
        assert_eq!(workers.sum::<usize>(), 1001);
        assert!(check_room(&args, 500).is_err() && check_room(&args, 20_000).is_ok());
    }
}
