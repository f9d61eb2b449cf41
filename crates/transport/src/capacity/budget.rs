//! What of the rate is a message's that is handed over now.

use super::{Capacity, Controller, INITIAL_PACKETS, Mode, TARGET};
use glassline_media::Time;
use std::time::Duration;

/// Answers come up to so much later than on the empty path without that too much waits: as long as a queue may take. (Measured on
/// cellular traces with pictures: more fills the way better, and each outage then delays more of them.)
const LATE_ANSWERS: Duration = TARGET;
/// Of the pace of a trial, which is half the rate, a budget has so much.
const TRIAL_SHARE: f64 = 0.5;

impl Capacity {
    /// How many bytes may be handed over so that they arrive within `delay` while `in_flight` bytes are in flight
    /// (Salsify's budget, NSDI 2018 §4): what the pace lets leave in that time, less what waits in the path's queue; in
    /// competition also no more than the window leaves. Under [`Controller::Salsify`] it is what the window leaves,
    /// which follows from the controller's own delay; under those of `rivals` what keeps their target rate.
    pub fn room(&self, now: Time, delay: Duration, in_flight: u64) -> f64 {
        match self.controller {
            // By the pacing rate, not by the measured bandwidth: a sender limited to what was measured never measures more.
            Controller::Adaptive => {
                let paced = self.pacing_rate().bytes_in(delay);
                match self.mode {
                    // The queue is others', and stands whatever we do: the window alone says what may be under way, and what
                    // leaves meanwhile makes room.
                    Mode::Competitive => {
                        let window = self.window - in_flight as f64 + self.bandwidth().bytes_in(delay);
                        paced.min(window)
                    }
                    // What is known to pass, which leaves faster, so that its train tells whether more does; and as much as
                    // makes a train at all.
                    Mode::Startup => {
                        let train = INITIAL_PACKETS * self.packet as f64;
                        let known = self.bandwidth().bytes_in(delay).max(paced.min(train));
                        (known - self.queued_bytes(now, in_flight)).min(self.slow_start() - in_flight as f64)
                    }
                    // Does the queue go if next to nothing is sent? Little pictures are better than none.
                    Mode::Delay if self.pausing && self.is_trying() => TRIAL_SHARE * paced,
                    _ => {
                        let usual =
                            self.trains.usual(now).map_or(f64::INFINITY, |rate| rate * delay.as_secs_f64());
                        paced.min(usual) - self.queued_bytes(now, in_flight)
                    }
                }
            }
            Controller::Salsify { .. } => self.window_bytes() as f64 - in_flight as f64,
            Controller::Fixed(rate) => rate.bytes_in(delay),
            Controller::Gcc | Controller::Scream | Controller::Dither => {
                self.rival.as_ref().map_or(0.0, |rival| rival.room(now, delay, in_flight))
            }
        }
    }

    /// What may be under way while the first packets are not all answered: as many, and one more for each that is
    /// (RFC 9002 §7.3.1). Then their train has told what the path carries, and this is no bound.
    pub(super) fn slow_start(&self) -> f64 {
        let initial = INITIAL_PACKETS * self.packet as f64;
        if self.first_flight > 0.0 { 2.0 * initial - self.first_flight } else { f64::INFINITY }
    }

    /// What waits in the path's queue now: what the newest acknowledged packet found there, and all that was sent
    /// behind it, less what has left since. What that packet found is a round trip old: a sender that counts it alone
    /// stops for far too long and then starts with far too much.
    fn queued_bytes(&self, now: Time, in_flight: u64) -> f64 {
        let found = self.bandwidth().bytes_in(self.queue);
        let Some(sent_at) = self.queue_at else { return found };
        let since = self.bandwidth().bytes_in(now.since(sent_at));
        // What is under way and would long have been answered on the empty path waits: nothing may have left at all.
        let answered = self.bandwidth().bytes_in(self.least_rtt + LATE_ANSWERS);
        let under_way = in_flight as f64;
        (found + under_way - since).max(under_way - answered).max(0.0)
    }
}
