//! Channels beside the pictures that keep the pictures' clock.

use crate::GLASSLINE;
use crate::direct::receive;
use glassline_delivery::playlist::date_time_micros;
use glassline_io::clock::Clock;
use glassline_media::Utc;
use glassline_test_support::loopback::free_udp;
use glassline_test_support::program::{Running, Scratch};
use glassline_test_support::wait::{PATIENCE, until, until_some};
use serde_json::Value;
use std::fs::File;
use std::io::Write;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Instant;

const SOURCE: &str = "test:320x180@25";
const CLOCK: &str = "GLASSLINE_TEST_WALL_CLOCK";
/// How far ahead the sender's clock is in a test. Nothing takes so long.
const AHEAD_S: u64 = 3600;

/// A FIFO that a program reads from, and its writing end; it stays open.
fn fifo(scratch: &Scratch) -> (String, File) {
    let path = scratch.file("telemetry");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let file = File::options().read(true).write(true).open(&path).unwrap();
    (path, file)
}

/// Whole lines of JSON in a file so far.
fn lines(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A time in a line. Times of one form are in the order of their texts.
fn time<'a>(line: &'a Value, name: &str) -> &'a str {
    line[name].as_str().unwrap_or_else(|| panic!("no {name}: {line}"))
}

/// What the clock of this machine says, and one that is so far ahead of it.
fn now(ahead_s: u64) -> String {
    date_time_micros(Utc::from_nanos(Clock::new().utc().as_nanos() + ahead_s * 1_000_000_000))
}

fn end(processes: [&mut Running; 2]) {
    for process in processes {
        process.signal("TERM");
        assert_eq!(process.wait().code(), Some(0), "{}", process.output());
    }
}

/// Each line is written when the one before it, with the picture that was on screen then, has come out at the other end; so
/// that picture was captured before the line was read.
#[test]
fn telemetry_has_a_time_between_those_of_the_pictures_around_it() {
    // With clocks that agree, and by the sender's own clock, whatever the receiver's says.
    let aheads: &[u64] = if cfg!(debug_assertions) { &[0, AHEAD_S] } else { &[0] };
    for &ahead in aheads {
        let scratch = Scratch::new("telemetry");
        let (out, stats) = (scratch.file("out.jsonl"), scratch.file("receive.jsonl"));
        let (path, mut telemetry) = fifo(&scratch);
        let channel = format!("7:lines,json,out={out}");
        let (mut receiver, address) =
            receive("127.0.0.1:0", &["null:", "--insecure", "--stats", &stats, "--channel", &channel]);
        let (to, channel) = (format!("link://{address}"), format!("7:lines,stamped,in={path}"));
        let mut sender = Running::start(
            Command::new(GLASSLINE)
                .args(["send", SOURCE, &to, "--insecure", "--channel", &channel])
                .env(CLOCK, format!("{ahead}s")),
        );
        let mut sent = 0;
        let mut exchange = || {
            let before = now(ahead);
            writeln!(telemetry, "position {sent}").unwrap();
            let line = until_some("a line", || lines(&out).into_iter().nth(sent));
            assert_eq!(line["text"], format!("position {sent}"));
            let (read, after) = (time(&line, "time"), now(ahead));
            assert!(*before <= *read && *read <= *after, "{before} {line} {after}");
            sent += 1;
            line
        };
        let first =
            until_some("a picture on screen", || Some(exchange()).filter(|line| !line["picture"].is_null()));
        let told = exchange();
        assert!(time(&first, "picture") <= time(&told, "time"), "{first} {told}");
        let mut last = told.clone();
        let deadline = Instant::now() + PATIENCE;
        while time(&last, "picture") <= time(&told, "time") {
            assert!(Instant::now() < deadline, "no later picture: {last}");
            let next = exchange();
            assert!(time(&last, "picture") <= time(&next, "time"), "{last} {next}");
            last = next;
        }
        let figures = until_some("ages in the figures", || {
            exchange();
            let channels =
                lines(&stats).into_iter().flat_map(|line| line["links"].as_array().cloned().unwrap());
            let mut channels = channels.flat_map(|link| link["channels"].as_array().cloned().unwrap());
            channels.find(|channel| !channel["age_ms"].is_null() && !channel["ahead_of_picture_ms"].is_null())
        });
        assert_eq!(figures["id"], 7, "{figures}");
        let (age, ahead_of_picture) = (&figures["age_ms"]["p95"], &figures["ahead_of_picture_ms"]);
        assert!(age.as_f64() > Some(0.0) && age.as_f64() < Some(30_000.0), "{figures}");
        assert!(ahead_of_picture.as_f64().is_some_and(|ahead| ahead.abs() < 30_000.0), "{figures}");
        end([&mut sender, &mut receiver]);
    }
}

#[test]
fn what_waited_for_the_link_keeps_the_time_at_which_it_was_read() {
    let scratch = Scratch::new("telemetry");
    let (out, stats) = (scratch.file("out.jsonl"), scratch.file("send.jsonl"));
    let (path, mut telemetry) = fifo(&scratch);
    let address = free_udp().to_string();
    let (to, channel) = (format!("link://{address}"), format!("7:lines,stamped,in={path}"));
    let mut sender = Running::start(Command::new(GLASSLINE).args([
        "send",
        SOURCE,
        &to,
        "--insecure",
        "--stats",
        &stats,
        "--channel",
        &channel,
    ]));
    let before = now(0);
    telemetry.write_all(b"armed\n").unwrap();
    until("the line is read", || {
        lines(&stats).last().is_some_and(|line| line["links"][0]["channels"][0]["sent"] == 1)
    });
    let after = now(0);
    let channel = format!("7:lines,json,out={out}");
    let (mut receiver, _) = receive(&address, &["null:", "--insecure", "--channel", &channel]);
    let line = until_some("the line", || lines(&out).into_iter().next());
    let read = time(&line, "time");
    assert!(*before <= *read && *read <= *after, "{before} {line} {after}");
    assert!(*after <= *time(&line, "received"), "{after} {line}");
    end([&mut sender, &mut receiver]);
}

#[test]
fn a_ground_station_gets_its_datagrams_as_they_were_and_messages_without_times_are_told() {
    let scratch = Scratch::new("telemetry");
    let out = scratch.file("out.jsonl");
    let station = UdpSocket::bind("127.0.0.1:0").unwrap();
    station.set_read_timeout(Some(PATIENCE)).unwrap();
    // Only one end says that the messages have times; the other way none have.
    let to_station = format!("7:out=udp:{},in=udp:127.0.0.1:0", station.local_addr().unwrap());
    let (mut receiver, address) = receive("127.0.0.1:0", &["null:", "--insecure", "--channel", &to_station]);
    let taken = |running: &Running| -> Option<String> {
        let output = running.output();
        let (_, rest) = output.split_once("datagrams are taken channel=7 address=")?;
        Some(rest.split_whitespace().next()?.to_owned())
    };
    let (to, channel) = (format!("link://{address}"), format!("7:stamped,json,in=udp:127.0.0.1:0,out={out}"));
    let mut sender = Running::start(Command::new(GLASSLINE).args([
        "send",
        SOURCE,
        &to,
        "--insecure",
        "--channel",
        &channel,
    ]));
    let autopilot = until_some("where the autopilot sends to", || taken(&sender));
    // As MAVLink's heartbeat begins; text; nothing; the largest that goes over loopback unfragmented.
    for datagram in [&b"\xfd\x09\0\0\0\x01\x01\0\0\0"[..], b"text", b"", &[0x80; 9000]] {
        station.send_to(datagram, &autopilot).unwrap();
        let mut room = vec![0; 65_536];
        let length = station.recv(&mut room).unwrap();
        assert!(room[..length] == *datagram, "{length} bytes");
    }
    let ground = until_some("where the ground station sends to", || taken(&receiver));
    station.send_to(b"\xfd\xff", ground).unwrap();
    let line = until_some("the answer", || lines(&out).into_iter().next());
    assert_eq!(
        (&line["time"], line["base64"].as_str(), line.get("text")),
        (&Value::Null, Some("/f8="), None)
    );
    assert_eq!(line.get("picture"), None, "none are shown here: {line}");
    until("it is told", || sender.output().contains("come without the times at which they were read"));
    assert!(!receiver.output().contains("without the times"), "{}", receiver.output());
    end([&mut sender, &mut receiver]);
}
