//! `glassline decode`: VP8 in, pictures or checksums out.

use crate::commands::assert_fails;
use crate::glassline;
use glassline_test_support::program::Scratch;
use glassline_test_support::{shared, skip};

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
    assert_fails(&glassline(&["decode", &cut, "null:"]), 1, &["ends inside"]);
    let mut damaged = whole;
    damaged[44] = 0xff;
    let damaged = scratch.write("damaged.ivf", damaged);
    assert_fails(&glassline(&["decode", &damaged, "null:"]), 1, &["frame 0", "version 7"]);
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
