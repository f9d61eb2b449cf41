//! Many datagrams by one `recvmmsg`, with or without what the kernel says of each.

use super::control::{Control, Told};
use super::empty_message;
use crate::tcp::wait_is_none;
use socket2::Socket;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsRawFd;

/// Bytes of a place: the longest datagram, or the most that the kernel collects, rounded up.
pub(super) const PLACE_BYTES: usize = 64 << 10;

/// What the kernel says of a datagram, or of a batch of them.
#[derive(Clone, Copy, Default)]
pub(super) struct Envelope {
    name: Name,
    /// How much of the name and of the control messages the kernel has written.
    name_bytes: usize,
    control_bytes: usize,
    control: Control,
}

impl Envelope {
    /// The sender's address; `None` if it has none of IP's.
    pub(super) fn sender(&self) -> Option<SocketAddr> {
        self.name.address(self.name_bytes)
    }

    /// What else it says.
    pub(super) fn read(&self) -> Told {
        self.control.read(self.control_bytes)
    }
}

/// Takes up to `N` datagrams that wait, each into a place of [`PLACE_BYTES`] in `bytes`, which is empty before the first
/// use. Leaves their lengths in `lengths`, and where `envelopes` is given, what is said of them there.
#[allow(unsafe_code)]
pub(super) fn receive<const N: usize>(
    socket: &Socket,
    bytes: &mut Vec<u8>,
    lengths: &mut Vec<usize>,
    mut envelopes: Option<&mut [Envelope; N]>,
) -> io::Result<()> {
    if bytes.is_empty() {
        *bytes = vec![0; N * PLACE_BYTES];
    }
    lengths.clear();
    let mut places = bytes.chunks_exact_mut(PLACE_BYTES);
    let mut vectors: [libc::iovec; N] = std::array::from_fn(|_| {
        let place = places.next().expect("there are as many places as messages");
        libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: place.len() }
    });
    let mut messages = [empty_message(); N];
    for (message, vector) in messages.iter_mut().zip(&mut vectors) {
        (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (vector, 1);
    }
    for (message, envelope) in messages.iter_mut().zip(envelopes.iter_mut().flat_map(|all| all.iter_mut())) {
        let header = &mut message.msg_hdr;
        (header.msg_control, header.msg_controllen) = envelope.control.room();
        (header.msg_name, header.msg_namelen) = envelope.name.room();
    }
    let received = wait_is_none(|| {
        // SAFETY: each message names one vector and, where there is an envelope, its control buffer and room for an
        // address, each with its length; each vector is a place of its own. All of them live until the call is over, and
        // nothing else reads or writes them meanwhile. There is no time limit to point to.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                messages.len() as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    })?;
    let messages = &messages[..received.unwrap_or(0)];
    lengths.extend(messages.iter().map(|message| message.msg_len as usize));
    for (message, envelope) in messages.iter().zip(envelopes.iter_mut().flat_map(|all| all.iter_mut())) {
        envelope.name_bytes = message.msg_hdr.msg_namelen as usize;
        envelope.control_bytes = message.msg_hdr.msg_controllen;
    }
    Ok(())
}

/// Bytes of the largest address of IP's (`sockaddr_in6`).
const NAME_BYTES: usize = 28;

/// Room for an address as the kernel writes it.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(8))]
pub(super) struct Name([u8; NAME_BYTES + 4]);

impl Name {
    /// Room for the kernel to write to, and its bytes.
    pub(super) fn room(&mut self) -> (*mut libc::c_void, u32) {
        (self.0.as_mut_ptr().cast(), NAME_BYTES as u32)
    }

    /// The address in the first `length` bytes; `None` if it is none of IP's.
    pub(super) fn address(&self, length: usize) -> Option<SocketAddr> {
        let bytes = self.0.get(..length.min(NAME_BYTES))?;
        let family = i32::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
        match family {
            libc::AF_INET => {
                let ip: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
                Some(SocketAddr::new(Ipv4Addr::from(ip).into(), port))
            }
            libc::AF_INET6 => {
                let ip: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
                let scope = u32::from_ne_bytes(bytes.get(24..28)?.try_into().ok()?);
                Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope).into())
            }
            _ => None,
        }
    }
}
