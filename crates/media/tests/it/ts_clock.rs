//! The stream's clock over long runs: a day of it over the wrap of 33 bits, and half an hour that must not drift.
//! Nothing waits: times are values.

#![allow(clippy::unwrap_used, reason = "tests")]

use bytes::Bytes;
use glassline_media::container::ts::packet::packets;
use glassline_media::container::ts::{Demuxer, Event, MuxSettings, Muxer, Packet, Pcr, Scanner};
use glassline_media::{AccessUnit, Codec, FrameRate, Stamps, Ticks, Time};

/// A picture as the encoder gives it: its stamps are those of its capture.
fn picture(captured: Time, key: bool) -> AccessUnit {
    let data = vec![0, 0, 0, 1, 9, 0xf0, 0, 0, 1, if key { 0x65 } else { 0x41 }, 0x9a, 0x22];
    AccessUnit {
        codec: Codec::H264,
        data: Bytes::from(data),
        pts: Ticks::from_time(captured),
        dts: Ticks::from_time(captured),
        random_access: key,
        stamps: Stamps::captured_at(captured),
    }
}

fn muxer() -> Muxer {
    Muxer::new(MuxSettings { video: Some(Codec::H264), ..MuxSettings::default() }).unwrap()
}

/// The stream's clock in these packets; there is one reference.
fn clock(bytes: &[u8]) -> Pcr {
    let mut clocks = packets(bytes).filter_map(|packet| Packet::parse(packet).unwrap().pcr());
    let clock = clocks.next().unwrap();
    assert_eq!(clocks.next(), None);
    clock
}

#[test]
fn a_day_passes_over_the_wrap_and_nobody_notices() {
    // An hour before the first wrap; a day and some later the next one is not there yet.
    let start = Time::from_nanos(Ticks::WRAP as u64 * 100_000 / 9 - 3_600_000_000_000);
    let rate = FrameRate::new(5, 1).unwrap();
    let (mut muxer, mut demuxer, mut scanner) = (muxer(), Demuxer::new(), Scanner::new());
    let (mut out, mut expected, mut last_clock, mut found) = (Vec::new(), None, None, 0u64);
    let mut wraps = 0;
    let pictures = 25 * 3600 * 5;
    for number in 0..pictures {
        let captured = start + rate.time_of(number);
        out.clear();
        muxer.write(&picture(captured, number % 25 == 0), &mut out).unwrap();
        for packet in packets(&out) {
            let scan = scanner.scan(packet);
            assert!(scan.entry.is_some() <= (number % 25 == 0), "picture {number}");
        }
        let now = clock(&out);
        if let Some(last) = last_clock.replace(now) {
            let step = now.since(last);
            assert!((5_399_700..=5_400_300).contains(&step), "picture {number}: the clock goes on by {step}");
            wraps += u32::from(now.ticks() < last.ticks());
        }
        demuxer.push(&out);
        while let Some(event) = demuxer.poll() {
            let Event::AccessUnit { unit, .. } = event else { continue };
            // The first stamp's distance to the capture time stays, over the wrap too.
            let ahead = unit.pts.0 - Ticks::from_time(start + rate.time_of(found)).0;
            assert_eq!(ahead, *expected.get_or_insert(ahead), "picture {found}");
            found += 1;
        }
    }
    demuxer.finish();
    let counters = demuxer.counters();
    assert_eq!((wraps, found), (1, pictures));
    let wrong = counters.continuity_errors + counters.damaged_units + counters.malformed_packets;
    assert_eq!((wrong, scanner.continuity_errors()), (0, 0), "{counters:?}");
}

#[test]
fn half_an_hour_does_not_drift() {
    // As a monotonic clock may stand when a stream begins: no whole number of anything.
    let start = Time::from_nanos(35_156_620_129_618);
    for (numerator, denominator) in [(50, 1), (60_000, 1001), (30_000, 1001), (24_000, 1001)] {
        let rate = FrameRate::new(numerator, denominator).unwrap();
        let (mut muxer, mut out) = (muxer(), Vec::new());
        let pictures = (1800.0 * rate.as_f64()) as u64;
        let (mut worst_clock, mut worst_stamp) = (0i128, 0i128);
        for number in 0..pictures {
            let captured = start + rate.time_of(number);
            let unit = picture(captured, number % 50 == 0);
            out.clear();
            muxer.write(&unit, &mut out).unwrap();
            // Nanoseconds by which clock and stamp lie beside the capture time.
            let nanos = i128::from(captured.as_nanos());
            let clock = i128::from(clock(&out).ticks()) * 1000 / 27 - nanos;
            let stamp = i128::from(unit.pts.0) * 100_000 / 9 - nanos;
            worst_clock = worst_clock.max(clock.abs());
            worst_stamp = worst_stamp.max(stamp.abs());
        }
        assert!(worst_clock <= 20, "{rate}: the clock is off by {worst_clock} ns");
        assert!(worst_stamp <= 5_556, "{rate}: a stamp is off by {worst_stamp} ns");
    }
}
