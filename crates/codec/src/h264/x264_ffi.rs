//! The boundary to `x264_shim.c`: everything unsafe about libx264 stands here, behind a type that keeps its rules.
#![allow(unsafe_code)]

use super::x264_interface::{Input, Numbers, Opening, Output};
use super::x264_slices::{Collector, Head};
use glassline_media::bitstream::h264::NalType;
use std::any::Any;
use std::ffi::{CStr, CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{self, NonNull};

/// Mirrors `glassline_x264_settings` of the shim.
#[repr(C)]
struct RawSettings {
    preset: *const c_char,
    tune: *const c_char,
    profile: *const c_char,
    numbers: Numbers,
}

impl RawSettings {
    /// Points into `opening`.
    fn of(opening: &Opening) -> RawSettings {
        let name = |name: &Option<CString>| name.as_ref().map_or(ptr::null(), |name| name.as_ptr());
        let Opening { preset, tune, profile, numbers } = opening;
        RawSettings { preset: preset.as_ptr(), tune: name(tune), profile: name(profile), numbers: *numbers }
    }
}

/// Mirrors `glassline_x264_nal_sink`.
type NalSink = extern "C" fn(*const c_void, *mut c_void, *mut c_void, usize, i32, i32, i32);

/// Mirrors `glassline_x264_unit_sink`.
type UnitSink = extern "C" fn(*const c_void, *const u8, usize, usize);

/// Mirrors `glassline_x264_input`.
#[repr(C)]
struct RawInput {
    pts: i64,
    planes: [*const u8; 3],
    user_data: *const u8,
    sink: NalSink,
    context: *const c_void,
    strides: [i32; 3],
    user_data_bytes: i32,
    force_idr: i32,
    quantizer: i32,
}

/// Mirrors `glassline_x264_output`.
#[repr(C)]
#[derive(Default)]
struct RawOutput {
    pts: i64,
    dts: i64,
    key_frame: i32,
    reserved: i32,
}

#[repr(C)]
struct RawEncoder {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn glassline_x264_settings_bytes() -> usize;
    fn glassline_x264_input_bytes() -> usize;
    fn glassline_x264_output_bytes() -> usize;
    #[cfg(test)]
    fn glassline_x264_preset(index: usize) -> *const c_char;
    fn glassline_x264_open(
        settings: *const RawSettings,
        error: *mut c_char,
        error_bytes: usize,
    ) -> *mut RawEncoder;
    fn glassline_x264_encode(encoder: *mut RawEncoder, input: *const RawInput, output: *mut RawOutput)
    -> i32;
    fn glassline_x264_encode_delayed(
        encoder: *mut RawEncoder,
        input: *const RawInput,
        sink: UnitSink,
        context: *const c_void,
        output: *mut RawOutput,
    ) -> i32;
    fn glassline_x264_delayed(encoder: *const RawEncoder) -> i32;
    fn glassline_x264_delayed_max(encoder: *const RawEncoder) -> i32;
    fn glassline_x264_nal_write(
        x264: *mut c_void,
        nal: *mut c_void,
        out: *mut u8,
        long_start_code: i32,
    ) -> usize;
    fn glassline_x264_set_rate(encoder: *mut RawEncoder, bitrate_kbit: i32, vbv_kbit: i32) -> i32;
    fn glassline_x264_set_preset(encoder: *mut RawEncoder, preset: *const c_char) -> i32;
    fn glassline_x264_headers(
        settings: *const RawSettings,
        out: *mut u8,
        room: usize,
        error: *mut c_char,
        error_bytes: usize,
    ) -> i32;
    fn glassline_x264_error(encoder: *mut RawEncoder, error: *mut c_char, error_bytes: usize);
    fn glassline_x264_close(encoder: *mut RawEncoder);
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
/// Parameter sets and x264's own message, which tells its settings, are far smaller.
const HEADERS_BYTES: usize = 64 * 1024;

impl Handle {
    /// Opens an encoder; the error is x264's own text.
    pub(super) fn open(opening: &Opening) -> Result<Handle, String> {
        check_layouts();
        let (settings, numbers) = (RawSettings::of(opening), opening.numbers);
        let mut error = [0 as c_char; ERROR_BYTES];
        // SAFETY: `settings` has the shim's layout (checked above) and its names end in NUL; they outlive the call,
        // which keeps no pointer to them. `error` is writable for the length given.
        let raw = unsafe { glassline_x264_open(&raw const settings, error.as_mut_ptr(), error.len()) };
        match NonNull::new(raw) {
            Some(raw) => Ok(Handle { raw, width: numbers.width as usize, height: numbers.height as usize }),
            None => Err(text(&error)),
        }
    }

    /// A picture as the shim takes it, pointing into `input`. Panics if the planes are smaller than the encoder's size.
    fn raw_input(&self, input: &Input<'_>, context: *const c_void) -> RawInput {
        let mut planes = [ptr::null(); 3];
        let mut strides = [0i32; 3];
        assert_eq!(input.planes.len(), 3, "4:2:0 has three planes");
        for (index, plane) in input.planes.iter().enumerate() {
            let shift = u32::from(index > 0);
            let (width, height) = (self.width >> shift, self.height >> shift);
            let needed = plane.stride_bytes() * height.saturating_sub(1) + width;
            assert!(plane.stride_bytes() >= width && plane.bytes().len() >= needed, "plane is large enough");
            planes[index] = plane.bytes().as_ptr();
            strides[index] = i32::try_from(plane.stride_bytes()).expect("a stride of Size::MAX_SIDE fits");
        }
        let user_data = input.user_data.unwrap_or_default();
        RawInput {
            pts: input.pts,
            planes,
            user_data: input.user_data.map_or(ptr::null(), <[u8]>::as_ptr),
            sink: on_nal,
            context,
            strides,
            user_data_bytes: i32::try_from(user_data.len()).expect("the caller keeps user data short"),
            force_idr: i32::from(input.force_idr),
            quantizer: input.quantizer.into(),
        }
    }

    /// Encodes one picture, and passes its NAL units to `collector` while x264 works. Panics if the planes are smaller
    /// than the encoder's size, which the caller has checked.
    pub(super) fn encode(
        &mut self,
        input: &Input<'_>,
        collector: &Collector<'_, '_>,
    ) -> Result<Option<Output>, String> {
        let raw = self.raw_input(input, ptr::from_ref(collector).cast());
        let mut output = RawOutput::default();
        // SAFETY: `self.raw` is open, `raw` and `output` have the shim's layouts (checked when it was opened). The
        // planes were checked to hold the encoder's size; x264 copies the picture before it returns and reads no
        // byte after the last line. User data is read during the call alone, and `context` is the collector that
        // `on_nal` expects, used during the call alone.
        let result = unsafe { glassline_x264_encode(self.raw.as_ptr(), &raw const raw, &raw mut output) };
        match result {
            ..0 => Err(self.error()),
            0 => Ok(None),
            1.. => Ok(Some(Output { pts: output.pts, dts: output.dts, key_frame: output.key_frame != 0 })),
        }
    }

    /// With a look-ahead: takes a picture in, or none where the source has ended, and gives the unit of an earlier one to `take`,
    /// with the number of bytes in front of its first slice. Panics if the planes are smaller than the encoder's size, which the
    /// caller has checked, and where `take` does, when x264 has returned.
    pub(super) fn encode_delayed(
        &mut self,
        input: Option<&Input<'_>>,
        take: &mut dyn FnMut(&[u8], usize),
    ) -> Result<Option<Output>, String> {
        let mut taker = Taker { take, panic: None };
        let context = ptr::from_mut(&mut taker).cast_const().cast::<c_void>();
        let raw = input.map(|input| self.raw_input(input, ptr::null()));
        let raw = raw.as_ref().map_or(ptr::null(), ptr::from_ref);
        let mut output = RawOutput::default();
        // SAFETY: `self.raw` is open, `raw` is null or has the shim's layout like `output` (checked when it was opened). The
        // planes were checked to hold the encoder's size; x264 copies the picture before it returns and reads no byte after
        // the last line. `context` is the taker that `on_unit` expects, used during the call alone and on this thread.
        let result = unsafe {
            glassline_x264_encode_delayed(self.raw.as_ptr(), raw, on_unit, context, &raw mut output)
        };
        if let Some(panic) = taker.panic {
            resume_unwind(panic);
        }
        match result {
            ..0 => Err(self.error()),
            0 => Ok(None),
            1.. => Ok(Some(Output { pts: output.pts, dts: output.dts, key_frame: output.key_frame != 0 })),
        }
    }

    /// Pictures that are inside.
    pub(super) fn delayed(&self) -> u32 {
        // SAFETY: `raw` is open, and only read.
        unsafe { glassline_x264_delayed(self.raw.as_ptr()) }.max(0).unsigned_abs()
    }

    /// How many there can be at most.
    pub(super) fn delayed_max(&self) -> u32 {
        // SAFETY: `raw` is open, and only read.
        unsafe { glassline_x264_delayed_max(self.raw.as_ptr()) }.max(0).unsigned_abs()
    }

    /// Changes the rate from the next picture on.
    pub(super) fn set_rate(&mut self, bitrate_kbit: i32, vbv_kbit: i32) -> Result<(), String> {
        // SAFETY: `raw` is open.
        let result = unsafe { glassline_x264_set_rate(self.raw.as_ptr(), bitrate_kbit, vbv_kbit) };
        if result < 0 { Err(self.error()) } else { Ok(()) }
    }

    /// Changes how much time the next pictures take.
    pub(super) fn set_preset(&mut self, preset: &CStr) -> Result<(), String> {
        // SAFETY: `raw` is open and `preset` ends in NUL; no pointer to it is kept.
        let result = unsafe { glassline_x264_set_preset(self.raw.as_ptr(), preset.as_ptr()) };
        if result < 0 { Err(self.error()) } else { Ok(()) }
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

/// SPS, PPS and x264's SEI, in Annex B form, of an encoder with these settings.
pub(super) fn headers(opening: &Opening) -> Result<Vec<u8>, String> {
    check_layouts();
    let settings = RawSettings::of(opening);
    let mut error = [0 as c_char; ERROR_BYTES];
    let mut bytes = vec![0; HEADERS_BYTES];
    // SAFETY: as for `Handle::open`; `bytes` is writable for the length given.
    let written = unsafe {
        let (room, error_bytes) = (bytes.len(), error.len());
        glassline_x264_headers(&raw const settings, bytes.as_mut_ptr(), room, error.as_mut_ptr(), error_bytes)
    };
    bytes.truncate(usize::try_from(written).map_err(|_| text(&error))?);
    Ok(bytes)
}

fn check_layouts() {
    // SAFETY: they take nothing and return constants.
    let shim = unsafe {
        [glassline_x264_settings_bytes(), glassline_x264_input_bytes(), glassline_x264_output_bytes()]
    };
    let here = [size_of::<RawSettings>(), size_of::<RawInput>(), size_of::<RawOutput>()];
    assert_eq!(shim, here, "x264_shim.h and the structs here are the same");
}

/// Where a whole unit goes.
struct Taker<'a> {
    take: &'a mut dyn FnMut(&[u8], usize),
    /// One must not run through C.
    panic: Option<Box<dyn Any + Send>>,
}

/// Called within `glassline_x264_encode_delayed`, at most once, on the caller's thread.
extern "C" fn on_unit(context: *const c_void, bytes: *const u8, count: usize, head_bytes: usize) {
    // SAFETY: `Handle::encode_delayed` passed a taker that it borrows mutably and does not touch until the call returns.
    let taker = unsafe { &mut *context.cast_mut().cast::<Taker<'_>>() };
    // SAFETY: x264 has written `count` bytes there, which stay until its next call.
    let bytes = unsafe { std::slice::from_raw_parts(bytes, count) };
    let taken = catch_unwind(AssertUnwindSafe(|| (taker.take)(bytes, head_bytes.min(count))));
    taker.panic = taken.err();
}

/// Called by x264, on its threads or the caller's, for each finished NAL unit.
extern "C" fn on_nal(
    context: *const c_void,
    x264: *mut c_void,
    nal: *mut c_void,
    bytes_max: usize,
    kind: i32,
    first_mb: i32,
    last_mb: i32,
) {
    // SAFETY: `Handle::encode` passed a collector that lives until x264 returns, and x264 calls only before that.
    // It is shared between threads: a `Collector` is Sync, which `collectors_are_shared` below has checked.
    let collector = unsafe { &*context.cast::<Collector<'_, '_>>() };
    let kind = NalType::of(kind as u8);
    let first_of_unit = matches!(kind, NalType::AccessUnitDelimiter | NalType::Sps | NalType::Pps);
    let head =
        Head { kind, first_mb: first_mb.max(0).unsigned_abs(), last_mb: last_mb.max(0).unsigned_abs() };
    collector.take(head, |bytes| {
        bytes.reserve(bytes_max);
        // SAFETY: `x264` and `nal` are what x264 called with, during its call. It writes at most `bytes_max` bytes,
        // for which there is room, and returns how many it has written. It keeps a pointer to them and does not
        // use it: with nalu_process set it only adds up the sizes.
        unsafe {
            let written = glassline_x264_nal_write(x264, nal, bytes.as_mut_ptr(), i32::from(first_of_unit));
            bytes.set_len(written.min(bytes_max));
        }
    });
}

/// Compiles only where a collector may be used by several threads at once.
const _: fn() = || {
    fn is_sync<T: Sync>() {}
    fn collectors_are_shared<'a: 'b, 'b: 'a>() {
        is_sync::<Collector<'a, 'b>>();
    }
    let _ = collectors_are_shared;
};

/// The names of x264's presets, fastest first.
#[cfg(test)]
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
