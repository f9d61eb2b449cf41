//! The playlist of key frames (the draft §4.4.3.6), for fast forward and thumbnails.

use super::super::Object;
use super::super::date::{date_time, seconds};
use super::super::query::Carried;
use super::{Before, VERSION};
use crate::packager::{Bandwidth, Presentation, Rendition, RenditionName, Segment, duration_of, later};
use std::fmt::Write as _;
use std::time::Duration;

/// Renders the playlist of the video's key frames: each is a range of its segment. `None` where there are none.
pub fn iframes(presentation: &Presentation, carried: &Carried) -> Option<String> {
    let rendition = presentation.rendition(RenditionName::Video)?;
    let mut with_keys = rendition.complete().filter(|segment| !segment.key_frames.is_empty());
    let first = with_keys.clone().next()?;
    let mut out = format!("#EXTM3U\n#EXT-X-VERSION:{VERSION}\n");
    let _ = writeln!(out, "#EXT-X-TARGETDURATION:{}", presentation.target_duration_secs());
    let _ = writeln!(out, "#EXT-X-MEDIA-SEQUENCE:{}", first.first_key_frame);
    let _ = writeln!(out, "#EXT-X-DISCONTINUITY-SEQUENCE:{}\n#EXT-X-I-FRAMES-ONLY", first.epoch);
    let mut before = Before::Nothing;
    for segment in with_keys.by_ref() {
        write_keys(&mut out, segment, before, ("", carried));
        before = Before::Told(segment.epoch);
    }
    if presentation.is_ended() {
        out.push_str("#EXT-X-ENDLIST\n");
    }
    Some(out)
}

/// Writes the key frames of a segment. `base` stands in front of their addresses, and what is carried behind them.
pub(super) fn write_keys(
    out: &mut String,
    segment: &Segment,
    mut before: Before,
    (base, carried): (&str, &Carried),
) {
    let rendition = RenditionName::Video;
    let object = Object::Segment { rendition, segment: segment.number };
    for (key, index) in segment.key_frames.iter().zip(1..) {
        if before == Before::Nothing || before != Before::Told(segment.epoch) {
            if before != Before::Nothing {
                out.push_str("#EXT-X-DISCONTINUITY\n");
            }
            let init = Object::Init { rendition, number: segment.epoch };
            let _ = writeln!(out, "#EXT-X-MAP:URI=\"{base}{init}{carried}\"");
            before = Before::Told(segment.epoch);
        }
        // It stands for the time until the next one, as far as that is in the segment.
        let end = segment.key_frames.get(index).map_or(segment.duration, |next| next.time);
        let duration = duration_of(end.saturating_sub(key.time), segment.timescale);
        let date = later(segment.program_date_time, duration_of(key.time, segment.timescale));
        let _ = writeln!(out, "#EXT-X-PROGRAM-DATE-TIME:{}", date_time(date));
        let _ = writeln!(out, "#EXTINF:{},", seconds(duration));
        let _ = writeln!(
            out,
            "#EXT-X-BYTERANGE:{}@{}\n{base}{object}{carried}",
            key.size_bytes, key.offset_bytes
        );
    }
}

/// The rates of the key frames alone; `None` where there are none.
pub(super) fn iframe_bandwidth(rendition: &Rendition) -> Option<Bandwidth> {
    let (mut peak_bps, mut bytes, mut time) = (0u64, 0u64, Duration::ZERO);
    for segment in rendition.complete().filter(|segment| !segment.key_frames.is_empty()) {
        let own: u64 = segment.key_frames.iter().map(|key| key.size_bytes).sum();
        peak_bps = peak_bps.max(rate_bps(own, segment.duration_time()));
        bytes = bytes.saturating_add(own);
        time += segment.duration_time();
    }
    let average_bps = rate_bps(bytes, time).max(1);
    (bytes > 0).then_some(Bandwidth { peak_bps: peak_bps.max(average_bps), average_bps })
}

fn rate_bps(bytes: u64, time: Duration) -> u64 {
    let millis = time.as_millis().max(1);
    u64::try_from(u128::from(bytes) * 8000 / millis).unwrap_or(u64::MAX)
}
