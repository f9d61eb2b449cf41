use super::*;
use crate::direct::relay_for_tests;
use glassline_delivery::stream::Mux;

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

#[test]
fn what_is_read_from_its_beginning_wants_one_only_where_nothing_can_be_made_without() {
    let wish = KeyFrameWish::new(Viewers::FromTheBeginning);
    assert!(!wish.is_wanted(at(0)));
    wish.note_key(at(1));
    assert!(!wish.is_wanted(at(3_600_000)));
    wish.need();
    assert!(wish.is_wanted(at(3_600_000)));
    // It has come, and another thread has not put it into the stream yet: one is enough.
    wish.note_received();
    assert!(!wish.is_wanted(at(3_600_050)));
    wish.note_key(at(3_600_100));
    assert!(!wish.is_wanted(at(3_600_100)));
    // It went nowhere: the stream has ended, or has no room.
    for let_go in [KeyFrameWish::end, KeyFrameWish::need] {
        wish.need();
        wish.note_received();
        let_go(&wish);
        assert!(wish.is_wanted(at(3_600_200)));
    }
}

#[test]
fn unknown_viewers_get_one_from_time_to_time_while_there_is_a_stream() {
    let wish = KeyFrameWish::new(Viewers::Unknown);
    assert!(!wish.is_wanted(at(60_000)), "none has come: it is not AV1, or there is nothing yet");
    wish.note_key(at(1_000));
    assert!(!wish.is_wanted(at(4_999)) && wish.is_wanted(at(5_000)));
    wish.note_key(at(5_200));
    assert!(!wish.is_wanted(at(9_000)));
    wish.end();
    assert!(!wish.is_wanted(at(60_000)));
}

#[test]
fn viewers_of_a_relay_in_this_process_get_one_when_they_come_or_lose_their_place_and_not_before() {
    let streams = relay_for_tests::streams();
    let name = StreamName::parse("a").unwrap();
    let wish = KeyFrameWish::new(Viewers::Of(Arc::clone(&streams), name.clone()));
    let publisher = streams.publish(&name, Mux::MpegTs).unwrap();
    wish.note_key(at(1_000));
    assert!(!wish.is_wanted(at(60_000)), "there is no viewer");
    let live = streams.find(&name).unwrap();
    live.counters.joined.increment();
    assert!(wish.is_wanted(at(60_000)));
    wish.note_key(at(60_100));
    assert!(!wish.is_wanted(at(90_000)), "that viewer has one");
    live.counters.moved_forward.increment();
    assert!(wish.is_wanted(at(90_000)));
    wish.note_key(at(90_100));
    live.counters.joined.increment();
    assert!(!wish.is_wanted(at(90_600)), "it begins at the one that has just come");
    assert!(!wish.is_wanted(at(99_000)));
    // Playlists are asked for: segments end at key frames.
    live.set_is_packaged(true);
    assert!(wish.is_wanted(at(94_100)) && !wish.is_wanted(at(94_099)));
    live.set_is_packaged(false);
    assert!(!wish.is_wanted(at(99_000)));
    drop(publisher);
}
