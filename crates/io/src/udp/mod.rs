//! UDP, unicast and multicast, many datagrams by one system call.
//!
//! * [`Receiver`]: datagrams to an address of ours, to a group from anybody, or from one sender alone.
//! * [`Sender`]: datagrams to an address or a group.
//! * [`flow`]: one sender's datagrams by the gigabit, which the kernel writes to where they are wanted.
//! * [`burst`]: the same out, gathered from where the bytes stand, cut by the kernel, each message at its time.
//! * [`Port`]: datagrams to and from anybody, in batches that the kernel cuts and collects (GSO, GRO).

pub mod burst;
mod control;
pub mod flow;
mod inbox;
mod messages;
mod port;
mod receiver;
mod sender;
mod settings;
mod socket;
mod stamps;

pub(crate) use control::set_option;
pub use inbox::Inbox;
pub use port::{Arrival, Arrivals, Local, Port};
pub use receiver::{RECEIVE_BUFFER_BYTES, Receiver};
pub use sender::{Route, Sender};
pub use settings::Settings;
pub use socket::Granted;

use rustix::net::netdevice;
use socket2::{SockAddr, Socket};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// Datagrams that one system call carries.
pub const BATCH_DATAGRAMS: usize = 64;

/// Whether a datagram was not sent because it is larger than the way takes (`EMSGSIZE`).
pub fn is_too_large(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

/// Whether an error says that the kernel or the device does not cut messages (`UDP_SEGMENT`): `Some(true)` that it never will
/// (EIO: the device makes no checksums; ENOPROTOOPT), `Some(false)` that it did not cut this one (EINVAL: a segment larger than
/// the device's packets, too many segments, or a kernel that knows nothing of it).
fn refuses_to_cut(error: &io::Error) -> Option<bool> {
    match error.raw_os_error() {
        Some(libc::EIO | libc::ENOPROTOOPT) => Some(true),
        Some(libc::EINVAL) => Some(false),
        _ => None,
    }
}

/// The kernel's number of the interface, 0 where it is to choose.
fn interface_index(socket: &Socket, interface: Option<&str>) -> io::Result<u32> {
    let Some(name) = interface else { return Ok(0) };
    netdevice::name_to_index(socket, name)
        .map_err(|_| io::Error::new(io::ErrorKind::NotFound, format!("no network interface {name:?}")))
}

#[allow(unsafe_code)]
fn storage(ip: IpAddr) -> libc::sockaddr_storage {
    let address = SockAddr::from(SocketAddr::new(ip, 0));
    let mut storage = std::mem::MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let length = (address.len() as usize).min(size_of::<libc::sockaddr_storage>());
    // SAFETY: `as_ptr` is to `len` initialised bytes, `storage` has room for `length` ≤ `len` of them and is another
    // object; all zeros, and any bytes over them, are a valid `sockaddr_storage`.
    unsafe {
        std::ptr::copy_nonoverlapping(address.as_ptr().cast::<u8>(), storage.as_mut_ptr().cast(), length);
        storage.assume_init()
    }
}

/// A message's header without contents, for one datagram.
#[allow(unsafe_code)]
fn empty_message() -> libc::mmsghdr {
    // SAFETY: integers and pointers, for which all zeros stand for nothing.
    unsafe { std::mem::zeroed() }
}
