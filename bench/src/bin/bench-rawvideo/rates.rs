//! The measurements, and what they add to the report.

use crate::case::Case;
use crate::network::Network;
use crate::search::{Outcome, highest};
use crate::sender::Load;
use crate::terms::{LOST, RATE, SHARE};
use crate::trial::{Seen, Stage};
use crate::who::Who;
use anyhow::{Context, Result};
use glassline_bench::machine::Cores;
use glassline_bench::process::Others;
use glassline_bench::report::{OURS, Report};
use std::time::Duration;

/// Between these rates is searched, in Gbit/s of video.
const RATES: (f64, f64) = (0.5, 80.0);
/// How long receivers settle at a rate that all take.
const SETTLING: Duration = Duration::from_secs(1);
/// A rate that is not confirmed is lowered to this, so many times.
const LOWER: f64 = 0.96;
const CONFIRMATIONS: u32 = 6;
/// Pictures a second of 2160p.
const UHD_RATE: f64 = 60.0;
/// What 2160p60 of 10 bits may take of a core, and two paths of what one takes.
const UHD_SHARE: f64 = 40.0;
const TWO_PATHS: f64 = 1.6;
/// Who receives two paths.
const MERGED: &str = "glassline 2022-7";

#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) trial: Duration,
    pub(crate) confirm: Duration,
    pub(crate) long: Duration,
    pub(crate) steps: u32,
    /// Whether each run is told.
    pub(crate) tells: bool,
}

pub(crate) struct Bench {
    pub(crate) report: Report,
    pub(crate) cores: Option<Cores>,
    /// Measurements of ours that failed.
    pub(crate) failed: u64,
    times: Times,
}

/// A rate, and the run that has confirmed it.
struct Confirmed {
    seen: Seen,
    is_at_least: bool,
    others: f64,
}

impl Bench {
    pub(crate) fn new(report: Report, cores: Option<Cores>, times: Times) -> Bench {
        Bench { report, cores, failed: 0, times }
    }

    fn stage<'a>(&self, case: &Case, network: &'a Network, paths: u16) -> Result<Stage<'a>> {
        Stage::new(case, network, paths, (self.cores, self.times.tells))
    }

    /// The highest loss-free rate of everybody.
    pub(crate) fn rates(&mut self, case: &Case, network: &Network, who: &[Who]) {
        for &who in who.iter().filter(|who| who.takes(case)) {
            let outcome = self.rate(case, network, who);
            match outcome {
                Ok(Some(confirmed)) => self.add(case, who, &confirmed),
                Ok(None) => {
                    let (case, who) = (&case.name, who.name());
                    self.report.note(format!("FAILED {case}, {who}: it lost something at every rate"));
                    self.report.add(case, who, RATE, "Gbit/s", 0.0);
                }
                Err(error) => self.fail(&case.name, who, &format!("{error:#}")),
            }
        }
    }

    fn fail(&mut self, case: &str, who: Who, why: &str) {
        self.report.note(format!("FAILED {case}, {}: {why}", who.name()));
        self.failed += u64::from(matches!(who, Who::Ours | Who::Planes));
    }

    fn rate(&self, case: &Case, network: &Network, who: Who) -> Result<Option<Confirmed>> {
        let mut stage = self.stage(case, network, 1)?;
        let load = |gbps: f64, time| Load { bps: gbps * 1e9, settling: SETTLING, time, has_gso: true };
        let found = highest(RATES, self.times.steps, |gbps| {
            let seen = stage.run(who, load(gbps, self.times.trial), Duration::ZERO)?;
            if seen.lost == 0 || !seen.is_hiccup() {
                return Ok(seen.outcome());
            }
            Ok(stage.run(who, load(gbps, self.times.trial), Duration::ZERO)?.outcome())
        })?;
        let Some(mut gbps) = found.best else { return Ok(None) };
        for _ in 0..CONFIRMATIONS {
            let others = Others::begin()?;
            let seen = stage.run(who, load(gbps, self.times.confirm), Duration::ZERO)?;
            if seen.lost == 0 {
                return Ok(Some(Confirmed { seen, is_at_least: found.is_at_least, others: others.share()? }));
            }
            gbps *= LOWER;
        }
        Ok(None)
    }

    fn add(&mut self, case: &Case, who: Who, confirmed: &Confirmed) {
        let (case, who, seen) = (&case.name, who.name(), &confirmed.seen);
        let report = &mut self.report;
        report.disturbance(case, who, confirmed.others);
        report.add(case, who, RATE, "Gbit/s", seen.sent.bps() / 1e9);
        report.add(case, who, "CPU", "s/GB", seen.seconds_per_gb());
        let core = seen.core.as_secs_f64() / seen.sent.seconds;
        report.add_context(case, who, "its core", "%", core * 100.0);
        if let Some(in_place) = seen.in_place {
            report.add_context(case, who, "put in place by the kernel", "%", in_place * 100.0);
        }
        if confirmed.is_at_least {
            // In tables a one: the figure is the sender's, and the receiver could do more.
            report.add(case, who, "the sender could do no more", "", 1.0);
        }
    }

    /// What a packet may cost at a rate.
    pub(crate) fn work(&mut self, case: &Case, network: &Network, gbps: f64) {
        match self.most_work(case, network, gbps) {
            Ok(Some(nanos)) => {
                let name = format!("{}, {gbps} Gbit/s", case.name);
                let who = Who::Copy.name();
                self.report.add(&name, who, "work for a packet before the first is lost", "ns", nanos);
            }
            Ok(None) => self.fail(&case.name, Who::Copy, "it lost something with any work"),
            Err(error) => self.fail(&case.name, Who::Copy, &format!("{error:#}")),
        }
    }

    fn most_work(&self, case: &Case, network: &Network, gbps: f64) -> Result<Option<f64>> {
        let mut stage = self.stage(case, network, 1)?;
        let packets = stage.stream().packets()?.len() as f64;
        let frame_bits = stage.stream().frame_bytes()? as f64 * 8.0;
        // All the time that there is between two packets: no loop has that.
        let all = 1e9 / (gbps * 1e9 / frame_bits * packets);
        let load = Load { bps: gbps * 1e9, settling: SETTLING, time: self.times.trial, has_gso: true };
        let found = highest((all / 100.0, all * 1.2), self.times.steps, |nanos| {
            let seen = stage.run(Who::Copy, load, Duration::from_nanos(nanos as u64))?;
            Ok(Outcome { is_clean: seen.lost == 0, reached: nanos })
        })?;
        Ok(found.best)
    }

    /// 2160p60 by one path, and by two.
    pub(crate) fn uhd(&mut self, case: &Case, network: &Network) {
        let name = case.name.replacen("2160p", "2160p60", 1);
        for (who, paths) in [(OURS, 1), (MERGED, 2)] {
            if let Err(error) = self.watch(case, &name, network, (who, paths)) {
                self.fail(&name, Who::Ours, &format!("by {paths} paths: {error:#}"));
            }
        }
        let report = &mut self.report;
        if let Some(share) = report.value(&name, OURS, SHARE) {
            report.term(format!("{name}: {SHARE}, %"), share, UHD_SHARE, true);
        }
        if let Some(ratio) = report.ratio_of(&name, MERGED, SHARE) {
            report.term(format!("{name}: {SHARE} by two paths, times that by one"), ratio, TWO_PATHS, true);
        }
        for who in [OURS, MERGED] {
            if let Some(lost) = report.value(&name, who, LOST) {
                report.term(format!("{name}, {who}: {LOST}"), lost, 0.0, true);
            }
        }
    }

    fn watch(&mut self, case: &Case, name: &str, network: &Network, (who, paths): (&str, u16)) -> Result<()> {
        let mut stage = self.stage(case, network, paths)?;
        let bps = stage.stream().frame_bytes()? as f64 * 8.0 * UHD_RATE;
        let others = Others::begin()?;
        let load = Load { bps, settling: SETTLING, time: self.times.long, has_gso: true };
        let seen = stage.run(Who::Ours, load, Duration::ZERO).context("the run")?;
        let report = &mut self.report;
        report.disturbance(name, who, others.share()?);
        report.add(name, who, SHARE, "%", seen.share() * 100.0);
        report.add(name, who, "CPU", "s/GB", seen.seconds_per_gb());
        report.add(name, who, LOST, "", seen.lost as f64);
        report.add_context(name, who, "rate", "Gbit/s", seen.sent.bps() / 1e9);
        Ok(())
    }
}
