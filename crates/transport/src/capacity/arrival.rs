//! How fast packets arrive, as Salsify reckons it (Fouladi et al., NSDI 2018, §4): the receiver smooths the times
//! between packets, less the pauses that the sender made of its own will (its grace period).

use glassline_media::Time;
use std::time::Duration;

/// The weight of a new packet of [`WHOLE`] bytes; of a smaller one it is smaller.
const ALPHA: f64 = 0.1;
/// Bytes of a packet that counts fully.
const WHOLE: f64 = 1200.0;
/// A longer time between two packets tells of an outage, not of a rate.
const LONGEST: Duration = Duration::from_secs(1);

/// The receiver's estimate: τ ← α(Tᵢ − Tᵢ₋₁ − grace) + (1 − α)τ, for 1000 bytes rather than for a packet, so that
/// small packets among large ones do not mislead it.
///
/// ```
/// use glassline_media::Time;
/// use glassline_transport::capacity::Arrival;
/// use std::time::Duration;
///
/// let mut arrival = Arrival::default();
/// for packet in 0..100 {
///     arrival.handle_packet(Time::from_millis(3 * packet), 1200, Duration::ZERO);
/// }
/// let per_kilobyte = arrival.per_kilobyte().unwrap();
/// assert!(per_kilobyte.abs_diff(Duration::from_micros(2500)) < Duration::from_micros(10));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Arrival {
    last: Option<Time>,
    nanos: Option<f64>,
}

impl Arrival {
    /// A packet of `bytes` came at `now`, before which the sender had paused for `grace`.
    pub fn handle_packet(&mut self, now: Time, bytes: usize, grace: Duration) {
        let Some(last) = self.last.replace(now) else { return };
        let gap = now - last;
        if bytes == 0 || gap > LONGEST + grace {
            return;
        }
        let nanos = gap.saturating_sub(grace).as_nanos() as u64 as f64 * 1000.0 / bytes as f64;
        let weight = ALPHA * (bytes as f64 / WHOLE).min(1.0);
        self.nanos = Some(self.nanos.map_or(nanos, |before| before + weight * (nanos - before)));
    }

    /// How long 1000 bytes take to arrive; `None` before the second packet.
    pub fn per_kilobyte(&self) -> Option<Duration> {
        self.nanos.map(|nanos| Duration::from_nanos(nanos as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_of_the_sender_is_no_slow_path() {
        let mut arrival = Arrival::default();
        let mut now = Time::ZERO;
        for packet in 0..200u32 {
            // Frames of ten packets, 2 ms apart; between frames the application pauses for 50 ms.
            let grace = if packet % 10 == 0 { Duration::from_millis(50) } else { Duration::ZERO };
            now += Duration::from_millis(2) + grace;
            arrival.handle_packet(now, 1200, grace);
        }
        let found = arrival.per_kilobyte().unwrap().as_secs_f64();
        assert!((found - 0.002 / 1.2).abs() < 1e-5, "{found}");
        arrival.handle_packet(now + Duration::from_secs(5), 1200, Duration::ZERO);
        assert_eq!(arrival.per_kilobyte().unwrap().as_secs_f64(), found, "an outage is not a rate");
    }
}
