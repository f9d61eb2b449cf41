//! The figures of a latency budget: how long each part of the way took, and what is told of that.

use crate::distribution::Distribution;
use crate::samples::Samples;
use glassline_media::{Stage, Stamps};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::time::Duration;

/// The budget at this end.
#[derive(Clone, Debug, Serialize)]
pub struct BudgetReport {
    /// Pictures that were looked at: whole, behind the first second, and followed by another one.
    pub pictures: u64,
    /// Those that say when they were captured.
    pub with_capture_time: u64,
    /// Those with the sender's stages, too. All figures are of these, or, where there are none, of those that say their
    /// capture.
    pub with_stages: u64,
    /// Those of these of which the server says when it passed them on; where there are some, all figures are of these.
    pub with_relay: u64,
    /// The parts of the way, in order; empty where nothing is known.
    pub steps: Vec<StepReport>,
    /// From capture to here, in milliseconds.
    pub total_ms: Option<Distribution>,
    /// From the encoder's queue to the first packet, in milliseconds, where the sender says it.
    pub first_packet_ms: Option<Distribution>,
    /// Pictures that came before their sender says that it had sent, or captured, them.
    pub from_the_future: u64,
    /// By how much at most they did, in milliseconds.
    pub future_ms_max: Option<f64>,
    /// By which clock arrivals are told: "server" or "local".
    pub clock: &'static str,
    /// How wrong that clock may be, in milliseconds, where it was asked for over the network.
    pub clock_uncertainty_ms: Option<f64>,
    /// What the sender says of its own clock: "unknown", "unsynchronised" or "synchronised".
    pub sender_clock: &'static str,
    /// How wrong that may be by its own estimate, in milliseconds.
    pub sender_clock_uncertainty_ms: Option<f64>,
    /// What a reader should know, in sentences.
    pub notes: Vec<String>,
    /// How long pictures took in all, in milliseconds, for plots.
    #[serde(skip)]
    pub totals_ms: Vec<f64>,
}

/// How long a part of the way took.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StepReport {
    /// The stage at which it began.
    #[serde(serialize_with = "name")]
    pub from: Stage,
    /// The stage at which it ended.
    #[serde(serialize_with = "name")]
    pub to: Stage,
    /// How long it took, in milliseconds.
    pub ms: Distribution,
}

fn name<S: Serializer>(stage: &Stage, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(stage.name())
}

/// Figures of one kind of pictures.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    /// By the stage at the end and the one at the start, so that they stand in the order of the way. Milliseconds.
    pub(super) steps: BTreeMap<(Stage, Stage), Samples>,
    pub(super) total: Samples,
    pub(super) first_packet: Samples,
}

impl Figures {
    /// A picture passed its stages then.
    pub(super) fn push(&mut self, stamps: &Stamps) {
        for step in stamps.budget() {
            self.steps.entry((step.to, step.from)).or_default().push(ms(step.time));
        }
        if let Some(total) = stamps.between(Stage::Captured, Stage::Received) {
            self.total.push(ms(total));
        }
        if let Some(first) = stamps.between(Stage::Queued, Stage::FirstSent) {
            self.first_packet.push(ms(first));
        }
    }
}

/// Milliseconds of a time.
pub(super) fn ms(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}
