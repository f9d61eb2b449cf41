//! A worker: one thread with one epoll, its listening sockets and its connections.

mod accepting;
mod audiences;
mod halted;
mod listeners;
mod recovery;
#[cfg(test)]
mod tests;

use crate::Settings;
use crate::connection::{Connection, LAST_ACTS, Slot, Turn};
use crate::fan_out::{FanOut, Served};
use crate::hub::Hub;
use crate::in_seconds;
use crate::inboxes::{Message, WAKE};
use crate::refuge::Refuges;
use crate::resting::Resting;
use crate::roster::Sampling;
use crate::turn::{TurnBuffers, TurnContext};
use crate::viewer::Allowance;
use crate::worker_load::{Change, Use, WorkerLoad};
use audiences::Audiences;
use glassline_delivery::coalesce::Chosen;
use glassline_io::batch::BATCH_SENDS;
use glassline_io::containment::{Border, contain, inject_armed};
use glassline_io::poll::{Event, Poller, Wakeup};
use glassline_media::Time;
use glassline_streams::News;
use listeners::Listeners;
use recovery::Restarts;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

/// How often time limits are checked. No byte ever waits for it.
const SWEEP: Duration = Duration::from_millis(250);
/// About how long publishers wait at most while other connections are served.
const PUBLISHERS_INTERVAL: Duration = Duration::from_millis(5);

/// Why the worker goes on though nothing has become ready.
#[derive(Clone, Copy, Debug)]
enum Reason {
    /// A connection has more to read or to send than it got a turn for.
    Unfinished,
    /// Time limits are checked.
    Sweep,
    /// The next burst of a paced viewer may leave.
    PacedSend,
    /// A viewer has waited long enough for several pictures in one send.
    LateSend,
    /// A publisher of CMAF has a time limit.
    Ingest,
    /// Bytes of a stream have waited long enough for others to leave with.
    Flush,
}

pub(super) struct Worker {
    hub: Arc<Hub>,
    /// The settings of the moment, looked at anew at each sweep.
    settings: Arc<Settings>,
    index: usize,
    poller: Poller,
    listeners: Listeners,
    limit: usize,
    slots: Vec<Slot>,
    free: Vec<u32>,
    connections: usize,
    resting: Resting,
    audiences: Audiences,
    again: Vec<u64>,
    /// Viewers that have had their share, and for whom there is more.
    unfinished: Vec<u64>,
    /// Viewers that are paced and have more to get, and when.
    paced: BinaryHeap<Reverse<(Time, u64)>>,
    /// Connections that publish.
    publishers: Vec<u64>,
    next_publishers: Time,
    buffers: TurnBuffers,
    fan_out: FanOut,
    /// The order of the round that is going on; kept for its memory.
    round: Vec<u64>,
    sampling: Sampling,
    next_sweep: Time,
    load: WorkerLoad,
    /// Counts the wake-ups for objects, so that another connection is served first in each.
    first_woken: usize,
}

fn token(generation: u32, slot: u32) -> u64 {
    // Generations use 31 bits, so that no connection's token reaches the listeners'.
    u64::from(generation & 0x7FFF_FFFF) << 32 | u64::from(slot)
}

impl Worker {
    pub(super) fn new(hub: Arc<Hub>, index: usize, poller: Poller) -> Worker {
        let next_sweep = hub.clock.now() + SWEEP;
        Worker {
            settings: hub.settings(),
            hub,
            index,
            poller,
            listeners: Listeners::default(),
            limit: 1,
            slots: Vec::new(),
            free: Vec::new(),
            connections: 0,
            resting: Resting::default(),
            audiences: Audiences::default(),
            again: Vec::new(),
            unfinished: Vec::new(),
            paced: BinaryHeap::new(),
            publishers: Vec::new(),
            next_publishers: Time::ZERO,
            buffers: TurnBuffers::new(),
            fan_out: FanOut::one_by_one(),
            round: Vec::new(),
            sampling: Sampling::default(),
            load: WorkerLoad::new(next_sweep),
            first_woken: 0,
            next_sweep,
        }
    }

    /// Serves until the hub halts or stops the threads. Where it halts them, the worker returns with all its
    /// connections, to be started again or handed over; where it stops them, it closes these first. A panic outside of
    /// any connection's turn costs no connection: the worker goes on with all of them after a pause, which is longer
    /// each time.
    pub(super) fn run(mut self) -> Worker {
        let mut restarts = Restarts::default();
        loop {
            self.fan_out = FanOut::new(self.settings.send_path, self.index);
            if contain(Border::Worker, || self.serve_until_told()).is_ok() {
                break;
            }
            self.hub.worker_is_down(self.index, true);
            let pause = restarts.pause(self.hub.clock.now());
            let pause_s = in_seconds(pause);
            tracing::error!(worker = self.index, pause_s, "a worker is started again after a fault");
            self.hub.rest(pause);
            // What was half done is made anew; should that not succeed either, there is another round.
            let _ = contain(Border::Worker, || self.recover());
            self.hub.worker_is_down(self.index, false);
        }
        if self.hub.is_stopping() {
            for slot in 0..self.slots.len() {
                self.close(slot);
            }
        }
        // A queue to the kernel belongs to the thread.
        self.fan_out = FanOut::one_by_one();
        self
    }

    fn serve_until_told(&mut self) {
        let (mut ready, mut messages) = (Vec::new(), Vec::new());
        while self.hub.is_running() {
            inject_armed(Border::Worker);
            let now = self.hub.clock.now();
            if let Err(error) = self.poller.wait_until(&self.next_wakeup(now), now, &mut ready) {
                tracing::error!(worker = self.index, %error, "epoll failed; the worker ends");
                break;
            }
            self.load.rested(self.hub.clock.now().since(now));
            for event in &ready {
                self.handle(*event, &mut messages);
                self.look_at_publishers();
            }
            self.take_turns_again();
            self.serve_unfinished();
            self.serve_paced();
            self.serve_news();
            self.serve_late_sends();
            let now = self.hub.clock.now();
            self.look_at_ingests(now);
            self.flush_due(now);
            if now >= self.next_sweep {
                self.sweep(now);
                self.next_sweep = now + SWEEP;
            }
        }
    }

    fn next_wakeup(&self, now: Time) -> Wakeup<Reason> {
        if !(self.again.is_empty() && self.unfinished.is_empty() && self.buffers.news.is_empty()) {
            return Wakeup { at: now, reason: Some(Reason::Unfinished) };
        }
        let paced = self.paced.peek().map_or(Time::NEVER, |Reverse((at, _))| *at);
        let wakeup = Wakeup::NEVER
            .or(Reason::Sweep, self.next_sweep)
            .or(Reason::PacedSend, paced)
            .or(Reason::LateSend, self.audiences.next_late_send().unwrap_or(Time::NEVER));
        let ingests = self.buffers.ingests_due.iter();
        let wakeup = ingests.fold(wakeup, |wakeup, (at, _)| wakeup.or(Reason::Ingest, *at));
        self.buffers.due.iter().fold(wakeup, |wakeup, (at, _)| wakeup.or(Reason::Flush, *at))
    }

    fn free_slot(&mut self) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        slot as usize
    }

    fn handle(&mut self, event: Event, messages: &mut Vec<Message>) {
        match event.token {
            WAKE => {
                self.hub.inboxes.collect(self.index, messages);
                for message in messages.drain(..) {
                    match message {
                        Message::Stream(News::Flushed(live)) => self.buffers.news.push(live),
                        Message::Stream(News::FlushAt(at, live)) => self.buffers.due.push((at, live)),
                        Message::Grown(tokens) => self.serve_woken(&tokens),
                        // The packager alone is told.
                        Message::Package(_) => {}
                        Message::Stream(News::Evicted(token)) => self.with(token, |connection, context| {
                            connection.evicted(context);
                            Turn::Rests
                        }),
                    }
                }
            }
            token => match Listeners::number(token) {
                Some(listener) => self.accept(listener),
                None => self.turn(token),
            },
        }
    }

    /// Wakes the connections at `tokens`, which wait for objects or streams: each sends what is new. Publishers and
    /// paced viewers are served in between, and another connection is first each time.
    fn serve_woken(&mut self, tokens: &[u64]) {
        self.first_woken = self.first_woken.wrapping_add(1);
        let (before, after) = tokens.split_at(self.first_woken % tokens.len().max(1));
        let order: Vec<u64> = after.iter().chain(before).copied().collect();
        for tokens in order.chunks(BATCH_SENDS) {
            for token in tokens {
                self.with(*token, |connection, context| connection.woken(context));
            }
            self.look_at_publishers();
            self.serve_paced();
        }
    }

    /// Gives another turn to connections that had more to do than one turn allows.
    fn take_turns_again(&mut self) {
        let mut again = std::mem::take(&mut self.again);
        // A round of the stream's news may have named a connection a second time.
        again.sort_unstable();
        again.dedup();
        for token in again {
            self.turn(token);
            self.look_at_publishers();
        }
    }

    /// Sends viewers their next share. Nothing is read from them, so it is no turn of their connections.
    fn serve_unfinished(&mut self) {
        let mut unfinished = std::mem::take(&mut self.unfinished);
        // A round of the stream's news may have named a viewer a second time.
        unfinished.sort_unstable();
        unfinished.dedup();
        self.serve_round(&unfinished);
    }

    /// Takes what publishers have sent, however many viewers' turns come first: on a worker that has more to send than
    /// it can, a round of all viewers takes long, and no publisher must wait for it.
    fn look_at_publishers(&mut self) {
        let now = self.hub.clock.now();
        if now >= self.next_publishers {
            self.next_publishers = now + PUBLISHERS_INTERVAL;
            // Those that still publish come back to the list.
            for token in std::mem::take(&mut self.publishers) {
                self.turn(token);
            }
        }
    }

    fn turn(&mut self, token: u64) {
        self.with(token, |connection, context| connection.take_turn(context));
    }

    /// Gives the connection at `token`, if it is still there, a turn, and does what comes of it.
    fn with(&mut self, token: u64, act: impl FnOnce(&mut Connection, &mut TurnContext<'_>) -> Turn) {
        let Some(slot) = self.slot(token) else { return };
        let Some(connection) = self.slots[slot].connection.as_mut() else { return };
        let now = self.hub.clock.now();
        let mut context = self.buffers.context(&self.hub, &self.settings, self.fan_out.allowance, now);
        let turn = contain(Border::Connection, || {
            let turn = act(connection, &mut context);
            connection.count_answers(&self.hub);
            connection.note_rest(token, &mut self.resting);
            turn
        });
        let Ok(turn) = turn else {
            return self.close_broken(slot);
        };
        if connection.publishes() && !self.publishers.contains(&token) {
            self.publishers.push(token);
        }
        match turn {
            Turn::Over => self.close(slot),
            Turn::Again => self.again.push(token),
            Turn::HasMore => self.unfinished.push(token),
            Turn::Later(at) => self.expect(slot, at),
            Turn::Rests => {
                let ended = contain(Border::Connection, || {
                    connection.end_if_written(now);
                    connection.count_answers(&self.hub);
                });
                if ended.is_err() {
                    self.close_broken(slot);
                }
            }
            Turn::Watches => {
                if let Some((viewer, _)) = connection.viewer() {
                    let live = Arc::clone(viewer.live());
                    self.audiences.join(live, token);
                }
                // Its first bytes, and what it may have sent behind its request.
                self.turn(token);
            }
        }
    }

    fn slot(&self, token: u64) -> Option<usize> {
        let slot = (token & 0xFFFF_FFFF) as usize;
        (self.slots.get(slot)?.generation == (token >> 32) as u32).then_some(slot)
    }

    fn close(&mut self, slot: usize) {
        let Some(mut connection) = self.slots[slot].connection.take() else { return };
        let now = self.hub.clock.now();
        // Each act by itself, so that one that panics keeps no other from giving back what the connection had.
        for act in LAST_ACTS {
            let mut context = self.buffers.context(&self.hub, &self.settings, self.fan_out.allowance, now);
            let _ = contain(Border::Connection, || act(&mut connection, &mut context));
        }
        let token = token(self.slots[slot].generation, slot as u32);
        connection.leave_rest(token, &mut self.resting);
        if let Some((viewer, _)) = connection.viewer()
            && self.audiences.leave(viewer.live().id, token)
        {
            self.hub.roster.leave(self.index, slot);
        }
        self.slots[slot].generation = (self.slots[slot].generation + 1) & 0x7FFF_FFFF;
        self.free.push(slot as u32);
        self.connections -= 1;
        let counters = &self.hub.counters;
        counters.connections.subtract(1);
        counters.tls_apart.subtract(u64::from(connection.socket.is_apart()));
    }

    fn look_at_load(&mut self, now: Time) {
        let used = Use { most: self.audiences.most_useful(), any_prompt: self.audiences.any_prompt() };
        let before = self.load.pictures(!used.any_prompt);
        let (busy, changes) = self.load.look(used, now);
        let (worker, busy_percent) = (self.index, (busy * 100.0) as u32);
        for change in changes.into_iter().flatten() {
            match change {
                Change::Pacing(true) => tracing::info!(worker, busy_percent, "viewers are paced again"),
                Change::Pacing(false) => tracing::warn!(
                    worker,
                    busy_percent,
                    "too busy to pace viewers; they are sent to unpaced for now"
                ),
                Change::Pictures(1.0) => {
                    tracing::info!(worker, busy_percent, "each viewer gets each picture by itself again");
                }
                Change::Pictures(pictures) if before == 1.0 => tracing::info!(
                    worker,
                    busy_percent,
                    pictures_per_send = format!("{pictures:.1}"),
                    "busy; several pictures leave for a viewer in one send"
                ),
                Change::Pictures(pictures) => tracing::debug!(
                    worker,
                    busy_percent,
                    pictures_per_send = format!("{pictures:.1}"),
                    "several pictures leave for a viewer in one send"
                ),
            }
        }
        self.fan_out.allowance = Allowance::new(self.load.paces(), self.connections);
    }

    /// Calls `IngestSession::handle_timeout` of the publishers of CMAF that are due.
    fn look_at_ingests(&mut self, now: Time) {
        if self.buffers.ingests_due.iter().all(|(at, _)| *at > now) {
            return;
        }
        for (at, session) in std::mem::take(&mut self.buffers.ingests_due) {
            let next = contain(Border::Connection, || {
                if at > now { Some(at) } else { session.handle_timeout(&self.hub, now) }
            });
            match next {
                Ok(next) => self.buffers.ingests_due.extend(next.map(|at| (at, session))),
                // The next look at all publishers of CMAF finds it broken, and ends it.
                Err(_) => self.look_after_panic(),
            }
        }
    }

    /// Calls [`Live::handle_timeout`] of the streams that are due, and tells viewers of the bytes that have waited long
    /// enough.
    fn flush_due(&mut self, now: Time) {
        if self.buffers.due.iter().all(|(at, _)| *at > now) {
            return;
        }
        for (at, live) in std::mem::take(&mut self.buffers.due) {
            if at > now {
                self.buffers.due.push((at, live));
                continue;
            }
            match contain(Border::Connection, || live.handle_timeout(now)) {
                Ok(flushed) => self
                    .buffers
                    .context(&self.hub, &self.settings, self.fan_out.allowance, now)
                    .notify(&live, flushed, self.index),
                Err(_) => self.look_after_panic(),
            }
        }
        self.serve_news();
    }

    /// Sends what is new of each stream that has news to its viewers here.
    fn serve_news(&mut self) {
        // What comes meanwhile is for the next time: others have to have their turn in between.
        for live in std::mem::take(&mut self.buffers.news) {
            live.heard(self.index);
            let now = self.hub.clock.now();
            let wanted = self.load.pictures(live.holds_pictures_back());
            if let Some(chosen) = self.audiences.news(&live, wanted, now) {
                self.serve(live.id, chosen);
            }
        }
    }

    /// Serves the viewers that have waited for their next send long enough.
    fn serve_late_sends(&mut self) {
        let Some(deadline) = self.audiences.next_late_send() else { return };
        let now = self.hub.clock.now();
        if deadline > now {
            return;
        }
        for (id, chosen) in self.audiences.late_sends(now) {
            self.serve(id, chosen);
        }
    }

    /// Sends what there is to those viewers of stream `id` that are chosen.
    fn serve(&mut self, id: u64, chosen: Chosen) {
        if chosen.is_none() {
            return;
        }
        let mut round = std::mem::take(&mut self.round);
        self.audiences.order(id, chosen, &mut round);
        self.serve_round(&round);
        round.clear();
        self.round = round;
        debug_assert!(self.audiences.are_sound());
    }

    /// Sends what there is to these viewers, in this order. Publishers and paced viewers are served in between.
    fn serve_round(&mut self, tokens: &[u64]) {
        for tokens in tokens.chunks(BATCH_SENDS) {
            let now = self.hub.clock.now();
            let order: Vec<_> = tokens.iter().filter_map(|token| self.slot(*token)).collect();
            let served = self.fan_out.serve(order.into_iter(), &mut self.slots, now);
            self.look_after(served);
            self.look_at_publishers();
            self.serve_paced();
        }
    }

    /// Closes the viewers that a round has found over or broken, and notes those that have more to get.
    fn look_after(&mut self, served: Served) {
        for slot in served.over {
            self.close(slot);
        }
        for slot in served.broken {
            self.close_broken(slot);
        }
        for slot in served.unfinished {
            self.unfinished.push(token(self.slots[slot].generation, slot as u32));
        }
        for (at, slot) in served.paced {
            self.expect(slot, at);
        }
    }

    /// Comes back to the viewer in `slot` at `at`.
    fn expect(&mut self, slot: usize, at: Time) {
        let Slot { generation, connection } = &mut self.slots[slot];
        if let Some((viewer, _)) = connection.as_mut().and_then(|connection| connection.viewer())
            && !viewer.is_expected
        {
            viewer.is_expected = true;
            self.paced.push(Reverse((at, token(*generation, slot as u32))));
        }
    }

    /// Sends the next burst to the paced viewers that are due, however long a round of all others takes.
    fn serve_paced(&mut self) {
        let now = self.hub.clock.now();
        let mut due = Vec::new();
        while let Some(Reverse((at, token))) = self.paced.peek().copied()
            && at <= now
        {
            self.paced.pop();
            let slot = self.slot(token).filter(|slot| self.slots[*slot].connection.is_some());
            let Some(slot) = slot else { continue };
            if let Some((viewer, _)) = self.slots[slot].connection.as_mut().and_then(|found| found.viewer()) {
                viewer.is_expected = false;
                due.push(slot);
            }
        }
        if !due.is_empty() {
            let served = self.fan_out.serve(due.into_iter(), &mut self.slots, now);
            self.look_after(served);
        }
    }

    fn sweep(&mut self, now: Time) {
        self.settings = self.hub.settings();
        self.look_at_load(now);
        let mut refuges = Refuges::default();
        for slot in 0..self.slots.len() {
            let Slot { generation, connection: Some(connection) } = &mut self.slots[slot] else { continue };
            let mut context = self.buffers.context(&self.hub, &self.settings, self.fan_out.allowance, now);
            let token = token(*generation, slot as u32);
            let over = contain(Border::Connection, || {
                let over = connection.check_time(&mut context);
                connection.check_drain(&mut refuges, &context);
                connection.end_if_written(now);
                connection.count_answers(&self.hub);
                connection.note_rest(token, &mut self.resting);
                over
            });
            match over {
                Ok(true) => self.close(slot),
                Ok(false) => {}
                Err(_) => self.close_broken(slot),
            }
        }
        self.sampling.look(&self.hub.roster, self.index, &mut self.slots, now);
        if self.index == 0 {
            self.hub.record_history(now);
            self.hub.look_at_ingests(now);
            self.hub.streams.end_abandoned(self.hub.settings().return_window);
            self.hub.look_at_demands();
            let Settings { certificates, certificate_check, .. } = &*self.settings;
            self.hub.certificates.look_in_time(certificates, *certificate_check, now);
        }
        if !self.listeners.are_watched() {
            self.listen_or_pause();
        }
    }
}
