//! What FFmpeg writes as FLV, WebM and Ogg is split so that FFmpeg decodes it from each join on.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests run FFmpeg"
)]

use glassline_media::container::split::{Container, Split, Splitter};
use glassline_test_support::{has_program, skip};
use std::io::Write;
use std::process::{Command, Stdio};

/// Four seconds of a test picture with a key frame each second, and a tone.
fn ffmpeg(test: &str, arguments: &str) -> Option<Vec<u8>> {
    if !has_program("ffmpeg") {
        skip(test, "ffmpeg is not installed");
        return None;
    }
    let output = Command::new("ffmpeg")
        .args(["-v", "error", "-f", "lavfi", "-i", "testsrc=size=160x90:rate=25"])
        .args(["-f", "lavfi", "-i", "sine=sample_rate=48000", "-t", "4", "-g", "25"])
        .args(arguments.split_whitespace())
        .arg("-")
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

/// Decodes all that FFmpeg finds; gives the number of pictures, or of blocks of sound without any.
fn decode(bytes: &[u8], map: &str) -> usize {
    let mut child = Command::new("ffmpeg")
        .args(["-v", "error", "-xerror", "-i", "-", "-map", map, "-f", "framecrc", "-"])
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
    String::from_utf8_lossy(&output.stdout).lines().filter(|line| !line.starts_with('#')).count()
}

/// Splits; gives header, data and the joins at key frames.
fn split(container: Container, bytes: &[u8]) -> (Vec<u8>, Vec<u8>, Vec<u64>) {
    let mut splitter = Splitter::new(container);
    let (mut header, mut data, mut joins, mut ends) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for chop in bytes.chunks(1447) {
        splitter
            .push(chop, &mut |split| match split {
                Split::Header(found) => header = found.to_vec(),
                Split::Data(more) => data.extend_from_slice(more),
                Split::Join { at, key_frame: true } => joins.push(at),
                Split::RecordEnd { at } => ends.push(at),
                _ => {}
            })
            .unwrap();
    }
    assert_eq!([header.clone(), data.clone()].concat(), bytes);
    assert_eq!(ends.last(), Some(&(data.len() as u64)), "it ends with a whole record");
    (header, data, joins)
}

fn joins_of_pictures(test: &str, container: Container, arguments: &str) {
    let Some(bytes) = ffmpeg(test, arguments) else { return };
    let (header, data, joins) = split(container, &bytes);
    assert_eq!(joins.len(), 4, "{joins:?}");
    for (second, at) in joins.iter().enumerate() {
        let joined = [&header, &data[*at as usize..]].concat();
        assert_eq!(decode(&joined, "0:v"), 100 - 25 * second, "from second {second}");
    }
}

#[test]
fn flv_is_joined_at_its_key_frames() {
    joins_of_pictures(
        "flv_is_joined_at_its_key_frames",
        Container::Flv,
        "-c:v libx264 -preset veryfast -c:a aac -f flv",
    );
}

#[test]
fn webm_is_joined_at_its_clusters() {
    let encoding = "-c:v libvpx -deadline realtime -cpu-used 8 -c:a libopus -f webm -live 1";
    joins_of_pictures("webm_is_joined_at_its_clusters", Container::WebM, encoding);
}

#[test]
fn ogg_is_joined_at_its_key_frames() {
    joins_of_pictures(
        "ogg_is_joined_at_its_key_frames",
        Container::Ogg,
        "-c:v libtheora -c:a libvorbis -f ogg",
    );
}

#[test]
fn sound_alone_is_joined_often() {
    for (container, encoding) in [
        (Container::Ogg, "-vn -c:a libopus -page_duration 200000 -f ogg"),
        (Container::Ogg, "-vn -c:a libvorbis -page_duration 200000 -f ogg"),
        (Container::Ogg, "-vn -c:a flac -page_duration 200000 -f ogg"),
        (Container::Flv, "-vn -c:a aac -f flv"),
        (Container::WebM, "-vn -c:a libopus -f webm -live 1 -cluster_time_limit 500"),
    ] {
        let Some(bytes) = ffmpeg("sound_alone_is_joined_often", encoding) else { return };
        let (header, data, joins) = split(container, &bytes);
        assert!(joins.len() >= 7, "{encoding}: {joins:?}");
        let middle = joins[joins.len() / 2] as usize;
        assert!(decode(&[&header, &data[middle..]].concat(), "0:a") > 20, "{encoding}");
    }
}
