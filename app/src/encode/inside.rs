//! Encoders inside `serve`: the same pipeline, with a publisher of the relay in place of outputs.

use super::control::Controls;
use super::feed::Feed;
use super::input::Input;
use super::pipeline::{Demand, Packets, Pipeline};
use super::queue::Queue;
use super::session::{Rendition, Session};
use super::settings::{RateControl, Settings, Vbv};
use super::sound::{self, Audio};
use super::source::{self, Length, Source};
use super::{Deinterlace, constant_rate};
use crate::{config, failure};
use anyhow::Result;
use clap::ValueEnum;
use glassline_io::clock::Clock;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What a section's VBV may be.
const VBV_TIMES: std::ops::RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);
const VBV_PICTURES: std::ops::RangeInclusive<u32> = 1..=500;

/// An encoder whose input is open, ready to run.
pub(crate) struct Job {
    source: Source,
    feed: Arc<Feed>,
    queue: Arc<Queue>,
    pipeline: Pipeline,
    controls: Controls,
}

/// What ends a [`Job`].
pub(crate) struct Stopper(Arc<Feed>);

impl Stopper {
    /// Asks it to end. Returns at once.
    pub(crate) fn stop(&self) {
        self.0.stop();
    }
}

impl Job {
    /// Opens input and encoder. May take as long as the input does.
    ///
    /// # Errors
    /// What is wrong with either.
    pub(crate) fn open(section: &config::Encode) -> Result<Job> {
        let wrong = |(key, text): (&str, String)| {
            failure::usage(format_args!("{key}: {text}"), "see the configuration")
        };
        let (input, settings, audio) = read(section).map_err(wrong)?;
        let clock = Clock::new();
        let audio = sound::Settings { codec: audio, ..sound::Settings::default() };
        let request = source::Request {
            sound: audio.block_frames(),
            paced: true,
            looped: false,
            deinterlace: Deinterlace::Auto,
            length: Length::default(),
        };
        let source = Source::open(&input, &request, clock)?;
        let sound = sound::Encoder::open(&audio)?;
        let controls = Controls::new(vec![Pipeline::status(source.format(), &settings)]);
        let stream = sound.as_ref().map(sound::Encoder::stream);
        let pipeline = Pipeline::new(source.format(), &settings, stream, controls.clone(), 0, clock)?;
        let queue = Arc::new(Queue::new(source.is_live()));
        let feed = Arc::new(Feed::new(vec![Arc::clone(&queue)], sound, controls.clone()));
        Ok(Job { source, feed, queue, pipeline, controls })
    }

    /// What ends it, from another thread.
    pub(crate) fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.feed))
    }

    /// What can be asked of it while it runs.
    pub(crate) fn controls(&self) -> Controls {
        self.controls.clone()
    }

    /// Encodes until the input ends or [`Stopper::stop`] is called. `sink` gets whole TS packets, those of a picture or of a
    /// packet of sound at a time: while it runs, nothing is coded.
    ///
    /// # Errors
    /// The input's, the encoder's or the sink's.
    pub(crate) fn run(self, mut sink: impl FnMut(&[u8]) -> Result<()> + Send + 'static) -> Result<()> {
        // A relay's price is its sends: it gets a picture at a time, not each slice.
        let mut unit = Vec::new();
        let sink = Box::new(move |packets: &Packets<'_>| {
            unit.extend_from_slice(packets.bytes);
            if packets.ends_picture {
                let pushed = sink(&unit);
                unit.clear();
                pushed?;
            }
            Ok(Demand::Nothing)
        });
        let renditions = vec![Rendition { pipeline: self.pipeline, queue: self.queue, sink }];
        Session::start(self.source, self.feed, renditions)?.join().1
    }
}

/// Nothing to say: this build has an encoder.
pub(crate) fn require() -> Result<()> {
    Ok(())
}

/// What is wrong with a section, and with which of its keys.
pub(crate) fn check_section(section: &config::Encode) -> Result<(), (&'static str, String)> {
    read(section).map(|_| ())
}

/// An input of a configuration in `folder`: a file's name is relative to it.
pub(crate) fn input_in(folder: &Path, input: &str) -> String {
    match input.parse() {
        Ok(Input::File(file)) => folder.join(file).to_string_lossy().into_owned(),
        // Its own name may look like something else.
        Ok(Input::Decoded(file)) => format!("file:{}", folder.join(file).to_string_lossy()),
        _ => input.to_owned(),
    }
}

fn read(section: &config::Encode) -> Result<(Input, Settings, Audio), (&'static str, String)> {
    let config::Encode {
        input,
        preset,
        bitrate,
        vbv,
        keyint,
        intra_refresh,
        cbr,
        constant_size,
        mux_rate,
        adapt,
        threads,
        slices,
        audio,
    } = section.clone();
    let input: Input = input.unwrap_or_default().parse().map_err(|text| ("input", text))?;
    if input == Input::Stdin {
        return Err(("input", "standard input is no input of a server; give a file or a pipe".to_owned()));
    }
    let vbv: Vbv = vbv.parse().map_err(|text| ("vbv", text))?;
    let is_in_range = match vbv {
        Vbv::Time(time) => VBV_TIMES.contains(&time),
        Vbv::Pictures(pictures) => VBV_PICTURES.contains(&pictures),
    };
    if !is_in_range {
        return Err(("vbv", format!("{vbv} is out of range; from 1ms to 1m, or 1frame to 500frames")));
    }
    let audio = match audio.as_deref() {
        None if input.has_sound() => Audio::default(),
        None => Audio::None,
        Some(text) => Audio::from_str(text, false).map_err(|_| ("audio", unknown_audio(text)))?,
    };
    if audio != Audio::None && !input.has_sound() {
        return Err(("audio", "the input has no sound; leave it out".to_owned()));
    }
    if mux_rate.is_some() && !cbr && !constant_size {
        return Err(("mux_rate", constant_rate::NOT_CONSTANT.to_owned()));
    }
    let settings = Settings {
        preset,
        bitrate,
        vbv,
        keyint,
        intra_refresh,
        cbr,
        constant_size,
        mux_rate,
        rate_control: RateControl::Auto,
        threads,
        slices,
        adapt,
        common_keys: false,
    };
    Ok((input, settings, audio))
}

fn unknown_audio(text: &str) -> String {
    let known: Vec<_> = Audio::value_variants().iter().filter_map(ValueEnum::to_possible_value).collect();
    let known: Vec<_> = known.iter().map(|value| value.get_name()).collect();
    format!("{text:?} is not known; one of {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_says_what_the_command_line_says() {
        let section =
            config::Encode { input: Some("test:320x180@25".to_owned()), ..config::Encode::default() };
        let (input, settings, audio) = read(&section).unwrap();
        assert_eq!(settings, Settings::default());
        assert_eq!((input.has_sound(), audio), (true, Audio::default()));
        let demo = config::Encode::of_demo(&config::Demo::default());
        assert_eq!(read(&demo).unwrap().0, "test:1280x720@50".parse().unwrap());
    }

    #[test]
    fn files_lie_beside_the_configuration() {
        let folder = Path::new("/etc/glassline");
        assert_eq!(input_in(folder, "in.y4m"), "/etc/glassline/in.y4m");
        assert_eq!(input_in(folder, "/in.y4m"), "/in.y4m");
        assert_eq!(input_in(folder, "film.mkv"), "file:/etc/glassline/film.mkv");
        assert_eq!(input_in(folder, "test:320x180@25"), "test:320x180@25");
    }
}
