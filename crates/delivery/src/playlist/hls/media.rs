//! A media playlist (the draft §4.4.3 to §4.4.5).

use super::super::Object;
use super::super::date::seconds;
use super::super::query::Carried;
use super::date_ranges::write_date_ranges;
use super::{Before, VERSION, write_segment_head};
use crate::packager::{Position, Presentation, Rendition, RenditionName, Segment};
use std::fmt::Write as _;
use std::time::Duration;

/// Parts are listed of what is at most so many target durations from the end (the draft §4.4.4.9).
const PARTS_TARGETS: u32 = 3;
/// Segments may be skipped that are further from the end than so many target durations, the least that the draft allows
/// (§4.4.3.8).
const SKIP_TARGETS: u32 = 6;
/// Players stay so many target durations, and so many parts, behind the end (§4.4.3.8).
const HOLD_BACK: u32 = 3;
/// Half parts that players stay behind the end: the draft asks for two parts and recommends three, for networks where a part
/// takes its time; a request that waits for its part is answered with its first byte.
const PART_HOLD_BACK: u32 = 5;

/// How far the pictures of another variant are (`EXT-X-RENDITION-REPORT`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// As [`Variant::base`](crate::playlist::Variant::base) has it.
    pub base: String,
    /// The last part that is complete.
    pub last: Position,
}

/// What a media playlist says beside what there is to play.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MediaOptions {
    /// What is put behind each address.
    pub carried: Carried,
    /// The segments that are far from the end are left out: the directive `_HLS_skip`.
    pub skip: bool,
    /// How far other variants are.
    pub others: Vec<Report>,
}

/// Renders a rendition's media playlist. `None` where there is no such rendition, or no part of it yet.
pub fn media(presentation: &Presentation, name: RenditionName, options: &MediaOptions) -> Option<String> {
    let carried = &options.carried;
    let rendition = presentation.rendition(name).filter(|rendition| rendition.is_playable())?;
    let target = Duration::from_secs(presentation.target_duration_secs());
    let mut out = String::with_capacity(4096);
    write_head(&mut out, presentation, rendition, target);
    let skipped = if options.skip { skippable(rendition, target * SKIP_TARGETS) } else { 0 };
    if skipped > 0 {
        let _ = writeln!(out, "#EXT-X-SKIP:SKIPPED-SEGMENTS={skipped}");
    }
    if let Some(first) = rendition.listed().next() {
        write_date_ranges(&mut out, presentation, first.program_date_time);
    }
    let mut before = match skipped.checked_sub(1).and_then(|last| rendition.listed().nth(last)) {
        Some(last) => Before::Skipped(last.epoch),
        None => Before::Nothing,
    };
    let mut to_end = length(rendition.listed().skip(skipped));
    for segment in rendition.listed().skip(skipped) {
        to_end = to_end.saturating_sub(segment.duration_time());
        let with_parts = to_end < target * PARTS_TARGETS;
        if !segment.complete && segment.parts.is_empty() {
            continue;
        }
        write_segment_head(&mut out, name, segment, before, ("", carried));
        write_parts(&mut out, name, segment, with_parts, carried);
        if segment.complete {
            write_segment(&mut out, name, segment, ("", carried));
        }
        before = Before::Told(segment.epoch);
    }
    if presentation.is_ended() {
        out.push_str("#EXT-X-ENDLIST\n");
    } else {
        write_outlook(&mut out, presentation, rendition, options);
    }
    Some(out)
}

fn write_head(out: &mut String, presentation: &Presentation, rendition: &Rendition, target: Duration) {
    let part = rendition.part_target();
    let first = rendition.listed().next().map(|segment| segment.epoch);
    let epoch = first.or(presentation.current_epoch().map(|epoch| epoch.number)).unwrap_or(0);
    let _ = writeln!(out, "#EXTM3U\n#EXT-X-VERSION:{VERSION}");
    let _ = writeln!(out, "#EXT-X-TARGETDURATION:{}", target.as_secs());
    let _ = writeln!(
        out,
        "#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK={},HOLD-BACK={},CAN-SKIP-UNTIL={}",
        // Of what stands below, although that is rounded down.
        seconds(Duration::from_micros(part.as_micros() as u64) * PART_HOLD_BACK / 2),
        seconds(target * HOLD_BACK),
        seconds(target * SKIP_TARGETS),
    );
    let _ = writeln!(out, "#EXT-X-PART-INF:PART-TARGET={}", seconds(part));
    let _ = writeln!(out, "#EXT-X-MEDIA-SEQUENCE:{}", rendition.media_sequence());
    let _ = writeln!(out, "#EXT-X-DISCONTINUITY-SEQUENCE:{epoch}");
}

/// How many segments at the beginning end further than `until` from the end.
fn skippable(rendition: &Rendition, until: Duration) -> usize {
    let mut to_end = length(rendition.listed());
    let is_far = |segment: &&Segment| {
        to_end = to_end.saturating_sub(segment.duration_time());
        to_end > until
    };
    rendition.listed().take_while(is_far).count()
}

fn length<'a>(segments: impl Iterator<Item = &'a Segment>) -> Duration {
    segments.map(Segment::duration_time).sum()
}

fn write_parts(
    out: &mut String,
    rendition: RenditionName,
    segment: &Segment,
    with_parts: bool,
    carried: &Carried,
) {
    let number = segment.number;
    let parts = segment.parts.iter().filter(|_| with_parts);
    for (part, index) in parts.zip(0..) {
        let object = Object::Part { rendition, segment: number, part: index };
        let duration = seconds(segment.part_time(part));
        let independent = if part.independent { ",INDEPENDENT=YES" } else { "" };
        let _ = writeln!(out, "#EXT-X-PART:DURATION={duration},URI=\"{object}{carried}\"{independent}");
    }
}

/// Writes a complete segment. `base` stands in front of its address, and what is carried behind it.
pub(super) fn write_segment(
    out: &mut String,
    rendition: RenditionName,
    segment: &Segment,
    (base, carried): (&str, &Carried),
) {
    if segment.gap {
        out.push_str("#EXT-X-GAP\n");
    }
    let object = Object::Segment { rendition, segment: segment.number };
    let _ = writeln!(out, "#EXTINF:{},\n{base}{object}{carried}", seconds(segment.duration_time()));
}

/// Writes what comes next, and how far the other renditions are (the draft §4.4.5.3, §4.4.5.4).
fn write_outlook(
    out: &mut String,
    presentation: &Presentation,
    rendition: &Rendition,
    options: &MediaOptions,
) {
    let carried = &options.carried;
    let next = rendition.next_part();
    let object = Object::Part { rendition: rendition.name(), segment: next.segment, part: next.part };
    let _ = writeln!(out, "#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"{object}{carried}\"");
    let epoch = presentation.current_epoch().map_or(0, |epoch| epoch.number);
    let others = presentation.renditions().iter();
    for other in others.filter(|other| other.name() != rendition.name() && other.is_in(epoch)) {
        if let Some(last) = other.last_part() {
            write_report(out, "", Object::Media(other.name()), last, carried);
        }
    }
    if rendition.name().is_video() {
        for Report { base, last } in &options.others {
            write_report(out, base, Object::Media(RenditionName::Video), *last, carried);
        }
    }
}

fn write_report(out: &mut String, base: &str, playlist: Object, last: Position, carried: &Carried) {
    let Position { segment, part } = last;
    let _ = writeln!(
        out,
        "#EXT-X-RENDITION-REPORT:URI=\"{base}{playlist}{carried}\",LAST-MSN={segment},LAST-PART={part}"
    );
}
