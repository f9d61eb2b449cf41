//! What an encoder is opened with, and what of it is refused.

use super::x264_interface::{Numbers, Opening};
use super::x264_level::{Level, Load};
use crate::CodecError;
use glassline_media::pixels::FieldOrder;
use glassline_media::{Colour, FrameRate, Size, choice};
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

choice! {
    /// What the pictures are like: x264 weighs its decisions accordingly.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Tune {
        /// Film with high quality.
        Film = "film",
        /// Drawn pictures: flat areas with sharp edges.
        Animation = "animation",
        /// Film with grain that stays.
        Grain = "grain",
        /// Pictures that stand still, such as slides.
        StillImage = "stillimage",
    }
}

choice! {
    /// Which tools of H.264 a decoder has to have (ITU-T H.264 annex A).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Profile {
        /// Neither B-pictures nor CABAC: old and small decoders.
        Baseline = "baseline",
        /// B-pictures and CABAC.
        Main = "main",
        /// All that 8-bit 4:2:0 has.
        High = "high",
    }
}

/// Pictures wait in the encoder until it has looked at those behind them, and come out in the order of decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookAhead {
    /// Pictures that are looked at, at most [`LookAhead::MAX_PICTURES`]. With 0 they wait for B-pictures and threads alone.
    pub pictures: u32,
    /// B-pictures between two others, 0 to 16; `None`: as many as the preset has.
    pub b_pictures: Option<u32>,
}

impl LookAhead {
    /// As far as x264 looks: 10 s of 25 pictures a second, 5 s of 50.
    pub const MAX_PICTURES: u32 = 250;
    /// As many as x264 takes.
    pub const MAX_B_PICTURES: u32 = 16;
}

/// A constant rate factor in hundredths, 100 to 5100: the quality that is aimed at. Less is better; 18 is hard to tell from the
/// source, 23 is x264's own default. Below 1 x264 codes without loss, for which there is neither ceiling nor decoder in browsers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crf(u16);

impl Crf {
    /// `hundredths` of a factor; `None` outside of 1 to 51.
    #[must_use]
    pub const fn from_hundredths(hundredths: u16) -> Option<Crf> {
        if hundredths >= 100 && hundredths <= 5100 { Some(Crf(hundredths)) } else { None }
    }
}

impl std::str::FromStr for Crf {
    type Err = NoCrf;
    fn from_str(text: &str) -> Result<Crf, NoCrf> {
        let wrong = || NoCrf(text.to_owned());
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.len() <= 2;
        if whole.is_empty() || !is_number(whole) || !is_number(part) || text.ends_with('.') {
            return Err(wrong());
        }
        let hundredths = format!("{whole}{part:0<2}").parse().map_err(|_| wrong())?;
        Crf::from_hundredths(hundredths).ok_or_else(wrong)
    }
}

impl Display for Crf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", f64::from(self.0) / 100.0)
    }
}

/// What is no constant rate factor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no constant rate factor; write a number from 1 to 51, as in 21 or 23.5")]
pub struct NoCrf(String);

/// What an encoder is opened with. [`Settings::new`] fills in the defaults.
///
/// Without a look-ahead `tune=zerolatency` applies, too: no B-pictures, and no picture waits for another.
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
    /// Whether pictures wait for those behind them, which a [`LookAheadEncoder`](super::x264::LookAheadEncoder) is for. Threads work
    /// on pictures of their own then, and `slices` is exact. Default: none waits.
    pub look_ahead: Option<LookAhead>,
    /// What the pictures are like. Default: nothing is known.
    pub tune: Option<Tune>,
    /// The profile that decoders have. Default: the lowest that holds what the preset does.
    pub profile: Option<Profile>,
    /// The level that decoders have. Default: the lowest that holds pictures, rate and VBV.
    pub level: Option<Level>,
    /// Pictures that one may refer to, 1 to 16. Default: as many as the preset has, and `level` holds.
    pub references: Option<u32>,
    /// The quality that is aimed at, where the bit rate is not: `bitrate_bps` is the ceiling then. Default: the rate is met.
    pub crf: Option<Crf>,
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
            look_ahead: None,
            tune: None,
            profile: None,
            level: None,
            references: None,
            crf: None,
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

    /// Says which setting is out of range, if one is, or does not go with another, before anything is opened.
    ///
    /// # Errors
    /// [`CodecError::Setting`].
    pub fn check(&self) -> Result<(), CodecError> {
        self.checked().map(drop)
    }

    /// Checks every setting and turns them into the shim's numbers.
    pub(super) fn checked(&self) -> Result<Opening, CodecError> {
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
        let references_max = self.check_tools()?;
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
            look_ahead: self.look_ahead.map_or(-1, |ahead| ahead.pictures as i32),
            b_pictures: self.look_ahead.and_then(|ahead| ahead.b_pictures).map_or(-1, |count| count as i32),
            references: self.references.map_or(-1, |count| count as i32),
            references_max: references_max as i32,
            crf_hundredths: self.crf.map_or(-1, |crf| crf.0.into()),
            level: self.level.map_or(-1, |level| level.idc().into()),
        };
        let tune = self.tune.map(|tune| tune.to_string()).into_iter();
        let tune = tune.chain(self.look_ahead.is_none().then(|| "zerolatency".to_owned()));
        let tune = Some(tune.collect::<Vec<_>>().join(",")).filter(|names| !names.is_empty());
        let name = |name: String| CString::new(name).expect("a known name has no NUL");
        let profile = self.profile.map(|profile| name(profile.to_string()));
        Ok(Opening { preset, tune: tune.map(name), profile, numbers })
    }

    /// Checks which tools are used and what level holds them. Returns how many reference pictures the level has room for, 0 where
    /// none is stated.
    fn check_tools(&self) -> Result<u32, CodecError> {
        if let Some(LookAhead { pictures, b_pictures }) = self.look_ahead {
            if pictures > LookAhead::MAX_PICTURES {
                let expected = "at most 250 pictures: 10 s of 25 pictures a second, 5 s of 50";
                return Err(refused("look-ahead (pictures)", pictures, expected));
            }
            let most = u64::from(LookAhead::MAX_B_PICTURES);
            in_range("B-pictures", b_pictures.unwrap_or(0).into(), 0, most)?;
            if self.intra_refresh || self.filler {
                let found =
                    "of pictures that all have about the same size (intra refresh, constant bit rate)";
                return Err(refused("look-ahead", found, "only without them, which are for no delay"));
            }
            if self.rate_control == RateControl::Predicted {
                return Err(refused("rate control", "predicted", "x264's own with a look-ahead"));
            }
            if self.profile == Some(Profile::Baseline) && b_pictures.is_some_and(|count| count > 0) {
                return Err(refused("B-pictures", "in profile baseline", "profile main or high"));
            }
        }
        if self.profile == Some(Profile::Baseline) && self.fields.is_some() {
            return Err(refused("coding of fields", "in profile baseline", "profile main or high"));
        }
        if self.crf.is_some() && self.rate_control == RateControl::Predicted {
            return Err(refused("rate control", "predicted", "x264's own with a constant rate factor"));
        }
        if self.crf.is_some() && self.filler {
            return Err(refused("constant rate factor", "with a constant bit rate", "one of both"));
        }
        in_range("reference pictures", self.references.unwrap_or(1).into(), 1, 16)?;
        let Some(level) = self.level else { return Ok(0) };
        let is_high = match self.profile {
            Some(profile) => profile == Profile::High,
            None => !["ultrafast", "superfast"].contains(&self.preset.as_str()),
        };
        let (bitrate_kbit, vbv_kbit) = self.rate_kbit();
        let load = Load {
            width: self.size.width,
            macroblocks: self.macroblocks(),
            pictures_per_second: self.frame_rate.as_f64(),
            bitrate_kbit: bitrate_kbit.unsigned_abs(),
            vbv_kbit: vbv_kbit.unsigned_abs(),
            references: self.references.unwrap_or(1),
            is_high,
        };
        level.check(&load).map_err(|why| refused("level", level, why))?;
        Ok(level.references_max(self.macroblocks()))
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
    use super::*;

    #[test]
    fn a_constant_rate_factor_is_read_as_it_is_written() {
        for (text, hundredths) in [("1", 100), ("21", 2100), ("23.5", 2350), ("18.25", 1825), ("51", 5100)] {
            let crf: Crf = text.parse().unwrap();
            assert_eq!((crf.0, crf.to_string()), (hundredths, text.to_owned()));
        }
        for text in ["", "0", "0.99", "51.01", "52", "-1", "+1", "1.", ".5", "1.234", "1e1", "21,5"] {
            assert!(text.parse::<Crf>().is_err(), "{text}");
        }
    }

    #[test]
    fn presets_are_those_that_x264_has() {
        let known = super::super::x264_ffi::presets().map(|name| name.to_str().unwrap());
        assert!(known.eq(PRESETS));
    }
}
