//! The encoder of a rendition: one without delay, or one with a look-ahead.

use super::delayed::Delayed;
use glassline_codec::CodecError;
use glassline_codec::h264::x264;
use glassline_media::Time;

/// The encoder of a rendition.
pub(super) enum Coder {
    /// A picture comes out of the call that takes it in, slice by slice.
    Immediate(Box<x264::Encoder>),
    /// A picture comes out when those behind it are known.
    Delayed(Box<Delayed>),
}

impl Coder {
    /// Opens the one that `settings` are for. With `defers` one with a look-ahead runs when others have nothing to do.
    pub(super) fn open(settings: x264::Settings, defers: bool, now: Time) -> Result<Coder, CodecError> {
        if settings.look_ahead.is_some() {
            return Ok(Coder::Delayed(Box::new(Delayed::open(settings, defers, now)?)));
        }
        Ok(Coder::Immediate(Box::new(x264::Encoder::new(&settings)?)))
    }

    /// The encoder with a look-ahead, if it is one.
    pub(super) fn delayed(&mut self) -> Option<&mut Delayed> {
        match self {
            Coder::Immediate(_) => None,
            Coder::Delayed(delayed) => Some(delayed),
        }
    }

    pub(super) fn force_key_frame(&mut self) {
        match self {
            Coder::Immediate(encoder) => encoder.force_key_frame(),
            Coder::Delayed(delayed) => delayed.encoder().force_key_frame(),
        }
    }

    /// Puts an encoder with `settings` in its place: what it had inside has been flushed. The next picture is a key frame.
    pub(super) fn replace(&mut self, settings: x264::Settings) -> Result<(), CodecError> {
        match self {
            Coder::Immediate(encoder) => **encoder = x264::Encoder::new(&settings)?,
            Coder::Delayed(delayed) => delayed.begin_with(settings)?,
        }
        Ok(())
    }

    pub(super) fn set_bitrate(&mut self, bitrate_bps: u64) -> Result<(), CodecError> {
        match self {
            Coder::Immediate(encoder) => encoder.set_bitrate(bitrate_bps),
            Coder::Delayed(delayed) => delayed.encoder().set_bitrate(bitrate_bps),
        }
    }

    pub(super) fn set_preset(&mut self, preset: &str) -> Result<(), CodecError> {
        match self {
            Coder::Immediate(encoder) => encoder.set_preset(preset),
            Coder::Delayed(delayed) => delayed.encoder().set_preset(preset),
        }
    }

    pub(super) fn bitrate_bps(&mut self) -> u64 {
        match self {
            Coder::Immediate(encoder) => encoder.bitrate_bps(),
            Coder::Delayed(delayed) => delayed.encoder().bitrate_bps(),
        }
    }
}
