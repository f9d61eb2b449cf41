//! `[encode.NAME]`: a stream that the program encodes itself and publishes under this name.

use super::problem::{NAME_RULE, Problem, out_of, problem};
use super::section::{duration, some_duration};

use super::{Config, Demo};
use crate::encode;
use crate::options;
use glassline_codec::h264::x264::PRESETS;
use glassline_delivery::policy::StreamName;
use glassline_media::quantity::{self, Bitrate};
use glassline_studio::encode::BITRATE;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// `[encode.NAME]`: what is encoded, and how; the keys are named like the options of `glassline encode`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Encode {
    /// Where video and audio come from. Every section has an input.
    pub(crate) input: Option<String>,
    /// x264's preset.
    pub(crate) preset: String,
    /// Bit rate of the video, by default 5M. Not together with renditions, which have their own bit rates.
    pub(crate) bitrate: Option<Bitrate>,
    /// Several versions, each `WxH@RATE:BITRATE` and a stream of its own.
    pub(crate) renditions: Vec<String>,
    /// Size of the VBV, as a time or a number of pictures.
    pub(crate) vbv: String,
    /// Time from one key frame to the next.
    #[serde(deserialize_with = "duration")]
    pub(crate) keyint: Duration,
    /// Whether intra blocks move across the picture instead of key frames.
    pub(crate) intra_refresh: bool,
    /// Whether filler makes the bit rate constant.
    pub(crate) cbr: bool,
    /// Whether all pictures have the same size, whatever the VBV.
    pub(crate) constant_size: bool,
    /// How the quantisers are chosen.
    pub(crate) rate_control: String,
    /// Bit rate of the whole stream including null packets, if the stream has a constant rate; by default the most
    /// that the stream takes.
    pub(crate) mux_rate: Option<Bitrate>,
    /// Whether the encoder switches to faster presets when it cannot keep up.
    pub(crate) adapt: bool,
    /// Number of x264's threads; 0: by the number of processors.
    pub(crate) threads: u32,
    /// The smallest number of slices in a picture; 0: by the height of the picture.
    pub(crate) slices: u32,
    /// Whether a file starts again at its end.
    #[serde(rename = "loop")]
    pub(crate) looped: bool,
    /// How interlaced video is encoded.
    pub(crate) deinterlace: String,
    /// How audio is encoded; by default Opus, if the input has audio.
    pub(crate) audio: Option<String>,
    /// Where audio comes from, if not from the input.
    pub(crate) audio_in: Option<String>,
    /// What is requested from an ALSA device.
    pub(crate) audio_format: Option<String>,
    /// Bit rate of the audio; by default the codec's.
    pub(crate) audio_bitrate: Option<Bitrate>,
    /// Length of an audio packet; by default the codec's.
    #[serde(deserialize_with = "some_duration")]
    pub(crate) audio_frame: Option<Duration>,
    /// Bits per sample of uncompressed audio.
    pub(crate) audio_bits: Option<u32>,
    /// Which video track of a file, by number or language.
    pub(crate) video_track: Option<String>,
    /// Which audio track of a file, by number or language.
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
    /// The demo stream as such a section.
    pub(crate) fn of_demo(demo: &Demo) -> Encode {
        let (width, height) = (demo.size.width, demo.size.height);
        Encode {
            input: Some(format!("test:{width}x{height}@{}", demo.frame_rate)),
            preset: demo.preset.clone(),
            bitrate: Some(demo.bitrate),
            ..Encode::default()
        }
    }

    /// Bit rate of the video.
    pub(crate) fn bitrate(&self) -> Bitrate {
        self.bitrate.unwrap_or(BITRATE)
    }

    /// The bit rate of each stream that the section makes.
    pub(crate) fn bitrates(&self) -> Vec<Bitrate> {
        if self.renditions.is_empty() {
            return vec![self.bitrate()];
        }
        self.renditions.iter().filter_map(|text| text.rsplit_once(':')?.1.parse().ok()).collect()
    }
}

/// Checks that a video bit rate is within its range.
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
