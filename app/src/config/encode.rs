//! `[encode.NAME]`: a stream that the program encodes itself and publishes under this name.

use super::problem::{NAME_RULE, Problem, out_of, problem};
use super::{Config, Demo};
use crate::encode::{self, EncodeOptions, NamedInput};
use crate::options;
use glassline_codec::h264::x264::PRESETS;
use glassline_delivery::policy::StreamName;
use glassline_media::quantity::Bitrate;
use glassline_studio::capture::Input;
use std::collections::BTreeMap;

impl Demo {
    /// The same as a section `[encode.NAME]`.
    pub(crate) fn as_section(&self) -> EncodeOptions {
        let input = Input::Test { size: self.size, rate: self.frame_rate };
        let text = format!("test:{}x{}@{}", self.size.width, self.size.height, self.frame_rate);
        EncodeOptions {
            input: Some(NamedInput { text, input }),
            preset: self.preset.clone(),
            bitrate: Some(self.bitrate),
            ..EncodeOptions::default()
        }
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
            check_section(&key, section)?;
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

fn check_section(section: &str, options: &EncodeOptions) -> Result<(), Problem> {
    let key = |name: &str| format!("{section}.{name}");
    if options.input.is_none() {
        return problem(section.to_owned(), "has no input; give one, as input = \"test:1280x720@50\"");
    }
    check_preset(key("preset"), &options.preset)?;
    let bitrate_key = if options.renditions.is_empty() { "bitrate" } else { "renditions" };
    for bitrate in options.bitrates() {
        check_bitrate(key(bitrate_key), bitrate)?;
    }
    for (name, found, most) in [("threads", options.threads, 64), ("slices", options.slices, 64)] {
        if found > most {
            return out_of(key(name), found, 0, most);
        }
    }
    encode::check_section(options).or_else(|(name, text)| problem(key(name), text))
}
