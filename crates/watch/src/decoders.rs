//! The decoders of one stream, opened when a unit is wanted.

use crate::judge::Judge;
use glassline_codec::CodecError;
#[cfg(feature = "opus")]
use glassline_codec::audio::opus;
#[cfg(feature = "avcodec")]
use glassline_codec::avcodec;
use glassline_delivery::watch::{Decoding, Watcher};
use glassline_io::clock::Clock;
use glassline_media::bitstream::s302m;
use glassline_media::{AccessUnit, Codec, Time};
use std::time::Duration;

/// A decoder of one kind, and the codecs for which there is none.
struct Slot<D> {
    open: Option<(Codec, D)>,
    failed: Vec<Codec>,
}

impl<D> Slot<D> {
    /// The decoder for `codec`, opened where it is not; `None` where it cannot be. `failed` gets the reason, once.
    fn of(
        &mut self,
        codec: Codec,
        open: impl FnOnce(Codec) -> Result<D, CodecError>,
        failed: &mut dyn FnMut(CodecError),
    ) -> Option<&mut D> {
        if self.failed.contains(&codec) {
            return None;
        }
        if self.open.as_ref().is_none_or(|(known, _)| *known != codec) {
            self.open = match open(codec) {
                Ok(decoder) => Some((codec, decoder)),
                Err(error) => {
                    failed(error);
                    self.failed.push(codec);
                    None
                }
            };
        }
        self.open.as_mut().map(|(_, decoder)| decoder)
    }
}

/// A decoder of sound.
enum Sound {
    #[cfg(feature = "opus")]
    Opus(Box<opus::Decoder>),
    /// LPCM needs none.
    S302m,
    #[cfg(feature = "avcodec")]
    Other(avcodec::SoundDecoder),
}

/// Decodes what a [`Watcher`] wants.
pub(crate) struct Decoders {
    #[cfg(feature = "avcodec")]
    pictures: Slot<avcodec::PictureDecoder>,
    sound: Slot<Sound>,
    /// A key frame that was drained to be judged at once, and is decoded again where the pictures behind it are wanted all the same.
    #[cfg(feature = "avcodec")]
    drained: Option<(AccessUnit, Time)>,
    /// What becomes of pictures.
    pub(crate) judge: Judge,
    /// Why something cannot be decoded, in words that are not taken yet.
    failures: Vec<String>,
    /// Units that decoders refused.
    pub(crate) refused: u64,
    /// Pictures that were not decoded, since there was no time left for them.
    pub(crate) pictures_skipped: u64,
    /// Time that is left for pictures; `None`: as much as they take.
    time_left: Option<Duration>,
    /// The last wanted picture was not decoded: those that follow it cannot be.
    is_skipping: bool,
}

impl Decoders {
    pub(crate) fn new() -> Decoders {
        Decoders {
            #[cfg(feature = "avcodec")]
            pictures: Slot { open: None, failed: Vec::new() },
            sound: Slot { open: None, failed: Vec::new() },
            #[cfg(feature = "avcodec")]
            drained: None,
            judge: Judge::new(),
            failures: Vec::new(),
            refused: 0,
            pictures_skipped: 0,
            time_left: None,
            is_skipping: false,
        }
    }

    /// Gives pictures so much time from now on.
    pub(crate) fn allow(&mut self, time: Duration) {
        self.time_left = Some(time);
    }

    /// Closes them: of what was decoded, only small pictures take memory.
    pub(crate) fn close(&mut self) {
        let mut judge = std::mem::replace(&mut self.judge, Judge::new());
        judge.restart();
        let closed = Decoders {
            judge,
            refused: self.refused,
            pictures_skipped: self.pictures_skipped,
            time_left: self.time_left,
            ..Decoders::new()
        };
        *self = closed;
    }

    /// Why something cannot be decoded, said once for each codec.
    pub(crate) fn take_failure(&mut self) -> Option<String> {
        self.failures.pop()
    }

    /// Decodes a picture that `watcher` wants, and gives it the figures.
    pub(crate) fn picture(&mut self, unit: &AccessUnit, at: Time, decoding: Decoding, watcher: &mut Watcher) {
        let no_time = self.time_left.is_some_and(|left| left.is_zero());
        if no_time || self.is_skipping && decoding == Decoding::GoesOn {
            self.is_skipping = true;
            self.pictures_skipped += 1;
            return;
        }
        self.is_skipping = false;
        let begun = Clock.now();
        self.decode_picture(unit, at, decoding, watcher);
        let took = Clock.now().since(begun);
        self.time_left = self.time_left.map(|left| left.saturating_sub(took));
    }

    /// No picture follows those that were decoded: gives `watcher` what the decoder holds.
    #[cfg(feature = "avcodec")]
    pub(crate) fn end_run(&mut self, watcher: &mut Watcher) {
        let Decoders { pictures, drained, judge, refused, .. } = self;
        if let Some((_, decoder)) = pictures.open.as_mut().filter(|_| drained.is_none()) {
            let outcome = decoder.drain(&mut |at, picture| judge.picture(at, &picture, watcher));
            *refused += u64::from(outcome.is_err());
        }
    }

    /// The same in a build that decodes none.
    #[cfg(not(feature = "avcodec"))]
    pub(crate) fn end_run(&mut self, _watcher: &mut Watcher) {}

    #[cfg(feature = "avcodec")]
    fn decode_picture(&mut self, unit: &AccessUnit, at: Time, decoding: Decoding, watcher: &mut Watcher) {
        let Decoders { pictures, drained, judge, failures, refused, .. } = self;
        let failed = &mut |error: CodecError| failures.push(format!("pictures are not watched: {error}"));
        let Some(decoder) = pictures.of(unit.codec, avcodec::PictureDecoder::new, failed) else { return };
        let mut outcomes = Vec::new();
        let mut give = |judge: &mut Judge, (unit, at): (Option<&AccessUnit>, Time)| {
            let each = &mut |at, picture: avcodec::DecodedPicture<'_>| judge.picture(at, &picture, watcher);
            outcomes.push(match unit {
                Some(unit) => decoder.decode(&unit.data, at, each),
                None => decoder.drain(each),
            });
        };
        if decoding == Decoding::GoesOn {
            if let Some((key, key_at)) = drained.take() {
                give(judge, (Some(&key), key_at));
            }
            give(judge, (Some(unit), at));
        } else {
            // What is inside belongs to the run before.
            if drained.take().is_none() {
                give(judge, (None, at));
            }
            judge.begin(at);
            give(judge, (Some(unit), at));
            if decoding == Decoding::KeyFrame && !judge.is_key_out() {
                give(judge, (None, at));
                *drained = Some((unit.clone(), at));
            }
        }
        *refused += outcomes.iter().filter(|outcome| outcome.is_err()).count() as u64;
    }

    #[cfg(not(feature = "avcodec"))]
    fn decode_picture(&mut self, _: &AccessUnit, _: Time, _: Decoding, _: &mut Watcher) {
        const ABSENT: &str = "pictures are not watched: this build cannot decode them (feature `avcodec`)";
        if !self.failures.iter().any(|failure| failure == ABSENT) && self.refused == 0 {
            self.failures.push(ABSENT.to_owned());
        }
        self.refused += 1;
    }

    /// Decodes sound that `watcher` wants, and gives it the samples.
    pub(crate) fn sound(&mut self, unit: &AccessUnit, at: Time, watcher: &mut Watcher) {
        let Decoders { sound, failures, refused, .. } = self;
        let failed = &mut |error: CodecError| failures.push(format!("sound is not watched: {error}"));
        let Some(decoder) = sound.of(unit.codec, open_sound, failed) else { return };
        let is_decoded = match decoder {
            #[cfg(feature = "opus")]
            Sound::Opus(decoder) => decoder.decode(&unit.data, at).is_ok_and(|block| {
                watcher.push_sound(&block.samples, block.channels, block.rate_hz, at);
                true
            }),
            Sound::S302m => s302m::read(&unit.data).is_ok_and(|(header, samples)| {
                let samples: Vec<f32> = samples.collect();
                watcher.push_sound(&samples, header.channels, s302m::RATE_HZ, at);
                true
            }),
            #[cfg(feature = "avcodec")]
            Sound::Other(decoder) => decoder
                .decode(&unit.data, at, &mut |at, sound| {
                    watcher.push_sound(sound.samples, sound.channels, sound.rate_hz, at);
                })
                .is_ok(),
        };
        *refused += u64::from(!is_decoded);
    }

    /// Part of the stream was left out.
    pub(crate) fn forget(&mut self) {
        self.judge.forget();
    }
}

fn open_sound(codec: Codec) -> Result<Sound, CodecError> {
    match codec {
        #[cfg(feature = "opus")]
        Codec::Opus => Ok(Sound::Opus(Box::new(opus::Decoder::new(2)?))),
        Codec::S302m => Ok(Sound::S302m),
        #[cfg(feature = "avcodec")]
        codec => avcodec::SoundDecoder::new(codec).map(Sound::Other),
        #[cfg(not(feature = "avcodec"))]
        codec => Err(CodecError::NotBuiltIn { codec: codec.name() }),
    }
}

#[cfg(test)]
#[cfg(feature = "avcodec")]
#[path = "decoders_tests.rs"]
mod tests;
