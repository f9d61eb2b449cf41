//! Uncompressed video over RTP: RFC 4175, as ST 2110-20 and TR-03 profile it.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                  RTP header, 12 bytes or more                 |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  extended sequence number     |            length             |
//! |F|        line number          |C|           offset            |
//! |            length             |F|        line number          |
//! |C|           offset            |   pgroups of the first line …
//! ```
//! Each packet says where its samples belong, so there is no buffer that puts packets in order: samples go where the header
//! says, whenever they come. What is more, a sender cuts each frame as it cut the one before; so a receiver knows where the
//! next packets' samples belong before these are there, and has the kernel write them in place:
//!
//! ```text
//!           Depacketizer::plan ──► Plan: headers aside, payloads into the frame ──► one recvmmsg
//!   Layout of the last frame ▲                                                         │
//!           Depacketizer::take ◄── lengths, headers ◄──────────────────────────────────┘
//!             as planned: noted, nothing is touched │ not as planned: gathered, and copied to where it belongs
//!                     ▼
//!           Done: a frame in its memory, and what is missing in it
//! ```
//! * [`Format`]: what a frame is, and where a line's samples are in it.
//! * [`Depacketizer`]: one stream, of one path or of two that carry the same packets (ST 2022-7).
//! * [`Packetizer`]: a frame's packets as headers and ranges of the frame.
//! * [`Schedule`]: when each of them is to leave (ST 2110-21).
//! * [`Timing`]: whether a sender keeps to that, by its packets' arrivals.

mod coverage;
mod depacketize;
mod format;
mod frame;
mod header;
mod layout;
mod media_clock;
mod packetize;
mod plan;
mod schedule;
#[cfg(test)]
mod tests;
mod timing;
#[cfg(test)]
mod timing_tests;
mod verdict;

pub use depacketize::{Counters, Depacketizer, Done, Settings, Store};
pub use format::{Format, FormatError, LineNumbers, Scan};
pub use header::{PayloadHeader, Segment};
pub use layout::Layout;
pub use media_clock::MediaClock;
pub use packetize::{OutPacket, Packetizer, PacketizerSettings, Packets, Packing};
pub use plan::{Arrival, MESSAGE_BYTES, Piece, Plan, SCRATCH_BYTES, SCRATCH_MIDDLE};
pub use schedule::{Schedule, SenderModel};
pub use timing::{PtpClock, Timing, TimingSettings};
pub use verdict::{Class, FrameTiming, Fullness, Limits, Verdict};
