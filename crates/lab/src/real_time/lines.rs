//! The lines between both sides, which carry packets for one run after the other.

use crate::experiment::{Line, LineOutcome};
use crate::link::{
    Addresses, Direction, DirectionSettings, Emulation, Ends, LineEnds, Networks, Report, Settings, line_seed,
};
use anyhow::{Result, ensure};
use glassline_transport::emulator::{Bin, Figures, LinkConfig, Service};

/// What the lines are like for one run.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) lines: Vec<Line>,
    pub(super) seed: u64,
    /// Pictures are compared with what was captured.
    pub(super) is_judged: bool,
}

/// The lines, whether they carry anything or not.
#[derive(Debug)]
pub(super) struct Lines {
    networks: Networks,
    /// Of each line, in their order.
    addresses: Vec<Addresses>,
    /// Their devices; none while they carry packets.
    idle: Vec<LineEnds>,
}

/// Lines that carry packets, in their order.
#[derive(Debug)]
pub(super) struct Emulations(Vec<(Addresses, Emulation)>);

/// What is left of a line when a run is over.
#[derive(Debug)]
pub(super) struct Carried {
    /// Of the whole run.
    pub(super) report: Report,
    /// Of the way of the video while it was looked at.
    pub(super) window: Figures,
}

impl Lines {
    /// Between both ends of these networks.
    pub(super) fn new(ends: Ends) -> Lines {
        let addresses = ends.lines.iter().map(|line| line.addresses.clone()).collect();
        Lines { networks: ends.networks, addresses, idle: ends.lines }
    }

    pub(super) fn networks(&self) -> &Networks {
        &self.networks
    }

    /// What each line's device is called inside, where there are several; none of a single line, which needs no choice.
    pub(super) fn devices(&self) -> impl Iterator<Item = &str> {
        let several = if self.addresses.len() > 1 { &self.addresses[..] } else { &[] };
        several.iter().map(|addresses| addresses.device.as_str())
    }

    /// Has each carry packets as `way` says of it; traces begin now.
    pub(super) fn start(&mut self, way: &Way) -> Result<Emulations> {
        let count = self.addresses.len();
        ensure!(self.idle.len() == count, "the lines are in use, or have failed");
        ensure!(way.lines.len() == count, "{} lines are described, and there are {count}", way.lines.len());
        let direction = |config: &LinkConfig| DirectionSettings { config: config.clone(), log: None };
        let mut started = Vec::with_capacity(count);
        let lines = std::mem::take(&mut self.idle).into_iter().zip(&way.lines);
        for (number, (LineEnds { near, far, addresses }, Line { up, down })) in (0..=u8::MAX).zip(lines) {
            let seed = line_seed(way.seed, number);
            let settings = Settings { up: direction(up), down: direction(down), seed };
            started.push((addresses, Emulation::start(near, far, settings)?));
        }
        Ok(Emulations(started))
    }

    /// Ends them, so that they can be started again. `windows` are those of [`Emulations::close_window`].
    pub(super) fn end(&mut self, emulations: Emulations, windows: Vec<Figures>) -> Result<Vec<Carried>> {
        let mut carried = Vec::with_capacity(windows.len());
        for ((addresses, emulation), window) in emulations.0.into_iter().zip(windows) {
            let ended = emulation.end()?;
            self.idle.push(LineEnds { near: ended.near, far: ended.far, addresses });
            carried.push(Carried { report: ended.report, window });
        }
        Ok(carried)
    }
}

impl Emulations {
    /// Whether one of them has ended by itself, which only an error makes it do.
    pub(super) fn have_failed(&self) -> bool {
        self.0.iter().any(|(_, emulation)| emulation.has_failed())
    }

    /// Begins to gather figures of what is looked at.
    pub(super) fn open_window(&self) {
        self.0.iter().for_each(|(_, emulation)| emulation.open_window());
    }

    /// The figures of each line's way of the video since the window was opened.
    pub(super) fn close_window(&self) -> Result<Vec<Figures>> {
        self.0.iter().map(|(_, emulation)| emulation.close_window().map(|[up, _]| up)).collect()
    }
}

impl Carried {
    /// What a line that was like `line` has done while it was looked at.
    pub(super) fn outcome(&self, line: &Line) -> LineOutcome {
        let all = Bin::merged(self.window.bins().0);
        let direction: Direction = self.report.up.within(self.window.clone());
        LineOutcome {
            capacity_bytes: match line.up.service {
                Service::Unlimited => None,
                Service::Rate(rate) => Some(rate as f64 / 8.0 * self.window.duration().as_secs_f64()),
                Service::Trace(_) | Service::TraceOnce(_) => Some(all.capacity_bytes as f64),
            },
            carried_bytes: all.departed_bytes,
            duration: self.window.duration(),
            queue_p50: self.window.queue_delay().quantile(0.5),
            queue_p95: self.window.queue_delay().quantile(0.95),
            dropped_packets: all.dropped_packets,
            direction,
        }
    }
}
