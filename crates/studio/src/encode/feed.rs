//! One source, several renditions: each picture goes to every rendition's queue, each block of sound is coded once
//! and its packets go to all.

use super::control::Controls;
use super::keyint::Keyint;
use super::ladder::{Plan, Rendition};
use super::queue::{Queue, Work};
use super::{Error, LadderError, Result, sound};
use crate::capture::{self, Accompaniment, Consumer, FileAudio, FirstPicture, Format, Item};
use glassline_media::pixels::Scaler;
use glassline_media::{AccessUnit, AudioBlock, Picture, Size, Stamps, Ticks, Time};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Where a source puts what it has. Pictures and sound may come from different threads.
pub(super) struct Feed {
    queues: Vec<Arc<Queue>>,
    sounds: Mutex<Vec<Sound>>,
    /// Sound that goes along with the pictures.
    file_audio: Accompaniment,
    first: FirstPicture,
    controls: Controls,
    pictures: Mutex<Pictures>,
    stopped: Arc<AtomicBool>,
}

/// Sound that is coded once, and the renditions that have it.
pub(super) struct Sound {
    pub(super) encoder: sound::Encoder,
    pub(super) renditions: Vec<usize>,
}

/// What becomes of pictures on their way to the queues.
struct Pictures {
    plan: Plan,
    /// For each size, the source's own first: it waits for no scaling (`None`). With the renditions that have it.
    sizes: Vec<(Option<Scaler>, Vec<usize>)>,
    source: Size,
}

impl Pictures {
    /// Gives rendition `index` pictures of `size` from now on.
    fn set_size(&mut self, index: usize, size: Size) {
        for (_, renditions) in &mut self.sizes {
            renditions.retain(|known| *known != index);
        }
        self.sizes.retain(|(_, renditions)| !renditions.is_empty());
        let wanted = (size != self.source).then_some(size);
        match self.sizes.iter_mut().find(|(scaler, _)| scaler.as_ref().map(Scaler::size) == wanted) {
            Some((_, renditions)) => renditions.push(index),
            None => self.sizes.push((wanted.map(Scaler::new), vec![index])),
        }
        self.sizes.sort_by_key(|(scaler, _)| scaler.is_some());
    }
}

impl Feed {
    /// Feeds `queues`, which are all live or all not, from a source of `format`; a queue that is in none of `sounds` gets no sound.
    pub(super) fn new(
        queues: Vec<Arc<Queue>>,
        sounds: Vec<Sound>,
        controls: Controls,
        format: Format,
    ) -> Feed {
        controls.set_source(format);
        let plan = Plan::every(queues.len(), format.rate);
        let sizes = vec![(None, (0..queues.len()).collect())];
        Feed {
            pictures: Mutex::new(Pictures { plan, sizes, source: format.size }),
            queues,
            sounds: Mutex::new(sounds),
            file_audio: Accompaniment::default(),
            first: FirstPicture::default(),
            controls,
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
        let mut pictures = Pictures { plan, sizes: Vec::new(), source: format.size };
        for (index, rendition) in renditions.iter().enumerate() {
            pictures.set_size(index, rendition.size);
        }
        Ok(Feed { pictures: Mutex::new(pictures), ..self })
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
        let pictures = &mut *self.pictures.lock().expect(UNPOISONED);
        self.obey(pictures);
        let turn = pictures.plan.picture(pts, key);
        let mut open = true;
        let mut later = Vec::new();
        for (scaler, renditions) in &mut pictures.sizes {
            let mut takers = renditions.iter().filter(|&&index| pictures.plan.takes(index, turn)).peekable();
            if takers.peek().is_none() {
                continue;
            }
            let scaled = scaler.as_mut().map_or_else(|| picture.clone(), |scaler| scaler.scale(picture));
            for &index in takers {
                let (picture, rate) = (scaled.clone(), pictures.plan.rate(index));
                let work = Work::Picture { picture, pts, stamps, key: turn.key, rate };
                match self.queues.get(index) {
                    Some(queue) if queue.has_hurry() => open &= queue.push(work),
                    Some(queue) => later.push((queue, work)),
                    None => {}
                }
            }
        }
        for (queue, work) in later {
            open &= queue.push(work);
        }
        open
    }

    /// Does what was asked for from outside, before the next picture.
    fn obey(&self, pictures: &mut Pictures) {
        for index in 0..self.queues.len() {
            if let Some(size) = self.controls.take_size(index) {
                pictures.set_size(index, size);
            }
            if let Some(rate) = self.controls.take_rate(index)
                && let Err(error) = pictures.plan.set_rate(index, rate)
            {
                tracing::warn!(
                    "rendition {index} keeps its {} pictures a second: {error}",
                    pictures.plan.rate(index)
                );
            }
        }
    }

    /// Has each encoder of sound make packets, which go to the renditions that have it. Returns whether all take them.
    fn give_sound(
        &self,
        sounds: &mut [Sound],
        make: impl Fn(&mut sound::Encoder) -> Result<Vec<AccessUnit>>,
    ) -> Result<bool> {
        let mut open = true;
        for Sound { encoder, renditions } in sounds {
            for unit in make(encoder)? {
                for queue in renditions.iter().filter_map(|&index| self.queues.get(index)) {
                    open &= queue.push(Work::Sound(unit.clone()));
                }
            }
        }
        Ok(open)
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
                // Under the lock, so that packets of two threads keep their order.
                let mut sounds = self.sounds.lock().expect(UNPOISONED);
                match self.give_sound(&mut sounds, |encoder| encoder.push(&block)) {
                    Ok(open) => open,
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
        let mut sounds = self.sounds.lock().expect(UNPOISONED);
        let last = self.give_sound(&mut sounds, sound::Encoder::flush).map(drop);
        drop(sounds);
        self.end_all(ended.and(last));
    }
}

const UNPOISONED: &str = "no thread panics while it codes sound or scales";

#[cfg(test)]
mod tests {
    use super::super::control::Status;
    use super::super::queue::Popped;
    use super::*;
    use glassline_media::quantity::Bitrate;
    use glassline_media::{PixelFormat, Size};
    use std::time::Duration;

    const FIFTY: glassline_media::FrameRate = glassline_media::FrameRate::new(50, 1).unwrap();

    fn feed(count: usize, sound: Option<sound::Encoder>) -> (Feed, Vec<Arc<Queue>>, Controls) {
        let queues: Vec<Arc<Queue>> = (0..count).map(|_| Arc::new(Queue::new(true))).collect();
        let status = Status::new(String::new(), Bitrate::from_bits_per_second(5_000), "fast");
        let controls = Controls::new(vec![status; count]);
        let sound = sound.map(|encoder| Sound { encoder, renditions: (0..count).collect() });
        let format = Format {
            size: Size::new(16, 16).unwrap(),
            rate: FIFTY,
            colour: glassline_media::Colour::BT709,
            sample_aspect: None,
            fields: None,
            live: true,
        };
        (Feed::new(queues.clone(), sound.into_iter().collect(), controls.clone(), format), queues, controls)
    }

    fn picture(number: i64) -> Item {
        let picture = Picture::new(PixelFormat::I420, Size::new(64, 48).unwrap(), Time::from_millis(5));
        let stamps = Stamps::captured_at(Time::ZERO);
        Item::Picture { picture, pts: Ticks(1_800 * number), stamps }
    }

    /// Of each picture that waits its number, width and whether it has to be a key frame.
    fn waiting(queue: &Queue) -> Vec<(i64, u32, bool)> {
        std::iter::from_fn(|| match queue.pop(Some(Duration::ZERO)).unwrap() {
            Popped::Work(work) => match *work {
                Work::Picture { picture, pts, key, .. } => Some((pts.0 / 1_800, picture.size().width, key)),
                Work::Sound(_) => panic!("there is no sound"),
            },
            Popped::Timeout | Popped::End => None,
        })
        .collect()
    }

    #[test]
    fn each_picture_goes_to_all_and_a_key_frame_that_was_asked_for_is_the_next() {
        let (feed, queues, controls) = feed(2, None);
        assert!(feed.push(picture(0)));
        controls.request_key_frame();
        assert!(feed.push(picture(1)));
        for queue in &queues {
            assert_eq!(waiting(queue), [(0, 64, false), (1, 64, true)]);
        }
    }

    #[test]
    fn a_ladder_gives_each_rendition_its_pictures_at_its_size() {
        let (feed, queues, _) = feed(3, None);
        let renditions = ["32x24@25:1M", "64x48@50:2M", "32x24@50:1M"].map(|text| text.parse().unwrap());
        let format = Format {
            size: Size::new(64, 48).unwrap(),
            rate: FIFTY,
            colour: glassline_media::Colour::BT709,
            sample_aspect: None,
            fields: None,
            live: true,
        };
        let feed = feed.with_ladder(&renditions, format, Keyint::Infinite).unwrap();
        assert!(feed.push(picture(0)) && feed.push(picture(1)));
        assert_eq!(waiting(&queues[0]), [(0, 32, true)]);
        assert_eq!(waiting(&queues[1]), [(0, 64, true), (1, 64, false)]);
        assert_eq!(waiting(&queues[2]), [(0, 32, true), (1, 32, false)]);
    }

    #[test]
    fn one_rendition_tells_the_source_s_failure_and_the_others_end() {
        let (feed, queues, _) = feed(3, None);
        feed.end(Err(capture::Error::NotAFile));
        let failed = queues[0].pop(None).unwrap_err();
        assert_eq!(failed.to_string(), capture::Error::NotAFile.to_string());
        assert!(queues[1..].iter().all(|queue| matches!(queue.pop(None), Ok(Popped::End))));
    }

    #[test]
    fn stopping_ends_source_and_renditions_and_those_that_wait_for_a_picture() {
        let (feed, queues, _) = feed(2, None);
        let stopped = feed.stopped();
        assert!(!feed.is_stopped());
        feed.stop();
        assert!(feed.is_stopped() && stopped.load(Ordering::Relaxed));
        assert!(!feed.push(picture(0)));
        assert_eq!(feed.first_picture(), None);
        assert!(queues.iter().all(|queue| matches!(queue.pop(None), Ok(Popped::End))));
    }

    #[test]
    fn the_first_picture_is_told_by_its_capture() {
        let (feed, _, _) = feed(1, None);
        assert!(feed.push(picture(3)));
        assert_eq!(feed.first_picture(), Some(Time::from_millis(5)));
    }

    #[test]
    fn pictures_that_the_source_lost_are_lost_to_each_rendition() {
        let (feed, queues, _) = feed(2, None);
        feed.count_dropped(3);
        assert!(queues.iter().all(|queue| queue.dropped() == 3));
    }

    #[test]
    fn sound_is_coded_once_and_what_fills_no_packet_comes_at_the_end() {
        let frame = Some(Duration::from_millis(1));
        let settings = sound::Settings { codec: sound::Audio::S302m, frame, ..sound::Settings::default() };
        let (feed, queues, _) = feed(2, sound::Encoder::open(&settings).unwrap());
        let channels = settings.channels;
        let samples = vec![0.25; 70 * usize::from(channels)];
        let block = AudioBlock { samples, channels, rate_hz: 48_000, captured: Time::ZERO };
        assert!(feed.push(Item::Sound(block)));
        let given = [&queues[0], &queues[1]].map(|queue| queue.take_sound().unwrap());
        assert_eq!(given[0], given[1]);
        assert!(queues.iter().all(|queue| queue.take_sound().is_none()));
        feed.end(Ok(()));
        assert!(queues.iter().all(|queue| queue.take_sound().is_some()));
    }

    #[test]
    fn sound_that_is_not_wanted_is_left_out_and_ends_nothing() {
        let (feed, queues, _) = feed(1, None);
        let block = AudioBlock { samples: vec![0.0; 96], channels: 2, rate_hz: 48_000, captured: Time::ZERO };
        assert!(feed.push(Item::Sound(block)));
        assert!(matches!(queues[0].pop(Some(Duration::ZERO)), Ok(Popped::Timeout)));
    }
}
