//! MPEG-TS over a link: one good stream from an encoder or a server to a relay elsewhere, over several lines at once where there are
//! several.
//!
//! ```text
//! encoder ─► LinkOutput ─┐                                               ┌─► streams::Publisher ─► viewers
//!                        ├─► Outgoing ─► link, channel 0 ─► Incoming ─────┤   (one peer at a time has the name)
//! stream ─► Forward ─────┘   (a session that comes back)                  └─► dropped and counted: no whole packets
//! ```
//! A message is a run of whole TS packets, [`MESSAGE_PACKETS`] at most. The channel is reliable and ordered until a message is older
//! than the deadline: then the sender gives it up, and the receiver goes on behind it. While packets are lost, messages have parity,
//! which leaves when nothing else waits, so that most losses are made good without a resend. The stream begins with tables and a place to
//! join after each time that the link was made anew, and what is pushed while it is not up is left out.
//!
//! [`Ways`] keeps the links of a server's configuration running, beside the relay: it needs streams and links, and the relay
//! knows nothing of it but the figures that it adds to the status of streams.

mod forward;
mod incoming;
mod lookup;
mod outgoing;
mod output;
mod packets;
mod srt_output;
mod way;
mod ways;

pub use incoming::Incoming;
pub use outgoing::{Outgoing, OutgoingFigures, Pushed};
pub use output::{Connection, LinkOutput};
pub use packets::MESSAGE_PACKETS;
pub use srt_output::SrtOutput;
pub use way::{Direction, Locals, Way};
pub use ways::{Use, Wanted, Ways};

use glassline_media::container::ts::PACKET_BYTES;
use glassline_transport::link::{Fec, Options};
use std::time::Duration;

/// The channel that packets are sent on.
pub const CHANNEL: u8 = 0;
/// How old packets may be until they are given up, where nothing else is said.
pub const DEADLINE: Duration = Duration::from_secs(1);
/// Deadlines that make sense: below, a resend has no time on any line; above, viewers wait for nothing else.
pub const DEADLINES: std::ops::RangeInclusive<Duration> = Duration::from_millis(20)..=Duration::from_secs(30);

/// Parity of a message while packets are lost: one shard for the four or five of it. With two, lines that only together carry a
/// stream would have no room left.
const PARITY: Fec = Fec::WhenLossy(20);
/// Messages that wait, at most: some seconds of any stream.
const QUEUE_MESSAGES: u32 = 8192;
/// Their bytes, at most.
const QUEUE_BYTES: usize = 16 << 20;

/// How packets are sent that are given up when they are older than `deadline`.
#[must_use]
pub fn options(deadline: Duration) -> Options {
    Options {
        reliable: true,
        ordered: true,
        priority: 0,
        cancel_after: Some(deadline),
        max_size: (MESSAGE_PACKETS * PACKET_BYTES) as u32,
        queue: QUEUE_MESSAGES,
        queue_bytes: QUEUE_BYTES,
        fec: PARITY,
        ..Options::default()
    }
}
