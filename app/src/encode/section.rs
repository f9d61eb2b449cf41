//! The sections `[encode.NAME]`: they become requests to the engine, and errors with the key that is wrong.

use super::options::EncodeOptions;
use super::words;
use crate::failure;
use glassline_codec::CodecError;
use glassline_delivery::policy::StreamName;
use glassline_media::quantity::format_duration;
use glassline_studio::capture::{AudioIn, Input, Length};
use glassline_studio::encode::{self, EncoderRequest, Keyint, LadderError, Plan, RateControl, Request, Vbv};
use std::ops::RangeInclusive;
use std::time::Duration;

/// The range of a section's VBV.
const VBV_TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);
const VBV_PICTURES: RangeInclusive<u32> = 1..=500;
/// The range of the distance between its key frames.
const KEYINT_TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3600);
const KEYINT_PICTURES: RangeInclusive<u32> = 1..=1_000_000;

/// Fails if this build has no H.264 encoder.
pub(crate) fn require() -> anyhow::Result<()> {
    if cfg!(feature = "x264") {
        return Ok(());
    }
    Err(failure::usage("this build has no H.264 encoder", words::NOT_BUILT_IN))
}

/// The request for the encoder of the section called `name`. Sections with errors have been refused with the
/// configuration.
pub(crate) fn encoder_request(name: &StreamName, section: &EncodeOptions) -> Option<EncoderRequest> {
    let streams = stream_names(name.as_str(), section);
    Some(EncoderRequest {
        request: read(section).ok()?,
        input: section.input.as_ref()?.text.clone(),
        streams: streams.iter().filter_map(|name| StreamName::parse(name)).collect(),
    })
}

/// An encoder's error as a message about the configuration.
pub(crate) fn explain(error: encode::Error) -> String {
    let error = match error {
        encode::Error::Sound(error) => {
            let (key, text) = words::sound(&error).in_section();
            failure::usage(format_args!("{key}: {text}"), "see the configuration")
        }
        other => words::explain(other),
    };
    format!("{error:#}")
}

/// A key of a section, and what is wrong with its value.
type Wrong = (&'static str, String);

/// Checks a section, and returns the first wrong key with what is wrong. Opens no file or device.
pub(crate) fn check_section(section: &EncodeOptions) -> Result<(), Wrong> {
    let request = read(section)?;
    let Request { input, settings, renditions, sound, .. } = &request;
    if !renditions.is_empty() {
        check_renditions(section, &request)?;
    }
    if request.looped && !request.can_loop() {
        return Err(("loop", "only a file can begin again, and no input is one; leave it out".to_owned()));
    }
    if settings.mux_rate.is_some() && !settings.cbr && !settings.constant_size {
        return Err(("mux_rate", NOT_CONSTANT.to_owned()));
    }
    if let Some(wrong) = request.check_pictures().err().and_then(|error| wrong_setting(section, &error)) {
        return Err(wrong);
    }
    // Whether a file or a device has audio is known when it is opened.
    let may_have =
        input.has_sound() || matches!(input, Input::Decoded(_) | Input::Rtp { .. }) || sound.input.is_some();
    sound.check(may_have).map_err(|error| match error {
        encode::Error::Sound(error) => words::sound(&error).in_section(),
        other => {
            let key = if section.audio_bitrate.is_some() { "audio_bitrate" } else { "audio" };
            (key, format!("{:#}", words::explain(other)))
        }
    })
}

/// What x264 does not take of what is asked for quality, with the key that says it.
fn wrong_setting(section: &EncodeOptions, error: &CodecError) -> Option<Wrong> {
    let CodecError::Setting { setting, found, expected, .. } = error else { return None };
    let key = match *setting {
        "look-ahead (pictures)" | "look-ahead" => "look_ahead",
        "B-pictures" => "bframes",
        "reference pictures" => "ref",
        "constant rate factor" => "crf",
        "rate control" => "rate_control",
        "level" => "level",
        // Pictures of another rate may take it.
        _ => return None,
    };
    let key = if section.renditions.is_empty() { key } else { "renditions" };
    Some((key, format!("{setting} is {found}; it must be {expected}")))
}

/// Why a mux rate needs a constant rate.
const NOT_CONSTANT: &str = "is the rate of a stream that is filled up; it goes with cbr or constant_size";

fn check_renditions(section: &EncodeOptions, request: &Request) -> Result<(), Wrong> {
    let Request { input, settings, renditions, .. } = request;
    let refused = |error: LadderError| ("renditions", words::ladder(&error).to_string());
    for (key, is_set) in
        [("intra_refresh", settings.intra_refresh), ("constant_size", settings.constant_size)]
    {
        if is_set {
            return Err((
                key,
                "goes without key frames, which renditions have in common; leave one out".to_owned(),
            ));
        }
    }
    if section.bitrate.is_some() {
        return Err(("bitrate", "is each rendition's own; leave it out".to_owned()));
    }
    if settings.mux_rate.is_some() && renditions.len() > 1 {
        return Err((
            "mux_rate",
            "is one rate, and renditions have rates of their own; leave it out".to_owned(),
        ));
    }
    encode::names(renditions).map_err(refused)?;
    // The frame rate of other inputs is known when they are opened.
    if let Input::Test { rate, .. } = *input {
        Plan::new(renditions, rate, settings.keyint.time(rate)).map_err(refused)?;
    }
    Ok(())
}

/// The streams that a section called `name` makes: one of this name, or one for each of its renditions.
pub(crate) fn stream_names(name: &str, section: &EncodeOptions) -> Vec<String> {
    if section.renditions.is_empty() {
        return vec![name.to_owned()];
    }
    let names = encode::names(&section.renditions).unwrap_or_default();
    names.iter().map(|rendition| format!("{name}-{rendition}")).collect()
}

/// Reads a section as a request to the engine.
fn read(section: &EncodeOptions) -> Result<Request, Wrong> {
    let key = if section.video_track.is_some() { "video_track" } else { "audio_track" };
    let request = section.request(true, Length::default()).map_err(wrong(key))?;
    if request.input == Input::Stdin {
        return Err(("input", "standard input is no input of a server; give a file or a pipe".to_owned()));
    }
    let EncodeOptions { vbv, keyint, cbr, constant_size, .. } = *section;
    let is_in_range = match vbv {
        Vbv::Time(time) => VBV_TIMES.contains(&time),
        Vbv::Pictures(pictures) => VBV_PICTURES.contains(&pictures),
    };
    if !is_in_range {
        return Err(("vbv", format!("{vbv} is out of range; from 1ms to 1m, or 1frame to 500frames")));
    }
    check_keyint(keyint)?;
    if section.rate_control == RateControl::Predicted && (cbr || constant_size) {
        return Err(("rate_control", "must be x264's own where filler is added; leave it out".to_owned()));
    }
    if section.mux_rate.is_some() && !cbr && !constant_size {
        return Err(("mux_rate", NOT_CONSTANT.to_owned()));
    }
    if matches!(section.audio_in, Some(AudioIn::Fd(_))) {
        let text = "a server has no descriptors of yours; give alsa:DEVICE or FILE.wav, which may be a pipe";
        return Err(("audio_in", text.to_owned()));
    }
    if section.audio_format.is_some() && section.audio_in.is_none() {
        return Err(("audio_format", "says what audio_in is like; give that, too".to_owned()));
    }
    Ok(request)
}

fn check_keyint(keyint: Keyint) -> Result<(), Wrong> {
    let found = match keyint {
        Keyint::Time(time) if KEYINT_TIMES.contains(&time) => return Ok(()),
        Keyint::Pictures(pictures) if KEYINT_PICTURES.contains(&pictures) => return Ok(()),
        Keyint::Time(time) => format_duration(time),
        Keyint::Pictures(pictures) => pictures.to_string(),
        Keyint::Infinite => {
            return Err(("keyint", "must not be infinite: viewers join at key frames".to_owned()));
        }
    };
    let (least, most) = (format_duration(*KEYINT_TIMES.start()), format_duration(*KEYINT_TIMES.end()));
    Err(("keyint", format!("{found} is out of range; from {least} to {most}, or 1 to 1000000 pictures")))
}

/// The error for `key`, with the message of what was refused.
fn wrong<E: std::fmt::Display>(key: &'static str) -> impl Fn(E) -> Wrong {
    move |error| (key, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn section(input: &str) -> EncodeOptions {
        EncodeOptions { input: Some(input.parse().unwrap()), ..EncodeOptions::default() }
    }

    #[test]
    fn a_section_says_what_the_command_line_says() {
        let asked = read(&section("test:320x180@25")).unwrap();
        assert_eq!(asked, Request::new("test:320x180@25".parse().unwrap()));
        let demo = config::Demo::default().as_section();
        assert_eq!(read(&demo).unwrap().input, "test:1280x720@50".parse().unwrap());
    }

    #[test]
    fn key_frames_come_by_time_or_by_number() {
        let of = |keyint: &str| {
            let section = EncodeOptions { keyint: keyint.parse().unwrap(), ..section("test:320x180@25") };
            read(&section).map(|request| request.settings.keyint)
        };
        assert_eq!(of("250"), Ok(Keyint::Pictures(250)));
        assert_eq!(of("2s"), Ok(Keyint::Time(Duration::from_secs(2))));
        for refused in ["1000001", "2h", "infinite"] {
            assert_eq!(of(refused).unwrap_err().0, "keyint", "{refused}");
        }
    }

    #[test]
    fn what_x264_does_not_take_is_refused_before_it_is_opened() {
        let refused = |change: &dyn Fn(&mut EncodeOptions)| {
            let mut section = section("test:1280x720@50");
            change(&mut section);
            check_section(&section).unwrap_err()
        };
        let far = refused(&|section| section.look_ahead = Some(Duration::from_millis(5_020)));
        assert_eq!(far.0, "look_ahead");
        assert!(far.1.contains("10 s of 25 pictures a second, 5 s of 50"), "{far:?}");
        let level = refused(&|section| section.level = "3.1".parse().ok());
        assert!(level.0 == "level" && level.1.contains("3.2 or more"), "{level:?}");
        assert_eq!(refused(&|section| section.bframes = Some(17)).0, "bframes");
        assert_eq!(refused(&|section| section.references = Some(0)).0, "ref");
        let own =
            refused(&|section| section.renditions = vec!["640x360@25:1M;look-ahead=11s".parse().unwrap()]);
        assert!(own.0 == "renditions" && own.1.contains("275"), "{own:?}");
    }

    #[test]
    fn each_rendition_is_a_stream() {
        let mut section = EncodeOptions::default();
        assert_eq!(stream_names("hall", &section), ["hall"]);
        section.renditions =
            ["1280x720@50:8M", "640x360@25:500k"].iter().map(|text| text.parse().unwrap()).collect();
        assert_eq!(stream_names("hall", &section), ["hall-720p50", "hall-360p25"]);
    }
}
