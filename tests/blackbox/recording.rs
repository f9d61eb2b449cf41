//! What is recorded: through the spool into a store, over kills, full disks, and stores that are away or refuse.

use crate::{GLASSLINE, serve, serve_with};
use glassline_test_support::http::{ask, get};
use glassline_test_support::program::{Running, Scratch, Server};
use glassline_test_support::wait::{until, until_some};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A server that encodes the stream "hall" and records it into `store`, with segments of a second.
fn config(store: &Path, record: &str, more: &str) -> String {
    format!(
        "[record]\nstore = 'file:{}'\n{record}\n[stream.hall]\nrecord = true\n[package]\nsegment = '1s'\n\
         [encode.hall]\ninput = 'test:160x90@25'\nkeyint = '1s'\nthreads = 1\n{more}",
        store.display()
    )
}

/// The same with so many bits that a small disk is soon full.
fn fast(config: &str) -> String {
    config.replace("160x90@25'\n", "640x360@25'\nbitrate = '8M'\npreset = 'ultrafast'\n")
}

fn recordings(server: &Server) -> Vec<Value> {
    get(server.address(), "/api/recordings").json().as_array().cloned().unwrap()
}

fn figure(server: &Server, name: &str) -> u64 {
    server.metrics().sum(&format!("glassline_record_{name}"), "") as u64
}

/// The only recording of "hall", once it has this state.
fn recording(server: &Server, state: &str) -> Value {
    until_some(&format!("a recording that is {state}"), || {
        recordings(server).into_iter().find(|recording| recording["state"] == state)
    })
}

/// The folder of a recording.
fn folder(store: &Path, recording: &Value) -> PathBuf {
    store.join("hall").join(recording["session"].as_str().unwrap())
}

/// The lines of the index of a recording.
fn lines(folder: &Path) -> Vec<Value> {
    let Ok(parts) = fs::read_dir(folder.join("index")) else { return Vec::new() };
    let mut parts: Vec<_> = parts.map(|part| part.unwrap().path()).collect();
    parts.sort();
    let texts: Vec<String> = parts.iter().map(|part| fs::read_to_string(part).unwrap()).collect();
    texts.iter().flat_map(|text| text.lines()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The segments of a rendition that the index names, each of which is there as it says.
fn segments(folder: &Path, rendition: &str) -> Vec<u64> {
    let lines = lines(folder);
    let named = lines.iter().filter_map(|line| line.get("segment")).filter(|it| it["rendition"] == rendition);
    let mut numbers: Vec<u64> = named
        .map(|segment| {
            let number = segment["number"].as_u64().unwrap();
            let bytes = fs::metadata(folder.join(rendition).join(format!("{number}.m4s"))).unwrap().len();
            assert_eq!(Some(bytes), segment["bytes"].as_u64(), "{rendition} {number}");
            number
        })
        .collect();
    numbers.sort_unstable();
    numbers
}

fn has_no_gaps(numbers: &[u64]) {
    assert!(!numbers.is_empty() && numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "{numbers:?}");
}

/// Packets of a transport stream, by their PIDs.
fn pids(ts: &[u8]) -> Vec<u16> {
    assert_eq!(ts.len() % 188, 0);
    let pid = |packet: &[u8]| {
        assert_eq!(packet[0], 0x47);
        u16::from_be_bytes([packet[1] & 0x1f, packet[2]])
    };
    ts.chunks(188).map(pid).collect()
}

#[test]
fn a_stream_is_recorded_as_mpeg_ts_too_and_players_that_know_no_other_get_it() {
    let (scratch, store) = (Scratch::new("store"), Scratch::new("recorded-ts"));
    let text = config(store.path(), "ts = true\nkeep_size = '100GiB'", "");
    let file = scratch.write("glassline.toml", text);
    let mut server = serve(&["--config", &file]);
    let address = server.address();
    // What the store has not got yet is there for players.
    let list = until_some("a list", || {
        let list = get(address, "/live/hall/ts.m3u8?from=-1h");
        let list = match list.header("location") {
            Some(location) => get(address, &format!("/live/hall/{location}")),
            None => list,
        };
        (list.status == 200 && list.text().matches("#EXTINF").count() >= 3).then(|| list.text())
    });
    assert!(list.contains("#EXT-X-VERSION:3\n") && list.contains("PLAYLIST-TYPE:EVENT"), "{list}");
    let paths: Vec<&str> = list.lines().filter(|line| line.ends_with(".ts")).collect();
    let segment = get(address, &format!("/live/hall/{}", paths[1]));
    assert_eq!((segment.status, segment.header("content-type")), (200, Some("video/mp2t")));
    assert_eq!(pids(&segment.body)[..2], [0, 0x1000], "the tables come first");
    let running = recording(&server, "recording");
    server.process.signal("TERM");
    assert_eq!(server.process.wait().code(), Some(0));
    drop(server);
    let folder = folder(store.path(), &running);
    let named: Vec<u64> = lines(&folder)
        .iter()
        .filter_map(|line| line.get("ts"))
        .map(|ts| {
            let number = ts["number"].as_u64().unwrap();
            let bytes = fs::read(folder.join(format!("ts/{number}.ts"))).unwrap();
            assert_eq!(Some(bytes.len() as u64), ts["bytes"].as_u64(), "{number}");
            assert!(pids(&bytes).contains(&0x100));
            number
        })
        .collect();
    has_no_gaps(&named);
    assert_eq!(named, segments(&folder, "video"), "to the last one");
    // A server that does not record it so plays it, and deletes all of it.
    let file = scratch
        .write("glassline.toml", config(store.path(), "", "").replace("record = true", "record = false"));
    let server = serve(&["--config", &file]);
    let path = format!("/live/hall/{}", paths[1]);
    let again = until_some("the segment", || {
        let again = get(server.address(), &path);
        (again.status == 200).then_some(again)
    });
    assert_eq!(again.body, segment.body);
    let session = running["session"].as_str().unwrap();
    until("it is known", || {
        recordings(&server).iter().any(|it| it["session"] == session && it["state"] == "complete")
    });
    let deleted = ask(server.address(), "DELETE", &format!("/api/recordings/hall/{session}"), &[]);
    assert_eq!(deleted.status, 202);
    until("nothing of it", || !folder.exists());
}

#[test]
fn a_stream_is_recorded_whole_and_its_recording_ends_with_the_server() {
    let (scratch, store) = (Scratch::new("store"), Scratch::new("recorded"));
    let file = scratch.write("glassline.toml", config(store.path(), "", ""));
    let mut server = serve(&["--config", &file]);
    let running = recording(&server, "recording");
    let folder = folder(store.path(), &running);
    until("some segments", || figure(&server, "uploaded_objects_total") >= 8);
    assert!(figure(&server, "spooled_bytes_total") > 0 && figure(&server, "streams") == 1);
    assert_eq!((figure(&server, "dropped_bytes_total"), figure(&server, "store_up")), (0, 1));
    server.process.signal("TERM");
    assert_eq!(server.process.wait().code(), Some(0));
    let index = lines(&folder);
    assert!(index.iter().any(|line| line.get("ended").is_some()), "{}", server.process.output());
    for rendition in ["video", "audio"] {
        has_no_gaps(&segments(&folder, rendition));
    }
    // The next server knows it.
    let server = serve(&[
        "--config",
        &scratch.write("other.toml", config(store.path(), "", "[demo]\nenabled = false\n")),
    ]);
    until("the first recording", || {
        recordings(&server).iter().any(|it| it["session"] == running["session"] && it["state"] == "complete")
    });
}

#[test]
fn what_was_recorded_when_the_server_was_killed_is_there_and_is_ended_by_the_next() {
    let (scratch, store) = (Scratch::new("killed"), Scratch::new("killed-store"));
    let file = scratch.write("glassline.toml", config(store.path(), "", ""));
    for kill in 0..3 {
        let mut server = serve(&["--config", &file]);
        let session = recording(&server, "recording")["session"].clone();
        until("segments", || figure(&server, "spooled_bytes_total") > 60_000 + kill * 20_000);
        server.process.kill();
        drop(server);
        // It ends what the last one began, and begins another.
        let server = serve(&["--config", &file]);
        let found = until_some("the recording", || {
            let found = recordings(&server).into_iter().find(|it| it["session"] == session);
            found.filter(|it| it["state"] == "recovered")
        });
        let folder = folder(store.path(), &found);
        until("its end", || lines(&folder).iter().any(|line| line.get("ended").is_some()));
        has_no_gaps(&segments(&folder, "video"));
        has_no_gaps(&segments(&folder, "audio"));
        assert!(!lines(&folder).iter().any(|line| line.get("hole").is_some()));
    }
}

#[test]
fn a_store_that_is_away_loses_nothing_while_the_spool_lasts() {
    let (scratch, outer) = (Scratch::new("away"), Scratch::new("away-store"));
    let (store, moved) = (outer.path().join("store"), outer.path().join("moved"));
    fs::create_dir(&store).unwrap();
    let spool = format!("spool = '{}'", scratch.path().join("spool").display());
    let server = serve(&["--config", &scratch.write("glassline.toml", config(&store, &spool, ""))]);
    until("segments", || figure(&server, "uploaded_objects_total") >= 4);
    fs::rename(&store, &moved).unwrap();
    until("a failure", || figure(&server, "store_up") == 0 && figure(&server, "waiting_bytes") > 0);
    assert!(server.process.output().contains("there is no folder"), "{}", server.process.output());
    until("some that wait", || server.metrics().sum("glassline_record_oldest_waiting_seconds", "") > 2.0);
    // Live viewers see nothing of it, and the folder of a disk that is gone is not filled.
    assert_eq!(get(server.address(), "/live/hall/video.m3u8").status, 200);
    assert!(!store.exists());
    fs::rename(&moved, &store).unwrap();
    until("all of it", || figure(&server, "store_up") == 1 && figure(&server, "waiting_bytes") < 100_000);
    let folder = folder(&store, &recording(&server, "recording"));
    let named = until_some("the index", || Some(segments(&folder, "video")).filter(|it| it.len() >= 6));
    has_no_gaps(&named);
    assert_eq!(figure(&server, "dropped_segments_total"), 0);
}

#[test]
fn a_spool_that_is_full_gives_up_the_oldest_and_says_so_everywhere() {
    let (scratch, outer) = (Scratch::new("full"), Scratch::new("full-store"));
    let store = outer.path().join("store");
    let spool = format!("spool = '{}'\nspool_size = '4MiB'", scratch.path().join("spool").display());
    let server = serve(&["--config", &scratch.write("glassline.toml", fast(&config(&store, &spool, "")))]);
    recording(&server, "recording");
    fs::rename(&store, outer.path().join("moved")).unwrap();
    until("segments that are given up", || {
        server.metrics().sum("glassline_record_dropped_segments_total", "\"spool\"") >= 2.0
    });
    let bytes: u64 = fs::read_dir(scratch.path().join("spool"))
        .unwrap()
        .map(|it| it.unwrap().metadata().unwrap().len())
        .sum();
    assert!(bytes <= 5 << 20, "{bytes}");
    until("the log", || server.process.output().contains("segments are not recorded"));
    fs::rename(outer.path().join("moved"), &store).unwrap();
    let folder = folder(&store, &recording(&server, "recording"));
    until("the hole in the index", || lines(&folder).iter().any(|line| line["hole"]["reason"] == "spool"));
    segments(&folder, "video");
}

#[test]
fn a_spool_belongs_to_one_server_and_the_next_takes_it_when_it_is_free() {
    let (scratch, store) = (Scratch::new("lock"), Scratch::new("lock-store"));
    let file = scratch.write("glassline.toml", config(store.path(), "", ""));
    let mut first = serve(&["--config", &file]);
    recording(&first, "recording");
    let second = serve(&["--config", &file]);
    until("the complaint", || second.process.output().contains("is used by another process"));
    until("the figure", || figure(&second, "spool_up") == 0);
    until("a live stream", || get(second.address(), "/live/hall/video.m3u8").status == 200);
    assert!(figure(&second, "dropped_bytes_total") > 0);
    first.process.kill();
    until("the spool", || figure(&second, "spool_up") == 1);
    until("its own recording", || figure(&second, "spooled_bytes_total") > 0);
}

#[test]
fn a_disk_that_is_full_is_told_and_what_comes_after_it_is_recorded() {
    let scratch = Scratch::new("full-disk");
    let script = format!(
        "set -e; mount -t tmpfs -o size=3m none {spool}; exec {GLASSLINE} serve --listen 127.0.0.1:0 --config {file}",
        spool = scratch.path().join("spool").display(),
        file = scratch.file("glassline.toml"),
    );
    fs::create_dir(scratch.path().join("spool")).unwrap();
    let store = scratch.path().join("store");
    let spool = format!("spool = '{}'\nspool_size = '64MiB'", scratch.path().join("spool").display());
    scratch.write("glassline.toml", fast(&config(&store, &spool, "")));
    let probe = Command::new("unshare").args(["--user", "--map-root-user", "--mount", "true"]).output();
    let by_user: &[&str] = match probe {
        Ok(probe) if probe.status.success() => &["--user", "--map-root-user", "--mount"],
        _ => &["--mount"],
    };
    if !Command::new("unshare").args(by_user).arg("true").output().is_ok_and(|it| it.status.success()) {
        let test = "a_disk_that_is_full_is_told_and_what_comes_after_it_is_recorded";
        return glassline_test_support::skip(test, "no mounts of our own here");
    }
    // A store that takes nothing: its folder is a file.
    fs::write(&store, "x").unwrap();
    let mut process = Running::start(Command::new("unshare").args(by_user).args(["sh", "-c", &script]));
    let address = process.page_address();
    let figure = |name: &str| {
        let text = get(address, "/metrics").text();
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("glassline_record_{name} ")))
            .map(str::to_owned);
        line.and_then(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).unwrap_or_default()
    };
    until("the disk to be full", || {
        figure("spool_errors_total") > 0.0 && figure("dropped_bytes_total") > 0.0
    });
    until("the complaint", || process.output().contains("No space left on device"));
    assert_eq!(get(address, "/live/hall/video.m3u8").status, 200);
    fs::remove_file(&store).unwrap();
    fs::create_dir(&store).unwrap();
    // The disk holds less than comes between two parts of the index: it is full again now and then.
    until("room", || figure("uploaded_objects_total") > 10.0 && figure("waiting_bytes") < 1_000_000.0);
    let listed = get(address, "/api/recordings").json();
    let folder = folder(&store, &listed[0]);
    until("the hole in the index", || lines(&folder).iter().any(|line| line["hole"]["reason"] == "queue"));
    segments(&folder, "video");
}

#[test]
fn keys_that_cannot_be_read_and_a_server_that_is_not_there_are_told_and_viewers_see_nothing() {
    let scratch = Scratch::new("keys");
    let text = format!(
        "[record]\nstore = 's3://live/tv'\nendpoint = 'http://127.0.0.1:9'\nspool = '{}'\naccess_key_file = 'a.key'\n\
         secret_key_file = 's.key'\n[stream.hall]\nrecord = true\n[encode.hall]\ninput = 'test:160x90@25'\nkeyint = '1s'\nthreads = 1\n",
        scratch.path().join("spool").display()
    );
    let server = serve(&["--config", &scratch.write("glassline.toml", text)]);
    until("the complaint", || {
        let output = server.process.output();
        output.contains("access_key_file") && output.contains("a.key")
    });
    until("the failure", || server.metrics().sum("glassline_record_store_errors_total", "\"denied\"") > 0.0);
    for name in ["a.key", "s.key"] {
        fs::write(scratch.path().join(name), "0123456789abcdef\n").unwrap();
        let _ = Command::new("chmod").args(["600", &scratch.file(name)]).status();
    }
    until("the next failure", || {
        server.metrics().sum("glassline_record_store_errors_total", "\"unreachable\"") > 0.0
    });
    until("a live stream", || get(server.address(), "/live/hall/video.m3u8").status == 200);
    assert!(!server.process.output().contains("0123456789abcdef"));
}

#[test]
fn a_recording_is_locked_unlocked_and_deleted_by_requests() {
    let (scratch, store) = (Scratch::new("delete"), Scratch::new("delete-store"));
    let file = scratch.write("glassline.toml", config(store.path(), "", ""));
    let mut first = serve(&["--config", &file]);
    let running = recording(&first, "recording");
    let path = format!("/api/recordings/hall/{}", running["session"].as_str().unwrap());
    let status = |server: &Server, method: &str, path: &str| {
        ask(server.address(), method, path, &["Content-Length: 0"]).status
    };
    until("segments", || figure(&first, "uploaded_objects_total") >= 4);
    assert_eq!(status(&first, "DELETE", &path), 409, "it goes on");
    first.process.signal("TERM");
    first.process.wait();
    let (server, _config) = serve_with(&format!("[record]\nstore = 'file:{}'\n", store.path().display()));
    recording(&server, "complete");
    assert_eq!(status(&server, "DELETE", "/api/recordings/hall/20010101T000000.000Z"), 404);
    assert_eq!(status(&server, "DELETE", "/api/recordings/../hall"), 404);
    assert_eq!(status(&server, "POST", &format!("{path}/lock")), 202);
    until("the lock", || recordings(&server)[0]["locked"] == true);
    assert_eq!(status(&server, "DELETE", &path), 409, "it is locked");
    assert_eq!(status(&server, "DELETE", &format!("{path}/lock")), 202);
    until("no lock", || recordings(&server)[0]["locked"] == false);
    assert_eq!(status(&server, "DELETE", &path), 202);
    until("nothing", || recordings(&server).is_empty() && !folder(store.path(), &running).exists());
}

#[test]
fn a_publisher_that_returns_goes_on_in_its_recording() {
    let (scratch, store) = (Scratch::new("return"), Scratch::new("return-store"));
    let text = format!(
        "[record]\nstore = 'file:{}'\n[stream.film]\nrecord = true\n[package]\nsegment = '500ms'\n",
        store.path().display()
    );
    let server = serve(&["--config", &scratch.write("glassline.toml", text)]);
    let publish = |input: &str| {
        let url = server.url("/live/film.ts");
        let arguments = ["encode", input, &url, "--limit", "75", "--keyint", "12"];
        let encoded = crate::glassline(&arguments);
        assert_eq!(encoded.status, Some(0), "{}", encoded.stderr);
    };
    publish("test:160x90@25");
    until("the first part", || figure(&server, "spooled_bytes_total") > 0);
    let session = recordings(&server)[0]["session"].clone();
    // Another size is another epoch.
    publish("test:320x180@25");
    let folder = store.path().join("film").join(session.as_str().unwrap());
    until("another header", || {
        fs::read_dir(folder.join("video")).is_ok_and(|files| {
            files
                .filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().starts_with("init-"))
                .count()
                >= 2
        })
    });
    assert_eq!(recordings(&server).len(), 1, "it is one recording");
}

#[test]
fn what_was_on_its_way_to_the_store_when_the_server_was_killed_comes_with_the_next() {
    let (scratch, store) = (Scratch::new("killed-upload"), Scratch::new("killed-upload-store"));
    let spool = format!("spool = '{}'", scratch.path().join("spool").display());
    let slow = format!("{spool}\nupload_rate = '2M'");
    let file = scratch.write("slow.toml", fast(&config(store.path(), &slow, "")));
    let mut server = serve(&["--config", &file]);
    let session = recording(&server, "recording")["session"].clone();
    until("some in the store and much that waits", || {
        figure(&server, "uploaded_objects_total") >= 4 && figure(&server, "waiting_bytes") > 4_000_000
    });
    server.process.kill();
    drop(server);
    let before = folder(store.path(), &serde_json::json!({ "session": session }));
    // As the kill leaves an object that was half written.
    fs::write(before.join("video/0.m4s#1"), "half").unwrap();
    let server = serve(&["--config", &scratch.write("fast.toml", fast(&config(store.path(), &spool, "")))]);
    until("the recording", || {
        recordings(&server).iter().any(|it| it["session"] == session && it["state"] == "recovered")
    });
    until("its end", || lines(&before).iter().any(|line| line.get("ended").is_some()));
    for rendition in ["video", "audio"] {
        has_no_gaps(&segments(&before, rendition));
    }
    assert!(!lines(&before).iter().any(|line| line.get("hole").is_some()));
    assert_eq!(figure(&server, "dropped_segments_total"), 0);
}

#[test]
fn a_configuration_with_another_store_begins_another_recording_there() {
    let scratch = Scratch::new("reload");
    let (one, two) = (scratch.path().join("one"), scratch.path().join("two"));
    let spool = format!("spool = '{}'", scratch.path().join("spool").display());
    let file = scratch.write("glassline.toml", config(&one, &spool, ""));
    let server = serve(&["--config", &file]);
    let first = recording(&server, "recording")["session"].clone();
    until("segments", || figure(&server, "uploaded_objects_total") >= 6);
    scratch.write("glassline.toml", config(&two, &spool, ""));
    server.process.signal("HUP");
    let second = until_some("another recording", || {
        recordings(&server).into_iter().find(|it| it["session"] != first && it["state"] == "recording")
    });
    let (first, second) = (folder(&one, &serde_json::json!({ "session": first })), folder(&two, &second));
    until("the end of the first", || lines(&first).iter().any(|line| line.get("ended").is_some()));
    until("segments of the second", || segments(&second, "video").len() >= 3);
    has_no_gaps(&segments(&first, "video"));
    has_no_gaps(&segments(&second, "video"));
    assert_eq!(fs::read_dir(one.join("hall")).unwrap().count(), 1);
    assert_eq!(fs::read_dir(two.join("hall")).unwrap().count(), 1);
    assert_eq!(figure(&server, "dropped_segments_total"), 0);
}
