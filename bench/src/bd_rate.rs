//! Bjøntegaard's measure: by how much the bit rates of two encoders differ where they reach the same quality
//! (G. Bjøntegaard, "Calculation of average PSNR differences between RD-curves", VCEG-M33, 2001).
//!
//! The logarithm of the rate is taken as a function of quality, interpolated by monotone piecewise cubics (F. N.
//! Fritsch, J. Butland, "A method for constructing local monotone piecewise cubic interpolants", 1984, as later
//! versions of the measure have it: the original's one polynomial swings between points that lie far apart), and the
//! mean difference over the qualities that both reach is the result.

/// What an encoder needs for a quality.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Bits a second, or any other measure of size: above zero.
    pub rate: f64,
    /// Decibels; higher is better.
    pub quality: f64,
}

/// How many percent more bits `test` takes than `reference` for the same quality; below zero it takes fewer. `None`
/// where a curve has fewer than two points, where more bits bring no more quality, or where the curves have no
/// quality in common.
pub fn bd_rate(reference: &[Point], test: &[Point]) -> Option<f64> {
    let (one, other) = (Curve::new(reference)?, Curve::new(test)?);
    let low = one.start().max(other.start());
    let high = one.end().min(other.end());
    if low >= high {
        return None;
    }
    let mean = (other.integral(low, high) - one.integral(low, high)) / (high - low);
    Some((mean.exp() - 1.0) * 100.0)
}

/// Logarithm of the rate over quality.
struct Curve {
    quality: Vec<f64>,
    log_rate: Vec<f64>,
    /// Derivative at each point.
    slope: Vec<f64>,
}

impl Curve {
    fn new(points: &[Point]) -> Option<Curve> {
        let mut points = points.to_vec();
        points.sort_by(|a, b| a.quality.total_cmp(&b.quality));
        let sound = |pair: &[Point]| pair[0].quality < pair[1].quality && pair[0].rate < pair[1].rate;
        let finite = |point: &Point| point.rate > 0.0 && point.rate.is_finite() && point.quality.is_finite();
        if points.len() < 2 || !points.iter().all(finite) || !points.windows(2).all(sound) {
            return None;
        }
        let quality: Vec<f64> = points.iter().map(|point| point.quality).collect();
        let log_rate: Vec<f64> = points.iter().map(|point| point.rate.ln()).collect();
        let slope = slopes(&quality, &log_rate);
        Some(Curve { quality, log_rate, slope })
    }

    fn start(&self) -> f64 {
        self.quality[0]
    }

    fn end(&self) -> f64 {
        self.quality[self.quality.len() - 1]
    }

    fn integral(&self, low: f64, high: f64) -> f64 {
        let pieces = self.quality.windows(2).enumerate();
        pieces
            .map(|(at, ends)| {
                let (from, to) = (low.max(ends[0]), high.min(ends[1]));
                if from >= to {
                    return 0.0;
                }
                // Simpson's rule is exact for cubics.
                let middle = self.value(at, f64::midpoint(from, to));
                (to - from) / 6.0 * (self.value(at, from) + 4.0 * middle + self.value(at, to))
            })
            .sum()
    }

    /// In the piece that begins at point `at`: the cubic with the points' values and slopes (Hermite).
    fn value(&self, at: usize, quality: f64) -> f64 {
        let width = self.quality[at + 1] - self.quality[at];
        let t = (quality - self.quality[at]) / width;
        let (t2, t3) = (t * t, t * t * t);
        (2.0 * t3 - 3.0 * t2 + 1.0) * self.log_rate[at]
            + (t3 - 2.0 * t2 + t) * width * self.slope[at]
            + (3.0 * t2 - 2.0 * t3) * self.log_rate[at + 1]
            + (t3 - t2) * width * self.slope[at + 1]
    }
}

/// Derivatives that keep the interpolant as monotone as the points are.
fn slopes(x: &[f64], y: &[f64]) -> Vec<f64> {
    let widths: Vec<f64> = x.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let chords: Vec<f64> =
        y.windows(2).zip(&widths).map(|(pair, width)| (pair[1] - pair[0]) / width).collect();
    if chords.len() == 1 {
        return vec![chords[0]; 2];
    }
    let inside = (1..chords.len()).map(|at| {
        let (before, behind) = (chords[at - 1], chords[at]);
        if before * behind <= 0.0 {
            return 0.0;
        }
        let (near, far) = (2.0 * widths[at] + widths[at - 1], widths[at] + 2.0 * widths[at - 1]);
        (near + far) / (near / before + far / behind)
    });
    let last = chords.len() - 1;
    let mut slopes = vec![end_slope((widths[0], widths[1]), (chords[0], chords[1]))];
    slopes.extend(inside);
    slopes.push(end_slope((widths[last], widths[last - 1]), (chords[last], chords[last - 1])));
    slopes
}

/// By the parabola through three points, kept from overshooting. `widths` and `chords` from the end inwards.
fn end_slope(widths: (f64, f64), chords: (f64, f64)) -> f64 {
    let slope = ((2.0 * widths.0 + widths.1) * chords.0 - widths.0 * chords.1) / (widths.0 + widths.1);
    if slope * chords.0 <= 0.0 {
        0.0
    } else if chords.0 * chords.1 <= 0.0 && slope.abs() > 3.0 * chords.0.abs() {
        3.0 * chords.0
    } else {
        slope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(f64, f64)]) -> Vec<Point> {
        points.iter().map(|&(rate, quality)| Point { rate, quality }).collect()
    }

    const REFERENCE: [(f64, f64); 4] = [(400.0, 32.1), (900.0, 35.4), (2_100.0, 38.6), (5_000.0, 41.3)];

    #[test]
    fn the_same_curve_costs_nothing_and_a_scaled_one_its_factor() {
        let reference = curve(&REFERENCE);
        assert!(bd_rate(&reference, &reference).unwrap().abs() < 1e-9);
        let dearer = curve(&REFERENCE.map(|(rate, quality)| (rate * 1.25, quality)));
        assert!((bd_rate(&reference, &dearer).unwrap() - 25.0).abs() < 1e-9);
        assert!((bd_rate(&dearer, &reference).unwrap() + 20.0).abs() < 1e-9);
    }

    #[test]
    fn the_order_of_points_makes_no_difference() {
        let test = [(380.0, 31.8), (850.0, 35.2), (2_000.0, 38.5), (4_700.0, 41.0)];
        let mut turned = test;
        turned.reverse();
        assert_eq!(bd_rate(&curve(&REFERENCE), &curve(&test)), bd_rate(&curve(&REFERENCE), &curve(&turned)));
    }

    #[test]
    fn straight_lines_are_integrated_exactly() {
        // Logarithm of the rate: quality / 10 and quality / 8 - 1. Between 30 and 40 the mean difference is
        // 35 / 40 - 1.
        let line = |of: fn(f64) -> f64, qualities: &[f64]| {
            curve(&qualities.iter().map(|&quality| (of(quality).exp(), quality)).collect::<Vec<_>>())
        };
        let one = line(|quality| quality / 10.0, &[28.0, 31.0, 36.0, 40.0]);
        let other = line(|quality| quality / 8.0 - 1.0, &[30.0, 33.0, 34.0, 42.0]);
        let expected = ((35.0f64 / 40.0 - 1.0).exp() - 1.0) * 100.0;
        assert!((bd_rate(&one, &other).unwrap() - expected).abs() < 1e-9);
        let two = line(|quality| quality / 10.0, &[30.0, 40.0]);
        assert!(bd_rate(&two, &one).unwrap().abs() < 1e-9, "two points are a line");
    }

    #[test]
    fn interpolation_stays_between_the_points() {
        // A knee, where one polynomial through all points would swing below the lower ones.
        let knee =
            Curve::new(&curve(&[(100.0, 30.0), (101.0, 35.0), (102.0, 36.0), (5_000.0, 37.0)])).unwrap();
        for piece in 0..3 {
            for step in 0..=20 {
                let (from, to) = (knee.quality[piece], knee.quality[piece + 1]);
                let value = knee.value(piece, from + (to - from) * f64::from(step) / 20.0);
                let range = knee.log_rate[piece] - 1e-9..=knee.log_rate[piece + 1] + 1e-9;
                assert!(range.contains(&value), "{piece} {step}: {value} is not in {range:?}");
            }
        }
    }

    #[test]
    fn curves_that_cannot_be_compared_give_nothing() {
        let reference = curve(&REFERENCE);
        let better = curve(&REFERENCE.map(|(rate, quality)| (rate, quality + 20.0)));
        assert_eq!(bd_rate(&reference, &better), None, "no quality in common");
        assert_eq!(bd_rate(&reference, &reference[..1]), None);
        assert_eq!(
            bd_rate(&reference, &curve(&[(900.0, 30.0), (400.0, 35.0)])),
            None,
            "fewer bits, more quality"
        );
        assert_eq!(bd_rate(&reference, &curve(&[(0.0, 30.0), (400.0, 35.0)])), None);
    }
}
