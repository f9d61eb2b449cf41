//! A slate: what viewers of a live stream see while its publisher is silent or away.
//!
//! ```text
//!  publisher ──────────────┐ silent, gone                  ┌── its next key frame is whole
//!                          ▼                               │
//!  stream    ──▌▌▌▌▌▌▌▌▌▌▌▌ slate: still, still, still, … ▌▌▌▌▌▌▌▌▌▌▌▌
//!  clock     ── 1 2 3 4 5 6 7 8 9 …  goes on through both changes, each announced as a discontinuity
//! ```
//! [`Gate`] stands in front of a [`Stream`]. While the publisher is shown its bytes pass by the gate untouched. When the publisher
//! ends, or is replaced, or its stream has run out for [`Settings::silence`], a [`Reel`] is played in its place: its units go into
//! the stream on the stream's own clock, behind what was shown last, each when it is due; what was missed since then comes at once,
//! so that stamps have no gap. The bytes of a publisher that comes, or that sends again, are held back until its first key frame is
//! whole. Then it is shown from there on, with its stamps moved to where the slate has come to.
//!
//! All of it is pure: bytes and the time come in, bytes go to the stream, and [`Gate::poll_timeout`] says when to call again.

mod cue;
mod reel;
mod run;

pub use reel::{FILE_MAX_BYTES, Reel, ReelError};

use crate::stream::{Reached, Restamp, Stream, StreamError};
use cue::{Cue, Ready};
use glassline_media::bitstream::silence::Silence;
use glassline_media::{Codec, FrameRate, Size, Ticks, Time};
use run::Run;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// The most memory that a publisher takes which is not shown yet: twice what is kept of it, for the moment at which it is shown.
pub const WAITING_MAX_BYTES: u64 = 2 * (cue::HELD_MAX_BYTES as u64 + (1 << 20));

/// How often the pictures of a publisher that is shown are looked at, for what the slate has to be coded for.
const FORMAT_LOOK: Duration = Duration::from_secs(5);

/// What a still is coded for: the pictures that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Format {
    /// Width and height, both even.
    pub size: Size,
    /// Pictures a second.
    pub frame_rate: FrameRate,
}

impl Format {
    /// Where the stream has shown no pictures yet: 1280×720 at 25.
    pub const USUAL: Format = Format {
        size: Size { width: 1280, height: 720 },
        frame_rate: match FrameRate::new(25, 1) {
            Some(rate) => rate,
            None => FrameRate::USUAL[0],
        },
    };
    /// The longest side: a larger picture would take longer to code than a publisher is away.
    const SIDE_MAX: u32 = 4096;
    /// The most pictures a second: of a faster stream every second one.
    const RATE_MAX: f64 = 60.0;

    /// Rates of slow streams, beside the usual ones.
    const SLOW: [u32; 5] = [5, 10, 12, 15, 20];

    /// The usual rate that is nearest to a measured one, whatever that is: a publisher of variable frame rate shows another rate at
    /// each look, and each would be coded.
    fn usual_rate(rate: FrameRate) -> FrameRate {
        let distance = |usual: &FrameRate| (usual.as_f64() / rate.as_f64()).ln().abs();
        let slow = Format::SLOW.into_iter().filter_map(|rate| FrameRate::new(rate, 1));
        let nearest = slow.chain(FrameRate::USUAL).min_by(|a, b| distance(a).total_cmp(&distance(b)));
        nearest.unwrap_or(Format::USUAL.frame_rate)
    }

    /// What the pictures that `stream` has shown last are like.
    pub fn of(stream: &Stream) -> Format {
        let step = stream.reached().and_then(Reached::video_step);
        let (Some(step), Some(details)) = (step, stream.video_details()) else { return Format::USUAL };
        let Size { width, height } = details.size;
        let size = Size { width: width & !1, height: height & !1 };
        let is_usable = |side: u32| (16..=Format::SIDE_MAX).contains(&side);
        let size = Some(size).filter(|size| is_usable(size.width) && is_usable(size.height));
        let step = u32::try_from(step.0).ok().filter(|step| *step > 0);
        let rate = FrameRate::believed(details.frame_rate, step);
        let rate = rate.map_or(Format::USUAL.frame_rate, Format::usual_rate);
        let halved = FrameRate::new(rate.numerator(), rate.denominator().saturating_mul(2));
        let is_fast = rate.as_f64() > Format::RATE_MAX;
        Format {
            size: size.unwrap_or(Format::USUAL.size),
            frame_rate: halved.filter(|_| is_fast).unwrap_or(rate),
        }
    }
}

/// What of a slate operators are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Status {
    /// Whether it is shown now.
    pub on_air: bool,
    /// Times that it was shown.
    pub times: u64,
    /// How long in all, in seconds.
    pub seconds: u64,
}

/// Something that has happened, for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The slate is shown.
    Shown {
        /// The publisher's pictures were of this codec, which the slate's are not.
        instead_of: Option<Codec>,
        /// The publisher's sound has no silence that could be made without an encoder.
        without_sound: bool,
    },
    /// A publisher is shown.
    Over,
    /// The slate cannot be shown: its codec has no place in MPEG-TS.
    Unplayable {
        /// Of its pictures.
        codec: Codec,
    },
}

#[derive(Debug)]
enum State {
    /// The publisher is shown.
    Passing,
    Away(Box<Away>),
}

/// The publisher is not shown.
#[derive(Debug)]
struct Away {
    run: Option<Run>,
    shown_since: Option<Time>,
    /// The publisher that has come, or is silent.
    cue: Option<Cue>,
}

/// See the module.
#[derive(Debug)]
pub struct Gate {
    silence: Duration,
    reel: Option<Arc<Reel>>,
    state: State,
    /// The last request of a publisher has ended, and nothing has shown that others follow it: from then on it has gone.
    gone_at: Option<Time>,
    /// What the slate has to be coded for, and when that was looked at last; `None`: it has to be looked at now.
    format: (Format, Option<Time>),
    times: u64,
    shown: Duration,
    change: Option<Change>,
    scratch: Vec<u8>,
}

impl Gate {
    /// A gate in front of `stream`, of which a publisher is shown, or none; it is silent after `silence`. From here on the stream's
    /// stamps are followed.
    pub fn new(silence: Duration, is_shown: bool, has_publisher: bool, stream: &mut Stream) -> Gate {
        stream.follow_stamps(true);
        let cue = has_publisher.then(Cue::new);
        let state = if is_shown { State::Passing } else { State::away(cue) };
        Gate {
            silence,
            reel: None,
            state,
            gone_at: None,
            format: (Format::USUAL, None),
            times: 0,
            shown: Duration::ZERO,
            change: None,
            scratch: Vec::new(),
        }
    }

    /// How long a publisher may be silent from here on.
    pub fn set_silence(&mut self, silence: Duration) {
        self.silence = silence;
    }

    /// What is shown from here on; where another one is shown now, it is replaced.
    pub fn set_reel(&mut self, reel: Option<Arc<Reel>>) {
        self.reel = reel;
        if let State::Away(away) = &mut self.state {
            away.run = None;
        }
    }

    /// Whether a publisher's bytes go into the stream as they come; otherwise they go to [`Gate::push`].
    pub fn is_passing(&self) -> bool {
        matches!(self.state, State::Passing)
    }

    /// A publisher has got the stream: it is shown from its first key frame on.
    pub fn begin_publisher(&mut self, stream: &mut Stream) {
        stream.count_session();
        self.begin_anew();
    }

    /// What the publisher sends from here on does not continue what it has sent.
    pub fn begin_anew(&mut self) {
        self.leave(Some(Cue::new()));
    }

    /// The publisher goes on in another request, as by [`Stream::return_session`]: where it is not shown yet, what came of it is
    /// kept. Returns whether it can go on: not where nothing of it is known any more.
    pub fn return_publisher(&mut self, stream: &mut Stream, may: bool) -> bool {
        let can = match &mut self.state {
            State::Passing => stream.return_session(may),
            State::Away(away) => match &mut away.cue {
                Some(cue) => {
                    cue.return_publisher(may);
                    true
                }
                None => false,
            },
        };
        if can {
            self.gone_at = None;
        }
        can
    }

    /// A request of the publisher has ended, and another one may follow it. Where none has come at `until`, the publisher has gone.
    pub fn rest_publisher(&mut self, until: Time) {
        self.gone_at = Some(until);
    }

    /// The publisher has ended.
    pub fn end_publisher(&mut self) {
        self.leave(None);
    }

    fn leave(&mut self, cue: Option<Cue>) {
        self.gone_at = None;
        match &mut self.state {
            State::Passing => {
                self.state = State::away(cue);
                self.format.1 = None;
            }
            State::Away(away) => away.cue = cue,
        }
    }

    /// Takes bytes of a publisher, which go into the stream as they come where it is shown. `append` and what is returned are as
    /// of [`Stream::push`].
    ///
    /// # Errors
    /// As of [`Stream::push`].
    pub fn push(
        &mut self,
        bytes: &[u8],
        stream: &mut Stream,
        now: Time,
        append: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, StreamError> {
        stream.count_bytes(bytes.len());
        if !self.is_passing() {
            return self.hold(bytes, stream, now, append);
        }
        let has_enough = stream.push_uncounted(bytes, now, append)?;
        let Some(foreign) = stream.take_foreign() else { return Ok(has_enough) };
        // Its packets have shown that they do not go on with the request before: it is another publisher.
        self.begin_publisher(stream);
        Ok(self.hold(&foreign, stream, now, append)? || has_enough)
    }

    fn hold(
        &mut self,
        bytes: &[u8],
        stream: &mut Stream,
        now: Time,
        append: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, StreamError> {
        let State::Away(away) = &mut self.state else { return Ok(false) };
        let cue = away.cue.get_or_insert_with(Cue::new);
        let found = cue.push(bytes, now);
        stream.count_garbage(cue.take_garbage());
        if cue.take_began_anew() {
            stream.count_session();
        }
        match found? {
            Some(ready) => self.show(ready, stream, now, append),
            None => Ok(false),
        }
    }

    /// Shows a publisher from its key frame on.
    fn show(
        &mut self,
        ready: Ready,
        stream: &mut Stream,
        now: Time,
        append: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, StreamError> {
        self.play(stream, now, append)?;
        let State::Away(away) = std::mem::replace(&mut self.state, State::Passing) else { return Ok(false) };
        let end = stream.reached().and_then(Reached::lead_track);
        let sound = stream.reached().and_then(Reached::sound_end);
        let restamp = ready.stamps.zip(end).map(|((dts, pts), end)| {
            let order = (pts - dts).max(Ticks(0));
            let step = end.step.max(Ticks(1));
            // Behind the last picture in both orders, that of decoding and that of presentation.
            let next = stream.reached().and_then(|reached| reached.next_dts(now));
            let begins = next.unwrap_or(end.dts + step).max(end.dts + step);
            let mut begins = begins.max(end.pts + step - order);
            if away.run.is_none()
                && let Some(live) = stream.reached().and_then(|reached| reached.live_at(now))
            {
                begins = begins.max(live);
            }
            (Restamp::by(begins - dts), begins, begins + order)
        });
        if let (Some((_, dts, pts)), Some(mut run)) = (&restamp, away.run) {
            let mut out = std::mem::take(&mut self.scratch);
            out.clear();
            run.bridge(*dts, *pts, &mut out);
            stream.push_uncounted(&out, now, append)?;
            self.scratch = out;
        }
        self.note_over(away.shown_since, now);
        stream.begin_part(now);
        if let Some((restamp, ..)) = restamp {
            stream.restamp(match ready.sound_pid.zip(sound) {
                Some((pid, from)) => restamp.with_sound_from(pid, from, now),
                None => restamp,
            });
        }
        let has_enough = stream.push_uncounted(&ready.packets, now, append)?;
        Ok(stream.push_uncounted(&ready.rest, now, append)? || has_enough)
    }

    fn note_over(&mut self, shown_since: Option<Time>, now: Time) {
        if let Some(since) = shown_since {
            self.shown = self.shown.saturating_add(now.since(since));
            self.change = Some(Change::Over);
        }
    }

    /// When [`Gate::handle_timeout`] has to be called; `None`: not before something happens. Changes with each call.
    pub fn poll_timeout(&self, stream: &Stream, now: Time) -> Option<Time> {
        match &self.state {
            // Without a slate the publisher's last picture is the best that there is.
            State::Passing => self.reel.as_ref().map(|_| self.leaves_at(stream)),
            State::Away(away) => match &away.run {
                Some(run) => Some(run.poll_timeout()),
                None => self.reel.as_ref().map(|_| Run::begins_at(stream.reached(), now)),
            },
        }
    }

    /// When the publisher that is shown is shown no longer.
    fn leaves_at(&self, stream: &Stream) -> Time {
        let silent_at = self.silent_at(stream);
        self.gone_at.map_or(silent_at, |gone_at| gone_at.min(silent_at))
    }

    /// When the publisher that is shown counts as silent: so long after its last byte, and after what it has sent has run out.
    fn silent_at(&self, stream: &Stream) -> Time {
        let newest = stream.newest_at().unwrap_or(Time::ZERO);
        let runs_out = stream.reached().and_then(|reached| reached.due(reached.lead_track()?.dts));
        let latest = newest + Duration::from_secs(10);
        newest.max(runs_out.unwrap_or(newest).min(latest)) + self.silence
    }

    /// A time that [`Gate::poll_timeout`] asked for has come. `append` and what is returned are as of [`Stream::push`].
    ///
    /// # Errors
    /// As of [`Stream::push`].
    pub fn handle_timeout(
        &mut self,
        stream: &mut Stream,
        now: Time,
        append: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, StreamError> {
        if self.is_passing() {
            if self.reel.is_none() || now < self.leaves_at(stream) {
                self.look_at_format(stream, now);
                return Ok(false);
            }
            let cue =
                stream.reading().map_or_else(Cue::new, |(aligner, scanner)| Cue::after(aligner, scanner));
            self.leave(Some(cue));
        }
        self.look_at_format(stream, now);
        self.play(stream, now, append)
    }

    /// Puts into the stream what of the slate is due.
    fn play(
        &mut self,
        stream: &mut Stream,
        now: Time,
        append: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, StreamError> {
        let (State::Away(away), Some(reel)) = (&mut self.state, &self.reel) else { return Ok(false) };
        if away.run.is_none() && now >= Run::begins_at(stream.reached(), now) {
            let Some(run) = Run::begin(reel, stream.reached(), now) else {
                // It would be tried again without end.
                self.change = Some(Change::Unplayable { codec: reel.codec() });
                self.reel = None;
                return Ok(false);
            };
            if away.shown_since.is_none() {
                away.shown_since = Some(now);
                self.times += 1;
                self.change = Some(shown(reel, stream.reached()));
            }
            away.run = Some(run);
            stream.begin_part(now);
        }
        let Some(run) = &mut away.run else { return Ok(false) };
        let mut out = std::mem::take(&mut self.scratch);
        out.clear();
        run.play(now, &mut out);
        let pushed = stream.push_uncounted(&out, now, append);
        self.scratch = out;
        pushed
    }

    /// Looks at the publisher's pictures now and then while it is shown, and once more when it leaves; what is shown in its place
    /// says nothing of them.
    fn look_at_format(&mut self, stream: &Stream, now: Time) {
        let (_, looked) = self.format;
        let is_due = looked.is_none_or(|looked| self.is_passing() && now.since(looked) >= FORMAT_LOOK);
        if is_due {
            self.format = (Format::of(stream), Some(now));
        }
    }

    /// What the slate has to be coded for, as of the last [`Gate::handle_timeout`].
    pub fn format(&self) -> Format {
        self.format.0
    }

    /// What has happened since the last call.
    pub fn take_change(&mut self) -> Option<Change> {
        self.change.take()
    }

    /// What operators are told.
    pub fn status(&self, now: Time) -> Status {
        let since = match &self.state {
            State::Away(away) => away.shown_since,
            State::Passing => None,
        };
        let shown = self.shown + since.map_or(Duration::ZERO, |since| now.since(since));
        Status { on_air: since.is_some(), times: self.times, seconds: shown.as_secs() }
    }
}

impl State {
    fn away(cue: Option<Cue>) -> State {
        State::Away(Box::new(Away { run: None, shown_since: None, cue }))
    }
}

fn shown(reel: &Reel, reached: Option<&Reached>) -> Change {
    let last = reached.and_then(Reached::program);
    let instead_of = last.and_then(|last| last.video).filter(|codec| *codec != reel.codec());
    let silence: Option<Silence> = reached.and_then(Reached::silence);
    let without_sound = last.is_some_and(|last| last.has_sound) && silence.is_none() && reel.sound.is_none();
    Change::Shown { instead_of, without_sound }
}

#[cfg(test)]
#[path = "slate_tests.rs"]
mod tests;
