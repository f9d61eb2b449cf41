//! The sending end of uncompressed video: pictures go in, packets leave at the times of ST 2110-21's schedules; and what goes
//! beside it, sound (ST 2110-30) and ancillary data (ST 2110-40).
//!
//! ```text
//!   thread "pictures": Source ─► planes ─► pgroups in a block ─┐
//!   a file in memory: blocks, packed once ─────────────────────┼─► thread "raw send": headers, bursts at their times ─► path(s)
//!   thread "pictures": file as it is asked for ─► blocks ──────┘    └► a frame's time code, captions ─► path(s)
//!   sound: file beside pictures, device ─► SoundQueue ─► thread "sound send": a packet each millisecond ─► path(s)
//! ```
//! A picture is converted and packed while the one before it goes out; between the two threads stand [`BLOCKS`] blocks of huge
//! pages, and a picture that finds none is left out and counted. Packets are never left out: a burst that is late leaves at once,
//! and those behind it catch up ([`pacer`]).
//!
//! A picture's RTP time stamp is its capture time by the wall clock, in TAI since PTP's epoch. Pictures of sources
//! without a clock of their own are captured on the grid of whole periods since that epoch, as ST 2110-21 has it.

mod ancillary;
mod captions;
mod class;
mod decide;
mod describe;
mod error;
mod frames;
mod intake;
mod pacer;
mod path;
mod plan;
mod queue;
mod running;
mod sender;
mod settings;
mod sound;
mod sound_packets;
mod stamps;
mod statistics;
mod supply;
mod waiter;
mod way;

#[cfg(test)]
mod tests;

pub use class::Class;
pub use error::Error;
pub use path::Launch;
pub use running::Stopper;
pub use sender::RawSender;
pub use settings::{
    AncillarySettings, ClockSource, PathSettings, Rate, Settings, Shape, SoundSettings, TimeCodeFrom,
};
pub use statistics::{
    AncillaryStatistics, CaptionStatistics, Monitor, PathStatistics, SoundStatistics, Statistics,
};

/// Frames that can be packed, waiting and on their way at a time.
const BLOCKS: usize = 4;
/// A lock is poisoned where a thread panicked that held it, and none does.
const UNPOISONED: &str = "no thread panics with a lock";

/// What tells one stream of packets from another.
struct PacketNumbers {
    ssrc: u32,
    sequence: u32,
}

/// Numbers that cannot be guessed (RFC 3550 §5.1).
fn packet_numbers() -> Result<PacketNumbers> {
    let seed = glassline_io::random::seed().map_err(Error::system("a random number"))?;
    let number = |at: usize| u32::from_be_bytes([seed[at], seed[at + 1], seed[at + 2], seed[at + 3]]);
    Ok(PacketNumbers { ssrc: number(0), sequence: number(4) })
}

/// What can fail here.
type Result<T, E = Error> = std::result::Result<T, E>;
