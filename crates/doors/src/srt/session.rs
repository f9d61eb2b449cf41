//! What a peer of the listener does: it publishes, or it watches.

use super::figures;
use crate::entrance::{Attendance, Client, Contribution, Entrance, Refused};
use glassline_delivery::policy::{Credential, Protocol, ShownToken, StreamName};
use glassline_media::Time;
use glassline_media::container::ts::PACKET_BYTES;
use glassline_media::quantity::Bitrate;
use glassline_streams::status::{PeerRole, PeerStatus};
use glassline_streams::{AcquireError, Read};
use glassline_transport::srt::{Connection, Rejection, StreamId, StreamMode, USUAL_PAYLOAD};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;

/// Bytes that are read of a stream at once.
pub(super) const READ_BYTES: usize = 128 * PACKET_BYTES;
/// Payloads that wait for the pace before a stream is read on.
const UNSENT_MAX: usize = 256;

/// What a peer asks for.
pub(super) struct Asked {
    peer: SocketAddr,
    id: StreamId,
    name: StreamName,
}

impl Asked {
    /// Reads the stream id of `peer`.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub(super) fn parse(peer: SocketAddr, stream_id: &[u8]) -> Result<Asked, (u16, String)> {
        let id = StreamId::parse(stream_id).map_err(|words| (400, words))?;
        let name = StreamName::parse(&id.name).ok_or_else(|| {
            (400, "a stream's name is 1 to 64 letters, digits, dots, dashes or underscores".to_owned())
        })?;
        Ok(Asked { peer, id, name })
    }

    /// The peer, by what it shows.
    pub(super) fn client(&self) -> Client<'_> {
        Client {
            peer: self.peer,
            protocol: Protocol::Srt,
            credential: credential(self.id.key.as_deref()),
            program: self.id.user.as_deref(),
        }
    }

    /// The stream.
    pub(super) fn name(&self) -> &StreamName {
        &self.name
    }

    /// Whether it would publish.
    pub(super) fn publishes(&self) -> bool {
        self.id.mode == StreamMode::Publish
    }

    /// Whether it asks for the name of another publisher.
    pub(super) fn takes_over(&self) -> bool {
        self.id.takes_over
    }
}

/// A peer that was let in.
#[derive(Debug)]
pub(super) enum Session {
    /// With the time at which it sent last.
    Publisher(Box<Contribution>, Time),
    Viewer(Box<Attendance>, Payloads),
}

/// A stream's bytes on their way into payloads.
#[derive(Debug, Default)]
pub(super) struct Payloads {
    /// What is read and not handed over yet.
    pending: Vec<u8>,
}

impl Payloads {
    /// Adds bytes of a stream.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Hands payloads of seven packets over; with `all`, the rest too.
    pub(super) fn hand_over(&mut self, connection: &mut Connection, now: Time, all: bool) {
        let whole =
            if all { self.pending.len() } else { self.pending.len() - self.pending.len() % USUAL_PAYLOAD };
        for payload in self.pending[..whole].chunks(USUAL_PAYLOAD) {
            // What is refused for want of room is counted by the connection.
            connection.send(now, payload);
        }
        self.pending.drain(..whole);
    }

    /// Forgets what was not handed over.
    pub(super) fn clear(&mut self) {
        self.pending.clear();
    }
}

/// Reads a stream with `read` into `connection`, as far as that has room. Returns whether the stream has ended.
pub(super) fn read_into(
    mut read: impl FnMut(&mut [u8]) -> io::Result<Read>,
    payloads: &mut Payloads,
    connection: &mut Connection,
    buffer: &mut Vec<u8>,
    now: Time,
) -> io::Result<bool> {
    buffer.resize(READ_BYTES, 0);
    while connection.has_room() && connection.unsent() < UNSENT_MAX {
        match read(buffer)? {
            Read::Entered { prelude, .. } => payloads.add(&prelude),
            Read::Bytes(count) => {
                payloads.add(&buffer[..count]);
                payloads.hand_over(connection, now, false);
            }
            Read::FellBehind => payloads.clear(),
            Read::Pending => {
                payloads.hand_over(connection, now, true);
                break;
            }
            Read::Ended => {
                payloads.hand_over(connection, now, true);
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The number that says why a peer is not let in.
fn rejection(refused: &Refused) -> Rejection {
    match refused {
        Refused::Slot(AcquireError::Draining) | Refused::Draining { .. } => Rejection::DOWN,
        other => Rejection::of_status(other.status()),
    }
}

impl Session {
    /// Lets a peer in.
    ///
    /// # Errors
    /// The number of the refusal, and the reason in words.
    pub(super) fn open(
        server: &Arc<dyn Entrance>,
        asked: &Asked,
        waker: Waker,
    ) -> Result<Session, (Rejection, String)> {
        let (client, name) = (asked.client(), &asked.name);
        let told = |refused: Refused| (rejection(&refused), refused.to_string());
        match asked.id.mode {
            StreamMode::Publish => {
                let publisher =
                    Contribution::enter(server, &client, name, asked.id.takes_over).map_err(told)?;
                Ok(Session::Publisher(Box::new(publisher), server.clock().now()))
            }
            StreamMode::Read => {
                let viewer = Attendance::enter(server, &client, name, waker).map_err(told)?;
                Ok(Session::Viewer(Box::new(viewer), Payloads::default()))
            }
        }
    }

    /// Moves what there is between `connection` and the stream. Returns why it has to end, if so.
    pub(super) fn work(
        &mut self,
        connection: &mut Connection,
        buffer: &mut Vec<u8>,
        now: Time,
    ) -> Option<&'static str> {
        match self {
            Session::Publisher(publisher, came) => {
                buffer.clear();
                let mut held_since = None;
                let has_come = connection.deliver(now, |payload, came| {
                    held_since = Some(came);
                    buffer.extend_from_slice(payload);
                });
                if has_come && let Err(over) = publisher.push_held(buffer, held_since) {
                    let (stream, peer) = (publisher.name(), publisher.peer());
                    tracing::warn!(%stream, %peer, "publisher refused: {over}");
                    return Some("refused");
                }
                // What comes counts, although it is held back.
                *came = connection.heard_data();
                let is_silent = now.since(*came) >= publisher.limits().silence_timeout && !connection.holds();
                if is_silent {
                    return Some("fell silent");
                }
                (!publisher.is_held()).then_some("gave way to another one")
            }
            Session::Viewer(viewer, payloads) => {
                // What a viewer sends is nothing to us.
                connection.deliver(now, |_, _| {});
                let pace = viewer.live().pace_bps();
                connection.set_pace((pace > 0).then(|| Bitrate::from_bits_per_second(pace)));
                let read = |buffer: &mut [u8]| viewer.read(buffer);
                match read_into(read, payloads, connection, buffer, now) {
                    Ok(false) => None,
                    Ok(true) => Some("ended"),
                    Err(error) => {
                        // The system has no memory for a moment: the next look tries again.
                        tracing::debug!(%error, "a stream that is sent by SRT cannot be read");
                        None
                    }
                }
            }
        }
    }

    /// Whether it publishes.
    pub(super) fn publishes(&self) -> bool {
        matches!(self, Session::Publisher(..))
    }

    /// When it has to be looked at although nothing comes.
    pub(super) fn poll_timeout(&self) -> Time {
        match self {
            Session::Publisher(publisher, came) => *came + publisher.limits().silence_timeout,
            Session::Viewer(..) => Time::NEVER,
        }
    }

    /// Ends it; the log says `how`.
    pub(super) fn leave(self, how: &'static str) {
        if let Session::Publisher(publisher, _) = self {
            publisher.leave(how);
        }
    }

    /// The stream.
    pub(super) fn name(&self) -> &StreamName {
        match self {
            Session::Publisher(publisher, _) => publisher.name(),
            Session::Viewer(viewer, _) => viewer.name(),
        }
    }

    /// How it does.
    pub(super) fn status(&self, address: SocketAddr, connection: &Connection, now: Time) -> PeerStatus {
        let statistics = connection.statistics(now);
        let (role, took, bytes) = match self {
            Session::Publisher(publisher, _) => (PeerRole::Publish, publisher.took(), publisher.bytes()),
            Session::Viewer(viewer, _) => (PeerRole::Watch, viewer.took(), viewer.bytes()),
        };
        PeerStatus {
            role,
            protocol: "srt",
            address,
            seconds: took.as_secs_f64(),
            bytes,
            figures: figures(&statistics, role == PeerRole::Publish),
        }
    }
}

/// A key as it stands in a stream id: a publisher's or a viewer's key, or a viewer's token as `expires.signature`.
fn credential(key: Option<&str>) -> Credential<'_> {
    let token = key.and_then(|key| key.split_once('.'));
    Credential {
        key: key.map(Into::into),
        key_in_address: None,
        token: token.and_then(|(expires, signature)| ShownToken::parse(expires, signature)),
    }
}
