//! What this server pulls from others of the cluster, as the pulling thread tells it, and what of it is given on.

use crate::demand::{Demands, next_look};
use crate::descent::{Descent, Pulled};
use crate::hub::Hub;
use crate::pull::{PullTable, Sources};
use glassline_delivery::http1::Url;
use glassline_delivery::ownership::{self, Carried, Stay};
use glassline_delivery::policy::StreamName;
use glassline_delivery::pull::{Policy, PullError};
use glassline_io::poll::Waker;
use glassline_streams::{Holder, Live};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Demands {
    /// What is asked of the server at `source`.
    fn limit(&self, name: &StreamName, source: &Url) -> Option<u8> {
        let demands = self.lock();
        let demand = demands.get(name)?;
        let Descent { holders, level, .. } = &demand.descent;
        if holders.is_empty() {
            return None;
        }
        // One that was asked before others took its place: it may give what its own publisher sends.
        let hops = demand.turn_of(source).and_then(|turn| holders.get(turn)).map_or(0, |holder| holder.hops);
        Some(level.limit(hops))
    }
}

impl Hub {
    /// The server at `source` has begun to send these streams, or does not. The pulling thread may not have heard yet that others are asked
    /// by now: what one of those says that are not is no news.
    pub(super) fn note_pull(&self, names: &[StreamName], source: &Url, outcome: Result<(), &PullError>) {
        let now = self.clock.now();
        let mut demands = self.demands.lock();
        let (mut is_news, mut failed) = (false, Vec::new());
        for name in names {
            let Some(demand) = demands.get_mut(name) else { continue };
            let Some(turn) = demand.turn_of(source) else { continue };
            let descent = &mut demand.descent;
            let Some(holder) = descent.holders.get(turn) else { continue };
            is_news = true;
            match outcome {
                Ok(()) => {
                    let level = descent.level.pulled_from(holder.hops);
                    (descent.from, descent.level) = (Some(turn), level);
                    descent.looks_at = next_look(name, now);
                    let (node, hops) = (&holder.node, level.hops());
                    tracing::debug!(stream = %name, %node, hops, "the stream comes from another server of the cluster");
                }
                Err(error) => {
                    descent.from = None;
                    failed.push(name);
                    if holder.hops > 0 {
                        self.passed_over.count(error);
                        let node = holder.node.clone();
                        descent.shun(&node, now);
                        tracing::debug!(stream = %name, %node, "a server that carries the stream is passed over for the one that has its publisher: {error}");
                    }
                }
            }
        }
        drop(demands);
        // Where the stream has another owner by now, that one is asked and not the one that it had.
        failed.into_iter().for_each(|name| self.follow(name));
        if let Some(directory) = self.directory().filter(|_| is_news) {
            directory.publishers_changed();
        }
    }

    pub(super) fn pull_limit(&self, name: &StreamName, source: &Url) -> Option<u8> {
        self.demands.limit(name, source)
    }

    /// The streams that come from other servers of the cluster and may be given on to others.
    pub fn carried(&self) -> BTreeMap<StreamName, Carried> {
        let demands = self.demands.lock();
        let carried = demands.iter().filter(|(_, demand)| demand.is_pulled()).filter_map(|(name, demand)| {
            let Descent { epoch, level, .. } = &demand.descent;
            demand.descent.holder()?;
            Some((name.clone(), Carried { epoch: *epoch, hops: level.hops() }))
        });
        carried.collect()
    }

    /// From which server of the cluster each stream is pulled here.
    pub fn pulled(&self) -> Vec<Pulled> {
        let demands = self.demands.lock();
        let of_registry = demands.iter().filter(|(_, demand)| !demand.descent.holders.is_empty());
        let pulled = of_registry.map(|(name, demand)| {
            let holder = demand.descent.holder();
            let hops = holder.map(|_| demand.descent.level.hops());
            Pulled { stream: name.to_string(), node: holder.map(|holder| holder.node.to_string()), hops }
        });
        pulled.collect()
    }

    /// What becomes of what is pulled so, where these are the servers that would be asked now.
    pub(super) fn stays(&self, descent: &Descent, holders: &[Holder], epoch: u64) -> Stay {
        if self.loses_carrier(descent) { Stay::Turn } else { descent.stays(holders, epoch) }
    }

    /// Whether it comes, or is about to come, from a server that carries it and is dead or emptied. One that stands still says nothing of it:
    /// its silence would be noticed much later.
    pub(super) fn loses_carrier(&self, descent: &Descent) -> bool {
        let asked = match descent.holder() {
            Some(holder) => std::slice::from_ref(holder),
            None => &descent.holders,
        };
        let directory = self.directory();
        let may_carry = |holder: &Holder| directory.as_ref().is_none_or(|it| it.may_carry(&holder.node));
        asked.iter().any(|holder| holder.hops > 0 && !may_carry(holder))
    }

    /// How often a server that carries a stream was passed over, by reasons.
    pub fn passed_over(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.passed_over.counts()
    }

    /// Whether the stream `name`, of which this is `live`, may be given to a server that asks for it with this limit; otherwise whether it
    /// is here at all.
    pub(super) fn may_give_on(&self, name: &StreamName, live: Option<&Live>, limit: u8) -> Result<(), bool> {
        let mut demands = self.demands.lock();
        let demand = demands.get_mut(name).filter(|demand| demand.is_pulled());
        // The slot of what does not come any more is kept for a moment.
        let pulled = demand.map(|demand| {
            demand.given_at = self.clock.now();
            (demand.descent.level, demand.descent.from.is_some())
        });
        drop(demands);
        let has_begun = live.is_some_and(|live| live.published_since().is_some());
        match pulled {
            Some((level, true)) if has_begun => {
                ownership::answers(level.hops(), limit).then_some(()).ok_or(true)
            }
            Some(_) => Err(false),
            // It was chosen for what it had a moment ago: it is not pulled for another server, which knows where else to ask.
            None if live.is_none() && self.is_elsewhere(name) => Err(false),
            None => Ok(()),
        }
    }
}

impl Sources for Hub {
    fn pulls(&self) -> Arc<PullTable> {
        Hub::pulls(self)
    }

    fn policy(&self) -> Policy {
        self.settings().pull_policy
    }

    fn set_waker(&self, waker: Waker) {
        self.demands.set_waker(waker);
    }

    fn hops_limit(&self, name: &StreamName, source: &Url) -> Option<u8> {
        self.pull_limit(name, source)
    }

    fn note_attempt(&self, names: &[StreamName], source: &Url, outcome: Result<(), &PullError>) {
        self.note_pull(names, source, outcome);
    }
}

#[cfg(test)]
#[path = "carrying_tests.rs"]
mod tests;
