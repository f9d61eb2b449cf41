//! Two endpoints of a link on an emulated network, in virtual time.

use glassline_media::Time;
use glassline_transport::emulator::{End, LinkConfig, Network};
use glassline_transport::link::{Credentials, Endpoint, Event, Key, Link, LinkId, Path, Settings};
use std::collections::VecDeque;

/// The near end connects to the far one.
pub(super) struct World {
    pub(super) network: Network,
    ends: [Endpoint; 2],
    links: [Option<LinkId>; 2],
    /// What the near end was told.
    pub(super) events: VecDeque<Event>,
    buffer: Vec<u8>,
}

impl World {
    /// Ends that begin to connect at [`Time::ZERO`].
    pub(super) fn new(
        up: LinkConfig,
        down: LinkConfig,
        seed: u64,
        adjust: impl Fn(&mut Settings),
    ) -> Result<World, Box<dyn std::error::Error + Send + Sync>> {
        let network = Network::new(up, down, seed)?;
        let mut near =
            Settings { name: b"near".to_vec(), ..Settings::new(Credentials::Shared(Key([7; 32]))) };
        adjust(&mut near);
        let far = Settings { listen: true, name: b"far".to_vec(), ..near.clone() };
        let seed_of =
            |end: u8| std::array::from_fn(|index| (seed >> (8 * (index % 8))) as u8 ^ end ^ index as u8);
        let mut ends = [Endpoint::new(near, seed_of(1)), Endpoint::new(far, seed_of(2))];
        let path = Path { remote: network.address(End::Far), via: 0 };
        let id = ends[0].connect(Time::ZERO, path)?;
        Ok(World { network, ends, links: [Some(id), None], events: VecDeque::new(), buffer: Vec::new() })
    }

    pub(super) fn now(&self) -> Time {
        self.network.now()
    }

    /// The link of an end, once it is there.
    pub(super) fn link(&mut self, end: End) -> Option<&mut Link> {
        let id = self.links[end as usize]?;
        self.ends[end as usize].link_mut(id)
    }

    /// Lets everything happen up to `until`, and stops early once something has arrived at the far end. False at `until`.
    pub(super) fn step(&mut self, until: Time) -> bool {
        loop {
            self.transmit();
            let timeout = self.ends.iter().filter_map(Endpoint::poll_timeout).min();
            let timeout = timeout.map_or(until, |at| at.min(until)).max(self.now());
            match self.network.step(timeout) {
                Some(mut delivery) => {
                    let end = delivery.end;
                    let from = Path { remote: delivery.from, via: 0 };
                    self.ends[end as usize].handle_datagram(delivery.at, from, &mut delivery.bytes);
                    self.take_events();
                    if end == End::Far {
                        self.transmit();
                        return true;
                    }
                }
                None => {
                    let now = self.now();
                    for end in &mut self.ends {
                        if end.poll_timeout().is_some_and(|at| at <= now) {
                            end.handle_timeout(now);
                        }
                    }
                    self.take_events();
                    if now >= until {
                        self.transmit();
                        return false;
                    }
                }
            }
        }
    }

    fn transmit(&mut self) {
        for end in End::BOTH {
            let now = self.network.now();
            while let Some(transmit) = self.ends[end as usize].poll_transmit(now, &mut self.buffer) {
                for datagram in self.buffer.chunks(transmit.segment_bytes) {
                    self.network.send_to(end, transmit.path.remote, datagram.to_vec());
                }
            }
        }
    }

    fn take_events(&mut self) {
        while let Some((_, event)) = self.ends[0].poll_event() {
            self.events.push_back(event);
        }
        while let Some((id, event)) = self.ends[1].poll_event() {
            if let Event::Connected { .. } = event {
                self.links[1] = Some(id);
            }
        }
    }
}
