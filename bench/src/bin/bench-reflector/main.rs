//! A reflector: what one live stream to many viewers costs the server and what delay it adds, beside Cubemap and
//! others; what happens to those who are too many; and what pacing does to a short queue.
//!
//! Ours is measured as it comes, with each other flush policy, and with pacing switched off.
//!
//! The server has one core, source and viewers have another; all is checked packet by packet. Servers take turns
//! (A B A B), figures are medians of the runs. The source sends a frame in one write, at 5 Mbit/s of about 12 kB each
//! 20 ms, and a key frame of four times that each second.

mod capacity;
mod case;
mod measure;
mod overload;
mod pacing;
mod servers;
mod source;
mod terms;
mod tls;
mod tls_price;

use anyhow::{Result, bail};
use case::Case;
use clap::{Parser, ValueEnum};
use glassline_bench::machine::{self, Cores, find};
use glassline_bench::report::Report;
use measure::{Outcome, Times, measure};
use servers::Who;
use std::path::PathBuf;
use std::time::Duration;

/// One live stream to many viewers, beside Cubemap and others
#[derive(Debug, Parser)]
struct Args {
    /// Seconds of each measurement
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Seconds before it, once all viewers get the stream
    #[arg(long, default_value_t = 2)]
    warm_up: u64,
    /// Seconds behind it in which joins are timed
    #[arg(long, default_value_t = 3)]
    join_seconds: u64,
    /// Measurements of each server
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// VIEWERSxMBIT, or VIEWERSxMBIT@FRAMES [default: 1000x5,100x5,2500x5,5000x5,8000x5,1000x20,500x50]
    #[arg(long, value_name = "CASE,…", value_delimiter = ',')]
    cases: Vec<Case>,
    /// Whom to measure; all by default
    #[arg(long, value_name = "WHO,…", value_delimiter = ',')]
    who: Vec<Who>,
    /// Which parts to run; all by default
    #[arg(long, value_name = "PART,…", value_delimiter = ',')]
    parts: Vec<Part>,
    /// Folder for reflector.json and the pictures of packets on their way
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    out: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Cost and delay, beside the others
    Cases,
    /// The most that one core carries
    Capacity,
    /// Three times as many viewers as a core can serve
    Overload,
    /// Bursts on the wire, and a queue of 30 kB
    Pacing,
    /// What viewers over TLS take of memory, before and after an upgrade
    Tls,
    /// What a stream over TLS takes of the core, beside nginx with TLS in front of a relay
    TlsPrice,
}

impl Args {
    fn runs(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    fn cases(&self) -> Vec<Case> {
        let mut cases = self.cases.clone();
        if cases.is_empty() {
            cases.extend(USUAL);
            cases.extend([Case::new(2500, 5), Case::new(5000, 5), Case::new(8000, 5)]);
            cases.extend([Case::new(1000, 20), Case::new(500, 50)]);
        }
        cases
    }

    fn times(&self) -> Times {
        let [warm_up, window, joins] =
            [self.warm_up, self.seconds, self.join_seconds].map(Duration::from_secs);
        Times { warm_up, window, joins }
    }
}

/// Descriptors that are none of viewers.
const OTHER_DESCRIPTORS: u64 = 50;
/// The loads at which all are measured; at others those that are compared with each other.
const USUAL: [Case; 2] = [Case::new(1000, 5), Case::new(100, 5)];

fn main() -> Result<()> {
    let args = Args::parse();
    let network = machine::own_network()?;
    let mut report =
        Report::new("reflector").beside(Who::Cubemap.name()).onto_earlier(!args.parts.is_empty());
    report.how(format!("runs of {} s", args.seconds));
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
    glassline_io::process::raise_descriptor_limit();
    let mut bench = Bench { args, cores, report, wrong: 0, failed: 0 };
    if bench.args.runs(Part::Cases) {
        bench.cases();
    }
    if bench.args.runs(Part::Capacity) {
        let servers = bench.servers();
        bench.part("capacity", |bench| capacity::run(&servers, bench.cores, &mut bench.report));
    }
    if bench.args.runs(Part::Overload) {
        let times = bench.args.times();
        bench.part("overload", |bench| overload::run(times, bench.cores, &mut bench.report));
    }
    if bench.args.runs(Part::Pacing) {
        let (times, out) = (bench.args.times(), bench.args.out.clone());
        bench.part("pacing", |bench| pacing::run(times, &out, bench.cores, &mut bench.report));
    }
    if bench.args.runs(Part::Tls) {
        let (times, runs) = (bench.args.times(), bench.args.runs);
        bench.part("tls", |bench| tls::run(times, runs, bench.cores, &mut bench.report));
    }
    if bench.args.runs(Part::TlsPrice) {
        let (times, runs) = (bench.args.times(), bench.args.runs);
        bench.part("tls-price", |bench| tls_price::run(times, runs, bench.cores, &mut bench.report));
    }
    bench.report.finish(&bench.args.out)?;
    if bench.failed > 0 {
        bail!("{} measurements failed; the notes tell why", bench.failed);
    }
    if bench.wrong > 0 {
        bail!(
            "glassline's viewers found {} packets that are wrong, missing, repeated or misplaced",
            bench.wrong
        );
    }
    Ok(())
}

struct Bench {
    args: Args,
    cores: Option<Cores>,
    report: Report,
    wrong: u64,
    failed: u64,
}

impl Bench {
    /// A part that gives the packets of ours that are wrong; where it fails the others' figures are good all the same.
    fn part(&mut self, name: &str, run: impl FnOnce(&mut Bench) -> Result<u64>) {
        match run(self) {
            Ok(wrong) => self.wrong += wrong,
            Err(error) => {
                self.report.note(format!("FAILED {name}: {error:#}"));
                self.failed += 1;
            }
        }
    }

    fn servers(&mut self) -> Vec<Who> {
        let all = Who::value_variants().iter().copied();
        let wanted: Vec<_> =
            all.filter(|who| self.args.who.is_empty() || self.args.who.contains(who)).collect();
        let (there, absent): (Vec<_>, Vec<_>) = wanted
            .into_iter()
            .partition(|who| who.needs().is_none_or(|(program, _)| find(program).is_some()));
        for who in absent {
            let (program, package) = who.needs().unwrap_or_default();
            self.report.note(format!("SKIPPED {}: no {program} here (apt install {package})", who.name()));
        }
        if self.args.who.is_empty() {
            self.report.note("SKIPPED msd_lite: Debian has no package of it");
        }
        there
    }

    fn cases(&mut self) {
        let servers = self.servers();
        for wanted in self.args.cases() {
            let descriptors = glassline_io::process::raise_descriptor_limit();
            if descriptors < wanted.viewers as u64 + OTHER_DESCRIPTORS {
                let note = format!("SKIPPED {wanted}: this process may open {descriptors} descriptors");
                self.report.note(note);
                continue;
            }
            let is_usual = USUAL.contains(&wanted);
            let chosen = |who: &&Who| is_usual || !self.args.who.is_empty() || !who.is_orientation();
            let servers: Vec<Who> = servers.iter().filter(chosen).copied().collect();
            for _ in 0..self.args.runs {
                for &who in &servers {
                    if let Some(outcome) = self.measure(who, wanted) {
                        outcome.add_to(&mut self.report);
                        self.wrong += if who.is_ours() { outcome.errors() } else { 0 };
                    }
                }
            }
            terms::add(wanted, &mut self.report);
        }
    }

    fn measure(&mut self, who: Who, case: Case) -> Option<Outcome> {
        match measure(who, case, self.args.times(), self.cores) {
            Ok(outcome) => Some(outcome),
            Err(error) if who.is_ours() || who == Who::Cubemap => {
                self.report.note(format!("FAILED {case}, {}: {error:#}", who.name()));
                self.failed += 1;
                None
            }
            Err(error) => {
                let why = error.root_cause().to_string();
                self.report.note(format!("SKIPPED {case}, {}: it cannot hold the load ({why})", who.name()));
                None
            }
        }
    }
}
