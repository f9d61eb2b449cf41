//! A second of pictures that were sent, encoded once more in another way.

use super::line::SharedLine;
use super::variant::Variant;
use crate::coder::CodingError;
use crate::decision::Conditions;
use crate::send_loop::choice::Coding;
use crate::sender::{Sender, distortion};
use crate::settings::SenderSettings;
use glassline_codec::vp8::Parallel;
use glassline_media::{Picture, Size, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// How much of the source a trial looks at, and in how many pictures at least and at most.
const LENGTH: Duration = Duration::from_secs(1);
const PICTURES: std::ops::RangeInclusive<u64> = 12..=60;
/// Bytes of pictures that wait for being encoded by the other codec: those of two seconds of 720p. A trial of larger pictures is
/// shorter.
const WAITING_MAX: usize = 96 << 20;
/// The share of the pictures that both codecs have for coming to what they can do.
const SETTLING: f64 = 0.45;
/// Pictures that are compared with their source.
const JUDGED: u64 = 11;
/// In how many qualities VP8 encodes in a trial at most.
const CANDIDATES: usize = 3;
/// What is taken to be no answer of the link at all: what is encoded with caution is encoded so here too.
const SILENCE: Duration = Duration::from_millis(1);
/// What was known of a budget before, at most, as a multiple of it.
const KNOWN_SHARE_MAX: f64 = 4.0;
/// Pictures that are this near to their source look alike: 1 - SSIM.
const ALIKE: f64 = 0.001;

/// A picture that was offered to the link.
#[derive(Clone, Debug)]
pub(in crate::send_loop) struct Seen {
    pub(in crate::send_loop) picture: Picture,
    /// When it was decided on.
    pub(in crate::send_loop) now: Time,
    /// What it could take before it was encoded, what was expected of then, and what it could take then; bytes.
    pub(in crate::send_loop) before: u64,
    pub(in crate::send_loop) ahead: u64,
    pub(in crate::send_loop) budget: u64,
    /// Within which time.
    pub(in crate::send_loop) horizon: Duration,
    pub(in crate::send_loop) is_shared: bool,
    /// What it was coded against, and whether that was chosen with caution.
    pub(in crate::send_loop) source: Option<u64>,
    pub(in crate::send_loop) careful: bool,
    /// Its number and its bytes, if it was sent.
    pub(in crate::send_loop) sent: Option<(u64, usize)>,
    /// What is on screen since.
    pub(in crate::send_loop) shown: Option<Picture>,
}

/// A step of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The picture before the first one was taken as it is.
    Begun(Coding),
    /// A picture was encoded.
    Encoded(Coding),
    /// The other codec has compared its pictures with themselves at this size.
    Compared(Size),
    /// A picture of this size was compared with its source.
    Judged(Size),
}

/// What is known when a trial ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Found {
    /// By how much the other codec's pictures are nearer to the source, dB; `None`: both are as good as the source.
    pub(super) gain_db: Option<f64>,
    /// What the other codec takes for a picture.
    pub(super) encoding: Duration,
}

/// Of what a picture is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Ours,
    Theirs,
}

/// The other codec, and what was sent that it has not encoded yet.
pub(super) struct Trial {
    pub(super) other: Variant,
    shadow: Sender,
    line: SharedLine,
    length: u64,
    noted: u64,
    encoded: u64,
    waiting: VecDeque<Seen>,
    /// What was on screen before the first one, where something was: both go on from there, since what has come to be over seconds,
    /// such as a background, says nothing of the codec.
    before: Option<Picture>,
    /// Pictures that were sent, and the newest one of the other codec then.
    numbers: Vec<(u64, u64)>,
    /// It may be time for the other codec to compare sizes.
    compares: bool,
    judging: VecDeque<(Picture, Picture, Side)>,
    /// 1 - SSIM of our pictures that were compared, and of theirs.
    ours: Vec<f64>,
    theirs: Vec<f64>,
    encoding: Duration,
}

impl Trial {
    /// A trial of `other`, of which a sender has these settings, beside what is sent of a source of this size.
    pub(super) fn new(
        settings: SenderSettings,
        other: Variant,
        size: Size,
        before: Option<Picture>,
    ) -> Trial {
        let pictures = (LENGTH.as_secs_f64() * settings.frame_rate.as_f64()).round() as u64;
        let bytes = u64::from(size.width) * u64::from(size.height) * 3 / 2;
        let held = (WAITING_MAX as u64 / bytes.max(1)).max(1);
        let length = pictures.clamp(*PICTURES.start(), *PICTURES.end()).min(held);
        let candidates = settings.candidates.min(CANDIDATES);
        let mut shadow = Sender::new(SenderSettings { candidates, ..settings });
        shadow.keep_pictures(true);
        Trial {
            other,
            shadow,
            line: SharedLine::default(),
            length,
            noted: 0,
            encoded: 0,
            waiting: VecDeque::new(),
            before,
            numbers: Vec::new(),
            compares: false,
            judging: VecDeque::new(),
            ours: Vec::new(),
            theirs: Vec::new(),
            encoding: Duration::ZERO,
        }
    }

    /// Whether it looks at further pictures.
    pub(super) fn wants_more(&self) -> bool {
        self.noted < self.length
    }

    /// Takes a picture that was offered to the link. False where nothing of the trial is worth anything any more: a key frame was
    /// sent within it.
    pub(super) fn note(&mut self, seen: Seen) -> bool {
        let is_cut = self.noted > 0 && seen.sent.is_some() && seen.source.is_none();
        if self.wants_more() {
            self.noted += 1;
            self.waiting.push_back(seen);
        }
        !is_cut || !self.wants_more()
    }

    /// Whether the picture that comes at `place` is compared with its source.
    fn is_judged(&self, place: u64) -> bool {
        let first = (self.length as f64 * SETTLING) as u64;
        let each = ((self.length - first) / JUDGED).max(1);
        place >= first && (place - first).is_multiple_of(each)
    }

    /// What the next step takes, where there is one: as `encoding` for a picture is known from elsewhere, `judging` for a comparison.
    pub(super) fn next_takes(&self, encoding: Duration, judging: Duration) -> Option<Duration> {
        let usual = if self.encoding.is_zero() { encoding } else { self.encoding };
        if self.before.is_some() {
            Some(usual)
        } else if self.compares {
            Some(usual + judging)
        } else if !self.judging.is_empty() {
            Some(judging)
        } else {
            self.waiting.front().map(|_| usual)
        }
    }

    /// Goes on by one step, if there is one.
    pub(super) fn step(&mut self, parallel: &dyn Parallel) -> Result<Option<Step>, CodingError> {
        if let Some(picture) = self.before.take() {
            self.shadow.begin_with(&picture, parallel)?;
            let coding = Coding { size: picture.size(), speed: 0, candidates: 1, in_turn: true };
            return Ok(Some(Step::Begun(coding)));
        }
        if std::mem::take(&mut self.compares)
            && let Some(at) = self.line.at()
            && let Some(size) = self.shadow.compare_sizes(at, parallel)?
        {
            return Ok(Some(Step::Compared(size)));
        }
        if let Some((source, shown, side)) = self.judging.pop_front() {
            let found = distortion(&source, Some(&shown)).max(f64::MIN_POSITIVE);
            match side {
                Side::Ours => self.ours.push(found),
                Side::Theirs => self.theirs.push(found),
            }
            return Ok(Some(Step::Judged(source.size())));
        }
        match self.waiting.pop_front() {
            Some(seen) => self.encode(seen, parallel).map(Some),
            None => Ok(None),
        }
    }

    fn encode(&mut self, seen: Seen, parallel: &dyn Parallel) -> Result<Step, CodingError> {
        self.line.note(seen.now, seen.budget, seen.horizon);
        if let Some(source) = seen.source {
            let newest = self.numbers.iter().rev().find(|(ours, _)| *ours <= source);
            self.shadow.follow(newest.map_or(0, |(_, theirs)| *theirs), seen.careful);
        }
        let is_cheap = self.shadow.has_cheap_candidates();
        let budget = self.line.their_budget(self.shadow.horizon(seen.now, Duration::ZERO, seen.is_shared));
        // What was known when encoding began is wrong by as much as it was for ours.
        let known = if is_cheap { seen.ahead } else { seen.before };
        let share = (known as f64 / seen.budget.max(1) as f64).min(KNOWN_SHARE_MAX);
        let silence = if seen.careful { SILENCE } else { Duration::ZERO };
        let conditions = Conditions { budget: (budget as f64 * share) as u64, silence };
        self.shadow.encode(seen.now, &seen.picture, conditions, parallel)?;
        let coding = self.shadow.pending_coding();
        let choice = self.shadow.choose(budget, !is_cheap, parallel)?;
        let bytes = choice.and_then(|choice| choice.message).map_or(0, |message| message.len());
        self.line.sent(seen.sent.map_or(0, |(_, bytes)| bytes), bytes);
        if let (Some((number, _)), Some(theirs)) = (seen.sent, self.shadow.next().checked_sub(1)) {
            self.numbers.push((number, theirs));
        }
        if self.is_judged(self.encoded)
            && let (Some(ours), Some(theirs)) = (seen.shown, self.shadow.on_screen().cloned())
        {
            self.judging.push_back((seen.picture.clone(), ours, Side::Ours));
            self.judging.push_back((seen.picture.clone(), theirs, Side::Theirs));
        }
        self.encoded += 1;
        self.compares = is_cheap;
        let candidates = if is_cheap { CANDIDATES } else { 1 };
        let (size, speed, in_turn) = coding.unwrap_or((seen.picture.size(), 0, None));
        let candidates = in_turn.unwrap_or(candidates);
        Ok(Step::Encoded(Coding { size, speed, candidates, in_turn: in_turn.is_some() }))
    }

    /// A step took so long.
    pub(super) fn took(&mut self, step: Step, time: Duration) {
        if matches!(step, Step::Encoded(_)) {
            let gain = if self.encoding.is_zero() { 1.0 } else { 0.2 };
            self.encoding = self.encoding.mul_f64(1.0 - gain) + time.mul_f64(gain);
        }
    }

    /// What came of it, once all is done.
    pub(super) fn found(&self) -> Option<Found> {
        let is_over = self.encoded >= self.length && self.judging.is_empty();
        let pairs = || self.ours.iter().zip(&self.theirs);
        let mut gains: Vec<f64> = pairs().map(|(ours, theirs)| 10.0 * (ours / theirs).log10()).collect();
        gains.sort_by(f64::total_cmp);
        let is_alike = pairs().all(|(ours, theirs)| ours.max(*theirs) < ALIKE);
        // The one in the middle: behind a cut one codec is far behind the other for some pictures, which says nothing of the others.
        let gain_db = gains.get(gains.len() / 2).copied().filter(|gain| gain.is_finite() && !is_alike);
        is_over.then_some(Found { gain_db, encoding: self.encoding })
    }
}
