//! A transport stream over a channel that is reliable until a deadline, as `call::contribution` sends it: two lines, of which one is
//! cut, and the holes that the receiver has then.

use crate::link_support::figure;
use crate::link_support::paths::{Pair, millis};
use glassline_media::Time;
use glassline_transport::emulator::{End, LinkConfig, Loss, Queue};
use glassline_transport::link::{Bonding, Fec, Options};
use std::time::Duration;

/// The channel of packets.
const STREAM: u8 = 0;
/// From one picture to the next: 50 a second.
const FRAME: Duration = Duration::from_millis(20);
/// A stream of 4 Mbit/s, in messages of up to 28 TS packets.
const PICTURE_BYTES: usize = 10_000;
const MESSAGE_BYTES: usize = 28 * 188;
/// The parity that it has: one shard for the four or five of a message.
const PARITY: Fec = Fec::WhenLossy(20);

/// How messages are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Everything over both lines.
    Both,
    /// Divided among the lines.
    Split,
    /// Divided, and each message over the other line too as far as that carries it.
    SplitTwice,
}

impl Way {
    fn bonding(self) -> Bonding {
        if self == Way::Both { Bonding::Both } else { Bonding::Sum }
    }
}

fn line(bits_per_second: u64, delay: u64) -> LinkConfig {
    LinkConfig::rate(bits_per_second).with_delay(millis(delay)).with_queue(Queue::packets(256))
}

/// What came, by the messages' numbers: when each was sent and given to the application.
struct Arrived {
    messages: Vec<(u64, Time, Time)>,
    sent: u64,
}

impl Arrived {
    /// Messages that never came.
    fn holes(&self) -> u64 {
        self.sent - self.messages.len() as u64
    }

    /// The delays of all that was sent behind the first second.
    fn delays(&self) -> impl Iterator<Item = Duration> {
        let begun = self.messages.first().map_or(Time::ZERO, |first| first.1) + millis(1000);
        let settled = self.messages.iter().filter(move |(_, sent, _)| *sent > begun);
        settled.map(|(_, sent, came)| *came - *sent)
    }

    /// The longest delay of messages that were sent in a part of the run.
    fn latest(&self, from: Time, to: Time) -> Duration {
        let within = self.messages.iter().filter(|(_, sent, _)| (from..to).contains(sent));
        within.map(|(_, sent, came)| *came - *sent).max().unwrap_or_default()
    }
}

/// Sends the stream for so many seconds. Whatever came is in order, each message once.
fn stream(
    pair: &mut Pair,
    way: Way,
    fec: Fec,
    deadline: Duration,
    seconds: u64,
    mut change: impl FnMut(u64, &mut Pair),
) -> Arrived {
    let options =
        Options { priority: 0, cancel_after: Some(deadline), max_size: 1 << 16, fec, ..Options::default() };
    pair.link(End::Near).unwrap().open(STREAM, options).unwrap();
    let mut arrived = Arrived { messages: Vec::new(), sent: 0 };
    let take = |pair: &mut Pair, arrived: &mut Arrived| {
        for message in pair.take(End::Far, STREAM) {
            let word = |at: usize| u64::from_be_bytes(message[at..at + 8].try_into().unwrap());
            let last = arrived.messages.last().map(|(number, ..)| *number);
            assert!(last.is_none_or(|last| last < word(0)), "{last:?}, then {}", word(0));
            arrived.messages.push((word(0), Time::from_nanos(word(8)), pair.now()));
        }
    };
    let start = pair.now();
    for picture in 0..seconds * 50 {
        change(picture * 20, pair);
        let now = pair.now();
        let mut left = PICTURE_BYTES;
        while left > 0 {
            let mut message = vec![0x47; left.min(MESSAGE_BYTES)];
            left -= message.len();
            message[..8].copy_from_slice(&arrived.sent.to_be_bytes());
            message[8..16].copy_from_slice(&now.as_nanos().to_be_bytes());
            arrived.sent += 1;
            let link = pair.link(End::Near).unwrap();
            let sent = match way {
                Way::SplitTwice => link.send_twice(now, STREAM, message),
                Way::Both | Way::Split => link.send(now, STREAM, message),
            };
            sent.expect("there is room");
        }
        pair.run_until(start + FRAME * (picture as u32 + 1), |pair| take(pair, &mut arrived));
    }
    let until = pair.now() + deadline + millis(1000);
    pair.run_until(until, |pair| take(pair, &mut arrived));
    arrived
}

/// What came of a cut: messages that never came, and by how much others came later than before, while the line was away and when it
/// was back.
struct Cut {
    holes: u64,
    added: Duration,
    added_at_return: Duration,
}

/// Cuts one of two lines from the fifth second to the tenth.
fn cut(way: Way, lines: [LinkConfig; 2], via: usize, both_ways: bool, deadline: Duration) -> Cut {
    let mut pair = Pair::up(way.bonding(), lines, 7 + via as u64);
    let start = pair.now();
    let arrived = stream(&mut pair, way, PARITY, deadline, 14, |milli, pair| match (milli, both_ways) {
        (5000, true) => pair.set_loss(via, Loss::Random(1.0)),
        (5000, false) => pair.networks[via].set_loss(End::Near, Loss::Random(1.0)).unwrap(),
        (10_000, _) => pair.set_loss(via, Loss::None),
        _ => {}
    });
    let latest = |from, to| arrived.latest(start + millis(from), start + millis(to));
    let (before, away, back) = (latest(2000, 4900), latest(4900, 9900), latest(9900, 14_000));
    let case = format!("{way:?}, line {via} cut {}", if both_ways { "both ways" } else { "one way" });
    for (metric, time) in
        [("latest before", before), ("latest meanwhile", away), ("latest at its return", back)]
    {
        figure(&case, "contribution", metric, "ms", time.as_secs_f64() * 1e3);
    }
    figure(&case, "contribution", "holes", "messages", arrived.holes() as f64);
    Cut {
        holes: arrived.holes(),
        added: away.saturating_sub(before),
        added_at_return: back.saturating_sub(before),
    }
}

/// A fibre and a phone: each carries the stream.
fn fibre_and_phone() -> [LinkConfig; 2] {
    [line(20_000_000, 10), line(10_000_000, 40)]
}

#[test]
fn sent_twice_nothing_is_missing_when_one_line_is_cut_and_little_is_late() {
    for way in [Way::SplitTwice, Way::Both] {
        for via in 0..2 {
            for both_ways in [true, false] {
                let cut = cut(way, fibre_and_phone(), via, both_ways, millis(500));
                let case = format!("{way:?}, line {via}, {both_ways}");
                assert_eq!(cut.holes, 0, "{case}");
                // A picture's time, and what one line is slower than the other.
                assert!(cut.added <= FRAME + millis(30), "{case}: {:?} later", cut.added);
                // A line that is back is tried with messages before it is known what it carries.
                assert!(cut.added_at_return <= millis(200), "{case}: {:?}", cut.added_at_return);
            }
        }
    }
}

#[test]
fn split_over_two_lines_nothing_is_missing_within_three_round_trips() {
    for way in [Way::Split, Way::SplitTwice, Way::Both] {
        for via in 0..2 {
            for both_ways in [true, false] {
                // Of the slower line.
                let cut = cut(way, fibre_and_phone(), via, both_ways, 3 * millis(80));
                assert_eq!(cut.holes, 0, "{way:?}, line {via}, {both_ways}");
            }
        }
    }
}

/// Neither line carries the stream alone, both together do.
#[test]
fn two_lines_carry_a_stream_together_that_neither_carries_alone() {
    for way in [Way::Split, Way::SplitTwice] {
        let lines = [line(3_000_000, 20), line(3_000_000, 30)];
        let mut pair = Pair::up(way.bonding(), lines, 11);
        let start = pair.now();
        let arrived = stream(&mut pair, way, PARITY, millis(1000), 20, |_, _| {});
        let late = arrived
            .messages
            .iter()
            .filter(|(_, sent, came)| *sent > start + millis(3000) && *came - *sent > millis(400));
        let (late, missing) = (late.count(), arrived.holes());
        figure(&format!("{way:?}, 3 + 3 Mbit/s for 4"), "contribution", "holes", "messages", missing as f64);
        assert!(
            late == 0 && missing * 50 <= arrived.sent,
            "{way:?}: {late} late, {missing} of {} missing",
            arrived.sent
        );
    }
}

#[test]
fn a_lossy_line_leaves_no_hole_while_a_resend_has_time() {
    let mut pair = Pair::up(Bonding::Sum, [line(20_000_000, 30)], 5);
    pair.set_loss(0, Loss::Random(0.05));
    let arrived = stream(&mut pair, Way::Split, PARITY, millis(500), 20, |_, _| {});
    assert_eq!(arrived.holes(), 0);
}

/// What comes of a stream of which each line loses 2 % of the packets, at random or in bursts: holes, delays, and what was sent.
struct Lossy {
    holes: u64,
    delays: Vec<Duration>,
    /// Bytes of parity and of all else that was sent, by those of the messages.
    parity: f64,
    wire: f64,
}

impl Lossy {
    fn new(case: &str, lines: &[LinkConfig], way: Way, fec: Fec, loss: &Loss) -> Lossy {
        let mut found = Lossy { holes: 0, delays: Vec::new(), parity: 0.0, wire: 0.0 };
        for seed in 0..3 {
            let mut pair = Pair::up(way.bonding(), lines.to_vec(), 11 + 100 * seed);
            (0..lines.len()).for_each(|via| pair.set_loss(via, *loss));
            let arrived = stream(&mut pair, way, fec, millis(1000), 20, |_, _| {});
            found.holes += arrived.holes();
            found.delays.extend(arrived.delays());
            let link = pair.link(End::Near).unwrap();
            let counters = link.send_counters(STREAM).unwrap();
            found.parity += counters.parity_bytes as f64 / counters.bytes as f64 / 3.0;
            found.wire += link.statistics().sent_bytes as f64 / counters.bytes as f64 / 3.0;
        }
        found.delays.sort();
        let case = format!("{case}, {way:?}, {fec:?}");
        for (metric, time) in [
            ("p50", found.at(0.5)),
            ("p95", found.at(0.95)),
            ("p99", found.at(0.99)),
            ("worst", found.at(1.0)),
        ] {
            figure(&case, "contribution", metric, "ms", time.as_secs_f64() * 1e3);
        }
        figure(&case, "contribution", "holes", "messages", found.holes as f64);
        figure(&case, "contribution", "bytes of parity by those of messages", "", found.parity);
        figure(&case, "contribution", "bytes on the wire by those of messages", "", found.wire);
        found
    }

    fn at(&self, share: f64) -> Duration {
        self.delays[((self.delays.len() - 1) as f64 * share) as usize]
    }
}

fn bursts() -> Loss {
    // 2.4 packets long in the mean.
    Loss::GilbertElliott { to_bad: 0.0085, to_good: 0.417, loss_good: 0.0, loss_bad: 1.0 }
}

/// Neither line carries the stream alone, both together do, and both lose packets.
#[test]
fn parity_makes_good_what_lines_lose_that_carry_a_stream_together() {
    let lines = [line(3_000_000, 20), line(3_000_000, 30)];
    for (case, loss) in [("2 % lost", Loss::Random(0.02)), ("2 % lost in bursts", bursts())] {
        for way in [Way::Split, Way::SplitTwice] {
            let [plain, parity] = [Fec::Never, PARITY]
                .map(|fec| Lossy::new(&format!("3 + 3 Mbit/s for 4, {case}"), &lines, way, fec, &loss));
            assert_eq!((plain.holes, parity.holes), (0, 0), "{case}, {way:?}");
            let (is_random, told) = (matches!(loss, Loss::Random(_)), format!("{case}, {way:?}"));
            let p95 = if is_random { plain.at(0.95).mul_f64(0.7) } else { plain.at(0.95) };
            assert!(parity.at(0.95) < p95, "{told}: {:?} {:?}", parity.at(0.95), plain.at(0.95));
            assert!(parity.at(0.99) < plain.at(0.99), "{told}: {:?} {:?}", parity.at(0.99), plain.at(0.99));
            assert!(
                parity.at(1.0) <= plain.at(1.0) + FRAME * 2,
                "{told}: {:?} {:?}",
                parity.at(1.0),
                plain.at(1.0)
            );
            assert!(parity.at(0.5) <= plain.at(0.5) + millis(5), "{told}: {:?}", parity.at(0.5));
        }
    }
}

#[test]
fn parity_makes_good_what_one_line_loses() {
    let lines = [line(6_000_000, 30)];
    let [plain, parity] = [Fec::Never, PARITY]
        .map(|fec| Lossy::new("6 Mbit/s for 4, 2 % lost", &lines, Way::Split, fec, &Loss::Random(0.02)));
    assert_eq!((plain.holes, parity.holes), (0, 0));
    assert!(parity.at(0.95) * 2 < plain.at(0.95) + millis(10), "{:?} {:?}", parity.at(0.95), plain.at(0.95));
    assert!(parity.at(0.99) < plain.at(0.99), "{:?} {:?}", parity.at(0.99), plain.at(0.99));
}

/// The line has next to no room beside the stream: parity does not take what messages need.
#[test]
fn parity_takes_nothing_of_what_the_stream_needs() {
    let lines = [line(4_600_000, 30)];
    let [plain, parity] = [Fec::Never, PARITY]
        .map(|fec| Lossy::new("4.6 Mbit/s for 4, 2 % lost", &lines, Way::Split, fec, &Loss::Random(0.02)));
    assert_eq!((plain.holes, parity.holes), (0, 0));
    assert!(parity.parity < 0.1, "{}", parity.parity);
    for share in [0.5, 0.95, 0.99] {
        let bound = plain.at(share).mul_f64(1.1) + millis(5);
        assert!(parity.at(share) <= bound, "{share}: {:?} {:?}", parity.at(share), plain.at(share));
    }
}

/// Each of two lossy lines carries the stream: it goes twice, as where nothing is lost, and what is lost twice waits for a resend.
#[test]
fn copies_stand_for_parity_where_each_line_carries_the_stream() {
    let lines = [line(20_000_000, 20), line(20_000_000, 30)];
    let found =
        Lossy::new("20 + 20 Mbit/s for 4, 2 % lost", &lines, Way::SplitTwice, PARITY, &Loss::Random(0.02));
    assert!(found.holes == 0 && found.wire > 1.7 && found.parity < 0.1, "{} {}", found.wire, found.parity);
}

/// An outage that is longer than the deadline: what is older is given up, and the stream goes on with what is fresh.
#[test]
fn an_outage_of_all_lines_costs_what_is_older_than_the_deadline_and_no_more() {
    let deadline = millis(500);
    let mut pair = Pair::up(Bonding::Both, fibre_and_phone(), 9);
    let start = pair.now();
    let set = |pair: &mut Pair, loss: Loss| (0..2).for_each(|via| pair.set_loss(via, loss));
    let arrived = stream(&mut pair, Way::Both, PARITY, deadline, 14, |milli, pair| match milli {
        5000 => set(pair, Loss::Random(1.0)),
        8000 => set(pair, Loss::None),
        _ => {}
    });
    let outage = 3 * 50 * 2;
    assert!(arrived.holes() > 0 && arrived.holes() <= outage + 20, "{} of {outage}", arrived.holes());
    // It is as live as before some seconds later.
    let late = arrived.latest(start + millis(11_000), start + millis(14_000));
    assert!(late < millis(150), "{late:?}");
}
