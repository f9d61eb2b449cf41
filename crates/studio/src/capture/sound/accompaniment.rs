//! The sound of a file that goes along with a file's pictures, for consumers of both.

use super::FileAudio;
use crate::capture::Result;
use glassline_media::{AudioBlock, Ticks};
use std::sync::Mutex;

/// Sound that goes along with pictures, if there is some. The methods pass blocks to `give`, which returns false once no more
/// are wanted; then they return false, too.
#[derive(Debug, Default)]
pub struct Accompaniment(Mutex<Option<FileAudio>>);

impl Accompaniment {
    /// This sound goes along from now on.
    pub fn set(&self, sound: FileAudio) {
        *self.0.lock().expect(UNPOISONED) = Some(sound);
    }

    /// The picture of this stamp is about to be handed over: gives what goes before it.
    ///
    /// # Errors
    /// The file's.
    pub fn before(&self, picture: Ticks, give: impl Fn(AudioBlock) -> bool) -> Result<bool> {
        if let Some(sound) = self.0.lock().expect(UNPOISONED).as_mut() {
            sound.picture(picture);
        }
        self.hand_over(give, FileAudio::before)
    }

    /// The picture was handed over: gives what goes right behind it.
    ///
    /// # Errors
    /// The file's.
    pub fn behind(&self, give: impl Fn(AudioBlock) -> bool) -> Result<bool> {
        self.hand_over(give, FileAudio::behind)
    }

    /// The pictures begin again with the one of this stamp: gives what belongs to those before, and begins again too.
    ///
    /// # Errors
    /// The file's.
    pub fn begin_again(&self, picture: Ticks, give: impl Fn(AudioBlock) -> bool) -> Result<bool> {
        Ok(self.hand_over(give, |sound| sound.cut(picture))?
            && self.hand_over(|_| true, |sound| sound.begin_again(picture).map(|()| None))?)
    }

    /// The pictures have ended: gives the rest.
    ///
    /// # Errors
    /// The file's.
    pub fn rest(&self, give: impl Fn(AudioBlock) -> bool) -> Result<bool> {
        self.hand_over(give, FileAudio::rest)
    }

    fn hand_over(
        &self,
        give: impl Fn(AudioBlock) -> bool,
        mut next: impl FnMut(&mut FileAudio) -> Result<Option<AudioBlock>>,
    ) -> Result<bool> {
        let mut sound = self.0.lock().expect(UNPOISONED);
        let Some(sound) = sound.as_mut() else { return Ok(true) };
        while let Some(block) = next(sound)? {
            if !give(block) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A panic while a lock is held ends the program: nothing catches it here.
const UNPOISONED: &str = "no thread panics while it holds this lock";

#[cfg(test)]
#[path = "accompaniment_tests.rs"]
mod tests;
