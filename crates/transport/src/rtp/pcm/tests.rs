//! Sound through packets, whatever happens to these on their way.

use super::*;
use crate::rtp::source::Origin;
use crate::rtp::{HEADER_BYTES, Packet};
use glassline_media::{AudioBlock, Time};
use proptest::prelude::*;
use std::time::Duration;

fn settings(format: Format) -> Settings {
    let reorder = crate::rtp::Settings { window: Duration::from_millis(10), packets: 64 };
    Settings { format, payload_type: 97, reorder }
}

fn sender(format: Format, packet_time: PacketTime) -> Packetizer {
    Packetizer::new(PacketizerSettings {
        format,
        packet_time,
        payload_type: 97,
        ssrc: 9,
        first_sequence: 0xFFF0,
        first_timestamp: 0xFFFF_FF00,
    })
    .unwrap()
}

fn block(format: Format, samples: Vec<f32>) -> AudioBlock {
    AudioBlock { samples, channels: format.channels(), rate_hz: format.rate_hz(), captured: Time::ZERO }
}

/// Samples that each depth keeps exactly.
fn ramp(count: usize) -> Vec<f32> {
    (0..count).map(|index| ((index * 77 + 1) % 65_536) as f32 / 32_768.0 - 1.0).collect()
}

fn datagrams(sender: &mut Packetizer, block: &AudioBlock) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    sender.push(block, &mut |bytes| out.push(bytes.to_vec())).unwrap();
    out
}

fn stereo() -> Format {
    Format::new(Depth::L24, 2, 48_000).unwrap()
}

/// When packet `index` of 1 ms comes.
fn at(index: usize) -> Time {
    Time::from_millis(1_000 + index as u64)
}

#[test]
fn samples_are_big_endian_and_full_scale_is_one() {
    let mut out = Vec::new();
    Depth::L16.decode(&[0x80, 0, 0x40, 0, 9], &mut out);
    Depth::L24.decode(&[0x80, 0, 0, 0x40, 0, 0, 1, 2], &mut out);
    assert_eq!(out, [-1.0, 0.5, -1.0, 0.5]);
    let mut bytes = Vec::new();
    Depth::L16.encode(&[-1.0, 0.5, 2.0, f32::NAN], &mut bytes);
    Depth::L24.encode(&[-7.0, 0.5, 1.0, f32::NAN], &mut bytes);
    assert_eq!(bytes[..8], [0x80, 0, 0x40, 0, 0x7F, 0xFF, 0, 0]);
    assert_eq!(bytes[8..], [0x80, 0, 0, 0x40, 0, 0, 0x7F, 0xFF, 0xFF, 0, 0, 0]);
}

#[test]
fn packets_are_of_one_size_and_their_stamps_go_on() {
    let mut sender = sender(stereo(), PacketTime::Millisecond);
    assert_eq!((sender.packet_samples(), sender.packet_time()), (48, Duration::from_millis(1)));
    let sent = datagrams(&mut sender, &block(stereo(), ramp(2 * 100)));
    assert_eq!(sent.iter().map(Vec::len).collect::<Vec<_>>(), [HEADER_BYTES + 48 * 6; 2]);
    let header = Packet::parse(&sent[1]).unwrap().header;
    assert_eq!((header.sequence, header.timestamp), (0xFFF1, 0xFFFF_FF30));
    assert_eq!(datagrams(&mut sender, &block(stereo(), ramp(2 * 43))).len(), 0);
    assert_eq!(datagrams(&mut sender, &block(stereo(), ramp(2))).len(), 1);
    let mut flushed = 0;
    sender.flush(&mut |_| flushed += 1);
    assert_eq!(flushed, 0, "nothing is left over");
    let other = AudioBlock { rate_hz: 44_100, ..block(stereo(), ramp(2)) };
    assert!(matches!(sender.push(&other, &mut |_| {}), Err(Error::Samples { .. })));
    assert!(matches!(sender.push(&block(stereo(), ramp(3)), &mut |_| {}), Err(Error::Samples { .. })));
}

#[test]
fn packet_times_are_those_of_the_standard() {
    let samples = |time: PacketTime| [44_100, 48_000, 96_000].map(|rate| time.samples(rate));
    assert_eq!(samples(PacketTime::Millisecond), [48, 48, 96]);
    assert_eq!(samples(PacketTime::Eighth), [6, 6, 12]);
    let many = Format::new(Depth::L24, 64, 48_000).unwrap();
    let with = |packet_time| PacketizerSettings { format: many, packet_time, ..sender_settings(many) };
    assert_eq!(
        Packetizer::new(with(PacketTime::Millisecond)).err(),
        Some(Error::Datagram { found: 12 + 48 * 192 })
    );
    assert!(Packetizer::new(with(PacketTime::Eighth)).is_ok());
    assert_eq!(Format::new(Depth::L16, 65, 48_000), Err(Error::Channels { found: 65 }));
    assert_eq!(Format::new(Depth::L16, 1, 0), Err(Error::Rate { found: 0 }));
}

fn sender_settings(format: Format) -> PacketizerSettings {
    PacketizerSettings {
        format,
        packet_time: PacketTime::Millisecond,
        payload_type: 97,
        ssrc: 9,
        first_sequence: 0,
        first_timestamp: 0,
    }
}

#[test]
fn a_lost_packet_is_silence_and_time_does_not_slip() {
    let sent = datagrams(&mut sender(stereo(), PacketTime::Millisecond), &block(stereo(), ramp(2 * 48 * 10)));
    let mut receiver = Depacketizer::new(settings(stereo()));
    let mut out = Vec::new();
    for (index, datagram) in sent.iter().enumerate().filter(|(index, _)| ![3, 4].contains(index)) {
        receiver
            .handle_datagram(datagram, Origin::default(), at(index), &mut |block| out.push(block))
            .unwrap();
    }
    assert_eq!(out.len(), 3, "the gap is waited for");
    let due = receiver.poll_timeout().unwrap();
    assert_eq!(due, at(5) + Duration::from_millis(10));
    receiver.handle_timeout(due, &mut |block| out.push(block));
    let samples: usize = out.iter().map(|block| block.audio.frames()).sum();
    assert_eq!(samples, 480);
    let mut next = 0xFFFF_FF00_u32;
    for block in &out {
        assert_eq!(block.timestamp, next);
        let passed = u64::from(block.timestamp.wrapping_sub(0xFFFF_FF00)) * 1_000_000_000 / 48_000;
        assert!(block.audio.captured.as_nanos().abs_diff(999_000_000 + passed) < 1_000, "{block:?}");
        next = next.wrapping_add(block.audio.frames() as u32);
        let is_lost = (144..240).contains(&block.timestamp.wrapping_sub(0xFFFF_FF00));
        assert_eq!(block.is_silence, is_lost);
        assert!(!is_lost || block.audio.samples.iter().all(|sample| *sample == 0.0));
    }
    let counters = receiver.counters();
    assert_eq!((counters.packets.lost, counters.silence, counters.samples), (2, 96, 384));
}

#[test]
fn a_stamp_that_jumps_begins_anew_without_silence() {
    let mut sender = sender(stereo(), PacketTime::Millisecond);
    let mut receiver = Depacketizer::new(settings(stereo()));
    let mut silent = 0;
    for (index, skip) in [0, 48_000, 48_001, u32::MAX - 96].into_iter().enumerate() {
        sender.skip(skip);
        for datagram in datagrams(&mut sender, &block(stereo(), ramp(96))) {
            let mut count =
                |block: Block| silent += u32::from(block.is_silence) * block.audio.frames() as u32;
            receiver.handle_datagram(&datagram, Origin::default(), at(index), &mut count).unwrap();
        }
    }
    assert_eq!((silent, receiver.counters().jumps, receiver.counters().silence), (48_000, 2, 48_000));
}

#[test]
fn stamps_that_leap_make_no_more_silence_than_time_passes() {
    let mut sender = sender(stereo(), PacketTime::Millisecond);
    let mut receiver = Depacketizer::new(settings(stereo()));
    for index in 0..100 {
        sender.skip(20_000);
        for datagram in datagrams(&mut sender, &block(stereo(), ramp(96))) {
            receiver.handle_datagram(&datagram, Origin::default(), at(index), &mut |_| {}).unwrap();
        }
    }
    let counters = receiver.counters();
    assert!(counters.silence <= 48_000 + 4_800 && counters.jumps > 90, "{counters:?}");
}

#[test]
fn what_is_no_sound_is_refused_and_counted() {
    let sent = datagrams(&mut sender(stereo(), PacketTime::Millisecond), &block(stereo(), ramp(2 * 48 * 3)));
    let mut receiver = Depacketizer::new(settings(stereo()));
    let mut samples = 0;
    let mut take = |bytes: &[u8]| {
        receiver
            .handle_datagram(bytes, Origin::default(), at(0), &mut |block| samples += block.audio.frames())
    };
    take(&sent[0]).unwrap();
    assert_eq!(take(&sent[1][..299]), Err(Error::Payload { found: 287, frame: 6 }));
    let mut other = sent[1].clone();
    other[1] = 98;
    assert_eq!(take(&other), Err(Error::PayloadType { found: 98, expected: 97 }));
    assert_eq!(take(&[0x80; 1_461]), Err(Error::Datagram { found: 1_461 }));
    assert!(matches!(take(&[0x40; 100]), Err(Error::Rtp(_))));
    take(&sent[2]).unwrap();
    // The packet of a wrong size keeps its place: nothing is waited for, and its time is silence.
    assert_eq!(samples, 144);
    let counters = receiver.counters();
    assert_eq!((counters.refused, counters.silence, counters.packets.lost), (4, 48, 0));
}

proptest! {
    #[test]
    fn what_is_sent_comes_in_order_whatever_happens_to_packets(
        channels in 1u8..=64, is_l24: bool, is_eighth: bool, rate in prop::sample::select(vec![44_100u32, 48_000, 96_000]),
        blocks in prop::collection::vec(0usize..300, 1..8),
        fates in prop::collection::vec(0u8..10, 600),
    ) {
        let depth = if is_l24 { Depth::L24 } else { Depth::L16 };
        let format = Format::new(depth, channels, rate).unwrap();
        let packet_time = if is_eighth { PacketTime::Eighth } else { PacketTime::Millisecond };
        let made = Packetizer::new(PacketizerSettings { format, packet_time, ..sender_settings(format) });
        prop_assume!(made.is_ok());
        let mut sender = made.unwrap();
        let all = ramp(blocks.iter().sum::<usize>() * usize::from(channels));
        let (mut sent, mut rest) = (Vec::new(), &all[..]);
        for count in blocks {
            let (now, later) = rest.split_at(count * usize::from(channels));
            rest = later;
            sent.extend(datagrams(&mut sender, &block(format, now.to_vec())));
        }
        sender.flush(&mut |bytes| sent.push(bytes.to_vec()));
        prop_assume!(!sent.is_empty());
        let mut receiver = Depacketizer::new(settings(format));
        let mut got: Vec<Block> = Vec::new();
        let mut order: Vec<usize> = (0..sent.len()).collect();
        for (index, fate) in fates.iter().enumerate().take(sent.len()).skip(1) {
            // The first stays the first: the stream begins with it.
            if *fate == 0 && index > 1 { order.swap(index, index - 1); }
        }
        let mut lost = vec![false; sent.len()];
        for (now, index) in order.into_iter().enumerate() {
            lost[index] = fates[index % 600] == 1 && index > 0 && index + 1 < sent.len();
            for _ in 0..1 + u8::from(fates[index % 600] == 2) {
                if !lost[index] {
                    receiver.handle_datagram(&sent[index], Origin::default(), at(now), &mut |block| got.push(block)).unwrap();
                }
            }
        }
        receiver.flush(&mut |block| got.push(block));
        let samples: Vec<f32> = got.iter().flat_map(|block| block.audio.samples.iter().copied()).collect();
        let size = sender.packet_samples() as usize * usize::from(channels);
        prop_assert_eq!(samples.len(), sent.len() * size);
        for (index, sample) in samples.iter().enumerate() {
            let expected = if lost[index / size] { 0.0 } else { all.get(index).copied().unwrap_or(0.0) };
            prop_assert_eq!(*sample, expected);
        }
        let count = lost.iter().filter(|is_lost| **is_lost).count() as u64;
        prop_assert_eq!(receiver.counters().packets.lost, count);
    }

    #[test]
    fn no_bytes_panic(datagrams in prop::collection::vec((any::<u16>(), prop::collection::vec(any::<u8>(), 0..60)), 0..30)) {
        let mut receiver = Depacketizer::new(settings(stereo()));
        let mut now = at(0);
        for (wait, bytes) in datagrams {
            now += Duration::from_micros(u64::from(wait));
            let bytes = [&[0x80, 97][..], &bytes].concat();
            let _ = receiver.handle_datagram(&bytes, Origin::default(), now, &mut |block| assert!(block.audio.frames() > 0));
        }
        receiver.flush(&mut |_| {});
    }
}
