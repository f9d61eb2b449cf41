//! An emulated link between two networks of this machine: [`Ends`] makes them, [`Emulation`] carries packets between
//! their devices as `transport`'s emulator says, in real time.
//!
//! ```text
//!  far network: what is outside          near network: what the command is in
//!  gl0, 100.64.0.1  ◄── up ◄───────────── gl0, 100.64.0.2, the default route
//!                   ───────────► down ──►
//! ```
//! Several lines between the same networks ([`LineEnds`]) have a pair of devices and an [`Emulation`] each.
//!
//! One thread reads both devices, has the links say when each packet leaves, and sleeps in between on a timer of the
//! kernel's.

mod ends;
mod report;
mod run;

pub use ends::{Addresses, Ends, EndsError, LineEnds, Networks};
pub use report::{Direction, Millis, Packets, QueueFill, Report};
pub use run::{Carried, DirectionSettings, Emulation, Settings};

use glassline_transport::emulator::Random;

/// The seed of one of several lines, numbered from 0, of a run with `seed`. The first one has the run's own; the others
/// have sequences of their own, so that a further line changes nothing on the lines before it.
pub fn line_seed(seed: u64, number: u8) -> u64 {
    if number == 0 { seed } else { Random::stream(seed, number.into()).next_u64() }
}

#[cfg(test)]
pub(crate) use report::tests;
