//! A new program takes the place of a running one: how the two meet, and what they say to each other.
//!
//! ```text
//! old                                                     new: serve --upgrade
//!   waits under an abstract name  ◄──────── hello ──────    has read its configuration
//!   halts ─────────────── all that it has ────────────►    builds everything of it
//!     ▲ goes on ◄──────── why not, or nothing ─────────      or fails
//!   ends  ◄──────────────── ready ─────────────────────
//!     ───────────────────── go ───────────────────────►    runs
//! ```
//! Where it has connections over TLS the old one goes on with their TLS alone, and ends with the last of them.
//! Until `go` the old one can go on as if nothing had been; whoever does not hear what it waits for gives up.

use super::listeners;
use crate::config::Config;
use crate::failure;
use anyhow::{Context, Result, bail};
use glassline_engine::relay::{DrainingTls, HandoverError, Relay};
use glassline_io::handover::Channel;
use glassline_io::privileges;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::time::Duration;

/// How long a new program waits for a server to be there.
const MEETING_TRIES: u32 = 25;
const MEETING_RETRY: Duration = Duration::from_millis(10);

/// Tells a new program that the old one has started where to meet.
const MEETING: &str = "GLASSLINE_MEETING";
const HELLO: &[u8] = b"glassline: take over";
const READY: &[u8] = b"ready";
const GO: &[u8] = b"go";
/// What is said is short, but for the one message.
const WORDS_BYTES: usize = 4096;
const MESSAGE_BYTES: usize = 1 << 30;
/// Nothing takes this long between two processes of one machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where a server is met that was told to listen first on `configured` and does so on `actual`.
pub(super) fn name(configured: SocketAddr, actual: SocketAddr) -> String {
    format!("glassline serve {}", SocketAddr::new(configured.ip(), actual.port()))
}

/// Goes to the meeting. A server that has itself just taken over is there a moment after its predecessor's end.
fn connect(name: &str) -> io::Result<Channel> {
    let mut connected = Channel::connect(name);
    for _ in 0..MEETING_TRIES {
        if !connected.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            break;
        }
        std::thread::sleep(MEETING_RETRY);
        connected = Channel::connect(name);
    }
    connected
}

/// Somebody has come to the meeting. Returns the channel if it is one who may take over and wants to.
pub(super) fn receive(mut channel: Channel) -> Result<Channel> {
    channel.set_patience(PATIENCE)?;
    let (user, process) = channel.peer()?;
    if user != 0 && user != own_user() {
        let user = privileges::name(user);
        bail!("process {process} of user {user} wants to take over, and may not");
    }
    let (hello, _) = channel.receive(WORDS_BYTES)?;
    if hello != HELLO {
        bail!("process {process} does not say what a new glassline says");
    }
    Ok(channel)
}

/// Leaves all that `relay` has to whoever is at the other end of `channel`, but for the TLS of connections.
pub(super) fn hand_over(relay: &mut Relay, mut channel: Channel) -> Result<DrainingTls> {
    let draining = relay.hand_over(|message, descriptors| {
        channel.send(message, descriptors)?;
        let (answer, _) = channel.receive(WORDS_BYTES)?;
        if answer != READY {
            return Err(io::Error::other(String::from_utf8_lossy(&answer).into_owned()));
        }
        channel.send(GO, &[])
    })?;
    Ok(draining)
}

/// What the running server leaves, and the channel to tell it what came of it.
pub(super) struct Estate {
    channel: Channel,
    pub(super) message: Vec<u8>,
    pub(super) descriptors: Vec<OwnedFd>,
}

impl Estate {
    /// Goes to the running server of `config` and asks for all that it has.
    pub(super) fn ask_for(config: &Config) -> Result<Estate> {
        let first = listeners(config)[0].address;
        let name = std::env::var(MEETING).unwrap_or_else(|_| name(first, first));
        let no_server = |error: io::Error| {
            failure::failed(
                format!("no server to take over on {first}: {error}"),
                "start it without --upgrade, or give the address and the configuration that it runs with",
            )
        };
        let mut tries = MEETING_TRIES;
        loop {
            tries -= 1;
            let mut channel = connect(&name).map_err(no_server)?;
            channel.set_patience(PATIENCE)?;
            let (user, process) = channel.peer()?;
            if user != 0 && user != own_user() {
                let user = privileges::name(user);
                return Err(failure::failed(
                    format!("process {process}, which holds the place to meet ({name:?}), is user {user}'s"),
                    "start this one as that user, if that is the server to take over from; else end that process",
                ));
            }
            match channel.send(HELLO, &[]).and_then(|()| channel.receive(MESSAGE_BYTES)) {
                Ok((message, descriptors)) => return Ok(Estate { channel, message, descriptors }),
                // One that was itself taken over from a moment ago gives the place to its successor.
                Err(error) if has_left(&error) && tries > 0 => std::thread::sleep(MEETING_RETRY),
                Err(error) => return Err(error).context("the running server does not leave what it has"),
            }
        }
    }

    /// Tells the running server that all is understood, and waits until it has ended.
    pub(super) fn accept(mut channel: Channel) -> Result<()> {
        channel.send(READY, &[])?;
        let (answer, _) = channel.receive(WORDS_BYTES).context("the running server goes on by itself")?;
        if answer != GO {
            bail!("the running server does not say that it has ended");
        }
        Ok(())
    }

    /// Tells the running server that it has to go on, and why.
    pub(super) fn decline(mut channel: Channel, why: &HandoverError) {
        // It goes on, too, where it hears nothing.
        let _ = channel.send(why.to_string().as_bytes(), &[]);
    }

    /// The parts.
    pub(super) fn open(self) -> (Channel, Vec<u8>, Vec<OwnedFd>) {
        (self.channel, self.message, self.descriptors)
    }
}

/// Whether the process at the other end has hung up.
fn has_left(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// Starts the program anew, as this one was started, to take over from it.
pub(super) fn start_successor(meeting_name: &str) -> Result<Child> {
    let program = std::env::current_exe().context("cannot find the program itself")?;
    // Where the file was replaced, the kernel names the old one so.
    let program = program.to_string_lossy().trim_end_matches(" (deleted)").to_owned();
    let arguments: Vec<_> = std::env::args_os().skip(1).filter(|argument| argument != "--upgrade").collect();
    let mut command = Command::new(&program);
    command.args(arguments).arg("--upgrade").env(MEETING, meeting_name);
    command.spawn().with_context(|| format!("cannot start {program}"))
}

/// Whether the server that runs has started this process.
pub(super) fn is_successor() -> bool {
    std::env::var_os(MEETING).is_some()
}

fn own_user() -> u32 {
    glassline_io::process::user()
}
