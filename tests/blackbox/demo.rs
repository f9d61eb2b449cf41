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
    let of = |kind: &str| {
        codecs.iter().find(|codec| codec["kind"] == kind).unwrap_or_else(|| panic!("no {kind}: {stream}"))
    };
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
    let report: Value =
        serde_json::from_str(&outcome.text()).unwrap_or_else(|error| panic!("{error}: {}", outcome.text()));
    assert_eq!(report["schema"], 1);
    let errors = report["errors"].as_object().expect("errors");
    assert!(!errors.is_empty() && errors.values().all(|count| count == 0), "{errors:?}");
    let streams = report["streams"].as_array().expect("streams");
    let of = |kind: &str| {
        streams.iter().find(|stream| stream["kind"] == kind).unwrap_or_else(|| panic!("no {kind}: {report}"))
    };
    let (video, audio) = (of("video"), of("audio"));
    assert_eq!((video["codec"].as_str(), audio["codec"].as_str()), (Some("H.264"), Some("Opus")));
    let picture = &video["video"];
    assert_eq!(
        (picture["width_px"].as_u64(), picture["height_px"].as_u64()),
        (Some(1280), Some(720)),
        "{picture}"
    );
    assert_eq!(
        (picture["declared_frame_rate_hz"].as_f64(), picture["b_pictures"].as_u64()),
        (Some(50.0), Some(0))
    );
    assert_eq!(picture["key_frame_interval_frames"]["max"].as_f64(), Some(50.0), "{picture}");
    assert_eq!(audio["audio"]["rate_hz"], 48000);
    let (seconds, rate) = (report["duration_s"].as_f64(), report["bitrate_bps"].as_f64());
    assert!(seconds > Some(1.0) && rate > Some(1e6) && rate < Some(8e6), "{seconds:?} s, {rate:?} bit/s");
    assert!(report["time_to_first"]["picture_ms"].as_f64() > Some(0.0), "{report}");

    let table = glassline(&["probe", &server.url("/live/demo.ts"), "--duration", "1s"]);
    assert_eq!(table.status, Some(0), "{}", table.stderr);
    for word in ["H.264", "1280", "Opus"] {
        assert!(table.text().contains(word), "{word} is not in {}", table.text());
    }
}
