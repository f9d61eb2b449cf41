//! What a rendition has of its own beside size, rate and bit rate: `640x360@25:500k+64k;look-ahead=2s;preset=slow`.

use super::ParseError;
use super::auto::AUTO;
use super::settings::{Settings, Vbv};
use super::sound::{self, Audio};
use glassline_codec::h264::x264::{self, Crf, Level, Profile, Tune};
use glassline_media::quantity::{self, Bitrate};
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

/// Settings of one rendition; what it does not say is as for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    preset: Option<String>,
    vbv: Option<Vbv>,
    threads: Option<u32>,
    look_ahead: Option<Duration>,
    bframes: Option<u32>,
    tune: Option<Tune>,
    profile: Option<Profile>,
    level: Option<Level>,
    references: Option<u32>,
    crf: Option<Crf>,
    audio: Option<Audio>,
    audio_bitrate: Option<Bitrate>,
}

/// The names that stand behind a semicolon.
const NAMES: [&str; 12] = [
    "look-ahead",
    "bframes",
    "preset",
    "tune",
    "profile",
    "level",
    "ref",
    "crf",
    "vbv",
    "threads",
    "audio",
    "audio-bitrate",
];

impl Overrides {
    /// Reads `NAME=VALUE`, as often as there are semicolons. `audio_bitrate`: what stood behind the picture's, with a plus.
    pub(super) fn parse(
        options: Option<&str>,
        audio_bitrate: Option<Bitrate>,
    ) -> Result<Overrides, ParseError> {
        let mut own = Overrides { audio_bitrate, ..Overrides::default() };
        for option in options.into_iter().flat_map(|options| options.split(';')) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            own.read(name.trim(), value.trim())?;
        }
        Ok(own)
    }

    fn read(&mut self, name: &str, value: &str) -> Result<(), ParseError> {
        match name {
            "look-ahead" => set(&mut self.look_ahead, name, quantity::parse_duration(value)),
            "bframes" => set(&mut self.bframes, name, number(value)),
            "preset" => set(&mut self.preset, name, preset(value)),
            "tune" => set(&mut self.tune, name, Tune::from_str(value)),
            "profile" => set(&mut self.profile, name, Profile::from_str(value)),
            "level" => set(&mut self.level, name, Level::from_str(value)),
            "ref" => set(&mut self.references, name, number(value)),
            "crf" => set(&mut self.crf, name, Crf::from_str(value)),
            "vbv" => set(&mut self.vbv, name, Vbv::from_str(value)),
            "threads" => set(&mut self.threads, name, number(value)),
            "audio" => set(&mut self.audio, name, Audio::from_str(value)),
            "audio-bitrate" => set(&mut self.audio_bitrate, name, Bitrate::from_str(value)),
            _ => Err(ParseError(format!("a rendition has no {name:?}; write one of {}", NAMES.join(", ")))),
        }
    }

    /// How the rendition's pictures are coded, where `all` says how those of all are. With `look-ahead=0s` it is coded without delay
    /// though others are not: B-frames, which delay too, are then those alone that it asks for itself.
    pub(super) fn settings(&self, bitrate: Bitrate, all: &Settings) -> Settings {
        let (look_ahead, bframes) = match self.look_ahead {
            Some(Duration::ZERO) => (None, None),
            own => (own.or(all.look_ahead), all.bframes),
        };
        Settings {
            bitrate,
            preset: self.preset.clone().unwrap_or_else(|| all.preset.clone()),
            vbv: self.vbv.unwrap_or(all.vbv),
            threads: self.threads.unwrap_or(all.threads),
            look_ahead,
            bframes: self.bframes.or(bframes),
            tune: self.tune.or(all.tune),
            profile: self.profile.or(all.profile),
            level: self.level.or(all.level),
            references: self.references.or(all.references),
            crf: self.crf.or(all.crf),
            ..all.clone()
        }
    }

    /// How its sound is coded, where `all` says how that of all is. Where there is no sound there is none to code otherwise.
    pub(super) fn sound(&self, all: &sound::Settings) -> sound::Settings {
        if all.codec == Audio::None {
            return *all;
        }
        let codec = self.audio.unwrap_or(all.codec);
        // Rate, length and depth are of a codec.
        let same =
            if codec == all.codec { *all } else { sound::Settings { codec, ..sound::Settings::default() } };
        sound::Settings { bitrate: self.audio_bitrate.or(same.bitrate), channels: all.channels, ..same }
    }
}

fn set<T, E: Display>(place: &mut Option<T>, name: &str, value: Result<T, E>) -> Result<(), ParseError> {
    let value = value.map_err(|why| ParseError(format!("{name}: {why}")))?;
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(ParseError(format!("{name} is given twice; leave one out"))),
    }
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

fn preset(text: &str) -> Result<String, String> {
    let known = x264::PRESETS.contains(&text) || text == AUTO;
    known
        .then(|| text.to_owned())
        .ok_or_else(|| format!("{text:?} is none of {}, {AUTO}", x264::PRESETS.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(options: &str) -> Result<Overrides, String> {
        Overrides::parse(Some(options), None).map_err(|error| error.to_string())
    }

    #[test]
    fn what_a_rendition_says_holds_for_it_alone() {
        let all = Settings { level: "4".parse().ok(), threads: 3, ..Settings::default() };
        let bitrate = Bitrate::from_bits_per_second(500_000);
        let one = own("look-ahead=2s;bframes=3;preset=slow;tune=film;profile=high;ref=5;crf=21.5;vbv=500ms")
            .unwrap();
        let expected = Settings {
            bitrate,
            look_ahead: Some(Duration::from_secs(2)),
            bframes: Some(3),
            preset: "slow".to_owned(),
            tune: Some(Tune::Film),
            profile: Some(Profile::High),
            references: Some(5),
            crf: Crf::from_hundredths(2150),
            vbv: Vbv::Time(Duration::from_millis(500)),
            ..all.clone()
        };
        assert_eq!(one.settings(bitrate, &all), expected);
        assert_eq!(Overrides::default().settings(bitrate, &all), Settings { bitrate, ..all });
    }

    #[test]
    fn one_rendition_may_be_without_the_delay_of_the_others() {
        let look_ahead = Some(Duration::from_secs(2));
        let all = Settings { look_ahead, bframes: Some(3), tune: Some(Tune::Film), ..Settings::default() };
        let bitrate = Bitrate::from_bits_per_second(500_000);
        let hall = own("look-ahead=0s").unwrap().settings(bitrate, &all);
        assert_eq!(hall, Settings { bitrate, look_ahead: None, bframes: None, ..all.clone() });
        assert!(!hall.is_delayed());
        assert_eq!(own("preset=slow").unwrap().settings(bitrate, &all).look_ahead, look_ahead);
        assert_eq!(own("look-ahead=0s;bframes=1").unwrap().settings(bitrate, &all).bframes, Some(1));
    }

    #[test]
    fn what_is_no_option_is_refused_with_those_that_are() {
        for (options, complaint) in [
            ("lookahead=2s", "write one of look-ahead, bframes"),
            ("", "has no \"\""),
            ("look-ahead", "look-ahead: "),
            ("bframes=two", "bframes: \"two\" is no number"),
            ("preset=fastest", "none of ultrafast"),
            ("tune=grainy", "tune: "),
            ("level=3.3", "no level of H.264"),
            ("crf=52", "crf: "),
            ("bframes=2;bframes=3", "given twice"),
        ] {
            let error = own(options).unwrap_err();
            assert!(error.contains(complaint), "{options}: {error}");
        }
    }

    #[test]
    #[cfg(feature = "opus")]
    fn sound_of_another_codec_has_that_ones_defaults() {
        let rate = |kilobits: u64| Some(Bitrate::from_bits_per_second(kilobits * 1000));
        let frame = Some(Duration::from_millis(10));
        let all = sound::Settings { bitrate: rate(96), frame, channels: 1, ..sound::Settings::default() };
        assert_eq!(Overrides::default().sound(&all), all);
        let less = Overrides::parse(None, rate(64)).unwrap().sound(&all);
        assert_eq!(less, sound::Settings { bitrate: rate(64), ..all });
        let other = own("audio=s302m").unwrap().sound(&all);
        let expected = sound::Settings { codec: Audio::S302m, channels: 1, ..sound::Settings::default() };
        assert_eq!(other, expected);
        let none = sound::Settings { codec: Audio::None, ..all };
        assert_eq!(own("audio=opus").unwrap().sound(&none), none);
    }
}
