//! A camera's own encoder, steered by its driver's controls: the rate where that is asked for, key frames wherever the driver
//! gives them on request.
//!
//! [`CameraRate`] and [`KeyRequests`] decide when; here the driver is asked, and what it answers is logged. Each thing that
//! keeps a camera from following the link is logged once.

use glassline_direct::coded::{CameraRate, IgnoredRate, KEY_REQUEST_TIMEOUT, KeyRequests, RateRange};
use glassline_io::capture::{ControlRange, EncoderControl, EncoderControls};
use glassline_media::quantity::Bitrate;
use glassline_media::{FrameRate, Time};
use std::time::Duration;

/// `V4L2_MPEG_VIDEO_BITRATE_MODE_CBR`.
const CONSTANT_BITRATE: i32 = 1;

/// How a camera's encoder is steered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CameraSettings {
    /// Its rate follows the link. Otherwise it stays as the camera is set, and the other settings too.
    pub adapt: bool,
    /// No more than so many bits a second.
    pub bitrate_max: Option<Bitrate>,
}

/// A camera with the controls that its driver has.
pub(super) struct Camera {
    controls: Box<dyn EncoderControls>,
    /// `None` where the rate is not steered.
    rate: Option<CameraRate>,
    /// `None` where the driver gives no key frame on request.
    keys: Option<KeyRequests>,
    is_refusal_told: bool,
}

impl Camera {
    /// A camera of so many pictures a second before it captures. With [`CameraSettings::adapt`] its encoder is set to a
    /// constant rate, and to key frames that come before a receiver gives up waiting for them, where it gives none on request.
    pub(super) fn new(
        controls: Box<dyn EncoderControls>,
        settings: &CameraSettings,
        rate: Option<FrameRate>,
    ) -> Camera {
        let keys = controls.range(EncoderControl::ForceKeyFrame).map(|_| KeyRequests::default());
        let mut camera = Camera { controls, rate: None, keys, is_refusal_told: false };
        if settings.adapt {
            camera.take_over(settings.bitrate_max, rate);
        }
        camera
    }

    fn take_over(&mut self, bitrate_max: Option<Bitrate>, rate: Option<FrameRate>) {
        let Some(range) = self.controls.range(EncoderControl::Bitrate).and_then(rates_of) else {
            tracing::warn!(
                "the camera's rate cannot be set: its driver has no control V4L2_CID_MPEG_VIDEO_BITRATE; pictures go as \
                 they come. Choose a rate with v4l2-ctl (v4l2-ctl -d DEVICE --list-ctrls lists what there is), or let \
                 --codec h264 code the camera's uncoded pictures"
            );
            return;
        };
        self.rate = Some(CameraRate::new(range, bitrate_max.map(Bitrate::bits_per_second)));
        let modes = self.controls.range(EncoderControl::BitrateMode);
        if modes.is_some_and(|modes| (modes.minimum..=modes.maximum).contains(&CONSTANT_BITRATE)) {
            self.set_quietly(EncoderControl::BitrateMode, CONSTANT_BITRATE);
        }
        if self.keys.is_none()
            && let Some(wanted) = rate.and_then(pictures_between_keys)
            && let Some(range) = self.controls.range(EncoderControl::KeyInterval)
        {
            // An interval of zero or less is none: key frames may then never come.
            let is_short = self
                .controls
                .value(EncoderControl::KeyInterval)
                .is_ok_and(|pictures| (1..=wanted).contains(&pictures));
            if !is_short {
                self.set_quietly(
                    EncoderControl::KeyInterval,
                    wanted.clamp(range.minimum, range.maximum.max(range.minimum)),
                );
            }
        }
    }

    /// Sets what makes steering better and is not needed for it.
    fn set_quietly(&mut self, control: EncoderControl, value: i32) {
        if let Err(error) = self.controls.set(control, value) {
            tracing::debug!(%error, ?control, value, "the camera does not take this");
        }
    }

    /// Takes the length of a unit and the link's budget, as [`CameraRate::handle_unit`] does.
    pub(super) fn handle_unit(&mut self, now: Time, unit_bytes: u64, budget_bytes: u64, horizon: Duration) {
        if let Some(rate) = &mut self.rate {
            rate.handle_unit(now, unit_bytes, budget_bytes, horizon);
        }
    }

    /// Asks the driver for what is due: another rate, or a key frame where only that can be sent.
    pub(super) fn steer(&mut self, now: Time, wants_key: bool) {
        if let Some(keys) = &mut self.keys
            && keys.poll_request(wants_key, now)
            && let Err(error) = self.controls.set(EncoderControl::ForceKeyFrame, 1)
        {
            tracing::warn!(
                "the camera gives no key frame on request ({error}): after a loss pictures go on with the next one of its \
                 own"
            );
            self.keys = None;
        }
        let Some(rate) = &mut self.rate else { return };
        if let Some(IgnoredRate { set_bps, delivered_bps }) = rate.poll_ignored() {
            tracing::warn!(
                "the camera's rate cannot be set: its driver has taken {:.2} Mbit/s, and it delivers {:.2} Mbit/s. Choose a \
                 rate with v4l2-ctl, or let --codec h264 code the camera's uncoded pictures",
                set_bps as f64 / 1e6,
                delivered_bps as f64 / 1e6
            );
        }
        let Some(wanted) = rate.poll_rate(now) else { return };
        let value = i32::try_from(wanted).unwrap_or(i32::MAX);
        match self.controls.set(EncoderControl::Bitrate, value) {
            Ok(set) => rate.handle_set(now, wanted, u64::try_from(set).unwrap_or(0)),
            Err(error) => {
                rate.handle_refused(now);
                if !std::mem::replace(&mut self.is_refusal_told, true) {
                    tracing::warn!(
                        "the camera's rate cannot be set to {:.2} Mbit/s: {error}. This is tried again from time to time; \
                         until then choose a rate with v4l2-ctl",
                        wanted as f64 / 1e6
                    );
                }
            }
        }
    }

    /// The rate that the driver has set last, bits a second.
    pub(super) fn set_bps(&self) -> Option<u64> {
        self.rate.as_ref().and_then(CameraRate::set_bps)
    }
}

/// The rates of a control that are rates; `None` where there is none above zero.
fn rates_of(range: ControlRange) -> Option<RateRange> {
    let maximum_bps = u64::try_from(range.maximum).ok().filter(|maximum| *maximum > 0)?;
    let step = range.step.max(1);
    // Where the least value is no rate, the first step above zero is the least.
    let minimum = if range.minimum > 0 { range.minimum } else { step };
    Some(RateRange {
        minimum_bps: u64::try_from(minimum).ok()?.min(maximum_bps),
        maximum_bps,
        step_bps: u64::try_from(step).ok()?,
    })
}

/// So many pictures pass while a receiver waits for a key frame.
fn pictures_between_keys(rate: FrameRate) -> Option<i32> {
    let pictures = rate.as_f64() * KEY_REQUEST_TIMEOUT.as_secs_f64();
    (pictures >= 1.0).then_some(pictures as i32)
}

#[cfg(test)]
#[path = "camera_tests.rs"]
mod tests;
