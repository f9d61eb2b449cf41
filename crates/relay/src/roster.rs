//! The viewers of all workers: addresses, rates, how far they are behind live and why, as of each worker's last look at
//! them.
//!
//! In each sweep a worker looks at a part of its viewers' connections ([`Sampling`]) and writes down here what it saw.
//! Requests for the viewers read that and never wait for a worker. Worker 0 adds each stream's viewers up once a
//! second.

mod packed;
mod sampling;
#[cfg(test)]
mod tests;

pub(super) use sampling::Sampling;

use glassline_delivery::policy::StreamName;
use glassline_delivery::telemetry::{Behind, SLOW_FROM, Sample, Why};
use glassline_io::tcp::Info;
use glassline_media::Time;
use glassline_streams::Live;
use glassline_streams::status::WhyCounts;
use glassline_streams::telemetry::Audience;
use packed::{OptionalCount, PackedInfo};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A viewer, as it was when its worker last looked.
#[derive(Clone, Debug)]
pub struct Client {
    /// From where it watches.
    pub address: SocketAddr,
    /// What.
    pub stream: StreamName,
    /// Since it joined.
    pub joined: Duration,
    /// Bytes of the stream that its socket took.
    pub bytes_sent: u64,
    /// Bits a second, over the last second or more; `None` in its first.
    pub rate_bps: Option<u64>,
    /// Bytes that have not left for it.
    pub behind_bytes: u64,
    /// Age of the oldest of them; `None` where it waits for a key frame to begin at.
    pub behind: Option<Duration>,
    /// Times that it was moved forward.
    pub moved_forward: u32,
    /// What its connection is paced at, bits a second; `None` where it is not.
    pub pace_bps: Option<u64>,
    /// What the kernel says of its connection.
    pub tcp: Info,
    /// What keeps it from being live.
    pub why: Why,
    /// Since its worker looked.
    pub seen: Duration,
}

/// What [`crate::Hub::clients`] found.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    /// Viewers that were looked at, by what keeps them from being live, in the order of [`Why::ALL`].
    pub why: WhyCounts,
    /// How far they are behind live.
    pub behind: Behind,
    /// Bits a second to all of them.
    pub rate_bps: u64,
    /// The viewers that are furthest behind, the furthest first.
    pub list: Vec<Client>,
}

/// What is known of one viewer. It has to stay small, since there may be very many.
#[derive(Debug)]
struct Entry {
    token: u64,
    live: Arc<Live>,
    address: SocketAddr,
    joined: Time,
    newest: Observation,
    anchor: Anchor,
    rate_bps: OptionalCount,
    why: Why,
}

/// What one look at a viewer showed.
#[derive(Clone, Copy, Debug)]
struct Observation {
    at: Time,
    info: PackedInfo,
    bytes_sent: u64,
    /// Bytes that wait here; those in the kernel are in `info`.
    waiting_bytes: u64,
    behind_ms: u32,
    moved_forward: u32,
    /// 0 where it is not paced.
    pace_bps: u64,
    is_placed: bool,
    is_blocked: bool,
}

/// An earlier look, a second ago or more: rates and reasons are those of the time since.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    at: Time,
    bytes_sent: u64,
    bytes_acked: OptionalCount,
    busy_us: OptionalCount,
    rwnd_limited_us: OptionalCount,
    sndbuf_limited_us: OptionalCount,
}

/// Rates and reasons are taken over this long, or a little more.
const ANCHOR_AGE: Duration = Duration::from_secs(1);
/// For this long after a request for the viewers, workers look at more of them in a sweep.
const ATTENTION: Duration = Duration::from_secs(10);

impl Observation {
    fn sample(&self) -> Sample {
        Sample {
            at: self.at,
            behind: Duration::from_millis(self.behind_ms.into()),
            waiting_bytes: self.waiting_bytes,
            socket_full: self.is_blocked,
            pace_bps: (self.pace_bps > 0).then_some(self.pace_bps),
            bytes_acked: self.info.bytes_acked.get(),
            busy_us: self.info.busy_us.get(),
            rwnd_limited_us: self.info.rwnd_limited_us.get(),
            sndbuf_limited_us: self.info.sndbuf_limited_us.get(),
        }
    }

    fn anchor(&self) -> Anchor {
        let PackedInfo { bytes_acked, busy_us, rwnd_limited_us, sndbuf_limited_us, .. } = self.info;
        let Observation { at, bytes_sent, .. } = *self;
        Anchor { at, bytes_sent, bytes_acked, busy_us, rwnd_limited_us, sndbuf_limited_us }
    }
}

impl Anchor {
    fn sample(&self) -> Sample {
        Sample {
            at: self.at,
            bytes_acked: self.bytes_acked.get(),
            busy_us: self.busy_us.get(),
            rwnd_limited_us: self.rwnd_limited_us.get(),
            sndbuf_limited_us: self.sndbuf_limited_us.get(),
            ..Sample::default()
        }
    }
}

impl Entry {
    /// A viewer that was never looked at before.
    fn new(token: u64, live: Arc<Live>, address: SocketAddr, joined: Time, newest: Observation) -> Entry {
        Entry {
            token,
            live,
            address,
            joined,
            newest,
            anchor: newest.anchor(),
            rate_bps: None.into(),
            why: Why::Fine,
        }
    }

    fn look(&mut self, newest: Observation) {
        let again = newest.info.total_retrans.saturating_sub(self.newest.info.total_retrans);
        self.live.counters.retransmitted.add(u64::from(again));
        self.newest = newest;
        let elapsed = newest.at.since(self.anchor.at);
        if elapsed >= ANCHOR_AGE {
            let bits = newest.bytes_sent.saturating_sub(self.anchor.bytes_sent) as f64 * 8.0;
            self.rate_bps = Some((bits / elapsed.as_secs_f64()) as u64).into();
            self.why = Why::of(&self.anchor.sample(), &newest.sample());
            self.anchor = newest.anchor();
        } else if newest.sample().behind < SLOW_FROM {
            self.why = Why::Fine;
        }
    }

    fn behind_ms(&self) -> Option<u32> {
        self.newest.is_placed.then_some(self.newest.behind_ms)
    }

    fn client(&self, now: Time) -> Client {
        let (newest, tcp) = (&self.newest, self.newest.info.unpack());
        Client {
            address: self.address,
            stream: self.live.name.clone(),
            joined: now.since(self.joined),
            bytes_sent: newest.bytes_sent,
            rate_bps: self.rate_bps.get(),
            behind_bytes: newest.waiting_bytes + u64::from(tcp.notsent_bytes.unwrap_or(0)),
            behind: self.behind_ms().map(|ms| Duration::from_millis(ms.into())),
            moved_forward: newest.moved_forward,
            pace_bps: newest.sample().pace_bps,
            tcp,
            why: self.why,
            seen: now.since(newest.at),
        }
    }
}

/// All viewers, worker by worker, each at its slot's place.
#[derive(Debug)]
pub(super) struct Roster {
    workers: Vec<Mutex<Vec<Option<Box<Entry>>>>>,
    /// When the viewers were last asked for, nanoseconds; 0: never.
    asked_at: AtomicU64,
}

impl Roster {
    pub(super) fn new(workers: usize) -> Roster {
        Roster { workers: (0..workers).map(|_| Mutex::default()).collect(), asked_at: AtomicU64::new(0) }
    }

    fn lock(&self, worker: usize) -> MutexGuard<'_, Vec<Option<Box<Entry>>>> {
        // Entries are whole after each change.
        self.workers[worker].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The viewer in `slot` of `worker` has gone.
    pub(super) fn leave(&self, worker: usize, slot: usize) {
        if let Some(place) = self.lock(worker).get_mut(slot) {
            *place = None;
        }
    }

    fn has_attention(&self, now: Time) -> bool {
        let asked_at = self.asked_at.load(Ordering::Relaxed);
        asked_at > 0 && now.since(Time::from_nanos(asked_at)) < ATTENTION
    }

    /// Those of `stream`, or all. At most `limit` are listed. Takes each worker's lock for some microseconds for
    /// each thousand viewers.
    pub(super) fn clients(&self, stream: Option<&StreamName>, limit: usize, now: Time) -> Clients {
        self.asked_at.store(now.as_nanos().max(1), Ordering::Relaxed);
        let (mut found, mut furthest) = (Clients::default(), Vec::new());
        for worker in 0..self.workers.len() {
            for (slot, entry) in self.lock(worker).iter().enumerate() {
                let Some(entry) = entry else { continue };
                if stream.is_some_and(|stream| *stream != entry.live.name) {
                    continue;
                }
                found.why[entry.why as usize] += 1;
                found.rate_bps += entry.rate_bps.get().unwrap_or(0);
                entry.behind_ms().inspect(|ms| found.behind.observe(*ms));
                furthest.push((entry.behind_ms(), worker, slot, entry.token));
            }
        }
        if furthest.len() > limit {
            furthest.select_nth_unstable_by(limit, |a, b| b.cmp(a));
            furthest.truncate(limit);
        }
        furthest.sort_unstable_by(|a, b| b.cmp(a));
        found.list = furthest
            .into_iter()
            .filter_map(|(_, worker, slot, token)| {
                let entries = self.lock(worker);
                let entry = entries.get(slot)?.as_ref().filter(|entry| entry.token == token)?;
                Some(entry.client(now))
            })
            .collect();
        found
    }

    /// The viewers of each stream, by its id.
    pub(super) fn audiences(&self) -> BTreeMap<u64, Audience> {
        let mut all: BTreeMap<u64, Audience> = BTreeMap::new();
        for worker in 0..self.workers.len() {
            for entry in self.lock(worker).iter().flatten() {
                let audience = all.entry(entry.live.id).or_default();
                audience.why[entry.why as usize] += 1;
                if let Some(ms) = entry.behind_ms() {
                    audience.behind.observe(ms);
                    audience.behind_ms.push(ms);
                }
            }
        }
        all
    }
}
