//! Pictures out of y4m or IVF, one by one.

use crate::{decode, failure};
use anyhow::{Context, Result};
use glassline_media::Picture;
use glassline_media::container::y4m::Reader;
use std::fs::File;
use std::io::{ErrorKind, Read};

const READ_BYTES: usize = 1 << 20;

/// Gives pictures.
pub(super) enum Source {
    Y4m(Box<Y4m>),
    Ivf(Box<decode::Pictures>),
}

pub(super) struct Y4m {
    name: String,
    bytes: Box<dyn Read>,
    reader: Reader,
    buffer: Vec<u8>,
    /// What of `buffer` is read and not yet parsed.
    unparsed: std::ops::Range<usize>,
}

impl Source {
    /// A y4m file.
    pub(super) fn reference(name: &str) -> Result<Source> {
        let file = File::open(name)
            .map_err(|error| failure::failed(format!("cannot read {name}: {error}"), "name a y4m file"))?;
        Ok(Source::y4m(name, Box::new(file)))
    }

    /// A y4m file, y4m on standard input, or VP8 in IVF.
    pub(super) fn distorted(name: &str) -> Result<Source> {
        if name == "-" {
            return Ok(Source::y4m("standard input", Box::new(std::io::stdin().lock())));
        }
        if name.to_ascii_lowercase().ends_with(".ivf") {
            return Ok(Source::Ivf(Box::new(decode::Pictures::open(name)?)));
        }
        let file = File::open(name).map_err(|error| {
            failure::failed(format!("cannot read {name}: {error}"), "name a file that ends with .y4m or .ivf")
        })?;
        Ok(Source::y4m(name, Box::new(file)))
    }

    fn y4m(name: &str, bytes: Box<dyn Read>) -> Source {
        let (name, buffer) = (name.to_owned(), vec![0; READ_BYTES]);
        Source::Y4m(Box::new(Y4m { name, bytes, reader: Reader::new(), buffer, unparsed: 0..0 }))
    }

    /// The next picture; none at the end.
    pub(super) fn next(&mut self) -> Result<Option<Picture>> {
        match self {
            Source::Y4m(y4m) => y4m.next().with_context(|| y4m.name.clone()),
            Source::Ivf(pictures) => pictures.next(),
        }
    }
}

impl Y4m {
    fn next(&mut self) -> Result<Option<Picture>> {
        loop {
            let mut rest = &self.buffer[self.unparsed.clone()];
            let before = rest.len();
            let picture = self.reader.parse(&mut rest)?;
            self.unparsed.start += before - rest.len();
            if picture.is_some() {
                return Ok(picture);
            }
            let count = match self.bytes.read(&mut self.buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                count => count?,
            };
            if count == 0 {
                self.reader.finish()?;
                return Ok(None);
            }
            self.unparsed = 0..count;
        }
    }
}
