//! The most viewers of a fast stream that one core serves with nobody behind, beside Cubemap's.

use crate::case::Case;
use crate::measure::{SATURATED, TRIAL, measure};
use crate::servers::Who;
use anyhow::Result;
use glassline_bench::machine::Cores;
use glassline_bench::report::Report;

const MEGABITS: u64 = 50;
/// Viewers of the first trial.
const FEWEST: usize = 100;
/// From trial to trial, at first and from the most that was carried then.
const STEPS: [f64; 2] = [1.5, 1.1];
/// More than this no load generator asks for.
const MOST: usize = 2000;
/// What ours has to carry, times Cubemap.
const TERM: f64 = 1.0;
const CAPACITY: &str = "most viewers of 50 Mbit/s with nobody behind";

/// Raises the viewers of each until some are behind; a load is tried twice before that is believed.
pub(crate) fn run(servers: &[Who], cores: Option<Cores>, report: &mut Report) -> Result<u64> {
    let mut wrong = 0;
    for who in [Who::Cubemap, Who::Shipped].into_iter().filter(|who| servers.contains(who)) {
        let (mut viewers, mut carried) = (FEWEST, None);
        for step in STEPS {
            while viewers <= MOST {
                let Some(rate) = carries(who, viewers, cores, report, &mut wrong)? else { break };
                carried = Some((viewers, rate));
                viewers = stepped(viewers, step);
            }
            let Some((most, _)) = carried else { break };
            viewers = stepped(most, STEPS[1]);
        }
        let (viewers, rate) = carried.unwrap_or_default();
        report.add(CAPACITY, who.name(), "viewers", "", viewers as f64);
        report.add(CAPACITY, who.name(), "throughput", "Gbit/s", rate);
    }
    if let Some(ratio) = report.ratio_of(CAPACITY, Who::Shipped.name(), "viewers") {
        report.term(format!("{CAPACITY}, times cubemap's"), ratio, TERM, false);
    }
    Ok(wrong)
}

fn stepped(viewers: usize, step: f64) -> usize {
    (viewers as f64 * step).ceil() as usize
}

/// What so many viewers are sent in all, Gbit/s, if none of them is behind in one of two trials.
fn carries(
    who: Who,
    viewers: usize,
    cores: Option<Cores>,
    report: &mut Report,
    wrong: &mut u64,
) -> Result<Option<f64>> {
    let mut saturated = false;
    for _ in 0..2 {
        let outcome = measure(who, Case::new(viewers, MEGABITS), TRIAL, cores)?;
        *wrong += if who.is_ours() { outcome.errors() } else { 0 };
        if outcome.is_carried() {
            return Ok(Some(outcome.throughput() / 1e9));
        }
        saturated = outcome.load_share() > SATURATED;
    }
    if saturated {
        report.note(format!("{CAPACITY}, {}: at {viewers} the load generator is the limit", who.name()));
    }
    Ok(None)
}
