//! The run: pictures are captured, encoded, sent, decoded and judged, event by event.

use super::comparison::{self, Comparison};
use super::cost::Cost;
use super::line_record::LineRecord;
use super::lines::Line;
use super::outcome::{Outcome, Slot};
use super::sound::Sound;
use super::timeline::Timeline;
use super::watch::Received;
use super::world::World;
use bytes::Bytes;
use glassline_codec::vp8::{Limits, Parallel};
use glassline_direct::{
    Aside, CodingError, Fate, LinkAccess, Newest, Offered, REPORTS, Reason, Receiver, SOUND, SendError,
    SendLoop, SenderSettings, VIDEO, report_options, sound_options, video_options,
};
use glassline_measure::CompareError;
use glassline_media::quantity::Bitrate;
use glassline_media::{FrameRate, Picture, Stage, Stamps, Time, Utc};
use glassline_transport::emulator::{End, Spread};
use glassline_transport::link::{Bonding, Controller, Error as LinkError, Event, Fec, MessageId};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use thiserror::Error;

/// How long the link has to come up.
const CONNECT: Duration = Duration::from_secs(20);
/// How long paths over further lines have to come up, once the link is there: a handshake that was lost is tried again.
const FURTHER_PATHS: Duration = Duration::from_secs(5);
/// Pictures are waited for so long after the last was captured.
const AFTER: Duration = Duration::from_secs(5);
/// So many shown pictures are compared at a time.
const COMPARISONS: usize = 8;

/// What is tried.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The lines between both ends, 1 to [`MAX_LINES`](super::MAX_LINES). Where there are several, each is a path of
    /// the link; the link is connected over the first one, and pictures begin once all paths are up.
    pub lines: Vec<Line>,
    /// How several lines are used; a single one is used alike with each. There may be as many lines as
    /// [`Bonding::max_paths`] says.
    pub bonding: Bonding,
    /// What all chance follows from.
    pub seed: u64,
    /// Of the source.
    pub rate: FrameRate,
    /// How long pictures are captured.
    pub duration: Duration,
    /// The sender. Its loop adapts candidates and speed to what coding takes ([`SendLoop::new`]).
    pub sender: SenderSettings,
    /// The bit rate of sound beside the pictures, in packets of 10 ms; `None`: the source has none.
    pub sound: Option<Bitrate>,
    /// What decides the link's rate.
    pub controller: Controller,
    /// Parity of pictures.
    pub parity: Fec,
    /// Padding with which the link probes, percent of its rate.
    pub probing_percent: u8,
    /// What coding takes.
    pub cost: Cost,
    /// How often the receiver asks for a key frame, as one does that passes AV1 on; `None`: never.
    pub key_interval: Option<Duration>,
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
    Encode(#[from] CodingError),
    /// A picture cannot be compared.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// The source fails.
    #[error(transparent)]
    Source(Box<dyn std::error::Error + Send + Sync>),
}

impl From<SendError> for ExperimentError {
    fn from(error: SendError) -> ExperimentError {
        match error {
            SendError::Encode(error) => ExperimentError::Encode(error),
            other => ExperimentError::Network(other.into()),
        }
    }
}

/// The receiving end.
struct Receiving {
    receiver: Receiver,
    /// Until when the decoder is busy.
    busy: Time,
    /// What it has to say, and when it has decoded so far.
    reports: VecDeque<(Time, Vec<u8>)>,
    cost: Cost,
    /// How often a key frame is asked for, and when the last one came.
    key_interval: Option<Duration>,
    last_key: Time,
}

/// Everything while it runs.
struct Running<'a> {
    parallel: &'a dyn Parallel,
    world: World,
    receiving: Receiving,
    outcome: Outcome,
    /// What was captured and may still be shown, by its number.
    sent: BTreeMap<u64, (usize, Picture)>,
    /// Of each line.
    records: Vec<LineRecord>,
    /// How long packets have waited before the bottlenecks of all lines.
    queue_delay: Spread,
    comparisons: Vec<Comparison>,
    sound: Option<Sound>,
    timeline: Timeline,
    /// Is told of what comes.
    watch: Option<&'a mut dyn FnMut(Received<'_>)>,
}

/// The near end's link as the send loop uses it. An experiment goes on where that has ended: nothing of it comes then.
struct Near<'a> {
    world: &'a mut World,
    sound_bytes_per_second: u64,
}

impl LinkAccess for Near<'_> {
    fn poll_event(&mut self) -> Option<Event> {
        self.world.events.pop_front()
    }

    fn receive(&mut self, channel: u8) -> Result<Option<Bytes>, LinkError> {
        Ok(self.world.link(End::Near).and_then(|link| link.receive(channel)))
    }

    fn budget(&mut self, now: Time, channel: u8, horizon: Duration) -> Result<u64, LinkError> {
        Ok(self.world.link(End::Near).map_or(0, |link| link.budget(now, channel, horizon)))
    }

    fn is_shared(&mut self) -> Result<bool, LinkError> {
        Ok(self.world.link(End::Near).is_some_and(|link| link.is_shared()))
    }

    fn budget_ahead(&mut self, now: Time, after: Duration, horizon: Duration) -> Result<u64, LinkError> {
        Ok(self.world.link(End::Near).map_or(0, |link| link.budget_ahead(now, after, VIDEO, horizon)))
    }

    fn silence(&mut self, now: Time) -> Result<Duration, LinkError> {
        Ok(self.world.link(End::Near).map_or(Duration::ZERO, |link| link.silence(now)))
    }

    fn send(&mut self, now: Time, channel: u8, message: Bytes) -> Result<MessageId, LinkError> {
        let sent = self.world.link(End::Near).and_then(|link| link.send(now, channel, message).ok());
        sent.ok_or(LinkError::NotOpen { channel })
    }

    fn send_twice(&mut self, now: Time, channel: u8, message: Bytes) -> Result<MessageId, LinkError> {
        let link = self.world.link(End::Near);
        link.and_then(|link| link.send_twice(now, channel, message).ok())
            .ok_or(LinkError::NotOpen { channel })
    }

    fn sound_bytes_per_second(&self) -> u64 {
        self.sound_bytes_per_second
    }
}

impl<'a> Running<'a> {
    fn new(
        mut world: World,
        setup: &Setup,
        slots: u64,
        parallel: &'a dyn Parallel,
        watch: Option<&'a mut dyn FnMut(Received<'_>)>,
    ) -> Running<'a> {
        let now = world.now();
        let links = world.lines.links_mut(End::Near);
        let records = links.map(|link| LineRecord::new(link, now, setup.rate, slots)).collect();
        let mut receiver = Receiver::new(Limits::default());
        if watch.is_some() {
            receiver.keep_frames();
        }
        let receiving = Receiving {
            receiver,
            busy: Time::ZERO,
            reports: VecDeque::new(),
            cost: setup.cost,
            key_interval: setup.key_interval,
            last_key: now,
        };
        Running {
            parallel,
            receiving,
            outcome: Outcome::default(),
            sent: BTreeMap::new(),
            records,
            queue_delay: Spread::default(),
            comparisons: Vec::new(),
            timeline: Timeline::default(),
            watch,
            sound: setup.sound.map(|rate| Sound::new(rate, world.now(), world.now() + setup.duration)),
            world,
        }
    }

    fn near(&mut self) -> Near<'_> {
        let sound_bytes_per_second = self.sound.as_ref().map_or(0, Sound::bytes_per_second);
        Near { world: &mut self.world, sound_bytes_per_second }
    }

    /// Lets everything happen up to `until`.
    fn go_on(&mut self, until: Time) -> Result<(), ExperimentError> {
        loop {
            let due = self.receiving.reports.front().map(|(at, _)| *at);
            let timeout = self.receiving.receiver.poll_timeout();
            let sound = self.sound.as_ref().and_then(Sound::poll_timeout);
            let next = [due, timeout, sound].into_iter().flatten().min().map_or(until, |at| at.min(until));
            let next = next.max(self.world.now());
            let arrived = self.world.step(next);
            for (record, link) in self.records.iter_mut().zip(self.world.lines.links_mut(End::Near)) {
                record.take_events(link, &mut self.queue_delay);
            }
            if arrived {
                self.receive()?;
            }
            let now = self.world.now();
            self.send_sound(now);
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

    /// Sends the sound that is there by now, and takes what the link says of what was sent before.
    fn send_sound(&mut self, now: Time) {
        let Some(sound) = &mut self.sound else { return };
        self.world.events.retain(|event| !sound.handle_event(event));
        while let Some(message) = sound.poll_message(now) {
            if let Some(link) = self.world.link(End::Near) {
                // What the link does not take is lost, as on the way.
                let _ = link.send(now, SOUND, message);
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
        if let Some(sound) = &mut self.sound {
            while let Some(message) = self.world.link(End::Far).and_then(|link| link.receive(SOUND)) {
                sound.handle_message(now, &message);
            }
        }
        while let Some(received) = self.world.link(End::Far).and_then(|link| link.receive_message(VIDEO)) {
            let Ok(fate) = self.receiving.receiver.handle(now, &received.bytes) else { continue };
            self.tell_watch(&fate);
            if let Fate::Shown(pictures) = fate {
                // Others have waited for this one: their own time of arrival is gone.
                let is_alone = pictures.len() == 1;
                if pictures.iter().any(|shown| shown.key) {
                    self.receiving.last_key = now;
                }
                for shown in pictures {
                    let (cost, coded) = (self.receiving.cost, shown.picture.size());
                    self.receiving.busy =
                        self.receiving.busy.max(now) + cost.decoding(shown.header.codec, shown.size, coded);
                    self.sent = self.sent.split_off(&shown.header.number);
                    let Some((slot, picture)) = self.sent.get(&shown.header.number) else { continue };
                    let slot_of = &mut self.outcome.slots[*slot];
                    slot_of.shown = Some(self.receiving.busy);
                    if is_alone {
                        let passed = shown.header.passed.rebased(slot_of.captured);
                        let stamps = passed
                            .with(Stage::Received, received.first)
                            .with(Stage::Reassembled, received.last)
                            .with(Stage::Decoded, self.receiving.busy);
                        self.timeline.push(&stamps);
                    }
                    self.comparisons.push(Comparison::new(*slot, picture.clone(), shown.picture));
                }
            }
            if self
                .receiving
                .key_interval
                .is_some_and(|interval| now.since(self.receiving.last_key) >= interval)
            {
                self.receiving.receiver.ask_key_frame();
            }
            let at = self.receiving.busy.max(now);
            self.poll_report(at);
        }
        if self.comparisons.len() >= COMPARISONS { self.compare() } else { Ok(()) }
    }

    /// Tells of what the receiver has made of a message.
    fn tell_watch(&mut self, fate: &Fate) {
        let Some(watch) = &mut self.watch else { return };
        while let Some(frame) = self.receiving.receiver.poll_frame() {
            watch(Received::Frame(&frame));
        }
        if let Fate::Shown(pictures) = fate {
            pictures.iter().for_each(|shown| watch(Received::Shown(shown)));
        }
    }

    /// Compares what was shown since the last time.
    fn compare(&mut self) -> Result<(), ExperimentError> {
        let comparisons = std::mem::take(&mut self.comparisons);
        Ok(comparison::compare(comparisons, self.parallel, &mut self.outcome)?)
    }

    /// Writes down which lines are there, for the pictures so far.
    fn note_lines(&mut self) {
        for (record, link) in self.records.iter_mut().zip(self.world.lines.links(End::Near)) {
            record.note(self.outcome.slots.len(), link);
        }
    }

    /// Measures what the lines have carried so far.
    fn note_carried(&mut self) {
        for (record, link) in self.records.iter_mut().zip(self.world.lines.links(End::Near)) {
            record.note_carried(link);
        }
    }

    /// What came of it, but for what the sender knows.
    fn finish(mut self, setup: &Setup) -> Outcome {
        self.note_lines();
        self.outcome.slots.iter_mut().for_each(|slot| slot.capacity_bytes = Some(0.0));
        let links = self.world.lines.links(End::Near);
        for ((record, line), link) in self.records.iter().zip(&setup.lines).zip(links) {
            record.tell(&mut self.outcome.slots, &line.up);
            self.outcome.lines.push(record.outcome(link, &line.up, setup.duration));
        }
        let lines = &self.outcome.lines;
        self.outcome.capacity_bytes = lines.iter().map(|line| line.capacity_bytes).sum();
        self.outcome.carried_bytes = lines.iter().map(|line| line.carried_bytes).sum();
        self.outcome.dropped_packets = lines.iter().map(|line| line.dropped_packets).sum();
        self.outcome.queue_p50 = self.queue_delay.quantile(0.5);
        self.outcome.queue_p95 = self.queue_delay.quantile(0.95);
        self.outcome.receiver = Some(self.receiving.receiver.counters());
        self.outcome.stages = self.timeline.stages();
        self.outcome.sound = self.sound.as_mut().map(Sound::summary);
        self.outcome
    }
}

/// Runs an experiment. `picture` gives the source's pictures (I420, all of one size) in order; `progress` is told of each.
///
/// # Errors
/// Any [`ExperimentError`].
pub fn run(
    setup: &Setup,
    picture: impl FnMut() -> Result<Picture, Box<dyn std::error::Error + Send + Sync>>,
    parallel: &dyn Parallel,
    progress: impl FnMut(u64, u64),
) -> Result<Outcome, ExperimentError> {
    run_to_end(setup, picture, parallel, progress, None)
}

/// As [`run`], and `watch` is told of what the receiver passes on and shows, in the order in which it does.
///
/// # Errors
/// Any [`ExperimentError`].
pub fn run_watched(
    setup: &Setup,
    picture: impl FnMut() -> Result<Picture, Box<dyn std::error::Error + Send + Sync>>,
    parallel: &dyn Parallel,
    mut watch: impl FnMut(Received<'_>),
) -> Result<Outcome, ExperimentError> {
    run_to_end(setup, picture, parallel, |_, _| {}, Some(&mut watch))
}

fn run_to_end<'a>(
    setup: &Setup,
    mut picture: impl FnMut() -> Result<Picture, Box<dyn std::error::Error + Send + Sync>>,
    parallel: &'a dyn Parallel,
    mut progress: impl FnMut(u64, u64),
    watch: Option<&'a mut dyn FnMut(Received<'_>)>,
) -> Result<Outcome, ExperimentError> {
    let mut world = World::new(&setup.lines, setup.seed, |settings| {
        settings.controller = setup.controller;
        if setup.lines.len() > 1 {
            settings.bonding = setup.bonding;
        }
        settings.probing_percent = setup.probing_percent;
    })
    .map_err(ExperimentError::Network)?;
    connect(&mut world, setup)?;
    let mut first = Some(picture().map_err(ExperimentError::Source)?);
    let slots = (setup.duration.as_secs_f64() * setup.rate.as_f64()).round() as u64;
    let start = world.now();
    let mut running = Running::new(world, setup, slots, parallel, watch);
    let mut pictures = SendLoop::new(setup.sender.clone());
    let mut newest = Newest::default();
    // The encoder's.
    let mut busy = start;
    let mut held = Held::default();
    for number in 0..slots {
        let next = first.take().map_or_else(&mut picture, Ok);
        let mut next = next.map_err(ExperimentError::Source)?;
        let captured = start + setup.rate.time_of(number);
        running.outcome.slots.push(Slot::new(captured));
        progress(number, slots);
        next.captured = captured;
        next.captured_utc = Some(Utc::from_nanos(1_000_000_000 + captured.as_nanos()));
        newest.push((number as usize, next));
        // A newer one is there when the encoder is free again.
        if busy > start + setup.rate.time_of(number + 1) {
            continue;
        }
        running.go_on(captured.max(busy))?;
        running.note_lines();
        if let Some((slot, next)) = newest.take() {
            busy = offer(&mut running, &mut pictures, slot, &next, setup)?;
        }
        held.add([pictures.states().0, running.receiving.receiver.states()]);
    }
    let end = start + setup.duration;
    running.go_on(end.max(busy))?;
    running.note_carried();
    running.go_on(end + AFTER)?;
    running.compare()?;
    let mut outcome = running.finish(setup);
    outcome.counters = pictures.counters();
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
    while !world.is_up() {
        if world.now() >= Time::ZERO + CONNECT {
            return Err(ExperimentError::NoLink);
        }
        world.step(world.now() + Duration::from_millis(5));
    }
    // A line that carries nothing yet does not keep the others waiting for long.
    let latest = world.now() + FURTHER_PATHS;
    while !world.has_all_paths() && world.now() < latest {
        world.step(world.now() + Duration::from_millis(5));
    }
    let mut open = |end, channel, options| match world.link(end) {
        Some(link) => link.open(channel, options).map_err(failed),
        None => Err(ExperimentError::NoLink),
    };
    open(End::Near, VIDEO, video_options(setup.parity))?;
    if setup.sound.is_some() {
        open(End::Near, SOUND, sound_options())?;
    }
    open(End::Far, REPORTS, report_options())
}

/// Has a picture encoded and sends what fits, while time goes on by what each step takes. Returns until when the encoder is busy.
fn offer(
    running: &mut Running<'_>,
    pictures: &mut SendLoop,
    slot: usize,
    picture: &Picture,
    setup: &Setup,
) -> Result<Time, ExperimentError> {
    let (parallel, cost) = (running.parallel, setup.cost);
    let stamps = Stamps::captured_at(picture.captured).with(Stage::Queued, picture.captured);
    let begun = running.world.now();
    pictures.encode(begun, picture, stamps, &mut running.near(), parallel)?;
    let Some(coding) = pictures.coding() else { unreachable!("a picture was encoded") };
    running.go_on(begun + cost.encoding(setup.sender.codec, picture.size(), coding))?;
    let now = running.world.now();
    let chosen = pictures.choose(now, &mut running.near(), parallel)?;
    if chosen.is_some_and(|decision| decision.reason == Reason::Searched) {
        running.go_on(now + cost.searching(coding.size))?;
    }
    let now = running.world.now();
    let offered = pictures.send(now, &mut running.near()).map_err(SendError::from)?;
    let Some(Offered { decision, bytes, .. }) = offered else { unreachable!("it was decided") };
    running.outcome.slots[slot].bytes = bytes;
    if let Some(name) = decision.number {
        running.sent.insert(name, (slot, picture.clone()));
    }
    running.outcome.decisions.push(decision);
    let speed = pictures.speed();
    let tried = pictures.rest(now, parallel)?;
    let mut busy = now + tried.map_or(Duration::ZERO, |size| cost.comparison(picture.size(), size, speed));
    while let Some(aside) = pictures.aside(busy, parallel) {
        let took = match aside {
            Aside::Encoded(coding) => cost.encoding(setup.sender.codec, picture.size(), coding),
            Aside::Compared(size) => cost.comparison(picture.size(), size, speed),
            Aside::Judged(size) => cost.judging(size),
        };
        busy += took;
        pictures.aside_took(busy, took);
    }
    while let Some(choice) = pictures.poll_codec_choice() {
        running.outcome.codecs.push((now, choice));
    }
    Ok(busy)
}
