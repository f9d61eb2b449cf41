//! One direction of an emulated network, packet by packet.
//!
//! ```text
//! push ─► size, outage ─► queue ─► bottleneck ─► loss, duplicate ─► delay, jitter, reorder ─► poll
//!         dropped         dropped   service       dropped
//! ```
//! A link does nothing by itself: [`Link::push`] and [`Link::poll`] tell it what time it is, and whatever was due
//! before then happens in order, at its own time to the nanosecond, however late they come.

use super::bottleneck::Bottleneck;
use super::config::{ConfigError, LinkConfig, Loss, OutageEffect, Service, check_loss};
use super::event::{DropReason, Event};
use super::outage::Switch;
use super::packets::{Delivered, Flow};
use super::random::Random;
use super::record::Record;
use glassline_media::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// What has happened on a link since its start. `arrived + duplicated = delivered + dropped + held`, always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pushed.
    pub arrived: Flow,
    /// Served by the bottleneck.
    pub departed: Flow,
    /// Made by duplication.
    pub duplicated: Flow,
    /// At the link's end.
    pub delivered: Flow,
    /// Gone, by reason, in the order of [`DropReason::ALL`].
    pub dropped: [Flow; 5],
}

impl Counters {
    /// Gone for this reason.
    pub fn dropped_by(&self, reason: DropReason) -> Flow {
        self.dropped[reason as usize]
    }

    /// Gone for any reason.
    pub fn dropped(&self) -> Flow {
        let mut sum = Flow::default();
        self.dropped.iter().for_each(|flow| sum.add(flow.packets, flow.bytes));
        sum
    }
}

/// One direction of an emulated network. `T` is what a packet is to its user: bytes, or nothing at all.
///
/// ```
/// use glassline_media::Time;
/// use glassline_transport::emulator::{Link, LinkConfig};
/// use std::time::Duration;
///
/// // 1 Mbit/s: 1000 bytes take 8 ms, and then 20 ms to the end.
/// let config = LinkConfig::rate(1_000_000).with_delay(Duration::from_millis(20));
/// let mut link = Link::new(config, 1, Time::ZERO)?;
/// link.push(Time::ZERO, 1000, "a packet");
/// assert_eq!(link.poll_timeout(), Some(Time::from_millis(8)));
/// assert_eq!(link.poll(Time::from_millis(8)), None);
/// assert_eq!(link.poll_timeout(), Some(Time::from_millis(28)));
/// assert_eq!(link.poll(Time::from_millis(28)).unwrap().packet, "a packet");
/// # Ok::<(), glassline_transport::emulator::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Link<T> {
    config: LinkConfig,
    bottleneck: Bottleneck<T>,
    switch: Switch,
    way: Propagation<T>,
    counters: Counters,
    record: Record,
}

/// What lies behind the bottleneck.
#[derive(Clone, Debug)]
struct Propagation<T> {
    flying: BinaryHeap<Reverse<Flying<T>>>,
    flying_bytes: u64,
    order: u64,
    /// When the last one arrives that is not reordered: none that follows may arrive before.
    last: Time,
    is_bad: bool,
    loss: Random,
    jitter: Random,
    duplicate: Random,
    reorder: Random,
}

#[derive(Clone, Debug)]
struct Flying<T> {
    due: Time,
    order: u64,
    arrived: Time,
    bytes: u32,
    packet: T,
}

impl<T> Flying<T> {
    fn key(&self) -> (Time, u64) {
        (self.due, self.order)
    }
}

impl<T> PartialEq for Flying<T> {
    fn eq(&self, other: &Flying<T>) -> bool {
        self.key() == other.key()
    }
}
impl<T> Eq for Flying<T> {}
impl<T> PartialOrd for Flying<T> {
    fn partial_cmp(&self, other: &Flying<T>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Flying<T> {
    fn cmp(&self, other: &Flying<T>) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<T: Clone> Link<T> {
    /// The most bytes (the overhead counted) that a link holds: queue and way together. What comes beyond is dropped.
    pub const MAX_HELD_BYTES: u64 = 512 << 20;
    /// The most packets that a link holds.
    pub const MAX_HELD_PACKETS: usize = 1 << 20;

    /// A link that begins at `start`: its trace's zero is then, and its first outage counts from there. All chance in
    /// it follows from `seed`; loss, jitter, duplicates, reordering and outages draw from sequences of their own, so
    /// that a change of one leaves the others as they were.
    ///
    /// # Errors
    /// Where the configuration is out of its range.
    pub fn new(config: LinkConfig, seed: u64, start: Time) -> Result<Link<T>, ConfigError> {
        config.check()?;
        let stream = |number| Random::stream(seed, number);
        Ok(Link {
            bottleneck: Bottleneck::new(config.service.clone(), config.queue, start),
            switch: Switch::new(config.outages.times.clone(), stream(4), start),
            way: Propagation {
                flying: BinaryHeap::new(),
                flying_bytes: 0,
                order: 0,
                last: start,
                is_bad: false,
                loss: stream(0),
                jitter: stream(1),
                duplicate: stream(2),
                reorder: stream(3),
            },
            counters: Counters::default(),
            record: Record::default(),
            config,
        })
    }

    /// A packet of `bytes` comes at `now`. A time before the last one is taken as that.
    pub fn push(&mut self, now: Time, bytes: usize, packet: T) {
        self.advance(now);
        let now = self.now();
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).saturating_add(self.config.overhead_bytes);
        self.counters.arrived.add(1, bytes.into());
        self.record.add(Event::Arrival { at: now, bytes });
        let is_closed = !self.switch.is_on() && self.config.outages.effect == OutageEffect::Drop;
        let refused = if self.config.max_packet_bytes.is_some_and(|most| bytes > most) {
            Some(DropReason::Size)
        } else if is_closed {
            Some(DropReason::Outage)
        } else if !self.has_room(bytes) {
            Some(DropReason::Memory)
        } else {
            None
        };
        if let Some(reason) = refused {
            self.dropped(Flow { packets: 1, bytes: bytes.into() }, reason);
            return;
        }
        let gone = self.bottleneck.push(now, bytes, packet);
        if gone.packets > 0 {
            self.dropped(gone, DropReason::Queue);
        }
        self.serve(now);
    }

    /// The next packet at the link's end, up to `now`; in the order of their times. Cost: logarithmic in what is on its
    /// way.
    pub fn poll(&mut self, now: Time) -> Option<Delivered<T>> {
        self.advance(now);
        if self.way.flying.peek()?.0.due > now {
            return None;
        }
        let Flying { due, arrived, bytes, packet, .. } = self.way.flying.pop()?.0;
        self.way.flying_bytes -= u64::from(bytes);
        self.counters.delivered.add(1, bytes.into());
        self.record.add(Event::Delivery { at: due, bytes, arrived });
        Some(Delivered { at: due, arrived, bytes, packet })
    }

    /// When to call [`Link::poll`] next if nothing is pushed: no packet comes out before then. `None` where nothing ever
    /// will. [`Link::poll`] may return nothing at that time, for example at a departure. Changes with [`Link::push`] and
    /// [`Link::poll`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let out = self.way.flying.peek().map_or(Time::NEVER, |Reverse(flying)| flying.due);
        let is_held = self.is_held();
        let served = if is_held { Time::NEVER } else { self.bottleneck.next_departure() };
        let waits_for_turn = !self.bottleneck.is_empty() && self.config.outages.effect == OutageEffect::Hold;
        let turn = if waits_for_turn { self.switch.next() } else { Time::NEVER };
        Some(out.min(served).min(turn)).filter(|due| *due != Time::NEVER)
    }

    /// What has happened so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What waits in the queue; the packet in service is not in it.
    pub fn queued(&self) -> Flow {
        self.bottleneck.queued()
    }

    /// What is in the link: waiting, in service, and on the way behind.
    pub fn held(&self) -> Flow {
        let mut held = self.bottleneck.held();
        held.add(self.way.flying.len() as u64, self.way.flying_bytes);
        held
    }

    /// Whether it is on, outages considered.
    pub fn is_on(&self) -> bool {
        self.switch.is_on()
    }

    /// What it is like now.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Changes how fast the bottleneck serves, from `now` on; the packet in service keeps what it has got. A trace
    /// begins with its zero at `now`.
    ///
    /// # Errors
    /// Where the rate is out of its range; then nothing changes.
    pub fn set_service(&mut self, now: Time, service: Service) -> Result<(), ConfigError> {
        LinkConfig { service: service.clone(), ..LinkConfig::default() }.check()?;
        self.advance(now);
        self.bottleneck.set_service(self.now(), service.clone());
        self.config.service = service;
        self.serve(self.now());
        Ok(())
    }

    /// Changes what gets lost of what departs after `now`.
    ///
    /// # Errors
    /// Where a probability is out of its range; then nothing changes.
    pub fn set_loss(&mut self, now: Time, loss: Loss) -> Result<(), ConfigError> {
        check_loss(&loss)?;
        self.advance(now);
        self.config.loss = loss;
        self.way.is_bad = false;
        Ok(())
    }

    /// Changes the delay of what departs after `now`. What is on its way keeps its time, and nothing overtakes it.
    pub fn set_delay(&mut self, now: Time, delay: Duration) {
        self.advance(now);
        self.config.delay = delay;
    }

    /// Changes how large a packet may be (the overhead counted) that comes after `now`; `None` for any.
    pub fn set_max_packet_bytes(&mut self, now: Time, most: Option<u32>) {
        self.advance(now);
        self.config.max_packet_bytes = most;
    }

    /// Has events recorded from now on, for [`Link::poll_event`].
    pub fn record_events(&mut self) {
        self.record.begin();
    }

    /// The next recorded event. Up to 2²⁰ wait.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.record.pop()
    }

    /// Events that found too many waiting, and are not told.
    pub fn missed_events(&self) -> u64 {
        self.record.missed()
    }

    /// Has everything happen that is due up to `now`; [`Link::poll`] does so itself.
    pub fn advance(&mut self, now: Time) {
        let mut turns = 0;
        while self.switch.next() <= now && self.switch.next() != Time::NEVER {
            self.serve(self.switch.next());
            if self.switch.give_up(turns, now) {
                break;
            }
            self.switch.turn();
            turns += 1;
        }
        self.serve(now);
    }

    /// The last time that it was told.
    fn now(&self) -> Time {
        self.bottleneck.now()
    }

    fn is_held(&self) -> bool {
        !self.switch.is_on() && self.config.outages.effect == OutageEffect::Hold
    }

    fn has_room(&self, bytes: u32) -> bool {
        let held = self.held();
        (held.packets as usize) < Self::MAX_HELD_PACKETS
            && held.bytes + u64::from(bytes) <= Self::MAX_HELD_BYTES
    }

    fn dropped(&mut self, gone: Flow, reason: DropReason) {
        self.counters.dropped[reason as usize].add(gone.packets, gone.bytes);
        let packets = u32::try_from(gone.packets).unwrap_or(u32::MAX);
        self.record.add(Event::Drop { at: self.now(), packets, bytes: gone.bytes, reason });
    }

    fn serve(&mut self, until: Time) {
        if self.is_held() {
            self.bottleneck.stand_still(until, &mut self.record);
            return;
        }
        while let Some(departed) = self.bottleneck.serve(until, &mut self.record) {
            let Delivered { at, arrived, bytes, packet } = departed;
            self.counters.departed.add(1, bytes.into());
            self.record.add(Event::Departure { at, bytes, arrived });
            if self.way.draw_loss(&self.config.loss) {
                self.counters.dropped[DropReason::Loss as usize].add(1, bytes.into());
                let reason = DropReason::Loss;
                self.record.add(Event::Drop { at, packets: 1, bytes: bytes.into(), reason });
                continue;
            }
            // Drawn for each packet, so that whether one was lost changes nothing for the next.
            if self.way.duplicate.chance(self.config.duplicate) && self.has_room(bytes) {
                self.counters.duplicated.add(1, bytes.into());
                self.way.send(&self.config, at, arrived, bytes, packet.clone());
            }
            self.way.send(&self.config, at, arrived, bytes, packet);
        }
    }
}

impl<T> Propagation<T> {
    fn draw_loss(&mut self, loss: &Loss) -> bool {
        match *loss {
            Loss::None => false,
            Loss::Random(probability) => self.loss.chance(probability),
            Loss::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
                let turns = self.loss.chance(if self.is_bad { to_good } else { to_bad });
                self.is_bad ^= turns;
                self.loss.chance(if self.is_bad { loss_bad } else { loss_good })
            }
        }
    }

    fn send(&mut self, config: &LinkConfig, at: Time, arrived: Time, bytes: u32, packet: T) {
        let mut due = at + config.delay;
        if config.jitter > Duration::ZERO {
            due += self.jitter.duration_up_to(config.jitter);
        }
        if config.reorder.probability > 0.0 && self.reorder.chance(config.reorder.probability) {
            due += config.reorder.hold;
        } else {
            due = due.max(self.last);
            self.last = due;
        }
        self.order += 1;
        self.flying_bytes += u64::from(bytes);
        self.flying.push(Reverse(Flying { due, order: self.order, arrived, bytes, packet }));
    }
}
