use super::*;
use crate::udp::flow::{Flow, FlowSettings, Room};
use crate::udp::{Inbox, Receiver, Settings};
use std::net::SocketAddr;
use std::time::Instant;

fn receiver(address: &str) -> Receiver {
    let interface = address.starts_with("239").then(|| "lo".to_owned());
    Receiver::open(&Settings { address: address.parse().unwrap(), interface, sender: None }).unwrap()
}

fn route(address: SocketAddr) -> Route {
    let interface = address.ip().is_multicast().then(|| "lo".to_owned());
    Route { interface, ..Route::to(address) }
}

fn sender(to: &Receiver) -> FlowSender {
    FlowSender::open(&FlowSenderSettings::of(route(to.local_address().unwrap()))).unwrap()
}

/// Receives so many datagrams.
fn receive(receiver: &Receiver, count: usize) -> Vec<Vec<u8>> {
    let (mut inbox, mut got) = (Inbox::default(), Vec::new());
    let deadline = Instant::now() + Duration::from_secs(20);
    while got.len() < count {
        receiver.receive(&mut inbox).unwrap();
        got.extend(inbox.datagrams().map(<[u8]>::to_vec));
        assert!(Instant::now() < deadline, "{} of {count} datagrams", got.len());
    }
    got
}

fn send_all(sender: &FlowSender, bursts: &mut Bursts<'_>) {
    while !sender.send(bursts).unwrap() {
        assert!(sender.wait(Some(Duration::from_secs(20))).unwrap());
    }
    assert_eq!((bursts.is_sent(), bursts.sent()), (true, bursts.len()));
}

/// Three bursts of headers and payloads, and what arrives of them.
fn bursts_arrive(address: &str, cuts: bool) {
    let to = receiver(address);
    let sender = sender(&to);
    sender.cuts.store(cuts, Ordering::Relaxed);
    let picture: Vec<u8> = (0..3 * 30 * 1200).map(|at| (at % 251) as u8).collect();
    let headers: Vec<u8> = (0..3 * 30).flat_map(|number| [number as u8; 20]).collect();
    let mut expected: Vec<Vec<u8>> = headers
        .chunks(20)
        .zip(picture.chunks(1200))
        .map(|(header, payload)| [header, payload].concat())
        .collect();
    let mut outbox = Outbox::new();
    let mut bursts = outbox.bursts();
    for (number, (header, payload)) in headers.chunks(20).zip(picture.chunks(1200)).enumerate() {
        bursts.push(header);
        // The last datagram is shorter, and a piece may be of two lines.
        let (one, two) = payload.split_at(500);
        bursts.push(one);
        bursts.push(if number == 89 { &two[..100] } else { two });
        if number % 30 == 29 {
            bursts.end(1220, None);
        }
    }
    expected[89].truncate(20 + 500 + 100);
    assert_eq!(bursts.len(), 3);
    send_all(&sender, &mut bursts);
    assert_eq!(receive(&to, 90), expected);
}

#[test]
fn bursts_arrive_as_the_datagrams_that_they_are() {
    bursts_arrive("127.0.0.1:0", true);
    bursts_arrive("239.255.77.3:0", true);
}

#[test]
fn the_same_without_the_kernel_s_cutting() {
    bursts_arrive("127.0.0.1:0", false);
    bursts_arrive("239.255.77.3:0", false);
}

#[test]
fn pieces_are_cut_wherever_datagrams_end() {
    for cuts in [true, false] {
        let to = receiver("127.0.0.1:0");
        let sender = sender(&to);
        sender.cuts.store(cuts, Ordering::Relaxed);
        let bytes: Vec<u8> = (0..5000u32).map(|at| at as u8).collect();
        let mut outbox = Outbox::new();
        let mut bursts = outbox.bursts();
        // Pieces that know nothing of datagrams, among them empty ones; then single datagrams, the last of them empty.
        bytes.chunks(333).for_each(|piece| (bursts.push(piece), bursts.push(&[])).0);
        bursts.end(700, None);
        bursts.push(b"single");
        bursts.end(0, None);
        bursts.end(1000, None);
        bursts.push(b"last");
        bursts.end(1000, None);
        send_all(&sender, &mut bursts);
        let mut expected: Vec<&[u8]> = bytes.chunks(700).collect();
        expected.extend([&b"single"[..], b"", b"last"]);
        assert_eq!(receive(&to, expected.len()), expected, "cuts: {cuts}");
    }
}

#[test]
fn what_the_kernel_does_not_cut_goes_one_by_one() {
    let to = receiver("127.0.0.1:0");
    let sender = sender(&to);
    let bytes = vec![5; 200 * 100];
    let mut outbox = Outbox::new();
    let mut bursts = outbox.bursts();
    // More datagrams than any kernel cuts.
    bursts.push(&bytes);
    bursts.end(100, None);
    send_all(&sender, &mut bursts);
    assert!(sender.cuts(), "the next one may be cut");
    assert!(receive(&to, 200).iter().all(|datagram| *datagram == [5; 100]));
}

#[test]
fn a_burst_that_cannot_leave_is_told_and_can_be_given_up() {
    let to = receiver("127.0.0.1:0");
    let sender = sender(&to);
    let (mut outbox, long) = (Outbox::new(), vec![0; 70_000]);
    let mut bursts = outbox.bursts();
    bursts.push(b"first");
    bursts.end(5, None);
    bursts.push(&long);
    bursts.end(70_000, None);
    bursts.push(b"third");
    bursts.end(5, None);
    let error = sender.send(&mut bursts).unwrap_err();
    assert!(crate::udp::is_too_large(&error), "{error}");
    assert_eq!(bursts.sent(), 1);
    bursts.skip();
    send_all(&sender, &mut bursts);
    bursts.skip();
    assert_eq!((bursts.sent(), bursts.is_empty()), (3, false));
    assert_eq!(receive(&to, 2), [b"first", b"third"]);
}

#[test]
fn a_burst_is_received_as_one_message() {
    let flow = Flow::open(&FlowSettings::at("127.0.0.1:0".parse().unwrap())).unwrap();
    let sender = FlowSender::open(&FlowSenderSettings::of(route(flow.local_address().unwrap()))).unwrap();
    let (mut outbox, bytes) = (Outbox::new(), [9; 48 * 1300]);
    let mut bursts = outbox.bursts();
    bytes.chunks(650).for_each(|piece| bursts.push(piece));
    bursts.end(1300, None);
    send_all(&sender, &mut bursts);
    assert!(flow.wait(Some(Duration::from_secs(20))).unwrap());
    let mut room = Room::new();
    let mut batch = room.batch();
    batch.discard(bytes.len());
    flow.receive(&mut batch).unwrap();
    if sender.cuts() && flow.is_collected() {
        assert_eq!((room.received()[0].bytes, room.received()[0].datagrams()), (bytes.len(), 48));
    }
}

#[test]
fn launch_times_are_taken_where_the_kernel_has_them() {
    let to = receiver("127.0.0.1:0");
    let mut sender = sender(&to);
    for clock in [LaunchClock::Monotonic, LaunchClock::Tai] {
        if let Err(error) = sender.set_launch_clock(clock) {
            let reason = format!("{clock:?}: {error}");
            glassline_test_support::skip("launch_times_are_taken_where_the_kernel_has_them", &reason);
            continue;
        }
        for cuts in [true, false] {
            sender.cuts.store(cuts, Ordering::Relaxed);
            let mut outbox = Outbox::new();
            let mut bursts = outbox.bursts();
            bursts.push(&[1; 3000]);
            bursts.end(1000, Some(Clock::new().now() + Duration::from_millis(1)));
            send_all(&sender, &mut bursts);
            // Loopback has no queueing discipline that would wait.
            assert_eq!(receive(&to, 3), [[1; 1000]; 3]);
        }
        assert_eq!(sender.launch_errors().unwrap(), LaunchErrors::default());
    }
}

#[test]
fn tai_is_ahead_of_the_monotonic_clock_by_what_utc_is_and_leap_seconds() {
    let clock = Clock::new();
    let now = clock.now();
    let tai = launch_nanos(now, clock_ahead(LaunchClock::Tai));
    let leap = i128::from(tai) - i128::from(clock.utc_at(now).as_nanos());
    // Zero where nobody has told the kernel, 37 s since 2017.
    assert!((-1_000_000_000..100_000_000_000).contains(&leap), "{leap} ns");
    assert_eq!(launch_nanos(now, clock_ahead(LaunchClock::Monotonic)), now.as_nanos());
}

#[test]
fn room_class_and_rate_are_set() {
    let to = receiver("127.0.0.1:0");
    let settings = FlowSenderSettings {
        buffer_bytes: 300_000,
        max_bytes_per_second: Some(10_000_000_000),
        ..FlowSenderSettings::of(Route { dscp: Some(34), ..route(to.local_address().unwrap()) })
    };
    let sender = FlowSender::open(&settings).unwrap();
    assert_eq!(sender.socket.tos_v4().unwrap(), 34 << 2);
    assert_eq!((sender.buffer().asked_bytes, sender.buffer().limit), (300_000, "net.core.wmem_max"));
    assert!(sender.buffer().granted_bytes > 0);
    if let Ok(six) =
        Receiver::open(&Settings { address: "[::1]:0".parse().unwrap(), interface: None, sender: None })
    {
        let route = Route { dscp: Some(34), ..route(six.local_address().unwrap()) };
        let six = FlowSender::open(&FlowSenderSettings { route, ..settings.clone() }).unwrap();
        assert_eq!(six.socket.tclass_v6().unwrap(), 34 << 2);
    }
    let route = Route { dscp: Some(64), ..settings.route.clone() };
    let error = FlowSender::open(&FlowSenderSettings { route, ..settings }).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    assert!(error.to_string().contains("64"), "{error}");
}
