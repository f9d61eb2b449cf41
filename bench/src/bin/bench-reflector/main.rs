//! A reflector: what one live stream to many viewers costs the server and what delay it adds, beside Cubemap and
//! others; what happens to those who are too many; and what pacing does to a short queue.
//!
//! Ours is measured with each flush policy, unpaced as Cubemap is, and once as it comes: `frame`, paced.
//!
//! The server has one core, source and viewers have another; all is checked packet by packet. Servers take turns
//! (A B A B), figures are medians of the runs. The source sends a frame in one write, at 5 Mbit/s of about 12 kB each
//! 20 ms, and a key frame of four times that each second.

mod case;
mod measure;
mod overload;
mod pacing;
mod servers;
mod source;
mod terms;
mod tls;

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
    /// VIEWERSxMBIT, or VIEWERSxMBIT@FRAMES: halved until Cubemap carries it [default: 1000x5,100x5]
    #[arg(long, value_name = "CASE,…", value_delimiter = ',')]
    cases: Vec<Case>,
    /// Also the cases 5000x5 and 1000x50
    #[arg(long)]
    full: bool,
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
    /// Three times as many viewers as a core can serve
    Overload,
    /// Bursts on the wire, and a queue of 30 kB
    Pacing,
    /// What viewers over TLS take of memory, before and after an upgrade
    Tls,
}

impl Args {
    fn runs(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    fn cases(&self) -> Vec<Case> {
        let mut cases = self.cases.clone();
        if cases.is_empty() {
            cases.extend([Case::new(1000, 5), Case::new(100, 5)]);
        }
        if self.full {
            cases.extend([Case::new(5000, 5), Case::new(1000, 50)]);
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
/// How long it is looked whether a load is carried.
const TRIAL: Times =
    Times { warm_up: Duration::from_secs(1), window: Duration::from_secs(3), joins: Duration::ZERO };
/// Below it a case is not halved further.
const FEWEST: usize = 50;

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
            let case = if servers.contains(&Who::Cubemap) { self.carried(wanted) } else { wanted };
            for _ in 0..self.args.runs {
                for &who in &servers {
                    if let Some(outcome) = self.measure(who, case) {
                        outcome.add_to(&mut self.report);
                        self.wrong += if who.is_ours() { outcome.errors() } else { 0 };
                    }
                }
            }
            terms::add(case, wanted, &mut self.report);
        }
    }

    /// The highest load that Cubemap carries, halving from `wanted`.
    fn carried(&mut self, wanted: Case) -> Case {
        let mut case = wanted;
        while case.viewers / 2 >= FEWEST {
            let why = match measure(Who::Cubemap, case, TRIAL, self.cores) {
                Ok(outcome) if outcome.is_carried() => break,
                Ok(outcome) => format!("{:.0} % delivered", outcome.delivered() * 100.0),
                Err(error) => error.root_cause().to_string(),
            };
            self.report.note(format!("cubemap does not carry {case} ({why}): half the viewers"));
            case = case.half();
        }
        case
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
