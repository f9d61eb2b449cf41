//! Which names there are, beside a plain list of them.

use super::*;
use crate::test_streams::{SETTINGS, name};
use glassline_delivery::stream;
use proptest::prelude::*;

/// Names that begin with `source` are pulled, all others are free.
struct Pulls {
    limit: usize,
}

impl Plan for Pulls {
    fn owner(&self, name: &StreamName) -> Option<Owner> {
        name.as_str().starts_with("source").then_some(Owner::Source)
    }

    fn has_outputs(&self, _name: &StreamName) -> bool {
        false
    }

    fn settings(&self, _name: &StreamName) -> stream::Settings {
        SETTINGS
    }

    fn max_streams(&self) -> usize {
        self.limit
    }

    fn workers(&self) -> usize {
        1
    }
}

fn registry(limit: usize) -> LocalRegistry {
    LocalRegistry::new(Arc::new(Pulls { limit }))
}

fn names(lives: &[Arc<Live>]) -> Vec<String> {
    lives.iter().map(|live| live.name.to_string()).collect()
}

fn request(name: &StreamName) -> SlotRequest<'_> {
    SlotRequest { name, mux: Mux::MpegTs, origin: Origin::Inside, take_over: false, piece: None }
}

/// Acquires `stream` from inside the process where nothing has to end for it.
fn acquire(registry: &LocalRegistry, stream: &str, at_ms: u64) -> Result<Granted, AcquireError> {
    let mut displaced = Vec::new();
    let granted = registry.acquire(request(&name(stream)), Time::from_millis(at_ms), &mut displaced);
    assert!(displaced.is_empty(), "nothing had to end");
    granted
}

#[test]
fn a_pulled_name_is_for_its_source_alone() {
    let registry = registry(8);
    let pulled = name("source1");
    let connection = crate::ConnectionId { worker: 0, token: 1 };
    for origin in [Origin::Connection(connection), Origin::Door] {
        let from_outside = SlotRequest { origin, take_over: true, ..request(&pulled) };
        let refused = registry.acquire(from_outside, Time::ZERO, &mut Vec::new()).unwrap_err();
        assert_eq!(refused, AcquireError::Pulled { name: pulled.clone() }, "{origin:?}");
    }
    assert!(registry.all().is_empty(), "a refusal begins no stream");
    assert_eq!(acquire(&registry, "source1", 0).expect("the source").session, 1);
    assert_eq!((registry.owner(&pulled), registry.owner(&name("free"))), (Some(Owner::Source), None));
}

#[test]
fn a_stream_with_a_source_is_never_ended_for_room_or_descriptors() {
    let registry = registry(1);
    let pulled = acquire(&registry, "source1", 0).expect("room");
    pulled.live.release(pulled.session, Time::from_millis(5));
    assert!(pulled.live.waits_since().is_some());
    assert_eq!(acquire(&registry, "b", 10).unwrap_err(), AcquireError::TooMany { limit: 1 });
    assert!(registry.give_up_descriptors().is_empty());
    assert!(!pulled.live.has_ended());
}

#[test]
fn another_mux_takes_a_name_over_where_there_is_no_more_room() {
    let registry = registry(1);
    let first = acquire(&registry, "a", 0).expect("room");
    let a = name("a");
    let flv = SlotRequest { mux: Mux::Flv, take_over: true, ..request(&a) };
    let mut displaced = Vec::new();
    let second = registry.acquire(flv, Time::from_millis(1), &mut displaced).expect("the name's own room");
    assert!(displaced.is_empty() && first.live.has_ended());
    assert_eq!((second.live.mux, second.live.id, registry.all().len()), (Mux::Flv, 1, 1));
}

#[test]
fn releasing_a_stream_leaves_the_next_one_of_its_name_in_the_list() {
    let registry = registry(8);
    let first = acquire(&registry, "a", 0).expect("room").live;
    registry.release(&first);
    assert!(first.has_ended() && registry.all().is_empty());
    let second = acquire(&registry, "a", 1).expect("room").live;
    registry.release(&first);
    let found = registry.find(&name("a")).expect("the second one goes on");
    assert!(Arc::ptr_eq(&found, &second) && !second.has_ended());
}

#[test]
fn what_has_ended_by_itself_is_swept_out_though_its_window_is_not_over() {
    let registry = registry(8);
    let (ended, _kept) = (acquire(&registry, "a", 0).expect("room"), acquire(&registry, "b", 0));
    ended.live.end();
    assert_eq!(names(&registry.beginning_with(&name("a"))), [""; 0], "what has ended is not found");
    assert_eq!(names(&registry.end_abandoned(Duration::from_secs(60), Time::ZERO)), ["a"]);
    assert_eq!(names(&registry.all()), ["b"]);
}

#[test]
fn a_refusal_says_what_has_the_name() {
    let text = |error: AcquireError| error.to_string();
    let name = || name("a");
    assert_eq!(text(AcquireError::Taken { name: name() }), "stream a has a publisher already");
    assert_eq!(text(AcquireError::Pulled { name: name() }), "stream a is pulled from its source");
    assert_eq!(text(AcquireError::Inside { name: name() }), "stream a is published by this server itself");
    assert_eq!(
        text(AcquireError::TooMany { limit: 3 }),
        "all 3 streams that the configuration allows are in use"
    );
}

proptest! {
    // Each stream has memory of its own.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn streams_are_found_by_what_their_names_begin_with(
        all in prop::collection::btree_set("[ab]{1,4}", 0..12), prefix in "[ab]{1,3}",
    ) {
        let registry = registry(100);
        for stream in &all {
            acquire(&registry, stream, 0).expect("room");
        }
        let wanted: Vec<_> = all.iter().filter(|stream| stream.starts_with(&prefix)).cloned().collect();
        prop_assert_eq!(names(&registry.beginning_with(&name(&prefix))), wanted);
    }

    /// Beside a list of names, each with its session, or since when it waits.
    #[test]
    fn room_is_made_by_the_stream_that_waits_longest(
        steps in prop::collection::vec((0..5usize, any::<bool>()), 0..60),
    ) {
        const LIMIT: usize = 3;
        let registry = registry(LIMIT);
        let mut model: BTreeMap<String, (Option<u64>, u64)> = BTreeMap::new();
        for (at, (number, comes)) in (1_u64..).zip(steps) {
            let stream = format!("s{number}");
            let now = Time::from_millis(at);
            if !comes {
                if let Some((session @ Some(_), since)) = model.get_mut(&stream) {
                    let live = registry.find(&name(&stream)).expect("it goes on");
                    live.release(session.take().unwrap(), now);
                    *since = at;
                }
                continue;
            }
            let mut displaced = Vec::new();
            let acquired = registry.acquire(request(&name(&stream)), now, &mut displaced);
            let longest = model.iter().filter(|(_, (session, _))| session.is_none());
            let longest = longest.min_by_key(|(_, (_, since))| *since).map(|(stream, _)| stream.clone());
            let needs_room = !model.contains_key(&stream) && model.len() == LIMIT;
            let ends = longest.filter(|_| needs_room);
            prop_assert_eq!(names(&displaced), ends.clone().into_iter().collect::<Vec<_>>());
            if let Some(ended) = &ends {
                model.remove(ended);
            }
            if matches!(model.get(&stream), Some((Some(_), _))) {
                prop_assert_eq!(acquired.unwrap_err(), AcquireError::Taken { name: name(&stream) });
            } else if needs_room && ends.is_none() {
                prop_assert_eq!(acquired.unwrap_err(), AcquireError::TooMany { limit: LIMIT });
            } else {
                let session = acquired.expect("it is free and there is room").session;
                model.insert(stream, (Some(session), 0));
            }
            prop_assert_eq!(names(&registry.all()), model.keys().cloned().collect::<Vec<_>>());
        }
    }
}
