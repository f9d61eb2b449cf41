//! When pictures are decoded: RTP carries presentation times alone, and the order of packets is that of decoding.
//!
//! Of a stream that shows at most `depth` pictures later than others that follow them, the picture that is decoded now has the
//! decoding time of the smallest of the `depth + 1` newest presentation times. That adds no delay: it is known when the picture
//! comes.

use std::collections::VecDeque;

/// Pictures that a stream may hold back at most (H.264 and H.265 allow 16).
const DEPTH_MAX: usize = 16;
/// So many are believed that no parameter set has announced.
const SEEN_MAX: usize = 4;
/// A picture that is shown so much earlier than one before is no reordered one: the sender's clock was set back. In ticks of 90 kHz.
const BACK_MAX: u64 = 90_000;
/// One that is shown so much later neither: it was set forward. The pictures before it would hold the decoding times back for good.
const AHEAD_MAX: u64 = 10 * 90_000;
/// How far decoding times are apart before it is known, in ticks of 90 kHz.
const STEP: u64 = 3000;

/// Decoding times of a stream's pictures.
#[derive(Debug, Default)]
pub(super) struct DecodeOrder {
    depth: usize,
    /// The newest presentation times, the smallest first.
    newest: VecDeque<u64>,
    last: Option<u64>,
}

impl DecodeOrder {
    /// What a parameter set says; `None`: what is seen counts.
    pub(super) fn set_depth(&mut self, stated: Option<usize>) {
        if let Some(depth) = stated {
            self.depth = depth.min(DEPTH_MAX);
        }
    }

    /// Takes the next picture in the order of decoding. Returns when it is presented and when it is decoded; the first is later
    /// than the given one where the stream holds back more pictures than was known.
    pub(super) fn push(&mut self, presented: u64) -> (u64, u64) {
        let largest = self.newest.back().copied().unwrap_or(presented);
        if largest.saturating_sub(presented) > BACK_MAX || presented.saturating_sub(largest) > AHEAD_MAX {
            (self.newest, self.last) = (VecDeque::new(), None);
        }
        let place = self.newest.partition_point(|time| *time <= presented);
        self.newest.insert(place, presented);
        while self.newest.len() > self.depth.saturating_add(1) {
            self.newest.pop_front();
        }
        let smallest = self.newest.front().copied().unwrap_or(presented);
        let missing = self.depth.saturating_add(1).saturating_sub(self.newest.len());
        let decoded = smallest.saturating_sub(STEP.saturating_mul(u64::try_from(missing).unwrap_or(0)));
        let decoded = decoded.max(self.last.map_or(0, |last| last.saturating_add(1)));
        if decoded > presented && self.depth < SEEN_MAX {
            self.depth = self.depth.saturating_add(1);
        }
        self.last = Some(decoded);
        (presented.max(decoded), decoded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(depth: Option<usize>, times: &[u64]) -> Vec<(u64, u64)> {
        let mut order = DecodeOrder::default();
        order.set_depth(depth);
        times
            .iter()
            .map(|time| order.push(1_000_000 + time))
            .map(|(p, d)| (p - 900_000, d - 900_000))
            .collect()
    }

    #[test]
    fn a_stream_without_reordered_pictures_is_decoded_when_it_is_shown() {
        let found = run(None, &[0, 3000, 6000]);
        assert_eq!(found, [(100_000, 100_000), (103_000, 103_000), (106_000, 106_000)]);
    }

    #[test]
    fn reordered_pictures_are_decoded_in_the_order_in_which_they_came() {
        // I P b b P b b, two held back.
        let found = run(Some(2), &[0, 9000, 3000, 6000, 18_000, 12_000, 15_000]);
        let decoded: Vec<u64> = found.iter().map(|(_, decoded)| *decoded).collect();
        assert_eq!(decoded, [94_000, 97_000, 100_000, 103_000, 106_000, 109_000, 112_000]);
        assert!(found.iter().all(|(presented, decoded)| decoded <= presented));
    }

    #[test]
    fn what_no_parameter_set_has_announced_is_learnt() {
        let times: Vec<u64> = (0..20).flat_map(|pair| [pair * 6000 + 3000, pair * 6000]).collect();
        let found = run(None, &times);
        // The first one that is shown earlier is moved by a tick; from then on all is in order.
        assert_eq!(found[1].0, 103_001);
        assert!(found[4..].iter().zip(&times[4..]).all(|(found, time)| found.0 == 100_000 + time));
    }

    #[test]
    fn a_clock_that_is_set_back_begins_anew() {
        let found = run(None, &[500_000, 0, 3000]);
        assert_eq!(found[1..], [(100_000, 100_000), (103_000, 103_000)]);
    }

    #[test]
    fn a_clock_that_is_set_forward_begins_anew() {
        // I b P b P, one held back, and the same an hour later.
        let row = [0, 6000, 3000, 12_000, 9000];
        let later = row.map(|time| time + 3600 * 90_000);
        let found = run(Some(1), &[row, later].concat());
        let from_first = |found: &[(u64, u64)]| {
            found.iter().map(|(p, d)| (p - found[0].0, d + 3000 - found[0].0)).collect::<Vec<_>>()
        };
        assert_eq!(from_first(&found[5..]), from_first(&found[..5]));
    }

    proptest! {
        #[test]
        fn decoding_times_rise_and_are_never_behind_presentation(
            depth in prop::option::of(0usize..20), times in prop::collection::vec(0u64..200_000, 1..60),
        ) {
            let mut order = DecodeOrder::default();
            order.set_depth(depth);
            let mut last = None;
            for time in times {
                let given = 1_000_000 + time;
                let begins_anew = order.newest.back().is_some_and(|largest| largest.saturating_sub(given) > BACK_MAX);
                let (presented, decoded) = order.push(given);
                prop_assert!(decoded <= presented && presented >= given);
                prop_assert!(begins_anew || last.is_none_or(|last| decoded > last));
                last = Some(decoded);
            }
        }
    }
}
