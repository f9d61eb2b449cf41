//! The boundary to `aac_shim.c`: everything unsafe about libavcodec stands here, behind types that keep its rules.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};
use std::ptr::{self, NonNull};

#[repr(C)]
struct RawEncoder {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn glassline_aac_library() -> *const c_char;
    fn glassline_aac_library_version() -> i32;
    fn glassline_aac_encoder_new(
        rate_hz: i32,
        channels: i32,
        bitrate_bps: i32,
        reason: *mut c_char,
        reason_bytes: i32,
        absent: *mut i32,
    ) -> *mut RawEncoder;
    fn glassline_aac_frame_samples(encoder: *const RawEncoder) -> i32;
    fn glassline_aac_lag(encoder: *const RawEncoder) -> i32;
    fn glassline_aac_push(encoder: *mut RawEncoder, samples: *const f32) -> i32;
    fn glassline_aac_poll(encoder: *mut RawEncoder, packet: *mut u8, packet_bytes: i32) -> i32;
    fn glassline_aac_error(encoder: *const RawEncoder, code: i32, reason: *mut c_char, reason_bytes: i32);
    fn glassline_aac_encoder_free(encoder: *mut RawEncoder);
}

/// The texts of libavcodec and of the loader are shorter than this, or are cut.
const REASON_BYTES: usize = 256;

/// Why an encoder could not be opened.
pub(super) enum Refusal {
    /// The library is not there, or is another one than the program was built for.
    Absent(String),
    /// It is there and says no.
    Refused(String),
}

/// The shared object that is opened.
pub(super) fn library() -> &'static str {
    // SAFETY: the result is a NUL-terminated constant of ASCII letters.
    unsafe { CStr::from_ptr(glassline_aac_library()) }.to_str().unwrap_or("libavcodec")
}

/// The major version that it must have.
pub(super) fn library_version() -> i32 {
    // SAFETY: it only returns a constant.
    unsafe { glassline_aac_library_version() }
}

/// An open encoder.
pub(super) struct Encoder {
    raw: NonNull<RawEncoder>,
    /// Interleaved samples that a frame holds.
    frame: usize,
}

// SAFETY: libavcodec binds its contexts to no thread, this encoder makes none, and every call takes `&mut self`.
unsafe impl Send for Encoder {}

impl Encoder {
    /// Opens the library and an encoder.
    pub(super) fn open(rate_hz: u32, channels: u8, bitrate_bps: u32) -> Result<Encoder, Refusal> {
        let mut reason = [0; REASON_BYTES];
        let mut absent = 0;
        // SAFETY: `reason` is writable for the length given, `absent` is valid, both for the call.
        let raw = unsafe {
            glassline_aac_encoder_new(
                number(rate_hz),
                channels.into(),
                number(bitrate_bps),
                reason.as_mut_ptr(),
                REASON_BYTES as i32,
                &raw mut absent,
            )
        };
        let Some(raw) = NonNull::new(raw) else {
            let reason = text(&reason);
            return Err(if absent == 1 { Refusal::Absent(reason) } else { Refusal::Refused(reason) });
        };
        // SAFETY: `raw` is open.
        let samples = unsafe { glassline_aac_frame_samples(raw.as_ptr()) };
        let frame = usize::try_from(samples).unwrap_or(0) * usize::from(channels);
        Ok(Encoder { raw, frame })
    }

    /// Interleaved samples that [`Encoder::push`] takes.
    pub(super) fn frame_samples(&self) -> usize {
        self.frame
    }

    /// Samples a channel by which what is decoded lags behind what was encoded.
    pub(super) fn lag(&self) -> usize {
        // SAFETY: `raw` is open.
        usize::try_from(unsafe { glassline_aac_lag(self.raw.as_ptr()) }).unwrap_or(0)
    }

    /// Takes a frame; `None`: no more will come. The error is libavcodec's own text.
    pub(super) fn push(&mut self, samples: Option<&[f32]>) -> Result<(), String> {
        if let Some(samples) = samples
            && samples.len() != self.frame
        {
            return Err(format!("a frame of {} samples, expected {}", samples.len(), self.frame));
        }
        // SAFETY: `raw` is open; the pointer is null or readable for a whole frame.
        let code =
            unsafe { glassline_aac_push(self.raw.as_ptr(), samples.map_or(ptr::null(), <[f32]>::as_ptr)) };
        if code < 0 { Err(self.text(code)) } else { Ok(()) }
    }

    /// Copies the next packet to `packet` and returns its length; 0 where none is ready.
    pub(super) fn poll(&mut self, packet: &mut [u8]) -> Result<usize, String> {
        let room = i32::try_from(packet.len()).unwrap_or(i32::MAX);
        // SAFETY: `raw` is open; `packet` is writable for the length given.
        let bytes = unsafe { glassline_aac_poll(self.raw.as_ptr(), packet.as_mut_ptr(), room) };
        usize::try_from(bytes).map_err(|_| self.text(bytes))
    }

    fn text(&self, code: i32) -> String {
        let mut reason = [0; REASON_BYTES];
        // SAFETY: `raw` is open; `reason` is writable for the length given.
        unsafe { glassline_aac_error(self.raw.as_ptr(), code, reason.as_mut_ptr(), REASON_BYTES as i32) };
        text(&reason)
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        // SAFETY: `raw` is open and nothing uses it after this.
        unsafe { glassline_aac_encoder_free(self.raw.as_ptr()) }
    }
}

fn number(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn text(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> =
        bytes.iter().take_while(|byte| **byte != 0).map(|byte| byte.to_ne_bytes()[0]).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
