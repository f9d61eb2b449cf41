//! The rules, held against what FFmpeg and x264 make: a constant rate keeps them, a key frame that bursts does not.
#![allow(clippy::disallowed_types, clippy::unwrap_used, reason = "tests run FFmpeg")]

use glassline_media::container::ts::conformance::{Checker, Profile, Rule, Verdict};
use glassline_test_support::{has_program, skip};
use std::process::Command;

/// Ten seconds of 640×360 at 25 pictures a second, coded and muxed as `arguments` say.
fn checked(test: &str, x264: &str, arguments: &[&str]) -> Option<Checker> {
    if !has_program("ffmpeg") {
        skip(test, "ffmpeg is not installed");
        return None;
    }
    let output = Command::new("ffmpeg")
        .args(["-v", "error", "-f", "lavfi", "-i", "testsrc2=size=640x360:rate=25:duration=10"])
        .args(["-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-x264-params", x264])
        .args(arguments)
        .args(["-f", "mpegts", "-"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut checker = Checker::new(Profile::Dvb);
    output.stdout.chunks(10_000).for_each(|part| checker.push(part));
    checker.finish();
    Some(checker)
}

fn broken(checker: &Checker) -> Vec<Verdict> {
    checker.verdicts().into_iter().filter(|verdict| verdict.broken > 0).collect()
}

#[test]
fn a_constant_rate_of_pictures_of_constant_size_keeps_the_rules() {
    let x264 = "bitrate=1500:vbv-maxrate=1500:vbv-bufsize=60:keyint=25:intra-refresh=1:nal-hrd=none:filler=1:level=3.0";
    let mux = ["-muxrate", "2000k", "-pcr_period", "20", "-pat_period", "0.1"];
    let Some(checker) = checked("a_constant_rate_of_pictures_of_constant_size_keeps_the_rules", x264, &mux)
    else {
        return;
    };
    assert_eq!(checker.is_constant_rate(), Some(true));
    assert_eq!(broken(&checker), [], "{:?}", checker.buffers());
    let accuracy = checker.verdicts()[Rule::PcrAccuracy as usize];
    assert!(accuracy.checked > 400 && accuracy.worst.unwrap() < 100.0, "{accuracy:?}");
    assert!(checker.buffers().units > 230, "{:?}", checker.buffers());
}

#[test]
fn key_frames_that_burst_overrun_the_buffers_of_a_low_level() {
    // Level 1.2 allows 460 kbit/s; the pictures have more, whatever their parameter set says.
    let x264 = "bitrate=3000:keyint=25:level=1.2";
    let Some(checker) = checked("key_frames_that_burst_overrun_the_buffers_of_a_low_level", x264, &[]) else {
        return;
    };
    let rules: Vec<Rule> = broken(&checker).iter().map(|verdict| verdict.rule).collect();
    assert!(rules.contains(&Rule::TransportBuffer), "{rules:?}");
    assert!(!rules.contains(&Rule::Continuity) && !rules.contains(&Rule::DtsOrder), "{rules:?}");
}
