//! A zone has a stream of another zone once: servers that pull it from the publisher's, since the first one of their zone has died or was not
//! heard of yet, look again from time to time.

use super::{Demands, Hub};
use glassline_delivery::ownership::{Level, NodeName};
use glassline_delivery::policy::StreamName;
use glassline_media::Time;
use std::sync::PoisonError;
use std::time::Duration;

/// A server looks again after this time, and up to as long again: not all of a zone at once.
const LOOK_PAUSE: Duration = Duration::from_secs(30);
/// A server to which the stream was given as long ago is counted by now.
const GIVEN_LASTS: Duration = Duration::from_secs(5);

/// When it is looked again, for a look at `now`.
pub(crate) fn next_look(name: &StreamName, now: Time) -> Time {
    // No two servers count the same nanoseconds.
    let letters =
        name.as_str().bytes().fold(0_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    let mixed = (now.as_nanos() ^ letters).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let part = (mixed ^ mixed >> 32) as f64 / u64::MAX as f64;
    now + LOOK_PAUSE + LOOK_PAUSE.mul_f64(part)
}

impl Demands {
    /// One more server of the cluster gets the stream from here.
    pub(crate) fn begin_giving(&self, name: &StreamName) {
        *self.given.lock().unwrap_or_else(PoisonError::into_inner).entry(name.clone()).or_default() += 1;
    }

    /// One of them gets it no longer.
    pub(crate) fn end_giving(&self, name: &StreamName) {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = given.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                given.remove(name);
            }
        }
    }

    fn is_given(&self, name: &StreamName) -> bool {
        self.given.lock().unwrap_or_else(PoisonError::into_inner).contains_key(name)
    }
}

impl Hub {
    /// Has streams that come from another zone pulled from the server of this one that has them from there.
    pub(crate) fn turn_to_gateways(&self, now: Time) {
        let mut due = Vec::new();
        for (name, demand) in self.demands.lock().iter_mut() {
            let is_due = demand.is_pulled() && demand.is_elsewhere && demand.descent.looks_at <= now;
            if let (true, Some(holder)) = (is_due, demand.descent.holder()) {
                due.push((name.clone(), holder.node.clone()));
                demand.descent.looks_at = next_look(name, now);
            }
        }
        let Some(directory) = self.directory() else { return };
        for (name, from) in due {
            if let Some(gateway) = directory.gateway(&name, &from) {
                self.turn_to_gateway(&name, &from, &gateway, now);
            }
        }
    }

    /// Has the stream pulled from `gateway`, which has it from the publisher's server, and no longer from the server `from`.
    fn turn_to_gateway(&self, name: &StreamName, from: &NodeName, gateway: &NodeName, now: Time) {
        let Some(edge) = self.edge() else { return };
        let level = Level::of(2);
        let mut demands = self.demands.lock();
        let Some(demand) = demands.get_mut(name).filter(|demand| demand.is_pulled()) else { return };
        let Some(holder) = demand.descent.holder().filter(|holder| holder.node == *from) else { return };
        // What is given on would come from a server as far away as those that it is given to.
        let is_given = self.demands.is_given(name) || now.since(demand.given_at) < GIVEN_LASTS;
        if holder.hops == 0 && is_given || demand.descent.shuns(gateway, now) {
            return;
        }
        let mux = demand.pull.mux.unwrap_or_default();
        let plan = self.plan(&edge, name, mux, (level, Some(gateway)));
        let is_asked_first = |holder: &glassline_streams::Holder| holder.node == *gateway && holder.hops == 1;
        let Some(plan) = plan.filter(|plan| plan.holders.first().is_some_and(is_asked_first)) else { return };
        let Some(mut pull) = plan.pull(&edge, name, mux) else { return };
        // It may have been the first of the same list before, and have given nothing then: a list that is the same would go on where it is.
        pull.renewed = demand.pull.renewed.wrapping_add(1);
        // Told by the next answer of this server, which may be one to the server that is asked.
        demand.descent.level = level;
        demand.turn_to(pull, plan.holders, plan.epoch);
        drop(demands);
        tracing::info!(stream = %name, node = %gateway, "the stream is pulled from the server of this zone that has it from the other one");
        self.rearrange_pulls();
        if let Some(directory) = self.directory() {
            directory.publishers_changed();
        }
    }
}
