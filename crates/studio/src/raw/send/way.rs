//! A path of what leaves datagram by datagram: of sound, and of ancillary data.

use super::settings::PathSettings;
use super::{Error, Result};
use glassline_io::udp::Route;
use glassline_io::udp::burst::{FlowSender, FlowSenderSettings, Outbox};
use std::time::Duration;

/// Room in the kernel: a second of sound, and more than a frame's ancillary data.
const BUFFER_BYTES: usize = 2 << 20;
/// How long a socket is waited for that takes nothing: less than the next packet waits.
const SEND_TIMEOUT: Duration = Duration::from_millis(1);

/// A socket.
#[derive(Debug)]
pub(super) struct Way {
    to: String,
    sender: FlowSender,
    outbox: Outbox,
}

impl Way {
    /// Opens all of them.
    ///
    /// # Errors
    /// As those of a path of pictures.
    pub(super) fn open_all(paths: &[PathSettings], dscp: Option<u8>) -> Result<Vec<Way>> {
        if !(1..=2).contains(&paths.len()) {
            return Err(Error::Paths(paths.len()));
        }
        paths.iter().map(|path| Way::open(path, dscp)).collect()
    }

    fn open(settings: &PathSettings, dscp: Option<u8>) -> Result<Way> {
        let to = settings.route.address.to_string();
        let route = Route { dscp: settings.route.dscp.or(dscp), ..settings.route.clone() };
        let wanted = FlowSenderSettings { buffer_bytes: BUFFER_BYTES, ..FlowSenderSettings::of(route) };
        let sender = FlowSender::open(&wanted).map_err(|error| Error::Open { to: to.clone(), error })?;
        Ok(Way { to, sender, outbox: Outbox::new() })
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// The system's words, and where it was to go.
    pub(super) fn send(&mut self, datagram: &[u8]) -> Result<(), String> {
        let mut out = self.outbox.bursts();
        out.push(datagram);
        out.end(datagram.len(), None);
        let mut sent = self.sender.send(&mut out);
        if matches!(sent, Ok(false)) && self.sender.wait(Some(SEND_TIMEOUT)).unwrap_or(false) {
            sent = self.sender.send(&mut out);
        }
        match sent {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("{}: the socket is full", self.to)),
            Err(error) => Err(format!("{}: {error}", self.to)),
        }
    }
}

#[cfg(test)]
#[path = "way_tests.rs"]
mod tests;
