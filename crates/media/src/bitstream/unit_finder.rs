//! Where access units of H.264, H.265 and AV1 begin in a byte stream (Annex B; of AV1 as MPEG-TS carries it), found as its bytes come.
//!
//! ```text
//! delimiter │ parameter sets, messages │ first slice │ more slices │ end of sequence, filler ‖ what begins the next unit
//! ```
//! Containers cut a stream where they like: a picture in several PES packets, several pictures in one. What a unit is, the
//! bitstream says (H.264 §7.4.1.2.3 and §7.4.1.2.4, H.265 §7.4.2.4.4): after a coded slice, a unit begins with the first
//! delimiter, parameter set or message, or with the first slice of another picture.
//!
//! * The two fields of a frame (one coded field after the other, of opposite parity and with the same `frame_num`) are one unit
//!   here, as they are one sample in files and one picture for viewers.
//! * Encoders that do not number their IDR pictures are taken as what they mean: a slice that begins at the first macroblock
//!   begins a picture. Redundant slices, which nothing uses, would be pictures of their own.
//! * A unit of AV1 is a temporal unit, of which each has one frame that is shown (AV1 §7.5): behind it the next one begins with the
//!   next delimiter, sequence header, metadata or frame.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::av1::{self, Role};
use super::h264::{BitReader, NalType, Sps, find_start_code, nals, unescape};
use crate::access_unit::Codec;
use std::collections::BTreeMap;

/// More than the part of a slice's header that is read needs, emulation prevention included.
const SLICE_HEAD_BYTES: usize = 20;
/// Parameter sets that are known at once; the standard allows 32 and 256.
const SETS_MAX: usize = 64;

/// How NAL units are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// ITU-T H.264.
    H264,
    /// ITU-T H.265.
    H265,
    /// AV1.
    Av1,
}

impl Syntax {
    /// That of a codec's pictures, where it is read here.
    pub const fn of(codec: Codec) -> Option<Syntax> {
        match codec {
            Codec::H264 => Some(Syntax::H264),
            Codec::H265 => Some(Syntax::H265),
            Codec::Av1 => Some(Syntax::Av1),
            _ => None,
        }
    }
}

/// Finds where access units begin. Looks at each byte once.
///
/// ```
/// use glassline_media::bitstream::unit_finder::{Syntax, UnitFinder};
///
/// // A key frame of two slices, then a picture without a delimiter.
/// let stream = [&[0, 0, 1, 0x65, 0x88][..], &[0, 0, 1, 0x65, 0x44], &[0, 0, 1, 0x41, 0x9a]].concat();
/// let mut finder = UnitFinder::new(Syntax::H264);
/// assert_eq!(finder.next(&stream, true), Some(10));
/// assert_eq!(finder.next(&stream[10..], true), None);
/// ```
#[derive(Clone, Debug)]
pub struct UnitFinder {
    syntax: Syntax,
    /// Everything before it was looked at, but for what may be a start code's beginning.
    looked: usize,
    /// The newest slice of the unit in the making.
    slice: Option<Slice>,
    /// Where what may begin the next unit begins: it does unless a second field follows.
    begin: Option<usize>,
    /// Parameter sets stand before the slice that comes.
    has_sets: bool,
    sets: Sets,
}

/// What a slice says of its picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slice {
    /// It begins with the picture's first macroblock.
    is_first: bool,
    is_idr: bool,
    is_reference: bool,
    frame_num: Option<u32>,
    /// `bottom_field_flag` of a coded field.
    field: Option<bool>,
    /// The second field of its frame has begun.
    is_pair: bool,
}

/// What the sets say that a slice's header is read by.
#[derive(Clone, Debug, Default)]
struct Sets {
    sequence: BTreeMap<u8, Sequence>,
    /// The sequence parameter set of each picture parameter set.
    picture: BTreeMap<u32, u8>,
}

#[derive(Clone, Copy, Debug)]
struct Sequence {
    frame_num_bits: u8,
    interlaced: bool,
    separate_planes: bool,
}

enum Part {
    Slice(Slice),
    /// What stands before the first slice of a unit, and so ends the one before; unless `is_sure` the next slice decides.
    Begin {
        is_set: bool,
        is_sure: bool,
    },
    Other,
}

impl UnitFinder {
    /// A finder at the first byte of a unit, or of a stream.
    pub fn new(syntax: Syntax) -> UnitFinder {
        UnitFinder { syntax, looked: 0, slice: None, begin: None, has_sets: false, sets: Sets::default() }
    }

    /// Where the next unit begins in `held`. `held` begins with the first byte of the current unit: it has the same bytes as at
    /// the last call, and those that came since. After `Some(cut)` the next call gets what is left behind the cut. With
    /// `is_whole` nothing follows for now, and a NAL unit that is cut off is judged by the bytes of it that are there.
    pub fn next(&mut self, held: &[u8], is_whole: bool) -> Option<usize> {
        while let Some(at) = find_start_code(held, self.looked) {
            let begin = at.saturating_add(3);
            let Some(part) = self.part(held, begin, is_whole) else {
                // Zeros before it belong to it, so it is found again.
                self.looked = at;
                return None;
            };
            let here = with_leading_zero(held, at);
            match part {
                Part::Slice(slice) => {
                    let Some(last) = self.slice else {
                        self.slice = Some(slice);
                        self.looked = begin;
                        continue;
                    };
                    if slice.is_new_picture(&last) && !slice.is_second_field_of(&last) {
                        return Some(self.cut(self.begin.unwrap_or(here)));
                    }
                    let is_pair = last.is_pair || slice.is_second_field_of(&last);
                    (self.slice, self.begin) = (Some(Slice { is_pair, ..slice }), None);
                }
                Part::Begin { is_set, is_sure } => {
                    self.has_sets |= is_set;
                    let begin = self.begin.unwrap_or(here);
                    match self.slice {
                        Some(last) if !is_sure || last.is_lone_field() => self.begin = Some(begin),
                        Some(_) => return Some(self.cut(begin)),
                        None => {}
                    }
                }
                Part::Other => {}
            }
            self.looked = begin;
        }
        // The last two bytes may begin a start code.
        self.looked = self.looked.max(held.len().saturating_sub(2));
        None
    }

    /// Whether the current unit has a slice, so that it may be taken as it is.
    pub fn has_slice(&self) -> bool {
        self.slice.is_some()
    }

    /// The current unit was taken, whole or not; parameter sets stay known.
    pub fn restart(&mut self) {
        (self.looked, self.slice, self.begin, self.has_sets) = (0, None, None, false);
    }

    fn cut(&mut self, at: usize) -> usize {
        self.restart();
        at
    }

    /// What stands behind a start code; `None` where that is not known yet.
    fn part(&mut self, held: &[u8], begin: usize, is_whole: bool) -> Option<Part> {
        let rest = held.get(begin..)?;
        let &header = rest.first()?;
        match self.syntax {
            Syntax::H264 => {
                if !is_slice_head(header) {
                    let is_set = matches!(NalType::of(header), NalType::Sps | NalType::Pps);
                    // A prefix stands before each slice of a stream in layers (Annex G).
                    let is_sure = header & 0x1f != 14;
                    return Some(if begins_unit(Syntax::H264, header) {
                        Part::Begin { is_set, is_sure }
                    } else {
                        Part::Other
                    });
                }
                let &first = rest.get(1)?;
                let enough = rest.len() >= SLICE_HEAD_BYTES || is_whole || find_start_code(rest, 1).is_some();
                if !enough {
                    return None;
                }
                if std::mem::take(&mut self.has_sets) {
                    self.sets.learn(held.get(..begin).unwrap_or_default());
                }
                Some(Part::Slice(self.sets.slice(header, first, rest)))
            }
            Syntax::H265 => {
                let (&second, kind) = (rest.get(1)?, header >> 1 & 0x3f);
                // Other layers than the base layer belong to its pictures.
                let is_base = header & 1 == 0 && second >> 3 == 0;
                Some(match kind {
                    0..=31 if is_base => {
                        let is_first = rest.get(2)? & 0x80 != 0;
                        let is_idr = matches!(kind, 16..=23);
                        let (is_reference, frame_num, field) = (true, None, None);
                        Part::Slice(Slice {
                            is_first,
                            is_idr,
                            is_reference,
                            frame_num,
                            field,
                            is_pair: false,
                        })
                    }
                    _ if is_base && begins_unit(Syntax::H265, header) => {
                        Part::Begin { is_set: false, is_sure: true }
                    }
                    _ => Part::Other,
                })
            }
            Syntax::Av1 => Some(match av1::role(rest)? {
                Role::Shown { is_key } => Part::Slice(Slice {
                    is_first: true,
                    is_idr: is_key,
                    is_reference: true,
                    frame_num: None,
                    field: None,
                    is_pair: false,
                }),
                Role::Front | Role::Hidden => Part::Begin { is_set: false, is_sure: true },
                Role::Other => Part::Other,
            }),
        }
    }
}

impl Slice {
    /// Whether it belongs to another picture than the slice before it.
    fn is_new_picture(&self, last: &Slice) -> bool {
        let differ =
            |one: Option<u32>, other: Option<u32>| one.zip(other).is_some_and(|(one, other)| one != other);
        self.is_first
            || self.is_idr != last.is_idr
            || self.is_reference != last.is_reference
            || differ(self.frame_num, last.frame_num)
            || self.field != last.field
    }

    /// A field that may be followed by the other field of its frame.
    fn is_lone_field(&self) -> bool {
        self.field.is_some() && !self.is_pair
    }

    /// Whether it belongs to the second field of a frame, and the slice before it to the first (§3.30).
    fn is_second_field_of(&self, last: &Slice) -> bool {
        let is_other_parity = self.field.zip(last.field).is_some_and(|(this, last)| this != last);
        is_other_parity
            && last.is_lone_field()
            && !self.is_idr
            && self.frame_num.is_some()
            && self.frame_num == last.frame_num
    }
}

impl Sets {
    /// Takes the parameter sets of the beginning of a unit.
    fn learn(&mut self, head: &[u8]) {
        for nal in nals(head) {
            match nal.kind() {
                NalType::Sps => {
                    let Ok(sps) = Sps::parse(nal.payload()) else { continue };
                    let Sps { id, frame_num_bits, interlaced, separate_planes, .. } = sps;
                    self.sequence.insert(id, Sequence { frame_num_bits, interlaced, separate_planes });
                }
                NalType::Pps => {
                    let mut bytes = Vec::new();
                    unescape(nal.payload(), SLICE_HEAD_BYTES, &mut bytes);
                    let mut reader = BitReader::new(&bytes);
                    let (Some(id), Some(sps)) = (reader.ue_up_to(255), reader.ue_up_to(31)) else { continue };
                    if self.picture.len() < SETS_MAX || self.picture.contains_key(&id) {
                        self.picture.insert(id, u8::try_from(sps).unwrap_or(0));
                    }
                }
                _ => {}
            }
        }
    }

    /// Reads a slice's header as far as its picture's identity goes; where its parameter sets are not known, only whether it
    /// begins the picture.
    fn slice(&self, header: u8, first: u8, nal: &[u8]) -> Slice {
        let mut slice = Slice {
            // first_mb_in_slice is 0: its code is the one bit 1.
            is_first: first & 0x80 != 0,
            is_idr: header & 0x1f == 5,
            is_reference: header & 0x60 != 0,
            frame_num: None,
            field: None,
            is_pair: false,
        };
        let mut head = Vec::with_capacity(SLICE_HEAD_BYTES);
        unescape(nal.get(1..).unwrap_or_default(), SLICE_HEAD_BYTES, &mut head);
        let _ = self.identify(BitReader::new(&head), &mut slice);
        slice
    }

    fn identify(&self, mut reader: BitReader<'_>, slice: &mut Slice) -> Option<()> {
        reader.ue()?;
        reader.ue_up_to(9)?;
        let sequence = self.sequence.get(self.picture.get(&reader.ue_up_to(255)?)?)?;
        if sequence.separate_planes {
            // Each plane has slices of its own; the picture begins with its first one.
            slice.is_first &= reader.bits(2)? == 0;
        }
        let frame_num = reader.bits(sequence.frame_num_bits.into())?;
        if sequence.interlaced && reader.bit()? {
            slice.field = Some(reader.bit()?);
        }
        slice.frame_num = Some(frame_num);
        Some(())
    }
}

/// Whether a NAL unit of H.264 begins with the header of a slice: a whole slice, or its first partition.
fn is_slice_head(header: u8) -> bool {
    matches!(header & 0x1f, 1 | 2 | 5)
}

/// Whether a NAL unit that is no slice stands before the first slice of a unit: a message, a parameter set, a delimiter, or one of
/// those that are reserved for it.
fn begins_unit(syntax: Syntax, header: u8) -> bool {
    match syntax {
        Syntax::H264 => matches!(header & 0x1f, 6..=9 | 14..=18),
        Syntax::H265 => matches!(header >> 1 & 0x3f, 32..=35 | 39 | 41..=44 | 48..=55),
        // Frames, too: those that are not shown go before the one that is.
        Syntax::Av1 => matches!(header >> 3 & 0x0f, 1..=3 | 5 | 6),
    }
}

/// Where a start code found at `at` begins: with its first zero where it has four bytes.
pub(crate) fn with_leading_zero(bytes: &[u8], at: usize) -> usize {
    at.checked_sub(1).filter(|&before| bytes.get(before) == Some(&0)).unwrap_or(at)
}

/// Where the first unit begins of which `bytes` hold the beginning, for a reader that joins in the middle of a stream: at what
/// stands before a picture, or at the first slice of one. The zero of a four-byte start code goes with it.
pub fn first_begin(syntax: Syntax, bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = find_start_code(bytes, from) {
        from = at.saturating_add(3);
        let [header, second, third] =
            [0, 1, 2].map(|index: usize| bytes.get(from.saturating_add(index)).copied());
        let header = header?;
        let begins = match syntax {
            Syntax::H264 if is_slice_head(header) => second? & 0x80 != 0,
            Syntax::H265 if header >> 1 & 0x3f < 32 => third? & 0x80 != 0,
            _ => begins_unit(syntax, header),
        };
        if begins {
            return Some(with_leading_zero(bytes, at));
        }
    }
    None
}

#[cfg(test)]
#[path = "unit_finder_tests.rs"]
mod tests;
