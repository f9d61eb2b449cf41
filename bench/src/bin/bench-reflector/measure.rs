//! One measurement: a server, its source, all viewers of a case, and what was seen.

use crate::case::Case;
use crate::servers::{Started, Who};
use anyhow::{Result, ensure};
use glassline_bench::machine::Cores;
use glassline_bench::metrics::Metrics;
use glassline_bench::process::{self, Others, Server};
use glassline_bench::report::Report;
use glassline_io::process::thread_cpu_time;
use glassline_lab::load::{Check, Load, Settings, Spread, Tally, Target};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long each part of a measurement is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// Once all viewers get the stream, before figures count.
    pub(crate) warm_up: Duration,
    pub(crate) window: Duration,
    /// While some viewers leave, each for another one whose join is timed.
    pub(crate) joins: Duration,
}

/// How long it is looked whether a load is carried. Who joins at a key frame gets up to a second of the stream at once,
/// which a core that is nearly full takes seconds to work off: the question is what it carries then.
pub(crate) const TRIAL: Times =
    Times { warm_up: Duration::from_secs(4), window: Duration::from_secs(3), joins: Duration::ZERO };
/// Above this share of its core the load generator may be what is measured.
pub(crate) const SATURATED: f64 = 0.9;
/// Who delivers less of the stream has not carried the load.
pub(crate) const CARRIED: f64 = 0.97;
/// A load at which a server's delay is longer is not carried: its queue grows.
const CARRIED_DELAY: Duration = Duration::from_millis(500);
/// Joins that are timed: a second, at most so many, and no more than this share of all viewers.
const JOINS: f64 = 100.0;
const JOIN_SHARE: f64 = 0.1;
/// A server that does not listen after this time has failed.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// Processor time, and time that others took from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    server: Duration,
    server_waited: Duration,
    load: Duration,
    load_waited: Duration,
}

impl Spent {
    pub(crate) fn so_far(server: &Server, cores: Option<Cores>) -> Result<Spent> {
        let server_time = match cores {
            // Nobody else runs there, and what the kernel does for the server in threads and interrupts is its cost.
            Some(cores) => process::busy_time_of(cores.server)?,
            None => server.cpu_time()?,
        };
        Ok(Spent {
            server: server_time,
            server_waited: server.kept_waiting()?,
            load: thread_cpu_time(),
            load_waited: process::own_kept_waiting()?,
        })
    }

    pub(crate) fn since(self, before: Spent) -> Spent {
        Spent {
            server: self.server.saturating_sub(before.server),
            server_waited: self.server_waited.saturating_sub(before.server_waited),
            load: self.load.saturating_sub(before.load),
            load_waited: self.load_waited.saturating_sub(before.load_waited),
        }
    }
}

impl Spent {
    /// Of its core, what the server took in a window of so many seconds.
    pub(crate) fn server_share(&self, seconds: f64) -> f64 {
        self.server.as_secs_f64() / seconds
    }

    /// The same of the load generator.
    pub(crate) fn load_share(&self, seconds: f64) -> f64 {
        self.load.as_secs_f64() / seconds
    }
}

/// What was seen.
pub(crate) struct Outcome {
    who: Who,
    case: Case,
    /// Of the window.
    pub(crate) tally: Tally,
    spent: Spent,
    /// The share of a core that other programs had meanwhile.
    others: f64,
    resident_bytes: u64,
    /// Of the server's own memory, that viewers' coming has added; each one's part.
    viewer_bytes: f64,
    /// Of all the time, with the joins that were timed.
    after: Tally,
}

/// Lets all viewers join and waits until each gets the stream.
pub(crate) fn join(load: &mut Load, viewers: usize) -> Result<()> {
    load.join();
    while !load.has_joined() || load.progress().waiting > 0 {
        load.run(Duration::from_millis(50))?;
    }
    all_are_served(&load.tally())?;
    ensure!(load.progress().viewers.receiving == viewers as u64, "some viewers get nothing");
    Ok(())
}

pub(crate) fn all_are_served(tally: &Tally) -> Result<()> {
    ensure!(tally.failed() == 0, "{} viewers were refused or dropped: {:?}", tally.failed(), tally.reasons);
    Ok(())
}

/// Starts the server and measures it.
pub(crate) fn measure(who: Who, case: Case, times: Times, cores: Option<Cores>) -> Result<Outcome> {
    let Started { mut server, address, path, feed, mut beside } = who.start(case, cores)?;
    let settings = case.settings(Target::at(address, path));
    let settings = match who.is_static() {
        true => Settings { repeat: true, check: Check::None, ..settings },
        false => settings,
    };
    let mut load = Load::new(settings)?;
    if let Some(feed) = feed {
        load.feed(feed, case.shape())?;
    }
    let outcome = listens(&mut load, &mut server, address)
        .and_then(|()| watch(&mut load, &server, who, case, times, cores));
    let outcome = outcome.map_err(|error| {
        error.context(format!("{} with {case}; its log ends with:\n{}", who.name(), server.log_end()))
    })?;
    server.check_alive()?;
    beside.iter_mut().try_for_each(Server::check_alive)?;
    if who == Who::Clustered {
        let metrics = Metrics::scrape(address)?;
        ensure!(metrics.value("cluster_up")? > 0.0, "the registry is not heard");
        ensure!(metrics.value("record_spooled_bytes_total")? > 0.0, "nothing is recorded");
    }
    Ok(outcome)
}

/// Feeds the server until it listens.
fn listens(load: &mut Load, server: &mut Server, address: SocketAddr) -> Result<()> {
    let began = Instant::now();
    while let Err(error) = TcpStream::connect(address) {
        server.check_alive()?;
        ensure!(began.elapsed() < START_TIMEOUT, "it takes no connection: {error}");
        load.run(Duration::from_millis(20))?;
    }
    Ok(())
}

fn watch(
    load: &mut Load,
    server: &Server,
    who: Who,
    case: Case,
    times: Times,
    cores: Option<Cores>,
) -> Result<Outcome> {
    load.run(Duration::from_millis(500))?;
    let alone = server.anonymous_bytes()?;
    join(load, case.viewers)?;
    load.run(times.warm_up)?;
    let grown = server.anonymous_bytes()? as f64 - alone as f64;
    let (others, before) = (Others::begin()?, Spent::so_far(server, cores)?);
    load.begin_window();
    load.run(times.window)?;
    let (tally, others) = (load.tally(), others.share()?);
    let spent = Spent::so_far(server, cores)?.since(before);
    let resident_bytes = server.resident_bytes()?;
    all_are_served(&tally)?;
    if !times.joins.is_zero() && !who.is_static() {
        load.begin_churn(JOINS.min(case.viewers as f64 * JOIN_SHARE));
        load.run(times.joins)?;
    }
    let after = load.tally();
    all_are_served(&after)?;
    let viewer_bytes = grown / case.viewers as f64;
    Ok(Outcome { who, case, tally, spent, others, resident_bytes, viewer_bytes, after })
}

fn millis(spread: &Spread, quantile: f64) -> f64 {
    spread.quantile(quantile) as f64 / 1e6
}

impl Outcome {
    /// Of what the viewers should have got, the share that they got.
    pub(crate) fn delivered(&self) -> f64 {
        let window = &self.tally.window;
        let expected = self.case.viewers as f64 * self.case.shape().bitrate() as f64 / 8.0 * window.seconds;
        window.bytes as f64 / expected
    }

    /// Of its core, what the server took.
    pub(crate) fn server_share(&self) -> f64 {
        self.spent.server_share(self.tally.window.seconds)
    }

    /// Of its core, what the load generator took.
    pub(crate) fn load_share(&self) -> f64 {
        self.spent.load_share(self.tally.window.seconds)
    }

    /// Bits a second of all viewers.
    pub(crate) fn throughput(&self) -> f64 {
        self.tally.window.bytes as f64 * 8.0 / self.tally.window.seconds
    }

    /// Viewers whose newest frame was late, of those that were checked.
    pub(crate) fn behind(&self) -> u64 {
        self.tally.window.viewers_behind
    }

    /// Whether everybody got everything, and in time.
    pub(crate) fn is_carried(&self) -> bool {
        let delay = Duration::from_nanos(self.tally.window.first_packet.quantile(0.99));
        self.delivered() >= CARRIED && self.errors() == 0 && self.behind() == 0 && delay <= CARRIED_DELAY
    }

    /// Packets that are wrong, missing or repeated, and of ours moves that lead to no key frame.
    pub(crate) fn errors(&self) -> u64 {
        let misplaced = if self.who.is_ours() { self.after.verdict.misplaced } else { 0 };
        self.after.verdict.errors() + misplaced
    }

    /// Says what spoils its figures.
    fn add_notes(&self, report: &mut Report) {
        let who = format!("{}, {}", self.case, self.who.name());
        let seconds = self.tally.window.seconds;
        if self.load_share() > SATURATED && !self.who.is_static() {
            let share = self.load_share() * 100.0;
            report.note(format!(
                "{who}: the load generator is at {share:.0} % of its core, so delays are partly its own"
            ));
        }
        // Where server and load had to wait for their cores, others had them, even if it is not known who.
        let waited = self.spent.server_waited.max(self.spent.load_waited).as_secs_f64() / seconds;
        report.disturbance(&self.case.to_string(), self.who.name(), self.others.max(waited));
        if !self.who.is_static() && self.delivered() < CARRIED {
            let share = self.delivered() * 100.0;
            report.note(format!("{who}: does not carry the load, {share:.0} % of the stream is delivered"));
        }
        if self.errors() > 0 {
            report.note(format!("{who}: {:?}", self.after.verdict));
        }
    }

    /// Adds its figures.
    pub(crate) fn add_to(&self, report: &mut Report) {
        self.add_notes(report);
        let (case, who) = (self.case.to_string(), self.who.name());
        let window = &self.tally.window;
        let cpu = self.spent.server.as_secs_f64();
        let mut add = |metric, unit, value| report.add(&case, who, metric, unit, value);
        add("throughput", "Gbit/s", self.throughput() / 1e9);
        add("server CPU", "s/GB", cpu / (window.bytes as f64 / 1e9));
        add("server CPU share", "%", self.server_share() * 100.0);
        if window.first_packet.count() > 0 {
            add("delay of first packet p50", "ms", millis(&window.first_packet, 0.5));
            add("delay of first packet p99", "ms", millis(&window.first_packet, 0.99));
            add("delay of last packet p50", "ms", millis(&window.last_packet, 0.5));
            add("delay of last packet p99", "ms", millis(&window.last_packet, 0.99));
            add("longest gap", "ms", window.longest_gap.as_secs_f64() * 1e3);
            add("checked viewers behind", "", window.viewers_behind as f64);
        }
        if !self.who.is_static() && self.after.first_picture.count() > 0 {
            add("request to first byte p50", "ms", millis(&self.after.first_byte, 0.5));
            add("request to first byte p99", "ms", millis(&self.after.first_byte, 0.99));
            add("request to whole picture p50", "ms", millis(&self.after.first_picture, 0.5));
            add("request to whole picture p99", "ms", millis(&self.after.first_picture, 0.99));
        }
        add("own memory for each viewer", "B", self.viewer_bytes);
        add("resident memory", "MB", self.resident_bytes as f64 / 1e6);
        let seconds = window.seconds;
        let mut context = |metric, unit, value| report.add_context(&case, who, metric, unit, value);
        if !self.who.is_static() {
            context("delivered", "%", self.delivered() * 100.0);
            context("wrong, missing, repeated packets", "", self.after.verdict.errors() as f64);
            context("skipped with notice", "", self.after.verdict.skipped as f64);
            context("viewers checked", "", self.after.checked as f64);
        }
        context("load generator's CPU share", "%", self.load_share() * 100.0);
        context("server kept waiting", "%", self.spent.server_waited.as_secs_f64() / seconds * 100.0);
        context("load generator kept waiting", "%", self.spent.load_waited.as_secs_f64() / seconds * 100.0);
    }
}
