//! The manifest (23009-1 §5.3.1) and its periods (§5.3.2).

use super::super::variant::Variant;
use super::period::{Listing, Member, Period, periods};
use super::set::write_set;
use super::utc_timing::write_utc_timing;
use super::xml::Xml;
use super::{Addressing, Options, date_time, xml_duration};
use crate::packager::{Presentation, Rendition, Segment};
use glassline_media::Utc;
use std::time::Duration;

pub(super) const PROFILES: &str = "urn:mpeg:dash:profile:isoff-live:2011,urn:mpeg:dash:profile:cmaf:2019,\
                        http://www.dashif.org/guidelines/low-latency-live-v5";
const LATENCY_MIN: Duration = Duration::from_millis(500);
const LATENCY_PARTS: u32 = 3;

/// How far back players may go (23009-1 §5.3.1.2): no further than there is something, and a segment at least. FFmpeg's reader takes a
/// depth that is beyond the beginning for numbers without end, and asks for each segment again and again then.
fn depth(presentation: &Presentation, begun: Utc) -> Duration {
    let age = presentation.changed().as_nanos().saturating_sub(begun.as_nanos());
    let settings = presentation.settings();
    settings.window.min(Duration::from_nanos(age).max(settings.segment))
}

/// Renders the manifest of `variants`, the best first: its periods and its sound are those of the first that has a segment,
/// the pictures of the others stand beside its own. `None` before the first segment is complete.
pub fn mpd(variants: &[Variant<'_>], addressing: Addressing, options: &Options) -> Option<String> {
    let at = variants.iter().position(|variant| !periods(*variant, &[], addressing).is_empty())?;
    let (lead, others) = (variants[at], &variants[at + 1..]);
    let presentation = lead.presentation;
    let periods = periods(lead, others, addressing);
    let last = periods.last()?;
    let begun = presentation.begun()?;
    let mut xml = Xml::new();
    xml.open("MPD").attribute("xmlns", "urn:mpeg:dash:schema:mpd:2011").attribute("profiles", PROFILES);
    let latency = latency(presentation, last, options);
    if presentation.is_ended() {
        let length = last.start + last.duration.unwrap_or_default();
        xml.attribute("type", "static").attribute("mediaPresentationDuration", xml_duration(length));
    } else {
        xml.attribute("type", "dynamic")
            .attribute("availabilityStartTime", date_time(begun))
            .attribute("publishTime", date_time(presentation.changed()))
            .attribute("minimumUpdatePeriod", xml_duration(presentation.settings().segment))
            .attribute("timeShiftBufferDepth", xml_duration(depth(presentation, begun)))
            .attribute("suggestedPresentationDelay", xml_duration(latency));
    }
    let longest = Duration::from_secs(presentation.target_duration_secs());
    xml.attribute("minBufferTime", xml_duration(latency.min(longest)))
        .attribute("maxSegmentDuration", xml_duration(longest + Duration::from_millis(500)));
    if !presentation.is_ended() {
        write_service(&mut xml, latency);
    }
    for period in &periods {
        write_period(&mut xml, period, presentation.is_ended(), options);
    }
    if !presentation.is_ended() {
        xml.open("UTCTiming");
        write_utc_timing(&mut xml, options);
    }
    Some(xml.finish())
}

/// How far behind the live edge players have to stay. A list ends with the last segment that was complete when the list was
/// asked for: a player nearer to the edge than that would find nothing.
fn latency(presentation: &Presentation, newest: &Period<'_>, options: &Options) -> Duration {
    let part = presentation.renditions().iter().map(Rendition::part_target).max().unwrap_or_default();
    let by_parts = options.latency.unwrap_or((part * LATENCY_PARTS).max(LATENCY_MIN));
    match newest.listing {
        Listing::Regular { .. } => by_parts,
        Listing::Timeline => {
            let complete = newest.sets.iter().flatten().flat_map(Member::complete);
            let longest = complete.map(Segment::duration_time).max().unwrap_or_default();
            longest + presentation.settings().segment + by_parts
        }
    }
}

/// How close to the live edge players keep, and how they get there (annex K).
fn write_service(xml: &mut Xml, latency: Duration) {
    let millis = latency.as_millis();
    xml.open("ServiceDescription").attribute("id", 0);
    xml.open("Latency")
        .attribute("referenceId", 0)
        .attribute("target", millis)
        .attribute("max", millis * 4)
        .attribute("min", millis / 2)
        .close();
    xml.open("PlaybackRate").attribute("max", "1.04").attribute("min", "0.96").close();
    xml.close();
}

pub(super) fn write_period(xml: &mut Xml, period: &Period<'_>, is_static: bool, options: &Options) {
    xml.open("Period").attribute("id", period.id).attribute("start", xml_duration(period.start));
    xml.attribute_if("duration", period.duration.map(xml_duration));
    for set in &period.sets {
        write_set(xml, set, period, is_static, options);
    }
    xml.close();
}
