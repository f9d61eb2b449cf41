//! An encoder's output: its packets over a link.

use super::outgoing::{Outgoing, OutgoingFigures, Pushed};
use super::way::{Runner, Way};
use glassline_studio::output::{
    Demand, Error as OutputError, Liveness, Output, Packets, State, StatusHandle,
};
use std::sync::Arc;
use std::time::Duration;

/// How often a file that waits for the link looks whether the user wants to end.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// A link that runs, and what is sent on it.
pub struct Connection {
    outgoing: Arc<Outgoing>,
    runner: Runner,
}

impl Connection {
    /// Begins to connect, and goes on for as long as it exists.
    #[must_use]
    pub fn start(way: Way, outgoing: Arc<Outgoing>) -> Connection {
        let runner = Runner::start(way, Arc::clone(&outgoing) as _, |_| {});
        Connection { outgoing, runner }
    }
}

/// Gives an encoder's packets to a link.
pub struct LinkOutput {
    connection: Connection,
    liveness: Liveness,
    status: StatusHandle,
    /// Runs of packets that were left out before the link took the first one.
    before_start: u64,
}

impl LinkOutput {
    /// Where the source is not live, it waits for the link, and for room on it.
    #[must_use]
    pub fn new(connection: Connection, liveness: Liveness, status: StatusHandle) -> LinkOutput {
        status.set(State::Connecting);
        LinkOutput { connection, liveness, status, before_start: 0 }
    }
}

impl Output for LinkOutput {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand, OutputError> {
        let outgoing = &self.connection.outgoing;
        while self.liveness.is_patient() && !outgoing.wait_up(STOP_INTERVAL) {}
        let pushed = outgoing.push_while(packets.bytes, packets.joinable, || self.liveness.is_patient());
        match pushed {
            Pushed::Sent => {
                self.status.sent(packets.bytes.len());
                self.status.set(State::Sending);
            }
            Pushed::LeftOut => {
                self.status.left_out();
                let figures = outgoing.figures();
                if figures.messages == 0 {
                    self.before_start = figures.left_out;
                }
                self.status.set(if figures.is_up { State::Behind } else { State::Connecting });
            }
            Pushed::Full => {
                self.status.left_out();
                self.status.set(State::Behind);
            }
        }
        Ok(if outgoing.take_key_frame_wish() { Demand::KeyFrame } else { Demand::Nothing })
    }

    fn finish(&mut self) -> Result<(), OutputError> {
        let before = self.connection.outgoing.figures();
        self.connection.outgoing.end();
        self.connection.runner.wait();
        let figures = self.connection.outgoing.figures();
        let name = self.status.name();
        // A live source does not wait for the link: what it gave before is said, and is no fault.
        if self.before_start > 0 {
            tracing::info!("{name}: {} runs of packets came before the link was up", self.before_start);
        }
        let lost = lost(&OutgoingFigures { left_out: figures.left_out - self.before_start, ..figures });
        let failure = if figures.links == 0 {
            Some("the link was never up, and nothing was sent".to_owned())
        } else if !figures.is_finished {
            Some("the link was lost, and the end of the stream may be missing there".to_owned())
        } else if figures.late > before.late {
            Some("the end of the stream was given up, since it had not arrived in time".to_owned())
        } else if self.liveness.is_patient() && !lost.is_empty() {
            Some("not all of the stream has arrived".to_owned())
        } else {
            None
        };
        match failure {
            Some(what) => {
                let what = if lost.is_empty() { what } else { format!("{what} ({lost})") };
                Err(OutputError::Lost { name: name.to_owned(), what })
            }
            None => {
                if !lost.is_empty() {
                    tracing::warn!("{name}: not all of the stream has arrived: {lost}");
                }
                Ok(())
            }
        }
    }
}

/// What the peer lacks, in words; empty where that is nothing.
fn lost(figures: &OutgoingFigures) -> String {
    let of = |count: u64, one: &str, several: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        count => Some(format!("{count} {several}")),
    };
    let kinds = [
        of(
            figures.left_out,
            "run of packets was left out, without a link or room on it",
            "runs of packets were left out, without a link or room on it",
        ),
        of(
            figures.late,
            "message was given up, lost or older than the deadline",
            "messages were given up, lost or older than the deadline",
        ),
        of(
            figures.torn,
            "message was under way when the link was lost",
            "messages were under way when the link was lost",
        ),
    ];
    kinds.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
