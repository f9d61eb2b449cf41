//! An encoder's output: its packets over a link.

use super::outgoing::{Outgoing, Pushed};
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
}

impl LinkOutput {
    /// Where the source is not live, it waits for the link, and for room on it.
    #[must_use]
    pub fn new(connection: Connection, liveness: Liveness, status: StatusHandle) -> LinkOutput {
        status.set(State::Connecting);
        LinkOutput { connection, liveness, status }
    }
}

impl Output for LinkOutput {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand, OutputError> {
        let outgoing = &self.connection.outgoing;
        while self.liveness.is_patient() && !outgoing.wait_up(STOP_INTERVAL) {}
        match outgoing.push(packets.bytes, packets.joinable) {
            Pushed::Sent => {
                self.status.sent(packets.bytes.len());
                self.status.set(State::Sending);
            }
            Pushed::LeftOut => {
                self.status.left_out();
                let is_up = outgoing.figures().is_up;
                self.status.set(if is_up { State::Behind } else { State::Connecting });
            }
            Pushed::Full => {
                self.status.left_out();
                self.status.set(State::Behind);
            }
        }
        Ok(if outgoing.take_key_frame_wish() { Demand::KeyFrame } else { Demand::Nothing })
    }

    fn finish(&mut self) -> Result<(), OutputError> {
        self.connection.outgoing.end();
        self.connection.runner.wait();
        Ok(())
    }
}
