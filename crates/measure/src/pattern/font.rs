//! Letters as strokes: each is a few lines and arcs, drawn with a round pen at any size.

use super::canvas::Mask;

/// A piece of a letter. Units: a letter is 6 high, y runs down, angles are degrees clockwise from the right.
enum Stroke {
    /// Points joined by straight lines; a single one is a dot.
    Line(&'static [(f32, f32)]),
    /// Centre x and y, radius x and y, first and last angle.
    Arc(f32, f32, f32, f32, f32, f32),
}
use Stroke::{Arc, Line};

/// Height of the letters, between the middles of the strokes.
const HEIGHT: f32 = 6.0;
/// Half the width of the pen.
const PEN: f32 = 0.42;
/// Between the strokes of two letters.
const GAP: f32 = 1.0;

/// A letter's width between the middles of its outer strokes, and its strokes. Digits are equally wide, so that
/// a running clock does not tremble. What has no letter is a space.
#[rustfmt::skip]
fn letter(character: char) -> (f32, &'static [Stroke]) {
    match character {
        '0' => (3.4, &[Arc(1.7, 1.7, 1.7, 1.7, 180.0, 360.0), Line(&[(3.4, 1.7), (3.4, 4.3)]),
                       Arc(1.7, 4.3, 1.7, 1.7, 0.0, 180.0), Line(&[(0.0, 4.3), (0.0, 1.7)])]),
        '1' => (3.4, &[Line(&[(0.5, 1.3), (1.9, 0.0), (1.9, 6.0)])]),
        '2' => (3.4, &[Arc(1.7, 1.7, 1.7, 1.7, 185.0, 395.0), Line(&[(3.09, 2.67), (0.0, 6.0), (3.4, 6.0)])]),
        '3' => (3.4, &[Arc(1.6, 1.5, 1.6, 1.5, 205.0, 450.0), Arc(1.6, 4.5, 1.8, 1.5, -90.0, 155.0)]),
        '4' => (3.4, &[Line(&[(2.5, 6.0), (2.5, 0.0), (0.0, 4.3), (3.4, 4.3)])]),
        '5' => (3.4, &[Line(&[(3.1, 0.0), (0.5, 0.0), (0.22, 2.96)]), Arc(1.6, 4.15, 1.8, 1.85, -140.0, 148.0)]),
        '6' => (3.4, &[Arc(1.7, 4.2, 1.7, 1.8, 0.0, 360.0), Arc(2.9, 4.2, 2.9, 4.2, 180.0, 268.0)]),
        '7' => (3.4, &[Line(&[(0.0, 0.0), (3.4, 0.0), (1.2, 6.0)])]),
        '8' => (3.4, &[Arc(1.7, 1.45, 1.5, 1.45, 0.0, 360.0), Arc(1.7, 4.45, 1.7, 1.55, 0.0, 360.0)]),
        '9' => (3.4, &[Arc(1.7, 1.8, 1.7, 1.8, 0.0, 360.0), Arc(0.5, 1.8, 2.9, 4.2, 0.0, 88.0)]),
        ':' => (0.0, &[Line(&[(0.0, 1.8)]), Line(&[(0.0, 4.2)])]),
        '.' => (0.0, &[Line(&[(0.0, 6.0)])]),
        '/' => (2.4, &[Line(&[(0.0, 6.0), (2.4, 0.0)])]),
        'x' => (2.4, &[Line(&[(0.0, 2.6), (2.4, 5.0)]), Line(&[(2.4, 2.6), (0.0, 5.0)])]),
        'A' => (3.8, &[Line(&[(0.0, 6.0), (1.9, 0.0), (3.8, 6.0)]), Line(&[(0.65, 4.0), (3.15, 4.0)])]),
        'C' => (3.4, &[Arc(1.9, 3.0, 1.9, 3.0, -48.0, -312.0)]),
        'E' => (3.0, &[Line(&[(3.0, 0.0), (0.0, 0.0), (0.0, 6.0), (3.0, 6.0)]), Line(&[(0.0, 3.0), (2.5, 3.0)])]),
        'F' => (3.0, &[Line(&[(3.0, 0.0), (0.0, 0.0), (0.0, 6.0)]), Line(&[(0.0, 3.0), (2.5, 3.0)])]),
        'G' => (3.8, &[Arc(1.9, 3.0, 1.9, 3.0, -48.0, -360.0), Line(&[(3.8, 3.0), (2.2, 3.0)])]),
        'I' => (0.0, &[Line(&[(0.0, 0.0), (0.0, 6.0)])]),
        'L' => (2.9, &[Line(&[(0.0, 0.0), (0.0, 6.0), (2.9, 6.0)])]),
        'M' => (4.2, &[Line(&[(0.0, 6.0), (0.0, 0.0), (2.1, 3.8), (4.2, 0.0), (4.2, 6.0)])]),
        'N' => (3.5, &[Line(&[(0.0, 6.0), (0.0, 0.0), (3.5, 6.0), (3.5, 0.0)])]),
        'P' => (3.3, &[Line(&[(1.6, 3.3), (0.0, 3.3)]), Line(&[(0.0, 6.0), (0.0, 0.0), (1.6, 0.0)]),
                       Arc(1.6, 1.65, 1.7, 1.65, -90.0, 90.0)]),
        'R' => (3.4, &[Line(&[(1.6, 3.3), (0.0, 3.3)]), Line(&[(0.0, 6.0), (0.0, 0.0), (1.6, 0.0)]),
                       Arc(1.6, 1.65, 1.7, 1.65, -90.0, 90.0), Line(&[(1.7, 3.3), (3.4, 6.0)])]),
        'S' => (3.4, &[Arc(1.7, 1.5, 1.6, 1.5, -25.0, -270.0), Arc(1.7, 4.5, 1.7, 1.5, -90.0, 155.0)]),
        'T' => (3.6, &[Line(&[(0.0, 0.0), (3.6, 0.0)]), Line(&[(1.8, 0.0), (1.8, 6.0)])]),
        'U' => (3.4, &[Line(&[(0.0, 0.0), (0.0, 4.2)]), Arc(1.7, 4.2, 1.7, 1.8, 180.0, 0.0),
                       Line(&[(3.4, 4.2), (3.4, 0.0)])]),
        _ => (0.6, &[]),
    }
}

/// Width that `text` takes where its letters are `height_px` high, rounded up.
pub(super) fn width_px(text: &str, height_px: f32) -> u32 {
    let units: f32 = text.chars().map(|character| letter(character).0 + 2.0 * PEN + GAP).sum();
    ((units - GAP).max(0.0) * unit_px(height_px)).ceil() as u32
}

/// From the left edge of `character` to that of the next.
pub(super) fn advance_px(character: char, height_px: f32) -> f32 {
    (letter(character).0 + 2.0 * PEN + GAP) * unit_px(height_px)
}

/// The coverage of one character, its upper left corner `shift_px` right of the mask's.
pub(super) fn mask(character: char, height_px: f32, shift_px: f32) -> Mask {
    let unit = unit_px(height_px);
    let (width, strokes) = letter(character);
    let segments: Vec<_> = strokes.iter().flat_map(segments).collect();
    let (columns, rows) = (((width + 2.0 * PEN) * unit + shift_px).ceil() as u32, height_px.ceil() as u32);
    Mask::of(columns, rows, |x, y| {
        let at = ((x - shift_px) / unit - PEN, y / unit - PEN);
        let nearest = segments.iter().map(|&(a, b)| distance(at, a, b)).fold(f32::INFINITY, f32::min);
        0.5 + (PEN - nearest) * unit
    })
}

fn unit_px(height_px: f32) -> f32 {
    height_px / (HEIGHT + 2.0 * PEN)
}

type Point = (f32, f32);

fn segments(stroke: &Stroke) -> Vec<(Point, Point)> {
    const STEPS: u32 = 24;
    let points: Vec<Point> = match *stroke {
        Line(points) => points.to_vec(),
        Arc(x, y, across, down, from, to) => (0..=STEPS)
            .map(|step| {
                let angle = (from + (to - from) * step as f32 / STEPS as f32).to_radians();
                (x + across * angle.cos(), y + down * angle.sin())
            })
            .collect(),
    };
    if let [dot] = points[..] {
        vec![(dot, dot)]
    } else {
        points.windows(2).map(|pair| (pair[0], pair[1])).collect()
    }
}

fn distance(at: Point, from: Point, to: Point) -> f32 {
    let (along, offset) = ((to.0 - from.0, to.1 - from.1), (at.0 - from.0, at.1 - from.1));
    let length = along.0 * along.0 + along.1 * along.1;
    let nearest =
        if length > 0.0 { ((offset.0 * along.0 + offset.1 * along.1) / length).clamp(0.0, 1.0) } else { 0.0 };
    (offset.0 - nearest * along.0).hypot(offset.1 - nearest * along.1)
}
