//! Viewers over SRT and RTSP of streams that another server has: these are fetched as they are for viewers over HTTP.

use crate::link::said;
use crate::{GLASSLINE, glassline};
use glassline_test_support::program::{Running, Scratch, Server};
use glassline_test_support::wait::until;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

/// A server with both doors that fetches from `upstream`, and where its doors are.
fn edge(scratch: &Scratch, upstream: &Server, more: &str) -> (Server, String, String) {
    let rtsp = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let text = format!(
        "[upstream]\nservers = ['{}']\n[srt]\nlisten = ['127.0.0.1:0']\nlatency = '20ms'\n[rtsp]\nlisten = ['{rtsp}']\n{more}",
        upstream.url("")
    );
    let file = scratch.write("edge.toml", text);
    let mut server = Server::start(GLASSLINE, &["--config", &file]);
    let srt = said(&mut server.process, "SRT is served address=");
    (server, srt, rtsp.to_string())
}

/// The answer to DESCRIBE.
fn described(rtsp: &str, name: &str) -> String {
    let mut connection = TcpStream::connect(rtsp).unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(
        connection,
        "DESCRIBE rtsp://{rtsp}/live/{name} RTSP/1.0\r\nCSeq: 1\r\nAccept: application/sdp\r\n\r\n"
    )
    .unwrap();
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&answer).contains("\r\n\r\n") {
        let count = connection.read(&mut buffer).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8(answer).unwrap()
}

#[test]
fn a_viewer_over_srt_and_one_over_rtsp_have_a_stream_fetched() {
    let (origin_scratch, scratch) = (Scratch::new("fetch-origin"), Scratch::new("fetch-edge"));
    let origin_file =
        origin_scratch.write("origin.toml", "[srt]\nlisten = ['127.0.0.1:0']\nlatency = '20ms'\n");
    let mut origin = Server::start(GLASSLINE, &["--config", &origin_file]);
    let address = said(&mut origin.process, "SRT is served address=");
    let encoders: Vec<Running> = ["hall", "stage"]
        .map(|name| {
            let to = format!("srt://{address}?streamid=publish:{name}&latency=20");
            Running::start(Command::new(GLASSLINE).args(["encode", "test:64x64@25", &to]))
        })
        .into();
    ["hall", "stage"].iter().for_each(|name| origin.wait_for_pictures(name));
    let (edge, srt, rtsp) = edge(&scratch, &origin, "");
    assert!(edge.stream("hall").is_none() && edge.stream("stage").is_none());
    let probed = glassline(&[
        "probe",
        &format!("srt://{srt}?streamid=read:hall&latency=20"),
        "--json",
        "--duration",
        "2s",
    ]);
    assert_eq!(probed.status, Some(0), "{}", probed.stderr);
    assert!(String::from_utf8_lossy(&probed.stdout).contains("H.264"));
    let answer = described(&rtsp, "stage");
    assert!(answer.starts_with("RTSP/1.0 200"), "{answer}");
    assert_eq!(edge.count("hall", "continuity_errors") + edge.count("stage", "continuity_errors"), 0);
    // What no server has is told as soon as the origin has said so, and once.
    let answer = described(&rtsp, "nowhere");
    assert!(answer.starts_with("RTSP/1.0 404"), "{answer}");
    let probed = glassline(&["probe", &format!("srt://{srt}?streamid=read:nowhere"), "--duration", "1s"]);
    assert!(probed.status != Some(0) && probed.stderr.contains("no such stream"), "{}", probed.stderr);
    drop(encoders);
}

#[test]
fn what_a_viewer_may_not_watch_is_not_fetched() {
    let (origin_scratch, scratch) = (Scratch::new("fetch-barred-origin"), Scratch::new("fetch-barred"));
    let origin_file = origin_scratch.write("origin.toml", "[demo]\nenabled = true\n");
    let origin = Server::start(GLASSLINE, &["--config", &origin_file]);
    origin.wait_for_pictures("demo");
    let (edge, srt, rtsp) = edge(&scratch, &origin, "[viewer]\nkey = 'a-viewer-key'\n");
    let answer = described(&rtsp, "demo");
    assert!(answer.starts_with("RTSP/1.0 401"), "{answer}");
    let probed = glassline(&["probe", &format!("srt://{srt}?streamid=read:demo"), "--duration", "1s"]);
    assert_ne!(probed.status, Some(0));
    assert!(edge.stream("demo").is_none(), "nothing was fetched");
    let probed = glassline(&[
        "probe",
        &format!("srt://{srt}?streamid=read:demo:a-viewer-key&latency=20"),
        "--duration",
        "1s",
    ]);
    assert_eq!(probed.status, Some(0), "{}", probed.stderr);
    until("the stream", || edge.stream("demo").is_some());
}
