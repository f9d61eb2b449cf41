//! From which servers of the cluster a stream comes that is pulled here, how far this server is from the one with its publisher, and why
//! servers were passed over.

use glassline_delivery::http1::Url;
use glassline_delivery::ownership::{self, Level, NodeName, Stay};
use glassline_delivery::pull::PullError;
use glassline_media::Time;
use glassline_streams::Holder;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The servers from which a stream is pulled, as the registry of a cluster names them; without any, it is not of the registry.
#[derive(Clone, Debug)]
pub(super) struct Descent {
    /// In the order in which they are asked: number 0 is the pull's source, its alternates follow.
    pub(super) holders: Vec<Holder>,
    /// The epoch of the stream's owner when they were chosen.
    pub(super) epoch: u64,
    /// How far this server is from the owner, at most. It never rises while the stream goes on here.
    pub(super) level: Level,
    /// The number of the server that sends.
    pub(super) from: Option<usize>,
    /// When it is looked whether a server of this zone has it from the one that sends.
    pub(super) looks_at: Time,
    /// A server that carries the stream and gave nothing of it: until when it is not turned to, and how often that was so before.
    pub(super) shunned: Option<(NodeName, Time, u32)>,
}

/// A server that gave nothing is not turned to for this time, and twice as long after each time that it did so again, up to 64 times.
const SHUNNED: Duration = Duration::from_secs(120);

impl Default for Descent {
    fn default() -> Descent {
        Descent {
            holders: Vec::new(),
            epoch: 0,
            level: Level::NONE,
            from: None,
            looks_at: Time::ZERO,
            shunned: None,
        }
    }
}

/// One, as a process leaves it to the next.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct DescentHandover {
    holders: Vec<(String, Url, u8)>,
    epoch: u64,
    hops: u8,
    from: Option<usize>,
}

impl Descent {
    pub(super) fn left(&self) -> DescentHandover {
        let holder = |holder: &Holder| (holder.node.to_string(), holder.url.clone(), holder.hops);
        let holders = self.holders.iter().map(holder).collect();
        DescentHandover { holders, epoch: self.epoch, hops: self.level.hops(), from: self.from }
    }

    pub(super) fn inherited(left: DescentHandover) -> Descent {
        let holder = |(node, url, hops): (String, Url, u8)| {
            NodeName::parse(&node).map(|node| Holder { node, url, hops })
        };
        let holders = left.holders.into_iter().map(holder).collect::<Option<Vec<_>>>().unwrap_or_default();
        Descent {
            holders,
            epoch: left.epoch,
            level: Level::of(left.hops),
            from: left.from,
            // What has passed here is known to the former process alone: another server would repeat some of it.
            looks_at: Time::NEVER,
            shunned: None,
        }
    }

    /// That server gave nothing of the stream.
    pub(super) fn shun(&mut self, node: &NodeName, now: Time) {
        let known = self.shunned.as_ref().filter(|(known, ..)| known == node);
        let before = known.map_or(0, |(.., before)| before.saturating_add(1));
        self.shunned = Some((node.clone(), now + SHUNNED * (1 << before.min(6)), before));
    }

    pub(super) fn shuns(&self, node: &NodeName, now: Time) -> bool {
        self.shunned.as_ref().is_some_and(|(known, until, _)| known == node && now < *until)
    }

    fn owner(&self) -> Option<&Url> {
        owner(&self.holders)
    }

    /// The server that sends.
    pub(super) fn holder(&self) -> Option<&Holder> {
        self.holders.get(self.from?)
    }

    /// What becomes of it where these are the servers that would be asked now.
    pub(super) fn stays(&self, holders: &[Holder], epoch: u64) -> Stay {
        match self.holder() {
            Some(holder) => {
                let is_named = holders.iter().any(|other| other.url == holder.url);
                ownership::stays(self.epoch, epoch, holder.hops, is_named)
            }
            // Servers of this epoch are asked already: a carrier that has followed its stream is of it, and an owner from before is not.
            None if self.epoch == epoch && self.owner() == owner(holders) => Stay::Anew,
            None => Stay::Turn,
        }
    }
}

/// The server with the publisher.
fn owner(holders: &[Holder]) -> Option<&Url> {
    holders.iter().find(|holder| holder.hops == 0).map(|holder| &holder.url)
}

/// Why a server that carries a stream gave nothing of it, and the one with the publisher was asked; the last is any other reason.
const REASONS: [&str; 9] =
    ["absent", "waits", "circle", "refused", "unreachable", "lost", "ended", "silent", "unusable"];

/// How often each was so.
#[derive(Debug, Default)]
pub(super) struct PassedOver([AtomicU64; REASONS.len()]);

impl PassedOver {
    /// Each reason with its count.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        REASONS.iter().zip(&self.0).map(|(reason, count)| (*reason, count.load(Ordering::Relaxed)))
    }

    pub(super) fn count(&self, error: &PullError) {
        let reason = match error {
            PullError::Status { status: 404 | 410 } => "absent",
            PullError::Status { status: 503 } => "waits",
            PullError::Status { status: 508 } => "circle",
            PullError::Status { .. } => "refused",
            PullError::Connect(_) | PullError::Untrusted(_) => "unreachable",
            PullError::Lost(_) => "lost",
            PullError::Ended => "ended",
            PullError::Silent { .. } => "silent",
            _ => "unusable",
        };
        let counters = REASONS.iter().zip(&self.0).filter(|(known, _)| **known == reason);
        for (_, counter) in counters {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A stream that is pulled from another server of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pulled {
    /// The stream.
    pub stream: String,
    /// The server that sends it; `None` where none does at the moment.
    pub node: Option<String>,
    /// How many servers it has passed, this one not among them: 1 where it comes from the one with the publisher. `None` as above.
    pub hops: Option<u8>,
}
