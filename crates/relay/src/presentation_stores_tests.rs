use super::*;
use crate::test_streams::{hub, live, name};
use glassline_delivery::stream::Mux;
use glassline_edge::Wake;
use glassline_media::{Time, Utc};

struct NoWake;

impl Wake for NoWake {
    fn wake(&self, _thread: usize, _readers: Vec<u64>) {}
}

fn store() -> PresentationStore {
    let settings = packager::Settings::default();
    PresentationStore::new(
        Mux::MpegTs,
        settings,
        Arc::new(NoWake),
        Arc::from(""),
        Time::ZERO,
        Utc::from_nanos(0),
    )
}

fn ladder() -> Ladder {
    Ladder::new(Arc::new(NoWake), Arc::from(""))
}

#[test]
fn a_presentation_begins_once_and_ends_when_it_is_removed() {
    let stores = PresentationStores::default();
    assert!(stores.find(&name("a")).is_none() && !stores.have(&name("a")));
    let (first, is_new) = stores.find_or_begin(&name("a"), store);
    assert!(is_new);
    let (again, is_new) = stores.find_or_begin(&name("a"), || panic!("there is one"));
    assert!(!is_new && Arc::ptr_eq(&first, &again) && stores.have(&name("a")));
    stores.remove(&name("a"));
    assert!(stores.find(&name("a")).is_none());
    let (next, is_new) = stores.find_or_begin(&name("a"), store);
    assert!(is_new && !Arc::ptr_eq(&first, &next));
}

#[test]
fn versions_of_a_capture_are_told_by_their_names() {
    let stores = PresentationStores::default();
    for stream in ["hall", "hall-720p50", "hall-360p25-2.5M", "hall-wide", "hallway-720p50"] {
        stores.find_or_begin(&name(stream), store);
    }
    assert_eq!(stores.versions_of(&name("hall")), [name("hall-360p25-2.5M"), name("hall-720p50")]);
    assert!(stores.versions_of(&name("hall-720p50")).is_empty());
    assert!(
        is_version_of(&name("hall-720p50"), &name("hall")) && !is_version_of(&name("hall"), &name("hall"))
    );
}

#[test]
fn a_ladder_is_kept_for_as_long_as_it_has_a_version() {
    let stores = PresentationStores::default();
    let first = stores.ladder_or_begin(&name("hall"), ladder);
    let again = stores.ladder_or_begin(&name("hall"), || panic!("there is one"));
    assert!(Arc::ptr_eq(&first, &again) && stores.have(&name("hall")));
    stores.find_or_begin(&name("hall-720p50"), store);
    stores.forget_ladders();
    assert!(stores.ladder(&name("hall")).is_some());
    stores.remove(&name("hall-720p50"));
    stores.forget_ladders();
    assert!(stores.ladder(&name("hall")).is_none() && !stores.have(&name("hall")));
}

#[test]
fn a_capture_is_a_ladder_of_all_its_versions_the_best_first() {
    let hub = hub(crate::Settings::default(), 1);
    assert!(hub.ladder(&name("hall")).is_none());
    for stream in ["hall-360p25", "hall-1080p50", "hall-720p50"] {
        hub.presentation_store(&name(stream));
    }
    let ladder = hub.ladder(&name("hall")).expect("three versions");
    assert_eq!(ladder.names(), ["hall-1080p50", "hall-720p50", "hall-360p25"].map(name));
    let again = hub.ladder(&name("hall")).expect("the same");
    assert!(Arc::ptr_eq(&ladder, &again));
}

#[test]
fn dropped_metadata_is_told_of_what_is_packaged_and_of_nothing_else() {
    let stores = PresentationStores::default();
    stores.find_or_begin(&name("a"), store);
    let status_of = |stream: &str| {
        let mut status = live(1, stream, 1).status(Time::ZERO);
        stores.complete(&mut status);
        status.dropped_events
    };
    assert_eq!((status_of("a"), status_of("b")), (Some(0), None));
}
