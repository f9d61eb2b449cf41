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

mod sequence;

pub use sequence::{FrameSyntax, SequenceHeader};

use super::h264::{escape, find_start_code, unescape};
use super::hdr::Hdr;

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
    /// 3: the header of a frame, with its tiles in the OBUs behind it, or of a frame that is shown again.
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
struct FrameStart {
    /// It is shown, at once or as a frame that was coded before.
    is_shown: bool,
    /// Decoding can begin here: a key frame that is shown at once.
    is_key: bool,
}

impl FrameStart {
    /// By the first byte of the payload of a frame, or of a frame's header.
    const fn of(first: u8) -> FrameStart {
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
    Front,
    Other,
}

/// The role of the OBU at the beginning of `held`; `None` where there are too few bytes to tell.
pub(crate) fn role(held: &[u8]) -> Option<Role> {
    let &header = held.first()?;
    match ObuType::of(header) {
        ObuType::TemporalDelimiter | ObuType::SequenceHeader | ObuType::Metadata => Some(Role::Front),
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
    if escaped.first().is_some_and(|header| header & HAS_SIZE != 0) {
        // A payload may end with a zero, which a start code behind it takes for its own; what is behind the size is not read.
        bytes.push(0);
    }
    Obu::read(bytes).map(|(obu, _)| obu)
}

/// Appends a unit in the form of a sample of MP4: OBUs with their sizes, without delimiters and padding. One that is cut off is left
/// out.
pub fn to_sample(unit: &[u8], out: &mut Vec<u8>) {
    let mut bytes = Vec::new();
    for escaped in escaped(unit) {
        if let Some(obu) =
            read_escaped(escaped, usize::MAX, &mut bytes).filter(|obu| obu.kind().is_in_samples())
        {
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

/// Metadata that anyone may define (§6.7.1: 6 to 31); ours have a UUID in front, as user data of H.264 have.
const USER_METADATA: usize = 6;
/// The bit that ends what is in an OBU, and zeros (§5.3.4).
const TRAILING_BITS: u8 = 0x80;

/// Appends user data as metadata behind a start code, emulation prevention put in. `payload` begins with a UUID. Decoders pass over it.
pub(super) fn write_user_data(payload: &[u8], out: &mut Vec<u8>) {
    let mut metadata = Vec::with_capacity(payload.len().saturating_add(2));
    write_leb128(USER_METADATA, &mut metadata);
    metadata.extend_from_slice(payload);
    metadata.push(TRAILING_BITS);
    // Its type is in the upper bits: 5 is metadata.
    write_escaped(&Obu { header: 5 << 3, extension: None, payload: &metadata }, out);
}

/// The user data in an OBU as it lies behind its start code, emulation prevention taken out; `None` of any other.
pub(super) fn user_data(escaped: &[u8]) -> Option<Vec<u8>> {
    if ObuType::of(*escaped.first()?) != ObuType::Metadata {
        return None;
    }
    let mut bytes = Vec::new();
    let obu = read_escaped(escaped, HEAD_MAX_BYTES, &mut bytes)?;
    let (USER_METADATA, fields) = read_leb128(obu.payload)? else { return None };
    let end = fields.iter().rposition(|byte| *byte != 0)?;
    let (data, last) = fields.get(..=end)?.split_at(end);
    (last == [TRAILING_BITS]).then(|| data.to_vec())
}

/// A temporal delimiter behind its start code.
pub(crate) const TEMPORAL_DELIMITER: [u8; 5] = [0, 0, 1, 0x12, 0];

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
            Role::Front | Role::Other => None,
        })
        .unwrap_or(false)
}

/// The descriptor by which a transport stream says that private data is AV1.
pub(crate) const REGISTRATION: [u8; 6] = *b"\x05\x04AV01";

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
pub(crate) mod tests;
