//! What a sender says of its stages in the stream itself, beside a picture's capture time.
//!
//! ```text
//! version:1=1 clock:1 known:1 │ arrived:v queued:v encoder in:v │ [ago:v] │ first slice:v first sent:v encoded:v muxed:v sent:v
//!                               this picture                      the picture before
//!     [more:1 look-ahead:v]
//!     this picture
//! ```
//! `v` is a number of microseconds after the picture's capture in groups of seven bits, the lowest first, with the high
//! bit set in all but the last: four bytes at most. Bit n of `known` says that the n-th stage of the eight is there;
//! `ago` is there when one of the last five is, and says how long before this picture that one was captured.
//! `more` is there, and is 1, where an encoder with look-ahead made the picture: version 1 of before passes over it.
//! `docs/capture-utc.md` is the format's own page.

use super::{STAGE_LONGEST, Stage, Stamps, UNKNOWN};
use crate::time::{Time, Utc};
use std::time::Duration;

const VERSION: u8 = 1;
/// Bytes of a record at most: four, and ten numbers of four.
pub const RECORD_BYTES_MAX: usize = 4 + 10 * VALUE_BYTES_MAX;
/// Seven bits in each: 268 s in all.
const VALUE_BYTES_MAX: usize = 4;
/// What is known before the picture's first slice leaves.
const OWN: [Stage; 3] = [Stage::Arrived, Stage::Queued, Stage::EncoderIn];
/// What is known before it, too, of an encoder with look-ahead; it stands behind all else.
const MORE: [Stage; 1] = [Stage::LookAhead];
/// What is known only behind it, and is said with the next picture.
const BEHIND: [Stage; 5] = [Stage::FirstSlice, Stage::FirstSent, Stage::Encoded, Stage::Muxed, Stage::Sent];

/// What a sender says of a picture and of the one that it sent before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// How right the sender's wall clock is, of which the capture time is.
    pub clock: ClockAccuracy,
    /// The picture's stages before its first slice, on a clock that is zero at its capture.
    pub own: Stamps,
    /// Of the picture before.
    pub previous: Option<Previous>,
}

/// What is said of the picture before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Previous {
    /// So long before this picture it was captured, in whole microseconds.
    pub ago: Duration,
    /// Its stages from the first slice on, on a clock that is zero at its capture.
    pub stages: Stamps,
}

/// How far a wall clock may be from UTC, as its system estimates it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockAccuracy {
    /// It is not known.
    #[default]
    Unknown,
    /// Nothing keeps it: it runs free.
    Unsynchronised,
    /// Nearer than this; on the wire the next power of two of microseconds.
    Within(Duration),
}

impl ClockAccuracy {
    const UNSYNCHRONISED: u8 = 255;
    /// 2^31 µs: 36 minutes.
    const COARSEST: u8 = 32;

    /// The byte on the wire: 0 is unknown, 255 runs free, n from 1 to 32 is within 2^(n - 1) µs.
    pub fn code(self) -> u8 {
        match self {
            ClockAccuracy::Unknown => 0,
            ClockAccuracy::Unsynchronised => Self::UNSYNCHRONISED,
            ClockAccuracy::Within(error) => {
                let micros = error.as_nanos().div_ceil(1000).max(1);
                let exponent = micros.checked_next_power_of_two().map_or(u32::MAX, u128::trailing_zeros);
                if exponent < u32::from(Self::COARSEST) { exponent as u8 + 1 } else { Self::UNSYNCHRONISED }
            }
        }
    }

    /// What the byte says; unknown where no version of ours writes it.
    pub const fn from_code(code: u8) -> ClockAccuracy {
        match code {
            1..=Self::COARSEST => ClockAccuracy::Within(Duration::from_micros(1 << (code - 1))),
            Self::UNSYNCHRONISED => ClockAccuracy::Unsynchronised,
            _ => ClockAccuracy::Unknown,
        }
    }
}

impl Record {
    /// Reads the record at the front of `bytes`; what stands behind it is left to later versions. `None` where it is cut off,
    /// or of another version. A stage beyond [`STAGE_LONGEST`] is unknown.
    pub fn parse(bytes: &[u8]) -> Option<Record> {
        let (&[VERSION, clock, known], mut rest) = bytes.split_first_chunk()? else { return None };
        let mut own = stages(&OWN, known, &mut rest)?;
        let mut previous = None;
        let behind = known >> OWN.len();
        if behind != 0 {
            let ago = value(&mut rest)?;
            let stages = stages(&BEHIND, behind, &mut rest)?;
            previous = Some(Previous { ago, stages }).filter(|_| !ago.is_zero() && ago <= STAGE_LONGEST);
        }
        if let Some((&more, mut tail)) = rest.split_first()
            && more == MORE_KNOWN
            && let Some(stamps) = stages(&MORE, more, &mut tail)
        {
            own = own.or(&stamps);
        }
        Some(Record { clock: ClockAccuracy::from_code(clock), own, previous })
    }

    /// All stages of a picture that its sender tells, on a clock that is zero at the capture. The first ones are in this record,
    /// which came with the picture itself, captured at `captured`; the later ones are in `next`, which came with the picture
    /// that was captured at `next_captured`. `None` where `next` is about another picture: one between them was lost.
    pub fn with_next(&self, captured: Utc, next: &Record, next_captured: Utc) -> Option<Stamps> {
        let previous = next.previous?;
        let before = next_captured.as_nanos().checked_sub(previous.ago.as_nanos() as u64)?;
        // The time between is in whole microseconds, rounded down.
        let is_ours = before.checked_sub(captured.as_nanos()).is_some_and(|off| off < 1000);
        is_ours.then(|| self.own.or(&previous.stages))
    }

    /// Appends the record: [`RECORD_BYTES_MAX`] bytes at most. Stages before the capture, or longer behind it than
    /// [`STAGE_LONGEST`], are left out.
    pub fn write(&self, out: &mut Vec<u8>) {
        let at = out.len();
        out.extend_from_slice(&[VERSION, self.clock.code(), 0]);
        let mut known = write_stages(&OWN, &self.own, out);
        let is_near = |previous: &&Previous| {
            previous.ago <= STAGE_LONGEST && previous.ago.as_micros() > 0 && holds(&previous.stages)
        };
        if let Some(previous) = self.previous.as_ref().filter(is_near) {
            write_value(previous.ago, out);
            known |= write_stages(&BEHIND, &previous.stages, out) << OWN.len();
        }
        out[at + 2] = known;
        if after(&self.own, Stage::LookAhead).is_some() {
            out.push(MORE_KNOWN);
            write_stages(&MORE, &self.own, out);
        }
    }
}

/// What stands in front of [`MORE`]: the one stage is known.
const MORE_KNOWN: u8 = 1;

/// How long after capture the stage was passed, if that can be told.
fn after(stamps: &Stamps, stage: Stage) -> Option<Duration> {
    stamps.between(Stage::Captured, stage)
}

/// Whether one of the stages of the picture before can be told.
fn holds(stamps: &Stamps) -> bool {
    BEHIND.iter().any(|stage| after(stamps, *stage).is_some())
}

fn stages(of: &[Stage], known: u8, rest: &mut &[u8]) -> Option<Stamps> {
    let mut stamps = Stamps::captured_at(Time::ZERO);
    for (bit, stage) in of.iter().enumerate().filter(|(bit, _)| known & 1 << bit != 0) {
        debug_assert!(bit < 8, "a byte says which are known");
        let after = value(rest)?;
        stamps.set(*stage, if after <= STAGE_LONGEST { Time::ZERO + after } else { UNKNOWN });
    }
    Some(stamps)
}

/// Appends what is known, and tells it as bits.
fn write_stages(of: &[Stage], stamps: &Stamps, out: &mut Vec<u8>) -> u8 {
    let mut known = 0;
    for (bit, stage) in of.iter().enumerate() {
        if let Some(after) = after(stamps, *stage) {
            write_value(after, out);
            known |= 1 << bit;
        }
    }
    known
}

fn value(rest: &mut &[u8]) -> Option<Duration> {
    let mut micros = 0;
    for place in 0..VALUE_BYTES_MAX {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        micros |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            return Some(Duration::from_micros(micros));
        }
    }
    None
}

fn write_value(time: Duration, out: &mut Vec<u8>) {
    let mut micros = time.as_micros().min((1 << (7 * VALUE_BYTES_MAX)) - 1);
    while micros >= 0x80 {
        out.push(micros as u8 | 0x80);
        micros >>= 7;
    }
    out.push(micros as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bitstream::h264;
    use proptest::prelude::*;

    fn micros(stage: Stage, value: u64) -> (Stage, Time) {
        (stage, Time::from_nanos(value * 1000))
    }

    fn stamps(all: &[(Stage, Time)]) -> Stamps {
        all.iter().fold(Stamps::captured_at(Time::ZERO), |stamps, (stage, time)| stamps.with(*stage, *time))
    }

    #[test]
    fn the_bytes_are_those_of_the_manual() {
        let own = stamps(&[micros(Stage::Queued, 5), micros(Stage::EncoderIn, 300)]);
        let stages = stamps(&[micros(Stage::FirstSlice, 4_000), micros(Stage::Sent, 20_000)]);
        let previous = Some(Previous { ago: Duration::from_millis(20), stages });
        let record = Record { clock: ClockAccuracy::Within(Duration::from_micros(900)), own, previous };
        let mut bytes = Vec::new();
        record.write(&mut bytes);
        let ago = [0xa0, 0x9c, 0x01];
        let expected = [&[1, 11, 0b1000_1110, 5, 0xac, 0x02][..], &ago, &[0xa0, 0x1f], &ago].concat();
        assert_eq!(bytes, expected);
        let manual = include_str!("../../../../docs/capture-utc.md");
        let hex: String = expected.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(manual.contains(&hex), "docs/capture-utc.md lacks {hex}");
        let read = Record::parse(&bytes).unwrap();
        assert_eq!(read, Record { clock: ClockAccuracy::Within(Duration::from_micros(1024)), ..record });
    }

    #[test]
    fn a_pictures_stages_are_those_of_its_record_and_of_the_next_one() {
        let own = stamps(&[micros(Stage::Queued, 5)]);
        let record = Record { own, ..Record::default() };
        let previous =
            Previous { ago: Duration::from_micros(20_000), stages: stamps(&[micros(Stage::Sent, 900)]) };
        let next = Record { previous: Some(previous), ..Record::default() };
        let captured = Utc::from_nanos(1_000_000_999);
        let said = |off: u64| record.with_next(captured, &next, Utc::from_nanos(1_020_000_999 + off));
        assert_eq!(said(0), Some(own.with(Stage::Sent, Time::from_nanos(900_000))));
        assert!(said(999).is_some() && said(1000).is_none(), "the time between is rounded down");
        assert_eq!(record.with_next(captured, &record, captured), None);
        assert_eq!(record.with_next(captured, &next, Utc::from_nanos(0)), None);
    }

    #[test]
    fn another_version_is_passed_over_and_what_is_behind_too() {
        let mut bytes = Vec::new();
        Record::default().write(&mut bytes);
        assert_eq!(bytes, [1, 0, 0]);
        let empty = Record { own: Stamps::captured_at(Time::ZERO), ..Record::default() };
        assert_eq!(Record::parse(&[1, 0, 0, 7, 7]), Some(empty));
        // One that is cut off behind what version 1 has always had, or says what a later version says.
        for behind in [&[1][..], &[1, 0x80], &[3, 5]] {
            assert_eq!(Record::parse(&[&[1, 0, 0], behind].concat()), Some(empty));
        }
        assert_eq!(Record::parse(&[2, 0, 0]), None);
        assert_eq!(Record::parse(&[]), None);
    }

    #[test]
    fn what_is_no_stage_of_a_live_picture_is_unknown() {
        // Queued 67 s after capture, and a picture before this one that was captured with it.
        let read = Record::parse(&[1, 0, 0b0000_1010, 0xff, 0xff, 0xff, 0x1f, 0, 9]).unwrap();
        assert_eq!((read.own.at(Stage::Queued), read.previous), (None, None));
        // A number of five bytes.
        assert_eq!(Record::parse(&[1, 0, 2, 0x80, 0x80, 0x80, 0x80, 0x01]), None);
        let early = Stamps::captured_at(Time::from_millis(5)).with(Stage::Arrived, Time::from_millis(4));
        let mut bytes = Vec::new();
        Record { own: early, ..Record::default() }.write(&mut bytes);
        assert_eq!(bytes, [1, 0, 0]);
    }

    #[test]
    fn the_accuracy_is_never_told_better_than_it_is() {
        assert_eq!(ClockAccuracy::Within(Duration::ZERO).code(), 1);
        assert_eq!(ClockAccuracy::Within(Duration::from_micros(1)).code(), 1);
        assert_eq!(ClockAccuracy::Within(Duration::from_nanos(1_001)).code(), 2);
        assert_eq!(ClockAccuracy::Within(Duration::MAX).code(), 255);
        for code in 0..=255 {
            let accuracy = ClockAccuracy::from_code(code);
            assert!(accuracy == ClockAccuracy::Unknown || accuracy.code() == code, "{code}");
        }
    }

    fn any_stamps() -> impl Strategy<Value = Stamps> {
        let micros = prop_oneof![0u64..4, 0u64..100_000, any::<u64>().prop_map(|value| value % 80_000_000)];
        let known = proptest::option::of(micros);
        proptest::collection::vec(known, Stage::ALL.len()).prop_map(|all| {
            let mut stamps = Stamps::captured_at(Time::ZERO);
            for (stage, micros) in Stage::ALL.into_iter().zip(all).skip(1) {
                if let Some(micros) = micros {
                    stamps.set(stage, Time::from_nanos(micros * 1000));
                }
            }
            stamps
        })
    }

    fn only(stages: &[Stage], stamps: &Stamps) -> Stamps {
        let known = stages.iter().filter(|stage| after(stamps, **stage).is_some());
        known.fold(Stamps::captured_at(Time::ZERO), |only, stage| {
            only.with(*stage, stamps.at(*stage).unwrap())
        })
    }

    proptest! {
        #[test]
        fn what_can_be_told_survives_in_forty_six_bytes_of_the_stream(
            own in any_stamps(),
            behind in any_stamps(),
            ago in proptest::option::of(0u64..70_000_000),
            clock: u8,
            captured: u64,
        ) {
            let clock = ClockAccuracy::from_code(clock);
            let previous = ago.map(|ago| Previous { ago: Duration::from_micros(ago), stages: behind });
            let mut bytes = Vec::new();
            Record { clock, own, previous }.write(&mut bytes);
            prop_assert!(bytes.len() <= RECORD_BYTES_MAX);
            let told = previous
                .filter(|before| !before.ago.is_zero() && before.ago <= STAGE_LONGEST && holds(&behind));
            let told = told.map(|before| Previous { stages: only(&BEHIND, &behind), ..before });
            let expected = Record { clock, own: only(&OWN, &own).or(&only(&MORE, &own)), previous: told };
            prop_assert_eq!(Record::parse(&bytes), Some(expected));
            let without_more = own.at(Stage::LookAhead).map_or(own, |_| only(&OWN, &own));
            let mut first = Vec::new();
            Record { clock, own: without_more, previous }.write(&mut first);
            prop_assert_eq!(&bytes[..first.len()], &first[..]);
            for length in 0..first.len() {
                prop_assert_eq!(Record::parse(&bytes[..length]), None);
            }
            let (mut with, mut without) = (Vec::new(), Vec::new());
            let time = captured.to_be_bytes();
            h264::escape(&[&time[..], &bytes, &[0x80]].concat(), &mut with);
            h264::escape(&[&time[..], &[0x80]].concat(), &mut without);
            prop_assert!(with.len() <= without.len() + 46, "{} bytes", with.len() - without.len());
        }

        #[test]
        fn any_bytes_are_a_record_that_can_be_told_again_or_none(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            is_ours: bool,
        ) {
            let bytes = if is_ours { [&[VERSION][..], &bytes].concat() } else { bytes };
            if let Some(record) = Record::parse(&bytes) {
                let mut again = Vec::new();
                record.write(&mut again);
                let read = Record::parse(&again).unwrap();
                prop_assert_eq!((read.own, read.clock), (record.own, record.clock));
            }
        }
    }
}
