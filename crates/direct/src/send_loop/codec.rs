//! The codec of the next pictures, where the loop chooses it.

#[cfg(feature = "av1")]
use super::auto::Before;
use super::choice::{Aside, Asked, CodecChoice};
use super::{Progress, SendLoop};
use crate::decision::Decision;
use glassline_codec::vp8::Parallel;
use glassline_media::{Picture, Time};
use std::time::Duration;

#[cfg(feature = "av1")]
impl SendLoop {
    /// Another picture comes.
    pub(super) fn begin_codec(&mut self, now: Time, picture: &Picture) {
        let Some(auto) = &mut self.auto else { return };
        let before = match self.sender.next() {
            0 => Before::Nothing,
            _ => Before::Shows(self.sender.on_screen()),
        };
        let is_other = auto.begin(now, picture, self.sender.wanted_codec(), before);
        self.sender.keep_pictures(auto.wants_pictures());
        self.offered = Some(picture.clone()).filter(|_| auto.is_trying());
        if is_other {
            self.change_codec();
        }
    }

    /// Whether the picture under way is looked at by a trial.
    pub(super) fn is_comparing(&self) -> bool {
        self.offered.is_some()
    }

    fn change_codec(&mut self) {
        let Some(auto) = &self.auto else { return };
        let settings = auto.settings();
        self.effort = super::effort_of(&settings);
        self.sender.set_codec(settings.video_codec, settings.size, self.effort.speed());
        self.sender.set_candidates(self.effort.candidates());
    }

    /// The receiver has begun anew.
    pub(super) fn reset_codec(&mut self) {
        self.sender.forget_wishes();
        if self.auto.as_mut().is_some_and(super::auto::Auto::handle_reset) {
            self.change_codec();
        }
    }

    /// A picture was decided on, and sent with so many bytes or not.
    pub(super) fn note_offered(
        &mut self,
        now: Time,
        asked: Asked,
        decision: &Decision,
        bytes: Option<usize>,
    ) {
        let Some(auto) = &mut self.auto else { return };
        let chosen = decision.chosen.and_then(|chosen| decision.candidates.get(chosen));
        if let Some(chosen) = chosen.filter(|_| decision.source.is_some()) {
            auto.note_quantizer(chosen.quantizer);
        }
        let Some(picture) = self.offered.take() else { return };
        auto.note(super::auto::Seen {
            picture,
            now,
            before: asked.before,
            ahead: asked.ahead,
            budget: asked.then,
            horizon: asked.horizon,
            is_shared: asked.is_shared,
            source: decision.source,
            careful: decision.careful,
            sent: decision.number.zip(bytes),
            shown: self.sender.on_screen().cloned(),
        });
    }

    /// Whether the encoder keeps up with the pictures was seen once more.
    pub(super) fn note_effort(&mut self, now: Time) {
        let is_exhausted = self.effort.is_exhausted();
        if self.auto.as_mut().is_some_and(|auto| auto.note_effort(now, is_exhausted)) {
            self.change_codec();
        }
    }

    /// Where two codecs are compared: goes on with that by one step, as far as that will be over before the next picture comes. To be
    /// called behind [`SendLoop::rest`] until nothing is done any more; each call is followed by [`SendLoop::aside_took`].
    pub fn aside(&mut self, now: Time, parallel: &dyn Parallel) -> Option<Aside> {
        if !matches!(self.progress, Progress::Idle) {
            return None;
        }
        let until = self.queued + self.frame_rate.time_of(1);
        let auto = self.auto.as_mut()?;
        match auto.step(now, until, self.encoding, parallel) {
            Ok(aside) => aside,
            // What is sent is another matter: the codec stays.
            Err(_) => {
                auto.give_up(now);
                None
            }
        }
    }

    /// What [`SendLoop::aside`] has done took so long, and it is `now`.
    pub fn aside_took(&mut self, now: Time, time: Duration) {
        if self.auto.as_mut().is_some_and(|auto| auto.took(now, time)) {
            self.change_codec();
        }
    }

    /// What was found out about the codec since the last call, for logs.
    pub fn poll_codec_choice(&mut self) -> Option<CodecChoice> {
        self.auto.as_mut()?.poll_choice()
    }
}

/// There is one codec alone.
#[cfg(not(feature = "av1"))]
impl SendLoop {
    pub(super) fn begin_codec(&mut self, _: Time, _: &Picture) {}

    pub(super) fn is_comparing(&self) -> bool {
        false
    }

    pub(super) fn reset_codec(&mut self) {}

    pub(super) fn note_offered(&mut self, _: Time, _: Asked, _: &Decision, _: Option<usize>) {}

    pub(super) fn note_effort(&mut self, _: Time) {}

    /// Nothing is compared.
    pub fn aside(&mut self, _: Time, _: &dyn Parallel) -> Option<Aside> {
        let _ = (self.queued, matches!(self.progress, Progress::Idle));
        None
    }

    /// Nothing was done.
    pub fn aside_took(&mut self, _: Time, _: Duration) {}

    /// Nothing is found out.
    pub fn poll_codec_choice(&mut self) -> Option<CodecChoice> {
        None
    }
}
