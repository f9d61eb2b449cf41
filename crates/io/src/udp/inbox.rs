//! Room for datagrams that one system call brings.

use super::BATCH_DATAGRAMS;
use super::messages::{self, Envelope, PLACE_BYTES};
use socket2::Socket;
use std::io;
use std::net::SocketAddr;

/// Places for [`BATCH_DATAGRAMS`] datagrams. Of its 4 MiB only those pages take memory that datagrams have reached: one
/// each for usual ones.
#[derive(Debug, Default)]
pub struct Inbox {
    /// Empty before the first use.
    bytes: Vec<u8>,
    lengths: Vec<usize>,
    senders: Vec<Option<SocketAddr>>,
}

impl Inbox {
    /// The datagrams of the last call, in the order in which they came.
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks_exact(PLACE_BYTES).zip(&self.lengths).map(|(place, length)| &place[..*length])
    }

    /// The same, each with its sender. An address of IPv4 is one, whatever the socket is.
    pub fn received(&self) -> impl Iterator<Item = (Option<SocketAddr>, &[u8])> {
        self.senders.iter().copied().zip(self.datagrams())
    }

    /// Whether all places were taken, so that more datagrams may wait.
    pub fn is_full(&self) -> bool {
        self.lengths.len() == BATCH_DATAGRAMS
    }

    pub(super) fn fill(&mut self, socket: &Socket) -> io::Result<()> {
        let mut envelopes = [Envelope::default(); BATCH_DATAGRAMS];
        messages::receive(socket, &mut self.bytes, &mut self.lengths, Some(&mut envelopes))?;
        let canonical = |from: SocketAddr| SocketAddr::new(from.ip().to_canonical(), from.port());
        let senders = envelopes[..self.lengths.len()].iter().map(Envelope::sender);
        self.senders.clear();
        self.senders.extend(senders.map(|sender| sender.map(canonical)));
        Ok(())
    }
}
