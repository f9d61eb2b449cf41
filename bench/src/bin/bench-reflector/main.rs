//! One live stream to many viewers: what it costs the server and what delay it adds, beside Cubemap.
//!
//! Ours is measured with each flush policy, unpaced as Cubemap is, and once as it comes: `frame`, paced.
//!
//! The server has one core, source and viewers have another; all is checked packet by packet. Servers take turns
//! (A B A B), figures are medians of the runs. The source sends a frame of about 12 kB each 20 ms in one write, a key
//! frame of 47 kB each second.

mod servers;

use anyhow::{Result, bail, ensure};
use clap::Parser;
use glassline_bench::machine::{self, Cores};
use glassline_bench::process::{self, Server};
use glassline_bench::report::Report;
use glassline_io::process::thread_cpu_time;
use glassline_lab::load::stamped::Shape;
use glassline_lab::load::{Load, Settings, Spread, Tally, Target};
use servers::{Ours, Started, Who};
use std::path::PathBuf;
use std::time::Duration;

/// One live stream to many viewers, beside Cubemap
#[derive(Debug, Parser)]
struct Args {
    /// Seconds of each measurement
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Seconds before it, once all viewers get the stream
    #[arg(long, default_value_t = 2)]
    warm_up: u64,
    /// Measurements of each server
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Also with 5,000 viewers
    #[arg(long)]
    full: bool,
    /// Only with this many viewers
    #[arg(long, value_name = "N")]
    viewers: Option<usize>,
    /// Folder for reflector.json
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    out: PathBuf,
}

/// A viewer must be answered within this time.
const PATIENCE: Duration = Duration::from_secs(20);
/// Above this share of its core the load generator may be what is measured.
const SATURATED: f64 = 0.9;
/// Above this share of time that others took from server or load, delays are not the server's.
const DISTURBED: f64 = 0.1;

fn main() -> Result<()> {
    let args = Args::parse();
    let network = machine::own_network()?;
    let mut report = Report::new("reflector");
    report.note(network);
    let cores = Cores::choose()?;
    match cores {
        Some(cores) => {
            cores.pin_load()?;
            report.note(format!(
                "server on core {}, source and viewers in one thread on core {}",
                cores.server, cores.load
            ));
        }
        None => report.note("one processor only: the server shares it with the load, compare nothing"),
    }
    let descriptors = glassline_io::process::raise_descriptor_limit();
    let ours = [Ours::Frame, Ours::Balanced, Ours::Thrifty, Ours::Paced].map(Who::Glassline);
    let mut servers = ours.to_vec();
    // In the middle, so that what changes during a run weighs little.
    servers.insert(2, Who::Cubemap);
    if servers::find("cubemap").is_none() {
        servers.retain(|&who| who != Who::Cubemap);
        report.note("SKIPPED cubemap: it is not installed (apt install cubemap)");
    }
    let cases = match (args.viewers, args.full) {
        (Some(viewers), _) => vec![viewers],
        (None, false) => vec![1000, 100],
        (None, true) => vec![1000, 100, 5000],
    };
    let (mut wrong, mut failed) = (0, 0);
    for viewers in cases {
        if descriptors < viewers as u64 + 50 {
            report
                .note(format!("SKIPPED {viewers} viewers: this process may open {descriptors} descriptors"));
            continue;
        }
        for _ in 0..args.runs {
            for &who in &servers {
                match measure(who, viewers, &args, cores, &mut report) {
                    Ok(errors) => wrong += if who == Who::Cubemap { 0 } else { errors },
                    // The other figures are good all the same.
                    Err(error) => {
                        report.note(format!("FAILED {viewers} viewers, {}: {error:#}", who.name()));
                        failed += 1;
                    }
                }
            }
        }
    }
    report.finish(&args.out)?;
    if failed > 0 {
        bail!("{failed} measurements failed; the notes tell why");
    }
    if wrong > 0 {
        bail!("glassline's viewers found {wrong} packets that are wrong, missing or repeated");
    }
    Ok(())
}

/// Processor time, and time that others took from it.
#[derive(Clone, Copy)]
struct Spent {
    server: Duration,
    server_waited: Duration,
    load: Duration,
    load_waited: Duration,
}

impl Spent {
    fn so_far(server: &Server) -> Result<Spent> {
        Ok(Spent {
            server: server.cpu_time()?,
            server_waited: server.kept_waiting()?,
            load: thread_cpu_time(),
            load_waited: process::own_kept_waiting()?,
        })
    }

    fn since(self, before: Spent) -> Spent {
        Spent {
            server: self.server.saturating_sub(before.server),
            server_waited: self.server_waited.saturating_sub(before.server_waited),
            load: self.load.saturating_sub(before.load),
            load_waited: self.load_waited.saturating_sub(before.load_waited),
        }
    }
}

/// A viewer each quarter of a millisecond, every packet checked.
fn settings(target: Target, viewers: usize) -> Settings {
    Settings { ramp: 4000.0, patience: PATIENCE, ..Settings::new(target, viewers) }
}

/// Lets all viewers join and waits until each gets the stream.
fn join(load: &mut Load, viewers: usize) -> Result<()> {
    load.join();
    while !load.has_joined() || load.progress().waiting > 0 {
        load.run(Duration::from_millis(50))?;
    }
    all_are_served(&load.tally())?;
    ensure!(load.progress().viewers.receiving == viewers as u64, "some viewers get nothing");
    Ok(())
}

fn all_are_served(tally: &Tally) -> Result<()> {
    ensure!(tally.failed() == 0, "{} viewers were refused or dropped: {:?}", tally.failed(), tally.reasons);
    Ok(())
}

/// One run. Returns the packets that were wrong.
fn measure(who: Who, viewers: usize, args: &Args, cores: Option<Cores>, report: &mut Report) -> Result<u64> {
    let Started { mut server, target, feed } = who.start(cores)?;
    let mut load = Load::new(settings(target, viewers))?;
    let shape = Shape::default();
    load.feed(feed, shape)?;
    let outcome = (|| {
        load.run(Duration::from_millis(500))?;
        join(&mut load, viewers)?;
        load.run(Duration::from_secs(args.warm_up))?;
        let before = Spent::so_far(&server)?;
        load.begin_window();
        load.run(Duration::from_secs(args.seconds))?;
        let tally = load.tally();
        all_are_served(&tally)?;
        Ok((tally, Spent::so_far(&server)?.since(before)))
    })();
    let (tally, spent) = outcome.map_err(|error: anyhow::Error| {
        error.context(format!(
            "{} with {viewers} viewers; its log ends with:\n{}",
            who.name(),
            server.log_end()
        ))
    })?;
    server.check_alive()?;
    let (window, verdict) = (&tally.window, tally.verdict);
    let case = format!("{viewers} viewers × 5 Mbit/s");
    let seconds = window.seconds;
    let own_share = spent.load.as_secs_f64() / seconds;
    if own_share > SATURATED {
        report.note(format!(
            "{case}, {}: the load generator is at {:.0} % of its core, so delays are partly its own",
            who.name(),
            own_share * 100.0
        ));
    }
    let waited = spent.server_waited.max(spent.load_waited).as_secs_f64() / seconds;
    if waited > DISTURBED {
        report.note(format!(
            "{case}, {}: DISTURBED, other programs had a core for {:.0} % of the time; believe no delay of this run",
            who.name(),
            waited * 100.0
        ));
    }
    let mut add = |metric, unit, value| report.add(&case, who.name(), metric, unit, value);
    let millis = |spread: &Spread, quantile| spread.quantile(quantile) as f64 / 1e6;
    add("server CPU", "s/GB", spent.server.as_secs_f64() / (window.bytes as f64 / 1e9));
    add("server CPU share", "%", spent.server.as_secs_f64() / seconds * 100.0);
    add("delay of first packet p50", "ms", millis(&window.first_packet, 0.5));
    add("delay of first packet p99", "ms", millis(&window.first_packet, 0.99));
    add("delay of last packet p50", "ms", millis(&window.last_packet, 0.5));
    add("delay of last packet p99", "ms", millis(&window.last_packet, 0.99));
    add("longest gap", "ms", window.longest_gap.as_secs_f64() * 1e3);
    add("resident memory", "MB", server.resident_bytes()? as f64 / 1e6);
    let mut context = |metric, unit, value| report.add_context(&case, who.name(), metric, unit, value);
    let expected = viewers as f64 * shape.bitrate() as f64 / 8.0 * seconds;
    context("delivered", "%", window.bytes as f64 / expected * 100.0);
    context("wrong, missing, repeated packets", "", verdict.errors() as f64);
    context("skipped with notice", "", verdict.skipped as f64);
    context("load generator's CPU share", "%", own_share * 100.0);
    context("server kept waiting for its core", "%", spent.server_waited.as_secs_f64() / seconds * 100.0);
    context("load generator kept waiting", "%", spent.load_waited.as_secs_f64() / seconds * 100.0);
    if verdict.errors() > 0 {
        report.note(format!("{case}, {}: {verdict:?}", who.name()));
    }
    Ok(verdict.errors())
}
