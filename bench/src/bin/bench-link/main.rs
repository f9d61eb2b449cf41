//! The link beside QUIC (quinn), SRT, ENet and TCP.
//!
//! * **Speed**: loopback, a process a side on a core of its own; what the kernel and the AEAD allow beside it.
//! * **Strangers**: how many of their datagrams a listener turns away, and what a link notices of that.
//! * **Narrow links**: video and small messages through `glassline lab link`, TCP and QUIC beside us.
//! * **Competition**: two flows on one link.
//!
//! This program is both ends of whatever it measures, too: it starts itself for each.

mod carrier;
mod compete;
mod delay;
mod end;
mod foreign;
mod handles;
mod ours;
mod pieces;
mod quic;
mod raw;
mod rows;
mod scenario;
mod speed;
mod srt;
mod strangers;
mod tcp;
mod video;
mod who;

use anyhow::{Context, Result};
use carrier::Load;
use clap::{Parser, Subcommand, ValueEnum};
use foreign::Foreign;
use glassline_bench::machine;
use glassline_bench::report::Report;
use scenario::{Lab, Scenario};
use serde_json::json;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use who::Who;

/// The link beside QUIC, SRT, ENet and TCP: speed, narrow links, competition
#[derive(Debug, Parser)]
struct Args {
    /// Runs of each measurement, by turns
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// How long one measurement of speed takes
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    seconds: f64,
    /// Runs of each narrow link and competition
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    link_runs: u32,
    /// How long a narrow link is used; the blackout is at 25 s
    #[arg(long, value_name = "SECONDS", default_value_t = 40, value_parser = clap::value_parser!(u64).range(4..))]
    link_seconds: u64,
    /// How long two flows compete
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(5..))]
    compete_seconds: u64,
    /// Who runs on narrow links
    #[arg(long, value_enum, value_name = "WHO,…", value_delimiter = ',',
          default_values = ["ours", "quinn-delay", "quinn-bbr", "tcp-bbr", "tcp-cubic", "srt-120", "srt-400"])]
    peers: Vec<Who>,
    /// Which parts to run; all by default
    #[arg(long, value_enum, value_name = "PART,…", value_delimiter = ',')]
    parts: Vec<Part>,
    /// Short runs: whether everything works, not what it is worth
    #[arg(long)]
    quick: bool,
    /// Folder for link.json and what else is made
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    out: PathBuf,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Loopback at full speed
    Speed,
    /// Floods of strangers at a listener
    Strangers,
    /// More video than the link carries
    Choked,
    /// Bursts of loss
    Bursts,
    /// Half the rate for a while, then a second without a link
    Outage,
    /// Beside a flow of TCP
    Compete,
}

/// What this program does as an end of a measurement.
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
enum Role {
    /// An end of a measurement of speed
    #[command(hide = true)]
    End { role: Direction, who: String, address: IpAddr, port: u16, load: Load, size: usize, seconds: f64 },
    /// Video and messages for a narrow link
    #[command(hide = true)]
    Show {
        who: Who,
        bits: f64,
        seconds: u64,
        #[arg(long)]
        result: PathBuf,
    },
    /// Judges what came of them
    #[command(hide = true)]
    Judge {
        who: Who,
        #[arg(long)]
        blackout_ms: Option<u64>,
        #[arg(long)]
        result: PathBuf,
    },
    /// Two flows
    #[command(hide = true)]
    Compete {
        control: String,
        seconds: u64,
        #[arg(long)]
        result: PathBuf,
    },
    /// A listener that strangers find
    #[command(hide = true)]
    Host { address: SocketAddr },
    /// Who has a link to it
    #[command(hide = true)]
    Guest { address: SocketAddr, seconds: f64 },
    /// The strangers
    #[command(hide = true)]
    Flood { kind: strangers::Kind, address: SocketAddr, rate: f64, seconds: f64 },
    /// Counts both
    #[command(hide = true)]
    Referee {
        control: String,
        seconds: u64,
        #[arg(long)]
        result: PathBuf,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Direction {
    Send,
    Receive,
}

/// Where the far side of a narrow link listens.
const PORT: u16 = 7000;
const OTHER_PORT: u16 = 7001;
/// How long the far side may take for its result.
const RESULT_TIMEOUT: Duration = Duration::from_secs(40);

/// The far side's address, which `lab link` tells.
fn far(port: u16) -> Result<SocketAddr> {
    let address = std::env::var("GLASSLINE_FAR").context("not behind glassline lab link")?;
    Ok(SocketAddr::new(address.parse().with_context(|| address.clone())?, port))
}

fn play(role: &Role) -> Result<()> {
    match role {
        Role::End { role, who, address, port, load, size, seconds } => {
            let (address, seconds) = (SocketAddr::new(*address, *port), Duration::from_secs_f64(*seconds));
            let who = Who::from_str(who, false).ok();
            let value = match (role, who) {
                (Direction::Send, Some(who)) => {
                    end::send(&mut *who.connect(address, *load)?, *load, *size, seconds)?.json()
                }
                (Direction::Receive, Some(who)) => {
                    end::receive(&mut *who.listen(address, *load)?, *load, *size)?.json()
                }
                (Direction::Send, None) => raw::send(address, seconds)?.json(),
                (Direction::Receive, None) => raw::receive(address)?.json(),
            };
            println!("{value}");
        }
        Role::Show { who, bits, seconds, result } => {
            // `lab link` starts its command together with the link.
            let begin = end::now_ns();
            let mut carrier = who.connect(far(PORT)?, Load::Video)?;
            let sent = video::show(&mut *carrier, *bits, Duration::from_secs(*seconds), begin)?;
            let judged = video::read_result(result, RESULT_TIMEOUT)?;
            let all = json!({"judged": judged, "messages": sent["messages"], "pictures": sent["pictures"],
                             "bytes": sent["bytes"]});
            video::write_result(result, &all)?;
        }
        Role::Judge { who, blackout_ms, result } => {
            let mut carrier = who.listen(far(PORT)?, Load::Video)?;
            let verdict = video::judge(&mut *carrier, blackout_ms.map(Duration::from_millis))?;
            video::write_result(result, &verdict)?;
        }
        Role::Host { address } => strangers::host(*address)?,
        Role::Guest { address, seconds } => {
            println!("{}", strangers::guest(*address, Duration::from_secs_f64(*seconds))?);
        }
        Role::Flood { kind, address, rate, seconds } => {
            println!("{}", strangers::flood(*kind, *address, *rate, Duration::from_secs_f64(*seconds))?);
        }
        Role::Compete { control, seconds, result } => {
            compete::send(far(PORT)?, far(OTHER_PORT)?, control, Duration::from_secs(*seconds))?;
            video::read_result(result, RESULT_TIMEOUT)?;
        }
        Role::Referee { control, seconds, result } => {
            let verdict =
                compete::receive(far(PORT)?, far(OTHER_PORT)?, control, Duration::from_secs(*seconds))?;
            video::write_result(result, &verdict)?;
        }
    }
    Ok(())
}

impl Args {
    fn wants(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    /// What runs how often and for how long.
    fn how(&self) -> String {
        let mut how = Vec::new();
        if [Part::Speed, Part::Strangers].into_iter().any(|part| self.wants(part)) {
            how.push(format!("speed: runs of {} s", self.seconds));
        }
        if [Part::Choked, Part::Bursts, Part::Outage].into_iter().any(|part| self.wants(part)) {
            how.push(format!("narrow links: runs of {} s", self.link_seconds));
        }
        if self.wants(Part::Compete) {
            how.push(format!("competition: runs of {} s", self.compete_seconds));
        }
        how.join(", ")
    }
}

fn main() -> Result<()> {
    let mut args = Args::parse();
    if let Some(role) = &args.role {
        return play(role);
    }
    if args.quick {
        (args.runs, args.seconds) = (1, 1.0);
        (args.link_seconds, args.compete_seconds) = (8, 8);
    }
    let wants = |part| args.wants(part);
    let network = machine::own_network()?;
    let mut report = Report::new("link").beside("quinn").onto_earlier(!args.parts.is_empty());
    report.note(format!(
        "{network}; datagrams of {} bytes; AES-128-GCM but for ENet (in clear) and TCP; by turns",
        carrier::DATAGRAM
    ));
    report.how(args.how());
    let folder = scenario::folder(&args.out)?;
    if wants(Part::Speed) {
        speed::run(&mut report, args.runs, args.seconds, &folder)?;
    }
    if wants(Part::Strangers) {
        strangers::run(&mut report, args.runs, args.seconds)?;
    }
    if [Part::Choked, Part::Bursts, Part::Outage, Part::Compete].into_iter().any(wants) {
        narrow(&args, &folder, &mut report)?;
    }
    report.finish(&args.out)
}

fn narrow(args: &Args, folder: &std::path::Path, report: &mut Report) -> Result<()> {
    let wants = |part| args.wants(part);
    let mut lab = Lab { glassline: machine::glassline()?, folder: folder.to_owned(), srt: None };
    if let Some(why) = lab.missing() {
        report.note(format!("SKIPPED narrow links: {why}"));
        return Ok(());
    }
    let mut peers = args.peers.clone();
    if peers.iter().any(|who| who.latency().is_some()) {
        match Foreign::Srt.build(folder)? {
            Ok(program) => lab.srt = Some(program),
            Err(why) => {
                report.note(format!("SKIPPED SRT on narrow links: {why}"));
                peers.retain(|who| who.latency().is_none());
            }
        }
    }
    let known = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    peers.retain(|who| {
        let missing =
            who.congestion().filter(|control| !known.split_whitespace().any(|word| word == *control));
        if let Some(control) = missing {
            report.note(format!("SKIPPED {}: this kernel has no {control}", who.name()));
        }
        missing.is_none()
    });
    for (scenario, part) in Scenario::ALL.into_iter().zip([Part::Choked, Part::Bursts, Part::Outage]) {
        if wants(part) {
            scenario::run(&lab, scenario, &peers, (args.link_runs, args.link_seconds), report)?;
        }
    }
    if wants(Part::Compete) {
        for who in peers.iter().copied().filter(|who| who.congestion().is_some()) {
            for depth in [1.0, 4.0] {
                scenario::compete(&lab, who, depth, (args.link_runs, args.compete_seconds), report)?;
            }
        }
    }
    Ok(())
}
