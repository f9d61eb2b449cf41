//! Connections as one process leaves them to the next.

use crate::connection::{Connection, ConnectionState, Role, Turn};
use crate::test_connections::{PEER, Stage, beside, chunk, get, opening, put, stage};
use crate::test_streams::name;
use crate::wire::Wire;
use glassline_delivery::stream::Pacing;
use glassline_io::tcp::Connection as Socket;
use glassline_streams::presence::Purpose;
use std::os::fd::AsFd;
use std::time::Duration;

/// The state as it comes out of a message.
fn passed_on(connection: &Connection) -> ConnectionState {
    let (state, own_link) = connection.state();
    assert!(own_link.is_none());
    let bytes = rmp_serde::to_vec_named(&state).unwrap();
    rmp_serde::from_slice(&bytes).unwrap()
}

/// Has the connection go on as it does in the next process, on the same socket, with the streams of the same hub.
fn hand_over(stage: &mut Stage) -> bool {
    let state = passed_on(&stage.connection);
    let live = state.stream().and_then(|id| stage.hub.streams.all().into_iter().find(|live| live.id == id));
    let socket = stage.connection.socket.tcp().as_fd().try_clone_to_owned().unwrap();
    let wire = Wire::plain(Socket::from_descriptor(socket));
    let restored = Connection::restore(state, wire, stage.connection.id, live.as_ref(), None);
    let is_there = restored.is_some();
    if let Some(connection) = restored {
        stage.connection = connection;
        let hub = std::sync::Arc::clone(&stage.hub);
        stage.connection.count_in(&hub);
    }
    is_there
}

#[test]
fn a_head_that_is_half_here_is_read_on_by_the_next_process() {
    let request = get("/page");
    for cut in [1, 4, 20, request.len() - 1] {
        let mut stage = stage(|_| {});
        stage.say(&request[..cut]);
        stage.turn();
        assert!(hand_over(&mut stage));
        assert_eq!(stage.ask(&request[cut..]).text(), "/page", "{cut}");
    }
}

#[test]
fn a_body_that_is_half_here_is_read_on_and_counted_on() {
    let mut stage = stage(|_| {});
    stage
        .say(format!("POST /form HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", (64 << 10) + 1));
    stage.turn();
    stage.say([b'x'; 40 << 10]);
    stage.turn();
    assert!(hand_over(&mut stage));
    stage.say([b'x'; 24 << 10]);
    stage.turn();
    assert!(stage.heard().is_empty());
    assert_eq!(stage.ask([b'x']).status, 413);
}

#[test]
fn an_answer_that_is_half_sent_goes_on_where_it_was() {
    let mut stage = stage(|_| {});
    stage.say([get("/large/"), get("/page")].concat());
    stage.turn();
    let mut bytes = stage.heard();
    assert!(hand_over(&mut stage));
    while bytes.len() < 300_000 || !stage.connection.outgoing.is_empty() {
        stage.turn();
        bytes.extend(stage.heard());
    }
    let answers = crate::test_connections::answers(&bytes);
    assert_eq!((answers[0].body.len(), answers[1].text()), (300_000, "/page"));
    assert_eq!(stage.logged().len(), 2);
}

#[test]
fn a_publisher_goes_on_with_its_stream_and_its_bit_rate() {
    let mut stage = stage(|settings| settings.rules.general.max_publish_bps = Some(80_000));
    stage.say(put("/live/a.ts"));
    stage.turn();
    let (mut source, bytes) = opening(100);
    stage.say(chunk(&bytes));
    stage.turn();
    let published = |stage: &Stage| {
        let Role::Publishing(publishing) = &stage.connection.role else { panic!("it publishes") };
        (publishing.bytes, publishing.session, publishing.last_bytes)
    };
    let before = published(&stage);
    stage.hub.presence.leave(PEER.ip(), Purpose::Publish, 0);
    assert!(hand_over(&mut stage));
    assert_eq!(published(&stage), before);
    assert_eq!(stage.counted(Purpose::Publish), 1);
    // What was sent before the hand-over counts against what may come at once.
    stage.say(chunk(&source.picture(false, 260)));
    stage.turn();
    assert_eq!(stage.answers()[0].status, 429);
    assert_eq!(stage.logged()[0].2, (bytes.len() + 260 * 188) as u64);
}

#[test]
fn a_publisher_that_has_lost_its_slot_meanwhile_does_not_come_over() {
    let mut stage = stage(|_| {});
    stage.say(put("/live/a.ts"));
    stage.turn();
    let live = stage.hub.streams.find(&name("a")).unwrap();
    let now = stage.now;
    live.acquire(None, true, None, now);
    assert!(!hand_over(&mut stage));
    // Nor does one where its stream is not there.
    let state = passed_on(&stage.connection);
    assert_eq!(state.stream(), Some(live.id));
    let (ours, _theirs) = Socket::pair(4096).unwrap();
    assert!(Connection::restore(state, Wire::plain(ours), stage.connection.id, None, None).is_none());
}

#[test]
fn a_viewer_goes_on_at_the_byte_where_it_was() {
    let mut publisher = stage(|settings| settings.stream.pacing = Pacing::Off);
    publisher.say(put("/live/a.ts"));
    publisher.turn();
    let (mut source, bytes) = opening(150);
    publisher.say(chunk(&bytes));
    publisher.turn();
    let mut viewer = beside(&publisher, PEER, 8);
    viewer.say(get("/live/a.ts"));
    viewer.turn();
    let mut all = bytes.clone();
    for _ in 0..6 {
        let more = source.picture(false, 150);
        publisher.say(chunk(&more));
        publisher.turn();
        all.extend(more);
    }
    // Its socket is full in the middle of something.
    viewer.turn();
    let Role::Watching(watching) = &viewer.connection.role else { panic!("it watches") };
    let (sent, blocked) = (watching.sent_bytes, watching.blocked_since());
    assert!(blocked.is_some() && sent < all.len() as u64 - 376);
    viewer.hub.presence.leave(PEER.ip(), Purpose::Watch, 0);
    assert!(hand_over(&mut viewer));
    let Role::Watching(watching) = &viewer.connection.role else { panic!("it watches") };
    assert_eq!((watching.sent_bytes, watching.blocked_since()), (sent, blocked));
    let mut got = Vec::new();
    for _ in 0..100 {
        got.extend(viewer.heard());
        viewer.turn();
    }
    let body = got.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    assert!(got[body..] == all[..], "{} of {} bytes", got.len() - body, all.len());
    viewer.close();
    assert_eq!(viewer.counted(Purpose::Watch), 0);
}

#[test]
fn a_request_without_an_answer_yet_is_asked_again_by_the_next_process() {
    let mut stage = stage(|_| {});
    stage.say(get("/long/list"));
    stage.turn();
    assert!(matches!(stage.connection.role, Role::Preparing(_)));
    assert!(hand_over(&mut stage));
    assert!(matches!(stage.connection.role, Role::Asked(_)));
    // It is handed over again before its turn, and has no time limit meanwhile.
    assert!(!stage.pass(Duration::from_secs(3600)) && stage.heard().is_empty());
    assert!(hand_over(&mut stage));
    stage.turn();
    assert!(matches!(stage.connection.role, Role::Preparing(_)));
    let mut bytes = Vec::new();
    glassline_test_support::wait::until("the answer", || {
        stage.with(|connection, context| connection.woken(context));
        bytes.extend(stage.heard());
        bytes.ends_with(b"/long/list")
    });
}

#[test]
fn what_is_half_told_to_this_process_alone_ends_with_it() {
    for request in [
        put("/live/b/video.cmfv"),
        "POST /live/a/stages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
            .to_owned(),
    ] {
        let mut publisher = stage(|_| {});
        publisher.say(put("/live/a.ts"));
        publisher.turn();
        let mut stage = beside(&publisher, PEER, 8);
        stage.say(&request);
        stage.turn();
        assert!(matches!(stage.connection.role, Role::Ingesting(_) | Role::Reporting(_)), "{request}");
        assert!(hand_over(&mut stage));
        assert!(matches!(stage.connection.role, Role::Draining { since: None }));
        assert!(matches!(stage.turn(), Turn::Rests) && stage.sees_end(), "{request}");
    }
}

#[test]
fn a_connection_that_drains_goes_on_draining_and_no_longer() {
    let mut stage = stage(|_| {});
    stage.ask("GET /page HTTP/1.0\r\n\r\n");
    assert!(!stage.pass(Duration::from_millis(1500)));
    assert!(hand_over(&mut stage));
    assert!(!stage.pass(Duration::from_millis(499)));
    assert!(stage.pass(Duration::from_millis(1)));
}

#[test]
fn a_state_that_is_cut_short_or_of_another_kind_is_refused() {
    let mut stage = stage(|_| {});
    stage.say("POST /form HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nab");
    stage.turn();
    let bytes = rmp_serde::to_vec_named(&stage.connection.state().0).unwrap();
    for cut in 0..bytes.len() {
        assert!(rmp_serde::from_slice::<ConnectionState>(&bytes[..cut]).is_err(), "{cut}");
    }
    // A field that this program does not know is passed over, as of a later version.
    let mut more = bytes.clone();
    assert_eq!(more[0] & 0xF0, 0x80, "a small map");
    more[0] += 1;
    more.extend([0xA5, b'l', b'a', b't', b'e', b'r', 0xC0]);
    let state: ConnectionState = rmp_serde::from_slice(&more).unwrap();
    assert_eq!(rmp_serde::to_vec_named(&state).unwrap(), bytes);
    assert_eq!(state.stream(), None);
}
