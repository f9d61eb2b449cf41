//! The client's side of TLS: whom it trusts, and that bytes go both ways.

use glassline_io::small_file::Accept;
use glassline_io::tcp::{Connection, Listener};
use glassline_io::tls::{
    Acceptor, CertificateFiles, Connector, Identities, READ_BYTES_MIN, Received, Roots, Session, TlsError,
};
use glassline_test_support::program::Scratch;
use glassline_test_support::tls::Identity;
use std::io;
use std::net::SocketAddr;
use std::thread::{JoinHandle, spawn};

/// A server with one certificate that sends back what it reads, for one connection.
struct Echo {
    address: SocketAddr,
    thread: JoinHandle<io::Result<()>>,
}

impl Echo {
    fn new(identity: &Identity, folder: &Scratch) -> Echo {
        identity.write(folder, "server");
        let path = |end: &str| folder.path().join(format!("server.{end}"));
        let files = CertificateFiles { chain: path("pem"), key: path("key") };
        let acceptor = Acceptor::new().unwrap();
        acceptor.use_identities(Identities::read(&[files], Accept::AnyFile).unwrap());
        let listener = Listener::bind_group("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
        let address = listener.local_address().unwrap();
        Echo { address, thread: spawn(move || echo(&listener, &acceptor)) }
    }
}

fn echo(listener: &Listener, acceptor: &Acceptor) -> io::Result<()> {
    let socket = loop {
        match listener.accept()? {
            Some((socket, _)) => break socket,
            None => std::thread::yield_now(),
        }
    };
    let mut session = acceptor.accept().unwrap();
    let mut into = vec![0; READ_BYTES_MIN];
    while let Received::Bytes(count) = read(&mut session, &socket, &mut into)? {
        write(&mut session, &socket, &into[..count])?;
    }
    session.end(&socket);
    Ok(())
}

fn read(session: &mut Session, socket: &Connection, into: &mut [u8]) -> io::Result<Received> {
    loop {
        match session.read(socket, into)? {
            Received::Blocked => std::thread::yield_now(),
            received => return Ok(received),
        }
    }
}

fn write(session: &mut Session, socket: &Connection, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match session.write(socket, bytes)? {
            Some(count) => bytes = &bytes[count..],
            None => std::thread::yield_now(),
        }
    }
    while !session.flush(socket)?.all {
        std::thread::yield_now();
    }
    Ok(())
}

/// Shakes hands with the server at `address`, which is called `host`.
fn shake_hands(connector: &Connector, address: SocketAddr, host: &str) -> io::Result<(Connection, Session)> {
    let socket = Connection::connect_from(address, None, None).unwrap();
    while let Err(error) = socket.connected() {
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
    }
    let mut session = connector.connect(host).unwrap();
    session.flush(&socket)?;
    let mut into = vec![0; READ_BYTES_MIN];
    while session.is_handshaking() {
        match session.read(&socket, &mut into)? {
            Received::Blocked => std::thread::yield_now(),
            received => panic!("{received:?} in the handshake"),
        }
    }
    Ok((socket, session))
}

fn trusting(identity: &Identity, folder: &Scratch) -> Connector {
    let file = folder.write("ca.pem", &identity.chain);
    Connector::new(&Roots::File(file.into()), Accept::AnyFile).unwrap()
}

#[test]
fn bytes_go_to_a_server_and_back_and_the_end_is_told() {
    for (name, host) in [("relay.example", "relay.example"), ("127.0.0.1", "127.0.0.1")] {
        let (folder, identity) = (Scratch::new("tls-client"), Identity::new(&[name]));
        let server = Echo::new(&identity, &folder);
        let (socket, mut session) = shake_hands(&trusting(&identity, &folder), server.address, host).unwrap();
        let sent: Vec<u8> = (0..200_000u32).map(|number| (number % 251) as u8).collect();
        let (mut into, mut got) = (vec![0; READ_BYTES_MIN], Vec::new());
        for piece in sent.chunks(20_000) {
            write(&mut session, &socket, piece).unwrap();
            let expected = got.len() + piece.len();
            while got.len() < expected {
                let received = read(&mut session, &socket, &mut into).unwrap();
                let Received::Bytes(count) = received else { panic!("{received:?}") };
                got.extend_from_slice(&into[..count]);
            }
        }
        assert!(got == sent);
        session.end(&socket);
        server.thread.join().unwrap().unwrap();
        assert_eq!(read(&mut session, &socket, &mut into).unwrap(), Received::End);
    }
}

#[test]
fn the_certificate_that_openssl_makes_is_good_where_it_is_the_one_of_the_file() {
    let own = |names: &[&str], until_year| Identity::authority(names, until_year);
    for (identity, is_good) in [
        (own(&["relay.example"], 2100), true),
        // Its owner says whose it is, by naming it.
        (own(&[], 2100), true),
        (own(&["another.example"], 2100), false),
        (own(&["relay.example"], 2021), false),
    ] {
        let folder = Scratch::new("tls-authority");
        let server = Echo::new(&identity, &folder);
        let greeted = shake_hands(&trusting(&identity, &folder), server.address, "relay.example");
        assert_eq!(greeted.is_ok(), is_good, "{:?}", greeted.err());
        drop(greeted);
        let _ = server.thread.join().unwrap();
    }
    // Another one of the same name.
    let (folder, identity) = (Scratch::new("tls-authority"), own(&["relay.example"], 2100));
    let server = Echo::new(&identity, &folder);
    let other = trusting(&own(&["relay.example"], 2100), &folder);
    assert!(shake_hands(&other, server.address, "relay.example").is_err());
    let _ = server.thread.join().unwrap();
}

#[test]
fn a_stranger_and_one_of_another_name_are_refused() {
    let (folder, identity) = (Scratch::new("tls-client"), Identity::new(&["relay.example"]));
    let refused = |connector: &Connector, host: &str| {
        let server = Echo::new(&identity, &folder);
        let error = shake_hands(connector, server.address, host).unwrap_err();
        // The server is told by an alert.
        assert!(server.thread.join().unwrap().is_err());
        (error.kind(), error.to_string())
    };
    let other = Identity::new(&["relay.example"]);
    let (kind, told) = refused(&trusting(&other, &folder), "relay.example");
    assert!(kind == io::ErrorKind::InvalidData && told.contains("certificate"), "{told}");
    let (_, told) = refused(&trusting(&identity, &folder), "other.example");
    assert!(told.contains("name"), "{told}");
}

#[test]
fn what_is_no_root_and_no_name_is_told() {
    let folder = Scratch::new("tls-client");
    let read = |text: &str| {
        let roots = Roots::File(folder.write("ca.pem", text).into());
        Connector::new(&roots, Accept::AnyFile).unwrap_err()
    };
    for text in ["", "no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        assert!(matches!(read(text), TlsError::Lacks { .. }), "{text:?}");
    }
    let none = Connector::new(&Roots::File(folder.path().join("none.pem")), Accept::AnyFile).unwrap_err();
    assert!(matches!(&none, TlsError::File(error) if error.is_not_found()), "{none}");
    let connector = trusting(&Identity::new(&["a.example"]), &folder);
    assert!(matches!(connector.connect("a b").unwrap_err(), TlsError::Name(_)));
}
