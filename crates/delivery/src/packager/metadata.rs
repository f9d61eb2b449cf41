//! Timed metadata beside the pictures: what comes as KLV or as a cue of SCTE 35 becomes an event (`emsg`) in a chunk of the
//! rendition that segments are cut by, and a cue a date range of playlists, too.
//!
//! ```text
//! KLV ──► waits for the chunk that its time is in ─────► emsg  urn:misb:KLV:bin:1910.1
//! cue ─┬► next chunk, with the time that it announces ─► emsg  urn:scte:scte35:2013:bin
//!      └► date range ──────────────────────────────────► EXT-X-DATERANGE
//! ```
//! KLV comes ten times a second and more: as date ranges it would be most of a playlist.

use bytes::Bytes;
use glassline_media::container::cmaf::{EventMessage, EventTime};
use glassline_media::container::ts::scte35::{Command, SpliceInfo};
use glassline_media::container::ts::{DataKind, DataUnit};
use glassline_media::{Ticks, Utc};
use std::collections::VecDeque;
use std::time::Duration;

/// The scheme of cues: binary sections (SCTE 214-3).
const SPLICE_SCHEME: &str = "urn:scte:scte35:2013:bin";
/// The scheme of KLV (MISB ST 1910.1).
const KLV_SCHEME: &str = "urn:misb:KLV:bin:1910.1";
/// Cues that wait for an epoch to begin.
const WAITING_MAX: usize = 32;
/// Cues that are remembered, to know them when they are repeated.
const REMEMBERED_MAX: usize = 32;
/// A cue for now that comes again within this time is the same cue.
const REPEATED_WITHIN: Duration = Duration::from_secs(10);
/// A cue for a stated time is the same as one with the same bytes for a time that is closer than this. Where the clock of the stamps has
/// jumped back, the same bytes mean another time.
const SAME_WITHIN: Duration = Duration::from_secs(1);
/// KLV with a stamp further than this from the pictures' is on another clock: it counts when it comes.
const FAR: i64 = 10 * Ticks::RATE as i64;
/// Events that wait for their chunk, and bytes of them: what is more is dropped, the oldest KLV first, since no chunk is written while
/// no picture comes. So a chunk has no more of them either.
const HELD_MAX: usize = 256;
const HELD_MAX_BYTES: usize = 1 << 20;
/// Of what is ahead of a chunk, more events or bytes than these are written into it, early.
const AHEAD_MAX: usize = 64;
const AHEAD_MAX_BYTES: usize = 256 << 10;

/// A kind of events that a presentation's chunks carry: `InbandEventStream` of DASH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventStream {
    /// The PID that it comes from.
    pub pid: u16,
    /// What its events are.
    pub scheme_id_uri: &'static str,
    /// Which of several with this scheme: of cues the PID; of KLV its number among those of the program, and the stream id of its
    /// kind (MISB ST 1910.1).
    pub value: String,
}

/// The streams of events of a program that has these streams of data.
pub(super) fn event_streams(data: &[(u16, DataKind)]) -> Vec<EventStream> {
    let mut klv = 0..;
    let mut of = |&(pid, kind): &(u16, DataKind)| match kind {
        DataKind::Splice => EventStream { pid, scheme_id_uri: SPLICE_SCHEME, value: pid.to_string() },
        DataKind::Klv { synchronous } => {
            let stream_id = if synchronous { "01FC" } else { "01BD" };
            let value = format!("KLV{}:{stream_id}", klv.next().unwrap_or(0));
            EventStream { pid, scheme_id_uri: KLV_SCHEME, value }
        }
    };
    data.iter().map(&mut of).collect()
}

/// What is known of metadata from epoch to epoch.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    /// Cues that wait for an epoch to begin.
    waiting: VecDeque<(u16, DataUnit)>,
    /// The newest cues.
    remembered: VecDeque<Remembered>,
    next_id: u32,
}

/// A cue that has been announced.
#[derive(Debug)]
struct Remembered {
    section: Bytes,
    id: u32,
    /// When what it announces takes place, and when it came the last time, as playlists tell times.
    at: Utc,
    came: Utc,
}

/// A unit with what is known of it.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) unit: DataUnit,
    /// Of a cue: what it says.
    pub(super) cue: Option<SpliceInfo>,
    pub(super) stream: EventStream,
}

impl Known {
    /// `None` of what viewers have no use for: cues that say nothing.
    pub(super) fn new(unit: DataUnit, stream: &EventStream) -> Option<Known> {
        let cue = match unit.kind {
            DataKind::Klv { .. } => None,
            DataKind::Splice => Some(SpliceInfo::parse(&unit.data).ok()?),
        };
        let is_silent =
            |cue: &SpliceInfo| matches!(cue.command, Command::Null | Command::BandwidthReservation);
        let stream = stream.clone();
        (!cue.as_ref().is_some_and(is_silent)).then_some(Known { unit, cue, stream })
    }

    /// When it holds, on the clock of the pictures, which lies `shift` ticks behind that of the stamps; `frontier` is where the
    /// pictures are.
    pub(super) fn time(&self, shift: i64, frontier: Ticks) -> Ticks {
        let stated = self.unit.pts.map(|pts| pts + Ticks(shift));
        let is_near = |pts: &Ticks| self.cue.is_some() || (*pts - frontier).0.saturating_abs() <= FAR;
        stated.filter(is_near).unwrap_or(frontier)
    }

    /// The event, at `time` in ticks of the track, `timescale` a second.
    pub(super) fn event(&self, timescale: u32, time: u64, id: u32) -> EventMessage {
        let duration = match &self.cue {
            None => 0,
            Some(cue) => lasts(cue).map_or(EventMessage::UNKNOWN_DURATION, |ticks| {
                let ticks = u128::from(ticks) * u128::from(timescale) / u128::from(Ticks::RATE);
                u32::try_from(ticks).unwrap_or(EventMessage::UNKNOWN_DURATION)
            }),
        };
        EventMessage {
            scheme_id_uri: self.stream.scheme_id_uri.to_owned(),
            value: self.stream.value.clone(),
            timescale,
            presentation_time: EventTime::At(time),
            duration,
            id,
            message_data: self.unit.data.to_vec(),
        }
    }
}

/// How long what a cue announces lasts, in ticks of 90 kHz, where it says that.
fn lasts(cue: &SpliceInfo) -> Option<u64> {
    match &cue.command {
        Command::Insert(insert) => insert.duration.map(|duration| duration.ticks),
        _ => cue.segmentations().find_map(|segmentation| segmentation.duration),
    }
}

impl Metadata {
    /// Keeps a cue for the epoch that will begin; of KLV there will be newer. Returns how many were dropped for it.
    pub(super) fn wait(&mut self, pid: u16, unit: DataUnit) -> u64 {
        if unit.kind != DataKind::Splice {
            return 0;
        }
        let is_full = self.waiting.len() == WAITING_MAX;
        if is_full {
            self.waiting.pop_front();
        }
        self.waiting.push_back((pid, unit));
        is_full.into()
    }

    /// The cues that have waited.
    pub(super) fn take_waiting(&mut self) -> VecDeque<(u16, DataUnit)> {
        std::mem::take(&mut self.waiting)
    }

    /// Another publisher's cues follow: none of them is one that has been announced. Returns how many had still waited.
    pub(super) fn forget(&mut self) -> u64 {
        self.remembered.clear();
        self.take_waiting().len() as u64
    }

    /// The number of an event for `at`, which comes at `now`, and whether it is new: a cue is sent several times, so that one at least
    /// arrives.
    pub(super) fn number(&mut self, known: &Known, at: Utc, now: Utc) -> (u32, bool) {
        let is_cue = known.cue.is_some();
        let is_near = |a: Utc, b: Utc, within: Duration| {
            u128::from(a.as_nanos().abs_diff(b.as_nanos())) < within.as_nanos()
        };
        let same = |cue: &&mut Remembered| {
            let is_same_time = match known.unit.pts {
                Some(_) => is_near(at, cue.at, SAME_WITHIN),
                None => is_near(now, cue.came, REPEATED_WITHIN),
            };
            is_cue && cue.section == known.unit.data && is_same_time
        };
        if let Some(cue) = self.remembered.iter_mut().find(same) {
            cue.came = now;
            return (cue.id, false);
        }
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        if is_cue {
            if self.remembered.len() == REMEMBERED_MAX {
                self.remembered.pop_front();
            }
            self.remembered.push_back(Remembered { section: known.unit.data.clone(), id, at, came: now });
        }
        (id, true)
    }
}

/// An event that waits for a chunk of its rendition.
#[derive(Debug)]
struct Waiting {
    event: EventMessage,
    /// Of a cue: the PID and the unit that it was made of. It announces what may still come, so it goes into the next chunk.
    cue: Option<(u16, DataUnit)>,
}

impl Waiting {
    fn bytes(&self) -> usize {
        self.event.message_data.len()
    }
}

/// Events that wait for a chunk of their rendition.
#[derive(Debug, Default)]
pub(super) struct Held {
    events: VecDeque<Waiting>,
    bytes: usize,
}

impl Held {
    /// Takes an event; `cue`: what it was made of, where it is a cue. Returns how many events were dropped for it.
    pub(super) fn push(&mut self, event: EventMessage, cue: Option<(u16, DataUnit)>) -> u64 {
        let waiting = Waiting { event, cue };
        self.bytes += waiting.bytes();
        self.events.push_back(waiting);
        let mut dropped = 0;
        while self.events.len() > HELD_MAX || self.bytes > HELD_MAX_BYTES {
            let klv = self.events.iter().position(|waiting| waiting.cue.is_none());
            let Some(waiting) = self.events.remove(klv.unwrap_or(0)) else { break };
            self.bytes -= waiting.bytes();
            dropped += 1;
        }
        dropped
    }

    /// The events for a chunk of which everything is presented before `end`.
    pub(super) fn take(&mut self, end: u64) -> Vec<EventMessage> {
        let (mut due, mut events) = (Vec::new(), VecDeque::new());
        for waiting in std::mem::take(&mut self.events) {
            let time = &waiting.event.presentation_time;
            let is_ahead = matches!(time, EventTime::At(time) if *time >= end);
            if !is_ahead || waiting.cue.is_some() {
                due.push(waiting.event);
            } else {
                events.push_back(waiting);
            }
        }
        let mut bytes: usize = events.iter().map(Waiting::bytes).sum();
        while (events.len() > AHEAD_MAX || bytes > AHEAD_MAX_BYTES)
            && let Some(waiting) = events.pop_front()
        {
            bytes -= waiting.bytes();
            due.push(waiting.event);
        }
        (self.events, self.bytes) = (events, bytes);
        due
    }

    /// Takes out what no chunk follows for: the cues, with the PID of each, and how many units of KLV there were.
    pub(super) fn take_left(&mut self) -> (Vec<(u16, DataUnit)>, u64) {
        let events = std::mem::take(&mut self.events);
        self.bytes = 0;
        let count = events.len();
        let cues: Vec<_> = events.into_iter().filter_map(|waiting| waiting.cue).collect();
        let klv = count - cues.len();
        (cues, klv as u64)
    }
}

#[cfg(test)]
#[path = "metadata_tests.rs"]
mod tests;
