//! The run: pictures are captured, encoded, sent, decoded and judged, event by event.

use super::comparison::{self, Comparison};
use super::cost::Cost;
use super::outcome::{Outcome, Slot};
use super::traffic::Traffic;
use super::world::World;
use glassline_codec::vp8::{EncodeError, Limits, Parallel};
use glassline_direct::{
    Conditions, Decision, Fate, REPORTS, Reason, Receiver, Sender, SenderSettings, VIDEO, report_options,
    video_options,
};
use glassline_media::measure::CompareError;
use glassline_media::{FrameRate, Picture, Time, Utc};
use glassline_transport::emulator::{End, Figures, LinkConfig, OPPORTUNITY_BYTES, Service};
use glassline_transport::link::{Controller, Event, Fec};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use thiserror::Error;

/// How long the link has to come up.
const CONNECT: Duration = Duration::from_secs(20);
/// Pictures are waited for so long after the last was captured.
const AFTER: Duration = Duration::from_secs(5);
/// So many shown pictures are compared at a time.
const COMPARISONS: usize = 8;

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
struct Running<'a> {
    parallel: &'a dyn Parallel,
    world: World,
    receiving: Receiving,
    outcome: Outcome,
    /// What was captured and may still be shown, by its number.
    sent: BTreeMap<u64, (usize, Picture)>,
    figures: Figures,
    traffic: Traffic,
    comparisons: Vec<Comparison>,
}

impl<'a> Running<'a> {
    fn new(mut world: World, setup: &Setup, slots: u64, parallel: &'a dyn Parallel) -> Running<'a> {
        world.network.link_mut(End::Near).record_events();
        let receiving = Receiving {
            receiver: Receiver::new(Limits::default()),
            busy: Time::ZERO,
            reports: VecDeque::new(),
            cost: setup.cost,
        };
        Running {
            parallel,
            receiving,
            outcome: Outcome::default(),
            sent: BTreeMap::new(),
            figures: Figures::new(world.now()),
            traffic: Traffic::new(world.now(), setup.rate, slots),
            comparisons: Vec::new(),
            world,
        }
    }

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
                self.traffic.add(&event);
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
                    self.receiving.busy = self.receiving.busy.max(now) + cost.decoding(shown.size, coded);
                    self.sent = self.sent.split_off(&shown.header.number);
                    let Some((slot, picture)) = self.sent.get(&shown.header.number) else { continue };
                    self.outcome.slots[*slot].shown = Some(self.receiving.busy);
                    self.comparisons.push(Comparison::new(*slot, picture.clone(), shown.picture));
                }
            }
            let at = self.receiving.busy.max(now);
            self.poll_report(at);
        }
        if self.comparisons.len() >= COMPARISONS { self.compare() } else { Ok(()) }
    }

    /// Compares what was shown since the last time.
    fn compare(&mut self) -> Result<(), ExperimentError> {
        let comparisons = std::mem::take(&mut self.comparisons);
        Ok(comparison::compare(comparisons, self.parallel, &mut self.outcome)?)
    }

    /// What came of it, but for what the sender knows.
    fn finish(mut self, service: &Service) -> Outcome {
        let link = self.world.network.link(End::Near);
        self.traffic.note(self.outcome.slots.len(), link.is_on());
        self.traffic.tell(&mut self.outcome.slots, service);
        self.outcome.queue_p50 = self.figures.queue_delay().quantile(0.5);
        self.outcome.queue_p95 = self.figures.queue_delay().quantile(0.95);
        self.outcome.dropped_packets = link.counters().dropped().packets;
        self.outcome
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
    let slots = (setup.duration.as_secs_f64() * setup.rate.as_f64()).round() as u64;
    let (start, carried) = (world.now(), carried_bytes(&world));
    let mut running = Running::new(world, setup, slots, parallel);
    let mut sender = Sender::new(setup.sender.clone());
    // The encoder's.
    let mut busy = start;
    let mut held = Held::default();
    for number in 0..slots {
        if number > 0 {
            next = picture().map_err(ExperimentError::Source)?;
        }
        let captured = start + setup.rate.time_of(number);
        running.outcome.slots.push(Slot::new(captured));
        progress(number, slots);
        // A newer one is there when the encoder is free again.
        if busy > start + setup.rate.time_of(number + 1) {
            continue;
        }
        next.captured = captured;
        next.captured_utc = Some(Utc::from_nanos(1_000_000_000 + captured.as_nanos()));
        running.go_on(captured.max(busy))?;
        running.traffic.note(running.outcome.slots.len(), running.world.network.link(End::Near).is_on());
        let (decision, message, took) = encode(&mut running, &mut sender, &next, setup)?;
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
            if sender.may_compare(now.since(captured))
                && let Some(size) = sender.compare_sizes(now, parallel)?
            {
                busy += setup.cost.comparison(&setup.sender, next.size(), size);
            }
        }
        running.outcome.decisions.push(decision);
        held.add([sender.states().0, running.receiving.receiver.states()]);
    }
    let end = start + setup.duration;
    running.go_on(end.max(busy))?;
    let carried = carried_bytes(&running.world) - carried;
    running.go_on(end + AFTER)?;
    running.compare()?;
    let mut outcome = running.finish(&setup.up.service);
    outcome.carried_bytes = carried;
    outcome.capacity_bytes = capacity(&setup.up, start, setup.duration);
    outcome.counters = sender.counters();
    outcome.states = held.figures();
    Ok(outcome)
}

/// States that both ends hold, at each picture.
#[derive(Default)]
struct Held {
    count: u64,
    sums: [u64; 2],
    most: [u64; 2],
}

impl Held {
    fn add(&mut self, held: [usize; 2]) {
        self.count += 1;
        for (end, held) in held.into_iter().enumerate() {
            self.sums[end] += held as u64;
            self.most[end] = self.most[end].max(held as u64);
        }
    }

    /// On average and at most.
    fn figures(&self) -> [(f64, u64); 2] {
        [0, 1].map(|end| (self.sums[end] as f64 / self.count.max(1) as f64, self.most[end]))
    }
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
fn catch_up(running: &mut Running<'_>, sender: &mut Sender) {
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

fn budget(running: &mut Running<'_>, sender: &Sender) -> Conditions {
    let (now, horizon) = (running.world.now(), sender.horizon());
    running.world.link(End::Near).map_or(Conditions::default(), |link| Conditions {
        budget: link.budget(now, VIDEO, horizon),
        silence: link.silence(now),
    })
}

/// Encodes a picture and decides, by the budget once it is encoded. Time goes on meanwhile; what is left of it is returned: that of
/// a search.
fn encode(
    running: &mut Running<'_>,
    sender: &mut Sender,
    picture: &Picture,
    setup: &Setup,
) -> Result<(Decision, Option<bytes::Bytes>, Duration), ExperimentError> {
    let parallel = running.parallel;
    catch_up(running, sender);
    let conditions = budget(running, sender);
    let begun = running.world.now();
    sender.encode(begun, picture, conditions, parallel)?;
    let (coded, speed) = sender.pending_coding().unwrap_or((picture.size(), setup.sender.speed));
    let took = setup.cost.encoding(&setup.sender, picture.size(), coded, speed);
    running.go_on(begun + took)?;
    catch_up(running, sender);
    let now = budget(running, sender);
    let choice = sender.choose(now.budget, sender.may_search(took), parallel)?;
    let Some(choice) = choice else { unreachable!("a picture was encoded") };
    let searched = choice.decision.reason == Reason::Searched;
    let more = if searched { setup.cost.searching(coded) } else { Duration::ZERO };
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
