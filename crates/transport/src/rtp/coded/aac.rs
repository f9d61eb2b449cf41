//! AAC as RFC 3640 puts it into RTP: several access units a packet, or one in several packets.
//!
//! ```text
//! length of the headers in bits:16 │ size:13 index:3 │ size:13 index delta:3 │ … │ access units
//! ```
//! The widths are the description's (`sizelength`, `indexlength`, `indexdeltalength`). Units come out as ADTS frames.

use super::{Collected, Piece};
use glassline_media::Codec;
use glassline_media::bitstream::adts;
use glassline_media::bitstream::h264::BitReader;

/// Access units of a packet at most.
const UNITS_MAX: usize = 256;

/// Bytes of an access unit at most: what ADTS can say of a frame (13 bits, ISO/IEC 13818-7 §6.2). More can never be passed on.
pub(super) const UNIT_BYTES_MAX: usize = 8191;

/// What the description says of the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) size_bits: u32,
    pub(super) index_bits: u32,
    pub(super) index_delta_bits: u32,
    pub(super) cts_delta_bits: u32,
    pub(super) dts_delta_bits: u32,
    pub(super) stream_state_bits: u32,
    pub(super) auxiliary_size_bits: u32,
    pub(super) has_random_access: bool,
    /// Bytes of each access unit, where all have the same.
    pub(super) constant_bytes: usize,
}

impl Layout {
    /// `mode=AAC-hbr` (RFC 3640 §3.3.6).
    pub(super) const HIGH_BIT_RATE: Layout = Layout {
        size_bits: 13,
        index_bits: 3,
        index_delta_bits: 3,
        cts_delta_bits: 0,
        dts_delta_bits: 0,
        stream_state_bits: 0,
        auxiliary_size_bits: 0,
        has_random_access: false,
        constant_bytes: 0,
    };

    fn has_headers(&self) -> bool {
        self.size_bits > 0 || self.index_bits > 0 || self.has_random_access || self.stream_state_bits > 0
    }
}

/// What ADTS says of each frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frames {
    pub(super) object_type: u8,
    pub(super) rate_hz: u32,
    pub(super) channels: u8,
}

impl Frames {
    /// A frame with its header; `None` where it is larger than ADTS can say. One that has a header of its own keeps it.
    fn adts(&self, frame: &[u8]) -> Option<Vec<u8>> {
        if adts::Header::parse(frame).is_some_and(|header| header.frame_bytes == frame.len()) {
            return Some(frame.to_vec());
        }
        let frame_bytes = frame.len().saturating_add(adts::HEADER_BYTES);
        let Frames { object_type, rate_hz, channels } = *self;
        let header = adts::Header { object_type, rate_hz, channels, checksum: false, frame_bytes, blocks: 1 };
        let mut data = Vec::with_capacity(frame_bytes);
        data.extend_from_slice(&header.write()?);
        data.extend_from_slice(frame);
        Some(data)
    }
}

/// A unit that comes in several packets.
#[derive(Debug)]
struct Fragments {
    timestamp: u64,
    bytes: usize,
    data: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct AacAssembler {
    layout: Layout,
    frames: Frames,
    /// Ticks of the RTP clock from one unit to the next.
    unit_ticks: u64,
    fragments: Option<Fragments>,
}

impl AacAssembler {
    pub(super) fn new(layout: Layout, frames: Frames, clock_hz: u32) -> AacAssembler {
        let ticks = u64::from(adts::SAMPLES_PER_BLOCK).saturating_mul(clock_hz.into());
        let unit_ticks = ticks.checked_div(frames.rate_hz.into()).unwrap_or(0);
        AacAssembler { layout, frames, unit_ticks, fragments: None }
    }

    pub(super) fn push(&mut self, piece: &Piece<'_>, out: &mut Collected) {
        if piece.is_after_loss && self.fragments.take().is_some() {
            out.damage();
        }
        if !piece.payload.is_empty() && self.take_payload(piece, out).is_none() {
            self.fragments = None;
            out.malform();
        }
    }

    fn take_payload(&mut self, piece: &Piece<'_>, out: &mut Collected) -> Option<()> {
        let (sizes, mut data) = self.sizes(piece.payload)?;
        if let [size] = sizes[..]
            && (size > data.len() || self.fragments.is_some())
        {
            return self.take_fragment(piece, size, data, out);
        }
        self.fragments = None;
        let mut timestamp = piece.timestamp;
        for size in sizes {
            let (unit, rest) = data.split_at_checked(size)?;
            if !unit.is_empty() {
                out.push_sound(Codec::Aac, self.frames.adts(unit)?, timestamp);
            }
            timestamp = timestamp.saturating_add(self.unit_ticks);
            data = rest;
        }
        Some(())
    }

    /// The sizes of the packet's units, and its bytes behind the headers.
    fn sizes<'a>(&self, payload: &'a [u8]) -> Option<(Vec<usize>, &'a [u8])> {
        let layout = &self.layout;
        if !layout.has_headers() {
            // Units of one size, or one unit that is the whole packet.
            let bytes = if layout.constant_bytes > 0 { layout.constant_bytes } else { payload.len() };
            let count = payload.len().checked_div(bytes)?.min(UNITS_MAX);
            return Some((vec![bytes; count.max(1)], payload));
        }
        let (length, rest) = payload.split_first_chunk::<2>()?;
        let header_bits = usize::from(u16::from_be_bytes(*length));
        let (headers, mut data) = rest.split_at_checked(header_bits.div_ceil(8))?;
        let mut bits = BitReader::new(headers);
        let padding = headers.len().saturating_mul(8).saturating_sub(header_bits);
        let mut sizes = Vec::new();
        while bits.left_bits() > padding && sizes.len() < UNITS_MAX {
            let is_first = sizes.is_empty();
            sizes.push(self.read_header(&mut bits, is_first)?);
        }
        if layout.auxiliary_size_bits > 0 {
            let mut bits = BitReader::new(data);
            let auxiliary_bits = usize::try_from(bits.bits(layout.auxiliary_size_bits)?).ok()?;
            let field_bits = usize::try_from(layout.auxiliary_size_bits).ok()?;
            data = data.get(field_bits.saturating_add(auxiliary_bits).div_ceil(8)..)?;
        }
        (!sizes.is_empty()).then_some((sizes, data))
    }

    fn read_header(&self, bits: &mut BitReader<'_>, is_first: bool) -> Option<usize> {
        let layout = &self.layout;
        let size = match layout.size_bits {
            0 => layout.constant_bytes,
            width => usize::try_from(bits.bits(width)?).ok()?,
        };
        let index_bits = if is_first { layout.index_bits } else { layout.index_delta_bits };
        if bits.bits(index_bits)? != 0 {
            // Interleaved units: `AAC-hbr` of live streams does not have these.
            return None;
        }
        for width in [layout.cts_delta_bits, layout.dts_delta_bits] {
            if width > 0 && bits.bit()? {
                bits.bits(width)?;
            }
        }
        if layout.has_random_access {
            bits.bit()?;
        }
        bits.bits(layout.stream_state_bits)?;
        Some(size)
    }

    fn take_fragment(
        &mut self,
        piece: &Piece<'_>,
        size: usize,
        data: &[u8],
        out: &mut Collected,
    ) -> Option<()> {
        if size > UNIT_BYTES_MAX {
            // What is announced is what would be held until it is there.
            return None;
        }
        let known = self.fragments.take_if(|known| known.timestamp == piece.timestamp && known.bytes == size);
        let has_begun = self.fragments.take().is_some();
        if has_begun {
            // Another unit begins where this one should go on.
            out.damage();
        }
        let mut fragments = match known {
            Some(known) => known,
            // What is behind a lost beginning has a stamp that no beginning had; it ends with the wrong length.
            None => Fragments { timestamp: piece.timestamp, bytes: size, data: Vec::new() },
        };
        fragments.data.extend_from_slice(data);
        if fragments.data.len() == size {
            out.push_sound(Codec::Aac, self.frames.adts(&fragments.data)?, piece.timestamp);
        } else if piece.marker || fragments.data.len() > size {
            out.damage();
        } else {
            self.fragments = Some(fragments);
        }
        Some(())
    }
}
