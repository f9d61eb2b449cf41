//! How a worker takes connections in: which callers are admitted, and what room is made for them.

use super::{Worker, token};
use crate::connection::Connection;
use crate::wire::Wire;
use glassline_delivery::http1::problem;
use glassline_io::poll::Watch;
use glassline_io::tcp::Connection as Socket;
use glassline_streams::ConnectionId;
use std::net::IpAddr;

/// Connections accepted in a row; then others get their turn. On a core that is busy sending a turn may take a
/// while, and the kernel's queue of callers must not overflow meanwhile.
const ACCEPTS_A_TURN: usize = 1024;
/// Resting connections that are tried at most to make room for a new one: each may have its next request here already,
/// and then stays.
const ASKED_TO_GIVE_WAY: usize = 8;

impl Worker {
    pub(super) fn listen_or_pause(&mut self) {
        if let Err(error) = self.listeners.watch(&self.poller) {
            tracing::warn!(worker = self.index, %error, "cannot listen again; trying again shortly");
            self.listeners.pause(&self.poller);
        }
    }

    /// Takes the connections in that wait at a listener.
    pub(super) fn accept(&mut self, listener: usize) {
        // Those that came in this turn, and have had none of their own.
        let mut fresh = Vec::new();
        for _ in 0..ACCEPTS_A_TURN {
            let (listen, listener) = &self.listeners.all()[listener];
            let (is_admin, tls) = (listen.is_admin, listen.tls);
            let accepted = match listener.accept() {
                Ok(Some(accepted)) => accepted,
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(worker = self.index, %error, "cannot accept; trying again shortly");
                    if glassline_io::process::lacks_descriptors(&error) {
                        self.hub.streams.give_up_descriptors();
                    }
                    self.listeners.pause(&self.poller);
                    return;
                }
            };
            let (socket, peer) = accepted;
            // Admin listeners have no limit per address: viewers from an operator's address must not keep the operator
            // out.
            let limit = if is_admin { 0 } else { self.settings.max_connections_per_address };
            if !self.admit_connection(peer.ip(), limit) {
                let words = "The server has as many connections as it may have, or as it may have from one address; \
                     try again later.";
                self.refuse(&socket, tls, words);
                continue;
            }
            if !is_admin && !self.admit_unanswered(peer.ip(), &mut fresh) {
                self.hub.disconnected(peer.ip());
                self.hub.counters.refused_unanswered.increment();
                let words = "As many connections from this address as may be wait for their requests to be whole and \
                     answered; try again shortly.";
                self.refuse(&socket, tls, words);
                continue;
            }
            let Some(wire) = self.wire(socket, tls) else {
                self.forget(peer.ip(), is_admin);
                continue;
            };
            let counters = &self.hub.counters;
            counters.accepted.increment();
            counters.connections.increment();
            let slot = self.free_slot() as u32;
            let token = token(self.slots[slot as usize].generation, slot);
            if let Err(error) = self.poller.add(&wire, token, Watch::Edges) {
                tracing::warn!(%peer, %error, "cannot watch a connection");
                self.forget(peer.ip(), is_admin);
                self.hub.counters.connections.subtract(1);
                self.free.push(slot);
                continue;
            }
            let id = ConnectionId { worker: self.index, token };
            let now = self.hub.clock.now();
            let connection = Connection::new(wire, peer, is_admin, id, &self.settings, now);
            self.slots[slot as usize].connection = Some(Box::new(connection));
            self.connections += 1;
            fresh.push(token);
        }
    }

    /// Counts one more connection from `address`, if it has fewer than `limit`. Returns whether it was. Where there are as
    /// many as there may be, the one that has rested longest between two requests is closed for it.
    fn admit_connection(&mut self, address: IpAddr, limit: usize) -> bool {
        // An address that has all it may have takes a place from itself, never from others.
        let connects = self.hub.admit_connection(address, limit)
            || (self.make_room(Some(address)) && self.hub.admit_connection(address, limit));
        if connects && self.connections >= self.limit && !self.make_room(None) {
            self.hub.disconnected(address);
            return false;
        }
        connects
    }

    /// Ends the connection that has rested longest: of those from `address`, or of all. Returns whether there is room now.
    fn make_room(&mut self, address: Option<IpAddr>) -> bool {
        let before = self.connections;
        for _ in 0..ASKED_TO_GIVE_WAY {
            let Some(token) = self.resting.longest(address) else { return false };
            // Its next request may be here already, and is answered then.
            self.turn(token);
            if self.resting.longest(address) == Some(token)
                && let Some(slot) = self.slot(token)
            {
                self.close(slot);
                self.hub.counters.gave_way.increment();
            }
            if self.connections < before {
                return true;
            }
        }
        false
    }

    /// Counts one more connection from `address` that has not been answered, if so many may be. Returns whether it was
    /// counted. Many may come at once from one address with their requests already here, as when all players in a hall
    /// begin anew: the connections that came in this turn, `fresh`, have their turns before one is refused.
    fn admit_unanswered(&mut self, address: IpAddr, fresh: &mut Vec<u64>) -> bool {
        let all = self.limit.saturating_mul(self.hub.inboxes.workers());
        let limit = match self.settings.max_unanswered_per_address {
            0 => 0,
            limit => limit.min(all / 2).max(1),
        };
        if self.hub.admit_unanswered(address, limit) {
            return true;
        }
        fresh.drain(..).for_each(|token| self.turn(token));
        self.hub.admit_unanswered(address, limit)
    }

    /// Answers a connection that is not taken, where it does not expect TLS first.
    fn refuse(&self, socket: &Socket, tls: bool, words: &str) {
        let counters = &self.hub.counters;
        counters.refused.increment();
        if tls {
            return;
        }
        let response = problem(503, "too many connections", words).with_header("Retry-After", "1");
        let _ = socket.write(&[response.head(false), response.body.to_vec()].concat());
        let _ = socket.end();
    }

    /// A connection that was counted does not come to be.
    fn forget(&self, address: IpAddr, is_admin: bool) {
        self.hub.disconnected(address);
        if !is_admin {
            self.hub.answered(address);
        }
    }

    fn wire(&self, socket: Socket, tls: bool) -> Option<Wire> {
        if !tls {
            return Some(Wire::plain(socket));
        }
        let session = self.hub.certificates.accept();
        let session =
            session.inspect_err(|error| tracing::warn!(worker = self.index, %error, "cannot begin TLS"));
        Some(Wire::secured(socket, session.ok()?))
    }
}
