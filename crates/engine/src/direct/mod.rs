//! Video that fits the network frame by frame, running: `direct` married to a link, as services of its session.
//!
//! ```text
//! Source ─ thread ─► Mailbox (the newest picture) ─► VideoSender::serve: encode, budget, choose ─► link, channel VIDEO
//!                                                        ▲ reports, receipts                          │
//! Sink ◄─ thread "display" ◄─ queue ◄─ VideoReceiver::serve: decode, report ◄─────────────────────────┘
//! ```
//! A [`VideoSender`] goes into the session of the end that has the camera, a [`VideoReceiver`] into that of the other one;
//! channels of the user's stand beside them in the same session.

mod display;
mod mailbox;
mod receive;
mod send;
mod times;

pub use display::{Shown, Sink};
pub use glassline_direct::{
    Candidate, CodecMode, Decision, Reason, ReceiverCounters, SenderCounters, SenderSettings,
};
pub use receive::{ReceiveStatistics, VideoReceiver};
pub use send::{SendSettings, SendStatistics, VideoSender};
pub use times::{StageTimes, Times};

/// A panic while a lock is held ends the program: nothing catches it here.
const UNPOISONED: &str = "nobody panics with this lock";
