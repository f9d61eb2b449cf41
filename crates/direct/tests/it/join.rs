//! Both ends without a network: messages are handed over, lost, or come in another order.

use bytes::Bytes;
use glassline_codec::vp8::{Limits, Serial};
use glassline_direct::wire::{DecodedPicture, LackingPicture, Report, StateTag};
use glassline_direct::{
    Choice, CodecMode, CodedSize, Conditions, Fate, Reason, Receiver, Sender, SenderSettings, Shown,
};
use glassline_measure::pattern::Pattern;
use glassline_measure::psnr::SquaredError;
use glassline_media::pixels::Scaler;
use glassline_media::quantity::Bitrate;
use glassline_media::{FrameRate, Picture, Size, Time, Utc};
use glassline_transport::link::{MessageId, Outcome};
use proptest::prelude::*;
use std::time::Duration;

const SIZE: Size = Size { width: 160, height: 96 };
const INTERVAL: Duration = Duration::from_millis(40);

fn rate() -> FrameRate {
    FrameRate::new(25, 1).unwrap()
}

/// A sender, a receiver, and a source of pictures.
struct Ends {
    sender: Sender,
    receiver: Receiver,
    pattern: Pattern,
    /// Of the source.
    size: Size,
    /// The whole picture moves, and is so soft that a smaller one shows as much.
    soft: bool,
    pictures: u64,
    messages: u64,
}

impl Ends {
    fn new(settings: SenderSettings) -> Ends {
        Ends {
            sender: Sender::new(settings),
            receiver: Receiver::new(Limits::default()),
            pattern: Pattern::new(SIZE, rate()),
            size: SIZE,
            soft: false,
            pictures: 0,
            messages: 0,
        }
    }

    fn plain() -> Ends {
        Ends::new(SenderSettings::new(7, rate()))
    }

    fn now(&self) -> Time {
        Time::ZERO + INTERVAL * self.pictures as u32
    }

    /// The next picture, encoded for this budget and decided on by that one.
    fn offer(&mut self, expected: u64, budget: u64, silence: Duration) -> (Picture, Choice) {
        self.pictures += 1;
        let now = self.now();
        let mut picture = self.pattern.draw(self.pictures, now, Utc::default());
        // A camera's noise, so that a size can be had.
        let mut noise = self.pictures as u32 | 1;
        for sample in picture.planes_mut()[0].lines_mut().flatten() {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *sample = sample.saturating_add((noise >> 28) as u8);
        }
        if self.soft {
            for (index, plane) in picture.planes_mut().iter_mut().enumerate() {
                let by = self.pictures as usize * if index == 0 { 14 } else { 7 };
                plane.lines_mut().for_each(|line| line.rotate_left(by % line.len()));
            }
            let half = Size { width: self.size.width / 4, height: self.size.height / 4 };
            picture = Scaler::new(self.size).scale(&Scaler::new(half).scale(&picture));
        }
        picture.captured = now;
        picture.captured_utc = Some(Utc::from_micros(1_000_000 + now.as_nanos() / 1000));
        let conditions = Conditions { budget: expected, silence };
        self.sender.encode(now, &picture, conditions, &Serial).unwrap();
        let choice = self.sender.choose(budget, true, &Serial).unwrap().unwrap();
        if choice.message.is_some() {
            self.sender.sent(MessageId(self.messages));
            self.messages += 1;
        }
        (picture, choice)
    }

    fn send(&mut self, budget: u64) -> Choice {
        self.offer(budget, budget, Duration::ZERO).1
    }

    fn receive(&mut self, message: &Bytes) -> Vec<Shown> {
        match self.receiver.handle(self.now(), message).unwrap() {
            Fate::Shown(shown) => shown,
            _ => Vec::new(),
        }
    }

    /// What the receiver has to say reaches the sender.
    fn report(&mut self) {
        let now = self.now();
        if let Some(report) = self.receiver.poll_report() {
            self.sender.handle_report(now, &report).unwrap();
        }
    }
}

#[test]
fn pictures_fit_the_budget_and_come_as_they_were_encoded() {
    let mut ends = Ends::plain();
    let mut used = Vec::new();
    for number in 0..60 {
        let budget = if number < 30 { 3_000 } else { 1_500 };
        let (picture, choice) = ends.offer(budget, budget, Duration::ZERO);
        let message = choice.message.expect("something fits");
        assert!(message.len() as u64 <= budget, "picture {number}: {} of {budget}", message.len());
        let shown = ends.receive(&message);
        assert_eq!((shown.len(), shown[0].header.number), (1, number));
        assert_eq!(shown[0].header.captured, picture.captured_utc.unwrap());
        assert_eq!(shown[0].key, number == 0);
        let quality = SquaredError::of(&picture, &shown[0].picture).unwrap().plane_db(0).unwrap();
        assert!(quality > 24.0, "picture {number}: {quality} dB");
        used.push(message.len() as f64 / budget as f64);
        ends.report();
    }
    let used = used[10..].iter().sum::<f64>() / 50.0;
    assert!(used > 0.6, "{used} of the budget");
    assert!(ends.sender.states().0 <= 2 && ends.receiver.states() <= 3);
    assert_eq!((ends.sender.counters().shown, ends.sender.counters().lost), (60, 0));
}

#[test]
fn after_a_loss_the_next_picture_builds_on_what_the_receiver_has() {
    let mut ends = Ends::plain();
    for _ in 0..5 {
        let message = ends.send(4_000).message.unwrap();
        assert_eq!(ends.receive(&message).len(), 1);
        ends.report();
    }
    // 5 is lost, 6 was coded against it and says so.
    ends.send(4_000);
    let behind = ends.send(4_000).message.unwrap();
    assert!(ends.receive(&behind).is_empty());
    let later = ends.now() + Duration::from_millis(10);
    assert!(ends.receiver.poll_timeout().unwrap() <= later);
    ends.receiver.handle_timeout(later);
    ends.report();
    let choice = ends.send(4_000);
    assert_eq!(choice.decision.source, Some(4));
    assert_eq!(ends.receive(&choice.message.unwrap()).len(), 1);
    ends.report();
    let counters = ends.sender.counters();
    assert_eq!((counters.key, counters.lost, counters.shown), (1, 1, 6));
    // Two losses, told by the link: now each picture is coded against what is known to be there.
    ends.send(4_000);
    let now = ends.now();
    ends.sender.handle_outcome(now, MessageId(ends.messages - 1), Outcome::Lost);
    assert!(ends.sender.is_careful(now));
    for _ in 0..3 {
        let choice = ends.send(4_000);
        assert_eq!((choice.decision.source, choice.decision.careful), (Some(7), true));
    }
}

#[test]
fn pictures_that_overtake_each_other_are_shown_in_their_order() {
    let mut ends = Ends::plain();
    let messages: Vec<Bytes> = (0..6).map(|_| ends.send(4_000).message.unwrap()).collect();
    assert_eq!(ends.receive(&messages[0]).len(), 1);
    assert!(ends.receive(&messages[2]).is_empty() && ends.receive(&messages[3]).is_empty());
    let shown = ends.receive(&messages[1]);
    assert_eq!(shown.iter().map(|shown| shown.header.number).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(ends.receiver.poll_timeout().is_none(), "nothing is lacking any more");
    assert_eq!(ends.receive(&messages[4]).len(), 1);
    // Twice, or too late.
    assert!(ends.receive(&messages[4]).is_empty() && ends.receive(&messages[2]).is_empty());
    assert_eq!(ends.receiver.counters().overtaken, 2);
}

#[test]
fn what_does_not_fit_is_not_sent_and_changes_nothing() {
    let mut ends = Ends::plain();
    for _ in 0..4 {
        let message = ends.send(6_000).message.unwrap();
        ends.receive(&message);
        ends.report();
    }
    for round in 0..2 {
        for _ in 0..2 {
            let choice = ends.send(20);
            assert_eq!((choice.decision.reason, choice.message.is_none()), (Reason::Skipped, true));
        }
        // Two were not sent: the smallest goes, so that something comes back.
        let choice = ends.send(20);
        assert_eq!(choice.decision.reason, Reason::Smallest);
        assert_eq!(choice.decision.source, Some(3 + round));
        assert_eq!(ends.receive(&choice.message.unwrap()).len(), 1);
        ends.report();
    }
    assert_eq!(ends.sender.counters().skipped, 4);
}

/// What a source of 640x384 is coded at while the budget is this, for so many pictures; nothing is shown at another size than the
/// source's, and nothing needs a key frame but the first.
fn coded_at(ends: &mut Ends, budget: u64, pictures: u32) -> Size {
    let mut coded = None;
    for _ in 0..pictures {
        let choice = ends.send(budget);
        let now = ends.now();
        ends.sender.compare_sizes(now, &Serial).unwrap();
        if let Some(message) = choice.message {
            let shown = ends.receive(&message);
            assert_eq!(shown.len(), 1);
            assert_eq!((shown[0].size, shown[0].picture.size()), (ends.size, choice.decision.size));
        }
        ends.report();
        coded = Some(choice.decision.size);
    }
    assert_eq!((ends.sender.counters().key, ends.sender.counters().lost), (1, 0));
    coded.unwrap()
}

#[test]
fn pictures_shrink_where_the_network_takes_little_and_grow_again_without_a_key_frame() {
    let size = Size { width: 640, height: 384 };
    let mut ends = Ends { pattern: Pattern::new(size, rate()), size, soft: true, ..Ends::plain() };
    assert_eq!(coded_at(&mut ends, 60_000, 20), size, "there is room for all");
    let small = coded_at(&mut ends, 1_500, 60);
    assert!(small.width <= 320, "{small}");
    // A state at another size than what is coded next is told, and both ends bring it there.
    let large = coded_at(&mut ends, 60_000, 80);
    assert!(large.width > small.width, "{large}");
}

#[test]
fn a_size_that_is_asked_for_is_kept() {
    let size = Size { width: 640, height: 384 };
    let asked = Size { width: 320, height: 192 };
    for (mode, coded) in [(CodedSize::Source, size), (CodedSize::Fixed(asked), asked)] {
        let settings = SenderSettings { size: mode, ..SenderSettings::new(7, rate()) };
        let mut ends = Ends { pattern: Pattern::new(size, rate()), size, ..Ends::new(settings) };
        for budget in [1_500, 60_000] {
            assert_eq!(coded_at(&mut ends, budget, 20), coded);
        }
    }
}

#[test]
fn a_budget_that_falls_while_a_picture_is_encoded_is_met_by_another_candidate_or_a_search() {
    let mut ends = Ends::plain();
    for _ in 0..12 {
        let message = ends.send(6_000).message.unwrap();
        ends.receive(&message);
        ends.report();
    }
    let (_, choice) = ends.offer(6_000, 4_200, Duration::ZERO);
    assert!(choice.message.unwrap().len() <= 4_200);
    // One candidate, which is as large as was expected.
    let mut ends = Ends::new(SenderSettings { candidates: 1, ..SenderSettings::new(7, rate()) });
    for _ in 0..6 {
        ends.send(60_000);
    }
    let (_, choice) = ends.offer(60_000, 1_500, Duration::ZERO);
    assert_eq!(choice.decision.reason, Reason::Searched, "{:?}", choice.decision);
    assert!(choice.message.unwrap().len() <= 1_500);
}

#[test]
fn silence_has_every_picture_build_on_what_is_known_to_be_there() {
    let mut ends = Ends::plain();
    for _ in 0..3 {
        let message = ends.send(4_000).message.unwrap();
        ends.receive(&message);
        ends.report();
    }
    for _ in 0..50 {
        let (_, choice) = ends.offer(2_000, 2_000, Duration::from_millis(80));
        assert_eq!(choice.decision.source, Some(2));
    }
    // The network is back: whichever comes is shown.
    let message = ends.offer(2_000, 2_000, Duration::from_millis(80)).1.message.unwrap();
    assert_eq!(ends.receive(&message).len(), 1);
}

#[test]
fn a_long_outage_leaves_both_ends_a_state_in_common() {
    let mut ends = Ends::plain();
    for _ in 0..3 {
        let message = ends.send(4_000).message.unwrap();
        ends.receive(&message);
        ends.report();
    }
    // Nothing comes back, and the receiver gets more pictures than it keeps states of.
    for _ in 0..60 {
        let message = ends.send(2_000).message.unwrap();
        assert_eq!(ends.receive(&message).len(), 1);
        ends.receiver.poll_report().unwrap();
    }
    // Nothing comes at all, and more leaves than the sender keeps states of.
    for _ in 0..60 {
        ends.offer(2_000, 2_000, Duration::from_millis(80));
    }
    // Both ways are back.
    let mut shown = 0;
    for _ in 0..6 {
        let message = ends.offer(2_000, 2_000, Duration::from_millis(80)).1.message.unwrap();
        shown += ends.receive(&message).len();
        ends.receiver.handle_timeout(ends.now() + INTERVAL);
        ends.report();
    }
    assert_eq!((shown, ends.sender.counters().key), (6, 1), "each, and none needs no other");
}

#[test]
fn ends_with_no_state_in_common_go_on_with_one_key_frame() {
    let mut ends = Ends::plain();
    for _ in 0..3 {
        let message = ends.send(4_000).message.unwrap();
        ends.receive(&message);
        ends.report();
    }
    let message = ends.send(4_000).message.unwrap();
    ends.receive(&message);
    let report = ends.receiver.poll_report().unwrap();
    let Report { epoch, newest, decoded, shown, passed, .. } = Report::parse(&report).unwrap();
    // It has something newer that the sender does not keep, and not what the sender takes it to have.
    let decoded = decoded.map(|decoded| DecodedPicture { number: 3, state: StateTag([9; 8]), ..decoded });
    let lacking = Some(LackingPicture { number: 3, source: 2 });
    let report = Report { epoch, newest, decoded, lacking, shown, passed, ..Report::default() };
    let now = ends.now();
    ends.sender.handle_report(now, &report.to_bytes()).unwrap();
    assert_eq!(ends.send(4_000).decision.source, None);
    assert!(ends.send(4_000).decision.source.is_some());
}

#[test]
fn ends_that_begin_anew_go_on_with_one_key_frame() {
    let mut ends = Ends::plain();
    for _ in 0..4 {
        let message = ends.send(4_000).message.unwrap();
        ends.receive(&message);
        ends.report();
    }
    // The receiver begins anew, and the link does not say so.
    ends.receiver = Receiver::new(Limits::default());
    let message = ends.send(4_000).message.unwrap();
    assert!(ends.receive(&message).is_empty());
    ends.receiver.handle_timeout(ends.now() + INTERVAL);
    ends.report();
    let mut shown = 0;
    for _ in 0..3 {
        let message = ends.send(4_000).message.unwrap();
        shown += ends.receive(&message).len();
        ends.report();
    }
    // Counts that begin anew are old news to the sender until the link says that it is another receiver.
    ends.sender.handle_reset();
    let message = ends.send(4_000).message.unwrap();
    shown += ends.receive(&message).len();
    assert!(shown >= 1, "{shown}");
    // The sender begins anew.
    ends.sender = Sender::new(SenderSettings::new(8, rate()));
    let message = ends.send(4_000).message.unwrap();
    assert_eq!(ends.receive(&message)[0].header.number, 0);
}

#[test]
fn another_run_begins_with_its_first_picture_that_can_be_shown() {
    let mut ends = Ends::plain();
    let mut old = Vec::new();
    for _ in 0..4 {
        let message = ends.send(4_000).message.unwrap();
        old.push(message.clone());
        if old.len() < 4 {
            assert_eq!(ends.receive(&message).len(), 1);
            ends.report();
        }
    }
    // The sender begins anew, and its second picture overtakes the first: the old run goes on meanwhile.
    ends.sender = Sender::new(SenderSettings::new(8, rate()));
    let new = [ends.send(4_000).message.unwrap(), ends.send(4_000).message.unwrap()];
    assert!(ends.receive(&new[1]).is_empty());
    let report = Report::parse(&ends.receiver.poll_report().unwrap()).unwrap();
    assert_eq!((report.epoch, report.newest, report.shown, report.passed), (8, Some(1), 0, 1));
    // None of what was shown is shown again.
    assert!(ends.receive(&old[0]).is_empty());
    let shown = |shown: Vec<Shown>| -> Vec<_> {
        shown.iter().map(|shown| (shown.header.epoch, shown.header.number)).collect()
    };
    assert_eq!(shown(ends.receive(&old[3])), [(7, 3)]);
    assert_eq!(shown(ends.receive(&new[0])), [(8, 0), (8, 1)]);
    // A picture of the old run that comes late waits for its source, and takes nothing from the new one.
    assert!(ends.receive(&old[2]).is_empty());
    let message = ends.send(4_000).message.unwrap();
    assert_eq!(shown(ends.receive(&message)), [(8, 2)]);
}

#[test]
fn a_receiver_that_lies_costs_quality_and_nothing_else() {
    let mut ends = Ends::plain();
    for number in 0..100 {
        let message = ends.send(4_000).message.expect("the budget is met");
        assert!(message.len() <= 4_000);
        let shown = ends.receive(&message);
        assert!(shown.len() <= 1);
        let report = ends.receiver.poll_report().unwrap();
        let mut report = Report::parse(&report).unwrap();
        if let Some(decoded) = &mut report.decoded {
            decoded.state.0[0] ^= 1;
            decoded.held = u64::MAX >> 2;
        }
        report.newest = Some(number);
        let now = ends.now();
        ends.sender.handle_report(now, &report.to_bytes()).unwrap();
        let future = Report { newest: Some(1 << 40), ..report };
        ends.sender.handle_report(now, &future.to_bytes()).unwrap();
    }
    let counters = ends.sender.counters();
    assert_eq!((counters.mismatches, counters.sent), (100, 100));
    assert!(ends.sender.states().0 <= 33 && ends.receiver.states() <= 40);
}

#[test]
fn a_cap_of_the_rate_is_kept_and_what_was_saved_is_little() {
    let cap = Bitrate::from_bits_per_second(200_000);
    let mut ends = Ends::new(SenderSettings { bitrate_max: Some(cap), ..SenderSettings::new(1, rate()) });
    let mut bytes = 0;
    for _ in 0..50 {
        if let Some(message) = ends.send(1 << 20).message {
            bytes += message.len();
            ends.receive(&message);
            ends.report();
        }
    }
    // A thousand bytes a picture, and three pictures' worth that may have been saved.
    assert!((35_000..=54_000).contains(&bytes), "{bytes}");
}

#[test]
fn a_conventional_encoder_sends_every_picture_and_changes_its_quantiser_once_a_second() {
    let settings = SenderSettings { codec: CodecMode::Conventional, ..SenderSettings::new(1, rate()) };
    let mut ends = Ends::new(settings);
    let mut quantizers = Vec::new();
    for number in 0..75 {
        let choice = ends.send(if number < 40 { 3_000 } else { 900 });
        assert_eq!(choice.decision.reason == Reason::Conventional, choice.message.is_some());
        assert!(choice.message.is_some());
        quantizers.push(choice.decision.candidates[0].quantizer);
        ends.receive(&choice.message.unwrap());
        ends.report();
    }
    quantizers.remove(0);
    quantizers.dedup();
    assert!(quantizers.len() <= 3, "{quantizers:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever is lost, late or doubled, in whatever order, and whatever of the reports: what is shown is what the sender made,
    /// in order, and when all comes again a picture is shown at once.
    #[test]
    fn any_network_at_all(steps in proptest::collection::vec((0..8u8, 0..4usize), 1..120)) {
        let mut ends = Ends::plain();
        let mut under_way: Vec<Bytes> = Vec::new();
        let mut last = None;
        for (step, index) in steps {
            match step {
                0..=3 => {
                    let budget = [300, 1_000, 3_000, 9_000][index];
                    under_way.extend(ends.send(budget).message);
                }
                4 | 5 if !under_way.is_empty() => {
                    let message = under_way.remove(index.min(under_way.len() - 1));
                    for shown in ends.receive(&message) {
                        prop_assert!(last.is_none_or(|last| last < shown.header.number));
                        last = Some(shown.header.number);
                    }
                }
                6 if !under_way.is_empty() => {
                    under_way.remove(index.min(under_way.len() - 1));
                    let now = ends.now();
                    ends.receiver.handle_timeout(now);
                }
                _ => ends.report(),
            }
            prop_assert!(ends.sender.states().0 <= 33 && ends.receiver.states() <= 40);
        }
        prop_assert_eq!(ends.receiver.counters().damaged, 0);
        let mut shown = 0;
        for _ in 0..4 {
            let message = ends.send(9_000).message.unwrap();
            shown += ends.receive(&message).len();
            let later = ends.now() + INTERVAL;
            ends.receiver.handle_timeout(later);
            ends.report();
        }
        prop_assert!(shown >= 2, "{} were shown", shown);
    }

    /// Anything may come from the peer.
    #[test]
    fn any_message_at_all(messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..20)) {
        let mut ends = Ends::plain();
        let message = ends.send(4_000).message.unwrap();
        ends.receive(&message);
        for bytes in messages {
            let now = ends.now();
            let mut damaged = message.to_vec();
            damaged.splice(2..2 + bytes.len().min(30), bytes.iter().copied());
            let _ = ends.receiver.handle(now, &damaged.into());
            let _ = ends.receiver.handle(now, &Bytes::from(bytes.clone()));
            let _ = ends.sender.handle_report(now, &bytes);
            ends.report();
        }
        prop_assert!(ends.send(4_000).message.is_some());
    }
}
