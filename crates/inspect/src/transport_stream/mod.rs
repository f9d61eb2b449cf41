//! What is in a transport stream, and how well it comes: tracks, clocks, gaps, ages, the rules that it keeps, and what to warn of.
//!
//! ```text
//! bytes, when they came ─► Analysis ─► Report (figures, warnings), which serialises as `glassline probe --json`
//!                             ├─ media::container::ts: packets, tables, access units
//!                             ├─ clocks: jitter against position or arrival
//!                             ├─ budget: where the milliseconds went, by the stages that senders say
//!                             └─ streams: pictures, key frames, sound, ages by the capture times that they carry
//! ```
//! Pure: no socket, clock, thread or file.

mod age;
mod analysis;
mod budget;
mod budget_figures;
mod check;
mod clock;
mod data;
mod headers;
mod report;
mod stages;
mod stream;
#[cfg(test)]
mod tests;
mod warnings;

pub use age::{AgeReport, WallClock};
pub use analysis::{Analysis, Kind};
pub use budget_figures::{BudgetReport, StepReport};
pub use check::{Buffers, CheckReport, RuleReport};
pub use report::{
    AudioReport, AudioVideo, ClockReport, CueReport, DataReport, DroneReport, Errors, FlightReport, Jitter,
    PidReport, ProgramReport, Report, SCHEMA, SetReport, StreamReport, TimeToFirst, VideoReport,
};
pub use stages::{RelayStages, Waiting};
