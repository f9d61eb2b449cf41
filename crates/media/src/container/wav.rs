//! RIFF/WAVE: samples behind a header (Microsoft's "Multiple channel audio data and WAVE files"; RF64 as in EBU
//! Tech 3306, BW64 as in ITU-R BS.2088).
//!
//! ```text
//! RIFF size "WAVE" │ fmt␠ size … │ LIST size … │ data size  samples …
//! ```
//! In come bytes, chopped in any way; out come [`AudioBlock`]s. Integers of 16, 24 and 32 bits and floats of 32 and
//! 64 are read, plain or as `WAVE_FORMAT_EXTENSIBLE`. Lengths as programs write them that do not know how long they will go on
//! (none, 0xffffffff, about 2 GiB) mean until the end. Other chunks are skipped without being kept.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use crate::audio::{AudioBlock, SampleFormat};
use crate::time::Time;
use thiserror::Error;

/// The most channels that are taken.
pub const MAX_CHANNELS: u8 = 8;
/// The rates that are taken, in samples a second.
pub const RATES_HZ: std::ops::RangeInclusive<u32> = 8_000..=192_000;
/// The longest block that [`Reader::parse`] gives, in samples of each channel.
pub const MAX_BLOCK_FRAMES: usize = 4_800;

/// The bytes of a `fmt` chunk that mean something here.
const FORMAT_BYTES: usize = 40;
const TAG_INTEGER: u16 = 1;
const TAG_FLOAT: u16 = 3;
const TAG_EXTENSIBLE: u16 = 0xfffe;
/// What follows the tag in the sub-format of an extensible header.
const GUID_TAIL: [u8; 14] = *b"\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71";
/// A length that says that there is none.
const UNKNOWN_LENGTH: u32 = u32::MAX;

/// Why bytes are no WAVE file that can be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum WavError {
    /// The first bytes are not those of a WAVE file.
    #[error("not a WAVE file: it begins with {found:02x?}, expected RIFF, RF64 or BW64, a length and WAVE")]
    Magic {
        /// The bytes.
        found: [u8; 12],
    },
    /// A format chunk that is too short.
    #[error("WAVE format chunk of {found} bytes, expected at least {expected}")]
    FormatLength {
        /// Its length.
        found: u32,
        /// What it needs.
        expected: usize,
    },
    /// A coding that is not read.
    #[error(
        "WAVE format {tag:#06x} with {bits} bits a sample, expected integers of 16, 24, 32 or floats of 32, 64 bits"
    )]
    Coding {
        /// The format's number.
        tag: u16,
        /// Bits of a sample.
        bits: u16,
    },
    /// Too many channels, or none.
    #[error("WAVE with {found} channels, expected 1 to {MAX_CHANNELS}")]
    Channels {
        /// The number.
        found: u16,
    },
    /// A rate outside of [`RATES_HZ`].
    #[error("WAVE with {found} samples a second, expected {} to {}", RATES_HZ.start(), RATES_HZ.end())]
    Rate {
        /// The rate.
        found: u32,
    },
    /// The samples come before the format chunk.
    #[error("WAVE with samples before their format")]
    NoFormat,
    /// The end came before the samples.
    #[error("WAVE ends before its samples begin")]
    NoData,
}

/// Bytes of what [`head`] gives.
pub const HEAD_BYTES: usize = BEHIND_LENGTH as usize + 8;
/// Of them those that the length at its beginning counts.
const BEHIND_LENGTH: u32 = 36;

/// The head of a file with 16-bit integers, which follow it: `data_bytes` of them, or, while that is not known, until the end.
pub fn head(rate_hz: u32, channels: u8, data_bytes: Option<u32>) -> [u8; HEAD_BYTES] {
    head_of(rate_hz, channels, 2, data_bytes)
}

/// The same for integers of `sample_bytes` bytes.
pub fn head_of(rate_hz: u32, channels: u8, sample_bytes: u8, data_bytes: Option<u32>) -> [u8; HEAD_BYTES] {
    let frame_bytes = u16::from(sample_bytes).saturating_mul(channels.into());
    let bits = u16::from(sample_bytes).saturating_mul(8);
    let data = data_bytes.unwrap_or(UNKNOWN_LENGTH);
    let whole = data_bytes.map_or(UNKNOWN_LENGTH, |bytes| bytes.saturating_add(BEHIND_LENGTH));
    let mut out = [0; HEAD_BYTES];
    let fields: [&[u8]; 12] = [
        b"RIFF",
        &whole.to_le_bytes(),
        b"WAVEfmt ",
        &16u32.to_le_bytes(),
        &TAG_INTEGER.to_le_bytes(),
        &u16::from(channels).to_le_bytes(),
        &rate_hz.to_le_bytes(),
        &rate_hz.saturating_mul(frame_bytes.into()).to_le_bytes(),
        &frame_bytes.to_le_bytes(),
        &bits.to_le_bytes(),
        b"data",
        &data.to_le_bytes(),
    ];
    for (slot, byte) in out.iter_mut().zip(fields.into_iter().flatten()) {
        *slot = *byte;
    }
    out
}

/// Appends samples as 16-bit integers; what is beyond full scale is cut.
pub fn write_samples(samples: &[f32], out: &mut Vec<u8>) {
    for sample in samples {
        #[expect(clippy::cast_possible_truncation, reason = "clamped to what an i16 holds")]
        let level = (sample.clamp(-1.0, 1.0) * f32::from(i16::MAX)).round() as i16;
        out.extend_from_slice(&level.to_le_bytes());
    }
}

/// What a WAVE file says about its sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// How samples are coded.
    pub format: SampleFormat,
    /// Channels, 1 to [`MAX_CHANNELS`].
    pub channels: u8,
    /// Samples a second and channel.
    pub rate_hz: u32,
    /// Samples in each channel, where the file knows.
    pub frames: Option<u64>,
}

/// Reads sound from bytes as they come. Holds one header or one block at most.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    state: State,
    /// Bytes of a header that is not whole yet, or of the block in the making.
    held: Vec<u8>,
    header: Option<Header>,
    /// The length of `data` in a file that states it in a chunk of its own, since the usual fields are too small for it.
    long_data: Option<u64>,
    /// Samples of each channel given so far.
    frames: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Before the first bytes.
    #[default]
    Magic,
    /// Before a chunk's name and length.
    Chunk,
    /// In the format chunk, of which so many bytes are left.
    Format { left: u64 },
    /// In the chunk with the lengths of a long file.
    Lengths { left: u64 },
    /// In a chunk that means nothing here.
    Skip { left: u64 },
    /// In the samples; `None`: until the end.
    Data { left: Option<u64> },
    /// Behind the samples: nothing is read any more.
    End,
}

impl Reader {
    /// A reader before the first byte.
    pub fn new() -> Reader {
        Reader::default()
    }

    /// What the file says, once the samples begin.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref().filter(|_| matches!(self.state, State::Data { .. } | State::End))
    }

    /// Reads from the front of `bytes`, which moves on, until a block is whole or no bytes are left. A block holds
    /// what there is, at most [`MAX_BLOCK_FRAMES`]; its time is that of its first sample, counted from
    /// [`Time::ZERO`] at the file's beginning.
    ///
    /// # Errors
    /// [`WavError`]; the reader is of no use after one.
    pub fn parse(&mut self, bytes: &mut &[u8]) -> Result<Option<AudioBlock>, WavError> {
        loop {
            match self.state {
                State::Magic => {
                    let Some(found) = self.hold::<12>(bytes) else { return Ok(None) };
                    if !matches!(&found[..4], b"RIFF" | b"RF64" | b"BW64") || &found[8..] != b"WAVE" {
                        return Err(WavError::Magic { found });
                    }
                    self.state = State::Chunk;
                }
                State::Chunk => {
                    let Some(head) = self.hold::<8>(bytes) else { return Ok(None) };
                    self.state = self.enter(head)?;
                }
                State::Format { left } => {
                    if !self.hold_all(FORMAT_BYTES.min(usize::try_from(left).unwrap_or(usize::MAX)), bytes) {
                        return Ok(None);
                    }
                    self.header = Some(parse_format(&self.held)?);
                    self.state = State::Skip { left: left.saturating_sub(self.held.len() as u64) };
                    self.held.clear();
                }
                State::Lengths { left } => {
                    let Some(lengths) = self.hold::<16>(bytes) else { return Ok(None) };
                    let data = lengths[8..].first_chunk().copied().unwrap_or_default();
                    self.long_data = Some(u64::from_le_bytes(data));
                    self.state = State::Skip { left: left.saturating_sub(16) };
                }
                State::Skip { left } => {
                    let count = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    *bytes = &bytes[count..];
                    let left = left.saturating_sub(count as u64);
                    self.state = State::Skip { left };
                    if left > 0 {
                        return Ok(None);
                    }
                    self.state = State::Chunk;
                }
                State::Data { left } => {
                    let block = self.samples(left, bytes);
                    // Samples that end before one is whole: what follows them is still to be taken.
                    if block.is_some() || self.state != State::End {
                        return Ok(block);
                    }
                }
                State::End => {
                    *bytes = &[];
                    return Ok(None);
                }
            }
        }
    }

    /// Checks at the end of the bytes that there were samples, or could have been. A file that is shorter than it
    /// says is no error: recorders that are cut off leave such.
    ///
    /// # Errors
    /// [`WavError::NoData`].
    pub fn finish(&self) -> Result<(), WavError> {
        if self.header().is_some() { Ok(()) } else { Err(WavError::NoData) }
    }

    /// Holds bytes until there are `count`; true once there are.
    fn hold_all(&mut self, count: usize, bytes: &mut &[u8]) -> bool {
        let (now, later) = bytes.split_at(bytes.len().min(count.saturating_sub(self.held.len())));
        self.held.extend_from_slice(now);
        *bytes = later;
        self.held.len() >= count
    }

    fn hold<const COUNT: usize>(&mut self, bytes: &mut &[u8]) -> Option<[u8; COUNT]> {
        if !self.hold_all(COUNT, bytes) {
            return None;
        }
        let found = self.held.first_chunk().copied();
        self.held.clear();
        found
    }

    fn enter(&mut self, head: [u8; 8]) -> Result<State, WavError> {
        let [a, b, c, d, length @ ..] = head;
        let length = u32::from_le_bytes(length);
        // Chunks begin at even places.
        let padded = u64::from(length).saturating_add(u64::from(length & 1));
        Ok(match &[a, b, c, d] {
            b"fmt " if length < 16 => {
                return Err(WavError::FormatLength { found: length, expected: 16 });
            }
            b"fmt " => State::Format { left: padded },
            b"ds64" if length >= 16 => State::Lengths { left: padded },
            b"data" => {
                let header = self.header.as_mut().ok_or(WavError::NoFormat)?;
                let left = match length {
                    // What writes into a pipe cannot come back to fill the length in.
                    length if is_unknown(length) => self.long_data.filter(|&length| length > 0),
                    length => Some(u64::from(length)),
                };
                let frame_bytes = header.format.bytes().saturating_mul(usize::from(header.channels)) as u64;
                header.frames = left.and_then(|bytes| bytes.checked_div(frame_bytes));
                State::Data { left }
            }
            _ => State::Skip { left: padded },
        })
    }

    fn samples(&mut self, left: Option<u64>, bytes: &mut &[u8]) -> Option<AudioBlock> {
        let Header { format, channels, rate_hz, .. } = self.header?;
        let frame_bytes = format.bytes().saturating_mul(usize::from(channels));
        let most = left.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX));
        let (mut now, later) = bytes.split_at(bytes.len().min(most));
        // A sample that an earlier call began is made whole first.
        let mut samples = Vec::new();
        let mut taken = 0;
        if !self.held.is_empty() {
            let before = now.len();
            let mut rest = now;
            let whole = self.hold_all(frame_bytes, &mut rest);
            (now, taken) = (rest, before.saturating_sub(rest.len()));
            if whole {
                format.decode(&self.held, &mut samples);
                self.held.clear();
            }
        }
        if self.held.is_empty() {
            let filled = samples.len().saturating_mul(format.bytes());
            let room = now.len().min(MAX_BLOCK_FRAMES.saturating_mul(frame_bytes).saturating_sub(filled));
            let whole = room.saturating_sub(room.checked_rem(frame_bytes).unwrap_or(0));
            format.decode(&now[..whole], &mut samples);
            now = &now[whole..];
            taken = taken.saturating_add(whole);
            if now.len() < frame_bytes {
                self.held.extend_from_slice(now);
                taken = taken.saturating_add(now.len());
                now = &[];
            }
        }
        let left = left.map(|left| left.saturating_sub(taken as u64));
        if left == Some(0) {
            self.held.clear();
            self.state = State::End;
            *bytes = later;
        } else {
            self.state = State::Data { left };
            *bytes = &bytes[bytes.len().saturating_sub(later.len()).saturating_sub(now.len())..];
        }
        if samples.is_empty() {
            return None;
        }
        let nanos = u128::from(self.frames).saturating_mul(1_000_000_000).checked_div(u128::from(rate_hz));
        let captured =
            Time::from_nanos(nanos.and_then(|nanos| u64::try_from(nanos).ok()).unwrap_or(u64::MAX));
        let frames = samples.len().checked_div(usize::from(channels)).unwrap_or(0);
        self.frames = self.frames.saturating_add(frames as u64);
        Some(AudioBlock { samples, channels, rate_hz, captured })
    }
}

/// Whether a length of samples is one that is written where it is not known: SoX writes 2 GiB less 4 KiB into a pipe, arecord
/// 2 GiB, others what is left of 2 or 4 GiB beside the header.
fn is_unknown(length: u32) -> bool {
    matches!(length, 0 | 0x7fff_f000..=0x8000_0000 | 0xffff_f000..=UNKNOWN_LENGTH)
}

fn parse_format(bytes: &[u8]) -> Result<Header, WavError> {
    let at = |index: usize| {
        u16::from_le_bytes(bytes.get(index..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default())
    };
    let rate_hz = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    let (mut tag, found, bits) = (at(0), at(2), at(14));
    if tag == TAG_EXTENSIBLE {
        if bytes.len() < FORMAT_BYTES {
            return Err(WavError::FormatLength {
                found: u32::try_from(bytes.len()).unwrap_or(u32::MAX),
                expected: FORMAT_BYTES,
            });
        }
        if bytes[26..40] == GUID_TAIL {
            tag = at(24);
        }
    }
    let format = match (tag, bits) {
        (TAG_INTEGER, 16) => SampleFormat::S16,
        (TAG_INTEGER, 24) => SampleFormat::S24,
        (TAG_INTEGER, 32) => SampleFormat::S32,
        (TAG_FLOAT, 32) => SampleFormat::F32,
        (TAG_FLOAT, 64) => SampleFormat::F64,
        _ => return Err(WavError::Coding { tag, bits }),
    };
    let channels = u8::try_from(found).ok().filter(|count| (1..=MAX_CHANNELS).contains(count));
    let channels = channels.ok_or(WavError::Channels { found })?;
    // Samples may lie in larger words than their bits need; those are not read.
    if usize::from(at(12)) != format.bytes().saturating_mul(usize::from(channels)) {
        return Err(WavError::Coding { tag, bits });
    }
    if !RATES_HZ.contains(&rate_hz) {
        return Err(WavError::Rate { found: rate_hz });
    }
    Ok(Header { format, channels, rate_hz, frames: None })
}

#[cfg(test)]
#[path = "wav_tests.rs"]
mod tests;
