//! Renditions that come apart, in one order: that of decoding.

use super::units::Piece;
use glassline_media::{Ticks, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// Renditions with times further apart are on different timelines, and have no common order.
const APART: u64 = 60 * Ticks::RATE as u64;
/// What an entry takes beside its bytes.
const ENTRY_BYTES: usize = 128;

/// One rendition's pieces that wait for those of others.
#[derive(Debug)]
struct Lane {
    queue: VecDeque<Piece>,
    bytes: usize,
    empty_since: Time,
    /// How long others wait for it while it has nothing.
    wait: Duration,
    /// Nothing is expected of it now.
    is_out: bool,
}

/// Puts the pieces of renditions into one order.
#[derive(Debug)]
pub struct Merge {
    lanes: Vec<Lane>,
}

fn bytes_of(piece: &Piece) -> usize {
    match piece {
        Piece::Unit(unit) => unit.data.len().saturating_add(ENTRY_BYTES),
        Piece::Errors(_) | Piece::Break => ENTRY_BYTES,
    }
}

impl Merge {
    /// For so many renditions, for each of which the others wait as long as it is told.
    pub fn new(lanes: usize, wait: Duration, now: Time) -> Merge {
        let lane = || Lane { queue: VecDeque::new(), bytes: 0, empty_since: now, wait, is_out: false };
        Merge { lanes: (0..lanes).map(|_| lane()).collect() }
    }

    /// Takes a rendition's next piece.
    pub fn push(&mut self, lane: usize, piece: Piece) {
        let lane = &mut self.lanes[lane];
        lane.bytes = lane.bytes.saturating_add(bytes_of(&piece));
        lane.queue.push_back(piece);
    }

    /// Whether something is expected of a rendition.
    pub fn expect(&mut self, lane: usize, is_expected: bool) {
        self.lanes[lane].is_out = !is_expected;
    }

    /// How long others wait for a rendition.
    pub fn set_wait(&mut self, lane: usize, wait: Duration) {
        self.lanes[lane].wait = wait;
    }

    /// Bytes that wait of a rendition.
    pub fn held_bytes(&self, lane: usize) -> usize {
        self.lanes[lane].bytes
    }

    /// Whether nothing waits, and nothing is expected.
    pub fn is_over(&self) -> bool {
        self.lanes.iter().all(|lane| lane.is_out && lane.queue.is_empty())
    }

    /// The next piece; `None` where it is not known yet which one that is.
    pub fn pop(&mut self, now: Time) -> Option<Piece> {
        let dts = |lane: &Lane| match lane.queue.front() {
            Some(Piece::Unit(unit)) => Some(unit.dts.0),
            _ => None,
        };
        if let Some(at) = self
            .lanes
            .iter()
            .position(|lane| matches!(lane.queue.front(), Some(Piece::Errors(_) | Piece::Break)))
        {
            return self.pop_of(at, now);
        }
        let is_waiting =
            |lane: &Lane| lane.queue.is_empty() && !lane.is_out && now.since(lane.empty_since) < lane.wait;
        if self.lanes.iter().any(is_waiting) {
            return None;
        }
        let times: Vec<(usize, i64)> =
            self.lanes.iter().enumerate().filter_map(|(at, lane)| Some((at, dts(lane)?))).collect();
        let &(first, time) = times.iter().min_by_key(|(_, time)| *time)?;
        let is_apart = times.iter().any(|(_, other)| other.abs_diff(time) > APART);
        // Without a common order the one goes on that holds most.
        let most = times.iter().max_by_key(|(at, _)| self.lanes[*at].bytes).map(|(at, _)| *at);
        self.pop_of(if is_apart { most? } else { first }, now)
    }

    fn pop_of(&mut self, at: usize, now: Time) -> Option<Piece> {
        let lane = &mut self.lanes[at];
        let piece = lane.queue.pop_front()?;
        lane.bytes = lane.bytes.saturating_sub(bytes_of(&piece));
        if lane.queue.is_empty() {
            lane.empty_since = now;
        }
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::{AccessUnit, Codec, Stamps};

    fn unit(codec: Codec, seconds: i64) -> Piece {
        let dts = Ticks(seconds * i64::from(Ticks::RATE));
        Piece::Unit(AccessUnit {
            codec,
            data: vec![0; 10].into(),
            pts: dts,
            dts,
            random_access: true,
            stamps: Stamps::default(),
        })
    }

    fn told(merge: &mut Merge, now: Time) -> Vec<(Codec, i64)> {
        std::iter::from_fn(|| merge.pop(now))
            .filter_map(|piece| match piece {
                Piece::Unit(unit) => Some((unit.codec, unit.dts.0 / i64::from(Ticks::RATE))),
                _ => None,
            })
            .collect()
    }

    const WAIT: Duration = Duration::from_secs(5);
    const NOW: Time = Time::from_millis(1000);

    #[test]
    fn units_come_in_the_order_of_decoding() {
        let mut merge = Merge::new(2, WAIT, NOW);
        (0..3).for_each(|second| merge.push(0, unit(Codec::H264, second)));
        assert_eq!(told(&mut merge, NOW), [], "the sound may come before");
        (1..3).for_each(|second| merge.push(1, unit(Codec::Aac, second)));
        let expected = [(Codec::H264, 0), (Codec::H264, 1), (Codec::Aac, 1), (Codec::H264, 2)];
        assert_eq!(told(&mut merge, NOW), expected);
        assert!(merge.held_bytes(0) == 0 && merge.held_bytes(1) > 0 && !merge.is_over());
        // Nothing is waited for for ever, nor where nothing is expected.
        assert_eq!(told(&mut merge, NOW + WAIT), [(Codec::Aac, 2)]);
        merge.push(0, unit(Codec::H264, 3));
        assert_eq!(told(&mut merge, NOW + WAIT), []);
        merge.expect(1, false);
        assert_eq!(told(&mut merge, NOW + WAIT), [(Codec::H264, 3)]);
        merge.expect(0, false);
        assert!(merge.is_over());
    }

    #[test]
    fn timelines_that_have_nothing_in_common_hold_nothing_up() {
        let mut merge = Merge::new(2, WAIT, NOW);
        (0..2).for_each(|second| merge.push(0, unit(Codec::H264, second)));
        merge.push(1, unit(Codec::Aac, 1000));
        assert_eq!(told(&mut merge, NOW), [(Codec::H264, 0), (Codec::Aac, 1000)], "until one has nothing");
        merge.push(1, Piece::Break);
        assert_eq!(told(&mut merge, NOW + WAIT), [], "what came last came just now");
        assert_eq!(told(&mut merge, NOW + WAIT * 2), [(Codec::H264, 1)]);
    }
}
