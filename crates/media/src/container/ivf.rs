//! IVF: coded frames of VP8 and its relatives behind a header each, as libvpx and FFmpeg read and write it.
//!
//! ```text
//! header   "DKIF"  version:2 (0)  header bytes:2 (32)  codec:4 ("VP80")  width:2  height:2
//!          rate numerator:4  rate denominator:4  frames:4  unused:4
//! frame    bytes:4  time stamp:8 (in units of denominator/numerator seconds)  the coded frame
//! ```
//! Numbers are little endian. In come bytes, chopped in any way; out come frames, and the reverse. The number of
//! frames in the header is a hint: writers that cannot seek leave it zero, others count wrongly.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use crate::time::FrameRate;
use bytes::Bytes;
use thiserror::Error;

/// Bytes of the file header that is written; what is longer is skipped.
pub const HEADER_BYTES: usize = HEADER_LENGTH as usize;
const HEADER_LENGTH: u8 = 32;
/// Bytes in front of each frame.
pub const FRAME_HEADER_BYTES: usize = 12;
/// The largest frame that is taken. A stream that claims more is refused before any memory is asked for.
pub const MAX_FRAME_BYTES: usize = 64 << 20;

/// What a file begins with.
pub const MAGIC: [u8; 4] = *b"DKIF";

/// What stands in front of the first frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Which codec, as four characters: `VP80`.
    pub codec: [u8; 4],
    /// Width in samples, as the writer knew it; frames say it themselves.
    pub width: u16,
    /// Height in samples.
    pub height: u16,
    /// Time stamps a second.
    pub rate: FrameRate,
    /// How many frames follow, where the writer knew; otherwise 0.
    pub frames: u32,
}

impl Header {
    /// The codec of VP8.
    pub const VP8: [u8; 4] = *b"VP80";
    /// The codec of AV1.
    pub const AV1: [u8; 4] = *b"AV01";

    /// Reads a header of [`HEADER_BYTES`], and how long it says that it is.
    fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<(Header, usize), IvfError> {
        let four = |at: usize| -> [u8; 4] {
            bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default()
        };
        let half = |at: usize| {
            let [low, high, ..] = four(at);
            u16::from_le_bytes([low, high])
        };
        let word = |at: usize| u32::from_le_bytes(four(at));
        if four(0) != MAGIC {
            return Err(IvfError::Magic { found: four(0) });
        }
        if half(4) != 0 {
            return Err(IvfError::Version { found: half(4) });
        }
        let length = usize::from(half(6));
        if length < HEADER_BYTES {
            return Err(IvfError::HeaderBytes { found: length });
        }
        let (numerator, denominator) = (word(16), word(20));
        let rate = FrameRate::new(numerator, denominator).ok_or(IvfError::Rate { numerator, denominator })?;
        let header = Header { codec: four(8), width: half(12), height: half(14), rate, frames: word(24) };
        Ok((header, length))
    }

    /// Appends the header to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[0, 0, HEADER_LENGTH, 0]);
        out.extend_from_slice(&self.codec);
        out.extend_from_slice(&self.width.to_le_bytes());
        out.extend_from_slice(&self.height.to_le_bytes());
        out.extend_from_slice(&self.rate.numerator().to_le_bytes());
        out.extend_from_slice(&self.rate.denominator().to_le_bytes());
        out.extend_from_slice(&self.frames.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
    }
}

/// One coded frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// When to show it, in units of the header's rate.
    pub time_stamp: u64,
    /// The coded frame; empty where the encoder dropped it.
    pub bytes: Bytes,
}

impl Frame {
    /// Appends the frame with its header to `out`.
    ///
    /// # Errors
    /// `FrameBytes` above [`MAX_FRAME_BYTES`].
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), IvfError> {
        let length =
            u32::try_from(self.bytes.len()).ok().filter(|&length| length as usize <= MAX_FRAME_BYTES);
        let length = length.ok_or(IvfError::FrameBytes { found: self.bytes.len(), frame: 0 })?;
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&self.time_stamp.to_le_bytes());
        out.extend_from_slice(&self.bytes);
        Ok(())
    }
}

/// Reads frames from bytes as they come.
///
/// ```
/// use glassline_media::container::ivf::{IvfError, Reader};
///
/// # fn show(chunks: &[&[u8]]) -> Result<usize, IvfError> {
/// let mut reader = Reader::new();
/// let mut frames = 0;
/// for chunk in chunks {
///     let mut rest = *chunk;
///     while let Some(_frame) = reader.parse(&mut rest)? {
///         frames += 1;
///     }
/// }
/// reader.finish()?;
/// # Ok(frames) }
/// # assert_eq!(show(&[b"DKIF"]), Err(IvfError::Truncated { place: "the file header", frame: 0 }));
/// ```
///
/// Holds at most one frame in the making, which grows as its bytes come.
#[derive(Debug, Default)]
pub struct Reader {
    state: State,
    /// What is there of the header or frame that is being read.
    held: Vec<u8>,
    header: Option<Header>,
    frames: u64,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Header,
    /// Behind the header's known part.
    Skip(usize),
    FrameHeader,
    Frame {
        time_stamp: u64,
        bytes: usize,
    },
    /// An error was given; it is given again.
    Failed(IvfError),
}

impl Reader {
    /// A reader at the start of a stream.
    pub fn new() -> Reader {
        Reader::default()
    }

    /// The file header, once it has been read.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// Takes bytes from the front of `input` and gives a frame as soon as its last byte is there; what follows it
    /// stays in `input`. `None` means that all of `input` was taken and more is needed.
    ///
    /// # Errors
    /// Any [`IvfError`] but `Truncated`; the same one again on every later call.
    pub fn parse(&mut self, input: &mut &[u8]) -> Result<Option<Frame>, IvfError> {
        self.advance(input).inspect_err(|error| self.state = State::Failed(error.clone()))
    }

    /// Says that no bytes follow.
    ///
    /// # Errors
    /// `Truncated` where the stream ends inside the header or a frame; the error of [`Reader::parse`] if there was
    /// one.
    pub fn finish(&self) -> Result<(), IvfError> {
        let place = match &self.state {
            State::Failed(error) => return Err(error.clone()),
            State::FrameHeader if self.held.is_empty() => return Ok(()),
            State::Header | State::Skip(_) => "the file header",
            State::FrameHeader => "the header",
            State::Frame { .. } => "the bytes",
        };
        Err(IvfError::Truncated { place, frame: self.frames })
    }

    /// Moves bytes from `input` until `total` are held; whether they are.
    fn hold(&mut self, input: &mut &[u8], total: usize) -> bool {
        let (taken, rest) = input.split_at(total.saturating_sub(self.held.len()).min(input.len()));
        self.held.extend_from_slice(taken);
        *input = rest;
        self.held.len() == total
    }

    fn advance(&mut self, input: &mut &[u8]) -> Result<Option<Frame>, IvfError> {
        loop {
            match self.state {
                State::Failed(ref error) => return Err(error.clone()),
                State::Header => {
                    if !self.hold(input, HEADER_BYTES) {
                        return Ok(None);
                    }
                    // As many as were just waited for.
                    let Some(bytes) = self.held.first_chunk() else { return Ok(None) };
                    let (header, length) = Header::parse(bytes)?;
                    self.header = Some(header);
                    self.held.clear();
                    self.state = State::Skip(length.saturating_sub(HEADER_BYTES));
                }
                State::Skip(left) => {
                    let now = left.min(input.len());
                    *input = &input[now..];
                    if now < left {
                        self.state = State::Skip(left.saturating_sub(now));
                        return Ok(None);
                    }
                    self.state = State::FrameHeader;
                }
                State::FrameHeader => {
                    if !self.hold(input, FRAME_HEADER_BYTES) {
                        return Ok(None);
                    }
                    let (Some(length), Some(stamp)) = (self.held.first_chunk(), self.held.last_chunk())
                    else {
                        return Ok(None);
                    };
                    let (bytes, time_stamp) =
                        (u32::from_le_bytes(*length) as usize, u64::from_le_bytes(*stamp));
                    if bytes > MAX_FRAME_BYTES {
                        return Err(IvfError::FrameBytes { found: bytes, frame: self.frames });
                    }
                    self.held.clear();
                    self.state = State::Frame { time_stamp, bytes };
                }
                State::Frame { time_stamp, bytes } => {
                    if !self.hold(input, bytes) {
                        return Ok(None);
                    }
                    let bytes = std::mem::take(&mut self.held).into();
                    self.frames = self.frames.saturating_add(1);
                    self.state = State::FrameHeader;
                    return Ok(Some(Frame { time_stamp, bytes }));
                }
            }
        }
    }
}

/// Bytes that are no IVF, or one that we don't take.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum IvfError {
    /// It begins with something else.
    #[error("ivf: found {found:02x?} at the start where \"DKIF\" was expected")]
    Magic {
        /// The first bytes.
        found: [u8; 4],
    },
    /// A version that is not defined.
    #[error("ivf: version {found}; only 0 is known")]
    Version {
        /// What the header says.
        found: u16,
    },
    /// A header shorter than its own fields.
    #[error("ivf: a header of {found} bytes; it takes {HEADER_BYTES}")]
    HeaderBytes {
        /// What the header says.
        found: usize,
    },
    /// A rate with a zero.
    #[error("ivf: a rate of {numerator}/{denominator}: both must be 1 or more")]
    Rate {
        /// Found numerator.
        numerator: u32,
        /// Found denominator.
        denominator: u32,
    },
    /// A frame longer than [`MAX_FRAME_BYTES`].
    #[error("ivf: frame {frame} of {found} bytes; at most {MAX_FRAME_BYTES} are taken")]
    FrameBytes {
        /// Found length.
        found: usize,
        /// Number of the frame, from 0.
        frame: u64,
    },
    /// The stream ends too early.
    #[error("ivf: the stream ends inside {place} of frame {frame}")]
    Truncated {
        /// In which part.
        place: &'static str,
        /// Number of the frame, from 0.
        frame: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: Header = Header {
        codec: Header::VP8,
        width: 176,
        height: 144,
        rate: match FrameRate::new(30, 1) {
            Some(rate) => rate,
            None => panic!("30/1 is a rate"),
        },
        frames: 2,
    };

    fn stream(header: &Header, frames: &[Frame]) -> Vec<u8> {
        let mut out = Vec::new();
        header.write(&mut out);
        for frame in frames {
            frame.write(&mut out).unwrap();
        }
        out
    }

    fn first_error(bytes: &[u8]) -> IvfError {
        let (mut reader, mut rest) = (Reader::new(), bytes);
        loop {
            match reader.parse(&mut rest) {
                Ok(Some(_)) => {}
                Ok(None) => return reader.finish().unwrap_err(),
                Err(error) => {
                    assert_eq!(reader.parse(&mut rest), Err(error.clone()), "the error stays");
                    return error;
                }
            }
        }
    }

    #[test]
    fn what_is_no_ivf_is_refused() {
        let good = stream(&HEADER, &[]);
        let with = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            first_error(&bytes)
        };
        assert_eq!(with(0, b'R'), IvfError::Magic { found: *b"RKIF" });
        assert_eq!(with(4, 1), IvfError::Version { found: 1 });
        assert_eq!(with(6, 31), IvfError::HeaderBytes { found: 31 });
        assert_eq!(with(16, 0), IvfError::Rate { numerator: 0, denominator: 1 });
        let huge = [&good[..], &[255; 12]].concat();
        assert_eq!(first_error(&huge), IvfError::FrameBytes { found: u32::MAX as usize, frame: 0 });
    }

    #[test]
    fn a_stream_that_ends_early_says_where() {
        let frame = Frame { time_stamp: 7, bytes: Bytes::from_static(b"abc") };
        let whole = stream(&HEADER, &[frame.clone(), frame]);
        assert_eq!(first_error(&whole[..31]), IvfError::Truncated { place: "the file header", frame: 0 });
        assert_eq!(first_error(&whole[..50]), IvfError::Truncated { place: "the header", frame: 1 });
        assert_eq!(first_error(&whole[..60]), IvfError::Truncated { place: "the bytes", frame: 1 });
    }

    #[test]
    fn a_longer_header_is_skipped() {
        let mut bytes = stream(&HEADER, &[]);
        bytes[6] = 40;
        bytes.extend_from_slice(&[9; 8]);
        Frame { time_stamp: 1, bytes: Bytes::from_static(b"x") }.write(&mut bytes).unwrap();
        let (mut reader, mut rest) = (Reader::new(), &bytes[..]);
        assert_eq!(reader.parse(&mut rest).unwrap().unwrap().bytes, "x");
        assert_eq!(reader.finish(), Ok(()));
    }

    proptest! {
        #[test]
        fn frames_survive_any_chop(
            frames in prop::collection::vec((any::<u64>(), prop::collection::vec(any::<u8>(), 0..300)), 0..8),
            width: u16, height: u16, count: u32,
            chop in 1usize..64,
        ) {
            let header = Header { width, height, frames: count, ..HEADER };
            let frames: Vec<Frame> =
                frames.into_iter().map(|(time_stamp, bytes)| Frame { time_stamp, bytes: bytes.into() }).collect();
            let bytes = stream(&header, &frames);
            let mut reader = Reader::new();
            let mut found = Vec::new();
            for mut chunk in bytes.chunks(chop) {
                while let Some(frame) = reader.parse(&mut chunk).unwrap() {
                    found.push(frame);
                }
                prop_assert!(chunk.is_empty());
            }
            prop_assert_eq!(reader.finish(), Ok(()));
            prop_assert_eq!(reader.header(), Some(&header));
            prop_assert_eq!(found, frames);
        }

        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), good_start: bool) {
            let bytes = if good_start { [stream(&HEADER, &[]), bytes].concat() } else { bytes };
            let (mut reader, mut rest) = (Reader::new(), &bytes[..]);
            while let Ok(Some(_)) = reader.parse(&mut rest) {}
        }
    }
}
