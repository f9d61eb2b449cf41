//! A stream that is encoded: one source, its sound, and for each rendition a queue, a pipeline and its output.
//!
//! ```text
//!                    ┌─► queue ─► pipeline (x264, muxer) ─► output      each rendition on a thread of its own
//! source ─► Feed ────┼─► queue ─► …
//! (thread)  └ sound  └─► queue ─► …
//! ```

use super::control::Controls;
use super::feed::{Feed, Sound};
use super::ladder::{self, Rung};
use super::pipeline::{Pipeline, RenditionIndex};
use super::queue::Queue;
use super::request::Request;
use super::settings::Settings;
use super::sound::{self, Audio};
use super::stats::{Progress, Stats};
use super::{Error, Result};
use crate::capture::{
    self, Consumer as _, FfmpegInput, Format, Input, Request as SourceRequest, SoundInput, Source,
    TONE_CHANNELS,
};
use crate::output::{Liveness, Output};
use glassline_io::clock::Clock;
use glassline_io::containment::{Border, contain};
use glassline_io::process::defer_thread;
use glassline_media::{Ticks, Time};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// An encoder with its inputs open, ready to run.
pub struct Encoding {
    source: Source,
    file: Option<FfmpegInput>,
    sound: Option<SoundInput>,
    audio: Audio,
    looped: bool,
    feed: Arc<Feed>,
    renditions: Vec<Rendition>,
    controls: Controls,
    clock: Clock,
}

/// One version of the stream, before it runs.
struct Rendition {
    rung: Rung,
    pipeline: Pipeline,
    queue: Arc<Queue>,
}

/// What ends an [`Encoding`] from another thread. Cheap to clone.
#[derive(Clone)]
pub struct Stopper(Arc<Feed>);

impl Stopper {
    /// Asks it to end. Returns at once.
    pub fn stop(&self) {
        self.0.stop();
    }

    /// Whether that was asked for.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }
}

/// How an [`Encoding`] has ended.
pub struct Ended {
    /// Where the milliseconds went, of each rendition.
    pub stats: Vec<Stats>,
    /// The first failure of input, encoder or output.
    pub result: Result<()>,
}

/// What is open before anything is coded: what FFmpeg knows of a file, sound that does not come with the pictures, and how
/// sound is coded.
struct Inputs {
    file: Option<FfmpegInput>,
    sound: Option<SoundInput>,
    audio: sound::Settings,
}

impl Inputs {
    fn open(request: &Request, clock: Clock) -> Result<Inputs> {
        let wanted = &request.sound;
        let file = match &request.input {
            Input::Decoded(film) => Some(FfmpegInput::open(film)?),
            _ => None,
        };
        let sound = open_sound(request, clock)?;
        let Some(asked) = file.as_ref().filter(|_| sound.is_none() && wanted.any()) else {
            let own = request.input.has_sound().then_some(TONE_CHANNELS);
            let audio = wanted.settings(sound.as_ref().map(SoundInput::channels).or(own))?;
            return Ok(Inputs { file, sound, audio });
        };
        let Some(channels) = asked.channels() else {
            let name = asked.name();
            // A user that names a codec expects sound.
            if wanted.codec.is_some() {
                tracing::warn!("{name} has no sound that ffprobe finds: the stream has none");
            } else {
                tracing::info!("{name} has no sound");
            }
            let audio = sound::Settings { codec: Audio::None, ..sound::Settings::default() };
            return Ok(Inputs { file, sound, audio });
        };
        let channels = wanted.coded_channels(channels);
        let audio = wanted.settings(Some(channels))?;
        audio.check()?;
        let sound = Some(SoundInput::ffmpeg(asked, channels)?);
        Ok(Inputs { file, sound, audio })
    }
}

/// The encoders of sound: one for all renditions that have it coded alike.
struct Sounds(Vec<Sound>);

impl Sounds {
    /// Of renditions with sound that is coded so, in their order.
    fn open(wanted: Vec<sound::Settings>) -> Result<Sounds> {
        let mut kinds: Vec<(sound::Settings, Vec<usize>)> = Vec::new();
        for (index, settings) in wanted.into_iter().enumerate() {
            match kinds.iter_mut().find(|(known, _)| *known == settings) {
                Some((_, renditions)) => renditions.push(index),
                None => kinds.push((settings, vec![index])),
            }
        }
        let open = |(settings, renditions): (sound::Settings, _)| {
            Ok(sound::Encoder::open(&settings)?.map(|encoder| Sound { encoder, renditions }))
        };
        let opened: Result<Vec<Option<Sound>>> = kinds.into_iter().map(open).collect();
        Ok(Sounds(opened?.into_iter().flatten().collect()))
    }

    /// What the container of this rendition has to know of it.
    fn stream(&self, index: usize) -> Option<sound::Stream> {
        let own = self.0.iter().find(|sound| sound.renditions.contains(&index))?;
        Some(own.encoder.stream())
    }
}

/// The sound input that was named, or that comes beside the pictures, opened, unless no sound is wanted.
fn open_sound(request: &Request, clock: Clock) -> Result<Option<SoundInput>> {
    let wanted = &request.sound;
    if !wanted.any() {
        return Ok(None);
    }
    let opened = SoundInput::named_or_described(wanted.input.as_ref(), wanted.raw, &request.input, clock)?;
    if opened.as_ref().is_some_and(SoundInput::is_live) && !request.is_timed() {
        return Err(capture::Error::LiveSoundUntimed.into());
    }
    Ok(opened)
}

impl Encoding {
    /// Opens inputs and encoders. May take as long as the inputs do.
    ///
    /// # Errors
    /// What is wrong with any of them.
    pub fn open(request: &Request, clock: Clock) -> Result<Encoding> {
        if request.looped && !request.can_loop() {
            return Err(capture::Error::NotAFile.into());
        }
        let Inputs { file, sound: sound_input, audio } = Inputs::open(request, clock)?;
        let asked = SourceRequest {
            file: file.clone(),
            sound: audio.block_frames().filter(|_| sound_input.is_none()),
            paced: request.paced,
            looped: request.looped,
            deinterlace: request.deinterlace,
            length: request.length,
            ..SourceRequest::default()
        };
        let source = Source::open(&request.input, &asked, clock)?;
        Encoding::assemble(source, Inputs { file, sound: sound_input, audio }, request, clock)
    }

    /// An encoder of a source that is open. Its sound, if it has some, comes with its pictures in `channels`.
    /// [`Request::input`] does not matter, nor does what says how inputs are opened.
    ///
    /// # Errors
    /// As those of [`Encoding::open`].
    pub fn of_source(
        source: Source,
        channels: Option<u8>,
        request: &Request,
        clock: Clock,
    ) -> Result<Encoding> {
        let audio = request.sound.settings(channels)?;
        Encoding::assemble(source, Inputs { file: None, sound: None, audio }, request, clock)
    }

    fn assemble(source: Source, inputs: Inputs, request: &Request, clock: Clock) -> Result<Encoding> {
        let Inputs { file, sound: sound_input, audio } = inputs;
        let format = source.format();
        let is_ladder = !request.renditions.is_empty();
        let rungs = if is_ladder {
            ladder::rungs(&request.renditions, &request.settings, format)?
        } else {
            vec![Rung { name: String::new(), format, settings: request.settings.clone() }]
        };
        let own = request.renditions.iter().map(|rendition| rendition.own.sound(&audio));
        let sounds = Sounds::open(if is_ladder { own.collect() } else { vec![audio] })?;
        let status = |rung: &Rung| Pipeline::status(rung.format, &rung.settings);
        let controls = Controls::new(rungs.iter().map(status).collect());
        // Where decoding begins before the first picture is shown: two pictures at most (x264's `i_bframe_delay`).
        let delayed = rungs.iter().filter(|rung| rung.settings.is_delayed() && !source.is_live());
        let earliest = delayed.map(|rung| rung.format.rate.time_of(2)).max().unwrap_or_default();
        let shift = Ticks::from_time(Time::ZERO + earliest);
        let defers = rungs.iter().any(|rung| !rung.settings.is_delayed());
        let mut renditions = Vec::new();
        for (index, rung) in rungs.into_iter().enumerate() {
            let place = RenditionIndex { index, common_keys: is_ladder, shift, defers };
            let stream = sounds.stream(index);
            let pipeline =
                Pipeline::new(rung.format, &rung.settings, stream, controls.clone(), place, clock)?;
            let has_hurry = !rung.settings.is_delayed();
            let queue = if has_hurry { Queue::new } else { Queue::unhurried };
            renditions.push(Rendition { rung, pipeline, queue: Arc::new(queue(source.is_live())) });
        }
        let (unhurried, hurried): (Vec<_>, Vec<_>) =
            renditions.iter_mut().partition(|rendition| rendition.rung.settings.is_delayed());
        let hurried: Vec<Arc<Queue>> = hurried.iter().map(|rendition| Arc::clone(&rendition.queue)).collect();
        unhurried.into_iter().for_each(|rendition| rendition.pipeline.let_first(hurried.clone()));
        let queues = renditions.iter().map(|rendition| Arc::clone(&rendition.queue)).collect();
        let mut feed = Feed::new(queues, sounds.0, controls.clone(), format);
        if is_ladder {
            feed = feed.with_ladder(&request.renditions, format, request.settings.keyint)?;
        }
        Ok(Encoding {
            source,
            file,
            sound: sound_input,
            audio: audio.codec,
            looped: request.looped,
            feed: Arc::new(feed),
            renditions,
            controls,
            clock,
        })
    }

    /// How its sound is coded.
    #[must_use]
    pub fn audio(&self) -> Audio {
        self.audio
    }

    /// Of each rendition its name (none where the source is coded as it is), what its pictures are like, and how they are
    /// coded.
    pub fn renditions(&self) -> impl ExactSizeIterator<Item = (&str, Format, &Settings)> {
        self.renditions.iter().map(|Rendition { rung, .. }| (rung.name.as_str(), rung.format, &rung.settings))
    }

    /// What ends it, from another thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.feed))
    }

    /// What can be asked of it while it runs.
    #[must_use]
    pub fn controls(&self) -> Controls {
        self.controls.clone()
    }

    /// Whether its outputs go on without a slow one of them, and whether it has been told to end.
    #[must_use]
    pub fn liveness(&self) -> Liveness {
        Liveness { live: self.source.is_live(), stopped: self.feed.stopped() }
    }

    /// Has `report` called each second with how the first rendition does, from its thread.
    pub fn report_progress(&mut self, report: impl FnMut(&Progress) + Send + 'static) {
        if let Some(first) = self.renditions.first_mut() {
            first.pipeline.stats.report_progress(Box::new(report));
        }
    }

    /// Encodes until the input ends, an output fails or [`Stopper::stop`] is called. `outputs`, one for each rendition, get
    /// its packets as soon as they are made: while one takes them, nothing is coded for it. All are ended well, whether
    /// another failed or not.
    pub fn run(self, outputs: Vec<Box<dyn Output>>) -> Ended {
        let Encoding { source, file, sound, looped, feed, renditions, controls, clock, .. } = self;
        let started = match sound {
            Some(input) => input.start(&feed, source.pace(), looped, clock).map_err(Error::from),
            None => Ok(()),
        };
        let started = started.and_then(|()| {
            let renditions = renditions.into_iter().zip(outputs);
            Running::start(source, feed, renditions.map(|(one, output)| (one.pipeline, one.queue, output)))
        });
        let ended = match started {
            Ok(running) => running.join(),
            Err(error) => Ended { stats: Vec::new(), result: Err(error) },
        };
        drop(controls);
        if let Some(file) = file {
            file.children().end();
        }
        ended
    }
}

/// A pipeline that has ended, and what its output needs to end.
type Over = (Pipeline, Arc<Queue>, Box<dyn Output>, Result<()>);

/// All renditions of one source, running.
pub(super) struct Running {
    feed: Arc<Feed>,
    renditions: Vec<JoinHandle<Over>>,
}

impl Running {
    /// Starts renditions and source. `feed` feeds the renditions' queues.
    pub(super) fn start(
        source: Source,
        feed: Arc<Feed>,
        renditions: impl Iterator<Item = (Pipeline, Arc<Queue>, Box<dyn Output>)>,
    ) -> Result<Running> {
        let mut running = Running { feed: Arc::clone(&feed), renditions: Vec::new() };
        for (pipeline, queue, output) in renditions {
            if let Err(error) = running.spawn(pipeline, queue, output) {
                feed.stop();
                return Err(Error::Thread { what: "encoder", error });
            }
        }
        // Not joined: it may hang in a read of standard input, which nothing but the end of the process ends.
        thread::Builder::new()
            .name("source".to_owned())
            .spawn(move || source.run(&*feed))
            .map_err(|error| Error::Thread { what: "source", error })?;
        Ok(running)
    }

    fn spawn(
        &mut self,
        mut pipeline: Pipeline,
        queue: Arc<Queue>,
        mut output: Box<dyn Output>,
    ) -> std::io::Result<()> {
        let feed = Arc::clone(&self.feed);
        let run = move || {
            if pipeline.defers() {
                defer_thread();
            }
            let ended = contain(Border::Encoder, || pipeline.run(&queue, &mut *output));
            let ended = ended.unwrap_or_else(|panicked| Err(panicked.into()));
            // One that fails ends source and other renditions.
            if ended.is_err() {
                feed.stop();
            }
            (pipeline, queue, output, ended)
        };
        self.renditions.push(thread::Builder::new().name("encode".to_owned()).spawn(run)?);
        Ok(())
    }

    /// Waits until every rendition has ended, and ends their outputs.
    pub(super) fn join(self) -> Ended {
        let over: Vec<Over> = self
            .renditions
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect();
        let mut ended = Ended { stats: Vec::new(), result: Ok(()) };
        let mut outputs = Vec::new();
        for (mut pipeline, queue, output, result) in over {
            pipeline.stats.dropped = queue.dropped();
            ended.stats.push(pipeline.stats);
            ended.result = ended.result.and(result);
            outputs.push(output);
        }
        for mut output in outputs {
            ended.result = ended.result.and(output.finish().map_err(Error::from));
        }
        ended
    }
}

#[cfg(test)]
#[cfg(feature = "x264")]
#[path = "encoding_tests.rs"]
mod tests;
