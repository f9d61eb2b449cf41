//! FFmpeg publishes FLV and Matroska, and reads them back as LL-HLS and LL-DASH: all pictures and all sound are there, in order and in
//! place.

use crate::{GLASSLINE, have};
use glassline_media::container::cmaf::{Event, Reader};
use glassline_test_support::http::{get, publish};
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::skip;
use glassline_test_support::wait::until;
use std::io::Write;
use std::process::Command;

const CONFIG: &str = "[package]\nsegment = '1s'\npart = '200ms'\n[publish]\nreturn_window = '0s'\n";
/// By how much times of players may be off: both have milliseconds.
const ROUNDED_S: f64 = 0.0011;

/// When packets are presented, in seconds, in the order of decoding.
fn times(input: &str, stream: &str) -> Vec<f64> {
    let arguments = [
        "-v",
        "error",
        "-select_streams",
        stream,
        "-show_entries",
        "packet=pts_time",
        "-of",
        "csv=p=0",
        input,
    ];
    let found = run("ffprobe", &arguments, 60);
    assert_eq!(found.status, Some(0), "{input}: {}", found.stderr);
    found.text().lines().filter_map(|line| line.trim_matches(',').parse().ok()).collect()
}

/// Checksums of what is decoded, and no complaint.
fn decoded(input: &str, map: &str) -> Vec<String> {
    let arguments =
        ["-v", "error", "-i", input, "-map", map, "-fps_mode", "passthrough", "-f", "framemd5", "-"];
    let played = run("ffmpeg", &arguments, 60);
    assert_eq!((played.status, played.stderr.as_str()), (Some(0), ""), "{input}");
    let text = played.text();
    let frames = text.lines().filter(|line| !line.starts_with('#'));
    frames.filter_map(|line| line.split(',').next_back().map(|sum| sum.trim().to_owned())).collect()
}

fn server(scratch: &Scratch) -> Server {
    Server::start(GLASSLINE, &["--config", &scratch.write("glassline.toml", CONFIG)])
}

/// What is at `file` has been published and has ended: what was packaged of it is all of it.
fn expect_all(server: &Server, file: &str) {
    until("the end", || get(server.address(), "/live/a/video.m3u8").text().contains("#EXT-X-ENDLIST"));
    let (pictures, sound) = (times(file, "v:0"), times(file, "a:0"));
    let begins = pictures.first().copied().unwrap();
    // Sound in front of the first picture is left out.
    let sound: Vec<f64> = sound.into_iter().filter(|at| *at >= begins - ROUNDED_S).collect();
    // Of AC-3 the playlist has a variant more, without sound, for players that lack it.
    let expected = decoded(file, "0:v:0");
    assert_eq!(expected.len(), pictures.len());
    for name in ["index.m3u8", "manifest.mpd", "timeline.mpd"] {
        let url = server.url(&format!("/live/a/{name}"));
        assert_eq!(decoded(&url, "0:v:0"), expected, "{url}");
        for (stream, expected) in [("v:0", &pictures), ("a:0", &sound)] {
            let found = times(&url, stream);
            assert_eq!(found.len(), expected.len(), "{url}, {stream}");
            // Sound follows its samples where the container rounds.
            let tolerance = if stream == "a:0" { 0.0055 } else { ROUNDED_S };
            let first = times(&url, "v:0")[0];
            for (found, expected) in found.iter().zip(expected) {
                let off = (found - first) - (expected - begins);
                assert!(off.abs() <= tolerance, "{url}, {stream}: {off} s at {expected}");
            }
        }
        assert!(!decoded(&url, "0:a").is_empty());
    }
}

#[test]
fn all_of_ffmpegs_flv_is_in_hls_and_dash() {
    if !have("all_of_ffmpegs_flv_is_in_hls_and_dash", &["ffmpeg", "ffprobe"]) {
        return;
    }
    for coding in [
        "-c:v libx264 -preset veryfast -bf 3 -c:a aac -ar 48000",
        "-c:v libx264 -preset ultrafast -bf 0 -c:a aac -ar 44100 -ac 1",
        "-c:v libx264 -preset veryfast -bf 2 -c:a libmp3lame -ar 44100",
    ] {
        let scratch = Scratch::new("flv-packaged");
        let file = scratch.file("a.flv");
        let inputs = "-v error -f lavfi -i testsrc2=size=320x180:rate=30 -f lavfi -i sine=sample_rate=48000 -t 5 -g 30";
        let made: Vec<&str> =
            inputs.split(' ').chain(coding.split(' ')).chain(["-f", "flv", file.as_str()]).collect();
        let made = run("ffmpeg", &made, 60);
        assert_eq!(made.status, Some(0), "{coding}: {}", made.stderr);
        let server = server(&scratch);
        // As FFmpeg sends it, at the speed of its time.
        let mut command = Command::new("ffmpeg");
        command
            .args(["-v", "error", "-re", "-i", &file, "-c", "copy", "-f", "flv"])
            .arg(server.url("/live/a.flv"));
        let mut publisher = Running::start(&mut command);
        until("pictures", || get(server.address(), "/live/a/index.m3u8").status == 200);
        assert!(publisher.wait().success(), "{}", publisher.output());
        expect_all(&server, &file);
        assert_eq!(server.metrics().sum("glassline_panics_total", "") as u64, 0);
    }
}

#[test]
fn all_of_ffmpegs_matroska_is_in_hls_and_dash() {
    let test = "all_of_ffmpegs_matroska_is_in_hls_and_dash";
    if !have(test, &["ffmpeg", "ffprobe"]) {
        return;
    }
    let encoders = run("ffmpeg", &["-v", "error", "-encoders"], 20).text();
    for (encoder, coding, form) in [
        ("libx264", "-c:v libx264 -preset veryfast -bf 3 -c:a aac -ar 48000", "matroska"),
        ("libx264", "-c:v libx264 -preset ultrafast -bf 0 -c:a libopus", "matroska"),
        (
            "libx265",
            "-c:v libx265 -preset ultrafast -x265-params keyint=30:min-keyint=30:bframes=2:log-level=error -c:a ac3",
            "matroska",
        ),
        ("libaom-av1", "-c:v libaom-av1 -cpu-used 8 -usage realtime -keyint_min 30 -c:a libopus", "webm"),
    ] {
        if !encoders.contains(encoder) {
            skip(test, &format!("FFmpeg lacks {encoder}"));
            continue;
        }
        let scratch = Scratch::new("matroska-packaged");
        let file = scratch.file("a.mkv");
        let inputs = "-v error -f lavfi -i testsrc2=size=320x180:rate=30 -f lavfi -i sine=sample_rate=48000 -t 4 -g 30";
        let made: Vec<&str> =
            inputs.split(' ').chain(coding.split(' ')).chain(["-f", "matroska", file.as_str()]).collect();
        let made = run("ffmpeg", &made, 120);
        assert_eq!(made.status, Some(0), "{coding}: {}", made.stderr);
        // FFmpeg 5.1 moves sound by its CodecDelay with each copy: what is sent counts.
        let sent = scratch.file("sent.mkv");
        let copy = ["-v", "error", "-i", &file, "-c", "copy", "-f", form, "-live", "1", &sent];
        assert_eq!(run("ffmpeg", &copy, 60).status, Some(0));
        let server = server(&scratch);
        let mut command = Command::new("ffmpeg");
        command
            .args(["-v", "error", "-re", "-i", &file, "-c", "copy", "-f", form, "-live", "1"])
            .arg(server.url("/live/a.webm"));
        let mut publisher = Running::start(&mut command);
        until("pictures", || get(server.address(), "/live/a/index.m3u8").status == 200);
        assert!(publisher.wait().success(), "{}", publisher.output());
        expect_all(&server, &sent);
        assert_eq!(server.metrics().sum("glassline_panics_total", "") as u64, 0);
    }
}

#[test]
fn gstreamers_matroska_is_in_hls_and_dash() {
    let test = "gstreamers_matroska_is_in_hls_and_dash";
    if !have(test, &["ffmpeg", "ffprobe", "gst-launch-1.0"]) {
        return;
    }
    let scratch = Scratch::new("gstreamer-matroska");
    let (file, sent) = (scratch.file("a.mkv"), scratch.file("sent.mkv"));
    let made = "-v error -f lavfi -i testsrc2=size=320x180:rate=25 -f lavfi -i sine=sample_rate=48000 -t 4 -g 25 \
                -c:v libx264 -preset veryfast -bf 2 -c:a aac -f matroska";
    let made: Vec<&str> = made.split_whitespace().chain([file.as_str()]).collect();
    assert_eq!(run("ffmpeg", &made, 60).status, Some(0));
    let pipeline = format!(
        "-q filesrc location={file} ! matroskademux name=d d.video_0 ! queue ! h264parse ! m. \
         d.audio_0 ! queue ! aacparse ! m. matroskamux name=m streamable=true ! filesink location={sent}"
    );
    let muxed = run("gst-launch-1.0", &pipeline.split_whitespace().collect::<Vec<_>>(), 60);
    if muxed.status != Some(0) {
        skip(test, &format!("GStreamer lacks an element: {}", muxed.stderr));
        return;
    }
    let server = server(&scratch);
    let bytes = std::fs::read(&sent).unwrap();
    let mut publisher = publish(server.address(), "/live/a.webm");
    // In two halves: what there is of it is asked for while it is live.
    let (first, rest) = bytes.split_at(bytes.len() / 2);
    publisher.write_all(first).unwrap();
    until("pictures", || get(server.address(), "/live/a/index.m3u8").status == 200);
    publisher.write_all(rest).unwrap();
    drop(publisher);
    expect_all(&server, &sent);
}

/// A tag of Enhanced RTMP.
fn tag(kind: u8, time_ms: i64, parts: &[&[u8]]) -> Vec<u8> {
    let payload = parts.concat();
    let (size, [extended, t0, t1, t2]) =
        ((payload.len() as u32).to_be_bytes(), (time_ms as u32).to_be_bytes());
    let back = (payload.len() as u32 + 11).to_be_bytes();
    [&[kind][..], &size[1..], &[t0, t1, t2, extended, 0, 0, 0], &payload, &back].concat()
}

/// The content of the first box of this type, wherever it lies.
fn find_box<'a>(bytes: &'a [u8], kind: &[u8; 4]) -> &'a [u8] {
    let at = bytes.windows(4).position(|window| window == kind).expect("a box");
    let size = u32::from_be_bytes(bytes[at - 4..at].try_into().unwrap()) as usize;
    &bytes[at + 4..at - 4 + size]
}

/// Fragmented MP4 of one stream of pictures and one of Opus as FLV of Enhanced RTMP v2, which FFmpeg has from version 6.1 on.
fn enhanced(mp4: &[u8], letters: &[u8; 4], record: &[u8; 4]) -> Vec<u8> {
    let opus = b"OpusHead\x01\x01\x38\x01\x80\xbb\0\0\0\0\0";
    let mut out = b"FLV\x01\x05\0\0\0\x09\0\0\0\0".to_vec();
    out.extend(tag(9, 0, &[&[0x90], letters, find_box(mp4, record)]));
    out.extend(tag(8, 0, &[&[0x90], b"Opus", opus]));
    let (mut reader, mut tags, mut scales) = (Reader::new(), Vec::new(), Vec::new());
    reader.push(mp4).unwrap();
    for event in std::iter::from_fn(|| reader.poll()) {
        let chunk = match event {
            Event::Init(tracks) => {
                let told = tracks.iter().map(|track| {
                    let scale = i64::from(track.timescale);
                    (track.id, scale, track.presentation_start, track.codec().unwrap())
                });
                scales = told.collect();
                continue;
            }
            Event::Chunk(chunk) => chunk,
            _ => continue,
        };
        for run in chunk.runs {
            let &(_, scale, start, codec) = scales.iter().find(|(id, ..)| *id == run.track_id).unwrap();
            let ms = |ticks: i64| (ticks * 1000 + scale / 2).div_euclid(scale);
            for sample in run.samples {
                // What is in front of the presentation's 0 has times below 0.
                let decode = sample.decode_time as i64 - start;
                let time = ms(decode);
                let later = (ms(decode + sample.composition_offset) - time) as i32;
                let kind = if sample.is_sync() { 0x10 } else { 0x20 };
                let composition = &later.to_be_bytes()[1..];
                let tag = match codec.is_video() {
                    true if letters == b"hvc1" => {
                        tag(9, time, &[&[0x81 | kind], letters, composition, &sample.data])
                    }
                    true => tag(9, time, &[&[0x81 | kind], letters, &sample.data]),
                    false => tag(8, time, &[&[0x91], b"Opus", &sample.data]),
                };
                tags.push((time, tag));
            }
        }
    }
    tags.sort_by_key(|(time, _)| *time);
    out.extend(tags.into_iter().flat_map(|(_, tag)| tag));
    out
}

#[test]
fn h265_and_av1_with_opus_in_enhanced_flv_are_in_hls_and_dash() {
    let test = "h265_and_av1_with_opus_in_enhanced_flv_are_in_hls_and_dash";
    if !have(test, &["ffmpeg", "ffprobe"]) {
        return;
    }
    let encoders = run("ffmpeg", &["-v", "error", "-encoders"], 20).text();
    for (encoder, coding, letters, record) in [
        (
            "libx265",
            "-c:v libx265 -preset ultrafast -tag:v hvc1 -x265-params keyint=25:min-keyint=25:bframes=2:log-level=error",
            b"hvc1",
            b"hvcC",
        ),
        ("libaom-av1", "-c:v libaom-av1 -cpu-used 8 -usage realtime -g 25 -keyint_min 25", b"av01", b"av1C"),
    ] {
        if !encoders.contains(encoder) {
            skip(test, &format!("FFmpeg lacks {encoder}"));
            return;
        }
        let scratch = Scratch::new("flv-enhanced");
        let file = scratch.file("a.mp4");
        let inputs =
            "-v error -f lavfi -i testsrc2=size=320x180:rate=25 -f lavfi -i sine=sample_rate=48000 -t 4";
        let form = "-c:a libopus -movflags frag_keyframe+empty_moov+default_base_moof+delay_moov -f mp4";
        let made = inputs.split(' ').chain(coding.split(' ')).chain(form.split(' ')).chain([file.as_str()]);
        let made = run("ffmpeg", &made.collect::<Vec<_>>(), 120);
        assert_eq!(made.status, Some(0), "{coding}: {}", made.stderr);
        let server = server(&scratch);
        let mut publisher = publish(server.address(), "/live/a.flv");
        let bytes = enhanced(&std::fs::read(&file).unwrap(), letters, record);
        publisher.write_all(&bytes[..bytes.len() / 2]).unwrap();
        until("pictures", || get(server.address(), "/live/a/index.m3u8").status == 200);
        publisher.write_all(&bytes[bytes.len() / 2..]).unwrap();
        drop(publisher);
        expect_all(&server, &file);
    }
}
