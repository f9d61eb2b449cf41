use super::*;
use crate::raw::testing::{LONG, free};
use glassline_io::udp::Settings as From;
use std::net::UdpSocket;
use std::time::Instant;

fn open(to: &[SocketAddr]) -> Datagrams {
    let path = |address: &SocketAddr| FlowSettings {
        buffer_bytes: 200 << 10,
        ..FlowSettings::of(From { address: *address, interface: None, sender: None })
    };
    Datagrams::open(&to.iter().map(path).collect::<Vec<_>>()).unwrap()
}

/// Paths, bytes and senders of the next `count` datagrams, in the order in which they are given.
fn take(datagrams: &mut Datagrams, count: usize) -> Vec<(usize, Vec<u8>, Option<SocketAddr>)> {
    let (mut taken, deadline) = (Vec::new(), Instant::now() + LONG);
    while taken.len() < count {
        assert!(Instant::now() < deadline, "{} of {count} datagrams have come", taken.len());
        let before = taken.len();
        let given = datagrams.receive(Duration::from_millis(100), &mut |path, datagram| {
            taken.push((path, datagram.bytes.to_vec(), datagram.from));
        });
        assert_eq!(given.unwrap(), taken.len() - before, "it says how many it has given");
    }
    taken
}

#[test]
fn datagrams_of_a_path_come_whole_in_their_order_and_with_their_sender() {
    let to = free();
    let mut datagrams = open(&[to]);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sent: Vec<Vec<u8>> = (0..100_u8).map(|number| vec![number; 1 + usize::from(number)]).collect();
    sent.iter().for_each(|bytes| _ = sender.send_to(bytes, to).unwrap());
    let taken = take(&mut datagrams, sent.len());
    let from = sender.local_addr().ok();
    assert!(taken.iter().all(|(path, _, sent_from)| (*path, *sent_from) == (0, from)));
    assert!(taken.into_iter().map(|(_, bytes, _)| bytes).eq(sent));
}

#[test]
fn each_path_is_told_by_its_place_in_the_settings() {
    let to = [free(), free()];
    let mut datagrams = open(&to);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.send_to(b"second", to[1]).unwrap();
    let told = |(path, bytes, _): (usize, Vec<u8>, _)| (path, bytes);
    assert_eq!(take(&mut datagrams, 1).into_iter().map(told).next(), Some((1, b"second".to_vec())));
    sender.send_to(b"first", to[0]).unwrap();
    assert_eq!(take(&mut datagrams, 1).into_iter().map(told).next(), Some((0, b"first".to_vec())));
    assert_eq!(datagrams.granted().len(), 2);
}

#[test]
fn what_is_longer_than_a_jumbo_frame_is_cut_off_and_the_next_one_is_whole() {
    let to = free();
    let mut datagrams = open(&[to]);
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.send_to(&[7; DATAGRAM_BYTES + 100], to).unwrap();
    sender.send_to(&[8; 3], to).unwrap();
    let taken = take(&mut datagrams, 2);
    assert_eq!((taken[0].1.len(), &taken[1].1[..]), (DATAGRAM_BYTES, &[8; 3][..]));
    assert!(taken[0].1.iter().all(|byte| *byte == 7));
}

#[test]
fn where_nothing_comes_none_is_given() {
    let mut datagrams = open(&[free()]);
    for timeout in [Duration::ZERO, Duration::from_millis(1)] {
        let given = datagrams.receive(timeout, &mut |_, _| panic!("nothing was sent"));
        assert_eq!(given.unwrap(), 0);
    }
}
