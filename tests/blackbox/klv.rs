//! Telemetry of `send` as KLV in the stream that `receive` makes.

use crate::{GLASSLINE, glassline};
use glassline_io::clock::Clock;
use glassline_media::bitstream::klv::{Packet, uas};
use glassline_media::container::ts::conformance::{Checker, Profile, Rule};
use glassline_media::container::ts::{Demuxer, Event};
use glassline_media::{Ticks, Utc};
use glassline_test_support::flight::{STAMPED, UNSTAMPED, attitude, fly, frame, ground_station, position};
use glassline_test_support::program::Scratch;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// Where the vehicle is at first, degrees × 10⁷: it flies north.
const HOME: [i32; 2] = [473_977_418, -85_455_939];
/// Sets that a test waits for.
const SETS: u64 = 20;

/// What a line with a vehicle, another one and a ground station says, a datagram at a time.
fn line(number: u32) -> Vec<u8> {
    let at = number * 20;
    match number % 5 {
        0 => ground_station(),
        1 => attitude(at, -12.5, 4.25, -90.0),
        2 => position(at, HOME[0] + number as i32, HOME[1], 488_130),
        // Two frames in one datagram, between what is none.
        3 => [&b"\xfd\x09noise"[..], &attitude(at, -12.5, 4.25, -90.0), &ground_station()].concat(),
        _ => frame(2, 1, 30, 39, &[9; 28]),
    }
}

/// The pictures' time stamps, and the units of data with theirs.
fn stamps(film: &str) -> (BTreeSet<Ticks>, Vec<(Vec<u8>, Ticks)>) {
    let mut demuxer = Demuxer::with_data();
    demuxer.push(&std::fs::read(film).unwrap());
    demuxer.finish();
    let (mut pictures, mut data) = (BTreeSet::new(), Vec::new());
    for event in std::iter::from_fn(|| demuxer.poll()) {
        match event {
            Event::AccessUnit { unit, .. } if unit.codec.is_video() => _ = pictures.insert(unit.pts),
            Event::Data { unit, .. } => data.push((unit.data.to_vec(), unit.pts.unwrap())),
            _ => {}
        }
    }
    (pictures, data)
}

fn data_of(film: &str) -> Value {
    let looked = glassline(&["probe", film, "--json"]);
    assert_eq!(looked.status, Some(0), "{}", looked.stderr);
    let report: Value = serde_json::from_str(&looked.text()).unwrap();
    let mut streams = report["streams"].as_array().unwrap().iter();
    streams.find(|stream| !stream["data"].is_null()).unwrap_or_else(|| panic!("{report}"))["data"].clone()
}

fn near(value: &Value, expected: f64, tolerance: f64) {
    assert!((value.as_f64().unwrap() - expected).abs() <= tolerance, "{value}, expected {expected}");
}

/// The stream keeps all rules but those of when a unit is whole: of a live one without constant rate that is the encoder's and the
/// link's time, with and without the data.
fn check_rules(film: &str) {
    let mut checker = Checker::new(Profile::default());
    checker.push(&std::fs::read(film).unwrap());
    checker.finish();
    let of_time = [Rule::Late, Rule::TransportBuffer, Rule::TransportEmpties, Rule::ElementaryBuffer];
    let judged: Vec<_> =
        checker.verdicts().into_iter().filter(|verdict| !of_time.contains(&verdict.rule)).collect();
    assert!(judged.iter().all(|verdict| verdict.broken == 0), "{film}: {judged:#?}");
    assert!(judged.iter().filter(|verdict| verdict.checked > 0).count() >= 8, "{film}: {judged:#?}");
}

fn has_x264(test: &str) -> bool {
    if cfg!(not(feature = "x264")) {
        glassline_test_support::skip(test, "built without x264");
    }
    cfg!(feature = "x264")
}

#[test]
fn what_an_autopilot_says_is_beside_the_pictures_of_its_moment() {
    if !has_x264("what_an_autopilot_says_is_beside_the_pictures_of_its_moment") {
        return;
    }
    let scratch = Scratch::new("klv");
    // Pictures that are encoded again, and those that pass.
    for codec in ["vp8", "h264"] {
        let film = scratch.file(&format!("{codec}.ts"));
        let before = Clock::new().utc();
        let flown = fly(
            GLASSLINE,
            [&[&film, "--channel", "0:klv=mavlink"], &[STAMPED, "--codec", codec]],
            line,
            SETS,
        );
        let after = Clock::new().utc();
        let said = &flown.report["klv"];
        assert!(said["units"].as_u64().unwrap() >= SETS, "{codec}: {said}");
        let mavlink = &said["mavlink"];
        for count in ["frames", "skipped_bytes", "of_other_vehicles", "of_ground_stations"] {
            assert!(mavlink[count].as_u64().unwrap() > 0, "{codec}: {count}: {mavlink}");
        }
        assert_eq!(
            (&mavlink["vehicles"], &said["late"], &said["refused"]),
            (&1.into(), &0.into(), &0.into())
        );
        assert!(mavlink["sets_by_clock"]["sender"].as_u64().unwrap() >= SETS, "{codec}: {mavlink}");
        assert!(flown.receiver.contains("another vehicle is heard"), "{codec}: {}", flown.receiver);

        let data = data_of(&film);
        assert_eq!((&data["format"], &data["synchronous"]), (&"klv".into(), &true.into()));
        let newest = &data["drone"]["newest"];
        assert_eq!((&data["drone"]["checksums_wrong"], &newest["checksum_right"]), (&0.into(), &true.into()));
        near(&newest["heading_deg"], 270.0, 0.006);
        near(&newest["pitch_deg"], 4.25, 0.001);
        near(&newest["roll_deg"], -12.5, 0.001);
        near(&newest["latitude_deg"], 47.398, 0.001);
        near(&newest["longitude_deg"], -8.545_593_9, 1e-7);
        near(&newest["altitude_m"], 488.13, 0.16);

        let (pictures, units) = stamps(&film);
        assert!(units.len() as u64 >= SETS, "{codec}: {} units", units.len());
        let mut latest = Utc::from_micros(0);
        for (unit, pts) in &units {
            assert!(pictures.contains(pts), "{codec}: {pts:?} is no picture's");
            let set = uas::Set::parse(&Packet::parse(unit).unwrap()).unwrap();
            let time = Utc::from_micros(set.time_micros.unwrap());
            assert!(before <= time && time <= after && latest < time, "{codec}: {time:?}");
            latest = time;
        }
        assert!(units.is_sorted_by_key(|(_, pts)| *pts), "{codec}");
        // At most ten a second, on average.
        let [first, last] = [units.first(), units.last()].map(|unit| unit.unwrap().1.as_secs_f64());
        assert!(
            (units.len() as f64 - 2.0) / (last - first).max(0.1) <= 10.5,
            "{codec}: {} units",
            units.len()
        );
        check_rules(&film);
    }
}

#[test]
fn klv_of_the_sender_goes_into_the_stream_as_it_is_and_to_its_output_too() {
    if !has_x264("klv_of_the_sender_goes_into_the_stream_as_it_is_and_to_its_output_too") {
        return;
    }
    let scratch = Scratch::new("klv");
    let film = scratch.file("flight.ts");
    let copy = scratch.file("copy.bin");
    let set = |number: u32| {
        let mission = Some(format!("MISSION{number}"));
        uas::Set { time_micros: Some(number.into()), mission, ..uas::Set::default() }.write()
    };
    let damaged = |number: u32| {
        let mut set = set(number);
        *set.last_mut().unwrap() ^= u8::from(number % 4 == 3);
        set
    };
    let channel = format!("0:klv=st0601,raw,out={copy}");
    let flown = fly(GLASSLINE, [&[&film, "--channel", &channel], &[UNSTAMPED]], damaged, SETS);
    assert!(flown.report["klv"]["refused"].as_u64().unwrap() > 0, "{}", flown.report);
    assert!(flown.receiver.contains("come without the times at which they were read"), "{}", flown.receiver);
    let (_, units) = stamps(&film);
    assert!(units.len() as u64 >= SETS);
    for (unit, _) in &units {
        let said = uas::Set::parse(&Packet::parse(unit).unwrap()).unwrap();
        let number = said.time_micros.unwrap() as u32;
        assert!(*unit == set(number) && number % 4 != 3, "{said:?}");
    }
    assert!(std::fs::read(&copy).unwrap().starts_with(&damaged(0)));
}

#[test]
fn telemetry_for_an_output_that_takes_none_is_refused_before_anything_begins() {
    let scratch = Scratch::new("klv");
    for name in ["flight.mp4", "flight.webm", "flight.y4m", "flight.ivf", "flight.h264"] {
        let film = scratch.file(name);
        let refused =
            glassline(&["receive", "link://127.0.0.1:0", &film, "--insecure", "--channel", "0:klv=mavlink"]);
        assert_eq!(refused.status, Some(2), "{name}: {}", refused.stderr);
        assert!(refused.stderr.contains("klv= puts telemetry into a transport stream"), "{}", refused.stderr);
        assert!(!Path::new(&film).exists(), "{name}");
    }
    let no_output =
        ["send", "test:320x180@25", "link://127.0.0.1:9", "--insecure", "--channel", "0:klv=mavlink"];
    let no_pictures = ["link", "listen", "127.0.0.1:0", "--insecure", "--channel", "0:klv=mavlink"];
    for arguments in [&no_output[..], &no_pictures] {
        let refused = glassline(arguments);
        assert_eq!(refused.status, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains("klv="), "{}", refused.stderr);
    }
}
