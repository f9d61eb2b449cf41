use super::*;
use crate::direct::CodedVideoSender;
use crate::link::session::{Served, Service};
use crate::link::{Endpoint, Local};
use glassline_direct::coded::UnitHeader;
use glassline_direct::{VIDEO, coded_options};
use glassline_io::capture::{CodedCapture, Frame};
use glassline_io::clock::Clock;
use glassline_studio::capture::{CodedInput, Length};
use glassline_test_support::wait::PATIENCE;
use glassline_transport::link::{Credentials, Key, Settings};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};

const HORIZON: Duration = Duration::from_millis(40);
const EBUSY: i32 = 16;
const EINVAL: i32 = 22;

/// What a fake driver has, and what was set.
#[derive(Default)]
struct Driver {
    ranges: BTreeMap<EncoderControl, ControlRange>,
    values: BTreeMap<EncoderControl, i32>,
    refuses: BTreeMap<EncoderControl, i32>,
    requests: Vec<(EncoderControl, i32)>,
}

#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Driver>>);

impl EncoderControls for Fake {
    fn range(&self, control: EncoderControl) -> Option<ControlRange> {
        self.0.lock().unwrap().ranges.get(&control).copied()
    }

    fn value(&self, control: EncoderControl) -> io::Result<i32> {
        let value = self.0.lock().unwrap().values.get(&control).copied();
        value.ok_or_else(|| io::Error::from_raw_os_error(EINVAL))
    }

    fn set(&mut self, control: EncoderControl, value: i32) -> io::Result<i32> {
        let mut driver = self.0.lock().unwrap();
        driver.requests.push((control, value));
        if let Some(code) = driver.refuses.get(&control) {
            return Err(io::Error::from_raw_os_error(*code));
        }
        let Some(range) = driver.ranges.get(&control) else {
            return Err(io::Error::from_raw_os_error(EINVAL));
        };
        let set = value.clamp(range.minimum, range.maximum);
        driver.values.insert(control, set);
        Ok(set)
    }
}

impl Fake {
    fn with(controls: &[(EncoderControl, ControlRange)]) -> Fake {
        let fake = Fake::default();
        fake.0.lock().unwrap().ranges = controls.iter().copied().collect();
        fake
    }

    fn requests(&self) -> Vec<(EncoderControl, i32)> {
        std::mem::take(&mut self.0.lock().unwrap().requests)
    }

    fn camera(&self, settings: &CameraSettings) -> Camera {
        Camera::new(Box::new(self.clone()), settings, FrameRate::new(30, 1))
    }
}

const fn range(minimum: i32, maximum: i32, step: i32) -> ControlRange {
    ControlRange { minimum, maximum, step }
}

const BITRATE: (EncoderControl, ControlRange) = (EncoderControl::Bitrate, range(25_000, 25_000_000, 25_000));
const MODE: (EncoderControl, ControlRange) = (EncoderControl::BitrateMode, range(0, 1, 1));
const KEY: (EncoderControl, ControlRange) = (EncoderControl::ForceKeyFrame, range(0, 0, 1));
const PERIOD: (EncoderControl, ControlRange) = (EncoderControl::KeyInterval, range(0, i32::MAX, 1));
const ADAPT: CameraSettings = CameraSettings { adapt: true, bitrate_max: None };

/// Lets pictures of a link pass that takes so many bits a second, from a second on.
fn pass(camera: &mut Camera, from_second: u64, seconds: u64, link_bps: u64, unit_bytes: u64) {
    for picture in 0..seconds * 30 {
        let now = Time::from_millis(from_second * 1000 + picture * 1000 / 30);
        camera.handle_unit(now, unit_bytes, link_bps * 40 / 1000 / 8, HORIZON);
        camera.steer(now, false);
    }
}

#[test]
fn a_camera_that_is_not_to_follow_keeps_its_settings_and_gives_key_frames_on_request() {
    let fake = Fake::with(&[BITRATE, MODE, KEY, PERIOD]);
    let mut camera = fake.camera(&CameraSettings::default());
    pass(&mut camera, 0, 5, 8_000_000, 1000);
    assert_eq!((fake.requests(), camera.set_bps()), (vec![], None));
    camera.steer(Time::from_millis(6000), true);
    camera.steer(Time::from_millis(6033), true);
    assert_eq!(fake.requests(), [(EncoderControl::ForceKeyFrame, 1)]);
}

#[test]
fn a_camera_follows_the_link_within_the_driver_s_range_and_step() {
    let fake = Fake::with(&[BITRATE, MODE, KEY, PERIOD]);
    let mut camera =
        fake.camera(&CameraSettings { bitrate_max: Some(Bitrate::from_bits_per_second(4_000_000)), ..ADAPT });
    camera.steer(Time::ZERO, false);
    let constant = (EncoderControl::BitrateMode, CONSTANT_BITRATE);
    assert_eq!(fake.requests(), [constant, (EncoderControl::Bitrate, 1_000_000)]);
    pass(&mut camera, 1, 10, 20_000_000, 1000);
    assert_eq!(camera.set_bps(), Some(4_000_000));
    pass(&mut camera, 11, 3, 300_000, 1000);
    assert!(camera.set_bps().unwrap() <= 300_000, "{:?}", camera.set_bps());
    let requests = fake.requests();
    assert!(
        requests.iter().all(|(control, value)| *control == EncoderControl::Bitrate && value % 25_000 == 0)
    );
    assert!(requests.len() <= 26, "{requests:?}");
}

#[test]
fn a_driver_without_a_rate_is_asked_for_nothing_but_key_frames() {
    for none in [Fake::with(&[MODE, PERIOD]), Fake::with(&[(EncoderControl::Bitrate, range(0, 0, 1)), MODE])]
    {
        let mut camera = none.camera(&ADAPT);
        pass(&mut camera, 0, 5, 8_000_000, 1000);
        camera.steer(Time::from_millis(9000), true);
        assert_eq!((none.requests(), camera.set_bps()), (vec![], None));
    }
}

#[test]
fn a_driver_that_refuses_is_asked_again_later_and_follows_then() {
    for code in [EBUSY, EINVAL] {
        let fake = Fake::with(&[BITRATE, MODE, KEY]);
        fake.0.lock().unwrap().refuses =
            [(EncoderControl::Bitrate, code), (EncoderControl::BitrateMode, code)].into();
        let mut camera = fake.camera(&ADAPT);
        pass(&mut camera, 0, 10, 8_000_000, 1000);
        assert!(camera.set_bps().is_none() && camera.is_refusal_told);
        let asked = fake.requests().len();
        assert!((5..=7).contains(&asked), "{asked} requests");
        fake.0.lock().unwrap().refuses.clear();
        pass(&mut camera, 10, 17, 8_000_000, 1000);
        assert!(camera.set_bps().is_some());
    }
}

#[test]
fn a_key_frame_that_is_refused_is_not_asked_for_again() {
    let fake = Fake::with(&[KEY]);
    fake.0.lock().unwrap().refuses = [(EncoderControl::ForceKeyFrame, EINVAL)].into();
    let mut camera = fake.camera(&CameraSettings::default());
    for second in 0..5 {
        camera.steer(Time::from_millis(second * 1000), true);
    }
    assert_eq!(fake.requests(), [(EncoderControl::ForceKeyFrame, 1)]);
}

#[test]
fn key_frames_come_by_themselves_where_none_can_be_asked_for() {
    let constant = (EncoderControl::BitrateMode, CONSTANT_BITRATE);
    for (before, set) in [(Some(300), Some(60)), (Some(0), Some(60)), (None, Some(60)), (Some(45), None)] {
        let fake = Fake::with(&[BITRATE, MODE, PERIOD]);
        fake.0.lock().unwrap().values =
            before.map(|before| (EncoderControl::KeyInterval, before)).into_iter().collect();
        fake.camera(&ADAPT);
        let expected: Vec<_> =
            [constant].into_iter().chain(set.map(|set| (EncoderControl::KeyInterval, set))).collect();
        assert_eq!(fake.requests(), expected, "{before:?}");
    }
    let fake = Fake::with(&[BITRATE, MODE, KEY, PERIOD]);
    fake.camera(&ADAPT);
    assert_eq!(fake.requests(), [constant], "they come on request");
}

#[test]
fn ranges_that_are_none_become_rates_or_nothing() {
    let rates = |minimum, maximum, step| {
        rates_of(range(minimum, maximum, step))
            .map(|rates| [rates.minimum_bps, rates.maximum_bps, rates.step_bps])
    };
    assert_eq!(rates(25_000, 25_000_000, 25_000), Some([25_000, 25_000_000, 25_000]));
    assert_eq!(rates(0, 1_000_000, 1000), Some([1000, 1_000_000, 1000]));
    assert_eq!(rates(-5, 10, 0), Some([1, 10, 1]));
    assert_eq!(rates(1, 5, i32::MIN), Some([1, 5, 1]));
    assert_eq!([rates(0, 0, 1), rates(-9, -1, 1)], [None; 2]);
}

/// A camera of a hundred pictures a second that loses its sixth, and gives key frames on request alone.
struct PacedCamera {
    driver: Fake,
    sequence: u32,
    unit: Vec<u8>,
    clock: Clock,
    /// Whether the rate was set before the first picture.
    was_set: Arc<OnceLock<bool>>,
}

impl CodedCapture for PacedCamera {
    fn rate(&self) -> Option<FrameRate> {
        FrameRate::new(100, 1)
    }

    fn next(&mut self, _: Duration) -> io::Result<Option<Frame<'_>>> {
        // The camera's pace.
        std::thread::sleep(Duration::from_millis(10));
        let mut driver = self.driver.0.lock().unwrap();
        self.was_set.get_or_init(|| driver.values.contains_key(&EncoderControl::Bitrate));
        let is_key = driver.values.remove(&EncoderControl::ForceKeyFrame).is_some() || self.sequence == 0;
        self.sequence += if self.sequence == 5 { 2 } else { 1 };
        let nal: &[u8] = if is_key {
            &[0, 0, 0, 1, 0x67, 1, 2, 0, 0, 0, 1, 0x68, 3, 0, 0, 0, 1, 0x65, 0x88, 1]
        } else {
            &[0, 0, 0, 1, 0x41, 0x9a, 2]
        };
        self.unit = nal.to_vec();
        Ok(Some(Frame { bytes: &self.unit, captured: self.clock.now(), sequence: self.sequence }))
    }
}

#[test]
fn a_camera_on_a_link_is_set_before_it_starts_and_gives_a_key_frame_after_a_gap() {
    let settings = |name: &str| Settings {
        name: name.as_bytes().to_vec(),
        ..Settings::new(Credentials::Shared(Key([7; 32])))
    };
    let local = || [Local::at("127.0.0.1:0".parse().unwrap())];
    let ground = Endpoint::listen(settings("ground"), &local()).unwrap();
    let air = Endpoint::open(settings("air"), &local()).unwrap();
    let up = air.connect(ground.local_addresses()[0]).unwrap();
    assert!(up.wait_connected(PATIENCE).unwrap());
    let down = ground.accept_timeout(PATIENCE).unwrap().expect("a link");
    up.open(VIDEO, coded_options()).unwrap();

    let (driver, clock, was_set) = (Fake::with(&[BITRATE, KEY]), Clock::new(), Arc::new(OnceLock::new()));
    let capture = PacedCamera {
        driver: driver.clone(),
        sequence: 0,
        unit: Vec::new(),
        clock,
        was_set: Arc::clone(&was_set),
    };
    let (capture, controls) = (Box::new(capture), Box::new(driver.clone()));
    let input = CodedInput::of_capture(capture, controls, "camera".to_owned(), Length::default(), clock);
    let sender = CodedVideoSender::new(input, None, &ADAPT, 7);
    std::thread::scope(|scope| {
        let served = scope.spawn(|| sender.serve(&up));
        let (mut keys, mut others) = (0, 0);
        while keys < 2 && others < 50 {
            let message = down.receive_timeout(VIDEO, PATIENCE).unwrap().expect("a unit");
            let (header, _) = UnitHeader::parse(&message).unwrap();
            assert!(header.captured.as_micros() > 0 && header.rate == FrameRate::new(100, 1));
            if header.needs.is_none() {
                keys += 1;
            } else {
                others += 1;
            }
        }
        // Behind the gap nothing is sent before a key frame.
        assert!(keys == 2 && others <= 5, "{keys} key frames, {others} others");
        sender.stop();
        assert!(matches!(served.join().unwrap(), Ok(Served::All)));
    });
    assert_eq!(was_set.get(), Some(&true));
    assert!(driver.requests().contains(&(EncoderControl::ForceKeyFrame, 1)));
    let statistics = sender.statistics();
    assert!(statistics.bitrate.is_some() && statistics.counters.key >= 2, "{statistics:?}");
}
