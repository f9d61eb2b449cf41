//! Streams that an edge has pulled because somebody watches them, beside the same streams' LL-HLS and LL-DASH.

use crate::edge::{Origin, edge, playlist};
use crate::hot::upgrade;
use crate::pull::{SHAPE, see, watch};
use crate::{serve, serve_with};
use glassline_test_support::http::read_once;
use glassline_test_support::http::{connect, get, publish, read_all, read_head};
use glassline_test_support::numbered::Check;
use glassline_test_support::program::{Scratch, Server};
use glassline_test_support::wait::{until, until_some};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Where what the edge gives at `target` comes from: `cache` of its upstream server, or made there (`hold`).
fn made_at(server: &Server, target: &str) -> String {
    let answer = get(server.address(), target);
    assert_eq!(answer.status, 200, "{target}: {}", answer.text());
    answer.header("server-timing").unwrap().split(';').next().unwrap().to_owned()
}

/// Watches `target` until some of it has come.
fn watches(server: &Server, target: &str) -> TcpStream {
    let mut viewer = connect(server.address());
    write!(viewer, "GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let head = read_head(&mut viewer);
    assert_eq!(head.status, 200, "{target}");
    viewer.read_exact(&mut [0; 188 * 50]).unwrap();
    viewer
}

#[test]
fn one_viewer_of_the_stream_is_no_reason_to_package_it_anew() {
    let origin = serve(&["--demo"]);
    origin.wait_for_pictures("demo");
    for always in ["", "[package]\non_demand = false\n"] {
        let config = format!("{always}[upstream]\nservers = ['{}']\n", origin.url(""));
        let (edge, _scratch) = serve_with(&config);
        assert_eq!(made_at(&edge, "/live/demo/index.m3u8"), "cache");
        let _viewer = watches(&edge, "/live/demo.ts");
        for target in ["index.m3u8", "video.m3u8", "ts.m3u8", "manifest.mpd", "timeline.mpd"] {
            assert_eq!(made_at(&edge, &format!("/live/demo/{target}")), "cache", "{target} {always}");
        }
        let header = |server: &Server| {
            let text = playlist(server, "/live/demo/video.m3u8");
            text.lines().find(|line| line.starts_with("#EXT-X-MAP")).unwrap().to_owned()
        };
        assert_eq!(header(&edge), header(&origin), "players of either can go on with the other");
        assert!(!edge.process.output().contains("packaging begins"), "{}", edge.process.output());
    }
}

/// Hands on the streams of `relay`, and knows no playlists.
fn without_playlists(relay: SocketAddr) -> Origin {
    Origin::start(move |asked, connection| {
        if !asked.target.ends_with(".ts") {
            let absent =
                b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\nCache-Control: max-age=60\r\n\r\nnone";
            return connection.write_all(absent).is_ok();
        }
        if let Ok(mut from) = TcpStream::connect(relay) {
            write!(from, "GET {} HTTP/1.1\r\nHost: h\r\n\r\n", asked.target).unwrap();
            let _ = std::io::copy(&mut from, connection);
        }
        false
    })
}

/// An edge that lets a stream go after a second without viewers.
fn forgetful_edge(server: &str) -> (Server, Scratch) {
    serve_with(&format!("[publish]\nreturn_window = '1s'\n[upstream]\nservers = ['{server}']\n"))
}

#[test]
fn what_has_come_goes_with_the_pull_that_has_ended() {
    let origin = serve(&["--demo"]);
    origin.wait_for_pictures("demo");
    let (edge, _scratch) = forgetful_edge(&origin.url(""));
    for _ in 0..2 {
        // Of a copy that stands still a viewer gets what was kept, and no more.
        let mut viewer = watches(&edge, "/live/demo.ts");
        let came = edge.count("demo", "bytes_in");
        let mut seen = 0;
        while edge.count("demo", "bytes_in") < came + 500_000 || seen < 500_000 {
            seen += read_once(&mut viewer, &mut [0; 4096]).unwrap();
        }
        drop(viewer);
        let stood = until_some("it to be let go", || {
            assert_eq!(made_at(&edge, "/live/demo/video.m3u8"), "cache");
            edge.stream("demo").map_or(Some(false), |stream| (stream["live"] == false).then_some(true))
        });
        assert!(!stood, "a copy without its pull is for nobody");
    }
    assert!(!playlist(&edge, "/live/demo/video.m3u8").contains("#EXT-X-ENDLIST"));
    assert!(!edge.process.output().contains("packaging begins"), "{}", edge.process.output());
}

#[test]
fn players_of_what_is_packaged_here_watch_it() {
    let origin = serve(&["--demo"]);
    origin.wait_for_pictures("demo");
    let plain = without_playlists(origin.address());
    let (edge, _scratch) = forgetful_edge(&plain.url());
    let viewer = watches(&edge, "/live/demo.ts");
    assert_eq!(made_at(&edge, "/live/demo/index.m3u8"), "hold");
    drop(viewer);
    let newest = || {
        let text = playlist(&edge, "/live/demo/video.m3u8");
        assert!(!text.contains("#EXT-X-ENDLIST"), "{text}");
        text.lines()
            .filter_map(|line| line.strip_prefix("video/")?.split('.').next()?.parse::<u64>().ok())
            .max()
    };
    let first = until_some("a segment", newest);
    until("two more segments", || newest() >= Some(first + 2));
    assert_eq!(edge.count("demo", "viewers"), 0);
}

#[test]
fn a_server_that_has_lost_a_stream_packages_it_all_the_same() {
    let mut origin = serve(&["--demo"]);
    origin.wait_for_pictures("demo");
    let plain = without_playlists(origin.address());
    let (edge, _scratch) = edge(&[&plain.url()]);
    let _viewer = watches(&edge, "/live/demo.ts");
    origin.process.kill();
    until("the pull to break off", || edge.stream("demo").is_some_and(|stream| stream["live"] == false));
    assert_eq!(get(edge.address(), "/live/demo/index.m3u8").status, 404);
    assert!(!edge.process.output().contains("packaging begins"), "{}", edge.process.output());
}

#[test]
fn what_the_upstream_server_packages_not_is_packaged_here() {
    let origin = serve(&["--demo"]);
    origin.wait_for_pictures("demo");
    let plain = without_playlists(origin.address());
    let (edge, _scratch) = edge(&[&plain.url()]);
    assert_eq!(get(edge.address(), "/live/demo/index.m3u8").status, 404, "nothing of it is here");
    let _viewer = watches(&edge, "/live/demo.ts");
    // The refusal that is kept may be older than the stream; one that is new is the server's word.
    assert_eq!(get(edge.address(), "/live/demo/index.m3u8").status, 404);
    for target in ["manifest.mpd", "index.m3u8", "video.m3u8"] {
        assert_eq!(made_at(&edge, &format!("/live/demo/{target}")), "hold", "{target}");
    }
    assert_eq!(plain.count("/live/demo/video.m3u8"), 0);
    // A part that is gone is no reason to begin.
    let (edge, _scratch) = self::edge(&[&plain.url()]);
    let _viewer = watches(&edge, "/live/demo.ts");
    assert_eq!(get(edge.address(), "/live/demo/video/1.m4s").status, 404);
    assert!(!edge.process.output().contains("packaging begins"));
    // An answer with the next request behind it, on one connection.
    let mut player = connect(edge.address());
    for (target, fields) in [("manifest.mpd", ""), ("index.m3u8", "Connection: close\r\n")] {
        write!(player, "GET /live/demo/{target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n").unwrap();
    }
    let answers = String::from_utf8_lossy(&read_all(&mut player)).into_owned();
    let count = |what: &str| answers.matches(what).count();
    assert_eq!((count("HTTP/1.1 200 OK"), count("Server-Timing: hold")), (2, 2), "{answers}");
}

#[test]
fn an_edge_shows_the_viewer_key_of_its_origin() {
    let (origin, _origin_files) =
        serve_with("[demo]\nenabled = true\n[viewer]\nkey = 'the-origins-own-key'\n");
    // Without the key every answer is a refusal.
    until("pictures", || origin.stream("demo").is_some() && origin.count("demo", "bytes_in") > 0);
    let host = origin.url("").strip_prefix("http://").unwrap().to_owned();
    for (address, status, told) in [
        (format!("http://edge:the-origins-own-key@{host}"), 200, ""),
        (origin.url(""), 401, "refuses what viewers ask for"),
        // Viewers cannot mend it, and are not asked for another token.
        (format!("http://edge:another-key@{host}"), 502, "refuses the key that its address here shows"),
    ] {
        let (edge, _scratch) = edge(&[&address]);
        let answer = get(edge.address(), "/live/demo/index.m3u8");
        assert_eq!(answer.status, status, "{}", answer.text());
        assert!(!answer.text().contains("token="), "{}", answer.text());
        if status == 200 {
            assert_eq!(made_at(&edge, "/live/demo/video.m3u8"), "cache");
            drop(watches(&edge, "/live/demo.ts"));
        } else {
            until("the operator to be told", || edge.process.output().contains(told));
        }
        for key in ["the-origins-own-key", "another-key"] {
            assert!(!edge.process.output().contains(key), "{}", edge.process.output());
        }
    }
}

#[test]
fn an_upgrade_goes_on_with_what_was_pulled_on_demand() {
    let origin = serve(&[]);
    let mut publisher = publish(origin.address(), "/live/far.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    until("pictures at the origin", || origin.count("far", "bytes_in") > 0);
    let scratch = Scratch::new("edge");
    let config = scratch.write("glassline.toml", format!("[upstream]\nservers = ['{}']\n", origin.url("")));
    let mut edge = serve(&["--config", &config]);
    let (mut viewer, mut check) = (watch(&edge, "far"), Check::new(SHAPE));
    publisher.write_all(&SHAPE.picture(1)).unwrap();
    see(&mut viewer, &mut check, 2 * SHAPE.packets);
    upgrade(&mut edge, &config);
    publisher.write_all(&SHAPE.picture(2)).unwrap();
    see(&mut viewer, &mut check, 3 * SHAPE.packets);
    assert_eq!((check.moves, edge.count("far", "viewers")), (0, 1));
    assert_eq!(origin.count("far", "viewers"), 1, "it is the same connection");
}
