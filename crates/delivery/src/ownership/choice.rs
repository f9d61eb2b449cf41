//! From which node a stream is pulled: its owner, or one that pulls it already and is nearer.
//!
//! A stream that comes from its owner has passed one hop, and one more with each server in between. The tree of servers has no circle and
//! ends after [`HOPS_MAX`] hops, by two rules:
//!
//! * A server is chosen that is nearer to the owner than the asker is, as it was heard. What was heard may be old, so that each request
//!   says below which number of hops it has to be answered, and the server that is asked looks at its own number then ([`answers`]).
//! * Where a server that gives a stream on turns to another one, its own number of hops does not rise: it goes on from servers that are
//!   nearer to the owner than it was itself ([`Level`]). So each server remains farther away than the one that it pulls from, for as long
//!   as that connection lasts, and a circle would need one that is farther away than itself.
//!
//! The first server of a zone asks the owner, and the others of the zone ask that one: two hops. Where that one says nothing of the stream,
//! as its entry has no room for it or has not been heard, one of the others may be asked: three. A fourth would only add another server of
//! which a silence has to be noticed.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::entry::NodeEntry;

/// Hops from the owner to the last server, at most.
pub const HOPS_MAX: u8 = 3;

/// How far a server is from the owner of a stream that it pulls. It never rises while the stream goes on there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(u8);

impl Level {
    /// A server that does not have the stream yet.
    pub const NONE: Level = Level(HOPS_MAX);

    /// One that the stream has reached after so many hops.
    pub fn of(hops: u8) -> Level {
        Level(hops.clamp(1, HOPS_MAX))
    }

    /// The hops, at most.
    pub fn hops(self) -> u8 {
        self.0
    }

    /// The stream comes from a server that is `hops` away from the owner.
    #[must_use]
    pub fn pulled_from(self, hops: u8) -> Level {
        self.min(Level::of(hops.saturating_add(1)))
    }

    /// Of a server that is heard to be `hops` away from the owner the stream is asked only where it has fewer hops than this.
    pub fn limit(self, hops: u8) -> u8 {
        self.0.min(hops.saturating_add(1))
    }
}

/// Whether a server that is `hops` away from the owner answers a request with this limit.
pub fn answers(hops: u8, limit: u8) -> bool {
    hops < limit
}

/// A node from which a stream may be pulled.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The node.
    pub node: &'a NodeEntry,
    /// How far it is from the owner; 0: it is the owner.
    pub hops: u8,
}

impl Candidate<'_> {
    /// Whether it carries the stream nearer to the owner than the asker, and goes on.
    pub fn suits(&self, asker: &NodeEntry, level: Level) -> bool {
        let is_nearer = self.hops > 0 && self.hops < level.hops();
        is_nearer && self.node.run != asker.run && !self.node.is_draining
    }
}

/// The node that is asked first: one of the same zone before those of others, then the one with the fewest hops, then that with the
/// fewest viewers. Among equals each asker has an order of its own, so that they do not all go to one. The owner is always one of the
/// candidates.
pub fn choose<'a>(
    asker: &NodeEntry,
    level: Level,
    owner: &'a NodeEntry,
    carriers: impl Iterator<Item = Candidate<'a>>,
) -> Candidate<'a> {
    let fits = |carrier: &Candidate<'a>| carrier.suits(asker, level);
    let rank = |candidate: &Candidate<'a>| {
        let Candidate { node, hops } = *candidate;
        (node.zone != asker.zone, hops, node.viewers, mixed(asker, node))
    };
    let owner = Candidate { node: owner, hops: 0 };
    carriers.filter(fits).chain([owner]).min_by_key(rank).unwrap_or(owner)
}

/// The node to which a viewer of a stream is sent while the one that it has come to is emptied: one of the same zone before those of
/// others, then one that has the stream, which `nodes` says of each, then that with the fewest viewers. `None` where there is no other that
/// goes on and says where viewers reach it; from an address by https they are not sent to one without: a key in theirs would be read on the
/// way.
pub fn refuge<'a>(
    own: &NodeEntry,
    nodes: impl Iterator<Item = (&'a NodeEntry, bool)>,
) -> Option<&'a NodeEntry> {
    let fits = |(node, _): &(&NodeEntry, bool)| {
        let is_safe = !own.public.starts_with("https:") || node.public.starts_with("https:");
        let goes_on = !node.is_draining && !node.is_leaving;
        node.run.node != own.run.node && goes_on && is_safe && !node.public.is_empty()
    };
    let rank =
        |(node, has): &(&NodeEntry, bool)| (node.zone != own.zone, !has, node.viewers, mixed(own, node));
    nodes.filter(fits).min_by_key(rank).map(|(node, _)| node)
}

/// The server from which the others of a zone have a stream of another zone: of those of the zone that pull it from the owner the first by
/// name, so that each server of the zone names the same one. `None` where the asker, which pulls from `source` now, stays there: it is that
/// server, the owner is of its zone, or it does not know of one.
///
/// A server that turns to it from the owner is farther away then than before. It may do so only while no other server pulls from it, and
/// has to answer by its new number of hops ([`answers`]) before it asks: so none is behind it, by then or later, that is as near as itself.
pub fn gateway<'a>(
    asker: &NodeEntry,
    source: Candidate<'_>,
    carriers: impl Iterator<Item = Candidate<'a>>,
) -> Option<&'a NodeEntry> {
    let is_one = |it: &Candidate<'_>| {
        let goes_on = !it.node.is_draining && !it.node.is_leaving;
        it.hops == 1 && it.node.zone == asker.zone && goes_on
    };
    let first = carriers.filter(is_one).map(|it| it.node).min_by_key(|node| &node.run.node)?;
    let gains = match source.hops {
        0 => source.node.zone != asker.zone,
        // It pulls from another one of those that pull from the owner, which remains with it as long as that is so.
        1 => source.node.run != first.run,
        _ => false,
    };
    (gains && first.run != asker.run).then_some(first)
}

/// What becomes of a pull that goes on when its stream has another epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// It goes on, and what is told of it is under the new epoch.
    Anew,
    /// It goes on. What is told of it remains under the epoch before, until the server that it comes from has turned to the new owner:
    /// until then the former owner must not be led to what comes from itself.
    Still,
    /// Another server is asked.
    Turn,
}

/// What becomes of a pull from a server `hops` away from the owner, which was chosen under the epoch `known`. `is_named`: by what is heard
/// now, that server may be asked under `epoch`.
///
/// A server that carries the stream turns to the new owner by itself. If all that it gives on to asked the new owner, that one would have
/// to serve the whole cluster from then on.
pub fn stays(known: u64, epoch: u64, hops: u8, is_named: bool) -> Stay {
    match () {
        () if known == epoch || is_named => Stay::Anew,
        () if hops > 0 => Stay::Still,
        () => Stay::Turn,
    }
}

/// FNV-1a of two names, mixed so that all bits depend on all bytes (as splitmix64 does it).
fn mixed(asker: &NodeEntry, node: &NodeEntry) -> u64 {
    let names = [asker, node].map(|entry| entry.run.node.as_str());
    let bytes = names[0].bytes().chain([0]).chain(names[1].bytes());
    let hash = bytes.fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    let hash = (hash ^ hash >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    hash ^ hash >> 31
}

#[cfg(test)]
#[path = "choice_tests.rs"]
mod tests;
