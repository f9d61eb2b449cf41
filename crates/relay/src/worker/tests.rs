//! Workers without a thread of their own: what they admit, what they close, and what they make anew after a fault.

use super::*;
use crate::listen::Listen;
use crate::test_connections::{TestSite, chunk, get, opening, put};
use crate::test_streams::{hub_with, name};
use crate::wire::Wire;
use glassline_io::tcp::{Connection as Socket, Listener};
use glassline_streams::ConnectionId;
use glassline_streams::presence::Purpose;
use glassline_test_support::wait::{until, until_some};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A worker that listens on this machine, with the address.
fn worker_with(
    change: impl FnOnce(&mut Settings),
    limit: usize,
    kinds: &[bool],
) -> (Worker, Vec<SocketAddr>) {
    let mut settings = Settings { listen: Vec::new(), ..Settings::default() };
    settings.stream.pacing = glassline_delivery::stream::Pacing::Off;
    change(&mut settings);
    let hub = hub_with(settings, 1, Arc::new(TestSite::default())).into_shared();
    let mut worker = Worker::new(hub, 0, Poller::new().expect("a poller"));
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listeners: Vec<_> = kinds
        .iter()
        .map(|is_admin| {
            let listener = Listener::bind_group(any, 1).expect("a port").remove(0);
            let address = listener.local_address().expect("an address");
            (Listen { address, is_admin: *is_admin, tls: false }, listener)
        })
        .collect();
    let addresses = listeners.iter().map(|(listen, _)| listen.address).collect();
    worker.reconfigure(listeners, limit);
    (worker, addresses)
}

fn worker(limit: usize) -> (Worker, SocketAddr) {
    let (worker, addresses) = worker_with(|_| {}, limit, &[false]);
    (worker, addresses[0])
}

/// A client that has connected, and how many connections the worker had seen before.
fn call(address: SocketAddr) -> Socket {
    let socket = std::net::TcpStream::connect(address).expect("loopback");
    socket.set_nonblocking(true).expect("a socket");
    Socket::from_descriptor(socket.into())
}

/// Has the worker accept until it has seen `count` callers in all.
fn accept(worker: &mut Worker, count: u64) {
    until("the callers", || {
        worker.accept(0);
        let counters = &worker.hub.counters;
        counters.accepted.value() + counters.refused.value() == count
    });
}

/// What a caller reads, up to where `enough` says so.
fn read(socket: &Socket, mut enough: impl FnMut(&[u8]) -> bool) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    until("what is read", || {
        if let Some(count @ 1..) = socket.read(&mut buffer).expect("an open socket") {
            all.extend_from_slice(&buffer[..count]);
        }
        enough(&all)
    });
    all
}

fn counted(worker: &Worker, purpose: Purpose) -> usize {
    crate::test_connections::counted(&worker.hub, HERE, purpose)
}

/// The connection in `slot` has turns until the worker has had all that its peer sent, which `done` sees.
fn turns(worker: &mut Worker, slot: usize, mut done: impl FnMut(&Worker) -> bool) {
    until("its turns", || {
        let token = token(worker.slots[slot].generation, slot as u32);
        worker.turn(token);
        done(worker)
    });
}

/// A caller that has had one answer, and rests.
fn rested(worker: &mut Worker, address: SocketAddr, count: u64) -> Socket {
    let socket = call(address);
    accept(worker, count);
    socket.write(get("/page").as_bytes()).expect("an open socket");
    let slot = worker.slots.iter().rposition(|slot| slot.connection.is_some()).unwrap();
    let before = worker.hub.counters.requests.value();
    turns(worker, slot, |worker| worker.hub.counters.requests.value() > before);
    read(&socket, |bytes| bytes.ends_with(b"/page"));
    socket
}

#[test]
fn a_connection_is_counted_from_its_coming_to_its_going() {
    let (mut worker, address) = worker(10);
    let caller = call(address);
    accept(&mut worker, 1);
    let counters = &worker.hub.counters;
    assert_eq!((counters.accepted.value(), counters.connections.value(), worker.connections), (1, 1, 1));
    assert_eq!((counted(&worker, Purpose::Connect), counted(&worker, Purpose::Ask)), (1, 1));
    worker.close(0);
    let counters = &worker.hub.counters;
    assert_eq!((counters.accepted.value(), counters.connections.value(), worker.connections), (1, 0, 0));
    assert_eq!((counted(&worker, Purpose::Connect), counted(&worker, Purpose::Ask)), (0, 0));
    until("its end", || matches!(caller.read(&mut [0]), Ok(Some(0))));
    worker.close(0);
    assert_eq!(worker.connections, 0, "it is closed once");
}

#[test]
fn a_slot_is_used_again_and_an_old_token_means_no_one() {
    let (mut worker, address) = worker(10);
    let _first = call(address);
    accept(&mut worker, 1);
    let old = token(worker.slots[0].generation, 0);
    assert_eq!(worker.slot(old), Some(0));
    worker.close(0);
    let _second = call(address);
    accept(&mut worker, 2);
    assert_eq!((worker.slots.len(), worker.slot(old)), (1, None));
    let new = token(worker.slots[0].generation, 0);
    assert_eq!((worker.slot(new), new - old), (Some(0), 1 << 32));
    // A turn for the old token leaves the new connection alone.
    worker.turn(old);
    assert_eq!(worker.connections, 1);
    assert_eq!(worker.slot(token(0, 77)), None);
}

#[test]
fn generations_begin_anew_before_a_token_could_be_a_listeners() {
    let (mut worker, address) = worker(10);
    let _caller = call(address);
    accept(&mut worker, 1);
    worker.slots[0].generation = 0x7FFF_FFFF;
    worker.close(0);
    assert_eq!(worker.slots[0].generation, 0);
    assert_eq!(token(0xFFFF_FFFF, 5), 0x7FFF_FFFF_0000_0005);
}

#[test]
fn a_worker_with_all_the_connections_it_may_have_refuses_the_next_one_and_says_why() {
    let (mut worker, address) = worker(1);
    let _first = call(address);
    accept(&mut worker, 1);
    let second = call(address);
    accept(&mut worker, 2);
    let counters = &worker.hub.counters;
    assert_eq!((counters.accepted.value(), counters.refused.value(), counters.gave_way.value()), (1, 1, 0));
    assert_eq!((worker.connections, counted(&worker, Purpose::Connect)), (1, 1));
    let told = String::from_utf8(read(&second, |bytes| bytes.ends_with(b"\n"))).unwrap();
    assert!(told.starts_with("HTTP/1.1 503 ") && told.contains("\r\nRetry-After: 1\r\n"), "{told}");
}

#[test]
fn the_connection_that_has_rested_longest_gives_way() {
    let (mut worker, address) = worker(2);
    let first = rested(&mut worker, address, 1);
    let second = rested(&mut worker, address, 2);
    let _third = call(address);
    accept(&mut worker, 3);
    let counters = &worker.hub.counters;
    assert_eq!((counters.accepted.value(), counters.refused.value(), counters.gave_way.value()), (3, 0, 1));
    assert_eq!(worker.connections, 2);
    let ended = |socket: &Socket| matches!(socket.read(&mut [0]), Ok(Some(0)));
    until("the first one's end", || ended(&first));
    assert!(!ended(&second));
}

#[test]
fn an_address_has_as_many_connections_as_it_may_have_and_operators_any_number() {
    let (mut worker, addresses) =
        worker_with(|settings| settings.max_connections_per_address = 1, 10, &[false, true]);
    let _first = call(addresses[0]);
    accept(&mut worker, 1);
    let _second = call(addresses[0]);
    accept(&mut worker, 2);
    assert_eq!((worker.connections, worker.hub.counters.refused.value()), (1, 1));
    let _operator = call(addresses[1]);
    until("the operator", || {
        worker.accept(1);
        worker.connections == 2
    });
    assert_eq!((counted(&worker, Purpose::Connect), counted(&worker, Purpose::Ask)), (2, 1));
    worker.close(1);
    assert_eq!((counted(&worker, Purpose::Connect), counted(&worker, Purpose::Ask)), (1, 1));
}

#[test]
fn an_address_has_as_many_unanswered_connections_as_it_may_have() {
    let (mut worker, addresses) =
        worker_with(|settings| settings.max_unanswered_per_address = 2, 10, &[false]);
    let callers: Vec<_> = (0..3).map(|_| call(addresses[0])).collect();
    accept(&mut worker, 3);
    let counters = &worker.hub.counters;
    assert_eq!((counters.accepted.value(), counters.refused.value()), (2, 1));
    assert_eq!(counters.refused_unanswered.value(), 1);
    assert_eq!((counted(&worker, Purpose::Connect), counted(&worker, Purpose::Ask)), (2, 2));
    // One of them has its answer, which makes room.
    callers[0].write(get("/page").as_bytes()).expect("an open socket");
    turns(&mut worker, 0, |worker| counted(worker, Purpose::Ask) == 1);
    let _fourth = call(addresses[0]);
    accept(&mut worker, 4);
    assert_eq!(worker.hub.counters.accepted.value(), 3);
}

#[test]
fn unanswered_connections_of_an_address_are_half_of_all_at_most() {
    let (mut worker, address) = worker(4);
    let _callers: Vec<_> = (0..3).map(|_| call(address)).collect();
    accept(&mut worker, 3);
    assert_eq!((worker.connections, worker.hub.counters.refused_unanswered.value()), (2, 1));
    let (mut worker, addresses) =
        worker_with(|settings| settings.max_unanswered_per_address = 0, 4, &[false]);
    let _callers: Vec<_> = (0..3).map(|_| call(addresses[0])).collect();
    accept(&mut worker, 3);
    assert_eq!(worker.connections, 3, "0 is any number");
}

#[test]
fn a_sweep_takes_the_settings_of_the_moment_and_ends_what_is_late() {
    let (mut worker, address) = worker(10);
    let late = call(address);
    accept(&mut worker, 1);
    let mut settings = (*worker.hub.settings()).clone();
    settings.stall_timeout = Duration::from_secs(77);
    worker.hub.reconfigure(settings);
    let now = worker.hub.clock.now();
    worker.sweep(now);
    assert_eq!(worker.settings.stall_timeout, Duration::from_secs(77));
    assert_eq!(worker.connections, 1);
    let head_time = worker.settings.http.head_time;
    worker.sweep(now + head_time);
    // It has said nothing: it is told nothing.
    assert_eq!((worker.connections, worker.hub.counters.timed_out.value()), (0, 1));
    until("its end", || matches!(late.read(&mut [0]), Ok(Some(0))));
}

#[test]
fn a_paused_worker_listens_again_with_its_next_sweep() {
    let (mut worker, _) = worker(10);
    assert!(worker.listeners.are_watched());
    worker.listeners.pause(&worker.poller);
    worker.sweep(worker.hub.clock.now());
    assert!(worker.listeners.are_watched());
}

/// A worker with a publisher of the stream `a` in slot 0, and a viewer in slot 1.
fn show() -> (Worker, [Socket; 2]) {
    let (mut worker, address) = worker(10);
    let publisher = call(address);
    accept(&mut worker, 1);
    let bytes = [put("/live/a.ts").into_bytes(), chunk(&opening(3).1)].concat();
    assert_eq!(publisher.write(&bytes).expect("an open socket"), Some(bytes.len()));
    turns(&mut worker, 0, |worker| {
        worker.hub.streams.all().first().is_some_and(|live| live.bytes_in() == 940)
    });
    let viewer = call(address);
    accept(&mut worker, 2);
    viewer.write(get("/live/a.ts").as_bytes()).expect("an open socket");
    turns(&mut worker, 1, |worker| worker.audiences.streams().count() == 1);
    read(&viewer, |bytes| bytes.windows(940).any(|window| window == opening(3).1));
    (worker, [publisher, viewer])
}

#[test]
fn a_viewer_is_served_with_news_of_its_stream_and_a_publisher_is_known_as_one() {
    let (mut worker, [publisher, viewer]) = show();
    assert_eq!(worker.publishers, [token(0, 0)]);
    let mut source = opening(3).0;
    let picture = source.picture(false, 4);
    let bytes = chunk(&picture);
    publisher.write(&bytes).expect("an open socket");
    let live = worker.hub.streams.find(&name("a")).unwrap();
    turns(&mut worker, 0, |_| live.bytes_in() == 940 + 4 * 188);
    worker.serve_news();
    assert_eq!(read(&viewer, |bytes| bytes.len() >= picture.len()), picture);
    assert!(worker.buffers.news.is_empty());
}

#[test]
fn a_viewer_that_goes_leaves_the_audience_and_the_roster() {
    let (mut worker, [_publisher, viewer]) = show();
    let now = worker.hub.clock.now();
    worker.sampling.look(&worker.hub.roster, 0, &mut worker.slots, now);
    assert_eq!(worker.hub.clients(None, 10).list.len(), 1);
    drop(viewer);
    turns(&mut worker, 1, |worker| worker.connections == 1);
    assert_eq!((worker.audiences.streams().count(), worker.hub.clients(None, 10).list.len()), (0, 0));
    assert_eq!(worker.hub.streams.find(&name("a")).unwrap().viewers(), 0);
    assert_eq!(worker.free, [1]);
}

#[test]
fn a_worker_makes_all_it_knows_anew_after_a_fault() {
    let (mut worker, [publisher, viewer]) = show();
    // What a panic may have left: connections that are lost, lists that are wrong.
    worker.hub.counters.connections.add(3);
    worker.connections += 3;
    worker.publishers.clear();
    worker.audiences.clear();
    worker.resting = Resting::default();
    worker.free = vec![0, 1];
    worker.unfinished = vec![99];
    let live = worker.hub.streams.find(&name("a")).unwrap();
    worker.recover();
    assert_eq!((worker.connections, worker.hub.counters.connections.value()), (2, 2));
    assert_eq!((&worker.publishers[..], &worker.free[..]), (&[token(0, 0)][..], &[][..]));
    assert!(worker.unfinished.is_empty());
    assert_eq!(worker.again, [token(0, 0), token(0, 1)], "each looks for what it has missed");
    assert!(worker.audiences.streams().map(|live| live.id).eq([live.id]) && worker.audiences.are_sound());
    let picture = opening(3).0.picture(false, 4);
    publisher.write(&chunk(&picture)).expect("an open socket");
    turns(&mut worker, 0, |_| live.bytes_in() == 940 + 4 * 188);
    worker.serve_news();
    assert_eq!(read(&viewer, |bytes| bytes.len() >= picture.len()), picture);
}

#[test]
fn resting_connections_are_known_again_after_a_fault() {
    let (mut worker, address) = worker(10);
    let _first = rested(&mut worker, address, 1);
    worker.resting = Resting::default();
    worker.recover();
    assert_eq!(worker.resting.longest(Some(HERE)), Some(token(0, 0)));
    worker.close(0);
    assert_eq!(worker.resting.longest(None), None);
    worker.recover();
    assert_eq!((&worker.free[..], worker.connections), (&[0][..], 0));
}

#[test]
fn a_publisher_whose_turn_panics_is_closed_and_its_slot_is_free() {
    let (mut worker, [publisher, _viewer]) = show();
    let live = worker.hub.streams.find(&name("a")).unwrap();
    let calls = AtomicUsize::new(0);
    worker.with(token(0, 0), |_, _| {
        calls.fetch_add(1, Ordering::Relaxed);
        panic!("a test's");
    });
    assert_eq!((calls.into_inner(), worker.connections), (1, 1));
    assert_eq!((live.published_since(), counted(&worker, Purpose::Publish)), (None, 0));
    assert_eq!(worker.hub.counters.connections.value(), 1);
    until("its end", || matches!(publisher.read(&mut [0; 99]), Ok(Some(0)) | Err(_)));
}

#[test]
fn a_viewer_that_is_paced_is_come_back_to_once() {
    let (mut worker, _sockets) = show();
    let at = worker.hub.clock.now();
    worker.expect(1, at);
    worker.expect(1, at);
    worker.expect(0, at);
    assert_eq!(worker.paced.len(), 1, "a publisher is not");
    worker.serve_paced();
    assert!(worker.paced.is_empty());
    let (viewer, _) = worker.slots[1].connection.as_mut().unwrap().viewer().unwrap();
    assert!(!viewer.is_expected);
    // One that has gone meanwhile is passed over.
    worker.expect(1, at);
    worker.close(1);
    worker.serve_paced();
    assert!(worker.paced.is_empty() && worker.connections == 1);
}

#[test]
fn a_connection_from_another_process_is_counted_as_if_it_had_come_here() {
    let (mut worker, _) = worker(10);
    let (ours, _theirs) = Socket::pair(4096).expect("a pair of sockets");
    let settings = worker.hub.settings();
    let mut made = None;
    let adopted = worker.adopt(Wire::plain(ours), |wire, id| {
        made = Some(id);
        Some(Connection::new(wire, SocketAddr::new(HERE, 5000), false, id, &settings, Time::ZERO))
    });
    assert!(adopted.expect("a poller"));
    assert_eq!(made, Some(ConnectionId { worker: 0, token: token(0, 0) }));
    assert_eq!((worker.connections, worker.hub.counters.connections.value()), (1, 1));
    assert_eq!((worker.hub.counters.accepted.value(), counted(&worker, Purpose::Connect)), (0, 1));
    assert_eq!(worker.connections().map(|(slot, _)| slot).collect::<Vec<_>>(), [0]);
    // One of which nothing can be made leaves its slot to the next.
    let (ours, _theirs) = Socket::pair(4096).expect("a pair of sockets");
    assert!(!worker.adopt(Wire::plain(ours), |_, _| None).expect("a poller"));
    assert_eq!((worker.connections, &worker.free[..], worker.slots.len()), (1, &[1][..], 2));
    assert!(worker.part_with(0).is_some());
    assert!(worker.part_with(0).is_none() && worker.part_with(9).is_none());
}

#[test]
fn a_worker_has_room_for_one_connection_whatever_the_limit() {
    let (mut worker, _) = worker(0);
    assert_eq!(worker.limit, 1);
    worker.reconfigure(Vec::new(), 5);
    assert_eq!((worker.limit, worker.listeners().len()), (5, 1), "listeners stay");
    let none: Option<&Listen> = None;
    worker.rearrange_listeners(|_| none);
    assert!(worker.listeners().is_empty() && !worker.listeners.are_watched());
}

#[test]
fn a_message_that_a_name_was_taken_over_comes_to_its_publisher() {
    let (mut worker, [publisher, _viewer]) = show();
    let live = worker.hub.streams.find(&name("a")).unwrap();
    live.acquire(None, true, None, worker.hub.clock.now());
    worker.hub.inboxes.send(0, Message::Stream(News::Evicted(token(0, 0))));
    worker.handle(Event { token: WAKE, ..wake() }, &mut Vec::new());
    let told = read(&publisher, |bytes| bytes.ends_with(b"\n"));
    assert!(told.starts_with(b"HTTP/1.1 409 "), "{}", String::from_utf8_lossy(&told));
}

/// An event as epoll tells it.
fn wake() -> Event {
    let poller = Poller::new().expect("a poller");
    let waker = glassline_io::poll::Waker::new(&poller, WAKE).expect("a waker");
    waker.wake();
    until_some("an event", || {
        let mut ready = Vec::new();
        poller.wait(Some(Duration::ZERO), &mut ready).expect("a poller");
        ready.first().copied()
    })
}

#[test]
fn a_worker_that_stops_closes_all_it_has_and_one_that_halts_keeps_it() {
    let (mut worker, _sockets) = show();
    worker.hub.enter(crate::hub::Phase::Halted);
    worker = worker.run();
    assert_eq!(worker.connections, 2);
    worker.hub.enter(crate::hub::Phase::Stopping);
    worker = worker.run();
    assert_eq!((worker.connections, worker.hub.counters.connections.value()), (0, 0));
    assert_eq!(worker.hub.streams.find(&name("a")).unwrap().viewers(), 0);
}
