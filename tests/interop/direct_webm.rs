//! Direct video in AV1 as WebM: FFmpeg decodes it without a word, whatever was lost on the way, and Chromium plays it and seeks in
//! it, also where a crash has torn it.

use crate::direct_av1::send_into;
use crate::{GLASSLINE, have};
use glassline_test_support::program::{Running, Scratch, run};
use glassline_test_support::wait::{until, until_some};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// What FFmpeg's tools print of a file, which must have nothing to complain of.
fn silent(program: &str, arguments: &[&str]) -> String {
    let said = run(program, &[&["-v", "warning"], arguments].concat(), 60);
    assert_eq!((said.status, said.stderr.as_str()), (Some(0), ""), "{program} {arguments:?}");
    said.text()
}

/// The frames of a stream (`v`, `a`) that FFmpeg decodes.
fn decoded(film: &str, stream: &str) -> u64 {
    let text = silent("ffmpeg", &["-i", film, "-map", &format!("0:{stream}"), "-f", "framemd5", "-"]);
    text.lines().filter(|line| !line.starts_with('#')).count() as u64
}

fn probed(film: &str, entries: &str) -> Value {
    serde_json::from_str(&silent("ffprobe", &["-show_entries", entries, "-of", "json", film])).unwrap()
}

#[test]
fn a_webm_file_of_a_lossy_way_has_every_picture_and_the_sound_and_ffmpeg_has_no_complaint() {
    let test = "a_webm_file_of_a_lossy_way_has_every_picture_and_the_sound_and_ffmpeg_has_no_complaint";
    if !have(test, &["ffmpeg", "ffprobe"]) {
        return;
    }
    let scratch = Scratch::new("direct-webm");
    let film = scratch.file("film.webm");
    let (sent, received, lost) = send_into(&film);
    assert!(lost > 0 && sent["lost"].as_u64() > Some(0), "{lost} packets lost, {sent}");
    assert_eq!(received["damaged"].as_u64(), Some(0), "{received}");
    let pictures = decoded(&film, "v");
    let shown = received["shown"].as_u64().unwrap();
    assert!(pictures >= shown && pictures > 40, "{pictures} frames of {shown} pictures");
    let told =
        probed(&film, "stream=codec_name,width,height,sample_rate,channels:format=format_name,duration");
    let streams = &told["streams"];
    assert_eq!(
        (&streams[0]["codec_name"], &streams[1]["codec_name"]),
        (&json!("av1"), &json!("opus")),
        "{told}"
    );
    assert_eq!((&streams[0]["width"], &streams[0]["height"]), (&json!(640), &json!(360)), "{told}");
    assert_eq!((&streams[1]["sample_rate"], &streams[1]["channels"]), (&json!("48000"), &json!(2)), "{told}");
    let duration: f64 = told["format"]["duration"].as_str().unwrap().parse().unwrap();
    assert!((3.0..5.0).contains(&duration), "{told}");
    // Sound of the whole time, in packets of 5 ms.
    let sounds = decoded(&film, "a");
    assert!((600..1000).contains(&sounds), "{sounds} packets of sound in {duration} s");
    // Not a block is missing: packets are as many as frames.
    let packets = probed(&film, "packet=stream_index,flags")["packets"].as_array().unwrap().clone();
    let of_video = packets.iter().filter(|packet| packet["stream_index"] == 0);
    assert_eq!(of_video.clone().count() as u64, pictures);
    let keys = of_video.filter(|packet| packet["flags"].as_str().is_some_and(|flags| flags.starts_with('K')));
    assert_eq!(keys.count(), 1, "there is one key frame");
    eprintln!(
        "{pictures} pictures of {shown} shown, {sounds} packets of sound, {duration} s, {lost} packets lost"
    );
}

/// A listening receiver that writes to this file, and its address.
fn receiver(film: &str) -> (Running, String) {
    let arguments = ["receive", "link://127.0.0.1:0", film, "--insecure", "--once"];
    let receiver = Running::start(Command::new(GLASSLINE).args(arguments));
    let address = until_some("the address", || {
        let output = receiver.output();
        let (_, rest) = output.split_once("listening address=")?;
        rest.split_whitespace().next().map(|address| format!("link://{address}"))
    });
    (receiver, address)
}

/// A film that grows until its receiver is killed: the name of its file.
fn torn_by_a_crash(scratch: &Scratch) -> String {
    let film = scratch.file("torn.webm");
    let (mut receiver, link) = receiver(&film);
    let send = ["send", "test:640x360@25", &link, "--insecure", "--codec", "av1", "--bitrate", "600k"];
    let mut sender = Running::start(Command::new(GLASSLINE).args(send));
    until("a film of some seconds", || std::fs::metadata(&film).is_ok_and(|film| film.len() > 150_000));
    receiver.kill();
    sender.kill();
    film
}

#[test]
fn a_film_of_a_receiver_that_was_killed_is_decoded_up_to_its_end() {
    let test = "a_film_of_a_receiver_that_was_killed_is_decoded_up_to_its_end";
    if !have(test, &["ffmpeg", "ffprobe"]) {
        return;
    }
    let scratch = Scratch::new("direct-webm-torn");
    let film = torn_by_a_crash(&scratch);
    let (pictures, sounds) = (decoded(&film, "v"), decoded(&film, "a"));
    eprintln!("{pictures} pictures and {sounds} packets of sound of a film that was torn");
    assert!(pictures > 20 && sounds > 100, "{pictures} pictures, {sounds} packets of sound");
    let told = probed(&film, "format=duration");
    assert_eq!(told["format"]["duration"], Value::Null, "it had not come to its end: {told}");
}

/// Files for a browser, and what its page tells of them.
struct Site {
    address: SocketAddr,
    told: Receiver<Value>,
}

impl Site {
    fn serve(files: Vec<(&'static str, Vec<u8>)>) -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, told) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (files, tell) = (files.clone(), tell.clone());
                // A browser that goes in the middle of an answer is no failure.
                std::thread::spawn(move || _ = answer(stream, &files, &tell));
            }
        });
        Site { address, told }
    }
}

/// Answers one request, of a part of a file where that is asked for: players seek by it.
fn answer(stream: TcpStream, files: &[(&str, Vec<u8>)], tell: &Sender<Value>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut begin, mut length) = (String::new(), None, 0);
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let lower = line.trim().to_ascii_lowercase();
        if let Some(range) = lower.strip_prefix("range: bytes=") {
            begin = range.split('-').next().and_then(|begin| begin.parse::<usize>().ok());
        } else if let Some(bytes) = lower.strip_prefix("content-length: ") {
            length = bytes.parse().unwrap_or(0);
        } else if lower.is_empty() {
            break;
        }
    }
    if path == "/told" {
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let _ = tell.send(serde_json::from_slice(&body).unwrap_or_default());
        return reader.get_mut().write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    }
    let Some((_, file)) = files.iter().find(|(name, _)| *name == path) else {
        return reader
            .get_mut()
            .write_all(b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    };
    let kind = if path == "/" { "text/html" } else { "video/webm" };
    let at = begin.unwrap_or(0).min(file.len());
    let head = match begin {
        Some(_) => format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {at}-{}/{}\r\n",
            file.len().saturating_sub(1),
            file.len()
        ),
        None => "HTTP/1.1 200 OK\r\n".to_owned(),
    };
    let head = format!(
        "{head}Accept-Ranges: bytes\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        file.len() - at
    );
    reader.get_mut().write_all(head.as_bytes())?;
    reader.get_mut().write_all(&file[at..])
}

/// Plays a film for a moment; then, where the page is asked to, from another place on. Tells what became of it.
const PAGE: &str = r#"<!doctype html><meta charset="utf-8"><title>film</title><video muted></video><script>
const [name, place] = location.search.slice(1).split("&");
const film = document.querySelector("video");
const told = { name, steps: [] };
const event = (kind) => new Promise((done, failed) => {
  film.addEventListener(kind, done, { once: true });
  film.addEventListener("error", () => failed(film.error.message), { once: true });
});
const plays = async (from) => {
  await film.play();
  while (film.currentTime < from + 0.4) await event("timeupdate");
  film.pause();
  told.steps.push(film.currentTime);
};
const tell = () => fetch("/told", { method: "POST", body: JSON.stringify(told) });
(async () => {
  const loaded = event("loadeddata");
  film.src = name;
  await loaded;
  told.duration = film.duration;
  told.size = [film.videoWidth, film.videoHeight];
  await plays(0);
  if (place) {
    const sought = event("seeked");
    film.currentTime = Number(place);
    await sought;
    told.sought = film.currentTime;
    told.seekable = film.seekable.end(0);
    await plays(Number(place));
  }
  told.frames = film.getVideoPlaybackQuality().totalVideoFrames;
  told.sound_bytes = film.webkitAudioDecodedByteCount;
})().catch((error) => { told.error = String(error); }).finally(tell);
</script>"#;

/// What Chromium tells of a page that plays this file.
fn played(site: &Site, scratch: &Scratch, file: &str) -> Value {
    let mut command = Command::new("chromium");
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-extensions",
        "--disable-sync",
        "--mute-audio",
        "--autoplay-policy=no-user-gesture-required",
        // Without it a browser that has no window ends when the page is loaded.
        "--remote-debugging-port=0",
    ]);
    command.arg(format!("--user-data-dir={}", scratch.file("browser")));
    let mut browser = Running::start(command.arg(format!("http://{}/?{file}", site.address)));
    let told = until_some("what the page tells", || {
        assert!(browser.ended().is_none(), "the browser has ended: {}", browser.output());
        site.told.recv_timeout(Duration::from_millis(20)).ok()
    });
    assert_eq!(told["error"], Value::Null, "{told}");
    told
}

#[test]
fn chromium_plays_a_webm_file_with_its_sound_and_seeks_in_it_and_plays_one_that_is_torn() {
    let test = "chromium_plays_a_webm_file_with_its_sound_and_seeks_in_it_and_plays_one_that_is_torn";
    if !have(test, &["chromium"]) {
        return;
    }
    let scratch = Scratch::new("direct-webm-page");
    let path = scratch.file("film.webm");
    let (_, received, _) = send_into(&path);
    let film = std::fs::read(&path).unwrap();
    let torn = std::fs::read(torn_by_a_crash(&scratch)).unwrap();
    let site = Site::serve(vec![("/", PAGE.into()), ("/film.webm", film), ("/torn.webm", torn)]);
    let whole = played(&site, &scratch, "film.webm&3");
    eprintln!("{whole}");
    assert_eq!(whole["size"], json!([640, 360]), "{whole}");
    let number = |told: &Value, name: &str| told[name].as_f64().unwrap_or(-1.0);
    let duration = number(&whole, "duration");
    assert!((3.0..5.0).contains(&duration), "{whole} {received}");
    assert!((number(&whole, "sought") - 3.0).abs() < 0.001, "{whole}");
    assert!(number(&whole, "seekable") >= duration - 0.001, "{whole}");
    assert!(number(&whole, "frames") > 10.0 && number(&whole, "sound_bytes") > 0.0, "{whole}");
    let torn = played(&site, &scratch, "torn.webm");
    eprintln!("{torn}");
    assert!(torn["steps"][0].as_f64() >= Some(0.4) && number(&torn, "sound_bytes") > 0.0, "{torn}");
}

#[test]
fn what_webm_does_not_hold_is_refused_with_a_name_that_does_and_so_is_what_would_do_nothing() {
    let scratch = Scratch::new("direct-webm-refused");
    let film = scratch.file("film.webm");
    let refused =
        run(GLASSLINE, &["receive", "link://127.0.0.1:0", &film, "--insecure", "--out-bitrate", "3M"], 60);
    assert_eq!(refused.status, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("gets AV1 as it comes"), "{}", refused.stderr);
    let missing = run(GLASSLINE, &["receive", "link://127.0.0.1:0", "/no/such/a.webm", "--insecure"], 60);
    assert_eq!(missing.status, Some(1), "{}", missing.stderr);
    assert!(missing.stderr.contains("cannot write /no/such/a.webm"), "{}", missing.stderr);
    let (mut receiver, link) = receiver(&film);
    let sent = run(GLASSLINE, &["send", "test:320x180@25", &link, "--insecure", "--duration", "2s"], 60);
    assert_eq!(receiver.wait().code(), Some(1), "{} {}", receiver.output(), sent.stderr);
    for told in ["VP8 comes", "name FILE.mp4 or FILE.ivf", "--codec av1"] {
        assert!(receiver.output().contains(told), "{told}: {}", receiver.output());
    }
}
