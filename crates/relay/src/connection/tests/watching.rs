//! Connections that become viewers: what they are told first, where they begin, and what counts them.

use crate::connection::{Role, Turn};
use crate::test_connections::{PEER, Stage, beside, chunk, get, opening, put, stage};
use crate::test_streams::name;
use crate::{Pull, Settings};
use glassline_delivery::metacube::{Event, Flags, Reader};
use glassline_delivery::pull::Source;
use glassline_delivery::stream::Pacing;
use glassline_streams::presence::Purpose;
use std::sync::Arc;
use std::time::Duration;

/// A publisher that has sent `bytes` of the stream `a`, and a connection that has not asked for anything yet.
fn stream_of(bytes: &[u8], change: impl FnOnce(&mut Settings)) -> (Stage, Stage) {
    let mut publisher = stage(|settings| {
        settings.stream.pacing = Pacing::Off;
        change(settings);
    });
    publisher.say(put("/live/a.ts"));
    publisher.turn();
    publisher.say(chunk(bytes));
    publisher.turn();
    let viewer = beside(&publisher, PEER, 8);
    (publisher, viewer)
}

/// The head of what has come, and all behind it.
fn parts(bytes: &[u8]) -> (String, Vec<u8>) {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head") + 4;
    (String::from_utf8(bytes[..end].to_vec()).unwrap(), bytes[end..].to_vec())
}

#[test]
fn a_viewer_gets_a_head_without_a_length_and_the_stream_from_its_key_frame_on() {
    let (mut source, bytes) = opening(3);
    let (mut publisher, mut viewer) = stream_of(&bytes, |_| {});
    viewer.say(get("/live/a.ts"));
    assert!(matches!(viewer.turn(), Turn::Rests));
    let (head, body) = parts(&viewer.heard());
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && !head.contains("Content-Length"), "{head}");
    for field in ["Content-Type: video/mp2t", "Cache-Control: no-store", "Connection: close"] {
        assert!(head.contains(&format!("\r\n{field}\r\n")), "{field}: {head}");
    }
    assert_eq!(body, bytes);
    let more = source.picture(false, 2);
    publisher.say(chunk(&more));
    publisher.turn();
    viewer.turn();
    assert_eq!(viewer.heard(), more);
    let live = viewer.hub.streams.find(&name("a")).unwrap();
    assert_eq!((live.viewers(), viewer.counted(Purpose::Watch)), (1, 1));
    viewer.close();
    assert_eq!((live.viewers(), viewer.counted(Purpose::Watch)), (0, 0));
    let sent = (bytes.len() + more.len() - 376) as u64;
    assert_eq!(viewer.logged().last().unwrap(), &("/live/a.ts".to_owned(), 200, sent));
}

#[test]
fn a_viewer_that_says_more_is_not_listened_to_and_one_that_ends_its_side_has_left() {
    let (_publisher, mut viewer) = stream_of(&opening(1).1, |_| {});
    viewer.say([get("/live/a.ts"), get("/page")].concat());
    viewer.turn();
    viewer.heard();
    viewer.say(get("/page"));
    assert!(matches!(viewer.turn(), Turn::Rests) && viewer.heard().is_empty());
    assert!(viewer.site.asked.lock().unwrap().is_empty());
    viewer.end();
    assert!(matches!(viewer.turn(), Turn::Over));
}

#[test]
fn what_was_answered_before_leaves_before_the_stream() {
    let (_, bytes) = opening(1);
    let (_publisher, mut viewer) = stream_of(&bytes, |_| {});
    viewer.say([get("/page"), get("/live/a.ts")].concat());
    viewer.turn();
    let heard = viewer.heard();
    let (_, rest) = parts(&heard);
    assert!(rest.starts_with(b"/pageHTTP/1.1 200 OK\r\n"));
    assert_eq!(parts(&rest[5..]).1, bytes);
}

#[test]
fn an_answer_that_the_socket_has_no_room_for_leaves_before_the_stream_too() {
    let (_, bytes) = opening(1);
    let (_publisher, mut viewer) = stream_of(&bytes, |_| {});
    viewer.say(get("/large/"));
    viewer.turn();
    assert!(!viewer.connection.outgoing.is_empty());
    viewer.say(get("/live/a.ts"));
    viewer.turn();
    let mut heard = Vec::new();
    for _ in 0..100 {
        heard.extend(viewer.heard());
        viewer.turn();
    }
    let (_, rest) = parts(&heard);
    assert!(rest[..300_000].iter().all(|byte| *byte == b'x'));
    assert_eq!(parts(&rest[300_000..]).1, bytes);
}

#[test]
fn a_viewer_is_over_when_its_stream_has_ended_and_all_has_left() {
    let (_, bytes) = opening(300);
    let (publisher, mut viewer) = stream_of(&bytes[..40_000], |_| {});
    viewer.say(get("/live/a.ts"));
    viewer.turn();
    publisher.hub.streams.end(&publisher.hub.streams.find(&name("a")).unwrap());
    assert!(matches!(viewer.turn(), Turn::Over));
    let whole = 40_000 / 188 * 188;
    assert_eq!(parts(&viewer.heard()).1, bytes[..whole]);
}

#[test]
fn head_of_a_stream_tells_what_it_is_and_counts_no_viewer() {
    let (publisher, mut viewer) = stream_of(&opening(1).1, |_| {});
    let answer = viewer.ask("HEAD /live/a.ts HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((answer.status, answer.field("Content-Type")), (200, Some("video/mp2t")));
    assert!(answer.is_closed_behind() && answer.body.is_empty());
    assert_eq!(publisher.hub.streams.find(&name("a")).unwrap().viewers(), 0);
    assert_eq!(publisher.counted(Purpose::Watch), 0);
}

#[test]
fn a_stream_is_found_under_its_own_mux_alone() {
    let (_publisher, mut viewer) = stream_of(&opening(1).1, |_| {});
    let answer = viewer.get("/live/a.webm");
    assert!(answer.status == 404 && answer.text().contains("It is at /live/a.ts."), "{}", answer.text());
    let absent = viewer.get("/live/b.ts");
    assert!(absent.status == 404 && absent.text().contains("no such stream"));
    assert_eq!(absent.field("Content-Security-Policy"), Some("sandbox"));
}

#[test]
fn a_stream_that_is_pulled_and_not_there_will_be_and_says_so() {
    let pull = Pull {
        name: name("pulled"),
        source: Source::parse("http://127.0.0.1:9/pulled.ts").unwrap(),
        alternates: Vec::new(),
        mux: None,
        ca: None,
        via: None,
        renewed: 0,
    };
    let mut stage = stage(|settings| settings.pulls = vec![pull]);
    let answer = stage.get("/live/pulled.ts");
    assert_eq!((answer.status, answer.field("Retry-After")), (503, Some("1")));
    let refused = beside(&stage, PEER, 8).ask(put("/live/pulled.ts"));
    assert!(refused.status == 409 && refused.text().contains("gives this one a source"));
}

#[test]
fn a_prebuffer_is_a_number_of_seconds_up_to_ten_minutes() {
    for (value, status) in [("0", 200), ("2.5", 200), ("600", 200), ("600.1", 400), ("-1", 400), ("nan", 400)]
    {
        let (_publisher, mut viewer) = stream_of(&opening(1).1, |_| {});
        assert_eq!(viewer.get(&format!("/live/a.ts?prebuffer={value}")).status, status, "{value}");
    }
}

#[test]
fn a_viewer_with_a_prebuffer_begins_at_an_earlier_key_frame() {
    let (mut source, first) = opening(2);
    let (mut publisher, mut newest) = stream_of(&first, |_| {});
    let second = source.picture(true, 2);
    publisher.say(chunk(&second));
    publisher.turn();
    newest.say(get("/live/a.ts"));
    newest.turn();
    assert_eq!(parts(&newest.heard()).1, [&first[..376], &second].concat());
    let mut earlier = beside(&publisher, PEER, 9);
    earlier.say(get("/live/a.ts?prebuffer=600"));
    earlier.turn();
    assert_eq!(parts(&earlier.heard()).1, [&first[..], &second].concat());
}

#[test]
fn a_viewer_in_blocks_gets_a_header_block_and_then_the_stream_in_others() {
    let (_, bytes) = opening(3);
    let (_publisher, mut viewer) = stream_of(&bytes, |_| {});
    viewer.say(get("/live/a.ts?encoding=metacube"));
    viewer.turn();
    let (head, body) = parts(&viewer.heard());
    assert!(head.contains("\r\nContent-Encoding: metacube\r\n"), "{head}");
    let (mut reader, mut input) = (Reader::new(), &body[..]);
    let (mut blocks, mut data) = (Vec::new(), Vec::new());
    while let Some(event) = reader.next(&mut input) {
        match event {
            Event::Block { size, flags } => blocks.push((size, flags)),
            Event::Data(bytes) => data.extend_from_slice(bytes),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(blocks, [(376, Flags::HEADER), (3 * 188, Flags::NONE)]);
    assert_eq!(data, bytes);
    let unknown = beside(&viewer, PEER, 9).get("/live/a.ts?encoding=other");
    assert!(unknown.status == 400 && unknown.text().contains("?encoding=metacube"));
}

#[test]
fn there_are_as_many_viewers_as_there_may_be() {
    type Change = fn(&mut Settings);
    let limits: [(Change, u16); 4] = [
        (|settings| settings.rules.general.watch.max_viewers = 1, 503),
        (|settings| settings.rules.general.watch.max_per_stream = 1, 503),
        (|settings| settings.rules.general.watch.max_per_address = 1, 429),
        (|_| {}, 200),
    ];
    for (change, status) in limits {
        let (publisher, mut first) = stream_of(&opening(1).1, change);
        first.say(get("/live/a.ts"));
        first.turn();
        let mut second = beside(&publisher, PEER, 9);
        assert_eq!(second.get("/live/a.ts").status, status);
        let viewers = if status == 200 { 2 } else { 1 };
        assert_eq!(publisher.hub.streams.find(&name("a")).unwrap().viewers(), viewers);
        assert_eq!(publisher.counted(Purpose::Watch), viewers);
        // A refused viewer may ask for something else, and there is room once the first has gone.
        if status != 200 {
            assert_eq!(second.get("/page").status, 200);
            first.close();
            assert_eq!(second.get("/live/a.ts").status, 200);
        }
    }
}

#[test]
fn a_viewer_that_takes_nothing_is_dropped_after_its_time_and_a_slow_one_is_not() {
    let (_, bytes) = opening(200);
    let (mut publisher, mut viewer) = stream_of(&bytes, |settings| {
        settings.stall_timeout = Duration::from_secs(20);
    });
    viewer.say(get("/live/a.ts"));
    viewer.turn();
    // Far more than the socket holds.
    let mut source = opening(1).0;
    for _ in 0..40 {
        publisher.say(chunk(&source.picture(false, 100)));
        publisher.turn();
    }
    viewer.turn();
    let Role::Watching(watching) = &viewer.connection.role else { panic!("it watches") };
    assert!(watching.is_blocked());
    assert!(!viewer.pass(Duration::from_millis(19_999)));
    // It reads a little, late as it is.
    assert!(!viewer.heard().is_empty());
    viewer.turn();
    assert!(!viewer.pass(Duration::from_millis(19_999)));
    assert!(viewer.pass(Duration::from_millis(1)));
    let live = viewer.hub.streams.find(&name("a")).unwrap();
    assert_eq!(live.counters.stalled.value(), 1);
}

#[test]
fn a_viewer_that_waits_for_a_stream_that_ends_gets_the_end() {
    let (_publisher, mut viewer) = stream_of(&opening(1).1[..376], |_| {});
    viewer.say(get("/live/a.ts"));
    viewer.turn();
    assert!(parts(&viewer.heard()).1.is_empty(), "nothing before a key frame");
    let live = viewer.hub.streams.find(&name("a")).unwrap();
    viewer.hub.streams.end(&live);
    assert!(matches!(viewer.turn(), Turn::Over));
}

#[test]
fn the_presentation_of_a_stream_begins_when_it_is_asked_for() {
    let (publisher, mut client) = stream_of(&opening(1).1, |_| {});
    assert_eq!(client.get("/live/b/index.m3u8").status, 404);
    assert_eq!(client.get("/live/a/nonsense").status, 404);
    assert!(publisher.hub.presentations.find(&name("a")).is_none());
    client.say(get("/live/a/index.m3u8"));
    client.turn();
    assert!(matches!(client.connection.role, Role::Fetching(_)) && client.heard().is_empty());
    let store = publisher.hub.presentations.find(&name("a")).unwrap();
    // Its stream ends before there is anything of it.
    store.finish(publisher.hub.clock.utc());
    client.with(|connection, context| connection.woken(context));
    assert_eq!(client.answers()[0].status, 404);
    assert!(Arc::strong_count(&store) >= 2, "the hub keeps it");
}

#[test]
fn a_stream_that_is_only_carried_is_not_packaged() {
    let mut publisher = stage(|_| {});
    publisher.say(put("/live/a.ogg"));
    publisher.turn();
    let answer = beside(&publisher, PEER, 8).get("/live/a/index.m3u8");
    assert_eq!(answer.status, 404);
    assert!(answer.text().contains("It is watched at /live/a.ogg alone."), "{}", answer.text());
}
