//! The sections `[encode.NAME]`: they become requests to the engine, and errors with the key that is wrong.

use super::sound::Audio;
use super::{Deinterlace, words};
use crate::{config, failure};
use clap::ValueEnum;
use glassline_delivery::policy::StreamName;
use glassline_studio::capture::{AudioIn, Input, Length, Track, Tracks};
use glassline_studio::encode::{
    self, EncoderRequest, Keyint, LadderError, Plan, RateControl, Rendition, Request, Settings, SoundRequest,
    Vbv,
};
use std::path::Path;
use std::time::Duration;

/// The range of a section's VBV.
const VBV_TIMES: std::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);
const VBV_PICTURES: std::ops::RangeInclusive<u32> = 1..=500;

/// Fails if this build has no H.264 encoder.
pub(crate) fn require() -> anyhow::Result<()> {
    if cfg!(feature = "x264") {
        return Ok(());
    }
    Err(failure::usage("this build has no H.264 encoder", words::NOT_BUILT_IN))
}

/// The request for the encoder of the section called `name`. Sections with errors have been refused with the
/// configuration.
pub(crate) fn encoder_request(name: &StreamName, section: &config::Encode) -> Option<EncoderRequest> {
    let streams = stream_names(name.as_str(), section);
    Some(EncoderRequest {
        request: read(section).ok()?,
        input: section.input.clone().unwrap_or_default(),
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
pub(crate) fn check_section(section: &config::Encode) -> Result<(), Wrong> {
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

/// Why a mux rate needs a constant rate.
const NOT_CONSTANT: &str = "is the rate of a stream that is filled up; it goes with cbr or constant_size";

fn check_renditions(section: &config::Encode, request: &Request) -> Result<(), Wrong> {
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

/// The streams that a section called `name` makes: one of this name, or one for each of its renditions. For a section
/// with errors, those that can be read.
pub(crate) fn stream_names(name: &str, section: &config::Encode) -> Vec<String> {
    let renditions: Vec<Rendition> = section.renditions.iter().filter_map(|text| text.parse().ok()).collect();
    if renditions.is_empty() {
        return vec![name.to_owned()];
    }
    let names = encode::names(&renditions).unwrap_or_default();
    names.iter().map(|rendition| format!("{name}-{rendition}")).collect()
}

/// An input in a configuration in `folder`: a file name is relative to the folder.
pub(crate) fn input_in(folder: &Path, input: &str) -> String {
    match input.parse() {
        Ok(Input::File(file)) => folder.join(file).to_string_lossy().into_owned(),
        // The file's own name may look like another kind of input.
        Ok(Input::Decoded(film)) => format!("file:{}", folder.join(film.path).to_string_lossy()),
        _ => input.to_owned(),
    }
}

/// An audio input in a configuration in `folder`: a file name is relative to the folder.
pub(crate) fn sound_in(folder: &Path, input: &str) -> String {
    match input.parse() {
        Ok(AudioIn::Wav(file)) => folder.join(file).to_string_lossy().into_owned(),
        Ok(AudioIn::Rtp(file)) => format!("rtp:{}", folder.join(file).display()),
        _ => input.to_owned(),
    }
}

/// Reads a section as a request to the engine.
fn read(section: &config::Encode) -> Result<Request, Wrong> {
    let config::Encode {
        input,
        preset,
        bitrate: _,
        renditions,
        vbv,
        keyint,
        intra_refresh,
        cbr,
        constant_size,
        rate_control,
        mux_rate,
        adapt,
        threads,
        slices,
        looped,
        deinterlace,
        audio,
        audio_in,
        audio_format,
        audio_bitrate,
        audio_frame,
        audio_bits,
        video_track,
        audio_track,
    } = section.clone();
    let input: Input = input.unwrap_or_default().parse().map_err(wrong("input"))?;
    if input == Input::Stdin {
        return Err(("input", "standard input is no input of a server; give a file or a pipe".to_owned()));
    }
    let track =
        |key, text: Option<String>| text.map(|text| text.parse::<Track>().map_err(wrong(key))).transpose();
    let (video, audio_track) = (track("video_track", video_track)?, track("audio_track", audio_track)?);
    let key = if video.is_some() { "video_track" } else { "audio_track" };
    let input = input.with_tracks(Tracks { video, audio: audio_track }).map_err(wrong(key))?;
    let vbv: Vbv = vbv.parse().map_err(wrong("vbv"))?;
    let is_in_range = match vbv {
        Vbv::Time(time) => VBV_TIMES.contains(&time),
        Vbv::Pictures(pictures) => VBV_PICTURES.contains(&pictures),
    };
    if !is_in_range {
        return Err(("vbv", format!("{vbv} is out of range; from 1ms to 1m, or 1frame to 500frames")));
    }
    let rate_control: super::settings::RateControl = named("rate_control", &rate_control)?;
    let rate_control = RateControl::from(rate_control);
    if rate_control == RateControl::Predicted && (cbr || constant_size) {
        return Err(("rate_control", "must be x264's own where filler is added; leave it out".to_owned()));
    }
    if mux_rate.is_some() && !cbr && !constant_size {
        return Err(("mux_rate", NOT_CONSTANT.to_owned()));
    }
    let settings = Settings {
        preset,
        bitrate: section.bitrate(),
        vbv,
        keyint: Keyint::Time(keyint),
        intra_refresh,
        cbr,
        constant_size,
        rate_control,
        mux_rate,
        threads,
        slices,
        adapt,
    };
    let renditions = renditions.iter().map(|text| text.parse()).collect::<Result<_, _>>();
    let renditions = renditions.map_err(wrong("renditions"))?;
    let audio_in: Option<AudioIn> =
        audio_in.map(|text| text.parse()).transpose().map_err(wrong("audio_in"))?;
    if matches!(audio_in, Some(AudioIn::Fd(_))) {
        let text = "a server has no descriptors of yours; give alsa:DEVICE or FILE.wav, which may be a pipe";
        return Err(("audio_in", text.to_owned()));
    }
    if audio_format.is_some() && audio_in.is_none() {
        return Err(("audio_format", "says what audio_in is like; give that, too".to_owned()));
    }
    let codec = audio.as_deref().map(|text| named::<Audio>("audio", text)).transpose()?;
    let raw = audio_format.map(|text| text.parse()).transpose().map_err(wrong("audio_format"))?;
    let sound = SoundRequest {
        codec: codec.map(encode::sound::Audio::from),
        input: audio_in,
        raw,
        bitrate: audio_bitrate,
        frame: audio_frame,
        bits: audio_bits,
    };
    let deinterlace = named::<Deinterlace>("deinterlace", &deinterlace)?.into();
    Ok(Request {
        input,
        settings,
        renditions,
        sound,
        paced: true,
        looped,
        deinterlace,
        length: Length::default(),
    })
}

/// The error for `key`, with the message of a text that cannot be parsed.
fn wrong<E: std::fmt::Display>(key: &'static str) -> impl Fn(E) -> Wrong {
    move |error| (key, error.to_string())
}

/// The value that the command line calls `text`.
fn named<T: ValueEnum>(key: &'static str, text: &str) -> Result<T, Wrong> {
    let unknown = || {
        let known: Vec<_> = T::value_variants().iter().filter_map(ValueEnum::to_possible_value).collect();
        let known: Vec<_> = known.iter().map(|value| value.get_name()).collect();
        format!("{text:?} is not known; one of {}", known.join(", "))
    };
    T::from_str(text, false).map_err(|_| (key, unknown()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_says_what_the_command_line_says() {
        let section =
            config::Encode { input: Some("test:320x180@25".to_owned()), ..config::Encode::default() };
        let asked = read(&section).unwrap();
        assert_eq!(asked, Request::new("test:320x180@25".parse().unwrap()));
        let demo = config::Encode::of_demo(&config::Demo::default());
        assert_eq!(read(&demo).unwrap().input, "test:1280x720@50".parse().unwrap());
    }

    #[test]
    fn files_lie_beside_the_configuration() {
        let folder = Path::new("/etc/glassline");
        assert_eq!(input_in(folder, "in.y4m"), "/etc/glassline/in.y4m");
        assert_eq!(input_in(folder, "/in.y4m"), "/in.y4m");
        assert_eq!(input_in(folder, "film.mkv"), "file:/etc/glassline/film.mkv");
        assert_eq!(input_in(folder, "test:320x180@25"), "test:320x180@25");
        assert_eq!(sound_in(folder, "in.wav"), "/etc/glassline/in.wav");
        assert_eq!(sound_in(folder, "alsa:default"), "alsa:default");
    }

    #[test]
    fn each_rendition_is_a_stream() {
        let mut section = config::Encode::default();
        assert_eq!(stream_names("hall", &section), ["hall"]);
        section.renditions = ["1280x720@50:8M", "640x360@25:500k"].map(str::to_owned).to_vec();
        assert_eq!(stream_names("hall", &section), ["hall-720p50", "hall-360p25"]);
    }
}
