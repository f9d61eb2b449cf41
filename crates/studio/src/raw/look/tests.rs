use super::*;
use crate::raw::testing::{PAYLOAD_TYPE, Sender, format, free, wait_for};
use glassline_media::AudioBlock;
use glassline_transport::ancillary::{self, CaptionRate, Cdp, Field, Packet, Source, TimeCode, Triplet};
use glassline_transport::rtp::pcm::{self, Depth, PacketTime};
use std::net::{SocketAddr, UdpSocket};
use std::time::Instant;

fn described(section: &str) -> Description {
    let text = format!("v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=x\r\nt=0 0\r\n{section}");
    Description::parse(&text).unwrap()
}

fn section(medium: &str, to: SocketAddr, map: &str, parameters: &str) -> String {
    let (port, payload_type) = (to.port(), PAYLOAD_TYPE);
    format!(
        "m={medium} {port} RTP/AVP {payload_type}\r\nc=IN IP4 127.0.0.1\r\na=rtpmap:{payload_type} {map}\r\n\
         a=fmtp:{payload_type} {parameters}\r\n"
    )
}

fn video(to: SocketAddr, depth: u8) -> String {
    let parameters = format!(
        "sampling=YCbCr-4:2:2; width=320; height=60; exactframerate=60; depth={depth}; colorimetry=BT709; \
         PM=2110GPM; SSN=ST2110-20:2017; TP=2110TPN"
    );
    section("video", to, "raw/90000", &parameters)
}

fn start(description: &Description) -> Look {
    Look::start(description, &Settings::default(), Clock::new()).unwrap()
}

/// Waits until so many packets of the first flow's paths have come.
fn wait(look: &Look, packets: u64) {
    wait_for("packets come", || {
        let flow = &look.report()[0];
        flow.paths.iter().map(|path| path.packets).sum::<u64>() >= packets
    });
}

#[test]
fn video_is_counted_and_rated_frame_by_frame() {
    let (to, format) = (free(), format(10));
    let look = start(&described(&video(to, 10)));
    let mut sender = Sender::new(format);
    let count = sender.packetizer.layout().len() as u64;
    let begun = Instant::now();
    for number in 0..30 {
        // Frames come at their rate, or later: what is told of it is the arrivals', and faster where the first was late.
        while begun.elapsed() < Duration::from_micros(16_667) * number {}
        sender.send(number, &[to], |_, index| number == 9 && index == 3);
    }
    wait(&look, 30 * count - 1);
    let report = look.stop();
    let [flow] = &report[..] else { panic!("one flow") };
    let (video, path) = (flow.video.as_ref().unwrap(), &flow.paths[0]);
    assert_eq!((flow.kind, flow.merged.lost, path.lost, path.packets), ("video", 1, 1, 30 * count - 1));
    assert_eq!((video.frames, video.incomplete_frames, video.marker_errors), (29, 1, 0));
    assert_eq!(video.packets_per_frame, Some(Range { min: count, max: count }));
    assert_eq!(video.stamped_rate_hz, Some(60.0));
    assert!((10.0..120.0).contains(&video.received_rate_hz.unwrap()), "{:?}", video.received_rate_hz);
    assert_eq!((video.packing, path.ssrc, flow.captured_by), (Some("general"), Some(7), Some("arrivals")));
    let timing = path.timing.unwrap();
    assert!(timing.frames >= 20 && timing.cinst_max >= 1 && !timing.is_by_ptp, "{timing:?}");
}

#[test]
fn each_of_two_paths_is_told_of_and_what_is_left_of_both() {
    let to = [free(), free()];
    let (one, two) = (video(to[0], 8), video(to[1], 8));
    let look = start(&described(&format!("a=group:DUP a b\r\n{one}a=mid:a\r\n{two}a=mid:b\r\n")));
    let mut sender = Sender::new(format(8));
    let count = sender.packetizer.layout().len() as u64;
    for number in 0..10 {
        // The first path loses the fifth packet of each frame but the first and the last.
        sender.send(number, &to, |path, index| path == 0 && index == 4 && number > 0 && number < 9);
        wait(&look, 2 * (count * u64::from(number + 1)) - u64::from(number.min(8)));
    }
    let report = look.stop();
    let [flow] = &report[..] else { panic!("one flow") };
    assert_eq!((flow.merged.lost, flow.merged.packets), (0, 10 * count));
    assert_eq!((flow.paths[0].lost, flow.paths[1].lost), (8, 0));
    assert_eq!(flow.paths[0].address, to[0].to_string());
    assert!(flow.paths.iter().all(|path| path.timing.is_some()));
}

#[test]
fn what_is_not_of_the_stream_is_told_apart() {
    let to = free();
    let look = start(&described(&video(to, 8)));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    // Payloads of ten bits are in no pgroups of eight.
    let mut sender = Sender::new(format(10));
    sender.packetizer.frame([0; 2]).for_each(|packet| {
        let mut datagram = packet.head.to_vec();
        datagram.resize(packet.bytes, 0);
        socket.send_to(&datagram, to).unwrap();
        datagram[1] = 97;
        socket.send_to(&datagram, to).unwrap();
    });
    let count = sender.packetizer.layout().len() as u64;
    socket.send_to(&[0x47; 1_316], to).unwrap();
    wait_for("all come", || look.report()[0].paths[0].datagrams == 2 * count + 1);
    let report = look.stop();
    let strangers = &report[0].paths[0].strangers;
    assert_eq!((strangers.not_rtp, strangers.payload_type), (1, count));
    assert_eq!(strangers.payload_types, [97]);
    assert!(strangers.payload > 0, "{strangers:?}");
    assert!(report[0].merged.refused > count);
}

#[test]
fn sound_has_levels_and_silence_where_packets_are_missing() {
    let to = free();
    let look = start(&described(&format!("{}a=ptime:1\r\n", section("audio", to, "L24/48000/2", "x=1"))));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let format = pcm::Format::new(Depth::L24, 2, 48_000).unwrap();
    let settings = pcm::PacketizerSettings {
        format,
        packet_time: PacketTime::Millisecond,
        payload_type: PAYLOAD_TYPE,
        ssrc: 9,
        first_sequence: 65_500,
        first_timestamp: u32::MAX - 1_000,
    };
    let mut packetizer = pcm::Packetizer::new(settings).unwrap();
    let samples: Vec<f32> = (0..48 * 100).flat_map(|_| [0.5, 0.0]).collect();
    let block = AudioBlock { samples, channels: 2, rate_hz: 48_000, captured: Time::ZERO };
    let mut index = 0;
    let mut send = |datagram: &[u8]| {
        if index != 50 {
            socket.send_to(datagram, to).unwrap();
        }
        index += 1;
    };
    packetizer.push(&block, &mut send).unwrap();
    wait_for("the silence", || look.report()[0].audio.as_ref().unwrap().silence == 48);
    wait_for("what follows", || look.report()[0].audio.as_ref().unwrap().samples == 99 * 48);
    let report = look.stop();
    let (flow, audio) = (&report[0], report[0].audio.as_ref().unwrap());
    assert_eq!((flow.kind, flow.merged.lost, flow.paths[0].lost), ("audio", 1, 1));
    assert_eq!((audio.packet_us, audio.described_packet_us), (Some([1_000.0, 1_000.0]), 1_000.0));
    let [Some(left), None] = audio.peak_dbfs[..] else { panic!("{:?}", audio.peak_dbfs) };
    assert!((left + 6.02).abs() < 0.01, "{left}");
}

#[test]
fn ancillary_data_is_told_by_kind_and_line() {
    let to = free();
    let parameters = "DID_SDID={0x61,0x01}; DID_SDID={0x60,0x60}";
    let look = start(&described(&section("video", to, "smpte291/90000", parameters)));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let settings = ancillary::PacketizerSettings {
        payload_type: PAYLOAD_TYPE,
        ssrc: 3,
        first_sequence: u32::MAX - 3,
        datagram_bytes: 1_400,
    };
    let mut packetizer = ancillary::Packetizer::new(settings);
    for frame in 0..10u8 {
        let code = TimeCode {
            hours: 1,
            minutes: 2,
            seconds: 3,
            frames: frame,
            is_drop_frame: false,
            source: Source::Ltc,
        };
        // Four that say something, three that are filled up, and three that are no packets at all.
        let triplet = Triplet { data: *b"hi", ..Triplet::null(true) };
        let triplets = if frame < 4 { vec![triplet] } else { Vec::new() };
        let cdp = Cdp::new(CaptionRate::Hz30, frame.into(), &triplets).unwrap();
        let junk = Packet::new(0x61, 0x01, &[0x96, 0x69]).unwrap();
        let mut captions = if frame < 7 { cdp.packet().unwrap() } else { junk };
        captions.line = 9;
        let afd = Packet::new(0x41, 0x05, &[8; 8]).unwrap();
        let packets = [captions, code.packet().unwrap(), afd];
        packetizer.frame(u32::from(frame) * 3_000, Field::Unspecified, &packets, &mut |datagram| {
            socket.send_to(datagram, to).unwrap();
        });
    }
    wait_for("all come", || look.report()[0].ancillary.as_ref().unwrap().payloads == 10);
    let report = look.stop();
    let (flow, found) = (&report[0], report[0].ancillary.as_ref().unwrap());
    assert_eq!((flow.kind, flow.merged.lost, found.frames, found.packets), ("ancillary", 0, 10, 30));
    assert_eq!((found.caption_packets, found.caption_contents, found.checksum_errors), (10, 4, 0));
    assert_eq!(found.time_code.as_deref(), Some("01:02:03:09"));
    let kinds: Vec<_> = found.kinds.iter().map(|kind| (kind.did, kind.line, kind.is_described)).collect();
    assert_eq!(kinds, [(0x41, 2047, Some(false)), (0x60, 2047, Some(true)), (0x61, 9, Some(true))]);
}

#[test]
fn an_address_that_is_taken_is_told() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = taken.local_addr().unwrap();
    let error = Look::start(&described(&video(to, 8)), &Settings::default(), Clock::new()).err().unwrap();
    assert!(error.to_string().starts_with(&format!("cannot receive at {to}: ")), "{error}");
}
