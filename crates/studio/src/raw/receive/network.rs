//! The thread that a stream's packets come by. It does nothing else.

use super::slots::Slots;
use super::{Arrived, Message, Report, Tap};
use glassline_io::clock::Clock;
use glassline_io::pages::{Block, Pool};
use glassline_io::udp::flow::{Flow, Received, Room, wait_any};
use glassline_media::{Memory, Time};
use glassline_transport::raw_video::{Arrival, Depacketizer, Piece, Plan, SCRATCH_BYTES};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often a thread that nothing comes to looks whether it is to end.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// How often the kernel is asked what it has dropped.
const DROPS_ASKED: Duration = Duration::from_millis(100);

/// What the thread and its receiver have in common.
#[derive(Debug, Default)]
pub(super) struct Shared {
    is_over: AtomicBool,
    report: Mutex<Report>,
}

impl Shared {
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn report(&self) -> Report {
        *self.lock()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Report> {
        // Threads that hold it only copy numbers, so that a panic leaves it usable.
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread has.
pub(super) struct Network {
    flows: Vec<Flow>,
    /// It never waits in the kernel.
    is_polling: bool,
    depacketizer: Depacketizer,
    slots: Slots,
    scratch: Block,
    plan: Plan,
    room: Room,
    arrivals: Vec<Arrival>,
    clock: Clock,
    tap: Option<Box<dyn Tap>>,
    out: SyncSender<Arrived>,
    shared: Arc<Shared>,
    report: Report,
    drops_asked: Time,
}

impl Network {
    pub(super) fn new(
        (flows, is_polling): (Vec<Flow>, bool),
        depacketizer: Depacketizer,
        slots: Slots,
        (clock, tap): (Clock, Option<Box<dyn Tap>>),
        (out, shared): (SyncSender<Arrived>, Arc<Shared>),
    ) -> io::Result<Network> {
        let scratch = Pool::new(SCRATCH_BYTES, 1)?.take().ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Network {
            flows,
            is_polling,
            depacketizer,
            slots,
            scratch,
            plan: Plan::default(),
            room: Room::new(),
            arrivals: Vec::new(),
            clock,
            tap,
            out,
            shared,
            report: Report::default(),
            drops_asked: Time::ZERO,
        })
    }

    /// Receives until it is told to end, the frames' receiver has gone or a socket fails.
    pub(super) fn run(mut self) -> io::Result<()> {
        // A frame that the end cuts off is neither counted as lost nor handed out.
        let ended = self.receive();
        self.ask_drops();
        self.tell();
        self.hand_out();
        ended
    }

    fn receive(&mut self) -> io::Result<()> {
        while !self.shared.is_over.load(Ordering::Relaxed) {
            // What came before this is taken below, but for what is left where a call was full.
            let now = self.clock.now();
            let (mut is_drained, mut taken_until) = (true, now);
            for path in 0..self.flows.len() {
                if self.take(path)? == self.plan.messages() {
                    is_drained = false;
                    taken_until = self.arrivals.last().map_or(taken_until, |last| taken_until.min(last.at));
                }
            }
            // A thread that was held up does not give up what waits in a socket.
            self.depacketizer.handle_timeout(taken_until);
            if now.since(self.drops_asked) >= DROPS_ASKED {
                self.drops_asked = now;
                self.ask_drops();
            }
            // Before the frames, so that each is counted when the caller has it.
            self.tell();
            if !self.hand_out() {
                return Ok(());
            }
            if is_drained && !self.is_polling {
                let due = self.depacketizer.poll_timeout().map_or(STOP_CHECK_INTERVAL, |due| due.since(now));
                wait_any(&self.flows, due.min(STOP_CHECK_INTERVAL))?;
            }
        }
        Ok(())
    }

    /// Takes what waits at one path, as much as the plan has room for. Returns messages.
    fn take(&mut self, path: usize) -> io::Result<usize> {
        self.depacketizer.plan(path, &mut self.plan, &mut self.slots);
        let mut batch = self.room.batch();
        let scratch = self.scratch.bytes_mut();
        self.slots.lend(
            scratch,
            &self.plan,
            &mut batch,
            |batch, piece| batch.push(piece),
            |batch| batch.end_message(),
        );
        let messages = self.flows[path].receive(&mut batch)?;
        self.arrivals.clear();
        self.arrivals.extend(self.room.received().iter().map(|received| Arrival {
            bytes: received.bytes,
            datagram_bytes: received.segment_bytes(),
            at: received.at,
            from: received.from,
        }));
        if messages > 0 {
            self.show(path);
            self.report.bytes += self.arrivals.iter().map(|arrival| arrival.bytes as u64).sum::<u64>();
            self.depacketizer.take(path, &self.plan, &self.arrivals, self.scratch.bytes(), &mut self.slots);
        }
        Ok(messages)
    }

    /// Shows to the tap what a call has brought.
    fn show(&mut self, path: usize) {
        let Some(tap) = &mut self.tap else { return };
        for (index, received) in self.room.received().iter().enumerate() {
            // A message begins in the scratch memory, whether it was planned or not.
            let Some(Piece::Scratch(range)) = self.plan.pieces(index).first() else { continue };
            let head = &self.scratch.bytes()[range.clone()];
            let head = &head[..head.len().min(received.bytes)];
            let &Received { bytes, at, drops, from, .. } = received;
            tap.see(path, &Message { head, bytes, at, drops, from });
        }
    }

    /// Gives frames out; false where their receiver has gone.
    fn hand_out(&mut self) -> bool {
        while let Some(done) = self.depacketizer.poll() {
            // Without memory it is lost as a whole, and counted by the depacketizer.
            let Some(memory) = done.slot.and_then(|slot| self.slots.take(slot)) else { continue };
            if done.is_partial {
                continue;
            }
            if let Err(TrySendError::Disconnected(_)) = self.out.try_send(Arrived { memory, done }) {
                return false;
            }
        }
        true
    }

    fn ask_drops(&mut self) {
        let drops = self.flows.iter().filter_map(|flow| flow.dropped().ok());
        self.report.kernel_drops = drops.map(u64::from).sum();
    }

    fn tell(&mut self) {
        self.report.counters = self.depacketizer.counters();
        self.report.free_frames = self.slots.free();
        *self.shared.lock() = self.report;
    }
}
