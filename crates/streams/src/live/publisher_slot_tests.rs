//! The slot beside the plainest one: a number of the session that has it.

use super::*;
use crate::test_streams::live;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Acquire {
        take_over: bool,
    },
    /// By the publisher of the session of this number, which may have lost the slot.
    Release(u64),
    BeginAnew(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        any::<bool>().prop_map(|take_over| Step::Acquire { take_over }),
        (1..8_u64).prop_map(Step::Release),
        (1..8_u64).prop_map(Step::BeginAnew),
    ]
}

proptest! {
    // Each stream has memory of its own.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_newest_session_alone_has_the_slot_until_it_gives_it_up(
        steps in prop::collection::vec(step(), 0..40),
    ) {
        let live = live(0, "a", 1);
        // The session that has it and its token, and how many there were.
        let (mut holder, mut sessions) = (None::<(u64, u64)>, 0);
        for (token, step) in (100_u64..).zip(steps) {
            let now = Time::from_millis(token);
            match step {
                Step::Acquire { take_over } => {
                    let connection = ConnectionId { worker: 1, token };
                    match live.acquire(Some(connection), take_over, None, now) {
                        Acquisition::Taken => prop_assert!(holder.is_some() && !take_over),
                        Acquisition::Granted { session, evicted, continued } => {
                            prop_assert!(holder.is_none() || take_over);
                            let former = holder.map(|(_, token)| ConnectionId { worker: 1, token });
                            prop_assert_eq!(evicted, former);
                            prop_assert!(continued.is_none());
                            sessions += 1;
                            prop_assert_eq!(session, sessions);
                            holder = Some((session, token));
                        }
                    }
                }
                Step::Release(session) => {
                    live.release(session, now);
                    holder = holder.filter(|(held, _)| *held != session);
                }
                Step::BeginAnew(session) => {
                    let begun = live.begin_anew(session, now);
                    if let Some((held, _)) = holder.as_mut().filter(|(held, _)| *held == session) {
                        sessions += 1;
                        *held = sessions;
                        prop_assert_eq!(begun, Some(sessions));
                    } else {
                        prop_assert_eq!(begun, None);
                    }
                }
            }
            for session in 0..=sessions + 1 {
                let has_it = holder.is_some_and(|(held, _)| held == session);
                prop_assert_eq!(live.is_held_by(session), has_it);
            }
        }
    }
}
