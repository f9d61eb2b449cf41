//! Direct video: each picture is coded to what the network can take now, or is not sent (Fouladi et al.: "Salsify:
//! Low-Latency Network Video through Tighter Integration between a Video Codec and a Transport Protocol", NSDI 2018).
//!
//! ```text
//! Picture ─► Sender::encode (some qualities, against one state) ─► link's budget ─► Sender::choose ─► message, or none
//!                  ▲                                                                                    │ channel VIDEO
//!                  │ what is lost: receipts and reports                                                  ▼
//!              Sender::handle_report ◄──── channel REPORTS ◄──── Receiver::handle ─► Picture, to be shown
//! ```
//! The codec is a function, so a state that was not sent costs nothing: the next picture is coded against any state that the
//! receiver has, or will have. After a loss that is the newest that it *says* it has decoded: no key frame, no resending.
//!
//! [`SendLoop`] is the loop around [`Sender`]: when the link is asked for its budget, what of it is left beside sound, and how much is
//! done for a picture in the time there is.
//!
//! Pure: pictures, messages, budgets and `now` come in; messages, pictures and deadlines go out. `call::direct` runs it
//! on a link, `lab::experiment` in virtual time: both the same loop.
#![forbid(unsafe_code)]
// A byte index within a letter panics, and text comes from outside: `get` and `split_at_checked` say that there is none.
#![cfg_attr(not(test), warn(clippy::string_slice))]

mod channels;
pub mod coded;
mod coder;
mod decision;
mod history;
mod ladder;
mod newest;
mod receiver;
mod send_loop;
mod sender;
mod settings;
mod share;
mod shown;
mod size;
pub mod sound;
pub mod wire;

pub use channels::{REPORTS, SOUND, VIDEO, coded_options, report_options, sound_options, video_options};
pub use coder::CodingError;
pub use decision::{Candidate, Choice, Conditions, Decision, Reason};
pub use newest::Newest;
pub use receiver::{CodedFrame, Fate, Receiver, ReceiverCounters, RefusedPicture, Shown};
pub use send_loop::{
    Aside, CodecChoice, CodecReason, Coding, LinkAccess, Offered, SendError, SendLoop, SendStatus,
};
pub use sender::{Sender, SenderCounters};
pub use settings::{CodecMode, SenderSettings, VideoCodec};
pub use share::{concerns_pictures, pictures_share};
pub use size::CodedSize;
