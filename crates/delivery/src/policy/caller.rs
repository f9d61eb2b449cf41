//! Where a request comes from and what it shows to be let in, in no protocol's words.
//!
//! Requests from loopback and from networks that are named are trusted by their address. That is worth nothing where another
//! client stands behind the address: a web page under a name that its owner lets point to this machine (DNS rebinding: the
//! browser then sends the page's own name as `Host`, and as `Origin` too), or the client of a proxy.

use super::credential::Credential;
use std::net::IpAddr;

/// Why the address that a request comes from says nothing about the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distrust {
    /// A proxy passed the request on.
    Proxied,
    /// The server was called neither by an address, nor as `localhost`, nor by a name that is known.
    Host,
}

/// What a request tells of its way here. [`Route::DIRECT`] where a protocol tells nothing of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// A proxy says that it passed the request on.
    pub is_proxied: bool,
    /// The client called this server by a name that is not its own.
    pub is_misnamed: bool,
    /// A browser sends the request for a page of another server.
    pub is_foreign_page: bool,
}

impl Route {
    /// Nothing stands between the client and this server.
    pub const DIRECT: Route = Route { is_proxied: false, is_misnamed: false, is_foreign_page: false };
}

/// The client that a request comes from.
#[derive(Clone, Debug)]
pub struct Caller<'a> {
    /// The other end of the connection.
    pub peer: IpAddr,
    /// What it shows to be let in.
    pub credential: Credential<'a>,
    /// How the request came here.
    pub route: Route,
}

impl Caller<'_> {
    /// Whether the connection comes from this machine.
    pub fn is_loopback(&self) -> bool {
        self.peer.to_canonical().is_loopback()
    }

    /// Whether the peer's address is the client's.
    pub fn check_address(&self) -> Result<(), Distrust> {
        if self.route.is_proxied { Err(Distrust::Proxied) } else { self.check_host() }
    }

    /// Whether the server was called by an address or by a name of its own.
    pub fn check_host(&self) -> Result<(), Distrust> {
        if self.route.is_misnamed { Err(Distrust::Host) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(route: Route) -> Caller<'static> {
        Caller { peer: "::ffff:127.0.0.1".parse().unwrap(), credential: Credential::default(), route }
    }

    #[test]
    fn an_address_is_believed_where_nothing_stands_between() {
        let direct = caller(Route::DIRECT);
        assert!(direct.is_loopback());
        assert_eq!((direct.check_address(), direct.check_host()), (Ok(()), Ok(())));
        let proxied = caller(Route { is_proxied: true, ..Route::DIRECT });
        assert_eq!((proxied.check_address(), proxied.check_host()), (Err(Distrust::Proxied), Ok(())));
        let misnamed = caller(Route { is_misnamed: true, ..Route::DIRECT });
        assert_eq!(misnamed.check_address(), Err(Distrust::Host));
        assert_eq!(misnamed.check_host(), Err(Distrust::Host));
    }
}
