//! CUBIC's window (RFC 9438): how the link behaves while others fill the queue and delay tells nothing.

use glassline_media::Time;
use std::time::Duration;

const C: f64 = 0.4;
const BETA: f64 = 0.7;

/// A congestion window that grows as CUBIC's does, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cubic {
    window: f64,
    /// The window before the last reduction, packets.
    largest: f64,
    /// The window that Reno would have, packets.
    reno: f64,
    since: Time,
    reduced_at: Time,
    packet: f64,
    /// It doubles each round trip, as long as nothing is lost.
    starting: bool,
}

impl Cubic {
    pub(crate) fn new(now: Time, window_bytes: f64, packet_bytes: usize) -> Cubic {
        let packet = packet_bytes as f64;
        let packets = window_bytes / packet;
        Cubic {
            window: window_bytes,
            largest: packets,
            reno: packets,
            since: now,
            reduced_at: now,
            packet,
            starting: false,
        }
    }

    /// As [`Cubic::new`], in slow start: others have had the path for themselves.
    pub(crate) fn starting(now: Time, window_bytes: f64, packet_bytes: usize) -> Cubic {
        Cubic { starting: true, ..Cubic::new(now, window_bytes, packet_bytes) }
    }

    /// Whether nothing was lost yet in slow start.
    pub(crate) fn is_starting(&self) -> bool {
        self.starting
    }

    /// One that begins anew with this window.
    pub(crate) fn again(&self, now: Time, window_bytes: f64) -> Cubic {
        Cubic::new(now, window_bytes.max(2.0 * self.packet), self.packet as usize)
    }

    pub(crate) fn packet_bytes(&self) -> f64 {
        self.packet
    }

    pub(crate) fn window_bytes(&self) -> f64 {
        self.window
    }

    pub(crate) fn handle_acked(&mut self, now: Time, bytes: u64, rtt: Duration) {
        if self.starting {
            self.window += bytes as f64;
            return;
        }
        let acked = bytes as f64 / self.packet;
        let window = self.window / self.packet;
        let alpha = if self.reno >= self.largest { 1.0 } else { 3.0 * (1.0 - BETA) / (1.0 + BETA) };
        self.reno += alpha * acked / window.max(1.0);
        let k = ((self.largest * (1.0 - BETA)).max(0.0) / C).cbrt();
        let t = (now - self.since + rtt).as_secs_f64();
        let target = (C * (t - k).powi(3) + self.largest).clamp(window, window * 1.5);
        let cubic = window + (target - window) / window.max(1.0) * acked;
        self.window = cubic.max(self.reno) * self.packet;
    }

    /// A packet was lost, and the newest one that is known of was sent then. `false`: the window was lowered for it before.
    pub(crate) fn handle_lost(&mut self, now: Time, sent_at: Time) -> bool {
        if sent_at <= self.reduced_at {
            return false;
        }
        self.starting = false;
        let window = self.window / self.packet;
        // Fast convergence (RFC 9438 §4.7).
        self.largest = if window < self.largest { window * (1.0 + BETA) / 2.0 } else { window };
        self.window = (window * BETA).max(2.0) * self.packet;
        self.reno = self.window / self.packet;
        (self.since, self.reduced_at) = (now, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_falls_by_three_tenths_and_comes_back_after_k_seconds() {
        let rtt = Duration::from_millis(100);
        let mut cubic = Cubic::new(Time::ZERO, 100.0 * 1000.0, 1000);
        cubic.handle_lost(Time::from_millis(1), Time::from_millis(1));
        assert_eq!(cubic.window_bytes(), 70_000.0);
        cubic.handle_lost(Time::from_millis(2), Time::from_millis(1));
        assert_eq!(cubic.window_bytes(), 70_000.0, "once for a round trip");
        // K = cbrt(100 · 0.3 / 0.4) = 4.2 s.
        let mut now = Time::from_millis(1);
        while now < Time::from_millis(4200) {
            now += rtt;
            cubic.handle_acked(now, cubic.window_bytes() as u64, rtt);
        }
        let back = cubic.window_bytes() / 1000.0;
        assert!((95.0..106.0).contains(&back), "{back}");
    }
}
