//! The messages of a measurement as bytes. All integers are big-endian.
//!
//! ```text
//! "GLP1" │ kind 1 │ fields │ zeros │ nonce 12 │ tag 16 (AES-128-GMAC over all before the nonce)
//!
//! 1 Hello      caller's nonce 16; zeros up to 160 bytes in all
//! 2 Challenge  caller's nonce 16, token 36
//! 3 Start      caller's nonce 16, token 36, bound in bits a second 8, milliseconds 4; zeros up to 160 bytes in all
//! 4 Accept     caller's nonce 16, bound in bits a second 8
//! 5 Busy       caller's nonce 16
//! 6 Packet     train 2, index 2, nanoseconds of its sending 8; zeros up to the size of the packet
//! 7 Ask        train 2, packets 2, payload bytes 2, growth of the payload 2, gap in microseconds 4
//! 8 Sent       train 2, state 1, packets 2, refused 2, first and last sending in nanoseconds 8 + 8
//! 9 Fetch      train 2, first arrival wanted 2
//! 10 Report    train 2, now in nanoseconds 8, arrivals 2, duplicates 2, dropped by the socket 4, first 2, count 1,
//!              then for each: index 2, nanoseconds of its arrival 8
//! 11 Bye
//! ```
//!
//! The tags of 1 to 5 are made with a key that follows from the shared one, with random nonces; those of 6 to 11 with a key for
//! each direction of this session, which follows from the shared key, the caller's nonce and the token, with a counter as nonce.
//! Nothing is secret in these messages, so that nothing is encrypted.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::train::{Sent, TrainSpec};
use glassline_transport::link::Key;
use glassline_transport::link::secure::gate::{GATE, Gate};

const MAGIC: [u8; 4] = *b"GLP1";
/// Bytes of Hello and Start: no answer to either is longer, so that a forged source address gains nothing.
pub const OPENING_BYTES: usize = 160;
/// Bytes of a nonce of the caller.
pub const NONCE: usize = 16;
/// Bytes of a token.
pub const TOKEN: usize = 36;
/// Arrivals in one report: they fit in a packet of 1,200 bytes.
pub const REPORT_ARRIVALS: usize = 112;

/// A random number of the caller, which names the session.
pub type Nonce = [u8; NONCE];
/// What the listener gives an address, and wants to see again.
pub type Token = [u8; TOKEN];

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Asks for a token.
    Hello {
        /// Names the session.
        caller: Nonce,
    },
    /// The token for the address that asked.
    Challenge {
        /// That of the Hello.
        caller: Nonce,
        /// Shows in a Start that its sender receives at its address.
        token: Token,
    },
    /// Begins a session.
    Start {
        /// That of the Hello.
        caller: Nonce,
        /// That of the Challenge.
        token: Token,
        /// The mean of any second that neither end may exceed, bits of IP packets a second.
        max_bps: u64,
        /// The length of the session, milliseconds.
        duration_ms: u32,
    },
    /// The session has begun.
    Accept {
        /// That of the Start.
        caller: Nonce,
        /// The lower one of both ends' bounds.
        max_bps: u64,
    },
    /// Another session is running.
    Busy {
        /// That of the Start.
        caller: Nonce,
    },
    /// A packet of a train.
    Packet {
        /// Number of the train.
        train: u16,
        /// Place in the train, from 0.
        index: u16,
        /// When it was sent, by the sender's clock.
        sent_ns: u64,
    },
    /// Asks the listener to send a train if it has not, and how it was sent.
    Ask {
        /// Number of the train.
        train: u16,
        /// What it is like.
        spec: TrainSpec,
    },
    /// How a train was sent.
    Sent {
        /// Number of the train.
        train: u16,
        /// `None`: it waits for its turn.
        sent: Option<Sent>,
    },
    /// Asks for the arrivals of a train, from this one on.
    Fetch {
        /// Number of the train.
        train: u16,
        /// The first one that is wanted, in the order of arrival.
        first: u16,
    },
    /// Some arrivals of a train.
    Report(Report),
    /// The session is over.
    Bye,
}

/// Some arrivals of a train, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of the train.
    pub train: u16,
    /// The receiver's clock.
    pub now_ns: u64,
    /// How many packets have arrived in all.
    pub arrived: u16,
    /// How many arrived a second time.
    pub duplicates: u16,
    /// Datagrams that the receiving socket had no room for since the session began.
    pub dropped: u32,
    /// The place of the first one below among all arrivals.
    pub first: u16,
    /// Index in the train, and when it arrived by the receiver's clock; at most [`REPORT_ARRIVALS`].
    pub arrivals: Vec<(u16, u64)>,
}

impl Message {
    /// Appends the message without its tag.
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        match self {
            Message::Hello { caller } => {
                out.push(1);
                out.extend_from_slice(caller);
            }
            Message::Challenge { caller, token } => {
                out.push(2);
                out.extend_from_slice(caller);
                out.extend_from_slice(token);
            }
            Message::Start { caller, token, max_bps, duration_ms } => {
                out.push(3);
                out.extend_from_slice(caller);
                out.extend_from_slice(token);
                out.extend_from_slice(&max_bps.to_be_bytes());
                out.extend_from_slice(&duration_ms.to_be_bytes());
            }
            Message::Accept { caller, max_bps } => {
                out.push(4);
                out.extend_from_slice(caller);
                out.extend_from_slice(&max_bps.to_be_bytes());
            }
            Message::Busy { caller } => {
                out.push(5);
                out.extend_from_slice(caller);
            }
            Message::Packet { train, index, sent_ns } => {
                out.push(6);
                write_u16s(&[*train, *index], out);
                out.extend_from_slice(&sent_ns.to_be_bytes());
            }
            Message::Ask { train, spec } => {
                out.push(7);
                write_u16s(&[*train, spec.packets, spec.payload_bytes, spec.growth_bytes], out);
                out.extend_from_slice(&spec.gap_us.to_be_bytes());
            }
            Message::Sent { train, sent } => {
                out.push(8);
                write_u16s(&[*train], out);
                out.push(u8::from(sent.is_some()));
                let sent = sent.unwrap_or_default();
                write_u16s(&[sent.packets, sent.refused], out);
                out.extend_from_slice(&sent.first_ns.to_be_bytes());
                out.extend_from_slice(&sent.last_ns.to_be_bytes());
            }
            Message::Fetch { train, first } => {
                out.push(9);
                write_u16s(&[*train, *first], out);
            }
            Message::Report(report) => write_report(report, out),
            Message::Bye => out.push(11),
        }
    }

    /// Reads the bytes between the magic number and the nonce; `None` for what is no message.
    fn parse(kind: u8, body: &[u8]) -> Option<Message> {
        let mut fields = Fields(body);
        let message = match kind {
            1 => Message::Hello { caller: fields.array()? },
            2 => Message::Challenge { caller: fields.array()?, token: fields.array()? },
            3 => Message::Start {
                caller: fields.array()?,
                token: fields.array()?,
                max_bps: fields.u64()?,
                duration_ms: u32::from_be_bytes(fields.array()?),
            },
            4 => Message::Accept { caller: fields.array()?, max_bps: fields.u64()? },
            5 => Message::Busy { caller: fields.array()? },
            6 => Message::Packet { train: fields.u16()?, index: fields.u16()?, sent_ns: fields.u64()? },
            7 => {
                let train = fields.u16()?;
                let (packets, payload_bytes, growth_bytes) = (fields.u16()?, fields.u16()?, fields.u16()?);
                let gap_us = u32::from_be_bytes(fields.array()?);
                let spec = TrainSpec { packets, payload_bytes, growth_bytes, gap_us };
                Message::Ask { train, spec: Some(spec).filter(TrainSpec::is_in_range)? }
            }
            8 => {
                let (train, [state]) = (fields.u16()?, fields.array()?);
                let (packets, refused) = (fields.u16()?, fields.u16()?);
                let sent = Sent { packets, refused, first_ns: fields.u64()?, last_ns: fields.u64()? };
                Message::Sent { train, sent: (state == 1).then_some(sent) }
            }
            9 => Message::Fetch { train: fields.u16()?, first: fields.u16()? },
            10 => Message::Report(parse_report(&mut fields)?),
            11 => Message::Bye,
            _ => return None,
        };
        Some(message)
    }

    /// Whether it is of a session, and not one of those by which sessions begin.
    fn is_of_session(kind: u8) -> bool {
        kind >= 6
    }
}

fn write_u16s(values: &[u16], out: &mut Vec<u8>) {
    values.iter().for_each(|value| out.extend_from_slice(&value.to_be_bytes()));
}

fn write_report(report: &Report, out: &mut Vec<u8>) {
    out.push(10);
    write_u16s(&[report.train], out);
    out.extend_from_slice(&report.now_ns.to_be_bytes());
    write_u16s(&[report.arrived, report.duplicates], out);
    out.extend_from_slice(&report.dropped.to_be_bytes());
    write_u16s(&[report.first], out);
    let arrivals = &report.arrivals[..report.arrivals.len().min(REPORT_ARRIVALS)];
    out.push(u8::try_from(arrivals.len()).unwrap_or(u8::MAX));
    for (index, at_ns) in arrivals {
        out.extend_from_slice(&index.to_be_bytes());
        out.extend_from_slice(&at_ns.to_be_bytes());
    }
}

fn parse_report(fields: &mut Fields<'_>) -> Option<Report> {
    let (train, now_ns) = (fields.u16()?, fields.u64()?);
    let (arrived, duplicates) = (fields.u16()?, fields.u16()?);
    let dropped = u32::from_be_bytes(fields.array()?);
    let (first, [count]) = (fields.u16()?, fields.array()?);
    if usize::from(count) > REPORT_ARRIVALS {
        return None;
    }
    let mut arrivals = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        arrivals.push((fields.u16()?, fields.u64()?));
    }
    Some(Report { train, now_ns, arrived, duplicates, dropped, first, arrivals })
}

/// Takes fields off the front of a body.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }
}

/// Tags and checks the messages by which sessions begin.
#[derive(Clone, Debug)]
pub struct OpeningKey(Gate);

impl OpeningKey {
    /// The key that follows from the shared one.
    pub fn new(shared: &Key) -> OpeningKey {
        OpeningKey(Gate::new(&shared.derived("glassline path 1 opening", &[]).0))
    }

    /// The datagram of a message. `nonce` is random.
    pub fn seal(&self, message: &Message, nonce: [u8; 12]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(OPENING_BYTES);
        message.write(&mut bytes);
        if matches!(message, Message::Hello { .. } | Message::Start { .. }) {
            bytes.resize(OPENING_BYTES.saturating_sub(GATE), 0);
        }
        self.0.close(&mut bytes, nonce);
        bytes
    }

    /// The message of a datagram; `None` where it is none of these, was not made with the key, or asks for an answer that
    /// would be longer than itself.
    pub fn open(&self, datagram: &[u8]) -> Option<Message> {
        let kind = kind(datagram).filter(|kind| !Message::is_of_session(*kind))?;
        if matches!(kind, 1 | 3) && datagram.len() < OPENING_BYTES {
            return None;
        }
        Message::parse(kind, self.0.open(datagram)?.get(MAGIC.len().saturating_add(1)..)?)
    }
}

/// Tags and checks the messages of a session.
#[derive(Debug)]
pub struct SessionKey {
    own: Gate,
    other: Gate,
    /// Numbers the messages that were tagged: no nonce is used twice.
    count: u64,
}

/// The end that a [`SessionKey`] is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The one that began.
    Caller,
    /// The one that answers.
    Listener,
}

impl SessionKey {
    /// The key of one end of the session that a Start with this nonce and token has begun.
    pub fn new(shared: &Key, caller: &Nonce, token: &Token, end: End) -> SessionKey {
        let context = [&caller[..], token].concat();
        let gate = |label| Gate::new(&shared.derived(label, &context).0);
        let (up, down) = (gate("glassline path 1 caller"), gate("glassline path 1 listener"));
        let (own, other) = if end == End::Caller { (up, down) } else { (down, up) };
        SessionKey { own, other, count: 0 }
    }

    /// Appends the datagram of a message, of `bytes` in all; as long as the message is where that is more.
    pub fn seal(&mut self, message: &Message, bytes: usize, out: &mut Vec<u8>) {
        let mut body = Vec::with_capacity(bytes);
        message.write(&mut body);
        body.resize(body.len().max(bytes.saturating_sub(GATE)), 0);
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.count.to_be_bytes());
        // Below 2⁶⁴ in any lifetime.
        self.count = self.count.saturating_add(1);
        self.own.close(&mut body, nonce);
        out.append(&mut body);
    }

    /// The message of a datagram of the other end; `None` where it is none.
    pub fn open(&self, datagram: &[u8]) -> Option<Message> {
        let kind = kind(datagram).filter(|kind| Message::is_of_session(*kind))?;
        Message::parse(kind, self.other.open(datagram)?.get(MAGIC.len().saturating_add(1)..)?)
    }
}

/// The kind of a datagram that begins as messages do.
fn kind(datagram: &[u8]) -> Option<u8> {
    datagram.strip_prefix(&MAGIC)?.first().copied()
}

/// For fuzzing: the message of a kind and its fields without a tag, after a check that it is written as it was read.
///
/// # Panics
/// Where a message that was read is written in another way.
pub fn parse_untagged(bytes: &[u8]) -> Option<Message> {
    let (&kind, body) = bytes.split_first()?;
    let message = Message::parse(kind, body)?;
    let mut written = Vec::new();
    message.write(&mut written);
    let fields = written.get(MAGIC.len().saturating_add(1)..).unwrap_or_default();
    assert_eq!(Message::parse(kind, fields), Some(message.clone()));
    // All that was read stands in the bytes, whatever follows. But the state of Sent is one bit of its byte, and a train that
    // waits has no figures.
    assert!(matches!(message, Message::Sent { .. }) || body.starts_with(fields));
    Some(message)
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
