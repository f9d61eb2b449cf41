//! `probe --watch`: clips with one fault each, made by FFmpeg, raise its alarm alone and end it.

use crate::GLASSLINE;
use glassline_media::bitstream::h264::sei::write_message;
use glassline_media::container::ts::demux::{Demuxer, Event};
use glassline_media::container::ts::{MuxSettings, Muxer};
use glassline_media::{AccessUnit, Codec};
use glassline_test_support::http::get;
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::{has_library, has_program, skip, wait};
use serde_json::Value;
use std::process::Command;

/// 25 pictures a second with a key frame each second; the fault stands from 5 s to 10 s.
pub(crate) const PICTURES: &str = "testsrc2=s=320x180:r=25:d=16";
pub(crate) const SOUND: &str = "aevalsrc=0.2*sin(440*2*PI*t)|0.15*sin(550*2*PI*t):s=48000:d=16";
pub(crate) const CODECS: &str =
    "-c:v libx264 -preset veryfast -g 25 -pix_fmt yuv420p -c:a aac -b:a 128k -f mpegts";

/// Whether FFmpeg and the library are there.
pub(crate) fn can(test: &str) -> bool {
    if !has_program("ffmpeg") {
        skip(test, "ffmpeg is not installed");
        return false;
    }
    if !has_library("libavcodec.so.") {
        skip(test, "libavcodec is not installed");
        return false;
    }
    true
}

/// A clip of `pictures` and `sound` with `filters`, by `codecs`.
pub(crate) fn clip(
    scratch: &Scratch,
    name: &str,
    [pictures, sound]: [&str; 2],
    filters: &[&str],
    codecs: &str,
) -> String {
    let path = scratch.file(name);
    let inputs = ["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", pictures, "-f", "lavfi", "-i", sound];
    let codecs: Vec<&str> = codecs.split(' ').collect();
    let outcome = run("ffmpeg", &[&inputs, filters, &codecs, &[path.as_str()]].concat(), 120);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    path
}

/// The events of a file: alarm, state, seconds since the first event; and the exit status.
pub(crate) fn watch(path: &str, options: &[&str]) -> (Vec<(String, String)>, Vec<f64>, Option<i32>) {
    let outcome = run(GLASSLINE, &[&["probe", path, "--watch", "--json"], options].concat(), 60);
    let events: Vec<Value> = outcome.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let text = |event: &Value, key: &str| event[key].as_str().unwrap().to_owned();
    let second = |event: &Value| {
        assert_eq!(event["stream"], path);
        let at = text(event, "at_utc");
        let (_, clock) = at.trim_end_matches('Z').split_once('T').unwrap();
        let parts: Vec<f64> = clock.split(':').map(|part| part.parse().unwrap()).collect();
        parts[0] * 3600.0 + parts[1] * 60.0 + parts[2]
    };
    let times: Vec<f64> = events.iter().map(second).collect();
    let kinds = events.iter().map(|event| (text(event, "alarm"), text(event, "state"))).collect();
    (kinds, times, outcome.status)
}

/// That `alarm` alone begins and is over, and how long it stood.
pub(crate) fn one(path: &str, alarm: &str, options: &[&str]) -> f64 {
    stood(path, alarm, options).1
}

/// The same, and how much of the clip had passed when it began.
pub(crate) fn stood(path: &str, alarm: &str, options: &[&str]) -> (f64, f64) {
    let began = seconds_of_day(std::time::SystemTime::now());
    let (kinds, times, status) = watch(path, options);
    let expected = ["begun", "over"].map(|state| (alarm.to_owned(), state.to_owned()));
    assert_eq!(kinds, expected, "{path}");
    assert_eq!(status, Some(0), "{path}");
    // The times are of the day.
    let since = |from: f64, to: f64| (to - from).rem_euclid(86_400.0);
    (since(began, times[0]), since(times[0], times[1]))
}

fn seconds_of_day(time: std::time::SystemTime) -> f64 {
    time.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64().rem_euclid(86_400.0)
}

#[test]
fn each_fault_raises_its_alarm_alone_and_ends_it() {
    if !can("each_fault_raises_its_alarm_alone_and_ends_it") {
        return;
    }
    let scratch = Scratch::new("alarms");
    let opposed =
        "aevalsrc=0.2*sin(440*2*PI*t)|0.2*sin(440*2*PI*t)*if(between(t\\,5\\,10)\\,-1\\,1):s=48000:d=16";
    let frozen = "loop=loop=125:size=1:start=125,setpts=N/25/TB,trim=duration=16";
    let flashes = "drawbox=c=white:t=fill:enable='between(t,5,10)*lt(mod(n,4),2)'";
    for (alarm, sound, filters, options) in [
        ("black", SOUND, ["-vf", "drawbox=c=black:t=fill:enable='between(t,5,10)'"], &[][..]),
        ("frozen", SOUND, ["-vf", frozen], &["--alarm", "frozen"]),
        ("flicker", SOUND, ["-vf", flashes], &[]),
        ("silence", SOUND, ["-af", "volume=0:enable='between(t,5,10)'"], &[]),
        ("clipping", SOUND, ["-af", "volume=20dB:enable='between(t,5,10)'"], &[]),
        ("phase", opposed, ["-ac", "2"], &[]),
    ] {
        let path = clip(&scratch, &format!("{alarm}.ts"), [PICTURES, sound], &filters, CODECS);
        let stood = one(&path, alarm, options);
        // From two seconds after the fault to two seconds after its end, each with a key frame's time, and a second that means are of.
        // Flashes are counted again every two seconds.
        let most = if alarm == "flicker" { 9.1 } else { 7.1 };
        assert!((3.0..most).contains(&stood), "{alarm} stood for {stood} s");
    }
    let good = clip(&scratch, "good.ts", [PICTURES, SOUND], &[], CODECS);
    let all = ["--alarm", "frozen"];
    assert_eq!(watch(&good, &all), (vec![], vec![], Some(0)));
}

#[test]
fn other_codecs_are_watched_too() {
    if !can("other_codecs_are_watched_too") {
        return;
    }
    let scratch = Scratch::new("alarms-codecs");
    let black = "drawbox=c=black:t=fill:enable='between(t,5,10)'";
    let filters = ["-vf", black, "-af", "volume=0:enable='between(t,5,10)'"];
    for (name, codecs) in [
        (
            "h265-ac3.ts",
            "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=25 -pix_fmt yuv420p10 -c:a ac3 -f mpegts",
        ),
        ("mpeg2-mp2.ts", "-c:v mpeg2video -g 25 -b:v 2M -c:a mp2 -f mpegts"),
        ("h264-opus.ts", "-c:v libx264 -preset ultrafast -g 25 -pix_fmt yuv420p -c:a libopus -f mpegts"),
    ] {
        let path = clip(&scratch, name, [PICTURES, SOUND], &filters, codecs);
        let (kinds, _, status) = watch(&path, &["--no-alarm", "bitrate"]);
        let mut kinds: Vec<String> =
            kinds.into_iter().map(|(alarm, state)| format!("{alarm} {state}")).collect();
        kinds.sort();
        assert_eq!(kinds, ["black begun", "black over", "silence begun", "silence over"], "{name}");
        assert_eq!(status, Some(0), "{name}");
    }
}

/// The units of a clip.
pub(crate) fn units(path: &str) -> Vec<(u16, AccessUnit)> {
    let mut demuxer = Demuxer::new();
    demuxer.push(&std::fs::read(path).unwrap());
    demuxer.finish();
    let unit = |event| match event {
        Event::AccessUnit { pid, unit, .. } => Some((pid, unit)),
        _ => None,
    };
    std::iter::from_fn(|| demuxer.poll()).filter_map(unit).collect()
}

#[test]
fn what_is_wrong_with_the_stream_itself() {
    if !can("what_is_wrong_with_the_stream_itself") {
        return;
    }
    let scratch = Scratch::new("alarms-stream");
    let good = clip(&scratch, "good.ts", [PICTURES, SOUND], &[], CODECS);
    let bytes = std::fs::read(&good).unwrap();

    // Three packets in the middle are missing.
    let middle = bytes.len() / 188 / 2 * 188;
    let lost = scratch.write("lost.ts", [&bytes[..middle], &bytes[middle + 3 * 188..]].concat());
    let stood = one(&lost, "discontinuity", &[]);
    assert!((1.9..4.0).contains(&stood), "{stood}");

    // A file that ends within the fault: the exit status tells.
    let black = "drawbox=c=black:t=fill:enable='gt(t,10)'";
    let ends = clip(&scratch, "ends.ts", [PICTURES, SOUND], &["-vf", black], CODECS);
    let (kinds, _, status) = watch(&ends, &[]);
    assert_eq!((kinds.len(), status), (1, Some(1)), "{kinds:?}");
    // The same by another limit, and not at all.
    assert_eq!(watch(&ends, &["--alarm", "black,after=10s"]).2, Some(0));
    assert_eq!(watch(&ends, &["--no-alarm", "black"]).2, Some(0));

    // Captions that stop after a while, in front of each picture's first slice.
    let captioned = |until: usize, again: usize| {
        let settings = MuxSettings { video: Some(Codec::H264), ..MuxSettings::default() };
        let mut muxer = Muxer::new(settings).unwrap();
        let mut out = Vec::new();
        let pictures = units(&good).into_iter().filter(|(_, unit)| unit.codec == Codec::H264);
        for (number, (_, mut unit)) in pictures.enumerate() {
            if number < until || number > again {
                let mut data = vec![0, 0, 0, 1, 9, 0xf0];
                write_message(4, b"\xb5\0\x31GA94\x03\x41\xff\xfc\x80\x80\xff", &mut data);
                data.extend_from_slice(&unit.data);
                unit.data = data.into();
            }
            muxer.write(&unit, &mut out).unwrap();
        }
        out
    };
    let path = scratch.write("captions.ts", captioned(75, 325));
    let stood = one(&path, "captions", &["--alarm", "captions=2"]);
    assert!((5.0..9.0).contains(&stood), "{stood}");
    let path = scratch.write("captioned.ts", captioned(usize::MAX, 0));
    assert_eq!(watch(&path, &[]).0, []);
}

#[test]
fn what_cannot_be_watched_is_said() {
    let scratch = Scratch::new("alarms-bad");
    let noise = scratch.write("noise.ts", vec![7u8; 3 << 20]);
    let outcome = run(GLASSLINE, &["probe", &noise, "--watch"], 60);
    assert_eq!(outcome.status, Some(1));
    assert!(outcome.stderr.contains("is not an MPEG transport stream"), "{}", outcome.stderr);
    for (options, words) in [
        (&["--watch", "--alarm", "silenc"][..], "one of silence, clipping"),
        (&["--watch", "--alarm", "silence=3"], "from -110 to 0"),
        (&["--watch", "--no-alarm", "silenc"], "silence"),
        (&["--alarm", "silence"], "--watch"),
        (&["--watch", "--check"], "cannot be used with"),
    ] {
        let outcome = run(GLASSLINE, &[&["probe", &noise], options].concat(), 60);
        assert_eq!(outcome.status, Some(2), "{options:?}");
        assert!(outcome.stderr.contains(words), "{options:?}: {}", outcome.stderr);
    }
}

/// A publisher that goes and returns, and a watch that is ended by a signal.
#[test]
fn a_stream_that_goes_and_comes_back() {
    if !can("a_stream_that_goes_and_comes_back") {
        return;
    }
    let scratch = Scratch::new("alarms-live");
    let good = clip(&scratch, "good.ts", [PICTURES, SOUND], &[], CODECS);
    let server = Server::start(GLASSLINE, &["--open-publish"]);
    let url = server.url("/live/hall.ts");
    let publish = || {
        let mut command = Command::new("ffmpeg");
        command
            .args(["-nostdin", "-v", "error", "-re", "-i", &good, "-c", "copy", "-f", "mpegts", "-y", &url]);
        Running::start(&mut command)
    };
    let mut publisher = publish();
    server.wait_for_pictures("hall");
    let mut command = Command::new(GLASSLINE);
    command.args([
        "probe",
        &url,
        "--watch",
        "--json",
        "--no-alarm",
        "discontinuity",
        "--no-alarm",
        "bitrate",
    ]);
    let mut watch = Running::start(&mut command);
    publisher.kill();
    wait::until("the alarm", || watch.output().contains(r#""alarm":"absent","state":"begun""#));
    let mut publisher = publish();
    wait::until("its end", || watch.output().contains(r#""alarm":"absent","state":"over""#));
    watch.signal("INT");
    assert_eq!(watch.wait().code(), Some(0), "{}", watch.output());
    publisher.kill();
}

/// A server watches its streams without a viewer, and tells of them by log, API and metrics.
#[test]
fn a_server_watches_its_own_streams() {
    if !can("a_server_watches_its_own_streams") {
        return;
    }
    let scratch = Scratch::new("alarms-serve");
    let black = "drawbox=c=black:t=fill:enable='between(t,3,8)'";
    let path = clip(&scratch, "black.ts", [PICTURES, SOUND], &["-vf", black], CODECS);
    let text = "[watch]\nstreams = ['hall', 'missed']\n[watch.discontinuity]\nenabled = false\n";
    let config = scratch.write("glassline.toml", text);
    let server = Server::start(GLASSLINE, &["--config", &config, "--open-publish"]);
    let report = || get(server.address(), "/api/alarms").json();
    let has = |list: &str, stream: &str, alarm: &str, state: &str| {
        let report = report();
        let mut events = report[list].as_array().unwrap().iter();
        events.any(|event| event["stream"] == stream && event["alarm"] == alarm && event["state"] == state)
    };
    wait::until("the stream that is not there", || has("active", "missed", "absent", "begun"));
    let mut publisher =
        Running::start(Command::new("ffmpeg").args(["-nostdin", "-v", "error", "-re", "-i", &path]).args([
            "-c",
            "copy",
            "-f",
            "mpegts",
            "-y",
            &server.url("/live/hall.ts"),
        ]));
    wait::until("the alarm", || has("active", "hall", "black", "begun"));
    let metrics = get(server.address(), "/metrics").text();
    assert!(metrics.contains("glassline_alarm_active{stream=\"hall\",alarm=\"black\"} 1"), "{metrics}");
    wait::until("its end", || has("recent", "hall", "black", "over"));
    publisher.kill();
    wait::until("the publisher's absence", || has("active", "hall", "absent", "begun"));
    let report = report();
    let of_hall = report["recent"].as_array().unwrap().iter().filter(|event| event["stream"] == "hall");
    let unexpected: Vec<_> =
        of_hall.filter(|event| event["alarm"] != "black" && event["alarm"] != "absent").collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
}
