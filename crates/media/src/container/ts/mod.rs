//! MPEG transport stream (ISO/IEC 13818-1, "13818-1" below): 188-byte packets in, access units out, and back.
//!
//! ```text
//! any bytes ── align ──► packets ── scan ──► where a viewer can join, what runs through     (relay)
//!                           ├───── demux ──► access units                                    (packager, probe)
//!                           └───── conformance ──► which rules are kept and broken           (probe)
//! access units ── mux ──► packets                                                            (encode)
//! ```
//! [`packet`] knows one packet, [`psi`] the tables, [`scte35`] cues, [`pes`] the headers of elementary streams, [`continuity`]
//! the counters that show loss, [`tstd`] the buffers of the ideal receiver, [`constant_rate`] what a multiplexer of a
//! constant rate does with null packets.

pub mod align;
pub mod conformance;
pub mod constant_rate;
pub mod continuity;
pub mod demux;
pub mod entry;
pub mod framing;
mod head;
mod insert;
pub mod metadata;
pub mod mux;
pub mod packet;
mod packetize;
mod parameter_sets;
pub mod pes;
mod picture_times;
mod pictures;
pub mod psi;
pub mod scan;
pub mod scte35;
mod shaper;
pub mod shift;
mod tables;
pub mod tstd;
pub(super) mod units;

pub use align::Aligner;
pub use constant_rate::ConstantRate;
pub use continuity::{Continuity, ContinuityChecker};
pub use demux::{Demuxer, Event, followed_data};
pub use entry::{EntryPoint, discontinuity_packet};
pub use insert::{DataInserter, PictureTime};
pub use metadata::{DataUnit, DataWriter};
pub use mux::{AudioFormat, MuxSettings, Muxer, ProgramNumbers, UnitHead};
pub use packet::{Adaptation, NULL_PID, PACKET_BYTES, Packet, Pcr, SYNC_BYTE};
pub use psi::{DataKind, ElementaryStream, Program};
pub use scan::{FoundEntry, Scan, Scanner};
pub use shift::Shifter;

use crate::access_unit::Codec;

/// What is wrong with a transport stream, or with what should become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A packet does not begin with the sync byte.
    #[error("packet begins with 0x{found:02x}, expected the sync byte 0x47")]
    Sync {
        /// Its first byte.
        found: u8,
    },
    /// An adaptation field reaches beyond its packet, or one that should fill it does not.
    #[error("adaptation field of {found} bytes, expected at most {limit}")]
    AdaptationField {
        /// The length it claims.
        found: u8,
        /// The bytes that are there.
        limit: u8,
    },
    /// Fewer bytes than the structure needs.
    #[error("{what} has {found} bytes, expected at least {expected}")]
    Truncated {
        /// The structure.
        what: &'static str,
        /// Bytes there.
        found: usize,
        /// Bytes needed.
        expected: usize,
    },
    /// A field has a value that is not allowed here.
    #[error("{what} is 0x{found:x}, expected 0x{expected:x}")]
    Unexpected {
        /// The field.
        what: &'static str,
        /// Its value.
        found: u32,
        /// The value that it must have.
        expected: u32,
    },
    /// The muxer was given what it cannot carry in this place.
    #[error("{what} is {}, expected {expected}", found.name())]
    Codec {
        /// The place.
        what: &'static str,
        /// The codec given.
        found: Codec,
        /// What belongs there.
        expected: &'static str,
    },
    /// A program without any stream.
    #[error("no stream to mux, expected video or audio")]
    NoStream,
    /// A constant rate without video, the times of which it follows; or a stream that is added behind the beginning.
    #[error("a constant rate needs video, and all streams from the beginning on")]
    ConstantRate,
    /// More channels than the container can name.
    #[error("{found} audio channels, expected 1 to 8")]
    Channels {
        /// The number given.
        found: u8,
    },
    /// A table's checksum does not match its bytes.
    #[error("table section carries CRC 0x{found:08x}, its bytes give 0x{expected:08x}")]
    Crc {
        /// The checksum in the section.
        found: u32,
        /// The checksum of its bytes.
        expected: u32,
    },
}
