//! Callers that are not answered yet: each asks again every quarter of a second, for as long as its program is set to, three seconds
//! mostly.

use super::session::Asked;
use crate::arrival::Awaited;
use crate::entrance::Entrance;
use glassline_media::Time;
use glassline_streams::presence::subscriber;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long a caller waits for its stream: less than the three seconds after which it gives up, with the time to ask again, and with
/// round trips for the handshake and the answer left.
const PATIENCE: Duration = Duration::from_secs(2);
/// A caller that did not come again is forgotten so long after its time.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(1);
/// Callers that wait at once, and those of them in one network.
const WAITING_MAX: usize = 256;
const WAITING_OF_NETWORK: usize = 32;

/// Viewers of streams that are being fetched from other servers.
#[derive(Default)]
pub(super) struct Waiting(BTreeMap<SocketAddr, Awaited>);

impl Waiting {
    /// Whether the caller that asks to watch has to ask again, since its stream is being fetched.
    pub(super) fn holds(
        &mut self,
        server: &Arc<dyn Entrance>,
        from: SocketAddr,
        asked: &Asked,
        now: Time,
    ) -> bool {
        if let Some(awaited) = self.0.get(&from).filter(|awaited| awaited.is_of(asked.name())) {
            // Where it is there, or will not come in time, the caller is told which.
            return awaited.is_on_its_way(server, now) || {
                self.0.remove(&from);
                false
            };
        }
        let Some(awaited) = Awaited::begin(server, &asked.client(), asked.name(), PATIENCE) else {
            return false;
        };
        if self.has_room(from, now) {
            self.0.insert(from, awaited);
        }
        // Without room it is not answered either: it may have room when it asks again, and the stream is on its way.
        true
    }

    fn has_room(&mut self, from: SocketAddr, now: Time) -> bool {
        self.0.retain(|_, awaited| now < awaited.until() + FORGOTTEN_AFTER);
        let network = subscriber(from.ip());
        let of_network = self.0.keys().filter(|address| subscriber(address.ip()) == network);
        self.0.len() < WAITING_MAX && of_network.count() < WAITING_OF_NETWORK
    }
}
