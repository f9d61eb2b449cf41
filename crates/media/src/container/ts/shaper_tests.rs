//! Whole streams of a constant rate, made by the muxer and held against the rules.

use super::super::conformance::{Checker, Profile, Rule, Verdict};
use super::super::constant_rate::{Load, SoundLoad};
use super::super::{AudioFormat, Demuxer, Event, MuxSettings, Muxer, UnitHead};
use super::*;
use crate::access_unit::{AccessUnit, Codec};
use crate::stamps::Stamps;
use crate::time::{FrameRate, Time};
use proptest::prelude::*;

/// 320x240, main profile, level 1.3: 921.6 kbit/s leave the transport buffer.
const SPS: &[u8] = &[
    0, 0, 0, 1, 0x67, 0x4d, 0x40, 0x0d, 0xec, 0xa0, 0xa0, 0xfd, 0x80, 0x88, 0, 0, 3, 0, 8, 0, 0, 3, 1, 0x90,
    0x78, 0xa1, 0x4c, 0xb0,
];

/// What is made.
#[derive(Clone, Copy)]
struct Recipe {
    load: Load,
    /// More than the load needs.
    surplus_bps: u64,
    pictures: u64,
    /// Bytes of a picture by its number and those that the VBV has for it.
    bytes: fn(u64, f64) -> f64,
    /// When a picture is captured: nanoseconds to its nominal time, by its number.
    late_ns: fn(u64) -> i64,
    slices: usize,
    first: Time,
}

const OPUS: SoundLoad =
    SoundLoad { unit_bytes: 96, unit_time: Duration::from_millis(5), lag: Duration::from_micros(7_500) };

fn recipe(video_bps: u64, vbv_ms: u64, rate: (u32, u32), sound: Option<SoundLoad>) -> Recipe {
    let load = Load {
        video_bps,
        vbv: Duration::from_millis(vbv_ms),
        frame_rate: FrameRate::new(rate.0, rate.1).unwrap(),
        key_interval: Duration::from_secs(1),
        sound,
    };
    Recipe {
        load,
        surplus_bps: 0,
        pictures: 400,
        bytes: |_, mean| mean,
        late_ns: |_| 0,
        slices: 1,
        first: Time::from_millis(5_000),
    }
}

/// Bytes of a second of nulls and a picture of all the rest, again and again.
fn bursts(number: u64, mean: f64) -> f64 {
    if number.is_multiple_of(10) { mean * 9.1 } else { mean * 0.1 }
}

struct Made {
    bytes: Vec<u8>,
    /// Packets by picture.
    captured: Vec<Time>,
    muxer: Muxer,
}

fn muxer(recipe: &Recipe) -> Muxer {
    let Recipe { load, surplus_bps, .. } = *recipe;
    let mux_rate_bps = load.mux_rate_bps() + surplus_bps;
    let audio =
        load.sound.map(|_| AudioFormat { codec: Codec::Opus, channels: 2, language: None, he_aac: None });
    Muxer::new(MuxSettings {
        video: Some(Codec::H264),
        audio,
        decode_delay: load.decode_delay(mux_rate_bps).max(MuxSettings::default().decode_delay),
        constant_rate: Some(ConstantRate { mux_rate_bps, frame_rate: load.frame_rate }),
        ..MuxSettings::default()
    })
    .unwrap()
}

/// A live stream: sound comes when its codec has it, each picture some milliseconds after its capture.
fn make(recipe: &Recipe) -> Made {
    let Recipe { load, pictures, .. } = *recipe;
    let mut muxer = muxer(recipe);
    let (mut out, mut captured) = (Vec::new(), Vec::new());
    let period = load.frame_rate.time_of(1).as_nanos() as f64 / 1e9;
    let (mean, size) =
        (load.video_bps as f64 / 8.0 * period, load.video_bps as f64 / 8.0 * load.vbv.as_secs_f64());
    // The encoder's VBV: no picture takes more than is in it.
    let mut fullness = size * 0.9;
    let mut sound_at = recipe.first.as_nanos();
    for number in 0..pictures {
        let nominal = recipe.first + load.frame_rate.time_of(number);
        let at = Time::from_nanos(nominal.as_nanos().saturating_add_signed((recipe.late_ns)(number)));
        captured.push(at);
        while let Some(sound) = load.sound
            && sound_at + sound.lag.as_nanos() as u64 <= at.as_nanos() + 5_000_000
        {
            let stamp = Ticks::from_time(Time::from_nanos(sound_at));
            let unit = AccessUnit {
                codec: Codec::Opus,
                data: vec![0xfc; sound.unit_bytes].into(),
                pts: stamp,
                dts: stamp,
                random_access: true,
                stamps: Stamps::default(),
            };
            muxer.write(&unit, &mut out).unwrap();
            sound_at += sound.unit_time.as_nanos() as u64;
        }
        let bytes = (recipe.bytes)(number, mean).min(fullness).max(60.0) as usize;
        fullness = (fullness - bytes as f64 + mean).min(size);
        let key = number.is_multiple_of(25);
        let mut data = vec![0, 0, 0, 1, 9, 0xf0];
        if key {
            data.extend_from_slice(SPS);
        }
        data.extend_from_slice(if key { &[0, 0, 0, 1, 0x65, 0x88] } else { &[0, 0, 0, 1, 0x41, 0x98] });
        data.resize(bytes.max(data.len()), 0x55);
        let (pts, random_access) = (Ticks::from_time(at), key);
        if recipe.slices == 1 {
            let stamps = Stamps::captured_at(at);
            let unit =
                AccessUnit { codec: Codec::H264, data: data.into(), pts, dts: pts, random_access, stamps };
            muxer.write(&unit, &mut out).unwrap();
        } else {
            muxer.begin(&UnitHead { pts, dts: pts, random_access, captured: Some(at) }, &mut out).unwrap();
            let (head, rest) = data.split_at(data.len().min(60));
            muxer.slice(head, &mut out);
            rest.chunks(rest.len().div_ceil(recipe.slices).max(1))
                .for_each(|part| muxer.slice(part, &mut out));
            muxer.end(&mut out);
        }
    }
    Made { bytes: out, captured, muxer }
}

fn whole(mut made: Made) -> (Vec<u8>, Vec<Time>) {
    made.muxer.finish(&mut made.bytes);
    (made.bytes, made.captured)
}

fn check(bytes: &[u8]) -> Checker {
    let mut checker = Checker::new(Profile::Dvb);
    checker.push(bytes);
    checker.finish();
    checker
}

fn broken(checker: &Checker) -> Vec<Verdict> {
    checker.verdicts().into_iter().filter(|verdict| verdict.broken > 0).collect()
}

/// Packet number and clock, over the wrap.
fn clocks(bytes: &[u8]) -> Vec<(u64, u64)> {
    let mut at = None::<(Pcr, u64)>;
    let numbered = (0..).zip(packets(bytes));
    numbered
        .filter_map(|(number, packet)| Some((number, Packet::parse(packet).unwrap().pcr()?)))
        .map(|(number, pcr)| {
            let ticks = at.map_or(pcr.ticks(), |(last, ticks)| ticks + pcr.since(last));
            at = Some((pcr, ticks));
            (number, ticks)
        })
        .collect()
}

/// Every clock lies on one line through the first, to a tick.
fn assert_linear(bytes: &[u8], rate: u64) {
    let clocks = clocks(bytes);
    let (first, start) = clocks[0];
    for &(number, ticks) in &clocks {
        let exact = (number - first) as f64 * 188.0 * 8.0 * 27e6 / rate as f64;
        let off = (ticks - start) as f64 - exact;
        assert!(off.abs() <= 1.0, "packet {number}: {off} ticks");
    }
}

fn assert_valid(recipe: &Recipe) {
    let (bytes, _) = whole(make(recipe));
    let checker = check(&bytes);
    assert_eq!(broken(&checker), [], "{:?}", recipe.load);
    assert_eq!(checker.is_constant_rate(), Some(true));
    let judged = checker.verdicts()[Rule::PcrAccuracy as usize];
    assert!(judged.checked >= recipe.pictures - 2, "{judged:?}");
    // But for the last, whose decoding time lies behind the last reference.
    assert!(checker.buffers().units + 1 >= recipe.pictures, "{:?}", checker.buffers());
    let mut demuxer = Demuxer::new();
    demuxer.push(&bytes);
    demuxer.finish();
    let units = std::iter::from_fn(|| demuxer.poll())
        .filter(|event| matches!(event, Event::AccessUnit { unit, .. } if unit.codec == Codec::H264));
    assert_eq!(units.count() as u64, recipe.pictures);
    assert_linear(&bytes, recipe.load.mux_rate_bps() + recipe.surplus_bps);
    assert_tables_before_keys(&bytes);
}

/// A viewer joins at tables with a key frame right behind them.
fn assert_tables_before_keys(bytes: &[u8]) {
    let mut before = [0; 2];
    for packet in packets(bytes).map(|packet| Packet::parse(packet).unwrap()) {
        if packet.random_access() && packet.pid == super::super::mux::VIDEO_PID {
            assert_eq!(before, [PAT_PID, super::super::mux::PMT_PID]);
        }
        before = [before[1], packet.pid];
    }
}

#[test]
fn streams_of_all_kinds_keep_every_rule() {
    for sound in [None, Some(OPUS)] {
        for rate in [(50, 1), (60_000, 1001), (25, 1), (10, 1)] {
            for (video_bps, vbv_ms) in [(700_000, 20), (700_000, 200), (400_000, 900), (250_000, 100)] {
                for bytes in [|_, mean| mean, bursts, |_, mean| mean * 0.2] as [fn(u64, f64) -> f64; 3] {
                    for slices in [1, 4] {
                        let base = recipe(
                            video_bps,
                            vbv_ms.max(1000 * rate.1 as u64 / rate.0 as u64 + 1),
                            rate,
                            sound,
                        );
                        assert_valid(&Recipe { bytes, slices, pictures: 150, ..base });
                    }
                }
            }
        }
    }
}

#[test]
fn a_mux_rate_beyond_the_videos_is_spread() {
    // Ten times what leaves the transport buffer.
    let base = recipe(500_000, 200, (25, 1), Some(OPUS));
    assert_valid(&Recipe { surplus_bps: 9_000_000, bytes: bursts, ..base });
}

#[test]
fn pictures_that_do_not_come_evenly_keep_the_line() {
    let base = recipe(600_000, 200, (50, 1), Some(OPUS));
    // Some milliseconds early or late, and a clock that is 100 ppm fast or slow.
    assert_valid(&Recipe { late_ns: |number| (number as i64 * 7 % 9 - 4) * 1_000_000, ..base });
    assert_valid(&Recipe { late_ns: |number| number as i64 * 2_000, bytes: bursts, ..base });
    assert_valid(&Recipe { late_ns: |number| number as i64 * -2_000, bytes: bursts, ..base });
}

#[test]
fn the_clock_stays_on_the_capture_clock() {
    // Half an hour, captured at 50 ppm less than the nominal rate.
    let base = recipe(120_000, 100, (10, 1), None);
    let recipe = Recipe { pictures: 18_000, late_ns: |number| number as i64 * 5_000, ..base };
    let (bytes, captured) = whole(make(&recipe));
    assert_linear(&bytes, recipe.load.mux_rate_bps());
    // Each picture's own clock: in its first packet.
    let begun: Vec<u64> = packets(&bytes)
        .map(|packet| Packet::parse(packet).unwrap())
        .filter(|packet| packet.unit_start && packet.pid == super::super::mux::VIDEO_PID)
        .map(|packet| packet.pcr().unwrap().ticks())
        .collect();
    assert_eq!(begun.len(), captured.len());
    let slot_ms = 188.0 * 8.0 * 1e3 / recipe.load.mux_rate_bps() as f64;
    for (clock, captured) in begun.iter().zip(&captured) {
        let ahead_ms = *clock as f64 / 27e3 - captured.as_nanos() as f64 / 1e6;
        // Behind tables and a clock of its own at most.
        assert!((-1e-4..5.0 * slot_ms).contains(&ahead_ms), "{ahead_ms} ms of {slot_ms}");
    }
}

#[test]
fn the_wrap_of_the_clock_changes_nothing() {
    let wrap = Time::from_nanos((Ticks::WRAP as u64 * 100_000).div_ceil(9));
    for before in [1_000, 4_000, 7_950] {
        let first = Time::from_nanos(wrap.as_nanos() - before * 1_000_000);
        assert_valid(&Recipe { first, ..recipe(600_000, 100, (50, 1), Some(OPUS)) });
    }
}

#[test]
fn all_of_a_picture_is_out_when_it_ends_and_nothing_before_it_waits() {
    let recipe = recipe(600_000, 100, (50, 1), None);
    let (mut muxer, mut demuxer, mut written) = (muxer(&recipe), Demuxer::new(), 0);
    for number in 0..10 {
        let mut out = Vec::new();
        let at = recipe.first + recipe.load.frame_rate.time_of(number);
        let head = UnitHead {
            pts: Ticks::from_time(at),
            dts: Ticks::from_time(at),
            random_access: number == 0,
            captured: Some(at),
        };
        muxer.begin(&head, &mut out).unwrap();
        let before = out.len();
        muxer.slice(&[&[0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x65, 0x88][..], &[0x55; 700]].concat(), &mut out);
        assert!(out.len() >= before + 3 * PACKET_BYTES, "a slice's packets leave with it");
        muxer.end(&mut out);
        demuxer.push(&out);
        let units =
            std::iter::from_fn(|| demuxer.poll()).filter(|event| matches!(event, Event::AccessUnit { .. }));
        assert_eq!(units.count(), 1, "picture {number}");
        // Up to the picture's end, to a packet.
        let end = (at + recipe.load.frame_rate.time_of(1)).since(recipe.first);
        let packets = end.as_secs_f64() * recipe.load.mux_rate_bps() as f64 / 1504.0;
        written += out.len() / PACKET_BYTES;
        assert_eq!(written, packets.ceil() as usize);
    }
}

#[test]
fn sound_comes_shortly_before_its_time() {
    let recipe = Recipe { bytes: bursts, ..recipe(600_000, 900, (25, 1), Some(OPUS)) };
    let delay = recipe.load.decode_delay(recipe.load.mux_rate_bps()).0 as f64 / 90.0;
    assert!(delay > 900.0);
    let mut made = make(&recipe);
    let bytes = std::mem::take(&mut made.bytes);
    let clocks = clocks(&bytes);
    let pace = 188.0 * 8.0 * 27e6 / recipe.load.mux_rate_bps() as f64;
    let mut heard = 0;
    for (number, packet) in packets(&bytes).enumerate() {
        let packet = Packet::parse(packet).unwrap();
        if packet.pid != super::super::mux::AUDIO_PID || !packet.unit_start {
            continue;
        }
        let pts = super::super::pes::PesHeader::parse(packet.payload).unwrap().pts.unwrap();
        let now = clocks[0].1 as f64 + (number as f64 - clocks[0].0 as f64) * pace;
        let ahead_ms = (pts as f64 * 300.0 - now) / 27e3;
        assert!((20.0..=40.1).contains(&ahead_ms), "packet {number}: {ahead_ms} ms");
        heard += 1;
    }
    // What waits comes at the end, without null packets until its time.
    made.muxer.finish(&mut made.bytes);
    let rest = packets(&made.bytes).filter(|packet| pid_of(packet) == super::super::mux::AUDIO_PID).count();
    assert!((150..220).contains(&rest), "{rest} units at the end");
    assert!(made.bytes.len() / PACKET_BYTES < 2 * rest, "{} packets", made.bytes.len() / PACKET_BYTES);
    assert!((3_185..3_200).contains(&(heard + rest)), "{heard} units and {rest}: none is lost");
}

#[test]
fn sound_of_many_packets_is_spread() {
    // Nine packets at ten megabits a second; two leave the buffer.
    let sound = SoundLoad {
        unit_bytes: 1_500,
        unit_time: Duration::from_micros(21_333),
        lag: Duration::from_millis(64),
    };
    let recipe = Recipe { surplus_bps: 9_000_000, ..recipe(500_000, 200, (25, 1), Some(sound)) };
    let (bytes, _) = whole(make(&recipe));
    assert_eq!(broken(&check(&bytes)), []);
    let leak = 188.0 * 2e6 / (recipe.load.mux_rate_bps() + recipe.surplus_bps) as f64;
    let (mut level, mut worst) = (0.0f64, 0.0f64);
    for packet in packets(&bytes) {
        let enters = pid_of(packet) == super::super::mux::AUDIO_PID;
        level = (level + if enters { 188.0 } else { 0.0 } - leak).max(0.0);
        worst = worst.max(level);
    }
    assert!((300.0..=512.0).contains(&worst), "{worst} bytes");
}

#[test]
fn a_stall_is_filled_and_a_leap_is_announced() {
    let recipe = recipe(600_000, 100, (50, 1), None);
    let (mut muxer, mut out) = (muxer(&recipe), Vec::new());
    let picture = |muxer: &mut Muxer, at_ms: u64, out: &mut Vec<u8>| {
        let at = Time::from_millis(at_ms);
        let (pts, stamps) = (Ticks::from_time(at), Stamps::captured_at(at));
        let data = [&[0, 0, 0, 1, 9, 0xf0], SPS, &[0, 0, 0, 1, 0x65, 0x88], &[0x55; 600]].concat().into();
        let unit = AccessUnit { codec: Codec::H264, data, pts, dts: pts, random_access: true, stamps };
        muxer.write(&unit, out).unwrap();
    };
    picture(&mut muxer, 1_000, &mut out);
    for at in [100, 200, 300] {
        muxer.write_tables(Ticks::from_time(Time::from_millis(1_000 + at)), &mut out);
    }
    picture(&mut muxer, 1_400, &mut out);
    assert_linear(&out, recipe.load.mux_rate_bps());
    let seconds = (out.len() / 188) as f64 * 1504.0 / recipe.load.mux_rate_bps() as f64;
    assert!((0.42..0.425).contains(&seconds), "{seconds}");
    assert!(clocks(&out).windows(2).all(|pair| pair[1].1 - pair[0].1 <= 40 * 27_000));
    for leap in [20_000, 2_000, 900_000] {
        let before = out.len();
        picture(&mut muxer, leap, &mut out);
        let new = &out[before..];
        assert!(new.len() < 100 * 188, "{leap}: nothing is filled up");
        let clock = packets(new).map(|packet| Packet::parse(packet).unwrap()).find(|it| it.pcr().is_some());
        assert!(clock.unwrap().discontinuity(), "{leap}");
        let late = clock.unwrap().pcr().unwrap().ticks() / 27_000 - leap;
        assert!(late <= 5, "{late} ms after {leap}: the tables come first");
    }
    assert_eq!(check(&out).verdicts()[Rule::Continuity as usize].broken, 0);
}

#[test]
fn a_jittered_clock_or_a_missing_packet_is_found() {
    let recipe = recipe(600_000, 200, (50, 1), Some(OPUS));
    let (bytes, _) = whole(make(&recipe));
    let broken_by = |change: &dyn Fn(&mut Vec<Bytes188>)| {
        let mut packets = bytes.as_chunks::<PACKET_BYTES>().0.to_vec();
        change(&mut packets);
        let broken = broken(&check(packets.as_flattened()));
        broken.into_iter().map(|verdict| verdict.rule).collect::<Vec<_>>()
    };
    let jitter = |ticks: u64| {
        broken_by(&|packets| {
            let clocks = packets.iter_mut().filter(|it| Packet::parse(it).unwrap().pcr().is_some());
            for (number, packet) in clocks.enumerate() {
                let at = Packet::parse(packet).unwrap().pcr().unwrap().ticks();
                let moved = Pcr::new(at + (number as u64 * 7919 % 1000) * ticks / 1000);
                packet[6..12].copy_from_slice(&moved.write());
            }
        })
    };
    assert_eq!(jitter(1), []);
    // 2 microseconds to a millisecond, and 4 of 20 milliseconds: no one would call that rate constant.
    for ticks in [54, 2_700, 27_000, 108_000] {
        assert!(jitter(ticks).contains(&Rule::PcrAccuracy), "{ticks}: {:?}", jitter(ticks));
    }
    let nulls: Vec<usize> = (0..bytes.len() / 188).filter(|at| bytes[at * 188 + 1] == 0x1f).collect();
    for null in [nulls[nulls.len() / 3], nulls[nulls.len() / 2]] {
        let without = broken_by(&|packets| {
            packets.remove(null);
        });
        assert!(without.contains(&Rule::PcrAccuracy), "{without:?}");
        let with = broken_by(&|packets| packets.insert(null, NULL_PACKET));
        assert!(with.contains(&Rule::PcrAccuracy), "{with:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_pictures_within_the_vbv_are_valid(
        video_bps in 200_000u64..760_000,
        vbv_ms in 20u64..900,
        surplus_bps in prop_oneof![Just(0u64), 0u64..3_000_000],
        seed in 1u64..1000,
        slices in 1usize..9,
        has_sound: bool,
    ) {
        // Sizes come from the picture's number: bursts of random length.
        let bytes: fn(u64, f64) -> f64 = match seed % 3 {
            0 => |number, mean| if (number * 7919 / 13) % 5 == 0 { mean * 30.0 } else { mean * 0.3 },
            1 => |number, mean| if number % 60 < 30 { mean * 1.5 } else { mean * 0.5 },
            _ => |number, mean| mean * ((number * 2_654_435_761 % 1000) as f64 / 400.0),
        };
        let base = recipe(video_bps, vbv_ms, (50, 1), has_sound.then_some(OPUS));
        assert_valid(&Recipe { bytes, slices, surplus_bps, pictures: 200, ..base });
    }

    #[test]
    fn hostile_stamps_do_no_harm(
        stamps in proptest::collection::vec((any::<u8>(), prop_oneof![0i64..1 << 20, any::<i64>().prop_map(|x| x >> 20)]), 0..60),
    ) {
        let mut recipe = recipe(200_000, 100, (50, 1), Some(OPUS));
        recipe.surplus_bps = 10_000;
        let (mut muxer, mut out) = (muxer(&recipe), Vec::new());
        for (kind, dts) in stamps {
            let dts = Ticks(dts);
            let codec = if kind % 3 == 0 { Codec::Opus } else { Codec::H264 };
            let data = vec![0x55; usize::from(kind)].into();
            let unit = AccessUnit { codec, data, pts: dts, dts, random_access: true, stamps: Stamps::default() };
            if kind % 5 == 0 { muxer.write_tables(dts, &mut out) } else { muxer.write(&unit, &mut out).unwrap() }
            prop_assert!(out.len() < 30 << 20);
            prop_assert!(out.len().is_multiple_of(PACKET_BYTES));
        }
        muxer.finish(&mut out);
        prop_assert_eq!(check(&out).verdicts()[Rule::Continuity as usize].broken, 0);
    }
}
