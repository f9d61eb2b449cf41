//! What FFmpeg writes as fragmented MP4 is read as FFmpeg itself reads it, and what we write of that, FFmpeg reads too.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests run FFmpeg"
)]

use glassline_media::container::cmaf::{
    Brand, Event, LiveTimeline, ReadSample, ReadTrack, Reader, Run, SegmentKind, Track, write_chunk,
    write_init, write_segment_type,
};
use glassline_media::{AccessUnit, Codec, Ticks};
use glassline_test_support::{has_program, skip};
use std::io::Write;
use std::process::{Command, Stdio};

/// Four seconds of a test picture with a key frame each second, and a tone, as a fragmented file.
fn ffmpeg(test: &str, arguments: &str) -> Option<Vec<u8>> {
    if !(has_program("ffmpeg") && has_program("ffprobe")) {
        skip(test, "ffmpeg and ffprobe are not installed");
        return None;
    }
    let output = Command::new("ffmpeg")
        .args(["-v", "error", "-f", "lavfi", "-i", "testsrc=size=160x90:rate=25"])
        .args(["-f", "lavfi", "-i", "sine=sample_rate=48000", "-t", "4", "-g", "25", "-pix_fmt", "yuv420p"])
        .args(arguments.split_whitespace())
        .args(["-f", "mp4", "-"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("Unknown encoder") {
        skip(test, &said);
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(output.stdout)
}

/// PTS, DTS (microseconds), bytes and whether it is a key frame, of each packet of a stream.
type Packets = Vec<(i64, i64, usize, bool)>;

/// What FFmpeg finds in a file.
fn probe(bytes: &[u8], stream: &str) -> Packets {
    let mut child = Command::new("ffprobe")
        .args([
            "-v",
            "error",
            "-select_streams",
            stream,
            "-show_entries",
            "packet=pts_time,dts_time,size,flags",
        ])
        .args(["-of", "csv=p=0", "-f", "mp4", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, sent) = (child.stdin.take().unwrap(), bytes.to_vec());
    let writer = std::thread::spawn(move || input.write_all(&sent));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let packet = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let micros = |field: &str| (field.parse::<f64>().unwrap() * 1e6).round() as i64;
        (micros(fields[0]), micros(fields[1]), fields[2].parse().unwrap(), fields[3].starts_with('K'))
    };
    text.lines().filter(|line| !line.is_empty()).map(packet).collect()
}

/// The tracks, and all samples with their track's number.
fn read(bytes: &[u8]) -> (Vec<ReadTrack>, Vec<(u32, ReadSample)>) {
    let (mut reader, mut tracks, mut samples) = (Reader::new(), Vec::new(), Vec::new());
    for chop in bytes.chunks(1447) {
        reader.push(chop).unwrap();
        while let Some(event) = reader.poll() {
            match event {
                Event::Init(found) => tracks = found,
                Event::Chunk(chunk) => samples.extend(
                    chunk
                        .runs
                        .into_iter()
                        .flat_map(|run| run.samples.into_iter().map(move |sample| (run.track_id, sample))),
                ),
                _ => {}
            }
        }
    }
    assert!(reader.is_between_boxes());
    (tracks, samples)
}

/// As FFmpeg would say it.
fn micros(ticks: i64, timescale: u32) -> i64 {
    (ticks as f64 * 1e6 / f64::from(timescale)).round() as i64
}

fn packets(track: &ReadTrack, samples: &[(u32, ReadSample)]) -> Packets {
    let of_track = samples.iter().filter(|(id, _)| *id == track.id);
    let packets = of_track.map(|(_, sample)| {
        let dts = sample.decode_time as i64 - track.presentation_start;
        let pts = dts + sample.composition_offset;
        (micros(pts, track.timescale), micros(dts, track.timescale), sample.data.len(), sample.is_sync())
    });
    packets.collect()
}

/// Times of the same, but for rounding.
fn assert_same(ours: &Packets, theirs: &Packets, what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert!(
            ours.0.abs_diff(theirs.0) <= 1 && ours.1.abs_diff(theirs.1) <= 1,
            "{what}: {ours:?} {theirs:?}"
        );
        assert_eq!((ours.2, ours.3), (theirs.2, theirs.3), "{what}");
    }
}

#[test]
fn what_ffmpeg_writes_is_read_as_ffmpeg_reads_it() {
    let video = "-c:v libx264 -preset veryfast -bf 2";
    for (coding, flags, codec) in [
        ("-c:a aac", "frag_keyframe+empty_moov+default_base_moof", Codec::Aac),
        ("-c:a aac", "frag_keyframe+delay_moov+default_base_moof", Codec::Aac),
        ("-c:a aac", "frag_keyframe+empty_moov", Codec::Aac),
        ("-c:a aac", "frag_keyframe+empty_moov+omit_tfhd_offset", Codec::Aac),
        ("-c:a libopus", "cmaf+frag_every_frame", Codec::Opus),
    ] {
        let arguments = format!("{video} {coding} -movflags {flags}");
        let Some(bytes) = ffmpeg("what_ffmpeg_writes_is_read_as_ffmpeg_reads_it", &arguments) else { return };
        let (tracks, samples) = read(&bytes);
        assert_eq!(tracks.iter().map(ReadTrack::codec).collect::<Vec<_>>(), [Some(Codec::H264), Some(codec)]);
        assert!(tracks.iter().all(|track| track.media.is_some()));
        for (track, stream) in tracks.iter().zip(["v", "a"]) {
            let (ours, mut theirs) = (packets(track, &samples), probe(&bytes, stream));
            if stream == "v" {
                // Whatever the order of decoding, a picture each 40 ms.
                let mut pts: Vec<i64> = ours.iter().map(|packet| packet.0).collect();
                pts.sort_unstable();
                let odd = pts.windows(2).filter(|pair| pair[1] - pair[0] != 40_000).count();
                // FFmpeg 7 writes some composition offsets of a fragment a frame wrongly, and reads them so, too.
                let most = if flags.starts_with("cmaf") { pts.len() / 5 } else { 0 };
                assert!(odd <= most, "{arguments}: {pts:?}");
            }
            if flags.starts_with("cmaf") {
                // From the first negative composition offset on, FFmpeg presents all pictures later than they say, two at
                // the same time there.
                theirs.iter_mut().zip(&ours).for_each(|(theirs, ours)| theirs.0 = ours.0);
            }
            assert_same(&ours, &theirs, &arguments);
        }
    }
}

/// The units of a track, as a packager would get them.
fn units(track: &ReadTrack, samples: &[(u32, ReadSample)]) -> Vec<AccessUnit> {
    samples
        .iter()
        .filter(|(id, _)| *id == track.id)
        .map(|(_, sample)| track.to_unit(sample).unwrap())
        .collect()
}

#[test]
fn what_is_packaged_live_is_read_by_ffmpeg() {
    let arguments = "-c:v libx264 -preset veryfast -bf 2 -c:a aac -movflags frag_keyframe+empty_moov";
    let Some(bytes) = ffmpeg("what_is_packaged_live_is_read_by_ffmpeg", arguments) else { return };
    let (tracks, samples) = read(&bytes);
    for (read_track, stream) in tracks.iter().zip(["v", "a"]) {
        let units = units(read_track, &samples);
        let keys = units.iter().filter(|unit| unit.random_access).count();
        assert_eq!(keys, if stream == "v" { 4 } else { units.len() });
        let track = Track { id: 1, media: read_track.media.clone().unwrap() };
        let mut file = Vec::new();
        write_init(Brand::Cmaf, std::slice::from_ref(&track), &mut file);
        let mut timeline = LiveTimeline::new(track, units[0].dts);
        for (unit, sequence) in units.iter().zip(1..) {
            let timed = timeline.push(unit).unwrap();
            let (samples, decode_time) = (&[timed.sample], timed.decode_time);
            write_segment_type(SegmentKind::Chunk, &mut file);
            write_chunk(
                sequence,
                None,
                &[Run { track_id: 1, decode_time, samples, data: &timed.data }],
                &mut file,
            );
        }
        let found = probe(&file, stream);
        assert_eq!(found.len(), units.len());
        for (unit, found) in units.iter().zip(found) {
            let since = |ticks: Ticks| micros((ticks - units[0].dts).0, Ticks::RATE);
            // Half a tick of 90 kHz, of sound up to one of its own.
            assert!(since(unit.dts).abs_diff(found.1) <= 30, "{stream}: {} {}", since(unit.dts), found.1);
            assert!(since(unit.pts).abs_diff(found.0) <= 30, "{stream}: {} {}", since(unit.pts), found.0);
        }
    }
}
