//! TLS between a wire and a client of the tests.

use crate::wire::Wire;
use glassline_io::small_file::Accept;
use glassline_io::tcp::Connection as Socket;
use glassline_io::tls::{Acceptor, CertificateFiles, Identities};
use glassline_test_support::program::Scratch;
use glassline_test_support::tls::{self, Identity, Stream};
use glassline_test_support::wait::until_some;
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

fn identity() -> &'static Identity {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    IDENTITY.get_or_init(|| Identity::new(&["localhost"]))
}

/// What shows the tests' certificate.
pub(crate) fn acceptor() -> Acceptor {
    let scratch = Scratch::new("doors-tls");
    identity().write(&scratch, "it");
    let [chain, key] = ["it.pem", "it.key"].map(|file| scratch.path().join(file));
    let acceptor = Acceptor::new().unwrap();
    acceptor
        .use_identities(Identities::read(&[CertificateFiles { chain, key }], Accept::RegularFile).unwrap());
    acceptor
}

/// A wire with TLS and its client, which has said nothing yet. It trusts the certificate, or another one.
pub(crate) fn connected(is_trusted: bool) -> (Wire, Stream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = Identity::new(&["localhost"]);
    let config = tls::client(&[if is_trusted { identity() } else { &other }]);
    let client = tls::connect(listener.local_addr().unwrap(), "localhost", &config);
    let (server, _) = listener.accept().unwrap();
    server.set_nonblocking(true).unwrap();
    let socket = Socket::from_descriptor(OwnedFd::from(server));
    (Wire::secured(socket, acceptor().accept().unwrap()), client)
}

/// A wire with TLS, and its client.
pub(crate) struct Side {
    pub(crate) wire: Wire,
    pub(crate) client: Stream,
}

/// The handshake of which is over.
pub(crate) fn handshaken() -> Side {
    let (mut wire, mut client) = connected(true);
    let client = std::thread::spawn(move || {
        client.write_all(b"x").unwrap();
        client
    });
    let mut room = vec![0; 2 * glassline_io::tls::READ_BYTES_MIN];
    assert_eq!(read(&mut wire, &mut room), Some(1));
    Side { wire, client: client.join().unwrap() }
}

/// Reads once something has come.
pub(crate) fn read_result(wire: &mut Wire, room: &mut [u8]) -> io::Result<Option<usize>> {
    until_some("bytes over TLS", || match wire.read(room) {
        Ok(None) => None,
        other => Some(other),
    })
}

pub(crate) fn read(wire: &mut Wire, room: &mut [u8]) -> Option<usize> {
    read_result(wire, room).unwrap()
}
