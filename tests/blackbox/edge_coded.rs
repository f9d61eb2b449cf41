//! Playlists that an edge has fetched, smaller for those who ask for that.

use crate::edge::{Origin, edge, edge_with_tokens, whole};
use glassline_test_support::http::{Answer, ask};
use std::io::{Read, Write};
use std::net::SocketAddr;

fn text() -> String {
    let parts = (0..100).map(|part| {
        let (segment, part) = (5000 + part / 10, part % 10);
        format!("#EXT-X-PART:DURATION=0.2,URI=\"video/{segment}.{part}.m4s\"\n")
    });
    "#EXTM3U\n".to_owned() + &parts.collect::<String>()
}

/// What is at `target` for a client that takes these codings.
fn wanting(server: SocketAddr, target: &str, codings: &str) -> Answer {
    ask(server, "GET", target, &[&format!("Accept-Encoding: {codings}")])
}

fn unpacked(answer: &Answer) -> String {
    let mut text = Vec::new();
    match answer.header("content-encoding") {
        Some("gzip") => drop(flate2::read::GzDecoder::new(&answer.body[..]).read_to_end(&mut text).unwrap()),
        Some("br") => brotli::BrotliDecompress(&mut &answer.body[..], &mut text).unwrap(),
        other => {
            assert_eq!(other, None);
            text.clone_from(&answer.body);
        }
    }
    String::from_utf8(text).unwrap()
}

#[test]
fn a_fetched_playlist_is_made_smaller_once_for_all() {
    let origin = Origin::start(|asked, connection| {
        assert_eq!(asked.field("accept-encoding"), None, "what comes is for all clients");
        let fields = if asked.target.contains("fixed") {
            "Cache-Control: max-age=60, no-transform\r\n"
        } else {
            "Cache-Control: max-age=60\r\nETag: \"7\"\r\n"
        };
        // In two pieces: what has begun is not what is whole.
        let answer = whole(text().as_bytes(), fields);
        let half = answer.len() / 2;
        connection.write_all(&answer[..half]).unwrap();
        std::thread::yield_now();
        connection.write_all(&answer[half..]).is_ok()
    });
    let (edge, _scratch) = edge(&[&origin.url()]);
    for target in ["/vod/video.m3u8", "/vod/manifest.mpd"] {
        // The first, which has it fetched, and those who find it.
        for (codings, coding, tag) in [
            ("gzip, deflate, br", Some("br"), "\"7-br\""),
            ("gzip", Some("gzip"), "\"7-gzip\""),
            ("gzip;q=0", None, "\"7\""),
            ("br", Some("br"), "\"7-br\""),
        ] {
            let answer = wanting(edge.address(), target, codings);
            assert_eq!((answer.status, answer.header("content-encoding")), (200, coding), "{codings}");
            assert_eq!((answer.header("vary"), answer.header("etag")), (Some("Accept-Encoding"), Some(tag)));
            assert_eq!(unpacked(&answer), text());
            if coding.is_some() {
                assert!(answer.body.len() * 4 < text().len(), "{} bytes", answer.body.len());
                let fields = [&*format!("Accept-Encoding: {codings}"), &format!("If-None-Match: {tag}")];
                assert_eq!(ask(edge.address(), "GET", target, &fields).status, 304, "{codings}");
            }
        }
        assert_eq!(origin.count(target), 1);
    }
    // Other objects leave as they came, and so does what is to stay as it is.
    for target in ["/vod/1.m4s", "/vod/fixed.m3u8"] {
        let answer = wanting(edge.address(), target, "gzip, br");
        assert_eq!((answer.header("content-encoding"), unpacked(&answer)), (None, text()), "{target}");
    }
}

#[test]
fn a_playlist_with_a_viewers_token_is_made_smaller_too() {
    let origin = Origin::start(|_, connection| connection.write_all(&whole(text().as_bytes(), "")).is_ok());
    let (edge, _scratch, sign) = edge_with_tokens(&origin.url());
    for codings in ["br", "gzip", ""] {
        let answer = wanting(edge.address(), &sign("/live/demo/index.m3u8"), codings);
        assert_eq!(answer.header("content-encoding"), Some(codings).filter(|coding| !coding.is_empty()));
        assert_eq!(unpacked(&answer).matches("&token=").count(), 100, "{}", unpacked(&answer));
    }
}
