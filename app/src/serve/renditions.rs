//! The versions of one capture beside each other: which streams those are, their names say.

use glassline_delivery::policy::StreamName;
use glassline_streams::status::StreamStatus;
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
            let Some(version) = stream.name.version() else { continue };
            groups.entry(version.group.to_string()).or_default().push(Rendition::of(stream));
        }
        for renditions in groups.values_mut() {
            renditions.sort_by_key(|one| Reverse((one.height, one.millirate(), one.bitrate_bps)));
        }
        Groups(groups)
    }

    /// All versions of what the stream called `name` is one of, itself among them; none where it is by itself.
    pub(super) fn renditions(&self, name: &StreamName) -> Vec<Rendition> {
        let renditions = name.version().and_then(|version| self.0.get(version.group.as_str()));
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
