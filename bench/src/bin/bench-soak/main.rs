//! A soak: viewers that come and go, read slowly or not at all, strangers and publishers of every manner, for minutes.
//! Memory must stay flat, descriptors return to their start, counters agree with what was done, and every byte is right.

mod samples;
mod strangers;

use anyhow::{Context, Result, bail};
use clap::Parser;
use glassline_bench::machine;
use glassline_bench::metrics::Metrics;
use glassline_bench::process::Server;
use glassline_bench::report::{OURS, Report};
use glassline_lab::load::stamped::Shape;
use glassline_lab::load::{Feed, Limit, Load, Settings, Tally, Target};
use samples::{Samples, thirds};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Viewers, strangers and publishers that come and go, for a long time
#[derive(Debug, Parser)]
struct Args {
    /// How long, in seconds
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(10..))]
    seconds: u64,
    /// Viewers at once
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(20..))]
    viewers: u32,
    /// Of them, those who leave each second, each for another one
    #[arg(long, default_value_t = 50.0)]
    churn: f64,
    /// Folder for soak.json
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    out: PathBuf,
}

/// The stream that stays.
pub(crate) const PATH: &str = "/live/soak.ts";
const LABEL: &str = "stream=\"soak\"";
const CONFIGURATION: &str = "[publish]\nreturn_window = '2s'\nsilence_timeout = '2s'\n\
    [viewer]\nbacklog = '2s'\nstall_timeout = '5s'\n[log]\nlevel = 'error'\n";
/// Of all the time, the part before memory counts; no more than a minute.
const WARM_UP_SHARE: u64 = 5;
const WARM_UP: Duration = Duration::from_secs(60);
/// Of the viewers, those who read too slowly.
const SLOW_SHARE: usize = 20;
const SLOW_BPS: u64 = 1_500_000;
const SAMPLE: Duration = Duration::from_secs(1);
/// Memory that may have been added without anything growing: what is free in an allocator's pages.
const SLACK_MB: f64 = 1.0;
const SLACK_SHARE: f64 = 0.05;
/// A backlog's pages come four MiB at a time.
const SPOOL_SLACK_MB: f64 = 8.0;
/// How long what has ended may take to go: timeouts among it.
const GOING: Duration = Duration::from_secs(30);

fn main() -> Result<()> {
    let args = Args::parse();
    let network = machine::own_network()?;
    glassline_io::process::raise_descriptor_limit();
    let mut report = Report::new("soak");
    report.note(network);
    let passed = soak(&args, &mut report);
    report.finish(&args.out)?;
    if !passed? {
        bail!("the soak has found something; see what is NOT HELD");
    }
    Ok(())
}

fn start(address: SocketAddr) -> Result<Server> {
    let folder = Server::folder("soak")?;
    let configuration = format!("listen = [\"{address}\"]\n{CONFIGURATION}");
    fs::write(folder.join("glassline.toml"), configuration).context("cannot write the configuration")?;
    Server::start(folder, None, &machine::glassline()?, ["serve", "--config", "glassline.toml"])
}

fn soak(args: &Args, report: &mut Report) -> Result<bool> {
    let address = machine::free_address()?;
    let mut server = start(address)?;
    drop(server.connect(address)?);
    Metrics::scrape(address)?;
    let at_start = server.descriptors()?;
    let target = Target::at(address, PATH);
    let viewers = args.viewers as usize;
    let settings = Settings {
        churn: args.churn,
        slow: Some((viewers / SLOW_SHARE, Limit::Rate(SLOW_BPS))),
        ..Settings::new(target.clone(), viewers)
    };
    let mut load = Load::new(settings)?;
    load.feed(Feed::publish(&target, None)?, Shape::default())?;
    load.run(Duration::from_secs(1))?;
    load.join();

    let (over, strangers) = (AtomicBool::new(false), strangers::Tally::default());
    let watched = std::thread::scope(|scope| {
        let everybody = scope.spawn(|| strangers::come(address, &over, &strangers));
        let watched = watch(&mut load, &mut server, address, Duration::from_secs(args.seconds));
        over.store(true, Ordering::Relaxed);
        if everybody.join().is_err() {
            bail!("a stranger has panicked");
        }
        watched
    });
    let (samples, fallen) =
        watched.with_context(|| format!("the server's log ends with:\n{}", server.log_end()))?;
    let last = Metrics::scrape(address)?;
    let tally = load.tally();
    drop(load);
    let at_end = at_the_end(&server, address, at_start)?;
    server.check_alive()?;

    let own = thirds(&samples.own_mb);
    let resident = thirds(&samples.resident_mb);
    let peak = samples.descriptors.iter().copied().fold(0.0, f64::max);
    let case = format!("{} s, {viewers} viewers, {} come a second", args.seconds, args.churn);
    figures(&case, own, resident, [at_start as f64, peak, at_end as f64], report);
    counts(&case, &tally, &strangers, report);
    report.note(format!("the log ends with: {:?}", server.log_end()));
    let mut term = |text: &str, value: f64, limit: f64, most: bool| report.term(text, value, limit, most);
    let memory = own.0 + SLACK_MB.max(own.0 * SLACK_SHARE);
    let shared = resident.0 + SPOOL_SLACK_MB;
    let joined = last.value(&format!("stream_viewers_joined_total{{{LABEL}}}"))?;
    let moved = last.value(&format!("stream_moved_forward_total{{{LABEL}}}"))?;
    let accepted = last.value("connections_accepted_total")?;
    let wrong = tally.verdict.errors() + tally.verdict.misplaced;
    let begun: u64 = strangers.done().iter().map(|(_, count)| count).sum();
    let held = [
        term("own memory, last third's median, MB, at most", own.1, memory, true),
        term("resident memory, last third's median, MB, at most", resident.1, shared, true),
        term("descriptors at the end, at most", at_end as f64, at_start as f64 + 2.0, true),
        term("packets wrong, missing, repeated, misplaced, at most", wrong as f64, 0.0, true),
        term("viewers refused or dropped, at most", tally.failed() as f64, 0.0, true),
        term(
            "strangers' answers that should not have come, at most",
            strangers.wrong.load(Ordering::Relaxed) as f64,
            0.0,
            true,
        ),
        term("counters that fell, at most", fallen as f64, 0.0, true),
        term(
            "viewers that /metrics counts, at least those who got the stream",
            joined,
            tally.first_byte.count() as f64,
            false,
        ),
        term("moves that /metrics counts, at least those seen", moved, tally.verdict.announced as f64, false),
        term(
            "connections that /metrics counts, at least those begun",
            accepted,
            (begun + tally.viewers.connected) as f64,
            false,
        ),
    ];
    Ok(held.iter().all(|held| *held))
}

/// Goes on for `time` and looks at the server each second; returns how many counters fell.
fn watch(
    load: &mut Load,
    server: &mut Server,
    address: SocketAddr,
    time: Duration,
) -> Result<(Samples, usize)> {
    let warm_up = (time / WARM_UP_SHARE as u32).min(WARM_UP);
    load.run(warm_up)?;
    let began = Instant::now();
    let (mut samples, mut fallen) = (Samples::default(), 0);
    let mut metrics = Metrics::scrape(address)?;
    while began.elapsed() < time - warm_up {
        load.run(SAMPLE)?;
        server.check_alive()?;
        samples.take(server)?;
        // Meanwhile the source waits: a few milliseconds.
        let now = Metrics::scrape(address)?;
        fallen += now.fallen(&metrics, LABEL).len();
        metrics = now;
    }
    Ok((samples, fallen))
}

/// Waits until all have gone, and returns the descriptors that are open then.
fn at_the_end(server: &Server, address: SocketAddr, at_start: usize) -> Result<usize> {
    let began = Instant::now();
    loop {
        let now = server.descriptors()?;
        if now <= at_start || began.elapsed() > GOING {
            // It still answers.
            Metrics::scrape(address)?;
            return Ok(now);
        }
        sleep(Duration::from_millis(100));
    }
}

fn figures(case: &str, own: (f64, f64), resident: (f64, f64), descriptors: [f64; 3], report: &mut Report) {
    let mut add = |metric, unit, value| report.add(case, OURS, metric, unit, value);
    add("own memory, first third's median", "MB", own.0);
    add("own memory, last third's median", "MB", own.1);
    add("resident memory, first third's median", "MB", resident.0);
    add("resident memory, last third's median", "MB", resident.1);
    add("descriptors at the start", "", descriptors[0]);
    add("descriptors, most", "", descriptors[1]);
    add("descriptors at the end", "", descriptors[2]);
}

fn counts(case: &str, tally: &Tally, strangers: &strangers::Tally, report: &mut Report) {
    let mut add = |metric, value: u64| report.add(case, OURS, metric, "", value as f64);
    add("viewers that came", tally.viewers.asked);
    add("packets checked", tally.verdict.packets);
    add("moves forward seen", tally.verdict.announced);
    for (name, count) in strangers.done() {
        add(name, count);
    }
    for complaint in strangers.complaints() {
        report.note(complaint);
    }
    if !tally.reasons.is_empty() {
        report.note(format!("viewers that failed: {:?}", tally.reasons));
    }
}
