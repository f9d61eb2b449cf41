//! A hostile peer of a link, before and after decryption: the first byte chooses. Before: datagrams that anybody can
//! send, some of them begun as a real one. After: frames of a peer that holds the keys.

use glassline_media::Time;
use glassline_transport::link::wire::frame::Frame;
use glassline_transport::link::wire::packet::Packet;
use glassline_transport::link::wire::parameters::Parameters;
use glassline_transport::link::wire::varint::Reader;
use glassline_transport::link::{Credentials, Endpoint, Key, Options, Path, Settings};
use std::cell::RefCell;
use std::time::Duration;

/// Takes the bytes. Only panics, endless loops, broken bounds and answers to strangers fail.
pub fn run(data: &[u8]) {
    let Some((kind, data)) = data.split_first() else { return };
    let _ = Parameters::parse(data);
    match kind % 2 {
        0 => before(data),
        _ => after(data),
    }
}

fn path(last: u8) -> Path {
    Path { remote: ([192, 0, 2, last], 7000).into(), via: 0 }
}

thread_local! {
    /// Strangers change nothing, so one listener does for all of them.
    static LISTENER: RefCell<(Vec<u8>, Endpoint)> = RefCell::new(linked());
}

/// Datagrams, each behind two bytes of its length, to a listener whose link is up.
fn before(data: &[u8]) {
    LISTENER.with_borrow_mut(|(template, far)| strangers(template, far, data));
}

fn strangers(template: &[u8], far: &mut Endpoint, data: &[u8]) {
    let now = Time::from_millis(10);
    let mut out = Vec::new();
    let mut rest = data;
    while let [high, low, tail @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high % 8, *low])).min(tail.len());
        let (bytes, tail) = tail.split_at(length);
        rest = tail;
        let mut datagram = bytes.to_vec();
        if high & 0x80 != 0 {
            // A recorded datagram with some bytes changed.
            datagram = template.to_vec();
            for pair in bytes.chunks_exact(2) {
                let at = usize::from(pair[0]) % datagram.len();
                datagram[at] ^= pair[1];
            }
        }
        let _ = Packet::parse(&datagram);
        far.handle_datagram(now, path(66), &mut datagram);
        while let Some(transmit) = far.poll_transmit(now, &mut out) {
            assert!(transmit.path != path(66), "an answer to a stranger");
        }
    }
    assert!(far.links().count() == 1 && far.pending_handshakes() == 0);
}

/// Frames in packets of a peer that keeps no rule.
fn after(data: &[u8]) {
    let mut reader = Reader::new(data);
    while !reader.is_empty() {
        let Some(frame) = Frame::parse(&mut reader) else { break };
        if let Frame::Ack(ack) = frame {
            assert!(ack.ranges().count() <= 32);
        }
    }
    let settings = Settings { listen: true, ..Settings::new(Credentials::Shared(Key([7; 32]))) };
    let (mut far, id) = Endpoint::linked_for_fuzzing(settings, Time::ZERO, path(1));
    let mut now = Time::from_millis(20);
    let mut out = Vec::new();
    if let Some(link) = far.link_mut(id) {
        for channel in 0..4u8 {
            let options = Options { reliable: channel % 2 == 0, ordered: channel < 2, ..Options::default() };
            let _ = link.open(channel, options);
            let _ = link.send(now, channel, vec![channel; 3000]);
        }
    }
    for chunk in data.chunks(200) {
        now += Duration::from_millis(u64::from(chunk[0]));
        let Some(link) = far.link_mut(id) else { return };
        link.handle_frames(now, path(1), chunk);
        while far.poll_transmit(now, &mut out).is_some() {}
        let Some(link) = far.link_mut(id) else { return };
        (0..4).for_each(|channel| drop(link.receive(channel)));
        assert!(link.held_bytes().1 <= 64 * (2 * (32 << 20) + (16 << 20)));
        // As an engine does it: what is due, then what that and the application have given to send.
        far.handle_timeout(now);
        while far.poll_transmit(now, &mut out).is_some() {}
        assert!(far.next_timeout() > now, "a deadline that has passed is answered");
    }
}

/// The last datagram of one who connects, and the listener, whose link is up.
fn linked() -> (Vec<u8>, Endpoint) {
    let settings = Settings::new(Credentials::Shared(Key([7; 32])));
    let mut far = Endpoint::new(Settings { listen: true, ..settings.clone() }, [1; 32]);
    let mut near = Endpoint::new(settings, [2; 32]);
    let (mut out, mut last) = (Vec::new(), Vec::new());
    let _ = near.connect(Time::ZERO, path(2));
    for _ in 0..3 {
        while let Some(transmit) = near.poll_transmit(Time::ZERO, &mut out) {
            last = out.clone();
            out.chunks_mut(transmit.segment_bytes)
                .for_each(|bytes| far.handle_datagram(Time::ZERO, path(1), bytes));
        }
        while let Some(transmit) = far.poll_transmit(Time::ZERO, &mut out) {
            out.chunks_mut(transmit.segment_bytes)
                .for_each(|bytes| near.handle_datagram(Time::ZERO, path(2), bytes));
        }
    }
    (last, far)
}
