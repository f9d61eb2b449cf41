//! `send-raw` sends the closed captions that films have in their pictures, as FFmpeg's encoders put them there: each in the frame
//! it belongs to.

use crate::{GLASSLINE, have};
use glassline_test_support::program::{Outcome, Scratch, run};
use glassline_test_support::skip;
use glassline_transport::ancillary::{CaptionType, Cdp, Field, Payload};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

const PROGRAMS: [&str; 2] = ["ffmpeg", "ffprobe"];
const RATE: &str = "30000/1001";
/// Pictures of a film.
const PICTURES: usize = 40;
/// From SEI and from user data: codes of T.35 for ATSC, A/53's identifier and cc_data's.
const HEAD: &[u8] = b"\xB5\0\x31GA94\x03";

/// A byte with the odd parity of CEA-608.
fn odd(byte: u8) -> u8 {
    byte | u8::from(byte.count_ones().is_multiple_of(2)) << 7
}

/// The text of a picture: no two of a film have the same.
fn pair(picture: usize) -> [u8; 2] {
    [odd(b'A' + (picture % 26) as u8), odd(b'0' + (picture / 26) as u8)]
}

/// A picture's triplets: a pair of the first field, nothing in the second, data of CEA-708, padding.
fn usual(picture: usize) -> Vec<[u8; 3]> {
    let [one, two] = pair(picture);
    vec![[0xFC, one, two], [0xFD, 0x80, 0x80], [0xFE, picture as u8, 7], [0xFA, 0, 0]]
}

/// An SEI message with cc_data (A/53 part 4 §6.2.3) in a NAL unit that begins so.
fn sei(nal: &[u8], triplets: &[[u8; 3]]) -> Vec<u8> {
    let count = 0x40 | triplets.len() as u8;
    let payload = [HEAD, &[count, 0xFF], &triplets.concat(), &[0xFF]].concat();
    let message = [nal, &[4, payload.len() as u8], &payload, &[0x80]].concat();
    let mut unit = vec![0, 0, 0, 1];
    let mut zeros = 0;
    for byte in message {
        if zeros == 2 && byte <= 3 {
            unit.push(3);
            zeros = 0;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        unit.push(byte);
    }
    unit
}

fn ffmpeg(arguments: &[&str]) {
    let outcome = run("ffmpeg", &[&["-nostdin", "-v", "error", "-y"], arguments].concat(), 120);
    assert_eq!(outcome.status, Some(0), "{arguments:?}: {}", outcome.stderr);
}

/// A film of H.264 or H.265 without B pictures, in Annex B, with captions in front of each picture's first slice.
fn captioned(scratch: &Scratch, encoder: &str, captions: impl Fn(usize) -> Vec<Vec<[u8; 3]>>) -> String {
    let (plain, film) = (scratch.file("plain.bin"), scratch.file(&format!("{encoder}.bin")));
    let is_hevc = encoder == "libx265";
    let format = if is_hevc { "hevc" } else { "h264" };
    let source = format!("testsrc2=s=160x120:r={RATE}");
    let options = [
        "-frames:v",
        &PICTURES.to_string(),
        "-pix_fmt",
        "yuv420p",
        "-c:v",
        encoder,
        "-bf",
        "0",
        "-f",
        format,
    ];
    let quiet: &[&str] = if is_hevc { &["-x265-params", "log-level=none:bframes=0"] } else { &[] };
    ffmpeg(&[&["-f", "lavfi", "-i", &source], &options[..], quiet, &[&plain]].concat());
    let bytes = std::fs::read(plain).unwrap();
    let starts: Vec<usize> = (0..bytes.len() - 3).filter(|at| bytes[*at..].starts_with(&[0, 0, 1])).collect();
    let (mut out, mut picture) = (Vec::new(), 0);
    for (index, start) in starts.iter().enumerate() {
        let end = starts.get(index + 1).copied().unwrap_or(bytes.len());
        let unit = &bytes[start + 3..end];
        let begins = match is_hevc {
            true => unit[0] >> 1 < 32 && unit[2] & 0x80 != 0,
            false => matches!(unit[0] & 0x1F, 1 | 5) && unit[1] & 0x80 != 0,
        };
        if begins {
            let nal: &[u8] = if is_hevc { &[39 << 1, 1] } else { &[6] };
            captions(picture).iter().for_each(|message| out.extend(sei(nal, message)));
            picture += 1;
        }
        out.extend([&[0, 0, 1], unit].concat());
    }
    assert_eq!(picture, PICTURES);
    std::fs::write(&film, out).unwrap();
    film
}

/// The same coded again, so that FFmpeg's own encoder writes the captions, in the order of pictures that it has.
fn encoded(film: &str, options: &[&str], to: &str) {
    ffmpeg(&[&["-f", "h264", "-r", RATE, "-i", film], options, &[to]].concat());
}

/// What came of a film's ancillary data.
struct Sent {
    outcome: Outcome,
    sdp: String,
    frames: Vec<Cdp>,
}

impl Sent {
    fn report(&self) -> serde_json::Value {
        serde_json::from_slice(&self.outcome.stdout).unwrap_or_else(|_| panic!("{}", self.outcome.stderr))
    }

    /// The letters of the first field, by frame; a null pair is none.
    fn pairs(&self) -> Vec<Vec<[u8; 2]>> {
        let pairs = |cdp: &Cdp| {
            let all = cdp.triplets().iter().filter(|triplet| triplet.is_content());
            all.filter(|triplet| triplet.kind == CaptionType::Field1).map(|triplet| triplet.data).collect()
        };
        self.frames.iter().map(pairs).collect()
    }
}

/// Sends a film to sockets of ours, with `ffprobe` from this folder if one is named.
fn send(scratch: &Scratch, film: &str, arguments: &[&str], programs: Option<&str>) -> Sent {
    let [video, data, sound] = [(); 3].map(|()| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        socket
    });
    let url = |socket: &UdpSocket| format!("rtp://{}", socket.local_addr().unwrap());
    let (sdp, film) = (scratch.file("out.sdp"), format!("file:{film}"));
    let mut command = Command::new(GLASSLINE);
    command.args([
        "send-raw",
        &film,
        &url(&video),
        "--ancillary-to",
        &url(&data),
        "--sound-to",
        &url(&sound),
    ]);
    command.args(["--sdp", &sdp, "--json"]).args(arguments);
    if let Some(folder) = programs {
        command.env("PATH", format!("{folder}:{}", std::env::var("PATH").unwrap()));
    }
    let sending = std::thread::spawn(move || {
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        Outcome { status: output.status.code(), stdout: output.stdout, stderr }
    });
    let (mut frames, mut packet, mut last) = (Vec::new(), vec![0; 2000], None::<u32>);
    loop {
        let is_over = sending.is_finished();
        let Ok(length) = data.recv(&mut packet) else {
            if is_over {
                break;
            }
            continue;
        };
        let stamp = u32::from_be_bytes(*packet[4..].first_chunk().unwrap());
        assert!(
            last.is_none_or(|last| (1490..40_000).contains(&stamp.wrapping_sub(last))),
            "{last:?} {stamp}"
        );
        last = Some(stamp);
        let payload = Payload::parse(&packet[12..length]).unwrap();
        assert!(
            payload.packets.iter().all(|packet| packet.is_checksum_right() && packet.parity_errors() == 0)
        );
        let captions: Vec<_> = payload.packets.iter().filter_map(|packet| packet.captions()).collect();
        assert!(captions.len() <= 1, "one packet a frame");
        assert!(captions.is_empty() || payload.field != Field::Second);
        frames.extend(captions.into_iter().map(Result::unwrap));
    }
    let outcome = sending.join().unwrap();
    let sdp = std::fs::read_to_string(&sdp).unwrap_or_else(|_| panic!("{}", outcome.stderr));
    Sent { outcome, sdp, frames }
}

/// What each frame of so many says whose film says `usual`.
fn expected(frames: usize) -> Vec<Vec<[u8; 2]>> {
    (0..frames).map(|frame| vec![pair(frame % PICTURES)]).collect()
}

#[test]
fn captions_go_in_the_frames_that_they_belong_to() {
    if !have("captions_go_in_the_frames_that_they_belong_to", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::new("captions");
    let h264 = captioned(&scratch, "libx264", |picture| vec![usual(picture)]);
    let film = |name: &str, options: &[&str]| {
        let path = scratch.file(name);
        encoded(&h264, options, &path);
        path
    };
    let reordered = ["-c:v", "libx264", "-bf", "3", "-x264-params", "b-adapt=0:b-pyramid=2"];
    let mut films = vec![
        // Every character that FFmpeg's graphs of filters know.
        film("it's a, b;c[d]:e=f\\g %{h}\n.ts", &reordered),
        film("film.mp4", &reordered),
        film("film.mpg", &["-c:v", "mpeg2video", "-bf", "2", "-q:v", "3"]),
        // No clock at all.
        h264.clone(),
    ];
    if run("ffmpeg", &["-v", "error", "-h", "encoder=libx265"], 30).stdout.starts_with(b"Encoder") {
        let (hevc, mkv) =
            (captioned(&scratch, "libx265", |picture| vec![usual(picture)]), scratch.file("film.mkv"));
        ffmpeg(&["-f", "hevc", "-r", RATE, "-i", &hevc, "-c", "copy", &mkv]);
        films.push(mkv);
    }
    for film in films {
        let name = film.clone();
        let sent = send(&scratch, &film, &[], None);
        assert_eq!(sent.outcome.status, Some(0), "{name}: {}", sent.outcome.stderr);
        assert!(sent.sdp.contains("DID_SDID={0x61,0x01}; exactframerate="), "{name}: {}", sent.sdp);
        assert!(sent.frames.iter().all(|cdp| cdp.triplets().len() == 20), "{name}");
        assert_eq!(sent.pairs(), expected(PICTURES), "{name}");
        let sequence = |(number, cdp): (usize, &Cdp)| usize::from(cdp.sequence) == number;
        assert!(sent.frames.iter().enumerate().all(sequence), "{name}");
        for (number, cdp) in sent.frames.iter().enumerate() {
            let data: Vec<_> = cdp
                .triplets()
                .iter()
                .filter(|triplet| triplet.is_content())
                .skip(1)
                .map(|it| it.data)
                .collect();
            assert_eq!(data, [[number as u8, 7]], "{name}, frame {number}");
        }
        let captions = &sent.report()["ancillary"]["captions"];
        assert_eq!(
            (&captions["frames"], &captions["dropped_triplets"]),
            (&PICTURES.into(), &0.into()),
            "{name}"
        );
        assert!(captions["failure"].is_null() && sent.outcome.stderr.contains("captions too"), "{captions}");
    }
}

#[test]
fn captions_of_fields_go_with_the_first() {
    if !have("captions_of_fields_go_with_the_first", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::new("captions-fields");
    let h264 = captioned(&scratch, "libx264", |picture| vec![usual(picture)]);
    let film = scratch.file("film.mp4");
    encoded(&h264, &["-c:v", "libx264", "-bf", "3"], &film);
    let sent = send(&scratch, &film, &["--scan", "interlaced"], None);
    assert_eq!(sent.outcome.status, Some(0), "{}", sent.outcome.stderr);
    assert_eq!(sent.pairs(), expected(PICTURES));
}

#[test]
fn captions_begin_again_with_the_film() {
    if !have("captions_begin_again_with_the_film", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::new("captions-loop");
    let h264 = captioned(&scratch, "libx264", |picture| vec![usual(picture)]);
    let (silent, loud) = (scratch.file("silent.mp4"), scratch.file("loud.mp4"));
    encoded(&h264, &["-c:v", "libx264", "-bf", "3"], &silent);
    let tone = ["-f", "lavfi", "-i", "sine=r=48000:d=1.3", "-c:v", "copy", "-c:a", "aac"];
    ffmpeg(&[&["-i", &silent], &tone[..], &[&loud]].concat());
    let frames = 2 * PICTURES + 15;
    // A film without sound is sent from memory, one with sound is read anew.
    for (film, kept) in [(silent, true), (loud, false)] {
        let sent = send(&scratch, &film, &["--loop", "--limit", &frames.to_string()], None);
        assert_eq!(sent.outcome.status, Some(0), "{}", sent.outcome.stderr);
        assert_eq!(sent.report()["kept_frames"].is_null(), !kept);
        assert_eq!(sent.pairs(), expected(frames), "kept: {kept}");
        assert_eq!(sent.report()["ancillary"]["captions"]["frames"], frames);
    }
}

#[test]
fn captions_follow_a_clock_that_jumps() {
    if !have("captions_follow_a_clock_that_jumps", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::new("captions-jump");
    let h264 = captioned(&scratch, "libx264", |picture| vec![usual(picture)]);
    let (once, later) = (scratch.file("once.ts"), scratch.file("later.ts"));
    let reordered = ["-c:v", "libx264", "-bf", "3"];
    encoded(&h264, &reordered, &once);
    encoded(&h264, &[&reordered[..], &["-output_ts_offset", "500"]].concat(), &later);
    let file = |name: &str| std::fs::read(name).unwrap();
    // Ahead by minutes, and back again.
    let film = scratch.write("film.ts", [file(&once), file(&later), file(&once)].concat());
    let sent = send(&scratch, &film, &[], None);
    assert_eq!(sent.outcome.status, Some(0), "{}", sent.outcome.stderr);
    let said: Vec<_> = sent.pairs().into_iter().flatten().collect();
    let expected: Vec<_> = (0..3 * PICTURES).map(|number| pair(number % PICTURES)).collect();
    assert_eq!(said, expected);
    let silent = sent.pairs().iter().filter(|pairs| pairs.is_empty()).count();
    assert!(silent < 8, "{silent} frames of {} have none", sent.frames.len());
}

#[test]
fn a_sentence_in_one_picture_is_spread_over_frames() {
    if !have("a_sentence_in_one_picture_is_spread_over_frames", &PROGRAMS) {
        return;
    }
    // As OBS puts captions into pictures (obs-studio 4006): all of a sentence in one, more than cc_count can say of one message, and
    // no padding in the others.
    let sentence: Vec<[u8; 3]> = (0..36).map(|number| [0xFC, pair(number)[0], pair(number)[1]]).collect();
    let scratch = Scratch::new("captions-burst");
    let film = captioned(&scratch, "libx264", |picture| match picture {
        4 => vec![sentence[..30].to_vec(), sentence[30..].to_vec()],
        _ => Vec::new(),
    });
    let mp4 = scratch.file("film.mp4");
    ffmpeg(&["-f", "h264", "-r", RATE, "-i", &film, "-c", "copy", &mp4]);
    let sent = send(&scratch, &mp4, &[], None);
    let expected = (0..PICTURES).map(|frame| frame.checked_sub(4).map(pair).into_iter().collect::<Vec<_>>());
    assert_eq!(sent.pairs(), expected.collect::<Vec<_>>(), "{}", sent.outcome.stderr);
    assert!(
        sent.frames.iter().all(|cdp| cdp.triplets().len() == 20),
        "frames without captions are filled up"
    );
    assert_eq!(sent.report()["ancillary"]["captions"]["frames"], 36);
}

#[test]
fn captions_are_those_of_the_track_that_is_sent() {
    if !have("captions_are_those_of_the_track_that_is_sent", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::new("captions-track");
    let h264 = captioned(&scratch, "libx264", |picture| vec![usual(picture)]);
    let (with, both) = (scratch.file("with.mp4"), scratch.file("both.mkv"));
    encoded(&h264, &["-c:v", "libx264", "-bf", "3"], &with);
    let without = scratch.file("without.mp4");
    encoded(&h264, &["-c:v", "libx264", "-a53cc", "0"], &without);
    ffmpeg(&["-i", &without, "-i", &with, "-map", "0:v", "-map", "1:v", "-c", "copy", &both]);
    let first = send(&scratch, &both, &["--video-track", "1", "--limit", "5"], None);
    assert!(first.frames.is_empty() && !first.sdp.contains("DID_SDID"), "{}", first.sdp);
    let second = send(&scratch, &both, &["--video-track", "2"], None);
    assert_eq!(second.pairs(), expected(PICTURES), "{}", second.outcome.stderr);
    let none = send(&scratch, &with, &["--limit", "5", "--time-code", "10:00:00:00"], None);
    assert!(
        none.sdp.contains("DID_SDID={0x60,0x60}; DID_SDID={0x61,0x01}; exactframerate=30000/1001"),
        "{}",
        none.sdp
    );
    assert_eq!(none.pairs(), expected(5));
}

#[test]
fn frames_at_a_rate_without_captions_are_told() {
    if !have("frames_at_a_rate_without_captions_are_told", &PROGRAMS) {
        return;
    }
    let scratch = Scratch::new("captions-rate");
    let h264 = captioned(&scratch, "libx264", |picture| vec![usual(picture)]);
    let film = scratch.file("film.mp4");
    ffmpeg(&["-f", "h264", "-r", "15", "-i", &h264, "-c", "copy", &film]);
    let sent = send(&scratch, &film, &["--limit", "3"], None);
    assert_eq!(sent.outcome.status, Some(0), "{}", sent.outcome.stderr);
    assert!(sent.frames.is_empty() && !sent.sdp.contains("DID_SDID"), "{}", sent.sdp);
    assert_eq!(sent.outcome.stderr.matches("captions are not sent").count(), 1, "{}", sent.outcome.stderr);
}

#[test]
fn captions_that_cannot_be_read_are_told_and_the_rest_goes_on() {
    let test = "captions_that_cannot_be_read_are_told_and_the_rest_goes_on";
    if !have(test, &PROGRAMS) {
        return;
    }
    let found = run("sh", &["-c", "command -v ffprobe"], 10);
    let Ok(ffprobe) = String::from_utf8(found.stdout) else { return skip(test, "ffprobe's path is no text") };
    let scratch = Scratch::new("captions-broken");
    let h264 = captioned(&scratch, "libx264", |picture| vec![usual(picture)]);
    let film = scratch.file("film.mp4");
    encoded(&h264, &["-c:v", "libx264"], &film);
    let folder = scratch.file("programs");
    std::fs::create_dir(&folder).unwrap();
    let program = format!("{folder}/ffprobe");
    let words = "case \"$*\" in *lavfi*) echo no captions today >&2; exit 3;; esac";
    std::fs::write(&program, format!("#!/bin/sh\n{words}\nexec {} \"$@\"\n", ffprobe.trim())).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let sent =
        send(&scratch, &film, &["--loop", "--limit", "50", "--time-code", "10:00:00:00"], Some(&folder));
    assert_eq!(sent.outcome.status, Some(0), "{}", sent.outcome.stderr);
    let report = sent.report();
    assert_eq!((sent.frames.len(), &report["frames"]), (50, &50.into()), "{report}");
    assert!(sent.pairs().iter().all(Vec::is_empty));
    let told = sent.outcome.stderr.matches("captions are not sent any further").count();
    assert_eq!(told, 1, "{}", sent.outcome.stderr);
    let captions = &report["ancillary"]["captions"];
    assert!(captions["failure"].as_str().unwrap().contains("no captions today"), "{report}");
    assert_eq!(captions["frames"], 0);
}
