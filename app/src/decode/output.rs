//! Where decoded pictures go: a y4m file or pipe, checksums, nowhere.

use crate::{failure, output as stdout};
use anyhow::Result;
use glassline_media::container::y4m;
use glassline_media::{FrameRate, Picture, Size};
use md5::{Digest, Md5};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};

/// The name of standard output in messages.
const STDOUT: &str = "standard output";

pub(crate) struct PictureOutput {
    name: String,
    kind: Kind,
}

enum Kind {
    Null,
    Checksums {
        /// The beginning of the pictures' names.
        stem: String,
    },
    Y4m {
        writer: Box<dyn Write + Send>,
        /// Size in the header; `None` until the header is written.
        size: Option<Size>,
        /// Buffer for a picture as bytes; kept so that it is allocated once.
        bytes: Vec<u8>,
    },
}

impl PictureOutput {
    /// Opens the output that the command line names; without a name, checksums are printed.
    pub(crate) fn open(name: Option<&str>, stem: &str) -> Result<PictureOutput> {
        let y4m = |writer| Kind::Y4m { writer, size: None, bytes: Vec::new() };
        let kind = match name {
            None => Kind::Checksums { stem: stem.to_owned() },
            Some("null:") => Kind::Null,
            Some("-") => y4m(Box::new(std::io::stdout()) as Box<dyn Write + Send>),
            Some(path) if path.ends_with(".y4m") => {
                let file = File::create(path).map_err(|error| {
                    failure::failed(format!("cannot write {path}: {error}"), "choose another name or folder")
                })?;
                y4m(Box::new(BufWriter::with_capacity(1 << 20, file)))
            }
            Some(other) => {
                return Err(failure::usage(
                    format!("{other} takes no pictures"),
                    "name a file that ends with .y4m, - for standard output, or null:",
                ));
            }
        };
        let name = match name {
            None | Some("-") => STDOUT,
            Some(name) => name,
        };
        Ok(PictureOutput { name: name.to_owned(), kind })
    }

    /// Whether pictures or checksums go to standard output.
    pub(crate) fn takes_stdout(&self) -> bool {
        self.name == STDOUT
    }

    /// Whether the format contains the frame rate.
    pub(crate) fn has_rate(&self) -> bool {
        matches!(self.kind, Kind::Y4m { .. })
    }

    /// Whether pictures are discarded.
    pub(crate) fn is_null(&self) -> bool {
        matches!(self.kind, Kind::Null)
    }

    /// Writes the picture of frame `number`. Frames are counted from 1 and include hidden ones, as in the names of
    /// the test vectors.
    pub(crate) fn picture(&mut self, picture: &Picture, rate: FrameRate, number: u64) -> Result<()> {
        match &mut self.kind {
            Kind::Null => Ok(()),
            Kind::Checksums { stem } => {
                let mut sum = Md5::new();
                for line in picture.planes().iter().flat_map(|plane| plane.lines()) {
                    sum.update(line);
                }
                let mut text = String::new();
                for byte in sum.finalize() {
                    let _ = write!(text, "{byte:02x}");
                }
                stdout::print(&format!("{text}  {stem}-{}-{number:04}.i420\n", picture.size()))
            }
            Kind::Y4m { writer, size, bytes } => {
                bytes.clear();
                match *size {
                    None => {
                        let header = y4m::Header::of(picture, rate);
                        y4m::write_header(&header, bytes)
                            .map_err(|error| failure::failed(error.to_string(), "take checksums (--md5)"))?;
                        *size = Some(picture.size());
                    }
                    Some(size) if size != picture.size() => {
                        let now = picture.size();
                        return Err(failure::failed(
                            format!(
                                "frame {number} is {now}, the ones before it {size}: y4m has one size for all"
                            ),
                            "bring them to one (--scale WxH), or take checksums (--md5)",
                        ));
                    }
                    Some(_) => {}
                }
                y4m::write_picture(picture, bytes);
                // The reader of a pipe gets each picture at once; for a file a later write is soon enough.
                let is_pipe = self.name == STDOUT;
                let done =
                    writer.write_all(bytes).and_then(|()| if is_pipe { writer.flush() } else { Ok(()) });
                written(done, &self.name)
            }
        }
    }

    /// Ends the output after the last picture.
    pub(crate) fn finish(&mut self) -> Result<()> {
        match &mut self.kind {
            Kind::Y4m { writer, .. } => written(writer.flush(), &self.name),
            Kind::Null | Kind::Checksums { .. } => Ok(()),
        }
    }
}

fn written(result: std::io::Result<()>, name: &str) -> Result<()> {
    match result {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(stdout::ReaderGone.into()),
        Err(error) => Err(failure::failed(format!("cannot write {name}: {error}"), "is there room left?")),
    }
}
