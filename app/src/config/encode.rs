//! `[encode.NAME]`: a stream that the program encodes itself and publishes under this name.

use super::problem::{NAME_RULE, Problem, out_of, problem};
use super::{Config, Demo, StreamForward};
use crate::encode::{self, EncodeOptions, NamedInput};
use crate::options;
use glassline_codec::h264::x264::PRESETS;
use glassline_delivery::policy::StreamName;
use glassline_media::quantity::Bitrate;
use glassline_studio::capture::Input;
use glassline_studio::encode::sound::Audio;
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
                if section.audio == Some(Audio::S302m) && self.has_rtmp_forward(&stream) {
                    let words = format!(
                        "is s302m, which RTMP does not carry, and stream.{stream}.forward names a service over RTMP; choose \"aac\""
                    );
                    return problem(format!("{key}.audio"), words);
                }
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

    fn has_rtmp_forward(&self, stream: &str) -> bool {
        let forwards = self.stream.get(stream).into_iter().flat_map(|stream| &stream.forward);
        forwards.filter_map(StreamForward::rtmp).next().is_some()
    }

    /// Streams with sound in Opus that go to services over RTMP, of which few take it.
    pub(super) fn opus_to_services(&self) -> Vec<String> {
        let is_opus = |audio: Option<Audio>| audio.unwrap_or_default().to_string() == "opus";
        let sections = self.encode.iter().filter(|(_, section)| is_opus(section.audio));
        let streams = sections.flat_map(|(name, section)| {
            let streams = encode::stream_names(name, section).into_iter();
            streams.filter(|stream| self.has_rtmp_forward(stream)).map(move |stream| (name, stream))
        });
        let words = |(name, stream)| {
            format!(
                "[encode.{name}] codes sound as Opus, which YouTube, Twitch and most services over RTMP refuse, and [stream.{stream}] forward names such a service; set audio = \"aac\" in [encode.{name}]"
            )
        };
        streams.map(words).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, "a.toml".as_ref()).map_err(|error| error.to_string())
    }

    const FORWARD: &str = "[stream.hall]\nforward = ['rtmp://h/app/KEY-OF-THE-STREAM']\n";

    #[test]
    fn sound_that_rtmp_does_not_carry_is_refused_where_it_is_forwarded() {
        let section = "[encode.hall]\ninput = 'test:64x48@25'\naudio = 's302m'\n";
        let error = parse(&format!("{FORWARD}{section}")).unwrap_err();
        assert!(
            error.contains("a.toml:5: encode.hall.audio: is s302m") && error.contains("choose \"aac\""),
            "{error}"
        );
        assert!(!error.contains("KEY-OF"), "{error}");
        let by_srt = FORWARD.replace("rtmp://h/app/KEY-OF-THE-STREAM", "srt://h:1");
        parse(&format!("{by_srt}{section}")).unwrap();
        parse(section).unwrap();
    }

    #[cfg(feature = "opus")]
    #[test]
    fn sound_that_few_services_take_is_doubted() {
        let doubts = |text: &str| parse(&format!("{FORWARD}{text}")).unwrap().opus_to_services();
        let section = "[encode.hall]\ninput = 'test:64x48@25'\n";
        let told = doubts(section);
        assert!(told.len() == 1 && told[0].contains("[encode.hall] codes sound as Opus"), "{told:?}");
        assert_eq!(doubts(&format!("{section}audio = 'none'\n")), [""; 0]);
        assert_eq!(doubts("[encode.other]\ninput = 'test:64x48@25'\n"), [""; 0]);
    }
}
