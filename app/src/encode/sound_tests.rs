//! Sound through the whole pipeline: from a file beside a file of pictures, deterministic to the sample.

use super::tests::{Folder, encode, refused, units, write_y4m};
use glassline_media::bitstream::{opus, s302m};
use glassline_media::container::ts::{Demuxer, Event};
use glassline_media::{AccessUnit, Codec, Ticks};

/// A WAVE file of 24 bits whose samples are all different.
fn write_wav(path: &str, channels: u16, rate_hz: u32, frames: usize) -> Vec<f32> {
    let frame_bytes = 3 * channels;
    let values: Vec<i32> =
        (0..frames * usize::from(channels)).map(|at| (at as i64 * 7919 % 8_388_608) as i32).collect();
    let mut bytes = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0".to_vec();
    bytes.extend(channels.to_le_bytes());
    bytes.extend(rate_hz.to_le_bytes());
    bytes.extend((rate_hz * u32::from(frame_bytes)).to_le_bytes());
    bytes.extend(frame_bytes.to_le_bytes());
    bytes.extend(b"\x18\0data");
    bytes.extend(((values.len() * 3) as u32).to_le_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes().into_iter().take(3)));
    std::fs::write(path, bytes).unwrap();
    values.iter().map(|value| *value as f32 / 8_388_608.0).collect()
}

/// Encodes 45 pictures of 30000/1001 a second (1.5 s) beside a WAVE file and gives the units of picture and sound.
fn encoded(name: &str, channels: u16, rate_hz: u32, frames: usize, args: &[&str]) -> [Vec<AccessUnit>; 2] {
    let folder = Folder::new(name);
    let (pictures, sound, output) = (folder.path("in.y4m"), folder.path("in.wav"), folder.path("out.ts"));
    write_y4m(&pictures, 45);
    write_wav(&sound, channels, rate_hz, frames);
    let common = [pictures.as_str(), &output, "--preset", "ultrafast", "--audio-in", &sound];
    encode(&[&common, args].concat()).unwrap();
    let (video, audio) = units(&std::fs::read(&output).unwrap());
    assert_eq!(video.len(), 45);
    [video, audio]
}

#[test]
fn samples_of_a_file_reach_the_stream_bit_by_bit() {
    for channels in [2u16, 6] {
        let folder = Folder::new(&format!("exact{channels}"));
        let expected = write_wav(&folder.path("same.wav"), channels, 48_000, 96_000);
        let [video, audio] =
            encoded(&format!("s302m{channels}"), channels, 48_000, 96_000, &["--audio", "s302m"]);
        let mut samples = Vec::new();
        for (number, unit) in (0..).zip(&audio) {
            assert_eq!(
                unit.pts - video[0].pts,
                Ticks(90 * number),
                "packets of 1 ms from the first picture on"
            );
            let (header, words) = s302m::read(&unit.data).unwrap();
            assert_eq!(u16::from(header.channels), channels);
            samples.extend(words);
        }
        // As long as the pictures, to the millisecond or five that a block has.
        let milliseconds = samples.len() / usize::from(channels) / 48;
        assert!((1501..=1507).contains(&milliseconds), "{milliseconds} ms");
        assert!(samples == expected[..samples.len()]);
    }
}

#[test]
fn a_file_that_is_shorter_than_the_pictures_ends_and_the_pictures_go_on() {
    let [_, audio] = encoded("shorter", 2, 48_000, 24_010, &["--audio", "s302m", "--audio-frame", "4ms"]);
    assert_eq!(audio.len(), 126, "half a second and ten samples, filled up");
}

#[test]
#[cfg(feature = "opus")]
fn sound_of_another_rate_keeps_its_length() {
    let [video, audio] = encoded("rate", 1, 44_100, 2 * 44_100, &["--audio-frame", "20ms"]);
    assert!(audio.iter().all(|unit| unit.codec == Codec::Opus));
    assert!(audio.iter().all(|unit| opus::duration_samples(&unit.data) == Some(960)));
    // What is decoded first is 2.5 ms of start-up.
    let lead = (audio[0].pts - video[0].pts).0;
    assert!((-225..=-223).contains(&lead), "{lead}");
    let length = (audio[audio.len() - 1].pts - audio[0].pts).0 + 1800;
    assert!((135_135..135_135 + 2_250).contains(&length), "{length}");
}

#[test]
fn sound_stands_in_the_stream_beside_its_pictures() {
    let folder = Folder::new("beside");
    let (pictures, sound, output) = (folder.path("in.y4m"), folder.path("in.wav"), folder.path("out.ts"));
    write_y4m(&pictures, 45);
    write_wav(&sound, 2, 48_000, 96_000);
    encode(&[&pictures, &output, "--preset", "ultrafast", "--audio", "s302m", "--audio-in", &sound]).unwrap();
    let mut demuxer = Demuxer::new();
    demuxer.push(&std::fs::read(&output).unwrap());
    demuxer.finish();
    let (mut picture, mut apart) = (None, 0);
    while let Some(event) = demuxer.poll() {
        let Event::AccessUnit { unit, .. } = event else { continue };
        if unit.codec.is_video() {
            picture = Some(unit.pts);
        } else if let Some(picture) = picture {
            apart = apart.max((unit.pts - picture).0.abs());
        }
    }
    assert!(apart <= 3003 + 450, "{apart} ticks between a picture and the sound beside it");
}

#[test]
fn what_does_not_go_together_is_refused_before_anything_is_written() {
    let folder = Folder::new("refuse");
    let (pictures, output) = (folder.path("in.y4m"), folder.path("out.ts"));
    write_y4m(&pictures, 3);
    let [two, three, six] = [2, 3, 6].map(|channels| {
        let path = folder.path(&format!("{channels}.wav"));
        write_wav(&path, channels, 48_000, 10);
        path
    });
    std::fs::write(&output, "precious").unwrap();
    let cases: &[(&[&str], &str)] = &[
        (&["--audio", "s302m"], "carries no sound"),
        (&["--audio-in", &three, "--audio", "s302m"], "1, 2, 4, 6 or 8"),
        (&["--audio-in", &two, "--audio", "s302m", "--audio-bits", "18"], "16, 20 and 24"),
        (&["--audio-in", &two, "--audio", "s302m", "--audio-frame", "20ms"], "up to 10ms"),
        (&["--audio-in", &two, "--audio", "s302m", "--audio-bitrate", "100k"], "compressed"),
        (&["--audio-in", &two, "--audio-format", "s16le:48000:2"], "says itself"),
        (&["--audio-in", "fd:0"], "--realtime"),
        (&["--audio-in", "none.wav"], "check the name"),
        (&["--audio-format", "s16le:48000:2"], "--audio-in"),
        #[cfg(feature = "opus")]
        (&["--audio-in", &six, "--audio", "opus"], "choose --audio s302m"),
        #[cfg(feature = "opus")]
        (&["--audio-in", &two, "--audio", "opus", "--audio-frame", "3ms"], "2.5ms, 5ms"),
        #[cfg(feature = "opus")]
        (&["--audio-in", &two, "--audio", "opus", "--audio-bits", "24"], "s302m"),
        #[cfg(feature = "aac")]
        (&["--audio-in", &two, "--audio", "aac", "--audio-frame", "5ms"], "21 ms alone"),
        #[cfg(feature = "aac")]
        (&["--audio-in", &two, "--audio", "aac", "--audio-bitrate", "5M"], "between 32000 and 576000"),
    ];
    for (args, complaint) in cases {
        let refused = refused(&[&[pictures.as_str(), output.as_str()], *args].concat());
        assert!(refused.contains(complaint), "{args:?}: {refused}");
    }
    assert!(!six.is_empty());
    let mp4 = folder.path("out.mp4");
    let refused = refused(&[&pictures, &mp4, "--audio-in", &two, "--audio", "s302m"]);
    assert!(refused.contains("MP4 files get no SMPTE 302M sound"), "{refused}");
    assert!(!std::path::Path::new(&mp4).exists());
    assert_eq!(std::fs::read(&output).unwrap(), b"precious");
}
