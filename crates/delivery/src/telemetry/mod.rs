//! What operators are told of a stream's viewers: how far behind live they are, why, and how that was before; how long
//! requests for its objects waited ([`first_bytes`]); and where the milliseconds of its pictures went ([`stages`]), as they
//! themselves say where they really watch ([`watchers`]).
//!
//! Comes in: [`Sample`]s of viewers' connections and running totals, both with their times, from `relay`, which
//! looks at them in its workers' spare moments; and the wait of each answer with an object. Goes out: verdicts, histograms,
//! curves.

mod behind;
pub mod first_bytes;
mod history;
pub mod stages;
pub mod watchers;
mod why;

pub use behind::{BEHIND_EDGES_MS, Behind, age_of, percentiles_ms};
pub use history::{History, Moment, Point, Series};
pub use why::{SLOW_FROM, Sample, Why};
