//! The `Host` field: under which name, or at which address, a client called the server.

use super::head::Headers;
use super::{HttpError, Version};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What a `Host` field names, without the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host<'a> {
    /// An IP address literal.
    Address(IpAddr),
    /// A registered name as it came; empty where the field is.
    Name(&'a str),
}

impl<'a> Host<'a> {
    /// Parses `uri-host [ ":" port ]` (RFC 9112 §3.2, RFC 3986 §3.2.2); `None` for anything else. An IPv6 address may
    /// have a zone (RFC 6874), which is left out. Addresses of later versions (`IPvFuture`) are not known.
    pub fn parse(value: &'a str) -> Option<Host<'a>> {
        let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        if let Some(literal) = value.strip_prefix('[') {
            let (inside, port) = literal.split_once(']')?;
            let port = if port.is_empty() { port } else { port.strip_prefix(':')? };
            let (address, zone) = inside.split_once('%').unwrap_or((inside, ""));
            let address = address.parse::<Ipv6Addr>().ok()?;
            return (is_port(port) && is_registered_name(zone)).then_some(Host::Address(address.into()));
        }
        let (host, port) = value.split_once(':').unwrap_or((value, ""));
        if !is_port(port) {
            return None;
        }
        match host.parse::<Ipv4Addr>() {
            Ok(address) => Some(Host::Address(address.into())),
            Err(_) => is_registered_name(host).then_some(Host::Name(host)),
        }
    }
}

/// Whether `text` is made of `unreserved / pct-encoded / sub-delims` (RFC 3986 §3.2.2). Empty is a name too.
fn is_registered_name(text: &str) -> bool {
    let mut rest = text.as_bytes();
    loop {
        rest = match rest {
            [] => return true,
            [b'%', high, low, after @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => after,
            [byte, after @ ..] if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(byte) => after,
            _ => return false,
        }
    }
}

/// HTTP/1.1 needs exactly one `Host`, HTTP/1.0 may have none, and no request two or a broken one (RFC 9112 §3.2).
pub(super) fn check(headers: &Headers, version: Version) -> Result<(), HttpError> {
    let mut fields = headers.all("host");
    match (fields.next(), fields.next()) {
        (_, Some(_)) => Err(HttpError::BadHost("there are several Host fields")),
        (None, None) if version == Version::Http11 => Err(HttpError::BadHost("there is no Host field")),
        (Some(value), None) if Host::parse(value).is_none() => {
            Err(HttpError::BadHost("the Host field is no name or address with an optional port"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hosts_are_addresses_or_names() {
        let address = |text: &str| Some(Host::Address(text.parse().unwrap()));
        for (value, expected) in [
            ("127.0.0.1:8080", address("127.0.0.1")),
            ("192.0.2.7", address("192.0.2.7")),
            ("[::1]:8080", address("::1")),
            ("[2001:db8::7]", address("2001:db8::7")),
            ("[fe80::1%25eth0]:80", address("fe80::1")),
            ("relay:8080", Some(Host::Name("relay"))),
            ("Relay.Example.org.", Some(Host::Name("Relay.Example.org."))),
            ("my_relay:", Some(Host::Name("my_relay"))),
            ("a%41b", Some(Host::Name("a%41b"))),
            ("", Some(Host::Name(""))),
            // Only browsers' canonical form is an address.
            ("127.1", Some(Host::Name("127.1"))),
            ("0x7f000001", Some(Host::Name("0x7f000001"))),
        ] {
            assert_eq!(Host::parse(value), expected, "{value}");
        }
        for bad in [
            "a b",
            "a/b",
            "user@host",
            "h:80:80",
            "h:x",
            "::1",
            "[::1",
            "[::1]8080",
            "[h]",
            "[1.2.3.4]",
            "ä",
            "a%4",
            "a?b",
            "h#",
            "[::1%eth 0]",
        ] {
            assert_eq!(Host::parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn an_address_survives_with_any_port(address: IpAddr, port: u16) {
            let value = std::net::SocketAddr::new(address, port).to_string();
            prop_assert_eq!(Host::parse(&value), Some(Host::Address(address)));
        }

        #[test]
        fn nothing_with_a_space_a_slash_or_a_user_is_one(before in "[a-z0-9.:\\[\\]]{0,12}", after in "[a-z0-9.:\\[\\]]{0,12}", bad in "[ /@?#\\\\\"<>^`{|}\\x00-\\x1f\\x7f]") {
            let value = format!("{before}{bad}{after}");
            prop_assert_eq!(Host::parse(&value), None);
        }
    }
}
