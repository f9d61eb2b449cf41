//! What this server pulls from others of the cluster, as the pulling thread tells it, and what of it is given on.

use crate::demand::Demands;
use crate::descent::{Descent, Pulled};
use crate::hub::Hub;
use glassline_delivery::ownership::{self, Carried, Stay};
use glassline_delivery::policy::StreamName;
use glassline_delivery::pull::PullError;
use glassline_streams::{Holder, Live, Whereabouts};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

impl Demands {
    /// What is asked of the server number `turn`.
    fn limit(&self, name: &StreamName, turn: usize) -> Option<u8> {
        let demands = self.lock();
        let descent = &demands.get(name)?.descent;
        Some(descent.level.limit(descent.holders.get(turn)?.hops))
    }
}

impl Hub {
    /// Server number `turn` of these streams has begun to send, or does not.
    pub(super) fn note_pull(&self, names: &[StreamName], turn: usize, outcome: Result<(), &PullError>) {
        let mut demands = self.demands.lock();
        let (mut is_news, mut failed) = (false, Vec::new());
        for name in names {
            let Some(demand) = demands.get_mut(name) else { continue };
            let descent = &mut demand.descent;
            let Some(holder) = descent.holders.get(turn) else { continue };
            is_news = true;
            match outcome {
                Ok(()) => {
                    let level = descent.level.pulled_from(holder.hops);
                    (descent.from, descent.level) = (Some(turn), level);
                    let (node, hops) = (&holder.node, level.hops());
                    tracing::debug!(stream = %name, %node, hops, "the stream comes from another server of the cluster");
                }
                Err(error) => {
                    descent.from = None;
                    failed.push(name);
                    if holder.hops > 0 {
                        self.passed_over.count(error);
                        let node = &holder.node;
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

    pub(super) fn pull_limit(&self, name: &StreamName, turn: usize) -> Option<u8> {
        self.demands.limit(name, turn)
    }

    /// Has this server emptied, or not any more: publishers that come are refused, and viewers that come are sent to other servers of the
    /// cluster. What runs goes on.
    pub fn drain(&self, drains: bool) {
        self.drains.store(drains, Ordering::Relaxed);
        if let Some(directory) = self.directory() {
            directory.publishers_changed();
        }
    }

    /// Whether it is.
    pub fn is_draining(&self) -> bool {
        self.drains.load(Ordering::Relaxed)
    }

    /// Where a viewer that asks for `target` (path and query) of the stream `name` is sent, while this server is emptied.
    pub(super) fn refuge(&self, name: &StreamName, path: &str, query: &str) -> Option<String> {
        if !self.is_draining() {
            return None;
        }
        let is_here = self.streams.find(name).is_some() || self.versions_of(name).next().is_some();
        if !is_here && !matches!(self.whereabouts_of_presentation(name), Whereabouts::At { .. }) {
            return None;
        }
        // What is not plain could be read as another host by some client.
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
        let url = self.directory()?.refuge(name).filter(|_| is_plain(path) && is_plain(query))?;
        let (scheme, authority) = (if url.tls() { "https" } else { "http" }, url.authority());
        let folder = url.target().split('?').next().unwrap_or_default().trim_end_matches('/');
        let query = if query.is_empty() { String::new() } else { format!("?{query}") };
        Some(format!("{scheme}://{authority}{folder}{path}{query}"))
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
        let demands = self.demands.lock();
        let descent = demands.get(name).filter(|demand| demand.is_pulled()).map(|demand| &demand.descent);
        // The slot of what does not come any more is kept for a moment.
        let pulled = descent.map(|descent| (descent.level, descent.from.is_some()));
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

#[cfg(test)]
#[path = "carrying_tests.rs"]
mod tests;
