//! Which segments of a stream's recordings lie in a time.
//!
//! Segments of all renditions that have one number are of one time: together they are a row. Rows that follow each other in one
//! recording and epoch are a run, which one CMAF header of each rendition is enough for; between two runs is a discontinuity, or a
//! hole that all renditions share. A segment that only some renditions lack is a gap in their lists, so that all lists of a window
//! have the same number of segments and discontinuities.

use super::index::{RecordedSegment, Recording};
use super::query::Span;
use crate::packager::{AUDIO_MAX, RenditionName, later};
use glassline_media::Utc;
use std::ops::Range;
use std::time::Duration;

/// The most rows of a window: a day of segments of two seconds. A playlist of them takes 5 MB.
pub const ROWS_MAX: usize = 43_200;
/// The longest time of a playlist. One without an end that was asked for ends there.
pub const SPAN_MAX: Duration = Duration::from_secs(25 * 3600);
/// The most rows of what is no playlist.
const WHOLE_ROWS_MAX: usize = 8 * ROWS_MAX;
/// The most periods of a manifest.
pub const PERIODS_MAX: usize = 1000;
/// Players that have seen a list grow read its end within this time.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
/// Renditions that a window may have: pictures and each sound.
const RENDITIONS_MAX: usize = 1 + AUDIO_MAX as usize;
/// Rows that are told to be lost behind the last one, at most: those that were seen there before they were lost.
const BEHIND_MAX: usize = 64;
/// A rendition that is so many segments behind others has stopped: others do not wait for it.
const LAG_ROWS: u64 = 3;

/// A recording, and whether it goes on.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The recording.
    pub recording: &'a Recording,
    /// Segments are still added to it.
    pub is_running: bool,
}

/// The segments of one time, by rendition.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Of which recording.
    pub recording: &'a Recording,
    /// Their number.
    pub number: u64,
    /// Their epoch.
    pub epoch: u32,
    /// When it begins by the wall clock: that of the first rendition which is there.
    pub utc: Utc,
    /// When that ends.
    pub end: Utc,
    segments: [Option<&'a RecordedSegment>; RENDITIONS_MAX],
}

impl<'a> Row<'a> {
    /// The segment of a rendition.
    pub fn segment(&self, rendition: RenditionName) -> Option<&'a RecordedSegment> {
        self.segments.get(place(rendition)).copied().flatten()
    }

    /// Which renditions are there, with an object, as bits.
    fn presence(&self) -> u32 {
        let bits = self.segments.iter().zip(0u32..);
        bits.filter(|(segment, _)| segment.is_some_and(|segment| !segment.is_gap()))
            .fold(0, |bits, (_, place)| bits | 1 << place)
    }

    /// Whether nothing but a discontinuity of the presentation lies between it and `next`: one run has both.
    fn is_followed_by(&self, next: &Row<'_>) -> bool {
        self.recording.session() == next.recording.session()
            && self.epoch == next.epoch
            && self.number.checked_add(1) == Some(next.number)
    }
}

/// What there is in a time.
#[derive(Clone, Debug)]
pub struct Window<'a> {
    rows: Vec<Row<'a>>,
    is_growing: bool,
    is_awaited: bool,
    is_event: bool,
    span: Option<Span>,
}

/// There is more in that time than one playlist has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there are more than {max} segments between from and to ({days} of segments of two seconds): ask for a shorter time",
    days = if *.max > ROWS_MAX { "days" } else { "a day" }
)]
pub struct TooLong {
    /// How many there may be.
    pub max: usize,
}

/// Where runs end beside discontinuities and holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Nowhere: renditions that lack a segment have a gap.
    Nowhere,
    /// Where renditions begin or cease to be there.
    AtGaps,
}

impl<'a> Window<'a> {
    /// What lies in `span`, or all there is, of these recordings of one stream, the oldest first. `None` where nothing does.
    ///
    /// # Errors
    /// [`TooLong`].
    pub fn of(sources: &[Source<'a>], span: Option<Span>, now: Utc) -> Result<Option<Window<'a>>, TooLong> {
        let found = found(sources, span, WHOLE_ROWS_MAX, false);
        if found.rows.len() > WHOLE_ROWS_MAX {
            return Err(TooLong { max: WHOLE_ROWS_MAX });
        }
        Ok(found.into_window(span, now).map(|window| Window { is_event: window.is_growing, ..window }))
    }

    /// The same for a playlist. One that may grow keeps what it has said (RFC 8216 §6.2.1): what was dropped since is there without
    /// an object; it ends after [`SPAN_MAX`] or [`ROWS_MAX`]. Without a time it is the newest there is.
    ///
    /// # Errors
    /// [`TooLong`], where an end was asked for.
    pub fn for_playlist(
        sources: &[Source<'a>],
        span: Option<Span>,
        now: Utc,
    ) -> Result<Option<Window<'a>>, TooLong> {
        let limited = span.map(|span| limited(span, now));
        // A player that has read it while it grew reads its end with the same segments.
        let is_event = span.is_some_and(|span| span.to.is_none_or(|to| now < later(to, ENDS_WITHIN)));
        let mut found = found(sources, limited, usize::MAX, true);
        if is_event {
            found.rows = filled(found.rows, limited);
        }
        if found.rows.len() > ROWS_MAX {
            match span {
                Some(_) if is_event => {
                    found.rows.truncate(ROWS_MAX);
                    found.is_running = false;
                }
                Some(_) => return Err(TooLong { max: ROWS_MAX }),
                None => drop(found.rows.drain(..found.rows.len() - ROWS_MAX)),
            }
        }
        let is_running = found.is_running;
        // Without a time its beginning is another one when it is read again: it is what there is now. Its lists have a time.
        found.is_running &= span.is_some();
        let window = found.into_window(limited, now);
        Ok(window.map(|window| {
            let from = window.rows.first().map_or(Utc::default(), |row| row.utc);
            let begin = is_running.then_some(Span { from, to: None });
            Window { span: span.or(begin), is_event: is_event || window.is_growing, ..window }
        }))
    }

    /// Its rows: at least one.
    pub fn rows(&self) -> &[Row<'a>] {
        &self.rows
    }

    /// Whether more is coming.
    pub const fn is_growing(&self) -> bool {
        self.is_growing
    }

    /// Whether it is one of the lists that grow, also when it is at its end.
    pub const fn is_event(&self) -> bool {
        self.is_event
    }

    /// Whether what is coming has been captured by now, and is recorded in a moment.
    pub const fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// The time that was asked for.
    pub const fn span(&self) -> Option<Span> {
        self.span
    }

    /// The renditions that are there, pictures first.
    pub fn renditions(&self) -> Vec<RenditionName> {
        let bits = self.rows.iter().fold(0, |bits, row| bits | row.presence());
        RenditionName::all().filter(|name| bits & 1 << place(*name) != 0).collect()
    }

    /// The runs: ranges of rows.
    pub fn runs(&self, cut: Cut) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (row, at) in self.rows.iter().zip(0usize..) {
            let before = at.checked_sub(1).and_then(|before| self.rows.get(before));
            let goes_on = before.is_some_and(|before| {
                before.is_followed_by(row) && (cut == Cut::Nowhere || before.presence() == row.presence())
            });
            match runs.last_mut() {
                Some(run) if goes_on => run.end = at + 1,
                _ => runs.push(at..at + 1),
            }
        }
        runs
    }
}

/// What is kept of a time that a playlist was asked for: one that goes on ends after [`SPAN_MAX`].
pub fn limited(span: Span, now: Utc) -> Span {
    let end = later(span.from, SPAN_MAX);
    let to = span.to.map_or(end, |to| if to > now { to.min(end) } else { to });
    Span { to: Some(to), ..span }
}

/// Rows that were found, and how far what is told goes.
struct Found<'a> {
    rows: Vec<Row<'a>>,
    reached: Option<Utc>,
    is_running: bool,
}

/// The rows in `span`, no more than one beyond `max`. Of recordings behind one that goes on nothing is told yet, where `in_order`: what
/// is added to a list stands behind all of it.
fn found<'a>(sources: &[Source<'a>], span: Option<Span>, max: usize, in_order: bool) -> Found<'a> {
    let mut rows = Vec::new();
    let mut reached = None;
    for source in sources {
        let (known, recording) = (rows.len(), source.recording);
        let first = span.map_or(0, |span| recording.number_at(span.from));
        for row in rows_of(recording, first) {
            reached = Some(reached.map_or(row.end, |reached: Utc| reached.max(row.end)));
            if span.is_some_and(|span| row.end <= span.from || span.to.is_some_and(|to| row.utc >= to)) {
                if recording.is_ordered() && span.is_some_and(|span| span.to.is_some_and(|to| row.utc >= to))
                {
                    break;
                }
                continue;
            }
            rows.push(row);
            if rows.len() > max {
                break;
            }
        }
        if source.is_running
            && let Some(from) = drop_unfinished(&mut rows, known, recording)
        {
            // What is not told yet is not reached.
            reached = reached.map(|reached| reached.min(from));
        }
        if source.is_running && in_order {
            break;
        }
    }
    Found { rows, reached, is_running: sources.iter().any(|source| source.is_running) }
}

impl<'a> Found<'a> {
    fn into_window(self, span: Option<Span>, now: Utc) -> Option<Window<'a>> {
        let Found { rows, reached, is_running } = self;
        let to = span.and_then(|span| span.to);
        let is_growing = is_running && to.is_none_or(|to| reached.is_none_or(|reached| reached < to));
        let is_awaited = is_growing && to.is_some_and(|to| to <= now);
        (!rows.is_empty()).then_some(Window { rows, is_growing, is_awaited, is_event: false, span })
    }
}

/// The rows with one that has no segment for each number that is missing between two of one epoch, or that a hole tells of in front of
/// the first one and behind the last one of a recording. It lasts as long as there is time for it.
fn filled<'a>(rows: Vec<Row<'a>>, span: Option<Span>) -> Vec<Row<'a>> {
    let mut filled: Vec<Row<'a>> = Vec::with_capacity(rows.len());
    let mut rows = rows.into_iter().peekable();
    while let Some(row) = rows.next() {
        let session = row.recording.session();
        let before = filled.last().copied().filter(|before| before.recording.session() == session);
        match before {
            Some(before) => between(&mut filled, &before, row.number, row.utc),
            None => in_front(&mut filled, &row, span),
        }
        filled.push(row);
        let is_last = rows.peek().is_none_or(|next| next.recording.session() != session);
        if is_last {
            behind(&mut filled, &row, span);
        }
    }
    filled
}

/// Adds the rows that are missing between `before` and number `next`, which begins at `until`.
fn between<'a>(filled: &mut Vec<Row<'a>>, before: &Row<'a>, next: u64, until: Utc) {
    let missing = next.saturating_sub(before.number).saturating_sub(1);
    if missing == 0 || missing > ROWS_MAX as u64 {
        return;
    }
    let usual = before.end.as_nanos().saturating_sub(before.utc.as_nanos());
    let there_is = until.as_nanos().saturating_sub(before.end.as_nanos()) / missing;
    let each = if there_is == 0 { usual } else { there_is.min(usual) };
    for (number, utc) in (before.number.saturating_add(1)..next).zip(0u64..) {
        let utc = before.end.as_nanos().saturating_add(each.saturating_mul(utc)).min(until.as_nanos());
        filled.push(missing_row(before, number, Utc::from_nanos(utc), each));
    }
}

/// Adds the rows that holes tell of right before the first row of a recording, as far as they lie in `span`: each as long as that.
fn in_front<'a>(filled: &mut Vec<Row<'a>>, first: &Row<'a>, span: Option<Span>) {
    let each = first.end.as_nanos().saturating_sub(first.utc.as_nanos());
    let from = span.map_or(0, |span| span.from.as_nanos());
    let mut lost = Vec::new();
    let mut end = first.utc.as_nanos();
    let mut number = first.number;
    while let Some(before) = number.checked_sub(1)
        && is_lost(first.recording, before)
        && each > 0
        && end > from
        && lost.len() <= ROWS_MAX
    {
        (number, end) = (before, end.saturating_sub(each));
        lost.push(missing_row(first, number, Utc::from_nanos(end), each));
    }
    filled.extend(lost.into_iter().rev());
}

/// The same right behind the last row, as far as a hole says that it went.
fn behind<'a>(filled: &mut Vec<Row<'a>>, last: &Row<'a>, span: Option<Span>) {
    let each = last.end.as_nanos().saturating_sub(last.utc.as_nanos());
    let end = last.recording.holes().map(|hole| hole.to).max().unwrap_or_default();
    let end = span.and_then(|span| span.to).map_or(end, |to| to.min(end));
    let mut utc = last.end;
    for number in (last.number.saturating_add(1)..).take(BEHIND_MAX) {
        if !is_lost(last.recording, number) || each == 0 || utc >= end {
            return;
        }
        filled.push(missing_row(last, number, utc, each));
        utc = Utc::from_nanos(utc.as_nanos().saturating_add(each));
    }
}

fn is_lost(recording: &Recording, number: u64) -> bool {
    RenditionName::all().any(|name| recording.is_hole(name, number))
}

fn missing_row<'a>(beside: &Row<'a>, number: u64, utc: Utc, nanos: u64) -> Row<'a> {
    let end = Utc::from_nanos(utc.as_nanos().saturating_add(nanos));
    Row { number, utc, end, segments: [None; RENDITIONS_MAX], ..*beside }
}

const fn place(rendition: RenditionName) -> usize {
    match rendition {
        RenditionName::Video => 0,
        RenditionName::Audio(number) => number as usize,
    }
}

/// The rows of a recording from number `first` on.
fn rows_of(recording: &Recording, first: u64) -> impl Iterator<Item = Row<'_>> {
    let mut lists: Vec<_> =
        recording.renditions().map(|name| (name, recording.segments_from(name, first).peekable())).collect();
    std::iter::from_fn(move || {
        let next = lists.iter_mut().filter_map(|(_, list)| list.peek().map(|segment| segment.number));
        let number = next.min()?;
        let mut row: Option<Row<'_>> = None;
        for (name, list) in &mut lists {
            let Some(segment) = list.next_if(|segment| segment.number == number) else { continue };
            let timescale = recording.track(*name, segment.epoch).map_or(1, |track| track.timescale);
            let row = row.get_or_insert(Row {
                recording,
                number,
                epoch: segment.epoch,
                utc: segment.utc,
                end: segment.end_utc(timescale),
                segments: [None; RENDITIONS_MAX],
            });
            // What is of another epoch is of another time.
            if let Some(place) = row.segments.get_mut(place(*name)).filter(|_| row.epoch == segment.epoch) {
                *place = Some(segment);
            }
        }
        row
    })
}

/// Drops the last rows of a recording that goes on where a rendition is still coming which was there just before: a list that has
/// called it a gap could not take that back. Of an epoch's first row all renditions are expected. `known`: where the rows of that
/// recording begin. Returns when the first one begins that was dropped.
fn drop_unfinished(rows: &mut Vec<Row<'_>>, known: usize, recording: &Recording) -> Option<Utc> {
    let newest = recording.renditions().filter_map(|name| recording.segments(name).next_back());
    let newest = newest.map(|segment| segment.number).max()?;
    let all = recording.renditions().fold(0, |bits, name| bits | 1u32 << place(name));
    let mut dropped = None;
    while let Some((last, before)) = rows.get(known..).and_then(<[_]>::split_last) {
        let before = before.iter().rev().take(LAG_ROWS as usize).filter(|row| row.epoch == last.epoch);
        let mut before = before.peekable();
        let is_first = before.peek().is_none();
        let expected = if is_first { all } else { before.fold(0, |bits, row| bits | row.presence()) };
        // Nothing tells yet which renditions an epoch has.
        let is_whole = last.presence() & expected == expected && !(is_first && last.number >= newest);
        if is_whole || last.number.saturating_add(LAG_ROWS) <= newest {
            break;
        }
        dropped = rows.pop().map(|row| row.utc);
    }
    dropped
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;
