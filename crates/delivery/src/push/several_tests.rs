//! Pushers to several servers.

use super::*;
use std::time::Duration;

const PACKET: [u8; 188] = {
    let mut packet = [0; 188];
    (packet[0], packet[1], packet[3]) = (0x47, 1, 0x10);
    packet
};
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
const TAKEN: &[u8] = b"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n";
const KEY_LINE: &str = "Authorization: Bearer secret";

fn at(millis: u64) -> Time {
    Time::from_millis(10_000 + millis)
}

fn pusher(urls: &[&str]) -> Pusher {
    let mut urls = urls.iter().map(|url| url.parse().unwrap());
    let first = urls.next().unwrap();
    Pusher::new(first, urls.collect(), Some("secret"), Policy::LIVE.of_several(), 7, at(0))
}

fn three() -> Pusher {
    pusher(&["http://a/live/x.ts", "http://b/live/x.ts", "http://c/live/x.ts"])
}

/// The host that is to be connected to next, at `now`.
fn asks(pusher: &mut Pusher, now: Time) -> String {
    pusher.handle_timeout(now);
    match std::iter::from_fn(|| pusher.poll_output()).last() {
        Some(Output::Connect { host, .. }) => host,
        other => panic!("{other:?} at {now:?}"),
    }
}

/// Has it connected and its request sent, which is given.
fn connect(pusher: &mut Pusher, now: Time) -> String {
    pusher.handle_connected(now);
    send(pusher, now)
}

fn send(pusher: &mut Pusher, now: Time) -> String {
    let bytes = pusher.transmit().to_vec();
    pusher.handle_sent(bytes.len(), now);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn key_frame(pusher: &mut Pusher, now: Time) -> Taken {
    pusher.push(&PACKET, true, true, now)
}

/// One that publishes to `a` since two seconds.
fn publishing() -> Pusher {
    let mut pusher = three();
    assert_eq!(asks(&mut pusher, at(0)), "a");
    connect(&mut pusher, at(0));
    pusher.handle_bytes(CONTINUE, at(1));
    assert_eq!(key_frame(&mut pusher, at(2)), Taken::Taken(188));
    send(&mut pusher, at(2));
    assert_eq!(pusher.push(&PACKET, false, true, at(2_000)), Taken::Taken(188));
    send(&mut pusher, at(2_000));
    while pusher.poll_event().is_some() {}
    pusher.take_demand();
    pusher
}

#[test]
fn a_lost_server_is_followed_by_the_next_at_once_and_one_that_holds_the_name_is_asked_until_it_lets_go() {
    let mut pusher = publishing();
    pusher.handle_end(None, at(2_010));
    let (mut now, mut asked) = (at(2_010), Vec::new());
    // The name is free 800 ms after the death.
    while now < at(2_810) {
        asked.push(asks(&mut pusher, now));
        let head = connect(&mut pusher, now);
        assert!(head.contains("Expect: 100-continue\r\n") && head.contains(KEY_LINE), "{head}");
        assert_eq!(key_frame(&mut pusher, now), Taken::LeftOut, "nothing goes where it may be refused");
        assert!(!pusher.take_demand(), "a refusal costs no key frame");
        pusher.handle_bytes(TAKEN, now);
        assert_eq!(pusher.result(), None);
        now = pusher.poll_timeout().unwrap();
    }
    assert_eq!(asked[..2], ["b", "c"], "{asked:?}");
    assert!(asked.iter().all(|host| host != "a") && (14..=20).contains(&asked.len()), "{asked:?}");
    let told = std::iter::from_fn(|| pusher.poll_event());
    let news = told.filter(|event| matches!(event, Event::Lost { is_eager: false, .. })).count();
    assert_eq!(news, 3, "the loss, and what each of the others says");
    asks(&mut pusher, now);
    connect(&mut pusher, now);
    assert_eq!(pusher.push(&PACKET, false, true, now), Taken::LeftOut);
    pusher.handle_bytes(CONTINUE, now);
    assert!(matches!(pusher.poll_event(), Some(Event::Connected { .. })) && pusher.take_demand());
    assert_eq!(pusher.push(&PACKET, false, true, now), Taken::LeftOut, "up to the key frame");
    // It is announced to be another one on its PID.
    assert_eq!(key_frame(&mut pusher, now), Taken::Taken(2 * 188));
    assert_eq!(pusher.poll_event(), None, "it may still be refused");
    pusher.push(&PACKET, false, true, now + Policy::LIVE.retry_min);
    let (left_out, missing) = (asked.len() as u64 + 2, now.since(at(2_010)));
    assert_eq!(pusher.poll_event(), Some(Event::Gap { resumed: true, missing, left_out }));
}

#[test]
fn a_server_that_takes_nothing_or_acknowledges_nothing_is_left_at_once_and_what_it_missed_is_counted() {
    let mut blocked = publishing();
    blocked.push(&PACKET, false, true, at(2_020));
    blocked.handle_sent(0, at(2_020));
    blocked.push(&PACKET, false, true, at(2_040));
    assert_eq!(blocked.poll_timeout(), Some(at(4_020)));
    blocked.handle_timeout(at(4_020));
    assert_eq!(asks(&mut blocked, at(4_020)), "b");
    let Some(Event::Lost { unsent: 2, retry_in: Duration::ZERO, .. }) = blocked.poll_event() else {
        panic!("two pictures were not sent")
    };
    // All that was sent lies in the network.
    let mut silent = publishing();
    silent.handle_silence(at(4_000));
    assert_eq!(asks(&mut silent, at(4_000)), "b");
    for (mut pusher, since, left_out) in [(blocked, at(2_020), 2), (silent, at(2_000), 0)] {
        while pusher.poll_event().is_some() {}
        connect(&mut pusher, at(4_100));
        pusher.handle_bytes(CONTINUE, at(4_100));
        key_frame(&mut pusher, at(4_110));
        pusher.push(&PACKET, false, true, at(4_700));
        pusher.poll_event();
        let missing = at(4_110).since(since);
        assert_eq!(pusher.poll_event(), Some(Event::Gap { resumed: true, missing, left_out }));
    }
}

#[test]
fn a_server_that_does_not_know_the_question_gets_the_stream_after_a_while() {
    let mut pusher = three();
    asks(&mut pusher, at(0));
    connect(&mut pusher, at(0));
    pusher.handle_bytes(b"HTTP/1.1 103 Early Hints\r\n\r\n", at(5));
    assert_eq!(key_frame(&mut pusher, at(10)), Taken::Waiting);
    assert!(!pusher.is_open() && pusher.is_connected());
    assert_eq!(pusher.poll_timeout(), Some(at(500)));
    pusher.handle_timeout(at(500));
    assert!(pusher.is_open() && pusher.take_demand());
    assert_eq!(key_frame(&mut pusher, at(510)), Taken::Taken(188), "nothing is missing there");
    // One that refuses the question is not asked it again.
    let mut pusher = three();
    asks(&mut pusher, at(0));
    connect(&mut pusher, at(0));
    pusher.handle_bytes(b"HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n", at(1));
    asks(&mut pusher, at(1));
    assert!(!connect(&mut pusher, at(1)).contains("Expect"));
    assert!(pusher.is_open());
}

#[test]
fn a_refusal_leads_to_the_next_server_and_the_last_one_ends_it() {
    const NO: &[u8] = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n";
    let mut pusher = three();
    for host in ["a", "b", "c"] {
        assert_eq!(pusher.result(), None);
        assert_eq!(asks(&mut pusher, at(0)), host);
        connect(&mut pusher, at(0));
        pusher.handle_bytes(NO, at(0));
    }
    assert!(matches!(pusher.result(), Some(Err(PushFailure::Refused(answer))) if answer.status == 403));
    // One that is not there may take it later.
    let mut pusher = three();
    for _ in 0..2 {
        asks(&mut pusher, at(0));
        connect(&mut pusher, at(0));
        pusher.handle_bytes(NO, at(0));
    }
    asks(&mut pusher, at(0));
    pusher.handle_refused("refused".to_owned(), false, at(0));
    assert_eq!(pusher.result(), None);
    assert!(pusher.poll_timeout().unwrap() >= at(250));
}

#[test]
fn a_redirect_is_followed_at_once_and_the_key_is_shown_at_known_servers_alone() {
    let led = |location: &str| {
        let mut pusher = publishing();
        let answer = format!("HTTP/1.1 307 There\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
        pusher.handle_bytes(answer.as_bytes(), at(3_000));
        let host = asks(&mut pusher, at(3_000));
        assert!(matches!(pusher.poll_event(), Some(Event::Redirected { .. })));
        let head = connect(&mut pusher, at(3_000));
        (host, head, pusher)
    };
    let (host, head, _) = led("http://c/live/x.ts");
    assert!(host == "c" && head.contains(KEY_LINE), "{head}");
    let (host, head, mut pusher) = led("http://d/live/x.ts");
    assert!(host == "d" && !head.contains("secret"), "{head}");
    // It is gone: back to what was given, behind the one that led there.
    pusher.handle_end(None, at(3_100));
    assert_eq!(asks(&mut pusher, at(3_100)), "b");
    // What it does not take says nothing of the one that led there.
    let (_, _, mut pusher) = led("http://d/live/x.ts");
    pusher.handle_bytes(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", at(3_100));
    assert_eq!((asks(&mut pusher, at(3_100)).as_str(), pusher.result()), ("b", None));
    let told = std::iter::from_fn(|| pusher.poll_event());
    assert!(told.into_iter().any(|event| format!("{event:?}").contains("servers that were named alone")));
    let (_, _, mut pusher) = led("http://d/");
    for _ in 0..3 {
        pusher.handle_bytes(b"HTTP/1.1 308 On\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", at(3_000));
        assert_eq!(asks(&mut pusher, at(3_000)), "d");
        connect(&mut pusher, at(3_000));
    }
    pusher.handle_bytes(b"HTTP/1.1 308 On\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", at(3_000));
    assert_eq!(asks(&mut pusher, at(3_000)), "b", "it leads nowhere");
}

#[test]
fn servers_that_drop_the_stream_at_once_are_not_asked_without_pauses() {
    let mut pusher = three();
    let (mut now, mut attempts) = (at(0), 0);
    while now < at(60_000) {
        asks(&mut pusher, now);
        connect(&mut pusher, now);
        pusher.handle_bytes(CONTINUE, now);
        key_frame(&mut pusher, now);
        pusher.handle_end(None, now);
        attempts += 1;
        now = pusher.poll_timeout().unwrap();
    }
    assert!(attempts < 100, "{attempts} in a minute");
}

#[test]
fn an_end_before_the_server_has_agreed_is_the_end_of_a_stream_that_it_did_not_get() {
    for (hurried, result) in [(true, Ok(())), (false, Err(PushFailure::NotReached))] {
        let mut pusher = three();
        asks(&mut pusher, at(0));
        connect(&mut pusher, at(0));
        pusher.finish(hurried, at(1));
        assert_eq!(pusher.result(), Some(&result));
        assert_eq!(pusher.poll_output(), Some(Output::Close));
    }
}

#[test]
fn a_name_that_another_publisher_has_taken_over_is_not_taken_back() {
    let mut pusher = publishing();
    pusher.handle_bytes(TAKEN, at(3_000));
    assert!(matches!(pusher.result(), Some(Err(PushFailure::Refused(answer))) if answer.status == 409));
}

#[test]
fn servers_that_refuse_what_they_have_taken_for_a_while_end_it() {
    const NO: &[u8] = b"HTTP/1.1 415 No\r\nContent-Length: 0\r\n\r\n";
    let mut pusher = three();
    let (mut now, mut asked) = (at(0), 0);
    while pusher.result().is_none() {
        asks(&mut pusher, now);
        connect(&mut pusher, now);
        pusher.handle_bytes(CONTINUE, now);
        key_frame(&mut pusher, now);
        pusher.handle_bytes(NO, now + Duration::from_secs(1));
        asked += 1;
        now = pusher.poll_timeout().unwrap_or(now);
    }
    assert_eq!(asked, 3);
}

#[test]
fn a_refusal_that_comes_late_is_no_loss() {
    let mut pusher = publishing();
    pusher.handle_end(None, at(2_010));
    let (mut now, mut attempts) = (at(2_010), 0);
    // Each refuses when it already gets the stream, since it has not said so in time.
    while pusher.result().is_none() {
        asks(&mut pusher, now);
        connect(&mut pusher, now);
        pusher.handle_timeout(now + Policy::LIVE.consent_timeout);
        key_frame(&mut pusher, now + Policy::LIVE.consent_timeout);
        pusher.handle_bytes(TAKEN, now + Duration::from_millis(600));
        attempts += 1;
        now = pusher.poll_timeout().unwrap_or(now);
        assert!(attempts < 100, "for ever");
    }
    assert!(now < at(60_000), "{now:?}");
    let told: Vec<Event> = std::iter::from_fn(|| pusher.poll_event()).collect();
    let gaps: Vec<&Event> = told.iter().filter(|event| matches!(event, Event::Gap { .. })).collect();
    assert!(
        matches!(gaps[..], [Event::Gap { resumed: false, .. }]),
        "one gap, in which it has ended: {gaps:?}"
    );
}

#[test]
fn a_stream_that_ends_in_a_gap_is_told_and_has_not_arrived() {
    for hurried in [true, false] {
        let mut pusher = publishing();
        pusher.handle_end(None, at(3_000));
        asks(&mut pusher, at(3_000));
        connect(&mut pusher, at(3_000));
        pusher.handle_bytes(CONTINUE, at(3_001));
        while pusher.poll_event().is_some() {}
        assert_eq!(pusher.push(&PACKET, false, true, at(3_100)), Taken::LeftOut);
        pusher.finish(hurried, at(3_500));
        let expected = if hurried { Ok(()) } else { Err(PushFailure::NotReached) };
        assert_eq!(pusher.result(), Some(&expected));
        let missing = Duration::from_millis(500);
        assert_eq!(pusher.poll_event(), Some(Event::Gap { resumed: false, missing, left_out: 1 }));
    }
}

#[test]
fn a_machine_that_is_silent_at_the_end_has_not_got_it() {
    let mut pusher = publishing();
    pusher.finish(false, at(2_500));
    send(&mut pusher, at(2_500));
    pusher.handle_silence(at(4_500));
    assert!(matches!(pusher.result(), Some(Err(PushFailure::Unfinished(_)))), "{:?}", pusher.result());
}

#[test]
fn pictures_that_were_left_out_since_the_server_was_slow_are_part_of_the_gap() {
    let mut pusher = publishing();
    pusher.push(&PACKET, true, true, at(2_100));
    pusher.handle_sent(0, at(2_100));
    pusher.push(&PACKET, false, true, at(3_200));
    assert_eq!(pusher.push(&PACKET, false, true, at(3_300)), Taken::LeftOut);
    send(&mut pusher, at(3_400));
    pusher.handle_end(None, at(3_500));
    pusher.finish(true, at(3_600));
    let told = std::iter::from_fn(|| pusher.poll_event()).last();
    let missing = Duration::from_millis(400);
    assert_eq!(told, Some(Event::Gap { resumed: false, missing, left_out: 1 }));
}

#[test]
fn redirects_of_servers_that_carried_the_stream_for_long_are_not_counted_on() {
    let mut pusher = publishing();
    let mut now = at(10_000);
    for _ in 0..10 {
        pusher.handle_bytes(b"HTTP/1.1 307 On\r\nLocation: http://d/x.ts\r\nContent-Length: 0\r\n\r\n", now);
        assert_eq!(asks(&mut pusher, now), "d");
        connect(&mut pusher, now);
        pusher.handle_bytes(CONTINUE, now);
        key_frame(&mut pusher, now);
        now += Duration::from_secs(3600);
    }
}

const FOLLOWS_LINE: &str = "Glassline-Follows: 307\r\n";

#[test]
fn a_publisher_says_that_it_follows_where_it_could_publish_elsewhere() {
    let head = |urls: &[&str], key| {
        let mut urls = urls.iter().map(|url| url.parse().unwrap());
        let first = urls.next().unwrap();
        let mut pusher = Pusher::new(first, urls.collect(), key, Policy::LIVE, 7, at(0));
        asks(&mut pusher, at(0));
        connect(&mut pusher, at(0))
    };
    let (one, other) = ("http://a/live/x.ts", "http://b/live/x.ts");
    assert!(head(&[one], None).contains(FOLLOWS_LINE));
    assert!(head(&[one, other], Some("secret")).contains(FOLLOWS_LINE));
    // Another server would not be shown the key.
    assert!(!head(&[one], Some("secret")).contains(FOLLOWS_LINE));
    assert!(!head(&["http://u:secret@a/live/x.ts"], None).contains(FOLLOWS_LINE));
}

#[test]
fn a_server_that_leads_elsewhere_in_the_middle_is_left_for_that_one_with_a_key_frame_and_the_gap_is_told() {
    let mut pusher = publishing();
    let answer = b"HTTP/1.1 307 On\r\nLocation: http://c/live/x.ts?takeover=1\r\nContent-Length: 0\r\n\r\n";
    pusher.handle_bytes(answer, at(2_500));
    assert_eq!(pusher.push(&PACKET, false, true, at(2_510)), Taken::LeftOut);
    assert_eq!(asks(&mut pusher, at(2_510)), "c");
    let head = connect(&mut pusher, at(2_520));
    assert!(head.starts_with("PUT /live/x.ts?takeover=1 HTTP/1.1\r\n") && head.contains(KEY_LINE), "{head}");
    // The name may be held there for a moment still: that is no end.
    pusher.handle_bytes(TAKEN, at(2_530));
    assert_eq!(pusher.result(), None);
    let now = pusher.poll_timeout().unwrap();
    asks(&mut pusher, now);
    connect(&mut pusher, now);
    pusher.handle_bytes(CONTINUE, now);
    assert!(pusher.take_demand());
    assert_eq!(pusher.push(&PACKET, false, true, now), Taken::LeftOut);
    assert_eq!(key_frame(&mut pusher, now), Taken::Taken(2 * 188));
    pusher.push(&PACKET, false, true, now + Policy::LIVE.retry_min);
    let told = std::iter::from_fn(|| pusher.poll_event()).last();
    assert!(matches!(told, Some(Event::Gap { resumed: true, .. })), "{told:?}");
}

#[test]
fn a_publisher_that_has_taken_the_name_over_elsewhere_or_has_had_it_for_long_does_not_take_it_back() {
    for (query, lasted, ends) in [("", 1_000, false), ("", 6_000, true), ("?takeover=1", 1_000, true)] {
        let urls = ["a", "b"].map(|host| format!("http://{host}/live/x.ts{query}"));
        let mut pusher = pusher(&urls.each_ref().map(String::as_str));
        for (host, begins) in [("a", 0), ("b", 3_000)] {
            assert_eq!(asks(&mut pusher, at(begins)), host);
            connect(&mut pusher, at(begins));
            pusher.handle_bytes(CONTINUE, at(begins));
            key_frame(&mut pusher, at(begins));
            send(&mut pusher, at(begins));
            if host == "a" {
                pusher.handle_end(None, at(3_000));
            }
        }
        pusher.handle_bytes(TAKEN, at(3_000 + lasted));
        assert_eq!(pusher.result().is_some(), ends, "{query} {lasted}");
    }
}

#[test]
fn an_attempt_that_takes_too_long_is_left_for_the_next_server_and_what_comes_of_it_later_is_of_no_use() {
    let mut pusher = three();
    assert_eq!(asks(&mut pusher, at(0)), "a");
    assert_eq!(pusher.poll_timeout(), Some(at(1_500)));
    pusher.handle_timeout(at(1_499));
    assert_eq!(pusher.poll_output(), None);
    // A resolver that says nothing holds up none but its own server.
    pusher.handle_timeout(at(1_500));
    pusher.handle_connected(at(1_500));
    assert!(!pusher.is_connected());
    assert_eq!(asks(&mut pusher, at(1_500)), "b");
    let Some(Event::Lost { why: Loss::Failed(why), .. }) = pusher.poll_event() else { panic!("it is told") };
    assert_eq!(why, "no connection within 1.5 s");
    let mut secured = self::pusher(&["https://a/live/x.ts", "https://b/live/x.ts"]);
    asks(&mut secured, at(0));
    assert_eq!(secured.poll_timeout(), Some(at(3_000)), "the handshake of TLS has as long again");
    let mut single = self::pusher(&["http://a/live/x.ts"]);
    asks(&mut single, at(0));
    assert_eq!(single.poll_timeout(), None, "there is no other to be asked");
}
