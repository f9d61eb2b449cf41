//! FFmpeg publishes DASH and HLS by PUT, and what comes of it plays with its sound in place.

use crate::segmented::expect_pictures;
use crate::{have, serve};
use glassline_test_support::http::get;
use glassline_test_support::program::{Running, Server, run};
use glassline_test_support::wait::{at_once, until};
use std::process::Command;

/// A flash and a beep each second, for 80 ms.
const FLASH: &str =
    "color=black:size=320x180:rate=25,drawbox=color=white:t=fill:enable=lt(mod(t\\,1)\\,0.08)";
const BEEP: &str = "aevalsrc=0.5*sin(2*PI*1000*t)*lt(mod(t\\,1)\\,0.08):s=48000";
/// How far a beep may be from its flash: a picture, and what codecs add.
const APART_S: f64 = 0.06;

/// FFmpeg that publishes until it is dropped.
fn ffmpeg(options: &str, url: &str) -> Running {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-re", "-f", "lavfi", "-i", FLASH, "-re", "-f", "lavfi", "-i", BEEP]);
    let encoder = "-c:v libx264 -preset ultrafast -g 25 -b:v 500k -b:a 96k";
    command.args(encoder.split_whitespace()).args(options.split_whitespace()).arg(url);
    Running::start(&mut command)
}

/// All numbers behind `key` in what FFmpeg said.
fn numbers(said: &str, key: &str) -> Vec<f64> {
    let behind = said.split(key).skip(1);
    let number = |text: &str| text.trim_start().split([' ', '\n', '\r']).next()?.parse().ok();
    behind.filter_map(number).collect()
}

/// Watches four seconds, and wants each flash with its beep.
fn expect_sound_in_place(url: &str) {
    let arguments = "-vf blackdetect=d=0.1:pix_th=0.5 -af silencedetect=n=-30dB:d=0.2 -t 4 -f null -";
    let arguments: Vec<&str> =
        ["-v", "info", "-nostats", "-i", url].into_iter().chain(arguments.split(' ')).collect();
    let watched = run("ffmpeg", &arguments, 60);
    assert_eq!(watched.status, Some(0), "{}", watched.stderr);
    let (flashes, beeps) = (numbers(&watched.stderr, "black_end:"), numbers(&watched.stderr, "silence_end:"));
    // The watching may begin or end within one of them.
    let whole: Vec<f64> = flashes.iter().copied().filter(|at| (0.2..3.7).contains(at)).collect();
    assert!(whole.len() >= 2, "{}", watched.stderr);
    for flash in whole {
        let nearest = beeps.iter().map(|beep| (beep - flash).abs()).fold(f64::MAX, f64::min);
        assert!(nearest <= APART_S, "{url}: flashes at {flashes:?}, beeps at {beeps:?}");
    }
}

/// Two viewers, at the same time: one of the stream at `stream`, one of its presentation at `presentation`.
fn expect_both(server: &Server, stream: &str, presentation: &str) {
    let (stream, presentation) = (server.url(stream), server.url(presentation));
    at_once(|| expect_sound_in_place(&stream), || expect_pictures(&presentation));
}

/// Nothing of what FFmpeg put was refused or dropped.
fn expect_all_taken(server: &Server) {
    let metrics = server.metrics();
    for name in ["refused", "late_units", "stray_units", "bad_samples", "gaps", "refused_tracks"] {
        let family = format!("glassline_ingest_{name}_total");
        assert_eq!(metrics.sum(&family, "") as u64, 0, "{family}\n{}", server.process.output());
    }
}

#[test]
fn ffmpeg_publishes_low_latency_dash() {
    if !have("ffmpeg_publishes_low_latency_dash", &["ffmpeg"]) {
        return;
    }
    let server = serve();
    let options =
        "-tune zerolatency -c:a aac -f dash -method PUT -ldash 1 -streaming 1 -seg_duration 2 -window_size 3";
    let _publisher = ffmpeg(options, &server.url("/live/low/manifest.mpd"));
    server.wait_for_pictures("low");
    expect_both(&server, "/live/low.ts", "/live/low/index.m3u8");
    expect_all_taken(&server);
}

#[test]
fn ffmpeg_publishes_dash_by_whole_segments_with_opus_over_connections_that_stay() {
    let test = "ffmpeg_publishes_dash_by_whole_segments_with_opus_over_connections_that_stay";
    if !have(test, &["ffmpeg"]) {
        return;
    }
    let server = serve();
    let options = "-bf 2 -c:a libopus -f dash -dash_segment_type mp4 -method PUT -http_persistent 1 -seg_duration 2 \
                   -window_size 3";
    let _publisher = ffmpeg(options, &server.url("/live/whole/manifest.mpd"));
    server.wait_for_pictures("whole");
    expect_both(&server, "/live/whole.ts", "/live/whole/manifest.mpd");
    expect_all_taken(&server);
}

#[test]
fn ffmpeg_publishes_hls_of_fragmented_mp4() {
    if !have("ffmpeg_publishes_hls_of_fragmented_mp4", &["ffmpeg"]) {
        return;
    }
    let server = serve();
    let options = "-bf 2 -c:a aac -f hls -hls_time 1 -hls_segment_type fmp4 -hls_flags delete_segments -hls_list_size 2 \
                   -method PUT";
    let _publisher = ffmpeg(options, &server.url("/live/hls/index.m3u8"));
    server.wait_for_pictures("hls");
    expect_both(&server, "/live/hls.ts", "/live/hls/index.m3u8");
    expect_all_taken(&server);
}

#[test]
fn ffmpeg_publishes_a_track_by_one_long_request() {
    if !have("ffmpeg_publishes_a_track_by_one_long_request", &["ffmpeg"]) {
        return;
    }
    let server = serve();
    // Both tracks in one file, a fragment a frame.
    let options = "-tune zerolatency -c:a aac -f mp4 -movflags cmaf+frag_every_frame -method POST";
    let _publisher = ffmpeg(options, &server.url("/live/long/Streams(all.cmfv)"));
    server.wait_for_pictures("long");
    expect_sound_in_place(&server.url("/live/long.ts"));
    expect_all_taken(&server);
}

#[test]
fn ffmpeg_publishes_h265_and_sound_of_many_kinds() {
    if !have("ffmpeg_publishes_h265_and_sound_of_many_kinds", &["ffmpeg", "ffprobe"]) {
        return;
    }
    let server = serve();
    let h265 = "-c:v libx265 -x265-params keyint=25:log-level=error:bframes=2";
    // FFmpeg names H.265 hev1 where it is not told, and has parameter sets in the header all the same.
    let dash = "-f dash -seg_duration 2 -window_size 3";
    let side = "-c:a aac -af pan=5.1(side)|FL=c0|FR=c0|FC=c0|LFE=c0|SL=c0|SR=c0";
    let expect = |(name, sound, way, told): (&str, &str, &str, &str)| {
        let manifest = if way.contains("dash") { "manifest.mpd" } else { "index.m3u8" };
        let _publisher = ffmpeg(
            &format!("{h265} {sound} {way} -method PUT"),
            &server.url(&format!("/live/{name}/{manifest}")),
        );
        server.wait_for_pictures(name);
        let video = &server.stream(name).unwrap()["codecs"][0];
        assert_eq!((video["width"].as_u64(), video["height"].as_u64()), (Some(320), Some(180)), "{video}");
        expect_both(&server, &format!("/live/{name}.ts"), &format!("/live/{name}/{manifest}"));
        let playlist = get(server.address(), &format!("/live/{name}/index.m3u8")).text();
        for word in ["hvc1.1.6.L60.90", told] {
            assert!(playlist.contains(word), "{word}: {playlist}");
        }
    };
    let low_delay = format!("-tag:v hvc1 {dash} -ldash 1 -streaming 1");
    let pairs = [
        [("ac3", "-c:a ac3", low_delay.as_str(), "ac-3"), ("eac3", "-c:a eac3 -ac 6", dash, "ec-3")],
        [
            ("mp3", "-c:a libmp3lame", "-f hls -hls_time 1 -hls_segment_type fmp4", "mp4a.6B"),
            ("side", side, dash, "CHANNELS=\"6\""),
        ],
    ];
    for [one, other] in pairs {
        at_once(|| expect(one), || expect(other));
    }
    expect_all_taken(&server);
}

#[test]
fn ffmpeg_publishes_av1() {
    if !have("ffmpeg_publishes_av1", &["ffmpeg", "ffprobe"]) {
        return;
    }
    let server = serve();
    for (name, coding, way, told) in [
        // Real time, without pictures that are shown later.
        (
            "low",
            "-c:v libaom-av1 -usage realtime -cpu-used 8 -g 25 -c:a libopus",
            "-f dash -dash_segment_type mp4 -seg_duration 2 -window_size 3 -ldash 1 -streaming 1",
            "av01.0.00M.08,opus",
        ),
        // Frames that are not shown, ten bits, a wide range of light.
        (
            "wide",
            "-vf setparams=color_primaries=bt2020:color_trc=smpte2084:colorspace=bt2020nc -pix_fmt yuv420p10le \
             -c:v libsvtav1 -preset 12 -g 25 -color_primaries bt2020 -color_trc smpte2084 -colorspace bt2020nc \
             -svtav1-params enable-hdr=1:content-light=1000,400 -c:a aac",
            "-f hls -hls_time 1 -hls_segment_type fmp4 -hls_flags delete_segments -hls_list_size 3",
            "av01.0.00M.10.0.110.09.16.09.0,mp4a.40.2",
        ),
    ] {
        let manifest = if way.contains("dash") { "manifest.mpd" } else { "index.m3u8" };
        let url = server.url(&format!("/live/{name}/{manifest}"));
        let _publisher = ffmpeg(&format!("{coding} {way} -method PUT"), &url);
        server.wait_for_pictures(name);
        let video = &server.stream(name).unwrap()["codecs"][0];
        assert_eq!((video["name"].as_str(), video["width"].as_u64()), (Some("AV1"), Some(320)), "{video}");
        expect_both(&server, &format!("/live/{name}/index.m3u8"), &format!("/live/{name}/manifest.mpd"));
        let playlist = get(server.address(), &format!("/live/{name}/index.m3u8")).text();
        assert!(playlist.contains(told), "{told}: {playlist}");
        assert_eq!(playlist.contains("VIDEO-RANGE=PQ"), name == "wide", "{playlist}");
    }
    let url = server.url("/live/wide/index.m3u8");
    let told = run("ffprobe", &["-v", "error", "-select_streams", "v:0", "-show_streams", &url], 60).text();
    for words in ["codec_name=av1", "pix_fmt=yuv420p10le", "color_transfer=smpte2084", "max_content=1000"] {
        assert!(told.contains(words), "{words} is not in {told}");
    }
    expect_all_taken(&server);
}

#[test]
fn ffmpeg_publishes_a_ladder() {
    if !have("ffmpeg_publishes_a_ladder", &["ffmpeg"]) {
        return;
    }
    let server = serve();
    let options = "-filter_complex [0:v]split=2[high][b];[b]scale=160:90[low] -map [high] -map [low] -map 1:a \
                   -tune zerolatency -c:a aac -f dash -method PUT -ldash 1 -streaming 1 -seg_duration 2 -window_size 3";
    let _publisher = ffmpeg(options, &server.url("/live/hall/manifest.mpd"));
    let [high, low] = ["hall-180p25", "hall-90p25"].map(|name| {
        server.wait_for_pictures(name);
        server.url(&format!("/live/{name}.ts"))
    });
    at_once(|| expect_sound_in_place(&high), || expect_sound_in_place(&low));
    until("no stream of the name itself", || server.stream("hall").is_none());
    // The name is that of the ladder.
    expect_pictures(&server.url("/live/hall/index.m3u8"));
    let playlist = get(server.address(), "/live/hall/index.m3u8").text();
    for size in ["320x180", "160x90"] {
        assert!(playlist.contains(size), "{playlist}");
    }
    expect_all_taken(&server);
}
