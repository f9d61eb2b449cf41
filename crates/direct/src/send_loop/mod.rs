//! The send loop of direct video: when the link is asked what it takes, what is encoded for that and sent, and how much is done for
//! each picture.
//!
//! ```text
//! Newest::take ─► encode ── time of encoding ──► choose ── time of a search ──► send ─► rest: sizes compared, effort adapted
//!                   ▲ events, reports, budget      ▲ events, reports, budget      │
//!                   └──────────────────────────────┴── LinkAccess ◄── VIDEO ──────┘
//! ```
//! `call::direct` runs it on a link's handle and by the machine's clock, `lab::experiment` on an emulated network in virtual time: the
//! caller lets the time pass that encoding takes, and says with each call what time it is. The loop acts when there is a picture, so
//! it has no deadline of its own.

#[cfg(feature = "av1")]
mod auto;
mod choice;
mod codec;
mod effort;

pub use self::choice::{Aside, CodecChoice, CodecReason, Coding};

#[cfg(feature = "av1")]
use self::auto::Auto;
use self::choice::Asked;
use self::effort::Effort;
use crate::channels::{REPORTS, VIDEO};
use crate::coder::CodingError;
use crate::decision::{Choice, Conditions, Decision};
use crate::sender::{Sender, SenderCounters};
use crate::settings::{SenderSettings, VideoCodec};
use crate::share::pictures_share;
use crate::wire::WireError;
use bytes::Bytes;
use glassline_codec::vp8::Parallel;
use glassline_media::{FrameRate, Picture, Size, Stage, Stamps, Time};
use glassline_transport::link::{Error as LinkError, Event, MessageId};
use std::time::Duration;
use thiserror::Error;

/// Of what pictures may take, the share that the first one gets after a silence: it is there sooner, and shows that the network is
/// back. The next one is as large as ever.
const FIRST_SHARE: f64 = 0.5;
/// That of so many pictures' time, or longer.
const SILENT_PICTURES: u64 = 8;

/// What the time of one picture counts in that of the next.
const TIME_GAIN: f64 = 0.1;

/// A link as the loop uses it, however its caller holds it.
pub trait LinkAccess {
    /// The oldest event that was not taken yet. Those that [`concerns_pictures`](crate::concerns_pictures) says nothing of
    /// may be left out.
    fn poll_event(&mut self) -> Option<Event>;

    /// The oldest message of a channel that was not taken yet; does not wait for one.
    ///
    /// # Errors
    /// The link is gone.
    fn receive(&mut self, channel: u8) -> Result<Option<Bytes>, LinkError>;

    /// Bytes that the link takes now on a channel and that leave within `horizon`
    /// ([`Link::budget`](glassline_transport::link::Link::budget)).
    ///
    /// # Errors
    /// The link is gone.
    fn budget(&mut self, now: Time, channel: u8, horizon: Duration) -> Result<u64, LinkError>;

    /// Whether each message leaves by several paths ([`Link::is_shared`](glassline_transport::link::Link::is_shared)).
    ///
    /// # Errors
    /// The link is gone.
    fn is_shared(&mut self) -> Result<bool, LinkError> {
        Ok(false)
    }

    /// What the budget of channel [`VIDEO`] will be `after` so long, where nothing is sent until then
    /// ([`Link::budget_ahead`](glassline_transport::link::Link::budget_ahead)).
    ///
    /// # Errors
    /// The link is gone.
    fn budget_ahead(&mut self, now: Time, after: Duration, horizon: Duration) -> Result<u64, LinkError>;

    /// How long the link has not been answered ([`Link::silence`](glassline_transport::link::Link::silence)).
    ///
    /// # Errors
    /// The link is gone.
    fn silence(&mut self, now: Time) -> Result<Duration, LinkError>;

    /// Sends a message, without waiting for room.
    ///
    /// # Errors
    /// [`LinkError::Closed`] where the link is gone; any other where it takes this message not.
    fn send(&mut self, now: Time, channel: u8, message: Bytes) -> Result<MessageId, LinkError>;

    /// As [`LinkAccess::send`], for a message on which much depends
    /// ([`Link::send_twice`](glassline_transport::link::Link::send_twice)).
    ///
    /// # Errors
    /// As those of [`LinkAccess::send`].
    fn send_twice(&mut self, now: Time, channel: u8, message: Bytes) -> Result<MessageId, LinkError> {
        self.send(now, channel, message)
    }

    /// Bytes a second that sound puts on the link beside the pictures
    /// ([`SoundSender::bytes_per_second`](crate::sound::SoundSender::bytes_per_second)); zero without sound.
    fn sound_bytes_per_second(&self) -> u64;

    /// A message came on channel [`REPORTS`] that is no report. For logs.
    fn note_malformed(&mut self, _error: &WireError) {}
}

/// Why a picture could not be sent.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SendError {
    /// The link is gone.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The picture cannot be encoded.
    #[error(transparent)]
    Encode(#[from] CodingError),
}

/// What was made of a picture.
#[derive(Clone, Debug)]
pub struct Offered {
    /// What was decided.
    pub decision: Decision,
    /// From being handed over to the choice.
    pub took: Duration,
    /// Bytes of the message; `None`: none was sent, or the link has not taken it.
    pub bytes: Option<usize>,
}

/// What the loop knows now, for figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendStatus {
    /// What pictures could take when it was asked last, bytes.
    pub budget: u64,
    /// How long the link had not been answered then.
    pub silence: Duration,
    /// The quantiser of the picture that was sent last.
    pub quantizer: Option<u8>,
    /// The size at which it was coded.
    pub size: Option<Size>,
    /// The codec of the pictures.
    pub codec: VideoCodec,
}

/// How far the picture is that is under way.
enum Progress {
    /// There is none.
    Idle,
    Encoded {
        begun: Time,
        silence: Duration,
        stamps: Stamps,
        /// What the link could take before, and what it was expected to take now.
        before: u64,
        ahead: u64,
    },
    Chosen {
        begun: Time,
        queued: Time,
        asked: Asked,
        choice: Choice,
    },
    /// It has left, or does not leave.
    Sent {
        begun: Time,
        took: Duration,
    },
}

/// Sends pictures on a link, one after the other: for each are called, in this order, [`SendLoop::encode`], [`SendLoop::choose`],
/// [`SendLoop::send`] and [`SendLoop::rest`]. A call out of its turn does nothing.
pub struct SendLoop {
    sender: Sender,
    effort: Effort,
    frame_rate: FrameRate,
    progress: Progress,
    status: SendStatus,
    /// The picture that is encoded is the first one behind a silence.
    is_first: bool,
    /// How long encoding takes.
    encoding: Duration,
    /// When the last picture was handed over.
    queued: Time,
    #[cfg(feature = "av1")]
    auto: Option<Auto>,
    /// The picture under way, where two codecs are compared.
    #[cfg(feature = "av1")]
    offered: Option<Picture>,
}

fn effort_of(settings: &SenderSettings) -> Effort {
    Effort::new(settings.candidates, settings.speed, settings.video_codec.fastest())
}

impl std::fmt::Debug for SendLoop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SendLoop").field("sender", &self.sender).field("effort", &self.effort).finish()
    }
}

impl SendLoop {
    /// A loop that has sent nothing. [`SenderSettings::candidates`] are the most, and [`SenderSettings::speed`] the slowest: the loop
    /// begins with two candidates, and adapts both to the time that encoding takes.
    pub fn new(settings: SenderSettings) -> SendLoop {
        #[cfg(feature = "av1")]
        let auto = Auto::of(&settings);
        #[cfg(feature = "av1")]
        let settings = match &auto {
            Some(auto) => auto.settings(),
            // The conventional way has one codec.
            None if settings.video_codec == VideoCodec::Auto => settings.with_codec(VideoCodec::Av1),
            None => settings,
        };
        let effort = effort_of(&settings);
        let frame_rate = settings.frame_rate;
        let status = SendStatus { codec: settings.video_codec, ..SendStatus::default() };
        SendLoop {
            sender: Sender::new(SenderSettings { candidates: effort.candidates(), ..settings }),
            effort,
            frame_rate,
            progress: Progress::Idle,
            status,
            is_first: false,
            encoding: Duration::ZERO,
            queued: Time::ZERO,
            #[cfg(feature = "av1")]
            auto,
            #[cfg(feature = "av1")]
            offered: None,
        }
    }

    /// Another link is there, or the receiver has begun anew: it has none of our states.
    pub fn handle_reset(&mut self) {
        self.sender.handle_reset();
        self.reset_codec();
    }

    /// Takes what the link has told of messages and what the receiver has said.
    fn catch_up(&mut self, now: Time, link: &mut impl LinkAccess) -> Result<(), LinkError> {
        while let Some(event) = link.poll_event() {
            match event {
                Event::Finished { channel: VIDEO, message, outcome } => {
                    self.sender.handle_outcome(now, message, outcome);
                }
                Event::Connected { again: true } => self.handle_reset(),
                _ => {}
            }
        }
        while let Some(report) = link.receive(REPORTS)? {
            if let Err(error) = self.sender.handle_report(now, &report) {
                link.note_malformed(&error);
            }
        }
        Ok(())
    }

    /// What pictures may take now, bytes; within which time, and whether several paths share them.
    fn budget(
        &self,
        now: Time,
        silence: Duration,
        link: &mut impl LinkAccess,
    ) -> Result<(u64, Duration, bool), LinkError> {
        let is_shared = link.is_shared()?;
        let horizon = self.sender.horizon(now, silence, is_shared);
        let share = pictures_share(link.budget(now, VIDEO, horizon)?, link.sound_bytes_per_second(), horizon);
        Ok((if self.is_first { (share as f64 * FIRST_SHARE) as u64 } else { share }, horizon, is_shared))
    }

    /// What they may take when the picture that is encoded now is chosen, bytes: what is under way leaves meanwhile. Candidates that
    /// are no larger than what fits before would leave a fifth of it unused.
    fn ahead(
        &self,
        budget: u64,
        now: Time,
        silence: Duration,
        link: &mut impl LinkAccess,
    ) -> Result<u64, LinkError> {
        if self.is_first || !(self.sender.has_cheap_candidates() || self.is_comparing()) {
            return Ok(budget);
        }
        let horizon = self.sender.horizon(now, silence, link.is_shared()?);
        let ahead = link.budget_ahead(now, self.encoding, horizon)?;
        Ok(budget.max(pictures_share(ahead, link.sound_bytes_per_second(), horizon)))
    }

    /// Encodes a picture (I420) for what the link takes now. `stamps` are those up to its being handed over
    /// ([`Stage::Queued`]). A picture before it that was not sent yet is forgotten.
    ///
    /// # Errors
    /// The link is gone, or the picture cannot be encoded.
    pub fn encode(
        &mut self,
        now: Time,
        picture: &Picture,
        stamps: Stamps,
        link: &mut impl LinkAccess,
        parallel: &dyn Parallel,
    ) -> Result<(), SendError> {
        self.progress = Progress::Idle;
        self.catch_up(now, link)?;
        let silence = link.silence(now)?;
        let was_silent = self.status.silence >= self.frame_rate.time_of(SILENT_PICTURES);
        self.is_first = was_silent && silence < self.status.silence;
        self.begin_codec(now, picture);
        let (before, ..) = self.budget(now, silence, link)?;
        let ahead = self.ahead(before, now, silence, link)?;
        // Where each picture is encoded once, what is too large is not sent: that is aimed at what fits already.
        let budget = if self.sender.has_cheap_candidates() { ahead } else { before };
        self.sender.encode(now, picture, Conditions { budget, silence }, parallel)?;
        let stamps = stamps.with(Stage::EncoderIn, now);
        self.progress = Progress::Encoded { begun: now, silence, stamps, before, ahead };
        Ok(())
    }

    /// How the picture was encoded that waits for [`SendLoop::choose`], for a model of what that takes.
    pub fn coding(&self) -> Option<Coding> {
        let (size, speed, in_turn) = self.sender.pending_coding()?;
        let candidates = in_turn.unwrap_or(self.effort.candidates());
        Some(Coding { size, speed, candidates, in_turn: in_turn.is_some() })
    }

    /// The picture is encoded, `now`: decides what goes of it, by what the link takes now. Where nothing fits and there is time, a
    /// frame that fits is searched for, which takes time once more.
    ///
    /// # Errors
    /// The link is gone, or the search fails.
    pub fn choose(
        &mut self,
        now: Time,
        link: &mut impl LinkAccess,
        parallel: &dyn Parallel,
    ) -> Result<Option<&Decision>, SendError> {
        let Progress::Encoded { begun, silence, stamps, before, ahead } = self.progress else {
            return Ok(None);
        };
        self.progress = Progress::Idle;
        self.catch_up(now, link)?;
        let gain = if self.encoding.is_zero() { 1.0 } else { TIME_GAIN };
        self.encoding = self.encoding.mul_f64(1.0 - gain) + now.since(begun).mul_f64(gain);
        let stamps = stamps.with(Stage::Encoded, now);
        self.sender.stamp(stamps.rebased(Time::ZERO));
        let queued = stamps.at(Stage::Queued).unwrap_or(begun);
        self.queued = queued;
        let (budget, horizon, is_shared) = self.budget(now, silence, link)?;
        let asked = Asked { before, ahead, then: budget, horizon, is_shared };
        (self.status.budget, self.status.silence) = (budget, silence);
        let may_search = self.sender.may_search(now.since(queued));
        let Some(choice) = self.sender.choose(budget, may_search, parallel)? else { return Ok(None) };
        self.progress = Progress::Chosen { begun, queued, asked, choice };
        Ok(match &self.progress {
            Progress::Chosen { choice, .. } => Some(&choice.decision),
            _ => None,
        })
    }

    /// The choice is made, `now`: sends what was chosen, if anything.
    ///
    /// # Errors
    /// The link is gone.
    pub fn send(&mut self, now: Time, link: &mut impl LinkAccess) -> Result<Option<Offered>, LinkError> {
        let progress = std::mem::replace(&mut self.progress, Progress::Idle);
        let Progress::Chosen { begun, queued, asked, choice: Choice { decision, message, is_dear } } =
            progress
        else {
            self.progress = progress;
            return Ok(None);
        };
        let mut bytes = None;
        if let Some(message) = message {
            let length = message.len();
            let sent = match is_dear {
                true => link.send_twice(now, VIDEO, message),
                false => link.send(now, VIDEO, message),
            };
            match sent {
                Ok(id) => {
                    self.sender.sent(id);
                    bytes = Some(length);
                }
                Err(LinkError::Closed) => return Err(LinkError::Closed),
                Err(_) => self.sender.not_sent(now),
            }
            let chosen = decision.chosen.and_then(|chosen| decision.candidates.get(chosen));
            self.status.size = Some(decision.size);
            self.status.quantizer = chosen.map(|candidate| candidate.quantizer);
        }
        self.note_offered(now, asked, &decision, bytes);
        let took = now.since(queued);
        self.progress = Progress::Sent { begun, took };
        Ok(Some(Offered { decision, took, bytes }))
    }

    /// Nothing is left to do for the picture, `now`: uses the time until the next one to find out whether another size is better,
    /// and takes account of the time that this one took. Returns the size that was tried.
    ///
    /// # Errors
    /// The picture cannot be encoded at the other size.
    pub fn rest(&mut self, now: Time, parallel: &dyn Parallel) -> Result<Option<Size>, CodingError> {
        let Progress::Sent { begun, took } = self.progress else { return Ok(None) };
        self.progress = Progress::Idle;
        let may_compare = self.sender.may_compare(took);
        let tried = if may_compare { self.sender.compare_sizes(now, parallel)? } else { None };
        // The comparison is made with time that is left: it asks for no less effort.
        let interval = self.frame_rate.time_of(1).as_secs_f64();
        if self.effort.handle_share(now.since(begun).as_secs_f64() / interval) {
            self.sender.set_candidates(self.effort.candidates());
            self.sender.set_speed(self.effort.speed());
        }
        self.note_effort(now);
        Ok(tried)
    }

    /// Counts since the begin.
    pub fn counters(&self) -> SenderCounters {
        self.sender.counters()
    }

    /// States that are held here, and at the receiver as it said last.
    pub fn states(&self) -> (usize, u64) {
        self.sender.states()
    }

    /// What is known now.
    pub fn status(&self) -> SendStatus {
        SendStatus { codec: self.sender.codec(), ..self.status }
    }

    /// In how many qualities the next pictures are encoded.
    pub fn candidates(&self) -> usize {
        self.effort.candidates()
    }

    /// The encoder's speed against quality for the next pictures, 0 to 10, at the source's size.
    pub fn speed(&self) -> u8 {
        self.effort.speed()
    }
}
