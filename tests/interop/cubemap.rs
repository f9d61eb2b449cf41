//! Cubemap: beneath us as the server that we pull from, and above us as one that pulls from us, in Metacube2.

use crate::{GLASSLINE, demo, have};
use glassline_test_support::http;
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::wait::until;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;

/// A running Cubemap.
pub(crate) struct Cubemap {
    process: Running,
    pub(crate) address: SocketAddr,
    _scratch: Scratch,
}

impl Cubemap {
    /// With these lines of configuration that begin with `stream`.
    pub(crate) fn start(streams: &str) -> Cubemap {
        let scratch = Scratch::new("cubemap");
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let config = format!("num_servers 1\nlisten {address}\nerror_log type=console\n{streams}\n");
        let config = scratch.write("cubemap.config", config);
        let process = Running::start(Command::new("cubemap").arg(config).current_dir(scratch.path()));
        let cubemap = Cubemap { process, address, _scratch: scratch };
        until("Cubemap", || TcpStream::connect(cubemap.address).is_ok());
        cubemap
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// A relay that pulls `source` as the stream `far`.
fn pulling(source: &str) -> (Server, Scratch) {
    let scratch = Scratch::new("pull");
    let config = format!("[pull]\nretry_max = '250ms'\n[stream.far]\nsource = '{source}'\n");
    let file = scratch.write("glassline.toml", config);
    (Server::start(GLASSLINE, &["--config", &file]), scratch)
}

/// Whether `/api/streams` tells of a whole stream that comes in blocks.
fn expect_blocks(server: &Server) {
    server.wait_for_pictures("far");
    let far = server.stream("far").unwrap();
    let told = &far["source"];
    assert_eq!((told["state"].as_str(), told["metacube"].as_bool()), (Some("live"), Some(true)), "{far}");
    assert_eq!(
        (told["garbage_bytes"].as_u64(), far["codecs"][0]["width"].as_u64()),
        (Some(0), Some(1280)),
        "{far}"
    );
}

/// Decodes pictures of a stream with FFmpeg, and wants no complaint.
fn expect_pictures(url: &str) {
    let played =
        run("ffmpeg", &["-v", "error", "-i", url, "-map", "0:v", "-frames:v", "50", "-f", "null", "-"], 60);
    assert_eq!((played.status, played.stderr.as_str()), (Some(0), ""));
}

#[test]
fn we_pull_metacube_from_cubemap() {
    if !have("we_pull_metacube_from_cubemap", &["cubemap", "ffmpeg"]) {
        return;
    }
    let origin = demo();
    let source = origin.url("/live/demo.ts");
    let cubemap = Cubemap::start(&format!("stream /demo.ts src={source} src_encoding=raw encoding=metacube"));
    let (server, _scratch) = pulling(&cubemap.url("/demo.ts"));
    expect_blocks(&server);
    expect_pictures(&server.url("/live/far.ts"));
}

#[test]
fn cubemap_pulls_metacube_from_us_and_hands_it_on() {
    if !have("cubemap_pulls_metacube_from_us_and_hands_it_on", &["cubemap", "ffmpeg"]) {
        return;
    }
    let origin = demo();
    let source = origin.url("/live/demo.ts?encoding=metacube");
    let streams = format!("stream /raw.ts src={source}\nstream /blocks.ts src={source} encoding=metacube");
    let cubemap = Cubemap::start(&streams);
    // It begins its viewers where we said that one may begin.
    until("a stream from Cubemap", || {
        let mut viewer = http::connect(cubemap.address);
        std::io::Write::write_all(&mut viewer, b"GET /raw.ts HTTP/1.0\r\n\r\n").unwrap();
        http::read_head(&mut viewer).status == 200
    });
    expect_pictures(&cubemap.url("/raw.ts"));
    // And what it has made of our blocks comes back to us.
    let (server, _scratch) = pulling(&cubemap.url("/blocks.ts"));
    expect_blocks(&server);
    // The viewers of this test go away in the middle, which Cubemap reports as an error too.
    let gone = ["Broken pipe", "Connection reset"];
    let output = cubemap.process.output();
    let kept: Vec<&str> =
        output.lines().filter(|line| !gone.iter().any(|told| line.contains(told))).collect();
    let said = kept.join("\n");
    for complaint in ["checksum", "junk", "corrupted", "ERROR"] {
        assert!(!said.contains(complaint), "{said}");
    }
    assert_eq!(origin.count("demo", "viewers"), 1, "both of its streams share one connection");
}
