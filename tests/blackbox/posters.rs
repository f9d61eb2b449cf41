//! The pictures of recordings and of clips: what they are, and to which clients they are given.

use crate::clips::{made, recording};
use crate::glassline;
use glassline_test_support::http::{Answer, ask, get};
use glassline_test_support::program::{Scratch, Server};
use glassline_test_support::wait::until_some;
use glassline_test_support::{has_library, skip};
use serde_json::Value;

/// The one recording that is listed.
fn listed(server: &Server, headers: &[&str]) -> Value {
    let answer = ask(server.address(), "GET", "/api/recordings", headers);
    let list: Vec<Value> = serde_json::from_str(&answer.text()).unwrap();
    assert_eq!(list.len(), 1, "{}", answer.text());
    list[0].clone()
}

/// The size of a picture, as the header of its first frame says.
fn size_of(jpeg: &[u8]) -> (u16, u16) {
    let mut at = 2;
    loop {
        let [0xff, marker, high, low, ..] = jpeg[at..] else { panic!("no marker at {at}") };
        if (0xc0..=0xc2).contains(&marker) {
            let two = |at: usize| u16::from_be_bytes([jpeg[at], jpeg[at + 1]]);
            return (two(at + 7), two(at + 5));
        }
        at += 2 + usize::from(u16::from_be_bytes([high, low]));
    }
}

fn is_jpeg(answer: &Answer) {
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("image/jpeg")),
        "{}",
        answer.text()
    );
    assert!(answer.body.starts_with(&[0xff, 0xd8, 0xff]) && answer.body.ends_with(&[0xff, 0xd9]));
    assert_eq!(size_of(&answer.body), (160, 90));
}

#[test]
fn a_recording_and_a_clip_have_pictures() {
    let test = "a_recording_and_a_clip_have_pictures";
    if !has_library("libavcodec.so.") {
        return skip(test, "libavcodec is not installed");
    }
    let scratch = Scratch::new("posters");
    let (server, _config) = recording(&scratch, "");
    let one = listed(&server, &[]);
    let path = one["poster"].as_str().expect("a picture").to_owned();
    let session = one["session"].as_str().unwrap();
    assert_eq!(path, format!("/live/hall/archive/{session}/poster.jpg"));
    let picture = get(server.address(), &path);
    is_jpeg(&picture);
    // The recording has just begun: another picture may come in its place.
    assert_eq!(picture.header("cache-control"), Some("max-age=2"));
    until_some("the same twice", || {
        let tag = get(server.address(), &path).header("etag").unwrap().to_owned();
        (ask(server.address(), "GET", &path, &[&format!("If-None-Match: {tag}")]).status == 304).then_some(())
    });
    let head = ask(server.address(), "HEAD", &path, &[]);
    assert_eq!((head.status, head.body.len()), (200, 0));
    let unknown = get(server.address(), "/live/hall/archive/20010101T000000.000Z/poster.jpg");
    assert_eq!(unknown.status, 404, "{}", unknown.text());

    let (status, _) = made(&server, "hall/clip?last=2s");
    let poster = status["clip"]["poster"].as_str().expect("a picture");
    assert_eq!(poster, "/api/recordings/hall/clips/0.jpg");
    let picture = get(server.address(), poster);
    is_jpeg(&picture);
    assert_eq!(picture.header("cache-control"), Some("private, no-store"));
    assert_eq!(get(server.address(), "/api/recordings/hall/clips/1.jpg").status, 404);
    // Ten seconds later the picture stays, and is in the store with the recording.
    let stays = until_some("the picture that stays", || {
        let picture = get(server.address(), &path);
        (picture.header("cache-control") == Some("max-age=3600")).then_some(picture)
    });
    let stored = scratch.path().join(format!("hall/{session}/poster.jpg"));
    let stored = until_some("the picture in the store", || std::fs::read(&stored).ok());
    assert_eq!(stored, stays.body);
}

#[test]
fn they_are_for_those_that_may_watch_and_clips_for_those_that_may_change_something() {
    let test = "they_are_for_those_that_may_watch_and_clips_for_those_that_may_change_something";
    if !has_library("libavcodec.so.") {
        return skip(test, "libavcodec is not installed");
    }
    let scratch = Scratch::new("posters-rights");
    let keys = "[viewer]\nkey = 'a-viewer-key'\n[publish]\nkey = 'a-publish-key'\n";
    let (server, config) = crate::clips::recorder(&scratch, keys);
    let key = config.write("viewer.key", "a-viewer-key\n");
    let signed =
        glassline(&["sign", &server.url("/live/hall/index.m3u8"), "--key-file", &key, "--for", "1h"]);
    let signed = signed.text();
    let token = signed.trim().split_once('?').unwrap().1.to_owned();
    let publisher = "Authorization: Bearer a-publish-key";
    let path = until_some("the recording", || {
        let answer = ask(server.address(), "GET", "/api/recordings", &[publisher]);
        let list: Vec<Value> = serde_json::from_str(&answer.text()).unwrap();
        list.first().and_then(|one| one["poster"].as_str().map(str::to_owned))
    });
    assert_eq!(listed(&server, &[publisher])["clip"], "/api/recordings/hall/clip");
    let refused = get(server.address(), &path);
    assert_eq!(refused.status, 401, "{}", refused.text());
    assert_eq!(get(server.address(), &format!("{path}?expires=1&token=0")).status, 401);
    is_jpeg(&get(server.address(), &format!("{path}?{token}")));
    // One that is good for another stream is not for this.
    let other =
        glassline(&["sign", &server.url("/live/stage/index.m3u8"), "--key-file", &key, "--for", "1h"]);
    let other = other.text();
    let other = other.trim().split_once('?').unwrap().1;
    assert_eq!(get(server.address(), &format!("{path}?{other}")).status, 401);
    // Without the publish key one is told of the picture, and not of clips, which are refused.
    let answer = get(server.address(), &format!("/api/recordings?{token}"));
    let list: Vec<Value> = serde_json::from_str(&answer.text()).unwrap();
    assert_eq!((list.len(), list[0]["poster"].as_str()), (1, Some(&*path)), "{}", answer.text());
    assert!(list[0]["clip"].is_null(), "{}", answer.text());
    let order = format!("/api/recordings/hall/clip?last=2s&{token}");
    assert!([401, 403].contains(&ask(server.address(), "POST", &order, &["Content-Length: 0"]).status));
    assert!([401, 403].contains(&get(server.address(), "/api/recordings/hall/clips/0.jpg").status));
}
