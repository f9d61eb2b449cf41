use super::super::Caller;
use super::*;

fn at(millis: u64) -> Time {
    Time::from_millis(1000 + millis)
}

fn address(last: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], port))
}

fn listener(max_peers: usize) -> Listener {
    Listener::new(Settings::default(), max_peers, [9; 32], at(0))
}

fn caller(seed: u8) -> Caller {
    Caller::new(Settings::default(), "read:stage", address(2, 8890), [seed; 32], at(0))
}

fn packet_of(caller: &mut Caller, now: Time) -> Vec<u8> {
    let mut out = Vec::new();
    assert!(caller.poll_transmit(now, &mut out).is_some());
    out
}

/// The caller's last handshake packet, after the cookie came.
fn conclusion(listener: &mut Listener, caller: &mut Caller, from: SocketAddr, now: Time) -> Vec<u8> {
    let induction = packet_of(caller, now);
    assert!(matches!(listener.handle_datagram(now, from, &induction), Handled::Nothing));
    let (to, answer) = listener.poll_answer().expect("a cookie");
    assert_eq!(to, from);
    assert!(answer.len() <= induction.len(), "an answer that is longer helps to flood others");
    caller.handle_datagram(now, &answer);
    packet_of(caller, now)
}

#[test]
fn nothing_is_kept_of_a_caller_before_it_shows_its_cookie() {
    let mut listener = listener(9);
    for port in 1..5000 {
        let induction = packet_of(&mut caller(1), at(0));
        listener.handle_datagram(at(0), address(1, port), &induction);
    }
    assert!(listener.peers() == 0 && listener.answers.len() == ANSWERS_MAX);
}

#[test]
fn a_cookie_is_good_for_its_address_and_its_time_alone() {
    let (mut listener, from) = (listener(9), address(1, 4000));
    let good = conclusion(&mut listener, &mut caller(1), from, at(0));
    for other in [address(3, 4000), address(1, 4001)] {
        assert!(matches!(listener.handle_datagram(at(0), other, &good), Handled::Nothing));
    }
    assert!(matches!(listener.handle_datagram(at(90_000), from, &good), Handled::Nothing));
    assert_eq!(listener.refused(), 3);
    assert!(matches!(listener.handle_datagram(at(31_000), from, &good), Handled::Request(_)));
    let mapped: SocketAddr = "[::ffff:192.0.2.1]:4000".parse().unwrap();
    assert!(matches!(listener.handle_datagram(at(0), mapped, &good), Handled::Request(_)));
}

#[test]
fn there_are_as_many_connections_as_there_may_be() {
    let mut listener = listener(2);
    let mut sockets = Vec::new();
    for number in 1..=3u8 {
        let (from, mut caller) = (address(number, 4000), caller(number));
        let packet = conclusion(&mut listener, &mut caller, from, at(0));
        let Handled::Request(request) = listener.handle_datagram(at(0), from, &packet) else { panic!() };
        sockets.push(listener.accept(at(0), *request));
        let (_, answer) = listener.poll_answer().unwrap();
        caller.handle_datagram(at(0), &answer);
        assert_eq!(caller.connection().is_some(), number < 3);
    }
    assert_eq!(sockets[2], Err(Refused(Rejection::OVERLOAD)));
    assert_ne!(sockets[0], sockets[1]);
}

#[test]
fn packets_of_a_connection_come_from_its_address_alone() {
    let (mut listener, from, mut caller) = (listener(2), address(1, 4000), caller(1));
    let packet = conclusion(&mut listener, &mut caller, from, at(0));
    let Handled::Request(request) = listener.handle_datagram(at(0), from, &packet) else { panic!() };
    let socket = listener.accept(at(0), *request).unwrap();
    let (_, answer) = listener.poll_answer().unwrap();
    caller.handle_datagram(at(0), &answer);
    let mut out = Vec::new();
    caller.connection().unwrap().close(at(1));
    caller.poll_transmit(at(1), &mut out).unwrap();
    listener.handle_datagram(at(1), address(3, 4000), &out);
    assert_eq!(listener.connection(socket).unwrap().1.ended(), None);
    listener.handle_datagram(at(1), from, &out);
    assert!(listener.connection(socket).unwrap().1.ended().is_some());
}

#[test]
fn a_handshake_of_version_4_is_told_that_it_is_too_old() {
    let (mut listener, from) = (listener(2), address(1, 4000));
    let mut packet = conclusion(&mut listener, &mut caller(1), from, at(0));
    packet[16..20].copy_from_slice(&4u32.to_be_bytes());
    let handled = listener.handle_datagram(at(0), from, &packet);
    assert!(matches!(handled, Handled::Refused(_, Rejection::VERSION)), "{handled:?}");
    let (_, answer) = listener.poll_answer().unwrap();
    assert_eq!(answer[36..40], 1008u32.to_be_bytes());
}

/// To look at a passphrase takes a thousandth of a second.
#[test]
fn one_address_with_wrong_passphrases_is_heard_twice_a_second() {
    let with = |text: &str| Settings {
        passphrase: Some(super::super::Passphrase::new(text).unwrap()),
        ..Settings::default()
    };
    let mut listener = Listener::new(with("correct horse"), 9, [9; 32], at(0));
    let calls = |listener: &mut Listener, text: &str, from: SocketAddr, millis: u64| {
        let mut caller = Caller::new(with(text), "read:stage", address(2, 8890), [1; 32], at(millis));
        let packet = conclusion(listener, &mut caller, from, at(millis));
        let handled = listener.handle_datagram(at(millis), from, &packet);
        listener.answers.clear();
        handled
    };
    let mut looks = 0;
    for number in 0..100u16 {
        let handled =
            calls(&mut listener, "battery staple", address(1, 4000 + number), u64::from(number) * 10);
        looks += u32::from(matches!(handled, Handled::Refused(_, Rejection::BAD_SECRET)));
    }
    assert_eq!(looks, 2);
    assert!(matches!(calls(&mut listener, "correct horse", address(3, 4000), 1000), Handled::Request(_)));
}

/// A connection of the caller with this seed from this address. Returns our id of it.
fn accept(listener: &mut Listener, seed: u8, from: SocketAddr) -> u32 {
    let mut caller = caller(seed);
    let packet = conclusion(listener, &mut caller, from, at(0));
    let Handled::Request(request) = listener.handle_datagram(at(0), from, &packet) else { panic!() };
    let socket = listener.accept(at(0), *request).unwrap();
    let (_, answer) = listener.poll_answer().unwrap();
    caller.handle_datagram(at(0), &answer);
    assert!(caller.connection().is_some());
    socket
}

#[test]
fn two_peers_with_one_id_have_connections_of_their_own() {
    let mut listener = listener(9);
    listener.set_socket_secret(b"a secret");
    let first = accept(&mut listener, 1, address(1, 4000));
    let other = accept(&mut listener, 1, address(3, 4000));
    assert_ne!(first, other);
    assert_eq!(listener.peers(), 2);
    let mut later = self::listener(9);
    later.set_socket_secret(b"a secret");
    assert_eq!(accept(&mut later, 1, address(5, 4000)), first, "the id follows from the peer's");
}

/// Packets as a peer sends them for a connection of a former process: a keep-alive, and data.
fn stray(socket: u32) -> [Vec<u8>; 2] {
    let (mut keep_alive, mut data) = (Vec::new(), Vec::new());
    Control { kind: Kind::KeepAlive, information: 0, timestamp: 7, destination: socket, body: &[] }
        .write(&mut keep_alive);
    data.extend_from_slice(&[0, 0, 0, 1, 0xe0, 0, 0, 1, 0, 0, 0, 9]);
    data.extend_from_slice(&socket.to_be_bytes());
    data.extend_from_slice(&[0x47; 188]);
    [keep_alive, data]
}

#[test]
fn what_is_told_to_peers_of_former_connections_is_short_and_rare() {
    let mut listener = listener(9);
    listener.set_socket_secret(b"a secret");
    let from = address(1, 4000);
    for (number, packet) in stray(12_345).into_iter().enumerate() {
        let now = at(200 * number as u64);
        assert!(matches!(listener.handle_datagram(now, from, &packet), Handled::Nothing));
        let (to, answer) = listener.poll_answer().expect("a shutdown");
        assert!(to == from && answer.len() <= packet.len());
        assert_eq!(answer[..4], [0x80, 5, 0, 0]);
        for again in 0..100 {
            listener.handle_datagram(now + Duration::from_micros(again * 900), from, &packet);
        }
        assert_eq!(listener.poll_answer(), None, "once in a while");
    }
    assert_eq!(listener.resets(), 2);
    // An answer to an answer would go on for ever, and a packet that is cut is shorter than its answer.
    let mut shutdown = Vec::new();
    Control { kind: Kind::Shutdown, information: 0, timestamp: 7, destination: 12_345, body: &[] }
        .write(&mut shutdown);
    let [keep_alive, data] = stray(12_345);
    for packet in [&shutdown[..], &keep_alive[..16], &data[..16], &data[..19]] {
        listener.handle_datagram(at(5000), address(2, 4000), packet);
        assert_eq!(listener.poll_answer(), None, "{packet:?}");
    }
    // Many addresses.
    for number in 0..60_000u32 {
        let from = SocketAddr::from(([10, 0, (number >> 8) as u8, number as u8], 4000));
        listener.handle_datagram(at(6000) + Duration::from_micros(u64::from(number)), from, &keep_alive);
        while listener.poll_answer().is_some() {}
    }
    assert_eq!(listener.resets(), 2 + 256);
}

#[test]
fn a_connection_that_is_there_is_not_ended_by_another_address() {
    let mut listener = listener(9);
    listener.set_socket_secret(b"a secret");
    let socket = accept(&mut listener, 1, address(1, 4000));
    for packet in stray(socket) {
        listener.handle_datagram(at(1), address(9, 4000), &packet);
        assert_eq!(listener.poll_answer(), None);
    }
}
