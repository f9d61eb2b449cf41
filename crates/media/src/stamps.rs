//! The latency stamps: when a picture passed each hop on its way from glass to glass.
//!
//! ```text
//! captured ─ arrived ─ queued ─ encoder in ─ look-ahead ─ first slice ─ encoded ─ muxed ─ sent     the sender's clock
//!     relay received ─ relay released ─ relay flushed ─ relay sent                      the relay's
//!         received ─ demuxed ─ reassembled ─ decoded ─ shown                            the receiver's
//! ```
//! Each hop sets its own with [`Stamps::set`]. [`Stamps::budget`] tells where the time went; [`Record`] is the form in
//! which a sender's stamps go along in the stream.

mod counts;
mod record;

pub use counts::{STAGE_EDGES_MICROS, StageCount, StageCounts};
pub use record::{ClockAccuracy, Previous, RECORD_BYTES_MAX, Record};

use crate::time::Time;
use std::time::Duration;

/// No part of a live picture's way lasts longer than this: where stamps say so, a clock was set, or they are no stamps.
pub const STAGE_LONGEST: Duration = Duration::from_secs(60);

/// A hop of a picture's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Stage {
    /// The picture's own time: taken once, at capture.
    Captured,
    /// All of it was in memory: the device, the network or the file had given its last byte.
    Arrived,
    /// Its time had come, and it was handed to the encoder's queue.
    Queued,
    /// Handed to the encoder.
    EncoderIn,
    /// The encoder was about to give it out, after it had looked at pictures behind it: look-ahead, B-pictures, frame threads.
    /// Not known of an encoder without delay.
    LookAhead,
    /// The encoder gave the first slice.
    FirstSlice,
    /// The encoder gave the last slice, or the whole picture where it gives no slices.
    Encoded,
    /// The container's last packet was written.
    Muxed,
    /// The last byte was handed to the kernel.
    Sent,
    /// The relay had the last byte.
    RelayReceived,
    /// The transport by which the relay got it had held it back for its latency (SRT's time-stamp based delivery).
    RelayReleased,
    /// The relay let its viewers have it.
    RelayFlushed,
    /// The relay handed the last byte to the kernel.
    RelaySent,
    /// The receiver's socket gave the last byte; where a transport reassembles fragments, the first one.
    Received,
    /// The last packet was taken out of its container.
    Demuxed,
    /// The last byte needed for decoding was there.
    Reassembled,
    /// The decoder gave the picture.
    Decoded,
    /// On the screen.
    Shown,
    /// The first packet was handed to the kernel. Beside the way: with slices it lies before the encoder's end.
    FirstSent,
    /// The relay had the first byte. Beside the way: with slices it lies before the encoder's end.
    RelayFirstByte,
}

impl Stage {
    /// All stages: first those of the way, then those beside it.
    pub const ALL: [Stage; 20] = [
        Stage::Captured,
        Stage::Arrived,
        Stage::Queued,
        Stage::EncoderIn,
        Stage::LookAhead,
        Stage::FirstSlice,
        Stage::Encoded,
        Stage::Muxed,
        Stage::Sent,
        Stage::RelayReceived,
        Stage::RelayReleased,
        Stage::RelayFlushed,
        Stage::RelaySent,
        Stage::Received,
        Stage::Demuxed,
        Stage::Reassembled,
        Stage::Decoded,
        Stage::Shown,
        Stage::FirstSent,
        Stage::RelayFirstByte,
    ];

    /// The way of a picture's last byte: no stage of it comes before the one in front of it.
    pub fn way() -> impl Iterator<Item = Stage> {
        Stage::ALL.into_iter().filter(|stage| *stage <= Stage::Shown)
    }

    /// The name that metrics and JSON use.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Captured => "captured",
            Stage::Arrived => "arrived",
            Stage::Queued => "queued",
            Stage::EncoderIn => "encoder_in",
            Stage::LookAhead => "look_ahead",
            Stage::FirstSlice => "first_slice",
            Stage::Encoded => "encoded",
            Stage::Muxed => "muxed",
            Stage::Sent => "sent",
            Stage::RelayReceived => "relay_received",
            Stage::RelayReleased => "relay_released",
            Stage::RelayFlushed => "relay_flushed",
            Stage::RelaySent => "relay_sent",
            Stage::Received => "received",
            Stage::Demuxed => "demuxed",
            Stage::Reassembled => "reassembled",
            Stage::Decoded => "decoded",
            Stage::Shown => "shown",
            Stage::FirstSent => "first_sent",
            Stage::RelayFirstByte => "relay_first_byte",
        }
    }

    /// The words that tables and pictures use.
    pub const fn label(self) -> &'static str {
        match self {
            Stage::EncoderIn => "encoder in",
            Stage::LookAhead => "out of the look-ahead",
            Stage::FirstSlice => "first slice out",
            Stage::Encoded => "last slice out",
            Stage::RelayReceived => "received by the relay",
            Stage::RelayReleased => "released by SRT",
            Stage::RelayFlushed => "flushed by the relay",
            Stage::RelaySent => "sent by the relay",
            Stage::FirstSent => "first packet",
            Stage::RelayFirstByte => "first byte at the relay",
            same => same.name(),
        }
    }

    /// The stage's number on the wire, which stays as it is whatever stages come to be between.
    pub const fn code(self) -> u8 {
        match self {
            Stage::Captured => 0,
            Stage::Queued => 1,
            Stage::Encoded => 2,
            Stage::Muxed => 3,
            Stage::Sent => 4,
            Stage::Received => 5,
            Stage::Reassembled => 6,
            Stage::Decoded => 7,
            Stage::Shown => 8,
            Stage::Arrived => 9,
            Stage::EncoderIn => 10,
            Stage::FirstSlice => 11,
            Stage::FirstSent => 12,
            Stage::RelayFirstByte => 13,
            Stage::RelayReceived => 14,
            Stage::RelayFlushed => 15,
            Stage::RelaySent => 16,
            Stage::Demuxed => 17,
            Stage::LookAhead => 18,
            Stage::RelayReleased => 19,
        }
    }

    /// The stage of this number; `None` for one of a later version.
    pub fn from_code(code: u8) -> Option<Stage> {
        Stage::ALL.into_iter().find(|stage| stage.code() == code)
    }
}

/// When a picture passed each [`Stage`], on one monotonic clock. 160 bytes, copied along with the picture.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Stamps([Time; Stage::ALL.len()]);

/// What stands for a stage that is not known.
const UNKNOWN: Time = Time::NEVER;

impl Default for Stamps {
    /// Nothing is known.
    fn default() -> Stamps {
        Stamps([UNKNOWN; Stage::ALL.len()])
    }
}

impl Stamps {
    /// Stamps of a picture captured at `time`.
    pub fn captured_at(time: Time) -> Stamps {
        Stamps::default().with(Stage::Captured, time)
    }

    /// Writes down that `stage` was passed at `time`; a later call for the same stage wins.
    pub fn set(&mut self, stage: Stage, time: Time) {
        self.0[stage as usize] = time;
    }

    /// The same stamps, `stage` among them.
    #[must_use]
    pub fn with(mut self, stage: Stage, time: Time) -> Stamps {
        self.set(stage, time);
        self
    }

    /// When `stage` was passed, if that is known.
    pub fn at(&self, stage: Stage) -> Option<Time> {
        Some(self.0[stage as usize]).filter(|time| *time != UNKNOWN)
    }

    /// How long the way from one stage to another took. `None` where one of them is not known, where the second lies before
    /// the first, and where the way would have lasted longer than [`STAGE_LONGEST`].
    pub fn between(&self, from: Stage, to: Stage) -> Option<Duration> {
        let (from, to) = (self.at(from)?, self.at(to)?);
        Some(to.since(from)).filter(|time| to >= from && *time <= STAGE_LONGEST)
    }

    /// The latency budget: each stage of the way with the stage before it that is known, and the time between. A stage that
    /// lies before its predecessor, or too far behind it, counts as unknown: the sum of all is the time from the first to the
    /// last one told.
    pub fn budget(&self) -> impl Iterator<Item = Step> + '_ {
        let mut before = None;
        Stage::way().filter_map(move |stage| {
            self.at(stage)?;
            let Some(from) = before else {
                before = Some(stage);
                return None;
            };
            let time = self.between(from, stage)?;
            before = Some(stage);
            Some(Step { from, to: stage, time })
        })
    }

    /// The same stamps without what cannot be at `now`: stages of the future, stages longer ago than [`STAGE_LONGEST`] or so
    /// far behind capture, and stages of the way that lie before their predecessors.
    #[must_use]
    pub fn checked(&self, now: Time) -> Stamps {
        let mut checked = *self;
        for stage in Stage::ALL {
            let is_possible = |time: Time| time <= now && now.since(time) <= STAGE_LONGEST;
            if !checked.at(stage).is_some_and(is_possible) {
                checked.set(stage, UNKNOWN);
            }
        }
        let mut latest = Time::ZERO;
        for stage in Stage::way() {
            match checked.at(stage) {
                Some(time) if time < latest => checked.set(stage, UNKNOWN),
                Some(time) => latest = time,
                None => {}
            }
        }
        checked
    }

    /// The same stamps on another clock, on which the picture was captured at `captured`. What lies before that clock's
    /// origin, and everything where the capture is not known, is unknown then.
    #[must_use]
    pub fn rebased(&self, captured: Time) -> Stamps {
        let Some(origin) = self.at(Stage::Captured) else { return Stamps::default() };
        let mut rebased = Stamps::default();
        for stage in Stage::ALL {
            let time = self.at(stage).and_then(|time| {
                if time >= origin {
                    captured.as_nanos().checked_add(time.since(origin).as_nanos() as u64)
                } else {
                    captured.as_nanos().checked_sub(origin.since(time).as_nanos() as u64)
                }
            });
            rebased.set(stage, time.map_or(UNKNOWN, Time::from_nanos));
        }
        rebased
    }

    /// These stamps, and of what is unknown here those of `other`.
    #[must_use]
    pub fn or(&self, other: &Stamps) -> Stamps {
        let mut both = *other;
        for stage in Stage::ALL {
            if let Some(time) = self.at(stage) {
                both.set(stage, time);
            }
        }
        both
    }
}

impl std::fmt::Debug for Stamps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = Stage::ALL.into_iter().filter_map(|stage| Some((stage, self.at(stage)?)));
        f.debug_map().entries(known).finish()
    }
}

/// A part of the way, from one known stage to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where it began.
    pub from: Stage,
    /// Where it ended.
    pub to: Stage,
    /// How long it took.
    pub time: Duration,
}

#[cfg(test)]
mod tests;
