//! YUV4MPEG2 (`.y4m`): uncompressed pictures behind one line of text, as mjpegtools' `yuv4mpeg(5)` describes it
//! and FFmpeg, x264 and libvpx read and write it.
//!
//! ```text
//! YUV4MPEG2 W1280 H720 F30:1 Ip A1:1 C420jpeg XCOLORRANGE=LIMITED\n
//! FRAME\n  <Y: lines without padding> <Cb> <Cr>
//! FRAME\n  …
//! ```
//!
//! In come bytes, chopped in any way; out come [`Picture`]s, and the reverse. Samples over 8 bits take two bytes,
//! little endian. The format knows neither time stamps nor colour primaries: [`Picture::captured`] is computed
//! from the frame rate, and of [`Picture::colour`] only the range is known.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

mod header;

pub use header::{Header, Interlacing, Siting};

use crate::picture::{Picture, PicturePool, PixelFormat, Plane, Size};
use crate::time::Time;
use thiserror::Error;

/// The longest header or `FRAME` line that is taken, in bytes without its line feed.
pub const MAX_LINE_BYTES: usize = 4096;

/// The largest picture that is taken, in bytes without padding; 8K at 4:4:4 and 16 bits still fits. With
/// [`Size::MAX_SIDE`] alone a header of 40 bytes could make us allocate 1.6 GB.
pub const MAX_PICTURE_BYTES: usize = 256 << 20;

const MAGIC: &[u8] = b"YUV4MPEG2";
const FRAME: &[u8] = b"FRAME";
/// The line in front of each picture's samples, for callers that write pictures line by line.
pub const FRAME_LINE: &[u8] = b"FRAME\n";

/// Reads pictures from bytes as they come.
///
/// ```
/// # use glassline_media::container::y4m::{Reader, Y4mError};
/// # fn show(chunks: &[&[u8]]) -> Result<usize, Y4mError> {
/// let mut reader = Reader::new();
/// let mut pictures = 0;
/// for chunk in chunks {
///     let mut rest = *chunk;
///     while let Some(_picture) = reader.parse(&mut rest)? {
///         pictures += 1;
///     }
/// }
/// reader.finish()?;
/// # Ok(pictures) }
/// # assert_eq!(show(&[b"YUV4MPEG2 W2 H", b"1 F25 Cmono\nFRAME\nab"]), Ok(1));
/// ```
///
/// Holds at most one line of [`MAX_LINE_BYTES`] or one picture in the making; samples go straight into its planes.
#[derive(Debug, Default)]
pub struct Reader {
    state: State,
    line: Vec<u8>,
    header: Option<Header>,
    /// Pictures given so far.
    pictures: u64,
    pool: PicturePool,
}

#[derive(Debug, Default)]
enum State {
    /// In the header line.
    #[default]
    Header,
    /// In or before a `FRAME` line.
    Frame,
    /// In a header line where a `FRAME` line was expected: streams were put one behind the other.
    NextHeader,
    /// In the samples of a picture.
    Samples(Box<Filling>),
    /// An error was given; it is given again.
    Failed(Y4mError),
}

impl Reader {
    /// A reader at the start of a stream.
    pub fn new() -> Reader {
        Reader::default()
    }

    /// What the header line said, once it has been read.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// Takes bytes from the front of `input` and gives a picture as soon as its last byte is there; what follows
    /// the picture stays in `input`. `None` means that all of `input` was taken and more is needed.
    ///
    /// The picture's `captured` is [`FrameRate::time_of`](crate::FrameRate::time_of) its number after
    /// [`Time::ZERO`], for the caller to override. Bits above the sample depth are cleared, so that later rooms
    /// can rely on the range. Planes are used again once their picture is gone.
    ///
    /// A second header that says the same as the first is passed over, so that streams may be put one behind the
    /// other.
    ///
    /// # Errors
    /// Any [`Y4mError`] but `Truncated`; the same one again on every later call.
    pub fn parse(&mut self, input: &mut &[u8]) -> Result<Option<Picture>, Y4mError> {
        match self.advance(input) {
            Ok(picture) => Ok(picture),
            Err(error) => {
                self.state = State::Failed(error.clone());
                Err(error)
            }
        }
    }

    /// Says that no bytes follow.
    ///
    /// # Errors
    /// `Truncated` where the stream ends inside the header or a picture; the error of [`Reader::parse`] if there
    /// was one.
    pub fn finish(&self) -> Result<(), Y4mError> {
        match &self.state {
            State::Failed(error) => Err(error.clone()),
            State::Header => Err(Y4mError::Truncated { place: "the header line", picture: 0 }),
            State::Frame if self.line.is_empty() => Ok(()),
            State::Frame => Err(Y4mError::Truncated { place: "a FRAME line", picture: self.pictures }),
            State::NextHeader => Err(Y4mError::Truncated { place: "a header line", picture: self.pictures }),
            State::Samples(_) => Err(Y4mError::Truncated { place: "the samples", picture: self.pictures }),
        }
    }

    /// Where the next bytes of the stream belong, where they are samples and their plane has no padding: the rest of
    /// the plane. A caller that reads into it and calls [`Reader::filled`] saves the copy that [`Reader::parse`] makes.
    /// `None` where the caller has to give the next bytes to [`Reader::parse`].
    pub fn room(&mut self) -> Option<&mut [u8]> {
        match &mut self.state {
            State::Samples(filling) if !filling.is_padded() => filling.room(),
            _ => None,
        }
    }

    /// The first `count` bytes of [`Reader::room`] are filled; gives the picture if these were its last. More than
    /// there was room for counts as all of it.
    pub fn filled(&mut self, count: usize) -> Option<Picture> {
        let State::Samples(filling) = &mut self.state else { return None };
        if filling.took(count) { self.whole() } else { None }
    }

    /// The picture in the making, all of which is there.
    fn whole(&mut self) -> Option<Picture> {
        let State::Samples(filling) = std::mem::replace(&mut self.state, State::Frame) else { return None };
        self.pictures = self.pictures.saturating_add(1);
        self.pool.keep(&filling.picture);
        Some(filling.picture)
    }

    fn advance(&mut self, input: &mut &[u8]) -> Result<Option<Picture>, Y4mError> {
        loop {
            match &mut self.state {
                State::Failed(error) => return Err(error.clone()),
                State::Header => {
                    if !take_line(&mut self.line, input, MAGIC)? {
                        return Ok(None);
                    }
                    self.header = Some(Header::parse(&self.line)?);
                    self.line.clear();
                    self.state = State::Frame;
                }
                State::NextHeader => {
                    if !take_line(&mut self.line, input, MAGIC).map_err(|error| error.at(self.pictures))? {
                        return Ok(None);
                    }
                    let next = Header::parse(&self.line)?;
                    self.line.clear();
                    if let Some(header) = self.header.as_ref().filter(|header| !header.continues(&next)) {
                        let (found, expected) = (next.shown(), header.shown());
                        return Err(Y4mError::Changed { found, expected, picture: self.pictures });
                    }
                    self.state = State::Frame;
                }
                State::Frame => {
                    if self.line.is_empty() && input.first() == MAGIC.first() {
                        self.state = State::NextHeader;
                        continue;
                    }
                    if !take_line(&mut self.line, input, FRAME).map_err(|error| error.at(self.pictures))? {
                        return Ok(None);
                    }
                    self.line.clear();
                    // The header is there: no other way leads out of `State::Header`.
                    let Some(header) = &self.header else { return Ok(None) };
                    self.state =
                        State::Samples(Box::new(Filling::new(header, self.pictures, &mut self.pool)));
                }
                State::Samples(filling) => {
                    return Ok(if filling.fill(input) { self.whole() } else { None });
                }
            }
        }
    }
}

/// Moves bytes up to a line feed from `input` to `line`; whether the line is whole. It must begin with `word` and
/// a space, or be `word`: what is something else is refused at its first wrong byte, not after 4 kB of it.
fn take_line(line: &mut Vec<u8>, input: &mut &[u8], word: &'static [u8]) -> Result<bool, Y4mError> {
    let end = input.iter().position(|&byte| byte == b'\n');
    let take = end.unwrap_or(input.len());
    // One byte more than allowed shows that the line is too long.
    let copied = take.min((MAX_LINE_BYTES + 1).saturating_sub(line.len()));
    line.extend_from_slice(&input[..copied]);
    // Some programs end lines as Windows does.
    if end.is_some() && line.last() == Some(&b'\r') {
        line.pop();
    }
    let known = line.len().min(word.len());
    let ends_early = end.is_some() && line.len() < word.len();
    let is_end = |byte: u8| byte == b'\r' && line.len() == word.len().saturating_add(1) && end.is_none();
    let runs_on = line.get(word.len()).is_some_and(|&byte| byte != b' ' && !is_end(byte));
    if line[..known] != word[..known] || ends_early || runs_on {
        let found =
            String::from_utf8_lossy(&line[..line.len().min(word.len().saturating_add(1))]).into_owned();
        return Err(Y4mError::Word {
            found,
            expected: if word == MAGIC { "YUV4MPEG2" } else { "FRAME" },
            picture: 0,
        });
    }
    if line.len() > MAX_LINE_BYTES {
        return Err(Y4mError::LongLine);
    }
    *input = &input[take.saturating_add(usize::from(end.is_some())).min(input.len())..];
    Ok(end.is_some())
}

/// A picture in the making.
#[derive(Debug)]
struct Filling {
    picture: Picture,
    plane: usize,
    /// Bytes of `plane` that are there, padding not counted.
    filled: usize,
}

impl Filling {
    fn new(header: &Header, number: u64, pool: &mut PicturePool) -> Filling {
        let captured =
            Time::from_nanos(u64::try_from(header.frame_rate.time_of(number).as_nanos()).unwrap_or(u64::MAX));
        let mut picture = pool.take(header.format, header.size, captured);
        picture.colour = header.colour;
        picture.fields = header.interlacing.fields();
        Filling { picture, plane: 0, filled: 0 }
    }

    /// Copies from `input` into the planes; whether all are full.
    fn fill(&mut self, input: &mut &[u8]) -> bool {
        while let Some(room) = self.room() {
            let (now, later) = input.split_at(room.len().min(input.len()));
            room[..now.len()].copy_from_slice(now);
            *input = later;
            if self.took(now.len()) {
                return true;
            }
            if later.is_empty() {
                return false;
            }
        }
        true
    }

    /// The unfilled rest of a plane, or of a line where lines are padded; `None` once all planes are full.
    fn room(&mut self) -> Option<&mut [u8]> {
        let at = self.place()?;
        Some(&mut self.picture.planes_mut()[self.plane].bytes_mut()[at])
    }

    /// Which bytes of the plane come next.
    fn place(&self) -> Option<std::ops::Range<usize>> {
        let plane = self.picture.planes().get(self.plane)?;
        let (line_bytes, height) = (self.line_bytes(plane), plane.size().height as usize);
        if !self.is_padded() {
            return Some(self.filled..line_bytes.saturating_mul(height));
        }
        let (y, x) = (self.filled.checked_div(line_bytes)?, self.filled.checked_rem(line_bytes)?);
        let line = y.saturating_mul(plane.stride_bytes());
        Some(line.saturating_add(x)..line.saturating_add(line_bytes))
    }

    /// Whether there is something between the lines of the plane that is being filled.
    fn is_padded(&self) -> bool {
        let plane = self.picture.planes().get(self.plane);
        plane.is_some_and(|plane| plane.stride_bytes() != self.line_bytes(plane))
    }

    fn line_bytes(&self, plane: &Plane) -> usize {
        (plane.size().width as usize).saturating_mul(self.picture.format().sample_bytes())
    }

    /// `count` more bytes are there, at most as many as there was room for; whether all planes are full.
    fn took(&mut self, count: usize) -> bool {
        let (Some(room), Some(plane)) = (self.place(), self.picture.planes().get(self.plane)) else {
            return true;
        };
        let whole = self.line_bytes(plane).saturating_mul(plane.size().height as usize);
        self.filled = self.filled.saturating_add(count.min(room.len()));
        if self.filled < whole {
            return false;
        }
        self.clear_high_bits();
        self.plane = self.plane.saturating_add(1);
        self.filled = 0;
        self.plane == self.picture.planes().len()
    }

    /// Clears what stands above the sample depth in the plane that is full.
    fn clear_high_bits(&mut self) {
        let depth_bits = self.picture.format().depth_bits;
        if (9..16).contains(&depth_bits) {
            let mask = (1u16 << depth_bits).wrapping_sub(1);
            for sample in self.picture.planes_mut()[self.plane].bytes_mut().as_chunks_mut::<2>().0 {
                *sample = (u16::from_le_bytes(*sample) & mask).to_le_bytes();
            }
        }
    }
}

/// Appends the header line to `out`.
///
/// # Errors
/// [`Y4mError::Unwritable`]; nothing is appended then.
pub fn write_header(header: &Header, out: &mut Vec<u8>) -> Result<(), Y4mError> {
    header.write(out)
}

/// Appends a `FRAME` line and the picture's samples to `out`. The picture has to be of the header's size and
/// format, since nothing in the stream would tell otherwise.
///
/// # Panics
/// Where the picture is RGB or in pgroups: [`write_header`] has refused its header.
pub fn write_picture(picture: &Picture, out: &mut Vec<u8>) {
    let format = picture.format();
    assert!(header::is_writable(format), "{}", Y4mError::Unwritable(format));
    out.reserve(FRAME_LINE.len().saturating_add(format.packed_bytes(picture.size())));
    out.extend_from_slice(FRAME_LINE);
    for line in picture.planes().iter().flat_map(|plane| plane.lines()) {
        out.extend_from_slice(line);
    }
}

/// Bytes that are no YUV4MPEG2, or one that we don't take.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Y4mError {
    /// A line begins with the wrong word.
    #[error("y4m: found {found:?} where {expected} was expected, before picture {picture}")]
    Word {
        /// The line's first bytes.
        found: String,
        /// The word that belongs there.
        expected: &'static str,
        /// Pictures read so far.
        picture: u64,
    },
    /// A line does not end.
    #[error("y4m: a header line is longer than {MAX_LINE_BYTES} bytes")]
    LongLine,
    /// A tag of the header has a value that cannot be.
    #[error("y4m: header tag {tag:?}: expected {expected}")]
    Tag {
        /// The whole tag.
        tag: String,
        /// What its value should look like.
        expected: &'static str,
    },
    /// The header lacks width or height.
    #[error("y4m: the header has no {0} tag")]
    Missing(char),
    /// Width or height is zero or larger than any room takes.
    #[error("y4m: {width}x{height}: each side must be 1 to {}", Size::MAX_SIDE)]
    Size {
        /// Found width.
        width: u32,
        /// Found height.
        height: u32,
    },
    /// A picture would be larger than [`MAX_PICTURE_BYTES`].
    #[error(
        "y4m: a picture of {size} in {format:?} takes {bytes} bytes; at most {MAX_PICTURE_BYTES} are taken"
    )]
    TooLarge {
        /// Found size.
        size: Size,
        /// Found format.
        format: PixelFormat,
        /// What a picture would take.
        bytes: usize,
    },
    /// A second header says something else than the first.
    #[error(
        "y4m: the pictures change to {found}, after {picture} of {expected}; a stream keeps its size and format"
    )]
    Changed {
        /// What the second header says.
        found: String,
        /// What the first one said.
        expected: String,
        /// Pictures read so far.
        picture: u64,
    },
    /// A colour space that [`PixelFormat`] cannot say: alpha, or something unknown.
    #[error("y4m: colour space {0:?}; taken are 411, 420, 422, 444 and mono, with p9 to p16 for more bits")]
    ColourSpace(String),
    /// Pictures that y4m has no name for: RGB, and samples that are not in planes.
    #[error("y4m holds YCbCr in planes alone, not {:?} of {} bits ({:?})", .0.chroma, .0.depth_bits, .0.layout)]
    Unwritable(PixelFormat),
    /// The stream ends too early.
    #[error("y4m: the stream ends inside {place} of picture {picture}")]
    Truncated {
        /// In which part.
        place: &'static str,
        /// Number of the picture, from 0.
        picture: u64,
    },
}

impl Y4mError {
    fn at(self, number: u64) -> Y4mError {
        match self {
            Y4mError::Word { found, expected, .. } => Y4mError::Word { found, expected, picture: number },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests;
