//! Links over networks of their own (namespaces with TUN devices), in which what happens to real machines is done: a NAT
//! gives a flow another address, a network interface goes.

use glassline_call::link::{Endpoint, Link, Local};
use glassline_io::namespace::{self, NetworkNamespace};
use glassline_io::tun::{self, Tun};
use glassline_test_support::skip;
use glassline_test_support::wait::{PATIENCE, until, until_some};
use glassline_transport::link::{
    Bonding, CloseReason, Credentials, Error, Event, Key, Options, Outcome, Settings,
};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::time::Duration;

const FAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
pub(crate) const LISTENS_AT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(FAR), 7000);

/// What is done to the way between the two networks.
pub(crate) enum Change {
    /// The NAT forgets the flow of this device and gives it this address and port.
    Rebind(usize, SocketAddrV4),
    /// The device is taken away.
    Remove(usize),
    /// It is back, as another device of the same name.
    Return(usize, Tun),
}

/// A network with one device at the far end and one with several near ones, and a NAT between them.
pub(crate) struct Networks {
    pub(crate) far: NetworkNamespace,
    pub(crate) near: NetworkNamespace,
    nat: Sender<Change>,
}

/// Runs `action` in a thread of its own, which leaves this one's network for another.
pub(crate) fn elsewhere<R: Send>(action: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| scope.spawn(action).join())
        .unwrap_or_else(|cause| std::panic::resume_unwind(cause))
}

/// The near device's name and address, and where the NAT has it appear at first.
pub(crate) fn near_device(index: usize) -> (String, Ipv4Addr, SocketAddrV4) {
    let number = index as u8;
    (
        format!("near{index}"),
        Ipv4Addr::new(10, 78, number, 2),
        SocketAddrV4::new(Ipv4Addr::new(203, 0, 113, 1 + number), 4000),
    )
}

fn configured(name: &str, address: Ipv4Addr, peer: Ipv4Addr) -> Result<Tun, String> {
    let device = Tun::open(name).map_err(|error| error.to_string())?;
    device.configure(address, peer, 1500).map_err(|error| error.to_string())?;
    // What comes in by one of two devices is answered by the same one, whatever the routing table says.
    let _ = std::fs::write(format!("/proc/sys/net/ipv4/conf/{name}/rp_filter"), "0");
    Ok(device)
}

/// Makes a network and its devices; nothing of this process but the sockets that are opened in it is there.
fn network<T: Send>(
    devices: impl FnOnce() -> Result<T, String> + Send,
) -> Result<(NetworkNamespace, T), String> {
    elsewhere(|| {
        namespace::unshare_network().map_err(|error| error.to_string())?;
        tun::set_loopback_up().map_err(|error| error.to_string())?;
        let _ = std::fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "0");
        let made = devices()?;
        Ok((NetworkNamespace::current().map_err(|error| error.to_string())?, made))
    })
}

impl Networks {
    /// `None`, and the test is counted as skipped, where this machine gives no networks.
    pub(crate) fn make(test: &str, near_devices: usize) -> Option<Networks> {
        if !namespace::may_administer() {
            skip(test, "network namespaces are for root alone in a program of several threads");
            return None;
        }
        let far = network(|| {
            let device = configured("far0", FAR, Ipv4Addr::new(10, 77, 0, 2))?;
            device.take_default_route(0).map_err(|error| error.to_string())?;
            Ok(device)
        });
        let near = network(|| {
            let make = |index| {
                let (name, address, _) = near_device(index);
                configured(&name, address, Ipv4Addr::new(10, 78, index as u8, 1))
            };
            let devices: Vec<Tun> = (0..near_devices).map(make).collect::<Result<_, _>>()?;
            devices[0].take_default_route(0).map_err(|error| error.to_string())?;
            Ok(devices)
        });
        match (far, near) {
            (Ok((far, far_device)), Ok((near, near_devices))) => {
                let (nat, changes) = mpsc::channel();
                std::thread::spawn(move || Nat::new(far_device, near_devices).run(&changes));
                Some(Networks { far, near, nat })
            }
            (Err(error), _) | (_, Err(error)) => {
                skip(test, &error);
                None
            }
        }
    }

    fn listen(&self, settings: Settings) -> Endpoint {
        elsewhere(|| {
            self.far.enter().unwrap();
            Endpoint::listen(settings, &[Local::at(LISTENS_AT)]).unwrap()
        })
    }

    /// With a socket for each of these devices, or one for any.
    fn open(&self, settings: Settings, devices: &[usize]) -> Endpoint {
        let any = Local::towards(LISTENS_AT);
        let bound = |index: &usize| Local { interface: Some(near_device(*index).0), ..any.clone() };
        let locals: Vec<Local> =
            if devices.is_empty() { vec![any.clone()] } else { devices.iter().map(bound).collect() };
        elsewhere(|| {
            self.near.enter().unwrap();
            Endpoint::open(settings, &locals).unwrap()
        })
    }

    /// A near device once more that was taken away.
    pub(crate) fn restore(&self, index: usize) {
        let device = elsewhere(|| {
            self.near.enter().unwrap();
            let (name, address, _) = near_device(index);
            // The one before goes with the thread that passes packets.
            until_some("the name is free", || {
                configured(&name, address, Ipv4Addr::new(10, 78, index as u8, 1)).ok()
            })
        });
        self.change(Change::Return(index, device));
    }

    pub(crate) fn change(&self, change: Change) {
        self.nat.send(change).unwrap();
    }
}

/// A near device, the flow behind it, and the address that the far network sees.
struct Lane {
    device: Option<Tun>,
    inside: Option<SocketAddrV4>,
    outside: SocketAddrV4,
}

/// Passes UDP over IPv4 between the devices, as a NAT that lets in only what answers its present addresses.
struct Nat {
    far: Tun,
    lanes: Vec<Lane>,
}

impl Nat {
    fn new(far: Tun, near: Vec<Tun>) -> Nat {
        let lane =
            |(index, device)| Lane { device: Some(device), inside: None, outside: near_device(index).2 };
        Nat { far, lanes: near.into_iter().enumerate().map(lane).collect() }
    }

    /// Until nobody can change it any more.
    fn run(mut self, changes: &Receiver<Change>) {
        let mut packet = [0; 2048];
        loop {
            match changes.try_recv() {
                Ok(Change::Rebind(index, outside)) => self.lanes[index].outside = outside,
                Ok(Change::Remove(index)) => self.lanes[index].device = None,
                Ok(Change::Return(index, device)) => self.lanes[index].device = Some(device),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => return,
            }
            let mut idle = true;
            for lane in &mut self.lanes {
                let Some(device) = &lane.device else { continue };
                while let Ok(Some(length)) = device.read(&mut packet) {
                    idle = false;
                    if let Some((from, to)) = addresses(&packet[..length]) {
                        lane.inside = Some(from);
                        let _ = self.far.write(readdressed(&mut packet[..length], lane.outside, to));
                    }
                }
            }
            while let Ok(Some(length)) = self.far.read(&mut packet) {
                idle = false;
                let Some((from, to)) = addresses(&packet[..length]) else { continue };
                let lane = self.lanes.iter().find(|lane| lane.outside == to);
                if let Some(Lane { device: Some(device), inside: Some(inside), .. }) = lane {
                    let _ = device.write(readdressed(&mut packet[..length], from, *inside));
                }
            }
            if idle {
                std::thread::sleep(Duration::from_micros(500));
            }
        }
    }
}

/// From where and to where, of UDP over IPv4 without options.
fn addresses(packet: &[u8]) -> Option<(SocketAddrV4, SocketAddrV4)> {
    let at = |ip: usize, port: usize| {
        let ip: [u8; 4] = packet.get(ip..ip + 4)?.try_into().ok()?;
        let port: [u8; 2] = packet.get(port..port + 2)?.try_into().ok()?;
        Some(SocketAddrV4::new(ip.into(), u16::from_be_bytes(port)))
    };
    let is_udp = packet.len() >= 28 && packet[0] == 0x45 && packet[9] == 17;
    is_udp.then(|| Some((at(12, 20)?, at(16, 22)?))).flatten()
}

/// The same packet with other addresses. UDP over IPv4 may go without a checksum, IP may not.
fn readdressed(packet: &mut [u8], from: SocketAddrV4, to: SocketAddrV4) -> &[u8] {
    packet[12..16].copy_from_slice(&from.ip().octets());
    packet[16..20].copy_from_slice(&to.ip().octets());
    packet[20..22].copy_from_slice(&from.port().to_be_bytes());
    packet[22..24].copy_from_slice(&to.port().to_be_bytes());
    packet[26..28].fill(0);
    packet[10..12].fill(0);
    let words = packet[..20].chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    packet
}

pub(crate) fn settings(name: &str) -> Settings {
    Settings { name: name.as_bytes().to_vec(), ..Settings::new(Credentials::Shared(Key([7; 32]))) }
}

/// Both ends of a link that is up, with channel 0 open both ways.
fn linked(ground: &Endpoint, air: &Endpoint) -> (Link, Link) {
    let up = air.connect(LISTENS_AT).unwrap();
    assert_eq!(up.wait_connected(PATIENCE), Ok(true));
    let down = ground.accept_timeout(PATIENCE).unwrap().expect("somebody has connected");
    up.open(0, Options::default()).unwrap();
    down.open(0, Options::default()).unwrap();
    (up, down)
}

/// Sends `count` messages each way and does `between` when half of them are under way; they come in order, each once.
fn talk(up: &Link, down: &Link, next: &mut u32, count: u32, between: impl FnOnce()) {
    let (first, half, end) = (*next, *next + count / 2, *next + count);
    let send = |numbers: std::ops::Range<u32>| {
        for number in numbers {
            up.send(0, number.to_be_bytes().to_vec()).unwrap();
            down.send(0, number.to_be_bytes().to_vec()).unwrap();
        }
    };
    send(first..half);
    between();
    send(half..end);
    for number in first..end {
        for link in [down, up] {
            let message = link.receive_timeout(0, PATIENCE).unwrap();
            assert_eq!(message.expect("no message is lost")[..], number.to_be_bytes());
        }
    }
    *next = end;
}

#[test]
fn a_nat_that_rebinds_loses_no_message() {
    let Some(networks) = Networks::make("a_nat_that_rebinds_loses_no_message", 1) else { return };
    let (ground, air) = (networks.listen(settings("ground")), networks.open(settings("air"), &[]));
    let (up, down) = linked(&ground, &air);
    let mut next = 0;
    let mut seen = Vec::new();
    // Another port, another address, both; the last one is again the first.
    for outside in ["203.0.113.1:4001", "203.0.113.2:4001", "198.51.100.7:6000", "203.0.113.1:4000"] {
        let outside: SocketAddrV4 = outside.parse().unwrap();
        talk(&up, &down, &mut next, 200, || networks.change(Change::Rebind(0, outside)));
        let outside = SocketAddr::from(outside);
        until("the new address", || down.remote_address() == Some(outside));
        until("it is told", || {
            seen.extend(down.events());
            seen.iter().any(|event| matches!(event, Event::PathChanged { path } if path.remote == outside))
        });
    }
    talk(&up, &down, &mut next, 200, || {});
    seen.extend(down.events());
    seen.extend(up.events());
    let is_end = |event: &Event| matches!(event, Event::Closed { .. } | Event::Connected { again: true });
    assert!(!seen.iter().any(is_end), "{seen:?}");
    for link in [&up, &down] {
        assert_eq!(link.statistics().unwrap().sessions, 1, "no handshake was needed");
    }
    assert!(ground.accept_timeout(Duration::ZERO).unwrap().is_none(), "it is the same link");
}

#[test]
fn an_interface_that_goes_leaves_the_link_to_the_other_one() {
    let test = "an_interface_that_goes_leaves_the_link_to_the_other_one";
    let Some(networks) = Networks::make(test, 2) else { return };
    // Nothing but the device's end is to end a path, on a busy machine neither.
    let patient = |name| Settings { idle: PATIENCE / 2, ..settings(name) };
    let (ground, air) = (networks.listen(patient("ground")), networks.open(patient("air"), &[0, 1]));
    let (up, down) = linked(&ground, &air);
    air.add_path(&up, 1, LISTENS_AT, None).unwrap();
    let mut seen = Vec::new();
    until("the second path", || {
        seen.extend(up.events());
        seen.iter().any(|event| matches!(event, Event::PathUp { path } if path.via == 1))
    });
    let (first, second) = (SocketAddr::from(near_device(0).2), SocketAddr::from(near_device(1).2));
    let mut next = 0;
    talk(&up, &down, &mut next, 200, || {});
    assert_eq!(down.remote_address(), Some(first));
    talk(&up, &down, &mut next, 200, || networks.change(Change::Remove(0)));
    talk(&up, &down, &mut next, 200, || {});
    until("the second path carries", || {
        seen.extend(up.events());
        seen.iter().any(|event| matches!(event, Event::PathChanged { path } if path.via == 1))
    });
    until("and so it does at the other end", || down.remote_address() == Some(second));
    seen.extend(down.events());
    let is_end = |event: &Event| matches!(event, Event::Closed { .. } | Event::Connected { again: true });
    assert!(!seen.iter().any(is_end), "{seen:?}");
    assert!(up.is_connected() && down.is_connected());
}

#[test]
fn of_two_interfaces_that_carry_a_link_together_either_may_go() {
    let test = "of_two_interfaces_that_carry_a_link_together_either_may_go";
    for gone in [0, 1] {
        let Some(networks) = Networks::make(test, 2) else { return };
        let patient = |name| Settings { idle: PATIENCE / 2, bonding: Bonding::Sum, ..settings(name) };
        let (ground, air) = (networks.listen(patient("ground")), networks.open(patient("air"), &[0, 1]));
        let (up, down) = linked(&ground, &air);
        air.add_path(&up, 1, LISTENS_AT, None).unwrap();
        until("the second path", || up.paths().is_ok_and(|paths| paths.len() == 2));
        let sent = || {
            let paths = up.paths().unwrap();
            [0, 1].map(|number| {
                paths.iter().find(|path| path.number == number).map_or(0, |path| path.sent_bytes)
            })
        };
        // What one carries alone is no sum.
        until("both carry", || {
            up.send(0, vec![7; 100_000]).unwrap();
            assert!(
                down.receive_timeout(0, PATIENCE).unwrap().is_some_and(|message| message.len() == 100_000)
            );
            sent().iter().all(|bytes| *bytes > 300_000)
        });
        let mut next = 0;
        talk(&up, &down, &mut next, 200, || networks.change(Change::Remove(gone)));
        talk(&up, &down, &mut next, 200, || {});
        up.send(0, vec![7; 1_000_000]).unwrap();
        assert!(down.receive_timeout(0, PATIENCE).unwrap().is_some_and(|message| message.len() == 1_000_000));
        // It comes back, for the kernel as another device.
        networks.restore(gone);
        let before = sent();
        until("both carry again", || {
            up.send(0, vec![7; 100_000]).unwrap();
            assert!(
                down.receive_timeout(0, PATIENCE).unwrap().is_some_and(|message| message.len() == 100_000)
            );
            let paths = up.paths().unwrap();
            paths.len() == 2 && paths.iter().all(|path| path.carries) && sent()[gone] > before[gone] + 100_000
        });
        let is_end = |event: &Event| matches!(event, Event::Closed { .. } | Event::Connected { again: true });
        let mut seen = up.events();
        seen.extend(down.events());
        assert!(!seen.iter().any(is_end), "{seen:?}");
    }
}

#[test]
fn an_interface_that_is_not_there_yet_is_used_once_it_is() {
    let test = "an_interface_that_is_not_there_yet_is_used_once_it_is";
    let Some(networks) = Networks::make(test, 2) else { return };
    networks.change(Change::Remove(1));
    let name = near_device(1).0;
    until("it is gone", || {
        elsewhere(|| {
            networks.near.enter().unwrap();
            !glassline_io::nic::exists(&name)
        })
    });
    let summed = |name| Settings { bonding: Bonding::Sum, ..settings(name) };
    let (ground, air) = (networks.listen(summed("ground")), networks.open(summed("air"), &[0, 1]));
    let (up, down) = linked(&ground, &air);
    air.add_path(&up, 1, LISTENS_AT, None).unwrap();
    let mut next = 0;
    talk(&up, &down, &mut next, 100, || {});
    assert_eq!(up.paths().unwrap().len(), 1);
    networks.restore(1);
    until("it is a path", || up.paths().is_ok_and(|paths| paths.len() == 2));
    talk(&up, &down, &mut next, 100, || {});
}

#[test]
fn an_interface_that_goes_ends_a_link_that_has_no_other_and_both_ends_say_so() {
    let test = "an_interface_that_goes_ends_a_link_that_has_no_other_and_both_ends_say_so";
    let Some(networks) = Networks::make(test, 2) else { return };
    let once = Settings { reconnect: false, ..settings("air") };
    let at_once = Settings { resume: Duration::ZERO, ..settings("ground") };
    let (ground, air) = (networks.listen(at_once), networks.open(once, &[0]));
    let (up, down) = linked(&ground, &air);
    let mut next = 0;
    talk(&up, &down, &mut next, 20, || {});
    up.open(1, Options { receipts: true, ..Options::default() }).unwrap();
    networks.change(Change::Remove(0));
    let lost = up.send(1, vec![1; 100_000]).unwrap();
    let waiting = down.clone();
    let receiver = std::thread::spawn(move || waiting.receive(5));
    for link in [&up, &down] {
        let mut seen = Vec::new();
        until("the end", || {
            seen.extend(link.events());
            link.has_ended()
        });
        seen.extend(link.events());
        assert_eq!(link.close_reason(), Some(CloseReason::TimedOut));
        assert_eq!(seen.last(), Some(&Event::Closed { reason: CloseReason::TimedOut }), "{seen:?}");
        assert_eq!(link.try_send(0, vec![1]), Err(Error::Closed));
        let delivered = Event::Finished { channel: 1, message: lost, outcome: Outcome::Delivered };
        assert!(!seen.contains(&delivered), "{seen:?}");
    }
    assert_eq!(receiver.join().unwrap(), Err(Error::Closed), "who waits is told");
    // Neither end is the worse for it: the listener takes the next one, who comes by another interface.
    let again = networks.open(settings("air"), &[1]);
    let (up, down) = linked(&ground, &again);
    talk(&up, &down, &mut next, 20, || {});
}
