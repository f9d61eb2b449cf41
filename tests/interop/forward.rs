//! Foreign servers that a stream is published to: FFmpeg, which listens for one publisher.

use crate::{GLASSLINE, have};
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::wait::{until, until_some};
use std::net::TcpListener;
use std::process::Command;

#[test]
fn ffmpeg_takes_a_stream_that_is_forwarded() {
    if !have("ffmpeg_takes_a_stream_that_is_forwarded", &["ffmpeg", "ffprobe"]) {
        return;
    }
    let scratch = Scratch::new("forward-interop");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let service_url = format!("rtmp://127.0.0.1:{port}/live/STREAM-KEY");
    let out = scratch.file("out.flv");
    let mut service = Running::start(
        Command::new("ffmpeg")
            .args(["-v", "error", "-y", "-listen", "1", "-f", "flv", "-i", &service_url])
            .args(["-c", "copy", &out]),
    );
    let file = scratch.write(
        "glassline.toml",
        format!(
            "[publish]\nreturn_window = '0s'\n[rtmp]\nlisten = ['127.0.0.1:0']\n[stream.stage]\nforward = ['{service_url}']\n"
        ),
    );
    let server = Server::start(GLASSLINE, &["--config", &file]);
    let rtmp = until_some("the address", || {
        let output = server.process.output();
        let line = output.lines().find(|line| line.contains("RTMP publishers"))?.to_owned();
        Some(line.split_once("address=")?.1.split_whitespace().next()?.to_owned())
    });
    // Reordered pictures, and AAC beside them.
    let inputs = "-v error -re -f lavfi -i testsrc2=size=320x180:rate=30 -f lavfi -i sine=sample_rate=48000 -t 10 -g 30";
    let coding = "-c:v libx264 -preset veryfast -bf 2 -c:a aac -f flv";
    let mut publisher = Running::start(
        Command::new("ffmpeg")
            .args(inputs.split(' '))
            .args(coding.split(' '))
            .arg(format!("rtmp://{rtmp}/live/stage")),
    );
    until("the end of the publisher", || publisher.ended().is_some());
    assert!(publisher.wait().success(), "{}", publisher.output());
    // The stream is over, and the service is told so: FFmpeg ends its file.
    until("the end of the service", || service.ended().is_some());
    assert!(service.wait().success(), "{}", service.output());
    assert!(server.process.output().contains("forward is published"), "{}", server.process.output());
    assert!(!server.process.output().contains("STREAM-KEY"));
    let decoded = run("ffmpeg", &["-v", "error", "-i", &out, "-f", "null", "-"], 60);
    assert_eq!((decoded.status, decoded.stderr.trim()), (Some(0), ""), "all of it decodes");
    let entries = "stream=codec_name,width,nb_read_packets,start_time";
    let probed = run(
        "ffprobe",
        &["-v", "error", "-count_packets", "-show_entries", entries, "-of", "csv=p=0", &out],
        60,
    );
    let text = probed.text();
    let count = |codec: &str| -> u32 {
        let line =
            text.lines().find(|line| line.starts_with(codec)).unwrap_or_else(|| panic!("{codec}: {text}"));
        line.split(',').filter_map(|field| field.parse().ok()).next_back().unwrap()
    };
    // Ten seconds, less the time until the stream was there and the service had it.
    assert!(count("h264") > 180 && count("aac") > 250, "{text}");
    let times =
        run("ffprobe", &["-v", "error", "-show_entries", "packet=dts", "-of", "csv=p=0", &out], 60).text();
    let times: Vec<i64> = times.lines().filter_map(|line| line.trim_matches(',').parse().ok()).collect();
    assert!(times.windows(2).all(|pair| pair[0] <= pair[1]), "times of both tracks never go back");
}
