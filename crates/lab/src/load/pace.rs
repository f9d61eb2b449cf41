//! How fast a viewer reads: a slow network, or a slow reader, for the server to cope with.

use glassline_media::Time;
use std::time::Duration;

/// How fast a viewer reads at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Bits a second.
    Rate(u64),
    /// A share of the stream's rate (1.0: all of it), as the unlimited viewers get it. Without any, and before their
    /// first second, nothing is limited.
    Share(f64),
}

/// What may be read: grows with time, up to a tenth of a second's worth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    limit: Limit,
    allowance_bytes: f64,
    updated: Time,
}

const DEPTH: Duration = Duration::from_millis(100);
/// Less is not worth a read.
const LEAST_BYTES: f64 = 1500.0;

impl Pace {
    pub(super) fn new(limit: Limit, now: Time) -> Pace {
        Pace { limit, allowance_bytes: LEAST_BYTES, updated: now }
    }

    fn bytes_per_second(&self, stream: Option<f64>) -> Option<f64> {
        match self.limit {
            Limit::Rate(bits) => Some(bits as f64 / 8.0),
            Limit::Share(share) => stream.map(|bytes| bytes * share),
        }
    }

    /// How many bytes may be read now, or when it is worth asking again. `stream` is the stream's rate in bytes a
    /// second.
    pub(super) fn ask(&mut self, now: Time, stream: Option<f64>) -> Result<usize, Time> {
        let Some(rate) = self.bytes_per_second(stream) else { return Ok(usize::MAX) };
        let depth = (rate * DEPTH.as_secs_f64()).max(LEAST_BYTES);
        let grown = self.allowance_bytes + rate * now.since(self.updated).as_secs_f64();
        self.allowance_bytes = grown.min(depth);
        self.updated = now;
        if self.allowance_bytes >= LEAST_BYTES {
            return Ok(self.allowance_bytes as usize);
        }
        let wait = (LEAST_BYTES - self.allowance_bytes) / rate.max(1.0);
        // Some ms more, so that few reads do much.
        Err(now + Duration::from_secs_f64(wait.min(3600.0)).max(Duration::from_millis(5)))
    }

    pub(super) fn spend(&mut self, bytes: usize) {
        self.allowance_bytes -= bytes as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes read in ten seconds by a reader that always finds something.
    fn read(limit: Limit, stream: Option<f64>) -> usize {
        let mut now = Time::from_millis(1_000_000);
        let (mut pace, end, mut sum) = (Pace::new(limit, now), now + Duration::from_secs(10), 0);
        while now < end {
            match pace.ask(now, stream) {
                Ok(bytes) => {
                    let bytes = bytes.min(1 << 20);
                    pace.spend(bytes);
                    sum += bytes;
                    now += Duration::from_micros(10);
                }
                Err(later) => now = later,
            }
        }
        sum
    }

    #[test]
    fn the_rate_is_kept() {
        for (limit, stream, expected) in [
            (Limit::Rate(800_000), None, 1_000_000.0),
            (Limit::Share(0.5), Some(1e6), 5_000_000.0),
            (Limit::Rate(8_000), Some(1e6), 10_000.0),
        ] {
            let ratio = read(limit, stream) as f64 / expected;
            assert!((0.85..1.16).contains(&ratio), "{limit:?}: {ratio}");
        }
        let mut pace = Pace::new(Limit::Share(0.5), Time::ZERO);
        assert_eq!(pace.ask(Time::ZERO, None), Ok(usize::MAX), "unknown rates limit nothing");
    }
}
