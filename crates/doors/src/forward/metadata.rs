//! What a service is told of a stream before its media.

use glassline_delivery::forward::Described;
use glassline_transport::rtmp::amf0::Value;

/// The properties of `onMetaData` (FLV 10.1, E.5; Enhanced RTMP v2, "Enhancing onMetaData"): what is known, and nothing made up.
pub(super) fn properties(described: &Described) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    let mut tell = |name: &str, value: Value| all.push((name.to_owned(), value));
    if let Some((id, pictures)) = &described.video {
        tell("width", f64::from(pictures.width_px).into());
        tell("height", f64::from(pictures.height_px).into());
        if let Some(rate) = pictures.frame_rate {
            tell("framerate", rate.as_f64().into());
        }
        tell("videocodecid", f64::from(*id).into());
    }
    if let Some((id, rate_hz, channels)) = described.audio {
        tell("audiocodecid", f64::from(id).into());
        tell("audiosamplerate", f64::from(rate_hz).into());
        tell("audiosamplesize", 16.0.into());
        tell("audiochannels", f64::from(channels).into());
        tell("stereo", (channels > 1).into());
    }
    tell("encoder", concat!("Glassline ", env!("CARGO_PKG_VERSION")).into());
    all
}
