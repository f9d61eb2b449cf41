//! A drone: live video over a link, with telemetry and commands beside it; each picture is as large as the network
//! carries at that moment. One end has a camera (here the test pattern) and an autopilot (here it sends a heartbeat
//! of MAVLink 2 ten times per second). The other end has a screen (here a line of text per second) and a pilot (here
//! three commands).
//!
//! ```text
//! cargo run --release -p glassline-call --example direct                            both ends in one process
//! cargo run --release -p glassline-call --example direct receive 0.0.0.0:7000       one here …
//! cargo run --release -p glassline-call --example direct send 192.0.2.1:7000        … and one there
//! ```

use bytes::Bytes;
use glassline_call::direct::{SendSettings, SenderSettings, Shown, Sink, VideoReceiver, VideoSender};
use glassline_call::link::session::{Channel, Extent, Mode, Session};
use glassline_call::link::{Endpoint, Local};
use glassline_io::clock::Clock;
use glassline_media::{FrameRate, Size, Stage};
use glassline_studio::capture::{Length, Source};
use glassline_transport::link::{Credentials, Fec, Key, Options, Settings};
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// The pilot's commands: sent before everything else, reliable and in order.
const COMMANDS: u8 = 0;
/// The drone's state: lost values are not sent again, and only the newest value waits.
const TELEMETRY: u8 = 1;
/// Number and payload of an autopilot's heartbeat: a quadcopter that is armed and active.
const HEARTBEAT: u8 = 0;
const QUADCOPTER: [u8; 9] = [0, 0, 0, 0, 2, 3, 0x80, 4, 3];

/// A real program reads the key from a file (`glassline key new`).
fn settings(name: &str) -> Settings {
    Settings { name: name.into(), ..Settings::new(Credentials::Shared(Key([7; 32]))) }
}

/// A screen that prints text.
#[derive(Default)]
struct Screen(u64);

impl Sink for Screen {
    fn show(&mut self, shown: &Shown) -> io::Result<()> {
        self.0 += 1;
        if self.0.is_multiple_of(25) {
            let age = shown.stamps.between(Stage::Captured, Stage::Decoded).unwrap_or_default();
            println!("picture {}, {age:.1?} old", self.0);
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        println!("{} pictures", self.0);
        Ok(())
    }
}

/// A message of MAVLink 2. `extra` is the byte that the message's definition adds to the checksum.
fn mavlink(sequence: u8, id: u8, payload: &[u8], extra: u8) -> Bytes {
    let mut message = vec![0xfd, payload.len() as u8, 0, 0, sequence, 1, 1, id, 0, 0];
    message.extend_from_slice(payload);
    // CRC-16/MCRF4XX over everything except the first byte, and over the extra byte.
    let checksum = message[1..].iter().chain([&extra]).fold(0xffffu16, |crc, byte| {
        let low = byte ^ crc.to_le_bytes()[0];
        let low = u16::from(low ^ (low << 4));
        (crc >> 8) ^ (low << 8) ^ (low << 3) ^ (low >> 4)
    });
    message.extend_from_slice(&checksum.to_le_bytes());
    message.into()
}

fn commands() -> Options {
    Options { priority: 0, ..Options::default() }
}

fn telemetry() -> Options {
    Options { reliable: false, newest: true, priority: 1, ..Options::default() }
}

/// Shows the received pictures until the sender has gone, and sends the drone three commands.
fn receive(at: SocketAddr) -> Result<Session, Box<dyn Error>> {
    let receiver = VideoReceiver::new(Box::<Screen>::default(), Default::default())?;
    let endpoint = Endpoint::listen(settings("ground"), &[Local::at(at)])?;
    let ((pilot, asked), (told_by, told)) = (channel(), channel::<Bytes>());
    let channels = vec![
        Channel::new(COMMANDS, commands()).with_input(asked),
        Channel::new(TELEMETRY, telemetry()).with_output(told_by),
    ];
    thread::spawn(move || {
        for command in ["arm", "climb", "land"] {
            thread::sleep(Duration::from_secs(1));
            if pilot.send(Bytes::from(command)).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || println!("the autopilot has said {} times that it is there", told.iter().count()));
    Ok(Session::open_with(
        endpoint,
        Mode::Listen { once: true },
        channels,
        vec![Arc::new(receiver)],
        Extent::Inputs,
    )?)
}

/// Sends for four seconds.
fn send(to: SocketAddr) -> Result<(), Box<dyn Error>> {
    let rate = FrameRate::new(25, 1).ok_or("a rate")?;
    let length = Length { pictures: Some(100), time: None };
    let camera = Source::test(Size::new(640, 360)?, rate, None, length, Clock::new());
    let send = SendSettings { sender: SenderSettings::new(1, rate), parity: Fec::WhenLossy(25), threads: 2 };
    let sender = Arc::new(VideoSender::new(camera, None, send, None)?);
    let endpoint = Endpoint::open(settings("air"), &[Local::towards(to)])?;
    let mode = Mode::Connect { to: vec![to], give_up: true, spares: Vec::new() };
    let ((autopilot, told), (asked_by, asked)) = (channel(), channel::<Bytes>());
    let channels = vec![
        Channel::new(TELEMETRY, telemetry()).with_input(told),
        Channel::new(COMMANDS, commands()).with_output(asked_by),
    ];
    thread::spawn(move || {
        let heartbeats = (0..40).map(|number| mavlink(number, HEARTBEAT, &QUADCOPTER, 50));
        for heartbeat in heartbeats {
            thread::sleep(Duration::from_millis(100));
            if autopilot.send(heartbeat).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || asked.iter().for_each(|command| println!("told to {command:?}")));
    Session::open_with(endpoint, mode, channels, vec![Arc::clone(&sender) as _], Extent::Inputs)?.join()?;
    println!("{:?}", sender.statistics().counters);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["receive", at] => Ok(receive(at.parse()?)?.join()?),
        ["send", to] => send(to.parse()?),
        _ => {
            let ground = receive("127.0.0.1:0".parse()?)?;
            send(ground.local_addresses()[0])?;
            Ok(ground.join()?)
        }
    }
}
