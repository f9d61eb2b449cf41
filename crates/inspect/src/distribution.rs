//! How figures of one kind are distributed, as reports tell it.

use serde::Serialize;

/// How figures are distributed. In a report, the key's suffix is the unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Distribution {
    /// How many there are.
    pub count: u64,
    /// The least.
    pub min: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// 95 of 100 are no greater.
    pub p95: f64,
    /// 99 of 100 are no greater.
    pub p99: f64,
    /// The greatest.
    pub max: f64,
}
