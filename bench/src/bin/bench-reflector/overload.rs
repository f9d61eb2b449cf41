//! Three times as many viewers as a core can serve: whether all get an equal part of it, are moved forward to key
//! frames alone, and the publisher does not notice.

use crate::case::Case;
use crate::measure::{CARRIED, SATURATED, Spent, Times, join, measure};
use crate::servers::{OUR_PATH, Who, ours};
use crate::source::Source;
use anyhow::{Context, Result};
use glassline_bench::machine::{self, Cores, free_address};
use glassline_bench::process::Others;
use glassline_bench::report::{OURS, Report};
use glassline_lab::load::{Check, Load, Settings, Target};
use std::fs;
use std::time::Duration;

/// A core that is busy for more has nothing left.
const FULL: f64 = 0.95;
/// The rate is raised for so many viewers until they take the whole core.
const VIEWERS: usize = 1000;
/// Megabits a second that are tried.
const STEPS: [u64; 8] = [5, 10, 20, 40, 60, 80, 120, 160];
const TIMES: usize = 3;
/// So many viewers' packets are checked.
const CHECKED: usize = 200;
const STEP: Times =
    Times { warm_up: Duration::from_secs(1), window: Duration::from_secs(2), joins: Duration::ZERO };
/// Without it a few thousand full sockets would fill the memory. Lowest, usual and highest size of a buffer.
const BUFFERS: &str = "4096 131072 1048576";

/// The rate in megabits a second at which [`VIEWERS`] take the whole core.
fn find_full(cores: Option<Cores>, report: &mut Report) -> Result<Option<u64>> {
    for megabits in STEPS {
        let case = Case::new(VIEWERS, megabits);
        let outcome = measure(Who::Unpaced, case, STEP, cores)?;
        let (server, load) = (outcome.server_share(), outcome.load_share());
        if server >= FULL {
            let rate = outcome.throughput() / 1e9;
            report.note(format!("overload: {case} take the whole core, {rate:.1} Gbit/s"));
            return Ok(Some(megabits));
        }
        if load >= FULL || outcome.delivered() < CARRIED {
            report.note(format!(
                "overload: {case} are not served ({:.0} % delivered), though the server takes only {:.0} % of its core, \
                 the load generator {:.0} % of its own: this machine cannot ask for more, or others had its cores",
                outcome.delivered() * 100.0,
                server * 100.0,
                load * 100.0
            ));
            return Ok(Some(megabits));
        }
    }
    Ok(None)
}

/// Finds what is too much, and gives the server that; returns the packets that were wrong.
pub(crate) fn run(times: Times, cores: Option<Cores>, report: &mut Report) -> Result<u64> {
    let Some(megabits) = find_full(cores, report)? else {
        report.note(format!(
            "SKIPPED overload: nothing up to {} Mbit/s takes a whole core",
            STEPS[STEPS.len() - 1]
        ));
        return Ok(0);
    };
    if machine::has_own_network() {
        for name in ["tcp_rmem", "tcp_wmem"] {
            // Where it is refused the buffers are what they are.
            if fs::write(format!("/proc/sys/net/ipv4/{name}"), BUFFERS).is_err() {
                report.note(format!("overload: {name} could not be bounded"));
            }
        }
    }
    let case = Case::new(VIEWERS * TIMES, megabits);
    let address = free_address()?;
    let settings = "pacing = 'off'\nbacklog = '2s'\nbacklog_max = '256MiB'";
    let mut server = ours(&[address], settings, cores.map(|cores| cores.server))?;
    drop(server.connect(address)?);
    let mut source = Source::publish(address, case, cores.map(|cores| cores.load))?;
    let target = Target::at(address, OUR_PATH);
    let mut load = Load::new(Settings { check: Check::Sample(CHECKED), ..case.settings(target) })?;
    // The stream is there, with a key frame.
    load.run(Duration::from_millis(1500))?;
    source.check_alive()?;
    join(&mut load, case.viewers)
        .with_context(|| format!("overload; its log ends with:\n{}", server.log_end()))?;
    // Everybody falls behind the backlog.
    load.run(times.warm_up + Duration::from_secs(4))?;
    let (others, before) = (Others::begin()?, Spent::so_far(&server, cores)?);
    load.begin_window();
    load.run(times.window * 2)?;
    let (tally, others) = (load.tally(), others.share()?);
    let spent = Spent::so_far(&server, cores)?.since(before);
    server.check_alive()?;
    let waits = source.end()?;
    let dropped = tally.failed();
    drop(load);

    let at = format!("overload: {case}");
    let rate = &tally.window.rate;
    let fairness = rate.min() as f64 / rate.quantile(0.5).max(1) as f64;
    let wrong = tally.verdict.errors() + tally.verdict.misplaced;
    let seconds = tally.window.seconds;
    report.disturbance(&at, OURS, others);
    let mut add = |metric, unit, value| report.add(&at, OURS, metric, unit, value);
    add("throughput", "Gbit/s", tally.window.bytes as f64 * 8.0 / seconds / 1e9);
    add("server CPU share", "%", spent.server_share(seconds) * 100.0);
    add("slowest viewer's rate", "Mbit/s", rate.min() as f64 / 1e6);
    add("median viewer's rate", "Mbit/s", rate.quantile(0.5) as f64 / 1e6);
    add("moves forward, of checked viewers", "", tally.verdict.announced as f64);
    add("source's frame waited, median", "ms", waits.median);
    add("source's frame waited, longest", "ms", waits.longest);
    add("viewers dropped", "", dropped as f64);
    add("wrong, missing, repeated packets", "", tally.verdict.errors() as f64);
    add("moves to elsewhere than a key frame", "", tally.verdict.misplaced as f64);
    let load_share = spent.load_share(seconds);
    report.add_context(&at, OURS, "load generator's CPU share", "%", load_share * 100.0);
    if load_share > SATURATED {
        report.note(format!(
            "{at}: the load generator is at {:.0} % of its core; who gets how much is partly its own doing",
            load_share * 100.0
        ));
    }
    if tally.verdict.announced == 0 {
        report.note(format!("{at}: nobody was moved forward, so nobody was too many"));
    }
    report.term(format!("{at}: slowest viewer by median"), fairness, 0.9, false);
    report.term(format!("{at}: longest wait of the source, ms (a frame's time)"), waits.longest, 20.0, true);
    report.term(format!("{at}: wrong packets and moves to elsewhere"), wrong as f64, 0.0, true);
    report.term(format!("{at}: viewers dropped"), dropped as f64, 0.0, true);
    Ok(wrong)
}
