//! Capture devices: pictures as a driver hands them over.
//!
//! [`Capture`] is what pictures are taken from: [`v4l2`] behind it here, a fake in tests. Sound devices are ALSA's
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
