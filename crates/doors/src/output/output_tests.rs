use super::*;
use crate::testing::{House, name, ts};
use glassline_io::poll::Waker;
use glassline_media::Time;
use glassline_test_support::wait::until;
use std::net::UdpSocket;

/// A server that sends the stream `a` to a socket of the test.
struct Bench {
    house: Arc<House>,
    receiver: UdpSocket,
}

impl Bench {
    fn new() -> Bench {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_nonblocking(true).unwrap();
        let bench = Bench { house: House::new(), receiver };
        bench.send(&["a"]);
        bench
    }

    /// These streams are sent from now on.
    fn send(&self, streams: &[&str]) {
        let url = format!("udp://{}", self.receiver.local_addr().unwrap());
        let destination = Destination::parse(&url).unwrap();
        let outputs: Vec<Output> = streams
            .iter()
            .map(|stream| Output { name: name(stream), destination: destination.clone() })
            .collect();
        let mut sent = self.house.sent.lock().unwrap();
        *sent = Arc::new(OutputTable::new(&outputs, &sent));
    }

    fn feeder(&self) -> Feeder {
        let poller = Poller::new().unwrap();
        self.house.wake_outputs_by(Waker::new(&poller, 0).unwrap());
        Feeder::new(Arc::clone(&self.house) as Arc<dyn Destinations>, poller)
    }

    fn received(&self) -> Vec<u8> {
        let (mut all, mut buffer) = (Vec::new(), [0; 2000]);
        while let Ok(count) = self.receiver.recv(&mut buffer) {
            all.extend_from_slice(&buffer[..count]);
        }
        all
    }

    /// Waits until so many bytes have come.
    fn receive(&self, count: usize) -> Vec<u8> {
        let mut all = Vec::new();
        until("datagrams", || {
            all.extend(self.received());
            all.len() >= count
        });
        all
    }
}

#[test]
fn without_outputs_there_is_no_thread() {
    let bench = Bench::new();
    bench.send(&[]);
    let mut feeder = bench.feeder();
    feeder.rearrange();
    let sending = Sending::start(feeder).unwrap();
    assert!(matches!(sending, Sending::Idle(_)));
    assert!(sending.join().is_some_and(|feeder| feeder.states().is_empty()));
}

#[test]
fn a_stream_that_is_published_later_is_sent_as_it_comes() {
    let bench = Bench::new();
    let mut feeder = bench.feeder();
    feeder.rearrange();
    let sending = Sending::start(feeder).unwrap();
    let (mut publisher, bytes) = (bench.house.publish("a"), ts(30));
    let (first, second) = bytes.split_at(14 * 188);
    for piece in [first, second] {
        publisher.push(piece).unwrap();
        assert_eq!(bench.receive(piece.len()), piece, "it is told of each");
    }
    bench.house.halt();
    let feeder = sending.join().expect("it did not panic");
    let told = counts(&feeder);
    assert!(
        told.iter()
            .all(|told| *told == [2 + (second.len() / 188).div_ceil(7) as u64, bytes.len() as u64, 0, 0])
    );
}

/// The counts of each output.
fn counts(feeder: &Feeder) -> Vec<[u64; 4]> {
    feeder.feeds.iter().map(|feed| feed.entry().counts()).collect()
}

#[test]
fn a_thread_that_was_halted_goes_on_with_what_it_had() {
    let bench = Bench::new();
    let mut feeder = bench.feeder();
    feeder.rearrange();
    let mut publisher = bench.house.publish("a");
    let sending = Sending::start(feeder).unwrap();
    let first = ts(10);
    publisher.push(&first).unwrap();
    assert_eq!(bench.receive(first.len()), first);
    bench.house.halt();
    let mut feeder = sending.join().expect("it did not panic");
    // What comes while it stands is sent when it goes on, and nothing twice.
    let second = glassline_test_support::ts::Source::default().picture(false, 10);
    publisher.push(&second).unwrap();
    bench.house.go_on();
    feeder.rearrange();
    let sending = Sending::start(feeder).unwrap();
    assert_eq!(bench.receive(second.len()), second);
    bench.house.halt();
    assert!(sending.join().is_some());
}

#[test]
fn outputs_that_are_wanted_no_more_are_fed_no_more_and_others_stay() {
    let bench = Bench::new();
    let mut feeder = bench.feeder();
    bench.send(&["a", "b"]);
    feeder.rearrange();
    let b = Arc::clone(feeder.feeds[1].entry());
    bench.send(&["b", "c"]);
    feeder.rearrange();
    let names: Vec<&str> = feeder.feeds.iter().map(|feed| feed.entry().name.as_str()).collect();
    assert_eq!(names, ["b", "c"]);
    assert!(Arc::ptr_eq(feeder.feeds[0].entry(), &b));
}

#[test]
fn an_output_that_panics_is_begun_anew_and_no_other_one_is() {
    let bench = Bench::new();
    bench.send(&["a", "b"]);
    let mut feeder = bench.feeder();
    feeder.rearrange();
    let [a, b] = [0, 1].map(|index| Arc::clone(feeder.feeds[index].entry()));
    let before = bench.house.clock().now();
    feeder.of_feed(0, |_| panic!("a test's"));
    let now = bench.house.clock().now();
    assert!(Arc::ptr_eq(feeder.feeds[0].entry(), &a) && Arc::ptr_eq(feeder.feeds[1].entry(), &b));
    let _publisher = bench.house.publish("a");
    let live = bench.house.streams().find(&name("a")).unwrap();
    feeder.handle_news(&live);
    let due = feeder.feeds[0].poll_timeout();
    let rest = Duration::from_secs(1);
    assert!(due >= before + rest && due <= now + rest, "{due:?}");
    assert_eq!(feeder.feeds[1].poll_timeout(), Time::NEVER);
}

#[test]
fn a_next_process_restores_the_outputs_that_it_still_has() {
    let bench = Bench::new();
    let mut feeder = bench.feeder();
    feeder.rearrange();
    feeder.feeds[0].entry().set_counts([1, 2, 3, 4]);
    let left = feeder.states();
    let next = Bench { house: House::new(), receiver: bench.receiver.try_clone().unwrap() };
    next.send(&["b", "a"]);
    let mut feeder = next.feeder();
    feeder.rearrange();
    feeder.restore(&left);
    assert_eq!(counts(&feeder), [[0; 4], [1, 2, 3, 4]]);
}
