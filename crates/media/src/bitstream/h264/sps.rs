//! The sequence parameter set (H.264 §7.3.2.1, its usability information Annex E).
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::Error;
use super::bits::BitReader;
use super::nal::unescape;
use crate::ratio::shortened;
use crate::time::FrameRate;

/// Longer parameter sets than this do not occur; what follows is not read.
const SPS_MAX_BYTES: usize = 4096;
/// Pictures larger than this in either direction are refused (level 6.2 allows 16,864).
const SIZE_MAX_PX: u32 = 16_864;

/// What a sequence parameter set says about its pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sps {
    /// `seq_parameter_set_id`, 0 to 31.
    pub id: u8,
    /// `profile_idc`: 66 baseline, 77 main, 100 high, …
    pub profile: u8,
    /// The six `constraint_set` flags, as the byte that stands behind the profile.
    pub constraints: u8,
    /// `level_idc`: ten times the level.
    pub level: u8,
    /// `chroma_format_idc`: 0 grey, 1 4:2:0, 2 4:2:2, 3 4:4:4.
    pub chroma_format: u8,
    /// `separate_colour_plane_flag`: each of the three planes is coded as slices of its own.
    pub separate_planes: bool,
    /// Bits of a luma sample, 8 to 14.
    pub bit_depth: u8,
    /// Width after cropping, pixels.
    pub width_px: u32,
    /// Height after cropping, pixels.
    pub height_px: u32,
    /// Pictures may be coded as fields.
    pub interlaced: bool,
    /// Bits of `frame_num`, 4 to 16.
    pub frame_num_bits: u8,
    /// `pic_order_cnt_type`; with 2, pictures are put out in the order of decoding.
    pub order_count_type: u8,
    /// `max_num_ref_frames`, 0 to 16.
    pub reference_frames: u8,
    /// Shape of a pixel, width to height.
    pub sample_aspect: Option<(u16, u16)>,
    /// Pictures a second.
    pub frame_rate: Option<FrameRate>,
    /// Colours, where they are said.
    pub colour: Option<ColourDescription>,
    /// `max_num_reorder_frames`: how many pictures may come before one that is shown earlier.
    pub reorder_frames: Option<u8>,
    /// `max_dec_frame_buffering`: frames that a decoder must keep.
    pub buffered_frames: Option<u8>,
    /// The NAL units' rate and buffer, the last of those that are said.
    pub hrd: Option<HrdRate>,
    /// `low_delay_hrd_flag`: big pictures may come later than their time.
    pub low_delay: bool,
}

/// A rate and a buffer of the hypothetical reference decoder (§E.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HrdRate {
    /// Bits a second at which NAL units come.
    pub bitrate_bps: u64,
    /// Bits that the coded picture buffer holds.
    pub buffer_bits: u64,
    /// They come at exactly this rate.
    pub constant: bool,
}

/// Colour as H.273 code points; 2 is "unspecified".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColourDescription {
    /// Samples use all values, not only 16 to 235.
    pub full_range: bool,
    /// `colour_primaries`.
    pub primaries: u8,
    /// `transfer_characteristics`.
    pub transfer: u8,
    /// `matrix_coefficients`.
    pub matrix: u8,
}

impl ColourDescription {
    /// Reads `video_full_range_flag` and what follows it.
    fn read(reader: &mut BitReader<'_>) -> Option<ColourDescription> {
        let full_range = reader.bit()?;
        let mut points = [2; 3];
        if reader.bit()? {
            for point in &mut points {
                *point = u8::try_from(reader.bits(8)?).ok()?;
            }
        }
        let [primaries, transfer, matrix] = points;
        Some(ColourDescription { full_range, primaries, transfer, matrix })
    }
}

impl Sps {
    /// Parses the payload of a NAL unit of type [`super::NalType::Sps`], emulation prevention still in.
    ///
    /// # Errors
    /// [`Error::Truncated`] where it ends too early, [`Error::OutOfRange`] where a value is beyond what the
    /// standard allows. Usability information that is cut off is left out, as decoders do.
    pub fn parse(payload: &[u8]) -> Result<Sps, Error> {
        let mut rbsp = Vec::new();
        unescape(payload, SPS_MAX_BYTES, &mut rbsp);
        let [profile, constraints, level, ..] = *rbsp else { return Err(Error::Truncated { what: "SPS" }) };
        let mut reader = Fields(BitReader::new(&rbsp[3..]));
        let id = reader.byte("seq_parameter_set_id", 31)?;
        let Format { chroma_format, separate_planes, bit_depth } = parse_format(&mut reader, profile)?;
        let frame_num_bits = reader.byte("log2_max_frame_num_minus4", 12)?.saturating_add(4);
        let order_count_type = reader.byte("pic_order_cnt_type", 2)?;
        skip_order_count(&mut reader, order_count_type)?;
        let reference_frames = reader.byte("max_num_ref_frames", 16)?;
        reader.flag()?;
        let width_mbs = reader.ue("pic_width_in_mbs_minus1", SIZE_MAX_PX / 16 - 1)?.saturating_add(1);
        let height_units =
            reader.ue("pic_height_in_map_units_minus1", SIZE_MAX_PX / 16 - 1)?.saturating_add(1);
        let interlaced = !reader.flag()?;
        if interlaced {
            reader.flag()?;
        }
        reader.flag()?;
        let height_mbs = height_units.saturating_mul(fields(interlaced));
        let (crop_x, crop_y) = parse_cropping(&mut reader, chroma_format, interlaced)?;
        let mut sps = Sps {
            id,
            profile,
            constraints,
            level,
            chroma_format,
            separate_planes,
            bit_depth,
            width_px: cropped("width", width_mbs.saturating_mul(16), crop_x)?,
            height_px: cropped("height", height_mbs.saturating_mul(16), crop_y)?,
            interlaced,
            frame_num_bits,
            order_count_type,
            reference_frames,
            sample_aspect: None,
            frame_rate: None,
            colour: None,
            reorder_frames: None,
            buffered_frames: None,
            hrd: None,
            low_delay: false,
        };
        if reader.0.bit() == Some(true) {
            // What was read before a cut stays.
            let _ = sps.parse_usability(&mut reader.0);
        }
        Ok(sps)
    }

    /// The name of the format as RFC 6381 has it: `avc1.42C01F`.
    pub fn codec_string(&self) -> String {
        format!("avc1.{:02X}{:02X}{:02X}", self.profile, self.constraints, self.level)
    }

    /// How many pictures an output may lag behind decoding: `max_num_reorder_frames`, or what follows from the
    /// rest where it is not said (§E.2.1).
    pub fn reorder_depth(&self) -> u8 {
        let intra_only =
            self.constraints & 0x10 != 0 && matches!(self.profile, 44 | 86 | 100 | 110 | 122 | 244);
        match self.reorder_frames {
            Some(frames) => frames,
            None if self.order_count_type == 2 || self.profile == 66 || intra_only => 0,
            None => self.reference_frames,
        }
    }

    fn parse_usability(&mut self, reader: &mut BitReader<'_>) -> Option<()> {
        read_appearance(reader, &mut self.sample_aspect, &mut self.colour)?;
        if reader.bit()? {
            let (tick_units, time_scale) = (reader.bits(32)?, reader.bits(32)?);
            reader.bit()?;
            // A tick is a field's time: two a frame.
            self.frame_rate = shortened_rate(time_scale.into(), u64::from(tick_units).saturating_mul(2));
        }
        self.hrd = parse_rates(reader)?;
        let vcl_rates = parse_rates(reader)?;
        if self.hrd.is_some() || vcl_rates.is_some() {
            self.low_delay = reader.bit()?;
        }
        reader.bit()?;
        if reader.bit()? {
            reader.bit()?;
            for _ in 0..4 {
                reader.ue()?;
            }
            let (reorder, buffered) = (reader.ue_up_to(16)?, reader.ue_up_to(16)?);
            if reorder <= buffered {
                self.reorder_frames = u8::try_from(reorder).ok();
                self.buffered_frames = u8::try_from(buffered).ok();
            }
        }
        Some(())
    }
}

/// Reads the beginning of the usability information, up to where chroma samples lie (§E.1.1; H.265 §E.2.1 is the same). What was
/// read before a cut stays.
pub(in crate::bitstream) fn read_appearance(
    reader: &mut BitReader<'_>,
    sample_aspect: &mut Option<(u16, u16)>,
    colour: &mut Option<ColourDescription>,
) -> Option<()> {
    if reader.bit()? {
        *sample_aspect = match reader.bits(8)? {
            255 => Some((half_word(reader)?, half_word(reader)?)),
            index => SAMPLE_ASPECTS.get((index as usize).wrapping_sub(1)).copied(),
        }
        .filter(|&(width, height)| width > 0 && height > 0);
    }
    if reader.bit()? {
        reader.bit()?;
    }
    if reader.bit()? {
        reader.bits(3)?;
        *colour = Some(ColourDescription::read(reader)?);
    }
    if reader.bit()? {
        reader.ue()?;
        reader.ue()?;
    }
    Some(())
}

/// Table E-1, from index 1.
const SAMPLE_ASPECTS: [(u16, u16); 16] = [
    (1, 1),
    (12, 11),
    (10, 11),
    (16, 11),
    (40, 33),
    (24, 11),
    (20, 11),
    (32, 11),
    (80, 33),
    (18, 11),
    (15, 11),
    (64, 33),
    (160, 99),
    (4, 3),
    (3, 2),
    (2, 1),
];

/// How many fields a frame has in its map units: 2 where a unit is of one field.
const fn fields(interlaced: bool) -> u32 {
    if interlaced { 2 } else { 1 }
}

fn half_word(reader: &mut BitReader<'_>) -> Option<u16> {
    u16::try_from(reader.bits(16)?).ok()
}

/// Reads fields and says which one was wrong.
pub(in crate::bitstream) struct Fields<'a>(pub(in crate::bitstream) BitReader<'a>);

impl Fields<'_> {
    pub(in crate::bitstream) fn ue(&mut self, what: &'static str, limit: u32) -> Result<u32, Error> {
        let found = self.0.ue().ok_or(Error::Truncated { what })?;
        if found > limit { Err(Error::OutOfRange { what, found, limit }) } else { Ok(found) }
    }

    /// [`Fields::ue`] with a limit that is a byte.
    pub(in crate::bitstream) fn byte(&mut self, what: &'static str, limit: u8) -> Result<u8, Error> {
        let found = self.ue(what, limit.into())?;
        u8::try_from(found).map_err(|_| Error::OutOfRange { what, found, limit: limit.into() })
    }

    pub(in crate::bitstream) fn flag(&mut self) -> Result<bool, Error> {
        self.0.bit().ok_or(Error::Truncated { what: "SPS" })
    }

    fn se(&mut self) -> Result<i32, Error> {
        self.0.se().ok_or(Error::Truncated { what: "SPS" })
    }
}

struct Format {
    chroma_format: u8,
    separate_planes: bool,
    bit_depth: u8,
}

/// The format of samples, which only the high profiles code.
fn parse_format(reader: &mut Fields<'_>, profile: u8) -> Result<Format, Error> {
    if !matches!(profile, 100 | 110 | 122 | 244 | 44 | 83 | 86 | 118 | 128 | 138 | 139 | 134 | 135) {
        return Ok(Format { chroma_format: 1, separate_planes: false, bit_depth: 8 });
    }
    let chroma_format = reader.byte("chroma_format_idc", 3)?;
    let separate_planes = chroma_format == 3 && reader.flag()?;
    let bit_depth = reader.byte("bit_depth_luma_minus8", 6)?.saturating_add(8);
    reader.ue("bit_depth_chroma_minus8", 6)?;
    reader.flag()?;
    if reader.flag()? {
        for list in 0..if chroma_format == 3 { 12 } else { 8 } {
            if reader.flag()? {
                skip_scaling_list(reader, if list < 6 { 16 } else { 64 })?;
            }
        }
    }
    Ok(Format { chroma_format, separate_planes, bit_depth })
}

/// §7.3.2.1.1.1.
fn skip_scaling_list(reader: &mut Fields<'_>, size: u32) -> Result<(), Error> {
    let mut last = 8i32;
    let mut next = 8i32;
    for _ in 0..size {
        if next != 0 {
            next = last.wrapping_add(reader.se()?).rem_euclid(256);
        }
        if next != 0 {
            last = next;
        }
    }
    Ok(())
}

fn skip_order_count(reader: &mut Fields<'_>, kind: u8) -> Result<(), Error> {
    if kind == 0 {
        reader.ue("log2_max_pic_order_cnt_lsb_minus4", 12)?;
    } else if kind == 1 {
        reader.flag()?;
        reader.se()?;
        reader.se()?;
        for _ in 0..reader.ue("num_ref_frames_in_pic_order_cnt_cycle", 255)? {
            reader.se()?;
        }
    }
    Ok(())
}

/// Pixels cut off in each direction.
fn parse_cropping(reader: &mut Fields<'_>, chroma_format: u8, interlaced: bool) -> Result<(u32, u32), Error> {
    if !reader.flag()? {
        return Ok((0, 0));
    }
    let mut edges = [0; 4];
    for edge in &mut edges {
        *edge = reader.ue("frame_crop_offset", SIZE_MAX_PX)?;
    }
    let unit_x = if matches!(chroma_format, 1 | 2) { 2 } else { 1 };
    let unit_y = u32::saturating_mul(if chroma_format == 1 { 2 } else { 1 }, fields(interlaced));
    let [left, right, top, bottom] = edges;
    let cut = |before: u32, behind: u32, unit| before.saturating_add(behind).saturating_mul(unit);
    Ok((cut(left, right, unit_x), cut(top, bottom, unit_y)))
}

fn cropped(what: &'static str, coded_px: u32, crop_px: u32) -> Result<u32, Error> {
    let refused = |found, limit| Err(Error::OutOfRange { what, found, limit });
    match coded_px.checked_sub(crop_px) {
        None | Some(0) => refused(crop_px, coded_px.saturating_sub(1)),
        Some(size) if size > SIZE_MAX_PX => refused(size, SIZE_MAX_PX),
        Some(size) => Ok(size),
    }
}

/// `numerator / denominator` in its lowest terms, where that is a rate and not a time base.
pub(in crate::bitstream) fn shortened_rate(numerator: u64, denominator: u64) -> Option<FrameRate> {
    let (numerator, denominator) = shortened(numerator.into(), denominator.into());
    let rate = FrameRate::new(u32::try_from(numerator).ok()?, u32::try_from(denominator).ok()?);
    rate.filter(|rate| rate.is_plausible())
}

/// Reads `hrd_parameters` (§E.1.2), if they are there: the last of the rates.
fn parse_rates(reader: &mut BitReader<'_>) -> Option<Option<HrdRate>> {
    if !reader.bit()? {
        return Some(None);
    }
    let count = reader.ue_up_to(31)?.saturating_add(1);
    let (rate_scale, size_scale) = (reader.bits(4)?, reader.bits(4)?);
    let mut last = None;
    for _ in 0..count {
        let mut value = |shift: u32, scale: u32| {
            let code = u64::from(reader.ue()?).saturating_add(1);
            Some(code.unbounded_shl(shift.saturating_add(scale)))
        };
        let (bitrate_bps, buffer_bits) = (value(6, rate_scale)?, value(4, size_scale)?);
        last = Some(HrdRate { bitrate_bps, buffer_bits, constant: reader.bit()? });
    }
    reader.bits(20)?;
    Some(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// x264, 1280×720, high profile, level 3.1, 25 pictures a second.
    const HIGH_720P25: &[u8] = &[
        0x64, 0x00, 0x1f, 0xac, 0xd9, 0x40, 0x50, 0x05, 0xbb, 0x01, 0x10, 0x00, 0x00, 0x03, 0x00, 0x10, 0x00,
        0x00, 0x03, 0x03, 0x20, 0xf1, 0x83, 0x19, 0x60,
    ];

    #[test]
    fn a_common_set_is_read() {
        let sps = Sps::parse(HIGH_720P25).unwrap();
        assert_eq!((sps.width_px, sps.height_px, sps.bit_depth, sps.chroma_format), (1280, 720, 8, 1));
        assert_eq!(sps.frame_rate, FrameRate::new(25, 1));
        assert_eq!(sps.codec_string(), "avc1.64001F");
        assert!(!sps.interlaced);
        assert_eq!(sps.reorder_depth(), 2);
    }

    #[test]
    fn cropping_more_than_there_is_is_refused() {
        assert_eq!(cropped("width", 16, 16), Err(Error::OutOfRange { what: "width", found: 16, limit: 15 }));
        assert_eq!(cropped("width", 16, 6), Ok(10));
    }

    proptest! {
        #[test]
        fn hostile_sets_are_refused_or_bounded(payload in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(sps) = Sps::parse(&payload) {
                prop_assert!((1..=SIZE_MAX_PX).contains(&sps.width_px));
                prop_assert!((1..=SIZE_MAX_PX).contains(&sps.height_px));
                prop_assert!(sps.reorder_depth() <= 16);
            }
        }

        #[test]
        fn a_damaged_set_does_no_harm(at in 0..HIGH_720P25.len(), bit in 0u8..8, cut in 0..=HIGH_720P25.len()) {
            let mut payload = HIGH_720P25.to_vec();
            payload[at] ^= 1 << bit;
            let _ = Sps::parse(&payload[..cut]);
        }
    }
}
