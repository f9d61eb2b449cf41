//! Connecting: names, hosts and handshakes take their time, so each attempt has a thread of its own.

use crate::encode::output::Address;
use glassline_io::client::{self, Refused, Wire};
use glassline_io::tls::Connector;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

/// How long a host may take to answer, and again to shake hands.
const TIMEOUT: Duration = Duration::from_secs(5);
/// What may wait unsent in the kernel: what is older than the network can take can then still be left out.
const UNSENT_MAX_BYTES: u32 = 128 << 10;

/// Connects to `address` after `pause`, over TLS where there is a `connector`.
pub(super) fn connect(
    address: Address,
    connector: Option<Connector>,
    pause: Duration,
) -> Receiver<Result<Wire, Refused>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        thread::sleep(pause);
        let wire = client::connect(&address.host, address.port, connector.as_ref(), TIMEOUT);
        let limited = wire.and_then(|wire| {
            wire.socket().limit_unsent(UNSENT_MAX_BYTES).map_err(Refused::plain)?;
            Ok(wire)
        });
        // Nobody receives where the command has ended meanwhile.
        let _ = sender.send(limited);
    });
    receiver
}
