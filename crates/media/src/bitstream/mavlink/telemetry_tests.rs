//! What is made of vehicles' messages, with the values that other programs have taken for true.

use super::super::golden::{SIGNED, V2};
use super::super::tests::bytes_of;
use super::*;
use crate::bitstream::klv::{Packet, uas};
use proptest::prelude::*;

const AUTOPILOT: Sender = Sender { system: 1, component: 1 };
/// 2026-09-21.
const NOW_MICROS: u64 = 1_790_000_000_000_000;

fn read(at_ms: u64) -> Read {
    let utc = Utc::from_micros(NOW_MICROS + at_ms * 1000);
    Read { at: Time::from_millis(at_ms), utc, beside_vehicle: true, here: utc }
}

fn parse(set: &TimedSet) -> uas::Set {
    let parsed = uas::Set::parse(&Packet::parse(&set.bytes).unwrap()).unwrap();
    assert_eq!((parsed.checksum_right, parsed.version), (Some(true), Some(uas::VERSION)));
    parsed
}

/// A vehicle that says these, one after another, each 200 ms after the one before.
fn sets(messages: &[Message]) -> Vec<uas::Set> {
    let mut telemetry = Telemetry::new();
    let mut sets = Vec::new();
    for (number, message) in (1..).zip(messages) {
        telemetry.take(AUTOPILOT, message, read(number * 200));
        sets.extend(telemetry.poll_set(Time::from_millis(number * 200)).map(|set| parse(&set)));
    }
    sets
}

/// The set after all of these.
fn last(messages: &[Message]) -> uas::Set {
    sets(messages).pop().expect("a set")
}

fn near(found: Option<f64>, expected: f64) {
    let found = found.expect("a value");
    assert!((found - expected).abs() < 0.006, "{found}, expected {expected}");
}

fn attitude(roll: f32, pitch: f32, yaw: f32) -> Message {
    let [roll, pitch, yaw] = [roll, pitch, yaw].map(f32::to_radians);
    Message::Attitude { boot_ms: 60_000, roll, pitch, yaw }
}

fn position(latitude_e7: i32, longitude_e7: i32, altitude_mm: i32, heading_cdeg: u16) -> Message {
    Message::Position { boot_ms: 60_000, latitude_e7, longitude_e7, altitude_mm, heading_cdeg }
}

fn gps(fix: u8, latitude_e7: i32, longitude_e7: i32) -> Message {
    Message::Gps { fix, latitude_e7, longitude_e7, altitude_mm: 488_000, ellipsoid_mm: 536_000 }
}

#[test]
fn frames_of_another_implementation_become_sets() {
    let mut telemetry = Telemetry::new();
    let mut found = Vec::new();
    let names = [
        "SYSTEM_TIME",
        "GPS_RAW_INT",
        "MOUNT_ORIENTATION",
        "CAMERA_FOV_STATUS",
        "ATTITUDE",
        "GLOBAL_POSITION_INT",
    ];
    for (number, name) in (1..).zip(names) {
        let hex = V2.iter().find(|(other, _)| *other == name).unwrap().1;
        telemetry.push(&bytes_of(hex), read(number * 100), &mut |set| found.push(set));
    }
    assert_eq!(found.len(), 3, "of a fix, of attitude, and of position");
    assert_eq!(found[2].source, TimeSource::Vehicle);
    let set = parse(&found[2]);
    assert_eq!(set.time_micros, Some(1_790_000_000_123_456 + 40_000));
    near(set.latitude_deg, 47.397_741_8);
    near(set.longitude_deg, -8.545_593_9);
    assert!(
        (set.altitude_m.unwrap() - 488.13).abs() < 0.16
            && (set.ellipsoid_height_m.unwrap() - 536.25).abs() < 0.16
    );
    near(set.heading_deg, 270.0);
    near(set.pitch_deg, 4.25);
    near(set.roll_deg, -12.5);
    near(set.horizontal_view_deg, 62.5);
    near(set.vertical_view_deg, 38.25);
    near(set.centre_latitude_deg, 47.398_123_4);
    near(set.centre_longitude_deg, -8.546);
    // Level in roll, 35 degrees down, and 15 to the right of the heading, from a vehicle that is rolled to the left with its nose up:
    // by matrices.
    near(set.relative_azimuth_deg, 5.394_018_6);
    near(set.relative_elevation_deg, -41.420_181_2);
    near(set.relative_roll_deg, 14.704_033_4);
}

/// PX4 sends a heading of more than a circle, and of less than nothing; 65,535 is "unknown".
#[test]
fn a_heading_that_is_none_is_left_out() {
    for bad in [u16::MAX, 36_001, (-1000i16).cast_unsigned(), 40_000] {
        assert_eq!(last(&[position(1, 1, 0, bad)]).heading_deg, None, "{bad}");
    }
    near(last(&[position(1, 1, 0, 36_000)]).heading_deg, 0.0);
    near(last(&[position(1, 1, 0, 35_999)]).heading_deg, 359.99);
    // The attitude's is finer, and right where a sender has degrees in place of hundredths.
    near(last(&[attitude(0.0, 0.0, -10.0), position(1, 1, 0, 350)]).heading_deg, 350.0);
}

#[test]
fn a_yaw_is_a_heading_whichever_way_it_has_turned() {
    for (yaw, heading) in
        [(0.0, 0.0), (-0.01, 359.99), (-180.0, 180.0), (180.0, 180.0), (-90.0, 270.0), (370.0, 10.0)]
    {
        near(last(&[attitude(0.0, 0.0, yaw)]).heading_deg, heading);
    }
}

/// Before a fix, autopilots send 0, 0; unknown ones are the largest or the least number.
#[test]
fn a_place_that_is_none_is_left_out() {
    for (latitude, longitude) in
        [(0, 0), (i32::MAX, i32::MAX), (i32::MIN, 0), (900_000_001, 0), (5, 1_800_000_001), (5, i32::MIN)]
    {
        let set = last(&[attitude(1.0, 2.0, 3.0), position(latitude, longitude, 5000, 0)]);
        assert_eq!(
            (set.latitude_deg, set.longitude_deg, set.altitude_m),
            (None, None, None),
            "{latitude} {longitude}"
        );
        near(set.pitch_deg, 2.0);
    }
    // The equator, and the meridian, are places.
    assert_eq!(last(&[position(0, 85_000_000, 0, 0)]).latitude_deg, Some(0.0));
    assert!(last(&[position(-900_000_000, 1_800_000_000, 0, 0)]).longitude_deg.is_some());
    // Without heading, place and attitude there is nothing to tell.
    assert!(sets(&[position(0, 0, 0, u16::MAX)]).is_empty());
}

#[test]
fn heights_that_a_set_cannot_say_are_left_out() {
    for (height, expected) in [(i32::MAX, None), (i32::MIN, None), (-900_001, None), (19_000_001, None)] {
        assert_eq!(last(&[position(1, 1, height, 0)]).altitude_m, expected);
    }
    let below = last(&[position(1, 1, -50_000, 0)]).altitude_m.unwrap();
    assert!((below + 50.0).abs() < 0.16, "{below}");
}

#[test]
fn the_receiver_of_satellites_stands_in_where_the_autopilot_tells_no_place_but_never_without_a_fix() {
    let set = last(&[gps(3, 10_000_000, 20_000_000), attitude(0.0, 0.0, 0.0)]);
    near(set.latitude_deg, 1.0);
    near(set.longitude_deg, 2.0);
    assert!(set.altitude_m.is_some() && set.ellipsoid_height_m.is_some());
    let flat = last(&[gps(2, 10_000_000, 20_000_000), attitude(0.0, 0.0, 0.0)]);
    assert!(flat.latitude_deg.is_some() && flat.altitude_m.is_none() && flat.ellipsoid_height_m.is_none());
    for fix in [0, 1] {
        let set = last(&[gps(fix, 10_000_000, 20_000_000), attitude(0.0, 0.0, 0.0)]);
        assert_eq!((set.latitude_deg, set.ellipsoid_height_m), (None, None), "fix {fix}");
    }
    let both = last(&[gps(3, 10_000_000, 20_000_000), position(30_000_000, 40_000_000, 0, 0)]);
    near(both.latitude_deg, 3.0);
}

/// A flight controller that sends nothing but its receiver's fixes beside its heartbeat and its clock.
#[test]
fn fixes_alone_make_sets() {
    let time = Message::WallClock { unix_micros: NOW_MICROS + 3_000_000, boot_ms: 59_000 };
    let heartbeat = Message::Heartbeat { kind: 1, autopilot: 3 };
    let line = [heartbeat, time, gps(3, 10_000_000, 20_000_000)];
    let told = sets(&line.repeat(3));
    assert_eq!(told.len(), 3);
    near(told[0].latitude_deg, 1.0);
    assert!(told[0].altitude_m.is_some() && told[0].heading_deg.is_none());
    // It was read 200 ms behind the clock.
    assert_eq!(told[0].time_micros, Some(NOW_MICROS + 3_200_000));
    assert!(sets(&[heartbeat, time, gps(1, 10_000_000, 20_000_000)]).is_empty(), "without a fix");
    // Beside positions they are none: a set for each of those is enough.
    let place = position(30_000_000, 40_000_000, 0, 0);
    assert_eq!(sets(&[place, gps(3, 1, 1), place, gps(3, 1, 1)]).len(), 2);
}

#[test]
fn angles_that_are_no_numbers_change_nothing() {
    let nan = Message::Attitude { boot_ms: 1, roll: f32::NAN, pitch: 0.0, yaw: f32::INFINITY };
    assert!(sets(&[nan]).is_empty());
    assert!(
        sets(&[Message::AttitudeQuaternion { boot_ms: 1, quaternion: [0.0; 4], offset: [0.0; 4] }])
            .is_empty()
    );
    near(last(&[attitude(1.0, 2.0, 3.0), nan, position(1, 1, 0, 0)]).roll_deg, 1.0);
    let unknown = Message::Mount { roll: f32::NAN, pitch: f32::NAN, yaw: f32::NAN, yaw_absolute: None };
    let blind = Message::FieldOfView {
        latitude_e7: i32::MAX,
        longitude_e7: i32::MIN,
        horizontal_deg: f32::NAN,
        vertical_deg: -1.0,
        device: 0,
    };
    let set = last(&[unknown, blind, attitude(0.0, 0.0, 0.0)]);
    assert_eq!(
        (set.relative_azimuth_deg, set.horizontal_view_deg, set.vertical_view_deg),
        (None, None, None)
    );
    assert_eq!((set.centre_latitude_deg, set.centre_longitude_deg), (None, None));
}

/// w, x, y, z of roll, pitch and yaw, in degrees.
fn quaternion(angles: [f64; 3]) -> [f32; 4] {
    let half = angles.map(|angle| angle.to_radians() / 2.0);
    let [(sr, cr), (sp, cp), (sy, cy)] = half.map(f64::sin_cos);
    [
        cr * cp * cy + sr * sp * sy,
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
    ]
    .map(|component| component as f32)
}

/// Two gimbals, of two components or of one that speaks for both, and two cameras.
#[test]
fn one_gimbal_and_one_camera_are_told_of_until_they_are_silent() {
    let gimbal = |device, pitch| {
        let quaternion = quaternion([0.0, pitch, 0.0]);
        (154, Message::Gimbal { flags: YAW_OF_VEHICLE, quaternion, device })
    };
    let camera = |component, device, horizontal_deg| {
        let (latitude_e7, longitude_e7, vertical_deg) = (5, 5, 30.0);
        let view = Message::FieldOfView { latitude_e7, longitude_e7, horizontal_deg, vertical_deg, device };
        (component, view)
    };
    let mount = Message::Mount { roll: 0.0, pitch: -50.0, yaw: 0.0, yaw_absolute: None };
    let other = (171, Message::Mount { roll: 0.0, pitch: -60.0, yaw: 0.0, yaw_absolute: None });
    let mut telemetry = Telemetry::new();
    let mut tell = |at: u64, messages: &[(u8, Message)]| {
        telemetry.take(AUTOPILOT, &attitude(0.0, 0.0, 0.0), read(at));
        for (component, message) in messages {
            telemetry.take(Sender { component: *component, ..AUTOPILOT }, message, read(at));
        }
        parse(&telemetry.poll_set(Time::from_millis(at)).unwrap())
    };
    let all = [
        gimbal(1, -10.0),
        gimbal(2, -70.0),
        other,
        (154, mount),
        camera(100, 0, 40.0),
        camera(101, 0, 80.0),
        camera(100, 1, 90.0),
    ];
    for at in [0, 1_000, 2_000] {
        let set = tell(at, &all);
        near(set.relative_elevation_deg, -10.0);
        near(set.horizontal_view_deg, 40.0);
    }
    for at in [3_900, 4_100] {
        let set = tell(at, &all[1..4]);
        near(set.relative_elevation_deg, if at < 4_000 { -10.0 } else { -70.0 });
    }
    let set = tell(4_200, &[all[1], camera(101, 0, 80.0), camera(100, 0, 40.0)]);
    near(set.horizontal_view_deg, 80.0);
}

/// A vehicle that stands on its tail tells its attitude by other axes, and how these stand to its own.
#[test]
fn an_attitude_by_other_axes_is_that_of_these_axes() {
    let turned = quaternion([0.0, 90.0, 0.0]);
    let upright = quaternion([0.0, 0.0, 40.0]);
    let message = |offset| Message::AttitudeQuaternion { boot_ms: 60_000, quaternion: upright, offset };
    let set = last(&[message(quaternion([0.0, -30.0, 0.0])), attitude(0.0, 60.0, 40.0)]);
    near(set.heading_deg, 40.0);
    near(set.pitch_deg, -30.0);
    near(last(&[message(turned.map(|part| part * 0.6))]).pitch_deg, 90.0);
    // None is told, or it is damaged.
    for none in [[0.0; 4], [0.2, 0.0, 0.2, 0.0], [f32::NAN; 4], [1.0, 0.0, 0.0, 0.0]] {
        let set = last(&[message(none), attitude(0.0, 60.0, 40.0)]);
        near(set.pitch_deg, 60.0);
        near(last(&[message(none)]).pitch_deg, 0.0);
    }
}

/// A camera that looks straight down has no azimuth that means anything, and an elevation that does.
#[test]
fn a_gimbal_is_told_as_it_is_seen_from_the_vehicle() {
    let gimbal =
        |flags, yaw, pitch| Message::Gimbal { flags, quaternion: quaternion([0.0, pitch, yaw]), device: 0 };
    // Of the vehicle, which flies west.
    for flags in [0, YAW_OF_VEHICLE, YAW_OF_VEHICLE | YAW_LOCK] {
        let set = last(&[gimbal(flags, 30.0, -20.0), attitude(0.0, 0.0, -90.0)]);
        near(set.relative_azimuth_deg, 30.0);
        near(set.relative_elevation_deg, -20.0);
    }
    // Of north.
    for flags in [YAW_LOCK, YAW_OF_NORTH] {
        let set = last(&[gimbal(flags, 0.0, -20.0), attitude(0.0, 0.0, -90.0)]);
        near(set.relative_azimuth_deg, 90.0);
    }
    let down = last(&[gimbal(YAW_OF_VEHICLE, 0.0, -90.0), attitude(0.0, 0.0, 45.0)]);
    near(down.relative_elevation_deg.map(|angle| (angle * 10.0).round() / 10.0), -90.0);
    // Without the vehicle's own attitude it cannot be told.
    let alone = last(&[gimbal(YAW_OF_VEHICLE, 0.0, -20.0), position(1, 1, 0, 0)]);
    assert_eq!(alone.relative_elevation_deg, None);
    let mount = Message::Mount { roll: 0.0, pitch: -30.0, yaw: 20.0, yaw_absolute: None };
    let set = last(&[mount, attitude(0.0, -30.0, 100.0)]);
    near(set.relative_azimuth_deg, 17.235_458_1);
    near(set.relative_elevation_deg, -1.496_384_1);
    near(set.relative_roll_deg, 9.849_944_5);
}

#[test]
fn what_is_old_is_left_out() {
    let mut telemetry = Telemetry::new();
    telemetry.take(AUTOPILOT, &position(10_000_000, 20_000_000, 5000, 100), read(0));
    telemetry.take(AUTOPILOT, &gps(3, 1, 1), read(100));
    for (at, has_place) in [(2_000, true), (2_101, false)] {
        telemetry.take(AUTOPILOT, &attitude(0.0, 0.0, 5.0), read(at));
        let set = parse(&telemetry.poll_set(Time::from_millis(at)).unwrap());
        assert_eq!((set.latitude_deg.is_some(), set.altitude_m.is_some()), (has_place, has_place), "{at}");
        near(set.heading_deg, 5.0);
    }
    assert_eq!(telemetry.poll_set(Time::from_millis(9_000)), None, "without news there is no set");
}

#[test]
fn the_time_is_the_vehicles_where_that_can_be_believed() {
    let time = |unix_micros| Message::WallClock { unix_micros, boot_ms: 59_000 };
    let source = |messages: &[Message], read: Read| {
        let mut telemetry = Telemetry::new();
        messages.iter().for_each(|message| telemetry.take(AUTOPILOT, message, read));
        telemetry.news = None;
        telemetry.take(AUTOPILOT, &attitude(0.0, 0.0, 0.0), read);
        let set = telemetry.poll_set(read.at).unwrap();
        (set.source, parse(&set).time_micros.unwrap())
    };
    let now = read(0);
    let good = NOW_MICROS + 3_000_000;
    assert_eq!(source(&[gps(3, 1, 1), time(good)], now), (TimeSource::Vehicle, good + 1_000_000));
    // Its receiver says nothing of a fix.
    assert_eq!(source(&[time(good)], now), (TimeSource::Sender, NOW_MICROS));
    // A fix that was lost again leaves a clock that goes on.
    assert_eq!(source(&[gps(3, 1, 1), gps(1, 1, 1), time(good)], now).0, TimeSource::Vehicle);
    assert_eq!(source(&[gps(1, 1, 1), time(good)], now), (TimeSource::Sender, NOW_MICROS));
    // Zero, 1970, 1980, 2000, 1,024 weeks ago, and the far future.
    let weeks = 1024 * 7 * 86_400_000_000;
    for bad in [
        0,
        1_000_000,
        315_964_800_000_000,
        946_684_800_000_000,
        NOW_MICROS - weeks,
        NOW_MICROS + weeks,
        u64::MAX,
    ] {
        let found = source(&[gps(3, 1, 1), time(bad)], now);
        assert_eq!(found, (TimeSource::Sender, NOW_MICROS), "{bad}");
    }
    // The clock of the machine beside it is three days behind, and ours is right; or the other way about.
    let right = Utc::from_micros(NOW_MICROS);
    let behind = Utc::from_micros(NOW_MICROS - 3 * 86_400_000_000);
    for (utc, here) in [(behind, right), (right, behind)] {
        let found = source(&[gps(3, 1, 1), time(good)], Read { utc, here, ..now });
        assert_eq!(found, (TimeSource::Vehicle, good + 1_000_000));
    }
    let none_is_near = Read { utc: behind, here: behind, ..now };
    assert_eq!(source(&[gps(3, 1, 1), time(good)], none_is_near).0, TimeSource::Sender);
    let ours = Read { beside_vehicle: false, ..now };
    assert_eq!(source(&[], ours), (TimeSource::Receiver, NOW_MICROS));
    // Our own clock was never set.
    let never = Utc::from_micros(5_000_000);
    let unset = Read { utc: never, here: never, ..now };
    assert_eq!(source(&[gps(3, 1, 1), time(good)], unset).0, TimeSource::Vehicle);
}

#[test]
fn a_vehicle_that_starts_anew_has_its_clock_to_tell_anew() {
    let mut telemetry = Telemetry::new();
    let time = |boot_ms| Message::WallClock { unix_micros: NOW_MICROS, boot_ms };
    let turn = |boot_ms| Message::Attitude { boot_ms, roll: 0.0, pitch: 0.0, yaw: 0.0 };
    let mut source = |message, at| {
        telemetry.take(AUTOPILOT, &message, read(at));
        telemetry.poll_set(Time::from_millis(at)).map(|set| set.source)
    };
    // Across the wrap of 32 bits.
    assert_eq!(source(time(u32::MAX - 10), 0), None);
    source(gps(3, 1, 1), 10);
    assert_eq!(source(turn(500), 510), Some(TimeSource::Vehicle));
    assert_eq!(source(time(590_000), 1_000), None);
    assert_eq!(source(turn(589_000), 1_100), Some(TimeSource::Vehicle), "they overtake each other");
    assert_eq!(source(turn(1_000), 2_100), Some(TimeSource::Sender));
    assert_eq!(source(turn(589_900), 2_300), Some(TimeSource::Sender), "the old clock is gone");
}

/// The receiver of satellites starts anew with the autopilot: the clock that it had is not told before its next fix.
#[test]
fn a_vehicle_that_starts_anew_soon_has_had_no_fix() {
    let time = |boot_ms| Message::WallClock { unix_micros: NOW_MICROS + 5_000_000, boot_ms };
    let turn = |boot_ms| Message::Attitude { boot_ms, roll: 0.0, pitch: 0.0, yaw: 0.0 };
    // Twenty seconds after its start, by an attitude or by a clock.
    for first in [turn(100), time(100)] {
        let mut telemetry = Telemetry::new();
        let mut source = |message, at| {
            telemetry.take(AUTOPILOT, &message, read(at));
            telemetry.poll_set(Time::from_millis(at)).map(|set| set.source)
        };
        source(gps(3, 1, 1), 0);
        source(time(20_000), 10);
        assert_eq!(source(turn(20_200), 200), Some(TimeSource::Vehicle));
        source(first, 400);
        source(time(300), 600);
        assert_eq!(source(turn(500), 800), Some(TimeSource::Sender));
        source(gps(3, 1, 1), 900);
        assert_eq!(source(turn(1_000), 1_200), Some(TimeSource::Vehicle));
    }
}

/// A line gives the bytes of a frame in pieces, some of them much later than its first.
#[test]
fn a_frame_was_read_when_its_first_byte_was() {
    let frame = bytes_of(V2.iter().find(|(name, _)| *name == "ATTITUDE").unwrap().1);
    let mut telemetry = Telemetry::new();
    let mut found = Vec::new();
    let mut at = 1_000;
    for _ in 0..20 {
        // Bytes of nothing, and the frame behind them: the two come in the middle of a piece.
        let bytes = [&[0; 5][..], &frame].concat();
        for piece in bytes.chunks(4) {
            telemetry.push(piece, read(at), &mut |set| found.push(set.at));
            at += 30;
        }
        assert!(telemetry.reads.len() <= 1, "{:?}", telemetry.reads);
    }
    let pieces = (frame.len() as u64 + 5).div_ceil(4);
    let expected: Vec<_> =
        (0..20).map(|number| Time::from_millis(1_000 + (number * pieces + 1) * 30)).collect();
    assert_eq!(found, expected);
    // A start that no frame followed is not the time of one.
    telemetry.push(&frame[..20], read(10_000), &mut |_| panic!());
    telemetry.push(&frame[20..], read(60_000), &mut |set| found.push(set.at));
    assert_eq!(found.last(), Some(&Time::from_millis(60_000)));
}

#[test]
fn sets_come_at_most_ten_times_a_second_and_the_newest_waits_for_its_turn() {
    let mut telemetry = Telemetry::new();
    let mut count = 0;
    for number in 0..1000 {
        // A hundred a second of both.
        telemetry.take(AUTOPILOT, &attitude(0.0, 0.0, 0.0), read(number * 10));
        count += u32::from(telemetry.poll_set(Time::from_millis(number * 10)).is_some());
        telemetry.take(AUTOPILOT, &position(1, 1, 0, 0), read(number * 10 + 3));
        count += u32::from(telemetry.poll_set(Time::from_millis(number * 10 + 3)).is_some());
    }
    assert!((99..=101).contains(&count), "{count} in ten seconds");
    // Ten a second that come a little early and late are all told.
    let mut telemetry = Telemetry::new();
    let told = (0..100u64).filter(|number| {
        let at = number * 100 + number * 7 % 20;
        telemetry.take(AUTOPILOT, &attitude(0.0, 0.0, 0.0), read(at));
        telemetry.poll_set(Time::from_millis(at)).is_some()
    });
    assert_eq!(told.count(), 100);
    // One that came too early is told later, if nothing else comes.
    telemetry.take(AUTOPILOT, &attitude(0.0, 0.0, 77.0), read(9_950));
    assert_eq!(telemetry.poll_set(Time::from_millis(9_950)), None);
    near(parse(&telemetry.poll_set(Time::from_millis(10_100)).unwrap()).heading_deg, 77.0);
    // A clock that was set back by an hour stops nothing.
    let mut telemetry = Telemetry::new();
    telemetry.take(AUTOPILOT, &attitude(0.0, 0.0, 0.0), read(3_600_000));
    assert!(telemetry.poll_set(Time::from_millis(3_600_000)).is_some());
    telemetry.take(AUTOPILOT, &position(1, 1, 0, u16::MAX), read(10));
    let set = parse(&telemetry.poll_set(Time::from_millis(10)).unwrap());
    assert_eq!(
        (set.heading_deg, set.latitude_deg.is_some()),
        (None, true),
        "what was heard by the old clock is old"
    );
}

#[test]
fn another_vehicle_is_counted_and_its_gimbal_is_not_taken() {
    let mut telemetry = Telemetry::new();
    telemetry.take(AUTOPILOT, &attitude(0.0, 0.0, 10.0), read(0));
    let other = Sender { system: 2, component: 1 };
    telemetry.take(other, &attitude(0.0, 0.0, 99.0), read(10));
    let view = Message::FieldOfView {
        latitude_e7: 5,
        longitude_e7: 5,
        horizontal_deg: 60.0,
        vertical_deg: 30.0,
        device: 0,
    };
    telemetry.take(Sender { system: 2, component: 100 }, &view, read(20));
    let set = parse(&telemetry.poll_set(Time::from_millis(20)).unwrap());
    near(set.heading_deg, 10.0);
    assert_eq!(set.horizontal_view_deg, None);
    telemetry.take(Sender { system: 1, component: 100 }, &view, read(30));
    telemetry.take(AUTOPILOT, &attitude(0.0, 0.0, 11.0), read(120));
    near(parse(&telemetry.poll_set(Time::from_millis(120)).unwrap()).horizontal_view_deg, 60.0);
    assert_eq!((telemetry.counters().of_other_vehicles, telemetry.counters().vehicles), (1, 1));
    // The first one is gone: nothing of it is said of the next one.
    telemetry.take(other, &position(10_000_000, 20_000_000, 0, u16::MAX), read(6_000));
    let set = parse(&telemetry.poll_set(Time::from_millis(6_000)).unwrap());
    assert_eq!((set.heading_deg, set.horizontal_view_deg, telemetry.vehicle()), (None, None, Some(other)));
}

#[test]
fn what_ground_stations_say_is_counted() {
    let mut telemetry = Telemetry::new();
    let ground = Message::Heartbeat { kind: 6, autopilot: 8 };
    let heartbeat = Message::Heartbeat { kind: 2, autopilot: 3 };
    for (component, message) in [(1, heartbeat), (1, ground), (190, ground), (1, attitude(0.0, 0.0, 9.0))] {
        telemetry.take(Sender { component, ..AUTOPILOT }, &message, read(0));
    }
    telemetry.take(Sender { system: 9, component: 1 }, &ground, read(0));
    telemetry.take(Sender { system: 9, component: 1 }, &attitude(0.0, 0.0, 99.0), read(0));
    near(parse(&telemetry.poll_set(Time::ZERO).unwrap()).heading_deg, 9.0);
    assert_eq!((telemetry.counters().of_ground_stations, telemetry.counters().of_other_vehicles), (4, 0));
}

#[test]
fn signed_frames_are_read() {
    let mut telemetry = Telemetry::new();
    let mut sets = 0;
    for (_, hex) in SIGNED {
        telemetry.push(&bytes_of(hex), read(5), &mut |_| sets += 1);
    }
    assert_eq!((sets, telemetry.counters().frames.frames), (1, 3));
}

proptest! {
    /// Whatever is said, a set is whole and says only what a set can.
    #[test]
    fn no_message_makes_a_wrong_set(
        numbers in prop::collection::vec((0u8..9, any::<[u32; 12]>(), 0u64..3_000), 1..60),
    ) {
        let mut telemetry = Telemetry::new();
        let mut at = 0;
        for (kind, words, later) in numbers {
            at += later;
            let payload: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let number = [0, 2, 24, 30, 31, 33, 265, 271, 285][usize::from(kind)];
            let message = Message::read(super::super::message::layout(number).unwrap(), &payload);
            telemetry.take(AUTOPILOT, &message, read(at));
            if let Some(set) = telemetry.poll_set(Time::from_millis(at)) {
                let set = parse(&set);
                prop_assert!(set.latitude_deg.is_some() || set.heading_deg.is_some());
                prop_assert_eq!(set.latitude_deg.is_some(), set.longitude_deg.is_some());
            }
        }
    }
}
