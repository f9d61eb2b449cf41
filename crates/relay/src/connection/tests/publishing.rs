//! Connections that publish: how they get their stream, what ends them, and what they give back.

use crate::connection::{Role, Turn};
use crate::inboxes::Message;
use crate::test_connections::{LEFT, PEER, Stage, beside, chunk, opening, put, stage};
use crate::test_streams::name;
use glassline_delivery::policy::{StreamRules, WatchPolicy};
use glassline_streams::News;
use glassline_streams::presence::Purpose;
use std::time::Duration;

fn publishing() -> Stage {
    let mut stage = stage(|_| {});
    stage.say(put("/live/a.ts"));
    stage.turn();
    stage
}

fn bytes_in(stage: &Stage, stream: &str) -> u64 {
    stage.hub.streams.find(&name(stream)).map_or(0, |live| live.bytes_in())
}

#[test]
fn what_a_publisher_sends_is_its_stream_until_it_ends() {
    let mut stage = publishing();
    assert!(matches!(stage.connection.role, Role::Publishing(_)) && stage.heard().is_empty());
    assert_eq!(stage.counted(Purpose::Publish), 1);
    let (mut source, bytes) = opening(3);
    stage.say(chunk(&bytes));
    stage.turn();
    assert_eq!(bytes_in(&stage, "a"), bytes.len() as u64);
    let more = source.picture(false, 2);
    stage.say(chunk(&more));
    let answer = stage.ask("0\r\n\r\n");
    assert_eq!((answer.status, answer.field("Connection")), (204, Some("keep-alive")));
    assert_eq!(bytes_in(&stage, "a"), (bytes.len() + more.len()) as u64);
    let live = stage.hub.streams.find(&name("a")).unwrap();
    assert_eq!((live.published_since(), stage.counted(Purpose::Publish)), (None, 0));
    assert_eq!(stage.logged(), [("/live/a.ts".to_owned(), 204, (bytes.len() + more.len()) as u64)]);
    // The connection is one for any request again.
    assert_eq!(stage.get("/page").text(), "/page");
}

#[test]
fn a_publisher_without_a_length_ends_with_its_connection_and_is_thanked() {
    let mut stage = stage(|_| {});
    stage.say("PUT /live/a.ts HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stage.turn();
    let (_, bytes) = opening(2);
    stage.say(&bytes);
    stage.end();
    assert!(matches!(stage.turn(), Turn::Over));
    assert_eq!(stage.answers()[0].status, 204);
    assert_eq!((bytes_in(&stage, "a"), stage.counted(Purpose::Publish)), (bytes.len() as u64, 0));
}

#[test]
fn a_publisher_that_goes_in_the_middle_of_its_body_was_cut_off() {
    let mut stage = publishing();
    let (_, bytes) = opening(2);
    stage.say(chunk(&bytes));
    stage.end();
    assert!(matches!(stage.turn(), Turn::Over));
    let answers = stage.answers();
    assert_eq!(answers[0].status, 400);
    assert!(answers[0].text().contains("the stream was cut off"), "{}", answers[0].text());
    assert_eq!(stage.logged(), [("/live/a.ts".to_owned(), 400, bytes.len() as u64)]);
}

#[test]
fn a_publisher_that_is_gone_gives_its_slot_back_and_is_logged_as_gone() {
    let mut stage = publishing();
    let (_, bytes) = opening(2);
    stage.say(chunk(&bytes));
    stage.turn();
    stage.close();
    assert_eq!(stage.counted(Purpose::Publish), 0);
    assert_eq!(stage.hub.streams.find(&name("a")).unwrap().published_since(), None);
    assert_eq!(stage.logged(), [("/live/a.ts".to_owned(), LEFT, bytes.len() as u64)]);
}

#[test]
fn a_name_has_one_publisher_and_another_one_takes_it_over_only_if_it_says_so() {
    let mut first = publishing();
    first.say(chunk(&opening(2).1));
    first.turn();
    let mut second = beside(&first, PEER, 8);
    let refused = second.ask(put("/live/a.ts"));
    assert!(refused.status == 409 && refused.text().contains("?takeover=1"), "{}", refused.text());
    assert_eq!(first.counted(Purpose::Publish), 1, "the second one is not counted");
    let mut other_mux = beside(&first, PEER, 9);
    assert_eq!(other_mux.ask(put("/live/a.webm")).status, 409);

    let mut third = beside(&first, PEER, 10);
    third.say(put("/live/a.ts?takeover=1"));
    third.turn();
    assert!(matches!(third.connection.role, Role::Publishing(_)));
    let evicted = first.messages().into_iter().any(
        |message| matches!(message, Message::Stream(News::Evicted(token)) if token == first.connection.id.token),
    );
    assert!(evicted, "the first one's worker is told");
    first.with(|connection, context| connection.evicted(context));
    let told = first.answers();
    assert!(told[0].status == 409 && told[0].text().contains("?takeover=1"));
    assert_eq!(first.counted(Purpose::Publish), 1);
}

#[test]
fn news_that_a_name_was_taken_over_do_not_concern_a_publisher_that_has_it() {
    let mut stage = publishing();
    stage.with(|connection, context| connection.evicted(context));
    assert!(matches!(stage.connection.role, Role::Publishing(_)) && stage.heard().is_empty());
}

#[test]
fn what_is_no_transport_stream_is_refused_with_advice() {
    let mut stage = publishing();
    let mut answers = Vec::new();
    for _ in 0..20 {
        stage.say(chunk(&[b'x'; 10_000]));
        stage.turn();
        answers = stage.answers();
        if !answers.is_empty() {
            break;
        }
    }
    assert!(answers[0].status == 415 && answers[0].is_closed_behind(), "{answers:?}");
    assert_eq!(stage.counted(Purpose::Publish), 0);
}

#[test]
fn a_publisher_that_sends_more_than_it_may_is_ended() {
    let mut stage = stage(|settings| settings.rules.general.max_publish_bps = Some(80_000));
    stage.say(put("/live/a.ts"));
    stage.turn();
    let (mut source, bytes) = opening(10);
    stage.say(chunk(&bytes));
    stage.turn();
    assert!(stage.heard().is_empty(), "five seconds' worth may come at once");
    let more = source.picture(false, 270);
    stage.say(chunk(&more));
    stage.turn();
    let answers = stage.answers();
    assert!(answers[0].status == 429 && answers[0].text().contains("more than 80000 bit/s"));
    assert_eq!((bytes_in(&stage, "a"), stage.counted(Purpose::Publish)), (bytes.len() as u64, 0));
}

#[test]
fn an_address_has_as_many_publishers_as_it_may_have() {
    let mut first = stage(|settings| settings.max_publishers_per_address = 2);
    first.say(put("/live/a.ts"));
    first.turn();
    let mut second = beside(&first, PEER, 8);
    second.say(put("/live/b.ts"));
    second.turn();
    let refused = beside(&first, PEER, 9).ask(put("/live/c.ts"));
    assert_eq!(refused.status, 429);
    assert!(refused.text().contains("this address has 2 publishers already"), "{}", refused.text());
    assert!(first.hub.streams.find(&name("c")).is_none());
    first.close();
    let mut again = beside(&second, PEER, 10);
    again.say(put("/live/c.ts"));
    again.turn();
    assert!(matches!(again.connection.role, Role::Publishing(_)));
}

#[test]
fn as_many_streams_as_there_may_be_are_published() {
    let mut first = stage(|settings| settings.max_streams = 1);
    first.say(put("/live/a.ts"));
    first.turn();
    first.say(chunk(&opening(1).1));
    first.turn();
    let refused = beside(&first, PEER, 8).ask(put("/live/b.ts"));
    assert!(refused.status == 503 && refused.text().contains("max_streams"), "{}", refused.text());
    assert_eq!(first.counted(Purpose::Publish), 1);
}

#[test]
fn a_publisher_without_the_key_is_asked_for_it_and_one_with_it_is_let_in() {
    let keyed = || stage(|settings| settings.rules.general.publish.key = Some("a key".into()));
    let refused = keyed().ask(put("/live/a.ts"));
    assert_eq!((refused.status, refused.field("WWW-Authenticate")), (401, Some("Basic realm=\"publish\"")));
    assert!(refused.is_closed_behind());
    for (target, field) in [("/live/a.ts?key=a+key", ""), ("/live/a.ts", "Authorization: Bearer a key\r\n")] {
        let mut stage = keyed();
        stage.say(put(target).replace("Transfer", &format!("{field}Transfer")));
        stage.turn();
        assert!(matches!(stage.connection.role, Role::Publishing(_)), "{target}");
    }
}

#[test]
fn a_publisher_from_elsewhere_needs_leave() {
    let far = "192.0.2.7:5000".parse().unwrap();
    let here = stage(|_| {});
    let refused = beside(&here, far, 8).ask(put("/live/a.ts"));
    assert_eq!((refused.status, refused.field("WWW-Authenticate")), (403, None));
    let open = stage(|settings| settings.rules.general.publish.open = true);
    let mut there = beside(&open, far, 8);
    there.say(put("/live/a.ts"));
    there.turn();
    assert!(matches!(there.connection.role, Role::Publishing(_)));
}

#[test]
fn an_address_that_is_no_streams_cannot_be_published_to() {
    for target in ["/live/a.mp4", "/live/", "/live/a b.ts"] {
        let answer = stage(|_| {}).ask(put(target).replace("a b", "a%20b"));
        assert_eq!(answer.status, 404, "{target}");
    }
}

#[test]
fn a_publisher_that_is_silent_gives_up_its_name() {
    let mut stage = publishing();
    stage.say(chunk(&opening(2).1));
    stage.turn();
    // What comes is stamped with the clock, which goes on by itself.
    let Role::Publishing(publishing) = &stage.connection.role else { panic!("it publishes") };
    stage.now = publishing.last_bytes;
    let silence = stage.settings.silence_timeout;
    assert!(!stage.pass(silence - Duration::from_nanos(1)) && stage.heard().is_empty());
    stage.pass(Duration::from_nanos(1));
    let answers = stage.answers();
    assert!(answers[0].status == 408 && answers[0].is_closed_behind());
    let counters = &stage.hub.counters;
    assert_eq!((counters.timed_out.value(), counters.bodies_timed_out.value()), (1, 0));
    assert_eq!(stage.counted(Purpose::Publish), 0);
}

#[test]
fn bytes_that_wait_to_be_read_are_no_silence() {
    let mut stage = publishing();
    let (_, bytes) = opening(2);
    stage.say(chunk(&bytes));
    let silence = stage.settings.silence_timeout;
    assert!(!stage.pass(silence * 2));
    assert!(matches!(stage.connection.role, Role::Publishing(_)) && stage.heard().is_empty());
    assert_eq!((bytes_in(&stage, "a"), stage.hub.counters.timed_out.value()), (bytes.len() as u64, 0));
}

#[test]
fn a_publisher_that_never_sends_anything_has_no_more_time_than_a_body() {
    let mut stage = stage(|settings| {
        settings.silence_timeout = Duration::from_secs(3600);
        settings.http.body_time = Duration::from_secs(2);
    });
    stage.say(put("/live/a.ts"));
    stage.turn();
    stage.pass(Duration::from_secs(3));
    assert_eq!(stage.answers()[0].status, 408);
    assert_eq!(stage.hub.counters.bodies_timed_out.value(), 1);
}

#[test]
fn a_stream_comes_in_pieces_of_requests_by_the_same_publisher() {
    let mut stage = stage(|_| {});
    let piece = |from: usize, bytes: &[u8]| {
        let range = format!("Content-Range: bytes {from}-{}/*\r\n", from + bytes.len() - 1);
        let head = format!("PUT /live/a.ts HTTP/1.1\r\nHost: localhost\r\n{range}");
        [format!("{head}Content-Length: {}\r\n\r\n", bytes.len()).as_bytes(), bytes].concat()
    };
    let (mut source, first) = opening(2);
    assert_eq!(stage.ask(piece(0, &first)).status, 204);
    let (second, third) = (source.picture(false, 3), source.picture(false, 4));
    assert_eq!(stage.ask(piece(first.len(), &second)).status, 204);
    assert_eq!(stage.ask(piece(first.len() + second.len(), &third)).status, 204);
    let live = stage.hub.streams.find(&name("a")).unwrap();
    let all = (first.len() + second.len() + third.len()) as u64;
    assert_eq!((live.bytes_in(), live.status(stage.now).sessions), (all, 1));
    // Between two pieces the name is kept for it, and counts for no publisher.
    assert_eq!(stage.counted(Purpose::Publish), 0);
    assert_eq!(beside(&stage, "192.0.2.7:5000".parse().unwrap(), 8).ask(put("/live/a.ts")).status, 403);
    let mut other = beside(&stage, PEER, 9);
    assert_eq!(other.ask(put("/live/a.ts")).status, 409);
}

#[test]
fn a_name_that_has_rules_of_its_own_is_published_by_those() {
    let mut own = StreamRules { watch: WatchPolicy::default(), ..StreamRules::default() };
    own.publish.key = Some("own".into());
    let mut stage = stage(|settings| {
        settings.rules.general.publish.key = Some("general".into());
        settings.rules.own = [(name("a"), own)].into();
    });
    assert_eq!(stage.ask(put("/live/a.ts?key=general")).status, 401);
    let mut right = beside(&stage, PEER, 8);
    right.say(put("/live/a.ts?key=own"));
    right.turn();
    assert!(matches!(right.connection.role, Role::Publishing(_)));
}

#[test]
fn a_track_that_is_no_cmaf_is_refused_and_counted() {
    let mut stage = stage(|_| {});
    stage.say(put("/live/a/video.cmfv"));
    stage.turn();
    assert!(matches!(stage.connection.role, Role::Ingesting(_)) && stage.connection.publishes());
    assert_eq!(stage.counted(Purpose::Publish), 1);
    stage.say(chunk(&[0, 0, 0, 9, b'a', b'b', b'c', b'd', 1]));
    stage.say(chunk(b"\xFF\xFF\xFF\xFFmoof"));
    stage.turn();
    let answers = stage.answers();
    assert!(answers[0].status >= 400 && answers[0].is_closed_behind(), "{answers:?}");
    let counts = stage.hub.ingests.counts();
    assert_eq!((counts.requests, counts.refused, counts.publishers), (1, 1, 1));
}

#[test]
fn a_track_without_bytes_is_passed_over() {
    let mut stage = stage(|_| {});
    let answer = stage.ask("PUT /live/a/video.cmfv HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert_eq!((answer.status, stage.hub.ingests.counts().publishers), (204, 0));
}

#[test]
fn tracks_of_one_name_are_one_publisher_and_those_of_another_address_are_refused() {
    let mut first = stage(|settings| settings.rules.general.publish.open = true);
    first.say(put("/live/a/video.cmfv"));
    first.turn();
    let mut second = beside(&first, PEER, 8);
    second.say(put("/live/a/audio.cmfa"));
    second.turn();
    assert!(matches!(second.connection.role, Role::Ingesting(_)));
    let counts = first.hub.ingests.counts();
    assert_eq!((counts.publishers, counts.requests, first.counted(Purpose::Publish)), (1, 2, 1));
    let mut other = beside(&first, "192.0.2.7:5000".parse().unwrap(), 9);
    assert_eq!(other.ask(put("/live/a/video.cmfv")).status, 409);
    let mut taking = beside(&first, "192.0.2.7:5000".parse().unwrap(), 10);
    taking.say(put("/live/a/video.cmfv?takeover=1"));
    taking.turn();
    assert!(matches!(taking.connection.role, Role::Ingesting(_)));
    // The first publisher is told at its next look.
    first.pass(Duration::ZERO);
    assert_eq!(first.answers()[0].status, 409);
    assert_eq!((first.counted(Purpose::Publish), taking.counted(Purpose::Publish)), (0, 1));
}

#[test]
fn a_track_that_brings_nothing_is_ended_and_its_publisher_goes_in_silence() {
    let mut stage = stage(|_| {});
    stage.say(put("/live/a/video.cmfv"));
    stage.turn();
    stage.pass(stage.settings.http.body_time);
    let answers = stage.answers();
    assert_eq!((answers[0].status, stage.hub.counters.bodies_timed_out.value()), (408, 1));
    let silent = stage.now + stage.settings.silence_timeout;
    stage.hub.look_at_ingests(silent);
    assert_eq!((stage.hub.ingests.counts().publishers, stage.counted(Purpose::Publish)), (0, 0));
    assert_eq!(stage.hub.counters.timed_out.value(), 2);
}
