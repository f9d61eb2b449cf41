//! Loopback at full speed: one process a side, each on a core of its own, by turns.

use anyhow::{Context, Result, ensure};
use glassline_bench::machine::Cores;
use glassline_bench::process::Others;
use glassline_bench::report::Report;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::carrier::Load;
use crate::foreign::Foreign;
use crate::who::Who;

/// A column of a table.
#[derive(Clone, Debug)]
enum Racer {
    Own(Who),
    Ceiling,
    Foreign(&'static str, PathBuf),
}

pub(crate) const CEILING: &str = "GSO + AEAD";
const BULK: usize = 16 << 20;
const SMALL: usize = 200;

/// The cases' names, their loads, the size of a message.
const CASES: [(&str, Load, usize); 3] = [
    ("16 MiB, reliable", Load::Bulk, BULK),
    ("200 B, reliable, in order", Load::Reliable, SMALL),
    ("200 B, unreliable", Load::Unreliable, SMALL),
];

const RATE: &str = "goodput";
const MESSAGES: &str = "messages";
const SENDER: &str = "sender's CPU";
const RECEIVER: &str = "receiver's CPU";
const BUFFER: &str = "receiver's socket buffer, as the kernel counts";

/// Runs all cases.
pub(crate) fn run(report: &mut Report, runs: u32, seconds: f64, folder: &Path) -> Result<()> {
    let Some(cores) = Cores::choose()? else {
        report.note("SKIPPED the speed: it needs two processors");
        return Ok(());
    };
    let mut foreign = Vec::new();
    for (name, peer) in [("ENet", Foreign::Enet), ("SRT", Foreign::Srt)] {
        match peer.build(folder)? {
            Ok(program) => foreign.push((name, peer, program)),
            Err(why) => report.note(format!("SKIPPED {name}: {why}")),
        }
    }
    for (case, load, size) in CASES {
        let mut racers = vec![Racer::Own(Who::Ours), Racer::Own(Who::Core), Racer::Own(Who::Quinn)];
        for (name, peer, program) in &foreign {
            // SRT's unreliable mode is one for live streams, whose messages wait for a fixed delay: it runs on narrow links.
            if load != Load::Unreliable || *peer != Foreign::Srt {
                racers.push(Racer::Foreign(name, program.clone()));
            }
        }
        if load == Load::Bulk {
            racers.push(Racer::Ceiling);
        }
        for _ in 0..runs {
            for racer in &racers {
                if let Err(error) = race(racer, (case, load, size), seconds, cores, report) {
                    report.note(format!("FAILED {case}: {}: {error:#}", racer.name()));
                }
            }
        }
    }
    terms(report);
    Ok(())
}

impl Racer {
    fn name(&self) -> &'static str {
        match self {
            Racer::Own(who) => who.name(),
            Racer::Ceiling => CEILING,
            Racer::Foreign(name, _) => name,
        }
    }

    /// One end, pinned to `core`.
    fn command(
        &self,
        role: &str,
        port: u16,
        load: Load,
        size: usize,
        seconds: f64,
        core: usize,
    ) -> Result<Command> {
        let mut command = Command::new("taskset");
        command.arg("-c").arg(core.to_string());
        let load = match load {
            Load::Bulk => "bulk",
            Load::Reliable => "reliable",
            Load::Unreliable => "unreliable",
            Load::Video => "video",
        };
        let this = || std::env::current_exe().context("cannot find this program");
        match self {
            Racer::Own(who) => command.arg(this()?).arg("end").args([role, &who.word()]),
            Racer::Ceiling => command.arg(this()?).arg("end").args([role, "ceiling"]),
            Racer::Foreign(_, program) => command.arg(program).arg(role),
        };
        let end = [port.to_string(), load.to_owned(), size.to_string(), seconds.to_string()];
        command.arg("127.0.0.1").args(end).stdin(Stdio::null()).stdout(Stdio::piped());
        Ok(command)
    }
}

/// Ends a process that is forgotten.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Fails only where it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn race(
    racer: &Racer,
    (case, load, size): (&str, Load, usize),
    seconds: f64,
    cores: Cores,
    report: &mut Report,
) -> Result<()> {
    let others = Others::begin()?;
    let port = UdpSocket::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let spawn = |role: &str, core: usize| {
        racer
            .command(role, port, load, size, seconds, core)?
            .spawn()
            .with_context(|| format!("cannot start the end that is to {role}"))
    };
    let mut receiver = Running(spawn("receive", cores.server)?);
    let mut told = BufReader::new(receiver.0.stdout.take().context("no output")?);
    let mut line = String::new();
    told.read_line(&mut line)?;
    ensure!(line.trim() == "ready", "the receiver says {line:?}");
    // What listens with its first receive call only.
    std::thread::sleep(Duration::from_millis(50));
    let buffer = receive_buffer(port);
    let mut sender = Running(spawn("send", cores.load)?);
    let sent = result(&mut sender.0.stdout.take().context("no output")?)?;
    let received = result(&mut told)?;
    let figure =
        |value: &Value, key: &str| value[key].as_f64().with_context(|| format!("no {key} in {value}"));
    let (bytes, total) = (figure(&received, "bytes")?, figure(&received, "total")?);
    ensure!(bytes > 0.0, "nothing came");
    report.disturbance(case, racer.name(), others.share()?);
    let (rate, who) = (bytes / figure(&received, "seconds")?, racer.name());
    let (sender, receiver) = (figure(&sent, "cpu")? / total, figure(&received, "cpu")? / bytes);
    if load == Load::Bulk {
        report.add(case, who, RATE, "GB/s", rate / 1e9);
        report.add(case, who, SENDER, "CPU-s/GB", sender * 1e9);
        report.add(case, who, RECEIVER, "CPU-s/GB", receiver * 1e9);
    } else {
        let size = size as f64;
        report.add(case, who, MESSAGES, "M/s", rate / size / 1e6);
        report.add(case, who, SENDER, "µs/message", sender * size * 1e6);
        report.add(case, who, RECEIVER, "µs/message", receiver * size * 1e6);
    }
    if let Some(buffer) = buffer {
        report.add_context(case, who, BUFFER, "MiB", buffer / f64::from(1 << 20));
    }
    report.add_context(case, who, "of what was sent", "%", total / figure(&sent, "bytes")? * 100.0);
    Ok(())
}

/// Bytes that the kernel keeps for the UDP socket at `port`, by what `ss` tells (`SK_MEMINFO_RCVBUF`): so that nobody is
/// measured with other buffers than he is said to have.
fn receive_buffer(port: u16) -> Option<f64> {
    let told =
        Command::new("ss").args(["-H", "-u", "-a", "-n", "-m", &format!("sport = :{port}")]).output().ok()?;
    parse_buffer(&String::from_utf8_lossy(&told.stdout))
}

/// "skmem:(r0,rb8388608,t0,…)"
fn parse_buffer(told: &str) -> Option<f64> {
    let (_, rest) = told.split_once("skmem:(r")?;
    rest.split(',').find_map(|field| field.strip_prefix("rb"))?.parse().ok()
}

fn result(from: &mut impl Read) -> Result<Value> {
    let mut text = String::new();
    from.read_to_string(&mut text)?;
    serde_json::from_str(text.trim()).with_context(|| format!("an end says {text:?}"))
}

/// What ours has to be.
fn terms(report: &mut Report) {
    let ours = Who::Ours.name();
    let (bulk, reliable, unreliable) = (CASES[0].0, CASES[1].0, CASES[2].0);
    let by = |report: &Report, case: &str, metric: &str, peer: &str| {
        Some(report.value(case, ours, metric)? / report.value(case, peer, metric)?)
    };
    let values = [
        ("16 MiB: goodput by quinn's", by(report, bulk, RATE, "quinn"), 2.0, false),
        ("16 MiB: goodput by that of GSO and AEAD alone", by(report, bulk, RATE, CEILING), 0.6, false),
        ("16 MiB: sender, CPU-s/GB", report.value(bulk, ours, SENDER), 0.6, true),
        ("16 MiB: receiver, CPU-s/GB", report.value(bulk, ours, RECEIVER), 0.6, true),
        ("200 B reliable: messages by ENet's in clear", by(report, reliable, MESSAGES, "ENet"), 2.0, false),
        ("200 B reliable: M messages/s", report.value(reliable, ours, MESSAGES), 2.0, false),
        (
            "200 B unreliable: messages by quinn's datagrams",
            by(report, unreliable, MESSAGES, "quinn"),
            1.1,
            false,
        ),
        ("200 B unreliable: M messages/s", report.value(unreliable, ours, MESSAGES), 3.0, false),
    ];
    for (text, value, limit, most) in values {
        if let Some(value) = value {
            report.term(text, value, limit, most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_is_read_from_what_ss_tells() {
        let told =
            "UNCONN 0 0 127.0.0.1:4433 0.0.0.0:*\n\t skmem:(r0,rb8388608,t0,tb425984,f0,w0,o0,bl0,d0)\n";
        assert_eq!(parse_buffer(told), Some(8_388_608.0));
        assert_eq!(parse_buffer(""), None);
    }
}
