//! Packets of others in the middle of a stream: by another sender, with another SSRC, with numbers and stamps of their own.

use super::*;
use crate::rtp::source::{RESTART_SILENCE, RESUME_SILENCE, SOURCE_SILENCE, SourceLock};

const CAMERA: &str = "10.0.0.5:5004";
const STRANGER: &str = "10.0.0.9:5004";
/// From a frame to the next, as `sent` stamps them.
const FRAME_TIME: Duration = Duration::from_millis(40);

fn from(address: &str) -> Option<SocketAddr> {
    Some(address.parse().unwrap())
}

/// Bytes that are in no frame that is sent.
const FOREIGN: u8 = 0x99;

/// A packet of the stream as a stranger forges it: with its own samples.
fn forged(datagram: &[u8], ssrc: u32, ahead: (u32, u32)) -> Vec<u8> {
    let mut bytes = datagram.to_vec();
    let word = |at: usize| u32::from_be_bytes(datagram[at..at + 4].try_into().unwrap());
    let number = u32::from(u16::from_be_bytes([datagram[12], datagram[13]])) << 16
        | u32::from(u16::from_be_bytes([datagram[2], datagram[3]]));
    let number = number.wrapping_add(ahead.0).to_be_bytes();
    bytes[12..14].copy_from_slice(&number[..2]);
    bytes[2..4].copy_from_slice(&number[2..]);
    bytes[4..8].copy_from_slice(&word(4).wrapping_add(ahead.1).to_be_bytes());
    bytes[8..12].copy_from_slice(&ssrc.to_be_bytes());
    bytes[20..].fill(FOREIGN);
    bytes
}

/// How a stranger's packets look beside the stream's.
#[derive(Clone, Copy, Debug)]
struct Forgery {
    address: Option<&'static str>,
    ssrc: u32,
    /// By how much its numbers and stamps are ahead.
    ahead: (u32, u32),
}

/// Sends a stream of 25 frames a second, and `count` forged packets behind each third of a frame. Returns the counters.
fn attack(format: Format, forgery: Forgery, count: usize, collected: usize) -> Counters {
    let mut packetizer = packetizer(format, 60, Packing::General, 0xFFFF_FE00);
    let (frames, datagrams) = sent(&mut packetizer, &format, 60, 0);
    let mut receiver = Receiver::new(format, 1, 6);
    for (number, frame) in datagrams.iter().enumerate() {
        for (part, third) in frame.chunks(frame.len().div_ceil(3)).enumerate() {
            receiver.from = from(CAMERA);
            receiver.receive_all(0, third, collected);
            // Not before two frames came whole: whoever is first is listened to.
            if number >= 2 {
                receiver.now += FRAME_TIME / 10;
                receiver.depacketizer.handle_timeout(receiver.now);
                receiver.from = forgery.address.and_then(from);
                let at = (part * frame.len() / 3 + 7) % frame.len();
                let forged: Vec<Vec<u8>> = (0..count)
                    .map(|index| {
                        let packet = &frame[(at + index) % frame.len()];
                        let (numbers, ticks) = forgery.ahead;
                        let step = index as u32;
                        forged(packet, forgery.ssrc, (numbers.wrapping_add(step), ticks.wrapping_add(step)))
                    })
                    .collect();
                receiver.receive_all(0, &forged, collected);
            }
        }
        receiver.now += FRAME_TIME - 3 * (FRAME_TIME / 10);
    }
    let counters = receiver.finish();
    assert_eq!(receiver.out.len(), 60, "{forgery:?}: {counters:?}");
    for (number, ((bytes, _, holes), frame)) in receiver.out.iter().zip(&frames).enumerate() {
        assert!(bytes == frame && holes.is_empty(), "{forgery:?}: frame {number}, holes {holes:?}");
    }
    counters
}

/// The attacks on a receiver that listens to a camera: from elsewhere, from another port, with another SSRC, from the future.
fn forgeries() -> Vec<Forgery> {
    let mut all = Vec::new();
    for (address, ssrc) in
        [(STRANGER, 7), (STRANGER, 8), ("10.0.0.5:40000", 7), ("10.0.0.5:40000", 8), (CAMERA, 8)]
    {
        for ahead in [(0, 0), (120, 3_600), (1_000_000, 0), (0, 90_000), (0, 1 << 31)] {
            all.push(Forgery { address: Some(address), ssrc, ahead });
        }
    }
    // With the camera's own address and SSRC, which takes a network that lets forged addresses pass.
    for ahead in [(0, 45_000), (0, 90_000), (0, 20_000_000), (0, 1 << 31), (3_000_000, 0), (3_000_000, 3_600)]
    {
        all.push(Forgery { address: Some(CAMERA), ssrc: 7, ahead });
    }
    all
}

#[test]
fn strangers_change_no_byte_and_no_count() {
    for forgery in forgeries() {
        for (count, collected) in [(1, 8), (40, 8), (5, 1)] {
            let counters = attack(small(), forgery, count, collected);
            assert_eq!((counters.frames, counters.lost, counters.restarts), (60, 0, 0), "{forgery:?}");
            assert_eq!((counters.incomplete, counters.reordered), (0, 0), "{forgery:?}");
            assert_eq!(counters.refused as usize, 58 * 3 * count, "{forgery:?}");
        }
    }
}

#[test]
fn fields_are_kept_from_strangers_too() {
    let fields = format(Chroma::Yuv422, 8, (48, 40), Scan::Interlaced);
    for forgery in forgeries() {
        let counters = attack(fields, forgery, 3, 8);
        assert_eq!((counters.frames, counters.lost, counters.restarts), (60, 0, 0), "{forgery:?}");
    }
}

#[test]
fn another_source_is_taken_after_silence_and_nothing_counts_as_lost() {
    let format = small();
    for (address, silence) in
        [(STRANGER, SOURCE_SILENCE), ("10.0.0.5:40000", RESTART_SILENCE), (CAMERA, RESUME_SILENCE)]
    {
        let mut first = packetizer(format, 60, Packing::General, 5);
        let (_, before) = sent(&mut first, &format, 3, 0);
        let settings = PacketizerSettings { ssrc: 8, first_sequence: 77_777, ..first_settings(format) };
        let mut second = Packetizer::new(settings).unwrap();
        let (frames, after) = sent(&mut second, &format, 4, 500);
        let mut receiver = Receiver::new(format, 1, 4);
        receiver.from = from(CAMERA);
        receiver.receive_all(0, &before.concat(), 8);
        receiver.from = from(address);
        receiver.now += silence - Duration::from_nanos(1);
        receiver.receive_all(0, &after[0], 8);
        assert_eq!(receiver.depacketizer.counters().refused as usize, after[0].len(), "{address}");
        receiver.now += Duration::from_nanos(1);
        receiver.receive_all(0, &after[1..].concat(), 8);
        let counters = receiver.finish();
        assert_eq!((counters.frames, counters.restarts, counters.lost), (6, 1, 0), "{address}");
        assert!(receiver.out[3..].iter().zip(&frames[1..]).all(|((bytes, ..), frame)| bytes == frame));
    }
}

fn first_settings(format: Format) -> PacketizerSettings {
    PacketizerSettings {
        format,
        payload_type: 96,
        ssrc: 7,
        first_sequence: 5,
        datagram_bytes: 60,
        packing: Packing::General,
    }
}

#[test]
fn a_sender_that_the_description_names_is_waited_for() {
    let format = small();
    let (frames, datagrams) = sent(&mut packetizer(format, 60, Packing::General, 5), &format, 3, 0);
    let mut receiver = Receiver::new(format, 1, 4);
    let lock = SourceLock::new().with_allowed(0, vec!["10.0.0.5".parse().unwrap()]);
    receiver.depacketizer = receiver.depacketizer.with_lock(lock);
    receiver.from = from(STRANGER);
    receiver.receive_all(0, &datagrams.concat(), 8);
    assert_eq!(receiver.out.len(), 0);
    receiver.from = from(CAMERA);
    receiver.receive_all(0, &datagrams.concat(), 8);
    let counters = receiver.finish();
    assert_eq!((counters.frames, counters.restarts, counters.lost), (3, 0, 0));
    assert!(receiver.out.iter().zip(&frames).all(|((bytes, ..), frame)| bytes == frame));
}

/// What a sender may do that is listened to: lines without samples, hundreds of them a packet, without end.
#[test]
fn packets_without_samples_make_nothing_grow() {
    let format = small();
    let mut receiver = Receiver::new(format, 1, 4);
    let mut packet =
        packetizer(format, 60, Packing::General, 5).frame([0, 0]).next().unwrap().head[..14].to_vec();
    for line in 0..200u16 {
        let empty = Segment { length: 0, field: false, line: line % 40, offset: 0 };
        packet.extend(empty.write(line < 199));
    }
    for sequence in 0..20_000u32 {
        packet[2..4].copy_from_slice(&(sequence as u16).to_be_bytes());
        packet[12..14].copy_from_slice(&((sequence >> 16) as u16).to_be_bytes());
        receiver.depacketizer.take_datagram(Origin::default(), &packet, receiver.now, &mut receiver.house);
    }
    assert!(receiver.depacketizer.recorded_runs() <= 8_192);
    let counters = receiver.depacketizer.counters();
    // Some of them close the frame.
    assert_eq!((counters.duplicates, counters.packets, counters.refused), (20_000 - 16, 0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever others send, from any address but the source's own, with any header: each byte of each frame is right, and not
    /// one packet counts as lost.
    #[test]
    fn whatever_strangers_send_frames_are_whole(
        scan in prop_oneof![Just(Scan::Progressive), Just(Scan::Interlaced), Just(Scan::Segmented)],
        collected in 1usize..20,
        takes_aim: bool,
        foreign in prop::collection::vec(
            (0usize..1_200, any::<u32>(), any::<u32>(), 7u32..9, 0u16..3, 1usize..4, any::<bool>()), 0..60),
    ) {
        let format = format(Chroma::Yuv422, 8, (48, 40), scan);
        let mut packetizer = packetizer(format, 60, Packing::General, 0xFFFF_FF00);
        let (frames, datagrams) = sent(&mut packetizer, &format, 10, 0);
        let all = datagrams.concat();
        let mut receiver = Receiver::new(format, 1, 13);
        receiver.house.takes_aim = takes_aim;
        let mut sent_foreign = 0;
        let mut at = 1;
        receiver.from = from(CAMERA);
        receiver.receive_all(0, &all[..1], collected);
        let mut foreign = foreign;
        foreign.sort_by_key(|(place, ..)| *place);
        for (place, number, stamp, ssrc, port, count, is_near) in foreign {
            let place = place.clamp(at, all.len());
            receiver.from = from(CAMERA);
            receiver.receive_all(0, &all[at..place], collected);
            at = place;
            receiver.now += Duration::from_micros(300);
            receiver.from = from(&format!("10.0.0.5:{}", 40_000 + port));
            let ahead = if is_near { (number % 100, stamp % 100) } else { (number, stamp) };
            let packet = forged(&all[place.min(all.len() - 1)], ssrc, ahead);
            receiver.receive_all(0, &vec![packet; count], collected);
            sent_foreign += count;
        }
        receiver.from = from(CAMERA);
        receiver.receive_all(0, &all[at..], collected);
        let counters = receiver.finish();
        prop_assert_eq!((counters.frames, counters.incomplete, counters.lost), (10, 0, 0));
        prop_assert_eq!((counters.refused as usize, counters.restarts), (sent_foreign, 0));
        prop_assert_eq!(receiver.out.len(), 10);
        for ((bytes, _, holes), frame) in receiver.out.iter().zip(&frames) {
            prop_assert!(bytes == frame && holes.is_empty());
        }
    }

    /// Where the stream's own packets are lost and a stranger's lie in their place, these are holes: no foreign byte is shown.
    #[test]
    fn foreign_bytes_are_never_told_as_good(
        losses in prop::collection::vec((240usize..1_200, 1usize..30), 0..12),
        foreign in prop::collection::vec((240usize..1_200, 1usize..5, 7u32..9), 0..30),
        collected in 1usize..20,
    ) {
        let format = small();
        let mut packetizer = packetizer(format, 60, Packing::General, 5);
        let (frames, datagrams) = sent(&mut packetizer, &format, 10, 0);
        let all = datagrams.concat();
        let mut lost = vec![false; all.len()];
        for (place, count) in losses {
            let end = all.len().min(place + count);
            lost[place.min(end)..end].fill(true);
        }
        let mut receiver = Receiver::new(format, 1, 13);
        for (index, packet) in all.iter().enumerate() {
            receiver.from = from(STRANGER);
            for (place, count, ssrc) in &foreign {
                if *place == index {
                    receiver.receive_all(0, &vec![forged(packet, *ssrc, (0, 0)); *count], collected);
                }
            }
            receiver.from = from(CAMERA);
            if !lost[index] {
                receiver.receive_all(0, std::slice::from_ref(packet), collected);
            }
        }
        let counters = receiver.finish();
        let last = lost.iter().rposition(|is_lost| !is_lost).unwrap_or(0);
        let expected = lost[..last].iter().filter(|is_lost| **is_lost).count();
        prop_assert_eq!(counters.lost as usize, expected);
        for (bytes, timestamp, holes) in &receiver.out {
            let number = (timestamp.wrapping_add(9000) / 3600) as usize;
            let mut there = vec![true; bytes.len()];
            holes.iter().for_each(|hole| there[hole.clone()].fill(false));
            for at in 0..bytes.len() {
                prop_assert!(!there[at] || bytes[at] == frames[number][at], "frame {} byte {}", number, at);
            }
        }
    }
}
