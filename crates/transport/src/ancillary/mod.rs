//! Ancillary data over RTP: RFC 8331, as ST 2110-40 profiles it. Captions, time code, aspect ratio, splice messages: what SDI
//! carries beside the picture (ST 291-1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                      RTP header, 12 bytes                     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  extended sequence number     |    length of the ANC packets  |
//! |   ANC_Count   | F |                 reserved                  |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |C|     Line_Number     |   Horizontal_Offset   |S|  StreamNum  |
//! |        DID        |       SDID        |    Data_Count     |   |
//! |  User_Data_Words of 10 bits … Checksum_Word | word_align to 32 bits
//! ```
//! * [`Packet`]: one ANC packet; what it is ([`Kind`]), whether its parity and checksum hold.
//! * [`Payload`]: what an RTP packet carries. It is written again as it was read, bit for bit.
//! * [`Cdp`]: captions of a frame (ST 334-2), which a packet carries.
//! * [`TimeCode`]: ancillary time code (ST 12-2); [`Numbering`]: which one a frame has.
//! * [`Depacketizer`], [`Packetizer`]: payloads out of and into datagrams.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

mod captions;
mod packet;
mod payload;
mod stream;
#[cfg(test)]
mod tests;
mod time_code;

pub use captions::{CaptionRate, CaptionType, Cdp, CdpError, Triplet};
pub use packet::{Kind, Packet, Stream, WORDS_MAX};
pub use payload::{Field, Payload};
pub use stream::{Counters, Depacketizer, Packetizer, PacketizerSettings, Received, Settings};
pub use time_code::{Numbering, Source, TimeCode, TimeCodeError};

use thiserror::Error;

/// Bytes of a payload in front of its ANC packets.
pub const HEADER_BYTES: usize = 8;
/// A line number that says: on no particular line (RFC 8331 §2.1).
pub const LINE_ANY: u16 = 0x7FF;
/// A line number that says: on any line between the switching point and active video.
pub const LINE_VANC: u16 = 0x7FE;
/// A line number that says: on a line with a number of more than 11 bits.
pub const LINE_LARGE: u16 = 0x7FD;
/// A horizontal offset that says: at no particular place of the line.
pub const OFFSET_ANY: u16 = 0xFFF;
/// A horizontal offset that says: within horizontal blanking.
pub const OFFSET_HANC: u16 = 0xFFE;
/// A horizontal offset that says: between the start and the end of active video.
pub const OFFSET_ACTIVE: u16 = 0xFFD;
/// A horizontal offset that needs more than 12 bits.
pub const OFFSET_LARGE: u16 = 0xFFC;

/// Why a datagram or its payload is no ancillary data.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// No RTP packet.
    #[error(transparent)]
    Rtp(#[from] crate::rtp::Error),
    /// Another payload type than the stream's.
    #[error("payload type {found} where this ancillary data has {expected}")]
    PayloadType {
        /// The packet's.
        found: u8,
        /// The stream's.
        expected: u8,
    },
    /// A payload that ends within its header or within an ANC packet.
    #[error("an ancillary payload of {found} bytes that ends within what takes {expected}")]
    Short {
        /// Bytes that there are.
        found: usize,
        /// Bytes that there should be at least.
        expected: usize,
    },
    /// Its ANC packets take other bytes than its length says.
    #[error("ANC packets of {found} bytes, where the payload's length says {said}")]
    Length {
        /// Bytes that the packets take, or that there are.
        found: usize,
        /// What the header says.
        said: usize,
    },
}
