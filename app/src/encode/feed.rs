//! One source, several renditions: each picture goes to every rendition's queue, each block of sound is coded once
//! and its packets go to all.

use super::control::Controls;
use super::queue::{Queue, Work};
use super::sound;
use anyhow::{Error, Result};
use glassline_media::{AudioBlock, Picture, Ticks, Time};
use std::sync::{Arc, Mutex};

/// What a source gives.
#[derive(Debug)]
pub(super) enum Item {
    /// A picture, its time stamp, and when it was handed over.
    Picture { picture: Picture, pts: Ticks, queued: Time },
    /// Sound.
    Sound(AudioBlock),
}

/// Where a source puts what it has. Pictures and sound may come from different threads.
pub(super) struct Feed {
    queues: Vec<Arc<Queue>>,
    sound: Mutex<Option<sound::Encoder>>,
    controls: Controls,
}

impl Feed {
    /// Feeds `queues`, which are all live or all not; sound is coded by `sound`, or left out.
    pub(super) fn new(queues: Vec<Arc<Queue>>, sound: Option<sound::Encoder>, controls: Controls) -> Feed {
        Feed { queues, sound: Mutex::new(sound), controls }
    }

    /// Gives an item to every rendition, sound coded on the caller's thread. False once the end was asked for or
    /// sound could not be coded, and the source should end.
    pub(super) fn push(&self, item: Item) -> bool {
        match item {
            Item::Picture { picture, pts, queued } => {
                let key = self.controls.take_key_frame();
                self.give(|| Work::Picture { picture: picture.clone(), pts, queued, key })
            }
            Item::Sound(block) => {
                let mut sound = self.sound.lock().expect(UNPOISONED);
                match sound.as_mut().map(|sound| sound.push(&block)).transpose() {
                    // Under the lock, so that packets of two threads keep their order.
                    Ok(units) => {
                        let mut open = true;
                        for unit in units.into_iter().flatten() {
                            open &= self.give(|| Work::Sound(unit.clone()));
                        }
                        open
                    }
                    Err(error) => {
                        self.end_all(Err(error));
                        false
                    }
                }
            }
        }
    }

    fn give(&self, work: impl Fn() -> Work) -> bool {
        let mut open = true;
        for queue in &self.queues {
            open &= queue.push(work());
        }
        open
    }

    /// Counts pictures that the source itself left out because it was late.
    pub(super) fn count_dropped(&self, pictures: u64) {
        self.queues.iter().for_each(|queue| queue.count_dropped(pictures));
    }

    /// The source has given its last item; what waits is still coded. Its failure, if it failed, comes after that.
    pub(super) fn end(&self, ended: Result<()>) {
        let mut sound = self.sound.lock().expect(UNPOISONED);
        let last = sound.as_mut().map(sound::Encoder::flush).transpose();
        drop(sound);
        let last = last.map(|unit| unit.flatten().map(|unit| self.give(|| Work::Sound(unit.clone()))));
        self.end_all(ended.and(last.map(|_| ())));
    }

    fn end_all(&self, ended: Result<(), Error>) {
        // One rendition tells the failure; the others just end.
        let mut ended = Some(ended);
        for queue in &self.queues {
            queue.end(ended.take().unwrap_or(Ok(())));
        }
    }

    /// Ends source and renditions; what waits is dropped.
    pub(super) fn stop(&self) {
        self.queues.iter().for_each(|queue| queue.stop());
    }

    /// Whether [`Feed::stop`] was called.
    pub(super) fn is_stopped(&self) -> bool {
        self.queues.iter().any(|queue| queue.is_stopped())
    }
}

const UNPOISONED: &str = "no thread panics while it codes sound";
