//! A publisher that sends its stream piece by piece, in a request each: what such a request tells, and what one leaves to the next.

use glassline_delivery::policy::{Meter, Secret};
use glassline_media::Time;
use std::net::IpAddr;

/// A publisher as far as its requests tell: those of one that sends its stream piece by piece, in a request each, tell the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Publisher {
    pub(super) address: IpAddr,
    pub(super) credential: Option<Secret>,
    pub(super) program: Option<String>,
}

/// A request that may bring the next piece of a publisher's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) publisher: Publisher,
    /// The place in what the publisher sends at which this begins, if it says so (`Content-Range`, RFC 9110 §14.5).
    pub(super) from: Option<u64>,
}

/// A piece whose last byte has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedPiece<'a> {
    pub(super) publisher: &'a Publisher,
    /// The place of its first byte in what the publisher sends.
    pub(super) from: u64,
    pub(super) bytes: u64,
    /// Pieces before it.
    pub(super) before: u32,
    /// How much the publisher may send, and has sent.
    pub(super) meter: Option<Meter>,
}

/// What the last piece leaves to the next one.
#[derive(Clone, Debug)]
pub(super) struct LeftPiece {
    pub(super) publisher: Publisher,
    /// Behind its last byte.
    pub(super) end: u64,
    pub(super) meter: Option<Meter>,
    /// Until when the next one may come.
    pub(super) until: Time,
    /// Pieces so far.
    pub(super) count: u32,
}

/// How a granted request goes on with what its publisher sent before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Continued {
    /// Pieces before this one.
    pub(super) count: u32,
    /// The place at which it begins.
    pub(super) from: u64,
    /// How much its publisher may send, and has sent.
    pub(super) meter: Option<Meter>,
}
