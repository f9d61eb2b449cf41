//! Encoding: pictures and sound in, H.264 and Opus in MPEG-TS out, with no added delay.
//!
//! ```text
//! Source ──► Feed ──► Queue ──► Pipeline: x264 ──► muxer ──► Output   (a thread for each rendition from its queue on)
//!   │                 (bounded; a live source's oldest waiting picture gives way)
//!   └► sound, coded once for all renditions
//! ```
//! Nothing waits on the way: a slice is muxed and written while x264 is at the next one. A rendition with a look-ahead is for
//! viewers that wait for quality: its threads run when others have nothing to do, and it leaves out pictures of its own alone.
//!
//! * [`Request`] says what is wanted, [`Encoding`] opens and runs it.
//! * [`Controls`]: what can be asked of it while it runs, and how it does.
//! * [`Supervisor`]: encoders that publish to a relay and begin again when they fail.

mod adapt;
mod auto;
mod coder;
mod constant_rate;
mod control;
mod delayed;
mod drops;
mod encoding;
mod error;
mod feed;
mod keyint;
mod ladder;
mod overrides;
mod picture;
mod pipeline;
mod queue;
mod request;
#[cfg(test)]
#[cfg(feature = "x264")]
mod session_tests;
mod settings;
pub mod sound;
pub mod sound_error;
mod stall;
mod stats;
mod supervisor;

pub use crate::capture::ParseError;
pub use auto::AUTO;
pub use control::{Change, Controls, Status};
pub use encoding::{Encoding, Ended, Stopper};
pub(crate) use error::Result;
pub use error::{ControlError, Error, LadderError, MuxRateError};
pub use keyint::Keyint;
pub use ladder::{Plan, Rendition, names};
pub use overrides::Overrides;
pub use request::{Request, SoundRequest};
pub use settings::{BITRATE, RateControl, Settings, Vbv};
pub use stats::{Line, Progress, Report, Row, Stats};
pub use supervisor::{EncoderRequest, EncoderStatus, Explain, NotControlled, Supervisor};
