//! How many pictures came how soon.

use crate::experiment::Record;
use glassline_inspect::report::svg::{Anchor, Scale, Svg};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = WIDTH - 40.0;
const TOP: f64 = 40.0;
const PANEL: f64 = 240.0;
const LINE: f64 = 20.0;
/// The axis of delays, which is logarithmic, ms.
const TICKS: [f64; 12] = [5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 10e3, 20e3];
/// What tells lines apart, in this order.
const CLASSES: [&str; 6] = ["line", "calm", "cool", "line dotted", "calm dotted", "cool dotted"];
/// Points of a line.
const POINTS: usize = 240;

/// Draws the shares of pictures with a delay no longer than what stands below, a line for each run with its name.
/// `name` is the picture's.
pub(super) fn draw(name: &str, title: &str, runs: &[(String, &Record)]) -> String {
    let bottom = TOP + PANEL;
    let height = bottom + 60.0 + LINE * runs.len() as f64;
    let mut svg = Svg::new(WIDTH, height, title, "Shares of pictures by their delay");
    let sorted: Vec<(&str, Vec<f32>)> = runs
        .iter()
        .map(|(who, record)| {
            let mut delays = record.pictures.delay_ms.clone();
            delays.sort_by(f32::total_cmp);
            (who.as_str(), delays)
        })
        .collect();
    let least = sorted.iter().filter_map(|(_, delays)| delays.first()).fold(f32::INFINITY, |a, b| a.min(*b));
    // What one in a thousand exceeds is left out.
    let most = sorted.iter().map(|(_, delays)| at(delays, 0.999)).fold(0.0, f64::max);
    let from = TICKS.iter().rev().find(|tick| **tick < f64::from(least)).copied().unwrap_or(TICKS[0]);
    let to = TICKS.iter().find(|tick| **tick > most.max(from)).copied().unwrap_or(TICKS[TICKS.len() - 1]);
    let from = if from < to { from } else { TICKS[0] };
    let across = Scale::linear(from.ln(), to.ln(), LEFT, RIGHT);
    let up = Scale::linear(0.0, 1.0, bottom, TOP);
    for part in 0..=4 {
        let share = f64::from(part) / 4.0;
        let y = up.px(share);
        svg.line((LEFT, y), (RIGHT, y), if part == 0 { "axis" } else { "grid" });
        svg.text((LEFT - 10.0, y + 4.0), Anchor::End, "tick", &format!("{:.0} %", share * 100.0));
    }
    for tick in TICKS.into_iter().filter(|tick| (from..=to).contains(tick)) {
        let x = across.px(tick.ln());
        svg.line((x, TOP), (x, bottom), "grid");
        svg.text((x, bottom + 18.0), Anchor::Middle, "tick", &format!("{tick:.0} ms"));
    }
    svg.text((LEFT, TOP - 14.0), Anchor::Start, "soft", "Pictures that came within so long");
    for (index, (who, delays)) in sorted.iter().enumerate() {
        let class = CLASSES[index % CLASSES.len()];
        let points: Vec<(f64, f64)> = (0..=POINTS)
            .filter(|_| !delays.is_empty())
            .map(|part| part as f64 / POINTS as f64)
            .map(|share| (across.px(at(delays, share).max(1e-3).ln()), up.px(share)))
            .collect();
        svg.path(&points, class);
        let y = bottom + 50.0 + LINE * index as f64;
        svg.path(&[(LEFT, y - 4.0), (LEFT + 36.0, y - 4.0)], class);
        svg.text((LEFT + 46.0, y), Anchor::Start, "name", who);
    }
    svg.finish_within(name)
}

/// By the nearest rank; 0 of nothing.
fn at(sorted: &[f32], share: f64) -> f64 {
    let rank = ((share * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len().max(1));
    sorted.get(rank - 1).map_or(0.0, |delay| f64::from(*delay))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::record_for_tests as record;

    #[test]
    fn each_run_has_its_line_and_its_name() {
        let (one, other) = (record("att-1c", 60, 300), record("att-2c", 90, 300));
        let runs = [("one <core>".to_owned(), &one), ("two".to_owned(), &other)];
        let svg = draw("att-delays", "Delays", &runs);
        assert_eq!(svg.matches("<polyline").count(), 4, "{svg}");
        assert!(svg.contains("one &lt;core&gt;") && svg.contains("100 ms"), "{svg}");
    }

    #[test]
    fn nothing_is_drawn_too() {
        let empty = record("att-1c", 60, 0);
        for runs in [&[][..], &[("none".to_owned(), &empty)][..]] {
            let svg = draw("none", "Delays", runs);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn ranks_are_the_nearest() {
        assert_eq!([0.0, 0.5, 0.51, 1.0].map(|share| at(&[1.0, 2.0], share)), [1.0, 1.0, 2.0, 2.0]);
        assert_eq!(at(&[], 0.5), 0.0);
    }
}
