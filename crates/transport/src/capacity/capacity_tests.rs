use super::*;
use std::collections::VecDeque;

/// A bottleneck with a long queue, and a sender that always has data, in steps of a millisecond.
struct Plant {
    rate: f64,
    /// Bytes in the queue.
    queue: f64,
    way: Duration,
    /// Sent but not acknowledged: when it was sent, when its acknowledgement comes, bytes, time in the queue.
    flying: VecDeque<(Time, Time, f64, f64)>,
    in_flight: f64,
    now: Time,
    delivered: VecDeque<(Time, f64)>,
}

impl Plant {
    fn new(rate: f64, way: Duration) -> Plant {
        let (flying, delivered) = (VecDeque::new(), VecDeque::new());
        Plant { rate, queue: 0.0, way, flying, in_flight: 0.0, now: Time::ZERO, delivered }
    }

    /// Runs for `millis`; the mean time in the queue and the share of the rate that was used.
    fn run(&mut self, capacity: &mut Capacity, millis: u64, others: f64) -> (f64, f64) {
        let (mut waited, mut carried) = (0.0, 0.0);
        for _ in 0..millis {
            self.now += Duration::from_millis(1);
            let room = capacity.window_bytes() as f64 - self.in_flight;
            let bytes = (capacity.pacing_rate().bytes_per_second() as f64 / 1000.0).min(room).max(0.0);
            let wait = self.queue / self.rate;
            self.queue += bytes + others / 1000.0;
            self.queue = (self.queue - self.rate / 1000.0).max(0.0);
            self.in_flight += bytes;
            let back = self.now + self.way * 2 + Duration::from_secs_f64(wait);
            self.flying.push_back((self.now, back, bytes, wait));
            waited += wait;
            while let Some(&(sent, _, bytes, wait)) =
                self.flying.front().filter(|packet| packet.1 <= self.now)
            {
                self.flying.pop_front();
                self.in_flight -= bytes;
                carried += bytes;
                self.delivered.push_back((self.now, bytes));
                let rtt = self.now - sent;
                while self.delivered.front().is_some_and(|first| first.0 + rtt < self.now) {
                    self.delivered.pop_front();
                }
                let rate = self.delivered.iter().map(|part| part.1).sum::<f64>() / rtt.as_secs_f64();
                capacity.handle_feedback(
                    self.now,
                    &Feedback {
                        acked_bytes: bytes as u64,
                        in_flight: self.in_flight as u64,
                        sent_at: Some(sent),
                        one_way_us: Some(1_000_000 + ((self.way.as_secs_f64() + wait) * 1e6) as i64),
                        rate: (self.now > Time::ZERO + rtt)
                            .then(|| ByteRate::from_bytes_per_second(rate as u64)),
                        rtt,
                        least_rtt: self.way * 2,
                        ..Feedback::default()
                    },
                );
            }
        }
        (waited / millis as f64, carried / (self.rate * millis as f64 / 1000.0))
    }
}

#[test]
fn the_rate_is_found_and_the_queue_is_short() {
    for (rate, way) in [(400_000.0, 50), (2_500_000.0, 20), (12_500_000.0, 5), (60_000.0, 100)] {
        let mut plant = Plant::new(rate, Duration::from_millis(way));
        let mut capacity = Capacity::new(Time::ZERO, 1200, Controller::Adaptive);
        plant.run(&mut capacity, 5000, 0.0);
        let (queue, used) = plant.run(&mut capacity, 10_000, 0.0);
        assert!(used > 0.9, "{rate} B/s, {way} ms: {used} used, {capacity:?}");
        let target = capacity.target();
        assert!(queue < 2.5 * target, "{rate} B/s, {way} ms: {queue} s queued, {target} aimed at");
        assert_eq!(capacity.mode(), Mode::Delay);
    }
}

#[test]
fn half_the_rate_is_noticed_within_some_round_trips_and_so_is_the_whole() {
    let mut plant = Plant::new(400_000.0, Duration::from_millis(50));
    let mut capacity = Capacity::new(Time::ZERO, 1200, Controller::Adaptive);
    plant.run(&mut capacity, 10_000, 0.0);
    plant.rate = 200_000.0;
    plant.run(&mut capacity, 1000, 0.0);
    let (queue, _) = plant.run(&mut capacity, 2000, 0.0);
    assert!(queue < 0.030, "{queue}");
    plant.rate = 400_000.0;
    plant.run(&mut capacity, 2000, 0.0);
    let (_, used) = plant.run(&mut capacity, 2000, 0.0);
    assert!(used > 0.85, "{used}");
}

#[test]
fn an_application_that_sends_little_does_not_shrink_the_estimate() {
    let mut plant = Plant::new(400_000.0, Duration::from_millis(50));
    let mut capacity = Capacity::new(Time::ZERO, 1200, Controller::Adaptive);
    plant.run(&mut capacity, 10_000, 0.0);
    let known = capacity.bandwidth().bytes_per_second();
    for step in 0..1000u64 {
        let now = plant.now + Duration::from_millis(10 * step);
        let rtt = Duration::from_millis(100);
        let feedback = Feedback {
            acked_bytes: 100,
            rate: Some(ByteRate::from_bytes_per_second(10_000)),
            app_limited: true,
            rtt,
            ..Feedback::default()
        };
        capacity.handle_feedback(now, &Feedback { one_way_us: Some(1_050_000), least_rtt: rtt, ..feedback });
    }
    assert!(capacity.bandwidth().bytes_per_second() >= known * 9 / 10);
}

#[test]
fn a_fixed_rate_stays_whatever_is_told() {
    let rate = ByteRate::from_bytes_per_second(500_000);
    let mut capacity = Capacity::new(Time::ZERO, 1200, Controller::Fixed(rate));
    let lossy = Feedback { lost_bytes: 100_000, one_way_us: Some(900_000), ..Feedback::default() };
    for second in 0..10 {
        capacity.handle_feedback(Time::from_millis(second * 1000), &lossy);
        assert_eq!((capacity.pacing_rate(), capacity.bandwidth()), (rate, rate));
    }
    assert_eq!(capacity.room(Time::ZERO, Duration::from_millis(20), 1 << 30), 10_000.0);
    capacity.handle_new_path(Time::from_millis(20_000));
    assert_eq!(capacity.controller(), Controller::Fixed(rate));
}

#[test]
fn salsify_has_under_way_what_arrives_within_its_delay() {
    let mut capacity = Capacity::new(Time::ZERO, 1200, Controller::SALSIFY);
    assert_eq!(capacity.window_bytes(), (INITIAL_RATE / 10.0) as u64);
    // 1000 bytes in 2 ms are 500 kB/s: 50 kB in 100 ms, of which 20 kB are under way.
    capacity.handle_arrival(Duration::from_millis(2));
    assert_eq!(capacity.window_bytes(), 50_000);
    assert_eq!(capacity.pacing_rate(), ByteRate::from_bytes_per_second(2_500_000));
    assert_eq!(capacity.room(Time::ZERO, Duration::from_millis(1), 20_000), 30_000.0);
    assert!(capacity.room(Time::ZERO, Duration::from_millis(1), 70_000) < 0.0);
    // However slow, two packets may be under way.
    capacity.handle_arrival(Duration::from_secs(9));
    assert_eq!(capacity.window_bytes(), 2400);
}

#[test]
fn the_budget_counts_what_waits_now_and_not_what_a_packet_once_found() {
    let mut plant = Plant::new(400_000.0, Duration::from_millis(50));
    let mut capacity = Capacity::new(Time::ZERO, 1200, Controller::Adaptive);
    plant.run(&mut capacity, 10_000, 0.0);
    let (now, horizon) = (plant.now, Duration::from_millis(40));
    let rate = capacity.bandwidth().bytes_per_second() as f64;
    let rtt = Duration::from_millis(50);
    // The newest answer is of a packet that left a round trip ago and found 20 ms of queue.
    let base = capacity.base.us();
    let told = Feedback {
        sent_at: Some(Time::from_nanos(now.as_nanos() - 50_000_000)),
        one_way_us: Some(base + 20_000),
        rtt,
        least_rtt: rtt,
        ..Feedback::default()
    };
    capacity.handle_feedback(now, &told);
    let pace = capacity.pacing_rate().bytes_in(horizon);
    let waits = |capacity: &Capacity, now: Time, in_flight: f64| {
        (pace - capacity.room(now, horizon, in_flight as u64)) / rate * 1e3
    };
    // Behind it left half of what the path carries in that time: its queue has gone.
    assert!(waits(&capacity, now, 0.025 * rate) < 1.0);
    // As much as the path carries: the queue stands. Twice as much: it has grown by a round trip's worth.
    assert!((waits(&capacity, now, 0.05 * rate) - 20.0).abs() < 1.0);
    assert!((waits(&capacity, now, 0.1 * rate) - 70.0).abs() < 1.0);
    // Nothing is answered any more, however long it has been under way: it may not have left.
    let later = Time::from_nanos(now.as_nanos() + 400_000_000);
    let stuck = waits(&capacity, later, 0.2 * rate);
    assert!((135.0..150.0).contains(&stuck), "{stuck}");
}
