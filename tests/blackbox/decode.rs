//! `glassline decode`: VP8 in, pictures or checksums out.

use crate::commands::assert_fails;
use crate::{GLASSLINE, glassline};
use glassline_test_support::program::{Scratch, run};
use glassline_test_support::{noise, shared, skip};
use std::collections::BTreeMap;

/// A conformance stream and its checksums.
fn vector(test: &str, name: &str) -> Option<(String, String)> {
    let Some(file) = shared(&format!("vp8-test-vectors/{name}.ivf")) else {
        skip(test, "the VP8 test vectors are absent");
        return None;
    };
    let sums = std::fs::read_to_string(file.with_extension("ivf.md5")).unwrap();
    Some((file.to_string_lossy().into_owned(), sums))
}

#[test]
fn checksums_are_those_of_the_test_vectors() {
    // One of odd size, one that changes its size, and one with a hidden frame, which counts in the names.
    for name in ["vp80-00-comprehensive-006", "vp80-03-segmentation-1425", "vp80-00-comprehensive-018"] {
        let Some((file, sums)) = vector("checksums_are_those_of_the_test_vectors", name) else { return };
        let outcome = glassline(&["decode", &file, "--md5"]);
        assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
        assert_eq!(outcome.text(), sums);
    }
}

#[test]
fn pictures_come_as_y4m() {
    let Some((file, sums)) = vector("pictures_come_as_y4m", "vp80-00-comprehensive-006") else { return };
    let scratch = Scratch::new("decode");
    let out = scratch.file("out.y4m");
    let outcome = glassline(&["decode", &file, &out, "--json"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let report: serde_json::Value = serde_json::from_str(&outcome.text()).unwrap();
    let shown = sums.lines().count();
    assert_eq!((&report["shown"], &report["width"]), (&shown.into(), &175.into()));
    let y4m = std::fs::read(&out).unwrap();
    assert!(y4m.starts_with(b"YUV4MPEG2 W175 H143 F24"), "{:?}", String::from_utf8_lossy(&y4m[..60]));
    let header = y4m.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    assert_eq!(y4m.len(), header + shown * (6 + 175 * 143 + 2 * 88 * 72));
    let piped = glassline(&["decode", &file, "-", "--json"]);
    assert!(piped.stdout == y4m, "the same bytes to standard output");
    assert!(piped.stderr.contains("\"shown\""), "the report goes to standard error: {}", piped.stderr);
}

#[test]
fn what_cannot_be_done_is_said() {
    let scratch = Scratch::new("decode-errors");
    let out = scratch.file("out.y4m");
    assert_fails(&glassline(&["decode", "none.ivf", &out]), 1, &["none.ivf"]);
    assert_fails(&glassline(&["decode", "none.ivf"]), 2, &["OUTPUT"]);
    let text = scratch.write("text.ivf", "this is no video at all, but it is longer than a header");
    assert_fails(&glassline(&["decode", &text, &out]), 1, &["DKIF"]);
    assert_fails(&glassline(&["decode", &text, "out.mp4"]), 2, &["out.mp4", ".y4m"]);
    let vp9 = scratch
        .write("vp9.ivf", [&b"DKIF\0\0\x20\0VP90\x10\0\x10\0\x19\0\0\0\x01\0\0\0"[..], &[0; 8]].concat());
    assert_fails(&glassline(&["decode", &vp9, &out]), 1, &["VP90"]);
    let test = "what_cannot_be_done_is_said";
    let Some((changing, _)) = vector(test, "vp80-03-segmentation-1425") else { return };
    assert_fails(&glassline(&["decode", &changing, &out]), 1, &["176x144", "one size", "--md5", "--scale"]);
    let whole = std::fs::read(&changing).unwrap();
    let cut = scratch.write("cut.ivf", &whole[..whole.len() / 2]);
    assert_fails(&glassline(&["decode", &cut, "null:", "--strict"]), 1, &["ends inside"]);
    assert_fails(&glassline(&["decode", &cut, "null:"]), 1, &["the file is cut within its last frame"]);
    let mut damaged = whole;
    damaged[44] = 0xff;
    let damaged = scratch.write("damaged.ivf", damaged);
    for options in [&["decode", &damaged, "null:"][..], &["decode", &damaged, "null:", "--strict"]] {
        assert_fails(&glassline(options), 1, &["frame 0", "version 7"]);
    }
}

/// 20 pictures of VP8, every fifth a key frame, and where each frame's header stands in the file.
fn clip(scratch: &Scratch) -> (String, Vec<u8>, Vec<usize>) {
    let (y4m, _) = noise::y4m("W64 H48 F25:1 C420jpeg", 64 * 48 * 3 / 2, 8, 20);
    let (input, out) = (scratch.write("in.y4m", y4m), scratch.file("clip.ivf"));
    let outcome =
        glassline(&["encode", &input, &out, "--codec", "vp8", "--keyint", "5", "--quantizer", "40"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let bytes = std::fs::read(&out).unwrap();
    let (mut at, mut headers) = (32, Vec::new());
    while at < bytes.len() {
        headers.push(at);
        at += 12 + u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    }
    assert_eq!(headers.len(), 20);
    (out, bytes, headers)
}

/// The pictures' checksums by the number of their frame, from 1.
fn sums(text: &str) -> BTreeMap<u32, String> {
    let line = |line: &str| {
        let (sum, name) = line.split_once(' ').unwrap();
        let number = name.rsplit('-').next().unwrap().trim_end_matches(".i420").parse().unwrap();
        (number, sum.to_owned())
    };
    text.lines().map(line).collect()
}

#[test]
fn decoding_goes_on_behind_damage_and_tells_what_was_lost() {
    let scratch = Scratch::new("decode-damage");
    let (file, bytes, headers) = clip(&scratch);
    let whole = sums(&glassline(&["decode", &file, "--md5"]).text());
    assert_eq!(whole.len(), 20);
    let damage = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = bytes.clone();
        change(&mut bytes);
        scratch.write(name, bytes)
    };
    // A frame that is no VP8; a length beyond all bounds, and one that is a little too long; bytes that are missing; the end.
    let tag = damage("tag.ivf", &|bytes| bytes[headers[7] + 12] |= 0x0E);
    let length = damage("length.ivf", &|bytes| bytes[headers[7]..headers[7] + 4].fill(0xFF));
    let longer = damage("longer.ivf", &|bytes| bytes[headers[7] + 1] ^= 0x01);
    let missing = damage("missing.ivf", &|bytes| drop(bytes.drain(headers[7] + 20..headers[7] + 60)));
    let cut = damage("cut.ivf", &|bytes| bytes.truncate(headers[19] + 30));
    for (name, lost, words) in [
        (
            &tag,
            7,
            &["1 frame of 20 could not be decoded", "frame 7: vp8: bitstream version", "2 pictures behind"][..],
        ),
        (&length, 7, &["frames are missing at 1 place", "2 pictures behind"]),
        (&longer, 7, &["frames are missing at 1 place", "2 pictures behind"]),
        (&missing, 7, &["frames are missing at 1 place", "2 pictures behind"]),
        (&cut, 19, &["the file is cut within its last frame, of which 30 bytes are there"]),
    ] {
        let outcome = glassline(&["decode", name, "--md5"]);
        assert_eq!(outcome.status, Some(1), "{name}: {}", outcome.stderr);
        for word in words {
            assert!(outcome.stderr.contains(word), "{name}: {word:?} is not in {}", outcome.stderr);
        }
        // Numbers behind a frame that is missing are one less.
        let found: Vec<String> = sums(&outcome.text()).into_values().collect();
        let is_there = |frame: u32| found.contains(&whole[&(frame + 1)]);
        let affected = if lost == 7 { 7..10 } else { 19..20 };
        let right: Vec<u32> = (0..20).filter(|frame| is_there(*frame)).collect();
        let expected: Vec<u32> = (0..20).filter(|frame| !affected.contains(frame)).collect();
        assert_eq!(right, expected, "{name}: all but what was lost, and what is predicted from it");
        assert!(found.len() >= 19, "{name}: {} pictures", found.len());

        let strict = glassline(&["decode", name, "--md5", "--strict"]);
        assert_eq!(strict.status, Some(1), "{name}");
        let (found, wanted) = (sums(&strict.text()), whole.iter().take(lost as usize));
        assert!(found.iter().take(lost as usize).eq(wanted), "{name}: {found:?}");
    }
    let outcome = glassline(&["decode", &tag, "null:", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&outcome.text()).unwrap();
    for (key, value) in
        [("frames", 20), ("undecodable_frames", 1), ("damaged_places", 0), ("affected_pictures", 2)]
    {
        assert_eq!(report[key], value, "{key}: {report}");
    }
}

/// A picture's time stamp, by its number.
type Stamps<'a> = &'a dyn Fn(u64) -> u64;

#[test]
fn the_rate_of_pictures_is_that_of_their_stamps() {
    let scratch = Scratch::new("decode-rate");
    let (_, bytes, headers) = clip(&scratch);
    let out = scratch.file("out.y4m");
    let variable = |number: u64| number * 50 + number % 2 * 25;
    let all: [(&str, (u32, u32), Stamps<'_>, &str); 5] = [
        ("1/1000 s", (1_000, 1), &|number| number * 40, " F25:1 "),
        ("1/90000 s", (90_000, 1), &|number| number * 3_600, " F25:1 "),
        ("two a picture", (50, 1), &|number| number * 2, " F25:1 "),
        ("of NTSC", (90_000, 1), &|number| number * 3_003, " F30000:1001 "),
        // 19 steps in 975 ms.
        ("variable", (1_000, 1), &variable, " F760:39 "),
    ];
    for (name, base, stamp, expected) in all {
        let mut bytes = bytes.clone();
        bytes[16..20].copy_from_slice(&base.0.to_le_bytes());
        bytes[20..24].copy_from_slice(&base.1.to_le_bytes());
        for (number, at) in headers.iter().enumerate() {
            bytes[at + 4..at + 12].copy_from_slice(&stamp(number as u64).to_le_bytes());
        }
        let file = scratch.write("rate.ivf", &bytes);
        for options in [&["decode", &file, &out][..], &["decode", &file, &out, "--strict"]] {
            let outcome = glassline(options);
            assert_eq!(outcome.status, Some(0), "{name}: {}", outcome.stderr);
            let y4m = std::fs::read(&out).unwrap();
            let header = String::from_utf8_lossy(&y4m[..50]).into_owned();
            assert!(header.contains(expected), "{name}: {header}");
        }
        let piped = run("sh", &["-c", &format!("cat '{file}' | '{GLASSLINE}' decode - -")], 60);
        assert_eq!(piped.status, Some(0), "{name}: {}", piped.stderr);
        assert!(
            piped.stdout == std::fs::read(&out).unwrap(),
            "{name}: a pipe has the same rate and pictures"
        );
    }
}

#[test]
fn what_the_encoder_makes_is_decoded_and_a_limit_says_itself() {
    let scratch = Scratch::new("decode-large");
    let (width, height) = (4_000, 3_000);
    let mut y4m = format!("YUV4MPEG2 W{width} H{height} F25:1 C420jpeg\nFRAME\n").into_bytes();
    y4m.resize(y4m.len() + width * height * 3 / 2, 0x80);
    let (input, file) = (scratch.write("in.y4m", y4m), scratch.file("large.ivf"));
    let outcome = glassline(&["encode", &input, &file, "--codec", "vp8", "--speed", "10"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let outcome = glassline(&["decode", &file, "--md5"]);
    assert_eq!((outcome.status, outcome.text().lines().count()), (Some(0), 1), "{}", outcome.stderr);
    let refused = glassline(&["decode", &file, "--md5", "--max-picture", "4096x2304"]);
    let words = [
        "a picture of 4000x3000 has 12000000 samples",
        "limit on pictures is 9437184",
        "--max-picture 4000x3000",
    ];
    assert_fails(&refused, 1, &words);
    assert!(!refused.stderr.contains("damaged"), "{}", refused.stderr);
    assert_eq!(glassline(&["decode", &file, "--md5", "--max-picture", "4000x3000"]).status, Some(0));
}

#[test]
fn pictures_that_change_their_size_are_scaled() {
    let test = "pictures_that_change_their_size_are_scaled";
    let Some((changing, sums)) = vector(test, "vp80-03-segmentation-1425") else { return };
    let scratch = Scratch::new("decode-scale");
    let out = scratch.file("out.y4m");
    let outcome = glassline(&["decode", &changing, &out, "--scale", "80x61"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let y4m = std::fs::read(&out).unwrap();
    assert!(y4m.starts_with(b"YUV4MPEG2 W80 H61 "), "{:?}", String::from_utf8_lossy(&y4m[..60]));
    let header = y4m.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    assert_eq!(y4m.len(), header + sums.lines().count() * (6 + 80 * 61 + 2 * 40 * 31));
    // What has the size already is not touched.
    let first = sums.lines().next().unwrap();
    let size = first.rsplit('-').nth(1).unwrap();
    let scaled = glassline(&["decode", &changing, "--md5", "--scale", size]).text();
    assert_eq!(scaled.lines().next(), Some(first));
    assert!(scaled.lines().all(|line| line.contains(size)), "{scaled}");
    assert_fails(&glassline(&["decode", &changing, &out, "--scale", "80"]), 2, &["1280x720"]);
}

#[test]
fn probe_looks_into_ivf() {
    let Some((file, _)) = vector("probe_looks_into_ivf", "vp80-03-segmentation-1425") else { return };
    let outcome = glassline(&["probe", &file, "--json"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let report: serde_json::Value = serde_json::from_str(&outcome.text()).unwrap();
    assert_eq!((&report["kind"], &report["codec"]), (&"ivf".into(), &"VP80".into()));
    assert_eq!((&report["frames"], &report["vp8"]["size_changes"]), (&14.into(), &2.into()));
    let table = glassline(&["probe", &file]).text();
    assert!(table.contains("VP80") && table.contains("Key frames"), "{table}");
}
