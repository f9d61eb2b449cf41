//! Pictures from a stream of y4m: a file, standard input, FFmpeg.

use crate::capture::coded::stdin;
use crate::capture::ffmpeg::{FfmpegInput, FfmpegReader, Part};
use crate::capture::{Error, Result};
use glassline_io::clock::Clock;
use glassline_io::poll::{Poller, Watch};
use glassline_media::container::y4m::{Header, Interlacing, Reader};
use glassline_media::pixels::FieldOrder;
use glassline_media::{Colour, Picture, Time};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

const READ_BYTES: usize = 1 << 16;
/// Where samples can be read straight into their picture, so much is read to get at the line of text before them.
const LINE_BYTES: usize = 64;

/// Where the bytes come from.
enum Bytes {
    File {
        file: File,
        looped: bool,
    },
    /// The descriptor itself: [`std::io::Stdin`] would copy short reads. A regular file cannot be watched, and need not
    /// be: it can always be read.
    Stdin {
        /// What was read before, to see what it is.
        begun: io::Cursor<Vec<u8>>,
        file: File,
        poller: Option<Poller>,
    },
    Ffmpeg {
        reader: Box<FfmpegReader>,
        looped: bool,
    },
}

/// Where bytes are read to that are then copied.
struct Buffer {
    bytes: Vec<u8>,
    /// How much of it is used.
    taken: usize,
}

impl Read for Bytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Bytes::File { file, .. } => file.read(buffer),
            Bytes::Stdin { begun, file, .. } => match begun.read(buffer)? {
                0 => file.read(buffer),
                length => Ok(length),
            },
            Bytes::Ffmpeg { reader, .. } => reader.read(buffer),
        }
    }
}

/// What came out of [`Y4m::next_picture_before`].
pub(super) enum Next {
    /// The next picture.
    Picture(Picture),
    /// It is not there yet.
    Later,
    /// There are no more.
    End,
}

/// A y4m stream; its header has been read.
pub(super) struct Y4m {
    name: String,
    bytes: Bytes,
    reader: Reader,
    buffer: Buffer,
    /// Pictures that came along with the header, or with another picture.
    ready: VecDeque<Picture>,
    header: Header,
    /// Pictures since the file's beginning.
    pictures: u64,
    /// The next picture is the first of a file that has begun again.
    again: bool,
}

impl Y4m {
    /// A file, over and over if `looped`.
    pub(super) fn file(path: &Path, looped: bool) -> Result<Y4m> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| Error::Open { name: name.clone(), error })?;
        Y4m::open(name, Bytes::File { file, looped })
    }

    /// Standard input, of which these bytes were read already.
    pub(super) fn stdin(begun: Vec<u8>) -> Result<Y4m> {
        let name = "standard input";
        let file = stdin().map_err(Error::read(name))?;
        let begun = io::Cursor::new(begun);
        let poller = Poller::new().map_err(Error::read(name))?;
        let watched = poller.add(&file, 0, Watch::Accepts).is_ok();
        Y4m::open(name.to_owned(), Bytes::Stdin { begun, file, poller: watched.then_some(poller) })
    }

    /// The pictures of a file that FFmpeg decodes, over and over if `looped`.
    pub(super) fn ffmpeg(file: &FfmpegInput, looped: bool) -> Result<Y4m> {
        let reader = Box::new(FfmpegReader::open(file, Part::Pictures)?);
        Y4m::open(file.name(), Bytes::Ffmpeg { reader, looped })
    }

    fn open(name: String, mut bytes: Bytes) -> Result<Y4m> {
        let mut reader = Reader::new();
        let mut buffer = Buffer { bytes: vec![0; READ_BYTES], taken: READ_BYTES };
        let mut ready = VecDeque::new();
        let header = loop {
            if let Some(header) = reader.header() {
                break header.clone();
            }
            if !read(&name, &mut bytes, &mut buffer, &mut reader, &mut ready)? {
                reader.finish().map_err(Error::y4m(&name))?;
            }
        };
        if header.interlacing == Interlacing::Mixed {
            tracing::warn!(
                "{name} says that only some of its pictures are interlaced; none is taken as such"
            );
        }
        Ok(Y4m { name, bytes, reader, buffer, ready, header, pictures: 0, again: false })
    }

    /// What its pictures are like.
    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    /// What its samples mean: the range is the stream's own word, the rest what FFmpeg knows of its file, since y4m cannot say it.
    pub(super) fn colour(&self) -> Colour {
        let known = match &self.bytes {
            Bytes::Ffmpeg { reader, .. } => reader.file().colour(self.header.size),
            Bytes::File { .. } | Bytes::Stdin { .. } => Colour::UNSPECIFIED,
        };
        Colour { full_range: self.header.colour.full_range, ..known }
    }

    /// For people.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The order of its fields, where its pictures have some.
    pub(super) fn fields(&self) -> Option<FieldOrder> {
        self.header.interlacing.fields()
    }

    /// Whether it is standard input: its writer may have a clock of its own.
    pub(super) fn is_stdin(&self) -> bool {
        matches!(self.bytes, Bytes::Stdin { .. })
    }

    /// Whether the picture that was given last is the first of a file that has begun again; told once.
    pub(super) fn take_again(&mut self) -> bool {
        std::mem::take(&mut self.again)
    }

    /// The next picture, waited for no longer than to `deadline`, where there is one. Of standard input alone: another
    /// source is read until the picture is there.
    pub(super) fn next_picture_before(&mut self, deadline: Option<Time>, clock: Clock) -> Result<Next> {
        while self.ready.is_empty()
            && let (Bytes::Stdin { poller, .. }, Some(deadline)) = (&self.bytes, deadline)
        {
            if !is_readable(poller.as_ref(), deadline, clock).map_err(Error::read(&self.name))? {
                return Ok(Next::Later);
            }
            if !read(&self.name, &mut self.bytes, &mut self.buffer, &mut self.reader, &mut self.ready)? {
                break;
            }
        }
        Ok(self.next_picture()?.map_or(Next::End, Next::Picture))
    }

    /// The next picture, or `None` at the end.
    pub(super) fn next_picture(&mut self) -> Result<Option<Picture>> {
        while self.ready.is_empty() {
            if read(&self.name, &mut self.bytes, &mut self.buffer, &mut self.reader, &mut self.ready)? {
                continue;
            }
            self.reader.finish().map_err(Error::y4m(&self.name))?;
            match &mut self.bytes {
                // Without a picture it would be looped for ever in no time.
                Bytes::File { file, looped: true } if self.pictures > 0 => {
                    file.rewind().map_err(Error::read(&self.name))?;
                }
                Bytes::Ffmpeg { reader, looped: true } if self.pictures > 0 => reader.again()?,
                _ => return Ok(None),
            }
            (self.pictures, self.again) = (0, true);
        }
        self.pictures += 1;
        if let Bytes::Ffmpeg { reader, looped: true } = &mut self.bytes {
            reader.approach(self.header.frame_rate.time_of(self.pictures));
        }
        Ok(self.ready.pop_front())
    }
}

/// Whether a read would return at once, at `deadline` at the latest.
fn is_readable(poller: Option<&Poller>, deadline: Time, clock: Clock) -> io::Result<bool> {
    let wait = deadline.since(clock.now());
    if wait.is_zero() {
        return Ok(false);
    }
    let Some(poller) = poller else { return Ok(true) };
    let mut ready = Vec::new();
    poller.wait(Some(wait), &mut ready)?;
    Ok(!ready.is_empty())
}

/// Reads what is there; false at the end. Samples go from the pipe straight into their picture.
fn read(
    name: &str,
    bytes: &mut Bytes,
    buffer: &mut Buffer,
    reader: &mut Reader,
    ready: &mut VecDeque<Picture>,
) -> Result<bool> {
    if let Some(room) = reader.room() {
        buffer.taken = LINE_BYTES;
        let length = bytes.read(room).map_err(Error::read(name))?;
        ready.extend(reader.filled(length));
        return Ok(length > 0);
    }
    let length = bytes.read(&mut buffer.bytes[..buffer.taken]).map_err(Error::read(name))?;
    let mut bytes = &buffer.bytes[..length];
    loop {
        match reader.parse(&mut bytes) {
            Ok(Some(picture)) => ready.push_back(picture),
            Ok(None) => return Ok(length > 0),
            // The pictures before it come first; the reader gives the error again.
            Err(_) if !ready.is_empty() => return Ok(true),
            Err(error) => return Err(Error::y4m(name)(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_test_support::program::Scratch;

    const HEAD: &[u8] = b"YUV4MPEG2 W2 H2 F25:1 C420\n";

    fn film(pictures: &[u8]) -> Vec<u8> {
        let pictures = pictures.iter().flat_map(|luma| [&b"FRAME\n"[..], &[*luma; 6]].concat());
        HEAD.iter().copied().chain(pictures).collect()
    }

    fn open(scratch: &Scratch, bytes: &[u8], looped: bool) -> Result<Y4m> {
        Y4m::file(scratch.write("a.y4m", bytes).as_ref(), looped)
    }

    fn next(y4m: &mut Y4m) -> Option<u8> {
        y4m.next_picture().unwrap().map(|picture| picture.planes()[0].line(0)[0])
    }

    #[test]
    fn a_file_gives_its_pictures_in_order_and_then_none() {
        let scratch = Scratch::new("y4m-order");
        let mut y4m = open(&scratch, &film(&[1, 2, 3]), false).unwrap();
        assert_eq!([(); 5].map(|()| next(&mut y4m)), [Some(1), Some(2), Some(3), None, None]);
        assert!(!y4m.take_again() && !y4m.is_stdin());
    }

    #[test]
    fn a_file_that_begins_again_says_so_once_with_its_first_picture() {
        let scratch = Scratch::new("y4m-again");
        let mut y4m = open(&scratch, &film(&[1, 2]), true).unwrap();
        let told: Vec<_> = (0..5).map(|_| (next(&mut y4m), y4m.take_again())).collect();
        let expected = [(1, false), (2, false), (1, true), (2, false), (1, true)];
        assert_eq!(told, expected.map(|(luma, again)| (Some(luma), again)));
    }

    #[test]
    fn a_file_without_a_picture_ends_also_where_it_would_begin_again() {
        let scratch = Scratch::new("y4m-none");
        assert_eq!(next(&mut open(&scratch, HEAD, true).unwrap()), None);
    }

    #[test]
    fn a_picture_that_is_cut_off_is_a_failure_behind_the_whole_ones() {
        let scratch = Scratch::new("y4m-cut");
        let whole = film(&[1, 2]);
        let mut y4m = open(&scratch, &whole[..whole.len() - 1], false).unwrap();
        assert_eq!(next(&mut y4m), Some(1));
        assert!(y4m.next_picture().unwrap_err().to_string().contains("a.y4m"));
    }

    #[test]
    fn what_follows_a_picture_and_is_none_fails_after_it() {
        let scratch = Scratch::new("y4m-rubbish");
        let mut y4m = open(&scratch, &[&film(&[7])[..], b"RUBBISH\n"].concat(), false).unwrap();
        assert_eq!(next(&mut y4m), Some(7));
        assert!(y4m.next_picture().is_err());
    }

    #[test]
    fn what_is_no_stream_of_pictures_is_refused_by_name() {
        let scratch = Scratch::new("y4m-wrong");
        for bytes in [&b""[..], b"YUV4MPEG2 W2", b"RIFF....WAVE\n"] {
            let refused = open(&scratch, bytes, false).err().unwrap().to_string();
            assert!(refused.contains("a.y4m"), "{refused}");
        }
    }

    #[test]
    fn a_file_is_read_until_the_picture_is_there_whatever_the_deadline() {
        let scratch = Scratch::new("y4m-deadline");
        let mut y4m = open(&scratch, &film(&[5]), false).unwrap();
        let mut next = || y4m.next_picture_before(Some(Time::ZERO), Clock::new()).unwrap();
        assert!(matches!(next(), Next::Picture(_)));
        assert!(matches!(next(), Next::End));
    }
}
