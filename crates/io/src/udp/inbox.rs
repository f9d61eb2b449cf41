//! Room for datagrams that one system call brings.

use super::BATCH_DATAGRAMS;
use super::messages::{self, PLACE_BYTES};
use socket2::Socket;
use std::io;

/// Places for [`BATCH_DATAGRAMS`] datagrams. Of its 4 MiB only those pages take memory that datagrams have reached: one
/// each for usual ones.
#[derive(Debug, Default)]
pub struct Inbox {
    /// Empty before the first use.
    bytes: Vec<u8>,
    lengths: Vec<usize>,
}

impl Inbox {
    /// The datagrams of the last call, in the order in which they came.
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks_exact(PLACE_BYTES).zip(&self.lengths).map(|(place, length)| &place[..*length])
    }

    /// Whether all places were taken, so that more datagrams may wait.
    pub fn is_full(&self) -> bool {
        self.lengths.len() == BATCH_DATAGRAMS
    }

    pub(super) fn fill(&mut self, socket: &Socket) -> io::Result<()> {
        messages::receive::<BATCH_DATAGRAMS>(socket, &mut self.bytes, &mut self.lengths, None)
    }
}
