//! The picture of chunks' delays, and the page around it.

use crate::load::live::{LiveReport, STEPS_MS};
use glassline_inspect::report::svg::{Anchor, STYLE, Scale, Svg, ceiling, escape};
use std::fmt::Write as _;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = WIDTH - 40.0;
const TOP: f64 = 130.0;
const BOTTOM: f64 = 380.0;

/// Draws the chunks' delays, as an SVG file.
pub fn draw(report: &LiveReport) -> String {
    let title = format!("{} viewers of {}", report.playing, report.protocol);
    let verdict = verdict(report);
    let mut svg = Svg::new(WIDTH, HEIGHT, &title, &verdict);
    svg.text((30.0, 42.0), Anchor::Start, "title", &title);
    svg.text((30.0, 68.0), Anchor::Start, "verdict", &verdict);
    svg.text((30.0, 94.0), Anchor::Start, "soft", "Chunks by the time from capture to their last byte");
    bars(&mut svg, report);
    let latency = format!("presented {} ms after capture", report.latency_ms);
    let x = place(report.latency_ms);
    svg.line((x, TOP - 10.0), (x, BOTTOM), "dash");
    svg.text((x, TOP - 16.0), Anchor::Middle, "tick", &latency);
    svg.finish()
}

/// Where a delay stands on the axis, which is that of [`STEPS_MS`]: each as wide as the next.
fn place(millis: f64) -> f64 {
    let below = STEPS_MS.iter().filter(|step| **step <= millis).count();
    LEFT + (RIGHT - LEFT) * below as f64 / (STEPS_MS.len() + 1) as f64
}

fn bars(svg: &mut Svg, report: &LiveReport) {
    let most = report.delays.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1) as f64;
    let top = ceiling(most);
    let up = Scale::linear(0.0, top, BOTTOM, TOP);
    for part in 0..=4 {
        let value = top * f64::from(part) / 4.0;
        let y = up.px(value);
        svg.line((LEFT, y), (RIGHT, y), if part == 0 { "axis" } else { "grid" });
        svg.text((LEFT - 10.0, y + 4.0), Anchor::End, "tick", &format!("{value:.0}"));
    }
    let width = (RIGHT - LEFT) / (STEPS_MS.len() + 1) as f64;
    for (index, (below_ms, count)) in report.delays.iter().enumerate() {
        let (x, y) = (LEFT + width * index as f64, up.px(*count as f64));
        svg.rect(x + 1.0, y, width - 2.0, BOTTOM - y, "bar");
        if below_ms.is_finite() && index % 3 == 0 {
            svg.text((x + width, BOTTOM + 18.0), Anchor::Middle, "tick", &format!("{below_ms} ms"));
        }
    }
}

fn verdict(report: &LiveReport) -> String {
    match report.chunk_delay_ms {
        Some(delay) => format!(
            "Half of all chunks came within {:.0} ms of their capture, 99 % within {:.0} ms; {} stalls.",
            delay.p50, delay.p99, report.stalls
        ),
        None => "No chunk says when it was captured, or none came.".to_owned(),
    }
}

/// A page of HTML with the picture and the table.
pub fn page(report: &LiveReport) -> String {
    let url = escape(&report.url);
    let mut out = String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    let _ = writeln!(
        out,
        "<title>Viewers of {url}</title>\n<style>{STYLE} body {{ background: var(--ground); color: var(--ink); \
         font-family: system-ui, sans-serif; max-width: 980px; margin: 2em auto; }} pre {{ overflow: auto; }}</style>\n\
         </head>\n<body>\n<h1>Viewers of {url}</h1>\n{}\n<pre>{}</pre>\n</body>\n</html>",
        draw(report),
        escape(&report.table())
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::live::{Labels, LiveTally};
    use std::time::Duration;

    fn report(tally: &LiveTally) -> LiveReport {
        let labels = Labels {
            url: "http://h/<x>.m3u8".into(),
            protocol: "hls",
            wanted: 2,
            latency: Duration::from_secs(1),
            upstream_fetches: None,
        };
        LiveReport::new(tally, labels)
    }

    #[test]
    fn a_page_is_whole_whatever_its_url_is_and_however_little_came() {
        let mut tally = LiveTally { playing: 2, chunks: 2, ..LiveTally::default() };
        [20, 1200].into_iter().for_each(|ms| tally.chunk_delay.record_time(Duration::from_millis(ms)));
        let page = page(&report(&tally));
        assert!(page.contains("&lt;x&gt;") && page.contains("<svg") && page.ends_with("</html>\n"), "{page}");
        assert!(draw(&report(&LiveTally::default())).ends_with("</svg>\n"), "of nothing, too");
    }
}
