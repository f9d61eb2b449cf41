//! A line of the report.

use glassline_io::machine::Known;
use serde::Serialize;

/// Stands for [`super::Job::as_root`] until all rows are there.
pub(super) const AS_ROOT: &str = "as root";

/// Stands for [`super::Job::in_service`] in the same way.
pub(super) const IN_SERVICE: &str = "in a service";

/// How good something is for the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Good enough, or of no concern to this job.
    Ok,
    /// The job works, and would work better, or for longer, with something else.
    Better,
    /// The job will not work.
    Fails,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// What it is, as in `net.core.rmem_max` or `port 0.0.0.0:8080`.
    pub check: String,
    /// How good it is.
    pub state: State,
    /// How it is now; `unknown: …` with the reason where the system does not tell.
    pub now: String,
    /// What would be good.
    pub wanted: String,
    /// What to type; `None` where there is nothing to do, or no command does it.
    pub command: Option<String>,
    /// What that is worth, and how it is known: measured here just now, measured by this project, or by reference.
    pub worth: String,
}

impl Row {
    /// A row that is good.
    pub(super) fn new(check: impl Into<String>, now: impl Into<String>, wanted: impl Into<String>) -> Row {
        Row {
            check: check.into(),
            state: State::Ok,
            now: now.into(),
            wanted: wanted.into(),
            command: None,
            worth: String::new(),
        }
    }

    /// The same with this state.
    pub(super) fn state(mut self, state: State) -> Row {
        self.state = state;
        self
    }

    /// What to type where it is not good; left out where it is.
    pub(super) fn command(mut self, command: impl Into<String>) -> Row {
        self.command = Some(command.into()).filter(|_| self.state != State::Ok);
        self
    }

    /// What it is worth.
    pub(super) fn worth(mut self, worth: impl Into<String>) -> Row {
        self.worth = worth.into();
        self
    }
}

/// [`State::Better`] unless it is good.
pub(super) fn better_unless(is_good: bool) -> State {
    if is_good { State::Ok } else { State::Better }
}

/// A row of what may not be known: `judge` makes one of the value, and a value that is not known is no fault.
pub(super) fn of_known<T>(check: &str, known: &Known<T>, wanted: &str, judge: impl FnOnce(&T) -> Row) -> Row {
    match known {
        Known::Is(value) => judge(value),
        Known::Absent => Row::new(check, "unknown: this system does not tell", wanted),
        Known::Hidden(reason) => Row::new(check, format!("unknown: {reason}"), wanted)
            .state(State::Better)
            .command(AS_ROOT)
            .worth("only root may read it, and may learn whether it is good"),
    }
}
