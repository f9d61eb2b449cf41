//! The sequence header (AV1 §5.5), and what is made of it: the format's name, the configuration of MP4, the descriptors of MPEG-TS.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::REGISTRATION;
use crate::bitstream::h264::sps::shortened_rate;
use crate::bitstream::h264::{BitReader, ColourDescription};
use crate::bitstream::hdr::Range;
use crate::time::FrameRate;

/// What a sequence header says about its pictures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceHeader {
    /// `seq_profile`, 0 to 2.
    pub profile: u8,
    /// `seq_level_idx` of the first operating point, 0 to 31.
    pub level: u8,
    /// `seq_tier` of it.
    pub high_tier: bool,
    /// Bits of a sample: 8, 10 or 12.
    pub bit_depth: u8,
    /// There is luma alone.
    pub monochrome: bool,
    /// Whether there is one sample of chroma for two of luma, across and down.
    pub subsampling: (bool, bool),
    /// `chroma_sample_position`, 0 to 3; 0 is unknown.
    pub chroma_position: u8,
    /// Largest width, pixels.
    pub width_px: u32,
    /// Largest height, pixels.
    pub height_px: u32,
    /// Pictures a second, where they are said.
    pub frame_rate: Option<FrameRate>,
    /// Colour, where it is said.
    pub colour: Option<ColourDescription>,
    /// Whether samples have the full range, whether or not colour is said.
    pub full_range: bool,
    /// What the headers of its frames hold.
    pub frames: FrameSyntax,
}

/// Which fields the headers of a sequence's frames have (§5.9.2), up to `refresh_frame_flags`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameSyntax {
    /// `reduced_still_picture_header`: each frame is a key frame that is shown, and does not say so.
    pub is_reduced: bool,
    /// `decoder_model_info_present_flag`: frames say when they are shown and leave the buffer.
    pub has_decoder_model: bool,
    /// Bits of `current_frame_id`; 0 where frames have none.
    pub frame_id_bits: u32,
    /// Whether frames are coded as content of screens; `None` where each says so.
    pub screen_content: Option<bool>,
    /// Whether motion vectors of content of screens are whole; `None` where each frame says so.
    pub integer_vectors: Option<bool>,
    /// Bits of `order_hint`; 0 where frames have none.
    pub order_hint_bits: u32,
}

impl SequenceHeader {
    /// Parses the payload of an OBU of type [`ObuType::SequenceHeader`] (§5.5). `None` where it ends too early or has a profile that
    /// is reserved.
    pub fn parse(payload: &[u8]) -> Option<SequenceHeader> {
        let mut reader = BitReader::new(payload);
        let profile = u8::try_from(reader.bits(3)?).ok().filter(|&profile| profile <= 2)?;
        reader.bit()?;
        let is_reduced = reader.bit()?;
        let Points { level, high_tier, frame_rate, has_decoder_model } =
            if is_reduced { Points::reduced(&mut reader)? } else { Points::parse(&mut reader)? };
        let (width_bits, height_bits) =
            (reader.bits(4)?.saturating_add(1), reader.bits(4)?.saturating_add(1));
        let width_px = reader.bits(width_bits)?.saturating_add(1);
        let height_px = reader.bits(height_bits)?.saturating_add(1);
        let mut frames = FrameSyntax {
            is_reduced,
            has_decoder_model,
            frame_id_bits: 0,
            screen_content: None,
            integer_vectors: None,
            order_hint_bits: 0,
        };
        if !is_reduced && reader.bit()? {
            // How long the differences between numbers of frames are, and how much longer the numbers.
            let difference_bits = reader.bits(4)?.saturating_add(2);
            frames.frame_id_bits = reader.bits(3)?.saturating_add(1).saturating_add(difference_bits);
        }
        // Superblocks of 128, filters within frames.
        reader.bits(3)?;
        if !is_reduced {
            frames.parse_tools(&mut reader)?;
        }
        // Super-resolution, directional enhancement, restoration.
        reader.bits(3)?;
        let mut header = SequenceHeader {
            profile,
            level,
            high_tier,
            bit_depth: 8,
            monochrome: false,
            subsampling: (true, true),
            chroma_position: 0,
            width_px,
            height_px,
            frame_rate,
            colour: None,
            full_range: false,
            frames,
        };
        header.parse_colour(&mut reader)?;
        Some(header)
    }

    /// `color_config` (§5.5.2).
    fn parse_colour(&mut self, reader: &mut BitReader<'_>) -> Option<()> {
        let is_deep = reader.bit()?;
        self.bit_depth = match (is_deep, self.profile) {
            (false, _) => 8,
            (true, 2) if reader.bit()? => 12,
            (true, _) => 10,
        };
        self.monochrome = self.profile != 1 && reader.bit()?;
        let (mut primaries, mut transfer, mut matrix) = (2, 2, 2);
        let is_said = reader.bit()?;
        if is_said {
            let mut byte = || u8::try_from(reader.bits(8)?).ok();
            (primaries, transfer, matrix) = (byte()?, byte()?, byte()?);
        }
        if self.monochrome {
            self.full_range = reader.bit()?;
        } else if (primaries, transfer, matrix) == (1, 13, 0) {
            // RGB as on screens.
            (self.full_range, self.subsampling) = (true, (false, false));
        } else {
            self.full_range = reader.bit()?;
            self.subsampling = match self.profile {
                0 => (true, true),
                1 => (false, false),
                _ if self.bit_depth < 12 => (true, false),
                _ => {
                    let across = reader.bit()?;
                    (across, across && reader.bit()?)
                }
            };
            if self.subsampling == (true, true) {
                self.chroma_position = u8::try_from(reader.bits(2)?).ok()?;
            }
        }
        let full_range = self.full_range;
        self.colour = is_said.then_some(ColourDescription { full_range, primaries, transfer, matrix });
        Some(())
    }

    /// The name of the format ("AV1 Codec ISO Media File Format Binding" §5): `av01.0.04M.08`, with all that is not as most
    /// streams have it behind that.
    pub fn codec_string(&self) -> String {
        let tier = if self.high_tier { 'H' } else { 'M' };
        let short = format!("av01.{}.{:02}{tier}.{:02}", self.profile, self.level, self.bit_depth);
        let (primaries, transfer, matrix) =
            self.colour.map_or((1, 1, 1), |colour| (colour.primaries, colour.transfer, colour.matrix));
        let (across, down) = self.subsampling;
        let position = self.chroma_position;
        let is_usual = !self.monochrome && (across, down, position) == (true, true, 0) && !self.full_range;
        if is_usual && (primaries, transfer, matrix) == (1, 1, 1) {
            return short;
        }
        let [mono, across, down, range] = [self.monochrome, across, down, self.full_range].map(u8::from);
        format!("{short}.{mono}.{across}{down}{position}.{primaries:02}.{transfer:02}.{matrix:02}.{range}")
    }

    /// The first three bytes of `av1C` and of the descriptor in MPEG-TS, behind the version.
    fn write_format(&self, out: &mut Vec<u8>) {
        let (across, down) = self.subsampling;
        let bits = [self.high_tier, self.bit_depth > 8, self.bit_depth > 10, self.monochrome, across, down];
        let flags = bits.iter().fold(0u8, |flags, &bit| flags << 1 | u8::from(bit));
        out.push(self.profile << 5 | self.level & 0x1f);
        out.push(flags << 2 | self.chroma_position & 3);
    }

    /// Appends `AV1CodecConfigurationRecord` ("AV1 Codec ISO Media File Format Binding" §2.3.3) with `sequence`, the OBU that this
    /// was read from, with its size.
    pub fn write_configuration(&self, sequence: &[u8], out: &mut Vec<u8>) {
        out.push(0x81);
        self.write_format(out);
        out.push(0);
        out.extend_from_slice(sequence);
    }

    /// The descriptors of a transport stream ("Carriage of AV1 in MPEG-2 TS" §2).
    pub fn descriptors(&self) -> Vec<u8> {
        let mut out = REGISTRATION.to_vec();
        out.extend_from_slice(&[0x80, 4, 0x81]);
        self.write_format(&mut out);
        // Whether the range of light or of colour is wide.
        let range = match self.colour {
            None => 3,
            Some(colour) if Range::of(colour.transfer) != Range::Sdr => 2,
            Some(colour) => u8::from(colour.primaries == 9),
        };
        out.push(range << 6);
        out
    }
}

/// What is said in front of the size: the first operating point, and the clock.
struct Points {
    level: u8,
    high_tier: bool,
    frame_rate: Option<FrameRate>,
    has_decoder_model: bool,
}

impl Points {
    /// Of a stream of one still picture.
    fn reduced(reader: &mut BitReader<'_>) -> Option<Points> {
        let level = u8::try_from(reader.bits(5)?).ok()?;
        Some(Points { level, high_tier: false, frame_rate: None, has_decoder_model: false })
    }

    fn parse(reader: &mut BitReader<'_>) -> Option<Points> {
        let (mut frame_rate, mut delay_bits) = (None, None);
        if reader.bit()? {
            let (units, scale) = (reader.bits(32)?, reader.bits(32)?);
            if reader.bit()? {
                let ticks = u64::from(reader.ue()?).saturating_add(1);
                frame_rate = shortened_rate(scale.into(), u64::from(units).saturating_mul(ticks));
            }
            if reader.bit()? {
                delay_bits = Some(reader.bits(5)?.saturating_add(1));
                reader.bits(32)?;
                reader.bits(10)?;
            }
        }
        let has_display_delay = reader.bit()?;
        let count = reader.bits(5)?.saturating_add(1);
        let mut first = None;
        for _ in 0..count {
            reader.bits(12)?;
            let level = u8::try_from(reader.bits(5)?).ok()?;
            let high_tier = level > 7 && reader.bit()?;
            if let Some(bits) = delay_bits
                && reader.bit()?
            {
                reader.bits(bits)?;
                reader.bits(bits)?;
                reader.bit()?;
            }
            if has_display_delay && reader.bit()? {
                reader.bits(4)?;
            }
            first = first.or(Some((level, high_tier)));
        }
        let (level, high_tier) = first?;
        Some(Points { level, high_tier, frame_rate, has_decoder_model: delay_bits.is_some() })
    }
}

impl FrameSyntax {
    /// Parses which tools of prediction a sequence has, up to `enable_superres`.
    fn parse_tools(&mut self, reader: &mut BitReader<'_>) -> Option<()> {
        reader.bits(4)?;
        let has_order = reader.bit()?;
        if has_order {
            reader.bits(2)?;
        }
        // Each frame chooses, or all or none are coded as content of screens.
        self.screen_content = if reader.bit()? { None } else { Some(reader.bit()?) };
        if self.screen_content != Some(false) {
            self.integer_vectors = if reader.bit()? { None } else { Some(reader.bit()?) };
        }
        if has_order {
            self.order_hint_bits = reader.bits(3)?.saturating_add(1);
        }
        Some(())
    }
}
