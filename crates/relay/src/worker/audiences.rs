//! The viewers that a worker has, by stream, and which of them are served when a stream has news.

use glassline_delivery::coalesce::{Chosen, Coalescer, useful};
use glassline_media::Time;
use glassline_streams::Live;
use std::collections::BTreeMap;
use std::sync::Arc;

/// See the module. Viewers are called by the tokens of their connections.
#[derive(Default)]
pub(super) struct Audiences(BTreeMap<u64, Audience>);

/// The viewers of one stream.
struct Audience {
    live: Arc<Live>,
    tokens: Vec<u64>,
    first: usize,
    coalescer: Coalescer,
}

impl Audiences {
    /// A viewer has come.
    pub(super) fn join(&mut self, live: Arc<Live>, token: u64) {
        let audience = self.0.entry(live.id);
        let audience = audience.or_insert_with(|| Audience {
            live,
            tokens: Vec::new(),
            first: 0,
            coalescer: Coalescer::default(),
        });
        audience.tokens.push(token);
    }

    /// A viewer of stream `id` has gone. Returns whether that had viewers.
    pub(super) fn leave(&mut self, id: u64, token: u64) -> bool {
        let Some(audience) = self.0.get_mut(&id) else { return false };
        audience.tokens.retain(|&other| other != token);
        if audience.tokens.is_empty() {
            self.0.remove(&id);
        }
        true
    }

    /// All have gone.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The streams that have viewers.
    pub(super) fn streams(&self) -> impl Iterator<Item = &Arc<Live>> {
        self.0.values().map(|audience| &audience.live)
    }

    /// The most pictures in a send that are of use to any of the streams: at least one.
    pub(super) fn most_useful(&self) -> f64 {
        self.streams().map(|live| useful(live.flush_bytes())).fold(1.0, f64::max)
    }

    /// Whether any of the streams sends pictures on as they come.
    pub(super) fn any_prompt(&self) -> bool {
        self.streams().any(|live| !live.holds_pictures_back())
    }

    /// A stream has news: which of its viewers are served, where `wanted` pictures leave in one send. `None` where it has no
    /// viewers.
    pub(super) fn news(&mut self, live: &Live, wanted: f64, now: Time) -> Option<Chosen> {
        let audience = self.0.get_mut(&live.id)?;
        Some(if live.has_ended() {
            audience.coalescer.end()
        } else {
            audience.coalescer.news(wanted, live.flush_bytes(), now)
        })
    }

    /// When a viewer has waited for its next send long enough.
    pub(super) fn next_late_send(&self) -> Option<Time> {
        self.0.values().filter_map(|audience| audience.coalescer.poll_timeout()).min()
    }

    /// The streams by their numbers, each with the viewers that have waited for their next send long enough.
    pub(super) fn late_sends(&mut self, now: Time) -> Vec<(u64, Chosen)> {
        self.0.iter_mut().map(|(id, audience)| (*id, audience.coalescer.due(now))).collect()
    }

    /// Adds the viewers of stream `id` that are chosen to `round`, in the order in which they are served: those that have waited
    /// come first.
    pub(super) fn order(&mut self, id: u64, chosen: Chosen, round: &mut Vec<u64>) {
        let Some(audience) = self.0.get_mut(&id) else { return };
        let count = audience.tokens.len();
        // Another viewer is first each time, so that none always waits for all others.
        audience.first = (audience.first + 1) % count.max(1);
        let (behind, before) = audience.tokens.split_at(audience.first);
        let in_order = || before.iter().chain(behind).map(|token| (*token, (token & 0xFFFF_FFFF) as u32));
        for waited in [true, false] {
            let is_next = |(_, slot): &(u64, u32)| chosen.has(*slot) && chosen.has_waited(*slot) == waited;
            round.extend(in_order().filter(is_next).map(|(token, _)| token));
        }
    }

    /// Whether each stream stands under its own number, with viewers.
    pub(super) fn are_sound(&self) -> bool {
        self.0.iter().all(|(id, audience)| *id == audience.live.id && !audience.tokens.is_empty())
    }
}

#[cfg(test)]
#[path = "audiences_tests.rs"]
mod tests;
