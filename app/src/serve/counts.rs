//! Viewers as answers count them: by how far they are behind live, and why.

use glassline_delivery::telemetry::{BEHIND_EDGES_MS, Behind, Why};
use glassline_streams::status::WhyCounts;
use serde::Serialize;
use std::collections::BTreeMap;

/// Viewers by how far they are behind live.
#[derive(Serialize)]
pub(super) struct BehindCounts {
    /// Upper edges, milliseconds.
    edges_ms: [u32; BEHIND_EDGES_MS.len()],
    /// How many are in each range, and beyond the last edge.
    viewers: [u64; BEHIND_EDGES_MS.len() + 1],
}

pub(super) fn why_counts(counts: &WhyCounts) -> BTreeMap<&'static str, u32> {
    Why::ALL.iter().map(|why| why.name()).zip(counts.iter().copied()).collect()
}

pub(super) fn behind_counts(behind: &Behind) -> BehindCounts {
    BehindCounts { edges_ms: BEHIND_EDGES_MS, viewers: behind.buckets }
}
