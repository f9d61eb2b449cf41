//! The registry of the streams of one process.

use crate::live::{Acquisition, Live};
use crate::registry::{AcquireError, Granted, Origin, Owner, Plan, Registry, SlotRequest};
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::Mux;
use glassline_media::Time;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Streams that give up their descriptors at once, where there are none: a few connections are then let in before the
/// next ones do.
const DISPLACED_AT_ONCE: usize = 16;

type Lives = BTreeMap<StreamName, Arc<Live>>;

/// All streams that have not ended, by name.
pub struct LocalRegistry {
    lives: Mutex<Lives>,
    next_id: AtomicU64,
    plan: Arc<dyn Plan>,
}

impl fmt::Debug for LocalRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalRegistry").field("lives", &self.lives).finish_non_exhaustive()
    }
}

impl LocalRegistry {
    /// No stream yet: those that begin are kept as `plan` says at that time.
    pub fn new(plan: Arc<dyn Plan>) -> LocalRegistry {
        LocalRegistry { lives: Mutex::default(), next_id: AtomicU64::new(0), plan }
    }

    fn lock(&self) -> MutexGuard<'_, Lives> {
        // The map is whole after every single change, whatever panicked in between.
        self.lives.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream begins where there is room for it, or others end for it.
    fn begin_in_room(
        &self,
        lives: &mut Lives,
        (name, mux): (&StreamName, Mux),
        now: Time,
        displaced: &mut Vec<Arc<Live>>,
    ) -> Result<Arc<Live>, AcquireError> {
        if !lives.contains_key(name) && !make_room(lives, &*self.plan, displaced) {
            return Err(AcquireError::TooMany { limit: self.plan.max_streams() });
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let plan = &self.plan;
        let live = Arc::new(Live::new(id, name.clone(), mux, plan.settings(name), plan.workers(), now));
        live.set_has_outputs(plan.has_outputs(name));
        lives.insert(name.clone(), Arc::clone(&live));
        Ok(live)
    }
}

impl Registry for LocalRegistry {
    fn inherit(&self, next_id: u64, lives: Vec<Arc<Live>>) {
        self.next_id.store(next_id, Ordering::Relaxed);
        self.lock().extend(lives.into_iter().map(|live| (live.name.clone(), live)));
    }

    fn next_id(&self) -> u64 {
        self.next_id.load(Ordering::Relaxed)
    }

    fn all(&self) -> Vec<Arc<Live>> {
        self.lock().values().cloned().collect()
    }

    fn find(&self, name: &StreamName) -> Option<Arc<Live>> {
        self.lock().get(name).filter(|live| !live.has_ended()).cloned()
    }

    fn owner(&self, name: &StreamName) -> Option<Owner> {
        self.plan.owner(name)
    }

    fn beginning_with(&self, prefix: &StreamName) -> Vec<Arc<Live>> {
        let lives = self.lock();
        let from = lives.range(prefix.clone()..).map(|(_, live)| live);
        let own = from.take_while(|live| live.name.as_str().starts_with(prefix.as_str()));
        own.filter(|live| !live.has_ended()).cloned().collect()
    }

    fn acquire(
        &self,
        slot_request: SlotRequest<'_>,
        now: Time,
        displaced: &mut Vec<Arc<Live>>,
    ) -> Result<Granted, AcquireError> {
        let SlotRequest { name, mux, origin, take_over, piece } = slot_request;
        match self.owner(name).filter(|_| origin != Origin::Inside) {
            Some(Owner::Source) => return Err(AcquireError::Pulled { name: name.clone() }),
            Some(Owner::Encoder) => return Err(AcquireError::Inside { name: name.clone() }),
            None => {}
        }
        let mut lives = self.lock();
        let former = lives.get(name).filter(|live| !live.has_ended()).cloned();
        let (same, other) = match former {
            Some(live) if live.mux != mux => (None, Some(live)),
            former => (former, None),
        };
        if let Some(other) = other.as_ref().filter(|other| !take_over && !other.gives_way()) {
            return Err(AcquireError::OtherMux { name: name.clone(), mux: other.mux });
        }
        let live = match same {
            Some(live) => live,
            None => self.begin_in_room(&mut lives, (name, mux), now, displaced)?,
        };
        match live.acquire(origin.connection(), take_over, piece, now) {
            Acquisition::Taken => Err(AcquireError::Taken { name: name.clone() }),
            Acquisition::Granted { session, evicted, continued } => {
                let left = other.as_ref().and_then(|other| other.end_replaced());
                Ok(Granted { live, session, replaced: other, evicted: evicted.or(left), continued })
            }
        }
    }

    fn begin(
        &self,
        name: &StreamName,
        mux: Mux,
        now: Time,
        displaced: &mut Vec<Arc<Live>>,
    ) -> Result<Arc<Live>, AcquireError> {
        let mut lives = self.lock();
        match lives.get(name).filter(|live| !live.has_ended()) {
            Some(live) => Ok(Arc::clone(live)),
            None => self.begin_in_room(&mut lives, (name, mux), now, displaced),
        }
    }

    fn give_up_descriptors(&self) -> Vec<Arc<Live>> {
        let mut lives = self.lock();
        std::iter::from_fn(|| displace(&mut lives, &*self.plan)).take(DISPLACED_AT_ONCE).collect()
    }

    fn release(&self, live: &Arc<Live>) {
        live.end();
        let mut lives = self.lock();
        if lives.get(&live.name).is_some_and(|listed| Arc::ptr_eq(listed, live)) {
            lives.remove(&live.name);
        }
    }

    fn end_abandoned(&self, window: Duration, now: Time) -> Vec<Arc<Live>> {
        let mut ended = Vec::new();
        self.lock().retain(|_, live| {
            let over = live.has_ended() || live.is_abandoned(window, now);
            if over {
                live.end();
                ended.push(Arc::clone(live));
            }
            !over
        });
        ended
    }
}

/// Makes room for one more stream, which others may have to end for. Returns whether there is. A name that was used once would
/// otherwise hold its room for the whole return window.
fn make_room(lives: &mut Lives, plan: &dyn Plan, displaced: &mut Vec<Arc<Live>>) -> bool {
    while lives.len() >= plan.max_streams() {
        match displace(lives, plan) {
            Some(live) => displaced.push(live),
            None => return false,
        }
    }
    true
}

/// Ends the stream that waits longest for its publisher to return, of those that are not read and have no source.
/// Returns it; `None` where there is none.
fn displace(lives: &mut Lives, plan: &dyn Plan) -> Option<Arc<Live>> {
    let waiting = lives.values().filter(|live| plan.owner(&live.name) != Some(Owner::Source));
    let waiting = waiting.filter_map(|live| Some((live.waits_since()?, live)));
    let live = Arc::clone(waiting.min_by_key(|(since, _)| *since)?.1);
    live.end();
    lives.remove(&live.name);
    tracing::info!(stream = %live.name, "stream ended before its publisher's time to return was over: room is needed");
    Some(live)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::ConnectionId;
    use crate::test_streams::{SETTINGS, live, name};
    use glassline_delivery::stream;

    /// Any name, but those that belong to an encoder, for so many streams.
    struct Names {
        of_encoders: Vec<StreamName>,
        limit: usize,
    }

    impl Plan for Names {
        fn owner(&self, name: &StreamName) -> Option<Owner> {
            self.of_encoders.contains(name).then_some(Owner::Encoder)
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

    struct House {
        streams: LocalRegistry,
        displaced: Vec<Arc<Live>>,
    }

    const CONNECTION: ConnectionId = ConnectionId { worker: 0, token: 3 };

    impl House {
        fn new(max_streams: usize) -> House {
            House::with(Names { of_encoders: Vec::new(), limit: max_streams })
        }

        fn with(names: Names) -> House {
            House { streams: LocalRegistry::new(Arc::new(names)), displaced: Vec::new() }
        }

        fn acquire(
            &mut self,
            stream: &str,
            change: impl FnOnce(&mut SlotRequest<'_>),
            at_ms: u64,
        ) -> Result<Granted, AcquireError> {
            let name = name(stream);
            let mut slot_request = SlotRequest {
                name: &name,
                mux: Mux::MpegTs,
                origin: Origin::Connection(CONNECTION),
                take_over: false,
                piece: None,
            };
            change(&mut slot_request);
            self.streams.acquire(slot_request, Time::from_millis(at_ms), &mut self.displaced)
        }

        fn names(&self) -> Vec<String> {
            self.streams.all().iter().map(|live| live.name.to_string()).collect()
        }
    }

    #[test]
    fn a_publisher_slot_is_granted_once_unless_it_is_taken_over() {
        let mut house = House::new(8);
        let first = house.acquire("a", |_| {}, 0).expect("a free name");
        assert_eq!((first.live.id, first.session, first.evicted), (0, 1, None));
        assert_eq!(house.acquire("a", |_| {}, 1).unwrap_err(), AcquireError::Taken { name: name("a") });
        let second = house.acquire("a", |slot_request| slot_request.take_over = true, 2).expect("taken over");
        assert!(Arc::ptr_eq(&first.live, &second.live));
        assert_eq!((second.session, second.evicted), (2, Some(CONNECTION)));
        assert!(second.replaced.is_none());
        assert_eq!(house.streams.next_id(), 1);
    }

    #[test]
    fn a_name_has_one_mux_at_a_time() {
        let mut house = House::new(8);
        let first = house.acquire("a", |_| {}, 0).expect("a free name").live;
        let error = house.acquire("a", |slot_request| slot_request.mux = Mux::Flv, 1).unwrap_err();
        assert_eq!(error, AcquireError::OtherMux { name: name("a"), mux: Mux::MpegTs });
        let change = |slot_request: &mut SlotRequest<'_>| {
            (slot_request.mux, slot_request.take_over) = (Mux::Flv, true);
        };
        let granted = house.acquire("a", change, 2).expect("taken over");
        assert!(granted.replaced.is_some_and(|replaced| Arc::ptr_eq(&replaced, &first)));
        assert_eq!(granted.evicted, Some(CONNECTION));
        assert!(first.has_ended());
        let found = house.streams.find(&name("a")).expect("a stream");
        assert!(Arc::ptr_eq(&found, &granted.live));
    }

    #[test]
    fn reserved_names_are_for_this_process_alone() {
        let mut house = House::with(Names { of_encoders: vec![name("a")], limit: 8 });
        assert_eq!(house.acquire("a", |_| {}, 0).unwrap_err(), AcquireError::Inside { name: name("a") });
        house
            .acquire("a", |slot_request| slot_request.origin = Origin::Inside, 0)
            .expect("a publisher inside");
    }

    #[test]
    fn the_stream_that_waits_longest_makes_room() {
        let mut house = House::new(2);
        let a = house.acquire("a", |_| {}, 0).expect("room");
        let b = house.acquire("b", |_| {}, 0).expect("room");
        assert_eq!(house.acquire("c", |_| {}, 1).unwrap_err(), AcquireError::TooMany { limit: 2 });
        b.live.release(b.session, Time::from_millis(10));
        a.live.release(a.session, Time::from_millis(20));
        house.acquire("c", |_| {}, 30).expect("b makes room");
        assert_eq!(house.names(), ["a", "c"]);
        assert!(b.live.has_ended() && !a.live.has_ended());
        assert!(matches!(&house.displaced[..], [live] if Arc::ptr_eq(live, &b.live)));
        // Somebody watches the other one.
        a.live.viewer_comes_over(0);
        assert_eq!(house.acquire("d", |_| {}, 40).unwrap_err(), AcquireError::TooMany { limit: 2 });
        assert_eq!(house.displaced.len(), 1);
        // Nor is one ended that is subscribed to.
        a.live.viewer_leaves(0);
        let subscriber = a.live.subscribers.add(std::task::Waker::noop().clone());
        assert_eq!(house.acquire("d", |_| {}, 50).unwrap_err(), AcquireError::TooMany { limit: 2 });
        a.live.subscribers.remove(&subscriber);
        house.acquire("d", |_| {}, 60).expect("a makes room");
    }

    #[test]
    fn descriptors_are_given_up_by_streams_without_publisher_and_viewers() {
        let mut house = House::new(64);
        let _kept = house.acquire("kept", |_| {}, 0).expect("room");
        for number in 0..20 {
            let granted = house.acquire(&format!("gone{number}"), |_| {}, 0).expect("room");
            granted.live.release(granted.session, Time::from_millis(number));
        }
        let given = house.streams.give_up_descriptors();
        let names: Vec<_> = given.iter().map(|live| live.name.to_string()).collect();
        assert_eq!((names.len(), names[0].as_str(), names[15].as_str()), (16, "gone0", "gone15"));
        assert_eq!(house.streams.give_up_descriptors().len(), 4);
        assert_eq!(house.names(), ["kept"]);
    }

    #[test]
    fn an_abandoned_stream_ends_when_its_window_is_over() {
        let mut house = House::new(8);
        let granted = house.acquire("a", |_| {}, 0).expect("room");
        let mut source = glassline_test_support::ts::Source::default();
        let bytes = [source.tables(), source.picture(true, 3)].concat();
        granted.live.push(granted.session, &bytes, Time::ZERO).expect("a transport stream");
        let window = Duration::from_millis(100);
        assert!(house.streams.end_abandoned(window, Time::from_millis(500)).is_empty(), "it has a publisher");
        granted.live.release(granted.session, Time::from_millis(500));
        assert!(house.streams.end_abandoned(window, Time::from_millis(600)).is_empty());
        assert_eq!(house.streams.end_abandoned(window, Time::from_millis(601)).len(), 1);
        assert!(granted.live.has_ended());
        assert!(house.streams.all().is_empty() && house.streams.find(&name("a")).is_none());
    }

    #[test]
    fn what_has_ended_is_not_found_and_its_name_is_free() {
        let mut house = House::new(1);
        let first = house.acquire("a", |_| {}, 0).expect("room").live;
        first.end();
        assert!(house.streams.find(&name("a")).is_none());
        assert_eq!(house.names(), ["a"], "until the next sweep");
        let second = house.acquire("a", |_| {}, 1).expect("the name is free").live;
        assert!(!Arc::ptr_eq(&first, &second));
        assert_eq!((second.id, house.streams.next_id()), (1, 2));
    }

    #[test]
    fn streams_of_another_process_keep_their_numbers() {
        let streams = House::new(8).streams;
        streams.inherit(9, vec![live(4, "b", 1), live(2, "a", 1)]);
        let ids: Vec<_> = streams.all().iter().map(|live| live.id).collect();
        assert_eq!((ids, streams.next_id()), (vec![2, 4], 9));
    }
}

#[cfg(test)]
#[path = "local_registry_tests.rs"]
mod names_tests;
