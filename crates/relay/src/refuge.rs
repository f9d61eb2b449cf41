//! Where clients of a server that is emptied are sent, and when.
//!
//! ```text
//! drain ─► publishers that come, and those that read answers: 307      at once
//!      ├─► viewers that come, and players' next playlist: 307          at once
//!      └─► viewers that run: their response ends at a key frame        each at its own moment within `over`
//! ```
//! All of that only as long as another server can serve them ([`Directory::refuge`](glassline_streams::Directory::refuge)).

use crate::draining::{DrainCounts, DrainPlan};
use crate::hub::Hub;
use glassline_delivery::http1::Url;
use glassline_delivery::policy::StreamName;
use glassline_media::Time;
use glassline_streams::{ConnectionId, Whereabouts};
use std::collections::BTreeMap;
use std::time::Duration;

/// What a server is asked for that may be asked of another one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) path: &'a str,
    /// Without its `?`.
    pub(super) query: &'a str,
    /// It came over TLS: what stands in it is not shown to others on the way.
    pub(super) is_secured: bool,
}

/// For which streams there is another server, looked up once for all viewers of a sweep.
#[derive(Default)]
pub(super) struct Refuges(BTreeMap<(StreamName, bool), bool>);

impl Refuges {
    fn has(&mut self, hub: &Hub, name: &StreamName, is_secured: bool) -> bool {
        let key = (name.clone(), is_secured);
        *self.0.entry(key).or_insert_with(|| hub.refuge_of(name, is_secured).is_some())
    }
}

impl Hub {
    /// Has this server emptied, its running viewers in the time that this says, or not any more (`None`). What comes and cannot be sent to
    /// another server of the cluster is served here still, but for publishers, which are refused.
    pub fn drain(&self, over: Option<Duration>) {
        let since = self.draining.left().map_or(self.clock.now(), |plan| plan.since());
        self.draining.set(over.map(|over| DrainPlan::new(since, over)));
        if let Some(directory) = self.directory() {
            directory.publishers_changed();
        }
    }

    /// Whether it is.
    pub fn is_draining(&self) -> bool {
        self.draining.is_on()
    }

    /// What was done for that, and how many players ask here still.
    pub fn drain_counts(&self) -> DrainCounts {
        self.draining.counts(self.clock.now())
    }

    /// Whether the viewer of `name` at this connection has its turn to be sent on.
    pub(super) fn sends_on(
        &self,
        (id, is_secured): (ConnectionId, bool),
        name: &StreamName,
        refuges: &mut Refuges,
        now: Time,
    ) -> bool {
        let plan = self.draining.left();
        plan.is_some_and(|plan| now >= plan.turn_of(id)) && refuges.has(self, name, is_secured)
    }

    /// The server to which clients of the stream `name` are sent while this one is emptied. None is named without TLS to a client that has
    /// come over it: a key in what it asks for would be read on the way.
    fn other_server(&self, name: &StreamName, is_secured: bool) -> Option<Url> {
        if !self.is_draining() {
            return None;
        }
        self.directory()?.refuge(name).filter(|url| url.tls() || !is_secured)
    }

    /// The same for a viewer, where the stream is one of this cluster.
    pub(super) fn refuge_of(&self, name: &StreamName, is_secured: bool) -> Option<Url> {
        let url = self.other_server(name, is_secured)?;
        let is_here = || self.streams.find(name).is_some() || self.versions_of(name).next().is_some();
        let is_known = is_here() || matches!(self.whereabouts_of_presentation(name), Whereabouts::At { .. });
        is_known.then_some(url)
    }

    /// Where a viewer that asks for `target` of the stream `name` is sent, while this server is emptied.
    pub(super) fn refuge(&self, name: &StreamName, target: Target<'_>) -> Option<String> {
        located(&self.refuge_of(name, target.is_secured)?, target)
    }

    /// Where a publisher that asks for `target` is sent. One that `moves` has the stream here, and takes it over there: until the other
    /// server has heard that this one has given it up it would refuse a publisher that does not. It is sent to an address like its own
    /// alone: one that was not given `https://` may not speak TLS, and would end.
    pub(super) fn refuge_of_publisher(
        &self,
        name: &StreamName,
        target: Target<'_>,
        moves: bool,
    ) -> Option<String> {
        let url = self.other_server(name, target.is_secured).filter(|url| url.tls() == target.is_secured)?;
        let has_it = target.query.split('&').any(|pair| pair == "takeover=1");
        let query = match target.query {
            query if !moves || has_it => query.to_owned(),
            "" => "takeover=1".to_owned(),
            query => format!("{query}&takeover=1"),
        };
        located(&url, Target { query: &query, ..target })
    }
}

/// `target` at that server.
fn located(url: &Url, Target { path, query, .. }: Target<'_>) -> Option<String> {
    // What is not plain could be read as another host by some client.
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if !is_plain(path) || !is_plain(query) {
        return None;
    }
    let (scheme, authority) = (if url.tls() { "https" } else { "http" }, url.authority());
    let folder = url.target().split('?').next().unwrap_or_default().trim_end_matches('/');
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    Some(format!("{scheme}://{authority}{folder}{path}{query}"))
}

#[cfg(test)]
#[path = "refuge_tests.rs"]
mod tests;
