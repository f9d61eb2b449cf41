//! The sending end: takes the newest picture, has it encoded, and sends what fits.

use super::UNPOISONED;
use super::intake::{Intake, SoundCapture};
use super::latest::Latest;
use super::times::{TimeMeter, Times};
use crate::link::Link;
use crate::link::session::{Served, Service};
use bytes::Bytes;
use glassline_codec::vp8::Parallel;
use glassline_direct::wire::WireError;
use glassline_direct::{
    CodecChoice, CodecReason, Decision, LinkAccess, REPORTS, SendError, SendLoop, SendStatus, SenderCounters,
    SenderSettings, VIDEO, VideoCodec, concerns_pictures, video_options,
};
use glassline_io::clock::Clock;
use glassline_io::queue::Taken;
use glassline_media::{Picture, Size, Stage, Stamps, Time};
use glassline_studio::capture::{self, Format, Source};
use glassline_studio::parallel::Threads;
use glassline_transport::link::{Error as LinkError, Event, Fec, MessageId, Options};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How long the loop waits for a picture before it looks whether the link is still there.
const TICK: Duration = Duration::from_millis(100);

/// Of the time between two pictures, the share within which one should be encoded, from being handed over on: the encoder takes
/// less care of the rows behind where a picture's first rows took long, as when another program has the processor. A picture that
/// is late delays the next one too.
const ENCODING_SHARE: f64 = 0.6;

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
    /// The codec of the next picture.
    pub codec: VideoCodec,
    /// How often codec or size of AV1 have changed by a choice.
    pub codec_changes: u64,
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
    events: Mutex<VecDeque<Event>>,
    threads: Threads,
    parity: Fec,
    observer: Option<Observer>,
    /// The link that came last is served.
    links: Latest,
    clock: Clock,
}

struct Running {
    pictures: SendLoop,
    codec_changes: u64,
    encoding: TimeMeter,
}

/// The link as the send loop uses it, and what was put down of its events.
struct Way<'a> {
    link: &'a Link,
    events: &'a Mutex<VecDeque<Event>>,
    intake: &'a Intake,
}

impl LinkAccess for Way<'_> {
    fn poll_event(&mut self) -> Option<Event> {
        self.events.lock().expect(UNPOISONED).pop_front()
    }

    fn receive(&mut self, channel: u8) -> Result<Option<Bytes>, LinkError> {
        self.link.receive_timeout(channel, Duration::ZERO)
    }

    fn budget(&mut self, _: Time, channel: u8, horizon: Duration) -> Result<u64, LinkError> {
        self.link.budget(channel, horizon)
    }

    fn is_shared(&mut self) -> Result<bool, LinkError> {
        self.link.is_shared()
    }

    fn budget_ahead(&mut self, _: Time, after: Duration, horizon: Duration) -> Result<u64, LinkError> {
        self.link.budget_ahead(after, VIDEO, horizon)
    }

    fn silence(&mut self, _: Time) -> Result<Duration, LinkError> {
        self.link.silence()
    }

    fn send(&mut self, _: Time, channel: u8, message: Bytes) -> Result<MessageId, LinkError> {
        let sent = self.link.try_send(channel, message);
        if let Err(error) = &sent {
            tracing::debug!(%error, "the link takes no picture");
        }
        sent
    }

    fn send_twice(&mut self, _: Time, channel: u8, message: Bytes) -> Result<MessageId, LinkError> {
        self.link.try_send_twice(channel, message)
    }

    fn sound_bytes_per_second(&self) -> u64 {
        self.intake.sound_bytes_per_second()
    }

    fn note_malformed(&mut self, error: &WireError) {
        tracing::debug!(%error, "a report that is none");
    }
}

/// The threads that encode, and how much of the time for a picture is gone.
#[derive(Debug)]
struct Timed<'a> {
    threads: &'a Threads,
    clock: Clock,
    begun: Time,
    limit: Duration,
}

impl Parallel for Timed<'_> {
    fn threads(&self) -> usize {
        self.threads.threads()
    }

    fn run(&self, tasks: &mut [&mut (dyn FnMut() + Send)]) {
        self.threads.run(tasks);
    }

    fn spent(&self) -> f64 {
        self.clock.now().since(self.begun).as_secs_f64() / self.limit.as_secs_f64().max(1e-6)
    }
}

/// Says in the log what was found out about the codec.
fn tell(CodecChoice { codec, size, changed, reason }: CodecChoice) {
    let (codec, size) = (codec.name(), size.map(|size| size.to_string()));
    let rounded = |gain: f64| (gain * 100.0).round() / 100.0;
    match reason {
        CodecReason::Compared { gain_db } if changed => {
            let gain_db = gain_db.map(rounded);
            tracing::info!(
                codec,
                size,
                gain_db,
                "what was compared is better on this network: it is used now"
            );
        }
        CodecReason::Compared { gain_db } => {
            let other_gain_db = gain_db.map(rounded);
            tracing::info!(codec, size, other_gain_db, "another codec or size was compared: this one stays");
        }
        CodecReason::Receiver => {
            tracing::info!(codec, size, "the receiver takes this codec alone: it is used now");
        }
        CodecReason::TooSlow if changed => {
            tracing::info!(codec, size, "what was used takes longer than there is time: this is used now");
        }
        CodecReason::TooSlow => {
            tracing::info!(
                codec,
                size,
                "what would be better takes longer than there is time: this one stays"
            );
        }
        CodecReason::NoTime => {
            tracing::info!(codec, size, "there is no time for comparisons: this one stays for now");
        }
        CodecReason::Size => {
            tracing::info!(
                codec,
                size,
                "the source has another size, or one at which AV1 is not encoded here: this is used now"
            );
        }
    }
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
        Ok(VideoSender {
            intake: Arc::new(Intake::new(sound.as_ref().map(|sound| Arc::clone(&sound.taker)))),
            source: Mutex::new(Some((source, sound))),
            format,
            state: Mutex::new(Running {
                pictures: SendLoop::new(settings.sender),
                codec_changes: 0,
                encoding: TimeMeter::new(),
            }),
            events: Mutex::default(),
            threads: Threads::new(settings.threads)?,
            parity: settings.parity,
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
        let (states, receiver_states) = state.pictures.states();
        let SendStatus { budget, silence, quantizer, size, codec } = state.pictures.status();
        SendStatistics {
            captured,
            replaced,
            counters: state.pictures.counters(),
            states,
            receiver_states,
            budget,
            quantizer,
            size,
            codec,
            codec_changes: state.codec_changes,
            candidates: state.pictures.candidates(),
            silence,
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

    /// Encodes a picture and sends what fits. Between the steps of the loop passes the time that they take.
    fn offer(
        &self,
        link: &Link,
        state: &mut Running,
        picture: &Picture,
        stamps: Stamps,
    ) -> Result<(), SendError> {
        let begun = stamps.at(Stage::Queued).unwrap_or_else(|| self.clock.now());
        let limit = self.format.rate.time_of(1).mul_f64(ENCODING_SHARE);
        let timed = Timed { threads: &self.threads, clock: self.clock, begun, limit };
        let parallel: &dyn Parallel = &timed;
        let way = &mut Way { link, events: &self.events, intake: &self.intake };
        state.pictures.encode(self.clock.now(), picture, stamps, way, parallel)?;
        state.pictures.choose(self.clock.now(), way, parallel)?;
        if let Some(offered) = state.pictures.send(self.clock.now(), way)? {
            if let Some(observer) = &self.observer {
                observer(&offered.decision, offered.took);
            }
            state.encoding.record(offered.took);
        }
        // Sizes are compared with time that is left, and by what the encoder does with all of its care.
        state.pictures.rest(self.clock.now(), &self.threads)?;
        self.go_on_comparing(state, limit);
        Ok(())
    }

    /// Where two codecs are compared: goes on with that until the next picture comes.
    fn go_on_comparing(&self, state: &mut Running, limit: Duration) {
        loop {
            let begun = self.clock.now();
            let timed = Timed { threads: &self.threads, clock: self.clock, begun, limit };
            if state.pictures.aside(begun, &timed).is_none() {
                break;
            }
            let now = self.clock.now();
            state.pictures.aside_took(now, now.since(begun));
        }
        while let Some(choice) = state.pictures.poll_codec_choice() {
            state.codec_changes += u64::from(choice.changed);
            tell(choice);
        }
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
        self.state.lock().expect(UNPOISONED).pictures.handle_reset();
        self.start_source()?;
        loop {
            match self.intake.mailbox.take(TICK) {
                Taken::End => return Ok(Served::All),
                _ if self.links.is_over(turn, link) => return Ok(Served::ThisLink),
                Taken::Timeout => {}
                Taken::Item((picture, stamps)) => {
                    let mut state = self.state.lock().expect(UNPOISONED);
                    match self.offer(link, &mut state, &picture, stamps) {
                        Ok(()) => {}
                        Err(SendError::Link(_)) => return Ok(Served::ThisLink),
                        Err(error) => return Err(io::Error::other(error)),
                    }
                }
            }
        }
    }

    fn handle_event(&self, _: &Link, event: &Event) {
        if concerns_pictures(event) {
            self.events.lock().expect(UNPOISONED).push_back(event.clone());
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
