//! Callers that are not answered yet: each asks again every quarter of a second, for as long as its program is set to, three seconds
//! mostly.

use super::session::Asked;
use crate::arrival::Awaited;
use crate::entrance::Entrance;
use glassline_media::Time;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How long a caller waits for its stream: less than the three seconds after which it gives up, with a round trip left for the answer.
const PATIENCE: Duration = Duration::from_millis(2500);
/// A caller that did not come again is forgotten so long after its time.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(1);
/// Callers that wait at once.
const WAITING_MAX: usize = 256;

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
        if let Some(awaited) = self.0.get(&from) {
            if awaited.is_of(asked.name()) && awaited.is_on_its_way(server, now) {
                return true;
            }
            // It is there, or will not come in time: the caller is told which.
            let is_settled = awaited.is_of(asked.name());
            self.0.remove(&from);
            if is_settled {
                return false;
            }
        }
        self.0.retain(|_, awaited| now < awaited.until() + FORGOTTEN_AFTER);
        if self.0.len() >= WAITING_MAX {
            return false;
        }
        let awaited = Awaited::begin(server, &asked.client(), asked.name(), PATIENCE);
        awaited.is_some_and(|awaited| self.0.insert(from, awaited).is_none())
    }
}
