//! The handshake (Adobe RTMP 1.0, section 5.2), as a server and as a client take part in it.
//!
//! ```text
//! client: C0 version u8, C1 time u32, version u32, 1528 random bytes ─►
//! ◄─ server: S0, S1 as C1; S2 echo of C1
//! client: C2 echo of S1 ─►
//! ```
//! Version 0 in C1 is the handshake of the specification. Flash, and FFmpeg after it, write another number there and hide a
//! digest (HMAC-SHA256 under a key that is published) at one of two places: such a client wants digests back. What a
//! client echoes is not checked: it proves nothing, and some clients echo other bytes. Our own client has the handshake of the
//! specification, which every service takes, and checks no echo either.

use ring::hmac;
use thiserror::Error;

/// Bytes of C1, S1, C2 and S2.
pub const PACKET_BYTES: usize = 1536;
/// Random bytes that a handshake is handed.
pub const RANDOM_BYTES: usize = PACKET_BYTES - 8;
/// The version of the protocol (section 5.2.2).
const VERSION: u8 = 3;
const DIGEST_BYTES: usize = 32;
/// Where the four bytes stand that tell the digest's place, and the first place that they can tell.
const SCHEMES: [usize; 2] = [772, 8];
const PLACES: usize = 728;

/// What clients sign by.
const CLIENT_KEY: &[u8] = b"Genuine Adobe Flash Player 001";
/// What servers sign S1 by.
const SERVER_KEY: &[u8] = b"Genuine Adobe Flash Media Server 001";
/// What stands behind it in the key that S2 is signed by.
const KEY_TAIL: [u8; 32] = [
    0xf0, 0xee, 0xc2, 0x4a, 0x80, 0x68, 0xbe, 0xe8, 0x2e, 0x00, 0xd0, 0xd1, 0x02, 0x9e, 0x7e, 0x57, 0x6e,
    0xec, 0x5d, 0x2d, 0x29, 0x80, 0x6f, 0xab, 0x93, 0xb8, 0xe6, 0x36, 0xcf, 0xeb, 0x31, 0xae,
];
/// What a server that signs writes in the place of the version: Flash Media Server 4.5.0.1. FFmpeg expects digests from 3 on.
const SIGNED_VERSION: [u8; 4] = [4, 5, 0, 1];

/// Why a peer does not speak RTMP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// Another version, or another protocol.
    #[error("begins with version {found}, expected RTMP version 3{}", hint(*.found))]
    Version {
        /// The first byte.
        found: u8,
    },
    /// The same of a server.
    #[error("answers with version {found}, expected RTMP version 3{}", server_hint(*.found))]
    ServerVersion {
        /// The first byte.
        found: u8,
    },
}

fn server_hint(first: u8) -> &'static str {
    match first {
        0x15 | 0x16 => ": this is TLS, write rtmps://",
        b'H' => ": this looks like HTTP",
        _ => "",
    }
}

fn hint(first: u8) -> &'static str {
    match first {
        0x16 => ": this is TLS, which the listener of tls_listen takes (rtmps://)",
        6 => ": RTMPE is not offered, use rtmps://",
        b'G' | b'P' | b'H' | b'O' => ": this looks like HTTP",
        _ => "",
    }
}

/// A server's side, before its end.
#[derive(Debug)]
pub(super) struct Handshake {
    random: [u8; RANDOM_BYTES],
    received: Vec<u8>,
    has_answered: bool,
}

impl Handshake {
    pub(super) fn new(random: [u8; RANDOM_BYTES]) -> Handshake {
        Handshake { random, received: Vec::new(), has_answered: false }
    }

    /// Takes bytes up to the handshake's end; the rest stays in `bytes`. Returns whether it is over.
    pub(super) fn push(&mut self, bytes: &mut &[u8], out: &mut Vec<u8>) -> Result<bool, HandshakeError> {
        let needed = if self.has_answered { PACKET_BYTES } else { 1 + PACKET_BYTES };
        let count = needed.saturating_sub(self.received.len()).min(bytes.len());
        let (taken, rest) = bytes.split_at(count);
        *bytes = rest;
        self.received.extend_from_slice(taken);
        if let Some(&found) = self.received.first()
            && !self.has_answered
            && found != VERSION
        {
            return Err(HandshakeError::Version { found });
        }
        if self.received.len() < needed {
            return Ok(false);
        }
        if self.has_answered {
            return Ok(true);
        }
        self.has_answered = true;
        self.answer(out);
        self.received.clear();
        self.push(bytes, out)
    }

    /// S0, S1 and S2.
    fn answer(&self, out: &mut Vec<u8>) {
        let Some(first) = self.received.get(1..).and_then(|bytes| bytes.first_chunk::<PACKET_BYTES>()) else {
            return;
        };
        out.push(VERSION);
        let mut own = [0; PACKET_BYTES];
        own[8..].copy_from_slice(&self.random);
        let Some((scheme, digest)) = find_digest(first) else {
            out.extend_from_slice(&own);
            out.extend_from_slice(first);
            return;
        };
        own[4..8].copy_from_slice(&SIGNED_VERSION);
        let place = place_of(&own, SCHEMES[scheme]);
        let signature = sign_around(&own, place, SERVER_KEY);
        own[place..place + DIGEST_BYTES].copy_from_slice(signature.as_ref());
        out.extend_from_slice(&own);
        let mut echo = [0; PACKET_BYTES];
        echo[..RANDOM_BYTES].copy_from_slice(&self.random);
        let key = hmac::Key::new(hmac::HMAC_SHA256, &[SERVER_KEY, &KEY_TAIL].concat());
        let key = hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, &digest).as_ref());
        let signature = hmac::sign(&key, &echo[..PACKET_BYTES - DIGEST_BYTES]);
        echo[PACKET_BYTES - DIGEST_BYTES..].copy_from_slice(signature.as_ref());
        out.extend_from_slice(&echo);
    }
}

/// A client's side, before its end.
#[derive(Debug, Default)]
pub(super) struct ClientHandshake {
    received: Vec<u8>,
    has_echoed: bool,
}

impl ClientHandshake {
    /// Appends C0 and C1 to `out`.
    pub(super) fn begin(random: &[u8; RANDOM_BYTES], out: &mut Vec<u8>) -> ClientHandshake {
        out.push(VERSION);
        out.extend_from_slice(&[0; PACKET_BYTES - RANDOM_BYTES]);
        out.extend_from_slice(random);
        ClientHandshake::default()
    }

    /// Takes bytes up to the handshake's end; the rest stays in `bytes`. Returns whether it is over.
    pub(super) fn push(&mut self, bytes: &mut &[u8], out: &mut Vec<u8>) -> Result<bool, HandshakeError> {
        loop {
            let needed = if self.has_echoed { PACKET_BYTES } else { 1 + PACKET_BYTES };
            let count = needed.saturating_sub(self.received.len()).min(bytes.len());
            let (taken, rest) = bytes.split_at(count);
            *bytes = rest;
            self.received.extend_from_slice(taken);
            if let Some(&found) = self.received.first()
                && !self.has_echoed
                && found != VERSION
            {
                return Err(HandshakeError::ServerVersion { found });
            }
            if self.received.len() < needed {
                return Ok(false);
            }
            if self.has_echoed {
                return Ok(true);
            }
            // C2 is S1 once more (section 5.2.4).
            out.extend_from_slice(self.received.get(1..).unwrap_or_default());
            self.has_echoed = true;
            self.received.clear();
        }
    }
}

/// Where the digest stands in a packet, by the four bytes at `at`.
fn place_of(packet: &[u8; PACKET_BYTES], at: usize) -> usize {
    let sum: usize = packet[at..at + 4].iter().map(|byte| usize::from(*byte)).sum();
    at + 4 + sum % PLACES
}

/// The HMAC of a packet without the digest at `place`.
fn sign_around(packet: &[u8; PACKET_BYTES], place: usize, key: &[u8]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    context.update(&packet[..place]);
    context.update(&packet[place + DIGEST_BYTES..]);
    context.sign()
}

/// The scheme by which C1 is signed, and its digest; `None` where it is signed by neither.
fn find_digest(packet: &[u8; PACKET_BYTES]) -> Option<(usize, [u8; DIGEST_BYTES])> {
    if packet[4..8] == [0; 4] {
        return None;
    }
    SCHEMES.iter().enumerate().find_map(|(scheme, &at)| {
        let place = place_of(packet, at);
        let digest: [u8; DIGEST_BYTES] = *packet[place..].first_chunk()?;
        (sign_around(packet, place, CLIENT_KEY).as_ref() == digest).then_some((scheme, digest))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANDOM: [u8; RANDOM_BYTES] = [0x5a; RANDOM_BYTES];

    fn shake(hello: &[u8], chop: usize) -> Result<(Vec<u8>, bool), HandshakeError> {
        let (mut handshake, mut out, mut is_over) = (Handshake::new(RANDOM), Vec::new(), false);
        for mut bytes in hello.chunks(chop) {
            while !bytes.is_empty() && !is_over {
                is_over = handshake.push(&mut bytes, &mut out)?;
            }
        }
        Ok((out, is_over))
    }

    fn hello(version: [u8; 4]) -> Vec<u8> {
        let mut hello = vec![3, 0, 0, 0, 9];
        hello.extend_from_slice(&version);
        hello.extend((0..RANDOM_BYTES).map(|at| (at * 7) as u8));
        hello
    }

    #[test]
    fn the_simple_handshake_echoes_what_came() {
        for chop in [1, 100, 1537, 4000] {
            let hello = hello([0; 4]);
            let (out, is_over) = shake(&hello, chop).unwrap();
            assert!(!is_over, "the client's echo is still to come");
            assert_eq!(out.len(), 1 + 2 * PACKET_BYTES);
            assert_eq!((out[0], &out[1..9], &out[9..20]), (3, &[0; 8][..], &RANDOM[..11]));
            assert_eq!(out[1 + PACKET_BYTES..], hello[1..]);
            let all = [&hello[..], &[1; PACKET_BYTES], b"behind"].concat();
            assert!(shake(&all, chop).unwrap().1);
        }
    }

    #[test]
    fn a_client_and_a_server_shake_hands_in_any_chop() {
        for chop in [1, 700, 5000] {
            let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
            let mut client = ClientHandshake::begin(&[9; RANDOM_BYTES], &mut to_server);
            assert_eq!(
                (to_server.len(), &to_server[..9]),
                (1 + PACKET_BYTES, &[3, 0, 0, 0, 0, 0, 0, 0, 0][..])
            );
            let mut server = Handshake::new(RANDOM);
            assert_eq!(server.push(&mut &to_server[..], &mut to_client), Ok(false));
            to_server.clear();
            to_client.extend_from_slice(b"behind");
            let (mut is_over, mut behind) = (false, Vec::new());
            for mut bytes in to_client.chunks(chop) {
                is_over = is_over || client.push(&mut bytes, &mut to_server).unwrap();
                behind.extend_from_slice(bytes);
            }
            assert_eq!((is_over, &behind[..]), (true, &b"behind"[..]));
            assert_eq!(to_server[8..], RANDOM, "C2 is what the server has sent");
            assert_eq!(server.push(&mut &to_server[..], &mut Vec::new()), Ok(true));
        }
    }

    #[test]
    fn a_server_that_speaks_something_else_is_told_apart() {
        for (bytes, hint) in [(&b"HTTP/1.1 400"[..], "HTTP"), (&[0x15, 3, 1], "rtmps://")] {
            let mut client = ClientHandshake::begin(&RANDOM, &mut Vec::new());
            let error = client.push(&mut &bytes[..], &mut Vec::new()).unwrap_err();
            assert!(error.to_string().contains(hint), "{error}");
        }
    }

    #[test]
    fn what_is_behind_the_handshake_stays() {
        let all = [&hello([0; 4])[..], &[1; PACKET_BYTES], b"behind"].concat();
        let (mut bytes, mut out) = (&all[..], Vec::new());
        assert_eq!(Handshake::new(RANDOM).push(&mut bytes, &mut out), Ok(true));
        assert_eq!(bytes, b"behind");
    }

    #[test]
    fn a_client_that_signs_gets_signatures_in_its_scheme() {
        for at in SCHEMES {
            let mut hello = hello([9, 0, 124, 2]);
            let packet: &mut [u8; PACKET_BYTES] = hello[1..].first_chunk_mut().unwrap();
            let place = place_of(packet, at);
            let digest = sign_around(packet, place, CLIENT_KEY);
            packet[place..place + DIGEST_BYTES].copy_from_slice(digest.as_ref());
            let (out, _) = shake(&hello, 500).unwrap();
            let own: &[u8; PACKET_BYTES] = out[1..].first_chunk().unwrap();
            assert_eq!(own[4..8], SIGNED_VERSION);
            let place = place_of(own, at);
            assert_eq!(own[place..place + DIGEST_BYTES], *sign_around(own, place, SERVER_KEY).as_ref());
            let echo = &out[1 + PACKET_BYTES..];
            let key = hmac::Key::new(hmac::HMAC_SHA256, &[SERVER_KEY, &KEY_TAIL].concat());
            let key = hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, digest.as_ref()).as_ref());
            let (said, signature) = echo.split_at(PACKET_BYTES - DIGEST_BYTES);
            assert!(hmac::verify(&key, said, signature).is_ok());
        }
        // Another version without a digest that fits: the client gets what the specification says.
        let (out, _) = shake(&hello([9, 0, 124, 2]), 500).unwrap();
        assert_eq!(out[5..9], [0; 4]);
        assert_eq!(out[1 + PACKET_BYTES..], hello([9, 0, 124, 2])[1..]);
    }

    #[test]
    fn other_protocols_are_told_by_their_first_byte() {
        let words = |first: &[u8]| shake(first, 1).unwrap_err().to_string();
        assert!(words(&[0x16, 3, 1]).contains("this is TLS"));
        assert!(words(b"GET / HTTP/1.1").contains("HTTP"));
        assert!(words(&[6]).contains("RTMPE is not offered"));
        assert_eq!(words(&[0]), "begins with version 0, expected RTMP version 3");
    }
}
