//! What this machine offers.

use super::{Daemon, MAX_NAME_BYTES, Scope, check_interface, io_error};
use mdns_sd::{DaemonEvent, ServiceInfo};
use std::io;
use std::net::SocketAddr;

/// What is announced.
#[derive(Clone, Copy, Debug)]
pub struct Service<'a> {
    /// Its type: `_NAME._udp.local.`, NAME of at most 15 bytes.
    pub kind: &'a str,
    /// What people call it: 1 to [`MAX_NAME_BYTES`] bytes, without control characters, `.` and `\`.
    pub name: &'a str,
    /// Where it listens. An unspecified address stands for all that this machine has, also those that it gets later.
    pub address: SocketAddr,
    /// The one network interface at which others find it; otherwise all that have its address.
    pub interface: Option<&'a str>,
    /// What else is told of it (TXT), visible to all: keys of ASCII without `=`, 255 bytes with their values.
    pub properties: &'a [(&'a str, &'a str)],
}

/// What an announcement tells its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnnouncementEvent {
    /// Another service had the name: this one goes by the given name now (RFC 6762 §9).
    Renamed(String),
    /// Something went wrong, for example no multicast at an interface; it is tried on.
    Trouble(String),
}

/// A service that others find, as long as this exists. When it is dropped, they are told that it has gone.
#[derive(Debug)]
pub struct Announcement {
    /// Answers until it is dropped, and says goodbye then.
    _daemon: Daemon,
}

impl Announcement {
    /// Announces `service` by a thread of its own, once no other machine has objected to the name for a second. `tell`
    /// is called by another thread.
    ///
    /// # Errors
    /// `InvalidInput` where the name or a property may not be, `NotFound` where there is no such interface; what the system
    /// says where there is no thread or descriptor left.
    pub fn new(
        service: &Service<'_>,
        tell: impl Fn(AnnouncementEvent) + Send + 'static,
    ) -> io::Result<Announcement> {
        check_name(service.name)?;
        check_interface(service.interface)?;
        let address = service.address.ip();
        let host = host_name(service.address.port());
        let own = if address.is_unspecified() { String::new() } else { address.to_string() };
        let info = ServiceInfo::new(
            service.kind,
            service.name,
            &host,
            own.as_str(),
            service.address.port(),
            service.properties,
        )
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
        let info = if address.is_unspecified() { info.enable_addr_auto() } else { info };
        let daemon = Daemon::new()?;
        let events = daemon.0.monitor().map_err(io_error)?;
        let kind = service.kind.to_owned();
        // It ends with the daemon, which drops its end of the channel then.
        std::thread::Builder::new().name("announce".into()).spawn(move || {
            events.iter().filter_map(|event| news(event, &kind)).for_each(tell);
        })?;
        Scope { interface: service.interface.map(str::to_owned), address }.restrict(&daemon)?;
        daemon.0.register(info).map_err(io_error)?;
        Ok(Announcement { _daemon: daemon })
    }
}

fn news(event: DaemonEvent, kind: &str) -> Option<AnnouncementEvent> {
    match event {
        DaemonEvent::NameChange(change) => {
            // The host's name may change too; that is not told, since it is shown nowhere.
            let name = change.new_name.strip_suffix(kind)?.strip_suffix('.')?;
            Some(AnnouncementEvent::Renamed(name.to_owned()))
        }
        DaemonEvent::Error(error) => Some(AnnouncementEvent::Trouble(error.to_string())),
        _ => None,
    }
}

/// Whether a service may be announced by this name.
///
/// # Errors
/// `InvalidInput`, with what is wrong about it: see [`Service::name`].
pub fn check_name(name: &str) -> io::Result<()> {
    let wrong = match name {
        "" => "it is empty",
        name if name.len() > MAX_NAME_BYTES => "it has more than 63 bytes",
        name if name.chars().any(char::is_control) => "it has control characters",
        // Both mean something in names of DNS, and not all programs agree how to write them.
        name if name.contains(['.', '\\']) => "it has a dot or a backslash",
        _ => return Ok(()),
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} cannot be announced: {wrong}")))
}

/// A name for this machine that no other program on it uses: others may announce it with other addresses.
fn host_name(port: u16) -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}-{port}.local.", host_label(&name))
}

/// The first label of a host's name, of letters, digits and hyphens, with room for a port behind it.
pub(super) fn host_label(name: &str) -> String {
    let first = name.trim().split('.').next().unwrap_or_default();
    let plain = first.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    let label: String = plain.take(MAX_NAME_BYTES - 10).collect();
    match label.trim_matches('-') {
        "" => "host".to_owned(),
        label => label.to_owned(),
    }
}
