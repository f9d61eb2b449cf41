//! Links whose peer holds the keys and keeps no rule: frames as a link writes them, with numbers that are wrong in all ways, and
//! bytes of frames that are changed after that.

use crate::mutate::{Dice, mutate};
use glassline_media::Time;
use glassline_transport::link::fuzzing::Linked;
use glassline_transport::link::wire::frame::{Data, Frame, Parity, write_ack};
use glassline_transport::link::wire::row::write_row_head;
use glassline_transport::link::{Compression, Credentials, Fec, Options, Path, Settings};
use std::time::Duration;

/// Bytes of frames in a datagram.
const PACKET: usize = 1150;
/// Packets after which a link that still lives is replaced.
const LIFE: u64 = 2_000;
/// Packets that are remembered at most, beside what is under way.
const REMEMBERED: usize = 1 << 15;

pub(crate) struct World {
    dice: Dice,
    victim: Victim,
    /// The packet before, of which parts come again.
    before: Vec<u8>,
    out: Vec<u8>,
}

struct Victim {
    linked: Linked,
    now: Time,
    budget: u64,
    /// Packets that it has sent: their numbers are those below.
    sent: u64,
    age: u64,
    /// About where the numbers of messages are, by channel.
    next: [u64; 4],
    max_size: u32,
}

fn path() -> Path {
    Path { remote: ([192, 0, 2, 1], 7000).into(), via: 0 }
}

fn options(dice: &mut Dice, max_size: u32) -> Options {
    let reliable = dice.once_in(2);
    Options {
        reliable,
        ordered: dice.once_in(2),
        max_size,
        compression: [Compression::None, Compression::Deflate, Compression::Zstd][dice.below(3)],
        max_receive_time: dice.once_in(2).then(|| Duration::from_millis(dice.next() % 100)),
        fec: if reliable || dice.once_in(2) { Fec::Never } else { Fec::Always(30) },
        newest: dice.once_in(4),
        receipts: dice.once_in(2),
        ..Options::default()
    }
}

impl Victim {
    fn new(dice: &mut Dice) -> Victim {
        let window_bytes = 1 << (10 + dice.below(8));
        let idle = Duration::from_secs(3600);
        let base = Settings::new(Credentials::Insecure);
        let settings = Settings { listen: true, window_bytes, link_bytes: 8 * window_bytes, idle, ..base };
        let (now, max_size) = (Time::from_millis(20), 1 << dice.below(14));
        let budget = settings.link_bytes;
        let mut linked = Linked::new(settings, Time::ZERO, path());
        for channel in 0..3 {
            let options = options(dice, 1 << 14);
            linked.link().open(channel, options).unwrap();
        }
        Victim { linked, now, budget, sent: 0, age: 0, next: [0; 4], max_size }
    }
}

impl World {
    pub(crate) fn new(seed: u64) -> World {
        let mut dice = Dice::new(!seed);
        let victim = Victim::new(&mut dice);
        World { dice, victim, before: Vec::new(), out: Vec::new() }
    }

    /// Sends so many packets.
    pub(crate) fn run(&mut self, datagrams: u64) {
        for _ in 0..datagrams {
            if self.victim.linked.link().is_over() || self.victim.age >= LIFE {
                self.victim = Victim::new(&mut self.dice);
            }
            self.attack();
        }
    }

    fn attack(&mut self) {
        let mut packet = Vec::with_capacity(PACKET);
        for _ in 0..=self.dice.below(4) {
            self.frame(&mut packet);
        }
        // One in four is as it was written, so that links live long enough to come into states.
        if self.victim.age > 0 && self.dice.once_in(4) {
            mutate(&mut self.dice, &mut packet, &self.before);
        }
        let (dice, victim) = (&mut self.dice, &mut self.victim);
        victim.age += 1;
        victim.now += Duration::from_micros(dice.next() % if dice.once_in(30) { 300_000 } else { 3_000 });
        let now = victim.now;
        victim.linked.link().handle_unsealed(now, path(), &packet);
        self.before = packet;
        if dice.once_in(4) {
            let bytes = vec![victim.age as u8; dice.below(3_000)];
            let _ = victim.linked.link().send(now, dice.below(3) as u8, bytes);
        }
        if dice.once_in(3) {
            let link = victim.linked.link();
            for channel in 0..4 {
                (0..dice.below(8)).for_each(|_| drop(link.receive(channel)));
            }
            while link.poll_event().is_some() {}
        }
        victim.linked.handle_timeout(now);
        let mut batches = 0;
        while let Some(transmit) = victim.linked.poll_transmit(now, &mut self.out) {
            victim.sent += self.out.chunks(transmit.segment_bytes).len() as u64;
            batches += 1;
            assert!(batches < 1000, "it sends without end");
        }
        let over = victim.linked.link().is_over();
        assert!(
            over || victim.linked.poll_timeout().is_none_or(|due| due > now),
            "a deadline that has passed"
        );
        let link = victim.linked.link();
        // A packet is counted once it has been handled.
        let held = link.held_bytes().1;
        assert!(held <= victim.budget + 2 * PACKET as u64, "{held} bytes are held, of {}", victim.budget);
        assert!(
            link.remembered_packets() <= 2 * REMEMBERED,
            "{} packets remembered",
            link.remembered_packets()
        );
    }

    /// Appends a frame, whose numbers are near what the link expects, or odd.
    fn frame(&mut self, packet: &mut Vec<u8>) {
        let (dice, victim) = (&mut self.dice, &mut self.victim);
        let channel = dice.below(4) as u8;
        let next = victim.next[usize::from(channel)];
        let message = match dice.below(16) {
            0 => dice.odd_number() & ((1 << 62) - 1),
            1 => next.saturating_sub(dice.next() % 4),
            2 | 3 => next + dice.next() % 8,
            _ => next,
        };
        let room = PACKET.saturating_sub(packet.len());
        let size =
            dice.below(room.clamp(1, 300)).min(victim.max_size as usize + usize::from(dice.once_in(64)));
        let bytes = vec![message as u8; size];
        let data = Data { channel, message, total: size as u32, offset: 0, bytes: &bytes };
        let advance = &mut victim.next[usize::from(channel)];
        match dice.below(16) {
            0 => {
                let options = options(dice, victim.max_size).on_the_wire();
                Frame::Open { channel, options }.write(packet);
            }
            1 | 2 => {
                *advance = (*advance).max(message.saturating_add(1)) & ((1 << 61) - 1);
                Frame::Data(data).write(packet);
            }
            3 => Frame::Packed(data).write(packet),
            4 | 5 => {
                let total = (size as u64 + dice.odd_number()).clamp(1, 1 << 24) as u32;
                let offset = dice.odd_number() as u32 % total;
                let length = size.min((total - offset) as usize).max(usize::from(size > 0));
                let part = Data { total, offset, bytes: &bytes[..length.min(bytes.len())], ..data };
                Frame::Data(part).write(packet);
                *advance += u64::from(dice.once_in(2));
            }
            6 => {
                let total = (size as u64 + dice.odd_number()).clamp(1, 1 << 24) as u32;
                let count = (dice.odd_number() % 64).max(1) as u32;
                let index = dice.odd_number() as u32 % count;
                let packed = dice.once_in(4);
                Frame::Parity(Parity { channel, message, packed, total, count, index, bytes: &bytes })
                    .write(packet);
            }
            7 | 8 => {
                let lengths: Vec<usize> = (0..1 + dice.below(12))
                    .map(|_| {
                        dice.below(victim.max_size.min(80) as usize + 1) + usize::from(dice.once_in(200))
                    })
                    .collect();
                write_row_head(channel, message, lengths.iter().copied(), packet);
                packet.resize(packet.len() + lengths.iter().sum::<usize>(), message as u8);
                *advance = (*advance).max(message.saturating_add(lengths.len() as u64)) & ((1 << 61) - 1);
            }
            9 | 10 => {
                let largest = victim.sent.saturating_sub(1 + dice.next() % 4);
                let low = largest.saturating_sub(dice.next() % 20);
                let (delay, at) = (dice.odd_number(), victim.now.as_nanos() / 1000 + dice.next() % 50_000);
                let arrival = if dice.once_in(2) { dice.odd_number() } else { 80_000 };
                if victim.sent > 0 {
                    let at = if dice.once_in(8) { dice.odd_number() } else { at };
                    write_ack([(low, largest)].into_iter(), delay, at, arrival, packet);
                }
            }
            11 => Frame::Cancel { channel, message }.write(packet),
            12 => Frame::Skipped { channel, message }.write(packet),
            13 => Frame::Consumed { channel, next: message }.write(packet),
            14 => {
                let (ect1, ect0, ce) = (dice.odd_number(), dice.odd_number(), dice.odd_number());
                Frame::Marks { ect1, ect0, ce }.write(packet);
            }
            _ => match dice.below(4) {
                0 => Frame::Ping.write(packet),
                1 => Frame::Grace(dice.odd_number()).write(packet),
                2 => Frame::Challenge(dice.next().to_be_bytes()).write(packet),
                _ => Frame::Response(dice.next().to_be_bytes()).write(packet),
            },
        }
    }
}
