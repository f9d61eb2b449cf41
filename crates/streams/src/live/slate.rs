//! The slate of a stream: what is shown in the place of its publisher.

use super::{Core, Flushed, Live, PushError};
use glassline_delivery::policy::StreamName;
use glassline_delivery::slate::{Change, Format, Gate, Reel, Status};
use glassline_delivery::stream::Mux;
use glassline_media::Time;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// How a stream's publisher is stood in for.
#[derive(Clone, Debug)]
pub struct SlateSettings {
    /// A publisher that has sent nothing for so long is not shown until its next key frame.
    pub silence: Duration,
    /// Is woken where [`Live::play_slate`] has to be called before the time that it said.
    pub waker: Waker,
}

/// What playing a slate came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlatePlayed {
    /// As of a publisher's pause.
    pub flushed: Flushed,
    /// When to play on; `None`: when woken.
    pub next: Option<Time>,
    /// What the slate has to be coded for.
    pub format: Format,
    /// What has happened since the last call.
    pub change: Option<Change>,
}

/// What stands in front of a stream that has a slate.
#[derive(Debug)]
pub(super) struct Slate {
    pub(super) gate: Gate,
    /// Its thread, once one plays it.
    waker: Option<Waker>,
    /// The publisher was shown when this was last looked at.
    was_passing: bool,
}

/// How long a publisher that sends piece by piece may take for its second request: those that put a buffer in each take
/// milliseconds.
const NEXT_PIECE: Duration = Duration::from_millis(500);
/// How long a publisher may be silent until the thread that plays the slate has said it.
const SILENCE: Duration = Duration::from_secs(2);

impl Slate {
    /// Of a stream that another process has left without showing its publisher.
    pub(super) fn handed_over(core: &mut Core) {
        let gate = Gate::new(SILENCE, false, core.slot.is_held(), &mut core.stream);
        core.slate = Some(Slate { gate, waker: None, was_passing: false });
    }

    fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }
}

impl Core {
    /// The publisher has ended.
    pub(super) fn end_publisher(&mut self) {
        if let Some(slate) = &mut self.slate {
            slate.gate.end_publisher();
            slate.was_passing = false;
            slate.wake();
        }
    }

    /// The publisher has ended a request. Its slot is free, and it may go on with another one.
    pub(super) fn rest_publisher(&mut self, now: Time) {
        if let Some(slate) = &mut self.slate {
            slate.gate.rest_publisher(now + NEXT_PIECE);
            slate.wake();
        }
    }

    /// Frees the slot of a publisher that sends piece by piece and has not gone on in time.
    pub(super) fn settle(&mut self, name: &StreamName, now: Time) {
        if self.slot.settle(name, now) {
            self.end_publisher();
        }
    }

    /// Wakes the slate's thread where the publisher is shown no longer.
    pub(super) fn wake_where_left(&mut self) {
        if let Some(slate) = &mut self.slate {
            let is_passing = slate.gate.is_passing();
            if std::mem::replace(&mut slate.was_passing, is_passing) && !is_passing {
                slate.wake();
            }
        }
    }
}

impl Live {
    /// Has a slate from here on, which [`Live::play_slate`] plays; `None`: has none any more. Of another mux than MPEG-TS it has
    /// none in any case.
    pub fn set_slate(&self, settings: Option<SlateSettings>, now: Time) {
        let mut core = self.lock();
        let Some(SlateSettings { silence, waker }) = settings.filter(|_| self.mux == Mux::MpegTs) else {
            if core.slate.take().is_some_and(|slate| !slate.gate.is_passing()) {
                // What comes next does not continue the slate.
                self.flush(&mut core);
                core.stream.begin_part(now);
            }
            core.stream.follow_stamps(false);
            return;
        };
        if let Some(slate) = &mut core.slate {
            slate.gate.set_silence(silence);
            slate.waker = Some(waker);
            return;
        }
        let Core { stream, slot, .. } = &mut *core;
        // A publisher that is there already is shown already.
        let is_held = slot.is_held();
        let gate = Gate::new(silence, is_held && stream.head() > 0, is_held, stream);
        let was_passing = gate.is_passing();
        core.slate = Some(Slate { gate, waker: Some(waker), was_passing });
    }

    /// Shows `reel` in the publisher's place from here on.
    pub fn set_slate_reel(&self, reel: Option<Arc<Reel>>) {
        if let Some(slate) = &mut self.lock().slate {
            slate.gate.set_reel(reel);
        }
    }

    /// Puts into the stream what of its slate is due; `None` where it has none. The caller then does what
    /// [`SlatePlayed::flushed`] asks for, in an error's case too.
    pub fn play_slate(&self, now: Time) -> Option<(Result<(), PushError>, SlatePlayed)> {
        let mut core = self.lock();
        if core.slate.is_none() || self.has_ended() {
            return None;
        }
        let played = self.append_by(&mut core, now, |stream, slate, append| match slate {
            Some(slate) => slate.gate.handle_timeout(stream, now, append),
            None => Ok(false),
        });
        let is_time = core.stream.pause(now);
        let paused = self.flush_if(&mut core, is_time);
        let Core { stream, slate: Some(slate), .. } = &mut *core else { return None };
        slate.was_passing = slate.gate.is_passing();
        let played_on = SlatePlayed {
            flushed: Flushed { news: paused.news || !matches!(played, Ok(false)), ..paused },
            next: slate.gate.poll_timeout(stream, now),
            format: slate.gate.format(),
            change: slate.gate.take_change(),
        };
        Some((played.map(drop), played_on))
    }

    /// Whether it has a slate.
    pub fn has_slate(&self) -> bool {
        self.lock().slate.is_some()
    }

    /// Whether a slate is shown now.
    pub fn shows_slate(&self) -> bool {
        self.lock().slate.as_ref().is_some_and(|slate| slate.gate.status(Time::ZERO).on_air)
    }

    /// Whether it has a slate, and no publisher: a publisher of another mux may have its name.
    pub(crate) fn gives_way(&self) -> bool {
        let core = self.lock();
        core.slate.is_some() && !core.slot.is_held()
    }
}

/// What of the slate operators are told; `None` where the stream has none.
pub(super) fn status(core: &Core, now: Time) -> Option<Status> {
    core.slate.as_ref().map(|slate| slate.gate.status(now))
}

#[cfg(test)]
#[path = "slate_tests.rs"]
mod tests;
