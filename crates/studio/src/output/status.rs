//! How an output does, told while it runs.

use super::{Error, Result};
use glassline_io::containment::Panicked;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How an output does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It takes the stream.
    #[default]
    Sending,
    /// Its server is being connected to.
    Connecting,
    /// It was too slow and waits for the next key frame.
    Behind,
    /// It has failed for good.
    Failed,
}

/// How an output does, at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    /// Where it goes.
    pub output: String,
    /// What it does.
    pub state: State,
    /// Bytes of the stream that it has taken.
    pub bytes: u64,
    /// Runs of packets (a picture's, or a part of one) that were left out there.
    pub left_out: u64,
    /// The server that has the stream, where it goes to one: without secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// How often the stream has gone on behind a lost connection, at the same server or another one.
    pub resumed: u64,
    /// What is missing in these gaps, and in one in which the stream has ended, in seconds.
    pub missing_s: f64,
}

/// Tells how an output does while it runs. Clones mean the same output.
#[derive(Clone, Debug)]
pub struct StatusHandle(Arc<Cells>);

#[derive(Debug)]
struct Cells {
    name: String,
    state: Mutex<State>,
    bytes: AtomicU64,
    left_out: AtomicU64,
    /// The server, how often the stream has been resumed, and what is missing in nanoseconds.
    sessions: Mutex<(Option<String>, u64, Duration)>,
}

impl StatusHandle {
    /// Of the output that is called `name`.
    #[must_use]
    pub fn new(name: &str) -> StatusHandle {
        let (bytes, left_out) = (AtomicU64::new(0), AtomicU64::new(0));
        let (name, state, sessions) = (name.to_owned(), Mutex::default(), Mutex::default());
        StatusHandle(Arc::new(Cells { name, state, bytes, left_out, sessions }))
    }

    /// What the output is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// It does this now.
    pub fn set(&self, state: State) {
        *self.0.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    /// These bytes were taken.
    pub fn sent(&self, bytes: usize) {
        self.0.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A run of packets was left out.
    pub fn left_out(&self) {
        self.left_out_more(1);
    }

    /// So many runs of packets were left out.
    pub(super) fn left_out_more(&self, runs: u64) {
        self.0.left_out.fetch_add(runs, Ordering::Relaxed);
    }

    /// The stream goes to this server, or to none.
    pub(super) fn set_server(&self, url: Option<String>) {
        self.sessions().0 = url;
    }

    /// So much is missing in a gap behind which the stream has `resumed`, or has ended in.
    pub(super) fn missing(&self, missing: Duration, resumed: bool) {
        let mut sessions = self.sessions();
        sessions.1 = sessions.1.saturating_add(u64::from(resumed));
        sessions.2 = sessions.2.saturating_add(missing);
    }

    fn sessions(&self) -> MutexGuard<'_, (Option<String>, u64, Duration)> {
        self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails where a panic has left the output half-written: where its lock `is_poisoned`.
    pub(super) fn check_whole(&self, is_poisoned: bool) -> Result<()> {
        if !is_poisoned {
            return Ok(());
        }
        let panicked = Panicked { message: "the log has said what it was".to_owned() };
        Err(Error::Fault { name: self.name().to_owned(), panicked })
    }

    /// How it does.
    #[must_use]
    pub fn get(&self) -> Status {
        let (server, resumed, missing) = self.sessions().clone();
        Status {
            server,
            resumed,
            missing_s: missing.as_secs_f64(),
            output: self.0.name.clone(),
            state: *self.0.state.lock().unwrap_or_else(PoisonError::into_inner),
            bytes: self.0.bytes.load(Ordering::Relaxed),
            left_out: self.0.left_out.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn clones_tell_of_the_same_output() {
        let handle = StatusHandle::new("film.ts");
        let clone = handle.clone();
        clone.sent(188);
        clone.sent(376);
        clone.left_out();
        clone.set(State::Behind);
        clone.set_server(Some("http://b/live/a.ts".to_owned()));
        clone.missing(Duration::from_millis(1000), true);
        clone.missing(Duration::from_millis(500), true);
        clone.missing(Duration::from_millis(500), false);
        clone.left_out_more(4);
        let expected = Status {
            output: "film.ts".to_owned(),
            state: State::Behind,
            bytes: 564,
            left_out: 5,
            server: Some("http://b/live/a.ts".to_owned()),
            resumed: 2,
            missing_s: 2.0,
        };
        assert_eq!(handle.get(), expected);
    }

    #[test]
    fn an_output_begins_by_sending_and_has_taken_nothing() {
        let told = serde_json::to_value(StatusHandle::new("null:").get()).unwrap();
        let expected = serde_json::json!({ "output": "null:", "state": "sending", "bytes": 0, "left_out": 0, "resumed": 0, "missing_s": 0.0 });
        assert_eq!(told, expected);
    }

    #[test]
    fn each_state_is_told_by_a_word_of_its_own() {
        let words = [State::Sending, State::Connecting, State::Behind, State::Failed]
            .map(|state| serde_json::to_value(state).unwrap());
        assert_eq!(words, ["sending", "connecting", "behind", "failed"]);
    }

    #[test]
    fn what_a_panic_left_half_written_takes_nothing_more() {
        let handle = StatusHandle::new("film.ts");
        assert!(handle.check_whole(false).is_ok());
        let refused = handle.check_whole(true).unwrap_err();
        assert!(matches!(&refused, Error::Fault { name, .. } if name == "film.ts"), "{refused}");
    }
}
