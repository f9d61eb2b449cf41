//! Follows what runs through a stream, packet by packet: loss, clock, program, and where a viewer can join.
//!
//! In: packets as they arrive. Out: for each what it means, and where a key frame or a recovery point begins the
//! [`EntryPoint`] to send to a viewer that starts there. Payload is looked at, never kept.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::continuity::{Continuity, ContinuityChecker};
use super::entry::{EntryPoint, TRACKED_PIDS};
use super::head::{Found, Search, Shown};
use super::packet::{NULL_PID, PACKET_BYTES, Packet, Pcr};
use super::packetize::{Field, packetize};
use super::parameter_sets::ParameterSets;
use super::pes::{self, PesHeader};
use super::psi::{PAT_PID, Program};
use super::tables::Tables;
use crate::access_unit::Codec;
use crate::bitstream::h264::Join;
use crate::time::Ticks;
use serde::{Deserialize, Serialize};

/// What one packet means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Its stream.
    pub pid: u16,
    /// A PES packet or a section begins here.
    pub unit_start: bool,
    /// Packets of this PID are missing before this one.
    pub continuity_error: bool,
    /// The packet announces that its counter or clock jumps.
    pub discontinuity: bool,
    /// The clock it carries, whatever its PID; the program's clock is on [`Program::pcr_pid`].
    pub pcr: Option<Pcr>,
    /// [`Scanner::program`] gives another answer since this packet.
    pub program_changed: bool,
    /// A packet of the program's video.
    pub video: bool,
    /// A PES packet of the program's video begins here.
    pub video_unit_start: bool,
    /// The first packet of its PID since the start or a reset.
    pub first_of_pid: bool,
    /// A place to join has shown.
    pub entry: Option<FoundEntry>,
    /// How decoding begins at the latest place to join, with the packet that shows it: with `entry` or, where the
    /// container announced the place, up to the packet that brings its first slice. Never for sound, nor where the
    /// container announces what the video does not show.
    pub join: Option<Join>,
}

/// A place to join a stream, found at a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundEntry {
    /// How many packets (of all PIDs) before this one the place lies; 0: this packet begins it.
    pub packets_back: u32,
    /// What to send first to a viewer that joins there.
    pub point: EntryPoint,
}

/// The PES packet that may turn out as a place to join.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Unit {
    search: Search,
    first_packet: u64,
    /// Taken where it was given already, as of a place that the container announced.
    point: Option<EntryPoint>,
    /// PTS and DTS, as they stand there.
    #[serde(default)]
    stamps: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Joinable {
    /// Viewers join at key frames and recovery points of this video; `None`: only where the container announces
    /// them.
    Video(Option<Codec>),
    /// Viewers join at any unit.
    Audio,
}

/// Follows the first program of a stream. About 25 ns a packet, 30 KiB, no allocation while the tables repeat.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Scanner {
    continuity: ContinuityChecker,
    tables: Tables,
    /// One bit a PID.
    seen: Box<[u64]>,
    /// PIDs with a counter in entry points: the program's first, then others as they appear.
    tracked: [u16; TRACKED_PIDS],
    tracked_count: usize,
    /// The PID of the stream with units that are places to join, and how; `NULL_PID` for none.
    join_pid: u16,
    joinable: Joinable,
    unit: Unit,
    /// Those that the video's pictures are coded by, for streams that say them once.
    #[serde(default)]
    sets: ParameterSets,
    /// The last place to join lacked them.
    #[serde(default)]
    lacks_sets: bool,
    packets: u64,
    transport_errors: u64,
    malformed: u64,
}

impl Default for Scanner {
    fn default() -> Self {
        Self::new()
    }
}

impl Scanner {
    /// A scanner before the first packet.
    pub fn new() -> Scanner {
        Scanner {
            continuity: ContinuityChecker::new(),
            tables: Tables::new(),
            seen: vec![0; (usize::from(NULL_PID) + 1) / 64].into(),
            tracked: [0; TRACKED_PIDS],
            tracked_count: 0,
            join_pid: NULL_PID,
            joinable: Joinable::Audio,
            unit: Unit { search: Search::Done, first_packet: 0, point: None, stamps: None },
            sets: ParameterSets::default(),
            lacks_sets: false,
            packets: 0,
            transport_errors: 0,
            malformed: 0,
        }
    }

    /// Takes the stream's next packet.
    #[inline]
    pub fn scan(&mut self, bytes: &[u8; PACKET_BYTES]) -> Scan {
        let number = self.packets;
        self.packets = self.packets.saturating_add(1);
        let mut scan = Scan {
            pid: u16::from_be_bytes([bytes[1] & 0x1f, bytes[2]]),
            unit_start: false,
            continuity_error: false,
            discontinuity: false,
            pcr: None,
            program_changed: false,
            video: false,
            video_unit_start: false,
            first_of_pid: false,
            entry: None,
            join: None,
        };
        let Ok(packet) = Packet::parse(bytes) else {
            self.malformed = self.malformed.saturating_add(1);
            return scan;
        };
        if packet.transport_error {
            self.transport_errors = self.transport_errors.saturating_add(1);
            return scan;
        }
        scan.unit_start = packet.unit_start;
        scan.discontinuity = packet.discontinuity();
        scan.pcr = packet.pcr();
        scan.first_of_pid = self.see(packet.pid);
        let joins = packet.pid == self.join_pid && packet.pid != NULL_PID;
        // Before this packet's counter is taken: the point lies before it.
        let point = if joins && packet.unit_start && packet.has_payload { self.entry_here() } else { None };
        let continuity = self.continuity.check(&packet);
        scan.continuity_error = matches!(continuity, Continuity::Lost { .. });
        if self.tables.wants(packet.pid) {
            if self.tables.push(bytes, &packet, continuity) {
                scan.program_changed = true;
                self.follow_program();
            }
        } else if joins && continuity != Continuity::Duplicate {
            scan.video = matches!(self.joinable, Joinable::Video(_));
            scan.video_unit_start = scan.video && point.is_some();
            (scan.entry, scan.join) = self.look_for_entry(&packet, number, scan.continuity_error, point);
        }
        scan
    }

    /// The program, once its tables have come.
    pub fn program(&self) -> Option<&Program> {
        self.tables.program()
    }

    /// Whether `packet` may come next by its continuity counter: see [`ContinuityChecker::follows`]. What is no packet may not.
    pub fn may_follow(&self, packet: &[u8; PACKET_BYTES]) -> bool {
        Packet::parse(packet).is_ok_and(|packet| self.continuity.follows(&packet))
    }

    /// Packets before which others of their PID were missing.
    pub fn continuity_errors(&self) -> u64 {
        self.continuity.errors()
    }

    /// Packets with the transport error bit; nothing else in them was looked at.
    pub fn transport_errors(&self) -> u64 {
        self.transport_errors
    }

    /// Packets that contradict themselves; nothing in them was looked at.
    pub fn malformed_packets(&self) -> u64 {
        self.malformed
    }

    /// All packets so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// A place to join just before the next packet, whatever that is: for streams that never show a key frame.
    /// `None` until the tables have come.
    pub fn entry_here(&self) -> Option<EntryPoint> {
        let (pat, pmt) = self.tables.packets()?;
        Some(EntryPoint::new(pat, pmt, &self.tracked[..self.tracked_count], &self.continuity))
    }

    /// Forgets the stream, as when its source connects anew; the counts stay.
    pub fn reset(&mut self) {
        self.continuity.reset();
        self.tables.reset();
        self.seen.fill(0);
        self.tracked_count = 0;
        self.follow_program();
    }

    /// Marks `pid` as seen; true if it was not.
    fn see(&mut self, pid: u16) -> bool {
        let (word, bit) = (&mut self.seen[usize::from(pid / 64)], 1u64 << (pid % 64));
        let first = *word & bit == 0;
        *word |= bit;
        if first {
            self.track(pid);
        }
        first
    }

    fn track(&mut self, pid: u16) {
        let known = &self.tracked[..self.tracked_count];
        if pid != NULL_PID && self.tracked_count < TRACKED_PIDS && !known.contains(&pid) {
            self.tracked[self.tracked_count] = pid;
            self.tracked_count = self.tracked_count.saturating_add(1);
        }
    }

    /// Sets up everything that depends on the program.
    fn follow_program(&mut self) {
        self.unit = Unit { search: Search::Done, first_packet: 0, point: None, stamps: None };
        let (pid, joinable) = (std::mem::replace(&mut self.join_pid, NULL_PID), self.joinable);
        let Some(program) = self.tables.program() else { return };
        if let Some(video) = program.video() {
            self.join_pid = video.pid;
            self.joinable = Joinable::Video(video.codec);
        } else if let Some(audio) = program.audio() {
            self.join_pid = audio.pid;
            self.joinable = Joinable::Audio;
        }
        if (pid, joinable) != (self.join_pid, self.joinable) {
            self.sets = ParameterSets::default();
        }
        let streams = program.streams.iter().map(|stream| stream.pid);
        let mut wanted: Vec<u16> =
            [PAT_PID, program.pmt_pid, program.pcr_pid].into_iter().chain(streams).collect();
        wanted.extend_from_slice(&self.tracked[..self.tracked_count]);
        self.tracked_count = 0;
        for pid in wanted {
            self.track(pid);
        }
    }

    /// Takes a packet of the stream that is joined; `point` is there where a unit begins. Gives a place to join, and
    /// how decoding begins there.
    fn look_for_entry(
        &mut self,
        packet: &Packet<'_>,
        number: u64,
        lost: bool,
        point: Option<EntryPoint>,
    ) -> (Option<FoundEntry>, Option<Join>) {
        let mut is_announced = false;
        if let Some(point) = point {
            let codec = match self.joinable {
                Joinable::Video(codec) => codec,
                Joinable::Audio => return (Some(FoundEntry { packets_back: 0, point }), None),
            };
            is_announced = packet.random_access();
            let stamps = PesHeader::parse(packet.payload).ok().and_then(|header| {
                let pts = header.pts?;
                Some((pts, header.dts.unwrap_or(pts)))
            });
            let search = Search::begin(codec);
            self.unit = Unit { search, first_packet: number, point: Some(point), stamps };
        } else if lost {
            self.unit.search = Search::Done;
        }
        let shown = match self.joinable {
            Joinable::Video(Some(codec)) if !packet.scrambled => {
                match self.unit.search.push(packet.payload, codec) {
                    Found::Slice(shown) => Some(shown),
                    Found::Nothing => None,
                }
            }
            _ => None,
        };
        let join = shown.as_ref().and_then(|shown| self.join(shown));
        if !is_announced && join.is_none() {
            return (None, None);
        }
        let packets_back = u32::try_from(number.saturating_sub(self.unit.first_packet)).unwrap_or(u32::MAX);
        let point =
            self.unit.point.take().map(|point| if self.lacks_sets { self.with_sets(point) } else { point });
        (point.map(|point| FoundEntry { packets_back, point }), join)
    }

    /// How decoding can begin at a picture. Learns its parameter sets, and whether such pictures lack them.
    fn join(&mut self, shown: &Shown) -> Option<Join> {
        self.sets.learn(&shown.sets);
        let join = shown.join(!self.sets.bytes().is_empty())?;
        self.lacks_sets = !shown.sets.are_whole();
        Some(join)
    }

    /// A point with the parameter sets in front of its picture, in a PES packet with the picture's own time.
    fn with_sets(&self, point: EntryPoint) -> EntryPoint {
        let sets = self.sets.bytes();
        let Some((pts, dts)) = self.unit.stamps.filter(|_| !sets.is_empty()) else { return point };
        let [pts, dts] = [pts, dts].map(|stamp| Ticks(stamp.cast_signed()));
        let mut head = Vec::new();
        let stream_id = match self.joinable {
            Joinable::Video(Some(Codec::Av1)) => pes::STREAM_ID_PRIVATE,
            _ => pes::STREAM_ID_VIDEO,
        };
        pes::write_header(stream_id, pts, dts, sets.len(), &mut head);
        let (mut packets, mut continuity) = (Vec::new(), 0);
        packetize(self.join_pid, &mut continuity, Field::default(), [&head, sets, &[]], &mut packets);
        for packet in packets.as_chunks_mut::<PACKET_BYTES>().0 {
            packet[3] &= 0xf0;
        }
        point.with_sets(packets.into())
    }
}
