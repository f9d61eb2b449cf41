//! Segments of MPEG-TS (RFC 8216 §3.2), for players that know no fragmented MP4: the stream's own bytes, cut where those of
//! the other playlists are, and numbered alike. There are no parts: these players stay three segments behind the end.

use super::super::Object;
use super::super::date::{date_time, seconds};
use super::super::query::Carried;
use super::super::variant::Variant;
use super::date_ranges::write_date_ranges;
use super::multivariant::write_mpeg_ts;
use crate::packager::Presentation;
use std::fmt::Write as _;
use std::ops::RangeInclusive;

/// `EXT-X-VERSION`: durations are decimal numbers, and there is nothing newer in it (RFC 8216 §7).
pub(super) const VERSION: u32 = 3;

/// Renders the playlist of the segments with numbers in `kept`. `None` where there are none of these.
pub fn mpeg_ts(presentation: &Presentation, kept: RangeInclusive<u64>, carried: &Carried) -> Option<String> {
    let is_kept = |number: u64| kept.contains(&number);
    let mut segments = presentation.lead()?.complete().filter(|segment| is_kept(segment.number)).peekable();
    let first = *segments.peek()?;
    let mut out = format!("#EXTM3U\n#EXT-X-VERSION:{VERSION}\n");
    let _ = writeln!(out, "#EXT-X-TARGETDURATION:{}", presentation.target_duration_secs());
    let _ = writeln!(out, "#EXT-X-MEDIA-SEQUENCE:{}", first.number);
    let _ = writeln!(out, "#EXT-X-DISCONTINUITY-SEQUENCE:{}", first.epoch);
    write_date_ranges(&mut out, presentation, first.program_date_time);
    let mut epoch = first.epoch;
    for segment in segments {
        if segment.epoch != epoch {
            out.push_str("#EXT-X-DISCONTINUITY\n");
            epoch = segment.epoch;
        }
        let _ = writeln!(out, "#EXT-X-PROGRAM-DATE-TIME:{}", date_time(segment.program_date_time));
        let object = Object::TransportSegment { segment: segment.number };
        let _ = writeln!(out, "#EXTINF:{},\n{object}{carried}", seconds(segment.duration_time()));
    }
    if presentation.is_ended() {
        out.push_str("#EXT-X-ENDLIST\n");
    }
    Some(out)
}

/// Renders the multivariant playlist of such playlists: of a ladder's versions, the best first. `None` before there is a
/// part of each rendition of one of them.
pub fn mpeg_ts_variants(variants: &[Variant<'_>], carried: &Carried) -> Option<String> {
    let mut out = format!("#EXTM3U\n#EXT-X-VERSION:{VERSION}\n");
    let count = variants.iter().filter(|variant| write_mpeg_ts(&mut out, **variant, carried)).count();
    (count > 0).then_some(out)
}
