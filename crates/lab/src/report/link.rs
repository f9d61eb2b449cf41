//! The picture of an emulated link: for each direction its rates, its queue and its delays over time.

use super::panel::{Curve, GAP, LEFT, PANEL, Panel, RIGHT, WIDTH};
use crate::link::{Direction, Report};
use glassline_inspect::report::svg::{Anchor, Scale, Svg};
use glassline_transport::emulator::Bin;
use std::time::Duration;

const TOP: f64 = 130.0;
/// Points of a line: more than the picture has pixels would only make the file long.
const POINTS: usize = 420;

/// Draws an SVG file. `about` says what the link was like.
pub fn draw(title: &str, about: &str, report: &Report) -> String {
    let ways: Vec<_> = [("Up: what the command sends", &report.up), ("Down: what it receives", &report.down)]
        .into_iter()
        .filter(|(_, way)| way.arrived.packets > 0)
        .collect();
    draw_ways(title, about, &verdict(report), &ways)
}

/// Draws directions one below the other, each with its heading, as an SVG file. `about` says what they were like, `verdict`
/// what came of it.
pub fn draw_ways(title: &str, about: &str, verdict: &str, ways: &[(&str, &Direction)]) -> String {
    let panels = ways.len() as f64 * 3.0;
    let height = TOP + panels * (PANEL + GAP) + ways.len() as f64 * 68.0 + 40.0;
    let mut svg = Svg::new(WIDTH, height, title, verdict);
    svg.text((30.0, 42.0), Anchor::Start, "title", title);
    let y = svg.paragraph((30.0, 66.0), 125, 13.0, "soft", about);
    let y = svg.paragraph((30.0, y + 10.0), 100, 16.0, "verdict", verdict);
    // The height was reckoned with three lines.
    let mut y = y.clamp(TOP, TOP + 40.0);
    for (name, way) in ways {
        svg.text((30.0, y + 8.0), Anchor::Start, "heading", name);
        y = direction(&mut svg, way, y + 34.0);
    }
    svg.finish()
}

fn verdict(report: &Report) -> String {
    let one = |name: &str, way: &Direction| {
        let lost: u64 = way.dropped.values().map(|packets| packets.packets).sum();
        let share = 100.0 * lost as f64 / way.arrived.packets.max(1) as f64;
        format!(
            "{name} {:.2} Mbit/s, {share:.1} % lost, delay {:.0} ms (p95 {:.0}).",
            way.rate_bps / 1e6,
            way.delay_ms.p50,
            way.delay_ms.p95
        )
    };
    format!("{} {}", one("Up", &report.up), one("Down", &report.down))
}

/// Its three panels; returns where the next one may begin.
fn direction(svg: &mut Svg, way: &Direction, top: f64) -> f64 {
    let (bins, width) = condensed(way);
    let megabits = |bytes: u64| Some(bytes as f64 * 8.0 / 1e6 / width.as_secs_f64());
    let millis = |delay: Duration| delay.as_secs_f64() * 1e3;
    let capacity: Vec<_> = match way.constant_bps {
        Some(rate) => vec![Some(rate / 1e6); bins.len()],
        None => bins
            .iter()
            .map(|bin| megabits(bin.capacity_bytes).filter(|_| way.capacity_bps.is_some()))
            .collect(),
    };
    let seconds = way.figures.duration().as_secs_f64().max(width.as_secs_f64());
    let curve = |class, value: &dyn Fn(&Bin) -> Option<f64>| Curve {
        class,
        values: bins.iter().map(value).collect(),
    };
    let panel = Panel { start: 0.0, seconds, width: width.as_secs_f64(), unit: "Mbit/s" };
    let rates = [
        Curve { class: "bar", values: capacity },
        curve("dash", &|bin| megabits(bin.arrived_bytes)),
        curve("line", &|bin| megabits(bin.departed_bytes)),
    ];
    let y = panel.draw(svg, "Rate: what the link allows (area), what came (dashes), what left", &rates, top);
    let queue = [curve("bar", &|bin| Some(f64::from(bin.most_packets)))];
    let name = "Queue: the most packets that waited; red: packets were dropped";
    let next = Panel { unit: "packets", ..panel }.draw(svg, name, &queue, y);
    let across = Scale::linear(0.0, seconds, LEFT, RIGHT);
    for (index, _) in bins.iter().enumerate().filter(|(_, bin)| bin.dropped_packets > 0) {
        let x = across.px(index as f64 * panel.width);
        svg.rect(x, y - 4.0, (across.px((index + 1) as f64 * panel.width) - x).max(1.0), 4.0, "alert");
    }
    let delays = [
        curve("dash", &|bin| (bin.delivered_packets > 0).then(|| millis(bin.delay_max))),
        curve("calm", &|bin| bin.mean_delay().map(millis)),
    ];
    let name = "Delay from end to end: mean, and the longest (dashes)";
    Panel { unit: "ms", ..panel }.draw(svg, name, &delays, next) + 34.0
}

/// The bins, so many put together that there are at most [`POINTS`].
fn condensed(way: &Direction) -> (Vec<Bin>, Duration) {
    let (bins, width) = way.figures.bins();
    // Rates over less than 100 ms are the packets' own.
    let least = Duration::from_millis(100).as_nanos().div_ceil(width.as_nanos()) as usize;
    let least = if bins.len() > 4 * least { least } else { 1 };
    let step = bins.len().div_ceil(POINTS).max(least).max(1);
    (bins.chunks(step).map(Bin::merged).collect(), width * u32::try_from(step).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::tests::report;

    #[test]
    fn each_direction_that_carried_something_has_its_panels() {
        let svg = draw("A <link>", "1 Mbit/s", &report());
        for words in ["A &lt;link&gt;", "Up: what the command sends", "Mbit/s", "packets", "ms", "Up 0.8"] {
            assert!(svg.contains(words), "{words}: {svg}");
        }
        assert!(!svg.contains("Down: what it receives"));
        // Arrivals, departures, mean and longest delay.
        assert_eq!(svg.matches("<polyline").count(), 4);
        assert!(svg.contains(r#"class="alert""#), "drops are marked");
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn lines_are_drawn_one_below_the_other() {
        let report = report();
        let ways = [("Line 1", &report.up), ("Line <2>", &report.up)];
        let svg = draw_ways("Two lines", "about", "verdict", &ways);
        for words in ["Two lines", ">about<", ">verdict<", ">Line 1<", ">Line &lt;2&gt;<"] {
            assert!(svg.contains(words), "{words}: {svg}");
        }
        assert_eq!(svg.matches("<polyline").count(), 8);
        assert!(!draw_ways("None", "", "", &[]).contains("NaN"));
    }

    #[test]
    fn a_link_without_a_packet_is_drawn() {
        let mut report = report();
        report.up = report.down.clone();
        let svg = draw("Nothing", "", &report);
        assert!(svg.contains("Up 0.00 Mbit/s") && !svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn a_line_has_no_more_points_than_the_picture_can_show() {
        let (bins, width) = condensed(&report().up);
        assert!(bins.len() <= POINTS && width >= Duration::from_millis(100), "{} {width:?}", bins.len());
        assert_eq!(bins.iter().map(|bin| bin.arrived_bytes).sum::<u64>(), 500_000);
    }
}
