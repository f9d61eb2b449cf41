//! The send loop in virtual time: encoding takes what the test says, and the link is a value.

use bytes::Bytes;
use glassline_codec::vp8::{Limits, Serial};
use glassline_direct::{
    Fate, LinkAccess, Newest, Offered, REPORTS, Reason, Receiver, SendError, SendLoop, SenderSettings, VIDEO,
};
use glassline_measure::pattern::Pattern;
use glassline_media::{Chroma, FrameRate, Picture, PixelFormat, Size, Stage, Stamps, Time, Utc};
use glassline_transport::link::{Error as LinkError, Event, MessageId, Outcome};
use std::collections::VecDeque;
use std::time::Duration;

const SIZE: Size = Size { width: 160, height: 96 };
const INTERVAL: Duration = Duration::from_millis(40);
/// Pictures of 25 a second may take 1.15 times their interval.
const HORIZON: Duration = Duration::from_millis(46);

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn rate() -> FrameRate {
    FrameRate::new(25, 1).unwrap()
}

/// A link that takes what it is told to take.
#[derive(Default)]
struct FakeLink {
    /// Bytes it takes, each time that it is asked; the last stays.
    budgets: VecDeque<u64>,
    /// What it will take when a picture is encoded, and within which times it was asked for that.
    ahead: u64,
    asked_ahead: Vec<(Duration, Duration)>,
    silence: Duration,
    sound_bytes_per_second: u64,
    events: VecDeque<Event>,
    reports: VecDeque<Bytes>,
    /// What it says to the next messages in place of taking them.
    refusals: VecDeque<LinkError>,
    /// When it was asked for a budget, and within which time.
    asked: Vec<(Time, Duration)>,
    sent: Vec<(Time, Bytes)>,
    malformed: u64,
}

impl FakeLink {
    fn taking(bytes: u64) -> FakeLink {
        FakeLink { budgets: [bytes].into(), ..FakeLink::default() }
    }
}

impl LinkAccess for FakeLink {
    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn receive(&mut self, channel: u8) -> Result<Option<Bytes>, LinkError> {
        assert_eq!(channel, REPORTS);
        Ok(self.reports.pop_front())
    }

    fn budget(&mut self, now: Time, channel: u8, horizon: Duration) -> Result<u64, LinkError> {
        assert_eq!(channel, VIDEO);
        self.asked.push((now, horizon));
        let budget = self.budgets[0];
        if self.budgets.len() > 1 {
            self.budgets.pop_front();
        }
        Ok(budget)
    }

    fn budget_ahead(&mut self, _: Time, after: Duration, horizon: Duration) -> Result<u64, LinkError> {
        self.asked_ahead.push((after, horizon));
        Ok(self.ahead)
    }

    fn silence(&mut self, _: Time) -> Result<Duration, LinkError> {
        Ok(self.silence)
    }

    fn send(&mut self, now: Time, channel: u8, message: Bytes) -> Result<MessageId, LinkError> {
        assert_eq!(channel, VIDEO);
        if let Some(refusal) = self.refusals.pop_front() {
            return Err(refusal);
        }
        self.sent.push((now, message));
        Ok(MessageId(self.sent.len() as u64 - 1))
    }

    fn sound_bytes_per_second(&self) -> u64 {
        self.sound_bytes_per_second
    }

    fn note_malformed(&mut self, _: &glassline_direct::wire::WireError) {
        self.malformed += 1;
    }
}

/// A loop, its link, and a source of pictures.
struct Run {
    pictures: SendLoop,
    link: FakeLink,
    pattern: Pattern,
    number: u64,
    now: Time,
}

impl Run {
    fn new(settings: SenderSettings, link: FakeLink) -> Run {
        let pictures = SendLoop::new(settings);
        Run { pictures, link, pattern: Pattern::new(SIZE, rate()), number: 0, now: Time::from_millis(1_000) }
    }

    fn plain(link: FakeLink) -> Run {
        Run::new(SenderSettings::new(7, rate()), link)
    }

    /// The next picture, captured now.
    fn picture(&mut self) -> Picture {
        self.number += 1;
        let mut picture = self.pattern.draw(self.number, self.now, Utc::from_micros(1 + self.number));
        // A camera's noise, so that a size can be had.
        let mut noise = self.number as u32 | 1;
        for sample in picture.planes_mut()[0].lines_mut().flatten() {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *sample = sample.saturating_add((noise >> 28) as u8);
        }
        (picture.captured, picture.captured_utc) =
            (self.now, Some(Utc::from_micros(self.now.as_nanos() / 1000)));
        picture
    }

    /// Encodes a picture that was handed over `waited` ago, which takes so long.
    fn encode(&mut self, waited: Duration, takes: Duration) {
        let picture = self.picture();
        let queued = Time::from_nanos(self.now.as_nanos() - waited.as_nanos() as u64);
        let stamps = Stamps::captured_at(queued).with(Stage::Queued, queued);
        self.pictures.encode(self.now, &picture, stamps, &mut self.link, &Serial).unwrap();
        self.now += takes;
    }

    /// What goes of it leaves at once.
    fn send(&mut self) -> Offered {
        assert!(self.pictures.choose(self.now, &mut self.link, &Serial).unwrap().is_some());
        let offered = self.pictures.send(self.now, &mut self.link).unwrap().unwrap();
        self.pictures.rest(self.now, &Serial).unwrap();
        offered
    }

    /// A picture; the time of the next one has come then.
    fn offer(&mut self, takes: Duration) -> Offered {
        self.encode(Duration::ZERO, takes);
        let offered = self.send();
        self.now += INTERVAL.saturating_sub(takes);
        offered
    }
}

#[test]
fn the_link_is_asked_when_a_picture_comes_and_again_when_it_is_encoded() {
    let mut run = Run::plain(FakeLink::taking(6_000));
    run.offer(ms(5));
    run.link.asked.clear();
    run.link.budgets = [6_000, 1_800].into();
    let begun = run.now;
    run.encode(Duration::ZERO, ms(7));
    let offered = run.send();
    assert_eq!(run.link.asked, [(begun, HORIZON), (begun + ms(7), HORIZON)]);
    assert_eq!((offered.decision.expected, offered.decision.budget), (6_000, 1_800));
    // It leaves when it is encoded, and is no larger than the link takes then.
    let (at, message) = run.link.sent.last().unwrap();
    assert_eq!((*at, offered.bytes, offered.took), (begun + ms(7), Some(message.len()), ms(7)));
    assert!(message.len() <= 1_800, "{}", message.len());
    assert_eq!(run.pictures.status().budget, 1_800);
}

#[test]
fn candidates_are_as_large_as_what_will_fit_when_they_are_encoded() {
    let mut run = Run::plain(FakeLink::taking(4_000));
    (0..60).for_each(|_| drop(run.offer(ms(9))));
    let (after, horizon) = run.link.asked_ahead[59];
    assert!((ms(8)..=ms(9)).contains(&after) && horizon == HORIZON, "{after:?} {horizon:?}");
    run.link.budgets = [4_000, 5_500].into();
    run.link.ahead = 5_500;
    let offered = run.offer(ms(9));
    assert_eq!((offered.decision.expected, offered.decision.budget), (5_500, 5_500));
    assert!(offered.bytes.is_some_and(|bytes| bytes > 4_500), "{:?}", offered.bytes);
    // What it takes already it takes then too.
    run.link.ahead = 1_000;
    assert_eq!(run.offer(ms(9)).decision.expected, 5_500);
}

#[test]
fn sound_has_its_share_before_pictures() {
    let mut run = Run::plain(FakeLink::taking(4_000));
    run.offer(ms(5));
    assert_eq!(run.offer(ms(5)).decision.budget, 4_000);
    // 16,000 bytes a second for 46 ms.
    run.link.sound_bytes_per_second = 16_000;
    let offered = run.offer(ms(5));
    assert_eq!(offered.decision.budget, 4_000 - 736);
    assert!(offered.bytes.unwrap() <= 4_000 - 736);
    // Where sound takes all of it, pictures wait.
    run.link.sound_bytes_per_second = 100_000;
    let offered = run.offer(ms(5));
    assert_eq!((offered.decision.budget, offered.decision.reason, offered.bytes), (0, Reason::Skipped, None));
}

#[test]
fn the_first_picture_behind_a_silence_is_half_as_large_so_that_it_is_there_sooner() {
    let mut run = Run::plain(FakeLink::taking(4_000));
    let mut budget = |silence| {
        run.link.silence = silence;
        run.offer(ms(5)).decision.budget
    };
    assert_eq!([ms(0), ms(100), ms(0)].map(&mut budget), [4_000; 3], "a short one is none");
    assert_eq!([ms(300), ms(340), ms(0), ms(0)].map(&mut budget), [4_000, 4_000, 2_000, 4_000]);
}

#[test]
fn effort_follows_the_time_that_encoding_takes() {
    let mut run = Run::plain(FakeLink::taking(4_000));
    assert_eq!((run.pictures.candidates(), run.pictures.speed()), (2, 4));
    for _ in 0..40 {
        run.offer(ms(8));
    }
    assert_eq!((run.pictures.candidates(), run.pictures.speed()), (4, 4));
    // Not for one picture.
    run.offer(ms(80));
    assert_eq!((run.pictures.candidates(), run.pictures.speed()), (4, 4));
    for _ in 0..60 {
        run.offer(ms(36));
    }
    assert_eq!((run.pictures.candidates(), run.pictures.speed()), (2, 9));
    let offered = run.offer(ms(36));
    assert_eq!(offered.decision.candidates.len(), 2);
    // Time that passes between the choice and its leaving counts, too: that of a search.
    let mut run = Run::plain(FakeLink::taking(4_000));
    for _ in 0..40 {
        run.encode(Duration::ZERO, ms(4));
        run.pictures.choose(run.now, &mut run.link, &Serial).unwrap();
        run.now += ms(32);
        run.pictures.send(run.now, &mut run.link).unwrap();
        run.pictures.rest(run.now, &Serial).unwrap();
        run.now += ms(4);
    }
    assert!(run.pictures.speed() > 4, "{}", run.pictures.speed());
}

#[test]
fn a_frame_is_searched_for_only_where_there_is_time() {
    // Encoded for a budget that is gone when it is there; one that waited has no time for a search.
    for (waited, reason) in [(ms(0), Reason::Searched), (ms(20), Reason::Skipped)] {
        let one = SenderSettings { candidates: 1, ..SenderSettings::new(7, rate()) };
        let mut run = Run::new(one, FakeLink::taking(20_000));
        for _ in 0..10 {
            run.offer(ms(5));
        }
        run.link.budgets = [20_000, 1_300].into();
        run.encode(waited, ms(2));
        let offered = run.send();
        assert_eq!(offered.decision.reason, reason, "{:?}", offered.decision);
        assert_eq!(offered.took, waited + ms(2));
    }
}

#[test]
fn what_the_link_says_is_taken_before_each_decision() {
    let mut run = Run::plain(FakeLink::taking(4_000));
    for _ in 0..3 {
        run.offer(ms(5));
    }
    let lost = |id| Event::Finished { channel: VIDEO, message: MessageId(id), outcome: Outcome::Lost };
    // That of another channel is none of ours.
    run.link.events.push_back(Event::Finished { channel: 0, message: MessageId(2), outcome: Outcome::Lost });
    assert_eq!(run.offer(ms(5)).decision.source, Some(2));
    run.link.events.push_back(lost(3));
    assert_eq!(run.offer(ms(5)).decision.source, Some(2));
    assert_eq!(run.pictures.counters().lost, 1);
    // While a picture is encoded the receiver begins anew: it has nothing of the next one's.
    run.encode(Duration::ZERO, ms(5));
    run.link.events.push_back(Event::Connected { again: true });
    run.send();
    assert_eq!(run.pictures.counters().resets, 1);
    run.link.reports.push_back(Bytes::from_static(b"none"));
    run.offer(ms(5));
    assert_eq!((run.link.malformed, run.link.reports.len()), (1, 0));
    // On a new link the first picture needs no other.
    run.pictures.handle_reset();
    assert_eq!(run.offer(ms(5)).decision.source, None);
}

#[test]
fn a_message_that_the_link_does_not_take_is_lost_and_a_closed_link_ends_it() {
    let mut run = Run::plain(FakeLink::taking(4_000));
    for _ in 0..3 {
        run.offer(ms(5));
    }
    run.link.refusals.push_back(LinkError::QueueFull { channel: VIDEO });
    let offered = run.offer(ms(5));
    assert_eq!((offered.decision.number, offered.bytes, run.pictures.counters().lost), (Some(3), None, 1));
    assert_eq!(run.offer(ms(5)).decision.source, Some(2));
    run.link.refusals.push_back(LinkError::Closed);
    run.encode(Duration::ZERO, ms(5));
    run.pictures.choose(run.now, &mut run.link, &Serial).unwrap();
    assert!(matches!(run.pictures.send(run.now, &mut run.link), Err(LinkError::Closed)));
    // What is no I420 cannot be encoded, and that is told.
    let grey = Picture::new(PixelFormat::planar(Chroma::Yuv422, 8), SIZE, run.now);
    let stamps = Stamps::captured_at(run.now);
    let failed = run.pictures.encode(run.now, &grey, stamps, &mut run.link, &Serial);
    assert!(matches!(failed, Err(SendError::Encode(_))), "{failed:?}");
}

#[test]
fn calls_out_of_turn_do_nothing() {
    let mut run = Run::plain(FakeLink::taking(4_000));
    assert!(run.pictures.coding().is_none());
    assert!(run.pictures.choose(run.now, &mut run.link, &Serial).unwrap().is_none());
    assert!(run.pictures.send(run.now, &mut run.link).unwrap().is_none());
    assert_eq!(run.pictures.rest(run.now, &Serial).unwrap(), None);
    run.encode(Duration::ZERO, ms(5));
    let coding = run.pictures.coding().unwrap();
    assert_eq!((coding.size, coding.candidates), (SIZE, 2));
    assert!(run.pictures.send(run.now, &mut run.link).unwrap().is_none());
    assert_eq!(run.pictures.rest(run.now, &Serial).unwrap(), None);
    assert!(run.send().bytes.is_some());
    assert!(run.pictures.send(run.now, &mut run.link).unwrap().is_none());
    // One that is not sent before the next is encoded is forgotten.
    run.encode(Duration::ZERO, ms(5));
    run.encode(Duration::ZERO, ms(5));
    assert_eq!(run.send().decision.number, Some(1));
    assert_eq!((run.pictures.counters().pictures, run.link.sent.len()), (3, 2));
}

#[test]
fn an_encoder_that_is_late_takes_the_newest_picture_and_each_that_is_sent_is_shown() {
    let mut run = Run::plain(FakeLink::taking(4_000));
    let (mut newest, mut receiver) = (Newest::default(), Receiver::new(Limits::default()));
    let begun = run.now;
    let (mut free, mut sent, mut shown, mut taken) = (begun, 0, 0, Vec::new());
    for number in 0..60_u32 {
        run.now = begun + INTERVAL * number;
        newest.push((run.picture(), run.now));
        // Encoding takes longer than a picture's time.
        if free >= run.now + INTERVAL {
            continue;
        }
        run.now = run.now.max(free);
        let (picture, captured) = newest.take().unwrap();
        let stamps = Stamps::captured_at(captured).with(Stage::Queued, captured);
        run.pictures.encode(run.now, &picture, stamps, &mut run.link, &Serial).unwrap();
        run.now += ms(50);
        sent += usize::from(run.send().bytes.is_some());
        (free, taken) = (run.now, [taken, vec![number]].concat());
        for (_, message) in run.link.sent.drain(..) {
            if let Ok(Fate::Shown(pictures)) = receiver.handle(run.now, &message) {
                shown += pictures.len();
            }
        }
        run.link.reports.extend(receiver.poll_report().map(Bytes::from));
    }
    let waiting = u64::from(newest.take().is_some());
    assert_eq!(newest.counts(), (60, 60 - waiting - taken.len() as u64));
    assert!((45..=50).contains(&taken.len()), "of five pictures four are encoded: {taken:?}");
    assert!(sent + 3 > taken.len(), "{sent} of {} fitted", taken.len());
    assert_eq!((shown, run.pictures.counters().shown), (sent, sent as u64 - 1));
}
