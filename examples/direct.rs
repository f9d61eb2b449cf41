//! Live video over a link, each picture as large as the network takes: a camera (here the test pattern) at one end, a screen (here a
//! line of text a second) at the other.
//!
//! ```text
//! cargo run --release -p glassline-engine --example direct                            both ends in one process
//! cargo run --release -p glassline-engine --example direct receive 0.0.0.0:7000       one here …
//! cargo run --release -p glassline-engine --example direct send 192.0.2.1:7000        … and one there
//! ```

use glassline_engine::capture::{Length, Source};
use glassline_engine::direct::{SendSettings, SenderSettings, Shown, Sink, VideoReceiver, VideoSender};
use glassline_engine::link::session::{Mode, Session};
use glassline_engine::link::{Endpoint, Local};
use glassline_io::clock::Clock;
use glassline_media::{FrameRate, Size, Stage};
use glassline_transport::link::{Credentials, Fec, Key, Settings};
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// A program of your own reads the key from a file (`glassline key new`).
fn settings(name: &str) -> Settings {
    Settings { name: name.into(), ..Settings::new(Credentials::Shared(Key([7; 32]))) }
}

/// A screen of letters.
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

/// Shows what comes until the sender has gone.
fn receive(at: SocketAddr) -> Result<Session, Box<dyn Error>> {
    let receiver = VideoReceiver::new(Box::<Screen>::default(), Default::default())?;
    let endpoint = Endpoint::listen(settings("ground"), &[Local::at(at)])?;
    Ok(Session::open_with(endpoint, Mode::Listen { once: true }, vec![], vec![Arc::new(receiver)])?)
}

/// Sends four seconds.
fn send(to: SocketAddr) -> Result<(), Box<dyn Error>> {
    let rate = FrameRate::new(25, 1).ok_or("a rate")?;
    let length = Length { pictures: Some(100), time: None };
    let camera = Source::test(Size::new(640, 360)?, rate, None, length, Clock::new());
    let send = SendSettings { sender: SenderSettings::new(1, rate), parity: Fec::WhenLossy(25), threads: 2 };
    let sender = Arc::new(VideoSender::new(camera, None, send, None)?);
    let endpoint = Endpoint::open(settings("air"), &[Local::towards(to)])?;
    let mode = Mode::Connect { to, give_up: true };
    Session::open_with(endpoint, mode, vec![], vec![Arc::clone(&sender) as _])?.join()?;
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
