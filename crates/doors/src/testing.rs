//! A server for the tests of several files.

use crate::Server;
use crate::output::{Destinations, OutputTable};
use crate::pull::{PullTable, Sources};
use glassline_delivery::policy::StreamName;
use glassline_delivery::pull::Policy;
use glassline_delivery::stream::{self, Backlog, FlushPolicy, Mux, Pacing, Prebuffer};
use glassline_io::clock::Clock;
use glassline_io::poll::Waker;
use glassline_streams::{Live, News, Owner, Plan, Publisher, Streams, Threads};
use glassline_test_support::ts::Source;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SETTINGS: stream::Settings = stream::Settings {
    backlog: Backlog { time: Duration::from_secs(10), bytes: 1 << 20 },
    flush: FlushPolicy::Frame,
    pacing: Pacing::Off,
    prebuffer: Prebuffer::NONE,
};

/// Any name for any publisher, and outputs for each stream.
struct AnyName;

impl Plan for AnyName {
    fn owner(&self, _: &StreamName) -> Option<Owner> {
        None
    }

    fn has_outputs(&self, _: &StreamName) -> bool {
        true
    }

    fn settings(&self, _: &StreamName) -> stream::Settings {
        SETTINGS
    }

    fn max_streams(&self) -> usize {
        100
    }

    fn workers(&self) -> usize {
        1
    }
}

/// Keeps the news for the thread that sends.
#[derive(Default)]
struct Outputs {
    news: Mutex<Vec<Arc<Live>>>,
    waker: Mutex<Option<Waker>>,
}

/// The number of the thread that sends: the first behind the one worker.
const OUTPUTS: usize = 1;

impl Threads for Outputs {
    fn workers(&self) -> usize {
        1
    }

    fn tell(&self, thread: usize, news: News) {
        if let (OUTPUTS, News::Flushed(live)) = (thread, news) {
            self.news.lock().unwrap().push(live);
            self.waker.lock().unwrap().iter().for_each(Waker::wake);
        }
    }
}

/// A server that pulls and sends what a test says.
pub(crate) struct House {
    streams: Arc<Streams>,
    outputs: Arc<Outputs>,
    is_running: AtomicBool,
    pub(crate) pulls: Mutex<Arc<PullTable>>,
    pub(crate) sent: Mutex<Arc<OutputTable>>,
    pub(crate) policy: Mutex<Policy>,
    /// What wakes the thread that pulls.
    pub(crate) waker: Mutex<Option<Waker>>,
}

impl House {
    pub(crate) fn new() -> Arc<House> {
        let outputs = Arc::new(Outputs::default());
        let threads = Arc::clone(&outputs) as Arc<dyn Threads>;
        Arc::new(House {
            streams: Arc::new(Streams::new(Arc::new(AnyName), threads, Clock::new())),
            outputs,
            is_running: AtomicBool::new(true),
            pulls: Mutex::default(),
            sent: Mutex::default(),
            policy: Mutex::default(),
            waker: Mutex::default(),
        })
    }

    /// The thread that sends is woken by this.
    pub(crate) fn wake_outputs_by(&self, waker: Waker) {
        *self.outputs.waker.lock().unwrap() = Some(waker);
    }

    /// The threads have to return.
    pub(crate) fn halt(&self) {
        self.is_running.store(false, Ordering::SeqCst);
        self.outputs.waker.lock().unwrap().iter().for_each(Waker::wake);
        self.waker.lock().unwrap().iter().for_each(Waker::wake);
    }

    /// They may be started again.
    pub(crate) fn go_on(&self) {
        self.is_running.store(true, Ordering::SeqCst);
    }

    pub(crate) fn publish(&self, text: &str) -> Publisher {
        self.streams.publish(&name(text), Mux::MpegTs).unwrap()
    }

    /// Bytes that a stream has taken in; `None` where there is none.
    pub(crate) fn bytes_in(&self, text: &str) -> Option<u64> {
        self.streams.find(&name(text)).map(|live| live.bytes_in())
    }

    /// Whether a stream has a publisher now.
    pub(crate) fn is_published(&self, text: &str) -> bool {
        self.streams.find(&name(text)).is_some_and(|live| live.published_since().is_some())
    }
}

impl Server for House {
    fn streams(&self) -> &Arc<Streams> {
        &self.streams
    }

    fn is_running(&self) -> bool {
        self.is_running.load(Ordering::SeqCst)
    }

    fn rest(&self, _: Duration) {}
}

impl Sources for House {
    fn pulls(&self) -> Arc<PullTable> {
        Arc::clone(&self.pulls.lock().unwrap())
    }

    fn policy(&self) -> Policy {
        *self.policy.lock().unwrap()
    }

    fn set_waker(&self, waker: Waker) {
        *self.waker.lock().unwrap() = Some(waker);
    }
}

impl Destinations for House {
    fn outputs(&self) -> Arc<OutputTable> {
        Arc::clone(&self.sent.lock().unwrap())
    }

    fn pacing(&self, _: &StreamName) -> Pacing {
        Pacing::Off
    }

    fn thread(&self) -> usize {
        OUTPUTS
    }

    fn take_news(&self, into: &mut Vec<Arc<Live>>) {
        self.outputs.waker.lock().unwrap().iter().for_each(Waker::clear);
        into.append(&mut self.outputs.news.lock().unwrap());
    }
}

pub(crate) fn name(text: &str) -> StreamName {
    StreamName::parse(text).unwrap()
}

/// Tables and a key frame of so many packets.
pub(crate) fn ts(packets: usize) -> Vec<u8> {
    let mut source = Source::default();
    [source.tables(), source.picture(true, packets)].concat()
}
