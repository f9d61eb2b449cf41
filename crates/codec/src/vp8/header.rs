//! The frame header (RFC 6386 §9 and §19.2): three or ten bytes in clear, then fields in the first partition.
//!
//! ```text
//! byte 0..3   frame_type:1 (0 is a key frame)  version:3  show_frame:1  first_part_size:19   little endian
//! byte 3..6   9d 01 2a                                                                       key frames only
//! byte 6..10  width:14 horizontal_scale:2  height:14 vertical_scale:2                        key frames only
//! then        first partition: header fields, then modes and motion vectors
//! then        sizes of all token partitions but the last, 3 bytes each, and the token partitions
//! ```

use super::bool_coder::BoolDecoder;
use super::error::Error;
use super::state::{Filter, Probabilities, Segmentation};
use super::tables::{coefficients, modes};

/// The clear bytes at the front of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameTag {
    /// Of a key frame, what only key frames say.
    pub key: Option<KeyTag>,
    /// Bitstream version, 0 to 3: which sub-pixel filter predicts.
    pub version: u8,
    /// Whether the picture is meant to be seen.
    pub shown: bool,
    /// Bytes of the first partition.
    pub first_partition_bytes: usize,
}

/// Size and scaling, as key frames carry them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyTag {
    /// Luma samples a line, 1 to 16,383.
    pub width: u16,
    /// Lines, 1 to 16,383.
    pub height: u16,
    /// By how much the picture is widened for display: 0 not at all, 1 by 5/4, 2 by 5/3, 3 by 2. Decoding ignores it.
    pub horizontal_scale: u8,
    /// The same for its height.
    pub vertical_scale: u8,
}

impl FrameTag {
    /// Bytes in front of the first partition.
    pub const fn bytes(&self) -> usize {
        if self.key.is_some() { 10 } else { 3 }
    }

    /// Reads the clear bytes of a frame: a cheap way to learn its size and type.
    ///
    /// # Errors
    /// `Short`, `StartCode`, `Version` or `Size`.
    pub fn parse(frame: &[u8]) -> Result<FrameTag, Error> {
        let &[a, b, c, ref rest @ ..] = frame else {
            return Err(Error::Short { found: frame.len(), expected: 3 });
        };
        let version = a >> 1 & 7;
        if version > 3 {
            return Err(Error::Version { found: version });
        }
        let key = if a & 1 == 0 { Some(KeyTag::parse(rest)?) } else { None };
        let first_partition_bytes = (usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16) >> 5;
        Ok(FrameTag { key, version, shown: a & 0x10 != 0, first_partition_bytes })
    }
}

impl KeyTag {
    fn parse(rest: &[u8]) -> Result<KeyTag, Error> {
        let &[a, b, c, width, wide, height, high, ..] = rest else {
            return Err(Error::Short { found: rest.len() + 3, expected: 10 });
        };
        if [a, b, c] != [0x9d, 0x01, 0x2a] {
            return Err(Error::StartCode { found: [a, b, c] });
        }
        let (across, down) = (u16::from_le_bytes([width, wide]), u16::from_le_bytes([height, high]));
        let tag = KeyTag {
            width: across & 0x3fff,
            height: down & 0x3fff,
            horizontal_scale: (across >> 14) as u8,
            vertical_scale: (down >> 14) as u8,
        };
        if tag.width == 0 || tag.height == 0 {
            return Err(Error::Size { width: tag.width, height: tag.height });
        }
        Ok(tag)
    }
}

/// Where a reference frame's next content comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Update {
    /// It stays.
    Keep,
    /// The frame that is being decoded.
    Current,
    /// The last frame, as it was before this one.
    Last,
    /// The other of golden and altref.
    Other,
}

/// The fields of the first partition that hold for this frame alone; what lives longer goes into the state's parts.
#[derive(Clone, Debug)]
pub(crate) struct FrameHeader {
    pub(crate) key: bool,
    pub(crate) version: u8,
    pub(crate) update_segment_map: bool,
    pub(crate) segment_probs: [u8; 3],
    pub(crate) simple_filter: bool,
    pub(crate) filter_level: u8,
    pub(crate) sharpness: u8,
    pub(crate) token_partitions: usize,
    pub(crate) quantizer: Quantizer,
    pub(crate) golden: Update,
    pub(crate) altref: Update,
    pub(crate) refresh_last: bool,
    /// The probability that a macroblock has coefficients, where that is said at all.
    pub(crate) skip_prob: Option<u8>,
    pub(crate) intra_prob: u8,
    pub(crate) last_prob: u8,
    pub(crate) golden_prob: u8,
}

/// Quantiser indices of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quantizer {
    /// Index for the AC coefficients of luma, 0 to 127; the others are offsets to it.
    pub(crate) index: u8,
    pub(crate) y_dc: i8,
    pub(crate) y2_dc: i8,
    pub(crate) y2_ac: i8,
    pub(crate) uv_dc: i8,
    pub(crate) uv_ac: i8,
}

/// What a frame's header changes for the frames behind it.
#[derive(Clone, Debug)]
pub(crate) struct Lasting {
    pub(crate) segmentation: Segmentation,
    pub(crate) filter: Filter,
    /// What this frame decodes with.
    pub(crate) probs: Probabilities,
    /// What the next frame starts from.
    pub(crate) next_probs: Option<Probabilities>,
    /// Whether vectors into golden and altref point the other way in time.
    pub(crate) sign_bias: [bool; 2],
    /// `color_space` bit.
    pub(crate) colour_space: bool,
    /// `clamping_type` bit: the encoder promises that no sample needs clamping. We clamp all the same.
    pub(crate) clamping_unneeded: bool,
}

impl Lasting {
    /// What a key frame starts from.
    pub(crate) fn at_key_frame() -> Lasting {
        Lasting {
            segmentation: Segmentation::default(),
            filter: Filter::default(),
            probs: Probabilities::default(),
            next_probs: None,
            sign_bias: [false; 2],
            colour_space: false,
            clamping_unneeded: false,
        }
    }

    /// Reads the header fields from the first partition, up to where the macroblocks begin.
    pub(crate) fn parse(&mut self, tag: &FrameTag, decoder: &mut BoolDecoder<'_>) -> FrameHeader {
        let key = tag.key.is_some();
        if key {
            self.colour_space = decoder.bit();
            self.clamping_unneeded = decoder.bit();
        }
        let (update_segment_map, segment_probs) = self.parse_segmentation(decoder);
        let simple_filter = decoder.bit();
        let filter_level = decoder.literal(6) as u8;
        let sharpness = decoder.literal(3) as u8;
        self.parse_filter_deltas(decoder);
        let token_partitions = 1 << decoder.literal(2);
        let quantizer = Quantizer::parse(decoder);
        let (mut golden, mut altref) = (Update::Current, Update::Current);
        if !key {
            let (refresh_golden, refresh_altref) = (decoder.bit(), decoder.bit());
            golden = if refresh_golden { Update::Current } else { Update::parse_copy(decoder) };
            altref = if refresh_altref { Update::Current } else { Update::parse_copy(decoder) };
            self.sign_bias = [decoder.bit(), decoder.bit()];
        }
        let refresh_probs = decoder.bit();
        self.next_probs = if refresh_probs { None } else { Some(self.probs.clone()) };
        let refresh_last = key || decoder.bit();
        self.parse_coefficient_probs(decoder);
        let skip_prob = if decoder.bit() { Some(decoder.literal(8) as u8) } else { None };
        let [mut intra_prob, mut last_prob, mut golden_prob] = [0; 3];
        if !key {
            intra_prob = decoder.literal(8) as u8;
            last_prob = decoder.literal(8) as u8;
            golden_prob = decoder.literal(8) as u8;
            self.parse_mode_probs(decoder);
        }
        FrameHeader {
            key,
            version: tag.version,
            update_segment_map,
            segment_probs,
            simple_filter,
            filter_level,
            sharpness,
            token_partitions,
            quantizer,
            golden,
            altref,
            refresh_last,
            skip_prob,
            intra_prob,
            last_prob,
            golden_prob,
        }
    }

    fn parse_segmentation(&mut self, decoder: &mut BoolDecoder<'_>) -> (bool, [u8; 3]) {
        let mut probs = [255; 3];
        self.segmentation.enabled = decoder.bit();
        if !self.segmentation.enabled {
            return (false, probs);
        }
        let (update_map, update_data) = (decoder.bit(), decoder.bit());
        if update_data {
            self.segmentation.absolute = decoder.bit();
            // What is not mentioned becomes zero.
            self.segmentation.quantizer = [(); 4].map(|()| decoder.optional_signed(7).unwrap_or(0));
            self.segmentation.filter_level = [(); 4].map(|()| decoder.optional_signed(6).unwrap_or(0));
        }
        if update_map {
            probs = probs.map(|keep| if decoder.bit() { decoder.literal(8) as u8 } else { keep });
        }
        (update_map, probs)
    }

    fn parse_filter_deltas(&mut self, decoder: &mut BoolDecoder<'_>) {
        self.filter.deltas_enabled = decoder.bit();
        if !self.filter.deltas_enabled || !decoder.bit() {
            return;
        }
        for delta in self.filter.reference.iter_mut().chain(&mut self.filter.mode) {
            if let Some(value) = decoder.optional_signed(6) {
                *delta = value;
            }
        }
    }

    fn parse_coefficient_probs(&mut self, decoder: &mut BoolDecoder<'_>) {
        let probs = self.probs.coefficients.as_flattened_mut().as_flattened_mut().as_flattened_mut();
        let updates = coefficients::UPDATE.as_flattened().as_flattened().as_flattened();
        for (prob, &update) in probs.iter_mut().zip(updates) {
            if decoder.bool(update) {
                *prob = decoder.literal(8) as u8;
            }
        }
    }

    fn parse_mode_probs(&mut self, decoder: &mut BoolDecoder<'_>) {
        if decoder.bit() {
            self.probs.y_mode = [(); 4].map(|()| decoder.literal(8) as u8);
        }
        if decoder.bit() {
            self.probs.uv_mode = [(); 3].map(|()| decoder.literal(8) as u8);
        }
        let updates = modes::UPDATE_VECTOR.as_flattened();
        for (prob, &update) in self.probs.vector.as_flattened_mut().iter_mut().zip(updates) {
            if decoder.bool(update) {
                let value = decoder.literal(7) as u8;
                *prob = if value == 0 { 1 } else { value << 1 };
            }
        }
    }
}

impl Update {
    fn parse_copy(decoder: &mut BoolDecoder<'_>) -> Update {
        match decoder.literal(2) {
            1 => Update::Last,
            2 => Update::Other,
            // 3 is not defined.
            _ => Update::Keep,
        }
    }
}

impl Quantizer {
    fn parse(decoder: &mut BoolDecoder<'_>) -> Quantizer {
        let index = decoder.literal(7) as u8;
        let mut offset = || decoder.optional_signed(4).unwrap_or(0);
        Quantizer {
            index,
            y_dc: offset(),
            y2_dc: offset(),
            y2_ac: offset(),
            uv_dc: offset(),
            uv_ac: offset(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clear_bytes_are_read() {
        let frame = [0x50, 0x01, 0x00, 0x9d, 0x01, 0x2a, 0xb0, 0x40, 0x90, 0xc0];
        let tag = FrameTag::parse(&frame).unwrap();
        assert_eq!(tag.first_partition_bytes, 10);
        assert!(tag.shown);
        assert_eq!(tag.bytes(), 10);
        let key = KeyTag { width: 176, height: 144, horizontal_scale: 1, vertical_scale: 3 };
        assert_eq!(tag.key, Some(key));
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        assert_eq!(FrameTag::parse(&[1, 0]), Err(Error::Short { found: 2, expected: 3 }));
        assert_eq!(FrameTag::parse(&[0x10, 0, 0, 0x9d]), Err(Error::Short { found: 4, expected: 10 }));
        assert_eq!(FrameTag::parse(&[0x19, 0, 0]), Err(Error::Version { found: 4 }));
        let no_start = FrameTag::parse(&[0x10, 0, 0, 1, 2, 3, 4, 0, 5, 0]);
        assert_eq!(no_start, Err(Error::StartCode { found: [1, 2, 3] }));
        let no_width = FrameTag::parse(&[0x10, 0, 0, 0x9d, 1, 0x2a, 0, 0, 5, 0]);
        assert_eq!(no_width, Err(Error::Size { width: 0, height: 5 }));
    }
}
