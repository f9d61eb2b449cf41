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
    /// No frame begins here, or one with a wrong checksum.
    Nothing { is_damaged: bool },
    /// More bytes are needed.
    Begun,
}

/// Finds frames in a row of bytes that may begin anywhere, lack some, or have others between. It holds fewer bytes than the longest
/// frame has.
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
        for piece in bytes.chunks(PIECE_BYTES) {
            self.held.extend_from_slice(piece);
            let mut held = std::mem::take(&mut self.held);
            let used = self.look_through(&held, take);
            held.drain(..used);
            self.held = held;
        }
    }

    /// Returns how many bytes are done with.
    fn look_through(&mut self, bytes: &[u8], take: &mut dyn FnMut(Sender, Message)) -> usize {
        let mut at = 0usize;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let step = match find(rest) {
                Found::Begun => break,
                Found::Frame { bytes, sender, message } => {
                    match message {
                        Some(message) => {
                            self.counters.frames = self.counters.frames.saturating_add(1);
                            take(sender, message);
                        }
                        None => self.counters.unknown = self.counters.unknown.saturating_add(1),
                    }
                    bytes
                }
                // The next byte may begin the frame that this one seemed to: nothing of what it seemed to span is passed over.
                Found::Nothing { is_damaged } => {
                    let counters = &mut self.counters;
                    counters.skipped_bytes = counters.skipped_bytes.saturating_add(1);
                    counters.checksums_wrong = counters.checksums_wrong.saturating_add(is_damaged.into());
                    1
                }
            };
            at = at.saturating_add(step);
        }
        at.min(bytes.len())
    }
}

/// Looks whether `bytes` begin with a frame.
fn find(bytes: &[u8]) -> Found {
    let nothing = Found::Nothing { is_damaged: false };
    let (header_bytes, signature_bytes) = match *bytes {
        [START_1, ..] => (HEADER_1_BYTES, 0),
        [START_2, _, incompatible, ..] if incompatible & !SIGNED != 0 => return nothing,
        [START_2, _, incompatible, ..] => {
            (HEADER_2_BYTES, if incompatible & SIGNED == 0 { 0 } else { SIGNATURE_BYTES })
        }
        [START_2, ..] => return Found::Begun,
        _ => return nothing,
    };
    let Some(header) = bytes.get(..header_bytes) else { return Found::Begun };
    let (payload_bytes, sender, number) = match *header {
        [START_1, length, _, system, component, number] => {
            (usize::from(length), Sender { system, component }, u32::from(number))
        }
        [_, length, _, _, _, system, component, low, middle, high] => {
            let number = u32::from_le_bytes([low, middle, high, 0]);
            (usize::from(length), Sender { system, component }, number)
        }
        _ => return nothing,
    };
    let checked = header_bytes.saturating_add(payload_bytes);
    let end = checked.saturating_add(CHECKSUM_BYTES).saturating_add(signature_bytes);
    let (Some(covered), Some(payload)) = (bytes.get(1..checked), bytes.get(header_bytes..checked)) else {
        return Found::Begun;
    };
    let Some(&[low, high]) = bytes.get(checked..).and_then(<[u8]>::first_chunk) else { return Found::Begun };
    let Some(layout) = message::layout(number) else {
        // Nothing tells a frame of an unknown message from other bytes but that the next frame follows, or that it ends what came.
        return match bytes.get(end) {
            None if bytes.len() < end => Found::Begun,
            None | Some(&(START_1 | START_2)) => Found::Frame { bytes: end, sender, message: None },
            Some(_) => nothing,
        };
    };
    let mut digest = CRC.digest();
    digest.update(covered);
    digest.update(&[layout.extra]);
    if digest.finalize() != u16::from_le_bytes([low, high]) {
        return Found::Nothing { is_damaged: true };
    }
    if bytes.len() < end {
        return Found::Begun;
    }
    Found::Frame { bytes: end, sender, message: Some(Message::read(layout, payload)) }
}

#[cfg(test)]
mod golden;
#[cfg(test)]
#[path = "parser_tests.rs"]
mod tests;
