//! When a stream that passes AV1 on as it comes needs a key frame.
//!
//! A direct stream has one key frame, at its beginning. What is made of it goes on for viewers that come later, and each of them begins at
//! a key frame. So the receiver asks the sender for one, which costs quality for a moment: when a viewer has come, where that is known,
//! and from time to time where it is not. The sender makes no more than one in two seconds.

use glassline_delivery::policy::StreamName;
use glassline_media::Time;
use glassline_streams::Streams;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Of a stream of which the viewers are not known here, from one key frame to the next: a viewer waits for half of it on average, or is sent
/// the pictures since the last one.
pub const KEY_FRAME_INTERVAL: Duration = Duration::from_secs(4);
/// A viewer that comes so soon behind a key frame begins there: it has a few pictures more to decode.
const FRESH: Duration = Duration::from_secs(1);

/// How it is known that key frames are needed.
pub(super) enum Viewers {
    /// What is written is read from its beginning.
    FromTheBeginning,
    /// It is not known when viewers come.
    Unknown,
    /// Those of a stream of a relay in this process.
    Of(Arc<Streams>, StreamName),
}

/// Whether a stream needs a key frame. Any thread may ask; nothing waits.
pub struct KeyFrameWish {
    viewers: Viewers,
    /// Nothing can be made of what comes before one comes.
    is_needed: AtomicBool,
    /// One has come, and has not gone into the stream yet: another thread does that.
    is_under_way: AtomicBool,
    /// When the newest one went into the stream, in nanoseconds; 0: the stream has none.
    newest_at: AtomicU64,
    /// Viewers that had come by then, or had lost their place in the stream.
    served: AtomicU64,
}

impl KeyFrameWish {
    pub(super) fn new(viewers: Viewers) -> KeyFrameWish {
        KeyFrameWish {
            viewers,
            is_needed: AtomicBool::new(false),
            is_under_way: AtomicBool::new(false),
            newest_at: AtomicU64::new(0),
            served: AtomicU64::new(0),
        }
    }

    /// Nothing can be made of what comes before a key frame comes.
    pub(super) fn need(&self) {
        self.is_needed.store(true, Ordering::Relaxed);
        self.is_under_way.store(false, Ordering::Release);
    }

    /// One has come, and is handed on to the stream: no other is asked for meanwhile.
    pub(super) fn note_received(&self) {
        self.is_under_way.store(true, Ordering::Release);
    }

    /// One has gone into the stream.
    pub(super) fn note_key(&self, now: Time) {
        self.served.store(self.come(), Ordering::Relaxed);
        self.newest_at.store(now.as_nanos().max(1), Ordering::Relaxed);
        self.is_needed.store(false, Ordering::Relaxed);
        self.is_under_way.store(false, Ordering::Release);
    }

    /// The stream has ended: what comes next needs no key frame, or [`KeyFrameWish::need`] says so.
    pub(super) fn end(&self) {
        self.newest_at.store(0, Ordering::Relaxed);
        self.is_under_way.store(false, Ordering::Release);
    }

    /// Times that a viewer has come to the stream, or had to begin anew in it.
    fn come(&self) -> u64 {
        let Viewers::Of(streams, name) = &self.viewers else { return 0 };
        let live = streams.find(name);
        live.map_or(0, |live| live.counters.joined.value() + live.counters.moved_forward.value())
    }

    fn is_packaged(&self) -> bool {
        let Viewers::Of(streams, name) = &self.viewers else { return false };
        streams.find(name).is_some_and(|live| live.is_packaged())
    }

    /// Whether a key frame is needed, `now`.
    pub fn is_wanted(&self, now: Time) -> bool {
        if self.is_under_way.load(Ordering::Acquire) {
            return false;
        }
        if self.is_needed.load(Ordering::Relaxed) {
            return true;
        }
        let newest_at = self.newest_at.load(Ordering::Relaxed);
        if newest_at == 0 {
            return false;
        }
        let age = now.since(Time::from_nanos(newest_at));
        match &self.viewers {
            Viewers::FromTheBeginning => false,
            Viewers::Unknown => age >= KEY_FRAME_INTERVAL,
            Viewers::Of(..) => {
                let has_come = self.come() > self.served.load(Ordering::Relaxed);
                if has_come && age < FRESH {
                    self.served.store(self.come(), Ordering::Relaxed);
                    return false;
                }
                // Segments end at key frames.
                has_come || age >= KEY_FRAME_INTERVAL && self.is_packaged()
            }
        }
    }
}

impl std::fmt::Debug for KeyFrameWish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_needed = self.is_needed.load(Ordering::Relaxed);
        f.debug_struct("KeyFrameWish").field("is_needed", &is_needed).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "key_frames_tests.rs"]
mod tests;
