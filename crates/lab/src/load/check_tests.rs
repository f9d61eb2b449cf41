use super::super::stamped::{Shape, Source};
use super::*;
use glassline_media::FrameRate;
use glassline_test_support::numbered;
use proptest::prelude::*;

type Packets = Vec<[u8; PACKET_BYTES]>;

fn stamped(frames: u64) -> Packets {
    let (mut source, mut bytes) = (Source::default(), Vec::new());
    for frame in 0..frames {
        source.frame(Time::from_millis(frame * 20 + 5), &mut bytes);
    }
    bytes.as_chunks().0.to_vec()
}

/// A stream without marks on the same PID.
fn plain(frames: u64) -> Packets {
    let shape = numbered::Shape { packets: 30, group: 25 };
    let bytes: Vec<u8> = (0..frames).flat_map(|number| shape.picture(number)).collect();
    bytes.as_chunks().0.to_vec()
}

fn verdict(packets: &[[u8; PACKET_BYTES]]) -> Verdict {
    let mut tracker = Tracker::new();
    for bytes in packets.concat().chunks(1000) {
        tracker.push(bytes, &mut |_| {});
    }
    assert_eq!(tracker.final_body(), Body::Transport);
    tracker.checker().verdict()
}

/// The same without the count of packets.
fn found(packets: &[[u8; PACKET_BYTES]]) -> Verdict {
    Verdict { packets: 0, ..verdict(packets) }
}

fn announcement(counter: u8) -> [u8; PACKET_BYTES] {
    glassline_media::container::ts::discontinuity_packet(VIDEO_PID, counter)
}

#[test]
fn a_whole_stream_is_right_and_its_landmarks_carry_the_time() {
    for packets in [stamped(102), plain(102)] {
        assert_eq!(verdict(&packets), Verdict { packets: packets.len() as u64, ..Verdict::default() });
    }
    let (mut checker, mut landmarks) = (Checker::new(), Vec::new());
    for packet in &stamped(102) {
        checker.check(packet, &mut |landmark| landmarks.push(landmark));
    }
    let keys = landmarks.extract_if(.., |landmark| *landmark == Landmark::KeyFrame).count();
    let picture = landmarks.iter().position(|landmark| *landmark == Landmark::Picture);
    assert_eq!(picture, Some(2), "behind the first frame's last packet");
    landmarks.retain(|landmark| *landmark != Landmark::Picture);
    assert_eq!((keys, landmarks.len(), checker.is_stamped()), (3, 204, true));
    let time = Time::from_millis(25);
    assert_eq!(landmarks[2..4], [Landmark::First(time), Landmark::Last(time)]);
}

#[test]
fn every_kind_of_damage_to_a_stamped_stream_is_counted() {
    let packets = stamped(60);
    let missing = [&packets[..100], &packets[130..]].concat();
    assert_eq!(found(&missing), Verdict { missing: 30, ..Verdict::default() });
    let repeated = [&packets[..100], &packets[99..]].concat();
    assert_eq!(found(&repeated), Verdict { repeated: 1, ..Verdict::default() });
    let mut torn = packets.clone();
    torn[50][120..].copy_from_slice(&packets[1000][120..]);
    torn[60][3] ^= 1;
    torn[80][2] ^= 7;
    torn[90][150] ^= 0x10;
    torn[0][12] ^= 1;
    // What changed its PID is missing on its own.
    assert_eq!(found(&torn), Verdict { wrong: 5, missing: 1, ..Verdict::default() });
    let announced = [&packets[..100], &[announcement(1)], &packets[130..]].concat();
    assert_eq!(found(&announced), Verdict { skipped: 30, announced: 1, misplaced: 1, ..Verdict::default() });
}

#[test]
fn an_announced_jump_belongs_to_a_key_frame_s_first_packet() {
    // The second group's tables may be left out, for no third follow.
    let packets = stamped(90);
    let key =
        (3..packets.len()).find(|&at| packets[at][1] & 0x5F == 0x41 && packets[at][5] & 0x40 != 0).unwrap();
    for (to, misplaced) in [(key, 0), (key + 1, 1), (key - 40, 1), (key + 63 * 4, 1)] {
        let jump = [&packets[..100], &[announcement(1)], &packets[to..]].concat();
        let verdict = found(&jump);
        assert_eq!((verdict.errors(), verdict.announced, verdict.misplaced), (0, 1, misplaced), "to {to}");
    }
}

#[test]
fn a_first_picture_is_a_whole_key_frame_behind_its_tables() {
    let packets = stamped(120);
    let picture = |packets: &[[u8; PACKET_BYTES]]| {
        let mut checker = Checker::new();
        packets.iter().position(|packet| {
            let mut seen = false;
            checker.check(packet, &mut |landmark| seen |= landmark == Landmark::Picture);
            seen
        })
    };
    let whole = 2 + 63 * 4;
    assert_eq!(picture(&packets), Some(whole - 1));
    // Without tables, from the middle of the key frame, and with a hole in it: the next one.
    let group = whole + 63 * 49;
    assert_eq!(picture(&packets[2..]), Some(group + whole - 1 - 2));
    assert_eq!(picture(&packets[50..]), Some(group + whole - 1 - 50));
    let holed = [&packets[..50], &packets[51..]].concat();
    assert_eq!(picture(&holed), Some(group + whole - 1 - 1));
}

#[test]
fn damage_before_the_first_whole_packet_counts_too() {
    let mut packets = stamped(10);
    for packet in &mut packets[2..6] {
        packet[100] = 0;
    }
    assert_eq!(found(&packets), Verdict { wrong: 4, ..Verdict::default() });
}

#[test]
fn a_source_that_begins_anew_may_do_so_announced() {
    let mut again = Source::new(Shape::new(1_000_000, FrameRate::new(25, 1).unwrap()).unwrap());
    let mut later = Vec::new();
    again.frame(Time::from_millis(10_000), &mut later);
    let later: Packets = later.as_chunks().0.to_vec();
    let before = stamped(3);
    let announced = [&before, &[announcement(3)][..], &later[2..]].concat();
    assert_eq!(found(&announced), Verdict { announced: 1, ..Verdict::default() });
    assert_eq!(found(&[&before, &later[2..]].concat()).repeated, 1);
}

#[test]
fn damage_to_any_other_stream_shows_in_its_counters() {
    let packets = plain(60);
    let missing = [&packets[..100], &packets[105..]].concat();
    assert_eq!(found(&missing), Verdict { missing: 5, ..Verdict::default() });
    let sixteen = [&packets[..100], &packets[115..]].concat();
    assert_eq!(found(&sixteen), Verdict { missing: 15, ..Verdict::default() });
    let repeated = [&packets[..100], &packets[99..]].concat();
    assert_eq!(found(&repeated), Verdict { repeated: 1, ..Verdict::default() });
    let mut damaged = packets.clone();
    damaged[40][1] |= 0x80;
    assert_eq!(found(&damaged).wrong, 1, "the error bit");
    let last = packets[99][3] & 0x0F;
    let announced = [&packets[..100], &[announcement(packets[104][3] & 0x0F)][..], &packets[105..]].concat();
    assert_eq!(found(&announced), Verdict { announced: 1, ..Verdict::default() }, "last was {last}");
}

#[test]
fn the_first_key_frame_is_known_by_its_slices_too() {
    // The indicator is taken out, and with it the mark: any stream.
    let mut packets = stamped(60);
    packets.iter_mut().filter(|packet| packet[3] & 0x20 != 0).for_each(|packet| packet[5] &= !0x40);
    let keys = |mut tracker: Tracker| {
        let mut keys = 0;
        tracker.push(&packets.concat(), &mut |landmark| keys += u64::from(landmark == Landmark::KeyFrame));
        keys
    };
    assert_eq!((keys(Tracker::new()), keys(Tracker::with_scanner())), (0, 1));
}

#[test]
fn lost_sync_is_wrong_but_a_late_start_is_not() {
    let bytes = plain(60).concat();
    let mut tracker = Tracker::new();
    tracker.push(&bytes[77..], &mut |_| {});
    assert_eq!((tracker.body(), tracker.checker().verdict().errors()), (Body::Transport, 0));
    let mut tracker = Tracker::new();
    let torn = [&bytes[..188 * 50 + 60], &bytes[188 * 51 + 90..]].concat();
    for part in torn.chunks(4096) {
        tracker.push(part, &mut |_| {});
    }
    let verdict = tracker.checker().verdict();
    assert!(verdict.wrong >= 1 && tracker.body() == Body::Transport, "{verdict:?}");
}

#[test]
fn what_is_no_transport_stream_is_said_to_be_none() {
    let page = "GGGGGGGGG <html>GLASS</html>".repeat(1000);
    let mut tracker = Tracker::new();
    tracker.push(page.as_bytes(), &mut |_| {});
    assert_eq!(tracker.body(), Body::Other);
    let mut short = Tracker::new();
    short.push(b"Not Found", &mut |_| {});
    assert_eq!((short.body(), short.final_body()), (Body::Undecided, Body::Other));
}

proptest! {
    #[test]
    fn chops_do_not_matter(chop in 1usize..3000) {
        let bytes = stamped(12).concat();
        let mut tracker = Tracker::new();
        bytes.chunks(chop).for_each(|part| tracker.push(part, &mut |_| {}));
        let expected = Verdict { packets: bytes.len() as u64 / 188, ..Verdict::default() };
        prop_assert_eq!(tracker.checker().verdict(), expected);
    }

    #[test]
    fn nothing_panics(mut bytes in proptest::collection::vec(any::<u8>(), 188 * 20..188 * 30), chop in 1usize..900) {
        for packet in bytes.chunks_mut(188) {
            packet[0] = SYNC_BYTE;
            // Mostly on few PIDs, tables among them.
            packet.iter_mut().skip(1).take(2).for_each(|byte| *byte &= 0x41);
        }
        let mut tracker = Tracker::new();
        bytes.chunks(chop).for_each(|part| tracker.push(part, &mut |_| {}));
        prop_assert_eq!(tracker.final_body(), Body::Transport);
        prop_assert!(tracker.checker().verdict().packets >= 20);
    }
}
