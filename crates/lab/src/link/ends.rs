//! Two networks with a TUN device in each; this program holds the devices' other sides.

use glassline_io::namespace::{self, NamespaceError, NetworkNamespace};
use glassline_io::tun::{self, Tun, TunError};
use std::net::Ipv4Addr;
use thiserror::Error;

/// Two networks that see nothing of each other but through us.
#[derive(Debug)]
pub struct Ends {
    /// The device outside.
    pub far: Tun,
    /// The device inside.
    pub near: Tun,
    /// What they are devices of.
    pub networks: Networks,
}

/// The two networks, and their devices' addresses.
#[derive(Debug)]
pub struct Networks {
    /// What both devices are called.
    pub device: String,
    /// The outer device's address.
    pub far_address: Ipv4Addr,
    /// The inner device's address.
    pub near_address: Ipv4Addr,
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
    /// Makes the networks, and comes back to the outer one. Device `glN` outside has the address 100.64.N.1, that inside
    /// 100.64.N.2, N the first number that is free outside.
    ///
    /// Outside is the network of the calling process where it may administer that (root), and else a new one in a user
    /// namespace of its own, into which the process moves. It must be the only thread.
    ///
    /// # Errors
    /// Where the system gives no namespaces or devices.
    pub fn make(mtu_bytes: u32) -> Result<Ends, EndsError> {
        let is_outside_own = namespace::may_administer();
        if !is_outside_own {
            namespace::unshare_user()?;
            namespace::unshare_network()?;
            tun::set_loopback_up()?;
        }
        let outside = NetworkNamespace::current()?;
        let far = Tun::open("gl%d")?;
        let number: Option<u8> = far.name().strip_prefix("gl").and_then(|number| number.parse().ok());
        let number = number.ok_or_else(|| EndsError::Full { found: far.name().to_owned() })?;
        let (far_address, near_address) =
            (Ipv4Addr::new(100, 64, number, 1), Ipv4Addr::new(100, 64, number, 2));
        far.configure(far_address, near_address, mtu_bytes)?;
        namespace::unshare_network()?;
        let made = Ends::inside(far.name(), near_address, far_address, mtu_bytes);
        // Back, whether that worked or not.
        outside.enter()?;
        let (near, inside) = made?;
        let device = far.name().to_owned();
        let networks = Networks { device, far_address, near_address, is_outside_own, outside, inside };
        Ok(Ends { far, near, networks })
    }

    /// The device has the outer one's name, so that a link within a link finds another number.
    fn inside(
        name: &str,
        address: Ipv4Addr,
        peer: Ipv4Addr,
        mtu_bytes: u32,
    ) -> Result<(Tun, NetworkNamespace), EndsError> {
        tun::set_loopback_up()?;
        let near = Tun::open(name)?;
        near.configure(address, peer, mtu_bytes)?;
        near.take_default_route()?;
        Ok((near, NetworkNamespace::current()?))
    }
}

impl Networks {
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
