//! Nodes, a registry and a network with delays, losses, partitions, pauses and deaths, in virtual time. By a seed each run is the same.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A bucket: entries with revisions, each write one higher than the last, whatever the key.
#[derive(Default)]
struct Bucket {
    entries: BTreeMap<Key, (Option<Vec<u8>>, u64)>,
    revision: u64,
}

impl Bucket {
    /// What is written, if so.
    fn apply(&mut self, request: &Request) -> (Answer, Option<(Key, Vec<u8>, u64)>) {
        let (key, value) = match request {
            Request::Put { key, value } => (key, value),
            Request::Set { key, value, revision } => {
                let found = self.entries.get(key).filter(|(value, _)| value.is_some() || *revision > 0);
                if found.map_or(0, |(_, revision)| *revision) != *revision {
                    return (Answer::Conflict, None);
                }
                (key, value)
            }
            Request::Remove { key } => {
                self.revision += 1;
                self.entries.insert(key.clone(), (None, self.revision));
                return (Answer::Absent, None);
            }
            Request::Get { key } => {
                let found = self.entries.get(key);
                let found = found.and_then(|(value, revision)| Some((value.clone()?, *revision)));
                return (
                    found.map_or(Answer::Absent, |(value, revision)| Answer::Found { value, revision }),
                    None,
                );
            }
        };
        self.revision += 1;
        self.entries.insert(key.clone(), (Some(value.clone()), self.revision));
        (Answer::Written { revision: self.revision }, Some((key.clone(), value.clone(), self.revision)))
    }
}

/// A node's connection to the registry: what belongs to an earlier one is not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Connection {
    node: usize,
    number: u64,
}

enum Message {
    Request {
        from: Connection,
        id: u64,
        request: Request,
    },
    Answer {
        to: Connection,
        id: u64,
        answer: Answer,
    },
    News {
        to: Connection,
        key: Key,
        value: Option<Vec<u8>>,
        revision: u64,
    },
    /// All that there was at the beginning has been told.
    Listed {
        to: Connection,
    },
}

struct Node {
    ownership: Ownership,
    incarnation: u64,
    is_up: bool,
    is_paused: bool,
    is_connected: bool,
    connection: u64,
    publishers: BTreeSet<StreamName>,
}

struct World {
    random: Random,
    now: Time,
    bucket: Bucket,
    nodes: Vec<Node>,
    messages: Vec<(Time, Message)>,
    /// Which run has had which epoch of which stream.
    owners: BTreeMap<(StreamName, u64), Run>,
    is_calm: bool,
    seed: u64,
}

const STREAMS: [&str; 2] = ["a", "b.c"];

fn stream(number: usize) -> StreamName {
    StreamName::parse(STREAMS[number]).unwrap()
}

fn entry(number: usize, incarnation: u64) -> NodeEntry {
    NodeEntry {
        run: Run { node: NodeName::parse(&format!("n{number}")).unwrap(), incarnation },
        address: format!("http://n{number}:8080"),
        zone: String::new(),
        version: "1".to_owned(),
        viewers: 0,
        is_leaving: false,
        public: String::new(),
        is_draining: false,
    }
}

impl World {
    fn new(seed: u64, nodes: usize) -> World {
        let mut random = Random(seed);
        let nodes = (0..nodes).map(|number| {
            let incarnation = random.next();
            Node {
                ownership: Ownership::new(Settings::default(), entry(number, incarnation)),
                incarnation,
                is_up: true,
                is_paused: false,
                is_connected: false,
                connection: 0,
                publishers: BTreeSet::new(),
            }
        });
        let nodes = nodes.collect();
        let mut world = World {
            random,
            now: Time::from_millis(1),
            bucket: Bucket::default(),
            nodes,
            messages: Vec::new(),
            owners: BTreeMap::new(),
            is_calm: false,
            seed,
        };
        (0..world.nodes.len()).for_each(|node| world.connect(node));
        world
    }

    fn delay(&mut self) -> Duration {
        let slow = !self.is_calm && self.random.chance(5);
        let most = if slow { 1_500_000 } else { 30_000 };
        Duration::from_micros(100 + self.random.below(most))
    }

    fn connect(&mut self, node: usize) {
        if self.nodes[node].is_connected || !self.nodes[node].is_up {
            return;
        }
        self.nodes[node].is_connected = true;
        self.nodes[node].connection = self.random.next();
        let now = self.now;
        self.nodes[node].ownership.handle_connection(true, now);
        let all: Vec<_> = self
            .bucket
            .entries
            .iter()
            .map(|(key, (value, revision))| (key.clone(), value.clone(), *revision))
            .collect();
        for (key, value, revision) in all {
            self.news(node, key, value, revision);
        }
        let to = self.connection(node);
        let last = self
            .messages
            .iter()
            .filter(|(_, message)| matches!(message, Message::News { to: it, .. } if *it == to));
        let listed = last.map(|(at, _)| *at).fold(self.now, Time::max);
        self.messages.push((listed + Duration::from_nanos(1), Message::Listed { to }));
        self.collect(node);
    }

    fn connection(&self, node: usize) -> Connection {
        Connection { node, number: self.nodes[node].connection }
    }

    /// Whether what is for this connection finds it there.
    fn is_open(&self, to: Connection) -> bool {
        let node = &self.nodes[to.node];
        node.is_up && node.is_connected && node.connection == to.number
    }

    fn disconnect(&mut self, node: usize) {
        if std::mem::take(&mut self.nodes[node].is_connected) {
            let now = self.now;
            self.nodes[node].ownership.handle_connection(false, now);
            self.collect(node);
        }
    }

    fn news(&mut self, node: usize, key: Key, value: Option<Vec<u8>>, revision: u64) {
        let at = self.now + self.delay();
        let to = self.connection(node);
        self.messages.push((at, Message::News { to, key, value, revision }));
    }

    /// Has the node's outputs done.
    fn collect(&mut self, number: usize) {
        while let Some(output) = self.nodes[number].ownership.poll_output() {
            let node = &mut self.nodes[number];
            match output {
                Output::Request { id, request } => {
                    let from = Connection { node: number, number: node.connection };
                    let is_lost = !node.is_connected || !self.is_calm && self.random.chance(3);
                    if !is_lost {
                        let at = self.now + self.delay();
                        self.messages.push((at, Message::Request { from, id, request }));
                    }
                }
                Output::Granted { name, epoch } => {
                    let run = Run { node: entry(number, 0).run.node, incarnation: node.incarnation };
                    let before = self.owners.insert((name.clone(), epoch), run.clone());
                    assert!(
                        before.is_none_or(|before| before == run),
                        "seed {}: two owners of {name} {epoch}",
                        self.seed
                    );
                    assert!(
                        node.publishers.contains(&name),
                        "seed {}: {name} has no publisher there",
                        self.seed
                    );
                }
                Output::Refused { name, .. } | Output::Lost { name, .. } => {
                    assert!(node.publishers.remove(&name), "seed {}: {name} was not here", self.seed);
                }
                Output::Moved { .. } => {}
            }
        }
        self.check();
    }

    /// No two nodes own one epoch of a stream at any moment.
    fn check(&self) {
        for name in (0..STREAMS.len()).map(stream) {
            let mut seen = BTreeMap::new();
            for (number, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.is_up) {
                if let Some(epoch) = node.ownership.owned(&name) {
                    let other = seen.insert(epoch, number);
                    assert_eq!(other, None, "seed {}: {name} {epoch} at {number} and elsewhere", self.seed);
                }
            }
        }
    }

    fn deliver(&mut self, message: Message) {
        match message {
            Message::Request { from, id, request } => {
                // The connection may have gone meanwhile; what was sent arrives all the same.
                let (answer, written) = self.bucket.apply(&request);
                if let Some((key, value, revision)) = written {
                    for other in 0..self.nodes.len() {
                        if self.nodes[other].is_connected {
                            self.news(other, key.clone(), Some(value.clone()), revision);
                        }
                    }
                }
                if self.is_calm || !self.random.chance(3) {
                    let at = self.now + self.delay();
                    self.messages.push((at, Message::Answer { to: from, id, answer }));
                }
            }
            Message::Answer { to, id, answer } if self.is_open(to) => {
                let now = self.now;
                self.nodes[to.node].ownership.handle_answer(id, answer, now);
                self.collect(to.node);
            }
            Message::News { to, key, value, revision } if self.is_open(to) => {
                let now = self.now;
                self.nodes[to.node].ownership.handle_entry(&key, value.as_deref(), revision, now);
                self.collect(to.node);
            }
            Message::Listed { to } if self.is_open(to) => {
                let now = self.now;
                self.nodes[to.node].ownership.handle_listed(now);
                self.collect(to.node);
            }
            Message::Answer { .. } | Message::News { .. } | Message::Listed { .. } => {}
        }
    }

    fn next_event(&self) -> Time {
        let messages = self.messages.iter().filter(|(_, message)| !self.is_held(message)).map(|(at, _)| *at);
        let timeouts = self
            .nodes
            .iter()
            .filter(|node| node.is_up && !node.is_paused)
            .map(|node| node.ownership.poll_timeout());
        messages.chain(timeouts).fold(Time::NEVER, Time::min)
    }

    /// What goes to a node that stands still waits there.
    fn is_held(&self, message: &Message) -> bool {
        match message {
            Message::Request { .. } => false,
            Message::Answer { to, .. } | Message::News { to, .. } | Message::Listed { to } => {
                self.nodes[to.node].is_paused
            }
        }
    }

    fn run_until(&mut self, end: Time) {
        loop {
            let next = self.next_event();
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            let due = |world: &World| {
                world.messages.iter().position(|(at, message)| *at <= world.now && !world.is_held(message))
            };
            while let Some(index) = due(self) {
                let (_, message) = self.messages.swap_remove(index);
                self.deliver(message);
            }
            for number in 0..self.nodes.len() {
                let (now, node) = (self.now, &mut self.nodes[number]);
                if node.is_up && !node.is_paused && node.ownership.poll_timeout() <= now {
                    node.ownership.handle_timeout(now);
                    assert!(node.ownership.poll_timeout() > now, "seed {}: the same moment again", self.seed);
                    self.collect(number);
                }
            }
        }
    }

    fn publish(&mut self, node: usize, name: &StreamName, takes_over: bool) {
        let now = self.now;
        let it = &mut self.nodes[node];
        if it.is_up && !it.is_paused {
            it.publishers.insert(name.clone());
            it.ownership.publish(name, takes_over, now);
            self.collect(node);
        }
    }

    /// Something that goes wrong, or a publisher that comes or goes.
    fn disturb(&mut self) {
        let node = self.random.below(self.nodes.len() as u64) as usize;
        let name = stream(self.random.below(STREAMS.len() as u64) as usize);
        match self.random.below(12) {
            0..=3 => {
                let takes_over = self.random.chance(30);
                self.publish(node, &name, takes_over);
            }
            4 => {
                let now = self.now;
                let it = &mut self.nodes[node];
                if it.is_up && !it.is_paused && it.publishers.remove(&name) {
                    it.ownership.release(&name, now);
                    self.collect(node);
                }
            }
            5 => self.disconnect(node),
            6 => self.connect(node),
            7 => {
                let it = &mut self.nodes[node];
                (it.is_up, it.is_connected, it.is_paused) = (false, false, false);
                it.publishers.clear();
            }
            8 => self.restart(node),
            9 => self.nodes[node].is_paused = self.nodes[node].is_up,
            10 => self.nodes[node].is_paused = false,
            _ => {
                // Entries are removed by hand, or the bucket is made anew.
                if self.random.chance(30) {
                    let key = Key::Stream(name);
                    if self.random.chance(50) {
                        self.bucket.revision += 1;
                        let revision = self.bucket.revision;
                        if let Some(entry) = self.bucket.entries.get_mut(&key) {
                            *entry = (None, revision);
                            (0..self.nodes.len())
                                .filter(|other| self.nodes[*other].is_connected)
                                .collect::<Vec<_>>()
                                .into_iter()
                                .for_each(|other| {
                                    self.news(other, key.clone(), None, revision);
                                });
                        }
                    }
                }
            }
        }
    }

    fn restart(&mut self, node: usize) {
        if self.nodes[node].is_up {
            return;
        }
        let incarnation = self.random.next();
        self.nodes[node] = Node {
            ownership: Ownership::new(Settings::default(), entry(node, incarnation)),
            incarnation,
            is_up: true,
            is_paused: false,
            is_connected: false,
            connection: self.random.next(),
            publishers: BTreeSet::new(),
        };
        self.connect(node);
    }

    /// All goes well again, and what follows has settled.
    fn heal(&mut self) {
        self.is_calm = true;
        for node in 0..self.nodes.len() {
            self.nodes[node].is_paused = false;
            self.restart(node);
            self.connect(node);
        }
        let end = self.now + Duration::from_secs(10);
        self.run_until(end);
    }

    /// Each stream with a publisher has one owner, which all nodes know.
    fn check_settled(&self) {
        for name in (0..STREAMS.len()).map(stream) {
            let publishing: Vec<_> =
                (0..self.nodes.len()).filter(|node| self.nodes[*node].publishers.contains(&name)).collect();
            let owning: Vec<_> = (0..self.nodes.len())
                .filter(|node| self.nodes[*node].ownership.owned(&name).is_some())
                .collect();
            assert_eq!(owning, publishing, "seed {}: {name}", self.seed);
            assert!(owning.len() <= 1, "seed {}: {name} at {owning:?}", self.seed);
            for (number, node) in self.nodes.iter().enumerate() {
                let place = node.ownership.place(&name, self.now);
                let is_right = match (owning.first(), &place) {
                    (Some(owner), Place::Here { .. }) => *owner == number,
                    (Some(owner), Place::At { name, is_live, .. }) => {
                        *is_live && *name == entry(*owner, 0).run.node
                    }
                    (None, Place::At { is_live, .. }) => !is_live,
                    (None, Place::Nowhere) => true,
                    _ => false,
                };
                assert!(is_right, "seed {}: n{number} has {name} {place:?}, owner {owning:?}", self.seed);
            }
        }
    }
}

fn schedule(seed: u64) -> World {
    let nodes = 2 + (seed % 4) as usize;
    let mut world = World::new(seed, nodes);
    let steps = 10 + world.random.below(40);
    for _ in 0..steps {
        world.disturb();
        let wait = world.random.below(900_000);
        let end = world.now + Duration::from_micros(wait);
        world.run_until(end);
    }
    world.heal();
    world
}

#[test]
fn no_epoch_has_two_owners_and_all_agree_when_all_is_well_again() {
    // GLASSLINE_SCHEDULES=10000 takes two minutes.
    let asked = std::env::var("GLASSLINE_SCHEDULES").ok().and_then(|text| text.parse().ok());
    for seed in 0..asked.unwrap_or(400) {
        schedule(seed).check_settled();
    }
}

#[test]
fn a_publisher_is_served_within_two_seconds_after_its_node_was_killed() {
    for seed in 0..200 {
        let mut world = World::new(seed, 3);
        world.is_calm = true;
        let second = Duration::from_secs(1);
        world.run_until(Time::ZERO + second * 3);
        world.publish(0, &stream(0), false);
        world.run_until(world.now + second);
        assert!(world.nodes[0].ownership.owned(&stream(0)).is_some());
        world.nodes[0].is_up = false;
        world.nodes[0].is_connected = false;
        let after = Duration::from_micros(world.random.below(1_000_000));
        world.run_until(world.now + after);
        let came = world.now;
        world.publish(1, &stream(0), false);
        while world.nodes[1].ownership.owned(&stream(0)).is_none() {
            assert!(
                world.now.since(came) < second * 2 && world.nodes[1].publishers.contains(&stream(0)),
                "seed {seed}"
            );
            world.run_until(world.now + Duration::from_millis(1));
        }
        world.run_until(world.now + second);
        let place = world.nodes[2].ownership.place(&stream(0), world.now);
        assert!(
            matches!(&place, Place::At { name, is_live: true, .. } if name.as_str() == "n1"),
            "{place:?}"
        );
    }
}
