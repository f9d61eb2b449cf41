//! Sound beside the pictures, as `send` has it: packets of a constant size at their times, which take their share of the link.

use super::outcome::SoundSummary;
use bytes::Bytes;
use glassline_direct::SOUND;
use glassline_direct::sound::{FRAME_UNIT, Redundancy, SoundMessage, SoundSender};
use glassline_media::quantity::Bitrate;
use glassline_media::{Time, Utc};
use glassline_transport::link::Event;
use std::time::Duration;

/// Sound in a packet, in units of [`FRAME_UNIT`]: 10 ms, as where `send` is told nothing else.
const FRAME_UNITS: u8 = 4;

/// Sound of an experiment, from its sender to its receiver.
pub(super) struct Sound {
    sender: SoundSender,
    coded_bytes_per_second: u64,
    packet: Bytes,
    /// When the next packet is there.
    next: Time,
    /// No packet is there from then on.
    until: Time,
    sent: u64,
    /// How old messages were when they came.
    delays: Vec<Duration>,
}

impl Sound {
    /// Packets from `start` until `until`.
    pub(super) fn new(bitrate: Bitrate, start: Time, until: Time) -> Sound {
        let coded_bytes_per_second = bitrate.bits_per_second() / 8;
        let bytes = coded_bytes_per_second as f64 * interval().as_secs_f64();
        Sound {
            sender: SoundSender::new(Redundancy::Auto, FRAME_UNITS, 2, false),
            coded_bytes_per_second,
            packet: vec![0; (bytes.round() as usize).max(1)].into(),
            next: start,
            until,
            sent: 0,
            delays: Vec::new(),
        }
    }

    /// What it puts on the link, bytes a second.
    pub(super) fn bytes_per_second(&self) -> u64 {
        self.sender.bytes_per_second(self.coded_bytes_per_second)
    }

    /// When [`Sound::poll_message`] has a message next.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        Some(self.next).filter(|next| *next < self.until)
    }

    /// The message of a packet that is there by now.
    pub(super) fn poll_message(&mut self, now: Time) -> Option<Bytes> {
        let due = self.poll_timeout().filter(|due| *due <= now)?;
        self.next += interval();
        self.sent += 1;
        // The experiment's wall clock is its time.
        Some(self.sender.message(self.packet.clone(), Utc::from_nanos(due.as_nanos())))
    }

    /// Takes an event of the sender's link; whether it was one of sound.
    pub(super) fn handle_event(&mut self, event: &Event) -> bool {
        let Event::Finished { channel: SOUND, outcome, .. } = event else { return false };
        self.sender.handle_outcome(*outcome);
        true
    }

    /// A message has come at the receiver.
    pub(super) fn handle_message(&mut self, now: Time, message: &Bytes) {
        if let Ok(SoundMessage { header, .. }) = SoundMessage::parse(message) {
            self.delays.push(now.since(Time::from_nanos(header.captured.as_nanos())));
        }
    }

    /// The figures.
    pub(super) fn summary(&mut self) -> SoundSummary {
        self.delays.sort_unstable();
        let rank = (0.95 * self.delays.len() as f64).ceil() as usize;
        let p95 = self.delays.get(rank.saturating_sub(1)).copied().unwrap_or_default();
        SoundSummary {
            sent: self.sent,
            arrived: self.delays.len() as u64,
            delay_p95_ms: (p95.as_secs_f64() * 1e5).round() / 100.0,
        }
    }
}

fn interval() -> Duration {
    FRAME_UNIT * u32::from(FRAME_UNITS)
}
