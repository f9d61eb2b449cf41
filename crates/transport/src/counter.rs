//! Counters that come to their end and stay there: a peer decides how often they count.

/// Counts `more`.
#[inline]
pub(crate) fn count(counter: &mut u64, more: u64) {
    *counter = counter.saturating_add(more);
}
