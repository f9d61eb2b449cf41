//! UDP in: datagrams to an address of ours, to a multicast group from anybody, or from one sender alone.

use super::inbox::Inbox;
use super::settings::Settings;
use super::socket::{self, Granted};
use socket2::Socket;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Room in the kernel for datagrams that were not read yet. At 50 Mbit/s it lasts for more than a second; the
/// kernel gives less where `net.core.rmem_max` is lower and we may not override it.
pub const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

/// A non-blocking socket that datagrams come to. Others may receive the same group at the same port.
#[derive(Debug)]
pub struct Receiver(Socket);

impl Receiver {
    /// Opens a socket and joins the group, if the address is one. Fails with `AddrInUse` where another program has
    /// a unicast address, with `NotFound` where there is no such interface.
    pub fn open(settings: &Settings) -> io::Result<Receiver> {
        Ok(Receiver(socket::open(settings, RECEIVE_BUFFER_BYTES)?))
    }

    /// The socket of a descriptor that another process left.
    pub fn from_descriptor(descriptor: OwnedFd) -> Receiver {
        Receiver(descriptor.into())
    }

    /// Where it receives.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        socket::local_address(&self.0)
    }

    /// How much room it was asked to have in the kernel, and has.
    ///
    /// # Errors
    /// Where the system does not tell.
    pub fn buffer(&self) -> io::Result<Granted> {
        // The kernel doubles it, for what it keeps beside the bytes.
        let granted_bytes = self.0.recv_buffer_size()? / 2;
        Ok(Granted { asked_bytes: RECEIVE_BUFFER_BYTES, granted_bytes, limit: Granted::RECEIVE })
    }

    /// Takes the datagrams that wait, as many as `into` has places for, by one system call. What was in it before is
    /// gone.
    pub fn receive(&self, into: &mut Inbox) -> io::Result<()> {
        into.fill(&self.0)
    }

    /// Sends a datagram from where it receives. Returns whether it was: one that finds no room is lost, as any may be.
    ///
    /// # Errors
    /// What the system says of others, as of one to where no way leads.
    pub fn send_to(&self, datagram: &[u8], to: SocketAddr) -> io::Result<bool> {
        match self.0.send_to(datagram, &to.into()) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Datagrams that the kernel dropped since the socket was opened, for want of room; counts modulo 2³².
    pub fn dropped(&self) -> io::Result<u32> {
        socket::dropped(&self.0)
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::BATCH_DATAGRAMS;
    use rustix::net::netdevice;
    use socket2::{Domain, SockAddr, Type};
    use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
    use std::time::{Duration, Instant};

    fn settings(address: &str, interface: Option<&str>, sender: Option<&str>) -> Settings {
        Settings {
            address: address.parse().unwrap(),
            interface: interface.map(str::to_owned),
            sender: sender.map(|sender| sender.parse().unwrap()),
        }
    }

    /// A sender whose multicasts go to this machine's loopback.
    fn sender(from: &str) -> UdpSocket {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        socket.bind(&SockAddr::from(from.parse::<SocketAddr>().unwrap())).unwrap();
        socket.set_multicast_if_v4(&Ipv4Addr::LOCALHOST).unwrap();
        socket.set_multicast_loop_v4(true).unwrap();
        socket.into()
    }

    /// Receives so many datagrams, end to end. Returns also how many calls brought any.
    fn receive(receiver: &Receiver, datagrams: usize) -> (Vec<u8>, usize) {
        let (mut inbox, mut got, mut all, mut calls) = (Inbox::default(), 0, Vec::new(), 0);
        let deadline = Instant::now() + Duration::from_secs(20);
        while got < datagrams {
            receiver.receive(&mut inbox).unwrap();
            let count = inbox.datagrams().inspect(|datagram| all.extend_from_slice(datagram)).count();
            got += count;
            calls += usize::from(count > 0);
            assert!(Instant::now() < deadline, "{got} of {datagrams} datagrams");
        }
        (all, calls)
    }

    fn is_empty(receiver: &Receiver) -> bool {
        let mut inbox = Inbox::default();
        receiver.receive(&mut inbox).unwrap();
        inbox.datagrams().next().is_none() && !inbox.is_full()
    }

    #[test]
    fn datagrams_are_received_in_order_with_their_lengths() {
        let receiver = Receiver::open(&settings("[::]:0", None, None)).unwrap();
        let port = receiver.local_address().unwrap().port();
        let sender = sender("127.0.0.1:0");
        assert!(is_empty(&receiver));
        let large = vec![7; 65_000];
        let parts = [&b"one"[..], b"", b"two", &large];
        for part in parts {
            sender.send_to(part, ("127.0.0.1", port)).unwrap();
        }
        let mut inbox = Inbox::default();
        receiver.receive(&mut inbox).unwrap();
        assert!(inbox.datagrams().eq(parts) && !inbox.is_full());
        let from = sender.local_addr().ok();
        assert!(inbox.received().eq(parts.map(|part| (from, part))));
        assert!(is_empty(&receiver));
        assert_eq!(receiver.dropped().unwrap(), 0);
    }

    #[test]
    fn an_answer_comes_from_the_port_that_receives() {
        let receiver = Receiver::open(&settings("127.0.0.1:0", None, None)).unwrap();
        let sender = sender("127.0.0.1:0");
        receiver.send_to(b"hello", sender.local_addr().unwrap()).unwrap();
        let mut bytes = [0; 16];
        let (count, from) = sender.recv_from(&mut bytes).unwrap();
        assert_eq!((&bytes[..count], from), (&b"hello"[..], receiver.local_address().unwrap()));
    }

    #[test]
    fn one_call_brings_many_datagrams() {
        let receiver = Receiver::open(&settings("127.0.0.1:0", None, None)).unwrap();
        let (sender, to) = (sender("127.0.0.1:0"), receiver.local_address().unwrap());
        // All wait before the first call: one call for each full batch, one for the rest.
        let count = 2 * BATCH_DATAGRAMS + 10;
        (0..count).for_each(|number| assert_eq!(sender.send_to(&[number as u8; 100], to).unwrap(), 100));
        let (all, calls) = receive(&receiver, count);
        assert!(all.chunks(100).enumerate().all(|(number, datagram)| datagram == [number as u8; 100]));
        assert_eq!((all.len(), calls), (count * 100, 3));
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let receiver = Receiver::open(&settings("127.0.0.1:0", None, None)).unwrap();
        receiver.0.set_recv_buffer_size(4096).unwrap();
        let (sender, to) = (sender("127.0.0.1:0"), receiver.local_address().unwrap());
        (0..200).for_each(|_| assert_eq!(sender.send_to(&[0; 1000], to).unwrap(), 1000));
        let deadline = Instant::now() + Duration::from_secs(20);
        while receiver.dropped().unwrap() == 0 {
            assert!(Instant::now() < deadline);
        }
    }

    #[test]
    fn a_group_is_joined_and_one_sender_of_it() {
        let anybody = Receiver::open(&settings("239.255.77.1:0", Some("lo"), None)).unwrap();
        let to = anybody.local_address().unwrap();
        let (near, far) = (sender("127.0.0.1:0"), sender("127.0.0.2:0"));
        let only = Receiver::open(&settings(&to.to_string(), Some("lo"), Some("127.0.0.2"))).unwrap();
        near.send_to(b"near", to).unwrap();
        far.send_to(b"far", to).unwrap();
        assert_eq!(receive(&anybody, 2).0, b"nearfar");
        assert_eq!(receive(&only, 1).0, b"far");
        assert!(is_empty(&only));
    }

    #[test]
    fn an_ipv6_group_is_joined_for_one_sender() {
        let socket = Socket::new(Domain::IPV6, Type::DGRAM, None).and_then(|socket| {
            socket.bind(&SockAddr::from(SocketAddr::from((Ipv6Addr::LOCALHOST, 0)))).map(|()| socket)
        });
        let Ok(socket) = socket else {
            glassline_test_support::skip(
                "an_ipv6_group_is_joined_for_one_sender",
                "this machine has no IPv6",
            );
            return;
        };
        socket.set_multicast_if_v6(netdevice::name_to_index(&socket, "lo").unwrap()).unwrap();
        let sender = UdpSocket::from(socket);
        let open = |address: &str, from| Receiver::open(&settings(address, Some("lo"), Some(from))).unwrap();
        let only = open("[ff31::8000:77]:0", "::1");
        let to = only.local_address().unwrap();
        let other = open(&to.to_string(), "2001:db8::1");
        if let Err(error) = sender.send_to(b"near", to) {
            let reason = format!("both joined, but loopback takes no IPv6 multicast here: {error}");
            glassline_test_support::skip("an_ipv6_group_is_joined_for_one_sender", &reason);
            return;
        }
        assert_eq!(receive(&only, 1).0, b"near");
        assert!(is_empty(&other));
    }

    #[test]
    fn an_interface_that_is_not_there_is_named() {
        let error = Receiver::open(&settings("239.255.77.1:0", Some("nowhere0"), None)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("nowhere0"), "{error}");
    }
}
