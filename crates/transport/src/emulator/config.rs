//! What a link is like.

use super::trace::Trace;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// One direction of an emulated network: a bottleneck with its queue, and the way behind it.
///
/// The default is a wire: everything arrives at once. Parts are set by field or by the `with_…` functions.
///
/// ```
/// use glassline_transport::emulator::{LinkConfig, Loss, Queue};
/// use std::time::Duration;
///
/// let config = LinkConfig::rate(3_200_000)
///     .with_delay(Duration::from_millis(50))
///     .with_queue(Queue::packets(256))
///     .with_loss(Loss::Random(0.01));
/// assert!(config.check().is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkConfig {
    /// How fast the bottleneck serves its queue.
    pub service: Service,
    /// The bottleneck's queue.
    pub queue: Queue,
    /// What the way behind the bottleneck takes: propagation, the same for all packets.
    pub delay: Duration,
    /// A packet takes up to this much longer, evenly distributed. Order is kept: none overtakes another by it.
    pub jitter: Duration,
    /// What gets lost behind the bottleneck, having used it.
    pub loss: Loss,
    /// The probability that a packet arrives twice.
    pub duplicate: f64,
    /// Which packets are overtaken.
    pub reorder: Reorder,
    /// When nothing passes.
    pub outages: Outages,
    /// Bytes that each packet counts beyond its own: of headers that are not in it.
    pub overhead_bytes: u32,
    /// Larger packets (the overhead counted) are dropped silently, as by a router when its ICMP messages are filtered.
    pub max_packet_bytes: Option<u32>,
}

/// How fast a bottleneck serves its queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Service {
    /// At once: there is no bottleneck.
    #[default]
    Unlimited,
    /// At a constant rate, in bits a second, exact to the nanosecond. At 0 all waits.
    Rate(u64),
    /// At the moments of a trace, as Mahimahi's `mm-link` does: an opportunity carries bytes of one packet or several,
    /// a packet leaves with its last byte, and what of an opportunity finds the queue empty is gone.
    Trace(Arc<Trace>),
    /// The same, once: after the trace's last line nothing passes any more.
    TraceOnce(Arc<Trace>),
}

/// The queue before a bottleneck. The packet that is being served has left it. Without limits it still is bounded by
/// what a link holds in all ([`super::Link::MAX_HELD_BYTES`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// The most packets that wait; at least 1.
    pub packets: Option<u32>,
    /// The most bytes that wait; at least 1.
    pub bytes: Option<u64>,
    /// Which packet goes when one too many is there.
    pub discipline: Discipline,
}

impl Queue {
    /// A queue without limits.
    pub const INFINITE: Queue = Queue { packets: None, bytes: None, discipline: Discipline::DropTail };

    /// A drop-tail queue of so many packets.
    pub const fn packets(packets: u32) -> Queue {
        Queue { packets: Some(packets), ..Queue::INFINITE }
    }

    /// A drop-tail queue of so many bytes.
    pub const fn bytes(bytes: u64) -> Queue {
        Queue { bytes: Some(bytes), ..Queue::INFINITE }
    }

    /// The same, dropping at its head.
    pub const fn drop_head(self) -> Queue {
        Queue { discipline: Discipline::DropHead, ..self }
    }
}

/// Which packet goes when one too many is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discipline {
    /// The one that comes.
    #[default]
    DropTail,
    /// The ones that wait longest, until the limits are kept.
    DropHead,
}

/// What gets lost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Loss {
    /// Nothing.
    #[default]
    None,
    /// Each packet with the same probability, whatever became of others.
    Random(f64),
    /// Bursts, after Gilbert and Elliott: a good and a bad state, begun in the good one; before each packet the state
    /// may change, then the packet is lost with the state's probability. (Elliott, "Estimates of error rates for codes
    /// on burst-noise channels", 1963.)
    GilbertElliott {
        /// From good to bad, at a packet.
        to_bad: f64,
        /// From bad to good, at a packet.
        to_good: f64,
        /// Loss in the good state.
        loss_good: f64,
        /// Loss in the bad state.
        loss_bad: f64,
    },
}

impl Loss {
    /// The share of packets that is lost in the long run.
    pub fn mean(&self) -> f64 {
        match *self {
            Loss::None => 0.0,
            Loss::Random(probability) => probability,
            Loss::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
                let bad = if to_bad + to_good > 0.0 { to_bad / (to_bad + to_good) } else { 0.0 };
                bad * loss_bad + (1.0 - bad) * loss_good
            }
        }
    }
}

/// Which packets are overtaken: each with this probability takes so much longer, and those behind it do not wait.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reorder {
    /// Of a packet.
    pub probability: f64,
    /// How much longer it takes.
    pub hold: Duration,
}

/// When a link is off. It starts on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outages {
    /// When they are.
    pub times: OutageTimes,
    /// What they do.
    pub effect: OutageEffect,
}

/// When a link is off.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum OutageTimes {
    /// Never.
    #[default]
    None,
    /// On and off for times that are exponentially distributed, of these means.
    Random {
        /// Mean time on; at least 1 ms.
        on: Duration,
        /// Mean time off; at least 1 ms.
        off: Duration,
    },
    /// On and off by turns, for these times.
    Periodic {
        /// Time on; at least 1 ms.
        on: Duration,
        /// Time off; at least 1 ms.
        off: Duration,
    },
    /// Once: off so long after the start, for so long.
    Once {
        /// After the link's start.
        after: Duration,
        /// How long it is off.
        off: Duration,
    },
}

/// What an outage does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutageEffect {
    /// What comes while the link is off is dropped; what waits already is served. Mahimahi's `mm-onoff`.
    #[default]
    Drop,
    /// The bottleneck stands still: what comes waits, as far as the queue takes it; a trace's opportunities pass unused.
    Hold,
}

impl LinkConfig {
    /// A bottleneck of a constant rate in bits a second, an infinite queue before it.
    pub fn rate(bits_per_second: u64) -> LinkConfig {
        LinkConfig { service: Service::Rate(bits_per_second), ..LinkConfig::default() }
    }

    /// A bottleneck as a trace tells, over and over.
    pub fn trace(trace: Arc<Trace>) -> LinkConfig {
        LinkConfig { service: Service::Trace(trace), ..LinkConfig::default() }
    }

    /// The same with this [`LinkConfig::delay`].
    pub fn with_delay(self, delay: Duration) -> LinkConfig {
        LinkConfig { delay, ..self }
    }

    /// The same with this [`LinkConfig::jitter`].
    pub fn with_jitter(self, jitter: Duration) -> LinkConfig {
        LinkConfig { jitter, ..self }
    }

    /// The same with this [`LinkConfig::queue`].
    pub fn with_queue(self, queue: Queue) -> LinkConfig {
        LinkConfig { queue, ..self }
    }

    /// The same with this [`LinkConfig::loss`].
    pub fn with_loss(self, loss: Loss) -> LinkConfig {
        LinkConfig { loss, ..self }
    }

    /// The same with this [`LinkConfig::duplicate`].
    pub fn with_duplicates(self, probability: f64) -> LinkConfig {
        LinkConfig { duplicate: probability, ..self }
    }

    /// The same with this [`LinkConfig::reorder`].
    pub fn with_reorder(self, probability: f64, hold: Duration) -> LinkConfig {
        LinkConfig { reorder: Reorder { probability, hold }, ..self }
    }

    /// The same with these [`LinkConfig::outages`].
    pub fn with_outages(self, times: OutageTimes, effect: OutageEffect) -> LinkConfig {
        LinkConfig { outages: Outages { times, effect }, ..self }
    }

    /// The same with this [`LinkConfig::max_packet_bytes`].
    pub fn with_max_packet(self, bytes: u32) -> LinkConfig {
        LinkConfig { max_packet_bytes: Some(bytes), ..self }
    }

    /// Whether each part is within its range.
    ///
    /// # Errors
    /// Names the first part that is not.
    pub fn check(&self) -> Result<(), ConfigError> {
        for (part, wait) in
            [("delay", self.delay), ("jitter", self.jitter), ("reorder hold", self.reorder.hold)]
        {
            if wait > MAX_WAIT {
                return Err(ConfigError::Wait { part, found: wait });
            }
        }
        probability("duplicate", self.duplicate)?;
        probability("reorder", self.reorder.probability)?;
        check_loss(&self.loss)?;
        if self.queue.packets == Some(0) || self.queue.bytes == Some(0) {
            return Err(ConfigError::Queue);
        }
        if let Service::Rate(rate) = self.service
            && rate > MAX_RATE
        {
            return Err(ConfigError::Rate { found: rate });
        }
        match self.outages.times {
            OutageTimes::Random { on, off } | OutageTimes::Periodic { on, off }
                if on.min(off) < MIN_OUTAGE || on.max(off) > MAX_WAIT * 1000 =>
            {
                Err(ConfigError::Outage { on, off })
            }
            _ => Ok(()),
        }
    }
}

/// The longest delay, jitter and hold.
const MAX_WAIT: Duration = Duration::from_secs(3600);
/// The shortest time on or off that repeats.
const MIN_OUTAGE: Duration = Duration::from_millis(1);
/// Bits a second.
const MAX_RATE: u64 = 1_000_000_000_000;

pub(super) fn check_loss(loss: &Loss) -> Result<(), ConfigError> {
    match *loss {
        Loss::None => Ok(()),
        Loss::Random(share) => probability("loss", share),
        Loss::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
            let parts =
                [("to bad", to_bad), ("to good", to_good), ("in good", loss_good), ("in bad", loss_bad)];
            parts.into_iter().try_for_each(|(part, value)| probability(part, value))
        }
    }
}

fn probability(part: &'static str, found: f64) -> Result<(), ConfigError> {
    // A NaN is in no range.
    if (0.0..=1.0).contains(&found) { Ok(()) } else { Err(ConfigError::Probability { part, found }) }
}

/// A link that cannot be.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A probability outside of its range.
    #[error("the probability of {part} is {found}; expected 0 to 1")]
    Probability {
        /// Which one.
        part: &'static str,
        /// Its value.
        found: f64,
    },
    /// A wait that is too long.
    #[error("{part} is {found:?}; at most {MAX_WAIT:?}")]
    Wait {
        /// Which one.
        part: &'static str,
        /// Its value.
        found: Duration,
    },
    /// A queue that takes nothing.
    #[error("a queue of 0 takes nothing; at least 1 packet or byte")]
    Queue,
    /// A rate that is too high.
    #[error("a rate of {found} bit/s; at most {MAX_RATE}, or none for no bottleneck")]
    Rate {
        /// Bits a second.
        found: u64,
    },
    /// Outages too short or too long.
    #[error("outages of {on:?} on and {off:?} off; each takes from {MIN_OUTAGE:?} to 1000 hours")]
    Outage {
        /// Time on.
        on: Duration,
        /// Time off.
        off: Duration,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_named() {
        let ok = LinkConfig::rate(1_000_000);
        let ms = Duration::from_millis;
        let bursts = |loss_bad| Loss::GilbertElliott { to_bad: 0.1, to_good: 0.2, loss_good: 0.0, loss_bad };
        let periodic = |on, off| OutageTimes::Periodic { on, off };
        for (config, words) in [
            (ok.clone().with_loss(Loss::Random(1.01)), "probability of loss is 1.01"),
            (ok.clone().with_loss(Loss::Random(f64::NAN)), "probability of loss is NaN"),
            (ok.clone().with_loss(bursts(-0.1)), "probability of in bad is -0.1"),
            (ok.clone().with_duplicates(2.0), "probability of duplicate"),
            (ok.clone().with_reorder(-1.0, ms(1)), "probability of reorder"),
            (ok.clone().with_delay(ms(3_600_001)), "delay is 3600.001s"),
            (ok.clone().with_queue(Queue::packets(0)), "queue of 0"),
            (ok.clone().with_queue(Queue::bytes(0)), "queue of 0"),
            (LinkConfig::rate(u64::MAX), "rate of 18446744073709551615"),
            (ok.clone().with_outages(periodic(ms(0), ms(5)), OutageEffect::Drop), "0ns on"),
        ] {
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(ok.with_loss(bursts(1.0)).check(), Ok(()));
    }

    #[test]
    fn bursts_have_a_mean() {
        let loss = Loss::GilbertElliott { to_bad: 0.0085, to_good: 0.25, loss_good: 0.0, loss_bad: 0.6 };
        assert!((loss.mean() - 0.0197).abs() < 0.0001, "{}", loss.mean());
        let stuck = Loss::GilbertElliott { to_bad: 0.0, to_good: 0.0, loss_good: 0.1, loss_bad: 1.0 };
        assert!((stuck.mean() - 0.1).abs() < 1e-9);
    }
}
