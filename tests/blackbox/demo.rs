//! `serve --demo`, and `probe` on it: the whole way in one process.

use crate::{glassline, serve, serve_with};
use glassline_test_support::http::get;
use serde_json::Value;

#[test]
fn the_demo_is_live_and_described() {
    let server = serve(&["--demo"]);
    server.wait_for_pictures("demo");
    let stream = server.stream("demo").expect("listed");
    assert_eq!(stream["live"], true);
    let codecs = stream["codecs"].as_array().expect("codecs");
    let of = |kind: &str| codecs.iter().find(|codec| codec["kind"] == kind).unwrap_or_else(|| panic!("no {kind}: {stream}"));
    let (video, audio) = (of("video"), of("audio"));
    assert_eq!((video["width"].as_u64(), video["height"].as_u64()), (Some(1280), Some(720)));
    assert_eq!(video["frame_rate"].as_f64(), Some(50.0), "{video}");
    assert_eq!((video["name"].as_str(), audio["name"].as_str()), (Some("H.264"), Some("Opus")));
    let codec = video["codec_string"].as_str().unwrap_or_default();
    assert!(codec.starts_with("avc1.") && codec.len() == 11, "{video}");
    assert!(get(server.address(), "/watch/demo").status == 200);
}

#[test]
fn the_demo_is_as_the_configuration_says() {
    let (server, _scratch) = serve_with(
        "[demo]\nenabled = true\nname = 'small'\nsize = '320x180'\nframe_rate = '25'\nbitrate = '500k'\n",
    );
    server.wait_for_pictures("small");
    let stream = server.stream("small").expect("listed");
    let video = &stream["codecs"][0];
    assert_eq!((video["width"].as_u64(), video["height"].as_u64()), (Some(320), Some(180)), "{video}");
    assert!(server.stream("demo").is_none());
}

#[test]
fn probe_sees_what_the_demo_is() {
    let server = serve(&["--demo"]);
    server.wait_for_pictures("demo");
    let outcome = glassline(&["probe", &server.url("/live/demo.ts"), "--json", "--duration", "3s"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let report: Value = serde_json::from_str(&outcome.text()).unwrap_or_else(|error| panic!("{error}: {}", outcome.text()));
    // Wherever in the report they stand.
    assert_eq!(numbers(&report, "continuity_errors"), [0.0], "{report}");
    assert_eq!(numbers(&report, "width"), [1280.0], "{report}");
    assert_eq!(numbers(&report, "height"), [720.0], "{report}");
    let text = report.to_string();
    assert!(text.contains("H.264") && text.contains("Opus"), "{report}");

    let table = glassline(&["probe", &server.url("/live/demo.ts"), "--duration", "1s"]);
    assert_eq!(table.status, Some(0), "{}", table.stderr);
    for word in ["H.264", "1280", "Opus"] {
        assert!(table.text().contains(word), "{word} is not in {}", table.text());
    }
}

/// All numbers under this key, anywhere in a report.
fn numbers(report: &Value, key: &str) -> Vec<f64> {
    match report {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| match value.as_f64() {
                Some(number) if name == key => vec![number],
                _ => numbers(value, key),
            })
            .collect(),
        Value::Array(values) => values.iter().flat_map(|value| numbers(value, key)).collect(),
        _ => Vec::new(),
    }
}
