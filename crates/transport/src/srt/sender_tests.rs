use super::*;
use proptest::prelude::*;

const RTT: Duration = Duration::from_millis(40);

fn at(millis: u64) -> Time {
    Time::from_millis(1000 + millis)
}

fn sender() -> Sender {
    Sender::new(Sequence::new(0x7fff_fffe), Duration::from_millis(120), at(0))
}

/// What leaves now: numbers from the first one on, and whether again.
fn leaving(sender: &mut Sender, millis: u64) -> Vec<(i32, bool)> {
    let mut left = Vec::new();
    while let Some(outgoing) = sender.poll(at(millis), RTT, 0, 2000) {
        left.push((outgoing.sequence.minus(Sequence::new(0x7fff_fffe)), outgoing.is_again));
    }
    left
}

fn lost(sender: &mut Sender, first: u32, last: u32, millis: u64) -> Option<(i32, i32)> {
    let base = Sequence::new(0x7fff_fffe);
    let gone = sender.handle_loss((base.plus(first), base.plus(last)), &mut 1000, at(millis), RTT);
    gone.map(|(first, last)| (first.minus(base), last.minus(base)))
}

fn push(sender: &mut Sender, count: usize, millis: u64) {
    (0..count).for_each(|_| assert!(sender.push(&[1; 1316], at(millis))));
}

#[test]
fn what_the_peer_lacks_goes_again_once_in_a_round_trip_and_before_what_is_new() {
    let mut sender = sender();
    push(&mut sender, 3, 0);
    assert_eq!(leaving(&mut sender, 0), [(0, false), (1, false), (2, false)]);
    push(&mut sender, 1, 41);
    assert_eq!(lost(&mut sender, 1, 1, 41), None);
    assert_eq!(leaving(&mut sender, 41), [(1, true), (3, false)]);
    lost(&mut sender, 1, 1, 51);
    assert_eq!(leaving(&mut sender, 51), [], "it is under way");
    // Asked again after that, there is time for no third report: two copies leave.
    lost(&mut sender, 1, 1, 86);
    assert_eq!(leaving(&mut sender, 86), [(1, true)]);
    assert_eq!(leaving(&mut sender, 90), [(1, true)]);
    assert_eq!(sender.counts.resent, 3);
}

#[test]
fn what_the_peer_has_is_forgotten_and_told_where_it_is_asked_for() {
    let mut sender = sender();
    push(&mut sender, 4, 0);
    leaving(&mut sender, 0);
    sender.acknowledge(Sequence::new(0x7fff_fffe).plus(2), at(2000));
    assert_eq!((sender.kept.len(), sender.bytes()), (2, 2632));
    assert_eq!(lost(&mut sender, 0, 0, 50), Some((0, 0)));
    assert_eq!(lost(&mut sender, 1, 2, 50), Some((1, 1)));
    sender.acknowledge(Sequence::new(0x7fff_fffe).plus(9), at(2000));
    assert_eq!(sender.kept.len(), 2, "it has never sent that");
}

#[test]
fn what_is_too_old_is_given_up_and_its_numbers_are_told() {
    let mut sender = sender();
    push(&mut sender, 2, 0);
    leaving(&mut sender, 0);
    sender.set_pace(Some(Bitrate::from_bits_per_second(1)));
    push(&mut sender, 3, 10);
    sender.drop_late(at(1020));
    assert_eq!(sender.counts.dropped, 0, "it is kept for as long");
    sender.drop_late(at(1021));
    let base = Sequence::new(0x7fff_fffe);
    assert_eq!(sender.take_given_up(), Some((base, base.plus(1))));
    // What never left has had no number: the next one that leaves follows.
    sender.drop_late(at(1050));
    assert_eq!((sender.counts.dropped, sender.next()), (5, base.plus(2)));
    sender.set_pace(None);
    push(&mut sender, 1, 1060);
    assert_eq!(leaving(&mut sender, 1060), [(2, false)]);
}

#[test]
fn the_tail_goes_again_since_its_loss_shows_by_nothing_else() {
    let mut sender = sender();
    push(&mut sender, 2, 0);
    leaving(&mut sender, 0);
    assert_eq!(sender.poll_timeout(RTT), Some(at(55)));
    assert_eq!(leaving(&mut sender, 55), [(1, true)]);
    assert_eq!(sender.poll_timeout(RTT), Some(at(165)));
    sender.acknowledge(Sequence::new(0x7fff_fffe).plus(2), at(2000));
    assert_eq!(sender.poll_timeout(RTT), None);
}

#[test]
fn a_burst_is_spread_by_the_pace() {
    let mut sender = sender();
    sender.set_pace(Some(Bitrate::from_bits_per_second(8_000_000)));
    push(&mut sender, 200, 0);
    let first = leaving(&mut sender, 0).len();
    assert!((45..60).contains(&first), "{first} leave at once");
    // A megabyte a second: 76 packets in a tenth of it.
    let more: usize = (1..=100).map(|millis| leaving(&mut sender, millis).len()).sum();
    assert!((74..79).contains(&more), "{more} in a tenth of a second");
}

#[test]
fn one_that_asks_for_all_again_and_again_gets_as_much_as_is_new() {
    let mut sender = sender();
    push(&mut sender, 1000, 0);
    assert_eq!(leaving(&mut sender, 0).len(), 1000);
    let mut again = 0;
    for round in 1..=20 {
        for _ in 0..5 {
            sender.handle_loss(
                (Sequence::new(0x7fff_fffe), Sequence::new(0x7fff_fffe).plus(999)),
                &mut 20_000,
                at(round * 40),
                RTT,
            );
        }
        again += leaving(&mut sender, round * 40).len();
    }
    assert!(again * 1316 <= AGAIN_BURST_BYTES, "{again} packets");
}

proptest! {
    #[test]
    fn any_reports_keep_to_the_bounds(
        steps in proptest::collection::vec((0u8..5, any::<u32>(), any::<u32>()), 1..200),
    ) {
        let mut sender = sender();
        let mut millis = 0;
        let mut next = 0;
        for (step, a, b) in steps {
            millis += u64::from(a % 50);
            match step {
                0 => _ = sender.push(&vec![0; b as usize % 1457], at(millis)),
                1 => sender.acknowledge(Sequence::new(0x7fff_fffe).plus(a % 200), at(2000)),
                2 => _ = lost(&mut sender, a % 300, b % 300, millis),
                3 => _ = sender.handle_loss((Sequence::new(a), Sequence::new(b)), &mut 500, at(millis), RTT),
                _ => sender.drop_late(at(millis)),
            }
            for (number, is_again) in leaving(&mut sender, millis) {
                if !is_again {
                    prop_assert_eq!(number, next, "numbers go on without a gap");
                    next += 1;
                }
            }
            prop_assert!(sender.sent <= sender.kept.len() && sender.asked.len() + sender.copies.len() <= 2 * sender.kept.len() + 2 * 300);
            prop_assert_eq!(sender.bytes, sender.kept.iter().map(|kept| kept.payload.len()).sum::<usize>());
        }
    }
}
