//! SRT 1.5 in live mode (draft-sharabayko-srt-01), pure: datagrams and `now` come in, datagrams, payloads and deadlines go out.
//!
//! ```text
//! Listener ─ induction, cookie, conclusion ─► Request ─ accept ─► Connection ─┬─► Receiver: order, loss reports, time of delivery
//! Caller ─── induction, conclusion ─────────────────────────────►            └─► Sender: what may be asked for again, pacing
//! ```
//! A [`Listener`] keeps nothing of a peer before that has shown the cookie of its address. There is one message in a packet (live
//! mode); handshakes of version 4, rendezvous, groups, packet filters and the file mode are refused with their reason.
//!
//! Sections are those of draft-sharabayko-srt-01.

pub mod address;
mod caller;
mod connection;
mod crypto;
mod handshake;
mod lines;
mod listener;
mod packet;
mod receiver;
mod sender;
mod sequence;
mod socket_ids;
mod stream_id;

pub use address::{Address, Mode};
pub use caller::{Caller, CallerError};
pub use connection::{Connection, Ended, Life, Statistics, Transmit};
pub use crypto::{KeyBytes, Passphrase, PassphraseError};
pub use handshake::Rejection;
pub use listener::{Handled, Listener, Refused, Request};
pub use packet::HEADER_BYTES;
pub use stream_id::{StreamId, StreamMode};

use std::time::Duration;

/// Bytes of a datagram at most, with what it says of itself but without UDP's header: an Ethernet packet has room for it (§3).
pub const MAX_DATAGRAM: usize = 1472;

/// Bytes of a payload at most: seven packets of MPEG-TS are 1,316.
pub const MAX_PAYLOAD: usize = MAX_DATAGRAM - HEADER_BYTES;

/// What a payload usually has: seven packets of MPEG-TS.
pub const USUAL_PAYLOAD: usize = 7 * 188;

/// The latency where nothing else is said, as that of the reference.
pub const LATENCY: Duration = Duration::from_millis(120);

/// The longest latency: a peer that asks for more gets this, since what it makes the other end keep is bounded by it.
pub const LATENCY_MAX: Duration = Duration::from_secs(10);

/// A peer from which nothing comes for so long is gone.
pub const PEER_IDLE: Duration = Duration::from_secs(5);

/// How an end of a connection wants it.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How long what comes is held back, so that what was lost can be sent again; the greater one of both ends' holds.
    pub latency: Option<Duration>,
    /// What the peer is asked to hold back at least.
    pub peer_latency: Option<Duration>,
    /// The secret that both ends share; without one nothing is encrypted.
    pub passphrase: Option<Passphrase>,
    /// The length of the key that a caller makes; a listener takes what the caller has.
    pub key_bytes: KeyBytes,
}

impl Settings {
    fn latency(&self) -> Duration {
        self.latency.unwrap_or(LATENCY).min(LATENCY_MAX)
    }

    fn peer_latency(&self) -> Duration {
        self.peer_latency.unwrap_or(Duration::ZERO).min(LATENCY_MAX)
    }
}
