use super::*;
use crate::readers::{Feeder, Readers};
use crate::testing::{Resumed, Woken, bytes, plain};
use glassline_delivery::fill::{Budget, Memory, Pace, WINDOW_MIN_BYTES};
use proptest::prelude::*;

const READER: Reader = Reader { thread: 0, token: 1 };

fn fed() -> (Arc<Growing>, Arc<Resumed>) {
    let (woken, resumed) = (Arc::new(Woken::default()), Arc::new(Resumed::default()));
    let feeder = Arc::clone(&resumed) as Arc<dyn Feeder>;
    (Growing::fed(Memory::default(), woken.as_wake(), feeder), resumed)
}

/// So many runs of 64 kB, so that none is put together with its neighbour.
fn append_runs(growing: &Growing, count: usize) {
    growing.change(|object| {
        object.begin(plain(), None);
        (0..count).for_each(|_| object.append(vec![1; RUN as usize].into()));
    });
}

const RUN: u64 = 64 << 10;

/// Half of it is free: an object may be an eighth of that ahead of its readers.
const BUDGET: Budget = Budget { bytes_max: 16 << 20, held_bytes: 8 << 20 };
const FULL: Budget = Budget { bytes_max: 16 << 20, held_bytes: 16 << 20 };
const AHEAD: u64 = 1 << 20;

#[test]
fn a_sliding_object_keeps_what_its_slowest_reader_needs() {
    let (mut readers, mut object) = (Readers::default(), Object::new());
    object.begin(glassline_delivery::fill::Head::new("video/mp4"), None);
    for _ in 0..10 {
        object.append(vec![7; 100_000].into());
    }
    let (one, other) = (readers.take_slot(0), readers.take_slot(0));
    readers.go_on(one, 700_000, 700_000, &mut object);
    assert_eq!(readers.standing(1_000_000).furthest, 700_000);
    readers.is_sliding = true;
    readers.await_reader(300_000);
    assert!(!readers.go_on(other, 200_000, 200_000, &mut object), "the slowest one is not there yet");
    assert!(!readers.are_held_up_by(one) && readers.are_held_up_by(other));
    let mut got = Vec::new();
    assert_eq!(
        (object.read(100_000, 200_000, &mut got), object.read(200_000, 300_000, &mut got)),
        (0, 100_000)
    );
    assert!(readers.go_on(other, 300_000, 300_000, &mut object));
    readers.await_reader(900_000);
    assert!(readers.leave(other, &mut object), "who leaves holds nothing up");
    assert_eq!(readers.standing(1_000_000).slowest, 700_000);
    readers.leave(one, &mut object);
    assert_eq!((readers.count(), object.read(900_000, 1_000_000, &mut got)), (0, 0));
}

#[test]
fn a_slot_that_was_left_is_taken_again_by_the_next_reader() {
    let (mut readers, mut object) = (Readers::default(), Object::new());
    let slots = [readers.take_slot(0), readers.take_slot(0), readers.take_slot(0)];
    assert_eq!((slots, readers.count()), ([0, 1, 2], 3));
    readers.leave(1, &mut object);
    assert_eq!((readers.count(), readers.take_slot(5), readers.take_slot(6)), (2, 1, 3));
    // Each is where it has come to: those at 0 leave, and the slowest of the others is at 5.
    readers.is_sliding = true;
    assert_eq!(readers.standing(100).slowest, 0);
    readers.leave(0, &mut object);
    readers.leave(2, &mut object);
    assert_eq!(readers.standing(100).slowest, 5);
}

#[test]
fn a_shared_object_stands_at_its_furthest_reader_even_when_that_has_left() {
    let (mut readers, mut object) = (Readers::default(), Object::new());
    let (one, _other) = (readers.take_slot(0), readers.take_slot(0));
    readers.go_on(one, 10, 25, &mut object);
    readers.leave(one, &mut object);
    let standing = readers.standing(100);
    assert_eq!((standing.readers, standing.slowest, standing.furthest), (1, 0, 25));
    assert!(!standing.is_sliding);
}

#[test]
fn a_sliding_object_without_readers_stands_at_its_end() {
    let (mut readers, mut object) = (Readers::default(), Object::new());
    readers.is_sliding = true;
    let slot = readers.take_slot(0);
    readers.go_on(slot, 40, 40, &mut object);
    assert_eq!(readers.standing(100).slowest, 40);
    readers.leave(slot, &mut object);
    assert_eq!(readers.standing(100).slowest, 100);
}

#[test]
fn a_feeder_is_resumed_once_for_each_wait() {
    let (mut readers, mut object) = (Readers::default(), Object::new());
    let slot = readers.take_slot(0);
    assert!(!readers.go_on(slot, 50, 50, &mut object), "nothing waits");
    readers.await_reader(60);
    assert!(!readers.go_on(slot, 59, 59, &mut object));
    assert!(readers.go_on(slot, 59, 60, &mut object), "what a reader cannot go on without counts");
    assert!(!readers.go_on(slot, 70, 70, &mut object), "it was told already");
}

#[test]
fn a_reader_that_leaves_resumes_a_feeder_that_waits_wherever_it_was() {
    let (mut readers, mut object) = (Readers::default(), Object::new());
    let slots = [readers.take_slot(0), readers.take_slot(0)];
    assert!(!readers.leave(slots[0], &mut object));
    readers.await_reader(1000);
    assert!(readers.leave(slots[1], &mut object));
}

#[test]
fn only_the_slowest_reader_of_an_object_that_slides_and_waits_holds_others_up() {
    let (mut readers, mut object) = (Readers::default(), Object::new());
    let (slow, fast) = (readers.take_slot(0), readers.take_slot(0));
    readers.go_on(fast, 90, 90, &mut object);
    readers.await_reader(50);
    assert!(!readers.are_held_up_by(slow), "it does not slide");
    readers.is_sliding = true;
    assert!(readers.are_held_up_by(slow) && !readers.are_held_up_by(fast));
    readers.go_on(slow, 90, 90, &mut object);
    assert!(!readers.are_held_up_by(slow), "nothing waits any more");
    readers.await_reader(95);
    assert!(!readers.are_held_up_by(slow) && !readers.are_held_up_by(fast), "they are at one place");
    readers.go_on(fast, 94, 94, &mut object);
    assert!(readers.are_held_up_by(slow));
    readers.leave(fast, &mut object);
    readers.await_reader(95);
    assert!(!readers.are_held_up_by(slow), "there is no other one");
}

#[test]
fn a_reading_is_a_reader_until_it_is_dropped() {
    let (growing, _) = fed();
    let one = Reading::new(Arc::clone(&growing));
    let other = Reading::new(Arc::clone(&growing));
    assert_eq!(growing.readers(), 2);
    drop(one);
    assert_eq!(growing.readers(), 1);
    drop(other);
    assert_eq!(growing.readers(), 0);
}

#[test]
fn an_object_pauses_at_its_read_ahead_and_goes_on_when_a_reader_has_come_near() {
    let (growing, resumed) = fed();
    let reading = Reading::new(Arc::clone(&growing));
    assert_eq!(growing.pace(BUDGET, 0), Pace::Fill(AHEAD));
    append_runs(&growing, 15);
    assert_eq!(growing.pace(BUDGET, 0), Pace::Fill(RUN));
    assert_eq!(growing.pace(BUDGET, RUN), Pace::WaitForReader(AHEAD / 2), "what has come counts, too");
    let look = |place| reading.look_or_wait(READER, (place, place), |_| Some(()));
    look(AHEAD / 2 - 1);
    assert_eq!(resumed.take(), 0);
    look(AHEAD / 2);
    assert_eq!(resumed.take(), 1);
    assert_eq!(growing.pace(BUDGET, RUN), Pace::Fill(AHEAD / 2));
}

#[test]
fn a_reader_of_all_is_never_waited_for() {
    let (growing, _) = fed();
    let _reading = Reading::of_all(Arc::clone(&growing));
    append_runs(&growing, 40);
    assert_eq!(growing.pace(BUDGET, 0), Pace::Fill(AHEAD));
    assert_eq!(growing.standing().furthest, u64::MAX);
}

#[test]
fn an_object_that_waits_for_room_is_resumed_by_the_next_step_of_any_reader() {
    let (growing, resumed) = fed();
    let reading = Reading::new(Arc::clone(&growing));
    append_runs(&growing, 1);
    assert_eq!(growing.pace(FULL, 0), Pace::WaitForRoom);
    reading.look_or_wait(READER, (1, 1), |_| Some(()));
    assert_eq!(resumed.take(), 1);
    reading.look_or_wait(READER, (2, 2), |_| Some(()));
    assert_eq!(resumed.take(), 0);
}

#[test]
fn a_sliding_object_follows_its_slowest_reader_and_keeps_the_least_window() {
    let (growing, resumed) = fed();
    let (slow, fast) = (Reading::new(Arc::clone(&growing)), Reading::new(Arc::clone(&growing)));
    append_runs(&growing, 4);
    growing.slide();
    assert!(growing.is_sliding());
    fast.look_or_wait(READER, (4 * RUN, 4 * RUN), |_| Some(()));
    assert_eq!(growing.look(bytes).len() as u64, 4 * RUN, "the slow one has read nothing");
    assert_eq!(growing.pace(FULL, 0), Pace::WaitForReader(4 * RUN - WINDOW_MIN_BYTES / 2));
    assert!(slow.holds_others_up() && !fast.holds_others_up());
    slow.look_or_wait(READER, (2 * RUN, 2 * RUN), |_| Some(()));
    let read = |from| growing.look(|object| object.read(from, u64::MAX, &mut Vec::new()));
    assert_eq!((read(0), read(2 * RUN)), (0, 2 * RUN), "what both have read is let go");
    assert_eq!(resumed.take(), 0);
    slow.look_or_wait(READER, (4 * RUN, 4 * RUN), |_| Some(()));
    assert_eq!((resumed.take(), growing.pace(FULL, 0)), (1, Pace::Fill(WINDOW_MIN_BYTES)));
    assert!(!slow.holds_others_up());
}

#[test]
fn the_slowest_reader_that_leaves_frees_what_it_had_not_read() {
    let (growing, _) = fed();
    let (slow, fast) = (Reading::new(Arc::clone(&growing)), Reading::new(Arc::clone(&growing)));
    append_runs(&growing, 4);
    growing.slide();
    fast.look_or_wait(READER, (3 * RUN, 3 * RUN), |_| Some(()));
    drop(slow);
    let read = |from| growing.look(|object| object.read(from, u64::MAX, &mut Vec::new()));
    assert_eq!((read(2 * RUN), read(3 * RUN)), (0, RUN));
    drop(fast);
    assert_eq!(growing.pace(FULL, 0), Pace::WaitForReader(u64::MAX), "no reader can come any more");
    assert_eq!(read(3 * RUN), 0);
}

#[derive(Clone, Debug)]
enum Step {
    Take(u64),
    Leave(usize),
    GoOn(usize, u64, u64),
    Await(u64),
    Slide,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0u64..100).prop_map(Step::Take),
        2 => any::<prop::sample::Index>().prop_map(|at| Step::Leave(at.index(1 << 16))),
        6 => (any::<prop::sample::Index>(), 0u64..100, 0u64..100)
            .prop_map(|(at, place, wants)| Step::GoOn(at.index(1 << 16), place, place.max(wants))),
        2 => (0u64..100).prop_map(Step::Await),
        1 => Just(Step::Slide),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    /// The readers stand as a plain list of them says, and a feeder is resumed exactly when that list has come far enough.
    #[test]
    fn readers_stand_as_a_list_of_them_does(steps in steps()) {
        let (mut readers, mut object) = (Readers::default(), Object::new());
        let (mut list, mut furthest, mut awaited, mut slides) =
            (Vec::<(usize, u64)>::new(), 0, None::<u64>, false);
        for step in steps {
            match step {
                Step::Take(place) => {
                    let slot = readers.take_slot(place);
                    prop_assert!(list.iter().all(|(taken, _)| *taken != slot));
                    list.push((slot, place));
                    furthest = furthest.max(place);
                }
                Step::Leave(at) if !list.is_empty() => {
                    let (slot, _) = list.remove(at % list.len());
                    prop_assert_eq!(readers.leave(slot, &mut object), awaited.take().is_some());
                }
                Step::GoOn(at, place, wants) if !list.is_empty() => {
                    let at = at % list.len();
                    list[at].1 = place;
                    furthest = furthest.max(wants);
                    let slowest = list.iter().map(|(_, place)| *place).min();
                    let has_come = if slides { slowest } else { Some(furthest) };
                    let is_due = awaited.is_some_and(|awaited| has_come >= Some(awaited));
                    prop_assert_eq!(readers.go_on(list[at].0, place, wants, &mut object), is_due);
                    awaited = awaited.filter(|_| !is_due);
                }
                Step::Await(place) => {
                    readers.await_reader(place);
                    awaited = Some(place);
                }
                Step::Slide => (readers.is_sliding, slides) = (true, true),
                Step::Leave(_) | Step::GoOn(..) => {}
            }
            let standing = readers.standing(200);
            let slowest = list.iter().map(|(_, place)| *place).min().unwrap_or(200);
            prop_assert_eq!((standing.readers, readers.count()), (list.len(), list.len()));
            prop_assert_eq!((standing.filled, standing.furthest), (200, furthest));
            prop_assert_eq!(standing.slowest, if slides { slowest } else { 0 });
        }
    }
}
