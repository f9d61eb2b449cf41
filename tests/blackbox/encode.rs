//! `encode`: what it writes is a good transport stream, and it gets through to a relay and its viewers.

use crate::{GLASSLINE, glassline, serve};
use glassline_media::Codec;
use glassline_media::container::ts::demux::{Demuxer, Event};
use glassline_media::container::ts::packet::{Pcr, packets};
use glassline_media::container::ts::pes::PesHeader;
use glassline_media::container::ts::{ContinuityChecker, Packet};
use glassline_test_support::http::{connect, read_head};
use glassline_test_support::program::{Running, Scratch, Server, left_out, run};
use glassline_test_support::wait::until;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

/// What a transport stream holds.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// PTS of the pictures in 90 kHz ticks, in order.
    pub(crate) pictures: Vec<i64>,
    /// Whether each begins a group.
    pub(crate) keys: Vec<bool>,
    /// PTS of the audio frames.
    pub(crate) sounds: Vec<i64>,
}

/// Demuxes a whole stream and checks what holds for every stream of ours: continuity, order of time stamps, how
/// often tables and clock come.
pub(crate) fn contents(bytes: &[u8]) -> Contents {
    contents_with(bytes, 0)
}

/// The same for what a viewer got, who joined while an audio frame was under way.
fn contents_of_a_part(bytes: &[u8]) -> Contents {
    contents_with(bytes, 1)
}

/// The same where so many units may be cut off.
fn contents_with(bytes: &[u8], cut_off: u64) -> Contents {
    assert!(!bytes.is_empty() && bytes.len().is_multiple_of(188), "{} bytes", bytes.len());
    check_packets(bytes);
    let (mut demuxer, mut contents) = (Demuxer::new(), Contents::default());
    demuxer.push(bytes);
    demuxer.finish();
    while let Some(event) = demuxer.poll() {
        let Event::AccessUnit { unit, .. } = event else { continue };
        if unit.codec == Codec::H264 {
            assert!(unit.dts <= unit.pts, "{:?} is decoded after it is shown ({:?})", unit.dts, unit.pts);
            contents.pictures.push(unit.pts.0);
            contents.keys.push(unit.random_access);
        } else {
            contents.sounds.push(unit.pts.0);
        }
    }
    let counters = demuxer.counters();
    let wrong = counters.continuity_errors
        + counters.transport_errors
        + counters.malformed_packets
        + counters.skipped_bytes;
    assert!(wrong == 0 && counters.damaged_units <= cut_off, "{counters:?}");
    for stamps in [&contents.pictures, &contents.sounds] {
        assert!(stamps.is_sorted_by(|one, next| one < next), "time stamps do not rise: {stamps:?}");
    }
    contents
}

/// When the unit that begins in a packet is decoded.
fn stamp_of(packet: &Packet<'_>) -> Option<u64> {
    let pes = packet.unit_start.then(|| PesHeader::parse(packet.payload).ok()).flatten()?;
    pes.dts.or(pes.pts)
}

/// Continuity of every PID; the tables before each key frame and every 100 ms; the clock never behind.
fn check_packets(bytes: &[u8]) {
    let mut checker = ContinuityChecker::new();
    let (mut clock, mut newest, mut tables_at): (Option<Pcr>, Option<u64>, Option<u64>) = (None, None, None);
    let (mut since_tables, mut tables_came) = (usize::MAX, false);
    let (mut pmt_pid, mut longest) = (0, 0);
    let both = packets(bytes).filter_map(|packet| {
        let packet = Packet::parse(packet).ok()?;
        Some(stamp_of(&packet)?.saturating_sub(packet.pcr()?.base()))
    });
    // Where the clock would have run back it stands still, which makes it less.
    let ahead = both.max().unwrap_or(0);
    for (number, packet) in packets(bytes).enumerate() {
        let packet = Packet::parse(packet).unwrap_or_else(|error| panic!("packet {number}: {error}"));
        let verdict = checker.check(&packet);
        assert_eq!(checker.errors(), 0, "packet {number}: {verdict:?}");
        since_tables = since_tables.saturating_add(1);
        if packet.pid == 0 {
            let section = &packet.payload[1..];
            pmt_pid = u16::from_be_bytes([section[10] & 0x1F, section[11]]);
        } else if packet.pid == pmt_pid && pmt_pid != 0 {
            (tables_came, since_tables) = (true, 0);
        }
        // By the newest clock or stamp, whichever is later: a picture that a busy machine has late is older than the sound before it, and
        // tables that come by time, with a clock, are ahead of what is late. Stamps are ahead of the clock by the time in the buffer.
        let stamp = stamp_of(&packet).map(|stamp| stamp.saturating_sub(ahead));
        if let Some(time) = packet.pcr().map(Pcr::base).or(stamp) {
            let now = newest.map_or(time, |newest| newest.max(time));
            newest = Some(now);
            if std::mem::take(&mut tables_came) {
                tables_at = Some(now);
            }
            longest = longest.max(now - tables_at.unwrap_or(now));
        }
        if let Some(pcr) = packet.pcr() {
            if let Some(last) = clock {
                assert!(pcr.since(last) < Pcr::WRAP / 2, "packet {number}: the clock goes backwards");
            }
            clock = Some(pcr);
        }
        // A key frame's first packet announces itself, and the tables stand right before it.
        if packet.random_access()
            && packet.unit_start
            && packet.payload.get(3).is_some_and(|id| id & 0xF0 == 0xE0)
        {
            assert!(since_tables <= 1, "packet {number}: a key frame without tables before it");
        }
    }
    assert!(clock.is_some() && pmt_pid != 0, "no clock or no tables");
    // A tick of the picture rate (40 ms at 25) is the grain of this measurement.
    assert!(longest <= 145 * 90, "{} ms without tables", longest / 90);
}

/// Checks that so many pictures at 25 a second are there, each at its time. The pattern is live: a picture that a busy
/// machine does not get done is left out, which the encoder `said` then.
fn assert_all_of(pictures: &[i64], all: usize, said: &str) {
    let left_out = left_out(said) as usize;
    assert!(left_out * 2 < all, "{left_out} of {all} pictures are left out: is this machine that busy?");
    assert_eq!(pictures.len(), all - left_out, "{left_out} are left out");
    for stamp in pictures {
        let ticks = stamp - pictures[0];
        assert!((ticks + 1) % 3600 <= 2, "a picture {ticks} ticks after the first: {pictures:?}");
    }
}

#[test]
fn the_test_pattern_becomes_a_good_transport_stream() {
    let outcome = glassline(&["encode", "test:320x180@25", "--limit", "100", "-"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let contents = contents(&outcome.stdout);
    assert_all_of(&contents.pictures, 100, &outcome.stderr);
    assert!(contents.keys[0] && contents.keys.iter().filter(|key| **key).count() >= 3, "{:?}", contents.keys);
    assert!(contents.sounds.len() > 150, "{} audio frames in 4 s", contents.sounds.len());
    // Sound and picture start together.
    assert!((contents.sounds[0] - contents.pictures[0]).abs() < 9000, "{contents:?}");
}

/// A y4m file of 30 pictures, 64×48, each of one grey.
fn small_y4m() -> Vec<u8> {
    let mut bytes = b"YUV4MPEG2 W64 H48 F30:1 Ip A1:1 C420jpeg\n".to_vec();
    for number in 0..30u8 {
        bytes.extend_from_slice(b"FRAME\n");
        bytes.extend(std::iter::repeat_n(40 + number * 4, 64 * 48));
        bytes.extend(std::iter::repeat_n(128, 64 * 48 / 2));
    }
    bytes
}

#[test]
fn a_y4m_file_becomes_a_transport_stream() {
    let scratch = Scratch::new("y4m");
    let (input, output) = (scratch.write("in.y4m", small_y4m()), scratch.file("out.ts"));
    let outcome = glassline(&["encode", &input, &output]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let found = contents(&std::fs::read(&output).unwrap());
    assert_eq!((found.pictures.len(), found.sounds.len()), (30, 0));
    assert!(
        found.pictures.windows(2).all(|pair| (pair[1] - pair[0] - 3000).abs() <= 1),
        "{:?}",
        found.pictures
    );
}

#[test]
fn y4m_on_standard_input_becomes_a_transport_stream_on_standard_output() {
    let mut child = Command::new(GLASSLINE)
        .args(["encode", "-", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || {
        // Chopped where no boundary is.
        small_y4m().chunks(777).for_each(|bytes| input.write_all(bytes).unwrap());
    });
    let outcome = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    assert!(outcome.status.success());
    assert_eq!(contents(&outcome.stdout).pictures.len(), 30);
}

#[test]
fn several_outputs_get_the_same() {
    let scratch = Scratch::new("outputs");
    let (one, two) = (scratch.file("one.ts"), scratch.file("two.ts"));
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(std::time::Duration::from_millis(100))).unwrap();
    let udp = format!("udp://{}", receiver.local_addr().unwrap());
    let outcome = glassline(&["encode", "test:320x180@25", "--limit", "50", &one, &two, &udp, "null:"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let bytes = std::fs::read(&one).unwrap();
    assert_eq!(bytes, std::fs::read(&two).unwrap());
    assert_all_of(&contents(&bytes).pictures, 50, &outcome.stderr);
    // What the socket's buffer held: whole packets, at most seven a datagram, from the start on.
    let (mut datagram, mut received) = (vec![0; 65536], Vec::new());
    while let Ok(count) = receiver.recv(&mut datagram) {
        assert!(count > 0 && count % 188 == 0 && count <= 7 * 188, "a datagram of {count} bytes");
        received.extend_from_slice(&datagram[..count]);
    }
    assert!(received.len() > 50_000 || received.len() == bytes.len(), "{} bytes by UDP", received.len());
    assert!(bytes.starts_with(&received[..50_000.min(received.len())]));
}

#[test]
fn statistics_say_what_was_added() {
    let outcome = glassline(&["encode", "test:320x180@25", "--limit", "50", "--stats", "null:"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let said = outcome.text() + &outcome.stderr;
    assert!(said.contains("p99"), "{said}");
}

fn encoder(server: &Server, name: &str) -> Running {
    let url = server.url(&format!("/live/{name}.ts"));
    Running::start(Command::new(GLASSLINE).args(["encode", "test:320x180@25", &url]))
}

/// Reads the stream until it has `bytes`.
pub(crate) fn watch(server: &Server, name: &str, bytes: usize) -> Vec<u8> {
    let mut viewer = connect(server.address());
    write!(viewer, "GET /live/{name}.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(read_head(&mut viewer).status, 200);
    let mut got = vec![0; bytes / 188 * 188];
    viewer.read_exact(&mut got).unwrap();
    got
}

#[test]
fn an_encoder_s_stream_reaches_a_viewer() {
    let server = serve(&[]);
    let mut encoder = encoder(&server, "enc");
    server.wait_for_pictures("enc");
    let found = contents_of_a_part(&watch(&server, "enc", 400_000));
    assert!(found.keys[0] && found.pictures.len() > 10);
    encoder.signal("TERM");
    assert_eq!(encoder.wait().code(), Some(0), "{}", encoder.output());
    until("the stream to be off", || server.stream("enc").is_none_or(|stream| stream["live"] == false));
}

#[test]
fn an_encoder_survives_the_relay_s_restart() {
    let mut server = serve(&[]);
    let address = server.address();
    let mut encoder = encoder(&server, "on");
    server.wait_for_pictures("on");
    for _ in 0..2 {
        server.process.kill();
        drop(server);
        server = Server::start_at(GLASSLINE, &address.to_string(), &[]);
        server.wait_for_pictures("on");
        let found = contents_of_a_part(&watch(&server, "on", 200_000));
        assert!(found.keys[0], "begins with a key frame");
        assert!(encoder.ended().is_none(), "{}", encoder.output());
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let command =
        format!("{GLASSLINE} encode test:320x180@25 - | head -c 100000 | wc -c; echo ${{PIPESTATUS[0]}}");
    let outcome = run("bash", &["-c", &command], 60);
    assert_eq!(outcome.text().split_whitespace().collect::<Vec<_>>(), ["100000", "0"], "{}", outcome.stderr);
}
