//! What our figures have to be beside Cubemap's in the same run.

use crate::case::Case;
use crate::servers::Who;
use glassline_bench::report::Report;

const CPU: &str = "server CPU";
const FIRST_P99: &str = "delay of first packet p99";
const PICTURE: &str = "request to whole picture p50";
const MEMORY: &str = "own memory for each viewer";
const BEHIND: &str = "checked viewers behind";
/// What a cluster and a recording may add.
const CLUSTERED_MOST: f64 = 1.03;
/// Of this many viewers each may take no more than a kilobyte.
const MEMORY_VIEWERS: usize = 5000;

/// Adds what is asked for at `case`, as far as there are figures.
pub(crate) fn add(case: Case, report: &mut Report) {
    let at = case.to_string();
    let times = |who: Who, metric, most, report: &mut Report| {
        if let Some(ratio) = report.ratio_of(&at, who.name(), metric) {
            report.term(format!("{at}, {}: {metric}, times cubemap's", who.name()), ratio, most, true);
        }
    };
    times(Who::Shipped, CPU, 1.0, report);
    times(Who::Shipped, FIRST_P99, 0.5, report);
    times(Who::Balanced, CPU, 0.75, report);
    times(Who::Balanced, FIRST_P99, 0.85, report);
    times(Who::Thrifty, CPU, 0.35, report);
    let most = |who: Who, metric, most, report: &mut Report| {
        if let Some(value) = report.value(&at, who.name(), metric) {
            report.term(format!("{at}, {}: {metric}", who.name()), value, most, true);
        }
    };
    most(Who::Thrifty, FIRST_P99, 110.0, report);
    most(Who::Shipped, PICTURE, 30.0, report);
    let of = |who: Who, report: &Report| report.value(&at, who.name(), CPU);
    if let (Some(clustered), Some(alone)) = (of(Who::Clustered, report), of(Who::TwoStreams, report)) {
        let text = format!("{at}, {}: {CPU}, times that without", Who::Clustered.name());
        report.term(text, clustered / alone, CLUSTERED_MOST, true);
    }
    if let Some(theirs) = report.value(&at, Who::Cubemap.name(), BEHIND) {
        most(Who::Shipped, BEHIND, theirs, report);
    }
    if case.viewers >= MEMORY_VIEWERS {
        most(Who::Shipped, MEMORY, 1000.0, report);
    }
}
