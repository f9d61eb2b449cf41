//! Sources that are asked over TLS: whom a relay trusts, where redirects lead, and what an upgrade does to them.

use crate::pull::{HASTE, source, until_live};
use crate::tls::{NAME, SHAPE, Secure, serve_identity};
use crate::{GLASSLINE, glassline, serve_with};
use glassline_test_support::http::read_once;
use glassline_test_support::http::{publish, read_head};
use glassline_test_support::numbered::Check;
use glassline_test_support::program::{Scratch, Server};
use glassline_test_support::tls::Identity;
use glassline_test_support::wait::until;
use std::io::Write;
use std::net::{TcpListener, TcpStream};

/// An origin whose certificate is for `localhost`, with the stream `near` and its publisher.
fn origin() -> (Secure, TcpStream) {
    let (identity, folder) = (Identity::new(&["localhost", NAME]), Scratch::new("origin"));
    identity.write(&folder, "one");
    let origin = serve_identity("[publish]\nsilence_timeout = '60s'\n", identity, folder);
    let mut publisher = publish(origin.server.address(), "/live/near.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    until("the origin's stream", || origin.server.count("near", "bytes_in") > 0);
    (origin, publisher)
}

/// A relay that pulls the stream `far` from `url` and trusts who signed `trusted`.
fn pulling(url: &str, trusted: &Identity) -> (Server, Scratch) {
    let scratch = Scratch::new("edge");
    scratch.write("ca.pem", &trusted.chain);
    let text = format!("{HASTE}[stream.far]\nsource = '{url}'\nca = 'ca.pem'\n");
    let file = scratch.write("glassline.toml", text);
    (crate::serve(&["--config", &file]), scratch)
}

fn watch(server: &Server) -> TcpStream {
    until("the first picture", || server.count("far", "bytes_in") > 0);
    crate::pull::watch(server, "far")
}

/// Reads until the check has seen all of so many pictures.
fn see(viewer: &mut TcpStream, check: &mut Check, pictures: u64) {
    crate::pull::see(viewer, check, pictures * SHAPE.packets);
}

#[test]
fn a_stream_is_pulled_over_tls_and_survives_upgrades_byte_by_byte() {
    let (mut origin, mut publisher) = origin();
    let port = origin.address.port();
    let (mut edge, scratch) =
        pulling(&format!("https://localhost:{port}/live/near.ts?x=1"), &origin.identity);
    until_live(&edge, "far");
    assert_eq!(source(&edge, "far")["url"], format!("https://localhost:{port}/live/near.ts?…"));
    let (mut viewer, mut check) = (watch(&edge), Check::new(SHAPE));
    let (mut number, mut olds) = (1, Vec::new());
    // It has joined at the first picture, and not at a later one that comes before its turn.
    see(&mut viewer, &mut check, number);
    for turn in 0..4 {
        for _ in 0..30 {
            publisher.write_all(&SHAPE.picture(number)).unwrap();
            number += 1;
        }
        // Both ends of the TLS connection change their programs.
        let (server, file) = match turn % 2 {
            0 => (&mut edge, scratch.file("glassline.toml")),
            _ => (&mut origin.server, origin.folder.file("glassline.toml")),
        };
        let address = server.address().to_string();
        let name = format!("@glassline serve {address}");
        until("the place to meet", || std::fs::read_to_string("/proc/net/unix").unwrap().contains(&name));
        let next = Server::start_at(GLASSLINE, &address, &["--upgrade", "--config", &file]);
        olds.push(std::mem::replace(server, next));
        for _ in 0..30 {
            publisher.write_all(&SHAPE.picture(number)).unwrap();
            number += 1;
        }
        see(&mut viewer, &mut check, number);
    }
    assert_eq!(check.moves, 0, "no seam");
    let told = source(&edge, "far");
    assert_eq!((told["reconnects"].as_u64(), told["failures"].as_u64()), (Some(0), Some(0)), "{told}");
    assert_eq!(origin.metric("glassline_tls_handshakes_total"), 1.0);
    // With the connection end the programs that had its two ends, and the others have ended already.
    origin.server.process.signal("TERM");
    for mut old in olds {
        assert_eq!(old.process.wait().code(), Some(0));
    }
    until("the loss to be seen", || source(&edge, "far")["state"] != "live");
}

#[test]
fn a_redirect_to_tls_is_followed() {
    let (origin, mut publisher) = origin();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let to = format!("https://localhost:{}/live/near.ts", origin.address.port());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            read_request(&mut stream);
            let _ = write!(stream, "HTTP/1.1 307 Over there\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let (edge, _scratch) = pulling(&format!("http://{address}/a.ts"), &origin.identity);
    until_live(&edge, "far");
    let (mut viewer, mut check) = (watch(&edge), Check::new(SHAPE));
    publisher.write_all(&SHAPE.picture(1)).unwrap();
    see(&mut viewer, &mut check, 2);
    assert_eq!(source(&edge, "far")["redirects"], 1);
}

fn read_request(stream: &mut TcpStream) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && read_once(stream, &mut byte).is_ok_and(|count| count > 0) {
        head.push(byte[0]);
    }
}

#[test]
fn who_is_not_trusted_is_not_asked() {
    let (origin, _publisher) = origin();
    let (tls, plain) = (origin.address, origin.server.address());
    let stranger = Identity::new(&["localhost"]);
    for (url, trusted, why) in [
        // Signed by somebody else; for another name; no TLS there at all.
        (format!("https://localhost:{}/live/near.ts", tls.port()), &stranger, "invalid peer certificate"),
        (format!("https://{tls}/live/near.ts"), &origin.identity, "invalid peer certificate"),
        (format!("https://localhost:{}/live/near.ts", plain.port()), &origin.identity, "cannot connect"),
    ] {
        let (edge, _scratch) = pulling(&url, trusted);
        until("two failures", || source(&edge, "far")["failures"].as_u64() > Some(1));
        let told = source(&edge, "far");
        assert!(told["error"].as_str().is_some_and(|error| error.contains(why)), "{told}");
        assert_eq!(edge.count("far", "bytes_in"), 0);
    }
    assert_eq!(origin.server.count("near", "viewers_joined"), 0);
    // A machine may trust nobody, or others; in no case this one.
    let url = format!("https://localhost:{}/live/near.ts", tls.port());
    let (edge, _scratch) = serve_with(&format!("{HASTE}[stream.far]\nsource = '{url}'\n"));
    until("a failure", || source(&edge, "far")["failures"].as_u64() > Some(0));
    assert_eq!(edge.count("far", "bytes_in"), 0);
}

#[test]
fn authorities_that_cannot_be_read_are_told_at_the_start() {
    let scratch = Scratch::new("edge");
    let texts = [
        ("stream.far.ca", "[stream.far]\nsource = 'https://localhost/a.ts'\nca = 'ca.pem'\n"),
        ("upstream.ca", "[upstream]\nservers = ['https://localhost']\nca = 'ca.pem'\n"),
    ];
    for (content, why) in [(None, "No such file"), (Some("nothing"), "holds no certificate in PEM")] {
        if let Some(content) = content {
            scratch.write("ca.pem", content);
        }
        for (key, text) in texts {
            let file = scratch.write("glassline.toml", text);
            for arguments in [&["--test-config"][..], &["--listen", "127.0.0.1:0"]] {
                let outcome = glassline(&[&["serve", "--config", &file], arguments].concat());
                let told = &outcome.stderr;
                assert_eq!(outcome.status, Some(2), "{told}");
                assert!(told.contains(why) && told.contains("ca.pem"), "{told}");
                assert!(arguments.len() > 1 || told.contains(&format!("{key}: ")), "{told}");
            }
        }
    }
}

#[test]
fn a_server_that_never_ends_its_handshake_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}/a.ts", listener.local_addr().unwrap().port());
    let kept = std::thread::spawn(move || listener.incoming().take(2).collect::<Vec<_>>());
    let (edge, _scratch) = pulling(&url, &Identity::new(&["localhost"]));
    until("the failure", || source(&edge, "far")["failures"].as_u64() > Some(0));
    let told = source(&edge, "far");
    assert!(told["error"].as_str().is_some_and(|error| error.contains("no whole answer")), "{told}");
    drop(edge);
    drop(kept);
}

/// A key in the address is asked with, and shown nowhere.
#[test]
fn signed_addresses_are_asked_over_tls_and_not_shown() {
    let (identity, folder) = (Identity::new(&["localhost", NAME]), Scratch::new("origin"));
    identity.write(&folder, "one");
    let settings = "[viewer]\nkey = 'a-viewers-key'\n";
    let origin = serve_identity(settings, identity, folder);
    let mut publisher = publish(origin.server.address(), "/live/near.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    until("the origin's stream", || origin.server.count("near", "bytes_in") > 0);
    let signed = glassline(&[
        "sign",
        &format!("https://localhost:{}/live/near.ts", origin.address.port()),
        "--key-file",
        &origin.folder.write("viewer.key", "a-viewers-key"),
    ]);
    let (edge, _scratch) = pulling(signed.text().trim(), &origin.identity);
    until_live(&edge, "far");
    let mut viewer = crate::pull::watch(&edge, "far");
    see(&mut viewer, &mut Check::new(SHAPE), 1);
    let shown = edge.process.output() + &source(&edge, "far").to_string();
    assert!(!shown.contains("token="), "{shown}");
    let mut refused = origin.request("GET /live/near.ts HTTP/1.1");
    assert_eq!(read_head(&mut refused).status, 401);
}
