//! Objects that lie in the cache: what a byte, and what a request, costs.

use crate::case::Case;
use crate::growing::ends;
use crate::origin::Running;
use crate::servers::{Place, Started, Who};
use anyhow::{Result, ensure};
use glassline_bench::machine::Cores;
use glassline_bench::process::Others;
use glassline_bench::report::Report;
use glassline_lab::load::exchange::Exchange;
use glassline_lab::load::objects::Repeat;
use std::time::Duration;

/// Clients of the same object at once.
const CLIENTS: usize = 50;
const WARM_UP: Duration = Duration::from_millis(500);

/// Measures how fast `who` gives out an object of `bytes`, and returns how many of them were wrong.
pub(crate) fn measure(
    who: Who,
    bytes: usize,
    window: Duration,
    cores: Option<Cores>,
    report: &mut Report,
) -> Result<u64> {
    let origin = Running::start(&Case::quick())?;
    let core = cores.map(|cores| cores.server);
    let place = Place { core, origin: origin.address, timeline: origin.timeline, clients: CLIENTS };
    let Started { mut server, address } = who.start(place)?;
    server.connect(address)?;
    let crowd = Repeat::new(CLIENTS, origin.bytes.clone(), bytes);
    let mut load = Exchange::new(crowd, ends(address), CLIENTS)?;
    load.run(WARM_UP)?;
    load.crowd_mut().reset();
    let (before, others) = (server.tree_cpu_time()?, Others::begin()?);
    load.run(window)?;
    let cpu = server.tree_cpu_time()?.saturating_sub(before).as_secs_f64();
    let figures = load.crowd().figures();
    ensure!(
        figures.objects > 0,
        "nothing came: {:?}; its log ends with:\n{}",
        figures.reasons,
        server.log_end()
    );
    let (case, who) = (format!("cached objects of {bytes} B"), who.name());
    report.disturbance(&case, who, others.share()?);
    report.add(&case, who, "bits for a CPU second", "Gbit", figures.bytes as f64 * 8.0 / 1e9 / cpu);
    report.add(&case, who, "requests for a CPU second", "", figures.objects as f64 / cpu);
    let seconds = window.as_secs_f64();
    report.add_context(&case, who, "requests", "/s", figures.objects as f64 / seconds);
    report.add_context(&case, who, "server CPU share", "%", cpu / seconds * 100.0);
    report.add_context(&case, who, "wrong bytes", "", figures.wrong_bytes as f64);
    Ok(figures.wrong_bytes + figures.failures)
}
