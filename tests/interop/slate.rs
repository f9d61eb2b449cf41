//! The slate of a stream, as FFmpeg sees it: publishers come and go, and viewers get pictures all the time.

use crate::{GLASSLINE, have};
use glassline_media::container::ts::{Continuity, ContinuityChecker, PACKET_BYTES, Packet};
use glassline_test_support::http::{connect, get, read_head, read_once};
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::wait::until;
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Ticks of one picture at 25 a second.
const STEP: i64 = 3600;

fn picture(scratch: &Scratch, name: &str, colour: &str) -> String {
    let (file, input) = (scratch.file(name), format!("color=c={colour}:s=320x180"));
    let arguments = ["-v", "error", "-y", "-f", "lavfi", "-i", &input, "-frames:v", "1", &file];
    assert_eq!(run("ffmpeg", &arguments, 60).status, Some(0));
    file
}

fn serve(scratch: &Scratch, stream: &str) -> Server {
    let file = scratch.write("glassline.toml", format!("[stream.hall]\n{stream}\n"));
    Server::start(GLASSLINE, &["--config", &file])
}

/// A publisher of blue pictures with sound, two B-pictures between others, in real time.
fn publisher(server: &Server, seconds: &str, options: &[&str]) -> Running {
    let mut command = Command::new("ffmpeg");
    command
        .args(["-v", "error", "-re", "-f", "lavfi", "-i", "color=c=blue:s=320x180:r=25"])
        .args([
            "-f",
            "lavfi",
            "-i",
            "sine=440:r=48000",
            "-t",
            seconds,
            "-c:v",
            "libx264",
            "-preset",
            "ultrafast",
        ])
        .args(["-g", "25", "-bf", "2", "-pix_fmt", "yuv420p", "-c:a", "aac", "-f", "mpegts"])
        .args(options)
        .arg(server.url("/live/hall.ts"))
        .stdin(Stdio::null());
    Running::start(&mut command)
}

fn slate(server: &Server, field: &str) -> Value {
    server.stream("hall").map_or(Value::Null, |stream| stream["slate"][field].clone())
}

fn until_shown(server: &Server, times: u64) {
    until("the slate", || slate(server, "on_air") == true && slate(server, "times").as_u64() >= Some(times));
}

fn until_over(server: &Server) {
    until("the publisher's pictures", || slate(server, "on_air") == false);
}

fn until_seconds(server: &Server, seconds: u64) {
    until("some seconds of the slate", || slate(server, "seconds").as_u64() >= Some(seconds));
}

/// A viewer that keeps all that it gets until it is ended.
struct Viewer {
    bytes: Arc<Mutex<Vec<u8>>>,
    is_over: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Viewer {
    fn new(server: &Server) -> Viewer {
        let mut connection = connect(server.address());
        write!(connection, "GET /live/hall.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        assert_eq!(read_head(&mut connection).status, 200);
        let (bytes, is_over) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::<AtomicBool>::default());
        let (kept, over) = (Arc::clone(&bytes), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            while !over.load(Ordering::Acquire) {
                match read_once(&mut connection, &mut buffer) {
                    Ok(0) | Err(_) => return,
                    Ok(count) => kept.lock().unwrap().extend_from_slice(&buffer[..count]),
                }
            }
        });
        Viewer { bytes, is_over, thread }
    }

    fn end(self) -> Vec<u8> {
        self.is_over.store(true, Ordering::Release);
        self.thread.join().unwrap();
        let mut bytes = std::mem::take(&mut *self.bytes.lock().unwrap());
        bytes.truncate(bytes.len() / PACKET_BYTES * PACKET_BYTES);
        bytes
    }
}

/// The colours of the pictures in a file, in order, each once for as long as it stays.
fn colours(input: &str, options: &[&str]) -> Vec<&'static str> {
    let to =
        ["-an", "-vf", "scale=1:1", "-fps_mode", "passthrough", "-pix_fmt", "rgb24", "-f", "rawvideo", "-"];
    let arguments = [&["-v", "error"], options, &["-i", input], &to].concat();
    let outcome = run("ffmpeg", &arguments, 60);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    assert_eq!(outcome.stderr.trim(), "", "FFmpeg complains");
    seen(&outcome.stdout)
}

fn seen(pixels: &[u8]) -> Vec<&'static str> {
    let mut seen: Vec<_> = pixels.as_chunks().0.iter().copied().map(colour).collect();
    seen.dedup();
    seen
}

fn colour([red, green, blue]: [u8; 3]) -> &'static str {
    match (red > 128, green > 128, blue > 128) {
        (true, false, false) => "red",
        (false, true, false) => "green",
        (false, false, true) => "blue",
        _ => "another",
    }
}

fn stamps(file: &str, kind: &str) -> Vec<i64> {
    let arguments =
        ["-v", "error", "-select_streams", kind, "-show_entries", "packet=pts", "-of", "json", file];
    let report: Value = serde_json::from_str(&run("ffprobe", &arguments, 60).text()).unwrap();
    report["packets"].as_array().unwrap().iter().filter_map(|packet| packet["pts"].as_i64()).collect()
}

fn assert_unbroken(file: &str, bytes: &[u8]) {
    let mut checker = ContinuityChecker::new();
    for packet in bytes.as_chunks::<PACKET_BYTES>().0 {
        let packet = Packet::parse(packet).unwrap();
        assert!(!matches!(checker.check(&packet), Continuity::Lost { .. }), "on {:#x}", packet.pid);
    }
    let mut pictures = stamps(file, "v");
    pictures.sort_unstable();
    // The viewer may have been ended in front of B-pictures that are presented before its last picture.
    pictures.truncate(pictures.len() - 3);
    let steps = pictures.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(steps.clone().all(|step| (1..=2 * STEP).contains(&step)), "{:?}", steps.collect::<Vec<_>>());
    let sound = stamps(file, "a");
    assert!(sound.windows(2).all(|pair| (1..=20_000).contains(&(pair[1] - pair[0]))), "{sound:?}");
}

#[test]
fn viewers_see_the_slate_until_the_publisher_is_back() {
    if !have("viewers_see_the_slate_until_the_publisher_is_back", &["ffmpeg", "ffprobe"]) {
        return;
    }
    let scratch = Scratch::new("slate");
    picture(&scratch, "red.png", "red");
    // A publisher that the machine holds up in the middle is not taken for a silent one.
    let server = serve(&scratch, "slate = 'red.png'\nslate_after = '30s'");
    until_shown(&server, 1);
    assert_eq!(server.stream("hall").unwrap()["live"], false);
    let viewer = Viewer::new(&server);
    until_seconds(&server, 2);
    publisher(&server, "3", &[]).wait();
    until_shown(&server, 2);
    let so_far = slate(&server, "seconds").as_u64().unwrap();
    until_seconds(&server, so_far + 2);
    publisher(&server, "3", &["-output_ts_offset", "5000"]).wait();
    until_shown(&server, 3);
    let so_far = slate(&server, "seconds").as_u64().unwrap();
    until_seconds(&server, so_far + 1);
    let metrics = server.metrics();
    assert_eq!(metrics.sum("glassline_stream_slates_total", "stream=\"hall\""), 3.0);
    assert_eq!(metrics.sum("glassline_stream_publishers_total", "stream=\"hall\""), 2.0);
    let bytes = viewer.end();
    let file = scratch.write("seen.ts", &bytes);
    assert_eq!(colours(&file, &[]), ["red", "blue", "red", "blue", "red"]);
    assert_unbroken(&file, &bytes);
}

#[test]
fn a_publisher_that_stands_still_is_replaced_and_comes_back() {
    if !have("a_publisher_that_stands_still_is_replaced_and_comes_back", &["ffmpeg", "ffprobe"]) {
        return;
    }
    let scratch = Scratch::new("slate-silent");
    picture(&scratch, "red.png", "red");
    let server = serve(&scratch, "slate = 'red.png'\nslate_after = '500ms'");
    until_shown(&server, 1);
    // Without B-pictures, which would be missing where it stands still behind the picture that follows them.
    let mut publisher = publisher(&server, "60", &["-bf", "0"]);
    until_over(&server);
    let viewer = Viewer::new(&server);
    for times in 2..4 {
        publisher.signal("STOP");
        until_shown(&server, times);
        assert_eq!(server.stream("hall").unwrap()["live"], true, "it still has the name");
        publisher.signal("CONT");
        until_over(&server);
    }
    publisher.kill();
    until_shown(&server, 4);
    let bytes = viewer.end();
    let file = scratch.write("seen.ts", &bytes);
    assert_eq!(colours(&file, &[])[..5], ["blue", "red", "blue", "red", "blue"]);
    assert_unbroken(&file, &bytes);
}

#[test]
fn segments_go_on_through_the_changes_and_a_reload_shows_another_slate() {
    if !have("segments_go_on_through_the_changes_and_a_reload_shows_another_slate", &["ffmpeg"]) {
        return;
    }
    let scratch = Scratch::new("slate-segments");
    picture(&scratch, "red.png", "red");
    picture(&scratch, "green.png", "lime");
    // A publisher that the machine holds up in the middle is not taken for a silent one.
    let server = serve(&scratch, "slate = 'red.png'\nslate_after = '30s'");
    until_shown(&server, 1);
    let playlist = |name: &str| get(server.address(), &format!("/live/hall/{name}")).text();
    until("segments of the slate", || playlist("ts.m3u8").matches("#EXTINF").count() >= 2);
    let seconds = ["-v", "error", "-live_start_index", "0", "-i"];
    let to = [
        "-an",
        "-vf",
        "scale=1:1",
        "-fps_mode",
        "passthrough",
        "-pix_fmt",
        "rgb24",
        "-f",
        "rawvideo",
        // Each picture is in the file once it is shown.
        "-flush_packets",
        "1",
    ];
    let pixels = scratch.file("pixels");
    let mut player = Command::new("ffmpeg");
    player.args(seconds).arg(server.url("/live/hall/ts.m3u8")).args(to).args(["-y", &pixels]);
    let mut player = Running::start(&mut player);
    publisher(&server, "4", &[]).wait();
    until_shown(&server, 2);
    scratch.write("glassline.toml", "[stream.hall]\nslate = 'green.png'\nslate_after = '30s'\n");
    server.process.signal("HUP");
    let shown = || seen(&std::fs::read(&pixels).unwrap_or_default());
    until("the other slate at the player", || shown().contains(&"green"));
    player.kill();
    assert_eq!(shown(), ["red", "blue", "red", "green"]);
    let all = [playlist("index.m3u8"), get(server.address(), "/live/hall/1/index.m3u8").text()].concat();
    assert!(!all.contains("#EXT-X-ENDLIST"), "{all}");
}

#[test]
fn a_transport_stream_is_repeated_as_slate() {
    if !have("a_transport_stream_is_repeated_as_slate", &["ffmpeg", "ffprobe"]) {
        return;
    }
    let scratch = Scratch::new("slate-file");
    let file = scratch.file("loop.ts");
    let inputs = "-v error -y -f lavfi -i color=c=red:s=320x180:r=25 -f lavfi -i sine=440:r=48000 -t 1";
    let coding = "-c:v libx264 -preset ultrafast -bf 2 -pix_fmt yuv420p -c:a aac -f mpegts";
    let words: Vec<_> = inputs.split(' ').chain(coding.split(' ')).chain([file.as_str()]).collect();
    assert_eq!(run("ffmpeg", &words, 60).status, Some(0));
    let server = serve(&scratch, "slate = 'loop.ts'");
    until_shown(&server, 1);
    let viewer = Viewer::new(&server);
    let so_far = slate(&server, "seconds").as_u64().unwrap();
    until_seconds(&server, so_far + 4);
    let bytes = viewer.end();
    let seen = scratch.write("seen.ts", &bytes);
    assert_eq!(colours(&seen, &[]), ["red"]);
    assert_unbroken(&seen, &bytes);
}

#[test]
fn a_file_that_is_no_slate_is_refused_with_the_configuration() {
    let scratch = Scratch::new("slate-refused");
    scratch.write("broken.png", b"\x89PNG\r\n\x1a\n");
    scratch.write("broken.ts", [0x47; 188]);
    let refused = |stream: &str| {
        let file = scratch.write("glassline.toml", format!("[stream.hall]\n{stream}\n"));
        let outcome = run(GLASSLINE, &["serve", "--config", &file, "--test-config"], 60);
        assert_eq!(outcome.status, Some(2), "{}", outcome.stderr);
        outcome.stderr
    };
    assert!(refused("slate = 'absent.png'").contains("stream.hall.slate"));
    assert!(refused("slate = 'broken.png'").contains("no PNG picture"));
    assert!(refused("slate = 'broken.ts'").contains("no MPEG transport stream"));
    assert!(refused("slate = 'film.gif'").contains(".png"));
    assert!(refused("slate_after = '1s'").contains("slate_after"));
    assert!(refused("slate = 'a.png'\nslate_after = '10ms'").contains("slate_after"));
}
