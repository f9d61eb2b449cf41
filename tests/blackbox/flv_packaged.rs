//! FLV as LL-HLS and LL-DASH: an end ends the playlists, and a publisher that comes back with other pictures begins anew in them.

use crate::{GLASSLINE, serve_with};
use glassline_media::bitstream::h264::{self, NalType};
use glassline_media::container::ts::{Demuxer, Event};
use glassline_media::{AccessUnit, Codec};
use glassline_test_support::http::{get, publish};
use glassline_test_support::program::{Scratch, Server, run};
use glassline_test_support::wait::until;
use std::io::Write;

const FILE_HEADER: &[u8] = b"FLV\x01\x05\0\0\0\x09\0\0\0\0";
const OPUS_HEADER: &[u8] = b"\x90OpusOpusHead\x01\x02\x38\x01\x80\xbb\0\0\0\0\0";

fn tag(kind: u8, time_ms: i64, payload: &[u8]) -> Vec<u8> {
    let (size, [extended, t0, t1, t2]) =
        ((payload.len() as u32).to_be_bytes(), (time_ms as u32).to_be_bytes());
    let back = (payload.len() as u32 + 11).to_be_bytes();
    [&[kind][..], &size[1..], &[t0, t1, t2, extended, 0, 0, 0], payload, &back].concat()
}

fn avc_header(key: &AccessUnit) -> Vec<u8> {
    let find = |wanted| h264::nals(&key.data).find(|nal| nal.kind() == wanted).unwrap().bytes;
    let (sps, pps) = (find(NalType::Sps), find(NalType::Pps));
    let record = [
        &[1, sps[1], sps[2], sps[3], 0xff, 0xe1, 0, sps.len() as u8][..],
        sps,
        &[1, 0, pps.len() as u8],
        pps,
    ];
    tag(9, 0, &[&[0x17, 0, 0, 0, 0][..], &record.concat()].concat())
}

fn avc(unit: &AccessUnit, time_ms: i64) -> Vec<u8> {
    let later = ((unit.pts - unit.dts).0 / 90) as i32;
    let kind = if h264::is_key(&unit.data) { 0x17 } else { 0x27 };
    let mut payload = [&[kind, 1][..], &later.to_be_bytes()[1..]].concat();
    let is_kept = |kind| !matches!(kind, NalType::Sps | NalType::Pps | NalType::AccessUnitDelimiter);
    for nal in h264::nals(&unit.data).filter(|nal| is_kept(nal.kind())) {
        payload.extend_from_slice(&(nal.bytes.len() as u32).to_be_bytes());
        payload.extend_from_slice(nal.bytes);
    }
    tag(9, time_ms, &payload)
}

/// Three seconds of pictures and sound of our encoder, as FLV, and how many of each there are.
fn flv(scratch: &Scratch, size: &str) -> (Vec<u8>, usize, usize) {
    let file = scratch.file("a.ts");
    let arguments = format!("encode test:{size}@25 --keyint 1s --duration 3s --preset ultrafast {file}");
    let made = run(GLASSLINE, &arguments.split_whitespace().collect::<Vec<_>>(), 60);
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    let mut demuxer = Demuxer::new();
    demuxer.push(&std::fs::read(&file).unwrap());
    demuxer.finish();
    let units = std::iter::from_fn(|| demuxer.poll()).filter_map(|event| match event {
        Event::AccessUnit { unit, .. } => Some(unit),
        _ => None,
    });
    let units: Vec<AccessUnit> = units.collect();
    let first = units.iter().map(|unit| unit.dts).min().unwrap();
    let key = units.iter().find(|unit| unit.codec == Codec::H264).unwrap();
    let mut bytes = [FILE_HEADER, &avc_header(key), &tag(8, 0, OPUS_HEADER)].concat();
    let (mut pictures, mut sounds) = (0, 0);
    for unit in &units {
        let time_ms = (unit.dts - first).0 / 90;
        if unit.codec == Codec::H264 {
            pictures += 1;
            bytes.extend(avc(unit, time_ms));
        } else {
            sounds += 1;
            bytes.extend(tag(8, time_ms, &[b"\x91Opus", &unit.data[..]].concat()));
        }
    }
    (bytes, pictures, sounds)
}

fn playlist(server: &Server, name: &str) -> String {
    get(server.address(), &format!("/live/a/{name}")).text()
}

/// Seconds of all the segments of a playlist.
fn seconds(playlist: &str) -> f64 {
    let lengths = playlist
        .lines()
        .filter_map(|line| line.strip_prefix("#EXTINF:")?.split(',').next()?.parse::<f64>().ok());
    lengths.sum()
}

#[test]
fn flv_that_ends_ends_its_playlists() {
    let (server, scratch) =
        serve_with("[publish]\nreturn_window = '0s'\n[package]\nsegment = '1s'\npart = '200ms'\n");
    let (bytes, pictures, sounds) = flv(&scratch, "160x90");
    assert!(pictures == 75 && sounds > 100, "{pictures} pictures, {sounds} packets of sound");
    let mut publisher = publish(server.address(), "/live/a.flv");
    publisher.write_all(&bytes[..bytes.len() / 2]).unwrap();
    until("a playlist", || playlist(&server, "index.m3u8").contains("video.m3u8"));
    let told = playlist(&server, "index.m3u8");
    assert!(told.contains("avc1.") && told.contains("opus"), "{told}");
    assert!(playlist(&server, "manifest.mpd").contains("type=\"dynamic\""));
    // Copies of the stream's bytes would be no MPEG-TS.
    assert_eq!(get(server.address(), "/live/a/ts.m3u8").status, 404);
    assert_eq!(server.stream("a").unwrap()["left_out"], serde_json::json!([]));
    publisher.write_all(&bytes[bytes.len() / 2..]).unwrap();
    drop(publisher);
    until("the end", || playlist(&server, "video.m3u8").contains("#EXT-X-ENDLIST"));
    let (video, sound) = (playlist(&server, "video.m3u8"), playlist(&server, "audio.m3u8"));
    assert!((seconds(&video) - 3.0).abs() < 0.05, "{video}");
    assert!(sound.contains("#EXT-X-ENDLIST") && (seconds(&sound) - 3.0).abs() < 0.1, "{sound}");
    assert!(playlist(&server, "manifest.mpd").contains("type=\"static\""));
}

#[test]
fn a_publisher_of_flv_that_comes_back_with_other_pictures_begins_an_epoch() {
    let (server, scratch) = serve_with("[package]\nsegment = '1s'\npart = '200ms'\n");
    for (round, size) in ["160x90", "320x180", "320x180"].into_iter().enumerate() {
        let (bytes, ..) = flv(&scratch, size);
        let mut publisher = publish(server.address(), "/live/a.flv");
        publisher.write_all(&bytes).unwrap();
        // The last round has the header of the one before it: the same stream goes on.
        let expected = 3.0 * (round + 1) as f64 - 0.5;
        until("the pictures", || seconds(&playlist(&server, "video.m3u8")) > expected - 1.0);
        drop(publisher);
        until("that it is gone", || !server.stream("a").unwrap()["live"].as_bool().unwrap());
    }
    let told = playlist(&server, "video.m3u8");
    let maps: std::collections::BTreeSet<&str> =
        told.lines().filter(|line| line.starts_with("#EXT-X-MAP")).collect();
    assert!(maps.len() >= 2 && told.contains("#EXT-X-DISCONTINUITY\n"), "{told}");
    assert!(!told.contains("#EXT-X-ENDLIST"), "it may come back");
    let manifest = playlist(&server, "timeline.mpd");
    assert!(manifest.contains("width=\"160\"") && manifest.contains("width=\"320\""), "{manifest}");
}

#[test]
fn playlists_of_flv_that_cannot_be_packaged_say_so() {
    let (server, _scratch) = serve_with("");
    let mut publisher = publish(server.address(), "/live/a.flv");
    let vp6 = |time_ms| tag(9, time_ms, &[0x14, 1, 2, 3]);
    publisher.write_all(&[FILE_HEADER, &vp6(0), &vp6(1000), &vp6(2000)].concat()).unwrap();
    until("the stream", || server.count("a", "bytes_in") > 0);
    let answer = get(server.address(), "/live/a/index.m3u8");
    let problem = answer.json();
    assert_eq!((answer.status, &problem["tracks"][0]["codec"]), (406, &"VP6".into()), "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("/live/NAME.flv") && !detail.contains("PID"), "{detail}");
    let left_out = &server.stream("a").unwrap()["left_out"];
    assert_eq!((&left_out[0]["pid"], &left_out[0]["codec"]), (&9.into(), &"VP6".into()), "{left_out}");
}
