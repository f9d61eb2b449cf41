//! What passes between the encoder and libx264, whether the library is linked or not.

use glassline_media::{Plane, Ticks};
use std::ffi::CString;

/// What libx264 is opened with.
#[cfg_attr(not(feature = "x264"), allow(dead_code))]
#[derive(Clone, Debug)]
pub(super) struct Opening {
    pub(super) preset: CString,
    /// x264's names for kinds of pictures, joined by commas.
    pub(super) tune: Option<CString>,
    pub(super) profile: Option<CString>,
    pub(super) numbers: Numbers,
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
    pub(super) look_ahead: i32,
    pub(super) b_pictures: i32,
    pub(super) references: i32,
    pub(super) references_max: i32,
    pub(super) crf_hundredths: i32,
    pub(super) level: i32,
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

/// A picture that has been encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coded {
    /// When to present it.
    pub pts: Ticks,
    /// When to decode it: the same without a look-ahead.
    pub dts: Ticks,
    /// Whether decoding can start here: IDR, or a recovery point (with intra refresh).
    pub random_access: bool,
    /// Bytes of its NAL units.
    pub bytes: usize,
}

/// What became of a picture.
pub(super) struct Output {
    pub(super) pts: i64,
    pub(super) dts: i64,
    pub(super) key_frame: bool,
}
