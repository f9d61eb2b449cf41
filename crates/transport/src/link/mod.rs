//! The link: channels between two peers over datagrams that may be lost, late, doubled or forged. A pure state machine:
//! datagrams, messages, `now` and a seed come in; datagrams, messages, events and the next deadline come out.
//!
//! * [`Endpoint`] has one address and many peers: it finds the link of a datagram, shakes hands, turns strangers away.
//! * [`Link`] is one peer: channels, acknowledgements, resending, pace. `call::link` drives both.
//! * [`wire`] is the format, described in docs/wire-link.md; [`secure`] the keys; [`Options`] what a channel trades.
//!
//! How a message walks: [`Link::send`] queues it on its channel → [`Endpoint::poll_transmit`] takes as much of it as
//! priority, window and pace allow into a datagram and seals that → [`Endpoint::handle_datagram`] at the other end
//! opens it, puts the parts together → [`Link::receive`]. What came is acknowledged in ranges; what is lost is sent
//! again unless it was cancelled meanwhile.
//!
//! A link may have up to four paths ([`Endpoint::add_path`]): each a session of its own below one set of channels.

mod channel;
mod content;
mod endpoint;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod options;
mod random;
mod ranges;
mod received;
mod recovery;
mod reordering;
mod rtt;
pub mod secure;
mod state;
mod steps;
pub mod wire;

pub use crate::capacity::Controller;
pub use channel::compression::Dictionary;
pub use channel::receive::{ReceiveCounters, Received};
pub use channel::send::SendCounters;
pub use endpoint::{Endpoint, EndpointCounters, LinkId};
pub use options::{Compression, Fec, Options};
pub use random::Random;
pub use secure::noise::{Credentials, Key, public_key};
pub use state::{Link, LinkStatistics, PathStatistics};

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Channels of a link are numbered from 0 to one less than this.
pub const MAX_CHANNELS: usize = 64;
/// The largest message, bytes.
pub const MAX_MESSAGE: usize = MAX_MESSAGE_BYTES as usize;
/// The same, as it stands on the wire.
pub(crate) const MAX_MESSAGE_BYTES: u32 = 16 << 20;
/// The most paths of a link.
pub const MAX_PATHS: usize = 4;
/// The longest name of an endpoint, bytes.
pub const MAX_NAME: usize = 64;
/// The most bytes of datagrams that one [`Endpoint::poll_transmit`] gives: what a kernel takes at once (UDP GSO).
pub const MAX_BATCH: usize = 65_000;
/// The most datagrams in them.
pub const MAX_SEGMENTS: usize = 44;

/// Where a datagram comes from or goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    /// The other end's address.
    pub remote: SocketAddr,
    /// Which of the caller's sockets: any number that the caller understands.
    pub via: u8,
}

/// The mark of Explicit Congestion Notification that an IP packet bears (RFC 3168 §5): a sender that sets [`Ecn::Ect1`]
/// or [`Ecn::Ect0`] lets routers set [`Ecn::Ce`] instead of dropping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// None; routers drop.
    #[default]
    NotCapable,
    /// ECT(1): the sender takes part in L4S (RFC 9331), that is, it answers to the share of packets that are marked.
    Ect1,
    /// ECT(0): the sender answers to a mark as to a loss.
    Ect0,
    /// Congestion experienced: a queue on the way was growing.
    Ce,
}

impl Ecn {
    /// The two bits, lowest in IP's traffic class.
    pub const fn bits(self) -> u8 {
        match self {
            Ecn::NotCapable => 0,
            Ecn::Ect1 => 1,
            Ecn::Ect0 => 2,
            Ecn::Ce => 3,
        }
    }

    /// The mark in a traffic class's lowest two bits; the others don't matter.
    pub const fn from_bits(bits: u8) -> Ecn {
        match bits & 3 {
            0 => Ecn::NotCapable,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
}

/// The most addresses of one listener that are tried.
pub const MAX_ADDRESSES: usize = 16;

/// Datagrams to be sent, which stand in the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Where to.
    pub path: Path,
    /// Bytes in the buffer.
    pub bytes: usize,
    /// The size of each datagram but the last, which may be smaller. Equal to `bytes` for a single one.
    pub segment_bytes: usize,
    /// The mark that they are to bear in IP's header.
    pub ecn: Ecn,
}

/// A message of a channel, numbered from 0 in the order of [`Link::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageId(pub u64);

/// How a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The other end has all of it.
    Delivered,
    /// It was too old or was replaced by a newer one.
    Cancelled,
    /// The receiver has gone on without it.
    Skipped,
    /// A part was lost on an unreliable channel, or the peer restarted.
    Lost,
}

/// What a link tells its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The link is up.
    Connected {
        /// It was up before, and the peer has none of what it had then. Messages that waited go on; those that had
        /// begun are lost.
        again: bool,
    },
    /// The peer sends on a channel.
    Opened {
        /// Its number.
        channel: u8,
        /// How the peer sends.
        options: Options,
    },
    /// A channel that had no message to take has one.
    Readable {
        /// Its number.
        channel: u8,
    },
    /// Messages of the peer will not come: they were lost, are incomplete, or were given up by it, and the receiver goes on
    /// without them. Told as soon as that is known, and not only with the next message that comes ([`Received::skipped`]
    /// counts them as well); one event for a channel whenever events are asked for.
    PassedOver {
        /// Its number.
        channel: u8,
        /// How many they are.
        messages: u64,
    },
    /// A message has ended; told where [`Options::receipts`] is set. On an unordered channel one that was told
    /// [`Outcome::Lost`] is told once more, as [`Outcome::Delivered`], if all of it came after all, late: the receiver has it.
    Finished {
        /// Its channel.
        channel: u8,
        /// What [`Link::send`] gave.
        message: MessageId,
        /// How.
        outcome: Outcome,
    },
    /// Messages go over another path now: the peer's address has changed and is proven, or, of two paths, the one that
    /// carried them has fallen silent, or is well again.
    PathChanged {
        /// Where they go now.
        path: Path,
    },
    /// A second path of the link is up.
    PathUp {
        /// Where it leads.
        path: Path,
    },
    /// One of two paths has been silent for [`Settings::idle`]. The end that connected goes on trying it.
    PathDown {
        /// Where it led.
        path: Path,
    },
    /// The path carries small datagrams, but for seconds none of the [`MIN_DATAGRAM`](wire::parameters::MIN_DATAGRAM) bytes that every
    /// path must carry: larger messages do not arrive there. Told once, and again after one of that size has come.
    PathTooNarrow {
        /// Where it leads.
        path: Path,
    },
    /// The peer does not answer, and the link's state is kept: reliable messages wait, and [`Event::Resumed`] follows if the peer
    /// comes back within [`Settings::resume`] and has kept its own. A link that we connected is tried again meanwhile.
    Suspended {
        /// Why: [`CloseReason::TimedOut`] or [`CloseReason::Reset`].
        reason: CloseReason,
    },
    /// The listener does not take us: another peer of our name or key answers, on a machine of another boot (see
    /// [`Settings::boot`]). It is asked again later.
    Refused {
        /// How much later.
        retry_after: Duration,
    },
    /// The peer is back with all that it had: every channel goes on where it was. What was under way on reliable channels
    /// is sent again, what was under way on others is lost.
    Resumed,
    /// The peer does not answer. A link that we connected is tried again if [`Settings::reconnect`] is set; any other
    /// is gone.
    Closed {
        /// Why.
        reason: CloseReason,
    },
}

/// Why a link ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// By our own wish.
    Local,
    /// By the peer's wish, with its code and its words.
    Peer {
        /// 0: as wished; see [`CloseCode`].
        code: u64,
        /// For people.
        reason: String,
    },
    /// Nothing came for [`Settings::idle`].
    TimedOut,
    /// No answer came for [`Settings::connect_timeout`].
    Unreachable,
    /// The listener has refused us for [`Settings::connect_timeout`]: see [`Event::Refused`].
    Refused,
    /// The peer broke the rules.
    Violation(&'static str),
    /// The peer does not know the link any more: it has restarted, or gave it up before we did.
    Reset,
    /// All links together held more than [`Settings::endpoint_bytes`], and this one most. What came on it is dropped.
    NoRoom,
    /// A fault of this program's own has ended it: see [`Endpoint::recover`].
    Fault,
}

/// Codes of a CLOSE frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseCode {
    /// As wished.
    Done = 0,
    /// A frame was malformed or against the rules.
    Violation = 1,
    /// The endpoint holds too much for its applications, and of this link most.
    NoRoom = 2,
    /// The application has failed: what was sent may not be all.
    Failed = 3,
    /// Another process of the same name or key, on a machine of the same boot, has connected.
    Replaced = 4,
    /// Another peer of the same name or key answers, on a machine of another boot.
    NameTaken = 5,
}

impl CloseCode {
    /// As it stands on the wire.
    pub const fn number(self) -> u64 {
        self as u64
    }
}

/// Why something cannot be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such channel was opened here.
    #[error("channel {channel} is not open here")]
    NotOpen {
        /// Its number.
        channel: u8,
    },
    /// The options make no sense.
    #[error("channel {channel} cannot be opened so: {what}")]
    Options {
        /// Its number.
        channel: u8,
        /// What is wrong.
        what: &'static str,
    },
    /// The message is larger than the channel allows.
    #[error("a message of {found} bytes on channel {channel}, where messages have at most {limit}")]
    TooLarge {
        /// Its size.
        found: usize,
        /// The channel's limit.
        limit: u32,
        /// The channel's number.
        channel: u8,
    },
    /// The channel's queue is full; there will be room after some events.
    #[error("the queue of channel {channel} is full")]
    QueueFull {
        /// Its number.
        channel: u8,
    },
    /// The link has ended.
    #[error("the link is closed")]
    Closed,
    /// No more links may be had.
    #[error("there are {limit} links already")]
    TooManyLinks {
        /// [`Settings::max_links`].
        limit: usize,
    },
    /// No address to connect to was given.
    #[error("no address to connect to")]
    NoAddress,
    /// The credentials name no peer to connect to.
    #[error("the credentials name no peer to connect to")]
    NoPeer,
    /// The link cannot have this path.
    #[error("no further path for this link: {what}")]
    Path {
        /// Why not.
        what: &'static str,
    },
}

/// When small reliable messages are sent more than once without waiting for a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// Never.
    Never,
    /// While the path is seen to lose packets.
    WhenLossy,
    /// Always.
    Always,
}

/// What the paths of one link are for. See [`Endpoint::add_path`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bonding {
    /// The second carries messages while the first is silent. The first has them again once it has answered for two
    /// seconds.
    #[default]
    Failover,
    /// Every part of a message goes over both, as far as each carries it, and the one that comes first counts. Costs the
    /// bytes twice.
    Both,
    /// Each part of a message goes over one path, so that a message is whole as early as can be: the paths carry the sum of
    /// what each does. Small messages, and those of [`Link::send_twice`], go over the best two. What was under way on a path that
    /// falls silent is sent again on the others.
    Sum,
}

impl Bonding {
    /// How many paths a link may have with it.
    pub const fn max_paths(self) -> usize {
        match self {
            Bonding::Failover | Bonding::Both => 2,
            Bonding::Sum => MAX_PATHS,
        }
    }
}

/// What an endpoint is like. The same for all its links.
#[derive(Clone, Debug)]
pub struct Settings {
    /// By what peers are known.
    pub credentials: Credentials,
    /// Tells our endpoint from others that hold the same shared key: a new link of the same name replaces the old one.
    /// At most [`MAX_NAME`] bytes. Key pairs need none.
    pub name: Vec<u8>,
    /// Names the boot of this machine, where it is known (Linux: `/proc/sys/kernel/random/boot_id`). A listener that has
    /// a link of our name or key has it replaced at once where it is of the same boot: it was started again. Where it is of
    /// another boot it may be a clone of this machine: the listener replaces it once it has been silent for a second,
    /// though it was asked, and refuses us until then ([`Event::Refused`]).
    pub boot: Option<u64>,
    /// Whether others may connect.
    pub listen: bool,
    /// What a listener keeps over its restarts, and no other one has: by it a peer of a link that the listener has lost
    /// learns so at once (a Reset) and connects anew. `None`: such a peer has to notice by [`Settings::idle`].
    /// [`Key::of_listener`] makes one for each listener of a machine.
    pub reset_secret: Option<Key>,
    /// The largest datagram that we send and take, bytes of UDP payload: 1200 or more. What a path carries of it is
    /// found by probes, from 1200 up (RFC 8899). The caller's socket must not fragment (IP's DF is set), and a datagram
    /// that the system refuses to send as too large has to count as lost.
    pub datagram_bytes: u16,
    /// Bytes of reliable messages kept for the application on each channel, 128 for each message among them; at least two
    /// messages of the largest size are granted. All channels of a link together have two windows, and each of them a 64th
    /// of one whatever the others have. Default: 32 MiB.
    pub window_bytes: u64,
    /// The most bytes held of what came on one link and was not taken, on all channels and with all that messages, parts and
    /// parity take beside their bytes; and of what is kept for messages to come ([`Link::spare_bytes`]). Four windows, and
    /// four of the largest messages of a channel, are granted at least. A peer that sends more reliable messages breaks the
    /// rules; unreliable ones are dropped. Default: 128 MiB.
    pub link_bytes: u64,
    /// The same for all links of the endpoint together, those among them that have ended. Where it is exceeded, the link
    /// that holds most ends and is emptied ([`CloseReason::NoRoom`]). Default: 512 MiB.
    pub endpoint_bytes: u64,
    /// After how long without a datagram the peer counts as away ([`Event::Suspended`]), or, where [`Settings::resume`] is zero,
    /// the link is given up.
    pub idle: Duration,
    /// How long the state of a link is kept after [`Settings::idle`], so that a peer that comes back and is the same
    /// process goes on where it was. Zero: a link that was lost begins anew. A link that we connected keeps its state until
    /// the listener has told whether it has kept its own, where this is not zero.
    pub resume: Duration,
    /// How often something is sent so that the peer and what is between do not forget us.
    pub keep_alive: Duration,
    /// How long a connect is tried.
    pub connect_timeout: Duration,
    /// Whether a link that we connected and that was lost is connected again.
    pub reconnect: bool,
    /// The most links.
    pub max_links: usize,
    /// The most handshakes that are half done. Beyond, one without a proven address gives way to one with a proven
    /// address, and where all are proven, Connects are dropped.
    pub max_pending: usize,
    /// Of these, from one IP address that is not proven; beyond, an end that connects has to prove it (Retry, as in RFC
    /// 9000 §8.1). As many again may come from there with the address proven.
    pub max_pending_per_address: usize,
    /// Beyond so many half-done handshakes, each end that connects has to prove its address.
    pub retry_above: usize,
    /// After how many packets a direction's key is replaced.
    pub key_update_packets: u64,
    /// When small reliable messages are sent more than once.
    pub copies: Copies,
    /// What is known beforehand of messages on channels with [`Compression::Zstd`]. Used while the peer has the same.
    pub dictionary: Option<Arc<Dictionary>>,
    /// What datagrams have to be marked with, [`Ecn::Ect1`] or [`Ecn::Ect0`], so that routers can say that a queue
    /// grows before it is seen in the delay. Given up on a path that swallows such datagrams, clears the marks, or sets
    /// that of congestion always.
    pub ecn: Ecn,
    /// How many percent of a path's rate may go for padding, up to 100: whenever too little is sent to tell what the
    /// path carries, a few full datagrams in a row measure it. 0, the default: what is known may be old.
    pub probing_percent: u8,
    /// What decides how fast we send; the other end has its own.
    pub controller: Controller,
    /// What further paths of links that we connect are for; the listener does the same.
    pub bonding: Bonding,
}

impl Settings {
    /// Settings with these credentials and the defaults.
    pub fn new(credentials: Credentials) -> Settings {
        Settings {
            credentials,
            name: Vec::new(),
            boot: None,
            listen: false,
            reset_secret: None,
            datagram_bytes: 1452,
            window_bytes: 32 << 20,
            link_bytes: 128 << 20,
            endpoint_bytes: 512 << 20,
            idle: Duration::from_secs(5),
            resume: Duration::from_secs(60),
            keep_alive: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(10),
            reconnect: true,
            max_links: 64,
            max_pending: 256,
            max_pending_per_address: 16,
            retry_above: 32,
            key_update_packets: 1 << 22,
            copies: Copies::WhenLossy,
            dictionary: None,
            ecn: Ecn::Ect0,
            probing_percent: 0,
            controller: Controller::default(),
            bonding: Bonding::Failover,
        }
    }
}
