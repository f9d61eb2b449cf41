//! The messages that a direct video's two ends exchange, on channels of the link: it encrypts them, so nothing here defends
//! against anybody but the peer.
//!
//! ```text
//! picture   version:1=1 flags:1 epoch:4 number:v back:v kept:v target:8 captured:v [rate:v+v] [size:v+v] [slot:1]
//!           stamps:1+n frame:rest
//!           flags     bit 0: it needs no other (a key frame); bit 4: size is there; bit 5: the frame is AV1, and slot is
//!                     there; the others are 0. Bits 1 to 3 are those of access units, which come on the same channel
//!                     (`coded::wire`)
//!           epoch     names one run of the sender; its numbers and states mean nothing in another one
//!           number    of the picture, from 0, one more for each that was sent
//!           back      number less that of the source, the picture with the state that it is coded against; 0 for none
//!           kept      number less that of the oldest picture with a state that the sender may still code against
//!           target    the first 8 bytes of the hash of the state behind it; with AV1, of its picture
//!           captured  UTC in microseconds
//!           rate      of a key frame alone: pictures a second of the source, as a fraction
//!           size      width and height. Of a key frame: the size at which to show its pictures and those behind it, where
//!                     that is not its own. Of another: at which size it is coded, where its source state has another one,
//!                     which is resampled first (`codec::vp8::State::resampled`)
//!           slot      the decoder's slot (0 to 7) that the frame overwrites, of which state it then is; a key frame overwrites
//!                     all, and 0 stands here. A slot that was overwritten since is no state any more
//!           stamps    bytes of the block, then version:1=1 and for each stage passed since: stage:1 microseconds:v since
//!                     capture. A receiver that does not know the version passes over the block.
//!           frame     VP8 (RFC 6386), or a temporal unit of AV1
//! report    version:1=1 flags:1 epoch:4 newest:v [decoded:v hash:8 held:v] [lacking:v source:v] shown:v passed:v
//!           [asked:v [codecs:1]]
//!           flags     bit 0: decoded, hash and held are there; bit 1: lacking and source are there
//!           newest    number of the newest picture that came whole, plus 1; 0 for none
//!           decoded   number of the newest picture that was decoded, and its state's hash, and how many states are held
//!           lacking   number of the newest picture that could not be decoded for want of its source state, and of that
//!           shown     pictures that were shown since the sender's run began
//!           passed    pictures that came whole and were not shown
//!           asked     there where a key frame is asked for, or codecs is there; 0: none is asked for; number plus 1 of the newest picture that had come when it was.
//!                     Each report says it again until a key frame with a larger number is decoded. A sender that does not
//!                     know it passes over it, as over all that follows the fields that it knows
//!           codecs    there where the receiver takes one codec alone: 1 VP8, 2 AV1; any other number: each
//! ```
//! `v` is an integer of variable length (RFC 9000 §16); other numbers are big-endian.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use glassline_codec::vp8::StateHash;
use glassline_media::stamps::STAGE_LONGEST;
use glassline_media::{FrameRate, Size, Stage, Stamps, Time, Utc};
use glassline_transport::link::wire::varint::{self, Reader};
use std::time::Duration;
use thiserror::Error;

const VERSION: u8 = 1;
const STAMPS_VERSION: u8 = 1;
const KEY: u8 = 1;
const SIZE: u8 = 16;
const AV1: u8 = 32;
const DECODED: u8 = 1;
const LACKING: u8 = 2;

/// Why a message is none of this format.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireError {
    /// It is of a version that is not known here.
    #[error("a message of version {found}; version 1 is known here: bring both ends to one version")]
    Version {
        /// Its version.
        found: u8,
    },
    /// It ends early, or a value makes no sense.
    #[error("a message in which the {what} is missing or makes no sense")]
    Malformed {
        /// What is wrong.
        what: &'static str,
    },
}

/// The first bytes of a state's hash: enough to notice that two ends do not have the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateTag(pub [u8; 8]);

impl StateTag {
    /// The first bytes of a hash.
    pub(crate) fn first_of(hash: [u8; 16]) -> StateTag {
        StateTag(std::array::from_fn(|index| hash[index]))
    }
}

impl From<StateHash> for StateTag {
    fn from(hash: StateHash) -> StateTag {
        StateTag::first_of(hash.to_bytes())
    }
}

/// What a frame is coded with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameCodec {
    /// VP8.
    #[default]
    Vp8,
    /// AV1.
    Av1 {
        /// The decoder's slot that it overwrites, 0 to 7; a key frame overwrites all.
        slot: u8,
    },
}

/// Stamps of a picture of which no stage but the capture is known, on a clock that is zero at that.
pub(crate) fn no_stages() -> Stamps {
    Stamps::captured_at(Time::ZERO)
}

/// Appends the block of stamps: what of `stamps` was passed behind capture.
pub(crate) fn write_stamps(stamps: &Stamps, out: &mut Vec<u8>) {
    let mut block = vec![STAMPS_VERSION];
    for stage in Stage::ALL {
        if let Some(after) = stamps.between(Stage::Captured, stage).filter(|_| stage != Stage::Captured) {
            block.push(stage.code());
            varint::write(after.as_micros().min(0xFFFF_FFFF) as u64, &mut block);
        }
    }
    // Eighteen stages of nine bytes at most.
    out.push(u8::try_from(block.len()).unwrap_or(u8::MAX));
    out.append(&mut block);
}

/// Reads a block of stamps, onto a clock that is zero at the capture; one of another version tells nothing.
pub(crate) fn parse_stamps(reader: &mut Reader<'_>) -> Option<Stamps> {
    let count = reader.byte()?;
    let mut block = Reader::new(reader.bytes(usize::from(count))?);
    let mut stamps = no_stages();
    if block.byte() != Some(STAMPS_VERSION) {
        return Some(stamps);
    }
    while !block.is_empty() {
        let code = block.byte()?;
        let after = Duration::from_micros(block.varint()?);
        // A stage of a later version is passed over, and what is no time of a live picture is unknown.
        if let Some(stage) = Stage::from_code(code)
            && stage != Stage::Captured
            && after <= STAGE_LONGEST
        {
            stamps.set(stage, Time::ZERO + after);
        }
    }
    Some(stamps)
}

/// What stands in front of an encoded picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureHeader {
    /// Names one run of the sender.
    pub epoch: u32,
    /// The picture's number in it.
    pub number: u64,
    /// The picture with the state that it is coded against; `None`: it needs no other.
    pub source: Option<u64>,
    /// The oldest picture with a state that may still be coded against.
    pub kept: u64,
    /// The state behind it.
    pub target: StateTag,
    /// When it was captured.
    pub captured: Utc,
    /// The source's pictures a second; known of key frames, those without a source.
    pub rate: Option<FrameRate>,
    /// Of a key frame: the size at which to show its pictures and those behind it, where it is not the frame's own. Of another:
    /// the size at which it is coded, where its source state has another one, which the receiver resamples first.
    pub size: Option<Size>,
    /// What the frame is coded with.
    pub codec: FrameCodec,
    /// The stages that it has passed since, on a clock that is zero at its capture.
    pub passed: Stamps,
}

/// The longest side of a picture that VP8 codes.
const SIDE_MAX: u32 = (1 << 14) - 1;

/// The largest number of a picture: at a thousand a second, for a hundred thousand years.
pub(crate) const NUMBER_MAX: u64 = 1 << 52;

impl PictureHeader {
    /// The most bytes that [`PictureHeader::write`] makes.
    pub const BYTES_MAX: usize = 2 + 4 + 3 * 8 + 8 + 8 + 2 * 8 + 2 * 8 + 1 + 2 + 8 * 9;
    /// About what it makes of a picture that is coded against another.
    pub(crate) const BYTES_USUAL: usize = 60;

    /// Appends the header; the frame follows.
    pub fn write(&self, out: &mut Vec<u8>) {
        let flag = |is: bool, flag| if is { flag } else { 0 };
        let flags = flag(self.source.is_none(), KEY) | flag(self.size.is_some(), SIZE);
        let flags = flags | flag(self.codec != FrameCodec::Vp8, AV1);
        out.extend_from_slice(&[VERSION, flags]);
        out.extend_from_slice(&self.epoch.to_be_bytes());
        varint::write(self.number, out);
        varint::write(self.source.map_or(0, |source| self.number.saturating_sub(source)), out);
        varint::write(self.number.saturating_sub(self.kept), out);
        out.extend_from_slice(&self.target.0);
        varint::write(self.captured.as_micros(), out);
        if self.source.is_none() {
            let (numerator, denominator) =
                self.rate.map_or((0, 1), |rate| (rate.numerator(), rate.denominator()));
            varint::write(numerator.into(), out);
            varint::write(denominator.into(), out);
        }
        if let Some(size) = self.size {
            varint::write(size.width.into(), out);
            varint::write(size.height.into(), out);
        }
        if let FrameCodec::Av1 { slot } = self.codec {
            out.push(slot);
        }
        write_stamps(&self.passed, out);
    }

    /// Reads a message: its header and the frame behind it.
    ///
    /// # Errors
    /// Another version, or no such message.
    pub fn parse(message: &[u8]) -> Result<(PictureHeader, &[u8]), WireError> {
        let missing = |what| WireError::Malformed { what };
        let mut reader = Reader::new(message);
        let flags = version(&mut reader)?;
        let epoch = u32::from_be_bytes(reader.array().ok_or(missing("epoch"))?);
        let number = reader.varint_up_to(NUMBER_MAX).ok_or(missing("number"))?;
        let back = reader.varint_up_to(number).ok_or(missing("source"))?;
        let kept =
            reader.varint().and_then(|kept| number.checked_sub(kept)).ok_or(missing("oldest source"))?;
        let source = match (flags & !(SIZE | AV1), back) {
            (KEY, 0) => None,
            (0, 1..) => {
                let source = number.checked_sub(back).filter(|source| *source >= kept);
                Some(source.ok_or(missing("source"))?)
            }
            _ => return Err(missing("source")),
        };
        let target = StateTag(reader.array().ok_or(missing("target state"))?);
        let captured = Utc::from_micros(reader.varint_up_to(NUMBER_MAX).ok_or(missing("time of capture"))?);
        let mut rate = None;
        if source.is_none() {
            let mut part = || reader.u32_up_to(u32::MAX).ok_or(missing("frame rate"));
            // None where it is 0.
            rate = FrameRate::new(part()?, part()?);
        }
        let mut size = None;
        if flags & SIZE != 0 {
            let mut side = || reader.u32_up_to(SIDE_MAX).ok_or(missing("size"));
            let (width, height) = (side()?, side()?);
            size = Some(Size::new(width, height).map_err(|_| missing("size"))?);
        }
        let codec = match flags & AV1 {
            0 => FrameCodec::Vp8,
            _ => {
                let is_there = |slot: &u8| *slot < 8 && (source.is_some() || *slot == 0);
                FrameCodec::Av1 { slot: reader.byte().filter(is_there).ok_or(missing("slot"))? }
            }
        };
        let passed = parse_stamps(&mut reader).ok_or(missing("block of stamps"))?;
        let header =
            PictureHeader { epoch, number, source, kept, target, captured, rate, size, codec, passed };
        Ok((header, reader.take_rest()))
    }
}

/// The newest picture that a receiver has decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodedPicture {
    /// Its number.
    pub number: u64,
    /// The state behind it.
    pub state: StateTag,
    /// States that the receiver holds.
    pub held: u64,
}

/// A picture that a receiver could not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LackingPicture {
    /// Its number.
    pub number: u64,
    /// The picture with the state that it would need; its own number where it was damaged itself.
    pub source: u64,
}

/// Which pictures a receiver takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TakenCodecs {
    /// Of any codec.
    #[default]
    Any,
    /// VP8: it has no decoder of AV1, or its output has begun with pictures that are encoded again.
    Vp8,
    /// AV1: its output has begun with frames as they come.
    Av1,
}

impl TakenCodecs {
    fn code(self) -> Option<u8> {
        match self {
            TakenCodecs::Any => None,
            TakenCodecs::Vp8 => Some(1),
            TakenCodecs::Av1 => Some(2),
        }
    }

    fn of_code(code: Option<u8>) -> TakenCodecs {
        match code {
            Some(1) => TakenCodecs::Vp8,
            Some(2) => TakenCodecs::Av1,
            _ => TakenCodecs::Any,
        }
    }
}

/// What a receiver says of what came; each says all, so that only the newest one counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Of which run of the sender.
    pub epoch: u32,
    /// The newest picture that came whole.
    pub newest: Option<u64>,
    /// The newest that was decoded.
    pub decoded: Option<DecodedPicture>,
    /// The newest that could not be decoded: its source state is not there, or it was damaged.
    pub lacking: Option<LackingPicture>,
    /// Pictures that were shown.
    pub shown: u64,
    /// Pictures that came whole and were not shown.
    pub passed: u64,
    /// A key frame is asked for that is newer than this picture, the newest that had come by then.
    pub key_after: Option<u64>,
    /// Which pictures are taken.
    pub codecs: TakenCodecs,
}

impl Report {
    /// Pictures that came whole.
    pub fn came(&self) -> u64 {
        self.shown.saturating_add(self.passed)
    }

    /// The message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let flag = |is: bool, flag| if is { flag } else { 0 };
        let flags = flag(self.decoded.is_some(), DECODED) | flag(self.lacking.is_some(), LACKING);
        let mut out = vec![VERSION, flags];
        out.extend_from_slice(&self.epoch.to_be_bytes());
        varint::write(self.newest.map_or(0, |newest| newest.saturating_add(1)), &mut out);
        if let Some(decoded) = self.decoded {
            varint::write(decoded.number, &mut out);
            out.extend_from_slice(&decoded.state.0);
            varint::write(decoded.held, &mut out);
        }
        if let Some(lacking) = self.lacking {
            varint::write(lacking.number, &mut out);
            varint::write(lacking.source, &mut out);
        }
        varint::write(self.shown, &mut out);
        varint::write(self.passed, &mut out);
        let codecs = self.codecs.code();
        if self.key_after.is_some() || codecs.is_some() {
            varint::write(self.key_after.map_or(0, |number| number.saturating_add(1)), &mut out);
        }
        out.extend(codecs);
        out
    }

    /// Reads a message. What follows it is of a later version and does not matter.
    ///
    /// # Errors
    /// Another version, or no such message.
    pub fn parse(message: &[u8]) -> Result<Report, WireError> {
        let missing = |what| WireError::Malformed { what };
        let mut reader = Reader::new(message);
        let flags = version(&mut reader)?;
        if flags & !(DECODED | LACKING) != 0 {
            return Err(missing("flags"));
        }
        let epoch = u32::from_be_bytes(reader.array().ok_or(missing("epoch"))?);
        let newest = reader.varint_up_to(NUMBER_MAX + 1).ok_or(missing("newest picture"))?.checked_sub(1);
        let mut number = |what| reader.varint_up_to(NUMBER_MAX).ok_or(missing(what));
        let decoded = if flags & DECODED != 0 { Some(number("decoded picture")?) } else { None };
        let decoded = match decoded {
            Some(number) => {
                let state = StateTag(reader.array().ok_or(missing("state"))?);
                let held = reader.varint().ok_or(missing("number of states"))?;
                Some(DecodedPicture { number, state, held })
            }
            None => None,
        };
        let mut number = |what| reader.varint_up_to(NUMBER_MAX).ok_or(missing(what));
        let lacking = if flags & LACKING != 0 {
            Some(LackingPicture { number: number("lacking picture")?, source: number("lacking source")? })
        } else {
            None
        };
        let (shown, passed) =
            (number("number of shown pictures")?, number("number of pictures passed over")?);
        // Reports of versions that ask for no key frames end here.
        let key_after = if reader.is_empty() {
            None
        } else {
            reader
                .varint_up_to(NUMBER_MAX + 1)
                .ok_or(missing("picture behind which a key frame is asked for"))?
                .checked_sub(1)
        };
        let codecs = TakenCodecs::of_code(reader.byte());
        Ok(Report { epoch, newest, decoded, lacking, shown, passed, key_after, codecs })
    }
}

/// Takes version and flags.
pub(crate) fn version(reader: &mut Reader<'_>) -> Result<u8, WireError> {
    match reader.array() {
        Some([VERSION, flags]) => Ok(flags),
        Some([found, _]) => Err(WireError::Version { found }),
        None => Err(WireError::Malformed { what: "version" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn passed() -> impl Strategy<Value = Stamps> {
        let micros = proptest::option::of(0..STAGE_LONGEST.as_micros() as u64);
        proptest::collection::vec(micros, Stage::ALL.len()).prop_map(|all| {
            let mut stamps = no_stages();
            for (stage, micros) in Stage::ALL.into_iter().zip(all).skip(1) {
                if let Some(micros) = micros {
                    stamps.set(stage, Time::ZERO + Duration::from_micros(micros));
                }
            }
            stamps
        })
    }

    fn header() -> impl Strategy<Value = PictureHeader> {
        let numbers = (0..NUMBER_MAX, 0..300u64, 0..300u64, any::<bool>());
        let size = proptest::option::of((1..1u32 << 14, 1..1u32 << 14));
        let slot = proptest::option::of(0..8u8);
        (any::<u32>(), numbers, any::<[u8; 8]>(), 0..NUMBER_MAX, (passed(), size, slot)).prop_map(
            |(epoch, (number, back, kept, key), target, captured, (passed, size, slot))| {
                let kept = number.saturating_sub(back + kept);
                let source = (!key && number > 0).then(|| number.saturating_sub(back.max(1)).max(kept));
                let source = source.filter(|source| *source < number);
                let (target, captured) = (StateTag(target), Utc::from_micros(captured));
                let rate = FrameRate::new(30_000, 1001).filter(|_| source.is_none());
                let size = size.and_then(|(width, height)| Size::new(width, height).ok());
                let codec = slot.map_or(FrameCodec::Vp8, |slot| FrameCodec::Av1 {
                    slot: if source.is_some() { slot } else { 0 },
                });
                PictureHeader { epoch, number, source, kept, target, captured, rate, size, codec, passed }
            },
        )
    }

    fn report() -> impl Strategy<Value = Report> {
        let number = || 0..NUMBER_MAX;
        let decoded = (number(), any::<[u8; 8]>(), 0..1000u64)
            .prop_map(|(number, state, held)| DecodedPicture { number, state: StateTag(state), held });
        let lacking = (number(), number()).prop_map(|(number, source)| LackingPicture { number, source });
        let options = (proptest::option::of(number()), proptest::option::of(decoded));
        let codecs = prop_oneof![Just(TakenCodecs::Any), Just(TakenCodecs::Vp8), Just(TakenCodecs::Av1)];
        let wishes = (proptest::option::of(number()), codecs);
        (any::<u32>(), options, proptest::option::of(lacking), number(), number(), wishes).prop_map(
            |(epoch, (newest, decoded), lacking, shown, passed, (key_after, codecs))| Report {
                epoch,
                newest,
                decoded,
                lacking,
                shown,
                passed,
                key_after,
                codecs,
            },
        )
    }

    proptest! {
        #[test]
        fn a_picture_comes_as_it_was_sent(header in header(), frame in proptest::collection::vec(any::<u8>(), 0..50)) {
            let mut message = Vec::new();
            header.write(&mut message);
            prop_assert!(message.len() <= PictureHeader::BYTES_MAX);
            prop_assert!(!crate::coded::is_unit(&message));
            let head = message.len();
            message.extend_from_slice(&frame);
            prop_assert_eq!(PictureHeader::parse(&message), Ok((header, &frame[..])));
            for cut in 0..head {
                prop_assert!(PictureHeader::parse(&message[..cut]).is_err());
            }
        }

        #[test]
        fn a_report_comes_as_it_was_sent(report in report()) {
            let message = report.to_bytes();
            prop_assert_eq!(Report::parse(&message), Ok(report));
            // What versions wrote that ask for no key frames.
            let earlier = Report { key_after: None, codecs: TakenCodecs::Any, ..report };
            let head = earlier.to_bytes();
            prop_assert!(message.starts_with(&head));
            // Of versions that take each codec.
            let of_any = Report { codecs: TakenCodecs::Any, ..report };
            for cut in 0..message.len() {
                let is_of_any = report.codecs != TakenCodecs::Any && cut + 1 == message.len();
                let expected = Some(earlier).filter(|_| cut == head.len());
                let expected = if is_of_any { Some(of_any) } else { expected };
                prop_assert_eq!(Report::parse(&message[..cut]).ok(), expected);
            }
            // What a later version puts behind it does not matter.
            if report.codecs != TakenCodecs::Any {
                prop_assert_eq!(Report::parse(&[&message[..], &[0xff; 9]].concat()), Ok(report));
            }
        }

        #[test]
        fn anything_else_is_refused_or_makes_sense(message in proptest::collection::vec(any::<u8>(), 0..80)) {
            let message = [&[1, message.first().copied().unwrap_or(0) & (KEY | SIZE | AV1)][..], &message].concat();
            if let Ok((header, _)) = PictureHeader::parse(&message) {
                prop_assert!(header.kept <= header.source.unwrap_or(header.number));
                prop_assert!(header.source.is_none_or(|source| source < header.number));
            }
            let _ = Report::parse(&message);
        }
    }

    #[test]
    fn another_version_is_told_as_such_and_stamps_of_a_later_one_are_passed_over() {
        assert_eq!(PictureHeader::parse(&[2, 0, 0]), Err(WireError::Version { found: 2 }));
        assert_eq!(Report::parse(&[9, 0]), Err(WireError::Version { found: 9 }));
        let mut message = vec![1, 1, 0, 0, 0, 7, 5, 0, 2];
        message.extend_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        message.extend_from_slice(&[9, 25, 1, 4, 2, 0xaa, 0xbb, 0xcc, b'x']);
        let (header, frame) = PictureHeader::parse(&message).unwrap();
        assert_eq!((header.number, header.kept, header.source, frame), (5, 3, None, &b"x"[..]));
        assert_eq!((header.passed, header.rate), (no_stages(), FrameRate::new(25, 1)));
    }
}
