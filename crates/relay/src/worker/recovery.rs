//! What a worker does after a panic: in a connection's turn, and outside of any.

use super::{Worker, token};
use crate::resting::Resting;
use crate::turn::TurnBuffers;
use glassline_media::Time;
use glassline_streams::ConnectionId;
use std::sync::Arc;
use std::time::Duration;

impl Worker {
    /// Makes all that it knows about its connections anew out of the connections themselves, none of which was at work when the
    /// panic came, and has each of them look for what it may have missed.
    pub(super) fn recover(&mut self) {
        self.round.clear();
        self.paced.clear();
        self.unfinished.clear();
        self.again.clear();
        self.publishers.clear();
        self.audiences.clear();
        self.buffers = TurnBuffers::new();
        let (mut free, mut all, mut viewers) = (Vec::new(), Vec::new(), Vec::new());
        let mut resting = Resting::default();
        for (number, slot) in self.slots.iter_mut().enumerate() {
            let Some(connection) = slot.connection.as_mut() else {
                free.push(number as u32);
                continue;
            };
            let token = token(slot.generation, number as u32);
            all.push(token);
            // Noted again, in the list that is made anew.
            connection.leave_rest(token, &mut Resting::default());
            connection.note_rest(token, &mut resting);
            if connection.publishes() {
                self.publishers.push(token);
            }
            if let Some((viewer, _)) = connection.viewer() {
                viewer.is_expected = false;
                viewers.push((Arc::clone(viewer.live()), token));
            }
        }
        free.reverse();
        self.free = free;
        self.resting = resting;
        let lost = self.connections.saturating_sub(all.len());
        self.hub.counters.connections.subtract(lost as u64);
        self.connections = all.len();
        for (live, token) in viewers {
            self.audiences.join(live, token);
        }
        for live in self.hub.streams.all() {
            // News that were on their way to this worker may be lost.
            live.heard(self.index);
            self.buffers.due.extend(live.armed().map(|at| (at, Arc::clone(&live))));
        }
        self.buffers.news.extend(self.audiences.streams().map(Arc::clone));
        self.serve_woken(&all);
        self.again.extend(all);
        // Time at rest was neither idle nor busy.
        let now = self.hub.clock.now();
        self.load.forget(now);
        self.next_sweep = now;
    }

    /// Closes the connection in `slot` after a panic in its turn, and ends what it has left half-written.
    pub(super) fn close_broken(&mut self, slot: usize) {
        let id = ConnectionId { worker: self.index, token: token(self.slots[slot].generation, slot as u32) };
        self.close(slot);
        let now = self.hub.clock.now();
        for live in self.hub.streams.all() {
            if live.release_connection(id, now) {
                self.hub.streams.announce(&live, None);
            }
        }
        self.look_after_panic();
    }

    /// A panic was stopped at a connection: streams that it has left half-written have ended, which their viewers are told.
    pub(super) fn look_after_panic(&mut self) {
        let own = self.index;
        for live in self.hub.streams.take_broken() {
            if self.hub.streams.announce(&live, Some(own)) {
                self.buffers.news.push(live);
            }
        }
    }
}

/// How long a worker pauses before it is started again after a panic: hardly at all, and longer each time that this comes soon
/// after the last, so that a fault that returns at once takes little of the processor.
#[derive(Default)]
pub(super) struct Restarts {
    last: Time,
    pause: Duration,
}

impl Restarts {
    const FIRST: Duration = Duration::from_millis(5);
    const LONGEST: Duration = Duration::from_secs(1);
    /// After this long without a panic the pauses begin anew.
    const CALM: Duration = Duration::from_secs(10);

    /// The next pause, where the panic came at `now`.
    pub(super) fn pause(&mut self, now: Time) -> Duration {
        let is_calm = self.pause.is_zero() || now.since(self.last) >= Restarts::CALM;
        self.pause = if is_calm { Restarts::FIRST } else { (self.pause * 2).min(Restarts::LONGEST) };
        self.last = now;
        self.pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_between_restarts_grow_to_a_bound_and_begin_anew_after_calm() {
        let mut restarts = Restarts::default();
        let mut now = Time::from_millis(1);
        let pauses: Vec<_> = (0..10)
            .map(|_| {
                let pause = restarts.pause(now);
                now += pause;
                pause.as_millis()
            })
            .collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert_eq!(restarts.pause(now + Restarts::CALM), Restarts::FIRST);
    }
}
