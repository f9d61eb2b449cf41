//! The names that a server is called by.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use std::collections::BTreeSet;

/// Names under which a server is called.
pub trait KnownHosts {
    /// Whether `name` is one, in lower case and without a dot at its end.
    fn has(&self, name: &str) -> bool;
}

/// Names that the configuration gives: each a host name, or `*.` before one for all that are one label longer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(BTreeSet<String>);

impl Hosts {
    /// The names as they are configured, in lower case.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The names in `texts`; the first that is none is the error. Case and a dot at the end mean nothing.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Hosts, &'a str> {
        let name = |text: &'a str| {
            let plain = canonical(text);
            is_host_name(plain.strip_prefix("*.").unwrap_or(&plain)).then_some(plain).ok_or(text)
        };
        texts.into_iter().map(name).collect::<Result<_, _>>().map(Hosts)
    }
}

impl KnownHosts for Hosts {
    fn has(&self, name: &str) -> bool {
        let of_wildcard =
            || name.split_once('.').is_some_and(|(_, rest)| self.0.contains(&format!("*.{rest}")));
        self.0.contains(name) || of_wildcard()
    }
}

/// Letters, digits, dashes and underscores in labels of up to 63, 253 in all (RFC 1123 §2.1, RFC 8552 for underscores).
fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// In lower case, without a dot at its end.
pub(crate) fn canonical(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_configured_with_and_without_wildcards() {
        let hosts = Hosts::parse(["Relay.Example.org.", "*.lan", "my_relay"]).unwrap();
        for name in ["relay.example.org", "a.lan", "my_relay"] {
            assert!(hosts.has(name), "{name}");
        }
        for name in ["example.org", "a.relay.example.org", "lan", "a.b.lan", ""] {
            assert!(!hosts.has(name), "{name}");
        }
        let long = "a".repeat(64);
        for bad in ["", "*", "*.", "a..b", "http://a", "a:80", "a b", "ä.org", ".", "a.*.b", &long] {
            assert_eq!(Hosts::parse(["good", bad]), Err(bad));
        }
    }
}
