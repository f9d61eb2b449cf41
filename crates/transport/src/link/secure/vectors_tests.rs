//! The bytes of docs/wire-link-vectors.txt, made anew: what stands there is what this code does, and what a script makes
//! that was written after docs/wire-link.md and shares nothing with this code.

use std::fmt::Write;

use super::expand;
use super::gate::Gate;
use super::keys::{Opener, Sealer};
use super::noise::{Credentials, Handshake, Key, Secrets, public_key};
use super::token::Identity;
use crate::link::channel::stamp;
use crate::link::wire::frame::{Data, Frame, write_ack};
use crate::link::wire::packet::{self, Connect, ConnectionId, Packet, Pattern};
use crate::link::wire::parameters::Parameters;
use crate::link::wire::row::write_row_head;
use crate::link::{Bonding, Random};
use glassline_media::Utc;

const FILE: &str = include_str!("../../../../../docs/wire-link-vectors.txt");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

struct Page(String);

impl Page {
    fn line(&mut self, name: &str, bytes: &[u8]) {
        let _ = writeln!(self.0, "{name}: {}", hex(bytes));
    }
}

/// The private key that a handshake draws from a generator of this seed, which it forks for itself.
fn ephemeral(seed: [u8; 32]) -> Key {
    Key(Random::new(seed).fork().fork().array())
}

fn parameters(instance: u64) -> Parameters {
    Parameters {
        max_datagram: 1452,
        window_bytes: 1 << 20,
        idle_ms: 5000,
        name: b"drone".to_vec(),
        connection: None,
        reset: None,
        dictionary: None,
        instance: Some(instance),
        number: 0,
        bonding: Bonding::Failover,
        spare: false,
        paths: None,
        boot: None,
        refusal: None,
        stamps: false,
        parity: false,
    }
}

/// One handshake, and the packets after it.
fn handshake(page: &mut Page, initiator: &Credentials, listener: &Credentials) {
    let (near, far) = (ConnectionId(0x0102_0304_0506_0708), ConnectionId(0x1112_1314_1516_1718));
    let (first, second) = ([0x41; 32], [0x42; 32]);
    let pattern = initiator.pattern();
    match initiator {
        Credentials::Pair { private, peers } => {
            let Credentials::Pair { private: other, .. } = listener else { return };
            page.line("private key of the one who connects", &private.0);
            page.line("its public key", &public_key(private).0);
            page.line("private key of the listener", &other.0);
            page.line("its public key", &peers[0].0);
        }
        _ => page.line("shared key", &initiator.own_gate().0),
    }
    page.line("ephemeral private key of the one who connects", &ephemeral(first).0);
    page.line("ephemeral private key of the listener", &ephemeral(second).0);
    let prologue = packet::prologue(pattern, near);
    page.line("prologue", &prologue);
    let mut here = Handshake::initiator(initiator, &prologue, &mut Random::new(first)).unwrap();
    let mut there = Handshake::responder(listener, &prologue, &mut Random::new(second)).unwrap();

    let mut payload = Vec::new();
    parameters(0x2122_2324_2526_2728).write(&mut payload);
    page.line("parameters in the Connect", &payload);
    let noise = here.write(&payload).unwrap();
    if pattern == Pattern::SharedKey {
        assert_eq!(noise[..32], public_key(&ephemeral(first)).0, "the ephemeral key is the one told");
    }
    page.line("Noise 1", &noise);
    let gate = listener.own_gate();
    page.line("gate key", &expand::<16>(&gate.0, "glassline link 1 gate", &[]));
    let mut connect =
        packet::write_connect(&Connect { pattern, from: near, token: b"", noise: &noise }, super::gate::GATE);
    Gate::new(&gate.0).close(&mut connect, [0x51; 12]);
    page.line("Connect, without the zeros before its gate", &{
        let used = 11 + 1 + 2 + noise.len();
        assert!(connect[used..1200 - super::gate::GATE].iter().all(|byte| *byte == 0));
        [&connect[..used], &connect[1200 - super::gate::GATE..]].concat()
    });
    assert_eq!(there.read(&noise).unwrap(), payload);

    let own = Key([0x61; 32]);
    page.line("what the listener alone has", &own.0);
    let lasting = listener.lasting_secret(&own);
    page.line("lasting secret", &lasting.0);
    let mut payload = Vec::new();
    let reset = Identity::new(Some(&lasting)).reset_token(far).unwrap();
    let answer =
        Parameters { connection: Some(far), reset: Some(reset), ..parameters(0x3132_3334_3536_3738) };
    answer.write(&mut payload);
    page.line("parameters in the Accept", &payload);
    let noise = there.write(&payload).unwrap();
    page.line("Accept", &packet::write_accept(near, &noise));
    assert_eq!(here.read(&noise).unwrap(), payload);
    let (here, there) = (here.secrets().unwrap(), there.secrets().unwrap());
    assert_eq!((&here.send, &here.receive), (&there.receive, &there.send));
    data(page, &here, near, far);

    let mut retry = packet::write_retry(near, b"a token");
    Gate::new(&gate.0).close(&mut retry, [0x52; 12]);
    page.line("Retry", &retry);
    page.line("Reset", &packet::write_reset(far, reset));
}

/// Data packets of both directions, and one under the next key.
fn data(page: &mut Page, secrets: &Secrets, near: ConnectionId, far: ConnectionId) {
    for (name, secret) in [("one who connects", &secrets.send), ("listener", &secrets.receive)] {
        page.line(&format!("secret 0 of the {name}"), &secret.0);
        page.line(&format!("key 0 of the {name}"), &expand::<16>(&secret.0, "key", &[]));
        page.line(&format!("iv 0 of the {name}"), &expand::<12>(&secret.0, "iv", &[]));
    }
    let next: [u8; 32] = expand(&secrets.send.0, "next", &[]);
    page.line("secret 1 of the one who connects", &next);
    let mut opener = Opener::new(secrets.send.clone());
    let mut sealer = Sealer::new(secrets.send.clone());
    let mut packet = |page: &mut Page, name: &str, sealer: &mut Sealer, to, frames: &[u8]| {
        let mut out = Vec::new();
        packet::write_data_header(to, sealer.key_phase(), sealer.next_number(), &mut out);
        out.extend_from_slice(frames);
        let number = sealer.seal(0, &mut out);
        page.line(&format!("frames of {name}"), frames);
        page.line(name, &out);
        assert!(matches!(Packet::parse(&out), Some(Packet::Data { .. })));
        if to == far {
            assert_eq!(opener.open(&mut out), Ok((number, frames)));
        }
    };
    let mut frames = Vec::new();
    Frame::Ping.write(&mut frames);
    packet(page, "packet 0 of the one who connects", &mut sealer, far, &frames);
    frames.clear();
    Frame::Open { channel: 3, options: crate::link::Options::default() }.write(&mut frames);
    Data { channel: 3, message: 0, total: 5, offset: 0, bytes: b"hello" }.write(false, &mut frames);
    Data { channel: 3, message: 1, total: 3000, offset: 1000, bytes: b"part" }.write(true, &mut frames);
    packet(page, "packet 1 of the one who connects", &mut sealer, far, &frames);
    sealer.update(2, Some(1));
    frames.clear();
    Frame::Cancel { channel: 3, message: 1 }.write(&mut frames);
    let row: [&[u8]; 3] = [b"two", b"", b"four"];
    write_row_head(3, 2, row.iter().map(|message| message.len()), &mut frames);
    frames.extend_from_slice(&row.concat());
    packet(page, "packet 2 of the one who connects, under key 1", &mut sealer, far, &frames);
    frames.clear();
    let options = crate::link::Options { stamped: true, ..crate::link::Options::default() };
    Frame::Open { channel: 5, options }.write(&mut frames);
    let stamped = stamp::put(Some(Utc::from_micros(1_700_000_000_123_456)), b"hello");
    Data { channel: 5, message: 0, total: 13, offset: 0, bytes: &stamped }.write(false, &mut frames);
    packet(page, "packet 3 of the one who connects, under key 1", &mut sealer, far, &frames);
    frames.clear();
    write_ack([(2, 2), (0, 0)].into_iter(), 1000, 250_000, 80_000, &mut frames);
    packet(page, "packet 0 of the listener", &mut Sealer::new(secrets.receive.clone()), near, &frames);
}

fn page() -> String {
    let mut page = Page(String::new());
    page.0.push_str("# Test vectors of docs/wire-link.md: all in hexadecimal digits.\n\n## A shared key\n");
    let shared = Credentials::Shared(Key([0x11; 32]));
    handshake(&mut page, &shared, &shared);
    page.0.push_str("\n## Key pairs\n");
    let (one, two) = (Key([0x21; 32]), Key([0x22; 32]));
    let pair =
        |private: &Key, peer| Credentials::Pair { private: private.clone(), peers: vec![public_key(peer)] };
    let (initiator, listener) = (pair(&one, &two), pair(&two, &one));
    handshake(&mut page, &initiator, &listener);
    page.0
}

#[test]
fn the_vectors_of_the_page_are_what_is_sent() {
    let page = page();
    assert!(page == FILE, "docs/wire-link-vectors.txt is not what the code makes:\n{page}");
}

#[test]
fn the_vectors_of_the_page_are_what_an_implementation_in_another_language_makes() {
    let test = "the_vectors_of_the_page_are_what_an_implementation_in_another_language_makes";
    if !glassline_test_support::has_program("python3") {
        return glassline_test_support::skip(test, "no python3");
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/wire_link.py");
    let made = glassline_test_support::program::run("python3", &[script], 120);
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    assert!(made.text() == FILE, "docs/wire-link-vectors.txt is not what {script} makes:\n{}", made.text());
}
