//! The boundary to `x264_shim.c`: everything unsafe about libx264 stands here, behind a type that keeps its rules.
#![allow(unsafe_code)]

use glassline_media::Plane;
use std::ffi::{CStr, CString, c_char};
use std::ptr::{self, NonNull};

/// Mirrors `glassline_x264_settings` of the shim.
#[repr(C)]
struct RawSettings {
    preset: *const c_char,
    numbers: Numbers,
}

/// The numbers of `glassline_x264_settings`, in its order.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Numbers {
    pub(super) width: i32,
    pub(super) height: i32,
    pub(super) frame_rate_numerator: i32,
    pub(super) frame_rate_denominator: i32,
    pub(super) bitrate_kbit: i32,
    pub(super) vbv_kbit: i32,
    pub(super) key_interval: i32,
    pub(super) threads: i32,
    pub(super) sliced_threads: i32,
    pub(super) slices: i32,
    pub(super) primaries: i32,
    pub(super) transfer: i32,
    pub(super) matrix: i32,
    pub(super) full_range: i32,
}

#[repr(C)]
struct RawEncoder {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn glassline_x264_settings_bytes() -> usize;
    fn glassline_x264_preset(index: usize) -> *const c_char;
    fn glassline_x264_open(
        settings: *const RawSettings,
        error: *mut c_char,
        error_bytes: usize,
    ) -> *mut RawEncoder;
    fn glassline_x264_encode(
        encoder: *mut RawEncoder,
        planes: *const *const u8,
        strides: *const i32,
        pts: i64,
        force_idr: i32,
        data: *mut *const u8,
        unit_pts: *mut i64,
        unit_dts: *mut i64,
        is_idr: *mut i32,
    ) -> i32;
    fn glassline_x264_headers(encoder: *mut RawEncoder, data: *mut *const u8) -> i32;
    fn glassline_x264_delayed(encoder: *mut RawEncoder) -> i32;
    fn glassline_x264_error(encoder: *mut RawEncoder, error: *mut c_char, error_bytes: usize);
    fn glassline_x264_close(encoder: *mut RawEncoder);
}

/// A coded unit in x264's own buffer: borrowed until the next call.
pub(super) struct Unit<'a> {
    pub(super) data: &'a [u8],
    pub(super) pts: i64,
    pub(super) dts: i64,
    pub(super) is_idr: bool,
}

/// An open encoder.
pub(super) struct Handle {
    raw: NonNull<RawEncoder>,
    width: usize,
    height: usize,
}

// SAFETY: an x264_t is bound to no thread; x264 asks only that calls do not overlap, and every call that touches
// it takes `&mut self`. Sync is left out for the same reason.
unsafe impl Send for Handle {}

/// Texts that come out of C: x264's error messages are shorter.
const ERROR_BYTES: usize = 256;

impl Handle {
    /// Opens an encoder; the error is x264's own text.
    pub(super) fn open(preset: &CStr, numbers: Numbers) -> Result<Handle, String> {
        // SAFETY: takes nothing and returns a constant.
        let shim_bytes = unsafe { glassline_x264_settings_bytes() };
        assert_eq!(shim_bytes, size_of::<RawSettings>(), "x264_shim.h and RawSettings are the same struct");
        let settings = RawSettings { preset: preset.as_ptr(), numbers };
        let mut error = [0 as c_char; ERROR_BYTES];
        // SAFETY: `settings` has the shim's layout (checked above) and its preset ends in NUL; both outlive the
        // call, which keeps no pointer to them. `error` is writable for the length given.
        let raw = unsafe { glassline_x264_open(&raw const settings, error.as_mut_ptr(), error.len()) };
        match NonNull::new(raw) {
            Some(raw) => Ok(Handle { raw, width: numbers.width as usize, height: numbers.height as usize }),
            None => Err(text(&error)),
        }
    }

    /// Encodes one picture of three 8-bit 4:2:0 planes. Panics if the planes are smaller than the encoder's size,
    /// which the caller has checked.
    pub(super) fn encode(
        &mut self,
        planes: &[Plane],
        pts: i64,
        force_idr: bool,
    ) -> Result<Option<Unit<'_>>, String> {
        let mut pointers = [ptr::null(); 3];
        let mut strides = [0i32; 3];
        assert_eq!(planes.len(), 3, "4:2:0 has three planes");
        for (index, plane) in planes.iter().enumerate() {
            let shift = u32::from(index > 0);
            let (width, height) = (self.width >> shift, self.height >> shift);
            let needed = plane.stride_bytes() * height.saturating_sub(1) + width;
            assert!(plane.stride_bytes() >= width && plane.bytes().len() >= needed, "plane is large enough");
            pointers[index] = plane.bytes().as_ptr();
            strides[index] = i32::try_from(plane.stride_bytes()).expect("a stride of Size::MAX_SIDE fits");
        }
        self.call(pointers.as_ptr(), strides.as_ptr(), pts, force_idr)
    }

    /// Gives the next unit of those that x264 holds back, without a new picture.
    pub(super) fn drain(&mut self) -> Result<Option<Unit<'_>>, String> {
        self.call(ptr::null(), ptr::null(), 0, false)
    }

    fn call(
        &mut self,
        planes: *const *const u8,
        strides: *const i32,
        pts: i64,
        force_idr: bool,
    ) -> Result<Option<Unit<'_>>, String> {
        let mut data = ptr::null();
        let (mut unit_pts, mut unit_dts, mut is_idr) = (0, 0, 0);
        // SAFETY: `raw` is open. `planes` and `strides` are both null, which drains, or arrays of three whose
        // planes were checked to hold the encoder's size; x264 copies the picture before it returns and reads no
        // byte after the last line. The out pointers are valid for the call.
        let bytes = unsafe {
            glassline_x264_encode(
                self.raw.as_ptr(),
                planes,
                strides,
                pts,
                i32::from(force_idr),
                &raw mut data,
                &raw mut unit_pts,
                &raw mut unit_dts,
                &raw mut is_idr,
            )
        };
        match usize::try_from(bytes) {
            Err(_) => Err(self.error()),
            Ok(0) => Ok(None),
            Ok(bytes) => {
                // SAFETY: x264 gave `bytes` bytes at `data`, which stay until the next call on this encoder; the
                // borrow of `self` keeps that from happening.
                let data = unsafe { std::slice::from_raw_parts(data, bytes) };
                Ok(Some(Unit { data, pts: unit_pts, dts: unit_dts, is_idr: is_idr != 0 }))
            }
        }
    }

    /// SPS, PPS and x264's SEI in Annex B form.
    pub(super) fn headers(&mut self) -> Result<&[u8], String> {
        let mut data = ptr::null();
        // SAFETY: `raw` is open and `data` valid for the call.
        let bytes = unsafe { glassline_x264_headers(self.raw.as_ptr(), &raw mut data) };
        match usize::try_from(bytes) {
            Err(_) => Err(self.error()),
            // SAFETY: as for a unit: valid until the next call, which the borrow forbids.
            Ok(bytes) => Ok(unsafe { std::slice::from_raw_parts(data, bytes) }),
        }
    }

    /// Pictures that went in and have not come out.
    pub(super) fn delayed(&mut self) -> usize {
        // SAFETY: `raw` is open.
        usize::try_from(unsafe { glassline_x264_delayed(self.raw.as_ptr()) }).unwrap_or(0)
    }

    fn error(&mut self) -> String {
        let mut error = [0 as c_char; ERROR_BYTES];
        // SAFETY: `raw` is open, `error` writable for the length given.
        unsafe { glassline_x264_error(self.raw.as_ptr(), error.as_mut_ptr(), error.len()) };
        text(&error)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: `raw` is open and nothing uses it after this.
        unsafe { glassline_x264_close(self.raw.as_ptr()) }
    }
}

/// The names of x264's presets, fastest first.
pub(super) fn presets() -> impl Iterator<Item = &'static CStr> {
    (0..).map_while(|index| {
        // SAFETY: any index may be asked; the result is null or a string constant of the header.
        let name = unsafe { glassline_x264_preset(index) };
        // SAFETY: not null, so a NUL-terminated constant.
        (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })
    })
}

fn text(error: &[c_char; ERROR_BYTES]) -> String {
    let bytes: Vec<u8> = error.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
    let text = CString::new(bytes).expect("cut at the first NUL").to_string_lossy().into_owned();
    if text.is_empty() { "it gave no reason".to_owned() } else { text }
}
