//! Growing objects behind a cache: when their bytes come, what that costs, and how often they are fetched.

use crate::case::Case;
use crate::origin::Running;
use crate::servers::{Place, Started, Who};
use anyhow::Result;
use glassline_bench::machine::Cores;
use glassline_bench::process::{Others, Server};
use glassline_bench::report::Report;
use glassline_io::clock::Clock;
use glassline_io::process::thread_cpu_time;
use glassline_lab::load::exchange::{Ends, Exchange};
use glassline_lab::load::objects::{Figures, Followers, Served};
use glassline_lab::load::{Spread, Target};
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A client that is not answered after this time has failed.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Clients that come each second.
const RAMP: f64 = 2500.0;

/// What was seen.
pub(crate) struct Outcome {
    pub(crate) figures: Figures,
    /// Requests that the origin got, for each object.
    fetches: f64,
    cpu: Duration,
    load_cpu: Duration,
    seconds: f64,
    resident_bytes: u64,
    connection_bytes: f64,
    pub(crate) others: f64,
}

/// Where clients connect to. The system chooses the ports: one that is bound to an address would not be had again until
/// the connections of the run before are forgotten.
pub(crate) fn ends(address: SocketAddr) -> Ends {
    Ends { target: Target::at(address, "/"), trust: None, sources: Vec::new(), timeout: ANSWER_TIMEOUT }
}

/// Starts the cache and measures it for `window`, once all clients are connected.
pub(crate) fn measure(who: Who, case: &Case, window: Duration, cores: Option<Cores>) -> Result<Outcome> {
    let origin = Running::start(case)?;
    let core = cores.map(|cores| cores.server);
    let place = Place { core, origin: origin.address, timeline: origin.timeline, clients: case.clients };
    let Started { mut server, address } = who.start(place)?;
    server.connect(address)?;
    let outcome = watch(&origin, &server, address, case, window);
    let outcome =
        outcome.map_err(|error| error.context(format!("its log ends with:\n{}", server.log_end())))?;
    server.check_alive()?;
    Ok(outcome)
}

/// Requests, and growing objects that were asked for.
fn asked(served: &Served) -> [u64; 2] {
    [&served.fetches, &served.objects].map(|count| count.load(Ordering::Relaxed))
}

pub(crate) fn watch(
    origin: &Running,
    server: &Server,
    address: SocketAddr,
    case: &Case,
    window: Duration,
) -> Result<Outcome> {
    let period = case.shape.period();
    let before = server.tree_resident_bytes()?;
    let now = Clock::new().now();
    let followers = Followers::new(case.clients, RAMP, origin.timeline, origin.bytes.clone(), now);
    let mut load = Exchange::new(followers, ends(address), case.clients)?;
    // Until all have come, through a whole object, and to the begin of the next one.
    load.run(Duration::from_secs_f64(case.clients as f64 / RAMP) + period)?;
    let now = Clock::new().now();
    load.run(origin.timeline.begin_of(origin.timeline.object_at(now) + 1).since(now))?;
    load.crowd_mut().reset();
    let (cpu, load_cpu, fetched) = (server.tree_cpu_time()?, thread_cpu_time(), asked(&origin.served));
    let (others, began) = (Others::begin()?, Clock::new().now());
    load.run(window)?;
    let seconds = Clock::new().now().since(began).as_secs_f64();
    let [fetches, objects] = asked(&origin.served);
    let resident_bytes = server.tree_resident_bytes()?;
    Ok(Outcome {
        figures: load.crowd().figures().clone(),
        fetches: (fetches - fetched[0]) as f64 / (objects - fetched[1]).max(1) as f64,
        cpu: server.tree_cpu_time()?.saturating_sub(cpu),
        load_cpu: thread_cpu_time().saturating_sub(load_cpu),
        seconds,
        resident_bytes,
        connection_bytes: resident_bytes.saturating_sub(before) as f64 / case.clients as f64,
        others: others.share()?,
    })
}

fn millis(spread: &Spread, quantile: f64) -> f64 {
    spread.quantile(quantile) as f64 / 1e6
}

impl Outcome {
    /// Adds its figures.
    pub(crate) fn add_to(&self, who: Who, case: &Case, report: &mut Report) {
        let (case, who, figures) = (case.name.as_str(), who.name(), &self.figures);
        report.disturbance(case, who, self.others);
        if figures.failures > 0 {
            report
                .note(format!("{case}, {who}: {} requests failed: {:?}", figures.failures, figures.reasons));
        }
        let mut add = |metric, unit, value| report.add(case, who, metric, unit, value);
        add("first byte p50", "ms", millis(&figures.first_byte, 0.5));
        add("first byte p95", "ms", millis(&figures.first_byte, 0.95));
        add("first byte p99", "ms", millis(&figures.first_byte, 0.99));
        add("chunk delay p50", "ms", millis(&figures.chunk_delay, 0.5));
        add("chunk delay p95", "ms", millis(&figures.chunk_delay, 0.95));
        add("chunk delay p99", "ms", millis(&figures.chunk_delay, 0.99));
        add("server CPU", "s/GB", self.cpu.as_secs_f64() / (figures.bytes as f64 / 1e9));
        add("own memory for each connection", "B", self.connection_bytes);
        add("resident memory", "MB", self.resident_bytes as f64 / 1e6);
        let mut context = |metric, unit, value| report.add_context(case, who, metric, unit, value);
        context("fetches of an object", "", self.fetches);
        context(
            "stalls, of all chunks",
            "%",
            figures.stalls as f64 * 100.0 / figures.chunk_delay.count().max(1) as f64,
        );
        context("wrong bytes", "", figures.wrong_bytes as f64);
        context("failed requests", "", figures.failures as f64);
        context("throughput", "Gbit/s", figures.bytes as f64 * 8.0 / self.seconds / 1e9);
        context("server CPU share", "%", self.cpu.as_secs_f64() / self.seconds * 100.0);
        context("clients' CPU share", "%", self.load_cpu.as_secs_f64() / self.seconds * 100.0);
    }
}
