//! Two endpoints of a link on emulated lines, in virtual time.

use super::lines::{Line, Lines};
use glassline_media::Time;
use glassline_transport::emulator::End;
use glassline_transport::link::{Credentials, Endpoint, Event, Key, Link, LinkId, Path, Settings};
use std::collections::VecDeque;

/// The near end connects to the far one. Each line is a path of the link: its number is [`Path::via`] at both ends.
pub(super) struct World {
    pub(super) lines: Lines,
    ends: [Endpoint; 2],
    links: [Option<LinkId>; 2],
    /// What the near end was told.
    pub(super) events: VecDeque<Event>,
    buffer: Vec<u8>,
}

impl World {
    /// Ends that begin to connect at [`Time::ZERO`], over the first line and then over the others.
    pub(super) fn new(
        lines: &[Line],
        seed: u64,
        adjust: impl Fn(&mut Settings),
    ) -> Result<World, Box<dyn std::error::Error + Send + Sync>> {
        let lines = Lines::new(lines, seed)?;
        let mut near =
            Settings { name: b"near".to_vec(), ..Settings::new(Credentials::Shared(Key([7; 32]))) };
        adjust(&mut near);
        let far = Settings { listen: true, name: b"far".to_vec(), ..near.clone() };
        let seed_of =
            |end: u8| std::array::from_fn(|index| (seed >> (8 * (index % 8))) as u8 ^ end ^ index as u8);
        let mut ends = [Endpoint::new(near, seed_of(1)), Endpoint::new(far, seed_of(2))];
        let paths: Vec<Path> = lines.paths().collect();
        let id = ends[0].connect_any(Time::ZERO, &paths[..1.min(paths.len())])?;
        for further in paths.into_iter().skip(1) {
            ends[0].add_path(Time::ZERO, id, further)?;
        }
        Ok(World { lines, ends, links: [Some(id), None], events: VecDeque::new(), buffer: Vec::new() })
    }

    pub(super) fn now(&self) -> Time {
        self.lines.now()
    }

    /// Whether messages pass both ways, over one line at least.
    pub(super) fn is_up(&mut self) -> bool {
        End::BOTH.into_iter().all(|end| self.link(end).is_some_and(|link| link.is_up()))
    }

    /// Whether both ends have a path on each line.
    pub(super) fn has_all_paths(&mut self) -> bool {
        let count = self.lines.count();
        End::BOTH.into_iter().all(|end| self.link(end).is_some_and(|link| link.paths().count() >= count))
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
            match self.lines.step(timeout) {
                Some((via, mut delivery)) => {
                    let end = delivery.end;
                    let from = Path { remote: delivery.from, via };
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
            let now = self.lines.now();
            while let Some(transmit) = self.ends[end as usize].poll_transmit(now, &mut self.buffer) {
                for datagram in self.buffer.chunks(transmit.segment_bytes) {
                    self.lines.send_to(end, transmit.path, datagram.to_vec());
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
