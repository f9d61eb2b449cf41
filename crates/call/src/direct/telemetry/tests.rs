use super::*;
use crate::link::session::Output as _;
use glassline_media::container::ts::{Demuxer, Event, MuxSettings, Muxer};
use glassline_media::{AccessUnit, Codec, Stamps};

/// What pymavlink 2.4.50 has written of system 1, component 1: `ATTITUDE` with a yaw of -90°, and `GLOBAL_POSITION_INT` at
/// 47.3977418, -8.5455939.
const ATTITUDE: &str = "fd1c00000301011e000074ea0000f3665fbed8e9973ddb0fc9bf0ad7233c0ad7a3bc8fc2f53cbf6e";
const POSITION: &str = "fd1c000005010121000088ea00004a52401cbd0be8fac272070010270000640038ff05007869858e";

fn message(hex: &str) -> Bytes {
    let digits = hex.as_bytes().as_chunks::<2>().0;
    digits.iter().map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn klv() -> Bytes {
    uas::Set { time_micros: Some(5), heading_deg: Some(1.0), ..uas::Set::default() }.write().into()
}

/// A stream with the telemetry, and the clock that its pictures are captured by.
struct Stream {
    output: Box<dyn Output>,
    muxer: Muxer,
    written: Arc<Mutex<Vec<u8>>>,
    clock: Clock,
}

impl Stream {
    fn new(telemetry: &Telemetry) -> Stream {
        let written = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&written);
        let output = move |packets: &Packets<'_>| {
            into.lock().unwrap().extend_from_slice(packets.bytes);
            Ok(Demand::Nothing)
        };
        let settings = MuxSettings { video: Some(Codec::H264), ..MuxSettings::default() };
        let muxer = Muxer::new(settings).unwrap();
        Stream { output: telemetry.added_to(Box::new(output)), muxer, written, clock: Clock::new() }
    }

    /// A picture that was captured then, in two slices. Returns its time stamp on the wire.
    fn picture(&mut self, captured: Time) -> Ticks {
        let pts = Ticks::from_time(captured);
        let unit = AccessUnit {
            codec: Codec::H264,
            data: vec![0, 0, 0, 1, 0x65, 0x88, 7, 7].into(),
            pts,
            dts: pts,
            random_access: true,
            stamps: Stamps::default(),
        };
        let mut packets = Vec::new();
        self.muxer.write(&unit, &mut packets).unwrap();
        let (first, rest) = packets.split_at(packets.len() - 188);
        let part = Packets { bytes: first, joinable: true, ends_picture: false };
        self.output.write(&part).unwrap();
        self.output.write(&Packets { bytes: rest, joinable: false, ends_picture: true }).unwrap();
        pts + MuxSettings::default().decode_delay
    }

    /// The units of data so far, with their time stamps.
    fn units(&self) -> Vec<(Bytes, Ticks)> {
        let mut demuxer = Demuxer::with_data();
        demuxer.push(&self.written.lock().unwrap());
        demuxer.finish();
        let events = std::iter::from_fn(|| demuxer.poll());
        let units = events.filter_map(|event| match event {
            Event::Data { unit, .. } => Some((unit.data, unit.pts.unwrap())),
            _ => None,
        });
        units.collect()
    }
}

fn set(unit: &(Bytes, Ticks)) -> uas::Set {
    uas::Set::parse(&klv::Packet::parse(&unit.0).unwrap()).unwrap()
}

fn near(one: Ticks, other: Ticks) -> bool {
    // The demuxer has 33 bits.
    (one.wrapped().cast_signed() - other.wrapped().cast_signed()).abs() <= 1
}

#[test]
fn what_an_autopilot_says_stands_beside_the_picture_of_its_moment() {
    let telemetry = Telemetry::new();
    let mut stream = Stream::new(&telemetry);
    let mut input = telemetry.input(0, TelemetryFormat::Mavlink, None);
    let ago = |ms: u64| Time::from_nanos(Clock::new().now().as_nanos() - ms * 1_000_000);
    stream.picture(ago(100));
    // It is captured before the message is read.
    let before = ago(10);
    let stamp = stream.clock.utc();
    input.write_stamped(&message(ATTITUDE), Some(stamp)).unwrap();
    stream.picture(before);
    assert!(stream.units().is_empty(), "the set belongs to a later picture");
    let pts = stream.picture(stream.clock.now());
    let units = stream.units();
    assert_eq!(units.len(), 1);
    assert!(near(units[0].1, pts), "{units:?}, {pts:?}");
    let said = set(&units[0]);
    assert!((said.heading_deg.unwrap() - 270.0).abs() < 0.01 && said.latitude_deg.is_none());
    assert_eq!(said.time_micros, Some(stamp.as_micros()));
    let statistics = telemetry.statistics();
    assert_eq!((statistics.units, statistics.bytes), (1, units[0].0.len() as u64));
    assert_eq!(statistics.mavlink.unwrap().by_sender, 1);
}

/// Nothing else comes from the vehicle for a while: its position, which came too soon behind its attitude, is told all the same.
#[test]
fn a_set_that_was_too_early_comes_with_a_later_picture() {
    let telemetry = Telemetry::new();
    let mut stream = Stream::new(&telemetry);
    let mut input = telemetry.input(0, TelemetryFormat::Mavlink, None);
    input.write(&message(ATTITUDE)).unwrap();
    input.write(&message(POSITION)).unwrap();
    let asked = stream.clock.now();
    while stream.units().len() < 2 {
        assert!(stream.clock.now().since(asked) < Duration::from_secs(20));
        stream.picture(stream.clock.now());
        std::thread::sleep(Duration::from_millis(5));
    }
    let units = stream.units();
    let said = set(&units[1]);
    assert!((said.latitude_deg.unwrap() - 47.397_741_8).abs() < 1e-6 && said.pitch_deg.is_some());
    assert_eq!(telemetry.statistics().mavlink.unwrap().by_receiver, 2);
}

#[test]
fn klv_goes_through_as_it_is_and_what_is_wrong_does_not() {
    let telemetry = Telemetry::new();
    let mut stream = Stream::new(&telemetry);
    let mut input = telemetry.input(0, TelemetryFormat::St0601, None);
    let mut other = vec![6, 0x0e, 0x2b, 0x34, 2, 0x0b, 1, 1, 0x0e, 1, 3, 3, 6, 0, 0, 0, 2, 4, 0];
    let both: Bytes = [&klv()[..], &other].concat().into();
    let mut damaged = klv().to_vec();
    damaged[20] ^= 1;
    let none = uas::KEY.iter().chain(&[3, 65, 1, 19]).copied().collect::<Vec<u8>>();
    let mut large = uas::KEY[..7].to_vec();
    large.extend_from_slice(&[1, 0x0e, 1, 1, 2, 1, 1, 0, 0, 0x83, 1, 0, 0]);
    large.resize(20 + 0x1_0000, 0);
    other.pop();
    for bad in
        [&damaged[..], &none, &large, &other, &klv()[..20], b"", b"no KLV", &[&both[..], b"x"].concat()]
    {
        input.write(&Bytes::copy_from_slice(bad)).unwrap();
    }
    input.write(&both).unwrap();
    input.write(&klv()).unwrap();
    stream.picture(stream.clock.now());
    let units: Vec<_> = stream.units().into_iter().map(|(data, _)| data).collect();
    assert_eq!(units, [both, klv()]);
    let statistics = telemetry.statistics();
    assert_eq!((statistics.refused, statistics.units, statistics.mavlink), (8, 2, None));
}

#[test]
fn a_channels_output_gets_the_messages_too() {
    let telemetry = Telemetry::new();
    let (to, messages) = std::sync::mpsc::channel::<Bytes>();
    let mut input = telemetry.input(3, TelemetryFormat::Mavlink, Some(Box::new(to)));
    input.write(&message(POSITION)).unwrap();
    input.write_stamped(&Bytes::from_static(b"garbage"), Some(Utc::from_micros(1))).unwrap();
    input.flush().unwrap();
    assert_eq!(messages.try_iter().collect::<Vec<_>>(), [message(POSITION), Bytes::from_static(b"garbage")]);
}

/// A ground station's program has ended, or a disk is full.
#[test]
fn a_channels_output_that_fails_does_not_end_the_telemetry() {
    let telemetry = Telemetry::new();
    let mut stream = Stream::new(&telemetry);
    let (to, messages) = std::sync::mpsc::channel::<Bytes>();
    drop(messages);
    let mut input = telemetry.input(3, TelemetryFormat::St0601, Some(Box::new(to)));
    for _ in 0..3 {
        input.write(&klv()).unwrap();
        input.flush().unwrap();
    }
    stream.picture(stream.clock.now());
    assert_eq!(stream.units().len(), 3);
}

/// The drone's wall clock is two seconds behind ours. By that clock a set is due later than by ours.
#[test]
fn sets_are_no_more_than_ten_a_second_where_the_clocks_differ() {
    let mut state = State { lines: vec![Line::default()], ..State::default() };
    let behind = Duration::from_secs(2);
    let mut count = 0;
    for number in 0..500 {
        let now = Time::from_millis(10_000 + number * 20);
        let at = Time::ZERO + (now.since(Time::ZERO) - behind);
        let utc = Utc::from_micros(1_790_000_000_000_000 + number * 20_000);
        let read = Read { at, utc, beside_vehicle: true, here: utc };
        state.take_line(0, 0, &message(ATTITUDE), read, now);
        state.poll_lines(now);
        count += std::iter::from_fn(|| state.waiting.take_for(Ticks::from_time(now))).count();
    }
    assert!((99..=101).contains(&count), "{count} sets in ten seconds");
}

/// Each unit that came is written or counted as one that is not.
#[test]
fn what_waits_at_the_end_is_written_or_counted() {
    let telemetry = Telemetry::new();
    let mut stream = Stream::new(&telemetry);
    let mut input = telemetry.input(0, TelemetryFormat::St0601, None);
    let captured = Time::from_nanos(stream.clock.now().as_nanos() - 100_000_000);
    stream.picture(captured);
    // It belongs to the last picture, and comes behind it; the other one belongs to a picture that does not come.
    let of_last = stream.clock.utc_at(Time::from_nanos(captured.as_nanos() - 20_000_000));
    input.write_stamped(&klv(), Some(of_last)).unwrap();
    let later = stream.clock.utc();
    input.write_stamped(&klv(), Some(later)).unwrap();
    stream.output.finish().unwrap();
    assert_eq!(stream.units().len(), 1);
    let TelemetryStatistics { units, bytes, dropped, .. } = telemetry.statistics();
    assert_eq!((units, bytes, dropped), (1, klv().len() as u64, 1));
}

#[test]
fn what_an_output_does_not_take_is_not_counted_as_written() {
    let telemetry = Telemetry::new();
    // A picture of another stream, which was captured when the unit had come.
    let mut stream = Stream::new(&Telemetry::new());
    telemetry.input(0, TelemetryFormat::St0601, None).write(&klv()).unwrap();
    stream.picture(stream.clock.now());
    let packets = stream.written.lock().unwrap().clone();
    stream.output = telemetry.added_to(Box::new(|_: &Packets<'_>| Err(Error::ReaderGone)));
    assert!(stream.output.write(&Packets::whole(&packets, true)).is_err());
    let TelemetryStatistics { units, bytes, dropped, .. } = telemetry.statistics();
    assert_eq!((units, bytes, dropped), (0, 0, 1));
}

/// A stream that fails begins again: the program map has the data there too, with counters from their beginning.
#[test]
fn a_stream_that_begins_again_has_the_telemetry_again() {
    let telemetry = Telemetry::new();
    let mut input = telemetry.input(0, TelemetryFormat::St0601, None);
    for _ in 0..2 {
        let mut stream = Stream::new(&telemetry);
        input.write(&klv()).unwrap();
        stream.picture(stream.clock.now());
        assert_eq!(stream.units().len(), 1);
    }
}
