//! An encoder's output: its packets by SRT.

use glassline_doors::srt::{Line, LineUse};
use glassline_io::clock::Clock;
use glassline_io::poll::Waker;
use glassline_media::Time;
use glassline_studio::output::{
    Demand, Error as OutputError, Liveness, Output, Packets, State, StatusHandle,
};
use glassline_transport::srt::{Address, Connection, USUAL_PAYLOAD};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Bytes that wait for the connection, at most: a second of 16 Mbit/s.
const WAITING_MAX: usize = 2 << 20;
/// How often a file that waits for the peer looks whether the user wants to end.
const STOP_INTERVAL: Duration = Duration::from_millis(50);
/// How long the end waits for the peer to have all.
const END_MAX: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Queue {
    payloads: VecDeque<Vec<u8>>,
    bytes: usize,
    is_up: bool,
    /// What comes next has to begin with a key frame: what the peer has had before does not go on.
    awaits_key_frame: bool,
    wants_key_frame: bool,
    is_finished: bool,
    failure: Option<String>,
    /// Payloads that were given up, over all connections; and what the present one has given up.
    given_up: u64,
    given_up_now: u64,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    room: Condvar,
    waker: OnceLock<Waker>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Each change leaves the queue whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.get() {
            waker.wake();
        }
    }
}

/// Gives an encoder's packets to an address of SRT.
pub struct SrtOutput {
    shared: Arc<Shared>,
    line: Line,
    liveness: Liveness,
    status: StatusHandle,
    left_out: u64,
}

impl SrtOutput {
    /// Begins to connect. Where the source is not live, it waits for the connection, and for room on it.
    ///
    /// # Errors
    /// The system has no descriptors, or no thread.
    pub fn start(address: Address, liveness: Liveness, status: StatusHandle) -> io::Result<SrtOutput> {
        status.set(State::Connecting);
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        let line = Line::start(address, move |waker| {
            let _ = own.waker.set(waker);
            Give(own)
        })?;
        Ok(SrtOutput { shared, line, liveness, status, left_out: 0 })
    }

    fn leave_out(&mut self, state: State) {
        self.left_out += 1;
        self.status.left_out();
        self.status.set(state);
    }
}

impl Output for SrtOutput {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand, OutputError> {
        let shared = Arc::clone(&self.shared);
        let mut queue = shared.lock();
        while self.liveness.is_patient() && (!queue.is_up || queue.bytes > WAITING_MAX) {
            let waited = shared.room.wait_timeout(queue, STOP_INTERVAL);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if !queue.is_up {
            drop(queue);
            self.leave_out(State::Connecting);
            return Ok(Demand::Nothing);
        }
        if queue.awaits_key_frame && packets.joinable {
            queue.awaits_key_frame = false;
        }
        if queue.bytes > WAITING_MAX {
            (queue.awaits_key_frame, queue.wants_key_frame) = (true, true);
        }
        let takes = !queue.awaits_key_frame;
        let demand =
            if std::mem::take(&mut queue.wants_key_frame) { Demand::KeyFrame } else { Demand::Nothing };
        if !takes {
            drop(queue);
            self.leave_out(State::Behind);
            return Ok(demand);
        }
        for payload in packets.bytes.chunks(USUAL_PAYLOAD) {
            queue.payloads.push_back(payload.to_vec());
        }
        queue.bytes += packets.bytes.len();
        drop(queue);
        shared.wake();
        self.status.sent(packets.bytes.len());
        self.status.set(State::Sending);
        Ok(demand)
    }

    fn finish(&mut self) -> Result<(), OutputError> {
        self.shared.lock().is_finished = true;
        self.shared.wake();
        self.line.wait(Clock::new().now() + END_MAX);
        let status = self.line.status();
        let (waiting, given_up, error) = {
            let queue = self.shared.lock();
            (queue.payloads.len(), queue.given_up, queue.failure.clone())
        };
        let name = self.status.name();
        let what = if status.connections == 0 {
            let why = error.or(status.error).unwrap_or_else(|| "nothing answered".to_owned());
            Some(format!("there was no connection, and nothing was sent: {why}"))
        } else if waiting > 0 || status.connection.is_none() && status.lost_bytes > 0 {
            Some("the connection was lost, and the end of the stream may be missing there".to_owned())
        } else if self.liveness.is_patient() && given_up + self.left_out + status.lost_bytes > 0 {
            Some(format!(
                "not all of the stream has arrived: {given_up} payloads were given up, {} runs of packets left out, and {} \
                 bytes were under way when a connection ended",
                self.left_out, status.lost_bytes
            ))
        } else {
            None
        };
        if let Some(what) = what {
            return Err(OutputError::Lost { name: name.to_owned(), what });
        }
        if given_up + self.left_out + status.lost_bytes > 0 {
            tracing::warn!(
                "{name}: not all of the stream has arrived: {} runs of packets were left out, {given_up} payloads given up",
                self.left_out
            );
        }
        Ok(())
    }
}

/// The thread's side.
struct Give(Arc<Shared>);

impl LineUse for Give {
    fn begin(&mut self) {
        let mut queue = self.0.lock();
        // What waits does not go on from what the peer has had before.
        queue.given_up += queue.payloads.len() as u64;
        queue.payloads.clear();
        (queue.bytes, queue.given_up_now) = (0, 0);
        (queue.is_up, queue.awaits_key_frame, queue.wants_key_frame) = (true, true, true);
        self.0.room.notify_all();
    }

    fn work(&mut self, connection: &mut Connection, now: Time) -> Option<String> {
        connection.deliver(now, |_, _| {});
        let mut queue = self.0.lock();
        while connection.has_room()
            && let Some(payload) = queue.payloads.pop_front()
        {
            queue.bytes -= payload.len();
            connection.send(now, &payload);
        }
        let given_up = connection.statistics(now).given_up;
        queue.given_up += given_up.saturating_sub(queue.given_up_now);
        queue.given_up_now = given_up;
        self.0.room.notify_all();
        None
    }

    fn end(&mut self, why: &str) {
        let mut queue = self.0.lock();
        queue.is_up = false;
        if queue.failure.as_deref() != Some(why) {
            tracing::warn!("SRT: {why}; it is tried again");
        }
        queue.failure = Some(why.to_owned());
        self.0.room.notify_all();
    }

    fn is_finished(&self) -> bool {
        let queue = self.0.lock();
        queue.is_finished && (queue.payloads.is_empty() || !queue.is_up)
    }
}
