//! What pacing does on the wire: bursts before a router's queue of 30 kB, and drops in it, from a viewer's first byte on.
//!
//! ```text
//! source ─► server ─ gl0 ═══ gl1 ─ router ─ gl2 ═══ gl3 ─ viewer
//!      our namespace │ bursts: tcpdump on gl1,  │ home
//!                    │ glassline probe --flight │
//!                    │ drops: tc -s qdisc on gl2, tbf rate 20mbit limit 30kb
//! ```
//! The queue is a router's, for the kernel lets a socket fill no queue of its own machine.

use crate::case::Case;
use crate::measure::Times;
use crate::servers::{OUR_PATH, ours};
use crate::source::Source;
use anyhow::{Context, Result, ensure};
use glassline_bench::machine::{self, Cores, find};
use glassline_bench::namespace::{Namespace, call, words};
use glassline_bench::process::{Others, Server};
use glassline_bench::report::{OURS, Report};
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// Ours, and how it is set.
#[derive(Clone, Copy)]
struct Variant {
    name: &'static str,
    /// Of the pictures' files.
    short: &'static str,
    viewer: &'static str,
}

const VARIANTS: [Variant; 2] = [
    Variant { name: OURS, short: "shipped", viewer: "" },
    Variant { name: "glassline unpaced", short: "unpaced", viewer: "pacing = 'off'" },
];
/// How long a viewer's joining counts as such.
const BEGINNING: Duration = Duration::from_secs(3);
/// A window that has grown until it overflows the queue takes its time.
const DROP_WINDOWS: u32 = 3;
/// No burst may be longer: six packets.
const BURST_BYTES: f64 = 8000.0;
const HERE: &str = "10.99.0.1";
const PORT: u16 = 8080;
const CASE: Case = Case::new(1, 5);
const QUEUE: &str = "5 Mbit/s over 20 Mbit/s with a queue of 30 kB";

/// The way from the server to the viewer.
struct Way {
    router: Namespace,
    home: Namespace,
}

impl Way {
    fn new() -> Result<Way> {
        let way = Way { router: Namespace::new()?, home: Namespace::new()? };
        let (router, home) = (way.router.id(), way.home.id());
        call("ip", &words(&format!("link add gl0 type veth peer name gl1 netns {router}")))?;
        call("ip", &words(&format!("addr add {HERE}/24 dev gl0")))?;
        call("ip", &words("link set gl0 up"))?;
        call("ip", &words("route add 10.99.1.0/24 via 10.99.0.2"))?;
        for line in [
            &format!("ip link add gl2 type veth peer name gl3 netns {home}"),
            "ip addr add 10.99.0.2/24 dev gl1",
            "ip addr add 10.99.1.1/24 dev gl2",
            "ip link set gl1 up",
            "ip link set gl2 up",
        ] {
            way.router.call(line)?;
        }
        let forward = ["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"];
        call("nsenter", &way.router.words(&forward))?;
        for line in
            ["ip addr add 10.99.1.2/24 dev gl3", "ip link set gl3 up", "ip route add default via 10.99.1.1"]
        {
            way.home.call(line)?;
        }
        Ok(way)
    }
}

/// A server with a source, and where it is seen from home.
struct Relay {
    server: Server,
    source: Source,
    url: String,
}

impl Relay {
    fn start(variant: Variant, cores: Option<Cores>) -> Result<Relay> {
        let addresses = ["127.0.0.1", HERE].map(|address| format!("{address}:{PORT}").parse::<SocketAddr>());
        let addresses: Vec<SocketAddr> = addresses.into_iter().collect::<Result<_, _>>()?;
        let mut server = ours(&addresses, variant.viewer, cores.map(|cores| cores.server))?;
        drop(server.connect(addresses[0])?);
        let source = Source::publish(addresses[0], CASE, cores.map(|cores| cores.load))?;
        sleep(Duration::from_millis(1500));
        Ok(Relay { server, source, url: format!("http://{HERE}:{PORT}{OUR_PATH}") })
    }

    fn end(mut self) -> Result<()> {
        self.server.check_alive()?;
        self.source.end().map(drop)
    }
}

fn seconds(time: Duration) -> String {
    format!("{}s", time.as_secs())
}

/// The viewer at home, who watches for `time`.
fn viewer(way: &Way, relay: &Relay, time: Duration, core: Option<usize>) -> Result<Server> {
    let (program, duration) = (machine::glassline()?, seconds(time));
    let program = program.to_str().context("this program's path is not UTF-8")?;
    let load =
        ["lab", "load", "http", &relay.url, "--viewers", "1", "--warm-up", "0s", "--duration", &duration];
    way.home.start("viewer", core, &[&[program], &load[..]].concat())
}

/// Waits until the viewer has ended, who has found nothing wrong.
fn ended(mut viewer: Server, time: Duration) -> Result<()> {
    let status = viewer.wait(time)?;
    ensure!(status.success(), "the viewer complains:\n{}", viewer.log_end());
    Ok(())
}

/// Packets that the queue has dropped so far.
fn dropped(way: &Way) -> Result<u64> {
    let told = way.router.call("tc -s qdisc show dev gl2")?;
    parse_dropped(&told).with_context(|| format!("tc tells no drops: {told}"))
}

/// "Sent 1 bytes 2 pkt (dropped 3, overlimits 4 requeues 0)"
fn parse_dropped(told: &str) -> Option<u64> {
    told.split_once("(dropped ")?.1.split_once(',')?.0.parse().ok()
}

/// What a viewer behind the queue sees from its first byte on.
struct Seen {
    /// Packets dropped while it began, and then.
    dropped: [f64; 2],
    /// What `glassline probe --flight` says of the wire before the queue, where it was recorded.
    flight: Option<Value>,
}

/// Counts what is dropped in the queue while the viewer begins, and then; records the wire before it, and draws that.
fn look(way: &Way, variant: Variant, times: Times, out: &Path, cores: Option<Cores>) -> Result<Seen> {
    let relay = Relay::start(variant, cores)?;
    let core = cores.map(|cores| cores.load);
    let capture = Server::folder("capture")?.join("flight.pcap");
    let recorder = match find("tcpdump") {
        Some(tcpdump) => {
            let tcpdump = tcpdump.to_str().context("tcpdump's path is not UTF-8")?;
            let file = capture.to_str().context("the capture's path is not UTF-8")?;
            let filter = ["tcp", "and", "src", "host", HERE];
            let record = [tcpdump, "-i", "gl1", "-s", "96", "-Z", "root", "-U", "-w", file];
            let recorder = way.router.start("tcpdump", core, &[&record[..], &filter].concat())?;
            // It is there before the viewer is.
            sleep(Duration::from_millis(500));
            Some(recorder)
        }
        None => None,
    };
    let time = BEGINNING + times.window * DROP_WINDOWS;
    let viewer = viewer(way, &relay, time + Duration::from_secs(1), core)?;
    sleep(BEGINNING);
    let before = dropped(way)?;
    sleep(times.window * DROP_WINDOWS);
    let during = dropped(way)? - before;
    ended(viewer, time * 3)?;
    let flight = match recorder {
        Some(recorder) => {
            recorder.interrupt()?;
            Some(draw(&capture, variant, out)?)
        }
        None => None,
    };
    relay.end()?;
    let _ = fs::remove_dir_all(capture.parent().unwrap_or(&capture));
    Ok(Seen { dropped: [before as f64, during as f64], flight })
}

fn draw(capture: &Path, variant: Variant, out: &Path) -> Result<Value> {
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let picture = out.join(format!("flight-{}.svg", variant.short));
    let told = Command::new(machine::glassline()?)
        .arg("probe")
        .arg(capture)
        .args(["--json", "--flight-skip", "0s", "--flight-scale", "500M", "--flight"])
        .arg(&picture)
        .output()
        .context("glassline probe")?;
    ensure!(told.status.success(), "glassline probe: {}", String::from_utf8_lossy(&told.stderr));
    let report: Value = serde_json::from_slice(&told.stdout).context("what glassline probe says")?;
    Ok(report["flight"].clone())
}

/// Measures each variant's bursts and drops.
fn measure(times: Times, out: &Path, cores: Option<Cores>, report: &mut Report) -> Result<u64> {
    let way = Way::new()?;
    way.router.call("tc qdisc replace dev gl2 root tbf rate 20mbit burst 1600 limit 30kb")?;
    if find("tcpdump").is_none() {
        report.note("SKIPPED bursts: no tcpdump here (apt install tcpdump)");
    }
    for variant in VARIANTS {
        let others = Others::begin()?;
        let Seen { dropped: [beginning, then], flight } = look(&way, variant, times, out, cores)?;
        report.disturbance(QUEUE, variant.name, others.share()?);
        report.add(QUEUE, variant.name, "packets dropped while joining", "", beginning);
        report.add(QUEUE, variant.name, "packets dropped then", "", then);
        let is_ours = variant.name == OURS;
        if is_ours {
            report.term(format!("{QUEUE}: drops"), beginning + then, 0.0, true);
        }
        let Some(flight) = flight else { continue };
        let bytes = |key: &str| flight["burst_bytes"][key].as_f64().context("no bursts were recorded");
        let (p50, p99, max) = (bytes("p50")?, bytes("p99")?, bytes("max")?);
        for (metric, value) in [("burst p50", p50), ("burst p99", p99), ("longest burst", max)] {
            report.add(QUEUE, variant.name, metric, "kB", value / 1e3);
        }
        if is_ours {
            report.term(format!("{QUEUE}: longest burst, B"), max, BURST_BYTES, true);
        }
    }
    report.note("pictures of the packets: flight-*.svg beside the figures");
    Ok(0)
}

/// The same, or a note why not.
pub(crate) fn run(times: Times, out: &Path, cores: Option<Cores>, report: &mut Report) -> Result<u64> {
    let missing = ["tc", "ip", "unshare", "nsenter"].into_iter().find(|program| find(program).is_none());
    let why = match missing {
        _ if !machine::has_own_network() => Some("no network namespace is allowed here".to_owned()),
        Some(program) => Some(format!("no {program} here")),
        None => None,
    };
    match why {
        Some(why) => {
            report.note(format!("SKIPPED pacing: {why}"));
            Ok(0)
        }
        None => measure(times, out, cores, report),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_read_from_what_tc_tells() {
        let told =
            "qdisc tbf 8001: root refcnt 3\n Sent 9 bytes 1 pkt (dropped 17, overlimits 0 requeues 0)\n";
        assert_eq!(parse_dropped(told), Some(17));
        assert_eq!(parse_dropped("qdisc noqueue 0: root"), None);
    }
}
