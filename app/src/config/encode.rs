//! `[encode.NAME]`: pictures that the program encodes itself, and publishes under the name.

use super::problem::{NAME_RULE, Problem, out_of, problem};
use super::section::{duration, some_duration};

use super::{Config, Demo};
use crate::encode;
use crate::options;
use glassline_codec::h264::x264::PRESETS;
use glassline_delivery::policy::StreamName;
use glassline_engine::encode::BITRATE;
use glassline_media::quantity::{self, Bitrate};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// `[encode.NAME]`: what is encoded, and how; the same words as on the command line of `glassline encode`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Encode {
    /// Where pictures and sound come from. Every section has one.
    pub(crate) input: Option<String>,
    /// x264's preset.
    pub(crate) preset: String,
    /// Bits a second of the picture; 5M where nothing is said. Not beside renditions, which have their own.
    pub(crate) bitrate: Option<Bitrate>,
    /// Several versions, each `WxH@RATE:BITRATE` and a stream of its own.
    pub(crate) renditions: Vec<String>,
    /// Size of the VBV in time, or in pictures.
    pub(crate) vbv: String,
    /// From one key frame to the next.
    #[serde(deserialize_with = "duration")]
    pub(crate) keyint: Duration,
    /// Whether intra blocks wander over the pictures in place of key frames.
    pub(crate) intra_refresh: bool,
    /// Whether filler makes the bit rate a constant one.
    pub(crate) cbr: bool,
    /// Whether every picture is of the same size, whatever the VBV.
    pub(crate) constant_size: bool,
    /// Who chooses the quantisers.
    pub(crate) rate_control: String,
    /// Bits a second of the whole stream, null packets included, where it has a constant rate; what it takes at most
    /// where nothing is said.
    pub(crate) mux_rate: Option<Bitrate>,
    /// Whether it steps to faster presets where it cannot keep up.
    pub(crate) adapt: bool,
    /// x264's threads; 0 chooses by processors.
    pub(crate) threads: u32,
    /// The least number of slices in a picture; 0 leaves it to the threads.
    pub(crate) slices: u32,
    /// Whether a file begins again at its end.
    #[serde(rename = "loop")]
    pub(crate) looped: bool,
    /// What becomes of interlaced pictures.
    pub(crate) deinterlace: String,
    /// How sound is coded; without it, as the input has it.
    pub(crate) audio: Option<String>,
    /// Where sound comes from, if not from the input.
    pub(crate) audio_in: Option<String>,
    /// What is asked of an ALSA device.
    pub(crate) audio_format: Option<String>,
    /// Bits a second of the sound; the codec's default where not given.
    pub(crate) audio_bitrate: Option<Bitrate>,
    /// Sound in a packet; the codec's default where not given.
    #[serde(deserialize_with = "some_duration")]
    pub(crate) audio_frame: Option<Duration>,
    /// Bits of a sample that is not coded.
    pub(crate) audio_bits: Option<u32>,
    /// Which pictures of a film, by number or language.
    pub(crate) video_track: Option<String>,
    /// Which sound of a film, by number or language.
    pub(crate) audio_track: Option<String>,
}

impl Default for Encode {
    fn default() -> Encode {
        Encode {
            input: None,
            preset: "veryfast".into(),
            bitrate: None,
            renditions: Vec::new(),
            vbv: "1s".into(),
            keyint: Duration::from_secs(1),
            intra_refresh: false,
            cbr: false,
            constant_size: false,
            rate_control: "auto".into(),
            mux_rate: None,
            adapt: false,
            threads: 0,
            slices: 0,
            looped: false,
            deinterlace: "auto".into(),
            audio: None,
            audio_in: None,
            audio_format: None,
            audio_bitrate: None,
            audio_frame: None,
            audio_bits: None,
            video_track: None,
            audio_track: None,
        }
    }
}

impl Encode {
    /// The demo as such a section.
    pub(crate) fn of_demo(demo: &Demo) -> Encode {
        let (width, height) = (demo.size.width, demo.size.height);
        Encode {
            input: Some(format!("test:{width}x{height}@{}", demo.frame_rate)),
            preset: demo.preset.clone(),
            bitrate: Some(demo.bitrate),
            ..Encode::default()
        }
    }

    /// Bits a second of the picture.
    pub(crate) fn bitrate(&self) -> Bitrate {
        self.bitrate.unwrap_or(BITRATE)
    }

    /// The bit rate of each stream that it makes.
    pub(crate) fn bitrates(&self) -> Vec<Bitrate> {
        if self.renditions.is_empty() {
            return vec![self.bitrate()];
        }
        self.renditions.iter().filter_map(|text| text.rsplit_once(':')?.1.parse().ok()).collect()
    }
}

/// Bounds of a picture's bit rate.
pub(super) fn check_bitrate(key: String, bitrate: Bitrate) -> Result<(), Problem> {
    if options::BITRATES.contains(&bitrate) {
        return Ok(());
    }
    out_of(key, bitrate, *options::BITRATES.start(), *options::BITRATES.end())
}

pub(super) fn check_preset(key: String, preset: &str) -> Result<(), Problem> {
    if PRESETS.contains(&preset) {
        return Ok(());
    }
    problem(key, format!("{preset:?} is not known; one of {}", PRESETS.join(", ")))
}

impl Config {
    pub(super) fn check_encode(&self) -> Result<(), Problem> {
        let mut taken = BTreeMap::new();
        for (name, section) in &self.encode {
            let key = format!("encode.{name}");
            if StreamName::parse(name).is_none() {
                return problem(key, format!("{name:?} is no stream name: {NAME_RULE}"));
            }
            section.check(&key)?;
            for stream in encode::stream_names(name, section) {
                self.check_encoded(&key, &stream)?;
                if let Some(other) = taken.insert(stream.clone(), name) {
                    return problem(
                        key,
                        format!("encode.{other} makes the stream {stream}, too; rename one"),
                    );
                }
            }
        }
        Ok(())
    }

    /// Whether the section at `key` may make the stream `name`.
    fn check_encoded(&self, key: &str, name: &str) -> Result<(), Problem> {
        if StreamName::parse(name).is_none() {
            return problem(key.to_owned(), format!("{name:?} is no stream name: {NAME_RULE}"));
        }
        if self.demo.enabled && self.demo.name == name {
            return problem(key.to_owned(), "is the demo's name, too; choose another for one");
        }
        if self.stream.get(name).is_some_and(|stream| stream.source.is_some()) {
            return problem(key.to_owned(), format!("stream.{name} has a source; remove one of the two"));
        }
        Ok(())
    }
}

impl Encode {
    fn check(&self, section: &str) -> Result<(), Problem> {
        let key = |name: &str| format!("{section}.{name}");
        if self.input.is_none() {
            return problem(section.to_owned(), "has no input; give one, as input = \"test:1280x720@50\"");
        }
        check_preset(key("preset"), &self.preset)?;
        let bitrate_key = if self.renditions.is_empty() { "bitrate" } else { "renditions" };
        for bitrate in self.bitrates() {
            check_bitrate(key(bitrate_key), bitrate)?;
        }
        let (least, most) = (Duration::from_millis(1), Duration::from_secs(3600));
        if !(least..=most).contains(&self.keyint) {
            let text = quantity::format_duration;
            return out_of(key("keyint"), text(self.keyint), text(least), text(most));
        }
        for (name, found, most) in [("threads", self.threads, 64), ("slices", self.slices, 64)] {
            if found > most {
                return out_of(key(name), found, 0, most);
            }
        }
        encode::check_section(self).or_else(|(name, text)| problem(key(name), text))
    }
}
