//! Packets between two devices, each at the time that the emulator says.

use super::report::{Direction, Millis, Report};
use anyhow::{Context, Result};
use glassline_io::clock::Clock;
use glassline_io::poll::{Poller, Waker, Watch};
use glassline_io::process;
use glassline_io::timer::Timer;
use glassline_io::tun::Tun;
use glassline_media::Time;
use glassline_transport::emulator::{Figures, Link, LinkConfig, Random, Service, Spread};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// What a link is like, and where it is written down.
pub struct Settings {
    /// From near to far.
    pub up: DirectionSettings,
    /// From far to near.
    pub down: DirectionSettings,
    /// All chance follows from it.
    pub seed: u64,
}

/// One direction.
pub struct DirectionSettings {
    /// What it is like.
    pub config: LinkConfig,
    /// Takes its log, in Mahimahi's format.
    pub log: Option<Box<dyn Write + Send>>,
}

/// A link that carries packets.
#[derive(Debug)]
pub struct Emulation {
    stop: Arc<AtomicBool>,
    waker: Waker,
    orders: mpsc::Sender<Order>,
    thread: JoinHandle<Result<Carried>>,
}

/// What is left when a link has ended.
#[derive(Debug)]
pub struct Carried {
    /// What happened.
    pub report: Report,
    /// The device inside, for another link.
    pub near: Tun,
    /// The device outside.
    pub far: Tun,
}

/// What the link's thread is asked for while it runs.
#[derive(Debug)]
enum Order {
    /// From now on figures are gathered apart.
    Open,
    /// They are wanted: of the ways up and down.
    Close(mpsc::Sender<[Figures; 2]>),
}

const NEAR: u64 = 0;
const FAR: u64 = 1;
const WOKEN: u64 = 2;
const TIMER: u64 = 3;
/// Packets that are read before what is due is looked at again.
const BATCH: usize = 32;
/// The largest IP packet.
const PACKET_BYTES: usize = 65_536;
/// Logs and figures are brought up to date this often at least.
const ROUND: Duration = Duration::from_millis(100);

impl Emulation {
    /// Starts the thread that carries packets. Both devices are its own from now on.
    ///
    /// # Errors
    /// Where a configuration is out of its range, or the system has no descriptors or threads left.
    pub fn start(near: Tun, far: Tun, settings: Settings) -> Result<Emulation> {
        let poller = Poller::new()?;
        let timer = Timer::new()?;
        poller.add(&near, NEAR, Watch::Accepts)?;
        poller.add(&far, FAR, Watch::Accepts)?;
        poller.add(&timer, TIMER, Watch::Accepts)?;
        let waker = Waker::new(&poller, WOKEN)?;
        let mut seeds = Random::new(settings.seed);
        let clock = Clock::new();
        let start = clock.now();
        let mut lane = |way: DirectionSettings| Lane::new(way, seeds.next_u64(), start, &clock);
        let (up, down) = (lane(settings.up)?, lane(settings.down)?);
        let stop = Arc::new(AtomicBool::new(false));
        let (orders, ordered) = mpsc::channel();
        let mut carrier = Carrier {
            poller,
            timer,
            waker: waker.clone(),
            stop: Arc::clone(&stop),
            orders: ordered,
            clock,
            near,
            far,
            up,
            down,
            spare: Vec::new(),
            lateness: Spread::default(),
            refused: 0,
            others: 0,
        };
        let thread = std::thread::Builder::new()
            .name("link".to_owned())
            .spawn(move || {
                process::hurry_thread();
                carrier.run()?;
                let report = carrier.report(settings.seed);
                Ok(Carried { report, near: carrier.near, far: carrier.far })
            })
            .context("cannot start a thread")?;
        Ok(Emulation { stop, waker, orders, thread })
    }

    /// Gathers figures of what happens from now on, apart from those of the whole.
    pub fn open_window(&self) {
        // Where the thread has ended, its error is told by `stop`.
        let _ = self.orders.send(Order::Open);
        self.waker.wake();
    }

    /// The figures of the ways up and down since [`Emulation::open_window`].
    ///
    /// # Errors
    /// Where no window is open, or the link has failed.
    pub fn close_window(&self) -> Result<[Figures; 2]> {
        let (answer, answered) = mpsc::channel();
        let _ = self.orders.send(Order::Close(answer));
        self.waker.wake();
        answered.recv().map_err(|_| anyhow::anyhow!("the link has no figures of that time"))
    }

    /// Whether it has ended by itself, which only an error makes it do; [`Emulation::stop`] then tells it.
    pub fn has_failed(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends it; what is on its way is lost. Says what happened.
    ///
    /// # Errors
    /// What made it end by itself: a device that is gone, a log that cannot be written.
    pub fn stop(self) -> Result<Report> {
        self.end().map(|carried| carried.report)
    }

    /// The same, and gives the devices back, for another link between the same networks.
    ///
    /// # Errors
    /// As [`Emulation::stop`].
    pub fn end(self) -> Result<Carried> {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        self.thread.join().map_err(|_| anyhow::anyhow!("the link's thread panicked"))?
    }
}

/// One direction as it runs.
struct Lane {
    link: Link<Vec<u8>>,
    figures: Figures,
    /// Those of the window that is open.
    window: Option<Figures>,
    log: Option<Box<dyn Write + Send>>,
    start: Time,
    text: String,
}

impl Lane {
    fn new(way: DirectionSettings, seed: u64, start: Time, clock: &Clock) -> Result<Lane> {
        let mut link = Link::new(way.config, seed, start)?;
        link.record_events();
        let figures = Figures::new(start);
        let mut lane = Lane { link, figures, window: None, log: way.log, start, text: String::new() };
        // What Mahimahi's tools for its logs look for.
        let utc_ms = clock.utc_at(start).as_nanos() / 1_000_000;
        lane.text = format!("# init timestamp: {utc_ms}\n# base timestamp: 0\n");
        Ok(lane)
    }

    /// Takes down what has happened up to `now`.
    fn note(&mut self, now: Time) -> std::io::Result<()> {
        self.link.advance(now);
        while let Some(event) = self.link.poll_event() {
            self.figures.add(&event);
            if let Some(window) = &mut self.window {
                window.add(&event);
            }
            if self.log.is_some() {
                event.write_mahimahi(self.start, &mut self.text);
            }
        }
        self.figures.advance(now);
        if let Some(window) = &mut self.window {
            window.advance(now);
        }
        if let Some(log) = &mut self.log {
            log.write_all(self.text.as_bytes())?;
        }
        self.text.clear();
        Ok(())
    }
}

struct Carrier {
    poller: Poller,
    timer: Timer,
    waker: Waker,
    stop: Arc<AtomicBool>,
    orders: mpsc::Receiver<Order>,
    clock: Clock,
    near: Tun,
    far: Tun,
    up: Lane,
    down: Lane,
    /// Buffers of packets that are gone.
    spare: Vec<Vec<u8>>,
    /// How much later than due packets were handed on.
    lateness: Spread,
    /// Packets that the system did not take.
    refused: u64,
    /// Packets that are no IPv4, and are not carried.
    others: u64,
}

impl Carrier {
    fn run(&mut self) -> Result<()> {
        let mut ready = Vec::new();
        let mut buffer = vec![0; PACKET_BYTES];
        let mut noted = self.clock.now();
        while !self.stop.load(Ordering::Relaxed) {
            self.deliver();
            let now = self.clock.now();
            if now.since(noted) >= ROUND {
                self.up.note(now).and_then(|()| self.down.note(now)).context("cannot write the log")?;
                noted = now;
            }
            let next = [&self.up, &self.down].into_iter().filter_map(|way| way.link.poll_timeout()).min();
            self.timer.set(next.unwrap_or(Time::NEVER).min(noted + ROUND))?;
            self.poller.wait(None, &mut ready)?;
            for event in &ready {
                match event.token {
                    NEAR => take_in(&self.near, &mut self.up, &self.clock, &mut self.spare, &mut buffer),
                    FAR => take_in(&self.far, &mut self.down, &self.clock, &mut self.spare, &mut buffer),
                    WOKEN => {
                        self.waker.clear();
                        self.obey()?;
                        Ok(0)
                    }
                    _ => self.timer.take().map(|_| 0),
                }
                .map(|others| self.others += others)
                .context("a device of the link has failed")?;
            }
        }
        let now = self.clock.now();
        self.up.note(now).and_then(|()| self.down.note(now)).context("cannot write the log")?;
        for lane in [&mut self.up, &mut self.down] {
            lane.log.as_mut().map_or(Ok(()), |log| log.flush()).context("cannot write the log")?;
        }
        Ok(())
    }

    /// Does what it is asked for.
    fn obey(&mut self) -> Result<()> {
        while let Ok(order) = self.orders.try_recv() {
            let now = self.clock.now();
            self.up.note(now).and_then(|()| self.down.note(now)).context("cannot write the log")?;
            match order {
                Order::Open => {
                    (self.up.window, self.down.window) = (Some(Figures::new(now)), Some(Figures::new(now)));
                }
                Order::Close(answer) => {
                    if let (Some(up), Some(down)) = (self.up.window.take(), self.down.window.take()) {
                        // The receiver of the answer may be gone.
                        let _ = answer.send([up, down]);
                    }
                }
            }
        }
        Ok(())
    }

    /// Hands on what is due.
    fn deliver(&mut self) {
        for (lane, to) in [(&mut self.up, &self.far), (&mut self.down, &self.near)] {
            while let Some(delivered) = lane.link.poll(self.clock.now()) {
                if to.write(&delivered.packet).is_err() {
                    self.refused += 1;
                }
                self.lateness.add(self.clock.now().since(delivered.at));
                if self.spare.len() < 4 * BATCH {
                    self.spare.push(delivered.packet);
                }
            }
        }
    }

    fn report(&self, seed: u64) -> Report {
        let direction = |lane: &Lane| {
            let rate_bps = match lane.link.config().service {
                Service::Rate(rate) => Some(rate as f64),
                _ => None,
            };
            Direction::new(lane.link.counters(), lane.figures.clone(), rate_bps)
        };
        Report {
            schema: 1,
            seed,
            duration_s: self.up.figures.duration().as_secs_f64(),
            up: direction(&self.up),
            down: direction(&self.down),
            lateness_ms: Millis::of(&self.lateness),
            not_ipv4: self.others,
            refused: self.refused,
        }
    }
}

/// Reads what waits in a device into a link. Returns how many packets are not IPv4 and were left out.
fn take_in(
    from: &Tun,
    lane: &mut Lane,
    clock: &Clock,
    spare: &mut Vec<Vec<u8>>,
    buffer: &mut [u8],
) -> std::io::Result<u64> {
    let mut others = 0;
    for _ in 0..BATCH {
        let Some(length) = from.read(buffer)? else { break };
        // What IPv6 sends by itself on every new device (router solicitations, group reports) is no traffic to measure.
        if buffer[0] >> 4 != 4 {
            others += 1;
            continue;
        }
        let mut packet = spare.pop().unwrap_or_default();
        packet.clear();
        packet.extend_from_slice(&buffer[..length]);
        lane.link.push(clock.now(), length, packet);
    }
    Ok(others)
}
