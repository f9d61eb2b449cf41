//! How pictures are coded.

use super::ParseError;
use super::auto::{AUTO, OPENED};
use super::keyint::Keyint;
use crate::capture::Format;
use glassline_codec::h264::x264::{self, Crf, KeyInterval, Level, LookAhead, Profile, Tune};
use glassline_media::quantity::{self, Bitrate};
use glassline_media::{FrameRate, choice};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Slices of a picture where nothing else was asked for: enough for the first packet to leave after an eighth of
/// the picture, and few enough to cost no more than 0.4 % (ultrafast) to 3.5 % (veryfast) of the bits at 720p.
const SLICES: u32 = 8;
/// A slice of fewer macroblock rows than this costs more than it is worth.
const LEAST_ROWS: u32 = 4;

/// Bit rate of pictures where nothing is said.
pub const BITRATE: Bitrate = Bitrate::from_bits_per_second(5_000_000);

/// How pictures are coded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How x264 weighs speed against quality: one of [`x264::PRESETS`], or [`AUTO`], which finds out the slowest that is sustained.
    pub preset: String,
    /// The mean, and over the VBV the maximum.
    pub bitrate: Bitrate,
    /// Size of the VBV: how long a viewer on a link of just this rate has to buffer.
    pub vbv: Vbv,
    /// From one key frame to the next, where a viewer can join.
    pub keyint: Keyint,
    /// No key frames but the first: intra blocks wander over the picture once each `keyint`.
    pub intra_refresh: bool,
    /// Constant bit rate: filler in the pictures, null packets up to a constant rate of the stream.
    pub cbr: bool,
    /// Every picture of the same size: `cbr` with a VBV of one picture and `intra_refresh`.
    pub constant_size: bool,
    /// Rate of the whole stream with `cbr` or `constant_size`, null packets included; what it takes at most where `None`.
    pub mux_rate: Option<Bitrate>,
    /// What chooses the quantisers.
    pub rate_control: RateControl,
    /// Threads that work on one picture; 0 chooses by processors.
    pub threads: u32,
    /// The least number of slices in a picture, each sent when it is finished; 0 chooses by the picture's height, 8 at most.
    pub slices: u32,
    /// Whether it steps to faster presets while pictures are dropped, and back.
    pub adapt: bool,
    /// How far x264 looks ahead, which delays the stream by as much: none has no delay.
    pub look_ahead: Option<Duration>,
    /// B-pictures between two others; as many as the preset has where there is a look-ahead and nothing is said, none where there
    /// is none.
    pub bframes: Option<u32>,
    /// What the pictures are like.
    pub tune: Option<Tune>,
    /// The profile that decoders have.
    pub profile: Option<Profile>,
    /// The level that decoders have.
    pub level: Option<Level>,
    /// Pictures that one may refer to; as many as the preset has where nothing is said.
    pub references: Option<u32>,
    /// The quality that is aimed at; `bitrate` is the ceiling then.
    pub crf: Option<Crf>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            preset: x264::Settings::DEFAULT_PRESET.to_owned(),
            bitrate: BITRATE,
            vbv: Vbv::Time(Duration::from_secs(1)),
            keyint: Keyint::Time(Duration::from_secs(1)),
            intra_refresh: false,
            cbr: false,
            constant_size: false,
            mux_rate: None,
            rate_control: RateControl::Auto,
            threads: 0,
            slices: 0,
            adapt: false,
            look_ahead: None,
            bframes: None,
            tune: None,
            profile: None,
            level: None,
            references: None,
            crf: None,
        }
    }
}

impl Settings {
    /// Whether pictures wait for others, and how.
    pub(super) fn look_ahead(&self, rate: FrameRate) -> Option<LookAhead> {
        let time = match (self.look_ahead, self.bframes) {
            (Some(time), _) if !time.is_zero() => time,
            (_, Some(1..)) => Duration::ZERO,
            _ => return None,
        };
        // More than x264 takes is refused by it, with the reason.
        let asked = pictures_of(time, rate);
        let pictures = if asked > LookAhead::MAX_PICTURES { asked } else { asked.min(self.reach(rate)) };
        Some(LookAhead { pictures, b_pictures: self.bframes })
    }

    /// How many pictures there is something to learn from: no picture refers over a key frame, and no bits are saved for longer than
    /// the VBV holds them. x264 looks no further.
    fn reach(&self, rate: FrameRate) -> u32 {
        pictures_of(self.keyint.time(rate), rate).max(pictures_of(self.vbv.time(rate), rate)).max(1)
    }

    /// How much of the look-ahead that was asked for is of no use: what is used, where that is less.
    pub(super) fn shorter_look_ahead(&self, rate: FrameRate) -> Option<Duration> {
        let asked = pictures_of(self.look_ahead?, rate);
        let used = self.look_ahead(rate)?.pictures;
        (used < asked).then(|| rate.time_of(used.into()))
    }

    /// Whether the preset is found out.
    pub(super) fn is_auto(&self) -> bool {
        self.preset == AUTO
    }

    /// Whether the stream has a delay of its own, for quality.
    pub(super) fn is_delayed(&self) -> bool {
        self.look_ahead.is_some_and(|time| !time.is_zero()) || self.bframes.is_some_and(|count| count > 0)
    }

    /// What x264 is opened with for pictures of `format`. With `common_keys` key frames come where they are asked for, which
    /// keeps them alike in all renditions.
    pub(super) fn x264(&self, format: Format, common_keys: bool) -> x264::Settings {
        let vbv = if self.constant_size { Vbv::Pictures(1) } else { self.vbv };
        let slices = match self.slices {
            0 if self.is_delayed() => 1,
            0 => (format.size.height.div_ceil(16) / LEAST_ROWS).clamp(1, SLICES),
            asked => asked,
        };
        let vbv = vbv.time(format.rate);
        let filler = self.cbr || self.constant_size;
        let is_fast = ["ultrafast", "superfast"].contains(&self.preset.as_str());
        let predicted = match self.rate_control {
            RateControl::Auto => {
                let is_free = !filler && !self.intra_refresh && self.crf.is_none() && !self.is_delayed();
                is_fast && is_free && vbv >= ROOMY_VBV
            }
            RateControl::Predicted => true,
            RateControl::X264 => false,
        };
        x264::Settings {
            preset: if self.is_auto() { OPENED.to_owned() } else { self.preset.clone() },
            vbv,
            rate_control: if predicted { x264::RateControl::Predicted } else { x264::RateControl::X264 },
            key_interval: if common_keys { KeyInterval::Time(Duration::MAX) } else { self.keyint.x264() },
            intra_refresh: self.intra_refresh || self.constant_size,
            filler,
            threads: self.threads,
            slices,
            colour: format.colour,
            sample_aspect: format.sample_aspect,
            fields: format.fields,
            look_ahead: self.look_ahead(format.rate),
            tune: self.tune,
            profile: self.profile,
            level: self.level,
            references: self.references,
            crf: self.crf,
            ..x264::Settings::new(format.size, format.rate, self.bitrate.bits_per_second())
        }
    }
}

fn pictures_of(time: Duration, rate: FrameRate) -> u32 {
    (time.as_secs_f64() * rate.as_f64()).round().min(f64::from(u32::MAX)) as u32
}

/// A VBV of this size has room for pictures that turn out larger than predicted.
const ROOMY_VBV: Duration = Duration::from_millis(500);

choice! {
    /// How the quantisers are chosen.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum RateControl {
        /// Predicted with ultrafast and superfast, if the VBV is 500ms or more and the stream has neither filler nor
        /// --intra-refresh; otherwise by x264.
        Auto = "auto" as default,
        /// Predicted from the pictures before, so that coding begins at once.
        Predicted = "predicted",
        /// By x264, which looks at the whole picture first (up to a quarter of its time with the fast presets).
        X264 = "x264",
    }
}

/// Size of the VBV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vbv {
    /// What the bit rate brings in this time.
    Time(Duration),
    /// What it brings in the time of so many pictures, at least one.
    Pictures(u32),
}

impl Vbv {
    /// In time, at `rate`.
    #[must_use]
    pub fn time(self, rate: FrameRate) -> Duration {
        match self {
            Vbv::Time(time) => time,
            Vbv::Pictures(pictures) => rate.time_of(pictures.into()),
        }
    }
}

impl FromStr for Vbv {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Vbv, ParseError> {
        let frames = text.strip_suffix("frames").or_else(|| text.strip_suffix("frame"));
        match frames.map(|number| number.trim_end().parse()) {
            None => Ok(Vbv::Time(quantity::parse_duration(text)?)),
            Some(Ok(pictures @ 1..)) => Ok(Vbv::Pictures(pictures)),
            Some(_) => {
                Err(ParseError(format!("{text:?} is no number of pictures; write for example 1frame")))
            }
        }
    }
}

impl fmt::Display for Vbv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Vbv::Time(time) => write!(f, "{time:?}"),
            Vbv::Pictures(pictures) => write!(f, "{pictures}frame"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::{Colour, Size};

    fn format(height: u32) -> Format {
        Format {
            size: Size::new(64, height).unwrap(),
            rate: FrameRate::new(50, 1).unwrap(),
            colour: Colour::BT709,
            sample_aspect: None,
            fields: None,
            live: true,
        }
    }

    #[test]
    fn a_vbv_is_a_time_or_pictures() {
        assert_eq!("200ms".parse(), Ok(Vbv::Time(Duration::from_millis(200))));
        assert_eq!("1frame".parse(), Ok(Vbv::Pictures(1)));
        assert_eq!("3 frames".parse(), Ok(Vbv::Pictures(3)));
        for (text, complaint) in [
            ("1", "has no unit"),
            ("0frame", "no number of pictures"),
            ("-1frame", "no number"),
            ("frame", "no number"),
        ] {
            let error = text.parse::<Vbv>().unwrap_err().to_string();
            assert!(error.contains(complaint), "{text}: {error}");
        }
        let settings = Settings { vbv: Vbv::Pictures(3), ..Settings::default() };
        assert_eq!(settings.x264(format(720), false).vbv, Duration::from_millis(60));
    }

    #[test]
    fn quantisers_are_predicted_where_that_pays_and_the_vbv_has_room() {
        let who = |settings: Settings| settings.x264(format(720), false).rate_control;
        let fast = || Settings { preset: "superfast".to_owned(), ..Settings::default() };
        assert_eq!(who(fast()), x264::RateControl::Predicted);
        for other in [
            Settings::default(),
            Settings { cbr: true, ..fast() },
            Settings { constant_size: true, ..fast() },
            Settings { intra_refresh: true, ..fast() },
            Settings { vbv: Vbv::Pictures(10), ..fast() },
            Settings { rate_control: RateControl::X264, ..fast() },
            Settings { look_ahead: Some(Duration::from_secs(1)), ..fast() },
            Settings { crf: Crf::from_hundredths(2000), ..fast() },
        ] {
            assert_eq!(who(other), x264::RateControl::X264);
        }
        let asked = Settings { rate_control: RateControl::Predicted, ..Settings::default() };
        assert_eq!(who(asked), x264::RateControl::Predicted);
    }

    #[test]
    fn a_look_ahead_reaches_to_the_next_key_frame_or_as_far_as_the_vbv() {
        let of = |look_ahead: u64, keyint: u64, vbv: u64| {
            let look_ahead = Some(Duration::from_millis(look_ahead));
            let keyint = Keyint::Time(Duration::from_millis(keyint));
            let vbv = Vbv::Time(Duration::from_millis(vbv));
            let settings = Settings { look_ahead, keyint, vbv, ..Settings::default() };
            let used = settings.x264(format(720), true).look_ahead.unwrap().pictures;
            (used, settings.shorter_look_ahead(format(720).rate).map(|time| time.as_millis()))
        };
        assert_eq!(of(1000, 2000, 500), (50, None));
        assert_eq!(of(2000, 1000, 500), (50, Some(1000)));
        assert_eq!(of(2000, 500, 1500), (75, Some(1500)));
        assert_eq!(of(5000, 60_000, 500), (250, None));
        // x264 refuses that.
        assert_eq!(of(5020, 1000, 500).0, 251);
        let none = Settings { bframes: Some(0), ..Settings::default() };
        assert_eq!(none.x264(format(720), true).look_ahead, None);
        let b_pictures = Settings { bframes: Some(2), ..Settings::default() };
        let expected = Some(LookAhead { pictures: 0, b_pictures: Some(2) });
        assert_eq!(b_pictures.x264(format(720), true).look_ahead, expected);
        assert_eq!(b_pictures.x264(format(720), true).slices, 1);
    }

    #[test]
    fn slices_follow_the_height_unless_asked_for() {
        let slices =
            |height, slices| Settings { slices, ..Settings::default() }.x264(format(height), false).slices;
        assert_eq!([slices(1080, 0), slices(720, 0), slices(360, 0), slices(48, 0)], [8, 8, 5, 1]);
        assert_eq!(slices(720, 3), 3);
    }

    #[test]
    fn constant_size_is_three_things_at_once() {
        let settings = Settings { constant_size: true, ..Settings::default() }.x264(format(720), false);
        assert!(settings.filler && settings.intra_refresh);
        assert_eq!(settings.vbv, Duration::from_millis(20));
    }
    #[test]
    fn common_key_frames_are_left_to_those_that_ask_for_them() {
        let settings = Settings { keyint: Keyint::Pictures(25), ..Settings::default() };
        let interval = |common| settings.x264(format(720), common).key_interval;
        assert_eq!(interval(false), KeyInterval::Pictures(25));
        assert_eq!(interval(true), KeyInterval::Time(Duration::MAX));
    }

    #[test]
    fn a_vbv_of_just_half_a_second_is_roomy_and_a_little_less_is_not() {
        let control = |millis| {
            let vbv = Vbv::Time(Duration::from_millis(millis));
            let settings = Settings { preset: "ultrafast".to_owned(), vbv, ..Settings::default() };
            settings.x264(format(720), false).rate_control
        };
        assert_eq!(control(500), x264::RateControl::Predicted);
        assert_eq!(control(499), x264::RateControl::X264);
    }

    #[test]
    fn a_constant_size_takes_a_vbv_of_one_picture_whatever_was_asked_for() {
        let vbv = Vbv::Time(Duration::from_secs(9));
        let settings = Settings { constant_size: true, vbv, ..Settings::default() };
        assert_eq!(settings.x264(format(720), false).vbv, Duration::from_millis(20));
    }

    #[test]
    fn what_a_vbv_says_of_itself_is_read_as_the_same() {
        for vbv in [Vbv::Pictures(1), Vbv::Pictures(17), Vbv::Time(Duration::from_millis(200))] {
            assert_eq!(vbv.to_string().parse(), Ok(vbv));
        }
        assert!("4294967296frames".parse::<Vbv>().is_err(), "more than can be counted");
    }

    #[test]
    fn what_the_source_says_of_its_pictures_reaches_x264() {
        let fields = Some(glassline_media::FieldOrder::BottomFirst);
        let source = Format { sample_aspect: Some((16, 15)), fields, ..format(576) };
        let opened = Settings { threads: 2, ..Settings::default() }.x264(source, false);
        assert_eq!((opened.sample_aspect, opened.fields), (Some((16, 15)), fields));
        assert_eq!((opened.colour, opened.threads), (Colour::BT709, 2));
    }
}
