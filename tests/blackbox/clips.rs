//! Clips of recordings, by the API; and exports of a folder that a server records into.

use crate::{glassline, serve_with};
use glassline_test_support::http::{Answer, ask, get};
use glassline_test_support::program::{Running, Scratch, Server};
use glassline_test_support::wait::{until, until_some};
use std::os::unix::fs::PermissionsExt;

/// A server that encodes the stream "hall" and records it, with segments of a second.
pub(crate) fn recorder(scratch: &Scratch, more: &str) -> (Server, Scratch) {
    let store = scratch.path().display();
    serve_with(&format!(
        "[record]\nstore = 'file:{store}'\n[stream.hall]\nrecord = true\n[package]\nsegment = '1s'\n\
         [encode.hall]\ninput = 'test:160x90@25'\nkeyint = '1s'\nthreads = 1\n{more}"
    ))
}

/// The same, when some are recorded.
pub(crate) fn recording(scratch: &Scratch, more: &str) -> (Server, Scratch) {
    let (server, config) = recorder(scratch, more);
    until("recorded segments", || {
        let list = crate::replay::followed(&server, "video.m3u8?from=-1h").text();
        // Before anything is recorded it is the live list, of which the addresses are others.
        list.lines().filter(|line| line.starts_with("archive/")).count() >= 3
    });
    (server, config)
}

fn post(server: &Server, rest: &str) -> Answer {
    ask(server.address(), "POST", &format!("/api/recordings/{rest}"), &["Content-Length: 0"])
}

/// The status and the file of a clip that is ordered, when it is made.
pub(crate) fn made(server: &Server, rest: &str) -> (serde_json::Value, Answer) {
    let answer = post(server, rest);
    assert_eq!(answer.status, 202, "{}", answer.text());
    let ordered: serde_json::Value = serde_json::from_str(&answer.text()).unwrap();
    assert_eq!(answer.header("location"), ordered["status"].as_str());
    let status = until_some("the clip", || {
        let answer = get(server.address(), ordered["status"].as_str().unwrap());
        match answer.status {
            202 => {
                assert_eq!(answer.header("retry-after"), Some("1"));
                None
            }
            _ => Some(answer),
        }
    });
    assert_eq!(status.status, 200, "{}", status.text());
    let file = get(server.address(), ordered["file"].as_str().unwrap());
    (serde_json::from_str(&status.text()).unwrap(), file)
}

#[test]
fn a_clip_of_what_has_just_been_is_an_mp4_that_is_downloaded() {
    let scratch = Scratch::new("clips");
    let (server, config) = recording(&scratch, "");
    let (status, file) = made(&server, "hall/clip?last=2s");
    assert_eq!(status["state"], "done", "{status}");
    let seconds = status["clip"]["seconds"].as_f64().unwrap();
    // From the key frame before, up to now: what is being captured is waited for.
    assert!((2.0..3.1).contains(&seconds), "{status}");
    assert_eq!((file.status, file.header("content-type")), (200, Some("video/mp4")));
    let named = file.header("content-disposition").unwrap();
    assert!(named.starts_with("attachment; filename=\"hall-20") && named.ends_with("Z.mp4\""), "{named}");
    assert_eq!(file.body.len() as u64, status["clip"]["bytes"].as_u64().unwrap());
    let at = |name: &[u8]| file.body.windows(4).position(|four| four == name).unwrap();
    assert!(&file.body[4..8] == b"ftyp" && at(b"moov") < at(b"mdat"));
    let head = ask(server.address(), "HEAD", "/api/recordings/hall/clips/0.mp4", &[]);
    assert_eq!((head.status, head.body.len()), (200, 0));

    // What is not recorded then is told by the clip's address.
    let answer = post(&server, "hall/clip?from=2001-01-01T00:00:00Z&to=2001-01-01T00:01:00Z");
    assert_eq!(answer.status, 202, "{}", answer.text());
    until("the failure", || get(server.address(), "/api/recordings/hall/clips/1.json").status == 404);
    let answer = get(server.address(), "/api/recordings/hall/clips/1.mp4");
    assert!(answer.text().contains("Nothing of this stream is recorded"), "{}", answer.text());
    for (rest, status, words) in [
        ("hall/clip", 400, "Say which time"),
        ("hall/clip?last=forever", 400, "is no time"),
        ("hall/clip?last=30s&from=-1m", 400, "either last or from"),
        ("hall/clip?last=1h", 400, "5 minutes at most"),
        ("hall/clip?from=-1m&to=-2m", 400, "not later"),
        ("hall/clip?from=2101-01-01T00:00:00Z", 400, "has not come yet"),
    ] {
        let answer = post(&server, rest);
        assert!(answer.status == status && answer.text().contains(words), "{rest}: {}", answer.text());
    }
    for (method, rest, status) in [
        ("GET", "hall/clip", 405),
        ("DELETE", "hall/clips/0.mp4", 405),
        ("GET", "hall/clips/7.mp4", 404),
        ("GET", "stage/clips/0.mp4", 404),
        ("GET", "hall/clips/0.ts", 404),
    ] {
        let answer = ask(server.address(), method, &format!("/api/recordings/{rest}"), &[]);
        assert_eq!(answer.status, status, "{method} {rest}");
    }
    drop(config);
}

#[test]
fn clips_are_for_those_that_may_change_something() {
    let scratch = Scratch::new("clips-rights");
    let (server, _config) = recording(&scratch, "[publish]\nkey = 'a-publish-key'\n");
    let none = "Content-Length: 0";
    let foreign = [none, "Origin: https://elsewhere.example", "Sec-Fetch-Site: cross-site"];
    for path in ["hall/clip?last=2s", "hall/clips/0.mp4"] {
        let method = if path.contains('?') { "POST" } else { "GET" };
        let path = format!("/api/recordings/{path}");
        let refused = ask(server.address(), method, &path, &[none]);
        assert!([401, 403].contains(&refused.status), "{path}: {}", refused.status);
        let refused = ask(server.address(), method, &path, &foreign);
        assert!([401, 403].contains(&refused.status), "{path}: {}", refused.status);
    }
    let key = "Authorization: Bearer a-publish-key";
    let answer = ask(server.address(), "POST", "/api/recordings/hall/clip?last=2s", &[key, none]);
    assert_eq!(answer.status, 202, "{}", answer.text());
}

#[test]
fn a_folder_that_is_recorded_into_is_exported_and_no_file_is_replaced_unasked() {
    let scratch = Scratch::new("clips-export");
    let (server, _config) = recording(&scratch, "");
    let store = format!("file:{}", scratch.path().display());
    until("a part of the index", || {
        let found = glassline(&["export", "hall", &scratch.file("first.mp4"), "--store", &store, "--force"]);
        found.status == Some(0)
    });
    let out = scratch.file("first.mp4");
    let before = std::fs::read(&out).unwrap();
    let refused = glassline(&["export", "hall", &out, "--store", &store]);
    assert!(refused.status == Some(2) && refused.stderr.contains("--force"), "{}", refused.stderr);
    assert_eq!(std::fs::read(&out).unwrap(), before);
    // Something is missing at the end: the file is there, and the status says so.
    let arguments = ["export", "hall", &out, "--store", &store, "--force", "--json", "--from", "-1h", "--to"];
    let told = glassline(&[&arguments[..], &["-0s"]].concat());
    assert_eq!(told.status, Some(3), "{}", told.stderr);
    let told: serde_json::Value = serde_json::from_str(&told.text()).unwrap();
    assert!(told["whole"] == false && !told["missing"].as_array().unwrap().is_empty(), "{told}");
    // A place that takes no file is told before the store is asked.
    let refused = glassline(&["export", "hall", "/dev/full/x.mp4", "--store", &store]);
    assert_eq!(refused.status, Some(1), "{}", refused.stderr);
    drop(server);
}

#[test]
fn a_running_server_makes_a_file_of_what_it_records_at_that_moment() {
    let scratch = Scratch::new("clips-server");
    let (server, _config) = recording(&scratch, "[publish]\nkey = 'a-publish-key'\n");
    let key = scratch.write("publish.key", "a-publish-key\n");
    let out = scratch.file("last.mp4");
    let at = format!("http://{}", server.address());
    let from = ["export", "hall", &out, "--server", &at, "--from", "-3s"];
    let refused = glassline(&from);
    assert!(refused.status == Some(1) && refused.stderr.contains("--publish-key-file"), "{}", refused.stderr);
    let keyed = [&from[..], &["--publish-key-file", &key, "--json"]].concat();
    let told = until_some("a file", || {
        let made = glassline(&[&keyed[..], &["--force"]].concat());
        let told: Option<serde_json::Value> = serde_json::from_str(&made.text()).ok();
        told.filter(|told| told["whole"] == true && made.status == Some(0))
    });
    assert!(told["seconds"].as_f64() >= Some(2.5), "{told}");
    let bytes = std::fs::read(&out).unwrap();
    assert_eq!((Some(bytes.len() as u64), &bytes[4..8]), (told["bytes"].as_u64(), &b"ftyp"[..]));
    // Up to the moment of the order, which the store has not got: the recording has just begun.
    let began = told["from"].as_str().unwrap().to_owned();
    let refused = glassline(&keyed);
    assert!(refused.status == Some(2) && refused.stderr.contains("--force"), "{}", refused.stderr);
    assert_eq!(std::fs::read(&out).unwrap(), bytes);
    let from =
        ["export", "hall", &out, "--server", &at, "--force", "--publish-key-file", &key, "--from", &began];
    let long = glassline(&[&from[..9], &["-10m"]].concat());
    assert!(long.status == Some(1) && long.stderr.contains("minutes"), "{}", long.stderr);
    for wrong in
        [&["export", "hall", "a.ts", "--server", &at, "--from", "-3s"][..], &["export", "hall", "a.mp4"]]
    {
        assert_eq!(glassline(wrong).status, Some(2), "{wrong:?}");
    }
}

#[test]
fn an_export_that_is_told_twice_to_end_leaves_no_file() {
    let scratch = Scratch::new("clips-twice");
    // A store that takes connections and says nothing.
    let store = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", store.local_addr().unwrap());
    store.set_nonblocking(true).unwrap();
    let keys = ["id", "secret"].map(|name| {
        let path = scratch.write(name, "key");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        path
    });
    let folder = scratch.path().join("out");
    std::fs::create_dir(&folder).unwrap();
    let out = folder.join("out.mp4");
    let mut command = std::process::Command::new(crate::GLASSLINE);
    command.args([
        "export",
        "hall",
        out.to_str().unwrap(),
        "--store",
        "s3://bucket/prefix",
        "--endpoint",
        &endpoint,
    ]);
    command.args(["--access-key-file", &keys[0], "--secret-key-file", &keys[1]]);
    let mut running = Running::start(&mut command);
    let files = || std::fs::read_dir(&folder).unwrap().count();
    until("the hidden file", || files() == 1);
    let _connection = until_some("a connection", || store.accept().ok());
    // Two that come at once may be one.
    until("the end", || {
        running.signal("INT");
        running.ended().is_some()
    });
    assert_eq!(running.wait().code(), Some(1), "{}", running.output());
    assert_eq!(files(), 0);
}
