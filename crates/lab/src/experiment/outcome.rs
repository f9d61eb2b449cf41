//! What came of an experiment's pictures.

use super::timeline::StageTime;
use crate::link::Direction;
use glassline_direct::{CodecChoice, Decision, ReceiverCounters, SenderCounters};
use glassline_measure::daala_ssim::DaalaSsim;
use glassline_measure::ssim::{Ssim, decibels};
use glassline_media::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// One picture of the source.
#[derive(Clone, Debug)]
pub struct Slot {
    /// When it was captured.
    pub captured: Time,
    /// When it was shown, if it was.
    pub shown: Option<Time>,
    /// How near it was then to what was captured: SSIM of luma.
    pub ssim_y: Option<f64>,
    /// The same as the tools of Daala compute it.
    pub daala_ssim: Option<f64>,
    /// Bytes of its message, if one was sent.
    pub bytes: Option<usize>,
    /// Bytes of packets that were sent to the way of the video from its capture until the next one's, on all lines.
    pub sent_bytes: u64,
    /// What that way could have carried in this time, on all lines: nothing where it was off. `None` where it has no
    /// bound.
    pub capacity_bytes: Option<f64>,
}

impl Slot {
    /// A picture of which nothing has come yet.
    pub(crate) fn new(captured: Time) -> Slot {
        Slot {
            captured,
            shown: None,
            ssim_y: None,
            daala_ssim: None,
            bytes: None,
            sent_bytes: 0,
            capacity_bytes: None,
        }
    }
}

/// Everything.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Each picture of the source, in order.
    pub slots: Vec<Slot>,
    /// What was decided of those that were encoded.
    pub decisions: Vec<Decision>,
    /// What was found out about the codec, where the sender chooses it.
    pub codecs: Vec<(Time, CodecChoice)>,
    /// SSIM over the samples of all that was shown.
    pub(crate) ssim: Ssim,
    /// The same as the tools of Daala compute it.
    pub(crate) daala_ssim: DaalaSsim,
    /// Bytes of packets that the way of the video could have carried in that time, on all lines; `None` where it has no
    /// rate.
    pub(crate) capacity_bytes: Option<f64>,
    /// Bytes of packets that it has carried.
    pub(crate) carried_bytes: u64,
    /// Of the queue before the bottleneck, over the packets of all lines.
    pub(crate) queue_p50: Duration,
    pub(crate) queue_p95: Duration,
    /// Packets that the network has lost or dropped.
    pub(crate) dropped_packets: u64,
    pub(crate) counters: SenderCounters,
    /// What the receiver has counted; `None` where that is not known.
    pub(crate) receiver: Option<ReceiverCounters>,
    /// States that both ends held, on average and at most.
    pub(crate) states: [(f64, u64); 2],
    /// Of the sound, where there was some.
    pub(crate) sound: Option<SoundSummary>,
    /// Where the time of pictures that were shown went.
    pub(crate) stages: Vec<StageTime>,
    /// Of each line's way of the video, in their order; empty where that is not known.
    pub lines: Vec<LineOutcome>,
}

/// What one line has done.
#[derive(Clone, Debug)]
pub struct LineOutcome {
    /// Bytes of packets that it could have carried while pictures were captured; `None` where it has no rate.
    pub(crate) capacity_bytes: Option<f64>,
    /// Bytes of packets that it has carried in that time.
    pub(crate) carried_bytes: u64,
    /// How long that was.
    pub(crate) duration: Duration,
    /// Of the queue before its bottleneck.
    pub(crate) queue_p50: Duration,
    pub(crate) queue_p95: Duration,
    /// Packets that it has lost or dropped.
    pub(crate) dropped_packets: u64,
    /// What happened on it over time, from the capture of the first picture to that of the last.
    pub direction: Direction,
}

impl LineOutcome {
    /// The figures.
    pub fn summary(&self) -> LineSummary {
        LineSummary {
            used: used(self.capacity_bytes, self.carried_bytes),
            bits_per_s: self.carried_bytes as f64 * 8.0 / self.duration.as_secs_f64().max(1e-3),
            queue_p50_ms: ms(self.queue_p50),
            queue_p95_ms: ms(self.queue_p95),
            dropped_packets: self.dropped_packets,
        }
    }
}

/// The figures of one of several lines, in the direction of the video.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LineSummary {
    /// The share of what it could carry that was used, packets and all; `None` where it has no bound.
    pub used: Option<f64>,
    /// Bits a second of packets that it has carried.
    pub bits_per_s: f64,
    /// How long packets waited before its bottleneck, ms: the median,
    pub queue_p50_ms: f64,
    /// and the 95th percentile.
    pub queue_p95_ms: f64,
    /// Packets that it has lost.
    pub dropped_packets: u64,
}

/// The figures of an experiment's sound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SoundSummary {
    /// Messages that were sent.
    pub sent: u64,
    /// Of them, those that came.
    pub arrived: u64,
    /// How old those were when they came, ms: the 95th percentile.
    pub delay_p95_ms: f64,
}

/// What the sender found out about codec or size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChoiceSummary {
    /// When, in seconds after the first picture.
    pub at_s: f64,
    /// The codec that is used from then on.
    pub codec: String,
    /// With AV1 the size; VP8 finds it picture by picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// Codec or size are others than before.
    pub changed: bool,
    /// Why.
    pub reason: String,
    /// By how much what was compared was better, dB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain_db: Option<f64>,
}

/// The figures of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Pictures of the source.
    pub pictures: u64,
    /// Of them, sent, and shown.
    pub sent: u64,
    /// Of them, shown.
    pub shown: u64,
    /// Pictures a second that were shown.
    pub shown_per_s: f64,
    /// Delay from capture to display by the paper's rule, ms: the median.
    pub delay_p50_ms: f64,
    /// Its 95th percentile.
    pub delay_p95_ms: f64,
    /// Its 99th.
    pub delay_p99_ms: f64,
    /// The longest.
    pub delay_max_ms: f64,
    /// The mean SSIM of luma of what was shown, dB: -10 log10(1 - SSIM).
    pub ssim_y_db: Option<f64>,
    /// The same as the tools of Daala compute it, and as the paper's figures are made: the mean of SSIM, in decibels. Not to be
    /// compared with the one above.
    pub ssim_daala_db: Option<f64>,
    /// Bits a second of video.
    pub bits_per_s: f64,
    /// The share of what the way of the video could carry, on all lines, that was used, packets and all.
    pub used: Option<f64>,
    /// How long packets waited before the bottleneck, ms: the median,
    pub queue_p50_ms: f64,
    /// and the 95th percentile.
    pub queue_p95_ms: f64,
    /// Packets that the network has lost.
    pub dropped_packets: u64,
    /// Pictures that the sender knows to be lost.
    pub lost: u64,
    /// Pictures that came whole and could not be decoded, or of which the hash is not that of the sender's reconstruction; `None`
    /// in real time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damaged: Option<u64>,
    /// Reports of the receiver that name another state than the sender has; `None` in real time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mismatches: Option<u64>,
    /// Pictures that did not fit and were not sent.
    pub skipped: u64,
    /// Pictures that needed no other.
    pub key: u64,
    /// The shares of encoded pictures of which the finest candidate was sent, one between, the coarsest, and none.
    pub chosen: [f64; 4],
    /// States that the sender held: mean and most.
    pub sender_states: (f64, u64),
    /// States that the receiver held.
    pub receiver_states: (f64, u64),
    /// Of the sound, where there was some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sound: Option<SoundSummary>,
    /// Pictures that were sent, by codec, where that was left to the sender.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sent_by_codec: BTreeMap<String, u64>,
    /// What the sender found out about codec and size, where that was left to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub codec_choices: Vec<ChoiceSummary>,
    /// Where the time of pictures that were shown went, stage by stage; empty where that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<StageTime>,
    /// Each line's figures, where there are several; empty with one, of which the figures above are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<LineSummary>,
}

/// The share of a capacity that was used.
fn used(capacity_bytes: Option<f64>, carried_bytes: u64) -> Option<f64> {
    capacity_bytes.map(|capacity| carried_bytes as f64 / capacity.max(1.0))
}

fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e5).round() / 100.0
}

impl Outcome {
    /// Each picture's delay by the paper's rule: to when it, or the next one that was shown, was shown. Those behind the last that
    /// was shown have none.
    pub fn delays(&self) -> Vec<(Time, Duration)> {
        let mut next: Option<Time> = None;
        let mut delays = Vec::with_capacity(self.slots.len());
        for slot in self.slots.iter().rev() {
            next = match (slot.shown, next) {
                (Some(shown), Some(next)) => Some(shown.min(next)),
                (shown, next) => shown.or(next),
            };
            delays.extend(next.map(|next| (slot.captured, next.since(slot.captured))));
        }
        delays.reverse();
        delays
    }

    /// How many pictures were sent in each codec, where that was left to the sender.
    fn sent_by_codec(&self) -> BTreeMap<String, u64> {
        let mut sent = BTreeMap::new();
        let decisions = self.decisions.iter().filter(|decision| decision.number.is_some());
        for decision in decisions.filter(|_| !self.codecs.is_empty()) {
            *sent.entry(decision.codec.name().to_owned()).or_default() += 1;
        }
        sent
    }

    fn codec_choices(&self) -> Vec<ChoiceSummary> {
        let begun = self.slots.first().map_or(Time::ZERO, |slot| slot.captured);
        let told = |(at, choice): &(Time, CodecChoice)| ChoiceSummary {
            at_s: (at.since(begun).as_secs_f64() * 1e3).round() / 1e3,
            codec: choice.codec.name().to_owned(),
            size: choice.size.map(|size| size.to_string()),
            changed: choice.changed,
            reason: choice.reason.name().to_owned(),
            gain_db: choice.reason.gain_db().map(|gain| (gain * 100.0).round() / 100.0),
        };
        self.codecs.iter().map(told).collect()
    }

    /// The figures.
    pub fn summary(&self) -> Summary {
        let mut delays: Vec<Duration> = self.delays().iter().map(|(_, delay)| *delay).collect();
        delays.sort_unstable();
        // By the nearest rank.
        let at = |quantile: f64| {
            let rank = (quantile * delays.len() as f64).ceil() as usize;
            delays.get(rank.saturating_sub(1)).map_or(0.0, |delay| ms(*delay))
        };
        let seconds = match (self.slots.first(), self.slots.last()) {
            (Some(first), Some(last)) => last.captured.since(first.captured).as_secs_f64().max(1e-3),
            _ => 1e-3,
        };
        let shown = self.slots.iter().filter(|slot| slot.shown.is_some()).count() as u64;
        let bytes: usize = self.slots.iter().filter_map(|slot| slot.bytes).sum();
        let encoded = (self.counters.pictures as f64).max(1.0);
        let [finest, between, coarsest] = self.counters.chosen.map(|count| count as f64 / encoded);
        Summary {
            pictures: self.slots.len() as u64,
            sent: self.counters.sent,
            shown,
            shown_per_s: shown as f64 / seconds,
            delay_p50_ms: at(0.5),
            delay_p95_ms: at(0.95),
            delay_p99_ms: at(0.99),
            delay_max_ms: at(1.0),
            ssim_y_db: self.ssim.plane(0).map(decibels).filter(|value| value.is_finite()),
            ssim_daala_db: self.daala_ssim.luma().map(decibels).filter(|value| value.is_finite()),
            bits_per_s: bytes as f64 * 8.0 / seconds,
            used: used(self.capacity_bytes, self.carried_bytes),
            queue_p50_ms: ms(self.queue_p50),
            queue_p95_ms: ms(self.queue_p95),
            dropped_packets: self.dropped_packets,
            lost: self.counters.lost,
            damaged: self.receiver.map(|counters| counters.damaged),
            mismatches: self.receiver.map(|_| self.counters.mismatches),
            skipped: self.counters.skipped,
            key: self.counters.key,
            chosen: [finest, between, coarsest, self.counters.skipped as f64 / encoded],
            sender_states: self.states[0],
            receiver_states: self.states[1],
            sound: self.sound,
            sent_by_codec: self.sent_by_codec(),
            codec_choices: self.codec_choices(),
            stages: self.stages.clone(),
            lines: match &self.lines[..] {
                [] | [_] => Vec::new(),
                several => several.iter().map(LineOutcome::summary).collect(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(captured: u64, shown: Option<u64>) -> Slot {
        Slot { shown: shown.map(Time::from_millis), ..Slot::new(Time::from_millis(captured)) }
    }

    #[test]
    fn a_picture_that_was_never_shown_arrives_with_the_next_one() {
        let slots =
            vec![slot(0, Some(50)), slot(40, None), slot(80, None), slot(120, Some(200)), slot(160, None)];
        let outcome = Outcome { slots, ..Outcome::default() };
        let delays: Vec<u128> = outcome.delays().iter().map(|(_, delay)| delay.as_millis()).collect();
        assert_eq!(delays, [50, 160, 120, 80]);
        let summary = outcome.summary();
        assert_eq!((summary.pictures, summary.shown, summary.delay_max_ms), (5, 2, 160.0));
    }
}
