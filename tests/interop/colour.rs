//! What samples mean, and their shape, from what FFmpeg makes to what ffprobe finds in what `encode` writes.

use crate::{GLASSLINE, have};
use glassline_test_support::program::{Outcome, Scratch, run};

/// Makes `path` out of FFmpeg's source `input`, whose pictures are then as `filter` says.
fn film(path: &str, input: &str, filter: &str, how: &[&str]) {
    let arguments =
        ["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", input, "-vf", filter, "-frames:v", "5"];
    let outcome = run("ffmpeg", &[&arguments[..], how, &[path]].concat(), 60);
    assert_eq!(outcome.status, Some(0), "{filter}: {}", outcome.stderr);
}

fn encode(input: &str, output: &str) -> Outcome {
    run(GLASSLINE, &["encode", input, output, "--preset", "ultrafast", "--audio", "none"], 120)
}

/// Range, matrix, curve, primaries and shape, as ffprobe calls them.
fn found(path: &str) -> [String; 5] {
    let entries = ["color_range", "color_space", "color_transfer", "color_primaries", "sample_aspect_ratio"];
    entries.map(|entry| {
        let show = format!("stream={entry}");
        let select =
            ["-v", "error", "-select_streams", "v:0", "-show_entries", &show, "-of", "csv=p=0", path];
        run("ffprobe", &select, 30).text().lines().next().unwrap_or_default().trim_end_matches(',').to_owned()
    })
}

/// The first picture's sample in the middle, as red, green and blue.
fn middle(path: &str) -> [u8; 3] {
    let filter = "crop=16:16,scale=1:1:flags=area,format=rgb24";
    let arguments =
        ["-nostdin", "-v", "error", "-i", path, "-frames:v", "1", "-vf", filter, "-f", "rawvideo", "-"];
    let outcome = run("ffmpeg", &arguments, 60);
    outcome.stdout.first_chunk().copied().unwrap_or_else(|| panic!("{path}: {}", outcome.stderr))
}

#[test]
fn a_film_keeps_its_colour_and_shape() {
    if !have("a_film_keeps_its_colour_and_shape", &["ffmpeg", "ffprobe"]) {
        return;
    }
    let scratch = Scratch::new("film-colour");
    let input = scratch.file("in.mkv");
    for (size, pixels, [matrix, curve, primaries], shape) in [
        ("1280x720", "yuv420p", ["bt709", "bt709", "bt709"], "1:1"),
        ("720x576", "yuv420p", ["bt470bg", "smpte170m", "bt470bg"], "16:15"),
        ("720x480", "yuv422p", ["smpte170m", "smpte170m", "smpte170m"], "8:9"),
        ("640x360", "yuv420p10le", ["bt2020nc", "bt2020-10", "bt2020"], "4:3"),
    ] {
        let filter = format!(
            "format={pixels},setparams=colorspace={matrix}:color_trc={curve}:color_primaries={primaries}:range=limited,\
             setsar={}",
            shape.replace(':', "/"),
        );
        film(&input, &format!("testsrc2=size={size}:rate=25"), &filter, &["-c:v", "ffv1"]);
        for name in ["out.ts", "out.mp4"] {
            let output = scratch.file(name);
            let outcome = encode(&input, &output);
            assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
            assert_eq!(found(&output), ["tv", matrix, curve, primaries, shape], "{size} {name}");
        }
    }
}

#[test]
fn y4m_keeps_its_range_and_shape() {
    if !have("y4m_keeps_its_range_and_shape", &["ffmpeg", "ffprobe"]) {
        return;
    }
    let scratch = Scratch::new("y4m-colour");
    let input = scratch.file("in.y4m");
    let picture = [128u8; 64 * 32 * 3 / 2];
    for (tags, range, shape) in [
        ("A16:15 XCOLORRANGE=FULL", "pc", "16:15"),
        ("A4:3 XCOLORRANGE=LIMITED", "tv", "4:3"),
        ("A1:1 XCOLORRANGE=FULL", "pc", "1:1"),
    ] {
        let mut bytes = format!("YUV4MPEG2 W64 H32 F25:1 Ip C420 {tags}\n").into_bytes();
        // A shorter stream does not tell ffprobe its size.
        for _ in 0..50 {
            bytes.extend_from_slice(b"FRAME\n");
            bytes.extend_from_slice(&picture);
        }
        std::fs::write(&input, bytes).unwrap();
        for name in ["out.ts", "out.mp4"] {
            let output = scratch.file(name);
            let outcome = encode(&input, &output);
            assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
            let [found_range, matrix, curve, primaries, found_shape] = found(&output);
            assert_eq!((found_shape.as_str(), matrix.as_str()), (shape, "unknown"), "{tags} {name}");
            assert_eq!((curve.as_str(), primaries.as_str()), ("unknown", "unknown"), "{tags} {name}");
            // The limited range is what is meant where nothing is said.
            let is_right = found_range == range || (range == "tv" && found_range == "unknown");
            assert!(is_right, "{tags} {name}: {found_range}");
        }
    }
}

#[test]
fn rgb_becomes_what_it_is_tagged_as() {
    if !have("rgb_becomes_what_it_is_tagged_as", &["ffmpeg", "ffprobe"]) {
        return;
    }
    let scratch = Scratch::new("rgb-colour");
    let (input, output) = (scratch.file("in.mkv"), scratch.file("out.ts"));
    for (size, matrix, primaries) in [("1280x720", "bt709", "bt709"), ("640x480", "smpte170m", "smpte170m")] {
        // Green differs most between both matrices.
        film(&input, &format!("color=0x20c030:size={size}:rate=25"), "format=rgb24", &["-c:v", "png"]);
        let outcome = encode(&input, &output);
        assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
        let found = found(&output);
        assert_eq!(
            (found[0].as_str(), found[1].as_str(), found[3].as_str()),
            ("tv", matrix, primaries),
            "{size}"
        );
        let shown = middle(&output);
        for (found, meant) in shown.into_iter().zip([0x20u8, 0xc0, 0x30]) {
            assert!(found.abs_diff(meant) <= 6, "{size}: {shown:02x?}");
        }
    }
}

#[test]
fn high_dynamic_range_is_refused_with_what_maps_its_tones() {
    if !have("high_dynamic_range_is_refused_with_what_maps_its_tones", &["ffmpeg", "ffprobe"]) {
        return;
    }
    let scratch = Scratch::new("hdr");
    let (input, output) = (scratch.file("in.mkv"), scratch.file("out.ts"));
    for (curve, name) in [("smpte2084", "PQ"), ("arib-std-b67", "HLG")] {
        let filter = format!(
            "format=yuv420p10le,setparams=colorspace=bt2020nc:color_trc={curve}:color_primaries=bt2020"
        );
        film(&input, "testsrc2=size=320x180:rate=25", &filter, &["-c:v", "ffv1"]);
        let outcome = encode(&input, &output);
        assert_eq!(outcome.status, Some(2), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(name) && outcome.stderr.contains("tonemap"), "{}", outcome.stderr);
    }
}
