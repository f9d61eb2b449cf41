//! Direct video over an emulated network in virtual time: the real codec, the real link, the send loop that `send` runs
//! (`direct::SendLoop`) and the real receiver; only packets, clocks and processors are modelled. A run repeats exactly, and takes as long as coding its pictures does.
//!
//! * [`Setup`]: network, sender, time that coding takes ([`Cost`]).
//! * [`run`]: goes through it; [`Outcome`] has what came of each picture, and [`Summary`] the figures.
//! * [`paper`]: the experiments of Salsify's paper as such setups, and its figures; [`Record`] keeps what came of one.
//!
//! Delay is by the rule of Salsify's paper (§5): a picture that was never shown arrives with the next one that is.

mod comparison;
mod cost;
mod outcome;
pub mod paper;
mod record;
mod run;
mod sound;
mod traffic;
mod world;

pub use cost::Cost;
pub use outcome::{Outcome, Slot, SoundSummary, Summary};
pub use record::{Pictures, Record, Settings};
pub use run::{ExperimentError, Setup, run};

#[cfg(test)]
pub(crate) use record::tests::record as record_for_tests;
