//! The picture of a latency budget: where each millisecond of a picture's way went.
//!
//! Above, a line for each stage, where the one before ended: its median as a bar, its 99th percentile as a whisker.
//! Below, how many pictures took how long in all.

use super::svg::{Anchor, Scale, Svg, ceiling};
use glassline_media::Stage;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = WIDTH - 190.0;
const STAGES_TOP: f64 = 200.0;
const STAGE_HEIGHT: f64 = 30.0;
const BAR_HEIGHT: f64 = 16.0;
const BINS_HEIGHT: f64 = 160.0;
/// Bars of the lower panel.
pub const BINS: usize = 60;

/// How long a part of the way took, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Where it began.
    pub from: Stage,
    /// What was reached at its end.
    pub to: Stage,
    /// The median.
    pub p50_ms: f64,
    /// What one in a hundred exceeds.
    pub p99_ms: f64,
}

/// What is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// What was measured, for the heading.
    pub title: String,
    /// More about it: how many pictures, which settings.
    pub about: String,
    /// The parts of the way, in order.
    pub parts: Vec<Part>,
    /// The whole way.
    pub total: Part,
    /// What lies across the parts and is worth a line of its own: from the queue to the first packet.
    pub marks: Vec<Part>,
    /// How often the whole took how long (milliseconds, pictures), in any order.
    pub counts: Vec<(f64, u64)>,
}

impl Part {
    /// From where to where, in words.
    pub fn ends(&self) -> String {
        format!("{} to {}", self.from.label(), self.to.label())
    }
}

impl Budget {
    /// The budget in a sentence.
    pub fn verdict(&self) -> String {
        let Part { p50_ms, p99_ms, .. } = &self.total;
        let longest = self.parts.iter().max_by(|a, b| a.p50_ms.total_cmp(&b.p50_ms));
        let longest = longest.map_or(String::new(), |part| {
            format!(
                " The longest part ended with \u{201c}{}\u{201d}: {}.",
                part.to.label(),
                millis(part.p50_ms)
            )
        });
        format!(
            "Half of the pictures took at most {} from {}, 99 in 100 at most {}.{longest}",
            millis(*p50_ms),
            self.total.ends(),
            millis(*p99_ms)
        )
    }
}

/// Draws an SVG file.
pub fn draw(budget: &Budget) -> String {
    let stages_bottom = STAGES_TOP + STAGE_HEIGHT * (budget.parts.len() + budget.marks.len()) as f64;
    let bins_top = stages_bottom + 110.0;
    let height = bins_top + BINS_HEIGHT + 60.0;
    let verdict = budget.verdict();
    let mut svg = Svg::new(WIDTH, height, &budget.title, &verdict);
    svg.text((30.0, 42.0), Anchor::Start, "title", &budget.title);
    svg.text((30.0, 66.0), Anchor::Start, "soft", &budget.about);
    svg.paragraph((30.0, 98.0), 98, 16.0, "verdict", &verdict);
    let scale = Scale::linear(0.0, top(budget), LEFT, RIGHT);
    stages(&mut svg, budget, scale, stages_bottom);
    bins(&mut svg, budget, scale, bins_top);
    svg.finish()
}

/// The end of both panels' axis, in milliseconds.
fn top(budget: &Budget) -> f64 {
    let ends = starts(&budget.parts).zip(&budget.parts).map(|(start, part)| start + part.p99_ms);
    ceiling(ends.fold(budget.total.p99_ms, f64::max))
}

/// Where each part begins: at the sum of the medians before it.
fn starts(parts: &[Part]) -> impl Iterator<Item = f64> + '_ {
    parts.iter().scan(0.0, |sum, part| {
        let start = *sum;
        *sum += part.p50_ms;
        Some(start)
    })
}

fn stages(svg: &mut Svg, budget: &Budget, scale: Scale, bottom: f64) {
    svg.text((30.0, STAGES_TOP - 32.0), Anchor::Start, "heading", "Where the milliseconds go");
    axis(svg, scale, top(budget), (STAGES_TOP - 14.0, bottom));
    let parts = starts(&budget.parts).zip(&budget.parts);
    let all = parts.map(|(start, part)| (start, part, part.to.label().to_owned(), "bar"));
    let marks = budget.marks.iter().map(|mark| (0.0, mark, mark.ends(), "mark"));
    for (row, (start, part, name, class)) in all.chain(marks).enumerate() {
        let y = STAGES_TOP + STAGE_HEIGHT * row as f64;
        let middle = y + BAR_HEIGHT / 2.0;
        svg.text((LEFT - 12.0, middle + 4.5), Anchor::End, "name", &name);
        let (from, median, late) =
            (scale.px(start), scale.px(start + part.p50_ms), scale.px(start + part.p99_ms));
        svg.rect(from, y, median - from, BAR_HEIGHT, class);
        svg.path(&[(median.min(late), middle), (late, middle)], "line");
        svg.path(&[(late, y + 3.0), (late, y + BAR_HEIGHT - 3.0)], "line");
        let figures = format!("{} · p99 {}", millis(part.p50_ms), millis(part.p99_ms));
        svg.text((RIGHT + 12.0, middle + 4.5), Anchor::Start, "tick", &figures);
    }
}

fn bins(svg: &mut Svg, budget: &Budget, scale: Scale, bins_top: f64) {
    let end = top(budget);
    let mut bins = [0u64; BINS];
    for &(millis, count) in &budget.counts {
        let bin = (millis / end * BINS as f64).clamp(0.0, (BINS - 1) as f64) as usize;
        bins[bin] = bins[bin].saturating_add(count);
    }
    let most = bins.iter().copied().max().unwrap_or(0).max(1);
    let bottom = bins_top + BINS_HEIGHT;
    svg.text((30.0, bins_top - 32.0), Anchor::Start, "heading", "How long pictures took in all");
    let text = format!("{}; what is longer than the axis is in the last bar", budget.total.ends());
    svg.text((30.0, bins_top - 14.0), Anchor::Start, "soft", &text);
    axis(svg, scale, end, (bins_top, bottom));
    let width = (RIGHT - LEFT) / BINS as f64;
    for (index, &count) in bins.iter().enumerate() {
        let height = BINS_HEIGHT * count as f64 / most as f64;
        let x = LEFT + width * index as f64;
        svg.rect(x + 0.5, bottom - height, width - 1.0, height, "bar");
    }
    svg.text((LEFT - 12.0, bins_top + 5.0), Anchor::End, "tick", &format!("{most} pictures"));
}

/// Lines for five parts of the axis, from `top` to `bottom`.
fn axis(svg: &mut Svg, scale: Scale, end: f64, (top, bottom): (f64, f64)) {
    for part in 0..=5 {
        let value = end * f64::from(part) / 5.0;
        let x = scale.px(value);
        svg.line((x, top), (x, bottom), if part == 0 { "axis" } else { "grid" });
        svg.text((x, bottom + 16.0), Anchor::Middle, "tick", &millis(value));
    }
}

fn millis(value: f64) -> String {
    match value {
        large if large >= 99.95 => format!("{large:.0} ms"),
        middle if middle >= 9.995 => format!("{middle:.1} ms"),
        small => format!("{small:.2} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part(from: Stage, to: Stage, p50_ms: f64, p99_ms: f64) -> Part {
        Part { from, to, p50_ms, p99_ms }
    }

    fn budget() -> Budget {
        Budget {
            title: "A <budget>".to_owned(),
            about: "1280x720@50, 500 pictures".to_owned(),
            parts: vec![
                part(Stage::Captured, Stage::Queued, 0.5, 1.0),
                part(Stage::Queued, Stage::Encoded, 4.0, 6.0),
                part(Stage::Encoded, Stage::Sent, 0.1, 0.4),
            ],
            total: part(Stage::Captured, Stage::Sent, 4.6, 7.5),
            marks: vec![part(Stage::Queued, Stage::FirstSent, 1.2, 2.0)],
            counts: vec![(4.0, 300), (5.0, 190), (700.0, 10)],
        }
    }

    #[test]
    fn the_budget_is_told_and_drawn() {
        let verdict = budget().verdict();
        assert!(verdict.contains("4.60 ms") && verdict.contains("7.50 ms"), "{verdict}");
        assert!(verdict.contains("last slice out") && verdict.contains("captured to sent"), "{verdict}");
        let svg = draw(&budget());
        for text in
            ["A &lt;budget&gt;", "queued to first packet", "4.00 ms · p99 6.00 ms", "300 pictures", "10.0 ms"]
        {
            assert!(svg.contains(text), "{text}");
        }
        // Three stages, a mark, the ground, and three bars of counts.
        assert_eq!(svg.matches("<rect").count(), 1 + 3 + 1 + 3);
    }

    #[test]
    fn a_part_begins_where_the_last_one_ended() {
        assert_eq!(starts(&budget().parts).collect::<Vec<_>>(), [0.0, 0.5, 4.5]);
    }

    proptest! {
        #[test]
        fn any_figures_are_drawn(
            figures in proptest::collection::vec((0.0f64..1e6, 0.0f64..1e6), 0..9),
            counts in proptest::collection::vec((0.0f64..1e9, any::<u64>()), 0..50),
        ) {
            let step = |&(p50, p99): &(f64, f64)| part(Stage::Captured, Stage::Sent, p50, p99);
            let parts = figures.iter().map(step).collect();
            let svg = draw(&Budget { parts, counts, ..budget() });
            prop_assert!(!svg.contains("NaN") && !svg.contains("inf") && svg.ends_with("</svg>\n"));
        }
    }
}
