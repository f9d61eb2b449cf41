use super::super::testing::{Bench, POLICY, pull};
use super::*;
use crate::testing::ts;
use glassline_streams::status::SourceState;
use glassline_test_support::wait::until;
use std::net::{SocketAddr, UdpSocket};

/// A source of datagrams in a test's hands, and its sender.
struct Heard {
    bench: Bench,
    datagrams: Datagrams,
    sender: UdpSocket,
}

fn datagrams(bench: &Bench) -> Datagrams {
    let (Source::Udp(address) | Source::Rtp(address)) = bench.entry().source.clone() else {
        panic!("datagrams")
    };
    Datagrams::new(&*bench.house, 0, bench.entry(), address, POLICY, 7)
}

impl Heard {
    /// One that listens, or has tried to.
    fn at(url: &str) -> Heard {
        let bench = Bench::new(&[pull("a", url)]);
        let datagrams = datagrams(&bench);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut heard = Heard { bench, datagrams, sender };
        assert!(heard.datagrams.poll_timeout() <= heard.bench.now(), "it is opened at once");
        heard.handle_timeout();
        heard
    }

    fn udp() -> Heard {
        Heard::at("udp://127.0.0.1:0")
    }

    fn handle_timeout(&mut self) {
        self.bench.with(|context| self.datagrams.handle_timeout(context));
    }

    fn address(&self) -> SocketAddr {
        let State::Open(open) = &self.datagrams.state else { panic!("it is closed") };
        open.socket.local_address().unwrap()
    }

    /// A datagram from the test's sender, which is taken in.
    fn send(&mut self, datagram: &[u8]) {
        let sender = self.sender.try_clone().unwrap();
        self.send_from(&sender, datagram);
    }

    fn send_from(&mut self, sender: &UdpSocket, datagram: &[u8]) {
        let received = self.datagrams.received;
        sender.send_to(datagram, self.address()).unwrap();
        until("a datagram", || {
            for generation in self.bench.ready() {
                self.bench.with(|context| self.datagrams.take_turn(generation, context));
            }
            self.datagrams.received > received
        });
    }

    fn bytes_in(&self) -> Option<u64> {
        self.bench.house.bytes_in("a")
    }
}

/// A datagram of RTP with this number.
fn rtp(number: u16, ssrc: u32, payload: &[u8]) -> Vec<u8> {
    [&[0x80, 33][..], &number.to_be_bytes(), &[0; 4], &ssrc.to_be_bytes(), payload].concat()
}

#[test]
fn bare_packets_are_published_as_they_come() {
    let mut heard = Heard::udp();
    assert_eq!(heard.bench.status("a").state, SourceState::Connecting);
    assert_eq!((heard.datagrams.poll_timeout(), heard.bytes_in()), (Time::NEVER, None));
    let bytes = ts(10);
    for datagram in bytes.chunks(7 * 188) {
        heard.send(datagram);
    }
    assert_eq!(heard.bytes_in(), Some(bytes.len() as u64));
    let status = heard.bench.status("a");
    assert_eq!((status.state, status.sessions, status.datagrams), (SourceState::Live, 1, Some((2, 0))));
    assert_eq!(status.rtp, None);
}

#[test]
fn a_sender_is_listened_to_and_another_one_is_not() {
    let mut heard = Heard::udp();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    let bytes = ts(2);
    heard.send(&bytes);
    heard.send_from(&stranger, &bytes);
    assert_eq!(heard.bytes_in(), Some(bytes.len() as u64));
    assert_eq!(heard.bench.status("a").datagrams, Some((2, 0)), "it was counted");
}

#[test]
fn a_sender_is_one_with_its_first_packet() {
    let (now, bytes) = (Time::from_millis(1000), ts(1));
    let [one, other] = ["192.0.2.1:5000", "192.0.2.2:5000"].map(|it| Origin::of(Some(it.parse().unwrap())));
    let mut lock = SourceLock::new();
    assert!(takes_bare(&mut lock, one, b"no packet", now), "what it is will be seen");
    assert!(takes_bare(&mut lock, other, &bytes, now), "and it holds no place");
    assert!(!takes_bare(&mut lock, one, &bytes, now));
    assert!(takes_bare(&mut lock, other, b"a piece of a packet", now));
}

#[test]
fn packets_of_rtp_are_found_where_bare_ones_were_expected_and_put_in_order() {
    let mut heard = Heard::udp();
    let bytes = ts(12);
    let pieces: Vec<&[u8]> = bytes.chunks(4 * 188).collect();
    for number in [0u16, 2, 1, 3] {
        if let Some(piece) = pieces.get(usize::from(number)) {
            heard.send(&rtp(number, 5, piece));
        }
    }
    assert_eq!(heard.bytes_in(), Some(bytes.len() as u64));
    let counts = heard.bench.status("a").rtp.unwrap();
    assert_eq!((counts.received, counts.reordered, counts.lost), (pieces.len() as u64, 1, 0));
}

#[test]
fn packets_that_do_not_come_are_given_up_after_their_time() {
    let mut heard = Heard::at("rtp://127.0.0.1:0");
    let bytes = ts(8);
    let pieces: Vec<&[u8]> = bytes.chunks(188).collect();
    for number in [0u16, 2] {
        heard.send(&rtp(number, 5, pieces[usize::from(number)]));
    }
    assert_eq!(heard.bytes_in(), Some(188));
    let due = heard.datagrams.poll_timeout();
    assert!(due.since(heard.bench.now()) <= POLICY.reorder, "it is waited for as long as the policy says");
    heard.bench.later = POLICY.reorder;
    heard.handle_timeout();
    assert_eq!(heard.bytes_in(), Some(2 * 188));
    assert_eq!(heard.bench.status("a").rtp.unwrap().lost, 1);
}

#[test]
fn a_source_that_sends_no_transport_stream_is_given_up_for_a_while() {
    let mut heard = Heard::at("rtp://127.0.0.1:0");
    let noise = [0x11; 1400];
    let mut count = 0;
    while matches!(heard.datagrams.state, State::Open(_)) {
        heard.send(&noise);
        count += noise.len() as u64;
        assert!(count <= REFUSED_BYTES + noise.len() as u64);
    }
    assert!(count > REFUSED_BYTES);
    let status = heard.bench.status("a");
    let error = status.error.unwrap();
    assert!(error.contains("found no MPEG-TS in ") && heard.bytes_in().is_none(), "{error}");
    let SourceState::Waiting { retry_in: Some(retry_in) } = status.state else {
        panic!("{:?}", status.state)
    };
    assert!(retry_in <= POLICY.retry_min);
    // It is opened again by its time.
    heard.bench.later = POLICY.retry_min;
    heard.handle_timeout();
    assert!(matches!(heard.datagrams.state, State::Open(_)));
}

#[test]
fn a_source_that_is_silent_gives_its_slot_back_and_is_heard_again() {
    let mut heard = Heard::udp();
    let bytes = ts(2);
    heard.send(&bytes);
    assert!(heard.bench.house.is_published("a"));
    heard.handle_timeout();
    assert!(heard.bench.house.is_published("a"), "not before");
    heard.bench.later = POLICY.silence_timeout;
    heard.handle_timeout();
    assert!(!heard.bench.house.is_published("a"));
    let status = heard.bench.status("a");
    assert_eq!((status.state, status.failures), (SourceState::Waiting { retry_in: None }, 1));
    assert_eq!(status.error.as_deref(), Some("no datagram for 600 s"));
    assert_eq!(heard.datagrams.poll_timeout(), Time::NEVER, "there is nothing to do but to listen");
    // Another sender may come then.
    heard.send_from(&UdpSocket::bind("127.0.0.1:0").unwrap(), &bytes);
    let status = heard.bench.status("a");
    assert_eq!((status.state, status.sessions, status.error), (SourceState::Live, 2, None));
}

#[test]
fn a_source_that_cannot_be_listened_to_is_tried_again_after_waits_that_double() {
    // The address of another machine.
    let mut heard = Heard::at("udp://192.0.2.1:5000");
    let (mut longest, mut before) = (POLICY.retry_min, None);
    for failures in 1..=6 {
        let status = heard.bench.status("a");
        assert_eq!(status.failures, failures);
        assert!(status.error.unwrap().starts_with("cannot receive there: "));
        // It is shortened by up to a half, at random.
        let due = heard.datagrams.poll_timeout();
        let wait = due.since(heard.bench.now());
        assert!(wait <= longest, "{failures}: {wait:?}");
        assert!(before.is_none_or(|before| due.since(before) >= longest / 2), "{failures}: {wait:?}");
        heard.bench.later += wait;
        longest = (longest * 2).min(POLICY.retry_max);
        before = Some(heard.bench.now());
        heard.handle_timeout();
    }
}

#[test]
fn a_name_that_another_publisher_has_closes_the_source_for_a_while() {
    let mut heard = Heard::udp();
    let other = heard.bench.house.publish("a");
    heard.send(&ts(2));
    assert!(matches!(heard.datagrams.state, State::Closed { .. }));
    let error = heard.bench.status("a").error.unwrap();
    assert!(error.contains("stream a has a publisher already"), "{error}");
    drop(other);
    heard.bench.later = POLICY.retry_min;
    heard.handle_timeout();
    // The sender of before holds no place.
    heard.send_from(&UdpSocket::bind("127.0.0.1:0").unwrap(), &ts(2));
    assert_eq!(heard.bench.status("a").state, SourceState::Live);
}

#[test]
fn what_epoll_tells_of_an_earlier_socket_is_void() {
    let mut heard = Heard::udp();
    let generation = heard.datagrams.generation;
    heard.bench.with(|context| heard.datagrams.fail("a test's", None, context));
    assert!(!heard.bench.with(|context| heard.datagrams.take_turn(generation, context)));
    assert_eq!(heard.bench.status("a").failures, 0, "what was not posted yet");
    assert!(heard.datagrams.state().is_none(), "what is closed is not handed over");
}

#[test]
fn a_next_process_goes_on_with_the_socket_and_the_counts() {
    let mut heard = Heard::udp();
    heard.send(&ts(2));
    let (state, socket) = heard.datagrams.state().unwrap();
    let socket = socket.try_clone_to_owned().unwrap();
    assert_eq!((state.received, state.sessions.len()), (1, 1));
    let address = heard.address();
    let state = DatagramsState { sessions: Vec::new(), ..state };
    heard.datagrams = datagrams(&heard.bench);
    let poller = &heard.bench.poller;
    heard.datagrams.restore(state, socket, poller).unwrap();
    assert_eq!((heard.address(), heard.datagrams.received), (address, 1));
    heard.send(&ts(2));
    assert_eq!(heard.bench.status("a").datagrams, Some((2, 0)));
    assert!(heard.bench.house.is_published("a"));
}

#[test]
fn a_next_process_without_the_slots_begins_anew() {
    let heard = Heard::udp();
    let (state, socket) = heard.datagrams.state().unwrap();
    let socket = socket.try_clone_to_owned().unwrap();
    let state = DatagramsState { sessions: vec![77], ..state };
    let mut next = datagrams(&heard.bench);
    next.restore(state, socket, &heard.bench.poller).unwrap();
    assert!(next.state().is_none() && next.poll_timeout() == Time::ZERO);
}
