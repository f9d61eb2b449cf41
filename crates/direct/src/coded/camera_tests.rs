use super::*;

const HORIZON: Duration = Duration::from_millis(40);
const RANGE: RateRange = RateRange { minimum_bps: 100_000, maximum_bps: 10_000_000, step_bps: 25_000 };

/// How a camera answers.
#[derive(Clone, Copy, PartialEq)]
enum Driver {
    /// It takes the rate and codes this part of it.
    Obeys(f64),
    /// It takes the rate and codes another one.
    Ignores(u64),
    /// It refuses every rate.
    Refuses,
}

/// A camera of 30 pictures a second before a link with a queue, both in virtual time.
struct Simulated {
    rate: CameraRate,
    driver: Driver,
    now: Time,
    /// What the encoder codes at, which follows what was set within some 300 ms.
    coded_bps: f64,
    queue_bits: f64,
    requests: Vec<(Time, u64)>,
    ignored: Vec<IgnoredRate>,
    random: u64,
}

impl Simulated {
    fn new(driver: Driver, range: RateRange) -> Simulated {
        Simulated {
            rate: CameraRate::new(range, None),
            driver,
            now: Time::from_millis(1000),
            coded_bps: 4e6,
            queue_bits: 0.0,
            requests: Vec::new(),
            ignored: Vec::new(),
            random: 7,
        }
    }

    /// A number within one tenth of 1.
    fn noise(&mut self) -> f64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        0.9 + (self.random >> 40) as f64 / f64::from(1 << 24) * 0.2
    }

    /// Lets so many pictures pass over a link of so many bits a second.
    fn run(&mut self, pictures: u32, link_bps: f64) {
        let interval = Duration::from_nanos(1_000_000_000 / 30);
        for _ in 0..pictures {
            self.now += interval;
            let unit_bits = self.coded_bps / 30.0 * self.noise();
            self.queue_bits = (self.queue_bits + unit_bits - link_bps / 30.0).max(0.0);
            let estimate = link_bps * self.noise();
            let budget_bits = (estimate * HORIZON.as_secs_f64() - self.queue_bits).max(0.0);
            self.rate.handle_unit(self.now, (unit_bits / 8.0) as u64, (budget_bits / 8.0) as u64, HORIZON);
            self.ignored.extend(self.rate.poll_ignored());
            if let Some(asked) = self.rate.poll_rate(self.now) {
                self.requests.push((self.now, asked));
                match self.driver {
                    Driver::Refuses => self.rate.handle_refused(self.now),
                    _ => self.rate.handle_set(self.now, asked, asked),
                }
            }
            let aim = match (self.driver, self.rate.set_bps()) {
                (Driver::Obeys(part), Some(set)) => set as f64 * part,
                (Driver::Ignores(bps), _) => bps as f64,
                _ => self.coded_bps,
            };
            self.coded_bps += 0.15 * (aim - self.coded_bps);
        }
    }
}

#[test]
fn a_camera_begins_at_the_rate_of_x264_and_its_bounds_hold() {
    let first = |range, most| CameraRate::new(range, most).poll_rate(Time::ZERO);
    assert_eq!(first(RANGE, None), Some(1_000_000));
    // Rates are rounded down to the step.
    assert_eq!(first(RateRange { minimum_bps: 110_000, ..RANGE }, None), Some(985_000));
    assert_eq!(first(RateRange { step_bps: 0, ..RANGE }, Some(300_001)), Some(300_001));
    assert_eq!(first(RateRange { minimum_bps: 2_000_000, ..RANGE }, None), Some(2_000_000));
    assert_eq!(first(RateRange { minimum_bps: 2_000_000, ..RANGE }, Some(1)), Some(2_000_000));
    // A range that is none does no harm.
    assert_eq!(first(RateRange { minimum_bps: 5, maximum_bps: 2, step_bps: 9 }, None), Some(5));
}

#[test]
fn the_rate_follows_the_link_down_within_a_second_and_up_within_a_few() {
    let mut camera = Simulated::new(Driver::Obeys(1.0), RANGE);
    camera.run(300, 8e6);
    let high = camera.rate.set_bps().unwrap();
    assert!((5_500_000..=7_200_000).contains(&high), "{high}");
    camera.run(45, 1e6);
    let low = camera.rate.set_bps().unwrap();
    assert!(low <= 1_000_000, "{low}");
    // What had piled up leaves, and the rate comes back to what the link carries.
    camera.run(600, 1e6);
    let settled = camera.rate.set_bps().unwrap();
    assert!((400_000..=900_000).contains(&settled), "{settled}");
    assert!(camera.queue_bits < 1e6 * 0.04, "{}", camera.queue_bits);
    camera.run(150, 8e6);
    assert!(camera.rate.set_bps().unwrap() > 4_000_000, "{:?}", camera.rate.set_bps());
    assert_eq!(camera.ignored, []);
}

#[test]
fn a_driver_is_asked_at_most_twice_a_second_and_not_for_small_changes() {
    let mut camera = Simulated::new(Driver::Obeys(1.0), RANGE);
    for round in 0..40 {
        camera.run(20, if round % 2 == 0 { 7e6 } else { 1.5e6 });
    }
    let pairs = camera.requests.windows(2);
    assert!(pairs.clone().all(|pair| pair[1].0.since(pair[0].0) >= SET_INTERVAL));
    assert!(pairs.clone().all(|pair| pair[1].1.abs_diff(pair[0].1) as f64 > pair[0].1 as f64 * CHANGE));
    // A link that stays the same settles: its noise of a tenth is no reason for another rate.
    camera.run(600, 4e6);
    let before = camera.requests.len();
    camera.run(600, 4e6);
    assert!(camera.requests.len() - before <= 4, "{} requests", camera.requests.len() - before);
}

#[test]
fn a_driver_that_refuses_is_asked_less_and_less_often() {
    let mut camera = Simulated::new(Driver::Refuses, RANGE);
    camera.run(30 * 120, 5e6);
    let pauses: Vec<u128> =
        camera.requests.windows(2).map(|pair| pair[1].0.since(pair[0].0).as_millis() / 500).collect();
    assert_eq!(pauses[..6], [1, 2, 4, 8, 16, 32], "{pauses:?}");
    assert!(pauses[6..].iter().all(|pause| *pause == 32), "{pauses:?}");
    assert_eq!(camera.rate.set_bps(), None);
    // Once it takes a rate, it is asked as often as before.
    camera.driver = Driver::Obeys(1.0);
    camera.run(30 * 20, 5e6);
    assert!(camera.rate.set_bps().is_some());
    let count = camera.requests.len();
    camera.run(60, 0.5e6);
    assert!(camera.requests.len() > count);
}

#[test]
fn a_camera_that_ignores_its_rate_is_told_of_once_with_what_it_delivers() {
    let mut camera = Simulated::new(Driver::Ignores(6_000_000), RANGE);
    camera.run(30 * 60, 2e6);
    let [IgnoredRate { set_bps, delivered_bps }] = camera.ignored[..] else { panic!("{:?}", camera.ignored) };
    assert!(set_bps < 2_000_000, "{set_bps}");
    assert!((5_500_000..=6_500_000).contains(&delivered_bps), "{delivered_bps}");
}

#[test]
fn a_camera_that_codes_too_much_is_set_lower_and_one_that_codes_less_is_no_fault() {
    let mut exact = Simulated::new(Driver::Obeys(1.0), RANGE);
    exact.run(30 * 60, 4e6);
    let mut generous = Simulated::new(Driver::Obeys(1.3), RANGE);
    generous.run(30 * 60, 4e6);
    assert!(generous.rate.set_bps() < exact.rate.set_bps());
    assert!(generous.queue_bits < 4e6 * 0.04);
    // A scene without motion needs less than it may have.
    let mut still = Simulated::new(Driver::Obeys(0.1), RANGE);
    still.run(30 * 60, 4e6);
    assert!(still.rate.set_bps().unwrap() > 3_000_000);
    assert_eq!([exact.ignored, generous.ignored, still.ignored], [[], [], []]);
}

#[test]
fn what_a_driver_makes_of_a_rate_is_no_reason_to_ask_again() {
    let mut rate = CameraRate::new(RANGE, None);
    let asked = rate.poll_rate(Time::ZERO).unwrap();
    rate.handle_set(Time::ZERO, asked, 500_000);
    assert_eq!(rate.set_bps(), Some(500_000));
    assert_eq!(rate.poll_rate(Time::from_millis(5000)), None);
}

#[test]
fn a_key_frame_is_asked_for_at_once_and_again_where_none_comes() {
    let mut keys = KeyRequests::default();
    let mut poll = |wants, millis| keys.poll_request(wants, Time::from_millis(millis));
    assert!(!poll(false, 0));
    assert!(poll(true, 33));
    assert!(!poll(true, 66) && !poll(true, 532));
    assert!(poll(true, 533));
    assert!(!poll(false, 600) && !poll(false, 2000));
    assert!(poll(true, 2033), "the next loss");
}
