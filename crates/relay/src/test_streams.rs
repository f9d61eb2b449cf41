//! Streams and what is around them, for the unit tests of this room.

use crate::hub::Hub;
use crate::{ListenerRole, Site};
use glassline_delivery::http1::Response;
use glassline_delivery::http1::server::Request;
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::{Backlog, FlushPolicy, Mux, Pacing, Prebuffer, Settings};
use glassline_io::clock::Clock;
use glassline_media::Time;
use glassline_streams::Live;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// One second of backlog, flushed with each push, unpaced.
pub(super) const SETTINGS: Settings = Settings {
    backlog: Backlog { time: Duration::from_secs(1), bytes: 1 << 20 },
    flush: FlushPolicy::Frame,
    pacing: Pacing::Off,
    prebuffer: Prebuffer::NONE,
};

pub(super) fn name(text: &str) -> StreamName {
    StreamName::parse(text).expect("a name")
}

/// A stream of MPEG-TS that began at zero, without a publisher.
pub(super) fn live(id: u64, stream: &str, workers: usize) -> Arc<Live> {
    Arc::new(Live::new(id, name(stream), Mux::MpegTs, SETTINGS, workers, Time::ZERO))
}

/// A site without pages.
struct NoSite;

impl Site for NoSite {
    fn respond(&self, _request: &Request, _door: ListenerRole, _peer: IpAddr, _hub: &Hub) -> Response {
        Response::new(404)
    }
}

/// What the threads of a relay share, without threads.
pub(super) fn hub(settings: crate::Settings, workers: usize) -> Hub {
    hub_with(settings, workers, Arc::new(NoSite))
}

/// The same, with pages.
pub(super) fn hub_with(settings: crate::Settings, workers: usize, site: Arc<dyn Site>) -> Hub {
    let (hub, _pollers) = Hub::new(settings, site, Clock::new(), workers).expect("pollers");
    hub
}
