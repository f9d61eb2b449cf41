//! Non-blocking TCP.

mod info;

pub use info::Info;

use crate::header_marks;
use rustix::net::sockopt;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, TcpKeepalive, Type};
use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// A listening socket. Several may share one address and divide its connections (`SO_REUSEPORT`).
#[derive(Debug)]
pub struct Listener(TcpListener);

/// Connections that wait for accept; the kernel bounds it by `net.core.somaxconn`.
pub const ACCEPT_BACKLOG: i32 = 4096;

/// A peer that sends nothing for so long is probed, and again after each interval; one that leaves that many probes
/// unanswered is taken for gone. A machine that loses its power tells nothing.
const KEEP_ALIVE_AFTER: Duration = Duration::from_secs(30);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_PROBES: u32 = 3;

/// Has connections that `listener` accepts from now on find out that their peers are gone (tcp(7)): on Linux they have
/// its options. Where the system does not let us, a connection lasts until its time limits or its next byte say more.
fn keep_alive(listener: SockRef<'_>) {
    let settings = TcpKeepalive::new()
        .with_time(KEEP_ALIVE_AFTER)
        .with_interval(KEEP_ALIVE_INTERVAL)
        .with_retries(KEEP_ALIVE_PROBES);
    let _ = listener.set_tcp_keepalive(&settings);
}

impl Listener {
    /// `count` sockets that listen on `address` together; with port 0 all get the same free port.
    ///
    /// `[::]` takes IPv4 too, and becomes `0.0.0.0` where the machine has no IPv6. Fails with `AddrInUse`
    /// where anybody listens there already: `SO_REUSEPORT` alone would let two programs of one user share the
    /// port silently, each with a part of the viewers.
    pub fn bind_group(address: SocketAddr, count: usize) -> io::Result<Vec<Listener>> {
        let probe = match Self::open(address, false) {
            Err(error) if without_ipv6(&error) && address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
                return Self::bind_group((Ipv4Addr::UNSPECIFIED, address.port()).into(), count);
            }
            other => other?,
        };
        let address = probe.local_address()?;
        drop(probe);
        (0..count.max(1)).map(|_| Self::open(address, true)).collect()
    }

    fn open(address: SocketAddr, share: bool) -> io::Result<Listener> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM.nonblocking().cloexec(),
            Some(Protocol::TCP),
        )?;
        if address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        socket.set_reuse_address(true)?;
        if share {
            socket.set_reuse_port(true)?;
        }
        socket.bind(&SockAddr::from(address))?;
        keep_alive(SockRef::from(&socket));
        socket.listen(ACCEPT_BACKLOG)?;
        Ok(Listener(socket.into()))
    }

    /// The listening socket of a descriptor that another process left.
    pub fn from_descriptor(descriptor: OwnedFd) -> Listener {
        let listener = Listener(descriptor.into());
        keep_alive(SockRef::from(&listener.0));
        listener
    }

    /// `count` more sockets that listen where this one does.
    pub fn joined_by(&self, count: usize) -> io::Result<Vec<Listener>> {
        let address = self.local_address()?;
        (0..count).map(|_| Self::open(address, true)).collect()
    }

    /// Where it listens.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// The next connection, or `None` where none waits. The peer's address is IPv4 where it came by IPv4.
    pub fn accept(&self) -> io::Result<Option<(Connection, SocketAddr)>> {
        loop {
            match self.0.accept() {
                Ok((stream, peer)) => {
                    stream.set_nonblocking(true)?;
                    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
                    return Ok(Some((Connection(stream), peer)));
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(None),
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => return Err(error),
                },
            }
        }
    }
}

/// Whether the calling thread, and those that it starts, may mark connections.
///
/// # Errors
/// `PermissionDenied` where it has not the capability `CAP_NET_ADMIN` (since Linux 5.17 `CAP_NET_RAW` will do).
pub fn may_mark() -> io::Result<()> {
    // Any kind of socket will do; this one is there whatever addresses the machine has.
    Socket::new(Domain::UNIX, Type::STREAM.cloexec(), None)?.set_mark(1)
}

fn without_ipv6(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EAFNOSUPPORT) || error.kind() == io::ErrorKind::AddrNotAvailable
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A connected, non-blocking socket.
#[derive(Debug)]
pub struct Connection(TcpStream);

impl Connection {
    /// Begins to connect to `peer`, without waiting: the socket becomes writable when it stands or has failed, and
    /// [`Connection::connected`] then says which. `source` is the address to connect from, chosen by the system
    /// where it is `None`; the system chooses the port. `receive_buffer` bounds what the kernel takes in unread,
    /// about, in bytes.
    ///
    /// # Errors
    /// `AddrNotAvailable` where the source is no address of this machine, that or `AddrInUse` where it has no port
    /// left.
    pub fn connect_from(
        peer: SocketAddr,
        source: Option<IpAddr>,
        receive_buffer: Option<usize>,
    ) -> io::Result<Connection> {
        let kind = Type::STREAM.nonblocking().cloexec();
        let socket = Socket::new(Domain::for_address(peer), kind, Some(Protocol::TCP))?;
        if let Some(bytes) = receive_buffer {
            socket.set_recv_buffer_size(bytes)?;
        }
        if let Some(source) = source {
            socket.bind(&SockAddr::from(SocketAddr::new(source, 0)))?;
        }
        match socket.connect(&SockAddr::from(peer)) {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
            Err(error) => return Err(error),
        }
        Ok(Connection(socket.into()))
    }

    /// The connection of a descriptor that another process left.
    pub fn from_descriptor(descriptor: OwnedFd) -> Connection {
        Connection(descriptor.into())
    }

    /// The two ends of a connection inside this machine (a Unix socket pair). What was written at one end and not read
    /// at the other takes `buffer_bytes` at most, about.
    pub fn pair(buffer_bytes: usize) -> io::Result<(Connection, Connection)> {
        let (one, other) = Socket::pair(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
        for socket in [&one, &other] {
            // The kernel doubles it, for what it keeps beside the bytes.
            socket.set_send_buffer_size(buffer_bytes)?;
        }
        Ok((Connection(OwnedFd::from(one).into()), Connection(OwnedFd::from(other).into())))
    }

    /// Whether a connection that was begun stands, once its socket is writable; asked too early it fails with
    /// `NotConnected`.
    ///
    /// # Errors
    /// Why it does not.
    pub fn connected(&self) -> io::Result<()> {
        match self.0.take_error()? {
            Some(error) => Err(error),
            None => self.0.peer_addr().map(|_| ()),
        }
    }

    /// Sends what is written at once instead of waiting for more (`TCP_NODELAY`): a frame's last bytes count.
    pub fn send_at_once(&self) -> io::Result<()> {
        self.0.set_nodelay(true)
    }

    /// Lets at most about `bytes` wait unsent in the kernel (`TCP_NOTSENT_LOWAT`): what is older than the
    /// network can take stays with us, where it can still be skipped.
    pub fn limit_unsent(&self, bytes: u32) -> io::Result<()> {
        socket2::SockRef::from(&self.0).set_tcp_notsent_lowat(bytes)
    }

    /// Marks the packets that it sends from now on for the system's traffic control and routing (`SO_MARK`).
    ///
    /// # Errors
    /// `PermissionDenied` where [`may_mark`] fails.
    pub fn mark(&self, mark: u32) -> io::Result<()> {
        socket2::SockRef::from(&self.0).set_mark(mark)
    }

    /// Has the packets that it sends from now on bear this DSCP (RFC 2474), 63 at most.
    ///
    /// # Errors
    /// `InvalidInput` above 63; what the system says otherwise.
    pub fn set_dscp(&self, dscp: u8) -> io::Result<()> {
        header_marks::set_dscp(&SockRef::from(&self.0), dscp)
    }

    /// Has the packets of IPv6 that it sends from now on bear a flow label (RFC 6437), which the kernel derives from the
    /// connection, or none. A connection by IPv4 has none in any case.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_flow_label(&self, has_label: bool) -> io::Result<()> {
        header_marks::set_flow_label(&SockRef::from(&self.0), has_label)
    }

    /// Its address here.
    ///
    /// # Errors
    /// None that a working system has.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Gives up a peer that acknowledges nothing for this long (`TCP_USER_TIMEOUT`).
    pub fn give_up_after(&self, time: Duration) -> io::Result<()> {
        let millis = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        Ok(sockopt::set_tcp_user_timeout(&self.0, millis)?)
    }

    /// Reads what has come: `None` where nothing waits, `Some(0)` at the peer's end.
    pub fn read(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        wait_is_none(|| (&self.0).read(into))
    }

    /// Writes as much as fits: `None` where nothing does.
    pub fn write(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        wait_is_none(|| (&self.0).write(bytes))
    }

    /// The same of several runs of bytes in one call, end to end.
    pub fn write_vectored(&self, runs: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        wait_is_none(|| (&self.0).write_vectored(runs))
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.0
    }

    /// Ends our side: the peer reads what was written and then the end.
    pub fn end(&self) -> io::Result<()> {
        self.0.shutdown(Shutdown::Write)
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Makes "would block" a value: to a non-blocking caller it is one.
pub(crate) fn wait_is_none(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<Option<usize>> {
    loop {
        match call() {
            Ok(count) => return Ok(Some(count)),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => return Ok(None),
                io::ErrorKind::Interrupted => {}
                _ => return Err(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_refused_although_ports_are_shared() {
        let group = Listener::bind_group("127.0.0.1:0".parse().unwrap(), 2).unwrap();
        let address = group[0].local_address().unwrap();
        assert_eq!(group[1].local_address().unwrap(), address);
        let error = Listener::bind_group(address, 2).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_connection_is_begun_from_a_source_and_says_whether_it_stands() {
        use crate::poll::{Poller, Watch};
        let wait = |connection: &Connection| {
            let (poller, mut ready) = (Poller::new().unwrap(), Vec::new());
            poller.add(connection, 1, Watch::Edges).unwrap();
            poller.wait(Some(Duration::from_secs(10)), &mut ready).unwrap();
            assert!(ready[0].writable);
        };
        let listener = Listener::bind_group("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
        let (address, source) = (listener.local_address().unwrap(), "127.0.0.7".parse().unwrap());
        let connection = Connection::connect_from(address, Some(source), Some(4096)).unwrap();
        wait(&connection);
        connection.connected().unwrap();
        assert_eq!(listener.accept().unwrap().unwrap().1.ip(), source);
        drop(listener);
        let refused = Connection::connect_from(address, None, None).and_then(|connection| {
            wait(&connection);
            connection.connected()
        });
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_connection_is_marked_where_the_process_may() {
        let listener = Listener::bind_group("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
        let address = listener.local_address().unwrap();
        let connection = Connection::connect_from(address, None, None).unwrap();
        if let Err(error) = may_mark() {
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            assert_eq!(connection.mark(7).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            let test = "a_connection_is_marked_where_the_process_may";
            glassline_test_support::skip(test, "no CAP_NET_ADMIN");
            return;
        }
        connection.mark(u32::MAX).unwrap();
        assert_eq!(socket2::SockRef::from(&connection.0).mark().unwrap(), u32::MAX);
    }

    #[test]
    fn a_pair_carries_bytes_both_ways_and_is_full_at_some_point() {
        let (one, other) = Connection::pair(64 << 10).unwrap();
        let mut buffer = [0; 4096];
        assert_eq!(other.read(&mut buffer).unwrap(), None);
        let mut written = 0;
        while let Some(count) = one.write(&[7; 4096]).unwrap() {
            written += count;
            assert!(written < 1 << 20, "never full");
        }
        assert!(written >= 32 << 10, "full after {written} bytes");
        assert_eq!(other.write(b"back").unwrap(), Some(4));
        one.end().unwrap();
        let mut read = 0;
        while let Some(count @ 1..) = other.read(&mut buffer).unwrap() {
            read += count;
        }
        assert_eq!((read, one.read(&mut buffer).unwrap()), (written, Some(4)));
        drop(other);
        assert_eq!(one.write(b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn connections_that_come_in_notice_that_their_peers_are_gone() {
        let listener = Listener::bind_group("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
        let client = TcpStream::connect(listener.local_address().unwrap()).unwrap();
        // One of another process, which may not have asked for it.
        SockRef::from(&listener.0).set_keepalive(false).unwrap();
        let inherited = Listener::from_descriptor(listener.0.into());
        let (accepted, _) = inherited.accept().unwrap().unwrap();
        let accepted = SockRef::from(&accepted.0);
        assert!(accepted.keepalive().unwrap());
        assert_eq!(accepted.tcp_keepalive_time().unwrap(), KEEP_ALIVE_AFTER);
        assert_eq!(accepted.tcp_keepalive_interval().unwrap(), KEEP_ALIVE_INTERVAL);
        assert_eq!(accepted.tcp_keepalive_retries().unwrap(), KEEP_ALIVE_PROBES);
        drop(client);
    }

    #[test]
    fn nothing_to_accept_or_read_is_none() {
        let group = Listener::bind_group("127.0.0.1:0".parse().unwrap(), 1).unwrap();
        assert!(group[0].accept().unwrap().is_none());
        let client = TcpStream::connect(group[0].local_address().unwrap()).unwrap();
        let (server, peer) = loop {
            if let Some(accepted) = group[0].accept().unwrap() {
                break accepted;
            }
        };
        assert_eq!(peer, client.local_addr().unwrap());
        assert_eq!(server.read(&mut [0; 4]).unwrap(), None);
    }
}
