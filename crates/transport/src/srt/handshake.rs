//! Handshakes: the packet, its extensions, and the reasons of a refusal (§3.2.1, §4.3).

use super::packet::{Control, Kind, word};
use super::sequence::Sequence;
use std::net::IpAddr;
use std::time::Duration;

/// Handshakes of this version have extensions.
pub(super) const VERSION: u32 = 5;
/// The version of a caller's first packet.
pub(super) const INDUCTION_VERSION: u32 = 4;
/// What a listener writes into the field of extensions, for the caller to see that it knows version 5.
pub(super) const MAGIC: u16 = 0x4a17;
/// What a caller's first packet has in that field: a socket of datagrams.
pub(super) const DATAGRAMS: u16 = 2;

pub(super) const INDUCTION: u32 = 1;
pub(super) const CONCLUSION: u32 = 0xffff_ffff;
/// From here on the type is a refusal.
const REFUSALS: u32 = 1000;

/// The version of SRT that is told: 1.5.3.
const SRT_VERSION: u32 = 0x0001_0503;

/// Flags of the first extension: sends and takes time of delivery, encrypts, drops what is too late, reports losses again, marks what
/// is sent again.
const FLAGS: u32 = 0b0011_1111;
/// The peer has the time of delivery.
const TIMED: u32 = 0b11;
/// It sends a stream of bytes, as for files.
const STREAM: u32 = 0x40;
/// It wants a packet filter.
const FILTER: u32 = 0x80;

/// The longest stream id, in bytes.
pub(super) const STREAM_ID_MAX: usize = 512;
/// Bytes of handshakes' extensions that are read.
const EXTENSIONS_MAX: usize = 1400;

const EXTENSION_REQUEST: u16 = 1;
const EXTENSION_RESPONSE: u16 = 2;
const EXTENSION_KEY_REQUEST: u16 = 3;
const EXTENSION_KEY_RESPONSE: u16 = 4;
const EXTENSION_STREAM_ID: u16 = 5;
const EXTENSION_CONGESTION: u16 = 6;
const EXTENSION_FILTER: u16 = 7;
const EXTENSION_GROUP: u16 = 8;

/// Why a connection is refused, as its number says (§4.3, and the numbers of access control of the reference: those of HTTP with
/// 1,000 before them).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection(pub u32);

impl Rejection {
    /// The peer is no good: what it sends does not go together.
    pub const ROGUE: Rejection = Rejection(4);
    /// The version is not known.
    pub const VERSION: Rejection = Rejection(8);
    /// The passphrase is another one.
    pub const BAD_SECRET: Rejection = Rejection(10);
    /// One end has a passphrase, the other has none.
    pub const UNSECURE: Rejection = Rejection(11);
    /// A stream of bytes, where messages are wanted.
    pub const MESSAGE_API: Rejection = Rejection(12);
    /// Another congestion control.
    pub const CONGESTION: Rejection = Rejection(13);
    /// A packet filter.
    pub const FILTER: Rejection = Rejection(14);
    /// A group of connections.
    pub const GROUP: Rejection = Rejection(15);
    /// The request is not understood.
    pub const BAD_REQUEST: Rejection = Rejection(1400);
    /// No credential, or a wrong one.
    pub const UNAUTHORIZED: Rejection = Rejection(1401);
    /// Too many.
    pub const OVERLOAD: Rejection = Rejection(1402);
    /// It may not.
    pub const FORBIDDEN: Rejection = Rejection(1403);
    /// There is no such stream.
    pub const NOT_FOUND: Rejection = Rejection(1404);
    /// Publishing or reading is not possible here.
    pub const BAD_MODE: Rejection = Rejection(1405);
    /// Another publisher has the name.
    pub const CONFLICT: Rejection = Rejection(1409);
    /// The stream is of another kind.
    pub const UNSUPPORTED: Rejection = Rejection(1415);
    /// The service is down for maintenance.
    pub const DOWN: Rejection = Rejection(1503);

    /// The rejection that says the same as a status of HTTP.
    pub fn of_status(status: u16) -> Rejection {
        match status {
            401 => Rejection::UNAUTHORIZED,
            403 => Rejection::FORBIDDEN,
            404 => Rejection::NOT_FOUND,
            409 => Rejection::CONFLICT,
            415 => Rejection::UNSUPPORTED,
            429 | 503 => Rejection::OVERLOAD,
            _ => Rejection::BAD_REQUEST,
        }
    }

    /// In words, with what to do where that is known.
    pub fn words(self) -> &'static str {
        match self.0 {
            1 => "the peer's system failed",
            2 => "the peer refused the connection",
            3 | 5 => "the peer has no room for one more connection",
            4 => "the handshake was not understood",
            7 => "the peer is closing",
            8 => "the peer's version of SRT is another one: version 5 of the handshake (SRT 1.3) is needed",
            10 => "the passphrase is wrong",
            11 => "one end has a passphrase and the other has none",
            12 => "the peer is not in live mode",
            13 => "the peer wants another congestion control than that of live mode",
            14 => "the peer wants a packet filter, which is not offered",
            15 => "the peer wants a group of connections, which is not offered",
            16 => "the peer did not answer in time",
            1400 => "the peer did not understand the stream id",
            1401 => "the key or token in the stream id is missing or wrong",
            1402 => "the peer has as many connections as it may have",
            1403 => "the peer does not allow it",
            1404 => "the peer has no such stream",
            1405 => "the peer does not offer this mode",
            1409 => "another publisher has the name",
            1415 => "the stream is of a kind that SRT does not carry",
            1503 => "the peer is being emptied for maintenance; ask another server",
            _ => "the peer refused the connection for a reason of its own",
        }
    }
}

/// The part of a handshake that each has (§3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handshake {
    pub(super) version: u32,
    /// The length of keys in eights of bytes; 0: none is told.
    pub(super) encryption: u16,
    pub(super) extension: u16,
    /// The number of the first packet that the end sends.
    pub(super) sequence: Sequence,
    pub(super) mtu: u32,
    pub(super) window: u32,
    pub(super) kind: u32,
    /// The socket of the end that sends this.
    pub(super) socket: u32,
    pub(super) cookie: u32,
}

/// What comes behind, as far as it is known here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Extensions {
    /// Of the request or the response: flags, how long that end holds back what it gets, and what it asks of the other one.
    pub(super) live: Option<Live>,
    /// The key-material message.
    pub(super) keys: Option<Vec<u8>>,
    pub(super) stream_id: Option<Vec<u8>>,
    pub(super) congestion: Option<Vec<u8>>,
    pub(super) has_filter: bool,
    pub(super) has_group: bool,
}

/// The first extension (§3.2.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Live {
    pub(super) version: u32,
    pub(super) flags: u32,
    pub(super) receives_after: Duration,
    pub(super) peer_receives_after: Duration,
}

impl Live {
    /// Ours.
    pub(super) fn new(receives_after: Duration, peer_receives_after: Duration) -> Live {
        Live { version: SRT_VERSION, flags: FLAGS, receives_after, peer_receives_after }
    }

    pub(super) fn is_timed(&self) -> bool {
        self.flags & TIMED != 0
    }
}

impl Extensions {
    /// Why a listener cannot have a connection of this kind.
    pub(super) fn check(&self) -> Result<Live, Rejection> {
        let live = self.live.ok_or(Rejection::ROGUE)?;
        match self {
            _ if self.has_group => Err(Rejection::GROUP),
            _ if self.has_filter => Err(Rejection::FILTER),
            _ if live.flags & STREAM != 0 => Err(Rejection::MESSAGE_API),
            Extensions { congestion: Some(name), .. } if name != b"live" => Err(Rejection::CONGESTION),
            // The flag alone says that filters are known.
            _ => Ok(Live { flags: live.flags & !FILTER, ..live }),
        }
    }
}

impl Handshake {
    /// Reads the body of a handshake packet. Extensions that do not fit into it are left out with all behind them.
    pub(super) fn parse(body: &[u8]) -> Option<(Handshake, Extensions)> {
        let (version, rest) = word(body)?;
        let (fields, rest) = word(rest)?;
        let (sequence, rest) = word(rest)?;
        let (mtu, rest) = word(rest)?;
        let (window, rest) = word(rest)?;
        let (kind, rest) = word(rest)?;
        let (socket, rest) = word(rest)?;
        let (cookie, rest) = word(rest)?;
        let (_address, rest) = rest.split_first_chunk::<16>()?;
        let (encryption, extension) = ((fields >> 16) as u16, fields as u16);
        let sequence = Sequence::new(sequence);
        let handshake =
            Handshake { version, encryption, extension, sequence, mtu, window, kind, socket, cookie };
        let has_extensions = version == VERSION && kind == CONCLUSION && rest.len() <= EXTENSIONS_MAX;
        let extensions = if has_extensions { parse_extensions(rest) } else { Extensions::default() };
        Some((handshake, extensions))
    }

    /// The number of a refusal, where it is one.
    pub(super) fn rejection(&self) -> Option<Rejection> {
        // Above are the types of handshakes that go on.
        (REFUSALS..0x8000_0000).contains(&self.kind).then(|| Rejection(self.kind - REFUSALS))
    }

    /// It, as a refusal for this reason.
    pub(super) fn refused(self, why: Rejection) -> Handshake {
        Handshake { kind: REFUSALS + why.0, extension: 0, encryption: 0, ..self }
    }

    /// The datagram: for the peer's socket `destination` at `peer`.
    pub(super) fn write(
        &self,
        extensions: &Extensions,
        is_response: bool,
        timestamp: u32,
        destination: u32,
        peer: IpAddr,
    ) -> Vec<u8> {
        let mut body = Vec::with_capacity(200);
        let fields = u32::from(self.encryption) << 16 | u32::from(self.extension);
        let Handshake { version, sequence, mtu, window, kind, socket, cookie, .. } = *self;
        for word in [version, fields, sequence.value(), mtu, window, kind, socket, cookie] {
            body.extend_from_slice(&word.to_be_bytes());
        }
        body.extend_from_slice(&address(peer));
        write_extensions(extensions, is_response, &mut body);
        let mut datagram = Vec::with_capacity(body.len() + 16);
        let control = Control { kind: Kind::Handshake, information: 0, timestamp, destination, body: &body };
        control.write(&mut datagram);
        datagram
    }
}

/// An address as handshakes have it: words of which the bytes are reversed, as a little-endian machine keeps them.
fn address(peer: IpAddr) -> [u8; 16] {
    let mut bytes = [0; 16];
    match peer.to_canonical() {
        IpAddr::V4(v4) => bytes[..4].copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => bytes = v6.octets(),
    }
    bytes.chunks_exact_mut(4).for_each(<[u8]>::reverse);
    bytes
}

fn parse_extensions(mut bytes: &[u8]) -> Extensions {
    let mut extensions = Extensions::default();
    while let Some((head, rest)) = word(bytes) {
        let (kind, length) = ((head >> 16) as u16, (head & 0xffff) as usize * 4);
        let Some((content, rest)) = rest.split_at_checked(length) else { break };
        bytes = rest;
        match kind {
            EXTENSION_REQUEST | EXTENSION_RESPONSE => extensions.live = parse_live(content),
            EXTENSION_KEY_REQUEST | EXTENSION_KEY_RESPONSE => extensions.keys = Some(content.to_vec()),
            EXTENSION_STREAM_ID => extensions.stream_id = Some(text(content)),
            EXTENSION_CONGESTION => extensions.congestion = Some(text(content)),
            EXTENSION_FILTER => extensions.has_filter = true,
            EXTENSION_GROUP => extensions.has_group = true,
            _ => {}
        }
    }
    extensions
}

fn parse_live(content: &[u8]) -> Option<Live> {
    let (version, rest) = word(content)?;
    let (flags, rest) = word(rest)?;
    let (delays, _) = word(rest)?;
    let millis = |value: u32| Duration::from_millis(u64::from(value & 0xffff));
    Some(Live { version, flags, receives_after: millis(delays >> 16), peer_receives_after: millis(delays) })
}

/// A text, which stands in words of reversed bytes, filled with zeros (§3.2.1.3).
fn text(content: &[u8]) -> Vec<u8> {
    let mut text: Vec<u8> = content.chunks(4).flat_map(|word| word.iter().rev().copied()).collect();
    text.truncate(text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
    text
}

fn write_extensions(extensions: &Extensions, is_response: bool, body: &mut Vec<u8>) {
    let mut put = |kind: u16, content: &[u8]| {
        let words = content.len().div_ceil(4);
        body.extend_from_slice(&kind.to_be_bytes());
        body.extend_from_slice(&(words as u16).to_be_bytes());
        body.extend_from_slice(content);
        body.resize(body.len() + words * 4 - content.len(), 0);
    };
    let reversed = |text: &[u8]| -> Vec<u8> {
        let mut padded = text.to_vec();
        padded.resize(text.len().next_multiple_of(4), 0);
        padded.chunks_exact_mut(4).for_each(<[u8]>::reverse);
        padded
    };
    if let Some(live) = &extensions.live {
        let millis = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX).min(0xffff);
        let delays = millis(live.receives_after) << 16 | millis(live.peer_receives_after);
        let words = [live.version, live.flags, delays].map(u32::to_be_bytes);
        put(if is_response { EXTENSION_RESPONSE } else { EXTENSION_REQUEST }, words.as_flattened());
    }
    if let Some(keys) = &extensions.keys {
        put(if is_response { EXTENSION_KEY_RESPONSE } else { EXTENSION_KEY_REQUEST }, keys);
    }
    if let Some(stream_id) = &extensions.stream_id {
        put(EXTENSION_STREAM_ID, &reversed(stream_id));
    }
    if let Some(congestion) = &extensions.congestion {
        put(EXTENSION_CONGESTION, &reversed(congestion));
    }
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
