//! Streams for the unit tests of this room.

use crate::live::{Acquisition, Live};
use crate::registry::FreeNames;
use crate::streams::Streams;
use crate::threads::NoThreads;
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::{Backlog, FlushPolicy, Mux, Pacing, Prebuffer, Settings};
use glassline_io::clock::Clock;
use glassline_media::Time;
use std::sync::Arc;
use std::time::Duration;

/// One second of backlog, flushed with each push, unpaced.
pub(crate) const SETTINGS: Settings = Settings {
    backlog: Backlog { time: Duration::from_secs(1), bytes: 1 << 20 },
    flush: FlushPolicy::Frame,
    pacing: Pacing::Off,
    prebuffer: Prebuffer::NONE,
};

pub(crate) fn name(text: &str) -> StreamName {
    StreamName::parse(text).expect("a name")
}

/// A stream of MPEG-TS that began at zero, without a publisher.
pub(crate) fn live(id: u64, stream: &str, workers: usize) -> Arc<Live> {
    Arc::new(Live::new(id, name(stream), Mux::MpegTs, SETTINGS, workers, Time::ZERO))
}

/// Gives the free slot of `live` to a publisher inside this process. Returns its session.
pub(crate) fn acquired(live: &Live, now: Time) -> u64 {
    match live.acquire(None, false, None, now) {
        Acquisition::Granted { session, .. } => session,
        Acquisition::Taken => panic!("the slot is taken"),
    }
}

/// No stream yet, and no threads.
pub(crate) fn streams() -> Arc<Streams> {
    let plan = FreeNames { settings: SETTINGS, max_streams: 100 };
    Arc::new(Streams::new(Arc::new(plan), Arc::new(NoThreads), Clock::new()))
}
