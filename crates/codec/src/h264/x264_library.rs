//! What passes between the encoder and libx264, whether the library is linked or not.

use glassline_media::Plane;

#[cfg(feature = "x264")]
pub(super) use super::x264_ffi::{Handle, headers};
#[cfg(not(feature = "x264"))]
pub(super) use absent::{Handle, headers};

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
    pub(super) slices: i32,
    pub(super) intra_refresh: i32,
    pub(super) filler: i32,
    pub(super) quantizers_given: i32,
    pub(super) primaries: i32,
    pub(super) transfer: i32,
    pub(super) matrix: i32,
    pub(super) full_range: i32,
    pub(super) fields: i32,
    pub(super) sample_width: i32,
    pub(super) sample_height: i32,
}

/// A picture to encode.
#[cfg_attr(not(feature = "x264"), allow(dead_code))]
pub(super) struct Input<'a> {
    /// Three planes of 8-bit 4:2:0.
    pub(super) planes: &'a [Plane],
    pub(super) pts: i64,
    pub(super) force_idr: bool,
    /// Where the encoder was opened for quantisers that are given.
    pub(super) quantizer: u8,
    /// Payload of an SEI message of unregistered user data.
    pub(super) user_data: Option<&'a [u8]>,
}

/// What became of a picture.
pub(super) struct Output {
    pub(super) pts: i64,
    pub(super) dts: i64,
    pub(super) key_frame: bool,
}

/// Stands for the library in a build without it: nothing can be opened.
#[cfg(not(feature = "x264"))]
mod absent {
    use super::super::x264_slices::Collector;
    use super::{Input, Numbers, Output};
    use std::ffi::CStr;

    const ABSENT: &str = "this build was made without libx264";

    /// There is none.
    pub(in super::super) enum Handle {}

    impl Handle {
        pub(in super::super) fn open(_: &CStr, _: Numbers) -> Result<Handle, String> {
            Err(ABSENT.to_owned())
        }

        pub(in super::super) fn encode(
            &mut self,
            _: &Input<'_>,
            _: &Collector<'_, '_>,
        ) -> Result<Option<Output>, String> {
            match *self {}
        }

        pub(in super::super) fn set_rate(&mut self, _: i32, _: i32) -> Result<(), String> {
            match *self {}
        }

        pub(in super::super) fn set_preset(&mut self, _: &CStr) -> Result<(), String> {
            match *self {}
        }
    }

    pub(in super::super) fn headers(_: &CStr, _: Numbers) -> Result<Vec<u8>, String> {
        Err(ABSENT.to_owned())
    }
}
