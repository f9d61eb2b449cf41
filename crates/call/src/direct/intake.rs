//! Where a source puts what it captures: the newest picture, and sound to be coded at once.

use super::mailbox::Mailbox;
use glassline_media::{AudioBlock, Picture, Stamps, Ticks, Time};
use glassline_studio::capture::{Accompaniment, Consumer, Error, FileAudio, Item, SoundInput};
use std::sync::Arc;

/// Takes the sound that is captured with pictures.
pub trait TakesSound: Send + Sync {
    /// Takes a block of 48 kHz. Called from the thread that captures it.
    fn push(&self, block: &AudioBlock);

    /// No more is wanted.
    fn stop(&self);

    /// What it puts on the way, bytes a second.
    fn bytes_per_second(&self) -> u64;
}

/// Sound that goes with a source's pictures.
pub struct SoundCapture {
    /// Where it comes from; `None`: from the source itself.
    pub input: Option<SoundInput>,
    /// Whether a file is played over and over.
    pub looped: bool,
    /// Takes its blocks.
    pub taker: Arc<dyn TakesSound>,
}

/// Takes pictures and sound.
pub(super) struct Intake {
    pub(super) mailbox: Mailbox,
    sound: Option<Arc<dyn TakesSound>>,
    file_audio: Accompaniment,
}

impl Intake {
    pub(super) fn new(sound: Option<Arc<dyn TakesSound>>) -> Intake {
        Intake { mailbox: Mailbox::default(), sound, file_audio: Accompaniment::default() }
    }

    /// What sound puts on the way, bytes a second.
    pub(super) fn sound_bytes_per_second(&self) -> u64 {
        self.sound.as_ref().map_or(0, |sound| sound.bytes_per_second())
    }

    pub(super) fn stop(&self) {
        self.mailbox.stop();
        if let Some(sound) = &self.sound {
            sound.stop();
        }
    }

    fn push_sound(&self, block: &AudioBlock) -> bool {
        if let Some(sound) = &self.sound {
            sound.push(block);
        }
        !self.mailbox.is_stopped()
    }

    fn push_picture(&self, picture: Picture, pts: Ticks, stamps: Stamps) -> bool {
        let give = |block| self.push_sound(&block);
        is_open(self.file_audio.before(pts, give))
            && self.mailbox.push(picture, stamps)
            && is_open(self.file_audio.behind(give))
    }
}

/// Pictures go on without a file's sound.
fn is_open(handed: Result<bool, Error>) -> bool {
    handed.unwrap_or_else(|error| {
        tracing::warn!("the sound has ended: {error:#}");
        true
    })
}

impl Consumer for Intake {
    fn push(&self, item: Item) -> bool {
        match item {
            Item::Picture { picture, pts, stamps } => self.push_picture(picture, pts, stamps),
            Item::Sound(block) => self.push_sound(&block),
        }
    }

    fn begin_again(&self, pts: Ticks) -> bool {
        is_open(self.file_audio.begin_again(pts, |block| self.push_sound(&block)))
            && !self.mailbox.is_stopped()
    }

    fn accompany(&self, sound: FileAudio) {
        self.file_audio.set(sound);
    }

    fn first_picture(&self) -> Option<Time> {
        self.mailbox.first_picture()
    }

    fn count_dropped(&self, pictures: u64) {
        self.mailbox.count_dropped(pictures);
    }

    fn is_stopped(&self) -> bool {
        self.mailbox.is_stopped()
    }

    fn end(&self, ended: Result<(), Error>) {
        self.mailbox.end(ended);
    }
}

#[cfg(test)]
#[path = "intake_tests.rs"]
mod tests;
