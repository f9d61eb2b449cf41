//! `glassline lab load http`: viewers of one or several URLs.

use super::quantity::{Ramp, Slow, check, per_second};
use super::session::{Line, Plan};
use super::{session, workers};
use crate::trust::Trust;
use crate::{failure, output, stop};
use anyhow::{Context, Result};
use glassline_io::process::raise_descriptor_limit;
use glassline_io::tls::Connector;
use glassline_lab::load::{Check, Limit, Report, Settings, Tally, Target};
use glassline_media::quantity::{self, Bitrate};
use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  glassline lab load http http://127.0.0.1:8080/live/test.ts --viewers 1000
                                     1000 viewers for 10 s; the packets of 100 are checked
  glassline lab load http URL --viewers 200 --check all --duration 1m --json > report.json
  glassline lab load http URL --viewers 5000 --ramp 10s --churn 50/s --slow 100@50%
                                     all viewers join within 10 s; 50 per second are replaced,
                                     100 read at half of the stream's rate
  glassline lab load http URL --viewers 50000 --processes 4 --source 127.0.0.1,127.0.0.2
                                     more viewers than one process has descriptors and one address has ports

Any HTTP server and any body will do. Packets are checked if the body is MPEG-TS, and every byte
if it is the stream that `glassline lab load source` sends. docs/lab.md explains the report.

Exit status: 0 success, 1 if a packet was wrong, missing or repeated, or no viewer received
anything, 2 wrong usage.";

/// Simulate many viewers of an HTTP server: how many get in, how soon, how fast, and whether each byte is right
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// What to request; with several URLs, viewers take turns
    #[arg(value_name = "URL", required = true, value_parser = url)]
    urls: Vec<String>,
    /// Number of simultaneous viewers
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = viewers)]
    viewers: usize,
    /// How fast viewers join: a number per second, or all within a time (10s)
    #[arg(long, value_name = "RATE/s|TIME", default_value = "1000/s")]
    ramp: Ramp,
    /// How long to measure after all viewers have joined
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::parse_duration)]
    duration: Duration,
    /// How long all viewers watch before the measurement starts
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = quantity::parse_duration)]
    warm_up: Duration,
    /// Highest rate at which each viewer reads
    #[arg(long, value_name = "RATE", value_parser = bitrate)]
    rate_limit: Option<Bitrate>,
    /// Let some viewers read slowly: at a rate (10@500k) or a share of the stream's rate (10@50%)
    #[arg(long, value_name = "N@RATE")]
    slow: Option<Slow>,
    /// Number of viewers per second that leave and are replaced by new ones
    #[arg(long, value_name = "RATE/s", value_parser = per_second)]
    churn: Option<f64>,
    /// For which viewers the packets are checked: all, a sample of this many, or none
    #[arg(long, value_name = "all|N|none", default_value = "100", value_parser = check)]
    check: Check,
    /// A viewer that receives nothing for longer than this has stalled
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = quantity::parse_duration)]
    stall: Duration,
    /// A viewer without an answer after this time counts as refused
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::parse_duration)]
    timeout: Duration,
    /// Request a body again after it was read to its end
    #[arg(long)]
    repeat: bool,
    /// Addresses of this machine to connect from, in turn: each has about 28,000 ports
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    source: Vec<IpAddr>,
    #[command(flatten)]
    trust: Trust,
    /// Divide the viewers among this many processes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    processes: u16,
    /// Print the report as JSON; docs/lab.md explains each key
    #[arg(long)]
    json: bool,
    /// Run as one of several processes, and report to the process that started it
    #[arg(long, hide = true)]
    worker: bool,
}

pub(super) fn url(text: &str) -> Result<String, String> {
    Target::check(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

pub(super) fn viewers(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (1..=10_000_000).contains(&count) => Ok(count),
        _ => Err("must be from 1 to 10000000".into()),
    }
}

fn bitrate(text: &str) -> Result<Bitrate, String> {
    text.parse().map_err(|error: quantity::QuantityError| error.to_string())
}

/// The `index`-th of `parts` shares of `all`, in whole numbers.
pub(super) fn share(all: usize, index: usize, parts: usize) -> usize {
    all * (index + 1) / parts - all * index / parts
}

impl Args {
    /// What the `index`-th process does.
    fn settings(&self, targets: Vec<Target>, trust: Option<Connector>, index: usize) -> Settings {
        let parts = usize::from(self.processes);
        let share = |all| share(all, index, parts);
        Settings {
            targets,
            trust,
            sources: self.source.clone(),
            viewers: share(self.viewers),
            ramp: self.ramp.rate(self.viewers) / parts as f64,
            churn: self.churn.unwrap_or(0.0) / parts as f64,
            limit: self.rate_limit.map(|rate| Limit::Rate(rate.bits_per_second())),
            slow: self.slow.map(|slow| (share(slow.viewers), slow.limit)),
            check: match self.check {
                Check::Sample(count) => Check::Sample(share(count)),
                other => other,
            },
            stall: self.stall,
            timeout: self.timeout,
            repeat: self.repeat,
        }
    }

    fn plan(&self) -> Plan {
        Plan { warm_up: self.warm_up, duration: self.duration }
    }

    /// Refuses what this machine cannot do, with what would help.
    fn check_room(&self, addresses: &BTreeSet<SocketAddr>, descriptors: u64, ports: u64) -> Result<()> {
        let processes = u64::from(self.processes);
        let viewers = self.viewers as u64;
        if viewers < processes {
            return Err(failure::usage(
                format!("{viewers} viewers cannot be divided among {processes} processes"),
                "use fewer --processes",
            ));
        }
        if self.slow.is_some_and(|slow| slow.viewers > self.viewers) {
            return Err(failure::usage("more viewers are --slow than there are", "raise --viewers"));
        }
        let each = viewers.div_ceil(processes) + OTHER_DESCRIPTORS;
        if each > descriptors {
            let enough = viewers.div_ceil(descriptors.saturating_sub(OTHER_DESCRIPTORS).max(1));
            return Err(failure::usage(
                format!(
                    "{viewers} viewers in {processes} processes need {each} descriptors in each, a process may open \
                     {descriptors} here"
                ),
                format!("divide them among more (--processes {enough}), or raise the limit (ulimit -n)"),
            ));
        }
        // A source address that is bound gives each port once; one that isn't, once for each peer.
        let places = if self.source.is_empty() { addresses.len() } else { self.source.len() } as u64;
        if viewers > ports * places {
            let enough = viewers.div_ceil(ports.max(1));
            return Err(failure::usage(
                format!("{viewers} viewers need as many local ports; there are {places} × {ports}"),
                format!(
                    "connect from {enough} addresses of this machine (--source ADDR,ADDR…; on loopback any of \
                     127.0.0.0/8)"
                ),
            ));
        }
        Ok(())
    }
}

/// Epoll, standard streams, and what else a process has open.
const OTHER_DESCRIPTORS: u64 = 32;

/// Ports that the system gives to connections (ip(7), `ip_local_port_range`).
fn ports() -> u64 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut bounds = range.split_whitespace().filter_map(|bound| bound.parse::<u64>().ok());
    match (bounds.next(), bounds.next()) {
        (Some(low), Some(high)) if high >= low => high - low + 1,
        _ => 28_232,
    }
}

/// Loads the servers and prints the report.
pub(super) fn run(args: &Args) -> Result<()> {
    let targets: Vec<Target> = args
        .urls
        .iter()
        .map(|url| {
            Target::resolve(url).map_err(|error| failure::failed(format!("{error:#}"), "check the name"))
        })
        .collect::<Result<_>>()?;
    let is_secure = targets.iter().any(|target| target.url().tls());
    let trust = is_secure.then(|| args.trust.connector()).transpose()?;
    let descriptors = raise_descriptor_limit();
    if args.worker {
        let (settings, plan) = (args.settings(targets, trust, 0), args.plan());
        return workers::work(|stop, tell| session::run(settings, plan, stop, tell));
    }
    let addresses = targets.iter().map(Target::address).collect();
    args.check_room(&addresses, descriptors, ports())?;
    let stop = stop::on_signal()?;
    let mut line = Line::new();
    let tally = if args.processes > 1 {
        let each = (0..usize::from(args.processes)).map(|index| args.settings(targets.clone(), None, index));
        let arguments = each.map(|settings| arguments(args, &settings)).collect();
        workers::run(arguments, &stop, &mut |progress| line.show(progress))?
    } else {
        let show = &mut |progress: &_| {
            line.show(progress);
            Ok(())
        };
        session::run(args.settings(targets, trust, 0), args.plan(), &stop, show)?
    };
    drop(line);
    report(args, &tally)
}

/// The command line of a process that does what `settings` say.
fn arguments(args: &Args, settings: &Settings) -> Vec<String> {
    let mut line: Vec<String> = ["lab", "load", "http", "--worker"].map(str::to_owned).to_vec();
    let mut add = |name: &str, value: String| line.push(format!("--{name}={value}"));
    add("viewers", settings.viewers.to_string());
    add("ramp", format!("{}/s", settings.ramp.min(1e6)));
    let micros = |time: Duration| format!("{}us", time.as_micros());
    add("duration", micros(args.duration));
    add("warm-up", micros(args.warm_up));
    add("stall", micros(args.stall));
    add("timeout", micros(args.timeout));
    if settings.churn > 0.0 {
        add("churn", format!("{}/s", settings.churn));
    }
    if let Some(rate) = args.rate_limit {
        add("rate-limit", rate.to_string());
    }
    if let Some((count, limit)) = settings.slow {
        let rate = match limit {
            Limit::Rate(bits) => Bitrate::from_bits_per_second(bits).to_string(),
            Limit::Share(share) => format!("{}%", share * 100.0),
        };
        add("slow", format!("{count}@{rate}"));
    }
    let check = match settings.check {
        Check::All => "all".into(),
        Check::Sample(count) => count.to_string(),
        Check::None => "none".into(),
    };
    add("check", check);
    for source in &args.source {
        add("source", source.to_string());
    }
    if let Some(ca) = &args.trust.ca {
        line.push(format!("--ca={}", ca.display()));
    }
    if args.repeat {
        line.push("--repeat".into());
    }
    line.push("--".into());
    line.extend(args.urls.iter().cloned());
    line
}

fn report(args: &Args, tally: &Tally) -> Result<()> {
    let report = Report::new(tally, &args.urls, args.viewers, args.stall);
    let text = if args.json {
        serde_json::to_string_pretty(&report).context("cannot write JSON")? + "\n"
    } else {
        report.table()
    };
    output::print(&text)?;
    let viewers = &report.viewers;
    if viewers.receiving + viewers.dropped + viewers.finished + viewers.left == 0 {
        let reason = report.failures.first().map_or("none was answered in time", |failure| &failure.reason);
        return Err(failure::failed(
            format!("no viewer received anything: {reason}"),
            "check the URL, and that the stream is there",
        ));
    }
    if !report.is_right() {
        let errors = report.check.map_or(0, |check| check.errors);
        return Err(failure::failed(
            format!("{errors} packets were wrong, missing or repeated"),
            "see the report; `glassline probe URL` tells whether the stream is so at its source",
        ));
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

    fn parse(text: &str) -> Args {
        Program::try_parse_from(["http"].into_iter().chain(text.split(' '))).unwrap().args
    }

    #[test]
    fn processes_share_the_load() {
        let args = parse(
            "http://127.0.0.1/a http://127.0.0.1/b --viewers 1001 --processes 3 --slow 10@12.5% --check 7 \
             --churn 3/s --ramp 10s --rate-limit 1.5M --source 127.0.0.1,127.0.0.2 --repeat --stall 250ms --ca ca.pem",
        );
        let target = Target::resolve("http://127.0.0.1/a").unwrap();
        let (mut viewers, mut slow, mut checked, mut ramp, mut churn) = (0, 0, 0, 0.0, 0.0);
        for index in 0..3 {
            let settings = args.settings(vec![target.clone()], None, index);
            let line = arguments(&args, &settings);
            assert_eq!(line[..4], ["lab", "load", "http", "--worker"]);
            let worker = Program::try_parse_from(&line[2..]).unwrap().args;
            assert!(worker.worker && worker.urls == args.urls && worker.trust.ca == args.trust.ca);
            let again = worker.settings(vec![target.clone()], None, 0);
            assert_eq!(format!("{again:?}"), format!("{settings:?}"));
            viewers += again.viewers;
            slow += again.slow.unwrap().0;
            checked += if let Check::Sample(count) = again.check { count } else { 0 };
            ramp += again.ramp;
            churn += again.churn;
        }
        assert_eq!((viewers, slow, checked), (1001, 10, 7));
        assert!((ramp - 100.1).abs() < 1e-6 && (churn - 3.0).abs() < 1e-6, "{ramp} {churn}");
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_would() {
        let one = BTreeSet::from(["127.0.0.1:80".parse().unwrap()]);
        let room =
            |text: &str| parse(text).check_room(&one, 20_000, 28_000).map_err(|error| error.to_string());
        assert_eq!(room("http://h/ --viewers 19968"), Ok(()));
        let error = room("http://h/ --viewers 30000").unwrap_err();
        assert!(error.contains("30032 descriptors") && error.contains("--processes 2"), "{error}");
        let error = room("http://h/ --viewers 30000 --processes 2").unwrap_err();
        assert!(error.contains("1 × 28000") && error.contains("2 addresses"), "{error}");
        assert_eq!(room("http://h/ --viewers 30000 --processes 2 --source 127.0.0.1,127.0.0.2"), Ok(()));
        assert!(room("http://h/ --viewers 3 --processes 4").is_err());
        assert!(room("http://h/ --viewers 3 --slow 4@50%").is_err());
    }
}
