//! How long is waited for what has been captured and is recorded in a moment.
//!
//! What a stream says of its own time is compared with this machine's clock. Where the publisher's is behind by more than is waited, its
//! times do not come to that of a request while it waits.

use glassline_delivery::archive::window::Source;
use glassline_delivery::packager::later;
use glassline_media::{Time, Utc};
use std::time::Duration;

/// The longest wait.
const AWAIT_FOR: Duration = Duration::from_secs(8);
/// How long a request has waited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    since: Time,
    /// What is captured now is stamped so long ago that waiting does not help.
    is_vain: bool,
}

impl Waits {
    /// It begins when `now` has passed; the clock says `utc`.
    pub(crate) fn begin(sources: &[Source<'_>], now: Time, utc: Utc) -> Waits {
        let running = sources.iter().filter(|source| source.is_running).map(|source| source.recording);
        let reaches = running.filter_map(|recording| {
            let ends = recording.renditions().filter_map(|name| {
                let last = recording.segments(name).next_back()?;
                Some(last.end_utc(recording.track(name, last.epoch)?.timescale))
            });
            // The segment that is under way may be as long as any.
            Some(later(later(ends.max()?, recording.longest()), AWAIT_FOR))
        });
        Waits { since: now, is_vain: reaches.max().is_some_and(|reaches| reaches < utc) }
    }

    /// Whether it has waited for long enough.
    pub(crate) fn are_over(self, now: Time) -> bool {
        self.is_vain || now.since(self.since) >= AWAIT_FOR
    }
}
