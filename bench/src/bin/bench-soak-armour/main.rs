//! A soak of an origin and an edge under all attacks at once, beside viewers of both.
//!
//! ```text
//! load: the source ─► origin ─┬─► half of the viewers
//!                             └─► edge ─► the other half
//! attackers, a process of their own: their files ─► edge; requests ─► origin, edge
//! ```
//! The attackers have the lowest priority: on a machine of two cores they would else take the time of the process that measures,
//! and a gap of the load's own would look like one of the server's.
//!
//! First without attacks, then with them: no viewer's longest gap may be much longer, no byte wrong, memory within what the
//! servers say it may be, and descriptors back at the end.

mod attackers;
mod attacks;
mod files;

use anyhow::{Context, Result, bail};
use attackers::Attackers;
use clap::Parser;
use glassline_bench::machine;
use glassline_bench::metrics::Metrics;
use glassline_bench::process::Server;
use glassline_bench::report::{OURS, Report};
use glassline_lab::load::stamped::Shape;
use glassline_lab::load::{Feed, Load, Settings, Tally, Target};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// All attacks at once on an origin and an edge, beside viewers of both
#[derive(Debug, Parser)]
struct Args {
    /// How long the attacks go on, in seconds; half as long without them comes first
    #[arg(long, default_value_t = 1800, value_parser = clap::value_parser!(u64).range(10..))]
    seconds: u64,
    /// Viewers at once, half of them at each server
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(2..))]
    viewers: u32,
    /// Leave these attacks out (by the names that the table shows)
    #[arg(long, value_name = "NAME")]
    without: Vec<String>,
    /// Folder for soak-armour.json
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    out: PathBuf,
    /// Be the attackers' process: its files' address goes to standard output; whom to attack, and for how long, comes by standard
    /// input
    #[arg(long, hide = true)]
    attackers: bool,
}

/// The stream that the viewers watch.
const PATH: &str = "/live/soak.ts";
/// A gap may be this much longer than the longest without attacks.
const GAP_FACTOR: f64 = 1.5;
/// Memory may be this much more than the servers say: what the program, its libraries and allocator take besides.
const MEMORY_FACTOR: f64 = 1.2;
/// How long what has ended may take to go: timeouts among it.
const GOING: Duration = Duration::from_secs(60);
/// How long both servers rest between the two parts.
const REST: Duration = Duration::from_secs(3);

fn main() -> Result<()> {
    let args = Args::parse();
    if args.attackers {
        return attackers::be(&args.without);
    }
    let network = machine::own_network()?;
    glassline_io::process::raise_descriptor_limit();
    let mut report = Report::new("soak-armour");
    report.note(network);
    let passed = soak(&args, &mut report);
    report.finish(&args.out)?;
    if !passed? {
        bail!("the soak has found something; see what is NOT HELD");
    }
    Ok(())
}

/// A server, and what it was like before anything came.
struct Place {
    name: &'static str,
    server: Server,
    address: SocketAddr,
    descriptors: usize,
    resident_most: u64,
}

impl Place {
    fn start(name: &'static str, configuration: &str) -> Result<Place> {
        let address = machine::free_address()?;
        let folder = Server::folder(&format!("soak-armour-{name}"))?;
        let configuration = format!("listen = [\"{address}\"]\n[log]\nlevel = 'error'\n{configuration}");
        fs::write(folder.join("glassline.toml"), configuration).context("cannot write the configuration")?;
        let arguments = ["serve", "--config", "glassline.toml", "--open-publish"];
        let mut server = Server::start(folder, None, &machine::glassline()?, arguments)?;
        drop(server.connect(address)?);
        Metrics::scrape(address)?;
        let descriptors = server.descriptors()?;
        Ok(Place { name, server, address, descriptors, resident_most: 0 })
    }

    fn look(&mut self) -> Result<()> {
        self.server.check_alive().with_context(|| self.name)?;
        self.resident_most = self.resident_most.max(self.server.resident_bytes()?);
        Ok(())
    }

    fn term(&self, text: &str) -> String {
        format!("{}: {text}", self.name)
    }
}

fn soak(args: &Args, report: &mut Report) -> Result<bool> {
    let mut attackers = Attackers::start(&args.without)?;
    let origin = Place::start(
        "origin",
        "[encode.show]\ninput = 'test:320x180@25'\npreset = 'ultrafast'\nthreads = 1\n[viewer]\nstall_timeout = '5s'\n",
    )?;
    let edge = Place::start(
        "edge",
        &format!(
            "[viewer]\nstall_timeout = '5s'\n[upstream]\nservers = ['http://{}']\ncache = '16MiB'\n\
             [[upstream.route]]\npath = '/files/'\nservers = ['http://{}']\n",
            origin.address, attackers.files
        ),
    )?;
    let mut places = [origin, edge];
    let half = args.viewers as usize / 2;
    let mut loads = Vec::new();
    for place in &places {
        let target = Target::at(place.address, PATH);
        let mut load = Load::new(Settings::new(target.clone(), half))?;
        if loads.is_empty() {
            load.feed(Feed::publish(&target, None)?, Shape::default())?;
            load.run(Duration::from_secs(1))?;
        }
        loads.push(load);
    }
    let calm_time = Duration::from_secs(args.seconds / 2);
    let mut calm = Vec::new();
    run_both(&mut loads, &mut places, Duration::from_secs(5), true)?;
    loads.iter_mut().for_each(Load::begin_window);
    run_both(&mut loads, &mut places, calm_time, false)?;
    calm.extend(loads.iter().map(Load::tally));
    run_both(&mut loads, &mut places, REST, false)?;
    loads.iter_mut().for_each(Load::begin_window);
    let attack_time = Duration::from_secs(args.seconds);
    attackers.attack([places[0].address, places[1].address], attack_time)?;
    run_both(&mut loads, &mut places, attack_time, false).with_context(|| {
        format!("the logs end with:\n{}\n{}", places[0].server.log_end(), places[1].server.log_end())
    })?;
    let attacked: Vec<Tally> = loads.iter().map(Load::tally).collect();
    let budgets = places
        .iter()
        .map(|place| Metrics::scrape(place.address)?.value("memory_budget_bytes"))
        .collect::<Result<Vec<f64>>>()?;
    drop(loads);
    let done = attackers.wait()?;
    let case = format!("{} s of attacks, {} viewers", args.seconds, args.viewers);
    for (name, count) in attacks::names().zip(&done.counts) {
        report.add(&case, OURS, name, "", *count as f64);
    }
    let mut held = true;
    for (index, place) in places.iter_mut().enumerate() {
        let (before, after) = (&calm[index], &attacked[index]);
        held &= judge(place, before, after, budgets[index], report)?;
    }
    held &= report.term("wrong bytes of a good object, at most", done.wrong as f64, 0.0, true);
    for complaint in done.complaints {
        report.note(complaint);
    }
    Ok(held)
}

fn judge(
    place: &mut Place,
    calm: &Tally,
    attacked: &Tally,
    budget: f64,
    report: &mut Report,
) -> Result<bool> {
    let panics: f64 = {
        let metrics = Metrics::scrape(place.address)?;
        ["connection", "link", "exchange", "encoder", "output", "worker"]
            .iter()
            .map(|border| metrics.value(&format!("panics_total{{where=\"{border}\"}}")))
            .sum::<Result<f64>>()?
    };
    let descriptors = at_the_end(place)?;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let (before, after) = (ms(calm.window.longest_gap), ms(attacked.window.longest_gap));
    report
        .note(format!("{}: longest gap {before:.1} ms without attacks, {after:.1} ms with them", place.name));
    let wrong = attacked.verdict.errors() + attacked.verdict.misplaced;
    let mut term = |text: &str, value: f64, limit: f64| report.term(place.term(text), value, limit, true);
    let held = [
        term("longest gap of any viewer, ms, at most", after, before * GAP_FACTOR),
        term("packets wrong, missing, repeated, misplaced, at most", wrong as f64, 0.0),
        term("viewers moved forward, at most", attacked.verdict.announced as f64, 0.0),
        term("viewers refused or dropped, at most", attacked.failed() as f64, 0.0),
        term(
            "resident memory, most, MB, at most",
            place.resident_most as f64 / 1e6,
            budget * MEMORY_FACTOR / 1e6,
        ),
        term("descriptors at the end, at most", descriptors as f64, place.descriptors as f64 + 8.0),
        term("panics, at most", panics, 0.0),
    ];
    Ok(held.iter().all(|held| *held))
}

/// Lets both loads go on, in turn and in small pieces, and looks at the servers.
fn run_both(loads: &mut [Load], places: &mut [Place; 2], time: Duration, joins: bool) -> Result<()> {
    if joins {
        loads.iter_mut().for_each(Load::join);
    }
    let began = Instant::now();
    let mut looked = Instant::now();
    while began.elapsed() < time {
        for load in loads.iter_mut() {
            load.run(Duration::from_millis(2))?;
        }
        if looked.elapsed() >= Duration::from_millis(500) {
            looked = Instant::now();
            places.iter_mut().try_for_each(Place::look)?;
        }
    }
    Ok(())
}

/// Waits until all have gone, and returns the descriptors that are open then.
fn at_the_end(place: &Place) -> Result<usize> {
    let began = Instant::now();
    loop {
        let now = place.server.descriptors()?;
        if now <= place.descriptors || began.elapsed() > GOING {
            // It still answers.
            Metrics::scrape(place.address)?;
            return Ok(now);
        }
        sleep(Duration::from_millis(100));
    }
}
