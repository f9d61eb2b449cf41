use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn ids() -> impl Strategy<Value = u32> {
    prop_oneof![1..SMALL, SMALL..u32::MAX, Just(1), Just(SMALL - 1), Just(SMALL), Just(u32::MAX - 1)]
}

proptest! {
    #[test]
    fn the_peer_s_id_comes_back_and_small_ids_stay_small(id in ids(), secret in any::<[u8; 16]>()) {
        let permutation = SocketIds::new(&secret);
        if let Some(own) = permutation.own(id) {
            prop_assert_eq!(permutation.peer(own), Some(id));
            prop_assert_eq!(own < SMALL, id < SMALL);
            prop_assert!(own != 0 && own != u32::MAX);
            prop_assert_eq!(SocketIds::new(&secret).own(id), Some(own), "another process has the same");
        }
        if let Some(peer) = permutation.peer(id) {
            prop_assert_eq!(permutation.own(peer), Some(id));
        }
    }

    #[test]
    fn no_two_ids_are_permuted_to_one(first in ids(), other in ids(), secret in any::<[u8; 16]>()) {
        prop_assume!(first != other);
        let permutation = SocketIds::new(&secret);
        let (first, other) = (permutation.own(first), permutation.own(other));
        prop_assert!(first.is_none() || first != other);
    }

    #[test]
    fn answers_are_few_whatever_comes(packets in proptest::collection::vec((0u64..300, any::<u8>(), 0u16..200), 0..2000)) {
        let mut resets = Resets::default();
        let (mut now, mut told) = (Time::from_millis(1), Vec::new());
        for (after, network, port) in packets {
            now += Duration::from_micros(after);
            let from = SocketAddr::from(([192, 0, 2, network], port));
            if resets.allow(now, from) {
                told.push((now, from));
            }
            prop_assert!(resets.recent.len() <= RESETS_MAX);
        }
        for (at, (since, _)) in told.iter().enumerate() {
            let within: Vec<_> = told[at..].iter().take_while(|(now, _)| now.since(*since) < RESET_APART).collect();
            let addresses: BTreeSet<_> = within.iter().map(|(_, from)| from).collect();
            prop_assert!(within.len() <= RESETS_MAX && addresses.len() == within.len());
        }
    }
}

#[test]
fn two_secrets_make_two_permutations() {
    let (one, other) = (SocketIds::new(b"one"), SocketIds::new(b"other"));
    let is_same = |id: &u32| one.own(*id) == other.own(*id);
    assert!((1000..2000).filter(is_same).count() < 3);
    // Ids that follow each other say nothing of what they become.
    let follow = |id: &u32| one.own(*id).zip(one.own(id + 1)).is_some_and(|(a, b)| a.abs_diff(b) < 1000);
    assert!((1000..2000).filter(follow).count() < 10);
}

#[test]
fn numbers_with_a_meaning_are_never_given() {
    let ids = SocketIds::new(b"secret");
    assert_eq!((ids.own(0), ids.peer(0), ids.own(u32::MAX)), (None, None, None));
}
