//! What the line numbers of a stream in two fields count: the lines of the field, as the standards have it, or those of the
//! frame.
//!
//! ```text
//!            field 0            field 1
//!  OfField   0  1  2  3  …      0  1  2  3  …
//!  OfFrame   0  2  4  6  …      1  3  5  7  …
//!            ▲ a second line that is odd can only be of the field, one beyond the field's end only of the frame
//! ```
//! Nothing else tells, so the first packets are kept until one of them fits one way alone. Of a stream as the standards have it
//! that is the second line; of the others it takes half of a field, and nothing of it is lost.

use super::super::format::{Format, LineNumbers};
use super::super::header::Segment;
use super::{Depacketizer, Store};
use crate::rtp::source::{Origin, Standing};
use glassline_media::Time;

/// Datagrams that are kept until it is known. Together they have no more bytes than a frame and one of them.
const HELD_MAX: usize = 16_384;
/// So many packets in a row of one source that fit the other way alone are a sender that counts otherwise.
const CONTRADICTIONS_MAX: u32 = 4;

/// Packets that fit both ways, as long as no other has come.
#[derive(Debug, Default)]
pub(super) struct Undecided {
    held: Vec<(Origin, Vec<u8>, Time)>,
    bytes: usize,
}

impl Undecided {
    /// How many are kept.
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }
}

/// Which of the ways all segments of a packet fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fits {
    Both,
    Only(LineNumbers),
    Neither,
}

fn fits(format: Format, segments: &[Segment]) -> Fits {
    let by = |lines| {
        let format = format.with_line_numbers(lines);
        segments.iter().all(|segment| format.place(segment).is_some())
    };
    match (by(LineNumbers::OfField), by(LineNumbers::OfFrame)) {
        (true, true) => Fits::Both,
        (true, false) => Fits::Only(LineNumbers::OfField),
        (false, true) => Fits::Only(LineNumbers::OfFrame),
        (false, false) => Fits::Neither,
    }
}

impl Depacketizer {
    /// Looks at a packet of a stream in two fields before anything else does. `None`: its segments are none of a frame. True: it
    /// is kept, and comes again once it is known what line numbers count; false: that is known.
    pub(super) fn weigh_lines(
        &mut self,
        (from, datagram): (Origin, &[u8]),
        ssrc: u32,
        segments: &[Segment],
        at: Time,
        store: &mut dyn Store,
    ) -> Option<bool> {
        let format = self.settings.format;
        if format.fields() == 1 {
            return Some(false);
        }
        let fits = fits(format, segments);
        let Some(undecided) = &mut self.undecided else {
            return self.weigh_contradiction(fits, from, ssrc, at).then_some(false);
        };
        let lines = match fits {
            Fits::Neither => return None,
            Fits::Only(lines) => lines,
            Fits::Both => {
                let has_room = undecided.held.len() < HELD_MAX && undecided.bytes < format.frame_bytes();
                if has_room {
                    undecided.bytes = undecided.bytes.saturating_add(datagram.len());
                    undecided.held.push((from, datagram.to_vec(), at));
                    return Some(true);
                }
                LineNumbers::OfField
            }
        };
        let held = self.undecided.take().map(|undecided| undecided.held).unwrap_or_default();
        self.settings.format = format.with_line_numbers(lines);
        for (from, datagram, at) in held {
            self.take_datagram(from, &datagram, at, store);
        }
        Some(false)
    }

    /// Whether a packet fits the way that is known. A sender that has been replaced by one that counts otherwise is followed.
    fn weigh_contradiction(&mut self, fits: Fits, from: Origin, ssrc: u32, at: Time) -> bool {
        let lines = match fits {
            Fits::Neither => return false,
            Fits::Both => return true,
            Fits::Only(lines) => lines,
        };
        if self.settings.format == self.settings.format.with_line_numbers(lines) {
            self.contradictions = 0;
            return true;
        }
        if self.lock.weigh(from, ssrc, at) == Standing::Stranger {
            return false;
        }
        self.contradictions = self.contradictions.saturating_add(1);
        if self.contradictions < CONTRADICTIONS_MAX {
            return false;
        }
        self.restart();
        self.contradictions = 0;
        self.learned = None;
        self.settings.format = self.settings.format.with_line_numbers(lines);
        true
    }
}
