use super::*;
use crate::test_streams::{SETTINGS, live, name};
use glassline_delivery::stream::{FlushPolicy, Mux, Settings};
use proptest::prelude::*;
use std::time::Duration;

/// All viewers of a stream, as its end chooses them.
fn all() -> Chosen {
    glassline_delivery::coalesce::Coalescer::default().end()
}

fn order(audiences: &mut Audiences, id: u64, chosen: Chosen) -> Vec<u64> {
    let mut round = Vec::new();
    audiences.order(id, chosen, &mut round);
    round
}

#[test]
fn another_viewer_is_served_first_each_time() {
    let (mut audiences, live) = (Audiences::default(), live(1, "a", 1));
    for token in [10, 11, 12] {
        audiences.join(Arc::clone(&live), token);
    }
    let rounds: Vec<_> = (0..4).map(|_| order(&mut audiences, 1, all())).collect();
    assert_eq!(rounds, [[11, 12, 10], [12, 10, 11], [10, 11, 12], [11, 12, 10]]);
}

#[test]
fn a_stream_is_known_from_its_first_viewer_to_its_last() {
    let (mut audiences, first, second) = (Audiences::default(), live(1, "a", 1), live(2, "b", 1));
    assert!(audiences.are_sound() && audiences.news(&first, 1.0, Time::ZERO).is_none());
    audiences.join(Arc::clone(&first), 10);
    audiences.join(Arc::clone(&second), 11);
    audiences.join(Arc::clone(&first), 12);
    assert_eq!(audiences.streams().map(|live| live.id).collect::<Vec<_>>(), [1, 2]);
    assert!(audiences.leave(1, 10) && audiences.are_sound());
    assert_eq!(order(&mut audiences, 1, all()), [12]);
    assert!(audiences.leave(1, 12));
    assert!(!audiences.leave(1, 12), "it has no viewers any more");
    assert_eq!(audiences.streams().map(|live| live.id).collect::<Vec<_>>(), [2]);
    audiences.clear();
    assert_eq!((audiences.streams().count(), audiences.next_late_send()), (0, None));
}

#[test]
fn one_picture_a_send_serves_all_viewers_with_each_news() {
    let (mut audiences, live) = (Audiences::default(), live(1, "a", 1));
    (0..24).for_each(|token| audiences.join(Arc::clone(&live), token));
    for at in [0, 40, 80] {
        let chosen = audiences.news(&live, 1.0, Time::from_millis(at)).unwrap();
        assert_eq!(order(&mut audiences, 1, chosen).len(), 24);
    }
    assert_eq!(audiences.next_late_send(), None, "no viewer waits");
}

#[test]
fn two_pictures_a_send_serve_each_viewer_every_other_time_and_those_that_waited_first() {
    let (mut audiences, live) = (Audiences::default(), live(1, "a", 1));
    (0..24).for_each(|token| audiences.join(Arc::clone(&live), token));
    let mut served: Vec<Vec<u64>> = Vec::new();
    for at in 0..9 {
        let chosen = audiences.news(&live, 2.0, Time::from_millis(at * 20)).unwrap();
        served.push(order(&mut audiences, 1, chosen));
    }
    for two in served[5..].windows(2) {
        let mut both = two.concat();
        both.sort_unstable();
        assert_eq!(both, (0..24).collect::<Vec<_>>(), "each of them once");
    }
    // A viewer that news bring nothing is served when it has waited for long enough.
    let late = audiences.next_late_send().expect("a half of them waits");
    assert!(audiences.late_sends(Time::from_millis(160)).iter().all(|(_, chosen)| chosen.is_none()));
    let due = audiences.late_sends(late);
    assert_eq!(due.len(), 1);
    let last: Vec<u64> = order(&mut audiences, due[0].0, due[0].1);
    assert_eq!((last.len(), audiences.next_late_send()), (12, None));
    assert!(last.iter().all(|token| !served[8].contains(token)));
}

#[test]
fn all_viewers_are_told_of_an_end_however_many_pictures_leave_together() {
    let (mut audiences, live) = (Audiences::default(), live(1, "a", 1));
    (0..24).for_each(|token| audiences.join(Arc::clone(&live), token));
    (0..5).for_each(|at| assert!(audiences.news(&live, 6.0, Time::from_millis(at * 10)).is_some()));
    live.end();
    let chosen = audiences.news(&live, 6.0, Time::from_millis(60)).unwrap();
    assert_eq!(order(&mut audiences, 1, chosen).len(), 24);
}

#[test]
fn streams_that_hold_pictures_back_are_told_from_prompt_ones() {
    let mut audiences = Audiences::default();
    assert!(!audiences.any_prompt());
    assert_eq!(audiences.most_useful().to_bits(), 1.0_f64.to_bits());
    let held = Live::new(
        1,
        name("held"),
        Mux::MpegTs,
        Settings { flush: FlushPolicy::Balanced, ..SETTINGS },
        1,
        Time::ZERO,
    );
    audiences.join(Arc::new(held), 1);
    assert!(!audiences.any_prompt());
    audiences.join(live(2, "prompt", 1), 2);
    assert!(audiences.any_prompt());
    assert!(audiences.most_useful() > 1.0, "small pictures may leave together");
}

proptest! {
    #[test]
    fn audiences_hold_those_that_have_joined_and_not_left(
        steps in proptest::collection::vec((any::<bool>(), 1u64..4, 0u64..8), 0..60),
    ) {
        let lives: Vec<_> = (1..4).map(|id| live(id, "a", 1)).collect();
        let (mut audiences, mut model) = (Audiences::default(), std::collections::BTreeMap::<u64, Vec<u64>>::new());
        for (joins, id, token) in steps {
            let has = model.get(&id).is_some_and(|tokens| tokens.contains(&token));
            if joins && !has {
                audiences.join(Arc::clone(&lives[id as usize - 1]), token);
                model.entry(id).or_default().push(token);
            } else if !joins {
                let known = model.contains_key(&id);
                prop_assert_eq!(audiences.leave(id, token), known);
                if let Some(tokens) = model.get_mut(&id) {
                    tokens.retain(|other| *other != token);
                    if tokens.is_empty() {
                        model.remove(&id);
                    }
                }
            }
            prop_assert!(audiences.are_sound());
            for id in 1..4 {
                let mut got = order(&mut audiences, id, all());
                got.sort_unstable();
                let mut expected = model.get(&id).cloned().unwrap_or_default();
                expected.sort_unstable();
                prop_assert_eq!(got, expected);
            }
        }
    }
}

#[test]
fn a_wait_for_the_next_send_is_no_longer_than_it_may_be() {
    let (mut audiences, live) = (Audiences::default(), live(1, "a", 1));
    (0..24).for_each(|token| audiences.join(Arc::clone(&live), token));
    (0..20).for_each(|at| assert!(audiences.news(&live, 6.0, Time::from_millis(at * 20)).is_some()));
    let late = audiences.next_late_send().unwrap();
    assert!(late <= Time::from_millis(380) + Duration::from_millis(100), "{late:?}");
}

#[test]
fn of_those_that_are_served_the_ones_that_have_waited_come_first() {
    let (mut audiences, live) = (Audiences::default(), live(1, "a", 1));
    (0..24).for_each(|token| audiences.join(Arc::clone(&live), token));
    let mut mixed = 0;
    for at in 0..30 {
        let chosen = audiences.news(&live, 1.5, Time::from_millis(at * 20)).unwrap();
        let waited: Vec<_> = order(&mut audiences, 1, chosen)
            .into_iter()
            .map(|token| chosen.has_waited(token as u32))
            .collect();
        assert!(waited.is_sorted_by(|one, other| one >= other), "{waited:?}");
        mixed += u32::from(waited.contains(&true) && waited.contains(&false));
    }
    assert!(mixed > 10, "both kinds are served together in {mixed} of 30 rounds");
}
