//! Who gets in under a name that another one has, and listeners with several addresses. Each datagram takes 10 ms.

use glassline_media::Time;
use glassline_transport::link::{
    CloseCode, CloseReason, Credentials, Endpoint, Event, Key, LinkId, Options, Path, Settings,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

const WAY: Duration = Duration::from_millis(10);

struct Machine {
    address: SocketAddr,
    endpoint: Endpoint,
    /// Nothing that it sends leaves, and nothing gets there.
    is_cut_off: bool,
    events: Vec<(Time, LinkId, Event)>,
}

#[derive(Default)]
struct World {
    now: Time,
    machines: Vec<Machine>,
    under_way: BTreeMap<(Time, u64), (SocketAddr, SocketAddr, Vec<u8>)>,
    sent: u64,
    /// Of the datagrams that leave from an address next, so many are lost.
    lost_next: BTreeMap<SocketAddr, u32>,
}

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 7000))
}

fn settings(name: &str, boot: Option<u64>) -> Settings {
    Settings {
        name: name.as_bytes().to_vec(),
        boot,
        datagram_bytes: 1200,
        ..Settings::new(Credentials::Shared(Key([9; 32])))
    }
}

impl World {
    /// With a listener at the first address.
    fn new() -> World {
        let mut world = World::default();
        world.add(1, Settings { listen: true, reset_secret: Some(Key([5; 32])), ..settings("ground", None) });
        world
    }

    fn add(&mut self, last: u8, settings: Settings) -> usize {
        let endpoint = Endpoint::new(settings, [last; 32]);
        self.machines.push(Machine {
            address: address(last),
            endpoint,
            is_cut_off: false,
            events: Vec::new(),
        });
        self.machines.len() - 1
    }

    fn connect(&mut self, machine: usize, to: &[u8]) -> LinkId {
        let paths: Vec<_> = to.iter().map(|last| Path { remote: address(*last), via: 0 }).collect();
        self.machines[machine].endpoint.connect_any(self.now, &paths).unwrap()
    }

    fn run(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            let mut out = Vec::new();
            for machine in &mut self.machines {
                while let Some(event) = machine.endpoint.poll_event() {
                    machine.events.push((self.now, event.0, event.1));
                }
                while let Some(transmit) = machine.endpoint.poll_transmit(self.now, &mut out) {
                    for bytes in out.chunks(transmit.segment_bytes) {
                        let lost = self.lost_next.get_mut(&machine.address).filter(|left| **left > 0);
                        let is_lost = lost.map(|left| *left -= 1).is_some();
                        if !machine.is_cut_off && !is_lost {
                            let datagram = (machine.address, transmit.path.remote, bytes.to_vec());
                            self.under_way.insert((self.now + WAY, self.sent), datagram);
                            self.sent += 1;
                        }
                    }
                }
            }
            let arrival = self.under_way.first_key_value().map_or(Time::NEVER, |first| first.0.0);
            let due = self.machines.iter().filter_map(|machine| machine.endpoint.poll_timeout()).min();
            let next = arrival.min(due.unwrap_or(Time::NEVER)).max(self.now);
            if next > until {
                self.now = until;
                return;
            }
            self.now = next;
            while let Some(first) = self.under_way.first_entry().filter(|first| first.key().0 <= next) {
                let (from, to, mut bytes) = first.remove();
                let path = Path { remote: from, via: 0 };
                let there =
                    self.machines.iter_mut().find(|machine| machine.address == to && !machine.is_cut_off);
                if let Some(machine) = there {
                    machine.endpoint.handle_datagram(next, path, &mut bytes);
                }
            }
            self.machines.iter_mut().for_each(|machine| machine.endpoint.handle_timeout(next));
        }
    }

    fn events(&self, machine: usize, is_it: impl Fn(&Event) -> bool) -> Vec<(Time, Event)> {
        let events = self.machines[machine].events.iter().filter(|event| is_it(&event.2));
        events.map(|(at, _, event)| (*at, event.clone())).collect()
    }

    fn is_up(&self, machine: usize) -> bool {
        self.machines[machine].endpoint.links().any(|(_, link)| link.is_up())
    }
}

fn is_connected(event: &Event) -> bool {
    matches!(event, Event::Connected { .. })
}

fn is_closed(event: &Event) -> bool {
    matches!(event, Event::Closed { .. } | Event::Suspended { .. })
}

#[test]
fn a_clone_is_refused_and_comes_more_and_more_seldom_while_the_first_one_answers() {
    let mut world = World::new();
    let first = world.add(2, settings("drone", Some(1)));
    let clone = world.add(3, settings("drone", Some(2)));
    world.connect(first, &[1]);
    world.run(Duration::from_millis(500));
    world.connect(clone, &[1]);
    world.run(Duration::from_secs(60));
    assert!(world.is_up(first) && !world.is_up(clone));
    assert_eq!(world.events(0, is_connected).len(), 1, "nothing changed for the listener");
    assert_eq!(world.events(first, |event| is_connected(event) || is_closed(event)).len(), 1);
    let waits: Vec<_> = world
        .events(clone, |event| matches!(event, Event::Refused { .. }))
        .into_iter()
        .map(|(_, event)| match event {
            Event::Refused { retry_after } => retry_after.as_millis(),
            _ => 0,
        })
        .collect();
    assert!((4..=7).contains(&waits.len()), "{waits:?}");
    for (wait, least) in waits.iter().zip([1000, 2000, 4000, 8000, 16_000, 30_000]) {
        assert!((least..=least * 5 / 4 + 1).contains(wait), "{waits:?}");
    }
    // Nobody waits for it for ever, and it is told why.
    let refused = Event::Closed { reason: CloseReason::Refused };
    assert!(!world.events(clone, |event| *event == refused).is_empty());
    assert!(
        world.events(clone, |event| *event == Event::Closed { reason: CloseReason::Unreachable }).is_empty()
    );
}

#[test]
fn a_machine_that_was_booted_again_is_let_in_once_the_older_one_was_silent_for_a_second() {
    let mut world = World::new();
    let first = world.add(2, settings("drone", Some(1)));
    world.connect(first, &[1]);
    world.run(Duration::from_millis(2500));
    world.machines[first].is_cut_off = true;
    let again = world.add(3, settings("drone", Some(2)));
    world.connect(again, &[1]);
    let from = world.now;
    world.run(Duration::from_secs(4));
    let up = world.events(again, is_connected);
    assert_eq!(up.len(), 1, "{:?}", world.machines[again].events);
    let after = up[0].0 - from;
    assert!((Duration::from_secs(1)..Duration::from_millis(1500)).contains(&after), "{after:?}");
    assert!(world.events(0, is_connected).last().unwrap().1 == Event::Connected { again: true });
    // The older one is the newcomer if it comes back, and is refused.
    world.machines[first].is_cut_off = false;
    world.run(Duration::from_secs(10));
    assert!(world.is_up(again) && !world.is_up(first));
    assert!(!world.events(first, |event| matches!(event, Event::Refused { .. })).is_empty());
}

#[test]
fn a_process_that_was_started_again_replaces_its_older_self_which_is_told_so() {
    for farewell_is_lost in [false, true] {
        let mut world = World::new();
        let first = world.add(2, settings("drone", Some(1)));
        world.connect(first, &[1]);
        world.run(Duration::from_millis(500));
        let second = world.add(3, settings("drone", Some(1)));
        world.connect(second, &[1]);
        let from = world.now;
        world.run(3 * WAY / 2 + WAY);
        if farewell_is_lost {
            world.lost_next.insert(address(1), 1);
        }
        world.run(Duration::from_secs(5));
        let up = world.events(second, is_connected);
        assert!(up[0].0 - from <= 2 * WAY + Duration::from_millis(1), "{:?}", up[0].0 - from);
        let closed = world.events(first, is_closed);
        let code = CloseCode::Replaced.number();
        let is_told = |event: &Event| matches!(event, Event::Closed { reason: CloseReason::Peer { code: found, .. } } if *found == code);
        assert!(closed.len() == 1 && is_told(&closed[0].1), "{farewell_is_lost}: {closed:?}");
        // And it does not come again.
        assert!(world.is_up(second) && world.machines[first].endpoint.links().count() == 0);
        assert_eq!(world.events(0, is_connected).len(), 2);
        assert_eq!(world.events(second, is_closed).len(), 0);
    }
}

#[test]
fn of_two_clones_that_come_together_one_gets_in() {
    let mut world = World::new();
    let machines = [world.add(2, settings("drone", Some(1))), world.add(3, settings("drone", Some(2)))];
    machines.iter().for_each(|machine| _ = world.connect(*machine, &[1]));
    world.run(Duration::from_secs(20));
    assert_eq!(machines.iter().filter(|machine| world.is_up(**machine)).count(), 1);
    let taken = world.events(0, is_connected).len();
    assert!(taken <= 2, "{taken} takeovers");
}

#[test]
fn who_does_not_say_its_boot_replaces_at_once() {
    let mut world = World::new();
    let first = world.add(2, settings("drone", Some(1)));
    world.connect(first, &[1]);
    world.run(Duration::from_millis(500));
    let second = world.add(3, settings("drone", None));
    world.connect(second, &[1]);
    world.run(Duration::from_millis(100));
    assert!(world.is_up(second));
}

#[test]
fn all_addresses_of_a_listener_are_tried() {
    let mut world = World::new();
    let drone = world.add(2, settings("drone", None));
    // Nobody is at the first two.
    world.connect(drone, &[8, 9, 1, 7]);
    world.run(Duration::from_secs(2));
    let up = world.events(drone, is_connected);
    let least = Duration::from_millis(500) + 2 * WAY;
    assert!(up.len() == 1 && up[0].0 == Time::ZERO + least, "{up:?}");
    // The one that answered goes first from then on.
    world.machines[0].endpoint = Endpoint::new(
        Settings { listen: true, reset_secret: Some(Key([5; 32])), ..settings("ground", None) },
        [77; 32],
    );
    world.run(Duration::from_secs(3));
    let up = world.events(drone, is_connected);
    let reset = world.events(drone, |event| matches!(event, Event::Suspended { .. }));
    assert_eq!(up[1].0 - reset[0].0, 2 * WAY, "{up:?} {reset:?}");
}

#[test]
fn a_link_that_is_away_follows_its_listener_with_all_that_waits() {
    let mut world = World::new();
    let drone = world.add(2, settings("drone", None));
    let id = world.connect(drone, &[1]);
    world.machines[drone].endpoint.link_mut(id).unwrap().open(0, Options::default()).unwrap();
    world.run(Duration::from_millis(500));
    // The listener's address changes, and datagrams to the old one are lost.
    world.machines[0].address = address(50);
    world.machines[0].is_cut_off = true;
    for number in 0..100u32 {
        let now = world.now;
        let link = world.machines[drone].endpoint.link_mut(id).unwrap();
        link.send(now, 0, number.to_be_bytes().to_vec()).unwrap();
    }
    world.run(Duration::from_secs(8));
    world.machines[0].is_cut_off = false;
    assert!(!world.is_up(drone));
    let paths = [40, 50].map(|last| Path { remote: address(last), via: 0 });
    let now = world.now;
    world.machines[drone].endpoint.retarget(now, id, &paths).unwrap();
    world.run(Duration::from_secs(2));
    assert!(world.is_up(drone));
    let (peer, _) = world.machines[0].endpoint.links().next().unwrap();
    let link = world.machines[0].endpoint.link_mut(peer).unwrap();
    for number in 0..100u32 {
        assert_eq!(link.receive(0).unwrap()[..], number.to_be_bytes());
    }
}
