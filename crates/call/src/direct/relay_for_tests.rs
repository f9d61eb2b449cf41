//! A relay in this process, for tests.

use glassline_delivery::stream::{Backlog, FlushPolicy, Pacing, Prebuffer, Settings};
use glassline_io::clock::Clock;
use glassline_streams::{FreeNames, NoThreads, Streams};
use std::sync::Arc;
use std::time::Duration;

/// Its streams, of any name.
pub(super) fn streams() -> Arc<Streams> {
    let settings = Settings {
        backlog: Backlog { time: Duration::from_secs(10), bytes: 8 << 20 },
        flush: FlushPolicy::Frame,
        pacing: Pacing::Off,
        prebuffer: Prebuffer::NONE,
    };
    let plan = FreeNames { settings, max_streams: 4 };
    Arc::new(Streams::new(Arc::new(plan), Arc::new(NoThreads), Clock::new()))
}
