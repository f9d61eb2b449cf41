//! The times that messages carry.

use crate::link_support::{World, settings};
use bytes::Bytes;
use glassline_media::Utc;
use glassline_transport::emulator::{End, LinkConfig, Loss, Network};
use glassline_transport::link::{
    CloseReason, Compression, Error, Event, Fec, MAX_MESSAGE, Options, Path, Received,
};
use std::time::Duration;

const STAMPED: Options = Options {
    reliable: true,
    ordered: true,
    priority: 1,
    weight: 1,
    cancel_after: None,
    newest: false,
    cancel_begun: false,
    max_receive_time: None,
    max_size: MAX_MESSAGE as u32,
    queue: 4096,
    queue_bytes: 32 << 20,
    compression: Compression::None,
    fec: Fec::Never,
    stamped: true,
    receipts: false,
};

fn world(loss: Loss, options: Options) -> World {
    let config = LinkConfig::rate(20_000_000).with_delay(Duration::from_millis(20));
    let network = Network::new(config.clone().with_loss(loss), config, 7).unwrap();
    let mut world = World::shared(network, 7);
    world.connect();
    world.link(End::Near).unwrap().open(0, options).unwrap();
    world
}

/// Messages of all sizes, the empty one among them: alone in a packet, in a row with others, in fragments.
fn message(number: u64) -> Bytes {
    Bytes::from(format!("{number} degrees ").repeat((number * number % 400) as usize))
}

fn stamp(number: u64) -> Utc {
    Utc::from_micros(1_700_000_000_000_000 + number * 12_345)
}

fn send(world: &mut World, numbers: std::ops::Range<u64>) {
    let now = world.now();
    let link = world.link(End::Near).unwrap();
    for number in numbers {
        link.send_stamped(now, 0, message(number), stamp(number)).unwrap();
    }
}

fn take(world: &mut World) -> Vec<Received> {
    let link = world.link(End::Far).unwrap();
    std::iter::from_fn(|| link.receive_message(0)).collect()
}

fn is_told_as_stamped(world: &World) -> bool {
    let opened = world.events.iter().find_map(|event| match &event.2 {
        Event::Opened { options, .. } => Some(options.stamped),
        _ => None,
    });
    opened.expect("the channel was opened")
}

#[test]
fn every_message_comes_with_the_time_that_it_was_given_however_long_it_waited() {
    for options in [
        STAMPED,
        Options { ordered: false, ..STAMPED },
        Options { compression: Compression::Zstd, ..STAMPED },
        Options { compression: Compression::Deflate, ..STAMPED },
        Options { reliable: false, fec: Fec::Always(100), ..STAMPED },
    ] {
        let loss = if options.reliable { Loss::Random(0.05) } else { Loss::None };
        let mut world = world(loss, options);
        // Some wait for the handshake.
        send(&mut world, 0..20);
        world.run_until_up();
        send(&mut world, 20..200);
        world.run(Duration::from_secs(5));
        assert!(is_told_as_stamped(&world));
        let mut came = take(&mut world);
        came.sort_by_key(|received| received.number);
        assert_eq!(came.len(), 200, "{options:?}");
        for (number, received) in (0..).zip(came) {
            assert_eq!(
                (received.stamp, received.bytes),
                (Some(stamp(number)), message(number)),
                "{options:?}"
            );
        }
        assert_eq!(world.link(End::Near).unwrap().held_bytes().0, 0);
    }
}

#[test]
fn a_message_that_was_given_no_time_has_none() {
    let mut world = world(Loss::None, STAMPED);
    world.run_until_up();
    world.send(End::Near, 0, "hello");
    world.run(Duration::from_millis(200));
    let [received] = &take(&mut world)[..] else { panic!("one message") };
    assert_eq!((received.stamp, &received.bytes[..]), (None, &b"hello"[..]));
}

#[test]
fn a_time_on_a_channel_without_times_is_left_out() {
    let mut world = world(Loss::None, Options { stamped: false, ..STAMPED });
    world.run_until_up();
    send(&mut world, 3..5);
    world.run(Duration::from_millis(200));
    assert!(!is_told_as_stamped(&world));
    let came: Vec<_> =
        take(&mut world).into_iter().map(|received| (received.stamp, received.bytes)).collect();
    assert_eq!(came, [(None, message(3)), (None, message(4))]);
}

#[test]
fn a_peer_that_knows_of_no_times_gets_the_messages_alone() {
    for compression in [Compression::None, Compression::Zstd] {
        let mut world = world(Loss::Random(0.05), Options { compression, ..STAMPED });
        world.run_until_up();
        let link = world.link(End::Near).unwrap();
        assert_eq!(link.takes_stamps(), Some(true));
        link.forget_stamps();
        assert_eq!(link.takes_stamps(), Some(false));
        send(&mut world, 0..200);
        world.run(Duration::from_secs(5));
        assert!(!is_told_as_stamped(&world));
        let came: Vec<_> = take(&mut world).into_iter().map(|received| received.bytes).collect();
        assert!(came.into_iter().eq((0..200).map(message)), "{compression:?}");
        assert_eq!(world.link(End::Near).unwrap().held_bytes().0, 0);
    }
}

#[test]
fn what_was_not_taken_before_a_restart_keeps_its_times() {
    let mut world = world(Loss::None, STAMPED);
    world.run_until_up();
    send(&mut world, 0..5);
    world.run(Duration::from_secs(1));
    world.restart(End::Near, settings()[0].clone());
    world.connect();
    world.link(End::Near).unwrap().open(0, STAMPED).unwrap();
    world.run_until_up();
    send(&mut world, 5..10);
    world.run(Duration::from_secs(1));
    let came = take(&mut world);
    assert_eq!(came.len(), 10);
    for (number, received) in (0..).zip(came) {
        assert_eq!((received.stamp, received.stale), (Some(stamp(number)), number < 5));
    }
}

#[test]
fn a_message_that_is_shorter_than_its_stamp_ends_the_link() {
    let mut world = world(Loss::None, STAMPED);
    world.run_until_up();
    let (now, path) = (world.now(), Path { remote: world.network.address(End::Near), via: 0 });
    let link = world.link(End::Far).unwrap();
    // OPEN of channel 1, reliable, ordered, stamped; a message of 7 bytes on it.
    let frames = [0x08, 1, 0b1_0011, 1, 1, 0x80, 0, 0x10, 0, 0, 0x10, 1, 0, 7, 1, 2, 3, 4, 5, 6, 7];
    assert!(link.handle_unsealed(now, path, &frames));
    assert_eq!(link.receive_message(1), None);
    world.run(Duration::from_millis(200));
    let violation = "a message that does not decompress or lacks its stamp";
    let ended = |event: &Event| matches!(event, Event::Closed { reason: CloseReason::Violation(what) } if *what == violation);
    assert!(world.events.iter().any(|event| event.1 == End::Far && ended(&event.2)), "{:?}", world.events);
}

#[test]
fn the_largest_message_has_room_for_its_stamp() {
    // Unless with the stamp it were larger than any message may be.
    for (max_size, largest) in [(1000, 1000), (MAX_MESSAGE as u32, MAX_MESSAGE - 8)] {
        let options = Options { max_size, ..STAMPED };
        assert_eq!(options.max_message() as usize, largest);
        let mut world = world(Loss::None, options);
        world.run_until_up();
        let now = world.now();
        let link = world.link(End::Near).unwrap();
        let refused = link.send_stamped(now, 0, vec![1; largest + 1], stamp(1));
        let expected = Error::TooLarge { found: largest + 1, limit: largest as u32, channel: 0 };
        assert_eq!(refused, Err(expected));
        link.send_stamped(now, 0, vec![1; largest], stamp(1)).unwrap();
        world.run(Duration::from_secs(15));
        let came = take(&mut world);
        assert_eq!((came.len(), came[0].bytes.len(), came[0].stamp), (1, largest, Some(stamp(1))));
    }
}
