//! Foreign programs as cameras of `send`: FFmpeg's MPEG-TS in datagrams, VLC by RTSP with B pictures and AAC.

use crate::rtsp::{camera, clip, free_port};
use crate::{GLASSLINE, have};
use glassline_media::bitstream::h264::nals;
use glassline_media::container::ts::{Demuxer, Event};
use glassline_media::{AccessUnit, Codec};
use glassline_test_support::program::{Running, Scratch, run};
use glassline_test_support::wait::{until, until_some};
use std::process::Command;

fn start(arguments: &[&str]) -> Running {
    Running::start(Command::new(GLASSLINE).args(arguments))
}

/// A receiver that writes `file`, and its address.
fn receive(file: &str) -> (Running, String) {
    let receiver = start(&["receive", "link://127.0.0.1:0", file, "--insecure", "--once", "--json"]);
    let address = until_some("the receiver", || {
        let output = receiver.output();
        output
            .split_once("listening address=")
            .map(|(_, rest)| rest.split_whitespace().next().unwrap().to_owned())
    });
    (receiver, format!("link://{address}"))
}

fn units(file: &str) -> Vec<AccessUnit> {
    let mut demuxer = Demuxer::new();
    demuxer.push(&std::fs::read(file).unwrap_or_default());
    demuxer.finish();
    let mut units = Vec::new();
    while let Some(event) = demuxer.poll() {
        if let Event::AccessUnit { unit, .. } = event {
            units.push(unit);
        }
    }
    units
}

fn slices(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    nals(bytes).filter(|nal| nal.kind().is_slice()).map(|nal| nal.bytes.to_vec())
}

#[test]
fn ffmpeg_s_pictures_in_datagrams_are_sent_unchanged() {
    if !have("ffmpeg_s_pictures_in_datagrams_are_sent_unchanged", &["ffmpeg"]) {
        return;
    }
    let scratch = Scratch::new("send-ffmpeg");
    let (port, copy, came) = (free_port(), scratch.file("copy.ts"), scratch.file("came.h264"));
    let to = format!("[f=mpegts]udp\\://127.0.0.1\\:{port}?pkt_size=1316|[f=mpegts:flush_packets=1]{copy}");
    let words = "-v error -re -f lavfi -i testsrc=size=320x240:rate=25 -t 60 -c:v libx264 -preset ultrafast -tune zerolatency \
                 -g 25 -map 0 -f tee";
    let _ffmpeg = Running::start(Command::new("ffmpeg").args(words.split_whitespace()).args(["-y", &to]));
    let (mut receiver, link) = receive(&came);
    let from = format!("udp://127.0.0.1:{port}");
    let mut sender = start(&["send", &from, &link, "--insecure", "--duration", "4s", "--json"]);
    assert_eq!((sender.wait().code(), receiver.wait().code()), (Some(0), Some(0)), "{}", sender.output());
    let came: Vec<_> = slices(&std::fs::read(&came).unwrap()).collect();
    assert!(came.len() > 40, "{}: {}", came.len(), sender.output());
    let mut sent = Vec::new();
    until("the copy to be written", || {
        sent = units(&copy).iter().flat_map(|unit| slices(&unit.data)).collect();
        sent.contains(came.last().unwrap())
    });
    let mut next = 0;
    for slice in &came {
        let skipped = sent[next..].iter().position(|other| other == slice).expect("it was published so");
        assert!(skipped == 0 || slice[0] & 0x1f == 5, "{skipped} are missing in front of no key frame");
        next += skipped + 1;
    }
}

#[test]
fn vlc_s_pictures_in_another_order_and_its_sound_are_sent() {
    let test = "vlc_s_pictures_in_another_order_and_its_sound_are_sent";
    if !have(test, &["ffmpeg", "cvlc", "setpriv"]) {
        return;
    }
    let scratch = Scratch::new("send-vlc");
    let clip = clip(&scratch, &["-c:v", "libx264", "-g", "25", "-bf", "2", "-c:a", "aac", "-b:a", "96k"]);
    let port = free_port();
    let _vlc = camera(&scratch, &clip, port);
    let came = scratch.file("came.ts");
    let (mut receiver, link) = receive(&came);
    let from = format!("rtsp://127.0.0.1:{port}/clip");
    let mut sender = start(&["send", &from, &link, "--insecure", "--duration", "6s", "--json"]);
    assert_eq!((sender.wait().code(), receiver.wait().code()), (Some(0), Some(0)), "{}", sender.output());
    let output = sender.output();
    assert_eq!(output.matches("the camera codes B pictures").count(), 1, "{output}");
    let units = units(&came);
    let pictures = units.iter().filter(|unit| unit.codec == Codec::H264).count();
    assert!(pictures > 40, "{pictures}: {output}");
    // VLC's sound may begin so much later than its pictures that the file has begun without it.
    let report = receiver.output();
    let report: serde_json::Value =
        serde_json::from_str(report.lines().find(|line| line.starts_with('{')).unwrap()).unwrap();
    assert!(report["sound"]["messages"].as_u64() > Some(200), "{report}");
    let decoded = run("ffmpeg", &["-v", "error", "-i", &came, "-map", "0:v", "-f", "null", "-"], 60);
    assert_eq!(decoded.status, Some(0), "{}", decoded.stderr);
}
