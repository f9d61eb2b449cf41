//! Pictures from a stream of y4m: a file, standard input, FFmpeg.

use super::decoder::{Decoder, DecoderHandle};
use crate::failure;
use anyhow::{Context, Result};
use glassline_media::Picture;
use glassline_media::container::y4m::{Header, Interlacing, Reader};
use glassline_media::pixels::FieldOrder;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

const READ_BYTES: usize = 1 << 20;

/// Where the bytes come from.
enum Bytes {
    File { file: File, looped: bool },
    Stdin(std::io::Stdin),
    Decoder(Box<Decoder>),
}

/// A y4m stream whose header has been read.
pub(super) struct Y4m {
    name: String,
    bytes: Bytes,
    reader: Reader,
    buffer: Vec<u8>,
    /// Pictures that came along with the header, or with another picture.
    ready: VecDeque<Picture>,
    header: Header,
    /// Pictures since the file's beginning.
    pictures: u64,
}

impl Y4m {
    /// A file, over and over if `looped`.
    pub(super) fn file(path: &Path, looped: bool) -> Result<Y4m> {
        let name = path.display().to_string();
        let file = File::open(path)
            .map_err(|error| failure::failed(format_args!("{name}: {error}"), "check the name"))?;
        Y4m::open(name, Bytes::File { file, looped })
    }

    /// Standard input.
    pub(super) fn stdin() -> Result<Y4m> {
        Y4m::open("standard input".to_owned(), Bytes::Stdin(std::io::stdin()))
    }

    /// What FFmpeg makes of a file, over and over if `looped`.
    pub(super) fn decoded(path: &Path, looped: bool) -> Result<Y4m> {
        let decoder = Box::new(Decoder::start(path, looped)?);
        Y4m::open(path.display().to_string(), Bytes::Decoder(decoder))
    }

    fn open(name: String, mut bytes: Bytes) -> Result<Y4m> {
        let mut reader = Reader::new();
        let mut buffer = vec![0; READ_BYTES];
        let mut ready = VecDeque::new();
        let header = loop {
            if let Some(header) = reader.header() {
                break header.clone();
            }
            if !read(&name, &mut bytes, &mut buffer, &mut reader, &mut ready)? {
                reader.finish().with_context(|| name.clone())?;
            }
        };
        if header.interlacing == Interlacing::Mixed {
            tracing::warn!(
                "{name} says that only some of its pictures are interlaced; none is taken as such"
            );
        }
        Ok(Y4m { name, bytes, reader, buffer, ready, header, pictures: 0 })
    }

    /// What its pictures are like.
    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    /// For people.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The order of its fields, where its pictures have some.
    pub(super) fn fields(&self) -> Option<FieldOrder> {
        match self.header.interlacing {
            Interlacing::TopFirst => Some(FieldOrder::TopFirst),
            Interlacing::BottomFirst => Some(FieldOrder::BottomFirst),
            Interlacing::Unknown | Interlacing::Progressive | Interlacing::Mixed => None,
        }
    }

    /// Whether somebody writes who may have a clock of their own.
    pub(super) fn is_stdin(&self) -> bool {
        matches!(self.bytes, Bytes::Stdin(_))
    }

    /// The child that decodes, if one does.
    pub(super) fn decoder(&self) -> Option<DecoderHandle> {
        match &self.bytes {
            Bytes::Decoder(decoder) => Some(decoder.handle()),
            Bytes::File { .. } | Bytes::Stdin(_) => None,
        }
    }

    /// The next picture, or `None` at the end.
    pub(super) fn next_picture(&mut self) -> Result<Option<Picture>> {
        while self.ready.is_empty() {
            if read(&self.name, &mut self.bytes, &mut self.buffer, &mut self.reader, &mut self.ready)? {
                continue;
            }
            self.reader.finish().with_context(|| self.name.clone())?;
            match &mut self.bytes {
                // Without a picture it would be looped for ever in no time.
                Bytes::File { file, looped: true } if self.pictures > 0 => {
                    file.rewind().with_context(|| self.name.clone())?;
                    self.pictures = 0;
                }
                _ => return Ok(None),
            }
        }
        self.pictures += 1;
        Ok(self.ready.pop_front())
    }
}

/// Reads what is there; false at the end.
fn read(
    name: &str,
    bytes: &mut Bytes,
    buffer: &mut [u8],
    reader: &mut Reader,
    ready: &mut VecDeque<Picture>,
) -> Result<bool> {
    let length = match bytes {
        Bytes::File { file, .. } => file.read(buffer),
        Bytes::Stdin(stdin) => stdin.lock().read(buffer),
        Bytes::Decoder(decoder) => decoder.read(buffer),
    };
    let length = length.with_context(|| name.to_owned())?;
    let mut bytes = &buffer[..length];
    while let Some(picture) = reader.parse(&mut bytes).with_context(|| name.to_owned())? {
        ready.push_back(picture);
    }
    Ok(length > 0)
}
