//! Raw video from a hostile sender, received as `recvmmsg` with GRO does it, or datagram by datagram. The first two bytes
//! choose how: scan, paths, whether frames are kept as they come, datagrams of a message. Then come records, each begun by a
//! byte: its low two bits say what it brings, the third one by which path, the fourth how it is received, and the others how
//! much time has passed.
//!
//! * 0: a datagram, behind two bytes of length. Where the first of them has its highest bit, what follows is sent from another
//!   address, until the next such record.
//! * 1: a packet of a good stream, so many before or behind the last one.
//! * 2: the same with bytes turned over: how many, then where and how.
//! * 3: so many good packets in a row.

use glassline_media::{Chroma, PixelFormat, Size, Time};
use glassline_transport::raw_video::{
    Arrival, Depacketizer, Format, MESSAGE_BYTES, Packetizer, PacketizerSettings, Packing, Piece, Plan,
    SCRATCH_BYTES, Scan, Settings, Store,
};
use glassline_transport::rtp::source::Origin;
use std::net::SocketAddr;
use std::time::Duration;

const SLOTS: usize = 4;
/// Bytes around each frame that nobody may write to.
const CANARY_BYTES: usize = 64;
const CANARY: u8 = 0xC5;

/// Memory for frames, and which of it the depacketizer holds.
struct House {
    frame_bytes: usize,
    memory: Vec<Vec<u8>>,
    is_open: [bool; SLOTS],
    takes_aim: bool,
}

impl House {
    fn new(format: &Format) -> House {
        let frame_bytes = format.frame_bytes();
        let memory = vec![vec![CANARY; frame_bytes + 2 * CANARY_BYTES]; SLOTS];
        House { frame_bytes, memory, is_open: [false; SLOTS], takes_aim: true }
    }

    fn check(&self) {
        for memory in &self.memory {
            let (before, rest) = memory.split_at(CANARY_BYTES);
            let all = before.iter().chain(&rest[self.frame_bytes..]);
            assert!(all.into_iter().all(|byte| *byte == CANARY), "nothing is written beside a frame");
        }
    }
}

impl Store for House {
    fn open(&mut self) -> Option<usize> {
        let slot = self.is_open.iter().position(|is_open| !is_open)?;
        self.is_open[slot] = true;
        Some(slot)
    }

    /// More than the frame, so that what is written behind it shows in the canary.
    fn bytes(&mut self, slot: usize) -> &mut [u8] {
        assert!(self.is_open[slot], "memory is used while it is the depacketizer's");
        &mut self.memory[slot][CANARY_BYTES..]
    }

    fn takes_aim(&self) -> bool {
        self.takes_aim
    }
}

struct Receiver {
    depacketizer: Depacketizer,
    plan: Plan,
    scratch: Vec<u8>,
    house: House,
    now: Time,
    /// Datagrams that have come and were not handed over, and their path.
    waiting: Vec<Vec<u8>>,
    path: usize,
    /// Who sends what comes next.
    from: Option<SocketAddr>,
    collected: usize,
    datagrams: u64,
    done: u64,
}

impl Receiver {
    fn new(format: Format, paths: usize, collected: usize) -> Receiver {
        let settings = Settings { format, payload_type: 96, paths, skew: Duration::from_millis(20) };
        Receiver {
            depacketizer: Depacketizer::new(settings),
            plan: Plan::default(),
            scratch: vec![0; SCRATCH_BYTES],
            house: House::new(&format),
            now: Time::from_millis(1_000),
            waiting: Vec::new(),
            path: 0,
            from: None,
            collected,
            datagrams: 0,
            done: 0,
        }
    }

    /// One call of `recvmmsg`: as many messages as are planned, each of up to `collected` datagrams of one size.
    fn call(&mut self, datagrams: &mut &[Vec<u8>]) {
        self.depacketizer.plan(self.path, &mut self.plan, &mut self.house);
        let mut arrivals = Vec::new();
        for message in 0..self.plan.messages() {
            let Some(first) = datagrams.first() else { break };
            let same = datagrams.iter().take_while(|next| next.len() == first.len()).count();
            let shorter =
                datagrams.get(same).is_some_and(|next| next.len() < first.len() && !next.is_empty());
            let most = self.collected.min(MESSAGE_BYTES / first.len().max(1));
            let count = if first.is_empty() { 1 } else { (same + usize::from(shorter)).min(most) };
            let bytes = datagrams[..count].concat();
            self.write(message, &bytes);
            let (at, from) = (self.now, self.from);
            arrivals.push(Arrival { bytes: bytes.len(), datagram_bytes: first.len(), at, from });
            *datagrams = &datagrams[count..];
        }
        self.depacketizer.take(self.path, &self.plan, &arrivals, &self.scratch, &mut self.house);
        self.drain();
    }

    /// Does what the kernel does with a message.
    fn write(&mut self, message: usize, bytes: &[u8]) {
        let mut rest = bytes;
        for piece in self.plan.pieces(message) {
            let room = match piece {
                Piece::Scratch(range) => &mut self.scratch[range.clone()],
                Piece::Frame { slot, bytes } => {
                    assert!(
                        self.house.takes_aim && bytes.end <= self.house.frame_bytes,
                        "a plan is within the frame"
                    );
                    &mut self.house.bytes(*slot)[bytes.clone()]
                }
            };
            let now = room.len().min(rest.len());
            room[..now].copy_from_slice(&rest[..now]);
            rest = &rest[now..];
        }
        assert!(rest.is_empty(), "a message has room for all that can come");
    }

    /// Hands over what waits.
    fn flush(&mut self, is_planned: bool) {
        let waiting = std::mem::take(&mut self.waiting);
        self.datagrams += waiting.len() as u64;
        if is_planned {
            let mut rest = &waiting[..];
            while !rest.is_empty() {
                self.call(&mut rest);
            }
        } else {
            for datagram in &waiting {
                let from = Origin { path: self.path, address: self.from };
                self.depacketizer.take_datagram(from, datagram, self.now, &mut self.house);
                self.drain();
            }
        }
    }

    fn drain(&mut self) {
        while let Some(done) = self.depacketizer.poll() {
            self.done += 1;
            let is_ascending = done.holes.windows(2).all(|pair| pair[0].end < pair[1].start);
            let is_within =
                done.holes.iter().all(|hole| !hole.is_empty() && hole.end <= self.house.frame_bytes);
            assert!(is_ascending && is_within, "holes are runs of the frame");
            if let Some(slot) = done.slot {
                assert!(std::mem::take(&mut self.house.is_open[slot]), "each memory is given back once");
            }
        }
    }

    /// What has come is one of five things, if it is known what line numbers count, and each frame that is out one of three.
    fn check(&self) {
        let counters = self.depacketizer.counters();
        let known =
            counters.packets + counters.duplicates + counters.late + counters.closing + counters.refused;
        assert_eq!(known + self.depacketizer.undecided() as u64, self.datagrams);
        assert_eq!(counters.frames + counters.incomplete + counters.partial + counters.dropped, self.done);
        assert!(counters.reordered <= counters.packets);
        assert!(counters.in_place <= counters.packets + counters.duplicates);
        self.house.check();
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.depacketizer.handle_timeout(self.now);
        self.drain();
        let due = self.depacketizer.poll_timeout();
        assert!(due.is_none_or(|due| due > self.now), "a deadline that has passed is answered");
    }
}

/// A few frames of a good stream.
fn good(format: Format) -> Vec<Vec<u8>> {
    let settings = PacketizerSettings {
        format,
        payload_type: 96,
        ssrc: 7,
        first_sequence: 0xFFF0,
        datagram_bytes: 60,
        packing: Packing::General,
    };
    let Some(mut packetizer) = Packetizer::new(settings) else { return Vec::new() };
    let mut datagrams = Vec::new();
    for number in 0..8u32 {
        let stamps = [number * 3600, number * 3600 + if format.scan() == Scan::Segmented { 0 } else { 1800 }];
        for packet in packetizer.frame(stamps) {
            let samples = packet.bytes - packet.head.len();
            datagrams.push([packet.head, &vec![number as u8; samples]].concat());
        }
    }
    datagrams
}

/// Takes the records. Only panics, writes beside a frame and counts that do not add up fail.
pub fn run(data: &[u8]) {
    let [how, collected, records @ ..] = data else { return };
    let scan = [Scan::Progressive, Scan::Interlaced, Scan::Segmented][usize::from(how % 3)];
    let paths = 1 + usize::from(how >> 7);
    let Some(pixels) = PixelFormat::pgroups(Chroma::Yuv422, 8) else { return };
    let Ok(size) = Size::new(48, 12) else { return };
    let Ok(format) = Format::new(pixels, size, scan) else { return };
    let good = good(format);
    let mut receiver = Receiver::new(format, paths, 1 + usize::from(*collected) % 64);
    receiver.house.takes_aim = how >> 6 & 1 == 0;
    let (mut at, mut rest) = (0usize, records);
    while let [control, tail @ ..] = rest {
        let path = usize::from(control >> 2 & 1).min(paths - 1);
        let is_planned = control >> 3 & 1 == 0;
        let time = Duration::from_millis(4 * u64::from(control >> 4));
        let turns = control & 3 == 0 && tail.first().is_some_and(|high| high >> 7 == 1);
        if path != receiver.path || !is_planned || !time.is_zero() || turns {
            receiver.flush(is_planned);
        }
        receiver.path = path;
        if turns {
            let other = Some(SocketAddr::from(([10, 0, 0, 9], 5_000)));
            receiver.from = if receiver.from.is_none() { other } else { None };
        }
        if !time.is_zero() {
            receiver.pass(time);
        }
        rest = record(control & 3, tail, &good, &mut at, &mut receiver.waiting);
        receiver.check();
    }
    receiver.flush(true);
    receiver.check();
    receiver.depacketizer.finish();
    receiver.drain();
    receiver.check();
}

/// Reads a record's datagrams. Returns what follows it.
fn record<'a>(
    kind: u8,
    tail: &'a [u8],
    good: &[Vec<u8>],
    at: &mut usize,
    waiting: &mut Vec<Vec<u8>>,
) -> &'a [u8] {
    match (kind, tail) {
        (0, [high, low, tail @ ..]) => {
            let length = usize::from(u16::from_be_bytes([*high & 0x7F, *low])).min(tail.len());
            let (bytes, tail) = tail.split_at(length);
            waiting.push(bytes.to_vec());
            tail
        }
        (1, [step, tail @ ..]) => {
            *at = at.saturating_add_signed(isize::from(step.cast_signed())) % good.len();
            waiting.push(good[*at].clone());
            tail
        }
        (2, [step, count, tail @ ..]) => {
            *at = at.saturating_add_signed(isize::from(step.cast_signed())) % good.len();
            let mut datagram = good[*at].clone();
            let (changes, tail) = tail.split_at((2 * usize::from(count % 8)).min(tail.len()));
            for change in changes.as_chunks::<2>().0 {
                let place = usize::from(change[0]) % datagram.len();
                datagram[place] ^= change[1];
            }
            waiting.push(datagram);
            tail
        }
        (3, [count, tail @ ..]) => {
            for _ in 0..*count {
                *at = (*at + 1) % good.len();
                waiting.push(good[*at].clone());
            }
            tail
        }
        _ => &[],
    }
}
