//! A publisher that sends its stream piece by piece, in a request each: what such a request tells, and what one leaves to the next.

use glassline_delivery::policy::{Meter, Secret};
use glassline_media::Time;
use std::net::IpAddr;

/// A publisher as far as its requests tell: those of one that sends its stream piece by piece, in a request each, tell the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publisher {
    /// Where its requests come from.
    pub address: IpAddr,
    /// What they show.
    pub credential: Option<Secret>,
    /// What sends them (`User-Agent`).
    pub program: Option<String>,
}

/// A request that may bring the next piece of a publisher's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// What sends it.
    pub publisher: Publisher,
    /// The place in what the publisher sends at which this begins, if it says so (`Content-Range`, RFC 9110 §14.5).
    pub from: Option<u64>,
}

/// A piece that has come whole.
#[derive(Clone, Copy, Debug)]
pub struct EndedPiece<'a> {
    /// What has sent it.
    pub publisher: &'a Publisher,
    /// The place of its first byte in what the publisher sends.
    pub from: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Pieces before it.
    pub before: u32,
    /// How much the publisher may send, and has sent.
    pub meter: Option<Meter>,
}

/// What the last piece leaves to the next one.
#[derive(Clone, Debug)]
pub(crate) struct LeftPiece {
    pub(crate) publisher: Publisher,
    /// Behind its last byte.
    pub(crate) end: u64,
    pub(crate) meter: Option<Meter>,
    /// Until when the next one may come.
    pub(crate) until: Time,
    /// Pieces so far.
    pub(crate) count: u32,
}

/// How a granted request goes on with what its publisher sent before.
#[derive(Clone, Copy, Debug)]
pub struct Continued {
    /// Pieces before this one.
    pub count: u32,
    /// The place at which it begins.
    pub from: u64,
    /// How much its publisher may send, and has sent.
    pub meter: Option<Meter>,
}
