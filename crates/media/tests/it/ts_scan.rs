//! Joining a stream that FFmpeg muxed: entries are key frames, and what a viewer gets has no gaps in its counters.
#![allow(clippy::disallowed_types, clippy::unwrap_used, reason = "tests run FFmpeg")]

use glassline_media::Codec;
use glassline_media::container::ts::packet::packets;
use glassline_media::container::ts::{
    Aligner, ContinuityChecker, EntryPoint, PACKET_BYTES, Packet, Scanner, psi,
};
use glassline_test_support::{has_program, shared, skip};
use std::io::Write;
use std::process::{Command, Stdio};

fn ffmpeg_ts(test: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    let Some(clip) = shared("media/bbb_720p25.mp4").filter(|_| has_program("ffmpeg")) else {
        skip(test, "FFmpeg or media/bbb_720p25.mp4 is missing");
        return None;
    };
    let output = Command::new("ffmpeg")
        .args(["-v", "error", "-t", "4", "-i"])
        .arg(clip)
        .args(["-f", "lavfi", "-i", "sine=sample_rate=48000", "-shortest", "-t", "4"])
        .args(arguments)
        .args(["-f", "mpegts", "-"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}

const VIDEO_AND_AAC: [&str; 16] = [
    "-map",
    "0:v",
    "-map",
    "1:a",
    "-c:v",
    "libx264",
    "-preset",
    "ultrafast",
    "-g",
    "25",
    "-bf",
    "0",
    "-s",
    "320x180",
    "-c:a",
    "aac",
];

struct Found {
    at: usize,
    point: EntryPoint,
}

fn entries(bytes: &[u8]) -> (Scanner, Vec<Found>) {
    let mut scanner = Scanner::new();
    let mut found = Vec::new();
    for (number, packet) in packets(bytes).enumerate() {
        if let Some(entry) = scanner.scan(packet).entry {
            found.push(Found { at: number - entry.packets_back as usize, point: entry.point });
        }
    }
    (scanner, found)
}

fn continuity_errors(bytes: &[u8]) -> u64 {
    let mut checker = ContinuityChecker::new();
    for packet in packets(bytes) {
        checker.check(&Packet::parse(packet).unwrap());
    }
    checker.errors()
}

/// What FFmpeg says when it decodes this, at its debug level.
fn ffmpeg_log(bytes: &[u8]) -> String {
    let mut child = Command::new("ffmpeg")
        .args(["-v", "debug", "-f", "mpegts", "-i", "-", "-f", "null", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    // FFmpeg's log fills its pipe while the stream is still being written.
    #[allow(clippy::disallowed_methods, reason = "tests may use threads")]
    let writing = std::thread::spawn(move || stdin.write_all(&bytes));
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap().unwrap();
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_key_frame_is_an_entry_with_or_without_the_containers_word() {
    let Some(mut bytes) =
        ffmpeg_ts("every_key_frame_is_an_entry_with_or_without_the_containers_word", &VIDEO_AND_AAC)
    else {
        return;
    };
    let (scanner, announced) = entries(&bytes);
    let program = scanner.program().unwrap();
    assert_eq!(program.video().unwrap().codec, Some(Codec::H264));
    assert_eq!(program.audio().unwrap().codec, Some(Codec::Aac));
    assert_eq!(scanner.continuity_errors(), 0);
    assert_eq!(announced.len(), 4, "a key frame each 25 pictures of 100");
    for packet in bytes.as_chunks_mut::<PACKET_BYTES>().0 {
        if packet[3] & 0x20 != 0 && packet[4] > 0 {
            packet[5] &= !0x40;
        }
    }
    let (_, searched) = entries(&bytes);
    let places = |found: &[Found]| found.iter().map(|entry| entry.at).collect::<Vec<_>>();
    assert_eq!(places(&announced), places(&searched));
}

#[test]
fn a_new_viewer_gets_a_stream_without_gaps() {
    let Some(bytes) = ffmpeg_ts("a_new_viewer_gets_a_stream_without_gaps", &VIDEO_AND_AAC) else { return };
    let (_, found) = entries(&bytes);
    for entry in &found {
        let joined = [&entry.point.prelude(false)[..], &bytes[entry.at * PACKET_BYTES..]].concat();
        assert_eq!(continuity_errors(&joined), 0);
        let (scanner, again) = entries(&joined);
        assert!(scanner.program().is_some());
        assert_eq!(again[0].at, entry.point.prelude(false).len() / PACKET_BYTES);
    }
    let joined = [&found[2].point.prelude(false)[..], &bytes[found[2].at * PACKET_BYTES..]].concat();
    let log = ffmpeg_log(&joined);
    assert!(!log.contains("Continuity check failed") && !log.contains("non-existing PPS"), "{log}");
    assert!(log.contains("Video: h264"), "{log}");
}

#[test]
fn a_viewer_who_is_moved_forward_sees_announced_jumps_only() {
    let Some(bytes) = ffmpeg_ts("a_viewer_who_is_moved_forward_sees_announced_jumps_only", &VIDEO_AND_AAC)
    else {
        return;
    };
    let (_, found) = entries(&bytes);
    for left in [20, 57, 111, 140] {
        let seen = &bytes[..left * PACKET_BYTES];
        for entry in found.iter().skip(1) {
            let moved = [seen, &entry.point.prelude(true)[..], &bytes[entry.at * PACKET_BYTES..]].concat();
            assert_eq!(continuity_errors(&moved), 0, "left at {left}, joined at {}", entry.at);
        }
    }
    let seen = &bytes[..57 * PACKET_BYTES];
    let join = |prelude: &[u8]| [seen, prelude, &bytes[found[2].at * PACKET_BYTES..]].concat();
    assert!(!ffmpeg_log(&join(&found[2].point.prelude(true))).contains("Continuity check failed"));
    assert!(ffmpeg_log(&join(&[])).contains("Continuity check failed"), "the check itself works");
}

#[test]
fn any_place_can_be_joined_on_demand() {
    let Some(bytes) = ffmpeg_ts("any_place_can_be_joined_on_demand", &VIDEO_AND_AAC) else { return };
    let mut scanner = Scanner::new();
    assert!(scanner.entry_here().is_none());
    for (number, packet) in packets(&bytes).enumerate() {
        scanner.scan(packet);
        if number % 37 == 36 {
            let point = scanner.entry_here().unwrap();
            let rest = &bytes[(number + 1) * PACKET_BYTES..];
            assert_eq!(continuity_errors(&[&point.prelude(false)[..], rest].concat()), 0);
            let seen = &bytes[..number / 2 * PACKET_BYTES];
            assert_eq!(continuity_errors(&[seen, &point.prelude(true)[..], rest].concat()), 0);
        }
    }
}

#[test]
fn sound_alone_can_be_joined_at_each_unit() {
    let arguments = ["-map", "1:a", "-c:a", "libopus"];
    let Some(bytes) = ffmpeg_ts("sound_alone_can_be_joined_at_each_unit", &arguments) else { return };
    let (scanner, found) = entries(&bytes);
    assert_eq!(scanner.program().unwrap().audio().unwrap().codec, Some(Codec::Opus));
    assert!(found.len() > 20, "{}", found.len());
    for entry in &found {
        let packet = packets(&bytes).nth(entry.at).unwrap();
        assert!(Packet::parse(packet).unwrap().unit_start);
    }
}

#[test]
fn damage_is_counted_and_nothing_breaks() {
    let Some(mut bytes) = ffmpeg_ts("damage_is_counted_and_nothing_breaks", &VIDEO_AND_AAC) else { return };
    let mut state = 0x1234_5678_9abc_def0_u64;
    for _ in 0..2000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = (state >> 24) as usize % bytes.len();
        bytes[at] ^= 1 << (state >> 61);
    }
    let mut aligner = Aligner::new();
    let mut scanner = Scanner::new();
    for part in bytes.chunks(1316) {
        aligner.push(part, &mut |run| {
            for packet in packets(run) {
                if let Some(entry) = scanner.scan(packet).entry {
                    assert_eq!(entry.point.prelude(true).len() % PACKET_BYTES, 0);
                }
            }
        });
    }
    assert!(scanner.continuity_errors() > 0);
    assert!(aligner.resyncs() > 0);
}

#[test]
fn a_table_of_several_packets_is_sent_whole() {
    let streams: Vec<_> = (0..120).map(|k| psi::ElementaryStream::new(0x100 + k, 0x1b, Vec::new())).collect();
    let (mut pat, mut pmt, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    let programs = vec![(0, 0x10), (7, 0x1000)];
    psi::Pat { transport_stream_id: 1, version: 0, current: true, programs }.write(&mut pat);
    psi::Pmt { program_number: 7, version: 0, current: true, pcr_pid: 0x100, streams }.write(&mut pmt);
    let (mut pat_continuity, mut pmt_continuity) = (0, 0);
    for frame in 0..12u8 {
        if frame % 3 == 0 {
            psi::write_packets(0, &pat, &mut pat_continuity, &mut bytes);
            psi::write_packets(0x1000, &pmt, &mut pmt_continuity, &mut bytes);
        }
        let start = bytes.len();
        let header = [0x47, 0x41, 0, 0x10 | frame, 0, 0, 1, 0xe0, 0, 0, 0x80, 0, 0];
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(&[0, 0, 1, 0x67, 1, 0, 0, 1, 0x68, 1, 0, 0, 1, 0x65, 0x80 | frame]);
        bytes.resize(start + PACKET_BYTES, 0x33);
    }
    let (scanner, found) = entries(&bytes);
    assert_eq!(scanner.program().unwrap().streams.len(), 120);
    assert_eq!(found.len(), 12);
    for (frame, entry) in found.iter().enumerate() {
        let prelude = entry.point.prelude(false);
        assert_eq!(prelude.len(), (1 + 4) * PACKET_BYTES);
        let joined = [&prelude[..], &bytes[entry.at * PACKET_BYTES..]].concat();
        assert_eq!(continuity_errors(&joined), 0);
        // A viewer who has seen three frames is moved forward, never back.
        let seen = &bytes[..8 * PACKET_BYTES];
        let moved = [seen, &entry.point.prelude(true)[..], &bytes[entry.at * PACKET_BYTES..]].concat();
        assert!(frame < 3 || continuity_errors(&moved) == 0, "frame {frame}");
        assert_eq!(entries(&joined).0.program(), scanner.program());
    }
}
