//! Cues of SCTE 35: where a program may be left and joined again, such as for advertisements (ANSI/SCTE 35 2023r1, "35" below).
//!
//! ```text
//! splice_info_section: fc │ 0 0 sap:2 length:12 │ version:8 │ encrypted:1 algorithm:6 pts_adjustment:33 │ cw_index:8
//!                      │ tier:12 command length:12 │ command type:8 │ command │ descriptors:16 … │ [stuffing] │ CRC-32
//! ```
//! Times are 33 bits of 90 kHz on the clock of the pictures' time stamps. What restamps a program adds to `pts_adjustment` and
//! leaves the times as they are, so that a time is the sum of both (§9.6.1).
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

mod words;

use super::Error;
use super::psi;
use crate::time::Ticks;

/// The id of the table.
pub const TABLE_ID: u8 = 0xfc;
/// Bytes of the longest section: 4,093 behind its length (§9.6.1).
pub const SECTION_MAX_BYTES: usize = 4096;
/// Times count modulo this.
pub const TIME_WRAP: u64 = 1 << 33;

const WHAT: &str = "splice_info_section";
/// A command length of older writers: the command itself tells how long it is.
const LENGTH_UNSTATED: usize = 0xfff;
/// The identifier of the descriptors of SCTE 35 itself.
const CUEI: [u8; 4] = *b"CUEI";

/// A cue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpliceInfo {
    /// Is added to all times of the command, modulo 2³³.
    pub pts_adjustment: u64,
    /// Which receivers the cue is for; 0xfff for all.
    pub tier: u16,
    /// What is said.
    pub command: Command,
    /// What is said beside it.
    pub descriptors: Vec<Descriptor>,
}

/// What a cue says (35 §9.7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Nothing: a sign of life.
    Null,
    /// Splices by the wall clock.
    Schedule(Vec<Scheduled>),
    /// The program may be left or is joined again.
    Insert(Insert),
    /// A time, for what the descriptors say.
    TimeSignal {
        /// 33 bits of 90 kHz, without the adjustment; `None`: now.
        time: Option<u64>,
    },
    /// Nothing: room for longer cues.
    BandwidthReservation,
    /// Of a kind that its maker has defined.
    Private {
        /// The maker's number, registered with SMPTE.
        identifier: [u8; 4],
    },
    /// Command and descriptors are encrypted.
    Encrypted {
        /// The number of the algorithm (§11.3).
        algorithm: u8,
    },
    /// Of a type that the standard has reserved.
    Reserved {
        /// The type.
        kind: u8,
    },
}

/// A splice by the wall clock (35 §9.7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// Its number.
    pub event_id: u32,
    /// It will not take place; nothing else is said of it.
    pub cancelled: bool,
    /// The program may be left; otherwise it is joined again.
    pub out_of_network: bool,
    /// When, in seconds since 1980-01-06 by GPS; of several components that of the first.
    pub gps_secs: Option<u32>,
    /// How long the break lasts.
    pub duration: Option<BreakDuration>,
}

/// A place where the program may be left or is joined again (35 §9.7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insert {
    /// Its number.
    pub event_id: u32,
    /// It will not take place; nothing else is said of it.
    pub cancelled: bool,
    /// The program may be left; otherwise it is joined again.
    pub out_of_network: bool,
    /// At once, wherever the cue comes.
    pub immediate: bool,
    /// 33 bits of 90 kHz, without the adjustment; of several components that of the first. `None`: now.
    pub time: Option<u64>,
    /// How long the break lasts.
    pub duration: Option<BreakDuration>,
    /// The program of the break.
    pub program_id: u16,
    /// Which break of the program's, and how many there are; 0 where that is not said.
    pub avail: (u8, u8),
}

/// How long a break lasts (35 §9.8.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakDuration {
    /// 33 bits of 90 kHz.
    pub ticks: u64,
    /// The program is joined again when it is over, without another cue.
    pub auto_return: bool,
}

/// What is said beside the command (35 §10.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Descriptor {
    /// The provider's number of the break.
    Avail {
        /// The number.
        provider_avail_id: u32,
    },
    /// Where a part of the program begins or ends.
    Segmentation(Segmentation),
    /// Another one, which is not looked into.
    Other {
        /// Its tag.
        tag: u8,
        /// Its definer: `CUEI` is SCTE 35 itself.
        identifier: [u8; 4],
    },
}

/// Where a part of the program begins or ends (35 §10.3.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// Its number.
    pub event_id: u32,
    /// It will not take place; nothing else is said of it.
    pub cancelled: bool,
    /// How long the part lasts, 40 bits of 90 kHz.
    pub duration: Option<u64>,
    /// How the part is named: the kind of its identifier (table 22), and the identifier.
    pub upid: (u8, Vec<u8>),
    /// What begins or ends (table 23).
    pub type_id: u8,
    /// Which part, and how many there are; 0 where that is not said.
    pub segment: (u8, u8),
}

/// Whether a splice leaves the program or returns to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It leaves.
    Out,
    /// It returns.
    In,
}

impl Segmentation {
    /// Whether it begins or ends a time that may be spliced into: breaks, advertisements, promotions, placement opportunities
    /// and blocks of advertisements. `None` of programs, chapters, credits and all else.
    pub fn direction(&self) -> Option<Direction> {
        match self.type_id {
            0x22 | 0x30 | 0x32 | 0x34 | 0x36 | 0x38 | 0x3a | 0x3c | 0x3e | 0x44 | 0x46 => {
                Some(Direction::Out)
            }
            0x23 | 0x31 | 0x33 | 0x35 | 0x37 | 0x39 | 0x3b | 0x3d | 0x3f | 0x45 | 0x47 => Some(Direction::In),
            _ => None,
        }
    }
}

/// The field of the adjustment with `distance` added, modulo 2³³; the bits in front of it stay (§9.6.1).
pub(super) fn adjusted(field: [u8; 5], distance: Ticks) -> [u8; 5] {
    let [first, a, b, c, d] = field;
    let before = u64::from(first & 1) << 32 | u64::from(u32::from_be_bytes([a, b, c, d]));
    let moved = Ticks(i64::try_from(before).unwrap_or(0).saturating_add(distance.0)).wrapped();
    let [.., bit, a, b, c, d] = moved.to_be_bytes();
    [first & 0xfe | bit & 1, a, b, c, d]
}

impl SpliceInfo {
    /// Parses a whole section. Stuffing in front of the checksum is passed over.
    ///
    /// # Errors
    /// Where it is another table or of another version, is cut off, has parts that reach beyond it, or its checksum is wrong.
    pub fn parse(section: &[u8]) -> Result<SpliceInfo, Error> {
        let truncated = |expected| Error::Truncated { what: WHAT, found: section.len(), expected };
        let &[table_id, high, low, ..] = section else { return Err(truncated(3)) };
        if table_id != TABLE_ID {
            return Err(Error::Unexpected {
                what: "table id",
                found: table_id.into(),
                expected: TABLE_ID.into(),
            });
        }
        let end = usize::from(u16::from_be_bytes([high & 0x0f, low])).saturating_add(3);
        let whole = section.get(..end).ok_or(truncated(end))?;
        let covered = psi::check_crc(whole, WHAT)?;
        let mut fields = Fields(covered.get(3..).ok_or(truncated(end))?);
        let version = fields.byte()?;
        if version != 0 {
            return Err(Error::Unexpected { what: "protocol version", found: version.into(), expected: 0 });
        }
        let adjusted = fields.number(5)?;
        let pts_adjustment = adjusted & (TIME_WRAP - 1);
        let (encrypted, algorithm) = (adjusted >> 39 & 1 == 1, low_byte(adjusted >> 33 & 0x3f));
        fields.byte()?;
        let packed = fields.number(3)?;
        let tier = low_u16(packed >> 12);
        let length = usize::from(low_u16(packed & 0xfff));
        if encrypted {
            let command = Command::Encrypted { algorithm };
            return Ok(SpliceInfo { pts_adjustment, tier, command, descriptors: Vec::new() });
        }
        let kind = fields.byte()?;
        let command = if length == LENGTH_UNSTATED {
            Command::parse(kind, &mut fields)?
        } else {
            Command::parse(kind, &mut Fields(fields.take(length)?))?
        };
        let length = usize::from(fields.u16()?);
        let descriptors = descriptors(fields.take(length)?)?;
        Ok(SpliceInfo { pts_adjustment, tier, command, descriptors })
    }

    /// When what it says takes place, 33 bits of 90 kHz on the clock of the time stamps: the command's time and the adjustment.
    /// `None`: at once, or nothing does.
    pub fn time(&self) -> Option<u64> {
        let stated = match &self.command {
            Command::Insert(insert) if !insert.cancelled && !insert.immediate => insert.time,
            Command::TimeSignal { time } => *time,
            _ => None,
        };
        stated.map(|time| self.adjusted(time))
    }

    fn adjusted(&self, time: u64) -> u64 {
        time.wrapping_add(self.pts_adjustment) & (TIME_WRAP - 1)
    }

    /// The descriptors that say where parts of the program begin and end.
    pub fn segmentations(&self) -> impl Iterator<Item = &Segmentation> {
        self.descriptors.iter().filter_map(|descriptor| match descriptor {
            Descriptor::Segmentation(segmentation) => Some(segmentation),
            _ => None,
        })
    }
}

fn low_byte(value: u64) -> u8 {
    value.to_be_bytes()[7]
}

fn low_u16(value: u64) -> u16 {
    let [.., high, low] = value.to_be_bytes();
    u16::from_be_bytes([high, low])
}

/// What is left of a structure.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Error> {
        let truncated = Error::Truncated { what: WHAT, found: self.0.len(), expected: bytes };
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    /// A number of up to eight bytes.
    fn number(&mut self, bytes: usize) -> Result<u64, Error> {
        Ok(self.take(bytes)?.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn byte(&mut self) -> Result<u8, Error> {
        self.number(1).map(low_byte)
    }

    fn u16(&mut self) -> Result<u16, Error> {
        self.number(2).map(low_u16)
    }

    fn u32(&mut self) -> Result<u32, Error> {
        let bytes = self.take(4)?;
        Ok(bytes.iter().fold(0, |number, &byte| number << 8 | u32::from(byte)))
    }

    /// `splice_time()` (35 §9.8.1).
    fn time(&mut self) -> Result<Option<u64>, Error> {
        let first = self.byte()?;
        if first & 0x80 == 0 {
            return Ok(None);
        }
        Ok(Some(u64::from(first & 1) << 32 | self.number(4)?))
    }

    fn break_duration(&mut self) -> Result<BreakDuration, Error> {
        let all = self.number(5)?;
        Ok(BreakDuration { ticks: all & (TIME_WRAP - 1), auto_return: all >> 39 & 1 == 1 })
    }
}

impl Command {
    fn parse(kind: u8, fields: &mut Fields<'_>) -> Result<Command, Error> {
        Ok(match kind {
            0x00 => Command::Null,
            0x04 => {
                let count = fields.byte()?;
                Command::Schedule((0..count).map(|_| Scheduled::parse(fields)).collect::<Result<_, _>>()?)
            }
            0x05 => Command::Insert(Insert::parse(fields)?),
            0x06 => Command::TimeSignal { time: fields.time()? },
            0x07 => Command::BandwidthReservation,
            0xff => Command::Private { identifier: fields.u32()?.to_be_bytes() },
            kind => Command::Reserved { kind },
        })
    }
}

impl Scheduled {
    fn parse(fields: &mut Fields<'_>) -> Result<Scheduled, Error> {
        let event_id = fields.u32()?;
        let cancelled = fields.byte()? & 0x80 != 0;
        let mut scheduled =
            Scheduled { event_id, cancelled, out_of_network: false, gps_secs: None, duration: None };
        if cancelled {
            return Ok(scheduled);
        }
        let flags = fields.byte()?;
        scheduled.out_of_network = flags & 0x80 != 0;
        if flags & 0x40 != 0 {
            scheduled.gps_secs = Some(fields.u32()?);
        } else {
            for _ in 0..fields.byte()? {
                fields.byte()?;
                let time = fields.u32()?;
                scheduled.gps_secs.get_or_insert(time);
            }
        }
        if flags & 0x20 != 0 {
            scheduled.duration = Some(fields.break_duration()?);
        }
        // The program's number, the break's, and how many there are.
        fields.take(4)?;
        Ok(scheduled)
    }
}

impl Insert {
    fn parse(fields: &mut Fields<'_>) -> Result<Insert, Error> {
        let event_id = fields.u32()?;
        let cancelled = fields.byte()? & 0x80 != 0;
        let (out_of_network, immediate, time, duration) = (false, false, None, None);
        let mut insert = Insert {
            event_id,
            cancelled,
            out_of_network,
            immediate,
            time,
            duration,
            program_id: 0,
            avail: (0, 0),
        };
        if cancelled {
            return Ok(insert);
        }
        let flags = fields.byte()?;
        insert.out_of_network = flags & 0x80 != 0;
        insert.immediate = flags & 0x10 != 0;
        if flags & 0x40 != 0 {
            if !insert.immediate {
                insert.time = fields.time()?;
            }
        } else {
            for _ in 0..fields.byte()? {
                fields.byte()?;
                let time = if insert.immediate { None } else { fields.time()? };
                insert.time = insert.time.or(time);
            }
        }
        if flags & 0x20 != 0 {
            insert.duration = Some(fields.break_duration()?);
        }
        insert.program_id = fields.u16()?;
        insert.avail = (fields.byte()?, fields.byte()?);
        Ok(insert)
    }
}

/// Reads the loop of descriptors. One that is not of SCTE 35, or that breaks its own syntax, is kept without its content: the
/// command is right all the same.
fn descriptors(bytes: &[u8]) -> Result<Vec<Descriptor>, Error> {
    let mut found = Vec::new();
    let mut fields = Fields(bytes);
    while !fields.0.is_empty() {
        let tag = fields.byte()?;
        let length = usize::from(fields.byte()?);
        let mut body = Fields(fields.take(length)?);
        let Ok(identifier) = body.u32().map(u32::to_be_bytes) else {
            found.push(Descriptor::Other { tag, identifier: [0; 4] });
            continue;
        };
        let own = match tag {
            0 if identifier == CUEI => body.u32().ok().map(|id| Descriptor::Avail { provider_avail_id: id }),
            2 if identifier == CUEI => Segmentation::parse(&mut body).ok().map(Descriptor::Segmentation),
            _ => None,
        };
        found.push(own.unwrap_or(Descriptor::Other { tag, identifier }));
    }
    Ok(found)
}

impl Segmentation {
    fn parse(fields: &mut Fields<'_>) -> Result<Segmentation, Error> {
        let event_id = fields.u32()?;
        let cancelled = fields.byte()? & 0x80 != 0;
        let mut segmentation = Segmentation {
            event_id,
            cancelled,
            duration: None,
            upid: (0, Vec::new()),
            type_id: 0,
            segment: (0, 0),
        };
        if cancelled {
            return Ok(segmentation);
        }
        let flags = fields.byte()?;
        if flags & 0x80 == 0 {
            // Of each component its tag and the offset of its time.
            let count = usize::from(fields.byte()?);
            fields.take(count.saturating_mul(6))?;
        }
        if flags & 0x40 != 0 {
            segmentation.duration = Some(fields.number(5)?);
        }
        let kind = fields.byte()?;
        let length = usize::from(fields.byte()?);
        segmentation.upid = (kind, fields.take(length)?.to_vec());
        segmentation.type_id = fields.byte()?;
        segmentation.segment = (fields.byte()?, fields.byte()?);
        Ok(segmentation)
    }
}

#[cfg(test)]
#[path = "scte35_tests.rs"]
mod tests;
