//! AV1 (AOMedia, "AV1 Bitstream & Decoding Process Specification") as far as packaging it needs: open bitstream units (OBU), the
//! sequence header, metadata of light. No picture is decoded.
//!
//! ```text
//! samples of MP4, files   header │ size (leb128) │ payload │ header │ size │ payload …
//! MPEG-TS                 00 00 01 │ header │ [size] │ payload, emulation prevention │ 00 00 01 │ …
//! ```
//! An [`AccessUnit`](crate::AccessUnit) is a temporal unit (§7.5) in the form that a transport stream has ("Carriage of AV1 in
//! MPEG-2 TS" §3.2): start codes and emulation prevention as in H.264, so that units are found and cut as those of H.264 and
//! H.265 are. [`to_sample`] and [`to_unit`] go from one form to the other.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::h264::sps::shortened_rate;
use super::h264::{BitReader, ColourDescription, escape, find_start_code, unescape};
use super::hdr::{Hdr, Range};
use crate::time::FrameRate;

/// Metadata units in front of a picture that are looked at.
const METADATA_MAX: usize = 16;
/// More than a sequence header or a unit of metadata that is read here ever has.
const HEAD_MAX_BYTES: usize = 1024;
/// A size has at most eight bytes (§4.10.5).
const SIZE_MAX_BYTES: usize = 8;

/// What an OBU holds (§6.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObuType {
    /// 1: the sequence header.
    SequenceHeader,
    /// 2: a temporal unit begins.
    TemporalDelimiter,
    /// 3: the header of a frame whose tiles follow, or of one that is shown again.
    FrameHeader,
    /// 5: metadata.
    Metadata,
    /// 6: a frame, header and tiles.
    Frame,
    /// 4: tiles of a frame.
    TileGroup,
    /// 7: the header of the same frame once more.
    RedundantFrameHeader,
    /// 8: tiles of large-scale coding, which containers do not carry.
    TileList,
    /// 15: padding.
    Padding,
    /// Any other, by its number.
    Other(u8),
}

impl ObuType {
    /// The type in an OBU's first byte.
    pub const fn of(header: u8) -> ObuType {
        match header >> 3 & 0x0f {
            1 => ObuType::SequenceHeader,
            2 => ObuType::TemporalDelimiter,
            3 => ObuType::FrameHeader,
            4 => ObuType::TileGroup,
            5 => ObuType::Metadata,
            6 => ObuType::Frame,
            7 => ObuType::RedundantFrameHeader,
            8 => ObuType::TileList,
            15 => ObuType::Padding,
            other => ObuType::Other(other),
        }
    }

    /// Whether a frame begins with it.
    pub const fn begins_frame(self) -> bool {
        matches!(self, ObuType::FrameHeader | ObuType::Frame)
    }

    /// Whether samples of MP4 have it ("AV1 Codec ISO Media File Format Binding" §2.4): not what their bounds say, nor what is
    /// there for the transport alone.
    const fn is_in_samples(self) -> bool {
        !matches!(
            self,
            ObuType::TemporalDelimiter | ObuType::Padding | ObuType::RedundantFrameHeader | ObuType::TileList
        )
    }
}

/// An OBU, without its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Obu<'a> {
    /// The first byte; whether a size follows it says nothing here.
    pub header: u8,
    /// The byte of temporal and spatial layer, where there is one.
    pub extension: Option<u8>,
    /// What is in it.
    pub payload: &'a [u8],
}

const HAS_EXTENSION: u8 = 4;
const HAS_SIZE: u8 = 2;

impl<'a> Obu<'a> {
    /// What it holds.
    pub const fn kind(&self) -> ObuType {
        ObuType::of(self.header)
    }

    /// The spatial layer, 0 to 3.
    const fn spatial_layer(&self) -> u8 {
        match self.extension {
            Some(layers) => layers >> 3 & 3,
            None => 0,
        }
    }

    /// What the frame that begins with it is; `None` where none does.
    fn frame(&self) -> Option<FrameStart> {
        let first = self.payload.first().filter(|_| self.kind().begins_frame())?;
        Some(FrameStart::of(*first))
    }

    /// The OBU at the beginning of `bytes`, and what follows it; one without a size has all the bytes. `None` where it is cut off.
    fn read(bytes: &'a [u8]) -> Option<(Obu<'a>, &'a [u8])> {
        let (&header, mut rest) = bytes.split_first()?;
        let mut extension = None;
        if header & HAS_EXTENSION != 0 {
            let (&layers, behind) = rest.split_first()?;
            (extension, rest) = (Some(layers), behind);
        }
        let (payload, behind) = if header & HAS_SIZE == 0 {
            (rest, &[][..])
        } else {
            let (size, behind) = read_leb128(rest)?;
            behind.split_at_checked(size)?
        };
        Some((Obu { header, extension, payload }, behind))
    }

    /// Appends it with its size.
    fn write(&self, out: &mut Vec<u8>) {
        out.push(self.header | HAS_SIZE);
        out.extend(self.extension);
        write_leb128(self.payload.len(), out);
        out.extend_from_slice(self.payload);
    }
}

/// Reads a number (§4.10.5): it, and what follows.
fn read_leb128(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().take(SIZE_MAX_BYTES).enumerate() {
        let shift = u32::try_from(index).ok()?.saturating_mul(7);
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            let value = u32::try_from(value).ok()?;
            return Some((usize::try_from(value).ok()?, bytes.get(index.saturating_add(1)..)?));
        }
    }
    None
}

fn write_leb128(mut value: usize, out: &mut Vec<u8>) {
    loop {
        let low = u8::try_from(value & 0x7f).unwrap_or(0);
        value >>= 7;
        if value == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

/// What the first bits of a frame's header say (§5.9.2), of every stream but one of a single still picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameStart {
    /// It is shown, at once or as a frame that was coded before.
    pub(crate) is_shown: bool,
    /// Decoding can begin here: a key frame that is shown at once.
    pub(crate) is_key: bool,
}

impl FrameStart {
    /// By the first byte of the payload of a frame, or of a frame's header.
    pub(crate) const fn of(first: u8) -> FrameStart {
        let (again, kind, shown) = (first & 0x80 != 0, first >> 5 & 3, first & 0x10 != 0);
        FrameStart { is_shown: again || shown, is_key: !again && kind == 0 && shown }
    }
}

/// What an OBU behind a start code is to a unit's bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A frame of the base layer that is shown: a unit has one.
    Shown {
        is_key: bool,
    },
    /// A frame of the base layer that later ones use.
    Hidden,
    /// What stands in front of frames: a delimiter, a sequence header, metadata.
    Front(ObuType),
    Other,
}

/// The role of the OBU whose bytes `held` begins with; `None` where there are too few to tell.
pub(crate) fn role(held: &[u8]) -> Option<Role> {
    let &header = held.first()?;
    match ObuType::of(header) {
        kind @ (ObuType::TemporalDelimiter | ObuType::SequenceHeader | ObuType::Metadata) => {
            Some(Role::Front(kind))
        }
        kind if kind.begins_frame() => {
            let mut rest = held.get(1..)?;
            if header & HAS_EXTENSION != 0 {
                let (layers, behind) = rest.split_first()?;
                if layers >> 3 & 3 != 0 {
                    return Some(Role::Other);
                }
                rest = behind;
            }
            if header & HAS_SIZE != 0 {
                // One that does not end says nothing of a frame.
                let Some(last) = rest.iter().take(SIZE_MAX_BYTES).position(|byte| byte & 0x80 == 0) else {
                    return (rest.len() >= SIZE_MAX_BYTES).then_some(Role::Other);
                };
                rest = rest.get(last.saturating_add(1)..)?;
            }
            let FrameStart { is_shown, is_key } = FrameStart::of(*rest.first()?);
            Some(if is_shown { Role::Shown { is_key } } else { Role::Hidden })
        }
        _ => Some(Role::Other),
    }
}

/// The OBUs of a sample, or of a file of the low-overhead format (§5.2); ends where one is cut off.
pub fn obus(mut bytes: &[u8]) -> impl Iterator<Item = Obu<'_>> {
    std::iter::from_fn(move || {
        let (obu, rest) = Obu::read(bytes)?;
        bytes = rest;
        Some(obu)
    })
}

/// The OBUs of a unit, as they lie in it behind their start codes, emulation prevention still in.
fn escaped(unit: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut next = find_start_code(unit, 0).map(|at| at.saturating_add(3));
    std::iter::from_fn(move || {
        let start = next?;
        let end = find_start_code(unit, start);
        next = end.map(|at| at.saturating_add(3));
        unit.get(start..end.unwrap_or(unit.len()))
    })
}

/// The OBU behind a start code, its emulation prevention taken out into `bytes` as far as `limit_bytes`; `None` where it is cut off,
/// or does not say what it is.
fn read_escaped<'a>(escaped: &[u8], limit_bytes: usize, bytes: &'a mut Vec<u8>) -> Option<Obu<'a>> {
    unescape(escaped, limit_bytes, bytes);
    // A payload may end with a zero, which a start code behind it takes for its own; what is behind the size is not read.
    bytes.push(0);
    Obu::read(bytes).map(|(obu, _)| obu)
}

/// Appends a unit in the form of a sample of MP4: OBUs with their sizes, without delimiters and padding. One that is cut off is left
/// out.
pub fn to_sample(unit: &[u8], out: &mut Vec<u8>) {
    let mut bytes = Vec::new();
    for escaped in escaped(unit) {
        let Some(mut obu) = read_escaped(escaped, usize::MAX, &mut bytes) else { continue };
        if obu.header & HAS_SIZE == 0 {
            // The zero that was put behind it.
            obu.payload = obu.payload.split_last().map_or(&[][..], |(_, payload)| payload);
        }
        if obu.kind().is_in_samples() {
            obu.write(out);
        }
    }
}

/// The unit in a sample of MP4, behind `config` where decoding can begin with it and it has no sequence header itself; behind a
/// delimiter, by which units are told apart. `config` and `sample` are of the low-overhead format. `None` where an OBU is cut off.
pub fn to_unit(sample: &[u8], config: &[u8]) -> Option<Vec<u8>> {
    let mut unit = Vec::with_capacity(sample.len().saturating_add(config.len()).saturating_add(64));
    unit.extend_from_slice(&TEMPORAL_DELIMITER);
    let is_key = obus(sample).find_map(|obu| obu.frame()).is_some_and(|frame| frame.is_key);
    let has_sequence = obus(sample).any(|obu| obu.kind() == ObuType::SequenceHeader);
    if is_key && !has_sequence {
        let sequence = obus(config).filter(|obu| obu.kind() == ObuType::SequenceHeader);
        sequence.for_each(|obu| write_escaped(&obu, &mut unit));
    }
    let mut rest = sample;
    while !rest.is_empty() {
        let (obu, behind) = Obu::read(rest)?;
        if obu.kind().is_in_samples() {
            write_escaped(&obu, &mut unit);
        }
        rest = behind;
    }
    Some(unit)
}

/// The sequence header of `config`, of the low-overhead format, as a unit without frames; `None` where there is none.
pub(crate) fn sequence_unit(config: &[u8]) -> Option<Vec<u8>> {
    let mut unit = Vec::new();
    write_escaped(&obus(config).find(|obu| obu.kind() == ObuType::SequenceHeader)?, &mut unit);
    Some(unit)
}

/// A temporal delimiter behind its start code.
pub const TEMPORAL_DELIMITER: [u8; 5] = [0, 0, 1, 0x12, 0];

fn write_escaped(obu: &Obu<'_>, out: &mut Vec<u8>) {
    let mut bytes = Vec::with_capacity(obu.payload.len().saturating_add(SIZE_MAX_BYTES));
    obu.write(&mut bytes);
    out.extend_from_slice(&[0, 0, 1]);
    escape(&bytes, out);
}

/// Whether decoding can begin at an access unit: the first frame of it is a key frame that is shown.
pub fn is_key(unit: &[u8]) -> bool {
    escaped(unit)
        .find_map(|obu| match role(obu)? {
            Role::Shown { is_key } => Some(is_key),
            Role::Hidden => Some(false),
            Role::Front(_) | Role::Other => None,
        })
        .unwrap_or(false)
}

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
    full_range: bool,
}

impl SequenceHeader {
    /// Parses the payload of an OBU of type [`ObuType::SequenceHeader`] (§5.5). `None` where it ends too early or has a profile that
    /// is reserved.
    pub fn parse(payload: &[u8]) -> Option<SequenceHeader> {
        let mut reader = BitReader::new(payload);
        let profile = u8::try_from(reader.bits(3)?).ok().filter(|&profile| profile <= 2)?;
        reader.bit()?;
        let is_reduced = reader.bit()?;
        let Points { level, high_tier, frame_rate } =
            if is_reduced { Points::reduced(&mut reader)? } else { Points::parse(&mut reader)? };
        let (width_bits, height_bits) =
            (reader.bits(4)?.saturating_add(1), reader.bits(4)?.saturating_add(1));
        let width_px = reader.bits(width_bits)?.saturating_add(1);
        let height_px = reader.bits(height_bits)?.saturating_add(1);
        if !is_reduced && reader.bit()? {
            // How long the numbers of frames are.
            reader.bits(7)?;
        }
        // Superblocks of 128, filters within frames.
        reader.bits(3)?;
        if !is_reduced {
            skip_tools(&mut reader)?;
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

/// The descriptor by which a transport stream says that private data is AV1.
pub const REGISTRATION: [u8; 6] = *b"\x05\x04AV01";

/// What is said in front of the size: the first operating point, and the clock.
struct Points {
    level: u8,
    high_tier: bool,
    frame_rate: Option<FrameRate>,
}

impl Points {
    /// Of a stream of one still picture.
    fn reduced(reader: &mut BitReader<'_>) -> Option<Points> {
        Some(Points { level: u8::try_from(reader.bits(5)?).ok()?, high_tier: false, frame_rate: None })
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
        Some(Points { level, high_tier, frame_rate })
    }
}

/// What tools of prediction a sequence has, up to `enable_superres`.
fn skip_tools(reader: &mut BitReader<'_>) -> Option<()> {
    reader.bits(4)?;
    let has_order = reader.bit()?;
    if has_order {
        reader.bits(2)?;
    }
    // Each frame chooses, or all or none are coded as content of screens.
    let may_be_screen = reader.bit()? || reader.bit()?;
    if may_be_screen && !reader.bit()? {
        reader.bit()?;
    }
    if has_order {
        reader.bits(3)?;
    }
    Some(())
}

/// What stands in front of a unit's first frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The sequence header, an OBU with its size; of several the last, which counts.
    pub sequence: Option<Vec<u8>>,
    /// What metadata say of light.
    pub hdr: Hdr,
}

impl Head {
    /// Reads the head of a unit.
    pub fn of(unit: &[u8]) -> Head {
        let mut head = Head::default();
        let (mut metadata, mut bytes) = (0usize, Vec::new());
        for escaped in escaped(unit) {
            let kind = ObuType::of(escaped.first().copied().unwrap_or_default());
            if kind.begins_frame() {
                break;
            }
            if !matches!(kind, ObuType::SequenceHeader | ObuType::Metadata) {
                continue;
            }
            let Some(obu) = read_escaped(escaped, HEAD_MAX_BYTES, &mut bytes) else { continue };
            if kind == ObuType::SequenceHeader {
                let mut sequence = Vec::new();
                obu.write(&mut sequence);
                head.sequence = Some(sequence);
            } else if metadata < METADATA_MAX && obu.spatial_layer() == 0 {
                metadata = metadata.saturating_add(1);
                let _ = read_light(obu.payload, &mut head.hdr);
            }
        }
        head
    }

    /// What its sequence header says; `None` where there is none that can be read.
    pub fn parse_sequence(&self) -> Option<SequenceHeader> {
        let (obu, _) = Obu::read(self.sequence.as_deref()?)?;
        SequenceHeader::parse(obu.payload)
    }
}

/// Reads metadata of light (§5.8.3, §5.8.4) into the form of the boxes `clli` and `mdcv`; those that come first count.
fn read_light(payload: &[u8], hdr: &mut Hdr) -> Option<()> {
    let (kind, fields) = read_leb128(payload)?;
    match kind {
        1 => hdr.light = hdr.light.or(Some(*fields.first_chunk()?)),
        2 => hdr.mastering = hdr.mastering.or(Some(mastering(fields.first_chunk()?)?)),
        _ => {}
    }
    Some(())
}

/// Of red, green, blue and white in 65,536ths, most light in 256ths and least in 16,384ths of a candela to green, blue, red and
/// white in 50,000ths, and both in 10,000ths.
fn mastering(fields: &[u8; 24]) -> Option<[u8; 24]> {
    let rounded =
        |value: u64, from: u64, to: u64| value.saturating_mul(to).saturating_add(from / 2).checked_div(from);
    let mut out = Vec::with_capacity(24);
    let (points, lights) = fields.split_at_checked(16)?;
    let points = points.as_chunks::<4>().0;
    for point in [points.get(1)?, points.get(2)?, points.first()?, points.get(3)?] {
        for half in point.as_chunks::<2>().0 {
            let value = rounded(u16::from_be_bytes(*half).into(), 1 << 16, 50_000)?;
            out.extend_from_slice(&u16::try_from(value).ok()?.to_be_bytes());
        }
    }
    for (light, unit) in lights.as_chunks::<4>().0.iter().zip([1 << 8, 1 << 14]) {
        let value = rounded(u32::from_be_bytes(*light).into(), unit, 10_000)?;
        out.extend_from_slice(&u32::try_from(value).unwrap_or(u32::MAX).to_be_bytes());
    }
    out.try_into().ok()
}

#[cfg(test)]
#[path = "av1_tests.rs"]
pub(crate) mod tests;
