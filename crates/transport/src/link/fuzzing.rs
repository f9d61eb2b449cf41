//! What fuzzing wants beside the API: a link that is up without a handshake, and frames that nobody has sealed. There only
//! with the feature `fuzzing`, which no program has.

use super::endpoint::handshake::own_parameters;
use super::secure::noise::Secrets;
use super::state::Link;
use super::state::session::Agreed;
use super::wire::packet::ConnectionId;
use super::{Key, Path, Random, Settings, Transmit};
use glassline_media::Time;

/// A link under keys that everybody knows, without an endpoint.
#[derive(Debug)]
pub struct Linked(Link);

impl Linked {
    /// A link that is up with whoever is at `path`, who has the same settings.
    pub fn new(settings: Settings, now: Time, path: Path) -> Linked {
        let agreed = Agreed {
            secrets: Secrets { send: Key([1; 32]), receive: Key([2; 32]) },
            local: ConnectionId(1),
            remote: ConnectionId(2),
            path,
            instance: None,
            second: false,
            both: false,
            peer: own_parameters(&settings),
            rtt: None,
            random: Random::new([3; 32]),
        };
        let mut link = Link::new(settings);
        link.establish(now, agreed);
        Linked(link)
    }

    /// The link, as its owner has it.
    pub fn link(&mut self) -> &mut Link {
        &mut self.0
    }

    /// As [`super::Endpoint::poll_transmit`].
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        self.0.poll_transmit(now, out)
    }

    /// As [`super::Endpoint::next_timeout`].
    pub fn next_timeout(&self) -> Time {
        self.0.next_timeout()
    }

    /// As [`super::Endpoint::handle_timeout`].
    pub fn handle_timeout(&mut self, now: Time) {
        self.0.handle_timeout(now);
    }
}

impl Link {
    /// Does what the frames of a packet say, of whatever make they are, as if it had been opened with the right key.
    /// `false`: the link has ended with them.
    pub fn handle_unsealed(&mut self, now: Time, path: Path, frames: &[u8]) -> bool {
        self.handle_frames(now, path, frames).is_some()
    }
}
