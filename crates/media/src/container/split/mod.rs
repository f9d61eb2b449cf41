//! Containers that a relay carries as they are: where their header ends, where records begin, and where a viewer can
//! join. Nothing is remuxed; bytes in any chop come in and go out again, with marks.
//!
//! ```text
//! ├── header ──┼─ record ─┼─ record ─┼─ record ─┼─ …         header: what every decoder needs first
//!              ▲                     ▲                       ▲ joins: header, then from here on
//! ```
//! [`flv`](super::flv), [`webm`](super::webm) and [`ogg`](super::ogg) say what these are in each container. Payloads
//! only pass through; what is held is the header, and of each record its first bytes.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

pub use super::boundary::{Error, HEADER_MAX_BYTES, RECORD_MAX_BYTES};

use super::boundary::Boundary;
use super::{flv, ogg, webm};
use serde::{Deserialize, Serialize};

/// A container that can be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// Flash Video.
    Flv,
    /// WebM, and any Matroska.
    WebM,
    /// Ogg.
    Ogg,
}

/// What a [`Splitter`] says. Offsets count the bytes behind the header, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split<'a> {
    /// What a decoder needs before it can begin at a join that follows; replaces the header told before. The first
    /// one is not among [`Split::Data`]; what a later one was made of is.
    Header(&'a [u8]),
    /// A record ends here, and another may begin.
    RecordEnd {
        /// The offset behind its last byte.
        at: u64,
    },
    /// A decoder that has the header can begin here.
    Join {
        /// The offset of its first byte; at most one record back.
        at: u64,
        /// Whether a key frame stands there, or sound where there are no pictures. Elsewhere pictures need a while to
        /// become whole.
        key_frame: bool,
    },
    /// A picture begins in the data that follow.
    Picture,
    /// Bytes behind the header, in order; all marks told since the last data lie in them or before.
    Data(&'a [u8]),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Scanner {
    Flv(flv::Scanner),
    WebM(webm::Scanner),
    Ogg(ogg::Scanner),
}

impl Scanner {
    fn scan(&mut self, input: &[u8], marks: &mut Vec<Boundary>) -> Result<(), Error> {
        match self {
            Scanner::Flv(scanner) => scanner.scan(input, marks),
            Scanner::WebM(scanner) => scanner.scan(input, marks),
            Scanner::Ogg(scanner) => scanner.scan(input, marks),
        }
    }

    /// Where the element begins that it is in.
    fn element_start(&self) -> u64 {
        match self {
            Scanner::Flv(scanner) => scanner.walk.start(),
            Scanner::WebM(scanner) => scanner.walk.start(),
            Scanner::Ogg(scanner) => scanner.walk.start(),
        }
    }
}

/// Splits one container's bytes.
///
/// Any chop of the same bytes gives the same marks and the same data. Holds the header (at most
/// [`HEADER_MAX_BYTES`], twice at most) and a record's first bytes. Costs a look at each record's head; data are
/// borrowed, one run a call. All headers that are told after the first have no more bytes together than what was pushed,
/// but for a few of the longest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Splitter {
    scanner: Scanner,
    /// What came before the header was whole.
    #[serde(with = "serde_bytes")]
    held: Vec<u8>,
    header_bytes: Option<u64>,
    taken: u64,
    /// Room for the marks of a push.
    #[serde(skip)]
    marks: Vec<Boundary>,
    /// Not part of a saved state: the connection of a publisher ends when its bytes are refused, and no scan goes on
    /// from there.
    #[serde(skip)]
    failed: Option<Error>,
}

impl Splitter {
    /// Before the first byte.
    pub fn new(container: Container) -> Splitter {
        let scanner = match container {
            Container::Flv => Scanner::Flv(flv::Scanner::default()),
            Container::WebM => Scanner::WebM(webm::Scanner::default()),
            Container::Ogg => Scanner::Ogg(ogg::Scanner::default()),
        };
        Splitter { scanner, held: Vec::new(), header_bytes: None, taken: 0, marks: Vec::new(), failed: None }
    }

    /// Takes bytes and tells what they are. After an error nothing more is taken; what was told before it stands.
    pub fn push(&mut self, input: &[u8], tell: &mut dyn FnMut(Split<'_>)) -> Result<(), Error> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let from = self.taken;
        self.taken = self.taken.saturating_add(input.len() as u64);
        let mut marks = std::mem::take(&mut self.marks);
        let scanned = self.scanner.scan(input, &mut marks);
        // Of a bad element nothing is told.
        let good_end = scanned.map_or_else(|_| self.scanner.element_start().max(from), |()| self.taken);
        let told = self.tell(input, from, good_end, &marks, tell);
        marks.clear();
        self.marks = marks;
        self.failed = scanned.and(told).err();
        self.failed.map_or(Ok(()), Err)
    }

    fn tell(
        &mut self,
        input: &[u8],
        from: u64,
        good_end: u64,
        marks: &[Boundary],
        tell: &mut dyn FnMut(Split<'_>),
    ) -> Result<(), Error> {
        let mut held = std::mem::take(&mut self.held);
        let (header_bytes, body) = match self.header_bytes {
            Some(header_bytes) => (header_bytes, up_to(input, good_end.saturating_sub(from))),
            None => {
                held.extend_from_slice(input);
                let body_begins = marks.iter().find_map(|mark| match mark {
                    Boundary::BodyBegins { at } => Some(*at),
                    _ => None,
                });
                let length = body_begins.unwrap_or(held.len() as u64);
                if length > HEADER_MAX_BYTES as u64 {
                    return Err(Error::HeaderTooLong { found: length });
                }
                if body_begins.is_none() {
                    self.held = held;
                    return Ok(());
                }
                self.header_bytes = Some(length);
                // It began in what is held.
                let at = usize::try_from(length).map_or(held.len(), |length| length.min(held.len()));
                let (header, body) = held.split_at_mut(at);
                if let Scanner::WebM(scanner) = &self.scanner {
                    scanner.make_endless(header);
                }
                tell(Split::Header(header));
                (length, up_to(body, good_end.saturating_sub(length)))
            }
        };
        for mark in marks {
            match mark {
                Boundary::BodyBegins { .. } => {}
                Boundary::Header(header) => tell(Split::Header(header)),
                Boundary::RecordEnd { at } => tell(Split::RecordEnd { at: at.saturating_sub(header_bytes) }),
                Boundary::Join { at, key_frame } => {
                    tell(Split::Join { at: at.saturating_sub(header_bytes), key_frame: *key_frame });
                }
                Boundary::Picture => tell(Split::Picture),
            }
        }
        if !body.is_empty() {
            tell(Split::Data(body));
        }
        Ok(())
    }
}

/// The first `count` bytes, or all where there are fewer.
fn up_to(bytes: &[u8], count: u64) -> &[u8] {
    usize::try_from(count).ok().and_then(|count| bytes.get(..count)).unwrap_or(bytes)
}

#[cfg(test)]
pub(super) mod testing;
