//! A viewer as one process leaves it to the next.

use super::Viewer;
use super::leaving::{Leaving, PackedLeaving, Stays};
use crate::blocks::Blocks;
use crate::outgoing::Outgoing;
use glassline_delivery::burst_limiter::{BurstLimiter, BurstSchedule};
use glassline_delivery::policy::{Moves, SlowPolicy};
use glassline_delivery::stream::Prebuffer;
use glassline_media::Time;
use glassline_streams::{Entering, Live, Place, ReaderState, StreamReader};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A viewer as one process leaves it to the next, but for its socket and its stream.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ViewerState {
    offset: u64,
    #[serde(with = "serde_bytes")]
    outgoing: Vec<u8>,
    blocks: Option<Blocks>,
    prebuffer: Option<Prebuffer>,
    entered_at: u64,
    state: State,
    last_progress: Time,
    slow: SlowPolicy,
    moves: Moves,
    #[serde(rename = "path")]
    burst_limiter: BurstLimiter,
    moved_forward: u32,
    sent_bytes: u64,
    joined: Time,
    #[serde(default)]
    stays: Option<Stays>,
}

/// Whether it has a place in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum State {
    Following,
    Awaiting {
        moved: bool,
    },
    /// It has a place, and its socket takes nothing.
    Blocked,
}

impl Viewer {
    /// What the next process needs of it, beside [`Viewer::own_link`].
    pub(crate) fn state(&self) -> ViewerState {
        let ReaderState { offset, entering, place, times_moved, entered_at } = self.reader.state();
        let prebuffer = match entering {
            Entering::Prebuffered(prebuffer) => prebuffer,
            Entering::Newest | Entering::Oldest => None,
        };
        let state = match place {
            Place::Awaiting { moved } => State::Awaiting { moved },
            Place::Following if self.is_blocked => State::Blocked,
            Place::Following => State::Following,
        };
        ViewerState {
            offset,
            outgoing: self.outgoing.to_bytes(),
            blocks: self.blocks,
            prebuffer,
            entered_at,
            state,
            last_progress: self.last_progress,
            slow: self.slow,
            moves: self.moves.clone(),
            burst_limiter: self.burst_limiter,
            moved_forward: times_moved,
            sent_bytes: self.sent_bytes,
            joined: self.joined,
            stays: match self.leaving.get() {
                Leaving::Never(why) => Some(why),
                _ => None,
            },
        }
    }

    /// The viewer that another process left.
    pub(crate) fn restore(state: ViewerState, live: Arc<Live>, own_link: Option<(u64, OwnedFd)>) -> Viewer {
        let place = match state.state {
            State::Awaiting { moved } => Place::Awaiting { moved },
            State::Following | State::Blocked => Place::Following,
        };
        let reader = ReaderState {
            offset: state.offset,
            entering: Entering::Prebuffered(state.prebuffer),
            place,
            times_moved: state.moved_forward,
            entered_at: state.entered_at,
        };
        Viewer {
            reader: StreamReader::restore(live, reader, own_link),
            outgoing: Outgoing::from(state.outgoing),
            blocks: state.blocks,
            is_blocked: state.state == State::Blocked,
            last_progress: state.last_progress,
            slow: state.slow,
            moves: state.moves,
            burst_limiter: state.burst_limiter,
            burst_schedule: BurstSchedule::default(),
            is_expected: false,
            sent_bytes: state.sent_bytes,
            joined: state.joined,
            // Where it was about to leave, its turn comes again at once.
            leaving: PackedLeaving::of(state.stays.map_or(Leaving::No, Leaving::Never)),
        }
    }
}
