//! TUN devices: network interfaces with this program at their other side.
//!
//! What the system sends into the device is read here, IP packet by packet; what is written here comes out of it. The
//! device belongs to the network namespace of the thread that opens it, and goes when it is closed.

mod raw;

use raw::{Interface, Route};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use thiserror::Error;

/// Where TUN devices are had from.
const DEVICE: &str = "/dev/net/tun";

/// A device that cannot be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TunError {
    /// The kernel was built without TUN, its module is not loaded, or a container does not show it.
    #[error("{DEVICE} cannot be opened: {error}")]
    Absent {
        /// What the system says.
        error: io::Error,
    },
    /// The system refuses a step.
    #[error("cannot {step}: {error}")]
    Refused {
        /// The step.
        step: &'static str,
        /// What the system says.
        error: io::Error,
    },
}

impl TunError {
    fn refused(step: &'static str) -> impl Fn(Errno) -> TunError {
        move |error| TunError::Refused { step, error: error.into() }
    }
}

/// A TUN device: IP packets without any header before them. Reading and writing do not block.
#[derive(Debug)]
pub struct Tun {
    file: OwnedFd,
    name: String,
}

impl Tun {
    /// Makes a device in this thread's network namespace. A `%d` in the name becomes the first number that is free.
    ///
    /// # Errors
    /// Without `CAP_NET_ADMIN`, without `/dev/net/tun`, or where the name is taken or longer than 15 bytes.
    pub fn open(name: &str) -> Result<Tun, TunError> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::open(DEVICE, flags, Mode::empty())
            .map_err(|error| TunError::Absent { error: error.into() })?;
        let step = TunError::refused("make a TUN device");
        let interface = Interface::new(name).map_err(&step)?;
        let name = raw::make_tun(&file, interface).map_err(&step)?;
        Ok(Tun { file, name })
    }

    /// Its name in the namespace where it was made.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Gives the device an address and that of the only peer behind it, and sets it up. In the namespace where it was
    /// made.
    ///
    /// # Errors
    /// Where the system refuses, for example an MTU outside of 68 to 65,535.
    pub fn configure(&self, address: Ipv4Addr, peer: Ipv4Addr, mtu_bytes: u32) -> Result<(), TunError> {
        let interface = || Interface::new(&self.name);
        let set = |step, done: rustix::io::Result<()>| done.map_err(TunError::refused(step));
        set("set a device's MTU", interface().and_then(|device| device.set_mtu(mtu_bytes)))?;
        // Long enough that a burst waits here until it is read, and only the reader's own queue counts. Only root of
        // the whole machine may change it; others have the kernel's 500 packets.
        let _ = interface().and_then(|device| device.set_queue_length(4096));
        set("set a device's address", interface().and_then(|device| device.set_address(address)))?;
        set("set a device's peer", interface().and_then(|device| device.set_peer(peer)))?;
        set("set a device up", interface().and_then(Interface::set_up))
    }

    /// Has all packets that no other route takes go into the device. In the namespace where it was made. Of several
    /// devices with such a route packets go into the one with the least metric, 0 for the first; those of a socket that
    /// is bound to a device (`SO_BINDTODEVICE`) go into that one.
    ///
    /// # Errors
    /// Where the system refuses, for example a metric that another device has.
    pub fn take_default_route(&self, metric: u8) -> Result<(), TunError> {
        Route::default_to(&self.name, metric)
            .and_then(|route| route.add())
            .map_err(TunError::refused("set the default route"))
    }

    /// Reads a packet, its length; `None` where none waits. What is longer than the buffer is cut.
    ///
    /// # Errors
    /// Where the device is gone.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::io::read(&self.file, buffer) {
            Ok(length) => Ok(Some(length)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Has a packet come out of the device.
    ///
    /// # Errors
    /// What the system says of it: `InvalidInput` for what is no IP packet.
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        rustix::io::write(&self.file, packet)?;
        Ok(())
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Has this thread's network namespace take packets on any device by which their source can be reached at all, where it
/// takes them on the best one only (RFC 3704, strict against loose reverse path filters): what comes over a second
/// device from an address that is reached over the first would be dropped there. For the devices that there are.
///
/// # Errors
/// Where the setting cannot be changed, for example since `/proc/sys` is read-only.
pub fn loosen_source_check(device: &str) -> Result<(), TunError> {
    const STRICT: &[u8] = b"1";
    let file = |of: &str| format!("/proc/sys/net/ipv4/conf/{of}/rp_filter");
    // The kernel goes by the larger one of both: 2 is loose.
    let is_strict = ["all", device]
        .iter()
        .any(|of| std::fs::read(file(of)).is_ok_and(|text| text.trim_ascii() == STRICT));
    if !is_strict {
        return Ok(());
    }
    std::fs::write(file("all"), "2")
        .map_err(|error| TunError::Refused { step: "set net.ipv4.conf.all.rp_filter to 2", error })
}

/// Sets up the loopback device of this thread's network namespace: a new one has it, but down.
///
/// # Errors
/// Without `CAP_NET_ADMIN`.
pub fn set_loopback_up() -> Result<(), TunError> {
    Interface::new("lo").and_then(Interface::set_up).map_err(TunError::refused("set loopback up"))
}
