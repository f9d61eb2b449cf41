//! What people and programs read of streams whose properties are known.

use super::check;
use super::{budget, capture, ivf, table};
use glassline_inspect::transport_stream::{Analysis, Kind, Report, WallClock};
use glassline_media::bitstream::klv::uas;
use glassline_media::container::ts::conformance::Profile;
use glassline_media::container::ts::{DataKind, DataWriter};
use glassline_media::{Time, Utc};
use glassline_test_support::beside;
use glassline_test_support::synthetic::{
    PacketBytes, SLOT_PACKETS, UTC_AT_ZERO, constant_rate, intra_refresh_units,
};

fn analysed(packets: &[PacketBytes], rules: Option<Profile>) -> Report {
    let mut analysis = Analysis::new(Kind::File, Time::ZERO);
    if let Some(rules) = rules {
        analysis.check(rules);
    }
    analysis.push(packets.as_flattened(), Time::ZERO);
    analysis.finish(Time::ZERO);
    analysis.report("test")
}

fn live() -> Report {
    let mut analysis = Analysis::new(Kind::Url, Time::ZERO);
    for (slot, packets) in constant_rate().chunks(SLOT_PACKETS).enumerate() {
        analysis.push(packets.as_flattened(), Time::from_millis(40 * slot as u64));
    }
    analysis.report("http://localhost/live/test.ts")
}

fn intra_refresh() -> Analysis {
    let mut analysis = Analysis::new(Kind::Url, Time::ZERO);
    for (arrival, bytes) in intra_refresh_units() {
        analysis.push(&bytes, arrival);
    }
    analysis
}

#[test]
fn a_broken_rule_is_an_error_and_stands_in_the_table() {
    let report = analysed(&constant_rate(), Some(Profile::Dvb));
    assert!(check::verdict(report.check.as_ref().unwrap()).is_err());
    let text = table::write(&report);
    let row = text.lines().find(|line| line.contains("transport buffer overflow")).unwrap();
    assert!(row.contains("BROKEN") && row.contains("§2.4.2.3"), "{text}");
    assert!(
        text.contains("clock against position") && text.lines().all(|line| line.chars().count() <= 120),
        "{text}"
    );
}

#[test]
fn recovery_points_and_ages_stand_in_the_table() {
    let mut analysis = intra_refresh();
    let text = table::write(&analysis.report("test"));
    assert!(
        text.contains("0, and 3 recovery points") && text.contains("right 4 pictures later, after 1280 ms"),
        "{text}"
    );
    let (at, utc) = (Time::from_millis(5), Utc::from_nanos(UTC_AT_ZERO + 8_000_000));
    analysis.tell_ages_by(WallClock { at, utc, whose: "server", uncertainty_ms: Some(0.25) });
    let text = table::write(&analysis.report("test"));
    assert!(text.contains("video age here") && text.contains("the server's clock (± 0.2 ms)"), "{text}");
}

#[test]
fn the_table_is_aligned_and_shows_the_warnings() {
    let mut packets = constant_rate();
    packets.remove(10 * SLOT_PACKETS + 6);
    let text = table::write(&analysed(&packets, None));
    assert!(text.contains("Video on PID 256: H.264"), "{text}");
    assert!(text.contains("320x240, 4:2:0, 8 bit"), "{text}");
    assert!(text.contains("Warnings\n  - Packets were missing or out of order once"), "{text}");
    let timing: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("  Timing")).take(3).collect();
    assert!(timing.windows(2).all(|pair| pair[0].len() == pair[1].len()), "{timing:#?}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}

/// Every key of a value, each with the path to it.
fn keys(value: &serde_json::Value, out: &mut std::collections::BTreeSet<String>) {
    match value {
        serde_json::Value::Object(map) => map.iter().for_each(|(key, inner)| {
            out.insert(key.clone());
            keys(inner, out);
        }),
        serde_json::Value::Array(items) => items.iter().for_each(|item| keys(item, out)),
        _ => {}
    }
}

#[test]
fn every_key_of_the_json_is_documented() {
    let manual = include_str!("../../../docs/probe.md");
    let mut found = std::collections::BTreeSet::new();
    let live = serde_json::to_value(live()).unwrap();
    keys(&live, &mut found);
    keys(&serde_json::to_value(analysed(&constant_rate(), Some(Profile::Iso))).unwrap(), &mut found);
    let mut klv = DataWriter::new(0x1f0, DataKind::Klv { synchronous: true });
    let mut cues = DataWriter::new(0x1f1, DataKind::Splice);
    let streams = [klv.announced(), cues.announced()];
    let with_data = beside::with_data(&beside::film(0), &streams, None, &mut |_, pts, out| {
        klv.write(&uas::Set::default().write(), Some(pts), out);
        cues.write(beside::PLACEMENT_START, None, out);
    });
    let with_data = analysed(with_data.as_chunks().0, None);
    assert!(with_data.streams[1].data.as_ref().is_some_and(|data| data.cues.len() == 1));
    keys(&serde_json::to_value(with_data).unwrap(), &mut found);
    let mut aged = intra_refresh();
    let (at, utc) = (Time::ZERO, Utc::from_nanos(UTC_AT_ZERO));
    aged.tell_ages_by(WallClock { at, utc, whose: "local", uncertainty_ms: None });
    keys(&serde_json::to_value(aged.report("test")).unwrap(), &mut found);
    keys(&serde_json::to_value(budget::tests::report()).unwrap(), &mut found);
    let capture = capture::tests::report();
    keys(&serde_json::to_value(capture).unwrap(), &mut found);
    keys(&serde_json::to_value(ivf::tests::report()).unwrap(), &mut found);
    for part in [&AUDIO_KEYS[..], &AUDIO_VIDEO_KEYS[..]] {
        found.extend(part.iter().map(|key| (*key).to_owned()));
    }
    for key in found {
        assert!(manual.contains(&format!("`{key}`")), "docs/probe.md lacks {key}");
    }
}

/// Keys that the synthetic stream has no use for.
const AUDIO_KEYS: [&str; 3] = ["rate_hz", "channels", "profile"];
const AUDIO_VIDEO_KEYS: [&str; 2] = ["start_ms", "interleave_ms"];
