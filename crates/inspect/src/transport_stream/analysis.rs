//! The analysis itself: bytes and their arrival in, figures out. No clock, no socket, no file.

use super::age::WallClock;
use super::budget::Budget;
use super::check::CheckReport;
use super::clock::ClockTrack;
use super::report::{
    AudioVideo, Errors, PidReport, ProgramReport, Report, SCHEMA, StreamReport, TimeToFirst,
};
use super::stages::RelayStages;
use super::stream::StreamTrack;
use super::warnings;
use crate::samples::Samples;
use glassline_media::Time;
use glassline_media::access_unit::{AccessUnit, Codec};
use glassline_media::bitstream::h264;
use glassline_media::container::ts::conformance::{Checker, Profile};
use glassline_media::container::ts::framing::Unframer;
use glassline_media::container::ts::packet::{PACKET_BYTES, packets};
use glassline_media::container::ts::psi::{PAT_PID, Pat, Program};
use glassline_media::container::ts::{
    Aligner, Continuity, ContinuityChecker, Demuxer, Event, NULL_PID, Packet, Pcr,
};
use glassline_media::time::Ticks;
use std::collections::{BTreeMap, BTreeSet};

/// Streams that are followed; a program that changes again and again brings ever new ones.
const STREAMS_MAX: usize = 64;
/// With this much read and hardly a packet in it, it is no transport stream.
const NO_STREAM_AFTER_BYTES: u64 = 256 * 1024;
const BITS_PER_PACKET: f64 = (PACKET_BYTES * 8) as f64;

/// Where the bytes come from, which decides what arrival times mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Over the network, as they are sent.
    Url,
    /// From a disk: arrival times mean nothing.
    File,
    /// From another program: whether it is in real time is not known.
    Stdin,
}

impl Kind {
    /// As reports write it.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Url => "url",
            Kind::File => "file",
            Kind::Stdin => "stdin",
        }
    }
}

/// What is counted for every PID.
#[derive(Clone, Copy, Debug, Default)]
struct Pid {
    packets: u64,
    continuity_errors: u64,
    scrambled: u64,
    /// Number and arrival of its latest packet.
    last: Option<(u64, Time)>,
}

/// Takes a stream's bytes and gathers what there is to say. Memory is bounded: some MiB.
#[derive(Clone, Debug)]
pub struct Analysis {
    kind: Kind,
    started: Time,
    first_byte: Option<Time>,
    bytes: u64,
    unframer: Unframer,
    aligner: Aligner,
    state: State,
    checker: Option<(Profile, Checker)>,
    wall_clock: Option<WallClock>,
}

/// What depends on whole packets.
#[derive(Clone, Debug, Default)]
struct State {
    packets: u64,
    transport_errors: u64,
    malformed: u64,
    continuity: ContinuityChecker,
    pids: BTreeMap<u16, Pid>,
    programs: Vec<(u16, u16)>,
    /// All PIDs that have been a program map's: they may change.
    map_pids: BTreeSet<u16>,
    demuxer: Demuxer,
    program: Option<Program>,
    clock: ClockTrack,
    streams: Vec<StreamTrack>,
    /// Where it is asked for, of the first stream of H.264.
    budget: Option<(Option<u16>, Budget)>,
    interleave: Samples,
    last_audio: Option<Ticks>,
    first_picture: Option<Time>,
    /// The first that is right; pictures before it, and how many of them are still to come.
    right_picture: Option<Time>,
    settling_frames: Option<u32>,
    settling_left: u32,
}

impl Analysis {
    /// An analysis of a stream that was asked for at `started`.
    pub fn new(kind: Kind, started: Time) -> Analysis {
        Analysis {
            kind,
            started,
            first_byte: None,
            bytes: 0,
            unframer: Unframer::new(),
            aligner: Aligner::new(),
            state: State { demuxer: Demuxer::with_data(), ..State::default() },
            checker: None,
            wall_clock: None,
        }
    }

    /// The stream is held against these rules, too. To be called before the first byte.
    pub fn check(&mut self, profile: Profile) {
        self.checker = Some((profile, Checker::new(profile)));
    }

    /// The report tells where the milliseconds of the first stream of H.264 went, by this clock. To be called before the
    /// first byte.
    pub fn tell_budget_by(&mut self, clock: WallClock) {
        self.state.budget = Some((None, Budget::new(clock)));
    }

    /// Takes, at the end, when the server passed its last pictures on: the budget's way to here is divided by it.
    pub fn tell_relay_stages(&mut self, passed: &[RelayStages]) {
        if let Some((_, budget)) = &mut self.state.budget {
            budget.relay(passed);
        }
    }

    /// Whether pictures say when they were captured.
    pub fn has_capture_times(&self) -> bool {
        self.state.streams.iter().any(|stream| stream.capture_times() > 0)
    }

    /// The report tells how old pictures are, by this clock.
    pub fn tell_ages_by(&mut self, clock: WallClock) {
        self.wall_clock = Some(clock);
    }

    /// Takes the next bytes, chopped anywhere, that came at `now`.
    pub fn push(&mut self, bytes: &[u8], now: Time) {
        if !bytes.is_empty() {
            self.first_byte.get_or_insert(now);
        }
        self.bytes += bytes.len() as u64;
        self.unframed(now, |unframer, give| unframer.push(bytes, give));
    }

    /// Takes what `unframe` gives out of packets.
    fn unframed(&mut self, now: Time, unframe: impl FnOnce(&mut Unframer, &mut dyn FnMut(&[u8]))) {
        let Analysis { unframer, aligner, state, checker, .. } = self;
        unframe(unframer, &mut |bytes| {
            aligner.push(bytes, &mut |run| packets(run).for_each(|packet| state.packet(packet, now)));
            if let Some((_, checker)) = checker {
                checker.push(bytes);
            }
        });
    }

    /// The stream has ended by itself: what its last packets hold is complete.
    pub fn finish(&mut self, now: Time) {
        self.unframed(now, Unframer::finish);
        self.state.demuxer.finish();
        self.state.poll(now);
    }

    /// Whether this is surely no transport stream: much was read and next to nothing of it were packets.
    pub fn is_hopeless(&self) -> bool {
        self.bytes >= NO_STREAM_AFTER_BYTES && !self.is_transport_stream()
    }

    /// Whether what was read looks like a transport stream: it has tables, or is mostly packets.
    pub fn is_transport_stream(&self) -> bool {
        self.state.program.is_some()
            || self.state.packets >= 3 && self.state.packets * PACKET_BYTES as u64 > self.bytes / 2
    }

    /// What was found, of a stream named `source`.
    pub fn report(&self, source: &str) -> Report {
        let state = &self.state;
        let (seconds, span_packets) = state.span().unzip();
        let packets_per_second = seconds.zip(span_packets).map(|(seconds, packets)| packets as f64 / seconds);
        let bitrate_bps = packets_per_second.map(|packets| packets * BITS_PER_PACKET);
        let share = |pid: u16| {
            let packets = state.pids.get(&pid).map_or(0, |pid| pid.packets);
            bitrate_bps.map(|total| total * packets as f64 / state.packets.max(1) as f64)
        };
        let millis = |time: Option<Time>| time.map(|time| time.since(self.started).as_secs_f64() * 1e3);
        let time_to_first = (self.kind == Kind::Url).then(|| TimeToFirst {
            byte_ms: millis(self.first_byte),
            picture_ms: millis(state.first_picture),
            right_picture_ms: millis(state.right_picture),
            settling_frames: state.settling_frames,
        });
        let streams: Vec<StreamReport> = {
            let clock = self.wall_clock.as_ref();
            let tracks = state.streams.iter();
            tracks.map(|stream| stream.report(share(stream.announced.pid), seconds, clock)).collect()
        };
        let mut report = Report {
            schema: SCHEMA,
            source: source.to_owned(),
            kind: self.kind.name(),
            bytes: self.bytes,
            duration_s: seconds,
            bitrate_bps,
            time_to_first,
            programs: state.program_reports(),
            clock: state
                .program
                .as_ref()
                .filter(|program| program.pcr_pid != NULL_PID)
                .map(|program| state.clock.report(program.pcr_pid, self.kind == Kind::Url)),
            streams,
            audio_video: state.audio_video(),
            pids: state.pid_reports(share),
            errors: self.errors(),
            check: self.check_report(),
            flight: None,
            budget: state.budget.as_ref().map(|(_, budget)| budget.report()),
            warnings: Vec::new(),
        };
        report.warnings = warnings::of(&report);
        report
    }

    fn check_report(&self) -> Option<CheckReport> {
        let (profile, checker) = self.checker.as_ref()?;
        let mut checker = checker.clone();
        checker.finish();
        Some(CheckReport::new(&checker, *profile))
    }

    fn errors(&self) -> Errors {
        let units = self.state.demuxer.counters();
        Errors {
            continuity_errors: self.state.continuity.errors(),
            transport_errors: self.state.transport_errors,
            malformed_packets: self.state.malformed,
            skipped_bytes: self.aligner.skipped_bytes(),
            sync_losses: self.aligner.resyncs(),
            damaged_units: units.damaged_units,
            oversized_units: units.oversized_units,
            damaged_data: units.damaged_data,
        }
    }
}

impl State {
    fn packet(&mut self, bytes: &[u8; PACKET_BYTES], now: Time) {
        let number = self.packets;
        self.packets += 1;
        match Packet::parse(bytes) {
            Err(_) => self.malformed += 1,
            Ok(packet) if packet.transport_error => self.transport_errors += 1,
            Ok(packet) => self.count(&packet, number, now),
        }
        // The demuxer polls before the PID's latest packet is noted: a unit of open length, which ends where the
        // next one begins, was complete with the packet before that.
        self.demuxer.push(bytes);
        self.poll(now);
        if let Some(pid) = self.pids.get_mut(&pid_of(bytes)) {
            pid.last = Some((number, now));
        }
    }

    fn count(&mut self, packet: &Packet<'_>, number: u64, now: Time) {
        let lost = matches!(self.continuity.check(packet), Continuity::Lost { .. });
        let pid = self.pids.entry(packet.pid).or_default();
        pid.packets += 1;
        pid.continuity_errors += u64::from(lost);
        pid.scrambled += u64::from(packet.scrambled);
        let is_clock = self.program.as_ref().is_some_and(|program| program.pcr_pid == packet.pid);
        if let Some(pcr) = packet.pcr().filter(|_| is_clock) {
            let jumps = self.clock.push(pcr, number, now, packet.discontinuity());
            if jumps {
                // What comes behind the jump does not compare with the sound before it.
                self.last_audio = None;
            }
        }
        // A table that spans packets is not read here; the demuxer does follow its first program.
        if packet.pid == PAT_PID
            && packet.unit_start
            && let Some((&skip, sections)) = packet.payload.split_first()
            && let Some(section) = sections.get(usize::from(skip)..)
            && let Ok(pat) = Pat::parse(whole_section(section))
        {
            self.map_pids.extend(pat.programs.iter().filter(|(number, _)| *number != 0).map(|(_, map)| *map));
            self.programs = pat.programs;
        }
    }

    fn poll(&mut self, now: Time) {
        while let Some(event) = self.demuxer.poll() {
            match event {
                Event::Program(program) => self.follow(program),
                Event::AccessUnit { pid, packet, unit, .. } => self.unit(pid, packet, &unit, now),
                Event::Data { pid, packet, unit } => {
                    if let Some(stream) =
                        self.streams.iter_mut().find(|stream| stream.is_data(pid, unit.kind))
                    {
                        stream.push_data(&unit, packet);
                    }
                }
                Event::Pcr { .. } => {}
            }
        }
    }

    fn follow(&mut self, program: Program) {
        for stream in &program.streams {
            let same = |track: &StreamTrack| {
                track.announced.pid == stream.pid && track.announced.stream_type == stream.stream_type
            };
            if !self.streams.iter().any(same) && self.streams.len() < STREAMS_MAX {
                self.streams.push(StreamTrack::new(stream.clone()));
            }
        }
        self.program = Some(program);
    }

    fn unit(&mut self, pid: u16, first_packet: u64, unit: &AccessUnit, now: Time) {
        let before = self.pids.get(&pid).and_then(|pid| pid.last);
        // Either the packet before completed it, or (its first one being the latest) the one that is here now.
        let ends_earlier = before.is_some_and(|(number, _)| number >= first_packet);
        let (number, time) = before.filter(|_| ends_earlier).unwrap_or((self.packets.saturating_sub(1), now));
        let lead = self.clock.at(number).map(|pcr| lead(unit.pts, pcr));
        let is_video = unit.codec.is_video();
        if is_video {
            self.settle(unit, time);
        }
        if let Some((followed, budget)) = &mut self.budget
            && matches!(unit.codec, Codec::H264 | Codec::Av1)
            && *followed.get_or_insert(pid) == pid
        {
            budget.unit(unit.codec, &unit.data, time);
        }
        match (is_video, self.last_audio) {
            (true, Some(audio)) => self.interleave.push((audio - unit.dts).0 as f64),
            (true, None) => {}
            (false, _) => self.last_audio = Some(unit.pts),
        }
        if let Some(stream) = self
            .streams
            .iter_mut()
            .find(|stream| stream.announced.pid == pid && stream.announced.codec == Some(unit.codec))
        {
            stream.push(unit, lead, time);
        }
    }

    /// A picture was whole at `time`: finds the first that shows something, and the first that is right.
    fn settle(&mut self, unit: &AccessUnit, time: Time) {
        let join = Some(unit).filter(|unit| unit.random_access).map(|unit| match unit.codec {
            Codec::H264 => h264::join(&unit.data).map_or(0, h264::Join::settling_frames),
            _ => 0,
        });
        if self.first_picture.is_none() {
            let Some(frames) = join else { return };
            self.first_picture = Some(time);
            (self.settling_frames, self.settling_left) = (Some(frames), frames);
        } else {
            // A key frame ends it at once.
            self.settling_left = self.settling_left.saturating_sub(1).min(join.unwrap_or(u32::MAX));
        }
        if self.settling_left == 0 {
            self.right_picture.get_or_insert(time);
        }
    }

    /// Seconds and packets over which rates are counted: the clock's, or the time stamps' where there is none.
    fn span(&self) -> Option<(f64, u64)> {
        self.clock.span().or_else(|| {
            let longest = |stream: &StreamTrack| Some((stream.last_pts? - stream.first_pts?).0);
            let ticks = self.streams.iter().filter_map(longest).max().filter(|ticks| *ticks > 0)?;
            Some((Ticks(ticks).as_secs_f64(), self.packets))
        })
    }

    fn program_reports(&self) -> Vec<ProgramReport> {
        let followed = self.program.as_ref().map(|program| program.number);
        let programs = self.programs.iter().filter(|(number, _)| *number != 0);
        programs
            .map(|&(number, pmt_pid)| ProgramReport { number, pmt_pid, followed: followed == Some(number) })
            .collect()
    }

    fn audio_video(&self) -> Option<AudioVideo> {
        let first = |video: bool| {
            let streams = self.streams.iter().filter(|stream| {
                if video { stream.announced.is_video() } else { stream.announced.is_audio() }
            });
            streams.filter_map(|stream| stream.first_pts).min()
        };
        Some(AudioVideo {
            start_ms: (first(false)? - first(true)?).0 as f64 / 90.0,
            interleave_ms: self.interleave.distribution(|ticks| ticks / 90.0)?,
        })
    }

    fn pid_reports(&self, share: impl Fn(u16) -> Option<f64>) -> Vec<PidReport> {
        let report = |(&number, pid): (&u16, &Pid)| PidReport {
            pid: number,
            carries: self.carries(number),
            packets: pid.packets,
            bitrate_bps: share(number),
            continuity_errors: pid.continuity_errors,
            scrambled_packets: pid.scrambled,
        };
        self.pids.iter().map(report).collect()
    }

    fn carries(&self, pid: u16) -> String {
        if let Some(stream) = self.streams.iter().find(|stream| stream.announced.pid == pid) {
            let stream_type = stream.announced.stream_type;
            let other = || format!("stream type 0x{stream_type:02x}");
            return stream.announced.format_name().map_or_else(other, str::to_owned);
        }
        let is_map = self.map_pids.contains(&pid);
        let is_clock = self.program.as_ref().is_some_and(|program| program.pcr_pid == pid);
        match pid {
            PAT_PID => "programs (PAT)",
            0x0011 => "services (SDT)",
            NULL_PID => "padding",
            _ if is_map => "program map (PMT)",
            _ if is_clock => "clock (PCR)",
            _ => "unknown",
        }
        .to_owned()
    }
}

fn pid_of(packet: &[u8; PACKET_BYTES]) -> u16 {
    u16::from_be_bytes([packet[1] & 0x1f, packet[2]])
}

/// The section at the front of `bytes`, without the stuffing behind it.
fn whole_section(bytes: &[u8]) -> &[u8] {
    let &[_, high, low, ..] = bytes else { return bytes };
    let end = 3 + usize::from(u16::from_be_bytes([high & 0x0f, low]));
    bytes.get(..end).unwrap_or(bytes)
}

/// A stamp less the clock, the nearest way around the wrap.
fn lead(pts: Ticks, pcr: Pcr) -> Ticks {
    Ticks::unwrap_near((pts - Ticks(pcr.base() as i64)).wrapped(), Ticks(0))
}
