use super::super::entry::{NodeName, Run};
use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn node(number: usize, zone: usize, viewers: u64) -> NodeEntry {
    NodeEntry {
        run: Run { node: NodeName::parse(&format!("n{number}")).unwrap(), incarnation: number as u64 },
        address: format!("http://n{number}"),
        zone: format!("z{zone}"),
        version: String::new(),
        viewers,
        is_leaving: false,
        public: String::new(),
        is_draining: false,
    }
}

proptest! {
    /// What is chosen is the best by the order that the documentation gives, and never the asker or a server as far away.
    #[test]
    fn the_zone_goes_before_the_hops_and_those_before_the_viewers(
        carriers in prop::collection::vec((0_usize..3, 0_u8..6, 0_u64..3), 0..20),
        owner_zone in 0_usize..3,
        hops in 1_u8..=HOPS_MAX,
    ) {
        let asker = node(0, 0, 0);
        let owner = node(1, owner_zone, 9);
        let nodes: Vec<_> = carriers.iter().enumerate().map(|(number, (zone, hops, viewers))| (node(number + 2, *zone, *viewers), *hops)).collect();
        let itself = Candidate { node: &asker, hops: 1 };
        let candidates = || nodes.iter().map(|(node, hops)| Candidate { node, hops: *hops }).chain([itself]);
        let chosen = choose(&asker, Level::of(hops), &owner, candidates());
        prop_assert!(chosen.node.run != asker.run && chosen.hops < hops);
        let rank = |candidate: &Candidate<'_>| (candidate.node.zone != asker.zone, candidate.hops, candidate.node.viewers);
        let allowed = candidates().filter(|it| it.hops > 0 && it.hops < hops && it.node.run != asker.run);
        let best = allowed.chain([Candidate { node: &owner, hops: 0 }]).map(|it| rank(&it)).min().unwrap();
        prop_assert_eq!(rank(&chosen), best);
        // Whatever it has by now, this server is farther away than one that answers.
        let limit = Level::of(hops).limit(chosen.hops);
        let next = Level::of(hops).pulled_from(chosen.hops);
        for now in (0..=HOPS_MAX).filter(|now| answers(*now, limit)) {
            prop_assert!(now < next.hops() && next <= Level::of(hops));
        }
    }
}

#[test]
fn askers_spread_over_carriers_that_are_alike() {
    let carriers: Vec<_> = (0..10).map(|number| node(number, 0, 0)).collect();
    let owner = node(10, 1, 0);
    let chosen = (100..1100).map(|number| {
        let asker = node(number, 0, 0);
        let candidates = carriers.iter().map(|node| Candidate { node, hops: 1 });
        choose(&asker, Level::NONE, &owner, candidates).node.run.incarnation
    });
    let mut counts = BTreeMap::<u64, usize>::new();
    chosen.for_each(|number| *counts.entry(number).or_default() += 1);
    assert!(counts.len() == 10 && counts.values().all(|count| (50..200).contains(count)), "{counts:?}");
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ mixed >> 31) % end as u64) as usize
    }
}

/// A stream that a server pulls.
#[derive(Clone, Copy, Debug)]
struct Pulled {
    /// `None`: that server has ended its connection, and another one is about to be asked.
    from: Option<usize>,
    level: Level,
    epoch: u64,
}

/// A stream: what is so, and what is heard of it.
#[derive(Default)]
struct Stream {
    owner: usize,
    epoch: u64,
    pulled: BTreeMap<usize, Pulled>,
    /// Which servers say that they pull it, since when they are heard to, and under which epoch.
    heard: BTreeMap<usize, (u64, u8)>,
}

enum Event {
    /// A viewer comes, or what was pulled has to be pulled from elsewhere, by what is heard then.
    Ask { node: usize, stream: usize },
    /// The last viewer goes.
    Leave { node: usize, stream: usize },
    /// What a server says of a stream is heard.
    Heard { node: usize, stream: usize },
    /// The publisher lands elsewhere.
    Move { stream: usize, to: usize },
    /// A server dies, with all that it pulls. Another run of it is there at once.
    Die { node: usize },
    /// A server looks whether another one of its zone has the stream from where it has it itself.
    Look { node: usize, stream: usize },
    /// It asks that one then.
    Turn { node: usize, stream: usize, to: usize },
}

/// Servers in zones, and streams, in virtual milliseconds.
struct Tree {
    random: Random,
    now: usize,
    nodes: Vec<NodeEntry>,
    streams: Vec<Stream>,
    events: BTreeMap<(usize, usize), Event>,
    next: usize,
    asked: usize,
    passed_over: usize,
    turned: usize,
}

impl Tree {
    fn new(seed: u64, nodes: usize, zones: usize, streams: usize) -> Tree {
        let mut random = Random(seed);
        let of = |_| Stream { owner: random.below(nodes), epoch: 1, ..Stream::default() };
        let streams = (0..streams).map(of).collect();
        let nodes = (0..nodes).map(|number| node(number, number % zones, 0)).collect();
        let events = BTreeMap::new();
        Tree { random, now: 0, nodes, streams, events, next: 0, asked: 0, passed_over: 0, turned: 0 }
    }

    fn later(&mut self, most: usize, event: Event) {
        let at = self.now + 1 + self.random.below(most);
        self.next += 1;
        self.events.insert((at, self.next), event);
    }

    /// The hops at which a server gives the stream on now; `None` where it does not.
    fn hops(&self, stream: usize, node: usize) -> Option<u8> {
        let it = &self.streams[stream];
        let pulled = it.pulled.get(&node).filter(|pulled| pulled.from.is_some());
        if it.owner == node { Some(0) } else { pulled.map(|pulled| pulled.level.hops()) }
    }

    /// A server asks for a stream, by what it has heard. It is always served: the owner is there.
    fn ask(&mut self, node: usize, stream: usize) {
        let it = &self.streams[stream];
        if it.owner == node {
            self.streams[stream].pulled.remove(&node);
            return;
        }
        let known = it.pulled.get(&node).copied();
        if let Some(Pulled { from: Some(from), level, epoch }) = known {
            let (hops, at) = (level.hops() - 1, it.epoch);
            let heard = it.heard.get(&from).filter(|(epoch, hops)| *epoch == at && *hops < level.hops());
            let is_named = from == it.owner || heard.is_some();
            match stays(epoch, at, hops, is_named) {
                Stay::Anew if epoch == at => return,
                Stay::Anew => {
                    self.streams[stream].pulled.insert(node, Pulled { from: Some(from), level, epoch: at });
                    return self.later(1100, Event::Heard { node, stream });
                }
                // It is looked at once a second.
                Stay::Still => return self.later(1000, Event::Ask { node, stream }),
                Stay::Turn => {}
            }
        }
        let level = known.map_or(Level::NONE, |pulled| pulled.level);
        let heard = it.heard.iter().filter(|(_, (epoch, _))| *epoch == it.epoch);
        let candidates = heard.map(|(node, (_, hops))| Candidate { node: &self.nodes[*node], hops: *hops });
        let chosen = choose(&self.nodes[node], level, &self.nodes[it.owner], candidates);
        let (from, hops) = (chosen.node.run.incarnation as usize, chosen.hops);
        self.asked += 1;
        let is_served =
            hops == 0 || self.hops(stream, from).is_some_and(|now| answers(now, level.limit(hops)));
        let (from, hops) = if is_served { (from, hops) } else { (self.streams[stream].owner, 0) };
        self.passed_over += usize::from(!is_served);
        let it = &mut self.streams[stream];
        let pulled = Pulled { from: Some(from), level: level.pulled_from(hops), epoch: it.epoch };
        it.pulled.insert(node, pulled);
        self.check(stream, node, false);
        // What was written less than a second ago is written later, and heard after that.
        self.later(1100, Event::Heard { node, stream });
    }

    /// A server looks for the gateway of its zone, by what it has heard.
    fn look(&mut self, node: usize, stream: usize) {
        let it = &self.streams[stream];
        let Some(Pulled { from: Some(from), epoch, .. }) = it.pulled.get(&node).copied() else { return };
        let heard = || {
            let heard = it.heard.iter().filter(|(_, (epoch, _))| *epoch == it.epoch);
            heard.map(|(node, (_, hops))| Candidate { node: &self.nodes[*node], hops: *hops })
        };
        let owner = Candidate { node: &self.nodes[it.owner], hops: 0 };
        let source = if from == it.owner {
            Some(owner)
        } else {
            heard().find(|it| it.node.run.incarnation as usize == from)
        };
        let found =
            source.and_then(|source| Some((source.hops, gateway(&self.nodes[node], source, heard())?)));
        let Some((hops, to)) = found.filter(|_| epoch == it.epoch) else { return };
        let to = to.run.incarnation as usize;
        if hops == 0 && it.pulled.values().any(|pulled| pulled.from == Some(node)) {
            return;
        }
        self.turned += 1;
        let pulled = Pulled { from: None, level: Level::of(2), epoch };
        self.streams[stream].pulled.insert(node, pulled);
        self.later(5, Event::Turn { node, stream, to });
    }

    fn turn(&mut self, node: usize, stream: usize, to: usize) {
        let it = &self.streams[stream];
        let Some(pulled) = it.pulled.get(&node).copied().filter(|it| it.from.is_none()) else { return };
        if pulled.epoch != it.epoch || to == it.owner {
            return self.ask(node, stream);
        }
        let is_served = self.hops(stream, to).is_some_and(|now| answers(now, pulled.level.limit(1)));
        self.passed_over += usize::from(!is_served);
        let (from, hops) = if is_served { (to, 1) } else { (it.owner, 0) };
        let pulled = Pulled { from: Some(from), level: pulled.level.pulled_from(hops), ..pulled };
        self.streams[stream].pulled.insert(node, pulled);
        self.check(stream, node, false);
        self.later(1100, Event::Heard { node, stream });
    }

    /// Each server looks as often as in so many minutes, at times of its own.
    fn look_for(&mut self, minutes: usize, stream: usize) {
        for half in 0..2 * minutes {
            let pulling: Vec<usize> = self.streams[stream].pulled.keys().copied().collect();
            // Between 30 and 60 seconds after the last time.
            let begin = self.now + if half == 0 { 0 } else { 15_000 };
            for node in pulling {
                self.now = begin;
                self.later(30_000, Event::Look { node, stream });
            }
            self.run();
        }
    }

    /// From each server the stream leads to its owner, without a circle.
    fn check(&self, stream: usize, node: usize, is_settled: bool) -> usize {
        let it = &self.streams[stream];
        let (mut at, mut passed) = (node, BTreeSet::new());
        while at != it.owner {
            assert!(passed.insert(at), "stream {stream}: a circle through {passed:?}");
            // A former owner, or a server that is about to ask, waits, and those that it gives on to with it.
            let pulled = it.pulled.get(&at);
            let Some((pulled, from)) = pulled.and_then(|pulled| Some((pulled, pulled.from?))) else {
                assert!(!is_settled, "stream {stream}: {at} pulls nothing");
                return 0;
            };
            if is_settled {
                let hops = self.hops(stream, from).unwrap();
                assert!(
                    pulled.epoch == it.epoch && hops < pulled.level.hops(),
                    "stream {stream}: {at} {pulled:?} from {hops}"
                );
            }
            at = from;
        }
        let depth = passed.len();
        assert!(!is_settled || depth <= usize::from(HOPS_MAX), "stream {stream}: {depth}");
        depth
    }

    /// A server gives the stream on no longer: those that had it from there ask again.
    fn end(&mut self, node: usize, stream: usize) {
        let it = &mut self.streams[stream];
        if it.pulled.remove(&node).is_none() {
            return;
        }
        let mut below = Vec::new();
        for (child, pulled) in it.pulled.iter_mut().filter(|(_, pulled)| pulled.from == Some(node)) {
            pulled.from = None;
            below.push(*child);
        }
        below.into_iter().for_each(|node| self.later(5, Event::Ask { node, stream }));
        self.later(1100, Event::Heard { node, stream });
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Ask { node, stream } => self.ask(node, stream),
            Event::Leave { node, stream } => self.end(node, stream),
            Event::Heard { node, stream } => {
                let it = &mut self.streams[stream];
                match it.pulled.get(&node) {
                    Some(pulled) => drop(it.heard.insert(node, (pulled.epoch, pulled.level.hops()))),
                    None => drop(it.heard.remove(&node)),
                }
            }
            Event::Move { stream, to } => {
                let it = &mut self.streams[stream];
                let former = std::mem::replace(&mut it.owner, to);
                (it.epoch, _) = (it.epoch + 1, it.pulled.remove(&to));
                if former != to && it.pulled.values().any(|pulled| pulled.from == Some(former)) {
                    // It had no hop when they came.
                    it.pulled.insert(former, Pulled { from: None, level: Level::of(1), epoch: 0 });
                }
                let all: Vec<_> = it.pulled.keys().copied().chain([former]).collect();
                // Each hears of it at another time.
                all.into_iter().for_each(|node| self.later(300, Event::Ask { node, stream }));
            }
            Event::Look { node, stream } => self.look(node, stream),
            Event::Turn { node, stream, to } => self.turn(node, stream, to),
            Event::Die { node } => {
                for stream in 0..self.streams.len() {
                    self.end(node, stream);
                }
            }
        }
    }

    fn run(&mut self) {
        for steps in 0.. {
            let Some(((at, _), event)) = self.events.pop_first() else { return };
            assert!(steps < 10_000_000, "it does not settle");
            self.now = at;
            self.handle(event);
        }
    }

    /// How deep each tree is, and from how many servers the owner is asked, at most.
    fn settled(&self) -> (usize, usize) {
        let (mut depth, mut asked) = (0, 0);
        for (stream, it) in self.streams.iter().enumerate() {
            for node in it.pulled.keys() {
                depth = depth.max(self.check(stream, *node, true));
            }
            asked = asked.max(it.pulled.values().filter(|pulled| pulled.from == Some(it.owner)).count());
        }
        (depth, asked)
    }
}

/// Viewers of all kinds of streams at all servers for ten seconds, with servers that die and publishers that move.
fn run(seed: u64, (nodes, zones): (usize, usize), streams: usize, asks: usize, trouble: usize) -> Tree {
    let mut tree = Tree::new(seed, nodes, zones, streams);
    for _ in 0..asks {
        // Few streams have most viewers.
        let within = 1 + tree.random.below(streams);
        let (node, stream) = (tree.random.below(nodes), tree.random.below(within));
        tree.later(10_000, Event::Ask { node, stream });
        if tree.random.below(3) == 0 {
            tree.later(12_000, Event::Leave { node, stream });
        }
    }
    for _ in 0..trouble {
        let (node, to, stream) =
            (tree.random.below(nodes), tree.random.below(nodes), tree.random.below(streams));
        tree.later(12_000, Event::Die { node });
        tree.later(12_000, Event::Move { stream, to });
    }
    for _ in 0..asks / 4 {
        let (node, stream) = (tree.random.below(nodes), tree.random.below(streams));
        tree.later(14_000, Event::Look { node, stream });
    }
    tree.run();
    tree
}

#[test]
fn a_thousand_servers_and_a_thousand_streams_make_trees_without_a_circle_and_three_hops_deep_at_most() {
    let mut tree = run(1, (1000, 25), 1000, 30_000, 200);
    let (depth, _) = tree.settled();
    assert!(depth > 1 && tree.asked >= 30_000 && tree.passed_over > 0, "{depth} {}", tree.asked);
    let rare = tree.passed_over * 10 < tree.asked;
    assert!(rare, "{} of {} were passed over", tree.passed_over, tree.asked);
    // All servers want one stream in the same minute, and then in the same moment.
    let stream = 0;
    let crowd = |tree: &mut Tree, apart: usize| {
        let now = tree.now;
        tree.streams[stream].pulled.clear();
        tree.streams[stream].heard.clear();
        for node in 0..1000 {
            tree.now = now + node * apart;
            tree.later(60, Event::Ask { node, stream });
        }
        tree.run();
        assert_eq!(tree.streams[stream].pulled.len(), 999);
        tree.settled().1
    };
    let at_once = crowd(&mut tree, 0);
    let asked = crowd(&mut tree, 60);
    println!("of 1,000 servers in 25 zones {asked} ask the owner within a minute, {at_once} at once");
    assert!(asked < 200, "a zone is led to one of its own servers: {asked}");
    // The publisher lands elsewhere, twice.
    for to in [500, 700] {
        tree.handle(Event::Move { stream, to });
        tree.run();
    }
    let (depth, asked) = tree.settled();
    println!(
        "of 1,000 servers in 25 zones {asked} ask the owner; {depth} hops; {} of {} passed over",
        tree.passed_over, tree.asked
    );
    assert_eq!(tree.streams[stream].pulled.len(), 999);
    assert!(asked < 200, "a zone is led to one of its own servers: {asked}");
}

#[test]
fn small_clusters_in_much_trouble_have_no_circle_either() {
    for seed in 0..200 {
        let zones = 1 + seed as usize % 4;
        run(seed, (3 + seed as usize % 20, zones), 2, 400, 30).settled();
    }
}

#[test]
fn a_viewer_is_not_sent_from_an_encrypted_address_to_one_that_is_not() {
    let of = |number: usize, public: &str| {
        let mut entry = node(number, 0, 0);
        entry.public = public.to_owned();
        entry
    };
    let (plain, safe) = (of(1, "http://a.example"), of(2, "https://b.example"));
    let sent = |own: &NodeEntry| {
        // The one without encryption has the stream.
        refuge(own, [(&plain, true), (&safe, false)].into_iter()).map(|node| node.public.clone())
    };
    assert_eq!(sent(&of(3, "https://own.example")).as_deref(), Some("https://b.example"));
    assert_eq!(sent(&of(3, "http://own.example")).as_deref(), Some("http://a.example"));
    assert!(refuge(&of(3, "https://own.example"), [(&plain, true)].into_iter()).is_none());
}

/// How many servers of zones other than the owner's pull the stream from it, by zones.
fn at_owner(tree: &Tree, stream: usize) -> BTreeMap<String, usize> {
    let it = &tree.streams[stream];
    let mut zones = BTreeMap::new();
    for (node, pulled) in &it.pulled {
        let zone = &tree.nodes[*node].zone;
        if pulled.from == Some(it.owner) && *zone != tree.nodes[it.owner].zone {
            *zones.entry(zone.clone()).or_default() += 1;
        }
    }
    zones
}

#[test]
fn a_zone_has_a_stream_once_again_some_minutes_after_its_first_carrier_has_died_or_all_have_come_at_once() {
    for seed in 0..20 {
        let (stream, zones) = (0, 10);
        let mut tree = Tree::new(seed, 200, zones, 1);
        for node in 0..200 {
            tree.later(60, Event::Ask { node, stream });
        }
        tree.run();
        let at_once: usize = at_owner(&tree, stream).values().sum();
        assert!(at_once > 100, "they have not heard of each other yet: {at_once}");
        tree.look_for(3, stream);
        let settled = |tree: &Tree| {
            let zones = at_owner(tree, stream);
            zones.len() == 9 && zones.values().all(|count| *count == 1)
        };
        assert!(settled(&tree), "seed {seed}: {:?}", at_owner(&tree, stream));
        for _ in 0..3 {
            let first: Vec<usize> = {
                let it = &tree.streams[stream];
                it.pulled
                    .iter()
                    .filter(|(_, pulled)| pulled.from == Some(it.owner))
                    .map(|(node, _)| *node)
                    .collect()
            };
            first.into_iter().for_each(|node| tree.handle(Event::Die { node }));
            tree.run();
            tree.look_for(3, stream);
            assert!(settled(&tree), "seed {seed}: {:?}", at_owner(&tree, stream));
            tree.settled();
        }
        // Nothing goes to and fro.
        let turned = tree.turned;
        tree.look_for(3, stream);
        assert_eq!(tree.turned, turned, "seed {seed}");
    }
}

#[test]
fn a_server_turns_to_the_first_of_its_zone_alone_and_never_from_one_that_is_in_it() {
    let named = |number: usize, zone: usize| node(number, zone, 0);
    let (asker, near, far, owner) = (named(5, 0), named(3, 0), named(1, 1), named(9, 1));
    let of = |source: &NodeEntry, hops: u8, carriers: &[(&NodeEntry, u8)]| {
        let carriers = carriers.iter().map(|(node, hops)| Candidate { node, hops: *hops });
        gateway(&asker, Candidate { node: source, hops }, carriers).map(|node| node.run.incarnation)
    };
    assert_eq!(of(&owner, 0, &[(&asker, 1), (&near, 1), (&far, 1)]), Some(3));
    assert_eq!(
        of(&owner, 0, &[(&asker, 1), (&near, 2), (&far, 1)]),
        None,
        "it has it from another one itself"
    );
    let behind = named(7, 0);
    assert_eq!(of(&owner, 0, &[(&asker, 1), (&behind, 1)]), None, "that one comes to this one");
    assert_eq!(of(&behind, 1, &[(&behind, 1), (&near, 1)]), Some(3));
    assert_eq!(of(&near, 1, &[(&behind, 1), (&near, 1)]), None);
    assert_eq!(of(&near, 2, &[(&behind, 1), (&near, 2)]), None);
    let (mut emptied, at_home) = (near.clone(), named(8, 0));
    emptied.is_draining = true;
    assert_eq!(of(&owner, 0, &[(&emptied, 1)]), None);
    assert_eq!(of(&at_home, 0, &[(&near, 1)]), None, "the publisher's server is of this zone");
}
