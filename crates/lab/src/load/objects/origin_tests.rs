//! An origin and its clients, without a cache between them: the floor.

use super::*;
use crate::load::Target;
use crate::load::exchange::{Ends, Exchange};
use crate::load::objects::{Followers, Repeat, Shape};
use glassline_test_support::wait::until;
use std::net::SocketAddr;
use std::thread;

const SHAPE: Shape = Shape { chunks: 4, step: Duration::from_millis(25), chunk_bytes: 20_000 };

struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Serves on a thread while `with` runs.
fn beside_origin(with: impl FnOnce(SocketAddr, Timeline, Bytes, &Served)) {
    let listener = Listener::bind_group("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
    let address = listener.local_address().unwrap();
    let timeline = Timeline { began: Clock::new().now(), shape: SHAPE };
    let bytes = Bytes::new(100_000);
    let stop = AtomicBool::new(false);
    let mut origin = Origin::new(listener, timeline, bytes.clone(), &[100_000]).unwrap();
    let served = origin.served();
    thread::scope(|scope| {
        scope.spawn(|| origin.run(&stop).unwrap());
        // A check that fails has to end the server, too.
        let _end = End(&stop);
        with(address, timeline, bytes, &served);
    });
}

fn ends(address: SocketAddr) -> Ends {
    let target = Target::at(address, "/");
    Ends { target, trust: None, sources: Vec::new(), timeout: Duration::from_secs(5) }
}

#[test]
fn followers_get_each_chunk_once_and_right() {
    beside_origin(|address, timeline, bytes, served| {
        let followers = Followers::new(20, 1000.0, timeline, bytes, Clock::new().now());
        let mut load = Exchange::new(followers, ends(address), 20).unwrap();
        load.run(Duration::from_millis(600)).unwrap();
        let figures = load.crowd().figures();
        assert_eq!((figures.wrong_bytes, figures.failures), (0, 0), "{:?}", figures.reasons);
        assert!(figures.objects >= 40 && figures.first_byte.count() >= 40, "{figures:?}");
        assert!(figures.chunk_delay.count() >= 40, "{figures:?}");
        assert_eq!(load.connected(), 20, "connections are kept");
        let [fetches, objects] =
            [&served.fetches, &served.objects].map(|count| count.load(Ordering::Relaxed));
        assert!(fetches >= figures.objects && (3..10).contains(&objects), "{fetches} of {objects}");
    });
}

#[test]
fn fixed_objects_come_again_and_again() {
    beside_origin(|address, _, bytes, _| {
        let mut load = Exchange::new(Repeat::new(4, bytes, 100_000), ends(address), 4).unwrap();
        load.run(Duration::from_millis(100)).unwrap();
        let figures = load.crowd().figures();
        assert!(figures.objects >= 8 && figures.wrong_bytes == 0 && figures.failures == 0, "{figures:?}");
    });
}

#[test]
fn refusals_are_counted() {
    beside_origin(|address, _, _, served| {
        let mut load = Exchange::new(Repeat::new(2, Bytes::new(10), 10), ends(address), 2).unwrap();
        until("a refusal", || {
            load.run(Duration::from_millis(50)).unwrap();
            load.crowd().figures().failures > 0 && served.misses.load(Ordering::Relaxed) > 0
        });
    });
}
