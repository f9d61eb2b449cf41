//! curl: a publisher that sends chunks after "Expect: 100-continue", and a viewer.

use crate::{GLASSLINE, have, serve};
use glassline_test_support::program::{Scratch, run};
use std::process::{Command, Stdio};

#[test]
fn curl_publishes_what_it_reads_and_another_one_gets_it() {
    if !have("curl_publishes_what_it_reads_and_another_one_gets_it", &["curl"]) {
        return;
    }
    let server = serve();
    let (scratch, url) = (Scratch::new("curl"), server.url("/live/curl.ts"));
    let mut encoder = Command::new(GLASSLINE)
        .args(["encode", "test:320x180@25", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut publisher = Command::new("curl")
        .args(["-sS", "-v", "-T", "-", "-H", "Expect: 100-continue", &url])
        .stdin(encoder.stdout.take().unwrap())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(scratch.path().join("log")).unwrap())
        .spawn()
        .unwrap();
    server.wait_for_pictures("curl");
    let got = run("curl", &["-sS", "--max-time", "3", &url], 60);
    // 28: the time was up, as it must be with a stream that does not end.
    assert_eq!(got.status, Some(28), "{}", got.stderr);
    assert!(got.stdout.len() > 100_000, "{} bytes", got.stdout.len());
    assert!(got.stdout.chunks(188).all(|packet| packet[0] == 0x47));

    encoder.kill().unwrap();
    encoder.wait().unwrap();
    let ended = publisher.wait().unwrap();
    let log = std::fs::read_to_string(scratch.path().join("log")).unwrap();
    assert!(ended.success() && log.contains("HTTP/1.1 204"), "{log}");
    assert!(log.contains("HTTP/1.1 100 Continue") && log.contains("Transfer-Encoding: chunked"), "{log}");
}
