//! Where a relay listens, and what each of the addresses is for.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// An address to listen on, and its kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listen {
    /// The address. Port 0 takes a free one.
    pub address: SocketAddr,
    /// Whether it is for operators: with such a listener, what concerns only operators is answered there alone.
    pub is_admin: bool,
    /// Whether TLS is spoken there.
    pub tls: bool,
}

impl Listen {
    /// Whether a socket that was opened for `self` serves for `other`, with its kind. Port 0 is another one each time.
    pub(super) fn is_at(&self, other: &Listen) -> bool {
        self == other || (self.address == other.address && self.address.port() != 0)
    }
}

impl From<SocketAddr> for Listen {
    /// A public listener that speaks plain HTTP.
    fn from(address: SocketAddr) -> Listen {
        Listen { address, is_admin: false, tls: false }
    }
}

/// What a request may ask for besides streams, by the listener that it came in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerRole {
    /// What viewers need: a public listener of a relay that has an admin listener too.
    Public,
    /// Everything: a listener of a relay without an admin listener. What is for operators only depends on the caller's
    /// address.
    Shared,
    /// Everything: the admin listener.
    Admin,
}

impl ListenerRole {
    /// That of a connection, `is_admin` where its listener was such a one, as things stand with the listeners of now.
    pub(super) fn of(is_admin: bool, listen: &[Listen]) -> ListenerRole {
        match (is_admin, listen.iter().any(|listen| listen.is_admin)) {
            (true, _) => ListenerRole::Admin,
            (false, true) => ListenerRole::Public,
            (false, false) => ListenerRole::Shared,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_admin_listener_every_one_is_the_crews_too() {
        let public = Listen::from(SocketAddr::from(([127, 0, 0, 1], 1)));
        let admin = Listen { is_admin: true, ..public.clone() };
        assert_eq!(ListenerRole::of(false, std::slice::from_ref(&public)), ListenerRole::Shared);
        assert_eq!(ListenerRole::of(false, &[public.clone(), admin.clone()]), ListenerRole::Public);
        assert_eq!(ListenerRole::of(true, &[public, admin]), ListenerRole::Admin);
    }

    #[test]
    fn a_socket_stays_where_its_address_does() {
        let [fixed, any] = [1, 0].map(|port| Listen::from(SocketAddr::from(([127, 0, 0, 1], port))));
        let admin = |listen: &Listen| Listen { is_admin: true, ..listen.clone() };
        assert!(fixed.is_at(&admin(&fixed)) && any.is_at(&any));
        assert!(!any.is_at(&admin(&any)) && !any.is_at(&fixed));
    }
}
