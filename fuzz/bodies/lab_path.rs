//! A measurement of a line with a peer that holds the key and sends anything: no end sends more in a second than it may, nothing
//! goes to another address, and a caller ends in time.
//!
//! Of each step the first byte says for which end the message is, the second how many bytes of the input belong to it, and the
//! third how many milliseconds pass.

use glassline_lab::path::wire::{End, Message, OpeningKey, SessionKey, parse_untagged};
use glassline_lab::path::{Caller, CallerSettings, Listener, ListenerSettings, Transmit};
use glassline_media::Time;
use glassline_transport::link::Key;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

const MAX_BPS: u64 = 2_000_000;
const NONCE: [u8; 16] = [5; 16];
const TOKEN: [u8; 36] = [6; 36];

/// What an end has sent in the last second.
#[derive(Default)]
struct Sent {
    recent: VecDeque<(Time, u64)>,
    sum: u64,
}

impl Sent {
    fn add(&mut self, now: Time, transmit: &Transmit, to: SocketAddr) {
        assert_eq!(transmit.to, to);
        let datagrams = transmit.bytes.len().div_ceil(transmit.segment_bytes) as u64;
        let bytes = transmit.bytes.len() as u64 + 28 * datagrams;
        self.recent.push_back((now, bytes));
        self.sum += bytes;
        while let Some((_, old)) =
            self.recent.front().filter(|(at, _)| now.since(*at) >= Duration::from_secs(1))
        {
            self.sum -= old;
            self.recent.pop_front();
        }
        assert!(self.sum * 8 <= MAX_BPS, "{} bytes in a second", self.sum);
    }
}

/// Takes the bytes.
pub fn run(data: &[u8]) {
    let (near, far): (SocketAddr, SocketAddr) = (([192, 0, 2, 1], 1).into(), ([192, 0, 2, 2], 2).into());
    let key = Key([1; 32]);
    let opening = OpeningKey::new(&key);
    let mut now = Time::from_millis(1);
    // A listener that a caller of ours has begun a session with.
    let mut listener = Listener::new(ListenerSettings { key: key.clone(), max_bps: MAX_BPS, seed: [2; 32] });
    listener.handle_datagram(now, now, near, &opening.seal(&Message::Hello { caller: NONCE }, [1; 12]));
    let challenge = listener.poll_transmit(now).and_then(|transmit| opening.open(&transmit.bytes));
    let Some(Message::Challenge { token, .. }) = challenge else { panic!("a Hello is answered") };
    let start = Message::Start { caller: NONCE, token, max_bps: u64::MAX, duration_ms: 60_000 };
    listener.handle_datagram(now, now, near, &opening.seal(&start, [2; 12]));
    while listener.poll_transmit(now).is_some() {}
    let mut to_listener = SessionKey::new(&key, &NONCE, &token, End::Caller);
    // A caller that a listener of ours has answered.
    let duration = Duration::from_secs(6);
    let mut caller = Caller::new(CallerSettings {
        key: key.clone(),
        listener: far,
        max_bps: MAX_BPS,
        duration,
        seed: [3; 32],
    });
    let hello = caller.poll_transmit(now).and_then(|transmit| opening.open(&transmit.bytes));
    let Some(Message::Hello { caller: nonce }) = hello else { panic!("it begins with a Hello") };
    let answers = [
        Message::Challenge { caller: nonce, token: TOKEN },
        Message::Accept { caller: nonce, max_bps: MAX_BPS },
    ];
    for answer in &answers {
        caller.handle_datagram(now, now, far, &opening.seal(answer, [3; 12]));
        caller.poll_transmit(now);
    }
    let mut to_caller = SessionKey::new(&key, &nonce, &TOKEN, End::Listener);
    let (mut by_listener, mut by_caller) = (Sent::default(), Sent::default());
    let began = now;
    let mut rest = data;
    while let Some((&[for_caller, count, millis], behind)) = rest.split_first_chunk() {
        let (taken, behind) = behind.split_at(usize::from(count).min(behind.len()));
        rest = behind;
        let until = now + Duration::from_millis(millis.into());
        if let Some(message) = parse_untagged(taken) {
            let mut datagram = Vec::new();
            if for_caller % 2 == 1 {
                to_caller.seal(&message, 0, &mut datagram);
                caller.handle_datagram(now, now, far, &datagram);
            } else {
                to_listener.seal(&message, 0, &mut datagram);
                listener.handle_datagram(now, now, near, &datagram);
            }
        }
        caller.handle_datagram(now, now, far, taken);
        listener.handle_datagram(now, now, near, taken);
        for _ in 0..4_000 {
            while let Some(transmit) = caller.poll_transmit(now) {
                by_caller.add(now, &transmit, far);
            }
            while let Some(transmit) = listener.poll_transmit(now) {
                by_listener.add(now, &transmit, near);
            }
            let next = [caller.poll_timeout(now), listener.poll_timeout(now)].into_iter().flatten().min();
            if now >= until {
                break;
            }
            now = next.unwrap_or(until).clamp(now, until).max(now + Duration::from_micros(1));
        }
        assert!(caller.is_over() || now.since(began) < duration + Duration::from_secs(1));
    }
    let report = caller.report();
    assert!(
        report
            .up
            .bursts
            .iter()
            .chain(&report.down.bursts)
            .all(|burst| burst.arrived <= usize::from(burst.packets))
    );
    report.table();
}
