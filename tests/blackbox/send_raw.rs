//! `send-raw`: frames of a file in packets of RFC 4175, as a plain socket gets them.

use crate::{GLASSLINE, glassline};
use glassline_test_support::noise;
use glassline_test_support::program::{Running, Scratch};
use glassline_test_support::wait::until;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

fn socket() -> (UdpSocket, String) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let url = format!("rtp://{}", socket.local_addr().unwrap());
    (socket, url)
}

/// A frame of so many bytes in lines of so many, put together without any code of the product: of 4:2:2 in 8 bits, whose groups
/// of two samples are 4 bytes.
fn frame(socket: &UdpSocket, frame_bytes: usize, line_bytes: usize) -> (Vec<u8>, u32) {
    let (mut frame, mut packet) = (vec![0; frame_bytes], vec![0; 2000]);
    loop {
        let length = socket.recv(&mut packet).unwrap();
        let word = |at: usize| usize::from(u16::from_be_bytes([packet[at], packet[at + 1]]));
        assert_eq!((packet[0], packet[1] & 0x7F), (0x80, 96));
        let (mut at, mut segments) = (14, Vec::new());
        loop {
            segments.push((word(at), word(at + 2), word(at + 4) & 0x7FFF));
            at += 6;
            if word(at - 2) & 0x8000 == 0 {
                break;
            }
        }
        for (bytes, line, offset) in segments {
            let to = line * line_bytes + offset * 2;
            frame[to..to + bytes].copy_from_slice(&packet[at..at + bytes]);
            at += bytes;
        }
        assert_eq!(at, length);
        if packet[1] & 0x80 != 0 {
            let stamp = u32::from_be_bytes([packet[4], packet[5], packet[6], packet[7]]);
            return (frame, stamp);
        }
    }
}

/// Y, Cb and Cr of a picture of 64x32 in 4:2:2 to groups of Cb Y Cr Y.
fn grouped(planes: &[u8]) -> Vec<u8> {
    let (luma, chroma) = planes.split_at(64 * 32);
    let (blue, red) = chroma.split_at(32 * 32);
    let groups = luma.chunks(2).zip(blue.iter().zip(red));
    groups.flat_map(|(luma, (blue, red))| [*blue, luma[0], *red, luma[1]]).collect()
}

#[test]
fn frames_arrive_bit_for_bit_and_the_report_counts_them() {
    let scratch = Scratch::new("send-raw");
    let (y4m, pictures) = noise::y4m("W64 H32 F25:1 Ip C422", 64 * 32 * 2, 8, 3);
    let (input, sdp) = (scratch.write("in.y4m", y4m), scratch.file("out.sdp"));
    for packing in ["gpm", "bpm"] {
        let (socket, url) = socket();
        let arguments = [
            "send-raw",
            &input,
            &url,
            "--loop",
            "--limit",
            "5",
            "--sdp",
            &sdp,
            "--packing",
            packing,
            "--json",
        ];
        let outcome = glassline(&arguments);
        assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
        let mut last = None;
        for number in 0..5 {
            let (bytes, stamp) = frame(&socket, 64 * 32 * 2, 128);
            assert!(bytes == grouped(&pictures[number % 3]), "frame {number}");
            assert!(
                last.is_none_or(|last| stamp.wrapping_sub(last) >= 3600),
                "25 a second, or one was skipped"
            );
            last = Some(stamp);
        }
        let report: serde_json::Value = serde_json::from_str(&outcome.text()).unwrap();
        assert_eq!((&report["frames"], &report["format"]), (&5.into(), &"422-8".into()), "{report}");
        assert_eq!(report["kept_frames"], 3);
        assert_eq!(report["packets"].as_u64(), report["frame_packets"].as_u64().map(|packets| 5 * packets));
        assert_eq!(report["launch_times"][0]["used"], false, "{report}");
        let sdp = std::fs::read_to_string(&sdp).unwrap();
        for word in
            ["m=video", "raw/90000", "sampling=YCbCr-4:2:2", "depth=8", "mediaclk:direct=0", "localmac="]
        {
            assert!(sdp.contains(word), "{word:?} is not in {sdp}");
        }
    }
}

#[test]
fn a_signal_ends_it_well() {
    let (socket, url) = socket();
    let mut command = Command::new(GLASSLINE);
    command.args(["send-raw", "test:64x32@50", &url, "--format", "422-8", "--json"]);
    let mut sender = Running::start(&mut command);
    frame(&socket, 64 * 32 * 2, 128);
    sender.signal("TERM");
    assert_eq!(sender.wait().code(), Some(0));
    until("the report", || sender.output().contains("\"frames\""));
}

#[test]
fn what_cannot_be_sent_is_told_with_what_would_be() {
    let (_socket, url) = socket();
    for (arguments, status, words) in [
        (&["test:63x32@50", &url][..], 2, &["end within a pgroup", "--format"][..]),
        (&["test:64x32@50", "udp://127.0.0.1:5004"], 2, &["rtp://"]),
        (&["test:64x32@50", &url, "--loop"], 2, &["--loop"]),
        (&["/nowhere.y4m", &url], 1, &["/nowhere.y4m"]),
        (&["test:64x32@50", "rtp://127.0.0.1:5004?source=198.51.100.7"], 1, &["198.51.100.7", "source"][1..]),
        (&["test:64x32@50", &url, "--processor", "9999"], 2, &["processor"]),
        (&["test:64x32@50", &url, "--as-fast-as-possible", "--rate", "5G"], 2, &["--rate"]),
    ] {
        let outcome = glassline(&[&["send-raw"], arguments].concat());
        assert_eq!(outcome.status, Some(status), "{arguments:?}: {}", outcome.stderr);
        for word in words {
            assert!(outcome.stderr.contains(word), "{word:?} is not in {}", outcome.stderr);
        }
    }
}

#[test]
fn a_group_without_an_interface_says_by_which_one_it_goes() {
    let outcome = glassline(&["send-raw", "test:64x36@25", "rtp://239.31.7.9:5004?ttl=1", "--limit", "2"]);
    let says = ["goes out by", "no route leads"].iter().any(|words| outcome.stderr.contains(words));
    assert!(says && outcome.stderr.contains("?interface=NAME"), "{}", outcome.stderr);
    let named =
        glassline(&["send-raw", "test:64x36@25", "rtp://239.31.7.9:5004?ttl=1&interface=lo", "--limit", "2"]);
    assert!(!named.stderr.contains("goes out by"), "{}", named.stderr);
}
