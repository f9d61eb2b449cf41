//! One datagram before decryption, cheap enough for many millions of them: whose is it, and what does it do to an end whose
//! link is up, to one that connects, and to listeners?
//!
//! The ends are kept, but no datagram of a stranger changes them: what fails fails again by itself. Only a Retry is
//! remembered by one who connects, who is made anew after some of them: that takes as long as a hundred other datagrams.

use glassline_media::Time;
use glassline_transport::link::secure::gate::{GATE, Gate};
use glassline_transport::link::wire::packet::{self, CONNECT_SIZE, Packet};
use glassline_transport::link::wire::parameters::Parameters;
use glassline_transport::link::{Credentials, Endpoint, Key, Path, Settings};
use std::cell::RefCell;

/// Takes the bytes: how the datagram is to be completed, so that it comes further than chance would bring it, and the
/// datagram. Panics, writing that reads as something else, ends that have changed, and answers larger than the question
/// fail.
pub fn run(data: &[u8]) {
    let Some((kind, bytes)) = data.split_first() else { return };
    check_packet(bytes);
    check_parameters(bytes);
    ENDS.with_borrow_mut(|ends| ends.handle(*kind, bytes));
}

thread_local! {
    static ENDS: RefCell<Ends> = RefCell::new(Ends::new());
}

const NOW: Time = Time::from_millis(10);
const KEY: [u8; 32] = [7; 32];
/// After how many Retries that reached it one who connects is made anew. It believes a few of them.
const RETRIES: u32 = 64;
/// Where strangers are.
const STRANGER: Path = path(66);

const fn path(last: u8) -> Path {
    let ip = std::net::Ipv4Addr::new(192, 0, 2, last);
    Path { remote: std::net::SocketAddr::new(std::net::IpAddr::V4(ip), 7000), via: 0 }
}

fn check_packet(bytes: &[u8]) {
    let Some(packet) = Packet::parse(bytes) else { return };
    let written = match packet {
        Packet::Data { to, key_phase, number } => {
            let mut header = Vec::new();
            packet::write_data_header(to, key_phase, u64::from(number), &mut header);
            assert_eq!(header, bytes[..header.len()]);
            return;
        }
        Packet::Connect(connect) => packet::write_connect(&connect, GATE),
        Packet::Accept { to, noise } => packet::write_accept(to, noise),
        Packet::Retry { to, token } => packet::write_retry(to, token),
        Packet::Reset { of, token } => packet::write_reset(of, token),
    };
    assert_eq!(Packet::parse(&written), Some(packet));
}

fn check_parameters(bytes: &[u8]) {
    let Some(parameters) = Parameters::parse(bytes) else { return };
    let mut written = Vec::new();
    parameters.write(&mut written);
    assert_eq!(Parameters::parse(&written), Some(parameters));
}

struct Ends {
    /// A link is up, and another one waits for its first data: who connects has to prove its address.
    listener: Endpoint,
    /// The other end of the link that is up.
    near: Endpoint,
    /// One who waits for an Accept.
    connecting: Endpoint,
    /// How many Retries may have reached it.
    retries: u32,
    /// Nobody is here: a Connect comes to Noise.
    idle: Endpoint,
    gate: Gate,
    /// The listener's IDs of the link that is up and of the one that waits; that of the one who connects.
    ids: [[u8; 8]; 3],
    datagram: Vec<u8>,
    copy: Vec<u8>,
    out: Vec<u8>,
}

fn settings(name: &[u8]) -> Settings {
    let reset_secret = Some(Key([9; 32]));
    Settings { name: name.to_vec(), reset_secret, ..Settings::new(Credentials::Shared(Key(KEY))) }
}

fn listener(seed: u8, retry_above: usize) -> Endpoint {
    Endpoint::new(Settings { listen: true, retry_above, ..settings(b"far") }, [seed; 32])
}

fn connecting() -> Endpoint {
    let mut end = Endpoint::new(settings(b"other"), [3; 32]);
    end.connect(NOW, path(2)).expect("there is room for a link");
    end
}

/// All that an end has to send, to the other one; the last datagram.
fn pass(end: &mut Endpoint, to: &mut Endpoint, from: Path) -> Vec<u8> {
    let (mut out, mut last) = (Vec::new(), Vec::new());
    while let Some(transmit) = end.poll_transmit(NOW, &mut out) {
        for datagram in out.chunks_mut(transmit.segment_bytes) {
            last = datagram.to_vec();
            to.handle_datagram(NOW, from, datagram);
        }
    }
    last
}

fn id(datagram: &[u8], at: usize) -> [u8; 8] {
    datagram[at..at + 8].try_into().expect("eight bytes")
}

impl Ends {
    fn new() -> Ends {
        let (mut far, mut near) = (listener(1, 1), Endpoint::new(settings(b"near"), [2; 32]));
        near.connect(NOW, path(2)).expect("there is room for a link");
        let mut up = Vec::new();
        for _ in 0..3 {
            let sent = pass(&mut near, &mut far, path(1));
            up = if sent.is_empty() { up } else { sent };
            pass(&mut far, &mut near, path(2));
        }
        let (mut late, mut nobody) = (Endpoint::new(settings(b"late"), [5; 32]), listener(6, 1));
        late.connect(NOW, path(2)).expect("there is room for a link");
        pass(&mut late, &mut far, path(3));
        pass(&mut far, &mut late, path(2));
        for end in [&mut far, &mut near] {
            while end.poll_event().is_some() {}
        }
        // Its first data goes elsewhere.
        let waits = pass(&mut late, &mut nobody, path(3));
        let (mut first, mut other) = (connecting(), connecting());
        let connect = pass(&mut other, &mut nobody, path(3));
        // It has sent its Connect: now it has nothing to say.
        pass(&mut first, &mut nobody, path(3));
        let ends = Ends {
            listener: far,
            near,
            connecting: first,
            retries: 0,
            idle: listener(4, 1),
            gate: Gate::new(&KEY),
            ids: [id(&up, 1), id(&waits, 1), id(&connect, 3)],
            datagram: Vec::new(),
            copy: Vec::new(),
            out: Vec::new(),
        };
        assert_eq!((ends.listener.links().count(), ends.listener.pending_handshakes()), (1, 1));
        ends
    }

    /// Makes the datagram: its kind and ID as they have to be, its gate closed, its size that of a Connect, or nothing of
    /// that.
    fn complete(&mut self, kind: u8, bytes: &[u8]) {
        let [up, waits, attempt] = &self.ids;
        let datagram = &mut self.datagram;
        datagram.clear();
        let phase = bytes.first().map_or(0, |first| first & 0x20);
        match kind % 8 {
            0 | 1 => {}
            2 => datagram.extend_from_slice(&[0x81, 1]),
            3 => datagram.extend([&[0x40 | phase][..], up].concat()),
            4 => datagram.extend([&[0x40 | phase][..], waits].concat()),
            5 => datagram.extend([&[0x82, 1][..], attempt].concat()),
            6 => datagram.extend([&[0x83, 1][..], attempt].concat()),
            _ => datagram.extend([&[0x84, 1][..], up].concat()),
        }
        datagram.extend_from_slice(bytes);
        if kind % 8 == 2 {
            datagram.resize(datagram.len().max(CONNECT_SIZE - GATE), 0);
        }
        if matches!(kind % 8, 1 | 2 | 6) {
            self.gate.close(datagram, [kind; 12]);
        }
    }

    fn handle(&mut self, kind: u8, bytes: &[u8]) {
        self.complete(kind, bytes);
        for end in [&mut self.listener, &mut self.near, &mut self.idle] {
            self.copy.clone_from(&self.datagram);
            end.handle_datagram(NOW, STRANGER, &mut self.copy);
            let mut answered = 0;
            while let Some(transmit) = end.poll_transmit(NOW, &mut self.out) {
                assert_eq!(transmit.path, STRANGER, "a stranger sets off something else");
                answered += transmit.bytes;
            }
            assert!(answered <= self.datagram.len(), "an answer larger than the question");
            assert_eq!(end.poll_event(), None);
        }
        assert_eq!((self.listener.links().count(), self.listener.pending_handshakes()), (1, 1));
        assert!(self.near.links().all(|(_, link)| link.is_up()));
        assert_eq!((self.idle.links().count(), self.idle.pending_handshakes()), (0, 0));
        self.connect(kind);
    }

    /// One who connects knows its listener's gate only: a Retry is believed, and its Connect repeated.
    fn connect(&mut self, kind: u8) {
        self.connecting.handle_datagram(NOW, STRANGER, &mut self.datagram);
        if let Some(transmit) = self.connecting.poll_transmit(NOW, &mut self.out) {
            assert!(transmit.path == path(2) && transmit.bytes == CONNECT_SIZE);
            assert!(matches!(kind % 8, 1 | 6), "sent without being asked by one who knows the gate");
        }
        self.retries += u32::from(matches!(kind % 8, 1 | 6));
        if self.retries >= RETRIES {
            self.retries = 0;
            self.connecting = connecting();
            self.connecting.poll_transmit(NOW, &mut self.out);
        }
        assert!(self.connecting.links().all(|(_, link)| !link.is_up() && !link.is_over()));
    }
}
