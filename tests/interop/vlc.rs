//! VLC as viewer and as publisher. It has no HTTP push of its own: its TS on standard output goes through curl.

use crate::{GLASSLINE, demo, have, left_out_by_demo, pictures, publish_bunny, serve};
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::wait::{until, until_some};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// An account that owns nothing (Debian's nobody and nogroup).
const NOBODY: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

/// The words that start VLC without a window: as nobody where we are root, which VLC refuses to be.
pub(crate) fn words(home: &Path) -> Vec<String> {
    let is_root = run("id", &["-u"], 10).text().trim() == "0";
    let mut words: Vec<String> = Vec::new();
    if is_root {
        std::fs::set_permissions(home, std::fs::Permissions::from_mode(0o777)).unwrap();
        words.push("setpriv".into());
        words.extend(NOBODY.map(Into::into));
    }
    words.extend(["env".into(), format!("HOME={}", home.display()), "cvlc".into()]);
    words.extend(["-I", "dummy", "--no-dbus", "--no-color", "-vv"].map(Into::into));
    words
}

pub(crate) fn command(words: &[String]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

#[test]
fn vlc_shows_the_demo() {
    if !have("vlc_shows_the_demo", &["cvlc", "setpriv"]) {
        return;
    }
    let server = demo();
    let scratch = Scratch::new("vlc");
    let shown = scratch.file("shown.y4m");
    // What it would put on the screen goes into a file.
    let mut words = words(scratch.path());
    words.extend(
        ["--vout", "yuv", "--yuv-yuv4mpeg2", "--no-drop-late-frames", "--no-skip-frames"].map(Into::into),
    );
    words.push("--yuv-file".into());
    words.push(shown.clone());
    words.extend(
        ["--aout", "dummy", "--no-spu", "--network-caching=300", "--run-time", "3", "--play-and-exit"]
            .map(Into::into),
    );
    words.extend([server.url("/live/demo.ts"), "vlc://quit".into()]);
    let mut vlc = Running::start(&mut command(&words));
    let status = vlc.wait();
    let log = vlc.output();
    assert!(status.success(), "{log}");
    for word in ["using video decoder module \"avcodec\"", "using audio decoder module"] {
        assert!(log.contains(word), "{word:?} is not in {log}");
    }
    for complaint in ["discontinuity", "lost sync", "TS_discontinuity", "libdvbpsi error"] {
        assert!(!log.contains(complaint), "{complaint}: {log}");
    }
    let mut seen = pictures::read_y4m(std::fs::File::open(&shown).unwrap(), usize::MAX);
    // A player may show a picture again until the next one is due.
    seen.dedup_by_key(|seen| seen.map(|seen| seen.frame_number));
    // It is told to leave out none that it decodes too late, as it may on a busy machine: what the stream has is shown.
    let left_out = left_out_by_demo(&server);
    let seen = pictures::check(&seen, 50.0, left_out);
    eprintln!("VLC showed {} pictures of the demo, whose encoder left out {left_out}", seen.len());
}

#[test]
fn vlc_publishes_through_curl() {
    let test = "vlc_publishes_through_curl";
    if !have(test, &["cvlc", "setpriv", "curl", "ffmpeg", "ffprobe"]) {
        return;
    }
    let server = serve();
    // A live source, so that VLC keeps its pace: what FFmpeg publishes here.
    let Some(_source) = publish_bunny(test, &server, "source") else { return };
    let scratch = Scratch::new("vlc");
    let mut words = words(scratch.path());
    words.extend(["--sout".into(), "#std{access=file,mux=ts,dst=-}".into(), server.url("/live/source.ts")]);
    let mut vlc = command(&words)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let curl = Command::new("curl")
        .args(["-sS", "-T", "-", &server.url("/live/vlc.ts")])
        .stdin(vlc.stdout.take().unwrap())
        .stdout(std::process::Stdio::null())
        .spawn();
    server.wait_for_pictures("vlc");
    until("some of it", || server.count("vlc", "bytes_in") > 300_000);
    let url = server.url("/live/vlc.ts");
    let probed = run(
        "ffprobe",
        &["-v", "warning", "-show_entries", "stream=codec_name,width", "-of", "csv", &url],
        60,
    );
    let decoded = run("ffmpeg", &["-v", "error", "-i", &url, "-frames:v", "60", "-f", "null", "-"], 60);
    let _ = vlc.kill();
    let _ = vlc.wait();
    curl.unwrap().wait().unwrap();
    assert!(
        probed.text().contains("h264,1280") && probed.text().contains("aac"),
        "{}{}",
        probed.text(),
        probed.stderr
    );
    assert_eq!((decoded.status, decoded.stderr.trim()), (Some(0), ""));
    assert_eq!(server.count("vlc", "garbage_bytes"), 0);
}

#[test]
fn we_pull_metacube_from_vlc() {
    let test = "we_pull_metacube_from_vlc";
    if !have(test, &["cvlc", "setpriv", "ffmpeg", "ffprobe"]) {
        return;
    }
    let origin = serve();
    let Some(_source) = publish_bunny(test, &origin, "source") else { return };
    let scratch = Scratch::new("vlc");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut words = words(scratch.path());
    let sout = format!("#std{{access=http{{metacube,mime=video/mp2t}},mux=ts,dst=127.0.0.1:{port}/a.ts}}");
    words.extend(["--sout".into(), sout, origin.url("/live/source.ts")]);
    let _vlc = Running::start(&mut command(&words));
    let source = format!("http://127.0.0.1:{port}/a.ts");
    let config = format!("[pull]\nretry_max = '250ms'\n[stream.far]\nsource = '{source}'\n");
    let file = scratch.write("glassline.toml", config);
    let server = Server::start(GLASSLINE, &["--config", &file]);
    server.wait_for_pictures("far");
    let url = server.url("/live/far.ts");
    let decoded = run("ffmpeg", &["-v", "error", "-i", &url, "-frames:v", "60", "-f", "null", "-"], 60);
    assert_eq!((decoded.status, decoded.stderr.trim()), (Some(0), ""));
    let far = server.stream("far").unwrap();
    assert_eq!((far["source"]["metacube"] == true, far["source"]["garbage_bytes"].as_u64()), (true, Some(0)));
}

/// What VLC counts of a stream that it plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Statistics {
    pub(crate) corrupted: u64,
    pub(crate) discontinuities: u64,
    pub(crate) decoded: u64,
    pub(crate) lost: u64,
}

/// The number behind `name` in the answer to VLC's command `stats`.
fn count(answer: &str, name: &str) -> Option<u64> {
    let line = answer.lines().find(|line| line.trim_start_matches('|').trim_start().starts_with(name))?;
    line.split_once(':')?.1.split_whitespace().next()?.parse().ok()
}

/// Plays a file of so many `pictures` until VLC counts no more, and returns what it has counted, as it tells over its
/// control socket. On a busy machine it is late; it is told to leave nothing out for that.
pub(crate) fn play_to_the_end(scratch: &Scratch, file: &str, pictures: u64) -> Statistics {
    let control = scratch.file("control");
    let mut words = words(scratch.path());
    words.retain(|word| word != "-I" && word != "dummy" && word != "-vv");
    words.extend(["-I", "oldrc", "--rc-fake-tty", "--rc-unix", &control].map(Into::into));
    words.extend(
        ["--vout", "vdummy", "--aout", "adummy", "--no-spu", "--no-drop-late-frames", "--no-skip-frames"]
            .map(Into::into),
    );
    words.extend(["--play-and-pause".into(), file.into()]);
    let mut vlc = Running::start(&mut command(&words));
    let (mut last, mut same) = (None, 0);
    let statistics = until_some("VLC's count of the whole file", || {
        let found = ask(&control);
        assert!(found.is_some() || vlc.ended().is_none(), "VLC has ended: {}", vlc.output());
        let found = found?;
        same = if last.replace(found) == Some(found) && found.decoded > 0 { same + 1 } else { 0 };
        // A count that stands still for two seconds is final, but if there should be more: then for 15.
        (same >= 8 && found.decoded >= pictures || same >= 60).then_some(found)
    });
    vlc.kill();
    statistics
}

/// Asks for the counts; `None` where nothing plays yet.
fn ask(control: &str) -> Option<Statistics> {
    std::thread::sleep(Duration::from_millis(250));
    let mut socket = UnixStream::connect(control).ok()?;
    socket.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    socket.write_all(b"stats\n").ok()?;
    let mut answer = String::new();
    let mut lines = BufReader::new(socket);
    while !answer.contains("end of statistical info") {
        if lines.read_line(&mut answer).ok()? == 0 {
            return None;
        }
    }
    Some(Statistics {
        corrupted: count(&answer, "demux corrupted")?,
        discontinuities: count(&answer, "discontinuities")?,
        decoded: count(&answer, "video decoded")?,
        lost: count(&answer, "frames lost")?,
    })
}
