//! What makes a stream one of a constant rate: the mux rate, the delay of its stamps, and the VBV that fits into it.

use super::settings::Settings;
use super::{MuxRateError, sound};
use crate::capture::Format;
use glassline_codec::h264::x264;
use glassline_media::Ticks;
use glassline_media::container::ts::ConstantRate;
use glassline_media::container::ts::constant_rate::Load;
use glassline_media::quantity::Bitrate;
use std::time::Duration;

/// 980 ms: receivers need hold no more than a second, and not all of them hold that of H.264, of which they have to hold
/// ten (ISO/IEC 13818-1 §2.4.2.6). The VBV is as long as that lets it be.
const LONGEST_DELAY: Ticks = Ticks(88_200);

/// How a rendition of constant rate is coded and muxed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Plan {
    /// What the muxer keeps.
    pub(super) rate: ConstantRate,
    /// How much later than their capture the stamps are.
    pub(super) decode_delay: Ticks,
    /// How long the VBV may be.
    pub(super) vbv: Duration,
    /// More than this the pictures may not take.
    pub(super) bitrate_limit: Bitrate,
}

/// The plan for pictures of `format` that are coded as `coding` says; `None` where no constant rate was asked for.
///
/// # Errors
/// A mux rate that does not hold the stream, and one without a constant rate.
pub(super) fn plan(
    settings: &Settings,
    coding: &x264::Settings,
    format: Format,
    sound: Option<&sound::Stream>,
) -> Result<Option<Plan>, MuxRateError> {
    if !coding.filler {
        return match settings.mux_rate {
            None => Ok(None),
            Some(_) => Err(MuxRateError::NotConstant),
        };
    }
    // x264 counts in kilobits.
    let video_bps = coding.bitrate_bps.next_multiple_of(1000);
    let mut load = Load {
        video_bps,
        vbv: coding.vbv,
        frame_rate: format.rate,
        key_interval: settings.keyint.time(format.rate),
        sound: sound.map(|sound| sound.load),
    };
    let least = load.mux_rate_bps();
    let mux_rate_bps = settings.mux_rate.map_or(least, Bitrate::bits_per_second);
    if mux_rate_bps < least {
        let [asked, least] = [mux_rate_bps, least].map(Bitrate::from_bits_per_second);
        let holds = load.video_bps_within(mux_rate_bps) / 1000 * 1000;
        let holds = (holds > 0).then(|| Bitrate::from_bits_per_second(holds));
        return Err(MuxRateError::TooLow { asked, pictures: settings.bitrate, least, holds });
    }
    load.vbv = load.vbv_within(LONGEST_DELAY, mux_rate_bps);
    let limit = load.video_bps_within(mux_rate_bps).max(video_bps) / 1000 * 1000;
    Ok(Some(Plan {
        rate: ConstantRate { mux_rate_bps, frame_rate: format.rate },
        decode_delay: load.decode_delay(mux_rate_bps),
        vbv: load.vbv,
        bitrate_limit: Bitrate::from_bits_per_second(limit),
    }))
}

#[cfg(test)]
mod tests {
    use super::super::settings::Vbv;
    use super::*;
    use glassline_media::{Colour, FrameRate, Size};

    fn planned(settings: &Settings) -> Result<Option<Plan>, MuxRateError> {
        let (size, rate) = (Size::new(1280, 720).unwrap(), FrameRate::new(50, 1).unwrap());
        let format =
            Format { size, rate, colour: Colour::BT709, sample_aspect: None, fields: None, live: true };
        plan(settings, &settings.x264(format, false), format, None)
    }

    #[test]
    fn the_rate_holds_what_was_asked_for_and_may_be_more() {
        assert_eq!(planned(&Settings::default()).unwrap(), None);
        let cbr = Settings { cbr: true, ..Settings::default() };
        let plan = planned(&cbr).unwrap().unwrap();
        assert!((5_200_000..5_400_000).contains(&plan.rate.mux_rate_bps), "{plan:?}");
        assert_eq!(plan.bitrate_limit, cbr.bitrate);
        // A VBV of a second is one of 0.97 s.
        assert!(plan.vbv > Duration::from_millis(900) && plan.vbv < Duration::from_secs(1), "{plan:?}");
        assert!(plan.decode_delay <= LONGEST_DELAY + Ticks(1), "{plan:?}");
        let more = Settings { mux_rate: Some(Bitrate::from_bits_per_second(10_000_000)), ..cbr };
        let plan = planned(&more).unwrap().unwrap();
        assert_eq!(plan.rate.mux_rate_bps, 10_000_000);
        assert!(plan.bitrate_limit > Bitrate::from_bits_per_second(9_000_000), "{plan:?}");
        let small = Settings { constant_size: true, ..Settings::default() };
        let plan = planned(&small).unwrap().unwrap();
        assert_eq!(plan.vbv, Duration::from_millis(20));
        assert!(plan.decode_delay < Ticks(4_500), "{plan:?}");
        let short = Settings { vbv: Vbv::Time(Duration::from_millis(200)), ..more };
        assert_eq!(planned(&short).unwrap().unwrap().vbv, Duration::from_millis(200));
    }

    #[test]
    fn a_rate_that_does_not_hold_it_is_refused_with_one_that_does() {
        let mux_rate = Some(Bitrate::from_bits_per_second(5_000_000));
        let cbr = Settings { cbr: true, mux_rate, ..Settings::default() };
        let Err(MuxRateError::TooLow { pictures, least, holds, .. }) = planned(&cbr) else {
            panic!("too low")
        };
        assert_eq!(pictures, cbr.bitrate);
        // What it proposes does.
        let larger = Settings { mux_rate: Some(least), ..cbr.clone() };
        assert!(planned(&larger).unwrap().is_some());
        assert!(planned(&Settings { bitrate: holds.unwrap(), ..cbr.clone() }).unwrap().is_some());
        assert_eq!(planned(&Settings { cbr: false, ..cbr }), Err(MuxRateError::NotConstant));
    }
}
