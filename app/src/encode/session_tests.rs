//! Running renditions, fed by hand: what leaves when, and what can be asked of them meanwhile.

use super::feed::{Handed, Item};
use super::keyint::Keyint;
use super::pipeline::Demand;
use super::session::OwnedSink;
use super::source::Format;
use super::tests::{Folder, encode, units, write_y4m};
use super::*;
use glassline_media::bitstream::h264::{NalType, Sei, nals};
use glassline_media::container::ts::packet::packets;
use glassline_media::container::ts::{Demuxer, Event, Packet, Scanner};
use glassline_media::measure::pattern::Pattern;
use glassline_media::quantity::Bitrate;
use glassline_media::{AccessUnit, AudioBlock, Codec, Colour, FrameRate, Size, Ticks, Time, Utc};
use glassline_test_support::{has_program, skip};
use std::time::Instant;

fn small() -> Settings {
    Settings {
        preset: "ultrafast".to_owned(),
        bitrate: Bitrate::from_bits_per_second(300_000),
        keyint: Keyint::Time(Duration::from_millis(200)),
        threads: 1,
        ..Settings::default()
    }
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

impl Fed {
    fn start(settings: &[Settings], sound: Option<sound::Encoder>) -> Fed {
        let (size, rate) = (Size::new(320, 180).unwrap(), FrameRate::new(RATE as u32, 1).unwrap());
        let format = Format { size, rate, colour: Colour::BT709, fields: None, live: false };
        let controls =
            Controls::new(settings.iter().map(|settings| Pipeline::status(format, settings)).collect());
        let queues: Vec<_> = settings.iter().map(|_| Arc::new(Queue::new(false))).collect();
        let audio = sound.as_ref().map(sound::Encoder::stream);
        let (mut streams, mut threads) = (Vec::new(), Vec::new());
        for (index, settings) in settings.iter().enumerate() {
            let mut pipeline =
                Pipeline::new(format, settings, audio, controls.clone(), index, Clock::new()).unwrap();
            let (queue, stream) = (Arc::clone(&queues[index]), Arc::<Mutex<Vec<u8>>>::default());
            streams.push(Arc::clone(&stream));
            let mut sink: OwnedSink = Box::new(move |packets: &Packets<'_>| {
                stream.lock().unwrap().extend_from_slice(packets.bytes);
                Ok(Demand::Nothing)
            });
            threads.push(std::thread::spawn(move || pipeline.run(&queue, &mut *sink)));
        }
        let feed = Arc::new(Feed::new(queues, sound, controls.clone()));
        Fed { feed, controls, streams, threads, pattern: Pattern::new(size, rate), pushed: 0 }
    }

    /// Pushes the next picture; its capture time is its number in nanoseconds.
    fn push(&mut self) {
        let time = Time::from_millis(self.pushed * 1000 / RATE);
        let picture = self.pattern.draw(self.pushed, time, Utc::from_nanos(self.pushed));
        self.pushed += 1;
        let when = Handed { arrived: time, queued: time };
        assert!(self.feed.push(Item::Picture { picture, pts: Ticks::from_time(time), when }));
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

/// The capture time that a picture says.
fn said_utc(unit: &AccessUnit) -> Option<Utc> {
    nals(&unit.data)
        .filter(|nal| nal.kind() == NalType::Sei)
        .find_map(|nal| Sei::parse(nal.payload()).capture_utc())
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
    let pipeline = Pipeline::new(format, &settings, None, controls.clone(), 0, clock).unwrap();
    let stream = Arc::<Mutex<Vec<u8>>>::default();
    let into = Arc::clone(&stream);
    let sink: OwnedSink = Box::new(move |packets: &Packets<'_>| {
        into.lock().unwrap().extend_from_slice(packets.bytes);
        Ok(Demand::Nothing)
    });
    let renditions = vec![Rendition { pipeline, queue: Arc::clone(&queue), sink }];
    let feed = Arc::new(Feed::new(vec![Arc::clone(&queue)], None, controls));
    Session::start(source, feed, renditions).unwrap().join().1.unwrap();
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
        sound::Encoder::open(&sound::Settings { codec: Audio::Opus, ..sound::Settings::default() }).unwrap();
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
    let rendition = |index: usize, sink: OwnedSink| Rendition {
        pipeline: Pipeline::new(format, &settings, None, controls.clone(), index, clock).unwrap(),
        queue: Arc::clone(&queues[index]),
        sink,
    };
    let renditions = vec![
        rendition(0, Box::new(|_| Ok(Demand::Nothing))),
        rendition(1, Box::new(|_| Err(anyhow::anyhow!("full")))),
    ];
    let feed = Arc::new(Feed::new(queues.to_vec(), None, controls.clone()));
    let (pipelines, ended) = Session::start(source, feed, renditions).unwrap().join();
    assert_eq!(pipelines.len(), 2);
    assert_eq!(ended.unwrap_err().to_string(), "full");
}

#[test]
fn every_way_to_code_gives_a_stream_that_ffmpeg_takes_without_a_word() {
    let folder = Folder::new("ways");
    let (input, output) = (folder.path("in.y4m"), folder.path("out.ts"));
    write_y4m(&input, 70);
    for ways in [
        &[][..],
        &["--slices", "3", "--threads", "1"],
        &["--intra-refresh", "--vbv", "1frame"],
        &["--cbr", "--vbv", "200ms", "--bitrate", "900k"],
        &["--constant-size", "--bitrate", "600k"],
        &["--adapt", "--preset", "faster"],
    ] {
        encode(&[&[input.as_str(), &output], ways].concat()).unwrap();
        let stream = std::fs::read(&output).unwrap();
        let (video, _) = units(&stream);
        assert_eq!(video.len(), 70, "{ways:?}");
        let mut scanner = Scanner::new();
        let joins = packets(&stream).filter(|packet| scanner.scan(packet).entry.is_some()).count();
        assert_eq!(joins, video.iter().filter(|unit| unit.random_access).count(), "{ways:?}");
        assert!(joins >= 2, "{ways:?}");
        if ways.contains(&"--constant-size") {
            let sizes: Vec<_> = video[1..].iter().map(|unit| unit.data.len()).collect();
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            // 600,000 bits a second at 30000/1001 pictures.
            assert!(*least >= 2_400 && *most <= 2_600, "{least} to {most}");
        }
        if !has_program("ffmpeg") {
            skip(
                "every_way_to_code_gives_a_stream_that_ffmpeg_takes_without_a_word",
                "ffmpeg is not installed",
            );
            continue;
        }
        let said = std::process::Command::new("ffmpeg")
            .args(["-v", "warning", "-i", &output, "-f", "null", "-"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.is_empty(), "{ways:?}: {said}");
    }
}

#[test]
fn the_budget_is_drawn_and_the_table_is_json_where_asked_for() {
    let folder = Folder::new("budget");
    let (input, output, svg) = (folder.path("in.y4m"), folder.path("out.ts"), folder.path("b.svg"));
    write_y4m(&input, 10);
    encode(&[&input, &output, "--budget", &svg, "--stats"]).unwrap();
    let drawn = std::fs::read_to_string(&svg).unwrap();
    assert!(drawn.contains("10 pictures") && drawn.contains("last slice out"));
    let nowhere = folder.path("none/b.svg");
    let refused = encode(&[&input, &output, "--budget", &nowhere]).unwrap_err().to_string();
    assert!(refused.contains("--budget"), "{refused}");
    let refused = encode(&[&input, "-", "--stats", "--json"]).unwrap_err().to_string();
    assert!(refused.contains("standard output"), "{refused}");
}
