//! The addresses and times of segments: `SegmentTemplate` (23009-1 §5.3.9).

use super::super::names::{Object, segment_template};
use super::Options;
use super::period::{Listing, Member, Period};
use super::xml::Xml;
use crate::packager::{Segment, TrackInfo, duration_of, ticks_of};
use glassline_media::Ticks;

/// Writes a rendition's addresses in a period. `is_static`: nothing is added any more.
pub(super) fn write_template(
    xml: &mut Xml,
    member: &Member<'_>,
    track: &TrackInfo,
    period: &Period<'_>,
    is_static: bool,
    options: &Options,
) {
    let (Member { base, epoch, rendition }, carried) = (*member, &options.carried);
    let name = rendition.name();
    let init = Object::Init { rendition: name, number: epoch.number };
    xml.open("SegmentTemplate")
        .attribute("initialization", format!("{base}{init}{carried}"))
        .attribute("media", format!("{base}{}{carried}", segment_template(name)));
    let first = duration_of(epoch.first_ticks, Ticks::RATE);
    match period.listing {
        Listing::Regular { length } => {
            let chunk = duration_of(track.chunk_ticks.into(), track.timescale);
            xml.attribute("timescale", length.timescale())
                .attribute("presentationTimeOffset", ticks_of(first, length.timescale()))
                .attribute("startNumber", epoch.first_segment)
                .attribute("duration", length.ticks())
                .attribute(
                    "availabilityTimeOffset",
                    format!("{:.3}", length.times(1).saturating_sub(chunk).as_secs_f64()),
                )
                .attribute("availabilityTimeComplete", "false");
        }
        Listing::Timeline => {
            let number = member.complete().next().map_or(epoch.first_segment, |segment| segment.number);
            let offset = if is_static { first + period.trimmed() } else { first };
            xml.attribute("timescale", track.timescale)
                .attribute("presentationTimeOffset", ticks_of(offset, track.timescale))
                .attribute("startNumber", number);
            write_timeline(xml, member.complete());
        }
    }
    xml.close();
}

/// Writes when each segment is: runs of equal lengths that follow each other are one entry.
fn write_timeline<'a>(xml: &mut Xml, segments: impl Iterator<Item = &'a Segment>) {
    let mut segments = segments.peekable();
    let (mut runs, mut end): (Vec<(u64, u64, u64)>, u64) = (Vec::new(), 0);
    while let Some(segment) = segments.next() {
        // Until the next one, so that there is neither a hole nor an overlap, even where pictures are reordered oddly.
        let start = segment.start.max(end);
        let until = segments.peek().map_or(segment.end(), |next| next.start);
        let length = until.saturating_sub(start).max(1);
        match runs.last_mut() {
            Some((_, each, count)) if *each == length && end == start => *count += 1,
            _ => runs.push((start, length, 1)),
        }
        end = start.saturating_add(length);
    }
    xml.open("SegmentTimeline");
    for (start, length, count) in runs {
        xml.open("S").attribute("t", start).attribute("d", length);
        xml.attribute_if("r", (count > 1).then_some(count - 1)).close();
    }
    xml.close();
}
