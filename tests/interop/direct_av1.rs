//! Direct video in AV1: what was received is written as it came, and other decoders show it, whatever was lost on the way.

use crate::{GLASSLINE, have};
use glassline_test_support::program::{Running, Scratch, run};
use glassline_test_support::wait::until_some;
use serde_json::Value;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// A way between both ends on which each so many packets one is lost, of those that are as long as packets of pictures are.
struct Lossy {
    address: SocketAddr,
    lost: Arc<AtomicU32>,
    is_over: Arc<AtomicBool>,
}

impl Lossy {
    fn to(receiver: SocketAddr, each: u32) -> Lossy {
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = near.local_addr().unwrap();
        let (lost, is_over) = (Arc::<AtomicU32>::default(), Arc::<AtomicBool>::default());
        let (counted, ended) = (Arc::clone(&lost), Arc::clone(&is_over));
        std::thread::spawn(move || {
            near.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            let (mut sender, mut buffer, mut long) = (None, [0; 2048], 0);
            while !ended.load(Ordering::Relaxed) {
                let Ok((length, from)) = near.recv_from(&mut buffer) else { continue };
                let to = if from == receiver {
                    sender
                } else {
                    sender = Some(from);
                    long += u32::from(length > 600);
                    Some(receiver).filter(|_| length <= 600 || long % each != 0)
                };
                match to {
                    Some(to) => drop(near.send_to(&buffer[..length], to)),
                    None => drop(counted.fetch_add(1, Ordering::Relaxed)),
                }
            }
        });
        Lossy { address, lost, is_over }
    }
}

impl Drop for Lossy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Sends four seconds of the test pattern over a lossy way into `output`. Returns what both ends tell, and how many packets were
/// lost.
pub(crate) fn send_into(output: &str) -> (Value, Value, u32) {
    let arguments = ["receive", "link://127.0.0.1:0", output, "--insecure", "--once", "--json"];
    let mut receiver = Running::start(Command::new(GLASSLINE).args(arguments));
    let what = "listening address=";
    let address: SocketAddr = until_some(what, || {
        let output = receiver.output();
        output.split_once(what).and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok())
    });
    let way = Lossy::to(address, 25);
    let link = format!("link://{}", way.address);
    let sent = run(
        GLASSLINE,
        &[
            "send",
            "test:640x360@25",
            &link,
            "--insecure",
            "--codec",
            "av1",
            "--fec",
            "none",
            // Two or three packets a picture.
            "--bitrate",
            "600k",
            "--duration",
            "4s",
            "--json",
        ],
        60,
    );
    assert_eq!((sent.status, receiver.wait().code()), (Some(0), Some(0)), "{}", receiver.output());
    let told = |text: &str| -> Value {
        let line = text.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{text}"));
        serde_json::from_str(line).unwrap()
    };
    (told(&sent.text()), told(&receiver.output()), way.lost.load(Ordering::Relaxed))
}

#[test]
fn what_came_over_a_lossy_way_is_a_film_that_ffmpeg_decodes_without_a_word() {
    let test = "what_came_over_a_lossy_way_is_a_film_that_ffmpeg_decodes_without_a_word";
    if !have(test, &["ffmpeg", "ffprobe"]) {
        return;
    }
    let scratch = Scratch::new("direct-av1");
    for name in ["film.ivf", "film.mp4"] {
        let film = scratch.file(name);
        let (sent, received, lost) = send_into(&film);
        assert!(lost > 0 && sent["lost"].as_u64() > Some(0), "{lost} packets lost, {sent}");
        assert_eq!(
            (sent["mismatches"].as_u64(), received["damaged"].as_u64()),
            (Some(0), Some(0)),
            "{sent} {received}"
        );
        // Neither what is lost nor what is coded against it is in the film.
        let decoded = run("ffmpeg", &["-v", "warning", "-i", &film, "-f", "framemd5", "-"], 60);
        assert_eq!((decoded.status, decoded.stderr.as_str()), (Some(0), ""), "{name}");
        let frames = decoded.text().lines().filter(|line| !line.starts_with('#')).count() as u64;
        let shown = received["shown"].as_u64().unwrap();
        assert!(frames >= shown && frames > 40, "{name}: {frames} frames of {shown} pictures");
        let probed = run(
            "ffprobe",
            &[
                "-v",
                "error",
                "-select_streams",
                "v",
                "-show_entries",
                "stream=codec_name,width,height",
                "-of",
                "csv",
                &film,
            ],
            60,
        );
        assert_eq!(probed.text().trim(), "stream,av1,640,360", "{name}");
    }
}
