//! Colour as ST 2110-20 §7.5 names it, and as H.273 numbers it.

use super::parameters::Parameters;
use glassline_media::{Chroma, Colour, PixelFormat};

/// H.273: not said.
const UNSPECIFIED: u8 = 2;

/// The code points of `colorimetry`, `TCS` and `RANGE`. What has no code point, or is not said, is unspecified; `height` tells
/// which of BT.601's two systems it is.
pub(super) fn parse(parameters: &Parameters, pixels: PixelFormat, height: u32) -> Colour {
    let colorimetry = parameters.get("colorimetry").unwrap_or("UNSPECIFIED");
    let (primaries, sdr, matrix) = match colorimetry {
        "BT709" | "BT709-2" => (1, 1, 1),
        "BT601" | "BT601-5" if is_525_lines(height) => (6, 6, 6),
        "BT601" | "BT601-5" => (5, 6, 5),
        "SMPTE240M" => (7, 7, 7),
        "BT2020" | "BT2100" => (9, if pixels.depth_bits > 10 { 15 } else { 14 }, 9),
        "XYZ" => (10, UNSPECIFIED, UNSPECIFIED),
        _ => (UNSPECIFIED, UNSPECIFIED, UNSPECIFIED),
    };
    let transfer = match parameters.get("TCS") {
        // ST 2110-20 §7.3: SDR, where nothing is said. All curves of SDR are one to H.273 but for their precision.
        None => sdr,
        Some("SDR") if sdr == UNSPECIFIED => 1,
        Some("SDR") => sdr,
        Some("PQ") => 16,
        Some("HLG") => 18,
        Some("LINEAR" | "BT2100LINPQ" | "BT2100LINHLG") => 8,
        Some("ST428-1") => 17,
        Some(_) => UNSPECIFIED,
    };
    let matrix = if pixels.chroma == Chroma::Rgb { 0 } else { matrix };
    // FULLPROTECT leaves out the first and last code value only.
    let full_range = matches!(parameters.get("RANGE"), Some("FULL" | "FULLPROTECT"));
    Colour { primaries, transfer, matrix, full_range }
}

/// Whether it is a picture of 525-line television.
fn is_525_lines(height: u32) -> bool {
    matches!(height, 480 | 486)
}

/// The values of `TCS` and `colorimetry`. `SMPTE240M` is RFC 4175's alone.
pub(super) fn names(colour: Colour, is_standard_2110: bool) -> (&'static str, &'static str) {
    let transfer = match colour.transfer {
        1 | 6 | 7 | 14 | 15 => "SDR",
        16 => "PQ",
        18 => "HLG",
        8 => "LINEAR",
        17 => "ST428-1",
        _ => "UNSPECIFIED",
    };
    let primaries = if colour.primaries == UNSPECIFIED { colour.matrix } else { colour.primaries };
    let colorimetry = match primaries {
        1 => "BT709",
        5 | 6 => "BT601",
        7 if !is_standard_2110 => "SMPTE240M",
        9 if matches!(colour.transfer, 16 | 18) => "BT2100",
        9 => "BT2020",
        10 => "XYZ",
        _ => "UNSPECIFIED",
    };
    (transfer, colorimetry)
}
