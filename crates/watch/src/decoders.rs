//! The decoders of one stream, opened when a unit is wanted.

use crate::shown::Shown;
use glassline_codec::CodecError;
#[cfg(feature = "opus")]
use glassline_codec::audio::opus;
#[cfg(feature = "avcodec")]
use glassline_codec::avcodec;
#[cfg(feature = "avcodec")]
use glassline_delivery::watch::State;
use glassline_delivery::watch::{PictureMeter, Watcher};
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
    meter: PictureMeter,
    /// The last key frame, which is decoded again where the pictures behind it are wanted: it was drained to be judged at once.
    #[cfg(feature = "avcodec")]
    key: Option<(AccessUnit, Time)>,
    /// When that one is seen.
    #[cfg(feature = "avcodec")]
    judged: Option<Time>,
    /// Small pictures of what was decoded.
    pub(crate) shown: Shown,
    /// Why something cannot be decoded, in words that are not taken yet.
    failures: Vec<String>,
    /// Units that decoders refused.
    pub(crate) refused: u64,
    /// Pictures that were decoded.
    pub(crate) pictures_decoded: u64,
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
            meter: PictureMeter::new(),
            #[cfg(feature = "avcodec")]
            key: None,
            #[cfg(feature = "avcodec")]
            judged: None,
            shown: Shown::default(),
            failures: Vec::new(),
            refused: 0,
            pictures_decoded: 0,
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
        let closed = Decoders {
            shown: std::mem::take(&mut self.shown),
            refused: self.refused,
            pictures_decoded: self.pictures_decoded,
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
    pub(crate) fn picture(&mut self, unit: &AccessUnit, at: Time, begins: bool, watcher: &mut Watcher) {
        let no_time = self.time_left.is_some_and(|left| left.is_zero());
        if no_time || self.is_skipping && !begins {
            self.is_skipping = true;
            self.pictures_skipped += 1;
            return;
        }
        self.is_skipping = false;
        let begun = Clock.now();
        self.decode_picture(unit, at, begins, watcher);
        let took = Clock.now().since(begun);
        self.time_left = self.time_left.map(|left| left.saturating_sub(took));
    }

    #[cfg(feature = "avcodec")]
    fn decode_picture(&mut self, unit: &AccessUnit, at: Time, begins: bool, watcher: &mut Watcher) {
        let Decoders { pictures, meter, key, shown, failures, refused, pictures_decoded, judged, .. } = self;
        let failed = &mut |error: CodecError| failures.push(format!("pictures are not watched: {error}"));
        let Some(decoder) = pictures.of(unit.codec, avcodec::PictureDecoder::new, failed) else { return };
        // A key frame that is decoded again comes out again, and has been judged.
        let before = *judged;
        let mut measure = |seen_at: Time, picture: avcodec::DecodedPicture<'_>| {
            *pictures_decoded += 1;
            if before == Some(seen_at) {
                return;
            }
            let avcodec::DecodedPicture { luma: samples, width_px, height_px, stride, colour, .. } = picture;
            let is_full_range = colour.full_range;
            let luma =
                glassline_delivery::watch::Luma { samples, width_px, height_px, stride, is_full_range };
            let known = watcher.raised().len();
            if let Some(figures) = meter.measure(&luma) {
                watcher.push_picture(&figures, seen_at);
            }
            let begun = watcher.raised().skip(known).filter(|raised| raised.state == State::Begun);
            shown.push(&picture, begins && seen_at == at, &mut begun.map(|raised| raised.alarm));
        };
        let mut outcomes = Vec::new();
        if begins {
            // What is inside belongs to the run before. The key frame then comes out at once, however many pictures the decoder
            // would wait for to put them in order.
            if key.is_none() {
                outcomes.push(decoder.drain(&mut measure));
            }
            outcomes.push(decoder.decode(&unit.data, at, &mut measure));
            outcomes.push(decoder.drain(&mut measure));
            (*key, *judged) = (Some((unit.clone(), at)), Some(at));
        } else {
            if let Some((first, first_at)) = key.take() {
                outcomes.push(decoder.decode(&first.data, first_at, &mut measure));
            }
            outcomes.push(decoder.decode(&unit.data, at, &mut measure));
        }
        *refused += outcomes.iter().filter(|outcome| outcome.is_err()).count() as u64;
    }

    #[cfg(not(feature = "avcodec"))]
    fn decode_picture(&mut self, _unit: &AccessUnit, _at: Time, _begins: bool, _watcher: &mut Watcher) {
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
        self.meter.forget();
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
