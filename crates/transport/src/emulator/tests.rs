//! The model as a whole: rules that hold for every link, whatever it is like.

use super::*;
use glassline_media::Time;
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

fn ms(millis: u64) -> Time {
    Time::from_millis(millis)
}

const fn wait(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn link(config: LinkConfig) -> Link<u32> {
    Link::new(config, 1, Time::ZERO).unwrap()
}

/// When each packet came out, with its number, stepping from deadline to deadline.
fn drain(link: &mut Link<u32>, until: Time) -> Vec<(u64, u32)> {
    let mut out = Vec::new();
    loop {
        let Some(next) = link.poll_timeout().filter(|next| *next <= until) else { return out };
        while let Some(delivered) = link.poll(next) {
            assert!(delivered.at <= next && delivered.at >= delivered.arrived);
            out.push((delivered.at.as_nanos() / 1_000, delivered.packet));
        }
    }
}

#[test]
fn a_wire_delivers_at_once() {
    let mut link = link(LinkConfig::default());
    link.push(ms(5), 100, 1);
    assert_eq!(link.poll_timeout(), Some(ms(5)));
    let delivered = link.poll(ms(5)).unwrap();
    assert_eq!((delivered.at, delivered.bytes, delivered.packet), (ms(5), 100, 1));
    assert_eq!(link.poll_timeout(), None);
}

#[test]
fn a_rate_is_kept_to_the_nanosecond() {
    // 3 bit/s: a byte takes 2.666… s. Nothing is lost by rounding: 3000 bytes take 8000 s.
    let mut link = link(LinkConfig::rate(3));
    (0..3000).for_each(|number| link.push(Time::ZERO, 1, number));
    let out = drain(&mut link, Time::NEVER);
    assert_eq!((out.len(), out[0].0, out[2].0, out[2999].0), (3000, 2_666_666, 8_000_000, 8_000_000_000));
}

#[test]
fn a_rate_may_change_under_a_packet() {
    let mut link = link(LinkConfig::rate(8_000));
    link.push(Time::ZERO, 1000, 1);
    link.push(Time::ZERO, 1000, 2);
    link.set_service(ms(250), Service::Rate(0)).unwrap();
    assert_eq!(link.poll_timeout(), None);
    link.set_service(ms(1250), Service::Rate(16_000)).unwrap();
    // A quarter was served; the other three take half the time.
    assert_eq!(drain(&mut link, ms(9999)), [(1_625_000, 1), (2_125_000, 2)]);
    link.set_service(ms(10_000), Service::Unlimited).unwrap();
    link.push(ms(10_000), 1000, 3);
    assert_eq!(drain(&mut link, ms(10_000)), [(10_000_000, 3)]);
}

#[test]
fn small_packets_share_an_opportunity_and_large_ones_straddle_it() {
    let trace: Arc<Trace> = Arc::new("2\n4\n4\n9\n".parse().unwrap());
    let mut link = link(LinkConfig::trace(trace));
    // 1000 + 500 fit into the first; 4 bytes of the third leave there too, the rest in the next millisecond.
    for (number, bytes) in [(1, 1000), (2, 500), (3, 1504), (4, 1509)] {
        link.push(ms(1), bytes, number);
    }
    assert_eq!(drain(&mut link, ms(8)), [(2_000, 1), (2_000, 2), (4_000, 3)]);
    assert_eq!(link.queued(), Flow::default(), "the last one is in service");
    assert_eq!(drain(&mut link, ms(9)), [(9_000, 4)]);
    // A packet that comes in an opportunity's millisecond waits for the next one; the round begins again at 9.
    link.push(Time::from_nanos(11_999_999), 1504, 5);
    assert_eq!(drain(&mut link, ms(100)), [(13_000, 5)]);
    link.push(ms(1000), 1504, 6);
    // 111 rounds of 9 ms are over at 999.
    assert_eq!(drain(&mut link, ms(2000)), [(1_001_000, 6)]);
}

#[test]
fn a_trace_that_is_over_delivers_nothing_more() {
    let trace: Arc<Trace> = Arc::new("2\n4\n".parse().unwrap());
    let mut link = link(LinkConfig { service: Service::TraceOnce(trace), ..LinkConfig::default() });
    (1..=3).for_each(|number| link.push(ms(1), 1504, number));
    assert_eq!(drain(&mut link, Time::NEVER), [(2_000, 1), (4_000, 2)]);
    assert_eq!((link.poll_timeout(), link.held().packets), (None, 1));
    assert_eq!(link.poll(Time::NEVER), None);
}

#[test]
fn queues_drop_at_their_tail_or_head_by_packets_or_bytes() {
    let after = |queue| {
        // One is in service, the others wait.
        let mut link = link(LinkConfig::rate(8_000).with_queue(queue));
        (1..=6).for_each(|number| link.push(Time::ZERO, 100, number));
        let gone = link.counters().dropped_by(DropReason::Queue);
        let left: Vec<_> = drain(&mut link, Time::NEVER).iter().map(|out| out.1).collect();
        assert_eq!(gone.bytes, gone.packets * 100);
        (gone.packets, left)
    };
    assert_eq!(after(Queue::INFINITE), (0, vec![1, 2, 3, 4, 5, 6]));
    assert_eq!(after(Queue::packets(2)), (3, vec![1, 2, 3]));
    assert_eq!(after(Queue::packets(2).drop_head()), (3, vec![1, 5, 6]));
    assert_eq!(after(Queue::bytes(399)), (2, vec![1, 2, 3, 4]));
    assert_eq!(after(Queue::bytes(400).drop_head()), (1, vec![1, 3, 4, 5, 6]));
    assert_eq!(after(Queue { packets: Some(4), ..Queue::bytes(250) }), (3, vec![1, 2, 3]));
}

#[test]
fn chances_come_as_often_as_asked_for() {
    let count = 20_000;
    let run = |config: LinkConfig| {
        let mut link = link(config.with_delay(wait(10)));
        for number in 0..count {
            link.push(ms(u64::from(number)), 100, number);
        }
        let out = drain(&mut link, Time::NEVER);
        (out, *link.counters())
    };
    let (out, _) = run(LinkConfig::default().with_loss(Loss::Random(0.02)));
    assert!((19_500..19_700).contains(&out.len()), "{}", out.len());
    let bursts = Loss::GilbertElliott { to_bad: 0.0085, to_good: 0.25, loss_good: 0.0, loss_bad: 0.6 };
    let (out, counters) = run(LinkConfig::default().with_loss(bursts));
    let lost = counters.dropped_by(DropReason::Loss).packets;
    assert!((270..520).contains(&lost), "{lost}");
    // A lost packet's successor is lost with 0.45: bursts.
    let next_lost = out.windows(2).filter(|pair| pair[1].1 > pair[0].1 + 2).count();
    assert!(next_lost > 60, "{next_lost}");
    let (out, counters) = run(LinkConfig::default().with_duplicates(0.1));
    assert!((1_800..2_200).contains(&counters.duplicated.packets), "{counters:?}");
    assert!(out.is_sorted(), "a copy comes right behind");
    let (out, _) = run(LinkConfig::default().with_reorder(0.05, wait(3)));
    let overtaken = out.windows(2).filter(|pair| pair[1].1 < pair[0].1).count();
    assert!((700..1_300).contains(&overtaken), "{overtaken}");
    let (out, _) = run(LinkConfig::default().with_jitter(wait(5)));
    let late: Vec<u64> = out.iter().map(|(at, number)| at - u64::from(*number) * 1000).collect();
    assert!(late.iter().all(|micros| (10_000..=15_000).contains(micros)), "{:?}", late.iter().max());
    assert!(out.iter().map(|out| out.1).eq(0..count), "jitter keeps the order");
    assert!(late.iter().max() > Some(&14_800) && late.iter().min() < Some(&10_200));
}

#[test]
fn outages_drop_what_comes_or_hold_it() {
    let times = OutageTimes::Periodic { on: wait(10), off: wait(5) };
    let run = |effect| {
        let mut link = link(LinkConfig::rate(8_000_000).with_outages(times.clone(), effect));
        // 1 ms each, from 9 ms on.
        (9..16).for_each(|at| link.push(ms(at), 1000, at as u32));
        drain(&mut link, ms(100))
    };
    assert_eq!(run(OutageEffect::Drop), [(10_000, 9), (16_000, 15)]);
    // The one that comes at 9 is through at 10, when the link goes off.
    let held: Vec<_> = (10..16).map(|at| (6_000 + at * 1_000, at as u32)).collect();
    assert_eq!(run(OutageEffect::Hold), [vec![(10_000, 9)], held].concat());

    let once = OutageTimes::Once { after: wait(3), off: wait(4) };
    let mut link = link(LinkConfig::default().with_outages(once, OutageEffect::Hold));
    (1..6).for_each(|at| link.push(ms(at), 10, at as u32));
    assert_eq!(drain(&mut link, ms(100)), [(1_000, 1), (2_000, 2), (7_000, 3), (7_000, 4), (7_000, 5)]);
}

#[test]
fn random_outages_have_their_share() {
    let times = OutageTimes::Random { on: wait(900), off: wait(100) };
    let mut link = link(LinkConfig::default().with_outages(times, OutageEffect::Drop));
    (0..100_000).for_each(|number| link.push(ms(number * 10), 10, number as u32));
    let gone = link.counters().dropped_by(DropReason::Outage).packets;
    assert!((8_000..12_000).contains(&gone), "{gone}");
    // A silence of centuries is not followed turn by turn.
    link.advance(Time::NEVER);
}

#[test]
fn what_is_too_large_is_gone_without_a_word() {
    let mut link = link(LinkConfig { overhead_bytes: 28, ..LinkConfig::default() }.with_max_packet(1280));
    link.push(Time::ZERO, 1252, 1);
    link.push(Time::ZERO, 1253, 2);
    link.push(Time::ZERO, usize::MAX, 3);
    assert_eq!(drain(&mut link, Time::ZERO), [(0, 1)]);
    assert_eq!(link.counters().dropped_by(DropReason::Size).packets, 2);
}

#[test]
fn even_an_infinite_queue_has_an_end() {
    let mut link = link(LinkConfig::rate(1));
    for number in 0..600 {
        link.push(Time::ZERO, 1 << 20, number);
    }
    assert!(link.held().bytes <= Link::<u32>::MAX_HELD_BYTES);
    assert_eq!(link.counters().dropped_by(DropReason::Memory).packets, 600 - 512);
    for number in 0..2_000_000 {
        link.push(Time::ZERO, 0, number);
    }
    assert!(link.held().packets as usize <= Link::<u32>::MAX_HELD_PACKETS);
}

#[test]
fn events_that_nobody_takes_are_bounded() {
    let trace: Arc<Trace> = Arc::new("1\n".parse().unwrap());
    let mut link = link(LinkConfig::trace(trace));
    link.record_events();
    link.push(Time::NEVER, 100, 1);
    let told = std::iter::from_fn(|| link.poll_event()).count();
    assert_eq!(told, 1 << 20);
    assert_eq!(link.missed_events(), 1, "the arrival");
}

/// Any link.
fn configs() -> impl Strategy<Value = LinkConfig> {
    let services = prop_oneof![
        Just(Service::Unlimited),
        (1u64..20_000_000).prop_map(Service::Rate),
        prop::collection::vec(0u32..5, 1..30).prop_filter_map("lasts", |steps| {
            let mut at = 0;
            let text: String = steps
                .iter()
                .map(|step| {
                    at += step;
                    format!("{at}\n")
                })
                .collect();
            text.parse().ok().map(|trace: Trace| Service::Trace(Arc::new(trace)))
        }),
    ];
    let queues = (prop::option::of(1u32..20), prop::option::of(1u64..20_000), any::<bool>()).prop_map(
        |(packets, bytes, head)| {
            let queue = Queue { packets, bytes, ..Queue::INFINITE };
            if head { queue.drop_head() } else { queue }
        },
    );
    let losses = prop_oneof![
        Just(Loss::None),
        (0.0..1.0).prop_map(Loss::Random),
        (0.0..1.0, 0.0..1.0).prop_map(|(to_bad, to_good)| {
            Loss::GilbertElliott { to_bad, to_good, loss_good: 0.01, loss_bad: 0.7 }
        }),
    ];
    let turns = (1u64..50, 1u64..50).prop_map(|(on, off)| (wait(on), wait(off)));
    let outages = prop_oneof![
        Just(OutageTimes::None),
        turns.clone().prop_map(|(on, off)| OutageTimes::Periodic { on, off }),
        turns.clone().prop_map(|(on, off)| OutageTimes::Random { on, off }),
        turns.prop_map(|(after, off)| OutageTimes::Once { after, off }),
    ];
    let effect = prop_oneof![Just(OutageEffect::Drop), Just(OutageEffect::Hold)];
    (services, queues, losses, (outages, effect), (0u64..50, 0u64..20), (0.0..0.5, 0.0..0.5)).prop_map(
        |(service, queue, loss, (times, effect), (delay, jitter), (duplicate, reorder))| {
            LinkConfig { service, queue, loss, ..LinkConfig::default() }
                .with_delay(wait(delay))
                .with_jitter(wait(jitter))
                .with_duplicates(duplicate)
                .with_reorder(reorder, wait(7))
                .with_outages(times, effect)
        },
    )
}

/// Whether a trace's opportunities come while the link is on.
enum Meeting {
    Never,
    /// Only in the very moments when it goes on or off: which side they fall on is not this test's business.
    AtATurn,
    Again,
}

fn meeting(config: &LinkConfig) -> Meeting {
    let (OutageTimes::Periodic { on, off }, OutageEffect::Hold, Service::Trace(trace)) =
        (&config.outages.times, config.outages.effect, &config.service)
    else {
        // What waits is served though the link is off, or the rounds of both do not repeat.
        return Meeting::Again;
    };
    let millis = |time: Duration| time.as_millis() as u64;
    let (on, round, period) = (millis(*on), millis(*on + *off), millis(trace.period()));
    let mut cursor = trace::Cursor::new(false);
    let mut met = Meeting::Never;
    // After so long both begin anew together.
    while let Some((at, _)) = cursor.peek(trace).filter(|(at, _)| *at <= round * period) {
        match at % round {
            0 => met = Meeting::AtATurn,
            after if after == on => met = Meeting::AtATurn,
            after if after < on => return Meeting::Again,
            _ => {}
        }
        cursor.pass(trace);
    }
    met
}

/// Pushes packets at their times (µs apart, bytes) and returns all that came out, polling at each deadline.
fn run(config: &LinkConfig, seed: u64, packets: &[(u64, usize)]) -> (Vec<Delivered<u32>>, Link<u32>) {
    let mut link = Link::new(config.clone(), seed, ms(3)).unwrap();
    link.record_events();
    let (mut now, mut out) = (ms(3), Vec::new());
    for (number, &(apart, bytes)) in packets.iter().enumerate() {
        let at = now + Duration::from_micros(apart);
        while let Some(due) = link.poll_timeout().filter(|due| *due < at) {
            now = due;
            out.extend(std::iter::from_fn(|| link.poll(now)));
        }
        now = at;
        link.push(now, bytes, number as u32);
    }
    (out, link)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn nothing_is_made_or_lost_unseen(
        config in configs(),
        seed: u64,
        packets in prop::collection::vec((0u64..4000, 0usize..3000), 0..120),
    ) {
        let (out, mut link) = run(&config, seed, &packets);
        let balance = |link: &Link<u32>| {
            let (counters, held) = (*link.counters(), link.held());
            let (dropped, delivered) = (counters.dropped(), counters.delivered);
            (
                counters.arrived.packets + counters.duplicated.packets
                    == delivered.packets + dropped.packets + held.packets,
                counters.arrived.bytes + counters.duplicated.bytes
                    == delivered.bytes + dropped.bytes + held.bytes,
            )
        };
        prop_assert_eq!(balance(&link), (true, true));
        prop_assert_eq!(link.counters().arrived.packets, packets.len() as u64);
        prop_assert_eq!(link.counters().delivered.packets, out.len() as u64);
        prop_assert!(config.queue.packets.is_none_or(|most| link.queued().packets <= most.into()));
        prop_assert!(config.queue.bytes.is_none_or(|most| link.queued().bytes <= most));
        // A trace and outages that both repeat may never meet: what is held then stays for ever.
        match meeting(&config) {
            Meeting::Never => {
                prop_assert_eq!(link.counters().departed, Flow::default());
                return Ok(());
            }
            Meeting::AtATurn => return Ok(()),
            Meeting::Again => {}
        }
        // All leave in the end: every deadline brings something about, so that there are not many.
        let mut steps = 0;
        while let Some(now) = link.poll_timeout() {
            while link.poll(now).is_some() {}
            prop_assert!(link.poll_timeout().is_none_or(|due| due > now));
            steps += 1;
            prop_assert!(steps < 3_000_000, "it does not come to an end");
        }
        prop_assert_eq!(balance(&link), (true, true));
        prop_assert_eq!(link.held(), Flow::default());
    }

    #[test]
    fn without_reordering_none_overtakes_and_none_is_early(
        config in configs(),
        seed: u64,
        packets in prop::collection::vec((0u64..4000, 1usize..3000), 0..120),
    ) {
        let config = config.with_reorder(0.0, Duration::ZERO);
        let (out, _) = run(&config, seed, &packets);
        prop_assert!(out.is_sorted_by_key(|delivered| delivered.packet));
        prop_assert!(out.is_sorted_by_key(|delivered| delivered.at));
        prop_assert!(out.iter().all(|delivered| delivered.at.since(delivered.arrived) >= config.delay));
    }

    #[test]
    fn a_seed_repeats_however_often_it_is_polled(
        config in configs(),
        seed: u64,
        packets in prop::collection::vec((0u64..4000, 0usize..3000), 0..60),
        polls in prop::collection::vec(0u64..3000, 0..60),
    ) {
        let (mut out, mut link) = run(&config, seed, &packets);
        let end = ms(20_000);
        out.extend(std::iter::from_fn(|| link.poll(end)));
        // The same once more, polled at other times.
        let mut other = Link::new(config.clone(), seed, ms(3)).unwrap();
        let (mut now, mut again) = (ms(3), Vec::new());
        for (number, &(apart, bytes)) in packets.iter().enumerate() {
            if let Some(early) = polls.get(number) {
                let at = now + Duration::from_micros((*early).min(apart));
                again.extend(std::iter::from_fn(|| other.poll(at)));
            }
            now += Duration::from_micros(apart);
            other.push(now, bytes, number as u32);
        }
        again.extend(std::iter::from_fn(|| other.poll(end)));
        prop_assert_eq!(&out, &again);
        prop_assert_eq!(link.counters(), other.counters());
    }

    #[test]
    fn figures_agree_with_counters(
        config in configs(),
        packets in prop::collection::vec((0u64..4000, 0usize..3000), 0..120),
    ) {
        let (_, mut link) = run(&config, 1, &packets);
        let mut figures = Figures::new(ms(3));
        while let Some(event) = link.poll_event() {
            figures.add(&event);
        }
        let counters = link.counters();
        let sum = |of: fn(&Bin) -> u64| figures.bins().0.iter().map(of).sum::<u64>();
        prop_assert_eq!(sum(|bin| bin.arrived_bytes), counters.arrived.bytes);
        prop_assert_eq!(sum(|bin| bin.departed_bytes), counters.departed.bytes);
        prop_assert_eq!(sum(|bin| bin.dropped_packets), counters.dropped().packets);
        prop_assert_eq!(sum(|bin| bin.delivered_packets), counters.delivered.packets);
        prop_assert_eq!(figures.delay().count(), counters.delivered.packets);
        prop_assert_eq!(figures.queue_delay().count(), counters.departed.packets);
        // One more than the queue takes is in service; the one that is dropped never counts.
        let most = figures.most_queue().0;
        prop_assert!(config.queue.packets.is_none_or(|limit| most <= limit + 1), "{most}");
    }
}
