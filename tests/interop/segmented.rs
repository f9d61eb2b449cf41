//! LL-HLS and LL-DASH beside FFmpeg and the DASH schema, and an edge in front of what is not ours.

use crate::{GLASSLINE, have, serve};
use glassline_test_support::http::get;
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::wait::{at_once, until};
use std::process::Command;

/// Decodes four seconds of what is at `url`, and wants no complaint. FFmpeg reads the playlists of pictures and sound one after the
/// other, and begins each a number of segments before its end: the sound may begin a segment, two seconds, before the pictures.
pub(crate) fn expect_pictures(url: &str) {
    let arguments =
        ["-v", "error", "-i", url, "-map", "0:v:0", "-map", "0:a:0", "-t", "4", "-f", "framecrc", "-"];
    let played = run("ffmpeg", &arguments, 60);
    assert_eq!((played.status, played.stderr.as_str()), (Some(0), ""), "{url}");
    let pictures = played.text().lines().filter(|line| line.starts_with("0,")).count();
    assert!(pictures >= 40, "{url}: {pictures} pictures in four seconds: {}", played.text());
}

#[test]
fn ffmpeg_plays_what_ffmpeg_publishes_as_hls_and_dash_through_an_edge() {
    if !have("ffmpeg_plays_what_ffmpeg_publishes_as_hls_and_dash_through_an_edge", &["ffmpeg"]) {
        return;
    }
    let origin = serve();
    let edge = Server::start(GLASSLINE, &["--upstream", &origin.url("")]);
    let source = "-v error -re -f lavfi -i testsrc=size=320x180:rate=25 -f lavfi -i sine=sample_rate=48000 \
                  -c:v libx264 -preset ultrafast -bf 2 -g 25 -c:a aac -f mpegts";
    let mut command = Command::new("ffmpeg");
    command.args(source.split_whitespace()).arg(origin.url("/live/a.ts"));
    let _publisher = Running::start(&mut command);
    origin.wait_for_pictures("a");
    let urls = ["index.m3u8", "manifest.mpd", "ts.m3u8"].map(|name| edge.url(&format!("/live/a/{name}")));
    at_once(|| expect_pictures(&urls[0]), || expect_pictures(&urls[1]));
    expect_pictures(&urls[2]);
}

#[test]
fn an_edge_stands_in_front_of_a_server_of_files() {
    let test = "an_edge_stands_in_front_of_a_server_of_files";
    if !have(test, &["ffmpeg", "nginx"]) {
        return;
    }
    let scratch = Scratch::new("segmented");
    let folder = scratch.path().display().to_string();
    let arguments = "-v error -f lavfi -i testsrc=size=320x180:rate=25 -f lavfi -i sine=sample_rate=48000 -t 6 \
                     -c:v libx264 -preset ultrafast -g 25 -c:a aac -f hls -hls_time 2 -hls_segment_type fmp4 \
                     -hls_list_size 0";
    let playlist = scratch.file("index.m3u8");
    let arguments: Vec<&str> = arguments.split_whitespace().chain([playlist.as_str()]).collect();
    let made = run("ffmpeg", &arguments, 60);
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    // A port that is free now; nginx cannot tell which one it was given.
    let port = std::net::TcpListener::bind("127.31.8.1:0").unwrap().local_addr().unwrap();
    let config = format!(
        "daemon off; master_process off; pid {folder}/nginx.pid; error_log stderr;\n\
         events {{ }}\n\
         http {{ access_log off; client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};\n\
         uwsgi_temp_path {folder}; scgi_temp_path {folder};\n\
         types {{ application/vnd.apple.mpegurl m3u8; video/mp4 mp4 m4s; }}\n\
         server {{ listen {port}; root {folder}; }} }}\n"
    );
    let config = scratch.write("nginx.conf", config);
    let _nginx = Running::start(Command::new("nginx").args(["-c", &config]));
    until("nginx", || std::net::TcpStream::connect(port).is_ok());
    let edge = Server::start(GLASSLINE, &["--upstream", &format!("http://{port}")]);
    expect_pictures(&edge.url("/index.m3u8"));
    assert_eq!(get(edge.address(), "/absent.m4s").status, 404);
    let metrics = edge.metrics();
    assert_eq!(metrics.sum("glassline_upstream_failed_total", "") as u64, 0);
}

#[test]
fn manifests_keep_the_schema() {
    if !have("manifests_keep_the_schema", &["xmllint"]) {
        return;
    }
    let config = "[encode.hall]\ninput = 'test:320x180@25'\naudio = 'aac'\nkeyint = '1s'\nthreads = 1\n\
                  renditions = ['320x180@25:500k', '160x90@25:200k']\n[package]\nsegment = '1s'\npart = '100ms'\n\
                  [publish]\nreturn_window = '0s'\n";
    let scratch = Scratch::new("schema");
    let server = Server::start(GLASSLINE, &["--config", &scratch.write("glassline.toml", config)]);
    let publish = || {
        let mut command = Command::new(GLASSLINE);
        Running::start(command.args([
            "encode",
            "test:320x180@25",
            &server.url("/live/a.ts"),
            "--keyint",
            "1s",
        ]))
    };
    let mut publisher = publish();
    server.wait_for_pictures("a");
    server.wait_for_pictures("hall-90p25");
    let check = |target: &str| {
        let manifest = get(server.address(), &format!("/live/{target}?a=b&c=d"));
        assert_eq!(manifest.status, 200, "{target}");
        let file = scratch.write("manifest.mpd", &manifest.body);
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/interop/dash");
        let mut command = Command::new("xmllint");
        command.env("XML_CATALOG_FILES", format!("{folder}/catalog.xml"));
        command.args(["--noout", "--nonet", "--schema", &format!("{folder}/DASH-MPD.xsd"), &file]);
        let checked = command.output().unwrap();
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(checked.status.success(), "{target}: {said}\n{}", manifest.text());
        manifest.text()
    };
    for name in ["manifest.mpd", "timeline.mpd"] {
        check(&format!("a/{name}"));
        assert_eq!(check(&format!("hall/{name}")).matches("<Representation ").count(), 3, "{name}");
    }
    // What has ended is a manifest, too.
    publisher.signal("TERM");
    publisher.wait();
    until("the end", || check("a/manifest.mpd").contains("type=\"static\""));
}
