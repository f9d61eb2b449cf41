//! Pictures one by one, as fast as they are asked for, without a clock: for encoding files and for measurements.

use super::prepare::Prepare;
use super::stream::Y4m;
use super::{Deinterlace, Format, Length};
use crate::capture::{Children, Error, FfmpegInput, Input, Result};
use glassline_measure::pattern::Pattern;
use glassline_media::{Colour, Picture, PixelFormat, Time, Utc};
use std::collections::VecDeque;

/// Gives pictures in 8-bit 4:2:0. Unlike the live source it leaves odd sizes as they are.
pub struct Pictures {
    kind: Kind,
    format: Format,
    pixels: PixelFormat,
    length: Length,
    number: u64,
}

enum Kind {
    Test(Box<Pattern>),
    Y4m(Box<Stream>),
}

struct Stream {
    y4m: Y4m,
    /// Those that decode the file.
    children: Option<Children>,
    /// What makes 8-bit 4:2:0 of the pictures, and whole ones of fields, where they need it.
    prepare: Option<Prepare>,
    /// Of a picture that gave two, the second.
    ready: VecDeque<Picture>,
}

impl Stream {
    fn next(&mut self) -> Result<Option<Picture>> {
        if self.ready.is_empty()
            && let Some(picture) = self.y4m.next_picture()?
        {
            match &mut self.prepare {
                Some(prepare) => self.ready.extend(prepare.pictures(picture)),
                None => return Ok(Some(picture)),
            }
        }
        Ok(self.ready.pop_front())
    }
}

impl Pictures {
    /// Opens `input`, which is no device; a file is read over and over if `looped`.
    ///
    /// # Errors
    /// The input's; [`Error::DeviceOnRequest`] and [`Error::NotAFile`] where it cannot be had so.
    pub fn open(input: &Input, looped: bool, deinterlace: Deinterlace, length: Length) -> Result<Pictures> {
        Pictures::open_in(input, looped, Some(deinterlace), length)
    }

    /// The same in the samples that the input has, fields together.
    ///
    /// # Errors
    /// As of [`Pictures::open`].
    pub fn open_as_they_are(input: &Input, looped: bool, length: Length) -> Result<Pictures> {
        Pictures::open_in(input, looped, None, length)
    }

    /// Without `deinterlace`, pictures are not touched.
    fn open_in(
        input: &Input,
        looped: bool,
        deinterlace: Option<Deinterlace>,
        length: Length,
    ) -> Result<Pictures> {
        if looped && input.path().is_none() {
            return Err(Error::NotAFile);
        }
        let mut children = None;
        let stream = match input {
            Input::Test { size, rate } => {
                let (size, rate) = (*size, *rate);
                let colour = Colour::BT709;
                let format = Format { size, rate, colour, sample_aspect: None, fields: None, live: false };
                let kind = Kind::Test(Box::new(Pattern::new(size, rate)));
                return Ok(Pictures { kind, format, pixels: PixelFormat::I420, length, number: 0 });
            }
            Input::V4l2 { .. } | Input::Rtp { .. } => return Err(Error::DeviceOnRequest),
            Input::Stdin => Y4m::stdin(Vec::new())?,
            Input::File(path) => Y4m::file(path, looped)?,
            Input::Decoded(film) => {
                let file = FfmpegInput::open(film)?;
                children = Some(file.children());
                Y4m::ffmpeg(&file, looped)?
            }
        };
        let header = stream.header();
        let as_it_is = header.format == PixelFormat::I420 && stream.fields().is_none();
        let pixels = if deinterlace.is_none() { header.format } else { PixelFormat::I420 };
        let prepare = match deinterlace {
            Some(deinterlace) if !as_it_is => {
                Some(Prepare::new(stream.fields(), deinterlace, header.frame_rate))
            }
            Some(_) => None,
            None => Some(Prepare::keeping(stream.fields(), header.frame_rate)),
        };
        let format = Format {
            size: prepare.as_ref().map_or(header.size, |prepare| prepare.size(header.size)),
            rate: prepare.as_ref().map_or(header.frame_rate, |prepare| prepare.rate(header.frame_rate)),
            colour: stream.colour(),
            sample_aspect: header.sample_aspect,
            fields: prepare.as_ref().and_then(Prepare::fields),
            live: false,
        };
        if deinterlace.is_some() {
            super::refuse_hdr(format.colour)?;
        }
        let kind = Kind::Y4m(Box::new(Stream { y4m: stream, children, prepare, ready: VecDeque::new() }));
        Ok(Pictures { kind, format, pixels, length, number: 0 })
    }

    /// What the pictures are like.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Components and depth of their samples, which lie in planes.
    #[must_use]
    pub fn pixels(&self) -> PixelFormat {
        self.pixels
    }

    /// The children that have to end with us, if there are any.
    #[must_use]
    pub fn children(&self) -> Option<Children> {
        match &self.kind {
            Kind::Y4m(stream) => stream.children.clone(),
            Kind::Test(_) => None,
        }
    }

    /// The next picture, or `None` at the end. The same input gives the same pictures: the test pattern's clock
    /// begins at zero.
    ///
    /// # Errors
    /// The input's.
    pub fn next_picture(&mut self) -> Result<Option<Picture>> {
        if self.length.ends_before(self.number, self.format.rate) {
            return Ok(None);
        }
        let time = self.format.rate.time_of(self.number);
        let picture = match &mut self.kind {
            Kind::Test(pattern) => {
                let utc = Utc::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
                Some(pattern.draw(self.number, Time::ZERO + time, utc))
            }
            Kind::Y4m(stream) => stream.next()?,
        };
        self.number += u64::from(picture.is_some());
        Ok(picture)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_test_support::program::Scratch;

    fn open(input: &str, pictures: Option<u64>) -> Result<Pictures> {
        let length = Length { pictures, time: None };
        Pictures::open(&input.parse().unwrap(), false, Deinterlace::Auto, length)
    }

    fn all(mut pictures: Pictures) -> Vec<Picture> {
        std::iter::from_fn(|| pictures.next_picture().unwrap()).collect()
    }

    #[test]
    fn the_test_pattern_is_the_same_each_time() {
        let (one, other) = (open("test:64x48@25", Some(3)).unwrap(), open("test:64x48@25", Some(3)).unwrap());
        let (one, other) = (all(one), all(other));
        assert_eq!((one.len(), one == other), (3, true));
        assert_ne!(one[0], one[1]);
    }

    #[test]
    fn odd_sizes_stay_and_other_formats_become_420() {
        let scratch = Scratch::new("pull");
        let odd =
            scratch.write("odd.y4m", [&b"YUV4MPEG2 W3 H1 F25:1 C420\nFRAME\n"[..], b"abcdefg"].concat());
        let pictures = open(&odd, None).unwrap();
        assert_eq!(pictures.format().size.to_string(), "3x1");
        assert_eq!(all(pictures)[0].planes()[0].line(0), b"abc");
        let mono = scratch.write("mono.y4m", [&b"YUV4MPEG2 W3 H1 F25:1 Cmono\nFRAME\n"[..], b"abc"].concat());
        let pictures = open(&mono, None).unwrap();
        assert_eq!(pictures.format().size.to_string(), "4x2");
        assert_eq!(all(pictures)[0].format(), PixelFormat::I420);
        let fields =
            [&b"YUV4MPEG2 W2 H4 F25:1 It C420\n"[..], b"FRAME\nabcdefghijkl", b"FRAME\nABCDEFGHIJKL"];
        let pictures = open(&scratch.write("fields.y4m", fields.concat()), Some(3)).unwrap();
        assert_eq!(pictures.format().rate.to_string(), "50");
        assert_eq!(all(pictures).len(), 3, "of four");
    }

    #[test]
    fn devices_and_loops_of_what_cannot_be_are_refused() {
        assert!(open("v4l2:/dev/video0", None).is_err());
        let input = "test:64x48@25".parse().unwrap();
        assert!(Pictures::open(&input, true, Deinterlace::Auto, Length::default()).is_err());
    }
}
