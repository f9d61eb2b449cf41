//! A receiver that holds the keys and lies in its acknowledgements, or sends none: the sender of pictures neither grows nor
//! crashes nor floods.

use glassline_media::Time;
use glassline_transport::link::fuzzing::Linked;
use glassline_transport::link::wire::frame::{Frame, write_ack};
use glassline_transport::link::{CloseReason, Credentials, Event, Fec, Options, Path, Settings};
use proptest::prelude::*;
use std::time::Duration;

const VIDEO: u8 = 0;
const FILES: u8 = 1;
/// From one picture to the next, milliseconds.
const INTERVAL: u64 = 33;
/// The largest picture of the encoder, bytes.
const LARGEST: u64 = 50_000;
/// Packets that a sender remembers at most, beside what is under way.
const REMEMBERED: usize = 1 << 15;

fn path() -> Path {
    Path { remote: ([192, 0, 2, 1], 7000).into(), via: 0 }
}

/// A sender of pictures that fill their budgets, and of a file that never ends behind them; its peer is us.
struct Victim {
    linked: Linked,
    now: Time,
    /// Packets sent so far; their numbers are those below.
    packets: u64,
    bytes: u64,
    /// Bytes of pictures handed over.
    pictures: u64,
    /// The most that was ever held of messages, and of packets.
    held: usize,
    remembered: usize,
    is_over: bool,
}

impl Victim {
    fn new(reliable: bool) -> Victim {
        // It is heard of, or the link would end: frames that nobody has sealed do not count.
        let idle = Duration::from_secs(3600);
        let settings = Settings { datagram_bytes: 1200, idle, ..Settings::new(Credentials::Insecure) };
        let mut linked = Linked::new(settings, Time::ZERO, path());
        let video = Options {
            reliable,
            ordered: false,
            newest: true,
            receipts: true,
            fec: if reliable { Fec::Never } else { Fec::WhenLossy(25) },
            cancel_after: Some(Duration::from_secs(1)),
            ..Options::default()
        };
        linked.link().open(VIDEO, video).unwrap();
        let file = Options { priority: 9, queue_bytes: 100_000, max_size: 10_000, ..Options::default() };
        linked.link().open(FILES, file).unwrap();
        Victim {
            linked,
            now: Time::ZERO,
            packets: 0,
            bytes: 0,
            pictures: 0,
            held: 0,
            remembered: 0,
            is_over: false,
        }
    }

    /// A millisecond: what is due leaves, and now and then a picture is handed over.
    fn turn(&mut self, file: bool) {
        self.now += Duration::from_millis(1);
        let now = self.now;
        self.linked.handle_timeout(now);
        let link = self.linked.link();
        if (now.as_nanos() / 1_000_000).is_multiple_of(INTERVAL) {
            let size = link.budget(now, VIDEO, Duration::from_millis(40)).clamp(300, LARGEST);
            if link.send(now, VIDEO, vec![0; size as usize]).is_ok() {
                self.pictures += size;
            }
        }
        while file && link.has_room(FILES, 10_000) && link.send(now, FILES, vec![0; 10_000]).is_ok() {}
        let (mut out, mut batches) = (Vec::new(), 0);
        while let Some(transmit) = self.linked.poll_transmit(now, &mut out) {
            self.packets += out.chunks(transmit.segment_bytes).len() as u64;
            self.bytes += transmit.bytes as u64;
            batches += 1;
            assert!(batches < 1000, "it sends without end");
        }
        let link = self.linked.link();
        self.held = self.held.max(link.held_bytes().0);
        self.remembered = self.remembered.max(link.remembered_packets());
        while let Some(event) = link.poll_event() {
            self.is_over |= matches!(event, Event::Closed { .. });
        }
    }

    /// Says what these frames say.
    fn tell(&mut self, frames: &[u8]) -> bool {
        self.linked.link().handle_unsealed(self.now, path(), frames)
    }

    /// Acknowledges these packets, the newest first, with these times.
    fn acknowledge(
        &mut self,
        ranges: &[(u64, u64)],
        delay_us: u64,
        received_us: u64,
        arrival_ns: u64,
    ) -> bool {
        let mut frames = Vec::new();
        write_ack(ranges.iter().copied(), delay_us, received_us, arrival_ns, &mut frames);
        self.tell(&frames)
    }

    fn hear(&mut self) -> bool {
        let mut frames = Vec::new();
        Frame::Ping.write(&mut frames);
        self.tell(&frames)
    }

    fn is_bounded(&self) -> Result<(), String> {
        // A picture that waits, those that have begun, the file's queue and what is under way of it.
        let fits = self.held <= 2_000_000 && self.remembered <= 2 * REMEMBERED;
        if fits { Ok(()) } else { Err(format!("{} bytes, {} packets held", self.held, self.remembered)) }
    }
}

#[test]
fn a_receiver_that_never_acknowledges_gets_little_and_makes_nothing_grow() {
    for reliable in [false, true] {
        let mut victim = Victim::new(reliable);
        let mut seconds = Vec::new();
        for _ in 0..20 {
            let before = victim.bytes;
            (0..1000).for_each(|_| victim.turn(true));
            seconds.push(victim.bytes - before);
        }
        victim.is_bounded().unwrap();
        // The initial rate, and three fourths of what was assumed of the path, whole messages with pauses between.
        assert!(seconds.iter().all(|bytes| *bytes <= 120_000), "reliable {reliable}: {seconds:?}");
        let now = victim.now;
        let budget = victim.linked.link().budget(now, VIDEO, Duration::from_millis(40));
        assert!(budget < 600, "reliable {reliable}: {budget}");
    }
}

#[test]
fn who_acknowledges_what_was_never_sent_is_cut_off() {
    for ahead in [0, 1, 1000, 1 << 40] {
        let mut victim = Victim::new(false);
        (0..100).for_each(|_| victim.turn(true));
        let number = victim.packets + ahead;
        assert!(!victim.acknowledge(&[(number, number)], 0, 0, 0), "{ahead} packets ahead");
        let closed = victim.linked.link().poll_event();
        let reason = CloseReason::Violation("an acknowledgement of what was never sent");
        assert_eq!(closed, Some(Event::Closed { reason }), "{ahead} packets ahead");
        // It says so, and sends no more.
        let before = victim.bytes;
        (0..1000).for_each(|_| victim.turn(true));
        assert!(victim.bytes - before < 1_000, "{} bytes to a liar", victim.bytes - before);
    }
}

#[test]
fn who_says_that_all_has_come_at_once_gets_the_pictures_and_no_more() {
    // Each packet acknowledged before it can have come, by whatever clock: the estimate is a lie, the pictures are what they are.
    for (received_us, arrival_ns) in [(0, 1), (u64::MAX >> 2, u64::MAX >> 2), (1_000_000, 0)] {
        let mut victim = Victim::new(false);
        for _ in 0..20_000 {
            victim.turn(false);
            if victim.packets > 0 {
                assert!(victim.acknowledge(&[(0, victim.packets - 1)], 0, received_us, arrival_ns));
            }
        }
        victim.is_bounded().unwrap();
        assert!(victim.bytes < victim.pictures * 14 / 10 + 500_000, "{} {}", victim.bytes, victim.pictures);
        assert!(victim.remembered < 5_000, "{}", victim.remembered);
    }
}

#[test]
fn who_says_that_half_is_lost_gets_no_more_than_was_handed_over() {
    for reliable in [false, true] {
        let mut victim = Victim::new(reliable);
        let mut seen = 0;
        for _ in 0..20_000 {
            victim.turn(false);
            // Of each two packets the second; the first never.
            for number in (seen..victim.packets).filter(|number| number % 2 == 1) {
                let came = victim.now.as_nanos() / 1000;
                assert!(victim.acknowledge(&[(number, number)], 0, came, 0));
            }
            seen = victim.packets;
        }
        victim.is_bounded().unwrap();
        let most = victim.pictures * if reliable { 30 } else { 14 } / 10 + 500_000;
        assert!(victim.bytes < most, "reliable {reliable}: {} for {}", victim.bytes, victim.pictures);
    }
}

/// One lie.
#[derive(Clone, Debug)]
enum Lie {
    /// Some of the packets sent lately, with whatever times.
    Ack {
        back: u64,
        count: u64,
        gap: u64,
        delay_us: u64,
        received_us: u64,
        arrival_ns: u64,
    },
    /// Of receipts: what was consumed, skipped, given up.
    Consumed(u64),
    Skipped(u64),
    Cancel(u64),
    Marks(u64, u64, u64),
    Nothing,
}

fn lies() -> impl Strategy<Value = Lie> {
    let time =
        || prop_oneof![Just(0), 0..1_000_000u64, Just((1u64 << 62) - 1), any::<u64>().prop_map(|n| n >> 2)];
    let number = || prop_oneof![0..200u64, any::<u64>().prop_map(|n| n >> 2)];
    prop_oneof![
        4 => (0..60u64, 1..60u64, 0..4u64, time(), time(), time()).prop_map(
            |(back, count, gap, delay_us, received_us, arrival_ns)| Lie::Ack {
                back, count, gap, delay_us, received_us, arrival_ns
            }
        ),
        1 => number().prop_map(Lie::Consumed),
        1 => number().prop_map(Lie::Skipped),
        1 => number().prop_map(Lie::Cancel),
        1 => (number(), number(), number()).prop_map(|(a, b, c)| Lie::Marks(a, b, c)),
        2 => Just(Lie::Nothing),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn no_lies_make_a_sender_crash_grow_or_flood(
        lies in prop::collection::vec((1..40u64, lies()), 1..120),
        reliable in any::<bool>(),
    ) {
        let mut victim = Victim::new(reliable);
        'all: for (wait, lie) in lies {
            for _ in 0..wait {
                victim.turn(false);
                if victim.is_over || !victim.hear() {
                    break 'all;
                }
            }
            let mut frames = Vec::new();
            match lie {
                Lie::Ack { back, count, gap, delay_us, received_us, arrival_ns } => {
                    let Some(mut high) = victim.packets.checked_sub(1 + back) else { continue };
                    let mut ranges = Vec::new();
                    for _ in 0..count.min(30) {
                        let low = high.saturating_sub(count);
                        ranges.push((low, high));
                        let Some(next) = low.checked_sub(2 + gap) else { break };
                        high = next;
                    }
                    write_ack(ranges.into_iter(), delay_us, received_us, arrival_ns, &mut frames);
                }
                Lie::Consumed(next) => Frame::Consumed { channel: VIDEO, next }.write(&mut frames),
                Lie::Skipped(message) => Frame::Skipped { channel: VIDEO, message }.write(&mut frames),
                Lie::Cancel(message) => Frame::Cancel { channel: VIDEO, message }.write(&mut frames),
                Lie::Marks(ect1, ect0, ce) => Frame::Marks { ect1, ect0, ce }.write(&mut frames),
                Lie::Nothing => {}
            }
            if !victim.tell(&frames) {
                break;
            }
        }
        prop_assert_eq!(victim.is_bounded(), Ok(()));
        // What was handed over, its parity or its being sent again, and acknowledgements of what we say.
        let most = victim.pictures * 4 + victim.now.as_nanos() / 1_000_000 * 60 + 100_000;
        prop_assert!(victim.bytes <= most, "{} bytes for {} of pictures", victim.bytes, victim.pictures);
    }
}
