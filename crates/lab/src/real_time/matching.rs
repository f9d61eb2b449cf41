//! Which picture is which, by what barcodes say. The clip begins again at its end and its numbers with it; that is undone by the
//! order of time.

use crate::experiment::Slot;
use glassline_media::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// A picture that was seen: when, and the number that its barcode has; `None` where it cannot be read.
pub(super) type Seen = (Time, Option<u32>);

/// What became of each picture.
#[derive(Debug, Default)]
pub(super) struct Matched {
    /// Each picture that was captured within the time that is looked at.
    pub(super) slots: Vec<Slot>,
    /// Of each picture that was shown, which slot it is the first to show.
    pub(super) first: Vec<Option<usize>>,
    /// Those shown that have no readable barcode.
    pub(super) unread: u64,
}

/// The capture that a picture shown at `at` is of: the newest before that with its number.
fn captured(captures: &[Time], at: Time) -> Option<Time> {
    captures[..captures.partition_point(|captured| *captured <= at)].last().copied()
}

/// Joins what a camera gave with what was shown. The time that is looked at begins with the first picture that was shown, as it was
/// captured, and lasts for `length`. Both are in the order of time. A picture's delay must be shorter than the clip.
pub(super) fn matched(captures: &[Seen], shown: &[Seen], length: Duration) -> Matched {
    let mut by_number: BTreeMap<u32, Vec<Time>> = BTreeMap::new();
    let mut last = None;
    let mut all = Vec::new();
    for (at, number) in captures {
        // A camera that gives the same picture again has captured nothing new.
        if number.is_some() && *number == last {
            continue;
        }
        last = *number;
        all.push(*at);
        if let Some(number) = number {
            by_number.entry(*number).or_default().push(*at);
        }
    }
    let of = |(at, number): &Seen| captured(by_number.get(&(*number)?)?, *at);
    let mut matched = Matched { first: vec![None; shown.len()], ..Matched::default() };
    matched.unread = shown.iter().filter(|seen| of(seen).is_none()).count() as u64;
    let Some(begun) = shown.iter().find_map(of) else { return matched };
    let within = |at: &Time| (begun..begun + length).contains(at);
    matched.slots = all.into_iter().filter(within).map(Slot::new).collect();
    for (index, seen) in shown.iter().enumerate() {
        let Some(captured) = of(seen) else { continue };
        let Ok(at) = matched.slots.binary_search_by_key(&captured, |slot| slot.captured) else { continue };
        let slot = &mut matched.slots[at];
        if slot.shown.is_none() {
            slot.shown = Some(seen.0);
            matched.first[index] = Some(at);
        }
    }
    matched
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(time: Time) -> u64 {
        time.as_nanos() / 1_000_000
    }

    fn seen(ms: u64, number: impl Into<Option<u32>>) -> Seen {
        (Time::from_millis(ms), number.into())
    }

    #[test]
    fn numbers_that_begin_again_are_told_apart_by_time() {
        // A clip of three pictures, 100 ms apart.
        let captures: Vec<Seen> = (0..9).map(|number| seen(100 * number, number as u32 % 3)).collect();
        let shown = [seen(250, 1), seen(330, 2), seen(330, None), seen(380, 2), seen(560, 2), seen(820, 0)];
        let found = matched(&captures, &shown, Duration::from_secs(10));
        let times: Vec<_> = found.slots.iter().map(|slot| (ms(slot.captured), slot.shown.map(ms))).collect();
        let expected = [
            (100, Some(250)),
            (200, Some(330)),
            (300, None),
            (400, None),
            (500, Some(560)),
            (600, Some(820)),
            (700, None),
            (800, None),
        ];
        assert_eq!(times, expected);
        assert_eq!(found.first, [Some(0), Some(1), None, None, Some(4), Some(5)], "the first time alone");
        assert_eq!(found.unread, 1);
    }

    #[test]
    fn a_picture_that_the_camera_gives_twice_was_captured_once() {
        let captures = [seen(0, 0), seen(33, 0), seen(66, 1)];
        let found = matched(&captures, &[seen(50, 0), seen(90, 1)], Duration::from_secs(1));
        assert_eq!(found.slots.len(), 2);
        assert_eq!(found.slots[0].shown, Some(Time::from_millis(50)));
    }

    #[test]
    fn where_nothing_is_shown_there_is_nothing() {
        let found = matched(&[seen(0, 0)], &[seen(5, None), seen(6, 3)], Duration::from_secs(1));
        assert_eq!((found.slots.len(), found.unread), (0, 2));
    }

    proptest! {
        /// Whatever is lost and however late the rest comes: what is matched is what was shown.
        #[test]
        fn each_shown_picture_is_its_own_capture(
            clip in 20u32..60, fates in prop::collection::vec(prop::option::of(1u64..600), 1..200),
        ) {
            let captures: Vec<Seen> =
                (0..fates.len() as u64).map(|number| seen(33 * number, number as u32 % clip)).collect();
            let mut shown: Vec<(u64, u64)> = fates
                .iter()
                .enumerate()
                .filter_map(|(number, late)| late.map(|late| (33 * number as u64 + late, number as u64)))
                .collect();
            shown.sort_unstable();
            let seen: Vec<Seen> = shown.iter().map(|(at, number)| seen(*at, *number as u32 % clip)).collect();
            let found = matched(&captures, &seen, Duration::from_secs(60));
            let begun = shown.first().map_or(0, |(_, number)| 33 * number);
            for slot in &found.slots {
                let expected = fates[(ms(slot.captured) / 33) as usize];
                prop_assert_eq!(slot.shown.map(|shown| shown.since(slot.captured).as_millis() as u64), expected);
            }
            prop_assert!(found.slots.iter().all(|slot| ms(slot.captured) >= begun));
        }
    }
}
