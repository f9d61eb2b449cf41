//! LL-HLS (RFC 8216; draft-pantos-hls-rfc8216bis, "the draft" here).
//!
//! ```text
//! index.m3u8 ─► video.m3u8, audio.m3u8, … ─► segments, and parts of the newest
//!            └► video-iframes.m3u8 ────────► key frames in the same segments
//! ts.m3u8 ──► the stream's own bytes of the same segments
//! ```
//! `None` is rendered of what there is nothing of yet: the request is to wait.

mod date_ranges;
mod iframes;
mod media;
mod mpeg_ts;
mod multivariant;
mod recorded;
mod reload;

pub use iframes::iframes;
pub use media::{MediaOptions, Report, media};
pub use mpeg_ts::{mpeg_ts, mpeg_ts_variants};
pub use multivariant::{language_of, multivariant};
pub(crate) use recorded::{Listing, Run, recorded, recorded_iframes, recorded_mpeg_ts};
pub use reload::{BadDirective, Decision, Directives, decide};

use super::Object;
use super::date::date_time;
use super::query::Carried;
use crate::packager::{RenditionName, Segment};
use std::fmt::Write as _;

/// `EXT-X-VERSION`: 9 has `EXT-X-SKIP` (the draft §8).
const VERSION: u32 = 9;

/// Writes what stands in front of a segment: where it follows something else than the one before it, its CMAF header, and
/// its time. `before` is the epoch of the segment before it, as far as the reader knows. `base` stands in front of the header's
/// address, and what is carried behind it.
fn write_segment_head(
    out: &mut String,
    rendition: RenditionName,
    segment: &Segment,
    before: Before,
    (base, carried): (&str, &Carried),
) {
    let epoch = segment.epoch;
    if let Before::Told(before) | Before::Skipped(before) = before
        && before != epoch
    {
        out.push_str("#EXT-X-DISCONTINUITY\n");
    }
    if before != Before::Told(epoch) {
        let object = Object::Init { rendition, number: epoch };
        let _ = writeln!(out, "#EXT-X-MAP:URI=\"{base}{object}{carried}\"");
    }
    let _ = writeln!(out, "#EXT-X-PROGRAM-DATE-TIME:{}", date_time(segment.program_date_time));
}

/// What a reader knows about what was before a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// Nothing: it is the first.
    Nothing,
    /// A segment of this epoch, which the playlist skips.
    Skipped(u32),
    /// A segment of this epoch, and its header.
    Told(u32),
}
