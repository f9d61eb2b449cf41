//! What a packet of raw video costs beside the kernel's work: 1080p of 8 bits, 1,300 bytes a packet. The datagrams are put where
//! the plan says, as `recvmmsg` does, which is not counted; what is counted is the plan, and what becomes of the bytes.
//!
//! `cargo bench -p glassline-transport --bench raw_video -- [SCALE] [WORD…]`: WORDs choose cases by name.
#![allow(clippy::unwrap_used, clippy::disallowed_types, clippy::disallowed_methods)]

use glassline_media::{Chroma, PixelFormat, Size, Time};
use glassline_transport::raw_video::{
    Arrival, Depacketizer, Format, Packetizer, PacketizerSettings, Packing, Piece, Plan, SCRATCH_BYTES, Scan,
    Settings, Store,
};
use glassline_transport::rtp::source::Origin;
use std::time::{Duration, Instant};

const SLOTS: usize = 3;
const DATAGRAM_BYTES: usize = 1300;

struct House {
    memory: Vec<Vec<u8>>,
    free: Vec<usize>,
}

impl Store for House {
    fn open(&mut self) -> Option<usize> {
        self.free.pop()
    }
    fn bytes(&mut self, slot: usize) -> &mut [u8] {
        &mut self.memory[slot]
    }
}

struct Bench {
    packetizer: Packetizer,
    frame: Vec<u8>,
    house: House,
    depacketizer: Depacketizer,
    /// Of the frame that is being received: what planning and taking took, and packets.
    spent: [Duration; 2],
    packets: u32,
    /// Nanoseconds a packet of each frame.
    costs: [Vec<f64>; 2],
}

impl Bench {
    fn new() -> Bench {
        let pixels = PixelFormat::pgroups(Chroma::Yuv422, 8).unwrap();
        let format = Format::new(pixels, Size::new(1920, 1080).unwrap(), Scan::Progressive).unwrap();
        let settings = PacketizerSettings {
            format,
            payload_type: 96,
            ssrc: 7,
            first_sequence: 1,
            datagram_bytes: DATAGRAM_BYTES,
            packing: Packing::General,
        };
        let receiver = Settings { format, payload_type: 96, paths: 1, skew: Duration::ZERO };
        let frame = vec![0x5A; format.frame_bytes()];
        Bench {
            packetizer: Packetizer::new(settings).unwrap(),
            house: House { memory: vec![frame.clone(); SLOTS], free: (0..SLOTS).collect() },
            frame,
            depacketizer: Depacketizer::new(receiver),
            spent: [Duration::ZERO; 2],
            packets: 0,
            costs: [Vec::new(), Vec::new()],
        }
    }

    /// A frame's datagrams, all of one size, one after the other.
    fn datagrams(&mut self, number: u32, datagrams: &mut Vec<u8>) {
        datagrams.clear();
        for packet in self.packetizer.frame([number * 1500; 2]) {
            assert_eq!(packet.bytes, DATAGRAM_BYTES);
            datagrams.extend_from_slice(packet.head);
            packet.samples.iter().for_each(|range| datagrams.extend_from_slice(&self.frame[range.clone()]));
        }
    }

    fn drain(&mut self) {
        while let Some(done) = self.depacketizer.poll() {
            assert!(done.holes.is_empty());
            self.house.free.extend(done.slot);
        }
    }

    /// Messages of `collected` datagrams.
    fn planned(&mut self, datagrams: &[u8], collected: usize, plan: &mut Plan, scratch: &mut [u8]) {
        let mut messages = datagrams.chunks(collected * DATAGRAM_BYTES).peekable();
        let mut arrivals = Vec::new();
        while messages.peek().is_some() {
            let began = Instant::now();
            self.depacketizer.plan(0, plan, &mut self.house);
            self.spent[0] += began.elapsed();
            arrivals.clear();
            for (number, message) in (0..plan.messages()).zip(&mut messages) {
                let mut rest = message;
                for piece in plan.pieces(number) {
                    let (now, later) = match piece {
                        Piece::Scratch(range) => {
                            let (now, later) = rest.split_at(range.len().min(rest.len()));
                            scratch[range.start..range.start + now.len()].copy_from_slice(now);
                            (now, later)
                        }
                        // All frames are alike, so their samples are there already.
                        Piece::Frame { bytes, .. } => rest.split_at(bytes.len().min(rest.len())),
                    };
                    rest = later;
                    if now.is_empty() {
                        break;
                    }
                }
                self.packets += (message.len() / DATAGRAM_BYTES) as u32;
                let (bytes, at) = (message.len(), Time::from_millis(1));
                arrivals.push(Arrival { bytes, datagram_bytes: DATAGRAM_BYTES, at, from: None });
            }
            let began = Instant::now();
            self.depacketizer.take(0, plan, &arrivals, scratch, &mut self.house);
            self.spent[1] += began.elapsed();
            self.drain();
        }
    }

    fn unplanned(&mut self, datagrams: &[u8]) {
        let began = Instant::now();
        for datagram in datagrams.chunks(DATAGRAM_BYTES) {
            self.depacketizer.take_datagram(
                Origin::default(),
                datagram,
                Time::from_millis(1),
                &mut self.house,
            );
        }
        self.spent[1] += began.elapsed();
        self.packets += (datagrams.len() / DATAGRAM_BYTES) as u32;
        self.drain();
    }

    /// Ends a frame's count.
    fn note(&mut self) {
        for (costs, spent) in self.costs.iter_mut().zip(&mut self.spent) {
            costs.push(std::mem::take(spent).as_nanos() as f64 / f64::from(self.packets));
        }
        self.packets = 0;
    }

    /// Of the frame in the middle: others on the machine interrupt some.
    fn report(&mut self, name: &str) {
        let [to_plan, to_take] = self.costs.each_mut().map(|costs| {
            costs.sort_by(f64::total_cmp);
            costs[costs.len() / 2]
        });
        let counters = self.depacketizer.counters();
        let in_place = 100.0 * counters.in_place as f64 / counters.packets as f64;
        println!(
            "{name:32} {to_plan:6.1} ns to plan, {to_take:6.1} ns to take a packet; {in_place:5.1} % in place, {} lost",
            counters.lost
        );
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let scale: u32 = arguments.iter().filter_map(|argument| argument.parse().ok()).next().unwrap_or(1);
    let words: Vec<_> = arguments.iter().filter(|argument| argument.parse::<u32>().is_err()).collect();
    let wants = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    let mut scratch = vec![0; SCRATCH_BYTES];
    for (name, collected) in [
        ("planned, a datagram a message", 1),
        ("planned, 6 a message", 6),
        ("planned, 50 a message", 50),
        ("unplanned", 0),
    ] {
        if !wants(name) {
            continue;
        }
        let (mut bench, mut plan, mut datagrams) = (Bench::new(), Plan::default(), Vec::new());
        for number in 0..100 * scale {
            bench.datagrams(number, &mut datagrams);
            match collected {
                0 => bench.unplanned(&datagrams),
                collected => bench.planned(&datagrams, collected, &mut plan, &mut scratch),
            }
            bench.note();
        }
        bench.report(name);
    }
}
