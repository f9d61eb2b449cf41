//! The analysis on streams whose properties and defects are known: made here packet by packet, and by FFmpeg.

use super::age::WallClock;
use super::analysis::{Analysis, Kind};
use super::check::Rules;
use super::report::Report;
use super::table;
use super::{capture, ivf};
use glassline_media::Utc;
use glassline_media::access_unit::{AccessUnit, Codec};
use glassline_media::bitstream::h264::{RecoveryPoint, sei, write_capture_utc_nal};
use glassline_media::container::ts::{AudioFormat, MuxSettings, Muxer, PACKET_BYTES, Pcr, psi};
use glassline_media::stamps::Stamps;
use glassline_media::time::{Ticks, Time};
use glassline_test_support::{has_program, skip};
use proptest::prelude::*;
use std::time::Duration;

/// 320x240, main profile, level 1.3, 25 pictures a second.
const SPS: &[u8] = &[
    0, 0, 0, 1, 0x67, 0x4d, 0x40, 0x0d, 0xec, 0xa0, 0xa0, 0xfd, 0x80, 0x88, 0, 0, 3, 0, 8, 0, 0, 3, 1, 0x90,
    0x78, 0xa1, 0x4c, 0xb0,
];
const PICTURE_TICKS: i64 = 3600;
const PICTURES: i64 = 100;
/// At this many packets a picture, the synthetic stream has a constant rate: 1000 packets a second.
const SLOT_PACKETS: usize = 40;
const KEY_INTERVAL: i64 = 25;
const VIDEO_PID: u16 = 0x100;

type PacketBytes = [u8; PACKET_BYTES];

fn null_packet() -> PacketBytes {
    let mut packet = [0xff; PACKET_BYTES];
    packet[..4].copy_from_slice(&[0x47, 0x1f, 0xff, 0x10]);
    packet
}

fn pid_of(packet: &PacketBytes) -> u16 {
    u16::from_be_bytes([packet[1] & 0x1f, packet[2]])
}

fn picture(number: i64) -> AccessUnit {
    let key = number % KEY_INTERVAL == 0;
    let mut data = vec![0, 0, 0, 1, 9, 0xf0];
    if key {
        data.extend_from_slice(SPS);
    }
    // A slice header begins with the codes of "macroblock 0" and "only I" or "only P".
    data.extend_from_slice(if key { &[0, 0, 0, 1, 0x65, 0x88] } else { &[0, 0, 0, 1, 0x41, 0x98] });
    data.resize(2000, 0x55);
    let pts = Ticks(90_000 + number * PICTURE_TICKS);
    AccessUnit {
        codec: Codec::H264,
        data: data.into(),
        pts,
        dts: pts,
        random_access: key,
        stamps: Stamps::default(),
    }
}

/// A stream of constant rate with a key frame every second, 4 s long. Each picture takes a slot of 40 packets, in
/// which its first packet, the one with the clock, always stands in the third place.
fn constant_rate() -> Vec<PacketBytes> {
    constant_rate_from(0)
}

/// The same, its stamps and its clock so many ticks later.
fn constant_rate_from(later: i64) -> Vec<PacketBytes> {
    let settings =
        MuxSettings { video: Some(Codec::H264), table_interval: Ticks(90_000), ..MuxSettings::default() };
    let mut muxer = Muxer::new(settings).unwrap();
    let mut out = Vec::new();
    for number in 0..PICTURES {
        let mut bytes = Vec::new();
        let mut unit = picture(number);
        (unit.pts, unit.dts) = (unit.pts + Ticks(later), unit.dts + Ticks(later));
        muxer.write(&unit, &mut bytes).unwrap();
        let mut packets = bytes.as_chunks::<PACKET_BYTES>().0.to_vec();
        let first = packets.iter().position(|packet| pid_of(packet) == VIDEO_PID).unwrap();
        packets.splice(0..0, std::iter::repeat_n(null_packet(), 2 - first));
        packets.resize(SLOT_PACKETS, null_packet());
        out.extend(packets);
    }
    out
}

fn analyse(kind: Kind, bytes: &[u8], chop: usize) -> Report {
    let mut analysis = Analysis::new(kind, Time::ZERO);
    for part in bytes.chunks(chop.max(1)) {
        analysis.push(part, Time::ZERO);
    }
    analysis.finish(Time::ZERO);
    analysis.report("test")
}

fn file(packets: &[PacketBytes]) -> Report {
    analyse(Kind::File, packets.as_flattened(), 10_000)
}

fn near(found: Option<f64>, expected: f64, tolerance: f64) {
    let found = found.expect("a figure");
    assert!((found - expected).abs() <= tolerance, "found {found}, expected {expected} ± {tolerance}");
}

#[test]
fn a_clean_stream_is_described_and_draws_no_warning() {
    let report = file(&constant_rate());
    assert_eq!(report.warnings, Vec::<String>::new());
    assert_eq!(report.errors, super::report::Errors::default());
    near(report.bitrate_bps, 1_504_000.0, 1.0);
    near(report.duration_s, 3.96, 1e-9);
    assert_eq!((report.programs.len(), report.programs[0].number), (1, 1));

    let [stream] = &report.streams[..] else { panic!("{:?}", report.streams) };
    assert_eq!((stream.pid, stream.kind, stream.codec), (VIDEO_PID, "video", Some("H.264")));
    assert_eq!(stream.units, PICTURES as u64);
    near(stream.pts_interval_ms.map(|all| all.max), 40.0, 1e-9);
    near(stream.pts_jitter_ms.map(|all| all.max), 0.0, 1e-9);
    let video = stream.video.as_ref().unwrap();
    assert_eq!((video.width_px, video.height_px, video.bit_depth), (Some(320), Some(240), Some(8)));
    assert_eq!((video.profile.as_deref(), video.level.as_deref()), (Some("Main"), Some("1.3")));
    assert_eq!((video.declared_frame_rate_hz, video.measured_frame_rate_hz), (Some(25.0), Some(25.0)));
    assert_eq!((video.key_frames, video.i_pictures, video.p_pictures, video.b_pictures), (4, 4, 96, 0));
    let keys = video.key_frame_interval_frames.unwrap();
    assert_eq!((keys.count, keys.min, keys.max), (3, 25.0, 25.0));
    assert_eq!(video.key_frame_interval_s.unwrap().max, 1.0);
    assert!(!video.reordered);

    let clock = report.clock.unwrap();
    assert!(clock.constant_rate);
    assert_eq!(clock.interval_ms.unwrap().max, 40.0);
    let jitter = clock.jitter.unwrap();
    assert_eq!((jitter.basis, jitter.ms.max), ("position", 0.0));
}

#[test]
fn the_wrap_of_stamps_and_clock_changes_nothing() {
    let json = |later| serde_json::to_string(&checked(&constant_rate_from(later), Rules::Iso)).unwrap();
    let expected = json(0);
    // The clock wraps, then the stamps, which are 50 ms ahead of it, a picture earlier; then neither.
    for pictures in [0, 1, 2, 50, 99, 200] {
        assert_eq!(json(Ticks::WRAP - 90_000 - pictures * PICTURE_TICKS), expected, "{pictures}");
    }
}

/// The same stream, whose program map and video have other PIDs from picture 50 on.
fn renumbered() -> Vec<PacketBytes> {
    let mut packets = constant_rate();
    for packet in &mut packets[50 * SLOT_PACKETS..] {
        let mut counter = packet[3] & 0x0f;
        let mut section = Vec::new();
        let pid = match pid_of(packet) {
            0 => {
                let programs = vec![(1, 0x1100)];
                psi::Pat { transport_stream_id: 1, version: 1, current: true, programs }.write(&mut section);
                0
            }
            VIDEO_PID => 0x200,
            0x1fff => continue,
            _ => {
                let streams = vec![psi::ElementaryStream::new(0x200, 0x1b, Vec::new())];
                let pmt = psi::Pmt { program_number: 1, version: 1, current: true, pcr_pid: 0x200, streams };
                pmt.write(&mut section);
                0x1100
            }
        };
        if section.is_empty() {
            packet[1] = packet[1] & 0xe0 | (pid >> 8) as u8;
            packet[2] = pid as u8;
        } else {
            let mut written = Vec::new();
            psi::write_packets(pid, &section, &mut counter, &mut written);
            packet.copy_from_slice(&written);
        }
    }
    packets
}

#[test]
fn a_program_whose_pids_change_is_followed() {
    let report = file(&renumbered());
    assert_eq!(report.errors, super::report::Errors::default());
    assert_eq!(report.warnings, Vec::<String>::new());
    near(report.duration_s, 3.96, 1e-9);
    assert_eq!(report.programs.iter().map(|program| program.pmt_pid).collect::<Vec<_>>(), [0x1100]);
    let streams: Vec<_> = report.streams.iter().map(|stream| (stream.pid, stream.units)).collect();
    assert_eq!(streams, [(VIDEO_PID, 50), (0x200, 50)]);
    let carries = |pid| report.pids.iter().find(|found| found.pid == pid).unwrap().carries.clone();
    assert_eq!([VIDEO_PID, 0x200].map(carries), ["H.264"; 2]);
    assert_eq!([0x1000, 0x1100].map(carries), ["program map (PMT)"; 2]);
    let clock = report.clock.unwrap();
    assert_eq!((clock.jumps, clock.interval_ms.unwrap().max), (0, 40.0));
}

fn checked(packets: &[PacketBytes], rules: Rules) -> Report {
    let mut analysis = Analysis::new(Kind::File, Time::ZERO);
    analysis.check(rules);
    analysis.push(packets.as_flattened(), Time::ZERO);
    analysis.finish(Time::ZERO);
    analysis.report("test")
}

#[test]
fn a_broken_rule_is_an_error_and_stands_in_the_table() {
    // A picture's packets come at 1.5 Mbit/s, where level 1.3 has 0.92; the tables come once a second.
    let report = checked(&constant_rate(), Rules::Dvb);
    let check = report.check.as_ref().unwrap();
    assert_eq!(check.rules_broken, 3, "{check:?}");
    assert!(check.verdict().is_err());
    let text = table::write(&report);
    let row = text.lines().find(|line| line.contains("transport buffer overflow")).unwrap();
    assert!(row.contains("BROKEN") && row.contains("§2.4.2.3"), "{text}");
    assert!(
        text.contains("clock against position") && text.lines().all(|line| line.chars().count() <= 120),
        "{text}"
    );
    assert!(file(&constant_rate()).check.is_none());
}

/// A stream without a key frame, a picture each 40 ms: recovery points at the pictures 3, 13, … of 30, after which four
/// are not right. Each picture says that it was captured 25 ms (and its number of microseconds) before its end comes.
fn intra_refresh() -> Analysis {
    let mut muxer = Muxer::new(MuxSettings { video: Some(Codec::H264), ..MuxSettings::default() }).unwrap();
    let mut analysis = Analysis::new(Kind::Url, Time::ZERO);
    for number in 0..30 {
        let arrival = Time::from_millis(1000 + number as u64 * 40);
        let is_point = number % 10 == 3;
        let mut data = vec![0, 0, 0, 1, 9, 0xf0];
        if is_point {
            data.extend_from_slice(SPS);
            data.extend_from_slice(&[0, 0, 0, 1, 0x68, 0xce]);
            let point = RecoveryPoint { frames: 4, exact: true, broken_link: false };
            sei::write_message(sei::RECOVERY_POINT, &point.write(), &mut data);
        }
        let captured = UTC_AT_ZERO + arrival.as_nanos() - 25_000_000 - number as u64 * 1000;
        write_capture_utc_nal(Utc::from_nanos(captured), &mut data);
        data.extend_from_slice(&[0, 0, 0, 1, 0x41, 0x98]);
        data.resize(2000, 0x55);
        let (pts, stamps) = (Ticks(90_000 + number * PICTURE_TICKS), Stamps::default());
        let (codec, dts, random_access) = (Codec::H264, pts, is_point);
        let mut bytes = Vec::new();
        let unit = AccessUnit { codec, data: data.into(), pts, dts, random_access, stamps };
        muxer.write(&unit, &mut bytes).unwrap();
        analysis.push(&bytes, arrival);
    }
    analysis
}

/// The wall clock at the origin of the monotonic one.
const UTC_AT_ZERO: u64 = 1_700_000_000_000_000_000;

#[test]
fn recovery_points_are_places_to_join_and_told_from_key_frames() {
    let report = intra_refresh().report("test");
    let video = report.streams[0].video.as_ref().unwrap();
    assert_eq!((video.key_frames, video.recovery_points, video.settling_frames_max), (0, 3, Some(4)));
    assert_eq!(video.key_frame_interval_frames.map(|all| (all.min, all.max)), Some((10.0, 10.0)));
    let first = report.time_to_first.unwrap();
    assert_eq!((first.picture_ms, first.right_picture_ms), (Some(1120.0), Some(1280.0)));
    assert_eq!(first.settling_frames, Some(4));
    assert!(!report.warnings.iter().any(|text| text.contains("nobody can join")), "{:?}", report.warnings);
    let text = table::write(&report);
    assert!(
        text.contains("0, and 3 recovery points") && text.contains("right 4 pictures later, after 1280 ms"),
        "{text}"
    );
}

#[test]
fn ages_count_from_capture_by_the_clock_that_is_given() {
    let mut analysis = intra_refresh();
    assert!(analysis.has_capture_times());
    assert!(analysis.report("test").streams[0].video.as_ref().unwrap().age.is_none(), "no clock, no age");
    // The server's clock is 3 ms ahead of what the capture went by.
    let (at, utc) = (Time::from_millis(5), Utc::from_nanos(UTC_AT_ZERO + 8_000_000));
    analysis.tell_ages_by(WallClock { at, utc, whose: "server", uncertainty_ms: Some(0.25) });
    let report = analysis.report("test");
    let video = report.streams[0].video.as_ref().unwrap();
    let age = video.age.unwrap();
    assert_eq!((video.capture_times, age.ms.count, age.clock), (30, 30, "server"));
    near(Some(age.ms.min), 28.0, 1e-6);
    near(Some(age.ms.max), 28.029, 1e-6);
    let text = table::write(&report);
    assert!(text.contains("video age here") && text.contains("the server's clock (± 0.2 ms)"), "{text}");
}

#[test]
fn a_dropped_packet_is_one_error_and_one_picture() {
    let mut packets = constant_rate();
    // The fifth packet of the eleventh picture.
    assert_eq!(pid_of(&packets[10 * SLOT_PACKETS + 6]), VIDEO_PID);
    packets.remove(10 * SLOT_PACKETS + 6);
    let report = file(&packets);
    assert_eq!((report.errors.continuity_errors, report.errors.damaged_units), (1, 1));
    let of_pid = |pid| report.pids.iter().find(|row| row.pid == pid).map(|row| row.continuity_errors);
    assert_eq!((of_pid(VIDEO_PID), of_pid(0)), (Some(1), Some(0)));
    assert_eq!(report.streams[0].units, PICTURES as u64 - 1);
    assert_eq!(report.streams[0].pts_gaps, 1);
    assert!(
        report.warnings[0].starts_with("Packets were missing or out of order once"),
        "{:?}",
        report.warnings
    );
}

/// Moves the clock in the `index`th packet that carries one.
fn shift_clock(packets: &mut [PacketBytes], index: usize, ticks: u64) {
    let has_clock =
        |packet: &&mut PacketBytes| packet[3] & 0x20 != 0 && packet[4] >= 7 && packet[5] & 0x10 != 0;
    let packet = packets.iter_mut().filter(has_clock).nth(index).unwrap();
    let pcr = Pcr::parse(packet[6..12].try_into().unwrap());
    packet[6..12].copy_from_slice(&Pcr::new(pcr.ticks() + ticks).write());
}

#[test]
fn jitter_of_the_clock_is_measured_against_the_position() {
    let mut packets = constant_rate();
    shift_clock(&mut packets, 50, 27_000);
    let report = file(&packets);
    let jitter = report.clock.unwrap().jitter.unwrap();
    assert_eq!(jitter.basis, "position");
    near(Some(jitter.ms.max), 1.0, 1e-6);
    assert_eq!(jitter.ms.p50, 0.0);
    assert!(
        report.warnings.iter().any(|text| text.contains("off by up to 1.0000 ms")),
        "{:?}",
        report.warnings
    );
}

#[test]
fn a_jump_of_the_clock_is_no_jitter() {
    let mut packets = constant_rate();
    let clocks = packets.len() / SLOT_PACKETS;
    for index in 50..clocks {
        shift_clock(&mut packets, index, 100 * Pcr::RATE);
    }
    let clock = file(&packets).clock.unwrap();
    assert_eq!((clock.jumps, clock.jitter.unwrap().ms.max), (1, 0.0));
}

#[test]
fn a_stream_that_is_played_twice_jumps_and_has_no_gaps() {
    let report = file(&[constant_rate(), constant_rate()].concat());
    let stream = &report.streams[0];
    assert_eq!((stream.units, stream.pts_jumps, stream.pts_gaps), (2 * PICTURES as u64, 1, 0));
    assert_eq!(report.clock.as_ref().map(|clock| clock.jumps), Some(1));
    near(stream.pts_jitter_ms.map(|all| all.max), 0.0, 1e-9);
    let video = stream.video.as_ref().unwrap();
    assert!(!video.reordered);
    assert_eq!(video.key_frame_interval_s.map(|all| (all.count, all.max)), Some((6, 1.0)));
    near(report.duration_s, 2.0 * 3.96, 1e-9);
}

#[test]
fn garbage_is_counted_to_the_byte() {
    let packets = constant_rate();
    let (front, back) = packets.split_at(1234);
    let bytes = [&[0x11; 100][..], front.as_flattened(), &[0x22; 333], back.as_flattened()].concat();
    let report = analyse(Kind::File, &bytes, 777);
    assert_eq!((report.errors.skipped_bytes, report.errors.sync_losses), (433, 1));
    assert_eq!(report.streams[0].units, PICTURES as u64);
}

#[test]
fn a_damaged_packet_is_told_from_a_lost_one() {
    let mut packets = constant_rate();
    packets[6][1] |= 0x80;
    let report = file(&packets);
    assert_eq!(report.errors.transport_errors, 1);
}

/// Each slot of 40 ms arrives at once when its time has come, plus what `late` says; the first `burst` ones come
/// with the one behind them.
fn live(late: impl Fn(usize) -> Duration, burst: usize) -> Report {
    let mut analysis = Analysis::new(Kind::Url, Time::ZERO);
    for (slot, packets) in constant_rate().chunks(SLOT_PACKETS).enumerate() {
        let now = Time::ZERO + Duration::from_millis(40) * slot.max(burst) as u32 + late(slot);
        analysis.push(packets.as_flattened(), now);
    }
    analysis.report("http://localhost/live/test.ts")
}

#[test]
fn jitter_of_a_live_stream_is_measured_against_its_arrival() {
    let report = live(|slot| Duration::from_millis(if slot % 10 == 5 { 30 } else { 0 }), 0);
    let jitter = report.clock.unwrap().jitter.unwrap();
    assert_eq!(jitter.basis, "arrival");
    near(Some(jitter.ms.max), 30.0, 0.001);
    near(Some(jitter.ms.p95), 30.0, 0.001);
    near(Some(jitter.ms.p50), 0.0, 0.001);
}

#[test]
fn a_burst_at_the_start_is_no_jitter() {
    // A server that begins 19 pictures back, at its last key frame.
    let report = live(|_| Duration::ZERO, 19);
    let clock = report.clock.as_ref().unwrap();
    near(clock.start_burst_ms, 760.0, 0.001);
    near(clock.jitter.map(|jitter| jitter.ms.max), 0.0, 0.001);
    assert_eq!(report.warnings, Vec::<String>::new());
}

#[test]
fn time_to_the_first_picture_ends_with_its_last_byte() {
    let packets = constant_rate();
    let mut analysis = Analysis::new(Kind::Url, Time::from_millis(100));
    // The key frame's first packets, its rest, and the next picture, which is what shows that it has ended.
    for (range, millis) in [(0..5, 130), (5..SLOT_PACKETS, 150), (SLOT_PACKETS..2 * SLOT_PACKETS, 190)] {
        analysis.push(packets[range].as_flattened(), Time::from_millis(millis));
    }
    let first = analysis.report("test").time_to_first.unwrap();
    assert_eq!((first.byte_ms, first.picture_ms), (Some(30.0), Some(50.0)));
}

#[test]
fn stamps_behind_the_clock_are_warned_of() {
    // The muxer puts stamps 50 ms behind the clock; the pictures' 11 packets take some 11 ms of that.
    let lead = file(&constant_rate()).streams[0].pts_minus_pcr_ms.unwrap();
    assert!(lead.min > 30.0 && lead.max < 50.0, "{lead:?}");
    let mut packets = constant_rate();
    for index in 0..PICTURES as usize {
        shift_clock(&mut packets, index, Pcr::RATE / 5);
    }
    let report = file(&packets);
    let late = report.streams[0].pts_minus_pcr_ms.unwrap();
    near(Some(lead.min - late.min), 200.0, 0.1);
    assert!(
        report.warnings.iter().any(|text| text.contains("after it should be shown")),
        "{:?}",
        report.warnings
    );
}

#[test]
fn sound_that_runs_ahead_is_measured() {
    let settings = MuxSettings {
        video: Some(Codec::H264),
        audio: Some(AudioFormat { codec: Codec::Opus, channels: 2, language: None }),
        ..MuxSettings::default()
    };
    let mut muxer = Muxer::new(settings).unwrap();
    let mut bytes = Vec::new();
    for number in 0..PICTURES {
        let picture = picture(number);
        // A packet of 20 ms (configuration 31, one frame), stamped 100 ms later than the picture behind it.
        let pts = picture.pts + Ticks(9000);
        for half in [0, 1800] {
            let pts = pts + Ticks(half - 1800);
            let data = vec![31 << 3 | 4, 1, 2, 3].into();
            let stamps = Stamps::default();
            let unit = AccessUnit { codec: Codec::Opus, data, pts, dts: pts, random_access: true, stamps };
            muxer.write(&unit, &mut bytes).unwrap();
        }
        muxer.write(&picture, &mut bytes).unwrap();
    }
    let report = analyse(Kind::File, &bytes, 1000);
    let both = report.audio_video.unwrap();
    near(Some(both.interleave_ms.p50), 100.0, 0.02);
    near(Some(both.start_ms), 80.0, 0.02);
    let audio = report.streams.iter().find(|stream| stream.kind == "audio").unwrap();
    assert_eq!(
        audio.audio.as_ref().map(|audio| (audio.rate_hz, audio.channels)),
        Some((Some(48_000), Some(2)))
    );
    near(audio.pts_interval_ms.map(|all| all.p50), 20.0, 1e-9);
}

#[test]
fn what_is_no_transport_stream_is_known_as_such() {
    for bytes in [b"GIF89a is no stream".repeat(100), vec![0; 400_000], b"G".repeat(100), vec![]] {
        let mut analysis = Analysis::new(Kind::File, Time::ZERO);
        analysis.push(&bytes, Time::ZERO);
        analysis.finish(Time::ZERO);
        assert!(!analysis.is_transport_stream(), "{:?}", &bytes[..bytes.len().min(10)]);
        assert_eq!(analysis.is_hopeless(), bytes.len() == 400_000);
    }
}

#[test]
fn the_table_is_aligned_and_shows_the_warnings() {
    let mut packets = constant_rate();
    packets.remove(10 * SLOT_PACKETS + 6);
    let text = table::write(&file(&packets));
    assert!(text.contains("Video on PID 256: H.264"), "{text}");
    assert!(text.contains("320x240, 4:2:0, 8 bit"), "{text}");
    assert!(text.contains("Warnings\n  - Packets were missing or out of order once"), "{text}");
    let timing: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("  Timing")).take(3).collect();
    assert!(timing.windows(2).all(|pair| pair[0].len() == pair[1].len()), "{timing:#?}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
}

/// Every key of a value, each with the path to it.
fn keys(value: &serde_json::Value, out: &mut std::collections::BTreeSet<String>) {
    match value {
        serde_json::Value::Object(map) => map.iter().for_each(|(key, inner)| {
            out.insert(key.clone());
            keys(inner, out);
        }),
        serde_json::Value::Array(items) => items.iter().for_each(|item| keys(item, out)),
        _ => {}
    }
}

#[test]
fn every_key_of_the_json_is_documented() {
    let manual = include_str!("../../../docs/probe.md");
    let mut found = std::collections::BTreeSet::new();
    let live = serde_json::to_value(live(|_| Duration::ZERO, 0)).unwrap();
    keys(&live, &mut found);
    keys(&serde_json::to_value(checked(&constant_rate(), Rules::Iso)).unwrap(), &mut found);
    let mut aged = intra_refresh();
    let (at, utc) = (Time::ZERO, Utc::from_nanos(UTC_AT_ZERO));
    aged.tell_ages_by(WallClock { at, utc, whose: "local", uncertainty_ms: None });
    keys(&serde_json::to_value(aged.report("test")).unwrap(), &mut found);
    let capture = capture::tests::report();
    keys(&serde_json::to_value(capture).unwrap(), &mut found);
    keys(&serde_json::to_value(ivf::tests::report()).unwrap(), &mut found);
    for part in [&AUDIO_KEYS[..], &AUDIO_VIDEO_KEYS[..]] {
        found.extend(part.iter().map(|key| (*key).to_owned()));
    }
    for key in found {
        assert!(manual.contains(&format!("`{key}`")), "docs/probe.md lacks {key}");
    }
}

/// Keys that the synthetic stream has no use for.
const AUDIO_KEYS: [&str; 3] = ["rate_hz", "channels", "profile"];
const AUDIO_VIDEO_KEYS: [&str; 2] = ["start_ms", "interleave_ms"];

fn ffmpeg(test: &str, arguments: &str) -> Option<Vec<u8>> {
    if !has_program("ffmpeg") {
        skip(test, "ffmpeg is not installed");
        return None;
    }
    let inputs = "-v error -f lavfi -i testsrc2=size=320x240:rate=25 -f lavfi -i sine=sample_rate=48000 -t 4";
    let arguments = format!("{inputs} {arguments} -f mpegts -");
    let output = std::process::Command::new("ffmpeg").args(arguments.split(' ')).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("Unknown encoder") {
        skip(test, &format!("this ffmpeg cannot: {said}"));
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(output.stdout)
}

#[test]
fn what_ffmpeg_writes_is_described() {
    let options = "-c:v libx264 -preset ultrafast -bf 2 -g 50 -sc_threshold 0 -c:a aac -ac 2";
    let Some(bytes) = ffmpeg("what_ffmpeg_writes_is_described", options) else { return };
    let report = analyse(Kind::File, &bytes, 4096);
    assert_eq!(report.errors, super::report::Errors::default());
    let stream = |kind| report.streams.iter().find(|stream| stream.kind == kind).unwrap();
    let (video, audio) = (stream("video"), stream("audio"));
    assert_eq!((video.units, video.codec, audio.codec), (100, Some("H.264"), Some("AAC")));
    near(video.pts_jitter_ms.map(|all| all.max), 0.0, 1e-9);
    let pictures = video.video.as_ref().unwrap();
    assert!(pictures.reordered && pictures.b_pictures > 20, "{pictures:?}");
    assert_eq!(pictures.i_pictures + pictures.p_pictures + pictures.b_pictures, 100);
    assert_eq!(pictures.key_frame_interval_frames.map(|frames| frames.max), Some(50.0));
    assert_eq!(pictures.measured_frame_rate_hz, Some(25.0));
    let sound = audio.audio.as_ref().unwrap();
    assert_eq!((sound.rate_hz, sound.channels, sound.profile), (Some(48_000), Some(2), Some("LC")));
    assert!(!report.clock.unwrap().constant_rate);
}

#[test]
fn the_constant_rate_that_ffmpeg_was_asked_for_is_found() {
    let options = "-c:v libx264 -preset ultrafast -tune zerolatency -g 25 -c:a aac -muxrate 3000000";
    let Some(bytes) = ffmpeg("the_constant_rate_that_ffmpeg_was_asked_for_is_found", options) else { return };
    let report = analyse(Kind::File, &bytes, 4096);
    near(report.bitrate_bps, 3e6, 3e3);
    let clock = report.clock.unwrap();
    assert!(clock.constant_rate);
    near(clock.jitter.map(|jitter| jitter.ms.max), 0.0, 0.0005);
    assert!(!report.streams[0].video.as_ref().unwrap().reordered);
    // Its clock is judged, and right.
    let packets: Vec<PacketBytes> = bytes.as_chunks().0.to_vec();
    let accuracy = |packets: &[PacketBytes]| {
        let check = serde_json::to_value(checked(packets, Rules::Iso).check.unwrap()).unwrap();
        let rules = check["rules"].as_array().unwrap();
        let rule = rules.iter().find(|rule| rule["rule"] == "pcr_accuracy").unwrap();
        assert_eq!(check["constant_rate"], true, "{rule}");
        [&rule["checked"], &rule["broken"]].map(|count| count.as_u64().unwrap())
    };
    let [judged, broken] = accuracy(&packets);
    assert!(judged > 90 && broken == 0, "{broken} of {judged}");
    // Without one of its packets it is not.
    let middle = packets.len() / 2;
    assert!(accuracy(&[&packets[..middle], &packets[middle + 1..]].concat())[1] > 0);
}

proptest! {
    #[test]
    fn damage_never_panics(
        changes in proptest::collection::vec((0usize..400 * PACKET_BYTES, any::<u8>()), 0..200),
        chop in 1usize..5000,
    ) {
        let mut bytes = constant_rate()[..400].as_flattened().to_vec();
        for (at, value) in changes {
            bytes[at] = value;
        }
        let report = analyse(Kind::Url, &bytes, chop);
        prop_assert!(!table::write(&report).is_empty());
        prop_assert!(serde_json::to_string(&report).is_ok());
    }

    #[test]
    fn chops_do_not_matter(chop in 1usize..3000) {
        let packets = constant_rate();
        let bytes = packets[..400].as_flattened();
        let text = |chop| serde_json::to_string(&analyse(Kind::File, bytes, chop)).unwrap();
        prop_assert_eq!(text(chop), text(bytes.len()));
    }
}
