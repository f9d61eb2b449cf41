//! The picture of a line: what passed of bursts of each size, and the delays within the longest.

use super::panel::short;
use crate::path::{Direction, PathReport};
use glassline_inspect::report::svg::{Anchor, Scale, Svg, ceiling};

const WIDTH: f64 = 960.0;
const ROW: f64 = 300.0;
const TOP: f64 = 120.0;
const PLOT: f64 = 190.0;
/// The two plots of a row: their left and right ends.
const LEFT: (f64, f64) = (80.0, 440.0);
const RIGHT: (f64, f64) = (560.0, 920.0);

/// Draws the report, as an SVG file.
pub fn draw(title: &str, report: &PathReport) -> String {
    let verdict = format!("Up {}; down {}.", verdict(&report.up), verdict(&report.down));
    let height = TOP + 2.0 * ROW + 2.0 * 70.0;
    let mut svg = Svg::new(WIDTH, height, title, &verdict);
    svg.text((30.0, 42.0), Anchor::Start, "title", title);
    svg.text((30.0, 68.0), Anchor::Start, "verdict", &verdict);
    let mut top = TOP;
    for (name, way) in [("Up", &report.up), ("Down", &report.down)] {
        sizes(&mut svg, name, way, top);
        delays(&mut svg, name, way, top);
        top += ROW;
    }
    for (name, way) in [("Up", &report.up), ("Down", &report.down)] {
        let text = match (&way.recommendation, way.reason.get("bottleneck_bps")) {
            (Some(recommendation), _) => recommendation.text.clone(),
            (None, Some(reason)) => format!("{name}: {reason}."),
            (None, None) => continue,
        };
        top = svg.paragraph((30.0, top - 20.0), 140, 13.0, "soft", &text) + 30.0;
    }
    svg.finish()
}

fn verdict(way: &Direction) -> String {
    let rate = way.bottleneck_bps.map_or("at a rate that is not known".to_owned(), |rate| {
        format!("{} Mbit/s", short((rate as f64 / 1e4).round() / 1e2))
    });
    match (way.queue_packets, way.queue_ms) {
        (Some(packets), Some(ms)) => format!("{rate} with a queue of {packets} packets ({ms:.0} ms)"),
        _ => rate,
    }
}

/// A plot's axes, with names at their ends.
fn axes(svg: &mut Svg, (left, right): (f64, f64), top: f64, name: &str, below: &str) {
    let bottom = top + PLOT;
    svg.text((left, top - 12.0), Anchor::Start, "soft", name);
    svg.line((left, bottom), (right, bottom), "axis");
    svg.line((left, top), (left, bottom), "axis");
    svg.text((right, bottom + 34.0), Anchor::End, "tick", below);
}

/// Packets that arrived over packets that were sent, both by powers of two.
fn sizes(svg: &mut Svg, name: &str, way: &Direction, top: f64) {
    let bottom = top + PLOT;
    axes(svg, LEFT, top, &format!("{name}: packets that arrived of each burst"), "packets of the burst");
    let across = Scale::linear(0.0, 11.0, LEFT.0, LEFT.1);
    let up = Scale::linear(0.0, 11.0, bottom, top);
    let place = |count: f64| count.max(1.0).log2();
    for power in (0..=10).step_by(2) {
        let (x, y) = (across.px(f64::from(power)), up.px(f64::from(power)));
        svg.line((LEFT.0, y), (LEFT.1, y), "grid");
        let label = (1u32 << power).to_string();
        svg.text((x, bottom + 17.0), Anchor::Middle, "tick", &label);
        svg.text((LEFT.0 - 8.0, y + 4.0), Anchor::End, "tick", &label);
    }
    svg.line((LEFT.0, bottom), (LEFT.1, top), "dash");
    for burst in &way.bursts {
        let at = (across.px(place(f64::from(burst.packets))), up.px(place(burst.arrived as f64)));
        svg.circle(at, 4.0, if burst.lost_at.is_empty() { "bar" } else { "ours" });
    }
}

/// The delay of each packet of the longest burst, lost ones as marks below.
fn delays(svg: &mut Svg, name: &str, way: &Direction, top: f64) {
    let bottom = top + PLOT;
    let Some(longest) = &way.longest_burst else {
        axes(svg, RIGHT, top, &format!("{name}: nothing has arrived"), "");
        return;
    };
    let title = format!("{name}: ms of waiting in a burst of {}, by place", longest.packets);
    axes(svg, RIGHT, top, &title, "place in the burst; marks below: lost");
    let most = longest.delay_ms.iter().flatten().copied().fold(0.0, f64::max);
    let most = ceiling(most.max(way.queue_ms.unwrap_or(0.0)));
    let across = Scale::linear(0.0, f64::from(longest.packets).max(2.0), RIGHT.0, RIGHT.1);
    let up = Scale::linear(0.0, most, bottom, top);
    for part in 0..=4 {
        let value = most * f64::from(part) / 4.0;
        let y = up.px(value);
        svg.line((RIGHT.0, y), (RIGHT.1, y), "grid");
        svg.text((RIGHT.0 - 8.0, y + 4.0), Anchor::End, "tick", &short(value));
        let index = f64::from(longest.packets) * f64::from(part) / 4.0;
        svg.text((across.px(index), bottom + 17.0), Anchor::Middle, "tick", &format!("{index:.0}"));
    }
    if let Some(ms) = way.queue_ms {
        svg.line((RIGHT.0, up.px(ms)), (RIGHT.1, up.px(ms)), "dash");
    }
    // One mark for each pixel, whatever the number of packets.
    let mut marked = f64::NEG_INFINITY;
    for (index, delay) in longest.delay_ms.iter().enumerate() {
        let x = across.px(index as f64);
        match delay {
            Some(delay) => svg.circle((x, up.px(*delay)), 1.6, "bar"),
            None if x - marked >= 1.0 => {
                svg.rect(x, bottom + 1.0, 1.0, 5.0, "ours");
                marked = x;
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::analysis_example;

    #[test]
    fn a_picture_shows_bursts_delays_and_what_follows() {
        let svg = draw("The line to <h>", &analysis_example());
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && svg.contains("&lt;h&gt;"), "{svg}");
        assert!(svg.contains("with a queue of") && svg.contains("--bitrate"), "{svg}");
        assert!(svg.matches("<circle").count() > 50 && svg.contains(r#"class="ours""#), "{svg}");
    }
}
