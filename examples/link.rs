//! A link session: messages are sent on a channel and come back from the other end. If the link is lost, it is made
//! again.
//!
//! ```text
//! cargo run -p glassline-call --example link                            both ends in one process
//! cargo run -p glassline-call --example link listen 0.0.0.0:7000        one here …
//! cargo run -p glassline-call --example link connect 192.0.2.1:7000     … and one there
//! ```

use bytes::Bytes;
use glassline_call::link::session::{Channel, Mode, Session};
use glassline_call::link::{Endpoint, Local};
use glassline_transport::link::{Credentials, Key, Options, Settings};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

/// Reliable and in order: these are the defaults of a channel's options.
const CHAT: u8 = 1;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A real program reads the key from a file (`glassline key new`).
fn settings(name: &str) -> Settings {
    Settings { name: name.into(), ..Settings::new(Credentials::Shared(Key([7; 32]))) }
}

/// Sends the messages of each peer back to all of them. Every `session::Input` can be the input of a channel.
fn listen(at: SocketAddr) -> Result<Session, Box<dyn Error>> {
    let (output, input) = mpsc::channel::<Bytes>();
    let chat = Channel::new(CHAT, Options::default()).with_input(input).with_output(output);
    let endpoint = Endpoint::listen(settings("listener"), &[Local::at(at)])?;
    Ok(Session::open(endpoint, Mode::Listen { once: true }, vec![chat])?)
}

/// Sends three messages and prints what comes back.
fn connect(to: SocketAddr) -> Result<(), Box<dyn Error>> {
    let (messages, input) = mpsc::channel();
    let (output, answers) = mpsc::channel();
    let chat = Channel::new(CHAT, Options::default()).with_input(input).with_output(output);
    let endpoint = Endpoint::open(settings("caller"), &[Local::towards(to)])?;
    let session = Session::open(
        endpoint,
        Mode::Connect { to: vec![to], give_up: true, spares: Vec::new() },
        vec![chat],
    )?;
    for text in ["one", "two", "three"] {
        messages.send(Bytes::from(text))?;
        println!("{}", String::from_utf8_lossy(&answers.recv_timeout(PATIENCE)?));
    }
    session.stopper().stop();
    Ok(session.join()?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["listen", at] => Ok(listen(at.parse()?)?.join()?),
        ["connect", to] => connect(to.parse()?),
        _ => connect(listen("127.0.0.1:0".parse()?)?.local_addresses()[0]),
    }
}
