//! The addresses and times of segments: `SegmentTemplate` (23009-1 §5.3.9).

use super::super::names::{Object, segment_template};
use super::Options;
use super::mpd::Period;
use super::xml::Xml;
use crate::packager::{Epoch, Presentation, Rendition, Segment, TrackInfo, duration_of, ticks_of};
use glassline_media::Ticks;

/// How the segments of a period are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    /// All last about so many ticks of 90 kHz.
    Regular {
        /// The length.
        ticks: u64,
    },
    /// Each by its time.
    Timeline,
}

/// Whether segments begin where equal lengths would have them, give or take half of one (23009-1 §5.3.9.5.3: the most that
/// players have to expect).
pub(super) fn is_regular(presentation: &Presentation, epoch: &Epoch) -> bool {
    let Some(length) = epoch.segment_ticks else { return false };
    let mut segments = presentation.renditions().iter().flat_map(|rendition| {
        let is_own = |segment: &&Segment| segment.epoch == epoch.number && !segment.gap;
        rendition.listed().filter(is_own)
    });
    segments.all(|segment| {
        let start = ticks_of(segment.start_time(), Ticks::RATE).saturating_sub(epoch.first_ticks);
        let due = segment.number.saturating_sub(epoch.first_segment).saturating_mul(length);
        // Half a segment is what the standard allows (ISO/IEC 23009-1 §5.3.9.2.1); a little more does not hurt, since what is
        // asked for too early waits.
        start.abs_diff(due) <= length * 5 / 8
    })
}

/// Writes a rendition's addresses in a period. `is_static`: nothing is added any more.
pub(super) fn write_template(
    xml: &mut Xml,
    rendition: &Rendition,
    track: &TrackInfo,
    period: &Period<'_>,
    is_static: bool,
    options: &Options,
) {
    let name = rendition.name();
    let carried = &options.carried;
    let init = Object::Init { rendition: name, number: period.epoch.number };
    xml.open("SegmentTemplate")
        .attribute("initialization", format!("{init}{carried}"))
        .attribute("media", format!("{}{carried}", segment_template(name)));
    let first = duration_of(period.epoch.first_ticks, Ticks::RATE);
    match period.listing {
        Listing::Regular { ticks } => {
            let length = duration_of(ticks, Ticks::RATE);
            let chunk = duration_of(track.chunk_ticks.into(), track.timescale);
            xml.attribute("timescale", Ticks::RATE)
                .attribute("presentationTimeOffset", period.epoch.first_ticks)
                .attribute("startNumber", period.epoch.first_segment)
                .attribute("duration", ticks)
                .attribute(
                    "availabilityTimeOffset",
                    format!("{:.3}", length.saturating_sub(chunk).as_secs_f64()),
                )
                .attribute("availabilityTimeComplete", "false");
        }
        Listing::Timeline => {
            let segments = || rendition.complete().filter(|segment| segment.epoch == period.epoch.number);
            let number = segments().next().map_or(period.epoch.first_segment, |segment| segment.number);
            let offset = if is_static { first + period.trimmed() } else { first };
            xml.attribute("timescale", track.timescale)
                .attribute("presentationTimeOffset", ticks_of(offset, track.timescale))
                .attribute("startNumber", number);
            write_timeline(xml, segments());
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
