//! Streams that leave in datagrams: to machines and multicast groups that the configuration names.
//!
//! ```text
//!                                  ┌─ Feed ─► udp://239.1.2.3:5000
//! Live ─ news ─► thread "output" ─┼─ Feed ─► rtp://10.0.0.5:5004
//!                                  └─ TrackFeed ─► rtp+sdp://…: its tracks, each for itself
//! ```
//! One thread reads the streams' spools as viewers do, woken by the same news. What a flush brings leaves in bursts of
//! a few datagrams, with pauses between them that a timer of the thread keeps: the kernel paces a UDP socket only where
//! a queueing discipline of its own is set up, and segmentation offload would make the very burst that the pauses
//! avoid.

mod address;
mod feed;
mod table;
mod tracks;

pub use feed::OutputHandover;
pub use table::OutputTable;

use crate::Server;
use feed::Feed;
use glassline_delivery::output::Destination;
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::Pacing;
use glassline_io::containment::{Border, contain, inject};
use glassline_io::poll::{Poller, Wakeup};
use glassline_media::{Time, Utc};
use glassline_streams::Live;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use table::OutputEntry;
use tracks::TrackFeed;

/// A stream that is sent somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The stream's name.
    pub name: StreamName,
    /// Where it goes.
    pub destination: Destination,
}

/// A server with streams that are sent somewhere.
pub trait Destinations: Server {
    /// What is sent, and where.
    fn outputs(&self) -> Arc<OutputTable>;

    /// How the stream `name` is paced.
    fn pacing(&self, name: &StreamName) -> Pacing;

    /// The number under which streams tell the thread that sends of their news ([`Live::heard`]).
    fn thread(&self) -> usize;

    /// Adds the streams that have grown, ended or begun since the last call, of which the thread was woken.
    fn take_news(&self, into: &mut Vec<Arc<Live>>);
}

/// How long the thread rests after a panic outside of any output.
const PAUSE_AFTER_PANIC: Duration = Duration::from_millis(100);

/// The thread, seen from outside.
pub enum Sending {
    /// There is nothing to send, and no thread.
    Idle(Feeder),
    /// It runs.
    Running(JoinHandle<Feeder>),
}

impl Sending {
    /// Starts the thread, if it has something to do.
    pub fn start(feeder: Feeder) -> io::Result<Sending> {
        if feeder.feeds.is_empty() {
            return Ok(Sending::Idle(feeder));
        }
        let thread = std::thread::Builder::new().name("output".into());
        Ok(Sending::Running(thread.spawn(move || feeder.run())?))
    }

    /// Waits until the thread has come to a halt or ended, as the server says already. `None` where it panicked, which
    /// has been told on standard error.
    pub fn join(self) -> Option<Feeder> {
        match self {
            Sending::Idle(feeder) => Some(feeder),
            Sending::Running(thread) => thread.join().ok(),
        }
    }
}

/// Why the thread goes on though no stream has news.
#[derive(Clone, Copy, Debug)]
enum Reason {
    /// The output of this number has something to send, or a time limit.
    Output(#[expect(dead_code, reason = "the log shows it")] usize),
}

/// An output of either kind.
enum AnyFeed {
    Packets(Box<Feed>),
    Tracks(Box<TrackFeed>),
}

impl AnyFeed {
    fn new(entry: Arc<OutputEntry>, seed: u64) -> AnyFeed {
        match entry.destination.tracks.clone() {
            None => AnyFeed::Packets(Box::new(Feed::new(entry, seed))),
            Some(options) => AnyFeed::Tracks(Box::new(TrackFeed::new(entry, options, seed))),
        }
    }

    fn begun_anew(entry: Arc<OutputEntry>, seed: u64, now: Time) -> AnyFeed {
        match entry.destination.tracks.clone() {
            None => AnyFeed::Packets(Box::new(Feed::begun_anew(entry, seed, now))),
            Some(options) => AnyFeed::Tracks(Box::new(TrackFeed::new(entry, options, seed).begun_anew(now))),
        }
    }

    fn entry(&self) -> &Arc<OutputEntry> {
        match self {
            AnyFeed::Packets(feed) => feed.entry(),
            AnyFeed::Tracks(feed) => feed.entry(),
        }
    }

    fn reconfigure(&mut self, pacing: Pacing) {
        match self {
            AnyFeed::Packets(feed) => feed.reconfigure(pacing),
            AnyFeed::Tracks(feed) => feed.reconfigure(pacing),
        }
    }

    fn poll_timeout(&self) -> Time {
        match self {
            AnyFeed::Packets(feed) => feed.poll_timeout(),
            AnyFeed::Tracks(feed) => feed.poll_timeout(),
        }
    }

    fn handle_news(&mut self, live: &Arc<Live>) {
        match self {
            AnyFeed::Packets(feed) => feed.handle_news(live),
            AnyFeed::Tracks(feed) => feed.handle_news(live),
        }
    }

    fn handle_timeout(&mut self, now: Time, utc: Utc) {
        match self {
            AnyFeed::Packets(feed) => feed.handle_timeout(now),
            AnyFeed::Tracks(feed) => feed.handle_timeout(now, utc),
        }
    }

    /// It is not wanted any more.
    fn leave(self, now: Time, utc: Utc) {
        if let AnyFeed::Tracks(feed) = self {
            feed.leave(now, utc);
        }
    }

    fn state(&self) -> OutputHandover {
        match self {
            AnyFeed::Packets(feed) => feed.state(),
            AnyFeed::Tracks(feed) => feed.state(),
        }
    }

    fn restore(&mut self, left: &OutputHandover) {
        match self {
            AnyFeed::Packets(feed) => feed.restore(left),
            AnyFeed::Tracks(feed) => feed.restore(left),
        }
    }
}

/// What the thread has.
pub struct Feeder {
    server: Arc<dyn Destinations>,
    poller: Poller,
    feeds: Vec<AnyFeed>,
}

impl Feeder {
    /// Feeds nothing yet. `poller` is the one that the outputs' inbox wakes.
    pub fn new(server: Arc<dyn Destinations>, poller: Poller) -> Feeder {
        Feeder { server, poller, feeds: Vec::new() }
    }

    /// Feeds what the server's entries name and nothing else. What is fed already goes on.
    pub fn rearrange(&mut self) {
        let entries = self.server.outputs();
        let is_wanted = |feed: &mut AnyFeed| entries.iter().any(|entry| Arc::ptr_eq(entry, feed.entry()));
        let (now, utc) = (self.server.clock().now(), self.server.clock().utc());
        let unwanted = self.feeds.extract_if(.., |feed| !is_wanted(feed));
        unwanted.for_each(|feed| feed.leave(now, utc));
        for (index, entry) in entries.iter().enumerate() {
            if !self.feeds.iter().any(|feed| Arc::ptr_eq(entry, feed.entry())) {
                let seed = self.server.clock().seed() ^ index as u64;
                self.feeds.push(AnyFeed::new(Arc::clone(entry), seed));
            }
        }
        for feed in &mut self.feeds {
            feed.reconfigure(self.server.pacing(&feed.entry().name));
            if let Some(live) = self.server.streams().find(&feed.entry().name) {
                live.set_has_outputs(true);
                feed.handle_news(&live);
            }
        }
    }

    /// What the next process needs of the outputs.
    pub fn states(&self) -> Vec<OutputHandover> {
        self.feeds.iter().map(AnyFeed::state).collect()
    }

    /// Goes on with the outputs that another process left, if they are still wanted.
    pub fn restore(&mut self, left: &[OutputHandover]) {
        for feed in &mut self.feeds {
            left.iter().for_each(|left| feed.restore(left));
        }
    }

    /// Sends until the server halts or stops the threads. Returns with all that it has, to be started again or handed
    /// over.
    fn run(mut self) -> Feeder {
        while contain(Border::Worker, || self.feed_until_told()).is_err() {
            self.server.rest(PAUSE_AFTER_PANIC);
            // News that were on their way may be lost.
            self.server.streams().all().iter().for_each(|live| self.handle_news(live));
        }
        self
    }

    fn feed_until_told(&mut self) {
        let (mut ready, mut news) = (Vec::new(), Vec::new());
        while self.server.is_running() {
            let now = self.server.clock().now();
            let feeds = self.feeds.iter().enumerate();
            let wakeup = feeds.fold(Wakeup::NEVER, |wakeup, (index, feed)| {
                wakeup.or(Reason::Output(index), feed.poll_timeout())
            });
            if let Err(error) = self.poller.wait_until(&wakeup, now, &mut ready) {
                tracing::error!(%error, "epoll failed; nothing is sent to outputs any more");
                break;
            }
            if !ready.is_empty() {
                self.server.take_news(&mut news);
                for live in news.drain(..) {
                    self.handle_news(&live);
                }
            }
            for index in 0..self.feeds.len() {
                let (now, utc) = (self.server.clock().now(), self.server.clock().utc());
                if self.feeds[index].poll_timeout() <= now {
                    self.of_feed(index, |feed| {
                        inject(Border::Output, || feed.entry().destination.to_string());
                        feed.handle_timeout(now, utc);
                    });
                }
            }
        }
    }

    /// Does something with one output. Where that panics, this output is begun anew after a pause, and no other is touched.
    fn of_feed(&mut self, index: usize, act: impl FnOnce(&mut AnyFeed)) {
        let feed = &mut self.feeds[index];
        if contain(Border::Output, || act(feed)).is_ok() {
            return;
        }
        let entry = Arc::clone(feed.entry());
        tracing::error!(stream = %entry.name, output = %entry.destination, "an output is begun anew after a fault");
        let seed = self.server.clock().seed() ^ index as u64;
        self.feeds[index] = AnyFeed::begun_anew(entry, seed, self.server.clock().now());
        let entry = Arc::clone(self.feeds[index].entry());
        self.feeds[index].reconfigure(self.server.pacing(&entry.name));
        for live in self.server.streams().take_broken() {
            self.server.streams().announce(&live, None);
        }
        if let Some(live) = self.server.streams().find(&entry.name) {
            self.feeds[index].handle_news(&live);
        }
    }

    /// A stream has grown, ended or begun.
    fn handle_news(&mut self, live: &Arc<Live>) {
        live.heard(self.server.thread());
        let mut is_wanted = false;
        for index in 0..self.feeds.len() {
            if self.feeds[index].entry().name == live.name {
                self.of_feed(index, |feed| feed.handle_news(live));
                is_wanted = true;
            }
        }
        live.set_has_outputs(is_wanted);
    }
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
