use super::*;
use crate::live::PushError;
use crate::test_streams::{name, streams};
use glassline_test_support::ts::Source;

#[test]
fn a_name_is_free_again_when_its_publisher_is_dropped() {
    let streams = streams();
    let publisher = streams.publish(&name("a"), Mux::MpegTs).expect("a free name");
    assert_eq!((publisher.name(), publisher.session()), (&name("a"), 1));
    let taken = streams.publish(&name("a"), Mux::MpegTs).map(drop);
    assert_eq!(taken.unwrap_err(), AcquireError::Taken { name: name("a") });
    drop(publisher);
    let again = streams.publish(&name("a"), Mux::MpegTs).expect("a free name");
    assert_eq!(again.session(), 2, "the stream goes on under another session");
}

#[test]
fn a_stream_of_another_mux_has_the_name_until_it_is_over() {
    let streams = streams();
    let mut publisher = streams.publish(&name("a"), Mux::MpegTs).expect("a free name");
    let mut source = Source::default();
    publisher.push(&[source.tables(), source.picture(true, 3)].concat()).expect("a transport stream");
    drop(publisher);
    let other = streams.publish(&name("a"), Mux::Flv).map(drop);
    assert_eq!(other.unwrap_err(), AcquireError::OtherMux { name: name("a"), mux: Mux::MpegTs });
    streams.end_abandoned(std::time::Duration::ZERO);
    assert!(streams.publish(&name("a"), Mux::Flv).is_ok());
}

#[test]
fn what_is_pushed_is_shown_at_once() {
    let streams = streams();
    let mut publisher = streams.publish(&name("a"), Mux::MpegTs).expect("a free name");
    let mut source = Source::default();
    let bytes = [source.tables(), source.picture(true, 3)].concat();
    // Chopped anywhere: what is of no whole packet yet waits.
    let (head, rest) = bytes.split_at(100);
    publisher.push(head).expect("part of a packet");
    let live = streams.find(&name("a")).expect("it lives");
    assert_eq!(live.chain.head(), 0);
    publisher.push(rest).expect("a transport stream");
    assert_eq!(live.chain.head(), bytes.len() as u64);
}

#[test]
fn a_publisher_of_a_stream_that_has_ended_is_told() {
    let streams = streams();
    let mut publisher = streams.publish(&name("a"), Mux::MpegTs).expect("a free name");
    streams.find(&name("a")).expect("it lives").end();
    assert!(matches!(publisher.push(b""), Err(PushError::Evicted)));
    drop(publisher);
}

#[test]
fn raw_bytes_are_called_as_their_publisher_says() {
    let streams = streams();
    let mut publisher = streams.publish(&name("a"), Mux::Raw).expect("a free name");
    publisher.begin_block(Block::Header, 4).expect("a block");
    publisher.push(b"head").expect("bytes");
    publisher.call(Some("video/x-nut"));
    let live = streams.find(&name("a")).expect("it lives");
    publisher.call(Some("no media type"));
    assert_eq!(live.media_type(), Mux::Raw.media_type(), "what is none is not taken over");
}

#[test]
fn a_publisher_is_found_again_by_its_session_alone() {
    let streams = streams();
    let publisher = streams.publish(&name("a"), Mux::MpegTs).expect("a free name");
    let session = publisher.session();
    assert!(streams.restore_publisher(&name("a"), session + 1).is_none());
    assert!(streams.restore_publisher(&name("b"), session).is_none());
    // As an upgrade does, which leaves the slot to the next process.
    std::mem::forget(publisher);
    let again = streams.restore_publisher(&name("a"), session).expect("its slot");
    assert_eq!(again.session(), session);
    assert!(format!("{again:?}").contains("session: 1"));
}
