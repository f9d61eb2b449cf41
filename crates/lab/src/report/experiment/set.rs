//! Delay against quality over a set of networks: each run, and the median of each sender.

use super::scatter::{Mark, Words, drawing};
use crate::experiment::{SetRun, summarize};

const WORDS: Words =
    Words { quality: "Quality: SSIM of luma, dB", marks: "Diamonds: medians. Circles: single networks" };

/// Draws runs, as a file. Those of which nothing was shown have no place in it.
pub fn draw(title: &str, runs: &[SetRun]) -> String {
    let summaries = summarize(runs);
    let is_one = summaries.len() == 1;
    let medians = summaries.iter().filter_map(|summary| {
        let ssim_db = summary.median.ssim_y_db?;
        let name = format!("{}: median of {}", summary.sender, summary.networks);
        Some(Mark { name, delay_p95_ms: summary.median.delay_p95_ms, ssim_db, is_ours: true })
    });
    let single = runs.iter().filter_map(|run| {
        let ssim_db = run.figures.ssim_y_db?;
        let name = if is_one { run.network.clone() } else { format!("{} ({})", run.network, run.sender) };
        Some(Mark { name, delay_p95_ms: run.figures.delay_p95_ms, ssim_db, is_ours: false })
    });
    let marks: Vec<Mark> = medians.chain(single).collect();
    drawing(title, &marks, &WORDS).finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::set_run_for_tests as run;

    #[test]
    fn each_run_has_a_circle_and_each_sender_a_diamond() {
        let runs = [
            run("bus", "adaptive", 150.0, Some(20.0)),
            run("home", "adaptive", 90.0, Some(24.0)),
            run("home", "salsify", 200.0, Some(25.0)),
            run("taxi", "salsify", 4_000.0, None),
        ];
        let svg = draw("New York <2019>", &runs);
        assert_eq!((svg.matches("class=\"ours\"").count(), svg.matches("class=\"theirs\"").count()), (2, 3));
        assert!(svg.contains("adaptive: median of 2") && svg.contains("home (salsify)"), "{svg}");
        assert!(svg.contains("New York &lt;2019&gt;") && svg.contains("<style>"), "{svg}");
        let svg = draw("one", &runs[..2]);
        assert!(svg.contains(">bus<") && !svg.contains("bus (adaptive)"), "{svg}");
        assert!(!draw("none", &[]).contains("NaN"));
    }
}
