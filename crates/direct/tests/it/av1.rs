//! AV1 by slots between both ends: eight slots, whatever is lost, late or overtaken.

use bytes::Bytes;
use glassline_codec::av1::{Decoder, Encoder, Settings, Slot};
use glassline_codec::vp8::{Limits, Serial};
use glassline_direct::wire::{FrameCodec, PictureHeader, StateTag};
use glassline_direct::{
    Choice, Conditions, Fate, Reason, Receiver, RefusedPicture, Sender, SenderSettings, VideoCodec,
};
use glassline_measure::pattern::Pattern;
use glassline_measure::psnr::SquaredError;
use glassline_media::{FrameRate, Picture, Size, Stamps, Time, Utc};
use glassline_transport::link::{MessageId, Outcome};
use std::collections::VecDeque;
use std::time::Duration;

const SIZE: Size = Size { width: 160, height: 96 };
const INTERVAL: Duration = Duration::from_millis(40);

fn rate() -> FrameRate {
    FrameRate::new(25, 1).unwrap()
}

fn settings() -> SenderSettings {
    SenderSettings { video_codec: VideoCodec::Av1, speed: 8, ..SenderSettings::new(7, rate()) }
}

/// Both ends, and a way between them on which all takes so many pictures' time.
struct Run {
    sender: Sender,
    receiver: Receiver,
    pattern: Pattern,
    number: u64,
    messages: u64,
    delay: usize,
    way_up: VecDeque<Vec<Bytes>>,
    way_back: VecDeque<Vec<Vec<u8>>>,
    shown: u64,
    worst_db: f64,
    sources: VecDeque<(u64, Picture)>,
    chance: u32,
    is_noisy: bool,
}

impl Run {
    fn new(delay: usize) -> Run {
        Run {
            sender: Sender::new(settings()),
            receiver: Receiver::new(Limits::default()),
            pattern: Pattern::new(SIZE, rate()),
            number: 0,
            messages: 0,
            delay,
            way_up: VecDeque::new(),
            way_back: VecDeque::new(),
            shown: 0,
            worst_db: f64::INFINITY,
            sources: VecDeque::new(),
            chance: 1,
            is_noisy: false,
        }
    }

    fn percent(&mut self) -> u32 {
        self.chance = self.chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.chance >> 8) % 100
    }

    fn now(&self) -> Time {
        Time::ZERO + INTERVAL * self.number as u32
    }

    fn offer(&mut self, expected: u64, budget: u64) -> Choice {
        self.number += 1;
        let now = self.now();
        let mut picture = self.pattern.draw(self.number, now, Utc::default());
        if self.is_noisy {
            let mut noise = 7u32;
            for sample in picture.planes_mut()[0].lines_mut().flatten() {
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                *sample = (noise >> 24) as u8;
            }
        }
        picture.captured = now;
        let conditions = Conditions { budget: expected, silence: Duration::ZERO };
        self.sender.encode(now, &picture, conditions, &Serial).unwrap();
        let choice = self.sender.choose(budget, true, &Serial).unwrap().unwrap();
        if choice.message.is_some() {
            self.sender.sent(MessageId(self.messages));
            self.messages += 1;
            let number = choice.decision.number.unwrap();
            self.sources.push_back((number, picture));
            if self.sources.len() > 64 {
                self.sources.pop_front();
            }
        }
        choice
    }

    fn take(&mut self, message: &Bytes) {
        let now = self.now();
        if let Fate::Shown(pictures) = self.receiver.handle(now, message).unwrap() {
            for shown in pictures {
                self.shown += 1;
                let source = self.sources.iter().find(|(number, _)| *number == shown.header.number);
                let error = SquaredError::of(&source.expect("it was sent").1, &shown.picture).unwrap();
                self.worst_db = self.worst_db.min(error.plane_db(0).unwrap());
            }
        }
    }

    /// A picture's time passes: what left so long ago arrives.
    fn pass(&mut self, sent: Vec<Bytes>) {
        self.way_up.push_back(sent);
        if self.way_up.len() > self.delay {
            for message in self.way_up.pop_front().unwrap() {
                self.take(&message);
            }
        }
        self.receiver.handle_timeout(self.now() + Duration::from_millis(10));
        let reports = std::iter::from_fn(|| self.receiver.poll_report()).collect();
        self.way_back.push_back(reports);
        if self.way_back.len() > self.delay {
            let now = self.now();
            for report in self.way_back.pop_front().unwrap() {
                self.sender.handle_report(now, &report).unwrap();
            }
        }
    }
}

#[test]
fn pictures_fit_the_budget_and_come_as_they_were_encoded() {
    let mut run = Run::new(0);
    let mut used = Vec::new();
    for number in 0..80 {
        let budget = if number < 40 { 3_000 } else { 1_000 };
        let choice = run.offer(budget, budget);
        let sent = choice.message.into_iter().collect::<Vec<_>>();
        for message in &sent {
            assert!(number == 0 || message.len() as u64 <= budget, "picture {number}: {}", message.len());
            used.push(message.len() as f64 / budget as f64);
        }
        run.pass(sent);
    }
    assert!(run.shown >= 78, "{} pictures", run.shown);
    assert!(run.worst_db > 30.0, "{} dB", run.worst_db);
    let used = used[10..].iter().sum::<f64>() / (used.len() - 10) as f64;
    assert!(used > 0.5, "{used} of the budget");
    let counters = run.sender.counters();
    assert_eq!((counters.key, counters.mismatches, run.receiver.counters().damaged), (1, 0, 0));
    assert!(run.receiver.states() <= 8);
}

/// Reports take far longer than eight pictures: of the states that both ends will have, one must always be kept.
#[test]
fn a_long_way_and_losses_cost_no_key_frame() {
    for delay in [1, 4, 12] {
        let mut run = Run::new(delay);
        let mut late = None;
        for _ in 0..250 {
            let budget = 600 + u64::from(run.percent()) * 20;
            let expected = budget * u64::from(60 + run.percent()) / 100;
            let choice = run.offer(expected, budget);
            let is_key = choice.decision.source.is_none();
            let mut sent: Vec<Bytes> = late.take().into_iter().collect();
            if let Some(message) = choice.message {
                match run.percent() {
                    _ if is_key => sent.push(message),
                    // Lost; the link tells so later, or the receiver does.
                    0..=2 => {}
                    3..=4 => {
                        let now = run.now();
                        run.sender.handle_outcome(now, MessageId(run.messages - 1), Outcome::Lost);
                    }
                    // Overtaken by the next one.
                    5..=9 => late = Some(message),
                    _ => sent.push(message),
                }
            }
            sent.reverse();
            run.pass(sent);
        }
        let (sender, receiver) = (run.sender.counters(), run.receiver.counters());
        assert_eq!((sender.mismatches, receiver.damaged), (0, 0), "{delay}: {sender:?} {receiver:?}");
        assert_eq!((sender.key, sender.resets), (1, 0), "{delay}: {sender:?} {receiver:?}");
        assert!(run.shown as f64 > 0.5 * sender.sent as f64, "{delay}: {} of {}", run.shown, sender.sent);
        assert!(run.worst_db > 25.0, "{delay}: {} dB", run.worst_db);
    }
}

/// One frame is made at a time, and another one only where that has missed.
#[test]
fn a_picture_is_encoded_again_only_where_its_size_is_not_what_was_wanted() {
    let mut run = Run::new(0);
    let mut made = Vec::new();
    for number in 0..60 {
        // At a cut the picture is another than the last ones suggest.
        run.is_noisy = number == 40;
        let choice = run.offer(2_500, 2_500);
        made.push(choice.decision.candidates.len());
        run.pass(choice.message.into_iter().collect());
    }
    assert!(made[10..40].iter().sum::<usize>() < 45, "{made:?}");
    assert!(made[40] > 1, "{made:?}");
}

#[test]
fn what_a_search_makes_fits() {
    let mut run = Run::new(0);
    for _ in 0..20 {
        let choice = run.offer(4_000, 4_000);
        run.pass(choice.message.into_iter().collect());
    }
    // The network takes a third of what it was expected to.
    let choice = run.offer(4_000, 1_300);
    assert!(matches!(choice.decision.reason, Reason::Searched | Reason::Fits), "{:?}", choice.decision);
    assert!(choice.message.is_some_and(|message| message.len() <= 1_300));
}

/// What the header says of slots, and what the frame does to them, may differ: then pictures are damaged, and nothing worse.
#[test]
fn damage_is_met_with_a_picture_that_needs_no_other() {
    let mut run = Run::new(0);
    for number in 0..60 {
        let choice = run.offer(3_000, 3_000);
        let mut sent: Vec<Bytes> = choice.message.into_iter().collect();
        if number == 20
            && let Some(message) = sent.first_mut()
        {
            let mut broken = message.to_vec();
            let end = broken.len();
            broken[end - 40..].iter_mut().for_each(|byte| *byte ^= 0x5A);
            *message = broken.into();
        }
        run.pass(sent);
    }
    assert!(run.receiver.counters().damaged >= 1);
    assert!(run.sender.counters().key >= 2, "all slots are in doubt behind damage");
    assert!(run.shown >= 50, "{}", run.shown);
}

#[test]
fn a_picture_beyond_the_limit_is_refused_and_told() {
    let mut run = Run::new(0);
    run.receiver = Receiver::new(Limits { max_pixels: 1_000 });
    let choice = run.offer(4_000, 4_000);
    run.pass(choice.message.into_iter().collect());
    assert_eq!(run.shown, 0);
    let refused = run.receiver.poll_refused();
    assert!(matches!(refused, Some(RefusedPicture::TooLarge { max_pixels: 1_000, .. })), "{refused:?}");
}

/// It needs one that came late, and another picture has its slot by now.
#[test]
fn what_has_waited_does_not_overwrite_a_newer_picture() {
    let mut pattern = Pattern::new(SIZE, rate());
    let mut encoder =
        Encoder::new(&Settings { size: SIZE, frame_rate: rate(), threads: 1, speed: 10 }).unwrap();
    let mut message = |number: u64, slots: Option<(u64, [u8; 2])>| -> Bytes {
        let mut picture = pattern.draw(number, Time::ZERO, Utc::default());
        picture.captured = Time::from_millis(number * 40);
        let encoded = match slots {
            None => encoder.encode_key(&picture, 40),
            Some((_, slots)) => {
                let [from, to] = slots.map(|slot| Slot::new(slot).unwrap());
                encoder.encode(&picture, 40, from, to)
            }
        };
        let encoded = encoded.unwrap();
        let hash = encoded.hash.to_bytes();
        let header = PictureHeader {
            epoch: 7,
            number,
            source: slots.map(|(source, _)| source),
            kept: 0,
            target: StateTag(std::array::from_fn(|index| hash[index])),
            captured: Utc::default(),
            rate: None,
            size: None,
            codec: FrameCodec::Av1 { slot: slots.map_or(0, |(_, [_, to])| to) },
            passed: Stamps::captured_at(Time::ZERO),
        };
        let mut message = Vec::new();
        header.write(&mut message);
        [&message[..], &encoded.bytes].concat().into()
    };
    let key = message(0, None);
    let late = message(1, Some((0, [0, 2])));
    let waits = message(2, Some((1, [2, 1])));
    let newer = message(3, Some((0, [0, 1])));
    let next = message(4, Some((3, [1, 3])));
    let mut receiver = Receiver::new(Limits::default());
    let mut fate = |message: &Bytes| receiver.handle(Time::ZERO, message).unwrap();
    assert!(matches!(fate(&key), Fate::Shown(_)));
    assert!(matches!(fate(&waits), Fate::Waits));
    assert!(matches!(fate(&newer), Fate::Shown(_)));
    assert!(matches!(fate(&late), Fate::Overtaken));
    assert!(matches!(fate(&next), Fate::Shown(_)), "the newer one is where it was");
    let counters = receiver.counters();
    assert_eq!((counters.shown, counters.overtaken, counters.damaged), (3, 2, 0));
}

/// A receiver that asks for a key frame gets one, and a decoder that begins there decodes all that is passed on from it, whatever is
/// lost.
#[test]
fn a_decoder_that_begins_at_a_key_frame_that_was_asked_for_follows() {
    let mut run = Run::new(3);
    run.receiver.keep_frames();
    let (mut decoder, mut decoded, mut asked_at) = (None, 0, None);
    for number in 0..250 {
        if number == 100 {
            // All the time, and for ever: there is one all the same.
            asked_at = Some(run.sender.counters().sent);
            run.receiver.ask_key_frame();
            run.receiver.ask_key_frame();
        }
        let choice = run.offer(2_000, 2_000);
        let mut sent: Vec<Bytes> = choice.message.into_iter().collect();
        let is_key = choice.decision.source.is_none();
        if !is_key && run.percent() < 5 {
            sent.clear();
        }
        run.pass(sent);
        while let Some(frame) = run.receiver.poll_frame() {
            let is_key = frame.header.source.is_none();
            if is_key && asked_at.is_some_and(|asked_at| frame.header.number >= asked_at) {
                decoder = Some(Decoder::new(1, SIZE.width * SIZE.height).unwrap());
            }
            if let Some(decoder) = &mut decoder {
                let hash = decoder.decode(&frame.frame).unwrap().hash.to_bytes();
                assert_eq!(frame.header.target, StateTag(std::array::from_fn(|index| hash[index])));
                decoded += 1;
            }
        }
    }
    let (sender, receiver) = (run.sender.counters(), run.receiver.counters());
    assert_eq!((sender.key, sender.mismatches, receiver.damaged), (2, 0, 0), "{sender:?} {receiver:?}");
    assert!(decoded > 100, "{decoded} pictures from the key frame on");
}

#[test]
fn a_key_frame_that_was_asked_for_and_is_lost_is_followed_by_another() {
    let mut run = Run::new(2);
    let (mut keys, mut lost) = (Vec::new(), None);
    for number in 0..150 {
        if number == 60 {
            run.receiver.ask_key_frame();
        }
        let choice = run.offer(3_000, 3_000);
        let mut sent: Vec<Bytes> = choice.message.into_iter().collect();
        if choice.decision.source.is_none() {
            keys.push(number);
            if keys.len() == 2 {
                lost = Some(MessageId(run.messages - 1));
                sent.clear();
            }
        }
        // The link tells of it a while later.
        if keys.get(1).is_some_and(|key| number == key + 5)
            && let Some(lost) = lost.take()
        {
            let now = run.now();
            run.sender.handle_outcome(now, lost, Outcome::Lost);
        }
        run.pass(sent);
    }
    assert_eq!(keys.len(), 3, "{keys:?}");
    assert!(keys[2] - keys[1] <= 7, "{keys:?}");
    assert!(run.shown >= 135, "{} pictures", run.shown);
    assert_eq!(run.receiver.counters().damaged, 0);
}
