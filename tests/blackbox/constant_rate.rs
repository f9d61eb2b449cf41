//! `encode --cbr` and `--constant-size`: a transport stream of constant rate, and what `probe --check` says of it and
//! of one that is nearly so.

use crate::commands::assert_fails;
use crate::{GLASSLINE, glassline};
use glassline_measure::pattern::Pattern;
use glassline_media::container::ts::{PACKET_BYTES, Packet, Pcr};
use glassline_media::container::y4m;
use glassline_media::{FrameRate, Size, Time, Utc};
use glassline_test_support::program::{Scratch, run};
use glassline_test_support::wait::PATIENCE;
use serde_json::Value;
use std::net::UdpSocket;

type PacketBytes = [u8; PACKET_BYTES];

const PICTURES: u64 = 120;
const NULL_PID: u16 = 0x1fff;

/// The test pattern as a file of 50 pictures a second, and a tone beside it.
fn sources(scratch: &Scratch) -> [String; 2] {
    let (size, rate) = (Size::new(320, 180).unwrap(), FrameRate::new(50, 1).unwrap());
    let mut pattern = Pattern::new(size, rate);
    let mut bytes = Vec::new();
    for number in 0..PICTURES {
        let time = Time::ZERO + rate.time_of(number);
        let picture = pattern.draw(number, time, Utc::from_nanos(time.as_nanos()));
        if number == 0 {
            y4m::write_header(&y4m::Header::of(&picture, rate), &mut bytes).unwrap();
        }
        y4m::write_picture(&picture, &mut bytes);
    }
    let samples: Vec<u8> = (0..48_000 * PICTURES / 50)
        .flat_map(|sample| [((sample as f32 * 0.06).sin() * 8_000.0) as i16; 2])
        .flat_map(i16::to_le_bytes)
        .collect();
    let mut wav =
        b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x02\0\x80\xbb\0\0\0\xee\x02\0\x04\0\x10\0data".to_vec();
    wav.extend_from_slice(&(samples.len() as u32).to_le_bytes());
    wav.extend_from_slice(&samples);
    let whole = (wav.len() as u32 - 8).to_le_bytes();
    wav[4..8].copy_from_slice(&whole);
    [scratch.write("in.y4m", bytes), scratch.write("in.wav", wav)]
}

/// Codes the sources into a file, whose packets these are.
fn code(scratch: &Scratch, options: &[&str]) -> Vec<PacketBytes> {
    let [pictures, sound] = sources(scratch);
    let file = scratch.file("out.ts");
    let base = ["encode", &pictures, &file, "--audio-in", &sound, "--preset", "ultrafast"];
    let outcome = run(GLASSLINE, &[&base[..], options].concat(), 120);
    assert_eq!(outcome.status, Some(0), "{options:?}: {}", outcome.stderr);
    std::fs::read(&file).unwrap().as_chunks::<PACKET_BYTES>().0.to_vec()
}

/// Checks packets by DVB's rules: the exit status and the report.
fn check(scratch: &Scratch, packets: &[PacketBytes]) -> (Option<i32>, Value) {
    let file = scratch.write("checked.ts", packets.as_flattened());
    let outcome = glassline(&["probe", &file, "--check=dvb", "--json"]);
    (outcome.status, serde_json::from_slice(&outcome.stdout).unwrap())
}

fn rule<'a>(report: &'a Value, name: &str) -> &'a Value {
    let rules = report["check"]["rules"].as_array().unwrap();
    rules.iter().find(|rule| rule["rule"] == name).unwrap()
}

fn broken(report: &Value) -> Vec<&str> {
    let rules = report["check"]["rules"].as_array().unwrap();
    rules.iter().filter(|rule| rule["broken"] != 0).map(|rule| rule["rule"].as_str().unwrap()).collect()
}

/// Number and clock of the packets that have one.
fn clocks(packets: &[PacketBytes]) -> Vec<(usize, u64)> {
    let clock = |packet: &PacketBytes| Packet::parse(packet).unwrap().pcr().map(Pcr::ticks);
    packets.iter().enumerate().filter_map(|(number, packet)| Some((number, clock(packet)?))).collect()
}

#[test]
fn every_packet_has_its_place() {
    let scratch = Scratch::new("constant-rate");
    for (options, rate) in [
        (&["--cbr", "--bitrate", "1M"][..], None),
        (&["--cbr", "--bitrate", "1M", "--vbv", "100ms", "--mux-rate", "2M"], Some(2e6)),
        (&["--cbr", "--bitrate", "600k", "--vbv", "300ms", "--audio", "s302m"], None),
        (&["--constant-size", "--bitrate", "1500k"], None),
        (&["--constant-size", "--bitrate", "1M", "--slices", "1", "--threads", "1", "--audio", "none"], None),
        (&["--cbr", "--rendition", "160x90@25:400k", "--vbv", "200ms", "--mux-rate", "900k"], Some(9e5)),
    ] {
        let packets = match options.contains(&"--rendition") {
            false => code(&scratch, options),
            // It has a name of its own.
            true => {
                let [pictures, sound] = sources(&scratch);
                let file = scratch.file("{rendition}.ts");
                let base = ["encode", &pictures, &file, "--audio-in", &sound, "--preset", "ultrafast"];
                let outcome = run(GLASSLINE, &[&base[..], options].concat(), 120);
                assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
                std::fs::read(scratch.file("90p25.ts")).unwrap().as_chunks::<PACKET_BYTES>().0.to_vec()
            }
        };
        let (status, report) = check(&scratch, &packets);
        assert_eq!((status, broken(&report)), (Some(0), vec![]), "{options:?}: {report}");
        assert_eq!(report["check"]["constant_rate"], true, "{options:?}");
        let accuracy = rule(&report, "pcr_accuracy");
        assert!(accuracy["checked"].as_u64().unwrap() >= 59, "{options:?}: {accuracy}");
        assert!(accuracy["worst"].as_f64().unwrap() <= 40.0, "{options:?}: {accuracy}");
        assert!(rule(&report, "elementary_buffer")["checked"].as_u64().unwrap() >= 59, "{options:?}");
        let found = report["bitrate_bps"].as_f64().unwrap();
        if let Some(rate) = rate {
            assert!((found - rate).abs() < rate * 1e-6, "{options:?}: {found}");
        }
        // All of it is filled up: packets are there for the whole time, to a picture and the time before the last sound.
        let seconds = packets.len() as f64 * 1504.0 / found;
        assert!((2.35..3.5).contains(&seconds), "{options:?}: {seconds} s");
    }
}

#[test]
fn a_clock_that_jitters_and_a_packet_that_is_missing_break_a_rule() {
    let scratch = Scratch::new("constant-rate");
    // So that null packets are in every interval.
    let packets = code(&scratch, &["--cbr", "--bitrate", "1M", "--vbv", "200ms", "--mux-rate", "2M"]);
    let assert_broken = |packets: &[PacketBytes], what: &str| {
        let (status, report) = check(&scratch, packets);
        assert_eq!(status, Some(1), "{what}: {report}");
        assert!(rule(&report, "pcr_accuracy")["broken"] != 0, "{what}: {report}");
    };
    // A microsecond, and three milliseconds, by which no two intervals have one rate any more.
    for ticks in [27, 81_000] {
        let mut jittered = packets.clone();
        for (index, (number, clock)) in clocks(&packets).into_iter().enumerate() {
            let later = if index % 3 == 1 { ticks } else { 0 };
            jittered[number][6..12].copy_from_slice(&Pcr::new(clock + later).write());
        }
        assert_broken(&jittered, &format!("{ticks} ticks"));
    }
    let nulls: Vec<usize> =
        (0..packets.len()).filter(|at| Packet::parse(&packets[*at]).unwrap().pid == NULL_PID).collect();
    assert!(nulls.len() > 50, "{} null packets", nulls.len());
    let mut without = packets.clone();
    without.remove(nulls[nulls.len() / 2]);
    assert_broken(&without, "a null packet less");
    // With none at all the rate is another one in each interval, and no clock of a constant rate.
    let none: Vec<_> =
        packets.iter().filter(|packet| Packet::parse(packet).unwrap().pid != NULL_PID).copied().collect();
    let (_, report) = check(&scratch, &none);
    let accuracy = rule(&report, "pcr_accuracy");
    assert!(accuracy["checked"] == 0 || accuracy["broken"] != 0, "{accuracy}");
}

#[test]
fn a_mux_rate_that_is_too_small_or_not_wanted_is_refused() {
    let scratch = Scratch::new("constant-rate");
    let file = scratch.file("out.ts");
    let encode = |options: &[&str]| {
        let base = ["encode", "test:320x180@25", &file, "--audio", "none", "--limit", "1", "--bitrate", "1M"];
        glassline(&[&base[..], options].concat())
    };
    let refused = encode(&["--cbr", "--mux-rate", "1M"]);
    assert_fails(&refused, 2, &["mux rate of 1M", "pictures of 1M", "--bitrate"]);
    let (_, rest) = refused.stderr.split_once("--mux-rate ").unwrap();
    let least = rest.split(' ').next().unwrap();
    assert!(!std::path::Path::new(&file).exists(), "nothing is overwritten");
    assert_eq!(encode(&["--cbr", "--mux-rate", least]).status, Some(0));
    assert_fails(&encode(&["--mux-rate", "3M"]), 2, &["--mux-rate", "--cbr or --constant-size"]);
    assert_fails(&encode(&["--constant-size", "--mux-rate", "3"]), 2, &["3", "no unit"]);
    let two = ["encode", "test:320x180@25", &file, "--cbr", "--mux-rate", "3M"];
    let two = [&two[..], &["--rendition", "320x180@25:1M", "--rendition", "160x90@25:500k"]].concat();
    assert_fails(&glassline(&two), 2, &["--mux-rate", "renditions"]);
    let config = "[encode.a]\ninput = 'test:320x180@25'\nmux_rate = '6M'\n";
    let config = scratch.write("glassline.toml", config);
    let refused = glassline(&["serve", "--test-config", "--config", &config]);
    assert_fails(&refused, 2, &["encode.a.mux_rate", "cbr or constant_size"]);
    let config = "[encode.a]\ninput = 'test:320x180@25'\nmux_rate = '6M'\ncbr = true\n";
    let config = scratch.write("glassline.toml", config);
    assert_eq!(glassline(&["serve", "--test-config", "--config", &config]).status, Some(0));
}

#[test]
fn datagrams_carry_the_same_packets_as_the_file() {
    let scratch = Scratch::new("constant-rate");
    let file = scratch.file("out.ts");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let url = format!("udp://{}", socket.local_addr().unwrap());
    let receiver = std::thread::spawn(move || {
        let (mut got, mut buffer) = (Vec::new(), [0; 2000]);
        // Less than the stream has, so that it ends.
        while got.len() < 200 * PACKET_BYTES {
            let count = socket.recv(&mut buffer).unwrap();
            got.extend_from_slice(&buffer[..count]);
        }
        got
    });
    let options = ["--cbr", "--vbv", "100ms", "--bitrate", "1M", "--preset", "ultrafast", "--limit", "50"];
    let outcome = run(GLASSLINE, &[&["encode", "test:320x180@25", &file, &url], &options[..]].concat(), 60);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let (got, stream) = (receiver.join().unwrap(), std::fs::read(&file).unwrap());
    assert!(stream.starts_with(&got), "{} bytes", got.len());
    // Live, too, every clock lies on one line, whatever pictures a busy machine left out.
    let (_, report) = check(&scratch, stream.as_chunks().0);
    let accuracy = rule(&report, "pcr_accuracy");
    assert!(accuracy["checked"].as_u64().unwrap() >= 25 && accuracy["broken"] == 0, "{accuracy}");
}
