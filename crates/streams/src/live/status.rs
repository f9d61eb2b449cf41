//! What is known of a stream: at one moment, of the pictures that have passed, and of its viewers.

use super::Live;
use crate::status::StreamStatus;
use glassline_delivery::telemetry;
use glassline_delivery::telemetry::stages::{PassedPicture, RelayFigures, ViewerFigures};
use glassline_delivery::telemetry::watchers::Watchers;
use glassline_media::Time;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

impl Live {
    /// What its history takes of this moment, but for what viewers tell.
    pub fn moment(&self) -> telemetry::Moment {
        telemetry::Moment {
            bytes_in: self.bytes_in(),
            bytes_out: self.counters.bytes_out.value(),
            moved_forward: self.counters.moved_forward.value(),
            retransmitted: self.counters.retransmitted.value(),
            viewers: u32::try_from(self.viewers()).unwrap_or(u32::MAX),
            slow: 0,
            behind_ms: None,
        }
    }

    /// What is known of it now, but for its source, its outputs, and what is left out of its presentations.
    pub fn status(&self, now: Time) -> StreamStatus {
        let core = self.lock();
        let (stream, published_since) = (&core.stream, core.slot.published_since());
        let counters = stream.counters();
        let (why, behind, behind_ever) = self.telemetry.figures();
        StreamStatus {
            source: None,
            outputs: Vec::new(),
            peers: Vec::new(),
            forwards: Vec::new(),
            name: self.name.clone(),
            mux: self.mux,
            live: published_since.is_some(),
            bitrate_bps: stream.bitrate_bps(now),
            viewers: self.viewers(),
            viewers_joined: self.counters.joined.value(),
            left_out: Vec::new(),
            dropped_events: None,
            streams: stream.program().map(|program| program.streams.clone()).unwrap_or_default(),
            video: stream.video_details().cloned(),
            carried: stream.carried_tracks(),
            uptime: published_since.map_or(Duration::ZERO, |since| now.since(since)),
            age: now.since(self.began),
            newest_byte_age: stream.newest_at().map(|at| now.since(at)),
            key_frame_interval: stream.key_frame_interval(),
            join: stream.join(),
            backlog_bytes: stream.head() - stream.tail(),
            spool_bytes: self.chain.held_bytes(),
            bytes_in: counters.bytes_in,
            bytes_out: self.counters.bytes_out.value(),
            garbage_bytes: counters.garbage_bytes,
            continuity_errors: counters.continuity_errors,
            sessions: counters.sessions,
            moved_forward: self.counters.moved_forward.value(),
            dropped_behind: self.counters.dropped_behind.value(),
            stalled: self.counters.stalled.value(),
            cut_off: self.counters.cut_off.value(),
            retransmitted: self.counters.retransmitted.value(),
            unpaced: self.counters.unpaced.value(),
            pace_bps: Some(self.pace_bps()).filter(|bps| *bps > 0),
            why,
            behind,
            behind_ever,
            slate: super::slate::status(&core, now),
        }
    }

    /// Gives `read` the pictures of the last ten seconds that say when they were captured, in the order in which they came.
    pub fn passed_pictures<T>(
        &self,
        now: Time,
        read: impl FnOnce(&mut dyn Iterator<Item = &PassedPicture>) -> T,
    ) -> T {
        read(&mut self.lock().stream.passed_pictures(now))
    }

    /// Gives `read` what the stages of all pictures add up to; nothing of other muxes than MPEG-TS.
    pub fn relay_figures<T>(&self, read: impl FnOnce(&RelayFigures) -> T) -> Option<T> {
        self.lock().stream.relay_figures().map(read)
    }

    /// Where its viewers are, by subscribers' addresses ([`crate::presence::subscriber`]).
    pub fn watchers(&self) -> MutexGuard<'_, Watchers> {
        // They are as good after each change as before it, whatever panicked in between.
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What viewers report.
    pub fn viewer_figures(&self) -> MutexGuard<'_, ViewerFigures> {
        // Figures: the worst that a panic in between can do is a report that is half counted.
        self.viewer_figures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
