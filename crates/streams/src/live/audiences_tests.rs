use super::*;
use proptest::prelude::*;

#[test]
fn a_thread_without_viewers_is_not_told() {
    let audiences = Audiences::new(2);
    assert!((0..4).all(|thread| !audiences.notify(thread)));
    audiences.join(1);
    assert!(!audiences.notify(0) && audiences.notify(1));
}

#[test]
fn a_thread_is_told_once_until_it_looks() {
    let audiences = Audiences::new(1);
    audiences.join(0);
    assert!(audiences.notify(0) && !audiences.notify(0));
    audiences.heard(0);
    assert!(audiences.notify(0));
    // The last viewer goes, and a next one comes: what was told holds.
    audiences.leave(0);
    audiences.join(0);
    assert!(!audiences.notify(0));
}

#[test]
fn outputs_and_the_packager_are_threads_behind_the_workers_and_no_viewers() {
    let audiences = Audiences::new(3);
    audiences.set_has_outputs(true);
    assert!(audiences.notify(3) && !audiences.notify(4));
    audiences.set_is_packaged(true);
    assert!(audiences.notify(4));
    assert_eq!(audiences.viewers(), 0);
    audiences.set_has_outputs(false);
    audiences.heard(3);
    assert!(!audiences.notify(3));
}

#[derive(Clone, Debug)]
enum Step {
    Join(usize),
    Leave(usize),
    Notify(usize),
    Heard(usize),
}

proptest! {
    /// Beside two plain numbers for each worker.
    #[test]
    fn each_worker_has_its_viewers_and_is_told_for_itself(
        steps in proptest::collection::vec(
            (0..3usize, 0..4u8).prop_map(|(worker, kind)| match kind {
                0 => Step::Join(worker),
                1 => Step::Leave(worker),
                2 => Step::Notify(worker),
                _ => Step::Heard(worker),
            }),
            0..60,
        ),
    ) {
        let audiences = Audiences::new(3);
        let (mut viewers, mut told) = ([0usize; 3], [false; 3]);
        for step in steps {
            match step {
                Step::Join(worker) => {
                    audiences.join(worker);
                    viewers[worker] += 1;
                }
                Step::Leave(worker) if viewers[worker] > 0 => {
                    audiences.leave(worker);
                    viewers[worker] -= 1;
                }
                Step::Leave(_) => {}
                Step::Notify(worker) => {
                    let expected = viewers[worker] > 0 && !told[worker];
                    prop_assert_eq!(audiences.notify(worker), expected);
                    told[worker] |= expected;
                }
                Step::Heard(worker) => {
                    audiences.heard(worker);
                    told[worker] = false;
                }
            }
            prop_assert_eq!(audiences.viewers(), viewers.iter().sum::<usize>());
        }
    }
}
