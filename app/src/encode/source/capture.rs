//! Pictures from a capture device, at the driver's time.

use super::prepare::Prepare;
use super::{Length, Outlet};
use crate::failure;
use anyhow::{Context, Result};
use glassline_io::capture::v4l2::V4l2;
use glassline_io::capture::{Capture, CaptureError, Wish};
use glassline_io::clock::Clock;
use glassline_media::Time;
use std::path::Path;
use std::time::Duration;

/// How often a device that gives nothing is left for a look whether the user wants to end.
const PATIENCE: Duration = Duration::from_millis(200);
/// A driver's stamp that is further from now is not believed.
const MAX_AGE: Duration = Duration::from_secs(1);
/// Sequence numbers that jump further were set anew.
const MAX_LOST: u32 = 10_000;

/// Opens a Video4Linux2 device.
pub(super) fn open(device: &Path, wish: &Wish, clock: Clock) -> Result<Box<dyn Capture>> {
    let name = device.display();
    match V4l2::open(device, wish, clock) {
        Ok(capture) => Ok(Box::new(capture)),
        Err(error) => {
            let advice = match &error {
                CaptureError::System { .. } => {
                    "check that it is there and that you may open it (group video)"
                }
                CaptureError::UnknownRate => "say it: v4l2:DEVICE?rate=50",
                CaptureError::Layout { .. } => {
                    "let ffmpeg decode it: ffmpeg -f v4l2 -i DEVICE -f yuv4mpegpipe - | glassline encode - …"
                }
                _ => "v4l2-ctl -d DEVICE --list-formats-ext says what it gives",
            };
            Err(failure::failed(format_args!("{name}: {error}"), advice))
        }
    }
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
        if outlet.feed.is_stopped() {
            return Ok(());
        }
        let Some(frame) = capture.next(PATIENCE).context("the capture device failed")? else { continue };
        let lost = expected.map_or(0, |expected| frame.sequence.wrapping_sub(expected));
        if lost > 0 && lost < MAX_LOST {
            outlet.feed.count_dropped(lost.into());
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
                outlet.feed.count_dropped(1);
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
fn believed(stamp: Time, now: Time) -> Time {
    let off = now.since(stamp).max(stamp.since(now));
    if off > MAX_AGE { now } else { stamp }
}
