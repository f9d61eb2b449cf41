//! Frames that another implementation has written, and those that other parsers have stumbled over.

use super::golden::{SIGNED, V1, V2};
use super::*;
use proptest::prelude::*;

pub(super) fn bytes_of(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .as_chunks::<2>()
        .0
        .iter()
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn golden(frames: &[(&str, &str)], name: &str) -> Vec<u8> {
    bytes_of(frames.iter().find(|(other, _)| *other == name).unwrap().1)
}

/// What is found in bytes that come in these pieces.
fn parsed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<(Sender, Message)>, Counters) {
    let (mut parser, mut found) = (Parser::new(), Vec::new());
    for piece in pieces {
        parser.push(piece, &mut |sender, message| found.push((sender, message)));
    }
    (found, parser.counters())
}

fn messages(bytes: &[u8]) -> Vec<Message> {
    parsed([bytes]).0.into_iter().map(|(_, message)| message).collect()
}

/// Bytes of the longest frame.
const FRAME_MAX_BYTES: usize = HEADER_2_BYTES + 255 + CHECKSUM_BYTES + SIGNATURE_BYTES;
const VEHICLE: Sender = Sender { system: 1, component: 1 };

/// A frame of version 2 with a right checksum.
fn frame(number: u32, payload: &[u8], extra: u8) -> Vec<u8> {
    let [low, middle, high, _] = number.to_le_bytes();
    let mut frame = vec![START_2, payload.len() as u8, 0, 0, 7, 1, 1, low, middle, high];
    frame.extend_from_slice(payload);
    let mut digest = CRC.digest();
    digest.update(&frame[1..]);
    digest.update(&[extra]);
    frame.extend_from_slice(&digest.finalize().to_le_bytes());
    frame
}

#[test]
fn frames_of_another_implementation_are_read_in_both_versions() {
    for frames in [V1, V2, SIGNED] {
        for (name, hex) in frames {
            let bytes = bytes_of(hex);
            let (found, counters) = parsed([&bytes[..]]);
            if *name == "PARAM_VALUE" {
                assert_eq!((found.len(), counters), (0, Counters { unknown: 1, ..Counters::default() }));
                continue;
            }
            assert_eq!(counters, Counters { frames: 1, ..Counters::default() }, "{name}");
            assert_eq!(found[0].0, VEHICLE, "{name}");
        }
    }
    for frames in [V1, V2] {
        assert_eq!(messages(&golden(frames, "HEARTBEAT")), [Message::Heartbeat { kind: 2, autopilot: 3 }]);
        let time = Message::WallClock { unix_micros: 1_790_000_000_123_456, boot_ms: 60_000 };
        assert_eq!(messages(&golden(frames, "SYSTEM_TIME")), [time]);
        let gps = Message::Gps {
            fix: 3,
            latitude_e7: 473_977_418,
            longitude_e7: 85_455_939,
            altitude_mm: 488_130,
            ellipsoid_mm: if frames.len() == V1.len() { 0 } else { 536_250 },
        };
        assert_eq!(messages(&golden(frames, "GPS_RAW_INT")), [gps]);
        let position = Message::Position {
            boot_ms: 60_040,
            latitude_e7: 473_977_418,
            longitude_e7: -85_455_939,
            altitude_mm: 488_130,
            heading_cdeg: 27_000,
        };
        assert_eq!(messages(&golden(frames, "GLOBAL_POSITION_INT")), [position]);
        let degrees = |angle: f32| angle.to_degrees();
        let [Message::Attitude { boot_ms: 60_020, roll, pitch, yaw }] =
            messages(&golden(frames, "ATTITUDE"))[..]
        else {
            panic!()
        };
        assert_eq!([roll, pitch, yaw].map(|angle| degrees(angle).round()), [-13.0, 4.0, -90.0]);
        let [Message::AttitudeQuaternion { boot_ms: 60_030, quaternion, offset: [0.0, 0.0, 0.0, 0.0] }] =
            messages(&golden(frames, "ATTITUDE_QUATERNION"))[..]
        else {
            panic!()
        };
        let angles = rotation::Rotation::of_quaternion(quaternion).unwrap().angles();
        for (found, expected) in [(angles.roll, -12.5), (angles.pitch, 4.25), (angles.yaw, -90.0)] {
            assert!((found - expected).abs() < 1e-4, "{angles:?}");
        }
    }
    let mount = Message::Mount { roll: 0.0, pitch: -35.0, yaw: 15.0, yaw_absolute: Some(285.0) };
    assert_eq!(messages(&golden(V2, "MOUNT_ORIENTATION")), [mount]);
    let view = Message::FieldOfView {
        latitude_e7: 473_981_234,
        longitude_e7: -85_460_000,
        horizontal_deg: 62.5,
        vertical_deg: 38.25,
        device: 0,
    };
    assert_eq!(messages(&golden(V2, "CAMERA_FOV_STATUS")), [view]);
    let [Message::Gimbal { flags: 44, quaternion, device: 0 }] =
        messages(&golden(V2, "GIMBAL_DEVICE_ATTITUDE_STATUS"))[..]
    else {
        panic!()
    };
    let angles = rotation::Rotation::of_quaternion(quaternion).unwrap().angles();
    assert!((angles.pitch + 35.0).abs() < 1e-4 && (angles.yaw - 15.0).abs() < 1e-4, "{angles:?}");
}

/// Every way of cutting a line's bytes gives the same.
#[test]
fn a_line_may_give_bytes_in_any_pieces() {
    let all: Vec<u8> = V1.iter().chain(SIGNED).chain(V2).flat_map(|(_, hex)| bytes_of(hex)).collect();
    let (whole, counters) = parsed([&all[..]]);
    assert_eq!((whole.len(), counters.frames, counters.unknown), (18, 18, 1));
    assert_eq!((counters.checksums_wrong, counters.skipped_bytes), (0, 0));
    for size in [1, 2, 3, 7, 40, 300] {
        assert_eq!(parsed(all.chunks(size)), (whole.clone(), counters), "in pieces of {size}");
    }
}

/// A payload without the zeros at its end, as far as its first byte, has them again.
#[test]
fn zeros_that_were_left_out_are_there_again() {
    let none = Message::WallClock { unix_micros: 0, boot_ms: 0 };
    assert_eq!(messages(&frame(2, &[0], 137)), [none]);
    let some = Message::WallClock { unix_micros: 0x0102, boot_ms: 0 };
    assert_eq!(messages(&frame(2, &[2, 1], 137)), [some]);
    let position =
        Message::Position { boot_ms: 5, latitude_e7: 0, longitude_e7: 0, altitude_mm: 0, heading_cdeg: 0 };
    assert_eq!(messages(&frame(33, &[5], 104)), [position]);
    // An extension that came after this was written.
    let mut long = bytes_of(V2[1].1)[HEADER_2_BYTES..][..10].to_vec();
    long.resize(60, 9);
    assert_eq!(messages(&frame(2, &long, 137)).len(), 1);
}

/// A start byte within a frame that is cut off, as when a line is joined in the middle: the frame behind it is found.
#[test]
fn a_false_start_takes_no_good_frame_with_it() {
    let [attitude, position] = ["ATTITUDE", "GLOBAL_POSITION_INT"].map(|name| golden(V2, name));
    for start in [START_1, START_2] {
        for length in [0u8, 9, 60, 255] {
            // What seems to be a frame of a known message, of an unknown one, and of a signed one, over the whole of the next ones.
            for header in [[0, 0, 1, 1, 33, 0, 0, 0], [0, 0, 9, 9, 99, 99, 99, 0], [1, 0, 1, 1, 1, 33, 0, 0]]
            {
                let mut bytes = [&[start, length][..], &header].concat();
                for _ in 0..8 {
                    bytes.extend_from_slice(&attitude);
                    bytes.extend_from_slice(&position);
                }
                let (found, _) = parsed([&bytes[..]]);
                assert!(found.len() >= 15, "{start:x} {length} {header:?}: {} of 16", found.len());
            }
        }
    }
    // Bytes are missing in the middle of a frame.
    let mut bytes = [&position[..], &attitude, &position, &attitude].concat();
    bytes.drain(position.len() + 15..position.len() + 20);
    let (found, counters) = parsed([&bytes[..]]);
    assert_eq!((found.len(), counters.checksums_wrong), (3, 1));
}

/// A false start has the shape of an unknown frame, and a start byte follows where it would end.
#[test]
fn good_frames_within_an_unknown_one_are_found_at_once() {
    let good = golden(V2, "ATTITUDE");
    let start = |length: usize| [START_2, length as u8, 0, 0, 9, 9, 9, 99, 99, 99];
    // It ends where the third frame does, and the fourth one follows.
    let four = good.repeat(4);
    let swallows = [&start(good.len() * 3 - CHECKSUM_BYTES)[..], &four].concat();
    let (found, counters) = parsed([&swallows[..]]);
    assert_eq!((found.len(), counters.unknown, counters.skipped_bytes), (4, 0, HEADER_2_BYTES as u64));
    // Each frame is given when its last byte has come, whatever the false start still waits for.
    let mut parser = Parser::new();
    parser.push(&start(255), &mut |_, _| panic!());
    for _ in 0..3 {
        let mut count = 0;
        parser.push(&good, &mut |_, _| count += 1);
        assert_eq!((count, parser.held.len()), (1, 0));
    }
    // A frame that begins within it, and ends behind it, is not yet whole.
    let mut parser = Parser::new();
    let (first, rest) = good.split_at(20);
    let mut count = 0;
    parser.push(&[&start(20 - CHECKSUM_BYTES)[..], first].concat(), &mut |_, _| count += 1);
    parser.push(rest, &mut |_, _| count += 1);
    assert_eq!((count, parser.counters().unknown), (1, 0));
}

/// A log of flights that is fetched over the line has frames of other days.
#[test]
fn what_another_message_carries_is_not_read() {
    let carried = golden(V2, "ATTITUDE").repeat(5);
    // FILE_TRANSFER_PROTOCOL, TUNNEL, and one in pieces.
    for (number, extra) in [(110, 84), (385, 147)] {
        let file = frame(number, &carried, extra);
        let bytes = [&file[..], &golden(V2, "HEARTBEAT")].concat();
        for size in [1, 30, bytes.len()] {
            let (found, counters) = parsed(bytes.chunks(size));
            let heartbeat = Message::Heartbeat { kind: 2, autopilot: 3 };
            assert_eq!(found, [(VEHICLE, heartbeat)], "{number} in pieces of {size}");
            assert_eq!((counters.unknown, counters.skipped_bytes), (1, 0));
        }
        // With a wrong checksum it is nothing, and what is in it may be anything.
        let mut damaged = file.clone();
        *damaged.last_mut().unwrap() ^= 1;
        assert_eq!(parsed([&damaged[..]]).0.len(), 5);
    }
}

/// What costs a checksum of its own at each byte is too long for what it seems to be.
#[test]
fn a_message_that_is_far_longer_than_its_layout_is_none() {
    let long = |length| frame(0, &vec![1; length], 50);
    assert_eq!(messages(&long(message::PAYLOAD_MAX_BYTES)).len(), 1);
    let (found, counters) = parsed([&long(message::PAYLOAD_MAX_BYTES + 1)[..]]);
    assert_eq!((found.len(), counters.frames, counters.checksums_wrong), (0, 0, 0));
    // Starts of version 1 with a length of 254, of HEARTBEAT.
    let hostile = [[START_1; 5], [0; 5]].concat().repeat(200);
    let checked = parsed([&hostile[..]]).1.checksums_wrong;
    assert!(checked <= 200, "{checked} of 2,000 bytes, which an empty one takes at every tenth");
}

/// A frame with a wrong checksum that ends with a start byte.
#[test]
fn a_checksum_that_looks_like_a_start_is_none() {
    for (frames, start) in [(V1, START_1), (V2, START_2)] {
        let (mut damaged, good) = (golden(frames, "ATTITUDE"), golden(frames, "GLOBAL_POSITION_INT"));
        *damaged.last_mut().unwrap() = start;
        let bytes =
            [&damaged[..], &good, &good, &good, &good, &good, &good, &good, &good, &good, &good].concat();
        let (found, counters) = parsed([&bytes[..]]);
        assert_eq!(found.len(), 10, "{counters:?}");
        assert!(counters.checksums_wrong >= 1);
    }
}

/// Noise that has the shape of a signed frame of a message that there is none of, between good frames.
#[test]
fn noise_of_the_shape_of_a_frame_is_no_message() {
    let noise = bytes_of("fd0001000003010 12a00b9ba00000000000000000000000000".replace(' ', "").as_str());
    let (found, counters) = parsed([&noise[..]]);
    assert!(found.is_empty() && counters.frames == 0, "{counters:?}");
    // Flags that no one knows: the frame cannot be read, whatever follows.
    let mut unknown_flag = golden(V2, "ATTITUDE");
    unknown_flag[2] = 0x02;
    let bytes = [&unknown_flag[..], &golden(V2, "HEARTBEAT")].concat();
    assert_eq!(parsed([&bytes[..]]).0.len(), 1);
}

proptest! {
    #[test]
    fn any_bytes_are_taken_in_any_pieces(bytes in prop::collection::vec(prop_oneof![
        any::<u8>(), Just(START_1), Just(START_2), 0u8..4,
    ], 0..2000), size in 1usize..600) {
        let (found, counters) = parsed([&bytes[..]]);
        prop_assert_eq!(found.len() as u64, counters.frames);
        prop_assert!(counters.skipped_bytes <= bytes.len() as u64);
        let mut parser = Parser::new();
        for piece in bytes.chunks(size) {
            parser.push(piece, &mut |_, _| {});
            prop_assert!(parser.held.len() < 2 * FRAME_MAX_BYTES);
        }
        let taken = parser.counters();
        prop_assert!(taken.skipped_bytes + parser.held.len() as u64 <= bytes.len() as u64);
    }

    /// Good frames among noise that has no start bytes are all found.
    #[test]
    fn good_frames_are_found_in_noise(order in prop::collection::vec((0usize..9, prop::collection::vec(0u8..0xfd, 0..40)), 1..20)) {
        let mut bytes = Vec::new();
        for (index, noise) in &order {
            bytes.extend_from_slice(noise);
            bytes.extend_from_slice(&bytes_of(V2[*index].1));
        }
        let (found, counters) = parsed([&bytes[..]]);
        prop_assert_eq!((found.len(), counters.checksums_wrong), (order.len(), 0));
    }
}
