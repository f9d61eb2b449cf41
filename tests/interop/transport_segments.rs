//! Segments of MPEG-TS begin at key frames of the video, whatever it is coded in, and each is decoded by itself.

use crate::{GLASSLINE, have};
use glassline_test_support::http::{get, publish};
use glassline_test_support::program::{Scratch, Server, run};
use glassline_test_support::wait::until;
use std::io::Write;

/// FFmpeg's flags of the first packet of the video in a file, and how many pictures are decoded; without a complaint where `quiet`.
fn look(file: &str, quiet: bool) -> (String, usize) {
    let arguments =
        ["-v", "quiet", "-select_streams", "v:0", "-show_entries", "packet=flags", "-of", "csv=p=0", file];
    let flags = run("ffprobe", &arguments, 60).text();
    let first = flags.lines().next().unwrap_or_default().to_owned();
    let decoded = run("ffmpeg", &["-v", "error", "-i", file, "-vsync", "0", "-f", "framemd5", "-"], 60);
    assert!(decoded.status == Some(0) && (!quiet || decoded.stderr.is_empty()), "{file}: {}", decoded.stderr);
    let pictures = decoded.text().lines().filter(|line| line.starts_with("0,")).count();
    (first, pictures)
}

#[test]
fn segments_of_mpeg_ts_begin_at_key_frames_of_any_codec() {
    if !have("segments_of_mpeg_ts_begin_at_key_frames_of_any_codec", &["ffmpeg", "ffprobe"]) {
        return;
    }
    let scratch = Scratch::new("transport-segments");
    // Behind an open GOP's recovery point H.264 refers to pictures in front of it, which decoders tell.
    for (number, (coding, quiet)) in [
        ("-c:v mpeg2video -g 25 -b:v 1M", true),
        ("-c:v mpeg2video -g 25 -b:v 1M -muxdelay 0.1 -muxpreload 2", true),
        ("-c:v libx264 -preset veryfast -bf 3 -x264-params open-gop=1:keyint=25:scenecut=0", false),
        ("-c:v libx265 -preset ultrafast -x265-params keyint=25:min-keyint=25:open-gop=1:bframes=3:log-level=error", true),
    ]
    .into_iter()
    .enumerate()
    {
        let file = scratch.file(&format!("{number}.ts"));
        let inputs = "-v error -f lavfi -i testsrc2=size=320x180:rate=25 -f lavfi -i sine=sample_rate=48000 -t 8";
        let made: Vec<&str> = inputs.split(' ').chain(coding.split(' ')).chain(["-c:a", "aac", &file]).collect();
        let made = run("ffmpeg", &made, 120);
        assert_eq!(made.status, Some(0), "{coding}: {}", made.stderr);
        let config = scratch.write("glassline.toml", "[package]\non_demand = false\nsegment = '1s'\n");
        let server = Server::start(GLASSLINE, &["--config", &config]);
        let playlist = || get(server.address(), "/live/a/ts.m3u8").text();
        let mut publisher = publish(server.address(), "/live/a.ts");
        publisher.write_all(&std::fs::read(&file).unwrap()).unwrap();
        until("segments of MPEG-TS", || playlist().matches("#EXTINF").count() >= 3);
        let told = playlist();
        for object in told.lines().filter(|line| !line.starts_with('#')) {
            let segment = get(server.address(), &format!("/live/a/{object}"));
            let file = scratch.file("segment.ts");
            std::fs::write(&file, &segment.body).unwrap();
            let (first, pictures) = look(&file, quiet);
            assert!(first.starts_with('K'), "{coding}: {object} begins with {first}");
            assert!(pictures >= 22, "{coding}: {pictures} of {object}\n{told}");
        }
    }
}
