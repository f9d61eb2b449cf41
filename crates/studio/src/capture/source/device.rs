//! Pictures from a capture device, at the driver's time.

use super::prepare::Prepare;
use super::{Length, Outlet};
use crate::capture::{Error, Result};
use glassline_io::capture::v4l2::V4l2;
use glassline_io::capture::{Capture, DeviceRequest};
use glassline_io::clock::Clock;
use glassline_media::Time;
use std::path::Path;
use std::time::Duration;

/// How often a device that gives nothing is left for a look whether the user wants to end.
pub(in crate::capture) const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// A driver's stamp that is further from now is not believed.
const MAX_AGE: Duration = Duration::from_secs(1);
/// Sequence numbers that jump further were set anew.
pub(in crate::capture) const MAX_LOST: u32 = 10_000;

/// Opens a Video4Linux2 device.
pub(super) fn open(device: &Path, requested: &DeviceRequest, clock: Clock) -> Result<Box<dyn Capture>> {
    let opened = V4l2::open(device, requested, clock);
    let capture = opened.map_err(|error| Error::Device { name: device.display().to_string(), error })?;
    Ok(Box::new(capture))
}

/// Hands over what `capture` gives until the device fails, the length is reached or the end is asked for.
pub(super) fn run(
    capture: &mut dyn Capture,
    prepare: &mut Prepare,
    length: Length,
    outlet: &mut Outlet<'_>,
) -> Result<()> {
    let format = capture.format();
    let mut expected: Option<u32> = None;
    loop {
        if outlet.consumer.is_stopped() {
            return Ok(());
        }
        let Some(frame) = capture.next(STOP_CHECK_INTERVAL).map_err(Error::DeviceFailed)? else { continue };
        let lost = expected.map_or(0, |expected| frame.sequence.wrapping_sub(expected));
        if lost > 0 && lost < MAX_LOST {
            outlet.consumer.count_dropped(lost.into());
        }
        expected = Some(frame.sequence.wrapping_add(1));
        let arrived = outlet.clock.now();
        let captured = believed(frame.captured, arrived);
        let (converter, scan) = prepare.unpacker();
        let unpacked =
            converter.unpack(frame.bytes, format.layout, format.size, format.stride_bytes, (scan, captured));
        let mut picture = match unpacked {
            Ok(picture) => picture,
            // A cable that was pulled for a moment.
            Err(error) => {
                tracing::debug!("a damaged picture: {error}");
                outlet.consumer.count_dropped(1);
                continue;
            }
        };
        picture.colour = format.colour;
        for picture in prepare.pictures(picture) {
            let captured = picture.captured;
            if length.ends_before(outlet.number, outlet.rate) || !outlet.push_at(picture, captured, arrived) {
                return Ok(());
            }
        }
    }
}

/// The driver's stamp, or now where it cannot be.
pub(in crate::capture) fn believed(stamp: Time, now: Time) -> Time {
    let off = now.since(stamp).max(stamp.since(now));
    if off > MAX_AGE { now } else { stamp }
}
