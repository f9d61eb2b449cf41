//! Where the milliseconds went, as the server tells it: of each picture, of the last ten minutes, and by viewers' reports.

use crate::edge::{Origin, edge, playlist, quoted, tags, whole};
use crate::{GLASSLINE, glassline, serve, serve_with};
use glassline_test_support::http::{Answer, ask, connect, get, publish, raw, read_head};
use glassline_test_support::numbered::Shape;
use glassline_test_support::program::{Running, Scratch, Server};
use glassline_test_support::wait::{until, until_some};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;
use std::process::Command;

const CODING: [&str; 10] =
    ["--preset", "ultrafast", "--bitrate", "500k", "--slices", "2", "--audio", "none", "--keyint", "1s"];
const RELAY: [&str; 4] = ["relay_first_byte", "relay_received", "relay_flushed", "relay_sent"];

/// A stream that says its capture times, and its encoder.
fn encoded(server: &Server, name: &str) -> Running {
    let url = server.url(&format!("/live/{name}.ts"));
    let mut command = Command::new(GLASSLINE);
    let encoder = Running::start(command.args(["encode", "test:160x90@50"]).arg(&url).args(CODING));
    server.wait_for_pictures(name);
    encoder
}

fn watch(server: &Server, target: &str) -> TcpStream {
    let mut viewer = connect(server.address());
    write!(viewer, "GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(read_head(&mut viewer).status, 200);
    viewer
}

fn stages(server: &Server, target: &str) -> Value {
    let answer = get(server.address(), target);
    assert_eq!((answer.status, answer.header("cache-control")), (200, Some("no-store")), "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/json"));
    answer.json()
}

fn pictures(told: &Value) -> &[Value] {
    told["pictures"].as_array().expect("pictures")
}

fn captured(picture: &Value) -> u64 {
    picture["captured_us"].as_u64().expect("a time")
}

const JSON: &str = "Content-Type: application/json\r\n";

fn report(server: &Server, target: &str, body: &str) -> Answer {
    report_with(server, target, JSON, body)
}

fn report_with(server: &Server, target: &str, fields: &str, body: &str) -> Answer {
    let length = body.len();
    let request = format!(
        "POST {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
    );
    raw(server.address(), request.as_bytes()).expect("an answer")
}

/// Counts with so many pictures in one bucket.
fn counts(bucket: usize, count: u64) -> Vec<u64> {
    (0..13).map(|at| if at == bucket { count } else { 0 }).collect()
}

#[test]
fn each_picture_is_told_with_when_it_passed() {
    let server = serve(&[]);
    let _encoder = encoded(&server, "a");
    let mut viewer = watch(&server, "/live/a.ts");
    let reader = std::thread::spawn(move || std::io::copy(&mut viewer, &mut std::io::sink()));
    let sent = |told: &Value| pictures(told).iter().filter(|picture| picture["relay_sent"].is_i64()).count();
    until("pictures that were sent to a viewer", || sent(&stages(&server, "/live/a/stages.json")) > 50);
    let told = stages(&server, "/live/a/stages.json");
    let now = told["now_us"].as_u64().unwrap();
    assert!(now.abs_diff(std::time::UNIX_EPOCH.elapsed().unwrap().as_micros() as u64) < 60_000_000);
    let edges: Vec<u64> = serde_json::from_value(told["edges_us"].clone()).unwrap();
    assert!(edges.len() == 12 && edges.is_sorted(), "{edges:?}");
    let all = pictures(&told);
    assert!(all.len() <= 1200);
    for pair in all.windows(2) {
        assert!(captured(&pair[0]) < captured(&pair[1]), "{pair:?}");
    }
    for picture in all {
        let stages: Vec<i64> = RELAY.iter().filter_map(|stage| picture[*stage].as_i64()).collect();
        assert!(stages.len() >= 3 && stages.is_sorted(), "{picture}");
        // One machine: nothing comes before its capture, nor after now.
        let last = captured(picture) + u64::try_from(stages[2]).unwrap();
        assert!(stages[0] >= 0 && last <= now, "{picture} at {now}");
        assert!(now - captured(picture) < 30_000_000, "{picture} is old at {now}");
    }
    // Who asks again gets what is new.
    let newest = captured(all.last().unwrap());
    let mut later = Value::Null;
    until("later pictures", || {
        later = stages(&server, &format!("/live/a/stages.json?after={newest}"));
        !pictures(&later).is_empty()
    });
    assert!(pictures(&later).iter().all(|picture| captured(picture) > newest));
    assert_eq!(get(server.address(), "/live/a/stages.json?after=x").status, 400);
    assert_eq!(ask(server.address(), "HEAD", "/live/a/stages.json", &[]).status, 200);
    // The metrics count the same, and the last ten minutes have what the sender says too.
    let metrics = server.metrics();
    for stage in RELAY {
        let labels = format!("{{stream=\"a\",stage=\"{stage}\"");
        let count = metrics.sum("glassline_relay_stage_seconds_count", &labels);
        let last = metrics.sum("glassline_relay_stage_seconds_bucket", &format!("{labels},le=\"+Inf\"}}"));
        assert!(count >= 50.0 && last == count, "{stage}: {count}, {last}");
    }
    let latency = get(server.address(), "/api/streams/a/latency").json();
    assert_eq!((&latency["step_s"], &latency["viewers"]), (&json!(10), &json!([])), "{latency}");
    let step = latency["relay"].as_array().unwrap().last().unwrap();
    for part in ["capture", "queue", "encode", "mux", "send", "relay"] {
        let [half, most] = ["p50_us", "p99_us"].map(|key| step["stages"][part][key].as_u64());
        assert!(half.is_some() && half <= most && most.unwrap() < 60_000_000, "{part}: {step}");
    }
    drop(server);
    reader.join().unwrap().unwrap();
}

#[test]
fn without_capture_times_nothing_is_told_and_without_a_stream_there_is_no_answer() {
    let server = serve(&[]);
    let mut publisher = publish(server.address(), "/live/plain.ts");
    publisher.write_all(&Shape { packets: 5, group: 5 }.picture(0)).unwrap();
    until("its bytes", || server.count("plain", "bytes_in") > 0);
    assert_eq!(stages(&server, "/live/plain/stages.json")["pictures"], json!([]));
    let missing = get(server.address(), "/live/none/stages.json");
    assert_eq!((missing.status, missing.header("content-type")), (404, Some("application/problem+json")));
    assert_eq!(report(&server, "/live/none/stages", "{\"stages\": {}}").status, 404);
    assert_eq!(get(server.address(), "/api/streams/none/latency").status, 404);
    let latency = get(server.address(), "/api/streams/plain/latency").json();
    assert_eq!((&latency["relay"], &latency["viewers"]), (&json!([]), &json!([])), "{latency}");
}

#[test]
fn what_viewers_report_is_in_the_metrics_and_nonsense_is_refused() {
    let server = serve(&[]);
    let mut publisher = publish(server.address(), "/live/a.ts");
    publisher.write_all(&Shape { packets: 5, group: 5 }.picture(0)).unwrap();
    until("its bytes", || server.count("a", "bytes_in") > 0);
    // Refusals first: each counts as one of an address's ten a second.
    let long = json!({ "stages": { "network": counts(3, 1), "decode": " ".repeat(4096) } }).to_string();
    for (body, status, words) in [
        (long, 413, "4096 bytes"),
        (json!({ "stages": { "brain": counts(0, 1) } }).to_string(), 400, "brain"),
        (json!({ "stages": { "network": [1, 2, 3] } }).to_string(), 400, "13 buckets"),
        (json!({ "stages": { "network": counts(0, 10_001) } }).to_string(), 400, "10000"),
        (json!({ "stages": { "network": counts(0, 4_801) } }).to_string(), 400, "400 for each of 12 s"),
        (json!({ "stages": {}, "who": "me" }).to_string(), 400, "who"),
        ("[".to_owned(), 400, "no report"),
    ] {
        let refused = report(&server, "/live/a/stages", &body);
        assert_eq!(
            (refused.status, refused.header("content-type")),
            (status, Some("application/problem+json"))
        );
        assert!(refused.text().contains(words), "{words} is not in {}", refused.text());
    }
    // A body whose length is not told.
    let chunk = format!("{:x}\r\n{}\r\n", 3000, " ".repeat(3000));
    let chunked = format!(
        "POST /live/a/stages HTTP/1.1\r\nHost: h\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n{chunk}{chunk}0\r\n\r\n"
    );
    assert_eq!(raw(server.address(), chunked.as_bytes()).unwrap().status, 413);

    let good = json!({ "stages": { "network": counts(4, 490), "total": counts(8, 500) } }).to_string();
    // Eight viewers have seen as much as a report of two seconds is about after a quarter of a second.
    let _viewers: Vec<TcpStream> = (0..8).map(|_| watch(&server, "/live/a.ts")).collect();
    let mut taken = 0;
    until("a report that is taken", || {
        let answer = report(&server, "/live/a/stages", &good);
        assert!(matches!(answer.status, 204 | 429), "{}", answer.text());
        taken += u64::from(answer.status == 204);
        taken == 3
    });
    let metrics = server.metrics();
    for (part, each, bucket) in [("network", 490, "0.002"), ("total", 500, "0.05")] {
        let labels = format!("{{stream=\"a\",stage=\"{part}\"");
        let count = metrics.sum("glassline_viewer_stage_seconds_count", &labels);
        assert_eq!(count as u64, 3 * each, "{part}");
        let in_bucket =
            metrics.sum("glassline_viewer_stage_seconds_bucket", &format!("{labels},le=\"{bucket}\"}}"));
        assert_eq!(in_bucket, count, "{part}");
    }
    let latency = get(server.address(), "/api/streams/a/latency").json();
    let steps = latency["viewers"].as_array().unwrap();
    assert_eq!(steps.iter().map(|step| step["reports"].as_u64().unwrap()).sum::<u64>(), 3, "{latency}");
    let half = steps[0]["stages"]["total"]["p50_us"].as_u64().unwrap();
    assert!((20_000..=50_000).contains(&half), "{latency}");
    // One address does not report for all: of many at once some are too many.
    let mut refused = None;
    until("too many reports", || {
        refused = Some(report(&server, "/live/a/stages", &good)).filter(|answer| answer.status == 429);
        refused.is_some()
    });
    assert_eq!(refused.unwrap().header("retry-after"), Some("10"));
    // A connection carries report after report.
    let mut stream = connect(server.address());
    let length = good.len();
    let mut answered = Vec::new();
    for _ in 0..2 {
        write!(
            stream,
            "POST /live/a/stages HTTP/1.1\r\nHost: h\r\n{JSON}Content-Length: {length}\r\n\r\n{good}"
        )
        .unwrap();
        let head = read_head(&mut stream);
        answered.push(head.status);
        if head.status != 204 {
            break;
        }
    }
    assert!(answered == [204, 204] || answered.last() == Some(&429), "{answered:?}");
}

#[test]
fn who_may_not_watch_neither_asks_nor_reports() {
    let (server, _scratch) = serve_with("[viewer]\nkey = 'a-viewer-key'\n");
    let mut publisher = publish(server.address(), "/live/a.ts");
    publisher.write_all(&Shape { packets: 5, group: 5 }.picture(0)).unwrap();
    until("its bytes", || server.count("a", "bytes_in") > 0);
    let keys = Scratch::new("key");
    let key = keys.write("viewer.key", "a-viewer-key\n");
    let signed = glassline(&["sign", &server.url("/live/a.ts"), "--key-file", &key, "--for", "1h"]).text();
    let query = signed.trim().split_once('?').unwrap().1;
    let body = "{\"stages\": {}}";
    let _viewers: Vec<TcpStream> = (0..4).map(|_| watch(&server, &format!("/live/a.ts?{query}"))).collect();
    for (query, known, taken) in [(String::new(), 401, 401), (format!("?{query}"), 200, 204)] {
        assert_eq!(get(server.address(), &format!("/live/a/stages.json{query}")).status, known, "{query}");
        let mut status = 429;
        until("an answer to a report", || {
            status = report(&server, &format!("/live/a/stages{query}"), body).status;
            status != 429
        });
        assert_eq!(status, taken, "{query}");
        // And nobody learns by asking which streams there are.
        let other = get(server.address(), &format!("/live/none/stages.json{query}")).status;
        assert_eq!(other, 401, "{query}");
    }
}

#[test]
fn who_does_not_watch_reports_nothing_and_no_other_page_has_its_readers_report() {
    let server = serve(&[]);
    let mut publisher = publish(server.address(), "/live/a.ts");
    publisher.write_all(&Shape { packets: 5, group: 5 }.picture(0)).unwrap();
    until("its bytes", || server.count("a", "bytes_in") > 0);
    let body = json!({ "stages": { "total": counts(8, 100) } }).to_string();
    assert_eq!(report(&server, "/live/a/stages", &body).status, 403, "nothing of it goes there");
    let _viewers: Vec<TcpStream> = (0..8).map(|_| watch(&server, "/live/a.ts")).collect();
    for (fields, status) in [
        ("Origin: http://elsewhere.example\r\n", 403),
        ("Origin: null\r\n", 403),
        ("Sec-Fetch-Site: cross-site\r\n", 403),
        ("Sec-Fetch-Site: same-site\r\n", 403),
    ] {
        let refused = report_with(&server, "/live/a/stages", &format!("{JSON}{fields}"), &body);
        assert_eq!(refused.status, status, "{fields}");
    }
    // What a form of another page could send.
    for fields in ["", "Content-Type: text/plain\r\n", "Content-Type: multipart/form-data\r\n"] {
        assert_eq!(report_with(&server, "/live/a/stages", fields, &body).status, 415, "{fields}");
    }
    let own = format!("{JSON}Origin: http://h\r\nSec-Fetch-Site: same-origin\r\n");
    until("a report of the server's own page", || {
        let answer = report_with(&server, "/live/a/stages", &own, &body);
        assert!(matches!(answer.status, 204 | 429), "{}", answer.text());
        answer.status == 204
    });
}

#[test]
fn the_latency_of_streams_is_for_operators_where_there_is_an_admin_listener() {
    let (server, _scratch) = serve_with("[admin]\nlisten = ['127.0.0.1:0']\n");
    let _publisher = publish(server.address(), "/live/a.ts");
    until("the stream", || get(server.address(), "/api/streams/a").status == 200);
    assert_eq!(get(server.address(), "/api/streams/a/latency").status, 404);
    let output = server.process.output();
    let admin =
        output.split("all streams: http://").nth(1).unwrap().split('/').next().unwrap().parse().unwrap();
    assert_eq!(get(admin, "/api/streams/a/latency").status, 200);
}

/// The durations and descriptions of `Server-Timing`.
fn timing(answer: &Answer) -> &str {
    answer.header("server-timing").unwrap_or_else(|| panic!("no Server-Timing in {:?}", answer.headers))
}

#[test]
fn an_answer_with_an_object_says_how_long_it_waited_and_for_what() {
    const HELD_MS: f64 = 300.0;
    let origin = Origin::start(|_, connection| {
        std::thread::sleep(std::time::Duration::from_millis(HELD_MS as u64));
        let fields = "Cache-Control: max-age=600\r\nServer-Timing: origin;dur=99999\r\n";
        connection.write_all(&whole(b"bytes", fields)).is_ok()
    });
    let (edge, _scratch) = edge(&[&origin.url()]);
    let duration = |answer: &Answer, before: &str| -> f64 {
        let rest = timing(answer).strip_prefix(before).unwrap_or_else(|| panic!("{}", timing(answer)));
        rest.parse().unwrap()
    };
    let missed = get(edge.address(), "/vod/a.m4s");
    assert!(duration(&missed, "cache;desc=\"miss\", origin;dur=") >= HELD_MS, "{}", timing(&missed));
    let hit = get(edge.address(), "/vod/a.m4s");
    assert!(duration(&hit, "cache;desc=\"hit\", origin;dur=") < HELD_MS, "{}", timing(&hit));

    let server = serve(&[]);
    let _encoder = encoded(&server, "a");
    let part = until_some("a part that was hinted at", || {
        let media = playlist(&server, "/live/a/video.m3u8");
        let hint = quoted(tags(&media, "#EXT-X-PRELOAD-HINT:").next()?, "URI").to_owned();
        Some(get(server.address(), &format!("/live/a/{hint}"))).filter(|part| part.status == 200)
    });
    assert!(duration(&part, "hold;dur=") >= 0.0, "{}", timing(&part));
}
