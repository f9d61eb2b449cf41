//! What a packet of raw video costs beside the kernel's work: 1080p of 8 bits, 1,300 bytes a packet. The datagrams are put where
//! the plan says, as `recvmmsg` does, and that is not counted; what is counted is the plan, and what becomes of the bytes.
//!
//! `cargo bench -p glassline-transport --bench raw_video -- [SCALE] [WORD…]`: WORDs choose cases by name.
#![allow(clippy::unwrap_used, clippy::disallowed_types, clippy::disallowed_methods)]

use glassline_media::{Chroma, PixelFormat, Size, Time};
use glassline_transport::raw_video::{
    Arrival, Depacketizer, Format, Packetizer, PacketizerSettings, Packing, Piece, Plan, SCRATCH_BYTES, Scan,
    Settings, Store,
};
use std::time::{Duration, Instant};

const SLOTS: usize = 3;

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
    spent: [Duration; 2],
    packets: u64,
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
            datagram_bytes: 1300,
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
        }
    }

    fn datagrams(&mut self, number: u32) -> Vec<Vec<u8>> {
        let frame = &self.frame;
        let datagram = |packet: glassline_transport::raw_video::OutPacket<'_>| {
            let mut bytes = packet.head.to_vec();
            packet.samples.iter().for_each(|range| bytes.extend_from_slice(&frame[range.clone()]));
            bytes
        };
        self.packetizer.frame([number * 1500; 2]).map(datagram).collect()
    }

    fn drain(&mut self) {
        while let Some(done) = self.depacketizer.poll() {
            assert!(done.holes.is_empty());
            self.house.free.extend(done.slot);
        }
    }

    /// Messages of `collected` datagrams.
    fn planned(&mut self, datagrams: &[Vec<u8>], collected: usize, plan: &mut Plan, scratch: &mut [u8]) {
        let mut messages = datagrams.chunks(collected).peekable();
        while messages.peek().is_some() {
            let began = Instant::now();
            self.depacketizer.plan(0, plan, &mut self.house);
            self.spent[0] += began.elapsed();
            let mut arrivals = Vec::new();
            for (number, message) in (0..plan.messages()).zip(&mut messages) {
                let bytes = message.concat();
                let mut rest = &bytes[..];
                for piece in plan.pieces(number) {
                    let room = match piece {
                        Piece::Scratch(range) => &mut scratch[range.clone()],
                        Piece::Frame { slot, bytes } => &mut self.house.memory[*slot][bytes.clone()],
                    };
                    let now = room.len().min(rest.len());
                    room[..now].copy_from_slice(&rest[..now]);
                    rest = &rest[now..];
                }
                self.packets += message.len() as u64;
                let datagram_bytes = message[0].len();
                arrivals.push(Arrival { bytes: bytes.len(), datagram_bytes, at: Time::from_millis(1) });
            }
            let began = Instant::now();
            self.depacketizer.take(0, plan, &arrivals, scratch, &mut self.house);
            self.spent[1] += began.elapsed();
            self.drain();
        }
    }

    fn unplanned(&mut self, datagrams: &[Vec<u8>]) {
        let began = Instant::now();
        for datagram in datagrams {
            self.depacketizer.take_datagram(0, datagram, Time::from_millis(1), &mut self.house);
        }
        self.spent[1] += began.elapsed();
        self.packets += datagrams.len() as u64;
        self.drain();
    }

    fn report(&self, name: &str) {
        let nanos = |spent: Duration| spent.as_nanos() as f64 / self.packets as f64;
        let counters = self.depacketizer.counters();
        let in_place = 100.0 * counters.in_place as f64 / counters.packets as f64;
        println!(
            "{name:32} {:6.1} ns to plan, {:6.1} ns to take a packet; {in_place:5.1} % in place, {} lost",
            nanos(self.spent[0]),
            nanos(self.spent[1]),
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
        let (mut bench, mut plan) = (Bench::new(), Plan::default());
        for number in 0..100 * scale {
            let datagrams = bench.datagrams(number);
            match collected {
                0 => bench.unplanned(&datagrams),
                collected => bench.planned(&datagrams, collected, &mut plan, &mut scratch),
            }
        }
        bench.report(name);
    }
}
