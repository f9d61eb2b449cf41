//! What the sender is told of its messages is what becomes of them, also where packets come later than anybody waits for them;
//! and the receiver is told of what it passes over as soon as it knows.

use crate::link_support::World;
use bytes::Bytes;
use glassline_media::Time;
use glassline_transport::emulator::{End, LinkConfig, Loss, Network, Queue, Reorder};
use glassline_transport::link::{Event, Fec, MessageId, Options, Outcome};
use std::collections::BTreeMap;
use std::time::Duration;

/// Messages of these sizes, one each 10 ms, over a path that holds some packets back for so long and loses some: what was told of
/// each, in order, and which came.
fn told(
    options: Options,
    seed: u64,
    hold: Duration,
    loss: f64,
    size: impl Fn(usize) -> usize,
) -> (BTreeMap<MessageId, Vec<Outcome>>, Vec<MessageId>) {
    let plain =
        LinkConfig::rate(20_000_000).with_delay(Duration::from_millis(20)).with_queue(Queue::packets(256));
    let config = LinkConfig { reorder: Reorder { probability: 0.05, hold }, ..plain.clone() };
    let config = config.with_loss(Loss::Random(loss));
    let mut world = World::shared(Network::new(config, plain, seed).unwrap(), seed);
    world.connect();
    world.link(End::Near).unwrap().open(1, options).unwrap();
    world.run_until_up();
    let (mut names, mut came) = (BTreeMap::new(), Vec::new());
    let take = |world: &mut World, names: &BTreeMap<u32, MessageId>, came: &mut Vec<MessageId>| {
        for message in world.take(End::Far, 1) {
            came.push(names[&u32::from_be_bytes(message[..4].try_into().unwrap())]);
        }
    };
    for number in 0..400u32 {
        let mut message = vec![0; size(number as usize)];
        message[..4].copy_from_slice(&number.to_be_bytes());
        let now = world.now();
        let name = world.link(End::Near).unwrap().send(now, 1, Bytes::from(message)).unwrap();
        names.insert(number, name);
        world.run(Duration::from_millis(10));
        take(&mut world, &names, &mut came);
    }
    world.run(Duration::from_secs(2));
    take(&mut world, &names, &mut came);
    let mut told: BTreeMap<MessageId, Vec<Outcome>> = BTreeMap::new();
    for (_, end, event) in &world.events {
        if let (End::Near, Event::Finished { channel: 1, message, outcome }) = (end, event) {
            told.entry(*message).or_default().push(*outcome);
        }
    }
    let counters = world.link(End::Near).unwrap().send_counters(1).unwrap();
    let last = |outcome| told.values().filter(|told| told.last() == Some(&outcome)).count() as u64;
    assert_eq!((counters.delivered, counters.lost), (last(Outcome::Delivered), last(Outcome::Lost)));
    assert_eq!(told.len(), 400);
    (told, came)
}

fn video() -> Options {
    Options { reliable: false, ordered: false, receipts: true, ..Options::default() }
}

#[test]
fn a_message_that_was_told_lost_and_came_late_is_told_delivered() {
    // Held back for 15 ms, packets come behind many others, but before the receiver hears that they were given up.
    let hold = Duration::from_millis(15);
    let mut corrected = 0;
    for (seed, options) in [(1, video()), (2, Options { fec: Fec::Always(20), ..video() }), (3, video())] {
        let small = seed == 3;
        let (told, came) =
            told(
                options,
                seed,
                hold,
                0.0,
                |number| {
                    if small { 100 + number % 400 } else { 9_000 + number % 2_000 }
                },
            );
        for (message, outcomes) in &told {
            match outcomes[..] {
                [Outcome::Delivered] => {}
                [Outcome::Lost, Outcome::Delivered] => corrected += 1,
                _ => panic!("seed {seed}: {message:?} was told {outcomes:?}"),
            }
            assert!(came.contains(message), "seed {seed}: {message:?}");
        }
        assert_eq!(came.len(), 400, "seed {seed}");
    }
    assert!(corrected > 0, "nothing was late enough");
}

#[test]
fn nothing_is_told_delivered_that_was_not() {
    // Some packets are lost, others so late that the receiver has been told not to wait.
    for (seed, hold) in [(1, 15), (2, 45), (3, 70), (4, 120)] {
        for fec in [Fec::Never, Fec::Always(20)] {
            let options = Options { fec, ..video() };
            let (told, came) = told(options, seed, Duration::from_millis(hold), 0.02, |_| 6_000);
            let mut lost = 0;
            for (message, outcomes) in &told {
                let delivered = outcomes.last() == Some(&Outcome::Delivered);
                assert!(!delivered || came.contains(message), "seed {seed}: {message:?} {outcomes:?}");
                assert!(outcomes.len() == 1 || outcomes[0] == Outcome::Lost, "seed {seed}: {outcomes:?}");
                lost += u32::from(!delivered);
            }
            assert!(lost > 0 || fec != Fec::Never, "seed {seed}: nothing was lost");
        }
    }
}

/// What events have told the far end of messages of channel 1 that it passed over: when, and how many.
fn passed_over(world: &World) -> Vec<(Time, u64)> {
    let told = world.events.iter().filter_map(|(at, end, event)| match (end, event) {
        (End::Far, Event::PassedOver { channel: 1, messages }) => Some((*at, *messages)),
        _ => None,
    });
    told.collect()
}

#[test]
fn the_receiver_is_told_of_what_will_not_come_though_nothing_comes_behind_it() {
    let config = LinkConfig::rate(20_000_000).with_delay(Duration::from_millis(20));
    for (seed, ordered) in [(1, false), (2, true)] {
        let mut world = World::shared(Network::symmetric(config.clone(), seed).unwrap(), seed);
        world.connect();
        world.link(End::Near).unwrap().open(1, Options { ordered, ..video() }).unwrap();
        world.run_until_up();
        world.send(End::Near, 1, vec![1; 6_000]);
        world.run(Duration::from_millis(100));
        assert_eq!(world.take(End::Far, 1).len(), 1);
        // Of the next one the second half is lost, and no other follows.
        world.send(End::Near, 1, vec![2; 24_000]);
        world.run(Duration::from_millis(8));
        world.network.set_loss(End::Near, Loss::Random(1.0)).unwrap();
        world.run(Duration::from_millis(60));
        world.network.set_loss(End::Near, Loss::None).unwrap();
        let lossless = world.now();
        assert_eq!(passed_over(&world), []);
        world.run(Duration::from_millis(400));
        assert!(world.take(End::Far, 1).is_empty());
        let told = passed_over(&world);
        assert!(matches!(told[..], [(at, 1)] if at > lossless), "ordered {ordered}: {told:?}");
        // The next message says it as well, and no event says it twice.
        world.send(End::Near, 1, vec![3; 6_000]);
        world.run(Duration::from_millis(100));
        let received = world.link(End::Far).unwrap().receive_message(1).unwrap();
        assert_eq!((received.bytes[0], received.skipped), (3, 1));
        assert_eq!(passed_over(&world).len(), 1);
    }
}

#[test]
fn events_tell_of_as_many_as_the_counters() {
    let config = LinkConfig::rate(20_000_000).with_delay(Duration::from_millis(20));
    for (seed, ordered) in [(1, false), (2, true)] {
        let lossy = config.clone().with_loss(Loss::Random(0.05));
        let mut world = World::shared(Network::new(lossy, config.clone(), seed).unwrap(), seed);
        world.connect();
        world.link(End::Near).unwrap().open(1, Options { ordered, ..video() }).unwrap();
        world.run_until_up();
        for _ in 0..300 {
            world.send(End::Near, 1, vec![1; 6_000]);
            world.run(Duration::from_millis(10));
            world.take(End::Far, 1);
        }
        world.run(Duration::from_secs(1));
        let told: u64 = passed_over(&world).iter().map(|told| told.1).sum();
        let counted = world.link(End::Far).unwrap().receive_counters(1).unwrap().skipped;
        assert!(told == counted && counted > 10, "ordered {ordered}: {told} of {counted}");
    }
}
