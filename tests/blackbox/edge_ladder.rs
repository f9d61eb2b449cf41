//! The versions of one capture as variants of one playlist, and as representations of one set.

use crate::edge::{playlist, quoted, tags};
use crate::{glassline, serve, serve_with};
use glassline_media::container::ts::{Demuxer, Event};
use glassline_media::{AccessUnit, Codec};
use glassline_test_support::http::get;
use glassline_test_support::program::Server;
use glassline_test_support::wait::{until, until_some};
use std::collections::BTreeMap;

const LADDER: &str = "[encode.hall]\ninput = 'test:320x180@50'\naudio = 'opus'\npreset = 'ultrafast'\nkeyint = '500ms'\n\
                      threads = 1\nrenditions = ['320x180@50:1M', '160x90@25:300k', '320x180@25:500k']\n\
                      [package]\nsegment = '1s'\npart = '100ms'\n";
/// The best first.
const VERSIONS: [&str; 3] = ["hall-180p50", "hall-180p25", "hall-90p25"];

/// The variants with pictures, in their order.
fn variants(multivariant: &str) -> Vec<&str> {
    let lines: Vec<&str> = multivariant.lines().collect();
    let pairs = lines.windows(2).filter(|pair| pair[0].starts_with("#EXT-X-STREAM-INF:"));
    pairs.filter(|pair| pair[0].contains("RESOLUTION=")).map(|pair| pair[1]).collect()
}

/// The dates of a version's segments, by their numbers.
fn dates(server: &Server, name: &str) -> BTreeMap<u64, String> {
    let media = playlist(server, &format!("/live/{name}/video.m3u8"));
    let (mut found, mut date) = (BTreeMap::new(), String::new());
    for line in media.lines() {
        if let Some(told) = line.strip_prefix("#EXT-X-PROGRAM-DATE-TIME:") {
            told.clone_into(&mut date);
        } else if let Some(number) = line.strip_prefix("video/").and_then(|rest| rest.strip_suffix(".m4s")) {
            found.insert(number.parse().unwrap(), date.clone());
        }
    }
    found
}

#[test]
fn a_ladder_is_one_playlist_and_one_manifest_through_an_edge() {
    let (origin, _scratch) = serve_with(LADDER);
    let edge = serve(&["--upstream", &origin.url("")]);
    VERSIONS.iter().for_each(|name| origin.wait_for_pictures(name));
    // One of them has viewers of its own before anybody asks for the ladder.
    playlist(&origin, "/live/hall-90p25/video.m3u8");
    let multivariant = playlist(&edge, "/live/hall/index.m3u8?user=7");
    let expected = VERSIONS.map(|name| format!("../{name}/video.m3u8?user=7"));
    assert_eq!(variants(&multivariant), expected, "{multivariant}");
    assert_eq!(tags(&multivariant, "#EXT-X-MEDIA:").count(), 1, "{multivariant}");
    // Segments of the same number begin with the same picture, unless a busy machine made a version leave that one out: one
    // picture for each of them.
    until("segments in common", || {
        let all = VERSIONS.map(|name| dates(&edge, name));
        let common = |number: &&u64| all.iter().all(|dates| dates.contains_key(number));
        let begin_alike = |number: &u64| all.iter().all(|dates| dates[number] == all[0][number]);
        let numbers: Vec<u64> = all[0].keys().filter(common).copied().collect();
        let alike = numbers.iter().filter(|number| begin_alike(number)).count();
        let left_out = || origin.metrics().sum("glassline_encoder_dropped_pictures_total", "");
        let apart = numbers.len() - alike;
        assert!(apart == 0 || apart as f64 <= left_out(), "{numbers:?}: {all:?}");
        alike >= 3
    });
    let media = playlist(&edge, "/live/hall-180p50/video.m3u8");
    let reported: Vec<&str> =
        tags(&media, "#EXT-X-RENDITION-REPORT:").map(|attributes| quoted(attributes, "URI")).collect();
    for name in &VERSIONS[1..] {
        assert!(reported.contains(&format!("../{name}/video.m3u8").as_str()), "{media}");
    }
    let manifest = get(edge.address(), "/live/hall/manifest.mpd").text();
    assert_eq!(manifest.matches("<Representation ").count(), 4, "{manifest}");
    assert!(manifest.contains("availabilityTimeComplete=\"false\""), "{manifest}");
    for name in VERSIONS {
        let id = format!("<Representation id=\"{name}\"");
        let own = manifest.split_once(&id).unwrap().1.split("</Representation>").next().unwrap();
        let init = quoted(own, "initialization").strip_prefix("../").unwrap().to_owned();
        let answer = get(edge.address(), &format!("/live/{init}"));
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("video/mp4")), "{init}");
    }
    for (target, status) in
        [("hall/video.m3u8", 404), ("hall/video/1.m4s", 404), ("hal/index.m3u8", 404), ("hall-180p50/x", 404)]
    {
        assert_eq!(get(origin.address(), &format!("/live/{target}")).status, status, "{target}");
    }
}

#[test]
fn a_ladders_token_opens_all_of_its_versions_and_nothing_else() {
    let (server, scratch) = serve_with(&format!("{LADDER}[viewer]\nkey = 'a-viewer-key'\n"));
    let key = scratch.write("viewer.key", "a-viewer-key\n");
    let signed = glassline(&["sign", &server.url("/live/hall/index.m3u8"), "--key-file", &key]);
    assert_eq!(signed.status, Some(0), "{}", signed.stderr);
    let target = signed.text().trim().strip_prefix(&server.url("")).unwrap().to_owned();
    // A playlist that is asked for while the encoder still begins names the versions that there are by then.
    VERSIONS.iter().for_each(|name| server.wait_for_pictures(name));
    let multivariant = until_some("the ladder", || {
        Some(get(server.address(), &target)).filter(|answer| answer.status == 200)
    });
    let multivariant = multivariant.text();
    let query = target.split_once('?').unwrap().1;
    for (variant, name) in variants(&multivariant).into_iter().zip(VERSIONS) {
        assert_eq!(variant, format!("../{name}/video.m3u8?{query}"));
        assert_eq!(get(server.address(), &format!("/live/{name}/video.m3u8?{query}")).status, 200);
        assert_eq!(get(server.address(), &format!("/live/{name}/video.m3u8")).status, 401);
    }
    // A version's own token is good for that one.
    let one = glassline(&["sign", &server.url("/live/hall-90p25.ts"), "--key-file", &key]).text();
    let query = one.trim().split_once('?').unwrap().1;
    assert_eq!(get(server.address(), &format!("/live/hall/index.m3u8?{query}")).status, 401);
    assert_eq!(get(server.address(), &format!("/live/hall-180p50/index.m3u8?{query}")).status, 401);
    assert_eq!(get(server.address(), &format!("/live/hall-90p25/index.m3u8?{query}")).status, 200);
}

#[test]
fn segments_of_mpeg_ts_come_out_of_the_same_stream() {
    let (origin, _scratch) = serve_with(LADDER);
    let edge = serve(&["--upstream", &origin.url("")]);
    VERSIONS.iter().for_each(|name| origin.wait_for_pictures(name));
    let all = playlist(&edge, "/live/hall/ts.m3u8");
    assert!(VERSIONS.iter().all(|name| all.contains(&format!("\n../{name}/ts.m3u8\n"))), "{all}");
    let list = until_some("three segments", || {
        let list = playlist(&edge, "/live/hall-180p50/ts.m3u8");
        (list.matches(".ts\n").count() >= 3).then_some(list)
    });
    assert!(!list.contains("EXT-X-PART"), "{list}");
    // They follow each other, each is the time that it says, and all that is in the stream is in them.
    let mut end = None;
    for (segment, length) in list.lines().filter(|line| line.starts_with("ts/")).zip(tags(&list, "#EXTINF:"))
    {
        let answer = get(edge.address(), &format!("/live/hall-180p50/{segment}"));
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("video/mp2t")), "{segment}");
        let mut demuxer = Demuxer::new();
        demuxer.push(&answer.body);
        demuxer.finish();
        let units: Vec<AccessUnit> = std::iter::from_fn(|| demuxer.poll())
            .filter_map(|event| match event {
                Event::AccessUnit { unit, .. } => Some(unit),
                _ => None,
            })
            .collect();
        assert_eq!(demuxer.counters().continuity_errors, 0);
        let pictures: Vec<i64> =
            units.iter().filter(|unit| unit.codec == Codec::H264).map(|unit| unit.pts.0).collect();
        let first = units.iter().find(|unit| unit.codec == Codec::H264).unwrap();
        assert!(first.random_access, "{segment} begins with a key frame");
        assert!(units.iter().any(|unit| unit.codec == Codec::Opus), "{segment} has sound");
        let seconds: f64 = length.trim_end_matches(',').parse().unwrap();
        // Until the next one begins: a busy encoder leaves pictures out.
        let due = |end: f64| (pictures[0] as f64 / 90_000.0 - end).abs() < 0.001;
        assert!(end.is_none_or(due), "{segment} follows the one before it: {end:?} {pictures:?}");
        assert!(pictures.len() as f64 / 50.0 <= seconds + 0.001, "{segment}: {seconds}");
        end = Some(pictures[0] as f64 / 90_000.0 + seconds);
    }
    assert_eq!(get(origin.address(), "/live/hall-180p50/ts/1.ts").status, 410);
    assert_eq!(get(origin.address(), "/live/hall-180p50/ts/99999999999999.ts").status, 404);
}
