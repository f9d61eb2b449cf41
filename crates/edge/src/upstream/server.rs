//! One upstream server: its addresses, its health, its idle connections.

use super::exchange::Refusal;
use glassline_delivery::backoff::Backoff;
use glassline_delivery::http1::Url;
use glassline_io::resolve;
use glassline_media::Time;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Waits of a server that fails: from the first to the longest.
const BACKOFF: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(10)];
/// How long a name's addresses are believed.
const ADDRESSES_LAST: Duration = Duration::from_secs(60);
/// How often it is told at most that a server refuses.
const REFUSALS_TOLD_EVERY: Duration = Duration::from_secs(60);

pub(super) struct Server {
    pub(super) url: Url,
    /// Connections that wait for a request, the one used last at the end.
    pub(super) idle: Vec<usize>,
    /// Connections that there are.
    pub(super) open: usize,
    addresses: Vec<SocketAddr>,
    resolved_at: Option<Time>,
    resolving: Option<Receiver<io::Result<Vec<SocketAddr>>>>,
    /// Which address is next.
    turn: usize,
    backoff: Backoff,
    down_until: Option<Time>,
    refusal_told: Option<Time>,
}

impl Server {
    pub(super) fn new(url: Url, seed: u64) -> Server {
        let addresses = match url.host().parse() {
            Ok(ip) => vec![SocketAddr::new(ip, url.port())],
            Err(_) => Vec::new(),
        };
        let [least, most] = BACKOFF;
        Server {
            url,
            idle: Vec::new(),
            open: 0,
            addresses,
            resolved_at: None,
            resolving: None,
            turn: 0,
            backoff: Backoff::new(least, most, seed),
            down_until: None,
            refusal_told: None,
        }
    }

    /// Logs, once in a while, that it has refused what is at `target`: viewers see its refusal, and operators look here.
    pub(super) fn tell_refusal(&mut self, refusal: Refusal, target: &str, now: Time) {
        if self.refusal_told.is_some_and(|at| now.since(at) < REFUSALS_TOLD_EVERY) {
            return;
        }
        self.refusal_told = Some(now);
        let (server, target) = (self.url.authority(), target.split('?').next().unwrap_or_default());
        if refusal == Refusal::OurKey {
            tracing::warn!(
                %server, target,
                "an upstream server refuses the key that its address here shows: it has to be that server's viewer key"
            );
        } else {
            tracing::warn!(
                %server, target,
                "an upstream server refuses what viewers ask for; where it has a viewer key, its address here has to show \
                 that: http://edge:KEY@HOST"
            );
        }
    }

    fn is_named(&self) -> bool {
        self.url.host().parse::<std::net::IpAddr>().is_err()
    }

    /// Has the name resolved where that is due; `wake` is called when there is an answer.
    pub(super) fn look_up(&mut self, now: Time, wake: impl FnOnce() + Send + 'static) {
        let is_old = self.resolved_at.is_none_or(|at| now.since(at) >= ADDRESSES_LAST);
        if !self.is_named() || !is_old || self.resolving.is_some() {
            return;
        }
        let (answers, answer) = channel();
        let begun = resolve::in_background(self.url.host().to_owned(), self.url.port(), move |found| {
            // It fails where the relay has ended.
            drop(answers.send(found));
            wake();
        });
        if begun.is_ok() {
            self.resolving = Some(answer);
        }
    }

    /// Takes an answer of the resolver, if there is one.
    pub(super) fn take_addresses(&mut self, now: Time) {
        let Some(answer) = self.resolving.as_ref().and_then(|answer| answer.try_recv().ok()) else { return };
        self.resolving = None;
        match answer {
            Ok(addresses) => (self.addresses, self.resolved_at) = (addresses, Some(now)),
            Err(error) => {
                tracing::warn!(server = %self.url.authority(), %error, "an upstream server's name has no address");
                self.fail(now);
            }
        }
    }

    /// Whether it may be asked now. A name without an address yet may not.
    pub(super) fn is_well(&self, now: Time) -> bool {
        !self.addresses.is_empty() && self.down_until.is_none_or(|until| now >= until)
    }

    /// Whether there is an address to try.
    pub(super) fn has_address(&self) -> bool {
        !self.addresses.is_empty()
    }

    /// Whether an address is still being looked for.
    pub(super) fn is_resolving(&self) -> bool {
        self.resolving.is_some()
    }

    /// The address for the next connection.
    pub(super) fn next_address(&mut self) -> Option<SocketAddr> {
        self.turn += 1;
        self.addresses.get(self.turn % self.addresses.len().max(1)).copied()
    }

    /// It has answered.
    pub(super) fn succeed(&mut self) {
        if self.down_until.take().is_some() {
            tracing::info!(server = %self.url.authority(), "an upstream server answers again");
        }
        self.backoff.reset();
    }

    /// It could not be reached, or broke off.
    pub(super) fn fail(&mut self, now: Time) {
        if self.down_until.is_none_or(|until| now >= until) {
            if self.down_until.is_none() {
                tracing::warn!(server = %self.url.authority(), "an upstream server fails");
            }
            self.down_until = Some(now + self.backoff.fail());
        }
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
