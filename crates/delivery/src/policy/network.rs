//! Networks, as lists of address ranges.

use ipnet::IpNet;
use std::net::IpAddr;
use thiserror::Error;

/// Addresses that may do something. An empty list is everybody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(Vec<IpNet>);

/// What is no network.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{found:?} is no network; write an address or a range, as in \"10.0.0.0/8\" or \"2001:db8::/32\"")]
pub struct NetworkError {
    /// The text.
    found: String,
}

impl Networks {
    /// The networks that `texts` name, each an address or an address with a prefix length (RFC 4632).
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Networks, NetworkError> {
        let network = |text: &'a str| {
            let parsed = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
            parsed.map_err(|_| NetworkError { found: text.to_owned() })
        };
        texts.into_iter().map(network).collect::<Result<_, _>>().map(Networks)
    }

    /// Whether there is no restriction.
    pub fn are_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `address` is in a network that is named; it is in none where none is named.
    pub fn name(&self, address: IpAddr) -> bool {
        !self.are_all() && self.contain(address)
    }

    /// Whether `address` is in one of them. IPv4 in IPv6's clothes (`::ffff:a.b.c.d`) counts as IPv4.
    pub fn contain(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.are_all() || self.0.iter().any(|network| network.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_their_networks() {
        let networks = Networks::parse(["10.1.0.0/16", "192.0.2.7", "2001:db8::/32"]).unwrap();
        for inside in ["10.1.255.1", "::ffff:10.1.2.3", "192.0.2.7", "2001:db8:ffff::1"] {
            assert!(networks.contain(inside.parse().unwrap()), "{inside}");
        }
        for outside in ["10.2.0.1", "192.0.2.8", "2001:db9::1", "::1"] {
            assert!(!networks.contain(outside.parse().unwrap()), "{outside}");
        }
        let (nobody, somebody) = (Networks::default(), "203.0.113.9".parse().unwrap());
        assert!(nobody.contain(somebody) && !nobody.name(somebody) && !networks.name(somebody));
        assert!(networks.name("10.1.255.1".parse().unwrap()));
    }

    #[test]
    fn what_is_no_network_is_named() {
        for bad in ["", "10.0.0.0/33", "example.org", "10.0.0"] {
            let error = Networks::parse(["10.0.0.0/8", bad]).unwrap_err().to_string();
            assert!(error.contains(&format!("{bad:?}")), "{error}");
        }
    }
}
