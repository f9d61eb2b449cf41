//! When datagrams may leave, so that no burst overruns a queue on their way.

use glassline_media::Time;
use glassline_media::quantity::Bitrate;
use std::time::Duration;

/// Lets a burst leave whenever the last one would have left a line of the given rate.
///
/// ```
/// use glassline_media::Time;
/// use glassline_media::quantity::Bitrate;
/// use glassline_transport::pacing::Pacer;
/// use std::time::Duration;
///
/// let mut pacer = Pacer::default();
/// pacer.sent(1000, Some(Bitrate::from_bits_per_second(8_000_000)), Time::ZERO);
/// assert_eq!(pacer.next_send(), Time::ZERO + Duration::from_millis(1));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    due: Time,
}

impl Pacer {
    /// When the next burst may leave; changes with [`Pacer::sent`]. No timer is needed for it while nothing waits.
    pub fn next_send(&self) -> Time {
        self.due
    }

    /// A burst of `bytes` has left; `rate` is the line's, `None` for one that is not paced. A line that
    /// was idle gives no credit: what has waited leaves no faster for it.
    pub fn sent(&mut self, bytes: usize, rate: Option<Bitrate>, now: Time) {
        self.due = now + time_of(bytes, rate);
    }
}

/// How long `bytes` take on a line of `rate`; no time on one that is not paced.
pub fn time_of(bytes: usize, rate: Option<Bitrate>) -> Duration {
    let Some(rate) = rate else { return Duration::ZERO };
    let nanos = bytes as u128 * 8 * 1_000_000_000 / u128::from(rate.bits_per_second());
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_keep_the_rate() {
        let (mut pacer, mut now, mut bytes) = (Pacer::default(), Time::ZERO, 0);
        while now < Time::from_millis(1000) {
            pacer.sent(7896, Some(Bitrate::from_bits_per_second(15_000_000)), now);
            bytes += 7896;
            now = pacer.next_send();
        }
        assert!((1_875_000..1_875_000 + 7896).contains(&bytes), "{bytes} bytes in a second");
    }

    #[test]
    fn a_line_without_a_rate_waits_for_nothing_and_none_overflows() {
        assert_eq!(time_of(1 << 30, None), Duration::ZERO);
        let slowest = Some(Bitrate::from_bits_per_second(1));
        assert!(time_of(usize::MAX, slowest) > Duration::from_secs(1 << 30));
        let mut pacer = Pacer::default();
        pacer.sent(usize::MAX, slowest, Time::NEVER);
        assert_eq!(pacer.next_send(), Time::NEVER);
    }
}
