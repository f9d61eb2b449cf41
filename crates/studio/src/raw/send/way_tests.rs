use super::*;
use crate::raw::testing::LONG;
use glassline_io::udp::Route;
use std::net::{SocketAddr, UdpSocket};

fn path(address: SocketAddr) -> PathSettings {
    PathSettings { route: Route::to(address) }
}

fn receiver() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

fn next(socket: &UdpSocket) -> Vec<u8> {
    let mut bytes = vec![0; 2_000];
    let count = socket.recv(&mut bytes).expect("a datagram in time");
    bytes.truncate(count);
    bytes
}

#[test]
fn a_datagram_leaves_as_it_is_by_each_of_two_paths() {
    let ((one, to_one), (two, to_two)) = (receiver(), receiver());
    let mut ways = Way::open_all(&[path(to_one), path(to_two)], None).unwrap();
    for way in &mut ways {
        assert_eq!(way.send(b"sound"), Ok(()));
        assert_eq!(way.send(b"and more"), Ok(()));
    }
    for socket in [one, two] {
        assert_eq!([next(&socket), next(&socket)], [b"sound".to_vec(), b"and more".to_vec()]);
    }
}

#[test]
fn there_is_one_path_or_there_are_two() {
    let (_socket, to) = receiver();
    for count in [0, 3] {
        let refused = Way::open_all(&vec![path(to); count], None).unwrap_err();
        assert_eq!(refused.to_string(), format!("packets go over one path or two, not {count}"));
    }
}

#[test]
fn a_path_that_cannot_be_opened_is_named() {
    let (_socket, to) = receiver();
    let mut settings = path(to);
    settings.route.interface = Some("no-such-if".to_owned());
    settings.route.address = SocketAddr::from(([239, 255, 0, 1], to.port()));
    let refused = Way::open_all(&[path(to), settings.clone()], None).unwrap_err();
    let Error::Open { to, .. } = refused else { panic!("{refused}") };
    assert_eq!(to, settings.route.address.to_string());
}

#[test]
fn a_datagram_that_no_network_takes_is_told_with_where_it_was_to_go() {
    let (socket, to) = receiver();
    let mut ways = Way::open_all(&[path(to)], None).unwrap();
    let failure = ways[0].send(&[0; 66_000]).unwrap_err();
    assert!(failure.starts_with(&format!("{to}: ")), "{failure}");
    assert_eq!(ways[0].send(b"the next one"), Ok(()), "what failed does not stay");
    assert_eq!(next(&socket), b"the next one");
}
