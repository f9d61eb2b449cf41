//! The boundary to `opus_shim.c`: everything unsafe about libopus stands here, behind types that keep its rules.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::ptr::{self, NonNull};

#[repr(C)]
struct RawEncoder {
    _opaque: [u8; 0],
}

#[repr(C)]
struct RawDecoder {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn glassline_opus_encoder_new(
        channels: i32,
        bitrate_bps: i32,
        speech: i32,
        loss_percent: i32,
        error: *mut i32,
    ) -> *mut RawEncoder;
    fn glassline_opus_lookahead(encoder: *mut RawEncoder) -> i32;
    fn glassline_opus_encode(
        encoder: *mut RawEncoder,
        samples: *const f32,
        frames: i32,
        packet: *mut u8,
        packet_bytes: i32,
    ) -> i32;
    fn glassline_opus_encoder_free(encoder: *mut RawEncoder);
    fn glassline_opus_decoder_new(channels: i32, error: *mut i32) -> *mut RawDecoder;
    fn glassline_opus_decode(
        decoder: *mut RawDecoder,
        packet: *const u8,
        packet_bytes: i32,
        samples: *mut f32,
        frames: i32,
        fec: i32,
    ) -> i32;
    fn glassline_opus_decoder_free(decoder: *mut RawDecoder);
    fn glassline_opus_error(code: i32) -> *const c_char;
}

/// An open encoder at 48 kHz.
pub(super) struct Encoder {
    raw: NonNull<RawEncoder>,
    channels: usize,
}

// SAFETY: libopus binds its states to no thread, and every call takes `&mut self`.
unsafe impl Send for Encoder {}

impl Encoder {
    /// Opens an encoder, for talk where it is told how many losses (percent) to count on; the error is libopus' own text.
    pub(super) fn open(channels: u8, bitrate_bps: i32, speech: Option<u8>) -> Result<Encoder, String> {
        let mut error = 0;
        let (is_speech, loss_percent) = (i32::from(speech.is_some()), i32::from(speech.unwrap_or(0)));
        // SAFETY: `error` is valid for the call.
        let raw = unsafe {
            glassline_opus_encoder_new(channels.into(), bitrate_bps, is_speech, loss_percent, &raw mut error)
        };
        let raw = NonNull::new(raw).ok_or_else(|| text(error))?;
        Ok(Encoder { raw, channels: channels.into() })
    }

    /// Samples a channel by which what is decoded lags behind what was encoded.
    pub(super) fn lookahead(&mut self) -> Result<usize, String> {
        // SAFETY: `raw` is open.
        let samples = unsafe { glassline_opus_lookahead(self.raw.as_ptr()) };
        usize::try_from(samples).map_err(|_| text(samples))
    }

    /// Encodes interleaved samples and returns the packet's length. The number of samples decides the frame's duration.
    pub(super) fn encode(&mut self, samples: &[f32], packet: &mut [u8]) -> Result<usize, String> {
        let frames = length(samples.len() / self.channels);
        // SAFETY: `raw` is open; `samples` holds `frames` times the encoder's channels and `packet` is writable
        // for the length given.
        let bytes = unsafe {
            glassline_opus_encode(
                self.raw.as_ptr(),
                samples.as_ptr(),
                frames,
                packet.as_mut_ptr(),
                length(packet.len()),
            )
        };
        usize::try_from(bytes).map_err(|_| text(bytes))
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        // SAFETY: `raw` is open and nothing uses it after this.
        unsafe { glassline_opus_encoder_free(self.raw.as_ptr()) }
    }
}

/// An open decoder at 48 kHz.
pub(super) struct Decoder {
    raw: NonNull<RawDecoder>,
    channels: usize,
}

// SAFETY: libopus binds its states to no thread, and every call takes `&mut self`.
unsafe impl Send for Decoder {}

impl Decoder {
    /// Opens a decoder; the error is libopus' own text.
    pub(super) fn open(channels: u8) -> Result<Decoder, String> {
        let mut error = 0;
        // SAFETY: `error` is valid for the call.
        let raw = unsafe { glassline_opus_decoder_new(channels.into(), &raw mut error) };
        let raw = NonNull::new(raw).ok_or_else(|| text(error))?;
        Ok(Decoder { raw, channels: channels.into() })
    }

    /// Decodes `packet`, or conceals a loss of as many frames as `samples` has room for, where there is no packet or it is
    /// the one behind the loss (`fec`). Returns samples a channel.
    pub(super) fn decode(
        &mut self,
        packet: Option<&[u8]>,
        samples: &mut [f32],
        fec: bool,
    ) -> Result<usize, String> {
        let frames = length(samples.len() / self.channels);
        let (data, bytes) = packet.map_or((ptr::null(), 0), |packet| (packet.as_ptr(), length(packet.len())));
        // SAFETY: `raw` is open; `data` is null (a loss) or readable for `bytes`; `samples` is writable for `frames`
        // times the decoder's channels.
        let decoded = unsafe {
            let samples = samples.as_mut_ptr();
            glassline_opus_decode(self.raw.as_ptr(), data, bytes, samples, frames, i32::from(fec))
        };
        usize::try_from(decoded).map_err(|_| text(decoded))
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        // SAFETY: `raw` is open and nothing uses it after this.
        unsafe { glassline_opus_decoder_free(self.raw.as_ptr()) }
    }
}

/// A length for C. What does not fit is cut: the library then sees less than there is, never more.
fn length(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

fn text(code: i32) -> String {
    // SAFETY: any code may be asked; the result is a NUL-terminated constant.
    unsafe { CStr::from_ptr(glassline_opus_error(code)) }.to_string_lossy().into_owned()
}
