use super::*;
use crate::header_marks::FlowLabels;
use glassline_test_support::packets::{Header, Packets};
use glassline_test_support::wait::until;
use std::time::{Duration, Instant};

fn port(address: &str) -> Port {
    Port::open(&Local::at(address.parse().unwrap())).unwrap()
}

/// Receives so many datagrams, with the address they came from, which must be one.
fn receive(port: &Port, count: usize) -> (Vec<Vec<u8>>, SocketAddr) {
    let (mut arrivals, mut got, mut from) = (Arrivals::default(), Vec::new(), None);
    let deadline = Instant::now() + Duration::from_secs(20);
    while got.len() < count {
        port.receive(&mut arrivals).unwrap();
        for arrival in arrivals.datagrams() {
            assert_eq!(*from.get_or_insert(arrival.from), arrival.from);
            got.push(arrival.bytes.to_vec());
        }
        assert!(Instant::now() < deadline, "{} of {count} datagrams", got.len());
    }
    (got, from.unwrap())
}

fn send(port: &Port, to: SocketAddr, mut bytes: &[u8], segment: usize) {
    while !bytes.is_empty() {
        let sent = port.send(to, bytes, segment, 0).unwrap().unwrap_or(0);
        bytes = &bytes[sent..];
    }
}

fn batch_arrives(from: &Port, to: &Port, target: SocketAddr) {
    let bytes: Vec<u8> = (0..40 * 1200 + 500).map(|at: usize| (at / 1200) as u8).collect();
    send(from, target, &bytes, 1200);
    let (got, sender) = receive(to, 41);
    assert!(got.iter().map(Vec::as_slice).eq(bytes.chunks(1200)), "cut as they were sent");
    assert_eq!(sender.port(), from.local_address().unwrap().port());
    // And back to whom they came from.
    send(to, sender, b"thanks", 6);
    assert_eq!(receive(from, 1).0, [b"thanks"]);
}

#[test]
fn batches_arrive_as_the_datagrams_that_they_are() {
    let (one, two) = (port("127.0.0.1:0"), port("127.0.0.1:0"));
    batch_arrives(&one, &two, two.local_address().unwrap());
}

#[test]
fn the_same_without_the_kernel_s_cutting_and_collecting() {
    let (one, two) = (port("127.0.0.1:0"), port("127.0.0.1:0"));
    one.cuts.store(false, Ordering::Relaxed);
    control::set_option(&two.socket, libc::SOL_UDP, libc::UDP_GRO, 0).unwrap();
    batch_arrives(&one, &two, two.local_address().unwrap());
}

#[test]
fn a_port_at_all_addresses_speaks_with_both_families() {
    let any = port("[::]:0");
    let number = any.local_address().unwrap().port();
    batch_arrives(&port("127.0.0.1:0"), &any, ([127, 0, 0, 1], number).into());
    if let Ok(six) = Port::open(&Local::at("[::1]:0".parse().unwrap())) {
        batch_arrives(&six, &any, SocketAddr::new(Ipv6Addr::LOCALHOST.into(), number));
    }
    assert_eq!(Local::towards("[::1]:5".parse().unwrap()).address, "[::]:0".parse().unwrap());
    assert_eq!(Local::towards("192.0.2.1:5".parse().unwrap()).address, "0.0.0.0:0".parse().unwrap());
}

#[test]
fn single_large_and_empty_datagrams_pass() {
    let (one, two) = (port("127.0.0.1:0"), port("127.0.0.1:0"));
    let to = two.local_address().unwrap();
    let large = vec![3; 60_000];
    assert_eq!(one.send(to, &large, large.len(), 0).unwrap(), Some(60_000));
    assert_eq!(one.send(to, &[], 0, 0).unwrap(), Some(0));
    assert_eq!(one.send(to, b"last", 100, 0).unwrap(), Some(4));
    assert_eq!(receive(&two, 3).0, [large, vec![], b"last".to_vec()]);
    let mut arrivals = Arrivals::default();
    assert!(!two.receive(&mut arrivals).unwrap() && !arrivals.is_full());
    assert_eq!(arrivals.datagrams().count(), 0);
}

#[test]
fn what_cannot_be_is_told() {
    let one = port("127.0.0.1:0");
    let taken = Local::at(one.local_address().unwrap());
    assert_eq!(Port::open(&taken).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    let nowhere = Local { interface: Some("nowhere0".into()), ..Local::at("127.0.0.1:0".parse().unwrap()) };
    let error = Port::open(&nowhere).unwrap_err();
    assert!(error.to_string().contains("nowhere0"), "{error}");
    let too_long = vec![0; 70_000];
    let to = taken.address;
    assert_eq!(one.send(to, &too_long, too_long.len(), 0).unwrap_err().raw_os_error(), Some(libc::EMSGSIZE));
}

#[test]
fn a_port_at_an_interface_is_reached_by_it() {
    let local = Local { interface: Some("lo".into()), ..Local::at("127.0.0.1:0".parse().unwrap()) };
    // Linux before 5.7 lets only root do this.
    let plain = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
    if let Err(error) = plain.bind_device(Some(b"lo")) {
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        let test = "a_port_at_an_interface_is_reached_by_it";
        return glassline_test_support::skip(test, "may not bind to interfaces");
    }
    let bound = Port::open(&local).unwrap();
    batch_arrives(&port("127.0.0.1:0"), &bound, bound.local_address().unwrap());
}

/// Batches with each mark, and single datagrams, from `from` to `target`, where `to` is.
fn marks_arrive(from: &Port, to: &Port, target: SocketAddr) {
    let mut arrivals = Arrivals::default();
    for (mark, datagrams) in [(2, 10), (0, 10), (1, 1), (3, 5), (0, 1), (3, 1), (2, 40)] {
        let bytes = vec![mark; datagrams * 1000];
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let sent = from.send(target, rest, 1000, mark).unwrap().unwrap_or(0);
            rest = &rest[sent..];
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut got = 0;
        while got < datagrams {
            to.receive(&mut arrivals).unwrap();
            for arrival in arrivals.datagrams() {
                assert_eq!((arrival.mark, arrival.bytes[0], arrival.bytes.len()), (mark, mark, 1000));
                got += 1;
            }
            assert!(Instant::now() < deadline, "{got} of {datagrams} datagrams");
        }
    }
}

#[test]
fn marks_of_congestion_are_set_and_read() {
    let (one, two) = (port("127.0.0.1:0"), port("127.0.0.1:0"));
    marks_arrive(&one, &two, two.local_address().unwrap());
    one.cuts.store(false, Ordering::Relaxed);
    control::set_option(&two.socket, libc::SOL_UDP, libc::UDP_GRO, 0).unwrap();
    marks_arrive(&one, &two, two.local_address().unwrap());
    // Both families at one port, from either side.
    let any = port("[::]:0");
    let number = any.local_address().unwrap().port();
    let to = two.local_address().unwrap();
    marks_arrive(&two, &any, ([127, 0, 0, 1], number).into());
    if any.local_address().unwrap().is_ipv6() {
        marks_arrive(&any, &two, (Ipv4Addr::LOCALHOST.to_ipv6_mapped(), to.port()).into());
    }
    if let Ok(six) = Port::open(&Local::at("[::1]:0".parse().unwrap())) {
        marks_arrive(&six, &any, SocketAddr::new(Ipv6Addr::LOCALHOST.into(), number));
    }
}

#[test]
fn datagrams_bear_when_they_came_and_not_when_they_are_read() {
    let clock = crate::clock::Clock::new();
    for collects in [1, 0] {
        let (one, two) = (port("127.0.0.1:0"), port("127.0.0.1:0"));
        control::set_option(&two.socket, libc::SOL_UDP, libc::UDP_GRO, collects).unwrap();
        if control::set_option(&two.socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1).is_err() {
            let test = "datagrams_bear_when_they_came_and_not_when_they_are_read";
            return glassline_test_support::skip(test, "the kernel stamps no datagrams");
        }
        let (to, bytes) = (two.local_address().unwrap(), [7; 5 * 1000]);
        let mut arrivals = Arrivals::default();
        let is_there = || {
            let mut waits = [rustix::event::PollFd::new(&two, rustix::event::PollFlags::IN)];
            rustix::event::poll(&mut waits, Some(&rustix::time::Timespec { tv_sec: 20, tv_nsec: 0 })).unwrap()
                == 1
        };
        // A wall clock that is set meanwhile, or an interruption between the two clocks, makes it another round.
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let begun = clock.now();
            send(&one, to, &bytes, 1000);
            assert!(is_there());
            let there = clock.now();
            while clock.now() < there + Duration::from_millis(30) {}
            let (mut times, mut got) = (Vec::new(), 0);
            while got < 5 {
                two.receive(&mut arrivals).unwrap();
                got += arrivals.datagrams().map(|arrival| times.push(arrival.at)).count();
                assert!(Instant::now() < deadline, "{got} of 5 datagrams");
            }
            assert!(times.is_sorted() && times.iter().all(|at| *at <= clock.now()), "{times:?}");
            if begun <= times[0] && times[0] <= there + Duration::from_millis(10) {
                break;
            }
            assert!(Instant::now() < deadline, "sent at {begun:?}, there at {there:?}, told {times:?}");
        }
    }
}

/// The headers of so many packets from one port to another; other programs' are left out.
fn headers(packets: &Packets, from: u16, to: u16, count: usize) -> Vec<Header> {
    let mut headers = Vec::new();
    until("packets on the wire", || {
        headers.extend(packets.take().into_iter().filter(|header| (header.from, header.to) == (from, to)));
        headers.len() >= count
    });
    headers
}

#[test]
fn datagrams_bear_the_dscp_and_the_mark_of_congestion_beside_it() {
    let test = "datagrams_bear_the_dscp_and_the_mark_of_congestion_beside_it";
    let marked = |address: &str, dscp, flow_label| {
        Port::open(&Local { dscp, flow_label, ..Local::at(address.parse().unwrap()) })
    };
    assert_eq!(marked("127.0.0.1:0", Some(64), None).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    let Some(packets) = Packets::open() else {
        return glassline_test_support::skip(test, "may not read packets (CAP_NET_RAW)");
    };
    // A socket of IPv6 that takes IPv4 too, and one of each family. Cut by the kernel, or sent one by one.
    for (from, to) in [("127.0.0.1:0", "127.0.0.1:0"), ("[::]:0", "127.0.0.1:0"), ("[::1]:0", "[::1]:0")] {
        let Ok(receiver) = Port::open(&Local::at(to.parse().unwrap())) else {
            return glassline_test_support::skip(test, "no IPv6");
        };
        let to = receiver.local_address().unwrap();
        for (dscp, flow_label, cuts) in [(34, Some(true), true), (46, Some(false), false), (0, None, true)] {
            let sender = marked(from, Some(dscp), flow_label).unwrap();
            sender.cuts.store(cuts, Ordering::Relaxed);
            let from = sender.local_address().unwrap().port();
            for mark in [0, 1, 2, 3] {
                assert_eq!(sender.send(to, &[mark; 3000], 1000, mark).unwrap(), Some(3000));
                receive(&receiver, 3);
                for header in headers(&packets, from, to.port(), 1) {
                    assert_eq!((header.dscp, header.ecn), (dscp, mark), "{header:?}");
                    if header.is_ipv6 && flow_label == Some(false) && labels_are_free() {
                        assert_eq!(header.flow_label, 0);
                    }
                    if header.is_ipv6 && flow_label == Some(true) && labels_are_free() {
                        assert_ne!(header.flow_label, 0);
                    }
                }
            }
        }
    }
}

/// Whether the system lets sockets decide on flow labels.
fn labels_are_free() -> bool {
    matches!(FlowLabels::of_system(), Some(FlowLabels::On | FlowLabels::OnDemand))
}
