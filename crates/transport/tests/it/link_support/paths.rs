//! Two endpoints with a network for each path between them, in virtual time.

use super::settings;
use glassline_media::Time;
use glassline_transport::emulator::{Delivery, End, LinkConfig, Loss, Network};
use glassline_transport::link::{Bonding, Endpoint, Event, Link, LinkId, Options, Path, Settings};
use std::time::Duration;

/// Two ends and networks between them; a path's `via` is its network.
pub struct Pair {
    pub networks: Vec<Network>,
    pub ends: [Endpoint; 2],
    pub links: [Option<LinkId>; 2],
    pub events: Vec<(Time, End, Event)>,
    settings: [Settings; 2],
    starts: u8,
}

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Pair {
    pub fn new(bonding: Bonding, configs: impl IntoIterator<Item = LinkConfig>, seed: u64) -> Pair {
        let networks = configs.into_iter().zip(0u64..).map(|(config, via)| {
            let mut network = Network::symmetric(config, seed + via).unwrap();
            if via > 0 {
                network.rebind(End::Near, format!("192.0.2.{}:1001", 100 + via).parse().unwrap());
                network.rebind(End::Far, format!("198.51.100.{}:2001", 100 + via).parse().unwrap());
            }
            network
        });
        let networks = networks.collect();
        let settings = settings().map(|settings| Settings { bonding, datagram_bytes: 1452, ..settings });
        let ends = [1, 2].map(|which| Endpoint::new(settings[which as usize - 1].clone(), [which; 32]));
        Pair { networks, ends, links: [None; 2], events: Vec::new(), settings, starts: 2 }
    }

    /// As [`Pair::new`], with channels 0 (reliable) and 1 (not), all paths up.
    pub fn up(bonding: Bonding, configs: impl IntoIterator<Item = LinkConfig>, seed: u64) -> Pair {
        let mut pair = Pair::new(bonding, configs, seed);
        pair.connect();
        pair.run(millis(1000));
        for end in End::BOTH {
            pair.open(end);
            let count = pair.networks.len();
            assert_eq!(pair.link(end).unwrap().paths().count(), count);
        }
        pair
    }

    pub fn open(&mut self, end: End) {
        let link = self.link(end).unwrap();
        let _ = link.open(0, Options::default());
        let _ = link.open(1, Options { reliable: false, ordered: false, ..Options::default() });
    }

    pub fn now(&self) -> Time {
        self.networks[0].now()
    }

    pub fn connect(&mut self) {
        let id = self.ends[0].connect(self.now(), self.path(0)).unwrap();
        self.links[0] = Some(id);
        for via in 1..self.networks.len() {
            self.ends[0].add_path(self.now(), id, self.path(via)).unwrap();
        }
    }

    /// The way over a network.
    pub fn path(&self, via: usize) -> Path {
        Path { remote: self.networks[via].address(End::Far), via: via as u8 }
    }

    pub fn restart(&mut self, end: End) {
        self.starts += 1;
        self.ends[end as usize] = Endpoint::new(self.settings[end as usize].clone(), [self.starts; 32]);
        self.links[end as usize] = None;
        if end == End::Near {
            self.connect();
        }
    }

    pub fn link(&mut self, end: End) -> Option<&mut Link> {
        self.ends[end as usize].link_mut(self.links[end as usize]?)
    }

    pub fn send(&mut self, end: End, channel: u8, bytes: Vec<u8>) {
        let now = self.now();
        self.link(end).unwrap().send(now, channel, bytes).unwrap();
    }

    pub fn take(&mut self, end: End, channel: u8) -> Vec<bytes::Bytes> {
        let Some(link) = self.link(end) else { return Vec::new() };
        std::iter::from_fn(|| link.receive(channel)).collect()
    }

    /// What a network carries, both ways.
    pub fn set_loss(&mut self, via: usize, loss: Loss) {
        End::BOTH.into_iter().for_each(|end| self.networks[via].set_loss(end, loss).unwrap());
    }

    pub fn flush(&mut self) {
        let mut buffer = Vec::new();
        for end in End::BOTH {
            let now = self.now();
            while let Some(transmit) = self.ends[end as usize].poll_transmit(now, &mut buffer) {
                for datagram in buffer.chunks(transmit.segment_bytes) {
                    let network = &mut self.networks[usize::from(transmit.path.via)];
                    network.send_to(end, transmit.path.remote, datagram.to_vec());
                }
            }
            while let Some((id, event)) = self.ends[end as usize].poll_event() {
                if let Event::Connected { .. } = event {
                    self.links[end as usize] = Some(id);
                }
                self.events.push((now, end, event));
            }
        }
    }

    /// Goes on to `until`; `look` is called after all that happens.
    pub fn run_until(&mut self, until: Time, mut look: impl FnMut(&mut Pair)) {
        let mut standing = 0;
        while self.now() < until {
            self.flush();
            let due = self.ends.iter().filter_map(Endpoint::poll_timeout).min().unwrap_or(Time::NEVER);
            let event = self.networks.iter().filter_map(Network::poll_timeout).min().unwrap_or(Time::NEVER);
            let now = due.min(event).clamp(self.now(), until);
            standing = if now == self.now() { standing + 1 } else { 0 };
            assert!(standing < 10_000, "time stands still at {now:?}: {:?}", self.ends);
            let mut arrived: Vec<(u8, Delivery)> = Vec::new();
            for via in 0..self.networks.len() as u8 {
                let network = &mut self.networks[usize::from(via)];
                while let Some(delivery) = network.step(now) {
                    arrived.push((via, delivery));
                }
            }
            for (via, mut delivery) in arrived {
                let path = Path { remote: delivery.from, via };
                self.ends[delivery.end as usize].handle_datagram(now, path, &mut delivery.bytes);
            }
            self.ends.iter_mut().for_each(|end| end.handle_timeout(now));
            self.flush();
            look(self);
        }
    }

    pub fn run(&mut self, time: Duration) {
        self.run_until(self.now() + time, |_| {});
    }

    /// `Near` sends a message of 100 bytes each 10 ms on `channel`: when each was sent, and how long it took.
    pub fn talk(
        &mut self,
        channel: u8,
        seconds: u64,
        mut change: impl FnMut(u64, &mut Pair),
    ) -> Vec<(Time, Duration)> {
        let mut got = Vec::new();
        let start = self.now();
        for step in 0..seconds * 100 {
            change(step * 10, self);
            let now = self.now();
            let mut bytes = vec![0; 100];
            bytes[..8].copy_from_slice(&now.as_nanos().to_be_bytes());
            self.send(End::Near, channel, bytes);
            self.run_until(start + millis(10 * (step + 1)), |pair| {
                for message in pair.take(End::Far, channel) {
                    let sent = Time::from_nanos(u64::from_be_bytes(message[..8].try_into().unwrap()));
                    got.push((sent, pair.now() - sent));
                }
            });
        }
        self.run_until(self.now() + millis(3000), |pair| {
            for message in pair.take(End::Far, channel) {
                let sent = Time::from_nanos(u64::from_be_bytes(message[..8].try_into().unwrap()));
                got.push((sent, pair.now() - sent));
            }
        });
        got
    }

    pub fn moves(&self, end: End) -> Vec<(Time, u8)> {
        let moves = self.events.iter().filter_map(|(at, found, event)| match event {
            Event::PathChanged { path } if *found == end => Some((*at, path.via)),
            _ => None,
        });
        moves.collect()
    }
}
