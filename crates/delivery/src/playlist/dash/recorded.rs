//! The manifest of what was recorded: a period for each run of segments, listed by their times (23009-1 §5.3.9.6).

use super::mpd::{PROFILES, write_period};
use super::period::{Listing, Member, Period};
use super::utc_timing::write_utc_timing;
use super::xml::Xml;
use super::{Options, date_time, xml_duration};
use crate::packager::Presentation;
use glassline_media::Utc;
use std::time::Duration;

/// A run of segments in which the renditions are the same, as a presentation of one epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedPeriod<'a> {
    /// What is put in front of the addresses of its objects.
    pub(crate) base: &'a str,
    /// What there is of it. Its epoch begins with the run.
    pub(crate) presentation: &'a Presentation,
    /// When it begins by the clock.
    pub(crate) utc: Utc,
}

/// What a manifest of recorded segments says beside them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recorded<'a> {
    /// More follows.
    pub(crate) is_growing: bool,
    /// More followed, or may have, when it was read before.
    pub(crate) is_event: bool,
    /// Seconds that no segment exceeds when rounded.
    pub(crate) target_secs: u64,
    /// When it was made.
    pub(crate) now: Utc,
    /// Where it is read again, where that is another address than it was asked for at.
    pub(crate) location: Option<&'a str>,
}

/// Renders the manifest; `None` where there is no run.
pub(crate) fn recorded(
    runs: &[RecordedPeriod<'_>],
    about: Recorded<'_>,
    options: &Options,
) -> Option<String> {
    let mut periods: Vec<Period<'_>> = Vec::new();
    let begun = runs.first()?.utc;
    for (run, id) in runs.iter().zip(0..) {
        let before = periods.last().map(|last| last.start + last.duration.unwrap_or_default());
        let by_clock = Duration::from_nanos(run.utc.as_nanos().saturating_sub(begun.as_nanos()));
        // In what was over before it was asked for, periods follow each other without a hole, which players may hang in. What goes on
        // has each where the clock has it: neither the zero of that clock nor a period moves (23009-1 §5.3.1.2, §5.4), at its end neither.
        let start = match before {
            Some(before) if about.is_event => before.max(by_clock),
            before => before.unwrap_or_default(),
        };
        periods.extend(period(run, id, start));
    }
    let end = periods.last().map(|last| last.start + last.duration.unwrap_or_default())?;
    if let Some(last) = periods.last_mut().filter(|_| about.is_growing) {
        last.duration = None;
    }
    let target = Duration::from_secs(about.target_secs);
    let mut xml = Xml::new();
    xml.open("MPD").attribute("xmlns", "urn:mpeg:dash:schema:mpd:2011").attribute("profiles", PROFILES);
    if about.is_growing {
        xml.attribute("type", "dynamic")
            .attribute("availabilityStartTime", date_time(begun))
            .attribute("publishTime", date_time(about.now))
            .attribute("minimumUpdatePeriod", xml_duration(target))
            // All of it stays: there is no timeShiftBufferDepth.
            .attribute("suggestedPresentationDelay", xml_duration(target * 3));
    } else {
        xml.attribute("type", "static").attribute("mediaPresentationDuration", xml_duration(end));
    }
    xml.attribute("minBufferTime", xml_duration(target))
        .attribute("maxSegmentDuration", xml_duration(target + Duration::from_millis(500)));
    if let Some(location) = about.location.filter(|_| about.is_growing) {
        xml.text_element("Location", location);
    }
    for period in &periods {
        write_period(&mut xml, period, !about.is_growing, options);
    }
    if about.is_growing {
        xml.open("UTCTiming");
        write_utc_timing(&mut xml, options);
    }
    Some(xml.finish())
}

/// A run as a period that begins at `start`; `None` where nothing of it can be told.
fn period<'a>(run: &RecordedPeriod<'a>, id: u32, start: Duration) -> Option<Period<'a>> {
    let epoch = run.presentation.current_epoch()?;
    let members = run.presentation.renditions().iter();
    let members = members.map(|rendition| Member { base: run.base, epoch, rendition });
    let sets: Vec<_> =
        members.filter(|member| member.complete().next().is_some()).map(|member| vec![member]).collect();
    let duration = run.presentation.length_of(epoch);
    let (listing, events) = (Listing::Timeline, &[][..]);
    let has_sets = !sets.is_empty();
    has_sets.then_some(Period { id, epoch, sets, listing, events, start, duration: Some(duration) })
}
