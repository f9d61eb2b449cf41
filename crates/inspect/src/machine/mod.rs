//! What a machine has and lacks for a job: facts of the system ([`glassline_io::machine`]) and of the [`Job`], some short
//! measurements ([`Trials`]), and the judgement of both as [`Row`]s.
//!
//! ```text
//! io::machine::Machine ─┐
//! Job ──────────────────┼─► judge ─► [Row { check, state, now, wanted, command, worth }]
//! Trials::run ──────────┘
//! ```
//! [`judge`] is pure, and so is all here but [`Trials::run`]. A fact that is not known makes no row fail.

mod facts;
mod job;
mod named;
mod network;
mod row;
mod sockets;
mod system;
mod trials;

pub use facts::{CertificateFound, Fault, FileFound, PortFound, Problem, ProgramFound};
pub use job::{Descriptors, Job};
pub use row::{Row, State};
pub use trials::{BatchTrial, PageTrial, ReceiveTrial, Trials};

use glassline_io::machine::Machine;
use glassline_media::Utc;

/// Says of each thing that the job needs whether this machine has it. `now` is the wall clock, for certificates.
pub fn judge(machine: &Machine, job: &Job, trials: &Trials, now: Utc) -> Vec<Row> {
    let mut rows = named::rows(job, now);
    rows.extend(system::rows(machine, job, trials));
    rows.extend(sockets::rows(machine, job, trials));
    rows.extend(network::rows(machine, job));
    for command in rows.iter_mut().filter_map(|row| row.command.as_mut()) {
        match command.as_str() {
            row::AS_ROOT => command.clone_from(&job.as_root),
            row::IN_SERVICE => command.clone_from(&job.in_service),
            _ => {}
        }
    }
    rows
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
