//! The parts of `linux/if.h`, `linux/if_tun.h` and `linux/route.h` that are used; a test compares sizes and numbers with
//! what 64-bit Linux has.

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::{Errno, Result};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::ffi::{CString, c_void};
use std::net::Ipv4Addr;

/// `struct ifreq`: a name, and a union of which each request reads or writes its own part.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Interface {
    name: [u8; NAME_BYTES],
    value: [u8; 24],
}

/// `struct rtentry`.
#[repr(C)]
#[derive(Debug)]
struct RouteEntry {
    pad1: u64,
    destination: SocketAddress,
    gateway: SocketAddress,
    mask: SocketAddress,
    flags: u16,
    pad2: i16,
    pad3: u64,
    pad4: *const c_void,
    metric: i16,
    device: *const u8,
    mtu: u64,
    window: u64,
    initial_rtt: u16,
}

/// `struct sockaddr_in`, which is as long as `struct sockaddr`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct SocketAddress {
    family: u16,
    port: u16,
    address: [u8; 4],
    zero: [u8; 8],
}

impl SocketAddress {
    fn of(address: Ipv4Addr) -> SocketAddress {
        SocketAddress { family: libc::AF_INET as u16, port: 0, address: address.octets(), zero: [0; 8] }
    }
}

const NAME_BYTES: usize = 16;
const TUNSETIFF: u32 = 0x4004_54CA;
const SIOCADDRT: u32 = 0x890B;
const SIOCGIFFLAGS: u32 = 0x8913;
const SIOCSIFFLAGS: u32 = 0x8914;
const SIOCSIFADDR: u32 = 0x8916;
const SIOCSIFDSTADDR: u32 = 0x8918;
const SIOCSIFMTU: u32 = 0x8922;
const SIOCSIFTXQLEN: u32 = 0x8943;
const IFF_UP: u16 = 1;
const IFF_TUN: u16 = 1;
const IFF_NO_PI: u16 = 0x1000;
const RTF_UP: u16 = 1;

/// A structure that an ioctl reads or writes.
///
/// # Safety
/// The type is `repr(C)`, has the layout of the structure that each request it is used with takes, and stays valid
/// whatever integers the kernel writes into it.
#[allow(unsafe_code)]
unsafe trait Argument {}
// SAFETY: bytes alone, in the size of `struct ifreq`, which the test below compares.
#[allow(unsafe_code)]
unsafe impl Argument for Interface {}
// SAFETY: `struct rtentry` member by member; the one request that takes it only reads it.
#[allow(unsafe_code)]
unsafe impl Argument for RouteEntry {}

#[allow(unsafe_code)]
fn ioctl<T: Argument>(descriptor: BorrowedFd<'_>, request: u32, argument: &mut T) -> Result<()> {
    // SAFETY: the pointer is to a whole structure of the request's layout (see `Argument`) that lives for the call.
    let result = unsafe { libc::ioctl(descriptor.as_raw_fd(), request as _, std::ptr::from_mut(argument)) };
    if result < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    Ok(())
}

/// Any socket: the requests about interfaces want one, of this thread's network namespace.
fn control() -> Result<OwnedFd> {
    socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
}

/// Makes `file` a TUN device and returns its name.
pub(super) fn make_tun(file: &OwnedFd, mut interface: Interface) -> Result<String> {
    interface.put_u16(IFF_TUN | IFF_NO_PI);
    ioctl(file.as_fd(), TUNSETIFF, &mut interface)?;
    let name = interface.name.iter().copied().take_while(|&byte| byte != 0).collect();
    String::from_utf8(name).map_err(|_| Errno::ILSEQ)
}

impl Interface {
    pub(super) fn new(name: &str) -> Result<Interface> {
        let mut interface = Interface { name: [0; NAME_BYTES], value: [0; 24] };
        if name.is_empty() || name.len() >= NAME_BYTES || name.contains('\0') {
            return Err(Errno::INVAL);
        }
        interface.name[..name.len()].copy_from_slice(name.as_bytes());
        Ok(interface)
    }

    fn put_u16(&mut self, value: u16) {
        self.value[..2].copy_from_slice(&value.to_ne_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.value[..4].copy_from_slice(&value.to_ne_bytes());
    }

    fn put_address(&mut self, address: Ipv4Addr) {
        let SocketAddress { family, address, .. } = SocketAddress::of(address);
        self.put_u16(family);
        self.value[4..8].copy_from_slice(&address);
    }

    fn request(mut self, request: u32) -> Result<Interface> {
        ioctl(control()?.as_fd(), request, &mut self)?;
        Ok(self)
    }

    pub(super) fn set_mtu(mut self, bytes: u32) -> Result<()> {
        self.put_u32(bytes);
        self.request(SIOCSIFMTU).map(drop)
    }

    pub(super) fn set_queue_length(mut self, packets: u32) -> Result<()> {
        self.put_u32(packets);
        self.request(SIOCSIFTXQLEN).map(drop)
    }

    pub(super) fn set_address(mut self, address: Ipv4Addr) -> Result<()> {
        self.put_address(address);
        self.request(SIOCSIFADDR).map(drop)
    }

    pub(super) fn set_peer(mut self, address: Ipv4Addr) -> Result<()> {
        self.put_address(address);
        self.request(SIOCSIFDSTADDR).map(drop)
    }

    pub(super) fn set_up(self) -> Result<()> {
        let mut interface = self.request(SIOCGIFFLAGS)?;
        let flags = u16::from_ne_bytes([interface.value[0], interface.value[1]]);
        interface.put_u16(flags | IFF_UP);
        interface.request(SIOCSIFFLAGS).map(drop)
    }
}

/// A route to be added.
#[derive(Debug)]
pub(super) struct Route {
    device: CString,
    metric: u8,
}

impl Route {
    pub(super) fn default_to(device: &str, metric: u8) -> Result<Route> {
        Ok(Route { device: CString::new(device).map_err(|_| Errno::INVAL)?, metric })
    }

    pub(super) fn add(&self) -> Result<()> {
        let any = SocketAddress::of(Ipv4Addr::UNSPECIFIED);
        let mut entry = RouteEntry {
            pad1: 0,
            destination: any,
            gateway: any,
            mask: any,
            flags: RTF_UP,
            pad2: 0,
            pad3: 0,
            pad4: std::ptr::null(),
            // The kernel takes 1 off, and 0 as no metric, which is the same as a metric of 0.
            metric: i16::from(self.metric) + 1,
            // The kernel reads the name during the call, for which `self` lives.
            device: self.device.as_ptr().cast(),
            mtu: 0,
            window: 0,
            initial_rtt: 0,
        };
        ioctl(control()?.as_fd(), SIOCADDRT, &mut entry)
    }
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn layouts_and_numbers_are_the_kernel_s() {
        assert_eq!((size_of::<Interface>(), size_of::<libc::ifreq>()), (40, 40));
        assert_eq!(offset_of!(Interface, value), offset_of!(libc::ifreq, ifr_ifru));
        assert_eq!((size_of::<RouteEntry>(), size_of::<SocketAddress>()), (120, 16));
        assert_eq!((offset_of!(RouteEntry, flags), offset_of!(RouteEntry, device)), (56, 88));
        for (ours, theirs) in [
            (TUNSETIFF, libc::TUNSETIFF as u32),
            (SIOCADDRT, libc::SIOCADDRT as u32),
            (SIOCGIFFLAGS, libc::SIOCGIFFLAGS as u32),
            (SIOCSIFFLAGS, libc::SIOCSIFFLAGS as u32),
            (SIOCSIFADDR, libc::SIOCSIFADDR as u32),
            (SIOCSIFDSTADDR, libc::SIOCSIFDSTADDR as u32),
            (SIOCSIFMTU, libc::SIOCSIFMTU as u32),
            (SIOCSIFTXQLEN, libc::SIOCSIFTXQLEN as u32),
        ] {
            assert_eq!(ours, theirs);
        }
        assert_eq!((IFF_TUN, IFF_NO_PI), (libc::IFF_TUN as u16, libc::IFF_NO_PI as u16));
        assert_eq!((IFF_UP, RTF_UP), (libc::IFF_UP as u16, libc::RTF_UP));
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        for name in ["", "0123456789abcdef", "a\0b"] {
            assert_eq!(Interface::new(name).unwrap_err(), Errno::INVAL);
        }
        assert!(Interface::new("0123456789abcde").is_ok());
    }
}
