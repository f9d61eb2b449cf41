//! Which addresses a webhook may go to.
//!
//! A URL in a configuration may be a stranger's choice, and a name may lead to one address when it is checked and to another
//! when it is connected to (DNS rebinding). So the address of the connection itself is judged, each time.

use crate::http1::Url;
use crate::policy::Networks;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses that webhooks may go to: those of the internet, and those in networks that are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Destinations {
    listed: Networks,
}

impl Destinations {
    /// The internet, and the networks in `listed`.
    pub fn new(listed: Networks) -> Destinations {
        Destinations { listed }
    }

    /// Whether a connection to `address` may be made.
    pub fn allow(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.listed.name(address) || is_of_internet(address)
    }

    /// Whether `url` names an address, and not a host, that is not allowed: that can be told before anything is sent.
    pub fn refuse(&self, url: &Url) -> bool {
        url.host().parse::<IpAddr>().is_ok_and(|address| !self.allow(address))
    }
}

/// Whether an address is one of the internet's, and belongs to no network inside of which it means something else (the
/// registries of RFC 6890).
fn is_of_internet(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_of_internet_v4(address),
        IpAddr::V6(address) => is_of_internet_v6(address),
    }
}

fn is_of_internet_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    let is_special = match first {
        // "This network", loopback, private networks (RFC 1918), and all from 224 on: multicast, reserved, broadcast.
        0 | 10 | 127 | 224.. => true,
        // Shared by the customers of a provider (RFC 6598).
        100 => (64..128).contains(&second),
        // Link-local; clouds have the keys of their machines there.
        169 => second == 254,
        172 => (16..32).contains(&second),
        // Protocol assignments, documentation, the former relays of 6to4, private networks.
        192 => matches!((second, third), (0, 0 | 2) | (88, 99) | (168, _)),
        // Benchmarks (RFC 2544), documentation.
        198 => matches!((second, third), (18 | 19, _) | (51, 100)),
        203 => (second, third) == (0, 113),
        _ => false,
    };
    !is_special
}

fn is_of_internet_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_of_internet_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // A gateway to IPv4 (RFC 6052) leads to the address inside.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        // As does 6to4 (RFC 3056).
        [0x2002, high, low, ..] => embedded(high, low),
        // Protocol assignments, Teredo among them; documentation.
        [0x2001, second, ..] if second < 0x200 || second == 0xdb8 => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        // All that is given out lies in 2000::/3 (RFC 4291 §2.4). Loopback, unique local, link-local and multicast do not.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow(listed: &[&str], address: &str) -> bool {
        let listed = Networks::parse(listed.iter().copied()).unwrap();
        Destinations::new(listed).allow(address.parse().unwrap())
    }

    #[test]
    fn the_internet_is_allowed_and_nothing_inside_a_network() {
        for address in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.1.1",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.1",
            "192.167.1.1",
            "198.17.255.255",
            "198.20.0.0",
            "203.0.114.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:200::1",
            "2001:db9::1",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
            "2002:101:101::1",
        ] {
            assert!(allow(&[], address), "{address}");
        }
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.1.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "239.1.2.3",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "2002:a00:1::1",
            "3fff::1",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!allow(&[], address), "{address}");
        }
    }

    #[test]
    fn a_network_that_is_listed_is_allowed_and_no_other() {
        let listed = ["10.1.0.0/16", "::1", "fd00::/8"];
        for address in ["10.1.2.3", "::ffff:10.1.2.3", "::1", "fd12::1", "1.1.1.1"] {
            assert!(allow(&listed, address), "{address}");
        }
        for address in ["10.2.0.1", "127.0.0.1", "fe80::1", "169.254.169.254"] {
            assert!(!allow(&listed, address), "{address}");
        }
    }

    #[test]
    fn an_address_in_a_url_is_told_at_once_and_a_name_is_not() {
        let internet = Destinations::default();
        let refuse = |url: &str| internet.refuse(&url.parse().unwrap());
        assert!(
            refuse("http://127.0.0.1/a")
                && refuse("https://[::1]:8443/")
                && refuse("http://169.254.169.254/latest")
        );
        assert!(!refuse("https://1.1.1.1/") && !refuse("https://localhost/"));
        // Other ways to write an address are names here, which are resolved and judged by what they lead to.
        assert!(!refuse("http://2130706433/") && !refuse("http://0x7f.1/"));
    }
}
