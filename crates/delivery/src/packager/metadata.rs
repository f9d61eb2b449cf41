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
use glassline_media::Ticks;
use glassline_media::container::cmaf::{EventMessage, EventTime};
use glassline_media::container::ts::scte35::{Command, SpliceInfo};
use glassline_media::container::ts::{DataKind, DataUnit};
use std::collections::VecDeque;

/// The scheme of cues: binary sections (SCTE 214-3).
const SPLICE_SCHEME: &str = "urn:scte:scte35:2013:bin";
/// The scheme of KLV (MISB ST 1910.1).
const KLV_SCHEME: &str = "urn:misb:KLV:bin:1910.1";
/// Cues that wait for an epoch to begin.
const WAITING_MAX: usize = 32;
/// Cues that are remembered, to know them when they are repeated.
const REMEMBERED_MAX: usize = 32;
/// A cue for now that comes again within this time is the same cue.
const REPEATED_WITHIN: i64 = 10 * Ticks::RATE as i64;
/// KLV with a stamp further than this from the pictures' is on another clock: it counts when it comes.
const FAR: i64 = 10 * Ticks::RATE as i64;
/// Events that wait for their chunk, and bytes of them: more is written into the next chunk, early.
const HELD_MAX: usize = 64;
const HELD_MAX_BYTES: usize = 256 << 10;

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
    /// The newest cues, by their bytes, with the number that each has and when it came.
    remembered: VecDeque<(Bytes, u32, Ticks)>,
    next_id: u32,
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
    /// Keeps a cue for the epoch that will begin; of KLV there will be newer.
    pub(super) fn wait(&mut self, pid: u16, unit: DataUnit) {
        if unit.kind == DataKind::Splice {
            if self.waiting.len() == WAITING_MAX {
                self.waiting.pop_front();
            }
            self.waiting.push_back((pid, unit));
        }
    }

    /// The cues that have waited.
    pub(super) fn take_waiting(&mut self) -> VecDeque<(u16, DataUnit)> {
        std::mem::take(&mut self.waiting)
    }

    /// The number of an event, and whether it is new: a cue is sent several times, so that one at least arrives.
    pub(super) fn number(&mut self, known: &Known, now: Ticks) -> (u32, bool) {
        let is_cue = known.cue.is_some();
        let same = |(bytes, _, came): &&mut (Bytes, u32, Ticks)| {
            is_cue
                && *bytes == known.unit.data
                && (known.unit.pts.is_some() || (now - *came).0.saturating_abs() < REPEATED_WITHIN)
        };
        if let Some((_, id, came)) = self.remembered.iter_mut().find(same) {
            *came = now;
            return (*id, false);
        }
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        if is_cue {
            if self.remembered.len() == REMEMBERED_MAX {
                self.remembered.pop_front();
            }
            self.remembered.push_back((known.unit.data.clone(), id, now));
        }
        (id, true)
    }
}

/// Events that wait for a chunk of their rendition.
#[derive(Debug, Default)]
pub(super) struct Held {
    events: VecDeque<(EventMessage, bool)>,
    bytes: usize,
}

impl Held {
    /// Takes an event; `announces`: of what may still come, so that it goes into the next chunk.
    pub(super) fn push(&mut self, event: EventMessage, announces: bool) {
        self.bytes += event.message_data.len();
        self.events.push_back((event, announces));
    }

    /// The events for a chunk of which everything is presented before `end`.
    pub(super) fn take(&mut self, end: u64) -> Vec<EventMessage> {
        let (mut due, mut events) = (Vec::new(), VecDeque::new());
        for (event, announces) in std::mem::take(&mut self.events) {
            let is_ahead = matches!(event.presentation_time, EventTime::At(time) if time >= end);
            if !is_ahead || announces {
                due.push(event);
            } else {
                events.push_back((event, announces));
            }
        }
        let bytes_of = |event: &EventMessage| event.message_data.len();
        let mut bytes: usize = events.iter().map(|(event, _)| bytes_of(event)).sum();
        while (events.len() > HELD_MAX || bytes > HELD_MAX_BYTES)
            && let Some((event, _)) = events.pop_front()
        {
            bytes -= bytes_of(&event);
            due.push(event);
        }
        (self.events, self.bytes) = (events, bytes);
        due
    }
}

#[cfg(test)]
#[path = "metadata_tests.rs"]
mod tests;
