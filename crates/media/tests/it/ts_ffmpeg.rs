//! FFmpeg reads what we mux, and we read what FFmpeg muxes: the same units at the same times.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests run FFmpeg"
)]

use bytes::Bytes;
use glassline_media::bitstream::h264;
use glassline_media::container::ts::{AudioFormat, Demuxer, Event, MuxSettings, Muxer};
use glassline_media::{AccessUnit, Codec, FrameRate, Stamps, Ticks};
use glassline_test_support::{has_program, shared, skip};
use std::path::PathBuf;
use std::process::Command;

/// Runs FFmpeg on the clip and a tone; gives what it writes.
fn ffmpeg(test: &str, arguments: &str) -> Option<Vec<u8>> {
    let Some(clip) =
        shared("media/bbb_720p25.mp4").filter(|_| has_program("ffmpeg") && has_program("ffprobe"))
    else {
        skip(test, "FFmpeg or media/bbb_720p25.mp4 is missing");
        return None;
    };
    let output = Command::new("ffmpeg")
        .args(["-v", "error", "-i"])
        .arg(clip)
        .args(["-f", "lavfi", "-i", "sine=sample_rate=48000", "-t", "3", "-s", "320x180"])
        .args(["-c:v", "libx264", "-preset", "veryfast", "-g", "25"])
        .args(arguments.split_whitespace())
        .arg("-")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}

fn file(test: &str, bytes: &[u8]) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.ts"));
    std::fs::write(&path, bytes).unwrap();
    path
}

/// A packet as FFmpeg sees it.
#[derive(Debug, PartialEq, Eq)]
struct Probed {
    video: bool,
    pts: i64,
    dts: i64,
    key: bool,
}

/// What ffprobe finds in a stream; it must not warn.
fn probe(path: &PathBuf) -> Vec<Probed> {
    let output = Command::new("ffprobe")
        .args(["-v", "warning", "-show_entries", "packet=codec_type,pts,dts,flags", "-of", "csv=p=0"])
        .arg(path)
        .output()
        .unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    // A line with side data is followed by an empty one.
    let lines = text.lines().filter(|line| !line.trim_matches(',').is_empty());
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let (pts, dts) = (fields[1].parse().unwrap(), fields[2].parse().unwrap());
            Probed { video: fields[0] == "video", pts, dts, key: fields[3].starts_with('K') }
        })
        .collect()
}

fn assert_decodes_in_silence(path: &PathBuf) {
    let run =
        Command::new("ffmpeg").args(["-v", "warning", "-i"]).arg(path).args(["-f", "null", "-"]).output();
    let output = run.unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn demux(bytes: &[u8], chop: usize) -> Vec<AccessUnit> {
    let mut demuxer = Demuxer::new();
    let mut units = Vec::new();
    let mut take = |demuxer: &mut Demuxer| {
        while let Some(event) = demuxer.poll() {
            if let Event::AccessUnit { unit, .. } = event {
                units.push(unit);
            }
        }
    };
    for part in bytes.chunks(chop) {
        demuxer.push(part);
        take(&mut demuxer);
    }
    demuxer.finish();
    take(&mut demuxer);
    let counters = demuxer.counters();
    assert_eq!((counters.continuity_errors, counters.skipped_bytes, counters.damaged_units), (0, 0, 0));
    units
}

fn probed(unit: &AccessUnit, delay: i64) -> Probed {
    let (pts, dts) = (unit.pts.0 + delay, unit.dts.0 + delay);
    Probed { video: unit.codec.is_video(), pts, dts, key: unit.random_access }
}

/// Both sides, each stream in its own order.
fn assert_same(ours: Vec<Probed>, theirs: Vec<Probed>) {
    for video in [true, false] {
        let of = |all: &[Probed]| {
            all.iter()
                .filter(|packet| packet.video == video)
                .map(|p| (p.pts, p.dts, p.key))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&ours), of(&theirs), "video: {video}");
    }
}

#[test]
fn ffmpeg_reads_a_muxed_bitstream() {
    let test = "ffmpeg_reads_a_muxed_bitstream";
    let Some(stream) = ffmpeg(test, "-an -bf 0 -x264-params aud=1 -f h264") else { return };
    let units: Vec<AccessUnit> = h264::split_at_delimiters(&stream)
        .enumerate()
        .map(|(number, data)| {
            let time = Ticks(90_000 + number as i64 * 3600);
            let random_access = h264::is_key(data);
            // Without its delimiter: the muxer has to put it in.
            let data = Bytes::copy_from_slice(&data[h264::ACCESS_UNIT_DELIMITER.len()..]);
            AccessUnit {
                codec: Codec::H264,
                data,
                pts: time,
                dts: time,
                random_access,
                stamps: Stamps::default(),
            }
        })
        .collect();
    assert_eq!(units.len(), 75);
    let set = h264::nals(&units[0].data).find(|nal| nal.kind() == h264::NalType::Sps).unwrap();
    let set = h264::Sps::parse(set.payload()).unwrap();
    assert_eq!((set.width_px, set.height_px, set.frame_rate), (320, 180, FrameRate::new(25, 1)));
    assert_eq!(set.reorder_depth(), 0);
    let mut muxer = Muxer::new(MuxSettings { video: Some(Codec::H264), ..MuxSettings::default() }).unwrap();
    let mut out = Vec::new();
    units.iter().for_each(|unit| muxer.write(unit, &mut out).unwrap());
    let path = file(test, &out);
    assert_same(units.iter().map(|unit| probed(unit, 4500)).collect(), probe(&path));
    assert_decodes_in_silence(&path);
}

/// Reads FFmpeg's stream, compares with ffprobe, muxes again, compares again.
fn there_and_back(test: &str, arguments: &str, audio: Codec) {
    let Some(stream) = ffmpeg(test, arguments) else { return };
    let units = demux(&stream, 1316);
    assert_eq!(units, demux(&stream, 777));
    assert_eq!(units.iter().filter(|unit| unit.codec == Codec::H264).count(), 75);
    assert!(units.iter().filter(|unit| unit.codec == audio).count() > 100);
    assert_same(units.iter().map(|unit| probed(unit, 0)).collect(), probe(&file(test, &stream)));
    let format = AudioFormat { codec: audio, channels: 1, language: Some(*b"eng"), he_aac: None };
    let settings = MuxSettings { video: Some(Codec::H264), audio: Some(format), ..MuxSettings::default() };
    let mut muxer = Muxer::new(settings).unwrap();
    let mut out = Vec::new();
    units.iter().for_each(|unit| muxer.write(unit, &mut out).unwrap());
    let path = file(&format!("{test}_again"), &out);
    assert_same(units.iter().map(|unit| probed(unit, 4500)).collect(), probe(&path));
    assert_decodes_in_silence(&path);
}

#[test]
fn video_with_reordering_and_aac() {
    there_and_back("video_with_reordering_and_aac", "-bf 2 -c:a aac -f mpegts", Codec::Aac);
}

#[test]
fn video_and_opus() {
    there_and_back("video_and_opus", "-bf 0 -c:a libopus -f mpegts", Codec::Opus);
}

#[test]
fn aac_whose_frames_lie_across_pes_packets() {
    let test = "aac_whose_frames_lie_across_pes_packets";
    let Some(stream) = ffmpeg(test, "-vn -c:a aac -f adts") else { return };
    let frames: Vec<&[u8]> =
        glassline_media::bitstream::adts::frames(&stream).map(|(_, frame)| frame).collect();
    // PES packets of 700 bytes: each stamp belongs to the first frame that begins inside.
    let mut begins = Vec::new();
    frames.iter().fold(0, |at, frame| {
        begins.push(at);
        at + frame.len()
    });
    let format = AudioFormat { codec: Codec::Aac, channels: 1, language: None, he_aac: None };
    let mut muxer = Muxer::new(MuxSettings { audio: Some(format), ..MuxSettings::default() }).unwrap();
    let mut out = Vec::new();
    for (index, piece) in stream.chunks(700).enumerate() {
        let first = begins.iter().position(|&begin| begin >= index * 700).unwrap_or(begins.len());
        let time = Ticks(first as i64 * 1920);
        let data = Bytes::copy_from_slice(piece);
        let unit = AccessUnit {
            codec: Codec::Aac,
            data,
            pts: time,
            dts: time,
            random_access: true,
            stamps: Stamps::default(),
        };
        muxer.write(&unit, &mut out).unwrap();
    }
    let found = demux(&out, 1000);
    assert_eq!(found.len(), frames.len());
    for (index, (unit, frame)) in found.iter().zip(&frames).enumerate() {
        assert_eq!(unit.data, *frame);
        assert_eq!(unit.pts, Ticks(4500 + index as i64 * 1920));
    }
}
