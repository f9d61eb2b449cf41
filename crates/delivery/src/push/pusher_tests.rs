use super::*;
use crate::http1::body::{Decoder, Framing, Piece};
use proptest::prelude::*;
use std::time::Duration;

fn at(millis: u64) -> Time {
    Time::from_millis(1_000 + millis)
}

fn pusher(policy: Policy) -> Pusher {
    Pusher::new("http://box/live/a.ts".parse().unwrap(), Vec::new(), Some("secret"), policy, 7, at(0))
}

/// One that has just been connected, with its request sent.
fn connected(policy: Policy) -> Pusher {
    let mut pusher = pusher(policy);
    connect(&mut pusher, at(0));
    pusher
}

fn connect(pusher: &mut Pusher, now: Time) {
    pusher.handle_timeout(now);
    let connect = Output::Connect { host: "box".to_owned(), port: 80, tls: false };
    assert_eq!(std::iter::from_fn(|| pusher.poll_output()).last(), Some(connect));
    pusher.handle_connected(now);
    assert_eq!(pusher.poll_event(), Some(Event::Connected { url: "http://box/live/a.ts".to_owned() }));
    assert!(pusher.take_demand() && !pusher.take_demand());
    send(pusher, now);
}

/// Sends all that waits, and gives it.
fn send(pusher: &mut Pusher, now: Time) -> Vec<u8> {
    let bytes = pusher.transmit().to_vec();
    pusher.handle_sent(bytes.len(), now);
    assert!(pusher.transmit().is_empty());
    bytes
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn lost(pusher: &mut Pusher) -> (String, Duration) {
    match pusher.poll_event() {
        Some(Event::Lost { why, retry_in, .. }) => (why.to_string(), retry_in),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_request_shows_the_key_and_the_stream_begins_where_one_can_join() {
    let mut pusher = pusher(Policy::LIVE);
    assert_eq!(pusher.push(b"unit", true, true, at(0)), Taken::LeftOut);
    pusher.handle_timeout(at(0));
    pusher.handle_connected(at(0));
    let head = text(&send(&mut pusher, at(0)));
    for line in ["PUT /live/a.ts HTTP/1.1", "Authorization: Bearer secret", "Transfer-Encoding: chunked"] {
        assert!(head.contains(line), "{head}");
    }
    assert_eq!(pusher.push(b"unit", false, true, at(1)), Taken::Waiting);
    assert_eq!(pusher.push(b"KEY", true, false, at(2)), Taken::Taken(0));
    assert!(pusher.transmit().is_empty(), "a picture leaves when it is whole");
    assert_eq!(pusher.push(b"rest", false, true, at(3)), Taken::Taken(7));
    assert_eq!(text(&send(&mut pusher, at(3))), "7\r\nKEYrest\r\n");
    pusher.finish(false, at(4));
    assert_eq!(text(&send(&mut pusher, at(4))), "0\r\n\r\n");
    assert_eq!(pusher.result(), None);
    pusher.handle_bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", at(5));
    assert_eq!(pusher.result(), Some(&Ok(())));
}

#[test]
fn a_connection_that_fails_is_tried_again_after_growing_pauses() {
    let mut pusher = pusher(Policy::LIVE);
    let (mut now, mut pauses) = (at(0), Vec::new());
    for _ in 0..6 {
        pusher.handle_timeout(now);
        assert_eq!(pusher.poll_timeout(), None);
        pusher.handle_refused("refused".to_owned(), false, now);
        let (why, retry_in) = lost(&mut pusher);
        assert_eq!(why, "refused");
        now += retry_in;
        assert_eq!(pusher.poll_timeout(), Some(now));
        pauses.push(retry_in);
    }
    assert!(pauses[0] <= Policy::LIVE.retry_min && pauses[5] > Policy::LIVE.retry_max / 2, "{pauses:?}");
}

#[test]
fn a_server_that_is_not_trusted_is_given_up_unless_it_was_before() {
    let mut never = pusher(Policy::LIVE);
    never.handle_timeout(at(0));
    never.handle_refused("unknown issuer".to_owned(), true, at(0));
    assert_eq!(never.result(), Some(&Err(PushFailure::Untrusted("unknown issuer".to_owned()))));
    let mut once = connected(Policy::LIVE);
    once.handle_end(None, at(10));
    lost(&mut once);
    once.handle_timeout(once.poll_timeout().unwrap());
    once.handle_refused("unknown issuer".to_owned(), true, at(2_000));
    assert_eq!(once.result(), None);
}

#[test]
fn an_answer_that_does_not_pass_ends_it_and_others_do_not() {
    let answered = |answer: &str| {
        let mut pusher = connected(Policy::LIVE);
        pusher.push(b"KEY", true, true, at(5));
        pusher.handle_bytes(answer.as_bytes(), at(10));
        pusher
    };
    let body = "Content-Length: 6\r\n\r\nno way";
    let refused = answered(&format!("HTTP/1.1 403 Forbidden\r\n{body}"));
    let Some(Err(PushFailure::Refused(answer))) = refused.result() else { panic!("it is refused") };
    assert_eq!((answer.status, &*answer.reason, &*answer.body), (403, "Forbidden", &b"no way"[..]));
    // Behind a 302 a client may ask by GET, and behind a 307 it does not go to where it is not told.
    for status in ["302 Found\r\nLocation: http://other/", "307 Elsewhere\r\nLocation: https://other/"] {
        let moved = answered(&format!("HTTP/1.1 {status}\r\n{body}"));
        let Some(Err(PushFailure::Moved(answer))) = moved.result() else { panic!("it has moved") };
        assert!(answer.location.as_deref().is_some_and(|place| place.ends_with("://other/")), "{answer:?}");
    }
    for passing in ["408 Timeout", "429 Slow down", "503 Busy"] {
        let mut pusher = answered(&format!("HTTP/1.1 {passing}\r\n{body}"));
        assert_eq!(pusher.result(), None);
        assert!(lost(&mut pusher).0.contains(passing));
    }
    let mut nonsense = answered("SSH-2.0-OpenSSH\r\n");
    assert!(lost(&mut nonsense).0.contains("not HTTP"));
}

#[test]
fn a_name_that_is_held_after_a_loss_is_asked_for_again_for_a_while() {
    const TAKEN: &[u8] = b"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n";
    let mut first = connected(Policy::LIVE);
    first.handle_bytes(TAKEN, at(10));
    assert!(matches!(first.result(), Some(Err(PushFailure::Refused(_)))));
    let mut pusher = connected(Policy::LIVE);
    pusher.push(b"KEY", true, true, at(10));
    pusher.handle_end(None, at(20));
    lost(&mut pusher);
    let mut now = pusher.poll_timeout().unwrap();
    while pusher.result().is_none() {
        connect(&mut pusher, now);
        pusher.handle_bytes(TAKEN, now);
        if pusher.result().is_none() {
            lost(&mut pusher);
            now = pusher.poll_timeout().unwrap();
        }
    }
    assert!(now.since(at(20)) >= Policy::LIVE.name_held, "{now:?}");
}

#[test]
fn a_slow_server_misses_pictures_and_goes_on_at_a_key_frame() {
    let mut pusher = connected(Policy::LIVE);
    let packet = [[0x47, 1, 0, 0x10].as_slice(), &[0; 184]].concat();
    pusher.push(&packet, true, true, at(0));
    pusher.handle_sent(0, at(0));
    assert_eq!(pusher.push(&packet, false, true, at(900)), Taken::Taken(188));
    assert_eq!(pusher.push(&packet, false, true, at(1_100)), Taken::Taken(188));
    assert_eq!(pusher.poll_event(), Some(Event::Behind));
    assert_eq!(pusher.push(&packet, true, true, at(1_200)), Taken::LeftOut);
    assert!(!pusher.take_demand(), "what waits has not gone");
    send(&mut pusher, at(1_300));
    assert_eq!(pusher.push(&packet, false, true, at(1_400)), Taken::LeftOut);
    assert!(pusher.take_demand());
    // The gap is announced.
    assert_eq!(pusher.push(&packet, true, true, at(1_500)), Taken::Taken(2 * 188));
    assert_eq!(pusher.poll_event(), Some(Event::CaughtUp));
}

#[test]
fn a_server_that_takes_nothing_is_given_up_after_a_while() {
    for (policy, timeout) in [(Policy::LIVE, 5_000), (Policy::FILE, 10_000)] {
        let mut pusher = connected(policy);
        pusher.push(b"KEY", true, true, at(0));
        pusher.handle_sent(1, at(100));
        assert_eq!(pusher.poll_timeout(), Some(at(100 + timeout)));
        pusher.handle_timeout(at(100 + timeout));
        // What it said meanwhile would tell more.
        assert_eq!(pusher.poll_timeout(), Some(at(2_100 + timeout)));
        pusher.handle_timeout(at(2_100 + timeout));
        assert_eq!(lost(&mut pusher).0, "the server takes nothing of the stream");
    }
    let mut finishing = connected(Policy::FILE);
    finishing.push(b"KEY", true, true, at(0));
    finishing.finish(false, at(0));
    finishing.handle_timeout(at(20_000));
    assert!(matches!(finishing.result(), Some(Err(PushFailure::Unfinished(_)))));
}

#[test]
fn what_the_server_said_before_it_closed_tells_more_than_the_broken_pipe() {
    let mut pusher = connected(Policy::LIVE);
    pusher.push(b"KEY", true, true, at(0));
    pusher.handle_send_failure("broken pipe".to_owned(), at(1));
    assert!(pusher.transmit().is_empty());
    assert_eq!(pusher.push(b"unit", true, true, at(2)), Taken::LeftOut);
    pusher.handle_bytes(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", at(3));
    assert!(matches!(pusher.result(), Some(Err(PushFailure::Refused(_)))));
    let mut silent = connected(Policy::LIVE);
    silent.handle_send_failure("broken pipe".to_owned(), at(1));
    silent.handle_end(Some("reset".to_owned()), at(2));
    assert_eq!(lost(&mut silent).0, "broken pipe");
}

#[test]
fn the_end_of_the_stream_is_judged_by_what_the_server_says_to_it() {
    let finished = |answer: Option<&str>| {
        let mut pusher = connected(Policy::FILE);
        pusher.push(b"KEY", true, true, at(0));
        pusher.finish(false, at(1));
        send(&mut pusher, at(2));
        match answer {
            Some(answer) => pusher.handle_bytes(answer.as_bytes(), at(3)),
            None => pusher.handle_timeout(at(2_002)),
        }
        pusher.result().cloned().expect("it is over")
    };
    assert_eq!(finished(None), Ok(()));
    assert_eq!(finished(Some("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")), Ok(()));
    let refused = finished(Some("HTTP/1.1 507 Full\r\nContent-Length: 0\r\n\r\n"));
    assert!(matches!(refused, Err(PushFailure::RefusedAtEnd(answer)) if answer.status == 507));
    let (mut early, mut hurried) = (pusher(Policy::FILE), pusher(Policy::FILE));
    early.finish(false, at(0));
    hurried.finish(true, at(0));
    assert_eq!(early.result(), Some(&Err(PushFailure::NotReached)));
    assert_eq!(hurried.result(), Some(&Ok(())));
}

/// What is done to a pusher.
#[derive(Clone, Debug)]
enum Step {
    Push { joinable: bool, ends: bool, packets: usize },
    Send(usize),
    Answer(Vec<u8>),
    End,
    SendFailure,
    Silence,
    Wait(u64),
    Refuse,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (any::<bool>(), any::<bool>(), 1..20usize)
            .prop_map(|(joinable, ends, packets)| Step::Push { joinable, ends, packets }),
        6 => (0..5_000usize).prop_map(Step::Send),
        1 => proptest::collection::vec(any::<u8>(), 0..40).prop_map(Step::Answer),
        1 => Just(Step::Answer(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec())),
        1 => Just(Step::Answer(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec())),
        1 => Just(Step::Answer(b"HTTP/1.1 307 There\r\nLocation: http://c/\r\nContent-Length: 0\r\n\r\n".to_vec())),
        1 => Just(Step::End),
        1 => Just(Step::SendFailure),
        1 => Just(Step::Silence),
        3 => (0..3_000u64).prop_map(Step::Wait),
        1 => Just(Step::Refuse),
    ]
}

/// The chunks of a body, as far as they have come whole.
fn body_of(sent: &[u8]) -> Vec<u8> {
    let head = sent.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4);
    let Some(mut input) = head.map(|head| &sent[head..]) else { return Vec::new() };
    let (mut decoder, mut body) = (Decoder::new(Framing::Chunked), Vec::new());
    while let Some(piece) = decoder.next(&mut input).expect("well formed") {
        match piece {
            Piece::Data(data) => body.extend_from_slice(data),
            Piece::End => break,
        }
    }
    body
}

proptest! {
    /// Whatever happens: each connection carries a well-formed chunked body that begins where one can join, memory stays
    /// bounded, and time goes on.
    #[test]
    fn what_is_sent_is_a_stream_whatever_happens(
        steps in proptest::collection::vec(step(), 1..120),
        count in 1..4usize,
    ) {
        let policy = Policy { pending_max_bytes: 20_000, ..Policy::LIVE };
        let policy = if count > 1 { policy.of_several() } else { policy };
        let url = |number: usize| format!("http://box{number}/live/a.ts").parse().unwrap();
        let mut pusher = Pusher::new(url(0), (1..count).map(url).collect(), None, policy, 7, at(0));
        let (mut now, mut connections) = (at(0), vec![Vec::new()]);
        for step in steps {
            match step {
                Step::Push { joinable, ends, packets } => {
                    let kind = if joinable { b'K' } else { b'u' };
                    let packet = [&[0x47, 1, 0, 0x10, kind][..], &[0; 183]].concat();
                    pusher.push(&packet.repeat(packets), joinable, ends, now);
                }
                Step::Send(bytes) => {
                    let count = bytes.min(pusher.transmit().len());
                    connections.last_mut().unwrap().extend_from_slice(&pusher.transmit()[..count]);
                    pusher.handle_sent(count, now);
                }
                Step::Answer(bytes) => pusher.handle_bytes(&bytes, now),
                Step::End => pusher.handle_end(None, now),
                Step::Silence => pusher.handle_silence(now),
                Step::SendFailure => pusher.handle_send_failure("broken".to_owned(), now),
                Step::Wait(millis) => now += Duration::from_millis(millis),
                Step::Refuse => pusher.handle_refused("refused".to_owned(), false, now),
            }
            if let Some(due) = pusher.poll_timeout().filter(|due| *due <= now) {
                pusher.handle_timeout(now);
                // Another server is asked at once.
                let is_later = |next: Time| next > due || next == now && count > 1;
                prop_assert!(pusher.poll_timeout().is_none_or(is_later));
            }
            while let Some(output) = pusher.poll_output() {
                if let Output::Connect { .. } = output {
                    connections.push(Vec::new());
                    pusher.handle_connected(now);
                }
            }
            while pusher.poll_event().is_some() {}
            prop_assert!(pusher.transmit().len() < policy.pending_max_bytes + 20 * 188 * 130);
        }
        for sent in connections {
            let body = body_of(&sent);
            // What announces a gap is no payload.
            let mut packets = body.chunks(188).filter(|packet| packet.get(3) == Some(&0x10));
            if let Some(first) = packets.next().and_then(|packet| packet.get(4)) {
                prop_assert_eq!(*first, b'K');
            }
        }
    }

    /// However the answer is cut, it is read as the same.
    #[test]
    fn an_answer_may_come_in_any_chop(cuts in proptest::collection::vec(1..20usize, 0..20)) {
        let answer = b"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nno way";
        let mut pusher = connected(Policy::LIVE);
        let mut rest = &answer[..];
        for cut in cuts {
            let (piece, behind) = rest.split_at(cut.min(rest.len()));
            pusher.handle_bytes(piece, at(10));
            rest = behind;
        }
        pusher.handle_bytes(rest, at(10));
        let Some(Err(PushFailure::Refused(answer))) = pusher.result() else { panic!("it is refused") };
        prop_assert_eq!((answer.status, &*answer.body), (403, &b"no way"[..]));
    }
}

#[test]
fn a_stream_ends_once_however_often_that_is_said() {
    let mut pusher = connected(Policy::LIVE);
    assert_eq!(pusher.push(b"KEY", true, true, at(1)), Taken::Taken(3));
    for hurried in [false, true, true] {
        pusher.finish(hurried, at(2));
        assert_eq!(pusher.push(b"KEY", true, true, at(2)), Taken::LeftOut);
    }
    assert_eq!(text(&send(&mut pusher, at(3))), "3\r\nKEY\r\n0\r\n\r\n");
}
