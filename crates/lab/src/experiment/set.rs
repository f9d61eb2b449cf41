//! One experiment over each network of a set, with one sender or several: the figures of each run, their medians and the worst of
//! each. One recording says little of a sender: what helps on a drive may harm at home.

use super::outcome::Summary;
use serde::Serialize;

/// What is compared of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SetFigures {
    /// From capture to display, by the paper's rule, ms.
    pub delay_p50_ms: f64,
    /// The same, 95th percentile.
    pub delay_p95_ms: f64,
    /// What that would be with ideal sizes ([`floor_p95`](super::floor_p95)), ms; `None` where the network is no trace.
    pub ideal_p95_ms: Option<f64>,
    /// Quality of what was shown: SSIM of luma, dB; `None` where nothing was shown, or all of it is equal to the source.
    pub ssim_y_db: Option<f64>,
    /// Of what the way carries, 0 to 1; `None` where it has no bound.
    pub used: Option<f64>,
    /// Queue before the bottleneck, ms.
    pub queue_p50_ms: f64,
    /// Of the pictures that were captured, the share that was shown, 0 to 1.
    pub shown: f64,
}

/// A run over one network of a set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetRun {
    /// The network's name.
    pub network: String,
    /// The sender's.
    pub sender: String,
    /// What came of it.
    pub figures: SetFigures,
}

/// What one sender reaches over all networks of a set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetSummary {
    /// The sender's name.
    pub sender: String,
    /// How many networks there were.
    pub networks: usize,
    /// Of each figure the median.
    pub median: SetFigures,
    /// Of each figure the worst one, whichever network that was on.
    pub worst: SetFigures,
    /// The network with the longest delay, 95th percentile.
    pub slowest: String,
}

impl From<&Summary> for SetFigures {
    fn from(summary: &Summary) -> SetFigures {
        SetFigures {
            delay_p50_ms: summary.delay_p50_ms,
            delay_p95_ms: summary.delay_p95_ms,
            ideal_p95_ms: None,
            ssim_y_db: summary.ssim_y_db,
            used: summary.used,
            queue_p50_ms: summary.queue_p50_ms,
            shown: summary.shown as f64 / (summary.pictures as f64).max(1.0),
        }
    }
}

/// Sums up runs, a summary for each sender in the order of their first runs.
pub fn summarize(runs: &[SetRun]) -> Vec<SetSummary> {
    let mut senders: Vec<&str> = Vec::new();
    for run in runs {
        if !senders.contains(&run.sender.as_str()) {
            senders.push(&run.sender);
        }
    }
    senders.into_iter().map(|sender| summary_of(sender, runs)).collect()
}

fn summary_of(sender: &str, runs: &[SetRun]) -> SetSummary {
    let own: Vec<&SetRun> = runs.iter().filter(|run| run.sender == sender).collect();
    let all = |figure: fn(&SetFigures) -> Option<f64>| -> Vec<f64> {
        let mut values: Vec<f64> = own.iter().filter_map(|run| figure(&run.figures)).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let of = |figure: fn(&SetFigures) -> Option<f64>, worst: fn(&[f64]) -> Option<f64>| -> [Option<f64>; 2] {
        let values = all(figure);
        [median(&values), worst(&values)]
    };
    let most = |values: &[f64]| values.last().copied();
    let least = |values: &[f64]| values.first().copied();
    let p50 = of(|figures| Some(figures.delay_p50_ms), most);
    let p95 = of(|figures| Some(figures.delay_p95_ms), most);
    let queue = of(|figures| Some(figures.queue_p50_ms), most);
    let ideal = of(|figures| figures.ideal_p95_ms, most);
    let ssim = of(|figures| figures.ssim_y_db, least);
    let used = of(|figures| figures.used, least);
    let shown = of(|figures| Some(figures.shown), least);
    let figures = |which: usize| SetFigures {
        delay_p50_ms: p50[which].unwrap_or(0.0),
        delay_p95_ms: p95[which].unwrap_or(0.0),
        ideal_p95_ms: ideal[which],
        ssim_y_db: ssim[which],
        used: used[which],
        queue_p50_ms: queue[which].unwrap_or(0.0),
        shown: shown[which].unwrap_or(0.0),
    };
    let slowest = own.iter().max_by(|a, b| a.figures.delay_p95_ms.total_cmp(&b.figures.delay_p95_ms));
    SetSummary {
        sender: sender.to_owned(),
        networks: own.len(),
        median: figures(0),
        worst: figures(1),
        slowest: slowest.map_or_else(String::new, |run| run.network.clone()),
    }
}

/// Of sorted values: the middle one, or the mean of both in the middle.
fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    let lower = if sorted.len().is_multiple_of(2) { sorted[middle - 1] } else { upper };
    Some(f64::midpoint(lower, upper))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn run(network: &str, sender: &str, delay_p95_ms: f64, ssim_y_db: Option<f64>) -> SetRun {
        let figures = SetFigures {
            delay_p50_ms: delay_p95_ms / 2.0,
            delay_p95_ms,
            ideal_p95_ms: Some(delay_p95_ms / 4.0),
            ssim_y_db,
            used: None,
            queue_p50_ms: 5.0,
            shown: 0.9,
        };
        SetRun { network: network.to_owned(), sender: sender.to_owned(), figures }
    }

    #[test]
    fn medians_and_the_worst_are_of_one_sender_each() {
        let runs = [
            run("bus", "ours", 150.0, Some(20.0)),
            run("bus", "theirs", 400.0, Some(22.0)),
            run("home", "ours", 90.0, Some(24.0)),
            run("taxi", "ours", 300.0, None),
            run("walk", "ours", 170.0, Some(18.0)),
        ];
        let [ours, theirs] = &summarize(&runs)[..] else { panic!("two senders") };
        assert_eq!((ours.sender.as_str(), ours.networks, ours.slowest.as_str()), ("ours", 4, "taxi"));
        assert_eq!((ours.median.delay_p95_ms, ours.worst.delay_p95_ms), (160.0, 300.0));
        // Where nothing was shown there is no quality, and the delay tells of it.
        assert_eq!((ours.median.ssim_y_db, ours.worst.ssim_y_db), (Some(20.0), Some(18.0)));
        assert_eq!((ours.median.ideal_p95_ms, ours.worst.ideal_p95_ms), (Some(40.0), Some(75.0)));
        assert_eq!((ours.median.used, ours.worst.shown), (None, 0.9));
        assert_eq!((theirs.median, theirs.worst), (runs[1].figures, runs[1].figures));
        assert_eq!(summarize(&[]), []);
    }
}
