//! Two ends and a link each way: a network for simulations of datagram protocols.

use super::config::{ConfigError, LinkConfig, Loss, Service};
use super::link::Link;
use super::random::Random;
use glassline_media::Time;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// One of the two ends. What `Near` sends goes up, what `Far` sends goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// The end that sends up.
    Near,
    /// The end that sends down.
    Far,
}

impl End {
    /// Both, near first.
    pub const BOTH: [End; 2] = [End::Near, End::Far];

    /// The other one.
    pub const fn other(self) -> End {
        match self {
            End::Near => End::Far,
            End::Far => End::Near,
        }
    }
}

/// A datagram on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The sender's address when it was sent.
    pub from: SocketAddr,
    /// Where it is to go.
    pub to: SocketAddr,
    /// Its payload.
    pub bytes: Vec<u8>,
}

/// A datagram that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When: what [`Network::now`] says then, too.
    pub at: Time,
    /// Where.
    pub end: End,
    /// When it was sent.
    pub sent: Time,
    /// The sender's address when it was sent.
    pub from: SocketAddr,
    /// The address that it was sent to.
    pub to: SocketAddr,
    /// Its payload.
    pub bytes: Vec<u8>,
}

/// What a network counts beyond its links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkCounters {
    /// Arrived for an address that its end no longer has, or never had.
    pub unreachable: u64,
}

/// Two ends with an address each, and a [`Link`] each way, in virtual time.
///
/// Time goes on in [`Network::step`] alone, from one arrival to the next or to a given deadline. Everything follows from
/// configuration, seed and what is sent when: a run repeats exactly.
///
/// ```
/// use glassline_media::Time;
/// use glassline_transport::emulator::{End, LinkConfig, Loss, Network};
/// use std::time::Duration;
///
/// // Far answers each datagram; near sends one each 10 ms for a second.
/// let config = LinkConfig::rate(5_000_000).with_delay(Duration::from_millis(25)).with_loss(Loss::Random(0.1));
/// let mut network = Network::symmetric(config, 42)?;
/// let (mut sent, mut answered, mut timeout) = (0, 0, Time::ZERO);
/// while network.now() < Time::from_millis(2000) {
///     // Arrivals up to the timeout, one by one; `None` once it is the timeout's turn.
///     match network.step(timeout) {
///         Some(arrival) if arrival.end == End::Far => network.send(End::Far, arrival.bytes),
///         Some(arrival) => {
///             assert!(arrival.at.since(Time::ZERO) >= Duration::from_millis(50));
///             answered += 1;
///         }
///         None if sent < 100 => {
///             network.send(End::Near, vec![0; 100]);
///             sent += 1;
///             timeout = network.now() + Duration::from_millis(10);
///         }
///         None => timeout = Time::from_millis(2000),
///     }
/// }
/// assert!((60..100).contains(&answered), "{answered}");
/// # Ok::<(), glassline_transport::emulator::ConfigError>(())
/// ```
///
/// For several paths at once, take a network each: [`Network::step`] the one with the earliest [`Network::poll_timeout`],
/// no further than the next one's, and [`Network::advance`] the others to the time that it has reached.
#[derive(Clone, Debug)]
pub struct Network {
    /// By the end that sends.
    links: [Link<Datagram>; 2],
    addresses: [SocketAddr; 2],
    now: Time,
    counters: NetworkCounters,
}

impl Network {
    /// What each datagram counts beyond its payload: headers of IPv4 and UDP. The configurations'
    /// [`LinkConfig::overhead_bytes`] come on top.
    pub const HEADER_BYTES: usize = 28;

    /// A network that begins at [`Time::ZERO`], its ends at addresses of documentation (RFC 5737).
    ///
    /// # Errors
    /// Where a configuration is out of its range.
    pub fn new(up: LinkConfig, down: LinkConfig, seed: u64) -> Result<Network, ConfigError> {
        let mut seeds = Random::new(seed);
        let links =
            [Link::new(up, seeds.next_u64(), Time::ZERO)?, Link::new(down, seeds.next_u64(), Time::ZERO)?];
        let address = |a, b, c, d, port| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), port);
        let addresses = [address(192, 0, 2, 1, 1000), address(198, 51, 100, 1, 2000)];
        Ok(Network { links, addresses, now: Time::ZERO, counters: NetworkCounters::default() })
    }

    /// The same link each way, with chances of its own.
    ///
    /// # Errors
    /// Where the configuration is out of its range.
    pub fn symmetric(config: LinkConfig, seed: u64) -> Result<Network, ConfigError> {
        Network::new(config.clone(), config, seed)
    }

    /// What time it is.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The address of an end.
    pub fn address(&self, end: End) -> SocketAddr {
        self.addresses[end as usize]
    }

    /// Gives an end another address, as a NAT does that forgets, or a device that changes networks. What is on its way
    /// to the old one arrives nowhere.
    pub fn rebind(&mut self, end: End, address: SocketAddr) {
        self.addresses[end as usize] = address;
    }

    /// Sends a datagram to the address that the other end has now.
    pub fn send(&mut self, from: End, bytes: Vec<u8>) {
        self.send_to(from, self.address(from.other()), bytes);
    }

    /// Sends a datagram to an address; it arrives where the other end has that address then.
    pub fn send_to(&mut self, from: End, to: SocketAddr, bytes: Vec<u8>) {
        let datagram = Datagram { from: self.address(from), to, bytes };
        self.push(from, datagram);
    }

    /// A stranger's datagram for `end`, from any address; it takes the link that leads there, and its room.
    pub fn inject(&mut self, end: End, from: SocketAddr, bytes: Vec<u8>) {
        let datagram = Datagram { from, to: self.address(end), bytes };
        self.push(end.other(), datagram);
    }

    fn push(&mut self, from: End, datagram: Datagram) {
        let bytes = datagram.bytes.len() + Network::HEADER_BYTES;
        self.links[from as usize].push(self.now, bytes, datagram);
    }

    /// When to call [`Network::step`] next if nothing is sent; `None` where nothing ever happens. Changes with
    /// [`Network::send`], [`Network::inject`] and [`Network::step`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.links.iter().filter_map(Link::poll_timeout).min()
    }

    /// Goes on to the next arrival and returns it; `None` where none comes up to `until`, which it is then. At
    /// [`Time::NEVER`] it goes on for as long as anything is on its way.
    ///
    /// Datagrams of one moment arrive in the order in which they left, what goes up before what goes down.
    pub fn step(&mut self, until: Time) -> Option<Delivery> {
        loop {
            let next = self.poll_timeout().unwrap_or(Time::NEVER);
            let at = next.min(until);
            if at != Time::NEVER {
                self.now = self.now.max(at);
            }
            for from in End::BOTH {
                if let Some(arrived) = self.links[from as usize].poll(self.now) {
                    let end = from.other();
                    let Datagram { from, to, bytes } = arrived.packet;
                    if to == self.address(end) {
                        return Some(Delivery {
                            at: arrived.at,
                            end,
                            sent: arrived.arrived,
                            from,
                            to,
                            bytes,
                        });
                    }
                    self.counters.unreachable += 1;
                }
            }
            if next > until || next == Time::NEVER {
                return None;
            }
        }
    }

    /// Goes on to `now`, if that is later, and takes nothing out: what has arrived by then comes from the next
    /// [`Network::step`]. For networks side by side, of which another one has been stepped to `now`, so that what is
    /// sent leaves on all of them at the same time.
    pub fn advance(&mut self, now: Time) {
        if now != Time::NEVER {
            self.now = self.now.max(now);
        }
    }

    /// The link that `from` sends into: its counters, its queue.
    pub fn link(&self, from: End) -> &Link<Datagram> {
        &self.links[from as usize]
    }

    /// The same, to record and poll its events. Datagrams that the caller polls out of it do not come out of
    /// [`Network::step`].
    pub fn link_mut(&mut self, from: End) -> &mut Link<Datagram> {
        &mut self.links[from as usize]
    }

    /// Changes how fast the link that `from` sends into serves, from now on. `Service::Rate(0)` is a blackout that
    /// holds what comes, as far as the queue takes it.
    ///
    /// # Errors
    /// Where the rate is out of its range; then nothing changes.
    pub fn set_service(&mut self, from: End, service: Service) -> Result<(), ConfigError> {
        self.links[from as usize].set_service(self.now, service)
    }

    /// Changes what the link that `from` sends into loses, from now on. `Loss::Random(1.0)` is a blackout that drops.
    ///
    /// # Errors
    /// Where a probability is out of its range; then nothing changes.
    pub fn set_loss(&mut self, from: End, loss: Loss) -> Result<(), ConfigError> {
        self.links[from as usize].set_loss(self.now, loss)
    }

    /// Changes the delay of the link that `from` sends into, from now on.
    pub fn set_delay(&mut self, from: End, delay: Duration) {
        self.links[from as usize].set_delay(self.now, delay);
    }

    /// Changes how large a packet the link that `from` sends into takes, headers counted ([`Network::HEADER_BYTES`]), from
    /// now on; larger ones are dropped without a word. `None` for any.
    pub fn set_max_packet_bytes(&mut self, from: End, most: Option<u32>) {
        self.links[from as usize].set_max_packet_bytes(self.now, most);
    }

    /// What it has counted beyond its links.
    pub fn counters(&self) -> NetworkCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    fn network() -> Network {
        let config = LinkConfig::rate(8_000_000).with_delay(Duration::from_millis(10));
        Network::symmetric(config, 1).unwrap()
    }

    #[test]
    fn datagrams_arrive_one_by_one_at_their_times() {
        let mut network = network();
        network.send(End::Near, vec![1; 972]);
        network.send(End::Near, vec![2; 972]);
        network.send(End::Far, vec![3; 972]);
        let mut seen = Vec::new();
        while let Some(arrival) = network.step(Time::NEVER) {
            assert_eq!(arrival.at, network.now());
            seen.push((
                arrival.at,
                arrival.end,
                arrival.bytes[0],
                arrival.from == network.address(End::Near),
            ));
        }
        let expected =
            [(at(11), End::Far, 1, true), (at(11), End::Near, 3, false), (at(12), End::Far, 2, true)];
        assert_eq!(seen, expected);
        // Nothing is on its way: `NEVER` moves no clock.
        assert_eq!(network.now(), at(12));
        assert_eq!((network.step(at(500)), network.now()), (None, at(500)));
    }

    #[test]
    fn an_address_that_is_gone_receives_nothing() {
        let mut network = network();
        let old = network.address(End::Near);
        network.send(End::Far, vec![1]);
        network.rebind(End::Near, "203.0.113.9:4000".parse().unwrap());
        network.send(End::Far, vec![2]);
        network.send_to(End::Far, old, vec![3]);
        network.send(End::Near, vec![4]);
        let arrivals: Vec<_> = std::iter::from_fn(|| network.step(Time::NEVER)).collect();
        assert_eq!(arrivals.iter().map(|arrival| arrival.bytes[0]).collect::<Vec<_>>(), [4, 2]);
        assert_eq!(arrivals[0].from, "203.0.113.9:4000".parse().unwrap());
        assert_eq!(network.counters().unreachable, 2);
    }

    #[test]
    fn a_network_that_is_advanced_keeps_what_has_arrived_for_the_next_step() {
        let mut network = network();
        network.send(End::Near, vec![1; 972]);
        network.advance(at(11));
        // What is sent now leaves now, behind what is there.
        network.send(End::Near, vec![2; 972]);
        let first = network.step(at(11)).unwrap();
        assert_eq!((first.at, first.bytes[0]), (at(11), 1));
        assert_eq!((network.step(at(21)), network.now()), (None, at(21)));
        assert_eq!(network.step(Time::NEVER).map(|second| second.at), Some(at(22)));
        // Neither back nor to the end of time.
        network.advance(at(5));
        network.advance(Time::NEVER);
        assert_eq!(network.now(), at(22));
    }

    #[test]
    fn strangers_take_the_same_link() {
        let mut network = network();
        let stranger = "203.0.113.66:6666".parse().unwrap();
        network.inject(End::Far, stranger, vec![0; 972]);
        let arrival = network.step(Time::NEVER).unwrap();
        assert_eq!((arrival.at, arrival.end, arrival.from), (at(11), End::Far, stranger));
        assert_eq!(network.link(End::Near).counters().arrived.packets, 1);
    }

    #[test]
    fn a_blackout_holds_or_drops() {
        let mut network = network();
        network.set_service(End::Near, Service::Rate(0)).unwrap();
        network.set_loss(End::Far, Loss::Random(1.0)).unwrap();
        network.send(End::Near, vec![0; 972]);
        network.send(End::Far, vec![0; 972]);
        assert_eq!(network.step(at(1000)), None);
        network.set_service(End::Near, Service::Rate(8_000_000)).unwrap();
        network.set_delay(End::Near, Duration::from_millis(1));
        assert_eq!(network.step(Time::NEVER).unwrap().at, at(1002));
        assert_eq!(network.step(Time::NEVER), None);
    }
}
