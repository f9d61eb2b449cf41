//! A decoder of one picture a unit, without delay.

use super::dav1d_ffi::{Handle, Shown};
use super::describe::{Front, describe};
use super::encoder::check_threads;
use super::error::Error;
use super::planes::PictureHash;
use glassline_media::bitstream::av1::SequenceHeader;
use glassline_media::picture::PicturePool;
use glassline_media::{Picture, PixelFormat, Size, Time};

/// What came of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The picture: I420, without film grain. Its capture time is zero, as the stream does not carry it. Its size is that of
    /// the picture before it in streams of our encoder alone.
    pub picture: Picture,
    /// Names it: the same as [`Encoded::hash`](super::Encoded::hash) where encoder and decoder agree.
    pub hash: PictureHash,
}

/// A decoder of units with one shown frame each, of 8 bits and 4:2:0.
///
/// It does not know which slots hold what a unit is predicted from: the caller gives it only units of which that is sure.
/// Threads are dav1d's own.
pub struct Decoder {
    handle: Handle,
    threads: i32,
    max_pixels: u32,
    state: State,
    pool: PicturePool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing was given to dav1d.
    New,
    /// All units since the last key unit were decoded.
    Decoding,
    /// A unit was not decoded: what lies in the slots is not known.
    Failed,
}

impl Decoder {
    /// Opens a decoder with `threads` (1 to 16) for each picture, for pictures of up to `max_pixels` samples, width times
    /// height: they bound the time that a unit takes, and memory, which is some twenty pictures of 1.5 bytes a sample.
    ///
    /// # Errors
    /// [`Error::Setting`] for numbers out of their range, [`Error::Library`] where dav1d fails.
    pub fn new(threads: usize, max_pixels: u32) -> Result<Decoder, Error> {
        check_threads(threads)?;
        if max_pixels == 0 {
            return Err(Error::setting("max_pixels", max_pixels, "at least 1"));
        }
        let threads = i32::try_from(threads).unwrap_or(1);
        let (handle, pool) = (open(threads, max_pixels)?, PicturePool::default());
        Ok(Decoder { handle, threads, max_pixels, state: State::New, pool })
    }

    /// Decodes one temporal unit of the low-overhead format (AV1 specification §5.2) to the one picture that it shows.
    ///
    /// The first unit has to be a key unit ([`describe`]). After an error all units but key units are refused, since what lies
    /// in the slots is not known any more; with a key unit the decoder begins anew.
    ///
    /// # Errors
    /// [`Error::NoPicture`] where a key unit is needed; [`Error::TooLarge`], [`Error::Format`] and [`Error::Unit`] for units
    /// that are not given to dav1d, or that are found to be so; [`Error::Corrupt`] for what dav1d cannot decode;
    /// [`Error::Library`] where it cannot begin anew. Time is bounded by the length of the unit and by `max_pixels`.
    pub fn decode(&mut self, unit: &[u8]) -> Result<Decoded, Error> {
        let decoded = self.decode_unit(unit);
        self.state = match (&decoded, self.state) {
            (Ok(_), _) => State::Decoding,
            (Err(_), State::New) => State::New,
            (Err(_), _) => State::Failed,
        };
        decoded
    }

    fn decode_unit(&mut self, unit: &[u8]) -> Result<Decoded, Error> {
        let problem = |problem| Error::Unit { bytes: unit.len(), problem };
        // One frame a unit bounds the time that a unit takes.
        let front = Front::of(unit).map_err(problem)?;
        if let Some(sequence) = front.sequence {
            let sequence = SequenceHeader::parse(sequence)
                .ok_or_else(|| problem("a sequence header that cannot be read"))?;
            check_sequence(&sequence, self.max_pixels)?;
        }
        if self.state != State::Decoding {
            if !describe(unit).is_some_and(|unit| unit.key) {
                return Err(Error::NoPicture);
            }
            if self.state == State::Failed {
                self.handle = open(self.threads, self.max_pixels)?;
            }
        }
        // What goes to dav1d changes it.
        self.state = State::Failed;
        let corrupt = |reason| Error::Corrupt { bytes: unit.len(), reason };
        let (planes, colour) = match self.handle.decode(unit).map_err(corrupt)? {
            Shown::Picture(planes, colour) => (planes, colour),
            Shown::Pictures(0) => return Err(problem("no picture that is shown")),
            Shown::Pictures(_) => return Err(problem("several pictures that are shown")),
            Shown::Other => return Err(Error::Format { bits: 8, chroma: "of another layout" }),
        };
        Error::check_size(planes.size, self.max_pixels)?;
        let mut picture = self.pool.take(PixelFormat::I420, planes.size, Time::ZERO);
        planes.copy_to(&mut picture);
        let hash = planes.hash();
        picture.colour = colour;
        self.pool.keep(&picture);
        Ok(Decoded { picture, hash })
    }
}

/// Refuses pictures that are too large or of another format before they take memory.
fn check_sequence(sequence: &SequenceHeader, max_pixels: u32) -> Result<(), Error> {
    let &SequenceHeader { width_px, height_px, bit_depth, monochrome, subsampling, .. } = sequence;
    Error::check_size(Size { width: width_px, height: height_px }, max_pixels)?;
    let chroma = match (monochrome, subsampling) {
        (true, _) => "luma alone",
        (false, (true, true)) => "4:2:0",
        (false, (true, false)) => "4:2:2",
        (false, _) => "4:4:4",
    };
    if (bit_depth, chroma) == (8, "4:2:0") { Ok(()) } else { Err(Error::Format { bits: bit_depth, chroma }) }
}

fn open(threads: i32, max_pixels: u32) -> Result<Handle, Error> {
    Handle::open(threads, max_pixels).map_err(|reason| Error::Library {
        library: "dav1d",
        action: "open a decoder",
        reason,
    })
}
