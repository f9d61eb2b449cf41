//! The streams of a program, with what has to happen around them: where one begins, ends or gets another publisher, the threads
//! that stay with it are told.

use crate::live::{ConnectionId, Flushed, Live};
use crate::local_registry::LocalRegistry;
use crate::registry::{AcquireError, Acquired, Granted, Origin, Plan, Registry, SlotRequest};
use crate::stream_reader::{Entering, StreamReader};
use crate::subscription::Subscription;
use crate::threads::{self, News, Threads};
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::Mux;
use glassline_io::clock::Clock;
use glassline_media::Time;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

/// What else of the program has to know of streams. Called on the thread that the event comes up on, without a lock of this crate;
/// must not block.
pub trait Observer: Send + Sync {
    /// A publisher asks for a slot. It gets none where this fails; what it asks for may be changed.
    ///
    /// # Errors
    /// Why the caller does not get the name.
    fn admit(&self, slot_request: &mut SlotRequest<'_>) -> Result<(), AcquireError> {
        let _ = slot_request;
        Ok(())
    }

    /// A publisher has got the slot of `live`, which may have begun by that; or a slate of a stream that has just begun is shown. The threads are told after this.
    fn published(&self, live: &Arc<Live>);

    /// `live` has ended to make room for others.
    fn displaced(&self, live: &Arc<Live>);
}

/// The streams of a program.
pub struct Streams {
    registry: Arc<dyn Registry>,
    threads: Arc<dyn Threads>,
    observer: OnceLock<Weak<dyn Observer>>,
    clock: Clock,
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streams").field("registry", &self.registry).finish_non_exhaustive()
    }
}

impl Streams {
    /// None yet: those that begin are kept as `plan` says at that time, and `threads` are told of their news.
    pub fn new(plan: Arc<dyn Plan>, threads: Arc<dyn Threads>, clock: Clock) -> Streams {
        Streams::with_registry(Arc::new(LocalRegistry::new(plan)), threads, clock)
    }

    /// The streams of `registry`; `threads` are told of their news.
    pub fn with_registry(registry: Arc<dyn Registry>, threads: Arc<dyn Threads>, clock: Clock) -> Streams {
        Streams { registry, threads, observer: OnceLock::new(), clock }
    }

    /// Goes on with the streams that another process left, and with the next number that it would have given. Called before there
    /// are others.
    pub fn inherit(&self, next_id: u64, lives: Vec<Arc<Live>>) {
        self.registry.inherit(next_id, lives);
    }

    /// Has `observer` told from now on. Only the first call counts.
    pub fn set_observer(&self, observer: Weak<dyn Observer>) {
        let _ = self.observer.set(observer);
    }

    fn observer(&self) -> Option<Arc<dyn Observer>> {
        self.observer.get().and_then(Weak::upgrade)
    }

    /// The clock that streams are stamped with.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The number of the next stream.
    pub fn next_id(&self) -> u64 {
        self.registry.next_id()
    }

    /// All of them, by name; also those that have just ended and still stand in the list.
    pub fn all(&self) -> Vec<Arc<Live>> {
        self.registry.all()
    }

    /// The stream `name`, if it has not ended.
    pub fn find(&self, name: &StreamName) -> Option<Arc<Live>> {
        self.registry.find(name)
    }

    /// Those with names that begin with `prefix` and that have not ended, in order.
    pub fn beginning_with(&self, prefix: &StreamName) -> Vec<Arc<Live>> {
        self.registry.beginning_with(prefix)
    }

    /// Takes the publisher's slot of the stream `slot_request.name`, which begins if there is none, and tells all that stay with it. One
    /// of another mux is replaced where `slot_request.take_over` asks for it.
    ///
    /// # Errors
    /// Why the caller does not get the name.
    pub fn acquire(&self, mut slot_request: SlotRequest<'_>) -> Result<Acquired, AcquireError> {
        if let Some(observer) = self.observer() {
            observer.admit(&mut slot_request)?;
        }
        let mut displaced = Vec::new();
        let acquired = self.registry.acquire(slot_request, self.clock.now(), &mut displaced);
        self.tell_displaced(&displaced);
        let Granted { live, session, replaced, evicted, continued } = acquired?;
        if let Some(observer) = self.observer() {
            observer.published(&live);
        }
        self.announce(&live, None);
        if let Some(replaced) = replaced {
            self.announce(&replaced, None);
        }
        if let Some(ConnectionId { worker, token }) = evicted {
            self.threads.tell(worker, News::Evicted(token));
        }
        Ok(Acquired { live, session, continued })
    }

    /// Ends the publisher of `live`, as another one that takes the name over would: its connection is told, and what viewers get next
    /// does not continue what was before. The stream waits for another publisher.
    pub fn evict(&self, live: &Arc<Live>) {
        let slot_request = SlotRequest {
            name: &live.name,
            mux: live.mux,
            origin: Origin::Inside,
            take_over: true,
            piece: None,
        };
        let mut displaced = Vec::new();
        let acquired = self.registry.acquire(slot_request, self.clock.now(), &mut displaced);
        self.tell_displaced(&displaced);
        let Ok(Granted { live: found, session, evicted, .. }) = acquired else { return };
        found.release(session, self.clock.now());
        self.announce(&found, None);
        if let Some(ConnectionId { worker, token }) = evicted {
            self.threads.tell(worker, News::Evicted(token));
        }
    }

    /// The stream `name`, which begins, of `mux` and without a publisher, if there is none.
    ///
    /// # Errors
    /// [`AcquireError::TooMany`].
    pub fn begin(&self, name: &StreamName, mux: Mux) -> Result<Arc<Live>, AcquireError> {
        let mut displaced = Vec::new();
        let is_new = self.find(name).is_none();
        let begun = self.registry.begin(name, mux, self.clock.now(), &mut displaced);
        self.tell_displaced(&displaced);
        let live = begun?;
        if let Some(observer) = self.observer().filter(|_| is_new) {
            observer.published(&live);
        }
        self.announce(&live, None);
        Ok(live)
    }

    /// A reader of the stream `name`, which enters where `entering` says; `None` where there is no such stream now. `waker` is woken
    /// when there is more, once until the subscription is read again.
    pub fn subscribe(&self, name: &StreamName, entering: Entering, waker: Waker) -> Option<Subscription> {
        let live = self.find(name)?;
        Some(Subscription::new(StreamReader::new(live, entering), waker, self.clock))
    }

    /// Wakes each thread that has viewers, outputs or a presentation of `live` and has not been told yet. `own` is the worker that
    /// calls, which is not woken: it serves its viewers itself if this returns true.
    pub fn announce(&self, live: &Arc<Live>, own: Option<usize>) -> bool {
        threads::announce(&*self.threads, live, own)
    }

    /// Does what `flushed` asks for, from a thread that is no worker: wakes those with viewers, and leaves the deadline to one
    /// worker, always the same of a stream.
    pub fn notify(&self, live: &Arc<Live>, flushed: Flushed) {
        threads::notify(&*self.threads, live, flushed);
    }

    /// Ends `live`, takes it out of the list, and tells the threads.
    pub fn end(&self, live: &Arc<Live>) {
        self.registry.release(live);
        self.announce(live, None);
    }

    /// Ends some streams that are not needed, for others to have their descriptors.
    pub fn give_up_descriptors(&self) {
        self.tell_displaced(&self.registry.give_up_descriptors());
    }

    /// Tells the viewers that have come to streams which ended to make room.
    fn tell_displaced(&self, displaced: &[Arc<Live>]) {
        for live in displaced {
            if let Some(observer) = self.observer() {
                observer.displaced(live);
            }
            self.announce(live, None);
        }
    }

    /// Ends the streams that have had no publisher for longer than `window`.
    pub fn end_abandoned(&self, window: Duration) {
        for live in self.registry.end_abandoned(window, self.clock.now()) {
            tracing::info!(stream = %live.name, viewers = live.viewers(), "stream ended: its publisher did not return");
            self.announce(&live, None);
        }
    }

    /// Streams that a panic has ended since the last call; the caller announces them.
    pub fn take_broken(&self) -> Vec<Arc<Live>> {
        let mut broken = self.all();
        broken.retain(|live| live.take_broken());
        for live in &broken {
            tracing::error!(stream = %live.name, viewers = live.viewers(), "stream ended by a fault");
        }
        broken
    }

    /// The time of the moment.
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_streams::{SETTINGS, name, streams};
    use crate::{FreeNames, NoThreads, Owner};
    use std::sync::Mutex;

    #[derive(Default)]
    struct Seen(Mutex<Vec<String>>);

    impl Seen {
        fn take(&self) -> Vec<String> {
            std::mem::take(&mut self.0.lock().unwrap())
        }
    }

    impl Observer for Seen {
        fn published(&self, live: &Arc<Live>) {
            self.0.lock().unwrap().push(format!("published {}", live.name));
        }

        fn displaced(&self, live: &Arc<Live>) {
            self.0.lock().unwrap().push(format!("displaced {}", live.name));
        }
    }

    #[test]
    fn an_observer_is_told_of_publishers_and_of_what_ended_for_room() {
        let plan = FreeNames { settings: SETTINGS, max_streams: 1 };
        let streams = Arc::new(Streams::new(Arc::new(plan), Arc::new(NoThreads), Clock::new()));
        let seen = Arc::new(Seen::default());
        streams.set_observer(Arc::downgrade(&(Arc::clone(&seen) as Arc<dyn Observer>)));
        let one = streams.publish(&name("one"), Mux::MpegTs).unwrap();
        assert!(matches!(
            streams.publish(&name("two"), Mux::MpegTs).map(drop),
            Err(AcquireError::TooMany { limit: 1 })
        ));
        assert!(matches!(
            streams.publish(&name("one"), Mux::MpegTs).map(drop),
            Err(AcquireError::Taken { .. })
        ));
        assert_eq!(seen.take(), ["published one"]);
        drop(one);
        let two = streams.publish(&name("two"), Mux::MpegTs).unwrap();
        assert_eq!(seen.take(), ["displaced one", "published two"]);
        assert!(streams.find(&name("one")).is_none() && streams.find(two.name()).is_some());
    }

    /// A registry that machines have in common: `elsewhere` has a publisher on another one.
    #[derive(Debug)]
    struct Shared {
        local: LocalRegistry,
        elsewhere: StreamName,
        released: Mutex<Vec<StreamName>>,
    }

    impl Registry for Shared {
        fn acquire(
            &self,
            slot_request: SlotRequest<'_>,
            now: Time,
            displaced: &mut Vec<Arc<Live>>,
        ) -> Result<Granted, AcquireError> {
            if *slot_request.name == self.elsewhere {
                return Err(AcquireError::Taken { name: self.elsewhere.clone() });
            }
            self.local.acquire(slot_request, now, displaced)
        }

        fn begin(
            &self,
            name: &StreamName,
            mux: Mux,
            now: Time,
            displaced: &mut Vec<Arc<Live>>,
        ) -> Result<Arc<Live>, AcquireError> {
            self.local.begin(name, mux, now, displaced)
        }

        fn find(&self, name: &StreamName) -> Option<Arc<Live>> {
            self.local.find(name)
        }

        fn owner(&self, name: &StreamName) -> Option<Owner> {
            self.local.owner(name)
        }

        fn release(&self, live: &Arc<Live>) {
            self.released.lock().unwrap().push(live.name.clone());
            self.local.release(live);
        }

        fn all(&self) -> Vec<Arc<Live>> {
            self.local.all()
        }

        fn beginning_with(&self, prefix: &StreamName) -> Vec<Arc<Live>> {
            self.local.beginning_with(prefix)
        }

        fn give_up_descriptors(&self) -> Vec<Arc<Live>> {
            self.local.give_up_descriptors()
        }

        fn end_abandoned(&self, window: Duration, now: Time) -> Vec<Arc<Live>> {
            self.local.end_abandoned(window, now)
        }

        fn inherit(&self, next_id: u64, lives: Vec<Arc<Live>>) {
            self.local.inherit(next_id, lives);
        }

        fn next_id(&self) -> u64 {
            self.local.next_id()
        }
    }

    #[test]
    fn another_registry_decides_on_names_and_is_told_when_they_are_free() {
        let plan = FreeNames { settings: SETTINGS, max_streams: 9 };
        let (local, released) = (LocalRegistry::new(Arc::new(plan)), Mutex::default());
        let shared = Arc::new(Shared { local, elsewhere: name("there"), released });
        let registry = Arc::clone(&shared) as Arc<dyn Registry>;
        let streams = Arc::new(Streams::with_registry(registry, Arc::new(NoThreads), Clock::new()));
        let refused = streams.publish(&name("there"), Mux::MpegTs).map(drop);
        assert_eq!(refused.unwrap_err(), AcquireError::Taken { name: name("there") });
        let mut here = streams.publish(&name("here"), Mux::MpegTs).unwrap();
        let live = streams.find(&name("here")).unwrap();
        assert_eq!(streams.all().len(), 1);
        streams.end(&live);
        assert_eq!(*shared.released.lock().unwrap(), [name("here")]);
        assert!(here.push(&[0x47; 188]).is_err() && streams.find(&name("here")).is_none());
    }

    #[test]
    fn a_stream_without_a_publisher_is_over_when_its_window_is() {
        let streams = streams();
        drop(streams.publish(&name("a"), Mux::MpegTs).unwrap());
        let woken = streams.subscribe(&name("a"), Entering::Newest, Waker::noop().clone());
        assert!(woken.is_some());
        std::thread::sleep(Duration::from_millis(1));
        streams.end_abandoned(Duration::from_secs(60));
        assert!(streams.all().is_empty(), "a stream that never had a byte does not wait");
    }

    #[test]
    fn a_publisher_that_went_over_has_its_slot_as_long_as_no_other_took_it() {
        let streams = streams();
        let mut publisher = streams.publish(&name("a"), Mux::MpegTs).unwrap();
        let session = publisher.session();
        std::mem::forget(streams.restore_publisher(&name("a"), session).unwrap());
        assert!(streams.restore_publisher(&name("a"), session + 1).is_none());
        assert!(streams.restore_publisher(&name("b"), session).is_none());
        publisher.push(&[]).unwrap();
    }

    /// Keeps what threads are told.
    #[derive(Default)]
    struct Told(Mutex<Vec<String>>);

    impl Threads for Told {
        fn workers(&self) -> usize {
            1
        }

        fn tell(&self, thread: usize, news: News) {
            let news = match news {
                News::Flushed(live) => format!("{thread}: news of {}", live.name),
                News::FlushAt(..) => format!("{thread}: a deadline"),
                News::Evicted(token) => format!("{thread}: publisher {token} has to go"),
            };
            self.0.lock().unwrap().push(news);
        }
    }

    #[test]
    fn a_publisher_that_is_taken_over_is_told_at_its_worker_after_the_viewers() {
        let plan = FreeNames { settings: SETTINGS, max_streams: 9 };
        let told = Arc::new(Told::default());
        let threads = Arc::clone(&told) as Arc<dyn Threads>;
        let streams = Streams::new(Arc::new(plan), threads, Clock::new());
        let name = name("a");
        let origin = Origin::Connection(ConnectionId { worker: 0, token: 77 });
        let slot_request =
            SlotRequest { name: &name, mux: Mux::MpegTs, origin, take_over: false, piece: None };
        let first = streams.acquire(slot_request).unwrap();
        assert!(told.0.lock().unwrap().is_empty(), "there are no viewers yet");
        first.live.viewer_joins(0);
        let origin = Origin::Connection(ConnectionId { worker: 0, token: 78 });
        let second = streams.acquire(SlotRequest { origin, take_over: true, ..slot_request }).unwrap();
        assert_eq!(*told.0.lock().unwrap(), ["0: news of a", "0: publisher 77 has to go"]);
        assert!(second.live.is_held_by(second.session) && !second.live.is_held_by(first.session));
    }
}
