//! The picture of a codec's quality: SSIM and PSNR of each picture, one panel each, with a line at the mean.

use super::svg::{Anchor, Scale, Svg};
use crate::score::{Figures, Score};

const WIDTH: f64 = 960.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = WIDTH - 40.0;
const PANEL_HEIGHT: f64 = 200.0;
const FIRST_PANEL: f64 = 170.0;
const PANEL_STEP: f64 = PANEL_HEIGHT + 90.0;
/// What the axis' ends are multiples of.
const STEP_DB: f64 = 5.0;
/// Points of a line at most: pictures that share one are drawn by the worst of them.
const MOST_POINTS: usize = 2000;

/// What a panel shows of a picture.
type Measure = fn(&Figures) -> Option<f64>;

/// Draws an SVG file. `title` is its heading, `about` says what was compared.
pub fn draw(score: &Score, title: &str, about: &str) -> String {
    let height = FIRST_PANEL + 2.0 * PANEL_STEP;
    let verdict = verdict(score);
    let mut svg = Svg::new(WIDTH, height, title, &verdict);
    svg.text((30.0, 42.0), Anchor::Start, "title", title);
    svg.text((30.0, 66.0), Anchor::Start, "soft", about);
    svg.paragraph((30.0, 98.0), 98, 16.0, "verdict", &verdict);
    let panels: [(&str, Measure); 2] = [
        ("SSIM of luma, dB (10 dB: 0.9, 20 dB: 0.99)", |figures| figures.ssim_y_db),
        ("PSNR of luma, dB", |figures| figures.psnr_y_db),
    ];
    for (index, (name, of)) in panels.into_iter().enumerate() {
        panel(&mut svg, FIRST_PANEL + PANEL_STEP * index as f64, name, score, of);
    }
    svg.finish()
}

/// The quality in a sentence.
pub fn verdict(score: &Score) -> String {
    let mean = score.mean();
    let worst = score.pictures().iter().enumerate().filter_map(|(at, it)| Some((at, it.ssim_y_db?)));
    let worst = worst.min_by(|a, b| a.1.total_cmp(&b.1));
    let worst =
        worst.map_or(String::new(), |(at, value)| format!(" The worst is picture {at}: {value:.2} dB."));
    match (score.pictures().len(), mean.ssim_y_db.zip(mean.psnr_y_db)) {
        (0, _) => "No pictures were compared.".to_owned(),
        (count, None) => format!("All {count} pictures are equal to their references in luma."),
        (count, Some((ssim, psnr))) => {
            format!("Luma of {count} pictures: SSIM {ssim:.2} dB, PSNR {psnr:.2} dB.{worst}")
        }
    }
}

/// A line over the pictures, from `top` downwards.
fn panel(svg: &mut Svg, top: f64, name: &str, score: &Score, of: impl Fn(&Figures) -> Option<f64>) {
    let bottom = top + PANEL_HEIGHT;
    svg.text((30.0, top - 16.0), Anchor::Start, "heading", name);
    let values: Vec<Option<f64>> = score.pictures().iter().map(&of).collect();
    let (start, end) = range(values.iter().flatten().copied());
    let scale = Scale::linear(start, end, bottom, top);
    for part in 0..=5 {
        let value = start + (end - start) * f64::from(part) / 5.0;
        let y = scale.px(value);
        svg.line((LEFT, y), (RIGHT, y), if part == 0 { "axis" } else { "grid" });
        svg.text((LEFT - 10.0, y + 4.0), Anchor::End, "tick", &label(value));
    }
    let last = values.len().saturating_sub(1).max(1) as f64;
    let across = Scale::linear(0.0, last, LEFT, RIGHT);
    for part in 0..=5 {
        let picture = (last * f64::from(part) / 5.0).round();
        svg.text((across.px(picture), bottom + 18.0), Anchor::Middle, "tick", &format!("{picture:.0}"));
    }
    let points = values.chunks(values.len().div_ceil(MOST_POINTS).max(1)).enumerate();
    let step = values.len().div_ceil(MOST_POINTS).max(1);
    let points: Vec<(f64, f64)> = points
        .map(|(index, chunk)| {
            // What equals its reference is at the top.
            let worst = chunk.iter().map(|value| value.unwrap_or(end)).fold(f64::INFINITY, f64::min);
            (across.px((index * step) as f64), scale.px(worst))
        })
        .collect();
    svg.path(&points, "line");
    if let Some(mean) = of(&score.mean()) {
        let y = scale.px(mean);
        svg.line((LEFT, y), (RIGHT, y), "dash");
        svg.text((RIGHT, y - 6.0), Anchor::End, "tick", &format!("mean {mean:.2} dB"));
    }
}

/// The axis: multiples of 5 dB around all values, at least 5 apart.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let ends = values.fold(None, |ends: Option<(f64, f64)>, value| {
        let (low, high) = ends.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    });
    let (low, high) = ends.unwrap_or_default();
    let start = (low / STEP_DB).floor() * STEP_DB;
    (start, ((high / STEP_DB).ceil() * STEP_DB).max(start + STEP_DB))
}

fn label(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::{Picture, PixelFormat, Size, Time};

    fn score(values: &[u8]) -> Score {
        let flat = |value: u8| {
            let mut picture = Picture::new(PixelFormat::I420, Size { width: 16, height: 16 }, Time::ZERO);
            for plane in picture.planes_mut() {
                plane.lines_mut().for_each(|line| line.fill(value));
            }
            picture
        };
        let mut score = Score::default();
        values.iter().for_each(|&value| score.push(&flat(100), &flat(value)).unwrap());
        score
    }

    #[test]
    fn quality_is_told_and_drawn() {
        let score = score(&[101, 110, 100, 102]);
        assert!(verdict(&score).contains("4 pictures") && verdict(&score).contains("worst is picture 1"));
        let svg = draw(&score, "A <title>", "one beside the other");
        for text in ["A &lt;title&gt;", "PSNR of luma", "SSIM of luma", "mean 33.94 dB"] {
            assert!(svg.contains(text), "{text} is not in {svg}");
        }
        assert_eq!(svg.matches("<polyline").count(), 2);
    }

    #[test]
    fn axes_hold_all_values() {
        assert_eq!(range([31.0, 44.9].into_iter()), (30.0, 45.0));
        assert_eq!(range([40.0].into_iter()), (40.0, 45.0));
        assert_eq!(range([-3.0, 2.0].into_iter()), (-5.0, 5.0));
        assert_eq!(range([].into_iter()), (0.0, 5.0));
    }

    #[test]
    fn any_number_of_pictures_is_drawn() {
        assert!(verdict(&score(&[])).contains("No pictures"));
        assert!(verdict(&score(&[100, 100])).contains("equal"));
        let mut many = Score::default();
        many.clone_from(&score(&(0..=255).collect::<Vec<u8>>()));
        for drawn in [score(&[]), score(&[100]), score(&[100, 100]), score(&[7]), many] {
            let svg = draw(&drawn, "t", "a");
            assert!(!svg.contains("NaN") && !svg.contains("inf") && svg.ends_with("</svg>\n"), "{svg}");
        }
    }
}
