use super::super::mux::{AudioFormat, MuxSettings, Muxer, VIDEO_PID};
use super::super::psi::PAT_PID;
use super::super::{Packet, Pcr};
use super::*;
use crate::Stamps;
use proptest::prelude::*;

/// 320x240, main profile, level 1.3, 25 pictures a second.
const SPS: &[u8] = &[
    0, 0, 0, 1, 0x67, 0x4d, 0x40, 0x0d, 0xec, 0xa0, 0xa0, 0xfd, 0x80, 0x88, 0, 0, 3, 0, 8, 0, 0, 3, 1, 0x90,
    0x78, 0xa1, 0x4c, 0xb0,
];
const PICTURE_TICKS: i64 = 3600;
/// A packet a millisecond.
const SLOT_PACKETS: usize = 40;

type Bytes188 = [u8; PACKET_BYTES];

/// How a stream is made; what is wrong with it, too.
#[derive(Clone, Copy)]
struct Recipe {
    pictures: i64,
    first_dts: i64,
    decode_delay: i64,
    /// A null packet behind each packet of the video.
    spread: bool,
    /// Changes PTS and DTS of a picture by its number.
    stamps: fn(i64, Ticks) -> (Ticks, Ticks),
    /// Whether a picture is there.
    exists: fn(i64) -> bool,
}

const CLEAN: Recipe = Recipe {
    pictures: 60,
    first_dts: 90_000,
    decode_delay: 4_500,
    spread: true,
    stamps: |_, dts| (dts, dts),
    exists: |_| true,
};

fn null_packet() -> Bytes188 {
    let mut packet = [0xff; PACKET_BYTES];
    packet[..4].copy_from_slice(&[0x47, 0x1f, 0xff, 0x10]);
    packet
}

fn pid_of(packet: &Bytes188) -> u16 {
    u16::from_be_bytes([packet[1] & 0x1f, packet[2]])
}

/// A constant rate: in each picture's 40 packets the one with the clock is the third.
fn stream(recipe: Recipe) -> Vec<Bytes188> {
    let decode_delay = Ticks(recipe.decode_delay);
    let settings = MuxSettings { video: Some(Codec::H264), decode_delay, ..MuxSettings::default() };
    let mut muxer = Muxer::new(settings).unwrap();
    let mut out = Vec::new();
    for number in 0..recipe.pictures {
        let mut slot = Vec::new();
        if (recipe.exists)(number) {
            let mut data = vec![0, 0, 0, 1, 9, 0xf0];
            if number % 25 == 0 {
                data.extend_from_slice(SPS);
            }
            data.extend_from_slice(if number % 25 == 0 {
                &[0, 0, 0, 1, 0x65, 0x88]
            } else {
                &[0, 0, 0, 1, 0x41, 0x98]
            });
            data.resize(2000, 0x55);
            let (pts, dts) = (recipe.stamps)(number, Ticks(recipe.first_dts + number * PICTURE_TICKS));
            let random_access = number % 25 == 0;
            let (codec, stamps) = (Codec::H264, Stamps::default());
            let unit = AccessUnit { codec, data: data.into(), pts, dts, random_access, stamps };
            let mut bytes = Vec::new();
            muxer.write(&unit, &mut bytes).unwrap();
            let (tables, video): (Vec<Bytes188>, Vec<Bytes188>) =
                bytes.as_chunks().0.iter().partition(|packet| pid_of(packet) != VIDEO_PID);
            slot.extend(std::iter::repeat_n(null_packet(), 2 - tables.len()));
            slot.extend(tables);
            for packet in video {
                slot.push(packet);
                slot.extend(recipe.spread.then(null_packet));
            }
        } else {
            // As a sender does whose source gives nothing.
            let mut bytes = Vec::new();
            muxer.write_tables(Ticks(recipe.first_dts + number * PICTURE_TICKS), &mut bytes);
            slot.extend_from_slice(bytes.as_chunks().0);
        }
        slot.resize(SLOT_PACKETS, null_packet());
        out.extend(slot);
    }
    out
}

fn check(packets: &[Bytes188]) -> Checker {
    check_bytes(packets.as_flattened(), 1000)
}

fn check_bytes(bytes: &[u8], chop: usize) -> Checker {
    let mut checker = Checker::new(Profile::Iso);
    bytes.chunks(chop).for_each(|part| checker.push(part));
    checker.finish();
    checker
}

fn verdict(checker: &Checker, rule: Rule) -> Verdict {
    checker.verdicts()[rule as usize]
}

fn broken(checker: &Checker) -> Vec<Rule> {
    checker.verdicts().iter().filter(|verdict| verdict.broken > 0).map(|verdict| verdict.rule).collect()
}

/// Those packets of the video in which the clock stands.
fn clocks(packets: &mut [Bytes188]) -> Vec<&mut Bytes188> {
    packets.iter_mut().filter(|packet| Packet::parse(packet).unwrap().pcr().is_some()).collect()
}

fn set_clock(packet: &mut Bytes188, change: impl Fn(u64) -> u64) {
    let ticks = Packet::parse(packet).unwrap().pcr().unwrap().ticks();
    packet[6..12].copy_from_slice(&Pcr::new(change(ticks)).write());
}

#[test]
fn a_clean_stream_keeps_every_rule_over_the_wrap_too() {
    for first_dts in [90_000, Ticks::WRAP - 30 * PICTURE_TICKS, Ticks::WRAP - 30 * PICTURE_TICKS - 4_500] {
        let checker = check(&stream(Recipe { first_dts, ..CLEAN }));
        assert_eq!(broken(&checker), [], "from {first_dts}: {:?}", checker.verdicts());
        assert_eq!(checker.is_constant_rate(), Some(true));
        for verdict in checker.verdicts() {
            assert!(verdict.checked > 0 || verdict.rule == Rule::HeldLong, "{verdict:?}");
        }
        let interval = verdict(&checker, Rule::PcrInterval);
        assert_eq!((interval.checked, interval.worst), (59, Some(40.0)));
        // The last picture's end has no time: the clock does not come behind it.
        assert!(checker.buffers().units >= 57, "{:?}", checker.buffers());
        // 11 packets of one each two milliseconds, decoded 50 ms after the first.
        let held = verdict(&checker, Rule::HeldLongH264).worst.unwrap();
        assert!((held - 50.0).abs() < 1e-6, "{held}");
    }
}

#[test]
fn broken_packets_are_told() {
    let mut packets = stream(CLEAN);
    packets[100][1] |= 0x80;
    assert_eq!(verdict(&check(&packets), Rule::TransportError).first_packet, Some(100));

    let mut packets = stream(CLEAN);
    let lost = packets.iter().rposition(|packet| pid_of(packet) == VIDEO_PID).unwrap() - 400;
    let lost = (lost..).find(|&at| pid_of(&packets[at]) == VIDEO_PID && packets[at][1] & 0x40 == 0).unwrap();
    packets[lost] = null_packet();
    let checker = check(&packets);
    assert_eq!(broken(&checker), [Rule::Continuity]);

    let packets = stream(CLEAN);
    let (head, tail) = packets.as_flattened().split_at(188 * 700);
    let checker = check_bytes(&[head, &[1, 2, 3], tail].concat(), 1000);
    assert!(broken(&checker).contains(&Rule::Sync));
}

#[test]
fn tables_and_clock_must_come_often() {
    let mut packets = stream(CLEAN);
    for packet in &mut packets[400..1000] {
        if [PAT_PID, 0x1000].contains(&pid_of(packet)) {
            *packet = null_packet();
        }
    }
    let checker = check(&packets);
    for rule in [Rule::PatInterval, Rule::PmtInterval] {
        let verdict = verdict(&checker, rule);
        assert_eq!(verdict.broken, 1, "{verdict:?}");
        assert!(verdict.worst.unwrap() > 600.0);
    }

    let mut packets = stream(CLEAN);
    for packet in &mut clocks(&mut packets)[20..23] {
        packet[5] &= !0x10;
    }
    let interval = verdict(&check(&packets), Rule::PcrInterval);
    assert_eq!((interval.broken, interval.worst), (1, Some(160.0)));
    let mut strict = Checker::new(Profile::Dvb);
    strict.push(stream(CLEAN).as_flattened());
    assert_eq!(verdict(&strict, Rule::PcrInterval).broken, 0, "40 ms are right");
}

#[test]
fn the_clock_must_be_exact_and_not_jump() {
    let mut packets = stream(CLEAN);
    set_clock(clocks(&mut packets)[30], |ticks| ticks + 17);
    let checker = check(&packets);
    assert_eq!(broken(&checker), [Rule::PcrAccuracy]);
    let accuracy = verdict(&checker, Rule::PcrAccuracy);
    assert!((550.0..650.0).contains(&accuracy.worst.unwrap()), "{accuracy:?}");

    let jump = |announce: bool| {
        let mut packets = stream(CLEAN);
        for (number, packet) in clocks(&mut packets).into_iter().enumerate().skip(30) {
            set_clock(packet, |ticks| ticks + 20 * Pcr::RATE);
            packet[5] |= if announce && number == 30 { 0x80 } else { 0 };
        }
        verdict(&check(&packets), Rule::ClockJump)
    };
    assert_eq!((jump(false).broken, jump(true).broken), (1, 0));
}

#[test]
fn stamps_must_come_often_and_in_order() {
    let gap = check(&stream(Recipe { exists: |number| !(20..40).contains(&number), ..CLEAN }));
    assert_eq!(verdict(&gap, Rule::PtsInterval).broken, 1);
    let back = |number: i64, dts: Ticks| {
        let dts = if number == 30 { dts - Ticks(2 * PICTURE_TICKS) } else { dts };
        (dts, dts)
    };
    assert_eq!(verdict(&check(&stream(Recipe { stamps: back, ..CLEAN })), Rule::DtsOrder).broken, 1);
    let early = |number: i64, dts: Ticks| (if number == 30 { dts - Ticks(90) } else { dts }, dts);
    let verdict = verdict(&check(&stream(Recipe { stamps: early, ..CLEAN })), Rule::PtsBeforeDts);
    assert_eq!((verdict.broken, verdict.worst), (1, Some(1.0)));
}

#[test]
fn what_is_decoded_before_it_has_come_starves_the_buffer() {
    let checker = check(&stream(Recipe { decode_delay: 900, ..CLEAN }));
    assert_eq!(broken(&checker), [Rule::Late, Rule::ElementaryBuffer]);
    let late = verdict(&checker, Rule::Late);
    // The eleventh packet ends at 21 ms, ten are allowed.
    assert!((10.9..=13.1).contains(&late.worst.unwrap()), "{late:?}");
    assert!(late.broken >= 58);
    // A packet leaves the transport buffer in 1.63 ms: at 21.63 ms all of them have.
    let just = check(&stream(Recipe { decode_delay: 24 * 90, ..CLEAN }));
    assert_eq!(broken(&just), []);
}

#[test]
fn what_waits_too_long_overruns_the_buffers() {
    // EB holds 300,000 bytes: six seconds of these.
    let checker = check(&stream(Recipe { pictures: 300, decode_delay: 9 * 90_000, ..CLEAN }));
    assert_eq!(broken(&checker), [Rule::MultiplexBuffer]);
    let checker = check(&stream(Recipe { decode_delay: 11 * 90_000, ..CLEAN }));
    assert_eq!(broken(&checker), [Rule::HeldLongH264]);
}

#[test]
fn packets_that_come_too_fast_overrun_the_transport_buffer() {
    let checker = check(&stream(Recipe { spread: false, ..CLEAN }));
    assert_eq!(broken(&checker), [Rule::TransportBuffer]);
    let verdict = verdict(&checker, Rule::TransportBuffer);
    assert!(verdict.broken >= 57 && verdict.worst.unwrap() > 100.0, "{verdict:?}");
}

#[test]
fn sound_may_wait_a_second() {
    for (delay, is_broken) in [(90_000, false), (91_000, true)] {
        let audio = Some(AudioFormat { codec: Codec::MpegAudio, channels: 2, language: None, he_aac: None });
        let settings = MuxSettings { audio, decode_delay: Ticks(delay), ..MuxSettings::default() };
        let mut muxer = Muxer::new(settings).unwrap();
        let mut bytes = Vec::new();
        // Layer II, 96 kbit/s, 48 kHz: 24 ms in 288 bytes.
        let frame = [&[0xff, 0xfd, 0x64, 0][..], &[0x55; 284]].concat();
        for number in 0..50 {
            let dts = Ticks(number * 2160);
            let (codec, data, stamps) = (Codec::MpegAudio, frame.clone().into(), Stamps::default());
            let unit = AccessUnit { codec, data, pts: dts, dts, random_access: true, stamps };
            muxer.write(&unit, &mut bytes).unwrap();
        }
        let checker = check_bytes(&bytes, 188);
        let expected: &[Rule] = if is_broken { &[Rule::HeldLong] } else { &[] };
        assert_eq!(broken(&checker), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn chops_do_not_matter(chop in 1usize..3000) {
        let packets = stream(CLEAN);
        let chopped = check_bytes(packets.as_flattened(), chop);
        prop_assert_eq!(chopped.verdicts(), check(&packets).verdicts());
    }

    #[test]
    fn damage_does_no_harm(
        damage in proptest::collection::vec((0usize..2400 * 188, any::<u8>()), 0..200),
        gone in proptest::collection::vec(0usize..2400, 0..30),
    ) {
        let mut packets = stream(CLEAN);
        for at in gone {
            packets[at] = null_packet();
        }
        let bytes = packets.as_flattened_mut();
        for (at, value) in damage {
            bytes[at] = value;
        }
        let checker = check_bytes(bytes, 5000);
        prop_assert!(checker.verdicts().iter().all(|verdict| verdict.broken <= verdict.checked || verdict.checked == 0
            || matches!(verdict.rule, Rule::TransportBuffer | Rule::TransportEmpties | Rule::MultiplexBuffer)));
        prop_assert!(checker.verdicts().iter().all(|verdict| verdict.worst.is_none_or(f64::is_finite)));
    }
}
