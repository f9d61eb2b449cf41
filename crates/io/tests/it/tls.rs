//! TLS over sockets, from outside: what a client sends arrives, what it is sent is right, and bounds hold.

use glassline_io::small_file::Accept;
use glassline_io::tcp::{Connection, Listener};
use glassline_io::tls::{
    Acceptor, CertificateFiles, Identities, READ_BYTES_MIN, Received, Session, TlsError,
};
use glassline_test_support::program::Scratch;
use glassline_test_support::tls::{Identity, Stream, client, connect, shown};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::thread::{JoinHandle, spawn};

fn files(folder: &Scratch, name: &str) -> CertificateFiles {
    CertificateFiles {
        chain: folder.path().join(format!("{name}.pem")),
        key: folder.path().join(format!("{name}.key")),
    }
}

fn acceptor(identities: &[&Identity]) -> (Acceptor, Scratch) {
    let folder = Scratch::new("tls");
    let names: Vec<_> = (0..identities.len()).map(|number| number.to_string()).collect();
    for (identity, name) in identities.iter().zip(&names) {
        identity.write(&folder, name);
    }
    let files: Vec<_> = names.iter().map(|name| files(&folder, name)).collect();
    let acceptor = Acceptor::new().unwrap();
    acceptor.use_identities(Identities::read(&files, Accept::AnyFile).unwrap());
    (acceptor, folder)
}

fn listen() -> (Listener, SocketAddr) {
    let listener = Listener::bind_group("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
    let address = listener.local_address().unwrap();
    (listener, address)
}

fn accept(listener: &Listener) -> Connection {
    loop {
        if let Some((connection, _)) = listener.accept().unwrap() {
            return connection;
        }
        std::thread::yield_now();
    }
}

fn read(session: &mut Session, socket: &Connection, into: &mut [u8]) -> Received {
    loop {
        match session.read(socket, into).unwrap() {
            Received::Blocked => std::thread::yield_now(),
            received => return received,
        }
    }
}

/// Runs `act` as a client in a thread of its own.
fn as_client<T: Send + 'static>(
    address: SocketAddr,
    name: &'static str,
    trusted: &[&Identity],
    act: impl FnOnce(&mut Stream) -> T + Send + 'static,
) -> JoinHandle<T> {
    let trusted = client(trusted);
    spawn(move || act(&mut connect(address, name, &trusted)))
}

#[test]
fn bytes_go_both_ways_and_the_end_is_told() {
    let identity = Identity::new(&["a.example"]);
    let (acceptor, _folder) = acceptor(&[&identity]);
    let (listener, address) = listen();
    let sent: Vec<u8> = (0..1_000_000u32).map(|number| (number % 251) as u8).collect();
    let expected = sent.clone();
    let echoed = as_client(address, "a.example", &[&identity], move |stream| {
        stream.write_all(&sent).unwrap();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        back
    });
    let (socket, mut session) = (accept(&listener), acceptor.accept().unwrap());
    assert!(session.is_handshaking());
    let (mut into, mut got) = (vec![0; READ_BYTES_MIN], Vec::new());
    while let Received::Bytes(count) = read(&mut session, &socket, &mut into) {
        got.extend_from_slice(&into[..count]);
    }
    assert!(got == expected, "{} of {} bytes", got.len(), expected.len());
    let mut rest = &got[..];
    while !rest.is_empty() {
        match session.write(&socket, rest).unwrap() {
            Some(count) => rest = &rest[count..],
            None => std::thread::yield_now(),
        }
    }
    while !session.flush(&socket).unwrap().all {
        std::thread::yield_now();
    }
    session.end(&socket);
    assert!(echoed.join().unwrap() == expected);
}

#[test]
fn a_full_socket_takes_nothing_and_little_waits() {
    let identity = Identity::new(&["a.example"]);
    let (acceptor, _folder) = acceptor(&[&identity]);
    let (listener, address) = listen();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let reading = as_client(address, "a.example", &[&identity], move |stream| {
        stream.write_all(b"x").unwrap();
        wait.recv().unwrap();
        let mut back = Vec::new();
        stream.read_to_end(&mut back).unwrap();
        back
    });
    let (socket, mut session) = (accept(&listener), acceptor.accept().unwrap());
    let mut into = vec![0; READ_BYTES_MIN];
    assert_eq!(read(&mut session, &socket, &mut into), Received::Bytes(1));
    let piece: Vec<u8> = (0..100_000u32).map(|number| (number % 253) as u8).collect();
    let mut expected = Vec::new();
    while let Some(count) = session.write(&socket, &piece).unwrap() {
        assert!(count <= 32 << 10, "{count} bytes at once");
        expected.extend_from_slice(&piece[..count]);
    }
    for _ in 0..100 {
        assert_eq!(session.write(&socket, &piece).unwrap(), None);
    }
    go.send(()).unwrap();
    while !session.flush(&socket).unwrap().all {
        std::thread::yield_now();
    }
    session.end(&socket);
    assert!(reading.join().unwrap() == expected);
}

#[test]
fn the_name_chooses_the_certificate_and_the_first_is_for_others() {
    let (first, second) = (Identity::new(&["a.example"]), Identity::new(&["*.b.example", "c.example"]));
    let (acceptor, folder) = acceptor(&[&first, &second]);
    let (listener, address) = listen();
    let handshake = |name: &'static str, trusted: &[&Identity]| {
        let asked = as_client(address, name, trusted, |stream| {
            let refused = stream.conn.complete_io(&mut stream.sock).is_err();
            (!refused).then(|| shown(stream))
        });
        let (socket, mut session) = (accept(&listener), acceptor.accept().unwrap());
        let mut into = vec![0; READ_BYTES_MIN];
        while !asked.is_finished() {
            // A client that refuses the certificate sends an alert.
            let _ = session.read(&socket, &mut into);
            std::thread::yield_now();
        }
        asked.join().unwrap()
    };
    let both = [&first, &second];
    assert_eq!(handshake("a.example", &both), Some(first.der.clone()));
    assert_eq!(handshake("x.b.example", &both), Some(second.der.clone()));
    assert_eq!(handshake("c.example", &both), Some(second.der.clone()));
    assert_eq!(handshake("other.example", &both), None);

    let third = Identity::new(&["a.example"]);
    third.write(&folder, "third");
    acceptor.use_identities(Identities::read(&[files(&folder, "third")], Accept::RegularFile).unwrap());
    assert_eq!(handshake("a.example", &[&third]), Some(third.der.clone()));
}

#[test]
fn what_is_no_tls_is_told_apart() {
    let identity = Identity::new(&["a.example"]);
    let (acceptor, _folder) = acceptor(&[&identity]);
    let (listener, address) = listen();
    let mut into = vec![0; READ_BYTES_MIN];
    let request = b"GET / HTTP/1.1\r\n\r\n";
    for (sent, plain) in
        [(&request[..], true), (&[0; 64][..], false), (&[0x16, 3, 1, 0xFF, 0xFF, 9, 9][..], false)]
    {
        let mut peer = std::net::TcpStream::connect(address).unwrap();
        let (socket, mut session) = (accept(&listener), acceptor.accept().unwrap());
        peer.write_all(sent).unwrap();
        if plain {
            assert_eq!(read(&mut session, &socket, &mut into), Received::PlainHttp(sent.len()));
            assert_eq!(&into[..sent.len()], sent);
        } else {
            let error = loop {
                match session.read(&socket, &mut into) {
                    Ok(Received::Blocked) => std::thread::yield_now(),
                    other => break other.unwrap_err(),
                }
            };
            assert_eq!(error.kind(), ErrorKind::InvalidData);
        }
        assert!(session.is_handshaking());
    }
}

#[test]
fn bad_files_are_told_without_their_secrets() {
    let folder = Scratch::new("tls");
    let (one, other) = (Identity::new(&["a.example"]), Identity::new(&["a.example"]));
    one.write(&folder, "one");
    other.write(&folder, "other");
    folder.write("empty.pem", "");
    folder.write("strange.key", "-----BEGIN very-secret\nvery-secret\n-----END PRIVATE KEY-----\n");
    folder.write("short.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    for key in ["one.pem", "strange.key"] {
        std::fs::set_permissions(folder.path().join(key), std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let complaint = |chain: &str, key: &str| {
        let files = CertificateFiles { chain: folder.path().join(chain), key: folder.path().join(key) };
        let error: TlsError = Identities::read(&[files], Accept::RegularFile).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(!text.contains("very-secret"), "{text}");
        error.to_string()
    };
    assert!(complaint("none.pem", "one.key").contains("none.pem: No such file"));
    assert!(complaint("empty.pem", "one.key").ends_with("empty.pem holds no certificate in PEM"));
    assert!(complaint("one.key", "one.key").ends_with("one.key holds no certificate in PEM"));
    assert!(complaint("short.pem", "one.key").ends_with("the certificate cannot be read"));
    assert!(complaint("one.pem", "one.pem").contains("one.pem holds no private key in PEM"));
    assert!(complaint("one.pem", "strange.key").contains("strange.key holds no private key in PEM"));
    assert!(complaint("one.pem", "other.key").ends_with("the key is not the certificate's"));

    let key = folder.path().join("one.key");
    for mode in [0o604, 0o644] {
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
        let said = complaint("one.pem", "one.key");
        assert!(said.contains("others may read") && said.contains("; type: chmod 600 /"), "{mode:o}: {said}");
    }
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    Identities::read(&[files(&folder, "one")], Accept::RegularFile).unwrap();
}
