//! Where headers end, records begin and viewers can join, as the scanners of the containers find it, and why they refuse bytes.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use thiserror::Error;

/// The longest header that is kept, in bytes.
pub const HEADER_MAX_BYTES: usize = 1 << 20;
/// The longest record, in bytes: a WebM cluster of five seconds at 100 Mbit/s. A viewer that falls behind leaves the
/// stream at a record's end, so records have to have one.
pub const RECORD_MAX_BYTES: u64 = 64 << 20;

/// Why bytes are refused.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The first bytes are those of something else.
    #[error("begins with {found:02x?}, expected {expected}")]
    Magic {
        /// The first bytes.
        found: [u8; 4],
        /// What the container begins with.
        expected: &'static str,
    },
    /// A header that is longer than what is kept, or claims to be.
    #[error("a header of {found} bytes, expected at most {HEADER_MAX_BYTES}")]
    HeaderTooLong {
        /// Its length so far, or what it claims.
        found: u64,
    },
    /// Headers that change so often that they take more bytes than the stream itself.
    #[error(
        "another header of {found} bytes at byte {at}, expected fewer changes: headers take more than the stream"
    )]
    HeaderChanges {
        /// The length of the one that is too much.
        found: u64,
        /// Where the record begins that needs it, from the first byte.
        at: u64,
    },
    /// A record that claims to be longer than records may be.
    #[error("a {what} of {found} bytes at byte {at}, expected at most {RECORD_MAX_BYTES}")]
    RecordTooLong {
        /// The kind of record.
        what: &'static str,
        /// The length that it claims.
        found: u64,
        /// Where it begins, from the first byte.
        at: u64,
    },
    /// A field has a value that it cannot have there.
    #[error("{what} is 0x{found:x} at byte {at}, expected {expected}")]
    Unexpected {
        /// The field.
        what: &'static str,
        /// Its value.
        found: u64,
        /// What it may be.
        expected: &'static str,
        /// Where its record begins, from the first byte.
        at: u64,
    },
}

/// What a scanner finds. Offsets count all bytes, from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Boundary {
    /// The first header is whole; the first record begins here.
    BodyBegins {
        at: u64,
    },
    /// The header from here on, where it has changed.
    Header(Vec<u8>),
    RecordEnd {
        at: u64,
    },
    Join {
        at: u64,
        key_frame: bool,
    },
    Picture,
}
