//! Foreign TLS: curl (OpenSSL) and FFmpeg (GnuTLS) publish and watch over HTTPS.

use crate::{GLASSLINE, have};
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::tls::Identity;
use std::process::{Command, Stdio};

/// A server with HTTPS for `localhost`, its port, and the folder with its certificate `one.pem`.
fn serve_https(arguments: &[&str]) -> (Server, u16, Scratch) {
    let folder = Scratch::new("https");
    Identity::new(&["localhost"]).write(&folder, "one");
    let file = folder.write(
        "glassline.toml",
        "[tls]\nlisten = ['127.0.0.1:0']\ncertificates = [{ chain = 'one.pem', key = 'one.key' }]\n",
    );
    let server = Server::start(GLASSLINE, &[&["--config", &file], arguments].concat());
    let output = server.process.output();
    let (_, rest) = output.split_once("https://127.0.0.1:").expect("the address for HTTPS is told");
    let port = rest.split('/').next().unwrap().parse().unwrap();
    (server, port, folder)
}

#[test]
fn curl_publishes_and_watches_over_https() {
    if !have("curl_publishes_and_watches_over_https", &["curl"]) {
        return;
    }
    let (server, port, folder) = serve_https(&[]);
    let (url, trusted) = (format!("https://localhost:{port}/live/curl.ts"), folder.file("one.pem"));
    let mut encoder = Command::new(GLASSLINE)
        .args(["encode", "test:320x180@25", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut publisher = Command::new("curl")
        .args(["-sS", "-v", "--ipv4", "--cacert", &trusted, "-T", "-", &url])
        .stdin(encoder.stdout.take().unwrap())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(folder.path().join("log")).unwrap())
        .spawn()
        .unwrap();
    server.wait_for_pictures("curl");
    for version in ["1.2", "1.3"] {
        let arguments =
            ["-sS", "--ipv4", "--cacert", &trusted, "--tls-max", version, "--max-time", "2", &url];
        let got = run("curl", &arguments, 60);
        // 28: the time was up, as it must be with a stream that does not end.
        assert_eq!(got.status, Some(28), "TLS {version}: {}", got.stderr);
        assert!(got.stdout.len() > 50_000, "{} bytes", got.stdout.len());
        assert!(got.stdout.chunks(188).all(|packet| packet[0] == 0x47));
    }
    encoder.kill().unwrap();
    encoder.wait().unwrap();
    let ended = publisher.wait().unwrap();
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    assert!(ended.success() && log.contains("HTTP/1.1 204"), "{log}");
    assert!(log.contains("TLSv1.3"), "{log}");
    let entry = server.stream("curl").unwrap();
    assert_eq!((entry["continuity_errors"].as_u64(), entry["garbage_bytes"].as_u64()), (Some(0), Some(0)));

    let strange = run("curl", &["-sS", "--ipv4", &format!("https://localhost:{port}/gen204")], 20);
    assert_eq!(
        strange.status,
        Some(60),
        "who does not know the certificate does not take it: {}",
        strange.stderr
    );
    let plain = run("curl", &["-sS", &format!("http://127.0.0.1:{port}/")], 20);
    assert!(plain.text().contains("https://"), "{plain:?}");
}

#[test]
fn ffmpeg_publishes_and_watches_over_https() {
    if !have("ffmpeg_publishes_and_watches_over_https", &["ffmpeg"]) {
        return;
    }
    let (server, port, folder) = serve_https(&[]);
    let (url, file) = (format!("https://127.0.0.1:{port}/live/ff.ts"), folder.file("test.ts"));
    let made = run(GLASSLINE, &["encode", "test:320x180@25", &file, "--duration", "4s"], 60);
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "warning", "-re", "-stream_loop", "-1", "-i", &file, "-c", "copy", "-f", "mpegts"]);
    let _publisher = Running::start(command.args(["-tls_verify", "0", &url]));
    server.wait_for_pictures("ff");
    // All of it is decoded, and errors count: -xerror ends at the first.
    let arguments =
        ["-v", "warning", "-xerror", "-tls_verify", "0", "-i", &url, "-frames:v", "40", "-f", "null", "-"];
    let watched = run("ffmpeg", &arguments, 60);
    assert_eq!((watched.status, watched.stderr.trim()), (Some(0), ""));
    assert_eq!(server.stream("ff").unwrap()["garbage_bytes"].as_u64(), Some(0));
}
