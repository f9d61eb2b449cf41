//! What a channel trades: bandwidth, delay, reliability, order.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::channel::stamp::STAMP_BYTES;
use super::{MAX_CHANNELS, MAX_MESSAGE_BYTES};
use std::time::Duration;

/// How one end sends on a channel. Both ends may send on the same channel, each with options of its own.
///
/// ```
/// use glassline_transport::link::Options;
/// use std::time::Duration;
///
/// let commands = Options::default();
/// assert!(commands.reliable && commands.ordered);
/// let video = Options { reliable: false, newest: true, priority: 4, ..Options::default() };
/// let video = Options { max_receive_time: Some(Duration::from_millis(50)), ..video };
/// assert!(video.check(3).is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether what is lost is sent again.
    pub reliable: bool,
    /// Whether messages are given to the application in the order of sending.
    pub ordered: bool,
    /// Strict: while a channel of a lower number has something to send, those of higher ones wait. 0 goes first.
    pub priority: u8,
    /// The share among channels of one priority; at least 1.
    pub weight: u16,
    /// A message that is older than this is given up, whether it has begun or not.
    pub cancel_after: Option<Duration>,
    /// A new message replaces those that still wait. What has begun is finished.
    pub newest: bool,
    /// With `newest`: what has begun is given up too. On a narrow path this starves a receiver that needs whole
    /// messages.
    pub cancel_begun: bool,
    /// The receiver goes on without a message when a later one is complete and it has waited for this long.
    /// Unreliable channels go on at once where this is not given. The receiving end's own value goes first.
    pub max_receive_time: Option<Duration>,
    /// The largest message, bytes; at most [`MAX_MESSAGE`](super::MAX_MESSAGE), with its stamp where it has one
    /// ([`Options::max_message`]).
    pub max_size: u32,
    /// The most messages that wait to be sent, or, received on an unreliable channel, to be taken.
    pub queue: u32,
    /// The most bytes of messages that wait, or that are sent and not acknowledged. One message of `max_size` always
    /// has room.
    pub queue_bytes: usize,
    /// Whether messages are made smaller on their way. What does not shrink is sent as it is, and seldom tried.
    pub compression: Compression,
    /// Whether parity goes along with each message, of which lost parts are made without a round trip. On unreliable channels it
    /// leaves before the next message and costs its share of the rate. On reliable ones it leaves when nothing else waits, and what it
    /// does not make good is sent again; to a peer that takes no parity there ([`Link::takes_parity`](super::Link::takes_parity)), over two paths
    /// of [`Bonding::Both`](super::Bonding::Both), and for a message of which copies leave in time there is none.
    pub fec: Fec,
    /// Whether each message carries the time that [`Link::send_stamped`](super::Link::send_stamped) gives it, in eight bytes, to
    /// [`Received::stamp`](super::Received::stamp). To a peer that knows of no stamps messages go without.
    pub stamped: bool,
    /// Whether each message's end is told by an event: delivered, cancelled or lost.
    pub receipts: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            reliable: true,
            ordered: true,
            priority: 1,
            weight: 1,
            cancel_after: None,
            newest: false,
            cancel_begun: false,
            max_receive_time: None,
            max_size: MAX_MESSAGE_BYTES,
            queue: 4096,
            queue_bytes: 32 << 20,
            compression: Compression::None,
            fec: Fec::Never,
            stamped: false,
            receipts: false,
        }
    }
}

impl Options {
    /// Whether they make sense on channel `id`; otherwise says what does not.
    pub fn check(&self, id: u8) -> Result<(), super::Error> {
        let wrong = |what| Err(super::Error::Options { channel: id, what });
        if usize::from(id) >= MAX_CHANNELS {
            return wrong("its number is above 63");
        }
        if self.weight == 0 {
            return wrong("its weight is 0");
        }
        if self.max_size > MAX_MESSAGE_BYTES {
            return wrong("its messages may be larger than 16 MiB");
        }
        if let Fec::WhenLossy(percent) | Fec::Always(percent) = self.fec
            && !(1..=100).contains(&percent)
        {
            return wrong("its parity is not between 1 and 100 percent");
        }
        if self.queue == 0 {
            return wrong("its queue has no place");
        }
        Ok(())
    }

    /// The largest message that the channel takes, bytes: [`Options::max_size`], or as much less as a stamp has no room beside it.
    pub fn max_message(&self) -> u32 {
        let stamp = if self.stamped { u32::from(STAMP_BYTES) } else { 0 };
        self.max_size.min(MAX_MESSAGE_BYTES.saturating_sub(stamp))
    }

    /// The same for messages as they are carried: with their stamps.
    pub(crate) fn with_room_for_stamps(self) -> Options {
        let stamp = if self.stamped { u32::from(STAMP_BYTES) } else { 0 };
        Options { max_size: self.max_message().saturating_add(stamp), ..self }
    }

    /// The same for a peer that knows of stamps, or of none.
    pub(crate) fn for_peer(self, takes_stamps: bool) -> Options {
        Options { stamped: self.stamped && takes_stamps, ..self }
    }

    /// What of these the other end learns; the rest is as in [`Options::default`].
    pub fn on_the_wire(&self) -> Options {
        let receive_ms =
            self.max_receive_time.map(|time| u32::try_from(time.as_millis()).unwrap_or(u32::MAX));
        Options {
            reliable: self.reliable,
            ordered: self.ordered,
            priority: self.priority,
            weight: self.weight,
            max_size: self.max_size,
            compression: self.compression,
            stamped: self.stamped,
            max_receive_time: receive_ms.map(|millis| Duration::from_millis(millis.into())),
            ..Options::default()
        }
    }
}

/// How the messages of a channel are made smaller on their way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// DEFLATE: the smaller code, for peers without zstd.
    Deflate,
    /// Zstandard: faster and smaller; the only one that takes a [`super::Dictionary`].
    Zstd,
}

impl Compression {
    /// The two bits in the flags of OPEN.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Compression::None => 0,
            Compression::Deflate => 1,
            Compression::Zstd => 2,
        }
    }

    pub(crate) const fn from_code(code: u8) -> Option<Compression> {
        match code {
            0 => Some(Compression::None),
            1 => Some(Compression::Deflate),
            2 => Some(Compression::Zstd),
            _ => None,
        }
    }
}

/// When a channel sends parity along, and how much of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fec {
    /// Never.
    #[default]
    Never,
    /// While the path is seen to lose packets: so many parity fragments for each hundred fragments of a message, 1 to
    /// 100, at least one.
    WhenLossy(u8),
    /// Always, so many for each hundred.
    Always(u8),
}

impl Fec {
    pub(crate) fn percent(self, lossy: bool) -> u8 {
        match self {
            Fec::Always(percent) => percent,
            Fec::WhenLossy(percent) if lossy => percent,
            Fec::Never | Fec::WhenLossy(_) => 0,
        }
    }
}
