//! Streams that another server has, for viewers at a door: the first viewer's request has them fetched, which takes a moment.
//!
//! ```text
//! request ─► Awaited::begin ─► Entrance::fetch ─► is_on_its_way, until it is there, fails, or time is up ─► Attendance::enter
//! ```

use crate::entrance::{Arriving, Client, Entrance};
use glassline_delivery::policy::{AccessRequest, Action, Caller, Route, StreamName};
use glassline_media::Time;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Whether `client` may do `action` with the stream `name`. Nothing is logged.
pub(crate) fn may(
    server: &Arc<dyn Entrance>,
    client: &Client<'_>,
    name: &StreamName,
    action: Action,
) -> bool {
    let (peer, credential) = (client.peer.ip(), client.credential.clone());
    let caller = Caller { peer, credential, route: Route::DIRECT };
    server.check(&AccessRequest { name, action, protocol: client.protocol, caller: &caller }).is_ok()
}

/// A viewer's wait for a stream that is being fetched.
pub(crate) struct Awaited {
    name: StreamName,
    arriving: Arc<dyn Arriving>,
    until: Time,
}

impl fmt::Debug for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Awaited")
            .field("name", &self.name)
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

impl Awaited {
    /// Has the stream `name` fetched for `client`, which waits for it for `patience` at most. `None` where there is nothing to wait
    /// for: the stream is here, no other server may have it, or the client may not watch it.
    pub(crate) fn begin(
        server: &Arc<dyn Entrance>,
        client: &Client<'_>,
        name: &StreamName,
        patience: Duration,
    ) -> Option<Awaited> {
        if server.streams().find(name).is_some() || !may(server, client, name, Action::Watch) {
            return None;
        }
        let arriving = server.fetch(name)?;
        Some(Awaited { name: name.clone(), arriving, until: server.clock().now() + patience })
    }

    /// Whether it is the stream `name` that is waited for.
    pub(crate) fn is_of(&self, name: &StreamName) -> bool {
        self.name == *name
    }

    /// Whether there is still something to wait for.
    pub(crate) fn is_on_its_way(&self, server: &Arc<dyn Entrance>, now: Time) -> bool {
        now < self.until && !self.arriving.has_failed() && server.streams().find(&self.name).is_none()
    }

    /// When the wait ends at the latest.
    pub(crate) fn until(&self) -> Time {
        self.until
    }
}
