//! H.264 by libx264, set up so that no picture waits for another and no slice for the next.
//!
//! Comes in: 8-bit 4:2:0 [`Picture`]s in the order of their time stamps. Goes out: the NAL units of each picture in
//! Annex B form, while the picture is still being encoded ([`Encoder::encode_slices`]), or the whole [`AccessUnit`]
//! ([`Encoder::encode`]); an access unit delimiter comes first, SPS and PPS stand in front of each key frame and
//! recovery point. Called by the `encode` pipeline. Everything of a picture comes out of the very call that took it
//! in: nothing is ever inside.
//!
//! An encoder with look-ahead and B-pictures is [`LookAheadEncoder`].
//!
//! A build without the feature `x264` has the same types; [`Encoder::new`] fails there with
//! [`CodecError::NotBuiltIn`].

use super::rate_control;
use super::x264_interface::{Input, Opening};
use super::x264_library::{self, Handle};
use super::x264_settings::{CODEC, check_bitrate, checked_preset, failed};
use super::x264_slices::Collector;
use crate::CodecError;
use bytes::Bytes;
use glassline_media::{AccessUnit, Codec, Picture, PixelFormat, Size, Stamps, Ticks};

pub use super::x264_interface::Coded;
pub use super::x264_level::{Level, NoLevel};
pub use super::x264_look_ahead::{DelayedUnit, LookAheadEncoder};
pub use super::x264_settings::{
    Crf, KeyInterval, LookAhead, NoCrf, PRESETS, Profile, RateControl, Settings, Tune,
};
pub use super::x264_slices::{NalUnit, Sink};

/// An open encoder. Dropping it ends x264's threads.
///
/// `Send` but not `Sync`: it may move to another thread, and one thread at a time uses it.
pub struct Encoder {
    handle: Handle,
    settings: Settings,
    /// What the encoder was opened with, for [`Encoder::headers`].
    opened: Opening,
    last_pts: Option<Ticks>,
    force_key_frame: bool,
    /// Pictures to the next regular key frame.
    to_key_frame: u32,
    /// Where the quantisers are ours.
    rate_control: Option<rate_control::RateControl>,
    buffers: Vec<Vec<u8>>,
}

impl Encoder {
    /// The longest user data that [`Encoder::encode_slices`] takes.
    pub const MAX_USER_DATA_BYTES: usize = 64 * 1024;

    /// Opens an encoder, or says which setting is out of range.
    pub fn new(settings: &Settings) -> Result<Encoder, CodecError> {
        let opened = settings.checked()?;
        if settings.look_ahead.is_some() {
            let (found, expected) = ("some".to_owned(), "none, for an encoder without delay".to_owned());
            return Err(CodecError::Setting { codec: CODEC, setting: "look-ahead", found, expected });
        }
        if cfg!(not(feature = "x264")) {
            return Err(CodecError::NotBuiltIn { codec: CODEC });
        }
        let handle = Handle::open(&opened).map_err(|reason| failed("open an encoder", reason))?;
        Ok(Encoder {
            handle,
            settings: settings.clone(),
            opened,
            last_pts: None,
            force_key_frame: false,
            to_key_frame: 0,
            rate_control: (settings.rate_control == RateControl::Predicted).then(|| {
                let (samples, rate) = (
                    u64::from(settings.size.width) * u64::from(settings.size.height),
                    settings.frame_rate.as_f64(),
                );
                rate_control::RateControl::new(samples, rate, settings.bitrate_bps, settings.vbv_bits())
            }),
            buffers: Vec::new(),
        })
    }

    /// Encodes `picture`, to be presented at `pts`, and gives each NAL unit to `sink` as soon as it and all before
    /// it are finished, the first slice long before the last.
    ///
    /// The units come in the order of the stream: delimiter, parameter sets and messages, slices, filler; the last
    /// one says so. `sink` is called under a lock, one unit at a time, on x264's threads or the caller's: while it
    /// works, the thread that finished the slice waits, and so does another that finishes its own. A picture of which
    /// `sink` got an SPS can be decoded without those before.
    ///
    /// `user_data` is the payload of an SEI message of unregistered user data (H.264 §D.1.7), UUID first, at most
    /// [`Encoder::MAX_USER_DATA_BYTES`], that goes with the picture. `pts` may take any value and any step but must
    /// grow.
    ///
    /// Costs one copy of the picture (inside x264, which keeps it as it reads the planes at their strides) and one
    /// of the coded bytes.
    ///
    /// # Errors
    /// [`CodecError::Input`] for another size or format than 8-bit 4:2:0 or too much user data,
    /// [`CodecError::TimeStamp`] for a `pts` that does not grow; the encoder is unchanged after these.
    /// [`CodecError::Library`] if x264 fails; the sink may then have got a part of the picture.
    ///
    /// # Panics
    /// Where `sink` panics, when x264 has returned.
    pub fn encode_slices(
        &mut self,
        picture: &Picture,
        pts: Ticks,
        user_data: Option<&[u8]>,
        sink: &mut Sink<'_>,
    ) -> Result<Coded, CodecError> {
        self.check(picture, pts, user_data)?;
        self.last_pts = Some(pts);
        let force_idr = std::mem::take(&mut self.force_key_frame);
        let quantizer = self.quantizer(picture, force_idr);
        let input = Input { planes: picture.planes(), pts: pts.0, force_idr, quantizer, user_data };
        let (macroblocks, filler) = (self.settings.macroblocks(), self.settings.filler);
        let collector = Collector::new(macroblocks, filler, std::mem::take(&mut self.buffers), sink);
        let output = self.handle.encode(&input, &collector);
        let collected = collector.finish();
        self.buffers = collected.buffers;
        if let Some(control) = &mut self.rate_control {
            control.coded(collected.bytes);
        }
        match output {
            Ok(Some(output)) => Ok(Coded {
                pts: Ticks(output.pts),
                dts: Ticks(output.dts),
                random_access: output.key_frame,
                bytes: collected.bytes,
            }),
            Ok(None) => Err(failed("encode a picture", "it held the picture back".to_owned())),
            Err(reason) => Err(failed("encode a picture", reason)),
        }
    }

    /// Encodes `picture` and returns its whole unit. The unit's stamps hold the capture time alone: the caller has the
    /// clock, and adds `Queued` and `Encoded`. All else is as in [`Encoder::encode_slices`].
    pub fn encode(&mut self, picture: &Picture, pts: Ticks) -> Result<AccessUnit, CodecError> {
        let mut data = Vec::new();
        let coded = self.encode_slices(picture, pts, None, &mut |unit| data.extend_from_slice(unit.bytes))?;
        Ok(AccessUnit {
            codec: Codec::H264,
            data: Bytes::from(data),
            pts: coded.pts,
            dts: coded.dts,
            random_access: coded.random_access,
            stamps: Stamps::captured_at(picture.captured),
        })
    }

    /// The quantiser of the next picture, where it is ours to choose.
    fn quantizer(&mut self, picture: &Picture, force_idr: bool) -> u8 {
        let key = force_idr || self.to_key_frame == 0;
        if key {
            let never = self.settings.intra_refresh;
            self.to_key_frame = if never { u32::MAX } else { self.settings.key_interval_pictures() };
        }
        self.to_key_frame = self.to_key_frame.saturating_sub(1);
        self.rate_control.as_mut().map_or(0, |control| control.choose(picture, key))
    }

    fn check(&self, picture: &Picture, pts: Ticks, user_data: Option<&[u8]>) -> Result<(), CodecError> {
        let input = |found, expected| Err(CodecError::Input { codec: CODEC, found, expected });
        if picture.format() != PixelFormat::I420 || picture.size() != self.settings.size {
            let found = format!("{:?} at {}", picture.format(), picture.size());
            return input(found, format!("{:?} at {}", PixelFormat::I420, self.settings.size));
        }
        let user_bytes = user_data.map_or(0, <[u8]>::len);
        if user_bytes > Self::MAX_USER_DATA_BYTES {
            let expected = format!("at most {}", Self::MAX_USER_DATA_BYTES);
            return input(format!("{user_bytes} bytes of user data"), expected);
        }
        match self.last_pts.filter(|&last| pts <= last) {
            Some(last) => Err(CodecError::TimeStamp { codec: CODEC, found: pts, last }),
            None => Ok(()),
        }
    }

    /// Makes the next picture a key frame (IDR), with intra refresh too. The key interval counts on from there.
    pub fn force_key_frame(&mut self) {
        self.force_key_frame = true;
    }

    /// Sets the rate from the next picture on, without a key frame. The VBV keeps its size in time.
    ///
    /// # Errors
    /// [`CodecError::Setting`] for a rate out of range; nothing changes then.
    pub fn set_bitrate(&mut self, bitrate_bps: u64) -> Result<(), CodecError> {
        check_bitrate(bitrate_bps)?;
        let settings = Settings { bitrate_bps, ..self.settings.clone() };
        if let Some(control) = &mut self.rate_control {
            control.set_rate(bitrate_bps, settings.vbv_bits());
        } else {
            let (bitrate_kbit, vbv_kbit) = settings.rate_kbit();
            let set = self.handle.set_rate(bitrate_kbit, vbv_kbit);
            set.map_err(|reason| failed("change the rate", reason))?;
        }
        self.settings = settings;
        Ok(())
    }

    /// The rate that holds, bits a second.
    pub fn bitrate_bps(&self) -> u64 {
        self.settings.bitrate_bps
    }

    /// Spends on the next pictures what `preset` would, without a key frame: motion search, partitions, quantization
    /// by trellis, reference pictures (never more than at the start). What parameter sets announce stays, such as
    /// entropy coding and transforms, so a stream begun at `ultrafast` gains little from a slower preset.
    ///
    /// # Errors
    /// [`CodecError::Setting`] for what is no preset; nothing changes then.
    pub fn set_preset(&mut self, preset: &str) -> Result<(), CodecError> {
        let name = checked_preset(preset)?;
        self.handle.set_preset(&name).map_err(|reason| failed("change the preset", reason))?;
        self.settings.preset = preset.to_owned();
        Ok(())
    }

    /// Width and height of the pictures that it takes.
    pub fn size(&self) -> Size {
        self.settings.size
    }

    /// SPS, PPS and x264's own SEI in Annex B form: what a container's header wants. The stream itself repeats SPS
    /// and PPS at each key frame. Opens an encoder for a moment: some milliseconds.
    pub fn headers(&self) -> Result<Bytes, CodecError> {
        let headers = x264_library::headers(&self.opened);
        Ok(Bytes::from(headers.map_err(|reason| failed("write headers", reason))?))
    }
}

#[cfg(test)]
#[cfg(feature = "x264")]
mod tests {
    use super::*;
    use glassline_media::pixels::FieldOrder;
    use glassline_media::{Chroma, Colour, FrameRate, Time};
    use proptest::prelude::*;
    use std::time::Duration;

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
        let fields = Some(FieldOrder::TopFirst);
        assert!(message(&Settings { fields, ..settings(64, 62) }).contains("multiple of four"));
        let swept = Settings { fields, intra_refresh: true, ..base.clone() };
        assert!(message(&swept).contains("key frames"));
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
            let format = PixelFormat::planar(chroma, depth_bits);
            let picture = Picture::new(format, Size::new(64, 64).unwrap(), Time::ZERO);
            assert!(matches!(encoder.encode(&picture, Ticks(0)), Err(CodecError::Input { .. })));
        }
        assert!(encoder.encode(&picture(64, 64, 0), Ticks(0)).is_ok());
        let again = encoder.encode(&picture(64, 64, 1), Ticks(0)).unwrap_err();
        assert_eq!(again, CodecError::TimeStamp { codec: CODEC, found: Ticks(0), last: Ticks(0) });
        assert!(encoder.encode(&picture(64, 64, 1), Ticks(1)).is_ok());
    }

    #[test]
    fn time_stamps_and_capture_times_pass_through() {
        let mut encoder = Encoder::new(&settings(64, 64)).unwrap();
        // Starts below zero, drops pictures and jumps over the 33-bit wrap.
        let stamps = [-7, 0, 3600, 9001, Ticks::WRAP + 5];
        for (number, &pts) in stamps.iter().enumerate() {
            let picture = picture(64, 64, number as u64);
            let unit = encoder.encode(&picture, Ticks(pts)).unwrap();
            assert_eq!((unit.pts, unit.dts), (Ticks(pts), Ticks(pts)));
            assert_eq!(unit.stamps, Stamps::captured_at(picture.captured));
        }
    }

    #[test]
    fn headers_are_parameter_sets() {
        let encoder = Encoder::new(&settings(64, 64)).unwrap();
        let headers = encoder.headers().unwrap();
        assert_eq!(headers[..5], [0, 0, 0, 1, 0x67]);
        assert!(headers.windows(4).any(|window| window == [0, 0, 1, 0x68]));
    }

    /// A texture that moves, with some noise, and is another one from picture `cut` on.
    fn moving(number: u64, cut: u64) -> Picture {
        let mut picture = picture(320, 180, 0);
        let scene = u64::from(number >= cut) * 977;
        let hash = |place: u64| place.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for (y, line) in picture.planes_mut()[0].lines_mut().enumerate() {
            for (x, sample) in line.iter_mut().enumerate() {
                let (x, y) = (x as u64, y as u64);
                let texture = hash((x + 2 * number) / 3 * 7919 + y / 3 * 104_729 + scene) >> 58;
                let noise = hash(x + 320 * (y + 180 * number)) >> 59;
                *sample = (32 + 2 * texture + noise) as u8;
            }
        }
        picture
    }

    #[test]
    fn predicted_quantisers_meet_the_rate_and_keep_the_vbv_over_a_change_of_scene() {
        let mut settings = settings(320, 180);
        settings.rate_control = RateControl::Predicted;
        settings.bitrate_bps = 800_000;
        let mut encoder = Encoder::new(&settings).unwrap();
        let (per_picture, vbv) = (800_000.0 / 25.0, 800_000.0);
        let (mut fill, mut least, mut sum, mut keys) = (0.9 * vbv, vbv, 0.0, Vec::new());
        for number in 0..250 {
            let unit = encoder.encode(&moving(number, 110), Ticks(3600 * number as i64)).unwrap();
            keys.extend(unit.random_access.then_some(number));
            let bits = 8.0 * unit.data.len() as f64;
            sum += bits;
            fill -= bits;
            least = f64::min(least, fill);
            fill = f64::min(vbv, fill + per_picture);
        }
        assert_eq!(keys, (0..10).map(|second| 25 * second).collect::<Vec<_>>());
        let mean = sum / 10.0;
        assert!((0.9..1.09).contains(&(mean / 800_000.0)), "{mean} bit/s");
        assert!(least > 0.0, "the VBV ran dry: {least}");
    }

    #[test]
    fn predicted_quantisers_follow_a_new_rate_and_a_demanded_key_frame() {
        let mut settings = settings(320, 180);
        settings.rate_control = RateControl::Predicted;
        settings.bitrate_bps = 2_000_000;
        let mut encoder = Encoder::new(&settings).unwrap();
        let run = |encoder: &mut Encoder, pictures: std::ops::Range<u64>| -> (usize, Vec<u64>) {
            let mut keys = Vec::new();
            let bytes = pictures.map(|number| {
                let unit = encoder.encode(&moving(number, u64::MAX), Ticks(number as i64)).unwrap();
                keys.extend(unit.random_access.then_some(number));
                unit.data.len()
            });
            (bytes.sum(), keys)
        };
        run(&mut encoder, 0..75);
        encoder.set_bitrate(500_000).unwrap();
        run(&mut encoder, 75..110);
        encoder.force_key_frame();
        let (bytes, keys) = run(&mut encoder, 110..185);
        assert_eq!(keys, [110, 135, 160], "the interval counts on from the one that was demanded");
        let mean = bytes as f64 * 8.0 / 3.0;
        assert!((0.8..1.15).contains(&(mean / 500_000.0)), "{mean} bit/s");
    }

    /// Within a scene: a change of it may be larger than a small buffer, and cannot be stopped half-way.
    #[test]
    fn predicted_quantisers_keep_a_vbv_of_a_few_pictures_without_key_frames() {
        let mut settings = settings(320, 180);
        settings.rate_control = RateControl::Predicted;
        settings.intra_refresh = true;
        settings.bitrate_bps = 1_600_000;
        settings.vbv = Duration::from_millis(200);
        let mut encoder = Encoder::new(&settings).unwrap();
        let (per_picture, vbv) = (1_600_000.0 / 25.0, 320_000.0);
        let (mut fill, mut least, mut sum) = (0.9 * vbv, vbv, 0.0);
        for number in 0..250 {
            let unit = encoder.encode(&moving(number, u64::MAX), Ticks(3600 * number as i64)).unwrap();
            let bits = 8.0 * unit.data.len() as f64;
            sum += bits;
            fill -= bits;
            least = f64::min(least, fill);
            fill = f64::min(vbv, fill + per_picture);
        }
        let mean = sum / 10.0;
        assert!((0.8..1.05).contains(&(mean / 1_600_000.0)), "{mean} bit/s");
        assert!(least > 0.0, "the VBV ran dry: {least}");
    }

    #[test]
    fn predicted_quantisers_and_filler_are_refused_together() {
        let wrong = Settings { rate_control: RateControl::Predicted, filler: true, ..settings(64, 64) };
        assert!(message(&wrong).contains("filler"), "{}", message(&wrong));
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
            predicted: bool,
            preset in 0usize..5,
            fields in 0usize..3,
        ) {
            let mut settings = settings(width, height);
            settings.frame_rate = FrameRate::new(rate.0, rate.1).unwrap();
            settings.bitrate_bps = bitrate_bps;
            settings.vbv = Duration::from_millis(vbv_millis);
            settings.key_interval = KeyInterval::Pictures(interval);
            settings.threads = threads;
            if predicted {
                settings.rate_control = RateControl::Predicted;
            }
            settings.slices = slices;
            settings.preset = PRESETS[preset].to_owned();
            settings.fields = [None, Some(FieldOrder::TopFirst), Some(FieldOrder::BottomFirst)][fields];
            let odd = width % 2 == 1 || height % 2 == 1 || fields > 0 && height % 4 != 0;
            match Encoder::new(&settings) {
                Err(CodecError::Setting { .. }) => {}
                Err(other) => prop_assert!(false, "x264 refused what we took: {other}"),
                Ok(mut encoder) => {
                    prop_assert!(!odd);
                    for number in 0..interval + 2 {
                        let picture = picture(width, height, number.into());
                        let unit = encoder.encode(&picture, Ticks(i64::from(number))).unwrap();
                        prop_assert_eq!(unit.random_access, number % interval == 0);
                        // The access unit delimiter comes first.
                        prop_assert_eq!(&unit.data[..5], &[0, 0, 0, 1, 9]);
                    }
                }
            }
        }
    }
}
