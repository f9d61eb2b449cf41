//! What a publisher sends, and what is shown in its place, on the way into the stream.

use super::slate::Slate;
use super::{Core, Flushed, Live, PushError};
use glassline_delivery::stream::{Block, Stream, StreamError};
use glassline_io::containment::{Border, inject};
use glassline_media::Time;
use std::sync::atomic::Ordering;

impl Live {
    /// Appends what a publisher sent. Returns whether viewers have news; [`Live::pause`] has to follow in any case once
    /// the publisher has nothing more for now.
    pub fn push(&self, session: u64, bytes: &[u8], now: Time) -> Result<bool, PushError> {
        self.append(&mut self.lock(), session, bytes, now)
    }

    /// [`Live::push`] and [`Live::pause`] at once, for a publisher that pushes all that it has. What the caller has to
    /// do is returned beside an error too: the stream may have ended by it.
    pub fn push_all(&self, session: u64, bytes: &[u8], now: Time) -> (Result<(), PushError>, Flushed) {
        self.push_held(session, bytes, None, now)
    }

    /// [`Live::push_all`] of what came at `held_since` and was held back until now, where that is told.
    pub fn push_held(
        &self,
        session: u64,
        bytes: &[u8],
        held_since: Option<Time>,
        now: Time,
    ) -> (Result<(), PushError>, Flushed) {
        let mut core = self.lock();
        core.stream.set_held_since(held_since);
        let pushed = self.append(&mut core, session, bytes, now);
        core.stream.set_held_since(None);
        let is_time = core.stream.pause(now);
        let paused = self.flush_if(&mut core, is_time);
        let news = paused.news || !matches!(pushed, Ok(false));
        (pushed.map(drop), Flushed { news, ..paused })
    }

    fn append(&self, core: &mut Core, session: u64, bytes: &[u8], now: Time) -> Result<bool, PushError> {
        if !core.slot.is_held_by(session) || self.has_ended() {
            return Err(PushError::Evicted);
        }
        inject(Border::Connection, || format!("append:{}", self.name));
        let appended = self.append_by(core, now, |stream, slate, append| match slate {
            Some(slate) => slate.gate.push(bytes, stream, now, append),
            None => stream.push(bytes, now, append),
        });
        core.wake_where_left();
        appended
    }

    /// Has `push` put bytes into the stream. Returns as [`Live::push`].
    pub(super) fn append_by(
        &self,
        core: &mut Core,
        now: Time,
        push: impl FnOnce(&mut Stream, Option<&mut Slate>, &mut dyn FnMut(&[u8])) -> Result<bool, StreamError>,
    ) -> Result<bool, PushError> {
        let Core { stream, spool, slate, .. } = core;
        let mut appended = Ok(());
        let pushed = push(stream, slate.as_mut(), &mut |run| {
            if appended.is_ok() {
                appended = spool.append(run);
            }
        });
        if let Err(error) = appended {
            // Offsets and bytes no longer agree: this stream is over, and a new one may begin under its name.
            self.end();
            return Err(error.into());
        }
        self.tail.store(stream.tail(), Ordering::Release);
        self.newest_seam.store(stream.newest_seam(), Ordering::Release);
        spool.drop_before(stream.tail());
        if let Some(pace) = stream.poll_pace(now) {
            self.pace_bps.store(pace, Ordering::Relaxed);
        }
        let has_enough = pushed?;
        if has_enough {
            self.flush(core);
        }
        Ok(has_enough)
    }

    /// A block begins in what the publisher sends. Only [`Mux::Raw`] needs that: other muxes say themselves what has to
    /// be known.
    pub fn begin_block(&self, session: u64, block: Block, size: u32, now: Time) -> Result<(), PushError> {
        let mut core = self.lock();
        if !core.slot.is_held_by(session) || self.has_ended() {
            return Err(PushError::Evicted);
        }
        core.stream.begin_block(block, size, now)?;
        self.newest_seam.store(core.stream.newest_seam(), Ordering::Release);
        Ok(())
    }
}
