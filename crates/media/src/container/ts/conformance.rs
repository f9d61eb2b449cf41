//! Whether a stream keeps the rules that receivers rely on (13818-1; TR 101 290 where it has no number).
//!
//! In: packets. Out: a [`Verdict`] for each [`Rule`]. Nothing depends on when bytes come to us: a packet *arrives* when
//! the program's clock says so. Between two references all bytes arrive evenly (§2.4.2.2), so each packet has its time
//! once the reference behind it is there; what lies behind the last one is not judged.

mod accuracy;
mod arrivals;
mod rules;

pub use rules::{Profile, Rule, Verdict};

use super::align::Aligner;
use super::continuity::{Continuity, ContinuityChecker};
use super::demux::{Demuxer, Event};
use super::packet::{NULL_PID, PACKET_BYTES, Packet, Pcr, packets};
use super::psi::{PAT_PID, Program};
use super::tstd::{Findings, Sizes, Tstd};
use crate::access_unit::{AccessUnit, Codec};
use crate::bitstream;
use crate::bitstream::h264::{NalType, Sps};
use crate::time::Ticks;
use accuracy::Accuracy;
use arrivals::{Arrivals, PacketEvent, Pushed, Timed};
use rules::Tally;
use std::collections::{BTreeMap, VecDeque};

/// A longer step of the clock is a jump.
const JUMP_TICKS: u64 = 10 * Pcr::RATE;
/// Starts of PES packets that are remembered for a stream: those of units that are not complete, and more.
const STARTS_MAX: usize = 64;
/// Streams that are followed.
const STREAMS_MAX: usize = 64;

/// What is known of one elementary stream.
#[derive(Clone, Debug, Default)]
struct Stream {
    /// Its latest packet with a payload.
    last_packet: Option<u64>,
    last_dts: Option<Ticks>,
    /// When PES packets began to arrive, by the number of their first packet; 27 MHz ticks.
    starts: VecDeque<(u64, f64)>,
}

/// The video stream that goes through the model of the decoder's buffers.
#[derive(Clone, Debug, Default)]
struct Video {
    pid: Option<u16>,
    /// Bytes of the begun PES header that are still to come.
    header_left: usize,
    /// The packet with which the model began; `None` while it waits for a PES packet's start.
    since: Option<u64>,
}

/// Judges a stream. Some MiB; about twice a demuxer's time.
#[derive(Clone, Debug)]
pub struct Checker {
    aligner: Aligner,
    state: State,
}

#[derive(Clone, Debug)]
struct State {
    tally: Tally,
    packets: u64,
    continuity: ContinuityChecker,
    demuxer: Demuxer,
    program: Option<Program>,
    arrivals: Arrivals,
    accuracy: Accuracy,
    pat_at: Option<f64>,
    pmt_at: Option<f64>,
    streams: BTreeMap<u16, Stream>,
    video: Video,
    model: Tstd,
}

impl Checker {
    /// Nothing judged yet.
    pub fn new(profile: Profile) -> Checker {
        let state = State {
            tally: Tally::new(profile),
            packets: 0,
            continuity: ContinuityChecker::new(),
            demuxer: Demuxer::new(),
            program: None,
            arrivals: Arrivals::default(),
            accuracy: Accuracy::default(),
            pat_at: None,
            pmt_at: None,
            streams: BTreeMap::new(),
            video: Video::default(),
            model: Tstd::new(),
        };
        Checker { aligner: Aligner::new(), state }
    }

    /// Takes the next bytes, chopped anywhere.
    pub fn push(&mut self, bytes: &[u8]) {
        let Checker { aligner, state } = self;
        aligner.push(bytes, &mut |run| packets(run).for_each(|packet| state.packet(packet)));
        state.tally.total(Rule::Sync, state.packets, aligner.resyncs());
    }

    /// The stream has ended.
    pub fn finish(&mut self) {
        let state = &mut self.state;
        state.demuxer.finish();
        state.events(None);
        state.model.finish();
        state.accuracy.finish(&mut state.tally);
    }

    /// A verdict for each rule, in the order of [`Rule::ALL`].
    pub fn verdicts(&self) -> Vec<Verdict> {
        let mut tally = self.state.tally.clone();
        tally.model(&self.state.model.findings());
        tally.verdicts()
    }

    /// What the video's buffers have done.
    pub fn buffers(&self) -> Findings {
        self.state.model.findings()
    }

    /// Whether the rate is constant, as far as the clock's references show; `None` before ten of them.
    pub fn is_constant_rate(&self) -> Option<bool> {
        self.state.accuracy.is_constant()
    }
}

impl State {
    fn packet(&mut self, bytes: &[u8; PACKET_BYTES]) {
        let number = self.packets;
        self.packets += 1;
        let parsed = Packet::parse(bytes);
        let bad = parsed.as_ref().map_or(true, |packet| packet.transport_error);
        self.tally.note(Rule::TransportError, bad, 0.0, number);
        if let Ok(packet) = parsed.as_ref()
            && !packet.transport_error
        {
            self.whole_packet(packet, number);
        }
        self.demuxer.push(bytes);
        let starts = parsed.as_ref().is_ok_and(|packet| packet.unit_start);
        self.events(Some((number, starts)));
        if let Ok(packet) = parsed
            && packet.has_payload
            && let Some(stream) = self.streams.get_mut(&packet.pid)
        {
            stream.last_packet = Some(number);
        }
    }

    fn whole_packet(&mut self, packet: &Packet<'_>, number: u64) {
        if packet.pid == NULL_PID {
            self.accuracy.null();
        }
        let continuity = self.continuity.check(packet);
        let lost = matches!(continuity, Continuity::Lost { .. });
        self.tally.note(Rule::Continuity, lost, 0.0, number);
        if (lost || packet.discontinuity()) && self.video.pid == Some(packet.pid) {
            self.restart_video();
        }
        let pcr_pid = self.program.as_ref().map(|program| program.pcr_pid);
        if let Some(pcr) = packet.pcr().filter(|_| pcr_pid == Some(packet.pid)) {
            self.reference(pcr, number, packet.discontinuity());
        }
        if packet.unit_start {
            let pmt_pid = self.program.as_ref().map(|program| program.pmt_pid);
            let mark = match packet.pid {
                PAT_PID => Some(PacketEvent::Pat),
                pid if pmt_pid == Some(pid) => Some(PacketEvent::Pmt),
                pid if self.streams.contains_key(&pid) => Some(PacketEvent::PesStart { pid }),
                _ => None,
            };
            if let Some(mark) = mark {
                self.mark(number, mark);
            }
        }
        if self.video.pid == Some(packet.pid) && continuity != Continuity::Duplicate {
            self.video_packet(packet, number);
        }
    }

    /// A reference of the clock: gives all packets since the last one their times.
    fn reference(&mut self, pcr: Pcr, number: u64, announced: bool) {
        if let Some(ticks) = self.arrivals.since_last(pcr) {
            let jumps = announced || ticks > JUMP_TICKS;
            let by = if jumps && !announced { ticks.min(Pcr::WRAP - ticks) } else { 0 };
            self.tally.note(Rule::ClockJump, by > 0, by as f64 / Pcr::RATE as f64, number);
            if jumps {
                self.restart();
            } else {
                self.tally.at_most(Rule::PcrInterval, ticks as f64 * 1e3 / Pcr::RATE as f64, number);
            }
        }
        let now = self.arrivals.reference(pcr, number);
        self.accuracy.reference(number, now, &mut self.tally);
        while let Some((number, timed)) = self.arrivals.pop() {
            self.timed(number, timed);
        }
    }

    /// The clock began anew: nothing compares with what was before.
    fn restart(&mut self) {
        self.arrivals = Arrivals::default();
        self.accuracy.restart(&mut self.tally);
        (self.pat_at, self.pmt_at) = (None, None);
        for stream in self.streams.values_mut() {
            stream.starts.clear();
            stream.last_dts = None;
        }
        self.restart_video();
    }

    fn restart_video(&mut self) {
        self.model.reset();
        self.arrivals.forget_video();
        self.video.since = None;
    }

    fn mark(&mut self, number: u64, mark: PacketEvent) {
        match self.arrivals.push(number, mark) {
            Pushed::Waits => {}
            Pushed::Timed(timed) => self.timed(number, timed),
            // No clock for very long, or a unit of very many of its intervals.
            Pushed::Lost => self.restart(),
        }
    }

    /// A packet of the video, for the buffers.
    fn video_packet(&mut self, packet: &Packet<'_>, number: u64) {
        if packet.unit_start && packet.has_payload {
            let Some(&length) = packet.payload.get(8) else { return self.restart_video() };
            self.video.header_left = 9 + usize::from(length);
            if self.arrivals.has_reference() {
                self.video.since.get_or_insert(number);
            }
        }
        if self.video.since.is_none() {
            return;
        }
        let header = self.video.header_left.min(packet.payload.len());
        self.video.header_left -= header;
        let payload_bytes = (packet.payload.len() - header) as u32;
        self.mark(number, PacketEvent::Video { payload_bytes });
    }

    /// Something has its time now.
    fn timed(&mut self, number: u64, Timed { mark, at, packet_ticks }: Timed) {
        match mark {
            PacketEvent::Pat | PacketEvent::Pmt => {
                let (last, rule) = match mark {
                    PacketEvent::Pat => (&mut self.pat_at, Rule::PatInterval),
                    _ => (&mut self.pmt_at, Rule::PmtInterval),
                };
                if let Some(last) = last.replace(at) {
                    self.tally.at_most(rule, (at - last) * 1e3 / Pcr::RATE as f64, number);
                }
            }
            PacketEvent::PesStart { pid } => {
                if let Some(stream) = self.streams.get_mut(&pid) {
                    if stream.starts.len() >= STARTS_MAX {
                        stream.starts.pop_front();
                    }
                    stream.starts.push_back((number, at));
                }
            }
            PacketEvent::Video { payload_bytes } => {
                let seconds = |ticks: f64| ticks / Pcr::RATE as f64;
                self.model.packet(seconds(at), seconds(at + packet_ticks), payload_bytes);
            }
            PacketEvent::Unit { pid, first_packet, dts, bytes, slow } => {
                let decode = self.arrivals.time_of(dts);
                if let Some(bytes) = bytes {
                    self.model.unit(decode / Pcr::RATE as f64, bytes);
                }
                let Some(stream) = self.streams.get(&pid) else { return };
                let millis = |ticks: f64| ticks * 1e3 / Pcr::RATE as f64;
                // The last byte is there when its packet is.
                let late = at + packet_ticks - decode;
                self.tally.note(Rule::Late, late > 1.0, millis(late).max(0.0), number);
                if let Some((_, begin)) = stream.starts.iter().find(|(start, _)| *start == first_packet) {
                    let rule = if slow { Rule::HeldLongH264 } else { Rule::HeldLong };
                    self.tally.at_most(rule, millis(decode - begin), number);
                }
            }
        }
    }

    /// What the demuxer has found with packet `now`, which begins a unit of its PID or does not.
    fn events(&mut self, now: Option<(u64, bool)>) {
        while let Some(event) = self.demuxer.poll() {
            match event {
                Event::Program(program) => self.follow(program),
                Event::AccessUnit { pid, packet, unit, .. } => self.unit(pid, packet, &unit, now),
                Event::Data { .. } | Event::Pcr { .. } => {}
            }
        }
    }

    fn follow(&mut self, program: Program) {
        let pids = || program.streams.iter().filter(|stream| stream.codec.is_some()).map(|stream| stream.pid);
        self.streams.retain(|pid, _| pids().any(|known| known == *pid));
        for pid in pids().take(STREAMS_MAX) {
            self.streams.entry(pid).or_default();
        }
        let video =
            program.video().filter(|stream| stream.codec == Some(Codec::H264)).map(|stream| stream.pid);
        let clock = self.program.as_ref().map(|program| program.pcr_pid);
        if clock.is_some_and(|clock| clock != program.pcr_pid) {
            self.restart();
        }
        if video != self.video.pid {
            self.restart_video();
            self.video = Video { pid: video, ..Video::default() };
        }
        self.program = Some(program);
    }

    /// A unit is complete.
    fn unit(&mut self, pid: u16, first_packet: u64, unit: &AccessUnit, now: Option<(u64, bool)>) {
        let is_watched = self.video.pid == Some(pid);
        if is_watched {
            self.learn_sizes(unit);
        }
        let Some(stream) = self.streams.get_mut(&pid) else { return };
        // A unit of open length was complete with the packet before the one that begins the next.
        let last_packet = match now {
            Some((number, starts)) if first_packet == number || !starts => Some(number),
            _ => stream.last_packet,
        };
        let Some(last_packet) = last_packet else { return };
        if let Some(last) = stream.last_dts.replace(unit.dts) {
            let back = (last - unit.dts).0;
            let is_another_run = back.abs() > 10 * i64::from(Ticks::RATE);
            let (late, millis) = (back >= 0, back as f64 / 90.0);
            if !is_another_run {
                self.tally.note(Rule::DtsOrder, late, millis.max(0.0), last_packet);
                self.tally.at_most(Rule::PtsInterval, -millis, last_packet);
            }
        }
        let early = (unit.dts - unit.pts).0;
        self.tally.note(Rule::PtsBeforeDts, early > 0, early as f64 / 90.0, last_packet);
        let is_modelled = is_watched && self.video.since.is_some_and(|since| first_packet >= since);
        let mark = PacketEvent::Unit {
            pid,
            first_packet,
            dts: unit.dts,
            bytes: is_modelled.then_some(unit.data.len() as u64),
            slow: matches!(unit.codec, Codec::H264 | Codec::H265 | Codec::Av1),
        };
        self.mark(last_packet, mark);
    }

    fn learn_sizes(&mut self, unit: &AccessUnit) {
        if unit.codec != Codec::H264 {
            return;
        }
        let (mut head, _) = bitstream::head(Codec::H264, &unit.data);
        let Some(set) = head.find(|nal| nal.kind() == NalType::Sps) else { return };
        if let Some(sizes) = Sps::parse(set.payload()).ok().as_ref().and_then(Sizes::of_h264) {
            self.model.resize(sizes);
        }
    }
}

#[cfg(test)]
mod tests;
