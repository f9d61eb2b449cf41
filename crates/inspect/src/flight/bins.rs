//! Histograms on fixed logarithmic axes: ten bins to a power of ten, always the same edges.

/// The edges of the bins of a power of ten (the preferred numbers R10 of ISO 3, finer rounded).
const TENTHS: [u64; 10] = [1000, 1259, 1585, 1995, 2512, 3162, 3981, 5012, 6310, 7943];

const fn edges<const N: usize>(lowest: u64) -> [u64; N] {
    let mut out = [0; N];
    let mut index = 0;
    while index < N {
        out[index] = TENTHS[index % 10] * lowest * 10u64.pow(index as u32 / 10) / 1000;
        index += 1;
    }
    out
}

/// Bursts: 100 B to 10 MB, 50 bins. Smaller ones count in the first bin, larger ones in the last.
pub const BURST_EDGES_BYTES: [u64; 51] = edges(100);
/// Gaps: 10 µs to 10 s, 60 bins, in nanoseconds. Shorter ones count in the first bin, longer ones in the last.
pub const GAP_EDGES_NANOS: [u64; 61] = edges(10_000);

/// Counts and weights in bins between fixed edges.
#[derive(Clone, Debug)]
pub struct Bins {
    edges: &'static [u64],
    counts: Vec<(u64, u64)>,
}

impl Bins {
    /// Empty bins between `edges`, of which there are at least two, in ascending order.
    pub(crate) fn new(edges: &'static [u64]) -> Bins {
        Bins { edges, counts: vec![(0, 0); edges.len() - 1] }
    }

    pub(crate) fn push(&mut self, value: u64, weight: u64) {
        let inner = &self.edges[1..self.edges.len() - 1];
        let bin = &mut self.counts[inner.partition_point(|edge| *edge <= value)];
        bin.0 += 1;
        bin.1 += weight;
    }

    /// Each bin's lower edge, upper edge, count and weight.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, u64, u64)> + '_ {
        let edges = self.edges.windows(2).map(|pair| (pair[0], pair[1]));
        edges.zip(&self.counts).map(|((from, to), (count, weight))| (from, to, *count, *weight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_ascend_from_end_to_end() {
        assert_eq!((BURST_EDGES_BYTES[0], BURST_EDGES_BYTES[50]), (100, 10_000_000));
        assert_eq!((GAP_EDGES_NANOS[0], GAP_EDGES_NANOS[60]), (10_000, 10_000_000_000));
        assert!(BURST_EDGES_BYTES.is_sorted_by(|a, b| a < b) && GAP_EDGES_NANOS.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn a_value_on_an_edge_belongs_above_it_and_nothing_falls_out() {
        let mut bins = Bins::new(&BURST_EDGES_BYTES);
        for value in [0, 99, 100, 1000, 9_999_999, 10_000_000, u64::MAX] {
            bins.push(value, 1);
        }
        let filled: Vec<_> =
            bins.iter().filter(|bin| bin.2 > 0).map(|(from, _, count, _)| (from, count)).collect();
        assert_eq!(filled, [(100, 3), (1000, 1), (7_943_000, 3)]);
    }
}
