//! Two networks with a TUN device in each for every line between them; this program holds the devices' other sides.

use glassline_io::namespace::{self, NamespaceError, NetworkNamespace};
use glassline_io::tun::{self, Tun, TunError};
use std::net::Ipv4Addr;
use thiserror::Error;

/// Two networks that see nothing of each other but through us.
#[derive(Debug)]
pub struct Ends {
    /// The devices of each line between them; at least one.
    pub lines: Vec<LineEnds>,
    /// What they are devices of.
    pub networks: Networks,
}

/// One line between two networks.
#[derive(Debug)]
pub struct LineEnds {
    /// Its device outside.
    pub far: Tun,
    /// Its device inside.
    pub near: Tun,
    /// Their addresses.
    pub addresses: Addresses,
}

/// The devices of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// What both devices are called.
    pub device: String,
    /// The outer device's address.
    pub far: Ipv4Addr,
    /// The inner device's address.
    pub near: Ipv4Addr,
}

/// The two networks, and the addresses of the first line's devices.
#[derive(Debug)]
pub struct Networks {
    /// Of the first line.
    pub addresses: Addresses,
    /// Whether outside is the network that this process was started in.
    pub is_outside_own: bool,
    outside: NetworkNamespace,
    inside: NetworkNamespace,
}

/// Why there are no two networks.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EndsError {
    /// No namespaces.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// No devices.
    #[error(transparent)]
    Tun(#[from] TunError),
    /// 256 links are there already.
    #[error("the device got the name {found:?}; 256 links at a time, gl0 to gl255, have addresses")]
    Full {
        /// What the kernel made of `gl%d`.
        found: String,
    },
}

impl Ends {
    /// Makes the networks with this many `lines`, at least one, and comes back to the outer one. Device `glN` of a line has
    /// outside the address 100.64.N.1 and inside 100.64.N.2, N the first number that is free outside.
    ///
    /// Inside, packets for a line's own far address go over it, as do those of sockets that are bound to its device, wherever
    /// they lead: each line has a default route of its own, which stands behind those of the lines before it.
    ///
    /// Outside is the network of the calling process where it may administer that (root), and else a new one in a user
    /// namespace of its own, into which the process moves. It must be the only thread.
    ///
    /// # Errors
    /// Where the system gives no namespaces or devices, or there are more lines than devices have numbers (256, those of
    /// other links counted).
    pub fn make(mtu_bytes: u32, lines: usize) -> Result<Ends, EndsError> {
        let is_outside_own = namespace::may_administer();
        if !is_outside_own {
            namespace::unshare_user()?;
            namespace::unshare_network()?;
            tun::set_loopback_up()?;
        }
        let outside = NetworkNamespace::current()?;
        let (far, addresses) = open_outside(mtu_bytes)?;
        namespace::unshare_network()?;
        let made = Ends::inside(&addresses, mtu_bytes);
        // Back, whether that worked or not.
        outside.enter()?;
        let (near, inside) = made?;
        let mut ends = vec![LineEnds { far, near, addresses: addresses.clone() }];
        let networks = Networks { addresses, is_outside_own, outside, inside };
        for number in 1..lines {
            // A device that has no number is refused before its metric counts.
            ends.push(networks.add_line(mtu_bytes, u8::try_from(number).unwrap_or(u8::MAX))?);
        }
        Ok(Ends { lines: ends, networks })
    }

    fn inside(addresses: &Addresses, mtu_bytes: u32) -> Result<(Tun, NetworkNamespace), EndsError> {
        tun::set_loopback_up()?;
        let near = open_inside(addresses, mtu_bytes, 0)?;
        Ok((near, NetworkNamespace::current()?))
    }
}

/// Makes a device in the outer network, which this thread is in.
fn open_outside(mtu_bytes: u32) -> Result<(Tun, Addresses), EndsError> {
    let device = Tun::open("gl%d")?;
    let number: Option<u8> = device.name().strip_prefix("gl").and_then(|number| number.parse().ok());
    let number = number.ok_or_else(|| EndsError::Full { found: device.name().to_owned() })?;
    let addresses = Addresses {
        device: device.name().to_owned(),
        far: Ipv4Addr::new(100, 64, number, 1),
        near: Ipv4Addr::new(100, 64, number, 2),
    };
    device.configure(addresses.far, addresses.near, mtu_bytes)?;
    Ok((device, addresses))
}

/// Makes its peer in the inner network, which this thread is in. It has the outer one's name, so that a link within a
/// link finds another number.
fn open_inside(addresses: &Addresses, mtu_bytes: u32, metric: u8) -> Result<Tun, EndsError> {
    let device = Tun::open(&addresses.device)?;
    device.configure(addresses.near, addresses.far, mtu_bytes)?;
    device.take_default_route(metric)?;
    Ok(device)
}

impl Networks {
    /// Makes the devices of a further line, with the next number that is free. `metric` (from 1 up) is that of its default
    /// route.
    fn add_line(&self, mtu_bytes: u32, metric: u8) -> Result<LineEnds, EndsError> {
        let (far, addresses) = open_outside(mtu_bytes)?;
        let near = self.within(|| {
            let near = open_inside(&addresses, mtu_bytes, metric)?;
            // The other side may answer from another line's address.
            tun::loosen_source_check(near.name())?;
            Ok::<Tun, EndsError>(near)
        })??;
        Ok(LineEnds { far, near, addresses })
    }

    /// Runs `action` with this thread in the inner network: what it starts is there.
    ///
    /// # Errors
    /// Where the thread cannot move.
    pub fn within<R>(&self, action: impl FnOnce() -> R) -> Result<R, EndsError> {
        self.inside.enter()?;
        let result = action();
        self.outside.enter()?;
        Ok(result)
    }
}
