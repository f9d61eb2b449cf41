//! What the link and the receiver say of pictures that were sent.

use super::Sender;
use crate::coder::State;
use crate::history::Taken;
use crate::wire::{Report, WireError};
use glassline_media::Time;
use glassline_transport::link::{MessageId, Outcome};

impl Sender {
    /// What the link says of a message of ours.
    pub fn handle_outcome(&mut self, now: Time, message: MessageId, outcome: Outcome) {
        let Some(number) = self.history.number_of(message) else { return };
        match outcome {
            // One that was taken for lost was only late.
            Outcome::Delivered => {
                let recovered = u64::from(self.history.recover(number));
                self.counters.lost = self.counters.lost.saturating_sub(recovered);
            }
            // One that was replaced while it waited says nothing of the network's losses.
            Outcome::Cancelled => self.counters.lost += u64::from(self.history.lose(number)),
            Outcome::Skipped | Outcome::Lost => self.lose(now, number),
        }
    }

    pub(super) fn lose(&mut self, now: Time, number: u64) {
        if !self.history.lose(number) {
            return;
        }
        self.counters.lost += 1;
        self.caution.handle_loss(now);
    }

    /// Takes a message of channel [`REPORTS`](crate::REPORTS).
    ///
    /// # Errors
    /// It is none of this format.
    pub fn handle_report(&mut self, now: Time, message: &[u8]) -> Result<(), WireError> {
        let report = Report::parse(message)?;
        // Of another run, of a picture that was never sent, or overtaken by a newer one.
        let known = report.newest.is_none_or(|newest| newest < self.next);
        if report.epoch != self.settings.epoch
            || !known
            || report.shown < self.reported.0
            || report.came() < self.reported.1
        {
            return Ok(());
        }
        self.reported = (report.shown, report.came());
        self.shown.handle_report(report.shown);
        self.counters.shown = self.shown.total().min(self.counters.sent);
        self.taken = report.codecs;
        self.key_frames.handle_report(now, report.key_after.filter(|after| *after < self.next));
        if let Some(decoded) = report.decoded {
            self.held = decoded.held;
            let has = |state: &State| self.coder.has(state);
            if self.history.handle_decoded(decoded.number, decoded.state, has) == Taken::Mismatch {
                self.counters.mismatches += 1;
                self.counters.lost += 1;
            }
        }
        if let Some(lacking) = report.lacking {
            // What it lacks is all that we know it to have had: it has nothing any more, or only what is not kept here.
            if self.history.is_common(lacking.source, |state| self.coder.has(state)) {
                self.handle_reset();
                self.reported = (report.shown, report.came());
            } else {
                // What left before it and is newer than what is there is lost too, or so late that it is of no use.
                let newest = report.decoded.map(|decoded| decoded.number);
                self.lose(now, lacking.source);
                let lost = self.history.lose_up_to(newest, lacking.number);
                self.counters.lost += lost;
            }
        }
        Ok(())
    }
}
