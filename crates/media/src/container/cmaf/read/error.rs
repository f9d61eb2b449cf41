//! What is wrong with bytes that are read.

use std::fmt;

/// The four letters that name a box, a brand or a sample entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FourCc(pub [u8; 4]);

impl fmt::Display for FourCc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for FourCc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FourCc({self})")
    }
}

/// Why bytes are refused. Offsets count from the first byte that was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The first box is none that a file or segment begins with.
    #[error("begins with a box '{found}', expected ftyp, styp or moov")]
    First {
        /// Its type.
        found: FourCc,
    },
    /// A box of an impossible length, or of more bytes than are read.
    #[error("a box '{kind}' of {found} bytes at byte {at}, expected {expected}")]
    Size {
        /// Its type.
        kind: FourCc,
        /// The length that it claims.
        found: u64,
        /// What it may be.
        expected: &'static str,
        /// Where it begins.
        at: u64,
    },
    /// A box that is over before all of its fields have come.
    #[error("the box '{kind}' at byte {at} ends in {what}")]
    Truncated {
        /// Its type.
        kind: FourCc,
        /// The field.
        what: &'static str,
        /// Where it begins.
        at: u64,
    },
    /// A field has a value that it cannot have there.
    #[error("{what} is {found} in the box '{kind}' at byte {at}, expected {expected}")]
    Unexpected {
        /// The field.
        what: &'static str,
        /// Its value.
        found: u64,
        /// What it may be.
        expected: &'static str,
        /// The type of the box that it is in.
        kind: FourCc,
        /// Where that begins.
        at: u64,
    },
    /// A box without another one that it needs, or behind none.
    #[error("the box '{kind}' at byte {at} has no '{expected}'")]
    Missing {
        /// The box that needs it.
        kind: FourCc,
        /// What it needs, inside or before it.
        expected: FourCc,
        /// Where the first one begins.
        at: u64,
    },
    /// A sample from which no access unit can be made.
    #[error(
        "a sample of track {track_id} ('{sample_entry}') at {decode_time} has {found}, expected {expected}"
    )]
    Sample {
        /// The track.
        track_id: u32,
        /// What the track's samples are called.
        sample_entry: FourCc,
        /// When it is decoded, in ticks of the track.
        decode_time: u64,
        /// What is wrong with it.
        found: &'static str,
        /// What would be right.
        expected: &'static str,
    },
}
