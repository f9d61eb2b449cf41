//! The sending end of pictures that are coded by another encoder than ours: a camera's, a file's, or x264 steered by the link.
//!
//! ```text
//! CodedInput ─ thread ─► queue of units ──────────────────────────────┐   (a camera's encoder is steered: `camera`)
//! Source ─ thread ─► Mailbox (the newest) ─► x264 at the link's rate ─┴─► CodedVideoSender::serve ─► link, channel VIDEO
//! ```

use super::UNPOISONED;
use super::camera::{Camera, CameraSettings};
use super::intake::{Intake, SoundCapture};
use super::latest::{Latest, Turn};
use crate::link::Link;
use crate::link::session::{Served, Service};
use glassline_codec::h264::x264;
use glassline_direct::coded::{CodedCounters, CodedSender, KEY_REQUEST_TIMEOUT, LinkRate, Unit};
use glassline_direct::{REPORTS, VIDEO, coded_options, concerns_pictures, pictures_share};
use glassline_io::clock::Clock;
use glassline_io::queue::{DropPolicy, Queue, Taken};
use glassline_media::quantity::Bitrate;
use glassline_media::{Picture, Stage, Stamps, Ticks, Time};
use glassline_studio::capture::{self, CodedInput, CodedItem};
use glassline_studio::capture::{Format, Source};
use glassline_transport::link::{Error as LinkError, Event, Options};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How long the loop waits for a picture before it looks whether the link is still there.
const TICK: Duration = Duration::from_millis(100);
/// Units that wait for the link's thread at most.
const WAITING_MAX: usize = 32;
/// The budget is what leaves within so much time.
const HORIZON: Duration = Duration::from_millis(40);

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodedSendStatistics {
    /// What became of the units.
    pub counters: CodedCounters,
    /// The newest budget, bytes.
    pub budget: u64,
    /// The rate that our own encoder was set to, or a camera's by its driver, bits a second.
    pub bitrate: Option<u64>,
    /// Pictures that were not encoded, since the link took nothing.
    pub not_encoded: u64,
    /// How long the link has not been answered.
    pub silence: Duration,
}

/// A service that sends access units.
pub struct CodedVideoSender {
    feed: Feed,
    units: Arc<Units>,
    intake: Arc<Intake>,
    state: Mutex<Running>,
    events: Mutex<Vec<Event>>,
    links: Latest,
    /// The input has ended before the first link was up.
    is_refused: AtomicBool,
    /// The input is refused, or has failed.
    has_failed: Arc<AtomicBool>,
    /// The session goes on where the input is refused.
    goes_on: AtomicBool,
    clock: Clock,
}

/// What is taken when the first link is there, with its sound.
type NotBegun<T> = Mutex<Option<(T, Option<SoundCapture>)>>;

/// Where units come from, until they come.
enum Feed {
    Coded(NotBegun<CodedInput>),
    Encoded(Box<NotBegun<Source>>),
}

struct Running {
    sender: CodedSender,
    encoder: Option<Steered>,
    camera: Option<Camera>,
    figures: CodedSendStatistics,
}

/// Units that were captured and wait for the link's thread.
type Units = Queue<CodedItem, WholeGroups, capture::Error>;

/// Drops units where [`WAITING_MAX`] wait, so that what is left can be decoded. The source does not wait: a full queue means that
/// the link's thread is about a second late. Then everything before the newest waiting key frame is dropped; without one,
/// everything up to the next key frame. Units after a gap would be decoded wrongly.
#[derive(Debug, Default)]
struct WholeGroups {
    /// Some were left out.
    waits_for_key: bool,
    /// When the first of them was captured.
    waits_since: Option<Time>,
}

impl DropPolicy<CodedItem> for WholeGroups {
    fn admit(&mut self, waiting: &mut VecDeque<CodedItem>, item: CodedItem) -> Option<CodedItem> {
        if waiting.len() >= WAITING_MAX {
            match waiting.iter().rposition(|item| item.piece.key && !item.piece.continues) {
                Some(newest @ 1..) => drop(waiting.drain(..newest)),
                _ => {
                    waiting.clear();
                    self.waits_for_key = true;
                    self.waits_since = Some(item.captured);
                }
            }
        }
        // A stream may have no key frames.
        let is_late = self.waits_since.is_some_and(|since| item.captured.since(since) >= KEY_REQUEST_TIMEOUT);
        let goes_on = item.piece.key || is_late && !item.piece.continues;
        self.waits_for_key &= !goes_on;
        if !self.waits_for_key {
            waiting.push_back(item);
        }
        None
    }
}

/// Notes that an input has failed, and says so where the session goes on without it, perhaps for long: otherwise the program ends
/// with it, and says why.
fn note_failure(error: &capture::Error, has_failed: &AtomicBool, goes_on: bool) {
    has_failed.store(true, Ordering::Relaxed);
    if goes_on {
        tracing::error!("no more pictures are sent: {error}");
    }
}

impl CodedVideoSender {
    /// A sender of a coded input, which begins to run when the first link is up, and so does `sound`. `camera` says how a
    /// camera's encoder is steered, where the input is one. `epoch` names this run.
    pub fn new(
        mut input: CodedInput,
        sound: Option<SoundCapture>,
        camera: &CameraSettings,
        epoch: u32,
    ) -> CodedVideoSender {
        let controls = input.take_controls();
        let camera = controls.map(|controls| Camera::new(controls, camera, input.rate()));
        let taker = sound.as_ref().map(|sound| Arc::clone(&sound.taker));
        CodedVideoSender {
            feed: Feed::Coded(Mutex::new(Some((input, sound)))),
            units: Arc::default(),
            intake: Arc::new(Intake::new(taker)),
            state: Mutex::new(Running {
                sender: CodedSender::new(epoch, None),
                encoder: None,
                camera,
                figures: CodedSendStatistics::default(),
            }),
            events: Mutex::default(),
            links: Latest::default(),
            is_refused: AtomicBool::new(false),
            has_failed: Arc::default(),
            goes_on: AtomicBool::new(false),
            clock: Clock::new(),
        }
    }

    /// A sender of what x264 makes of a source's pictures, at a rate that the link takes, and no more than `bitrate_max`.
    ///
    /// # Errors
    /// x264 does not take such pictures.
    pub fn encoding(
        source: Source,
        sound: Option<SoundCapture>,
        settings: &EncodingSettings,
        epoch: u32,
    ) -> Result<CodedVideoSender, glassline_codec::CodecError> {
        let encoder = Steered::new(source.format(), settings)?;
        let taker = sound.as_ref().map(|sound| Arc::clone(&sound.taker));
        let sender = CodedSender::new(epoch, Some(source.format().rate));
        Ok(CodedVideoSender {
            feed: Feed::Encoded(Box::new(Mutex::new(Some((source, sound))))),
            units: Arc::default(),
            intake: Arc::new(Intake::new(taker)),
            state: Mutex::new(Running {
                sender,
                encoder: Some(encoder),
                camera: None,
                figures: CodedSendStatistics::default(),
            }),
            events: Mutex::default(),
            links: Latest::default(),
            is_refused: AtomicBool::new(false),
            has_failed: Arc::default(),
            goes_on: AtomicBool::new(false),
            clock: Clock::new(),
        })
    }

    /// The session receives, too: where the input is refused or fails, the log says so, and the session goes on.
    pub fn go_on_when_refused(&self) {
        self.goes_on.store(true, Ordering::Relaxed);
    }

    /// Takes no more pictures: the session may end.
    pub fn stop(&self) {
        self.units.stop();
        self.intake.stop();
    }

    /// How the input ended, once, if it has.
    pub fn take_end(&self) -> Option<Result<(), capture::Error>> {
        self.units.take_end().or_else(|| self.intake.mailbox.take_end())
    }

    /// Figures now.
    pub fn statistics(&self) -> CodedSendStatistics {
        let state = self.state.lock().expect(UNPOISONED);
        CodedSendStatistics { counters: state.sender.counters(), ..state.figures }
    }

    /// Whether it is known before the first link is up that no picture will come. Then the input has ended by that.
    fn is_refused(&self) -> bool {
        let Feed::Coded(input) = &self.feed else { return false };
        let refusal = input.lock().expect(UNPOISONED).as_ref().and_then(|(input, _)| input.refusal());
        let is_refused = refusal.is_some();
        if let Some(error) = refusal
            && !self.is_refused.swap(true, Ordering::Relaxed)
        {
            note_failure(&error, &self.has_failed, self.goes_on.load(Ordering::Relaxed));
            self.units.end(Err(error));
        }
        is_refused
    }

    /// The input has ended. Where it has failed and the session goes on without it, that takes as long as the link.
    fn rest(&self, turn: Turn, link: &Link) -> Served {
        let rests = self.goes_on.load(Ordering::Relaxed) && self.has_failed.load(Ordering::Relaxed);
        if !rests {
            return Served::All;
        }
        while !self.links.is_over(turn, link) {
            thread::sleep(TICK);
        }
        Served::ThisLink
    }

    fn start(&self) -> io::Result<()> {
        match &self.feed {
            Feed::Coded(input) => {
                let Some((input, sound)) = input.lock().expect(UNPOISONED).take() else { return Ok(()) };
                self.start_sound(sound, capture::Pace::Live)?;
                // Before the device starts: some drivers take no rate later.
                if let Some(camera) = &mut self.state.lock().expect(UNPOISONED).camera {
                    camera.steer(self.clock.now(), false);
                }
                let (units, intake) = (Arc::clone(&self.units), Arc::clone(&self.intake));
                let (has_failed, goes_on) =
                    (Arc::clone(&self.has_failed), self.goes_on.load(Ordering::Relaxed));
                let run = move || {
                    let ended = input.run(&|item| {
                        // Sound of a file begins with the first picture.
                        intake.mailbox.begin(item.captured);
                        units.push(item)
                    });
                    if let Err(error) = &ended {
                        note_failure(error, &has_failed, goes_on);
                    }
                    units.end(ended);
                };
                thread::Builder::new().name("source".into()).spawn(run).map(drop)
            }
            Feed::Encoded(source) => {
                let Some((source, sound)) = source.lock().expect(UNPOISONED).take() else { return Ok(()) };
                self.start_sound(sound, source.pace())?;
                let intake = Arc::clone(&self.intake);
                thread::Builder::new().name("source".into()).spawn(move || source.run(&*intake)).map(drop)
            }
        }
    }

    fn start_sound(&self, sound: Option<SoundCapture>, pace: capture::Pace) -> io::Result<()> {
        match sound {
            Some(SoundCapture { input: Some(input), looped, .. }) => {
                input.start(&self.intake, pace, looped, self.clock).map_err(io::Error::other)
            }
            _ => Ok(()),
        }
    }

    /// Takes what the receiver has said, and what the link has told of messages.
    fn catch_up(&self, link: &Link, state: &mut Running) -> Result<(), LinkError> {
        let events = std::mem::take(&mut *self.events.lock().expect(UNPOISONED));
        for event in events {
            match event {
                Event::Finished { message, outcome, .. } => state.sender.handle_outcome(message, outcome),
                Event::Connected { again: true } => state.sender.handle_reset(),
                _ => {}
            }
        }
        while let Some(report) = link.receive_timeout(REPORTS, Duration::ZERO)? {
            if let Err(error) = state.sender.handle_report(&report) {
                tracing::debug!(%error, "a report that is none");
            }
        }
        let budget = link.budget(VIDEO, HORIZON)?;
        state.figures.budget = pictures_share(budget, self.intake.sound_bytes_per_second(), HORIZON);
        state.figures.silence = link.silence()?;
        Ok(())
    }

    /// Sends a unit, if it makes sense there.
    fn send(&self, link: &Link, state: &mut Running, unit: &Unit) -> Result<(), LinkError> {
        // It needs the one that waits, and would replace it.
        if !unit.key && !state.sender.wants_key() && link.waiting(VIDEO)? > 0 {
            state.sender.leave_out(unit);
            return Ok(());
        }
        let resumed = state.sender.counters().resumed;
        let Some(message) = state.sender.message(unit, state.figures.budget) else { return Ok(()) };
        if state.sender.counters().resumed > resumed {
            tracing::warn!(
                "no key frame and no recovery point has come for {} s since pictures were lost: it goes on without, and \
                 pictures are damaged until the encoder has refreshed them",
                KEY_REQUEST_TIMEOUT.as_secs()
            );
        }
        match link.try_send(VIDEO, message) {
            Ok(id) => state.sender.sent(id),
            Err(LinkError::Closed) => return Err(LinkError::Closed),
            Err(error) => {
                tracing::debug!(%error, "the link takes no unit");
                state.sender.not_sent();
            }
        }
        Ok(())
    }

    fn offer(&self, link: &Link, item: CodedItem) -> Result<(), LinkError> {
        let mut state = self.state.lock().expect(UNPOISONED);
        self.catch_up(link, &mut state)?;
        if let Some(rate) = item.rate {
            state.sender.set_rate(rate);
        }
        if item.follows_gap {
            state.sender.handle_gap();
        }
        let passed = Stamps::captured_at(item.captured).with(Stage::Queued, self.clock.now());
        let passed = passed.rebased(Time::ZERO);
        let piece = item.piece;
        let unit = Unit {
            data: piece.data,
            key: piece.key,
            reference: piece.reference,
            continues: piece.continues,
            captured: item.captured_utc,
            passed,
        };
        let sent = self.send(link, &mut state, &unit);
        let Running { sender, camera, figures, .. } = &mut *state;
        // After the unit is sent, as a driver takes its time.
        if let Some(camera) = camera {
            camera.handle_unit(self.clock.now(), unit.data.len() as u64, figures.budget, HORIZON);
            camera.steer(self.clock.now(), sender.wants_key());
            figures.bitrate = camera.set_bps();
        }
        sent
    }

    /// Asks a camera for a key frame where units are dropped before they come here, until one is.
    fn ask_for_key(&self) {
        if self.units.look(|_, policy| policy.waits_for_key)
            && let Some(camera) = &mut self.state.lock().expect(UNPOISONED).camera
        {
            camera.steer(self.clock.now(), true);
        }
    }

    fn encode(&self, link: &Link, picture: &Picture, stamps: Stamps) -> Result<(), EncodeFailed> {
        let mut state = self.state.lock().expect(UNPOISONED);
        self.catch_up(link, &mut state)?;
        let Running { sender, encoder, figures, .. } = &mut *state;
        let Some(encoder) = encoder else { return Ok(()) };
        if !encoder.steer(figures.budget, figures.silence) {
            figures.not_encoded += 1;
            return Ok(());
        }
        figures.bitrate = Some(encoder.encoder.bitrate_bps());
        let unit = encoder.encode(picture, sender.wants_key())?;
        let passed = stamps.with(Stage::Encoded, self.clock.now()).rebased(Time::ZERO);
        let captured = picture.captured_utc.unwrap_or_else(|| self.clock.utc_at(picture.captured));
        let unit = Unit { captured, passed, ..unit };
        Ok(self.send(link, &mut state, &unit)?)
    }
}

/// How our own encoder is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodingSettings {
    /// No more than so many bits a second.
    pub bitrate_max: Option<Bitrate>,
    /// x264's preset; `superfast` where not given.
    pub preset: Option<String>,
    /// Threads; 0 lets x264 choose.
    pub threads: u32,
}

/// x264 at a rate that follows the link.
struct Steered {
    encoder: x264::Encoder,
    format: Format,
    bitrate_max: u64,
    link: LinkRate,
    since_change: u32,
    last: Option<Ticks>,
}

#[derive(Debug)]
enum EncodeFailed {
    Link,
    Encoder(io::Error),
}

impl From<LinkError> for EncodeFailed {
    fn from(_: LinkError) -> EncodeFailed {
        EncodeFailed::Link
    }
}

impl From<glassline_codec::CodecError> for EncodeFailed {
    fn from(error: glassline_codec::CodecError) -> EncodeFailed {
        EncodeFailed::Encoder(io::Error::other(error))
    }
}

impl Steered {
    const LEAST: u64 = 50_000;
    const MOST: u64 = 20_000_000;
    /// A change of the rate is worth it from this part on, and not more often than each so many pictures.
    const CHANGE: f64 = 0.08;
    const CHANGE_EVERY: u32 = 3;
    /// Below this part of a picture's share a picture is not encoded.
    const WORTH: f64 = 0.4;
    /// With nothing answered for so long pictures would pile up.
    const SILENCE: Duration = Duration::from_millis(300);

    fn new(format: Format, settings: &EncodingSettings) -> Result<Steered, glassline_codec::CodecError> {
        let bitrate_max = settings.bitrate_max.map_or(Self::MOST, Bitrate::bits_per_second);
        let first = LinkRate::FIRST_BPS.min(bitrate_max);
        let interval = format.rate.time_of(1);
        let base = x264::Settings::new(format.size, format.rate, first);
        let encoder = x264::Encoder::new(&x264::Settings {
            preset: settings.preset.clone().unwrap_or_else(|| "superfast".to_owned()),
            // Pictures of about one size: one that is twice as large is late by a picture.
            vbv: interval * 2,
            // A receiver asks for key frames as it needs them; these let viewers join a stream that the receiver makes of
            // this one.
            key_interval: x264::KeyInterval::Time(Duration::from_secs(4)),
            threads: settings.threads,
            colour: format.colour,
            sample_aspect: format.sample_aspect,
            ..base
        })?;
        Ok(Steered { encoder, format, bitrate_max, link: LinkRate::new(first), since_change: 0, last: None })
    }

    /// Follows the link; false where it takes no picture now.
    fn steer(&mut self, budget: u64, silence: Duration) -> bool {
        self.link.handle_budget(budget, HORIZON);
        self.since_change += 1;
        let wanted = self.link.wanted_bps().clamp(Self::LEAST, self.bitrate_max.max(Self::LEAST));
        let is = self.encoder.bitrate_bps();
        if self.since_change >= Self::CHANGE_EVERY && wanted.abs_diff(is) as f64 > is as f64 * Self::CHANGE {
            // Rates within x264's bounds are taken.
            if self.encoder.set_bitrate(wanted).is_ok() {
                self.since_change = 0;
            }
        }
        let picture = is as f64 / 8.0 / self.format.rate.as_f64();
        silence < Self::SILENCE && budget as f64 >= picture * Self::WORTH
    }

    fn encode(&mut self, picture: &Picture, key: bool) -> Result<Unit, glassline_codec::CodecError> {
        if key {
            self.encoder.force_key_frame();
        }
        let pts = Ticks::from_time(picture.captured);
        let pts = self.last.map_or(pts, |last| pts.max(last + Ticks(1)));
        self.last = Some(pts);
        let unit = self.encoder.encode(picture, pts)?;
        Ok(Unit {
            data: unit.data,
            key: unit.random_access,
            reference: true,
            continues: false,
            captured: glassline_media::Utc::from_nanos(0),
            passed: Stamps::default(),
        })
    }
}

impl Service for CodedVideoSender {
    fn sends(&self) -> Vec<(u8, Options)> {
        vec![(VIDEO, coded_options())]
    }

    fn takes(&self) -> Vec<u8> {
        vec![REPORTS]
    }

    fn serve(&self, link: &Link) -> io::Result<Served> {
        let turn = self.links.begin();
        let has_ended = || self.is_refused() || self.units.is_over() || self.intake.mailbox.has_ended();
        if let Err(served) = self.links.wait_connected(turn, link, has_ended) {
            // Nothing was sent that a peer would have to get first.
            return match self.is_refused.load(Ordering::Relaxed) {
                true if self.goes_on.load(Ordering::Relaxed) => Ok(self.rest(turn, link)),
                true => Err(io::Error::other("its input is refused")),
                false => Ok(served),
            };
        }
        self.events.lock().expect(UNPOISONED).clear();
        self.state.lock().expect(UNPOISONED).sender.handle_reset();
        self.start()?;
        loop {
            if self.links.is_over(turn, link) {
                return Ok(Served::ThisLink);
            }
            match &self.feed {
                Feed::Coded(_) => match self.units.take(Some(TICK)) {
                    Taken::End => return Ok(self.rest(turn, link)),
                    Taken::Timeout => self.ask_for_key(),
                    Taken::Item(item) => {
                        if self.offer(link, item).is_err() {
                            return Ok(Served::ThisLink);
                        }
                    }
                },
                Feed::Encoded(_) => match self.intake.mailbox.take(TICK) {
                    Taken::End => return Ok(Served::All),
                    Taken::Timeout => {}
                    Taken::Item((picture, stamps)) => match self.encode(link, &picture, stamps) {
                        Ok(()) => {}
                        Err(EncodeFailed::Link) => return Ok(Served::ThisLink),
                        Err(EncodeFailed::Encoder(error)) => return Err(error),
                    },
                },
            }
        }
    }

    fn handle_event(&self, _: &Link, event: &Event) {
        if concerns_pictures(event) {
            self.events.lock().expect(UNPOISONED).push(event.clone());
        }
    }

    fn is_input(&self) -> bool {
        true
    }
}

impl std::fmt::Debug for CodedVideoSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CodedVideoSender")
    }
}

#[cfg(test)]
#[path = "coded_send_tests.rs"]
mod tests;
