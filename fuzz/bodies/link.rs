//! A link before decryption: what anybody can send to a listener whose link is up, and to one who is connecting. Some
//! datagrams begin as real ones do.
//!
//! Strangers change nothing, so the same two endpoints do for all inputs.

use glassline_media::Time;
use glassline_transport::link::wire::packet::Packet;
use glassline_transport::link::wire::parameters::Parameters;
use glassline_transport::link::{Credentials, Endpoint, Key, Path, Settings};
use std::cell::RefCell;

/// Takes the bytes: datagrams, each behind two bytes of its length, the highest bits of which choose a recorded one that
/// is changed. Only panics, endless loops, broken bounds and answers to strangers fail.
pub fn run(data: &[u8]) {
    let _ = Parameters::parse(data);
    ENDS.with_borrow_mut(|ends| ends.handle(data));
}

thread_local! {
    static ENDS: RefCell<Ends> = RefCell::new(Ends::new());
}

const NOW: Time = Time::from_millis(10);

struct Ends {
    listener: Endpoint,
    connecting: Endpoint,
    /// A Connect, the Accept that the one who connects waits for, data of the link that is up.
    recorded: [Vec<u8>; 3],
    out: Vec<u8>,
}

fn path(last: u8) -> Path {
    Path { remote: ([192, 0, 2, last], 7000).into(), via: 0 }
}

/// The last datagram that an end has to send.
fn last(end: &mut Endpoint, mut each: impl FnMut(&mut [u8])) -> Vec<u8> {
    let (mut out, mut last) = (Vec::new(), Vec::new());
    while let Some(transmit) = end.poll_transmit(NOW, &mut out) {
        last.clone_from(&out);
        out.chunks_mut(transmit.segment_bytes).for_each(&mut each);
    }
    last
}

impl Ends {
    fn new() -> Ends {
        let settings = |name: &[u8]| Settings {
            name: name.to_vec(),
            reset_secret: Some(Key([9; 32])),
            ..Settings::new(Credentials::Shared(Key([7; 32])))
        };
        let listen = || Settings { listen: true, ..settings(b"far") };
        let mut listener = Endpoint::new(listen(), [1; 32]);
        let mut near = Endpoint::new(settings(b"near"), [2; 32]);
        let _ = near.connect(NOW, path(2));
        let mut data = Vec::new();
        for _ in 0..3 {
            let sent = last(&mut near, |bytes| listener.handle_datagram(NOW, path(1), bytes));
            data = if sent.is_empty() { data } else { sent };
            last(&mut listener, |bytes| near.handle_datagram(NOW, path(2), bytes));
        }
        let mut connecting = Endpoint::new(settings(b"other"), [3; 32]);
        let _ = connecting.connect(NOW, path(2));
        let mut elsewhere = Endpoint::new(listen(), [4; 32]);
        let connect = last(&mut connecting, |bytes| elsewhere.handle_datagram(NOW, path(3), bytes));
        let accept = last(&mut elsewhere, |_| {});
        Ends { listener, connecting, recorded: [connect, accept, data], out: Vec::new() }
    }

    fn handle(&mut self, data: &[u8]) {
        let mut rest = data;
        while let [high, low, tail @ ..] = rest {
            let length = usize::from(u16::from_be_bytes([*high % 8, *low])).min(tail.len());
            let (bytes, tail) = tail.split_at(length);
            rest = tail;
            let recorded = match high >> 6 {
                0 => bytes.to_vec(),
                kind => self.changed(usize::from(kind) - 1, bytes),
            };
            if self.recorded.contains(&recorded) {
                continue;
            }
            let _ = Packet::parse(&recorded);
            self.send(&recorded);
        }
        assert!(self.listener.links().count() == 1 && self.listener.pending_handshakes() == 0);
        assert!(self.connecting.links().all(|(_, link)| !link.is_up() && !link.is_over()));
    }

    /// A recorded datagram with some of its bytes changed, or cut.
    fn changed(&self, kind: usize, changes: &[u8]) -> Vec<u8> {
        let mut datagram = self.recorded[kind].clone();
        for change in changes.chunks_exact(3) {
            let at = usize::from(u16::from_be_bytes([change[0], change[1]]));
            if at < datagram.len() {
                datagram[at] ^= change[2];
            } else if change[2] < 8 {
                datagram.truncate(at % datagram.len().max(1));
            }
        }
        datagram
    }

    fn send(&mut self, datagram: &[u8]) {
        for end in [&mut self.listener, &mut self.connecting] {
            let (came, mut datagram) = (datagram, datagram.to_vec());
            end.handle_datagram(NOW, path(66), &mut datagram);
            while let Some(transmit) = end.poll_transmit(NOW, &mut self.out) {
                let is_reset = is_reset_of(&self.out, came);
                assert!(transmit.path != path(66) || is_reset, "an answer to a stranger");
            }
        }
    }
}

/// Whether `sent` is the Reset of the ID that `came` is for, and smaller than it. An ID holds four bytes by which a listener
/// knows that it gave it out, before a restart maybe: one of 2³² is answered so, and the fuzzer, which sees what is compared,
/// finds one.
fn is_reset_of(sent: &[u8], came: &[u8]) -> bool {
    match (Packet::parse(sent), Packet::parse(came)) {
        (Some(Packet::Reset { of, .. }), Some(Packet::Data { to, .. })) => {
            of == to && sent.len() < came.len()
        }
        _ => false,
    }
}
