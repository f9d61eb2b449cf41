//! Room for batches of datagrams that one system call brings.

use super::control::Control;
use crate::tcp::wait_is_none;
use crate::udp::empty_message;
use socket2::Socket;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsRawFd;

/// Batches that one call brings, each of datagrams that came in a row from one peer. Few, so that their bytes stay in
/// the processor's cache until they are opened.
const BATCHES: usize = 8;
/// Bytes of a place: the most that the kernel collects, rounded up.
const PLACE_BYTES: usize = 64 << 10;

#[derive(Clone, Copy, Debug)]
struct Batch {
    from: SocketAddr,
    bytes: usize,
    segment: usize,
}

/// Places for datagrams, which may be changed where they stand. Of its half MiB only those pages take memory that
/// datagrams have reached.
#[derive(Debug, Default)]
pub struct Arrivals {
    /// Empty before the first use.
    bytes: Vec<u8>,
    batches: Vec<Batch>,
}

impl Arrivals {
    /// The datagrams of the last call with their senders, in the order in which they came.
    pub fn datagrams(&mut self) -> impl Iterator<Item = (SocketAddr, &mut [u8])> {
        let places = self.bytes.chunks_exact_mut(PLACE_BYTES).zip(&self.batches);
        places.flat_map(|(place, batch)| {
            // An empty datagram is one all the same.
            let (whole, empty) = (&mut place[..batch.bytes], (batch.bytes == 0).then_some(&mut [][..]));
            whole.chunks_mut(batch.segment).chain(empty).map(|datagram| (batch.from, datagram))
        })
    }

    /// Whether all places were taken, so that more may wait.
    pub fn is_full(&self) -> bool {
        self.batches.len() == BATCHES
    }

    #[allow(unsafe_code)]
    pub(super) fn fill(&mut self, socket: &Socket) -> io::Result<bool> {
        if self.bytes.is_empty() {
            self.bytes = vec![0; BATCHES * PLACE_BYTES];
        }
        self.batches.clear();
        let mut places = self.bytes.chunks_exact_mut(PLACE_BYTES);
        let mut vectors: [libc::iovec; BATCHES] = std::array::from_fn(|_| {
            let place = places.next().expect("there are as many places as batches");
            libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: place.len() }
        });
        let mut controls = [Control::default(); BATCHES];
        let mut names = [Name::default(); BATCHES];
        let mut messages = [empty_message(); BATCHES];
        let parts = vectors.iter_mut().zip(&mut controls).zip(&mut names);
        for (message, ((vector, control), name)) in messages.iter_mut().zip(parts) {
            let header = &mut message.msg_hdr;
            (header.msg_iov, header.msg_iovlen) = (vector, 1);
            (header.msg_control, header.msg_controllen) = control.room();
            (header.msg_name, header.msg_namelen) = (name.0.as_mut_ptr().cast(), NAME_BYTES as u32);
        }
        let received = wait_is_none(|| {
            // SAFETY: each message names one vector, a control buffer and room for an address, each with its length; each
            // vector is a place of its own. All of them live until the call is over, and nothing else reads or writes them
            // meanwhile. There is no time limit to point to.
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
        for index in 0..received.unwrap_or(0) {
            let (bytes, header) = (messages[index].msg_len as usize, &messages[index].msg_hdr);
            let segment = controls[index].segment_size(header.msg_controllen).unwrap_or(PLACE_BYTES);
            // The place of one from nowhere stays, so that places and batches agree; it has no bytes.
            let from = names[index].address(header.msg_namelen as usize);
            let bytes = if from.is_some() { bytes } else { 0 };
            let from = from.unwrap_or(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0));
            self.batches.push(Batch { from, bytes, segment });
        }
        Ok(!self.batches.is_empty())
    }
}

/// Bytes of the largest address of IP's (`sockaddr_in6`).
const NAME_BYTES: usize = 28;

/// Room for an address as the kernel writes it.
#[derive(Clone, Copy, Default)]
#[repr(C, align(8))]
struct Name([u8; NAME_BYTES + 4]);

impl Name {
    /// The address in the first `length` bytes; `None` if it is none of IP's.
    fn address(&self, length: usize) -> Option<SocketAddr> {
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
