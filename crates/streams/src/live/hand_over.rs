//! A stream as one process leaves it to the next: [`LiveState`], and the memory files of its bytes beside it.

use super::audiences::Audiences;
use super::publisher_slot::{PublisherSession, PublisherSlot};
use super::slate::Slate;
use super::{Core, Live};
use crate::counters::{HandedCounts, StreamCounters};
use crate::subscribers::Subscribers;
use crate::telemetry::{Telemetry, TelemetryState};
use glassline_delivery::policy::StreamName;
use glassline_delivery::pull::stream_media_type;
use glassline_delivery::stream::{FlushPolicy, Pacing, Stream};
use glassline_delivery::telemetry::stages::ViewerFigures;
use glassline_io::spool::{self, LinkFile, Spool};
use glassline_media::Time;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// A stream as one process leaves it to the next, but for its links.
#[derive(Debug, Serialize, Deserialize)]
pub struct LiveState {
    /// [`Live::id`].
    pub id: u64,
    /// [`Live::name`].
    pub name: String,
    /// Whether it has ended.
    pub ended: bool,
    began: Time,
    pace_bps: u64,
    counts: HandedCounts,
    telemetry: TelemetryState,
    /// An earlier version knew none.
    #[serde(default)]
    viewer_figures: ViewerFigures,
    pub(super) stream: Stream,
    media_type: Option<String>,
    spool: spool::Settings,
    head: u64,
    first_link: u64,
    holder: Option<PublisherSession>,
    sessions: u64,
    gone_since: Time,
    /// It has a slate, and its publisher was not shown. An earlier version knew none.
    #[serde(default)]
    is_away: bool,
}

impl Live {
    /// What the next process needs of it, and the links. What waited is shown.
    pub fn state(&self) -> (LiveState, Vec<LinkFile>) {
        let mut core = self.lock();
        self.flush(&mut core);
        let Core { stream, spool, media_type, slot, slate, .. } = &*core;
        let (holder, sessions, gone_since) = slot.handed();
        let state = LiveState {
            id: self.id,
            name: self.name.to_string(),
            ended: self.has_ended(),
            began: self.began,
            pace_bps: self.pace_bps(),
            counts: self.counters.state(),
            telemetry: self.telemetry.state(),
            viewer_figures: self.viewer_figures().clone(),
            stream: stream.clone(),
            media_type: media_type.clone(),
            spool: spool.settings().clone(),
            head: spool.head(),
            first_link: spool.first_link(),
            holder,
            sessions,
            gone_since,
            is_away: slate.as_ref().is_some_and(|slate| !slate.gate.is_passing()),
        };
        (state, spool.links())
    }

    /// The stream that another process left, with its links. Its publisher has to take the slot by [`Live::reclaim`],
    /// or [`Live::release_absent`] frees it.
    pub fn restore(
        state: LiveState,
        name: StreamName,
        links: Vec<OwnedFd>,
        workers: usize,
    ) -> io::Result<Live> {
        let spool = Spool::restore(state.spool, state.head, state.first_link, links)?;
        let LiveState { stream, media_type, holder, sessions, gone_since, is_away, .. } = state;
        let stream = stream.restored();
        // An earlier version passed on whatever its source said.
        let media_type = media_type.filter(|media_type| stream_media_type(media_type).is_some());
        let paces_all = matches!(stream.pacing(), Pacing::Rate(_));
        let holds_pictures_back = stream.flush_policy() != FlushPolicy::Frame;
        let (mux, chain, tail, newest_seam) =
            (stream.mux(), spool.chain(), stream.tail(), stream.newest_seam());
        let mut core = Core {
            stream,
            spool,
            media_type,
            slot: PublisherSlot::restore(holder, sessions, gone_since),
            slate: None,
            armed: None,
        };
        if is_away {
            Slate::handed_over(&mut core);
        }
        Ok(Live {
            id: state.id,
            name,
            mux,
            chain,
            counters: StreamCounters::restore(&state.counts).map_err(io::Error::other)?,
            telemetry: Telemetry::restore(state.telemetry),
            subscribers: Subscribers::default(),
            viewer_figures: Mutex::new(state.viewer_figures),
            watchers: Mutex::default(),
            began: state.began,
            core: Mutex::new(core),
            tail: AtomicU64::new(tail),
            newest_seam: AtomicU64::new(newest_seam),
            unsent_end: AtomicU64::new(u64::MAX),
            pace_bps: AtomicU64::new(state.pace_bps),
            flush_bytes: AtomicU64::new(0),
            paces_all: AtomicBool::new(paces_all),
            holds_pictures_back: AtomicBool::new(holds_pictures_back),
            ended: AtomicBool::new(state.ended),
            is_broken: AtomicBool::new(false),
            is_broken_told: AtomicBool::new(false),
            audiences: Audiences::new(workers),
        })
    }
}

#[cfg(test)]
#[path = "hand_over_tests.rs"]
mod tests;
