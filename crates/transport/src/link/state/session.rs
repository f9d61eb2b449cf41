//! What a link has from its handshake until it is lost or replaced: keys, numbers, the path and its estimate.

use glassline_media::Time;
use std::sync::Arc;
use std::time::Duration;

use crate::capacity::{Arrival, Capacity};
use crate::link::received::Received;
use crate::link::recovery::Recovery;
use crate::link::secure::keys::{Opener, Sealer};
use crate::link::secure::noise::Secrets;
use crate::link::wire::packet::{ConnectionId, DATA_OVERHEAD};
use crate::link::wire::parameters::Parameters;
use crate::link::{Dictionary, Ecn, Path, Random, Settings};

/// What a handshake gives.
pub(crate) struct Agreed {
    pub(crate) secrets: Secrets,
    /// The ID on what we receive.
    pub(crate) local: ConnectionId,
    /// The ID on what we send.
    pub(crate) remote: ConnectionId,
    pub(crate) path: Path,
    pub(crate) peer: Parameters,
    /// The round trip that the handshake took, if it was not repeated.
    pub(crate) rtt: Option<Duration>,
    pub(crate) random: Random,
}

/// A peer's address that is not proven yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) path: Path,
    pub(crate) challenge: [u8; 8],
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) next_at: Time,
}

/// Bytes of a packet with a CHALLENGE alone.
pub(crate) const CHALLENGE_SIZE: u64 = (DATA_OVERHEAD + 9) as u64;

/// The most challenges that wait for their answers to leave.
pub(crate) const MAX_RESPONSES: usize = 4;

pub(crate) struct Session {
    pub(crate) local: ConnectionId,
    pub(crate) remote: ConnectionId,
    pub(crate) peer: Parameters,
    pub(crate) path: Path,
    /// The origin of the times in our acknowledgements.
    pub(crate) epoch: Time,
    pub(crate) sealer: Sealer,
    pub(crate) opener: Opener,
    pub(crate) received: Received,
    pub(crate) recovery: Recovery,
    pub(crate) capacity: Capacity,
    pub(crate) arrival: Arrival,
    /// The peer's estimate of how our packets arrive, nanoseconds for 1000 bytes.
    pub(crate) peer_arrival_ns: u64,
    /// The largest datagram on this path, bytes.
    pub(crate) datagram: usize,
    /// When pace lets the next packet leave.
    pub(crate) next_send: Time,
    /// Since when there was nothing to send though it might have been.
    pub(crate) idle_since: Option<Time>,
    pub(crate) last_received: Time,
    pub(crate) last_sent: Time,
    pub(crate) candidate: Option<Candidate>,
    pub(crate) responses: Vec<(Path, [u8; 8])>,
    /// A packet that asks for an acknowledgement is to leave, whatever window and pace say.
    pub(crate) probe: bool,
    /// Packets without a request since the last one that had one.
    pub(crate) unasked: u32,
    /// The share of packets that are lost, smoothed.
    pub(crate) loss: f64,
    /// Packets were lost not long ago: until then it may happen again.
    pub(crate) lossy_until: Time,
    /// What our datagrams are marked with.
    pub(crate) ecn: Ecn,
    /// How many datagrams came with each mark, by [`Ecn::bits`].
    pub(crate) marks: [u64; 4],
    /// How many of ours came with the mark of congestion, as the peer has told.
    pub(crate) congested: u64,
    /// The path was silent until then: what was sent before says nothing of its rate.
    pub(crate) silent_until: Time,
    /// When the next message may begin while nothing is acknowledged.
    pub(crate) blind_until: Time,
    pub(crate) random: Random,
    /// The dictionary that both ends hold.
    pub(crate) dictionary: Option<Arc<Dictionary>>,
}

impl Session {
    pub(crate) fn new(now: Time, agreed: Agreed, settings: &Settings) -> Session {
        let datagram = usize::from(agreed.peer.max_datagram.min(settings.datagram_bytes));
        let mut recovery = Recovery::new(now);
        if let Some(rtt) = agreed.rtt {
            recovery.rtt.update(rtt, Duration::ZERO);
        }
        let dictionary = settings.dictionary.clone();
        let dictionary = dictionary.filter(|dictionary| agreed.peer.dictionary == Some(dictionary.id()));
        Session {
            local: agreed.local,
            remote: agreed.remote,
            peer: agreed.peer,
            path: agreed.path,
            epoch: now,
            sealer: Sealer::new(agreed.secrets.send),
            opener: Opener::new(agreed.secrets.receive),
            received: Received::default(),
            recovery,
            capacity: Capacity::new(now, datagram),
            arrival: Arrival::default(),
            peer_arrival_ns: 0,
            datagram,
            next_send: now,
            idle_since: None,
            last_received: now,
            last_sent: now,
            candidate: None,
            responses: Vec::new(),
            probe: false,
            unasked: 0,
            loss: 0.0,
            lossy_until: Time::ZERO,
            ecn: settings.ecn,
            marks: [0; 4],
            congested: 0,
            silent_until: Time::ZERO,
            blind_until: Time::ZERO,
            random: agreed.random,
            dictionary,
        }
    }

    /// The smoothed round trip.
    pub(crate) fn rtt(&self) -> Duration {
        self.recovery.rtt.smoothed
    }

    /// The peer's window for a channel whose messages have at most `max_size` bytes. Both ends reckon so.
    pub(crate) fn window_for(&self, max_size: u32) -> u64 {
        self.peer.window_bytes.max(2 * u64::from(max_size))
    }
}
