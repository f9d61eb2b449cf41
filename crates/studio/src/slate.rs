//! A still picture, from a PNG file to coded pictures that are repeated: the slate of a stream.

use glassline_codec::CodecError;
use glassline_codec::h264::x264::{Crf, Encoder, KeyInterval, Profile, Settings};
use glassline_delivery::slate::{Format, Reel};
use glassline_media::picture::{Chroma, Colour, Picture, PixelFormat, Plane, Size};
use glassline_media::pixels::{Converter, Scaler, Scan};
use glassline_media::{Ticks, Time};
use std::io::Cursor;
use std::time::Duration;
use thiserror::Error;

/// Samples of the largest picture that is read: 4096 × 4096, as large as one that is coded.
const PIXELS_MAX: u64 = 1 << 24;
/// The most memory that a picture takes which is read, in 4:2:0.
pub const PICTURE_MAX_BYTES: u64 = PIXELS_MAX / 2 * 3;
/// The most that reading it takes beside that, until it is read: its samples, and its planes before they are converted.
pub const READING_MAX_BYTES: u64 = DECODER_MAX_BYTES as u64 + 7 * PIXELS_MAX;
/// The most memory that a coded picture takes: as much as the ceiling of the rate lets pass, and as the buffer holds in front.
pub const REEL_MAX_BYTES: u64 = 2 * CEILING_BPS / 8 * PERIOD.as_secs();
/// What decoding may take in memory, beside the picture itself.
const DECODER_MAX_BYTES: usize = 64 << 20;
/// Time from one key frame to the next.
const PERIOD: Duration = Duration::from_secs(2);
/// The quality that is aimed at, in hundredths of a constant rate factor, and the ceiling of the rate.
const CRF_HUNDREDTHS: u16 = 2000;
const CEILING_BPS: u64 = 20_000_000;

/// Why there is no slate of a file.
#[derive(Debug, Error)]
pub enum SlateError {
    /// It is no PNG picture, or a broken one.
    #[error("the file is no PNG picture that can be read: {0}")]
    Png(#[from] png::DecodingError),
    /// It is too large.
    #[error("the picture has {width}×{height} pixels, more than a slate may have (4096×4096)")]
    TooLarge {
        /// Its width.
        width: u32,
        /// Its height.
        height: u32,
    },
    /// It could not be coded.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// There is nothing to repeat.
    #[error("the encoder gave no pictures")]
    Nothing,
}

/// Reads a PNG picture (ISO/IEC 15948) of any colour type and depth, in 8-bit 4:2:0 by BT.709 and of even width and height. What is
/// transparent is shown on black; of an animation the default picture counts.
///
/// # Errors
/// [`SlateError::Png`], [`SlateError::TooLarge`].
pub fn read_png(bytes: &[u8]) -> Result<Picture, SlateError> {
    let limits = png::Limits { bytes: DECODER_MAX_BYTES };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info()?;
    let (width, height) = (reader.info().width, reader.info().height);
    let too_large = || SlateError::TooLarge { width, height };
    if u64::from(width) * u64::from(height) > PIXELS_MAX {
        return Err(too_large());
    }
    let mut samples = vec![0; reader.output_buffer_size().ok_or_else(too_large)?];
    let frame = reader.next_frame(&mut samples)?;
    let size = Size::new(width, height).map_err(|_| too_large())?;
    let mut picture = Picture::new(PixelFormat::planar(Chroma::Rgb, 8), size, Time::ZERO);
    // Of a picture file black is 0 and white 255.
    picture.colour = Colour { full_range: true, ..Colour::BT709 };
    let channels = frame.color_type.samples();
    let has_alpha = matches!(frame.color_type, png::ColorType::GrayscaleAlpha | png::ColorType::Rgba);
    let colours = channels - usize::from(has_alpha);
    for (component, plane) in picture.planes_mut().iter_mut().enumerate() {
        let component = component.min(colours - 1);
        for (line, to) in samples.chunks_exact(frame.line_size).zip(plane.lines_mut()) {
            for (pixel, to) in line.chunks_exact(channels).zip(to) {
                let alpha = if has_alpha { u32::from(pixel[channels - 1]) } else { 255 };
                *to = ((u32::from(pixel[component]) * alpha + 127) / 255) as u8;
            }
        }
    }
    Ok(Converter::new().convert(picture, Scan::Progressive))
}

/// Codes `picture` (8-bit 4:2:0) for `format`: one key frame, and pictures that change nothing for two seconds. It is scaled to fit,
/// with black beside it where its shape is another one.
///
/// # Errors
/// [`SlateError::Codec`]; [`SlateError::Nothing`].
pub fn code(picture: &Picture, format: Format) -> Result<Reel, SlateError> {
    let picture = fitted(picture, format.size);
    let pictures = (PERIOD.as_secs_f64() * format.frame_rate.as_f64()).round().clamp(1.0, 600.0) as u32;
    let settings = Settings {
        vbv: PERIOD,
        // One more than there are: the first is the only key frame.
        key_interval: KeyInterval::Pictures(pictures + 1),
        crf: Crf::from_hundredths(CRF_HUNDREDTHS),
        // Which decoders there are is not known: all have this one.
        profile: Some(Profile::Baseline),
        threads: 1,
        colour: picture.colour,
        ..Settings::new(format.size, format.frame_rate, CEILING_BPS)
    };
    let mut encoder = Encoder::new(&settings)?;
    let mut coded = Vec::new();
    for number in 0..pictures {
        coded.push(encoder.encode(&picture, Ticks(i64::from(number)))?.data);
    }
    Reel::still(coded, format.frame_rate).ok_or(SlateError::Nothing)
}

/// `picture` in the middle of one of `size`, as large as fits.
fn fitted(picture: &Picture, size: Size) -> Picture {
    let from = picture.size();
    let scaled = |side: u32, numerator: u32, denominator: u32| {
        let scaled = u64::from(side) * u64::from(numerator) / u64::from(denominator.max(1));
        (scaled as u32 & !1).max(2)
    };
    let is_wider =
        u64::from(from.width) * u64::from(size.height) > u64::from(size.width) * u64::from(from.height);
    let inner = if is_wider {
        Size { width: size.width, height: scaled(from.height, size.width, from.width) }
    } else {
        Size { width: scaled(from.width, size.height, from.height), height: size.height }
    };
    let scaled = Scaler::new(inner).scale(picture);
    if inner == size {
        return scaled;
    }
    let mut out = Picture::new(PixelFormat::I420, size, Time::ZERO);
    out.colour = picture.colour;
    for (index, (plane, from)) in out.planes_mut().iter_mut().zip(scaled.planes()).enumerate() {
        plane.bytes_mut().fill(if index == 0 { 16 } else { 128 });
        paste(plane, from, if index == 0 { 2 } else { 1 });
    }
    out
}

/// `samples` stand beside one sample of chroma.
fn paste(plane: &mut Plane, from: &Plane, samples: usize) {
    // In whole samples of chroma, so that luma and chroma stay together.
    let middle = |outer: u32, inner: u32| (outer - inner) as usize / 2 / samples * samples;
    let left = middle(plane.size().width, from.size().width);
    let top = middle(plane.size().height, from.size().height);
    for y in 0..from.size().height as usize {
        let line = from.line(y);
        plane.line_mut(top + y)[left..left + line.len()].copy_from_slice(line);
    }
}

#[cfg(test)]
#[path = "slate_tests.rs"]
mod tests;
