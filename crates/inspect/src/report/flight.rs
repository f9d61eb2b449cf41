//! The picture of a packet flight: when the bytes arrive, how large the bursts are, how long it is quiet in between.
//!
//! Always the same size and places, so that two pictures can be laid side by side. The axes of sizes and gaps are
//! fixed; that of the rate is the next round number unless [`Caption::scale_bps`] fixes it too.

use super::svg::{Anchor, Scale, Svg, ceiling, wrap};
use crate::distribution::Distribution;
use crate::flight::units::{bits_per_second, bytes, count, seconds, things};
use crate::flight::{
    BURST_EDGES_BYTES, Basis, DETAIL_MS, Figures, GAP_EDGES_NANOS, Summary, TCP_PAYLOAD_BYTES,
};
use std::time::Duration;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 960.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = WIDTH - 70.0;
/// The baseline of the first panel's heading; what is above may take less.
const ARRIVALS_TOP: f64 = 160.0;
const DETAIL_TOP: f64 = 236.0;
const DETAIL_BOTTOM: f64 = 416.0;
const STRIP_TOP: f64 = 478.0;
const STRIP_BOTTOM: f64 = 526.0;
/// The two histograms.
const BINS_TOP: f64 = 582.0;
const BINS_PLOT_TOP: f64 = 672.0;
const BINS_BOTTOM: f64 = 836.0;
const VERDICT_COLUMNS: usize = 98;
const NOTES_TOP: f64 = 900.0;
const BURSTS_RIGHT: f64 = 460.0;
const GAPS_LEFT: f64 = 540.0;
/// Characters of a line of a histogram's text, and of one over the whole width.
const HALF_COLUMNS: usize = 64;
const COLUMNS: usize = 122;
/// Lines of notes at the bottom; what is longer ends in an ellipsis.
const NOTE_LINES: usize = 4;

/// What the figures do not say themselves.
#[derive(Clone, Debug)]
pub struct Caption<'a> {
    /// Name of the file or address.
    pub source: &'a str,
    /// The flow, where one was picked.
    pub flow: Option<&'a str>,
    /// Bytes of a full packet, for the axis of packets.
    pub packet_bytes: u64,
    /// The top of the rate's axis; the next round number where it is not given.
    pub scale_bps: Option<f64>,
    /// Sentences for the bottom of the picture.
    pub notes: &'a [String],
}

/// Draws an SVG file.
pub fn draw(summary: &Summary, caption: &Caption<'_>) -> String {
    let figures = &summary.figures;
    let title = format!("Packet flight: {}", shortened(caption.source, 62));
    let mut svg = Svg::new(WIDTH, HEIGHT, &title, &figures.verdict);
    svg.text((30.0, 42.0), Anchor::Start, "title", &title);
    svg.text((30.0, 66.0), Anchor::Start, "soft", &shortened(&about(figures, caption), COLUMNS));
    svg.paragraph((30.0, 98.0), VERDICT_COLUMNS, 16.0, "verdict", &figures.verdict);
    arrivals(&mut svg, summary, caption);
    bursts(&mut svg, figures, caption);
    gaps(&mut svg, figures);
    notes(&mut svg, caption.notes);
    svg.finish()
}

fn notes(svg: &mut Svg, notes: &[String]) {
    let fixed = "The axes of sizes and gaps are the same in every such picture: ten bars to a power of ten.";
    let lines = wrap(&format!("{fixed} {}", notes.join(" ")), COLUMNS + 10);
    for (index, line) in lines.iter().take(NOTE_LINES).enumerate() {
        let more = if index + 1 == NOTE_LINES && lines.len() > NOTE_LINES { " …" } else { "" };
        svg.text((30.0, NOTES_TOP + 17.0 * index as f64), Anchor::Start, "tick", &format!("{line}{more}"));
    }
}

fn shortened(text: &str, columns: usize) -> String {
    match text.chars().count() {
        length if length > columns => text.chars().take(columns - 1).chain(['…']).collect(),
        _ => text.to_owned(),
    }
}

fn is_reads(figures: &Figures) -> bool {
    figures.basis == Basis::Reads.name()
}

fn about(figures: &Figures, caption: &Caption<'_>) -> String {
    let arrivals = if is_reads(figures) {
        format!("{} by a TCP receiver", things(figures.arrivals, "read"))
    } else {
        things(figures.packets, "packet")
    };
    let rate =
        figures.rate_bps.map(|rate| format!(", {} on average", bits_per_second(rate))).unwrap_or_default();
    let flow = caption.flow.map(|flow| format!(" · {flow}")).unwrap_or_default();
    let all = bytes(figures.bytes as f64);
    format!("{}, {all} in {arrivals}{rate}{flow}", seconds(figures.duration_s))
}

/// A frame with lines across at `marks` (values and labels).
fn across(svg: &mut Svg, (left, right): (f64, f64), scale: Scale, marks: &[(f64, String)]) {
    for (value, label) in marks {
        let y = scale.px(*value);
        svg.line((left, y), (right, y), if *value == 0.0 { "axis" } else { "grid" });
        svg.text((left - 8.0, y + 4.0), Anchor::End, "tick", label);
    }
}

/// The rates from 0 to `top` that get a line: some round ones.
fn rate_marks(top: f64) -> Vec<(f64, String)> {
    let first_digit = (top / 10f64.powf(top.log10().floor())).round();
    let parts = match first_digit as u32 {
        2 => 4,
        3 => 3,
        _ => 5,
    };
    let label = |value: f64| if value == 0.0 { "0".into() } else { bits_per_second(value) };
    (0..=parts)
        .map(|part| top * f64::from(part) / f64::from(parts))
        .map(|value| (value, label(value)))
        .collect()
}

fn arrivals(svg: &mut Svg, summary: &Summary, caption: &Caption<'_>) {
    let peaks: Vec<f64> = summary.figures.windows.iter().map(|window| window.rate_bps.max).collect();
    let peak = peaks.first().copied().unwrap_or(0.0);
    let top = caption.scale_bps.unwrap_or_else(|| ceiling(peak));
    svg.text((30.0, ARRIVALS_TOP), Anchor::Start, "heading", "When the bytes arrive");
    let text = "The fullest half second, a bar for each millisecond. Low and even is smooth; tall bars with silence \
                between them are bursts.";
    svg.text((30.0, ARRIVALS_TOP + 20.0), Anchor::Start, "soft", text);
    legend(svg, &peaks);
    let scale = Scale::linear(0.0, top, DETAIL_BOTTOM, DETAIL_TOP);
    across(svg, (LEFT, RIGHT), scale, &rate_marks(top));
    // The same axis once more, as bytes in each millisecond.
    for (rate, _) in rate_marks(top).iter().filter(|(rate, _)| *rate > 0.0) {
        svg.text((RIGHT + 8.0, scale.px(*rate) + 4.0), Anchor::Start, "tick", &bytes(rate / 8e3));
    }
    svg.text((RIGHT + 8.0, DETAIL_TOP - 10.0), Anchor::Start, "tick", "in 1 ms");
    detail(svg, summary, scale);
    if peak > top {
        let text = format!(
            "Bars are cut off at {}; the highest is {}.",
            bits_per_second(top),
            bits_per_second(peak)
        );
        svg.text((RIGHT, DETAIL_TOP - 8.0), Anchor::End, "alert", &text);
    }
    strip(svg, summary, top);
}

fn legend(svg: &mut Svg, peaks: &[f64]) {
    let y = DETAIL_TOP - 24.0;
    let peak = |index: usize| peaks.get(index).map_or_else(|| "–".into(), |rate| bits_per_second(*rate));
    let entries = [("bar", "each 1 ms"), ("line", "each 10 ms"), ("calm", "each 100 ms")];
    for (index, (class, name)) in entries.into_iter().enumerate() {
        let x = LEFT + 250.0 * index as f64;
        match class {
            "bar" => svg.rect(x, y - 10.0, 14.0, 12.0, class),
            _ => svg.line((x, y - 4.0), (x + 18.0, y - 4.0), class),
        }
        svg.text((x + 24.0, y), Anchor::Start, "", &format!("{name}: up to {}", peak(index)));
    }
}

fn detail(svg: &mut Svg, summary: &Summary, scale: Scale) {
    let detail = &summary.detail;
    let across = Scale::linear(0.0, DETAIL_MS as f64, LEFT, RIGHT);
    let bar = across.px(1.0) - LEFT;
    for (millisecond, bytes) in detail.bytes_per_ms.iter().enumerate() {
        let y = bar_top(scale.px(*bytes as f64 * 8e3), DETAIL_BOTTOM, *bytes > 0);
        svg.rect(across.px(millisecond as f64), y, bar.max(1.0) - 0.2, DETAIL_BOTTOM - y, "bar");
    }
    for (length, class) in [(10, "line"), (100, "calm")] {
        let mut points = Vec::new();
        for (index, window) in detail.bytes_per_ms.chunks(length).enumerate() {
            let y = scale.px(window.iter().sum::<u64>() as f64 * 8e3 / length as f64);
            let start = (index * length) as f64;
            points.push((across.px(start), y));
            points.push((across.px(start + length as f64), y));
        }
        svg.path(&points, class);
    }
    for step in 0..=5 {
        let millis = f64::from(step) * 100.0;
        let at_s = (detail.start + Duration::from_millis(millis as u64)).as_secs_f64();
        let x = across.px(millis);
        svg.line((x, DETAIL_BOTTOM), (x, DETAIL_BOTTOM + 4.0), "axis");
        svg.text((x, DETAIL_BOTTOM + 19.0), Anchor::Middle, "tick", &format!("{at_s:.1} s"));
    }
}

/// The top of a bar: what is there at all is seen.
fn bar_top(y: f64, bottom: f64, is_there: bool) -> f64 {
    if is_there { y.min(bottom - 1.0) } else { bottom }
}

/// The whole time, with the detail's place marked.
fn strip(svg: &mut Svg, summary: &Summary, top: f64) {
    let overview = &summary.overview;
    let column_s = overview.column.as_secs_f64();
    let total_s = (overview.columns.len() as f64 * column_s).max(DETAIL_MS as f64 / 1e3);
    let text = format!(
        "The whole time ({}), the highest millisecond of each piece; the half second above is marked.",
        seconds(summary.figures.duration_s)
    );
    svg.text((30.0, STRIP_TOP - 14.0), Anchor::Start, "soft", &text);
    let across = Scale::linear(0.0, total_s, LEFT, RIGHT);
    let scale = Scale::linear(0.0, top, STRIP_BOTTOM, STRIP_TOP);
    let start_s = summary.detail.start.as_secs_f64();
    let (from, to) = (across.px(start_s), across.px(start_s + DETAIL_MS as f64 / 1e3));
    svg.rect(from, STRIP_TOP - 4.0, (to - from).max(3.0), STRIP_BOTTOM - STRIP_TOP + 4.0, "mark");
    // One bar for each pixel: of several columns the highest.
    let pixels = (RIGHT - LEFT) as usize;
    let mut bars = vec![0u64; pixels];
    for (index, column) in overview.columns.iter().enumerate() {
        let pixel = (across.px(index as f64 * column_s) - LEFT) as usize;
        let bar = &mut bars[pixel.min(pixels - 1)];
        *bar = (*bar).max(column.peak_bytes);
    }
    let bar_px = (across.px(column_s) - LEFT).max(1.0);
    for (pixel, peak) in bars.into_iter().enumerate() {
        let y = bar_top(scale.px(peak as f64 * 8e3), STRIP_BOTTOM, peak > 0);
        svg.rect(LEFT + pixel as f64, y, bar_px.min((pixels - pixel) as f64), STRIP_BOTTOM - y, "bar");
    }
    svg.line((LEFT, STRIP_BOTTOM), (RIGHT, STRIP_BOTTOM), "axis");
    svg.text((LEFT, STRIP_BOTTOM + 16.0), Anchor::Middle, "tick", "0");
    svg.text((RIGHT, STRIP_BOTTOM + 16.0), Anchor::Middle, "tick", &seconds(total_s));
}

/// A histogram's place and what its bars are of.
struct Histogram<'a> {
    left: f64,
    right: f64,
    /// Share of each bin, 0 to 1.
    shares: Vec<f64>,
    /// Labels at the powers of ten, from the first edge to the last.
    labels: &'a [&'a str],
    caption: &'a str,
}

impl Histogram<'_> {
    fn bar_px(&self) -> f64 {
        (self.right - self.left) / self.shares.len().max(1) as f64
    }

    fn draw(&self, svg: &mut Svg) {
        let highest = self.shares.iter().copied().fold(0.0, f64::max);
        let top = [0.25, 0.5].into_iter().find(|top| highest <= *top).unwrap_or(1.0);
        let scale = Scale::linear(0.0, top, BINS_BOTTOM, BINS_PLOT_TOP);
        let percent = |part: u32| top * f64::from(part) / 5.0;
        let marks: Vec<_> =
            (0..=5).map(|part| (percent(part), format!("{:.0} %", percent(part) * 100.0))).collect();
        across(svg, (self.left, self.right), scale, &marks);
        let bar = self.bar_px();
        for (index, share) in self.shares.iter().enumerate() {
            let y = bar_top(scale.px(*share), BINS_BOTTOM, *share > 0.0);
            svg.rect(self.left + bar * index as f64 + 0.5, y, bar - 1.0, BINS_BOTTOM - y, "bar");
        }
        for (index, label) in self.labels.iter().enumerate() {
            let x = self.left + bar * 10.0 * index as f64;
            svg.line((x, BINS_BOTTOM), (x, BINS_BOTTOM + 4.0), "axis");
            svg.text((x, BINS_BOTTOM + 18.0), Anchor::Middle, "tick", label);
        }
        let middle = (self.left + self.right) / 2.0;
        svg.text((middle, BINS_BOTTOM + 34.0), Anchor::Middle, "soft", self.caption);
    }

    /// Where a value stands on the axis that begins at `first`.
    fn place(&self, value: f64, first: f64) -> f64 {
        let bins = (value / first).log10() * 10.0;
        self.left + (bins * self.bar_px()).clamp(0.0, self.right - self.left)
    }
}

fn shares(weights: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let total: f64 = weights.clone().sum();
    weights.map(|weight| if total > 0.0 { weight / total } else { 0.0 }).collect()
}

/// "Half of the 7 bursts have up to 3 kB, 99 % up to 5 kB, the largest 6 kB."
fn spread(
    all: Option<&Distribution>,
    unit: impl Fn(f64) -> String,
    [what, have, largest]: [&str; 3],
) -> String {
    let Some(all) = all else { return format!("There are no {what}.") };
    format!(
        "Half of the {} {what} {have} up to {}, 99 % up to {}, the {largest} {}.",
        count(all.count),
        unit(all.p50),
        unit(all.p99),
        unit(all.max)
    )
}

fn bursts(svg: &mut Svg, figures: &Figures, caption: &Caption<'_>) {
    svg.text((30.0, BINS_TOP), Anchor::Start, "heading", "How large the bursts are");
    let text = format!(
        "How much of all bytes came in bursts of each size. {}",
        spread(figures.burst_bytes.as_ref(), bytes, ["bursts", "have", "largest"])
    );
    svg.paragraph((30.0, BINS_TOP + 20.0), HALF_COLUMNS, 13.0, "soft", &text);
    let histogram = Histogram {
        left: LEFT,
        right: BURSTS_RIGHT,
        shares: shares(figures.burst_histogram.iter().map(|bin| bin.bytes as f64)),
        labels: &["100 B", "1 kB", "10 kB", "100 kB", "1 MB", "10 MB"],
        caption: &format!(
            "bytes that come without a pause; above, packets of {} B",
            count(caption.packet_bytes)
        ),
    };
    histogram.draw(svg);
    // The same axis once more, in packets.
    for packets in [1, 10, 100, 1000] {
        let x = histogram.place((packets * caption.packet_bytes) as f64, BURST_EDGES_BYTES[0] as f64);
        svg.line((x, BINS_PLOT_TOP - 4.0), (x, BINS_PLOT_TOP), "axis");
        let text = if packets == 1 { "1 packet".to_owned() } else { count(packets) };
        svg.text((x, BINS_PLOT_TOP - 8.0), Anchor::Middle, "tick", &text);
    }
}

fn gaps(svg: &mut Svg, figures: &Figures) {
    let left = GAPS_LEFT - 40.0;
    svg.text((left, BINS_TOP), Anchor::Start, "heading", "How long it is quiet in between");
    let in_ms = |millis: f64| seconds(millis / 1e3);
    let text = format!(
        "How much of the quiet time lies in gaps of each length. {}",
        spread(figures.gap_ms.as_ref(), in_ms, ["gaps", "last", "longest"])
    );
    svg.paragraph((left, BINS_TOP + 20.0), HALF_COLUMNS, 13.0, "soft", &text);
    let histogram = Histogram {
        left: GAPS_LEFT,
        right: RIGHT + 36.0,
        shares: shares(figures.gap_histogram.iter().map(|bin| bin.total_ms)),
        labels: &["10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s"],
        caption: "from one burst to the next",
    };
    histogram.draw(svg);
    let x = histogram.place(figures.burst_gap_us, GAP_EDGES_NANOS[0] as f64 / 1e3);
    svg.line((x, BINS_PLOT_TOP - 4.0), (x, BINS_BOTTOM), "dash");
    let text = format!("shorter than {}: one burst", seconds(figures.burst_gap_us / 1e6));
    svg.text((x.max(GAPS_LEFT), BINS_PLOT_TOP - 8.0), Anchor::Start, "tick", &text);
}

impl Default for Caption<'_> {
    fn default() -> Self {
        Caption { source: "", flow: None, packet_bytes: TCP_PAYLOAD_BYTES, scale_bps: None, notes: &[] }
    }
}

#[cfg(test)]
mod tests;
