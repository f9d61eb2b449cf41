//! The program configuration element of AAC (ISO/IEC 14496-3 §4.4.1.1, table 4.2): which channels there are where their number in
//! a header is 0, as with "5.1(side)" and 2.1.
//!
//! ```text
//! in a frame       101 │ fields │ to the next byte │ length:8, a comment │ coded channels
//! in MP4      16 bits, │ fields │ to the next byte │ length:8, a comment
//! ```
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::h264::BitReader;

/// Of the elements of a frame, the one that is this.
const ID: u32 = 5;
const ID_BITS: usize = 3;
/// Channels that are taken.
const CHANNELS_MAX: u32 = 8;

/// Which channels there are. A comment is not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramConfig {
    /// The fields from `element_instance_tag` on, up to the comment.
    bits: Vec<bool>,
    /// Channels, 1 to 8.
    pub channels: u8,
}

impl ProgramConfig {
    /// Reads the element that a frame without header begins with. Returns its bytes there, too. `None` where the frame begins with
    /// another one, and of more than eight channels.
    pub fn of_frame(frame: &[u8]) -> Option<(ProgramConfig, usize)> {
        let mut bits = BitReader::new(frame);
        if bits.bits(3)? != ID {
            return None;
        }
        let found = ProgramConfig::parse(&mut bits)?;
        let fields = found.bits.len().saturating_add(ID_BITS).div_ceil(8);
        let comment = usize::from(*frame.get(fields)?);
        let bytes = fields.checked_add(1)?.checked_add(comment)?;
        (bytes <= frame.len()).then_some((found, bytes))
    }

    /// Reads the fields where they begin in an `AudioSpecificConfig` (14496-3 §4.4.1).
    pub fn parse(bits: &mut BitReader<'_>) -> Option<ProgramConfig> {
        let mut fields = Copied { bits, copied: Vec::new() };
        // element_instance_tag, object_type, sampling_frequency_index.
        fields.take(10)?;
        let groups = [fields.take(4)?, fields.take(4)?, fields.take(4)?];
        let low_frequencies = fields.take(2)?;
        let (associated, coupling) = (fields.take(3)?, fields.take(4)?);
        // How it is mixed down: to one channel, to two, by a matrix.
        for bits in [4, 4, 3] {
            if fields.take(1)? == 1 {
                fields.take(bits)?;
            }
        }
        let mut channels = low_frequencies;
        for _ in 0..groups.into_iter().fold(0, u32::saturating_add) {
            // One channel, or two; and their element's tag.
            channels = channels.saturating_add(1).saturating_add(fields.take(1)?);
            fields.take(4)?;
        }
        for _ in 0..low_frequencies.saturating_add(associated) {
            fields.take(4)?;
        }
        for _ in 0..coupling {
            fields.take(5)?;
        }
        let channels = u8::try_from(channels).ok().filter(|_| (1..=CHANNELS_MAX).contains(&channels))?;
        Some(ProgramConfig { bits: fields.copied, channels })
    }

    /// Appends the element as a frame begins with it.
    pub fn write_element(&self, out: &mut Vec<u8>) {
        write([true, false, true].iter().chain(&self.bits), out);
    }

    /// The fields as an `AudioSpecificConfig` has them, up to the bits that fill the byte in front of the comment.
    pub(super) fn fields(&self) -> &[bool] {
        &self.bits
    }
}

/// Bits that are read and kept.
struct Copied<'a, 'b> {
    bits: &'a mut BitReader<'b>,
    copied: Vec<bool>,
}

impl Copied<'_, '_> {
    fn take(&mut self, count: usize) -> Option<u32> {
        let mut value = 0;
        for _ in 0..count {
            let bit = self.bits.bit()?;
            self.copied.push(bit);
            value = value << 1 | u32::from(bit);
        }
        Some(value)
    }
}

/// Bits, zeros up to the next byte, and no comment.
fn write<'a>(bits: impl Iterator<Item = &'a bool>, out: &mut Vec<u8>) {
    let (mut byte, mut count) = (0u8, 0u32);
    for bit in bits {
        byte = byte << 1 | u8::from(*bit);
        count = count.saturating_add(1);
        if count == 8 {
            out.push(byte);
            (byte, count) = (0, 0);
        }
    }
    if count > 0 {
        out.push(byte << 8u32.saturating_sub(count));
    }
    out.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// FFmpeg's for 5.1(side), with a comment of 13 bytes.
    const SIDE: [u8; 22] = *b"\xa0\x99\x08\x80\x04\x00\x18\x80\x0dLavc59.37.100";

    #[test]
    fn channels_are_counted_and_the_coded_ones_found() {
        let (found, bytes) = ProgramConfig::of_frame(&[&SIDE[..], &[1, 2, 3]].concat()).unwrap();
        assert_eq!((found.channels, bytes), (6, 22));
        // Without the comment, and the same again.
        let mut element = Vec::new();
        found.write_element(&mut element);
        assert_eq!(element, [&SIDE[..8], &[0]].concat());
        assert_eq!(ProgramConfig::of_frame(&element), Some((found.clone(), 9)));
        // A pair of channels; an element that is cut off.
        assert_eq!(ProgramConfig::of_frame(&[0x21, 0x10, 0x05]), None);
        assert!((0..SIDE.len() - 1).all(|bytes| ProgramConfig::of_frame(&SIDE[..bytes]).is_none()));
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_alike(mut frame in proptest::collection::vec(any::<u8>(), 0..400), is_element in any::<bool>()) {
            if let Some(first) = frame.first_mut().filter(|_| is_element) {
                *first = 0xa0 | *first & 0x1f;
            }
            if let Some((found, bytes)) = ProgramConfig::of_frame(&frame) {
                prop_assert!(bytes <= frame.len() && (1..=8).contains(&found.channels));
                let mut element = Vec::new();
                found.write_element(&mut element);
                // Fields, padding and the length of the comment.
                prop_assert!(element.len() <= 64);
                prop_assert_eq!(ProgramConfig::of_frame(&element), Some((found, element.len())));
            }
        }
    }
}
