//! Playlists and manifests of recordings, rendered from a [`Window`] by the writers of live ones.
//!
//! ```text
//! index.m3u8?from=T&to=T ─► video.m3u8?from=T&to=T ─► archive/SESSION/video/N.m4s
//! ts.m3u8?from=T&to=T ─────────────────────────────► archive/SESSION/ts/N.ts
//! manifest.mpd?from=T&to=T ────────────────────────► archive/SESSION/video/$Number$.m4s
//! ```
//! The list is whole (`VOD`, `EXT-X-ENDLIST`, `static`) where nothing follows in the time that was asked for, and else one to which
//! segments are added (`EVENT`, `dynamic`). A list without an end that was asked for stays an `EVENT` when it is whole. Times in the addresses of a multivariant playlist are those of the clock, so that all
//! its lists begin with one segment also where the viewer has asked for a time before now.

use super::names::ARCHIVE_FOLDER;
use super::query::{FROM, Span, TO};
use super::window::{Cut, PERIODS_MAX, Row, Window};
use crate::packager::{
    Epoch, KeyFrame, Presentation, Rendition, RenditionName, Segment, TrackInfo, duration_of, ticks_of,
};
use crate::playlist::dash::{self, Recorded, RecordedPeriod};
use crate::playlist::hls::{self, Listing, Run};
use crate::playlist::{Carried, Object, Variant, date_time_micros};
use glassline_media::{Ticks, Utc};
use std::ops::Range;
use std::time::Duration;

/// How playlists are told.
#[derive(Clone, Copy, Debug)]
pub struct Telling<'a> {
    /// Where players of DASH ask for the time.
    pub utc_timing: &'a str,
    /// How long segments are by the configuration: `EXT-X-TARGETDURATION` of what grows leaves room for it.
    pub segment: Duration,
}

/// Whether a manifest of it would have more periods than players can do with: what is missing cuts it into so many.
pub fn is_cut_up(window: &Window<'_>, object: Object) -> bool {
    let is_manifest = matches!(object, Object::NumberManifest | Object::TimelineManifest);
    is_manifest && window.runs(Cut::AtGaps).len() > PERIODS_MAX
}

/// Renders `object`, a playlist or a manifest, of what is in `window`. `query` is the viewer's, of which the token and what else is
/// no time goes into all addresses. `None` where the window has nothing of that kind.
pub fn render(
    window: &Window<'_>,
    object: Object,
    query: &str,
    now: Utc,
    telling: Telling<'_>,
) -> Option<String> {
    match object {
        Object::Multivariant => multivariant(window, query),
        Object::Media(name) => media(window, name, query, telling),
        Object::IFrames => iframes(window, query, telling),
        Object::TransportMedia => mpeg_ts(window, query, telling),
        Object::NumberManifest | Object::TimelineManifest => manifest(window, object, query, now, telling),
        _ => None,
    }
}

/// The address of `object` with the times of `span` by the clock, for players that come again.
fn addressed(query: &str, span: Option<Span>) -> Carried {
    let [from, to] =
        [span.map(|span| span.from), span.and_then(|span| span.to)].map(|utc| utc.map(date_time_micros));
    let mut added = Vec::new();
    added.extend(from.as_deref().map(|from| (FROM, from)));
    added.extend(to.as_deref().map(|to| (TO, to)));
    Carried::with(Some(query), &added, &[FROM, TO])
}

/// What goes behind the addresses of segments, which are the same whatever the time that was asked for.
fn behind_segments(query: &str) -> Carried {
    Carried::with(Some(query), &[], &[FROM, TO])
}

fn multivariant(window: &Window<'_>, query: &str) -> Option<String> {
    let rows = window.rows();
    let renditions = window.renditions().into_iter().filter_map(|name| {
        let mut track = rows.iter().rev().find_map(|row| track_of(row, name))?.clone();
        track.epoch = 1;
        track.codec = codecs(rows, name);
        let segments = rows.iter().filter_map(|row| recorded_segment(row, name));
        let segments: Vec<_> = segments.map(|segment| Segment { epoch: 1, ..segment }).collect();
        Some(Rendition::recorded(name, vec![track], segments))
    });
    let presentation = Presentation::recorded(epoch(1, 0, 0), renditions.collect(), rows.first()?.utc);
    hls::multivariant(&[Variant::alone(&presentation)], &addressed(query, window.span()))
}

/// All codecs that a rendition has in its epochs, the last one first: a player has to decode each (RFC 8216 §4.3.4.2).
fn codecs(rows: &[Row<'_>], name: RenditionName) -> String {
    let mut codecs: Vec<&str> = Vec::new();
    let mut before = None;
    for row in rows.iter().rev() {
        let of = (row.recording.session(), row.epoch);
        if let Some(track) = track_of(row, name)
            && before.replace(of) != Some(of)
            && !codecs.contains(&track.codec.as_str())
        {
            codecs.push(&track.codec);
        }
    }
    codecs.join(",")
}

fn media(window: &Window<'_>, name: RenditionName, query: &str, telling: Telling<'_>) -> Option<String> {
    if !window.renditions().contains(&name) {
        return None;
    }
    let runs = presentations(window, Cut::Nowhere, &[name]);
    let carried = behind_segments(query);
    Some(hls::recorded(&told(&runs), name, listing(window, &carried, telling)))
}

fn iframes(window: &Window<'_>, query: &str, telling: Telling<'_>) -> Option<String> {
    let runs = presentations(window, Cut::Nowhere, &[RenditionName::Video]);
    let carried = behind_segments(query);
    hls::recorded_iframes(&told(&runs), listing(window, &carried, telling))
}

/// The list of segments of MPEG-TS: what is not there so is left out, with a discontinuity in its place, since players that know no other
/// segments know no gap either. `None` where none is.
fn mpeg_ts(window: &Window<'_>, query: &str, telling: Telling<'_>) -> Option<String> {
    // It lasts as the first rendition does.
    let lead = window.renditions().into_iter().next()?;
    let mut runs: Vec<(String, Vec<Segment>)> = Vec::new();
    for run in window.runs(Cut::Nowhere) {
        let rows = window.rows().get(run)?;
        let track = rows.iter().find_map(|row| track_of(row, lead));
        for some in rows.chunk_by(|one, other| is_mpeg_ts(one) == is_mpeg_ts(other)) {
            let segment = |row: &Row<'_>| recorded_segment(row, lead).or_else(|| gap(row, track));
            let segments: Vec<Segment> =
                some.iter().filter(|row| is_mpeg_ts(row)).filter_map(segment).collect();
            if let Some(first) = some.first().filter(|_| !segments.is_empty()) {
                runs.push((format!("{ARCHIVE_FOLDER}/{}/", first.recording.session()), segments));
            }
        }
    }
    let carried = behind_segments(query);
    (!runs.is_empty()).then(|| hls::recorded_mpeg_ts(&runs, listing(window, &carried, telling)))
}

fn is_mpeg_ts(row: &Row<'_>) -> bool {
    row.recording.mpeg_ts(row.number).is_some()
}

fn manifest(
    window: &Window<'_>,
    object: Object,
    query: &str,
    now: Utc,
    telling: Telling<'_>,
) -> Option<String> {
    let runs = presentations(window, Cut::AtGaps, &window.renditions());
    let periods: Vec<_> = runs
        .iter()
        .map(|RunOf { base, presentation, utc }| RecordedPeriod { base, presentation, utc: *utc })
        .collect();
    let location = window.span().map(|span| format!("{object}{}", addressed(query, Some(span))));
    let about = Recorded {
        is_growing: window.is_growing(),
        is_event: window.is_event(),
        target_secs: target_secs(window, telling),
        now,
        location: location.as_deref(),
    };
    let options = dash::Options {
        carried: behind_segments(query),
        utc_timing: telling.utc_timing.to_owned(),
        ..dash::Options::default()
    };
    dash::recorded(&periods, about, &options)
}

fn listing<'a>(window: &Window<'_>, carried: &'a Carried, telling: Telling<'_>) -> Listing<'a> {
    let first = window.rows().first().map_or(0, |row| row.utc.as_nanos());
    let from = window.span().map_or(0, |span| span.from.as_nanos());
    Listing {
        target_secs: target_secs(window, telling),
        is_growing: window.is_growing(),
        is_event: window.is_event(),
        begin: Duration::from_nanos(from.saturating_sub(first)),
        carried,
    }
}

/// `EXT-X-TARGETDURATION`, which must not change while segments are added (RFC 8216 §6.2.1): twice what is configured where that can
/// be, which a segment reaches only if key frames are rarer than it, and in any case that of the recordings of which the window has
/// something, whole.
fn target_secs(window: &Window<'_>, telling: Telling<'_>) -> u64 {
    let mut longest = Duration::ZERO;
    let mut before = None;
    for row in window.rows() {
        let session = row.recording.session();
        if before.replace(session) != Some(session) {
            longest = longest.max(row.recording.longest());
        }
    }
    let told = (longest + Duration::from_millis(500)).as_secs().max(1);
    let configured = telling.segment.saturating_mul(2).as_millis().div_ceil(1000);
    let reserved = if window.is_event() { u64::try_from(configured).unwrap_or(u64::MAX) } else { 0 };
    told.max(reserved)
}

/// A run of rows as a presentation of one epoch.
struct RunOf {
    base: String,
    presentation: Presentation,
    utc: Utc,
}

fn told(runs: &[RunOf]) -> Vec<Run<'_>> {
    runs.iter().map(|RunOf { base, presentation, .. }| Run { base, presentation }).collect()
}

/// The runs of a window as presentations of these renditions; with [`Cut::Nowhere`] each has a segment or a gap in each row.
fn presentations(window: &Window<'_>, cut: Cut, names: &[RenditionName]) -> Vec<RunOf> {
    let runs = window.runs(cut);
    runs.into_iter().filter_map(|run| presentation(window.rows(), run, cut, names)).collect()
}

fn presentation(rows: &[Row<'_>], run: Range<usize>, cut: Cut, names: &[RenditionName]) -> Option<RunOf> {
    let rows = rows.get(run)?;
    let first = rows.first()?;
    let renditions: Vec<Rendition> = names
        .iter()
        .filter_map(|name| {
            let track = rows.iter().find_map(|row| track_of(row, *name));
            let segments: Vec<Segment> = rows
                .iter()
                .filter_map(|row| {
                    recorded_segment(row, *name).or_else(|| (cut == Cut::Nowhere).then(|| gap(row, track))?)
                })
                .collect();
            let is_there = !segments.is_empty();
            is_there.then(|| Rendition::recorded(*name, track.cloned().into_iter().collect(), segments))
        })
        .collect();
    let starts = renditions.iter().filter_map(|rendition| rendition.complete().next());
    let start = starts.map(Segment::start_time).min()?;
    let epoch = epoch(first.epoch, ticks_of(start, Ticks::RATE), first.number);
    let base = format!("{ARCHIVE_FOLDER}/{}/", first.recording.session());
    Some(RunOf { base, presentation: Presentation::recorded(epoch, renditions, first.utc), utc: first.utc })
}

fn epoch(number: u32, first_ticks: u64, first_segment: u64) -> Epoch {
    let (start, zero) = (Duration::ZERO, Ticks(0));
    Epoch { number, start, zero, first_ticks, first_segment, segment_length: None }
}

fn track_of<'a>(row: &Row<'a>, name: RenditionName) -> Option<&'a TrackInfo> {
    row.segment(name).and_then(|_| row.recording.track(name, row.epoch))
}

/// The segment of a rendition in a row as the writers of playlists have it; `None` where there is no object of it.
fn recorded_segment(row: &Row<'_>, name: RenditionName) -> Option<Segment> {
    let segment = row.segment(name).filter(|segment| !segment.is_gap())?;
    let timescale = row.recording.track(name, segment.epoch)?.timescale;
    Some(Segment {
        timescale,
        start: segment.start,
        duration: segment.duration,
        program_date_time: segment.utc,
        captured: segment.captured,
        independent: segment.independent,
        gap: false,
        size_bytes: segment.bytes,
        key_frames: segment.key_frames.clone(),
        ..empty(row)
    })
}

/// What stands in a rendition's list for a segment that others have: as long as theirs.
fn gap(row: &Row<'_>, track: Option<&TrackInfo>) -> Option<Segment> {
    let other = RenditionName::all().find_map(|name| Some((name, row.segment(name)?)));
    let Some((name, other)) = other else {
        // No rendition has it.
        let timescale = track.map_or(1, |track| track.timescale);
        let length = Duration::from_nanos(row.end.as_nanos().saturating_sub(row.utc.as_nanos()));
        return Some(Segment { timescale, duration: ticks_of(length, timescale), ..empty(row) });
    };
    let its_timescale = row.recording.track(name, row.epoch)?.timescale;
    let timescale = track.map_or(its_timescale, |track| track.timescale);
    let scaled = |ticks| ticks_of(duration_of(ticks, its_timescale), timescale);
    let (start, duration) = (scaled(other.start), scaled(other.duration));
    Some(Segment { timescale, start, duration, program_date_time: other.utc, gap: true, ..empty(row) })
}

fn empty(row: &Row<'_>) -> Segment {
    Segment {
        number: row.number,
        epoch: row.epoch,
        timescale: 1,
        start: 0,
        duration: 0,
        program_date_time: row.utc,
        captured: false,
        independent: true,
        gap: true,
        complete: true,
        source: None,
        parts: Vec::new(),
        open_part: None,
        size_bytes: 0,
        key_frames: Vec::<KeyFrame>::new(),
        first_key_frame: 0,
    }
}

#[cfg(test)]
#[path = "playlist_tests.rs"]
mod tests;
