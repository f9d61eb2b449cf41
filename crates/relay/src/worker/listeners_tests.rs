use super::*;
use crate::inboxes::WAKE;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

fn opened(is_admin: bool) -> (Listen, Listener) {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = Listener::bind_group(any, 1).expect("a port").remove(0);
    (Listen { address: listener.local_address().expect("an address"), is_admin, tls: false }, listener)
}

/// The tokens that are told of within ten seconds.
fn told(poller: &mut Poller) -> Vec<u64> {
    let mut ready = Vec::new();
    poller.wait(Some(Duration::from_secs(10)), &mut ready).expect("a poller");
    ready.iter().map(|event| event.token).collect()
}

fn is_quiet(poller: &mut Poller) -> bool {
    let mut ready = Vec::new();
    poller.wait(Some(Duration::ZERO), &mut ready).expect("a poller");
    ready.is_empty()
}

#[test]
fn tokens_of_listeners_lie_above_those_of_connections_and_below_that_of_messages() {
    assert_eq!(Listeners::number(u64::MAX - 1024), Some(0));
    assert_eq!(Listeners::number(u64::MAX - 1000), Some(24));
    assert_eq!(Listeners::number(u64::MAX - 1025), None);
    // The highest token of a connection.
    assert_eq!(Listeners::number(super::super::token(u32::MAX, u32::MAX)), None);
    assert_eq!(Listeners::number(WAKE - 1), Some(1023));
}

#[test]
fn callers_are_told_of_by_the_number_of_their_listener_while_it_is_watched() {
    let (mut poller, mut listeners) = (Poller::new().expect("a poller"), Listeners::default());
    let (first, second) = (opened(false), opened(true));
    let address = second.0.address;
    listeners.extend(vec![first, second]);
    let caller = TcpStream::connect(address).expect("loopback");
    assert!(!listeners.are_watched() && is_quiet(&mut poller));
    listeners.watch(&poller).expect("a poller");
    assert!(listeners.are_watched());
    let numbers: Vec<_> = told(&mut poller).into_iter().map(Listeners::number).collect();
    assert_eq!(numbers, [Some(1)]);
    listeners.pause(&poller);
    assert!(!listeners.are_watched() && is_quiet(&mut poller), "the caller stays in the queue");
    listeners.watch(&poller).expect("a poller");
    assert_eq!(told(&mut poller).len(), 1);
    drop(caller);
}

#[test]
fn listeners_take_the_kind_that_is_wanted_and_others_are_closed() {
    let mut listeners = Listeners::default();
    let (kept, closed) = (opened(false), opened(false));
    let (address, gone) = (kept.0.address, closed.0.address);
    listeners.extend(vec![closed, kept]);
    let wanted = Listen { address, is_admin: true, tls: true };
    listeners.rearrange(|listen| (listen.address == address).then_some(&wanted));
    assert_eq!(listeners.all().iter().map(|(listen, _)| listen).collect::<Vec<_>>(), [&wanted]);
    assert_eq!(listeners.all()[0].1.local_address().expect("an address"), address);
    assert!(TcpStream::connect(gone).is_err(), "nothing listens there any more");
}
