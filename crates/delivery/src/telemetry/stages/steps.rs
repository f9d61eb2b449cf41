//! Percentiles of each ten seconds of the last ten minutes.

use super::part::Part;
use glassline_media::Time;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;

/// What percentiles are of.
pub const STEP: Duration = Duration::from_nanos(STEP_NANOS);
const STEP_NANOS: u64 = 10_000_000_000;
/// Steps that are kept.
pub const STEPS: usize = 60;
/// How long they last together.
const KEPT: Duration = Duration::from_nanos(STEP_NANOS * STEPS as u64);

/// The 50th and the 99th percentile, microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Half of all took no longer.
    pub p50_us: u32,
    /// All but one in a hundred took no longer.
    pub p99_us: u32,
}

/// What is known of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// When it began.
    pub begins: Time,
    /// Reports, where it is of viewers.
    pub reports: u32,
    /// How long each part took of which something is known.
    pub parts: Vec<(Part, Percentiles)>,
}

/// What gathers during a step.
pub trait Tally: Default {
    /// How long each part took.
    fn parts(&self) -> Vec<(Part, Percentiles)>;
    /// Reports.
    fn reports(&self) -> u32;
}

/// The last [`STEPS`] steps, of those in which something came.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Steps<T> {
    /// The number of the step that runs, since the clock's origin.
    #[serde(skip)]
    running: Option<(u64, T)>,
    pub(super) past: VecDeque<Step>,
}

impl<T> Default for Steps<T> {
    fn default() -> Self {
        Steps { running: None, past: VecDeque::new() }
    }
}

impl<T: Tally> Steps<T> {
    /// What gathers at `now`.
    pub(super) fn running(&mut self, now: Time) -> &mut T {
        let number = now.as_nanos() / STEP_NANOS;
        if let Some((former, tally)) = self.running.take_if(|(running, _)| *running != number) {
            self.past.push_back(step(former, &tally));
            while self.past.len() >= STEPS {
                self.past.pop_front();
            }
        }
        &mut self.running.get_or_insert_with(|| (number, T::default())).1
    }

    /// The steps of the last ten minutes in which something came, oldest first, the running one as far as it has come.
    pub fn all(&self, now: Time) -> Vec<Step> {
        let running = self.running.as_ref().map(|(number, tally)| step(*number, tally));
        let is_near = |step: &Step| now.since(step.begins) <= KEPT && !step.parts.is_empty();
        self.past.iter().cloned().chain(running).filter(is_near).collect()
    }
}

fn step(number: u64, tally: &impl Tally) -> Step {
    let begins = Time::from_nanos(number.saturating_mul(STEP_NANOS));
    Step { begins, reports: tally.reports(), parts: tally.parts() }
}
