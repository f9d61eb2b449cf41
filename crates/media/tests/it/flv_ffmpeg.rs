//! What FFmpeg writes as FLV is taken apart so that FFmpeg decodes the same pictures and sound, at the same times.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests run FFmpeg"
)]

use glassline_media::Codec;
use glassline_media::container::flv::demux::{AUDIO_TRACK, Counters, Demuxer, Event, VIDEO_TRACK};
use glassline_test_support::{has_program, skip};
use std::io::Write;
use std::process::{Command, Stdio};

fn ffmpeg(arguments: &[&str], input: Vec<u8>) -> String {
    String::from_utf8_lossy(&ffmpeg_bytes(arguments, input)).into_owned()
}

fn ffmpeg_bytes(arguments: &[&str], input: Vec<u8>) -> Vec<u8> {
    let mut child = Command::new("ffmpeg")
        .args(["-v", "error"])
        .args(arguments)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{arguments:?}: {said}");
    output.stdout
}

/// The checksums of decoded frames, without their times.
fn checksums(frames: &str) -> Vec<String> {
    let frames = frames.lines().filter(|line| !line.starts_with('#'));
    frames.filter_map(|line| line.split(',').next_back().map(|sum| sum.trim().to_owned())).collect()
}

/// Decoding and presentation times of the packets, in milliseconds.
fn times(packets: &str) -> Vec<(i64, i64)> {
    let packets = packets.lines().filter(|line| !line.starts_with('#'));
    let field = |fields: &[&str], index: usize| fields[index].trim().parse::<i64>().unwrap();
    packets
        .map(|line| line.split(',').collect::<Vec<_>>())
        .map(|fields| (field(&fields, 1), field(&fields, 2)))
        .collect()
}

#[test]
fn pictures_and_sound_of_ffmpeg_come_out_whole() {
    let test = "pictures_and_sound_of_ffmpeg_come_out_whole";
    if !has_program("ffmpeg") {
        return skip(test, "ffmpeg is not installed");
    }
    for (encoding, audio_codec, audio_format) in [
        ("-c:v libx264 -preset veryfast -bf 3 -c:a aac", Codec::Aac, "aac"),
        ("-c:v libx264 -preset veryfast -bf 0 -c:a aac -ac 1 -ar 44100", Codec::Aac, "aac"),
        ("-c:v libx264 -preset veryfast -bf 3 -c:a libmp3lame -ar 44100", Codec::MpegAudio, "mp3"),
    ] {
        let source = "-f lavfi -i testsrc=size=160x90:rate=30 -f lavfi -i sine=sample_rate=48000 -t 4 -g 30";
        let made: Vec<&str> = source.split(' ').chain(encoding.split(' ')).chain(["-f", "flv"]).collect();
        let flv = ffmpeg_bytes(&made, Vec::new());
        let (mut demuxer, mut units) = (Demuxer::new(), Vec::new());
        for chop in flv.chunks(1447) {
            demuxer.push(chop).unwrap();
            units.extend(std::iter::from_fn(|| demuxer.poll()));
        }
        demuxer.finish();
        let Counters { damaged_tags, unconfigured, left_out, .. } = demuxer.counters();
        assert_eq!((damaged_tags, unconfigured, left_out), (0, 0, 0), "{encoding}");
        assert!(matches!(&units[0], Event::Tracks(tracks) if tracks.len() == 2));
        for (wanted, map, format, codec) in
            [(VIDEO_TRACK, "0:v", "h264", Codec::H264), (AUDIO_TRACK, "0:a", audio_format, audio_codec)]
        {
            let (mut bytes, mut own_times) = (Vec::new(), Vec::new());
            for event in &units {
                let Event::AccessUnit { track, unit, .. } = event else { continue };
                if *track == wanted {
                    assert_eq!(unit.codec, codec);
                    bytes.extend_from_slice(&unit.data);
                    own_times.push((unit.dts.0 / 90, unit.pts.0 / 90));
                }
            }
            let packets = ffmpeg(
                &[
                    "-copyts",
                    "-f",
                    "flv",
                    "-i",
                    "-",
                    "-map",
                    map,
                    "-c",
                    "copy",
                    "-copyts",
                    "-f",
                    "framecrc",
                    "-enc_time_base",
                    "1:1000",
                ],
                flv.clone(),
            );
            assert_eq!(own_times, times(&packets), "{encoding}, {map}");
            let expected =
                ffmpeg(&["-f", "flv", "-i", "-", "-map", map, "-vsync", "0", "-f", "framecrc"], flv.clone());
            let found = ffmpeg(&["-f", format, "-i", "-", "-vsync", "0", "-f", "framecrc"], bytes);
            let (expected, found) = (checksums(&expected), checksums(&found));
            if wanted == VIDEO_TRACK {
                assert_eq!((found.len(), &found), (120, &expected), "{encoding}");
            } else {
                // Of sound FFmpeg leaves out what its own encoder put in front, where the container says how much that is.
                assert!(
                    found.ends_with(&expected[1..]) && found.len().abs_diff(expected.len()) <= 2,
                    "{encoding}"
                );
            }
        }
    }
}
