//! MAVLink: what autopilots say of themselves, on serial lines and in datagrams (mavlink.io, "Packet Serialization").
//!
//! ```text
//! version 1: fe │ length │ sequence │ system │ component │ message:8 │ payload │ checksum:16
//! version 2: fd │ length │ incompatible │ compatible │ sequence │ system │ component │ message:24 │ payload │ checksum:16
//!            │ [signature:13 bytes]
//! ```
//! Numbers are little-endian. The checksum is CRC-16/MCRF4XX over all but the first byte and itself, and over one more byte that
//! stands for the layout of the message (`CRC_EXTRA`): only messages that are known here can be checked. Version 2 leaves zeros at
//! the end of a payload out. Signatures are passed over: there is no key to check them by.
//!
//! A false start, in a line that is joined in the middle or lacks bytes, may have the shape of an unknown message over good frames. A
//! frame with a right checksum within it shows that it is none. Messages that carry bytes of others are checked instead
//! (`message::carrier`), and what is in them is passed over.
//!
//! [`Parser`] finds the frames, [`message`] reads those that tell time, position and attitude, [`Telemetry`] makes of one vehicle's
//! the sets that go beside pictures ([`klv::uas`](super::klv::uas)).
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

pub mod message;
mod rotation;
mod telemetry;
mod vehicle;

pub use message::Message;
pub use telemetry::{Read, Telemetry, TelemetryCounters, TimeSource, TimedSet};

/// The first byte of a frame of version 1.
const START_1: u8 = 0xfe;
/// The first byte of a frame of version 2.
const START_2: u8 = 0xfd;
/// Bytes in front of the payload of version 1.
const HEADER_1_BYTES: usize = 6;
/// Bytes in front of the payload of version 2.
const HEADER_2_BYTES: usize = 10;
const CHECKSUM_BYTES: usize = 2;
/// Bytes of link, time and signature behind a frame that has them.
const SIGNATURE_BYTES: usize = 13;
/// The one incompatibility flag that there is: a signature follows. A frame with another one cannot be read.
const SIGNED: u8 = 0x01;
/// Bytes that are looked through at a time, so that a large message needs no second copy of itself.
const PIECE_BYTES: usize = 4096;

const CRC: crc::Crc<u16, crc::Table<1>> = crc::Crc::<u16, crc::Table<1>>::new(&crc::CRC_16_MCRF4XX);

/// From where a message comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The vehicle's, or ground station's, number.
    pub system: u8,
    /// The part of it: 1 is the autopilot.
    pub component: u8,
}

/// What was found in the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames of messages that are read here, the checksum of which is right.
    pub frames: u64,
    /// Frames of other messages, which cannot be checked.
    pub unknown: u64,
    /// What looked like a frame of a message that is read here, and has a wrong checksum.
    pub checksums_wrong: u64,
    /// Bytes that belong to no frame.
    pub skipped_bytes: u64,
}

/// What stands at some place of the bytes.
enum Found {
    /// A frame of so many bytes, and where its payload is.
    Frame { bytes: usize, sender: Sender, message: Option<Message> },
    /// No frame begins here, or one with a wrong checksum; nor does one within the first `bytes`.
    Nothing { is_damaged: bool, bytes: usize },
    /// More bytes are needed.
    Begun,
}

/// Takes a message, and how many bytes before those that were pushed last its frame has begun.
type Take<'a> = dyn FnMut(Sender, Message, usize) + 'a;

/// Finds frames in a row of bytes that may begin anywhere, lack some, or have others between. It holds fewer bytes than two of the
/// longest frames have.
#[derive(Clone, Debug, Default)]
pub struct Parser {
    held: Vec<u8>,
    counters: Counters,
}

impl Parser {
    /// A parser before the first byte.
    pub fn new() -> Parser {
        Parser::default()
    }

    /// What was found so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Takes the next bytes: a datagram, or what a serial line gave. Calls `take` with each message that is known.
    pub fn push(&mut self, bytes: &[u8], take: &mut dyn FnMut(Sender, Message)) {
        self.push_with_age(bytes, &mut |sender, message, _| take(sender, message));
    }

    /// Bytes that wait for more.
    fn held_bytes(&self) -> usize {
        self.held.len()
    }

    fn push_with_age(&mut self, bytes: &[u8], take: &mut Take<'_>) {
        // Behind the first piece, which is longer than what is held, all is of this call.
        let mut held_before = self.held.len();
        for piece in bytes.chunks(PIECE_BYTES) {
            self.held.extend_from_slice(piece);
            let mut held = std::mem::take(&mut self.held);
            let used = self.look_through(&held, &mut |sender, message, at| {
                take(sender, message, held_before.saturating_sub(at));
            });
            held.drain(..used);
            self.held = held;
            held_before = 0;
        }
    }

    /// Returns how many bytes are done with. `take` gets where each frame begins.
    fn look_through(&mut self, bytes: &[u8], take: &mut Take<'_>) -> usize {
        let mut at = 0usize;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let step = match find(rest) {
                Found::Begun => break,
                Found::Frame { bytes, sender, message } => {
                    match message {
                        Some(message) => {
                            self.counters.frames = self.counters.frames.saturating_add(1);
                            take(sender, message, at);
                        }
                        None => self.counters.unknown = self.counters.unknown.saturating_add(1),
                    }
                    bytes
                }
                // The next byte may begin the frame that this one seemed to: nothing of what it seemed to span is passed over but what
                // was looked at.
                Found::Nothing { is_damaged, bytes } => {
                    let counters = &mut self.counters;
                    counters.skipped_bytes =
                        counters.skipped_bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
                    counters.checksums_wrong = counters.checksums_wrong.saturating_add(is_damaged.into());
                    bytes
                }
            };
            at = at.saturating_add(step);
        }
        at.min(bytes.len())
    }
}

/// The header of a frame, as far as it is there.
enum Begin {
    Nothing,
    Begun,
    Frame(Header),
}

struct Header {
    sender: Sender,
    number: u32,
    /// Where the payload begins,
    header_bytes: usize,
    /// where it ends,
    checked: usize,
    /// and where the frame does.
    end: usize,
}

impl Begin {
    fn of(bytes: &[u8]) -> Begin {
        let (header_bytes, signature_bytes) = match *bytes {
            [START_1, ..] => (HEADER_1_BYTES, 0),
            [START_2, _, incompatible, ..] if incompatible & !SIGNED != 0 => return Begin::Nothing,
            [START_2, _, incompatible, ..] => {
                (HEADER_2_BYTES, if incompatible & SIGNED == 0 { 0 } else { SIGNATURE_BYTES })
            }
            [START_2, ..] => return Begin::Begun,
            _ => return Begin::Nothing,
        };
        let Some(header) = bytes.get(..header_bytes) else { return Begin::Begun };
        let (payload_bytes, sender, number) = match *header {
            [START_1, length, _, system, component, number] => {
                (usize::from(length), Sender { system, component }, u32::from(number))
            }
            [_, length, _, _, _, system, component, low, middle, high] => {
                let number = u32::from_le_bytes([low, middle, high, 0]);
                (usize::from(length), Sender { system, component }, number)
            }
            _ => return Begin::Nothing,
        };
        let checked = header_bytes.saturating_add(payload_bytes);
        let end = checked.saturating_add(CHECKSUM_BYTES).saturating_add(signature_bytes);
        Begin::Frame(Header { sender, number, header_bytes, checked, end })
    }
}

impl Header {
    /// Whether the checksum is right; `None` while it has not come.
    fn is_right(&self, bytes: &[u8], extra: u8) -> Option<bool> {
        let covered = bytes.get(1..self.checked)?;
        let &[low, high] = bytes.get(self.checked..).and_then(<[u8]>::first_chunk)?;
        let mut digest = CRC.digest();
        digest.update(covered);
        digest.update(&[extra]);
        Some(digest.finalize() == u16::from_le_bytes([low, high]))
    }

    /// The message that `bytes` begin with, where it is one of those that are read.
    fn message(&self, bytes: &[u8]) -> Option<Found> {
        let layout = message::layout(self.number)?;
        let payload_bytes = self.checked.saturating_sub(self.header_bytes);
        // No sender has written that, and its checksum would cost far more than its header did.
        if payload_bytes > message::PAYLOAD_MAX_BYTES {
            return Some(Found::Nothing { is_damaged: false, bytes: 1 });
        }
        Some(match self.is_right(bytes, layout.extra) {
            Some(false) => Found::Nothing { is_damaged: true, bytes: 1 },
            Some(true) if bytes.len() >= self.end => {
                let payload = bytes.get(self.header_bytes..self.checked).unwrap_or_default();
                let message = Some(Message::read(layout, payload));
                Found::Frame { bytes: self.end, sender: self.sender, message }
            }
            _ => Found::Begun,
        })
    }
}

/// Looks whether `bytes` begin with a frame.
fn find(bytes: &[u8]) -> Found {
    let nothing = Found::Nothing { is_damaged: false, bytes: 1 };
    let header = match Begin::of(bytes) {
        Begin::Nothing => return nothing,
        Begin::Begun => return Found::Begun,
        Begin::Frame(header) => header,
    };
    if let Some(found) = header.message(bytes) {
        return found;
    }
    let (end, sender) = (header.end, header.sender);
    let unknown = Found::Frame { bytes: end, sender, message: None };
    if let Some(extra) = message::carrier(header.number) {
        return match header.is_right(bytes, extra) {
            Some(false) => Found::Nothing { is_damaged: true, bytes: 1 },
            Some(true) if bytes.len() >= end => unknown,
            _ => Found::Begun,
        };
    }
    // Nothing tells a frame of an unknown message from other bytes but that the next frame follows, or that it ends what came, and
    // that no good frame begins within it.
    if let Some(&byte) = bytes.get(end)
        && byte != START_1
        && byte != START_2
    {
        return nothing;
    }
    match first_message_within(bytes, end) {
        Within::At(at) => Found::Nothing { is_damaged: false, bytes: at },
        Within::Begun => Found::Begun,
        Within::Nowhere if bytes.len() < end => Found::Begun,
        Within::Nowhere => unknown,
    }
}

/// Where a message that is read begins.
enum Within {
    At(usize),
    Nowhere,
    /// Perhaps: more bytes are needed.
    Begun,
}

/// Looks for a message that is read, with a right checksum, which begins behind the first byte and before `end`.
fn first_message_within(bytes: &[u8], end: usize) -> Within {
    for at in 1..end.min(bytes.len()) {
        let rest = bytes.get(at..).unwrap_or_default();
        match Begin::of(rest) {
            Begin::Nothing => {}
            Begin::Begun => return Within::Begun,
            Begin::Frame(header) => match header.message(rest) {
                Some(Found::Frame { .. }) => return Within::At(at),
                Some(Found::Begun) => return Within::Begun,
                _ => {}
            },
        }
    }
    Within::Nowhere
}

#[cfg(test)]
mod golden;
#[cfg(test)]
#[path = "parser_tests.rs"]
mod tests;
