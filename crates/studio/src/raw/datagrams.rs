//! Flows of small datagrams: sound, ancillary data. A datagram is copied once, which costs nothing at their rates.

use glassline_io::udp::Granted;
use glassline_io::udp::flow::{Flow, FlowSettings, Room, wait_any};
use glassline_media::Time;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Datagrams of a call.
const DATAGRAMS: usize = 64;
/// Bytes of a datagram that are looked at: those of a jumbo frame. Of a longer one the rest is cut off.
const DATAGRAM_BYTES: usize = 9_216;

/// A datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagram<'a> {
    /// Its bytes, [`DATAGRAM_BYTES`] at most.
    pub(crate) bytes: &'a [u8],
    /// When it came.
    pub(crate) at: Time,
    /// Datagrams that the socket had dropped before it, modulo 2³².
    pub(crate) drops: u32,
    /// Its source address.
    pub(crate) from: Option<SocketAddr>,
}

/// The paths of one flow.
pub(crate) struct Datagrams {
    flows: Vec<Flow>,
    room: Room,
    memory: Vec<u8>,
}

impl Datagrams {
    /// Opens the paths' sockets. Datagrams are not collected: each has its own time.
    ///
    /// # Errors
    /// As [`Flow::open`] has them.
    pub(crate) fn open(paths: &[FlowSettings]) -> io::Result<Datagrams> {
        let open = |path: &FlowSettings| Flow::open(&FlowSettings { is_collected: false, ..path.clone() });
        let flows = paths.iter().map(open).collect::<io::Result<_>>()?;
        Ok(Datagrams { flows, room: Room::new(), memory: vec![0; DATAGRAMS * DATAGRAM_BYTES] })
    }

    /// How much room the kernel gave each path.
    pub(crate) fn granted(&self) -> Vec<Granted> {
        self.flows.iter().map(Flow::buffer).collect()
    }

    /// Gives each datagram that is there to `take`, with its path; waits for one, but no longer than `timeout`. Returns how many
    /// there were.
    ///
    /// # Errors
    /// The sockets'.
    pub(crate) fn receive(
        &mut self,
        timeout: Duration,
        take: &mut dyn FnMut(usize, Datagram<'_>),
    ) -> io::Result<usize> {
        if !timeout.is_zero() {
            wait_any(&self.flows, timeout)?;
        }
        let mut count = 0;
        for (path, flow) in self.flows.iter().enumerate() {
            let mut batch = self.room.batch();
            for bytes in self.memory.chunks_exact_mut(DATAGRAM_BYTES) {
                batch.push(bytes);
                batch.end_message();
            }
            count += flow.receive(&mut batch)?;
            let places = self.memory.chunks_exact(DATAGRAM_BYTES);
            for (received, bytes) in self.room.received().iter().zip(places) {
                let bytes = bytes.get(..received.bytes).unwrap_or(bytes);
                take(path, Datagram { bytes, at: received.at, drops: received.drops, from: received.from });
            }
        }
        Ok(count)
    }
}

#[cfg(test)]
#[path = "datagrams_tests.rs"]
mod tests;
