//! What happens on a link, one thing at a time, and how Mahimahi writes it down.

use glassline_media::Time;
use std::fmt::Write;
use std::time::Duration;

/// Something that happened. Bytes are a packet's, the link's overhead counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A trace let so many bytes pass, whether there were any or not.
    Opportunity {
        /// When.
        at: Time,
        /// How many.
        bytes: u32,
    },
    /// A packet came.
    Arrival {
        /// When.
        at: Time,
        /// Its size.
        bytes: u32,
    },
    /// A packet has left the bottleneck with its last byte.
    Departure {
        /// When.
        at: Time,
        /// Its size.
        bytes: u32,
        /// When it had come.
        arrived: Time,
    },
    /// Packets are gone.
    Drop {
        /// When.
        at: Time,
        /// How many.
        packets: u32,
        /// Bytes of all of them.
        bytes: u64,
        /// Why.
        reason: DropReason,
    },
    /// A packet has reached the link's end. Twice for one that was duplicated.
    Delivery {
        /// When.
        at: Time,
        /// Its size.
        bytes: u32,
        /// When it had come.
        arrived: Time,
    },
}

impl Event {
    /// When it happened.
    pub fn at(&self) -> Time {
        match *self {
            Event::Opportunity { at, .. }
            | Event::Arrival { at, .. }
            | Event::Departure { at, .. }
            | Event::Drop { at, .. }
            | Event::Delivery { at, .. } => at,
        }
    }

    /// Appends the event as a line of an `mm-link` log, times in whole milliseconds since `base`:
    ///
    /// ```text
    /// T # BYTES            an opportunity
    /// T + BYTES            an arrival
    /// T - BYTES DELAY      a departure from the bottleneck, DELAY ms after its arrival
    /// T d PACKETS BYTES    dropped by the queue; for other reasons their name follows: loss, outage, size, memory
    /// ```
    ///
    /// Deliveries have no line: that log is the bottleneck's.
    pub fn write_mahimahi(&self, base: Time, log: &mut String) {
        let millis = |time: Time| time.since(base).as_nanos() / 1_000_000;
        // Writing to a String does not fail.
        let _ = match *self {
            Event::Opportunity { at, bytes } => writeln!(log, "{} # {bytes}", millis(at)),
            Event::Arrival { at, bytes } => writeln!(log, "{} + {bytes}", millis(at)),
            Event::Departure { at, bytes, arrived } => {
                writeln!(log, "{} - {bytes} {}", millis(at), millis(at) - millis(arrived))
            }
            Event::Drop { at, packets, bytes, reason: DropReason::Queue } => {
                writeln!(log, "{} d {packets} {bytes}", millis(at))
            }
            Event::Drop { at, packets, bytes, reason } => {
                writeln!(log, "{} d {packets} {bytes} {}", millis(at), reason.name())
            }
            Event::Delivery { .. } => Ok(()),
        };
    }

    /// How long a packet took, where this is about one that left or arrived.
    pub fn delay(&self) -> Option<Duration> {
        match *self {
            Event::Departure { at, arrived, .. } | Event::Delivery { at, arrived, .. } => {
                Some(at.since(arrived))
            }
            _ => None,
        }
    }
}

/// Why a packet is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// The queue was full.
    Queue,
    /// The link's loss, behind the bottleneck.
    Loss,
    /// It came during an outage.
    Outage,
    /// It was larger than the link takes.
    Size,
    /// The link holds as much as it can: see [`super::Link::MAX_HELD_BYTES`].
    Memory,
}

impl DropReason {
    /// All reasons, in the order of [`super::Counters::dropped`].
    pub const ALL: [DropReason; 5] =
        [DropReason::Queue, DropReason::Loss, DropReason::Outage, DropReason::Size, DropReason::Memory];

    /// One lower-case word.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::Queue => "queue",
            DropReason::Loss => "loss",
            DropReason::Outage => "outage",
            DropReason::Size => "size",
            DropReason::Memory => "memory",
        }
    }

    /// Whether it was gone before it stood in the queue or out of it; lost packets have left the queue before.
    pub const fn is_before_departure(self) -> bool {
        !matches!(self, DropReason::Loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_mahimahi() {
        let (base, at) = (Time::from_millis(100), Time::from_nanos(141_900_000));
        let arrived = Time::from_nanos(139_999_999);
        let mut log = String::new();
        for event in [
            Event::Opportunity { at, bytes: 1504 },
            Event::Arrival { at, bytes: 332 },
            Event::Departure { at, bytes: 332, arrived },
            Event::Drop { at, packets: 2, bytes: 3008, reason: DropReason::Queue },
            Event::Drop { at, packets: 1, bytes: 90, reason: DropReason::Loss },
            Event::Delivery { at, bytes: 332, arrived },
        ] {
            assert_eq!(event.at(), at);
            event.write_mahimahi(base, &mut log);
        }
        assert_eq!(log, "41 # 1504\n41 + 332\n41 - 332 2\n41 d 2 3008\n41 d 1 90 loss\n");
    }
}
