//! The sending end: takes the newest picture, has it encoded, and sends what fits.

use super::UNPOISONED;
use super::intake::{Intake, SoundCapture};
use super::latest::Latest;
use super::mailbox::Taken;
use super::times::{TimeMeter, Times};
use crate::link::Link;
use crate::link::session::{Served, Service};
use glassline_codec::vp8::Parallel;
use glassline_direct::{
    Conditions, Decision, REPORTS, Sender, SenderCounters, SenderSettings, VIDEO, video_options,
};
use glassline_io::clock::Clock;
use glassline_media::{Picture, Size, Stage, Stamps, Time};
use glassline_studio::capture::{self, Format, Source};
use glassline_studio::parallel::Threads;
use glassline_transport::link::{Error as LinkError, Event, Fec, Options};
use std::io;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How long the loop waits for a picture before it looks whether the link is still there.
const TICK: Duration = Duration::from_millis(100);
/// Of the time between two pictures, the share that encoding may take before it is asked for fewer candidates, and below which
/// for one more.
const BUSY: f64 = 0.7;
const IDLE: f64 = 0.4;
/// A second candidate costs a third of the first one, and a picture that is not sent all of it.
const LEAST_CANDIDATES: usize = 2;
/// The fastest that the encoder is made where time is short with the fewest candidates.
const FASTEST: u8 = 9;
/// Candidates of the first pictures.
const FIRST_CANDIDATES: usize = 2;

/// What a sender is to do.
#[derive(Clone, Debug)]
pub struct SendSettings {
    /// How pictures are chosen.
    pub sender: SenderSettings,
    /// Parity that goes along.
    pub parity: Fec,
    /// Threads that encode.
    pub threads: usize,
}

/// What was sent, and what is known of the way.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendStatistics {
    /// Pictures that the source gave.
    pub captured: u64,
    /// Of them, those that a newer one replaced before they were looked at.
    pub replaced: u64,
    /// What became of the others.
    pub counters: SenderCounters,
    /// States that are held here.
    pub states: usize,
    /// States that the receiver holds, as it said last.
    pub receiver_states: u64,
    /// The newest budget, bytes.
    pub budget: u64,
    /// The quantiser of the picture that was sent last.
    pub quantizer: Option<u8>,
    /// The size at which pictures are coded.
    pub size: Option<Size>,
    /// In how many qualities pictures are coded now.
    pub candidates: usize,
    /// How long the link has not been answered.
    pub silence: Duration,
    /// From being handed over to the choice, of the pictures since the last call.
    pub encoding: Times,
}

/// Told of each decision, with how long it took.
type Observer = Box<dyn Fn(&Decision, Duration) + Send + Sync>;

/// A service that sends the pictures of a source.
pub struct VideoSender {
    intake: Arc<Intake>,
    /// Until the first link is there.
    source: Mutex<Option<(Source, Option<SoundCapture>)>>,
    format: Format,
    state: Mutex<Running>,
    /// What happened to links since the last picture.
    events: Mutex<Vec<Event>>,
    threads: Threads,
    parity: Fec,
    most_candidates: usize,
    /// The speed that was asked for.
    slowest: u8,
    observer: Option<Observer>,
    /// The link that came last is served.
    links: Latest,
    clock: Clock,
}

struct Running {
    sender: Sender,
    candidates: usize,
    speed: u8,
    /// The share of the time between pictures that encoding took lately.
    load: f64,
    budget: u64,
    silence: Duration,
    quantizer: Option<u8>,
    size: Option<Size>,
    encoding: TimeMeter,
}

impl VideoSender {
    /// A sender of `source`, which begins to run when the first link is up, and so does `sound`. `observer` is told of every
    /// decision.
    ///
    /// # Errors
    /// The system makes no more threads.
    pub fn new(
        source: Source,
        sound: Option<SoundCapture>,
        settings: SendSettings,
        observer: Option<Observer>,
    ) -> io::Result<VideoSender> {
        let format = source.format();
        let most_candidates = settings.sender.candidates;
        // More once it has been seen that there is time.
        let candidates = most_candidates.min(FIRST_CANDIDATES);
        let speed = settings.sender.speed;
        let settings = SendSettings { sender: SenderSettings { candidates, ..settings.sender }, ..settings };
        Ok(VideoSender {
            intake: Arc::new(Intake::new(sound.as_ref().map(|sound| Arc::clone(&sound.taker)))),
            source: Mutex::new(Some((source, sound))),
            format,
            state: Mutex::new(Running {
                sender: Sender::new(settings.sender),
                candidates,
                speed,
                load: 0.5,
                budget: 0,
                silence: Duration::ZERO,
                quantizer: None,
                size: None,
                encoding: TimeMeter::new(),
            }),
            events: Mutex::new(Vec::new()),
            threads: Threads::new(settings.threads)?,
            parity: settings.parity,
            most_candidates,
            slowest: speed,
            observer,
            links: Latest::default(),
            clock: Clock::new(),
        })
    }

    /// Takes no more pictures: the session may end.
    pub fn stop(&self) {
        self.intake.stop();
    }

    /// How the source ended, once, if it has.
    pub fn take_end(&self) -> Option<Result<(), capture::Error>> {
        self.intake.mailbox.take_end()
    }

    /// Figures now.
    pub fn statistics(&self) -> SendStatistics {
        let (captured, replaced) = self.intake.mailbox.counts();
        let mut state = self.state.lock().expect(UNPOISONED);
        let (states, receiver_states) = state.sender.states();
        SendStatistics {
            captured,
            replaced,
            counters: state.sender.counters(),
            states,
            receiver_states,
            budget: state.budget,
            quantizer: state.quantizer,
            size: state.size,
            candidates: state.candidates,
            silence: state.silence,
            encoding: state.encoding.take(),
        }
    }

    fn start_source(&self) -> io::Result<()> {
        let Some((source, sound)) = self.source.lock().expect(UNPOISONED).take() else { return Ok(()) };
        if let Some(SoundCapture { input: Some(input), looped, .. }) = sound {
            input.start(&self.intake, source.pace(), looped, self.clock).map_err(io::Error::other)?;
        }
        let intake = Arc::clone(&self.intake);
        thread::Builder::new().name("source".into()).spawn(move || source.run(&*intake)).map(drop)
    }

    /// What pictures may take now: sound will want its part.
    fn budget(&self, link: &Link, state: &Running) -> Result<u64, LinkError> {
        let horizon = state.sender.horizon();
        Ok(link.budget(VIDEO, horizon)?.saturating_sub(self.intake.sound_bytes_in(horizon)))
    }

    /// Takes what the receiver has said, and what the link has told of messages.
    fn catch_up(&self, link: &Link, state: &mut Running) -> Result<(), LinkError> {
        let now = self.clock.now();
        let events = std::mem::take(&mut *self.events.lock().expect(UNPOISONED));
        for event in events {
            match event {
                Event::Finished { message, outcome, .. } => {
                    state.sender.handle_outcome(now, message, outcome);
                }
                Event::Connected { again: true } => state.sender.handle_reset(),
                _ => {}
            }
        }
        while let Some(report) = link.receive_timeout(REPORTS, Duration::ZERO)? {
            if let Err(error) = state.sender.handle_report(now, &report) {
                tracing::debug!(%error, "a report that is none");
            }
        }
        Ok(())
    }

    /// Encodes a picture and sends what fits.
    fn offer(
        &self,
        link: &Link,
        state: &mut Running,
        picture: &Picture,
        stamps: Stamps,
    ) -> Result<(), Failed> {
        let begun = self.clock.now();
        self.catch_up(link, state)?;
        let silence = link.silence()?;
        let budget = self.budget(link, state)?;
        let parallel: &dyn Parallel = &self.threads;
        state.sender.encode(begun, picture, Conditions { budget, silence }, parallel)?;
        let encoded = self.clock.now();
        self.catch_up(link, state)?;
        let stamps = stamps.with(Stage::EncoderIn, begun).with(Stage::Encoded, encoded);
        state.sender.stamp(stamps.rebased(Time::ZERO));
        let queued = stamps.at(Stage::Queued).unwrap_or(begun);
        let budget = self.budget(link, state)?;
        (state.budget, state.silence) = (budget, silence);
        let may_search = state.sender.may_search(encoded.since(queued));
        let choice = state.sender.choose(budget, may_search, parallel)?;
        let took = self.clock.now().since(queued);
        if let Some(choice) = choice {
            if let Some(message) = choice.message {
                match link.try_send(VIDEO, message) {
                    Ok(id) => state.sender.sent(id),
                    Err(LinkError::Closed) => return Err(Failed::Link),
                    Err(error) => {
                        tracing::debug!(%error, "the link takes no picture");
                        state.sender.not_sent(self.clock.now());
                    }
                }
                let chosen = choice.decision.chosen.and_then(|chosen| choice.decision.candidates.get(chosen));
                state.size = Some(choice.decision.size);
                state.quantizer = chosen.map(|candidate| candidate.quantizer);
            }
            if let Some(observer) = &self.observer {
                observer(&choice.decision, took);
            }
        }
        state.encoding.record(took);
        let spent = self.clock.now().since(begun);
        if state.sender.may_compare(took) {
            state.sender.compare_sizes(self.clock.now(), parallel)?;
        }
        self.adapt(state, spent.as_secs_f64() / self.format.rate.time_of(1).as_secs_f64());
        Ok(())
    }

    /// Fewer candidates where encoding takes too much of the time between two pictures, then a faster encoder; back where there is
    /// room.
    fn adapt(&self, state: &mut Running, share: f64) {
        state.load += 0.1 * (share - state.load);
        let least = LEAST_CANDIDATES.min(self.most_candidates);
        if state.load > BUSY && state.candidates > least {
            state.candidates -= 1;
        } else if state.load > BUSY && state.speed < FASTEST {
            state.speed += 1;
        } else if state.load < IDLE && state.speed > self.slowest {
            state.speed -= 1;
        } else if state.load < IDLE && state.candidates < self.most_candidates {
            state.candidates += 1;
        } else {
            return;
        }
        state.load = (BUSY + IDLE) / 2.0;
        state.sender.set_candidates(state.candidates);
        state.sender.set_speed(state.speed);
    }
}

/// Why a picture could not be offered.
enum Failed {
    Link,
    Encoder(io::Error),
}

impl From<LinkError> for Failed {
    fn from(_: LinkError) -> Failed {
        Failed::Link
    }
}

impl From<glassline_codec::vp8::EncodeError> for Failed {
    fn from(error: glassline_codec::vp8::EncodeError) -> Failed {
        Failed::Encoder(io::Error::other(error))
    }
}

impl Service for VideoSender {
    fn sends(&self) -> Vec<(u8, Options)> {
        vec![(VIDEO, video_options(self.parity))]
    }

    fn takes(&self) -> Vec<u8> {
        vec![REPORTS]
    }

    fn serve(&self, link: &Link) -> io::Result<Served> {
        let turn = self.links.begin();
        if let Err(served) = self.links.wait_connected(turn, link, || self.intake.mailbox.has_ended()) {
            return Ok(served);
        }
        self.events.lock().expect(UNPOISONED).clear();
        self.state.lock().expect(UNPOISONED).sender.handle_reset();
        self.start_source()?;
        loop {
            match self.intake.mailbox.take(TICK) {
                Taken::End => return Ok(Served::All),
                _ if self.links.is_over(turn, link) => return Ok(Served::ThisLink),
                Taken::Nothing => {}
                Taken::Picture(picture, stamps) => {
                    let mut state = self.state.lock().expect(UNPOISONED);
                    match self.offer(link, &mut state, &picture, stamps) {
                        Ok(()) => {}
                        Err(Failed::Link) => return Ok(Served::ThisLink),
                        Err(Failed::Encoder(error)) => return Err(error),
                    }
                }
            }
        }
    }

    fn handle_event(&self, _: &Link, event: &Event) {
        let is_ours =
            matches!(event, Event::Finished { channel: VIDEO, .. } | Event::Connected { again: true });
        if is_ours {
            self.events.lock().expect(UNPOISONED).push(event.clone());
        }
    }

    fn is_input(&self) -> bool {
        true
    }
}

impl std::fmt::Debug for VideoSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VideoSender").field("format", &self.format).finish()
    }
}
