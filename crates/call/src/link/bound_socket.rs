//! A socket of an endpoint, bound to a network interface that may come and go.
//!
//! A socket that is bound to an interface stays bound to that very device: a modem that was unplugged and is back is another
//! one for the kernel, even under the same name. So the socket is opened anew then. What would leave by it meanwhile is lost,
//! as on any path that carries nothing.

use glassline_io::poll::{Poller, Watch};
use glassline_io::udp::{Local, Port};
use glassline_media::Time;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

/// A socket beside others that takes nothing for so long loses what leaves by it.
const FULL_FOR: Duration = Duration::from_millis(10);
/// How often it is looked for an interface that is not there.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// One socket.
pub(super) struct BoundSocket {
    local: Local,
    /// `None`: there has been no such interface yet.
    port: Option<Port>,
    pub(super) readable: bool,
    /// The kernel's last complaint, and about which address, told once.
    pub(super) complaint: Option<(SocketAddr, i32)>,
    /// Since when it takes nothing.
    full_since: Option<Time>,
    next_look: Time,
}

impl BoundSocket {
    /// A socket at `local`. Where its interface is not there, and `may_wait`, it is opened once that is.
    ///
    /// # Errors
    /// As those of [`Port::open`].
    pub(super) fn open(local: &Local, may_wait: bool) -> io::Result<BoundSocket> {
        let port = match Port::open(local) {
            Err(error) if may_wait && local.interface.is_some() && error.kind() == ErrorKind::NotFound => {
                tracing::warn!("{error}; the path is used once it is there");
                None
            }
            other => Some(other?),
        };
        Ok(BoundSocket {
            local: local.clone(),
            port,
            readable: true,
            complaint: None,
            full_since: None,
            next_look: Time::ZERO,
        })
    }

    /// The socket, where there is one.
    pub(super) fn port(&self) -> Option<&Port> {
        self.port.as_ref()
    }

    /// Where it is, or will be.
    ///
    /// # Errors
    /// As those of [`Port::local_address`].
    pub(super) fn local_address(&self) -> io::Result<SocketAddr> {
        self.port.as_ref().map_or(Ok(self.local.address), Port::local_address)
    }

    /// Has the poller tell of it under this token.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn watch(&self, poller: &Poller, token: u64) -> io::Result<()> {
        self.port.as_ref().map_or(Ok(()), |port| poller.add(port, token, Watch::Edges))
    }

    /// It takes nothing. Whether that has been so for long.
    pub(super) fn is_full_for_long(&mut self, now: Time) -> bool {
        *self.full_since.get_or_insert(now) + FULL_FOR <= now
    }

    /// It has taken something.
    pub(super) fn handle_sent(&mut self, to: SocketAddr) {
        self.full_since = None;
        self.complaint = self.complaint.filter(|complaint| complaint.0 != to);
    }

    /// Nothing can be sent by it: opens it anew where its interface is there and is another one than it was bound to.
    pub(super) fn look_again(&mut self, now: Time, poller: &Poller, token: u64) {
        if self.local.interface.is_none() || now < self.next_look {
            return;
        }
        self.next_look = now + LOOK_AGAIN;
        if self.port.as_ref().is_some_and(|port| !port.has_lost_interface()) {
            return;
        }
        let Ok(port) = Port::open(&self.local) else { return };
        if let Err(error) = poller.add(&port, token, Watch::Edges) {
            tracing::debug!("the socket cannot be watched: {error}");
            return;
        }
        tracing::info!(interface = self.local.interface, "the network interface is there");
        (self.port, self.readable, self.complaint, self.full_since) = (Some(port), true, None, None);
    }
}
