//! Decoders of what other encoders make, by FFmpeg's libavcodec: to look at a stream, or to have its pictures as viewers see them.
//!
//! Comes in: access units of H.264, H.265, AV1, MPEG-2, AAC, MPEG audio, AC-3 and E-AC-3. Goes out: pictures as they were
//! decoded, samples of sound. Called by `watch`, for alarms and small pictures, and by [`h264::recode`](crate::h264::recode).
//!
//! The library is opened when the first decoder is, as for AAC in [`audio`](crate::audio): a program that decodes nothing neither
//! loads nor needs it. It makes no threads here. Pictures of more than [`MAX_PIXELS`] are refused before there is memory for
//! them, and what is damaged is an error or left out; the decoder goes on with the next unit.

mod ffi;
mod picture;

use crate::CodecError;
use ffi::Refusal;
use glassline_media::bitstream::av1;
use glassline_media::{Codec, Time};

pub use picture::{DecodedChroma, DecodedPicture};

/// The largest picture: 4096 by 2304.
pub const MAX_PIXELS: u32 = 4096 * 2304;

/// Decoded sound.
#[derive(Clone, Copy, Debug)]
pub struct Samples<'a> {
    /// Interleaved samples, 1.0 at full scale.
    pub samples: &'a [f32],
    /// Channels, 1 to 8.
    pub channels: u8,
    /// Samples a second and channel.
    pub rate_hz: u32,
}

/// What the pictures that a decoder holds may take together: seventeen of 1080p in 10 bits are less than half of it. A decoder of
/// AV1 holds at most ten of [`MAX_PIXELS`], which is about as much in 4:2:0, and twice that in 4:4:4.
pub const MAX_BYTES: usize = 256 << 20;

/// A decoder of pictures.
pub struct PictureDecoder {
    codec: Codec,
    handle: ffi::Decoder,
}

/// A decoder of sound.
pub struct SoundDecoder {
    codec: Codec,
    handle: ffi::Decoder,
}

impl PictureDecoder {
    /// Opens a decoder for looking at a stream: key frames are what was coded, and pictures behind them about that, since the loop filter
    /// is left out there, which takes a good part of the time.
    ///
    /// # Errors
    /// [`CodecError::NotBuiltIn`] for what is no codec of pictures, [`CodecError::Absent`] where this machine has not the
    /// library that the program was built for, [`CodecError::Library`] where that has no such decoder.
    pub fn new(codec: Codec) -> Result<PictureDecoder, CodecError> {
        PictureDecoder::open(codec, false)
    }

    /// Opens a decoder all pictures of which are those that were coded.
    ///
    /// # Errors
    /// As [`PictureDecoder::new`].
    pub fn exact(codec: Codec) -> Result<PictureDecoder, CodecError> {
        PictureDecoder::open(codec, true)
    }

    fn open(codec: Codec, is_exact: bool) -> Result<PictureDecoder, CodecError> {
        let number = match codec {
            Codec::H264 => 0,
            Codec::H265 => 1,
            Codec::Av1 => 2,
            Codec::Mpeg2Video => 3,
            _ => return Err(CodecError::NotBuiltIn { codec: codec.name() }),
        };
        Ok(PictureDecoder { codec, handle: open(codec, number, is_exact)? })
    }

    /// Decodes a unit of the picture that is seen at `at`, and calls `each` with the pictures that have become ready, in the order in
    /// which they are seen.
    ///
    /// # Errors
    /// [`CodecError::Corrupt`]; the decoder goes on with the next unit.
    pub fn decode(
        &mut self,
        unit: &[u8],
        at: Time,
        each: &mut dyn FnMut(Time, DecodedPicture<'_>),
    ) -> Result<(), CodecError> {
        let mut without_start_codes = Vec::new();
        let unit = if self.codec == Codec::Av1 {
            av1::to_sample(unit, &mut without_start_codes);
            &without_start_codes[..]
        } else {
            unit
        };
        self.handle.push(Some(unit), pts(at)).map_err(|reason| corrupt(self.codec, unit.len(), reason))?;
        self.poll(unit.len(), each)
    }

    /// Gives the pictures that are inside, and forgets what was before: the next unit is a key frame.
    ///
    /// # Errors
    /// [`CodecError::Corrupt`]; what was before is forgotten all the same.
    pub fn drain(&mut self, each: &mut dyn FnMut(Time, DecodedPicture<'_>)) -> Result<(), CodecError> {
        let ended = self.handle.push(None, 0).map_err(|reason| corrupt(self.codec, 0, reason));
        let outcome = ended.and_then(|()| self.poll(0, each));
        self.handle.reset();
        outcome
    }

    fn poll(
        &mut self,
        bytes: usize,
        each: &mut dyn FnMut(Time, DecodedPicture<'_>),
    ) -> Result<(), CodecError> {
        let PictureDecoder { codec, handle } = self;
        while let Some(picture) = handle.poll_picture().map_err(|reason| corrupt(*codec, bytes, reason))? {
            each(time(picture.pts), picture.shown);
        }
        Ok(())
    }
}

impl SoundDecoder {
    /// Opens a decoder.
    ///
    /// # Errors
    /// As [`PictureDecoder::new`].
    pub fn new(codec: Codec) -> Result<SoundDecoder, CodecError> {
        let number = match codec {
            Codec::Aac => 4,
            Codec::MpegAudio => 5,
            Codec::Ac3 => 6,
            Codec::EAc3 => 7,
            _ => return Err(CodecError::NotBuiltIn { codec: codec.name() }),
        };
        Ok(SoundDecoder { codec, handle: open(codec, number, true)? })
    }

    /// Decodes a unit that is heard at `at`, and calls `each` with the sound that has become ready.
    ///
    /// # Errors
    /// [`CodecError::Corrupt`]; the decoder goes on with the next unit.
    pub fn decode(
        &mut self,
        unit: &[u8],
        at: Time,
        each: &mut dyn FnMut(Time, Samples<'_>),
    ) -> Result<(), CodecError> {
        let SoundDecoder { codec, handle } = self;
        let corrupt = |reason| corrupt(*codec, unit.len(), reason);
        handle.push(Some(unit), pts(at)).map_err(corrupt)?;
        while let Some(sound) = handle.poll_sound().map_err(corrupt)? {
            let ffi::Sound { samples, channels, rate_hz, .. } = sound;
            each(time(sound.pts), Samples { samples, channels, rate_hz });
        }
        Ok(())
    }
}

fn open(codec: Codec, number: i32, is_exact: bool) -> Result<ffi::Decoder, CodecError> {
    ffi::Decoder::open(number, is_exact, MAX_PIXELS, MAX_BYTES).map_err(|refusal| match refusal {
        Refusal::Absent(reason) => CodecError::Absent {
            codec: codec.name(),
            library: ffi::library(),
            package: format!("libavcodec{}", ffi::library_version()),
            reason,
        },
        Refusal::Refused(reason) => {
            CodecError::Library { library: "libavcodec", action: "open a decoder", reason }
        }
    })
}

fn corrupt(codec: Codec, bytes: usize, reason: String) -> CodecError {
    CodecError::Corrupt { codec: codec.name(), bytes, reason }
}

fn pts(at: Time) -> i64 {
    i64::try_from(at.as_nanos()).unwrap_or(i64::MAX)
}

fn time(pts: i64) -> Time {
    Time::from_nanos(u64::try_from(pts).unwrap_or(0))
}

#[cfg(test)]
mod tests;
