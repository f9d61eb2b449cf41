//! Two endpoints on an emulated network in virtual time, and what tests ask of them.
#![allow(dead_code, unreachable_pub)]

pub mod paths;

use bytes::Bytes;
use glassline_media::Time;
use glassline_transport::emulator::{Delivery, End, Network};
use glassline_transport::link::{Credentials, Ecn, Endpoint, Event, Key, Link, LinkId, Path, Settings};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Tells a figure of a run, for `bench/link-model` and the pages: of whom in which case. The next run's goes beside it.
pub fn figure(case: &str, who: &str, metric: &str, unit: &str, value: f64) {
    println!("figure: {case} | {who} | {metric} | {unit} | {value}");
}

/// Milliseconds, for a figure.
pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Two endpoints; `Near` connects to `Far`, which listens.
pub struct World {
    pub network: Network,
    pub ends: [Endpoint; 2],
    /// The newest link of each end that is up or being connected.
    pub links: [Option<LinkId>; 2],
    /// All that was told.
    pub events: Vec<(Time, End, Event)>,
    /// Each datagram that left, if it is asked for.
    pub wire: Option<Vec<(End, Vec<u8>)>>,
    /// A router marks what comes while more than so many bytes wait, if it may be marked; without it marks are wiped out.
    pub marks_above: Option<u64>,
    /// What came to `Far` and is of no kind that a link sends: others' packets, when and what.
    pub foreign: Vec<(Time, Vec<u8>)>,
    marked: BTreeMap<Vec<u8>, Ecn>,
    /// Of each address from which `Far` has got something: what was exchanged with it.
    accounts: BTreeMap<SocketAddr, Account>,
    /// When each end sent something first since it started.
    pub first_sent: [Option<Time>; 2],
    /// When the other end got something of it first since then.
    pub first_heard: [Option<Time>; 2],
    /// By end: since when it has got nothing, how many datagrams were sent to its address meanwhile, and how many of its
    /// own had been lost when it began.
    silence: [(Time, u32, u64); 2],
    /// When such a silence ended last.
    silent_until: Option<Time>,
    /// A link was lost though its datagrams might have arrived.
    pub lost: bool,
    /// A link was lost because the network carried nothing for seconds.
    pub cut_off: bool,
    seed: u64,
    starts: u8,
}

/// What the listener has exchanged with one address.
#[derive(Default)]
struct Account {
    received: usize,
    sent: usize,
    /// When something of the listener's first arrived there: who then sends from there has proven it.
    reached: Option<Time>,
    proven: bool,
}

impl World {
    /// Endpoints with these settings; nothing is connected yet.
    pub fn new(network: Network, settings: [Settings; 2], seed: u64) -> World {
        let [near, far] = settings;
        let ends = [Endpoint::new(near, bytes_of(seed, 1)), Endpoint::new(far, bytes_of(seed, 2))];
        World {
            network,
            ends,
            links: [None; 2],
            events: Vec::new(),
            wire: None,
            marks_above: None,
            foreign: Vec::new(),
            marked: BTreeMap::new(),
            accounts: BTreeMap::new(),
            first_sent: [None; 2],
            first_heard: [None; 2],
            silence: [(Time::ZERO, 0, 0); 2],
            silent_until: None,
            lost: false,
            cut_off: false,
            seed,
            starts: 2,
        }
    }

    /// Endpoints with one shared key.
    pub fn shared(network: Network, seed: u64) -> World {
        World::new(network, settings(), seed)
    }

    pub fn now(&self) -> Time {
        self.network.now()
    }

    /// Has `Near` connect.
    pub fn connect(&mut self) {
        let path = Path { remote: self.network.address(End::Far), via: 0 };
        let id = self.ends[0].connect(self.network.now(), path).unwrap();
        self.links[0] = Some(id);
    }

    /// As if an end's process were killed and started anew.
    pub fn restart(&mut self, end: End, settings: Settings) {
        self.starts += 1;
        self.ends[end as usize] = Endpoint::new(settings, bytes_of(self.seed, self.starts));
        self.links[end as usize] = None;
        (self.first_sent[end as usize], self.first_heard[end as usize]) = (None, None);
    }

    /// The link of an end, if it has one.
    pub fn link(&mut self, end: End) -> Option<&mut Link> {
        let id = self.links[end as usize]?;
        self.ends[end as usize].link_mut(id)
    }

    /// Sends a message that must be taken.
    pub fn send(&mut self, end: End, channel: u8, message: impl Into<Bytes>) {
        let now = self.now();
        self.link(end).expect("a link").send(now, channel, message).unwrap();
    }

    /// Takes all messages that are there.
    pub fn take(&mut self, end: End, channel: u8) -> Vec<Bytes> {
        let Some(link) = self.link(end) else { return Vec::new() };
        std::iter::from_fn(|| link.receive(channel)).collect()
    }

    /// Lets both ends send what they have to.
    pub fn flush(&mut self) {
        let mut buffer = Vec::new();
        for end in End::BOTH {
            let mut rounds = 0;
            while let Some(transmit) = self.ends[end as usize].poll_transmit(self.network.now(), &mut buffer)
            {
                rounds += 1;
                assert!(rounds < 20_000, "seed {}: an end sends without end", self.seed);
                assert_eq!(transmit.bytes, buffer.len());
                for datagram in buffer.chunks(transmit.segment_bytes) {
                    let queued = self.network.link(end).queued().bytes;
                    if let (Some(most), true) = (self.marks_above, transmit.ecn != Ecn::NotCapable) {
                        let mark = if queued > most { Ecn::Ce } else { transmit.ecn };
                        self.marked.insert(datagram.to_vec(), mark);
                    }
                    if let Some(wire) = &mut self.wire {
                        wire.push((end, datagram.to_vec()));
                    }
                    self.account(end, transmit.path.remote, datagram.len());
                    self.network.send_to(end, transmit.path.remote, datagram.to_vec());
                }
            }
        }
    }

    /// A datagram leaves. The listener sends no more to an unproven address.
    fn account(&mut self, end: End, to: SocketAddr, bytes: usize) {
        self.first_sent[end as usize].get_or_insert(self.network.now());
        if to == self.network.address(end.other()) {
            self.silence[end.other() as usize].1 += 1;
        }
        if end == End::Far {
            let account = self.accounts.entry(to).or_default();
            account.sent += bytes;
            let fair = account.proven || account.sent <= account.received;
            assert!(fair, "seed {}: {to} got {} for {}", self.seed, account.sent, account.received);
        }
    }

    /// A datagram has arrived.
    fn arrived(&mut self, delivery: &Delivery) {
        if self.is_silent(delivery.end) {
            self.silent_until = Some(delivery.at);
        }
        self.silence[delivery.end as usize] = (delivery.at, 0, self.lost_of(delivery.end));
        let other = delivery.end.other() as usize;
        if self.first_sent[other].is_some_and(|first| first <= delivery.sent) {
            self.first_heard[other].get_or_insert(delivery.at);
        }
        if delivery.end == End::Far {
            let account = self.accounts.entry(delivery.from).or_default();
            account.received += delivery.bytes.len();
            account.proven |= account.reached.is_some_and(|reached| reached <= delivery.sent);
        } else {
            self.accounts.entry(delivery.to).or_default().reached.get_or_insert(delivery.at);
        }
    }

    /// How many datagrams of an end the network has lost.
    fn lost_of(&self, end: End) -> u64 {
        self.network.link(end).counters().dropped().packets
    }

    /// Whether an end has got nothing for long though much was sent to where it is, or was lost that asked for an answer.
    fn is_silent(&self, end: End) -> bool {
        let (since, tried, lost) = self.silence[end as usize];
        let tried = u64::from(tried) + self.lost_of(end) - lost;
        self.network.now() - since >= Duration::from_millis(3800) && tried >= 10
    }

    /// Whether one is silent, or was a moment ago.
    fn is_cut_off(&self) -> bool {
        let lately =
            self.silent_until.is_some_and(|until| self.network.now() - until < Duration::from_secs(1));
        lately || End::BOTH.into_iter().any(|end| self.is_silent(end))
    }

    fn collect_events(&mut self) {
        for end in End::BOTH {
            while let Some((id, event)) = self.ends[end as usize].poll_event() {
                if let Event::Connected { .. } = event {
                    self.links[end as usize] = Some(id);
                }
                if let Event::Closed { .. } | Event::Suspended { .. } = event {
                    let cut_off = self.is_cut_off();
                    (self.cut_off, self.lost) = (self.cut_off | cut_off, self.lost | !cut_off);
                }
                self.events.push((self.network.now(), end, event));
            }
        }
    }

    /// Goes on to `until`, and stops before for each arrival or timeout at which `look` says so.
    pub fn run_until(&mut self, until: Time, mut look: impl FnMut(&mut World) -> bool) {
        let mut steps = (Time::ZERO, 0);
        loop {
            self.collect_events();
            if look(self) {
                return;
            }
            self.flush();
            let due = self.ends.iter().filter_map(Endpoint::poll_timeout).min().unwrap_or(Time::NEVER);
            let now = self.network.now();
            steps = if steps.0 == now { (now, steps.1 + 1) } else { (now, 0) };
            assert!(steps.1 < 50_000, "seed {}: time stands still at {now:?}: {:?}", self.seed, self.ends);
            if now >= until {
                return;
            }
            match self.network.step(due.clamp(now, until)) {
                Some(mut delivery) => {
                    if delivery.bytes.first() == Some(&0xFF) {
                        self.foreign.push((delivery.at, std::mem::take(&mut delivery.bytes)));
                        continue;
                    }
                    self.arrived(&delivery);
                    let path = Path { remote: delivery.from, via: 0 };
                    let end = &mut self.ends[delivery.end as usize];
                    let mark = self.marked.remove(&delivery.bytes[..]).unwrap_or_default();
                    end.handle_marked_datagram(delivery.at, path, mark, &mut delivery.bytes);
                }
                None => {
                    let now = self.network.now();
                    self.ends.iter_mut().for_each(|end| end.handle_timeout(now));
                }
            }
        }
    }

    /// Goes on for `time`.
    pub fn run(&mut self, time: Duration) {
        let until = self.now() + time;
        self.run_until(until, |_| false);
    }

    /// Goes on until both links are up.
    pub fn run_until_up(&mut self) {
        let until = self.now() + Duration::from_secs(10);
        self.run_until(until, |world| {
            End::BOTH.into_iter().all(|end| world.link(end).is_some_and(|link| link.is_up()))
        });
        assert!(End::BOTH.into_iter().all(|end| self.link(end).is_some_and(|link| link.is_up())), "not up");
    }
}

/// Settings of the two ends: one shared key, `Far` listens. Datagrams stay as small as they begin, so that a search for
/// larger ones is no part of what is looked at.
pub fn settings() -> [Settings; 2] {
    let near = Settings { datagram_bytes: 1200, ..Settings::new(Credentials::Shared(Key([9; 32]))) };
    let far = Settings { listen: true, reset_secret: Some(Key([10; 32])), ..near.clone() };
    [near, far]
}

fn bytes_of(seed: u64, which: u8) -> [u8; 32] {
    let mut bytes = [which; 32];
    bytes[..8].copy_from_slice(&seed.to_be_bytes());
    bytes
}

/// The value below which `share` of `values` lie.
pub fn quantile(values: &mut [Duration], share: f64) -> Duration {
    values.sort_unstable();
    values[((values.len() - 1) as f64 * share).round() as usize]
}
