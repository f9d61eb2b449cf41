use super::*;
use crate::testing_tls::{Side, connected, handshaken};
use glassline_test_support::tls::Stream;
use glassline_test_support::wait::{PATIENCE, until};
use std::io::{Read, Write};
use std::net::Shutdown;

/// One connection the TLS of which goes on here.
struct Drained {
    draining: DrainingTls,
    /// The other process's end.
    theirs: Socket,
    client: Stream,
}

fn start(ends: Vec<Vec<TlsEnd>>, patience: Duration) -> DrainingTls {
    DrainingTls::start(ends, Clock::new(), PATIENCE, patience)
}

fn drained() -> Drained {
    let Side { wire, client } = handshaken();
    let (socket, session) = wire.into_session().unwrap();
    let Pair { ours, theirs } = Pair::new().unwrap();
    let draining = start(vec![Vec::new(), vec![TlsEnd::new(socket, session, ours)]], PATIENCE);
    Drained { draining, theirs, client }
}

/// Reads so many bytes, or to the end.
fn read(socket: &Socket, count: usize) -> Vec<u8> {
    let (mut got, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    until("plain bytes", || {
        let read = socket.read(&mut buffer).unwrap();
        got.extend_from_slice(&buffer[..read.unwrap_or(0)]);
        read == Some(0) || got.len() >= count
    });
    got
}

fn write(socket: &Socket, mut bytes: &[u8]) {
    until("room for plain bytes", || {
        while let Some(count) = socket.write(bytes).unwrap().filter(|_| !bytes.is_empty()) {
            bytes = &bytes[count..];
        }
        bytes.is_empty()
    });
}

fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at % 251) as u8).collect()
}

#[test]
fn bytes_go_through_in_order_either_way_until_the_other_process_ends() {
    let Drained { draining, theirs, mut client } = drained();
    assert_eq!(draining.connections(), 1);
    client.write_all(b"a question").unwrap();
    assert_eq!(read(&theirs, 10), b"a question");
    write(&theirs, b"an answer");
    drop(theirs);
    let mut got = Vec::new();
    client.read_to_end(&mut got).expect("it is told that nothing more comes");
    assert_eq!(got, b"an answer");
    drop(client);
    draining.wait();
    assert_eq!(draining.connections(), 0);
}

#[test]
fn more_than_all_buffers_hold_goes_through_whole() {
    let Drained { draining, theirs, mut client } = drained();
    let all = pattern(3 << 20);
    let (outward, expected) = (all.clone(), all.len());
    let other = std::thread::spawn(move || {
        write(&theirs, &outward);
        theirs.end().unwrap();
        (read(&theirs, expected), theirs)
    });
    let mut got = Vec::new();
    client.read_to_end(&mut got).unwrap();
    assert!(got == all, "{} of {} bytes", got.len(), all.len());
    drop(client);
    let (inward, theirs) = other.join().unwrap();
    assert_eq!(inward, b"");
    drop(theirs);
    draining.wait();
}

#[test]
fn what_the_peer_sends_waits_for_a_process_that_is_slow() {
    let Drained { draining, theirs, mut client } = drained();
    let all = pattern(1 << 20);
    let sent = all.clone();
    let peer = std::thread::spawn(move || {
        client.write_all(&sent).unwrap();
        client.conn.send_close_notify();
        client.flush().unwrap();
        client
    });
    let got = read(&theirs, usize::MAX);
    assert!(got == all, "{} of {} bytes", got.len(), all.len());
    drop((peer.join().unwrap(), theirs));
    draining.wait();
}

#[test]
fn a_peer_that_ends_is_an_end_for_the_other_process() {
    let Drained { draining, theirs, client } = drained();
    client.sock.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read(&theirs, usize::MAX), b"");
    drop(theirs);
    draining.wait();
    assert_eq!(draining.connections(), 0);
}

#[test]
fn a_handshake_that_was_not_over_goes_on_here() {
    let (wire, mut client) = connected(true);
    let (socket, session) = wire.into_session().unwrap();
    let Pair { ours, theirs } = Pair::new().unwrap();
    let draining = start(vec![vec![TlsEnd::new(socket, session, ours)]], PATIENCE);
    client.write_all(b"hello").unwrap();
    assert_eq!(read(&theirs, 5), b"hello");
    drop((client, theirs));
    draining.wait();
}

#[test]
fn a_peer_that_speaks_no_tls_ends_its_connection_alone() {
    let (wire, mut client) = connected(true);
    let (socket, session) = wire.into_session().unwrap();
    let Pair { ours, theirs } = Pair::new().unwrap();
    let good = handshaken();
    let (good_socket, good_session) = good.wire.into_session().unwrap();
    let good_pair = Pair::new().unwrap();
    let ends =
        vec![TlsEnd::new(socket, session, ours), TlsEnd::new(good_socket, good_session, good_pair.ours)];
    let draining = start(vec![ends], PATIENCE);
    client.sock.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert_eq!(read(&theirs, usize::MAX), b"");
    until("its end", || draining.connections() == 1);
    write(&good_pair.theirs, b"still here");
    let (mut got, mut stream) = ([0; 10], good.client);
    stream.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"still here");
    drop((good_pair.theirs, stream));
    draining.wait();
}

#[test]
fn when_they_are_ended_the_other_process_sees_an_end_of_each_peer_and_may_say_a_last_word() {
    let Drained { draining, theirs, mut client } = drained();
    draining.end();
    assert_eq!(read(&theirs, usize::MAX), b"");
    write(&theirs, b"farewell");
    drop(theirs);
    let mut got = Vec::new();
    client.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"farewell");
    drop(client);
    draining.wait();
    assert_eq!(draining.connections(), 0);
}

#[test]
fn no_connection_takes_no_thread() {
    let draining = start(vec![Vec::new(), Vec::new()], PATIENCE);
    assert_eq!((draining.connections(), draining.threads.lock().unwrap().len()), (0, 0));
    draining.wait();
}

/// One in a test's hands, and the two other ends.
fn end() -> (TlsEnd, Socket, Stream) {
    let Side { wire, client } = handshaken();
    let (socket, session) = wire.into_session().unwrap();
    let Pair { ours, theirs } = Pair::new().unwrap();
    (TlsEnd::new(socket, session, ours), theirs, client)
}

#[test]
fn a_connection_is_over_when_both_have_said_all_or_the_peer_takes_too_long_over_it() {
    let (mut end, ..) = end();
    let (patience, now) = (Duration::from_secs(9), Time::from_millis(1000));
    assert!(!end.is_over(patience, now + patience * 100), "nothing has ended");
    end.has_said_all = Some(now);
    assert!(!end.is_over(patience, now + (DRAIN_TIME - Duration::from_nanos(1))));
    assert!(end.is_over(patience, now + DRAIN_TIME));
    end.peer_has_ended = true;
    assert!(end.is_over(patience, now));
}

#[test]
fn a_peer_that_takes_nothing_of_what_was_left_for_it_is_given_up() {
    let (mut end, ..) = end();
    let (patience, now) = (Duration::from_secs(9), Time::from_millis(50_000));
    end.abandon(now);
    assert!(!end.is_over(patience, now + (patience - Duration::from_nanos(1))));
    assert!(end.is_over(patience, now + patience));
    end.abandon(now + patience);
    assert!(end.is_over(patience, now + patience), "it is abandoned once");
    end.last_progress = now + patience;
    assert!(!end.is_over(patience, now + patience), "it has taken something since");
}

#[test]
fn what_the_other_process_does_not_take_is_kept_and_given_later() {
    let (mut end, theirs, _client) = end();
    let all = pattern(1 << 20);
    end.give(&all);
    let kept = end.inward.len();
    assert!(kept > 0 && kept < all.len());
    assert_eq!(end.inward, all[all.len() - kept..]);
    drop(theirs);
    end.give(&all);
    assert!(!end.peer_has_ended, "that it listens no more is seen elsewhere");
}
