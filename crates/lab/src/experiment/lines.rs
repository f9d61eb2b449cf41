//! The emulated lines between both ends of an experiment, in one virtual time.

use crate::link::line_seed;
use glassline_media::Time;
use glassline_transport::emulator::{ConfigError, Datagram, Delivery, End, Link, LinkConfig, Network};
use glassline_transport::link::{MAX_PATHS, Path};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use thiserror::Error;

/// The most lines of an experiment: as many as a link can have paths.
pub const MAX_LINES: usize = MAX_PATHS;

/// What a line is like.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// The way of the video.
    pub up: LinkConfig,
    /// The way back.
    pub down: LinkConfig,
}

/// Why lines cannot be emulated.
#[derive(Debug, Error)]
pub(super) enum LinesError {
    #[error("{found} lines; an experiment takes 1 to {MAX_LINES}")]
    Count { found: usize },
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// A network for each line; all of them are at the same time.
pub(super) struct Lines {
    networks: Vec<Network>,
}

impl Lines {
    /// Lines that begin at [`Time::ZERO`]. All chance follows from `seed`, each line's by itself.
    pub(super) fn new(lines: &[Line], seed: u64) -> Result<Lines, LinesError> {
        if lines.is_empty() || lines.len() > MAX_LINES {
            return Err(LinesError::Count { found: lines.len() });
        }
        let mut networks = Vec::new();
        for (number, Line { up, down }) in (0..=u8::MAX).zip(lines) {
            let mut network = Network::new(up.clone(), down.clone(), line_seed(seed, number))?;
            // Both ends tell the lines apart by the other end's address.
            for end in End::BOTH {
                let address = network.address(end);
                network.rebind(end, SocketAddr::new(behind(address.ip(), number), address.port()));
            }
            networks.push(network);
        }
        Ok(Lines { networks })
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.networks.len()
    }

    pub(super) fn now(&self) -> Time {
        self.networks.first().map_or(Time::ZERO, Network::now)
    }

    /// What is sent into each by `from`.
    pub(super) fn links(&self, from: End) -> impl Iterator<Item = &Link<Datagram>> {
        self.networks.iter().map(move |network| network.link(from))
    }

    /// The same, for their events.
    pub(super) fn links_mut(&mut self, from: End) -> impl Iterator<Item = &mut Link<Datagram>> {
        self.networks.iter_mut().map(move |network| network.link_mut(from))
    }

    /// How the near end reaches the far one, by each line.
    pub(super) fn paths(&self) -> impl Iterator<Item = Path> {
        (0..=u8::MAX)
            .zip(&self.networks)
            .map(|(via, network)| Path { remote: network.address(End::Far), via })
    }

    /// Sends a datagram over the line that the path names. On one that is not there it is lost.
    pub(super) fn send_to(&mut self, from: End, path: Path, bytes: Vec<u8>) {
        if let Some(network) = self.networks.get_mut(usize::from(path.via)) {
            network.send_to(from, path.remote, bytes);
        }
    }

    /// Goes on to the next arrival on any line and returns it with the line's number; `None` where none comes up to
    /// `until`, which it is then. Of arrivals of one moment that of the line with the smaller number comes first.
    pub(super) fn step(&mut self, until: Time) -> Option<(u8, Delivery)> {
        loop {
            let due = |network: &Network| network.poll_timeout().unwrap_or(Time::NEVER);
            let (via, at) = (0..=u8::MAX).zip(self.networks.iter().map(due)).min_by_key(|(_, at)| *at)?;
            if at > until || at == Time::NEVER {
                // They have events all the same: opportunities that no packet used.
                for network in &mut self.networks {
                    network.step(until);
                }
                return None;
            }
            // Not beyond what happens on another line; one that is alone goes on by itself.
            let bound = if self.networks.len() == 1 { until } else { at };
            let network = self.networks.get_mut(usize::from(via))?;
            let delivery = network.step(bound);
            let now = network.now();
            self.networks.iter_mut().for_each(|network| network.advance(now));
            if let Some(delivery) = delivery {
                return Some((via, delivery));
            }
        }
    }
}

/// The address of an end on the line with this number.
fn behind(first: IpAddr, number: u8) -> IpAddr {
    match first {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, d.wrapping_add(number)))
        }
        IpAddr::V6(_) => first,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_transport::emulator::{Loss, Trace};
    use std::sync::Arc;
    use std::time::Duration;

    fn at(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    fn line(bits_per_second: u64, delay: u64) -> Line {
        let way = LinkConfig::rate(bits_per_second).with_delay(Duration::from_millis(delay));
        Line { up: way.clone(), down: way }
    }

    /// Sends `bytes` from `from` over line `via`.
    fn send(lines: &mut Lines, from: End, via: u8, bytes: Vec<u8>) {
        let network = &lines.networks[usize::from(via)];
        let path = Path { remote: network.address(from.other()), via };
        lines.send_to(from, path, bytes);
    }

    #[test]
    fn arrivals_of_all_lines_come_in_the_order_of_time() {
        let mut lines = Lines::new(&[line(8_000_000, 20), line(8_000_000, 5)], 1).unwrap();
        send(&mut lines, End::Near, 0, vec![1; 972]);
        send(&mut lines, End::Near, 1, vec![2; 972]);
        send(&mut lines, End::Far, 1, vec![3; 972]);
        let mut seen = Vec::new();
        while let Some((via, delivery)) = lines.step(at(100)) {
            assert_eq!((delivery.at, lines.now()), (lines.now(), delivery.at));
            seen.push((lines.now(), via, delivery.end, delivery.bytes[0]));
            if delivery.bytes[0] == 3 {
                // What is sent at that moment leaves at that moment, whatever line it takes.
                send(&mut lines, End::Near, 0, vec![4; 972]);
            }
        }
        let expected = [
            (at(6), 1, End::Far, 2),
            (at(6), 1, End::Near, 3),
            (at(21), 0, End::Far, 1),
            (at(27), 0, End::Far, 4),
        ];
        assert_eq!(seen, expected);
        assert_eq!(lines.now(), at(100));
    }

    #[test]
    fn arrivals_of_one_moment_are_all_handed_over() {
        let mut lines = Lines::new(&[line(8_000_000, 5), line(8_000_000, 5)], 1).unwrap();
        send(&mut lines, End::Near, 1, vec![1; 972]);
        send(&mut lines, End::Near, 0, vec![2; 972]);
        let mut all = || lines.step(at(50)).map(|(via, delivery)| (via, delivery.at));
        assert_eq!([all(), all(), all()], [Some((0, at(6))), Some((1, at(6))), None]);
    }

    #[test]
    fn a_line_that_carries_nothing_is_told_what_time_it_is() {
        let trace: Arc<Trace> = Arc::new("10\n".parse().unwrap());
        let idle = Line { up: LinkConfig::trace(Arc::clone(&trace)), down: LinkConfig::trace(trace) };
        let mut lines = Lines::new(&[line(8_000_000, 5), idle], 1).unwrap();
        lines.links_mut(End::Near).for_each(Link::record_events);
        send(&mut lines, End::Near, 0, vec![1; 972]);
        while lines.step(at(100)).is_some() {}
        let events: Vec<usize> =
            lines.links_mut(End::Near).map(|link| std::iter::from_fn(|| link.poll_event()).count()).collect();
        // An arrival, a departure, a delivery; and an opportunity each 10 ms.
        assert_eq!(events, [3, 10]);
    }

    #[test]
    fn the_first_line_is_what_it_would_be_alone_and_others_have_chances_of_their_own() {
        let lossy = |count: usize| {
            let way = LinkConfig::rate(80_000_000).with_loss(Loss::Random(0.5));
            let mut lines = Lines::new(&vec![Line { up: way.clone(), down: way }; count], 7).unwrap();
            for number in 0..64 {
                (0..count as u8).for_each(|via| send(&mut lines, End::Near, via, vec![number]));
            }
            let mut arrived = vec![Vec::new(); count];
            while let Some((via, delivery)) = lines.step(at(1_000)) {
                arrived[usize::from(via)].push(delivery.bytes[0]);
            }
            arrived
        };
        let (alone, both) = (lossy(1), lossy(2));
        assert_eq!(alone[0], both[0]);
        assert_ne!(both[0], both[1]);
    }

    #[test]
    fn addresses_tell_lines_apart_and_a_line_that_is_not_there_carries_nothing() {
        let mut lines = Lines::new(&[line(1_000_000, 1), line(1_000_000, 1)], 1).unwrap();
        let paths: Vec<Path> = lines.paths().collect();
        assert_ne!(paths[0].remote, paths[1].remote);
        lines.send_to(End::Near, Path { via: 9, ..paths[0] }, vec![1]);
        // The first line does not lead to the second one's address.
        lines.send_to(End::Near, Path { via: 0, ..paths[1] }, vec![2]);
        assert_eq!(lines.step(at(100)).map(|(via, _)| via), None);
    }

    #[test]
    fn a_number_of_lines_that_a_link_has_no_paths_for_is_refused() {
        let words =
            |count: usize| Lines::new(&vec![Line::default(); count], 1).err().map(|error| error.to_string());
        assert_eq!(words(MAX_LINES), None);
        for count in [0, MAX_LINES + 1] {
            let expected = format!("{count} lines; an experiment takes 1 to {MAX_LINES}");
            assert_eq!(words(count), Some(expected));
        }
    }
}
