//! Room for batches of datagrams that one system call brings.

use crate::clock::Clock;
use crate::udp::messages::{self, Envelope, PLACE_BYTES};
use crate::udp::stamps::{Moment, Stamps};
use glassline_media::Time;
use socket2::Socket;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

/// Batches that one call brings, each of datagrams that came in a row from one peer. Few, so that their bytes stay in
/// the processor's cache until they are opened.
const BATCHES: usize = 8;

/// A datagram that came. Its bytes may be changed where they stand.
#[derive(Debug)]
pub struct Arrival<'a> {
    /// The sender's address.
    pub from: SocketAddr,
    /// The mark of congestion in IP's header (RFC 3168 §5): 0 none, 1 ECT(1), 2 ECT(0), 3 CE.
    pub mark: u8,
    /// When the machine got it, as the kernel has stamped it; no earlier than those before it and no later than now.
    /// Datagrams that the kernel has collected (GRO) have one stamp: they came within one turn of the network device,
    /// a fraction of a millisecond, at times that are not known.
    pub at: Time,
    /// What it holds.
    pub bytes: &'a mut [u8],
}

#[derive(Clone, Copy, Debug)]
struct Batch {
    from: SocketAddr,
    mark: u8,
    at: Time,
    bytes: usize,
    segment: usize,
}

/// Places for datagrams, which may be changed where they stand. Of its half MiB only those pages take memory that
/// datagrams have reached.
#[derive(Debug, Default)]
pub struct Arrivals {
    /// Empty before the first use.
    bytes: Vec<u8>,
    lengths: Vec<usize>,
    batches: Vec<Batch>,
    stamps: Stamps,
}

impl Arrivals {
    /// The datagrams of the last call, in the order in which they came.
    pub fn datagrams(&mut self) -> impl Iterator<Item = Arrival<'_>> {
        let places = self.bytes.chunks_exact_mut(PLACE_BYTES).zip(&self.batches);
        places.flat_map(|(place, batch)| {
            // An empty datagram is one all the same.
            let (whole, empty) = (&mut place[..batch.bytes], (batch.bytes == 0).then_some(&mut [][..]));
            let parts = whole.chunks_mut(batch.segment).chain(empty);
            parts.map(|bytes| Arrival { from: batch.from, mark: batch.mark, at: batch.at, bytes })
        })
    }

    /// Whether all places were taken, so that more may wait.
    pub fn is_full(&self) -> bool {
        self.batches.len() == BATCHES
    }

    pub(super) fn fill(&mut self, socket: &Socket) -> io::Result<bool> {
        let mut envelopes = [Envelope::default(); BATCHES];
        self.batches.clear();
        messages::receive(socket, &mut self.bytes, &mut self.lengths, Some(&mut envelopes))?;
        if self.lengths.is_empty() {
            return Ok(false);
        }
        let moment = Moment::read(Clock::new());
        let are_believed = self.stamps.begin(moment);
        for (&bytes, envelope) in self.lengths.iter().zip(&envelopes) {
            let told = envelope.read();
            let (segment, mark) = (told.segment.unwrap_or(PLACE_BYTES), told.mark);
            let at = self.stamps.arrival(moment, told.stamp.filter(|_| are_believed));
            // The place of one from nowhere stays, so that places and batches agree; it has no bytes.
            let from = envelope.sender();
            let bytes = if from.is_some() { bytes } else { 0 };
            let from = from.unwrap_or(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0));
            self.batches.push(Batch { from, mark, at, bytes, segment });
        }
        Ok(true)
    }
}
