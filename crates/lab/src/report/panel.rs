//! Strips of a picture, one below the other, in which values go over time.

use glassline_inspect::report::svg::{Anchor, Scale, Svg, ceiling};

/// Of the whole picture.
pub(super) const WIDTH: f64 = 960.0;
pub(super) const LEFT: f64 = 90.0;
pub(super) const RIGHT: f64 = WIDTH - 30.0;
/// A panel's height, and what lies between it and the next one.
pub(super) const PANEL: f64 = 120.0;
pub(super) const GAP: f64 = 66.0;

/// One value of all bins, and how it is drawn.
pub(super) struct Curve<'a> {
    /// `bar`: an area; otherwise a line's class.
    pub(super) class: &'a str,
    /// Of each bin; none where there is nothing to say.
    pub(super) values: Vec<Option<f64>>,
}

/// A strip of a picture, over time.
#[derive(Clone, Copy)]
pub(super) struct Panel<'a> {
    /// What stands at its left end.
    pub(super) start: f64,
    /// How long it is.
    pub(super) seconds: f64,
    /// Of a bin.
    pub(super) width: f64,
    /// Of the values.
    pub(super) unit: &'a str,
}

impl Panel<'_> {
    /// Draws curves from the left end on; returns where the next panel may begin.
    pub(super) fn draw(&self, svg: &mut Svg, name: &str, curves: &[Curve<'_>], top: f64) -> f64 {
        let bottom = top + PANEL;
        let values = curves.iter().flat_map(|curve| curve.values.iter().flatten());
        let most = ceiling(values.copied().fold(0.0, f64::max));
        let across = Scale::linear(0.0, self.seconds, LEFT, RIGHT);
        let up = Scale::linear(0.0, most, bottom, top);
        svg.text((LEFT, top - 10.0), Anchor::Start, "soft", name);
        for part in 0..=4 {
            let value = most * f64::from(part) / 4.0;
            let y = up.px(value);
            svg.line((LEFT, y), (RIGHT, y), if part == 0 { "axis" } else { "grid" });
            let text = if part == 4 { format!("{} {}", short(value), self.unit) } else { short(value) };
            svg.text((LEFT - 8.0, y + 4.0), Anchor::End, "tick", &text);
        }
        for part in 0..=5 {
            let value = self.seconds * f64::from(part) / 5.0;
            svg.text(
                (across.px(value), bottom + 17.0),
                Anchor::Middle,
                "tick",
                &format!("{:.1} s", self.start + value),
            );
        }
        for Curve { class, values } in curves {
            if *class == "bar" {
                for (index, value) in values.iter().enumerate() {
                    let (from, to) =
                        (across.px(index as f64 * self.width), across.px((index + 1) as f64 * self.width));
                    let y = up.px(value.unwrap_or(0.0));
                    svg.rect(from, y, to - from, bottom - y, "bar");
                }
                continue;
            }
            let points = values.iter().enumerate().map(|(index, value)| {
                value.map(|value| (across.px((index as f64 + 0.5) * self.width), up.px(value)))
            });
            // A line ends where there is nothing to say.
            let points: Vec<_> = points.collect();
            for run in points.split(Option::is_none) {
                let mut run: Vec<_> = run.iter().copied().flatten().collect();
                // One alone is a dash.
                if let [(x, y)] = run[..] {
                    run = vec![(x - 1.5, y), (x + 1.5, y)];
                }
                svg.path(&run, class);
            }
        }
        bottom + GAP
    }
}

/// Three decimals at most, and no zeros behind them.
pub(super) fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.04, 1.25, 300.0, 0.0].map(short), ["0.04", "1.25", "300", "0"]);
    }

    #[test]
    fn a_line_ends_where_there_is_nothing_to_say() {
        let mut svg = Svg::new(WIDTH, 200.0, "", "");
        let values = vec![Some(1.0), Some(2.0), None, Some(3.0), None];
        let panel = Panel { start: 70.0, seconds: 5.0, width: 1.0, unit: "ms" };
        panel.draw(&mut svg, "name", &[Curve { class: "line", values }], 20.0);
        let svg = svg.finish();
        assert_eq!(svg.matches("<polyline").count(), 2, "one alone is a dash: {svg}");
        assert!(svg.contains("70.0 s") && svg.contains("75.0 s"), "{svg}");
    }
}
