//! Direct video over an emulated network in virtual time: the real codec, the real link, the send loop that `send` runs
//! (`direct::SendLoop`) and the real receiver; only packets, clocks and processors are modelled. A run repeats exactly, and takes as long as coding its pictures does.
//!
//! * [`Setup`]: the lines between both ends ([`Line`]; each is a path of the link), sender, time that coding takes ([`Cost`]).
//! * [`run`]: goes through it; [`Outcome`] has what came of each picture, and [`Summary`] the figures.
//! * [`run_watched`]: the same, and the caller is given each frame and picture that the receiver gives.
//! * [`SetRun`]: the same over each network of a set; [`summarize`] gives medians and the worst.
//! * [`paper`]: the experiments of Salsify's paper as such setups, and its figures; [`Record`] keeps what came of one.
//!
//! * [`floor_p95`]: what a sender would reach that knows the network's future.
//!
//! Delay is by the rule of Salsify's paper (§5): a picture that was never shown arrives with the next one that is.

mod comparison;
mod cost;
mod floor;
mod line_record;
mod lines;
mod outcome;
pub mod paper;
mod record;
mod run;
mod set;
mod sound;
mod timeline;
mod traffic;
mod watch;
mod world;

pub use cost::Cost;
pub use floor::floor_p95;
pub use lines::{Line, MAX_LINES};
pub use outcome::{ChoiceSummary, LineOutcome, LineSummary, Outcome, Slot, SoundSummary, Summary};
pub use record::{Pictures, Record, Settings};
pub use run::{ExperimentError, Setup, run, run_watched};
pub use set::{SetFigures, SetRun, SetSummary, summarize};
pub use timeline::StageTime;
pub use watch::Received;

#[cfg(test)]
pub(crate) use record::tests::record as record_for_tests;
#[cfg(test)]
pub(crate) use set::tests::run as set_run_for_tests;
