//! Publishes what is received as a stream that other programs understand: in a file, to a relay, in datagrams. Our own kind
//! of pictures is encoded to H.264 for that; access units go as they are, and so do frames of AV1 where the settings say so. In a
//! transport stream each of these says when it was captured, and what its sender says of its way (`docs/capture-utc.md`).
//!
//! ```text
//! pictures ─► Encoding (x264, muxer) ─┐
//! units ─────────────► ts::Muxer ─────┼─► Outputs, or a relay in this process
//! sound ─► Opus ──────────▲───────────┘          telemetry of channels goes into what both write (`telemetry`)
//! ```

use super::UNPOISONED;
use super::display::{Content, Shown, Sink};
use super::key_frames::{KeyFrameWish, Viewers};
use super::muxing::{CodedPicture, Muxing};
#[cfg(feature = "opus")]
use super::sound_receive::{Heard, SoundSink};
use super::telemetry::Telemetry;
#[cfg(feature = "opus")]
use glassline_codec::audio::opus;
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::Mux;
use glassline_io::clock::Clock;
use glassline_media::container::ts::{AudioFormat, MuxSettings, Muxer};
use glassline_media::pixels::Scaler;
use glassline_media::{
    AccessUnit, AudioBlock, Codec, Colour, FrameRate, Picture, Stage, Stamps, Ticks, Time,
};
use glassline_streams::Streams;
use glassline_studio::capture::{Format, Item, Source, TONE_CHANNELS};
use glassline_studio::encode::{Encoding, Ended, Request};
use glassline_studio::output::{Credentials, Demand, Liveness, Opener, Output, Packets, RelayOutput, Target};
use std::io;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Pictures wait no longer for sound to begin: what is in a stream is said at its beginning.
const SOUND_WAIT: Duration = Duration::from_millis(400);
/// Access units of H.264, of which none is left out meanwhile, wait longer: a camera in the network has its sound later than its
/// first picture.
const CODED_SOUND_WAIT: Duration = Duration::from_secs(1);
/// Access units that wait for sound to begin, at most.
const HELD_MAX: usize = 120;
/// Items that wait for the encoder: a slow one loses pictures, not time.
const WAITING_MAX: usize = 16;
/// A stream that has gone on for so long was what its user wanted.
const SETTLED: Duration = Duration::from_secs(3);
/// From a failure to the next beginning; twice as long after each further one,
const AGAIN: Duration = Duration::from_secs(1);
/// up to this.
const AGAIN_MAX: Duration = Duration::from_secs(30);
/// Sound that is so much earlier than what was heard before is left out: its time is taken.
const BEHIND: Duration = Duration::from_millis(500);
/// Where nothing came for so long that is later than what was before, the sender's clock was set, and the stream begins anew.
const CLOCK_WAIT: Duration = Duration::from_secs(2);

/// Where a stream goes. It is opened when the stream begins.
pub enum PublishTo {
    /// Files, datagrams, servers.
    Targets {
        /// All of them get the same.
        targets: Vec<Target>,
        /// What servers are told and asked.
        credentials: Credentials,
    },
    /// A relay in this process.
    Relay {
        /// The relay's.
        streams: Arc<Streams>,
        /// The stream's.
        name: StreamName,
    },
}

/// What becomes of frames of AV1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Av1Frames {
    /// They are decoded and encoded in H.264, as other pictures are. FILE.webm takes them as they come all the same.
    Encoded,
    /// They go on as they come.
    Passed,
    /// They go on as they come, and nothing else is taken.
    Only,
}

/// Where a stream goes, and how it is made.
pub struct PublishSettings {
    /// Where to.
    pub to: PublishTo,
    /// How pictures are coded, and sound; [`Request::input`] does not matter.
    pub request: Request,
    /// Whether frames of AV1 are pictures as others.
    pub av1: Av1Frames,
    /// What the stream has beside pictures and sound, where it is a transport stream.
    pub telemetry: Option<Telemetry>,
}

impl PublishTo {
    /// Whether a file that is no transport stream is among them.
    fn is_recorded(&self) -> bool {
        match self {
            PublishTo::Targets { targets, .. } => {
                targets.iter().any(|target| target.is_mp4() || target.is_webm())
            }
            PublishTo::Relay { .. } => false,
        }
    }

    fn is_webm(&self) -> bool {
        matches!(self, PublishTo::Targets { targets, .. } if targets.iter().any(Target::is_webm))
    }

    fn viewers(&self) -> Viewers {
        match self {
            PublishTo::Targets { targets, .. }
                if targets.iter().all(|target| matches!(target, Target::File(_))) =>
            {
                Viewers::FromTheBeginning
            }
            PublishTo::Targets { .. } => Viewers::Unknown,
            PublishTo::Relay { streams, name } => Viewers::Of(Arc::clone(streams), name.clone()),
        }
    }
}

/// Publishes what is received. Its two sinks share it.
pub struct Publisher(Arc<Mutex<State>>);

struct State {
    settings: PublishSettings,
    key_frames: Arc<KeyFrameWish>,
    clock: Clock,
    stage: Progress,
    /// Since when pictures come.
    since: Option<Time>,
    has_sound: bool,
    last: Option<Ticks>,
    /// Where the sound that was heard ends.
    heard_to: Option<Time>,
    /// Since when pictures, and sound, come with times that the stream has passed already.
    behind_since: [Option<Time>; 2],
    /// Failures of the stream's outputs, and what follows from them.
    failures: Failures,
    /// What came from the last key frame on, until the stream may begin.
    held: Vec<(CodedPicture, Time)>,
}

/// Failures of a stream, and when it may begin again.
#[derive(Default)]
struct Failures {
    begun_at: Option<Time>,
    /// It has gone on for a while once.
    has_settled: bool,
    again_at: Option<Time>,
    wait: Duration,
    /// It does not begin again.
    last: Option<io::Error>,
}

/// How far a stream has come.
enum Progress {
    Waiting,
    Encoding { to: SyncSender<Item>, scaler: Scaler, thread: JoinHandle<Ended> },
    Muxing(Box<Muxing>),
    Over,
}

impl Publisher {
    /// A publisher that begins with the first picture.
    pub fn new(settings: PublishSettings) -> Publisher {
        let key_frames = Arc::new(KeyFrameWish::new(settings.to.viewers()));
        Publisher(Arc::new(Mutex::new(State {
            settings,
            key_frames,
            clock: Clock::new(),
            stage: Progress::Waiting,
            since: None,
            has_sound: false,
            last: None,
            heard_to: None,
            behind_since: [None; 2],
            failures: Failures::default(),
            held: Vec::new(),
        })))
    }

    /// Takes pictures.
    pub fn sink(&self) -> Box<dyn Sink> {
        Box::new(Publisher(Arc::clone(&self.0)))
    }

    /// Takes sound.
    #[cfg(feature = "opus")]
    pub fn sound_sink(&self) -> Box<dyn SoundSink> {
        Box::new(PublishedSound(Arc::clone(&self.0)))
    }
}

impl State {
    /// Begins to wait for sound, where it does not yet. Returns whether the stream may begin: sound is there, or was waited for, and a
    /// failure is not too young.
    fn try_begin(&mut self, sound_wait: Duration) -> bool {
        let now = self.clock.now();
        if self.failures.again_at.is_some_and(|at| now < at) {
            return false;
        }
        let since = *self.since.get_or_insert(now);
        self.has_sound || now.since(since) >= sound_wait
    }

    fn output(&self) -> io::Result<Box<dyn Output>> {
        let output = self.open_output()?;
        Ok(match &self.settings.telemetry {
            Some(telemetry) => telemetry.added_to(output),
            None => output,
        })
    }

    fn open_output(&self) -> io::Result<Box<dyn Output>> {
        match &self.settings.to {
            PublishTo::Targets { targets, credentials } => {
                let liveness = Liveness { live: true, ..Liveness::default() };
                let outputs = Opener::new(credentials.clone(), liveness).open(targets);
                Ok(Box::new(outputs.map_err(io::Error::other)?))
            }
            PublishTo::Relay { streams, name } => {
                let publisher = streams.publish(name, Mux::MpegTs).map_err(io::Error::other)?;
                Ok(Box::new(RelayOutput::new(publisher)))
            }
        }
    }

    /// Something of the stream has failed. A stream that never went on for a while returns the error: what was asked for
    /// cannot work. Another one begins again, unless it goes to a file, which would lose its beginning: then the error is
    /// logged now and returned by [`Sink::finish`].
    fn fail(&mut self, error: io::Error) -> io::Result<()> {
        let lived = self.failures.begun_at.take().map_or(Duration::ZERO, |at| self.clock.now().since(at));
        if lived >= SETTLED {
            (self.failures.has_settled, self.failures.wait) = (true, Duration::ZERO);
        }
        if !self.failures.has_settled {
            return Err(error);
        }
        // What it was is told already.
        let _ = self.end();
        if let PublishTo::Targets { targets, .. } = &self.settings.to
            && targets.iter().any(|target| matches!(target, Target::File(_)))
        {
            tracing::error!(%error, "the file cannot be written any more, and is ended; the link goes on");
            self.failures.last = Some(error);
            return Ok(());
        }
        let wait = (self.failures.wait * 2).clamp(AGAIN, AGAIN_MAX);
        let after_s = wait.as_secs();
        tracing::warn!(%error, after_s, "the stream that is made of what comes has failed; it begins again");
        self.begin_again(wait);
        Ok(())
    }

    fn begin_again(&mut self, wait: Duration) {
        self.stage = Progress::Waiting;
        self.key_frames.end();
        self.failures.wait = wait;
        self.failures.again_at = Some(self.clock.now() + wait);
        (self.since, self.last, self.heard_to, self.behind_since) = (None, None, None, [None; 2]);
        self.held.clear();
    }

    /// Notes whether something comes too early to be taken, `is_behind`. Returns whether it is left out. Where that goes on, the
    /// sender's clock was set back: the stream begins anew.
    fn note_behind(&mut self, of: usize, is_behind: bool) -> bool {
        let now = self.clock.now();
        let Some(since) = self.behind_since.get_mut(of) else { return is_behind };
        if !is_behind {
            *since = None;
            return false;
        }
        if now.since(*since.get_or_insert(now)) >= CLOCK_WAIT {
            tracing::warn!(
                "the sender's clock was set back; the stream that is made of what comes begins anew"
            );
            let _ = self.end();
            self.begin_again(Duration::ZERO);
        }
        true
    }

    fn begin_encoding(&mut self, picture: &Picture, rate: FrameRate) -> io::Result<()> {
        let (to, items) = sync_channel(WAITING_MAX);
        let format = Format {
            size: picture.size(),
            rate,
            colour: Colour::UNSPECIFIED,
            sample_aspect: None,
            fields: None,
            live: true,
        };
        let source = Source::handed(items, format, self.clock);
        let channels = self.has_sound.then_some(TONE_CHANNELS);
        let encoding = Encoding::of_source(source, channels, &self.settings.request, self.clock);
        let encoding = encoding.map_err(io::Error::other)?;
        let output = self.output()?;
        let run = move || encoding.run(vec![output]);
        let thread = thread::Builder::new().name("publish".into()).spawn(run)?;
        self.stage = Progress::Encoding { to, scaler: Scaler::new(format.size), thread };
        self.failures.begun_at = Some(self.clock.now());
        Ok(())
    }

    fn show_picture(&mut self, picture: &Picture, rate: FrameRate, captured: Time) -> io::Result<()> {
        if matches!(self.stage, Progress::Waiting) {
            if !self.try_begin(SOUND_WAIT) {
                return Ok(());
            }
            self.begin_encoding(picture, rate)?;
        }
        let pts = Ticks::from_time(captured);
        // Two clocks are compared: a picture may seem to be captured before the last one.
        if self.note_behind(0, self.last.is_some_and(|last| pts <= last)) {
            return Ok(());
        }
        let Progress::Encoding { to, scaler, .. } = &mut self.stage else { return Err(other("pictures")) };
        let mut picture = scaler.scale(picture);
        picture.captured = captured;
        picture.captured_utc = Some(self.clock.utc_at(captured));
        self.last = Some(pts);
        let now = self.clock.now();
        let stamps = Stamps::captured_at(captured).with(Stage::Arrived, now).with(Stage::Queued, now);
        match to.try_send(Item::Picture { picture, pts, stamps }) {
            Ok(()) | Err(TrySendError::Full(_)) => Ok(()),
            Err(TrySendError::Disconnected(_)) => self.encoder_ended(),
        }
    }

    /// The encoder takes nothing any more: says why.
    fn encoder_ended(&mut self) -> io::Result<()> {
        self.end().and_then(|()| Err(io::Error::other("the encoder has ended")))
    }

    /// Whether frames go as they came.
    fn takes_frames(&self) -> bool {
        self.settings.av1 != Av1Frames::Encoded || self.settings.to.is_webm()
    }

    /// Why pictures of another kind than frames of AV1 are not taken; `None`: they are.
    fn refusal(&self, content: &Content) -> Option<&'static str> {
        match (content, self.settings.to.is_webm(), self.settings.av1) {
            (Content::Frame(_), ..) | (_, false, Av1Frames::Encoded | Av1Frames::Passed) => None,
            (Content::Picture(_), true, _) => Some(
                "VP8 comes, coded against what this receiver alone has, and FILE.webm takes AV1 alone; name FILE.mp4 \
                 or FILE.ivf, or send --codec av1",
            ),
            (Content::Unit(_), true, _) => Some(
                "H.264 comes, which WebM does not hold; name FILE.mp4, FILE.ts or FILE.h264, or send --codec av1",
            ),
            (Content::Picture(_), false, Av1Frames::Only) => {
                Some("VP8 comes, and AV1 alone was asked for; leave out --out-codec av1, or send --codec av1")
            }
            (Content::Unit(_), false, Av1Frames::Only) => Some(
                "H.264 comes, and AV1 alone was asked for; leave out --out-codec av1, or send --codec av1",
            ),
        }
    }

    fn begin_muxing(&mut self, video: Codec) -> io::Result<()> {
        let sound = AudioFormat { codec: Codec::Opus, channels: TONE_CHANNELS, language: None, he_aac: None };
        let audio = Some(sound).filter(|_| self.has_sound && cfg!(feature = "opus"));
        let settings = MuxSettings { video: Some(video), audio, ..MuxSettings::default() };
        let muxer = Muxer::new(settings).map_err(io::Error::other)?;
        #[cfg(feature = "opus")]
        let coder = audio.map(|_| opus::Encoder::new(opus::Settings::default())).transpose();
        self.stage = Progress::Muxing(Box::new(Muxing {
            video,
            muxer,
            output: self.output()?,
            packets: Vec::new(),
            says_capture: !self.settings.to.is_recorded(),
            previous: None,
            #[cfg(feature = "opus")]
            coder: coder.map_err(io::Error::other)?,
        }));
        self.failures.begun_at = Some(self.clock.now());
        Ok(())
    }

    fn show_coded(&mut self, unit: &CodedPicture, captured: Time) -> io::Result<()> {
        if !matches!(self.stage, Progress::Waiting) {
            return self.mux(unit, captured);
        }
        if unit.key {
            self.held.clear();
        } else if self.held.is_empty() || self.held.len() >= HELD_MAX {
            if unit.codec == Codec::Av1 {
                // What is left out is what the next ones need.
                self.held.clear();
                self.key_frames.need();
            }
            return Ok(());
        }
        self.held.push((unit.clone(), captured));
        let sound_wait = if unit.codec == Codec::H264 { CODED_SOUND_WAIT } else { SOUND_WAIT };
        if !self.try_begin(sound_wait) {
            return Ok(());
        }
        self.begin_muxing(unit.codec)?;
        std::mem::take(&mut self.held).iter().try_for_each(|(unit, captured)| self.mux(unit, *captured))
    }

    fn mux(&mut self, unit: &CodedPicture, captured: Time) -> io::Result<()> {
        let last = self.last;
        let is_far_behind =
            last.is_some_and(|last| (last - Ticks::from_time(captured)).0 > Ticks::RATE.into());
        // A unit that comes too early is still written, at a later stamp, since later ones need it; it is left out only where the
        // stream has just begun anew.
        if self.note_behind(0, is_far_behind) && !matches!(self.stage, Progress::Muxing(_)) {
            return Ok(());
        }
        let muxing = match &mut self.stage {
            Progress::Muxing(muxing) if muxing.video == unit.codec => muxing,
            _ => return Err(other(if unit.codec == Codec::Av1 { "AV1" } else { "access units" })),
        };
        let pts = Ticks::from_time(captured);
        let pts = last.map_or(pts, |last| pts.max(last + Ticks(1)));
        self.last = Some(pts);
        let data = match unit.said {
            Some((utc, passed)) if muxing.says_capture => {
                muxing.with_capture(unit.codec, &unit.data, utc, passed)
            }
            _ => unit.data.clone(),
        };
        let stamps = Stamps::captured_at(captured);
        let written = muxing.write(&AccessUnit {
            codec: unit.codec,
            data,
            pts,
            dts: pts,
            random_access: unit.key,
            stamps,
        })?;
        let now = self.clock.now();
        if let (Some((utc, passed)), Some(after)) =
            (unit.said, stamps.with(Stage::Sent, now).between(Stage::Captured, Stage::Sent))
        {
            let sent = Time::ZERO + after;
            muxing.previous = Some((utc, passed.with(Stage::Muxed, sent).with(Stage::Sent, sent)));
        }
        if unit.codec == Codec::Av1 {
            if unit.key {
                self.key_frames.note_key(now);
            }
            if written == Demand::KeyFrame {
                self.key_frames.need();
            }
        }
        Ok(())
    }

    #[cfg_attr(not(feature = "opus"), expect(dead_code, reason = "no sound comes then"))]
    fn hear(&mut self, block: AudioBlock) -> io::Result<()> {
        self.has_sound = true;
        let is_behind = self.heard_to.is_some_and(|end| end.since(block.captured) > BEHIND);
        if self.note_behind(1, is_behind) {
            return Ok(());
        }
        let time =
            Duration::from_nanos(block.frames() as u64 * 1_000_000_000 / u64::from(block.rate_hz.max(1)));
        self.heard_to = self.heard_to.max(Some(block.captured + time));
        match &mut self.stage {
            Progress::Waiting | Progress::Over => Ok(()),
            Progress::Encoding { to, .. } => match to.try_send(Item::Sound(block)) {
                Ok(()) | Err(TrySendError::Full(_)) => Ok(()),
                Err(TrySendError::Disconnected(_)) => self.encoder_ended(),
            },
            #[cfg(feature = "opus")]
            Progress::Muxing(muxing) => {
                let Some(coder) = &mut muxing.coder else { return Ok(()) };
                for unit in coder.push(&block).map_err(io::Error::other)? {
                    if muxing.write(&unit)? == Demand::KeyFrame && muxing.video == Codec::Av1 {
                        self.key_frames.need();
                    }
                }
                Ok(())
            }
            #[cfg(not(feature = "opus"))]
            Progress::Muxing(_) => Ok(()),
        }
    }

    /// Ends the stream well, if there is one.
    fn end(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.stage, Progress::Over) {
            Progress::Waiting | Progress::Over => Ok(()),
            Progress::Encoding { to, thread, .. } => {
                drop(to);
                let ended = thread.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause));
                ended.result.map_err(io::Error::other)
            }
            Progress::Muxing(mut muxing) => {
                muxing.packets.clear();
                muxing.muxer.finish(&mut muxing.packets);
                let written = muxing.output.write(&Packets::whole(&muxing.packets, false));
                written.and_then(|_| muxing.output.finish()).map_err(io::Error::other)
            }
        }
    }
}

/// The sender has begun anew with pictures of another kind.
fn other(what: &str) -> io::Error {
    io::Error::other(format!("the sender now sends {what}, and this stream began with the other kind"))
}

impl Sink for Publisher {
    fn show(&mut self, shown: &Shown) -> io::Result<()> {
        let mut state = self.0.lock().expect(UNPOISONED);
        let captured = shown.stamps.at(Stage::Captured).unwrap_or_else(|| state.clock.now());
        if state.failures.last.is_some() {
            return Ok(());
        }
        let taken = match (&shown.content, state.refusal(&shown.content)) {
            (_, Some(why)) => Err(io::Error::other(why)),
            (Content::Picture(picture), None) => state.show_picture(picture, shown.rate, captured),
            (Content::Unit(unit), None) => state.show_coded(&CodedPicture::of_unit(unit), captured),
            (Content::Frame(frame), None) => match CodedPicture::of_frame(frame) {
                Some(coded) => state.show_coded(&coded, captured),
                None => Err(io::Error::other("a frame that is no temporal unit of AV1")),
            },
        };
        taken.or_else(|error| state.fail(error))
    }

    fn takes_frames(&self) -> bool {
        self.0.lock().expect(UNPOISONED).takes_frames()
    }

    fn key_frame_wish(&self) -> Option<Arc<KeyFrameWish>> {
        Some(Arc::clone(&self.0.lock().expect(UNPOISONED).key_frames))
    }

    fn finish(&mut self) -> io::Result<()> {
        let mut state = self.0.lock().expect(UNPOISONED);
        let ended = state.end();
        state.failures.last.take().map_or(ended, Err)
    }
}

#[cfg(feature = "opus")]
struct PublishedSound(Arc<Mutex<State>>);

#[cfg(feature = "opus")]
impl SoundSink for PublishedSound {
    fn play(&mut self, heard: &Heard) -> io::Result<()> {
        let block = AudioBlock { captured: heard.captured, ..heard.block.clone() };
        let mut state = self.0.lock().expect(UNPOISONED);
        if state.failures.last.is_some() {
            return Ok(());
        }
        state.hear(block).or_else(|error| state.fail(error))
    }

    /// The stream ends with its pictures.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[path = "publish_tests.rs"]
mod tests;
