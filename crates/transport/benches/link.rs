//! What the link's core costs: two endpoints back to back in one thread, no socket between them; strangers' datagrams.
//! Both ends' work is counted together, by processor time: a core a side would do twice as much. Beside it stands what
//! the AEAD alone takes for datagrams of the same size.
//!
//! `cargo bench -p glassline-transport --bench link -- [SCALE] [WORD…]`: WORDs choose cases by name.
#![allow(clippy::unwrap_used, clippy::disallowed_types, clippy::disallowed_methods)]

use bytes::Bytes;
use glassline_media::Time;
use glassline_transport::link::{Compression, Credentials, Endpoint, Key, LinkId, Options, Path, Settings};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use std::hint::black_box;
use std::time::Duration;

const CHANNEL: u8 = 1;
const DATAGRAM: usize = 1452;
/// Turns without a message after which a run is over.
const MAX_IDLE: u32 = 100_000;

struct Pair {
    near: Endpoint,
    far: Endpoint,
    link: LinkId,
    now: Time,
    datagrams: u64,
    taken: u64,
    buffer: Vec<u8>,
}

fn path(last: u8) -> Path {
    Path { remote: ([192, 0, 2, last], 7000).into(), via: 0 }
}

fn settings() -> Settings {
    Settings { datagram_bytes: DATAGRAM as u16, ..Settings::new(Credentials::Shared(Key([7; 32]))) }
}

impl Pair {
    fn new(options: Options) -> Pair {
        let mut near = Endpoint::new(settings(), [1; 32]);
        let far = Endpoint::new(Settings { listen: true, ..settings() }, [2; 32]);
        let link = near.connect(Time::ZERO, path(2)).unwrap();
        let buffer = Vec::with_capacity(1 << 16);
        let mut pair = Pair { near, far, link, now: Time::ZERO, datagrams: 0, taken: 0, buffer };
        (0..6).for_each(|_| pair.turn());
        pair.near.link_mut(link).unwrap().open(CHANNEL, options).unwrap();
        pair
    }

    /// Hands over what each end has to send, one batch of the near one as over a socket, and takes what came; then
    /// 20 µs pass.
    fn turn(&mut self) {
        if let Some(transmit) = self.near.poll_transmit(self.now, &mut self.buffer) {
            for bytes in self.buffer.chunks_mut(transmit.segment_bytes) {
                self.far.handle_datagram(self.now, path(1), bytes);
                self.datagrams += 1;
            }
            self.take();
        }
        while let Some(transmit) = self.far.poll_transmit(self.now, &mut self.buffer) {
            for bytes in self.buffer.chunks_mut(transmit.segment_bytes) {
                self.near.handle_datagram(self.now, path(2), bytes);
            }
        }
        while self.near.poll_event().is_some() || self.far.poll_event().is_some() {}
        self.now += Duration::from_micros(20);
        for end in [&mut self.near, &mut self.far] {
            if end.poll_timeout().is_some_and(|due| due <= self.now) {
                end.handle_timeout(self.now);
            }
        }
    }

    fn take(&mut self) {
        let Some(id) = self.far.links().next().map(|link| link.0) else { return };
        let link = self.far.link_mut(id).unwrap();
        self.taken += std::iter::from_fn(|| link.receive(CHANNEL)).count() as u64;
    }
}

/// Processor time of this thread, seconds: the first number of its `schedstat`, nanoseconds.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
}

/// Bytes that no compression makes fewer.
fn noise(size: usize) -> Bytes {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..size).map(|_| next()).collect()
}

/// Sends `count` messages of `size` bytes; prints what they took.
fn run(name: &str, size: usize, count: u64, options: Options) {
    let mut pair = Pair::new(options);
    let message = noise(size);
    let (mut sent, begin) = (0, cpu_seconds());
    let (mut idle, mut turns) = (0, 0u64);
    while pair.taken < count && idle < MAX_IDLE {
        let now = pair.now;
        let link = pair.near.link_mut(pair.link).unwrap();
        while sent < count && link.send(now, CHANNEL, message.clone()).is_ok() {
            sent += 1;
        }
        let before = pair.taken;
        pair.turn();
        turns += 1;
        idle = if pair.taken == before { idle + 1 } else { 0 };
    }
    let seconds = cpu_seconds() - begin;
    let bytes = pair.taken as f64 * size as f64;
    println!(
        "{name}: {:.3} GB/s, {:.2} M messages/s, {:.2} M datagrams/s, {:.2} CPU-s/GB for both ends, {} of {count} \
         came, {turns} turns",
        bytes / seconds / 1e9,
        pair.taken as f64 / seconds / 1e6,
        pair.datagrams as f64 / seconds / 1e6,
        seconds / bytes * 1e9,
        pair.taken,
    );
}

/// The AEAD alone: seals and opens datagrams.
fn aead(count: u64) {
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &[7; 16]).unwrap());
    let mut buffer = vec![0x5A; DATAGRAM];
    let begin = cpu_seconds();
    for number in 0..count {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&number.to_be_bytes());
        let (header, text) = buffer.split_at_mut(13);
        let length = text.len() - 16;
        let aad = Aad::from(&*header);
        let tag = key
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), aad, &mut text[..length])
            .unwrap();
        text[length..].copy_from_slice(tag.as_ref());
        key.open_in_place(Nonce::assume_unique_for_key(nonce), aad, black_box(text)).unwrap();
    }
    let seconds = cpu_seconds() - begin;
    let bytes = (count * DATAGRAM as u64) as f64;
    println!(
        "AEAD alone: {:.3} GB/s, {:.2} CPU-s/GB for both ends",
        bytes / seconds / 1e9,
        seconds / bytes * 1e9
    );
}

/// Datagrams of somebody who knows no key; `make` writes the number-th.
fn strangers(name: &str, count: u64, make: impl Fn(u64, &mut [u8])) {
    let mut listener = Endpoint::new(Settings { listen: true, ..settings() }, [2; 32]);
    let mut datagram = vec![0x5A; 1200];
    let mut out = Vec::new();
    let begin = cpu_seconds();
    for number in 0..count {
        make(number, &mut datagram);
        listener.handle_datagram(Time::from_nanos(number * 1000), path(1), &mut datagram);
        assert_eq!(listener.poll_transmit(Time::from_nanos(number * 1000), &mut out), None);
    }
    let seconds = cpu_seconds() - begin;
    assert_eq!(listener.counters().strangers, count);
    println!("{name}: {:.2} M/s turned away", count as f64 / seconds / 1e6);
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let scale: u64 = arguments.iter().filter_map(|argument| argument.parse().ok()).next().unwrap_or(1);
    let words: Vec<_> = arguments.iter().filter(|argument| argument.parse::<u64>().is_err()).collect();
    let wants = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word.as_str()));
    let reliable = Options { queue: 1 << 14, queue_bytes: 64 << 20, ..Options::default() };
    let small = Options { max_size: 1 << 16, ..reliable };
    let unreliable = Options { reliable: false, ..small };
    let packed = |options| Options { compression: Compression::Zstd, ..options };
    if wants("AEAD") {
        aead(500_000 * scale);
    }
    for (name, size, count, options) in [
        ("16 MiB reliable", 16 << 20, 30, reliable),
        ("16 MiB reliable, zstd on noise", 16 << 20, 30, packed(reliable)),
        ("1200 B reliable", 1200, 400_000, small),
        ("1200 B reliable, zstd on noise", 1200, 400_000, packed(small)),
        ("200 B reliable", 200, 2_000_000, small),
        ("200 B unreliable", 200, 2_000_000, unreliable),
    ] {
        if wants(name) {
            run(name, size, count * scale, options);
        }
    }
    if wants("strangers") {
        strangers("strangers with an unknown ID", 1_000_000 * scale, |number, datagram| {
            datagram[0] = 0x40;
            datagram[1..9].copy_from_slice(&number.to_be_bytes());
        });
        strangers("strangers at a closed gate", 1_000_000 * scale, |number, datagram| {
            // As a Connect but for its gate: an empty token, Noise of 48 bytes.
            datagram[..3].copy_from_slice(&[0x81, 1, 0]);
            datagram[3..11].copy_from_slice(&number.to_be_bytes());
            datagram[11..14].copy_from_slice(&[0, 0, 48]);
        });
    }
}
