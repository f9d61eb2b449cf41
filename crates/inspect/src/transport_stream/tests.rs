//! The analysis on streams whose properties and defects are known: made here packet by packet, and by FFmpeg.

use super::{Analysis, Errors, Kind, Report, WallClock};
use glassline_media::Utc;
use glassline_media::access_unit::{AccessUnit, Codec};
use glassline_media::container::ts::conformance::Profile;
use glassline_media::container::ts::{AudioFormat, MuxSettings, Muxer, PACKET_BYTES, Pcr, psi};
use glassline_media::stamps::Stamps;
use glassline_media::time::{Ticks, Time};
use glassline_test_support::synthetic::{
    PICTURE_TICKS, PICTURES, PacketBytes, SLOT_PACKETS, UTC_AT_ZERO, VIDEO_PID, constant_rate,
    constant_rate_from, intra_refresh_units, picture, pid_of,
};
use glassline_test_support::{has_program, skip};
use proptest::prelude::*;
use std::time::Duration;

fn intra_refresh() -> Analysis {
    let mut analysis = Analysis::new(Kind::Url, Time::ZERO);
    for (arrival, bytes) in intra_refresh_units() {
        analysis.push(&bytes, arrival);
    }
    analysis
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
    assert_eq!(report.errors, Errors::default());
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
    let json = |later| serde_json::to_string(&checked(&constant_rate_from(later), Profile::Iso)).unwrap();
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
    assert_eq!(report.errors, Errors::default());
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

fn checked(packets: &[PacketBytes], profile: Profile) -> Report {
    let mut analysis = Analysis::new(Kind::File, Time::ZERO);
    analysis.check(profile);
    analysis.push(packets.as_flattened(), Time::ZERO);
    analysis.finish(Time::ZERO);
    analysis.report("test")
}

#[test]
fn a_broken_rule_stands_in_the_report() {
    // A picture's packets come at 1.5 Mbit/s, where level 1.3 has 0.92; the tables come once a second.
    let report = checked(&constant_rate(), Profile::Dvb);
    let check = report.check.as_ref().unwrap();
    assert_eq!(check.rules_broken, 3, "{check:?}");
    let overflow =
        check.rules.iter().find(|rule| rule.verdict.rule.words() == "transport buffer overflow").unwrap();
    assert!(overflow.verdict.broken > 0 && overflow.clause.contains("§2.4.2.3"), "{overflow:?}");
    assert!(file(&constant_rate()).check.is_none());
}

#[test]
fn recovery_points_are_places_to_join_and_told_from_key_frames() {
    let report = intra_refresh().report("test");
    let video = report.streams[0].video.as_ref().unwrap();
    assert_eq!((video.key_frames, video.recovery_points, video.settling_frames_max), (0, 3, Some(4)));
    assert_eq!(video.key_frame_interval_frames.map(|all| (all.min, all.max)), Some((10.0, 10.0)));
    let first = report.time_to_first.unwrap();
    assert_eq!((first.picture_ms, first.right_picture_ms), (Some(1120.0), Some(1280.0)));
    assert_eq!(first.settling_frames, Some(4));
    assert!(!report.warnings.iter().any(|text| text.contains("no viewer can join")), "{:?}", report.warnings);
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
        audio: Some(AudioFormat { codec: Codec::Opus, channels: 2, language: None, he_aac: None }),
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
    assert_eq!(report.errors, Errors::default());
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
        let check = serde_json::to_value(checked(packets, Profile::Iso).check.unwrap()).unwrap();
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

#[test]
fn data_beside_the_pictures_are_counted_and_told() {
    use glassline_media::bitstream::klv::uas;
    use glassline_media::container::ts::{DataKind, DataWriter};
    use glassline_test_support::beside::{PLACEMENT_START, with_data};
    let mut klv = DataWriter::new(0x1f0, DataKind::Klv { synchronous: true });
    let mut cues = DataWriter::new(0x1f1, DataKind::Splice);
    let streams = [klv.announced(), cues.announced()];
    let mut wrong = PLACEMENT_START.to_vec();
    wrong[30] ^= 1;
    let bytes = with_data(constant_rate().as_flattened(), &streams, None, &mut |number, pts, out| {
        let set = uas::Set { time_micros: Some(number as u64), ..uas::Set::default() };
        let mut set = set.write();
        if number == 50 {
            *set.last_mut().unwrap() ^= 1;
        }
        klv.write(&set, Some(pts), out);
        match number {
            10..20 => cues.write(PLACEMENT_START, None, out),
            20 => cues.write(&wrong, None, out),
            _ => {}
        }
    });
    let report = analyse(Kind::File, &bytes, 1000);
    let data: Vec<_> = report.streams.iter().filter_map(|stream| stream.data.as_ref()).collect();
    let [klv, cues] = data[..] else { panic!("{:?}", report.streams) };
    assert_eq!((klv.format, klv.synchronous, klv.stamped_units), ("klv", Some(true), 100));
    near(klv.units_per_s, 25.25, 0.3);
    assert_eq!((klv.sets.len(), klv.sets[0].packets, klv.other_packets), (1, 100, 0));
    let drone = klv.drone.as_ref().unwrap();
    assert_eq!((drone.first_time_micros, drone.newest.time_micros), (Some(0), Some(99)));
    assert_eq!(drone.checksums_wrong, 1);
    assert_eq!((cues.format, cues.cues.len(), cues.cues[0].times), ("scte35", 1, 10));
    assert!(cues.cues[0].words.starts_with("time_signal at PTS 21388.766 s"), "{}", cues.cues[0].words);
    assert_eq!(report.errors, Errors { damaged_data: 1, ..Errors::default() });
    let carries = |pid| report.pids.iter().find(|found| found.pid == pid).unwrap().carries.clone();
    assert_eq!([0x1f0, 0x1f1].map(carries), ["KLV metadata", "SCTE 35 cues"]);
    assert_eq!(report.streams[2].units, PICTURES as u64, "the pictures are as without them");
}
