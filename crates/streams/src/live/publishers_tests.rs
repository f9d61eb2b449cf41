use super::*;
use crate::pieces::{EndedPiece, Piece, Publisher};
use crate::test_streams::{SETTINGS, acquired, live, name};
use glassline_delivery::stream::Block;
use glassline_test_support::ts::Source;
use std::time::Duration;

const HERE: ConnectionId = ConnectionId { worker: 1, token: 77 };
const THERE: ConnectionId = ConnectionId { worker: 0, token: 5 };

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// Tables and a picture that decoding can begin at.
fn key_frame(source: &mut Source) -> Vec<u8> {
    [source.tables(), source.picture(true, 3)].concat()
}

/// The session and the publisher that had to go.
fn granted(acquisition: Acquisition) -> (u64, Option<ConnectionId>) {
    match acquisition {
        Acquisition::Granted { session, evicted, .. } => (session, evicted),
        Acquisition::Taken => panic!("the slot is taken"),
    }
}

#[test]
fn one_publisher_has_the_slot_until_it_is_released() {
    let live = live(0, "a", 1);
    let (first, evicted) = granted(live.acquire(Some(HERE), false, None, at(0)));
    assert_eq!((first, evicted), (1, None));
    assert!(live.is_held_by(1) && !live.is_held_by(2));
    assert!(matches!(live.acquire(Some(THERE), false, None, at(1)), Acquisition::Taken));
    assert!(live.is_held_by(1), "a publisher that is refused takes nothing");
    live.release(2, at(2));
    assert!(live.is_held_by(1), "the session of another one frees nothing");
    live.release(1, at(3));
    assert!(!live.is_held_by(1));
    assert_eq!(granted(live.acquire(Some(THERE), false, None, at(4))), (2, None));
}

#[test]
fn taking_over_gives_a_new_session_and_tells_which_connection_has_to_go() {
    let live = live(0, "a", 1);
    let mut source = Source::default();
    let (first, _) = granted(live.acquire(Some(HERE), false, None, at(0)));
    live.push(first, &key_frame(&mut source), at(0)).expect("a transport stream");
    let (second, evicted) = granted(live.acquire(Some(THERE), true, None, at(10)));
    assert_eq!((second, evicted), (2, Some(HERE)));
    // What the first had sent is shown, and nothing more of it is taken.
    assert!(live.chain.head() > 0);
    let late = live.push(first, &source.picture(false, 3), at(11));
    assert!(matches!(late, Err(PushError::Evicted)));
    assert!(matches!(live.push_all(first, b"", at(11)).0, Err(PushError::Evicted)));
    // A publisher inside this process has no connection to be told.
    let (third, evicted) = granted(live.acquire(None, true, None, at(20)));
    assert_eq!((third, evicted), (3, Some(THERE)));
    assert_eq!(granted(live.acquire(Some(HERE), true, None, at(21))), (4, None));
}

#[test]
fn a_publisher_is_there_since_it_came_and_gone_since_it_left() {
    let live = live(0, "a", 1);
    assert_eq!((live.published_since(), live.waits_since()), (None, Some(at(0))));
    let session = granted(live.acquire(Some(HERE), false, None, at(40))).0;
    assert_eq!((live.published_since(), live.waits_since()), (Some(at(40)), None));
    live.release(session, at(90));
    assert_eq!((live.published_since(), live.waits_since()), (None, Some(at(90))));
    // Somebody who watches waits with it.
    live.viewer_joins(0);
    assert_eq!(live.waits_since(), None);
    live.viewer_leaves(0);
    assert_eq!(live.waits_since(), Some(at(90)));
}

#[test]
fn a_stream_without_a_byte_is_abandoned_at_once_and_another_when_its_window_is_over() {
    let window = Duration::from_millis(500);
    let empty = live(0, "a", 1);
    let session = acquired(&empty, at(0));
    assert!(!empty.is_abandoned(window, at(10_000)), "its publisher is there");
    empty.release(session, at(100));
    assert!(!empty.is_abandoned(window, at(100)) && empty.is_abandoned(window, at(101)));

    let filled = live(1, "b", 1);
    let session = acquired(&filled, at(0));
    filled.push(session, &key_frame(&mut Source::default()), at(0)).expect("a transport stream");
    filled.release(session, at(100));
    assert!(!filled.is_abandoned(window, at(600)) && filled.is_abandoned(window, at(601)));
    // The next one of its name goes on with it.
    acquired(&filled, at(602));
    assert!(!filled.is_abandoned(window, at(10_000)));
}

#[test]
fn a_connection_that_has_gone_frees_its_own_slot_alone() {
    let live = live(0, "a", 1);
    granted(live.acquire(Some(HERE), false, None, at(0)));
    assert!(!live.release_connection(THERE, at(1)) && live.is_held_by(1));
    assert!(live.release_connection(HERE, at(2)) && !live.is_held_by(1));
    assert!(!live.release_connection(HERE, at(3)), "once");
    assert_eq!(live.waits_since(), Some(at(2)));
}

#[test]
fn a_publisher_that_begins_anew_goes_on_under_another_session() {
    let live = live(0, "a", 1);
    let mut source = Source::default();
    let first = acquired(&live, at(0));
    live.push(first, &key_frame(&mut source), at(0)).expect("a transport stream");
    assert_eq!(live.begin_anew(first + 1, at(5)), None, "the slot is another one's");
    assert_eq!(live.begin_anew(first, at(5)), Some(first + 1));
    assert!(!live.is_held_by(first) && live.is_held_by(first + 1));
    assert!(matches!(live.push(first, &source.picture(false, 3), at(6)), Err(PushError::Evicted)));
    let again = key_frame(&mut Source::default());
    assert!(live.push(first + 1, &again, at(7)).is_ok());
    assert_eq!(live.published_since(), Some(at(0)), "it has been there all the time");
    live.release(first + 1, at(8));
    assert_eq!(live.begin_anew(first + 1, at(9)), None);
}

#[test]
fn a_stream_that_is_replaced_ends_and_tells_where_its_publisher_is() {
    let stream = live(0, "a", 1);
    let session = granted(stream.acquire(Some(HERE), false, None, at(0))).0;
    let bytes = key_frame(&mut Source::default());
    stream.push(session, &bytes, at(0)).expect("a transport stream");
    assert_eq!(stream.chain.head(), 0, "it waits for the pause");
    assert_eq!(stream.end_replaced(), Some(HERE));
    assert!(stream.has_ended() && stream.chain.head() == bytes.len() as u64, "all that came is shown");
    assert!(!stream.is_held_by(session));
    assert_eq!(stream.end_replaced(), None);
    assert_eq!(live(1, "b", 1).end_replaced(), None);
}

#[test]
fn nothing_is_taken_of_a_stream_that_has_ended() {
    let live = live(0, "a", 1);
    let session = acquired(&live, at(0));
    live.end();
    assert!(!live.is_held_by(session), "the stream does not go on");
    let bytes = key_frame(&mut Source::default());
    assert!(matches!(live.push(session, &bytes, at(1)), Err(PushError::Evicted)));
    let (pushed, flushed) = live.push_all(session, &bytes, at(1));
    assert!(matches!(pushed, Err(PushError::Evicted)) && flushed.news, "readers have to see the end");
    assert!(matches!(live.begin_block(session, Block::Header, 1, at(1)), Err(PushError::Evicted)));
}

fn publisher(program: &str) -> Publisher {
    Publisher { address: "192.0.2.7".parse().unwrap(), credential: None, program: Some(program.to_owned()) }
}

#[test]
fn the_name_is_kept_for_the_sender_of_pieces_from_its_second_one_on() {
    let live = live(0, "a", 1);
    let sender = publisher("sender");
    let piece = Piece { publisher: sender.clone(), from: None };
    let mut source = Source::default();
    let mut from = 0;
    for (count, when) in [(0, 0), (1, 100), (2, 200)] {
        let acquisition = live.acquire(Some(HERE), false, Some(&piece), at(when));
        let Acquisition::Granted { session, continued, .. } = acquisition else { panic!("its own name") };
        let bytes = key_frame(&mut source);
        live.push(session, &bytes, at(when)).expect("a transport stream");
        let before = continued.map_or(0, |continued| continued.count);
        assert_eq!(before, count, "pieces before this one");
        let ended = EndedPiece { publisher: &sender, from, bytes: bytes.len() as u64, before, meter: None };
        let is_kept = live.rest(session, &ended, at(when + 1_000), at(when + 50));
        assert_eq!(is_kept, count > 0, "nothing shows that others follow the first piece");
        from += bytes.len() as u64;
    }
    // Another publisher has to wait for the end of that time; the sender's own next piece has not.
    let other = Piece { publisher: publisher("another one"), from: None };
    assert!(matches!(live.acquire(None, false, Some(&other), at(1_200)), Acquisition::Taken));
    assert!(matches!(live.acquire(None, false, None, at(1_200)), Acquisition::Taken));
    assert!(!live.is_abandoned(Duration::ZERO, at(1_200)));
    assert!(live.is_abandoned(Duration::ZERO, at(1_201)), "it was given up when its time was over");
    assert!(matches!(live.acquire(None, false, Some(&other), at(1_202)), Acquisition::Granted { .. }));
}

#[test]
fn a_piece_is_not_kept_for_a_session_that_has_lost_the_slot() {
    let live = live(0, "a", 1);
    let sender = publisher("sender");
    let session = acquired(&live, at(0));
    let ended = EndedPiece { publisher: &sender, from: 0, bytes: 188, before: 3, meter: None };
    granted(live.acquire(None, true, None, at(1)));
    assert!(!live.rest(session, &ended, at(1_000), at(2)));
    assert!(live.is_held_by(session + 1), "the one that took over keeps it");
}

#[test]
fn what_a_stream_is_called_is_a_media_type_of_streams_or_that_of_its_mux() {
    let live = live(0, "a", 1);
    assert_eq!(live.media_type(), Mux::MpegTs.media_type());
    live.call(Some("text/html"));
    assert_eq!(live.media_type(), Mux::MpegTs.media_type(), "no browser takes a stream for a page");
    live.call(Some("video/mp2t"));
    assert_eq!(live.media_type(), "video/mp2t");
    live.call(None);
    assert_eq!(live.media_type(), Mux::MpegTs.media_type());
}

#[test]
fn settings_say_whether_viewers_are_paced_and_pictures_wait() {
    let stream = |flush, pacing| {
        let settings = stream::Settings { flush, pacing, ..SETTINGS };
        Live::new(0, name("a"), Mux::MpegTs, settings, 1, at(0))
    };
    let plain = stream(FlushPolicy::Frame, Pacing::Off);
    assert!(!plain.paces_all() && !plain.holds_pictures_back() && plain.pace_bps() == 0);
    let waits = stream(FlushPolicy::Balanced, Pacing::Off);
    assert!(!waits.paces_all() && waits.holds_pictures_back());
}

#[test]
fn a_status_tells_of_the_publisher_the_bytes_and_the_viewers() {
    let live = live(3, "a", 2);
    let before = live.status(at(1_000));
    assert!(!before.live && before.sessions == 0 && before.newest_byte_age.is_none());
    assert_eq!((before.uptime, before.age), (Duration::ZERO, Duration::from_secs(1)));
    let session = acquired(&live, at(2_000));
    let mut source = Source::default();
    let bytes = key_frame(&mut source);
    let (pushed, _) = live.push_all(session, &bytes, at(2_500));
    pushed.expect("a transport stream");
    live.viewer_joins(0);
    live.viewer_joins(1);
    live.viewer_leaves(1);
    live.counters.bytes_out.add(1_000);
    let status = live.status(at(3_000));
    assert!(status.live && status.name == name("a") && status.mux == Mux::MpegTs);
    assert_eq!((status.viewers, status.viewers_joined), (1, 2));
    assert_eq!((status.bytes_in, status.bytes_out), (bytes.len() as u64, 1_000));
    assert_eq!((status.uptime, status.age), (Duration::from_secs(1), Duration::from_secs(3)));
    assert_eq!(status.newest_byte_age, Some(Duration::from_millis(500)));
    assert_eq!((status.sessions, status.garbage_bytes, status.backlog_bytes), (1, 0, bytes.len() as u64));
    let moment = live.moment();
    assert_eq!((moment.bytes_in, moment.bytes_out, moment.viewers), (bytes.len() as u64, 1_000, 1));
}
