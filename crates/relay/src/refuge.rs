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
pub(super) struct Refuges(BTreeMap<(StreamName, bool), Option<Time>>);

impl Refuges {
    /// Since when there is one without a break; `None` where there is none.
    fn since(&mut self, hub: &Hub, name: &StreamName, is_secured: bool, now: Time) -> Option<Time> {
        let key = (name.clone(), is_secured);
        let look = || {
            let has_one = hub.refuge_of(name, is_secured).is_some();
            hub.draining.note_refuge((name.clone(), is_secured), has_one, now)
        };
        *self.0.entry(key).or_insert_with(look)
    }
}

impl Hub {
    /// Has this server emptied, its running viewers in the time that this says, or not any more (`None`). What comes and cannot be sent to
    /// another server of the cluster is served here still, but for publishers, which are refused.
    pub fn drain(&self, over: Option<Duration>) {
        let plan = over.map(|over| DrainPlan::new(self.clock.now(), over));
        let goes_on = plan.zip(self.draining.left()).is_some_and(|(new, known)| new.is_like(&known));
        if !goes_on {
            self.draining.set(plan);
        }
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
        let Some(plan) = self.draining.left() else { return false };
        // Where another server has come only now, all viewers are spread over the time from now on.
        let since = refuges.since(self, name, is_secured, now);
        since.is_some_and(|since| now >= plan.from(since).turn_of(id))
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
        self.other_server(name, is_secured).filter(|_| self.is_known(name))
    }

    /// Whether the stream, or a version of the capture of that name, is here or at another server of the cluster.
    fn is_known(&self, name: &StreamName) -> bool {
        let is_here = || self.streams.find(name).is_some() || self.versions_of(name).next().is_some();
        is_here() || matches!(self.whereabouts_of_presentation(name), Whereabouts::At { .. })
    }

    /// The same, where there are other servers that have streams in common with this one.
    pub(super) fn is_in_cluster(&self, name: &StreamName) -> bool {
        self.directory().is_some() && self.is_known(name)
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
