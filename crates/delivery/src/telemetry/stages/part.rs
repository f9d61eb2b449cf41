//! The parts of the way from glass to glass, and how a sender's stamps fall into them.

use glassline_media::{Stage, Stamps};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A part of the way from glass to glass. Each begins where the one before it that is known has ended. Their places stay as they
/// are: what an earlier version hands over is by place, and new ones come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum Part {
    /// Captured to all in memory.
    Capture,
    /// To the encoder.
    Queue,
    /// To the encoder's last slice.
    Encode,
    /// To the container's last packet.
    Mux,
    /// To the last byte with the sender's kernel.
    Send,
    /// From the last byte with the relay to its last byte with the relay's kernel or, where that is not known, to when
    /// viewers could have it.
    Relay,
    /// From the sender to the receiver, but for the relay.
    Network,
    /// Received to decoded.
    Decode,
    /// Decoded to shown.
    Display,
    /// All of it.
    Total,
    /// From the queue to the end of the encoder's look-ahead, where it has one; `Encode` begins there.
    LookAhead,
    /// From the last byte with the relay until the transport that brought it gives it out: the latency of SRT. `Relay` begins there.
    Hold,
}

impl Part {
    /// All, by their places.
    pub const ALL: [Part; 12] = [
        Part::Capture,
        Part::Queue,
        Part::Encode,
        Part::Mux,
        Part::Send,
        Part::Relay,
        Part::Network,
        Part::Decode,
        Part::Display,
        Part::Total,
        Part::LookAhead,
        Part::Hold,
    ];

    /// The name that metrics and JSON use.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Capture => "capture",
            Part::Queue => "queue",
            Part::LookAhead => "look_ahead",
            Part::Encode => "encode",
            Part::Mux => "mux",
            Part::Send => "send",
            Part::Hold => "hold",
            Part::Relay => "relay",
            Part::Network => "network",
            Part::Decode => "decode",
            Part::Display => "display",
            Part::Total => "total",
        }
    }

    /// The part of this name.
    pub fn of_name(name: &str) -> Option<Part> {
        Part::ALL.into_iter().find(|part| part.name() == name)
    }
}

/// Which stage of the sender ends which part.
const SENDER_PARTS: [(Stage, Part); 6] = [
    (Stage::Arrived, Part::Capture),
    (Stage::EncoderIn, Part::Queue),
    (Stage::LookAhead, Part::LookAhead),
    (Stage::Encoded, Part::Encode),
    (Stage::Muxed, Part::Mux),
    (Stage::Sent, Part::Send),
];

/// How long a sender took for each part of its way; what it does not say falls into the next part that it does.
pub(super) fn sender_parts(stamps: &Stamps) -> impl Iterator<Item = (Part, Duration)> {
    let mut last = Stage::Captured;
    SENDER_PARTS.into_iter().filter_map(move |(stage, part)| {
        let time = stamps.between(last, stage)?;
        last = stage;
        Some((part, time))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::Time;

    fn micros(value: u64) -> Time {
        Time::from_nanos(value * 1000)
    }

    #[test]
    fn what_a_sender_does_not_say_falls_into_the_next_part() {
        let stamps = Stamps::captured_at(Time::ZERO)
            .with(Stage::EncoderIn, micros(300))
            .with(Stage::Encoded, micros(8_000))
            .with(Stage::Sent, micros(8_500));
        let parts: Vec<_> =
            sender_parts(&stamps).map(|(part, time)| (part.name(), time.as_micros())).collect();
        assert_eq!(parts, [("queue", 300), ("encode", 7_700), ("send", 500)]);
        for part in Part::ALL {
            assert_eq!(Part::of_name(part.name()), Some(part));
            assert_eq!(Part::ALL[part as usize], part);
        }
    }
}
