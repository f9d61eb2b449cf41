//! FLV, WebM and Ogg as FFmpeg makes them, carried as they are: viewers who come later decode them without a complaint,
//! and got the published bytes.

use crate::cubemap::Cubemap;
use crate::{GLASSLINE, have, serve};
use glassline_test_support::http;
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::skip;
use glassline_test_support::wait::until;
use std::io::{Read, Write};
use std::process::Command;

/// What the headers of each of [`MUXES`] name.
const CODECS: [[&str; 2]; 3] = [["H.264", "AAC"], ["VP8", "Opus"], ["Theora", "Vorbis"]];
/// Extension, and how FFmpeg encodes for it.
const MUXES: [(&str, &str); 3] = [
    ("flv", "-c:v libx264 -preset ultrafast -c:a aac -f flv"),
    ("webm", "-c:v libvpx -deadline realtime -cpu-used 8 -c:a libopus -f webm -live 1"),
    ("ogg", "-c:v libtheora -c:a libvorbis -f ogg"),
];
const PICTURE: &str = "-f lavfi -i testsrc=size=320x180:rate=25 -f lavfi -i sine=sample_rate=48000 -g 25";

/// Whether FFmpeg has the encoders.
fn have_encoders(test: &str) -> bool {
    if !have(test, &["ffmpeg"]) {
        return false;
    }
    let known = run("ffmpeg", &["-v", "error", "-encoders"], 20).text();
    let missing = ["libx264", "libvpx", "libtheora", "libvorbis", "libopus"]
        .iter()
        .find(|name| !known.contains(**name));
    if let Some(name) = missing {
        skip(test, &format!("FFmpeg lacks {name}"));
    }
    missing.is_none()
}

/// FFmpeg that publishes a test picture at its own speed.
fn publish(server: &Server, name: &str, extension: &str, encoding: &str) -> Running {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "warning", "-re"]).args(PICTURE.split(' ')).args(encoding.split(' '));
    command.arg(server.url(&format!("/live/{name}.{extension}")));
    let publisher = Running::start(&mut command);
    until("a place to join", || server.stream(name).is_some_and(|it| it["key_frame_interval_s"].is_number()));
    publisher
}

/// Decodes what comes from `url` for a while, and wants no complaint.
fn expect_pictures(url: &str) {
    let arguments =
        ["-v", "error", "-xerror", "-i", url, "-map", "0:v", "-map", "0:a", "-t", "2", "-f", "framecrc", "-"];
    let played = run("ffmpeg", &arguments, 60);
    assert_eq!((played.status, played.stderr.as_str()), (Some(0), ""), "{url}");
    let pictures = played.text().lines().filter(|line| line.starts_with("0,")).count();
    assert!(pictures >= 45, "{url}: {pictures} pictures in two seconds");
}

#[test]
fn what_ffmpeg_publishes_ffmpeg_plays() {
    if !have_encoders("what_ffmpeg_publishes_ffmpeg_plays") {
        return;
    }
    let server = serve();
    for ((extension, encoding), named) in MUXES.into_iter().zip(CODECS) {
        let _publisher = publish(&server, extension, extension, encoding);
        let told = server.stream(extension).unwrap();
        assert_eq!(told["mux"], extension);
        let codecs = told["codecs"].as_array().unwrap();
        assert_eq!((&codecs[0]["name"], &codecs[0]["width"]), (&named[0].into(), &320.into()), "{told}");
        assert_eq!((&codecs[1]["name"], codecs.len()), (&named[1].into(), 2), "{told}");
        expect_pictures(&server.url(&format!("/live/{extension}.{extension}")));
        let wrong = http::get(server.address(), &format!("/live/{extension}.ts"));
        assert_eq!(wrong.status, 404);
    }
}

#[test]
fn a_viewer_gets_the_published_bytes_from_its_place_on() {
    if !have_encoders("a_viewer_gets_the_published_bytes_from_its_place_on") {
        return;
    }
    let scratch = Scratch::new("carried");
    let config = scratch.write("glassline.toml", "[publish]\nreturn_window = '0s'\n");
    let server = Server::start(GLASSLINE, &["--config", &config]);
    for (extension, encoding) in MUXES {
        let arguments = format!("-v error {PICTURE} -t 6 {encoding} -");
        let file = run("ffmpeg", &arguments.split(' ').collect::<Vec<_>>(), 60).stdout;
        let target = format!("/live/{extension}.{extension}");
        let mut publisher = http::publish(server.address(), &target);
        let (first, rest) = file.split_at(file.len() / 2);
        for chop in first.chunks(997) {
            publisher.write_all(chop).unwrap();
        }
        until("the first half", || server.count(extension, "bytes_in") == first.len() as u64);
        let mut viewer = http::connect(server.address());
        write!(viewer, "GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        assert_eq!(http::read_head(&mut viewer).status, 200);
        // The head leaves before its place is chosen; the first byte behind it tells that it was.
        let mut got = vec![0];
        viewer.read_exact(&mut got).unwrap();
        publisher.write_all(rest).unwrap();
        drop(publisher);
        viewer.read_to_end(&mut got).unwrap();

        let same = |pairs: &mut dyn Iterator<Item = (&u8, &u8)>| pairs.take_while(|(a, b)| a == b).count();
        let prefix = same(&mut got.iter().zip(&file));
        let suffix = same(&mut got.iter().rev().zip(file.iter().rev()));
        assert!(prefix + suffix >= got.len(), "{extension}: {prefix} and {suffix} of {} bytes", got.len());
        assert!(
            suffix > file.len() / 2 && got.len() < file.len(),
            "{extension}: {suffix} bytes from its place on"
        );
        let joined = scratch.write(&format!("joined.{extension}"), got);
        let decoded = run("ffmpeg", &["-v", "error", "-xerror", "-i", &joined, "-f", "null", "-"], 60);
        assert_eq!((decoded.status, decoded.stderr.as_str()), (Some(0), ""), "{extension}");
    }
}

#[test]
fn cubemap_carries_our_webm_and_we_carry_its() {
    let test = "cubemap_carries_our_webm_and_we_carry_its";
    if !have(test, &["cubemap"]) || !have_encoders(test) {
        return;
    }
    let origin = serve();
    let (extension, encoding) = MUXES[1];
    let _publisher = publish(&origin, "near", extension, encoding);
    let source = origin.url("/live/near.webm?encoding=metacube");
    let streams =
        format!("stream /raw.webm src={source}\nstream /blocks.webm src={source} encoding=metacube");
    let cubemap = Cubemap::start(&streams);
    until("a stream from Cubemap", || {
        let mut viewer = http::connect(cubemap.address);
        viewer.write_all(b"GET /raw.webm HTTP/1.0\r\n\r\n").unwrap();
        http::read_head(&mut viewer).status == 200
    });
    expect_pictures(&cubemap.url("/raw.webm"));

    let scratch = Scratch::new("far");
    let pull = format!("[stream.far]\nsource = '{}'\n", cubemap.url("/blocks.webm"));
    let edge = Server::start(GLASSLINE, &["--config", &scratch.write("glassline.toml", pull)]);
    until("a place to join", || edge.stream("far").is_some_and(|it| it["key_frame_interval_s"].is_number()));
    let far = edge.stream("far").unwrap();
    assert_eq!(
        (far["mux"].as_str(), far["source"]["metacube"].as_bool()),
        (Some("webm"), Some(true)),
        "{far}"
    );
    expect_pictures(&edge.url("/live/far.webm"));
}
