//! Which rules of MPEG transport streams a stream keeps.

use glassline_media::container::ts::conformance::{Checker, Profile, Verdict};
use serde::Serialize;

/// The verdicts on one stream.
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    /// The standard that sets the limits.
    pub profile: Profile,
    /// Whether the stream has a constant rate; `None` where that is not known.
    pub constant_rate: Option<bool>,
    /// How many rules are broken.
    pub rules_broken: usize,
    /// Each rule's verdict.
    pub rules: Vec<RuleReport>,
    /// The most that each buffer held.
    pub buffers: Buffers,
}

/// The most that the buffers of the model decoder (ISO/IEC 13818-1 §2.4.2) held, and how many units went through.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Buffers {
    /// Access units that were decoded.
    pub units_decoded: u64,
    /// The transport buffer.
    pub transport_bytes: f64,
    /// The multiplex buffer.
    pub multiplex_bytes: f64,
    /// The elementary stream's buffer.
    pub elementary_bytes: f64,
}

/// A rule, and whether it is kept.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RuleReport {
    /// How often it was kept and broken.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The unit of its figures.
    pub unit: &'static str,
    /// Where the standard has it.
    pub clause: &'static str,
}

impl CheckReport {
    pub(super) fn new(checker: &Checker, profile: Profile) -> CheckReport {
        let verdicts = checker.verdicts();
        let [transport_bytes, multiplex_bytes, elementary_bytes] = checker.buffers().highest_bytes;
        CheckReport {
            profile,
            constant_rate: checker.is_constant_rate(),
            rules_broken: verdicts.iter().filter(|verdict| verdict.broken > 0).count(),
            rules: verdicts
                .into_iter()
                .map(|verdict| RuleReport {
                    verdict,
                    unit: verdict.rule.unit(),
                    clause: verdict.rule.clause(),
                })
                .collect(),
            buffers: Buffers {
                units_decoded: checker.buffers().units,
                transport_bytes,
                multiplex_bytes,
                elementary_bytes,
            },
        }
    }
}
