use super::*;
use crate::connection::Slot;
use crate::test_connections::{PEER, Stage, beside, chunk, get, opening, put, stage};
use crate::test_streams::{live, name};
use crate::wire::Wire;
use glassline_io::tcp::Connection as Socket;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;

fn observed(at: u64, bytes_sent: u64, behind_ms: u32) -> Observation {
    Observation {
        at: Time::from_millis(at),
        info: PackedInfo::new(Info { busy_us: Some(at * 1000), ..Info::default() }),
        bytes_sent,
        waiting_bytes: 0,
        behind_ms,
        moved_forward: 0,
        pace_bps: 0,
        is_placed: true,
        is_blocked: true,
    }
}

fn address(last: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, last)), 5000)
}

fn entry(token: u64, live: &Arc<Live>, newest: Observation) -> Entry {
    Entry::new(token, Arc::clone(live), address(token as u8), Time::ZERO, newest)
}

/// A roster of `workers`, with these entries at the places of their slots.
fn roster(workers: Vec<Vec<Option<Entry>>>) -> Roster {
    let roster = Roster::new(workers.len());
    for (worker, entries) in workers.into_iter().enumerate() {
        *roster.lock(worker) = entries.into_iter().map(|entry| entry.map(Box::new)).collect();
    }
    roster
}

fn waiting(observation: Observation) -> Observation {
    Observation { is_placed: false, ..observation }
}

#[test]
fn a_rate_is_that_of_the_last_second_or_more() {
    let live = live(1, "a", 1);
    let mut viewer = entry(1, &live, observed(0, 0, 0));
    let mut rates = Vec::new();
    for (at, bytes) in
        [(250, 10_000), (999, 90_000), (1000, 125_000), (1500, 500_000), (2500, 500_000), (4500, 750_000)]
    {
        viewer.look(observed(at, bytes, 0));
        rates.push(viewer.client(Time::from_millis(at)).rate_bps);
    }
    assert_eq!(rates, [None, None, Some(1_000_000), Some(1_000_000), Some(2_000_000), Some(1_000_000)]);
}

#[test]
fn why_a_viewer_is_slow_is_judged_over_a_second_and_forgotten_when_it_is_live_again() {
    let live = live(1, "a", 1);
    let mut viewer = entry(1, &live, observed(0, 0, 5000));
    assert_eq!(viewer.why, Why::Fine, "one look says nothing");
    viewer.look(observed(999, 0, 5000));
    assert_eq!(viewer.why, Why::Fine);
    viewer.look(observed(1000, 0, 5000));
    assert_eq!(viewer.why, Why::Network, "its socket was full and busy for all of the second");
    viewer.look(observed(1100, 0, 200));
    assert_eq!(viewer.why, Why::Network, "it is still slow");
    viewer.look(observed(1200, 0, 199));
    assert_eq!(viewer.why, Why::Fine);
}

#[test]
fn what_was_sent_again_is_added_to_the_streams_count_once() {
    let live = live(1, "a", 1);
    let again = |at, total_retrans| Observation {
        info: PackedInfo::new(Info { total_retrans, ..Info::default() }),
        ..observed(at, 0, 0)
    };
    let mut viewer = entry(1, &live, again(0, 5));
    for (at, total) in [(100, 7), (200, 7), (300, 4), (400, 5)] {
        viewer.look(again(at, total));
    }
    assert_eq!(
        live.counters.retransmitted.value(),
        2 + 1,
        "what it had before, and a count that falls, add nothing"
    );
}

#[test]
fn a_viewer_is_told_as_it_was_seen() {
    let live = live(1, "a", 1);
    let info = Info { rtt_us: 30_000, notsent_bytes: Some(1000), ..Info::default() };
    let newest = Observation {
        info: PackedInfo::new(info),
        waiting_bytes: 5000,
        moved_forward: 3,
        pace_bps: 9_000_000,
        ..observed(2000, 123, 700)
    };
    let viewer = Entry::new(1, Arc::clone(&live), address(7), Time::from_millis(500), newest);
    let told = viewer.client(Time::from_millis(2600));
    assert_eq!((told.address, told.stream), (address(7), name("a")));
    assert_eq!((told.joined, told.seen), (Duration::from_millis(2100), Duration::from_millis(600)));
    assert_eq!((told.bytes_sent, told.behind_bytes, told.moved_forward), (123, 6000, 3));
    assert_eq!((told.behind, told.pace_bps), (Some(Duration::from_millis(700)), Some(9_000_000)));
    assert_eq!((told.tcp, told.rate_bps, told.why), (info, None, Why::Fine));
    let unpaced = entry(2, &live, waiting(observed(0, 0, 700))).client(Time::ZERO);
    assert_eq!(
        (unpaced.behind, unpaced.pace_bps),
        (None, None),
        "one that waits for a key frame lacks nothing"
    );
}

#[test]
fn viewers_are_listed_furthest_behind_first_and_those_that_wait_last() {
    let (a, b) = (live(1, "a", 2), live(2, "b", 2));
    let roster = roster(vec![
        vec![Some(entry(10, &a, observed(0, 0, 40))), None, Some(entry(11, &b, observed(0, 0, 3000)))],
        vec![Some(entry(12, &a, waiting(observed(0, 0, 9000)))), Some(entry(13, &a, observed(0, 0, 900)))],
    ]);
    let listed = |stream: Option<&str>, limit| {
        let stream = stream.map(name);
        let clients = roster.clients(stream.as_ref(), limit, Time::ZERO);
        let behind: Vec<_> =
            clients.list.iter().map(|client| client.behind.map(|it| it.as_millis())).collect();
        (behind, clients.why.iter().sum::<u32>())
    };
    assert_eq!(listed(None, 10), (vec![Some(3000), Some(900), Some(40), None], 4));
    assert_eq!(listed(None, 2), (vec![Some(3000), Some(900)], 4), "all are counted, listed or not");
    assert_eq!(listed(Some("a"), 10), (vec![Some(900), Some(40), None], 3));
    assert_eq!(listed(Some("c"), 10), (vec![], 0));
    assert_eq!(listed(None, 0), (vec![], 4));
}

#[test]
fn rates_of_all_viewers_are_added_up() {
    let live = live(1, "a", 1);
    let mut one = entry(1, &live, observed(0, 0, 0));
    let mut other = entry(2, &live, observed(0, 0, 0));
    one.look(observed(1000, 1000, 0));
    other.look(observed(2000, 1000, 0));
    let roster = roster(vec![vec![Some(one), Some(other), Some(entry(3, &live, observed(0, 9, 0)))]]);
    assert_eq!(roster.clients(None, 0, Time::ZERO).rate_bps, 8000 + 4000);
}

#[test]
fn a_viewer_that_has_gone_is_told_of_no_more() {
    let live = live(1, "a", 1);
    let roster = roster(vec![vec![
        Some(entry(1, &live, observed(0, 0, 1))),
        Some(entry(2, &live, observed(0, 0, 2))),
    ]]);
    roster.leave(0, 0);
    roster.leave(0, 7);
    let left: Vec<_> = roster.clients(None, 9, Time::ZERO).list.iter().map(|client| client.address).collect();
    assert_eq!(left, [address(2)]);
}

#[test]
fn audiences_are_told_by_the_numbers_of_their_streams() {
    let (a, b) = (live(1, "a", 2), live(2, "b", 2));
    let slow = |token| {
        let mut viewer = entry(token, &a, observed(0, 0, 5000));
        viewer.look(observed(1000, 0, 5000));
        viewer
    };
    let roster = roster(vec![
        vec![Some(slow(1)), Some(entry(2, &b, waiting(observed(0, 0, 0))))],
        vec![None, Some(entry(3, &a, observed(0, 0, 20)))],
    ]);
    let audiences = roster.audiences();
    assert_eq!(audiences.keys().collect::<Vec<_>>(), [&1, &2]);
    let mut behind = audiences[&1].behind_ms.clone();
    behind.sort_unstable();
    assert_eq!(behind, [20, 5000]);
    assert_eq!((audiences[&1].why[Why::Network as usize], audiences[&1].why[Why::Fine as usize]), (1, 1));
    assert_eq!((audiences[&2].behind_ms.len(), audiences[&2].why[Why::Fine as usize]), (0, 1));
}

#[test]
fn viewers_are_looked_at_more_often_for_ten_seconds_after_a_request_for_them() {
    let (roster, at) = (Roster::new(1), Time::from_millis);
    assert!(!roster.has_attention(at(0)) && !roster.has_attention(at(5000)));
    roster.clients(None, 1, at(5000));
    assert!(roster.has_attention(at(5000)) && roster.has_attention(at(14_999)));
    assert!(!roster.has_attention(at(15_000)));
    roster.clients(None, 1, Time::ZERO);
    assert!(roster.has_attention(at(1)), "at the clock's zero as well");
}

proptest! {
    #[test]
    fn the_list_is_the_top_of_all_viewers_in_order(
        behind in proptest::collection::vec(proptest::option::of(0u32..2000), 0..60),
        limit in 0usize..70,
    ) {
        let live = live(1, "a", 3);
        let mut workers: Vec<Vec<Option<Entry>>> = (0..3).map(|_| Vec::new()).collect();
        for (token, ms) in behind.iter().enumerate() {
            let seen = observed(0, 0, ms.unwrap_or(0));
            let seen = if ms.is_some() { seen } else { waiting(seen) };
            workers[token % 3].push(Some(entry(token as u64, &live, seen)));
        }
        let clients = roster(workers).clients(None, limit, Time::ZERO);
        let got: Vec<_> = clients.list.iter().map(|client| client.behind.map(|it| it.as_millis() as u32)).collect();
        let mut expected = behind.clone();
        expected.sort_unstable_by(|one, other| other.cmp(one));
        expected.truncate(limit);
        prop_assert_eq!(got, expected);
        prop_assert_eq!(clients.why[Why::Fine as usize] as usize, behind.len());
    }
}

/// A viewer of the stream `a` on a TCP connection, of which the kernel knows something.
fn viewer(publisher: &Stage, tcp: &TcpStream, last: u8) -> Stage {
    let mut viewer = beside(publisher, SocketAddr::new(PEER.ip(), u16::from(last)), u64::from(last));
    viewer.say(get("/live/a.ts"));
    viewer.turn();
    let copy = tcp.as_fd().try_clone_to_owned().expect("a descriptor");
    viewer.connection.socket = Wire::plain(Socket::from_descriptor(copy));
    viewer
}

/// The slots of a worker with these viewers, each of the first generation; `None` is an empty one.
fn slots(connections: impl IntoIterator<Item = Option<Stage>>) -> Vec<Slot> {
    let slot = |stage: Option<Stage>| Slot {
        generation: 1,
        connection: stage.map(|stage| Box::new(stage.connection)),
    };
    connections.into_iter().map(slot).collect()
}

fn publisher() -> (Stage, TcpStream, TcpStream) {
    let mut publisher = stage(|_| {});
    publisher.say(put("/live/a.ts"));
    publisher.turn();
    publisher.say(chunk(&opening(3).1));
    publisher.turn();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let ours = TcpStream::connect(listener.local_addr().expect("an address")).expect("loopback");
    let (theirs, _) = listener.accept().expect("the connection");
    (publisher, ours, theirs)
}

#[test]
fn a_look_goes_over_viewers_alone_and_over_each_in_turn() {
    let (publisher, tcp, _theirs) = publisher();
    let viewers: Vec<_> = (0..3).map(|last| viewer(&publisher, &tcp, last)).collect();
    let hub = Arc::clone(&publisher.hub);
    let mut all: Vec<_> = vec![None, Some(beside(&publisher, PEER, 99))];
    all.extend(viewers.into_iter().map(Some));
    let mut slots = slots(all);
    let (mut sampling, now) = (Sampling::default(), hub.clock.now());
    sampling.look(&hub.roster, 0, &mut slots, now);
    let clients = hub.roster.clients(None, 10, now);
    let mut ports: Vec<_> = clients.list.iter().map(|client| client.address.port()).collect();
    ports.sort_unstable();
    assert_eq!(ports, [0, 1, 2]);
    let client = &clients.list[0];
    assert_eq!((client.stream.as_str(), client.bytes_sent, client.behind_bytes), ("a", 3 * 188, 0));
    assert_eq!(client.behind, Some(Duration::ZERO), "it has all there is");
    // Another viewer in the same slot is another entry.
    slots[2].generation = 2;
    sampling.look(&hub.roster, 0, &mut slots, now);
    assert_eq!(hub.roster.lock(0)[2].as_ref().map(|entry| entry.token), Some(2));
    assert_eq!(hub.roster.lock(0)[3].as_ref().map(|entry| entry.token), Some(1));
}

#[test]
fn a_sweep_looks_at_so_many_viewers_and_the_next_one_at_the_others() {
    let (publisher, tcp, _theirs) = publisher();
    let hub = Arc::clone(&publisher.hub);
    // All of them share one connection, so that they take few descriptors.
    let mut viewers: Vec<_> = Vec::new();
    for _ in 0..300 {
        let mut one = viewer(&publisher, &tcp, 1);
        one.peer = None;
        viewers.push(Some(one));
    }
    let mut slots = slots(viewers);
    let (mut sampling, now) = (Sampling::default(), hub.clock.now());
    let seen = |at| hub.roster.lock(0).iter().flatten().filter(|entry| entry.newest.at == at).count();
    sampling.look(&hub.roster, 0, &mut slots, now);
    assert_eq!(seen(now), 250);
    let next = now + Duration::from_millis(250);
    sampling.look(&hub.roster, 0, &mut slots, next);
    assert_eq!((seen(now), seen(next)), (50, 250), "it goes on behind the last, and begins anew");
    hub.roster.clients(None, 1, next);
    let attentive = next + Duration::from_millis(250);
    sampling.look(&hub.roster, 0, &mut slots, attentive);
    assert_eq!(seen(attentive), 300);
}

#[test]
fn a_viewer_takes_little_of_the_roster() {
    let bytes = size_of::<Entry>() + size_of::<Option<Box<Entry>>>();
    assert!(bytes <= 264, "{bytes} bytes");
}
