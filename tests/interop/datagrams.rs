//! FFmpeg at the other end of datagrams: bare MPEG-TS and RTP, in and out.

use crate::{GLASSLINE, have};
use glassline_test_support::loopback::is_bound;
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::wait::until;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;

/// A port that is free, and the next one too, where RTP has its companion.
fn free_ports() -> u16 {
    loop {
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port() & !1;
        if [port, port + 1].iter().all(|port| UdpSocket::bind(("127.0.0.1", *port)).is_ok()) {
            return port;
        }
    }
}

/// FFmpeg that decodes what comes to `url`, for `frames` pictures.
fn decoder(url: &str, frames: &str) -> Running {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "warning", "-i", url, "-map", "0:v", "-frames:v", frames, "-f", "null", "-"]);
    Running::start(&mut command)
}

fn serve(config: &str) -> (Server, Scratch) {
    let scratch = Scratch::new("datagrams");
    let file = scratch.write("glassline.toml", config);
    (Server::start(GLASSLINE, &["--config", &file]), scratch)
}

#[test]
fn ffmpeg_decodes_what_leaves_in_datagrams_from_the_first_picture_on() {
    if !have("ffmpeg_decodes_what_leaves_in_datagrams_from_the_first_picture_on", &["ffmpeg"]) {
        return;
    }
    let (bare, rtp) = (free_ports(), free_ports());
    // It listens before the stream begins, and sees it from its first byte.
    let mut plain = decoder(&format!("udp://127.0.0.1:{bare}"), "100");
    let mut framed = decoder(&format!("rtp://127.0.0.1:{rtp}"), "100");
    until("FFmpeg to listen", || {
        [bare, rtp].iter().all(|port| is_bound(SocketAddr::from(([127, 0, 0, 1], *port))))
    });
    let (server, _scratch) = serve(&format!(
        "[demo]\nenabled = true\nsize = '640x360'\nframe_rate = 25\nbitrate = '1M'\n\
         [stream.demo]\noutputs = ['udp://127.0.0.1:{bare}', 'rtp://127.0.0.1:{rtp}']\n"
    ));
    assert!(plain.wait().success());
    assert_eq!(plain.output().trim(), "", "FFmpeg complains");
    // With RTP it opens the port a second time once it knows the payload type, and misses what comes meanwhile.
    assert!(framed.wait().success(), "{}", framed.output());
    let outputs = server.stream("demo").unwrap()["outputs"].clone();
    for output in outputs.as_array().unwrap() {
        assert_eq!((output["errors"].as_u64(), output["moved_forward"].as_u64()), (Some(0), Some(0)));
    }
}

#[test]
fn what_ffmpeg_sends_as_rtp_comes_in_whole() {
    if !have("what_ffmpeg_sends_as_rtp_comes_in_whole", &["ffmpeg", "ffprobe"]) {
        return;
    }
    let port = free_ports();
    let (server, _scratch) = serve(&format!("[stream.rtp]\nsource = 'rtp://127.0.0.1:{port}'\n"));
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "warning", "-re", "-f", "lavfi", "-i", "testsrc=size=640x360:rate=25"]);
    command.args([
        "-c:v",
        "libx264",
        "-preset",
        "ultrafast",
        "-tune",
        "zerolatency",
        "-g",
        "25",
        "-b:v",
        "1M",
    ]);
    command.args(["-f", "rtp_mpegts", &format!("rtp://127.0.0.1:{port}")]);
    let _sender = Running::start(&mut command);
    server.wait_for_pictures("rtp");
    let url = server.url("/live/rtp.ts");
    let decoded =
        run("ffmpeg", &["-v", "warning", "-xerror", "-i", &url, "-frames:v", "75", "-f", "null", "-"], 60);
    assert_eq!((decoded.status, decoded.stderr.trim()), (Some(0), ""), "FFmpeg complains");
    let stream = server.stream("rtp").unwrap();
    let rtp = &stream["source"]["rtp"];
    assert!(rtp["received"].as_u64() > Some(75), "{rtp}");
    for field in ["lost", "late", "duplicate", "refused", "restarts", "reordered"] {
        assert_eq!(rtp[field], 0, "{field}: {rtp}");
    }
    assert_eq!((stream["continuity_errors"].as_u64(), stream["garbage_bytes"].as_u64()), (Some(0), Some(0)));
}
