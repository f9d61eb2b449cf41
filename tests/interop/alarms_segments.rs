//! `probe --watch` of playlists and manifests: those of FFmpeg behind a small server, and those of our own.

use crate::GLASSLINE;
use crate::alarms::{CODECS, PICTURES, SOUND, can, clip, watch};
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::wait;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

/// What a server answers: the body, or nothing.
type Answers = Arc<dyn Fn(&str) -> Option<Vec<u8>> + Send + Sync>;

/// A server that keeps its connections, and gives `answers` of the paths that it is asked for. Ends with the test's process.
fn serve(answers: Answers) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let answers = Arc::clone(&answers);
            let stream = stream.unwrap();
            std::thread::spawn(move || answer(stream, &answers));
        }
    });
    format!("http://{address}")
}

fn answer(mut stream: TcpStream, answers: &Answers) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let (mut head, mut range) = (String::new(), None);
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let path = head.split(' ').nth(1).unwrap().split('?').next().unwrap().to_owned();
        for line in head.lines() {
            if let Some(bytes) = line.strip_prefix("Range: bytes=") {
                let (from, to) = bytes.split_once('-').unwrap();
                range = Some(from.parse::<usize>().unwrap()..to.parse::<usize>().unwrap() + 1);
            }
        }
        let (status, body) = match (answers(&path), range) {
            (Some(body), Some(range)) => ("206 Partial Content", body[range].to_vec()),
            (Some(body), None) => ("200 OK", body),
            (None, _) => ("404 Not Found", Vec::new()),
        };
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
        if stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)).is_err() {
            return;
        }
    }
}

fn folder(path: PathBuf) -> Answers {
    Arc::new(move |name| std::fs::read(path.join(name.trim_start_matches('/'))).ok())
}

/// A clip that is black for five seconds, silent for two of them more.
fn faulty(scratch: &Scratch) -> String {
    let filters = [
        "-vf",
        "drawbox=c=black:t=fill:enable='between(t,5,10)'",
        "-af",
        "volume=0:enable='between(t,5,11)'",
    ];
    clip(scratch, "faulty.mp4", [PICTURES, SOUND], &filters, &CODECS.replace("-f mpegts", "-f mp4"))
}

fn kinds(path: &str, options: &[&str]) -> (Vec<String>, Option<i32>) {
    let (kinds, _, status) = watch(path, options);
    let mut kinds: Vec<String> = kinds.into_iter().map(|(alarm, state)| format!("{alarm} {state}")).collect();
    kinds.sort();
    (kinds, status)
}

#[test]
fn recordings_that_ffmpeg_has_cut_raise_the_alarms_of_the_clip() {
    if !can("recordings_that_ffmpeg_has_cut_raise_the_alarms_of_the_clip") {
        return;
    }
    let scratch = Scratch::new("alarms-cut");
    let faulty = faulty(&scratch);
    let server = serve(folder(scratch.path().to_owned()));
    let hls = "-f hls -hls_time 2 -hls_playlist_type vod";
    let expected = ["black begun", "black over", "silence begun", "silence over"];
    for (name, options) in [
        ("ts.m3u8", format!("-c copy {hls}")),
        ("one.m3u8", format!("-c copy {hls} -hls_flags single_file")),
        ("mp4.m3u8", format!("-c copy {hls} -hls_segment_type fmp4 -hls_fmp4_init_filename init.mp4")),
        ("one-mp4.m3u8", format!("-c copy {hls} -hls_segment_type fmp4 -hls_flags single_file")),
        ("manifest.mpd", "-c copy -f dash -seg_duration 2".to_owned()),
        ("number.mpd", "-c copy -f dash -seg_duration 2 -use_timeline 0 -init_seg_name n$RepresentationID$.m4s -media_seg_name n$RepresentationID$-$Number$.m4s".to_owned()),
        ("list.mpd", "-c copy -f dash -seg_duration 2 -single_file 1 -use_template 0 -use_timeline 0".to_owned()),
    ] {
        let path = scratch.file(name);
        let options: Vec<&str> = options.split(' ').collect();
        let arguments = ["-nostdin", "-v", "error", "-y", "-i", &faulty];
        let made = run("ffmpeg", &[&arguments[..], &options, &[&path]].concat(), 60);
        assert_eq!(made.status, Some(0), "{name}: {}", made.stderr);
        let (kinds, status) = kinds(&format!("{server}/{name}"), &[]);
        assert_eq!((kinds.as_slice(), status), (&expected.map(str::to_owned)[..], Some(0)), "{name}");
    }
}

/// The best version, with sound in a playlist of its own.
#[test]
fn the_best_version_is_watched_with_its_sound() {
    if !can("the_best_version_is_watched_with_its_sound") {
        return;
    }
    let scratch = Scratch::new("alarms-versions");
    let faulty = faulty(&scratch);
    let path = scratch.file("v%v.m3u8");
    // The low version is black throughout.
    let arguments = [
        "-nostdin",
        "-v",
        "error",
        "-y",
        "-i",
        &faulty,
        "-map",
        "0:v",
        "-map",
        "0:v",
        "-map",
        "0:a",
        "-c:v:0",
        "copy",
        "-c:v:1",
        "libx264",
        "-preset:v:1",
        "ultrafast",
        "-filter:v:1",
        "drawbox=c=black:t=fill",
        "-g:v:1",
        "25",
        "-b:v:1",
        "100k",
        "-c:a",
        "copy",
        "-f",
        "hls",
        "-hls_time",
        "2",
        "-hls_playlist_type",
        "vod",
        "-master_pl_name",
        "master.m3u8",
        "-var_stream_map",
        "v:1,agroup:s v:0,agroup:s a:0,agroup:s,default:yes",
        &path,
    ];
    let made = run("ffmpeg", &arguments, 60);
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    let server = serve(folder(scratch.path().to_owned()));
    let url = format!("{server}/master.m3u8");
    let (found, status) = kinds(&url, &[]);
    assert_eq!(found, ["black begun", "black over", "silence begun", "silence over"]);
    assert_eq!(status, Some(0));
    let outcome = run(GLASSLINE, &["probe", &url, "--watch"], 60);
    assert!(outcome.stderr.contains("watching the best of 2 versions, 320x180"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("with the sound"), "{}", outcome.stderr);
}

/// Our own server, live: segments of both kinds, parts, and a manifest.
#[test]
fn our_own_playlists_are_watched_live() {
    if !can("our_own_playlists_are_watched_live") {
        return;
    }
    let scratch = Scratch::new("alarms-own");
    let black = "drawbox=c=black:t=fill:enable='between(t,6,10)'";
    let path = clip(&scratch, "black.ts", [PICTURES, SOUND], &["-vf", black], CODECS);
    let config = scratch.write("glassline.toml", "[package]\non_demand = false\nsegment = '1s'\n");
    let server = Server::start(GLASSLINE, &["--config", &config, "--open-publish"]);
    let mut publisher = Running::start(
        Command::new("ffmpeg")
            .args(["-nostdin", "-v", "error", "-re", "-i", &path, "-c", "copy", "-f", "mpegts", "-y"])
            .arg(server.url("/live/hall.ts")),
    );
    server.wait_for_pictures("hall");
    wait::until("segments", || {
        glassline_test_support::http::get(server.address(), "/live/hall/ts.m3u8").text().contains("#EXTINF")
    });
    let watched = ["index.m3u8", "ts.m3u8", "manifest.mpd"];
    let mut watches = watched.map(|name| {
        let url = server.url(&format!("/live/hall/{name}"));
        // A clip's complexity changes with its content.
        let options = ["--watch", "--json", "--no-alarm", "bitrate"];
        Running::start(Command::new(GLASSLINE).args(["probe", &url]).args(options))
    });
    for (name, watch) in watched.iter().zip(&mut watches) {
        let has = |watch: &Running, alarm: &str, state: &str| {
            watch.output().contains(&format!(r#""alarm":"{alarm}","state":"{state}""#))
        };
        wait::until(name, || has(watch, "black", "begun"));
        wait::until(name, || has(watch, "black", "over"));
        wait::until(name, || has(watch, "absent", "begun"));
        watch.signal("INT");
        assert_eq!(watch.wait().code(), Some(1), "{name}: {}", watch.output());
        let told = watch.output().lines().filter(|line| line.contains("\"state\":\"begun\"")).count();
        assert_eq!(told, 2, "{name}: {}", watch.output());
    }
    publisher.kill();
}

/// What a live playlist is made to list.
#[derive(Default)]
struct Live {
    newest: usize,
    /// Segments that are listed and not there, and those that are announced as gaps.
    missing: Vec<usize>,
    gaps: Vec<usize>,
    is_gone: bool,
}

#[test]
fn missing_segments_gaps_and_playlists_that_stand_still() {
    if !can("missing_segments_gaps_and_playlists_that_stand_still") {
        return;
    }
    let scratch = Scratch::new("alarms-live-segments");
    let good =
        clip(&scratch, "good.ts", ["testsrc2=s=320x180:r=25:d=30", "sine=440:r=48000:d=30"], &[], CODECS);
    let path = scratch.file("all.m3u8");
    let hls = ["-c", "copy", "-f", "hls", "-hls_time", "1", "-hls_playlist_type", "vod", &path];
    let made = run("ffmpeg", &[&["-nostdin", "-v", "error", "-y", "-i", &good][..], &hls].concat(), 60);
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    let live = Arc::new(Mutex::new(Live { newest: 2, ..Live::default() }));
    let (files, state) = (folder(scratch.path().to_owned()), Arc::clone(&live));
    let server = serve(Arc::new(move |name| {
        let live = state.lock().unwrap();
        let number = || name.trim_start_matches("/all").trim_end_matches(".ts").parse().ok();
        if name != "/live.m3u8" {
            return files(name).filter(|_| number().is_none_or(|number| !live.missing.contains(&number)));
        }
        let from = live.newest.saturating_sub(3);
        let mut text = format!("#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXT-X-MEDIA-SEQUENCE:{from}\n");
        for number in from..=live.newest {
            let gap = if live.gaps.contains(&number) { "#EXT-X-GAP\n" } else { "" };
            text += &format!("{gap}#EXTINF:1,\nall{number}.ts\n");
        }
        (!live.is_gone).then(|| text.into_bytes())
    }));
    let mut watch = Running::start(Command::new(GLASSLINE).args([
        "probe",
        &format!("{server}/live.m3u8"),
        "--watch",
        "--json",
        "--no-alarm",
        "bitrate",
    ]));
    let told = |watch: &Running, alarm: &str, state: &str| {
        watch.output().matches(&format!(r#""alarm":"{alarm}","state":"{state}""#)).count()
    };
    // A segment each second, as the server of a live stream lists it, until something is told.
    let goes_on = |watch: &Running, what: &str, alarm: &str, state: &str, count: usize| {
        let mut at = std::time::Instant::now();
        wait::until(what, || {
            if at.elapsed().as_millis() >= 1000 {
                at = std::time::Instant::now();
                live.lock().unwrap().newest += 1;
            }
            told(watch, alarm, state) == count
        });
    };
    wait::until("the watch", || watch.output().contains("watching"));
    {
        let mut live = live.lock().unwrap();
        let next = live.newest + 2;
        live.gaps.push(next);
    }
    goes_on(&watch, "a gap", "discontinuity", "begun", 1);
    goes_on(&watch, "its end", "discontinuity", "over", 1);
    {
        let mut live = live.lock().unwrap();
        let next = live.newest + 2;
        live.missing.push(next);
    }
    goes_on(&watch, "a missing segment", "discontinuity", "begun", 2);
    goes_on(&watch, "its end", "discontinuity", "over", 2);
    assert_eq!(told(&watch, "absent", "begun"), 0, "{}", watch.output());
    // The playlist stands still, and then it is not there.
    wait::until("a playlist that stands still", || told(&watch, "absent", "begun") == 1);
    goes_on(&watch, "its return", "absent", "over", 1);
    live.lock().unwrap().is_gone = true;
    wait::until("a playlist that is gone", || told(&watch, "absent", "begun") == 2);
    watch.signal("INT");
    watch.wait();
    let begun = watch.output().matches("\"begun\"").count();
    assert_eq!(begun, 4, "{}", watch.output());
}

#[test]
fn what_cannot_be_followed_is_said() {
    let key = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXT-X-KEY:METHOD=AES-128,URI=\"k\"\n#EXTINF:1,\na.ts\n";
    let text = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\na.vtt\n#EXT-X-ENDLIST\n";
    let server = serve(Arc::new(move |name| {
        let body = match name {
            "/key.m3u8" => key,
            "/none.m3u8" => "<html>",
            "/none.mpd" => "<MPD/>",
            "/text.m3u8" => text,
            "/a.vtt" => "WEBVTT\n\n00:00.000 --> 00:01.000\nHello\n",
            _ => return None,
        };
        Some(body.as_bytes().to_vec())
    }));
    for (name, words) in [
        ("key.m3u8", "encrypted"),
        ("none.m3u8", "no playlist of HLS"),
        ("none.mpd", "tells of no segments"),
        ("text.m3u8", "subtitles, which are not watched"),
        ("text.m3u8", "can be watched"),
        ("absent.m3u8", "404"),
    ] {
        let outcome = run(GLASSLINE, &["probe", &format!("{server}/{name}"), "--watch"], 60);
        assert_eq!(outcome.status, Some(1), "{name}");
        assert!(outcome.stderr.contains(words), "{name}: {}", outcome.stderr);
    }
    let outcome = run(GLASSLINE, &["probe", &format!("{server}/key.m3u8"), "--duration", "1s"], 60);
    assert!(outcome.stderr.contains("is a playlist"), "{}", outcome.stderr);
}
