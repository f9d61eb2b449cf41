//! What counts as one address where strangers are bounded.

use std::net::{IpAddr, Ipv6Addr};

/// The address of a subscriber: of IPv6 the 64 bits that one is given (RFC 6177).
pub(crate) fn subscriber(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 => v4,
    }
}
