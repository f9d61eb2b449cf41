//! Takes what a source captures, packs it and hands it on.

use super::frames::FramePacker;
use super::queue::{Frame, Queue};
use super::{Monitor, UNPOISONED};
use crate::capture::{self, Consumer, FileAudio, Item, Pictures};
use glassline_io::clock::Clock;
use glassline_io::pages::{Block, Pool};
use glassline_media::{Ticks, Time};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long a thread waits for a block before it looks whether anybody still wants one.
const TICK: Duration = Duration::from_millis(100);

/// The way of pictures into the queue.
#[derive(Debug)]
pub(super) struct Intake {
    packer: Mutex<FramePacker>,
    pool: Pool,
    queue: Arc<Queue>,
    monitor: Monitor,
    clock: Clock,
    /// Whether pictures come when they come: one that finds no block is left out then, and waits for one otherwise.
    is_live: bool,
}

impl Intake {
    pub(super) fn new(
        packer: FramePacker,
        pool: Pool,
        queue: Arc<Queue>,
        monitor: Monitor,
        (clock, is_live): (Clock, bool),
    ) -> Intake {
        Intake { packer: Mutex::new(packer), pool, queue, monitor, clock, is_live }
    }

    /// Packs pictures as they are asked for, until they end or nobody wants more.
    pub(super) fn run(&self, mut pictures: Pictures) {
        let ended = loop {
            let picture = match pictures.next_picture() {
                Ok(Some(picture)) => picture,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            let Some(mut block) = self.wait_for_block() else { break Ok(()) };
            self.packer.lock().expect(UNPOISONED).pack(picture, &mut block);
            if !self.queue.push(Frame { block, captured: None, ready: self.clock.now() }) {
                break Ok(());
            }
        };
        self.queue.end(ended);
    }

    /// A block, once there is one; `None` where nobody wants one any more.
    fn wait_for_block(&self) -> Option<Block> {
        while !self.queue.is_stopped() {
            match self.pool.take() {
                Some(block) => return Some(block),
                None => self.queue.wait(TICK),
            }
        }
        None
    }
}

impl Consumer for Intake {
    fn push(&self, item: Item) -> bool {
        let Item::Picture { picture, .. } = item else { return !self.queue.is_stopped() };
        let block = if self.is_live { self.pool.take() } else { self.wait_for_block() };
        let Some(mut block) = block else {
            self.count_dropped(1);
            return !self.queue.is_stopped();
        };
        let captured = Some(picture.captured);
        self.packer.lock().expect(UNPOISONED).pack(picture, &mut block);
        self.queue.push(Frame { block, captured, ready: self.clock.now() })
    }

    fn begin_again(&self, _: Ticks) -> bool {
        !self.queue.is_stopped()
    }

    fn accompany(&self, _: FileAudio) {}

    fn first_picture(&self) -> Option<Time> {
        None
    }

    fn count_dropped(&self, pictures: u64) {
        self.monitor.update(|statistics| statistics.dropped_frames += pictures);
    }

    fn is_stopped(&self) -> bool {
        self.queue.is_stopped()
    }

    fn end(&self, ended: Result<(), capture::Error>) {
        self.queue.end(ended);
    }
}
