//! The boundary to `aom_shim.c`: everything unsafe about libaom stands here, behind a type that keeps its rules.
#![allow(unsafe_code)]

use super::planes::Planes;
use super::slot::Slot;
use glassline_media::{Colour, Picture, PixelFormat, Size};
use std::ffi::{CStr, c_char};
use std::ptr::{self, NonNull};

/// Mirrors `glassline_aom_settings` of the shim.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    pub(super) width: i32,
    pub(super) height: i32,
    pub(super) rate_numerator: i32,
    pub(super) rate_denominator: i32,
    pub(super) threads: i32,
    pub(super) tile_columns_log2: i32,
    pub(super) speed: i32,
}

/// Mirrors `glassline_aom_colour`.
#[repr(C)]
struct RawColour {
    primaries: i32,
    transfer: i32,
    matrix: i32,
    full_range: i32,
}

/// Mirrors `glassline_aom_planes`.
#[repr(C)]
struct RawPlanes {
    planes: [*const u8; 3],
    strides: [i32; 3],
    width: i32,
    height: i32,
}

#[repr(C)]
struct RawEncoder {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn glassline_aom_settings_bytes() -> usize;
    fn glassline_aom_colour_bytes() -> usize;
    fn glassline_aom_planes_bytes() -> usize;
    fn glassline_aom_new(settings: *const Numbers, error: *mut c_char, error_bytes: usize)
    -> *mut RawEncoder;
    fn glassline_aom_set_speed(encoder: *mut RawEncoder, speed: i32) -> i32;
    fn glassline_aom_set_colour(encoder: *mut RawEncoder, colour: *const RawColour) -> i32;
    fn glassline_aom_encode(
        encoder: *mut RawEncoder,
        picture: *const RawPlanes,
        quantizer: i32,
        source: i32,
        target: i32,
        again: i32,
    ) -> i32;
    fn glassline_aom_packet(
        encoder: *mut RawEncoder,
        bytes: *mut *const u8,
        length: *mut usize,
        key: *mut i32,
    ) -> i32;
    fn glassline_aom_reconstruction(encoder: *mut RawEncoder, picture: *mut RawPlanes) -> i32;
    fn glassline_aom_error(encoder: *mut RawEncoder, error: *mut c_char, error_bytes: usize);
    fn glassline_aom_free(encoder: *mut RawEncoder);
}

/// An open encoder.
pub(super) struct Handle {
    raw: NonNull<RawEncoder>,
    size: Size,
}

// SAFETY: libaom binds its encoders to no thread; it asks only that calls do not overlap. A handle is not Sync, so that
// calls by `&self` do not overlap either.
unsafe impl Send for Handle {}

/// Texts that come out of C: libaom's are shorter.
const ERROR_BYTES: usize = 256;

impl Handle {
    /// Opens an encoder; the error is libaom's own text. The caller has checked the numbers.
    pub(super) fn open(size: Size, numbers: &Numbers) -> Result<Handle, String> {
        check_layouts();
        let mut error = [0 as c_char; ERROR_BYTES];
        // SAFETY: `numbers` has the shim's layout (checked above) and outlives the call, which keeps no pointer to it.
        // `error` is writable for the length given.
        let raw = unsafe { glassline_aom_new(numbers, error.as_mut_ptr(), error.len()) };
        NonNull::new(raw).map(|raw| Handle { raw, size }).ok_or_else(|| text(&error))
    }

    /// Changes how much time the next pictures take.
    pub(super) fn set_speed(&mut self, speed: u8) -> Result<(), String> {
        // SAFETY: `raw` is open.
        let result = unsafe { glassline_aom_set_speed(self.raw.as_ptr(), speed.into()) };
        self.check(result)
    }

    /// Changes what the next sequence header says of colour.
    pub(super) fn set_colour(&mut self, colour: Colour) -> Result<(), String> {
        let raw = RawColour {
            primaries: colour.primaries.into(),
            transfer: colour.transfer.into(),
            matrix: colour.matrix.into(),
            full_range: colour.full_range.into(),
        };
        // SAFETY: `self.raw` is open; `raw` has the shim's layout (checked when it was opened).
        let result = unsafe { glassline_aom_set_colour(self.raw.as_ptr(), &raw const raw) };
        self.check(result)
    }

    /// Encodes one picture: its packets, one behind the other, and whether it is a key picture. Without slots, of which the
    /// first is what it is predicted from and the second where it is left, it is one.
    ///
    /// # Panics
    /// If the picture is not 8-bit 4:2:0 of the encoder's size, which the caller has checked.
    pub(super) fn encode(
        &mut self,
        picture: &Picture,
        quantizer: u8,
        slots: Option<(Slot, Slot)>,
        again: bool,
    ) -> Result<(Vec<u8>, bool), String> {
        assert!(picture.format() == PixelFormat::I420 && picture.size() == self.size, "the picture fits");
        let raw = raw_planes(picture);
        let (source, target) =
            slots.map_or((-1, 0), |(source, target)| (source.index().into(), target.index().into()));
        // SAFETY: `self.raw` is open and `raw` has the shim's layout (checked when it was opened). `raw_planes` has checked
        // that the planes hold the encoder's size at their strides; libaom copies the picture before it returns, and reads
        // no sample beyond that size.
        let result = unsafe {
            let quantizer = quantizer.into();
            glassline_aom_encode(self.raw.as_ptr(), &raw const raw, quantizer, source, target, again.into())
        };
        self.check(result)?;
        Ok(self.packets())
    }

    fn packets(&mut self) -> (Vec<u8>, bool) {
        let (mut out, mut is_key) = (Vec::new(), false);
        let (mut bytes, mut length, mut key) = (ptr::null(), 0, 0);
        // SAFETY: `raw` is open; the others are valid for the call.
        while unsafe {
            glassline_aom_packet(self.raw.as_ptr(), &raw mut bytes, &raw mut length, &raw mut key)
        } == 1
        {
            // SAFETY: the call has given `length` bytes, which lie there until the next picture is encoded.
            out.extend_from_slice(unsafe { std::slice::from_raw_parts(bytes, length) });
            is_key |= key != 0;
        }
        (out, is_key)
    }

    /// What decoders show for what was encoded last. There has to be something.
    pub(super) fn reconstruction(&self) -> Result<Planes<'_>, String> {
        let mut raw = RawPlanes { planes: [ptr::null(); 3], strides: [0; 3], width: 0, height: 0 };
        // SAFETY: `self.raw` is open and `raw` has the shim's layout (checked when it was opened).
        let result = unsafe { glassline_aom_reconstruction(self.raw.as_ptr(), &raw mut raw) };
        self.check(result)?;
        let Size { width, height } = self.size;
        if (raw.width.try_into(), raw.height.try_into()) != (Ok(width), Ok(height)) {
            return Err(format!("its picture is {}x{}", raw.width, raw.height));
        }
        let mut planes = Planes { size: self.size, bytes: [&[]; 3], strides: [0; 3] };
        for index in 0..3 {
            let size = PixelFormat::I420.plane_size(self.size, index);
            let stride = usize::try_from(raw.strides[index]).unwrap_or(0);
            if raw.planes[index].is_null() || stride < size.width as usize {
                return Err("its picture has no plane of 8 bits".to_owned());
            }
            // SAFETY: the plane holds `size` at `stride`, as libaom has said and the checks above have found likely. It
            // lies there until the next picture is encoded, which takes `&mut self`.
            planes.bytes[index] =
                unsafe { std::slice::from_raw_parts(raw.planes[index], Planes::span(size, stride)) };
            planes.strides[index] = stride;
        }
        Ok(planes)
    }

    fn check(&self, result: i32) -> Result<(), String> {
        if result == 0 {
            return Ok(());
        }
        let mut error = [0 as c_char; ERROR_BYTES];
        // SAFETY: `raw` is open, `error` writable for the length given.
        unsafe { glassline_aom_error(self.raw.as_ptr(), error.as_mut_ptr(), error.len()) };
        Err(text(&error))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: `raw` is open and nothing uses it after this.
        unsafe { glassline_aom_free(self.raw.as_ptr()) }
    }
}

/// Where the planes of a picture of 8-bit 4:2:0 lie.
fn raw_planes(picture: &Picture) -> RawPlanes {
    let Size { width, height } = picture.size();
    let mut raw = RawPlanes {
        planes: [ptr::null(); 3],
        strides: [0; 3],
        width: i32::try_from(width).expect("a side fits"),
        height: i32::try_from(height).expect("a side fits"),
    };
    for (index, plane) in picture.planes().iter().enumerate() {
        let needed = Planes::span(plane.size(), plane.stride_bytes());
        assert!(plane.bytes().len() >= needed, "plane is large enough");
        raw.planes[index] = plane.bytes().as_ptr();
        raw.strides[index] = i32::try_from(plane.stride_bytes()).expect("a stride of Size::MAX_SIDE fits");
    }
    raw
}

fn check_layouts() {
    // SAFETY: they take nothing and return constants.
    let shim = unsafe {
        [glassline_aom_settings_bytes(), glassline_aom_colour_bytes(), glassline_aom_planes_bytes()]
    };
    let here = [size_of::<Numbers>(), size_of::<RawColour>(), size_of::<RawPlanes>()];
    assert_eq!(shim, here, "aom_shim.h and the structs here are the same");
}

fn text(error: &[c_char; ERROR_BYTES]) -> String {
    let bytes = error.map(|byte| byte as u8);
    let text = CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned());
    text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "it gave no reason".to_owned())
}
