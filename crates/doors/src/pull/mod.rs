//! Pulled streams: one thread fetches them from where they are and publishes them under their names.
//!
//! ```text
//! upstream's socket ─► thread "pull" ─► delivery::pull ─┬─► Live (one name)  ─► workers ─► viewers
//!                      (one epoll for all)              └─► Live (another)
//! ```
//! [`camera`] has a session of RTSP for each camera, [`described`] the ports that a session description names.
//! Streams that name the same source share one upstream. Names are resolved on threads of their own, one at most for
//! each upstream. Workers read the state of a source from its entry in the [`PullTable`].

mod camera;
mod datagrams;
mod described;
mod dial;
mod publisher_slots;
mod retry;
mod table;
#[cfg(test)]
mod testing;
mod track_feed;
mod upstream;

pub use table::{PullTable, SourceRefusal};

use crate::Server;
use crate::tls_ends::Pair;
use camera::Camera;
use datagrams::{Datagrams, DatagramsState};
use described::DescribedSource;
use glassline_delivery::http1::Url;
use glassline_delivery::policy::StreamName;
use glassline_delivery::pull::{Policy, PullError, Source};
use glassline_delivery::stream::Mux;
use glassline_io::containment::{Border, contain, inject};
use glassline_io::poll::{Event, Poller, Waker, Wakeup};
use glassline_io::small_file::Accept;
use glassline_io::tcp::Connection as Socket;
use glassline_io::tls::{Connector, Roots, Session, TlsError};
use glassline_io::udp::Inbox;
use glassline_media::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use table::PullEntry;
use upstream::{Upstream, UpstreamState};

/// A stream that is fetched from elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pull {
    /// The name under which it is published. No other publisher gets that name.
    pub name: StreamName,
    /// Where it comes from.
    pub source: Source,
    /// Other servers that have it, in the order in which they are asked where an HTTP source fails.
    pub alternates: Vec<Url>,
    /// What comes from there; `None`: what [`Source::mux`] says.
    pub mux: Option<Mux>,
    /// A file with the certificates of the authorities that may vouch for it, where it is asked over TLS; `None`: those
    /// that the system trusts.
    pub ca: Option<PathBuf>,
    /// By which servers an HTTP source is asked (`Via`, RFC 9110 §7.6.3); `None`: nothing is said of it.
    pub via: Option<String>,
    /// A pull of the same servers with another number begins anew, at the first of them.
    pub renewed: u32,
}

/// A server with streams that are pulled.
pub trait Sources: Server {
    /// What is pulled now.
    fn pulls(&self) -> Arc<PullTable>;

    /// How patiently.
    fn policy(&self) -> Policy;

    /// The thread is woken by this where the table has changed.
    fn set_waker(&self, waker: Waker);

    /// What is asked of the server at `_source` for the stream: that it has passed fewer servers than this.
    fn hops_limit(&self, _name: &StreamName, _source: &Url) -> Option<u8> {
        None
    }

    /// The server at `_source` has begun to send these streams, or does not, for this reason.
    fn note_attempt(&self, _names: &[StreamName], _source: &Url, _outcome: Result<(), &PullError>) {}
}

/// What TLS connections to sources are made by. The authorities are read when they are first needed.
#[derive(Default)]
struct Trust(Vec<(Roots, Connector)>);

impl Trust {
    /// A session over HTTP with `host`, which one of `roots` has to vouch for.
    fn connect(&mut self, roots: &Roots, host: &str) -> Result<Session, TlsError> {
        self.connector(roots)?.connect(host)
    }

    /// The same over RTSP, for which no protocol of HTTP is named: a camera that checks the name would refuse it.
    fn connect_rtsp(&mut self, roots: &Roots, host: &str) -> Result<Session, TlsError> {
        self.connector(roots)?.without_protocol().connect(host)
    }

    fn connector(&mut self, roots: &Roots) -> Result<Connector, TlsError> {
        if let Some((_, connector)) = self.0.iter().find(|(known, _)| known == roots) {
            return Ok(connector.clone());
        }
        let connector = Connector::new(roots, Accept::RegularFile)?;
        self.0.push((roots.clone(), connector.clone()));
        Ok(connector)
    }
}

/// When a source is asked again that has panicked.
const PAUSE_AFTER_PANIC: Duration = Duration::from_secs(1);

/// The token under which the thread is woken; sources have smaller ones.
const WAKE: u64 = u64::MAX;
/// Bytes of a read. A 50 Mbit/s frame fits.
const READ_BYTES: usize = 256 << 10;
/// Reads of one socket in a row; then others get their turn.
const READS_A_TURN: usize = 16;

/// Why the thread goes on though nothing has become ready.
#[derive(Clone, Copy, Debug)]
enum Reason {
    /// A connection has more to read or to send than it got a turn for.
    Unfinished,
    /// A source has a time limit, or its next attempt is due.
    Source,
}

/// The thread that pulls, seen from outside.
pub struct Pulling {
    waker: Waker,
    thread: JoinHandle<Fetcher>,
}

impl Pulling {
    /// Starts the thread.
    pub fn start(fetcher: Fetcher) -> io::Result<Pulling> {
        let waker = fetcher.waker.clone();
        let thread = std::thread::Builder::new().name("pull".into()).spawn(move || fetcher.run())?;
        Ok(Pulling { waker, thread })
    }

    /// Waits until the thread has come to a halt or ended, as the server says already. `None` where it panicked, which
    /// has been told on standard error.
    pub fn join(self) -> Option<Fetcher> {
        self.waker.wake();
        self.thread.join().ok()
    }
}

/// What a name was resolved to, and for which source.
struct Resolved {
    index: usize,
    addresses: io::Result<Vec<SocketAddr>>,
}

/// What the thread lends to a source for its turn.
struct PullContext<'a> {
    server: &'a dyn Sources,
    poller: &'a Poller,
    waker: &'a Waker,
    answers: &'a Sender<Resolved>,
    trust: &'a mut Trust,
    scratch: &'a mut [u8],
    inbox: &'a mut Inbox,
    gathered: &'a mut Vec<u8>,
    now: Time,
}

/// A source's place in the thread, as a token: its number, and how many sockets it has had.
fn token(index: usize, generation: u32) -> u64 {
    u64::from(generation & 0x7FFF_FFFF) << 32 | (index as u64 & 0xFFFF_FFFF)
}

enum Fetch {
    Http(Box<Upstream>),
    Udp(Box<Datagrams>),
    Rtsp(Box<Camera>),
    Sdp(Box<DescribedSource>),
}

impl Fetch {
    fn new(server: &dyn Sources, index: usize, entry: Arc<PullEntry>, policy: Policy) -> Fetch {
        let seed = server.clock().seed() ^ index as u64;
        match entry.source.clone() {
            Source::Http(url) => {
                Fetch::Http(Box::new(Upstream::new(server, index, entry, url, policy, seed)))
            }
            Source::Udp(address) | Source::Rtp(address) => {
                Fetch::Udp(Box::new(Datagrams::new(server, index, entry, address, policy, seed)))
            }
            Source::Rtsp(url) => Fetch::Rtsp(Box::new(Camera::new(server, index, entry, url, policy, seed))),
            Source::Sdp(file) => {
                Fetch::Sdp(Box::new(DescribedSource::new(server, index, entry, file, policy, seed)))
            }
        }
    }

    fn reconfigure(&mut self, policy: Policy) {
        match self {
            Fetch::Http(upstream) => upstream.reconfigure(policy),
            Fetch::Udp(datagrams) => datagrams.reconfigure(policy),
            Fetch::Rtsp(camera) => camera.reconfigure(policy),
            Fetch::Sdp(described) => described.reconfigure(policy),
        }
    }

    fn entry(&self) -> &Arc<PullEntry> {
        match self {
            Fetch::Http(upstream) => upstream.entry(),
            Fetch::Udp(datagrams) => datagrams.entry(),
            Fetch::Rtsp(camera) => camera.entry(),
            Fetch::Sdp(described) => described.entry(),
        }
    }

    fn state(&self) -> Option<(SourceHandover, LeftSocket<'_>)> {
        let (kind, socket) = match self {
            Fetch::Http(upstream) => {
                let (state, socket) = upstream.state()?;
                (FetchState::Http(Box::new(state)), socket)
            }
            Fetch::Udp(datagrams) => {
                let (state, socket) = datagrams.state()?;
                (FetchState::Udp(Box::new(state)), LeftSocket::Own(socket))
            }
            // A session with a camera has up to five sockets, a described one up to four, and both are soon made again: the next
            // process does that.
            Fetch::Rtsp(_) | Fetch::Sdp(_) => return None,
        };
        let PullEntry { source, names, .. } = &**self.entry();
        let names = names.iter().map(ToString::to_string).collect();
        Some((SourceHandover { source: source.clone(), names, kind }, socket))
    }

    fn poll_timeout(&self) -> Time {
        match self {
            Fetch::Http(upstream) => upstream.poll_timeout(),
            Fetch::Udp(datagrams) => datagrams.poll_timeout(),
            Fetch::Rtsp(camera) => camera.poll_timeout(),
            Fetch::Sdp(described) => described.poll_timeout(),
        }
    }

    fn handle_timeout(&mut self, context: &mut PullContext<'_>) {
        match self {
            Fetch::Http(upstream) => upstream.handle_timeout(context),
            Fetch::Udp(datagrams) => datagrams.handle_timeout(context),
            Fetch::Rtsp(camera) => camera.handle_timeout(context),
            Fetch::Sdp(described) => described.handle_timeout(context),
        }
    }

    /// Its socket has news. Returns whether more of them wait.
    fn take_turn(&mut self, generation: u32, context: &mut PullContext<'_>) -> bool {
        match self {
            Fetch::Http(upstream) => upstream.take_turn(generation, context),
            Fetch::Udp(datagrams) => datagrams.take_turn(generation, context),
            Fetch::Rtsp(camera) => camera.take_turn(generation, context),
            Fetch::Sdp(described) => described.take_turn(generation, context),
        }
    }
}

/// What the next process reads a source from.
pub enum LeftSocket<'a> {
    /// The source's own socket.
    Own(BorrowedFd<'a>),
    /// An end for plain bytes; the TLS stays here.
    Plain(Pair),
}

impl LeftSocket<'_> {
    /// Our end, where there is one.
    pub fn into_ours(self) -> Option<Socket> {
        match self {
            LeftSocket::Own(_) => None,
            LeftSocket::Plain(pair) => Some(pair.ours),
        }
    }
}

impl AsFd for LeftSocket<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            LeftSocket::Own(socket) => *socket,
            LeftSocket::Plain(pair) => pair.theirs.as_fd(),
        }
    }
}

/// A source that sends, as one process leaves it to the next, but for its socket.
#[derive(Serialize, Deserialize)]
pub struct SourceHandover {
    source: Source,
    names: Vec<String>,
    kind: FetchState,
}

#[derive(Serialize, Deserialize)]
enum FetchState {
    Http(Box<UpstreamState>),
    Udp(Box<DatagramsState>),
}

/// What the thread has.
pub struct Fetcher {
    server: Arc<dyn Sources>,
    poller: Poller,
    waker: Waker,
    /// What is pulled.
    table: Arc<PullTable>,
    answers: (Sender<Resolved>, Receiver<Resolved>),
    trust: Trust,
    /// By the numbers in their tokens, which are never given again.
    fetches: Vec<Option<Fetch>>,
    scratch: Vec<u8>,
    inbox: Inbox,
    /// What the datagrams of one call come to.
    gathered: Vec<u8>,
    again: BTreeSet<u64>,
    /// Sources that have panicked, and when they are asked again.
    broken: Vec<(Time, Arc<PullEntry>)>,
}

impl Fetcher {
    /// Pulls nothing yet.
    pub fn new(server: Arc<dyn Sources>) -> io::Result<Fetcher> {
        let poller = Poller::new()?;
        let waker = Waker::new(&poller, WAKE)?;
        server.set_waker(waker.clone());
        let scratch = vec![0; READ_BYTES];
        Ok(Fetcher {
            server,
            poller,
            waker,
            table: Arc::default(),
            answers: channel(),
            trust: Trust::default(),
            fetches: Vec::new(),
            scratch,
            inbox: Inbox::default(),
            gathered: Vec::new(),
            again: BTreeSet::new(),
            broken: Vec::new(),
        })
    }

    /// Pulls what the server's entries name and nothing else. What is pulled already goes on.
    pub fn rearrange(&mut self) {
        let (entries, policy, now) = (self.server.pulls(), self.server.policy(), self.server.clock().now());
        let mut former = Vec::new();
        self.table = Arc::clone(&entries);
        // The files may hold other authorities by now.
        self.trust = Trust::default();
        for fetch in &mut self.fetches {
            if let Some(fetch) = fetch {
                fetch.reconfigure(policy);
            }
            if fetch
                .as_ref()
                .is_some_and(|fetch| !entries.iter().any(|entry| Arc::ptr_eq(entry, fetch.entry())))
            {
                former.extend(fetch.take());
            }
        }
        for entry in entries.iter() {
            if !self.fetches.iter().flatten().any(|fetch| Arc::ptr_eq(entry, fetch.entry())) {
                let index = self.fetches.len();
                let mut fetch = Fetch::new(&*self.server, index, Arc::clone(entry), policy);
                let is_same = |former: &mut Fetch| former.entry().names == entry.names;
                if let Fetch::Http(upstream) = &mut fetch
                    && let Some(Fetch::Http(former)) = former.extract_if(.., is_same).next()
                {
                    upstream.adopt(*former, now);
                }
                self.fetches.push(Some(fetch));
            }
        }
    }

    /// What the next process needs of the sources that send, each with its number here and its socket.
    pub fn states(&self) -> Vec<(SourceHandover, (usize, LeftSocket<'_>))> {
        let fetches = self.fetches.iter().enumerate();
        let fetches = fetches.filter_map(|(index, fetch)| Some((index, fetch.as_ref()?.state()?)));
        fetches.map(|(index, (state, socket))| (state, (index, socket))).collect()
    }

    /// The TLS of source `index`, which the thread has no more use for.
    pub fn part_with(&mut self, index: usize) -> Option<(Socket, Session)> {
        match self.fetches.get_mut(index)?.take()? {
            Fetch::Http(upstream) => upstream.into_session(),
            Fetch::Udp(_) | Fetch::Rtsp(_) | Fetch::Sdp(_) => None,
        }
    }

    /// Goes on with a source that another process left, if it is still wanted for the same streams.
    pub fn restore(&mut self, left: SourceHandover, socket: OwnedFd) -> io::Result<()> {
        let SourceHandover { source, names, kind } = left;
        let is_it = |entry: &PullEntry| {
            entry.source == source
                && entry.names.iter().map(StreamName::as_str).eq(names.iter().map(String::as_str))
        };
        let fetch = self.fetches.iter_mut().flatten().find(|fetch| is_it(fetch.entry()));
        match (fetch, kind) {
            (Some(Fetch::Http(upstream)), FetchState::Http(state)) => {
                upstream.restore(*state, socket, &self.poller)
            }
            (Some(Fetch::Udp(datagrams)), FetchState::Udp(state)) => {
                datagrams.restore(*state, socket, &self.poller)
            }
            _ => Ok(()),
        }
    }

    fn run(mut self) -> Fetcher {
        while contain(Border::Worker, || self.fetch_until_told()).is_err() {
            // The next bytes of each source bring it back.
            self.server.rest(PAUSE_AFTER_PANIC);
        }
        self
    }

    fn fetch_until_told(&mut self) {
        let mut ready = Vec::new();
        let mut next_timeout = Time::ZERO;
        while self.server.is_running() {
            let now = self.server.clock().now();
            let mut wakeup = Wakeup::NEVER.or(Reason::Source, next_timeout);
            if !self.again.is_empty() {
                wakeup = wakeup.or(Reason::Unfinished, now);
            }
            if let Err(error) = self.poller.wait_until(&wakeup, now, &mut ready) {
                tracing::error!(%error, "epoll failed; nothing is pulled any more");
                break;
            }
            for event in &ready {
                next_timeout = next_timeout.min(self.handle(*event));
            }
            for token in std::mem::take(&mut self.again) {
                next_timeout = next_timeout.min(self.turn(token));
            }
            let now = self.server.clock().now();
            if now >= next_timeout {
                for index in 0..self.fetches.len() {
                    self.with(index, |fetch, context| {
                        if context.now >= fetch.poll_timeout() {
                            fetch.handle_timeout(context);
                        }
                    });
                }
                let begins = self.begin_again(now);
                let timeouts = self.fetches.iter().flatten().map(Fetch::poll_timeout);
                next_timeout = timeouts.min().unwrap_or(Time::NEVER).min(begins);
            }
        }
    }

    /// Handles an event. Returns the time limit that came of it.
    fn handle(&mut self, event: Event) -> Time {
        if event.token != WAKE {
            return self.turn(event.token);
        }
        self.waker.clear();
        let mut next_timeout = Time::NEVER;
        let table = self.server.pulls();
        if !Arc::ptr_eq(&table, &self.table) {
            // A client has asked for another stream, or one is not watched any more.
            self.rearrange();
            next_timeout = Time::ZERO;
        }
        while let Ok(Resolved { index, addresses }) = self.answers.1.try_recv() {
            let timeout = self.with(index, |fetch, context| match fetch {
                Fetch::Http(upstream) => upstream.handle_resolved(addresses, context),
                Fetch::Rtsp(camera) => camera.handle_resolved(addresses, context),
                Fetch::Udp(_) | Fetch::Sdp(_) => {}
            });
            next_timeout = next_timeout.min(timeout);
        }
        next_timeout
    }

    fn turn(&mut self, token: u64) -> Time {
        let (index, generation) = ((token & 0xFFFF_FFFF) as usize, (token >> 32) as u32);
        let mut more = false;
        let timeout = self.with(index, |fetch, context| more = fetch.take_turn(generation, context));
        if more {
            self.again.insert(token);
        }
        timeout
    }

    fn with(&mut self, index: usize, act: impl FnOnce(&mut Fetch, &mut PullContext<'_>)) -> Time {
        let Some(fetch) = self.fetches.get_mut(index).and_then(Option::as_mut) else { return Time::NEVER };
        let now = self.server.clock().now();
        let mut context = PullContext {
            server: &*self.server,
            poller: &self.poller,
            waker: &self.waker,
            answers: &self.answers.0,
            trust: &mut self.trust,
            scratch: &mut self.scratch,
            inbox: &mut self.inbox,
            gathered: &mut self.gathered,
            now,
        };
        let timeout = contain(Border::Exchange, || {
            inject(Border::Exchange, || fetch.entry().source.to_string());
            act(fetch, &mut context);
            fetch.poll_timeout()
        });
        timeout.unwrap_or_else(|_| self.end_broken(index, now))
    }

    /// The source `index` has panicked: it is asked again after a pause, as if it had ended. Returns when that is.
    fn end_broken(&mut self, index: usize, now: Time) -> Time {
        if let Some(fetch) = self.fetches[index].take() {
            let entry = Arc::clone(fetch.entry());
            tracing::error!(source = %entry.source, "a source is asked again after a fault");
            self.broken.push((now + PAUSE_AFTER_PANIC, entry));
            // What it drops gives its streams' places back.
            let _ = contain(Border::Exchange, || drop(fetch));
        }
        for live in self.server.streams().take_broken() {
            self.server.streams().announce(&live, None);
        }
        now + PAUSE_AFTER_PANIC
    }

    /// Begins again with the sources that have panicked and have rested. Returns when the next is due.
    fn begin_again(&mut self, now: Time) -> Time {
        let policy = self.server.policy();
        let (due, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.broken).into_iter().partition(|(at, _)| *at <= now);
        self.broken = left;
        for (_, entry) in due {
            let is_wanted = self.table.iter().any(|wanted| Arc::ptr_eq(wanted, &entry));
            let is_there = self.fetches.iter().flatten().any(|fetch| Arc::ptr_eq(&entry, fetch.entry()));
            if is_wanted && !is_there {
                let index = self.fetches.len();
                self.fetches.push(Some(Fetch::new(&*self.server, index, entry, policy)));
            }
        }
        self.broken.iter().map(|(at, _)| *at).min().unwrap_or(Time::NEVER)
    }
}

#[cfg(test)]
#[path = "pull_tests.rs"]
mod tests;
