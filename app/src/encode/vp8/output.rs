//! Where the frames go: an IVF file, standard output, nowhere.

use crate::{failure, output as stdout};
use anyhow::{Context, Result};
use bytes::Bytes;
use glassline_media::container::ivf::{Frame, Header};
use glassline_media::{FrameRate, Size};
use glassline_studio::output::Target;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Seek, SeekFrom, Write};

/// Where the header says how many frames follow.
const FRAMES_AT: u64 = 24;

/// Writes IVF.
pub(crate) struct IvfOutput {
    name: String,
    kind: Kind,
    frames: u64,
    /// A frame with its header; kept for its memory.
    bytes: Vec<u8>,
}

enum Kind {
    Null,
    Stdout,
    File(BufWriter<File>),
}

impl IvfOutput {
    /// Opens `target`, one that IVF goes to, and writes the header.
    pub(crate) fn open(target: &Target, codec: [u8; 4], size: Size, rate: FrameRate) -> Result<IvfOutput> {
        let name = target.to_string();
        let kind = match target {
            Target::Null => Kind::Null,
            Target::File(path) => {
                let file = File::create(path).map_err(|error| {
                    failure::failed(format!("cannot write {name}: {error}"), "choose another name or folder")
                })?;
                Kind::File(BufWriter::with_capacity(1 << 20, file))
            }
            Target::Stdout => Kind::Stdout,
            other => {
                return Err(failure::usage(
                    format_args!("{other} takes no IVF"),
                    "name FILE.ivf, - or null:",
                ));
            }
        };
        let mut output = IvfOutput { name, kind, frames: 0, bytes: Vec::new() };
        let side = |side: u32| u16::try_from(side).unwrap_or(u16::MAX);
        let (width, height) = (side(size.width), side(size.height));
        Header { codec, width, height, rate, frames: 0 }.write(&mut output.bytes);
        output.write()?;
        Ok(output)
    }

    /// Writes the next frame, of the next time. Standard output gets it at once.
    pub(super) fn frame(&mut self, bytes: Vec<u8>) -> Result<()> {
        self.frame_at(bytes, self.frames)
    }

    /// Writes the next frame; `time_stamp` counts by the frame rate.
    pub(crate) fn frame_at(&mut self, bytes: impl Into<Bytes>, time_stamp: u64) -> Result<()> {
        self.bytes.clear();
        let frame = Frame { time_stamp, bytes: bytes.into() };
        frame.write(&mut self.bytes)?;
        self.frames += 1;
        self.write()
    }

    /// Writes what is held.
    fn write(&mut self) -> Result<()> {
        let written = match &mut self.kind {
            Kind::Null => Ok(()),
            Kind::Stdout => {
                let mut out = std::io::stdout().lock();
                out.write_all(&self.bytes).and_then(|()| out.flush())
            }
            Kind::File(file) => file.write_all(&self.bytes),
        };
        self.told(written)
    }

    fn told(&self, written: std::io::Result<()>) -> Result<()> {
        match written {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::BrokenPipe && matches!(self.kind, Kind::Stdout) => {
                Err(stdout::ReaderGone.into())
            }
            Err(error) => {
                Err(failure::failed(format!("cannot write {}: {error}", self.name), "is there room left?"))
            }
        }
    }

    /// Everything has come: a file's header gets the number of frames.
    pub(crate) fn finish(mut self) -> Result<()> {
        let frames = u32::try_from(self.frames).unwrap_or(0).to_le_bytes();
        let Kind::File(file) = &mut self.kind else { return Ok(()) };
        let flushed = file.flush();
        // A pipe or a device that was named like a file has no place to go back to.
        let is_file = file.get_ref().metadata().is_ok_and(|about| about.is_file());
        let written = flushed.and_then(|()| match is_file {
            true => file
                .seek(SeekFrom::Start(FRAMES_AT))
                .and_then(|_| file.write_all(&frames))
                .and_then(|()| file.flush()),
            false => Ok(()),
        });
        self.told(written).context("at the end")
    }
}
