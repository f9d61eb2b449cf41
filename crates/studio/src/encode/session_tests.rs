//! Running renditions, fed by hand: what leaves when, and what can be asked of them meanwhile.

use super::encoding::Running;
use super::feed::{Feed, Sound};
use super::pipeline::{Pipeline, RenditionIndex};
use super::queue::Queue;
use super::*;
use crate::capture::{Consumer, Format, Item, Length, Source};
use crate::output::{self, Demand, Output, Packets};
use glassline_io::clock::Clock;
use glassline_measure::pattern::Pattern;
use glassline_media::bitstream::h264::{NalType, Sei, Sps, nals};
use glassline_media::container::ts::packet::packets;
use glassline_media::container::ts::{Demuxer, Event, PACKET_BYTES, Packet};
use glassline_media::quantity::Bitrate;
use glassline_media::{
    AccessUnit, AudioBlock, Codec, Colour, FrameRate, Size, Stage, Stamps, Ticks, Time, Utc,
};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn small() -> Settings {
    Settings {
        preset: "ultrafast".to_owned(),
        bitrate: Bitrate::from_bits_per_second(300_000),
        keyint: Keyint::Time(Duration::from_millis(200)),
        threads: 1,
        ..Settings::default()
    }
}

/// Keeps what it gets.
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Output for Kept {
    fn write(&mut self, packets: &Packets<'_>) -> output::Result<Demand> {
        self.0.lock().unwrap().extend_from_slice(packets.bytes);
        Ok(Demand::Nothing)
    }
}

/// Demuxes a whole stream and checks what holds for each.
fn units(stream: &[u8]) -> (Vec<AccessUnit>, Vec<AccessUnit>) {
    assert!(stream.len().is_multiple_of(PACKET_BYTES));
    let mut demuxer = Demuxer::new();
    demuxer.push(stream);
    demuxer.finish();
    let (mut video, mut audio) = (Vec::new(), Vec::new());
    while let Some(event) = demuxer.poll() {
        if let Event::AccessUnit { unit, .. } = event {
            if unit.codec.is_video() { video.push(unit) } else { audio.push(unit) }
        }
    }
    let counters = demuxer.counters();
    assert_eq!((counters.continuity_errors, counters.malformed_packets, counters.damaged_units), (0, 0, 0));
    (video, audio)
}

/// Renditions that are fed by hand, and what each gave.
struct Fed {
    feed: Arc<Feed>,
    controls: Controls,
    streams: Vec<Arc<Mutex<Vec<u8>>>>,
    threads: Vec<std::thread::JoinHandle<Result<()>>>,
    pattern: Pattern,
    pushed: u64,
}

const RATE: u64 = 25;

fn place(index: usize) -> RenditionIndex {
    RenditionIndex { index, common_keys: false, shift: Ticks(0), defers: false }
}

impl Fed {
    fn start(settings: &[Settings], sound: Option<sound::Encoder>) -> Fed {
        Fed::start_shifted(settings, sound, Ticks(0))
    }

    fn start_shifted(settings: &[Settings], sound: Option<sound::Encoder>, shift: Ticks) -> Fed {
        let (size, rate) = (Size::new(320, 180).unwrap(), FrameRate::new(RATE as u32, 1).unwrap());
        let format =
            Format { size, rate, colour: Colour::BT709, sample_aspect: None, fields: None, live: false };
        let controls =
            Controls::new(settings.iter().map(|settings| Pipeline::status(format, settings)).collect());
        let queues: Vec<_> = settings.iter().map(|_| Arc::new(Queue::new(false))).collect();
        let audio = sound.as_ref().map(sound::Encoder::stream);
        let (mut streams, mut threads) = (Vec::new(), Vec::new());
        for (index, settings) in settings.iter().enumerate() {
            let place = RenditionIndex { shift, ..place(index) };
            let mut pipeline =
                Pipeline::new(format, settings, audio, controls.clone(), place, Clock::new()).unwrap();
            let (queue, stream) = (Arc::clone(&queues[index]), Arc::<Mutex<Vec<u8>>>::default());
            streams.push(Arc::clone(&stream));
            let mut output = Kept(stream);
            threads.push(std::thread::spawn(move || pipeline.run(&queue, &mut output)));
        }
        let sound = sound.map(|encoder| Sound { encoder, renditions: (0..queues.len()).collect() });
        let feed = Arc::new(Feed::new(queues, sound.into_iter().collect(), controls.clone(), format));
        Fed { feed, controls, streams, threads, pattern: Pattern::new(size, rate), pushed: 0 }
    }

    /// Pushes the next picture; its capture time is its number in nanoseconds.
    fn push(&mut self) {
        let time = Time::from_millis(self.pushed * 1000 / RATE);
        let picture = self.pattern.draw(self.pushed, time, Utc::from_nanos(self.pushed));
        self.pushed += 1;
        let stamps = Stamps::captured_at(time).with(Stage::Arrived, time).with(Stage::Queued, time);
        assert!(self.feed.push(Item::Picture { picture, pts: Ticks::from_time(time), stamps }));
    }

    /// Waits until rendition `index` has given `count` pictures, each whole without the next one.
    fn wait(&self, index: usize, count: usize) -> Vec<AccessUnit> {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let video = whole_units(&self.streams[index].lock().unwrap());
            if video.len() >= count {
                return video;
            }
            assert!(Instant::now() < deadline, "{} of {count} pictures", video.len());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn finish(self) -> Vec<Vec<u8>> {
        self.feed.end(Ok(()));
        self.threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
        self.streams.iter().map(|stream| stream.lock().unwrap().clone()).collect()
    }
}

/// The video that is known to be whole although the stream goes on.
fn whole_units(stream: &[u8]) -> Vec<AccessUnit> {
    let mut demuxer = Demuxer::new();
    demuxer.push(stream);
    std::iter::from_fn(|| demuxer.poll())
        .filter_map(|event| match event {
            Event::AccessUnit { unit, .. } if unit.codec.is_video() => Some(unit),
            _ => None,
        })
        .collect()
}

fn has(unit: &AccessUnit, kind: NalType) -> bool {
    nals(&unit.data).any(|nal| nal.kind() == kind)
}

#[test]
fn one_picture_and_then_nothing_puts_all_of_it_out() {
    for (threads, slices) in [(1, 1), (1, 8), (2, 2), (2, 8)] {
        let mut fed = Fed::start(&[Settings { threads, slices, ..small() }], None);
        fed.push();
        let video = fed.wait(0, 1);
        let found = nals(&video[0].data).filter(|nal| nal.kind().is_slice()).count();
        assert!(found >= slices as usize, "{found} slices");
        fed.finish();
    }
}

#[test]
fn each_picture_says_when_it_was_captured() {
    let mut fed = Fed::start(&[small()], None);
    (0..8).for_each(|_| fed.push());
    let (video, _) = units(&fed.finish()[0]);
    for (number, unit) in video.iter().enumerate() {
        assert_eq!(said_utc(unit), Some(Utc::from_nanos(number as u64)));
    }
}

#[test]
fn each_picture_says_its_senders_stages_and_those_of_the_one_before() {
    let mut fed = Fed::start(&[Settings { slices: 4, ..small() }], None);
    for number in 0..4 {
        let captured = Clock::new().now();
        let utc = Utc::from_micros(1_000_000 + 1_000 * number);
        let stamps = Stamps::captured_at(captured).with(Stage::Queued, captured + Duration::from_micros(300));
        let picture = fed.pattern.draw(number, captured, utc);
        assert!(fed.feed.push(Item::Picture { picture, pts: Ticks::from_time(captured), stamps }));
        // Else two might be captured in one tick.
        fed.wait(0, number as usize + 1);
    }
    let (video, _) = units(&fed.finish()[0]);
    let records: Vec<_> = video.iter().map(|unit| said(unit, Sei::stamp_record).unwrap()).collect();
    let micros = |stamps: Stamps, stage| stamps.at(stage).map(|time| time.as_nanos() / 1000);
    for record in &records {
        assert_eq!(micros(record.own, Stage::Queued), Some(300), "{record:?}");
    }
    assert_eq!(records[0].previous, None);
    for record in &records[1..] {
        let previous = record.previous.unwrap();
        assert_eq!(previous.ago, Duration::from_millis(1));
        let passed = [Stage::FirstSlice, Stage::Encoded, Stage::Muxed, Stage::Sent]
            .map(|stage| micros(previous.stages, stage).unwrap());
        assert!(passed.is_sorted(), "{previous:?}");
        assert!(micros(previous.stages, Stage::FirstSent).unwrap() <= passed[3], "{previous:?}");
    }
}

/// The capture time that a picture says.
fn said_utc(unit: &AccessUnit) -> Option<Utc> {
    said(unit, Sei::capture_utc)
}

/// What a message of a picture says.
fn said<T>(unit: &AccessUnit, what: impl Fn(&Sei) -> Option<T>) -> Option<T> {
    nals(&unit.data).filter(|nal| nal.kind() == NalType::Sei).find_map(|nal| what(&Sei::parse(nal.payload())))
}

#[test]
fn a_wall_clock_that_is_set_in_mid_run_disturbs_neither_stamps_nor_clock_nor_pace() {
    const HOUR: u64 = 3_600_000_000_000;
    let (size, rate) = (Size::new(64, 48).unwrap(), FrameRate::new(25, 1).unwrap());
    let length = Length { pictures: Some(40), time: None };
    let clock = Clock::new();
    let began = clock.now();
    // An hour forward after half a second, and two back after another.
    let offset = move |time: Time| match time.since(began).as_millis() {
        0..500 => 2 * HOUR,
        500..1000 => 3 * HOUR,
        _ => HOUR,
    };
    // The capture times that it is asked about, in order.
    let captured = Arc::<Mutex<Vec<Time>>>::default();
    let asked = Arc::clone(&captured);
    let source = Source::test(size, rate, None, length, clock).with_wall(move |time| {
        asked.lock().unwrap().push(time);
        Utc::from_nanos(time.as_nanos() + offset(time))
    });
    let (format, settings) = (source.format(), small());
    let controls = Controls::new(vec![Pipeline::status(format, &settings)]);
    // Not a live one: a busy machine loses nothing on the way.
    let queue = Arc::new(Queue::new(false));
    let pipeline = Pipeline::new(format, &settings, None, controls.clone(), place(0), clock).unwrap();
    let stream = Arc::<Mutex<Vec<u8>>>::default();
    let into = Arc::clone(&stream);
    let feed = Arc::new(Feed::new(vec![Arc::clone(&queue)], Vec::new(), controls, format));
    let output: Box<dyn Output> = Box::new(Kept(into));
    let renditions = [(pipeline, Arc::clone(&queue), output)].into_iter();
    Running::start(source, feed, renditions).unwrap().join().result.unwrap();
    assert!(clock.now().since(began) >= rate.time_of(39), "faster than its rate");
    let stream = stream.lock().unwrap();
    let (video, _) = units(&stream);
    // The source leaves out what it is too late for, and says so.
    assert_eq!(video.len() as u64 + queue.dropped(), 40);
    let clocks: Vec<u64> = packets(&stream)
        .filter_map(|packet| Packet::parse(packet).unwrap().pcr().map(|pcr| pcr.ticks()))
        .collect();
    let captured = captured.lock().unwrap();
    assert_eq!(video.len(), captured.len());
    let mut offsets = Vec::new();
    for (unit, captured) in video.iter().zip(captured.iter()) {
        // The wall clock is what each picture says, to the nanosecond.
        assert_eq!(said_utc(unit), Some(Utc::from_nanos(captured.as_nanos() + offset(*captured))));
        offsets.push(offset(*captured));
        // The stream's own times know nothing of it: frames' times apart, 50 ms behind a clock that is the capture.
        assert_eq!(unit.pts.wrapped(), (Ticks::from_time(*captured) + Ticks(4500)).wrapped());
        let clock = captured.as_nanos() * 27 / 1000 % (300 << 33);
        assert!(clocks.iter().any(|found| found.abs_diff(clock) <= 1), "{clock} is not in {clocks:?}");
    }
    offsets.dedup();
    assert!(offsets.len() > 1, "the clock was set in mid-run");
    for pair in captured.windows(2) {
        let apart = pair[1].since(pair[0]).as_nanos();
        assert!(apart >= 39_999_999 && (apart + 1) % 40_000_000 <= 2, "{apart} ns");
    }
}

#[test]
fn a_key_frame_comes_when_asked_for_in_all_renditions_at_once() {
    let settings = Settings { keyint: Keyint::Infinite, ..small() };
    let mut fed = Fed::start(&[settings.clone(), Settings { threads: 2, ..settings }], None);
    (0..4).for_each(|_| fed.push());
    fed.controls.request_key_frame();
    (0..4).for_each(|_| fed.push());
    fed.wait(0, 8);
    fed.wait(1, 8);
    let status = fed.controls.status();
    assert_eq!((status[0].name.as_str(), status[0].pictures), ("320x180@25", 8));
    assert_eq!(status[1].random_access_points, 2);
    for stream in fed.finish() {
        let (video, _) = units(&stream);
        let keys: Vec<_> = (0..8).filter(|&number| has(&video[number], NalType::Idr)).collect();
        assert_eq!(keys, [0, 4]);
    }
}

#[test]
fn the_rate_of_one_rendition_changes_without_a_key_frame() {
    let settings = Settings { keyint: Keyint::Infinite, ..small() };
    let mut fed = Fed::start(&[settings.clone(), settings], None);
    (0..50).for_each(|_| fed.push());
    fed.wait(0, 50);
    fed.controls.set_bitrate(0, Bitrate::from_bits_per_second(60_000)).unwrap();
    (0..100).for_each(|_| fed.push());
    fed.wait(0, 150);
    assert_eq!(
        fed.controls.status().iter().map(|status| status.bitrate_bps).collect::<Vec<_>>(),
        [60_000, 300_000]
    );
    let bits = |stream: &[u8]| {
        let (video, _) = units(stream);
        assert_eq!(video.iter().filter(|unit| unit.random_access).count(), 1);
        video[100..].iter().map(|unit| unit.data.len() * 8).sum::<usize>() / 2
    };
    let streams = fed.finish();
    let (changed, unchanged) = (bits(&streams[0]), bits(&streams[1]));
    assert!(changed * 2 < unchanged, "{changed} and {unchanged} bit/s");
}

#[cfg(feature = "opus")]
#[test]
fn sound_is_coded_once_and_goes_to_all_renditions() {
    let sound =
        sound::Encoder::open(&sound::Settings { codec: sound::Audio::Opus, ..sound::Settings::default() })
            .unwrap();
    let mut fed = Fed::start(&[small(), small()], sound);
    for block in 0..40u64 {
        if block % 4 == 0 {
            fed.push();
        }
        let samples = (0..960).map(|sample| (sample % 48) as f32 / 96.0).collect();
        let captured = Time::from_millis(block * 10);
        let block = AudioBlock { samples, channels: 2, rate_hz: 48_000, captured };
        assert!(fed.feed.push(Item::Sound(block)));
    }
    let streams = fed.finish();
    let [(video, audio), (_, other)] = [units(&streams[0]), units(&streams[1])];
    assert_eq!(video.len(), 10);
    assert!(audio.len() >= 40 && audio.iter().all(|unit| unit.codec == Codec::Opus));
    assert!(audio == other);
}

#[test]
fn a_failing_output_ends_the_session() {
    let clock = Clock::new();
    let (size, rate) = (Size::new(64, 48).unwrap(), FrameRate::new(25, 1).unwrap());
    let source = Source::test(size, rate, None, Length::default(), clock);
    let format = source.format();
    let settings = small();
    let controls = Controls::new(vec![Pipeline::status(format, &settings); 2]);
    let queues = [(); 2].map(|()| Arc::new(Queue::new(true)));
    let rendition = |index: usize, output: Box<dyn Output>| {
        let pipeline = Pipeline::new(format, &settings, None, controls.clone(), place(index), clock).unwrap();
        (pipeline, Arc::clone(&queues[index]), output)
    };
    let renditions = vec![rendition(0, Box::new(Kept(Arc::default()))), rendition(1, Box::new(Full))];
    let feed = Arc::new(Feed::new(queues.to_vec(), Vec::new(), controls.clone(), format));
    let ended = Running::start(source, feed, renditions.into_iter()).unwrap().join();
    assert_eq!(ended.stats.len(), 2);
    assert!(matches!(ended.result, Err(Error::Output(output::Error::ReaderGone))));
}

/// Takes nothing.
struct Full;

impl Output for Full {
    fn write(&mut self, _: &Packets<'_>) -> output::Result<Demand> {
        Err(output::Error::ReaderGone)
    }
}

#[test]
fn the_test_pattern_is_encoded_as_one_asks_for_it() {
    let mut request = Request::new("test:64x48@25".parse().unwrap());
    request.settings = small();
    request.length = Length { pictures: Some(10), time: None };
    let stream = Arc::<Mutex<Vec<u8>>>::default();
    let mut encoding = Encoding::open(&request, Clock::new()).unwrap();
    let told = Arc::<Mutex<usize>>::default();
    let into = Arc::clone(&told);
    encoding.report_progress(move |_| *into.lock().unwrap() += 1);
    assert_eq!(encoding.renditions().map(|(name, ..)| name.to_owned()).collect::<Vec<_>>(), [""]);
    assert!(encoding.liveness().live && !encoding.stopper().is_stopped());
    let ended = encoding.run(vec![Box::new(Kept(Arc::clone(&stream)))]);
    ended.result.unwrap();
    let (video, audio) = units(&stream.lock().unwrap());
    assert_eq!(video.len() as u64 + ended.stats[0].dropped(), 10);
    assert_eq!(audio.is_empty(), cfg!(not(feature = "opus")));
}

#[test]
fn a_ladder_has_its_key_frames_in_common() {
    let mut request = Request::new("test:64x48@50".parse().unwrap());
    request.settings = small();
    request.renditions = ["64x48@50:300k", "32x24@25:100k"].map(|text| text.parse().unwrap()).into();
    request.length = Length { pictures: Some(50), time: None };
    let streams = [(); 2].map(|()| Arc::<Mutex<Vec<u8>>>::default());
    let encoding = Encoding::open(&request, Clock::new()).unwrap();
    let names: Vec<_> = encoding.renditions().map(|(name, ..)| name.to_owned()).collect();
    assert_eq!(names, ["48p50", "24p25"]);
    let outputs = streams.iter().map(|stream| Box::new(Kept(Arc::clone(stream))) as Box<dyn Output>);
    encoding.run(outputs.collect()).result.unwrap();
    let keys = streams.map(|stream| {
        let (video, _) = units(&stream.lock().unwrap());
        video.iter().filter(|unit| unit.random_access).map(|unit| unit.pts).collect::<Vec<_>>()
    });
    assert!(keys[0].len() >= 4 && keys[0].iter().all(|key| keys[1].contains(key)), "{keys:?}");
}

#[test]
fn what_cannot_be_opened_says_why() {
    let refused = |change: fn(&mut Request)| {
        let mut request = Request::new("test:64x48@25".parse().unwrap());
        change(&mut request);
        Encoding::open(&request, Clock::new()).err().expect("it is refused")
    };
    assert!(matches!(refused(|request| request.looped = true), Error::Capture(_)));
    assert!(matches!(refused(|request| request.settings.slices = 99), Error::Setting(_)));
    let wrong = refused(|request| request.renditions = vec!["64x48@24:1M".parse().unwrap()]);
    assert!(matches!(wrong, Error::Ladder(LadderError::Rate { .. })), "{wrong}");
    let low = refused(|request| {
        request.settings.cbr = true;
        request.settings.mux_rate = Some(Bitrate::from_bits_per_second(1_000_000));
    });
    assert!(matches!(low, Error::MuxRate(MuxRateError::TooLow { .. })), "{low}");
}

/// With a look-ahead of ten pictures and B-pictures.
fn slow() -> Settings {
    let (look_ahead, bframes) = (Some(Duration::from_millis(400)), Some(2));
    Settings { preset: "veryfast".to_owned(), look_ahead, bframes, ..small() }
}

#[test]
fn a_rendition_with_a_look_ahead_keeps_no_other_waiting_and_misses_nothing() {
    let mut fed = Fed::start_shifted(&[small(), slow()], None, Ticks(7_200));
    for count in 1..=9 {
        fed.push();
        // Without delay each is there before the next one is.
        assert_eq!(fed.wait(0, count).len(), count);
    }
    assert_eq!(whole_units(&fed.streams[1].lock().unwrap()).len(), 0, "they wait for those behind them");
    (9..60).for_each(|_| fed.push());
    let statuses = fed.controls.clone();
    let streams = fed.finish();
    let [(hall, _), (outside, _)] = [0, 1].map(|index| units(&streams[index]));
    assert_eq!((hall.len(), outside.len()), (60, 60));
    assert!(hall.iter().all(|unit| unit.pts == unit.dts));
    let mut shown: Vec<Ticks> = outside.iter().map(|unit| unit.pts).collect();
    assert!(!shown.is_sorted(), "there are B-pictures");
    shown.sort_unstable();
    assert_eq!(shown, hall.iter().map(|unit| unit.pts).collect::<Vec<_>>(), "on the same clock");
    assert!(outside.windows(2).all(|pair| pair[0].dts < pair[1].dts));
    // Each says when it was captured: its number.
    let captured = |unit: &AccessUnit| {
        let messages = nals(&unit.data).filter(|nal| nal.kind() == NalType::Sei);
        messages.map(|nal| Sei::parse(nal.payload())).find_map(|sei| sei.capture_utc())
    };
    for unit in hall.iter().chain(&outside) {
        let number = (unit.pts - hall[0].pts).0 as u64 * RATE / 90_000;
        assert_eq!(captured(unit), Some(Utc::from_nanos(number)));
    }
    let status = &statuses.status()[1];
    assert_eq!((status.pictures, status.dropped), (60, 0));
}

#[test]
#[cfg(feature = "opus")]
fn sound_beside_a_look_ahead_stands_beside_the_pictures_of_its_time() {
    let sound = sound::Encoder::open(&sound::Settings::default()).unwrap();
    let mut fed = Fed::start_shifted(&[slow()], sound, Ticks(7_200));
    for number in 0..50 {
        let captured = Time::from_millis(number * 1000 / RATE);
        let samples = vec![0.0; 2 * 1920];
        assert!(fed.feed.push(Item::Sound(AudioBlock { samples, channels: 2, rate_hz: 48_000, captured })));
        fed.push();
    }
    let stream = &fed.finish()[0];
    let mut demuxer = Demuxer::new();
    demuxer.push(stream);
    demuxer.finish();
    let all: Vec<AccessUnit> = std::iter::from_fn(|| demuxer.poll())
        .filter_map(|event| if let Event::AccessUnit { unit, .. } = event { Some(unit) } else { None })
        .collect();
    let (mut decoded, mut counts) = (None, [0, 0]);
    for unit in &all {
        if unit.codec.is_video() {
            decoded = Some(unit.dts);
            counts[0] += 1;
        } else {
            counts[1] += 1;
            // It is there when the clock of the picture in front of it is at most a picture back, and not before.
            if let Some(decoded) = decoded {
                let ahead = unit.dts - decoded;
                assert!((-200..=3_600 + 450).contains(&ahead.0) || counts[0] == 50, "{ahead:?}");
            }
        }
    }
    assert_eq!(counts[0], 50);
    assert!(counts[1] >= 399, "{counts:?}");
}

/// Sizes of the pictures that key frames announce, and how many pictures follow each.
fn sizes(units: &[AccessUnit]) -> Vec<(u32, usize)> {
    let mut sizes: Vec<(u32, usize)> = Vec::new();
    for unit in units {
        let set = nals(&unit.data).find(|nal| nal.kind() == NalType::Sps);
        if let Some(width) = set.map(|set| Sps::parse(set.payload()).unwrap().width_px)
            && sizes.last().is_none_or(|(last, _)| *last != width)
        {
            assert!(unit.random_access);
            sizes.push((width, 0));
        }
        sizes.last_mut().unwrap().1 += 1;
    }
    sizes
}

#[test]
fn another_size_begins_with_a_key_frame_of_its_own_and_loses_no_picture() {
    let mut fed = Fed::start_shifted(&[small(), slow()], None, Ticks(7_200));
    (0..20).for_each(|_| fed.push());
    let size = Size::new(160, 90).unwrap();
    fed.controls.set_size(0, size).unwrap();
    fed.controls.set_size(1, size).unwrap();
    (0..20).for_each(|_| fed.push());
    // Back to the source's.
    fed.controls.set_size(0, Size::new(320, 180).unwrap()).unwrap();
    (0..10).for_each(|_| fed.push());
    let status = fed.controls.clone();
    let streams = fed.finish();
    assert_eq!(sizes(&units(&streams[0]).0), [(320, 20), (160, 20), (320, 10)]);
    let outside = units(&streams[1]).0;
    assert_eq!(sizes(&outside), [(320, 20), (160, 30)]);
    assert!(outside.windows(2).all(|pair| pair[0].dts < pair[1].dts));
    assert_eq!(status.status()[1].name, "160x90@25");
}

#[test]
fn another_preset_or_picture_rate_holds_from_the_next_picture_on() {
    let mut fed = Fed::start(&[small()], None);
    (0..10).for_each(|_| fed.push());
    // Pictures that wait in the queue would be coded by it, too.
    fed.wait(0, 10);
    fed.controls.set_preset(0, "fast").unwrap();
    (0..10).for_each(|_| fed.push());
    fed.wait(0, 20);
    assert_eq!(fed.controls.status()[0].preset, "fast");
    fed.controls.set_rate(0, FrameRate::new(5, 1).unwrap()).unwrap();
    (0..25).for_each(|_| fed.push());
    let status = fed.controls.clone();
    let video = units(&fed.finish()[0]).0;
    let numbers: Vec<i64> = video.iter().map(|unit| (unit.pts - video[0].pts).0 / 3_600).collect();
    assert_eq!(numbers, (0..20).chain((20..45).step_by(5)).collect::<Vec<_>>());
    assert!(video[10].random_access && video[20].random_access);
    assert_eq!(status.status()[0].name, "320x180@5");
    // CABAC, which the preset of before does without.
    let profile = |unit: &AccessUnit| {
        let set = nals(&unit.data).find(|nal| nal.kind() == NalType::Sps).unwrap();
        Sps::parse(set.payload()).unwrap().profile
    };
    assert!(profile(&video[0]) < profile(&video[10]));
}

#[test]
fn what_x264_does_not_take_is_refused_and_the_encoder_goes_on() {
    let level = Settings { level: "1.3".parse().ok(), ..small() };
    let mut fed = Fed::start(&[level], None);
    (0..10).for_each(|_| fed.push());
    fed.wait(0, 10);
    let large = Size::new(640, 360).unwrap();
    let refused = fed.controls.set_size(0, large).unwrap_err().to_string();
    assert!(refused.contains("level is 1.3") && refused.contains("or more"), "{refused}");
    assert!(fed.controls.set_bitrate(0, Bitrate::from_bits_per_second(2_000_000)).is_err());
    fed.controls.set_size(0, Size::new(160, 90).unwrap()).unwrap();
    (0..10).for_each(|_| fed.push());
    assert_eq!(sizes(&units(&fed.finish()[0]).0), [(320, 10), (160, 10)]);
}

#[test]
fn a_change_is_judged_by_the_bit_rate_that_holds() {
    // Level 1.3 has 768 kbit/s, and a quarter more in profile high alone, which `ultrafast` is not.
    let (level, bitrate) = ("1.3".parse().ok(), Bitrate::from_bits_per_second(900_000));
    let settings = Settings { level, bitrate, preset: "veryfast".to_owned(), ..small() };
    let mut fed = Fed::start(&[settings], None);
    (0..10).for_each(|_| fed.push());
    fed.wait(0, 10);
    assert!(fed.controls.set_preset(0, "ultrafast").is_err());
    fed.controls.set_bitrate(0, Bitrate::from_bits_per_second(300_000)).unwrap();
    fed.push();
    fed.wait(0, 11);
    fed.controls.set_preset(0, "ultrafast").unwrap();
    (0..5).for_each(|_| fed.push());
    let status = fed.controls.clone();
    assert_eq!(units(&fed.finish()[0]).0.len(), 16);
    assert_eq!(status.status()[0].preset, "ultrafast");
}

#[test]
fn another_preset_of_a_look_ahead_begins_nothing_anew() {
    let mut fed = Fed::start_shifted(&[slow()], None, Ticks(7_200));
    (0..30).for_each(|_| fed.push());
    fed.wait(0, 5);
    fed.controls.set_preset(0, "ultrafast").unwrap();
    (0..30).for_each(|_| fed.push());
    let status = fed.controls.clone();
    let video = units(&fed.finish()[0]).0;
    let keys: Vec<i64> = video
        .iter()
        .filter(|unit| unit.random_access)
        .map(|unit| (unit.pts - video[0].pts).0 / 3_600)
        .collect();
    assert_eq!((video.len(), keys), (60, (0..60).step_by(5).collect()));
    assert_eq!(status.status()[0].preset, "ultrafast");
}

#[test]
fn what_cannot_be_changed_is_refused_and_changes_nothing() {
    let fed = Fed::start(&[small()], None);
    let size = |width, height| fed.controls.set_size(0, Size::new(width, height).unwrap());
    assert_eq!(size(161, 90), Err(ControlError::Size(Size::new(161, 90).unwrap())));
    assert!(size(14, 90).is_err() && size(16, 16).is_ok());
    let rate = FrameRate::new(10, 1).unwrap();
    let source_rate = FrameRate::new(25, 1).unwrap();
    assert_eq!(fed.controls.set_rate(0, rate), Err(ControlError::FrameRate { rate, source_rate }));
    assert_eq!(fed.controls.set_preset(0, "3"), Err(ControlError::Preset("3".to_owned())));
    assert!(matches!(
        fed.controls.set_preset(1, "fast"),
        Err(ControlError::NoRendition { index: 1, count: 1 })
    ));
    fed.finish();
}
