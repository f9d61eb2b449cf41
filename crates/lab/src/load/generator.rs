//! The load itself: all viewers, and where wanted the source, in one thread on one epoll instance.
//!
//! Everything that is due by the clock (frames, joins, leaves, slow reads) is done between any two reads. The clock
//! is read once for each read.

use super::check::Tracker;
use super::feed::{Feed, Feeder};
use super::pace::Pace;
use super::settings::{Settings, is_chosen};
use super::stamped::Shape;
use super::tally::{Spread, Tally, Viewers, Window};
use super::target::Target;
use super::viewer::{Ending, State, Terms, Viewer, refused};
use anyhow::{Context, Result};
use glassline_io::client::Wire;
use glassline_io::clock::Clock;
use glassline_io::poll::{Event, Poller, Wakeup, Watch};
use glassline_io::process::thread_cpu_time;
use glassline_io::tcp::Connection;
use glassline_io::tls::{Connector, READ_BYTES_MIN};
use glassline_media::Time;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// A connection to `target` that is being opened.
pub(super) fn open(
    target: &Target,
    source: Option<IpAddr>,
    buffer: Option<usize>,
    trust: Option<&Connector>,
) -> io::Result<Wire> {
    let session = match trust.filter(|_| target.url().tls()) {
        Some(connector) => Some(connector.connect(target.url().host()).map_err(io::Error::other)?),
        None if target.url().tls() => return Err(io::Error::other("no certificates are trusted")),
        None => None,
    };
    let connection = Connection::connect_from(target.address(), source, buffer)?;
    Ok(match session {
        Some(session) => Wire::Secured(connection, Box::new(session)),
        None => Wire::Plain(connection),
    })
}

/// How far it is; shown while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// What happened to viewers so far.
    pub viewers: Viewers,
    /// Connecting, or waiting for an answer.
    pub waiting: u64,
    /// Bytes of bodies since the start.
    pub bytes: u64,
    /// Packets that are wrong, missing or repeated.
    pub errors: u64,
    /// Frames and bytes of the source, and bytes that the server has not taken yet.
    pub source: Option<(u64, u64, usize)>,
}

/// Where the source's connection is told; viewers are told under number and generation.
const FEED: u64 = u64::MAX;
/// A read of a viewer's socket: several frames, small enough for the processor's cache.
const READ_BYTES: usize = 64 << 10;
/// A read until the answer's head is over, so that it brings little of the body.
const HEAD_READ_BYTES: usize = 1 << 10;
/// Reads of one viewer before another one's turn.
const READS: usize = 16;
/// Connections that are begun before what is ready is read.
const JOINS: u64 = 32;
/// What the kernel may hold for a limited viewer: with more, the server would learn late that it is slow.
const SLOW_BUFFER_BYTES: usize = 64 << 10;
/// Checked viewers, at most, in the slices of which the first key frame is looked for: that takes memory.
const SCANNED: usize = 200;
const SWEEP: Duration = Duration::from_secs(1);

struct Slot {
    viewer: Option<Viewer>,
    /// Tells events of the slot's viewer from those of one before.
    generation: u32,
}

/// Why the loop goes on though nothing has become ready.
#[derive(Clone, Copy, Debug)]
enum Reason {
    /// A connection has more to read or to send than it got a turn for.
    Unfinished,
    /// Its time is over.
    End,
    /// The source's next frame is due.
    Frame,
    /// A viewer that pauses goes on.
    Pause,
    /// Time limits are checked.
    Sweep,
    /// The next viewer joins.
    Join,
    /// The next viewer leaves and comes back.
    Churn,
}

/// Many viewers, and where wanted the source.
pub struct Load {
    settings: Settings,
    clock: Clock,
    /// The last reading of the clock.
    now: Time,
    poller: Poller,
    feeder: Option<Feeder>,
    slots: Vec<Slot>,
    buffer: Vec<u8>,
    ready: Vec<Event>,
    /// Viewers with more to read than one turn takes.
    again: Vec<u64>,
    /// Limited viewers, by when they read on.
    paused: BinaryHeap<Reverse<(Time, u64)>>,
    ramp_began: Option<Time>,
    churn_began: Option<Time>,
    churned: u64,
    dice: u64,
    swept: Time,
    /// Bytes of unlimited viewers since the last sweep, and their mean rate, in bytes a second.
    unlimited_bytes: u64,
    /// Unlimited viewers that received at the last sweep.
    unlimited_before: u64,
    stream_rate: Option<f64>,
    bytes: u64,
    window_began: Time,
    cpu_before: Duration,
    terms: Terms,
    /// Of viewers that have gone; of the others what each event told.
    tally: Tally,
}

impl Progress {
    /// Adds how far another process is.
    pub fn merge(&mut self, other: &Progress) {
        self.viewers.merge(&other.viewers);
        self.waiting += other.waiting;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.source = self.source.or(other.source);
    }
}

impl Load {
    /// A load that does nothing yet. It belongs to the thread that made it.
    ///
    /// # Errors
    /// Where the system gives no epoll instance.
    pub fn new(settings: Settings) -> Result<Load> {
        let clock = Clock::new();
        let now = clock.now();
        Ok(Load {
            clock,
            now,
            poller: Poller::new().context("cannot watch sockets")?,
            feeder: None,
            slots: Vec::with_capacity(settings.viewers),
            buffer: vec![0; READ_BYTES],
            ready: Vec::new(),
            again: Vec::new(),
            paused: BinaryHeap::new(),
            ramp_began: None,
            churn_began: None,
            churned: 0,
            dice: 0,
            swept: now,
            unlimited_bytes: 0,
            unlimited_before: 0,
            stream_rate: None,
            bytes: 0,
            window_began: now,
            cpu_before: thread_cpu_time(),
            terms: Terms { stall: settings.stall },
            tally: Tally::default(),
            settings,
        })
    }

    /// Sends a stamped stream from now on.
    ///
    /// # Errors
    /// Where the feed's socket cannot be watched.
    pub fn feed(&mut self, feed: Feed, shape: Shape) -> Result<()> {
        feed.watch(&self.poller, FEED)?;
        self.feeder = Some(Feeder::new(feed, shape, self.clock.now()));
        Ok(())
    }

    /// Lets the viewers come, from now on.
    pub fn join(&mut self) {
        self.ramp_began = Some(self.clock.now());
    }

    /// Whether all viewers have been asked to come.
    pub fn has_joined(&self) -> bool {
        self.slots.len() >= self.settings.viewers
    }

    /// Whether no viewer is left and none will come.
    pub fn is_over(&self) -> bool {
        let churns = self.settings.churn > 0.0;
        self.has_joined() && !churns && self.slots.iter().all(|slot| slot.viewer.is_none())
    }

    /// Goes on for `time`.
    ///
    /// # Errors
    /// Where the source or epoll fails; what happens to viewers is counted.
    pub fn run(&mut self, time: Duration) -> Result<()> {
        self.now = self.clock.now();
        let end = self.now + time;
        loop {
            self.do_what_is_due()?;
            if self.now >= end {
                return Ok(());
            }
            let mut wakeup = self.next_wakeup().or(Reason::End, end);
            if !self.again.is_empty() {
                wakeup = wakeup.or(Reason::Unfinished, self.now);
            }
            let mut ready = std::mem::take(&mut self.ready);
            self.poller.wait_until(&wakeup, self.now, &mut ready)?;
            self.now = self.clock.now();
            for event in &ready {
                self.handle(event)?;
                self.send_due_frame()?;
            }
            self.ready = ready;
            for token in std::mem::take(&mut self.again) {
                self.read(token);
                self.send_due_frame()?;
            }
        }
    }

    fn next_wakeup(&self) -> Wakeup<Reason> {
        let paused = self.paused.peek().map_or(Time::NEVER, |Reverse((time, _))| *time);
        Wakeup::NEVER
            .or(Reason::Frame, self.feeder.as_ref().map_or(Time::NEVER, Feeder::due))
            .or(Reason::Pause, paused)
            .or(Reason::Sweep, self.swept + SWEEP)
            .or(Reason::Join, self.next_join())
            .or(Reason::Churn, self.next_churn())
    }

    fn next_join(&self) -> Time {
        match self.ramp_began {
            Some(began) if !self.has_joined() => nth(began, self.slots.len() as u64, self.settings.ramp),
            _ => Time::NEVER,
        }
    }

    fn next_churn(&self) -> Time {
        let next = |began| nth(began, self.churned + 1, self.settings.churn);
        self.churn_began.map_or(Time::NEVER, next)
    }

    fn do_what_is_due(&mut self) -> Result<()> {
        self.send_due_frame()?;
        for _ in 0..JOINS {
            if self.next_join() > self.now {
                break;
            }
            self.slots.push(Slot { viewer: None, generation: 0 });
            self.start(self.slots.len() - 1);
        }
        if self.churn_began.is_none() && self.settings.churn > 0.0 && self.has_joined() {
            self.churn_began = Some(self.now);
        }
        for _ in 0..JOINS {
            if self.next_churn() > self.now {
                break;
            }
            self.churned += 1;
            let index = self.roll() as usize % self.slots.len();
            self.end(index, Ending::Left);
            self.start(index);
        }
        while let Some(&Reverse((time, token))) = self.paused.peek()
            && time <= self.now
        {
            self.paused.pop();
            if let Some(viewer) = self.viewer(token) {
                viewer.paused = false;
                self.read(token);
            }
        }
        if self.now >= self.swept + SWEEP {
            self.sweep();
        }
        Ok(())
    }

    fn send_due_frame(&mut self) -> Result<()> {
        if let Some(feeder) = self.feeder.as_mut().filter(|feeder| feeder.due() <= self.now) {
            feeder.send(self.clock.now())?;
            self.now = self.clock.now();
        }
        Ok(())
    }

    fn handle(&mut self, event: &Event) -> Result<()> {
        if event.token == FEED {
            let now = self.now;
            return self.feeder.as_mut().map_or(Ok(()), |feeder| feeder.handle(&self.poller, FEED, now));
        }
        let index = event.token as u32 as usize;
        let (now, targets) = (self.now, self.settings.targets.len());
        let Some(viewer) = self.slots.get_mut(index).filter(|slot| is_of(slot, index, event.token)) else {
            return Ok(());
        };
        let Some(viewer) = &mut viewer.viewer else { return Ok(()) };
        let target = &self.settings.targets[index % targets];
        let begun = match viewer.state {
            State::Connecting if !event.writable => return Ok(()),
            State::Connecting => viewer.connected(target, now, &mut self.tally),
            State::Securing => viewer.secure(target, &mut self.buffer, now, &mut self.tally),
            State::Asked | State::Receiving => Ok(()),
        };
        if let Err(ending) = begun {
            self.end(index, ending);
            return Ok(());
        }
        if event.readable {
            self.read(event.token);
        }
        Ok(())
    }

    fn viewer(&mut self, token: u64) -> Option<&mut Viewer> {
        let index = token as u32 as usize;
        self.slots.get_mut(index).filter(|slot| is_of(slot, index, token))?.viewer.as_mut()
    }

    /// Begins a viewer in an empty slot.
    fn start(&mut self, index: usize) {
        let settings = &self.settings;
        let target = &settings.targets[index % settings.targets.len()];
        let sources = &settings.sources;
        let source = (!sources.is_empty()).then(|| sources[index / settings.targets.len() % sources.len()]);
        let limit = settings.limit(index);
        let checked = settings.is_checked(index);
        let buffer = limit.map(|_| SLOW_BUFFER_BYTES);
        self.tally.viewers.asked += 1;
        let slot = &mut self.slots[index];
        slot.generation = slot.generation.wrapping_add(1);
        let token = token(slot, index);
        let begun = open(target, source, buffer, settings.trust.as_ref())
            .and_then(|wire| self.poller.add(wire.socket(), token, Watch::Edges).map(|()| wire));
        match begun {
            Ok(wire) => {
                let pace = limit.map(|limit| Pace::new(limit, self.now));
                let scanned = checked && is_chosen(index, SCANNED, settings.viewers);
                let tracker = if scanned { Tracker::with_scanner() } else { Tracker::new() };
                slot.viewer = Some(Viewer::new(wire, pace, tracker, checked, self.now));
            }
            Err(error) => self.count(&refused(&error)),
        }
    }

    fn end(&mut self, index: usize, ending: Ending) {
        let Some(viewer) = self.slots[index].viewer.take() else { return };
        viewer.sum_up(self.now, &self.terms, &mut self.tally);
        self.count(&ending);
        if ending == Ending::Finished && self.settings.repeat {
            self.start(index);
        }
    }

    fn count(&mut self, ending: &Ending) {
        let viewers = &mut self.tally.viewers;
        match ending {
            Ending::Refused(reason) => {
                viewers.refused += 1;
                self.tally.count_reason(reason, 1);
            }
            Ending::Dropped(reason) => {
                viewers.dropped += 1;
                self.tally.count_reason(reason, 1);
            }
            Ending::Finished => viewers.finished += 1,
            Ending::Left => viewers.left += 1,
        }
    }

    /// Reads what has come, as far as the viewer's pace and the others let it.
    fn read(&mut self, token: u64) {
        let index = token as u32 as usize;
        let Some(slot) = self.slots.get_mut(index).filter(|slot| is_of(slot, index, token)) else { return };
        let Some(viewer) = slot.viewer.as_mut().filter(|viewer| !viewer.paused) else { return };
        if matches!(viewer.state, State::Connecting | State::Securing) {
            return;
        }
        let mut ending = None;
        for turn in 0.. {
            if turn == READS {
                self.again.push(token);
                break;
            }
            let mut room = if viewer.state == State::Receiving { READ_BYTES } else { HEAD_READ_BYTES };
            if let Some(pace) = &mut viewer.pace {
                match pace.ask(self.now, self.stream_rate) {
                    Ok(allowed) => room = room.min(allowed),
                    Err(later) => {
                        viewer.paused = true;
                        self.paused.push(Reverse((later, token)));
                        break;
                    }
                }
            }
            let is_plain = viewer.wire.tells_when_empty();
            if !is_plain {
                room = room.max(READ_BYTES_MIN);
            }
            let length = match viewer.wire.read(&mut self.buffer[..room]) {
                Ok(Some(length)) => length,
                Ok(None) => break,
                Err(error) if viewer.state == State::Receiving => {
                    ending = Some(Ending::Dropped(error.to_string()));
                    break;
                }
                Err(error) => {
                    ending = Some(refused(&error));
                    break;
                }
            };
            self.now = self.clock.now();
            self.bytes += length as u64;
            match &mut viewer.pace {
                Some(pace) => pace.spend(length),
                None => self.unlimited_bytes += length as u64,
            }
            if let Err(end) = viewer.take(&self.buffer[..length], self.now, &self.terms, &mut self.tally) {
                ending = Some(end);
                break;
            }
            // A short read has emptied the socket: what comes is told, and the sweep finds an end that came with it.
            if length < room && is_plain {
                break;
            }
        }
        if let Some(ending) = ending {
            self.end(index, ending);
        }
    }

    /// Once a second: ends viewers that have waited for an answer for too long, reads from those that were silent,
    /// since they may have gone, and measures how fast the stream is.
    fn sweep(&mut self) {
        let (before, now) = (self.swept, self.now);
        self.swept = now;
        let mut unlimited = 0u64;
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            let Some(viewer) = &slot.viewer else { continue };
            unlimited += u64::from(viewer.pace.is_none() && viewer.state == State::Receiving);
            let token = token(slot, index);
            if viewer.unanswered(now).is_some_and(|wait| wait >= self.settings.timeout) {
                let wait = self.settings.timeout.as_secs_f64();
                self.end(index, Ending::Refused(format!("no answer within {wait} s")));
            } else if viewer.state != State::Connecting && viewer.is_idle_since(before) {
                self.read(token);
            }
        }
        // A first estimate wants viewers that were there all the time: too low a one would let slow readers stall.
        let known = self.stream_rate.is_some() || self.unlimited_before * 2 > unlimited;
        self.unlimited_before = unlimited;
        if unlimited > 0 && known {
            let rate = self.unlimited_bytes as f64 / unlimited as f64 / now.since(before).as_secs_f64();
            // Smoothed, since each viewer begins with a burst.
            self.stream_rate = Some(self.stream_rate.map_or(rate, |known| known * 0.7 + rate * 0.3));
        }
        self.unlimited_bytes = 0;
    }

    /// splitmix64: which viewer leaves. The same each time.
    fn roll(&mut self) -> u64 {
        self.dice = self.dice.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.dice ^ self.dice >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// A window begins: rates, gaps and delays count from here.
    pub fn begin_window(&mut self) {
        self.now = self.clock.now();
        self.window_began = self.now;
        self.cpu_before = thread_cpu_time();
        self.tally.window = Window::default();
        if let Some(feeder) = &mut self.feeder {
            feeder.begin_window();
        }
        for slot in &mut self.slots {
            if let Some(viewer) = &mut slot.viewer {
                viewer.begin_window(self.now);
            }
        }
    }

    /// Viewers leave from now on, this many a second, each for another one; how long joins take is told of these alone.
    pub fn begin_churn(&mut self, rate: f64) {
        (self.settings.churn, self.churned, self.churn_began) = (rate, 0, None);
        self.tally.forget_joins();
    }

    /// How long each frame of the source waited until the server's side of the connection had room for all of it,
    /// since the window began, in nanoseconds; `None` without a source.
    pub fn source_waits(&self) -> Option<&Spread> {
        self.feeder.as_ref().map(Feeder::waits)
    }

    /// How far it is. Looks at each viewer.
    pub fn progress(&self) -> Progress {
        let viewers = || self.slots.iter().filter_map(|slot| slot.viewer.as_ref());
        let receiving = viewers().filter(|viewer| viewer.state == State::Receiving).count() as u64;
        Progress {
            viewers: Viewers { receiving, ..self.tally.viewers },
            waiting: viewers().count() as u64 - receiving,
            bytes: self.bytes,
            errors: self.tally.verdict.errors() + viewers().map(Viewer::errors).sum::<u64>(),
            source: self.feeder.as_ref().map(Feeder::sent),
        }
    }

    /// All that was seen so far.
    pub fn tally(&self) -> Tally {
        let now = self.clock.now();
        let mut tally = self.tally.clone();
        tally.viewers.receiving = self.progress().viewers.receiving;
        for viewer in self.slots.iter().filter_map(|slot| slot.viewer.as_ref()) {
            viewer.sum_up(now, &self.terms, &mut tally);
        }
        tally.window.seconds = now.since(self.window_began).as_secs_f64();
        tally.cpu_seconds = thread_cpu_time().saturating_sub(self.cpu_before).as_secs_f64();
        tally.run_seconds = tally.window.seconds;
        tally
    }
}

/// When the `number`-th of `rate` a second is due.
pub(super) fn nth(began: Time, number: u64, rate: f64) -> Time {
    began + Duration::try_from_secs_f64(number as f64 / rate).unwrap_or(Duration::MAX)
}

fn token(slot: &Slot, index: usize) -> u64 {
    u64::from(slot.generation) << 32 | index as u64
}

fn is_of(slot: &Slot, index: usize, told: u64) -> bool {
    token(slot, index) == told
}

#[cfg(test)]
#[path = "generator_tests.rs"]
mod tests;
