//! The manifest (23009-1 §5.3.1) and its periods (§5.3.2).

use super::super::date::{date_time, xml_duration};
use super::segments::{Listing, is_regular};
use super::set::write_set;
use super::xml::Xml;
use super::{Addressing, Options};
use crate::packager::{Epoch, Presentation, Rendition, Segment, duration_of};
use glassline_media::Ticks;
use std::time::Duration;

const PROFILES: &str = "urn:mpeg:dash:profile:isoff-live:2011,urn:mpeg:dash:profile:cmaf:2019,\
                        http://www.dashif.org/guidelines/low-latency-live-v5";
const LATENCY_MIN: Duration = Duration::from_millis(500);
const LATENCY_PARTS: u32 = 3;

/// What of an epoch is told.
pub(super) struct Period<'a> {
    pub(super) epoch: &'a Epoch,
    pub(super) renditions: Vec<&'a Rendition>,
    pub(super) listing: Listing,
    /// When it begins in the presentation.
    pub(super) start: Duration,
    /// How long it lasts; `None` while it goes on.
    pub(super) duration: Option<Duration>,
}

/// Renders the manifest. `None` before the first segment is complete.
pub fn mpd(presentation: &Presentation, addressing: Addressing, options: &Options) -> Option<String> {
    let periods = periods(presentation, addressing);
    let last = periods.last()?;
    let begun = presentation.begun()?;
    let mut xml = Xml::new();
    xml.open("MPD").attribute("xmlns", "urn:mpeg:dash:schema:mpd:2011").attribute("profiles", PROFILES);
    let latency = latency(presentation, options);
    if presentation.is_ended() {
        let length = last.start + last.duration.unwrap_or_default();
        xml.attribute("type", "static").attribute("mediaPresentationDuration", xml_duration(length));
    } else {
        xml.attribute("type", "dynamic")
            .attribute("availabilityStartTime", date_time(begun))
            .attribute("publishTime", date_time(presentation.changed()))
            .attribute("minimumUpdatePeriod", xml_duration(presentation.settings().segment))
            .attribute("timeShiftBufferDepth", xml_duration(presentation.settings().window))
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

/// How far behind the live edge players are to be.
fn latency(presentation: &Presentation, options: &Options) -> Duration {
    let part = presentation.renditions().iter().map(Rendition::part_target).max().unwrap_or_default();
    options.latency.unwrap_or((part * LATENCY_PARTS).max(LATENCY_MIN))
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
fn periods(presentation: &Presentation, addressing: Addressing) -> Vec<Period<'_>> {
    let current = presentation.current_epoch().map(|epoch| epoch.number);
    let mut periods: Vec<Period<'_>> = Vec::new();
    for epoch in presentation.epochs() {
        let goes_on = current == Some(epoch.number) && !presentation.is_ended();
        let by_number = addressing == Addressing::Number && goes_on && is_regular(presentation, epoch);
        let listing = match epoch.segment_ticks.filter(|_| by_number) {
            Some(ticks) => Listing::Regular { ticks },
            None => Listing::Timeline,
        };
        let has_some = |rendition: &&Rendition| {
            rendition.complete().any(|segment| segment.epoch == epoch.number)
                || by_number && rendition.is_in(epoch.number)
        };
        let renditions: Vec<_> = presentation.renditions().iter().filter(has_some).collect();
        if renditions.is_empty() {
            continue;
        }
        let length = presentation.length_of(epoch);
        let mut period =
            Period { epoch, renditions, listing, start: epoch.start, duration: (!goes_on).then_some(length) };
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

impl Period<'_> {
    /// How much of its beginning is no longer listed.
    pub(super) fn trimmed(&self) -> Duration {
        let firsts = self.renditions.iter().filter_map(|rendition| {
            rendition.complete().find(|segment| segment.epoch == self.epoch.number).map(Segment::start_time)
        });
        let first = duration_of(self.epoch.first_ticks, Ticks::RATE);
        firsts.min().unwrap_or_default().saturating_sub(first)
    }
}

fn write_period(xml: &mut Xml, period: &Period<'_>, is_static: bool, options: &Options) {
    xml.open("Period").attribute("id", period.epoch.number).attribute("start", xml_duration(period.start));
    xml.attribute_if("duration", period.duration.map(xml_duration));
    for rendition in &period.renditions {
        write_set(xml, rendition, period, is_static, options);
    }
    xml.close();
}
