//! H.264 by libx264, set up so that no picture waits for another.
//!
//! Comes in: 8-bit 4:2:0 [`Picture`]s in the order of their time stamps. Goes out: one [`AccessUnit`] a picture,
//! in Annex B form, with an access unit delimiter first and SPS and PPS in front of each key frame. Called by the
//! `encode` pipeline. With sliced threads (the default) the unit of a picture comes out of the very call that
//! took the picture in.

use super::x264_ffi::{Handle, Numbers, Unit, presets};
use crate::CodecError;
use bytes::Bytes;
use glassline_media::{AccessUnit, Codec, Colour, FrameRate, Picture, PixelFormat, Size, Stamps, Ticks};
use std::collections::VecDeque;
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

/// What an [`Encoder`] is opened with. [`Settings::new`] fills in the defaults.
///
/// `tune=zerolatency` always applies: no B-pictures, no look-ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Width and height in luma samples, both even.
    pub size: Size,
    /// The nominal rate. Rate control counts with it and the SPS announces it; time stamps may differ.
    pub frame_rate: FrameRate,
    /// One of [`preset_names`]: speed against quality. Default [`Settings::DEFAULT_PRESET`].
    pub preset: String,
    /// Bits a second, 1 000 to 1 000 000 000, rounded to whole kilobits: the mean and, over the VBV, the maximum.
    pub bitrate_bps: u64,
    /// Size of the VBV in time at `bitrate_bps`, at most a minute: how long a receiver must buffer at a link of
    /// exactly that rate. At least the time of one picture. Default 1 s.
    pub vbv: Duration,
    /// Distance of key frames. Default 1 s.
    pub key_interval: KeyInterval,
    /// Threads, at most 128; 0 lets x264 choose by processors and picture height. Default 0.
    pub threads: u32,
    /// Whether threads share one picture, each with a slice of its own. Otherwise each thread has a picture, which
    /// compresses a little better and delays each unit by `threads - 1` pictures. Default true.
    pub sliced_threads: bool,
    /// Slices a picture, at most one a macroblock row; 0 lets the threads decide. Exact with one thread. With
    /// sliced threads it is the least number: each thread has whole slices of its own. Default 0.
    pub slices: u32,
    /// What the samples mean; goes into the SPS (VUI). Default [`Colour::UNSPECIFIED`].
    pub colour: Colour,
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
            sliced_threads: true,
            slices: 0,
            colour: Colour::UNSPECIFIED,
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
    fn checked(&self) -> Result<(CString, Numbers), CodecError> {
        if !preset_names().any(|name| name == self.preset) {
            let names: Vec<_> = preset_names().collect();
            return Err(refused("preset", &self.preset, format!("one of {}", names.join(", "))));
        }
        let Size { width, height } = self.size;
        if !width.is_multiple_of(2) || !height.is_multiple_of(2) || width == 0 || height == 0 {
            return Err(refused("size", self.size, "even in width and height (4:2:0)"));
        }
        in_range("width", width.into(), 2, Size::MAX_SIDE.into())?;
        in_range("height", height.into(), 2, Size::MAX_SIDE.into())?;
        in_range("bitrate (bit/s)", self.bitrate_bps, 1_000, 1_000_000_000)?;
        if self.vbv > MAX_VBV || self.vbv < self.frame_rate.time_of(1) {
            let expected = format!("between one picture ({:?}) and {MAX_VBV:?}", self.frame_rate.time_of(1));
            return Err(refused("vbv", format_args!("{:?}", self.vbv), expected));
        }
        let key_interval = self.key_interval_pictures();
        in_range("key interval (pictures)", key_interval.into(), 1, MAX_KEY_INTERVAL.into())?;
        in_range("threads", self.threads.into(), 0, 128)?;
        in_range("slices", self.slices.into(), 0, height.div_ceil(16).into())?;
        // Matrix 0 is RGB, which 4:2:0 has no room for.
        in_range("colour primaries", self.colour.primaries.into(), 1, 12)?;
        in_range("transfer characteristics", self.colour.transfer.into(), 1, 18)?;
        in_range("matrix coefficients", self.colour.matrix.into(), 1, 14)?;
        let bitrate_kbit = (self.bitrate_bps + 500) / 1000;
        let vbv_kbit = (self.bitrate_bps as f64 * self.vbv.as_secs_f64() / 1000.0).round().max(1.0);
        let numbers = Numbers {
            width: width as i32,
            height: height as i32,
            frame_rate_numerator: rate_part(self.frame_rate.numerator())?,
            frame_rate_denominator: rate_part(self.frame_rate.denominator())?,
            bitrate_kbit: bitrate_kbit as i32,
            vbv_kbit: vbv_kbit.min(f64::from(i32::MAX / 1000)) as i32,
            key_interval: key_interval as i32,
            threads: self.threads as i32,
            sliced_threads: i32::from(self.sliced_threads),
            slices: self.slices as i32,
            primaries: self.colour.primaries.into(),
            transfer: self.colour.transfer.into(),
            matrix: self.colour.matrix.into(),
            full_range: i32::from(self.colour.full_range),
        };
        Ok((CString::new(self.preset.as_str()).expect("a known preset has no NUL"), numbers))
    }
}

/// The presets that [`Settings::preset`] takes, fastest first.
pub fn preset_names() -> impl Iterator<Item = &'static str> {
    presets().map(|name| name.to_str().expect("preset names are ASCII"))
}

/// An open encoder. Dropping it ends x264's threads.
///
/// `Send` but not `Sync`: it may move to another thread, and one thread at a time uses it.
pub struct Encoder {
    handle: Handle,
    size: Size,
    last_pts: Option<Ticks>,
    force_key_frame: bool,
    /// Stamps of the pictures that are inside; x264 reorders nothing, so units come out in this order.
    inside: VecDeque<Stamps>,
}

impl Encoder {
    /// Opens an encoder, or says which setting is out of range.
    pub fn new(settings: &Settings) -> Result<Encoder, CodecError> {
        let (preset, numbers) = settings.checked()?;
        let handle = Handle::open(&preset, numbers).map_err(|reason| failed("open an encoder", reason))?;
        let inside = VecDeque::new();
        Ok(Encoder { handle, size: settings.size, last_pts: None, force_key_frame: false, inside })
    }

    /// Encodes `picture`, to be presented at `pts`, and returns the unit that is ready.
    ///
    /// With sliced threads or one thread that is always this picture's own unit; with picture threads `None` comes
    /// first. The unit's stamps hold the picture's capture time: the caller, who owns the clock, adds
    /// `Queued` and `Encoded`. `pts` may take any value and any step but must grow.
    ///
    /// Costs one copy of the picture (inside x264, which keeps it as it reads the planes at their strides) and one
    /// of the coded bytes.
    ///
    /// # Errors
    /// [`CodecError::Input`] for another size or format than 8-bit 4:2:0, [`CodecError::TimeStamp`] for a `pts` that
    /// does not grow; the encoder is unchanged after both. [`CodecError::Library`] if x264 fails.
    pub fn encode(&mut self, picture: &Picture, pts: Ticks) -> Result<Option<AccessUnit>, CodecError> {
        if picture.format() != PixelFormat::I420 || picture.size() != self.size {
            let found = format!("{:?} at {}", picture.format(), picture.size());
            let expected = format!("{:?} at {}", PixelFormat::I420, self.size);
            return Err(CodecError::Input { codec: CODEC, found, expected });
        }
        if let Some(last) = self.last_pts.filter(|&last| pts <= last) {
            return Err(CodecError::TimeStamp { codec: CODEC, found: pts, last });
        }
        self.last_pts = Some(pts);
        self.inside.push_back(Stamps::captured_at(picture.captured));
        let force = std::mem::take(&mut self.force_key_frame);
        let unit = self.handle.encode(picture.planes(), pts.0, force);
        let unit = unit.map_err(|reason| failed("encode a picture", reason))?;
        Ok(unit.map(|unit| finished(&unit, &mut self.inside)))
    }

    /// Makes the next picture a key frame (IDR). The key interval counts on from there.
    pub fn force_key_frame(&mut self) {
        self.force_key_frame = true;
    }

    /// SPS, PPS and x264's own SEI in Annex B form: what a container's header wants. The stream itself repeats SPS
    /// and PPS at each key frame.
    pub fn headers(&mut self) -> Result<Bytes, CodecError> {
        match self.handle.headers() {
            Ok(headers) => Ok(Bytes::copy_from_slice(headers)),
            Err(reason) => Err(failed("write headers", reason)),
        }
    }

    /// The units that are still inside, at the end of the stream: none with sliced threads.
    pub fn flush(&mut self) -> Result<Vec<AccessUnit>, CodecError> {
        let mut units = Vec::new();
        while self.handle.delayed() > 0 {
            let unit = self.handle.drain().map_err(|reason| failed("finish the stream", reason))?;
            units.extend(unit.map(|unit| finished(&unit, &mut self.inside)));
        }
        Ok(units)
    }
}

fn finished(unit: &Unit<'_>, inside: &mut VecDeque<Stamps>) -> AccessUnit {
    AccessUnit {
        codec: Codec::H264,
        data: Bytes::copy_from_slice(unit.data),
        pts: Ticks(unit.pts),
        dts: Ticks(unit.dts),
        random_access: unit.is_idr,
        stamps: inside.pop_front().expect("each unit was a picture that went in"),
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

fn failed(action: &'static str, reason: String) -> CodecError {
    CodecError::Library { library: "libx264", action, reason }
}

const CODEC: &str = "H.264 (x264)";
const MAX_VBV: Duration = Duration::from_secs(60);
/// A day at 120 pictures a second is below it; x264 takes at most 2³⁰.
const MAX_KEY_INTERVAL: u32 = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::{Chroma, Time};
    use proptest::prelude::*;

    fn settings(width: u32, height: u32) -> Settings {
        let mut settings =
            Settings::new(Size::new(width, height).unwrap(), FrameRate::new(25, 1).unwrap(), 400_000);
        settings.preset = "ultrafast".to_owned();
        settings.threads = 1;
        settings
    }

    fn picture(width: u32, height: u32, number: u64) -> Picture {
        let size = Size::new(width, height).unwrap();
        let mut picture = Picture::new(PixelFormat::I420, size, Time::from_millis(40 * number));
        for plane in picture.planes_mut() {
            plane.bytes_mut().fill(60 + number as u8);
        }
        picture
    }

    fn message(settings: &Settings) -> String {
        Encoder::new(settings).err().expect("refused").to_string()
    }

    #[test]
    fn an_encoder_may_move_to_another_thread() {
        fn is_send<T: Send>() {}
        is_send::<Encoder>();
    }

    #[test]
    fn an_unknown_preset_is_refused_with_the_known_ones() {
        let message = message(&Settings { preset: "fastest".to_owned(), ..settings(64, 64) });
        assert!(message.contains("fastest") && message.contains("ultrafast, superfast"), "{message}");
        // x264 itself also takes an index and a NUL would cut the name.
        for preset in ["3", "", "veryfast\0x"] {
            assert!(Encoder::new(&Settings { preset: preset.to_owned(), ..settings(64, 64) }).is_err());
        }
    }

    #[test]
    fn settings_out_of_range_say_what_would_be_right() {
        let base = settings(64, 64);
        let odd = message(&settings(63, 64));
        assert!(odd.contains("63x64") && odd.contains("even"), "{odd}");
        assert!(message(&Settings { bitrate_bps: 999, ..base.clone() }).contains("between 1000 and"));
        assert!(message(&Settings { vbv: Duration::ZERO, ..base.clone() }).contains("one picture (40ms)"));
        assert!(message(&Settings { vbv: Duration::MAX, ..base.clone() }).contains("60s"));
        assert!(message(&Settings { threads: 129, ..base.clone() }).contains("threads"));
        assert!(message(&Settings { slices: 5, ..base.clone() }).contains("between 0 and 4"));
        let none = KeyInterval::Pictures(0);
        assert!(message(&Settings { key_interval: none, ..base.clone() }).contains("key interval"));
        let rgb = Colour { matrix: 0, ..Colour::BT709 };
        assert!(message(&Settings { colour: rgb, ..base }).contains("matrix"));
    }

    #[test]
    fn the_key_interval_follows_the_frame_rate() {
        let mut settings = settings(64, 64);
        settings.frame_rate = FrameRate::new(60_000, 1001).unwrap();
        assert_eq!(settings.key_interval_pictures(), 60);
        settings.key_interval = KeyInterval::Time(Duration::ZERO);
        assert_eq!(settings.key_interval_pictures(), 1);
        settings.key_interval = KeyInterval::Time(Duration::MAX);
        assert!(Encoder::new(&settings).is_ok());
    }

    #[test]
    fn a_picture_of_another_kind_is_refused_and_harms_nothing() {
        let mut encoder = Encoder::new(&settings(64, 64)).unwrap();
        let wrong = encoder.encode(&picture(64, 32, 0), Ticks(0)).unwrap_err();
        assert!(wrong.to_string().contains("64x32") && wrong.to_string().contains("64x64"), "{wrong}");
        for (chroma, depth_bits) in [(Chroma::Yuv422, 8), (Chroma::Yuv420, 10), (Chroma::Mono, 8)] {
            let format = PixelFormat { chroma, depth_bits };
            let picture = Picture::new(format, Size::new(64, 64).unwrap(), Time::ZERO);
            assert!(matches!(encoder.encode(&picture, Ticks(0)), Err(CodecError::Input { .. })));
        }
        assert!(encoder.encode(&picture(64, 64, 0), Ticks(0)).unwrap().is_some());
        let again = encoder.encode(&picture(64, 64, 1), Ticks(0)).unwrap_err();
        assert_eq!(again, CodecError::TimeStamp { codec: CODEC, found: Ticks(0), last: Ticks(0) });
        assert!(encoder.encode(&picture(64, 64, 1), Ticks(1)).unwrap().is_some());
    }

    #[test]
    fn time_stamps_and_capture_times_pass_through() {
        let mut encoder = Encoder::new(&settings(64, 64)).unwrap();
        // Starts below zero, drops pictures and jumps over the 33-bit wrap.
        let stamps = [-7, 0, 3600, 9001, Ticks::WRAP + 5];
        for (number, &pts) in stamps.iter().enumerate() {
            let picture = picture(64, 64, number as u64);
            let unit = encoder.encode(&picture, Ticks(pts)).unwrap().unwrap();
            assert_eq!((unit.pts, unit.dts), (Ticks(pts), Ticks(pts)));
            assert_eq!(unit.stamps, Stamps::captured_at(picture.captured));
        }
        assert_eq!(encoder.flush().unwrap(), []);
    }

    #[test]
    fn picture_threads_delay_units_and_flush_gives_the_rest() {
        let threaded = Settings { threads: 3, sliced_threads: false, ..settings(64, 64) };
        let mut encoder = Encoder::new(&threaded).unwrap();
        let mut units = Vec::new();
        for number in 0..10 {
            units.extend(encoder.encode(&picture(64, 64, number), Ticks(number as i64 * 3600)).unwrap());
        }
        assert!(units.len() < 10);
        units.extend(encoder.flush().unwrap());
        assert_eq!(units.len(), 10);
        for (number, unit) in (0..).zip(&units) {
            assert_eq!(unit.pts, Ticks(number * 3600));
            assert_eq!(unit.stamps, Stamps::captured_at(Time::from_millis(number as u64 * 40)));
        }
    }

    #[test]
    fn headers_are_parameter_sets() {
        let mut encoder = Encoder::new(&settings(64, 64)).unwrap();
        let headers = encoder.headers().unwrap();
        assert_eq!(headers[..5], [0, 0, 0, 1, 0x67]);
        assert!(headers.windows(4).any(|window| window == [0, 0, 1, 0x68]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        /// Whatever is set, the encoder either says what is wrong or gives one unit a picture.
        #[test]
        fn any_settings_encode_or_are_refused(
            width in 1u32..200,
            height in 1u32..200,
            rate in (1u32..200, 1u32..1002),
            bitrate_bps in 1u64..20_000_000,
            vbv_millis in 0u64..3000,
            interval in 1u32..20,
            threads in 0u32..6,
            slices in 0u32..6,
            preset in 0usize..5,
        ) {
            let mut settings = settings(width, height);
            settings.frame_rate = FrameRate::new(rate.0, rate.1).unwrap();
            settings.bitrate_bps = bitrate_bps;
            settings.vbv = Duration::from_millis(vbv_millis);
            settings.key_interval = KeyInterval::Pictures(interval);
            settings.threads = threads;
            settings.slices = slices;
            settings.preset = preset_names().nth(preset).unwrap().to_owned();
            let odd = width % 2 == 1 || height % 2 == 1;
            match Encoder::new(&settings) {
                Err(CodecError::Setting { .. }) => {}
                Err(other) => prop_assert!(false, "x264 refused what we took: {other}"),
                Ok(mut encoder) => {
                    prop_assert!(!odd);
                    for number in 0..interval + 2 {
                        let picture = picture(width, height, number.into());
                        let unit = encoder.encode(&picture, Ticks(i64::from(number))).unwrap().unwrap();
                        prop_assert_eq!(unit.random_access, number % interval == 0);
                        // The access unit delimiter comes first.
                        prop_assert_eq!(&unit.data[..5], &[0, 0, 0, 1, 9]);
                    }
                }
            }
        }
    }
}
