//! What is sent, where nothing is said. Pure.

use super::error::Error;
use super::{Rate, Result, Settings};
use crate::capture;
use glassline_media::pixels::FieldOrder;
use glassline_media::quantity::Bitrate;
use glassline_media::{Chroma, FrameRate, PixelFormat};
use glassline_transport::raw_video::{Format, Scan};

/// What broadcasters send.
const USUAL: PixelFormat = PixelFormat::planar(Chroma::Yuv422, 10);

/// What frames of pictures in `pixels` and of this `source` are.
pub(super) fn format(pixels: PixelFormat, source: &capture::Format, settings: &Settings) -> Result<Format> {
    let keeps =
        matches!(pixels.chroma, Chroma::Yuv422 | Chroma::Yuv444 | Chroma::Rgb) && pixels.pgroup().is_some();
    let pixels = settings.pixels.unwrap_or(if keeps { pixels } else { USUAL });
    let scan = match (settings.scan, source.fields) {
        (Some(scan), _) => scan,
        (None, Some(_)) => Scan::Interlaced,
        (None, None) => Scan::Progressive,
    };
    if scan == Scan::Interlaced && source.fields == Some(FieldOrder::BottomFirst) {
        return Err(Error::BottomFirst);
    }
    Ok(Format::new(pixels, source.size, scan)?)
}

/// How many frames a second, where one is of so many bytes of packets.
pub(super) fn rate(source: FrameRate, rate: Rate, frame_bytes: usize) -> FrameRate {
    match rate {
        Rate::Source | Rate::Unlimited => source,
        Rate::Bits(rate) => of_bits(rate, frame_bytes),
    }
}

/// Both numbers have to fit into 32 bits: what is lost below is less than a billionth.
fn of_bits(rate: Bitrate, frame_bytes: usize) -> FrameRate {
    let (mut above, mut below) = (rate.bits_per_second(), 8 * frame_bytes as u64);
    let shift = (64 - above.max(below).leading_zeros()).saturating_sub(32);
    (above, below) = (above >> shift, below >> shift);
    let part = |value: u64| u32::try_from(value.max(1)).unwrap_or(u32::MAX);
    FrameRate::new(part(above), part(below)).expect("no part is zero")
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::{Colour, Size};

    #[test]
    fn samples_stay_as_they_are_where_receivers_take_them() {
        let source = capture::Format {
            size: Size::new(64, 32).unwrap(),
            rate: FrameRate::new(50, 1).unwrap(),
            colour: Colour::BT709,
            sample_aspect: None,
            fields: None,
            live: false,
        };
        let chosen = |chroma, depth| {
            let format =
                format(PixelFormat::planar(chroma, depth), &source, &Settings::to(Vec::new())).unwrap();
            (format.pixels().chroma, format.pixels().depth_bits, format.scan())
        };
        assert_eq!(chosen(Chroma::Yuv422, 12), (Chroma::Yuv422, 12, Scan::Progressive));
        assert_eq!(chosen(Chroma::Yuv444, 8), (Chroma::Yuv444, 8, Scan::Progressive));
        assert_eq!(chosen(Chroma::Yuv420, 8), (Chroma::Yuv422, 10, Scan::Progressive));
        assert_eq!(chosen(Chroma::Yuv422, 9), (Chroma::Yuv422, 10, Scan::Progressive));
        let of_fields = |fields| {
            let source = capture::Format { fields: Some(fields), ..source };
            format(USUAL, &source, &Settings::to(Vec::new())).map(|format| format.scan())
        };
        assert!(matches!(of_fields(FieldOrder::TopFirst), Ok(Scan::Interlaced)));
        assert!(matches!(of_fields(FieldOrder::BottomFirst), Err(Error::BottomFirst)));
    }

    #[test]
    fn a_bit_rate_makes_a_frame_rate() {
        let source = FrameRate::new(50, 1).unwrap();
        assert_eq!(rate(source, Rate::Source, 5_000_000), source);
        for (bits, bytes) in
            [(5_000_000_000u64, 5_270_400usize), (100_000_000_000, 66_000_000), (1000, 5_000_000)]
        {
            let found = rate(source, Rate::Bits(Bitrate::from_bits_per_second(bits)), bytes);
            let wanted = bits as f64 / (8.0 * bytes as f64);
            assert!((found.as_f64() / wanted - 1.0).abs() < 1e-6, "{found} for {wanted}");
        }
    }
}
