//! What a second edge between origin and edge adds to a chunk's delay.

use crate::case::Case;
use crate::growing::watch;
use crate::origin::Running;
use crate::servers::{Place, Who};
use anyhow::Result;
use glassline_bench::machine::Cores;
use glassline_bench::report::{OURS, Report};
use std::time::Duration;

/// Few enough that it is the way that takes the time, not the crowd.
const CLIENTS: usize = 20;

/// Measures ours behind the origin and ours behind ours, both on the edge's core, and returns how many bytes were wrong.
pub(crate) fn measure(window: Duration, cores: Option<Cores>, report: &mut Report) -> Result<u64> {
    let case = Case::short(CLIENTS);
    let origin = Running::start(&case)?;
    let core = cores.map(|cores| cores.server);
    let direct = Place { core, origin: origin.address, timeline: origin.timeline, clients: CLIENTS };
    let mut mid = Who::Ours.start(direct)?;
    mid.server.connect(mid.address)?;
    let mut edge = Who::Ours.start(Place { origin: mid.address, ..direct })?;
    edge.server.connect(edge.address)?;
    let name = "a chunk's way, 20 clients";
    let mut wrong = 0;
    for (started, who) in [(&mid, OURS.to_owned()), (&edge, format!("{OURS} behind another"))] {
        let outcome = watch(&origin, &started.server, started.address, &case, window)?;
        let delay = &outcome.figures.chunk_delay;
        report.disturbance(name, &who, outcome.others);
        for (metric, quantile) in [("chunk delay p50", 0.5), ("chunk delay p99", 0.99)] {
            report.add(name, &who, metric, "ms", delay.quantile(quantile) as f64 / 1e6);
        }
        wrong += outcome.figures.wrong_bytes + outcome.figures.failures;
    }
    Ok(wrong)
}
