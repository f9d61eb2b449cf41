use super::*;
use bytes::Bytes;
use glassline_direct::coded::UnitHeader;
use glassline_test_support::wait::until;
use std::sync::mpsc;

/// Tells what it is shown: the numbers of units.
struct Tells(mpsc::Sender<u64>);

impl Sink for Tells {
    fn show(&mut self, shown: &display::Shown) -> io::Result<()> {
        let Content::Unit(unit) = &shown.content else { panic!("a unit") };
        assert!(shown.stamps.at(Stage::Received).is_some());
        self.0.send(unit.header.number).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn receiver() -> (VideoReceiver, mpsc::Receiver<u64>) {
    let (to, shown) = mpsc::channel();
    (VideoReceiver::new(Box::new(Tells(to)), Limits::default()).unwrap(), shown)
}

fn message(bytes: impl Into<Bytes>, skipped: u64) -> Received {
    let (first, last) = (Time::from_millis(10), Time::from_millis(12));
    Received { number: 0, bytes: bytes.into(), first, last, skipped, stale: false, stamp: None }
}

fn unit(number: u64, needs: Option<u64>) -> Vec<u8> {
    let header = UnitHeader {
        epoch: 7,
        number,
        needs,
        continues: false,
        reference: true,
        captured: Utc::from_micros(5),
        rate: None,
        passed: Stamps::default(),
    };
    let mut bytes = Vec::new();
    header.write(&mut bytes);
    bytes.extend_from_slice(&[0, 0, 0, 1, 0x65, 1, 2, 3]);
    bytes
}

#[test]
fn units_are_shown_from_a_key_frame_on_and_counted() {
    let (receiver, shown) = receiver();
    let mut coded = CodedReceiver::new();
    let units = [(0, None), (1, Some(0)), (2, Some(1))];
    let mut bytes = 0;
    for (number, needs) in units {
        let unit = unit(number, needs);
        assert!(is_unit(&unit));
        bytes += unit.len() as u64;
        receiver.take_unit(&mut coded, &message(unit, 2)).unwrap();
    }
    assert_eq!(
        [(); 3].map(|()| shown.recv_timeout(glassline_test_support::wait::PATIENCE).unwrap()),
        [0, 1, 2]
    );
    until("the count", || receiver.statistics().shown == 3);
    let told = receiver.statistics();
    assert_eq!((told.counters.pictures, told.counters.shown, told.counters.key), (3, 3, 1));
    assert_eq!((told.skipped, told.bytes, told.dropped), (6, bytes, 0));
}

#[test]
fn what_is_no_unit_or_picture_is_counted_and_passed_over() {
    let (receiver, shown) = receiver();
    let mut coded = CodedReceiver::new();
    let whole = unit(0, None);
    receiver.take_unit(&mut coded, &message(whole[..4].to_vec(), 0)).unwrap();
    assert_eq!(receiver.statistics().counters.malformed, 1);
    receiver.take(&mut Receiver::new(Limits::default()), &message(Vec::new(), 0)).unwrap();
    assert!(shown.try_recv().is_err());
    assert_eq!((receiver.statistics().bytes, receiver.statistics().states), (0, 0));
}

#[test]
fn a_sink_whose_reader_has_gone_is_told_with_what_comes_next() {
    let (receiver, shown) = receiver();
    drop(shown);
    let mut coded = CodedReceiver::new();
    receiver.take_unit(&mut coded, &message(unit(0, None), 0)).unwrap();
    let mut number = 0;
    let error = glassline_test_support::wait::until_some("the failure", || {
        number += 1;
        let taken = receiver.take_unit(&mut coded, &message(unit(number, Some(number - 1)), 0));
        taken.and_then(|()| receiver.display.failure()).err()
    });
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    receiver.finish().unwrap();
}

#[test]
fn a_picture_is_as_old_as_the_senders_wall_clock_says() {
    let (receiver, _shown) = receiver();
    let passed = Stamps::captured_at(Time::ZERO).with(Stage::Encoded, Time::from_millis(4));
    let sent = Utc::from_nanos(receiver.clock.utc().as_nanos() - 50_000_000);
    let stamps = receiver.stamps(sent, &passed, &message(Vec::new(), 0));
    let captured = stamps.at(Stage::Captured).unwrap();
    let at_most = Duration::from_nanos(receiver.clock.utc().as_nanos() - sent.as_nanos());
    assert!(captured + Duration::from_millis(50) <= receiver.clock.now());
    assert_eq!(stamps.between(Stage::Captured, Stage::Encoded), Some(Duration::from_millis(4)));
    let age = stamps.between(Stage::Captured, Stage::Decoded).unwrap();
    assert!((Duration::from_millis(50)..=at_most).contains(&age), "{age:?}");
    assert_eq!(stamps.at(Stage::Reassembled).map(|at| at.as_nanos() / 1_000_000), Some(12));
}

#[test]
fn counts_of_links_that_have_ended_are_added_each_to_its_own() {
    let of = |first: u64| ReceiverCounters {
        pictures: first,
        shown: first + 1,
        overtaken: first + 2,
        lacking: first + 3,
        damaged: first + 4,
        malformed: first + 5,
        key: first + 6,
    };
    let both = sum(of(10), of(100));
    assert_eq!((both.pictures, both.shown, both.overtaken, both.lacking), (110, 112, 114, 116));
    assert_eq!((both.damaged, both.malformed, both.key), (118, 120, 122));
}

#[test]
fn a_receiver_takes_pictures_and_sends_reports_and_keeps_no_session_waiting() {
    let (receiver, _shown) = receiver();
    assert_eq!(receiver.takes(), [VIDEO]);
    assert_eq!(receiver.sends().iter().map(|(channel, _)| *channel).collect::<Vec<_>>(), [REPORTS]);
    assert!(!receiver.is_input());
    assert_eq!(receiver.lip_sync().delay(), None);
}

#[test]
fn a_sender_that_makes_no_key_frame_is_told_of_while_its_pictures_come() {
    let (receiver, _shown) = receiver();
    let counters = |pictures| ReceiverCounters { pictures, ..ReceiverCounters::default() };
    let now = receiver.clock.now().as_nanos();
    let ago = |time: Duration| Time::from_nanos(now.saturating_sub(time.as_nanos() as u64));
    assert!(receiver.is_unheard(ago(KEY_FRAME_PATIENCE), counters(7), counters(7 + HEARD_PICTURES)));
    assert!(
        !receiver.is_unheard(ago(KEY_FRAME_PATIENCE), counters(7), counters(6 + HEARD_PICTURES)),
        "an outage"
    );
    assert!(!receiver.is_unheard(ago(KEY_FRAME_PATIENCE / 2), counters(7), counters(7 + HEARD_PICTURES)));
}

/// Takes pictures, and frames as they come or not.
struct Takes(bool);

impl Sink for Takes {
    fn show(&mut self, _: &display::Shown) -> io::Result<()> {
        Ok(())
    }

    fn takes_frames(&self) -> bool {
        self.0
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_an_output_has_begun_with_is_told_where_it_cannot_change_and_by_each_link_anew() {
    use glassline_codec::vp8::Serial;
    use glassline_direct::wire::Report;
    use glassline_direct::{Conditions, Sender, SenderSettings};
    use glassline_media::{Picture, PixelFormat, Size};
    let mut sender = Sender::new(SenderSettings::new(7, ASSUMED_RATE));
    let picture = Picture::new(PixelFormat::I420, Size::new(64, 48).unwrap(), Time::ZERO);
    let conditions = Conditions { budget: 20_000, silence: Duration::ZERO };
    sender.encode(Time::ZERO, &picture, conditions, &Serial).unwrap();
    let first = sender.choose(20_000, false, &Serial).unwrap().unwrap().message.unwrap();
    for (takes_frames, codecs) in [(true, TakenCodecs::Vp8), (false, TakenCodecs::Any)] {
        let service = VideoReceiver::new(Box::new(Takes(takes_frames)), Limits::default()).unwrap();
        for _ in 0..2 {
            let mut receiver = Receiver::new(Limits::default());
            service.take(&mut receiver, &message(first.clone(), 0)).unwrap();
            let report = receiver.poll_report().unwrap();
            assert_eq!(Report::parse(&report).unwrap().codecs, codecs);
        }
        service.finish().unwrap();
    }
}
