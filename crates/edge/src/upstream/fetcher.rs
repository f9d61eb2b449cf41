//! The thread that fetches.

use super::super::cache::{Cache, Job};
use super::super::disk::Disk;
use super::super::fetch_mailbox::{FetchMailbox, FetchMessage};
use super::super::nodes::Nodes;
use super::exchange::{Exchange, Fetch};
use super::line::{Around, Line, READ_BYTES, Turned, token};
use super::server::Server;
use super::waiting::Waiting;
use super::{FetchCounters, UpstreamSettings};
use glassline_delivery::fill::{Failure, Object, Pace};
use glassline_io::clock::Clock;
use glassline_io::containment::{Border, contain};
use glassline_io::poll::{Poller, Waker, Wakeup, Watch};
use glassline_io::process;
use glassline_io::small_file::Accept;
use glassline_io::tcp::Connection;
use glassline_io::tls::{Connector, Roots, TlsError};
use glassline_media::Time;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const WAKE: u64 = u64::MAX;
/// How long the thread rests after a panic outside of any exchange.
const PAUSE_AFTER_PANIC: Duration = Duration::from_millis(100);
/// Fetches that are set aside in a turn of those that wait, since the servers that are left for them have no connection.
const ASIDE_MAX: usize = 16;
/// How often time limits are checked.
const SWEEP: Duration = Duration::from_millis(100);
/// The same of the disk, while something is asked of it.
const DISK_SWEEP: Duration = Duration::from_millis(25);
/// How long an object without readers is fetched on: a player that changes its connection finds it again. Where other fetches
/// wait for a connection, it is not fetched on at all.
const UNREAD_GRACE: Duration = Duration::from_secs(1);
/// Memory goes back to the system when at least so much less is in use than before.
const RETURNED_BYTES_MIN: u64 = 8 << 20;
/// Requests for one object at most.
const ATTEMPTS_MAX: usize = 8;

/// Why the thread goes on though nothing has become ready.
#[derive(Clone, Copy, Debug)]
enum Reason {
    /// A connection has more to read or to send than it got a turn for.
    Unfinished,
    /// Time limits are checked.
    Sweep,
    /// The disk may have given an object.
    Disk,
}

/// What the thread has.
pub(crate) struct Fetcher {
    settings: UpstreamSettings,
    cache: Arc<Cache>,
    disk: Option<Arc<Disk>>,
    counters: Arc<FetchCounters>,
    mailbox: Arc<FetchMailbox>,
    ends: Arc<AtomicBool>,
    clock: Clock,
    poller: Poller,
    connector: Option<Connector>,
    servers: Vec<Server>,
    /// Which of them have the same.
    groups: Vec<Range<usize>>,
    /// Servers that come to be known later, each a group of its own.
    nodes: Arc<Nodes>,
    lines: Vec<Option<Line>>,
    generations: u32,
    waiting: Waiting,
    /// Connections that had more to read than a turn's share.
    again: Vec<u64>,
    /// What this server is called among others.
    name: String,
    scratch: Vec<u8>,
    /// The most memory that was in use since some was given back.
    peak_bytes: u64,
}

impl Fetcher {
    /// A fetcher that has nothing to do. `name` tells servers which server asks.
    pub(crate) fn new(
        settings: UpstreamSettings,
        cache: Arc<Cache>,
        disk: Option<Arc<Disk>>,
        counters: Arc<FetchCounters>,
        ends: Arc<AtomicBool>,
        clock: Clock,
        name: String,
    ) -> Result<(Fetcher, Arc<FetchMailbox>), FetcherError> {
        let poller = Poller::new()?;
        let mailbox = FetchMailbox::new(Waker::new(&poller, WAKE)?);
        let wants_tls = settings.groups().flatten().any(glassline_delivery::http1::Url::tls);
        let roots = settings.ca.clone().map_or(Roots::System, Roots::File);
        let connector = wants_tls.then(|| Connector::new(&roots, Accept::RegularFile)).transpose()?;
        let seed = clock.utc().as_nanos();
        let mut groups = Vec::new();
        for group in settings.groups() {
            let begin = groups.last().map_or(0, |before: &Range<usize>| before.end);
            groups.push(begin..begin + group.len());
        }
        let servers = settings.groups().flatten().enumerate();
        let servers = servers.map(|(index, url)| Server::new(url.clone(), seed ^ index as u64)).collect();
        let fetcher = Fetcher {
            settings,
            cache,
            disk,
            counters,
            mailbox: Arc::clone(&mailbox),
            ends,
            clock,
            poller,
            connector,
            servers,
            groups,
            nodes: Arc::default(),
            lines: Vec::new(),
            generations: 0,
            waiting: Waiting::default(),
            again: Vec::new(),
            name,
            scratch: vec![0; READ_BYTES],
            peak_bytes: 0,
        };
        Ok((fetcher, mailbox))
    }

    /// Where servers are noted that come to be known later.
    pub(crate) fn nodes(&self) -> Arc<Nodes> {
        Arc::clone(&self.nodes)
    }

    /// Fetches until it is told to end.
    pub(crate) fn run(mut self) {
        while contain(Border::Worker, || self.fetch_until_told()).is_err() {
            std::thread::sleep(PAUSE_AFTER_PANIC);
            // Edges may be lost: each connection has a turn.
            let tokens =
                self.lines.iter().enumerate().filter_map(|(slot, line)| Some(line.as_ref()?.token(slot)));
            self.again = tokens.collect();
        }
        for fetch in self.waiting.take_all() {
            fetch.job.growing.change(|object| object.fail(Failure::Upstream));
        }
        for exchange in self.lines.into_iter().flatten().filter_map(|line| line.exchange) {
            exchange.download.job.growing.change(|object| object.fail(Failure::Upstream));
        }
    }

    fn fetch_until_told(&mut self) {
        let mut ready = Vec::new();
        let mut next_sweep = Time::ZERO;
        while !self.ends.load(Ordering::Acquire) {
            let now = self.clock.now();
            let awaits_disk = self.disk.as_ref().is_some_and(|disk| disk.is_awaited());
            let mut wakeup = Wakeup::NEVER.or(Reason::Sweep, next_sweep.min(now + SWEEP));
            if awaits_disk {
                wakeup = wakeup.or(Reason::Disk, now + DISK_SWEEP);
            }
            if !self.again.is_empty() {
                wakeup = wakeup.or(Reason::Unfinished, now);
            }
            if let Err(error) = self.poller.wait_until(&wakeup, now, &mut ready) {
                tracing::error!(%error, "epoll failed; nothing is fetched from upstream servers any more");
                break;
            }
            let now = self.clock.now();
            for event in &ready {
                if event.token == WAKE {
                    for message in self.mailbox.collect() {
                        // A panic drops the job, which fails its object.
                        let _ = contain(Border::Exchange, || self.handle_message(message, now));
                    }
                    // It may also be that readers have gone on, or memory was released.
                    self.resume(now);
                } else {
                    self.turn(event.token, now);
                }
            }
            for token in std::mem::take(&mut self.again) {
                self.turn(token, now);
            }
            self.take_from_disk(now);
            if now >= next_sweep {
                self.sweep(now);
                next_sweep = now + SWEEP;
            }
            self.assign_waiting(now);
        }
    }

    /// The numbers of the servers that may have it.
    fn group(&self, fetch: &Fetch) -> Range<usize> {
        self.groups.get(fetch.job.group).cloned().unwrap_or_default()
    }

    /// Takes up the servers that have come to be known since.
    fn add_nodes(&mut self) {
        let configured = self.settings.groups().count();
        for url in self.nodes.after(self.groups.len().saturating_sub(configured)) {
            if url.tls() && self.connector.is_none() {
                let roots = self.settings.ca.clone().map_or(Roots::System, Roots::File);
                match Connector::new(&roots, Accept::RegularFile) {
                    Ok(connector) => self.connector = Some(connector),
                    Err(error) => {
                        tracing::error!(server = %url.authority(), %error, "no server is asked over TLS");
                    }
                }
            }
            let at = self.servers.len();
            self.servers.push(Server::new(url, self.clock.utc().as_nanos() ^ at as u64));
            self.groups.push(at..at + 1);
        }
    }

    fn handle_message(&mut self, message: FetchMessage, now: Time) {
        if matches!(&message, FetchMessage::Job(job) if job.group >= self.groups.len()) {
            self.add_nodes();
        }
        match message {
            // Behind those that wait.
            FetchMessage::Job(job) if self.waiting.has(job.group) => self.waiting.push(Fetch::new(*job, now)),
            FetchMessage::Job(job) => self.assign(Fetch::new(*job, now), now),
            FetchMessage::Joins(ticket, address) => self.waiting.join(ticket, address),
        }
    }

    fn assign_waiting(&mut self, now: Time) {
        let groups = self.waiting.groups();
        if groups.is_empty() {
            return;
        }
        for fetch in self.waiting.take_unread() {
            self.cancel(fetch, now);
        }
        self.cancel_unread(Duration::ZERO, now);
        for group in groups {
            let mut aside = Vec::new();
            while self.can_assign(group, now)
                && aside.len() < ASIDE_MAX
                && let Some(fetch) = self.waiting.pop(group)
            {
                // A panic drops the job, which fails its object.
                let assigned = contain(Border::Exchange, || self.try_assign(fetch, now));
                aside.extend(assigned.ok().flatten());
            }
            aside.into_iter().for_each(|fetch| self.waiting.push(fetch));
        }
    }

    /// Whether the server that is asked next has a connection for one that waits, or none of them can be asked at all.
    fn can_assign(&self, group: usize, now: Time) -> bool {
        let servers = &self.servers[self.groups.get(group).cloned().unwrap_or_default()];
        let well = servers.iter().find(|server| server.is_well(now));
        match well.or_else(|| servers.iter().find(|server| server.has_address())) {
            Some(server) => !server.idle.is_empty() || server.open < self.settings.connections,
            None => !servers.iter().any(Server::is_resolving),
        }
    }

    /// The object has no reader any more.
    fn cancel(&mut self, fetch: Fetch, now: Time) {
        if !self.cache.abandon(&fetch.job.key, &fetch.job.growing) {
            return self.assign(fetch, now);
        }
        FetchCounters::add(&self.counters.cancelled, 1);
        fetch.job.growing.change(|object| object.fail(Failure::Upstream));
    }

    /// Ends exchanges of objects that have had no reader for so long.
    fn cancel_unread(&mut self, grace: Duration, now: Time) {
        for slot in 0..self.lines.len() {
            let Some(line) = self.lines[slot].as_mut() else { continue };
            let Some(exchange) = &line.exchange else { continue };
            let Job { key, growing, .. } = &exchange.download.job;
            if growing.readers() > 0 {
                line.unread_since = None;
            } else if (growing.is_sliding() || now.since(*line.unread_since.get_or_insert(now)) >= grace)
                && self.cache.abandon(key, growing)
            {
                FetchCounters::add(&self.counters.cancelled, 1);
                growing.change(|object| object.fail(Failure::Upstream));
                self.close(slot);
            }
        }
    }

    /// Goes on with what was paused, where that can be.
    fn resume(&mut self, now: Time) {
        self.cancel_unread(UNREAD_GRACE, now);
        for slot in 0..self.lines.len() {
            let Some(line) = self.lines[slot].as_mut() else { continue };
            if std::mem::take(&mut line.is_paused) {
                line.since = now;
                let token = line.token(slot);
                self.turn(token, now);
            }
        }
        // Those that wait for room get it from each other: the one that has the most for each of its readers slides first.
        while self.lines.iter().flatten().any(|line| line.is_paused) && !self.cache.make_room() {
            let shared = self.lines.iter().enumerate().filter_map(|(slot, line)| {
                let standing = line.as_ref()?.exchange.as_ref()?.download.job.growing.standing();
                (!standing.is_sliding).then_some((standing.bytes_a_reader(), slot))
            });
            let Some((_, slot)) = shared.max() else { break };
            self.slide(slot);
        }
        let is_paused = |line: &Line| line.is_paused;
        let paused: Vec<u64> = self
            .lines
            .iter()
            .enumerate()
            .filter_map(|(slot, line)| {
                let line = line.as_ref().filter(|line| is_paused(line))?;
                let exchange = line.exchange.as_ref()?;
                let pace = self.cache.pace(&exchange.download.job.growing, exchange.taken_bytes());
                matches!(pace, Pace::Fill(_)).then(|| line.token(slot))
            })
            .collect();
        self.again.extend(paused);
    }

    /// The object in `slot` gives up memory for others. One that is only asked for anew is of no use then.
    fn slide(&mut self, slot: usize) {
        let Some(exchange) = self.lines[slot].as_ref().and_then(|line| line.exchange.as_ref()) else {
            return;
        };
        let Job { key, growing, refresh, .. } = &exchange.download.job;
        self.cache.slide(key, growing);
        if refresh.is_some() {
            FetchCounters::add(&self.counters.cancelled, 1);
            growing.change(|object| object.fail(Failure::Upstream));
            self.close(slot);
        }
    }

    /// Asks the first server that is well for it, and has not failed it. Where none is left, it fails; where all connections
    /// are in use, or a name is still looked up, it waits.
    fn assign(&mut self, fetch: Fetch, now: Time) {
        if let Some(fetch) = self.try_assign(fetch, now) {
            self.waiting.push(fetch);
        }
    }

    /// The same; the fetch comes back where it is to wait.
    fn try_assign(&mut self, mut fetch: Fetch, now: Time) -> Option<Fetch> {
        if fetch.attempts >= ATTEMPTS_MAX {
            self.give_up(fetch, now);
            return None;
        }
        let mailbox = &self.mailbox;
        let group = self.group(&fetch);
        for server in &mut self.servers[group.clone()] {
            let mailbox = Arc::clone(mailbox);
            server.look_up(now, move || mailbox.wake());
        }
        let not_failed = |index: &usize| !fetch.failed.contains(index);
        let candidates: Vec<usize> = group.filter(not_failed).collect();
        let well = candidates.iter().copied().find(|index| self.servers[*index].is_well(now));
        // Where all are down the one is asked that was not asked for this one yet: better than an error.
        let any = candidates.iter().copied().find(|index| self.servers[*index].has_address());
        let Some(index) = well.or(any) else {
            if candidates.iter().any(|index| self.servers[*index].is_resolving()) {
                return Some(fetch);
            }
            self.give_up(fetch, now);
            return None;
        };
        if let Some(line) = self.servers[index].idle.pop() {
            self.send(line, fetch, now);
            return None;
        }
        if self.servers[index].open >= self.settings.connections {
            return Some(fetch);
        }
        match self.open(index, now) {
            Ok(line) => {
                self.send(line, fetch, now);
                None
            }
            Err(error) => {
                let server = self.servers[index].url.authority();
                tracing::debug!(%server, %error, "cannot connect to an upstream server");
                self.servers[index].fail(now);
                fetch.failed.push(index);
                self.try_assign(fetch, now)
            }
        }
    }

    fn open(&mut self, server: usize, now: Time) -> io::Result<usize> {
        let address = self.servers[server].next_address().ok_or(io::ErrorKind::NotFound)?;
        let connection = Connection::connect_from(address, None, None)?;
        let slot = self.lines.iter().position(Option::is_none).unwrap_or_else(|| {
            self.lines.push(None);
            self.lines.len() - 1
        });
        self.generations = self.generations.wrapping_add(1) & 0x7FFF_FFFF;
        let generation = self.generations;
        self.poller.add(&connection, token(slot, generation), Watch::Edges)?;
        self.lines[slot] = Some(Line::new(server, generation, connection, now));
        self.servers[server].open += 1;
        Ok(slot)
    }

    /// Sends the request for `fetch` by the connection in `slot`, now or when that stands.
    fn send(&mut self, slot: usize, mut fetch: Fetch, now: Time) {
        let Some(line) = self.lines[slot].as_mut() else { return self.waiting.push(fetch) };
        FetchCounters::add(&self.counters.fetches, 1);
        if fetch.download.has_begun() {
            FetchCounters::add(&self.counters.resumed, 1);
        }
        let (bytes, client) =
            fetch.request(&self.servers[line.server].url, &self.name, UpstreamSettings::limits());
        line.out = bytes;
        line.since = now;
        (line.is_paused, line.unread_since) = (false, None);
        line.exchange = Some(Exchange::new(fetch, client));
        let token = line.token(slot);
        self.turn(token, now);
    }

    fn turn(&mut self, token: u64, now: Time) {
        let slot = (token & 0xFFFF_FFFF) as usize;
        let Some(line) = self.lines.get_mut(slot).and_then(Option::as_mut) else { return };
        if line.generation != (token >> 32) as u32 {
            return;
        }
        let turned = contain(Border::Exchange, || {
            if let Err(error) = self.try_turn(slot, now) {
                self.lose(slot, &error.to_string(), now);
            }
            let exchange = self.lines[slot].as_mut().and_then(|line| line.exchange.as_mut());
            exchange.into_iter().for_each(Exchange::deliver);
        });
        if turned.is_err() {
            self.close(slot);
        }
    }

    fn try_turn(&mut self, slot: usize, now: Time) -> io::Result<()> {
        let Fetcher { lines, servers, connector, scratch, counters, cache, mailbox, clock, settings, .. } =
            self;
        let Some(line) = lines[slot].as_mut() else { return Ok(()) };
        let server = &servers[line.server].url;
        let around = Around {
            server,
            connector: connector.as_ref(),
            scratch,
            counters,
            cache,
            mailbox,
            clock,
            settings,
            now,
        };
        match line.turn(around)? {
            Turned::Waits => {}
            Turned::HasMore => self.again.push(line.token(slot)),
            Turned::Done { keeps } => self.complete(slot, keeps, now),
            Turned::TryNext => self.turn_away(slot, now),
            Turned::Failed(failure) => {
                let Some((fetch, _)) = line.exchange.take().map(Exchange::into_parts) else {
                    return Ok(());
                };
                self.close(slot);
                self.fail(fetch, failure, now);
            }
        }
        Ok(())
    }

    /// The answer is whole.
    fn complete(&mut self, slot: usize, keeps: bool, now: Time) {
        let Some(line) = self.lines[slot].as_mut() else { return };
        let (server, exchange) = (line.server, line.exchange.take());
        line.is_used = true;
        if keeps {
            self.servers[server].idle.push(slot);
        } else {
            self.close(slot);
        }
        self.servers[server].succeed();
        let Some(exchange) = exchange else { return };
        let target = &exchange.download.job.target;
        if let Some(refusal) = exchange.refusal {
            self.servers[server].tell_refusal(refusal, target, now);
        }
        let (fetch, same) = (&exchange.download, &exchange.same);
        let growing = Arc::clone(&fetch.job.growing);
        let has_failed = growing.look(|object| object.progress().failure.is_some());
        if has_failed || (same.is_none() && !fetch.download.is_whole()) {
            return self.fail(exchange.into_parts().0, Failure::Malformed, now);
        }
        let bytes = same.as_ref().map_or(fetch.download.filled(), Object::filled);
        // Before its last bytes are handed on: a client that has them may ask again, and is not to join what is over.
        if fetch.download.is_of_request() {
            // What is kept under this key, if anything is, is better.
            self.cache.forget(&fetch.job.key, &growing);
        } else {
            self.cache.keep(&fetch.job.key, &growing, bytes, fetch.freshness, now);
        }
        let (fetch, same) = exchange.into_parts();
        growing.change(|object| match same {
            Some(same) => *object = same,
            None => object.finish(),
        });
        if let Some(disk) = self.disk.as_ref().filter(|_| !growing.is_sliding()) {
            disk.offer(&fetch.job, fetch.freshness, self.clock.utc(), now);
        }
    }

    /// The connection in `slot` is of no use any more.
    fn lose(&mut self, slot: usize, why: &str, now: Time) {
        let Some(line) = self.lines[slot].as_mut() else { return };
        let (server, is_used) = (line.server, line.is_used);
        let exchange = line.exchange.take();
        self.close(slot);
        let Some(exchange) = exchange else { return };
        let has_answer = exchange.has_answer;
        let (mut fetch, _) = exchange.into_parts();
        let authority = self.servers[server].url.authority();
        tracing::debug!(server = %authority, target = %fetch.job.target, why, "a fetch broke off");
        // A server may end a connection that rested in the moment in which it is used again: no failure of its own.
        if !is_used || has_answer {
            self.servers[server].fail(now);
            fetch.failed.push(server);
        }
        self.go_on(fetch, now);
    }

    /// The server has answered by the connection in `slot` that it does not have this object, or not now. That says nothing
    /// of other objects: otherwise a client that knows an address at which the server fails could take the server from all.
    /// So the next server is asked for this object alone.
    fn turn_away(&mut self, slot: usize, now: Time) {
        let Some(line) = self.lines[slot].as_mut() else { return };
        let (server, exchange) = (line.server, line.exchange.take());
        self.close(slot);
        let Some(exchange) = exchange else { return };
        let refusal = exchange.refusal;
        let (mut fetch, _) = exchange.into_parts();
        if let Some(refusal) = refusal {
            self.servers[server].tell_refusal(refusal, &fetch.job.target, now);
        }
        let authority = self.servers[server].url.authority();
        tracing::debug!(server = %authority, target = %fetch.job.target, "an upstream server cannot answer");
        fetch.failed.push(server);
        self.go_on(fetch, now);
    }

    /// Asks the next server for what is missing.
    fn go_on(&mut self, mut fetch: Fetch, now: Time) {
        if !fetch.download.can_resume() {
            return self.fail(fetch, Failure::Upstream, now);
        }
        // What has begun may go on at the server that broke it off, too: it may be back.
        if fetch.download.has_begun() && fetch.failed.len() >= self.group(&fetch).len() {
            fetch.failed.clear();
        }
        self.assign(fetch, now);
    }

    fn close(&mut self, slot: usize) {
        if let Some(line) = self.lines[slot].take() {
            let server = &mut self.servers[line.server];
            server.open -= 1;
            server.idle.retain(|idle| *idle != slot);
        }
    }

    /// No server is left that could be asked.
    fn give_up(&mut self, fetch: Fetch, now: Time) {
        let failure = if fetch.is_barred { Failure::Barred } else { Failure::Upstream };
        self.fail(fetch, failure, now);
    }

    fn fail(&mut self, fetch: Fetch, failure: Failure, now: Time) {
        FetchCounters::add(&self.counters.failed, 1);
        let Job { key, target, growing, old, old_until, .. } = &fetch.job;
        tracing::warn!(%target, %failure, "an object cannot be fetched");
        if let Some(old) = old.as_ref().filter(|_| now < *old_until && !fetch.download.has_begun()) {
            let same = old.look(Object::clone);
            self.cache.fall_back(key, growing, same.filled(), *old_until);
            growing.change(|object| *object = same);
        } else {
            self.cache.forget(key, growing);
            growing.change(|object| object.fail(failure));
        }
    }

    /// Ends what takes too long.
    fn sweep(&mut self, now: Time) {
        self.servers.iter_mut().for_each(|server| server.take_addresses(now));
        self.resume(now);
        self.return_memory();
        for slot in 0..self.lines.len() {
            let Some(line) = self.lines[slot].as_ref().filter(|line| !line.is_paused) else { continue };
            if now.since(line.since) >= line.timeout(&self.settings) {
                self.lose(slot, "it took too long", now);
            }
        }
    }
}

impl Fetcher {
    /// Fetches what the disk does not give in time.
    fn take_from_disk(&mut self, now: Time) {
        let Some(disk) = &self.disk else { return };
        for job in disk.take_overdue(now) {
            match job {
                Ok(job) => self.handle_message(FetchMessage::Job(job), now),
                Err(job) => {
                    self.cache.forget(&job.key, &job.growing);
                    job.growing.change(|object| object.fail(Failure::Upstream));
                }
            }
        }
    }

    /// Gives memory back to the system when much less is in use than was before: the allocator keeps what is freed.
    fn return_memory(&mut self) {
        let held = self.cache.held_bytes();
        self.peak_bytes = self.peak_bytes.max(held);
        if self.peak_bytes - held >= RETURNED_BYTES_MIN.max(self.peak_bytes / 4) {
            process::return_memory();
            self.peak_bytes = held;
        }
    }
}

/// Why nothing can be fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetcherError {
    /// The system has no means for the thread.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The authorities that vouch for the servers cannot be read.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

#[cfg(test)]
#[path = "fetcher_tests.rs"]
mod tests;
