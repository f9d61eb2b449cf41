//! What the link's core costs: two endpoints back to back in one thread, no socket between them. Both ends' work is
//! counted, so a core a side would do twice as much.
//!
//! `cargo bench -p glassline-transport --bench link`
#![allow(clippy::unwrap_used, clippy::disallowed_types, clippy::disallowed_methods)]

use bytes::Bytes;
use glassline_media::Time;
use glassline_transport::link::{Credentials, Endpoint, Key, LinkId, Options, Path, Settings};
use std::time::{Duration, Instant};

const CHANNEL: u8 = 1;

struct Pair {
    near: Endpoint,
    far: Endpoint,
    link: LinkId,
    now: Time,
    datagrams: u64,
    buffer: Vec<u8>,
}

fn path(last: u8) -> Path {
    Path { remote: ([192, 0, 2, last], 7000).into(), via: 0 }
}

impl Pair {
    fn new(options: Options) -> Pair {
        let settings = Settings { datagram_bytes: 1452, ..Settings::new(Credentials::Shared(Key([7; 32]))) };
        let mut near = Endpoint::new(settings.clone(), [1; 32]);
        let far = Endpoint::new(Settings { listen: true, ..settings }, [2; 32]);
        let link = near.connect(Time::ZERO, path(2)).unwrap();
        let mut pair =
            Pair { near, far, link, now: Time::ZERO, datagrams: 0, buffer: Vec::with_capacity(1 << 16) };
        (0..6).for_each(|_| pair.turn());
        pair.near.link_mut(link).unwrap().open(CHANNEL, options).unwrap();
        pair
    }

    /// Hands over what each end has to send; then 20 µs pass.
    fn turn(&mut self) {
        while let Some(transmit) = self.near.poll_transmit(self.now, &mut self.buffer) {
            for bytes in self.buffer.chunks_mut(transmit.segment_bytes) {
                self.far.handle_datagram(self.now, path(1), bytes);
                self.datagrams += 1;
            }
        }
        while let Some(transmit) = self.far.poll_transmit(self.now, &mut self.buffer) {
            for bytes in self.buffer.chunks_mut(transmit.segment_bytes) {
                self.near.handle_datagram(self.now, path(2), bytes);
            }
        }
        while self.near.poll_event().is_some() || self.far.poll_event().is_some() {}
        self.now += Duration::from_micros(20);
        for end in [&mut self.near, &mut self.far] {
            if end.next_timeout() <= self.now {
                end.handle_timeout(self.now);
            }
        }
    }

    fn take(&mut self) -> u64 {
        let Some(id) = self.far.links().next().map(|link| link.0) else { return 0 };
        let link = self.far.link_mut(id).unwrap();
        std::iter::from_fn(|| link.receive(CHANNEL)).count() as u64
    }
}

/// Sends `count` messages of `size` bytes; prints what they took.
fn run(name: &str, size: usize, count: u64, options: Options) {
    let mut pair = Pair::new(options);
    let message = Bytes::from(vec![0x5A; size]);
    let (mut sent, mut taken, begin) = (0, 0, Instant::now());
    let mut idle = 0;
    while taken < count && idle < 100_000 {
        let now = pair.now;
        let link = pair.near.link_mut(pair.link).unwrap();
        while sent < count && link.send(now, CHANNEL, message.clone()).is_ok() {
            sent += 1;
        }
        pair.turn();
        let more = pair.take();
        taken += more;
        idle = if more == 0 { idle + 1 } else { 0 };
    }
    let seconds = begin.elapsed().as_secs_f64();
    let bytes = taken as f64 * size as f64;
    println!(
        "{name}: {:.3} GB/s, {:.2} M messages/s, {:.2} M datagrams/s, {:.2} CPU-s/GB for both ends, {taken} of {count} came",
        bytes / seconds / 1e9,
        taken as f64 / seconds / 1e6,
        pair.datagrams as f64 / seconds / 1e6,
        seconds / bytes * 1e9,
    );
}

fn main() {
    let scale: u64 = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(1);
    let reliable = Options { queue: 1 << 14, queue_bytes: 64 << 20, ..Options::default() };
    run("16 MiB reliable", 16 << 20, 20 * scale, reliable);
    run("200 B reliable", 200, 1_000_000 * scale, reliable);
    run(
        "200 B unreliable",
        200,
        1_000_000 * scale,
        Options { reliable: false, max_size: 1 << 16, ..reliable },
    );
}
