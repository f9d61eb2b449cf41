//! A drone and its ground station over one link: video, of which only the newest frame counts, telemetry that may be
//! lost, and commands that may not.
//!
//! ```text
//! cargo run --release -p glassline-call --example drone                          both in one process
//! cargo run --release -p glassline-call --example drone ground 0.0.0.0:7000      one here …
//! cargo run --release -p glassline-call --example drone air 127.0.0.1:7000       … and one there
//! ```
//! `glassline lab link --up 3M --delay 50ms --queue 256p --far '… ground 100.64.0.1:7000' -- … air 100.64.0.1:7000`
//! shows what it does on a bad network.

use glassline_call::link::{Channels, Endpoint, Link, Local};
use glassline_transport::link::{Credentials, Error, Key, Options, Settings};
use std::error::Error as Failure;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The pilot's commands: sent before everything else, reliable and in order.
pub(crate) const COMMANDS: u8 = 0;
/// The drone's state: lost values are not sent again, and only the newest value waits.
pub(crate) const TELEMETRY: u8 = 1;
/// The drone's video: a waiting frame is replaced by a newer one; a frame that was sent in part is finished, unless
/// it is too old.
pub(crate) const VIDEO: u8 = 2;

/// The time from one frame to the next.
const FRAME: Duration = Duration::from_millis(20);
/// How long to wait for the other end.
const PATIENCE: Duration = Duration::from_secs(30);
/// The share of the path's rate for a frame.
const SHARE: f64 = 0.8;

/// What the ground station has received.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Number of received frames of video.
    pub(crate) frames: u64,
    /// The number in the last frame.
    pub(crate) last_frame: u64,
    /// Number of received telemetry values.
    pub(crate) telemetry: u64,
}

/// A real program reads the key from a file (`glassline key new`).
fn settings(name: &str) -> Settings {
    Settings { name: name.as_bytes().to_vec(), ..Settings::new(Credentials::Shared(Key([7; 32]))) }
}

fn commands() -> Options {
    Options { priority: 0, ..Options::default() }
}

fn telemetry() -> Options {
    Options { reliable: false, newest: true, priority: 1, ..Options::default() }
}

fn video() -> Options {
    Options {
        reliable: false,
        newest: true,
        priority: 2,
        cancel_after: Some(Duration::from_millis(300)),
        max_size: 1 << 20,
        ..Options::default()
    }
}

/// The drone: sends video until it gets the command to land. Returns the received commands.
pub(crate) fn air(link: &Link) -> Result<Vec<String>, Error> {
    link.open(TELEMETRY, telemetry())?;
    link.open(VIDEO, video())?;
    let (mut given, began) = (Vec::new(), Instant::now());
    for number in 0u64.. {
        // A frame is as large as the path carries in the time of a frame. While that is not known, it is small.
        let budget = (link.budget(VIDEO, FRAME)? as f64 * SHARE) as usize;
        let mut frame = vec![0; budget.clamp(2_000, 60_000)];
        frame[..8].copy_from_slice(&number.to_be_bytes());
        link.send(VIDEO, frame)?;
        link.send(TELEMETRY, format!("altitude {} m", number % 120))?;
        // The drone waits for commands until the next frame is due.
        let next = FRAME * (number as u32 + 1);
        while let Some(left) = next.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
            let Some(command) = link.receive_timeout(COMMANDS, left)? else { break };
            given.push(String::from_utf8_lossy(&command).into_owned());
            if given.last().is_some_and(|command| command == "land") {
                link.flush(PATIENCE)?;
                return Ok(given);
            }
        }
    }
    Ok(given)
}

/// The ground station: receives `frames` frames, sends a command from time to time, and finally the command to land.
pub(crate) fn ground(link: &Link, frames: u64) -> Result<Seen, Error> {
    link.open(COMMANDS, commands())?;
    link.send(COMMANDS, "arm")?;
    let (mut seen, all) = (Seen::default(), Channels::ALL);
    while seen.frames < frames {
        match link.receive_any(all, PATIENCE)? {
            Some((VIDEO, frame)) if frame.len() >= 8 => {
                let number = u64::from_be_bytes(frame[..8].try_into().expect("eight bytes"));
                (seen.frames, seen.last_frame) = (seen.frames + 1, number);
                if seen.frames.is_multiple_of(10) {
                    link.send(COMMANDS, format!("climb {}", seen.frames))?;
                }
            }
            Some((TELEMETRY, _)) => seen.telemetry += 1,
            Some(_) => {}
            None => break,
        }
    }
    link.send(COMMANDS, "land")?;
    // The drone ends the link when it has received that command. Until then it may still have earlier commands to
    // receive.
    while !link.has_ended() && link.wait_event(PATIENCE).is_some() {}
    Ok(seen)
}

/// Both ends in one process: returns what the ground station received, and the commands that the drone received.
pub(crate) fn fly(frames: u64) -> Result<(Seen, Vec<String>), Box<dyn Failure>> {
    let any = [Local::at("127.0.0.1:0".parse()?)];
    let station = Endpoint::listen(settings("ground"), &any)?;
    let address = station.local_addresses()[0];
    let drone = std::thread::spawn(move || -> Result<Vec<String>, String> {
        let endpoint = Endpoint::open(settings("drone"), &any).map_err(|error| error.to_string())?;
        let link = endpoint.connect(address).map_err(|error| error.to_string())?;
        air(&link).map_err(|error| error.to_string())
    });
    let seen = ground(&station.accept()?, frames)?;
    let given = drone.join().map_err(|_| "the drone has crashed")??;
    Ok((seen, given))
}

fn say(seen: &Seen) {
    println!("{} frames, the last one number {}; {} values", seen.frames, seen.last_frame, seen.telemetry);
}

fn main() -> Result<(), Box<dyn Failure>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            let (seen, given) = fly(200)?;
            say(&seen);
            println!("commands: {given:?}");
        }
        ["ground", address] => {
            let station = Endpoint::listen(settings("ground"), &[Local::at(address.parse()?)])?;
            say(&ground(&station.accept()?, 200)?);
        }
        ["air", address] => {
            let station: SocketAddr = address.parse()?;
            let endpoint = Endpoint::open(settings("drone"), &[Local::towards(station)])?;
            println!("{:?}", air(&endpoint.connect(station)?)?);
        }
        _ => return Err("drone [ground ADDR:PORT | air ADDR:PORT]".into()),
    }
    Ok(())
}
