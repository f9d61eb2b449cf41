//! Both ends over an emulated line, in virtual time.

use super::*;
use glassline_transport::emulator::{End, LinkConfig, Loss, Network, Queue, Random, Service};
use glassline_transport::link::Key;
use proptest::prelude::*;

pub(super) const KEY: [u8; 32] = [7; 32];
const MAX_BPS: u64 = 20_000_000;

/// What an end has sent: when, and bytes of IP packets.
type Log = Vec<(Time, u64)>;

pub(super) struct Simulation {
    pub(super) network: Network,
    pub(super) caller: Caller,
    pub(super) listener: Listener,
    sent: [Log; 2],
    /// Every datagram that has arrived at the listener, in order.
    pub(super) tape: Vec<Vec<u8>>,
    /// Turns a time of arrival into the stamp that the system gives.
    stamp: fn(Time) -> Time,
    /// How far the listener's clock is ahead at the beginning, nanoseconds, and how much faster it goes, in millionths.
    far_clock: (u64, u64),
    listener_is_gone_at: Time,
    /// Whether the listener goes with the first burst downwards.
    goes_before_down: bool,
}

impl Simulation {
    pub(super) fn new(up: LinkConfig, down: LinkConfig) -> Simulation {
        Simulation::with(up, down, MAX_BPS, Duration::from_secs(18))
    }

    pub(super) fn with(up: LinkConfig, down: LinkConfig, max_bps: u64, duration: Duration) -> Simulation {
        let network = Network::new(up, down, 3).unwrap();
        let listener = network.address(End::Far);
        let caller = CallerSettings { key: Key(KEY), listener, max_bps, duration, seed: [1; 32] };
        let settings = ListenerSettings { key: Key(KEY), max_bps: 1_000_000_000, seed: [2; 32] };
        Simulation {
            network,
            caller: Caller::new(caller),
            listener: Listener::new(settings),
            sent: [Vec::new(), Vec::new()],
            tape: Vec::new(),
            stamp: |at| at,
            far_clock: (0, 0),
            listener_is_gone_at: Time::NEVER,
            goes_before_down: false,
        }
    }

    /// The listener's clock at a time.
    fn far(&self, at: Time) -> Time {
        let nanos = u128::from(at.as_nanos()) * u128::from(1_000_000 + self.far_clock.1) / 1_000_000;
        Time::from_nanos(nanos as u64 + self.far_clock.0)
    }

    /// The first time at which the listener's clock shows `far`.
    fn near(&self, far: Time) -> Time {
        let nanos = u128::from(far.as_nanos().saturating_sub(self.far_clock.0)) * 1_000_000;
        Time::from_nanos(nanos.div_ceil(u128::from(1_000_000 + self.far_clock.1)) as u64)
    }

    fn send(&mut self) {
        let now = self.network.now();
        loop {
            let (from, transmit) = if let Some(transmit) = self.caller.poll_transmit(now) {
                (End::Near, transmit)
            } else if now >= self.listener_is_gone_at {
                return;
            } else if let Some(transmit) = self.listener.poll_transmit(self.far(now)) {
                (End::Far, transmit)
            } else {
                return;
            };
            for datagram in transmit.bytes.chunks(transmit.segment_bytes) {
                self.sent[from as usize].push((now, datagram.len() as u64 + 28));
                self.network.send_to(from, transmit.to, datagram.to_vec());
            }
        }
    }

    /// Runs until the caller has ended. Returns the report, and how long it took.
    pub(super) fn run(&mut self) -> (PathReport, Duration) {
        let mut idle_turns = 0;
        while !self.caller.is_over() {
            self.send();
            let now = self.network.now();
            if self.goes_before_down && self.caller.progress(now).1.starts_with("down") {
                (self.listener_is_gone_at, self.goes_before_down) = (now, false);
            }
            let far = self.listener.poll_timeout(self.far(now)).filter(|_| now < self.listener_is_gone_at);
            let far = far.map(|far| self.near(far));
            let next = earlier(self.caller.poll_timeout(now), far).unwrap_or(now + Duration::from_secs(1));
            idle_turns = if next > now { 0 } else { idle_turns + 1 };
            assert!(idle_turns < 1000, "it turns without end at {now:?}");
            if let Some(arrival) = self.network.step(next) {
                let (at, received) = (arrival.at, (self.stamp)(arrival.at));
                match arrival.end {
                    End::Near => self.caller.handle_datagram(at, received, arrival.from, &arrival.bytes),
                    End::Far if at >= self.listener_is_gone_at => {}
                    End::Far => {
                        self.tape.push(arrival.bytes.clone());
                        let (at, received) = (self.far(at), self.far(received));
                        self.listener.handle_datagram(at, received, arrival.from, &arrival.bytes);
                    }
                }
            }
        }
        (self.caller.report(), self.network.now().since(Time::ZERO))
    }
}

fn line(rate: u64, queue: u32) -> LinkConfig {
    LinkConfig::rate(rate).with_queue(Queue::packets(queue)).with_delay(Duration::from_millis(20))
}

/// Rate within 5 %, queue within 2 packets or 5 %.
fn check(way: &Direction, rate: u64, queue: u32, what: &str) {
    let found = way.bottleneck_bps.unwrap_or_else(|| panic!("{what}: no rate: {:?}", way.reason)) as f64;
    assert!((found / rate as f64 - 1.0).abs() <= 0.05, "{what}: {found} bit/s of {rate}");
    let found = way.queue_packets.unwrap_or_else(|| panic!("{what}: no queue: {:?}", way.reason)) as f64;
    let apart = (found - f64::from(queue)).abs();
    assert!(apart <= 2.0_f64.max(f64::from(queue) * 0.05), "{what}: {found} packets of {queue}");
}

#[test]
fn rate_and_queue_of_drop_tail_lines_are_found_both_ways_in_time() {
    for (up, down) in [
        ((2_000_000, 16), (100_000_000, 512)),
        ((2_000_000, 512), (2_000_000, 512)),
        ((100_000_000, 16), (2_000_000, 128)),
        ((10_000_000, 64), (50_000_000, 256)),
        ((30_000_000, 100), (5_000_000, 33)),
    ] {
        let (report, took) = Simulation::new(line(up.0, up.1), line(down.0, down.1)).run();
        let what = format!("up {up:?}, down {down:?}");
        check(&report.up, up.0, up.1, &what);
        check(&report.down, down.0, down.1, &what);
        assert!(took < Duration::from_secs(20), "{what}: {took:?}");
        for way in [&report.up, &report.down] {
            assert_eq!((way.loss, way.reordered, way.mtu), (Some(0.0), Some(0.0), Some(9000)), "{what}");
            let recommended = way.recommendation.as_ref().unwrap();
            assert!(recommended.bit_rate_bps < way.bottleneck_bps.unwrap(), "{what}");
            assert!(recommended.burst_bytes <= way.queue_bytes.unwrap(), "{what}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn any_line_in_range_is_found(rate in 2_000_000u64..=100_000_000, queue in 16u32..=512, is_up in any::<bool>()) {
        let other = line(50_000_000, 64);
        let (up, down) = if is_up { (line(rate, queue), other) } else { (other, line(rate, queue)) };
        let (report, took) = Simulation::new(up, down).run();
        check(if is_up { &report.up } else { &report.down }, rate, queue, &format!("{rate} bit/s, {queue} packets"));
        prop_assert!(took < Duration::from_secs(20));
    }
}

#[test]
fn queues_in_bytes_and_queues_that_drop_at_their_head_are_found_too() {
    let ms = Duration::from_millis(20);
    let bytes = LinkConfig::rate(8_000_000).with_queue(Queue::bytes(100_000)).with_delay(ms);
    let head = LinkConfig::rate(8_000_000).with_queue(Queue::packets(60).drop_head()).with_delay(ms);
    let (report, _) = Simulation::new(bytes, head).run();
    check(&report.up, 8_000_000, 100_000 / 1228, "bytes");
    check(&report.down, 8_000_000, 60, "drop head");
}

#[test]
fn losses_by_chance_jitter_and_reordering_are_told_apart_from_the_queue() {
    let hold = Duration::from_millis(3);
    let up = line(10_000_000, 100).with_loss(Loss::Random(0.03)).with_duplicates(0.02);
    let down = line(20_000_000, 60).with_reorder(0.05, hold);
    let (report, _) = Simulation::new(up, down).run();
    check(&report.up, 10_000_000, 100, "loss");
    assert!((0.005..0.08).contains(&report.up.loss.unwrap()), "{:?}", report.up.loss);
    assert!(report.up.duplicated.unwrap() > 0.005, "{:?}", report.up.duplicated);
    check(&report.down, 20_000_000, 60, "reordering");
    let reordered = report.down.reordered.unwrap();
    assert!((0.01..0.12).contains(&reordered), "{reordered}");
    let jittery = line(10_000_000, 100).with_jitter(Duration::from_millis(2));
    let (report, _) = Simulation::new(jittery, line(10_000_000, 100)).run();
    assert!((1.0..2.1).contains(&report.up.jitter_ms.unwrap()), "{:?}", report.up.jitter_ms);
    check(&report.up, 10_000_000, 100, "jitter");
}

#[test]
fn what_cannot_be_reached_is_null_with_its_reason() {
    let endless = LinkConfig::rate(50_000_000).with_delay(Duration::from_millis(20));
    let (report, took) = Simulation::new(endless, LinkConfig::default()).run();
    assert!(report.up.queue_packets.is_none());
    assert!(report.up.reason["queue"].contains("1500 packets pass"), "{:?}", report.up.reason);
    assert!((report.up.bottleneck_bps.unwrap() as f64 / 50e6 - 1.0).abs() < 0.05);
    assert!(report.up.recommendation.is_some());
    // No line at all: it is no slower than its end.
    assert_eq!((report.down.bottleneck_bps, report.down.queue_packets), (None, None));
    assert!(
        report.down.reason["bottleneck_bps"].contains("as fast as they are sent"),
        "{:?}",
        report.down.reason
    );
    assert!(took < Duration::from_secs(20));
    // A bound that allows no burst as long as the queue.
    let (up, down) = (line(10_000_000, 300), line(10_000_000, 300));
    let (report, _) = Simulation::with(up, down, 1_000_000, Duration::from_secs(18)).run();
    assert!(report.up.reason["queue"].contains("the bound on the rate allows"), "{:?}", report.up.reason);
    // Small packets pass, large ones do not.
    let narrow = line(10_000_000, 100).with_max_packet(1000);
    let (report, _) = Simulation::new(narrow, line(10_000_000, 100)).run();
    assert!(report.up.reason["mtu"].contains("1228") && report.up.reason["queue"].contains("no packet"));
    check(&report.down, 10_000_000, 100, "the other way");
    let tunnel = line(10_000_000, 100).with_max_packet(1420);
    let (report, _) = Simulation::new(tunnel, line(10_000_000, 100)).run();
    assert_eq!((report.up.mtu, report.down.mtu), (Some(1420), Some(9000)));
}

#[test]
fn a_line_that_is_too_slow_for_the_time_ends_in_time_and_says_so() {
    let (report, took) = Simulation::new(line(300_000, 1000), line(300_000, 1000)).run();
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert!(report.up.queue_packets.is_none() && report.up.reason["queue"].contains("--duration"));
    assert!((report.up.bottleneck_bps.unwrap() as f64 / 300e3 - 1.0).abs() < 0.05);
}

#[test]
fn no_end_ever_exceeds_the_mean_of_a_second() {
    for max_bps in [1_000_000, 5_000_000, 20_000_000] {
        let duration = Duration::from_secs(18);
        let mut simulation =
            Simulation::with(line(40_000_000, 100), line(60_000_000, 200), max_bps, duration);
        simulation.run();
        for log in &simulation.sent {
            let (mut oldest, mut sum) = (0, 0);
            for (at, bytes) in log {
                sum += bytes;
                while at.since(log[oldest].0) >= Duration::from_secs(1) {
                    sum -= log[oldest].1;
                    oldest += 1;
                }
                assert!(sum * 8 <= max_bps, "{sum} bytes within a second up to {at:?}");
            }
            let total: u64 = log.iter().map(|(_, bytes)| bytes).sum();
            assert!(
                total <= volume_bound(max_bps, duration),
                "{total} of {}",
                volume_bound(max_bps, duration)
            );
        }
    }
}

#[test]
fn a_forged_start_makes_a_listener_send_no_more_than_it_got() {
    let mut simulation = Simulation::new(line(10_000_000, 50), line(10_000_000, 50));
    simulation.run();
    // All that a caller has ever sent, from an address that never receives, in its order and in the wrong one.
    let tape = std::mem::take(&mut simulation.tape);
    assert!(tape.len() > 500);
    let victim: SocketAddr = "203.0.113.9:4000".parse().unwrap();
    let settings = ListenerSettings { key: Key(KEY), max_bps: 1_000_000_000, seed: [2; 32] };
    for backwards in [false, true] {
        let mut fresh = Listener::new(settings.clone());
        let (mut got, mut sent, mut now) = (0, 0, Time::from_millis(1));
        let mut order: Vec<&Vec<u8>> = tape.iter().collect();
        if backwards {
            order.reverse();
        }
        for listener in [&mut fresh, &mut simulation.listener] {
            for datagram in &order {
                now += Duration::from_millis(1);
                got += datagram.len();
                listener.handle_datagram(now, now, victim, datagram);
                while let Some(transmit) = listener.poll_transmit(now) {
                    sent += transmit.bytes.len();
                    assert!(!transmit.is_train && transmit.bytes.len() <= datagram.len());
                }
            }
        }
        assert!(sent <= got && sent > 0, "{sent} of {got}: a Hello is answered");
    }
}

#[test]
fn a_stranger_without_the_key_gets_nothing() {
    let mut listener =
        Listener::new(ListenerSettings { key: Key([1; 32]), max_bps: 1_000_000, seed: [2; 32] });
    let settings = CallerSettings {
        key: Key([2; 32]),
        listener: "192.0.2.1:1".parse().unwrap(),
        max_bps: 1_000_000,
        duration: Duration::from_secs(5),
        seed: [3; 32],
    };
    let (mut caller, mut now) = (Caller::new(settings), Time::from_millis(1));
    while !caller.is_over() {
        while let Some(transmit) = caller.poll_transmit(now) {
            listener.handle_datagram(now, now, "192.0.2.2:2".parse().unwrap(), &transmit.bytes);
            assert_eq!(listener.poll_transmit(now), None);
        }
        now = caller.poll_timeout(now).unwrap_or(now);
    }
    assert!(matches!(caller.failure(), Some(Failure::NoAnswer { .. })));
    assert!(listener.rejected() > 10 && caller.report().is_empty());
}

#[test]
fn one_session_at_a_time_and_a_listener_that_goes_is_noticed() {
    let mut simulation = Simulation::new(line(50_000_000, 50), line(5_000_000, 200));
    simulation.goes_before_down = true;
    let (report, took) = simulation.run();
    assert!(
        matches!(simulation.caller.failure(), Some(Failure::Silent { .. })),
        "{:?}",
        simulation.caller.failure()
    );
    assert!(took < Duration::from_secs(20), "{took:?}");
    check(&report.up, 50_000_000, 50, "what was measured before stays");
    // The listener still has that session: another caller is told so.
    let mut network = Network::symmetric(LinkConfig::default(), 1).unwrap();
    network.rebind(End::Near, "198.51.100.77:7".parse().unwrap());
    let settings = CallerSettings {
        key: Key(KEY),
        listener: network.address(End::Far),
        max_bps: 1_000_000,
        duration: Duration::from_secs(5),
        seed: [4; 32],
    };
    let mut other = Caller::new(settings);
    let mut now = simulation.listener_is_gone_at;
    // A burst that is being sent goes before the answers.
    for _ in 0..60 {
        now += Duration::from_millis(1);
        while let Some(transmit) = other.poll_transmit(now) {
            simulation.listener.handle_datagram(now, now, network.address(End::Near), &transmit.bytes);
        }
        while let Some(transmit) = simulation.listener.poll_transmit(now) {
            other.handle_datagram(now, now, network.address(End::Far), &transmit.bytes);
        }
    }
    assert!(matches!(other.failure(), Some(Failure::Busy { .. })));
    // Silence ends the session, and it says what it was.
    simulation.listener.poll_transmit(Time::from_millis(60_000));
    let events: Vec<_> = std::iter::from_fn(|| simulation.listener.poll_event()).collect();
    assert!(matches!(
        events[..],
        [ListenerEvent::Began { .. }, ListenerEvent::Ended { is_orderly: false, .. }]
    ));
}

#[test]
fn a_start_that_is_sent_again_begins_no_second_session() {
    let mut simulation = Simulation::new(line(10_000_000, 50), line(10_000_000, 50));
    simulation.run();
    let start = simulation.tape.iter().find(|datagram| datagram.get(4) == Some(&3)).unwrap().clone();
    let (now, from) = (simulation.network.now(), simulation.network.address(End::Near));
    while simulation.listener.poll_event().is_some() {}
    simulation.listener.handle_datagram(now, now, from, &start);
    assert_eq!((simulation.listener.poll_transmit(now), simulation.listener.poll_event()), (None, None));
}

/// A policer: packets that find no token are dropped, none waits.
fn policed(rate_bps: f64, bucket_packets: f64, packets: u16) -> BurstRecord {
    let (mut tokens, mut arrivals) = (bucket_packets, Vec::new());
    for index in 0..packets {
        let sent_ns = u64::from(index / 16) * 157_184;
        tokens = (tokens + if index % 16 == 0 && index > 0 { rate_bps * 157_184e-9 / 9824.0 } else { 0.0 })
            .min(bucket_packets);
        if tokens >= 1.0 {
            tokens -= 1.0;
            arrivals.push(Arrival {
                index,
                sent_ns,
                received_ns: 5_000_000_000 + sent_ns + u64::from(index % 16) * 9_800,
            });
        }
    }
    let last_ns = u64::from((packets - 1) / 16) * 157_184;
    let sent = Sent { packets, refused: 0, first_ns: 0, last_ns };
    BurstRecord { spec: TrainSpec::burst(packets), sent, arrivals, duplicates: 0 }
}

// Inputs after public reports on tools that measure lines.

/// Ozark-Connect/NetworkOptimizer issue 784: a policer is taken for a slow line with a queue, and the bucket for its rate.
#[test]
fn a_policer_is_told_from_a_queue() {
    let mut record = DirectionRecord::new(28);
    record.bursts = [16, 64, 256, 1024, 1500, 1500].map(|packets| policed(100e6, 100.0, packets)).to_vec();
    let findings = analysis::analyse(&record);
    assert!((findings.rate_bps.unwrap() / 100e6 - 1.0).abs() < 0.1);
    assert!(findings.queue_packets.unwrap_err().contains("policer"));
    assert!((95.0..125.0).contains(&findings.policer_packets.unwrap()), "{:?}", findings.policer_packets);
}

/// perfsonar/project issue 122: network cards that report several packets at once make the bottleneck look far faster.
#[test]
fn arrivals_in_lumps_do_not_change_the_rate() {
    let mut simulation = Simulation::new(line(20_000_000, 100), line(10_000_000, 60));
    simulation.stamp = |at| Time::from_nanos(at.as_nanos().next_multiple_of(2_000_000));
    let (report, _) = simulation.run();
    // What lumps of 2 ms hide of a queue: four packets.
    assert!(
        (report.up.bottleneck_bps.unwrap() as f64 / 20e6 - 1.0).abs() < 0.05,
        "{:?}",
        report.up.bottleneck_bps
    );
    assert!((report.up.queue_packets.unwrap() as f64 - 100.0).abs() <= 5.0, "{:?}", report.up.queue_packets);
    check(&report.down, 10_000_000, 60, "lumps");
}

/// StanfordSNR/pantheon issue 71: clocks that do not agree give negative one-way delays. Here one is also 200 ppm faster.
#[test]
fn clocks_that_differ_and_drift_do_not_matter() {
    let mut simulation = Simulation::new(line(20_000_000, 40), line(50_000_000, 30));
    simulation.far_clock = (64_000_000_000_000, 200);
    let (report, _) = simulation.run();
    check(&report.up, 20_000_000, 40, "drift up");
    check(&report.down, 50_000_000, 30, "drift down");
    assert!(report.up.jitter_ms.unwrap() < 1.0, "{:?}", report.up.jitter_ms);
    assert!(report.down.jitter_ms.unwrap() < 1.0, "{:?}", report.down.jitter_ms);
}

/// spongebob888/shadowquic issue 4: a search for the MTU on a lossy path takes losses for packets that are too large.
#[test]
fn the_mtu_of_a_lossy_path_is_exact() {
    let up = line(20_000_000, 100).with_max_packet(1400).with_loss(Loss::Random(0.08));
    let (report, _) = Simulation::new(up, line(20_000_000, 100).with_loss(Loss::Random(0.08))).run();
    assert_eq!((report.up.mtu, report.down.mtu), (Some(1400), Some(9000)));
}

/// esnet/iperf issue 1352: the rate at which an end sends is reported although the line passes a fraction of it; and issue 267: what
/// the receiver's socket has no room for is counted as lost on the line.
#[test]
fn losses_at_the_receiver_are_not_taken_for_the_line_s() {
    let mut simulation = Simulation::new(line(20_000_000, 100), line(20_000_000, 100));
    simulation.caller.handle_socket_drops(12);
    let (report, _) = simulation.run();
    assert_eq!(report.down.queue_packets, None);
    assert!(report.down.reason["queue"].contains("no room for 12 packets"), "{:?}", report.down.reason);
    check(&report.up, 20_000_000, 100, "the other direction");
}

/// An end that sends no faster than the line: the queue would be the sender's own.
#[test]
fn a_sender_that_is_slower_than_the_line_is_told() {
    let mut record = DirectionRecord::new(28);
    for packets in [64u16, 256, 1024] {
        let at = |index: u16| u64::from(index) * 98_240;
        let arrivals =
            (0..packets).map(|index| Arrival { index, sent_ns: at(index / 16 * 16), received_ns: at(index) });
        let sent = Sent { packets, refused: 0, first_ns: 0, last_ns: at((packets - 1) / 16 * 16) };
        let arrivals = arrivals.collect();
        record.bursts.push(BurstRecord { spec: TrainSpec::burst(packets), sent, arrivals, duplicates: 0 });
    }
    let findings = analysis::analyse(&record);
    assert!(findings.rate_bps.unwrap_err().contains("as fast as they are sent, 100"));
    assert!(findings.queue_packets.is_err());
}

#[test]
fn it_ends_well_whenever_it_is_told_to() {
    for millis in [0, 10, 300, 1_500, 3_000, 9_000] {
        let mut simulation = Simulation::new(line(10_000_000, 50), line(10_000_000, 50));
        let until = Time::from_millis(millis);
        while simulation.network.now() < until && !simulation.caller.is_over() {
            simulation.send();
            let now = simulation.network.now();
            let next = earlier(simulation.caller.poll_timeout(now), simulation.listener.poll_timeout(now));
            if let Some(arrival) = simulation.network.step(next.unwrap_or(until).min(until)) {
                match arrival.end {
                    End::Near => simulation.caller.handle_datagram(
                        arrival.at,
                        arrival.at,
                        arrival.from,
                        &arrival.bytes,
                    ),
                    End::Far => simulation.listener.handle_datagram(
                        arrival.at,
                        arrival.at,
                        arrival.from,
                        &arrival.bytes,
                    ),
                }
            }
        }
        simulation.caller.end(simulation.network.now());
        let (report, _) = simulation.run();
        assert!(report.table().contains("round trip"));
    }
}

#[test]
fn anything_that_comes_does_no_harm() {
    let mut simulation = Simulation::new(line(10_000_000, 50), line(10_000_000, 50));
    let mut random = Random::new(5);
    simulation.network.set_service(End::Near, Service::Rate(10_000_000)).unwrap();
    simulation.run();
    let tape = simulation.tape.clone();
    let (near, far) = (simulation.network.address(End::Near), simulation.network.address(End::Far));
    let mut again = Simulation::new(line(10_000_000, 50), line(10_000_000, 50));
    for datagram in tape.iter().take(2_000) {
        let mut changed = datagram.clone();
        let place = random.next_u64() as usize % changed.len();
        changed[place] ^= 1 << (random.next_u64() % 8);
        let now = again.network.now() + Duration::from_millis(1);
        again.listener.handle_datagram(now, now, near, &changed);
        again.caller.handle_datagram(now, now, far, &changed);
        while let Some(transmit) = again.listener.poll_transmit(now) {
            assert!(!transmit.is_train);
        }
    }
}

/// A report of an emulated line.
pub(crate) fn example() -> PathReport {
    Simulation::new(line(10_000_000, 50), line(20_000_000, 100)).run().0
}
