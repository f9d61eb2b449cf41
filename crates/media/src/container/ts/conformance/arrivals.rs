//! When each packet arrives at the ideal receiver: between two references of the clock, evenly (13818-1 §2.4.2.2).

use super::super::packet::Pcr;
use crate::time::Ticks;
use std::collections::VecDeque;

/// References that are remembered, for what is known of earlier packets later: some seconds.
const REFERENCES: usize = 512;
/// Marks that wait for the next reference: a second of 400 Mbit/s.
const MARKS: usize = 1 << 18;

/// Something that happens at a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PacketEvent {
    Pat,
    Pmt,
    /// A PES packet of this stream begins.
    PesStart {
        pid: u16,
    },
    /// A packet of the video that goes through the model of the buffers.
    Video {
        payload_bytes: u32,
    },
    /// An access unit ends.
    Unit {
        pid: u16,
        first_packet: u64,
        dts: Ticks,
        /// Its bytes, if it goes through that model.
        bytes: Option<u64>,
        /// Ten seconds may pass until it is decoded, not one.
        slow: bool,
    },
}

/// A mark with its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Timed {
    pub(super) mark: PacketEvent,
    /// When its packet begins to arrive, 27 MHz ticks since the first reference.
    pub(super) at: f64,
    /// How long the packet takes.
    pub(super) packet_ticks: f64,
}

/// What becomes of a mark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pushed {
    /// It waits for the next reference, or is before the first.
    Waits,
    Timed(Timed),
    /// Its time can no longer be told.
    Lost,
}

/// The references so far, and what waits for the next one.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    /// Number of the packet, and the clock unwrapped, 27 MHz ticks.
    references: VecDeque<(u64, u64)>,
    /// The first of all.
    origin: u64,
    last: Option<Pcr>,
    marks: VecDeque<(u64, PacketEvent)>,
}

impl Arrivals {
    pub(super) fn has_reference(&self) -> bool {
        self.last.is_some()
    }

    /// Ticks since the last reference, if there is one.
    pub(super) fn since_last(&self, pcr: Pcr) -> Option<u64> {
        self.last.map(|last| pcr.since(last))
    }

    /// Takes a reference on packet `number`; gives its time, unwrapped: 27 MHz ticks.
    pub(super) fn reference(&mut self, pcr: Pcr, number: u64) -> u64 {
        let before = self.references.back().map(|(_, ticks)| *ticks);
        let ticks = match (before, self.since_last(pcr)) {
            (Some(before), Some(since)) => before + since,
            _ => {
                self.origin = pcr.ticks();
                self.origin
            }
        };
        self.last = Some(pcr);
        if self.references.len() >= REFERENCES {
            self.references.pop_front();
        }
        self.references.push_back((number, ticks));
        ticks
    }

    /// The time of a stamp, the nearest to the last reference on the clock's circle: ticks since the first reference.
    pub(super) fn time_of(&self, stamp: Ticks) -> f64 {
        let now = self.references.back().map_or(0, |(_, ticks)| *ticks);
        let near = Ticks::unwrap_near(stamp.wrapped(), Ticks((now / 300) as i64));
        (i128::from(near.0) * 300 - i128::from(self.origin)) as f64
    }

    /// Remembers `mark` of packet `number` until its time is known, or tells it.
    pub(super) fn push(&mut self, number: u64, mark: PacketEvent) -> Pushed {
        match self.references.back() {
            None => Pushed::Waits,
            Some(&(newest, _)) if number < newest => {
                self.time(number, mark).map_or(Pushed::Lost, Pushed::Timed)
            }
            Some(_) if self.marks.len() >= MARKS => Pushed::Lost,
            Some(_) => {
                self.marks.push_back((number, mark));
                Pushed::Waits
            }
        }
    }

    /// The next mark before the last reference.
    pub(super) fn pop(&mut self) -> Option<(u64, Timed)> {
        let newest = self.references.back()?.0;
        loop {
            let (number, mark) = *self.marks.front().filter(|(number, _)| *number < newest)?;
            self.marks.pop_front();
            if let Some(timed) = self.time(number, mark) {
                return Some((number, timed));
            }
        }
    }

    /// Nothing that waits goes through the buffers.
    pub(super) fn forget_video(&mut self) {
        self.marks.retain(|(_, mark)| !matches!(mark, PacketEvent::Video { .. }));
        for (_, mark) in &mut self.marks {
            if let PacketEvent::Unit { bytes, .. } = mark {
                *bytes = None;
            }
        }
    }

    fn time(&self, number: u64, mark: PacketEvent) -> Option<Timed> {
        let behind = self.references.partition_point(|(reference, _)| *reference <= number);
        let (from, to) = (self.references.get(behind.checked_sub(1)?)?, self.references.get(behind)?);
        let packet_ticks = (to.1 - from.1) as f64 / (to.0 - from.0).max(1) as f64;
        let at = (from.1 - self.origin) as f64 + (number - from.0) as f64 * packet_ticks;
        Some(Timed { mark, at, packet_ticks })
    }
}
