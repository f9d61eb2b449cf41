//! Recordings exported to files, beside FFmpeg.

use crate::recordings::{made, record, transport_stream};
use crate::{GLASSLINE, have};
use glassline_media::Utc;
use glassline_test_support::program::{Scratch, run};
use std::collections::BTreeMap;
use std::path::Path;

/// 2026-05-04T03:02:01Z.
const BEGUN: Utc = Utc::from_nanos(1_777_863_721_000_000_000);

/// What is told of an export, which replaces a former one; its status says whether something is missing.
fn export(scratch: &Scratch, arguments: &[&str]) -> serde_json::Value {
    let store = format!("file:{}", scratch.path().join("store").display());
    let all = [&["export"], arguments, &["--store", &store, "--json", "--force"]].concat();
    let done = run(GLASSLINE, &all, 60);
    assert!(matches!(done.status, Some(0 | 3)), "{}", done.stderr);
    let told: serde_json::Value = serde_json::from_str(&done.text()).unwrap();
    assert_eq!(told["whole"], done.status == Some(0), "{told}");
    told
}

/// FFmpeg decodes all of it, and complains of nothing.
fn expect_decodable(file: &str) {
    let played = run("ffmpeg", &["-v", "error", "-xerror", "-i", file, "-map", "0", "-f", "null", "-"], 60);
    assert_eq!((played.status, played.stderr.as_str()), (Some(0), ""), "{file}");
}

/// What ffprobe says of a file's streams, by their kind: when it begins and how long it lasts.
fn streams(file: &str) -> BTreeMap<String, (f64, f64)> {
    let arguments =
        ["-v", "error", "-show_entries", "stream=codec_type,start_time,duration", "-of", "json", file];
    let probed: serde_json::Value = serde_json::from_str(&run("ffprobe", &arguments, 60).text()).unwrap();
    let number = |stream: &serde_json::Value, field: &str| {
        stream[field].as_str().and_then(|text| text.parse().ok()).unwrap_or(0.0)
    };
    let of = |stream: &serde_json::Value| {
        let kind = stream["codec_type"].as_str().unwrap().to_owned();
        (kind, (number(stream, "start_time"), number(stream, "duration")))
    };
    probed["streams"].as_array().unwrap().iter().map(of).collect()
}

/// When each packet is presented, by a hash of its bytes.
fn packets(file: &str, kind: &str) -> Vec<(String, f64)> {
    let arguments = [
        "-v",
        "error",
        "-select_streams",
        kind,
        "-show_packets",
        "-show_data_hash",
        "md5",
        "-show_entries",
        "packet=pts_time,data_hash",
        "-of",
        "json",
        file,
    ];
    let probed: serde_json::Value = serde_json::from_str(&run("ffprobe", &arguments, 60).text()).unwrap();
    let packets = probed["packets"].as_array().unwrap();
    packets
        .iter()
        .filter_map(|packet| {
            let time = packet["pts_time"].as_str()?.parse().ok()?;
            Some((packet["data_hash"].as_str()?.to_owned(), time))
        })
        .collect()
}

/// A rendition's objects, one behind the other: what was recorded, as FFmpeg reads it.
fn recorded_file(scratch: &Scratch, rendition: &str) -> String {
    let name = std::fs::read_dir(scratch.path().join("store/hall")).unwrap().next().unwrap().unwrap().path();
    let folder = name.join(rendition);
    let mut paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort_by_key(|path| (path.extension().is_some_and(|it| it == "m4s"), path.clone()));
    let bytes: Vec<u8> = paths.iter().flat_map(|path| std::fs::read(path).unwrap()).collect();
    scratch.write(&format!("{rendition}.mp4"), bytes)
}

/// By how much sound is later to the pictures in the file than it was recorded: all packets of the file are looked at.
fn shift(scratch: &Scratch, file: &str) -> f64 {
    let moved = |kind: &str, rendition: &str| {
        let recorded: BTreeMap<_, _> =
            packets(&recorded_file(scratch, rendition), kind).into_iter().collect();
        let moved: Vec<f64> = packets(file, kind)
            .into_iter()
            .filter_map(|(hash, time)| recorded.get(&hash).map(|was| time - was))
            .collect();
        assert!(moved.len() > 10, "{file}: {kind}: {}", moved.len());
        let (least, most) =
            moved.iter().fold((f64::MAX, f64::MIN), |(least, most), it| (least.min(*it), most.max(*it)));
        assert!(most - least < 0.001, "{file}: all of {kind} are moved alike: {least} {most}");
        moved[moved.len() / 2]
    };
    moved("a:0", "audio") - moved("v:0", "video")
}

/// Whether all that is told stands in front of the bytes.
fn is_fast_start(file: &str) -> bool {
    let bytes = std::fs::read(file).unwrap();
    let place = |name: &[u8]| bytes.windows(4).position(|window| window == name).unwrap();
    place(b"moov") < place(b"mdat")
}

#[test]
fn ffmpeg_decodes_exports_of_any_time_and_sound_is_where_it_was() {
    let test = "ffmpeg_decodes_exports_of_any_time_and_sound_is_where_it_was";
    if !have(test, &["ffmpeg", "ffprobe"]) {
        return;
    }
    for (name, options) in [
        ("plain", "-bf 0 -c:a aac"),
        ("reordered", "-bf 3 -refs 3 -c:a aac"),
        ("opus", "-bf 3 -refs 3 -c:a libopus"),
    ] {
        let scratch = Scratch::new(&format!("export-{name}"));
        record(&scratch.path().join("store"), "hall", BEGUN, &[&made(24, "320x180", options)]);
        let (mp4, ts) = (scratch.file("out.mp4"), scratch.file("out.ts"));
        let told = export(&scratch, &["hall", &mp4]);
        assert!((told["seconds"].as_f64().unwrap() - 24.0).abs() < 0.1, "{told}");
        expect_decodable(&mp4);
        assert!(is_fast_start(&mp4));
        assert!(shift(&scratch, &mp4).abs() < 0.001, "{name}: {}", shift(&scratch, &mp4));
        for (from, to) in
            [("2026-05-04T03:02:08.3Z", "2026-05-04T03:02:15.7Z"), ("1777863725", "1777863726.5")]
        {
            let told = export(&scratch, &["hall", &mp4, "--from", from, "--to", to]);
            expect_decodable(&mp4);
            assert!(shift(&scratch, &mp4).abs() < 0.001, "{name}: {from}: {}", shift(&scratch, &mp4));
            let found = streams(&mp4);
            assert!(found["video"].0.abs() < 0.001, "{found:?}");
            for (kind, (begin, lasts)) in &found {
                let end = begin + lasts;
                assert!((end - told["seconds"].as_f64().unwrap()).abs() < 0.05, "{kind}: {found:?} {told}");
            }
            let told = export(&scratch, &["hall", &ts, "--from", from, "--to", to]);
            expect_decodable(&ts);
            let found = streams(&ts);
            assert!((found["video"].1 - told["seconds"].as_f64().unwrap()).abs() < 0.3, "{found:?} {told}");
            assert!((found["video"].0 - found["audio"].0).abs() < 0.1, "{found:?}");
        }
    }
}

#[test]
fn ffmpeg_decodes_an_export_over_a_discontinuity_and_a_hole() {
    let test = "ffmpeg_decodes_an_export_over_a_discontinuity_and_a_hole";
    if !have(test, &["ffmpeg", "ffprobe"]) {
        return;
    }
    let scratch = Scratch::new("export-seams");
    let one = transport_stream(10, "-bf 2");
    let other = made(8, "640x360", "-bf 0 -profile:v baseline -c:a aac");
    let store = scratch.path().join("store");
    record(&store, "hall", BEGUN, &[&one, &other]);
    record(&store, "hall", Utc::from_nanos(BEGUN.as_nanos() + 60_000_000_000), &[&one]);
    let (mp4, ts) = (scratch.file("out.mp4"), scratch.file("out.ts"));
    for file in [&mp4, &ts] {
        let told = export(&scratch, &["hall", file, "--from", "2026-05-04T03:02:00Z"]);
        expect_decodable(file);
        assert!((told["seconds"].as_f64().unwrap() - 28.0).abs() < 0.3, "{told}");
        // What was asked for before it began, and between the two.
        assert_eq!(told["missing"].as_array().unwrap().len(), 2, "{told}");
        let found = streams(file);
        assert!((found["video"].1 - found["audio"].1).abs() < 0.2, "{found:?}");
    }
    // A segment that someone has deleted.
    let session = std::fs::read_dir(store.join("hall")).unwrap().next().unwrap().unwrap().path();
    let gone = std::fs::read_dir(session.join("audio")).unwrap().map(|entry| entry.unwrap().path());
    std::fs::remove_file(gone.filter(|path| path.extension().is_some_and(|it| it == "m4s")).max().unwrap())
        .unwrap();
    for file in [&mp4, &ts] {
        let told = export(&scratch, &["hall", file, "--from", "2026-05-04T03:02:00Z"]);
        assert_eq!(told["lost_objects"], 1);
        let missing: Vec<_> = told["missing"].as_array().unwrap().iter().map(|it| &it["rendition"]).collect();
        assert!(missing.contains(&&serde_json::json!("audio")), "{told}");
        expect_decodable(file);
    }
    // And a hole in pictures, in the middle: sound goes on.
    let gone = std::fs::read_dir(session.join("video")).unwrap().map(|entry| entry.unwrap().path());
    std::fs::remove_file(gone.filter(|path| path.ends_with("2.m4s")).max().unwrap()).unwrap();
    for file in [&mp4, &ts] {
        let told = export(&scratch, &["hall", file, "--from", "2026-05-04T03:02:00Z"]);
        assert_eq!(told["lost_objects"], 2);
        assert!(told["missing"].as_array().unwrap().iter().any(|it| it["rendition"] == "video"), "{told}");
        expect_decodable(file);
        assert!((told["seconds"].as_f64().unwrap() - 28.0).abs() < 0.3, "{told}");
    }
}

#[test]
fn an_export_that_cannot_be_says_why() {
    let scratch = Scratch::new("export-words");
    let out = scratch.file("out.mp4");
    std::fs::create_dir(scratch.path().join("store")).unwrap();
    let store = format!("file:{}", scratch.path().join("store").display());
    let refused = |arguments: &[&str]| {
        let done = run(GLASSLINE, &[&["export"], arguments].concat(), 20);
        (done.status, done.stderr)
    };
    let (status, words) = refused(&["hall", &out, "--store", &store]);
    assert!(status == Some(1) && words.contains("nothing of hall is recorded"), "{words}");
    std::fs::write(&out, "former").unwrap();
    let (status, words) = refused(&["hall", &out, "--store", &store]);
    assert!(status == Some(2) && words.contains("exists; give another file, or --force"), "{words}");
    std::fs::remove_file(&out).unwrap();
    let (status, words) = refused(&["hall", "out.mkv", "--store", &store]);
    assert!(status == Some(2) && words.contains(".mp4 or .ts"), "{words}");
    let (status, words) = refused(&["hall", &out, "--store", &store, "--from", "yesterday"]);
    assert!(status == Some(2) && words.contains("is no time"), "{words}");
    let (status, words) = refused(&["hall", &out, "--store", &store, "--from", "-1m", "--to", "-2m"]);
    assert!(status == Some(2) && words.contains("not later"), "{words}");
    let (status, words) = refused(&["../hall", &out, "--store", &store]);
    assert!(status == Some(2) && words.contains("a stream's name"), "{words}");
    let (status, words) = refused(&["hall", &out, "--store", "ftp://x"]);
    assert!(status == Some(2) && words.contains("file:DIR or s3://"), "{words}");
    let (status, words) = refused(&["hall", &out, "--store", "file:/nonexistent"]);
    assert!(status == Some(1) && words.contains("/nonexistent"), "{words}");
    assert!(!Path::new(&out).exists());
}

/// Frames as FFmpeg decodes them, with their times: the brightness of each.
fn frames(file: &str) -> Vec<(f64, f64)> {
    let filter = "signalstats,metadata=print:key=lavfi.signalstats.YAVG:file=-";
    let arguments = ["-v", "error", "-i", file, "-map", "v:0", "-vf", filter, "-f", "null", "-"];
    let shown = run("ffmpeg", &arguments, 60);
    assert_eq!((shown.status, shown.stderr.as_str()), (Some(0), ""), "{file}");
    let (mut found, mut time) = (Vec::new(), 0.0);
    for line in shown.text().lines() {
        if let Some((_, at)) = line.split_once("pts_time:") {
            time = at.trim().parse().unwrap();
        } else if let Some((_, level)) = line.split_once("YAVG=") {
            found.push((time, level.trim().parse().unwrap()));
        }
    }
    found
}

#[test]
fn an_exact_export_begins_with_the_picture_that_was_asked_for() {
    let test = "an_exact_export_begins_with_the_picture_that_was_asked_for";
    if !have(test, &["ffmpeg", "ffprobe"]) {
        return;
    }
    for (name, options) in [
        ("plain", "-bf 0 -c:a aac"),
        ("reordered", "-bf 3 -refs 3 -c:a aac"),
        // A group of five seconds goes over two segments and more.
        ("long", "-bf 2 -g 125 -c:a libopus"),
        ("baseline", "-bf 0 -profile:v baseline -c:a aac"),
    ] {
        let scratch = Scratch::new(&format!("export-exact-{name}"));
        record(&scratch.path().join("store"), "hall", BEGUN, &[&made(14, "320x180", options)]);
        let (exact, copied) = (scratch.file("exact.mp4"), scratch.file("copied.mp4"));
        // What was recorded at each time: of the copy, from its key frame on.
        for (from, to, begins) in [
            // Between two pictures; at one; with the end in the same group; with no picture left before the next key frame.
            ("1777863724.43", "1777863729.5", 3.44),
            ("1777863727.36", "1777863731", 6.36),
            ("1777863727.2", "1777863727.6", 6.2),
            ("1777863725.97", "1777863728", 5.0),
        ] {
            let span = ["--from", from, "--to", to];
            let told = export(&scratch, &[&["hall", &copied][..], &span].concat());
            let copied_from = told["from"].as_str().unwrap().to_owned();
            let told = export(&scratch, &[&["hall", &exact, "--exact"][..], &span].concat());
            assert_eq!(told["whole"], true, "{name} {from}: {told}");
            expect_decodable(&exact);
            assert!(is_fast_start(&exact));
            let begun = utc_seconds(told["from"].as_str().unwrap()) - seconds_of(BEGUN);
            assert!((begun - begins).abs() < 0.001, "{name} {from}: {begun} {told}");
            let lasts = told["seconds"].as_f64().unwrap();
            let wanted = to.parse::<f64>().unwrap() - seconds_of(BEGUN) - begins;
            // At the end of a segment the last frame of sound is whole.
            assert!((-0.001..0.022).contains(&(lasts - wanted)), "{name} {from}: {lasts} {wanted}");
            // Pictures and sound begin together at 0 and end together.
            for (kind, (begin, own)) in &streams(&exact) {
                assert!(begin.abs() < 0.03, "{name} {from}: {kind} begins at {begin}");
                assert!((begin + own - lasts).abs() < 0.05, "{name} {from}: {kind} ends at {}", begin + own);
            }
            // Each picture is the one that was recorded then.
            let behind = begins - (utc_seconds(&copied_from) - seconds_of(BEGUN));
            let (all, mut own) = (frames(&copied), frames(&exact));
            own.retain(|(time, _)| *time < wanted - 0.001);
            let expected: Vec<_> = all.iter().filter(|(time, _)| *time > behind - 0.001).collect();
            assert_eq!(own.len(), (wanted / 0.04 - 0.001).ceil() as usize, "{name} {from}: {lasts}");
            for ((time, level), (then, was)) in own.iter().zip(expected) {
                assert!((time - (then - behind)).abs() < 0.001, "{name} {from}: {time} {then}");
                assert!((level - was).abs() < 0.6, "{name} {from}: at {time} {level}, and it was {was}");
            }
            // Behind the first group pictures are those that were recorded, and sound is where it was.
            let group = if name == "long" { 5.0 } else { 1.0 };
            let next_key = (begins / group).ceil() * group;
            if begins + lasts > next_key + 1.0 {
                assert!(shift(&scratch, &exact).abs() < 0.001, "{name} {from}: {}", shift(&scratch, &exact));
            }
        }
    }
}

/// The PSNR of the worst picture of a file's first seconds to those of another one from a time on.
fn worst_psnr(file: &str, other: &str, from: f64, seconds: f64) -> f64 {
    let (from, seconds) = (from.to_string(), seconds.to_string());
    let arguments = [
        "-v",
        "info",
        "-t",
        &seconds,
        "-i",
        file,
        "-ss",
        &from,
        "-t",
        &seconds,
        "-i",
        other,
        "-lavfi",
        "[0:v]setpts=PTS-STARTPTS[a];[1:v]setpts=PTS-STARTPTS[b];[a][b]psnr",
        "-f",
        "null",
        "-",
    ];
    let compared = run("ffmpeg", &arguments, 60);
    let told =
        compared.stderr.lines().rfind(|line| line.contains("PSNR")).expect("a line of PSNR").to_owned();
    told.split("min:").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).expect("a number")
}

#[test]
fn an_exact_export_looks_like_what_was_recorded_to_the_end_of_its_group() {
    let test = "an_exact_export_looks_like_what_was_recorded_to_the_end_of_its_group";
    if !have(test, &["ffmpeg", "ffprobe"]) {
        return;
    }
    // A long group at a low rate, with a loop filter: what is predicted from other pictures than viewers see drifts.
    let scratch = Scratch::new("export-exact-drift");
    let options = "-preset medium -b:v 200k -g 200 -bf 2 -c:a aac";
    record(&scratch.path().join("store"), "hall", BEGUN, &[&made(12, "320x180", options)]);
    let (exact, copied) = (scratch.file("exact.mp4"), scratch.file("copied.mp4"));
    let span = ["--from", "1777863722.02", "--to", "1777863730.9"];
    export(&scratch, &[&["hall", &copied][..], &span].concat());
    let told = export(&scratch, &[&["hall", &exact, "--exact"][..], &span].concat());
    let begun = utc_seconds(told["from"].as_str().unwrap()) - seconds_of(BEGUN);
    assert!((begun - 1.04).abs() < 0.001, "{told}");
    let worst = worst_psnr(&exact, &copied, begun, 6.9);
    assert!(worst > 36.0, "{worst} dB");
}

fn seconds_of(utc: Utc) -> f64 {
    utc.as_nanos() as f64 / 1e9
}

/// A time of RFC 3339, in seconds since 1970.
fn utc_seconds(text: &str) -> f64 {
    seconds_of(glassline_delivery::playlist::parse_date_time(text).unwrap())
}

#[test]
fn an_exact_export_that_cannot_be_says_why() {
    let test = "an_exact_export_that_cannot_be_says_why";
    if !have(test, &["ffmpeg"]) {
        return;
    }
    for (name, options, words) in [
        ("h265", "-c:v libx265 -x265-params log-level=none -c:a aac", "these are hvc1"),
        ("fields", "-flags +ilme+ildct -c:a aac", "may be fields"),
        ("chroma", "-pix_fmt yuv422p -c:a aac", "4:2:2 of 8 bits"),
        (
            "open",
            "-x264-params open-gop=1:bframes=3:b-adapt=0 -preset fast -c:a aac",
            "cannot begin exactly there",
        ),
    ] {
        let scratch = Scratch::new(&format!("export-inexact-{name}"));
        record(&scratch.path().join("store"), "hall", BEGUN, &[&made(8, "320x180", options)]);
        let store = format!("file:{}", scratch.path().join("store").display());
        let out = scratch.file("out.mp4");
        let arguments = ["export", "hall", &out, "--store", &store, "--from", "1777863724.43", "--exact"];
        let done = run(GLASSLINE, &arguments, 60);
        assert_eq!(done.status, Some(1), "{name}: {}", done.stderr);
        assert!(done.stderr.contains(words), "{name}: {}", done.stderr);
        assert!(!Path::new(&out).exists());
        let left: Vec<_> =
            std::fs::read_dir(scratch.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(left, ["store"], "{name}");
    }
    let scratch = Scratch::new("export-exact-ts");
    let (out, store) = (scratch.file("out.ts"), "file:/nonexistent");
    let done = run(GLASSLINE, &["export", "hall", &out, "--store", store, "--from", "-1m", "--exact"], 20);
    assert!(done.status == Some(2) && done.stderr.contains("MP4 alone"), "{}", done.stderr);
    let done = run(GLASSLINE, &["export", "hall", &out, "--store", store, "--exact"], 20);
    assert!(done.status == Some(2) && done.stderr.contains("--from"), "{}", done.stderr);
}
