//! Uncompressed video, audio and ancillary data over RTP: what `probe` tells of them, and that `encode` takes the sound along.

use crate::encode::contents;
use crate::pull::free_port;
use crate::{GLASSLINE, glassline};
use glassline_media::{AudioBlock, Time};
use glassline_test_support::program::{Running, Scratch};
use glassline_test_support::wait::{undisturbed, until};
use glassline_transport::ancillary::{self, Field, Packet, Source, TimeCode};
use glassline_transport::rtp::pcm::{self, Depth, PacketTime};
use serde_json::Value;
use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What a description of ours says of the video that `send-raw` sends.
const VIDEO_TYPE: u8 = 96;
pub(crate) const SOUND_TYPE: u8 = 97;
const ANCILLARY_TYPE: u8 = 98;

/// Starts `send-raw` of a small picture; returns it and the path and text of its description.
pub(crate) fn send_raw(folder: &Scratch) -> (Running, String, String) {
    let to = format!("rtp://127.0.0.1:{}", free_port());
    let sdp = folder.file("video.sdp");
    let arguments = ["send-raw", "test:320x180@25", &to, "--sdp", &sdp, "--format", "422-10"];
    let sender = Running::start(Command::new(GLASSLINE).args(arguments));
    until("the description", || std::fs::read_to_string(&sdp).is_ok_and(|text| text.contains("mediaclk")));
    let text = std::fs::read_to_string(&sdp).unwrap();
    assert!(text.contains(&format!("RTP/AVP {VIDEO_TYPE}")), "{text}");
    (sender, sdp, text)
}

/// Sends something each 10 ms until it is dropped.
pub(crate) struct Sending {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sending {
    fn start(mut send: impl FnMut(u64) + Send + 'static) -> Sending {
        let is_over = Arc::new(AtomicBool::new(false));
        let ending = is_over.clone();
        let run = move || {
            let begun = Instant::now();
            for step in 0.. {
                if ending.load(Ordering::Relaxed) {
                    return;
                }
                send(step);
                let due = begun + Duration::from_millis(10 * (step + 1));
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
        };
        Sending { is_over, thread: Some(std::thread::spawn(run)) }
    }

    /// Sound of four channels, the first one at half of full scale.
    pub(crate) fn sound(port: u16) -> Sending {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut packetizer = pcm::Packetizer::new(pcm::PacketizerSettings {
            format: pcm::Format::new(Depth::L24, 4, 48_000).unwrap(),
            packet_time: PacketTime::Millisecond,
            payload_type: SOUND_TYPE,
            ssrc: 5,
            first_sequence: 65_000,
            first_timestamp: 1_000,
        })
        .unwrap();
        let samples: Vec<f32> = (0..480)
            .flat_map(|at| {
                let tone = (at as f32 * 0.13).sin() * 0.5;
                [tone, -tone / 2.0, 0.0, 0.0]
            })
            .collect();
        let block = AudioBlock { samples, channels: 4, rate_hz: 48_000, captured: Time::ZERO };
        Sending::start(move |_| {
            let mut send = |datagram: &[u8]| drop(socket.send_to(datagram, ("127.0.0.1", port)));
            packetizer.push(&block, &mut send).unwrap();
        })
    }

    /// Time code and captions, 25 times a second.
    fn ancillary(port: u16) -> Sending {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut packetizer = ancillary::Packetizer::new(ancillary::PacketizerSettings {
            payload_type: ANCILLARY_TYPE,
            ssrc: 6,
            first_sequence: 0,
            datagram_bytes: 1_400,
        });
        let code = TimeCode {
            hours: 10,
            minutes: 20,
            seconds: 30,
            frames: 4,
            is_drop_frame: false,
            source: Source::Vitc1,
        };
        let mut captions = Packet::new(0x61, 0x01, &[0x96, 0x69, 8]).unwrap();
        captions.line = 9;
        let packets = [code.packet().unwrap(), captions];
        Sending::start(move |step| {
            if step % 4 == 0 {
                let mut send = |datagram: &[u8]| drop(socket.send_to(datagram, ("127.0.0.1", port)));
                packetizer.frame((step / 4 * 3_600) as u32, Field::Unspecified, &packets, &mut send);
            }
        })
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn sound_section(port: u16) -> String {
    format!(
        "m=audio {port} RTP/AVP {SOUND_TYPE}\r\nc=IN IP4 127.0.0.1\r\na=rtpmap:{SOUND_TYPE} L24/48000/4\r\na=ptime:1\r\n\
         a=mediaclk:sender\r\n"
    )
}

fn ancillary_section(port: u16) -> String {
    format!(
        "m=video {port} RTP/AVP {ANCILLARY_TYPE}\r\nc=IN IP4 127.0.0.1\r\na=rtpmap:{ANCILLARY_TYPE} smpte291/90000\r\n\
         a=fmtp:{ANCILLARY_TYPE} DID_SDID={{0x61,0x01}}; DID_SDID={{0x60,0x60}}\r\n"
    )
}

fn probe_json(sdp: &str) -> Value {
    let outcome = glassline(&["probe", &format!("rtp:{sdp}"), "--duration", "3s", "--json"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    serde_json::from_str(&outcome.text()).unwrap()
}

#[test]
fn a_stream_of_send_raw_is_told_with_rate_and_class_and_without_loss() {
    let folder = Scratch::new("raw_probe");
    let (_sender, sdp, _) = send_raw(&folder);
    // A sender that got no processor for a while leaves frames out and says so: what came then is of the machine.
    let kept_up = |report: &Value| report["flows"][0]["video"]["left_out_frames"] == 0;
    let report =
        (0..4).map(|_| undisturbed(|| probe_json(&sdp))).find(kept_up).expect("a sender that keeps up");
    assert_eq!((&report["schema"], &report["kind"]), (&1.into(), &"rtp".into()));
    let flow = &report["flows"][0];
    let (video, path) = (&flow["video"], &flow["paths"][0]);
    assert_eq!((&flow["kind"], &flow["merged"]["lost"]), (&"video".into(), &0.into()), "{report}");
    assert_eq!((&video["width_px"], &video["depth_bits"]), (&320.into(), &10.into()));
    assert_eq!((&video["described_rate_hz"], &path["lost"]), (&25.0.into(), &0.into()));
    // Frames that come up to 100 ms late, which is no standstill, are a thirtieth of the three seconds.
    for (rate, tolerance) in [(&video["stamped_rate_hz"], 0.1), (&video["received_rate_hz"], 1.0)] {
        assert!((rate.as_f64().unwrap() - 25.0).abs() < tolerance, "{report}");
    }
    assert!(video["frames"].as_u64().unwrap() > 60, "{report}");
    assert!(
        path["timing"]["class"].is_string() && path["timing"]["frames"].as_u64().unwrap() > 50,
        "{report}"
    );
    let outcome = glassline(&["probe", &format!("rtp:{sdp}"), "--duration", "2s"]);
    let text = outcome.text();
    for part in ["320x180 progressive, YCbCr-4:2:2, 10 bit", "25 described, 25 by stamps", " 0 lost", "Cinst"]
    {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

#[test]
fn sound_and_ancillary_data_are_told_of_beside_it() {
    let folder = Scratch::new("raw_probe_beside");
    let (sound, ancillary) = (free_port(), free_port());
    let (_sender, _, text) = send_raw(&folder);
    let sdp = folder.write("all.sdp", text + &sound_section(sound) + &ancillary_section(ancillary));
    let _sending = [Sending::sound(sound), Sending::ancillary(ancillary)];
    let report = probe_json(&sdp);
    let kinds: Vec<_> = (0..3).map(|at| report["flows"][at]["kind"].as_str().unwrap().to_owned()).collect();
    assert_eq!(kinds, ["video", "audio", "ancillary"]);
    let audio = &report["flows"][1]["audio"];
    assert_eq!((&audio["channels"], &audio["silence"]), (&4.into(), &0.into()), "{report}");
    assert!((audio["peak_dbfs"][0].as_f64().unwrap() + 6.0).abs() < 0.2 && audio["peak_dbfs"][2].is_null());
    assert!(audio["samples"].as_u64().unwrap() > 100_000, "{report}");
    let found = &report["flows"][2]["ancillary"];
    assert_eq!(found["time_code"], "10:20:30:04");
    assert!(found["caption_packets"].as_u64().unwrap() > 50, "{report}");
    assert_eq!(found["kinds"][1]["line"], 9);
    let text = glassline(&["probe", &format!("rtp:{sdp}"), "--duration", "1s"]).text();
    for part in ["CEA-708 captions", "10:20:30:04", "L24, 48000 Hz, 4 channels", "-6.0  -12.0  -inf  -inf"] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

#[test]
fn another_payload_type_is_told() {
    let folder = Scratch::new("raw_probe_type");
    let (_sender, _, text) = send_raw(&folder);
    let other = ["RTP/AVP ", "rtpmap:", "fmtp:"]
        .iter()
        .fold(text, |text, before| text.replace(&format!("{before}{VIDEO_TYPE}"), &format!("{before}101")));
    let sdp = folder.write("other.sdp", other);
    let outcome = glassline(&["probe", &format!("rtp:{sdp}"), "--duration", "1s"]);
    assert_eq!(outcome.status, Some(1));
    let because =
        "but none is of the described stream because their payload type is 96 where the description says 101";
    assert!(outcome.text().contains(because), "{}", outcome.text());
    assert!(outcome.stderr.contains("no packet of the description has come"), "{}", outcome.stderr);
}

#[test]
fn it_ends_well_when_it_is_told_to_and_refuses_what_makes_no_sense() {
    let folder = Scratch::new("raw_probe_end");
    let (_sender, sdp, _) = send_raw(&folder);
    let target = format!("rtp:{sdp}");
    let mut probe =
        Running::start(Command::new(GLASSLINE).args(["probe", &target, "--duration", "1h", "--log", "info"]));
    // It has its socket once another program cannot have it.
    let port = std::fs::read_to_string(&sdp).unwrap();
    let port = port.split("m=video ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    until("the socket", || UdpSocket::bind(format!("127.0.0.1:{port}")).is_err());
    let frames = Instant::now() + Duration::from_millis(500);
    until("some frames", || Instant::now() > frames);
    probe.signal("INT");
    assert!(probe.wait().success(), "{}", probe.output());
    assert!(probe.output().contains("320x180"), "{}", probe.output());
    for (arguments, complaint) in [
        (&["probe", &target, "--glass"][..], "--glass is of no use"),
        (&["probe", "rtp:/no/such.sdp"], "/no/such.sdp"),
        (&["probe", "rtp:"], "names no session description"),
        (&["probe", "file.ts", "--interface", "lo"], "--interface is of no use for file.ts"),
        (&["probe", "file.ts", "--ptp"], "--ptp is of no use for file.ts"),
    ] {
        let outcome = glassline(arguments);
        assert_eq!(outcome.status, Some(2), "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(complaint), "{arguments:?}: {}", outcome.stderr);
    }
}

/// The most memory that a process has had.
fn peak_bytes(id: u32) -> u64 {
    let told = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = told.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() << 10
}

#[test]
fn frames_of_any_size_are_looked_at_without_memory_for_them() {
    let folder = Scratch::new("raw_probe_large");
    // An address of its own: a port that is free is another test's a moment later.
    let port = free_port();
    let sdp = folder.write(
        "large.sdp",
        format!(
            "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\nm=video {port} RTP/AVP 96\r\nc=IN IP4 127.66.2.1\r\n\
             a=rtpmap:96 raw/90000\r\na=fmtp:96 sampling=RGB; width=16384; height=16384; exactframerate=60; depth=16; \
             colorimetry=BT709\r\n"
        ),
    );
    let target = format!("rtp:{sdp}");
    let mut probe =
        Running::start(Command::new(GLASSLINE).args(["probe", &target, "--duration", "1h", "--log", "info"]));
    until("the socket", || UdpSocket::bind(("127.66.2.1", port)).is_err());
    // One frame would take 1.6 GB.
    let taken = peak_bytes(probe.id());
    probe.signal("INT");
    assert_eq!(probe.wait().code(), Some(1), "{}", probe.output());
    assert!(probe.output().contains("no packet of the description has come"), "{}", probe.output());
    assert!(taken < 256 << 20, "{taken} bytes");
}

/// Packets that look like those of `send-raw`'s 320x180 in 10 bits, from anywhere in numbers and time.
fn forged(step: u32) -> Vec<u8> {
    let mut random = step.wrapping_mul(2_654_435_761);
    let mut next = || {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        random.to_be_bytes()
    };
    let (numbers, stamp, ssrc) = (next(), next(), next());
    let mut packet = vec![0x80, VIDEO_TYPE, numbers[0], numbers[1]];
    packet.extend(stamp);
    packet.extend(ssrc);
    // The high half of the number; 800 bytes, a whole line.
    packet.extend([numbers[2], numbers[3], 800u16.to_be_bytes()[0], 800u16.to_be_bytes()[1]]);
    packet.extend([0, (step % 180) as u8, 0, 0]);
    packet.extend([0x99; 800]);
    packet
}

/// What `record` says of four seconds of `target`, while a stranger sends packets of the same SSRC to its port.
fn recorded_beside_a_stranger(target: &str, port: u16) -> Value {
    let arguments = ["record", target, "null:", "--duration", "4s", "--json", "--log", "info"];
    let mut recording = Running::start(Command::new(GLASSLINE).args(arguments));
    until("the socket", || UdpSocket::bind(("127.0.0.1", port)).is_err());
    // Once it listens to the camera, which sends a packet each fraction of a millisecond, strangers come too late.
    let listens = Instant::now() + Duration::from_millis(500);
    until("some frames", || Instant::now() > listens);
    let stranger = UdpSocket::bind("127.0.0.2:0").unwrap();
    let _sending = Sending::start(move |step| {
        for index in 0..10 {
            let _ = stranger.send_to(&forged(step as u32 * 10 + index), ("127.0.0.1", port));
        }
    });
    assert!(recording.wait().success(), "{}", recording.output());
    let output = recording.output();
    let line = output.lines().find(|line| line.starts_with('{')).unwrap();
    serde_json::from_str(line).unwrap()
}

#[test]
fn packets_of_a_stranger_break_no_frame_and_are_told() {
    let folder = Scratch::new("raw_stranger");
    let (_sender, sdp, text) = send_raw(&folder);
    let port: u16 = text.split("m=video ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let target = format!("rtp:{sdp}");
    let told = undisturbed(|| recorded_beside_a_stranger(&target, port));
    assert!(told["refused"].as_u64().unwrap() > 1_000, "{told}");
    for field in ["lost", "incomplete_frames", "restarts", "late"] {
        assert_eq!(told[field], 0, "{field}: {told}");
    }
    assert!(told["frames"].as_u64().unwrap() >= 95, "{told}");
}

#[test]
fn encode_takes_the_sound_of_the_description_along() {
    let folder = Scratch::new("raw_encode");
    let sound = free_port();
    let (_sender, _, text) = send_raw(&folder);
    let sdp = folder.write("both.sdp", text + &sound_section(sound));
    let _sending = Sending::sound(sound);
    let (input, file) = (format!("rtp:{sdp}"), folder.file("out.ts"));
    for (more, has_sound) in [(&["--audio", "s302m"][..], true), (&["--audio", "none"], false)] {
        let arguments = [&["encode", &input, &file, "--duration", "3s"][..], more].concat();
        let outcome = glassline(&arguments);
        assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
        let found = contents(&std::fs::read(&file).unwrap());
        assert!(found.pictures.len() > 50, "{}: {}", found.pictures.len(), outcome.stderr);
        assert_eq!(found.sounds.len() > 1_000, has_sound, "{}: {}", found.sounds.len(), outcome.stderr);
        if has_sound {
            // It has the pictures' clock.
            let (first, last) = (found.pictures[0], *found.pictures.last().unwrap());
            let within = found.sounds.iter().filter(|pts| (first..=last).contains(*pts)).count();
            assert!(within > 1_000, "{within} between {first} and {last}: {:?}", &found.sounds[..5]);
        }
    }
}
