//! Strangers' floods at a listener that runs as programs run it (`engine::link`): how many datagrams it turns away, and
//! what becomes of the delay of a link that is up meanwhile. The core without a socket stands in `cargo bench -p
//! glassline-transport --bench link -- strangers`.

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use glassline_bench::machine::Cores;
use glassline_bench::process::Others;
use glassline_bench::report::{Report, median};
use glassline_call::link::{Endpoint, Link, Local};
use glassline_io::udp::Port;
use glassline_transport::link::{Credentials, Key, MAX_SEGMENTS, Options, Settings};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::end::{cpu_seconds, now_ns};

const CHANNEL: u8 = 0;
/// A message of the link whose delay is measured, bytes, and how often one is sent.
const MESSAGE: usize = 200;
const EVERY: Duration = Duration::from_millis(1);
/// Bytes of a stranger's datagram: the least that a Connect may have.
const DATAGRAM: usize = 1200;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// What strangers send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Data of links that are not there
    Data,
    /// Connects of somebody who does not know the key: what costs most to turn away
    Connect,
}

impl Kind {
    const ALL: [Kind; 2] = [Kind::Data, Kind::Connect];

    fn word(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Data => "data of unknown links",
            Kind::Connect => "Connects without the key",
        }
    }

    fn write(self, number: u64, datagram: &mut [u8]) {
        match self {
            Kind::Data => {
                datagram[0] = 0x40;
                datagram[1..9].copy_from_slice(&number.to_be_bytes());
            }
            Kind::Connect => {
                datagram[..3].copy_from_slice(&[0x81, 1, 0]);
                datagram[3..11].copy_from_slice(&number.to_be_bytes());
                datagram[11..14].copy_from_slice(&[0, 0, 48]);
            }
        }
    }
}

fn settings(name: &str) -> Settings {
    // As the command's listener has one: whose a packet is costs more to find out then.
    let reset_secret = Some(Key([9; 32]));
    Settings { name: name.into(), reset_secret, ..Settings::new(Credentials::Shared(Key([7; 32]))) }
}

fn options() -> Options {
    Options { reliable: false, ..Options::default() }
}

/// The listener: sends back what comes, and tells at each line of its input what it has turned away.
pub(crate) fn host(address: SocketAddr) -> Result<()> {
    let ground = std::sync::Arc::new(Endpoint::listen(settings("ground"), &[Local::at(address)])?);
    let accepting = std::sync::Arc::clone(&ground);
    std::thread::spawn(move || {
        while let Ok(link) = accepting.accept() {
            std::thread::spawn(move || echo(&link));
        }
    });
    println!("ready");
    for line in std::io::stdin().lines() {
        line?;
        let strangers = ground.counters().strangers;
        println!("{}", json!({"strangers": strangers, "cpu": cpu_seconds(), "ns": now_ns()}));
    }
    Ok(())
}

fn echo(link: &Link) {
    if link.open(CHANNEL, options()).is_err() {
        return;
    }
    while let Ok(message) = link.receive(CHANNEL) {
        if link.send(CHANNEL, message).is_err() {
            return;
        }
    }
}

/// Who has a link to it: how long messages take there and back, microseconds.
pub(crate) fn guest(address: SocketAddr, seconds: Duration) -> Result<Value> {
    let air = Endpoint::open(settings(&format!("air{}", std::process::id())), &[Local::towards(address)])?;
    let link = air.connect(address)?;
    ensure!(link.wait_connected(ANSWER_TIMEOUT)?, "no connection");
    link.open(CHANNEL, options())?;
    let (begin, mut taken) = (Instant::now(), Vec::new());
    let mut next = begin;
    while begin.elapsed() < seconds {
        let mut message = vec![0; MESSAGE];
        message[..8].copy_from_slice(&now_ns().to_be_bytes());
        link.send(CHANNEL, message)?;
        next += EVERY;
        loop {
            let left = next.saturating_duration_since(Instant::now());
            let Some(message) = link.receive_timeout(CHANNEL, left)? else { break };
            let sent = message.first_chunk().map_or(0, |sent| u64::from_be_bytes(*sent));
            taken.push((now_ns() - sent) as f64 / 1e3);
        }
    }
    ensure!(!taken.is_empty(), "nothing came back");
    taken.sort_by(f64::total_cmp);
    let at = |share: f64| taken[((taken.len() - 1) as f64 * share) as usize];
    Ok(json!({"p50": at(0.5), "p95": at(0.95), "p99": at(0.99), "count": taken.len()}))
}

/// The strangers: `rate` datagrams a second, or as many as go.
pub(crate) fn flood(kind: Kind, address: SocketAddr, rate: f64, seconds: Duration) -> Result<Value> {
    // Whose delay is measured shares this core, and is not to wait for us: strangers would not share it.
    rustix::process::nice(19).context("cannot lower the priority")?;
    let port = Port::open(&Local::towards(address))?;
    let mut batch = vec![0x5A; MAX_SEGMENTS * DATAGRAM];
    let (begin, mut number) = (Instant::now(), 0u64);
    while begin.elapsed() < seconds {
        for datagram in batch.chunks_mut(DATAGRAM) {
            kind.write(number, datagram);
            number += 1;
        }
        let mut rest = &batch[..];
        while !rest.is_empty() {
            match port.send(address, rest, DATAGRAM, 0)? {
                Some(sent) => rest = &rest[sent..],
                None => std::thread::yield_now(),
            }
        }
        if rate > 0.0 {
            let due = begin + Duration::from_secs_f64(number as f64 / rate);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }
    Ok(json!({"sent": number, "seconds": begin.elapsed().as_secs_f64()}))
}

/// A process of ours; ends with us.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Fails only where it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// This program again, in another role on `core`.
fn start(core: usize, arguments: &[String]) -> Result<Running> {
    let child = Command::new("taskset")
        .args(["-c", &core.to_string()])
        .arg(std::env::current_exe().context("cannot find this program")?)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {arguments:?}"))?;
    Ok(Running(child))
}

fn result(running: &mut Running) -> Result<Value> {
    let output = running.0.stdout.take().context("no output")?;
    let text = std::io::read_to_string(output)?;
    serde_json::from_str(text.trim()).with_context(|| format!("it says {text:?}"))
}

fn figure(value: &Value, key: &str) -> Result<f64> {
    value[key].as_f64().with_context(|| format!("no {key} in {value}"))
}

/// The listener's process, which answers questions.
struct Host {
    _running: Running,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Host {
    fn start(core: usize) -> Result<Host> {
        let port = std::net::UdpSocket::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut running = start(core, &["host".into(), address.to_string()])?;
        let input = running.0.stdin.take().context("no input")?;
        let mut output = BufReader::new(running.0.stdout.take().context("no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        ensure!(line.trim() == "ready", "the listener says {line:?}");
        Ok(Host { _running: running, input, output, address })
    }

    fn ask(&mut self) -> Result<Value> {
        writeln!(self.input)?;
        self.input.flush()?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        serde_json::from_str(line.trim()).with_context(|| format!("the listener says {line:?}"))
    }

    fn flood(&self, core: usize, kind: Kind, rate: f64, seconds: f64) -> Result<Running> {
        let words =
            ["flood".into(), kind.word(), self.address.to_string(), rate.to_string(), seconds.to_string()];
        start(core, &words)
    }

    fn guest(&self, core: usize, seconds: f64) -> Result<Value> {
        result(&mut start(core, &["guest".into(), self.address.to_string(), seconds.to_string()])?)
    }
}

const CASE: &str = "strangers";
const TURNED_AWAY: &str = "turned away by a core";

/// Measures both.
pub(crate) fn run(report: &mut Report, runs: u32, seconds: f64) -> Result<()> {
    let Some(cores) = Cores::choose()? else {
        report.note("SKIPPED strangers: it needs two processors");
        return Ok(());
    };
    report.note("strangers: the flood and the link's other end share a core, where the latter goes first");
    let mut ratios = Vec::new();
    for _ in 0..runs {
        let mut host = Host::start(cores.server)?;
        let mut slowest = f64::INFINITY;
        for kind in Kind::ALL {
            let (others, before) = (Others::begin()?, host.ask()?);
            let sent = result(&mut host.flood(cores.load, kind, 0.0, seconds)?)?;
            let after = host.ask()?;
            let since = |key: &str| Ok::<_, anyhow::Error>(figure(&after, key)? - figure(&before, key)?);
            let (count, cpu, wall) = (since("strangers")?, since("cpu")?, since("ns")? / 1e9);
            ensure!(count > 0.0, "no stranger came");
            report.disturbance(CASE, kind.name(), others.share()?);
            report.add(CASE, kind.name(), TURNED_AWAY, "M/s", count / cpu / 1e6);
            report.add(CASE, kind.name(), "turned away", "M/s", count / wall / 1e6);
            report.add_context(
                CASE,
                kind.name(),
                "of what was sent",
                "%",
                count / figure(&sent, "sent")? * 100.0,
            );
            slowest = slowest.min(count / cpu);
        }
        let others = Others::begin()?;
        let calm = host.guest(cores.load, seconds)?;
        let flood = host.flood(cores.load, Kind::Connect, slowest / 2.0, seconds + 2.0)?;
        std::thread::sleep(Duration::from_millis(500));
        let flooded = host.guest(cores.load, seconds)?;
        drop(flood);
        let others = others.share()?;
        for (who, delays) in [("a link, nobody else", &calm), ("a link, flooded at half of that", &flooded)] {
            report.disturbance(CASE, who, others);
            for (metric, key) in [("there and back, median", "p50"), ("p95", "p95"), ("p99", "p99")] {
                report.add(CASE, who, metric, "µs", figure(delays, key)?);
            }
        }
        ratios.push(figure(&flooded, "p50")? / figure(&calm, "p50")?);
    }
    for kind in Kind::ALL {
        if let Some(rate) = report.value(CASE, kind.name(), TURNED_AWAY) {
            report.term(format!("strangers: {}, M/s turned away by a core", kind.name()), rate, 1.0, false);
        }
    }
    report.term("strangers: delay of a link beside a flood at half that rate", median(&ratios), 1.5, true);
    Ok(())
}
