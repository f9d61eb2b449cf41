//! A new process takes the place of a running server: how the two meet, and the messages between them.
//!
//! ```text
//! old                                                     new: serve --upgrade
//!   waits under an abstract name  ◄──────── hello ──────    has read its configuration
//!   halts ─────────────── all that it has ────────────►    builds everything of it
//!     ▲ goes on ◄──────── why not, or nothing ─────────      or fails
//!   ends  ◄──────────────── ready ─────────────────────
//!     ───────────────────── go ───────────────────────►    runs
//! ```
//! If the old process has connections over TLS, it keeps running as their TLS proxy, and ends with the last of them.
//! Until `go` the old process can continue as if nothing had happened. A process that waits in vain for a message of
//! the other one gives up.

use super::listeners;
use crate::config::Config;
use crate::failure;
use anyhow::{Context, Result, bail};
use glassline_io::handover::Channel;
use glassline_io::privileges;
use glassline_relay::{DrainingTls, HandoverError, Relay};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::time::Duration;

/// How often a new process tries to reach a server.
const MEETING_TRIES: u32 = 25;
const MEETING_RETRY: Duration = Duration::from_millis(10);

/// Environment variable with the name of the socket, for a new process that the old one has started.
const MEETING: &str = "GLASSLINE_MEETING";
const HELLO: &[u8] = b"glassline: take over";
const READY: &[u8] = b"ready";
const GO: &[u8] = b"go";
/// Size limit of all messages but the one with the server's state.
const WORDS_BYTES: usize = 4096;
const MESSAGE_BYTES: usize = 1 << 30;
/// No message between two processes of one machine takes this long.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(20);

/// The name of the socket of a server that was configured to listen first on `configured` and listens on `actual`.
pub(super) fn name(configured: SocketAddr, actual: SocketAddr) -> String {
    format!("glassline serve {}", SocketAddr::new(configured.ip(), actual.port()))
}

/// Connects to the socket. A server that has itself just taken over opens it a moment after its predecessor's end.
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

/// Checks a process that has connected to the socket. Returns the channel if the process may take over and asks for
/// it.
pub(super) fn receive(mut channel: Channel) -> Result<Channel> {
    channel.set_timeouts(MESSAGE_TIMEOUT)?;
    let (user, process) = channel.peer()?;
    if user != 0 && user != own_user() {
        let user = privileges::name(user);
        bail!("process {process} of user {user} is not allowed to take over");
    }
    let (hello, _) = channel.receive(WORDS_BYTES)?;
    if hello != HELLO {
        bail!("process {process} does not send the greeting of a new glassline process");
    }
    Ok(channel)
}

/// Passes the whole state of `relay`, except for the TLS sessions of its connections, to the process at the other end
/// of `channel`.
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

/// The state of the running server, and the channel on which the new process tells it the result.
pub(super) struct HandoverState {
    channel: Channel,
    pub(super) message: Vec<u8>,
    pub(super) descriptors: Vec<OwnedFd>,
}

impl HandoverState {
    /// Connects to the running server of `config` and asks for its whole state.
    pub(super) fn ask_for(config: &Config) -> Result<HandoverState> {
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
            channel.set_timeouts(MESSAGE_TIMEOUT)?;
            let (user, process) = channel.peer()?;
            if user != 0 && user != own_user() {
                let user = privileges::name(user);
                return Err(failure::failed(
                    format!("process {process}, which holds the hand-over socket {name:?}, is user {user}'s"),
                    "if that process is the server that this one shall replace, start this one as that user; otherwise end that process",
                ));
            }
            match channel.send(HELLO, &[]).and_then(|()| channel.receive(MESSAGE_BYTES)) {
                Ok((message, descriptors)) => return Ok(HandoverState { channel, message, descriptors }),
                // A server from which another process has just taken over has closed the socket: its successor opens
                // it again.
                Err(error) if has_left(&error) && tries > 0 => std::thread::sleep(MEETING_RETRY),
                Err(error) => return Err(error).context("the running server does not hand over its state"),
            }
        }
    }

    /// Tells the running server that its whole state was taken over, and waits until it has stopped serving.
    pub(super) fn accept(mut channel: Channel) -> Result<()> {
        channel.send(READY, &[])?;
        let (answer, _) = channel.receive(WORDS_BYTES).context("the running server continues by itself")?;
        if answer != GO {
            bail!("the running server does not say that it has ended");
        }
        Ok(())
    }

    /// Tells the running server that it has to continue, and why.
    pub(super) fn decline(mut channel: Channel, why: &HandoverError) {
        // If the message does not arrive, the server continues as well.
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

/// Starts the program again, with this process' arguments, to take over from it.
pub(super) fn start_successor(meeting_name: &str) -> Result<Child> {
    let program = std::env::current_exe().context("cannot find the program itself")?;
    // If the file was replaced, the kernel marks the old one's name like this.
    let program = program.to_string_lossy().trim_end_matches(" (deleted)").to_owned();
    let arguments: Vec<_> = std::env::args_os().skip(1).filter(|argument| argument != "--upgrade").collect();
    let mut command = Command::new(&program);
    command.args(arguments).arg("--upgrade").env(MEETING, meeting_name);
    command.spawn().with_context(|| format!("cannot start {program}"))
}

/// Whether the running server has started this process.
pub(super) fn is_successor() -> bool {
    std::env::var_os(MEETING).is_some()
}

fn own_user() -> u32 {
    glassline_io::process::user()
}
