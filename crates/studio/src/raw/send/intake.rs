//! Takes what a source captures, packs it and hands it on.

use super::frames::FramePacker;
use super::queue::{Frame, Queue};
use super::sound::SoundQueue;
use super::{Monitor, UNPOISONED};
use crate::capture::{self, Accompaniment, Consumer, FileAudio, FirstPicture, Item, Pictures};
use glassline_io::clock::Clock;
use glassline_io::pages::{Block, Pool};
use glassline_media::{AudioBlock, FrameRate, Picture, Ticks, Time};
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
    rate: FrameRate,
    /// Where sound goes, if some is sent.
    sound: Option<Arc<SoundQueue>>,
    /// Sound that goes along with the pictures.
    file_audio: Accompaniment,
    first: FirstPicture,
    /// When the first picture was captured, and how many there were since; anew where a file begins again.
    start: Mutex<Option<(Time, u64)>>,
    /// Whether pictures come when they come: one that finds no block is left out then, and waits for one otherwise.
    is_live: bool,
}

impl Intake {
    pub(super) fn new(
        packer: FramePacker,
        pool: Pool,
        queue: Arc<Queue>,
        monitor: Monitor,
        (clock, rate, is_live): (Clock, FrameRate, bool),
        sound: Option<Arc<SoundQueue>>,
    ) -> Intake {
        Intake {
            packer: Mutex::new(packer),
            pool,
            queue,
            monitor,
            clock,
            rate,
            sound,
            file_audio: Accompaniment::default(),
            first: FirstPicture::default(),
            start: Mutex::default(),
            is_live,
        }
    }

    /// Packs pictures as they are asked for, until they end or the queue is stopped.
    pub(super) fn run(&self, mut pictures: Pictures) {
        let mut number = 0;
        let ended = loop {
            let picture = match pictures.next_picture() {
                Ok(Some(picture)) => picture,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            let Some(mut block) = self.wait_for_block() else { break Ok(()) };
            self.packer.lock().expect(UNPOISONED).pack(picture, &mut block);
            if !self.queue.push(Frame { block, captured: None, ready: self.clock.now(), number }) {
                break Ok(());
            }
            number += 1;
        };
        self.queue.end(ended);
    }

    /// A block, once there is one; `None` where the queue is stopped.
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

impl Intake {
    fn push_sound(&self, block: AudioBlock) -> bool {
        self.sound.as_ref().is_none_or(|sound| sound.push(block)) && !self.queue.is_stopped()
    }

    /// Whether all was well with a file's sound; what fails there ends everything.
    fn is_open(&self, handed: capture::Result<bool>) -> bool {
        handed.unwrap_or_else(|error| {
            self.queue.end(Err(error));
            false
        })
    }

    fn push_picture(&self, picture: Picture) -> bool {
        // A file's pictures all come, however late; of those that come by a clock some are left out.
        let number = {
            let mut since = self.start.lock().expect(UNPOISONED);
            let (start, count) = since.get_or_insert((picture.captured, 0));
            *count += 1;
            if self.is_live { self.rate.pictures_in(picture.captured.since(*start)) } else { *count - 1 }
        };
        let block = if self.is_live { self.pool.take() } else { self.wait_for_block() };
        let Some(mut block) = block else {
            self.count_dropped(1);
            return !self.queue.is_stopped();
        };
        let captured = Some(picture.captured);
        self.packer.lock().expect(UNPOISONED).pack(picture, &mut block);
        self.queue.push(Frame { block, captured, ready: self.clock.now(), number })
    }
}

impl Consumer for Intake {
    fn push(&self, item: Item) -> bool {
        match item {
            Item::Picture { picture, pts, .. } => {
                self.first.captured(picture.captured);
                let give = |block| self.push_sound(block);
                self.is_open(self.file_audio.before(pts, give))
                    && self.push_picture(picture)
                    && self.is_open(self.file_audio.behind(give))
            }
            Item::Sound(block) => self.push_sound(block),
        }
    }

    fn begin_again(&self, pts: Ticks) -> bool {
        *self.start.lock().expect(UNPOISONED) = None;
        self.is_open(self.file_audio.begin_again(pts, |block| self.push_sound(block)))
            && !self.queue.is_stopped()
    }

    fn accompany(&self, sound: FileAudio) {
        self.file_audio.set(sound);
    }

    fn first_picture(&self) -> Option<Time> {
        self.first.wait()
    }

    fn count_dropped(&self, pictures: u64) {
        self.monitor.update(|statistics| statistics.dropped_frames += pictures);
    }

    fn is_stopped(&self) -> bool {
        self.queue.is_stopped()
    }

    fn end(&self, ended: Result<(), capture::Error>) {
        self.first.over();
        let rest = || self.file_audio.rest(|block| self.push_sound(block)).map(drop);
        self.queue.end(ended.and_then(|()| rest()));
    }
}

#[cfg(test)]
#[path = "intake_tests.rs"]
mod tests;
