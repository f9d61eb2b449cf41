//! The thumbnail of a stream that is watched: how it is served, and to which clients.

use crate::admin::admin_of;
use crate::serve_with;
use glassline_test_support::http::{ask, get};
use glassline_test_support::wait::until_some;
use glassline_test_support::{has_library, skip};

#[test]
fn a_thumbnail_is_for_operators_and_changes_by_its_tag() {
    let test = "a_thumbnail_is_for_operators_and_changes_by_its_tag";
    if !has_library("libavcodec.so.") {
        return skip(test, "libavcodec is not installed");
    }
    let (server, _scratch) = serve_with(
        "[demo]\nenabled = true\n[admin]\nlisten = ['127.0.0.1:0']\n[watch]\nstreams = ['demo']\n",
    );
    let (public, admin) = (server.address(), admin_of(&server));
    let path = "/api/streams/demo/thumbnail";
    let picture = until_some("the picture", || Some(get(admin, path)).filter(|answer| answer.status == 200));
    assert_eq!(picture.header("content-type"), Some("image/jpeg"));
    assert_eq!(picture.header("cache-control"), Some("private, max-age=5"));
    assert_eq!(picture.header("x-content-type-options"), Some("nosniff"));
    assert!(picture.body.starts_with(&[0xff, 0xd8, 0xff]) && picture.body.ends_with(&[0xff, 0xd9]));
    // It may be another one by now: the picture moves.
    until_some("the same twice", || {
        let picture = get(admin, &format!("{path}?v=anything"));
        let told = get(admin, "/api/streams").json()["streams"][0]["thumbnail"].clone();
        let tag = picture.header("etag").unwrap().to_owned();
        let again = ask(admin, "GET", path, &[&format!("If-None-Match: {tag}")]);
        (tag == format!("\"{}\"", told.as_str().unwrap()) && again.status == 304).then_some(())
    });
    let tag = picture.header("etag").unwrap().to_owned();
    until_some("another one", || (get(admin, path).header("etag") != Some(tag.as_str())).then_some(()));
    // Viewers see the stream itself, and not this.
    let refused = get(public, path);
    assert_eq!(refused.status, 404);
    assert!(refused.text().contains("admin listener"), "{}", refused.text());
    let told = get(public, "/api/streams/demo").json();
    assert_eq!((&told["live"], &told["thumbnail"]), (&true.into(), &serde_json::Value::Null), "{told}");
    assert_eq!(get(admin, "/api/streams/other/thumbnail").status, 404);
}

#[test]
fn a_stream_that_is_not_watched_has_none() {
    let (server, _scratch) = serve_with("[demo]\nenabled = true\n");
    server.wait_for_pictures("demo");
    let refused = get(server.address(), "/api/streams/demo/thumbnail");
    assert_eq!(refused.status, 404);
    assert!(refused.text().contains("[watch]"), "{}", refused.text());
    assert!(server.stream("demo").unwrap()["thumbnail"].is_null());
}
