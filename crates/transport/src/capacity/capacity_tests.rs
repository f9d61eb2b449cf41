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
            let bytes = (capacity.pacing_rate() as f64 / 1000.0).min(room).max(0.0);
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
                        rate: (self.now > Time::ZERO + rtt).then_some(rate as u64),
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
        let mut capacity = Capacity::new(Time::ZERO, 1200);
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
    let mut capacity = Capacity::new(Time::ZERO, 1200);
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
    let mut capacity = Capacity::new(Time::ZERO, 1200);
    plant.run(&mut capacity, 10_000, 0.0);
    let known = capacity.bandwidth();
    for step in 0..1000u64 {
        let now = plant.now + Duration::from_millis(10 * step);
        let rtt = Duration::from_millis(100);
        let feedback =
            Feedback { acked_bytes: 100, rate: Some(10_000), app_limited: true, rtt, ..Feedback::default() };
        capacity.handle_feedback(now, &Feedback { one_way_us: Some(1_050_000), least_rtt: rtt, ..feedback });
    }
    assert!(capacity.bandwidth() >= known * 9 / 10);
}

/// A flow at the shared bottleneck: what is under way, in parcels of a millisecond.
#[derive(Default)]
struct Flow {
    flying: VecDeque<Parcel>,
    in_flight: f64,
    carried: f64,
    rates: VecDeque<(Time, f64)>,
}

struct Parcel {
    sent: Time,
    back: Time,
    bytes: f64,
    lost: f64,
    wait: f64,
}

impl Flow {
    fn send(&mut self, parcel: Parcel) {
        self.in_flight += parcel.bytes;
        self.flying.push_back(parcel);
    }

    fn back(&mut self, now: Time) -> Option<Parcel> {
        let parcel = self.flying.pop_front_if_back(now)?;
        self.in_flight -= parcel.bytes;
        self.carried += parcel.bytes - parcel.lost;
        self.rates.push_back((now, parcel.bytes - parcel.lost));
        while self.rates.front().is_some_and(|first| first.0 + (now - parcel.sent) < now) {
            self.rates.pop_front();
        }
        Some(parcel)
    }

    fn rate(&self, rtt: Duration) -> u64 {
        (self.rates.iter().map(|part| part.1).sum::<f64>() / rtt.as_secs_f64()) as u64
    }
}

trait PopBack {
    fn pop_front_if_back(&mut self, now: Time) -> Option<Parcel>;
}

impl PopBack for VecDeque<Parcel> {
    fn pop_front_if_back(&mut self, now: Time) -> Option<Parcel> {
        if self.front()?.back <= now { self.pop_front() } else { None }
    }
}

/// Ours beside a flow with CUBIC's window for `seconds`: our share of what both carried, after ten seconds.
fn beside_cubic(rate: f64, rtt: Duration, room: f64, seconds: u64) -> f64 {
    let mut capacity = Capacity::new(Time::ZERO, 1200);
    let mut cubic = Cubic::new(Time::ZERO, 12_000.0, 1448);
    let (mut ours, mut theirs) = (Flow::default(), Flow::default());
    let (mut queue, mut now, mut before) = (0.0f64, Time::ZERO, (0.0, 0.0));
    for milli in 0..seconds * 1000 {
        now += Duration::from_millis(1);
        let wait = queue / rate;
        let back = now + rtt + Duration::from_secs_f64(wait);
        let mine = (capacity.pacing_rate() as f64 / 1000.0)
            .min(capacity.window_bytes() as f64 - ours.in_flight)
            .max(0.0);
        // It sends what its window has room for, a tenth of it at most in a millisecond.
        let other = (cubic.window_bytes() - theirs.in_flight).clamp(0.0, cubic.window_bytes() / 10.0);
        queue = (queue + mine + other - rate / 1000.0).max(0.0);
        let over = (queue - room).max(0.0);
        queue -= over;
        let share = if mine + other > 0.0 { over / (mine + other) } else { 0.0 };
        ours.send(Parcel { sent: now, back, bytes: mine, lost: mine * share, wait });
        theirs.send(Parcel { sent: now, back, bytes: other, lost: other * share, wait });
        while let Some(parcel) = theirs.back(now) {
            let rtt = now - parcel.sent;
            if parcel.lost > 0.0 {
                cubic.handle_lost(now, parcel.sent);
            } else {
                cubic.handle_acked(now, parcel.bytes as u64, rtt);
            }
        }
        while let Some(parcel) = ours.back(now) {
            let measured = now - parcel.sent;
            capacity.handle_feedback(
                now,
                &Feedback {
                    acked_bytes: (parcel.bytes - parcel.lost) as u64,
                    lost_bytes: parcel.lost.ceil() as u64,
                    in_flight: ours.in_flight as u64,
                    sent_at: Some(parcel.sent),
                    one_way_us: Some(((rtt.as_secs_f64() / 2.0 + parcel.wait) * 1e6) as i64),
                    rate: (now > Time::ZERO + measured).then(|| ours.rate(measured)),
                    app_limited: false,
                    rtt: measured,
                    least_rtt: rtt,
                },
            );
        }
        if milli == 10_000 {
            before = (ours.carried, theirs.carried);
        }
    }
    let (mine, other) = (ours.carried - before.0, theirs.carried - before.1);
    mine / (mine + other)
}

#[test]
fn a_flow_that_fills_the_queue_does_not_starve_ours_nor_ours_it() {
    for (depth, rtt) in [(1.0, 40), (0.5, 40), (2.0, 40), (1.0, 100)] {
        let (rate, rtt) = (2_500_000.0, Duration::from_millis(rtt));
        let share = beside_cubic(rate, rtt, depth * rate * rtt.as_secs_f64(), 70);
        println!("{depth} {rtt:?} {share}");
        assert!((0.3..=0.7).contains(&share), "{depth} bandwidth-delay products, {rtt:?}: {share}");
    }
}
