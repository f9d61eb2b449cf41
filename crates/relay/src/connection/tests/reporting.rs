//! When a stream's pictures passed, and viewers' reports of what they saw.

use crate::connection::Role;
use crate::test_connections::{Answer, PEER, Stage, beside, chunk, get, opening, put, stage};
use glassline_media::stamps::STAGE_EDGES_MICROS;
use std::time::Duration;

const REPORT: &str = "{\"stages\": {}}";

fn report(fields: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /live/a/stages HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n{fields}\r\n{body}"
    )
}

const JSON: &str = "Content-Type: application/json; charset=utf-8\r\n";

/// A stream, a viewer of it, and a connection from the viewer's address.
fn stages() -> (Stage, Stage, Stage) {
    let mut publisher = stage(|_| {});
    publisher.say(put("/live/a.ts"));
    publisher.turn();
    publisher.say(chunk(&opening(2).1));
    publisher.turn();
    let mut viewer = beside(&publisher, PEER, 8);
    viewer.say(get("/live/a.ts"));
    viewer.turn();
    let reporter = beside(&publisher, PEER, 9);
    (publisher, viewer, reporter)
}

/// The connection's time is as much later.
fn later(mut stage: Stage, seconds: u64) -> Stage {
    stage.now += Duration::from_secs(seconds);
    stage
}

#[test]
fn stages_tell_the_edges_of_the_histograms_and_need_a_number_to_go_on_from() {
    let (_publisher, _viewer, mut client) = stages();
    let answer = client.get("/live/a/stages.json");
    assert_eq!((answer.status, answer.field("Cache-Control")), (200, Some("no-store")));
    let told: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let edges: Vec<u64> =
        told["edges_us"].as_array().unwrap().iter().map(|edge| edge.as_u64().unwrap()).collect();
    assert_eq!(edges, STAGE_EDGES_MICROS);
    assert_eq!((told["pictures"].as_array().unwrap().len(), told["now_us"].is_u64()), (0, true));
    assert_eq!(client.get("/live/a/stages.json?after=1").status, 200);
    let refused = client.get("/live/a/stages.json?after=yesterday");
    assert!(refused.status == 400 && refused.text().contains("captured_us"));
    assert_eq!(client.get("/live/b/stages.json").status, 404);
}

#[test]
fn a_report_is_taken_once_its_viewer_has_watched_for_a_while() {
    let (_publisher, _viewer, reporter) = stages();
    let mut reporter = later(reporter, 1);
    let early = reporter.ask(report(JSON, REPORT));
    assert_eq!((early.status, early.field("Retry-After")), (429, Some("10")));
    let mut reporter = later(reporter, 10);
    let taken = reporter.ask(report(JSON, REPORT));
    assert_eq!((taken.status, taken.field("Connection")), (204, Some("keep-alive")));
    assert_eq!(reporter.ask(report(JSON, REPORT)).status, 429, "it has told of all that it has seen");
}

#[test]
fn a_report_of_an_address_that_watches_nothing_is_refused() {
    let (publisher, _viewer, _) = stages();
    let far = "192.0.2.7:5000".parse().unwrap();
    let mut reporter = later(beside(&publisher, far, 10), 20);
    let answer = reporter.ask(report(JSON, REPORT));
    assert!(answer.status == 403 && answer.text().contains("report from the same address"));
}

#[test]
fn a_report_comes_from_a_page_of_this_server_and_is_json() {
    let (_publisher, _viewer, reporter) = stages();
    let ask = |fields: &str, body: &str| -> Answer {
        let mut stage = later(beside(&reporter, PEER, 11), 20);
        stage.ask(report(fields, body))
    };
    assert_eq!(
        ask("Origin: http://elsewhere.example\r\nContent-Type: application/json\r\n", REPORT).status,
        403
    );
    assert_eq!(ask(&format!("Sec-Fetch-Site: cross-site\r\n{JSON}"), REPORT).status, 403);
    assert_eq!(ask(&format!("Origin: http://localhost\r\n{JSON}"), REPORT).status, 204);
    assert_eq!(ask("", REPORT).status, 415);
    assert_eq!(ask("Content-Type: text/plain\r\n", REPORT).status, 415);
    assert_eq!(ask("Content-Type: APPLICATION/JSON\r\n", "{}").status, 400);
}

#[test]
fn a_report_has_four_kilobytes_at_most_whether_it_says_so_or_not() {
    let (_publisher, _viewer, reporter) = stages();
    let padded = |length: usize| format!("{REPORT}{}", " ".repeat(length - REPORT.len()));
    let mut one = later(beside(&reporter, PEER, 10), 15);
    assert_eq!(one.ask(report(JSON, &padded(4 << 10))).status, 204);
    let mut two = later(beside(&reporter, PEER, 11), 15);
    let told = two.ask(report(JSON, &padded((4 << 10) + 1)));
    assert!(told.status == 413 && told.is_closed_behind());
    let mut three = later(beside(&reporter, PEER, 12), 15);
    three.say(format!(
        "POST /live/a/stages HTTP/1.1\r\nHost: localhost\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n"
    ));
    three.say(chunk(padded(4 << 10).as_bytes()));
    three.turn();
    assert!(matches!(three.connection.role, Role::Reporting(_)) && three.heard().is_empty());
    assert_eq!(three.ask(chunk(b" ")).status, 413);
}

#[test]
fn a_report_that_is_cut_off_leaves_nothing_behind() {
    let (_publisher, _viewer, reporter) = stages();
    let mut reporter = later(reporter, 15);
    let whole = report(JSON, REPORT);
    reporter.say(&whole[..whole.len() - 1]);
    reporter.turn();
    reporter.end();
    assert!(matches!(reporter.turn(), crate::connection::Turn::Over));
    assert!(reporter.heard().is_empty());
    assert_eq!(later(beside(&reporter, PEER, 11), 0).ask(report(JSON, REPORT)).status, 429);
    assert_eq!(later(beside(&reporter, PEER, 12), 15).ask(report(JSON, REPORT)).status, 204);
}
