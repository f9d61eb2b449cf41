//! Frames through packets, whatever happens to these on their way.

mod fields;
mod losses;
mod strangers;

use super::*;
use crate::rtp::source::Origin;
use glassline_media::{Chroma, PixelFormat, Size, Time};
use proptest::prelude::*;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

/// Memory for frames, and the kernel that writes to it.
struct House {
    memory: Vec<Vec<u8>>,
    free: Vec<usize>,
    /// Whether the kernel may write to it.
    takes_aim: bool,
}

impl House {
    fn new(format: &Format, slots: usize) -> House {
        House {
            memory: vec![vec![0xEE; format.frame_bytes()]; slots],
            free: (0..slots).collect(),
            takes_aim: true,
        }
    }
}

impl Store for House {
    fn open(&mut self) -> Option<usize> {
        self.free.pop()
    }
    fn bytes(&mut self, slot: usize) -> &mut [u8] {
        &mut self.memory[slot]
    }
    fn takes_aim(&self) -> bool {
        self.takes_aim
    }
}

/// A frame that is out: its bytes, its time stamp, and what is missing.
type Out = (Vec<u8>, u32, Vec<Range<usize>>);

struct Receiver {
    depacketizer: Depacketizer,
    plan: Plan,
    scratch: Vec<u8>,
    house: House,
    now: Time,
    /// Who sends what is received next.
    from: Option<SocketAddr>,
    out: Vec<Out>,
    /// Packets that are missing in each of them.
    lost: Vec<u64>,
}

impl Receiver {
    fn new(format: Format, paths: usize, slots: usize) -> Receiver {
        let settings = Settings { format, payload_type: 96, paths, skew: Duration::from_millis(50) };
        Receiver {
            depacketizer: Depacketizer::new(settings),
            plan: Plan::default(),
            scratch: vec![0; SCRATCH_BYTES],
            house: House::new(&format, slots),
            now: Time::from_millis(1_000),
            from: None,
            out: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// Does what `recvmmsg` does: as many messages as are planned, of up to `collected` datagrams of one size each.
    fn receive(&mut self, path: usize, datagrams: &mut &[Vec<u8>], collected: usize) {
        self.depacketizer.plan(path, &mut self.plan, &mut self.house);
        let mut arrivals = Vec::new();
        for message in 0..self.plan.messages() {
            let Some(first) = datagrams.first() else { break };
            let mut count = 1;
            while count < collected
                && (count + 1) * first.len() <= MESSAGE_BYTES
                && datagrams.get(count).is_some_and(|next| next.len() <= first.len())
            {
                count += 1;
                if datagrams[count - 1].len() < first.len() {
                    break;
                }
            }
            let bytes = datagrams[..count].concat();
            let mut rest = &bytes[..];
            for piece in self.plan.pieces(message) {
                let room = match piece {
                    Piece::Scratch(range) => &mut self.scratch[range.clone()],
                    Piece::Frame { slot, bytes } => {
                        assert!(self.house.takes_aim);
                        &mut self.house.memory[*slot][bytes.clone()]
                    }
                };
                let now = room.len().min(rest.len());
                room[..now].copy_from_slice(&rest[..now]);
                rest = &rest[now..];
            }
            assert!(rest.is_empty(), "a message has room for all that the kernel brings");
            let (at, from) = (self.now, self.from);
            arrivals.push(Arrival { bytes: bytes.len(), datagram_bytes: first.len(), at, from });
            *datagrams = &datagrams[count..];
        }
        self.depacketizer.take(path, &self.plan, &arrivals, &self.scratch, &mut self.house);
        self.drain();
    }

    fn receive_all(&mut self, path: usize, datagrams: &[Vec<u8>], collected: usize) {
        let mut rest = datagrams;
        while !rest.is_empty() {
            self.receive(path, &mut rest, collected);
        }
    }

    fn drain(&mut self) {
        while let Some(done) = self.depacketizer.poll() {
            let Some(slot) = done.slot else { continue };
            self.lost.push(done.lost);
            self.out.push((self.house.memory[slot].clone(), done.timestamp, done.holes));
            self.house.memory[slot].fill(0xEE);
            self.house.free.push(slot);
        }
    }

    fn finish(&mut self) -> Counters {
        self.depacketizer.finish();
        self.drain();
        self.depacketizer.counters()
    }
}

fn format(chroma: Chroma, depth: u8, (width, height): (u32, u32), scan: Scan) -> Format {
    let size = Size::new(width, height).unwrap();
    Format::new(PixelFormat::pgroups(chroma, depth).unwrap(), size, scan).unwrap()
}

fn packetizer(format: Format, datagram_bytes: usize, packing: Packing, first_sequence: u32) -> Packetizer {
    let settings =
        PacketizerSettings { format, payload_type: 96, ssrc: 7, first_sequence, datagram_bytes, packing };
    Packetizer::new(settings).unwrap()
}

fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..bytes).map(next).collect()
}

/// Frames, and their datagrams frame by frame.
fn sent(
    packetizer: &mut Packetizer,
    format: &Format,
    count: u32,
    first: u32,
) -> (Vec<Vec<u8>>, Vec<Vec<Vec<u8>>>) {
    let frames: Vec<Vec<u8>> =
        (0..count).map(|number| noise(format.frame_bytes(), u64::from(first + number) * 977)).collect();
    let datagrams = frames
        .iter()
        .enumerate()
        .map(|(number, frame)| {
            let timestamp = (first + number as u32).wrapping_mul(3600).wrapping_sub(9000);
            let second =
                if format.scan() == Scan::Segmented { timestamp } else { timestamp.wrapping_add(1800) };
            let datagram = |packet: OutPacket<'_>| {
                let mut bytes = packet.head.to_vec();
                packet.samples.iter().for_each(|range| bytes.extend(&frame[range.clone()]));
                assert_eq!(bytes.len(), packet.bytes);
                bytes
            };
            packetizer.frame([timestamp, second]).map(datagram).collect()
        })
        .collect();
    (frames, datagrams)
}

/// Four lines of 8-bit 4:2:2, three packets a line.
fn small() -> Format {
    format(Chroma::Yuv422, 8, (48, 40), Scan::Progressive)
}

#[test]
fn frames_come_in_place_once_the_senders_cutting_is_known() {
    let format = small();
    let mut packetizer = packetizer(format, 60, Packing::General, 0xFFFF_FF00);
    let packets = packetizer.layout().len();
    let (frames, datagrams) = sent(&mut packetizer, &format, 20, 0);
    for collected in [1, 7, 48] {
        let mut receiver = Receiver::new(format, 1, 4);
        receiver.receive_all(0, &datagrams.concat(), collected);
        let counters = receiver.finish();
        let bytes: Vec<_> = receiver.out.iter().map(|(bytes, ..)| bytes.clone()).collect();
        assert!(bytes == frames, "{collected}");
        assert_eq!((counters.frames, counters.packets), (20, 20 * packets as u64));
        assert_eq!((counters.lost, counters.reordered, counters.refused), (0, 0, 0));
        // A call that brings more than two of these small frames can be planned for its beginning alone.
        let least = if collected > 7 { 6 } else { 15 };
        assert!(counters.in_place >= least * packets as u64, "{collected}: {}", counters.in_place);
    }
}

#[test]
fn what_is_lost_is_counted_and_told_to_the_byte() {
    let format = small();
    let mut packetizer = packetizer(format, 60, Packing::General, 5);
    let (frames, mut datagrams) = sent(&mut packetizer, &format, 6, 0);
    // One in the middle, the first two, and the last with its marker.
    datagrams[2].remove(10);
    datagrams[3].drain(..2);
    datagrams[4].pop();
    let mut receiver = Receiver::new(format, 1, 4);
    receiver.receive_all(0, &datagrams.concat(), 16);
    let counters = receiver.finish();
    assert_eq!((counters.lost, counters.frames, counters.incomplete), (4, 3, 3));
    let holes: Vec<_> = receiver.out.iter().map(|(.., holes)| holes.clone()).collect();
    let at = |index: usize| index * 32..(index + 1) * 32;
    assert_eq!(holes[2], [at(10)]);
    assert_eq!((holes[3].len(), &holes[3][0]), (1, &(0..64)));
    assert_eq!(holes[4], [at(format.frame_bytes() / 32 - 1)]);
    for (number, ((bytes, _, holes), frame)) in receiver.out.iter().zip(&frames).enumerate() {
        let mut expected = frame.clone();
        let mut found = bytes.clone();
        for hole in holes {
            expected[hole.clone()].fill(0);
            found[hole.clone()].fill(0);
        }
        assert!(expected == found, "frame {number}");
    }
}

#[test]
fn whole_frames_that_are_lost_are_counted_by_their_packets() {
    let format = small();
    let mut packetizer = packetizer(format, 60, Packing::General, 5);
    let packets = packetizer.layout().len() as u64;
    let (_, mut datagrams) = sent(&mut packetizer, &format, 8, 0);
    datagrams.drain(3..5);
    let mut receiver = Receiver::new(format, 1, 4);
    receiver.receive_all(0, &datagrams.concat(), 16);
    let counters = receiver.finish();
    assert_eq!((counters.lost, counters.frames, counters.incomplete), (2 * packets, 6, 0));
}

#[test]
fn a_consumer_that_is_late_loses_whole_frames_and_no_packets() {
    let format = small();
    let mut packetizer = packetizer(format, 60, Packing::General, 5);
    let (_, datagrams) = sent(&mut packetizer, &format, 9, 0);
    let mut receiver = Receiver::new(format, 1, 2);
    receiver.receive_all(0, &datagrams[..3].concat(), 16);
    let held = std::mem::take(&mut receiver.house.free);
    receiver.receive_all(0, &datagrams[3..7].concat(), 16);
    receiver.house.free = held;
    receiver.receive_all(0, &datagrams[7..].concat(), 16);
    let counters = receiver.finish();
    assert_eq!((counters.lost, counters.incomplete), (0, 0));
    assert_eq!(counters.frames + counters.dropped, 9);
    assert!((2..=4).contains(&counters.dropped), "{}", counters.dropped);
}

#[test]
fn fields_and_segments_are_woven_into_frames() {
    for scan in [Scan::Interlaced, Scan::Segmented] {
        // An odd number of lines: the first field has one more.
        let format = format(Chroma::Yuv422, 10, (48, 41), scan);
        let mut packetizer = packetizer(format, 150, Packing::General, 5);
        let (frames, datagrams) = sent(&mut packetizer, &format, 6, 0);
        let mut receiver = Receiver::new(format, 1, 4);
        receiver.receive_all(0, &datagrams.concat(), 8);
        let counters = receiver.finish();
        assert_eq!((counters.frames, counters.lost, counters.incomplete), (6, 0, 0), "{scan:?}");
        assert!(receiver.out.iter().zip(&frames).all(|((bytes, ..), frame)| bytes == frame), "{scan:?}");
        assert!(counters.in_place > 0);
    }
}

#[test]
fn a_sender_that_begins_anew_is_followed() {
    let format = small();
    let mut before = packetizer(format, 60, Packing::General, 5);
    let (_, first) = sent(&mut before, &format, 3, 1000);
    // Another source, sequence and time, and lines cut otherwise.
    let settings = PacketizerSettings {
        format,
        payload_type: 96,
        ssrc: 8,
        first_sequence: 99_999,
        datagram_bytes: 150,
        packing: Packing::General,
    };
    let mut after = Packetizer::new(settings).unwrap();
    let (frames, second) = sent(&mut after, &format, 6, 0);
    let mut receiver = Receiver::new(format, 1, 4);
    receiver.receive_all(0, &first.concat(), 8);
    receiver.now += Duration::from_millis(200);
    receiver.receive_all(0, &second.concat(), 8);
    let counters = receiver.finish();
    assert_eq!((counters.restarts, counters.frames, counters.lost), (1, 9, 0));
    assert_eq!(receiver.out[8].0, frames[5]);
    // Somebody else's packets in between are refused.
    let mut receiver = Receiver::new(format, 1, 4);
    receiver.receive_all(0, &first[0], 8);
    receiver.receive_all(0, &second[0][..5], 8);
    receiver.receive_all(0, &first[1], 8);
    let counters = receiver.finish();
    assert_eq!((counters.refused, counters.restarts, counters.frames), (5, 0, 2));
}

#[test]
fn a_frame_whose_rest_does_not_come_goes_out_in_time() {
    let format = small();
    let mut packetizer = packetizer(format, 60, Packing::General, 5);
    let (_, datagrams) = sent(&mut packetizer, &format, 2, 0);
    let mut receiver = Receiver::new(format, 1, 4);
    receiver.receive_all(0, &datagrams[0], 8);
    receiver.receive_all(0, &datagrams[1][..50], 8);
    let due = receiver.depacketizer.poll_timeout().unwrap();
    receiver.depacketizer.handle_timeout(Time::from_nanos(due.as_nanos() - 1));
    receiver.drain();
    assert_eq!(receiver.out.len(), 1);
    receiver.depacketizer.handle_timeout(due);
    receiver.drain();
    assert_eq!(receiver.out.len(), 2);
    assert_eq!(receiver.depacketizer.poll_timeout(), None);
}

/// Five lines a packet: eight packets a frame.
#[test]
fn a_frame_of_few_packets_with_a_hole_goes_out_when_the_next_one_is_whole() {
    let format = small();
    let mut packetizer = packetizer(format, 600, Packing::General, 5);
    let (_, mut datagrams) = sent(&mut packetizer, &format, 4, 0);
    assert_eq!(datagrams[1].len(), 8);
    datagrams[1].remove(3);
    let mut receiver = Receiver::new(format, 1, 4);
    receiver.receive_all(0, &datagrams[..2].concat(), 8);
    receiver.receive_all(0, &datagrams[2][..7], 8);
    assert_eq!(receiver.out.len(), 1);
    receiver.receive_all(0, &datagrams[2][7..], 8);
    assert_eq!(receiver.out.len(), 3);
    // Where the other path may still bring what is missing, the skew is waited for.
    let mut receiver = Receiver::new(format, 2, 4);
    receiver.receive_all(0, &datagrams[..3].concat(), 8);
    assert_eq!(receiver.out.len(), 1);
    let due = receiver.depacketizer.poll_timeout().unwrap();
    assert_eq!(due, receiver.now + Duration::from_millis(50));
    receiver.depacketizer.handle_timeout(due);
    receiver.drain();
    assert_eq!(receiver.out.len(), 3);
}

#[test]
fn of_two_paths_the_one_in_front_is_written_in_place() {
    let format = small();
    let mut packetizer = packetizer(format, 60, Packing::General, 5);
    let (frames, datagrams) = sent(&mut packetizer, &format, 8, 0);
    let all = datagrams.concat();
    let mut receiver = Receiver::new(format, 2, 8);
    // From the first packet on both bring the same, in turn.
    for part in all.chunks(7) {
        for path in 0..2 {
            receiver.receive_all(path, part, 7);
        }
    }
    let counters = receiver.finish();
    let twice = counters.duplicates + counters.late;
    assert_eq!((counters.frames, counters.lost, twice), (8, 0, all.len() as u64));
    assert!(receiver.out.iter().zip(&frames).all(|((bytes, ..), frame)| bytes == frame));
    let packets = all.len() as u64;
    assert!(counters.in_place > packets / 2, "{} of {packets} packets", counters.in_place);
}

#[test]
fn two_paths_are_one_stream_while_either_brings_it() {
    let format = small();
    let mut packetizer = packetizer(format, 60, Packing::General, 5);
    let (frames, datagrams) = sent(&mut packetizer, &format, 30, 0);
    // The second path is three frames behind; each is down for a while.
    let mut receiver = Receiver::new(format, 2, 12);
    for step in 0..33usize {
        receiver.now += Duration::from_millis(16);
        if step < 30 && !(8..14).contains(&step) {
            receiver.receive_all(0, &datagrams[step], 12);
        }
        if step >= 3 && !(20..25).contains(&(step - 3)) {
            receiver.receive_all(1, &datagrams[step - 3], 12);
        }
        receiver.depacketizer.handle_timeout(receiver.now);
        receiver.drain();
    }
    let counters = receiver.finish();
    assert_eq!((counters.lost, counters.frames, counters.incomplete), (0, 30, 0));
    assert!(receiver.out.iter().zip(&frames).all(|((bytes, ..), frame)| bytes == frame));
    assert!(counters.duplicates + counters.late > 0);
}

#[test]
fn what_follows_a_frame_whose_end_never_came_waits_for_no_path() {
    let format = small();
    let mut packetizer = packetizer(format, 60, Packing::General, 5);
    let (_, mut datagrams) = sent(&mut packetizer, &format, 3, 0);
    datagrams[1].truncate(100);
    let mut receiver = Receiver::new(format, 2, 8);
    receiver.receive_all(0, &datagrams[..2].concat(), 8);
    let due = receiver.depacketizer.poll_timeout().unwrap();
    receiver.depacketizer.handle_timeout(due);
    receiver.drain();
    assert_eq!((receiver.out.len(), receiver.depacketizer.counters().lost), (2, 0));
    receiver.receive_all(0, &datagrams[2], 8);
    assert_eq!((receiver.out.len(), receiver.depacketizer.counters().lost), (3, 20));
}

#[test]
fn block_packing_is_of_whole_blocks_over_the_ends_of_lines() {
    let format = format(Chroma::Yuv422, 10, (1920, 1080), Scan::Progressive);
    let packetizer = packetizer(format, 1460, Packing::Block, 0);
    // ST 2110-20 §6.3.3: seven blocks of 180 bytes in a datagram of standard size.
    assert_eq!(packetizer.layout().len(), (4800usize * 1080).div_ceil(1260));
    let general = self::packetizer(format, 1460, Packing::General, 0);
    assert_eq!(general.layout().len(), 4 * 1080);
    let jumbo = self::packetizer(format, 8900, Packing::General, 0);
    assert_eq!(jumbo.layout().len(), 1080);
}

fn formats() -> impl Strategy<Value = Format> {
    let kinds = prop_oneof![
        Just((Chroma::Yuv422, 8)),
        Just((Chroma::Yuv422, 10)),
        Just((Chroma::Yuv422, 12)),
        Just((Chroma::Yuv420, 8)),
        Just((Chroma::Yuv444, 8)),
        Just((Chroma::Yuv444, 10)),
        Just((Chroma::Rgb, 8)),
        Just((Chroma::Rgb, 10)),
    ];
    let scan = prop_oneof![Just(Scan::Progressive), Just(Scan::Interlaced), Just(Scan::Segmented)];
    (kinds, 1u32..40, 2u32..30, scan).prop_map(|((chroma, depth), width, height, scan)| {
        let scan = if chroma == Chroma::Yuv420 { Scan::Progressive } else { scan };
        format(chroma, depth, (width * 4, height), scan)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_frame_survives_any_cutting(
        format in formats(),
        datagram_bytes in 60usize..400,
        block: bool,
        first_sequence: u32,
        collected in 1usize..50,
        takes_aim: bool,
    ) {
        let packing = if block { Packing::Block } else { Packing::General };
        let mut packetizer = packetizer(format, datagram_bytes, packing, first_sequence);
        prop_assert!(packetizer.layout().is_whole(&format));
        let (frames, datagrams) = sent(&mut packetizer, &format, 5, 3);
        prop_assert!(datagrams.iter().flatten().all(|datagram| datagram.len() <= datagram_bytes));
        let mut receiver = Receiver::new(format, 1, 7);
        receiver.house.takes_aim = takes_aim;
        receiver.receive_all(0, &datagrams.concat(), collected);
        let counters = receiver.finish();
        prop_assert_eq!((counters.frames, counters.lost, counters.incomplete), (5, 0, 0));
        prop_assert!(takes_aim || counters.in_place == 0);
        for ((bytes, ..), frame) in receiver.out.iter().zip(&frames) {
            prop_assert!(bytes == frame);
        }
    }

    #[test]
    fn losses_are_counted_exactly_and_what_is_there_is_right(
        datagram_bytes in 60usize..200,
        collected in 1usize..50,
        first_sequence: u32,
        losses in prop::collection::vec((0usize..8, 0usize..300, 1usize..40), 0..12),
        swaps in prop::collection::vec((0usize..2000, 1usize..20), 0..12),
        repeats in prop::collection::vec(0usize..2000, 0..6),
        takes_aim: bool,
    ) {
        let format = small();
        let mut packetizer = packetizer(format, datagram_bytes, Packing::General, first_sequence);
        let (frames, datagrams) = sent(&mut packetizer, &format, 10, 0);
        let per_frame = datagrams[0].len();
        let total = per_frame * 10;
        let mut lost = vec![false; total];
        // The first and the last frame are whole, so that it is known what there was.
        for (frame, from, count) in losses {
            for index in from..from + count {
                if index < per_frame {
                    lost[(frame + 1) * per_frame + index] = true;
                }
            }
        }
        let mut order: Vec<usize> = (0..total).filter(|index| !lost[*index]).collect();
        for (at, by) in swaps {
            let at = at % order.len();
            let to = (at + by).min(order.len() - 1);
            let moved = order.remove(at);
            order.insert(to, moved);
        }
        for at in repeats {
            let at = at % order.len();
            order.insert(at, order[at]);
        }
        let all = datagrams.concat();
        let stream: Vec<Vec<u8>> = order.iter().map(|index| all[*index].clone()).collect();
        let mut receiver = Receiver::new(format, 1, 4);
        receiver.house.takes_aim = takes_aim;
        receiver.receive_all(0, &stream, collected);
        let counters = receiver.finish();
        let expected = lost.iter().filter(|lost| **lost).count() as u64;
        // What came so late that its frame was out is lost to it.
        prop_assert!(counters.lost >= expected && counters.lost <= expected + counters.late);
        prop_assert_eq!(counters.packets + counters.lost, total as u64);
        prop_assert_eq!(counters.refused + counters.restarts, 0);
        for (bytes, timestamp, holes) in &receiver.out {
            let number = (timestamp.wrapping_add(9000) / 3600) as usize;
            let mut there = vec![true; bytes.len()];
            holes.iter().for_each(|hole| there[hole.clone()].fill(false));
            for at in 0..bytes.len() {
                prop_assert!(!there[at] || bytes[at] == frames[number][at], "frame {} byte {}", number, at);
            }
        }
    }

    #[test]
    fn whatever_comes_writes_nowhere_but_inside_its_frame(
        datagrams in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..120), any::<bool>()), 0..60),
        collected in 1usize..9,
        paths in 1usize..3,
    ) {
        let format = small();
        let mut packetizer = packetizer(format, 60, Packing::General, 5);
        let (_, good) = sent(&mut packetizer, &format, 2, 0);
        let mut receiver = Receiver::new(format, paths, 6);
        receiver.receive_all(0, &good[0], collected);
        let begin = good[1][0].clone();
        for (noise, is_near) in datagrams {
            // Half of them are packets of the stream with some bytes changed.
            let mut datagram = if is_near { begin.clone() } else { noise.clone() };
            if is_near {
                for pair in noise.chunks_exact(2) {
                    let at = usize::from(pair[0]) % datagram.len();
                    datagram[at] ^= pair[1];
                }
            }
            receiver.receive_all(paths - 1, &[datagram], collected);
        }
        receiver.finish();
        prop_assert!(receiver.house.memory.iter().all(|frame| frame.len() == format.frame_bytes()));
    }
}
