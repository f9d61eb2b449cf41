use super::*;
use proptest::prelude::*;

fn luma(samples: &[u8], is_full_range: bool) -> Luma<'_> {
    Luma { samples, width_px: 160, height_px: 90, stride: 160, is_full_range }
}

fn measured(samples: &[u8]) -> PictureFigures {
    PictureMeter::new().measure(&luma(samples, false), FiguresWanted::ALL).unwrap()
}

#[test]
fn black_is_the_brightest_of_98_percent() {
    assert_eq!(measured(&[16; 160 * 90]).brightest_percent, 0.0);
    assert_eq!(measured(&[235; 160 * 90]).brightest_percent, 100.0);
    let full = PictureMeter::new().measure(&luma(&[16; 160 * 90], true), FiguresWanted::ALL).unwrap();
    assert!((full.brightest_percent - 16.0 / 2.55).abs() < 0.01);
    // A logo of 1 percent, and one of 3.
    let with_logo = |columns: usize| -> Vec<u8> {
        (0..160 * 90).map(|at| if at % 160 < columns && at / 160 < 36 { 235 } else { 17 }).collect()
    };
    assert!(measured(&with_logo(4)).brightest_percent < 1.0);
    assert_eq!(measured(&with_logo(12)).brightest_percent, 100.0);
}

#[test]
fn the_difference_is_that_from_the_picture_before() {
    let mut meter = PictureMeter::new();
    let mut samples = vec![100; 160 * 90];
    let difference = |meter: &mut PictureMeter, samples: &[u8]| {
        meter.measure(&luma(samples, false), FiguresWanted::ALL).unwrap().difference
    };
    assert_eq!(difference(&mut meter, &samples), None);
    assert_eq!(difference(&mut meter, &samples), Some(0.0));
    samples[77] += 1;
    assert_eq!(difference(&mut meter, &samples), Some(1.0 / (160.0 * 90.0)));
    meter.forget();
    assert_eq!(difference(&mut meter, &samples), None);
    // Another size.
    let small = Luma { samples: &samples, width_px: 80, height_px: 90, stride: 160, is_full_range: false };
    assert_eq!(meter.measure(&small, FiguresWanted::ALL).unwrap().difference, None);
}

#[test]
fn what_is_not_wanted_is_not_measured() {
    let samples: Vec<u8> = (0..160 * 90).map(|at| (at * 7919 % 251) as u8).collect();
    let mut meter = PictureMeter::new();
    let mut measure = |sharpness, difference| {
        meter.measure(&luma(&samples, false), FiguresWanted { sharpness, difference }).unwrap()
    };
    let (all, none) = (measure(true, true), measure(false, false));
    assert!(all.sharpness.is_some() && none.sharpness.is_none() && none.difference.is_none());
    assert_eq!((all.brightest_percent, all.cells), (none.brightest_percent, none.cells));
    // What was not looked at is not compared with.
    assert_eq!((measure(true, true).difference, measure(true, true).difference), (None, Some(0.0)));
}

#[test]
fn cells_are_means_of_the_grid() {
    let samples: Vec<u8> = (0..160 * 90).map(|at| if at % 160 < 80 { 16 } else { 235 }).collect();
    let cells = measured(&samples).cells;
    assert_eq!(cells[..8], [0.0; 8]);
    assert_eq!(cells[8..16], [1.0; 8]);
}

proptest! {
    #[test]
    fn any_size_is_measured_or_refused(
        width_px in 0usize..200, height_px in 0usize..100, stride in 0usize..220, length in 0usize..20_000, seed: u8,
    ) {
        let samples: Vec<u8> = (0..length).map(|at| (at as u8).wrapping_mul(seed)).collect();
        let luma = Luma { samples: &samples, width_px, height_px, stride, is_full_range: seed % 2 == 0 };
        let mut meter = PictureMeter::new();
        for _ in 0..2 {
            if let Some(figures) = meter.measure(&luma, FiguresWanted::ALL) {
                prop_assert!((0.0..=100.0).contains(&figures.brightest_percent));
                prop_assert!(figures.cells.iter().all(|cell| (0.0..=1.0).contains(cell)));
            }
        }
    }
}
