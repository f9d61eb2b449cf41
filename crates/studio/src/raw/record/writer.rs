//! Pictures to a file.

use glassline_io::direct_file::DirectFile;
use glassline_media::container::y4m::{self, Y4mError};
use glassline_media::pixels::Unpacker;
use glassline_media::{Chroma, FrameRate, Layout, Picture, PixelFormat};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What a recording is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// Nothing: frames are counted.
    Null,
    /// `YUV4MPEG2`: planes behind a header that says what they are.
    Y4m,
    /// Samples alone, as [`Raw`] has them.
    Raw,
}

impl Container {
    /// That of an output's name: `null:`, `FILE.y4m`, `FILE.yuv`; `None` for others.
    pub fn of(name: &str) -> Option<Container> {
        if name == "null:" {
            return Some(Container::Null);
        }
        let extension = Path::new(name).extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "y4m" => Some(Container::Y4m),
            "yuv" | "rgb" | "raw" => Some(Container::Raw),
            _ => None,
        }
    }

    /// How frames in `pixels` are best received for it: as they are written.
    pub fn layout(self, pixels: PixelFormat) -> Layout {
        match self {
            Container::Null => Layout::Pgroups,
            Container::Raw if Raw::of(pixels).is_packed => Layout::Pgroups,
            Container::Y4m | Container::Raw => Layout::Planar,
        }
    }
}

/// How samples lie in a file that has nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw {
    /// FFmpeg's name of it (`-pixel_format`).
    pub pix_fmt: String,
    /// As they came, and not in planes.
    is_packed: bool,
    /// The order of planes.
    planes: [usize; 3],
}

impl Raw {
    /// That of frames in `pixels`. What FFmpeg knows packed is written as it came, all else in planes.
    pub fn of(pixels: PixelFormat) -> Raw {
        let deep = if pixels.depth_bits > 8 { format!("{}le", pixels.depth_bits) } else { String::new() };
        let (name, is_packed) = match (pixels.chroma, pixels.depth_bits) {
            (Chroma::Yuv422, 8) => ("uyvy422", true),
            (Chroma::Rgb, 8) => ("rgb24", true),
            (Chroma::Mono, _) => ("gray", false),
            (Chroma::Yuv420, _) => ("yuv420p", false),
            (Chroma::Yuv411, _) => ("yuv411p", false),
            (Chroma::Yuv422, _) => ("yuv422p", false),
            (Chroma::Yuv444, _) => ("yuv444p", false),
            (Chroma::Rgb, _) => ("gbrp", false),
        };
        let planes = if pixels.chroma == Chroma::Rgb { [1, 2, 0] } else { [0, 1, 2] };
        Raw { pix_fmt: format!("{name}{deep}"), is_packed, planes }
    }
}

/// Why nothing is written. The texts say what is wrong, not what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// y4m has no such samples.
    #[error("{0}")]
    Y4m(#[from] Y4mError),
    /// The file's.
    #[error("{0}")]
    File(#[from] io::Error),
}

/// Writes pictures of one format, past the page cache where the file system takes that.
pub struct Writer {
    container: Container,
    file: Option<(PathBuf, DirectFile)>,
    raw: Raw,
    rate: FrameRate,
    unpacker: Unpacker,
    header: Vec<u8>,
    has_begun: bool,
    /// Bytes of a frame in the file, once there is one.
    frame_bytes: Option<u64>,
}

/// What a recording has after its disk failed: whole frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// How many.
    pub frames: u64,
    /// The file's bytes.
    pub bytes: u64,
}

impl Writer {
    /// Makes the file, or empties the one that is there. `picture` is an example of what will be written, `sample_aspect`
    /// width to height of its samples, which y4m says and raw bytes do not.
    ///
    /// # Errors
    /// [`WriteError::Y4m`] where `picture` is nothing for that container, before anything is touched; what the system says of
    /// the file.
    pub fn create(
        name: &str,
        container: Container,
        picture: &Picture,
        rate: FrameRate,
        sample_aspect: (u32, u32),
    ) -> Result<Writer, WriteError> {
        let mut header = Vec::new();
        if container == Container::Y4m {
            let mut planar = Picture::new(picture.format().to_planar(), picture.size(), picture.captured);
            (planar.fields, planar.colour) = (picture.fields, picture.colour);
            let described =
                y4m::Header { sample_aspect: Some(sample_aspect), ..y4m::Header::of(&planar, rate) };
            y4m::write_header(&described, &mut header)?;
        }
        let file = match container {
            Container::Null => None,
            Container::Y4m | Container::Raw => {
                Some((PathBuf::from(name), DirectFile::create(Path::new(name))?))
            }
        };
        let raw = Raw::of(picture.format());
        let (unpacker, frame_bytes) = (Unpacker::new(), None);
        Ok(Writer { container, file, raw, rate, unpacker, header, has_begun: false, frame_bytes })
    }

    /// How samples lie in a file of [`Container::Raw`].
    pub fn raw(&self) -> &Raw {
        &self.raw
    }

    /// Pictures a second.
    pub fn rate(&self) -> FrameRate {
        self.rate
    }

    /// Whether writes go past the page cache.
    pub fn is_direct(&self) -> bool {
        self.file.as_ref().is_some_and(|(_, file)| file.is_direct())
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.file.as_ref().map_or(0, |(_, file)| file.length())
    }

    /// Writes a picture of the same format as the example. May wait for the disk.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&mut self, picture: &Picture) -> io::Result<()> {
        let before = self.bytes().max(self.header_bytes());
        self.append(picture)?;
        self.frame_bytes = Some(self.bytes().saturating_sub(before));
        Ok(())
    }

    fn header_bytes(&self) -> u64 {
        self.header.len() as u64
    }

    fn append(&mut self, picture: &Picture) -> io::Result<()> {
        let Some((_, file)) = &mut self.file else { return Ok(()) };
        if self.container == Container::Raw {
            if self.raw.is_packed && picture.format().layout == Layout::Pgroups {
                let plane = &picture.planes()[0];
                let bytes = plane.size().height as usize * plane.stride_bytes();
                return file.append(&plane.bytes()[..bytes]);
            }
            let planar = self.unpacker.unpack(picture);
            for plane in self.raw.planes.iter().filter_map(|&index| planar.planes().get(index)) {
                plane.lines().try_for_each(|line| file.append(line))?;
            }
            return Ok(());
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            file.append(&self.header)?;
        }
        let planar = self.unpacker.unpack(picture);
        file.append(y4m::FRAME_LINE)?;
        planar.planes().iter().flat_map(|plane| plane.lines()).try_for_each(|line| file.append(line))
    }

    /// Writes what is left and waits for the disk. Returns the file's bytes.
    ///
    /// # Errors
    /// What the system says, and what there is nevertheless.
    pub fn finish(mut self) -> Result<u64, (io::Error, Kept)> {
        let header_is_missing = self.container == Container::Y4m && !self.has_begun;
        let Some((_, file)) = &mut self.file else { return Ok(0) };
        let ended = if header_is_missing { file.append(&self.header) } else { Ok(()) };
        match ended.and_then(|()| file.put_rest()) {
            Ok(()) => Ok(file.written()),
            Err(error) => {
                let kept = self.keep();
                Err((error, kept))
            }
        }
    }

    /// Ends the file after a failure, behind the last frame that is there as a whole.
    pub fn keep(mut self) -> Kept {
        let (header, frame) = (self.header_bytes(), self.frame_bytes.unwrap_or(0));
        let Some((path, file)) = self.file.take() else { return Kept { frames: 0, bytes: 0 } };
        let written = file.written();
        let of_frames = written.saturating_sub(header);
        let frames = of_frames.checked_div(frame).unwrap_or(0);
        let bytes = if written < header { 0 } else { header + frames * frame };
        if let Err(error) = file.cut(bytes) {
            tracing::warn!(%error, "{} does not end with a whole frame", path.display());
            return Kept { frames, bytes: written };
        }
        Kept { frames, bytes }
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
