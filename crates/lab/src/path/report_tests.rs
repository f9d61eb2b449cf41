use super::*;

fn report() -> PathReport {
    let (up, down) = (DirectionRecord::new(28), DirectionRecord::new(28));
    PathReport::new(&up, &down, None, 20_000_000, (0, 0))
}

#[test]
fn of_nothing_all_is_null_with_its_reason() {
    let report = report();
    assert!(report.is_empty());
    let json = serde_json::to_value(&report).unwrap();
    for key in ["bottleneck_bps", "queue_packets", "queue_bytes", "queue_ms", "loss", "reordered", "mtu"] {
        assert!(json["down"][key].is_null(), "{key}: {json:#}");
    }
    for key in ["bottleneck_bps", "queue", "loss", "reordered", "mtu"] {
        assert!(json["up"]["reason"][key].is_string(), "{key}: {json:#}");
    }
    assert!(report.table().contains("not known (no burst was sent)"), "{}", report.table());
}

#[test]
fn a_stream_is_recommended_less_than_the_line_and_half_of_its_queue() {
    let record = DirectionRecord::new(28);
    let findings = |depth| Findings { depth_packets: Some(depth), ..Findings::default() };
    let of = |rate, depth| Recommendation::new(rate, &findings(depth), &record, "down").unwrap();
    let large = of(10e6, 512.0);
    assert_eq!((large.bit_rate_bps, large.pacing_bps, large.burst_bytes), (7_000_000, 9_000_000, 314_368));
    assert_eq!(large.vbv_ms, Some(359));
    assert!(
        large.text.contains("--bitrate 7M --vbv 359ms") && large.text.contains("pacing = \"9M\""),
        "{}",
        large.text
    );
    let small = of(50e6, 16.0);
    assert_eq!(small.vbv_ms, None);
    assert!(small.text.contains("--vbv 1frame --intra-refresh"), "{}", small.text);
    assert_eq!(of(2e6, 5000.0).vbv_ms, Some(1000), "no longer than it is anyway");
    assert!(Recommendation::new(10.0, &findings(9.0), &record, "up").is_none());
}

#[test]
fn rates_are_rounded_down_and_written_as_options() {
    assert_eq!([12.7e6, 1.47e6, 987_654.0].map(round_down), [12_000_000, 1_400_000, 980_000]);
    assert_eq!([12_000_000, 1_400_000].map(in_option), ["12M", "1400k"]);
}
