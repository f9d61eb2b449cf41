//! Telemetry of an autopilot that is sent beside a test's pictures, and received into a stream.

use crate::program::{Running, Scratch};
use crate::wait::until_some;
use serde_json::Value;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

/// A frame of MAVLink, version 2. `extra` stands for the layout of the message under the checksum.
#[must_use]
pub fn frame(system: u8, component: u8, message: u32, extra: u8, payload: &[u8]) -> Vec<u8> {
    let [low, middle, high, _] = message.to_le_bytes();
    let mut frame = vec![0xfd, payload.len() as u8, 0, 0, 0, system, component, low, middle, high];
    frame.extend_from_slice(payload);
    // CRC-16/MCRF4XX, bit by bit.
    let mut crc = 0xffff_u16;
    for &byte in frame[1..].iter().chain(&[extra]) {
        crc ^= u16::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 0 { crc >> 1 } else { crc >> 1 ^ 0x8408 };
        }
    }
    frame.extend_from_slice(&crc.to_le_bytes());
    frame
}

/// `HEARTBEAT` of a ground station.
#[must_use]
pub fn ground_station() -> Vec<u8> {
    frame(255, 190, 0, 50, &[0, 0, 0, 0, 6, 8, 0, 4, 3])
}

/// `ATTITUDE` of vehicle 1, in degrees.
#[must_use]
pub fn attitude(boot_ms: u32, roll: f32, pitch: f32, yaw: f32) -> Vec<u8> {
    let mut payload = boot_ms.to_le_bytes().to_vec();
    payload.extend([roll, pitch, yaw].iter().flat_map(|angle| angle.to_radians().to_le_bytes()));
    payload.resize(28, 1);
    frame(1, 1, 30, 39, &payload)
}

/// `GLOBAL_POSITION_INT` of vehicle 1: degrees × 10⁷, millimetres.
#[must_use]
pub fn position(boot_ms: u32, latitude_e7: i32, longitude_e7: i32, altitude_mm: i32) -> Vec<u8> {
    let mut payload = boot_ms.to_le_bytes().to_vec();
    payload
        .extend([latitude_e7, longitude_e7, altitude_mm, 0, 0].iter().flat_map(|field| field.to_le_bytes()));
    // Down at no speed, and a heading that is not known.
    payload.extend_from_slice(&[0, 0, 0xff, 0xff]);
    frame(1, 1, 33, 104, &payload)
}

/// What was sent and received.
pub struct Flown {
    /// The receiver's report at the end.
    pub report: Value,
    /// What the receiver has said.
    pub receiver: String,
}

/// The channel of [`fly`], with the times at which messages were read,
pub const STAMPED: &str = "0:stamped,in=udp:127.0.0.1:0";
/// and without.
pub const UNSTAMPED: &str = "0:in=udp:127.0.0.1:0";

/// Sends pictures of a test, and beside them on the channel that `send` begins with the datagrams that `feed` makes, 50 a second by their number, until the
/// receiver has put so many units of telemetry into its stream.
///
/// # Panics
/// One of the ends fails, or it takes too long.
pub fn fly(
    glassline: &str,
    [receive, send]: [&[&str]; 2],
    mut feed: impl FnMut(u32) -> Vec<u8>,
    units: u64,
) -> Flown {
    let scratch = Scratch::new("flight");
    let stats = scratch.file("receive.jsonl");
    let mut receiver =
        Running::start(Command::new(glassline).args(["receive", "link://127.0.0.1:0"]).args(receive).args([
            "--insecure",
            "--json",
            "--stats",
            &stats,
        ]));
    let address = said(&mut receiver, "listening address=");
    let to = format!("link://{address}");
    let mut sender = Running::start(
        Command::new(glassline).args(["send", "test:320x180@25", &to, "--insecure", "--channel"]).args(send),
    );
    let autopilot = said(&mut sender, "datagrams are taken channel=0 address=");
    let line = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut number = 0;
    until_some("telemetry in the stream", || {
        for _ in 0..5 {
            line.send_to(&feed(number), &autopilot).expect("a datagram is sent");
            number += 1;
            std::thread::sleep(Duration::from_millis(20));
        }
        let text = std::fs::read_to_string(&stats).unwrap_or_default();
        let newest: Value = text.lines().rev().find_map(|line| serde_json::from_str(line).ok())?;
        (newest["klv"]["units"].as_u64()? >= units).then_some(())
    });
    for end in [&mut sender, &mut receiver] {
        end.signal("TERM");
        assert_eq!(end.wait().code(), Some(0), "{}", end.output());
    }
    let receiver = receiver.output();
    let report = receiver.lines().rev().find_map(|line| serde_json::from_str(line).ok());
    Flown { report: report.unwrap_or_else(|| panic!("no report: {receiver}")), receiver }
}

/// What a program says behind these words, up to the next space.
fn said(running: &mut Running, words: &str) -> String {
    until_some(words, || {
        let (output, ended) = (running.output(), running.ended());
        let found = output.split_once(words).and_then(|(_, rest)| rest.split_whitespace().next());
        assert!(found.is_some() || ended.is_none(), "it ended with {ended:?}: {output}");
        found.map(str::to_owned)
    })
}
