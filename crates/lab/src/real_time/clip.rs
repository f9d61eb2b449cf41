//! The video that is sent: a y4m file of pictures with barcodes that name them.

use super::scratch::Scratch;
use anyhow::{Context, Result, ensure};
use glassline_measure::barcode::{self, Barcode, Layout};
use glassline_media::container::y4m::{self, Header};
use glassline_media::{Chroma, FrameRate, Picture, PixelFormat, Size, Time, Utc};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The line before each picture's samples.
const FRAME: &[u8] = b"FRAME\n";

/// A file of pictures that are numbered from 0.
#[derive(Debug)]
pub struct Clip {
    path: PathBuf,
    file: File,
    header: Vec<u8>,
    size: Size,
    rate: FrameRate,
    layout: Layout,
    pictures: u64,
}

/// Luma alone.
pub(super) const MONO: PixelFormat = PixelFormat::planar(Chroma::Mono, 8);

/// A picture of luma alone, of samples line by line without padding.
pub(super) fn mono(luma: &[u8], size: Size) -> Result<Picture> {
    let wanted = MONO.packed_bytes(size);
    ensure!(luma.len() == wanted, "a picture has {} bytes of luma, not {wanted}", luma.len());
    let mut picture = Picture::new(MONO, size, Time::ZERO);
    let lines = picture.planes_mut()[0].lines_mut();
    lines.zip(luma.chunks_exact(size.width as usize)).for_each(|(to, from)| to.copy_from_slice(from));
    Ok(picture)
}

impl Clip {
    /// Writes up to `most` of the pictures that `next` gives (8-bit 4:2:0, all of one size), each with its number in its barcode,
    /// until there are no more. Time of capture is left out of the barcode, so that a picture is the same in each round.
    ///
    /// # Errors
    /// Where there is no picture, or none with room for a barcode, or no room for the file.
    pub fn write(
        scratch: &Scratch,
        rate: FrameRate,
        most: u64,
        mut next: impl FnMut() -> Result<Option<Picture>>,
    ) -> Result<Clip> {
        let path = scratch.file("clip.y4m");
        let told = || format!("cannot write {}", path.display());
        let file = File::options().read(true).write(true).create_new(true).open(&path).with_context(told)?;
        let mut out = BufWriter::with_capacity(1 << 20, &file);
        let mut picture = next()?.context("the video has no picture")?;
        let size = picture.size();
        let layout = barcode::layout(size).with_context(|| {
            format!("pictures of {size} have no room for a barcode; 160x64 have, and all that are larger")
        })?;
        let (mut header, mut pictures, mut bytes) = (Vec::new(), 0, Vec::new());
        y4m::write_header(&Header::of(&picture, rate), &mut header)?;
        out.write_all(&header).with_context(told)?;
        loop {
            Barcode::new(pictures, Utc::from_micros(0)).draw(&mut picture);
            bytes.clear();
            y4m::write_picture(&picture, &mut bytes);
            out.write_all(&bytes).with_context(told)?;
            pictures += 1;
            if pictures == most {
                break;
            }
            match next()? {
                Some(another) => picture = another,
                None => break,
            }
        }
        out.flush().with_context(told)?;
        drop(out);
        // Written now, so that the disk is still while it is measured.
        file.sync_data().with_context(told)?;
        Ok(Clip { path, file, header, size, rate, layout, pictures })
    }

    /// Where it lies.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Its header line.
    pub(super) fn header(&self) -> &[u8] {
        &self.header
    }

    /// Of its pictures.
    pub(super) fn size(&self) -> Size {
        self.size
    }

    /// Pictures a second.
    pub(super) fn rate(&self) -> FrameRate {
        self.rate
    }

    /// Where the barcodes are.
    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// How many pictures it has.
    pub(super) fn pictures(&self) -> u64 {
        self.pictures
    }

    fn frame_bytes(&self) -> usize {
        FRAME.len() + PixelFormat::I420.packed_bytes(self.size)
    }

    fn at(&self, number: u64) -> u64 {
        self.header.len() as u64 + number % self.pictures * self.frame_bytes() as u64
    }

    /// Picture `number` as it stands in the file, with the line before it; the clip begins again at its end.
    pub(super) fn frame(&self, number: u64, bytes: &mut Vec<u8>) -> Result<()> {
        bytes.resize(self.frame_bytes(), 0);
        self.file.read_exact_at(bytes, self.at(number)).context("cannot read the clip")
    }

    /// The luma of picture `number`.
    pub(super) fn luma(&self, number: u64) -> Result<Picture> {
        let mut bytes = vec![0; MONO.packed_bytes(self.size)];
        let at = self.at(number) + FRAME.len() as u64;
        self.file.read_exact_at(&mut bytes, at).context("cannot read the clip")?;
        mono(&bytes, self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clip(scratch: &Scratch, most: u64, pictures: u64) -> Result<Clip> {
        let size = Size::new(160, 90).unwrap();
        let mut number = 0;
        Clip::write(scratch, FrameRate::new(25, 1).unwrap(), most, || {
            number += 1;
            Ok((number <= pictures).then(|| {
                let mut picture = Picture::new(PixelFormat::I420, size, Time::ZERO);
                for plane in picture.planes_mut() {
                    plane.lines_mut().for_each(|line| line.fill(number as u8));
                }
                picture
            }))
        })
    }

    #[test]
    fn each_picture_says_its_number_and_the_clip_begins_again() {
        let scratch = Scratch::new().unwrap();
        let clip = clip(&scratch, 100, 3).unwrap();
        assert_eq!(clip.pictures(), 3);
        let (mut stream, mut frame) = (clip.header().to_vec(), Vec::new());
        for number in 0..7 {
            clip.frame(number, &mut frame).unwrap();
            stream.extend_from_slice(&frame);
        }
        let (mut reader, mut input) = (y4m::Reader::new(), stream.as_slice());
        for number in 0..7 {
            let picture = reader.parse(&mut input).unwrap().unwrap();
            let read = barcode::read(&picture).top_left.unwrap();
            assert_eq!(u64::from(read.frame_number), number % 3);
            let luma = clip.luma(number).unwrap();
            assert_eq!(luma.planes()[0].line(50), picture.planes()[0].line(50));
            assert_eq!(luma.planes()[0].line(50)[0], number as u8 % 3 + 1);
        }
    }

    #[test]
    fn no_more_is_written_than_is_asked_for() {
        assert_eq!(clip(&Scratch::new().unwrap(), 2, 9).unwrap().pictures(), 2);
        let error = clip(&Scratch::new().unwrap(), 2, 0).unwrap_err();
        assert!(error.to_string().contains("no picture"), "{error}");
    }
}
