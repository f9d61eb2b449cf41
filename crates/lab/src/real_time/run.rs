//! A whole run: the system that is measured, over lines without limit for the testbed's own delay, and over the network.

use super::clip::Clip;
use super::field::{Field, RealTime, Testbed};
use super::lines::{Lines, Way};
use super::ours::{self, Direct};
use super::peer::{self, Webrtc};
use super::process::Watch;
use super::scratch::Scratch;
use crate::experiment::{Line, Outcome, Summary};
use crate::link::Ends;
use anyhow::{Context, Result, ensure};
use glassline_io::child::Signals;
use std::time::Duration;

/// Which system is measured.
#[derive(Clone, Debug)]
pub enum Who {
    /// `glassline send` and `glassline receive`.
    Direct(Direct),
    /// A browser's WebRTC.
    Webrtc(Webrtc),
}

/// What is tried.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The lines between both ends, as many as the [`Ends`] have. Of several, each is a path of the link; a browser
    /// has one.
    pub lines: Vec<Line>,
    /// What all chance follows from.
    pub seed: u64,
    /// How long, from the capture of the first picture that is shown.
    pub duration: Duration,
    /// For so long the same is done before over lines without limit and delay: the testbed's own delay.
    pub testbed: Option<Duration>,
    /// The system that sends and receives.
    pub who: Who,
}

/// A whole experiment.
#[derive(Debug)]
pub struct Measured {
    /// What became of each picture.
    pub outcome: Outcome,
    /// The figures.
    pub summary: Summary,
    /// What only a real-time run has.
    pub real_time: RealTime,
}

/// Sends `clip` over the lines between `ends` and tells what came of it. Programs are started by the calling thread, and end with it.
/// `signals` are this process'; one that asks for the end ends the experiment. `progress` is told what happens next.
///
/// # Errors
/// Where a program cannot be started or ends by itself, no picture comes, or a signal comes.
pub fn run(
    setup: &Setup,
    clip: &Clip,
    ends: Ends,
    scratch: &Scratch,
    signals: &Signals,
    mut progress: impl FnMut(&str),
) -> Result<Measured> {
    ensure!(
        setup.lines.len() == 1 || matches!(setup.who, Who::Direct(_)),
        "a browser's connection uses one path: give one line"
    );
    let mut field = Field { lines: Lines::new(ends), clip, scratch, watch: Watch::new(signals) };
    let mut once = |way: &Way, length| match &setup.who {
        Who::Direct(direct) => ours::run(&mut field, direct, way, length),
        Who::Webrtc(peer) => peer::run(&mut field, peer, way, length),
    };
    let testbed = setup.testbed.map(|length| -> Result<Testbed> {
        progress("without a network");
        let way = Way { lines: vec![Line::default(); setup.lines.len()], seed: setup.seed, is_judged: false };
        let summary = once(&way, length).context("without a network")?.outcome(&way).summary();
        let Summary { delay_p50_ms, delay_p95_ms, shown_per_s, .. } = summary;
        Ok(Testbed { delay_p50_ms, delay_p95_ms, shown_per_s })
    });
    let testbed = testbed.transpose()?;
    progress("over the network");
    let way = Way { lines: setup.lines.clone(), seed: setup.seed, is_judged: true };
    let run = once(&way, setup.duration)?;
    let real_time = run.real_time(testbed);
    let outcome = run.outcome(&way);
    let summary = Summary { bits_per_s: run.bits_per_s, ..outcome.summary() };
    Ok(Measured { outcome, summary, real_time })
}
