//! Encoders inside `serve`: the same pipeline, with publishers of the relay in place of outputs.

use super::control::Controls;
use super::feed::Feed;
use super::film::Film;
use super::input::Input;
use super::inputs::Inputs;
use super::keyint::Keyint;
use super::ladder::{self, Plan, Rung};
use super::pipeline::{Demand, Packets, Pipeline};
use super::queue::Queue;
use super::session::{self, Session};
use super::settings::{RateControl, Settings, Vbv};
use super::sound::{self, AudioIn, Refusal, Wanted};
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
    film: Option<Film>,
    sound: Option<sound::Opened>,
    looped: bool,
    feed: Arc<Feed>,
    renditions: Vec<(Pipeline, Arc<Queue>)>,
    controls: Controls,
    clock: Clock,
}

/// What ends a [`Job`].
pub(crate) struct Stopper(Arc<Feed>);

impl Stopper {
    /// Asks it to end. Returns at once.
    pub(crate) fn stop(&self) {
        self.0.stop();
    }
}

/// Takes a rendition's TS packets.
pub(crate) type Publish = Box<dyn FnMut(&[u8]) -> Result<()> + Send>;

impl Job {
    /// Opens inputs and encoders. May take as long as the inputs do.
    ///
    /// # Errors
    /// What is wrong with any of them.
    pub(crate) fn open(section: &config::Encode) -> Result<Job> {
        let wrong =
            |(key, text): Wrong| failure::usage(format_args!("{key}: {text}"), "see the configuration");
        let Asked { input, settings, renditions, wanted, looped, deinterlace } =
            read(section).map_err(wrong)?;
        let clock = Clock::new();
        let explain = |refusal: Refusal| wrong(refusal.in_section());
        let Inputs { film, sound: sound_input, audio } = Inputs::open(&input, &wanted, true, explain)?;
        let request = source::Request {
            film: film.clone(),
            sound: audio.block_frames().filter(|_| sound_input.is_none()),
            paced: true,
            looped,
            deinterlace,
            length: Length::default(),
        };
        let source = Source::open(&input, &request, clock)?;
        let format = source.format();
        let rungs = if renditions.is_empty() {
            vec![Rung { name: String::new(), format, settings: settings.clone() }]
        } else {
            ladder::rungs(&renditions, &settings, format)?
        };
        let sound = sound::Encoder::open(&audio)?;
        let status = |rung: &Rung| Pipeline::status(rung.format, &rung.settings);
        let controls = Controls::new(rungs.iter().map(status).collect());
        let stream = sound.as_ref().map(sound::Encoder::stream);
        let mut opened = Vec::new();
        for (index, Rung { format, settings, .. }) in rungs.iter().enumerate() {
            let pipeline = Pipeline::new(*format, settings, stream, controls.clone(), index, clock)?;
            opened.push((pipeline, Arc::new(Queue::new(source.is_live()))));
        }
        let queues = opened.iter().map(|(_, queue)| Arc::clone(queue)).collect();
        let mut feed = Feed::new(queues, sound, controls.clone());
        if !renditions.is_empty() {
            feed = feed.with_ladder(&renditions, format, settings.keyint)?;
        }
        let feed = Arc::new(feed);
        Ok(Job { source, film, sound: sound_input, looped, feed, renditions: opened, controls, clock })
    }

    /// What ends it, from another thread.
    pub(crate) fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.feed))
    }

    /// What can be asked of it while it runs: of each stream by its place in [`stream_names`].
    pub(crate) fn controls(&self) -> Controls {
        self.controls.clone()
    }

    /// Encodes until the input ends or [`Stopper::stop`] is called. `sinks`, one for each of [`stream_names`], get whole TS
    /// packets, those of a picture or of a packet of sound at a time: while one runs, nothing is coded for it.
    ///
    /// # Errors
    /// The input's, an encoder's or a sink's.
    pub(crate) fn run(self, sinks: Vec<Publish>) -> Result<()> {
        if let Some(input) = self.sound {
            input.start(&self.feed, self.source.pace(), self.looped, self.clock)?;
        }
        let rendition = |((pipeline, queue), sink)| session::Rendition { pipeline, queue, sink: whole(sink) };
        let renditions = self.renditions.into_iter().zip(sinks).map(rendition).collect();
        let ended = Session::start(self.source, self.feed, renditions)?.join().1;
        Inputs::end(self.film.as_ref());
        ended
    }
}

/// A relay's price is its sends: it gets a picture at a time, not each slice.
fn whole(mut sink: Publish) -> session::OwnedSink {
    let mut unit = Vec::new();
    Box::new(move |packets: &Packets<'_>| {
        unit.extend_from_slice(packets.bytes);
        if packets.ends_picture {
            let pushed = sink(&unit);
            unit.clear();
            pushed?;
        }
        Ok(Demand::Nothing)
    })
}

/// Nothing to say: this build has an encoder.
pub(crate) fn require() -> Result<()> {
    Ok(())
}

/// A key of a section, and what is wrong with it.
type Wrong = (&'static str, String);

/// What is wrong with a section, and with which of its keys. No file or device is opened.
pub(crate) fn check_section(section: &config::Encode) -> Result<(), Wrong> {
    let Asked { input, settings, renditions, wanted, looped, .. } = read(section)?;
    if !renditions.is_empty() {
        let refused = |error: anyhow::Error| ("renditions", error.to_string());
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
        ladder::names(&renditions).map_err(refused)?;
        // Of other inputs the rate is known when they are open.
        if let Input::Test { rate, .. } = input {
            Plan::new(&renditions, rate, settings.keyint.time(rate)).map_err(refused)?;
        }
    }
    if looped && input.path().is_none() && !matches!(wanted.audio_in, Some(AudioIn::Wav(_))) {
        return Err(("loop", "only a file can begin again, and no input is one; leave it out".to_owned()));
    }
    // What sound a file or a device has shows when it is open.
    let may_have = input.has_sound() || matches!(input, Input::Decoded(_)) || wanted.audio_in.is_some();
    let channels = may_have.then_some(source::SOUND_CHANNELS);
    let audio = wanted.settings(channels).map_err(Refusal::in_section)?;
    audio.check().map_err(Refusal::in_section)?;
    let key = if section.audio_bitrate.is_some() { "audio_bitrate" } else { "audio" };
    sound::Encoder::open(&audio).map_err(|error| (key, format!("{error:#}")))?;
    Ok(())
}

/// The streams that a section called `name` makes: one of this name, or one for each of its renditions. Of a section with
/// errors, as far as they go.
pub(crate) fn stream_names(name: &str, section: &config::Encode) -> Vec<String> {
    let renditions: Vec<ladder::Rendition> =
        section.renditions.iter().filter_map(|text| text.parse().ok()).collect();
    if renditions.is_empty() {
        return vec![name.to_owned()];
    }
    let names = ladder::names(&renditions).unwrap_or_default();
    names.iter().map(|rendition| format!("{name}-{rendition}")).collect()
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

/// A source of sound of a configuration in `folder`: a file's name is relative to it.
pub(crate) fn sound_in(folder: &Path, input: &str) -> String {
    match input.parse() {
        Ok(AudioIn::Wav(file)) => folder.join(file).to_string_lossy().into_owned(),
        _ => input.to_owned(),
    }
}

/// What a section asks for.
struct Asked {
    input: Input,
    settings: Settings,
    renditions: Vec<ladder::Rendition>,
    wanted: Wanted,
    looped: bool,
    deinterlace: Deinterlace,
}

fn read(section: &config::Encode) -> Result<Asked, Wrong> {
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
    let rate_control = named("rate_control", &rate_control)?;
    if rate_control == RateControl::Predicted && (cbr || constant_size) {
        return Err(("rate_control", "must be x264's own where filler is added; leave it out".to_owned()));
    }
    if mux_rate.is_some() && !cbr && !constant_size {
        return Err(("mux_rate", constant_rate::NOT_CONSTANT.to_owned()));
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
        common_keys: false,
    };
    let renditions = renditions.iter().map(|text| text.parse()).collect::<Result<_, _>>();
    let renditions = renditions.map_err(|text| ("renditions", text))?;
    let audio_in: Option<AudioIn> =
        audio_in.map(|text| text.parse()).transpose().map_err(|text| ("audio_in", text))?;
    if matches!(audio_in, Some(AudioIn::Fd(_))) {
        let text = "a server has no descriptors of yours; give alsa:DEVICE or FILE.wav, which may be a pipe";
        return Err(("audio_in", text.to_owned()));
    }
    if audio_format.is_some() && audio_in.is_none() {
        return Err(("audio_format", "says what audio_in is like; give that, too".to_owned()));
    }
    let wanted = Wanted {
        audio: audio.as_deref().map(|text| named("audio", text)).transpose()?,
        audio_in,
        audio_format: audio_format
            .map(|text| text.parse())
            .transpose()
            .map_err(|text| ("audio_format", text))?,
        audio_bitrate,
        audio_frame,
        audio_bits,
    };
    let deinterlace = named("deinterlace", &deinterlace)?;
    Ok(Asked { input, settings, renditions, wanted, looped, deinterlace })
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
        assert_eq!((asked.settings, asked.wanted), (Settings::default(), Wanted::default()));
        assert_eq!((asked.looped, asked.deinterlace), (false, Deinterlace::Auto));
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
