//! One source, several renditions: each picture goes to every rendition's queue, each block of sound is coded once
//! and its packets go to all.

use super::control::Controls;
use super::keyint::Keyint;
use super::ladder::{Plan, Rendition};
use super::queue::{Queue, Work};
use super::{Error, LadderError, Result, sound};
use crate::capture::{self, Accompaniment, Consumer, FileAudio, FirstPicture, Format, Item};
use glassline_media::pixels::Scaler;
use glassline_media::{AudioBlock, Picture, Stamps, Ticks, Time};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Where a source puts what it has. Pictures and sound may come from different threads.
pub(super) struct Feed {
    queues: Vec<Arc<Queue>>,
    sound: Mutex<Option<sound::Encoder>>,
    /// Sound that goes along with the pictures.
    file_audio: Accompaniment,
    first: FirstPicture,
    controls: Controls,
    ladder: Option<Mutex<Ladder>>,
    stopped: Arc<AtomicBool>,
}

/// What renditions that differ need.
struct Ladder {
    plan: Plan,
    /// For each size, the source's own first: it waits for no scaling. With the renditions that have it.
    sizes: Vec<(Scaler, Vec<usize>)>,
}

impl Feed {
    /// Feeds `queues`, which are all live or all not; sound is coded by `sound`, or left out.
    pub(super) fn new(queues: Vec<Arc<Queue>>, sound: Option<sound::Encoder>, controls: Controls) -> Feed {
        Feed {
            queues,
            sound: Mutex::new(sound),
            file_audio: Accompaniment::default(),
            first: FirstPicture::default(),
            controls,
            ladder: None,
            stopped: Arc::default(),
        }
    }

    /// Gives each queue only the pictures that the rendition at its place takes, at its size; the source's are of
    /// `format`. Key frames come `keyint` apart.
    ///
    /// # Errors
    /// A rendition's rate is no whole part of the source's.
    pub(super) fn with_ladder(
        self,
        renditions: &[Rendition],
        format: Format,
        keyint: Keyint,
    ) -> Result<Feed, LadderError> {
        let plan = Plan::new(renditions, format.rate, keyint.time(format.rate))?;
        let mut scalers: Vec<(Scaler, Vec<usize>)> = Vec::new();
        for (index, wanted) in renditions.iter().map(|rendition| rendition.size).enumerate() {
            match scalers.iter_mut().find(|(scaler, _)| scaler.size() == wanted) {
                Some((_, renditions)) => renditions.push(index),
                None => scalers.push((Scaler::new(wanted), vec![index])),
            }
        }
        scalers.sort_by_key(|(scaler, _)| scaler.size() != format.size);
        Ok(Feed { ladder: Some(Mutex::new(Ladder { plan, sizes: scalers })), ..self })
    }

    /// Whether all was well with a file's sound; what fails there ends everything.
    fn is_open(&self, handed: Result<bool, capture::Error>) -> bool {
        handed.unwrap_or_else(|error| {
            self.end_all(Err(error.into()));
            false
        })
    }

    fn push_sound(&self, block: AudioBlock) -> bool {
        self.push(Item::Sound(block))
    }

    fn give_picture(&self, picture: &Picture, pts: Ticks, stamps: Stamps) -> bool {
        let key = self.controls.take_key_frame();
        match &self.ladder {
            None => self.give(|| Work::Picture { picture: picture.clone(), pts, stamps, key }),
            Some(ladder) => {
                let ladder = &mut *ladder.lock().expect(UNPOISONED);
                let turn = ladder.plan.picture(pts, key);
                let key = turn.key;
                let mut open = true;
                for (scaler, renditions) in &mut ladder.sizes {
                    let takers = renditions.iter().filter(|&&index| ladder.plan.takes(index, turn));
                    let mut queues = takers.filter_map(|&index| self.queues.get(index)).peekable();
                    if queues.peek().is_none() {
                        continue;
                    }
                    let scaled = scaler.scale(picture);
                    for queue in queues {
                        let picture = scaled.clone();
                        open &= queue.push(Work::Picture { picture, pts, stamps, key });
                    }
                }
                open
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

    fn end_all(&self, ended: Result<(), Error>) {
        // One rendition tells the failure; the others just end.
        let mut ended = Some(ended);
        for queue in &self.queues {
            queue.end(ended.take().unwrap_or(Ok(())));
        }
    }

    /// Ends source and renditions; what waits is dropped.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.first.over();
        self.queues.iter().for_each(|queue| queue.stop());
    }

    /// True from [`Feed::stop`] on.
    pub(super) fn stopped(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stopped)
    }
}

impl Consumer for Feed {
    /// Gives an item to every rendition; sound is coded on the caller's thread. False once the end was asked for or sound
    /// could not be coded.
    fn push(&self, item: Item) -> bool {
        match item {
            Item::Picture { picture, pts, stamps } => {
                self.first.captured(picture.captured);
                let give = |block| self.push_sound(block);
                self.is_open(self.file_audio.before(pts, give))
                    && self.give_picture(&picture, pts, stamps)
                    && self.is_open(self.file_audio.behind(give))
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

    fn begin_again(&self, pts: Ticks) -> bool {
        self.is_open(self.file_audio.begin_again(pts, |block| self.push_sound(block)))
    }

    fn accompany(&self, sound: FileAudio) {
        self.file_audio.set(sound);
    }

    fn first_picture(&self) -> Option<Time> {
        self.first.wait()
    }

    fn count_dropped(&self, pictures: u64) {
        self.queues.iter().for_each(|queue| queue.count_dropped(pictures));
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// What waits is still coded. The failure, if there is one, comes after that.
    fn end(&self, ended: Result<(), capture::Error>) {
        self.first.over();
        if let Err(fault @ capture::Error::Fault(_)) = ended {
            // What was half done when the source panicked is not flushed.
            return self.end_all(Err(fault.into()));
        }
        let rest = || self.file_audio.rest(|block| self.push_sound(block)).map(drop);
        let ended = ended.and_then(|()| rest()).map_err(Error::from);
        let mut sound = self.sound.lock().expect(UNPOISONED);
        let last = sound.as_mut().map(sound::Encoder::flush).transpose();
        drop(sound);
        let last = last.map(|units| {
            for unit in units.into_iter().flatten() {
                self.give(|| Work::Sound(unit.clone()));
            }
        });
        self.end_all(ended.and(last));
    }
}

const UNPOISONED: &str = "no thread panics while it codes sound or scales";
