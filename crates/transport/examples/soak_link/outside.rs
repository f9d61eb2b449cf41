//! Endpoints between which a stranger sits, who has recorded all that passed and sends it changed, again, or out of its order.

use crate::mutate::{Dice, mutate};
use glassline_media::Time;
use glassline_transport::link::secure::gate::Gate;
use glassline_transport::link::wire::packet::Packet;
use glassline_transport::link::{Credentials, Endpoint, Event, Key, LinkId, Options, Path, Settings};
use std::collections::VecDeque;
use std::time::Duration;

const KEY: [u8; 32] = [7; 32];
/// Datagrams that the stranger has recorded.
const RECORDED: usize = 512;
/// Datagrams that are held back, so that others overtake them.
const HELD_BACK: usize = 16;
/// After so many mutated datagrams the peer begins anew, with a handshake.
const LIFE: u64 = 50_000;
/// What a message's number is more by than one of the peer before.
const GENERATION: u64 = 1 << 32;
const RELIABLE: u8 = 1;
const QUICK: u8 = 2;

pub(crate) struct World {
    dice: Dice,
    now: Time,
    near: Endpoint,
    far: Endpoint,
    link: LinkId,
    gate: Gate,
    recorded: VecDeque<Vec<u8>>,
    late: Vec<(bool, Vec<u8>)>,
    age: u64,
    /// The last reliable message that was sent, and the last that came: which peer's in the high half, its number from 1 in
    /// the low one.
    sent: u64,
    came: u64,
    /// Sessions of this peer that ended before it did: the listener had made room for others before the first data came. What
    /// was under way is lost with one, and what comes then is not the next message.
    ended: u32,
    out: Vec<u8>,
}

fn path(last: u8) -> Path {
    Path { remote: ([192, 0, 2, last], 7000).into(), via: 0 }
}

fn settings() -> Settings {
    Settings { reset_secret: Some(Key([9; 32])), ..Settings::new(Credentials::Shared(Key(KEY))) }
}

fn seed(dice: &mut Dice) -> [u8; 32] {
    std::array::from_fn(|_| dice.next() as u8)
}

fn connect(dice: &mut Dice, now: Time) -> (Endpoint, LinkId) {
    let mut near = Endpoint::new(Settings { name: b"near".to_vec(), ..settings() }, seed(dice));
    let id = near.connect(now, path(2)).unwrap();
    let link = near.link_mut(id).unwrap();
    link.open(RELIABLE, Options::default()).unwrap();
    link.open(QUICK, Options { reliable: false, ordered: false, ..Options::default() }).unwrap();
    (near, id)
}

impl World {
    pub(crate) fn new(seed_number: u64) -> World {
        let (mut dice, now) = (Dice::new(seed_number), Time::from_millis(10));
        let far = Endpoint::new(Settings { listen: true, ..settings() }, seed(&mut dice));
        let (near, link) = connect(&mut dice, now);
        World {
            dice,
            now,
            near,
            far,
            link,
            gate: Gate::new(&KEY),
            recorded: VecDeque::new(),
            late: Vec::new(),
            age: 0,
            sent: GENERATION,
            came: 0,
            ended: 0,
            out: Vec::new(),
        }
    }

    /// Sends so many mutated datagrams, and lets the honest ends do what they do meanwhile.
    pub(crate) fn run(&mut self, datagrams: u64) {
        for number in 0..datagrams {
            if number % 8 == 0 {
                self.turn();
            }
            self.attack();
        }
        self.check();
    }

    /// A turn of the honest ends: messages, what is due, what came.
    fn turn(&mut self) {
        self.now += Duration::from_micros(200 + self.dice.next() % 2000);
        if self.age >= LIFE {
            assert!(self.came / GENERATION == self.sent / GENERATION, "no message of this peer has come");
            (self.near, self.link) = connect(&mut self.dice, self.now);
            self.ended = 0;
            (self.age, self.sent) = (0, (self.sent / GENERATION + 1) * GENERATION);
            self.late.clear();
        }
        let most = if self.dice.once_in(50) { 20_000 } else { 600 };
        let size = 8 + self.dice.below(most);
        let channel = if self.dice.once_in(3) { QUICK } else { RELIABLE };
        if let Some(link) = self.near.link_mut(self.link)
            && link.is_up()
        {
            let number = self.sent + 1;
            let mut message = number.to_be_bytes().to_vec();
            message.resize(size, number as u8);
            if link.send(self.now, channel, message).is_ok() && channel == RELIABLE {
                self.sent = number;
            }
        }
        for is_near in [true, false] {
            let end = if is_near { &mut self.near } else { &mut self.far };
            if end.poll_timeout().is_some_and(|due| due <= self.now) {
                end.handle_timeout(self.now);
            }
            let mut count = 0;
            while let Some(transmit) =
                (if is_near { &mut self.near } else { &mut self.far }).poll_transmit(self.now, &mut self.out)
            {
                count += 1;
                assert!(count < 1000, "an end sends without end");
                let out = std::mem::take(&mut self.out);
                if transmit.path == path(if is_near { 2 } else { 1 }) {
                    out.chunks(transmit.segment_bytes).for_each(|datagram| self.pass(is_near, datagram));
                }
                self.out = out;
            }
        }
        while let Some((_, event)) = self.near.poll_event() {
            self.ended += u32::from(event == Event::Connected { again: true });
        }
        while self.far.poll_event().is_some() {}
        self.take();
    }

    /// A datagram on its way: recorded, and now and then overtaken by others.
    fn pass(&mut self, from_near: bool, datagram: &[u8]) {
        if self.recorded.len() >= RECORDED {
            self.recorded.pop_front();
        }
        self.recorded.push_back(datagram.to_vec());
        if self.dice.once_in(20) && self.late.len() < HELD_BACK {
            self.late.push((from_near, datagram.to_vec()));
        } else {
            self.deliver(from_near, datagram.to_vec());
        }
        if self.dice.once_in(20) && !self.late.is_empty() {
            let (from_near, datagram) = self.late.swap_remove(self.dice.below(self.late.len()));
            self.deliver(from_near, datagram);
        }
    }

    fn deliver(&mut self, from_near: bool, mut datagram: Vec<u8>) {
        if from_near {
            self.far.handle_datagram(self.now, path(1), &mut datagram);
        } else {
            self.near.handle_datagram(self.now, path(2), &mut datagram);
        }
    }

    /// What came is what was sent.
    fn take(&mut self) {
        let ids: Vec<LinkId> = self.far.links().map(|link| link.0).collect();
        for id in ids {
            let link = self.far.link_mut(id).unwrap();
            while let Some(message) = link.receive(RELIABLE) {
                let (number, rest) = message.split_first_chunk::<8>().unwrap();
                let number = u64::from_be_bytes(*number);
                let begins = number % GENERATION == 1 && number / GENERATION > self.came / GENERATION;
                if !begins && number != self.came + 1 {
                    assert!(number > self.came, "{number:x} behind {:x}", self.came);
                    let ended = self.ended.checked_sub(1);
                    self.ended =
                        ended.unwrap_or_else(|| panic!("{number:x} behind {:x}: one is missing", self.came));
                }
                assert!(rest.iter().all(|byte| *byte == number as u8), "a wrong byte");
                self.came = number;
            }
            while let Some(message) = link.receive(QUICK) {
                let (number, rest) = message.split_first_chunk::<8>().unwrap();
                let number = u64::from_be_bytes(*number);
                assert!(rest.iter().all(|byte| *byte == number as u8), "a wrong byte");
            }
        }
    }

    /// One datagram of the stranger, to either end, from its own address or the peer's.
    fn attack(&mut self) {
        self.age += 1;
        let Some(last) = self.recorded.len().checked_sub(1) else { return };
        let at = if self.dice.once_in(2) {
            last - self.dice.below(last + 1).min(8)
        } else {
            self.dice.below(last + 1)
        };
        let other = self.dice.below(last + 1);
        let mut datagram = self.recorded[at].clone();
        // Some are only sent again.
        if !self.dice.once_in(8) {
            let gated = Packet::is_gated(&datagram) && self.dice.once_in(2);
            let kept = datagram.len().saturating_sub(28);
            if gated {
                datagram.truncate(kept);
            }
            mutate(&mut self.dice, &mut datagram, &self.recorded[other]);
            if gated {
                // Its gate is right, as of one who knows the listener's key but is no peer.
                datagram.resize(datagram.len().max(1200 - 28), 0);
                let nonce = std::array::from_fn(|_| self.dice.next() as u8);
                self.gate.close(&mut datagram, nonce);
            }
        }
        let from = if self.dice.once_in(2) { path(66) } else { path(1) };
        if self.dice.once_in(2) {
            self.far.handle_datagram(self.now, from, &mut datagram);
        } else {
            self.near.handle_datagram(self.now, if from == path(1) { path(2) } else { from }, &mut datagram);
        }
    }

    fn check(&mut self) {
        let defaults = settings();
        for end in [&self.near, &self.far] {
            assert!(end.pending_handshakes() <= defaults.max_pending, "more handshakes than the limit");
            assert!(end.held_bytes() <= defaults.endpoint_bytes, "more memory than the budget");
            assert!(end.links().count() <= 2, "a stranger has made a link");
        }
    }
}
