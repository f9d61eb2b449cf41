use super::*;
use crate::testing_tls::{Side, acceptor, connected, handshaken};
use glassline_io::tls::READ_BYTES_MIN;
use proptest::prelude::*;
use std::io::Write;

fn plain() -> (Wire, Socket) {
    let (ours, theirs) = Socket::pair(1 << 16).unwrap();
    (Wire::plain(ours), theirs)
}

/// A wire with TLS to be spoken, of which nothing has come.
fn secured() -> (Wire, Socket) {
    let (ours, theirs) = Socket::pair(1 << 16).unwrap();
    (Wire::secured(ours, acceptor().accept().unwrap()), theirs)
}

fn room() -> Vec<u8> {
    vec![0; 2 * READ_BYTES_MIN]
}

#[test]
fn a_plain_wire_is_its_socket() {
    let (mut wire, theirs) = plain();
    let mut room = room();
    assert_eq!(wire.read(&mut room).unwrap(), None);
    assert_eq!(theirs.write(b"hello").unwrap(), Some(5));
    assert_eq!((wire.read(&mut room).unwrap(), &room[..5]), (Some(5), &b"hello"[..]));
    assert_eq!(wire.write(b"one").unwrap(), Some(3));
    let runs = [IoSlice::new(b" and"), IoSlice::new(b" two")];
    assert_eq!(wire.write_vectored(&runs).unwrap(), Some(8));
    assert_eq!((theirs.read(&mut room).unwrap(), &room[..11]), (Some(11), &b"one and two"[..]));
    wire.end().unwrap();
    assert_eq!(theirs.read(&mut room).unwrap(), Some(0));
    drop(theirs);
    assert_eq!(wire.read(&mut room).unwrap(), Some(0));
}

#[test]
fn what_a_wire_is_follows_from_what_is_spoken_over_it() {
    let told = |wire: &Wire| {
        [wire.is_direct(), wire.is_secured(), wire.is_handshaking(), wire.is_apart(), wire.is_mistaken()]
    };
    let (plain, _peer) = plain();
    assert_eq!((told(&plain), plain.protocol()), ([true, false, false, false, false], Protocol::Http));
    let (secured, _peer) = secured();
    assert_eq!((told(&secured), secured.protocol()), ([false, true, true, false, false], Protocol::Https));
    let state = WireState::Apart { is_handshaking: true };
    let [one, other] = [Socket::pair(1).unwrap().0, Socket::pair(1).unwrap().0];
    let apart = Wire::restore(state, one, Some(other));
    assert_eq!((told(&apart), apart.protocol()), ([true, true, true, true, false], Protocol::Https));
    let mistaken = Wire::restore(WireState::Mistaken, Socket::pair(1).unwrap().0, None);
    assert_eq!((told(&mistaken), mistaken.protocol()), ([false, false, true, false, true], Protocol::Http));
}

#[test]
fn a_wire_apart_reads_and_writes_plain_bytes_between_two_processes() {
    let (tls, _peer) = Socket::pair(1 << 16).unwrap();
    let (ours, theirs) = Socket::pair(1 << 16).unwrap();
    let mut wire = Wire::restore(WireState::Apart { is_handshaking: true }, tls, Some(ours));
    let mut room = room();
    assert_eq!((wire.read(&mut room).unwrap(), wire.is_handshaking()), (None, true));
    theirs.write(b"hello").unwrap();
    assert_eq!(wire.read(&mut room).unwrap(), Some(5));
    assert!(!wire.is_handshaking(), "nothing comes before the handshake's end");
    assert_eq!(wire.write(b"one").unwrap(), Some(3));
    assert_eq!(wire.write_vectored(&[IoSlice::new(b" two")]).unwrap(), Some(4));
    assert_eq!((theirs.read(&mut room).unwrap(), &room[..7]), (Some(7), &b"one two"[..]));
    assert!(wire.is_flushed() && wire.flush().unwrap() == Flushed { bytes: 0, all: true });
    wire.take_leave();
    wire.end().unwrap();
    assert_eq!(theirs.read(&mut room).unwrap(), Some(0));
    drop(theirs);
    assert_eq!((wire.read(&mut room).unwrap(), wire.is_handshaking()), (Some(0), false));
}

#[test]
fn an_end_before_the_first_byte_is_no_handshakes_end() {
    let (tls, _peer) = Socket::pair(1).unwrap();
    let (ours, theirs) = Socket::pair(1).unwrap();
    let mut wire = Wire::restore(WireState::Apart { is_handshaking: true }, tls, Some(ours));
    drop(theirs);
    assert_eq!((wire.read(&mut room()).unwrap(), wire.is_handshaking()), (Some(0), true));
}

#[test]
fn a_wires_state_is_what_the_next_process_needs() {
    let (plain, _peer) = plain();
    assert!(matches!(plain.state().unwrap(), (WireState::Plain, None)));
    let mistaken = Wire::restore(WireState::Mistaken, Socket::pair(1).unwrap().0, None);
    assert!(matches!(mistaken.state().unwrap(), (WireState::Mistaken, None)));
    let (secured, _peer) = secured();
    let (state, end) = secured.state().unwrap();
    assert!(state == WireState::Apart { is_handshaking: true } && matches!(end, Some(PlainEnd::Made(_))));
    let [one, other] = [Socket::pair(1).unwrap().0, Socket::pair(1).unwrap().0];
    let apart = Wire::restore(WireState::Apart { is_handshaking: false }, one, Some(other));
    let (state, end) = apart.state().unwrap();
    assert!(state == WireState::Apart { is_handshaking: false } && matches!(end, Some(PlainEnd::Given(_))));
    assert_eq!(WireState::default(), WireState::Plain);
}

#[test]
fn only_a_wire_with_tls_of_its_own_has_a_session_to_part_with() {
    assert!(plain().0.into_session().is_none());
    assert!(secured().0.into_session().is_some());
    let lost = Wire::restore(WireState::Apart { is_handshaking: false }, Socket::pair(1).unwrap().0, None);
    assert!(!lost.is_secured(), "without an end for its plain bytes it is none");
}

#[test]
fn bytes_go_through_tls_either_way_and_a_leave_is_an_end() {
    let Side { mut wire, mut client } = handshaken();
    assert!(!wire.is_handshaking() && wire.is_secured());
    let mut room = room();
    client.write_all(b"hello").unwrap();
    assert_eq!(crate::testing_tls::read(&mut wire, &mut room), Some(5));
    assert_eq!(&room[..5], b"hello");
    // Of several runs the first one is taken.
    let runs = [IoSlice::new(b"one"), IoSlice::new(b"two")];
    assert_eq!(wire.write_vectored(&runs).unwrap(), Some(3));
    assert_eq!(wire.write_vectored(&[]).unwrap(), Some(0));
    assert!(wire.flush().unwrap().all && wire.is_flushed());
    wire.take_leave();
    wire.end().unwrap();
    let mut got = Vec::new();
    std::io::Read::read_to_end(&mut client, &mut got).expect("a whole stream, with its end");
    assert_eq!(got, b"one");
}

#[test]
fn a_peer_that_speaks_plain_http_to_tls_is_mistaken_and_answered_in_kind() {
    let (mut wire, theirs) = secured();
    let mut room = room();
    theirs.write(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(wire.read(&mut room).unwrap(), Some(18));
    assert_eq!(&room[..18], b"GET / HTTP/1.1\r\n\r\n");
    assert!(wire.is_mistaken() && !wire.is_secured() && wire.is_handshaking());
    assert_eq!(wire.write(b"HTTP/1.1 400 x\r\n\r\n").unwrap(), Some(18));
    assert_eq!((theirs.read(&mut room).unwrap(), &room[..12]), (Some(18), &b"HTTP/1.1 400"[..]));
}

#[test]
fn a_client_that_trusts_another_certificate_ends_the_handshake() {
    let (mut wire, client) = connected(false);
    let client = std::thread::spawn(move || { client }.write_all(b"hello").is_err());
    let mut room = room();
    let result = crate::testing_tls::read_result(&mut wire, &mut room);
    assert!(matches!(result, Err(_) | Ok(Some(0))), "{result:?}");
    assert!(client.join().unwrap());
}

proptest! {
    /// Whatever comes where TLS is spoken, no byte of it is taken for one that was encrypted.
    #[test]
    fn hostile_bytes_are_an_error_an_end_or_plain_http(noise in prop::collection::vec(any::<u8>(), 1..300)) {
        let (mut wire, theirs) = secured();
        let mut room = room();
        theirs.write(&noise).unwrap();
        theirs.end().unwrap();
        for _ in 0..4 {
            match wire.read(&mut room) {
                Ok(Some(0)) | Err(_) => break,
                Ok(Some(count)) => {
                    prop_assert!(wire.is_mistaken());
                    prop_assert_eq!(&room[..count], &noise[..]);
                    prop_assert!(noise[0].is_ascii_uppercase());
                }
                Ok(None) => prop_assert!(wire.is_handshaking()),
            }
        }
        prop_assert!(wire.is_handshaking(), "no noise is a handshake");
    }
}
