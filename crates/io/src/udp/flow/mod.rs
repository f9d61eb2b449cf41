//! One flow of raw video: many gigabits a second that one sender, or one group, brings.
//!
//! A [`Flow`] is the socket, a [`Room`] the lists that a call needs. For each call the caller says where the bytes of the next
//! messages belong, piece by piece ([`Room::batch`]): headers beside one another, payloads straight into a picture. One
//! `recvmmsg` takes all of it, and with `UDP_GRO` a message is up to 64 kB of datagrams that came in a row. Nothing is
//! allocated once the lists have grown.
//!
//! ```
//! use glassline_io::udp::flow::{Flow, FlowSettings, Room};
//! # fn main() -> std::io::Result<()> {
//! let flow = Flow::open(&FlowSettings::at("127.0.0.1:0".parse().unwrap()))?;
//! let (mut room, mut header, mut picture) = (Room::new(), [0; 20], vec![0; 1000]);
//! # std::net::UdpSocket::bind("127.0.0.1:0")?.send_to(&[7; 1020], flow.local_address()?)?;
//! flow.wait(None)?;
//! let mut batch = room.batch();
//! batch.push(&mut header);
//! batch.push(&mut picture);
//! batch.end_message();
//! flow.receive(&mut batch)?;
//! assert_eq!(room.received()[0].bytes, 1020);
//! assert_eq!((header, picture), ([7; 20], vec![7; 1000]));
//! # Ok(())
//! # }
//! ```

mod room;

pub use room::{Batch, MESSAGES_MAX, PIECES_MAX, Received, Room};

use super::settings::Settings;
use super::{Granted, control, socket};
use rustix::event::{PollFd, PollFlags};
use socket2::Socket;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// What is received, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSettings {
    /// Address, group, interface and sender.
    pub from: Settings,
    /// Room in the kernel for what was not read yet. Each message takes more of it than its own bytes, for what the kernel keeps
    /// beside them: most where datagrams come one by one.
    pub buffer_bytes: usize,
    /// For how long a call that finds nothing looks into the network device's ring itself, instead of waiting for its interrupt
    /// (`SO_BUSY_POLL`). Needs `CAP_NET_ADMIN`. It costs a core; callers should [`Flow::receive`] in a loop then.
    pub busy_poll: Option<Duration>,
    /// Whether datagrams that came in a row are received as one message (`UDP_GRO`). Off for comparison alone.
    pub is_collected: bool,
}

impl FlowSettings {
    /// Room for 30 ms of 10 Gbit/s.
    pub const BUFFER_BYTES: usize = 38 << 20;

    /// What comes to `address`, from anybody, with room for 30 ms of 10 Gbit/s.
    pub const fn at(address: SocketAddr) -> FlowSettings {
        FlowSettings::of(Settings { address, interface: None, sender: None })
    }

    /// What `from` names, with room for 30 ms of 10 Gbit/s.
    pub const fn of(from: Settings) -> FlowSettings {
        FlowSettings { from, buffer_bytes: FlowSettings::BUFFER_BYTES, busy_poll: None, is_collected: true }
    }
}

/// A non-blocking socket that one flow comes to.
#[derive(Debug)]
pub struct Flow {
    socket: Socket,
    buffer: Granted,
    is_collected: bool,
}

impl Flow {
    /// Opens a socket and joins the group, if the address is one.
    ///
    /// # Errors
    /// As for [`Receiver::open`](super::Receiver::open); `PermissionDenied` where busy polling is asked for and not allowed.
    /// That there is less room is no error: see [`Flow::buffer`].
    pub fn open(settings: &FlowSettings) -> io::Result<Flow> {
        // The kernel doubles what it is given and counts in an `int`.
        let asked_bytes = settings.buffer_bytes.min(i32::MAX as usize / 2);
        let socket = socket::open(&settings.from, asked_bytes)?;
        // What is asked for is doubled, so that there is room for what the kernel keeps beside a datagram's bytes (socket(7)).
        let buffer =
            Granted { asked_bytes, granted_bytes: socket.recv_buffer_size()? / 2, limit: Granted::RECEIVE };
        let option = |level, name, value| control::set_option(&socket, level, name, value);
        let is_collected = settings.is_collected && option(libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
        // Without these, messages bear no count of drops, and have come when they are read.
        let _ = option(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
        let _ = option(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1);
        if let Some(wait) = settings.busy_poll {
            let micros = i32::try_from(wait.as_micros()).unwrap_or(i32::MAX);
            option(libc::SOL_SOCKET, libc::SO_BUSY_POLL, micros).map_err(|error| {
                io::Error::new(error.kind(), format!("busy polling of {wait:?} (SO_BUSY_POLL): {error}"))
            })?;
            // Linux 5.11: the device's own interrupts wait meanwhile. Without it they cost what they always do.
            let _ = option(libc::SOL_SOCKET, libc::SO_PREFER_BUSY_POLL, 1);
        }
        Ok(Flow { socket, buffer, is_collected })
    }

    /// Where it receives.
    ///
    /// # Errors
    /// None that a working system has.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        socket::local_address(&self.socket)
    }

    /// How much room the kernel gave for what is not read yet.
    pub fn buffer(&self) -> Granted {
        self.buffer
    }

    /// Whether the kernel collects datagrams that came in a row (`UDP_GRO`).
    pub fn is_collected(&self) -> bool {
        self.is_collected
    }

    /// Takes messages that wait, as many as `batch` has, by one system call, and returns how many; 0 where nothing waits.
    /// [`Room::received`] then says what came. It does not wait.
    ///
    /// # Errors
    /// What the socket says; it stays usable.
    pub fn receive(&self, batch: &mut Batch<'_>) -> io::Result<usize> {
        batch.receive(&self.socket)
    }

    /// Waits until there is something to receive, `timeout` has passed (`None`: for ever) or a signal came. Returns whether
    /// there is something.
    ///
    /// # Errors
    /// None that a working system has.
    pub fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
        socket::wait(&self.socket, PollFlags::IN, timeout)
    }

    /// Datagrams that the kernel dropped since the socket was opened, for want of room; counts modulo 2³². What is lost in a
    /// network device or before it is not among them: that, sequence numbers alone tell.
    ///
    /// # Errors
    /// Where the kernel does not count (before Linux 4.12).
    pub fn dropped(&self) -> io::Result<u32> {
        socket::dropped(&self.socket)
    }
}

/// Waits until there is something to receive from one of `flows`, `timeout` has passed or a signal came. Returns whether there
/// is something.
///
/// # Errors
/// None that a working system has.
pub fn wait_any(flows: &[Flow], timeout: Duration) -> io::Result<bool> {
    let mut sockets: Vec<PollFd<'_>> =
        flows.iter().map(|flow| PollFd::new(&flow.socket, PollFlags::IN)).collect();
    socket::wait_any(&mut sockets, Some(timeout))
}

impl AsFd for Flow {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests;
