//! A source that is fetched for `send`: a camera by RTSP, a server by HTTP, what comes in datagrams.
//!
//! ```text
//! doors::pull (thread "pull": dials, asks, waits and dials again) ─► Streams, with one stream ─► studio: CodedInput, SoundInput
//! ```
//! The stream is one of this process alone: nothing else is served.

use super::UNPOISONED;
use glassline_delivery::policy::StreamName;
use glassline_delivery::pull::{Policy, Source};
use glassline_delivery::stream::{self, Backlog, FlushPolicy, Mux, Pacing, Prebuffer};
use glassline_doors::Server;
use glassline_doors::pull::{Fetcher, Pull, PullTable, Pulling, SourceRefusal, Sources};
use glassline_io::clock::Clock;
use glassline_io::poll::Waker;
use glassline_streams::{FreeNames, News, Streams, Threads};
use glassline_studio::capture::Fetched;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

/// What the stream is called in this process, and in its log.
const NAME: &str = "input";
/// A source that is away is asked again at least so often: pictures are wanted as soon as it is back.
const RETRY_MAX: Duration = Duration::from_secs(1);
/// A camera that sends nothing for so long is asked anew.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(3);
/// The newest key frame is kept however old it is, up to so many bytes, for readers to begin with.
const KEPT: Backlog = Backlog { time: Duration::from_secs(1), bytes: 32 << 20 };
/// How often the thread that rests looks whether it has to end.
const REST: Duration = Duration::from_millis(50);

/// A source that is fetched, from its making on. Dropping it, or [`PulledSource::stop`], ends that: a camera is told that its session
/// is over.
pub struct PulledSource {
    house: Arc<House>,
    pulling: Mutex<Option<Pulling>>,
    source: Source,
}

/// The server that the pulling thread belongs to.
struct House {
    streams: Arc<Streams>,
    table: Arc<PullTable>,
    name: StreamName,
    is_running: AtomicBool,
}

/// Has the stream flushed with each push: its readers decide themselves what belongs together.
#[derive(Default)]
struct FlushAtOnce(OnceLock<Weak<Streams>>);

impl Threads for FlushAtOnce {
    fn workers(&self) -> usize {
        1
    }

    fn tell(&self, _thread: usize, news: News) {
        if let (News::FlushAt(at, live), Some(streams)) = (news, self.0.get().and_then(Weak::upgrade)) {
            let flushed = live.handle_timeout(at);
            streams.notify(&live, flushed);
        }
    }
}

impl PulledSource {
    /// Begins to fetch `source`. `ca` is a file with the authorities that may vouch for it over TLS; `None`: those of the system.
    ///
    /// # Errors
    /// The system gives no thread, or no descriptor.
    pub fn start(source: Source, ca: Option<PathBuf>) -> io::Result<PulledSource> {
        let name = StreamName::parse(NAME).ok_or(io::ErrorKind::InvalidInput)?;
        let settings = stream::Settings {
            backlog: KEPT,
            flush: FlushPolicy::Frame,
            pacing: Pacing::Off,
            prebuffer: Prebuffer::NONE,
        };
        let threads = Arc::new(FlushAtOnce::default());
        let plan = Arc::new(FreeNames { settings, max_streams: 1 });
        let streams = Arc::new(Streams::new(plan, Arc::clone(&threads) as Arc<dyn Threads>, Clock::new()));
        // Nothing else sets it.
        let _ = threads.0.set(Arc::downgrade(&streams));
        let pull = Pull {
            name: name.clone(),
            source: source.clone(),
            alternates: Vec::new(),
            mux: Some(Mux::MpegTs),
            ca,
            via: None,
            renewed: 0,
        };
        let table = Arc::new(PullTable::new(&[pull], &PullTable::default()));
        let is_running = AtomicBool::new(true);
        let house = Arc::new(House { streams, table, name, is_running });
        let mut fetcher = Fetcher::new(Arc::clone(&house) as Arc<dyn Sources>)?;
        fetcher.rearrange();
        let pulling = Mutex::new(Some(Pulling::start(fetcher)?));
        Ok(PulledSource { house, pulling, source })
    }

    /// Ends fetching, and waits for that.
    pub fn stop(&self) {
        self.house.is_running.store(false, Ordering::Release);
        if let Some(pulling) = self.pulling.lock().expect(UNPOISONED).take() {
            // The sessions end with what they are part of.
            drop(pulling.join());
        }
    }
}

impl Drop for PulledSource {
    fn drop(&mut self) {
        self.stop();
    }
}

impl std::fmt::Debug for PulledSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PulledSource").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Fetched for PulledSource {
    fn streams(&self) -> &Arc<Streams> {
        &self.house.streams
    }

    fn name(&self) -> &StreamName {
        &self.house.name
    }

    fn address(&self) -> String {
        self.source.to_string()
    }

    fn losses(&self) -> u64 {
        self.house.table.picture_losses(&self.house.name)
    }

    fn refusal(&self) -> Option<(String, String)> {
        let SourceRefusal { why, remedy } = self.house.table.refusal(&self.house.name)?;
        Some((why, remedy))
    }
}

impl Server for House {
    fn streams(&self) -> &Arc<Streams> {
        &self.streams
    }

    fn is_running(&self) -> bool {
        self.is_running.load(Ordering::Acquire)
    }

    fn rest(&self, pause: Duration) {
        let clock = self.clock();
        let until = clock.now() + pause;
        while self.is_running() && clock.now() < until {
            std::thread::sleep(until.since(clock.now()).min(REST));
        }
    }
}

impl Sources for House {
    fn pulls(&self) -> Arc<PullTable> {
        Arc::clone(&self.table)
    }

    fn policy(&self) -> Policy {
        Policy { silence_timeout: SILENCE_TIMEOUT, retry_max: RETRY_MAX, ..Policy::default() }
    }

    /// The table never changes.
    fn set_waker(&self, _: Waker) {}
}

#[cfg(test)]
#[path = "pulled_tests.rs"]
mod tests;
