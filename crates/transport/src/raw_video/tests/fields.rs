//! Frames in two fields or segments, as different senders number and stamp them, and packets without samples.

use super::*;

/// Ten lines, in packets of a third of a line.
fn fields(scan: Scan) -> Format {
    format(Chroma::Yuv422, 8, (48, 10), scan)
}

/// Each line of a frame is of one value, which tells the frame and the line.
fn known_lines(format: &Format, number: u32) -> Vec<u8> {
    let lines = format.frame_bytes() / format.line_bytes();
    (0..lines).flat_map(|line| vec![number as u8 * 10 + line as u8; format.line_bytes()]).collect()
}

/// Frames 0 to 24 and their datagrams. Fields are so many ticks apart.
fn stream(
    format: Format,
    lines: LineNumbers,
    apart: u32,
    packing: Packing,
) -> (Vec<Vec<u8>>, Vec<Vec<Vec<u8>>>) {
    let mut packetizer = packetizer(format, 60, packing, 65_400);
    let frames: Vec<Vec<u8>> = (0..24).map(|number| known_lines(&format, number)).collect();
    let datagrams = frames.iter().zip(0u32..).map(|(frame, number)| {
        let timestamp = (number * 3_600).wrapping_sub(9_000);
        let datagram = |packet: OutPacket<'_>| {
            let mut bytes = packet.head.to_vec();
            if lines == LineNumbers::OfFrame {
                for segment in bytes[14..].chunks_mut(6) {
                    let of_field = u16::from_be_bytes([segment[2] & 0x7F, segment[3]]);
                    let of_frame = 2 * of_field + u16::from(segment[2] >> 7);
                    segment[2] = segment[2] & 0x80 | (of_frame >> 8) as u8;
                    segment[3] = of_frame as u8;
                }
            }
            packet.samples.iter().for_each(|range| bytes.extend(&frame[range.clone()]));
            bytes
        };
        packetizer.frame([timestamp, timestamp.wrapping_add(apart)]).map(datagram).collect()
    });
    let datagrams = datagrams.collect();
    (frames, datagrams)
}

/// A packet behind `before` that says that the frame has ended, without samples.
fn closing(before: &[u8], line: u16) -> Vec<u8> {
    let mut bytes = before[..12].to_vec();
    let sequence = u16::from_be_bytes([before[2], before[3]]);
    let extended = u16::from_be_bytes([before[12], before[13]]);
    let next = (u32::from(extended) << 16 | u32::from(sequence)) + 1;
    bytes[1] |= 0x80;
    bytes[2..4].copy_from_slice(&(next as u16).to_be_bytes());
    bytes.extend(((next >> 16) as u16).to_be_bytes());
    bytes.extend(Segment { length: 0, field: before[16] & 0x80 != 0, line, offset: 0 }.write(false));
    bytes
}

#[test]
fn fields_make_the_right_picture_however_lines_are_counted_and_stamps_are_given() {
    let scans = [(Scan::Interlaced, 1_800), (Scan::Interlaced, 0), (Scan::Segmented, 0)];
    for ((scan, apart), lines, packing, collected) in scans.into_iter().flat_map(|scan| {
        [LineNumbers::OfField, LineNumbers::OfFrame].into_iter().flat_map(move |lines| {
            [(Packing::General, 1), (Packing::General, 8), (Packing::Block, 4)]
                .map(|(packing, collected)| (scan, lines, packing, collected))
        })
    }) {
        let format = fields(scan);
        let (frames, datagrams) = stream(format, lines, apart, packing);
        for takes_aim in [true, false] {
            let what = format!("{scan:?}, {apart} ticks apart, {lines:?}, {packing:?}, {collected}");
            let mut receiver = Receiver::new(format, 1, 24);
            receiver.house.takes_aim = takes_aim;
            receiver.receive_all(0, &datagrams.concat(), collected);
            let counters = receiver.finish();
            assert_eq!(
                (counters.frames, counters.lost, counters.refused),
                (24, 0, 0),
                "{what}: {counters:?}"
            );
            assert_eq!((counters.incomplete, counters.partial, counters.late), (0, 0, 0), "{what}");
            assert_eq!(counters.in_place > 0, takes_aim, "{what}");
            assert!(receiver.out.iter().map(|(bytes, ..)| bytes).eq(&frames), "{what}");
        }
    }
}

#[test]
fn who_joins_in_the_middle_of_a_frame_or_field_has_the_next_frame_right() {
    for (apart, lines) in [
        (1_800, LineNumbers::OfField),
        (1_800, LineNumbers::OfFrame),
        (0, LineNumbers::OfField),
        (0, LineNumbers::OfFrame),
    ] {
        let format = fields(Scan::Interlaced);
        let (frames, datagrams) = stream(format, lines, apart, Packing::General);
        for missed in 1..datagrams[0].len() {
            let mut receiver = Receiver::new(format, 1, 24);
            receiver.receive_all(0, &datagrams.concat()[missed..], 3);
            let counters = receiver.finish();
            let what = format!("{apart} ticks apart, {lines:?}, {missed} missed: {counters:?}");
            assert_eq!((counters.partial, counters.frames, counters.lost), (1, 23, 0), "{what}");
            assert!(receiver.out[1..].iter().map(|(bytes, ..)| bytes).eq(&frames[1..]), "{what}");
        }
    }
}

#[test]
fn a_field_that_is_lost_is_not_taken_from_another_frame() {
    for apart in [0, 1_800] {
        let format = fields(Scan::Interlaced);
        let (frames, mut datagrams) = stream(format, LineNumbers::OfField, apart, Packing::General);
        let half = datagrams[0].len() / 2;
        // The second field of one frame, the first one of the next.
        datagrams[5].truncate(half);
        datagrams[6].drain(..half);
        let mut receiver = Receiver::new(format, 1, 24);
        receiver.receive_all(0, &datagrams.concat(), 3);
        let counters = receiver.finish();
        assert_eq!((counters.frames, counters.lost), (22, 2 * half as u64), "{apart}: {counters:?}");
        assert_eq!(counters.incomplete, 2, "{apart}: {counters:?}");
        for (number, frame) in frames.iter().enumerate().filter(|(number, _)| ![5, 6].contains(number)) {
            assert!(receiver.out.iter().any(|(bytes, ..)| bytes == frame), "{apart}: {number}");
        }
        // What is there of the two is theirs.
        for (out, expected) in [(&receiver.out[5], &frames[5]), (&receiver.out[6], &frames[6])] {
            let (mut found, mut expected) = (out.0.clone(), expected.clone());
            for hole in &out.2 {
                found[hole.clone()].fill(0xEE);
                expected[hole.clone()].fill(0xEE);
            }
            assert!(found == expected, "{apart}");
        }
    }
}

#[test]
fn a_sender_that_is_replaced_by_one_that_counts_otherwise_is_followed() {
    let format = fields(Scan::Interlaced);
    let (_, first) = stream(format, LineNumbers::OfField, 1_800, Packing::General);
    let (frames, second) = stream(format, LineNumbers::OfFrame, 0, Packing::General);
    let mut receiver = Receiver::new(format, 1, 24);
    receiver.receive_all(0, &first[..12].concat(), 3);
    receiver.now += Duration::from_secs(2);
    receiver.receive_all(0, &second.concat(), 3);
    let counters = receiver.finish();
    assert!(counters.restarts > 0 && counters.frames >= 12 + 22, "{counters:?}");
    for frame in &frames[2..] {
        assert!(receiver.out.iter().any(|(bytes, ..)| bytes == frame));
    }
    // Some packets that count otherwise, of the same source, change nothing.
    let mut receiver = Receiver::new(format, 1, 24);
    receiver.receive_all(0, &first[..6].concat(), 3);
    receiver.receive_all(0, &second[6][12..15], 1);
    receiver.receive_all(0, &first[6..].concat(), 3);
    let counters = receiver.finish();
    assert_eq!((counters.restarts, counters.frames, counters.refused), (0, 24, 3), "{counters:?}");
}

#[test]
fn what_is_kept_until_lines_are_known_is_bounded() {
    let format = format(Chroma::Yuv422, 8, (48, 4_000), Scan::Interlaced);
    let mut packetizer = packetizer(format, 60, Packing::General, 5);
    let (frames, datagrams) = sent(&mut packetizer, &format, 2, 0);
    let mut receiver = Receiver::new(format, 1, 24);
    // A line again and again that fits both ways.
    let same = vec![datagrams[0][0].clone(); 20_000];
    receiver.receive_all(0, &same, 4);
    receiver.receive_all(0, &datagrams[1], 4);
    let counters = receiver.finish();
    assert_eq!((counters.duplicates, counters.frames), (19_999, 1), "{counters:?}");
    assert!(receiver.out[1].0 == frames[1]);
}

#[test]
fn packets_without_samples_that_close_a_frame_are_no_loss() {
    for (scan, paths) in [(Scan::Progressive, 1), (Scan::Progressive, 2), (Scan::Interlaced, 1)] {
        let format = fields(scan);
        let mut sequence = 65_500;
        let (mut frames, mut datagrams) = (Vec::new(), Vec::new());
        for number in 0..20 {
            let mut packetizer = packetizer(format, 60, Packing::General, sequence);
            frames.push(known_lines(&format, number));
            let frame = &frames[number as usize];
            for packet in packetizer.frame([number * 3_600, number * 3_600 + 1_800]) {
                let mut bytes = packet.head.to_vec();
                packet.samples.iter().for_each(|range| bytes.extend(&frame[range.clone()]));
                bytes[1] &= 0x7F;
                datagrams.push(bytes);
            }
            // One, or two, at a line that there is, or behind the last.
            for count in 0..1 + number % 2 {
                datagrams.push(closing(datagrams.last().unwrap(), if count == 0 { 0 } else { 1_080 }));
            }
            sequence += packetizer.layout().len() as u32 + 1 + number % 2;
        }
        for is_lost in [false, true] {
            let mut datagrams = datagrams.clone();
            if is_lost {
                // In the middle of the seventh frame.
                datagrams.remove(6 * 30 + 9 + 15);
            }
            let mut receiver = Receiver::new(format, paths, 24);
            for part in datagrams.chunks(7) {
                (0..paths).for_each(|path| receiver.receive_all(path, part, 3));
            }
            let counters = receiver.finish();
            let lost = u64::from(is_lost);
            let what = format!("{scan:?}, {paths}: {counters:?}");
            assert_eq!(
                (counters.frames, counters.incomplete, counters.lost),
                (20 - lost, lost, lost),
                "{what}"
            );
            assert_eq!((counters.refused, counters.restarts, counters.reordered), (0, 0, 0), "{what}");
            assert_eq!(counters.closing, 30, "{what}");
            let is_right =
                |((bytes, .., holes), frame): (&Out, &Vec<u8>)| !holes.is_empty() || bytes == frame;
            assert!(receiver.out.iter().zip(&frames).all(is_right), "{what}");
            if paths == 1 {
                assert_eq!((counters.duplicates, counters.late), (0, 0), "{what}");
            }
        }
    }
}
