use super::*;
use crate::Server;
use crate::testing::{House, name, ts};

fn slots(house: &House, names: &[&str], mux: Mux) -> PublisherSlots {
    let names: Vec<StreamName> = names.iter().map(|text| name(text)).collect();
    PublisherSlots::new(house.streams(), &names, mux)
}

#[test]
fn all_streams_of_a_source_are_published_and_get_the_same_bytes() {
    let house = House::new();
    let mut slots = slots(&house, &["a", "b"], Mux::MpegTs);
    assert!(!slots.are_taken() && slots.sessions().is_empty());
    slots.acquire().unwrap();
    assert!(slots.are_taken() && slots.sessions().len() == 2);
    let bytes = ts(3);
    slots.push(&bytes).unwrap();
    for text in ["a", "b"] {
        assert_eq!(house.bytes_in(text), Some(bytes.len() as u64), "{text}");
    }
}

#[test]
fn where_one_name_is_taken_none_is() {
    let house = House::new();
    let _other = house.publish("b");
    let mut slots = slots(&house, &["a", "b"], Mux::MpegTs);
    assert_eq!(slots.acquire(), Err("stream b has a publisher already".to_owned()));
    assert!(!slots.are_taken() && !house.is_published("a"));
}

#[test]
fn slots_that_are_given_up_are_free_for_others() {
    let house = House::new();
    let mut first = slots(&house, &["a"], Mux::MpegTs);
    first.acquire().unwrap();
    let mut second = slots(&house, &["a"], Mux::MpegTs);
    assert!(second.acquire().is_err());
    first.release();
    assert!(!first.are_taken() && second.acquire().is_ok());
}

#[test]
fn bytes_for_no_slot_go_nowhere() {
    let house = House::new();
    let mut slots = slots(&house, &["a"], Mux::MpegTs);
    assert_eq!(slots.push(&ts(1)), Ok(()));
    assert_eq!(house.bytes_in("a"), None);
}

#[test]
fn a_next_process_has_the_slots_under_their_sessions_or_none() {
    let house = House::new();
    let mut old = slots(&house, &["a", "b"], Mux::MpegTs);
    old.acquire().unwrap();
    let sessions = old.sessions();
    let mut new = slots(&house, &["a", "b"], Mux::MpegTs);
    assert!(new.restore(&[]) && !new.are_taken(), "it had none, and has none");
    assert!(!new.restore(&[sessions[0], sessions[1] + 1]) && !new.are_taken());
    assert!(!new.restore(&sessions[..1]) && !new.are_taken());
}

#[test]
fn only_a_stream_of_an_unknown_mux_is_called_as_its_source_calls_it() {
    let house = House::new();
    let (mut raw, mut known) = (slots(&house, &["raw"], Mux::Raw), slots(&house, &["known"], Mux::MpegTs));
    for slots in [&mut raw, &mut known] {
        slots.acquire().unwrap();
        slots.call(Some("video/x-other"));
        assert_eq!(slots.begin_block(Block::Join, 10), Ok(()));
    }
    let called = |text: &str| house.streams().find(&name(text)).unwrap().media_type();
    assert_eq!((called("raw").as_str(), called("known").as_str()), ("video/x-other", "video/mp2t"));
}

#[test]
fn slots_that_refuse_what_comes_are_not_held_for_the_next_server() {
    let house = House::new();
    let mut slots = slots(&house, &["a"], Mux::MpegTs);
    slots.set_spliced(true);
    slots.acquire().unwrap();
    slots.push(&ts(3)).unwrap();
    slots.pause(Time::ZERO);
    assert!(slots.held_until().is_some() && slots.are_taken(), "what may be continued is held");
    slots.acquire().unwrap();
    house.streams().end(&house.streams().find(&name("a")).expect("it is published"));
    // What continues is found in a stretch that is kept back first.
    let refused = (0..200).find_map(|_| slots.push(&ts(50)).err());
    assert!(refused.is_some());
    slots.pause(Time::ZERO);
    assert!(slots.held_until().is_none() && !slots.are_taken());
}
