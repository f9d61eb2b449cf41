//! The sending end: numbers packets, and repeats the ones before while some are lost.

use super::wire::{EARLIER_MAX, FRAME_UNIT, SoundHeader, SoundMessage};
use bytes::Bytes;
use glassline_media::Utc;
use glassline_transport::link::Outcome;
use std::collections::VecDeque;

/// What one message's fate counts in the share of lost ones: some ten losses' memory.
const MEMORY: f64 = 1.0 / 64.0;
/// Share of lost messages from which on the packet before is repeated, from which on two are, and below which none is again.
const REPEAT_ONE: f64 = 0.01;
const REPEAT_TWO: f64 = 0.1;
const REPEAT_NONE: f64 = 0.002;
/// What a message has beside its packets: its own head, the link's, UDP's and IP's.
const HEADER_BYTES: f64 = 80.0;

/// How many packets each message repeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redundancy {
    /// One while messages are lost, two while many are.
    #[default]
    Auto,
    /// Always so many; 4 at most.
    Always(u8),
}

/// Makes the messages of channel [`SOUND`](crate::SOUND).
#[derive(Debug)]
pub struct SoundSender {
    redundancy: Redundancy,
    frame: u8,
    channels: u8,
    recovers: bool,
    number: u64,
    earlier: VecDeque<Bytes>,
    lost: f64,
    repeats: usize,
}

impl SoundSender {
    /// A sender of packets with `frame` times 2.5 ms of sound in `channels` channels. `recovers`: each packet holds the one
    /// before it, coarsely.
    pub fn new(redundancy: Redundancy, frame: u8, channels: u8, recovers: bool) -> SoundSender {
        let repeats = match redundancy {
            Redundancy::Auto => 0,
            Redundancy::Always(count) => usize::from(count).min(EARLIER_MAX),
        };
        SoundSender {
            redundancy,
            frame,
            channels,
            recovers,
            number: 0,
            earlier: VecDeque::new(),
            lost: 0.0,
            repeats,
        }
    }

    /// The message for the next packet; `captured` is the capture time of its first sample.
    pub fn message(&mut self, packet: Bytes, captured: Utc) -> Bytes {
        let number = self.number;
        self.number += 1;
        let count = self.earlier.len().min(self.repeats);
        let earlier = self.earlier.iter().skip(self.earlier.len() - count).cloned();
        let packets = earlier.chain([packet.clone()]).collect();
        self.earlier.push_back(packet);
        if self.earlier.len() > EARLIER_MAX {
            self.earlier.pop_front();
        }
        let SoundSender { frame, channels, recovers, .. } = *self;
        SoundMessage { header: SoundHeader { frame, channels, recovers, number, captured }, packets }
            .to_bytes()
    }

    /// Takes what became of a message.
    pub fn handle_outcome(&mut self, outcome: Outcome) {
        let lost = match outcome {
            Outcome::Delivered => 0.0,
            Outcome::Lost | Outcome::Skipped => 1.0,
            // It never left.
            Outcome::Cancelled => return,
        };
        self.lost += MEMORY * (lost - self.lost);
        if self.redundancy == Redundancy::Auto {
            self.repeats = match self.lost {
                lost if lost >= REPEAT_TWO => 2,
                lost if lost >= REPEAT_ONE => self.repeats.max(1),
                lost if lost < REPEAT_NONE => 0,
                _ => self.repeats,
            };
        }
    }

    /// Packets that each message repeats now.
    pub fn repeats(&self) -> usize {
        self.repeats
    }

    /// What sound puts on the way now, bytes a second: packets that are coded at `coded_bytes_per_second`, those that are repeated, and
    /// a header for each message.
    pub fn bytes_per_second(&self, coded_bytes_per_second: u64) -> u64 {
        let interval = FRAME_UNIT.as_secs_f64() * f64::from(self.frame.max(1));
        coded_bytes_per_second.saturating_mul(1 + self.repeats as u64)
            + (HEADER_BYTES / interval).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(sender: &mut SoundSender, byte: u8) -> Vec<Bytes> {
        let message = sender.message(Bytes::from(vec![byte]), Utc::from_micros(5));
        SoundMessage::parse(&message).unwrap().packets
    }

    #[test]
    fn packets_are_repeated_while_some_are_lost() {
        let mut sender = SoundSender::new(Redundancy::Auto, 4, 2, false);
        assert_eq!(packets(&mut sender, 1).len(), 1);
        sender.handle_outcome(Outcome::Lost);
        assert_eq!(packets(&mut sender, 2), [Bytes::from(vec![1]), Bytes::from(vec![2])]);
        for _ in 0..20 {
            sender.handle_outcome(Outcome::Lost);
        }
        assert_eq!(packets(&mut sender, 3).len(), 3);
        for _ in 0..500 {
            sender.handle_outcome(Outcome::Delivered);
        }
        assert_eq!(packets(&mut sender, 4).len(), 1);
        // 64 kbit/s in packets of 10 ms, and 80 bytes of headers a hundred times a second.
        assert_eq!(sender.bytes_per_second(8_000), 16_000);
        let mut always = SoundSender::new(Redundancy::Always(9), 4, 2, false);
        let counts: Vec<_> = (0..7).map(|byte| packets(&mut always, byte).len()).collect();
        assert_eq!(counts, [1, 2, 3, 4, 5, 5, 5]);
        assert_eq!(always.bytes_per_second(8_000), 48_000);
    }
}
