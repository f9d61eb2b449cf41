//! What a temporal unit says about itself, without decoding it.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use glassline_media::bitstream::av1::{FrameSyntax, Obu, ObuType, SequenceHeader, obus};
use glassline_media::bitstream::h264::BitReader;

/// What the header of a unit's frame says (AV1 specification §5.9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitDescription {
    /// Decoding can begin here: the frame is a key frame that is shown, and its sequence header stands in front of it.
    pub key: bool,
    /// The frame is shown.
    pub shown: bool,
    /// `refresh_frame_flags`: bit n says that slot n holds the frame afterwards.
    pub refresh: u8,
}

/// Describes the units of a stream, one after the other. It remembers the last sequence header, which stands in key units
/// alone and says which fields the headers of frames have.
#[derive(Clone, Debug, Default)]
pub struct Describer {
    syntax: Option<FrameSyntax>,
}

impl Describer {
    /// A describer that has seen no sequence header.
    pub const fn new() -> Describer {
        Describer { syntax: None }
    }

    /// Describes a unit of the low-overhead format (§5.2).
    ///
    /// `None` where it does not hold exactly one frame, or the frame's header cannot be read: it is cut off, there was no
    /// sequence header, the stream has a decoder model (§5.5.3), or a frame is shown again (`show_existing_frame`), of which
    /// only a decoder knows what it is. Takes time in proportion to the number of OBUs.
    pub fn describe(&mut self, unit: &[u8]) -> Option<UnitDescription> {
        let front = Front::of(unit).ok()?;
        let sequence = front.sequence.and_then(SequenceHeader::parse);
        self.syntax = sequence.as_ref().map(|sequence| sequence.frames).or(self.syntax);
        let header = FrameHeader::parse(front.frame, self.syntax?)?;
        let key = header.key && header.shown && sequence.is_some();
        Some(UnitDescription { key, shown: header.shown, refresh: header.refresh })
    }
}

/// Describes a unit by itself, as [`Describer::describe`] does with the first one of a stream: `None` for all but key units.
pub fn describe(unit: &[u8]) -> Option<UnitDescription> {
    Describer::new().describe(unit)
}

/// The parts of a unit that say what it is.
pub(super) struct Front<'a> {
    /// The payload of the last sequence header in front of the frame.
    pub(super) sequence: Option<&'a [u8]>,
    /// The payload of the frame, or of its header.
    pub(super) frame: &'a [u8],
}

impl<'a> Front<'a> {
    /// Of a unit of exactly one frame; else what is wrong.
    pub(super) fn of(unit: &'a [u8]) -> Result<Front<'a>, &'static str> {
        let (mut sequence, mut frame) = (None, None);
        for obu in obus(unit) {
            let Obu { payload, .. } = obu;
            match obu.kind() {
                ObuType::SequenceHeader if frame.is_some() => {
                    return Err("a sequence header behind its frame");
                }
                ObuType::SequenceHeader => sequence = Some(payload),
                ObuType::Frame | ObuType::FrameHeader if frame.is_some() => return Err("several frames"),
                ObuType::Frame | ObuType::FrameHeader => frame = Some(payload),
                ObuType::TileList => return Err("a list of tiles"),
                _ => {}
            }
        }
        Ok(Front { sequence, frame: frame.ok_or("no frame")? })
    }
}

/// The beginning of `uncompressed_header` (§5.9.2).
struct FrameHeader {
    key: bool,
    shown: bool,
    refresh: u8,
}

/// Frame types (§6.8.2).
const KEY: u32 = 0;
const INTRA_ONLY: u32 = 2;
const SWITCH: u32 = 3;

impl FrameHeader {
    fn parse(payload: &[u8], syntax: FrameSyntax) -> Option<FrameHeader> {
        if syntax.is_reduced {
            return Some(FrameHeader { key: true, shown: true, refresh: u8::MAX });
        }
        let mut reader = BitReader::new(payload);
        let is_shown_again = reader.bit()?;
        if is_shown_again {
            return None;
        }
        let kind = reader.bits(2)?;
        let shown = reader.bit()?;
        let (key, is_switch) = (kind == KEY, kind == SWITCH);
        let all = is_switch || key && shown;
        if key && all {
            return Some(FrameHeader { key, shown, refresh: u8::MAX });
        }
        if syntax.has_decoder_model {
            return None;
        }
        if !shown {
            // Whether it can be shown later.
            reader.bit()?;
        }
        let is_resilient = all || reader.bit()?;
        // Whether CDFs stay as they are.
        reader.bit()?;
        let is_screen = match syntax.screen_content {
            Some(always) => always,
            None => reader.bit()?,
        };
        if is_screen && syntax.integer_vectors.is_none() {
            reader.bit()?;
        }
        reader.bits(syntax.frame_id_bits)?;
        if !is_switch {
            // Whether it has a size of its own.
            reader.bit()?;
        }
        reader.bits(syntax.order_hint_bits)?;
        if !(key || kind == INTRA_ONLY || is_resilient) {
            // The reference that gives the CDFs.
            reader.bits(3)?;
        }
        let refresh = if all { u8::MAX } else { u8::try_from(reader.bits(8)?).ok()? };
        Some(FrameHeader { key, shown, refresh })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bits, the first one first.
    #[derive(Default)]
    struct Bits(Vec<bool>);

    impl Bits {
        fn put(&mut self, value: u32, count: u32) {
            self.0.extend((0..count).rev().map(|bit| value >> bit & 1 != 0));
        }

        fn bytes(&self) -> Vec<u8> {
            let byte =
                |bits: &[bool]| (0..8).fold(0, |byte, at| byte << 1 | u8::from(bits.get(at) == Some(&true)));
            self.0.chunks(8).map(byte).collect()
        }
    }

    /// The fields on which the beginning of a frame's header depends, and those that stand there.
    #[derive(Clone, Debug)]
    struct Fields {
        syntax: FrameSyntax,
        kind: u32,
        shown: bool,
        resilient: bool,
        screen: bool,
        refresh: u8,
        filler: u32,
    }

    fn fields() -> impl Strategy<Value = Fields> {
        let choice = || prop::option::of(any::<bool>());
        let syntax = (choice(), choice(), prop_oneof![Just(0), 3u32..16], 0u32..=8).prop_map(
            |(screen_content, integer_vectors, frame_id_bits, order_hint_bits)| FrameSyntax {
                is_reduced: false,
                has_decoder_model: false,
                frame_id_bits,
                screen_content,
                integer_vectors,
                order_hint_bits,
            },
        );
        (syntax, 0u32..4, any::<[bool; 3]>(), any::<u8>(), any::<u32>()).prop_map(
            |(syntax, kind, [shown, resilient, screen], refresh, filler)| Fields {
                syntax,
                kind,
                shown,
                resilient,
                screen,
                refresh,
                filler,
            },
        )
    }

    /// Writes `uncompressed_header` (§5.9.2) as far as `refresh_frame_flags`.
    fn header(fields: &Fields) -> Vec<u8> {
        let Fields { syntax, kind, shown, resilient, screen, refresh, filler } = *fields;
        let mut bits = Bits::default();
        bits.put(0, 1);
        bits.put(kind, 2);
        bits.put(shown.into(), 1);
        if !shown {
            bits.put(filler & 1, 1);
        }
        let all = kind == SWITCH || kind == KEY && shown;
        if !all {
            bits.put(resilient.into(), 1);
        }
        bits.put(filler >> 1 & 1, 1);
        if syntax.screen_content.is_none() {
            bits.put(screen.into(), 1);
        }
        if syntax.screen_content.unwrap_or(screen) && syntax.integer_vectors.is_none() {
            bits.put(filler >> 2 & 1, 1);
        }
        bits.put(filler, syntax.frame_id_bits);
        if kind != SWITCH {
            bits.put(filler >> 3 & 1, 1);
        }
        bits.put(filler, syntax.order_hint_bits);
        if !(kind == KEY || kind == INTRA_ONLY || resilient || all) {
            bits.put(filler >> 4, 3);
        }
        if !all {
            bits.put(refresh.into(), 8);
        }
        bits.bytes()
    }

    /// A unit of parts with these types and payloads.
    fn unit(parts: &[(u8, &[u8])]) -> Vec<u8> {
        let mut unit = Vec::new();
        for (kind, payload) in parts {
            unit.extend([kind << 3 | 2, u8::try_from(payload.len()).unwrap()]);
            unit.extend_from_slice(payload);
        }
        unit
    }

    /// A sequence header that leaves all to frames, with order hints of 7 bits.
    const SEQUENCE: &[u8] = &[0x00, 0x00, 0x00, 0x04, 0x3c, 0xfe, 0xcc, 0xfb, 0xf9, 0x00, 0x40];

    #[test]
    fn units_are_described() {
        let mut describer = Describer::new();
        let inter = unit(&[(2, &[]), (6, &[0x30, 0x02, 0x00, 0x12, 0x00])]);
        assert_eq!(describer.describe(&inter), None, "there was no sequence header");
        let key = unit(&[(2, &[]), (1, SEQUENCE), (6, &[0x10])]);
        let described = UnitDescription { key: true, shown: true, refresh: 255 };
        assert_eq!((describer.describe(&key), describe(&key)), (Some(described), Some(described)));
        assert!(describer.describe(&inter).is_some_and(|unit| !unit.key && unit.shown));
        let without = unit(&[(2, &[]), (6, &[0x10])]);
        assert_eq!(describer.describe(&without), Some(UnitDescription { key: false, ..described }));
        for wrong in [
            &[][..],
            &unit(&[(2, &[]), (1, SEQUENCE)]),
            &unit(&[(2, &[]), (6, &[0x10]), (6, &[0x10])]),
            &unit(&[(6, &[0x10]), (1, SEQUENCE)]),
            &unit(&[(2, &[]), (3, &[0x90])]),
            &key[..key.len() - 1],
        ] {
            assert_eq!(describer.describe(wrong), None, "{wrong:02x?}");
        }
    }

    proptest! {
        #[test]
        fn headers_are_read_as_they_were_written(fields in fields(), more in any::<[u8; 4]>()) {
            let written = [&header(&fields)[..], &more].concat();
            let read = FrameHeader::parse(&written, fields.syntax).unwrap();
            let key = fields.kind == KEY;
            let all = fields.kind == SWITCH || key && fields.shown;
            let refresh = if all { 255 } else { fields.refresh };
            prop_assert_eq!((read.key, read.shown, read.refresh), (key, fields.shown, refresh));
            // Whatever is cut off is not read.
            let bytes = header(&fields).len();
            if !all {
                prop_assert!(FrameHeader::parse(&written[..bytes - 1], fields.syntax).is_none());
            }
        }

        #[test]
        fn any_bytes_are_described_or_not(units in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..6)) {
            let mut describer = Describer::new();
            for unit in units {
                let alone = describe(&unit);
                let described = describer.describe(&unit);
                prop_assert!(alone.is_none() || alone == described);
            }
        }

        #[test]
        fn any_frames_are_described_or_not(front in prop::collection::vec(any::<u8>(), 0..20), frame in prop::collection::vec(any::<u8>(), 0..20)) {
            let mut describer = Describer::new();
            let _ = describer.describe(&unit(&[(2, &[]), (1, &front), (6, &frame)]));
            let _ = describer.describe(&unit(&[(2, &[]), (3, &frame), (4, &front)]));
        }
    }
}
