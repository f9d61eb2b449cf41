use super::*;
use crate::pieces::Publisher;
use crate::test_streams::{acquired, live, name};
use glassline_delivery::stream::{Backlog, FlushPolicy};
use glassline_delivery::telemetry::stages::{PassedPicture, RelayFigures};
use glassline_io::containment::{Border, contain};
use glassline_test_support::synthetic;
use glassline_test_support::ts::Source;
use std::net::IpAddr;
use std::os::fd::AsFd as _;

#[test]
fn each_deadline_is_answered_once() {
    let settings = stream::Settings {
        backlog: Backlog { time: Duration::from_secs(1), bytes: 1 << 20 },
        flush: FlushPolicy::Thrifty,
        pacing: Pacing::Off,
        prebuffer: Prebuffer::NONE,
    };
    let at = Time::from_millis;
    let name = StreamName::parse("a").expect("a name");
    let live = Live::new(0, name, Mux::MpegTs, settings, 1, at(0));
    let Acquisition::Granted { session, .. } = live.acquire(None, false, None, at(0)) else {
        panic!("nobody is here")
    };
    let mut source = Source::default();
    let bytes = [source.tables(), source.picture(true, 3)].concat();
    assert!(!live.push(session, &bytes, at(10)).expect("a transport stream"));
    assert_eq!(live.pause(at(10)), Flushed { news: false, wake_at: Some(at(110)) });
    // What comes meanwhile leaves with it and asks for nothing new.
    let more = source.picture(false, 3);
    assert!(!live.push(session, &more, at(30)).expect("a transport stream"));
    assert_eq!(live.pause(at(30)), Flushed { news: false, wake_at: None });
    assert_eq!(live.chain.head(), 0);
    assert_eq!(live.handle_timeout(at(50)), Flushed { news: false, wake_at: None });
    assert_eq!(live.handle_timeout(at(110)), Flushed { news: true, wake_at: None });
    assert_eq!(live.chain.head(), (bytes.len() + more.len()) as u64);
    // Bytes that come now have a deadline of their own; the old one, asked again, does not double it.
    live.push(session, &source.picture(false, 3), at(111)).expect("a transport stream");
    assert_eq!(live.pause(at(111)).wake_at, Some(at(211)));
    assert_eq!(live.handle_timeout(at(112)), Flushed { news: false, wake_at: None });
    assert_eq!(live.handle_timeout(at(211)), Flushed { news: true, wake_at: None });
}

#[test]
fn a_panic_under_the_lock_ends_the_stream_with_what_was_shown() {
    let live = live(0, "a", 1);
    let session = acquired(&live, Time::ZERO);
    let mut source = Source::default();
    let bytes = [source.tables(), source.picture(true, 3)].concat();
    live.push(session, &bytes, Time::ZERO).expect("a transport stream");
    live.pause(Time::ZERO);
    let shown = live.chain.head();
    assert!(!live.take_broken() && shown == bytes.len() as u64);
    let torn = contain(Border::Connection, || {
        let mut core = live.lock();
        core.spool.append(b"half of a packet").expect("room");
        panic!("a test's");
    });
    assert!(torn.is_err());
    assert!(live.take_broken(), "it is found out without anybody's call");
    assert!(!live.take_broken(), "and told once");
    assert!(live.has_ended() && !live.is_held_by(session));
    assert!(matches!(live.push(session, &bytes, Time::ZERO), Err(PushError::Evicted)));
    assert_eq!(live.end_replaced(), None);
    assert_eq!(live.chain.head(), shown, "what was half written is never shown");
    assert!(live.newest_entry().is_none());
}

#[test]
fn the_slot_of_a_connection_that_has_gone_is_given_up() {
    let live = live(0, "a", 1);
    let connection = ConnectionId { worker: 0, token: 7 };
    let Acquisition::Granted { session, .. } = live.acquire(Some(connection), false, None, Time::ZERO) else {
        panic!("nobody is here")
    };
    assert!(
        !live.release_connection(ConnectionId { worker: 1, token: 7 }, Time::ZERO)
            && live.is_held_by(session)
    );
    assert!(live.release_connection(connection, Time::ZERO) && !live.is_held_by(session));
}

fn piece(program: &str, from: Option<u64>) -> Piece {
    let address = IpAddr::from([127, 0, 0, 1]);
    Piece { publisher: Publisher { address, credential: None, program: Some(program.into()) }, from }
}

#[test]
fn pieces_of_one_publisher_are_one_session_and_keep_its_name() {
    let live = live(0, "a", 1);
    let acquire = |piece: &Piece, now| match live.acquire(None, false, Some(piece), now) {
        Acquisition::Granted { session, continued, .. } => {
            Some((session, continued.map(|it| (it.count, it.from))))
        }
        Acquisition::Taken => None,
    };
    let (at, own, other) = (Time::from_millis, piece("own", None), piece("other", None));
    let rest = |session, bytes, before, now: Time| {
        let piece = EndedPiece { publisher: &own.publisher, from: 0, bytes, before, meter: None };
        live.rest(session, &piece, now + Duration::from_secs(5), now)
    };
    let (session, continued) = acquire(&own, at(0)).expect("a free name");
    assert_eq!(continued, None);
    assert!(acquire(&own, at(0)).is_none(), "it has not ended");
    assert!(!rest(session, 376, 0, at(10)));
    // One piece does not show that others follow: anybody may come. Here the next one does.
    let (session, continued) = acquire(&piece("own", Some(376)), at(20)).expect("its own name");
    assert_eq!(continued, Some((1, 376)));
    assert!(rest(session, 1000, 1, at(30)));
    assert!(live.status(at(31)).live, "it goes on");
    assert!(acquire(&other, at(31)).is_none(), "the name is kept for it");
    assert!(!live.is_abandoned(Duration::ZERO, at(31)));
    // It says another place: it has lost something, or was started again.
    let (session, continued) = acquire(&piece("own", Some(1001)), at(40)).expect("its own name");
    assert_eq!((continued, live.status(at(40)).sessions), (None, 2));
    assert!(rest(session, 2000, 1, at(50)));
    // Without a place its packets have to show it.
    let (session, continued) = acquire(&own, at(60)).expect("its own name");
    assert_eq!(continued, Some((2, 2000)));
    assert!(rest(session, 2500, 2, at(70)));
    // It does not come again.
    assert!(acquire(&other, at(5070)).is_none());
    let (session, continued) = acquire(&other, at(5071)).expect("it was given up");
    assert_eq!((continued, live.status(at(5071)).sessions), (None, 3));
    live.release(session, at(5080));
    assert!(!live.status(at(5080)).live);
}

#[test]
fn a_push_of_all_there_is_does_what_a_push_and_a_pause_do() {
    let live = live(0, "a", 1);
    let session = acquired(&live, Time::ZERO);
    let mut source = Source::default();
    let bytes = [source.tables(), source.picture(true, 3)].concat();
    let (pushed, flushed) = live.push_all(session, &bytes, Time::ZERO);
    pushed.expect("a transport stream");
    assert!(flushed.news);
    assert_eq!(live.chain.head(), bytes.len() as u64);
    let (pushed, flushed) = live.push_all(session + 1, &bytes, Time::ZERO);
    assert!(matches!(pushed, Err(PushError::Evicted)) && flushed.news, "who waits is to look");
    assert_eq!(live.bytes_in(), bytes.len() as u64);
}

#[test]
fn the_first_viewer_tells_when_a_picture_was_sent_and_an_upgrade_keeps_what_they_add_up_to() {
    let live = live(0, "a", 1);
    let clock = Clock::new();
    let session = acquired(&live, clock.now());
    for (_, unit) in synthetic::intra_refresh_units() {
        let before = live.chain.head();
        live.push_all(session, &unit, clock.now()).0.expect("a transport stream");
        let head = live.chain.head();
        assert!(before < head && live.unsent_end.load(Ordering::Relaxed) == head, "it waits for a viewer");
        live.note_sent(0, head - 1);
        assert_eq!(live.unsent_end.load(Ordering::Relaxed), head, "one that has not all of it");
        live.note_sent(0, head);
        assert_eq!(live.unsent_end.load(Ordering::Relaxed), u64::MAX, "nor for a second one");
    }
    let sent = |all: &mut dyn Iterator<Item = &PassedPicture>| {
        all.map(|picture| picture.sent.is_some_and(|sent| sent >= picture.flushed)).collect::<Vec<_>>()
    };
    assert_eq!(live.passed_pictures(clock.now(), sent), [true; 29], "the last one may go on");
    let message = rmp_serde::to_vec_named(&live.state().0).expect("plain values");
    let next: LiveState = rmp_serde::from_slice(&message).expect("what was written");
    let counts =
        |figures: &RelayFigures| figures.stages().map(|(stage, count)| (stage, *count)).collect::<Vec<_>>();
    let counted = live.relay_figures(counts).expect("it is MPEG-TS");
    // They say that they were captured years ago: no way from there to here is that of a live picture.
    assert_eq!(counted.len(), 3);
    assert_eq!(next.stream.relay_figures().map(counts), Some(counted));
}

#[test]
fn a_publisher_from_another_process_reclaims_its_slot_or_loses_it() {
    let live = live(0, "a", 1);
    let session = acquired(&live, Time::ZERO);
    live.counters.bytes_out.add(17);
    let restore = || {
        let (state, links) = live.state();
        assert!(links.is_empty(), "nothing was appended");
        let message = rmp_serde::to_vec_named(&state).expect("plain values");
        let state: LiveState = rmp_serde::from_slice(&message).expect("what was written");
        Live::restore(state, name("a"), Vec::new(), 1).expect("a stream")
    };
    let next = restore();
    assert_eq!((next.id, next.counters.bytes_out.value()), (0, 17));
    assert!(!next.reclaim(session + 1, None), "another session's");
    assert!(next.reclaim(session, None));
    next.release_absent(Time::ZERO);
    assert!(matches!(next.acquire(None, false, None, Time::ZERO), Acquisition::Taken));
    let next = restore();
    next.release_absent(Time::ZERO);
    assert!(!next.reclaim(session, None));
    assert_eq!(acquired(&next, Time::ZERO), session + 1);
}

#[test]
fn viewers_of_all_workers_are_counted_and_outputs_are_not() {
    let live = live(0, "a", 2);
    live.viewer_joins(0);
    live.viewer_comes_over(1);
    live.set_has_outputs(true);
    assert_eq!((live.viewers(), live.counters.joined.value()), (2, 1));
    assert_eq!(live.waits_since(), None);
    live.viewer_leaves(0);
    live.viewer_leaves(1);
    assert_eq!((live.viewers(), live.waits_since()), (0, Some(Time::ZERO)));
}

/// What a version before counts had names handed over: recorded from one that had counted 11 to 18, in the order of its array.
const BY_POSITION: &[u8] = include_bytes!("../recorded/live-by-position.msgpack");

#[test]
fn a_stream_of_an_earlier_version_goes_on_with_its_counts() {
    let state: LiveState = rmp_serde::from_slice(BY_POSITION).expect("it is understood");
    let before = live(7, "recorded", 1);
    let session = acquired(&before, Time::from_millis(5));
    let mut source = Source::default();
    let bytes = [source.tables(), source.picture(true, 3)].concat();
    before.push(session, &bytes, Time::from_millis(10)).expect("a transport stream");
    let links = before.state().1.into_iter();
    let links = links.map(|link| link.as_fd().try_clone_to_owned().expect("a descriptor"));
    let after = Live::restore(state, name("recorded"), links.collect(), 1).expect("its links are there");
    let counters = &after.counters;
    assert_eq!((counters.bytes_out.value(), counters.moved_forward.value()), (11, 12));
    assert_eq!((counters.joined.value(), counters.unpaced.value()), (16, 18));
    let status = after.status(Time::from_millis(20));
    assert_eq!(
        (status.bytes_in, status.sessions, after.chain.head()),
        (bytes.len() as u64, 1, bytes.len() as u64)
    );
    assert!(after.reclaim(session, None), "its publisher goes on");
}
