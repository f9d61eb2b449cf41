//! The rules, their limits, and how often a stream broke each of them.

use super::super::tstd::{Breach, EMPTY_WITHIN_S, Findings};
use crate::choice;
use serde::Serialize;

choice! {
    /// The standard with the limits that count.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Profile {
        /// ISO/IEC 13818-1.
        Iso = "iso" as default,
        /// DVB (TS 101 154, TR 101 290): a clock reference every 40 ms.
        Dvb = "dvb",
    }
}

/// A rule that a stream keeps or breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rule {
    /// Packets follow each other without a byte between.
    Sync,
    /// No packet is marked as damaged or contradicts itself.
    TransportError,
    /// Continuity counters follow.
    Continuity,
    /// The PAT comes often enough, ms.
    PatInterval,
    /// The PMT comes often enough, ms.
    PmtInterval,
    /// The clock comes often enough, ms.
    PcrInterval,
    /// The clock does not jump unannounced, s.
    ClockJump,
    /// At a constant rate the clock follows the position of its bytes, ns.
    PcrAccuracy,
    /// Time stamps come often enough, ms.
    PtsInterval,
    /// Decoding time stamps grow within a stream, ms.
    DtsOrder,
    /// Nothing is presented before it is decoded, ms.
    PtsBeforeDts,
    /// A unit is whole before it is decoded, ms.
    Late,
    /// A unit is decoded within a second of its first byte, ms; not of H.264 and H.265.
    HeldLong,
    /// A unit of H.264 or H.265 is decoded within ten seconds of its first byte, ms.
    HeldLongH264,
    /// H.264's transport buffer does not overflow, bytes.
    TransportBuffer,
    /// H.264's transport buffer is empty at least once a second, ms.
    TransportEmpties,
    /// H.264's multiplexing buffer does not overflow, bytes.
    MultiplexBuffer,
    /// H.264's elementary stream buffer does not underflow, bytes.
    ElementaryBuffer,
}

impl Rule {
    /// All of them.
    pub const ALL: [Rule; 18] = [
        Rule::Sync,
        Rule::TransportError,
        Rule::Continuity,
        Rule::PatInterval,
        Rule::PmtInterval,
        Rule::PcrInterval,
        Rule::ClockJump,
        Rule::PcrAccuracy,
        Rule::PtsInterval,
        Rule::DtsOrder,
        Rule::PtsBeforeDts,
        Rule::Late,
        Rule::HeldLong,
        Rule::HeldLongH264,
        Rule::TransportBuffer,
        Rule::TransportEmpties,
        Rule::MultiplexBuffer,
        Rule::ElementaryBuffer,
    ];

    /// What the rule is about, in words.
    pub const fn words(self) -> &'static str {
        match self {
            Rule::Sync => "packets lie end to end",
            Rule::TransportError => "packets are whole",
            Rule::Continuity => "continuity counters follow",
            Rule::PatInterval => "PAT interval",
            Rule::PmtInterval => "PMT interval",
            Rule::PcrInterval => "clock (PCR) interval",
            Rule::ClockJump => "the clock's jumps are announced",
            Rule::PcrAccuracy => "clock against position",
            Rule::PtsInterval => "time stamp interval",
            Rule::DtsOrder => "decoding times grow",
            Rule::PtsBeforeDts => "shown after decoded",
            Rule::Late => "units are whole when decoded",
            Rule::HeldLong => "units wait for decoding",
            Rule::HeldLongH264 => "H.264 units wait for decoding",
            Rule::TransportBuffer => "transport buffer overflow",
            Rule::TransportEmpties => "transport buffer not empty",
            Rule::MultiplexBuffer => "multiplexing buffer overflow",
            Rule::ElementaryBuffer => "elementary buffer underflow",
        }
    }

    /// Where it stands; of 13818-1 where nothing else is said.
    pub const fn clause(self) -> &'static str {
        match self {
            Rule::Sync => "§2.4.3.2",
            Rule::TransportError | Rule::Continuity => "§2.4.3.3",
            Rule::PatInterval | Rule::PmtInterval => "TR 101 290 §5.2.1",
            Rule::PcrInterval => "§2.7.2",
            Rule::ClockJump => "§2.4.3.5",
            Rule::PcrAccuracy => "§2.4.2.2",
            Rule::PtsInterval => "§2.7.4",
            Rule::DtsOrder | Rule::PtsBeforeDts => "§2.4.3.7",
            Rule::Late | Rule::HeldLong | Rule::HeldLongH264 | Rule::TransportEmpties => "§2.4.2.6",
            Rule::TransportBuffer => "§2.4.2.3",
            Rule::MultiplexBuffer | Rule::ElementaryBuffer => "§2.14.3.1",
        }
    }

    /// The unit of [`Verdict::worst`] and [`Verdict::limit`]; empty where only breaches are counted.
    pub const fn unit(self) -> &'static str {
        match self {
            Rule::Sync | Rule::TransportError | Rule::Continuity => "",
            Rule::ClockJump => "s",
            Rule::PcrAccuracy => "ns",
            Rule::TransportBuffer | Rule::MultiplexBuffer | Rule::ElementaryBuffer => "bytes",
            _ => "ms",
        }
    }

    /// The largest value that is right.
    pub const fn limit(self, profile: Profile) -> f64 {
        match self {
            Rule::PatInterval | Rule::PmtInterval => 500.0,
            Rule::PcrInterval => match profile {
                Profile::Iso => 100.0,
                Profile::Dvb => 40.0,
            },
            Rule::PcrAccuracy => 500.0,
            Rule::PtsInterval => 700.0,
            Rule::HeldLong => 1000.0,
            Rule::HeldLongH264 => 10_000.0,
            Rule::TransportEmpties => EMPTY_WITHIN_S * 1e3,
            _ => 0.0,
        }
    }

    /// What a value may be beyond the limit by rounding: a tick of the stamps or of the clock.
    const fn rounding(self) -> f64 {
        match self {
            Rule::PcrAccuracy => 1e9 / 27e6,
            Rule::PatInterval
            | Rule::PmtInterval
            | Rule::PcrInterval
            | Rule::PtsInterval
            | Rule::HeldLong
            | Rule::HeldLongH264 => 1.0 / 90.0,
            _ => 0.0,
        }
    }
}

/// The verdict on one rule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Which.
    pub rule: Rule,
    /// How often it could have been broken; 0: nothing was there to judge.
    pub checked: u64,
    /// How often it was.
    pub broken: u64,
    /// The greatest value, broken or not, in [`Rule::unit`]; of buffers, by how much at most.
    pub worst: Option<f64>,
    /// The largest that is right.
    pub limit: f64,
    /// Number of the packet at which it was broken first, from 0; `None` for buffers.
    pub first_packet: Option<u64>,
}

/// Counts breaches.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    profile: Profile,
    verdicts: [Verdict; Rule::ALL.len()],
}

impl Tally {
    pub(super) fn new(profile: Profile) -> Tally {
        let verdicts = Rule::ALL.map(|rule| Verdict {
            rule,
            checked: 0,
            broken: 0,
            worst: None,
            limit: rule.limit(profile),
            first_packet: None,
        });
        Tally { profile, verdicts }
    }

    /// A value that must not exceed the rule's limit, at packet `packet`.
    pub(super) fn at_most(&mut self, rule: Rule, value: f64, packet: u64) {
        let is_broken = value > rule.limit(self.profile) + rule.rounding();
        self.note(rule, is_broken, value, packet);
    }

    /// The rule was kept or broken at packet `packet`.
    pub(super) fn note(&mut self, rule: Rule, is_broken: bool, value: f64, packet: u64) {
        let verdict = self.of(rule);
        verdict.checked += 1;
        if !rule.unit().is_empty() {
            verdict.worst = Some(verdict.worst.map_or(value, |worst| worst.max(value)));
        }
        if is_broken {
            verdict.broken += 1;
            verdict.first_packet = verdict.first_packet.or(Some(packet));
        }
    }

    /// The rule was looked at so often, and broken so often, in all.
    pub(super) fn total(&mut self, rule: Rule, checked: u64, broken: u64) {
        let verdict = self.of(rule);
        (verdict.checked, verdict.broken) = (checked, broken);
    }

    /// What the model of the buffers has found.
    pub(super) fn model(&mut self, found: &Findings) {
        let all: [(Rule, Breach, f64); 4] = [
            (Rule::TransportBuffer, found.transport_overflow, 1.0),
            (Rule::TransportEmpties, found.not_emptied, 1e3),
            (Rule::MultiplexBuffer, found.multiplex_overflow, 1.0),
            (Rule::ElementaryBuffer, found.underflow, 1.0),
        ];
        for (rule, breach, scale) in all {
            self.total(rule, found.units, breach.count);
            self.of(rule).worst = (breach.count > 0).then_some(breach.worst * scale);
        }
    }

    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        self.verdicts.to_vec()
    }

    fn of(&mut self, rule: Rule) -> &mut Verdict {
        // The order of `Rule::ALL` is that of the enum.
        &mut self.verdicts[rule as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_its_place() {
        for (index, rule) in Rule::ALL.into_iter().enumerate() {
            assert_eq!(rule as usize, index);
            assert!(!rule.words().is_empty() && rule.clause().contains('§'));
        }
        assert_eq!(Rule::PcrInterval.limit(Profile::Dvb), 40.0);
    }

    #[test]
    fn limits_are_inclusive() {
        let mut tally = Tally::new(Profile::Iso);
        tally.at_most(Rule::PcrInterval, 100.0, 7);
        tally.at_most(Rule::PcrInterval, 101.0, 8);
        let verdict = tally.verdicts()[Rule::PcrInterval as usize];
        assert_eq!((verdict.checked, verdict.broken, verdict.worst), (2, 1, Some(101.0)));
        assert_eq!(verdict.first_packet, Some(8));
    }
}
