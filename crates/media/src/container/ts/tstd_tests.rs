use super::*;
use proptest::prelude::*;

/// 100 kB/s out of TB and MB, MB of 1,000 bytes, EB of 10,000.
const SIZES: Sizes = Sizes {
    multiplex_bytes: 1000.0,
    elementary_bytes: 10_000.0,
    transport_rate: 100_000.0,
    multiplex_rate: 100_000.0,
    low_delay: false,
};

/// A model that units of so many packets came into, each packet taking `packet_s`, from `period_s` to the next; each
/// is decoded `lead_s` after its first byte.
fn play(sizes: Sizes, units: &[usize], period_s: f64, packet_s: f64, lead_s: f64) -> Findings {
    let mut model = Tstd::new();
    model.resize(sizes);
    for (number, &packets) in units.iter().enumerate() {
        let start = number as f64 * period_s;
        for packet in 0..packets {
            let begin = start + packet as f64 * packet_s;
            model.packet(begin, begin + packet_s, 184);
        }
        model.unit(start + lead_s, packets as u64 * 184);
    }
    model.finish();
    model.findings()
}

#[test]
fn sizes_are_those_of_profile_and_level() {
    let sps = Sps::parse(&[
        0x64, 0x00, 0x1f, 0xac, 0xd9, 0x40, 0x50, 0x05, 0xbb, 0x01, 0x10, 0x00, 0x00, 0x03, 0x00, 0x10, 0x00,
        0x00, 0x03, 0x03, 0x20, 0xf1, 0x83, 0x19, 0x60,
    ])
    .unwrap();
    let high = Sizes::of_h264(&sps).unwrap();
    assert_eq!((high.transport_rate, high.elementary_bytes), (21_000_000.0 / 8.0, 21_000_000.0 / 8.0));
    // 4 ms and 1/750 s of 21 Mbit/s.
    assert!((high.multiplex_bytes - 21_000_000.0 / 8.0 * (0.004 + 1.0 / 750.0)).abs() < 1e-6);
    let main = Sizes::of_h264(&Sps { profile: 77, level: 10, ..sps }).unwrap();
    assert_eq!(main.transport_rate, 64.0 * 1200.0 / 8.0);
    assert!((main.multiplex_bytes - 2e6 / 8.0 * (0.004 + 1.0 / 750.0)).abs() < 1e-6, "2 Mbit/s at least");
    let level_1b = Sizes::of_h264(&Sps { profile: 66, level: 11, constraints: 0x10, ..sps }).unwrap();
    assert_eq!(level_1b.transport_rate, 128.0 * 1200.0 / 8.0);
    assert_eq!(Sizes::of_h264(&Sps { level: 77, ..sps }), None);
    let hrd = Some(crate::bitstream::h264::HrdRate {
        bitrate_bps: 8_000_000,
        buffer_bits: 160_000,
        constant: true,
    });
    let told = Sizes::of_h264(&Sps { hrd, ..sps }).unwrap();
    assert_eq!((told.transport_rate, told.elementary_bytes), (1_200_000.0, 20_000.0));
    assert!((told.multiplex_bytes - high.multiplex_bytes - (2_625_000.0 - 20_000.0)).abs() < 1e-6);
}

#[test]
fn a_stream_of_constant_size_keeps_to_the_model() {
    // 10 packets each 40 ms, evenly: 47 kB/s.
    let findings = play(SIZES, &[10; 100], 0.04, 0.004, 0.05);
    assert_eq!(findings.units, 100);
    let Findings { transport_overflow, not_emptied, multiplex_overflow, underflow, highest_bytes, .. } =
        findings;
    assert_eq!([transport_overflow, not_emptied, multiplex_overflow, underflow], [Breach::default(); 4]);
    assert!(highest_bytes[0] <= 188.0 && highest_bytes[2] <= 2.0 * 1840.0, "{highest_bytes:?}");
}

#[test]
fn a_burst_overruns_the_transport_buffer() {
    // 188 kB/s into a buffer that leaks 100: 88 bytes more with each packet, 512 after the sixth.
    let even = play(SIZES, &[5], 1.0, 0.001, 0.5);
    assert_eq!(even.transport_overflow.count, 0, "{even:?}");
    let burst = play(SIZES, &[9, 9], 1.0, 0.001, 0.5);
    assert_eq!(burst.transport_overflow.count, 2, "{burst:?}");
    assert!((burst.transport_overflow.worst - (9.0 * 88.0 - 512.0)).abs() < 1e-6, "{burst:?}");
}

#[test]
fn a_transport_buffer_that_is_never_empty_is_noticed() {
    // Just above the leak's rate for longer than a second, but below 512 bytes.
    let packet_s = 187.9 / 100_000.0;
    let findings = play(SIZES, &[700], 10.0, packet_s, 9.0);
    assert_eq!((findings.not_emptied.count, findings.transport_overflow.count), (1, 0), "{findings:?}");
    assert!(findings.not_emptied.worst > 1.0);
}

#[test]
fn a_unit_that_comes_late_is_underflow() {
    let findings = play(SIZES, &[10; 20], 0.04, 0.004, 0.03);
    assert_eq!(findings.underflow.count, 20, "{findings:?}");
    // Two and a half packets come after the decoding time.
    assert!((300.0..=560.0).contains(&findings.underflow.worst), "{findings:?}");
    let allowed = play(Sizes { low_delay: true, ..SIZES }, &[10; 20], 0.04, 0.004, 0.03);
    assert_eq!(allowed.underflow.count, 0);
}

#[test]
fn what_is_decoded_long_after_it_came_overruns_the_multiplex_buffer() {
    // EB takes 10,000 bytes of 18,400, MB 1,000 more.
    let findings = play(SIZES, &[10; 10], 0.04, 0.004, 1.0);
    assert_eq!(findings.multiplex_overflow.count, 1, "{findings:?}");
    assert!((findings.multiplex_overflow.worst - 7400.0).abs() < 1.0, "{findings:?}");
    assert!((findings.highest_bytes[2] - 10_000.0).abs() < 1e-3);
    assert_eq!(findings.underflow.count, 0);
}

#[test]
fn it_goes_on_after_a_reset_and_without_sizes_nothing_is_found() {
    let mut model = Tstd::new();
    for round in 0..3 {
        let start = f64::from(round) * 10.0;
        model.packet(start, start + 0.001, 184);
        model.unit(start + 0.0001, 184);
        if round == 0 {
            assert_eq!(model.findings().units, 0);
            model.resize(SIZES);
        }
        model.packet(start + 0.1, start + 0.101, 100);
        model.reset();
    }
    model.finish();
    assert_eq!((model.findings().units, model.findings().underflow.count), (2, 2));
}

proptest! {
    #[test]
    fn no_byte_is_lost_or_made(
        units in proptest::collection::vec((1usize..30, 0.0f64..0.2, 0.0f64..0.3), 1..60),
        order: bool,
    ) {
        let mut model = Tstd::new();
        // Buffers that nothing fills: each unit is whole if it has time enough.
        model.resize(Sizes { multiplex_bytes: 1e9, elementary_bytes: 1e9, ..SIZES });
        let (mut at, mut last) = (0.0, 0.0f64);
        for &(packets, pause, lead) in &units {
            let bytes = packets as u64 * 184;
            // TB needs 188 bytes' time for each packet, MB needs it again; then some.
            let end = at + packets as f64 * 0.002;
            let decode = (end + packets as f64 * 0.004 + 0.01 + lead).max(last);
            if order {
                model.unit(decode, bytes);
            }
            for packet in 0..packets {
                let begin = at + packet as f64 * 0.002;
                model.packet(begin, begin + 0.002, 184);
            }
            if !order {
                model.unit(decode, bytes);
            }
            (at, last) = (end + pause, decode);
        }
        model.finish();
        prop_assert_eq!(model.findings().units, units.len() as u64);
        prop_assert_eq!(model.findings().underflow.count, 0);
        prop_assert!(model.elementary.abs() < 1e-3 && model.multiplex.abs() < 1e-3);
    }

    #[test]
    fn hostile_times_do_no_harm(
        steps in proptest::collection::vec((any::<bool>(), -5.0f64..5.0, 0u32..185, 0.0f64..0.1), 0..300),
    ) {
        let mut model = Tstd::new();
        model.resize(SIZES);
        for (is_unit, at, bytes, lasts) in steps {
            if is_unit { model.unit(at, u64::from(bytes)) } else { model.packet(at, at + lasts, bytes) }
        }
        model.finish();
        prop_assert!(model.multiplex.is_finite() && model.elementary.is_finite());
    }
}
