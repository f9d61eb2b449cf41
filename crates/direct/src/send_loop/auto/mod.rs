//! Which codec pictures are sent in, and AV1 at which size, where that is left to the loop.
//!
//! What a codec makes of a source cannot be read off it, and what a line lets it use depends on how it is steered. So a second of
//! pictures that were sent is encoded once more in another [`Variant`], each against what the one before it left, within what the line
//! would have had for it ([`line::SharedLine`]), and some of them are compared with the source in both. That happens step by step
//! behind pictures that have left, as far as there is time before the next one comes, and leaves no trace but in the choice.
//!
//! VP8 compares sizes by itself, picture by picture ([`crate::size`]), since it changes them without a key frame; AV1 needs one.

mod line;
mod trial;
mod variant;

pub(super) use self::trial::Seen;

use self::trial::{Found, Step, Trial};
use self::variant::Variant;
use super::choice::{Aside, CodecChoice, CodecReason};
use super::effort::BUSY;
use crate::coder::CodingError;
use crate::settings::{SenderSettings, VideoCodec};
use crate::size::CodedSize;
use glassline_codec::av1::SIDES;
use glassline_codec::vp8::Parallel;
use glassline_media::{Picture, Size, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// By how much the pictures of another variant have to be better, dB: those of another size; those of another codec in the first round,
/// when nothing is known, and later.
const SIZE_MARGIN_DB: f64 = 0.1;
const FIRST_MARGIN_DB: f64 = 0.1;
const MARGIN_DB: f64 = 0.2;
/// From one round of trials to the next, at first and at most.
const INTERVAL: Duration = Duration::from_secs(10);
const INTERVAL_MAX: Duration = Duration::from_secs(80);
/// The same where AV1 is encoded at a smaller size.
const SMALL_INTERVAL: Duration = Duration::from_secs(4);
/// How soon another trial begins at least where what is sent is another than before: its first pictures tell nothing.
const SETTLING: Duration = Duration::from_secs(1);
/// By how many indices the quantiser moves until a round is made sooner, how much one picture counts in that, and how long after the
/// end of the last one it is made at least.
const MOVED: f64 = 14.0;
const GAIN: f64 = 0.1;
const MOVED_WAIT: Duration = Duration::from_secs(5);
/// A trial that has not ended by then, since there is hardly ever time for a step, is given up.
const PATIENCE: Duration = Duration::from_secs(6);
/// Pictures in a row for which the fastest encoder takes too long, until less is done, and how long that is not tried again.
const BUSY_PICTURES: u32 = 30;
const BUSY_WAIT: Duration = Duration::from_secs(60);
/// What a comparison of a picture with its source takes, for each sample, before one was made: 4 ms of 720p.
const JUDGING_NANOS: f64 = 4.3;
/// From one change to another one that the receiver wants, at least.
const WISH_INTERVAL: Duration = Duration::from_secs(2);
/// Choices that were not asked for yet, at most.
const UNTOLD_MAX: usize = 8;

/// What the receiver shows when a picture comes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Before<'a> {
    /// Nothing was sent.
    Nothing,
    /// What was sent last; `None`: it was not kept.
    Shows(Option<&'a Picture>),
}

/// Keeps the variant.
pub(super) struct Auto {
    settings: SenderSettings,
    now: Variant,
    /// Of the source.
    size: Option<Size>,
    trial: Option<(Trial, Time)>,
    /// What is tried one after the other.
    round: VecDeque<Variant>,
    /// When what is sent changed last.
    changed: Option<Time>,
    /// The receiver takes one codec alone, at one size.
    is_pinned: bool,
    /// A trial begins as soon as it is known what is on screen.
    is_armed: bool,
    /// When the next trial begins, and how long after the end of a round the next one.
    due: Option<Time>,
    wait: Duration,
    /// When the last round ended.
    ended: Option<Time>,
    /// What was better in the last trial, and is tried once more.
    found: Option<Variant>,
    /// The quantiser of the last pictures, and that of when a round began.
    quantizer: Option<f64>,
    quantizer_then: Option<f64>,
    judging: Duration,
    /// Pictures in a row that took too long.
    busy: u32,
    /// What is as costly as this is not tried before.
    too_costly: Option<(Variant, Time)>,
    /// What is under way, which the caller times.
    step: Option<Step>,
    choices: VecDeque<CodecChoice>,
}

impl Auto {
    /// Where something is left to the loop.
    pub(super) fn of(settings: &SenderSettings) -> Option<Auto> {
        let is_left = match settings.video_codec {
            VideoCodec::Auto => true,
            VideoCodec::Av1 => settings.size == CodedSize::Adaptive,
            VideoCodec::Vp8 => false,
        };
        (is_left && settings.codec == crate::settings::CodecMode::Functional)
            .then(|| Auto::fresh(settings.clone(), None))
    }

    fn fresh(settings: SenderSettings, too_costly: Option<(Variant, Time)>) -> Auto {
        Auto {
            settings,
            now: Variant::FIRST,
            size: None,
            trial: None,
            round: VecDeque::new(),
            changed: None,
            is_pinned: false,
            is_armed: false,
            due: None,
            wait: INTERVAL,
            ended: None,
            found: None,
            quantizer: None,
            quantizer_then: None,
            judging: Duration::ZERO,
            busy: 0,
            too_costly,
            step: None,
            choices: VecDeque::new(),
        }
    }

    /// The settings of a sender of what is sent now.
    pub(super) fn settings(&self) -> SenderSettings {
        self.now.settings(&self.settings, self.size)
    }

    /// The receiver has begun anew, and may be another one: as at the beginning. Returns whether what is sent is another.
    pub(super) fn handle_reset(&mut self) -> bool {
        let (before, choices) = (self.now, std::mem::take(&mut self.choices));
        let fresh = Auto::fresh(self.settings.clone(), self.too_costly);
        *self = Auto { size: self.size, choices, ..fresh };
        self.now != before
    }

    /// Whether a variant can be had and may be tried.
    fn may_be(&self, variant: Variant, now: Time) -> bool {
        let Some(size) = self.size.and_then(|size| variant.size(size)) else { return false };
        let is_codec = variant == Variant::Vp8 && self.settings.video_codec == VideoCodec::Auto
            || variant != Variant::Vp8 && [size.width, size.height].iter().all(|side| SIDES.contains(side));
        let is_size = variant.is_whole() || self.settings.size == CodedSize::Adaptive;
        let is_cheap =
            self.too_costly.is_none_or(|(costly, until)| now >= until || variant.is_cheaper(costly));
        is_codec && is_size && is_cheap
    }

    /// Another picture comes; `wanted` is the codec that the receiver takes alone. Returns whether what is sent is another from this
    /// picture on.
    pub(super) fn begin(
        &mut self,
        now: Time,
        picture: &Picture,
        wanted: Option<VideoCodec>,
        before: Before<'_>,
    ) -> bool {
        (self.step, self.is_armed, self.is_pinned) = (None, false, wanted.is_some());
        if self.size != Some(picture.size()) {
            // All that was found out was of other pictures.
            (self.size, self.trial, self.due) = (Some(picture.size()), None, None);
            self.round.clear();
            self.judging = Duration::from_nanos((samples(picture.size()) * JUDGING_NANOS) as u64);
            // A smaller size is one of the source before.
            if !self.now.is_whole() {
                let is_other = self.take(now, Variant::FIRST, CodecReason::Size);
                self.due = None;
                return is_other;
            }
        }
        if let Some(codec) = wanted {
            // What passes frames on takes them at one size.
            let variant = if codec == VideoCodec::Vp8 { Variant::Vp8 } else { Variant::FIRST };
            (self.trial, self.due) = (None, Some(now + self.wait));
            self.round.clear();
            let is_known = codec != VideoCodec::Vp8 || self.settings.video_codec == VideoCodec::Auto;
            // Each change is a key frame, and what a receiver says may be anything.
            let may_change = self.changed.is_none_or(|at| now.since(at) >= WISH_INTERVAL);
            return is_known && may_change && self.take(now, variant, CodecReason::Receiver);
        }
        if !self.may_be(self.now, now) {
            let all = [self.now.smaller(), Some(Variant::Vp8)];
            let other = all.into_iter().flatten().find(|variant| self.may_be(*variant, now));
            let is_costly = self.too_costly.is_some_and(|(_, until)| now < until);
            let reason = if is_costly { CodecReason::TooSlow } else { CodecReason::Size };
            return other.is_some_and(|other| self.take(now, other, reason));
        }
        if self.trial.as_ref().is_some_and(|(_, since)| now.since(*since) >= PATIENCE) {
            self.tell(false, CodecReason::NoTime);
            self.end_round(now);
        }
        let has_moved = match (self.quantizer, self.quantizer_then, self.ended) {
            (Some(quantizer), Some(then), Some(ended)) => {
                (quantizer - then).abs() > MOVED && now.since(ended) >= MOVED_WAIT
            }
            _ => false,
        };
        if self.trial.is_none() && (has_moved || self.due.is_none_or(|due| now >= due)) {
            match before {
                Before::Nothing => self.begin_trial(now, has_moved, None),
                Before::Shows(Some(picture)) => self.begin_trial(now, has_moved, Some(picture.clone())),
                Before::Shows(None) => self.is_armed = true,
            }
        }
        false
    }

    fn begin_trial(&mut self, now: Time, has_moved: bool, on_screen: Option<Picture>) {
        if self.round.is_empty() {
            self.round.extend(self.now.others());
            self.quantizer_then = self.quantizer;
            if has_moved {
                self.wait = INTERVAL;
            }
        }
        while let Some(variant) = self.round.pop_front() {
            if self.may_be(variant, now)
                && let Some(size) = self.size
            {
                self.trial = Some((self.trial_of(variant, size, on_screen), now));
                return;
            }
        }
        self.end_round(now);
    }

    fn trial_of(&self, variant: Variant, size: Size, on_screen: Option<Picture>) -> Trial {
        Trial::new(variant.settings(&self.settings, Some(size)), variant, size, on_screen)
    }

    fn end_round(&mut self, now: Time) {
        // A smaller size that was better when the line took little looks worse soon where it takes more.
        let wait = if self.now.is_whole() { self.wait } else { SMALL_INTERVAL };
        (self.trial, self.due, self.ended) = (None, Some(now + wait), Some(now));
        self.round.clear();
        self.wait = (self.wait * 2).min(INTERVAL_MAX);
    }

    /// This variant from the next picture on. Returns whether it is another one.
    fn take(&mut self, now: Time, variant: Variant, reason: CodecReason) -> bool {
        if variant == self.now {
            return false;
        }
        (self.now, self.trial, self.step, self.busy, self.found) = (variant, None, None, 0, None);
        (self.quantizer, self.quantizer_then, self.changed) = (None, None, Some(now));
        (self.wait, self.due) = (INTERVAL, Some(now + INTERVAL));
        self.round.clear();
        self.tell(true, reason);
        true
    }

    fn tell(&mut self, changed: bool, reason: CodecReason) {
        let size = self.size.and_then(|size| self.now.size(size)).filter(|_| self.now != Variant::Vp8);
        if self.choices.len() < UNTOLD_MAX {
            self.choices.push_back(CodecChoice { codec: self.now.codec(), size, changed, reason });
        }
    }

    /// What was found out since the last call.
    pub(super) fn poll_choice(&mut self) -> Option<CodecChoice> {
        self.choices.pop_front()
    }

    /// Whether a trial looks at the next picture.
    pub(super) fn is_trying(&self) -> bool {
        self.trial.as_ref().is_some_and(|(trial, _)| trial.wants_more())
    }

    /// Whether what decoders show of the next pictures is wanted.
    pub(super) fn wants_pictures(&self) -> bool {
        self.is_armed || self.is_trying()
    }

    /// A picture was sent with this quantiser, 0 to 127, by a picture before it and not as a key frame.
    pub(super) fn note_quantizer(&mut self, quantizer: u8) {
        let found = f64::from(quantizer);
        self.quantizer = Some(self.quantizer.map_or(found, |usual| usual + GAIN * (found - usual)));
        if self.quantizer_then.is_none() {
            self.quantizer_then = self.quantizer;
        }
    }

    /// Takes a picture that was offered to the link, for a trial.
    pub(super) fn note(&mut self, seen: Seen) {
        let (size, shown) = (seen.picture.size(), seen.shown.clone());
        if let Some((trial, since)) = &mut self.trial
            && !trial.note(seen)
        {
            let (other, since) = (trial.other, *since);
            self.trial = Some((self.trial_of(other, size, shown), since));
        }
    }

    /// Goes on with a trial, where the next step will be over at `until`.
    pub(super) fn step(
        &mut self,
        now: Time,
        until: Time,
        encoding: Duration,
        parallel: &dyn Parallel,
    ) -> Result<Option<Aside>, CodingError> {
        let Some((trial, _)) = &mut self.trial else { return Ok(None) };
        let is_time = trial.next_takes(encoding, self.judging).is_some_and(|takes| now + takes <= until);
        let step = if is_time { trial.step(parallel)? } else { None };
        self.step = step;
        Ok(step.map(|step| match step {
            Step::Begun(coding) | Step::Encoded(coding) => Aside::Encoded(coding),
            Step::Compared(size) => Aside::Compared(size),
            Step::Judged(size) => Aside::Judged(size),
        }))
    }

    /// The step before has taken so long, and it is `now`. Returns whether what is sent is another from the next picture on.
    pub(super) fn took(&mut self, now: Time, time: Duration) -> bool {
        let (Some(step), Some((trial, _))) = (self.step.take(), &mut self.trial) else { return false };
        trial.took(step, time);
        if matches!(step, Step::Judged(_)) {
            self.judging = self.judging.mul_f64(0.8) + time.mul_f64(0.2);
        }
        let Some(Found { gain_db, encoding }) = trial.found() else { return false };
        let (before, other) = (self.now, trial.other);
        self.trial = None;
        let is_size = before.codec() == other.codec();
        let margin = match is_size {
            true => SIZE_MARGIN_DB,
            false if self.ended.is_some() => MARGIN_DB,
            false => FIRST_MARGIN_DB,
        };
        let is_better = gain_db.is_some_and(|gain| gain >= margin);
        let is_slow =
            encoding > self.settings.frame_rate.time_of(1).mul_f64(BUSY) && !other.is_cheaper(before);
        // What has come about at a cut, or in a second in which the line takes little, may be gone in the next. A larger size is where
        // to go back to.
        let is_larger = is_size && before.is_cheaper(other);
        let is_confirmed = is_larger || self.found == Some(other);
        self.found = is_better.then_some(other);
        if is_better && !is_slow && !is_confirmed {
            self.tell(false, CodecReason::Compared { gain_db });
            self.round.push_front(other);
            self.due = Some(now);
            return false;
        }
        if is_better && !is_slow {
            self.take(now, other, CodecReason::Compared { gain_db });
            // On in that direction, or on with the others.
            self.round.extend(other.beyond(before));
            self.due = Some(now + SETTLING);
            return true;
        }
        self.tell(false, if is_better { CodecReason::TooSlow } else { CodecReason::Compared { gain_db } });
        if self.round.is_empty() {
            self.end_round(now);
        } else {
            self.due = Some(now);
        }
        false
    }

    /// A trial cannot go on: what it needs fails.
    pub(super) fn give_up(&mut self, now: Time) {
        self.step = None;
        self.end_round(now);
    }

    /// A picture was encoded; whether that takes too long with the least effort. Returns whether what is sent is another from the
    /// next picture on.
    pub(super) fn note_effort(&mut self, now: Time, is_exhausted: bool) -> bool {
        self.busy = if is_exhausted { self.busy + 1 } else { 0 };
        if self.busy < BUSY_PICTURES || self.now == Variant::Vp8 || self.is_pinned {
            return false;
        }
        self.busy = 0;
        self.too_costly = Some((self.now, now + BUSY_WAIT));
        let all = [self.now.smaller(), Some(Variant::Vp8)];
        let other = all.into_iter().flatten().find(|variant| self.may_be(*variant, now));
        other.is_some_and(|other| self.take(now, other, CodecReason::TooSlow))
    }
}

fn samples(size: Size) -> f64 {
    f64::from(size.width) * f64::from(size.height)
}
