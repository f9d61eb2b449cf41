//! When window and pace of one path let a packet leave (RFC 9002 §7.7), and what a receiver is told of pauses.

use glassline_media::Time;
use std::time::Duration;

use super::nanos;
use super::path::PathState;
use crate::link::wire::frame::Frame;

/// How far ahead of its pace a batch may run, so that a fast path costs no timer for each packet.
pub(super) const BURST: Duration = Duration::from_micros(500);
/// With more packets than this in a burst, it is worth while to wait for a whole one.
const BATCH_PACKETS: u32 = 4;
/// How much pace may be made up for after a timer that came late, or so many packets of it: on a busy machine many come
/// late, and what each costs would add up to a part of the rate.
const CATCH_UP: Duration = Duration::from_millis(1);
const CATCH_UP_PACKETS: u64 = 4;
/// The share of its bandwidth that a path gets while it acknowledges nothing: enough that what comes first after an
/// outage is fresh, and little enough that it is no queue of old data. It is used in whole messages, each as fast as
/// the path was: the first that begins after the outage is whole as soon as any can be.
const BLIND_SHARE: f64 = 0.75;
/// After so long that share falls, with the square of the time: the peer may be gone for good (RFC 8084, circuit
/// breakers), and what a network carried a minute ago it need not carry now.
const BLIND_FALLS_AFTER: Duration = Duration::from_secs(5);

fn before(now: Time, time: Duration) -> Time {
    Time::from_nanos(now.as_nanos().saturating_sub(nanos(time)))
}

impl PathState {
    #[inline]
    pub(super) fn has_window(&self) -> bool {
        let in_flight = self.recovery.in_flight();
        in_flight == 0 || in_flight.saturating_add(self.datagram as u64) <= self.capacity.window_bytes()
    }

    /// How long before its time a batch may begin. At high rates not at all: it begins when its pace says so and then
    /// runs ahead, rather than be followed by one packet at a time.
    pub(super) fn early(&self) -> Duration {
        let burst_bytes = self.capacity.pacing_rate().bytes_in(BURST);
        if burst_bytes > f64::from(BATCH_PACKETS) * self.datagram as f64 { Duration::ZERO } else { BURST }
    }

    /// A packet of `size` bytes leaves: the next one waits for as long as it takes at the pacing rate.
    #[inline]
    pub(super) fn pace(&mut self, now: Time, size: usize) {
        let rate = self.capacity.pacing_rate().bytes_per_second().max(1);
        let apart = (size as u64).saturating_mul(1_000_000_000).checked_div(rate).unwrap_or(0);
        let late = Duration::from_nanos(apart.saturating_mul(CATCH_UP_PACKETS)).max(CATCH_UP);
        self.next_send = self.next_send.max(before(now, late)) + Duration::from_nanos(apart);
        if self.recovery.is_blind() {
            let silence = self.silence(now).as_secs_f64().max(1e-9);
            let left = (BLIND_FALLS_AFTER.as_secs_f64() / silence).min(1.0).powi(2);
            let share = BLIND_SHARE * left;
            let rate = (self.capacity.bandwidth().bytes_per_second() as f64 * share).max(1.0);
            self.blind_until = self.blind_until.max(now) + Duration::from_secs_f64(size as f64 / rate);
        }
    }

    /// Tells the receiver of a pause that was the application's and not the path's.
    pub(super) fn write_grace(&mut self, now: Time, out: &mut Vec<u8>) {
        let Some(idle) = self.idle_since.take() else { return };
        let paced = self.next_send;
        // A pause of the application's is not made up for.
        self.next_send = self.next_send.max(before(now, CATCH_UP));
        let grace = now - idle.max(paced);
        if grace > Duration::from_millis(1) && self.capacity.controller().tells_pauses() {
            Frame::Grace(u64::try_from(grace.as_micros()).unwrap_or(u64::MAX)).write(out);
        }
    }

    /// Whether window and pace let a packet leave at `time`. While nothing is acknowledged the rest of a message that has
    /// begun may (`is_unfinished` says whether there is one), and a further message now and then.
    pub(super) fn may_send(&self, time: Time, is_unfinished: impl FnOnce() -> bool) -> bool {
        let free = if self.recovery.is_blind() {
            self.blind_until <= time || is_unfinished()
        } else {
            self.has_window()
        };
        free && self.next_send <= time
    }
}
