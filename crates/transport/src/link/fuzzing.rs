//! What fuzzing needs beside the API: a link that is up without a handshake, and frames that are not sealed. It exists
//! only with the feature `fuzzing`, which no program has.

use super::channel::compression::{Packer, Unpacker};
use super::endpoint::handshake::own_parameters;
use super::secure::noise::Secrets;
use super::state::Link;
use super::state::path::{Agreed, PathState};
use super::wire::packet::ConnectionId;
use super::{Bonding, Compression, Dictionary, Key, Path, Random, Settings, Transmit};
use bytes::Bytes;
use glassline_media::Time;
use std::sync::Arc;

/// A link with fixed, public keys and without an endpoint.
#[derive(Debug)]
pub struct Linked(Link);

impl Linked {
    /// A link that is up with a peer at `path` that has the same settings.
    pub fn new(settings: Settings, now: Time, path: Path) -> Linked {
        let agreed = Agreed {
            secrets: Secrets { send: Key([1; 32]), receive: Key([2; 32]) },
            local: ConnectionId(1),
            remote: ConnectionId(2),
            path,
            instance: None,
            number: 0,
            bonding: Bonding::Failover,
            spare: None,
            peer: own_parameters(&settings),
            rtt: None,
            random: Random::new([3; 32]),
        };
        let path = PathState::new(now, agreed, &settings);
        let mut link = Link::new(settings);
        link.establish(now, path);
        Linked(link)
    }

    /// The link, as its owner has it.
    pub fn link(&mut self) -> &mut Link {
        &mut self.0
    }

    /// What is held of what came and was not taken: the second of [`Link::held_bytes`].
    pub fn held_bytes(&self) -> u64 {
        self.0.held_bytes().1
    }

    /// As [`super::Endpoint::poll_transmit`].
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        self.0.poll_transmit(now, out)
    }

    /// As [`super::Endpoint::poll_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        Some(self.0.next_timeout()).filter(|due| *due != Time::NEVER)
    }

    /// As [`super::Endpoint::handle_timeout`].
    pub fn handle_timeout(&mut self, now: Time) {
        self.0.handle_timeout(now);
    }
}

impl Link {
    /// As if the peer were of a version that knows of no stamps.
    pub fn forget_stamps(&mut self) {
        self.forget_stamps_of_peer();
    }

    /// As if the peer were of a version that takes no parity on reliable channels.
    pub fn forget_parity(&mut self) {
        self.forget_parity_of_peer();
    }

    /// Does what the frames of a packet say, of whatever make they are, as if it had been opened with the right key.
    /// `false`: the link has ended with them.
    pub fn handle_unsealed(&mut self, now: Time, path: Path, frames: &[u8]) -> bool {
        self.handle_frames(now, 0, path, frames).is_some()
    }
}

/// A channel's compression, both ends of it.
pub struct Compressed {
    packer: Packer,
    unpacker: Unpacker,
    dictionary: Option<Arc<Dictionary>>,
}

impl Compressed {
    /// As a channel with these options begins.
    pub fn new(how: Compression, dictionary: Option<Arc<Dictionary>>) -> Compressed {
        Compressed { packer: Packer::new(how), unpacker: Unpacker::new(how, dictionary.clone()), dictionary }
    }

    /// What is sent of a message in place of it, if that is worth it.
    pub fn pack(&mut self, message: &Bytes) -> Option<Bytes> {
        self.packer.pack(message, self.dictionary.as_deref())
    }

    /// The message of at most `limit` bytes that was packed; `None` if it is none, or a larger one.
    pub fn unpack(&mut self, packed: &[u8], limit: u32) -> Option<Bytes> {
        self.unpacker.unpack(packed, limit)
    }
}
