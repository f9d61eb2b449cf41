use super::*;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Tells when it is called, and is due each 10 ms for so many times.
struct Told {
    sender: Mutex<Sender<Time>>,
    due: Mutex<Vec<Time>>,
}

impl Endpoint for Told {
    fn handle_ready(self: Arc<Self>, now: Time) {
        self.due.lock().unwrap().retain(|due| *due > now);
        let _ = self.sender.lock().unwrap().send(now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.due.lock().unwrap().first().copied()
    }
}

fn told(due: Vec<Time>) -> (Arc<Told>, Receiver<Time>) {
    let (sender, receiver) = channel();
    (Arc::new(Told { sender: Mutex::new(sender), due: Mutex::new(due) }), receiver)
}

const LONG: Duration = Duration::from_secs(20);

#[test]
fn endpoints_are_called_when_their_time_has_come_and_when_their_socket_is_ready() {
    let network = Network::start().unwrap();
    let place = network.register();
    let now = place.now();
    let (endpoint, calls) = told([10, 20].map(|millis| now + Duration::from_millis(millis)).into());
    place.serve(&endpoint);
    for millis in [10, 20] {
        assert!(calls.recv_timeout(LONG).unwrap() >= now + Duration::from_millis(millis));
    }
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    place.watch(&ours).unwrap();
    // It can be written to.
    calls.recv_timeout(LONG).unwrap();
    theirs.write_all(b"x").unwrap();
    calls.recv_timeout(LONG).unwrap();
    place.forget(&ours).unwrap();
}

#[test]
fn an_endpoint_that_is_gone_is_forgotten_and_the_thread_ends_with_its_owner() {
    let network = Network::start().unwrap();
    let place = network.register();
    let (endpoint, calls) = told(vec![Time::ZERO]);
    place.serve(&endpoint);
    calls.recv_timeout(LONG).unwrap();
    let left = Arc::downgrade(&endpoint);
    drop(endpoint);
    // The thread may be about to let go of it.
    while left.strong_count() > 0 {
        thread::yield_now();
    }
    assert_eq!(network.register().token, 0);
    drop(network);
    assert!(calls.recv_timeout(LONG).is_err());
}

#[test]
fn an_endpoint_that_panics_is_served_no_more_and_the_others_are() {
    /// Is due at once, for ever, and panics.
    struct Panics(Mutex<Sender<()>>);

    impl Endpoint for Panics {
        fn handle_ready(self: Arc<Self>, _: Time) {
            let told = self.0.lock().unwrap().send(());
            panic!("the test's own: {told:?}");
        }

        fn poll_timeout(&self) -> Option<Time> {
            Some(Time::ZERO)
        }
    }

    let network = Network::start().unwrap();
    let (bad, good) = (network.register(), network.register());
    let (sender, calls) = channel();
    let panics = Arc::new(Panics(Mutex::new(sender)));
    bad.serve(&panics);
    calls.recv_timeout(LONG).unwrap();
    let (endpoint, good_calls) = told(vec![Time::ZERO]);
    good.serve(&endpoint);
    good_calls.recv_timeout(LONG).unwrap();
    // The thread has come back from its panic, and has looked at all of them since.
    assert!(calls.try_recv().is_err(), "once was enough");
    assert!(!network.shared.lock().contains_key(&bad.token));
    assert!(network.shared.lock().contains_key(&good.token));
}

#[test]
fn a_time_that_becomes_earlier_is_heeded_when_the_thread_is_woken() {
    /// Tells that it was asked for its time, and that it was called.
    struct Looked {
        due: Mutex<Option<Time>>,
        looks: Mutex<Sender<()>>,
        calls: Mutex<Sender<()>>,
    }

    impl Endpoint for Looked {
        fn handle_ready(self: Arc<Self>, _: Time) {
            *self.due.lock().unwrap() = None;
            let _ = self.calls.lock().unwrap().send(());
        }

        fn poll_timeout(&self) -> Option<Time> {
            let due = *self.due.lock().unwrap();
            let _ = self.looks.lock().unwrap().send(());
            due
        }
    }

    let network = Network::start().unwrap();
    let place = network.register();
    let ((look, looks), (call, calls)) = (channel(), channel());
    let endpoint =
        Arc::new(Looked { due: Mutex::new(None), looks: Mutex::new(look), calls: Mutex::new(call) });
    place.serve(&endpoint);
    looks.recv_timeout(LONG).expect("the thread looks at what is new");
    // It has seen that there is nothing to wait for, and looks again only when it is woken.
    *endpoint.due.lock().unwrap() = Some(place.now());
    place.wake();
    calls.recv_timeout(LONG).expect("its time has come");
}

#[test]
fn each_endpoint_has_a_place_of_its_own_and_places_of_those_that_are_gone_are_given_again() {
    let network = Network::start().unwrap();
    let (endpoints, places): (Vec<_>, Vec<_>) = (0..3)
        .map(|_| {
            let (place, (endpoint, _)) = (network.register(), told(Vec::new()));
            place.serve(&endpoint);
            (endpoint, place.token)
        })
        .unzip();
    assert_eq!(places, [0, 1, 2]);
    let held = network.register();
    assert_eq!(
        (held.token, network.register().token),
        (3, 4),
        "one that has no endpoint yet is held as well"
    );
    drop(held);
    assert_eq!(network.register().token, 3, "and free again where none will come");
    drop(endpoints);
}

#[test]
fn an_endpoint_is_told_of_its_own_socket_alone_and_of_none_that_it_has_given_up() {
    let network = Network::start().unwrap();
    let ((one, calls), (other, other_calls)) = (told(Vec::new()), told(Vec::new()));
    let (place, other_place) = (network.register(), network.register());
    place.serve(&one);
    other_place.serve(&other);
    let ((ours, mut theirs), (others, mut peer)) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
    for socket in [&ours, &others] {
        socket.set_nonblocking(true).unwrap();
    }
    place.watch(&ours).unwrap();
    calls.recv_timeout(LONG).expect("it can be written to");
    assert!(other_calls.try_recv().is_err(), "that was not its socket");
    place.forget(&ours).unwrap();
    theirs.write_all(b"x").unwrap();
    // What comes later at another socket has come to its endpoint: until then the thread has seen all before it.
    other_place.watch(&others).unwrap();
    other_calls.recv_timeout(LONG).expect("it can be written to");
    peer.write_all(b"x").unwrap();
    other_calls.recv_timeout(LONG).expect("something has come");
    assert!(calls.try_recv().is_err());
}
