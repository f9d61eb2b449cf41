//! What a sender decides before anything is sent.

use super::*;
use crate::raw::send::{AncillarySettings, PathSettings, SoundSettings, TimeCodeFrom};
use glassline_media::Colour;
use glassline_media::quantity::Bitrate;
use glassline_test_support::program::Scratch;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::channel;

fn rate(above: u32, below: u32) -> FrameRate {
    FrameRate::new(above, below).unwrap()
}

const AT: Time = Time::from_millis(1_000);

/// A path to this port, where nothing has to listen.
fn path(port: u16) -> PathSettings {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    PathSettings { route: Route::to(address) }
}

fn to(port: u16) -> Settings {
    Settings::to(vec![path(port)])
}

fn with_sound(paths: Vec<PathSettings>, tone: bool) -> Option<SoundSettings> {
    Some(SoundSettings { paths, payload_type: 97, input: None, tone, raw: None })
}

fn with_ancillary(paths: Vec<PathSettings>, time_code: TimeCodeFrom) -> Option<AncillarySettings> {
    Some(AncillarySettings { paths, payload_type: 100, time_code })
}

fn open(settings: Settings) -> Result<RawSender> {
    RawSender::open(&"test:64x32@50".parse().unwrap(), settings, Clock::new())
}

/// A y4m file without a picture: it says what they would be.
fn film(scratch: &Scratch) -> Input {
    scratch.write("a.y4m", "YUV4MPEG2 W64 H32 F50:1 C422\n").parse().unwrap()
}

#[test]
fn a_length_is_as_many_frames_as_begin_within_it() {
    let frames = |pictures, time, rate| limit(Length { pictures, time }, rate);
    let millis = |millis| Some(Duration::from_millis(millis));
    let fifty = rate(50, 1);
    assert_eq!(frames(None, None, fifty), None);
    assert_eq!(frames(Some(7), None, fifty), Some(7));
    assert_eq!(
        [0, 1, 20, 21, 1_000].map(|time| frames(None, millis(time), fifty)),
        [0, 1, 1, 2, 50].map(Some)
    );
    assert_eq!(frames(None, millis(1_001), rate(60_000, 1001)), Some(60));
    assert_eq!(frames(None, millis(1_002), rate(60_000, 1001)), Some(61));
    assert_eq!(frames(Some(7), millis(1_000), fifty), Some(7), "whichever is over first");
    assert_eq!(frames(Some(70), millis(1_000), fifty), Some(50));
    assert_eq!(frames(None, Some(Duration::MAX), fifty), Some(u64::MAX));
}

#[test]
fn frames_go_by_a_grid_by_their_captures_or_as_fast_as_they_can() {
    let fifty = rate(50, 1);
    let pattern = || {
        let size = glassline_media::Size::new(64, 32).unwrap();
        OpenInput::Source(Box::new(Source::test(size, fifty, None, Length::default(), Clock::new())))
    };
    let delay = |rate, is_live| match timing(&pattern(), &to(9), AT, rate, is_live) {
        Timing::Captured { delay } => delay,
        other => panic!("{other:?}"),
    };
    // A period keeps the test pattern to its grid; what has a clock of its own has nothing to keep to.
    assert_eq!(
        (delay(fifty, false), delay(rate(10, 1), false)),
        (rate(50, 1).time_of(1), rate(10, 1).time_of(1))
    );
    assert_eq!((delay(fifty, true), delay(rate(10, 1), true)), (rate(50, 1).time_of(1), LIVE_DELAY));
    let kept = || OpenInput::Kept(Vec::new());
    let Timing::Grid { first, rate, slot } = timing(&kept(), &to(9), AT, fifty, false) else {
        panic!("no grid")
    };
    assert_eq!((first, rate, slot), (AT, fifty, 0));
    let unlimited = Settings { rate: Rate::Unlimited, ..to(9) };
    for input in [kept(), pattern()] {
        assert!(matches!(timing(&input, &unlimited, AT, fifty, false), Timing::Unlimited));
    }
}

#[test]
fn each_stream_needs_a_place_of_its_own_on_each_path() {
    let both = |pictures: [u16; 2], sound: [u16; 2]| {
        let paths = pictures.map(path).to_vec();
        open(Settings { sound: with_sound(sound.map(path).to_vec(), true), ..Settings::to(paths) })
    };
    both([9_000, 9_002], [9_004, 9_006]).unwrap();
    for (pictures, sound) in [([9_000, 9_002], [9_004, 9_000]), ([9_000, 9_002], [9_002, 9_006])] {
        let refused = both(pictures, sound).err().expect("two have one place");
        assert!(matches!(&refused, Error::SamePlace(at) if pictures.contains(&at.port())), "{refused}");
    }
    assert!(matches!(both([9_000, 9_000], [9_004, 9_006]), Err(Error::SamePlace(_))), "nor two paths");
}

#[test]
fn sound_and_time_codes_that_there_are_not_take_no_place() {
    let scratch = Scratch::new("raw-send-places");
    let settings = Settings {
        sound: with_sound(vec![path(9_000)], true),
        ancillary: with_ancillary(vec![path(9_000)], TimeCodeFrom::Source),
        ..to(9_000)
    };
    let sender = RawSender::open(&film(&scratch), settings.clone(), Clock::new()).unwrap();
    assert_eq!(
        (sender.sound_channels(), sender.has_time_code(), sender.has_captions()),
        (None, false, false)
    );
    let clock = Settings { ancillary: with_ancillary(vec![path(9_000)], TimeCodeFrom::Clock), ..settings };
    let refused = RawSender::open(&film(&scratch), clock, Clock::new()).err().unwrap();
    assert!(matches!(refused, Error::SamePlace(_)), "{refused}");
}

#[test]
fn the_same_address_by_another_interface_is_another_place() {
    let mut other = path(9_000);
    other.route.source = Some([127, 0, 0, 2].into());
    let settings = Settings::to(vec![path(9_000), other]);
    open(settings).unwrap();
}

#[test]
fn the_test_pattern_s_tone_is_sent_where_it_is_wanted() {
    let sound = |tone| {
        let sender = open(Settings { sound: with_sound(vec![path(9_002)], tone), ..to(9_000) }).unwrap();
        (sender.sound_channels(), sender.description("x").to_string().contains("m=audio 9002 RTP/AVP 97"))
    };
    assert_eq!((sound(true), sound(false)), ((Some(2), true), (None, false)));
}

#[test]
fn sound_belongs_to_the_rate_of_its_pictures() {
    let scratch = Scratch::new("raw-send-rate-sound");
    let bits = Rate::Bits(Bitrate::from_bits_per_second(10_000_000));
    for rate in [bits, Rate::Unlimited] {
        let own = Settings { rate, sound: with_sound(vec![path(9_002)], true), ..to(9_000) };
        let sender = RawSender::open(&film(&scratch), own.clone(), Clock::new()).unwrap();
        assert_eq!(sender.sound_channels(), None, "its own is left out");
        let mut named = own;
        named.sound.as_mut().unwrap().input = Some("a.wav".parse().unwrap());
        let refused = RawSender::open(&film(&scratch), named, Clock::new()).err().unwrap();
        assert!(matches!(refused, Error::SoundOfOtherRate), "{refused}");
    }
}

#[test]
fn a_rate_is_the_source_s_or_that_of_the_bits_or_none_that_could_be_told() {
    let found = |rate| open(Settings { rate, ..to(9_000) }).unwrap().rate();
    assert_eq!(found(Rate::Source), Some(rate(50, 1)));
    assert_eq!(found(Rate::Unlimited), None);
    let sender = |bits| {
        let rate = Rate::Bits(Bitrate::from_bits_per_second(bits));
        open(Settings { rate, ..to(9_000) }).unwrap()
    };
    // 64×32 pixels of 4:2:2 in ten bits are 5,120 bytes, and their packets a little more.
    let hz = sender(5_120 * 8 * 100).rate().unwrap().as_f64();
    assert!((90.0..100.0).contains(&hz), "{hz}");
    let twice = sender(5_120 * 8 * 200).rate().unwrap().as_f64();
    assert!((twice / hz - 2.0).abs() < 1e-6, "{twice}");
}

#[test]
fn time_codes_of_the_clock_are_announced_and_those_of_no_such_rate_refused() {
    let with =
        |time_code| open(Settings { ancillary: with_ancillary(vec![path(9_004)], time_code), ..to(9_000) });
    let sender = with(TimeCodeFrom::Clock).unwrap();
    assert!(sender.has_time_code() && !sender.has_captions());
    let text = sender.description("x").to_string();
    assert!(text.contains("smpte291/90000") && text.contains("DID_SDID={0x60,0x60}"), "{text}");
    let sender = with(TimeCodeFrom::Source).unwrap();
    assert!(!sender.has_time_code() && !sender.description("x").to_string().contains("smpte291"));
    let dropping = TimeCodeFrom::Start("10:00:00;00".parse().unwrap());
    assert!(matches!(with(dropping), Err(Error::TimeCode(_))));
}

#[test]
fn bursts_are_as_large_as_they_are_asked_to_be() {
    let most = |burst_packets, shape| {
        // Several packets a frame, all of one size.
        let settings = Settings { datagram_bytes: 300, burst_packets, shape, ..to(9_000) };
        let sender = open(settings).unwrap();
        assert!(sender.packets() > 10, "{}", sender.packets());
        sender.monitor().statistics().burst_packets
    };
    assert_eq!((most(Some(1), Shape::Narrow), most(Some(3), Shape::Narrow)), (1, 3));
    assert!(most(None, Shape::Burst) > 3);
}

#[test]
fn a_sender_that_has_not_run_tells_where_it_will_send_and_nothing_else() {
    let sender = open(Settings::to(vec![path(9_000), path(9_002)])).unwrap();
    let statistics = sender.monitor().statistics();
    let to: Vec<_> = statistics.paths.iter().map(|path| path.to.as_str()).collect();
    assert_eq!(to, ["127.0.0.1:9000", "127.0.0.1:9002"]);
    assert_eq!((statistics.launches.len(), statistics.frames, statistics.packets), (2, 0, 0));
    assert_eq!((statistics.sound, statistics.ancillary), (None, None));
    assert!(statistics.class.is_none() && sender.kept().is_none());
}

#[test]
fn only_pictures_that_keep_to_the_grid_of_the_epoch_are_promised_to() {
    let promised = |sender: &RawSender| sender.description("x").to_string().contains("TP=");
    assert!(promised(&open(to(9_000)).unwrap()), "the test pattern begins where it is told to");
    assert!(!promised(&open(Settings { shape: Shape::Burst, ..to(9_000) }).unwrap()));
    let mut sender = open(to(9_000)).unwrap();
    let (_give, items) = channel();
    let source = capture::Format { live: true, colour: Colour::BT709, ..sender.opened.source };
    sender.opened.source = source;
    sender.opened.input = OpenInput::Source(Box::new(Source::handed(items, source, Clock::new())));
    assert!(sender.is_live() && !promised(&sender), "a camera has a clock of its own");
}

#[test]
fn one_that_is_stopped_before_it_runs_sends_nothing() {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_nonblocking(true).unwrap();
    let sender = open(to(receiver.local_addr().unwrap().port())).unwrap();
    let monitor = sender.monitor();
    sender.stopper().stop();
    sender.run().unwrap();
    assert_eq!((monitor.statistics().frames, monitor.statistics().packets), (0, 0));
    assert!(receiver.recv(&mut [0; 2_000]).is_err(), "a datagram came");
}
