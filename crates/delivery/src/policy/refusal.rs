//! Why something is refused. What a client is told of it, and with which status, is its protocol's.

use super::Distrust;

/// Why a client may not publish or watch, or use what is for operators only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The publish key is missing or wrong.
    Key,
    /// There is no token, or it is for something else, or not signed with our key.
    Token,
    /// The token was good once.
    Expired,
    /// Not from this machine, and there is no key.
    NotLocal,
    /// From an address outside of the networks that may.
    Network,
    /// A web page of another site asked through its visitor's browser.
    ForeignPage,
    /// The address would do, but a proxy passed the request on.
    Proxied,
    /// The address would do, but the request names a host that is not known here.
    Host,
    /// Not from this machine or a network of the operators'.
    NotOperator,
}

impl From<Distrust> for Refusal {
    fn from(distrust: Distrust) -> Refusal {
        match distrust {
            Distrust::Proxied => Refusal::Proxied,
            Distrust::Host => Refusal::Host,
        }
    }
}

/// What has as many viewers as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Full {
    /// The stream has as many viewers as it may have.
    Stream,
    /// The address has as many viewers as it may have.
    Address,
    /// All streams together have as many viewers as they may have, or take as many bits a second.
    All,
    /// The address takes as many bits a second as it may take.
    AddressRate,
}
