//! TLS between a wire and a client of the tests.

use crate::wire::Wire;
use glassline_io::small_file::Accept;
use glassline_io::tcp::Connection as Socket;
use glassline_io::tls::{Acceptor, CertificateFiles, Identities};
use glassline_test_support::program::Scratch;
use glassline_test_support::tls::{self, Identity, Stream};
use glassline_test_support::wait::until_some;
use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
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

/// The certificate, in PEM.
pub(crate) fn certificate() -> String {
    identity().chain.clone()
}

/// Reads one request with a body of known length over TLS, and answers it. Returns its bytes; `None` where the client does not
/// agree on TLS, or goes.
pub(crate) fn answer_once(acceptor: &Acceptor, stream: TcpStream, answer: &[u8]) -> Option<Vec<u8>> {
    stream.set_nonblocking(true).unwrap();
    let mut wire = Wire::secured(Socket::from_descriptor(OwnedFd::from(stream)), acceptor.accept().unwrap());
    let (mut request, mut room) = (Vec::new(), vec![0; glassline_io::tls::READ_BYTES_MIN]);
    loop {
        let count = read_result(&mut wire, &mut room).ok()?.filter(|count| *count > 0)?;
        request.extend_from_slice(&room[..count]);
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.split("\r\n").find_map(|line| line.strip_prefix("Content-Length: "));
        if length.is_some_and(|length| length.parse() == Ok(body.len())) {
            wire.write(answer).ok()?;
            wire.flush().ok()?;
            return Some(request);
        }
    }
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
