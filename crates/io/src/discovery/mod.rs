//! Services of the local network, announced and found by multicast DNS (RFC 6762) and DNS-SD (RFC 6763).
//!
//! * [`Announcement`]: answers queries with a service of this machine, until it is dropped.
//! * [`Browser`]: tells what others announce, and what they take back.
//!
//! Both speak to the groups 224.0.0.251 and ff02::fb, port 5353, which stay in their network; nothing is ever sent to a
//! broadcast address. What is found is a claim of the machine that sent it: nothing is authenticated here.

mod announcement;
mod browser;

pub use announcement::{Announcement, AnnouncementEvent, Service, check_name};
pub use browser::{Browser, Change, Found};

use mdns_sd::{Error, IfKind, IfPredicate, ServiceDaemon};
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// The longest name of a service: a label of DNS (RFC 6763 §4.1.1).
pub const MAX_NAME_BYTES: usize = 63;

/// How long the thread of a dropped [`Announcement`] or [`Browser`] has to say goodbye.
const FAREWELL: Duration = Duration::from_millis(500);

fn io_error(error: Error) -> io::Error {
    match error {
        Error::Again => io::ErrorKind::WouldBlock.into(),
        error => io::Error::other(error.to_string()),
    }
}

/// Fails with `NotFound` where there is no such interface.
fn check_interface(interface: Option<&str>) -> io::Result<()> {
    let Some(name) = interface else { return Ok(()) };
    if std::path::Path::new("/sys/class/net").join(name).exists() && !name.contains('/') {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::NotFound, format!("no network interface {name:?}")))
}

/// Which of the machine's interfaces, each with one of its addresses, are spoken at.
#[derive(Clone, Debug)]
struct Scope {
    interface: Option<String>,
    /// Our own address; an unspecified one stands for all of its family, `::` for all.
    address: IpAddr,
}

impl Scope {
    fn has(&self, name: &str, address: IpAddr) -> bool {
        let is_near = match self.address {
            IpAddr::V4(own) if own.is_unspecified() => address.is_ipv4(),
            own if own.is_unspecified() => true,
            // All of 127.0.0.0/8 is at one interface, which bears one of them.
            own => own == address || own.is_loopback() && address.is_loopback(),
        };
        is_near && self.interface.as_deref().is_none_or(|own| own == name)
    }

    /// Has the daemon speak nowhere else.
    fn restrict(self, daemon: &Daemon) -> io::Result<()> {
        let others = IfPredicate::new(move |other| !self.has(&other.name, other.ip()));
        daemon.0.disable_interface(IfKind::Predicate(others)).map_err(io_error)
    }
}

/// The thread that speaks multicast DNS. Ends when it is dropped, which waits until it has.
struct Daemon(ServiceDaemon);

impl Daemon {
    fn new() -> io::Result<Daemon> {
        ServiceDaemon::new().map(Daemon).map_err(io_error)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Ok(done) = self.0.shutdown() {
            let _ = done.recv_timeout(FAREWELL);
        }
    }
}

impl std::fmt::Debug for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Daemon")
    }
}

#[cfg(test)]
mod tests;
