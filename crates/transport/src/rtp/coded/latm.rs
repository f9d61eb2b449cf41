//! AAC in LATM (RFC 6416): elements that may go over several packets, of which the marker bit ends the last.

use super::{Collected, Piece};
use glassline_media::Codec;
use glassline_media::bitstream::adts;
use glassline_media::bitstream::latm::Reader;

/// Bytes of the elements with one time stamp at most.
const ELEMENT_BYTES_MAX: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct LatmAssembler {
    reader: Reader,
    /// The configuration stands in each element (`cpresent=1`), not in the description.
    has_configuration: bool,
    clock_hz: u32,
    element: Vec<u8>,
    timestamp: u64,
    is_damaged: bool,
    /// An element has ended: the first one is taken for whole.
    has_begun: bool,
}

impl LatmAssembler {
    pub(super) fn new(reader: Reader, has_configuration: bool, clock_hz: u32) -> LatmAssembler {
        LatmAssembler {
            reader,
            has_configuration,
            clock_hz,
            element: Vec::new(),
            timestamp: 0,
            is_damaged: false,
            has_begun: false,
        }
    }

    pub(super) fn push(&mut self, piece: &Piece<'_>, out: &mut Collected) {
        if piece.timestamp != self.timestamp && !std::mem::take(&mut self.element).is_empty() {
            out.damage();
            self.is_damaged = false;
        }
        // Behind a loss an element may lack its beginning, which nothing in it tells.
        self.is_damaged |= piece.is_after_loss;
        self.timestamp = piece.timestamp;
        if self.element.len().saturating_add(piece.payload.len()) > ELEMENT_BYTES_MAX {
            self.is_damaged = true;
        } else {
            self.element.extend_from_slice(piece.payload);
        }
        if !piece.marker {
            return;
        }
        let element = std::mem::take(&mut self.element);
        if std::mem::take(&mut self.is_damaged) && std::mem::replace(&mut self.has_begun, true) {
            out.damage();
            return;
        }
        self.has_begun = true;
        let mut frames = Vec::new();
        if self.reader.read_payload(&element, self.has_configuration, &mut frames).is_none() {
            out.malform();
        }
        let mut timestamp = piece.timestamp;
        for frame in frames {
            let samples = u64::from(adts::SAMPLES_PER_BLOCK).saturating_mul(self.clock_hz.into());
            out.push_sound(Codec::Aac, frame.data, timestamp);
            let ticks = samples.checked_div(frame.header.rate_hz.into()).unwrap_or(0);
            timestamp = timestamp.saturating_add(ticks);
        }
    }
}
