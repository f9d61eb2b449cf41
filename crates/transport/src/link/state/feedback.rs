//! What acknowledgements and timeouts tell of one path: losses, rate, delay and datagram size.

use crate::counter::count;
use glassline_media::Time;
use std::time::Duration;

use super::path::PathState;
use super::statistics::LinkStatistics;
use crate::capacity::Feedback;
use crate::link::recovery::Sample;
use crate::link::wire::frame::Ack;

/// The share of lost packets from which copies and parity are worth their bytes,
const LOSSY: f64 = 0.003;
/// and for how long after the last loss: bursts come at intervals.
const LOSSY_FOR: Duration = Duration::from_secs(10);

/// An application that has paused within this time sends in bursts.
const PAUSING: Duration = Duration::from_secs(1);

/// What an ACK frame says of a path.
pub(super) struct Acknowledged {
    pub(super) sample: Sample,
    /// How long the newest of the packets was under way by both ends' clocks, plus what these are apart: microseconds.
    pub(super) one_way_us: Option<i64>,
}

impl PathState {
    /// Takes an ACK frame. `key_update_packets` is after how many packets keys are renewed.
    ///
    /// # Errors
    /// It acknowledges what was never sent.
    pub(super) fn handle_ack(
        &mut self,
        now: Time,
        ack: &Ack<'_>,
        key_update_packets: u64,
    ) -> Result<Acknowledged, &'static str> {
        let was_silent = self.recovery.probes() > 0;
        let mut sample =
            self.recovery.handle_ack(now, ack).map_err(|_| "an acknowledgement of what was never sent")?;
        self.marking.handle_acked(sample.acked_packets);
        self.peer_arrival_ns = ack.arrival_ns;
        if ack.arrival_ns > 0 {
            self.capacity.handle_arrival(Duration::from_nanos(ack.arrival_ns));
        }
        self.sealer.update(key_update_packets, self.recovery.largest_acked());
        let one_way_us = sample.largest_sent_at.map(|sent| {
            let sent_us = (sent - self.epoch).as_micros();
            let received_us = i64::try_from(ack.received_us).unwrap_or(i64::MAX);
            received_us.saturating_sub(i64::try_from(sent_us).unwrap_or(i64::MAX))
        });
        if sample.acked_bytes > 0 {
            self.blind_until = Time::ZERO;
            let left = self.recovery.in_flight() > 0;
            self.unanswered_since = left.then_some(now);
            if was_silent {
                self.silent_until = now;
            }
        }
        if sample.largest_sent_at.is_none_or(|sent| sent < self.silent_until) {
            (sample.delivery, sample.train_rate) = (None, None);
        }
        Ok(Acknowledged { sample, one_way_us })
    }

    /// Takes what an acknowledgement or a timeout has settled into the estimates of loss, capacity and datagram size, and counts
    /// it. `wants_more` is whether the application would send more if it were told that it may.
    pub(super) fn handle_sample(
        &mut self,
        now: Time,
        sample: &Sample,
        one_way_us: Option<i64>,
        wants_more: bool,
        statistics: &mut LinkStatistics,
    ) {
        count(&mut statistics.lost_packets, sample.lost_packets);
        statistics.lost_packets = statistics.lost_packets.saturating_sub(sample.late_packets);
        count(&mut statistics.late_packets, sample.late_packets);
        for _ in 0..sample.late_packets.min(1000) {
            // As if it had not been counted.
            self.loss = (self.loss - 0.005).max(0.0);
        }
        for (packets, lost) in [(sample.acked_packets, 0.0), (sample.lost_packets, 1.0)] {
            // As of some 200 packets.
            self.loss += (lost - self.loss) * (1.0 - 0.995f64.powi(packets.min(1000) as i32));
        }
        if self.loss > LOSSY && sample.lost_packets > 0 {
            self.lossy_until = now + LOSSY_FOR;
        }
        if sample.delivery.is_some_and(|delivery| delivery.app_limited) {
            self.paused_at = Some(now);
        }
        if sample.acked_packets != 0 || sample.lost_packets != 0 {
            let rtt = &self.recovery.rtt;
            self.capacity.handle_feedback(
                now,
                &Feedback {
                    acked_bytes: sample.acked_bytes,
                    lost_bytes: sample.lost_bytes,
                    lost_sent_at: sample.lost_sent_at,
                    in_flight: self.recovery.in_flight(),
                    sent_at: sample.largest_sent_at,
                    one_way_us,
                    rate: sample.delivery.map(|delivery| delivery.rate),
                    app_limited: sample.delivery.is_some_and(|delivery| delivery.app_limited),
                    train_rate: sample.train_rate,
                    train: sample.train,
                    train_ended: sample.train_ended,
                    pausing: self.paused_at.is_some_and(|paused| now - paused < PAUSING),
                    wants_more,
                    rtt: rtt.smoothed,
                    least_rtt: rtt.least,
                },
            );
        }
        if sample.train_rate.is_some() || sample.delivery.is_some_and(|delivery| !delivery.app_limited) {
            self.measured_at = now;
        }
        self.mtu.handle_given_up(self.recovery.take_given_up());
        self.mtu.handle_settled(now, sample.largest_acked, sample.largest_lost);
    }

    /// The probe timer has run out, and not for the first time: the path may be in an outage. What was in flight leaves the
    /// window and is sent again; the longer the outage, the longer the interval between two transmissions of the same data.
    pub(super) fn give_up_in_outage(&mut self, now: Time) {
        let silence = self.recovery.silence(now);
        let age = self.recovery.probe_time().max(silence.checked_div(2).unwrap_or_default());
        self.recovery.give_up_older(now, age.min(Duration::from_millis(500)));
    }
}
