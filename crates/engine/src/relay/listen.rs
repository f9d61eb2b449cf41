//! Where a relay listens, and what each of its doors is for.

use std::net::SocketAddr;

/// An address to listen on, and its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The address. Port 0 takes a free one.
    pub address: SocketAddr,
    /// Whether it is the crew's: with such a listener, what concerns only the crew is answered there alone.
    pub is_admin: bool,
    /// Whether TLS is spoken there.
    pub tls: bool,
}

impl From<SocketAddr> for Listen {
    /// A public listener that speaks plain HTTP.
    fn from(address: SocketAddr) -> Listen {
        Listen { address, is_admin: false, tls: false }
    }
}

/// What a request may ask for besides streams, by the listener that it came in by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// What viewers need.
    Public,
    /// Everything: the admin listener, or any listener of a relay that has none.
    Crew,
}

impl Door {
    /// The door that a connection came in by, `is_admin` where its listener was such a one, as things stand with the
    /// listeners of now.
    pub(super) fn of(is_admin: bool, listen: &[Listen]) -> Door {
        if is_admin || !listen.iter().any(|listen| listen.is_admin) { Door::Crew } else { Door::Public }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_admin_listener_every_door_is_the_crews() {
        let public = Listen::from(SocketAddr::from(([127, 0, 0, 1], 1)));
        let admin = Listen { is_admin: true, ..public.clone() };
        assert_eq!(Door::of(false, std::slice::from_ref(&public)), Door::Crew);
        assert_eq!(Door::of(false, &[public.clone(), admin.clone()]), Door::Public);
        assert_eq!(Door::of(true, &[public, admin]), Door::Crew);
    }
}
