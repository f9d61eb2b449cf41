use super::*;
use crate::reading::{Done, Objects, ReadingSettings};
use crate::store::{Listed, StoreError, StoreErrorKind};
use std::sync::Mutex;
use std::time::Instant;

/// A store that answers nothing before its gate opens, and then that it is away.
struct Away(Arc<Mutex<()>>);

impl Away {
    fn answer<T: Send + 'static>(&self, done: Done<T>) {
        let gate = Arc::clone(&self.0);
        std::thread::spawn(move || {
            drop(gate.lock());
            done(Err(StoreError::new(StoreErrorKind::Unreachable, "the cable is out")));
        });
    }
}

impl Objects for Away {
    fn get(&self, _: &str, done: Done<Bytes>) {
        self.answer(done);
    }

    fn list(&self, _: &str, _: usize, done: Done<Vec<Listed>>) {
        self.answer(done);
    }

    fn folders(&self, _: &str, done: Done<Vec<String>>) {
        self.answer(done);
    }

    fn put(&self, _: &str, _: Bytes, done: Done<()>) {
        self.answer(done);
    }

    fn delete(&self, _: &str) {}
}

fn clips(gate: &Arc<Mutex<()>>) -> Clips {
    let store = Box::new(Away(Arc::clone(gate)));
    let archive = Archive::start(store, None, ReadingSettings::default(), Clock::new()).unwrap();
    Clips::start(Arc::new(archive), Clock::new()).unwrap()
}

fn hall() -> StreamName {
    StreamName::parse("hall").unwrap()
}

fn span() -> Span {
    let utc = Clock::new().utc();
    Span { from: glassline_media::Utc::from_nanos(utc.as_nanos() - 30_000_000_000), to: Some(utc) }
}

#[test]
fn so_many_wait_and_each_is_told_of_a_store_that_is_away() {
    let gate = Arc::new(Mutex::new(()));
    let shut = gate.lock().unwrap();
    let clips = clips(&gate);
    let mut ids = Vec::new();
    let refused = loop {
        match clips.order(&hall(), span()) {
            Ok(id) => ids.push(id),
            Err(refused) => break refused,
        }
        assert!(ids.len() <= WAITING_MAX + 1, "one is made, and some wait");
    };
    assert_eq!(refused, Refused::Occupied);
    let endless = Span { to: None, ..span() };
    let long = Span { from: glassline_media::Utc::from_nanos(1), ..span() };
    assert_eq!([endless, long].map(|span| clips.order(&hall(), span)), [Err(Refused::TooLong); 2]);
    assert!(ids.len() >= WAITING_MAX);
    assert!(matches!(clips.find(&hall(), ids[0]), Some(ClipState::Making)));
    assert!(clips.find(&StreamName::parse("stage").unwrap(), ids[0]).is_none(), "of another stream");
    assert!(clips.find(&hall(), 99).is_none());
    drop(shut);
    let begun = Instant::now();
    for id in ids {
        let error = loop {
            match clips.find(&hall(), id).unwrap() {
                ClipState::Failed(error) => break error,
                ClipState::Done(_) => panic!("the store is away"),
                ClipState::Making => assert!(begun.elapsed() < Duration::from_secs(60)),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let ExportFailure::Store(error) = &*error else { panic!("{error}") };
        assert_eq!(error.kind(), StoreErrorKind::Unreachable);
    }
    clips.forget(&hall());
    assert!(locked(&clips.kept).known.is_empty());
}

fn done(bytes: usize, since: Time) -> Known {
    let report = Arc::new(Report {
        from: glassline_media::Utc::default(),
        to: glassline_media::Utc::default(),
        duration: Duration::ZERO,
        missing: Vec::new(),
        lost_objects: 0,
        renditions: Vec::new(),
    });
    let clip = Clip { bytes: vec![0; bytes].into(), report, poster: None };
    Known { name: hall(), since, state: ClipState::Done(clip) }
}

#[test]
fn the_oldest_goes_for_a_new_one_and_all_after_some_time() {
    let mut kept = Kept::default();
    for id in 0..6 {
        kept.known.insert(id, done(100, Time::from_millis(id * 1000)));
    }
    kept.make_room(300);
    assert_eq!(kept.known.keys().copied().collect::<Vec<_>>(), [3, 4, 5]);
    let making = Known { name: hall(), since: Time::ZERO, state: ClipState::Making };
    kept.known.insert(0, making);
    kept.make_room(0);
    assert_eq!(kept.known.keys().copied().collect::<Vec<_>>(), [0], "what is being made stays");
    kept.known.insert(1, done(1, Time::from_millis(1000)));
    kept.sweep(Time::from_millis(999) + KEPT_FOR);
    assert_eq!(kept.known.len(), 2);
    kept.sweep(Time::from_millis(1000) + KEPT_FOR);
    assert_eq!(kept.known.len(), 1);
    let failed = ClipState::Failed(Arc::new(ExportFailure::Stopped));
    kept.known.insert(7000, done(1, Time::ZERO));
    for id in 100..200 {
        kept.make_room(u64::MAX);
        kept.known.insert(id, Known { name: hall(), since: Time::ZERO, state: failed.clone() });
    }
    assert!(kept.known.contains_key(&7000), "failures let no clip go");
    for id in 2..100 {
        kept.make_room(u64::MAX);
        kept.known.insert(id, done(1, Time::ZERO));
        assert!(kept.known.len() <= KNOWN_MAX);
    }
}
