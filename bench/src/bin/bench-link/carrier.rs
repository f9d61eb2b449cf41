//! What carries messages: ours, QUIC, TCP. One thread drives one end of one connection, by poll(2).

use anyhow::{Context, Result};
use bytes::Bytes;
use clap::ValueEnum;
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The largest datagram of whoever is measured, bytes of UDP's payload: what an MTU of 1500 leaves with IPv6.
pub(crate) const DATAGRAM: usize = 1452;

/// What the connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Load {
    /// Large messages, each of which arrives
    Bulk,
    /// Small messages, each of which arrives, in their order
    Reliable,
    /// Small messages that may be lost
    Unreliable,
    /// Pictures, the newest of which counts, beside small messages that must arrive
    Video,
}

/// Which of a connection's ways a message takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// All arrives, in order.
    Reliable,
    /// May be lost. With [`Load::Video`] a new message replaces one that waits.
    Unreliable,
}

/// One end of one connection.
pub(crate) trait Carrier {
    /// Takes what came, sends what may leave, and waits for more: at most for `wait`, and not where messages came.
    fn drive(&mut self, wait: Duration) -> Result<()>;
    /// Hands a message over; `false`: there is no room yet.
    fn send(&mut self, lane: Lane, message: &Bytes) -> Result<bool>;
    /// The next message that came. A large one may be told by an empty one, once it stands whole in memory.
    fn receive(&mut self, lane: Lane) -> Option<Bytes>;
    /// Whether messages pass.
    fn is_up(&self) -> bool;
    /// Whether all reliable messages have arrived.
    fn is_idle(&mut self) -> bool;
    /// Whether the peer has ended it.
    fn is_closed(&self) -> bool;
    /// Ends it.
    fn close(&mut self) -> Result<()>;
}

/// Batches that leave before it is looked for what has come, as in `engine::link`: what waits there goes cold.
pub(crate) const TRANSMITS: usize = 8;

/// What has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// All that may.
    All,
    /// Some; there may be more.
    Some,
    /// What the kernel had room for.
    Full,
}

/// Waits until one of `descriptors` has what is asked of it, or for `wait`.
pub(crate) fn wait_for(descriptors: &[(BorrowedFd<'_>, PollFlags)], wait: Duration) -> Result<()> {
    let mut polled: Vec<_> =
        descriptors.iter().map(|(descriptor, flags)| PollFd::from_borrowed_fd(*descriptor, *flags)).collect();
    let wait = Timespec::try_from(wait).context("too long a wait")?;
    match poll(&mut polled, Some(&wait)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error).context("cannot wait for sockets"),
    }
}

/// A UDP socket with segmentation and coalescing by the kernel (GSO, GRO) where it has them.
pub(crate) struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    buffer: Vec<u8>,
}

/// Datagrams of [`DATAGRAM`] bytes that fit into one of IP.
pub(crate) const MAX_SEGMENTS: usize = 44;
/// Bytes that one receive call takes for one sender.
const RECEIVE_SIZE: usize = 1 << 16;
/// What is asked of the kernel's buffers, as `engine::link` does; it may give less.
const KERNEL_BUFFER: usize = 8 << 20;

impl Socket {
    pub(crate) fn bind(address: SocketAddr) -> Result<Socket> {
        let socket = UdpSocket::bind(address).with_context(|| format!("cannot use {address}"))?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket)).context("UDP options")?;
        use rustix::net::sockopt;
        // Beyond the system's limit where that is allowed: for all alike.
        if sockopt::set_socket_recv_buffer_size_force(&socket, KERNEL_BUFFER).is_err() {
            sockopt::set_socket_recv_buffer_size(&socket, KERNEL_BUFFER).context("the buffer's size")?;
        }
        sockopt::set_socket_send_buffer_size(&socket, KERNEL_BUFFER).context("the buffer's size")?;
        Ok(Socket { socket, state, buffer: vec![0; RECEIVE_SIZE * BATCH_SIZE] })
    }

    /// An address of our own from which `remote` can be reached.
    pub(crate) fn toward(remote: SocketAddr) -> Result<Socket> {
        let any = if remote.is_ipv4() { [0; 4].into() } else { std::net::Ipv6Addr::UNSPECIFIED.into() };
        Socket::bind(SocketAddr::new(any, 0))
    }

    /// The most datagrams that one send call takes.
    pub(crate) fn max_segments(&self) -> usize {
        self.state.max_gso_segments().min(MAX_SEGMENTS)
    }

    /// Sends datagrams of `segment` bytes, the last of which may be smaller. `false`: the kernel has no room.
    pub(crate) fn send(&self, to: SocketAddr, contents: &[u8], segment: usize) -> Result<bool> {
        let transmit =
            Transmit { destination: to, ecn: None, contents, segment_size: Some(segment), src_ip: None };
        match self.state.try_send(UdpSockRef::from(&self.socket), &transmit) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            // What an address that nobody listens on any more answers concerns an earlier datagram.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(true),
            Err(error) => Err(error).context("cannot send datagrams"),
        }
    }

    /// Hands over what one receive call takes: who sent it, datagrams in a row, the size of each but the last. `true`: there may be more.
    pub(crate) fn receive(&mut self, mut take: impl FnMut(SocketAddr, &mut [u8], usize)) -> Result<bool> {
        let mut meta = [RecvMeta::default(); BATCH_SIZE];
        let mut rows: Vec<_> = self.buffer.chunks_mut(RECEIVE_SIZE).map(IoSliceMut::new).collect();
        let count = match self.state.recv(UdpSockRef::from(&self.socket), &mut rows, &mut meta) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            // What an address that nobody listens on any more answers concerns an earlier datagram.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Ok(true),
            Err(error) => return Err(error).context("cannot receive datagrams"),
        };
        for (row, meta) in rows.iter_mut().zip(&meta[..count]) {
            take(meta.addr, &mut row[..meta.len], meta.stride.max(1));
        }
        Ok(count == BATCH_SIZE)
    }

    /// Waits for datagrams, or for room where `full`.
    pub(crate) fn wait(&self, full: bool, wait: Duration) -> Result<()> {
        use std::os::fd::AsFd;
        let flags = if full { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        wait_for(&[(self.socket.as_fd(), flags)], wait)
    }
}
