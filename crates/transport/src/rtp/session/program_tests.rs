use super::*;
use crate::rtp::session::described::{Described, DescribedSession};
use crate::rtp::session::offer::{Placing, describe_placed};
use crate::rtp::{self, Packet, rtcp};
use bytes::Bytes;
use glassline_media::Stamps;
use glassline_media::bitstream::{h264, s302m};
use glassline_media::container::ts::{AudioFormat, MuxSettings, Muxer};
use std::net::SocketAddr;

const UTC: Utc = Utc::from_nanos(1_700_000_000_000_000_000);

fn unit(codec: Codec, data: Vec<u8>, ms: i64, random_access: bool) -> AccessUnit {
    let (pts, data) = (Ticks(90_000 + ms * 90), Bytes::from(data));
    AccessUnit { codec, data, pts, dts: pts, random_access, stamps: Stamps::default() }
}

/// A picture of 3 kB; each tenth is a key frame, and the first one alone has parameter sets.
fn picture(codec: Codec, number: i64) -> AccessUnit {
    let is_key = number % 10 == 0;
    let (sets, key, other): (&[&[u8]], [u8; 3], [u8; 3]) = match codec {
        Codec::H264 => (&[&[0x67, 0x42, 0, 0x1f], &[0x68, 0xce, 1]], [0x65, 0x88, 1], [0x41, 0x9a, 1]),
        _ => (&[&[0x40, 1, 9, 9], &[0x42, 1, 9, 9], &[0x44, 1, 9, 9]], [0x26, 1, 0xaf], [0x02, 1, 0xd0]),
    };
    let mut data = Vec::new();
    for set in sets.iter().filter(|_| number == 0) {
        data.extend([&[0, 0, 0, 1], *set].concat());
    }
    data.extend([0, 0, 0, 1]);
    data.extend(if is_key { key } else { other });
    data.extend((0..3000).map(|at| (at * 7 + number) as u8 | 1));
    unit(codec, data, number * 40, is_key)
}

/// A frame of sound, and how long it lasts.
fn sound(codec: Codec, number: i64) -> (AccessUnit, i64) {
    let body = |count: usize| (0..count).map(|at| (at as i64 * 5 + number) as u8).collect::<Vec<u8>>();
    match codec {
        Codec::Aac => {
            // 48 kHz, stereo, 7 + 100 bytes.
            let head = [0xff, 0xf1, 0x4c, 0x80, (107 >> 3) as u8, (107 << 5 & 0xff) as u8 | 0x1f, 0xfc];
            (unit(codec, [&head[..], &body(100)].concat(), number * 64 / 3, true), 1024)
        }
        Codec::Opus => (unit(codec, [&[8u8 << 3][..], &body(80)].concat(), number * 20, true), 960),
        Codec::MpegAudio => {
            // Layer III, 48 kHz, 64 kbit/s: 192 bytes.
            let head = [0xff, 0xfb, 0x54, 0x44];
            (unit(codec, [&head[..], &body(188)].concat(), number * 24, true), 1152)
        }
        _ => {
            let mut data = Vec::new();
            let samples: Vec<f32> = (0..480).map(|at| (at + number) as f32 / 4096.0).collect();
            s302m::write(&samples, 2, s302m::Depth::Bits24, 0, &mut data).unwrap();
            (unit(codec, data, number * 5, true), 240)
        }
    }
}

/// Two seconds of a stream: its units, and its bytes in pieces.
fn stream(video: Codec, audio: Codec) -> (Vec<AccessUnit>, Vec<Vec<u8>>) {
    let format = AudioFormat { codec: audio, channels: 2, language: None, he_aac: None };
    let mut muxer =
        Muxer::new(MuxSettings { video: Some(video), audio: Some(format), ..MuxSettings::default() })
            .unwrap();
    let mut units: Vec<AccessUnit> = (0..50).map(|number| picture(video, number)).collect();
    let frames = (0..400).map(|number| sound(audio, number).0);
    units.extend(frames.take_while(|unit| unit.pts.0 < 90_000 + 2000 * 90));
    units.sort_by_key(|unit| unit.dts);
    let pieces = units.iter().map(|unit| {
        let mut out = Vec::new();
        muxer.write(unit, &mut out).unwrap();
        out
    });
    let pieces = pieces.collect();
    (units, pieces)
}

/// What is sent of a stream, and its description.
fn sent(pieces: &[Vec<u8>]) -> (Vec<TrackPacket>, Vec<OfferedTrack>) {
    let mut sender = ProgramSender::new(1200, 5);
    for (number, piece) in pieces.iter().enumerate() {
        sender.push(piece, Time::from_millis(1000 + number as u64 * 10), UTC);
    }
    let tracks = sender.poll_description().unwrap();
    sender.end(Time::from_millis(90_000), UTC);
    (std::iter::from_fn(|| sender.poll()).collect(), tracks)
}

fn described(tracks: &[OfferedTrack]) -> Described {
    let to = [127, 0, 0, 1].into();
    let placing = Placing { session_id: 1, version: 1, to, port: 5004, ttl: 1, source: None };
    Described::parse_bytes(describe_placed("hall", tracks, &placing).as_bytes()).unwrap()
}

/// What a receiver makes of datagrams: units of pictures and of sound, and how many were damaged.
fn received(packets: &[TrackPacket], tracks: &[OfferedTrack]) -> ([Vec<AccessUnit>; 2], u64) {
    let described = described(tracks);
    let ports: Vec<u16> = described.ports.iter().map(|port| port.address.port()).collect();
    assert_eq!(ports, [5004, 5005, 5006, 5007]);
    let settings = rtp::Settings { window: Duration::from_millis(50), packets: 512 };
    let mut session = DescribedSession::new(&described, 9, settings);
    let sender: SocketAddr = "127.0.0.1:9000".parse().unwrap();
    let (mut found, mut now) = ([Vec::new(), Vec::new()], Time::from_millis(5000));
    for packet in packets {
        now += Duration::from_micros(500);
        let port = 2 * packet.track + usize::from(packet.is_report);
        session.handle_datagram(port, &packet.bytes, sender, now, UTC);
        session.handle_timeout(now);
        while let Some((track, placed)) = session.poll() {
            found[track].push(placed.unit);
        }
    }
    session.handle_timeout(now + Duration::from_secs(1));
    while let Some((track, placed)) = session.poll() {
        found[track].push(placed.unit);
    }
    assert!(session.receiver().has_ended(), "both have said goodbye");
    assert_eq!(session.refused(), 0);
    let damaged = session.receiver().counters().map(|track| track.damaged).sum();
    (found, damaged)
}

/// The parts of a unit that a receiver has to get: of pictures slices, of sound all.
fn essence(unit: &AccessUnit) -> Vec<u8> {
    match unit.codec {
        Codec::H264 => {
            let slices = h264::nals(&unit.data).filter(|nal| matches!(nal.bytes[0] & 0x1f, 1 | 5));
            slices.flat_map(|nal| nal.bytes.to_vec()).collect()
        }
        Codec::H265 => {
            let slices = h264::nals(&unit.data).filter(|nal| nal.bytes[0] >> 1 < 32);
            slices.flat_map(|nal| nal.bytes.to_vec()).collect()
        }
        _ => unit.data.to_vec(),
    }
}

fn of(units: &[AccessUnit], is_video: bool) -> Vec<Vec<u8>> {
    units.iter().filter(|unit| unit.codec.is_video() == is_video).map(essence).collect()
}

const PAIRS: [(Codec, Codec); 4] = [
    (Codec::H264, Codec::Aac),
    (Codec::H265, Codec::Opus),
    (Codec::H264, Codec::MpegAudio),
    (Codec::H265, Codec::S302m),
];

/// Neighbours change places, and some come twice.
fn disturbed(packets: &[TrackPacket]) -> Vec<TrackPacket> {
    let mut packets = packets.to_vec();
    for at in (20..packets.len() - 20).step_by(7) {
        packets.swap(at, at + 1);
    }
    for at in (40..packets.len() - 20).step_by(11) {
        packets.insert(at, packets[at - 3].clone());
    }
    packets
}

#[test]
fn each_payload_comes_back_whole_out_of_order_and_doubled() {
    for (video, audio) in PAIRS {
        let (units, pieces) = stream(video, audio);
        let (packets, tracks) = sent(&pieces);
        assert!(packets.iter().all(|packet| packet.bytes.len() <= 1200));
        for packets in [packets.clone(), disturbed(&packets)] {
            let ([pictures, sound], damaged) = received(&packets, &tracks);
            let is_equal = |found: &[AccessUnit], is_video| {
                let (found, wanted) = (found.iter().map(essence).collect::<Vec<_>>(), of(&units, is_video));
                // The last picture of a stream ends where its time stamp changes, or with its marker.
                found == wanted
            };
            assert!(is_equal(&pictures, true), "{video:?}: {}", pictures.len());
            if audio == Codec::S302m {
                assert!(sound.len() >= 390, "{}", sound.len());
            } else {
                assert!(is_equal(&sound, false), "{audio:?}: {}", sound.len());
            }
            assert_eq!(damaged, 0);
        }
    }
}

#[test]
fn a_loss_costs_the_units_that_it_falls_into_and_no_others() {
    for (video, audio) in PAIRS {
        let (units, pieces) = stream(video, audio);
        let (mut packets, tracks) = sent(&pieces);
        // A packet in the middle of a picture, and one of sound.
        let middle = |packets: &[TrackPacket], track| {
            let half = packets.len() / 2;
            let of_track = |packet: &TrackPacket| packet.track == track && !packet.is_report;
            half + packets[half..].iter().position(of_track).unwrap()
        };
        for track in [PICTURES, SOUND] {
            packets.remove(middle(&packets, track));
        }
        let ([pictures, sound], damaged) = received(&packets, &tracks);
        let (wanted, all) = (of(&units, true), pictures.iter().map(essence).collect::<Vec<_>>());
        assert!(
            all.len() >= wanted.len() - 2 && all.iter().all(|picture| wanted.contains(picture)),
            "{video:?}"
        );
        assert!(damaged >= 1, "{video:?}");
        let heard = units.iter().filter(|unit| !unit.codec.is_video()).count();
        assert!(sound.len() >= heard - 1, "{audio:?}");
    }
}

#[test]
fn key_frames_have_their_parameter_sets_in_one_packet_in_front() {
    let (_, pieces) = stream(Codec::H264, Codec::Aac);
    let (packets, _) = sent(&pieces);
    let payloads = packets.iter().filter(|packet| packet.track == PICTURES && !packet.is_report);
    let payloads: Vec<Vec<u8>> =
        payloads.map(|packet| Packet::parse(&packet.bytes).unwrap().payload.to_vec()).collect();
    let groups: Vec<usize> = (0..payloads.len()).filter(|at| payloads[*at][0] & 0x1f == 24).collect();
    assert_eq!(groups.len(), 5, "each tenth picture, though the first one alone has the sets");
    for at in groups {
        // STAP-A of both sets, then the first fragment (FU-A) of the key frame.
        let set = [&[0, 4, 0x67, 0x42, 0, 0x1f][..], &[0, 3, 0x68, 0xce, 1]].concat();
        assert_eq!(payloads[at][1..], set);
        assert_eq!((payloads[at + 1][0] & 0x1f, payloads[at + 1][1]), (28, 0x85));
    }
}

#[test]
fn what_changes_is_described_anew_and_other_tracks_begin_another_sender() {
    let mut sender = ProgramSender::new(1200, 5);
    let (_, pieces) = stream(Codec::H264, Codec::Aac);
    let feed = |sender: &mut ProgramSender, pieces: &[Vec<u8>], at_ms: u64| {
        for (number, piece) in pieces.iter().enumerate() {
            sender.push(piece, Time::from_millis(at_ms + number as u64), UTC);
        }
        std::iter::from_fn(|| sender.poll()).collect::<Vec<_>>()
    };
    let first = feed(&mut sender, &pieces, 1000);
    assert_eq!(sender.poll_description().map(|tracks| tracks.len()), Some(2));
    assert_eq!(sender.poll_description(), None);
    // The same tracks of another publisher: the senders go on, and so do their times.
    sender.begin_anew();
    let again = feed(&mut sender, &pieces, 4000);
    assert_eq!(sender.poll_description(), None);
    let stamps = |packets: &[TrackPacket]| {
        let pictures = packets.iter().filter(|packet| packet.track == PICTURES && !packet.is_report);
        pictures.map(|packet| Packet::parse(&packet.bytes).unwrap().header).collect::<Vec<_>>()
    };
    let (before, after) = (stamps(&first), stamps(&again));
    let (last, next) = (before.last().unwrap(), after.first().unwrap());
    assert_eq!((last.ssrc, last.sequence.wrapping_add(1)), (next.ssrc, next.sequence));
    let apart = next.timestamp.wrapping_sub(last.timestamp);
    assert!((1..5 * 90_000).contains(&apart), "{apart}");
    // Other codecs: the ones before say goodbye.
    sender.begin_anew();
    let (_, other) = stream(Codec::H265, Codec::Opus);
    let other = feed(&mut sender, &other, 8000);
    let tracks = sender.poll_description().unwrap();
    assert_eq!(tracks.iter().map(OfferedTrack::codec).collect::<Vec<_>>(), [Codec::H265, Codec::Opus]);
    let goodbyes = other
        .iter()
        .filter(|packet| packet.is_report)
        .flat_map(|it| rtcp::messages(&it.bytes).collect::<Vec<_>>());
    assert_eq!(goodbyes.filter(|message| matches!(message, rtcp::Message::Goodbye { .. })).count(), 2);
    assert_ne!(stamps(&other)[0].ssrc, next.ssrc);
}

#[test]
fn a_track_that_does_not_come_is_waited_for_and_then_not_any_more() {
    let format = AudioFormat { codec: Codec::Aac, channels: 2, language: None, he_aac: None };
    let settings = MuxSettings { video: Some(Codec::H264), audio: Some(format), ..MuxSettings::default() };
    let mut muxer = Muxer::new(settings).unwrap();
    let mut sender = ProgramSender::new(1200, 5);
    for number in 0..10 {
        let mut out = Vec::new();
        muxer.write(&picture(Codec::H264, number), &mut out).unwrap();
        sender.push(&out, Time::from_millis(1000 + 40 * number as u64), UTC);
    }
    assert!(sender.poll().is_none() && sender.poll_description().is_none());
    let due = sender.poll_timeout();
    assert_eq!(due, Time::from_millis(6000));
    sender.handle_timeout(due, UTC);
    assert_eq!(sender.poll_description().map(|tracks| tracks.len()), Some(1));
    assert!(sender.poll().is_some_and(|packet| packet.is_report) && sender.poll().is_some());
    assert_eq!(sender.poll_timeout(), Time::NEVER);
    // It comes after all.
    let mut out = Vec::new();
    muxer.write(&sound(Codec::Aac, 0).0, &mut out).unwrap();
    sender.push(&out, Time::from_millis(9000), UTC);
    assert_eq!(sender.poll_description().map(|tracks| tracks.len()), Some(2));
}

#[test]
fn a_stream_that_ends_before_it_is_described_says_nothing() {
    let mut sender = ProgramSender::new(1200, 5);
    sender.push(&stream(Codec::H264, Codec::Aac).1[0][..188], Time::ZERO, UTC);
    sender.end(Time::ZERO, UTC);
    assert!(sender.poll().is_none() && sender.poll_timeout() == Time::NEVER);
}

#[test]
fn the_last_units_leave_before_the_goodbyes() {
    // Two pictures, and sound that waits in the demuxer for what would follow.
    let mut muxer = Muxer::new(settings_of_pictures_and_sound()).unwrap();
    let (mut sender, mut out) = (ProgramSender::new(1200, 5), Vec::new());
    for unit in
        [picture(Codec::H264, 0), sound(Codec::Opus, 0).0, sound(Codec::Opus, 1).0, picture(Codec::H264, 1)]
    {
        muxer.write(&unit, &mut out).unwrap();
    }
    sender.push(&out, Time::from_millis(1000), UTC);
    sender.end(Time::from_millis(1040), UTC);
    let tracks = sender.poll_description().unwrap();
    assert_eq!((tracks.len(), sender.poll_description()), (2, None));
    let packets: Vec<TrackPacket> = std::iter::from_fn(|| sender.poll()).collect();
    let ([pictures, sound], _) = received(&packets, &tracks);
    assert_eq!((pictures.len(), sound.len()), (2, 2));
    // Of a stream without sound no second track is waited for at its end.
    let mut muxer = Muxer::new(settings_of_pictures_and_sound()).unwrap();
    let (mut sender, mut out) = (ProgramSender::new(1200, 5), Vec::new());
    muxer.write(&picture(Codec::H264, 0), &mut out).unwrap();
    sender.push(&out, Time::ZERO, UTC);
    assert!(sender.poll().is_none());
    sender.end(Time::ZERO, UTC);
    assert_eq!(sender.poll_description().map(|tracks| tracks.len()), Some(1));
    let packets: Vec<TrackPacket> = std::iter::from_fn(|| sender.poll()).collect();
    assert!(packets.iter().any(|packet| !packet.is_report) && packets.last().unwrap().is_report);
}

fn settings_of_pictures_and_sound() -> MuxSettings {
    let format = AudioFormat { codec: Codec::Opus, channels: 2, language: None, he_aac: None };
    MuxSettings { video: Some(Codec::H264), audio: Some(format), ..MuxSettings::default() }
}
