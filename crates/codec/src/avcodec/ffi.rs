//! The boundary to `avcodec_shim.c`: everything unsafe about libavcodec's decoders stands here, behind types that keep its rules.
#![allow(unsafe_code)]

use super::picture::{DecodedChroma, DecodedPicture};
use glassline_media::Colour;
use std::ffi::{CStr, c_char};
use std::ptr::{self, NonNull};

#[repr(C)]
struct RawDecoder {
    _opaque: [u8; 0],
}

#[repr(C)]
struct RawPicture {
    luma: *const u8,
    chroma: [*const u8; 2],
    stride: i64,
    chroma_stride: i64,
    pts: i64,
    width: i32,
    height: i32,
    chroma_width: i32,
    chroma_height: i32,
    chroma_shift: i32,
    full_range: i32,
    primaries: i32,
    transfer: i32,
    matrix: i32,
    aspect_width: i32,
    aspect_height: i32,
}

#[repr(C)]
struct RawSound {
    samples: *const f32,
    pts: i64,
    frames: i32,
    channels: i32,
    rate_hz: i32,
}

unsafe extern "C" {
    fn glassline_avcodec_library() -> *const c_char;
    fn glassline_avcodec_library_version() -> i32;
    fn glassline_avcodec_picture_bytes() -> usize;
    fn glassline_avcodec_sound_bytes() -> usize;
    fn glassline_avcodec_new(
        codec: i32,
        exact: i32,
        max_pixels: i64,
        max_bytes: usize,
        reason: *mut c_char,
        reason_bytes: i32,
        absent: *mut i32,
    ) -> *mut RawDecoder;
    fn glassline_avcodec_push(decoder: *mut RawDecoder, unit: *const u8, bytes: usize, pts: i64) -> i32;
    fn glassline_avcodec_poll_picture(decoder: *mut RawDecoder, picture: *mut RawPicture) -> i32;
    fn glassline_avcodec_poll_sound(decoder: *mut RawDecoder, sound: *mut RawSound) -> i32;
    fn glassline_avcodec_reset(decoder: *mut RawDecoder);
    fn glassline_avcodec_error(decoder: *const RawDecoder, code: i32, reason: *mut c_char, reason_bytes: i32);
    fn glassline_avcodec_free(decoder: *mut RawDecoder);
}

/// The texts of libavcodec and of the loader are shorter than this, or are cut.
const REASON_BYTES: usize = 256;

/// Why a decoder could not be opened.
pub(super) enum Refusal {
    /// The library is not there, or is another one than the program was built for.
    Absent(String),
    /// It is there and says no.
    Refused(String),
}

/// A decoded picture, and when it is seen.
pub(super) struct Picture<'a> {
    pub(super) shown: DecodedPicture<'a>,
    pub(super) pts: i64,
}

/// Decoded sound.
pub(super) struct Sound<'a> {
    pub(super) samples: &'a [f32],
    pub(super) pts: i64,
    pub(super) channels: u8,
    pub(super) rate_hz: u32,
}

/// The shared object that is opened.
pub(super) fn library() -> &'static str {
    // SAFETY: the result is a NUL-terminated constant of ASCII letters.
    unsafe { CStr::from_ptr(glassline_avcodec_library()) }.to_str().unwrap_or("libavcodec")
}

/// The major version that it must have.
pub(super) fn library_version() -> i32 {
    // SAFETY: it only returns a constant.
    unsafe { glassline_avcodec_library_version() }
}

/// An open decoder.
pub(super) struct Decoder {
    raw: NonNull<RawDecoder>,
}

// SAFETY: libavcodec binds its contexts to no thread, this decoder makes none, and every call takes `&mut self`.
unsafe impl Send for Decoder {}

impl Decoder {
    /// Opens the library and the decoder that has this number in `avcodec_shim.h`; an `is_exact` one leaves nothing out.
    pub(super) fn open(
        codec: i32,
        is_exact: bool,
        max_pixels: u32,
        max_bytes: usize,
    ) -> Result<Decoder, Refusal> {
        // SAFETY: both only return constants.
        let sizes = unsafe { (glassline_avcodec_picture_bytes(), glassline_avcodec_sound_bytes()) };
        if sizes != (size_of::<RawPicture>(), size_of::<RawSound>()) {
            return Err(Refusal::Refused("its shim was built for other structs".to_owned()));
        }
        let mut reason = [0; REASON_BYTES];
        let mut absent = 0;
        // SAFETY: `reason` is writable for the length given, `absent` is valid, both for the call.
        let raw = unsafe {
            glassline_avcodec_new(
                codec,
                is_exact.into(),
                max_pixels.into(),
                max_bytes,
                reason.as_mut_ptr(),
                REASON_BYTES as i32,
                &raw mut absent,
            )
        };
        NonNull::new(raw).map(|raw| Decoder { raw }).ok_or_else(|| {
            let reason = text(&reason);
            if absent == 1 { Refusal::Absent(reason) } else { Refusal::Refused(reason) }
        })
    }

    /// Takes an access unit; `None`: what is inside comes out, and nothing is taken before [`Decoder::reset`].
    pub(super) fn push(&mut self, unit: Option<&[u8]>, pts: i64) -> Result<(), String> {
        let (pointer, bytes) = unit.map_or((ptr::null(), 0), |unit| (unit.as_ptr(), unit.len()));
        // SAFETY: `raw` is open; the pointer is null or readable for the length given, and is not kept.
        let code = unsafe { glassline_avcodec_push(self.raw.as_ptr(), pointer, bytes, pts) };
        if code < 0 { Err(self.text(code)) } else { Ok(()) }
    }

    /// The next picture, if one is ready.
    pub(super) fn poll_picture(&mut self) -> Result<Option<Picture<'_>>, String> {
        let mut picture = RawPicture {
            luma: ptr::null(),
            chroma: [ptr::null(); 2],
            stride: 0,
            chroma_stride: 0,
            pts: 0,
            width: 0,
            height: 0,
            chroma_width: 0,
            chroma_height: 0,
            chroma_shift: -1,
            full_range: 0,
            primaries: 2,
            transfer: 2,
            matrix: 2,
            aspect_width: 0,
            aspect_height: 0,
        };
        // SAFETY: `raw` is open; `picture` is writable and has the size that the shim gives it.
        let code = unsafe { glassline_avcodec_poll_picture(self.raw.as_ptr(), &raw mut picture) };
        if code < 0 {
            return Err(self.text(code));
        }
        let [width, height] =
            [picture.width, picture.height].map(|number| usize::try_from(number).unwrap_or(0));
        let stride = usize::try_from(picture.stride).unwrap_or(0);
        if code == 0 || picture.luma.is_null() || width == 0 || height == 0 || stride < width {
            return Ok(None);
        }
        // SAFETY: the shim gives `height` lines of `width` bytes, `stride` apart, which stay until the next call; that takes
        // `&mut self`, which the result borrows. The last line ends with its last pixel.
        let luma = unsafe { std::slice::from_raw_parts(picture.luma, stride * (height - 1) + width) };
        // SAFETY: `picture` is as the shim has described it, and is borrowed no longer than luma.
        let chroma = unsafe { chroma(&picture) };
        let code_point = |number: i32| u8::try_from(number).unwrap_or(2);
        let side = |number: i32| u32::try_from(number).unwrap_or(0);
        let shown = DecodedPicture {
            luma,
            width_px: width,
            height_px: height,
            stride,
            chroma,
            colour: Colour {
                primaries: code_point(picture.primaries),
                transfer: code_point(picture.transfer),
                matrix: code_point(picture.matrix),
                full_range: picture.full_range != 0,
            },
            sample_aspect: (side(picture.aspect_width), side(picture.aspect_height)),
        };
        Ok(Some(Picture { shown, pts: picture.pts }))
    }

    /// The next sound, if some is ready.
    pub(super) fn poll_sound(&mut self) -> Result<Option<Sound<'_>>, String> {
        let mut sound = RawSound { samples: ptr::null(), pts: 0, frames: 0, channels: 0, rate_hz: 0 };
        // SAFETY: `raw` is open; `sound` is writable and has the size that the shim gives it.
        let code = unsafe { glassline_avcodec_poll_sound(self.raw.as_ptr(), &raw mut sound) };
        if code < 0 {
            return Err(self.text(code));
        }
        let channels = u8::try_from(sound.channels).unwrap_or(0);
        let frames = usize::try_from(sound.frames).unwrap_or(0);
        if code == 0 || sound.samples.is_null() {
            return Ok(None);
        }
        // SAFETY: the shim gives `frames` times `channels` samples, which stay until the next call; that takes `&mut self`,
        // which the result borrows.
        let samples = unsafe { std::slice::from_raw_parts(sound.samples, frames * usize::from(channels)) };
        let rate_hz = u32::try_from(sound.rate_hz).unwrap_or(0);
        Ok(Some(Sound { samples, pts: sound.pts, channels, rate_hz }))
    }

    /// Forgets what is inside.
    pub(super) fn reset(&mut self) {
        // SAFETY: `raw` is open.
        unsafe { glassline_avcodec_reset(self.raw.as_ptr()) }
    }

    fn text(&self, code: i32) -> String {
        let mut reason = [0; REASON_BYTES];
        // SAFETY: `raw` is open; `reason` is writable for the length given.
        unsafe {
            glassline_avcodec_error(self.raw.as_ptr(), code, reason.as_mut_ptr(), REASON_BYTES as i32);
        }
        text(&reason)
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        // SAFETY: `raw` is open and nothing uses it after this.
        unsafe { glassline_avcodec_free(self.raw.as_ptr()) }
    }
}

/// Cb and Cr of a picture that has them.
///
/// # Safety
/// `picture` is what the shim has described, and the result is dropped before the decoder's next call.
unsafe fn chroma<'a>(picture: &RawPicture) -> Option<DecodedChroma<'a>> {
    let [width, height] =
        [picture.chroma_width, picture.chroma_height].map(|number| usize::try_from(number).unwrap_or(0));
    let stride = usize::try_from(picture.chroma_stride).unwrap_or(0);
    let shift = u32::try_from(picture.chroma_shift).ok();
    let line_bytes = width * if shift.is_some() { 2 } else { 1 };
    let has_all = picture.chroma.iter().all(|plane| !plane.is_null());
    if !has_all || width == 0 || height == 0 || stride < line_bytes {
        return None;
    }
    // SAFETY: the shim gives `height` lines of that many bytes for either, `stride` apart. The last line ends with its last sample.
    let plane =
        |from: *const u8| unsafe { std::slice::from_raw_parts(from, stride * (height - 1) + line_bytes) };
    Some(DecodedChroma {
        planes: picture.chroma.map(plane),
        width_px: width,
        height_px: height,
        stride,
        shift,
    })
}

fn text(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> =
        bytes.iter().take_while(|byte| **byte != 0).map(|byte| byte.to_ne_bytes()[0]).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
