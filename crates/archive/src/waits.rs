//! How long is waited for what has been captured and is recorded in a moment.
//!
//! What a stream says of its own time is compared with this machine's clock. Where the publisher's is behind, its times come to that of
//! a request only later, or much later; what was captured by then is there long before.

use glassline_delivery::archive::names::Session;
use glassline_delivery::archive::window::Source;
use glassline_media::Time;
use std::time::Duration;

/// The longest wait.
const AWAIT_FOR: Duration = Duration::from_secs(8);
/// When so many segments have ended meanwhile, all is there that was captured before: the one that was under way, and another one,
/// since capturing and coding take time.
const SEGMENTS: u32 = 2;

/// How long a request has waited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    since: Time,
    /// The newest segment that was known, and how often that has changed.
    newest: Option<(Session, u64)>,
    segments: u32,
}

impl Waits {
    pub(crate) fn begin(sources: &[Source<'_>], now: Time) -> Waits {
        Waits { since: now, newest: newest_of(sources), segments: 0 }
    }

    /// Whether what was captured before it began should be there by now.
    pub(crate) fn are_over(&mut self, sources: &[Source<'_>], now: Time) -> bool {
        let newest = newest_of(sources);
        if newest != self.newest {
            self.newest = newest;
            self.segments = self.segments.saturating_add(1);
        }
        self.segments >= SEGMENTS || now.since(self.since) >= AWAIT_FOR
    }
}

/// The newest segment of what goes on.
fn newest_of(sources: &[Source<'_>]) -> Option<(Session, u64)> {
    let running = sources.iter().filter(|source| source.is_running).map(|source| source.recording);
    let newest = running.filter_map(|recording| {
        let last = |name| recording.segments(name).next_back().map(|segment| segment.number);
        Some((recording.session(), recording.renditions().filter_map(last).max()?))
    });
    newest.max()
}
