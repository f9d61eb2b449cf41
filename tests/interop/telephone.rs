//! Cameras' G.711 by FFmpeg: each byte as FFmpeg decodes it, and the whole way into a stream and out of it.

use crate::rtsp::free_port;
use crate::{GLASSLINE, have};
use glassline_media::bitstream::g711::Law;
use glassline_test_support::http::get;
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::wait::until;
use std::process::Command;

#[test]
fn each_byte_of_g_711_is_what_ffmpeg_decodes() {
    let test = "each_byte_of_g_711_is_what_ffmpeg_decodes";
    if !have(test, &["ffmpeg"]) {
        return;
    }
    let scratch = Scratch::new("g711");
    let all: Vec<u8> = (0..=255).collect();
    for (law, mux) in [(Law::Mu, "mulaw"), (Law::A, "alaw")] {
        let file = scratch.write(mux, &all);
        let decoded = run(
            "ffmpeg",
            &[
                "-nostdin", "-v", "error", "-f", mux, "-ar", "8000", "-ac", "1", "-i", &file, "-f", "s16le",
                "-",
            ],
            30,
        );
        let theirs: Vec<i16> =
            decoded.stdout.as_chunks::<2>().0.iter().map(|sample| i16::from_le_bytes(*sample)).collect();
        let ours: Vec<i16> = all.iter().map(|byte| law.decode(*byte)).collect();
        assert_eq!(ours, theirs, "{mux} {}", decoded.stderr);
    }
}

/// Loudness of `file` and of what of it lies within 50 Hz of a tone, in dB of full scale.
fn levels(file: &str, tone: u32) -> [f64; 2] {
    let band = format!("bandpass=f={tone}:width_type=h:w=100,");
    ["", &band].map(|filter| {
        let filter = format!("aresample=48000,{filter}volumedetect");
        let heard =
            run("ffmpeg", &["-nostdin", "-i", file, "-map", "0:a", "-af", &filter, "-f", "null", "-"], 60);
        let line = heard.stderr.lines().find(|line| line.contains("mean_volume")).unwrap_or_default();
        let level = line.split("mean_volume:").nth(1).and_then(|level| level.split_whitespace().next());
        level.and_then(|level| level.parse().ok()).unwrap_or_else(|| panic!("{}", heard.stderr))
    })
}

#[test]
fn g_711_of_a_camera_is_heard_by_all() {
    let test = "g_711_of_a_camera_is_heard_by_all";
    if !have(test, &["ffmpeg", "ffprobe"]) {
        return;
    }
    let (scratch, port) = (Scratch::new("g711-camera"), free_port());
    let file = scratch.write("glassline.toml", format!("[rtsp]\nlisten = ['127.0.0.1:{port}']\n"));
    let server = Server::start(GLASSLINE, &["--config", &file]);
    for (name, codec, transport) in [("mu", "pcm_mulaw", "udp"), ("a", "pcm_alaw", "tcp")] {
        let to = format!("rtsp://127.0.0.1:{port}/live/{name}");
        let inputs = "-nostdin -v error -re -f lavfi -i testsrc2=size=320x180:rate=25 -f lavfi -i sine=frequency=1000:sample_rate=8000";
        let coding = "-c:v libx264 -preset ultrafast -g 25 -bf 0 -pix_fmt yuv420p -ac 1 -c:a";
        let mut command = Command::new("ffmpeg");
        command.args(inputs.split(' ')).args(coding.split(' ')).arg(codec);
        let publisher = Running::start(command.args(["-f", "rtsp", "-rtsp_transport", transport, &to]));
        server.wait_for_pictures(name);
        let out = scratch.file(&format!("{name}.ts"));
        let url = server.url(&format!("/live/{name}.ts"));
        let read =
            run("ffmpeg", &["-nostdin", "-v", "error", "-i", &url, "-c", "copy", "-t", "4", "-y", &out], 60);
        assert_eq!((read.status, read.stderr.trim()), (Some(0), ""), "{}", publisher.output());
        let shown = run(
            "ffprobe",
            &["-v", "error", "-show_entries", "stream=codec_name", "-of", "csv=p=0", &out],
            30,
        );
        assert!(shown.text().contains("opus") && shown.text().contains("h264"), "{}", shown.text());
        // The tone, at FFmpeg's level of an eighth of full scale (-21 dB), and next to nothing beside it.
        let [all, tone] = levels(&out, 1000);
        assert!(
            (all + 21.0).abs() < 1.5 && (all - tone).abs() < 1.0,
            "{name}: {all} dB, {tone} dB of it the tone"
        );
        assert_eq!(server.count(name, "continuity_errors"), 0);
        // Without a hole: each packet follows the one before it by 20 ms.
        let packets = run(
            "ffprobe",
            &["-v", "error", "-select_streams", "a", "-show_entries", "packet=pts", "-of", "csv=p=0", &out],
            30,
        );
        let times: Vec<i64> =
            packets.text().lines().filter_map(|line| line.trim_matches(',').parse().ok()).collect();
        let steps: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(steps.len() > 150 && steps.iter().all(|step| *step == 1800), "{name}: {steps:?}");
        // Browsers have it in LL-HLS.
        until("a playlist with sound", || {
            let playlist = get(server.address(), &format!("/live/{name}/index.m3u8"));
            playlist.status == 200 && playlist.text().to_ascii_lowercase().contains("opus")
        });
        // A player of RTSP gets what the stream has.
        let played = run(
            "ffprobe",
            &[
                "-v",
                "error",
                "-rtsp_transport",
                "tcp",
                "-show_entries",
                "stream=codec_name",
                "-of",
                "csv=p=0",
                &to,
            ],
            60,
        );
        assert!(played.text().contains("opus"), "{} {}", played.text(), played.stderr);
    }
}
