//! How a link begins: when the first picture is shown, when the path is used, and how long packets wait meanwhile.

use crate::link_support::{World, figure, millis};
use glassline_media::Time;
use glassline_transport::emulator::{End, LinkConfig, Network, Queue};
use glassline_transport::link::Options;
use std::time::Duration;

/// One way; the round trip of the empty path is twice that.
const WAY: Duration = Duration::from_millis(20);
/// How often a picture is taken.
const INTERVAL: Duration = Duration::from_nanos(33_333_333);
/// The share of the budget that a picture is given.
const SHARE: f64 = 0.9;
/// The path is used when so much of its rate was carried
const USED: f64 = 0.7;
/// within this time.
const USED_WITHIN: Duration = Duration::from_millis(300);
/// A queue that is never shorter within this time stands.
const STANDING: Duration = Duration::from_millis(100);
/// For how long the begin is looked at.
const BEGIN: Duration = Duration::from_secs(2);

/// What a begin was like.
#[derive(Clone, Copy, Debug)]
struct Begin {
    /// Bytes of the first picture, and when it was there.
    first_bytes: usize,
    first: Duration,
    /// When the path began to be used.
    used: Duration,
    /// The longest queue of the first two seconds that stood, and the longest at all.
    standing: Duration,
    longest: Duration,
    lost: u64,
}

/// Pictures that fill their budgets from `after` the link is up, over `rate` bit/s. `first`: the size of the first one, if it is
/// not the budget's for 100 ms.
fn begin(rate: u64, first: Option<usize>, after: Duration) -> Begin {
    let config = LinkConfig::rate(rate).with_delay(WAY).with_queue(Queue::packets(256));
    let mut world = World::shared(Network::new(config.clone(), config, 1).unwrap(), 1);
    world.connect();
    let video = Options { reliable: false, ordered: false, newest: true, ..Options::default() };
    world.link(End::Near).unwrap().open(1, video).unwrap();
    world
        .run_until(Time::from_millis(20_000), |world| world.link(End::Near).is_some_and(|link| link.is_up()));
    world.run(after);
    let start = world.now();
    let carried = |world: &World| world.network.link(End::Near).counters().delivered.bytes;
    let before = carried(&world);
    let queue = |world: &World| world.network.link(End::Near).queued().bytes as f64 * 8.0 / rate as f64;
    let (mut queues, mut bytes) = (Vec::new(), Vec::new());
    let (mut first_bytes, mut shown, mut next) = (0, None, start);
    for milli in 1..=6000u64 {
        let now = world.now();
        if next <= now {
            let horizon = if first_bytes == 0 { Duration::from_millis(100) } else { INTERVAL * 5 / 4 };
            let link = world.link(End::Near).unwrap();
            let budget = link.budget(now, 1, horizon) as f64;
            let size = match first.filter(|_| first_bytes == 0) {
                Some(size) => size,
                None => (SHARE * budget).clamp(300.0, 400_000.0) as usize,
            };
            let mut message = vec![0; size];
            message[0] = u8::from(first_bytes == 0);
            first_bytes = if first_bytes == 0 { size } else { first_bytes };
            let _ = link.send(now, 1, message);
            next += INTERVAL;
        }
        let until = start + Duration::from_millis(milli);
        let until = if next < until { next } else { until };
        world.run_until(until, |world| {
            for message in world.take(End::Far, 1) {
                if message[0] == 1 {
                    shown.get_or_insert(world.now() - start);
                }
            }
            false
        });
        if world.now() < start + Duration::from_millis(milli) {
            world.run_until(start + Duration::from_millis(milli), |_| false);
        }
        queues.push(queue(&world));
        bytes.push(carried(&world) - before);
    }
    let window = USED_WITHIN.as_millis() as usize;
    let wanted = USED * rate as f64 / 8.0 * USED_WITHIN.as_secs_f64();
    let used = (0..bytes.len() - window).position(|at| (bytes[at + window] - bytes[at]) as f64 >= wanted);
    let begin = &queues[..BEGIN.as_millis() as usize];
    let least = |window: &[f64]| window.iter().copied().fold(f64::MAX, f64::min);
    let standing = begin.windows(STANDING.as_millis() as usize).map(least).fold(0.0, f64::max);
    let longest = begin.iter().copied().fold(0.0, f64::max);
    Begin {
        first_bytes,
        first: shown.unwrap_or(Duration::MAX),
        used: used.map_or(Duration::MAX, |at| Duration::from_millis(at as u64)),
        standing: Duration::from_secs_f64(standing),
        longest: Duration::from_secs_f64(longest),
        lost: world.link(End::Near).unwrap().statistics().lost_packets,
    }
}

#[test]
fn a_link_begins_fast_and_leaves_no_queue() {
    // By rate: milliseconds until the first picture, until the path is used, of the queue that stands, of the longest.
    for (rate, first, used, standing, longest) in [
        (300_000, 350, 10, 187, 243),
        (1_000_000, 115, 10, 42, 72),
        (3_000_000, 70, 20, 12, 25),
        (10_000_000, 66, 100, 8, 40),
        (30_000_000, 66, 160, 8, 37),
    ] {
        let begin = begin(rate, None, Duration::ZERO);
        let (case, who) = ("a link begins, 20 ms each way", format!("{} Mbit/s", rate as f64 / 1e6));
        figure(case, &who, "first picture", "ms", millis(begin.first));
        figure(case, &who, "path used", "ms", millis(begin.used));
        figure(case, &who, "queue that stood", "ms", millis(begin.standing));
        figure(case, &who, "longest queue", "ms", millis(begin.longest));
        // As large as the initial window, whatever the path carries.
        assert!((10_000..=12_000).contains(&begin.first_bytes), "{rate}: {begin:?}");
        assert!(begin.first <= Duration::from_millis(first), "{rate}: {begin:?}");
        assert!(begin.used <= Duration::from_millis(used), "{rate}: {begin:?}");
        assert!(begin.standing <= Duration::from_millis(standing), "{rate}: {begin:?}");
        assert!(begin.longest <= Duration::from_millis(longest), "{rate}: {begin:?}");
        assert_eq!(begin.lost, 0, "{rate}: {begin:?}");
    }
}

#[test]
fn a_first_picture_that_is_too_large_takes_little_longer_than_it_has_to() {
    for (rate, most) in [(3_000_000, 125), (10_000_000, 105), (30_000_000, 105)] {
        let begin = begin(rate, Some(30_000), Duration::ZERO);
        let who = format!("{} Mbit/s", rate as f64 / 1e6);
        figure("a link begins, 20 ms each way", &who, "first picture, 30 kB", "ms", millis(begin.first));
        assert!(begin.first <= Duration::from_millis(most), "{rate}: {begin:?}");
    }
}

#[test]
fn a_camera_that_takes_its_time_makes_no_slower_begin() {
    let begin = begin(10_000_000, None, Duration::from_millis(700));
    assert!((10_000..=12_000).contains(&begin.first_bytes), "{begin:?}");
    assert!(
        begin.first <= Duration::from_millis(62) && begin.used <= Duration::from_millis(150),
        "{begin:?}"
    );
}
