//! Capture devices: pictures as a driver hands them over.
//!
//! [`Capture`] is what pictures are taken from, [`CodedCapture`] what H.264 is taken from that a camera codes itself, and
//! [`EncoderControls`] what steers its encoder: [`v4l2`] behind them here, a fake in tests. Sound devices are ALSA's
//! (`alsa`, with the feature of that name).

#[cfg(feature = "alsa")]
pub mod alsa;
mod raw;
pub mod v4l2;

use glassline_media::pixels::{FieldOrder, PackedFormat};
use glassline_media::{Colour, FrameRate, Size, Time};
use std::io;
use std::time::Duration;
use thiserror::Error;

/// What a device's pictures are like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Format {
    /// Width and height.
    pub size: Size,
    /// Pictures a second, two fields counting as one.
    pub rate: FrameRate,
    /// How samples lie.
    pub layout: PackedFormat,
    /// Bytes from one line to the next.
    pub stride_bytes: usize,
    /// Which field comes first, where a picture is two.
    pub fields: Option<FieldOrder>,
    /// What the samples mean.
    pub colour: Colour,
}

/// A picture in the driver's memory.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// As the format says.
    pub bytes: &'a [u8],
    /// When the driver got it, on the monotonic clock.
    pub captured: Time,
    /// Counts up by one; a gap is pictures that were lost.
    pub sequence: u32,
}

/// A device that is capturing.
pub trait Capture: Send {
    /// What its pictures are like: fixed while it runs.
    fn format(&self) -> Format;

    /// The next picture; `None` where none came within `timeout`. The driver gets the memory back with the next call.
    ///
    /// # Errors
    /// The device failed or went away: no picture follows.
    fn next(&mut self, timeout: Duration) -> io::Result<Option<Frame<'_>>>;
}

/// A device that is capturing pictures which it has coded itself.
pub trait CodedCapture: Send {
    /// Pictures a second, where the driver or the request names them.
    fn rate(&self) -> Option<FrameRate>;

    /// The next buffer of H.264 in Annex B, as a rule an access unit; `None` where none came within `timeout`. The first
    /// call starts the device. The driver gets the memory back with the next call.
    ///
    /// # Errors
    /// The device cannot be started, failed or went away: no picture follows.
    fn next(&mut self, timeout: Duration) -> io::Result<Option<Frame<'_>>>;
}

/// A control of a camera's encoder, `V4L2_CID_MPEG_VIDEO_…` of `linux/v4l2-controls.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EncoderControl {
    /// `BITRATE`, bits a second.
    Bitrate,
    /// `BITRATE_MODE`: 0 variable, 1 constant, 2 constant quality.
    BitrateMode,
    /// `FORCE_KEY_FRAME`: a button, which any value presses.
    ForceKeyFrame,
    /// `H264_I_PERIOD`: pictures from one key frame to the next.
    KeyInterval,
}

/// The values that a control takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlRange {
    /// The least value.
    pub minimum: i32,
    /// The largest value.
    pub maximum: i32,
    /// Values are the least one and multiples of this above it; at least 1.
    pub step: i32,
}

/// The controls of a camera's encoder, which may be set while it captures.
pub trait EncoderControls: Send {
    /// The values that a control takes; `None` where the driver does not have it, or not for writing.
    fn range(&self, control: EncoderControl) -> Option<ControlRange>;

    /// The value that a control has.
    ///
    /// # Errors
    /// The driver's answer.
    fn value(&self, control: EncoderControl) -> io::Result<i32>;

    /// Sets a control, and says which value the driver has made of it. May take as long as a request over USB takes.
    ///
    /// # Errors
    /// The driver's answer: `EINVAL` or `ERANGE` for a value that it does not take, `EBUSY` while it captures.
    fn set(&mut self, control: EncoderControl, value: i32) -> io::Result<i32>;
}

/// What is asked of a device. What is left out is the device's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceRequest {
    /// Width and height.
    pub size: Option<Size>,
    /// Pictures a second.
    pub rate: Option<FrameRate>,
    /// How samples lie.
    pub layout: Option<PackedFormat>,
}

/// A device that cannot be used as asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// A system call failed.
    #[error("cannot {action}: {error}")]
    System {
        /// What was tried.
        action: &'static str,
        /// The kernel's answer.
        error: io::Error,
    },
    /// Not what we can read from.
    #[error("it is no capture device that streams single-planar pictures")]
    Kind,
    /// Only compressed or unknown layouts.
    #[error("it gives {found} and none of YUYV, UYVY, NV12, NV16{wished}")]
    Layout {
        /// Four-character codes.
        found: String,
        /// What was asked for, as a half-sentence.
        wished: String,
    },
    /// No H.264 that the device codes itself.
    #[error("it gives {found} and no H264")]
    NotCoded {
        /// Four-character codes.
        found: String,
    },
    /// Another size than asked for.
    #[error("it gives pictures of {found}, not {wished}")]
    Size {
        /// What the driver offers.
        found: String,
        /// What was asked for.
        wished: Size,
    },
    /// Another rate than asked for.
    #[error("it gives {found} pictures a second, not {wished}")]
    Rate {
        /// What the driver offers.
        found: FrameRate,
        /// What was asked for.
        wished: FrameRate,
    },
    /// The driver knows no rate.
    #[error("its driver does not say how many pictures a second it gives")]
    UnknownRate,
}
