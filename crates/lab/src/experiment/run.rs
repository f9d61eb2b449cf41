//! The run: pictures are captured, encoded, sent, decoded and judged, event by event.

use super::outcome::{Outcome, Slot};
use super::world::World;
use glassline_codec::vp8::{EncodeError, Limits, Parallel};
use glassline_direct::{
    Conditions, Decision, Fate, REPORTS, Reason, Receiver, Sender, SenderSettings, VIDEO, report_options,
    video_options,
};
use glassline_media::measure::CompareError;
use glassline_media::measure::ssim::Ssim;
use glassline_media::pixels::Scaler;
use glassline_media::{FrameRate, Picture, Size, Time, Utc};
use glassline_transport::emulator::{End, Figures, LinkConfig, OPPORTUNITY_BYTES, Service};
use glassline_transport::link::{Controller, Event, Fec};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use thiserror::Error;

/// How long the link has to come up.
const CONNECT: Duration = Duration::from_secs(20);
/// Pictures are waited for so long after the last was captured.
const AFTER: Duration = Duration::from_secs(5);

/// A comparison of sizes is made where no more than this share of the time to the next picture is gone.
const COMPARE_BEFORE: f64 = 0.6;

/// What coding takes, for each macroblock (16×16 samples) on the processor that is modelled.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Encoding in one quality.
    pub first: Duration,
    /// Each further quality.
    pub further: Duration,
    /// A search of a size.
    pub search: Duration,
    /// Decoding.
    pub decode: Duration,
    /// Bringing a picture to another size, for each macroblock of the larger one.
    pub scale: Duration,
    /// Telling how far two pictures are from their source, of the source's.
    pub judge: Duration,
}

impl Default for Cost {
    /// Of the order that `make bench-vp8` measures at speed 6: 720p in 4.7 ms, 1.6 ms for each further quality.
    fn default() -> Cost {
        Cost {
            first: Duration::from_nanos(1_300),
            further: Duration::from_nanos(450),
            search: Duration::from_nanos(8_000),
            decode: Duration::from_nanos(450),
            scale: Duration::from_nanos(450),
            judge: Duration::from_nanos(1_000),
        }
    }
}

impl Cost {
    /// Encoding a picture of this size, which is `source` before, in so many qualities.
    fn encoding(&self, source: Size, coded: Size, speed: u8, candidates: u32) -> Duration {
        // The candidate of a given size takes about two codings more than its own.
        let further = match candidates {
            count @ 0..=2 => count.saturating_sub(1),
            count => count + 1,
        };
        let first = self.first.mul_f64(SPEED_FACTORS[usize::from(speed.min(10))]);
        (first + self.further * further) * macroblocks(coded) + self.scaling(source, coded)
    }

    /// Bringing a picture from one size to another.
    fn scaling(&self, source: Size, coded: Size) -> Duration {
        if source == coded { Duration::ZERO } else { self.scale * macroblocks(source) }
    }

    /// A comparison with another size.
    fn comparison(&self, source: Size, other: Size, speed: u8) -> Duration {
        // Two pictures are brought back to the source's size and judged.
        self.encoding(source, other, speed, 3) + (self.scale + self.judge) * (2 * macroblocks(source))
    }

    /// On a processor that takes `factor` times as long.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Cost {
        let scaled = |time: Duration| time.mul_f64(factor);
        Cost {
            first: scaled(self.first),
            further: scaled(self.further),
            search: scaled(self.search),
            decode: scaled(self.decode),
            scale: scaled(self.scale),
            judge: scaled(self.judge),
        }
    }
}

/// By how much the first quality takes longer at each speed than at 6.
const SPEED_FACTORS: [f64; 11] = [5.0, 4.0, 3.3, 2.8, 2.0, 1.4, 1.0, 0.95, 0.9, 0.85, 0.8];

/// Macroblocks of a picture.
fn macroblocks(size: Size) -> u32 {
    size.width.div_ceil(16) * size.height.div_ceil(16)
}

/// What is tried.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The way of the video.
    pub up: LinkConfig,
    /// The way back.
    pub down: LinkConfig,
    /// What all chance follows from.
    pub seed: u64,
    /// Of the source.
    pub rate: FrameRate,
    /// How long pictures are captured.
    pub duration: Duration,
    /// The sender.
    pub sender: SenderSettings,
    /// What decides the link's rate.
    pub controller: Controller,
    /// Parity of pictures.
    pub parity: Fec,
    /// Padding with which the link probes, percent of its rate.
    pub probing_percent: u8,
    /// What coding takes.
    pub cost: Cost,
}

/// Why an experiment could not go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// The network makes no sense, or the link.
    #[error("the network cannot be emulated: {0}")]
    Network(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Nothing passes.
    #[error("the link does not come up within {} s: does anything pass?", CONNECT.as_secs())]
    NoLink,
    /// A picture cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A picture cannot be compared.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// The source fails.
    #[error(transparent)]
    Source(Box<dyn std::error::Error + Send + Sync>),
}

/// The receiving end.
struct Receiving {
    receiver: Receiver,
    /// Until when the decoder is busy.
    busy: Time,
    /// What it has to say, and when it has decoded so far.
    reports: VecDeque<(Time, Vec<u8>)>,
    cost: Cost,
}

/// Everything while it runs.
struct Running {
    world: World,
    receiving: Receiving,
    outcome: Outcome,
    /// What was captured and may still be shown, by its number.
    sent: BTreeMap<u64, (usize, Picture)>,
    figures: Figures,
    /// To the size at which pictures are shown.
    scaler: Option<Scaler>,
}

impl Running {
    /// Lets everything happen up to `until`.
    fn go_on(&mut self, until: Time) -> Result<(), ExperimentError> {
        loop {
            let due = self.receiving.reports.front().map(|(at, _)| *at);
            let timeout = self.receiving.receiver.poll_timeout();
            let next = [due, timeout].into_iter().flatten().min().map_or(until, |at| at.min(until));
            let next = next.max(self.world.now());
            let arrived = self.world.step(next);
            while let Some(event) = self.world.network.link_mut(End::Near).poll_event() {
                self.figures.add(&event);
            }
            if arrived {
                self.receive()?;
            }
            let now = self.world.now();
            self.receiving.receiver.handle_timeout(now);
            self.poll_report(now);
            while self.receiving.reports.front().is_some_and(|(at, _)| *at <= now) {
                let Some((_, report)) = self.receiving.reports.pop_front() else { break };
                if let Some(link) = self.world.link(End::Far) {
                    // The next one says it too.
                    let _ = link.send(now, REPORTS, report);
                }
            }
            if !arrived && now >= until {
                return Ok(());
            }
        }
    }

    fn poll_report(&mut self, at: Time) {
        if let Some(report) = self.receiving.receiver.poll_report() {
            self.receiving.reports.push_back((at, report));
        }
    }

    fn receive(&mut self) -> Result<(), ExperimentError> {
        let now = self.world.now();
        while let Some(received) = self.world.link(End::Far).and_then(|link| link.receive_message(VIDEO)) {
            let Ok(fate) = self.receiving.receiver.handle(now, &received.bytes) else { continue };
            if let Fate::Shown(pictures) = fate {
                for shown in pictures {
                    let (cost, coded) = (self.receiving.cost, shown.picture.size());
                    let took = cost.decode * macroblocks(coded) + cost.scaling(shown.size, coded);
                    self.receiving.busy = self.receiving.busy.max(now) + took;
                    self.sent = self.sent.split_off(&shown.header.number);
                    let Some((slot, picture)) = self.sent.get(&shown.header.number) else { continue };
                    let scaler = self.scaler.get_or_insert_with(|| Scaler::new(shown.size));
                    let ssim = Ssim::of(picture, &scaler.scale(&shown.picture))?;
                    let slot = &mut self.outcome.slots[*slot];
                    (slot.shown, slot.ssim_y) = (Some(self.receiving.busy), ssim.plane(0));
                    self.outcome.ssim.add(&ssim);
                }
            }
            let at = self.receiving.busy.max(now);
            self.poll_report(at);
        }
        Ok(())
    }
}

/// Runs an experiment. `picture` gives the source's pictures (I420, all of one size) in order; `progress` is told of each.
///
/// # Errors
/// Any [`ExperimentError`].
pub fn run(
    setup: &Setup,
    mut picture: impl FnMut() -> Result<Picture, Box<dyn std::error::Error + Send + Sync>>,
    parallel: &dyn Parallel,
    mut progress: impl FnMut(u64, u64),
) -> Result<Outcome, ExperimentError> {
    let mut world = World::new(setup.up.clone(), setup.down.clone(), setup.seed, |settings| {
        settings.controller = setup.controller;
        settings.probing_percent = setup.probing_percent;
    })
    .map_err(ExperimentError::Network)?;
    connect(&mut world, setup)?;
    let mut next = picture().map_err(ExperimentError::Source)?;
    let receiving = Receiving {
        receiver: Receiver::new(Limits::default()),
        busy: Time::ZERO,
        reports: VecDeque::new(),
        cost: setup.cost,
    };
    world.network.link_mut(End::Near).record_events();
    let (start, carried) = (world.now(), carried_bytes(&world));
    let figures = Figures::new(start);
    let mut running = Running {
        world,
        receiving,
        outcome: Outcome::default(),
        sent: BTreeMap::new(),
        figures,
        scaler: None,
    };
    let mut sender = Sender::new(setup.sender.clone());
    let slots = (setup.duration.as_secs_f64() * setup.rate.as_f64()).round() as u64;
    // The encoder's.
    let mut busy = start;
    let (mut states, mut most) = ([0.0; 2], [0u64; 2]);
    for number in 0..slots {
        if number > 0 {
            next = picture().map_err(ExperimentError::Source)?;
        }
        let captured = start + setup.rate.time_of(number);
        running.outcome.slots.push(Slot { captured, shown: None, ssim_y: None, bytes: None });
        progress(number, slots);
        // A newer one is there when the encoder is free again.
        if busy > start + setup.rate.time_of(number + 1) {
            continue;
        }
        next.captured = captured;
        next.captured_utc = Some(Utc::from_nanos(1_000_000_000 + captured.as_nanos()));
        running.go_on(captured.max(busy))?;
        let (decision, message, took) = encode(&mut running, &mut sender, &next, setup, parallel)?;
        busy = running.world.now() + took;
        running.go_on(busy)?;
        if let (Some(message), Some(name)) = (message, decision.number) {
            let now = running.world.now();
            running.outcome.slots[number as usize].bytes = Some(message.len());
            running.sent.insert(name, (number as usize, next.clone()));
            match running.world.link(End::Near).map(|link| link.send(now, VIDEO, message)) {
                Some(Ok(id)) => sender.sent(id),
                _ => sender.not_sent(now),
            }
            let spent = now.since(captured).as_secs_f64() / setup.rate.time_of(1).as_secs_f64();
            if spent < COMPARE_BEFORE
                && let Some(size) = sender.compare_sizes(now, parallel)?
            {
                busy += setup.cost.comparison(next.size(), size, setup.sender.speed);
            }
        }
        running.outcome.decisions.push(decision);
        for (index, held) in
            [sender.states().0 as u64, running.receiving.receiver.states() as u64].into_iter().enumerate()
        {
            states[index] += held as f64;
            most[index] = most[index].max(held);
        }
    }
    let end = start + setup.duration;
    running.go_on(end.max(busy))?;
    let carried = carried_bytes(&running.world) - carried;
    running.go_on(end + AFTER)?;
    let mut outcome = running.outcome;
    outcome.carried_bytes = carried;
    outcome.capacity_bytes = capacity(&setup.up, start, setup.duration);
    outcome.queue_p50 = running.figures.queue_delay().quantile(0.5);
    outcome.queue_p95 = running.figures.queue_delay().quantile(0.95);
    outcome.dropped_packets = running.world.network.link(End::Near).counters().dropped().packets;
    outcome.counters = sender.counters();
    let count = (outcome.decisions.len() as f64).max(1.0);
    outcome.states = [0, 1].map(|index| (states[index] / count, most[index]));
    Ok(outcome)
}

fn connect(world: &mut World, setup: &Setup) -> Result<(), ExperimentError> {
    let failed = |error: glassline_transport::link::Error| ExperimentError::Network(error.into());
    let is_up = |world: &mut World, end| world.link(end).is_some_and(|link| link.is_up());
    while !(is_up(world, End::Near) && is_up(world, End::Far)) {
        if world.now() >= Time::ZERO + CONNECT {
            return Err(ExperimentError::NoLink);
        }
        let next = world.now() + Duration::from_millis(5);
        world.step(next);
    }
    let mut open = |end, channel, options| match world.link(end) {
        Some(link) => link.open(channel, options).map_err(failed),
        None => Err(ExperimentError::NoLink),
    };
    open(End::Near, VIDEO, video_options(setup.parity))?;
    open(End::Far, REPORTS, report_options())
}

/// What the sender is told before it encodes and before it chooses.
fn catch_up(running: &mut Running, sender: &mut Sender) {
    let now = running.world.now();
    for event in std::mem::take(&mut running.world.events) {
        match event {
            Event::Finished { channel: VIDEO, message, outcome } => {
                sender.handle_outcome(now, message, outcome);
            }
            Event::Connected { again: true } => sender.handle_reset(),
            _ => {}
        }
    }
    while let Some(report) = running.world.link(End::Near).and_then(|link| link.receive(REPORTS)) {
        // Our own receiver's: it is one.
        let _ = sender.handle_report(now, &report);
    }
}

fn budget(running: &mut Running, sender: &Sender) -> Conditions {
    let (now, horizon) = (running.world.now(), sender.horizon());
    running.world.link(End::Near).map_or(Conditions::default(), |link| Conditions {
        budget: link.budget(now, VIDEO, horizon),
        silence: link.silence(now),
    })
}

/// Encodes a picture and decides, by the budget once it is encoded. Time goes on meanwhile; what is left of it is returned: that of
/// a search.
fn encode(
    running: &mut Running,
    sender: &mut Sender,
    picture: &Picture,
    setup: &Setup,
    parallel: &dyn Parallel,
) -> Result<(Decision, Option<bytes::Bytes>, Duration), ExperimentError> {
    catch_up(running, sender);
    let conditions = budget(running, sender);
    let begun = running.world.now();
    sender.encode(begun, picture, conditions, parallel)?;
    let (coded, speed) = sender.pending_coding().unwrap_or((picture.size(), setup.sender.speed));
    let took = setup.cost.encoding(picture.size(), coded, speed, setup.sender.candidates as u32);
    running.go_on(begun + took)?;
    catch_up(running, sender);
    let now = budget(running, sender);
    let choice = sender.choose(now.budget, took < setup.rate.time_of(1).mul_f64(0.15), parallel)?;
    let Some(choice) = choice else { unreachable!("a picture was encoded") };
    let searched = choice.decision.reason == Reason::Searched;
    let more = if searched { setup.cost.search * macroblocks(coded) } else { Duration::ZERO };
    Ok((choice.decision, choice.message, more))
}

fn carried_bytes(world: &World) -> u64 {
    world.network.link(End::Near).counters().delivered.bytes
}

/// What a link could carry in a time; `None` where it has no bound.
fn capacity(link: &LinkConfig, start: Time, length: Duration) -> Option<f64> {
    match &link.service {
        Service::Unlimited => None,
        Service::Rate(rate) => Some(*rate as f64 / 8.0 * length.as_secs_f64()),
        Service::Trace(trace) | Service::TraceOnce(trace) => {
            let begun = start.since(Time::ZERO);
            let count = trace.opportunities_within(begun + length) - trace.opportunities_within(begun);
            Some(count as f64 * f64::from(OPPORTUNITY_BYTES))
        }
    }
}
