//! Requests and answers: input in pieces, what is refused, and time limits.

use crate::Settings;
use crate::connection::{Role, Turn};
use crate::resting::Resting;
use crate::test_connections::{Answer, LEFT, PEER, Stage, answers, beside, chunk, get, put, stage};
use crate::test_streams::name;
use glassline_delivery::policy::StreamRules;
use glassline_streams::presence::Purpose;
use proptest::prelude::*;
use std::time::Duration;

fn plain() -> Stage {
    stage(|_| {})
}

fn statuses(answers: &[Answer]) -> Vec<u16> {
    answers.iter().map(|answer| answer.status).collect()
}

fn texts(answers: &[Answer]) -> Vec<&str> {
    answers.iter().map(Answer::text).collect()
}

#[test]
fn a_request_that_comes_byte_by_byte_is_answered_when_its_last_byte_is_there() {
    let mut stage = plain();
    let request = get("/page");
    for byte in &request.as_bytes()[..request.len() - 1] {
        stage.say([*byte]);
        assert!(matches!(stage.turn(), Turn::Rests));
        assert!(stage.heard().is_empty());
    }
    assert!(stage.site.asked.lock().unwrap().is_empty());
    stage.say("\n");
    stage.turn();
    let answers = stage.answers();
    assert_eq!((statuses(&answers), texts(&answers)), (vec![200], vec!["/page"]));
    assert_eq!(answers[0].field("Connection"), Some("keep-alive"));
    assert_eq!(stage.site.asked.lock().unwrap()[..], ["Shared /page"]);
    assert_eq!(stage.hub.counters.requests.value(), 1);
}

#[test]
fn pipelined_requests_are_answered_in_their_order() {
    let mut stage = plain();
    stage.say([get("/one"), get("/absent/two"), get("/three")].concat());
    stage.turn();
    let answers = stage.answers();
    assert_eq!(statuses(&answers), [200, 404, 200]);
    assert_eq!(texts(&answers), ["/one", "", "/three"]);
    assert_eq!((stage.hub.counters.requests.value(), stage.hub.counters.errors.value()), (3, 1));
}

proptest! {
    #[test]
    fn however_requests_are_cut_the_answers_are_the_same(
        mut cuts in proptest::collection::vec(0usize..400, 0..12),
    ) {
        let body = "POST /form HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
        let head = "HEAD /head HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let wire = [&get("/one"), body, "OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", &get("/last"), head].concat();
        cuts.iter_mut().for_each(|cut| *cut = (*cut).min(wire.len()));
        cuts.sort_unstable();
        let mut whole = plain();
        whole.say(&wire);
        whole.turn();
        let mut stage = plain();
        let mut from = 0;
        for to in cuts.into_iter().chain([wire.len()]) {
            stage.say(&wire[from..to]);
            stage.turn();
            from = to;
        }
        let expected = whole.heard();
        prop_assert_eq!(expected.windows(9).filter(|nine| nine == b"HTTP/1.1 ").count(), 5);
        prop_assert_eq!(stage.heard(), expected);
    }
}

#[test]
fn a_peer_that_reads_nothing_has_its_next_requests_wait() {
    let mut stage = plain();
    stage.say(get("/large/").repeat(4));
    stage.turn();
    // The first answer fills the socket and what may wait here, so that the second request is not looked at.
    assert_eq!(stage.site.asked.lock().unwrap().len(), 1);
    assert!(!stage.connection.waiting_input.is_empty());
    let mut bytes = Vec::new();
    for _ in 0..1000 {
        let heard = stage.heard();
        if heard.is_empty() && stage.connection.outgoing.is_empty() {
            break;
        }
        bytes.extend(heard);
        stage.turn();
    }
    let answers = answers(&bytes);
    assert_eq!(statuses(&answers), [200; 4]);
    assert!(answers.iter().all(|answer| answer.body.len() == 300_000));
}

#[test]
fn an_answer_to_head_tells_the_length_and_brings_no_body() {
    let mut stage = plain();
    stage.say("HEAD /page HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stage.turn();
    let heard = String::from_utf8(stage.heard()).unwrap();
    assert!(heard.contains("Content-Length: 5\r\n") && heard.ends_with("\r\n\r\n"), "{heard}");
    assert_eq!(stage.logged(), [("/page".to_owned(), 200, 0)]);
}

#[test]
fn what_is_no_http_is_refused_and_ends_the_connection() {
    for (wire, status) in [
        ("hello there\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/2.0\r\nHost: localhost\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n".to_owned(), 400),
        ("GET / HTTP/1.1\nHost: localhost\n\n".to_owned(), 400),
        (format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}", "a".repeat(20_000)), 431),
        (format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "A: b\r\n".repeat(64)), 431),
        ("PUT /live/a.ts HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: br\r\n\r\n".to_owned(), 501),
        (
            "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
                .to_owned(),
            400,
        ),
    ] {
        let mut stage = plain();
        let answer = stage.ask(&wire);
        assert_eq!(answer.status, status, "{wire:.80}");
        assert!(answer.is_closed_behind() && stage.sees_end(), "{wire:.80}");
        assert_eq!(answer.field("X-Content-Type-Options"), Some("nosniff"));
        assert_eq!(stage.hub.counters.errors.value(), 1);
    }
}

#[test]
fn a_head_as_large_as_it_may_be_is_taken_and_one_byte_more_is_not() {
    let head = |length: usize| {
        let begin = "GET /page HTTP/1.1\r\nHost: localhost\r\nX: ";
        format!("{begin}{}\r\n\r\n", "a".repeat(length - begin.len() - 4))
    };
    assert_eq!(plain().ask(head(16 << 10)).status, 200);
    assert_eq!(plain().ask(head((16 << 10) + 1)).status, 431);
}

#[test]
fn what_comes_behind_a_refusal_is_passed_over() {
    let mut stage = plain();
    stage.say(["nonsense\r\n\r\n".to_owned(), get("/page")].concat());
    stage.turn();
    assert_eq!(statuses(&stage.answers()), [400]);
    stage.say(get("/page"));
    stage.turn();
    assert!(stage.heard().is_empty());
    assert!(stage.site.asked.lock().unwrap().is_empty());
}

#[test]
fn a_connection_ends_behind_its_answer_where_the_client_asks_for_that() {
    for request in
        ["GET /page HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "GET /page HTTP/1.0\r\n\r\n"]
    {
        let mut stage = plain();
        let answer = stage.ask(request);
        assert_eq!((answer.status, answer.text()), (200, "/page"), "{request}");
        assert!(answer.is_closed_behind() && stage.sees_end(), "{request}");
    }
    let kept = plain().ask("GET /page HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(kept.field("Connection"), Some("keep-alive"));
}

#[test]
fn a_connection_that_has_ended_its_side_is_cut_two_seconds_later() {
    let mut stage = plain();
    stage.ask("GET /page HTTP/1.0\r\n\r\n");
    assert!(!stage.pass(Duration::from_millis(1999)));
    assert!(stage.pass(Duration::from_millis(1)));
}

#[test]
fn the_two_seconds_begin_when_all_is_written() {
    let mut stage = plain();
    stage.say("GET /large/ HTTP/1.0\r\n\r\n");
    stage.turn();
    assert!(!stage.pass(Duration::from_secs(3600)), "the answer has not left");
    let mut bytes = stage.heard();
    while !stage.connection.outgoing.is_empty() {
        stage.turn();
        bytes.extend(stage.heard());
    }
    assert_eq!(answers(&bytes)[0].body.len(), 300_000);
    assert!(!stage.pass(Duration::from_millis(1999)) && stage.pass(Duration::from_millis(1)));
}

#[test]
fn a_head_that_takes_too_long_is_refused_and_a_rest_that_does_just_ends() {
    let mut stage = plain();
    stage.say("GET /pa");
    stage.turn();
    assert!(!stage.pass(Duration::from_millis(9999)));
    assert!(stage.heard().is_empty());
    assert!(!stage.pass(Duration::from_millis(1)));
    let answers = stage.answers();
    assert_eq!((statuses(&answers), stage.hub.counters.timed_out.value()), (vec![408], 1));
    assert_eq!(stage.hub.counters.bodies_timed_out.value(), 0);

    let mut stage = plain();
    stage.get("/page");
    assert!(!stage.pass(Duration::from_millis(59_999)));
    assert!(stage.pass(Duration::from_millis(1)));
    assert!(stage.heard().is_empty(), "a client that rests is told nothing");
    assert_eq!(stage.hub.counters.timed_out.value(), 1);
}

#[test]
fn a_body_that_takes_too_long_is_counted_as_one() {
    let mut stage = plain();
    stage.say("POST /form HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab");
    stage.turn();
    assert!(!stage.pass(Duration::from_millis(9999)) && stage.heard().is_empty());
    stage.pass(Duration::from_millis(1));
    assert_eq!(statuses(&stage.answers()), [408]);
    let counters = &stage.hub.counters;
    assert_eq!((counters.timed_out.value(), counters.bodies_timed_out.value()), (1, 1));
}

#[test]
fn a_client_that_has_not_taken_its_answer_is_not_late_with_its_next_request() {
    let mut stage = plain();
    stage.say(get("/large/"));
    stage.turn();
    assert!(!stage.pass(Duration::from_secs(3600)));
    assert_eq!(stage.hub.counters.timed_out.value(), 0);
}

#[test]
fn a_body_that_an_address_has_no_use_for_may_have_64_kib_and_no_byte_more() {
    let head = |length| format!("POST /form HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
    let mut stage = plain();
    let answer = {
        stage.say(head(64 << 10));
        stage.turn();
        stage.say([b'x'; 32 << 10]);
        stage.turn();
        stage.ask([b'x'; 32 << 10])
    };
    assert_eq!((answer.status, answer.text()), (200, "/form"));
    // The next body is counted from its own begin.
    stage.say(head(40 << 10));
    stage.turn();
    assert_eq!(stage.ask([b'x'; 40 << 10]).status, 200);

    let mut stage = plain();
    stage.say(head((64 << 10) + 1));
    stage.turn();
    stage.say([b'x'; 40 << 10]);
    stage.turn();
    let answer = stage.ask([b'x'; (24 << 10) + 1]);
    assert!(answer.status == 413 && answer.is_closed_behind());
    assert!(answer.text().contains("publish to /live/NAME.ts"), "{}", answer.text());
}

#[test]
fn a_manifest_is_passed_over_and_may_have_more_than_other_bodies() {
    let mut stage = plain();
    stage.say(put("/live/a/manifest.mpd"));
    stage.turn();
    for _ in 0..4 {
        stage.say(chunk(&[b'x'; 32 << 10]));
        stage.turn();
    }
    let answer = stage.ask("0\r\n\r\n");
    assert_eq!((answer.status, stage.hub.ingests.manifests.value()), (204, 1));
    assert!(stage.hub.streams.all().is_empty());

    stage.say(put("/live/a/manifest.mpd"));
    let mut sent = 0;
    while matches!(stage.connection.role, Role::Exchange { .. }) && sent < (4 << 20) + 1 {
        let count = ((4 << 20) + 1 - sent).min(32 << 10);
        stage.say(chunk(&vec![b'x'; count]));
        sent += count;
        stage.turn();
        assert_eq!(stage.hub.counters.errors.value(), u64::from(sent > 4 << 20), "{sent}");
    }
    assert_eq!(statuses(&stage.answers()), [413]);
}

#[test]
fn a_client_that_waits_for_it_is_told_to_send_its_body() {
    let expects = "Host: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    for target in ["POST /form", "PUT /live/a.ts", "PUT /live/b/track.cmfv", "PUT /live/a/index.m3u8"] {
        let mut stage = plain();
        stage.say(format!("{target} HTTP/1.1\r\n{expects}"));
        stage.turn();
        assert_eq!(stage.heard(), b"HTTP/1.1 100 Continue\r\n\r\n", "{target}");
    }
    // A refusal comes instead of it.
    let mut stage = stage(|settings| settings.rules.general.publish.key = Some("a key".into()));
    stage.say(format!("PUT /live/a.ts HTTP/1.1\r\n{expects}"));
    stage.turn();
    assert_eq!(statuses(&stage.answers()), [401]);
}

#[test]
fn options_tell_what_may_be_asked_and_which_pages_may_ask() {
    let ask = "OPTIONS /live/a/index.m3u8 HTTP/1.1\r\nHost: localhost\r\nOrigin: http://page.example\r\n\r\n";
    let answer = plain().ask(ask);
    assert_eq!(answer.status, 204);
    assert_eq!(answer.field("Allow"), Some("GET, HEAD, PUT, POST, DELETE, OPTIONS"));
    assert_eq!(answer.field("Access-Control-Allow-Origin"), None);

    let mut stage = stage(|settings| settings.allow_origin = Some("http://page.example".into()));
    let answer = stage.ask(ask);
    assert_eq!(answer.field("Access-Control-Allow-Origin"), Some("http://page.example"));
    assert_eq!(answer.field("Access-Control-Allow-Methods"), Some("GET, HEAD"));
    assert_eq!(answer.field("Access-Control-Max-Age"), Some("86400"));
    assert_eq!(stage.get("/page").field("Timing-Allow-Origin"), Some("http://page.example"));
}

#[test]
fn a_short_address_of_a_presentation_leads_to_it_with_its_query() {
    for (asked, location) in [
        ("/live/a.m3u8", Some("a/index.m3u8")),
        ("/live/a.mpd?expires=1&token=x", Some("a/manifest.mpd?expires=1&token=x")),
        ("/live/a.b.m3u8", Some("a.b/index.m3u8")),
        ("/live/a.mp4", None),
        ("/live/.m3u8", None),
    ] {
        let answer = plain().get(asked);
        assert_eq!(answer.status, if location.is_some() { 302 } else { 404 }, "{asked}");
        assert_eq!(answer.field("Location"), location, "{asked}");
    }
}

#[test]
fn what_is_deleted_of_a_presentation_goes_by_itself_and_is_for_publishers_alone() {
    let delete = "DELETE /live/a/segment1.m4s HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(plain().ask(delete).status, 204);
    let mut stage = stage(|settings| settings.rules.general.publish.key = Some("a key".into()));
    assert_eq!(stage.ask(delete).status, 401);
    let with_key = delete.replace("\r\n\r\n", "\r\nAuthorization: Bearer a key\r\n\r\n");
    assert_eq!(stage.ask(with_key).status, 204);
}

#[test]
fn a_peer_that_ends_its_side_behind_its_request_gets_the_answer() {
    let mut stage = plain();
    stage.say(get("/page"));
    stage.end();
    assert!(matches!(stage.turn(), Turn::Over));
    assert_eq!(texts(&stage.answers()), ["/page"]);
}

#[test]
fn the_access_log_is_told_of_each_exchange_and_of_the_one_that_was_cut_off() {
    let mut stage = plain();
    stage.say([get("/page?key=secret"), get("/absent/page")].concat());
    stage.turn();
    stage.say(
        "POST /form HTTP/1.1\r\nHost: localhost\r\nUser-Agent: a program\r\nContent-Length: 9\r\n\r\nab",
    );
    stage.turn();
    stage.close();
    let expected = [("/page", 200, 5), ("/absent/page", 404, 0), ("/form", LEFT, 0)];
    assert_eq!(stage.logged(), expected.map(|(path, status, bytes)| (path.to_owned(), status, bytes)));
    let accesses = stage.site.accesses.lock().unwrap();
    assert_eq!((accesses[2].user_agent.as_deref(), accesses[2].peer), (Some("a program"), PEER.ip()));
}

#[test]
fn a_connection_counts_as_unanswered_until_its_answer_has_left_and_gives_all_back() {
    let mut stage = plain();
    assert_eq!((stage.counted(Purpose::Connect), stage.counted(Purpose::Ask)), (1, 1));
    stage.say("GET /large/ HTTP/1.1\r\n");
    stage.turn();
    assert_eq!(stage.counted(Purpose::Ask), 1);
    stage.say("Host: localhost\r\n\r\n");
    stage.turn();
    assert_eq!(stage.counted(Purpose::Ask), 1, "most of the answer is still here");
    while !stage.connection.outgoing.is_empty() {
        stage.heard();
        stage.turn();
    }
    assert_eq!(stage.counted(Purpose::Ask), 0);
    stage.say("GET");
    stage.turn();
    assert_eq!(stage.counted(Purpose::Ask), 1, "the next request has begun");
    stage.close();
    assert_eq!((stage.counted(Purpose::Connect), stage.counted(Purpose::Ask)), (0, 0));
}

#[test]
fn a_connection_rests_from_its_answer_to_the_first_byte_of_the_next_request() {
    let (mut stage, mut resting) = (plain(), Resting::default());
    let mut longest = |stage: &mut Stage| {
        stage.connection.note_rest(7, &mut resting);
        resting.longest(Some(PEER.ip()))
    };
    assert_eq!(longest(&mut stage), None, "a new one has not been answered");
    stage.get("/page");
    assert_eq!(longest(&mut stage), Some(7));
    stage.say("G");
    stage.turn();
    assert_eq!(longest(&mut stage), None);
    stage.ask("ET /page HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(longest(&mut stage), Some(7));
    stage.connection.leave_rest(7, &mut resting);
    assert_eq!(resting.longest(None), None);
}

#[test]
fn a_long_answer_is_made_elsewhere_and_the_next_request_waits_for_it() {
    let mut stage = plain();
    stage.say([get("/long/list"), get("/page")].concat());
    stage.turn();
    assert!(matches!(stage.connection.role, Role::Preparing(_)));
    glassline_test_support::wait::until("the answer", || {
        stage.with(|connection, context| connection.woken(context));
        !matches!(stage.connection.role, Role::Preparing(_))
    });
    // It has left in the same turn, and so has that to what the peer sent behind its request.
    assert_eq!(texts(&stage.answers()), ["/long/list", "/page"]);
    // Where the peer has ended its side, it still hears the answer.
    stage.say(get("/long/last"));
    stage.end();
    stage.turn();
    assert!(matches!(stage.connection.role, Role::Preparing(_)));
    glassline_test_support::wait::until("the answer", || {
        stage.with(|connection, context| connection.woken(context));
        !stage.heard().is_empty()
    });
}

#[test]
fn a_long_answer_that_does_not_come_in_time_is_refused() {
    let mut stage = plain();
    let request = match stage.connection.http.next(&mut get("/long/").as_bytes(), stage.now) {
        Ok(Some(glassline_delivery::http1::server::Event::Request(request))) => request,
        other => panic!("{other:?}"),
    };
    stage.with(|connection, context| connection.prepare(request, context));
    assert!(matches!(stage.connection.role, Role::Preparing(_)));
    let limit = stage.settings.object_timeout;
    assert!(!stage.pass(limit - Duration::from_nanos(1)));
    assert!(matches!(stage.connection.role, Role::Preparing(_)) && stage.heard().is_empty());
    assert!(!stage.pass(Duration::from_nanos(1)));
    let answers = stage.answers();
    assert_eq!(statuses(&answers), [503]);
    assert_eq!((answers[0].field("Retry-After"), stage.hub.counters.timed_out.value()), (Some("1"), 1));
}

#[test]
fn where_there_is_an_admin_listener_other_connections_are_the_publics() {
    let admin = crate::Listen { address: "127.0.0.1:1".parse().unwrap(), is_admin: true, tls: false };
    let mut stage = stage(|settings: &mut Settings| settings.listen = vec![admin]);
    stage.get("/page");
    let mut of_operators = beside(&stage, PEER, 8);
    of_operators.connection.is_admin = true;
    of_operators.get("/page");
    assert_eq!(stage.site.asked.lock().unwrap()[..], ["Public /page", "Admin /page"]);
}

#[test]
fn a_stream_that_is_watched_by_token_alone_is_hidden_where_others_are_not() {
    let mut closed = StreamRules::default();
    closed.watch.key = Some("a key".into());
    let own = closed.clone();
    let mut one = stage(|settings| settings.rules.own = [(name("closed"), own)].into());
    assert_eq!(one.get("/live/closed.ts"), one.get("/live/absent.ts"));
    let mut all = stage(|settings| settings.rules.general = closed);
    assert_eq!(all.get("/live/closed.ts").status, 401);
}
