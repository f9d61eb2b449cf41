//! What is recorded, watched by its times.

use crate::{glassline, serve_with};
use glassline_test_support::http::{Answer, ask, get};
use glassline_test_support::program::{Scratch, Server};
use glassline_test_support::wait::{until, until_some};

/// A server that encodes the stream "hall" and records it, with segments of a second.
fn recording(scratch: &Scratch, more: &str) -> (Server, Scratch) {
    let store = scratch.path().display();
    serve_with(&format!(
        "[record]\nstore = 'file:{store}'\n[stream.hall]\nrecord = true\n[package]\nsegment = '1s'\n\
         [encode.hall]\ninput = 'test:160x90@25'\nkeyint = '1s'\nthreads = 1\n{more}"
    ))
}

/// The addresses of a playlist, without those of segments that are not there.
fn addresses(playlist: &str) -> Vec<&str> {
    let mut is_gap = false;
    let is_address = |line: &&str| {
        is_gap |= *line == "#EXT-X-GAP";
        !line.starts_with('#') && !std::mem::take(&mut is_gap)
    };
    playlist.lines().filter(is_address).collect()
}

/// What is at an address of the stream, where a time before now leads to one by the clock.
pub(crate) fn followed(server: &Server, rest: &str) -> Answer {
    let answer = get(server.address(), &format!("/live/hall/{rest}"));
    match answer.header("location").filter(|_| answer.status == 302) {
        Some(location) => get(server.address(), &format!("/live/hall/{location}")),
        None => answer,
    }
}

/// The playlist of pictures of all that is recorded, when it has so many segments at least.
fn pictures(server: &Server, query: &str, segments: usize) -> String {
    until_some("recorded segments", || {
        let answer = followed(server, &format!("video.m3u8?{query}"));
        let text = answer.text();
        (answer.status == 200 && addresses(&text).len() >= segments).then_some(text)
    })
}

#[test]
fn what_goes_on_is_watched_from_its_beginning_and_a_time_of_it_is_whole() {
    let scratch = Scratch::new("replay");
    let (server, _config) = recording(&scratch, "");
    let list = pictures(&server, "from=-1h", 3);
    assert!(list.contains("#EXT-X-PLAYLIST-TYPE:EVENT\n") && !list.contains("ENDLIST"), "{list}");
    let index = get(server.address(), "/live/hall/index.m3u8?from=-1h").text();
    assert!(index.contains("\nvideo.m3u8?from=20"), "{index}");
    let manifest = get(server.address(), "/live/hall/manifest.mpd?from=-1h").text();
    assert!(manifest.contains("type=\"dynamic\"") && manifest.contains("archive/20"), "{manifest}");
    // Up to now: the segment of this moment is waited for.
    let whole = followed(&server, "video.m3u8?from=-1h&to=-0s").text();
    assert!(whole.ends_with("#EXT-X-ENDLIST\n") && whole.contains("TYPE:EVENT"), "{whole}");
    assert!(whole.starts_with(&list[..list.find("#EXT-X-PLAYLIST").unwrap()]), "{whole}");

    let first = format!("/live/hall/{}", addresses(&list)[0]);
    let segment = get(server.address(), &first);
    assert_eq!((segment.status, segment.header("content-type")), (200, Some("video/mp4")));
    assert_eq!(segment.header("cache-control"), Some("max-age=86400, immutable"));
    assert!(segment.header("server-timing").is_some_and(|timing| timing.starts_with("archive;dur=")));
    let tag = segment.header("etag").unwrap().to_owned();
    let again = ask(server.address(), "GET", &first, &[&format!("If-None-Match: {tag}")]);
    assert_eq!(again.status, 304);
    let part = ask(server.address(), "GET", &first, &["Range: bytes=4-7"]);
    assert_eq!((part.status, &part.body[..]), (206, &segment.body[4..8]));
    let head = ask(server.address(), "HEAD", &first, &[]);
    let length = segment.body.len().to_string();
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, Some(&*length), 0));
    let header = list.split("EXT-X-MAP:URI=\"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(get(server.address(), &format!("/live/hall/{header}")).status, 200);

    for (path, status, words) in [
        ("index.m3u8?from=yesterday", 400, "from=yesterday is no time"),
        ("index.m3u8?from=-1m&to=-2m", 400, "is not later than"),
        ("manifest.mpd?to=-2m", 400, "no from"),
        (
            "index.m3u8?from=2001-01-01T00:00:00Z&to=2001-01-02T00:00:00Z",
            404,
            "Nothing of this stream is recorded",
        ),
        ("archive/20010101T000000.000Z/video/1.m4s", 404, "No recording has such an object"),
        ("archive/../hall/video/1.m4s", 404, ""),
    ] {
        let answer = get(server.address(), &format!("/live/hall/{path}"));
        let text = answer.text();
        assert!(answer.status == status && text.contains(words), "{path}: {} {text}", answer.status);
    }
    // What is live stays so without a time.
    let live = get(server.address(), "/live/hall/video.m3u8").text();
    assert!(live.contains("#EXT-X-PART-INF") && !live.contains("archive/"), "{live}");
    let metrics = server.metrics();
    assert!(metrics.sum("glassline_object_first_byte_seconds_count", "source=\"recorded\"") > 5.0);
}

#[test]
fn a_token_lets_in_and_is_carried_to_each_segment() {
    let scratch = Scratch::new("replay-token");
    let (server, config) = recording(&scratch, "[viewer]\nkey = 'a-viewer-key'\n");
    let key = config.write("viewer.key", "a-viewer-key\n");
    let url = server.url("/live/hall/index.m3u8");
    let signed = glassline(&["sign", &url, "--key-file", &key, "--for", "1h"]);
    let signed = signed.text();
    let token = signed.trim().split_once('?').unwrap().1.to_owned();
    for path in ["index.m3u8?from=-1h", "video.m3u8?from=-1h", "archive/20010101T000000.000Z/video/1.m4s"] {
        assert_eq!(get(server.address(), &format!("/live/hall/{path}")).status, 401, "{path}");
    }
    let list = pictures(&server, &format!("from=-1h&{token}"), 2);
    let first = addresses(&list)[0].to_owned();
    assert!(first.ends_with(&token), "{first}");
    assert_eq!(get(server.address(), &format!("/live/hall/{first}")).status, 200);
    let bare = first.split('?').next().unwrap();
    assert_eq!(get(server.address(), &format!("/live/hall/{bare}")).status, 401);
}

#[test]
fn a_server_that_comes_back_has_both_recordings_in_one_list_and_no_stream_is_its_newest_one() {
    let scratch = Scratch::new("replay-again");
    let (server, _config) = recording(&scratch, "");
    pictures(&server, "from=-1h", 2);
    drop(server);
    let (server, _config) = recording(&scratch, "");
    let list = until_some("both recordings", || {
        let text = followed(&server, "video.m3u8?from=-1h").text();
        text.contains("#EXT-X-DISCONTINUITY\n").then_some(text)
    });
    let sessions: std::collections::BTreeSet<_> =
        addresses(&list).iter().filter_map(|address| address.split('/').nth(1)).collect();
    assert_eq!(sessions.len(), 2, "{list}");
    let all: Vec<_> = addresses(&list).iter().map(|address| format!("/live/hall/{address}")).collect();
    all.iter().for_each(|address| assert_eq!(get(server.address(), address).status, 200, "{address}"));
    drop(server);
    // A server that records nothing new, and has what there is.
    let store = scratch.path().display();
    let (server, _config) =
        serve_with(&format!("[record]\nstore = 'file:{store}'\n[stream.hall]\nrecord = true\n"));
    until("the newest recording", || get(server.address(), "/live/hall/index.m3u8").status == 200);
    let list = get(server.address(), "/live/hall/video.m3u8").text();
    assert!(list.ends_with("#EXT-X-ENDLIST\n") && list.contains("archive/"), "{list}");
    assert_eq!(get(server.address(), "/live/other/index.m3u8").status, 404);
}
