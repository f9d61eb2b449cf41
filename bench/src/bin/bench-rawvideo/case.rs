//! What is measured: a stream over a network.

use crate::network::Kind;
use crate::stream::Stream;
use anyhow::Result;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) stream: Stream,
    pub(crate) network: Kind,
    /// Whether the sender gives the kernel messages of 48 packets, or each packet by a call of its own.
    pub(crate) has_gso: bool,
}

impl Case {
    pub(crate) fn new(stream: Stream, network: Kind, has_gso: bool) -> Result<Case> {
        let gso = if has_gso { "" } else { ", without GSO" };
        Ok(Case { name: format!("{}, {}{gso}", stream.name()?, network.name()), stream, network, has_gso })
    }
}
