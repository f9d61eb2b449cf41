//! What is done with a worker while it is halted: it is given other settings and listeners, hands its connections over, or takes
//! in those of another process.

use super::{SWEEP, Worker, token};
use crate::Listen;
use crate::connection::Connection;
use crate::wire::Wire;
use glassline_io::poll::Watch;
use glassline_io::tcp::Listener;
use glassline_streams::ConnectionId;
use std::io;
use std::sync::Arc;

impl Worker {
    /// Takes the settings of the moment, and other listeners.
    pub(in super::super) fn reconfigure(&mut self, listeners: Vec<(Listen, Listener)>, limit: usize) {
        self.listeners.pause(&self.poller);
        self.listeners.extend(listeners);
        self.limit = limit.max(1);
        self.settings = self.hub.settings();
        self.listen_or_pause();
        // Time at a halt was neither idle nor busy.
        let now = self.hub.clock.now();
        self.load.forget(now);
        self.next_sweep = now + SWEEP;
    }

    /// What it listens on: sockets, each with its kind.
    pub(in super::super) fn listeners(&self) -> &[(Listen, Listener)] {
        self.listeners.all()
    }

    /// Its connections, each with the number of its slot.
    pub(in super::super) fn connections(&self) -> impl Iterator<Item = (usize, &Connection)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(number, slot)| Some((number, slot.connection.as_deref()?)))
    }

    /// Takes the connection out of `slot`: this worker does not serve it any more.
    pub(in super::super) fn part_with(&mut self, slot: usize) -> Option<Connection> {
        self.slots.get_mut(slot)?.connection.take().map(|connection| *connection)
    }

    /// Tells all peers that speak TLS that nothing more comes, as far as their sockets take that: otherwise they could
    /// not tell the end from a cut. Called once another process has the connections that it goes on with.
    pub(in super::super) fn dismiss(&mut self) {
        let connections = self.slots.iter_mut().filter_map(|slot| slot.connection.as_mut());
        connections.for_each(|connection| connection.socket.take_leave());
    }

    /// Takes a connection in that came from another process, made by `restore` for the id that it is given. Returns
    /// whether there is one.
    pub(in super::super) fn adopt(
        &mut self,
        wire: Wire,
        restore: impl FnOnce(Wire, ConnectionId) -> Option<Connection>,
    ) -> io::Result<bool> {
        let slot = self.free_slot();
        let token = token(self.slots[slot].generation, slot as u32);
        self.poller.add(&wire, token, Watch::Edges)?;
        let is_apart = wire.is_apart();
        let Some(mut connection) = restore(wire, ConnectionId { worker: self.index, token }) else {
            self.free.push(slot as u32);
            return Ok(false);
        };
        connection.count_in(&self.hub);
        self.hub.counters.tls_apart.add(u64::from(is_apart));
        self.hub.counters.connections.increment();
        self.connections += 1;
        connection.note_rest(token, &mut self.resting);
        if let Some((viewer, _)) = connection.viewer() {
            let live = Arc::clone(viewer.live());
            self.audiences.join(live, token);
        }
        self.slots[slot].connection = Some(Box::new(connection));
        Ok(true)
    }

    /// Gives each listener the kind that is `wanted` of it, and closes it where none is.
    pub(in super::super) fn rearrange_listeners<'a>(
        &mut self,
        wanted: impl Fn(&Listen) -> Option<&'a Listen>,
    ) {
        self.listeners.pause(&self.poller);
        self.listeners.rearrange(wanted);
    }
}
