//! UDP with many peers at one port: batches of datagrams of one size to anybody (GSO), and from anybody (GRO).
//!
//! One call carries up to 64 kB each way. Where the kernel or a device cannot cut (`UDP_SEGMENT`) or collect
//! (`UDP_GRO`), the same datagrams go one by one: the callers see no difference but speed. Marks of congestion in IP's
//! header (ECN, RFC 3168) are set and read, and each datagram bears when the machine got it.

mod arrivals;

pub use arrivals::{Arrival, Arrivals};

use super::control::{self, Control};
use super::{BATCH_DATAGRAMS, empty_message, socket};
use crate::header_marks;
use crate::tcp::wait_is_none;
use rustix::net::sockopt;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Room in the kernel for datagrams that were not read or not sent yet; it gives less where `net.core.rmem_max` and
/// `wmem_max` are lower and we may not override them.
const BUFFER_BYTES: usize = 8 << 20;

/// Where a [`Port`] is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// Our own address; port 0 has the kernel choose. `[::]` takes IPv4 too, where the machine has IPv6.
    pub address: SocketAddr,
    /// The network interface that all datagrams take, in and out; the routing table chooses without one.
    pub interface: Option<String>,
    /// The class that routers are asked to treat the datagrams as (DSCP, RFC 2474), 63 at most; 0 without one.
    pub dscp: Option<u8>,
    /// Whether datagrams of IPv6 bear a flow label (RFC 6437), which the kernel derives from addresses and ports; the system
    /// decides without it (`net.ipv6.auto_flowlabels`).
    pub flow_label: Option<bool>,
}

impl Local {
    /// At `address`, by whatever interface.
    pub const fn at(address: SocketAddr) -> Local {
        Local { address, interface: None, dscp: None, flow_label: None }
    }

    /// Any address and port from which `remote` can be reached.
    pub const fn towards(remote: SocketAddr) -> Local {
        Local::at(match remote {
            SocketAddr::V4(_) => SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            SocketAddr::V6(_) => SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0),
        })
    }
}

/// A non-blocking UDP socket that speaks with anybody. Datagrams are never fragmented by the network: those that are too
/// large for a path are lost, as path MTU discovery by probes wants it (RFC 8899).
#[derive(Debug)]
pub struct Port {
    socket: Socket,
    /// Whether the kernel and the device cut what we send; found out by trying.
    cuts: AtomicBool,
    /// The name and the number of the network interface that it is bound to.
    interface: Option<(String, u32)>,
    dscp: u8,
}

impl Port {
    /// Opens and binds a socket.
    ///
    /// # Errors
    /// `AddrInUse` where another program has the address, `AddrNotAvailable` where it is none of ours, `NotFound` where
    /// there is no such interface, `InvalidInput` where there is no such DSCP.
    pub fn open(local: &Local) -> io::Result<Port> {
        match Self::open_exactly(local) {
            Err(error)
                if error.raw_os_error() == Some(libc::EAFNOSUPPORT)
                    && local.address.ip() == Ipv6Addr::UNSPECIFIED =>
            {
                let address = (Ipv4Addr::UNSPECIFIED, local.address.port()).into();
                Self::open_exactly(&Local { address, ..local.clone() })
            }
            other => other,
        }
    }

    fn open_exactly(local: &Local) -> io::Result<Port> {
        let kind = Type::DGRAM.nonblocking().cloexec();
        let socket = Socket::new(Domain::for_address(local.address), kind, Some(Protocol::UDP))?;
        // What the kernel refuses here costs room alone.
        let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
        let _ = sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES);
        let _ = socket.set_send_buffer_size(BUFFER_BYTES);
        if local.address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        // Without these, datagrams come one by one, without their marks, as if they had come when they are read, and may be cut
        // by routers.
        let _ = control::set_option(&socket, libc::SOL_UDP, libc::UDP_GRO, 1);
        let _ =
            control::set_option(&socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE);
        let _ = control::set_option(&socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1);
        let _ = control::set_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1);
        if local.address.is_ipv6() {
            let probe = libc::IPV6_PMTUDISC_PROBE;
            let _ = control::set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, probe);
            let _ = control::set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1);
        }
        let mut interface = None;
        if let Some(name) = &local.interface {
            interface = Some((name.clone(), super::interface_index(&socket, Some(name))?));
            socket.bind_device(Some(name.as_bytes()))?;
        }
        // The DSCP that a message names replaces the socket's; the latter stands for messages that name none.
        header_marks::set(&socket, local.dscp, local.flow_label)?;
        socket.bind(&SockAddr::from(local.address))?;
        Ok(Port { socket, cuts: AtomicBool::new(true), interface, dscp: local.dscp.unwrap_or(0) })
    }

    /// Whether the network interface that it is bound to has gone, as a modem does that is unplugged. One of the same name may be
    /// there by now: a socket that is opened anew is bound to that.
    pub fn has_lost_interface(&self) -> bool {
        let Some((name, number)) = &self.interface else { return false };
        super::interface_index(&self.socket, Some(name)).ok() != Some(*number)
    }

    /// Where it is.
    ///
    /// # Errors
    /// None that a working system has.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Has the kernel give each datagram by itself, with a stamp of its own, or collect those of one peer (GRO), as it does at first.
    pub fn set_collecting(&self, collects: bool) {
        // A kernel that cannot collect gives each by itself.
        let _ = control::set_option(&self.socket, libc::SOL_UDP, libc::UDP_GRO, i32::from(collects));
    }

    /// Datagrams that the kernel has dropped since the socket was opened, for want of room; counts modulo 2³².
    ///
    /// # Errors
    /// Where the kernel does not count them (before 4.12).
    pub fn dropped(&self) -> io::Result<u32> {
        socket::dropped(&self.socket)
    }

    /// Bytes that were sent and have not left the network device yet, with what the kernel keeps beside them (`SIOCOUTQ`, udp(7));
    /// 0 where the device takes packets at once, as TUN devices do. Cost: a system call.
    ///
    /// # Errors
    /// None that a working system has.
    #[allow(unsafe_code)]
    pub fn unsent_bytes(&self) -> io::Result<usize> {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the request writes one integer, to which the pointer is.
        let result = unsafe { libc::ioctl(self.socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
        if result == 0 { Ok(usize::try_from(bytes).unwrap_or(0)) } else { Err(io::Error::last_os_error()) }
    }

    /// Takes datagrams that wait, by one system call. What was in `into` before is gone; `false` where nothing waits.
    ///
    /// # Errors
    /// What the socket says; it stays usable.
    pub fn receive(&self, into: &mut Arrivals) -> io::Result<bool> {
        into.fill(&self.socket)
    }

    /// Sends `datagrams`, which stand end to end, each of `segment_bytes` but the last, which may be shorter; at most
    /// 65,000 bytes. All bear `mark` in IP's header: 0 none, 1 ECT(1), 2 ECT(0), 3 CE. Returns how many bytes of them
    /// left, always whole datagrams; `None` where the socket takes nothing now.
    ///
    /// # Errors
    /// What the kernel says of the first datagram that did not leave, for example `EMSGSIZE`. Those before it may have
    /// left.
    pub fn send(
        &self,
        to: SocketAddr,
        datagrams: &[u8],
        segment_bytes: usize,
        mark: u8,
    ) -> io::Result<Option<usize>> {
        let mut control = Control::default();
        let class = self.dscp << 2 | mark & 3;
        if class != 0 {
            control.put_class(to.ip(), class);
        }
        let to = SockAddr::from(to);
        if datagrams.len() <= segment_bytes || segment_bytes == 0 {
            return self.send_message(&to, datagrams, control);
        }
        if let Some(segment) = u16::try_from(segment_bytes).ok().filter(|_| self.cuts.load(Ordering::Relaxed))
        {
            let mut cutting = control;
            cutting.put_segment(segment);
            match self.send_message(&to, datagrams, cutting) {
                Err(error) if super::refuses_to_cut(&error).is_some() => {
                    if super::refuses_to_cut(&error) == Some(true) {
                        self.cuts.store(false, Ordering::Relaxed);
                    }
                }
                other => return other,
            }
        }
        self.send_each(&to, datagrams, segment_bytes, control)
    }

    /// One message, with what `control` asks for.
    #[allow(unsafe_code)]
    fn send_message(&self, to: &SockAddr, bytes: &[u8], mut control: Control) -> io::Result<Option<usize>> {
        let mut vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let mut message = empty_message().msg_hdr;
        (message.msg_iov, message.msg_iovlen) = (&raw mut vector, 1);
        (message.msg_name, message.msg_namelen) = (to.as_ptr().cast_mut().cast(), to.len());
        (message.msg_control, message.msg_controllen) = control.written();
        wait_is_none(|| {
            // SAFETY: the message names one vector over `bytes`, the address and what stands in `control`, each with its
            // length; all of them live until the call is over, and the kernel writes to none of them.
            let sent = unsafe {
                libc::sendmsg(
                    self.socket.as_raw_fd(),
                    &raw const message,
                    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                )
            };
            usize::try_from(sent).map_err(|_| io::Error::last_os_error())
        })
    }

    /// Datagram by datagram, many by one system call, each with what `control` asks for.
    #[allow(unsafe_code)]
    fn send_each(
        &self,
        to: &SockAddr,
        bytes: &[u8],
        segment: usize,
        mut control: Control,
    ) -> io::Result<Option<usize>> {
        let control = control.written();
        let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH_DATAGRAMS];
        let mut messages = [empty_message(); BATCH_DATAGRAMS];
        let mut count = 0;
        for ((message, vector), datagram) in messages.iter_mut().zip(&mut vectors).zip(bytes.chunks(segment))
        {
            *vector = libc::iovec { iov_base: datagram.as_ptr().cast_mut().cast(), iov_len: datagram.len() };
            let header = &mut message.msg_hdr;
            (header.msg_iov, header.msg_iovlen) = (vector, 1);
            (header.msg_name, header.msg_namelen) = (to.as_ptr().cast_mut().cast(), to.len());
            (header.msg_control, header.msg_controllen) = control;
            count += 1;
        }
        let sent = wait_is_none(|| {
            // SAFETY: each of the first `count` messages names one vector, the address and the same control messages,
            // each vector a datagram with its length; all of them live until the call is over. The kernel writes to the
            // messages' own lengths alone.
            let sent = unsafe {
                libc::sendmmsg(
                    self.socket.as_raw_fd(),
                    messages.as_mut_ptr(),
                    count,
                    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                )
            };
            usize::try_from(sent).map_err(|_| io::Error::last_os_error())
        })?;
        Ok(sent.map(|datagrams| (datagrams * segment).min(bytes.len())))
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests;
