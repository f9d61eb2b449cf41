use super::*;

#[test]
fn a_slope_is_that_of_all_values() {
    assert_eq!(slope(&[1.0, 3.0, 5.0, 7.0]), Some(2.0));
    assert_eq!(slope(&[1.0]), None);
    assert_eq!(slope(&[3.0, 3.0]), None, "packets that arrive all at once");
    // Four at a time: as steep as one by one.
    let lumps: Vec<f64> = (0..40).map(|place| f64::from(place / 4 * 4)).collect();
    assert!((slope(&lumps).unwrap() - 1.0).abs() < 0.02);
}

#[test]
fn a_median_is_the_middle() {
    assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
    assert_eq!(median([4.0, 1.0].into_iter()), Some(2.5));
    assert_eq!(median(std::iter::empty()), None);
}

#[test]
fn rates_are_told_in_three_digits() {
    assert_eq!([1.5e6, 12.34e6, 250e6].map(in_megabits), ["1.50 Mbit/s", "12.3 Mbit/s", "250 Mbit/s"]);
}

#[test]
fn nothing_sent_and_nothing_arrived_are_told_apart() {
    let mut record = DirectionRecord::new(28);
    assert!(analyse(&record).rate_bps.unwrap_err().contains("no burst was sent"));
    record.bursts.push(BurstRecord { spec: super::super::TrainSpec::burst(4), ..BurstRecord::default() });
    assert!(analyse(&record).rate_bps.unwrap_err().contains("has arrived"));
}
