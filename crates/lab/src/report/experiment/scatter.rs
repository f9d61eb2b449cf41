//! Delay against quality, with the paper's axes: the delay is on a logarithmic axis that runs from right to left, so that what is
//! good is at the top right.

use glassline_inspect::report::svg::{Anchor, Scale, Svg};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = WIDTH - 40.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = HEIGHT - 70.0;
/// Where the axis of delays may have a line, ms.
const TICKS: [f64; 16] =
    [5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 300.0, 500.0, 700.0, 1e3, 2e3, 3e3, 5e3, 10e3, 20e3, 50e3];
/// Of a label's letter, and of its line.
const LETTER: f64 = 6.6;
const LINE: f64 = 14.0;

/// A system.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mark {
    pub(super) name: String,
    pub(super) delay_p95_ms: f64,
    pub(super) ssim_db: f64,
    /// Measured here, not by the paper.
    pub(super) is_ours: bool,
}

/// What stands at the axes.
pub(super) struct Words {
    /// The kind of quality.
    pub(super) quality: &'static str,
    /// What diamonds and circles are.
    pub(super) marks: &'static str,
}

/// Of the paper's figures.
const PAPER: Words = Words {
    quality: "Quality: SSIM of luma as Daala's tools compute it, dB",
    marks: "Diamonds: measured here. Circles: the paper's",
};

/// Draws the systems of a figure of the paper, for a page. `name` is the picture's.
pub(super) fn draw(name: &str, title: &str, marks: &[Mark]) -> String {
    drawing(title, marks, &PAPER).finish_within(name)
}

/// Draws them.
pub(super) fn drawing(title: &str, marks: &[Mark], words: &Words) -> Svg {
    let mut svg = Svg::new(WIDTH, HEIGHT, title, &described(marks));
    let (slowest, quickest) = ends(marks.iter().map(|mark| mark.delay_p95_ms), &TICKS);
    let worst = marks.iter().map(|mark| mark.ssim_db).fold(f64::INFINITY, f64::min);
    let best = marks.iter().map(|mark| mark.ssim_db).fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = if worst <= best { ((worst - 0.5).floor(), (best + 0.5).ceil()) } else { (0.0, 1.0) };
    let across = Scale::linear(slowest.ln(), quickest.ln(), LEFT, RIGHT);
    let up = Scale::linear(low, high, BOTTOM, TOP);
    axes(&mut svg, across, up, (slowest, quickest), (low, high), words);
    let mut taken: Vec<[f64; 4]> = Vec::new();
    let at = |mark: &Mark| (across.px(mark.delay_p95_ms.max(1e-3).ln()), up.px(mark.ssim_db));
    taken.extend(marks.iter().map(|mark| {
        let (x, y) = at(mark);
        [x - 7.0, y - 7.0, x + 7.0, y + 7.0]
    }));
    for mark in marks {
        let (x, y) = at(mark);
        if mark.is_ours {
            svg.diamond((x, y), 8.0, "ours");
        } else {
            svg.circle((x, y), 5.5, "theirs");
        }
        let (label, anchor) = place(&mut taken, (x, y), &mark.name);
        svg.text(label, anchor, if mark.is_ours { "name" } else { "tick" }, &mark.name);
    }
    svg
}

fn described(marks: &[Mark]) -> String {
    let of = |mark: &Mark| format!("{}: {:.0} ms, {:.1} dB", mark.name, mark.delay_p95_ms, mark.ssim_db);
    marks.iter().map(of).collect::<Vec<_>>().join("; ")
}

/// The ticks around all values, the largest first; two neighbours at least.
fn ends(values: impl Iterator<Item = f64> + Clone, ticks: &[f64]) -> (f64, f64) {
    let most = values.clone().fold(0.0, f64::max);
    let least = values.fold(f64::INFINITY, f64::min);
    let below = ticks.iter().rposition(|tick| *tick < least).unwrap_or(0).min(ticks.len() - 2);
    let above = ticks.iter().position(|tick| *tick > most).unwrap_or(ticks.len() - 1).max(below + 1);
    (ticks[above], ticks[below])
}

fn axes(svg: &mut Svg, across: Scale, up: Scale, delays: (f64, f64), (low, high): (f64, f64), words: &Words) {
    for tick in TICKS.into_iter().filter(|tick| (delays.1..=delays.0).contains(tick)) {
        let x = across.px(tick.ln());
        svg.line((x, TOP), (x, BOTTOM), "grid");
        svg.text((x, BOTTOM + 18.0), Anchor::Middle, "tick", &format!("{tick:.0}"));
    }
    let step = if high - low > 10.0 { 2.0 } else { 1.0 };
    let mut value = low;
    while value <= high {
        let y = up.px(value);
        svg.line((LEFT, y), (RIGHT, y), if value <= low { "axis" } else { "grid" });
        svg.text((LEFT - 10.0, y + 4.0), Anchor::End, "tick", &format!("{value:.0}"));
        value += step;
    }
    svg.text((LEFT - 50.0, TOP - 16.0), Anchor::Start, "soft", words.quality);
    let name = format!("Delay, 95th percentile, ms: better to the right, and up. {}", words.marks);
    svg.text((f64::midpoint(LEFT, RIGHT), HEIGHT - 22.0), Anchor::Middle, "soft", &name);
}

/// Where a label stands: beside its mark where nothing else is, or as near to that as can be.
fn place(taken: &mut Vec<[f64; 4]>, (x, y): (f64, f64), text: &str) -> ((f64, f64), Anchor) {
    let width = text.chars().count() as f64 * LETTER;
    let sides = [(Anchor::Start, 12.0), (Anchor::End, -12.0), (Anchor::Middle, 0.0)];
    let shifts = [0.0, -LINE, LINE, -2.0 * LINE, 2.0 * LINE, -3.0 * LINE, 3.0 * LINE];
    let ways = shifts.iter().flat_map(|shift| sides.iter().map(move |side| (*side, *shift)));
    let boxes = ways.filter(|((anchor, _), shift)| *anchor != Anchor::Middle || *shift != 0.0).map(
        |((anchor, aside), shift)| {
            let left = match anchor {
                Anchor::Start => x + aside,
                Anchor::Middle => x - width / 2.0,
                Anchor::End => x + aside - width,
            };
            let middle = y + shift;
            ([left, middle - LINE / 2.0, left + width, middle + LINE / 2.0], anchor, aside, middle)
        },
    );
    let is_inside =
        |area: &[f64; 4]| area[0] >= LEFT && area[2] <= RIGHT && area[1] >= 0.0 && area[3] <= BOTTOM;
    let overlaps = |a: &[f64; 4], b: &[f64; 4]| a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
    // With as few others below it as can be.
    let best = boxes.min_by_key(|(area, ..)| {
        let hits = taken.iter().filter(|other| overlaps(area, other)).count();
        hits + if is_inside(area) { 0 } else { 100 }
    });
    let Some((area, anchor, aside, middle)) = best else { return ((x, y), Anchor::Start) };
    taken.push(area);
    ((x + aside, middle + 4.5), anchor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(name: &str, delay_p95_ms: f64, ssim_db: f64, is_ours: bool) -> Mark {
        Mark { name: name.to_owned(), delay_p95_ms, ssim_db, is_ours }
    }

    #[test]
    fn less_delay_is_further_right_and_more_quality_higher() {
        let marks = [mark("<ours>", 150.0, 17.0, true), mark("theirs", 4_700.0, 13.4, false)];
        let svg = draw("figure", "a title", &marks);
        assert!(svg.contains("&lt;ours&gt;: 150 ms, 17.0 dB"), "{svg}");
        let number = |key: &str, from: &str| -> f64 {
            let rest = &svg[svg.find(from).unwrap()..];
            let rest = &rest[rest.find(key).unwrap() + key.len()..];
            rest[..rest.find(['"', ',']).unwrap()].parse().unwrap()
        };
        let theirs = (number("cx=\"", "<circle"), number("cy=\"", "<circle"));
        let ours = number("points=\"", "<polygon");
        assert!(ours > theirs.0, "{svg}");
        assert!(theirs.1 > 200.0, "{svg}");
        assert!(svg.contains("figure-title") && !svg.contains("<style>"), "{svg}");
    }

    #[test]
    fn ends_are_ticks_around_all() {
        assert_eq!(ends([150.0, 4_730.0].into_iter(), &TICKS), (5e3, 100.0));
        assert_eq!(ends([100.0].into_iter(), &TICKS), (200.0, 50.0));
        assert_eq!(ends([].into_iter(), &TICKS).0, 50e3);
        assert_eq!(ends([1.0, 90e3].into_iter(), &TICKS), (50e3, 5.0));
    }

    #[test]
    fn labels_keep_off_each_other() {
        let mut taken = vec![[490.0, 190.0, 510.0, 210.0]];
        let first = place(&mut taken, (500.0, 200.0), "a name");
        let second = place(&mut taken, (500.0, 200.0), "a name");
        assert_ne!(first, second);
        // At the right end it stands to the left.
        let (_, anchor) = place(&mut Vec::new(), (RIGHT - 5.0, 200.0), "a long name");
        assert_eq!(anchor, Anchor::End);
    }

    #[test]
    fn nothing_is_drawn_too() {
        let svg = draw("none", "nothing", &[]);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
