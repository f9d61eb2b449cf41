//! Upgrades and reloads under load: a new program takes over again and again, the configuration is read again and
//! again, and each viewer gets each byte. Told: what that added to the longest time that a viewer got nothing.

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use glassline_bench::machine::{self, Cores};
use glassline_bench::process::{Others, Server};
use glassline_bench::report::{OURS, Report};
use glassline_lab::load::stamped::Shape;
use glassline_lab::load::{Check, Feed, Load, Settings, Target};
use rustix::process::{Pid, Signal, kill_process};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A program that is replaced while viewers watch
#[derive(Debug, Parser)]
struct Args {
    /// Viewers
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    viewers: u32,
    /// Upgrades, then as many reloads
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    times: u32,
    /// Folder for upgrade.json
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    out: PathBuf,
}

/// From one change to the next.
const INTERVAL: Duration = Duration::from_millis(500);
/// What a change may add to the longest gap.
const GAP_MS: f64 = 5.0;
const PATH: &str = "/live/upgrade.ts";

fn main() -> Result<()> {
    let args = Args::parse();
    let network = machine::own_network()?;
    glassline_io::process::raise_descriptor_limit();
    let mut report = Report::new("upgrade");
    report.note(network);
    let passed = measure(&args, &mut report);
    report.finish(&args.out)?;
    if !passed? {
        bail!("a viewer has noticed; see what is NOT HELD");
    }
    Ok(())
}

fn serve(address: SocketAddr, cores: Option<Cores>, more: &[&str]) -> Result<Server> {
    let folder = Server::folder(&format!("upgrade-{}", glassline_io::clock::Clock::new().now().as_nanos()))?;
    let address = address.to_string();
    let arguments = ["serve", "--listen", &address, "-q"].into_iter().chain(more.iter().copied());
    Server::start(folder, cores.map(|cores| cores.server), &machine::glassline()?, arguments)
}

fn measure(args: &Args, report: &mut Report) -> Result<bool> {
    let cores = Cores::choose()?;
    if let Some(cores) = cores {
        cores.pin_load()?;
    }
    let address = machine::free_address()?;
    let mut server = serve(address, cores, &[])?;
    drop(server.connect(address)?);
    let target = Target::at(address, PATH);
    let settings = Settings { check: Check::All, ..Settings::new(target.clone(), args.viewers as usize) };
    let mut load = Load::new(settings)?;
    load.feed(Feed::publish(&target, None)?, Shape::default())?;
    load.run(Duration::from_secs(1))?;
    load.join();
    while !load.has_joined() || load.progress().waiting > 0 {
        load.run(Duration::from_millis(50))?;
    }
    load.run(Duration::from_secs(1))?;

    let mut gaps = Vec::new();
    for phase in ["nothing", "upgrades", "reloads"] {
        let others = Others::begin()?;
        load.begin_window();
        for _ in 0..args.times {
            match phase {
                "upgrades" => {
                    let successor = serve(address, cores, &["--upgrade"])?;
                    load.run(INTERVAL)?;
                    let mut old = std::mem::replace(&mut server, successor);
                    let status = old.wait(Duration::from_secs(10))?;
                    ensure!(status.success(), "the old program ended with {status}: {}", server.log_end());
                }
                "reloads" => {
                    let id = i32::try_from(server.id()).ok().and_then(Pid::from_raw);
                    kill_process(id.context("no process")?, Signal::HUP).context("cannot send SIGHUP")?;
                    load.run(INTERVAL)?;
                }
                _ => load.run(INTERVAL)?,
            }
            server.check_alive()?;
        }
        let window = load.tally().window;
        let case = format!("{} viewers, {phase} × {}", args.viewers, args.times);
        report.disturbance(&case, OURS, others.share()?);
        let gap = window.longest_gap.as_secs_f64() * 1e3;
        report.add(&case, OURS, "longest gap of any viewer", "ms", gap);
        for (metric, quantile) in
            [("first packet p50", 0.5), ("first packet p99", 0.99), ("first packet, the latest", 1.0)]
        {
            report.add(&case, OURS, metric, "ms", window.first_packet.quantile(quantile) as f64 / 1e6);
        }
        gaps.push(gap);
    }
    let tally = load.tally();
    let stayed = load.progress().viewers.receiving;
    let mut passed = report.term("viewers that stayed", stayed as f64, f64::from(args.viewers), false);
    passed &= report.term("wrong, missing or repeated packets", tally.verdict.errors() as f64, 0.0, true);
    passed &= report.term("moves forward", tally.verdict.announced as f64, 0.0, true);
    // How long is measured, and the machine may be busy: told, not failed.
    for (gap, what) in gaps[1..].iter().zip(["an upgrade", "a reload"]) {
        report.term(format!("ms that {what} adds to the longest gap"), gap - gaps[0], GAP_MS, true);
    }
    Ok(passed)
}
