//! Which streams are versions of one capture: by their names, as `glassline encode --rendition` and `[encode.NAME]` give
//! them, whoever publishes them and from wherever.

use glassline_engine::relay::StreamStatus;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// One version.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Rendition {
    /// The stream's name.
    name: String,
    live: bool,
    /// Of the picture; `None` until its headers were seen.
    width: Option<u32>,
    height: Option<u32>,
    frame_rate: Option<f64>,
    /// Over the last two seconds.
    bitrate_bps: u64,
}

/// The versions of each capture, best first.
#[derive(Debug, Default)]
pub(super) struct Groups(BTreeMap<String, Vec<Rendition>>);

impl Groups {
    /// The groups among `streams`.
    pub(super) fn of<'a>(streams: impl IntoIterator<Item = &'a StreamStatus>) -> Groups {
        let mut groups: BTreeMap<String, Vec<Rendition>> = BTreeMap::new();
        for stream in streams {
            let Some(group) = group(stream.name.as_str()) else { continue };
            groups.entry(group.to_owned()).or_default().push(Rendition::of(stream));
        }
        for renditions in groups.values_mut() {
            renditions.sort_by_key(|one| Reverse((one.height, one.millirate(), one.bitrate_bps)));
        }
        Groups(groups)
    }

    /// All versions of what the stream called `name` is one of, itself among them; none where it is by itself.
    pub(super) fn renditions(&self, name: &str) -> Vec<Rendition> {
        let renditions = group(name).and_then(|group| self.0.get(group));
        renditions.filter(|renditions| renditions.len() > 1).cloned().unwrap_or_default()
    }
}

impl Rendition {
    fn of(stream: &StreamStatus) -> Rendition {
        let video = stream.video.as_ref();
        Rendition {
            name: stream.name.to_string(),
            live: stream.live,
            width: video.map(|video| video.size.width),
            height: video.map(|video| video.size.height),
            frame_rate: video.and_then(|video| Some(video.frame_rate?.as_f64())),
            bitrate_bps: stream.bitrate_bps,
        }
    }

    /// Pictures in a thousand seconds.
    fn millirate(&self) -> u64 {
        (self.frame_rate.unwrap_or(0.0) * 1000.0) as u64
    }
}

/// The name that renditions of one capture share: of `hall-720p50` and `hall-360p25-500k`, as `encode --rendition`
/// names them, `hall`.
pub(super) fn group(name: &str) -> Option<&str> {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_rendition =
        |text: &str| text.split_once('p').is_some_and(|(height, rate)| number(height) && number(rate));
    let is_rate = |text: &str| {
        let digits = text.strip_suffix(['k', 'M']).unwrap_or("");
        digits.split('.').all(number)
    };
    let (mut group, mut last) = name.rsplit_once('-')?;
    if is_rate(last) {
        (group, last) = group.rsplit_once('-')?;
    }
    (is_rendition(last) && !group.is_empty()).then_some(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renditions_are_grouped_by_their_names() {
        for (name, expected) in [
            ("hall-720p50", Some("hall")),
            ("main-hall-360p25-500k", Some("main-hall")),
            ("hall-360p25-2.5M", Some("hall")),
            ("hall", None),
            ("hall-720p", None),
            ("hall-500k", None),
            ("-720p50", None),
            ("720p50", None),
            ("hall-p50", None),
        ] {
            assert_eq!(group(name), expected, "{name}");
        }
    }
}
