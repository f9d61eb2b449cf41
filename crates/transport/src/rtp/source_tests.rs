use super::*;
use proptest::prelude::*;

fn at(address: &str) -> Origin {
    Origin::of(Some(address.parse().unwrap()))
}

fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// Locked at 10.0.0.5:5004 with SSRC 7, last heard at 1 s.
fn locked() -> SourceLock {
    let mut lock = SourceLock::new();
    lock.renew(at("10.0.0.5:5004"), 7, ms(1_000));
    lock
}

#[test]
fn the_first_good_packet_locks_and_others_are_refused_while_it_sends() {
    let mut lock = SourceLock::new();
    let (camera, stranger) = (at("10.0.0.5:5004"), at("10.0.0.9:5004"));
    assert!(!lock.is_at(camera), "nothing is locked before the first good packet");
    assert_eq!(lock.weigh(stranger, 9, ms(0)), Standing::Known, "a look alone locks nothing");
    for millis in (0..10_000).step_by(20) {
        assert_eq!(lock.weigh(camera, 7, ms(millis)), Standing::Known);
        lock.renew(camera, 7, ms(millis));
        for (origin, ssrc) in [(stranger, 7), (stranger, 8), (camera, 8), (at("10.0.0.5:9"), 7)] {
            assert_eq!(lock.weigh(origin, ssrc, ms(millis + 19)), Standing::Stranger, "{origin:?} {ssrc}");
        }
        assert!(lock.is_at(camera) && !lock.is_at(stranger) && lock.ssrc() == Some(7));
    }
}

#[test]
fn a_sender_that_was_started_again_waits_for_less_than_one_elsewhere() {
    let lock = locked();
    let (resume, restart, elsewhere) = (1_000 + 50, 1_000 + 200, 1_000 + 1_000);
    for (origin, ssrc, opens, then) in [
        (at("10.0.0.5:5004"), 8, resume, Standing::Successor),
        (at("10.0.0.5:40000"), 8, restart, Standing::Successor),
        (at("10.0.0.5:40000"), 7, restart, Standing::Known),
        (at("10.0.0.9:5004"), 8, elsewhere, Standing::Successor),
        (at("10.0.0.9:5004"), 7, elsewhere, Standing::Known),
        (Origin::default(), 8, elsewhere, Standing::Successor),
    ] {
        assert_eq!(lock.weigh(origin, ssrc, ms(opens - 1)), Standing::Stranger, "{origin:?} {ssrc}");
        assert_eq!(lock.weigh(origin, ssrc, ms(opens)), then, "{origin:?} {ssrc}");
    }
    assert!(!lock.may_renumber(ms(resume - 1)) && lock.may_renumber(ms(resume)));
}

#[test]
fn a_sender_goes_on_otherwise_after_more_than_its_own_pauses() {
    for (pause, wanted) in [(1, 50), (30, 50), (40, 60), (100, 150), (150, 200), (900, 200)] {
        let (mut lock, camera) = (SourceLock::new(), at("10.0.0.5:5004"));
        let mut now = 10;
        // A burst each `pause`, for three seconds, and one pause that is long ago.
        lock.renew(camera, 7, ms(now));
        now += 5_000;
        while now < 10_000 {
            (0..3).for_each(|_| lock.renew(camera, 7, ms(now)));
            now += pause;
        }
        let last = now - pause;
        assert_eq!(lock.weigh(camera, 8, ms(last + wanted - 1)), Standing::Stranger, "{pause} ms");
        assert_eq!(lock.weigh(camera, 8, ms(last + wanted)), Standing::Successor, "{pause} ms");
        assert!(!lock.may_renumber(ms(last + wanted - 1)) && lock.may_renumber(ms(last + wanted)));
    }
}

#[test]
fn a_path_that_is_down_opens_to_another_address_with_the_same_ssrc_alone() {
    let mut lock = locked();
    let second = |address| Origin { path: 1, ..at(address) };
    assert_eq!(lock.weigh(second("10.1.0.5:5004"), 8, ms(1_010)), Standing::Stranger);
    assert_eq!(lock.weigh(second("10.1.0.5:5004"), 7, ms(1_010)), Standing::Known);
    lock.renew(second("10.1.0.5:5004"), 7, ms(1_010));
    // The first path goes on, the second one does not.
    lock.touch(0, ms(3_000));
    assert_eq!(lock.weigh(second("10.1.0.9:5004"), 8, ms(3_010)), Standing::Stranger);
    assert_eq!(lock.weigh(second("10.1.0.9:5004"), 7, ms(3_010)), Standing::Known);
    assert_eq!(lock.weigh(at("10.0.0.9:5004"), 7, ms(3_010)), Standing::Stranger);
    assert_eq!(lock.weigh(Origin { path: 2, address: None }, 7, ms(3_010)), Standing::Stranger);
}

#[test]
fn those_that_a_description_does_not_name_are_never_taken() {
    let mut lock = SourceLock::new().with_allowed(0, vec!["10.0.0.5".parse().unwrap()]);
    for origin in [at("10.0.0.9:5004"), Origin::default()] {
        assert_eq!(lock.weigh(origin, 7, ms(5_000)), Standing::Stranger);
    }
    // A socket of IPv6 tells addresses of IPv4 in its own way.
    let mapped = at("[::ffff:10.0.0.5]:5004");
    assert_eq!(lock.weigh(mapped, 7, ms(0)), Standing::Known);
    lock.renew(mapped, 7, ms(0));
    assert_eq!(lock.weigh(at("10.0.0.9:5004"), 8, ms(60_000)), Standing::Stranger);
    lock.release();
    assert_eq!(lock.ssrc(), None);
    assert_eq!(lock.weigh(at("10.0.0.9:5004"), 8, ms(60_000)), Standing::Stranger);
    assert_eq!(lock.weigh(at("10.0.0.5:1"), 8, ms(60_000)), Standing::Known);
}

proptest! {
    /// Whatever is sent from wherever: while a source sends each 49 ms, all of its packets and none of another's are taken.
    #[test]
    fn no_stranger_is_heard_while_the_source_sends(
        packets in prop::collection::vec((0u64..50, 0u8..4, 0u16..3, 0u32..3), 0..300),
    ) {
        let mut lock = SourceLock::new();
        let source = at("10.0.0.0:5000");
        let mut now = 0;
        lock.renew(source, 0, ms(now));
        for (wait, host, port, ssrc) in packets {
            now += wait;
            let address = format!("10.0.0.{host}:{}", 5_000 + port);
            let standing = lock.weigh(at(&address), ssrc, ms(now));
            let is_source = (host, port, ssrc) == (0, 0, 0);
            prop_assert_eq!(standing, if is_source { Standing::Known } else { Standing::Stranger });
            prop_assert_eq!(lock.is_at(at(&address)), (host, port) == (0, 0));
            lock.renew(source, 0, ms(now));
        }
    }

    /// A source that is taken instead of another one was preceded by that much silence, and a lock is never stuck.
    #[test]
    fn a_change_of_source_comes_after_silence_and_comes(
        packets in prop::collection::vec((0u64..400, 0u8..3, 0u32..3, 0usize..3), 1..300),
    ) {
        let mut lock = SourceLock::new();
        let (mut now, mut heard) = (0, [None::<(u64, Origin)>; 2]);
        for (wait, host, ssrc, path) in packets {
            now += wait;
            let origin = Origin { path, ..at(&format!("10.0.0.{host}:5000")) };
            let before = lock.clone();
            let standing = lock.weigh(origin, ssrc, ms(now));
            prop_assert_eq!(&lock, &before, "a look changes nothing");
            if standing == Standing::Stranger {
                // Nobody was silent for long: another is heard on this path or as the stream, or the path is none.
                let is_heard = heard.iter().flatten().any(|(at, _)| now - at < 1_000);
                prop_assert!(is_heard || path >= PATHS_MAX);
                continue;
            }
            prop_assert!(path < PATHS_MAX);
            if let Some((at, address)) = heard[path] && address != origin {
                prop_assert!(now - at >= 1_000);
            }
            if standing == Standing::Successor {
                let newest = heard.iter().flatten().map(|(at, _)| *at).max().unwrap_or(0);
                prop_assert!(now - newest >= 50 && lock.ssrc().is_some_and(|known| known != ssrc));
            }
            lock.renew(origin, ssrc, ms(now));
            heard[path] = Some((now, origin));
            prop_assert!(lock.is_at(origin) && lock.weigh(origin, ssrc, ms(now)) == Standing::Known);
        }
    }
}
