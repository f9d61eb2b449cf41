//! LL-HLS and LL-DASH beside FFmpeg and the DASH schema, and an edge in front of what is not ours.

use crate::{GLASSLINE, demo, have, serve, shared, skip};
use glassline_test_support::http::get;
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::wait::until;
use std::process::Command;

/// Decodes two seconds of what is at `url`, and wants no complaint.
pub(crate) fn expect_pictures(url: &str) {
    let arguments =
        ["-v", "error", "-i", url, "-map", "0:v:0", "-map", "0:a:0", "-t", "2", "-f", "framecrc", "-"];
    let played = run("ffmpeg", &arguments, 60);
    assert_eq!((played.status, played.stderr.as_str()), (Some(0), ""), "{url}");
    let pictures = played.text().lines().filter(|line| line.starts_with("0,")).count();
    assert!(pictures >= 40, "{url}: {pictures} pictures in two seconds");
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
    expect_pictures(&edge.url("/live/a/index.m3u8"));
    expect_pictures(&edge.url("/live/a/manifest.mpd"));
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
    let test = "manifests_keep_the_schema";
    let Some(schema) = shared("dash/DASH-MPD.xsd") else {
        return skip(test, "no dash/DASH-MPD.xsd (MPEGGroup/DASHSchema) in the shared data");
    };
    if !have(test, &["xmllint"]) {
        return;
    }
    let (server, scratch) = (demo(), Scratch::new("schema"));
    for name in ["manifest.mpd", "timeline.mpd"] {
        let manifest = get(server.address(), &format!("/live/demo/{name}?a=b&c=d"));
        assert_eq!(manifest.status, 200, "{name}");
        let file = scratch.write(name, &manifest.body);
        let schema = schema.display().to_string();
        let checked = run("xmllint", &["--noout", "--nonet", "--schema", &schema, &file], 60);
        assert_eq!(checked.status, Some(0), "{}\n{}", checked.stderr, manifest.text());
    }
}
