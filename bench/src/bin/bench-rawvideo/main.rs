//! Uncompressed video over RTP: the highest rate at which a receiver on one core loses nothing, ours beside FFmpeg, GStreamer and
//! bare loops that look into no header; what a packet may cost; and 2160p60 by one path and by two.
//!
//! The receiver has one core, the sender another, which it uses wholly: it looks at the clock, so that it is even. One sender
//! sends to all: frames in memory as ready packets, 48 of them a message that the kernel or the device cuts.

mod bare;
mod case;
mod counts;
mod network;
mod planes;
mod rates;
mod search;
mod sender;
mod stream;
mod terms;
mod trial;
mod who;

use anyhow::{Result, bail};
use case::Case;
use clap::{Parser, ValueEnum};
use glassline_bench::machine::{self, Cores, find};
use glassline_bench::report::{OURS, Report};
use glassline_transport::raw_video::Packing;
use network::{Kind, Network};
use rates::{Bench, Times};
use std::path::{Path, PathBuf};
use std::time::Duration;
use stream::Stream;
use who::Who;

/// Uncompressed video over RTP: the highest loss-free rate on one core, beside FFmpeg, GStreamer and bare loops
#[derive(Debug, Parser)]
struct Args {
    /// Seconds of a trial, behind one in which the receiver settles
    #[arg(long, default_value_t = 2.0, value_parser = seconds)]
    seconds: f64,
    /// Seconds of the run that confirms a rate, and by which processor time is told
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS", value_parser = seconds)]
    confirm: f64,
    /// Seconds of a run of 2160p60
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS", value_parser = seconds)]
    long: f64,
    /// Trials of a search between 0.5 and 80 Gbit/s: eight find a rate to two percent
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=12))]
    steps: u32,
    /// Whom to measure; all by default
    #[arg(long, value_name = "WHO,…", value_delimiter = ',')]
    who: Vec<Who>,
    /// By which networks; all by default
    #[arg(long, value_name = "NETWORK,…", value_delimiter = ',')]
    networks: Vec<Kind>,
    /// Bits of a sample; 8 and 10 by default
    #[arg(long, value_name = "BITS,…", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(8..=10))]
    depths: Vec<u8>,
    /// Bytes of a datagram at most, over loopback: 800, 1300 (of 10 bits 1220), 1450 and 8900 by default
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',')]
    payloads: Vec<usize>,
    /// Which parts to run; all by default
    #[arg(long, value_name = "PART,…", value_delimiter = ',')]
    parts: Vec<Part>,
    /// Few and short trials of one stream: whether everything works
    #[arg(long)]
    quick: bool,
    /// Tell of each trial
    #[arg(long)]
    trials: bool,
    /// Folder for rawvideo.json
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    out: PathBuf,
    /// Be a bare loop: which, stream, address, work in nanoseconds
    #[arg(long, hide = true, num_args = 4)]
    be_loop: Vec<String>,
    /// Be ours to planes: description, processor
    #[arg(long, hide = true, num_args = 2)]
    be_planes: Vec<String>,
}

fn seconds(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|seconds| (0.2..=3600.0).contains(seconds))
        .ok_or("must be from 0.2 to 3600".into())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The highest loss-free rates
    Rates,
    /// The same from a sender that calls once a packet
    WithoutGso,
    /// What a packet may cost before the first is lost
    Work,
    /// 2160p60 by one path and by two
    Uhd,
}

fn main() -> Result<()> {
    let mut args = Args::parse();
    if let [kind, stream, address, work] = &args.be_loop[..] {
        let kind = bare::Kind::from_str(kind, true).map_err(anyhow::Error::msg)?;
        let stream: Stream = stream.parse().map_err(anyhow::Error::msg)?;
        return bare::run(kind, &stream, address.parse()?, Duration::from_nanos(work.parse()?));
    }
    if let [description, processor] = &args.be_planes[..] {
        return planes::run(Path::new(description), processor.parse()?);
    }
    if let Some(has_succeeded) = network::under_limits()? {
        std::process::exit(i32::from(!has_succeeded));
    }
    let _ = machine::own_network()?;
    let is_part =
        [args.who.len(), args.networks.len(), args.depths.len(), args.payloads.len(), args.parts.len()];
    let mut report =
        Report::new("rawvideo").beside(OURS).onto_earlier(is_part.iter().any(|count| *count > 0));
    if args.quick {
        (args.seconds, args.confirm, args.long, args.steps) = (0.7, 1.0, 2.0, 3);
    }
    let Args { seconds, confirm, long, steps, .. } = args;
    report
        .how(format!("{steps} trials of {seconds} s and one of {confirm} s for a rate, {long} s of 2160p60"));
    report.note(
        "one sender for all: frames in memory, 48 packets (65 kB at most) a message (GSO), evenly paced by the clock; \
         `glassline send-raw --schedule burst` waits by timers and is not even enough",
    );
    report.note(if machine::has_own_network() {
        "in a network namespace of its own; devices with an MTU of 9200"
    } else {
        "in the machine's own network: no namespace is allowed"
    });
    let cores = Cores::choose()?;
    match cores {
        Some(cores) => {
            cores.pin_load()?;
            report.note(format!("receivers on core {}, the sender on core {}", cores.server, cores.load));
        }
        None => report.note("one processor only: receivers share it with the sender, compare nothing"),
    }
    let times = [seconds, confirm, long].map(Duration::from_secs_f64);
    let times = Times { trial: times[0], confirm: times[1], long: times[2], steps, tells: args.trials };
    let mut bench = Bench::new(report, cores, times);
    let out = args.out.clone();
    run(&args, &mut bench)?;
    bench.report.finish(&out)?;
    if bench.failed > 0 {
        bail!("{} measurements of ours failed; the notes tell why", bench.failed);
    }
    Ok(())
}

fn run(args: &Args, bench: &mut Bench) -> Result<()> {
    let who = present(args, bench);
    let runs = |part| args.parts.is_empty() || args.parts.contains(&part);
    for network in networks(args, bench) {
        let way = match Network::open(network, bench.cores.map(|cores| cores.server)) {
            Ok(way) => way,
            Err(error) => {
                bench.report.note(format!("SKIPPED {}: {error:#}", network.name()));
                continue;
            }
        };
        let streams = streams(args, network);
        for has_gso in [(true, Part::Rates), (false, Part::WithoutGso)]
            .into_iter()
            .filter_map(|(has_gso, part)| runs(part).then_some(has_gso))
        {
            // Block packing leaves in short messages anyway, and jumbo frames need none.
            let is_wanted = |stream: &&Stream| has_gso || [1300, 1220].contains(&stream.datagram_bytes);
            if !has_gso && network != Kind::Loopback {
                continue;
            }
            for stream in streams.iter().filter(is_wanted) {
                let case = Case::new(*stream, network, has_gso)?;
                bench.rates(&case, &way, &who);
                terms::add(&case, &mut bench.report);
            }
        }
        if network == Kind::Loopback && runs(Part::Work) {
            let stream = Stream::new(8, 1300, Packing::General);
            for gbps in if args.quick { &[2.0][..] } else { &[2.0, 10.0] } {
                bench.work(&Case::new(stream, network, true)?, &way, *gbps);
            }
        }
        if network == Kind::Loopback && runs(Part::Uhd) {
            bench.uhd(&Case::new(Stream::uhd(), network, true)?, &way);
        }
    }
    Ok(())
}

/// Those of the wanted that are here.
fn present(args: &Args, bench: &mut Bench) -> Vec<Who> {
    let all = Who::value_variants().iter().copied();
    let wanted = all.filter(|who| args.who.is_empty() || args.who.contains(who));
    let (there, absent): (Vec<_>, Vec<_>) =
        wanted.partition(|who| who.needs().is_none_or(|(program, _)| find(program).is_some()));
    for who in absent {
        let (program, package) = who.needs().unwrap_or_default();
        bench.report.note(format!("SKIPPED {}: no {program} here (apt install {package})", who.name()));
    }
    there
}

/// Those of the wanted that can be made here.
fn networks(args: &Args, bench: &mut Bench) -> Vec<Kind> {
    let all = Kind::value_variants().iter().copied();
    let wanted: Vec<Kind> = all
        .filter(|kind| match args.networks.is_empty() {
            true => !args.quick || matches!(kind, Kind::Loopback | Kind::Nic),
            false => args.networks.contains(kind),
        })
        .collect();
    let is_there = |kind: &Kind| match kind.missing(machine::has_own_network()) {
        None => true,
        Some(why) => {
            bench.report.note(format!("SKIPPED {}: {why}", kind.name()));
            false
        }
    };
    wanted.into_iter().filter(is_there).collect()
}

/// The streams over a network.
fn streams(args: &Args, network: Kind) -> Vec<Stream> {
    let usual = |depth: u8| if depth == 10 { 1220 } else { 1300 };
    let depths = match args.depths.is_empty() {
        false => args.depths.clone(),
        true if args.quick => vec![8],
        true => vec![8, 10],
    };
    let all = depths.iter().flat_map(|&depth| {
        let payloads = match args.payloads.is_empty() {
            false => args.payloads.clone(),
            true if args.quick || network != Kind::Loopback => vec![usual(depth)],
            true => vec![800, usual(depth), 1450, 8900],
        };
        payloads.into_iter().map(move |bytes| {
            // Lines come apart evenly into less than 1,450 bytes: what fills such datagrams is block packing.
            let packing = if bytes == 1450 { Packing::Block } else { Packing::General };
            Stream::new(depth, bytes, packing)
        })
    });
    all.filter(|stream| stream.packets().is_ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Args {
        Args::try_parse_from([&["bench-rawvideo"], words].concat()).unwrap()
    }

    #[test]
    fn all_payloads_are_measured_over_loopback_and_the_usual_one_elsewhere() {
        let args = parsed(&[]);
        assert_eq!(streams(&args, Kind::Loopback).len(), 8);
        let bytes: Vec<_> = streams(&args, Kind::Nic).iter().map(|stream| stream.datagram_bytes).collect();
        assert_eq!(bytes, [1300, 1220]);
        assert_eq!(streams(&parsed(&["--quick"]), Kind::Loopback).len(), 1);
        let chosen = streams(&parsed(&["--depths", "10", "--payloads", "800,4"]), Kind::Nic);
        assert_eq!(chosen.len(), 1, "what no sample fits into is left out");
    }

    #[test]
    fn seconds_are_bounded() {
        assert!(Args::try_parse_from(["bench-rawvideo", "--seconds", "0"]).is_err());
        assert_eq!(parsed(&["--long", "600"]).long, 600.0);
    }
}
