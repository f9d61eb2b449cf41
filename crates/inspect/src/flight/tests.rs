//! Streams whose flight is known.

use super::*;
use proptest::prelude::*;

fn flight(settings: Settings, arrivals: impl IntoIterator<Item = (u64, u64)>) -> Summary {
    let mut flight = Flight::new(settings);
    for (micros, bytes) in arrivals {
        flight.push(Time::from_nanos(micros * 1000), bytes, tcp_packets(bytes));
    }
    flight.finish()
}

fn packets(arrivals: impl IntoIterator<Item = (u64, u64)>) -> Summary {
    flight(Settings::new(Basis::Packets), arrivals)
}

/// 50 pictures a second of 20 packets each, `spacing` microseconds apart within a picture; 10 s.
fn pictures(spacing: u64) -> Summary {
    packets((0..500).flat_map(|picture| (0..20).map(move |n| (picture * 20_000 + n * spacing, 1448))))
}

#[test]
fn a_burst_for_each_picture_is_seen_as_such() {
    let Summary { figures, overview, detail } = pictures(12);
    assert_eq!((figures.arrivals, figures.packets, figures.bytes), (10_000, 10_000, 14_480_000));
    let bursts = figures.burst_bytes.unwrap();
    assert_eq!((bursts.count, bursts.p50, bursts.max), (500, 28_960.0, 28_960.0));
    assert_eq!(figures.burst_packets.unwrap().p99, 20.0);
    let largest = figures.largest_burst.unwrap();
    assert_eq!((largest.bytes, largest.packets, largest.at_s, largest.lasts_ms), (28_960, 20, 0.0, 0.228));
    let gaps = figures.gap_ms.unwrap();
    assert_eq!((gaps.count, gaps.min, gaps.max), (499, 19.772, 19.772));
    let rates: Vec<_> = figures.windows.iter().map(|w| (w.window_ms, w.rate_bps.max.round())).collect();
    assert_eq!(rates, [(1, 231_680_000.0), (10, 23_168_000.0), (100, 11_584_000.0)]);
    // A picture waits before a line of 20 Mb/s, less what leaves meanwhile.
    let line = figures.lines.iter().find(|line| line.line_bps == 20_000_000).unwrap();
    assert_eq!(line.queue_bytes, 28_960 - 570);
    assert_eq!(figures.lines[0].line_bps, 20_000_000, "slower ones cannot carry it");
    assert!(
        figures.verdict.starts_with("Bursts of up to 29 kB (20 packets). On a 50 Mb/s line"),
        "{}",
        figures.verdict
    );
    assert_eq!(overview.columns.iter().map(|column| column.bytes).sum::<u64>(), figures.bytes);
    assert_eq!(detail.bytes_per_ms.len(), DETAIL_MS);
    assert_eq!(detail.bytes_per_ms.iter().filter(|bytes| **bytes > 0).count(), 25);
}

#[test]
fn pacing_shows() {
    let paced = pictures(1000).figures;
    assert_eq!(paced.burst_packets.unwrap().max, 1.0);
    assert_eq!(paced.windows[0].rate_bps.max, 1448.0 * 8e3);
    assert_eq!(paced.lines[0].queue_bytes, 1448);
    assert!(
        paced.verdict.starts_with("Smooth: no more than 1.45 kB (1 packet) come at once"),
        "{}",
        paced.verdict
    );
    let unpaced = pictures(12).figures;
    // The same axes, bin by bin, and the same bytes in them.
    for (a, b) in paced.burst_histogram.iter().zip(&unpaced.burst_histogram) {
        assert_eq!((a.from_bytes, a.to_bytes), (b.from_bytes, b.to_bytes));
    }
    let bytes = |figures: &Figures| figures.burst_histogram.iter().map(|bin| bin.bytes).sum::<u64>();
    assert_eq!(bytes(&paced), bytes(&unpaced));
}

#[test]
fn the_gap_that_ends_a_burst_is_a_setting() {
    let arrivals = || (0..100).map(|n| (n * 150, 1000));
    assert_eq!(packets(arrivals()).figures.burst_bytes.unwrap().count, 100);
    let settings = Settings { burst_gap: Duration::from_micros(151), ..Settings::new(Basis::Packets) };
    let figures = flight(settings, arrivals()).figures;
    assert_eq!(figures.burst_bytes.unwrap().count, 1);
    assert!(figures.gap_ms.is_none());
    // A gap that is exactly as long ends it.
    let settings = Settings { burst_gap: Duration::from_micros(150), ..settings };
    assert_eq!(flight(settings, arrivals()).figures.burst_bytes.unwrap().count, 100);
}

#[test]
fn the_start_can_be_left_out() {
    let settings = Settings { skip: Duration::from_millis(500), ..Settings::new(Basis::Reads) };
    let start = (0..50).map(|n| (n * 10, 60_000));
    let figures = flight(settings, start.chain((0..100).map(|n| (600_000 + n * 20_000, 1000)))).figures;
    let left_out = figures.start_left_out;
    assert_eq!((left_out.seconds, left_out.arrivals, left_out.bytes), (0.5, 50, 3_000_000));
    assert_eq!((figures.bytes, figures.basis, figures.duration_s), (100_000, "reads", 1.98));
    assert_eq!(figures.largest_burst.unwrap().bytes, 1000);
}

#[test]
fn nothing_and_one_arrival_are_no_stream_but_no_trouble() {
    for arrivals in [vec![], vec![(5, 0)], vec![(5, 100)]] {
        let summary = packets(arrivals.clone());
        assert_eq!(summary.figures.rate_bps, None);
        assert_eq!(summary.figures.verdict, "Too little came to say anything.", "{arrivals:?}");
    }
}

#[test]
fn silence_however_long_costs_no_time_and_counts() {
    let day = 86_400_000_000;
    let figures = packets([(0, 1000), (10 * day, 5000), (1000 * day, 1000)]).figures;
    let windows = figures.windows[0].rate_bps;
    assert_eq!((windows.count, windows.p99, windows.max), (1000 * 86_400_000 + 1, 0.0, 4e7));
    let latest = packets([(0, 1000), (u64::MAX / 1000, 5000)]);
    assert!(latest.overview.columns.len() <= COLUMNS_MAX);
    assert_eq!(latest.detail.bytes_per_ms.iter().sum::<u64>(), 5000);
}

#[test]
fn stamps_that_go_backward_are_counted_and_count_as_now() {
    let figures = packets([(100, 1000), (200, 1000), (150, 1000), (100_000, 1000)]).figures;
    assert_eq!((figures.backward_stamps, figures.bytes), (1, 4000));
    assert_eq!(figures.duration_s, 0.0999);
}

#[test]
fn the_detail_holds_the_fullest_millisecond_wherever_it_is() {
    for burst in [0, 1, 249, 250, 499, 500, 777, 1000, 4999, 9750, 9999] {
        let steady = (0..10_000u64).map(|ms| (ms * 1000, if ms == burst { 50_000 } else { 100 }));
        let Detail { start, bytes_per_ms } = packets(steady).detail;
        let start = start.as_millis() as u64;
        assert_eq!(start % 100, 0);
        assert_eq!(bytes_per_ms.get((burst - start) as usize), Some(&50_000), "{burst}: from {start}");
        let whole = burst <= 9750;
        assert_eq!(bytes_per_ms.len() == DETAIL_MS, whole, "{burst}: {}", bytes_per_ms.len());
    }
}

proptest! {
    #[test]
    fn every_byte_is_in_each_of_the_figures(
        arrivals in proptest::collection::vec((0u64..3_000_000, 0u64..100_000), 0..300),
        gap in 0u64..2000,
    ) {
        let mut now = 0;
        let arrivals: Vec<_> = arrivals.into_iter().map(|(wait, bytes)| { now += wait / 30; (now, bytes) }).collect();
        let settings = Settings { burst_gap: Duration::from_micros(gap), ..Settings::new(Basis::Packets) };
        let Summary { figures, overview, detail } = flight(settings, arrivals.clone());
        let total: u64 = arrivals.iter().map(|(_, bytes)| bytes).sum();
        prop_assert_eq!(figures.bytes, total);
        prop_assert_eq!(figures.burst_histogram.iter().map(|bin| bin.bytes).sum::<u64>(), total);
        let bursts: u64 = figures.burst_histogram.iter().map(|bin| bin.bursts).sum();
        let gaps: u64 = figures.gap_histogram.iter().map(|bin| bin.gaps).sum();
        prop_assert_eq!(gaps, bursts.saturating_sub(1));
        if let Some(all) = figures.burst_bytes {
            prop_assert_eq!(all.count, bursts);
            prop_assert!((all.mean * all.count as f64 - total as f64).abs() < 1.0);
            prop_assert!(all.min <= all.p50 && all.p50 <= all.p99 && all.p99 <= all.max);
        }
        prop_assert_eq!(figures.burst_packets.map_or(0.0, |all| (all.mean * all.count as f64).round()) as u64, figures.packets);
        for window in &figures.windows {
            let bits = window.rate_bps.mean * window.rate_bps.count as f64 * window.window_ms as f64 / 1e3;
            prop_assert!((bits - total as f64 * 8.0).abs() < 1.0);
        }
        prop_assert_eq!(overview.columns.iter().map(|column| column.bytes).sum::<u64>(), total);
        let peak = overview.columns.iter().map(|column| column.peak_bytes).max().unwrap_or(0);
        prop_assert_eq!(detail.bytes_per_ms.iter().copied().max().unwrap_or(0), peak);
    }

    #[test]
    fn any_times_and_sizes_are_taken(
        arrivals in proptest::collection::vec((any::<u64>(), any::<u32>()), 0..50),
        skip in any::<u64>(),
    ) {
        let settings = Settings { skip: Duration::from_nanos(skip), ..Settings::new(Basis::Packets) };
        let mut flight = Flight::new(settings);
        for (at, bytes) in &arrivals {
            flight.push(Time::from_nanos(*at), u64::from(*bytes), 1);
        }
        let Summary { figures, overview, .. } = flight.finish();
        let total: u64 = arrivals.iter().map(|(_, bytes)| u64::from(*bytes)).sum();
        prop_assert_eq!(figures.bytes + figures.start_left_out.bytes, total);
        prop_assert!(overview.columns.len() <= COLUMNS_MAX);
        prop_assert!(serde_json::to_string(&figures).is_ok());
    }
}
