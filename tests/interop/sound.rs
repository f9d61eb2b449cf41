//! Sound in our streams, as FFmpeg decodes it: every bit of LPCM, and lip sync of each codec.

use crate::{GLASSLINE, have};
use glassline_measure::barcode;
use glassline_measure::pattern::Pattern;
use glassline_measure::tone::{self, Tone};
use glassline_media::container::y4m::{self, Reader};
use glassline_media::{FrameRate, Picture, Size, Time, Utc};
use glassline_test_support::program::{Outcome, Scratch, run};
use glassline_test_support::{has_library, skip};
use serde_json::Value;

const RATE: f64 = 48_000.0;
/// What lip sync may be off by, in seconds.
const LIP_SYNC: f64 = 0.001;

fn succeeds(program: &str, arguments: &[&str]) -> Outcome {
    let outcome = run(program, arguments, 120);
    assert_eq!(outcome.status, Some(0), "{program} {arguments:?}: {}", outcome.stderr);
    outcome
}

/// A sample as loud as a beep's, and louder than what is between the beeps.
const LOUD: f32 = 0.06;

/// When each decoded frame of a stream is presented, in seconds, as FFprobe tells it, and its samples.
fn frames(file: &str, stream: &str) -> Vec<(f64, usize)> {
    let entries = ["-show_entries", "frame=pts,nb_samples", "-of", "json", file];
    let outcome = succeeds("ffprobe", &[&["-v", "error", "-select_streams", stream], &entries[..]].concat());
    let report: Value = serde_json::from_str(&outcome.text()).unwrap();
    let frames = report["frames"].as_array().unwrap().iter();
    frames
        .map(|frame| {
            let pts = frame["pts"].as_f64().unwrap() / 90_000.0;
            (pts, frame["nb_samples"].as_u64().unwrap_or(0) as usize)
        })
        .collect()
}

/// Decodes the sound to its first channel.
fn samples(file: &str, folder: &Scratch) -> Vec<f32> {
    let raw = folder.file("sound.raw");
    succeeds(
        "ffmpeg",
        &["-v", "warning", "-y", "-i", file, "-map", "0:a", "-af", "pan=mono|c0=c0", "-f", "f32le", &raw],
    );
    let bytes = std::fs::read(&raw).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|sample| f32::from_le_bytes(*sample)).collect()
}

fn pictures(file: &str, folder: &Scratch) -> Vec<Picture> {
    let raw = folder.file("pictures.y4m");
    let coding = ["-fps_mode", "passthrough", "-pix_fmt", "yuv420p", "-f", "yuv4mpegpipe", &raw];
    succeeds("ffmpeg", &[&["-v", "warning", "-y", "-i", file, "-map", "0:v"], &coding[..]].concat());
    let bytes = std::fs::read(&raw).unwrap();
    let (mut reader, mut input, mut pictures) = (Reader::new(), bytes.as_slice(), Vec::new());
    while let Some(picture) = reader.parse(&mut input).unwrap() {
        pictures.push(picture);
    }
    pictures
}

/// The times at which a beep begins: where the sound is most like one.
fn beeps(sound: &[f32], times: &[(f64, usize)]) -> Vec<f64> {
    // One second of tone from just before a full second on; the beep alone is what is looked for.
    let second = Utc::from_nanos(1_700_000_000_000_000_000);
    let beep: Vec<f64> = {
        let with = Tone::new(48_000, 1).next(2_880, Time::ZERO, second);
        let quiet =
            Tone::new(48_000, 1).next(2_880, Time::ZERO, Utc::from_nanos(second.as_nanos() + 500_000_000));
        with.samples.iter().zip(&quiet.samples).map(|(a, b)| f64::from(a - b)).collect()
    };
    let energy: f64 = beep.iter().map(|sample| sample * sample).sum();
    // What differs counts, three periods before and behind it too: a beep that is moved by one is nearly as like.
    let padded = [vec![0.0; 144], beep.clone(), vec![0.0; 144]].concat();
    let likeness = |at: usize| -> f64 {
        let Some(window) = at.checked_sub(144).and_then(|from| sound.get(from..from + padded.len())) else {
            return 0.0;
        };
        1.0 - window.iter().zip(&padded).map(|(a, b)| (f64::from(*a) - b).powi(2)).sum::<f64>() / energy
    };
    let mut found = Vec::new();
    // A beep that the sound begins within has no beginning to be found.
    let is_quiet = |window: &[f32]| window.iter().all(|sample| sample.abs() < LOUD);
    let mut at = sound.windows(480).position(is_quiet).unwrap_or(sound.len());
    let (mut frame_start, mut frame) = (0, 0);
    while at + 2 * beep.len() < sound.len() {
        if sound[at].abs() < LOUD {
            at += 1;
            continue;
        }
        // It fades in over a millisecond: the beginning lies just before what is loud.
        let around = at.saturating_sub(480)..at + 480;
        let start = around.max_by(|a, b| likeness(*a).total_cmp(&likeness(*b))).unwrap();
        if likeness(start) > 0.7 {
            while start >= frame_start + times[frame].1 {
                frame_start += times[frame].1;
                frame += 1;
            }
            found.push(times[frame].0 + (start - frame_start) as f64 / RATE);
        }
        at += 24_000;
    }
    found
}

/// Full seconds of UTC on the stream's time, read from the pictures' barcodes; checks that those pictures flash that
/// should, and no other.
fn flashes(pictures: &[Picture], times: &[(f64, usize)]) -> Vec<f64> {
    assert_eq!(pictures.len(), times.len(), "a time for each picture");
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_micros() as u64;
    let modulus = 1u64 << 40;
    let mut seconds: Vec<f64> = Vec::new();
    let (mut bright, mut dark) = (Vec::new(), Vec::new());
    for (picture, (pts, _)) in pictures.iter().zip(times) {
        let seen = barcode::read(picture);
        let Some(code) = seen.top_left.or(seen.bottom_right) else { continue };
        // The code counts modulo 2⁴⁰ µs, twelve days.
        let micros = now - (now - code.captured_utc_micros) % modulus;
        let utc = Utc::from_micros(micros);
        if tone::flashes(utc) { &mut bright } else { &mut dark }.push(lamp(picture));
        let second = pts - (micros % 1_000_000) as f64 / 1e6;
        // A film that begins again has its seconds elsewhere.
        if seconds.iter().all(|known| (second - known).abs() > 0.005) {
            seconds.push(second);
        }
    }
    let brightest = dark.iter().copied().fold(0.0, f64::max);
    assert!(
        !bright.is_empty() && bright.iter().all(|lamp| *lamp > brightest + 50.0),
        "{bright:?} against {brightest}"
    );
    seconds
}

/// How bright the middle of the lamp is.
fn lamp(picture: &Picture) -> f64 {
    let area = Pattern::new(picture.size(), FrameRate::new(50, 1).unwrap()).flash_area().unwrap();
    let (from, side) = (area.side as usize / 4, area.side as usize / 2);
    let (x, y) = (area.x as usize + from, area.y as usize + from);
    let lines = picture.planes()[0].lines().skip(y).take(side);
    let sum: u64 = lines.flat_map(|line| &line[x..x + side]).map(|byte| u64::from(*byte)).sum();
    sum as f64 / (side * side) as f64
}

/// From beep to beep, seconds.
const BEEP_INTERVAL: f64 = 1.0;

/// Encodes the test source for five seconds and compares beeps with flashes, by the container's stamps as they are.
fn lip_sync(test: &str, audio: &[&str]) {
    if !have(test, &["ffmpeg", "ffprobe"]) {
        return;
    }
    if audio.iter().any(|word| word.contains("aac")) && !has_library("libavcodec.so.") {
        return skip(test, "libavcodec is not installed");
    }
    let folder = Scratch::new(test);
    let stream = folder.file("out.ts");
    let common = ["encode", "test:640x360@50", &stream, "--preset", "ultrafast", "--duration", "5s"];
    let outcome = run(GLASSLINE, &[&common, audio].concat(), 120);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    // Only where the machine had no time for the source, which then leaves pictures out too, may sound be missing.
    let starved = !outcome.stderr.contains(" 0 dropped");
    let (worst, beeps) = compare(&stream, &folder, starved);
    assert!(beeps >= 3, "{beeps} beeps");
    eprintln!("{audio:?}: sound is at most {:.3} ms after the picture, in {beeps} beeps", worst * 1000.0);
}

/// How far sound is after the picture, at worst, and in how many beeps that was seen. Stamps go on by what the frames hold,
/// but where sound may be `missing`.
fn compare(stream: &str, folder: &Scratch, missing: bool) -> (f64, usize) {
    let times = frames(stream, "a");
    let sound = samples(stream, folder);
    assert_eq!(
        times.iter().map(|(_, samples)| samples).sum::<usize>(),
        sound.len(),
        "a time for each sample"
    );
    for pair in times.windows(2) {
        let step = pair[1].0 - pair[0].0 - pair[0].1 as f64 / RATE;
        assert!(step.abs() < 0.000_05 || missing && step > 0.01, "{step} s between frames at {}", pair[0].0);
    }
    let beeps = beeps(&sound, &times);
    let flashes = flashes(&pictures(stream, folder), &frames(stream, "v"));
    let (mut worst, mut seen) = (0f64, 0);
    for beep in &beeps {
        let nearest =
            flashes.iter().map(|flash| beep - flash).min_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap();
        if missing && nearest.abs() > BEEP_INTERVAL / 2.0 {
            // Its flash was in a picture that was left out.
            continue;
        }
        seen += 1;
        worst = if nearest.abs() > worst.abs() { nearest } else { worst };
    }
    assert!(worst.abs() <= LIP_SYNC, "{worst} s: beeps {beeps:?}, flashes {flashes:?}");
    (worst, seen)
}

#[test]
fn opus_keeps_lip_sync() {
    lip_sync("opus_keeps_lip_sync", &["--audio", "opus"]);
    lip_sync("opus_keeps_lip_sync", &["--audio", "opus", "--audio-frame", "2.5ms"]);
}

#[test]
fn aac_keeps_lip_sync() {
    lip_sync("aac_keeps_lip_sync", &["--audio", "aac"]);
}

#[test]
fn s302m_keeps_lip_sync() {
    lip_sync("s302m_keeps_lip_sync", &["--audio", "s302m"]);
}

/// The test picture, 2.4 s of it at 25 a second from half a second on, and the tone from so much earlier or later than it
/// begins on, 2.45 s long.
fn film(pictures: &str, sound: &str, sound_begins_ms: i64) {
    let rate = FrameRate::new(25, 1).unwrap();
    let seconds = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() - 10;
    let start = seconds * 1_000_000_000 + 500_000_000;
    let mut pattern = Pattern::new(Size::new(640, 360).unwrap(), rate);
    let mut bytes = Vec::new();
    for number in 0..60u64 {
        let time = Time::ZERO + rate.time_of(number);
        let utc = Utc::from_nanos(start + rate.time_of(number).as_nanos() as u64);
        let picture = pattern.draw(number, time, utc);
        if number == 0 {
            y4m::write_header(&y4m::Header::of(&picture, rate), &mut bytes).unwrap();
        }
        y4m::write_picture(&picture, &mut bytes);
    }
    std::fs::write(pictures, bytes).unwrap();
    let mut tone = Tone::new(48_000, 1);
    let begin = start.wrapping_add_signed(sound_begins_ms * 1_000_000);
    let blocks =
        (0..245u64).map(|block| tone.next(480, Time::ZERO, Utc::from_nanos(begin + block * 10_000_000)));
    let samples: Vec<u8> =
        blocks.flat_map(|block| block.samples).flat_map(|sample| sample.to_le_bytes()).collect();
    let raw = format!("{sound}.raw");
    std::fs::write(&raw, samples).unwrap();
    let how = ["-f", "f32le", "-ar", "48000", "-ac", "1", "-i", &raw, "-c:a", "pcm_s24le", sound];
    succeeds("ffmpeg", &[&["-v", "error", "-y"], &how[..]].concat());
}

#[test]
fn a_film_s_sound_belongs_to_its_pictures_as_in_the_file() {
    let test = "a_film_s_sound_belongs_to_its_pictures_as_in_the_file";
    if !have(test, &["ffmpeg", "ffprobe"]) {
        return;
    }
    let folder = Scratch::new(test);
    let (pictures, sound) = (folder.file("in.y4m"), folder.file("in.wav"));
    let (file, stream) = (folder.file("in.mov"), folder.file("out.ts"));
    for (sound_begins_ms, container) in [(0, "in.mov"), (230, "in.mov"), (-240, "in.mov"), (-120, "in.mkv")] {
        // Pictures have times of whole pictures in these files.
        film(&pictures, &sound, sound_begins_ms);
        let late = |ms: i64| format!("{}", ms.max(0) as f64 / 1000.0);
        let (picture_offset, sound_offset) = (late(-sound_begins_ms), late(sound_begins_ms));
        let file = folder.file(container);
        let inputs =
            ["-itsoffset", &picture_offset, "-i", &pictures, "-itsoffset", &sound_offset, "-i", &sound];
        let coding = [
            "-map",
            "0:v",
            "-map",
            "1:a",
            "-c:v",
            "mpeg4",
            "-q:v",
            "2",
            "-fps_mode",
            "passthrough",
            "-c:a",
            "pcm_s24le",
            &file,
        ];
        succeeds("ffmpeg", &[&["-v", "error", "-y"], &inputs[..], &coding].concat());
        succeeds(GLASSLINE, &["encode", &file, &stream, "--preset", "ultrafast", "--audio", "s302m"]);
        let (worst, beeps) = compare(&stream, &folder, false);
        eprintln!("{container}, sound {sound_begins_ms} ms later: {:.3} ms, {beeps} beeps", worst * 1000.0);
        assert!(beeps >= 1);
        assert_eq!(frames(&stream, "v").len(), 60);
    }
    // Without sound: it is said, and pictures go on.
    succeeds("ffmpeg", &["-v", "error", "-y", "-i", &pictures, "-c:v", "mpeg4", &file]);
    for sound in [&[][..], &["--audio", "opus"]] {
        let outcome =
            succeeds(GLASSLINE, &[&["encode", &file, &stream, "--preset", "ultrafast"], sound].concat());
        assert!(outcome.stderr.contains("no sound"), "{}", outcome.stderr);
        assert_eq!((frames(&stream, "v").len(), frames(&stream, "a").len()), (60, 0));
    }
}

#[test]
fn what_begins_again_keeps_lip_sync() {
    let test = "what_begins_again_keeps_lip_sync";
    if !have(test, &["ffmpeg", "ffprobe"]) {
        return;
    }
    let folder = Scratch::new(test);
    let (pictures, sound) = (folder.file("in.y4m"), folder.file("in.wav"));
    let (file, short, stream) = (folder.file("in.mov"), folder.file("short.mov"), folder.file("out.ts"));
    film(&pictures, &sound, 0);
    let inputs = ["-v", "error", "-y", "-i", &pictures, "-i", &sound];
    let coding = ["-c:v", "mpeg4", "-q:v", "2", "-c:a", "pcm_s24le"];
    // Sound that is longer than the pictures, and some that is a little shorter.
    succeeds("ffmpeg", &[&inputs[..], &coding, &[&file]].concat());
    succeeds("ffmpeg", &[&inputs[..], &coding, &["-af", "atrim=end=2.387", &short]].concat());
    let beside = ["--audio-in", &sound];
    for (input, more) in [
        (&file, &["--duration", "7s"][..]),
        (&short, &["--duration", "7s"]),
        (&file, &["--duration", "5s", "--realtime"]),
        (&pictures, &[beside[0], beside[1], "--duration", "7s"]),
    ] {
        let common = ["encode", input, &stream, "--preset", "ultrafast", "--audio", "s302m", "--loop"];
        let outcome = succeeds(GLASSLINE, &[&common, more].concat());
        let (worst, beeps) = compare(&stream, &folder, !outcome.stderr.contains(" 0 dropped"));
        eprintln!("{input} {more:?}: {:.3} ms, {beeps} beeps", worst * 1000.0);
        assert!(beeps >= 3, "{input} {more:?}: {beeps} beeps");
    }
}

/// A WAVE file of FFmpeg's making, and its samples as they lie in it.
fn noise(file: &str, codec: &str, channels: u8) {
    let source = format!("anoisesrc=d=1.2:r=48000:seed=7,aformat=channel_layouts=mono,{}", spread(channels));
    succeeds("ffmpeg", &["-v", "error", "-y", "-f", "lavfi", "-i", &source, "-c:a", codec, file]);
}

/// A filter that makes so many different channels of one.
fn spread(channels: u8) -> String {
    let each: Vec<String> =
        (0..channels).map(|at| format!("c{at}={}*c0", 0.9 - 0.1 * f64::from(at))).collect();
    let layout = ["", "mono", "stereo", "", "quad", "", "5.1", "", "7.1"][usize::from(channels)];
    format!("pan={layout}|{}", each.join("|"))
}

fn raw(file: &str, into: &str) -> Vec<u8> {
    succeeds("ffmpeg", &["-v", "warning", "-y", "-i", file, "-map", "0:a", "-f", "s32le", into]);
    std::fs::read(into).unwrap()
}

#[test]
fn ffmpeg_decodes_lpcm_bit_by_bit() {
    let test = "ffmpeg_decodes_lpcm_bit_by_bit";
    if !have(test, &["ffmpeg", "ffprobe"]) {
        return;
    }
    let folder = Scratch::new(test);
    let (pictures, wav, stream) = (folder.file("in.y4m"), folder.file("in.wav"), folder.file("out.ts"));
    let source = "testsrc=s=64x48:r=25:d=1";
    succeeds("ffmpeg", &["-v", "error", "-y", "-f", "lavfi", "-i", source, "-pix_fmt", "yuv420p", &pictures]);
    for channels in [2, 4, 6, 8] {
        for (codec, bits) in [("pcm_s24le", "24"), ("pcm_s16le", "20"), ("pcm_s16le", "16")] {
            noise(&wav, codec, channels);
            let sound = ["--audio-in", &wav, "--audio", "s302m", "--audio-bits", bits];
            succeeds(GLASSLINE, &[&["encode", &pictures, &stream], &sound[..]].concat());
            let entries = ["stream=codec_name,channels,sample_rate", "-of", "default=nk=1:nw=1"];
            let streams = succeeds(
                "ffprobe",
                &[&["-v", "warning", "-select_streams", "a", "-show_entries"], &entries[..], &[&stream]]
                    .concat(),
            );
            let text = streams.text();
            let seen: Vec<&str> = text.split_whitespace().collect();
            // Once below the program, once among the streams.
            assert_eq!(seen[..3], ["s302m", "48000", &channels.to_string()], "{}", streams.stderr);
            let (before, after) = (raw(&wav, &folder.file("a")), raw(&stream, &folder.file("b")));
            let frame = usize::from(channels) * 4;
            assert!(after.len() >= 48_000 * frame, "{} samples", after.len() / frame);
            assert!(before.starts_with(&after[..48_000 * frame]), "{channels} channels, {bits} bits differ");
        }
    }
    let report = succeeds(GLASSLINE, &["probe", &stream]).text();
    assert!(report.contains("S302M") && report.contains("16 bit"), "{report}");
}
