//! What our figures have to be beside Cubemap's in the same run.

use crate::case::Case;
use crate::servers::Who;
use glassline_bench::report::Report;

/// What a figure is held against.
#[derive(Clone, Copy)]
enum Limit {
    /// At most so many times Cubemap's.
    Times(f64),
    /// At most this.
    Most(f64),
}

type Term = (Who, &'static str, Limit);

const CPU: &str = "server CPU";
const FIRST_P50: &str = "delay of first packet p50";
const FIRST_P99: &str = "delay of first packet p99";
const PICTURE: &str = "request to whole picture p50";
const MEMORY: &str = "own memory for each viewer";

/// At 1,000 viewers of 5 Mbit/s.
const USUAL: [Term; 8] = [
    (Who::Frame, FIRST_P50, Limit::Times(0.3)),
    (Who::Frame, FIRST_P99, Limit::Times(0.4)),
    (Who::Frame, CPU, Limit::Times(1.3)),
    (Who::Thrifty, CPU, Limit::Times(0.35)),
    (Who::Thrifty, FIRST_P99, Limit::Most(110.0)),
    (Who::Frame, PICTURE, Limit::Most(30.0)),
    (Who::Balanced, CPU, Limit::Times(0.75)),
    (Who::Balanced, FIRST_P99, Limit::Times(0.85)),
];
const FEW: [Term; 4] = [
    (Who::Frame, FIRST_P50, Limit::Most(1.0)),
    (Who::Frame, FIRST_P99, Limit::Most(3.0)),
    (Who::Frame, CPU, Limit::Times(1.0)),
    (Who::Frame, PICTURE, Limit::Most(30.0)),
];
const MANY: [Term; 2] =
    [(Who::Balanced, CPU, Limit::Times(0.75)), (Who::Balanced, FIRST_P99, Limit::Times(0.85))];
/// Of this many viewers each may take no more than a kilobyte.
const MEMORY_VIEWERS: usize = 5000;
/// What pacing may cost in processor time: what it costs Cubemap at least.
const PACING: f64 = 1.25;

/// Adds what is asked for at `case`, as far as there are figures; `wanted` is the case before it was halved.
pub(crate) fn add(case: Case, wanted: Case, report: &mut Report) {
    let terms: &[Term] = match (wanted.viewers, wanted.bitrate) {
        (1000, 5_000_000) => &USUAL,
        (100, 5_000_000) => &FEW,
        (1000.., _) => &MANY,
        _ => &[],
    };
    let at = case.to_string();
    for &(who, metric, limit) in terms {
        let (value, most, times) = match limit {
            Limit::Times(most) => (report.ratio_of(&at, who.name(), metric), most, ", times cubemap's"),
            Limit::Most(most) => (report.value(&at, who.name(), metric), most, ""),
        };
        if let Some(value) = value {
            report.term(format!("{at}, {}: {metric}{times}", who.name()), value, most, true);
        }
    }
    if let Some(value) = report.value(&at, Who::Frame.name(), MEMORY)
        && case.viewers >= MEMORY_VIEWERS
    {
        report.term(format!("{at}: {MEMORY}, B"), value, 1000.0, true);
    }
    let cpu = |who: Who| report.value(&at, who.name(), CPU);
    if let (Some(paced), Some(unpaced)) = (cpu(Who::Paced), cpu(Who::Frame)) {
        let text = format!("{at}: server CPU when paced, times when not");
        report.term(text, paced / unpaced, PACING, true);
    }
}
