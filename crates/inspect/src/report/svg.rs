//! SVG, as little of it as plots need: shapes with classes, text as text, one style for light and dark screens.
//!
//! Nothing is loaded from elsewhere. Coordinates are pixels, written with one decimal.

use std::fmt::Write;

/// Colours and fonts; the program that shows the picture chooses between light and dark. A page that holds several
/// pictures has it once.
pub const STYLE: &str = "
  :root, svg { --ground: #ffffff; --ink: #1a1f26; --soft: #5a6472; --grid: #e4e8ed; --axis: #aab3be;
        --bar: #5b9bd5; --line: #d1640a; --calm: #1d7f46; --mark: #fff3c4; --alert: #b3261e; }
  @media (prefers-color-scheme: dark) {
    :root, svg { --ground: #14181d; --ink: #e8ecf1; --soft: #a3adb9; --grid: #2a313a; --axis: #586370;
          --bar: #4a8fd0; --line: #ff9d4d; --calm: #58c98b; --mark: #3d3617; --alert: #ff8a80; } }
  text { font-family: system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif;
         font-size: 13px; fill: var(--ink); }
  .name { font-size: 13px; }
  .title { font-size: 22px; font-weight: 700; } .verdict { font-size: 16px; font-weight: 600; }
  .heading { font-size: 15px; font-weight: 700; } .soft { fill: var(--soft); }
  .tick { font-size: 12px; fill: var(--soft); } .alert { fill: var(--alert); font-size: 12px; }
  .ground { fill: var(--ground); } .mark { fill: var(--mark); } .bar { fill: var(--bar); }
  .grid { stroke: var(--grid); stroke-width: 1; } .axis { stroke: var(--axis); stroke-width: 1; }
  .dash { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 4 3; fill: none; }
  .line { stroke: var(--line); stroke-width: 1.8; fill: none; stroke-linejoin: round; }
  .calm { stroke: var(--calm); stroke-width: 2.4; fill: none; stroke-linejoin: round; }
  .cool { stroke: var(--bar); stroke-width: 2.4; fill: none; stroke-linejoin: round; }
  .theirs { fill: var(--ground); stroke: var(--soft); stroke-width: 2; } .ours { fill: var(--line); }
";

/// Where a text stands at its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// Its middle is there.
    Middle,
    /// It ends there.
    End,
}

/// A picture that is being drawn. Classes are those of the style in this file.
#[derive(Clone, Debug)]
pub struct Svg {
    width: f64,
    height: f64,
    title: String,
    description: String,
    body: String,
}

impl Svg {
    /// An empty picture, `title` and `description` of which are what screen readers say.
    pub fn new(width: f64, height: f64, title: &str, description: &str) -> Svg {
        Svg { width, height, title: escape(title), description: escape(description), body: String::new() }
    }

    /// A filled rectangle. One without height is left out.
    pub fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, class: &str) {
        if height > 0.0 && width > 0.0 {
            let _ = writeln!(
                self.body,
                r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}"/>"#
            );
        }
    }

    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let _ = writeln!(
            self.body,
            r#"<line class="{class}" x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}"/>"#,
            from.0, from.1, to.0, to.1
        );
    }

    /// A line through points. Fewer than two are left out.
    pub fn path(&mut self, points: &[(f64, f64)], class: &str) {
        if points.len() < 2 {
            return;
        }
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(self.body, r#"<polyline class="{class}" points="{}"/>"#, points.join(" "));
    }

    /// A filled circle.
    pub fn circle(&mut self, at: (f64, f64), radius: f64, class: &str) {
        let (x, y) = at;
        let _ = writeln!(self.body, r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="{radius:.1}"/>"#);
    }

    /// A filled square that stands on its corner, so far from its middle to its corners.
    pub fn diamond(&mut self, at: (f64, f64), reach: f64, class: &str) {
        let corners = [(0.0, -reach), (reach, 0.0), (0.0, reach), (-reach, 0.0)];
        let points: Vec<String> =
            corners.iter().map(|(x, y)| format!("{:.1},{:.1}", at.0 + x, at.1 + y)).collect();
        let _ = writeln!(self.body, r#"<polygon class="{class}" points="{}"/>"#, points.join(" "));
    }

    /// A line of text, its baseline at `at`.
    pub fn text(&mut self, at: (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = writeln!(
            self.body,
            r#"<text class="{class}" x="{:.1}" y="{:.1}" text-anchor="{anchor}">{}</text>"#,
            at.0,
            at.1,
            escape(text)
        );
    }

    /// A text broken into lines of at most `columns` characters, 1.35 times `size` apart. Returns the baseline of the
    /// line that would come next.
    pub fn paragraph(&mut self, at: (f64, f64), columns: usize, size: f64, class: &str, text: &str) -> f64 {
        let mut y = at.1;
        for line in wrap(text, columns) {
            self.text((at.0, y), Anchor::Start, class, &line);
            y += size * 1.35;
        }
        y
    }

    /// The file.
    pub fn finish(self) -> String {
        self.written("", STYLE)
    }

    /// For a page of HTML that has [`STYLE`] itself. `name` tells it from the others there.
    pub fn finish_within(self, name: &str) -> String {
        self.written(&format!("{name}-"), "")
    }

    fn written(self, prefix: &str, style: &str) -> String {
        let Svg { width, height, title, description, body } = self;
        let style = if style.is_empty() { String::new() } else { format!("<style>{style}</style>\n") };
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" role="img" aria-labelledby="{prefix}title {prefix}description">
<title id="{prefix}title">{title}</title>
<desc id="{prefix}description">{description}</desc>
{style}<rect class="ground" x="0" y="0" width="{width:.0}" height="{height:.0}"/>
{body}</svg>
"#
        )
    }
}

/// Text as XML 1.0 takes it: what it cannot hold is left out, what it would read as markup is written otherwise.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => {}
            other if other.is_control() => {}
            other => out.push(other),
        }
    }
    out
}

/// Breaks a text at its blanks into lines of at most `columns` characters; a longer word gets a line of its own.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The smallest of 1, 2, 3 or 5 times a power of ten that is no less than `value`; 1 where that is not positive.
pub fn ceiling(value: f64) -> f64 {
    if !value.is_normal() || value < 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    // What a rounding error put above a step still is that step.
    let steps = [1.0, 2.0, 3.0, 5.0, 10.0];
    steps.into_iter().map(|step| step * power).find(|step| value <= step * (1.0 + 1e-9)).unwrap_or(value)
}

/// From values to pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    from: f64,
    to: f64,
    start_px: f64,
    end_px: f64,
}

impl Scale {
    /// `from` lies at `start_px`, `to`, which is another value, at `end_px`; in between evenly.
    pub const fn linear(from: f64, to: f64, start_px: f64, end_px: f64) -> Scale {
        Scale { from, to, start_px, end_px }
    }

    /// The pixel of a value; what lies outside is put at the nearer end.
    pub fn px(&self, value: f64) -> f64 {
        let share = ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0);
        self.start_px + share * (self.end_px - self.start_px)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ceilings_are_round() {
        let found = [0.0, f64::NAN, -3.0, 0.03, 1.0, 1.1, 2.1, 5.0, 7.0, 231.7e6].map(ceiling);
        assert_eq!(
            found.map(|value| format!("{value:.2}")).join(" "),
            "1.00 1.00 1.00 0.03 1.00 2.00 3.00 5.00 10.00 300000000.00"
        );
    }

    #[test]
    fn lines_break_at_blanks() {
        assert_eq!(wrap("a bb  ccc dddddddd e", 6), ["a bb", "ccc", "dddddddd", "e"]);
        assert!(wrap(" ", 6).is_empty());
    }

    #[test]
    fn scales_stop_at_their_ends() {
        let scale = Scale::linear(0.0, 10.0, 100.0, 0.0);
        assert_eq!([-1.0, 0.0, 5.0, 10.0, 99.0].map(|value| scale.px(value)), [100.0, 100.0, 50.0, 0.0, 0.0]);
    }

    proptest! {
        #[test]
        fn no_text_becomes_markup(text in any::<String>()) {
            let out = escape(&text);
            prop_assert!(!out.contains(['<', '>', '"']) && !out.chars().any(char::is_control));
            let entities = out.matches("&amp;").count() + out.matches("&lt;").count()
                + out.matches("&gt;").count() + out.matches("&quot;").count();
            prop_assert_eq!(out.matches('&').count(), entities);
        }
    }
}
