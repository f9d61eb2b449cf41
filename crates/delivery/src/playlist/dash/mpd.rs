//! The manifest (23009-1 §5.3.1) and its periods (§5.3.2).

use super::super::date::{date_time, xml_duration};
use super::super::variant::Variant;
use super::segments::{Listing, regular_length};
use super::set::write_set;
use super::xml::Xml;
use super::{Addressing, Options};
use crate::packager::{Epoch, Presentation, Rendition, Segment, duration_of};
use glassline_media::{Ticks, Utc};
use std::time::Duration;

const PROFILES: &str = "urn:mpeg:dash:profile:isoff-live:2011,urn:mpeg:dash:profile:cmaf:2019,\
                        http://www.dashif.org/guidelines/low-latency-live-v5";
const LATENCY_MIN: Duration = Duration::from_millis(500);
const LATENCY_PARTS: u32 = 3;

/// A variant's rendition in a period.
#[derive(Clone, Copy)]
pub(super) struct Member<'a> {
    /// What is put in front of its addresses.
    pub(super) base: &'a str,
    pub(super) epoch: &'a Epoch,
    pub(super) rendition: &'a Rendition,
}

/// What of an epoch is told.
pub(super) struct Period<'a> {
    pub(super) epoch: &'a Epoch,
    /// What becomes adaptation sets: a rendition, in each of the variants that have it.
    pub(super) sets: Vec<Vec<Member<'a>>>,
    pub(super) listing: Listing,
    /// When it begins in the presentation.
    pub(super) start: Duration,
    /// How long it lasts; `None` while it goes on.
    pub(super) duration: Option<Duration>,
}

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

/// Fills in an element that says where the time is.
pub(super) fn write_utc_timing(xml: &mut Xml, options: &Options) {
    xml.attribute("schemeIdUri", "urn:mpeg:dash:utc:http-iso:2014")
        .attribute("value", &options.utc_timing)
        .close();
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

/// What is told of each epoch: the current one by number, where that is wanted and possible; all else by its list.
fn periods<'a>(lead: Variant<'a>, others: &[Variant<'a>], addressing: Addressing) -> Vec<Period<'a>> {
    let presentation = lead.presentation;
    let current = presentation.current_epoch().map(|epoch| epoch.number);
    let mut periods: Vec<Period<'_>> = Vec::new();
    for epoch in presentation.epochs() {
        let goes_on = current == Some(epoch.number) && !presentation.is_ended();
        let mut sets: Vec<Vec<Member<'a>>> = presentation
            .renditions()
            .iter()
            .map(|rendition| vec![Member { base: lead.base, epoch, rendition }])
            .collect();
        if let Some(video) = sets.iter_mut().find(|set| set[0].rendition.name().is_video()) {
            video.extend(others.iter().filter_map(|other| {
                let (rendition, epoch) = other.counterpart(epoch)?;
                Some(Member { base: other.base, epoch, rendition })
            }));
        }
        let by_number = addressing == Addressing::Number && goes_on;
        let length = Some(()).filter(|()| by_number).and_then(|()| regular_length(&sets));
        let listing = length.map_or(Listing::Timeline, |length| Listing::Regular { length });
        for set in &mut sets {
            set.retain(|member| match listing {
                Listing::Regular { .. } => member.rendition.is_in(member.epoch.number),
                Listing::Timeline => member.complete().next().is_some(),
            });
        }
        sets.retain(|set| !set.is_empty());
        if sets.is_empty() {
            continue;
        }
        let length = presentation.length_of(epoch);
        let mut period =
            Period { epoch, sets, listing, start: epoch.start, duration: (!goes_on).then_some(length) };
        if presentation.is_ended() {
            // What is no longer live begins with what is left of it.
            period.start =
                periods.last().map_or(Duration::ZERO, |last| last.start + last.duration.unwrap_or_default());
            period.duration = Some(length.saturating_sub(period.trimmed()));
        }
        periods.push(period);
    }
    periods
}

impl<'a> Member<'a> {
    /// Its complete segments in the period.
    pub(super) fn complete(&self) -> impl DoubleEndedIterator<Item = &'a Segment> + use<'a> {
        let number = self.epoch.number;
        self.rendition.complete().filter(move |segment| segment.epoch == number)
    }

    /// The segments that it has in the period, without the gaps: segments for a time in which nothing came.
    pub(super) fn listed(&self) -> impl DoubleEndedIterator<Item = &'a Segment> + use<'a> {
        let number = self.epoch.number;
        self.rendition.listed().filter(move |segment| segment.epoch == number && !segment.gap)
    }
}

impl Period<'_> {
    /// How much of its beginning is no longer listed.
    pub(super) fn trimmed(&self) -> Duration {
        let members = self.sets.iter().flatten();
        let firsts = members.filter_map(|member| member.complete().next().map(Segment::start_time));
        let first = duration_of(self.epoch.first_ticks, Ticks::RATE);
        firsts.min().unwrap_or_default().saturating_sub(first)
    }
}

fn write_period(xml: &mut Xml, period: &Period<'_>, is_static: bool, options: &Options) {
    xml.open("Period").attribute("id", period.epoch.number).attribute("start", xml_duration(period.start));
    xml.attribute_if("duration", period.duration.map(xml_duration));
    for set in &period.sets {
        write_set(xml, set, period, is_static, options);
    }
    xml.close();
}
