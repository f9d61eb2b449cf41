use super::*;
use crate::test_streams::{SETTINGS, name, streams};
use crate::{Entering, Publisher, Streams};
use glassline_media::Codec;
use glassline_test_support::ts::Source;
use glassline_test_support::wait::until;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Woken {
    fn times(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

struct House {
    streams: Arc<Streams>,
    woken: Arc<Woken>,
    source: Source,
}

impl House {
    fn new() -> House {
        House { streams: streams(), woken: Arc::default(), source: Source::default() }
    }

    fn publish(&mut self) -> Publisher {
        let mut publisher = self.streams.publish(&name("a"), Mux::MpegTs).expect("a free name");
        publisher.push(&self.source.tables()).expect("MPEG-TS");
        publisher
    }

    fn subscribe(&self) -> Subscription {
        let waker = Waker::from(Arc::clone(&self.woken));
        self.streams.subscribe(&name("a"), Entering::Newest, waker).expect("a stream")
    }
}

fn end(streams: &Streams) {
    for live in streams.all() {
        live.end();
        streams.announce(&live, None);
    }
}

#[test]
fn a_subscriber_is_woken_once_until_it_reads() {
    let mut house = House::new();
    assert!(house.streams.subscribe(&name("a"), Entering::Newest, Waker::noop().clone()).is_none());
    let mut publisher = house.publish();
    let mut subscription = house.subscribe();
    let mut buffer = [0; 1000];
    assert_eq!(subscription.read(&mut buffer).unwrap(), Read::Pending);
    let key = house.source.picture(true, 3);
    publisher.push(&key).unwrap();
    publisher.push(&house.source.picture(false, 1)).unwrap();
    assert_eq!(house.woken.times(), 1);
    assert!(matches!(subscription.read(&mut buffer).unwrap(), Read::Entered { moved: false, .. }));
    assert_eq!(subscription.read(&mut buffer).unwrap(), Read::Bytes(4 * 188));
    assert_eq!(buffer[..3 * 188], key);
    publisher.push(&house.source.picture(false, 1)).unwrap();
    assert_eq!(house.woken.times(), 2);
    drop(subscription);
    assert!(house.streams.all()[0].subscribers.is_empty());
    publisher.push(&house.source.picture(false, 1)).unwrap();
    assert_eq!(house.woken.times(), 2);
}

#[test]
fn an_end_wakes_and_all_before_it_is_read() {
    let mut house = House::new();
    let mut publisher = house.publish();
    let mut units = house.subscribe().into_units().expect("MPEG-TS");
    publisher.push(&house.source.picture(true, 3)).unwrap();
    publisher.push(&house.source.picture(false, 3)).unwrap();
    let mut seen = Vec::new();
    let mut take = |units: &mut Units| loop {
        match units.poll().unwrap() {
            Unit::Program(program) => seen.push(format!("program of {}", program.streams.len())),
            Unit::Unit { unit, .. } => seen.push(format!("{:?} {}", unit.codec, unit.random_access)),
            other => return (other, std::mem::take(&mut seen)),
        }
    };
    let (last, units_seen) = take(&mut units);
    assert_eq!(last, Unit::Pending);
    assert_eq!(units_seen, ["program of 1".to_owned(), format!("{:?} true", Codec::H264)]);
    let before = house.woken.times();
    end(&house.streams);
    assert_eq!(house.woken.times(), before + 1);
    assert_eq!(take(&mut units), (Unit::Ended, vec![format!("{:?} false", Codec::H264)]));
    assert_eq!(take(&mut units), (Unit::Ended, vec![]));
}

#[test]
fn a_slow_subscriber_is_moved_and_told() {
    let mut house = House::new();
    let mut publisher = house.publish();
    let mut subscription = house.subscribe();
    publisher.push(&house.source.picture(true, 50)).unwrap();
    let mut buffer = [0; 188];
    assert!(matches!(subscription.read(&mut buffer).unwrap(), Read::Entered { .. }));
    let limit = SETTINGS.backlog.bytes as usize;
    for _ in 0..=limit / (188 * 500) + 2 {
        publisher.push(&house.source.picture(true, 500)).unwrap();
    }
    assert_eq!(subscription.read(&mut buffer).unwrap(), Read::FellBehind);
    assert!(matches!(subscription.read(&mut buffer).unwrap(), Read::Entered { moved: true, .. }));
    assert_eq!(subscription.read(&mut buffer).unwrap(), Read::Bytes(188));
}

/// A publisher on one thread, a reader on another, that sleeps until it is woken: no wake-up is lost.
#[test]
fn no_news_are_lost_between_threads() {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    const PICTURES: usize = 2000;
    let mut house = House::new();
    let mut publisher = house.publish();
    publisher.push(&house.source.picture(true, 1)).unwrap();
    let streams = Arc::clone(&house.streams);
    let read = Arc::new(AtomicUsize::new(0));
    let reader = std::thread::spawn({
        let read = Arc::clone(&read);
        move || {
            let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
            let mut subscription = streams.subscribe(&name("a"), Entering::Newest, waker).expect("a stream");
            let mut buffer = [0; 188];
            loop {
                match subscription.read(&mut buffer).unwrap() {
                    Read::Bytes(_) => _ = read.fetch_add(1, Ordering::Release),
                    Read::Entered { .. } => {}
                    Read::Pending => std::thread::park(),
                    Read::FellBehind => panic!("it is as quick as the publisher, which waits for it"),
                    Read::Ended => return,
                }
            }
        }
    });
    for sent in 1..=PICTURES {
        until("the last picture to be read", || read.load(Ordering::Acquire) == sent);
        publisher.push(&house.source.picture(false, 1)).unwrap();
    }
    until("the last picture to be read", || read.load(Ordering::Acquire) == PICTURES + 1);
    end(&house.streams);
    reader.join().expect("it ends with the stream");
}

#[test]
fn a_mux_that_is_only_carried_has_no_access_units() {
    let streams = streams();
    let _publisher = streams.publish(&name("a"), Mux::Flv).expect("a free name");
    let subscription = streams.subscribe(&name("a"), Entering::Newest, Waker::noop().clone());
    let subscription = subscription.expect("a stream");
    assert_eq!((subscription.mux(), subscription.offset()), (Mux::Flv, 0));
    assert!(subscription.into_units().is_none());
}

#[test]
fn units_go_on_at_a_key_frame_behind_what_was_left_out() {
    let mut house = House::new();
    let mut publisher = house.publish();
    let mut units = house.subscribe().into_units().expect("MPEG-TS");
    publisher.push(&house.source.picture(true, 3)).unwrap();
    while units.poll().unwrap() != Unit::Pending {}
    let limit = SETTINGS.backlog.bytes as usize;
    for _ in 0..=limit / (188 * 500) + 2 {
        publisher.push(&house.source.picture(true, 500)).unwrap();
    }
    let told = std::iter::from_fn(|| Some(units.poll().unwrap())).find(|unit| *unit == Unit::FellBehind);
    assert!(told.is_some());
    publisher.push(&house.source.picture(true, 3)).unwrap();
    publisher.push(&house.source.picture(false, 3)).unwrap();
    end(&house.streams);
    let mut seen = Vec::new();
    loop {
        match units.poll().unwrap() {
            Unit::Unit { unit, .. } => seen.push(unit.random_access),
            Unit::Ended => break,
            Unit::Program(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen.last(), Some(&false));
    assert!(seen.len() >= 2 && seen[seen.len() - 2], "{seen:?}");
}
