//! An emulated link between two networks of this machine: [`Ends`] makes them, [`Emulation`] carries packets between
//! their devices as `transport`'s emulator says, in real time.
//!
//! ```text
//!  far network: what is outside          near network: what the command is in
//!  gl0, 100.64.0.1  ◄── up ◄───────────── gl0, 100.64.0.2, the default route
//!                   ───────────► down ──►
//! ```
//! One thread reads both devices, has the links say when each packet leaves, and sleeps in between on a timer of the
//! kernel's.

mod ends;
mod report;
mod run;

pub use ends::{Ends, EndsError, Networks};
pub use report::{Direction, Millis, Packets, QueueFill, Report};
pub use run::{Carried, DirectionSettings, Emulation, Settings};

#[cfg(test)]
pub(crate) use report::tests;
