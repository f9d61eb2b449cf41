//! The boundary to `dav1d_shim.c`: everything unsafe about dav1d stands here, behind a type that keeps its rules.
#![allow(unsafe_code)]

use super::planes::Planes;
use glassline_media::{Colour, PixelFormat, Size};
use std::io;
use std::ptr::{self, NonNull};

/// Mirrors `glassline_dav1d_picture` of the shim.
#[repr(C)]
struct RawPicture {
    planes: [*const u8; 3],
    strides: [i64; 3],
    width: i32,
    height: i32,
    bits: i32,
    is_420: i32,
    primaries: i32,
    transfer: i32,
    matrix: i32,
    full_range: i32,
}

#[repr(C)]
struct RawDecoder {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn glassline_dav1d_picture_bytes() -> usize;
    fn glassline_dav1d_new(threads: i32, max_pixels: u32, error: *mut i32) -> *mut RawDecoder;
    fn glassline_dav1d_decode(
        decoder: *mut RawDecoder,
        unit: *const u8,
        bytes: usize,
        picture: *mut RawPicture,
    ) -> i32;
    fn glassline_dav1d_free(decoder: *mut RawDecoder);
}

/// An open decoder.
pub(super) struct Handle {
    raw: NonNull<RawDecoder>,
}

// SAFETY: dav1d binds its decoders to no thread; it asks only that calls do not overlap, and every call takes `&mut self`.
unsafe impl Send for Handle {}

/// What a unit has shown.
pub(super) enum Shown<'a> {
    Picture(Planes<'a>, Colour),
    /// So many pictures, where one is expected.
    Pictures(i32),
    /// A picture that is not of 8 bits, 4:2:0.
    Other,
}

impl Handle {
    /// Opens a decoder that refuses pictures of more than `max_pixels`, 1 at least; the error is the system's text.
    pub(super) fn open(threads: i32, max_pixels: u32) -> Result<Handle, String> {
        // SAFETY: it takes nothing and returns a constant.
        let bytes = unsafe { glassline_dav1d_picture_bytes() };
        assert_eq!(bytes, size_of::<RawPicture>(), "dav1d_shim.h and the struct here are the same");
        let mut error = 0;
        // SAFETY: `error` is valid for the call.
        let raw = unsafe { glassline_dav1d_new(threads, max_pixels, &raw mut error) };
        NonNull::new(raw).map(|raw| Handle { raw }).ok_or_else(|| text(error))
    }

    /// Decodes a unit, which must not be empty; the error is the system's text.
    pub(super) fn decode(&mut self, unit: &[u8]) -> Result<Shown<'_>, String> {
        let mut raw = RawPicture {
            planes: [ptr::null(); 3],
            strides: [0; 3],
            width: 0,
            height: 0,
            bits: 0,
            is_420: 0,
            primaries: 0,
            transfer: 0,
            matrix: 0,
            full_range: 0,
        };
        // SAFETY: `self.raw` is open; the unit is copied during the call; `raw` has the shim's layout (checked when it was
        // opened).
        let count =
            unsafe { glassline_dav1d_decode(self.raw.as_ptr(), unit.as_ptr(), unit.len(), &raw mut raw) };
        match count {
            1 => Ok(shown(&raw)),
            0.. => Ok(Shown::Pictures(count)),
            ..0 => Err(text(count)),
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: `raw` is open and nothing uses it after this.
        unsafe { glassline_dav1d_free(self.raw.as_ptr()) }
    }
}

/// The picture that the shim has described. It has to lie there as long as the result is used.
fn shown<'a>(raw: &RawPicture) -> Shown<'a> {
    let sides = (u32::try_from(raw.width), u32::try_from(raw.height));
    let (Ok(width), Ok(height), 8, true) = (sides.0, sides.1, raw.bits, raw.is_420 != 0) else {
        return Shown::Other;
    };
    let Ok(size) = Size::new(width, height) else { return Shown::Other };
    let mut planes = Planes { size, bytes: [&[]; 3], strides: [0; 3] };
    for index in 0..3 {
        let plane = PixelFormat::I420.plane_size(size, index);
        let stride = usize::try_from(raw.strides[index]).unwrap_or(0);
        if raw.planes[index].is_null() || stride < plane.width as usize {
            return Shown::Other;
        }
        // SAFETY: dav1d's plane holds `plane` samples of one byte at `stride`: the picture is of 8 bits and 4:2:0. It lies
        // there until the next call, which takes `&mut self` of the handle that the result borrows from.
        planes.bytes[index] =
            unsafe { std::slice::from_raw_parts(raw.planes[index], Planes::span(plane, stride)) };
        planes.strides[index] = stride;
    }
    let byte = |point: i32| u8::try_from(point).unwrap_or(2);
    let colour = Colour {
        primaries: byte(raw.primaries),
        transfer: byte(raw.transfer),
        matrix: byte(raw.matrix),
        full_range: raw.full_range != 0,
    };
    Shown::Picture(planes, colour)
}

/// What the system says of a negative errno.
fn text(code: i32) -> String {
    io::Error::from_raw_os_error(code.saturating_neg()).to_string()
}
