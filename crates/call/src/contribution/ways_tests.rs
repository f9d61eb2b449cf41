use super::*;
use crate::link::Local;
use glassline_delivery::stream::{Backlog, FlushPolicy, Pacing, Prebuffer, Settings};
use glassline_io::clock::Clock;
use glassline_streams::{FreeNames, NoThreads};
use glassline_test_support::wait::PATIENCE;
use glassline_transport::link;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

fn streams() -> Arc<Streams> {
    let settings = Settings {
        backlog: Backlog { time: PATIENCE, bytes: 1 << 20 },
        flush: FlushPolicy::Frame,
        pacing: Pacing::Off,
        prebuffer: Prebuffer::NONE,
    };
    Arc::new(Streams::new(
        Arc::new(FreeNames { settings, max_streams: 1 }),
        Arc::new(NoThreads),
        Clock::new(),
    ))
}

/// Links of which one ends when the test lets go of the second value, and not before: its thread is in the midst of something.
fn busy(streams: &Arc<Streams>, end_max: Duration) -> (Arc<Ways>, Sender<()>) {
    let stream = StreamName::parse("hall").unwrap();
    let incoming = Incoming::new(streams, &stream, "link://test", PATIENCE);
    // Of documentation (RFC 5737), so no address of this machine: the attempt fails.
    let direction = super::super::Direction::Listen(Local::at("192.0.2.1:9".parse().unwrap()));
    let settings = link::Settings::new(link::Credentials::Insecure);
    let way = Way { name: "hall".to_owned(), settings, direction };
    let ((began, has_begun), (hold, held)) = (mpsc::channel(), mpsc::channel::<()>());
    let runner = Runner::start(way, Arc::clone(&incoming) as _, move |_| {
        let _ = began.send(());
        let _ = held.recv();
    });
    has_begun.recv_timeout(PATIENCE).unwrap();
    let ways = Ways::ending_within(end_max);
    let (identity, url) = ("hall".to_owned(), "link://test".to_owned());
    ways.lock().push(Running { identity, stream, url, end: End::In(incoming), forward: None, runner });
    (Arc::new(ways), hold)
}

fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (done, result) = mpsc::channel();
    thread::spawn(move || done.send(work()));
    result
}

#[test]
fn figures_are_told_while_a_link_is_waited_for() {
    let streams = streams();
    for is_end in [true, false] {
        let (ways, hold) = busy(&streams, PATIENCE * 10);
        let (ending, streams) = (Arc::clone(&ways), Arc::clone(&streams));
        let ended = beside(move || if is_end { ending.end() } else { ending.arrange(&streams, Vec::new()) });
        // It has begun to wait once the link is no longer in the list.
        let asking = Arc::clone(&ways);
        let asked = beside(move || {
            while !asking.sources().is_empty()
                || !asking.outputs(&StreamName::parse("hall").unwrap()).is_empty()
            {
                thread::yield_now();
            }
        });
        asked.recv_timeout(PATIENCE).expect("figures");
        assert!(ended.try_recv().is_err(), "the link has not ended yet");
        drop(hold);
        ended.recv_timeout(PATIENCE).unwrap();
    }
}

#[test]
fn the_end_of_links_takes_no_longer_than_it_may() {
    let (ways, _hold) = busy(&streams(), Duration::from_millis(10));
    beside(move || ways.end()).recv_timeout(PATIENCE).expect("what hangs is not waited for");
}
