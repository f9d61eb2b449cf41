//! What channels do with messages on their way: compression, parity.

use crate::link_support::{World, figure, settings};
use bytes::Bytes;
use glassline_transport::emulator::{End, LinkConfig, Loss, Network};
use glassline_transport::link::{
    CloseReason, Compression, Dictionary, Ecn, Event, Fec, Options, Outcome, Path, Settings,
};
use std::sync::Arc;
use std::time::Duration;

fn network(loss: Loss, seed: u64) -> Network {
    let config = LinkConfig::rate(20_000_000).with_delay(Duration::from_millis(20));
    Network::new(config.clone().with_loss(loss), config, seed).unwrap()
}

/// Words that a telemetry channel might carry.
fn words(number: usize) -> Bytes {
    let text = format!(
        "{{\"seq\":{number},\"roll\":0.{:03},\"armed\":true,\"mode\":\"loiter\"}}",
        number * 37 % 1000
    );
    Bytes::from(text.repeat(1 + number % 200))
}

fn exchange(settings: [Settings; 2], compression: Compression) -> (World, u64, u64) {
    let mut world = World::new(network(Loss::Random(0.05), 1), settings, 1);
    world.connect();
    world.link(End::Near).unwrap().open(0, Options { compression, ..Options::default() }).unwrap();
    // Some wait for the handshake, when nobody knows yet what the peer holds.
    (0..10).for_each(|number| world.send(End::Near, 0, words(number)));
    world.run_until_up();
    (10..300).for_each(|number| world.send(End::Near, 0, words(number)));
    world.run(Duration::from_secs(5));
    let got = world.take(End::Far, 0);
    assert!(got.into_iter().eq((0..300).map(words)), "{compression:?}");
    let counters = world.link(End::Near).unwrap().send_counters(0).unwrap();
    assert_eq!(world.link(End::Near).unwrap().held_bytes().0, 0);
    assert_eq!(counters.delivered, 300);
    (world, counters.bytes, counters.saved_bytes)
}

#[test]
fn compressed_messages_come_as_they_were() {
    for compression in [Compression::Deflate, Compression::Zstd] {
        let (mut world, bytes, saved) = exchange(settings(), compression);
        assert!(saved > bytes / 2, "{compression:?}: {saved} of {bytes}");
        let carried = world.link(End::Far).unwrap().receive_counters(0).unwrap().bytes;
        assert_eq!(carried, bytes - saved);
        let opened = world.events.iter().find_map(|event| match &event.2 {
            Event::Opened { options, .. } => Some(options.compression),
            _ => None,
        });
        assert_eq!(opened, Some(compression));
    }
}

#[test]
fn a_dictionary_is_used_where_both_ends_hold_it() {
    let dictionary = || Arc::new(Dictionary::new(&words(3)).unwrap());
    let [near, far] = settings();
    let with = |settings: &Settings| Settings { dictionary: Some(dictionary()), ..settings.clone() };
    let other =
        Settings { dictionary: Some(Arc::new(Dictionary::new(b"other words").unwrap())), ..far.clone() };
    let (_, _, both) = exchange([with(&near), with(&far)], Compression::Zstd);
    let (_, _, none) = exchange([near.clone(), far.clone()], Compression::Zstd);
    assert!(both > none, "{both} {none}");
    for far in [far, other] {
        assert_eq!(exchange([with(&near), far], Compression::Zstd).2, none);
    }
}

#[test]
fn what_claims_to_be_compressed_and_is_not_ends_the_link() {
    let mut world = World::shared(network(Loss::None, 2), 2);
    world.connect();
    world.run_until_up();
    let (now, path) = (world.now(), Path { remote: world.network.address(End::Near), via: 0 });
    let link = world.link(End::Far).unwrap();
    // OPEN of channel 0, reliable, ordered, zstd; a compressed message of 4 bytes on it.
    let frames = [0x08, 0, 0b1011, 1, 1, 0x80, 0, 0x10, 0, 0, 0x14, 0, 0, 4, 1, 2, 3, 4];
    assert!(link.handle_unsealed(now, path, &frames));
    assert_eq!(link.receive(0), None);
    world.run(Duration::from_millis(200));
    let ended = |event: &Event| {
        matches!(
            event,
            Event::Closed {
                reason: CloseReason::Violation("a message that does not decompress or lacks its stamp")
            }
        )
    };
    assert!(world.events.iter().any(|event| event.1 == End::Far && ended(&event.2)), "{:?}", world.events);
}

/// What has begun ends when something newer comes, at both ends, on channels of every kind; and it is never given to the
/// application, in part or whole.
#[test]
fn what_has_begun_gives_way_to_what_is_newer() {
    for (reliable, ordered) in [(true, true), (true, false), (false, true), (false, false)] {
        let narrow = LinkConfig::rate(1_000_000).with_delay(Duration::from_millis(20));
        let mut world = World::shared(Network::symmetric(narrow, 5).unwrap(), 5);
        world.connect();
        let wish = Options { newest: true, cancel_begun: true, receipts: true, ..Options::default() };
        world.link(End::Near).unwrap().open(0, Options { reliable, ordered, ..wish }).unwrap();
        world.run_until_up();
        // 50 kB take 400 ms; after 100 each has begun and none is whole.
        for number in 0..5u8 {
            world.send(End::Near, 0, vec![number; 50_000]);
            world.run(Duration::from_millis(100));
        }
        world.send(End::Near, 0, vec![9; 50_000]);
        world.run(Duration::from_secs(3));
        let got = world.take(End::Far, 0);
        assert_eq!(got, [vec![9; 50_000]], "reliable {reliable}, ordered {ordered}");
        let outcomes: Vec<Outcome> = world
            .events
            .iter()
            .filter_map(|event| match event.2 {
                Event::Finished { outcome, .. } => Some(outcome),
                _ => None,
            })
            .collect();
        assert_eq!(outcomes[..5], [Outcome::Cancelled; 5], "reliable {reliable}, ordered {ordered}");
        assert_eq!(outcomes[5..], [Outcome::Delivered]);
        for end in End::BOTH {
            let link = world.link(end).unwrap();
            assert!(link.is_idle() && link.held_bytes() == (0, 0), "{:?}", link.held_bytes());
        }
        let counters = world.link(End::Near).unwrap().send_counters(0).unwrap();
        assert_eq!((counters.cancelled, counters.delivered, counters.messages), (5, 1, 6));
        assert_eq!(world.link(End::Far).unwrap().receive_counters(0).unwrap().messages, 1);
    }
}

/// Messages of up to 20 kB on an unreliable channel; how many came, and what became of each as the sender saw it.
fn lossy(fec: Fec, loss: f64) -> (usize, Vec<Outcome>, World) {
    let mut world = World::shared(network(Loss::Random(loss), 3), 3);
    world.connect();
    let options = Options { reliable: false, fec, receipts: true, ..Options::default() };
    world.link(End::Near).unwrap().open(0, options).unwrap();
    world.run_until_up();
    let mut got = Vec::new();
    for number in 0..400usize {
        let size = 1 + number * 7919 % 20_000;
        let mut message = vec![number as u8; size];
        message[size / 2] = 0xAA;
        world.send(End::Near, 0, message);
        world.run(Duration::from_millis(20));
        got.extend(world.take(End::Far, 0));
    }
    world.run(Duration::from_secs(2));
    got.extend(world.take(End::Far, 0));
    for message in &got {
        let fill = if message.len() > 2 { message[0] } else { continue };
        let whole = message.iter().enumerate().all(|(at, byte)| *byte == fill || at == message.len() / 2);
        assert!(whole && message[message.len() / 2] == 0xAA, "a message is what was sent");
    }
    let outcomes = world.events.iter().filter_map(|event| match event.2 {
        Event::Finished { outcome, .. } => Some(outcome),
        _ => None,
    });
    let outcomes = outcomes.collect();
    assert!(world.link(End::Near).unwrap().is_idle());
    assert_eq!(world.link(End::Near).unwrap().held_bytes(), (0, 0));
    assert_eq!(world.link(End::Far).unwrap().held_bytes(), (0, 0));
    (got.len(), outcomes, world)
}

#[test]
fn parity_brings_back_what_is_lost() {
    let (plain, _, _) = lossy(Fec::Never, 0.03);
    let (protected, outcomes, mut world) = lossy(Fec::Always(30), 0.03);
    assert!(plain < 340 && protected >= 390, "{plain} {protected}");
    let delivered = outcomes.iter().filter(|outcome| **outcome == Outcome::Delivered).count();
    let lost = outcomes.iter().filter(|outcome| **outcome == Outcome::Lost).count();
    assert_eq!((delivered + lost, outcomes.len()), (400, 400));
    assert!(delivered.abs_diff(protected) <= 1, "the sender knows: {delivered} {protected}");
    let counters = world.link(End::Near).unwrap().send_counters(0).unwrap();
    let share = counters.parity_bytes as f64 / counters.bytes as f64;
    assert!((0.3..0.42).contains(&share), "{share}");
    let recovered = world.link(End::Far).unwrap().receive_counters(0).unwrap().recovered;
    assert!(recovered > 50, "{recovered}");
}

#[test]
fn parity_is_sent_while_packets_are_lost_and_not_otherwise() {
    let (_, _, mut world) = lossy(Fec::WhenLossy(30), 0.0);
    assert_eq!(world.link(End::Near).unwrap().send_counters(0).unwrap().parity_bytes, 0);
    let (protected, _, mut world) = lossy(Fec::WhenLossy(30), 0.03);
    assert!(world.link(End::Near).unwrap().send_counters(0).unwrap().parity_bytes > 0);
    assert!(protected >= 385, "{protected}");
}

/// A sender that always has data, at 10 Mbit/s behind a router that marks above 2 ms of queue: the share of the rate
/// that is used, the mean queue in bytes, the marks that it has heard of.
fn behind_a_marking_router(ecn: Ecn) -> (f64, f64, u64) {
    let config = LinkConfig::rate(10_000_000).with_delay(Duration::from_millis(20));
    let settings = settings().map(|settings| Settings { ecn, ..settings });
    let mut world = World::new(Network::symmetric(config, 4).unwrap(), settings, 4);
    world.marks_above = Some(2500);
    world.connect();
    world.link(End::Near).unwrap().open(0, Options { max_size: 1000, ..Options::default() }).unwrap();
    world.run_until_up();
    let (mut carried, mut queue) = (0, 0.0);
    for milli in 0..15_000 {
        let now = world.now();
        while world.link(End::Near).unwrap().held_bytes().0 < 300_000 {
            world.send(End::Near, 0, vec![0; 1000]);
        }
        world.run_until(now + Duration::from_millis(1), |_| false);
        let taken = world.take(End::Far, 0).len();
        if milli >= 5000 {
            carried += taken * 1000;
            queue += world.network.link(End::Near).queued().bytes as f64 / 10_000.0;
        }
    }
    let congested = world.link(End::Near).unwrap().statistics().congested_packets;
    (carried as f64 / 12_500_000.0, queue, congested)
}

fn tell_marks(who: &str, used: f64, queue: f64) {
    let case = "behind a router of 10 Mbit/s that marks above 2 ms";
    figure(case, who, "of the path used", "%", used * 100.0);
    figure(case, who, "mean queue", "ms", queue * 8.0 / 10_000.0);
}

#[test]
fn marks_of_routers_shorten_the_queue() {
    let (used, queue, congested) = behind_a_marking_router(Ecn::NotCapable);
    tell_marks("no marks", used, queue);
    assert!(congested == 0 && used > 0.85, "{used} {queue} {congested}");
    for ecn in [Ecn::Ect0, Ecn::Ect1] {
        let (used_marked, queue_marked, congested) = behind_a_marking_router(ecn);
        tell_marks(
            if ecn == Ecn::Ect0 { "marks, ECT(0)" } else { "marks, ECT(1)" },
            used_marked,
            queue_marked,
        );
        assert!(
            congested > 10 && queue_marked < 0.5 * queue,
            "{ecn:?}: {used_marked} {queue_marked} {congested}"
        );
        assert!(used_marked > 0.75, "{ecn:?}: {used_marked} {queue_marked} {congested}");
    }
}

#[test]
fn marks_are_kept_only_where_they_arrive() {
    for (marks_above, expected) in [(Some(u64::MAX), Ecn::Ect0), (None, Ecn::NotCapable)] {
        let config = LinkConfig::rate(10_000_000).with_delay(Duration::from_millis(20));
        let mut world = World::new(Network::symmetric(config, 4).unwrap(), settings(), 4);
        world.marks_above = marks_above;
        world.connect();
        world.link(End::Near).unwrap().open(0, Options::default()).unwrap();
        world.run_until_up();
        assert_eq!(world.link(End::Near).unwrap().ecn(), Ecn::Ect0, "until it is known");
        for _ in 0..100 {
            world.send(End::Near, 0, vec![0; 1000]);
        }
        let later = world.now() + Duration::from_secs(2);
        world.run_until(later, |_| false);
        assert_eq!(world.take(End::Far, 0).len(), 100);
        assert_eq!(world.link(End::Near).unwrap().ecn(), expected);
    }
}
