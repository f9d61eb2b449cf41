//! Video that fits the network frame by frame, running: `direct` married to a link, as services of its session.
//!
//! ```text
//! Source ─ thread ─► Mailbox (the newest picture) ─► VideoSender::serve: encode, budget, choose ─► link, channel VIDEO
//!            │                                           ▲ reports, receipts                          │
//! Sink ◄─ thread "display" ◄─ queue ◄─ VideoReceiver::serve: decode, report ◄─────────────────────────┘
//!            │                   └─ LipSync: how late pictures are
//!            └ sound: Opus ─► queue ─► SoundSender::serve ─► link, channel SOUND ─► SoundReceiver::serve ─► SoundSink
//! ```
//! A [`VideoSender`] goes into the session of the end that has the camera, a [`VideoReceiver`] into that of the other one, and
//! both into each for video both ways; channels of the user's stand beside them in the same session.

mod camera;
mod coded_send;
mod display;
mod intake;
mod key_frames;
mod latest;
mod lip_sync;
mod mailbox;
mod muxing;
mod publish;
mod pulled;
mod receive;
#[cfg(test)]
mod relay_for_tests;
mod send;
#[cfg(feature = "opus")]
mod sound_receive;
#[cfg(feature = "opus")]
mod sound_send;
#[cfg(feature = "opus")]
mod speaker;
mod telemetry;
mod times;

pub use camera::CameraSettings;
pub use coded_send::EncodingSettings;
pub use coded_send::{CodedSendStatistics, CodedVideoSender};
pub use display::{Content, Shown, Sink};
pub use glassline_direct::coded::CodedCounters;
#[cfg(feature = "opus")]
pub use glassline_direct::sound::{Redundancy, SoundCounters};
pub use glassline_direct::{
    Candidate, CodecChoice, CodecMode, CodecReason, CodedFrame, CodedSize, Decision, Reason,
    ReceiverCounters, SenderCounters, SenderSettings, VideoCodec,
};
pub use intake::{SoundCapture, TakesSound};
pub use key_frames::{KEY_FRAME_INTERVAL, KeyFrameWish};
pub use lip_sync::LipSync;
pub use publish::{Av1Frames, PublishSettings, PublishTo, Publisher};
pub use pulled::PulledSource;
pub use receive::{ReceiveStatistics, VideoReceiver};
pub use send::{SendSettings, SendStatistics, VideoSender};
#[cfg(feature = "opus")]
pub use sound_receive::{Heard, SoundReceiveStatistics, SoundReceiver, SoundSink};
#[cfg(feature = "opus")]
pub use sound_send::{SoundSendStatistics, SoundSender, SoundSettings};
#[cfg(feature = "opus")]
pub use speaker::AudioOut;
pub use telemetry::{Telemetry, TelemetryFormat, TelemetryInput, TelemetryStatistics};
pub use times::{StageTimes, Times};

/// A panic while a lock is held ends the program: nothing catches it here.
const UNPOISONED: &str = "no thread panics while it holds this lock";
