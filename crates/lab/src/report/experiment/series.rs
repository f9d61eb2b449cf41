//! A run over time: what the way could carry and what was sent, delay, quality.

use crate::experiment::paper::Panels;
use crate::experiment::{Pictures, Record};
use crate::report::panel::{Curve, GAP, LEFT, PANEL, Panel, WIDTH};
use glassline_inspect::report::svg::{Anchor, Svg};
use std::ops::Range;

const TOP: f64 = 60.0;
/// Points of a line at most, about.
const POINTS: f64 = 300.0;
/// No point is of less time: rates over less are single packets'.
const LEAST_S: f64 = 0.1;

/// Draws a part of a run, for a page; a run that ends before it is shown from its beginning. `name` is the picture's.
pub(super) fn draw(name: &str, title: &str, record: &Record, panels: Panels) -> String {
    let height = TOP + 3.0 * (PANEL + GAP);
    let pictures = &record.pictures;
    let seconds = pictures.interval_ms.max(1e-3) / 1e3;
    let all = pictures.sent_bytes.len();
    let from = match (panels.from_s / seconds).round() as usize {
        from if from < all => from,
        _ => 0,
    };
    let to = all.min(from + (panels.length_s / seconds).round() as usize).max(from);
    let each = (((to - from) as f64 / POINTS).max(LEAST_S / seconds - 1e-6).ceil() as usize).max(1);
    let bins: Vec<Range<usize>> = (from..to).step_by(each).map(|at| at..to.min(at + each)).collect();
    let start = from as f64 * seconds;
    let shown = format!("{title}, from {start:.0} s to {:.0} s", to as f64 * seconds);
    let mut svg = Svg::new(WIDTH, height, &shown, "Rates, delay and quality over time");
    svg.text((LEFT, 22.0), Anchor::Start, "heading", &shown);
    let panel = Panel {
        start,
        seconds: ((to - from) as f64 * seconds).max(seconds),
        width: each as f64 * seconds,
        unit: "Mbit/s",
    };
    let curve = |class, of: &dyn Fn(&Pictures, Range<usize>) -> Option<f64>| Curve {
        class,
        values: bins.iter().map(|bin| of(pictures, bin.clone())).collect(),
    };
    let rates = [
        curve("bar", &|pictures, bin| rate(&pictures.capacity_bytes, bin, seconds)),
        curve("line", &|pictures, bin| rate(&pictures.sent_bytes, bin, seconds)),
    ];
    let y = panel.draw(&mut svg, "Rate: what the network allows (area), what was sent", &rates, TOP);
    let delays = [curve("calm", &|pictures, bin| {
        let delays = pictures.delay_ms.get(bin.start..bin.end.min(pictures.delay_ms.len()))?;
        delays.iter().copied().map(f64::from).reduce(f64::max)
    })];
    let y = Panel { unit: "ms", ..panel }.draw(&mut svg, "Delay of pictures, the longest", &delays, y);
    let quality = [curve("line", &|pictures, bin| {
        let shown: Vec<f64> =
            pictures.ssim_daala_db.get(bin)?.iter().flatten().map(|value| f64::from(*value)).collect();
        (!shown.is_empty()).then(|| shown.iter().sum::<f64>() / shown.len() as f64)
    })];
    let name_of = "Quality of what was shown: SSIM of luma as Daala's tools compute it";
    Panel { unit: "dB", ..panel }.draw(&mut svg, name_of, &quality, y);
    svg.finish_within(name)
}

/// Mbit/s over some pictures' time.
fn rate(bytes: &[u32], bin: Range<usize>, seconds: f64) -> Option<f64> {
    let bytes = bytes.get(bin)?;
    let sum: f64 = bytes.iter().map(|bytes| f64::from(*bytes)).sum();
    Some(sum * 8.0 / 1e6 / (bytes.len().max(1) as f64 * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::record_for_tests as record;

    #[test]
    fn a_part_of_a_run_is_drawn() {
        let panels = Panels { from_s: 10.0, length_s: 20.0 };
        let svg = draw("att", "A <title>", &record("att-2c", 60, 1_800), panels);
        for words in ["A &lt;title&gt;, from 10 s to 30 s", "Mbit/s", "10.0 s", "30.0 s", "dB", "ms"] {
            assert!(svg.contains(words), "{words}: {svg}");
        }
        assert!(svg.matches("<polyline").count() >= 3 && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn a_run_that_ends_before_is_shown_from_its_beginning() {
        let panels = Panels { from_s: 210.0, length_s: 60.0 };
        let svg = draw("att", "A title", &record("att-2c", 60, 60), panels);
        assert!(svg.contains("from 0 s to 2 s"), "{svg}");
        let mut nothing = record("att-2c", 60, 0);
        nothing.pictures.interval_ms = 0.0;
        let svg = draw("att", "A title", &nothing, panels);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn rates_are_those_of_their_time() {
        // Two pictures of 25 a second: 80 ms.
        assert_eq!(rate(&[10_000, 30_000, 1], 0..2, 0.04), Some(4.0));
        assert_eq!(rate(&[], 0..2, 0.04), None);
    }
}
