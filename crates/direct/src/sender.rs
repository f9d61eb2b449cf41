//! The sending end: each picture is coded in some qualities, and the largest frame that fits the link's budget goes, or none.

mod caution;
#[cfg(feature = "av1")]
mod codec;
mod counters;
mod feedback;
mod key_frames;
mod pace;
mod pending;
mod qualities;
mod resized;

pub use self::counters::SenderCounters;
#[cfg(feature = "av1")]
pub(crate) use self::resized::distortion;

use self::caution::Caution;
use self::key_frames::KeyFrames;
use self::pace::{Allowance, Skips};
use self::pending::{Pending, told_size};
use self::resized::{Resizing, Tried};
use crate::coder::{self, Coder, CodingError, Encoded, Request, Task};
use crate::decision::{Candidate, Choice, Conditions, Decision, Reason};
use crate::history::History;
use crate::ladder::Ladder;
use crate::settings::{CodecMode, SenderSettings, VideoCodec};
use crate::shown::Shown;
use crate::size::CodedSize;
use crate::wire::{FrameCodec, PictureHeader, StateTag, TakenCodecs, no_stages};
use glassline_codec::vp8::{Parallel, Quality};
use glassline_media::{FrameRate, Picture, Size, Stamps, Time};
use glassline_transport::link::MessageId;
use std::time::Duration;

/// A picture may take so many times the time to the next one to leave. More fills the path better at first, and makes each picture
/// later by as much; but then the next budget is smaller by what is still under way, and pictures of unequal sizes show less than
/// equal ones of the same sum. (On twelve cellular traces 1.35 gave pictures that were smaller by 4 % in the geometric mean, and
/// later by 4 ms in the middle and 1 ms at the 95th percentile.)
const HORIZON: f64 = 1.15;
/// Where several paths share a picture, what waits for a quick path keeps that busy.
const SHARED_HORIZON: f64 = 1.35;
/// A picture that needs no other may take so long to leave.
const KEY_HORIZON: Duration = Duration::from_millis(100);
/// From one long-term reference (golden frame) to the next, in pictures sent.
const LONG_TERM_INTERVAL: u64 = 20;
/// Of the time to the next picture, the share after which there is none for a comparison of sizes.
const COMPARE_BEFORE: f64 = 0.6;
/// A picture is encoded for no less than this share of the budgets that the pictures before it had, of which so much of each counts:
/// the budget grows while it is encoded.
const LEAST_EXPECTED: f64 = 0.4;
const USUAL_GAIN: f64 = 0.2;

/// Encodes pictures for the link and remembers what the receiver has of them.
pub struct Sender {
    settings: SenderSettings,
    history: History,
    ladder: Ladder,
    coder: Box<dyn Coder>,
    resizing: Resizing,
    next: u64,
    skips: Skips,
    since_long_term: u64,
    allowance: Allowance,
    /// The budgets that pictures had lately, bytes.
    usual_budget: f64,
    caution: Caution,
    key_frames: KeyFrames,
    conventional: Option<(Time, u8)>,
    pending: Option<Pending>,
    /// Of the newest report: pictures that were shown, and that came.
    reported: (u64, u64),
    shown: Shown,
    held: u64,
    /// The picture that was sent last is predicted from the one before it.
    is_chained: bool,
    /// Which pictures the receiver takes, as it said last.
    taken: TakenCodecs,
    /// What decoders show for the picture that was sent last, where the coder says it.
    on_screen: Option<Picture>,
    counters: SenderCounters,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").field("next", &self.next).field("states", &self.history.len()).finish()
    }
}

impl Sender {
    /// A sender that has sent nothing.
    pub fn new(settings: SenderSettings) -> Sender {
        let allowance = Allowance::new(settings.bitrate_max, settings.frame_rate);
        let (coder, ladder, resizing) = Sender::coding(&settings);
        Sender {
            settings,
            history: History::default(),
            ladder,
            coder,
            resizing,
            next: 0,
            skips: Skips::default(),
            since_long_term: 0,
            allowance,
            usual_budget: 0.0,
            caution: Caution::default(),
            key_frames: KeyFrames::default(),
            conventional: None,
            pending: None,
            reported: (0, 0),
            shown: Shown::default(),
            held: 0,
            is_chained: false,
            taken: TakenCodecs::Any,
            on_screen: None,
            counters: SenderCounters::default(),
        }
    }

    /// What encodes, and what is learned of its pictures.
    fn coding(settings: &SenderSettings) -> (Box<dyn Coder>, Ladder, Resizing) {
        let coder = coder::of(settings);
        // Where only a picture that needs no other changes the size, no comparison of sizes pays.
        let size = match settings.size {
            CodedSize::Adaptive if !coder.has_cheap_candidates() => CodedSize::Source,
            asked => asked,
        };
        let ladder = Ladder::new(coder.slope());
        (coder, ladder, Resizing::new(size))
    }

    /// Counts.
    pub fn counters(&self) -> SenderCounters {
        self.counters
    }

    /// States that are held here, and at the receiver as it said last.
    pub fn states(&self) -> (usize, u64) {
        (self.history.len(), self.held)
    }

    /// In how many qualities the next pictures are coded, 1 to 6.
    pub fn set_candidates(&mut self, count: usize) {
        self.settings.candidates = count;
    }

    /// The encoder's speed against quality from now on, 0 to 10.
    pub fn set_speed(&mut self, speed: u8) {
        self.settings.speed = speed;
    }

    /// The source's pictures come at another rate.
    pub fn set_frame_rate(&mut self, rate: FrameRate) {
        self.settings.frame_rate = rate;
    }

    /// The codec of the next picture.
    pub(crate) fn codec(&self) -> VideoCodec {
        self.settings.video_codec
    }

    /// From one picture to the next.
    fn interval(&self) -> Duration {
        self.settings.frame_rate.time_of(1)
    }

    /// Whether a picture is encoded in several qualities, one of them of the size that is expected to fit.
    pub(crate) fn has_cheap_candidates(&self) -> bool {
        self.coder.has_cheap_candidates()
    }

    /// Whether there is time for [`Sender::compare_sizes`], when so much is gone since the picture was handed over.
    pub fn may_compare(&self, spent: Duration) -> bool {
        self.share(spent) < COMPARE_BEFORE
    }

    /// Of the time from one picture to the next.
    fn share(&self, spent: Duration) -> f64 {
        spent.as_secs_f64() / self.interval().as_secs_f64()
    }

    /// Within which time the next picture should leave, or the one that waits for [`Sender::choose`]: the caller asks the link for its
    /// budget within that time. `silence`: how long the link has not been answered.
    /// `is_shared`: several paths share each picture.
    pub fn horizon(&self, now: Time, silence: Duration, is_shared: bool) -> Duration {
        let is_key = self
            .pending
            .as_ref()
            .map_or_else(|| self.is_key_due(now, silence), |pending| pending.source.is_none());
        let needs_key = is_key || self.history.source(false, |state| self.coder.has(state)).is_none();
        let usual = self.interval().mul_f64(if is_shared { SHARED_HORIZON } else { HORIZON });
        if needs_key { KEY_HORIZON.max(usual) } else { usual }
    }

    /// Whether the next picture is made a key frame because the receiver asks for one.
    fn is_key_due(&self, now: Time, silence: Duration) -> bool {
        self.key_frames.is_due(now, !silence.is_zero(), self.caution.holds(now))
    }

    /// The link was lost, or the receiver has begun anew: it has none of our states.
    pub fn handle_reset(&mut self) {
        self.history.forget();
        self.key_frames.handle_reset();
        self.shown.handle_reset();
        self.reported = (0, 0);
        self.counters.resets += u64::from(self.next > 0);
    }

    /// Encodes a picture (I420); [`Sender::choose`] decides what goes. One that was encoded before and not decided on is forgotten.
    ///
    /// # Errors
    /// The picture cannot be encoded.
    pub fn encode(
        &mut self,
        now: Time,
        picture: &Picture,
        conditions: Conditions,
        parallel: &dyn Parallel,
    ) -> Result<(), CodingError> {
        self.pending = None;
        self.allowance.begin_picture();
        // What is under way will have left when this picture is encoded.
        let floor = (self.usual_budget * LEAST_EXPECTED) as u64;
        let expected = self.allowance.within(conditions.budget.max(floor));
        let careful = self.caution.holds(now) || !conditions.silence.is_zero();
        let is_same_source = self.resizing.begin(picture);
        let may_refer = is_same_source && !self.is_key_due(now, conditions.silence);
        let source = self.history.source(careful, |state| self.coder.has(state)).filter(|_| may_refer);
        let source = source.map(|(number, state)| (number, state.clone()));
        self.coder.begin(&self.history.dear(source.as_ref().map(|(number, _)| *number)));
        let source_size = source.as_ref().map(|(_, state)| state.size());
        let source = source
            .and_then(|(number, state)| Some((number, self.coder.resampled(&state, self.resizing.coded())?)));
        if source.is_none() {
            self.resizing.begin_key(expected);
        }
        let coded = self.resizing.coded();
        let (number, state) = source.map_or((None, None), |(number, state)| (Some(number), Some(state)));
        let source_size = source_size.filter(|_| state.is_some());
        let request = self.request();
        let size = told_size(source_size, picture.size(), coded);
        let picture = &self.resizing.scaled(picture);
        let task = Task { source: state.as_ref(), picture, request };
        let candidates = if number.is_none() {
            vec![self.encode_key(task, expected, parallel)?]
        } else {
            let mut qualities = self.qualities(now, task, expected, parallel)?;
            match self.coder.encode(task, &qualities, parallel) {
                // Not even the smallest frame has the size that was asked for.
                Err(CodingError::Target { .. }) => {
                    qualities.retain(|quality| matches!(quality, Quality::Quantizer(_)));
                    self.coder.encode(task, &qualities, parallel)?
                }
                other => other?,
            }
        };
        let mut candidates = candidates;
        if number.is_some() {
            candidates.extend(self.second(task, &candidates, expected, parallel)?);
            // Finest first, as sizes say it.
            candidates.sort_by_key(|encoded| std::cmp::Reverse(encoded.bytes.len()));
            let sizes: Vec<_> =
                candidates.iter().map(|encoded| (encoded.quantizer, encoded.bytes.len())).collect();
            self.ladder.learn(&sizes);
        }
        self.counters.pictures += 1;
        self.pending = Some(Pending {
            captured: picture.captured,
            begun: now,
            passed: no_stages(),
            source: number,
            careful,
            expected,
            candidates,
            picture: picture.clone(),
            state,
            source_size,
            size,
            request,
        });
        Ok(())
    }

    /// At which size and speed the picture was encoded that [`Sender::choose`] decides on, and in how many qualities one after
    /// the other, where further ones do not cost little.
    pub(crate) fn pending_coding(&self) -> Option<(Size, u8, Option<usize>)> {
        let pending = self.pending.as_ref()?;
        let in_turn = (!self.coder.has_cheap_candidates()).then_some(pending.candidates.len());
        Some((pending.picture.size(), pending.request.speed, in_turn))
    }

    fn request(&self) -> Request {
        Request {
            speed: self.resizing.speed(self.settings.speed),
            renews_long_term: self.since_long_term >= LONG_TERM_INTERVAL,
        }
    }

    /// When the pending picture passed each stage up to its encoding, on a clock that is zero at its capture.
    pub fn stamp(&mut self, stamps: Stamps) {
        if let Some(pending) = &mut self.pending {
            pending.passed = stamps;
        }
    }

    /// Decides what goes of the picture that was encoded last, by the budget now. `may_search`: there is time for a search of a
    /// size where no candidate fits ([`Sender::may_search`]).
    ///
    /// # Errors
    /// The search fails.
    pub fn choose(
        &mut self,
        budget: u64,
        may_search: bool,
        parallel: &dyn Parallel,
    ) -> Result<Option<Choice>, CodingError> {
        let Some(mut pending) = self.pending.take() else { return Ok(None) };
        // A key frame's is that of a longer time.
        if pending.source.is_some() || self.next == 0 {
            self.usual_budget += USUAL_GAIN * (budget as f64 - self.usual_budget);
        }
        let allowed = self.allowance.within(budget);
        let mut head = self.head(&pending);
        let listed = |pending: &Pending, head: usize| -> Vec<Candidate> {
            let candidate = |encoded: &Encoded| Candidate {
                quantizer: encoded.quantizer,
                bytes: encoded.bytes.len() + head,
            };
            pending.candidates.iter().map(candidate).collect()
        };
        let mut candidates = listed(&pending, head.len());
        // Indices are finest first; sizes nearly always go along, and where they don't the larger one is no worse.
        let fits = |candidates: &[Candidate], budget: u64| {
            let fitting =
                candidates.iter().enumerate().filter(|(_, candidate)| candidate.bytes as u64 <= budget);
            fitting.max_by_key(|(_, candidate)| candidate.bytes).map(|(index, _)| index)
        };
        let smallest = |candidates: &[Candidate]| {
            candidates.iter().enumerate().min_by_key(|(_, candidate)| candidate.bytes).map(|(index, _)| index)
        };
        let (chosen, reason) = if self.settings.codec == CodecMode::Conventional {
            (smallest(&candidates), Reason::Conventional)
        } else if let Some(index) = fits(&candidates, allowed) {
            (Some(index), Reason::Fits)
        } else if let Some(index) = smallest(&candidates).filter(|_| fits(&candidates, budget).is_some()) {
            // What the network takes and the cap does not is saved with the next pictures: none is left out for that.
            (Some(index), Reason::Fits)
        } else if may_search && self.search(&mut pending, budget, head.len(), parallel)? {
            candidates = listed(&pending, head.len());
            (Some(candidates.len() - 1), Reason::Searched)
        } else if self.skips.takes_smallest(pending.captured)
            || pending.source.is_none() && self.history.len() == 0 && self.next == 0
        {
            (smallest(&candidates), Reason::Smallest)
        } else {
            (None, Reason::Skipped)
        };
        if let Some(index) = chosen
            && let Some(factor) =
                self.resizing.rescue(&mut pending, index, self.settings.speed, &mut *self.coder, parallel)?
        {
            self.ladder.rescale(factor);
            head = self.head(&pending);
            candidates = listed(&pending, head.len());
        }
        let decision = Decision {
            slot: self.counters.pictures - 1,
            captured: pending.captured,
            number: chosen.map(|_| self.next),
            source: pending.source,
            careful: pending.careful,
            codec: self.settings.video_codec,
            size: pending.picture.size(),
            expected: pending.expected,
            budget: allowed,
            candidates,
            chosen,
            reason,
        };
        self.skips.note(reason, pending.captured, self.interval());
        let Some(chosen) = chosen else {
            self.counters.skipped += 1;
            return Ok(Some(Choice { decision, message: None, is_dear: false }));
        };
        let place = if chosen == 0 { 0 } else { 1 + usize::from(chosen + 1 == pending.candidates.len()) };
        self.counters.chosen[place] += 1;
        let encoded = pending.candidates.swap_remove(chosen);
        let state = &encoded.state;
        let header =
            PictureHeader { target: state.tag(), codec: state.frame_codec(), ..self.header(&pending) };
        head.clear();
        header.write(&mut head);
        head.extend_from_slice(&encoded.bytes);
        let is_chained = pending.source.is_some_and(|source| source + 1 == self.next);
        let was_chained = std::mem::replace(&mut self.is_chained, is_chained);
        let is_dear = pending.source.is_none() || was_chained && !is_chained;
        self.commit(&pending, &encoded, head.len());
        self.resizing.keep_sample(pending, encoded);
        Ok(Some(Choice { decision, message: Some(head.into()), is_dear }))
    }

    fn header(&self, pending: &Pending) -> PictureHeader {
        let kept = self.history.kept(self.next).min(pending.source.unwrap_or(self.next));
        PictureHeader {
            epoch: self.settings.epoch,
            number: self.next,
            source: pending.source,
            kept,
            target: StateTag([0; 8]),
            // All candidates are of one codec.
            codec: pending.candidates.first().map_or(FrameCodec::Vp8, |encoded| encoded.state.frame_codec()),
            captured: pending.picture.captured_utc.unwrap_or_default(),
            rate: Some(self.settings.frame_rate).filter(|_| pending.source.is_none()),
            size: pending.size,
            passed: pending.passed,
        }
    }

    /// The header as bytes, of the length that it will have.
    fn head(&self, pending: &Pending) -> Vec<u8> {
        let mut head = Vec::with_capacity(PictureHeader::BYTES_MAX);
        self.header(pending).write(&mut head);
        head
    }

    /// The picture goes.
    fn commit(&mut self, pending: &Pending, encoded: &Encoded, bytes: usize) {
        let is_long_term = pending.request.renews_long_term || pending.source.is_none();
        self.since_long_term = if is_long_term { 0 } else { self.since_long_term + 1 };
        self.counters.sent += 1;
        self.counters.bytes += bytes as u64;
        self.counters.key += u64::from(pending.source.is_none());
        self.allowance.spend(bytes);
        if pending.source.is_none() {
            self.key_frames.sent(pending.begun, self.next);
        }
        self.on_screen.clone_from(&encoded.picture);
        self.history.push(self.next, encoded.state.clone(), pending.source);
        self.next += 1;
        if pending.source.is_some()
            && let Some(factor) = self.resizing.sent(pending.captured, encoded.quantizer)
        {
            self.ladder.rescale(factor);
        }
    }

    /// Where it is time for it: encodes the picture that was sent last once more, at the next smaller or larger size, and takes
    /// that size from the next picture on if it is nearer to the source. To be called when a picture has left and there is
    /// time until the next one ([`Sender::may_compare`]): it takes as long as encoding a picture in two or three qualities.
    /// Returns the size that was tried.
    ///
    /// # Errors
    /// The picture cannot be encoded.
    pub fn compare_sizes(&mut self, now: Time, parallel: &dyn Parallel) -> Result<Option<Size>, CodingError> {
        let tried = self.resizing.compare(now, self.settings.speed, &mut *self.coder, parallel)?;
        let Some(Tried { size, factor }) = tried else { return Ok(None) };
        if let Some(factor) = factor {
            self.ladder.rescale(factor);
        }
        Ok(Some(size))
    }

    /// The link calls the message of the picture that was sent last so.
    pub fn sent(&mut self, message: MessageId) {
        if let Some(last) = self.next.checked_sub(1) {
            self.history.set_message(last, message);
        }
    }

    /// The link did not take the message of the picture that was sent last.
    pub fn not_sent(&mut self, now: Time) {
        if let Some(last) = self.next.checked_sub(1) {
            self.lose(now, last);
        }
    }

    /// Whether pictures are coded against what the receiver is known to have alone, for losses of late.
    pub fn is_careful(&self, now: Time) -> bool {
        self.caution.holds(now)
    }

    /// How many pictures the receiver is behind what was sent, as far as it has said.
    pub fn behind(&self) -> u64 {
        self.history.base().map_or(self.next, |base| self.next - 1 - base)
    }
}
