//! An edge: segments that grow while many ask for them, through a cache on one core; ours beside nginx, Varnish and
//! Apache Traffic Server, and beside a bare loop that serves the same bytes without a cache.
//!
//! The cache has one core, origin and clients have another. Each byte is checked. A chunk's delay runs from the moment
//! at which it became available at the origin, by its stamp, to its last byte at a client that asked before.

mod case;
mod fixed;
mod growing;
mod hop;
mod origin;
mod servers;

use anyhow::{Result, bail};
use case::Case;
use clap::{Parser, ValueEnum};
use glassline_bench::machine::{self, Cores, find};
use glassline_bench::report::Report;
use servers::Who;
use std::path::PathBuf;
use std::time::Duration;

/// Segments that grow, through a cache: ours beside nginx, Varnish and Traffic Server
#[derive(Debug, Parser)]
struct Args {
    /// Seconds of each measurement
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Measurements of each cache
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Whom to measure; all by default
    #[arg(long, value_name = "WHO,…", value_delimiter = ',')]
    who: Vec<Who>,
    /// Which parts to run; all by default
    #[arg(long, value_name = "PART,…", value_delimiter = ',')]
    parts: Vec<Part>,
    /// Clients that ask at random moments
    #[arg(long, default_value_t = 500, value_name = "N", value_parser = clients)]
    clients: usize,
    /// Clients that follow the thin stream
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = clients)]
    followers: usize,
    /// Ours alone, for two seconds: whether everything works
    #[arg(long)]
    quick: bool,
    /// Folder for edge.json
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    out: PathBuf,
    /// Be the bare loop
    #[arg(long, hide = true, num_args = 5, allow_hyphen_values = true)]
    floor: Vec<String>,
}

fn clients(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| (1..=19_000).contains(count)).ok_or("must be from 1 to 19000".into())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Segments of 2 s
    Short,
    /// Segments of 4 s
    Long,
    /// Very many who follow a thin stream
    Followers,
    /// Objects that lie in the cache
    Fixed,
    /// What a second edge behind the first adds
    Hop,
}

fn main() -> Result<()> {
    let mut args = Args::parse();
    if !args.floor.is_empty() {
        return origin::serve(&args.floor);
    }
    if args.quick {
        (args.seconds, args.runs, args.who) = (1, 1, vec![Who::Ours]);
    }
    let network = machine::own_network()?;
    let mut report = Report::new("edge").beside(Who::Floor.name()).onto_earlier(!args.parts.is_empty());
    report.how(format!("runs of {} s", args.seconds));
    report.note(network);
    let cores = Cores::choose()?;
    match cores {
        Some(cores) => {
            cores.pin_load()?;
            let (edge, rest) = (cores.server, cores.load);
            report
                .note(format!("the cache on core {edge}, origin and clients, a thread each, on core {rest}"));
        }
        None => report.note("one processor only: the cache shares it with the load, compare nothing"),
    }
    glassline_io::process::raise_descriptor_limit();
    let mut bench = Bench { args, cores, report, wrong: 0, failed: 0 };
    bench.run();
    bench.report.finish(&bench.args.out)?;
    if bench.failed > 0 {
        bail!("{} measurements of ours failed; the notes tell why", bench.failed);
    }
    if bench.wrong > 0 {
        bail!("glassline gave {} wrong bytes or failed requests", bench.wrong);
    }
    Ok(())
}

struct Bench {
    args: Args,
    cores: Option<Cores>,
    report: Report,
    /// Of ours.
    wrong: u64,
    failed: u64,
}

impl Bench {
    fn run(&mut self) {
        let servers = self.servers();
        if self.args.quick {
            self.growing(&servers, &Case::quick());
            return self.fixed(&servers);
        }
        let runs = |part| self.args.parts.is_empty() || self.args.parts.contains(&part);
        let wanted = [Part::Short, Part::Long, Part::Followers, Part::Fixed, Part::Hop].map(runs);
        let [clients, followers] = [self.args.clients, self.args.followers];
        let cases = [Case::short(clients), Case::long(clients), Case::followers(followers)];
        for (case, wanted) in cases.iter().zip(wanted) {
            if wanted {
                self.growing(&servers, case);
            }
        }
        if wanted[3] {
            self.fixed(&servers);
        }
        if wanted[4] {
            let result = hop::measure(self.window(), self.cores, &mut self.report);
            self.count("hop", Who::Ours, result);
        }
    }

    fn window(&self) -> Duration {
        Duration::from_secs(self.args.seconds)
    }

    /// Those of the wanted that are here.
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
        there
    }

    fn growing(&mut self, servers: &[Who], case: &Case) {
        for _ in 0..self.args.runs {
            for &who in servers.iter().filter(|who| who.grows()) {
                let outcome = growing::measure(who, case, self.window(), self.cores);
                let errors = outcome.map(|outcome| {
                    outcome.add_to(who, case, &mut self.report);
                    outcome.figures.wrong_bytes + outcome.figures.failures
                });
                self.count(&case.name, who, errors);
            }
        }
    }

    fn fixed(&mut self, servers: &[Who]) {
        for bytes in origin::FIXED {
            for _ in 0..self.args.runs {
                for &who in servers.iter().filter(|who| who.keeps()) {
                    let window = self.window().min(Duration::from_secs(3));
                    let errors = fixed::measure(who, bytes, window, self.cores, &mut self.report);
                    self.count(&format!("cached objects of {bytes} B"), who, errors);
                }
            }
        }
    }

    /// Counts what was wrong with ours; a peer that fails is said, and the others' figures are good all the same.
    fn count(&mut self, case: &str, who: Who, errors: Result<u64>) {
        match errors {
            Ok(errors) => self.wrong += if who == Who::Ours { errors } else { 0 },
            Err(error) => {
                self.report.note(format!("FAILED {case}, {}: {error:#}", who.name()));
                self.failed += u64::from(who == Who::Ours);
            }
        }
    }
}
