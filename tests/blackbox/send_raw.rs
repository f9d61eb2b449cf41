//! `send-raw`: frames of a file in packets of RFC 4175, as a plain socket gets them.

use crate::{GLASSLINE, glassline};
use glassline_test_support::noise;
use glassline_test_support::program::{Running, Scratch};
use glassline_test_support::wait::until;
use glassline_transport::ancillary::Payload;
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

/// A WAVE file of 16 bits and 48 kHz, whose samples count up.
fn wav(channels: u16, frames: usize) -> (Vec<u8>, Vec<i16>) {
    let samples: Vec<i16> =
        (0..frames * usize::from(channels)).map(|at| (at * 7 % 60_000) as u16 as i16).collect();
    let bytes = (samples.len() * 2) as u32;
    let mut file = Vec::new();
    file.extend([&b"RIFF"[..], &(36 + bytes).to_le_bytes(), b"WAVEfmt ", &16u32.to_le_bytes()].concat());
    file.extend([&1u16.to_le_bytes()[..], &channels.to_le_bytes(), &48_000u32.to_le_bytes()].concat());
    let frame_bytes = 2 * channels;
    file.extend([&(48_000 * u32::from(frame_bytes)).to_le_bytes()[..], &frame_bytes.to_le_bytes()].concat());
    file.extend([&16u16.to_le_bytes()[..], b"data", &bytes.to_le_bytes()].concat());
    file.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
    (file, samples)
}

/// A packet's payload type, time stamp and payload.
fn rtp(socket: &UdpSocket) -> (u8, u32, Vec<u8>) {
    let mut packet = vec![0; 2000];
    let length = socket.recv(&mut packet).unwrap();
    let stamp = u32::from_be_bytes([packet[4], packet[5], packet[6], packet[7]]);
    (packet[1] & 0x7F, stamp, packet[12..length].to_vec())
}

/// What a stamp of `rate` a second lies behind the second `since` of TAI, in nanoseconds.
fn nanos_since(since: u64, stamp: u32, rate: u64) -> u64 {
    let ticks = u64::from(stamp.wrapping_sub((since * rate) as u32));
    ticks * 1_000_000_000 / rate
}

#[test]
fn sound_and_time_code_go_beside_the_pictures_and_belong_to_them() {
    let scratch = Scratch::new("send-raw-sound");
    let (y4m, _) = noise::y4m("W64 H32 F25:1 Ip C422", 64 * 32 * 2, 8, 3);
    let (film, (file, samples)) = (scratch.write("in.y4m", y4m), wav(4, 5_800));
    let (sound, sdp) = (scratch.write("in.wav", file), scratch.file("out.sdp"));
    let [(video, video_url), (audio, audio_url), (data, data_url), (second, second_url)] =
        [(); 4].map(|()| socket());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 37;
    let arguments = [
        "send-raw",
        &film,
        &video_url,
        "--audio-in",
        &sound,
        "--sound-to",
        &audio_url,
        "--sound-to",
        &second_url,
        "--ancillary-to",
        &data_url,
        "--time-code",
        "10:00:00:23",
        "--sdp",
        &sdp,
        "--json",
    ];
    let outcome = glassline(&arguments);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let stamps: Vec<u32> = (0..3).map(|_| frame(&video, 64 * 32 * 2, 128).1).collect();
    // Three pictures last 120 ms: 120 packets of a millisecond, with the samples that were there then.
    let packets: Vec<_> = (0..120).map(|_| rtp(&audio)).collect();
    assert!(packets.windows(2).all(|pair| pair[1].1.wrapping_sub(pair[0].1) == 48));
    assert!(packets.iter().all(|(kind, _, payload)| (*kind, payload.len()) == (97, 48 * 4 * 3)));
    let sent: Vec<u8> = packets.iter().flat_map(|(_, _, payload)| payload.clone()).collect();
    let expected = samples[..4 * 5_760].iter().flat_map(|sample| [&sample.to_be_bytes()[..], &[0]].concat());
    assert!(sent == expected.collect::<Vec<u8>>(), "24 bits of what was 16");
    assert_eq!((0..120).map(|_| rtp(&second)).collect::<Vec<_>>(), packets, "the second path has the same");
    let (picture, sound) = (nanos_since(now, stamps[0], 90_000), nanos_since(now, packets[0].1, 48_000));
    assert!(picture.abs_diff(sound) < 25_000, "the first sample was captured with the first picture");
    for (number, code) in ["10:00:00:23", "10:00:00:24", "10:00:01:00"].iter().enumerate() {
        let (kind, stamp, payload) = rtp(&data);
        let payload = Payload::parse(&payload).unwrap();
        assert_eq!((kind, stamp, payload.packets.len()), (100, stamps[number], 1));
        let packet = &payload.packets[0];
        assert!(packet.is_checksum_right() && packet.parity_errors() == 0);
        assert_eq!(packet.time_code().unwrap().to_string(), *code);
    }
    let report: serde_json::Value = serde_json::from_str(&outcome.text()).unwrap();
    assert_eq!(
        (&report["sound"]["channels"], &report["sound"]["packets"]),
        (&4.into(), &120.into()),
        "{report}"
    );
    assert_eq!(
        (&report["sound"]["dropped_samples"], &report["ancillary"]["packets"]),
        (&0.into(), &3.into())
    );
    let sdp = std::fs::read_to_string(&sdp).unwrap();
    for word in [
        "m=audio",
        "L24/48000/4",
        "a=ptime:1",
        "channel-order=SMPTE2110.(U04)",
        "a=group:DUP",
        "smpte291/90000",
        "DID_SDID={0x60,0x60}; exactframerate=25",
    ] {
        assert!(sdp.contains(word), "{word:?} is not in {sdp}");
    }
}

#[test]
fn one_of_two_paths_that_fails_is_told_while_the_other_sends() {
    let (_receiver, to) = socket();
    // The system lets no program broadcast that has not asked for it.
    let dead = "127.255.255.255:20100";
    let also = format!("rtp://{dead}");
    let mut sender = Running::start(Command::new(GLASSLINE).args([
        "send-raw",
        "test:64x36@25",
        &to,
        "--also",
        &also,
        "--json",
    ]));
    until("the path is told", || sender.output().contains("WARN packets to"));
    sender.signal("INT");
    assert_eq!(sender.wait().code(), Some(0), "{}", sender.output());
    let output = sender.output();
    assert_eq!(output.matches("cannot be sent").count(), 1, "{output}");
    assert!(output.contains(&format!("packets to {dead} cannot be sent: Permission denied")), "{output}");
    let json = &output[output.find("{\n").unwrap()..=output.rfind('}').unwrap()];
    let report: serde_json::Value = serde_json::from_str(json).unwrap();
    let [one, other] = [0, 1].map(|path| report["paths"][path]["failed_packets"].as_u64().unwrap());
    assert_eq!((one, other), (0, report["packets"].as_u64().unwrap()), "{report}");
}

#[test]
fn what_goes_beside_the_pictures_goes_to_ports_above_theirs_where_it_is_wanted() {
    let scratch = Scratch::new("send-raw-ports");
    let sent = |arguments: &[&str]| {
        let sdp = scratch.file("out.sdp");
        let fixed = ["send-raw", "test:64x36@25", "--limit", "2", "--sdp", &sdp];
        let outcome = glassline(&[&fixed, arguments].concat());
        assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
        std::fs::read_to_string(&sdp).unwrap()
    };
    let to = "rtp://127.0.0.1:20000";
    let alone = sent(&[to]);
    assert_eq!(alone.matches("m=").count(), 1, "the test pattern is sent alone: {alone}");
    let (_, code) = (sent(&["rtp://127.0.0.1:65534"]), sent(&[to, "--time-code", "clock"]));
    assert!(code.contains("m=video 20004 RTP/AVP 100"), "{code}");
    let tone = sent(&[to, "--sound-to", "rtp://127.0.0.1:20010"]);
    assert!(tone.contains("m=audio 20010 RTP/AVP 97") && tone.contains("SMPTE2110.(ST)"), "{tone}");
    for (arguments, word) in [
        (&["rtp://127.0.0.1:65534", "--time-code", "clock"][..], "--ancillary-to"),
        (&[to, "--time-code", "25:00:00:00"], "HH:MM:SS:FF"),
        (&[to, "--time-code", "10:00:00;00"], "drop-frame"),
        (&[to, "--also", "rtp://127.0.0.1:20004", "--time-code", "clock"], "at least 6 apart"),
        (&[to, "--also", to], "20000"),
        (&[to, "--audio-in", "x.wav", "--rate", "5G"], "--rate"),
        (
            &[
                to,
                "--sound-to",
                "rtp://127.0.0.1:20010",
                "--sound-to",
                "rtp://127.0.0.1:20020",
                "--sound-to",
                "rtp://127.0.0.1:20030",
            ],
            "one path or two",
        ),
    ] {
        let outcome = glassline(&[&["send-raw", "test:64x36@25"], arguments].concat());
        assert!(
            outcome.status == Some(2) && outcome.stderr.contains(word),
            "{arguments:?}: {}",
            outcome.stderr
        );
    }
}
