use super::super::testing::{BEGUN_SECS, KEY_EVERY, Stream, Woken, at, found, store, text, utc};
use super::super::{Growing, PresentationStore, Reader};
use super::*;
use glassline_delivery::fill::{Failure, Object as Filling};
use glassline_delivery::packager::RenditionName;
use glassline_io::containment::{Border, contain};

const READER: Reader = Reader { thread: 1, token: 2 };

fn version(name: &str, store: &Arc<PresentationStore>) -> CaptureVersion {
    CaptureVersion::new(StreamName::parse(name).unwrap(), Arc::clone(store))
}

/// A ladder of two versions, which have nothing yet.
fn ladder() -> (Arc<Ladder>, [Arc<PresentationStore>; 2], Arc<Woken>) {
    let (woken, stores) = (Arc::new(Woken::default()), [store().0, store().0]);
    let ladder = Arc::new(Ladder::new(woken.as_wake(), Arc::from("/base")));
    let [best, other] = &stores;
    ladder.set_versions(vec![version("hall-hd", best), version("hall-sd", other)], at(1));
    (ladder, stores, woken)
}

fn get(ladder: &Ladder, object: Object) -> Arc<Growing> {
    found(ladder.find(object, "", at(1)))
}

/// The addresses in a playlist.
fn addresses(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with('#')).collect()
}

#[test]
fn a_ladder_of_no_version_has_nothing() {
    let ladder = Ladder::new(Arc::new(Woken::default()).as_wake(), Arc::from(""));
    assert_eq!((ladder.looked(), ladder.names()), (None, vec![]));
    assert!(matches!(ladder.find(Object::Multivariant, "", at(1)), FoundObject::Unknown));
    assert_eq!(format!("{ladder:?}"), "Ladder(0 versions)");
}

#[test]
fn it_knows_its_versions_in_their_order_and_when_they_were_looked_for() {
    let (ladder, ..) = ladder();
    let names: Vec<String> = ladder.names().iter().map(ToString::to_string).collect();
    assert_eq!((names, ladder.looked()), (vec!["hall-hd".into(), "hall-sd".into()], Some(at(1))));
}

#[test]
fn its_playlist_lists_the_versions_by_the_ways_to_their_own_the_best_first() {
    let (ladder, stores, _) = ladder();
    stores.iter().for_each(|store| Stream::new().push_until(store, KEY_EVERY + 1));
    let playlist = found(ladder.find(Object::Multivariant, "token=T", at(1)));
    assert_eq!(
        addresses(&text(&playlist)),
        ["../hall-hd/video.m3u8?token=T", "../hall-sd/video.m3u8?token=T"]
    );
    let own_bytes = get(&ladder, Object::TransportMedia);
    assert_eq!(addresses(&text(&own_bytes)), ["../hall-hd/ts.m3u8", "../hall-sd/ts.m3u8"]);
    for object in [Object::NumberManifest, Object::TimelineManifest] {
        let manifest = text(&get(&ladder, object));
        assert!(manifest.contains("hall-hd") && manifest.contains("hall-sd"), "{manifest}");
        assert!(manifest.contains("value=\"/base/api/time?format=iso\""), "{manifest}");
    }
}

#[test]
fn what_one_version_has_alone_is_not_a_ladders() {
    let (ladder, stores, _) = ladder();
    stores.iter().for_each(|store| Stream::new().push_until(store, KEY_EVERY + 1));
    let rendition = RenditionName::Video;
    for object in [
        Object::Media(rendition),
        Object::IFrames,
        Object::Init { rendition, number: 0 },
        Object::Segment { rendition, segment: BEGUN_SECS },
        Object::TransportSegment { segment: BEGUN_SECS },
    ] {
        assert!(matches!(ladder.find(object, "", at(1)), FoundObject::Unknown), "{object}");
    }
    assert!(matches!(ladder.find(Object::Multivariant, "_HLS_part=1", at(1)), FoundObject::Bad(_)));
}

#[test]
fn a_request_waits_until_each_version_has_a_segment() {
    let (ladder, [best, other], woken) = ladder();
    let playlist = get(&ladder, Object::Multivariant);
    playlist.look_or_wait(READER, |_| None::<()>);
    Stream::new().push_until(&best, KEY_EVERY + 1);
    assert_eq!(woken.take(), []);
    Stream::new().push_until(&other, KEY_EVERY + 1);
    assert_eq!(woken.take(), [(1, vec![2])]);
    assert_eq!(addresses(&text(&playlist)).len(), 2);
}

#[test]
fn a_version_of_which_nothing_comes_holds_the_others_up_for_three_segments() {
    let (ladder, [best, _], _) = ladder();
    let playlist = get(&ladder, Object::Multivariant);
    let mut stream = Stream::new();
    stream.push_until(&best, 3 * KEY_EVERY);
    assert!(!playlist.look(Filling::is_over));
    stream.push_until(&best, 3 * KEY_EVERY + 1);
    assert_eq!(addresses(&text(&playlist)), ["../hall-hd/video.m3u8"]);
}

#[test]
fn other_versions_answer_what_waits_and_the_same_ones_change_nothing() {
    let (ladder, [best, other], _) = ladder();
    Stream::new().push_until(&best, KEY_EVERY + 1);
    let waits = get(&ladder, Object::Multivariant);
    ladder.set_versions(vec![version("hall-hd", &best), version("hall-sd", &other)], at(5));
    assert!(!waits.look(Filling::is_over) && ladder.looked() == Some(at(5)));
    ladder.set_versions(vec![version("hall-hd", &best)], at(6));
    assert_eq!(addresses(&text(&waits)), ["../hall-hd/video.m3u8"]);
    let rendered = get(&ladder, Object::Multivariant);
    ladder.set_versions(vec![version("hall-hd", &best)], at(7));
    assert!(Arc::ptr_eq(&rendered, &get(&ladder, Object::Multivariant)));
}

#[test]
fn a_change_of_one_version_is_a_change_of_what_was_rendered() {
    let (ladder, [best, other], _) = ladder();
    let (mut one, mut two) = (Stream::new(), Stream::new());
    one.push_until(&best, KEY_EVERY + 1);
    two.push_until(&other, KEY_EVERY + 1);
    let before = get(&ladder, Object::TimelineManifest);
    two.push_until(&other, KEY_EVERY + 2);
    assert!(Arc::ptr_eq(&before, &get(&ladder, Object::TimelineManifest)), "a chunk changes nothing");
    one.push_until(&best, 2 * KEY_EVERY + 1);
    assert!(!Arc::ptr_eq(&before, &get(&ladder, Object::TimelineManifest)));
}

#[test]
fn a_request_wants_all_of_its_versions() {
    let (ladder, stores, _) = ladder();
    drop(ladder.find(Object::Multivariant, "", at(77)));
    assert_eq!(stores.map(|store| store.wanted_at()), [at(77); 2]);
}

#[test]
fn what_waits_when_all_versions_have_ended_without_a_picture_fails() {
    let (ladder, stores, _) = ladder();
    let waits = get(&ladder, Object::Multivariant);
    stores[0].finish(utc(0));
    assert!(!waits.look(Filling::is_over), "the other one may come");
    stores[1].finish(utc(0));
    assert_eq!(waits.look(Filling::failure), Some(Failure::Ended));
}

#[test]
fn a_panic_under_the_lock_fails_what_waits_and_the_ladder_goes_on() {
    let (ladder, stores, woken) = ladder();
    let waits = get(&ladder, Object::Multivariant);
    waits.look_or_wait(READER, |_| None::<()>);
    let torn = contain(Border::Worker, || {
        let _lock = ladder.lock();
        panic!("a test's");
    });
    assert!(torn.is_err());
    assert_eq!(ladder.names().len(), 2);
    assert_eq!((woken.take(), waits.look(Filling::failure)), (vec![(1, vec![2])], Some(Failure::Ended)));
    stores.iter().for_each(|store| Stream::new().push_until(store, KEY_EVERY + 1));
    assert_eq!(addresses(&text(&get(&ladder, Object::Multivariant))).len(), 2);
}
