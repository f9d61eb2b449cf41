//! H.264 that a camera codes itself, and the controls of its encoder.
//!
//! A camera that codes fills each buffer with an access unit in Annex B (`V4L2_PIX_FMT_H264`). The device starts with the first
//! picture that is taken, not when it is opened: drivers refuse some controls while they capture, and pictures that were
//! coded before there is a link could not be sent.

use super::{Stream, failed, names_of, offered_formats, open_capture, set_format, set_rate};
use crate::capture::{
    CaptureError, CodedCapture, ControlRange, DeviceRequest, EncoderControl, EncoderControls, Frame, raw,
};
use crate::clock::Clock;
use glassline_media::FrameRate;
use rustix::fd::{AsFd, OwnedFd};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// `V4L2_PIX_FMT_H264`.
const H264: [u8; 4] = *b"H264";

/// A device that gives H.264. Dropping it ends that.
#[derive(Debug)]
pub struct CodedV4l2 {
    stream: Stream,
    rate: Option<FrameRate>,
    is_started: bool,
}

impl CodedV4l2 {
    /// Opens `path` (`/dev/video0`) and sets it up for H.264 of the size and rate of `request`, of which the layout is not
    /// looked at.
    ///
    /// # Errors
    /// [`CaptureError`] where the device cannot be opened, gives no H.264, or gives another size or rate.
    pub fn open(path: &Path, request: &DeviceRequest, clock: Clock) -> Result<CodedV4l2, CaptureError> {
        let device = open_capture(path)?;
        let offered = offered_formats(&device);
        if !offered.contains(&H264) {
            return Err(CaptureError::NotCoded { found: names_of(&offered) });
        }
        set_format(&device, H264, request.size)?;
        let rate = set_rate(&device, request.rate)?;
        Ok(CodedV4l2 { stream: Stream::new(device, clock), rate, is_started: false })
    }

    /// The controls of the device's encoder.
    #[must_use]
    pub fn controls(&self) -> Box<dyn EncoderControls> {
        Box::new(Controls { device: Arc::clone(&self.stream.device) })
    }
}

impl CodedCapture for CodedV4l2 {
    fn rate(&self) -> Option<FrameRate> {
        self.rate
    }

    fn next(&mut self, timeout: Duration) -> io::Result<Option<Frame<'_>>> {
        if !self.is_started {
            let start = self.stream.start();
            start.map_err(|error| io::Error::new(error.kind(), failed("start it", error).to_string()))?;
            self.is_started = true;
        }
        self.stream.next(timeout)
    }
}

/// The controls of an open device.
struct Controls {
    device: Arc<OwnedFd>,
}

fn id_of(control: EncoderControl) -> u32 {
    match control {
        EncoderControl::Bitrate => raw::BITRATE,
        EncoderControl::BitrateMode => raw::BITRATE_MODE,
        EncoderControl::ForceKeyFrame => raw::FORCE_KEY_FRAME,
        EncoderControl::KeyInterval => raw::H264_I_PERIOD,
    }
}

/// What a driver's answer says of a control.
fn range_of(found: &raw::QueryControl) -> Option<ControlRange> {
    let is_settable = found.flags & (raw::CONTROL_DISABLED | raw::CONTROL_READ_ONLY) == 0;
    // A driver that names no step, or a range that is none, is taken at its least value.
    let maximum = found.maximum.max(found.minimum);
    is_settable.then_some(ControlRange { minimum: found.minimum, maximum, step: found.step.max(1) })
}

impl EncoderControls for Controls {
    fn range(&self, control: EncoderControl) -> Option<ControlRange> {
        let mut found = raw::QueryControl { id: id_of(control), ..raw::QueryControl::default() };
        raw::QUERY_CONTROL.of(self.device.as_fd(), &mut found).ok()?;
        range_of(&found)
    }

    fn value(&self, control: EncoderControl) -> io::Result<i32> {
        raw::control_value(self.device.as_fd(), id_of(control))
    }

    fn set(&mut self, control: EncoderControl, value: i32) -> io::Result<i32> {
        raw::set_control(self.device.as_fd(), id_of(control), value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_file_that_is_no_camera_is_refused_by_what_it_is() {
        let open = |path: &str| {
            CodedV4l2::open(Path::new(path), &DeviceRequest::default(), Clock::new()).unwrap_err().to_string()
        };
        assert!(open("/dev/null").contains("no capture device"), "{}", open("/dev/null"));
        assert!(open("/dev/no-such-camera").contains("cannot open it"), "{}", open("/dev/no-such-camera"));
    }

    #[test]
    fn what_is_no_camera_has_no_controls_and_refuses_to_set_one() {
        let device = Arc::new(OwnedFd::from(File::open("/dev/null").unwrap()));
        let mut controls = Controls { device };
        for control in [
            EncoderControl::Bitrate,
            EncoderControl::BitrateMode,
            EncoderControl::ForceKeyFrame,
            EncoderControl::KeyInterval,
        ] {
            assert_eq!(controls.range(control), None);
            let kernel = Some(libc::ENOTTY);
            assert_eq!(controls.value(control).unwrap_err().raw_os_error(), kernel);
            assert_eq!(controls.set(control, 1).unwrap_err().raw_os_error(), kernel);
        }
    }

    #[test]
    fn a_control_that_cannot_be_written_is_none_and_a_step_is_at_least_one() {
        let found = |flags, step| {
            let answer = raw::QueryControl { minimum: 5, maximum: 9, step, flags, ..Default::default() };
            range_of(&answer)
        };
        assert_eq!(found(0, 2), Some(ControlRange { minimum: 5, maximum: 9, step: 2 }));
        assert_eq!(found(0, 0), Some(ControlRange { minimum: 5, maximum: 9, step: 1 }));
        assert_eq!([found(raw::CONTROL_DISABLED, 1), found(raw::CONTROL_READ_ONLY, 1)], [None; 2]);
    }
}
