//! H.265 (ITU-T H.265, ISO/IEC 23008-2) as far as packaging it needs: kinds of NAL units, the sequence parameter set.
//! No picture is decoded.
//!
//! ```text
//! 0 type:6 layer:6 temporal:3 │ payload, emulation prevention as in H.264
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

use super::h264::sps::{Fields, read_appearance, shortened_rate};
use super::h264::{BitReader, ColourDescription, Error, find_start_code, unescape};
use crate::time::FrameRate;
use std::fmt::Write as _;

/// Longer parameter sets than this do not occur; what follows is not read.
const SPS_MAX_BYTES: usize = 4096;
/// Pictures larger than this in either direction are refused (level 6.2 allows 16,888).
const SIZE_MAX_PX: u32 = 16_888;
/// `num_short_term_ref_pic_sets` and what they hold at most (§7.4.3.2.1, §7.4.8).
const REFERENCE_SETS_MAX: u32 = 64;
const REFERENCES_MAX: u32 = 16;

/// An access unit delimiter that allows any kind of slice (§7.3.2.5), with its start code.
pub const ACCESS_UNIT_DELIMITER: [u8; 7] = [0, 0, 0, 1, 0x46, 0x01, 0x50];

/// Bytes of a NAL unit's header.
pub(super) const HEADER_BYTES: usize = 2;
/// The first byte of the header of messages before a picture.
pub(super) const PREFIX_SEI: u8 = 39 << 1;

/// What a NAL unit holds (H.265 table 7-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NalType {
    /// 0 to 15: a slice of a picture that decoding cannot begin at.
    Slice,
    /// 16 to 23: a slice of a picture that decoding can begin at (IRAP: BLA, IDR, CRA).
    RandomAccess,
    /// 32: video parameter set.
    Vps,
    /// 33: sequence parameter set.
    Sps,
    /// 34: picture parameter set.
    Pps,
    /// 35: access unit delimiter.
    AccessUnitDelimiter,
    /// 38: filler data.
    Filler,
    /// 39: supplemental messages before the picture.
    PrefixSei,
    /// Any other, by its number.
    Other(u8),
}

impl NalType {
    /// The type in a NAL unit's first byte.
    pub const fn of(header: u8) -> NalType {
        match header >> 1 & 0x3f {
            0..=15 => NalType::Slice,
            16..=23 => NalType::RandomAccess,
            32 => NalType::Vps,
            33 => NalType::Sps,
            34 => NalType::Pps,
            35 => NalType::AccessUnitDelimiter,
            38 => NalType::Filler,
            39 => NalType::PrefixSei,
            other => NalType::Other(other),
        }
    }

    /// Whether it is a slice.
    pub const fn is_slice(self) -> bool {
        matches!(self, NalType::Slice | NalType::RandomAccess)
    }

    /// Whether it is a video, sequence or picture parameter set.
    pub const fn is_parameter_set(self) -> bool {
        matches!(self, NalType::Vps | NalType::Sps | NalType::Pps)
    }
}

/// Whether decoding can begin at an access unit: its first slice is an IRAP picture's. Looks at no byte behind that slice's
/// header.
pub fn is_key(access_unit: &[u8]) -> bool {
    let mut from = 0;
    while let Some(at) = find_start_code(access_unit, from) {
        from = at.saturating_add(3);
        match access_unit.get(from).map(|&header| NalType::of(header)) {
            Some(NalType::RandomAccess) => return true,
            Some(NalType::Slice) | None => return false,
            _ => {}
        }
    }
    false
}

/// Profile, tier and level (§7.3.3), of all layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// `general_profile_space`, 0 to 3.
    pub space: u8,
    /// `general_tier_flag`.
    pub high_tier: bool,
    /// `general_profile_idc`, 0 to 31.
    pub profile: u8,
    /// `general_profile_compatibility_flag`, the first as the highest bit.
    pub compatibility: u32,
    /// The constraint flags behind it, 48 bits.
    pub constraints: [u8; 6],
    /// `general_level_idc`: 30 times the level's number.
    pub level: u8,
}

/// What a sequence parameter set says about its pictures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sps {
    /// Profile, tier and level.
    pub profile: Profile,
    /// Temporal layers, 1 to 7.
    pub temporal_layers: u8,
    /// `sps_temporal_id_nesting_flag`.
    pub temporal_nesting: bool,
    /// 0 is monochrome, 1 is 4:2:0, 2 is 4:2:2, 3 is 4:4:4.
    pub chroma_format: u8,
    /// Bits of a luma sample.
    pub bit_depth: u8,
    /// Bits of a chroma sample.
    pub chroma_bit_depth: u8,
    /// Width after cropping, pixels.
    pub width_px: u32,
    /// Height after cropping, pixels.
    pub height_px: u32,
    /// Shape of a pixel, width to height, where it is said.
    pub sample_aspect: Option<(u16, u16)>,
    /// Pictures a second, where they are said.
    pub frame_rate: Option<FrameRate>,
    /// Colour, where it is said.
    pub colour: Option<ColourDescription>,
    /// `sps_max_num_reorder_pics` of the highest sub-layer: how many pictures may come before one that is shown earlier.
    pub reorder_pictures: Option<u8>,
}

impl Sps {
    /// Parses a NAL unit of type [`NalType::Sps`] with its header, emulation prevention still in.
    ///
    /// # Errors
    /// [`Error::Truncated`] where it ends too early, [`Error::OutOfRange`] where a value is beyond what the
    /// standard allows. Usability information that is cut off is left out, as decoders do.
    pub fn parse(nal: &[u8]) -> Result<Sps, Error> {
        let mut rbsp = Vec::new();
        unescape(nal.get(2..).unwrap_or_default(), SPS_MAX_BYTES, &mut rbsp);
        let [first, head @ ..] = &rbsp[..] else { return Err(Error::Truncated { what: "SPS" }) };
        let temporal_layers = (first >> 1 & 7).saturating_add(1);
        let profile = Profile::parse(head).ok_or(Error::Truncated { what: "profile_tier_level" })?;
        let mut reader = Fields(BitReader::new(head.get(PROFILE_BYTES..).unwrap_or_default()));
        skip_sub_layers(&mut reader.0, temporal_layers).ok_or(Error::Truncated { what: "sub-layers" })?;
        reader.ue("sps_seq_parameter_set_id", 15)?;
        let chroma_format = reader.byte("chroma_format_idc", 3)?;
        let separate_planes = chroma_format == 3 && reader.flag()?;
        let coded_width = reader.ue("pic_width_in_luma_samples", SIZE_MAX_PX)?;
        let coded_height = reader.ue("pic_height_in_luma_samples", SIZE_MAX_PX)?;
        let (crop_x, crop_y) = parse_window(&mut reader, if separate_planes { 0 } else { chroma_format })?;
        let bit_depth = reader.byte("bit_depth_luma_minus8", 8)?.saturating_add(8);
        let chroma_bit_depth = reader.byte("bit_depth_chroma_minus8", 8)?.saturating_add(8);
        let remaining = |what, size: u32, cut: u32| match size.checked_sub(cut) {
            Some(left @ 1..) => Ok(left),
            _ => Err(Error::OutOfRange { what, found: cut, limit: size.saturating_sub(1) }),
        };
        let mut sps = Sps {
            profile,
            temporal_layers,
            temporal_nesting: first & 1 != 0,
            chroma_format,
            bit_depth,
            chroma_bit_depth,
            width_px: remaining("conformance window", coded_width, crop_x)?,
            height_px: remaining("conformance window", coded_height, crop_y)?,
            sample_aspect: None,
            frame_rate: None,
            colour: None,
            reorder_pictures: None,
        };
        // What was read before a cut stays.
        let _ = sps.parse_rest(&mut reader.0);
        Ok(sps)
    }

    /// The name of the format (ISO/IEC 14496-15 §E.3): `hvc1.1.6.L93.B0`.
    pub fn codec_string(&self) -> String {
        let Profile { space, high_tier, profile, compatibility, constraints, level } = self.profile;
        let space = ["", "A", "B", "C"].get(usize::from(space)).copied().unwrap_or_default();
        let tier = if high_tier { 'H' } else { 'L' };
        let mut name = format!("hvc1.{space}{profile}.{:X}.{tier}{level}", compatibility.reverse_bits());
        let said = constraints.iter().rposition(|&byte| byte != 0).map_or(0, |last| last.saturating_add(1));
        for byte in constraints.iter().take(said) {
            let _ = write!(name, ".{byte:X}");
        }
        name
    }

    fn parse_rest(&mut self, reader: &mut BitReader<'_>) -> Option<()> {
        let order_bits = reader.ue_up_to(12)?.saturating_add(4);
        let layers = if reader.bit()? { self.temporal_layers } else { 1 };
        for _ in 0..layers {
            reader.ue()?;
            self.reorder_pictures = u8::try_from(reader.ue_up_to(15)?).ok();
            reader.ue()?;
        }
        // Sizes of coding and transform blocks, and how deep transforms divide.
        for _ in 0..6 {
            reader.ue()?;
        }
        if reader.bit()? && reader.bit()? {
            skip_scaling_lists(reader)?;
        }
        reader.bits(2)?;
        if reader.bit()? {
            // PCM: bit depths, block sizes, loop filter.
            reader.bits(8)?;
            reader.ue()?;
            reader.ue()?;
            reader.bit()?;
        }
        let sets = reader.ue_up_to(REFERENCE_SETS_MAX)?;
        let mut references = 0;
        for index in 0..sets {
            references = skip_reference_set(reader, index, references)?;
        }
        if reader.bit()? {
            for _ in 0..reader.ue_up_to(32)? {
                reader.bits(order_bits)?;
                reader.bit()?;
            }
        }
        reader.bits(2)?;
        if reader.bit()? {
            self.parse_usability(reader)?;
        }
        Some(())
    }

    /// §E.2.1, up to the times of pictures.
    fn parse_usability(&mut self, reader: &mut BitReader<'_>) -> Option<()> {
        read_appearance(reader, &mut self.sample_aspect, &mut self.colour)?;
        reader.bit()?;
        let is_fields = reader.bit()?;
        reader.bit()?;
        if reader.bit()? {
            for _ in 0..4 {
                reader.ue()?;
            }
        }
        if reader.bit()? {
            let (tick_units, time_scale) = (reader.bits(32)?, reader.bits(32)?);
            let pictures = if is_fields { 2 } else { 1 };
            self.frame_rate =
                shortened_rate(time_scale.into(), u64::from(tick_units).saturating_mul(pictures));
        }
        Some(())
    }
}

/// Bytes of the general part of `profile_tier_level`.
const PROFILE_BYTES: usize = 12;

impl Profile {
    fn parse(bytes: &[u8]) -> Option<Profile> {
        let &[first, a, b, c, d, p, q, r, s, t, u, level] = bytes.first_chunk::<PROFILE_BYTES>()?;
        Some(Profile {
            space: first >> 6,
            high_tier: first & 0x20 != 0,
            profile: first & 0x1f,
            compatibility: u32::from_be_bytes([a, b, c, d]),
            constraints: [p, q, r, s, t, u],
            level,
        })
    }

    /// As `hvcC` and parameter sets have it.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(self.space << 6 | u8::from(self.high_tier) << 5 | self.profile & 0x1f);
        out.extend_from_slice(&self.compatibility.to_be_bytes());
        out.extend_from_slice(&self.constraints);
        out.push(self.level);
    }
}

/// Profiles and levels of the lower temporal layers (§7.3.3).
fn skip_sub_layers(reader: &mut BitReader<'_>, temporal_layers: u8) -> Option<()> {
    let lower = temporal_layers.saturating_sub(1);
    if lower == 0 {
        return Some(());
    }
    let mut present = [(false, false); 8];
    for flags in &mut present {
        *flags = (reader.bit()?, reader.bit()?);
    }
    for &(profile, level) in present.iter().take(lower.into()) {
        if profile {
            for _ in 0..11 {
                reader.bits(8)?;
            }
        }
        if level {
            reader.bits(8)?;
        }
    }
    Some(())
}

/// What the conformance window cuts off in each direction, pixels.
fn parse_window(reader: &mut Fields<'_>, chroma_format: u8) -> Result<(u32, u32), Error> {
    if !reader.flag()? {
        return Ok((0, 0));
    }
    let mut edges = [0; 4];
    for edge in &mut edges {
        *edge = reader.ue("conf_win_offset", SIZE_MAX_PX)?;
    }
    let [left, right, top, bottom] = edges;
    let unit_x = if matches!(chroma_format, 1 | 2) { 2 } else { 1 };
    let unit_y = if chroma_format == 1 { 2 } else { 1 };
    let cut = |before: u32, behind: u32, unit| before.saturating_add(behind).saturating_mul(unit);
    Ok((cut(left, right, unit_x), cut(top, bottom, unit_y)))
}

/// `scaling_list_data` (§7.3.4).
fn skip_scaling_lists(reader: &mut BitReader<'_>) -> Option<()> {
    for size in 0u32..4 {
        for _ in 0..(if size == 3 { 2 } else { 6 }) {
            if !reader.bit()? {
                reader.ue()?;
                continue;
            }
            let coefficients = if size == 0 { 16 } else { 64 };
            if size > 1 {
                reader.se()?;
            }
            for _ in 0..coefficients {
                reader.se()?;
            }
        }
    }
    Some(())
}

/// `st_ref_pic_set(index)` inside a sequence parameter set (§7.3.7). `before` is how many pictures the set before it names; returns
/// how many this one names.
fn skip_reference_set(reader: &mut BitReader<'_>, index: u32, before: u32) -> Option<u32> {
    if index > 0 && reader.bit()? {
        reader.bit()?;
        reader.ue()?;
        let mut count = 0u32;
        for _ in 0..=before {
            let is_used = reader.bit()?;
            if is_used || reader.bit()? {
                count = count.saturating_add(1);
            }
        }
        return Some(count).filter(|&count| count <= REFERENCES_MAX);
    }
    let (negative, positive) = (reader.ue_up_to(REFERENCES_MAX)?, reader.ue_up_to(REFERENCES_MAX)?);
    let count = negative.saturating_add(positive);
    for _ in 0..count {
        reader.ue()?;
        reader.bit()?;
    }
    Some(count).filter(|&count| count <= REFERENCES_MAX)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// x265, 636×358 in 640×360, 4:3 pixels, main profile, level 2.1, 30000/1001 pictures a second, BT.709, the default scaling lists.
    pub(crate) const MAIN: &[u8] = &[
        0x42, 0x01, 0x01, 0x01, 0x60, 0x00, 0x00, 0x03, 0x00, 0x90, 0x00, 0x00, 0x03, 0x00, 0x00, 0x03, 0x00,
        0x3f, 0xa0, 0x05, 0x02, 0x01, 0x71, 0xdc, 0xd9, 0x65, 0x65, 0x4a, 0x4e, 0x17, 0x87, 0x35, 0x01, 0x01,
        0x01, 0x04, 0x00, 0x00, 0x0f, 0xa4, 0x00, 0x01, 0xd4, 0xc0, 0x20,
    ];
    /// x265, 1920×1080 in 1920×1088, main 10, high tier, level 4.1, 50 pictures a second.
    const MAIN_10: &[u8] = &[
        0x42, 0x01, 0x01, 0x22, 0x20, 0x00, 0x00, 0x03, 0x00, 0x90, 0x00, 0x00, 0x03, 0x00, 0x00, 0x03, 0x00,
        0x7b, 0xa0, 0x03, 0xc0, 0x80, 0x10, 0xe4, 0xd9, 0x65, 0x66, 0x92, 0x4c, 0xaf, 0x01, 0x68, 0x08, 0x00,
        0x00, 0x03, 0x00, 0x08, 0x00, 0x00, 0x03, 0x01, 0x90, 0x40,
    ];

    #[test]
    fn common_sets_are_read() {
        let sps = Sps::parse(MAIN).unwrap();
        assert_eq!((sps.width_px, sps.height_px, sps.chroma_format, sps.bit_depth), (636, 358, 1, 8));
        assert_eq!((sps.sample_aspect, sps.frame_rate), (Some((4, 3)), FrameRate::new(30_000, 1001)));
        let colour = ColourDescription { full_range: false, primaries: 1, transfer: 1, matrix: 1 };
        assert_eq!((sps.colour, sps.temporal_layers, sps.temporal_nesting), (Some(colour), 1, true));
        assert_eq!(sps.codec_string(), "hvc1.1.6.L63.90");

        let sps = Sps::parse(MAIN_10).unwrap();
        assert_eq!((sps.width_px, sps.height_px), (1920, 1080));
        assert_eq!((sps.bit_depth, sps.chroma_bit_depth), (10, 10));
        assert_eq!((sps.frame_rate, sps.sample_aspect), (FrameRate::new(50, 1), Some((1, 1))));
        assert_eq!(sps.codec_string(), "hvc1.2.4.H123.90");
    }

    #[test]
    fn constraints_are_told_up_to_the_last_that_is_not_zero() {
        let mut sps = Sps::parse(MAIN).unwrap();
        sps.profile.constraints = [0xb0, 0, 0x08, 0, 0, 0];
        (sps.profile.space, sps.profile.compatibility) = (1, 0);
        assert_eq!(sps.codec_string(), "hvc1.A1.0.L63.B0.0.8");
        sps.profile.constraints = [0; 6];
        assert_eq!(sps.codec_string(), "hvc1.A1.0.L63");
    }

    #[test]
    fn keys_are_told_by_the_first_slice() {
        let unit =
            |kinds: &[u8]| kinds.iter().flat_map(|kind| [0, 0, 1, kind << 1, 1, 7]).collect::<Vec<u8>>();
        for kind in [16, 19, 20, 21, 23] {
            assert!(is_key(&unit(&[35, 32, 33, 34, kind])), "type {kind}");
        }
        // What follows the first slice says nothing of it.
        for kinds in [&[35, 1, 19][..], &[0, 21], &[32, 33, 34], &[]] {
            assert!(!is_key(&unit(kinds)), "types {kinds:?}");
        }
    }

    proptest! {
        #[test]
        fn hostile_sets_are_refused_or_bounded(nal in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(sps) = Sps::parse(&nal) {
                prop_assert!((1..=SIZE_MAX_PX).contains(&sps.width_px));
                prop_assert!((1..=SIZE_MAX_PX).contains(&sps.height_px));
            }
        }

        #[test]
        fn a_damaged_set_does_no_harm(at in 0..MAIN.len(), bit in 0u8..8, cut in 0..=MAIN.len()) {
            let mut nal = MAIN.to_vec();
            nal[at] ^= 1 << bit;
            let _ = Sps::parse(&nal[..cut]).map(|sps| sps.codec_string());
        }
    }
}
