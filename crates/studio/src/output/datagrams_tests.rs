use super::*;
use glassline_media::container::ts::PACKET_BYTES;
use glassline_media::container::ts::Pcr;
use std::net::UdpSocket;

fn open(url: &str, live: bool) -> Result<(DatagramOutput, Network)> {
    let (network, liveness) = (Network::start()?, Liveness { live, ..Liveness::default() });
    let output = DatagramOutput::open(url, liveness, StatusHandle::new(url), &network)?;
    Ok((output, network))
}

fn receiver(address: &str) -> (UdpSocket, u16) {
    let receiver = UdpSocket::bind(address).unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let port = receiver.local_addr().unwrap().port();
    (receiver, port)
}

fn receive(receiver: &UdpSocket) -> Vec<u8> {
    let mut buffer = [0; 2000];
    let length = receiver.recv(&mut buffer).unwrap();
    buffer[..length].to_vec()
}

#[test]
fn a_unit_goes_in_datagrams_of_seven_packets_and_the_rest_at_once() {
    for (listen, host, options, counts) in [
        ("127.0.0.1:0", "127.0.0.1", "", &[7, 7, 2][..]),
        ("127.0.0.1:0", "localhost", "?packets=6&ttl=3", &[6, 6, 4]),
        ("[::1]:0", "[::1]", "", &[7, 7, 2]),
    ] {
        let Ok(probe) = UdpSocket::bind(listen) else {
            glassline_test_support::skip(
                "a_unit_goes_in_datagrams_of_seven_packets_and_the_rest_at_once",
                "no IPv6 here",
            );
            continue;
        };
        drop(probe);
        let (receiver, port) = receiver(listen);
        let Ok((mut output, _network)) = open(&format!("udp://{host}:{port}{options}"), true) else {
            panic!("{host}");
        };
        let bytes: Vec<u8> = (0..16 * PACKET_BYTES).map(|index| (index / PACKET_BYTES) as u8).collect();
        output.write(&Packets::whole(&bytes, true)).unwrap();
        if host == "localhost" && output.0.lock().destination.address.is_ipv6() {
            // The receiver has the other family's address.
            continue;
        }
        let mut received = Vec::new();
        for packets in counts {
            let datagram = receive(&receiver);
            assert_eq!(datagram.len(), packets * PACKET_BYTES);
            received.extend_from_slice(&datagram);
        }
        assert_eq!(received, bytes);
        assert_eq!(output.0.status.get().bytes, bytes.len() as u64);
    }
}

#[test]
fn rtp_is_stamped_with_the_streams_clock() {
    let told = stamps_of(&[(Some(9000), 9), (None, 1), (Some(10_800), 2)]);
    assert_eq!(told, [(0, 0, true), (1, 0, false), (2, 0, false), (3, 1800, false)]);
}

/// An encoder on a busy machine leaves the first picture out: its sound comes before any clock.
#[test]
fn stamps_do_not_leap_where_the_first_clock_comes_late() {
    let told = stamps_of(&[(None, 1), (None, 1), (Some(3_667_000_000), 1), (Some(3_667_001_800), 1)]);
    assert!(told.windows(2).all(|pair| pair[1].1.wrapping_sub(pair[0].1) < 90_000 * 60), "{told:?}");
    assert_eq!(told[3].1.wrapping_sub(told[2].1), 1800);
}

/// Sequence number, time stamp and marker of each datagram, from the first one's on, for runs of packets with their clocks.
fn stamps_of(runs: &[(Option<u64>, usize)]) -> Vec<(u16, u32, bool)> {
    let (receiver, port) = receiver("127.0.0.1:0");
    let (mut output, _network) = open(&format!("rtp://127.0.0.1:{port}"), true).unwrap();
    let mut stamps = Vec::new();
    for &(clock, packets) in runs {
        let mut bytes = vec![0xff; packets * PACKET_BYTES];
        for packet in bytes.chunks_mut(PACKET_BYTES) {
            packet[..4].copy_from_slice(&[0x47, 1, 0, 0x10]);
        }
        if let Some(clock) = clock {
            bytes[..6].copy_from_slice(&[0x47, 1, 0, 0x30, 7, 0x10]);
            bytes[6..12].copy_from_slice(&Pcr::from_ticks(Ticks(clock as i64)).write());
        }
        output.write(&Packets::whole(&bytes, false)).unwrap();
        let mut received = Vec::new();
        for _ in 0..packets.div_ceil(7) {
            let datagram = receive(&receiver);
            let packet = glassline_transport::rtp::Packet::parse(&datagram).unwrap();
            stamps.push((packet.header.sequence, packet.header.timestamp, packet.header.marker));
            assert_eq!(packet.header.payload_type, 33);
            received.extend_from_slice(packet.payload);
        }
        assert_eq!(received, bytes);
    }
    let (first, begun, _) = stamps[0];
    let from_the_first = |(sequence, stamp, marker): &(u16, u32, bool)| {
        (sequence.wrapping_sub(first), stamp.wrapping_sub(begun), *marker)
    };
    stamps.iter().map(from_the_first).collect()
}

#[test]
fn nobody_listening_is_no_failure_and_what_cannot_be_opened_is() {
    let (_, port) = receiver("127.0.0.1:0");
    let (mut output, _network) = open(&format!("udp://127.0.0.1:{port}"), false).unwrap();
    for _ in 0..5 {
        output.write(&Packets::whole(&[0x47; 3 * PACKET_BYTES], false)).unwrap();
    }
    let failed = |url: &str| open(url, true).err().map(|error| error.to_string()).unwrap();
    assert!(failed("udp://239.1.2.3:5000?interface=nowhere0").contains("nowhere0"));
    assert!(failed("udp://no-such-host.invalid:5000").contains("cannot send to"));
}

#[test]
fn what_a_full_socket_does_not_take_follows_in_order_and_holds_no_live_source() {
    let (receiver, port) = receiver("127.0.0.1:0");
    let (mut output, _network) = open(&format!("udp://127.0.0.1:{port}"), true).unwrap();
    // A socket of this machine takes all at once: it stands for a full one until the network thread comes.
    let unit = |number: u8| vec![number; PACKET_BYTES];
    let mut state = output.0.lock();
    for number in 0..3 {
        let framed = state.frame(&unit(number), Time::ZERO, Time::NEVER);
        state.waiting.push_back(framed);
    }
    state.watch(&output.0.registration).unwrap();
    assert!(state.watched);
    drop(state);
    output.write(&Packets::whole(&unit(3), false)).unwrap();
    for number in 0..4 {
        assert_eq!(receive(&receiver), unit(number));
    }
    output.finish().unwrap();
    assert_eq!(output.0.status.get().left_out, 0);
}

#[test]
fn what_is_too_late_is_left_out() {
    let (_receiver, port) = receiver("127.0.0.1:0");
    let (mut output, _network) = open(&format!("udp://127.0.0.1:{port}"), true).unwrap();
    let line = Arc::clone(&output.0);
    let mut state = line.lock();
    state.socket = None;
    state.reopen_at = Time::NEVER;
    let framed = state.frame(&[0x47; PACKET_BYTES], Time::ZERO, Time::ZERO);
    state.waiting.push_back(framed);
    drop(state);
    output.finish().unwrap();
    assert_eq!((line.status.get().bytes, line.status.get().left_out), (0, 1));
}

/// Packets of so many, each with its number.
fn packets(count: usize) -> Vec<u8> {
    (0..count).flat_map(|number| vec![number as u8; PACKET_BYTES]).collect()
}

#[test]
fn a_socket_that_failed_is_opened_anew_when_its_time_has_come_and_what_came_before_is_left_out() {
    let (receiver, port) = receiver("127.0.0.1:0");
    let (mut output, _network) = open(&format!("udp://127.0.0.1:{port}"), true).unwrap();
    let line = Arc::clone(&output.0);
    {
        let mut state = line.lock();
        (state.socket, state.reopen_at) = (None, Time::NEVER);
    }
    output.write(&Packets::whole(&packets(1), false)).unwrap();
    let told = line.status.get();
    assert_eq!((told.bytes, told.left_out), (0, 1), "there is no socket yet");
    line.lock().reopen_at = Time::ZERO;
    output.write(&Packets::whole(&packets(2), false)).unwrap();
    assert_eq!(receive(&receiver), packets(2));
    let told = line.status.get();
    assert_eq!((told.bytes, told.left_out), (2 * PACKET_BYTES as u64, 1));
    assert!(line.lock().reopen_at > Time::ZERO, "the next attempt is not at once");
}

#[test]
fn a_failure_is_told_again_only_when_it_is_another_one() {
    let (_receiver, port) = receiver("127.0.0.1:0");
    let (output, _network) = open(&format!("udp://127.0.0.1:{port}"), true).unwrap();
    let mut state = output.0.lock();
    for kind in [ErrorKind::HostUnreachable, ErrorKind::HostUnreachable, ErrorKind::TimedOut] {
        output.0.fail(&mut state, &io::Error::from(kind));
        assert_eq!(state.told, Some(kind));
    }
    assert_eq!(output.0.status.get().left_out, 3, "each is counted");
}

#[test]
fn a_live_stream_waits_for_room_less_long_than_a_file() {
    let (_receiver, port) = receiver("127.0.0.1:0");
    let url = format!("udp://127.0.0.1:{port}");
    let ((live, _one), (file, _two)) = (open(&url, true).unwrap(), open(&url, false).unwrap());
    assert_eq!((live.0.timeout(), file.0.timeout()), (LIVE_WAIT, FILE_WAIT));
    assert!(live.0.timeout() < file.0.timeout());
}

#[test]
fn the_network_thread_is_awaited_when_the_oldest_unit_is_too_late() {
    let (_receiver, port) = receiver("127.0.0.1:0");
    let (output, _network) = open(&format!("udp://127.0.0.1:{port}"), true).unwrap();
    assert_eq!(output.0.poll_timeout(), None, "nothing waits");
    let deadlines = [Time::from_millis(u64::MAX / 4_000_000), Time::NEVER];
    let mut state = output.0.lock();
    // Without a socket, and before it is opened again, units stay where they are until they are looked at.
    for deadline in deadlines {
        let unit = state.frame(&packets(1), Time::ZERO, deadline);
        state.waiting.push_back(unit);
    }
    drop(state);
    assert_eq!(output.0.poll_timeout(), Some(deadlines[0]));
}

#[test]
fn what_a_panic_left_half_framed_takes_nothing_more() {
    let (_receiver, port) = receiver("127.0.0.1:0");
    let (mut output, _network) = open(&format!("udp://127.0.0.1:{port}"), true).unwrap();
    let line = Arc::clone(&output.0);
    let panicked = std::thread::spawn(move || {
        let _state = line.lock();
        panic!("the test's own");
    });
    assert!(panicked.join().is_err());
    let refused = output.write(&Packets::whole(&packets(1), false)).unwrap_err();
    assert!(matches!(refused, Error::Fault { .. }), "{refused}");
    assert!(matches!(output.finish(), Err(Error::Fault { .. })));
}
