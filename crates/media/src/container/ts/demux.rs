//! Bytes in, access units out.
//!
//! Units of sound lie in PES packets, and are given as soon as those are whole; pictures are cut as the bitstream says, see
//! [`pictures`](super::pictures). Units with missing packets are dropped and counted.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::align::Aligner;
use super::continuity::{Continuity, ContinuityChecker};
use super::metadata::{Collector, DataUnit, Found};
use super::packet::{PACKET_BYTES, Packet, Pcr, packets};
use super::pes::PesHeader;
pub use super::picture_times::Follows;
use super::picture_times::Given;
use super::pictures::{Damage, Pictures};
use super::psi::{DataKind, Program, STREAM_TYPE_LATM};
use super::tables::Tables;
use super::units::{Splitter, Unit};
use crate::access_unit::{AccessUnit, Codec};
use crate::bitstream::aac_config::HeAac;
use crate::time::Ticks;
use bytes::Bytes;
use std::collections::VecDeque;

/// A PES packet of sound, or a picture, that grows beyond this is dropped.
pub const PES_MAX_BYTES: usize = super::picture_times::UNIT_MAX_BYTES;
/// Streams of one program that are followed; with [`PES_MAX_BYTES`] this bounds the memory.
pub const STREAMS_MAX: usize = 8;
/// Streams of data of one program that are followed beside those, where they are asked for; each holds 64 KiB at most.
pub const DATA_STREAMS_MAX: usize = 8;

/// Those of a program's streams of data that are followed, as PID and kind in the order of the program: cues first where there are
/// more than [`DATA_STREAMS_MAX`], since a cue that is missed changes what is shown, and of KLV there will be newer.
pub fn followed_data(streams: impl Iterator<Item = (u16, DataKind)>) -> Vec<(u16, DataKind)> {
    let mut numbered: Vec<_> = streams.enumerate().collect();
    numbered.sort_by_key(|(number, (_, kind))| (*kind != DataKind::Splice, *number));
    numbered.truncate(DATA_STREAMS_MAX);
    numbered.sort_by_key(|(number, _)| *number);
    numbered.into_iter().map(|(_, stream)| stream).collect()
}

/// What the demuxer found.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The program is known, or another one than before: also where a stream says in its units that it is HE-AAC.
    Program(Program),
    /// An access unit.
    AccessUnit {
        /// Its stream.
        pid: u16,
        /// Number of the packet with which its PES packet began, all packets counted from 0.
        packet: u64,
        /// How a picture follows the one before it; of sound always [`Follows::Directly`].
        follows: Follows,
        /// The unit; PTS and DTS are unwrapped, all streams on one scale.
        unit: AccessUnit,
    },
    /// A unit of a stream of data, where these are asked for: see [`Demuxer::with_data`].
    Data {
        /// Its stream.
        pid: u16,
        /// Number of the packet with which it began, all packets counted from 0.
        packet: u64,
        /// The unit.
        unit: DataUnit,
    },
    /// The program's clock.
    Pcr {
        /// Number of its packet.
        packet: u64,
        /// The clock.
        pcr: Pcr,
    },
}

/// What went by and what went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Whole packets.
    pub packets: u64,
    /// Packets before which others of their PID were missing.
    pub continuity_errors: u64,
    /// Packets with the transport error bit.
    pub transport_errors: u64,
    /// Packets that contradict themselves.
    pub malformed_packets: u64,
    /// Bytes that were no part of a packet.
    pub skipped_bytes: u64,
    /// Units of data dropped because part of them was missing or they are not what they should be, and such as are too large.
    pub damaged_data: u64,
    /// Pictures and PES packets of sound dropped because part of them was missing, their header was wrong, or no time of theirs
    /// was known.
    pub damaged_units: u64,
    /// Pictures and PES packets of sound dropped because they were larger than [`PES_MAX_BYTES`].
    pub oversized_units: u64,
}

/// One elementary stream.
#[derive(Clone, Debug)]
struct Stream {
    pid: u16,
    codec: Codec,
    is_latm: bool,
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    Pictures(Box<Pictures>),
    Sound(Sound),
}

#[derive(Clone, Debug)]
struct Sound {
    codec: Codec,
    /// The begun PES packet; empty where none is.
    pes: Vec<u8>,
    active: bool,
    first_packet: u64,
    splitter: Splitter,
}

/// Where a stream's units go.
struct Sink<'a> {
    reference: &'a mut Option<Ticks>,
    counters: &'a mut Counters,
    events: &'a mut VecDeque<Event>,
}

/// Follows the first program of a transport stream and gives its access units.
#[derive(Clone, Debug, Default)]
pub struct Demuxer {
    aligner: Aligner,
    state: State,
}

#[derive(Clone, Debug)]
struct State {
    continuity: ContinuityChecker,
    tables: Tables,
    streams: Vec<Stream>,
    /// Streams of data, where they are asked for.
    data: Vec<Collector>,
    takes_data: bool,
    pcr_pid: u16,
    /// The last DTS, near which the next stamps lie.
    reference: Option<Ticks>,
    counters: Counters,
    events: VecDeque<Event>,
}

impl Default for State {
    fn default() -> State {
        State {
            continuity: ContinuityChecker::new(),
            tables: Tables::new(),
            streams: Vec::new(),
            data: Vec::new(),
            takes_data: false,
            pcr_pid: super::NULL_PID,
            reference: None,
            counters: Counters::default(),
            events: VecDeque::new(),
        }
    }
}

impl Demuxer {
    /// A demuxer before the first byte.
    pub fn new() -> Demuxer {
        Demuxer::default()
    }

    /// A demuxer that gives KLV metadata and cues of SCTE 35, too, before the first byte.
    #[must_use]
    pub fn with_data() -> Demuxer {
        let mut demuxer = Demuxer::default();
        demuxer.state.takes_data = true;
        demuxer
    }

    /// Takes the next bytes, chopped anywhere. What they complete waits in [`Demuxer::poll`]; poll until `None`
    /// before the next push, or the events pile up.
    pub fn push(&mut self, bytes: &[u8]) {
        let Demuxer { aligner, state } = self;
        aligner.push(bytes, &mut |run| packets(run).for_each(|packet| state.packet(packet)));
    }

    /// The next event, in the order of the stream.
    pub fn poll(&mut self) -> Option<Event> {
        self.state.events.pop_front()
    }

    /// Bytes of pictures that have begun and are not given: of those of which the end does not show before the next one begins.
    #[must_use]
    pub fn begun_bytes(&self) -> usize {
        let pictures = self.state.streams.iter().filter_map(|stream| match &stream.body {
            Body::Pictures(pictures) => Some(pictures.begun_bytes()),
            Body::Sound(_) => None,
        });
        pictures.fold(0, usize::saturating_add)
    }

    /// The source sends nothing for so long that the picture which has begun is whole, as far as the caller can know: it is given
    /// now, and not with the first bytes of the next one. What follows of it nevertheless comes as [`Follows::Rest`]. Poll
    /// afterwards.
    pub fn pause(&mut self) {
        let State { streams, counters, events, .. } = &mut self.state;
        for stream in streams {
            let pid = stream.pid;
            if let Body::Pictures(pictures) = &mut stream.body {
                pictures.pause(&mut |given| events.push_back(given.into_event(pid)));
                counters.take(pictures);
            }
        }
    }

    /// Whether what comes of pictures may still belong to one that [`Demuxer::pause`] gave.
    #[must_use]
    pub fn is_behind_pause(&self) -> bool {
        self.state.streams.iter().any(|stream| match &stream.body {
            Body::Pictures(pictures) => pictures.is_behind_pause(),
            Body::Sound(_) => false,
        })
    }

    /// The stream has ended: units of open length are complete.
    pub fn finish(&mut self) {
        let State { streams, tables, reference, counters, events, .. } = &mut self.state;
        for stream in streams {
            let before = events.len();
            stream.end(&mut Sink { reference, counters, events });
            stream.tell(before, tables, events);
        }
        for at in 0..self.state.data.len() {
            self.state.end_data(at);
        }
    }

    /// The program, once its tables have come.
    pub fn program(&self) -> Option<&Program> {
        self.state.tables.program()
    }

    /// What went by and what went wrong so far.
    pub fn counters(&self) -> Counters {
        Counters {
            skipped_bytes: self.aligner.skipped_bytes(),
            continuity_errors: self.state.continuity.errors(),
            ..self.state.counters
        }
    }
}

fn count(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}

impl State {
    fn packet(&mut self, bytes: &[u8; PACKET_BYTES]) {
        let number = self.counters.packets;
        count(&mut self.counters.packets);
        let Ok(packet) = Packet::parse(bytes) else {
            count(&mut self.counters.malformed_packets);
            return;
        };
        if packet.transport_error {
            count(&mut self.counters.transport_errors);
            return;
        }
        let continuity = self.continuity.check(&packet);
        if let Some(pcr) = packet.pcr().filter(|_| packet.pid == self.pcr_pid) {
            self.events.push_back(Event::Pcr { packet: number, pcr });
        }
        if self.tables.wants(packet.pid) {
            if self.tables.push(bytes, &packet, continuity) {
                self.follow_program();
            }
            return;
        }
        let State { streams, tables, reference, counters, events, .. } = self;
        if let Some(stream) = streams.iter_mut().find(|stream| stream.pid == packet.pid) {
            let before = events.len();
            stream.packet(&packet, continuity, number, &mut Sink { reference, counters, events });
            stream.tell(before, tables, events);
        } else if let Some(data) = self.data.iter_mut().find(|data| data.pid == packet.pid) {
            let found = data.packet(&packet, continuity, number, self.reference);
            let (pid, packet) = (data.pid, data.first_packet);
            self.give(pid, packet, found);
        }
    }

    /// A stream of data has ended: a unit of open length is complete.
    fn end_data(&mut self, at: usize) {
        let Some(data) = self.data.get_mut(at) else { return };
        let mut found = Found::default();
        data.finish(self.reference, &mut found);
        let (pid, packet) = (data.pid, data.first_packet);
        self.give(pid, packet, found);
    }

    fn give(&mut self, pid: u16, packet: u64, found: Found) {
        let Found { units, damaged, oversized } = found;
        let dropped = damaged.saturating_add(oversized);
        self.counters.damaged_data = self.counters.damaged_data.saturating_add(dropped);
        self.events.extend(units.into_iter().map(|unit| Event::Data { pid, packet, unit }));
    }

    /// Keeps the streams of data that go on.
    fn follow_data(&mut self) {
        let streams = self.tables.program().map_or(&[][..], |program| &program.streams).iter();
        let wanted = streams.filter_map(|stream| Some((stream.pid, stream.data_kind()?)));
        let wanted = followed_data(wanted.filter(|_| self.takes_data));
        let mut damaged = 0u64;
        self.data.retain(|data| {
            let goes_on = wanted.contains(&(data.pid, data.kind));
            damaged = damaged.saturating_add(u64::from(!goes_on && data.has_begun()));
            goes_on
        });
        self.counters.damaged_data = self.counters.damaged_data.saturating_add(damaged);
        for (pid, kind) in wanted {
            if !self.data.iter().any(|data| data.pid == pid) {
                self.data.push(Collector::new(pid, kind));
            }
        }
    }

    /// Keeps the streams that go on, ends those that do not.
    fn follow_program(&mut self) {
        let program = self.tables.program();
        let known = program.map_or(&[][..], |program| &program.streams).iter();
        let wanted = known
            .filter_map(|stream| Some((stream.pid, stream.codec?, stream.stream_type == STREAM_TYPE_LATM)));
        let mut wanted: Vec<_> = wanted.collect();
        // Pictures first, so that no number of sounds takes their place.
        wanted.sort_by_key(|(_, codec, _)| !codec.is_video());
        wanted.truncate(STREAMS_MAX);
        let mut old = std::mem::take(&mut self.streams);
        for (pid, codec, is_latm) in wanted {
            let is_known =
                |stream: &Stream| (stream.pid, stream.codec, stream.is_latm) == (pid, codec, is_latm);
            let kept = old.iter().position(is_known);
            let stream =
                kept.map_or_else(|| Stream::new(pid, codec, is_latm), |index| old.swap_remove(index));
            self.streams.push(stream);
        }
        let State { reference, counters, events, .. } = self;
        for mut stream in old {
            stream.end(&mut Sink { reference, counters, events });
        }
        for stream in &self.streams {
            if let Some(he_aac) = stream.he_aac() {
                self.tables.told(stream.pid, he_aac);
            }
        }
        self.follow_data();
        let program = self.tables.program();
        self.pcr_pid = program.map_or(super::NULL_PID, |program| program.pcr_pid);
        self.events.extend(program.cloned().map(Event::Program));
    }
}

impl Stream {
    fn new(pid: u16, codec: Codec, is_latm: bool) -> Stream {
        let body = if codec.is_video() {
            Body::Pictures(Box::new(Pictures::new(codec)))
        } else {
            Body::Sound(Sound {
                codec,
                pes: Vec::new(),
                active: false,
                first_packet: 0,
                splitter: if is_latm { Splitter::of_latm() } else { Splitter::new(codec) },
            })
        };
        Stream { pid, codec, is_latm, body }
    }

    fn packet(&mut self, packet: &Packet<'_>, continuity: Continuity, number: u64, sink: &mut Sink<'_>) {
        match continuity {
            Continuity::Duplicate => return,
            // What begins anew behind an announced jump leaves what was before it as it is.
            Continuity::Signalled { .. } if packet.unit_start && packet.has_payload => self.end(sink),
            Continuity::Lost { .. } | Continuity::Signalled { follows: false } => self.lose(sink),
            Continuity::Signalled { follows: true } => {
                if let Body::Pictures(pictures) = &mut self.body {
                    pictures.note_gap();
                }
            }
            Continuity::First | Continuity::Continuous | Continuity::Unchecked => {}
        }
        if !packet.has_payload || packet.scrambled {
            return;
        }
        let pid = self.pid;
        match &mut self.body {
            Body::Pictures(pictures) => {
                if packet.unit_start {
                    pictures.begin(number, packet.random_access());
                }
                let events = &mut *sink.events;
                let give = &mut |given: Given| events.push_back(given.into_event(pid));
                pictures.push(packet.payload, sink.reference, give);
                sink.counters.take(pictures);
            }
            Body::Sound(sound) => sound.packet(packet, pid, number, sink),
        }
    }

    /// That it is HE-AAC, where it says so itself.
    fn he_aac(&self) -> Option<HeAac> {
        match &self.body {
            Body::Pictures(_) => None,
            Body::Sound(sound) => sound.splitter.he_aac(),
        }
    }

    /// Where it says something that the tables did not, the program is another one than before, in front of the units that
    /// follow the first `before` events.
    fn tell(&self, before: usize, tables: &mut Tables, events: &mut VecDeque<Event>) {
        let Some(he_aac) = self.he_aac() else { return };
        if tables.told(self.pid, he_aac)
            && let Some(program) = tables.program()
        {
            events.insert(before, Event::Program(program.clone()));
        }
    }

    /// Packets are missing.
    fn lose(&mut self, sink: &mut Sink<'_>) {
        match &mut self.body {
            Body::Pictures(pictures) => {
                pictures.lose();
                sink.counters.take(pictures);
            }
            Body::Sound(sound) => {
                if sound.active {
                    count(&mut sink.counters.damaged_units);
                }
                sound.drop_unit();
            }
        }
    }

    /// The stream has ended, or another one begins: units of open length are complete.
    fn end(&mut self, sink: &mut Sink<'_>) {
        let pid = self.pid;
        match &mut self.body {
            Body::Pictures(pictures) => {
                let events = &mut *sink.events;
                pictures.finish(&mut |given| events.push_back(given.into_event(pid)));
                sink.counters.take(pictures);
            }
            Body::Sound(sound) => sound.end(pid, sink),
        }
    }
}

impl Given {
    fn into_event(self, pid: u16) -> Event {
        let Given { packet, follows, unit } = self;
        Event::AccessUnit { pid, packet, follows, unit }
    }
}

impl Counters {
    fn take(&mut self, pictures: &mut Pictures) {
        let Damage { damaged, oversized } = pictures.take_damage();
        self.damaged_units = self.damaged_units.saturating_add(damaged);
        self.oversized_units = self.oversized_units.saturating_add(oversized);
    }
}

impl Sound {
    fn packet(&mut self, packet: &Packet<'_>, pid: u16, number: u64, sink: &mut Sink<'_>) {
        if packet.unit_start {
            self.end(pid, sink);
            self.active = true;
            self.first_packet = number;
        }
        if !self.active {
            return;
        }
        if self.pes.len().saturating_add(packet.payload.len()) > PES_MAX_BYTES {
            count(&mut sink.counters.oversized_units);
            self.drop_unit();
            return;
        }
        self.pes.extend_from_slice(packet.payload);
        if PesHeader::packet_bytes(&self.pes).is_some_and(|bytes| self.pes.len() >= bytes) {
            self.end(pid, sink);
        }
    }

    fn drop_unit(&mut self) {
        self.pes.clear();
        self.active = false;
        self.splitter.reset();
    }

    /// Gives the units of the begun PES packet, if there is one and it is whole.
    fn end(&mut self, pid: u16, sink: &mut Sink<'_>) {
        if !std::mem::take(&mut self.active) {
            return;
        }
        let next = Vec::with_capacity(self.pes.len().min(64 << 10));
        let pes = Bytes::from(std::mem::replace(&mut self.pes, next));
        let header = PesHeader::parse(&pes);
        let end = header.map_or(0, |header| header.packet_bytes.unwrap_or(pes.len()));
        let Some((header, end)) =
            header.ok().filter(|header| header.payload_start <= end && end <= pes.len()).zip(Some(end))
        else {
            count(&mut sink.counters.damaged_units);
            self.splitter.reset();
            return;
        };
        let stamps = header.stamps(sink.reference);
        let (packet, codec) = (self.first_packet, self.codec);
        self.splitter.split(&pes.slice(header.payload_start..end), stamps, &mut |unit| {
            let Unit { data, pts, dts } = unit;
            let stamps = crate::Stamps::default();
            let unit = AccessUnit { codec, data, pts, dts, random_access: true, stamps };
            let follows = Follows::Directly;
            sink.events.push_back(Event::AccessUnit { pid, packet, follows, unit });
        });
    }
}

#[cfg(test)]
#[path = "demux_tests.rs"]
mod tests;
