//! Playlists of what was recorded: all segments are complete, and none ever leaves the list (RFC 8216 §4.3.3.5).

use super::iframes::write_keys;
use super::media::write_segment;
use super::{Before, VERSION, write_segment_head};
use crate::packager::{Presentation, Rendition, RenditionName, Segment};
use crate::playlist::date::{date_time, seconds};
use crate::playlist::names::Object;
use crate::playlist::query::Carried;
use std::fmt::Write as _;
use std::time::Duration;

/// Segments that follow each other in one epoch of one recording.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    /// What is put in front of the addresses of its objects.
    pub(crate) base: &'a str,
    /// What there is of it.
    pub(crate) presentation: &'a Presentation,
}

/// What a list of recorded segments says beside them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listing<'a> {
    /// Seconds that no segment exceeds when rounded.
    pub(crate) target_secs: u64,
    /// Segments are still added at the end.
    pub(crate) is_growing: bool,
    /// Segments were added, or may have been, when it was read before: what it says of itself stays.
    pub(crate) is_event: bool,
    /// Where players begin, after the beginning of the list.
    pub(crate) begin: Duration,
    /// What is put behind each address.
    pub(crate) carried: &'a Carried,
}

/// Renders the media playlist of a rendition, with a discontinuity between runs.
pub(crate) fn recorded(runs: &[Run<'_>], name: RenditionName, listing: Listing<'_>) -> String {
    let mut out = head(listing);
    let _ = writeln!(out, "#EXT-X-START:TIME-OFFSET={},PRECISE=YES", seconds(listing.begin));
    for (Run { base, presentation }, at) in runs.iter().zip(0..) {
        if at > 0 {
            out.push_str("#EXT-X-DISCONTINUITY\n");
        }
        let Some(rendition) = presentation.rendition(name) else { continue };
        let affixes = (*base, listing.carried);
        // Where there is no segment of it, there is no header either.
        let is_there = rendition.complete().any(|segment| !segment.gap);
        let told = |segment: &Segment| Before::Told(segment.epoch);
        let mut before = Before::Nothing;
        for segment in rendition.complete() {
            if !is_there {
                before = told(segment);
            }
            write_segment_head(&mut out, name, segment, before, affixes);
            write_segment(&mut out, name, segment, affixes);
            before = told(segment);
        }
    }
    end(out, listing)
}

/// Renders the playlist of the key frames of the pictures; `None` where there are none.
pub(crate) fn recorded_iframes(runs: &[Run<'_>], listing: Listing<'_>) -> Option<String> {
    let mut out = head(listing);
    out.push_str("#EXT-X-I-FRAMES-ONLY\n");
    let with_keys = |rendition: &'_ Rendition| -> Vec<Segment> {
        rendition.complete().filter(|segment| !segment.key_frames.is_empty()).cloned().collect()
    };
    let mut has_keys = false;
    for (Run { base, presentation }, at) in runs.iter().zip(0..) {
        // As many as the other lists have, also where a run has no key frame: players match them by it.
        if at > 0 {
            out.push_str("#EXT-X-DISCONTINUITY\n");
        }
        let segments = presentation.rendition(RenditionName::Video).map(with_keys).unwrap_or_default();
        let mut before = Before::Nothing;
        for segment in &segments {
            has_keys = true;
            write_keys(&mut out, segment, before, (*base, listing.carried));
            before = Before::Told(segment.epoch);
        }
    }
    has_keys.then(|| end(out, listing))
}

/// Renders the playlist of segments of MPEG-TS: of runs, each with what stands in front of its addresses.
pub(crate) fn recorded_mpeg_ts(runs: &[(String, Vec<Segment>)], listing: Listing<'_>) -> String {
    let mut out = head_of(super::mpeg_ts::VERSION, listing);
    let _ = writeln!(out, "#EXT-X-START:TIME-OFFSET={},PRECISE=YES", seconds(listing.begin));
    for ((base, segments), at) in runs.iter().zip(0..) {
        if at > 0 {
            out.push_str("#EXT-X-DISCONTINUITY\n");
        }
        for segment in segments {
            let _ = writeln!(out, "#EXT-X-PROGRAM-DATE-TIME:{}", date_time(segment.program_date_time));
            let object = Object::TransportSegment { segment: segment.number };
            let carried = listing.carried;
            let _ = writeln!(out, "#EXTINF:{},\n{base}{object}{carried}", seconds(segment.duration_time()));
        }
    }
    end(out, listing)
}

fn head(listing: Listing<'_>) -> String {
    head_of(VERSION, listing)
}

fn head_of(version: u32, listing: Listing<'_>) -> String {
    let mut out = format!("#EXTM3U\n#EXT-X-VERSION:{version}\n");
    let _ = writeln!(out, "#EXT-X-TARGETDURATION:{}", listing.target_secs);
    out.push_str("#EXT-X-MEDIA-SEQUENCE:0\n#EXT-X-DISCONTINUITY-SEQUENCE:0\n");
    let kind = if listing.is_event { "EVENT" } else { "VOD" };
    let _ = writeln!(out, "#EXT-X-PLAYLIST-TYPE:{kind}");
    out
}

fn end(mut out: String, listing: Listing<'_>) -> String {
    if !listing.is_growing {
        out.push_str("#EXT-X-ENDLIST\n");
    }
    out
}
