//! The picture as a file: well-formed, with the words that matter, and of bounded size.

use super::*;
use crate::flight::{Flight, Settings, tcp_packets};
use glassline_media::Time;
use glassline_test_support::xml;
use proptest::prelude::*;

fn summary(basis: Basis, arrivals: impl IntoIterator<Item = (u64, u64)>) -> Summary {
    let mut flight = Flight::new(Settings::new(basis));
    for (micros, bytes) in arrivals {
        flight.push(Time::from_nanos(micros * 1000), bytes, tcp_packets(bytes));
    }
    flight.finish()
}

/// 50 pictures a second of 20 packets each, 2 s.
fn bursty() -> Summary {
    summary(
        Basis::Packets,
        (0..100).flat_map(|picture| (0..20).map(move |n| (picture * 20_000 + n * 12, 1448))),
    )
}

#[test]
fn the_picture_is_well_formed_and_says_what_matters() {
    let notes = ["A note & more.".to_owned()];
    let caption =
        Caption {
            source: "a<b>&\u{1}\".pcap", flow: Some("TCP a → b"), notes: &notes, ..Caption::default()
        };
    let svg = draw(&bursty(), &caption);
    let texts = xml::texts(&svg).unwrap();
    let all = texts.join("\n");
    for words in [
        "Packet flight: a&lt;b&gt;&amp;&quot;.pcap",
        "2,000 packets",
        "TCP a → b",
        "Bursts of up to 29 kB (20 packets).",
        "When the bytes arrive",
        "each 1 ms: up to 232 Mb/s",
        "300 Mb/s",
        "How large the bursts are",
        "100 bursts have up to 29 kB",
        "How long it is quiet in between",
        "A note &amp; more.",
    ] {
        assert!(all.contains(words), "{words:?} is not in\n{all}");
    }
    assert!(svg.contains("prefers-color-scheme: dark") && !svg.contains("href") && !svg.contains("url("));
}

#[test]
fn a_fixed_scale_is_kept_and_what_goes_beyond_is_said() {
    let fixed = |scale: f64| draw(&bursty(), &Caption { scale_bps: Some(scale), ..Caption::default() });
    let low = fixed(1e8);
    assert!(
        low.contains(">100 Mb/s<") && low.contains("Bars are cut off at 100 Mb/s; the highest is 232 Mb/s.")
    );
    assert!(fixed(1e9).contains(">1 Gb/s<") && !fixed(1e9).contains("cut off"));
    // Two streams on one scale have the same axes: all ticks on the left are alike.
    let smooth = summary(Basis::Packets, (0..2000).map(|n| (n * 1000, 1448)));
    let caption = Caption { scale_bps: Some(5e8), ..Caption::default() };
    let ticks = |svg: &str| -> Vec<String> {
        svg.lines()
            .filter(|line| line.contains("class=\"tick\"") && line.contains("x=\"62.0\""))
            .map(Into::into)
            .collect()
    };
    let (a, b) = (ticks(&draw(&smooth, &caption)), ticks(&draw(&bursty(), &caption)));
    assert_eq!(a[..6], b[..6]);
}

#[test]
fn reads_are_not_called_packets() {
    let svg = draw(&summary(Basis::Reads, (0..100).map(|n| (n * 20_000, 60_000))), &Caption::default());
    assert!(svg.contains("100 reads by a TCP receiver") && !svg.contains(" in 4,200 packets"));
}

#[test]
fn a_day_is_no_larger_than_a_second() {
    let day = summary(Basis::Packets, (0..86_400u64).map(|second| (second * 1_000_000, 1000 + second % 7)));
    assert!(draw(&day, &Caption::default()).len() < 250_000);
}

proptest! {
    #[test]
    fn whatever_came_the_picture_is_well_formed(
        arrivals in proptest::collection::vec((0u64..20_000_000, 0u64..1_000_000_000), 0..60),
        source in any::<String>(),
        scale in proptest::option::of(1e3..1e12),
    ) {
        let mut arrivals = arrivals;
        arrivals.sort_unstable();
        let caption = Caption { source: &source, scale_bps: scale, ..Caption::default() };
        let svg = draw(&summary(Basis::Packets, arrivals), &caption);
        let texts = xml::texts(&svg);
        prop_assert!(texts.is_ok(), "{:?}", texts);
        prop_assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}
