//! The codec that is left to the loop: on a line in virtual time it comes to the one of which the pictures are better there.

use bytes::Bytes;
use glassline_codec::vp8::{Limits, Serial};
use glassline_direct::wire::{FrameCodec, PictureHeader, TakenCodecs};
use glassline_direct::{
    Aside, CodecChoice, CodecReason, Fate, LinkAccess, REPORTS, Receiver, SendLoop, SenderSettings, VIDEO,
    VideoCodec,
};
use glassline_measure::pattern::Pattern;
use glassline_measure::ssim::{Ssim, decibels};
use glassline_media::pixels::Scaler;
use glassline_media::{FrameRate, Picture, Size, Stage, Stamps, Time, Utc};
use glassline_transport::link::{Error as LinkError, Event, MessageId, Outcome};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

const SIZE: Size = Size { width: 320, height: 192 };
const INTERVAL: Duration = Duration::from_millis(40);
/// When the first picture is captured.
const BEGIN: Duration = Duration::from_secs(1);
/// What encoding takes, and each step of a comparison.
const ENCODING: Duration = Duration::from_millis(8);
const JUDGING: Duration = Duration::from_micros(250);
/// Until what was sent is there, and a report is back.
const WAY: usize = 2;

fn rate() -> FrameRate {
    FrameRate::new(25, 1).unwrap()
}

/// A line that carries so much.
struct Line {
    bytes_per_second: f64,
    queued: f64,
    at: Time,
    sent: Vec<Bytes>,
    reports: VecDeque<Bytes>,
    events: VecDeque<Event>,
}

impl Line {
    fn pass(&mut self, now: Time) {
        let left = now.since(self.at).as_secs_f64() * self.bytes_per_second;
        (self.queued, self.at) = ((self.queued - left).max(0.0), now);
    }
}

impl LinkAccess for Line {
    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn receive(&mut self, channel: u8) -> Result<Option<Bytes>, LinkError> {
        assert_eq!(channel, REPORTS);
        Ok(self.reports.pop_front())
    }

    fn budget(&mut self, now: Time, channel: u8, horizon: Duration) -> Result<u64, LinkError> {
        assert_eq!(channel, VIDEO);
        self.pass(now);
        Ok((self.bytes_per_second * horizon.as_secs_f64() - self.queued).max(0.0) as u64)
    }

    fn budget_ahead(&mut self, now: Time, after: Duration, horizon: Duration) -> Result<u64, LinkError> {
        let left = after.as_secs_f64() * self.bytes_per_second;
        let now_takes = self.budget(now, VIDEO, horizon)? as f64;
        Ok((now_takes + left).min(self.bytes_per_second * horizon.as_secs_f64()) as u64)
    }

    fn silence(&mut self, _: Time) -> Result<Duration, LinkError> {
        Ok(Duration::ZERO)
    }

    fn send(&mut self, now: Time, _: u8, message: Bytes) -> Result<MessageId, LinkError> {
        self.pass(now);
        self.queued += message.len() as f64;
        self.sent.push(message);
        Ok(MessageId(self.sent.len() as u64 - 1))
    }

    fn sound_bytes_per_second(&self) -> u64 {
        0
    }
}

fn picture_at(number: u64, size: Size) -> Picture {
    let now = Time::ZERO + BEGIN + INTERVAL * number as u32;
    let utc = Utc::from_micros(1 + now.as_nanos() / 1000);
    let mut picture = Pattern::new(size, rate()).draw(number, now, utc);
    (picture.captured, picture.captured_utc) = (now, Some(utc));
    picture
}

/// Both ends on a line.
struct Run {
    pictures: SendLoop,
    receiver: Receiver,
    line: Line,
    now: Time,
    number: u64,
    /// Of the source.
    size: Size,
    shown: Option<Picture>,
    /// Messages and reports under way.
    up: VecDeque<Vec<Bytes>>,
    back: VecDeque<Vec<Bytes>>,
    choices: Vec<(u64, CodecChoice)>,
    codecs: Vec<FrameCodec>,
    sizes: Vec<Size>,
    encoding: Duration,
}

impl Run {
    fn new(codec: VideoCodec, bytes_per_second: f64) -> Run {
        let speed = if codec == VideoCodec::Av1 { 8 } else { 4 };
        let settings = SenderSettings { video_codec: codec, speed, ..SenderSettings::new(7, rate()) };
        let now = Time::ZERO + BEGIN;
        Run {
            pictures: SendLoop::new(settings),
            receiver: Receiver::new(Limits::default()),
            line: Line {
                bytes_per_second,
                queued: 0.0,
                at: now,
                sent: Vec::new(),
                reports: VecDeque::new(),
                events: VecDeque::new(),
            },
            now,
            number: 0,
            size: SIZE,
            shown: None,
            up: VecDeque::new(),
            back: VecDeque::new(),
            choices: Vec::new(),
            codecs: Vec::new(),
            sizes: Vec::new(),
            encoding: ENCODING,
        }
    }

    /// A picture from its capture to the next one's.
    fn offer(&mut self) {
        let (begun, picture) = (self.now, picture_at(self.number, self.size));
        self.number += 1;
        let stamps = Stamps::captured_at(begun).with(Stage::Queued, begun);
        self.pictures.encode(self.now, &picture, stamps, &mut self.line, &Serial).unwrap();
        self.now += self.encoding;
        let decision = self.pictures.choose(self.now, &mut self.line, &Serial).unwrap();
        self.sizes.extend(decision.map(|decision| decision.size));
        self.pictures.send(self.now, &mut self.line).unwrap();
        self.pictures.rest(self.now, &Serial).unwrap();
        while let Some(aside) = self.pictures.aside(self.now, &Serial) {
            let took = if matches!(aside, Aside::Judged(_)) { JUDGING } else { self.encoding };
            self.now += took;
            assert!(self.now <= begun + INTERVAL, "a comparison holds up the next picture");
            self.pictures.aside_took(self.now, took);
        }
        while let Some(choice) = self.pictures.poll_codec_choice() {
            self.choices.push((self.number, choice));
        }
        self.now = begun + INTERVAL;
        self.up.push_back(std::mem::take(&mut self.line.sent));
        self.arrive();
    }

    fn go_on(&mut self, pictures: usize) {
        (0..pictures).for_each(|_| self.offer());
    }

    /// How near to its source what is on screen is.
    fn ssim(&self) -> f64 {
        // It is so many pictures old.
        let source = picture_at(self.number.saturating_sub(1 + WAY as u64), self.size);
        let shown = self.shown.as_ref().map(|shown| Scaler::new(self.size).scale(shown));
        shown.map_or(0.0, |shown| Ssim::of(&source, &shown).unwrap().plane(0).unwrap())
    }

    fn arrive(&mut self) {
        if self.up.len() > WAY {
            for message in self.up.pop_front().into_iter().flatten() {
                self.codecs.push(PictureHeader::parse(&message).unwrap().0.codec);
                let fate = self.receiver.handle(self.now, &message).unwrap();
                if let Fate::Shown(pictures) = fate {
                    self.shown = pictures.into_iter().last().map(|shown| shown.picture);
                }
            }
            let report = self.receiver.poll_report().map(Bytes::from);
            self.back.push_back(report.into_iter().collect());
        }
        if self.back.len() > WAY {
            self.line.reports.extend(self.back.pop_front().into_iter().flatten());
        }
    }

    fn codec(&self) -> VideoCodec {
        self.pictures.status().codec
    }

    /// The quality of some pictures, dB.
    fn quality(&mut self, pictures: usize) -> f64 {
        let mut sum = 0.0;
        for _ in 0..pictures {
            self.offer();
            sum += self.ssim();
        }
        decibels(sum / pictures as f64)
    }
}

/// What each codec makes of a scene by itself, behind its first two seconds.
fn alone(codec: VideoCodec, bytes_per_second: f64) -> f64 {
    let mut run = Run::new(codec, bytes_per_second);
    run.go_on(75);
    run.quality(30)
}

#[test]
fn the_loop_comes_to_the_codec_that_is_better_by_itself() {
    // Where there is little, AV1 is better at drawn pictures; where there is much, VP8 meets it better.
    for (bytes_per_second, better) in [(6_000.0, VideoCodec::Av1), (60_000.0, VideoCodec::Vp8)] {
        let [vp8, av1] = [VideoCodec::Vp8, VideoCodec::Av1].map(|codec| alone(codec, bytes_per_second));
        let mut run = Run::new(VideoCodec::Auto, bytes_per_second);
        run.go_on(75);
        let auto = run.quality(30);
        println!("{bytes_per_second}: vp8 {vp8:.2} av1 {av1:.2} auto {auto:.2} dB, {:?}", run.choices);
        assert_eq!(vp8 > av1, better == VideoCodec::Vp8, "the case is none: vp8 {vp8} av1 {av1}");
        assert_eq!(run.codec(), better, "vp8 {vp8} av1 {av1}, {:?}", run.choices);
        assert!(auto > vp8.max(av1) - 0.2, "{auto} beside {vp8} and {av1}");
        assert!(run.choices[0].0 <= 75, "found within three seconds: {:?}", run.choices);
    }
}

#[test]
fn a_receiver_that_takes_one_codec_alone_gets_that() {
    for (codecs, codec) in [(TakenCodecs::Vp8, VideoCodec::Vp8), (TakenCodecs::Av1, VideoCodec::Av1)] {
        let mut run = Run::new(VideoCodec::Auto, 50_000.0);
        run.receiver.take_only(codecs);
        run.go_on(100);
        assert_eq!(run.codec(), codec);
        assert_eq!(run.pictures.counters().key, if codec == VideoCodec::Vp8 { 2 } else { 1 });
        let is_vp8 = |codec: &FrameCodec| *codec == FrameCodec::Vp8;
        let other = run.codecs.iter().filter(|found| is_vp8(found) != (codec == VideoCodec::Vp8)).count();
        assert!(other <= 2 * WAY + 3, "{other} pictures in the other codec");
        let told: Vec<_> = run.choices.iter().map(|(_, choice)| choice.reason).collect();
        let expected = if codec == VideoCodec::Vp8 { vec![CodecReason::Receiver] } else { vec![] };
        assert_eq!(told, expected);
        // Another receiver may take what this one did not.
        run.pictures.handle_reset();
        assert_eq!(run.codec(), VideoCodec::Av1);
    }
}

#[test]
fn a_machine_without_time_for_a_comparison_stays_and_one_that_is_too_slow_for_av1_takes_vp8() {
    let mut run = Run::new(VideoCodec::Auto, 50_000.0);
    run.encoding = INTERVAL / 2 + Duration::from_millis(4);
    run.go_on(170);
    let found: Vec<_> = run.choices.iter().map(|(_, choice)| (choice.codec, choice.reason)).collect();
    assert_eq!(found, [(VideoCodec::Av1, CodecReason::NoTime)]);
    // More than there is between two pictures, with the least effort: smaller pictures first, where that does not help VP8.
    run.encoding = INTERVAL;
    run.choices.clear();
    for _ in 0..12 {
        run.go_on(25);
    }
    let found: Vec<_> = run.choices.iter().map(|(_, choice)| *choice).collect();
    assert!(found.iter().all(|choice| choice.changed && choice.reason == CodecReason::TooSlow), "{found:?}");
    let widths: Vec<_> = found.iter().filter_map(|choice| Some(choice.size?.width)).collect();
    assert!(widths.len() + 1 == found.len() && widths.is_sorted_by(|one, other| one > other), "{found:?}");
    assert_eq!((found.last().unwrap().codec, run.codec()), (VideoCodec::Vp8, VideoCodec::Vp8));
    // What was told is what was sent.
    let sent: BTreeSet<_> = run.sizes.iter().map(|size| size.width).collect();
    assert!(widths.iter().all(|width| sent.contains(width)), "{sent:?} of {found:?}");
}

#[test]
fn what_a_receiver_takes_alone_is_kept_on_a_machine_that_is_too_slow_too() {
    let mut run = Run::new(VideoCodec::Auto, 50_000.0);
    run.receiver.take_only(TakenCodecs::Av1);
    run.encoding = INTERVAL;
    run.go_on(150);
    assert_eq!((run.codec(), run.pictures.counters().key), (VideoCodec::Av1, 1), "{:?}", run.choices);
    assert!(run.choices.is_empty(), "{:?}", run.choices);
}

#[test]
fn a_receiver_that_wants_another_codec_each_time_gets_no_more_than_a_key_frame_in_two_seconds() {
    let mut run = Run::new(VideoCodec::Auto, 50_000.0);
    for number in 0..200 {
        run.receiver.take_only([TakenCodecs::Vp8, TakenCodecs::Av1][number % 2]);
        run.offer();
    }
    let keys = run.pictures.counters().key;
    assert!((2..=6).contains(&keys), "{keys} in eight seconds");
}

#[test]
fn a_source_of_another_size_begins_at_its_own() {
    let mut run = Run::new(VideoCodec::Av1, 50_000.0);
    run.encoding = INTERVAL;
    while run.choices.is_empty() {
        run.go_on(5);
        assert!(run.number < 200, "too slow, and no smaller size");
    }
    assert!(run.sizes.last().unwrap().width < SIZE.width);
    // As a camera does that is turned.
    let turned = Size { width: SIZE.height, height: SIZE.width };
    run.size = turned;
    run.choices.clear();
    run.offer();
    assert_eq!(run.sizes.last(), Some(&turned), "{:?}", run.choices);
    assert_eq!(run.choices[0].1.reason, CodecReason::Size);
    // What was too slow is so still, at sizes of the new source.
    run.go_on(5);
    let shown = run.shown.as_ref().map(Picture::size).unwrap();
    let ratio = f64::from(shown.width) / f64::from(shown.height);
    assert!((ratio - 0.6).abs() < 0.01 && run.receiver.counters().damaged == 0, "{shown}");
}

#[test]
fn losses_count_alike_for_both_codecs() {
    // Each seventh picture is lost: what is sent is coded against older ones, and so is what is compared with it.
    let mut run = Run::new(VideoCodec::Auto, 12_000.0);
    for number in 0..100u64 {
        run.offer();
        if number % 7 == 3
            && let Some(last) = run.up.back_mut()
            && !last.is_empty()
        {
            last.clear();
            let message = MessageId(0);
            run.line.events.push_back(Event::Finished { channel: VIDEO, message, outcome: Outcome::Lost });
        }
    }
    assert_eq!(run.codec(), VideoCodec::Av1, "as without losses: {:?}", run.choices);
    assert!(run.choices.iter().any(|(_, choice)| matches!(choice.reason, CodecReason::Compared { .. })));
}
