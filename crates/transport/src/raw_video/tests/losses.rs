//! What is lost, against a model that knows what was sent.

use super::*;

/// How a stream is sent.
#[derive(Clone, Copy, Debug)]
struct Way {
    scan: Scan,
    datagram_bytes: usize,
    first_sequence: u32,
    /// The payload's extended sequence numbers are always zero.
    is_narrow: bool,
}

fn ways() -> impl Strategy<Value = Way> {
    let scan = prop_oneof![Just(Scan::Progressive), Just(Scan::Interlaced), Just(Scan::Segmented)];
    let first = prop_oneof![
        any::<u32>(),
        (0u32..1000).prop_map(|back| 0x0001_0000 - back),
        (0u32..1000).prop_map(|back| 0u32.wrapping_sub(back)),
    ];
    // From five packets a frame to some two hundred.
    (scan, prop_oneof![60usize..200, 200usize..1000], first, any::<bool>()).prop_map(
        |(scan, datagram_bytes, first_sequence, is_narrow)| Way {
            scan,
            datagram_bytes,
            first_sequence,
            is_narrow,
        },
    )
}

/// What a way sends: frames, their datagrams, and where each one's samples belong.
struct Stream {
    format: Format,
    frames: Vec<Vec<u8>>,
    datagrams: Vec<Vec<Vec<u8>>>,
    places: Vec<Vec<Range<usize>>>,
}

impl Stream {
    fn new(way: Way, count: u32) -> Stream {
        let format = format(Chroma::Yuv422, 8, (48, 40), way.scan);
        let mut packetizer = packetizer(format, way.datagram_bytes, Packing::General, way.first_sequence);
        let places = packetizer.frame([0, 0]).map(|packet| packet.samples.to_vec()).collect();
        let (frames, mut datagrams) = sent(&mut packetizer, &format, count, 0);
        if way.is_narrow {
            datagrams.iter_mut().flatten().for_each(|datagram| datagram[12..14].fill(0));
        }
        Stream { format, frames, datagrams, places }
    }

    fn per_frame(&self) -> usize {
        self.places.len()
    }

    fn total(&self) -> usize {
        self.frames.len() * self.per_frame()
    }

    /// Receives all but what is lost, and compares every count and every byte.
    fn check(&self, is_lost: &[bool], collected: usize) -> Result<(), TestCaseError> {
        let all = self.datagrams.concat();
        let came: Vec<usize> = (0..all.len()).filter(|index| !is_lost[*index]).collect();
        let stream: Vec<Vec<u8>> = came.iter().map(|index| all[*index].clone()).collect();
        // A call may bring several frames, whose memory is back only after it.
        let mut receiver = Receiver::new(self.format, 1, 14);
        receiver.receive_all(0, &stream, collected);
        let counters = receiver.finish();
        let span = came.last().unwrap() + 1 - came[0];
        prop_assert_eq!(counters.lost, (span - came.len()) as u64);
        prop_assert_eq!(counters.packets, came.len() as u64);
        prop_assert_eq!((counters.reordered, counters.duplicates, counters.late), (0, 0, 0));
        prop_assert_eq!((counters.refused, counters.restarts, counters.dropped), (0, 0, 0));
        // All frames of which anything came, in order, with the holes that they should have.
        let begun: Vec<usize> = (0..self.frames.len())
            .filter(|frame| came.iter().any(|index| index / self.per_frame() == *frame))
            .collect();
        let number = |timestamp: u32| (timestamp.wrapping_add(9000) / 3600) as usize;
        let out: Vec<usize> = receiver.out.iter().map(|(_, timestamp, _)| number(*timestamp)).collect();
        prop_assert_eq!(&out, &begun);
        let of_frame = |frame: &usize| &is_lost[frame * self.per_frame()..][..self.per_frame()];
        let lost = |frame| of_frame(frame).iter().filter(|is_lost| **is_lost).count() as u64;
        // What is missing at the very beginning nobody knows.
        let (told, known) = (receiver.lost.iter().skip(1), out.iter().skip(1).map(lost));
        prop_assert!(told.copied().eq(known), "{:?}", receiver.lost);
        for ((bytes, _, holes), frame) in receiver.out.iter().zip(out) {
            let mut expected = vec![true; bytes.len()];
            for (index, places) in self.places.iter().enumerate() {
                let is_lost = is_lost[frame * self.per_frame() + index];
                places.iter().for_each(|place| expected[place.clone()].fill(!is_lost));
            }
            let mut there = vec![true; bytes.len()];
            holes.iter().for_each(|hole| there[hole.clone()].fill(false));
            prop_assert!(there == expected, "holes of frame {}", frame);
            let is_right = (0..bytes.len()).all(|at| !there[at] || bytes[at] == self.frames[frame][at]);
            prop_assert!(is_right, "bytes of frame {}", frame);
        }
        Ok(())
    }
}

fn way(scan: Scan, first_sequence: u32, is_narrow: bool) -> Way {
    Way { scan, datagram_bytes: 160, first_sequence, is_narrow }
}

/// Loses packets, given as frames and ranges of their packets, of all scans with all sorts of sequence numbers.
fn lose(losses: impl Fn(usize) -> Vec<(usize, Range<usize>)>) {
    for scan in [Scan::Progressive, Scan::Interlaced, Scan::Segmented] {
        for (first, is_narrow) in [(5, false), (0xFFFF_FFF0, false), (0xFFF0, false), (0xFFF0, true)] {
            let stream = Stream::new(way(scan, first, is_narrow), 8);
            let mut is_lost = vec![false; stream.total()];
            for (frame, packets) in losses(stream.per_frame()) {
                packets.for_each(|index| is_lost[frame * stream.per_frame() + index] = true);
            }
            for collected in [1, 16] {
                stream.check(&is_lost, collected).unwrap();
            }
        }
    }
}

#[test]
fn the_first_and_the_last_packets_of_frames_are_missed() {
    lose(|packets| vec![(2, 0..1), (3, packets - 1..packets), (5, packets - 1..packets), (6, 0..3)]);
}

#[test]
fn the_first_and_the_last_packets_of_fields_are_missed() {
    lose(|packets| vec![(2, packets / 2 - 1..packets / 2), (4, packets / 2..packets / 2 + 1)]);
}

#[test]
fn whole_frames_are_missed() {
    lose(|packets| vec![(2, 0..packets), (4, 0..packets), (5, 0..packets)]);
}

#[test]
fn either_field_is_missed_and_the_next_frames_one_is_not_taken_for_it() {
    let half = |packets: usize| packets / 2;
    lose(|packets| vec![(2, 0..half(packets)), (4, half(packets)..packets)]);
    lose(|packets| vec![(2, half(packets)..packets), (3, 0..half(packets))]);
}

#[test]
fn what_follows_the_last_packet_of_all_is_not_counted() {
    lose(|packets| vec![(7, packets - 4..packets)]);
    lose(|packets| vec![(0, 0..3), (7, 5..packets)]);
}

#[test]
fn a_sender_that_never_extends_its_numbers_is_followed_over_wraps_in_any_order() {
    let stream = Stream::new(way(Scan::Progressive, 0xFFFF, true), 4);
    let mut datagrams = stream.datagrams.concat();
    // 0xFFFF comes after 0 and 1: the first wrap looks like no wrap.
    datagrams[..3].rotate_left(1);
    let mut receiver = Receiver::new(stream.format, 1, 4);
    receiver.receive_all(0, &datagrams, 8);
    let counters = receiver.finish();
    assert_eq!((counters.frames, counters.lost, counters.late, counters.restarts), (4, 0, 0, 0));
    assert_eq!(counters.reordered, 1);
    assert!(counters.in_place > 0);
}

#[test]
fn a_loss_of_more_than_a_turn_of_the_low_numbers_is_counted() {
    let format = small();
    for lost in [40_000u32, 65_536, 300_000] {
        let mut packetizer = packetizer(format, 60, Packing::General, 77);
        let packets = packetizer.layout().len() as u32;
        let (_, before) = sent(&mut packetizer, &format, 3, 0);
        let mut packetizer = self::packetizer(format, 60, Packing::General, 77 + 3 * packets + lost);
        let (_, after) = sent(&mut packetizer, &format, 3, 3 + lost / packets);
        let mut receiver = Receiver::new(format, 1, 4);
        receiver.receive_all(0, &before.concat(), 8);
        receiver.now += Duration::from_secs(1);
        receiver.receive_all(0, &after.concat(), 8);
        let counters = receiver.finish();
        assert_eq!((counters.lost, counters.frames, counters.restarts), (u64::from(lost), 6, 0));
    }
}

#[test]
fn a_path_that_is_late_by_half_a_turn_of_the_low_numbers_spoils_no_count() {
    let format = format(Chroma::Yuv422, 8, (48, 1600), Scan::Progressive);
    let mut packetizer = packetizer(format, 60, Packing::General, 77);
    let (_, datagrams) = sent(&mut packetizer, &format, 10, 0);
    let packets = datagrams[0].len();
    assert!(8 * packets > 1 << 15);
    let mut receiver = Receiver::new(format, 2, 14);
    receiver.receive_all(0, &datagrams[..8].concat(), 8);
    receiver.receive_all(1, &datagrams[..8].concat(), 8);
    receiver.receive_all(0, &datagrams[8..].concat(), 8);
    let counters = receiver.finish();
    assert_eq!((counters.lost, counters.frames, counters.restarts), (0, 10, 0));
    assert_eq!((counters.late as usize, counters.reordered), (8 * packets, 0));
}

#[test]
fn a_path_whose_first_packet_is_older_than_all_frames_has_numbers_like_the_other_ones() {
    let format = small();
    for is_narrow in [false, true] {
        // The low half of the numbers wraps between the first packets of the second frame and the third.
        let mut packetizer = packetizer(format, 60, Packing::General, 0xFFFF - 120);
        let (_, mut datagrams) = sent(&mut packetizer, &format, 17, 0);
        if is_narrow {
            datagrams.iter_mut().flatten().for_each(|datagram| datagram[12..14].fill(0));
        }
        let packets = datagrams[0].len() as u64;
        let firsts: Vec<Vec<u8>> = datagrams.iter().map(|frame| frame[0].clone()).collect();
        let mut receiver = Receiver::new(format, 2, 20);
        // As many frames have begun as can be at a time, and none is out.
        receiver.receive_all(0, &firsts[1..], 1);
        receiver.receive_all(1, &firsts, 1);
        let counters = receiver.finish();
        assert_eq!(packets, 120);
        assert_eq!((counters.packets, counters.late, counters.duplicates), (16, 1, 16), "{is_narrow}");
        assert_eq!((counters.lost, counters.refused), (15 * (packets - 1), 0), "{is_narrow}");
        assert_eq!((counters.restarts, counters.reordered), (0, 0), "{is_narrow}");
    }
}

#[test]
fn a_stream_that_begins_anew_brings_no_loss_with_it() {
    let format = small();
    let sender = |ssrc: u32, first_sequence: u32| {
        let settings = PacketizerSettings {
            format,
            payload_type: 96,
            ssrc,
            first_sequence,
            datagram_bytes: 60,
            packing: Packing::General,
        };
        Packetizer::new(settings).unwrap()
    };
    // Another source; and the same one, from elsewhere in numbers and time.
    for ssrc in [8, 7] {
        let (_, mut first) = sent(&mut sender(7, 200_000), &format, 3, 5000);
        let (_, mut second) = sent(&mut sender(ssrc, 30_000), &format, 3, 0);
        let packets = first[0].len();
        first[1].drain(..2);
        first[2].pop();
        second[0].drain(..3);
        second[1].drain(7..9);
        second[2].truncate(packets - 2);
        let mut receiver = Receiver::new(format, 1, 4);
        receiver.receive_all(0, &first.concat(), 8);
        receiver.now += Duration::from_millis(200);
        receiver.receive_all(0, &second.concat(), 8);
        let counters = receiver.finish();
        // Two of each: what is missing at either sender's very beginning and end was perhaps never sent.
        assert_eq!((counters.lost, counters.restarts, counters.refused), (4, 1, 0), "{ssrc}");
        assert_eq!((counters.frames, counters.incomplete, counters.partial), (1, 4, 1));
        assert_eq!(counters.packets as usize, first.concat().len() + second.concat().len());
    }
}

#[test]
fn packets_of_other_frames_than_the_settings_say_are_refused() {
    let small = small();
    let larger = format(Chroma::Yuv422, 8, (96, 80), Scan::Progressive);
    let deeper = format(Chroma::Yuv422, 10, (48, 40), Scan::Progressive);
    let fields = format(Chroma::Yuv422, 8, (48, 40), Scan::Interlaced);
    for other in [larger, deeper, fields] {
        let mut receiver = Receiver::new(small, 1, 4);
        let (_, before) = sent(&mut packetizer(small, 150, Packing::General, 5), &small, 2, 0);
        let count = before.concat().len();
        receiver.receive_all(0, &before.concat(), 8);
        // As the kernel would: a message that was planned for the one is of the other.
        let (_, meanwhile) =
            sent(&mut packetizer(other, 150, Packing::General, 5 + count as u32), &other, 2, 2);
        receiver.receive_all(0, &meanwhile.concat(), 8);
        let counters = receiver.finish();
        assert!(counters.refused > 0, "{other:?}");
        let all = count + meanwhile.concat().len();
        assert_eq!((counters.packets + counters.refused + counters.duplicates) as usize, all);
        assert!(receiver.house.memory.iter().all(|frame| frame.len() == small.frame_bytes()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_loss_is_counted_exactly_and_told_to_the_byte(
        way in ways(),
        collected in 1usize..50,
        per_mille in prop_oneof![Just(0u64), Just(10), Just(50)],
        seed: u64,
        bursts in prop::collection::vec((0.0f64..1.0, 0.0f64..3.0), 0..4),
    ) {
        let stream = Stream::new(way, 12);
        let total = stream.total();
        let random = noise(2 * total, seed);
        let mut is_lost: Vec<bool> = random
            .chunks_exact(2)
            .map(|pair| u64::from(u16::from_be_bytes([pair[0], pair[1]])) * 1000 / 65_536 < per_mille)
            .collect();
        for (from, frames) in bursts {
            let from = (from * total as f64) as usize;
            let count = (frames * stream.per_frame() as f64) as usize;
            is_lost[from..total.min(from + count)].fill(true);
        }
        // With it, the receiver learns how frames are cut.
        is_lost[..stream.per_frame()].fill(false);
        stream.check(&is_lost, collected)?;
    }
}
