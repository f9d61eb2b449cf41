use super::*;
use glassline_io::poll::Poller;
use glassline_transport::link::{CloseCode, Credentials, Key, Options, Settings};
use std::time::Duration;

/// A state with an endpoint that no thread serves, and the poller that its waker wakes.
fn shared() -> (Arc<Shared>, Poller) {
    let poller = Poller::new().unwrap();
    let waker = Waker::new(&poller, 0).unwrap();
    let settings = Settings::new(Credentials::Shared(Key([7; 32])));
    (Arc::new(Shared::new(Endpoint::new(settings, [3; 32]), waker)), poller)
}

fn is_woken(poller: &mut Poller) -> bool {
    let mut ready = Vec::new();
    poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
    !ready.is_empty()
}

fn closed(reason: CloseReason) -> Event {
    Event::Closed { reason }
}

#[test]
fn events_that_are_not_taken_push_the_oldest_out() {
    let mut peer = Peer::new();
    for channel in 0..MAX_EVENTS as u64 + 3 {
        peer.handle_event(Event::PassedOver { channel: 0, messages: channel });
    }
    assert_eq!((peer.events.len(), peer.lost_events), (MAX_EVENTS, 3));
    assert_eq!(peer.events.front(), Some(&Event::PassedOver { channel: 0, messages: 3 }));
}

#[test]
fn what_can_be_taken_is_noted_by_its_channel_and_is_no_event() {
    let mut peer = Peer::new();
    peer.readers = 1 << 5;
    peer.handle_event(Event::Readable { channel: 3 });
    assert_eq!((peer.readable, peer.readers, peer.events.len()), (1 << 3, 1 << 5, 0), "none waits for that");
    peer.handle_event(Event::Readable { channel: 63 });
    peer.handle_event(Event::Readable { channel: 5 });
    assert_eq!((peer.readable, peer.readers), (1 << 3 | 1 << 5 | 1 << 63, 0));
}

#[test]
fn why_a_link_does_not_go_on_is_known_until_it_does() {
    let mut peer = Peer::new();
    assert_eq!(peer.closed, None);
    peer.handle_event(Event::Suspended { reason: CloseReason::Unreachable });
    assert_eq!(peer.closed, Some(CloseReason::Unreachable));
    peer.handle_event(Event::Resumed);
    assert_eq!(peer.closed, None);
    peer.handle_event(closed(CloseReason::Local));
    assert_eq!(peer.closed, Some(CloseReason::Local));
    peer.handle_event(Event::PassedOver { channel: 0, messages: 1 });
    assert_eq!(peer.closed, Some(CloseReason::Local));
    peer.handle_event(Event::Connected { again: true });
    assert_eq!((peer.closed, peer.events.len()), (None, 5));
}

#[test]
fn a_thread_sleeps_only_where_nothing_was_handed_over_since_it_looked() {
    let (shared, mut poller) = shared();
    assert!(shared.lock().falls_asleep());
    shared.hand_over(shared.lock());
    assert!(is_woken(&mut poller), "it slept");
    shared.clear_wake();
    shared.lock().wakes_up();
    shared.hand_over(shared.lock());
    assert!(!is_woken(&mut poller), "it is awake and will look");
    assert!(!shared.lock().falls_asleep(), "there is something to do");
    assert!(shared.lock().falls_asleep(), "which it was told once");
    shared.nudge(&mut shared.lock());
    shared.nudge(&mut shared.lock());
    assert!(is_woken(&mut poller));
}

#[test]
fn a_link_is_there_while_the_endpoint_is() {
    let (shared, _poller) = shared();
    let mut state = shared.lock();
    let now = shared.clock.now();
    let path = glassline_transport::link::Path { remote: "127.0.0.1:9".parse().unwrap(), via: 0 };
    let id = state.endpoint.connect_any(now, &[path]).unwrap();
    assert!(state.link(id).is_ok());
    state.ended = true;
    assert_eq!(state.link(id).err(), Some(Error::Closed));
    state.ended = false;
    state.endpoint.forget(id);
    let link = state.link(id).map(|link| link.close(now, ""));
    assert!(link.is_err() || state.link(id).is_ok_and(|link| link.is_over()));
}

#[test]
fn events_of_a_link_without_a_handle_are_passed_over() {
    let (shared, _poller) = shared();
    let mut state = shared.lock();
    let now = shared.clock.now();
    let path = glassline_transport::link::Path { remote: "127.0.0.1:9".parse().unwrap(), via: 0 };
    let [kept, dropped] = [(); 2].map(|()| state.endpoint.connect_any(now, &[path]).unwrap());
    state.peer(kept).held = true;
    for id in [kept, dropped] {
        state.endpoint.link_mut(id).unwrap().close_with(now, CloseCode::Done, "over");
    }
    assert!(!state.distribute(), "no peer has connected");
    assert_eq!(state.peers.keys().collect::<Vec<_>>(), [&kept]);
    assert_eq!(state.peers[&kept].closed, Some(CloseReason::Local));
    assert!(state.waiting.is_empty());
}

#[test]
fn a_panic_with_the_state_in_hand_leaves_it_for_others() {
    let (shared, _poller) = shared();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _state = shared.lock();
        panic!("a test's");
    }));
    assert!(panicked.is_err());
    assert!(!shared.lock().ended);
    assert!(!shared.state.is_poisoned(), "it is whole again, and is made so once");
    let state = shared.lock();
    let now = shared.clock.now();
    let mut state = shared.wait(&shared.accepted, state, now);
    assert!(state.endpoint.connect_any(now, &[]).is_err(), "there is no address");
}

#[test]
fn a_wait_ends_with_its_time() {
    let (shared, _poller) = shared();
    let condvar = Condvar::new();
    let until = shared.clock.now() + Duration::from_millis(5);
    let mut state = shared.lock();
    while shared.clock.now() < until {
        state = shared.wait(&condvar, state, until);
    }
    // One that is over already is none.
    drop(shared.wait(&condvar, state, until));
}

#[test]
fn options_that_make_no_sense_are_refused_by_the_core() {
    let (shared, _poller) = shared();
    let mut state = shared.lock();
    let path = glassline_transport::link::Path { remote: "127.0.0.1:9".parse().unwrap(), via: 0 };
    let id = state.endpoint.connect_any(shared.clock.now(), &[path]).unwrap();
    assert!(state.link(id).unwrap().open(64, Options::default()).is_err());
}
