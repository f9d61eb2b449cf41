//! A link whose peer was away for longer than the idle time-out: where both ends are still the same, channels go on where
//! they were.

use crate::link_support::{World, settings};
use glassline_media::Time;
use glassline_transport::emulator::{End, LinkConfig, Loss, Network};
use glassline_transport::link::{CloseReason, Error, Event, Options, Settings};
use std::time::Duration;

const OUTAGE: Duration = Duration::from_secs(8);

fn world(seed: u64, settings: [Settings; 2]) -> World {
    let path = LinkConfig::rate(4_000_000).with_delay(Duration::from_millis(20));
    let mut world = World::new(Network::symmetric(path, seed).unwrap(), settings, seed);
    world.connect();
    world.run_until_up();
    world
}

fn set_loss(world: &mut World, towards: &[End], loss: &Loss) {
    towards.iter().for_each(|end| world.network.set_loss(*end, *loss).unwrap());
}

/// Messages of one direction: numbered, of sizes that fill from a part of a packet to some dozens of them.
struct Stream {
    from: End,
    next: u32,
    taken: u32,
}

impl Stream {
    const MESSAGES: u32 = 2000;

    fn new(from: End) -> Stream {
        Stream { from, next: 0, taken: 0 }
    }

    fn message(number: u32) -> Vec<u8> {
        let mut message = number.to_be_bytes().to_vec();
        message.resize(if number.is_multiple_of(50) { 40_000 } else { 20 + number as usize % 1500 }, 7);
        message
    }

    /// Hands over what there is room for, and takes what has come: each message once, in its order.
    fn go_on(&mut self, world: &mut World) {
        let now = world.now();
        while self.next < Stream::MESSAGES {
            match world.link(self.from).unwrap().send(now, 0, Stream::message(self.next)) {
                Ok(_) => self.next += 1,
                Err(Error::QueueFull { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
        for message in world.take(self.from.other(), 0) {
            assert!(
                message == Stream::message(self.taken),
                "{:?}: message {} is another",
                self.from,
                self.taken
            );
            self.taken += 1;
        }
    }

    fn is_over(&self) -> bool {
        self.taken == Stream::MESSAGES
    }
}

fn small_queue() -> Options {
    Options { queue: 64, queue_bytes: 1 << 20, receipts: true, ..Options::default() }
}

/// Two streams, in which an outage towards `silent` begins at `at`; and what was told of the link.
fn through_an_outage(seed: u64, silent: &[End], at: Duration) -> Vec<(End, Event)> {
    let mut world = world(seed, settings());
    let mut streams = End::BOTH.map(Stream::new);
    for end in End::BOTH {
        world.link(end).unwrap().open(0, small_queue()).unwrap();
    }
    let mut steps = [(at, Some(Loss::Random(1.0))), (at + OUTAGE, Some(Loss::None))];
    let begin = world.now();
    world.run_until(begin + Duration::from_secs(90), |world| {
        for (after, loss) in &mut steps {
            if world.now() >= begin + *after
                && let Some(loss) = loss.take()
            {
                set_loss(world, silent, &loss);
            }
        }
        streams.iter_mut().for_each(|stream| stream.go_on(world));
        streams.iter().all(Stream::is_over)
    });
    assert!(streams.iter().all(Stream::is_over), "seed {seed}: {:?}", streams.map(|stream| stream.taken));
    let of_link = |event: &Event| {
        !matches!(
            event,
            Event::Readable { .. }
                | Event::Opened { .. }
                | Event::Finished { outcome: glassline_transport::link::Outcome::Delivered, .. }
        )
    };
    world.events.iter().filter(|event| of_link(&event.2)).map(|event| (event.1, event.2.clone())).collect()
}

fn count(events: &[(End, Event)], is_it: impl Fn(&Event) -> bool) -> usize {
    events.iter().filter(|event| is_it(&event.1)).count()
}

#[test]
fn reliable_channels_go_on_where_they_were_after_an_outage() {
    for seed in 0..4 {
        let events = through_an_outage(seed, &End::BOTH, Duration::from_millis(300 + 370 * seed));
        let suspended = Event::Suspended { reason: CloseReason::TimedOut };
        assert_eq!(count(&events, |event| *event == suspended), 2, "seed {seed}: {events:?}");
        assert_eq!(count(&events, |event| *event == Event::Resumed), 2, "seed {seed}: {events:?}");
        assert_eq!(count(&events, |event| matches!(event, Event::Connected { again: true })), 0);
        assert_eq!(count(&events, |event| matches!(event, Event::Finished { .. })), 0, "{events:?}");
    }
}

#[test]
fn where_one_direction_is_silent_the_end_that_hears_the_other_one_goes_on() {
    for (seed, end) in [(10, End::Near), (11, End::Far)] {
        // The network loses what this end sends: the other one hears nothing, and this one all the time.
        let events = through_an_outage(seed, &[end], Duration::from_millis(700));
        let told = |is_it: fn(&Event) -> bool| -> Vec<End> {
            events.iter().filter(|event| is_it(&event.1)).map(|event| event.0).collect()
        };
        assert_eq!(told(|event| matches!(event, Event::Suspended { .. })), [end.other()], "{events:?}");
        assert_eq!(told(|event| *event == Event::Resumed), [end.other()], "{events:?}");
        assert_eq!(count(&events, |event| matches!(event, Event::Connected { again: true })), 0);
        assert_eq!(count(&events, |event| matches!(event, Event::Finished { .. })), 0, "{events:?}");
    }
}

fn up_with(world: &mut World, end: End, is_it: impl Fn(&Event) -> bool) -> bool {
    let from = world.events.len();
    let until = world.now() + Duration::from_secs(30);
    world
        .run_until(until, |world| world.events[from..].iter().any(|event| event.1 == end && is_it(&event.2)));
    world.events[from..].iter().any(|event| event.1 == end && is_it(&event.2))
}

#[test]
fn a_peer_that_is_another_process_begins_anew() {
    // The listener is started again in the middle of the outage.
    let mut world = world(20, settings());
    let now = world.now();
    world.link(End::Near).unwrap().open(0, small_queue()).unwrap();
    set_loss(&mut world, &End::BOTH, &Loss::Random(1.0));
    world.send(End::Near, 0, "lost");
    world.run_until(now + OUTAGE, |_| false);
    world.restart(End::Far, settings()[1].clone());
    set_loss(&mut world, &End::BOTH, &Loss::None);
    assert!(up_with(&mut world, End::Near, |event| *event == Event::Connected { again: true }));
    let lost = |event: &(Time, End, Event)| {
        matches!(event.2, Event::Finished { outcome: glassline_transport::link::Outcome::Lost, .. })
    };
    assert_eq!(world.events.iter().filter(|event| lost(event)).count(), 1);
    world.send(End::Near, 0, "new");
    world.run(Duration::from_secs(1));
    assert_eq!(world.take(End::Far, 0), ["new"]);
}

#[test]
fn who_comes_back_too_late_begins_anew() {
    let short = settings().map(|settings| Settings { resume: Duration::from_secs(2), ..settings });
    let mut world = world(21, short);
    world.link(End::Near).unwrap().open(0, small_queue()).unwrap();
    set_loss(&mut world, &End::BOTH, &Loss::Random(1.0));
    let over = Event::Closed { reason: CloseReason::TimedOut };
    assert!(up_with(&mut world, End::Far, |event| *event == over));
    assert_eq!(world.ends[1].links().count(), 0, "nothing is kept of it");
    set_loss(&mut world, &End::BOTH, &Loss::None);
    assert!(up_with(&mut world, End::Near, |event| *event == Event::Connected { again: true }));
}

#[test]
fn without_the_wish_nothing_is_kept() {
    let none = settings().map(|settings| Settings { resume: Duration::ZERO, ..settings });
    let mut world = world(22, none);
    set_loss(&mut world, &End::BOTH, &Loss::Random(1.0));
    let over = Event::Closed { reason: CloseReason::TimedOut };
    assert!(up_with(&mut world, End::Far, |event| *event == over));
    set_loss(&mut world, &End::BOTH, &Loss::None);
    assert!(up_with(&mut world, End::Near, |event| *event == Event::Connected { again: true }));
}

#[test]
fn one_who_is_there_has_the_place_of_one_who_is_away() {
    let [near, far] = settings();
    let far = Settings { max_links: 1, ..far };
    let mut world = world(23, [Settings { name: b"one".to_vec(), ..near.clone() }, far]);
    set_loss(&mut world, &End::BOTH, &Loss::Random(1.0));
    assert!(up_with(&mut world, End::Far, |event| matches!(event, Event::Suspended { .. })));
    set_loss(&mut world, &End::BOTH, &Loss::None);
    world.restart(End::Near, Settings { name: b"two".to_vec(), ..near });
    world.connect();
    world.run_until_up();
    assert_eq!(world.link(End::Far).unwrap().peer_name(), Some(&b"two"[..]));
    assert_eq!(world.ends[1].links().count(), 1);
}
