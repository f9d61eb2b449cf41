//! What an encoder is opened with, and what of it is refused.

use super::x264_interface::Numbers;
use crate::CodecError;
use glassline_media::pixels::FieldOrder;
use glassline_media::{Colour, FrameRate, Size};
use std::ffi::CString;
use std::fmt::Display;
use std::time::Duration;

/// How far apart key frames (IDR) stand. They are regular: x264's scene-cut detection is off, because a cut is
/// coded well enough with intra macroblocks, while an extra key frame costs a picture several times as large in
/// the middle of the VBV and makes segments irregular.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyInterval {
    /// This long, rounded to whole pictures, at least one.
    Time(Duration),
    /// This many pictures, at least one; 1 codes every picture alone.
    Pictures(u32),
}

/// What chooses the quantisers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RateControl {
    /// x264, which looks at each picture as a whole first: a millisecond or two at 720p. Within a picture it
    /// distributes bits by detail (adaptive quantisation) and sees to it, row by row, that the VBV is kept.
    #[default]
    X264,
    /// Our own rate control, for each picture as a whole, from what the pictures before it cost and how much this one
    /// has changed: coding begins at once. The VBV is kept as far as pictures cost what is predicted. Not for filler.
    Predicted,
}

/// What an [`Encoder`] is opened with. [`Settings::new`] fills in the defaults.
///
/// `tune=zerolatency` always applies: no B-pictures, no look-ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Width and height in luma samples, both even; the height a multiple of four with `fields`.
    pub size: Size,
    /// The nominal rate. Rate control counts with it and the SPS announces it; time stamps may differ.
    pub frame_rate: FrameRate,
    /// One of [`PRESETS`]: speed against quality. Default [`Settings::DEFAULT_PRESET`].
    pub preset: String,
    /// Bits a second, 1 000 to 1 000 000 000, rounded to whole kilobits: the mean and, over the VBV, the maximum.
    pub bitrate_bps: u64,
    /// Size of the VBV in time at `bitrate_bps`, at most a minute: how long a receiver must buffer at a link of
    /// exactly that rate. At least the time of one picture. Default 1 s.
    pub vbv: Duration,
    /// Distance of key frames. Default 1 s.
    pub key_interval: KeyInterval,
    /// Whether pictures come without key frames but for the first: a column of intra macroblocks wanders over the
    /// picture instead, once a key interval, and a recovery point is announced where it sets out. All pictures are
    /// then of about one size. Default false.
    pub intra_refresh: bool,
    /// Whether filler is added where the pictures leave the VBV fuller than it is, so that the rate is constant.
    /// Default false.
    pub filler: bool,
    /// What chooses the quantisers. Default [`RateControl::X264`].
    pub rate_control: RateControl,
    /// Threads, at most 128; 0 lets x264 choose by processors and picture height. All work on one picture, each on
    /// slices of its own. Default 0.
    pub threads: u32,
    /// Slices a picture, at most one a macroblock row; 0 lets the threads decide. Exact with one thread; with more
    /// it is the least number, since each thread has whole slices of its own. Default 0.
    pub slices: u32,
    /// What the samples mean; goes into the SPS (VUI). Default [`Colour::UNSPECIFIED`].
    pub colour: Colour,
    /// Width to height of a sample; goes into the SPS (VUI). One that is no shape, with a zero or beyond 2³¹, is left out. Default:
    /// nothing is said, which players take for square.
    pub sample_aspect: Option<(u32, u32)>,
    /// Where each picture is two fields of two times, the one that is earlier: they are coded as such (macroblocks of frame or
    /// of field, MBAFF), and each picture says so (`pic_struct`). Not with `intra_refresh`. Default: whole pictures.
    pub fields: Option<FieldOrder>,
}

impl Settings {
    /// The preset of [`Settings::new`].
    pub const DEFAULT_PRESET: &str = "veryfast";

    /// Settings for pictures of `size` at `frame_rate`, all else at its default.
    pub fn new(size: Size, frame_rate: FrameRate, bitrate_bps: u64) -> Settings {
        Settings {
            size,
            frame_rate,
            preset: Self::DEFAULT_PRESET.to_owned(),
            bitrate_bps,
            vbv: Duration::from_secs(1),
            key_interval: KeyInterval::Time(Duration::from_secs(1)),
            threads: 0,
            intra_refresh: false,
            filler: false,
            rate_control: RateControl::X264,
            slices: 0,
            colour: Colour::UNSPECIFIED,
            sample_aspect: None,
            fields: None,
        }
    }

    /// Pictures from one key frame to the next.
    pub fn key_interval_pictures(&self) -> u32 {
        match self.key_interval {
            KeyInterval::Pictures(pictures) => pictures,
            KeyInterval::Time(time) => (time.as_secs_f64() * self.frame_rate.as_f64())
                .round()
                .clamp(1.0, MAX_KEY_INTERVAL.into()) as u32,
        }
    }

    /// Checks every setting and turns them into the shim's numbers.
    pub(super) fn checked(&self) -> Result<(CString, Numbers), CodecError> {
        let preset = checked_preset(&self.preset)?;
        let Size { width, height } = self.size;
        if !width.is_multiple_of(2) || !height.is_multiple_of(2) || width == 0 || height == 0 {
            return Err(refused("size", self.size, "even in width and height (4:2:0)"));
        }
        if self.fields.is_some() && !height.is_multiple_of(4) {
            return Err(refused("height", height, "a multiple of four, for fields of 4:2:0"));
        }
        if self.fields.is_some() && self.intra_refresh {
            return Err(refused(
                "coding of fields",
                "without key frames (intra refresh)",
                "with key frames, or whole pictures",
            ));
        }
        in_range("width", width.into(), 2, Size::MAX_SIDE.into())?;
        in_range("height", height.into(), 2, Size::MAX_SIDE.into())?;
        check_bitrate(self.bitrate_bps)?;
        if self.vbv > MAX_VBV || self.vbv < self.frame_rate.time_of(1) {
            let expected = format!("between one picture ({:?}) and {MAX_VBV:?}", self.frame_rate.time_of(1));
            return Err(refused("vbv", format_args!("{:?}", self.vbv), expected));
        }
        let key_interval = self.key_interval_pictures();
        in_range("key interval (pictures)", key_interval.into(), 1, MAX_KEY_INTERVAL.into())?;
        in_range("threads", self.threads.into(), 0, 128)?;
        in_range("slices", self.slices.into(), 0, height.div_ceil(self.row_lines()).into())?;
        // Matrix 0 is RGB, which 4:2:0 has no room for.
        in_range("colour primaries", self.colour.primaries.into(), 1, 12)?;
        in_range("transfer characteristics", self.colour.transfer.into(), 1, 18)?;
        in_range("matrix coefficients", self.colour.matrix.into(), 1, 14)?;
        if self.filler && self.rate_control == RateControl::Predicted {
            return Err(refused("rate control", "predicted", "x264's own where filler is added"));
        }
        let (bitrate_kbit, vbv_kbit) = self.rate_kbit();
        let shape = self.sample_aspect.and_then(|(width, height)| {
            Some((i32::try_from(width).ok()?, i32::try_from(height).ok()?)).filter(|&(w, h)| w > 0 && h > 0)
        });
        let (sample_width, sample_height) = shape.unwrap_or((0, 0));
        let numbers = Numbers {
            width: width as i32,
            height: height as i32,
            frame_rate_numerator: rate_part(self.frame_rate.numerator())?,
            frame_rate_denominator: rate_part(self.frame_rate.denominator())?,
            bitrate_kbit,
            vbv_kbit,
            key_interval: key_interval as i32,
            threads: self.threads as i32,
            slices: self.slices as i32,
            intra_refresh: i32::from(self.intra_refresh),
            filler: i32::from(self.filler),
            quantizers_given: i32::from(self.rate_control == RateControl::Predicted),
            primaries: self.colour.primaries.into(),
            transfer: self.colour.transfer.into(),
            matrix: self.colour.matrix.into(),
            full_range: i32::from(self.colour.full_range),
            fields: match self.fields {
                None => 0,
                Some(FieldOrder::TopFirst) => 1,
                Some(FieldOrder::BottomFirst) => 2,
            },
            sample_width,
            sample_height,
        };
        Ok((preset, numbers))
    }

    /// Rate and size of the VBV in kilobits, x264's unit.
    pub(super) fn rate_kbit(&self) -> (i32, i32) {
        let bitrate = (self.bitrate_bps + 500) / 1000;
        let vbv = (self.bitrate_bps as f64 * self.vbv.as_secs_f64() / 1000.0).round().max(1.0);
        (bitrate as i32, vbv.min(f64::from(i32::MAX / 1000)) as i32)
    }

    /// Size of the VBV in bits.
    pub(super) fn vbv_bits(&self) -> f64 {
        self.bitrate_bps as f64 * self.vbv.as_secs_f64()
    }

    /// Macroblocks of a picture.
    pub(super) fn macroblocks(&self) -> u32 {
        let lines = self.row_lines();
        self.size.width.div_ceil(16) * self.size.height.div_ceil(lines) * (lines / 16)
    }

    /// Lines of which a picture has a whole number: those of a macroblock, of a pair of them with fields.
    fn row_lines(&self) -> u32 {
        if self.fields.is_some() { 32 } else { 16 }
    }
}

/// x264's presets, fastest first: what [`Settings::preset`] takes.
pub const PRESETS: [&str; 10] = [
    "ultrafast",
    "superfast",
    "veryfast",
    "faster",
    "fast",
    "medium",
    "slow",
    "slower",
    "veryslow",
    "placebo",
];

/// Refuses rates that no encoder is opened with.
pub(super) fn check_bitrate(bitrate_bps: u64) -> Result<(), CodecError> {
    in_range("bitrate (bit/s)", bitrate_bps, 1_000, 1_000_000_000)
}

/// Refuses what is no preset, with the names of those that are.
pub(super) fn checked_preset(preset: &str) -> Result<CString, CodecError> {
    if PRESETS.contains(&preset) {
        Ok(CString::new(preset).expect("a known preset has no NUL"))
    } else {
        Err(refused("preset", preset, format!("one of {}", PRESETS.join(", "))))
    }
}

fn in_range(setting: &'static str, found: u64, low: u64, high: u64) -> Result<(), CodecError> {
    if (low..=high).contains(&found) {
        Ok(())
    } else {
        Err(refused(setting, found, format!("between {low} and {high}")))
    }
}

fn rate_part(part: u32) -> Result<i32, CodecError> {
    i32::try_from(part).map_err(|_| refused("frame rate", part, "a fraction of numbers below 2147483648"))
}

fn refused(setting: &'static str, found: impl Display, expected: impl Into<String>) -> CodecError {
    CodecError::Setting { codec: CODEC, setting, found: found.to_string(), expected: expected.into() }
}

pub(super) fn failed(action: &'static str, reason: String) -> CodecError {
    CodecError::Library { library: "libx264", action, reason }
}

pub(super) const CODEC: &str = "H.264 (x264)";
const MAX_VBV: Duration = Duration::from_secs(60);
/// A day at 120 pictures a second is below it; x264 takes at most 2³⁰.
const MAX_KEY_INTERVAL: u32 = 1 << 24;

#[cfg(test)]
#[cfg(feature = "x264")]
mod tests {
    use super::PRESETS;

    #[test]
    fn presets_are_those_that_x264_has() {
        let known = super::super::x264_ffi::presets().map(|name| name.to_str().unwrap());
        assert!(known.eq(PRESETS));
    }
}
