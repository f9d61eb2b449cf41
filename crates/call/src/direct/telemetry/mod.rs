//! Telemetry that comes on channels beside the pictures, as KLV in the transport stream that is published of them.
//!
//! ```text
//! channel ─► TelemetryInput ─► MAVLink: sets of the vehicle │ KLV: as it is ─► Waiting ─► TelemetryOutput ─► Output
//!  (a thread of the link)                                                        ▲             ▲
//!                                                            picture of its time ┘  muxer ─────┘ (the encoder's thread)
//! ```
//! The stream is synchronous metadata (MISB ST 1402: stream type 0x15, cells, a time stamp): a set has the stamp of the first picture
//! that was captured when the set was read, or after. Both times are by one clock where the sender's channel is `stamped`: a set is
//! put beside its picture, whatever the network did to either. Without that the set's time is that of its arrival, less half of the
//! shortest round trip.

mod waiting;

use super::UNPOISONED;
use crate::link::Link;
use crate::link::session;
use bytes::Bytes;
use glassline_io::clock::Clock;
use glassline_media::bitstream::klv::{self, uas};
use glassline_media::bitstream::mavlink::{self, Read, TelemetryCounters, TimeSource};
use glassline_media::container::ts::metadata::DATA_MAX_BYTES;
use glassline_media::container::ts::{DataInserter, DataKind};
use glassline_media::{Ticks, Time, Utc};
use glassline_studio::output::{Demand, Error, Output, Packets};
use glassline_transport::link::Received;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use waiting::{Unit, Waiting};

/// What messages of a channel are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TelemetryFormat {
    /// Bytes of a MAVLink line, cut anywhere.
    Mavlink,
    /// KLV packets, whole ones: sets of MISB ST 0601, and others beside them.
    St0601,
}

/// What became of telemetry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TelemetryStatistics {
    /// Units that were written: a set made here, or a message of KLV.
    pub units: u64,
    /// Their bytes, without what frames them in the stream.
    pub bytes: u64,
    /// Units for which no picture came while there was room for them.
    pub dropped: u64,
    /// Units that came so long after the pictures of their time that they belong to none.
    pub late: u64,
    /// Messages of [`TelemetryFormat::St0601`] that are not whole, too large, or have a wrong checksum.
    pub refused: u64,
    /// Of all channels of [`TelemetryFormat::Mavlink`]; `None` where there is none.
    pub mavlink: Option<TelemetryCounters>,
}

/// Telemetry on its way from channels of a link into a stream. Clones are the same.
#[derive(Clone, Default)]
pub struct Telemetry(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// One for each channel of MAVLink.
    lines: Vec<Line>,
    waiting: Waiting,
    refused: u64,
}

/// A line of MAVLink, and what was told of it.
#[derive(Default)]
struct Line {
    telemetry: mavlink::Telemetry,
    vehicle: Option<mavlink::Sender>,
    source: Option<TimeSource>,
    has_told_of_others: bool,
    /// Its messages come with their times.
    is_stamped: bool,
    /// How much later than its newest bytes were read they came here: by two clocks that differ that may be seconds, and is how far
    /// its sets are behind our time.
    behind: Duration,
}

impl Telemetry {
    /// Telemetry of which nothing has come.
    pub fn new() -> Telemetry {
        Telemetry::default()
    }

    /// Takes a channel's messages, and hands them on to `beside`.
    pub fn input(
        &self,
        channel: u8,
        format: TelemetryFormat,
        beside: Option<Box<dyn session::Output>>,
    ) -> TelemetryInput {
        let line = (format == TelemetryFormat::Mavlink).then(|| {
            let lines = &mut self.lock().lines;
            lines.push(Line::default());
            lines.len() - 1
        });
        TelemetryInput { telemetry: self.clone(), channel, line, beside, clock: Clock::new() }
    }

    /// What became of it so far.
    pub fn statistics(&self) -> TelemetryStatistics {
        let state = self.lock();
        let mavlink = state.lines.iter().map(|line| line.telemetry.counters()).reduce(sum);
        TelemetryStatistics { refused: state.refused, mavlink, ..state.waiting.statistics() }
    }

    /// An output that has the telemetry in its stream. One at a time is written to.
    pub(super) fn added_to(&self, output: Box<dyn Output>) -> Box<dyn Output> {
        let inserter = DataInserter::new(DataKind::Klv { synchronous: true });
        Box::new(TelemetryOutput {
            telemetry: self.clone(),
            output,
            inserter,
            packets: Vec::new(),
            clock: Clock::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect(UNPOISONED)
    }
}

fn sum(a: TelemetryCounters, b: TelemetryCounters) -> TelemetryCounters {
    TelemetryCounters {
        frames: mavlink::Counters {
            frames: a.frames.frames + b.frames.frames,
            unknown: a.frames.unknown + b.frames.unknown,
            checksums_wrong: a.frames.checksums_wrong + b.frames.checksums_wrong,
            skipped_bytes: a.frames.skipped_bytes + b.frames.skipped_bytes,
        },
        of_other_vehicles: a.of_other_vehicles + b.of_other_vehicles,
        of_ground_stations: a.of_ground_stations + b.of_ground_stations,
        vehicles: a.vehicles + b.vehicles,
        by_vehicle: a.by_vehicle + b.by_vehicle,
        by_sender: a.by_sender + b.by_sender,
        by_receiver: a.by_receiver + b.by_receiver,
    }
}

impl State {
    /// Takes bytes of MAVLink that came at `now`.
    fn take_line(&mut self, channel: u8, index: usize, bytes: &[u8], read: Read, now: Time) {
        let Some(line) = self.lines.get_mut(index) else { return };
        line.behind = now.since(read.at);
        line.is_stamped = read.beside_vehicle;
        let (is_stamped, waiting) = (line.is_stamped, &mut self.waiting);
        let mut source = line.source;
        line.telemetry.push(bytes, read, &mut |set| {
            source = Some(set.source);
            waiting.push(Unit { data: set.bytes.into(), at: set.at, is_stamped });
        });
        line.tell(channel, source);
    }

    /// Takes a message of KLV as it is.
    fn take_klv(&mut self, message: &Bytes, read: Read) {
        if is_whole(message) {
            let is_stamped = read.beside_vehicle;
            self.waiting.push(Unit { data: message.clone(), at: read.at, is_stamped });
        } else {
            self.refused += 1;
        }
    }

    /// The sets of MAVLink that were too early when their messages came, and are due.
    fn poll_lines(&mut self, now: Time) {
        for line in &mut self.lines {
            let now = Time::ZERO + now.since(Time::ZERO).saturating_sub(line.behind);
            if let Some(set) = line.telemetry.poll_set(now) {
                self.waiting.push(Unit { data: set.bytes.into(), at: set.at, is_stamped: line.is_stamped });
            }
        }
    }
}

impl Line {
    /// Says in the log which vehicle is followed, and by which clock its sets are, where that has changed.
    fn tell(&mut self, channel: u8, source: Option<TimeSource>) {
        let vehicle = self.telemetry.vehicle();
        if self.vehicle != vehicle
            && let Some(mavlink::Sender { system, component }) = vehicle
        {
            tracing::info!(channel, system, component, "the stream has the telemetry of this vehicle");
            self.vehicle = vehicle;
        }
        if self.source != source
            && let Some(by) = source
        {
            let clock = match by {
                TimeSource::Vehicle => "the vehicle's, which has it of satellites",
                TimeSource::Sender => "that of the machine beside the vehicle",
                TimeSource::Receiver => "ours, when messages come, less the way of the link",
            };
            tracing::info!(channel, clock, "the clock of the times in the vehicle's sets");
            self.source = source;
        }
        if !self.has_told_of_others && self.telemetry.counters().of_other_vehicles > 0 {
            tracing::warn!(
                channel,
                "another vehicle is heard on this channel too; its telemetry is left out"
            );
            self.has_told_of_others = true;
        }
    }
}

/// Whether a message is KLV packets from its first byte to its last, the sets of ST 0601 among them with right checksums. What
/// other sets are checked by is theirs.
fn is_whole(message: &[u8]) -> bool {
    let mut whole = 0;
    let are_right = klv::packets(message).all(|packet| {
        whole += packet.bytes.len();
        uas::Set::parse(&packet).is_none_or(|set| set.checksum_right == Some(true))
    });
    are_right && whole == message.len() && (1..=DATA_MAX_BYTES).contains(&whole)
}

/// Takes the messages of a channel as telemetry.
pub struct TelemetryInput {
    telemetry: Telemetry,
    channel: u8,
    /// Which line of MAVLink it is, if it is one.
    line: Option<usize>,
    beside: Option<Box<dyn session::Output>>,
    clock: Clock,
}

impl TelemetryInput {
    /// When a message was read beside the vehicle, as far as the pictures' clock tells it: as for them, by both wall clocks.
    fn stamped(&self, stamp: Utc) -> Read {
        let here = self.clock.utc();
        let age = here.as_nanos().saturating_sub(stamp.as_nanos());
        let at = Time::from_nanos(self.clock.now().as_nanos().saturating_sub(age));
        Read { at, utc: stamp, beside_vehicle: true, here }
    }

    /// The same of a message that arrived at `arrived`, after `way`.
    fn unstamped(&self, arrived: Time, way: Duration) -> Read {
        let at = Time::ZERO + arrived.since(Time::ZERO).saturating_sub(way);
        let utc = self.clock.utc_at(at);
        Read { at, utc, beside_vehicle: false, here: utc }
    }

    fn take(&mut self, message: &Bytes, read: Read) {
        let now = self.clock.now();
        let mut state = self.telemetry.lock();
        match self.line {
            Some(index) => state.take_line(self.channel, index, message, read, now),
            None => state.take_klv(message, read),
        }
    }

    /// Hands something to the channel's output. One that fails, since its reader is gone or the disk is full, is left: that the
    /// stream has the telemetry does not depend on it.
    fn hand_on(&mut self, write: impl FnOnce(&mut dyn session::Output) -> io::Result<()>) {
        let Some(beside) = &mut self.beside else { return };
        if let Err(error) = write(beside.as_mut()) {
            let channel = self.channel;
            tracing::warn!(channel, %error, "the channel's output is left, its telemetry goes on into the stream");
            self.beside = None;
        }
    }
}

impl session::Output for TelemetryInput {
    fn write(&mut self, message: &Bytes) -> io::Result<()> {
        self.write_stamped(message, None)
    }

    fn write_stamped(&mut self, message: &Bytes, stamp: Option<Utc>) -> io::Result<()> {
        let read = match stamp {
            Some(stamp) => self.stamped(stamp),
            None => self.unstamped(self.clock.now(), Duration::ZERO),
        };
        self.take(message, read);
        self.hand_on(|beside| beside.write_stamped(message, stamp));
        Ok(())
    }

    fn write_received(&mut self, message: &Received, link: &Link) -> io::Result<()> {
        let read = match message.stamp {
            Some(stamp) => self.stamped(stamp),
            None => {
                let round_trip = link.statistics().map_or(Duration::ZERO, |statistics| statistics.least_rtt);
                self.unstamped(message.last, round_trip / 2)
            }
        };
        self.take(&message.bytes, read);
        self.hand_on(|beside| beside.write_received(message, link));
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hand_on(|beside| beside.flush());
        Ok(())
    }
}

/// An output with the telemetry in its stream.
struct TelemetryOutput {
    telemetry: Telemetry,
    output: Box<dyn Output>,
    inserter: DataInserter,
    packets: Vec<u8>,
    clock: Clock,
}

impl TelemetryOutput {
    /// Appends what belongs to the newest picture, or to those before it. Returns how many units that are, and their bytes.
    fn add_units(&mut self) -> (u64, u64) {
        let (mut units, mut bytes) = (0, 0);
        if !self.inserter.is_announced() {
            return (units, bytes);
        }
        let now = self.clock.now();
        let Some(picture) = self.inserter.picture(Ticks::from_time(now)) else { return (units, bytes) };
        let mut state = self.telemetry.lock();
        state.poll_lines(now);
        while let Some(unit) = state.waiting.take_for(picture.captured) {
            self.inserter.write(&unit, picture.pts, &mut self.packets);
            units += 1;
            bytes += unit.len() as u64;
        }
        (units, bytes)
    }

    /// Hands on what was appended, and counts the units in it.
    fn hand_on(&mut self, (units, bytes): (u64, u64), packets: Packets<'_>) -> Result<Demand, Error> {
        let written = self.output.write(&Packets { bytes: &self.packets, ..packets });
        if units > 0 {
            self.telemetry.lock().waiting.count(units, bytes, written.is_ok());
        }
        written
    }
}

impl Output for TelemetryOutput {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand, Error> {
        self.packets.clear();
        self.inserter.pass(packets.bytes, &mut self.packets);
        // Between the slices of a picture nothing is put.
        let added = if packets.ends_picture { self.add_units() } else { (0, 0) };
        self.hand_on(added, *packets)
    }

    /// No picture comes any more: what belongs to the last one, and was too late for it, is written behind it, and what waits for
    /// another one is given up.
    fn finish(&mut self) -> Result<(), Error> {
        self.packets.clear();
        let added = self.add_units();
        let written =
            if added.0 > 0 { self.hand_on(added, Packets::whole(&[], false)).map(drop) } else { Ok(()) };
        self.telemetry.lock().waiting.clear();
        written.and(self.output.finish())
    }

    fn stream(&self) -> Option<String> {
        self.output.stream()
    }
}

#[cfg(test)]
mod tests;
